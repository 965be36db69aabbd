/* invariants.c - pallas_grid_invariants: what the grid's innermost dim does not change is computed at its first step,
 * and kept in VMEM scratch (build_invariants.c). Steps of that dim then run in order, on one core.
 *
 * Decided once all else is, with the kernel at hand: `auto` keeps it where the estimate of both kernels says that it
 * saves enough, and where the scratch fits beside all that is there. */
#include <math.h>
#include "search.h"
#include "codegen/build/build.h"
#include "codegen/core/core.h"
#include "codegen/vmem/vmem.h"
#include "src/config/config.h"

/* auto: of the kernel's time, at least: estimates that save less were wrong (argmax_reduce: 3.5%, and none was seen).
 */
static const double least_saved = 0.055;

/* Of what is kept half is spilled once more while it is computed, beside what the kernel spills anyway (a norm of
 * [1024, 4096] before two matmuls: 3.1 MiB of 8). */
enum { SPILLED_AGAIN = 2 };

static uint32_t innermost(const Plan *plan) {
	uint32_t dim = 0;
	for (uint32_t d = 0; d < plan->grid.count; d++)
		dim = plan->grid.at[d].steps > 1 ? d : dim;
	return dim;
}

/* Of the dims before the one whose steps are to run in order, which cores share. */
static bool cores_have_steps(const Plan *plan) {
	int64_t before = 1;
	for (uint32_t d = 0; d < innermost(plan); d++)
		before *= plan->grid.at[d].steps;
	return before % plan->module->target->tensorcores == 0;
}

static double cycles_of(Plan *plan) {
	CoreTime time;
	plan_time(plan, plan->arena, &time);
	return time.cycles;
}

/* In chunks: where the matrix unit adds products up, the result stays in it while all that is summed goes by, and
 * chunks take it out each time (rms_norm_matmul of 4096 on v7x takes 0.5% more in chunks). */
static bool want_chunks(const Planner *p) {
	Switch asked = (Switch)p->m->config.factor_chunks.value;
	return asked == SWITCH_ON || (asked == SWITCH_AUTO && units_of(p->m->target)->adds_results);
}

/* The plan that keeps them so, from one without. */
static void keep(Planner *p, const Plan *without, Keeps how) {
	Plan *plan = p->plan;
	*plan = *without;
	plan->keeps = how;
	plan->chunks = how == KEEPS_WITH_REST && want_chunks(p);
	plan->spills = -1;
	plan_vmem(plan, p->m, true);
	int64_t again = how == KEEPS_APART ? (plan->kept_bytes - plan->widened_bytes) / SPILLED_AGAIN : 0;
	plan->spills = int_max(plan->spills, without->spills) + again;
	plan_vmem(plan, p->m, true);
}

static bool fits(const Plan *plan) { return plan->vmem.total <= plan_vmem_line(plan); }

/* Of both plans the faster one that fits: with a copy of the rest only what is kept is computed beside matmuls. Norms
 * before them take 0.4 to 3.8% less so (docs/passes/grid_invariants.md), which the estimate says the least part of.
 * Returns its cycles. */
static double keep_with_rest(Planner *p, const Plan *without) {
	Plan *plan = p->plan;
	const Plan apart = *plan;
	Switch asked = (Switch)p->m->config.first_step.value;
	double cycles = cycles_of(plan), most = asked == SWITCH_ON || !fits(plan) ? INFINITY : cycles;
	if (asked == SWITCH_OFF || apart.widened_bytes)
		return cycles;
	keep(p, without, KEEPS_WITH_REST);
	double beside = plan->kept_bytes && fits(plan) ? cycles_of(plan) : INFINITY;
	if (beside < most)
		return beside;
	*plan = apart;
	return cycles;
}

void plan_keep_invariants(Planner *p) {
	Plan *plan = p->plan;
	Switch asked = (Switch)p->m->config.grid_invariants.value;
	bool may = !plan->strips && !plan->remote && cores_have_steps(plan) && (!plan->left || *plan->left > 0);
	if (asked == SWITCH_OFF || !may || !plan->kernel ||
	    !(kernel_has_invariants(plan->kernel) || kernel_has_tables(plan->kernel) ||
	      kernel_has_steps_to_open(plan->kernel)))
		return;
	Plan without = *plan;
	keep(p, &without, KEEPS_APART);
	if (plan->kept_bytes == 0) {
		*plan = without;
		return;
	}
	double saved = 1 - keep_with_rest(p, &without) / cycles_of(&without);
	double kept = (double)plan->kept_bytes / (1 << 20);
	bool pays = saved >= least_saved || asked == SWITCH_ON;
	const char *why = !fits(plan)    ? "it does not fit"
	                  : !pays        ? "that is too little"
	                  : plan->chunks ? "kept, and the first step has code of its own, which computes it in chunks"
	                  : plan->keeps == KEEPS_WITH_REST ? "kept, and the first step has code of its own"
	                                                   : "kept";
	if (!fits(plan) || !pays)
		*plan = without;
	plan_remark(plan, "pallas_grid_invariants: what %s does not change would take %.3g MiB and save %.1f%%: %s",
	            plan->grid.at[innermost(plan)].name, kept, 100 * saved, why);
}

void plan_run_in_order(Plan *plan) {
	for (uint32_t d = 0; plan->kept_bytes && d < plan->grid.count; d++) {
		GridDim *dim = &plan->grid.at[d];
		bool parallel = !plan->kernel || plan->kernel->grid.at[d].parallel;
		if (dim->parallel && !parallel)
			dim->why = plan->chunks ? "its first step computes what the others find, in chunks, beside the "
			                          "rest of it"
			           : plan->keeps == KEEPS_WITH_REST
			                   ? "its first step computes what the others find, beside the rest of it"
			                   : "its first step computes what the others find";
		dim->parallel = dim->parallel && parallel;
	}
}
