/* pieces.c - pallas_result_pieces: what follows a matmul is computed of pieces of its result (rewrite_pieces.c).
 *
 * Decided once all else is, with the kernel at hand. `auto` takes pieces where results add up in a buffer of the matrix
 * unit, which is not free for the next product before they are out, where what follows takes the vector unit longer
 * than it takes to get them out, and where the scratch fits. */
#include <math.h>
#include "search.h"
#include "codegen/build/build.h"
#include "codegen/core/core.h"
#include "codegen/rewrite/rewrite.h"
#include "codegen/vmem/vmem.h"
#include "src/config/config.h"

/* auto: operations of the vector unit for each register of results. docs/passes/result_pieces.md has the measurements.
 */
static const double least_work = 6;

/* Of what follows the matmuls, for each register of all their results. */
static double work_of(const Core *c, const ResultPieces *found) {
	const StmtIds *following = &found->following;
	double operations = 0, registers = 1;
	for (uint32_t i = 0; i < following->count; i++) {
		const KStmt *s = kernel_stmt(c->k, following->at[i]);
		operations += statement_work(c, following->at[i])->of[UNIT_VALU];
		registers = s->result == NONE ? registers : fmax(registers, value_registers(c, s->result));
	}
	return operations / registers / found->matmuls;
}

/* The plan with them, from one without. What they spill less nobody counts. */
static void take(Planner *p) {
	Plan *plan = p->plan;
	int64_t spills = plan->spills;
	plan->pieces = true;
	plan->kernel = NULL;
	plan->spills = -1;
	plan_vmem(plan, p->m, true);
	plan->spills = int_max(plan->spills, spills);
	plan_vmem(plan, p->m, true);
	if (plan->left) /* it is the same kernel once more */
		++*plan->left;
}

void plan_pieces(Planner *p) {
	Plan *plan = p->plan;
	const Target *t = p->m->target;
	Switch asked = (Switch)p->m->config.result_pieces.value;
	if (asked == SWITCH_OFF || !plan->kernel || plan->strips || plan->remote || plan->keeps ||
	    (asked == SWITCH_AUTO && units_of(t)->adds_results))
		return;
	Plan without = *plan;
	if (!kernel_has_steps_to_open(plan->kernel) && !results_in_pieces(plan->kernel, &(ResultPieces){0}))
		return;
	take(p);
	ResultPieces found = {0};
	if (!results_in_pieces(plan->kernel, &found)) {
		*plan = without;
		return;
	}
	Core c = core_of(plan->kernel, t, plan->arena);
	double work = work_of(&c, &found);
	bool fits = plan->vmem.total <= plan_vmem_line(plan), pays = work >= least_work || asked == SWITCH_ON;
	if (!fits || !pays)
		*plan = without;
	plan_remark(plan,
	            "pallas_result_pieces: what follows takes the vector unit %.1f operations for each register of "
	            "results: %s",
	            work,
	            !fits  ? "pieces of them do not fit"
	            : pays ? "computed of pieces of them"
	                   : "that is too little");
}
