/* counted.c - a loop whose bounds are computed in the kernel, of which the plan knows how many steps there are at each
 * grid point: those of causal attention end with the tile of the rows. It can be skewed as one whose bounds are ints.
 *
 *   for tile_n in hl.tile(0, tile_m.end):              tile_m + 1 steps of the tile's rows: at least 1
 *     s = where(rows >= columns, q @ k.T, -inf)        needed where some row comes before some column: in the last
 *
 * A choice by position that gives all lanes of one value but in the last steps is made there alone: under a flag. So is
 * one that the first step needs as well, as of a sliding window: what runs ahead of that has the flag, too. */
#include "loops.h"
#include "codegen/lower/lower.h"
#include "passes/facts/facts.h"

/* Points of the grid, and steps at them, that are looked at. */
enum { POINTS_MAX = 1 << 12, STEPS_MAX = 1 << 16 };

/* How many steps there are, where the pins leave one number. */
bool dim_steps_here(Planner *p, const LoopDim *d, int64_t *steps) {
	Affine length = affine_sub(p->a, d->end, d->begin);
	int64_t most;
	if (!affine_min(p, &length, steps) || !affine_max(p, &length, &most) || *steps != most || *steps < 0)
		return false;
	*steps = int_cdiv(*steps, d->step);
	return true;
}

static void note_kind(StepCounts *out, int64_t steps) {
	uint32_t i = 0;
	while (i < out->kinds && i < STEP_KINDS && out->kind[i] != steps)
		i++;
	if (i < STEP_KINDS)
		out->kind[i] = steps;
	if (i < STEP_KINDS)
		out->points_of[i]++;
	out->kinds = (uint32_t)int_max(out->kinds, i + 1);
}

/* The counts of the steps where only grid dim `dim` moves the loop's bounds. */
static bool count_along(Planner *p, const LoopDim *d, uint32_t dim, StepCounts *out) {
	bool known = true;
	*out = (StepCounts){.dim = dim, .points = p->plan->grid.at[dim].steps, .least = INT64_MAX, .even = true};
	p->pins = 1;
	for (int64_t i = 0; i < out->points && known; i++) {
		int64_t steps = 0;
		p->pin[0] = (Pin){VAR_PROGRAM, dim, i};
		known = dim_steps_here(p, d, &steps);
		out->least = int_min(out->least, steps);
		out->most = int_max(out->most, steps);
		out->even = out->even && steps % 2 == 0;
		out->sum += steps;
		note_kind(out, steps);
	}
	p->pins = 0;
	return known;
}

StepCounts dim_counts(Planner *p, const LoopDim *d) {
	StepCounts counts;
	for (uint32_t dim = 0; dim < p->plan->grid.count; dim++)
		if (p->plan->grid.at[dim].steps > 1 && p->plan->grid.at[dim].steps <= POINTS_MAX &&
		    count_along(p, d, dim, &counts))
			return counts;
	return (StepCounts){0};
}

bool loop_counts(Planner *p, const Loop *loop, StepCounts *out) {
	if (loop->rank != 1 || !loop->dim[0].computed || loop->parent != NONE || loop_ragged_unpeeled(p, loop))
		return false;
	*out = loop->dim[0].counts;
	return out->least > 0;
}

/* ---- whether a condition can fail -------------------------------------------------------------------------------- */

/* Between which ints all lanes of a value lie, where both ends are known. */
typedef struct Span {
	bool has_min, has_max;
	int64_t min, max;
} Span;

static Span span_of(Planner *p, const Affine *a) {
	Span s = {0};
	s.has_min = affine_min(p, a, &s.min);
	s.has_max = affine_max(p, a, &s.max);
	return s;
}

static Span span_of_lanes(Planner *p, NodeId user, uint32_t i);

/* a + b, or a - b; unknown where a sum may wrap around. */
static Span span_of_sum(Span a, Span b, bool subtract, Dtype dtype) {
	bool (*combine)(int64_t, int64_t, int64_t *) = subtract ? checked_sub : checked_add;
	IntRange range = dtype_range(dtype);
	Span sum = {true, true, 0, 0};
	bool fits = a.has_min && a.has_max && b.has_min && b.has_max &&
	            combine(a.min, subtract ? b.max : b.min, &sum.min) &&
	            combine(a.max, subtract ? b.min : b.max, &sum.max) && sum.min >= range.low && sum.max <= range.high;
	return fits ? sum : (Span){0};
}

/* Of a tile's numbers, and of what is added to them. */
static Span span_of_tile(Planner *p, NodeId n) {
	const Node *node = node_get(p->m, n);
	uint16_t op = op_canonical(node->op);
	if (node_type(p->m, n)->kind == TYPE_SYM) {
		Arg ref = arg_ref(n);
		Affine a = affine_of_arg(p, node->graph, &ref);
		return span_of(p, &a);
	}
	if (op == OP_TILE_INDEX) {
		BlockId b = query_block(p->m, n);
		Affine begin = block_offset(p, node->graph, b);
		Span r = span_of(p, &begin);
		int64_t start = 0, size = block_size(p, b);
		for (uint32_t i = 0; i < p->parts; i++)
			if (p->part[i].block == b)
				start = p->part[i].start, size = p->part[i].size;
		r.has_min = r.has_min && checked_add(r.min, start, &r.min);
		r.has_max = r.has_max && checked_add(r.max, start + size - 1, &r.max);
		return r;
	}
	if (op_lowering(node->op) == LOWER_VIEW)
		return span_of_lanes(p, n, 0);
	if ((op != OP_ADD && op != OP_SUB) || dtype_class(node_type(p->m, n)->dtype) != DTYPE_CLASS_SIGNED ||
	    !is_absent_or(op_arg(p->m, n, "alpha"), 1))
		return (Span){0};
	return span_of_sum(span_of_lanes(p, n, 0), span_of_lanes(p, n, 1), op == OP_SUB, node_type(p->m, n)->dtype);
}

static Span span_of_lanes(Planner *p, NodeId user, uint32_t i) {
	const Arg *a = node_arg(p->m, user, i);
	if (a->kind == ARG_REF)
		return span_of_tile(p, a->node);
	return a->kind == ARG_INT ? (Span){true, true, a->integer, a->integer} : (Span){0};
}

/* No lane of what the first gives is below one of the second, by so much more. */
static bool above(Planner *p, NodeId n, uint32_t high, int64_t more) {
	Span a = span_of_lanes(p, n, high), b = span_of_lanes(p, n, 1 - high);
	return a.has_min && b.has_max && (a.min > b.max || (!more && a.min == b.max));
}

/* The condition, of positions, is `wanted` for each lane of its tile, wherever the planner's pins and parts leave it.
 */
static bool condition_is(Planner *p, NodeId n, bool wanted) {
	const Node *node = node_get(p->m, n);
	if (op_lowering(node->op) == LOWER_VIEW)
		return node_arg(p->m, n, 0)->kind == ARG_REF && condition_is(p, node_arg(p->m, n, 0)->node, wanted);
	switch (op_canonical(node->op)) {
	case OP_GE: return above(p, n, wanted ? 0 : 1, wanted ? 0 : 1);
	case OP_GT: return above(p, n, wanted ? 0 : 1, wanted ? 1 : 0);
	case OP_LE: return above(p, n, wanted ? 1 : 0, wanted ? 0 : 1);
	case OP_LT: return above(p, n, wanted ? 1 : 0, wanted ? 1 : 0);
	case OP_LOGICAL_AND:
	case OP_BITWISE_AND: {
		bool is[2];
		for (uint32_t i = 0; i < 2; i++)
			is[i] = node_arg(p->m, n, i)->kind == ARG_REF &&
			        condition_is(p, node_arg(p->m, n, i)->node, wanted);
		return wanted ? is[0] && is[1] : is[0] || is[1];
	}
	default: return false;
	}
}

bool condition_fails(Planner *p, NodeId n) { return condition_is(p, n, false); }

/* ---- in which steps ---------------------------------------------------------------------------------------------- */

/* Of the steps at a point, from step j on, how many the first of which the condition does not always hold leaves;
 * `left` falls by those that are looked at. */
static int64_t steps_from_first(Planner *p, uint32_t l, NodeId condition, int64_t j, int64_t steps, int64_t *left) {
	p->pins = 2;
	for (bool holds = true; j < steps && holds && *left > 0; (*left)--) {
		p->pin[1] = (Pin){VAR_STEP, l * RANK_MAX, j};
		holds = condition_is(p, condition, true);
		j += holds;
	}
	p->pins = 1;
	return steps - j;
}

bool choice_is_seldom(Planner *p, uint32_t l, NodeId choice, const StepCounts *counts, int64_t last, bool *first) {
	const Arg *condition = node_arg(p->m, choice, 0);
	int64_t left = STEPS_MAX;
	bool seldom = op_canonical(node_get(p->m, choice)->op) == OP_WHERE && condition->kind == ARG_REF &&
	              node_type(p->m, choice)->count > 0 && p->plan->values[choice].mask_count == 0 &&
	              node_arg(p->m, choice, 1)->kind == ARG_REF && counts->least >= last;
	p->pins = 1;
	for (int64_t i = 0; i < p->plan->grid.at[counts->dim].steps && seldom; i++) {
		int64_t steps = 0;
		p->pin[0] = (Pin){VAR_PROGRAM, counts->dim, i};
		seldom = dim_steps_here(p, &p->plan->loops.at[l].dim[0], &steps);
		if (!seldom || steps_from_first(p, l, condition->node, 0, steps, &left) <= last)
			continue;
		seldom = first && steps_from_first(p, l, condition->node, 1, steps, &left) <= last;
		if (first)
			*first = true;
	}
	seldom = seldom && left > 0;
	p->pins = 0;
	return seldom;
}
