/* across.c - the windows of the next grid point's first step are copied while this point's last step computes.
 *
 * A loop that copies its windows starts empty at each grid point: it waits for the first ones, all their bytes and the
 * latency of HBM. Where the grid's point and tables alone say where they lie, the point before can start their copies;
 * then points must run in order, on one core, and steps are counted from the first point on, for the buffers go round
 * (rewrite: drive_fori.c).
 *
 * `auto`: pages that are copied one by one, of a sequence whose length data say: many points have few steps. */
#include "loops.h"
#include "codegen/costs/costs.h"

/* It is known before the point begins: made of the grid's point, the loop's step and constants. Ints that a step loads
 * are elements of tables by then. */
static bool known_ahead(const Planner *p, const Loop *loop, const Affine *a) {
	bool known = true;
	for (uint32_t i = 0; i < a->count && known; i++) {
		const Term *t = &a->term[i];
		bool loaded = t->kind == VAR_NODE && node_get(p->m, t->id)->graph == loop->graph;
		known = t->kind == VAR_PROGRAM || t->kind == VAR_STEP || loaded;
	}
	return known;
}

static bool places_known(const Planner *p, const Loop *loop, NodeId n) {
	while (node_get(p->m, n)->op == OP_CLAMP)
		n = node_input(p->m, n, 0);
	const Access *access = n == NONE ? NULL : p->plan->values[n].access;
	bool known = access != NULL;
	for (uint32_t d = 0; known && d < access->rank; d++)
		known = known_ahead(p, loop, &access->dim[d].start);
	return known;
}

static bool window_known(const Planner *p, const Loop *loop, const Window *w) {
	const Operand *o = &p->plan->operands.at[w->operand];
	bool known = w->pieces == NONE || places_known(p, loop, w->places);
	for (uint32_t d = 0; known && d < o->rank; d++)
		known = w->around[d] == 0 && known_ahead(p, loop, &w->index[d]) && known_ahead(p, loop, &w->start[d]);
	return known;
}

static bool blocks_copied_ahead(const Plan *plan) {
	bool found = false;
	for (uint32_t i = 0; i < plan->operands.count; i++)
		found = found || plan->operands.at[i].ahead;
	return found;
}

/* What speaks against it; NULL: nothing. *pages: they are copied one by one, up to where data say. */
static const char *not_across(const Planner *p, const Loop *loop, bool *pages) {
	const Plan *plan = p->plan;
	if (loop->type != LOOP_FORI || !loop->dma || loop->rank != 1)
		return "its windows are not copied by a fori_loop over one dim";
	if (grid_points(plan) < 2 || p->m->target->tensorcores > 1)
		return "there is no next point on the same core";
	if (plan->loops.count > 1 || graph_parent(p->m, loop->graph) != plan->root || plan->remote || plan->strips ||
	    loop->skewed || loop->peeled || blocks_copied_ahead(plan))
		return "it is not one loop that each point runs once";
	for (uint32_t i = 0; i < loop->windows.count; i++) {
		const Window *w = &loop->windows.at[i];
		if (w->output || (w->dma && !window_known(p, loop, w)))
			return "where its windows lie is not known before";
		if (w->dma && w->buffers < 2)
			return "there is no second buffer";
		*pages = *pages || (w->pieces != NONE && loop->dim[0].computed);
	}
	return NULL;
}

void plan_across(Planner *p) {
	Switch asked = (Switch)p->m->config.windows_across.value;
	for (uint32_t l = 0; l < p->plan->loops.count; l++) {
		Loop *loop = &p->plan->loops.at[l];
		bool pages = false;
		const char *why = asked == SWITCH_OFF ? "pallas_windows_across is off" : not_across(p, loop, &pages);
		loop->across = !why && (pages || asked == SWITCH_ON);
		loop->across_why = why ? why : pages ? "pages are copied one by one" : "pallas_windows_across";
	}
}
