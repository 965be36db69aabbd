/* ways.c - for --explain: how each access where int tensors or loaded positions say is done, and what else would take.
 *
 * Estimates are of the indices of one tile, once; what search.c and src/driver/choose.c compare is the whole kernel. */
#include "access.h"
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

/* The positions are in the last dim, and in no other. */
static bool takes_lanes(const Planner *p, const AccessWant *w) {
	const Arg *index = node_arg(p->m, w->node, 1);
	uint32_t count = 0;
	for (uint32_t i = 0; i < index->list.count; i++)
		count += entry_gathers(p->m, arg_item(p->m, index, i));
	return count == 1 && entry_gathers(p->m, arg_item(p->m, index, index->list.count - 1));
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

static void costs_of(Planner *p, const AccessWant *w, WayCost *cost) {
	const Target *t = p->m->target;
	Dtype dtype = p->m->tensors.at[w->tensor].dtype;
	double positions = positions_of(p, w), elements = elements_of(w) / (w->places == NONE ? positions : 1);
	double moved = positions * elements * dtype_bits(dtype) / 8 / t->hbm_bytes_per_s * t->clock_hz;
	double copied = positions * row_copied_cycles(false);
	OneHot o;
	cost[WAY_DYNAMIC].cycles = positions * row_sliced_cycles(t, dtype, elements);
	cost[WAY_DMA].cycles = (moved > copied ? moved : copied) + (double)t->copy_cycles;
	cost[WAY_DMA].why = rows_not_copied(p, w);
	cost[WAY_ONE_HOT].why = w->store ? "positions are written in order" : one_hot_of(p->m, w->node, &o);
	if (!gathers(p, w))
		cost[WAY_ONE_HOT].why = "it is at one position";
	if (!cost[WAY_ONE_HOT].why)
		cost[WAY_ONE_HOT].cycles = one_hot_all_cycles(t, &o);
	cost[WAY_LANES].why = w->store            ? "positions are written in order"
	                      : takes_lanes(p, w) ? "it would ask too many registers, or gives positions itself"
	                                          : "it gathers no lanes of whole rows";
	cost[WAY_SLICE].why = gathers(p, w) ? "an int tensor says where" : "a loaded int says where";
}

/* Positions that count up are a slice, and nothing else is asked. */
static void costs_of_line(Planner *p, const AccessWant *w, WayCost *cost) {
	const Target *t = p->m->target;
	cost[WAY_SLICE] = (WayCost){.cycles = elements_of(w) * 4 / (double)target_registers_bytes(t, 1)};
	for (IndirectWay way = WAY_DYNAMIC; way < WAY_COUNT; way++)
		cost[way].why = "positions count up by one";
}

void ways_remark(Planner *p, const AccessWants *wants) {
	for (uint32_t i = 0; i < wants->count; i++) {
		const AccessWant *w = &wants->at[i];
		WayCost cost[WAY_COUNT] = {0};
		bool walked = w->places != NONE || want_gathers(w) != NONE, line = !walked && gathers(p, w);
		if (!p->plan->values[w->node].access || (!walked && !line && (!is_loaded(w) || w->table)))
			continue;
		costs_of(p, w, cost);
		if (line)
			costs_of_line(p, w, cost);
		bool copied = w->places != NONE ? p->plan->places.at[w->places].copied : is_ahead(p, w);
		IndirectWay way = line ? WAY_SLICE : copied ? WAY_DMA : WAY_DYNAMIC;
		bool ahead = way == WAY_DMA && w->places == NONE;
		plan_remark(p->plan, "%s%s", ways_text(p->a, p->m->tensors.at[w->tensor].name, way, cost),
		            ahead ? "; copied while the step before computes" : "");
	}
}
