/* group.c - pallas_emit_pipeline_group_size: how many steps one window of an emit_pipeline holds: one, or all of them.
 *
 * A pipeline starts empty at each grid point: it waits for its first windows, and copies K and V anew for every tile
 * of Q. A window of all steps is a block whose index the steps do not move, so the grid's own pipeline brings it: while
 * the point before computes, and only where its index changes, once per head. Nothing is left for the inner pipeline to
 * copy, and its steps are a fori_loop on resident blocks. Measured: docs/passes/loop_skew.md.
 *
 * Where the configuration says nothing, all steps are taken where that fits and is estimated to be faster (search.c). 1
 * keeps a window for each step. */
#include "loops.h"

bool group_holds_all(const Module *m, LoopType type) {
	const ConfigKey *size = &m->config.emit_pipeline_group_size;
	return type == LOOP_EMIT_PIPELINE && size->set && size->value > 1;
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
	loop_relate(p->m, p->d, loop->call);
	return false;
}
