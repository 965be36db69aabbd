/* group.c - pallas_emit_pipeline_group_size: how many steps one window of an emit_pipeline holds: one, or all of them.
 *
 * A pipeline starts empty at each grid point: it waits for its first windows, and copies K and V anew for every tile
 * of Q. A window of all steps is a block whose index the steps do not move, so the grid's own pipeline brings it: while
 * the point before computes, and only where its index changes, once per head. Nothing is left for the inner pipeline to
 * copy, and its steps are a fori_loop on resident blocks. Measured: docs/passes/loop_skew.md.
 *
 * Where the configuration says nothing, the kernel is planned both ways, and all steps are taken where that fits, is
 * estimated to be faster, and the steps overlap as a loop (skew.c). 1 keeps a window for each step. */
#include "planner.h"

static bool wants_pipeline(const Module *m) { return (LoopType)m->config.loop_type.value == LOOP_EMIT_PIPELINE; }

bool group_holds_all(const Module *m) {
	const ConfigKey *size = &m->config.emit_pipeline_group_size;
	return wants_pipeline(m) && size->set && size->value > 1;
}

bool group_covers(Planner *p, const Loop *loop) {
	const ConfigKey *size = &p->m->config.emit_pipeline_group_size;
	int64_t steps = 1;
	for (uint32_t i = 0; i < loop->rank; i++)
		steps *= loop->dim[i].full_steps + (loop->dim[i].tail != 0);
	if (!size->set || steps <= size->value)
		return true;
	diag_error(
		p->d, config_place(&size->origin), "unsupported-config",
		arena_printf(p->a, "1, or at least %lld", (long long)steps),
		"pallas_emit_pipeline_group_size: windows of one step or of all of them are lowered, and the loop %s "
		"has %lld steps",
		node_get(p->m, loop->call)->name, (long long)steps);
	return false;
}

Plan *plan_group_ways(Arena *a, Module *m, Diag *d, bool trial) {
	PlanWay way = {.trial = trial,
	               .keep = true,
	               .keep_results = true,
	               .whole = true,
	               .resident_why = "one window holds all steps"};
	if (group_holds_all(m))
		return plan_one_way(a, m, d, way);
	Plan *steps = plan_loop_ways(a, m, d, trial);
	if (!steps || !steps->may_hold_all || m->config.emit_pipeline_group_size.set)
		return steps;
	Diag before = *d;
	way.trial = true;
	way.other = steps;
	Plan *whole = plan_one_way(a, m, d, way);
	*d = before; /* without what is wrong with the way not taken */
	bool take = whole && whole->skewed && whole->seconds < steps->seconds;
	const char *what = take     ? "one window holds all steps"
	                   : !whole ? "a window for each step: one of all would be refused"
	                   : !whole->skewed
	                           ? "a window for each step: as a loop on resident blocks they would not overlap"
	                           : "a window for each step";
	if (whole)
		plan_remark(take ? whole : steps, "emit_pipeline: %s: about %.3g us with one window, %.3g us with many",
		            what, whole->seconds * 1e6, steps->seconds * 1e6);
	else
		plan_remark(steps, "emit_pipeline: %s", what);
	return take ? whole : steps;
}
