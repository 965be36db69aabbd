/* first_chunks.c - pallas_first_chunks: the first grid point's blocks come chunk by chunk of its straight loop. With
 * the grid's own pipeline it waits for them whole, and nothing computes meanwhile:
 *
 *     HBM    x(0) y(0)          | x(1) y(1)              HBM    x0 y0 x1 y1 x2 y2 .. | x(1) y(1)
 *     core             point 0  |          point 1       core         0     1     2  |          point 1
 *
 * The grid becomes a loop of the kernel's own, whose copies it makes itself: rewrite_runs.c. */
#include "search.h"
#include "codegen/core/core.h"
#include "codegen/costs/costs.h"
#include "codegen/place/place.h"
#include "codegen/rewrite/rewrite.h"
#include "codegen/vmem/vmem.h"
#include "src/config/config.h"

/* SAVES_PERCENT of what the kernel takes. Each chunk's step ends with the latency of a matmul: by the profiler. */
enum { SAVES_PERCENT = 1, STEP_CYCLES = 300, LEAST_CYCLES = 20000 };

static bool is_straight(const Loop *l) {
	bool plain = l->type == LOOP_UNROLL && l->rank == 1 && !l->peeled && !l->masked && !l->skewed && !l->bodies;
	return plain && !l->dim[0].computed && l->dim[0].full_steps > 1 && l->dim[0].tail == 0;
}

/* A copy of the kernel's own brings whole blocks. */
static bool comes_whole(const Operand *o) {
	bool whole = operand_is_plain(o) && !o->held && o->buffers == 2;
	for (uint32_t d = 0; whole && d < o->rank; d++)
		whole = o->shape[d] % o->block[d] == 0;
	return whole;
}

static bool can_chunk(const Planner *p) {
	const Plan *plan = p->plan;
	bool can = p->m->target->tensorcores == 1 && plan->loops.count == 1 && is_straight(&plan->loops.at[0]) &&
	           points_only_compute(plan) && !plan->keeps && !plan->pieces && !plan->strips &&
	           plan->scratches.count == 0 && plan->grid.count > 0 && plan->grid.count <= RANK_MAX &&
	           grid_points(plan) > 1;
	for (uint32_t i = 0; can && i < plan->operands.count; i++)
		can = comes_whole(&plan->operands.at[i]);
	return can;
}

/* What the core waits for less where HBM is not busy all the time, of the time of the whole kernel. */
static double saved(const Planner *p, const CoreTime *time) {
	const Plan *plan = p->plan;
	double bytes = 0, steps = (double)plan->loops.at[0].dim[0].full_steps;
	for (uint32_t i = 0; i < plan->operands.count; i++) {
		const Operand *o = &plan->operands.at[i];
		bytes += o->output ? 0 : operand_block_bits(o) / 8;
	}
	double copies = bytes / (p->m->target->hbm_bytes_per_s / p->m->target->clock_hz);
	double computes = time->compute / grid_points(plan);
	return (copies < computes ? copies : computes) * (steps - 1) / steps - steps * STEP_CYCLES;
}

/* Straight steps have it in registers and in the matrix unit; a loop's are handed it in VMEM. */
static int64_t carried_bytes(const Plan *plan, const Target *t) {
	const Kernel *k = plan->kernel;
	int64_t bytes = 0;
	for (StmtId s = region_first(k, k->body); s != NONE; s = kernel_stmt(k, s)->next)
		for (uint32_t i = 0; kernel_stmt(k, s)->op == K_LOOP && i < kernel_stmt(k, s)->result_count; i++) {
			const KValue *v = &k->values.at[kernel_stmt(k, s)->result + i];
			bytes += vmem_bytes(t, v->dtype, v->rank, v->shape);
		}
	return bytes;
}

static void set_chunks(Planner *p, bool chunks) {
	Plan *plan = p->plan;
	plan->first_chunks = plan->kernel->first_chunks = chunks;
	plan->first_bytes = chunks ? carried_bytes(plan, p->m->target) : 0;
	plan_vmem(plan, p->m, false);
}

void plan_first_chunks(Planner *p) {
	Plan *plan = p->plan;
	Switch asked = (Switch)p->m->config.first_chunks.value;
	CoreTime time;
	if (asked == SWITCH_OFF || !can_chunk(p))
		return;
	plan_time(plan, p->a, &time);
	double less = saved(p, &time);
	bool pays = time.cycles >= LEAST_CYCLES && time.compute > time.hbm && less * 100 >= SAVES_PERCENT * time.cycles;
	if (!pays && asked != SWITCH_ON)
		return;
	set_chunks(p, true);
	if (plan->vmem.total > plan_vmem_line(plan)) {
		set_chunks(p, false);
		return;
	}
	plan_walk_in_order(plan, "one core copies the blocks of the next point");
	plan_fuse_nothing(p);
	plan_remark(plan, "pallas_first_chunks: the first point's blocks come in %lld chunks: about %.0f cycles less",
	            (long long)plan->loops.at[0].dim[0].full_steps, less);
}
