/* unmasked.c - whether steps of a loop that masks leave whole are worth a step function without the masks.
 *
 * Attention over keys up to a row's own position, of sequences whose lengths are data, masks each step, though only the
 * last ones have keys that some row does not see. Which they are is told by ints where the step is called
 * (rewrite_unmasked.c): there is a branch for it in each step, and code twice. `auto`: masks of many elements, in steps
 * that hand on nothing in registers. */
#include "loops.h"

/* Masks of fewer elements take about as long as the branch. */
enum { MASKED_MIN = 1 << 16 };

/* Elements of the loop's choices by a condition, and of what it masks itself. */
static int64_t masked_elements(Planner *p, const Loop *loop) {
	int64_t masked = 0, shape[DIM_MAX];
	for (NodeId n = graph_first(p->m, loop->graph); n != NONE; n = node_get(p->m, n)->next) {
		const Value *v = &p->plan->values[n];
		bool choice = op_canonical(node_get(p->m, n)->op) == OP_WHERE && node_type(p->m, n)->count > 0;
		if (!choice && v->mask_count == 0)
			continue;
		int64_t count = 1;
		for (uint32_t d = plan_shape(p->plan, n, v->form, shape); d-- > 0;)
			count *= shape[d];
		masked += count;
	}
	return masked;
}

/* A step that reduces what it masks, as a softmax does, waits for the vector unit, which masks; a matmul of a triangle
 * waits for the matrix unit, and has the next step's windows copied beside it, but for a branch. lower_matmul_4096 on
 * v6e: 379,932 cycles, with a branch 382,789. */
static bool reduces(const Planner *p, const Loop *loop) {
	bool any = false;
	for (NodeId n = graph_first(p->m, loop->graph); n != NONE && !any; n = node_get(p->m, n)->next)
		any = op_lowering(node_get(p->m, n)->op) == LOWER_REDUCE;
	return any;
}

/* A mask of two conditions, as of a sliding window, leaves few steps whole. sliding_attention_8192 on v5e: 2,335,026
 * cycles, with a branch 2,405,519; alibi_attention_8192, of one condition: 6,353,788 and 6,247,804. */
static bool has_two_conditions(const Planner *p, const Loop *loop) {
	bool any = false;
	for (NodeId n = graph_first(p->m, loop->graph); n != NONE && !any; n = node_get(p->m, n)->next) {
		uint16_t op = op_canonical(node_get(p->m, n)->op);
		any = op == OP_LOGICAL_AND || op == OP_BITWISE_AND;
	}
	return any;
}

static bool carries_in_scratch(const Loop *loop) {
	bool all = loop->carries.count > 0;
	for (uint32_t i = 0; i < loop->carries.count; i++)
		all = all && loop->carries.at[i].place == CARRY_SCRATCH;
	return all;
}

void plan_unmasked(Planner *p) {
	Switch asked = (Switch)p->m->config.unmasked_steps.value;
	int64_t least = asked == SWITCH_ON ? 1 : MASKED_MIN;
	for (uint32_t l = 0; l < p->plan->loops.count; l++) {
		Loop *loop = &p->plan->loops.at[l];
		if (loop->type != LOOP_FORI || loop->rank != 1 || !loop->dim[0].computed ||
		    masked_elements(p, loop) < least)
			continue;
		const char *why = asked == SWITCH_OFF         ? "pallas_unmasked_steps is off"
		                  : loop->flagged             ? "only the first or last ones are masked"
		                  : loop->skewed              ? "what runs ahead is masked as it is handed on"
		                  : !carries_in_scratch(loop) ? "it hands on values in registers"
		                  : asked == SWITCH_AUTO && !reduces(p, loop) ? "they reduce nothing"
		                  : asked == SWITCH_AUTO && has_two_conditions(p, loop)
		                          ? "a mask of two conditions leaves few"
		                          : NULL;
		loop->unmasked = !why;
		loop->unmasked_why = why ? why : "they are told where the step is called";
	}
}
