/* seconds.c - an estimate of the kernel's time, for comparing plans of one kernel (search.c).
 *
 * What decides between windows that a fori_loop copies and resident blocks:
 *
 *   resident  the grid's pipeline brings whole blocks while the point before computes, and only where their index
 *             changes: K and V once for all tiles of Q. Nothing hides the very first blocks.
 *   copied    each grid point fetches its windows anew, however often the grid comes back to them, and waits for the
 *             first ones: the loop's pipeline starts empty at each point.
 *
 * So few points with long loops (a whole matmul in one block) are copied, many points that share blocks are resident.
 *
 * The estimate counts the MXU at its peak, HBM at its bandwidth and one vector register read in a cycle, all from the
 * target, and no other vector work: it is too low for all plans alike. bench/kernels.py, section fori_dma, compares the
 * choice with the compiler's schedules. */
#include "costs.h"

/* A loop waits so long for its first windows and, once more, for the last ones that it writes; so long is HBM idle
 * between the blocks of one grid point and of the next. */
static double copy_seconds(const Target *t) { return (double)t->copy_cycles / t->clock_hz; }

/* Of a grid point without loops: what it computes is too short to hide it. */
double point_latency(const Plan *plan) { return plan->loops.count ? 0 : copy_seconds(plan->module->target); }

/* Seconds of the copies of one step's windows: of those with several buffers, and of those with one. Returns how often
 * their latency shows: before the first ones to come, after the last ones to go. */
static int step_copies(Planner *p, const Loop *loop, double *hidden, double *shown) {
	bool in = false, out = false;
	*hidden = *shown = 0;
	for (uint32_t i = 0; i < loop->windows.count; i++) {
		const Window *w = &loop->windows.at[i];
		in = in || window_comes(w);
		out = out || (w->dma && w->output);
		if (w->dma)
			*(w->buffers > 1 ? hidden : shown) +=
				block_hbm_bytes(&p->plan->operands.at[w->operand], w->block, w->index) /
				p->m->target->hbm_bytes_per_s;
	}
	return in + out;
}

/* Seconds that one grid point waits for the windows that its loops copy: all of the first and the last ones, and what
 * each further step's compute does not hide. Where the point before copies the first ones, they are waited for by
 * nobody; but where data end the loop, a part of its last ones is beyond the end, of all lengths half of them: of steps
 * that are counted to the greatest end, twice as many as are mean, all of one. */
static double loops_wait(Planner *p, double step_compute) {
	double wait = 0, latency = copy_seconds(p->m->target);
	for (uint32_t l = 0; l < p->plan->loops.count; l++) {
		const Loop *loop = &p->plan->loops.at[l];
		double steps = loop_steps(p, loop, false), hidden, shown;
		int latencies = step_copies(p, loop, &hidden, &shown);
		double rest = hidden > step_compute ? hidden - step_compute : 0;
		if (loop->dma && steps > 0)
			wait += loop_entries(p, l) *
			        (loop->across ? steps * rest + (loop->dim[0].computed ? hidden : 0)
			                      : steps * shown + hidden + (steps - 1) * rest + latencies * latency);
	}
	return wait;
}

/* Matmuls that could run beside the step before and do not are waited for: in a loop at each step, of a skewed one
 * before the first alone. In straight code the compiler overlaps what is near by itself: half of them are
 * waited for (attention of 8 steps takes a seventh longer so than skewed, of 4 as long: docs/passes/loop_types.md). */
enum { STRAIGHT_OVERLAPS = 2 };

static double overlap_seconds(Planner *p, const Loop *loop) {
	const Target *t = p->m->target;
	double once = loop->overlap_seconds, steps = loop_steps(p, loop, true);
	if (loop->type == LOOP_UNROLL)
		return once * steps / STRAIGHT_OVERLAPS;
	if (!loop->skewed)
		return once * steps;
	return once + (loop->type == LOOP_EMIT_PIPELINE ? (double)t->pipeline_step_cycles / t->clock_hz : 0);
}

/* Cycles of a step for each window that a fori_loop, or a skewed pipeline, copies beside matmuls: a copy is started
 * behind a branch, and waited for. Attention of 32768 rows takes 33 cycles a step more than of resident blocks on v7x,
 * 62 on v6e, in pairs 107 and 104, in a pipeline of pairs 129 on v6e: two windows. Steps without matmuls wait for HBM,
 * and have time for that, as have those that data count.
 */
enum { COPY_CYCLES = 32 };

static double copy_cycles(Planner *p, const Loop *loop) {
	double cycles = 0;
	bool copies = loop->dma && (loop->type == LOOP_FORI || loop->skewed);
	if (!copies || loop->dim[0].computed || step_matmul_seconds(p, loop) == 0)
		return 0;
	for (uint32_t i = 0; i < loop->windows.count; i++)
		cycles += loop->windows.at[i].dma ? COPY_CYCLES : 0;
	return cycles;
}

/* Cycles from one step of a loop to the next: the units run dry, what is carried in scratch is read and written, for
 * each register of it, and copies are seen to. */
static double step_cycles(Planner *p, const Loop *loop) {
	const Target *t = p->m->target;
	double registers = 0, register_size = (double)target_registers_bytes(t, 1);
	for (uint32_t i = 0; i < loop->carries.count; i++)
		if (loop->carries.at[i].place == CARRY_SCRATCH)
			registers += (double)p->plan->scratches.at[loop->carries.at[i].scratch].bytes / register_size;
	double between = (double)t->loop_step_cycles + registers / (double)t->scratch_registers_per_cycle;
	return between / (1 + loop->paired) + copy_cycles(p, loop);
}

/* Seconds that the steps of one grid point's loops cost over straight code. */
static double steps_overhead(Planner *p) {
	const Target *t = p->m->target;
	double cycles = 0, seconds = 0;
	for (uint32_t l = 0; l < p->plan->loops.count; l++) {
		const Loop *loop = &p->plan->loops.at[l];
		double entries = loop_entries(p, l);
		if (loop->type != LOOP_UNROLL)
			cycles += entries * loop_steps(p, loop, true) * step_cycles(p, loop);
		seconds += entries * overlap_seconds(p, loop);
	}
	return seconds + cycles / t->clock_hz;
}

static double block_product(const int64_t *block, uint32_t rank) {
	double elements = 1;
	for (uint32_t d = 0; d < rank; d++)
		elements *= (double)block[d];
	return elements;
}

/* Elements of the blocks that a grid point without loops reads and writes, of those that nothing is copied beside. */
static double block_elements(const Plan *plan) {
	double elements = 0;
	for (uint32_t i = 0; i < plan->operands.count && plan->loops.count == 0; i++) {
		const Operand *o = &plan->operands.at[i];
		if (o->space == SPACE_WINDOW && o->buffers == 1)
			elements += block_product(o->block, o->rank);
	}
	return elements;
}

/* Rows are sliced from there, one by one. */
static bool gathers_from(const Plan *plan, uint32_t loop, uint32_t window) {
	for (uint32_t i = 0; i < plan->places.count; i++) {
		const Access *a = plan->values[plan->places.at[i].node].access;
		if (a && a->places == i && a->kind == REF_WINDOW && a->loop == loop && a->window == window)
			return true;
	}
	return false;
}

/* Elements of a window that one step of its loop reads or writes: of a resident block that all steps share, its own. */
static double window_elements(const Planner *p, uint32_t l, uint32_t window) {
	const Loop *loop = &p->plan->loops.at[l];
	const Window *w = &loop->windows.at[window];
	double all = block_product(w->block, p->plan->operands.at[w->operand].rank), most = 0;
	for (NodeId n = graph_first(p->m, loop->graph); n != NONE; n = node_get(p->m, n)->next) {
		const Access *a = p->plan->values[n].access;
		if (!a || a->kind != REF_WINDOW || a->loop != l || a->window != window)
			continue;
		double elements = 1;
		for (uint32_t d = 0; d < a->rank; d++)
			elements *= a->dim[d].kind == SLICE_ALL  ? (double)w->block[d]
			            : a->dim[d].kind == SLICE_AT ? 1
			                                         : (double)a->dim[d].size;
		most = elements > most ? elements : most;
	}
	return most > 0 && most < all ? most : all;
}

/* Elements of the windows that one step of a loop reads and writes. */
static double step_elements(const Planner *p, uint32_t l) {
	double step = 0;
	for (uint32_t i = 0; i < p->plan->loops.at[l].windows.count; i++)
		step += gathers_from(p->plan, l, i) ? 0 : window_elements(p, l, i);
	return step;
}

static double registers_seconds(const Target *t, double elements) {
	return elements / ((double)(t->lanes * t->sublanes) * t->clock_hz);
}

/* The loops' steps in one grid point, and the seconds that it takes to read windows into registers: a loop's of each
 * step, else the point's own. */
static double point_steps(Planner *p, double *read_seconds) {
	double steps = 0, elements = block_elements(p->plan);
	for (uint32_t l = 0; l < p->plan->loops.count; l++) {
		double times = loop_entries(p, l) * loop_steps(p, &p->plan->loops.at[l], true);
		steps += times;
		elements += times * step_elements(p, l);
	}
	*read_seconds = registers_seconds(p->m->target, elements);
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

/* Seconds in which one grid point gathers rows: one after the other, nothing beside them. */
static double gathers_seconds(Planner *p) {
	const Target *t = p->m->target;
	double seconds = 0;
	for (uint32_t i = 0; i < p->plan->places.count; i++) {
		const Places *s = &p->plan->places.at[i];
		bool compared = p->plan->may_copy_rows || p->m->may_one_hot;
		bool packed = s->numbers != NONE;
		if (!compared || !p->plan->values[s->node].access || (s->rows == NONE && !packed))
			continue;
		const Scratch *scratch = &p->plan->scratches.at[packed ? s->groups : s->rows];
		double rows = places_rows(s), elements = 1;
		for (uint32_t d = s->rank; d < scratch->rank; d++)
			elements *= (double)scratch->shape[d];
		double cycles = s->copied
		                        ? rows_copied_cycles(t, rows, places_bytes(p->plan, s), s->group > 1 && !packed)
		                        : rows_sliced_cycles(p->m, s->node, rows, elements);
		for (uint32_t k = 0; k < s->count; k++)
			cycles += s->of[k].smem != NONE && !s->of[k].shared ? positions_copied_cycles() : 0;
		seconds += node_runs(p, s->node) * cycles / t->clock_hz;
	}
	return seconds;
}

/* Seconds that one grid point takes for products with one-hot matrices, beside what the matrix unit takes. */
static double one_hot_seconds(Planner *p) {
	double cycles = 0;
	OneHot o;
	for (NodeId n = 0; n < p->m->nodes.count && p->m->may_one_hot; n++)
		if (!node_get(p->m, n)->dead && one_hot_product(p->m, n, &o))
			cycles += node_runs(p, n) * one_hot_cycles(p->m->target, &o);
	return cycles / p->m->target->clock_hz;
}

/* Copies of the next point's blocks that are hidden where they change `fetches` times or more. */
static double next_blocks_seconds(const Planner *p, int64_t fetches) {
	double copy = blocks_seconds(p, fetches, true);
	return copy + (copy > 0 ? point_latency(p->plan) : 0);
}

/* All but what comes between one point and the next. */
static PointTimes point_times(Planner *p) {
	const Plan *plan = p->plan;
	PointTimes t = {.matmul = plan->mxu_seconds / grid_points(plan)};
	double steps = point_steps(p, &t.read);
	double computed = t.read > t.matmul ? t.read : t.matmul;
	t.wait = loops_wait(p, steps > 0 ? computed / steps : 0);
	t.between = steps_overhead(p);
	t.gathers = gathers_seconds(p);
	t.one_hot = one_hot_seconds(p);
	t.point = computed + (t.wait + t.between + t.gathers + t.one_hot);
	t.first = blocks_seconds(p, 0, true) + blocks_seconds(p, 0, false);
	return t;
}

PointTimes plan_point_times(Planner *p) {
	PointTimes t = point_times(p);
	int64_t points = 1;
	for (uint32_t k = 0; k < p->plan->grid.count; k++)
		points *= p->plan->grid.at[k].steps;
	t.next = points > 1 ? next_blocks_seconds(p, points) : 0;
	t.shown = points > 1 ? blocks_seconds(p, points, false) : 0;
	return t;
}

StepTimes plan_step_times(Planner *p, uint32_t l) {
	const Loop *loop = &p->plan->loops.at[l];
	const Target *t = p->m->target;
	StepTimes s = {.matmul = step_matmul_seconds(p, loop)};
	s.read = registers_seconds(t, step_elements(p, l));
	s.latency = step_copies(p, loop, &s.hidden, &s.shown) * copy_seconds(t);
	s.between = loop->type == LOOP_UNROLL ? 0 : step_cycles(p, loop) / t->clock_hz;
	double steps = loop_steps(p, loop, true);
	s.overlap = steps > 0 ? overlap_seconds(p, loop) / steps : 0;
	return s;
}

/* Copies are made in turn: those of a loop's windows wait for the next point's blocks, which are asked for first. */
static bool loops_copy(const Plan *plan) {
	bool any = false;
	for (uint32_t l = 0; l < plan->loops.count; l++)
		any = any || plan->loops.at[l].dma;
	return any;
}

/* An estimate of the kernel's seconds, for comparing two plans of one kernel; after plan_costs(). */
double plan_seconds(Planner *p) {
	Plan *plan = p->plan;
	PointTimes t = point_times(p);
	/* The first point waits for all its blocks; after it, a point at which grid dim k is the outermost to move on
	 * has the blocks that dims k and further in index copied during the point before it. */
	double ends = 2 * copy_seconds(p->m->target); /* the first blocks to come, the last to go */
	double point = t.point, seconds = t.first + point + ends, blocks = 0;
	bool behind = loops_copy(plan);
	int64_t before = 1;
	for (uint32_t k = 0; k < plan->grid.count; k++) {
		int64_t until = before * plan->grid.at[k].steps;
		double copy = next_blocks_seconds(p, until), shown = blocks_seconds(p, until, false);
		if (behind)
			shown += copy;
		else if (copy > point)
			shown += copy - point;
		seconds += (double)(until - before) * (point + shown);
		blocks += (double)(until - before) * shown;
		before = until;
	}
	double points = grid_points(plan);
	plan->time = (TimeParts){.mxu = t.matmul * points,
	                         .vector = t.read * points,
	                         .windows = t.wait * points,
	                         .steps = t.between * points,
	                         .gathers = t.gathers * points,
	                         .one_hot = t.one_hot * points,
	                         .blocks = blocks,
	                         .start = t.first + ends};
	return seconds;
}
