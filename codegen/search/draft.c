/* draft.c - plans a kernel, one way: the steps in order, and what VMEM decides. */
#include "search.h"
#include "codegen/build/build.h"
#include "codegen/costs/costs.h"
#include "codegen/loops/loops.h"
#include "codegen/lower/lower.h"
#include "codegen/place/place.h"
#include "codegen/rewrite/rewrite.h"
#include "codegen/values/values.h"

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
		plan_remark(plan, "%s: lowered by %s%s: %s", l->name, loop_lowering_name(l), loop_copies_words(l),
		            l->why);
		if (l->skewed)
			plan_remark(plan, "%s: skewed: %s", l->name, l->skew_why);
		if (l->bodies_why)
			plan_remark(plan, "%s: %s: %s", l->name,
			            l->bodies ? "straight code for each number of steps that there is"
			                      : "a loop, whatever the number of its steps",
			            l->bodies_why);
		if (l->pair_why)
			plan_remark(plan, "%s: %s: %s", l->name,
			            l->fenced   ? "two steps at a time, behind a fence each time"
			            : l->paired ? "two steps in an iteration"
			                        : "one step in an iteration",
			            l->pair_why);
		if (l->cut_why)
			plan_remark(plan, "%s: masked %ssteps %s: %s", l->name, l->bodies ? "" : "last ",
			            l->cut ? "in blocks" : "whole", l->cut_why);
		if (!l->skewed)
			plan_remark(plan, "%s: not skewed: %s", l->name, l->skew_why);
		if (l->unmasked_why)
			plan_remark(plan, "%s: steps that masks leave whole are %scomputed without them: %s", l->name,
			            l->unmasked ? "" : "not ", l->unmasked_why);
		if (l->lane_sums_why)
			plan_remark(plan, "%s: sums along lanes are %s: %s", l->name,
			            l->lane_sums ? "carried in 128 lanes" : "made in each step", l->lane_sums_why);
		if (l->across)
			plan_remark(plan, "%s: the next %s's first windows are copied in the last step: %s", l->name,
			            l->parent == NONE ? "point" : "item", l->across_why);
		if (l->next_why)
			plan_remark(plan, "%s: what runs ahead of the first step is computed %s: %s", l->name,
			            l->next.count ? "by the grid point before" : "before the loop", l->next_why);
		if (l->peeled)
			plan_remark(plan, "%s: the last step has %lld of %lld lanes; it runs after the loop%s", l->name,
			            (long long)l->dim[0].tail, (long long)l->dim[0].step,
			            l->masked ? ", with masks" : "");
	}
}

/* Bodies are cut into blocks, as planned: no whole step is left, which would be called under a flag. Whether they can
 * be says the kernel. */
static bool bodies_are_cut(Plan *plan) {
	if (!plan_has_bodies(plan))
		return true;
	Kernel *k = plan_kernel(plan);
	if (plan->left)
		++*plan->left;
	rewrite_drive(k);
	rewrite_blocks(k);
	StmtIds calls = kernel_stmts_of(k, K_CALL);
	for (uint32_t i = 0; i < calls.count; i++)
		for (uint32_t a = 0; a < kernel_stmt(k, calls.at[i])->arg_count; a++) {
			const KArg *x = kernel_arg(k, calls.at[i], a);
			if (x->kind == KARG_VALUE && k->values.at[x->value].type == KTYPE_FLAG)
				return false;
		}
	plan_find_turned(plan, k);
	return true;
}

/* A draft: all but what VMEM decides. */
Plan *plan_draft(Arena *a, Module *m, Diag *d, PlanWay way) {
	Plan *plan = arena_alloc(a, sizeof *plan);
	plan->module = m;
	plan->arena = a;
	plan->spills = -1;
	plan->sent = plan->come = plan->started = plan->staged = NONE;
	plan->left = way.left;
	plan->values = arena_raw(a, m->nodes.count * sizeof *plan->values);
	for (NodeId n = 0; n < m->nodes.count; n++)
		plan->values[n] = (Value){.same_as = NONE, .compute = DTYPE_NONE, .staged = NONE};
	plan->loop_of = arena_array(a, m->graphs.count, sizeof *plan->loop_of);
	for (GraphId g = 0; g < m->graphs.count; g++)
		plan->loop_of[g] = NONE;
	Planner p = {.plan = plan, .m = m, .d = d, .a = a, .way = way};
	bool served = plan_config_served(&p), within = plan_limits(&p);
	if (!plan_supported(&p) || !served || !within || !plan_grid(&p, NULL) || !plan_loops(&p) || !plan_remote(&p) ||
	    !plan_scalars(&p) || !plan_accesses(&p) || !plan_values(&p))
		return NULL;
	plan_bodies(&p);
	if (!plan_carries(&p))
		return NULL;
	if (!plan->remote)
		plan_strips(&p);
	plan_skew(&p);
	plan_across(&p);
	plan_unmasked(&p);
	plan_lane_sums(&p);
	plan_semantics(&p); /* what a core holds depends on it */
	plan_costs(&p);
	plan_fused(&p);
	if (!plan_bodies_stand(plan) || !bodies_are_cut(plan)) {
		way.loops_stay = true;
		return plan_draft(a, m, d, way);
	}
	plan->seconds = plan_seconds(&p);
	return plan;
}

/* Buffers that are given up to make it fit are waited for: it is never faster than its draft. */
bool plan_complete(Plan *plan, Module *m, Diag *d, PlanWay way) {
	Planner p = {.plan = plan, .m = m, .d = d, .a = plan->arena, .way = way};
	if (plan_fit(&p)) {
		plan->seconds = plan_seconds(&p);
		plan_keep_invariants(&p);
		plan_points(&p);
		plan_pieces(&p);
		return plan_third(&p);
	}
	if (!way.trial)
		plan_refuse_vmem(&p);
	return false;
}

void plan_settle(Plan *plan, Module *m) {
	Planner p = {.plan = plan, .m = m, .a = plan->arena};
	plan_third_windows(&p);
	plan_turn_once(&p);
	plan_gather_across(&p);
	plan_walk(&p);
	plan_run_in_order(plan);
	plan_first_chunks(&p);
	plan_ways(&p);
	remark_blocks(plan);
	remark_loops(plan);
}
