/* walk.c - pallas_back_and_forth: the grid's last dim runs backwards in every other step of the dim before it.
 *
 * A matmul's grid walks the columns for each tile of rows. From one tile of rows to the next, x moves on and y starts
 * over: both blocks are copied while one point computes. Walked back, the columns go on where they were, and y's block
 * stays: one copy less at each turn, which on a chip with little HBM bandwidth was waited for.
 *
 *     (0, 0) (0, 1) (0, 2)    =>    (0, 0) (0, 1) (0, 2)
 *     (1, 0) (1, 1) (1, 2)          (1, 2) (1, 1) (1, 0)
 *
 * Each point computes what it did; only their order changes, which is nobody's to rely on but that of blocks that
 * several steps change (held.c) or share (placement.c): those kernels keep theirs. `auto` walks so where
 * the copies of a turn take longer than a point computes, by the estimate of seconds.c. */
#include "search.h"
#include "codegen/costs/costs.h"

/* The last dim moves its block, and the one before does not: at a turn it stays. */
static bool stays_at_turn(const Plan *plan, const Operand *o, uint32_t last) {
	bool moves = false, starts_over = true;
	for (uint32_t d = 0; o->input && o->space == SPACE_WINDOW && d < o->rank; d++) {
		moves = moves || index_moves(plan, &o->index[d], last);
		starts_over = starts_over && !index_moves(plan, &o->index[d], last - 1);
	}
	return moves && starts_over && o->fetches > 0;
}

/* HBM bytes that each turn saves. */
static double saved_at_turn(const Plan *plan, uint32_t last) {
	double bytes = 0;
	for (uint32_t i = 0; i < plan->operands.count; i++)
		if (stays_at_turn(plan, &plan->operands.at[i], last))
			bytes += plan->operands.at[i].hbm_bytes / (double)plan->operands.at[i].fetches;
	return bytes;
}

/* Seconds of the copies at a turn, walked forwards: all blocks that either dim moves. */
static double turn_seconds(const Plan *plan, uint32_t last) {
	double bytes = 0;
	for (uint32_t i = 0; i < plan->operands.count; i++) {
		const Operand *o = &plan->operands.at[i];
		bool moves = false;
		for (uint32_t d = 0; o->space == SPACE_WINDOW && o->fetches > 0 && d < o->rank; d++)
			moves = moves || index_moves(plan, &o->index[d], last) ||
			        index_moves(plan, &o->index[d], last - 1);
		if (moves)
			bytes += o->hbm_bytes / (double)o->fetches;
	}
	return bytes / plan->module->target->hbm_bytes_per_s + point_latency(plan);
}

/* Turns within one step of the dims around both: where those move on, nothing is known to stay. */
static int64_t turns_of(const Plan *plan, uint32_t last) {
	int64_t turns = plan->grid.at[last - 1].steps - 1;
	for (uint32_t k = 0; k + 1 < last; k++)
		turns *= plan->grid.at[k].steps;
	return turns;
}

static bool order_matters(const Plan *plan) {
	for (uint32_t i = 0; i < plan->operands.count; i++)
		if (plan->operands.at[i].held || plan->operands.at[i].parts > 1)
			return true;
	for (uint32_t k = 0; k < plan->grid.count; k++)
		if (!plan->grid.at[k].parallel)
			return true;
	return false;
}

void plan_walk(Planner *p) {
	Plan *plan = p->plan;
	Switch asked = (Switch)p->m->config.grid_walk.value;
	uint32_t last = plan->grid.count - 1;
	if (asked == SWITCH_OFF || plan->grid.count < 2 || plan->grid.at[last].steps < 2 ||
	    plan->grid.at[last - 1].steps < 2 || order_matters(plan))
		return;
	int64_t turns = turns_of(plan, last);
	double saved = (double)turns * saved_at_turn(plan, last);
	if (saved <= 0 || (asked == SWITCH_AUTO && turn_seconds(plan, last) <= plan->seconds / grid_points(plan)))
		return;
	plan->back_and_forth = true;
	plan->hbm_bytes -= saved;
	for (uint32_t i = 0; i < plan->operands.count; i++) {
		Operand *o = &plan->operands.at[i];
		if (!stays_at_turn(plan, o, last))
			continue;
		o->hbm_bytes -= o->hbm_bytes / (double)o->fetches * (double)turns;
		o->fetches -= turns;
	}
	plan_remark(plan, "pallas_back_and_forth: %s runs backwards in every other step of %s: %.4g MB less are copied",
	            plan->grid.at[last].name, plan->grid.at[last - 1].name, saved / 1e6);
}
