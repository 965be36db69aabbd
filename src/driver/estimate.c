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
static void add_estimate(const CoreTime *t, const Target *target, KProgram *out) {
	static const Unit told[] = {UNIT_MXU, UNIT_VALU, UNIT_XLU, UNIT_EUP, UNIT_LOAD, UNIT_STORE};
	KParts *parts = &out->estimate;
	double nanoseconds = t->cycles / target->clock_hz * 1e9;
	if (!(t->cycles < MOST && nanoseconds < MOST))
		return;
	add_part(out, parts, "cycles", rounded(t->cycles));
	add_part(out, parts, "seconds", rounded(nanoseconds) / 1e9);
	for (size_t i = 0; i < sizeof told / sizeof *told; i++)
		add_part(out, parts, unit_names[told[i]], rounded(t->busy[told[i]]));
	add_part(out, parts, "hbm", rounded(t->hbm));
	add_part(out, parts, "waits", rounded(t->waits));
	add_part(out, parts, "start", rounded(t->start));
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
	CoreTime all = {0};
	for (uint32_t i = 0; i < g->kernels.count; i++) {
		CoreTime one;
		kernel_time(out->kernels.at[i], g->module->target, out->arena, &one);
		out->kernels.at[i]->cost = cost_of(g->kernels.at[i], &one, out->arena);
		core_time_add(&all, &one);
	}
	add_vmem(g, out);
	add_estimate(&all, g->module->target, out);
}
