/* lane_sums.c - whether the sums of rows that a loop carries are kept in 128 lanes, and summed along them behind it.
 *
 * A step that sums along lanes waits for the cross-lane unit before it can add the sum to what it carries. The parts of
 * 128 lanes can be added as they are (rewrite_lane_sums.c): a column takes as many registers, and as much VMEM. `auto`:
 * where a step sums what it chooses by a column's number, which then is a select and no sum, and no matmul hides the
 * wait. Other sums gain or lose (docs/passes/lane_sums.md). Cross-entropy of 8192 rows of 128256 on v7x: 2,257 thousand
 * cycles, 2,831 with sums in each step; KL divergence of 4096 rows of 32768, left as it is: 799 and 650. */
#include "loops.h"

enum { LANES = 128 };

static uint16_t op_of(const Planner *p, NodeId n) { return n == NONE ? OP_COUNT : op_canonical(node_get(p->m, n)->op); }

/* What is summed, before views of the sum; NONE: it is none. */
static NodeId summed(const Planner *p, NodeId n) {
	while (n != NONE && op_lowering(node_get(p->m, n)->op) == LOWER_VIEW)
		n = node_input(p->m, n, 0);
	return op_of(p, n) == OP_SUM ? node_input(p->m, n, 0) : NONE;
}

/* The sum of a tile's rows: float32, of whole registers, more than one. */
static bool sums_lanes(const Planner *p, NodeId n) {
	NodeId x = summed(p, n);
	int64_t columns = 0;
	if (x == NONE || node_type(p->m, x)->dtype != DTYPE_F32)
		return false;
	const Type *t = node_type(p->m, x);
	return t->count >= 2 && expr_value(p->m, t->dims[t->count - 1], &columns) && columns > LANES &&
	       columns % LANES == 0;
}

/* What is carried, or a multiple of it. */
static bool is_total(const Planner *p, NodeId n, NodeId carried) {
	bool product = op_of(p, n) == OP_MUL;
	return n == carried || (product && (node_input(p->m, n, 0) == carried || node_input(p->m, n, 1) == carried));
}

/* The sum that it carries and adds to; NONE. */
static NodeId carried_sum(const Planner *p, const Loop *loop, const Carry *c) {
	const Arg *given = arg_item(p->m, graph_results(p->m, loop->graph), c->output);
	NodeId carried = graph_get(p->m, loop->graph)->placeholders.at[c->arg];
	if (given->kind != ARG_REF || op_of(p, given->node) != OP_ADD)
		return NONE;
	NodeId a = node_input(p->m, given->node, 0), b = node_input(p->m, given->node, 1);
	return is_total(p, a, carried) && sums_lanes(p, b) ? b : is_total(p, b, carried) && sums_lanes(p, a) ? a : NONE;
}

/* Of elements that a comparison chooses, as that of the label, masked or not. */
static bool sums_choice(const Planner *p, NodeId sum) {
	NodeId x = summed(p, sum);
	if (op_of(p, x) == OP_MASK_TO)
		x = node_input(p->m, x, 0);
	return op_of(p, x) == OP_WHERE && op_of(p, node_input(p->m, x, 0)) == OP_EQ;
}

/* In its steps, or in those of a loop in them. */
static bool has_matmul(const Planner *p, uint32_t l) {
	const Loop *loop = &p->plan->loops.at[l];
	bool any = graph_holds(p->m, loop->graph, LOWER_MATMUL);
	for (uint32_t i = l + 1; i < p->plan->loops.count && !any; i++)
		any = p->plan->loops.at[i].parent == l && has_matmul(p, i);
	return any;
}

void plan_lane_sums(Planner *p) {
	Switch asked = (Switch)p->m->config.lane_sums.value;
	for (uint32_t l = 0; l < p->plan->loops.count; l++) {
		Loop *loop = &p->plan->loops.at[l];
		bool sums = false, chooses = false;
		for (uint32_t i = 0; i < loop->carries.count; i++) {
			NodeId sum = carried_sum(p, loop, &loop->carries.at[i]);
			sums = sums || sum != NONE;
			chooses = chooses || (sum != NONE && sums_choice(p, sum));
		}
		if (!sums)
			continue;
		const char *why = asked == SWITCH_OFF                ? "pallas_lane_sums is off"
		                  : asked == SWITCH_AUTO && !chooses ? "none is of what a column's number chooses"
		                  : asked == SWITCH_AUTO && has_matmul(p, l) ? "the step has matmuls"
		                                                             : NULL;
		loop->lane_sums = !why;
		loop->lane_sums_why = why ? why : "they are summed along lanes once, behind it";
	}
}
