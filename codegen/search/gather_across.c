/* gather_across.c - pallas_gather_across: rows that each grid point gathers from HBM are copied while the point before
 * computes.
 *
 * A point starts the copies of its rows, one by one, and waits for them; then it computes. What moves rows stands still
 * meanwhile. Where the grid's point and tables alone say which rows they are, the point before can start them, into a
 * second buffer (build_places.c). Points run in order then, on one core. */
#include "search.h"
#include "codegen/costs/costs.h"
#include "codegen/vmem/vmem.h"
#include "src/config/config.h"

/* It is made of the grid's point, and of positions where `places`. Notes which dims of the grid move it. */
static bool told_by_point(const Affine *a, bool places, uint32_t *moved_by) {
	for (uint32_t i = 0; i < a->count; i++) {
		const Term *t = &a->term[i];
		if (t->kind == VAR_PROGRAM)
			*moved_by |= UINT32_C(1) << t->id;
		else if (t->kind != VAR_PLACE || !places)
			return false;
	}
	return true;
}

static bool access_told(const Access *access, bool places, uint32_t *moved_by) {
	bool told = access != NULL;
	for (uint32_t d = 0; told && d < access->rank; d++)
		told = told_by_point(&access->dim[d].start, places, moved_by);
	return told;
}

/* A part of a table. */
static bool table_told(const Planner *p, NodeId n, uint32_t *moved_by) {
	while (node_get(p->m, n)->op == OP_CLAMP)
		n = node_input(p->m, n, 0);
	return access_told(p->plan->values[n].access, false, moved_by);
}

/* Each point gathers these rows, and what says which they are is known before. */
static bool can_start_before(const Planner *p, const Places *s, uint32_t *moved_by) {
	const Plan *plan = p->plan;
	const Access *access = plan->values[s->node].access;
	bool can = s->copied && s->last == NONE && node_get(p->m, s->node)->graph == plan->root &&
	           !plan_writes(plan, plan->operands.at[access->operand].tensor);
	*moved_by = 0;
	for (uint32_t i = 0; can && i < s->count; i++)
		can = s->of[i].smem == NONE && table_told(p, s->of[i].index, moved_by);
	return can && access_told(access, true, moved_by) && *moved_by;
}

/* The scratch that its copies come to. */
static void set_slots(Plan *plan, Places *s, bool across) {
	const uint32_t scratch[] = {s->groups == NONE ? s->rows : s->groups, s->numbers, s->arrived};
	for (uint32_t i = 0; i < sizeof scratch / sizeof *scratch; i++) {
		Scratch *x = scratch[i] == NONE ? NULL : &plan->scratches.at[scratch[i]];
		if (!x || (x->slots > 0) == across)
			continue;
		x->slots = across ? GATHER_SLOTS : 0;
		x->bytes = across ? x->bytes * GATHER_SLOTS : x->bytes / GATHER_SLOTS;
	}
	s->across = across;
}

/* The plan with them, or without. */
static uint32_t take(Planner *p, bool across) {
	Plan *plan = p->plan;
	uint32_t taken = 0;
	for (uint32_t i = 0; i < plan->places.count; i++) {
		Places *s = &plan->places.at[i];
		if (!can_start_before(p, s, &s->moved_by))
			continue;
		set_slots(plan, s, across);
		taken++;
	}
	if (taken == 0)
		return 0;
	plan->kernel = NULL;
	plan->spills = -1;
	if (plan->left) /* it is nearly the same kernel once more */
		++*plan->left;
	plan_vmem(plan, p->m, true);
	return taken;
}

void plan_gather_across(Planner *p) {
	Plan *plan = p->plan;
	if ((Switch)p->m->config.gather_across.value == SWITCH_OFF || plan->places.count == 0 || plan->remote ||
	    plan->strips || plan->keeps || plan->pieces || p->m->target->tensorcores > 1 ||
	    plan->grid.count > RANK_MAX || grid_points(plan) < 2 || !take(p, true))
		return;
	bool fits = plan->vmem.total <= plan_vmem_line(plan);
	if (!fits)
		take(p, false);
	else
		plan_walk_in_order(plan, "each point starts the copies of the next one's rows");
	plan_remark(plan, "pallas_gather_across: rows that a point gathers are copied %s",
	            fits ? "while the point before computes" : "by itself: a second buffer does not fit");
}
