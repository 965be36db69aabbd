/* ranges.c - between which ints an int of the kernel lies, over the grid and the loops around it, or where some of
 * these are pinned to one step: whether an index may leave its tensor, how many steps a loop takes, and whether a
 * condition holds for every lane of a tile. */
#include "plan.h"

/* Both ends, where they are known. */
typedef struct Range {
	bool has_min, has_max;
	int64_t min, max;
} Range;

static Range range_of(Planner *p, const Affine *a);

static Range range_of_arg(Planner *p, NodeId n, uint32_t i) {
	Affine a = affine_of_arg(p, node_get(p->m, n)->graph, node_arg(p->m, n, i));
	return range_of(p, &a);
}

static int64_t floor_divide(int64_t a, int64_t by) { return a / by - (a % by != 0 && a < 0); }

/* Of a // b and a % b, where b is one positive int. */
static Range range_of_division(Planner *p, NodeId n) {
	Range a = range_of_arg(p, n, 0), b = range_of_arg(p, n, 1), out = {0};
	if (!b.has_min || !b.has_max || b.min != b.max || b.min <= 0)
		return out;
	if (node_get(p->m, n)->op == OP_SYM_MOD)
		return (Range){true, true, 0, b.min - 1};
	return (Range){a.has_min, a.has_max, a.has_min ? floor_divide(a.min, b.min) : 0,
	               a.has_max ? floor_divide(a.max, b.min) : 0};
}

/* Of the larger or the smaller of two. */
static Range range_of_choice(Planner *p, NodeId n, bool larger) {
	Range a = range_of_arg(p, n, 0), b = range_of_arg(p, n, 1), out = {0};
	bool mins = a.has_min && b.has_min, maxes = a.has_max && b.has_max;
	if (larger) {
		out.has_min = a.has_min || b.has_min;
		out.min = mins ? int_max(a.min, b.min) : a.has_min ? a.min : b.min;
		out.has_max = maxes;
		out.max = int_max(a.max, b.max);
	} else {
		out.has_max = a.has_max || b.has_max;
		out.max = maxes ? int_min(a.max, b.max) : a.has_max ? a.max : b.max;
		out.has_min = mins;
		out.min = int_min(a.min, b.min);
	}
	return out;
}

/* min(begin + size, end of the range) is at most the range's end. Pinned, it is one int. */
static Range range_of_tile_end(Planner *p, NodeId n) {
	BlockId b = query_block(p->m, n);
	Affine begin = block_offset(p, node_get(p->m, n)->graph, b);
	Range out = range_of(p, &begin);
	bool one = p->pins && out.has_min && out.has_max && out.min == out.max;
	out.has_max = p->m->blocks.at[b].extent != NONE;
	out.max = out.has_max ? expr_number(p->m, p->m->blocks.at[b].extent) : 0;
	if (one && out.has_max)
		out.min = out.max = int_min(out.min + block_size(p, b), out.max);
	return out;
}

static Range range_of_clamp(Planner *p, NodeId n) {
	const Arg *low = op_arg(p->m, n, "min"), *high = op_arg(p->m, n, "max");
	bool has_min = low->kind == ARG_INT, has_max = high->kind == ARG_INT;
	return (Range){has_min, has_max, has_min ? low->integer : 0, has_max ? high->integer : 0};
}

/* It is one of the two. */
static Range range_of_where(Planner *p, NodeId n) {
	Range a = range_of_arg(p, n, 1), b = range_of_arg(p, n, 2);
	return (Range){a.has_min && b.has_min, a.has_max && b.has_max, int_min(a.min, b.min), int_max(a.max, b.max)};
}

static Range range_of_node(Planner *p, NodeId n) {
	switch (node_get(p->m, n)->op) {
	case OP_WHERE: return range_of_where(p, n);
	case OP_CLAMP: return range_of_clamp(p, n);
	case OP_TILE_END: return range_of_tile_end(p, n);
	case OP_SYM_MAX: return range_of_choice(p, n, true);
	case OP_SYM_MIN: return range_of_choice(p, n, false);
	case OP_SYM_FLOORDIV:
	case OP_SYM_MOD: return range_of_division(p, n);
	default: return (Range){0};
	}
}

/* The part of the variable that the term takes. */
static int64_t part_of(const Term *t, int64_t x) {
	x = t->divide ? x / t->divide : x;
	return t->modulo ? x % t->modulo : x;
}

static Range range_of_term(Planner *p, const Term *t) {
	int64_t last;
	for (uint32_t i = 0; i < p->pins; i++)
		if (p->pin[i].kind == t->kind && p->pin[i].id == t->id)
			return (Range){true, true, part_of(t, p->pin[i].at), part_of(t, p->pin[i].at)};
	if (t->kind == VAR_NODE)
		return range_of_node(p, t->id);
	if (t->kind == VAR_PLACE)
		return (Range){true, true, 0,
		               term_last(t, p->plan->places.at[t->id / RANK_MAX].of[t->id % RANK_MAX].extent - 1)};
	if (t->kind == VAR_PROGRAM)
		return (Range){true, true, 0, term_last(t, p->plan->grid.at[t->id].steps - 1)};
	if (!loop_most_steps(p, &p->plan->loops.at[t->id / RANK_MAX].dim[t->id % RANK_MAX], &last))
		return (Range){.has_min = true};
	return (Range){true, true, 0, term_last(t, int_max(last - 1, 0))};
}

static Range range_of(Planner *p, const Affine *a) {
	Range sum = {true, true, a->constant, a->constant};
	for (uint32_t i = 0; i < a->count; i++) {
		Range r = range_of_term(p, &a->term[i]);
		int64_t scale = a->term[i].scale;
		bool up = scale > 0;
		sum.has_min = sum.has_min && (up ? r.has_min : r.has_max);
		sum.has_max = sum.has_max && (up ? r.has_max : r.has_min);
		sum.min += scale * (up ? r.min : r.max);
		sum.max += scale * (up ? r.max : r.min);
	}
	return sum;
}

bool affine_max(Planner *p, const Affine *a, int64_t *max) {
	Range r = range_of(p, a);
	*max = r.max;
	return r.has_max;
}

bool affine_min(Planner *p, const Affine *a, int64_t *min) {
	Range r = range_of(p, a);
	*min = r.min;
	return r.has_min;
}
