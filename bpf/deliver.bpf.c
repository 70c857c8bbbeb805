/* SPDX-License-Identifier: GPL-2.0-only
 *
 * Gives a packet that the daemon wrote to the delivery TAP the ingress port it came from. The TAP has a queue
 * per port; the kernel records the queue in skb->queue_mapping as queue + 1 (0: none recorded).
 *
 * deliver          direct action, last filter on the TAP's ingress: ports in native XDP mode. bpf_redirect()
 *                  does not run native XDP of the target.
 * deliver_generic  plain classifier with a "mirred ingress redirect" action, one filter (and one load of this
 *                  object) for each port in generic XDP mode. bpf_redirect() would run the port's generic XDP
 *                  again, and the steer program would send the packet back to the daemon for ever; mirred
 *                  marks the packet as redirected, and generic XDP leaves it alone (afxdp-drivers 6).
 *
 * A queue whose port is generic has no entry in deliver_ports: while its filter is missing, packets are shot
 * and counted instead of going round.
 */
#include <linux/bpf.h>
#include <linux/if_packet.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "shared.h"

#define NO_MATCH 0
#define MATCH (-1) /* run the filter's own action */

/* The queue of the one port deliver_generic answers for. Set before the load. */
const volatile __u32 deliver_queue = DELIVER_NO_QUEUE;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DELIVER_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} deliver_ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, DELIVER_QUEUES + 1);
	__type(key, __u32);
	__type(value, struct deliver_count);
} deliver_stats SEC(".maps");

static __always_inline __u32 queue_of(const struct __sk_buff *skb)
{
	__u32 queue = skb->queue_mapping - 1;

	return queue < DELIVER_QUEUES ? queue : DELIVER_NO_QUEUE;
}

static __always_inline void count(__u32 queue, __u64 packets, __u64 shot)
{
	struct deliver_count *slot = bpf_map_lookup_elem(&deliver_stats, &queue);

	if (!slot)
		return;
	slot->packets += packets;
	slot->shot += shot;
}

/*
 * The TAP's queue number means nothing on the port: the stack would warn about a receive queue that does not
 * exist there, and send all of a port's packets through one transmit queue.
 */
static __always_inline void forget_queue(struct __sk_buff *skb)
{
	skb->queue_mapping = 0;
}

SEC("tc")
int deliver(struct __sk_buff *skb)
{
	__u32 queue = queue_of(skb);
	__u32 *ifindex = bpf_map_lookup_elem(&deliver_ports, &queue);

	if (!ifindex || !*ifindex) {
		count(queue, 0, 1);
		return TC_ACT_SHOT;
	}
	count(queue, 1, 0);
	forget_queue(skb);
	return bpf_redirect(*ifindex, BPF_F_INGRESS);
}

/*
 * The kernel judged the packet by the TAP's MAC address, and mirred keeps that judgement: to the stack it
 * would be a packet for another host. The daemon only delivers what was sent to the port's own address, or to
 * a group.
 */
SEC("tc")
int deliver_generic(struct __sk_buff *skb)
{
	__u32 queue = queue_of(skb);

	if (queue == DELIVER_NO_QUEUE || queue != deliver_queue)
		return NO_MATCH;
	if (skb->pkt_type == PACKET_OTHERHOST)
		bpf_skb_change_type(skb, PACKET_HOST);
	count(queue, 1, 0);
	forget_queue(skb);
	return MATCH;
}

char _license[] SEC("license") = "GPL";
