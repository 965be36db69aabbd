/* fori_dma.c - pallas_fori_dma: does a fori_loop copy its windows from HBM, or slice resident blocks?
 *
 * `auto` plans the kernel both ways and keeps the one that waits less for HBM. What decides:
 *
 *   resident  the grid's pipeline brings whole blocks while the point before computes, and only where their index
 *             changes: K and V once for all tiles of Q. Nothing hides the very first blocks.
 *   copied    each grid point fetches its windows anew, however often the grid comes back to them, and waits for the
 *             first ones: the loop's pipeline starts empty at each point.
 *
 * So few points with long loops (a whole matmul in one block) are copied, many points that share blocks are resident.
 * A way that does not fit VMEM, or that the configuration's buffer counts rule out, is not taken.
 *
 * The estimate counts the MXU at its peak, HBM at its bandwidth and one vector register read in a cycle, all from the
 * target, and no other vector work: it is too low for both ways alike. bench/kernels.py, section fori_dma, compares the
 * choice with the compiler's schedules. */
#include "planner.h"

/* From the start of a copy until its first bytes are there: 600 cycles on v5e to v6e and 800 on v7x, as `python -m
 * pallasc profile` has it. A loop waits so long for its first windows and, once more, for the last ones that it writes.
 */
enum { COPY_CYCLES = 700 };

/* Seconds that one grid point waits for the windows that its loops copy: all of the first and the last ones, and what
 * each further step's compute does not hide. */
static double loops_wait(Planner *p, double step_compute) {
	const Target *t = p->m->target;
	double wait = 0, latency = COPY_CYCLES / t->clock_hz;
	for (uint32_t l = 0; l < p->plan->loops.count; l++) {
		const Loop *loop = &p->plan->loops.at[l];
		double steps = loop_steps(p, loop, false), hidden = 0, shown = 0;
		bool in = false, out = false;
		for (uint32_t i = 0; i < loop->windows.count; i++) {
			const Window *w = &loop->windows.at[i];
			in = in || (w->dma && w->input);
			out = out || (w->dma && w->output);
			if (w->dma)
				*(w->buffers > 1 ? &hidden : &shown) +=
					block_hbm_bytes(&p->plan->operands.at[w->operand], w->block, w->index) /
					t->hbm_bytes_per_s;
		}
		double rest = hidden > step_compute ? hidden - step_compute : 0;
		if (loop->dma && steps > 0)
			wait += loop_entries(p, l) *
			        (steps * shown + hidden + (steps - 1) * rest + (in + out) * latency);
	}
	return wait;
}

/* Cycles that a step of a loop costs over the same step in straight code: the units run dry between two steps, and what
 * is carried in scratch is read and written, for each register of it. Of the matmul of bench/kernels.py on v7x. */
enum { STEP_CYCLES = 100, SCRATCH_REGISTERS_PER_CYCLE = 4 };

/* Seconds that the steps of one grid point's loops cost over straight code. */
static double steps_overhead(Planner *p) {
	double cycles = 0;
	for (uint32_t l = 0; l < p->plan->loops.count; l++) {
		const Loop *loop = &p->plan->loops.at[l];
		double registers = 0;
		for (uint32_t i = 0; i < loop->carries.count; i++)
			if (loop->carries.at[i].place == CARRY_SCRATCH)
				registers += (double)p->plan->scratches.at[loop->carries.at[i].scratch].bytes / 4096;
		if (loop->type != LOOP_UNROLL)
			cycles += loop_entries(p, l) * loop_steps(p, loop, true) *
			          (STEP_CYCLES + registers / SCRATCH_REGISTERS_PER_CYCLE);
	}
	return cycles / p->m->target->clock_hz;
}

/* The loops' steps in one grid point, and the seconds that it takes to read their windows into registers. */
static double point_steps(Planner *p, double *read_seconds) {
	const Target *t = p->m->target;
	double steps = 0, elements = 0;
	for (uint32_t l = 0; l < p->plan->loops.count; l++) {
		const Loop *loop = &p->plan->loops.at[l];
		double times = loop_entries(p, l) * loop_steps(p, loop, true), step = 0;
		for (uint32_t i = 0; i < loop->windows.count; i++) {
			double window = 1;
			for (uint32_t d = 0; d < p->plan->operands.at[loop->windows.at[i].operand].rank; d++)
				window *= (double)loop->windows.at[i].block[d];
			step += window;
		}
		steps += times;
		elements += times * step;
	}
	*read_seconds = elements / ((double)(t->lanes * t->sublanes) * t->clock_hz);
	return steps;
}

/* Seconds to copy one block of each operand whose index changes at least `fetches` times over the grid; `hidden`: of
 * those that the pipeline copies while another block is computed on, else of the others. */
static double blocks_seconds(const Planner *p, int64_t fetches, bool hidden) {
	double bytes = 0;
	for (uint32_t i = 0; i < p->plan->operands.count; i++) {
		const Operand *o = &p->plan->operands.at[i];
		if (o->space == SPACE_WINDOW && o->fetches >= fetches && (o->buffers > 1) == hidden)
			bytes += o->hbm_bytes / (double)o->fetches;
	}
	return bytes / p->m->target->hbm_bytes_per_s;
}

/* An estimate of the kernel's seconds, for comparing two plans of one kernel; after plan_costs(). */
double plan_seconds(Planner *p) {
	const Plan *plan = p->plan;
	double read = 0, steps = point_steps(p, &read);
	double point = plan->flops / p->m->target->bf16_flops / grid_points(plan);
	point = read > point ? read : point;
	point += loops_wait(p, steps > 0 ? point / steps : 0) + steps_overhead(p);
	/* The first point waits for all its blocks; after it, a point at which grid dim k is the outermost to move on
	 * has the blocks that dims k and further in index copied during the point before it. */
	double seconds = blocks_seconds(p, 0, true) + blocks_seconds(p, 0, false) + point;
	seconds += 2 * COPY_CYCLES / p->m->target->clock_hz; /* the first blocks to come, the last to go */
	int64_t before = 1;
	for (uint32_t k = 0; k < plan->grid.count; k++) {
		int64_t until = before * plan->grid.at[k].steps;
		double copy = blocks_seconds(p, until, true);
		seconds += (double)(until - before) * ((copy > point ? copy : point) + blocks_seconds(p, until, false));
		before = until;
	}
	return seconds;
}

static bool fori_copies(const Plan *plan) {
	for (uint32_t l = 0; l < plan->loops.count; l++)
		if (plan->loops.at[l].type == LOOP_FORI && plan->loops.at[l].dma)
			return true;
	return false;
}

static void remark_choice(Plan *taken, const char *what, const Plan *copied, const Plan *resident) {
	plan_remark(
		taken,
		"pallas_fori_dma auto: %s: about %.3g us with resident blocks, %.3g us with windows copied from HBM",
		what, resident->seconds * 1e6, copied->seconds * 1e6);
}

static Plan *plan_fori(Arena *a, Module *m, Diag *d, bool trial) {
	static const char auto_why[] = "pallas_fori_dma is auto, and a resident block is estimated to be faster";
	Choice asked = (Choice)m->config.fori_dma.value;
	if (asked != CHOICE_AUTO)
		return plan_one_way(a, m, d,
		                    (PlanWay){.trial = trial,
		                              .fori_copies = asked == CHOICE_ON,
		                              .resident_why = "pallas_fori_dma is off"});
	Diag before = *d;
	Plan *copied = plan_one_way(a, m, d, (PlanWay){.trial = trial, .fori_copies = true});
	if (copied && !fori_copies(copied))
		return copied;
	Diag after = *d;
	Plan *resident = plan_one_way(a, m, d, (PlanWay){.trial = true, .other = copied, .resident_why = auto_why});
	const char *wrong = d->list.count > after.list.count ? d->list.at[after.list.count].message : "VMEM";
	*d = copied || !resident ? after : before; /* without what is wrong with the way not taken */
	if (copied && !resident)
		plan_remark(copied, "pallas_fori_dma auto: windows are copied, for resident blocks are refused: %s",
		            wrong);
	if (!copied || !resident)
		return copied ? copied : resident;
	bool copy = copied->seconds < resident->seconds;
	remark_choice(copy ? copied : resident, copy ? "windows are copied" : "blocks are resident", copied, resident);
	return copy ? copied : resident;
}

/* The same kernel with the inputs resident that residency.c offers, where that fits and is estimated to be faster. */
Plan *plan_loop_ways(Arena *a, Module *m, Diag *d, bool trial) {
	Plan *copied = plan_fori(a, m, d, trial);
	Choice asked = (Choice)m->config.fori_dma.value;
	if (!copied || !copied->may_stay || asked == CHOICE_ON)
		return copied;
	Diag before = *d;
	PlanWay way = {.trial = true, .other = copied, .fori_copies = asked == CHOICE_AUTO, .keep = true};
	way.resident_why = "pallas_fori_dma is off";
	Plan *kept = plan_one_way(a, m, d, way);
	if (kept && kept->results_may_stay) {
		way.keep_results = true;
		Plan *all = plan_one_way(a, m, d, way);
		kept = all && all->seconds < kept->seconds ? all : kept;
	}
	*d = before; /* without what is wrong with the way not taken */
	bool keep = kept && kept->seconds < copied->seconds;
	if (keep)
		plan_remark(kept, "inputs stay resident: about %.3g us, %.3g us with their windows copied",
		            kept->seconds * 1e6, copied->seconds * 1e6);
	else
		plan_remark(copied, "no input stays resident that could be copied: %s",
		            kept ? "no faster by the estimate" : "it would be refused");
	return keep ? kept : copied;
}
