/* third.c - a third buffer of the grid's input windows. With two, a point's blocks start to come when the point before it
 * starts, behind what the one before that gives: where copies take about as long as what a point computes, HBM is idle
 * for the latency of a copy at every other point. With three they start a point earlier:
 *
 *     HBM, two     in 2 out 0|idle|in 3 out 1|idle|        HBM, three   in 3 out 0 in 4 out 1 in 5 out 2
 *     core           point 1     |  point 2     |          core            point 1   point 2   point 3
 *
 * jax: "Only single (1) and double (2) buffering are supported" of the grid's own pipeline. So the grid becomes a
 * pipeline in the kernel (rewrite_pipelined.c), which one core runs. Taken where the time of the core says that it saves
 * enough, and VMEM has room. */
#include "search.h"
#include "codegen/core/core.h"
#include "codegen/costs/costs.h"
#include "codegen/vmem/vmem.h"
#include "src/verify/verify.h"

enum { THIRD = 3, LEAST_POINTS = 4 };
#define SAVES_AT_LEAST 1.02

static bool is_asked(const Planner *p) {
	const ConfigList *given = &p->m->config.load_buffer_count;
	for (uint32_t i = 0; given->set && i < given->values.count; i++)
		if (given->values.at[i] >= THIRD)
			return true;
	return false;
}

/* Its block is another one at each point. */
static bool moves_on(const Plan *plan, const Operand *o) {
	return !o->output && o->space == SPACE_WINDOW && o->buffers == 2 && (double)o->fetches >= grid_points(plan);
}

static bool is_plain(const Operand *o) {
	return o->space == SPACE_WINDOW && !o->held && !o->ahead && !o->fused && (!o->output || o->alias_of == NONE) &&
	       !(o->input && o->output);
}

/* Why the grid's own pipeline stays; NULL: it need not. */
static const char *why_two(const Planner *p) {
	const Plan *plan = p->plan;
	bool any = false;
	if (p->m->target->tensorcores > 1)
		return "cores share the grid";
	if (plan->loops.count || plan->places.count || plan->remote || !plan->kernel || plan->kernel->mesh_axis)
		return "a point does more than compute on its blocks";
	if (plan->back_and_forth || plan->grid.count > RANK_MAX || grid_points(plan) < LEAST_POINTS)
		return "its points are too few, or not walked in order";
	for (uint32_t i = 0; i < plan->operands.count; i++) {
		if (!is_plain(&plan->operands.at[i]))
			return arena_printf(p->a, "%s is not only copied block by block", plan->operands.at[i].ref);
		any = any || moves_on(plan, &plan->operands.at[i]);
	}
	return any ? NULL : "no input has another block at each point";
}

/* In the plan, and in its kernel. */
static void set_buffers(Plan *plan, uint32_t i, int count) {
	Operand *o = &plan->operands.at[i];
	o->buffers = count;
	for (BufferId b = 0; b < plan->kernel->buffers.count; b++)
		if (plan->kernel->buffers.at[b].name == o->ref)
			plan->kernel->buffers.at[b].buffers = count;
}

static void in_order(Plan *plan) {
	for (uint32_t k = 0; k < plan->grid.count; k++) {
		if (!plan->grid.at[k].parallel)
			continue;
		plan->grid.at[k].parallel = plan->kernel->grid.at[k].parallel = false;
		plan->grid.at[k].why = "one core copies the blocks of two points ahead";
	}
}

bool plan_third(Planner *p) {
	Plan *plan = p->plan;
	const ConfigList *given = &p->m->config.load_buffer_count;
	const char *why = given->set && !is_asked(p) ? "" : why_two(p);
	if (why) {
		if (is_asked(p) && !plan->loops.count)
			diag_error(p->d, config_place(&given->origin), "unsupported-config", "give it 1 or 2",
			           "pallas_load_buffer_count: 3 windows, but the grid's pipeline keeps 1 or 2: %s", why);
		return !is_asked(p) || plan->loops.count > 0;
	}
	CoreTime two, three;
	plan_time(plan, p->a, &two);
	bool *third = arena_array(p->a, plan->operands.count, sizeof *third);
	for (uint32_t i = 0; i < plan->operands.count; i++) {
		third[i] = moves_on(plan, &plan->operands.at[i]);
		if (third[i])
			set_buffers(plan, i, THIRD);
	}
	plan_vmem(plan, p->m, false);
	plan_time(plan, p->a, &three);
	if (plan->vmem.total <= plan_vmem_line(plan) && (is_asked(p) || three.cycles * SAVES_AT_LEAST <= two.cycles)) {
		in_order(plan);
		plan_remark(plan, "a third buffer of the blocks that each point reads: %.0f cycles, not %.0f", three.cycles,
		            two.cycles);
		return true;
	}
	for (uint32_t i = 0; i < plan->operands.count; i++)
		if (third[i])
			set_buffers(plan, i, 2);
	plan_vmem(plan, p->m, false);
	return true;
}
