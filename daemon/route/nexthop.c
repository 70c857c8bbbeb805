/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Next-hop groups. A group is found by its content, so that routes which say the same share one; it is immutable
 * once published, and lives while a reference is held. The hash of contents belongs to the writer alone.
 *
 * A reader comes to a group by its number. When the last reference goes the number keeps leading to the group, whose
 * memory is retired, and is given out anew only after a grace period (fib_private.h).
 */
#include "route/fib.h"

#include <errno.h>
#include <string.h>

#include "route/fib_private.h"

#define CELLS_START 64
#define WEIGHT_MAX 65536
#define HASH_BITS 31

static size_t group_bytes(unsigned paths)
{
	return sizeof(struct fib_group) + paths * sizeof(struct fib_path);
}

/* ---- the hash of contents ---- */

static uint32_t group_hash(const struct fib_writer *w, const struct fib_group *g)
{
	uint32_t head[2] = { g->mtu, (uint32_t)g->verdict << 16 | g->path_count };
	uint32_t h = fib_hash_words(w->seed, head, 2);

	return fib_hash_words(w->seed ^ h, g->paths, g->path_count * sizeof(g->paths[0]) / 4);
}

static bool same_content(const struct fib_group *a, const struct fib_group *b)
{
	return a->verdict == b->verdict && a->mtu == b->mtu && a->path_count == b->path_count &&
		!memcmp(a->paths, b->paths, a->path_count * sizeof(a->paths[0]));
}

/* The cell of the group with this content, or the empty one where it would go. There always is an empty one. */
static struct fib_group_cell *cell_seek(const struct fib *f, uint32_t hash, const struct fib_group *g)
{
	const struct fib_writer *w = f->writer;
	struct fib_group_cell *c;

	for (uint32_t i = hash & w->cells_mask;; i = (i + 1) & w->cells_mask) {
		c = &w->cells[i];
		if (!c->number || (c->hash == hash && same_content(f->groups[c->number], g)))
			return c;
	}
}

static void cell_insert_new(struct fib_group_cell *cells, uint32_t mask, struct fib_group_cell c)
{
	uint32_t i = c.hash & mask;

	while (cells[i].number)
		i = (i + 1) & mask;
	cells[i] = c;
}

/* Room for one more at a fill of at most 3/4. */
static int cells_reserve(struct fib *f)
{
	struct fib_writer *w = f->writer;
	uint32_t old = w->cells ? w->cells_mask + 1 : 0;
	uint32_t want = old ? old * 2 : CELLS_START;
	struct fib_group_cell *cells;

	if ((uint64_t)(w->groups.in_use + 1) * 4 <= (uint64_t)old * 3)
		return 0;
	cells = fib_alloc(f, &w->bytes_groups, want * sizeof(*cells));
	if (!cells)
		return -ENOMEM;
	for (uint32_t i = 0; i < old; i++)
		if (w->cells[i].number)
			cell_insert_new(cells, want - 1, w->cells[i]);
	fib_release(f, &w->bytes_groups, w->cells, old * sizeof(*cells));
	w->cells = cells;
	w->cells_mask = want - 1;
	return 0;
}

/* Move up what was pushed behind the hole, so that no search stops too early. */
static void cell_remove(struct fib_writer *w, struct fib_group_cell *c)
{
	uint32_t mask = w->cells_mask;
	uint32_t hole = c - w->cells;

	for (uint32_t i = (hole + 1) & mask; w->cells[i].number; i = (i + 1) & mask) {
		if (((i - w->cells[i].hash) & mask) < ((i - hole) & mask))
			continue;
		w->cells[hole] = w->cells[i];
		hole = i;
	}
	w->cells[hole].number = 0;
}

/* ---- from the specification to a group ---- */

static bool verdict_ok(enum verdict v)
{
	return v == VERDICT_FORWARD || v == VERDICT_DROP_BLACKHOLE ||
		((unsigned)v < VERDICT_COUNT && verdict_class(v) == VERDICT_CLASS_KERNEL);
}

static bool path_ok(const struct fib_path_spec *s)
{
	return s->iface != FIB_IFACE_NONE && s->iface < FIB_IFACE_MAX && s->weight >= 1 && s->weight <= WEIGHT_MAX &&
		(s->gateway_family == 0 || s->gateway_family == 4 || s->gateway_family == 6);
}

static bool spec_ok(enum verdict verdict, const struct fib_path_spec *paths, unsigned count)
{
	if (!verdict_ok(verdict) || count > FIB_PATHS_MAX || (verdict == VERDICT_FORWARD) != (count > 0))
		return false;
	for (unsigned i = 0; i < count; i++)
		if (!path_ok(&paths[i]))
			return false;
	return true;
}

/* Share the 31 bits of hash by weight among those alive (semantics M1): the cumulated weight's part, rounded to the
 * nearest. The last one alive ends at the last hash value. */
static void set_bounds(struct fib_group *g)
{
	uint64_t total = 0, sum = 0;
	uint32_t bound = 0;

	for (unsigned i = 0; i < g->path_count; i++)
		if (!(g->paths[i].flags & FIB_PATH_DEAD))
			total += g->paths[i].weight;
	for (unsigned i = 0; i < g->path_count; i++) {
		if (!(g->paths[i].flags & FIB_PATH_DEAD)) {
			sum += g->paths[i].weight;
			bound = ((sum << HASH_BITS) + total / 2) / total - 1;
		}
		g->paths[i].bound = bound;
	}
}

/* The content for a specification, in the scratch group. A gateway without a slot leaves FIB_NEIGH_NONE behind and
 * counts in *@ret_missing: then there can be no such group yet. */
static struct fib_group *describe(struct fib *f, enum verdict verdict, uint32_t mtu,
	const struct fib_path_spec *specs, unsigned count, unsigned *ret_missing)
{
	struct fib_group *g = f->writer->scratch;
	unsigned alive = 0;

	*ret_missing = 0;
	for (unsigned i = 0; i < count; i++) {
		const struct fib_path_spec *s = &specs[i];
		struct fib_path *p = &g->paths[i];

		*p = (struct fib_path){ .iface = s->iface, .weight = s->weight };
		p->flags = (s->gateway_family ? 0 : FIB_PATH_ON_LINK) | (s->dead ? FIB_PATH_DEAD : 0);
		if (s->gateway_family)
			p->neighbour = fib_neigh_find(f, s->iface, s->gateway_family, s->gateway);
		*ret_missing += s->gateway_family && p->neighbour == FIB_NEIGH_NONE;
		alive += !s->dead;
	}
	*g = (struct fib_group){ .mtu = mtu, .verdict = verdict, .path_count = count };
	if (count && !alive) {
		*g = (struct fib_group){ .mtu = mtu, .verdict = VERDICT_KERNEL_UNREACHABLE };
		*ret_missing = 0;
	}
	set_bounds(g);
	return g;
}

static void put_neighbours(struct fib *f, const struct fib_group *g, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (!(g->paths[i].flags & FIB_PATH_ON_LINK))
			fib_neigh_put(f, g->paths[i].neighbour);
}

/* A reference to the slot of each gateway, made if missing. */
static int get_neighbours(struct fib *f, struct fib_group *g, const struct fib_path_spec *specs)
{
	for (unsigned i = 0; i < g->path_count; i++) {
		const struct fib_path_spec *s = &specs[i];

		if (!s->gateway_family)
			continue;
		if (fib_neigh_get(f, s->iface, s->gateway_family, s->gateway, &g->paths[i].neighbour) < 0) {
			put_neighbours(f, g, i);
			return -ENOMEM;
		}
	}
	return 0;
}

/* ---- groups ---- */

/* All that can fail, before anything changes. */
static int prepare(struct fib *f, uint32_t *ret_number)
{
	struct fib_writer *w = f->writer;
	int rc = number_next(f, &w->groups, ret_number);

	if (rc < 0)
		return rc;
	if (w->groups_capacity < w->groups.capacity &&
		fib_grow_array(f, &w->bytes_groups, &f->groups, &w->groups_capacity, w->groups.capacity) < 0)
		return -ENOMEM;
	return cells_reserve(f);
}

static int group_make(struct fib *f, struct fib_group *content, const struct fib_path_spec *specs, uint32_t *ret)
{
	struct fib_writer *w = f->writer;
	size_t bytes = group_bytes(content->path_count);
	struct fib_group *g;
	uint32_t number;
	int rc = prepare(f, &number);

	if (rc < 0)
		return rc;
	g = fib_alloc(f, &w->bytes_groups, bytes);
	if (!g)
		return -ENOMEM;
	if (get_neighbours(f, content, specs) < 0) {
		fib_release(f, &w->bytes_groups, g, bytes);
		return -ENOMEM;
	}
	memcpy(g, content, bytes);
	g->number = number;
	g->references = 1;
	cell_insert_new(w->cells, w->cells_mask, (struct fib_group_cell){ group_hash(w, g), number });
	number_take(&w->groups, number);
	__atomic_store_n(&f->groups[number], g, __ATOMIC_RELEASE);
	*ret = number;
	return 0;
}

int fib_group_get(struct fib *f, enum verdict verdict, uint32_t mtu, const struct fib_path_spec *paths,
	unsigned count, uint32_t *ret)
{
	struct fib_group *content;
	struct fib_group_cell *c;
	unsigned missing;

	if (!spec_ok(verdict, paths, count))
		return -EINVAL;
	content = describe(f, verdict, mtu, paths, count, &missing);
	if (!missing) {
		c = cell_seek(f, group_hash(f->writer, content), content);
		if (c->number) {
			f->groups[c->number]->references++;
			*ret = c->number;
			return 0;
		}
	}
	return group_make(f, content, paths, ret);
}

void fib_group_put(struct fib *f, uint32_t group)
{
	struct fib_writer *w = f->writer;
	struct fib_group *g;

	if (!number_live(&w->groups, group))
		return;
	g = f->groups[group];
	if (--g->references)
		return;
	cell_remove(w, cell_seek(f, group_hash(w, g), g));
	put_neighbours(f, g, g->path_count);
	/* f->groups[group] stays: a reader may have the number and not yet the pointer. */
	number_close(f, &w->groups, group);
	fib_retire(f, &w->bytes_groups, g, group_bytes(g->path_count));
}

int fib_groups_init(struct fib *f)
{
	struct fib_writer *w = f->writer;

	w->scratch = fib_alloc(f, &w->bytes_groups, group_bytes(FIB_PATHS_MAX));
	if (!w->scratch)
		return -ENOMEM;
	return cells_reserve(f);
}

void fib_groups_fini(struct fib *f)
{
	struct fib_writer *w = f->writer;
	size_t *account = &w->bytes_groups;

	for (uint32_t n = 1; n < w->groups.fresh; n++)
		if (number_live(&w->groups, n))
			fib_release(f, account, f->groups[n], group_bytes(f->groups[n]->path_count));
	fib_release(f, account, f->groups, w->groups_capacity * sizeof(*f->groups));
	if (w->cells)
		fib_release(f, account, w->cells, (w->cells_mask + 1) * sizeof(*w->cells));
	fib_release(f, account, w->scratch, group_bytes(FIB_PATHS_MAX));
	number_pool_fini(f, &w->groups);
}
