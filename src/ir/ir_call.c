/* ir_call.c - edits that touch a called graph and its call at once. */
#include "ir.h"

/* The position of the argument list that call node `n` passes to graph g: `else_args` for `else_graph`, else `args`. */
static uint32_t call_list(const Module *m, NodeId n, GraphId g, Arena *scratch) {
	const Node *node = node_get(m, n);
	Schema schema = schema_parse(scratch, op_row(node->op)->params);
	for (uint32_t i = 0; i < node->arg_count; i++) {
		const Arg *a = node_arg(m, n, i);
		if (a->kind == ARG_GRAPH && a->graph == g)
			return schema_find(&schema,
			                   strcmp(schema.params[i].name, "else_graph") == 0 ? "else_args" : "args");
	}
	return NONE;
}

/* The list of slot `list` with one reference more, in fresh slots. */
static void list_append(Module *m, ArgId list, NodeId value) {
	const Arg *old = arg_get(m, list);
	uint32_t count = old->kind == ARG_LIST ? old->list.count : 0;
	Arg *items = arena_array(m->arena, (size_t)count + 1, sizeof *items);
	for (uint32_t i = 0; i < count; i++)
		items[i] = *arg_item(m, old, i);
	items[count] = arg_ref(value);
	Arg grown = arg_list(m, count + 1, items);
	arg_set(m, list, grown);
}

static NodeId placeholder_new(Module *m, GraphId g, const char *name, TypeId type) {
	NodeId p = node_new(m, g, OP_PLACEHOLDER, name, type, 0, NULL);
	Graph *graph = graph_get(m, g);
	if (graph->placeholders.count)
		node_insert_after(m, p, graph->placeholders.at[graph->placeholders.count - 1]);
	else if (graph->first != NONE)
		node_insert_before(m, p, graph->first);
	else
		node_append(m, p);
	vec_push(m->arena, &graph_get(m, g)->placeholders, p);
	return p;
}

/* A while's `cond` and its body get the same arguments, so both gain the placeholder. */
static void other_graphs_add(Module *m, NodeId call, GraphId g, uint32_t list, const char *name, TypeId type) {
	for (uint32_t i = 0; i < node_get(m, call)->arg_count; i++) {
		const Arg *a = node_arg(m, call, i);
		if (a->kind == ARG_GRAPH && a->graph != g && call_list(m, call, a->graph, m->arena) == list)
			placeholder_new(m, a->graph, name, type);
	}
}

NodeId graph_add_argument(Module *m, GraphId g, NodeId value, const char *name) {
	NodeId call = graph_get(m, g)->caller;
	uint32_t list = call == NONE ? NONE : call_list(m, call, g, m->arena);
	if (list == NONE || list >= node_get(m, call)->arg_count)
		return NONE;
	list_append(m, node_get(m, call)->arg_first + list, value);
	TypeId type = node_get(m, value)->type;
	NodeId p = placeholder_new(m, g, name, type);
	other_graphs_add(m, call, g, list, name, type);
	return p;
}
