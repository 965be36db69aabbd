/* counted.c - a loop whose bounds are computed in the kernel, of which the plan knows how many steps there are at each
 * grid point: those of causal attention end with the tile of the rows. It can be skewed as one whose bounds are ints.
 *
 *   for tile_n in hl.tile(0, tile_m.end):              tile_m + 1 steps of the tile's rows: at least 1
 *     s = where(rows >= columns, q @ k.T, -inf)        needed where some row comes before some column: in the last
 *
 * A choice by position that gives all lanes of one value but in the last steps is made there alone: under a flag. */
#include "loops.h"
#include "codegen/lower/lower.h"

/* Points of the grid, and steps at them, that are looked at. */
enum { POINTS_MAX = 1 << 12, STEPS_MAX = 1 << 16 };

/* How many steps there are, where the pins leave one number. */
static bool steps_here(Planner *p, const LoopDim *d, int64_t *steps) {
	Affine length = affine_sub(p->a, d->end, d->begin);
	int64_t most;
	if (!affine_min(p, &length, steps) || !affine_max(p, &length, &most) || *steps != most || *steps < 0)
		return false;
	*steps = int_cdiv(*steps, d->step);
	return true;
}

/* The counts of the steps where only grid dim `dim` moves the loop's bounds. */
static bool count_along(Planner *p, const LoopDim *d, uint32_t dim, StepCounts *out) {
	bool known = true;
	*out = (StepCounts){.dim = dim, .least = INT64_MAX, .even = true};
	p->pins = 1;
	for (int64_t i = 0; i < p->plan->grid.at[dim].steps && known; i++) {
		int64_t steps = 0;
		p->pin[0] = (Pin){VAR_PROGRAM, dim, i};
		known = steps_here(p, d, &steps);
		out->least = int_min(out->least, steps);
		out->most = int_max(out->most, steps);
		out->even = out->even && steps % 2 == 0;
	}
	p->pins = 0;
	return known;
}

bool loop_counts(Planner *p, const Loop *loop, StepCounts *out) {
	bool known = false;
	if (loop->rank != 1 || !loop->dim[0].computed || loop->parent != NONE || loop_ragged_unpeeled(p, loop))
		return false;
	for (uint32_t dim = 0; dim < p->plan->grid.count && !known; dim++)
		known = p->plan->grid.at[dim].steps > 1 && p->plan->grid.at[dim].steps <= POINTS_MAX &&
		        count_along(p, &loop->dim[0], dim, out);
	return known && out->least > 0;
}

/* Of the steps at a point, how many the first of which the condition does not always hold leaves; `left` falls by
 * those that are looked at. */
static int64_t steps_from_first(Planner *p, uint32_t l, NodeId condition, int64_t steps, int64_t *left) {
	int64_t j = 0;
	p->pins = 2;
	for (bool holds = true; j < steps && holds && *left > 0; (*left)--) {
		p->pin[1] = (Pin){VAR_STEP, l * RANK_MAX, j};
		holds = condition_holds(p, condition);
		j += holds;
	}
	p->pins = 1;
	return steps - j;
}

bool choice_is_seldom(Planner *p, uint32_t l, NodeId choice, const StepCounts *counts, int64_t last) {
	const Arg *condition = node_arg(p->m, choice, 0);
	int64_t left = STEPS_MAX;
	bool seldom = op_canonical(node_get(p->m, choice)->op) == OP_WHERE && condition->kind == ARG_REF &&
	              node_type(p->m, choice)->count > 0 && p->plan->values[choice].mask_count == 0 &&
	              node_arg(p->m, choice, 1)->kind == ARG_REF && counts->least >= last;
	p->pins = 1;
	for (int64_t i = 0; i < p->plan->grid.at[counts->dim].steps && seldom; i++) {
		int64_t steps = 0;
		p->pin[0] = (Pin){VAR_PROGRAM, counts->dim, i};
		seldom = steps_here(p, &p->plan->loops.at[l].dim[0], &steps) &&
		         steps_from_first(p, l, condition->node, steps, &left) <= last && left > 0;
	}
	p->pins = 0;
	return seldom;
}
