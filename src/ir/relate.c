/* relate.c - the other places that an error is about: operands, the tensors they are of, graphs, blocks. Each adds a
 * note to the last diagnostic (diag_related()); what a pass made stands nowhere in the document and is left out. */
#include "ir.h"

enum { OPERANDS_SHOWN = 3 };

/* Of a tensor that a pass made the document has nothing at that place, or another one. */
static bool tensor_stands(const Module *m, Diag *d, TensorId t) {
	const char *name = m->tensors.at[t].name;
	const char *at = arena_printf(d->arena, "/tensors/%u/name", t);
	const char *found = m->source ? diag_string(d->arena, m->source, at, strlen(name) + 1) : NULL;
	return found && strcmp(found, name) == 0;
}

void tensor_relate(const Module *m, Diag *d, TensorId t) {
	if (t == NONE || d->dropped || !tensor_stands(m, d, t))
		return;
	const Tensor *tensor = &m->tensors.at[t];
	Text shape;
	text_init(&shape, d->arena);
	text_put(&shape, "");
	for (uint32_t i = 0; i < tensor->rank; i++) {
		text_put(&shape, i ? ", " : "");
		if (tensor->shape[i] != NONE)
			expr_print(m, tensor->shape[i], &shape);
	}
	diag_related(d, tensor_place(m, d, t), "'%s' is declared here: %s[%s]", tensor->name, dtype_name(tensor->dtype),
	             shape.at);
}

void node_relate(Module *m, Diag *d, NodeId n) {
	const Node *node = node_get(m, n);
	const Arg *host = node->op == OP_HOST_TENSOR ? node_arg(m, n, 0) : &no_argument;
	if (host->kind == ARG_TENSOR)
		tensor_relate(m, d, host->tensor);
	else if (node->origin != NONE && node_type(m, n)->kind == TYPE_NONE)
		diag_related(d, node_place(m, d, n), "'%s' stands here", node->name);
	else if (node->origin != NONE)
		diag_related(d, node_place(m, d, n), "'%s' is %s", node->name, type_string(m, node->type));
}

void loop_relate(const Module *m, Diag *d, NodeId call) {
	if (node_get(m, call)->origin != NONE)
		diag_related(d, node_place(m, d, call), "'%s' is this loop", node_get(m, call)->name);
}

void graph_relate(const Module *m, Diag *d, GraphId g) {
	const Graph *graph = graph_get(m, g);
	uint32_t takes = graph->placeholders.count, gives = graph->output == NONE ? 0 : graph_result_count(m, g);
	diag_related(d, graph_place(m, d, g), "graph %lld takes %u argument%s and gives %u", (long long)graph->id,
	             takes, takes == 1 ? "" : "s", gives);
}

void block_relate(const Module *m, Diag *d, BlockId b) {
	const Block *block = &m->blocks.at[b];
	diag_related(d, diag_place(d, m->source, "/block_sizes/%u", b), "block '%s' (%s) is declared here",
	             block->symbol, block->name);
}

static void relate_arg(Module *m, Diag *d, const Arg *arg, uint32_t *shown) {
	if (arg->kind == ARG_REF && (*shown)++ < OPERANDS_SHOWN)
		node_relate(m, d, arg->node);
	for (uint32_t i = 0; arg->kind == ARG_LIST && i < arg->list.count && *shown < OPERANDS_SHOWN; i++)
		relate_arg(m, d, arg_item(m, arg, i), shown);
}

/* Of a call what matters are the graphs: its operands are their arguments, and may be many. */
void operands_relate(Module *m, Diag *d, NodeId n) {
	uint32_t shown = 0;
	bool call = op_row(node_get(m, n)->op)->shape == SHAPE_CALL;
	for (uint32_t i = 0; i < node_get(m, n)->arg_count; i++) {
		const Arg *arg = node_arg(m, n, i);
		if (arg->kind == ARG_GRAPH)
			graph_relate(m, d, arg->graph);
		else if (!call)
			relate_arg(m, d, arg, &shown);
	}
}
