/* spill_chains.c - long chains of vector arithmetic that end at what waits.
 *
 * Straight code goes through a tile register by register as long as a chain of pointwise ops ends in a store. Where its
 * last one meets what comes through the unit for lanes, the compiler goes through it op by op instead, and keeps all
 * tiles that are alive at once:
 *
 *     word = philox(seed, places)          about 150 ops, seven tiles at once
 *     out = word * sum(x, -1)
 *
 * What was measured, of chains that keep 1 to 12 values of [64, 256] to [1024, 1024] on v4, v5e, v6e and v7x
 * (tests/vmem/test_vmem_measured.py):
 *
 * - A column of the tile's rows, reduced or loaded: chains of 63 ops keep all that is alive, of 59 nothing. Of less
 *   than three values waits.c has what waits.
 * - One element, loaded or reduced, and spread over the tile or over the row that meets it: chains of 23 ops keep all.
 * - All is what is alive at once in the order of the program, within a quarter of a tile; of tiles of 1 MiB and more
 *   half of it at least. A call that is several ops keeps what is alive in it.
 * - A reduction of rows: the same as a column (random numbers of [64, 256] to [512, 256], their sum, greatest or `any`
 *   of all or of each lane, on all chips: 6 to 7.9 tiles; of each row nothing).
 * - A scalar, a row that is loaded or reduced: nothing.
 * - A chain that is stored, beside a store of what comes late: the same as if it met that (random numbers of [3, 127,
 *   300] on all chips, before or behind a masked store; [2, 300, 64] beside a block that is filled and read again).
 * - Of rows that are computed in strips, the same of one strip. */
#include "live.h"

/* Ops that are looked at in all, for each of a region: most chains are short, or end once. */
enum { LONG_CHAIN = 60, LONG_CALL = 15, LOOKS = 64 };

/* What a tile meets: nothing that comes late, columns of its rows, or one element for all of them. */
typedef enum Late { LATE_NOTHING, LATE_COLUMN, LATE_ELEMENT } Late;

typedef struct Chains {
	const Lives *l;
	const Region *r;
	uint8_t *late;   /* by position: Late */
	uint32_t *seen;  /* by position: the last user whose chain it is part of */
	uint32_t *until; /* by position: where that chain reads it last */
	int64_t *ends;   /* by position: bytes that are read last there */
	int64_t left;    /* of ops to look at */
} Chains;

/* The most tiles that are alive in a call, its result among them. Measured: what `y = op(x) * one` keeps. */
static int values_in(uint16_t op) {
	switch (op) {
	case OP_ASINH: /* 4.4 */
	case OP_ERFINV:
	case OP_SINH: return 5; /* 4.0 */
	case OP_ERFC:           /* 3.4 */
	case OP_SIGN: return 4; /* 2.7 */
	case OP_EXPM1:          /* 2.3 */
	case OP_ELU:
	case OP_ASIN:
	case OP_ACOS:
	case OP_ACOSH: /* 2.4 */
	case OP_ATANH:
	case OP_LOG_SIGMOID:
	case OP_MISH:
	case OP_ROUND: /* 2.2 */
	case OP_FRAC:
	case OP_SOFTPLUS: return 3;
	case OP_SIN: /* 1.1 */
	case OP_COS:
	case OP_TAN:
	case OP_ATAN:
	case OP_COSH:
	case OP_LOG1P:
	case OP_SILU:
	case OP_HARDSWISH: /* 1.4 */
	case K_GELU_ERF:
	case K_GELU_TANH: return 2;
	default: return 1;
	}
}

static bool is_lone(const KValue *v) {
	bool lone = v->rank > 0;
	for (uint32_t d = 0; d < v->rank; d++)
		lone = lone && v->shape[d] == 1;
	return lone;
}

/* By its own shape: numbers and places that are spread are tiles, too. */
static bool is_tile(const Chains *c, const Live *x) {
	const KValue *v = live_value(c->l, x);
	return v->rank >= 2 && v->shape[v->rank - 2] > 1 && last_size(v) > 1;
}

static Late late_of(const Chains *c, const Live *x) {
	const KValue *v = live_value(c->l, x);
	if (x->part == PART_LOAD && buffer_is_filled(&c->l->k->buffers.at[live_ref(c->l, x)->buffer]))
		return LATE_COLUMN;
	if (x->part == PART_LOAD)
		return is_lone(v) ? LATE_ELEMENT : x->shape == SHAPE_COLUMN ? LATE_COLUMN : LATE_NOTHING;
	if (live_reduces_lanes(c->l, x))
		return is_lone(v) ? LATE_ELEMENT : LATE_COLUMN;
	Late late = live_op(c->l, x) == K_TO_COLUMN ? LATE_COLUMN : LATE_NOTHING;
	for (uint32_t i = 0; part_streams(x->part) && i < x->reads; i++) {
		const Live *of = c->l->reads.at[x->read + i];
		late = of->region == c->r ? (Late)int_max(late, c->late[of->pos]) : late;
	}
	return late;
}

/* Part of a chain: computed register by register, of numbers and places alone as well. */
static bool is_link(const Chains *c, const Live *x) {
	return x->region == c->r && x->reads > 0 && (part_streams(x->part) || x->part == PART_NOTHING) &&
	       c->late[x->pos] == LATE_NOTHING;
}

/* Marks what the chain that ends with x is made of; how many ops, and where it begins. */
static int64_t mark_chain(Chains *c, const Live *x, uint32_t user, uint32_t *first) {
	VEC(const Live *) left = {0};
	int64_t ops = 0;
	vec_push(c->l->a, &left, x);
	c->seen[x->pos] = c->until[x->pos] = user;
	while (left.count) {
		const Live *at = left.at[--left.count];
		ops += values_in(live_op(c->l, at)) > 1 ? LONG_CALL : 1;
		*first = (uint32_t)int_min(*first, at->pos);
		for (uint32_t i = 0; i < at->reads; i++) {
			const Live *of = c->l->reads.at[at->read + i];
			if (!is_link(c, of))
				continue;
			if (c->seen[of->pos] != user) {
				c->seen[of->pos] = user;
				c->until[of->pos] = at->pos;
				vec_push(c->l->a, &left, of);
			}
			c->until[of->pos] = (uint32_t)int_max(c->until[of->pos], at->pos);
		}
	}
	return ops;
}

/* The most bytes of it that are alive at once. */
static int64_t alive(Chains *c, uint32_t first, uint32_t user) {
	int64_t now = 0, most = 0;
	for (uint32_t pos = first; pos < user; pos++) {
		now -= c->ends[pos];
		c->ends[pos] = 0;
		if (c->seen[pos] != user)
			continue;
		int64_t bytes = live_wide_bytes(c->l, &c->r->at[pos]);
		most = int_max(most, now + bytes * values_in(live_op(c->l, &c->r->at[pos])));
		now = int_min(now + bytes, TOO_MUCH);
		c->ends[c->until[pos]] += bytes;
	}
	c->ends[user] = 0;
	return most;
}

/* The latest of what it reads. */
static Late late_read(const Chains *c, const Live *user) {
	Late late = LATE_NOTHING;
	for (uint32_t i = 0; i < user->reads; i++) {
		const Live *of = c->l->reads.at[user->read + i];
		late = of->region == c->r ? (Late)int_max(late, c->late[of->pos]) : late;
	}
	return late;
}

/* Of the chains that `user` ends, which waits for what is so late. */
static int64_t kept_for(Chains *c, const Live *user, Late late) {
	int64_t kept = 0;
	for (uint32_t i = 0; late != LATE_NOTHING && i < user->reads && c->left > 0; i++) {
		const Live *of = c->l->reads.at[user->read + i];
		if (!is_link(c, of) || !is_tile(c, of) || c->seen[of->pos] == user->pos)
			continue;
		uint32_t first = user->pos;
		int64_t tile = live_wide_bytes(c->l, part_streams(user->part) ? user : of);
		int64_t ops = mark_chain(c, of, user->pos, &first), most = alive(c, first, user->pos);
		c->left -= user->pos - first;
		bool all = late == LATE_ELEMENT ? most >= 2 * tile : ops >= LONG_CHAIN && most >= 3 * tile;
		kept = int_max(kept, all ? most - tile / 4 * 3 : 0);
	}
	return kept;
}

static int64_t region_chains(const Lives *l, const Region *r) {
	uint32_t count = r->count + 2;
	Chains c = {.l = l,
	            .r = r,
	            .late = arena_array(l->a, count, sizeof *c.late),
	            .seen = arena_array(l->a, count, sizeof *c.seen),
	            .until = arena_array(l->a, count, sizeof *c.until),
	            .ends = arena_array(l->a, count, sizeof *c.ends),
	            .left = (int64_t)count * LOOKS};
	int64_t kept = 0, inside = 0;
	Late stored = LATE_NOTHING;
	for (uint32_t pos = 1; pos <= r->count; pos++) {
		const Live *x = &r->at[pos];
		if (x->body)
			inside = int_max(inside, region_chains(l, x->body));
		c.late[pos] = (uint8_t)late_of(&c, x);
		if (is_tile(&c, x) && part_streams(x->part) && c.late[pos] != LATE_NOTHING)
			kept = int_max(kept, kept_for(&c, x, late_read(&c, x)));
		if (live_reduces_rows(l, x))
			kept = int_max(kept, kept_for(&c, x, LATE_COLUMN));
		stored = (Late)int_max(stored, x->part == PART_STORE ? late_read(&c, x) : LATE_NOTHING);
	}
	for (uint32_t pos = 1; pos <= r->count && stored != LATE_NOTHING; pos++)
		if (r->at[pos].part == PART_STORE)
			kept = int_max(kept, kept_for(&c, &r->at[pos], stored));
	return int_max(kept, inside);
}

int64_t spilled_by_late_chains(const Lives *l) { return region_chains(l, l->root); }
