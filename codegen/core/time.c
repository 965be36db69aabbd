/* time.c - from cycles of straight code to those of a kernel: loops, the grid's pipeline, copies.
 *
 * HBM moves one copy after the other; a copy's semaphore is set a latency after its last byte. A grid point waits for
 * its blocks, starts the copies of the next point's, computes, and starts those of what it gives:
 *
 *     HBM      in 0 |latency|  in 1     out 0  in 2     out 1
 *     core                  |  point 0 | point 1 | point 2 |
 *
 * The next point's copies queue behind those that are waited for. So a point takes what computes or what copies,
 * whichever is longer, or half of both with the latency; with three buffers of what it reads (third.c), a third of
 * both. Where copies take longer, the first point computes beside the copies of the second, and the last one beside
 * what the one before it gives. A loop has the mean of its steps over some grid points. */
#include "schedule.h"
#include "codegen/build/build.h"

typedef struct Timing {
	Core core;
	Kernel *k;
	double bytes_per_cycle;
	double *trips;    /* by statement: of a loop, the mean of its steps */
	const Run **runs; /* by statement: of one with regions, once it is known */
	uint32_t next;    /* operands of the next point's blocks, which save more than they take: neither is counted */
} Timing;

/* ---- copies ----------------------------------------------------------------------------------------------------- */

/* Blocks of which points of the grid: the mean of all, or one's, the one behind the first or before the last. */
typedef enum Points { POINTS_ALL, POINT_SECOND, POINT_BEFORE } Points;

/* Whether the block of that point ends with its array along dim i: behind the first one only what moves from point to
 * point may, before the last one all but that does. */
static bool ends_there(const Timing *t, const KBuffer *b, uint32_t i, Points at) {
	const KGridDim *inner = NULL;
	for (uint32_t d = 0; d < t->k->grid.count; d++)
		inner = t->k->grid.at[d].steps > 1 ? &t->k->grid.at[d] : inner;
	bool moves = inner && b->index && int_reads(t->k, b->index[i], inner->at);
	return at == POINT_BEFORE ? !moves : moves && inner->steps == 2;
}

/* Bytes that a copy of a block moves: whole lanes, and of an array that its blocks reach past no more than there is. */
static double block_bytes(const Timing *t, const KBuffer *b, const int64_t *block, Points at) {
	double bytes = (double)int_max(dtype_bits(b->dtype), 4) / 8;
	for (uint32_t i = 0; i < b->rank; i++) {
		int64_t array = b->array ? b->array[i] : block[i];
		double size = (double)block[i];
		if (array > 0 && block[i] > 0) {
			int64_t blocks = int_cdiv(array, block[i]);
			size = at == POINTS_ALL          ? (double)array / (double)blocks
			       : ends_there(t, b, i, at) ? (double)(array - (blocks - 1) * block[i])
			                                 : (double)int_min(array, block[i]);
		}
		if (i + 1 == b->rank)
			size = (double)int_round_up((int64_t)size, t->core.t->lanes);
		bytes *= size;
	}
	return bytes;
}

/* ---- loops ------------------------------------------------------------------------------------------------------ */

/* Rough figures. */
enum {
	STEP_CYCLES = 12,          /* a branch, its delay slots, and the counter */
	PIPELINE_STEP_CYCLES = 60, /* the same of emit_pipeline, which looks whether each window moves */
	EXPANDED_STEPS = 4,        /* of straight code; further ones take as long as the last of these */
	EXPANDED_COPIES = 8
};

static const Run *nested_run(void *data, StmtId s);

/* So many steps at once, of which the mean is what one takes. */
static Run step_run(Timing *t, const KStmt *s, double steps) {
	const KLoop *loop = s->loop;
	uint32_t copies = loop->paired ? 2 : loop->unroll > 1 ? (uint32_t)loop->unroll : 1;
	Run run = {0};
	if (loop->type == LOOP_UNROLL && steps > 1) {
		uint32_t few = steps < EXPANDED_STEPS ? (uint32_t)steps : EXPANDED_STEPS;
		Run less = region_run(&t->core, s->body, loop, few - 1, nested_run, t);
		Run more = region_run(&t->core, s->body, loop, few, nested_run, t);
		run_add(&run, &more, (steps - few + 1) / steps);
		run_add(&run, &less, -(steps - few) / steps);
		run.cycles = t->core.bound ? 0 : run.cycles;
		for (uint32_t u = 0; u < UNIT_COUNT; u++) /* further steps are not through sooner than their units */
			run.cycles = larger(run.cycles, run.busy[u]);
		return run;
	}
	copies = copies < EXPANDED_COPIES ? copies : EXPANDED_COPIES;
	Run all = region_run(&t->core, s->body, loop, copies, nested_run, t);
	run_add(&run, &all, 1.0 / copies);
	return run;
}

static double windows_bytes(const Timing *t, const KLoop *loop, bool output, int *buffers) {
	double bytes = 0;
	for (uint32_t i = 0; i < loop->windows.count; i++) {
		const KWindow *w = &loop->windows.at[i];
		if (!w->dma || !(output ? w->output : w->input))
			continue;
		bytes += block_bytes(t, &t->k->buffers.at[w->of], t->k->buffers.at[w->buffer].shape, POINTS_ALL);
		*buffers = w->buffers;
	}
	return bytes;
}

/* Of copies that a region starts by itself. */
static double started_bytes(const Timing *t, RegionId region) {
	double bytes = 0;
	for (StmtId i = t->k->regions.at[region].first; i != NONE; i = t->k->stmts.at[i].next) {
		const KStmt *s = &t->k->stmts.at[i];
		const KArg *from = &t->k->args.at[s->arg_first];
		if (s->op != K_COPY || from->kind != KARG_REF)
			continue;
		int64_t shape[KDIM_MAX];
		const KBuffer *b = &t->k->buffers.at[t->k->refs.at[from->ref].buffer];
		double size = (double)int_max(dtype_bits(b->dtype), 4) / 8;
		uint32_t rank = kernel_ref_shape(t->k, from->ref, shape);
		for (uint32_t d = 0; d < rank; d++)
			size *= (double)shape[d];
		bytes += b->space == KSPACE_HBM ? size : 0;
	}
	return bytes;
}

static Run loop_run(Timing *t, StmtId stmt) {
	const KStmt *s = &t->k->stmts.at[stmt];
	const KLoop *loop = s->loop;
	double steps = t->trips[stmt];
	Run run = {0};
	if (steps <= 0)
		return run;
	Run step = step_run(t, s, steps);
	if (loop->type != LOOP_UNROLL) {
		double between = (loop->type == LOOP_EMIT_PIPELINE ? PIPELINE_STEP_CYCLES : STEP_CYCLES) /
		                 (loop->paired ? 2.0 : larger(loop->unroll, 1));
		step.cycles += between;
		step.steps += between;
	}
	int buffers = 2;
	double out = windows_bytes(t, loop, true, &buffers) / t->bytes_per_cycle;
	double in = windows_bytes(t, loop, false, &buffers) / t->bytes_per_cycle, latency = t->core.u->copy_wait;
	double started = started_bytes(t, s->body) / t->bytes_per_cycle;
	bool shown = in > 0 && buffers < 2; /* a step waits for its own windows, behind what the one before gave */
	double copies = shown ? started : in + out + started;
	if (in > 0 && !shown)
		copies = larger(copies, (in + latency + step.cycles) / buffers + started);
	bool waits = in > 0 && !shown && !loop->across;
	double first = (waits ? in + latency : 0) + (out > 0 ? latency + (shown ? 0 : out) : 0);
	double wait = larger(copies - step.cycles, 0) + (shown ? in + out + latency : 0);
	step.cycles += wait;
	step.waits += wait;
	step.hbm_bytes += (in + out + started) * t->bytes_per_cycle;
	run_add(&run, &step, steps);
	run.cycles += first;
	run.waits += first;
	return run;
}

/* Of all grid points those for which the condition holds. */
static double share_of_points(const Kernel *k, IntId condition) {
	const KInt *i = &k->ints.at[condition];
	if (i->kind == INT_AND)
		return share_of_points(k, i->a) * share_of_points(k, i->b);
	if (!int_kind_of_dim(i->kind))
		return 1;
	double first = 1.0 / (double)k->grid.at[i->number].steps;
	return i->kind == INT_FIRST ? first : 1 - first;
}

/* How often a region runs, of the times that it is come to. */
static double share_of_runs(const Timing *t, const KStmt *s) {
	const KArg *a = s->op == K_WHEN ? &t->k->args.at[s->arg_first] : NULL;
	return a && a->kind == KARG_INT ? share_of_points(t->k, a->index) : 1;
}

static const Run *nested_run(void *data, StmtId stmt) {
	Timing *t = data;
	if (t->runs[stmt])
		return t->runs[stmt];
	Run *run = arena_alloc(t->core.a, sizeof *run);
	*run = (Run){0};
	if (t->k->stmts.at[stmt].op == K_LOOP) {
		*run = loop_run(t, stmt);
	} else {
		RegionId regions[STMT_REGIONS_MAX];
		uint32_t count = kernel_regions(t->k, stmt, regions);
		for (uint32_t i = 0; i < count; i++) {
			Run part = region_run(&t->core, regions[i], NULL, 1, nested_run, t);
			run_add(run, &part, share_of_runs(t, &t->k->stmts.at[stmt]));
		}
	}
	return t->runs[stmt] = run;
}

/* ---- the grid --------------------------------------------------------------------------------------------------- */

/* The block moves on where dim k does, all dims inside of it starting again. */
static double moves_at(const Timing *t, const KBuffer *b, uint32_t k) {
	double moves = 0;
	for (uint32_t g = k; g < t->k->grid.count; g++) {
		bool turns = t->k->turns && g > k && g + 1 == t->k->grid.count;
		if (t->k->grid.at[g].steps < 2 || turns)
			continue;
		for (uint32_t d = 0; d < b->rank; d++) {
			if (!b->index || !int_reads(t->k, b->index[d], t->k->grid.at[g].at))
				continue;
			const KInt *x = &t->k->ints.at[b->index[d]];
			int64_t by = 1;
			bool divided = g == k && x->kind == INT_DIV && int_is_const(t->k, x->b, &by) && by > 0;
			moves = larger(moves, divided ? 1.0 / (double)by : 1);
		}
	}
	return moves;
}

static bool in_grid(const KBuffer *b) {
	return b->space == KSPACE_VMEM && (b->role == BUFFER_IN || b->role == BUFFER_OUT);
}

/* Cycles of HBM for the blocks that move where dim k does, or for all. */
static double moved(const Timing *t, uint32_t k, BufferRole role, bool hidden, Points at, bool all) {
	double bytes = 0;
	for (uint32_t i = 0; i < t->k->buffers.count; i++) {
		const KBuffer *b = &t->k->buffers.at[i];
		if (in_grid(b) && b->role == role && (b->buffers > 1) == hidden)
			bytes += block_bytes(t, b, b->shape, at) * (all ? 1 : moves_at(t, b, k));
	}
	return bytes / t->bytes_per_cycle;
}

static double given(const Timing *t, uint32_t k, Points at, bool all) {
	return moved(t, k, BUFFER_OUT, true, at, all) + moved(t, k, BUFFER_OUT, false, at, all);
}

/* The grid is a list of work, as long as there may be of it: half of its steps are taken to repeat the last entry,
 * which does nothing. */
enum { LISTED_STEPS = 2 };

static bool lists_work(const Kernel *k) {
	bool ahead = false;
	for (uint32_t i = 0; i < k->buffers.count; i++)
		ahead = ahead || k->buffers.at[i].ahead;
	return ahead;
}

/* Of the grid's own code at each point, and of that for each operand: whether its block moves. Rough figures. */
enum { POINT_CYCLES = 30, OPERAND_CYCLES = 14 };

static double between_points(const Timing *t) {
	double operands = -(double)t->next;
	for (uint32_t i = 0; i < t->k->buffers.count; i++)
		operands += in_grid(&t->k->buffers.at[i]);
	return POINT_CYCLES + OPERAND_CYCLES * operands;
}

/* Of what the first and the last point compute, and a latency, what HBM is busy beside. */
static double beside_copies(double in, double gives, double computes) {
	double alone = larger(computes - in, 0) + larger(computes - gives, 0);
	return larger(computes - alone, 0);
}

/* Points whose blocks lie in VMEM at once. */
static double points_held(const Kernel *k) {
	int buffers = 2;
	for (uint32_t i = 0; i < k->buffers.count; i++)
		if (in_grid(&k->buffers.at[i]) && k->buffers.at[i].role == BUFFER_IN &&
		    k->buffers.at[i].buffers > buffers)
			buffers = k->buffers.at[i].buffers;
	return buffers;
}

/* All points of the grid but for what comes before the first and after the last one: cycles, waits, HBM. */
static void grid_time(const Timing *t, const Run *point, CoreTime *out) {
	double compute = point->cycles + between_points(t), latency = t->core.u->copy_wait, before = 1;
	double inside = point->hbm_bytes / t->bytes_per_cycle;
	uint32_t inner = 0;
	bool hides = false; /* what is copied beside the first and the last point */
	out->cycles = compute;
	for (uint32_t d = 0; d < t->k->grid.count; d++) {
		double until = before * (double)t->k->grid.at[d].steps, times = until - before;
		double in = moved(t, d, BUFFER_IN, true, POINTS_ALL, false),
		       shown = moved(t, d, BUFFER_IN, false, POINTS_ALL, false);
		double gives = given(t, d, POINTS_ALL, false);
		double copies = larger(in + gives + inside, gives > 0 ? (gives + latency + compute) / 2 : 0);
		copies = larger(copies, in + gives > 0 ? (in + gives + latency + compute) / points_held(t->k) : 0);
		double step = larger(compute, copies) + (shown > 0 ? shown + latency : 0);
		if (times > 0) {
			inner = d;
			hides = shown + inside == 0;
		}
		out->cycles += times * step;
		out->waits += times * (step - compute);
		out->hbm += times * (in + shown + gives);
		before = until;
	}
	double beside = hides ? beside_copies(moved(t, inner, BUFFER_IN, true, POINT_SECOND, false),
	                                      given(t, inner, POINT_BEFORE, false), point->cycles + latency)
	                      : 0;
	out->cycles -= beside;
	out->waits = larger(out->waits - beside, 0);
}

typedef struct Windows {
	const Target *t;
	double *beside; /* of Core */
	uint32_t next;  /* of Timing */
} Windows;

static void find_beside(Kernel *k, StmtId s, void *data) {
	Windows *found = data;
	const KLoop *loop = k->stmts.at[s].op == K_LOOP ? k->stmts.at[s].loop : NULL;
	found->next += loop ? loop->next.count : 0;
	for (uint32_t i = 0; loop && i < loop->windows.count; i++) {
		const KWindow *w = &loop->windows.at[i];
		const KBuffer *window = &k->buffers.at[w->buffer], *of = &k->buffers.at[w->of];
		int64_t size = window->rank ? window->shape[window->rank - 1] : 1, lanes = found->t->lanes;
		if (!w->dma && window->rank && size < of->shape[of->rank - 1])
			found->beside[w->buffer] = 1 - (double)int_gcd(size, lanes) / (double)lanes;
	}
}

/* Windows of a resident block that start anywhere in its lanes: what is loaded goes to the first lanes, what is stored
 * from there. */
static void look_at_windows(Timing *t, const Target *target, Arena *a) {
	Windows found = {.t = target, .beside = arena_array(a, t->k->buffers.count + 1, sizeof(double))};
	kernel_walk(t->k, t->k->body, find_beside, &found);
	t->core.beside = found.beside;
	t->next = found.next;
}

static Timing timing_of(Kernel *k, const Target *target, Arena *a) {
	Timing t = {.k = k, .core = core_of(k, target, a)};
	t.bytes_per_cycle = target->hbm_bytes_per_s / target->clock_hz;
	look_at_windows(&t, target, a);
	t.trips = loop_trips(k, a);
	t.runs = arena_array(a, k->stmts.count + 1, sizeof *t.runs);
	return t;
}

static void time_kernel(Kernel *k, const Target *target, bool bound, Arena *a, CoreTime *out) {
	Timing t = timing_of(k, target, a);
	t.core.bound = bound;
	Run point = region_run(&t.core, k->body, NULL, 1, nested_run, &t);
	double latency = t.core.u->copy_wait, points = grid_points_of(k), inside = point.hbm_bytes / t.bytes_per_cycle;
	double first_in =
		moved(&t, 0, BUFFER_IN, true, POINTS_ALL, true) + moved(&t, 0, BUFFER_IN, false, POINTS_ALL, true);
	double last_out = given(&t, 0, POINTS_ALL, true);
	*out = (CoreTime){.start = (first_in > 0 ? first_in + latency : 0) + (last_out > 0 ? last_out + latency : 0),
	                  .hbm = first_in + last_out};
	grid_time(&t, &point, out);
	if (lists_work(k)) {
		out->cycles /= LISTED_STEPS;
		out->waits /= LISTED_STEPS;
		out->hbm /= LISTED_STEPS;
		points /= LISTED_STEPS;
	}
	out->cycles += out->start;
	out->hbm += points * inside;
	out->hbm_bytes = out->hbm * t.bytes_per_cycle;
	out->compute = points * (point.cycles - point.waits);
	out->waits += points * point.waits;
	out->steps = points * (between_points(&t) + point.steps);
	for (uint32_t u = 0; u < UNIT_COUNT; u++)
		out->busy[u] = points * point.busy[u];
}

void kernel_time(Kernel *k, const Target *target, Arena *a, CoreTime *out) { time_kernel(k, target, false, a, out); }

static void time_plan(Plan *p, bool bound, Arena *a, CoreTime *out) {
	Kernel *k = p->kernel ? p->kernel : plan_kernel(p);
	k->turns = p->back_and_forth;
	time_kernel(k, p->module->target, bound, a, out);
}

void plan_time(Plan *p, Arena *a, CoreTime *out) { time_plan(p, false, a, out); }

double program_bound(const Program *g, Arena *a) {
	double cycles = 0;
	for (uint32_t i = 0; i < g->kernels.count; i++) {
		CoreTime one;
		time_plan(g->kernels.at[i], true, a, &one);
		cycles += one.cycles;
	}
	return cycles;
}

void core_time_add(CoreTime *to, const CoreTime *x) {
	to->cycles += x->cycles;
	to->compute += x->compute;
	to->hbm += x->hbm;
	to->hbm_bytes += x->hbm_bytes;
	to->waits += x->waits;
	to->start += x->start;
	to->steps += x->steps;
	for (uint32_t u = 0; u < UNIT_COUNT; u++)
		to->busy[u] += x->busy[u];
}

void program_time(const Program *g, Arena *a, CoreTime *out) {
	*out = (CoreTime){0};
	for (uint32_t i = 0; i < g->kernels.count; i++) {
		CoreTime one;
		plan_time(g->kernels.at[i], a, &one);
		core_time_add(out, &one);
	}
}
