/* estimate.c - what kernels are thought to need and to take: for who reads the module (KERNEL_INFO), and for XLA. */
#include "driver.h"
#include "codegen/core/core.h"

/* No estimate is told above this, which an int64 holds. */
static const double MOST = 9e18;

static double rounded(double x) { return (double)(int64_t)(x + 0.5); }

static void add_part(KProgram *p, KParts *parts, const char *name, double value) {
	KPart part = {name, value};
	vec_push(p->arena, parts, part);
}

/* Of the kernel that takes most, by the names of the plan's `vmem`. */
static void add_vmem(const Program *g, KProgram *out) {
	const VmemUse *v = &g->kernels.at[0]->vmem;
	for (uint32_t i = 1; i < g->kernels.count; i++)
		v = g->kernels.at[i]->vmem.total > v->total ? &g->kernels.at[i]->vmem : v;
	add_part(out, &out->vmem, "windows", (double)v->windows);
	add_part(out, &out->vmem, "inner", (double)v->inner);
	add_part(out, &out->vmem, "scratch", (double)v->scratch);
	add_part(out, &out->vmem, "intermediates", (double)v->intermediates);
}

/* Of all kernels together, by the names of the plan's `estimate`: those of its parts that say most. */
static void add_estimate(const CoreTime *times, uint32_t count, const Target *target, KProgram *out) {
	enum { CYCLES, HBM = UNIT_COUNT + 1, WAITS, START, PARTS };
	static const char *const names[PARTS] = {"cycles",
	                                         [1 + UNIT_MXU] = "mxu",
	                                         [1 + UNIT_VALU] = "vector",
	                                         [1 + UNIT_XLU] = "xlu",
	                                         [1 + UNIT_EUP] = "eup",
	                                         [1 + UNIT_LOAD] = "load",
	                                         [1 + UNIT_STORE] = "store",
	                                         [HBM] = "hbm",
	                                         [WAITS] = "waits",
	                                         [START] = "start"};
	double sums[PARTS] = {0};
	for (uint32_t i = 0; i < count; i++) {
		sums[CYCLES] += times[i].cycles;
		for (uint32_t u = 0; u < UNIT_COUNT; u++)
			sums[1 + u] += times[i].busy[u];
		sums[HBM] += times[i].hbm;
		sums[WAITS] += times[i].waits;
		sums[START] += times[i].start;
	}
	double nanoseconds = sums[CYCLES] / target->clock_hz * 1e9;
	if (!(sums[CYCLES] < MOST && nanoseconds < MOST))
		return;
	for (uint32_t part = 0; part < PARTS; part++) {
		if (names[part])
			add_part(out, &out->estimate, names[part], rounded(sums[part]));
		if (part == CYCLES)
			add_part(out, &out->estimate, "seconds", rounded(nanoseconds) / 1e9);
	}
}

/* Of the grid's place alone. */
static bool follows_grid(const Affine *x) {
	bool alone = true;
	for (uint32_t i = 0; i < x->count; i++)
		alone = alone && x->term[i].kind == VAR_PROGRAM;
	return alone;
}

/* Data decide how much of it runs: a loop's bounds, or a list of work. */
static bool follows_data(const Plan *p) {
	bool data = false;
	for (uint32_t l = 0; l < p->loops.count; l++)
		for (uint32_t d = 0; d < p->loops.at[l].rank; d++) {
			const LoopDim *dim = &p->loops.at[l].dim[d];
			data = data || (dim->computed && !(follows_grid(&dim->begin) && follows_grid(&dim->end)));
		}
	for (uint32_t i = 0; i < p->operands.count; i++)
		data = data || p->operands.at[i].ahead;
	return data;
}

/* Of matmuls their FLOPs, of the vector unit and of that for transcendentals an operation on each lane of a register.
 * NULL: not known before it runs. */
static const KCost *cost_of(const Plan *p, const CoreTime *t, Arena *a) {
	const Target *target = p->module->target;
	const double *per_cycle = units_of(target)->per_cycle;
	double lanes = (double)(target->lanes * target->sublanes);
	double flops = p->flops + t->busy[UNIT_VALU] * per_cycle[UNIT_VALU] * lanes;
	double transcendentals = t->busy[UNIT_EUP] * per_cycle[UNIT_EUP] * lanes;
	if (follows_data(p) || !(flops < MOST && transcendentals < MOST && p->hbm_bytes < MOST))
		return NULL;
	KCost *cost = arena_alloc(a, sizeof *cost);
	*cost = (KCost){(int64_t)rounded(flops), (int64_t)rounded(transcendentals), (int64_t)rounded(p->hbm_bytes)};
	return cost;
}

void compile_estimate(const Program *g, KProgram *out) {
	CoreTime *times = arena_array(out->arena, g->kernels.count, sizeof *times);
	for (uint32_t i = 0; i < g->kernels.count; i++) {
		kernel_time(out->kernels.at[i], g->module->target, out->arena, &times[i]);
		out->kernels.at[i]->cost = cost_of(g->kernels.at[i], &times[i], out->arena);
	}
	add_vmem(g, out);
	add_estimate(times, g->kernels.count, g->module->target, out);
}
