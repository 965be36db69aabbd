/* ir_drop.c - edits that take arguments, results or whole graphs away: the call and the called graphs at once. */
#include "ir.h"

/* ---- lists ------------------------------------------------------------------------------------------------------- */

/* The new index of what stood at `index`, and the count of those kept before `count`. */
static uint32_t kept_before(const bool *drop, uint32_t index) {
	uint32_t kept = 0;
	for (uint32_t i = 0; i < index; i++)
		kept += !drop[i];
	return kept;
}

/* By old index, the new one; computed once, since lists may be long. */
static uint32_t *new_indices(Arena *a, const bool *drop, uint32_t count) {
	uint32_t *index = arena_array(a, (size_t)count + 1, sizeof *index);
	for (uint32_t i = 0, kept = 0; i < count; i++) {
		index[i] = kept;
		kept += !drop[i];
	}
	return index;
}

/* The list in `slot` without the dropped items, in slots of its own. */
static void list_drop(Module *m, ArgId slot, const bool *drop) {
	const Arg *old = arg_get(m, slot);
	uint32_t count = old->kind == ARG_LIST ? old->list.count : 0, kept = 0;
	Arg *items = arena_array(m->arena, (size_t)count + 1, sizeof *items);
	for (uint32_t i = 0; i < count; i++)
		if (!drop[i])
			items[kept++] = *arg_item(m, old, i);
	Arg list = arg_list(m, kept, items);
	arg_set(m, slot, list);
}

static bool *no_drop(Module *m, uint32_t count) { return arena_array(m->arena, (size_t)count + 1, sizeof(bool)); }

static void carried_drop(Module *m, GraphId g, const bool *args, const bool *outputs, uint32_t output_count) {
	Graph *graph = graph_get(m, g);
	const uint32_t *arg = new_indices(m->arena, args, graph->placeholders.count);
	const uint32_t *output = new_indices(m->arena, outputs, output_count);
	uint32_t kept = 0;
	for (uint32_t i = 0; i < graph->carried.count; i++) {
		Carried c = graph->carried.at[i];
		if (!args[c.arg] && !outputs[c.output])
			graph->carried.at[kept++] = (Carried){arg[c.arg], output[c.output]};
	}
	graph->carried.count = kept;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static void placeholders_drop(Module *m, GraphId g, const bool *drop) {
	Graph *graph = graph_get(m, g);
	carried_drop(m, g, drop, no_drop(m, graph_result_count(m, g)), graph_result_count(m, g));
	if (graph->lengths != NONE)
		graph->lengths = kept_before(drop, graph->lengths);
	uint32_t kept = 0;
	for (uint32_t i = 0; i < graph->placeholders.count; i++) {
		if (drop[i])
			node_remove(m, graph->placeholders.at[i]);
		else
			graph->placeholders.at[kept++] = graph->placeholders.at[i];
	}
	graph->placeholders.count = kept;
}

void graph_drop_arguments(Module *m, GraphId g, const bool *drop) {
	NodeId call = graph_get(m, g)->caller;
	uint16_t op = node_get(m, call)->op;
	uint32_t list = op_param_index(op, graph_get(m, g)->kind == GRAPH_ELSE ? "else_args" : "args");
	if (list < node_get(m, call)->arg_count)
		list_drop(m, node_get(m, call)->arg_first + list, drop);
	for (uint32_t i = 0; i < node_get(m, call)->arg_count; i++) {
		const Arg *a = node_arg(m, call, i);
		if (a->kind == ARG_GRAPH && (a->graph == g || op == OP_WHILE))
			placeholders_drop(m, a->graph, drop);
	}
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static void results_drop(Module *m, GraphId g, const bool *drop) {
	uint32_t count = graph_result_count(m, g);
	carried_drop(m, g, no_drop(m, graph_get(m, g)->placeholders.count), drop, count);
	list_drop(m, node_get(m, graph_get(m, g)->output)->arg_first, drop);
}

static void getitems_renumber(Module *m, NodeId call, const uint32_t *index) {
	for (ArgId u = node_uses(m, call); u != NONE; u = arg_get(m, u)->next_use) {
		NodeId user = arg_get(m, u)->user;
		if (node_get(m, user)->op == OP_GETITEM)
			arg_set(m, node_get(m, user)->arg_first + 1, arg_int(index[node_arg(m, user, 1)->integer]));
	}
}

void graph_drop_outputs(Module *m, GraphId g, const bool *drop) {
	NodeId call = graph_get(m, g)->caller;
	uint32_t count = graph_result_count(m, g), kept = 0;
	for (uint32_t i = 0; i < node_get(m, call)->arg_count; i++) {
		const Arg *a = node_arg(m, call, i);
		if (a->kind == ARG_GRAPH && graph_get(m, a->graph)->kind != GRAPH_COND)
			results_drop(m, a->graph, drop);
	}
	Type old = *node_type(m, call);
	TypeId *elements = arena_array(m->arena, (size_t)count + 1, sizeof *elements);
	for (uint32_t i = 0; i < count; i++)
		if (!drop[i])
			elements[kept++] = old.elements[i];
	node_set_type(m, call, type_tuple(m, kept, elements));
	getitems_renumber(m, call, new_indices(m->arena, drop, count));
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

/* Keeps the entries of the loops that are not dropped. A list that is longer stays: module_configure() reports it. */
#define KEEP_LOOPS(v, loops, loop_count, drop)                                                                         \
	do {                                                                                                           \
		uint32_t kept = 0, had = (v)->count;                                                                   \
		for (uint32_t i = 0; i < (loop_count) && i < had; i++)                                                 \
			if (!(drop)[(loops)[i]])                                                                       \
				(v)->at[kept++] = (v)->at[i];                                                          \
		(v)->count = had <= (loop_count) ? kept : had;                                                         \
	} while (0)

static void config_drop_loops(Module *m, const bool *drop) {
	uint32_t count;
	const GraphId *loops = config_loops(m, m->arena, &count);
	for (const KeyRow *row = key_rows; row < key_rows + KEY_COUNT; row++) {
		void *field = key_field(row, &m->config);
		if (row->each == EACH_LOOP && row->kind == KEY_ORDERS)
			KEEP_LOOPS(&((ConfigOrders *)field)->values, loops, count, drop);
		else if (row->each == EACH_LOOP)
			KEEP_LOOPS(&((ConfigList *)field)->values, loops, count, drop);
	}
}

static void graph_clear(Module *m, GraphId g) {
	for (NodeId n = graph_get(m, g)->last, prev; n != NONE; n = prev) {
		prev = node_get(m, n)->prev;
		node_remove(m, n);
	}
}

/* What was removed may name graphs that were dropped before. */
static void remap_graph_refs(Module *m, const uint32_t *index) {
	for (NodeId n = 0; n < m->nodes.count; n++)
		if (!node_get(m, n)->dead)
			node_get(m, n)->graph = index[node_get(m, n)->graph];
	for (ArgId a = 0; a < m->args.count; a++)
		if (arg_get(m, a)->kind == ARG_GRAPH && arg_get(m, a)->user != NONE)
			arg_get(m, a)->graph = index[arg_get(m, a)->graph];
}

void module_drop_graphs(Module *m, const bool *drop) {
	uint32_t count = m->graphs.count, kept = 0;
	const uint32_t *index = new_indices(m->arena, drop, count);
	config_drop_loops(m, drop);
	for (GraphId g = 0; g < count; g++) { /* calls outside the dropped graphs first: they hold the way in */
		NodeId caller = graph_get(m, g)->caller;
		if (drop[g] && caller != NONE && !node_get(m, caller)->dead && !drop[node_get(m, caller)->graph])
			node_remove(m, caller);
	}
	for (GraphId g = 0; g < count; g++)
		if (drop[g])
			graph_clear(m, g);
	remap_graph_refs(m, index);
	for (GraphId g = 0; g < count; g++) {
		map_put(m->arena, &m->graph_ids, (uint64_t)graph_get(m, g)->id, drop[g] ? NONE : index[g]);
		if (drop[g])
			continue;
		if (m->given_loop_facts)
			m->given_loop_facts[kept] = m->given_loop_facts[g];
		m->graphs.at[kept++] = m->graphs.at[g];
	}
	m->graphs.count = kept;
	m->loop_facts = NULL;
}
