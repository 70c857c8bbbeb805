/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Quiescent states of threads that read under userspace RCU (liburcu, QSBR flavour): what a reader calls instead of
 * liburcu's functions. They are liburcu's functions; the thread sanitizer, which does not see into that library, is
 * told of the order that they establish, as it would report each freed block otherwise.
 *
 * A reader: quiescent_register() once; quiescent_state() between batches, holding nothing that came from RCU;
 * quiescent_offline() before it may sleep, quiescent_online() after; quiescent_unregister() before it ends.
 */
#ifndef ROUTERD_COMMON_QUIESCENT_H
#define ROUTERD_COMMON_QUIESCENT_H

#include <urcu-qsbr.h>

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
/* Any address that both sides know will do. */
#define QUIESCENT_RELEASE() __tsan_release((void *)(uintptr_t)urcu_qsbr_quiescent_state)
#define QUIESCENT_ACQUIRE() __tsan_acquire((void *)(uintptr_t)urcu_qsbr_quiescent_state)
#else
#define QUIESCENT_RELEASE() ((void)0)
#define QUIESCENT_ACQUIRE() ((void)0)
#endif

static inline void quiescent_register(void)
{
	rcu_register_thread();
}

static inline void quiescent_unregister(void)
{
	QUIESCENT_RELEASE();
	rcu_unregister_thread();
}

static inline void quiescent_state(void)
{
	QUIESCENT_RELEASE();
	rcu_quiescent_state();
}

static inline void quiescent_offline(void)
{
	QUIESCENT_RELEASE();
	rcu_thread_offline();
}

static inline void quiescent_online(void)
{
	rcu_thread_online();
}

/* Wait until each reader that is online now has been through a quiescent state. Not from an online reader's batch;
 * it may sleep. */
static inline void quiescent_wait(void)
{
	synchronize_rcu();
	QUIESCENT_ACQUIRE();
}

#endif
