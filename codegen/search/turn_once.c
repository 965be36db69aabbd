/* turn_once.c - pallas_turn_once: of masked steps in blocks, what several matmuls contract along its rows is turned
 * once (rewrite_turn_once.c).
 *
 * Decided once all else is. What there is to turn says the kernel, as it is once its steps are cut. */
#include "search.h"
#include "codegen/build/build.h"
#include "codegen/rewrite/rewrite.h"
#include "codegen/vmem/vmem.h"
#include "src/config/config.h"

/* auto: of causal attention of 512 rows, which reads each row 1.5 times, nothing is gained. */
static const double least_reads = 2;

static bool cuts_steps(const Plan *plan) {
	bool cuts = false;
	for (uint32_t l = 0; l < plan->loops.count; l++)
		cuts = cuts || plan->loops.at[l].cut;
	return cuts;
}

void plan_find_turned(Plan *plan, Kernel *k) {
	BufferId buffers = k->buffers.count;
	plan->turned.count = 0;
	plan->turned_reads = rows_read_again(k);
	k->turn_once = true;
	rewrite_turn_once(k);
	for (BufferId i = buffers; i < k->buffers.count; i++) {
		const KBuffer *b = &k->buffers.at[i];
		if (b->role != BUFFER_SCRATCH)
			continue;
		vec_push(plan->arena, &plan->turned,
		         scratch_of_buffer(plan->module->target, b, "several matmuls read it, turned"));
	}
}

static void find_turned(Plan *plan) {
	if (plan_has_bodies(plan)) /* they were cut before: bodies_are_cut() of draft.c */
		return;
	Kernel *k = plan_kernel(plan);
	if (plan->left) /* it is the same kernel once more */
		++*plan->left;
	for (const Rewrite *r = kernel_rewrites(); r->run != rewrite_turn_once; r++)
		r->run(k);
	plan_find_turned(plan, k);
}

/* The plan with it, or without. */
static void take(Planner *p, bool turn) {
	Plan *plan = p->plan;
	plan->kept.count = 0;
	plan->turned_bytes = 0;
	for (uint32_t i = 0; i < plan->turned.count && turn; i++) {
		vec_push(plan->arena, &plan->kept, plan->turned.at[i]);
		plan->turned_bytes += plan->turned.at[i].bytes;
	}
	plan_vmem(plan, p->m, true);
}

void plan_turn_once(Planner *p) {
	Plan *plan = p->plan;
	if ((Switch)p->m->config.turn_once.value == SWITCH_OFF || !cuts_steps(plan) || plan->keeps || plan->pieces)
		return;
	find_turned(plan);
	if (plan->turned.count == 0)
		return;
	take(p, true);
	double mib = (double)plan->turned_bytes / (1 << 20);
	bool fits = plan->vmem.total <= plan_vmem_line(plan);
	bool pays = (Switch)p->m->config.turn_once.value == SWITCH_ON || plan->turned_reads >= least_reads;
	if (!fits || !pays)
		take(p, false);
	plan_remark(plan,
	            "pallas_turn_once: matmuls of masked blocks sum the same rows %.1f times: turned %s, %.2f MiB of "
	            "scratch%s",
	            plan->turned_reads, fits && pays ? "once" : "each time", mib,
	            fits && pays ? ""
	            : fits       ? " are too much for that"
	                         : " do not fit");
}
