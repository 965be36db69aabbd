/* config_shrink.c - halves default block sizes until the target holds their tiles.
 *
 * What a user's configuration says is never changed: the plan obeys or refuses it. The limit today is the target's cap
 * on the elements of a tile, which no TPU has; this file and passes/facts/block_constraints.c are the only two that
 * read it. */
#include "config.h"

/* ---- expressions under other sizes ------------------------------------------------------------------------------ */

static int64_t expr_at(const Module *m, const Expr *e, const int64_t *sizes, const int64_t *values) {
	int64_t number = 0;
	if (e->kind == EXPR_INT)
		return e->value;
	if (e->kind == EXPR_TUNABLE)
		return m->config.tunables.at[e->value];
	if (e->kind == EXPR_BLOCK) {
		ExprId fixed = m->blocks.at[e->value].size;
		return fixed == NONE ? sizes[e->value] : values[fixed];
	}
	int64_t a = values[e->a], b = e->b == NONE ? 0 : values[e->b];
	return a != EXPR_UNKNOWN && b != EXPR_UNKNOWN && expr_apply(e->kind, a, b, &number) ? number : EXPR_UNKNOWN;
}

int64_t *expr_values_at(const Module *m, Arena *a, const int64_t *sizes) {
	int64_t *values = arena_array(a, (size_t)m->exprs.count + 1, sizeof *values);
	for (ExprId e = 0; e < m->exprs.count; e++)
		values[e] = EXPR_UNKNOWN;
	/* Operands come before what is made of them; only a block's fixed size may come after its symbol. */
	bool changed = true;
	for (uint32_t round = 0; changed && round <= m->blocks.count; round++) {
		changed = false;
		for (ExprId e = 0; e < m->exprs.count; e++) {
			int64_t value = expr_at(m, &m->exprs.at[e], sizes, values);
			changed |= value != values[e];
			values[e] = value;
		}
	}
	return values;
}

/* ---- the cap on a tile's elements ------------------------------------------------------------------------------- */

static bool too_large(const Module *m, const Type *t, const int64_t *values) {
	int64_t elements = 1;
	for (uint32_t i = 0; i < t->count; i++) {
		int64_t dim = values[t->dims[i]];
		if (dim != EXPR_UNKNOWN && !checked_mul(elements, dim, &elements))
			return true;
	}
	return elements > m->target->max_tile_elements;
}

/* The dim of `t` to halve: the outermost that stays a whole number of tiles, else the outermost that is more than 1. */
static BlockId dim_to_halve(const Module *m, const Type *t, const bool *candidate, const int64_t *sizes) {
	for (int whole = 1; whole >= 0; whole--)
		for (uint32_t i = 0; i < t->count; i++) {
			BlockId b = expr_as_block(m, t->dims[i]);
			int64_t least = whole ? target_block_multiple(m->target, 32, t->count, i) : 1;
			if (b != NONE && candidate[b] && sizes[b] / 2 >= least)
				return b;
		}
	return NONE;
}

static BlockId block_to_halve(const Module *m, const bool *candidate, const int64_t *sizes, const int64_t *values) {
	for (NodeId n = 0; n < m->nodes.count; n++) {
		if (node_get(m, n)->dead || !node_is_tile(m, n) || !too_large(m, node_type(m, n), values))
			continue;
		BlockId b = dim_to_halve(m, node_type(m, n), candidate, sizes);
		if (b != NONE)
			return b;
	}
	return NONE;
}

bool config_shrink(const Module *m, Arena *a, const bool *candidate, int64_t *sizes) {
	bool shrunk = false;
	while (m->target->max_tile_elements > 0) {
		BlockId b = block_to_halve(m, candidate, sizes, expr_values_at(m, a, sizes));
		if (b == NONE)
			break;
		sizes[b] /= 2;
		shrunk = true;
	}
	return shrunk;
}
