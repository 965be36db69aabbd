/* semantics.c - which grid dims are `parallel`: their points may run in any order, and on several cores. */
#include "place.h"

static bool operand_indexed_by(const Plan *plan, uint32_t operand, uint32_t dim) {
	const Operand *o = &plan->operands.at[operand];
	int64_t steps = plan->grid.at[dim].steps;
	if (o->space == SPACE_WINDOW && affine_tells_program(o->rank, o->index, dim, steps))
		return true;
	for (uint32_t l = 0; l < plan->loops.count; l++)
		for (uint32_t w = 0; w < plan->loops.at[l].windows.count; w++) {
			const Window *win = &plan->loops.at[l].windows.at[w];
			if (win->operand == operand && win->dma &&
			    affine_tells_program(o->rank, win->index, dim, steps))
				return true;
		}
	return false;
}

/* A grid of one core's points alone can be a pipeline in the kernel, which copies further ahead than the grid's own. */
static void blocks_ahead(Planner *p) {
	bool split = false;
	for (uint32_t k = 0; k < p->plan->grid.count; k++)
		split = split || (p->plan->grid.at[k].parallel && p->plan->grid.at[k].steps > 1);
	for (uint32_t i = 0; i < p->plan->operands.count; i++) {
		Operand *o = &p->plan->operands.at[i];
		o->ahead = o->ahead && !split;
		if (o->ahead)
			o->why = arena_printf(p->a, "%s; the next other block is copied as soon as there is room",
			                      o->why);
	}
}

/* What a point copies for the next one is that core's. */
static bool plan_copies_across(const Plan *plan) {
	bool across = false;
	for (uint32_t l = 0; l < plan->loops.count; l++)
		across = across || plan->loops.at[l].across;
	return across;
}

/* Two grid points that write one window must run in order: that dim is `arbitrary`, not `parallel`. Pallas splits a
 * prefix of the dims over the cores, so those after it are not parallel either. */
void plan_semantics(Planner *p) {
	for (uint32_t k = 0; k < p->plan->grid.count; k++) {
		GridDim *dim = &p->plan->grid.at[k];
		if (p->plan->remote) {
			dim->parallel = false;
			dim->why = "devices meet in it, and only one core of each";
		}
		if (plan_copies_across(p->plan)) {
			dim->parallel = false;
			dim->why = "each point starts copies for the next one";
		}
		if (k > 0 && !dim[-1].parallel) {
			dim->parallel = false;
			dim->why = "it comes after a dim that is not parallel";
		}
		for (uint32_t i = 0; i < p->plan->operands.count && dim->steps > 1; i++) {
			const Operand *o = &p->plan->operands.at[i];
			bool shares = o->parts > 1 && affine_uses_program(&o->index[o->part_dim], k);
			if (!o->output || (operand_indexed_by(p->plan, i, k) && !shares))
				continue;
			dim->parallel = false;
			dim->why = arena_printf(p->a,
			                        shares || o->parts > 1 ? "its steps fill one block of %s"
			                                               : "%s is written again by each of its steps",
			                        o->ref);
		}
	}
	blocks_ahead(p);
}
