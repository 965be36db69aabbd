/* emit_dot.c - the graphs for Graphviz: a cluster for each graph, an edge for each use, dashed edges for calls.
 * A green border: a pass made the node; an orange one: a pass changed it. */
#include "emit.h"

/* Quoted for DOT: quotes and backslashes escaped, nothing unprintable. */
static void put_quoted(Text *out, const char *s) {
	Text plain;
	text_init(&plain, out->arena);
	text_put(&plain, "");
	text_put_printable(&plain, s);
	text_put(out, "\"");
	for (const char *c = plain.at; *c; c++) {
		if (*c == '"' || *c == '\\')
			text_put(out, "\\");
		text_putn(out, c, 1);
	}
	text_put(out, "\"");
}

static const char *fill(OpKind kind) {
	switch (kind) {
	case KIND_MEMORY: return "lightblue";
	case KIND_MATMUL: return "gold";
	case KIND_REDUCTION: return "palegreen";
	case KIND_STRUCTURE: return "lightgrey";
	case KIND_POINTWISE:
	case KIND_VIEW:
	case KIND_CREATION:
	case KIND_QUERY:
	case KIND_SYMBOLIC: break;
	}
	return "white";
}

static void put_type(const Module *m, TypeId id, Text *out) {
	const Type *t = type_get(m, id);
	if (t->kind == TYPE_SYM && t->sym != NONE)
		expr_print(m, t->sym, out);
	if (t->kind != TYPE_TENSOR)
		return;
	text_printf(out, "%s[", dtype_name(t->dtype));
	for (uint32_t i = 0; i < t->count; i++) {
		text_put(out, i ? ", " : "");
		expr_print(m, t->dims[i], out);
	}
	text_put(out, "]");
}

static void put_node(const Module *m, NodeId n, NodeChange change, Arena *scratch, Text *out) {
	static const char *const borders[] = {"", ", color=orange, penwidth=3", ", color=forestgreen, penwidth=3"};
	const Node *node = node_get(m, n);
	const OpRow *row = op_row(node->op);
	Text type;
	text_init(&type, scratch);
	text_put(&type, "");
	put_type(m, node->type, &type);
	text_printf(out, "\t\tn%u [fillcolor=%s, label=", n, fill(row->kind));
	put_quoted(out, arena_printf(scratch, "%s = %s  %s", node->name, row->target, type.at));
	text_printf(out, "%s];\n", borders[change]);
}

static void put_edges(const Module *m, NodeId n, ArgId first, uint32_t count, Text *out) {
	for (uint32_t i = 0; i < count; i++) {
		const Arg *a = arg_get(m, first + i);
		if (a->kind == ARG_REF)
			text_printf(out, "\tn%u -> n%u;\n", a->node, n);
		else if (a->kind == ARG_LIST || a->kind == ARG_SLICE)
			put_edges(m, n, a->list.first, a->list.count, out);
		else if (a->kind == ARG_GRAPH && graph_first(m, a->graph) != NONE)
			text_printf(out, "\tn%u -> n%u [style=dashed, lhead=cluster%u];\n", n, graph_first(m, a->graph),
			            a->graph);
	}
}

static void put_graph(const Module *m, GraphId g, const NodeChange *changes, Arena *scratch, Text *out) {
	static const char *const kinds[] = {"root", "for_loop", "reduction_loop", "if",
	                                    "else", "while",    "cond",           "combine"};
	const Graph *graph = graph_get(m, g);
	Text label;
	text_init(&label, scratch);
	text_printf(&label, "%s %lld", kinds[graph->kind], (long long)graph->id);
	for (uint32_t i = 0; i < graph->blocks.count; i++)
		text_printf(&label, "%s%s", i ? ", " : ": ", m->blocks.at[graph->blocks.at[i]].name);
	text_printf(out, "\tsubgraph cluster%u {\n\t\tlabel=", g);
	put_quoted(out, label.at);
	text_put(out, ";\n");
	for (NodeId n = graph->first; n != NONE; n = node_get(m, n)->next)
		put_node(m, n, changes[n], scratch, out);
	text_put(out, "\t}\n");
}

/* What the borders mean, where there are any. */
static void put_legend(const NodeChanges *c, Arena *scratch, Text *out) {
	if (c->made + c->changed + c->removed == 0)
		return;
	text_put(out, "\tlabel=");
	put_quoted(out, arena_printf(scratch, "passes made %u nodes (green), changed %u (orange) and removed %u",
	                             c->made, c->changed, c->removed));
	text_put(out, ";\n");
}

void module_emit_dot(const Module *m, const Module *before, Text *out) {
	Arena scratch;
	arena_init(&scratch, m->arena->oom);
	text_put(out, "digraph ");
	put_quoted(out, m->name);
	text_put(out, " {\n\tcompound=true;\n\tnode [shape=box, style=filled, fontname=monospace];\n");
	NodeChanges changes = module_changes(&scratch, before, m);
	put_legend(&changes, &scratch, out);
	for (GraphId g = 0; g < m->graphs.count; g++)
		put_graph(m, g, changes.of, &scratch, out);
	for (GraphId g = 0; g < m->graphs.count; g++)
		for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next)
			put_edges(m, n, node_get(m, n)->arg_first, node_get(m, n)->arg_count, out);
	text_put(out, "}\n");
	arena_free(&scratch);
}
