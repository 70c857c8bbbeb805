/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The writing side of the IPv6 table; see lpm6.h.
 *
 * The tree is its own store of prefixes. Those up to /16 are kept in a complete binary tree laid out as an
 * array, 1 << plen | (first plen bits), from which the root slots are painted.
 */
#include "route/lpm6.h"

#include <errno.h>
#include <stdbool.h>

#define ROOT_BITS 16
#define STRIDE 6
#define HALF 64                 /* the level at which there always is a node above deeper ones */
#define PATH_MAX_NODES 20       /* levels 16, 22, ... 124 */

struct lpm6_builder {
	struct route_memory mem;
	uint32_t *shorts;       /* 2 << ROOT_BITS, values of the prefixes up to /16; [1] is the default */
	unsigned count;
	size_t bytes;
};

struct key {
	uint64_t hi, lo;
};

static uint64_t high_bits(unsigned n)
{
	return n ? ~0ull << (64 - n) : 0;
}

/* 32 numbers are less clear than the rule: bit 1, then the bits for 1, 2, ... 5 bits of the number. */
#define AROUND(i) (1ull << 1 | 1ull << (2 + (i) / 16) | 1ull << (4 + (i) / 8) | \
		   1ull << (8 + (i) / 4) | 1ull << (16 + (i) / 2) | 1ull << (32 + (i)))
#define AROUND4(i) AROUND(i), AROUND((i) + 1), AROUND((i) + 2), AROUND((i) + 3)

const uint64_t lpm6_around[32] = {
	AROUND4(0), AROUND4(4), AROUND4(8), AROUND4(12), AROUND4(16), AROUND4(20), AROUND4(24), AROUND4(28),
};

/* --- single nodes --- */

/* Pairs with the acquire loads of lpm6_walk() and lpm6_lookup(). */
static void publish(struct lpm6_node **slot, struct lpm6_node *n)
{
	__atomic_store_n(slot, n, __ATOMIC_RELEASE);
}

static void publish_value(uint32_t *p, uint32_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

static unsigned level_of(unsigned len)
{
	return ROOT_BITS + (len - ROOT_BITS) / STRIDE * STRIDE;
}

static unsigned rotation(unsigned level)
{
	return (level + STRIDE) % 64;
}

/* The six bits of an address below a level. */
static unsigned six_of(struct key k, unsigned level)
{
	return lpm6_rotate(level < HALF ? k.hi : k.lo, rotation(level)) & 63;
}

/* The same for any address under @n, at a level above that of @n and in the same half. */
static unsigned six_of_node(const struct lpm6_node *n, unsigned level)
{
	return lpm6_rotate(n->key, rotation(level)) & 63;
}

static uint64_t bit_of(struct key k, unsigned plen, unsigned level)
{
	return 1ull << ((64 | six_of(k, level)) >> (STRIDE - (plen - level)));
}

static size_t node_size(unsigned children, unsigned values)
{
	return sizeof(struct lpm6_node) + children * sizeof(struct lpm6_node *) + values * sizeof(uint32_t);
}

/* Without children and values yet. */
static struct lpm6_node *node_new(struct lpm6_builder *b, uint64_t key, unsigned level, uint64_t children,
				  uint64_t prefixes)
{
	unsigned n_children = __builtin_popcountll(children), n_values = __builtin_popcountll(prefixes);
	struct lpm6_node *n = b->mem.alloc(b->mem.ctx, node_size(n_children, n_values));

	if (!n)
		return NULL;
	b->bytes += node_size(n_children, n_values);
	n->key = key;
	n->prefixes = prefixes;
	n->children = children;
	n->shift = (level <= HALF ? HALF : 2 * HALF) - level;
	n->rotate = rotation(level);
	n->level = level;
	n->n_children = n_children;
	n->n_values = n_values;
	return n;
}

/* For a node no reader has seen. */
static void node_release(struct lpm6_builder *b, struct lpm6_node *n)
{
	size_t size = node_size(n->n_children, n->n_values);

	b->bytes -= size;
	b->mem.release(b->mem.ctx, n, size);
}

static void node_retire(struct lpm6_builder *b, struct lpm6_node *n)
{
	size_t size = node_size(n->n_children, n->n_values);

	b->bytes -= size;
	b->mem.retire(b->mem.ctx, n, size);
}

static struct lpm6_node **node_child(struct lpm6_node *n, unsigned six)
{
	return &n->child[lpm6_rank(n->children, six)];
}

/* @bit is a mask with one bit set. */
static uint32_t *node_value(const struct lpm6_node *n, uint64_t bit)
{
	return &lpm6_values(n)[lpm6_rank(n->prefixes, __builtin_ctzll(bit))];
}

/* A copy of @old with these bitmaps instead. What is new in them becomes @child or @value. */
static struct lpm6_node *node_edit(struct lpm6_builder *b, struct lpm6_node *old, uint64_t children,
				   uint64_t prefixes, struct lpm6_node *child, uint32_t value)
{
	struct lpm6_node *n = node_new(b, old->key, old->level, children, prefixes);
	unsigned k = 0;

	if (!n)
		return NULL;
	for (uint64_t m = children; m; m &= m - 1) {
		unsigned six = __builtin_ctzll(m);

		n->child[k++] = old->children >> six & 1 ? *node_child(old, six) : child;
	}
	k = 0;
	for (uint64_t m = prefixes; m; m &= m - 1) {
		uint64_t bit = m & -m;

		lpm6_values(n)[k++] = old->prefixes & bit ? *node_value(old, bit) : value;
	}
	return n;
}

/* --- insertion into the tree --- */

struct route {
	struct key key;
	unsigned plen;
	unsigned level;         /* of the node that holds it */
	uint32_t value;
};

/* A node for this route alone, to hang below a node at level @above, with one at HALF between if need be. */
static struct lpm6_node *branch_new(struct lpm6_builder *b, const struct route *r, unsigned above)
{
	struct lpm6_node *half;
	struct lpm6_node *n = node_new(b, r->level <= HALF ? r->key.hi : r->key.lo, r->level, 0,
				       bit_of(r->key, r->plen, r->level));

	if (!n)
		return NULL;
	lpm6_values(n)[0] = r->value;
	if (r->level <= HALF || above >= HALF)
		return n;
	half = node_new(b, r->key.hi, HALF, 1ull << six_of(r->key, HALF), 0);
	if (!half) {
		node_release(b, n);
		return NULL;
	}
	half->child[0] = n;
	return half;
}

/* Take back what branch_new() made. */
static void branch_release(struct lpm6_builder *b, struct lpm6_node *n)
{
	if (n->n_children)
		node_release(b, n->child[0]);
	node_release(b, n);
}

/* The deepest level, not below that of @n nor of a prefix at @level, down to which address and node agree. */
static unsigned common_level(const struct lpm6_node *n, struct key k, unsigned level)
{
	unsigned start = n->level > HALF ? HALF : 0;
	uint64_t diff = n->key ^ (n->level > HALF ? k.lo : k.hi);
	unsigned same = start + (diff ? __builtin_clzll(diff) : HALF);

	if (same > n->level)
		same = n->level;
	if (same > level)
		same = level;
	return level_of(same);
}

/* The route belongs above @n, in a node of its own. */
static int tree_put_above(struct lpm6_builder *b, struct lpm6_node **slot, const struct route *r)
{
	uint64_t child = 1ull << six_of_node(*slot, r->level);
	struct lpm6_node *n = node_new(b, r->level <= HALF ? r->key.hi : r->key.lo, r->level, child,
				       bit_of(r->key, r->plen, r->level));

	if (!n)
		return -ENOMEM;
	n->child[0] = *slot;
	lpm6_values(n)[0] = r->value;
	publish(slot, n);
	return 0;
}

/* The route and @n part at @level, where a new node takes both. */
static int tree_fork(struct lpm6_builder *b, struct lpm6_node **slot, const struct route *r, unsigned level)
{
	unsigned six_old = six_of_node(*slot, level), six_new = six_of(r->key, level);
	struct lpm6_node *n, *branch = branch_new(b, r, level);

	if (!branch)
		return -ENOMEM;
	n = node_new(b, (*slot)->key, level, 1ull << six_old | 1ull << six_new, 0);
	if (!n) {
		branch_release(b, branch);
		return -ENOMEM;
	}
	*node_child(n, six_old) = *slot;
	*node_child(n, six_new) = branch;
	publish(slot, n);
	return 0;
}

/* Put another version in the place of a node. */
static int tree_swap(struct lpm6_builder *b, struct lpm6_node **slot, struct lpm6_node *n)
{
	struct lpm6_node *old = *slot;

	if (!n)
		return -ENOMEM;
	publish(slot, n);
	node_retire(b, old);
	return 0;
}

static int tree_put_into(struct lpm6_builder *b, struct lpm6_node **slot, const struct route *r)
{
	struct lpm6_node *n = *slot;
	uint64_t bit = bit_of(r->key, r->plen, r->level);

	return tree_swap(b, slot, node_edit(b, n, n->children, n->prefixes | bit, NULL, r->value));
}

static int tree_put_below(struct lpm6_builder *b, struct lpm6_node **slot, const struct route *r)
{
	struct lpm6_node *n = *slot, *edited;
	struct lpm6_node *branch = branch_new(b, r, n->level);

	if (!branch)
		return -ENOMEM;
	edited = node_edit(b, n, n->children | 1ull << six_of(r->key, n->level), n->prefixes, branch, 0);
	if (!edited)
		branch_release(b, branch);
	return tree_swap(b, slot, edited);
}

/* A route that is not in the tree yet. */
static int tree_insert(struct lpm6_builder *b, struct lpm6_node **slot, const struct route *r)
{
	for (;;) {
		struct lpm6_node *n = *slot;
		unsigned common, six;

		if (!n) {
			n = branch_new(b, r, 0);
			publish(slot, n);
			return n ? 0 : -ENOMEM;
		}
		common = common_level(n, r->key, r->level);
		if (common < n->level)
			return common == r->level ? tree_put_above(b, slot, r)
						  : tree_fork(b, slot, r, common);
		if (n->level == r->level)
			return tree_put_into(b, slot, r);
		six = six_of(r->key, n->level);
		if (!(n->children >> six & 1))
			return tree_put_below(b, slot, r);
		slot = node_child(n, six);
	}
}

/* --- search and removal --- */

/* The slots from the root down to the node that holds a route. */
struct path {
	struct lpm6_node **slot[PATH_MAX_NODES];
	unsigned depth;
};

/* Follow the path to the node of this prefix; false if the prefix is not there. */
static bool tree_find(struct lpm6_node **slot, struct key k, unsigned plen, struct path *p)
{
	unsigned level = level_of(plen);

	p->depth = 0;
	for (;;) {
		struct lpm6_node *n = *slot;
		unsigned six;

		if (!n || common_level(n, k, level) < n->level)
			return false;
		p->slot[p->depth++] = slot;
		if (n->level == level)
			return n->prefixes & bit_of(k, plen, level);
		six = six_of(k, n->level);
		if (!(n->children >> six & 1))
			return false;
		slot = node_child(n, six);
	}
}

/* What takes the place of @n once it has these bitmaps, a part of those it had. */
static int node_reduce(struct lpm6_builder *b, struct lpm6_node *n, uint64_t children, uint64_t prefixes,
		       struct lpm6_node **ret)
{
	bool one_child = children && !(children & (children - 1));

	*ret = NULL;
	if (!children && !prefixes)
		return 0;
	if (one_child && !prefixes && n->level != HALF) {
		*ret = *node_child(n, __builtin_ctzll(children));
		return 0;
	}
	*ret = node_edit(b, n, children, prefixes, NULL, 0);
	return *ret ? 0 : -ENOMEM;
}

/* The nodes at the end of the path that become empty go as well. */
static int tree_remove(struct lpm6_builder *b, const struct path *p, struct key k, unsigned plen)
{
	unsigned d = p->depth - 1;
	struct lpm6_node *gone[PATH_MAX_NODES], *instead;
	struct lpm6_node *n = *p->slot[d];
	uint64_t prefixes = n->prefixes & ~bit_of(k, plen, n->level), children = n->children;
	int rc;

	while (!prefixes && !children && d > 0) {
		n = *p->slot[--d];
		prefixes = n->prefixes;
		children = n->children & ~(1ull << six_of(k, n->level));
	}
	rc = node_reduce(b, n, children, prefixes, &instead);
	if (rc < 0)
		return rc;
	for (unsigned i = d; i < p->depth; i++)
		gone[i] = *p->slot[i];
	publish(p->slot[d], instead);
	for (unsigned i = d; i < p->depth; i++)
		node_retire(b, gone[i]);
	return 0;
}

static void tree_free(struct lpm6_builder *b, struct lpm6_node *n)
{
	for (unsigned i = 0; i < n->n_children; i++)
		tree_free(b, n->child[i]);
	node_release(b, n);
}

/* --- prefixes up to /16 --- */

static unsigned short_of(struct key k, unsigned plen)
{
	return (1u << 16 | k.hi >> 48) >> (ROOT_BITS - plen);
}

/* Give all root slots below @s the value, but for those that a longer one has set. */
static void shorts_paint(struct lpm6 *t, unsigned s, uint32_t value)
{
	if (s >> ROOT_BITS) {
		publish_value(&t->root[s & 0xffff].value, value);
		return;
	}
	for (unsigned c = 2 * s; c <= 2 * s + 1; c++)
		if (!t->builder->shorts[c])
			shorts_paint(t, c, value);
}

/* Value 0 to remove. */
static void shorts_put(struct lpm6 *t, unsigned s, uint32_t value)
{
	struct lpm6_builder *b = t->builder;

	b->count += !!value - !!b->shorts[s];
	b->shorts[s] = value;
	if (s == 1) {
		publish_value(&t->default_value, value);
		return;
	}
	for (unsigned up = s; !value && up > 3; )
		value = b->shorts[up >>= 1];
	shorts_paint(t, s, value);
}

/* --- the table --- */

static struct key key_of(const uint8_t addr[16])
{
	return (struct key){ lpm6_half(addr), lpm6_half(addr + 8) };
}

static bool prefix_ok(struct key k, unsigned plen)
{
	if (plen <= 64)
		return !(k.hi & ~high_bits(plen)) && !k.lo;
	return plen <= 128 && !(k.lo & ~high_bits(plen - 64));
}

static struct lpm6_node **root_of(struct lpm6 *t, struct key k)
{
	return &t->root[k.hi >> 48].node;
}

struct lpm6 *lpm6_new(const struct route_memory *mem)
{
	struct lpm6_builder *b;
	size_t shorts = sizeof(*b->shorts) * (2 << ROOT_BITS);
	struct lpm6 *t = mem->alloc(mem->ctx, sizeof(*t));

	if (!t)
		return NULL;
	b = mem->alloc(mem->ctx, sizeof(*b));
	if (!b) {
		mem->release(mem->ctx, t, sizeof(*t));
		return NULL;
	}
	b->shorts = mem->alloc(mem->ctx, shorts);
	if (!b->shorts) {
		mem->release(mem->ctx, b, sizeof(*b));
		mem->release(mem->ctx, t, sizeof(*t));
		return NULL;
	}
	b->mem = *mem;
	b->bytes = sizeof(*t) + sizeof(*b) + shorts;
	t->builder = b;
	return t;
}

void lpm6_free(struct lpm6 *t)
{
	struct lpm6_builder *b;
	struct route_memory mem;

	if (!t)
		return;
	b = t->builder;
	mem = b->mem;
	for (unsigned i = 0; i < 1u << ROOT_BITS; i++)
		if (t->root[i].node)
			tree_free(b, t->root[i].node);
	mem.release(mem.ctx, b->shorts, sizeof(*b->shorts) * (2 << ROOT_BITS));
	mem.release(mem.ctx, b, sizeof(*b));
	mem.release(mem.ctx, t, sizeof(*t));
}

int lpm6_set(struct lpm6 *t, const uint8_t prefix[16], uint8_t plen, uint32_t value)
{
	struct key k = key_of(prefix);
	struct path p;
	int rc;

	if (!prefix_ok(k, plen) || !value || value > LPM6_VALUE_MAX)
		return -EINVAL;
	if (plen <= ROOT_BITS) {
		shorts_put(t, short_of(k, plen), value);
		return 0;
	}
	if (tree_find(root_of(t, k), k, plen, &p)) {
		const struct lpm6_node *n = *p.slot[p.depth - 1];

		publish_value(node_value(n, bit_of(k, plen, n->level)), value);
		return 0;
	}
	rc = tree_insert(t->builder, root_of(t, k), &(struct route){ k, plen, level_of(plen), value });
	t->builder->count += !rc;
	return rc;
}

int lpm6_del(struct lpm6 *t, const uint8_t prefix[16], uint8_t plen)
{
	struct key k = key_of(prefix);
	struct path p;
	int rc;

	if (!prefix_ok(k, plen))
		return -EINVAL;
	if (plen <= ROOT_BITS) {
		if (!t->builder->shorts[short_of(k, plen)])
			return -ENOENT;
		shorts_put(t, short_of(k, plen), 0);
		return 0;
	}
	if (!tree_find(root_of(t, k), k, plen, &p))
		return -ENOENT;
	rc = tree_remove(t->builder, &p, k, plen);
	t->builder->count -= !rc;
	return rc;
}

uint32_t lpm6_get_exact(const struct lpm6 *t, const uint8_t prefix[16], uint8_t plen)
{
	struct key k = key_of(prefix);
	const struct lpm6_node *n;
	struct path p;

	if (!prefix_ok(k, plen))
		return 0;
	if (plen <= ROOT_BITS)
		return t->builder->shorts[short_of(k, plen)];
	if (!tree_find(root_of((struct lpm6 *)t, k), k, plen, &p))
		return 0;
	n = *p.slot[p.depth - 1];
	return *node_value(n, bit_of(k, plen, n->level));
}

uint32_t lpm6_lookup_plen(const struct lpm6 *t, const uint8_t addr[16], uint8_t *plen)
{
	struct key k = key_of(addr);
	struct lpm6_found f = lpm6_walk(t->root[k.hi >> 48].node, k.hi, k.lo);

	if (f.match) {
		/* The number of the highest bit is 1 << n | ..., n bits below the level of the node. */
		unsigned top = 63 - __builtin_clzll(f.match);

		*plen = f.node->level + 31 - __builtin_clz(top);
		return lpm6_found_value(f);
	}
	for (unsigned s = short_of(k, ROOT_BITS); s; s >>= 1) {
		if (t->builder->shorts[s]) {
			*plen = 31 - __builtin_clz(s);
			return t->builder->shorts[s];
		}
	}
	return 0;
}

size_t lpm6_bytes(const struct lpm6 *t)
{
	return t->builder->bytes;
}

unsigned lpm6_count(const struct lpm6 *t)
{
	return t->builder->count;
}
