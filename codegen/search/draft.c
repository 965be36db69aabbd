/* draft.c - decides the whole kernel, one way: the steps in order, and what is true of the kernel as a whole. */
#include "search.h"
#include "codegen/costs/costs.h"
#include "codegen/loops/loops.h"
#include "codegen/lower/lower.h"
#include "codegen/place/place.h"
#include "codegen/values/values.h"
#include <stdio.h>

/* ---- scalars ---------------------------------------------------------------------------------------------------- */

static bool scalar_read(const Module *m, ScalarId s) {
	for (NodeId n = 0; n < m->nodes.count; n++)
		if (!node_get(m, n)->dead && node_get(m, n)->op == OP_SCALAR && node_arg(m, n, 0)->scalar == s)
			return true;
	return false;
}

static bool plan_scalars(Planner *p) {
	for (ScalarId s = 0; s < p->m->scalars.count; s++) {
		const Scalar *scalar = &p->m->scalars.at[s];
		if (scalar->has_value || !scalar_read(p->m, s))
			continue;
		Operand o = {.tensor = NONE,
		             .scalar = s,
		             .seen_as = NONE,
		             .input = true,
		             .space = SPACE_SMEM,
		             .unit = NONE,
		             .merged = NONE,
		             .split = NONE,
		             .parts = 1};
		o.dtype = dtype_of_sums(scalar->dtype);
		o.rank = 1;
		o.shape[0] = 1;
		o.alias_of = NONE;
		o.ref = arena_printf(p->a, "%s_ref", scalar->name);
		o.why = "a run-time scalar";
		vec_push(p->a, &p->plan->operands, o);
	}
	return true;
}

/* ---- the grid's semantics --------------------------------------------------------------------------------------- */

static bool operand_indexed_by(const Plan *plan, uint32_t operand, uint32_t dim) {
	const Operand *o = &plan->operands.at[operand];
	int64_t steps = plan->grid.at[dim].steps;
	if (o->space == SPACE_WINDOW && affine_tells_program(o->rank, o->index, dim, steps))
		return true;
	for (uint32_t l = 0; l < plan->loops.count; l++)
		for (uint32_t w = 0; w < plan->loops.at[l].windows.count; w++) {
			const Window *win = &plan->loops.at[l].windows.at[w];
			if (win->operand == operand && win->dma &&
			    affine_tells_program(o->rank, win->index, dim, steps))
				return true;
		}
	return false;
}

/* Two grid points that write one window must run in order: that dim is `arbitrary`, not `parallel`. Pallas splits a
 * prefix of the dims over the cores, so those after it are not parallel either. */
static void plan_semantics(Planner *p) {
	for (uint32_t k = 0; k < p->plan->grid.count; k++) {
		GridDim *dim = &p->plan->grid.at[k];
		if (k > 0 && !dim[-1].parallel) {
			dim->parallel = false;
			dim->why = "it comes after a dim that is not parallel";
		}
		for (uint32_t i = 0; i < p->plan->operands.count && dim->steps > 1; i++) {
			const Operand *o = &p->plan->operands.at[i];
			bool shares = o->parts > 1 && affine_uses_program(&o->index[o->part_dim], k);
			if (!o->output || (operand_indexed_by(p->plan, i, k) && !shares))
				continue;
			dim->parallel = false;
			dim->why = arena_printf(p->a,
			                        shares || o->parts > 1 ? "its steps fill one block of %s"
			                                               : "%s is written again by each of its steps",
			                        o->ref);
		}
	}
}

/* ---- configuration keys that nothing here can serve ------------------------------------------------------------- */

/* Something else is asked for than what holds where nobody gives the key. */
static bool asks(const KeyRow *row, const Config *c) {
	if (!key_is_set(row, c))
		return false;
	if (!key_is_list(row))
		return ((const ConfigKey *)key_field(row, c))->value != row->fallback;
	const ConfigList *list = key_field(row, c);
	for (uint32_t i = 0; i < list->values.count; i++)
		if (list->values.at[i] != row->fallback)
			return true;
	return false;
}

static const ConfigOrigin *origin_of(const KeyRow *row, const Config *c) {
	return key_is_list(row) ? &((const ConfigList *)key_field(row, c))->origin
	                        : &((const ConfigKey *)key_field(row, c))->origin;
}

/* Every key either changes the Plan or is refused here: docs/config.md. */
static bool plan_config_served(Planner *p) {
	const Config *c = &p->m->config;
	bool ok = true;
	for (const KeyRow *row = key_rows; row < key_rows + KEY_COUNT; row++) {
		if (!row->unlowered || !asks(row, c))
			continue;
		ok = false;
		diag_error(p->d, config_place(origin_of(row, c)), "unsupported-config", "leave it out", "%s: %s",
		           row->name, row->unlowered);
	}
	return ok;
}

static void remark_blocks(Plan *plan) {
	for (BlockId b = 0; b < plan->module->narrowed.count; b++) {
		const Narrowed *n = &plan->module->narrowed.at[b];
		const char *name = plan->module->blocks.at[b].name;
		if (n->wide)
			plan_remark(plan, "%s: tiles of %lld, not %lld: %s", name, (long long)n->size,
			            (long long)n->asked, n->wide);
		else if (n->size != n->asked)
			plan_remark(plan, "%s: tiles of %lld, not %lld: no more is in its range", name,
			            (long long)n->size, (long long)n->asked);
		else if (n->kept)
			plan_remark(plan, "%s: tiles of %lld are wider than its range, and stay so: %s", name,
			            (long long)n->size, n->kept);
	}
}

static void remark_loops(Plan *plan) {
	for (uint32_t i = 0; i < plan->loops.count; i++) {
		const Loop *l = &plan->loops.at[i];
		plan_remark(plan, "%s: lowered by %s%s: %s", l->name, loop_type_name(l->type),
		            l->type == LOOP_FORI ? l->dma ? " with DMA" : " without DMA" : "", l->why);
		if (l->skewed)
			plan_remark(plan, "%s: skewed: %s", l->name, l->skew_why);
		if (l->pair_why)
			plan_remark(plan, "%s: %s: %s", l->name,
			            l->paired ? "two steps in an iteration" : "one step in an iteration", l->pair_why);
		if (!l->skewed)
			plan_remark(plan, "%s: not skewed: %s", l->name, l->skew_why);
		if (l->peeled)
			plan_remark(plan, "%s: the last step has %lld of %lld lanes; it runs after the loop%s", l->name,
			            (long long)l->dim[0].tail, (long long)l->dim[0].step,
			            l->masked ? ", with masks" : "");
	}
}

/* A draft: all but what VMEM decides. */
Plan *plan_draft(Arena *a, Module *m, Diag *d, PlanWay way) {
	Plan *plan = arena_alloc(a, sizeof *plan);
	plan->module = m;
	plan->arena = a;
	plan->spills = -1;
	plan->values = arena_raw(a, m->nodes.count * sizeof *plan->values);
	for (NodeId n = 0; n < m->nodes.count; n++)
		plan->values[n] = (Value){.same_as = NONE, .compute = DTYPE_NONE};
	plan->loop_of = arena_array(a, m->graphs.count, sizeof *plan->loop_of);
	for (GraphId g = 0; g < m->graphs.count; g++)
		plan->loop_of[g] = NONE;
	Planner p = {.plan = plan, .m = m, .d = d, .a = a, .way = way};
	bool served = plan_config_served(&p), held = plan_limits(&p);
	if (!plan_supported(&p) || !served || !held || !plan_grid(&p, NULL) || !plan_loops(&p) || !plan_scalars(&p) ||
	    !plan_accesses(&p) || !plan_values(&p) || !plan_carries(&p))
		return NULL;
	plan_strips(&p);
	plan_skew(&p);
	plan_semantics(&p); /* what a core holds depends on it */
	plan_costs(&p);
	plan->seconds = plan_seconds(&p);
	return plan;
}

/* Buffers that are given up to make it fit are waited for. */
bool plan_complete(Plan *plan, Module *m, Diag *d, PlanWay way) {
	Planner p = {.plan = plan, .m = m, .d = d, .a = plan->arena, .way = way};
	if (!plan_fit(&p))
		return false;
	plan->seconds = plan_seconds(&p);
	return true;
}

void plan_settle(Plan *plan, Module *m) {
	Planner p = {.plan = plan, .m = m, .a = plan->arena};
	plan_walk(&p);
	remark_blocks(plan);
	remark_loops(plan);
}
