/* ways.c - how each access where int tensors or loaded ints say is done, and what else would take: records of the plan
 * that is taken. */
#include "access.h"
#include "place.h"
#include "codegen/costs/costs.h"

/* Elements that the access touches. */
static double elements_of(const AccessWant *w) {
	double elements = 1;
	for (uint32_t i = 0; i < w->rank; i++)
		elements *= (double)w->dim[i].size;
	return elements;
}

static bool gathers(const Planner *p, const AccessWant *w) {
	const Arg *index = node_arg(p->m, w->node, 1);
	for (uint32_t i = 0; i < index->list.count; i++)
		if (entry_gathers(p->m, arg_item(p->m, index, i)))
			return true;
	return false;
}

/* Some place is an int that the kernel loads. */
static bool is_loaded(const AccessWant *w) {
	for (uint32_t i = 0; i < w->rank; i++)
		for (uint32_t t = 0; t < w->dim[i].at.count; t++)
			if (w->dim[i].at.term[t].kind == VAR_NODE)
				return true;
	return false;
}

/* Copied by a loop or by the grid's pipeline, before what reads it runs. */
static bool is_ahead(const Planner *p, const AccessWant *w) {
	const Access *a = p->plan->values[w->node].access;
	if (a->kind == REF_WINDOW && p->plan->loops.at[a->loop].windows.at[a->window].dma)
		return true;
	const Operand *o = &p->plan->operands.at[a->operand];
	for (uint32_t d = 0; o->space == SPACE_WINDOW && d < o->rank; d++)
		for (uint32_t t = 0; t < o->index[d].count; t++)
			if (o->index[d].term[t].kind == VAR_NODE)
				return true;
	return false;
}

static double positions_of(const Planner *p, const AccessWant *w) {
	uint32_t pieces = want_gathers(w);
	return w->places != NONE ? places_rows(&p->plan->places.at[w->places])
	       : pieces != NONE  ? (double)w->dim[pieces].size
	                         : 1;
}

/* Positions that count up are a slice, and nothing else is asked. */
static void costs_of_line(Planner *p, const AccessWant *w, WayCost *cost) {
	cost[WAY_SLICE] = (WayCost){.cycles = elements_of(w) * 4 / (double)target_registers_bytes(p->m->target, 1)};
	for (IndirectWay way = WAY_DYNAMIC; way < WAY_COUNT; way++)
		cost[way].why = "positions count up by one";
}

static void costs_of(Planner *p, const AccessWant *w, WayCost *cost) {
	double positions = positions_of(p, w);
	indirect_costs(p->m, w->node, positions, elements_of(w) / (w->places == NONE ? positions : 1), cost);
	const char *why = rows_not_copied(p, w);
	if (why)
		cost[WAY_DMA].why = why;
}

/* The access at int tensors' positions or loaded ints; else false. */
static bool indirect_of(Planner *p, const AccessWant *w, Indirect *x) {
	const Module *m = p->m;
	const Node *node = node_get(m, w->node);
	bool walked = w->places != NONE || want_gathers(w) != NONE, line = !walked && gathers(p, w);
	if (!walked && !line && (!is_loaded(w) || w->table))
		return false;
	bool copied = w->places != NONE ? p->plan->places.at[w->places].copied : is_ahead(p, w);
	*x = (Indirect){
		.graph = graph_get(m, node->graph)->id, .op = node->op, .node = node->name, .tensor = w->tensor};
	x->way = line ? WAY_SLICE : copied ? WAY_DMA : WAY_DYNAMIC;
	x->ahead = x->way == WAY_DMA && w->places == NONE;
	(line ? costs_of_line : costs_of)(p, w, x->cost);
	return true;
}

static void remark(Plan *plan, const Indirect *x) {
	Text t;
	text_init(&t, plan->arena);
	for (IndirectWay way = 0; way < WAY_COUNT; way++) {
		if (way != x->way && x->cost[way].why)
			text_printf(&t, "; no %s: %s", indirect_way_name(way), x->cost[way].why);
		else if (way != x->way)
			text_printf(&t, "; %s: %.0f", indirect_way_name(way), x->cost[way].cycles);
	}
	plan_remark(plan, "%s: %s, about %.0f cycles a time%s%s", plan->module->tensors.at[x->tensor].name,
	            indirect_way_name(x->way), x->cost[x->way].cycles, t.at,
	            x->ahead ? "; copied while the step before computes" : "");
}

/* Of what passes made of accesses, that of this root. */
static void add_those_of_passes(Plan *plan) {
	const Module *m = plan->module;
	for (uint32_t i = 0; i < m->indirect.count; i++)
		if (m->indirect.at[i].root == graph_get(m, plan->root)->id)
			vec_push(plan->arena, &plan->indirect, m->indirect.at[i]);
}

void plan_ways(Planner *p) {
	Plan *plan = p->plan;
	add_those_of_passes(plan);
	for (uint32_t i = 0; i < plan->placed_count; i++) {
		Indirect x;
		if (indirect_of(p, &plan->placed[i], &x))
			vec_push(plan->arena, &plan->indirect, x);
	}
	for (uint32_t i = 0; i < plan->indirect.count; i++)
		remark(plan, &plan->indirect.at[i]);
}
