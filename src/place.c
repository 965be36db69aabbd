/* place.c - where the parts of a Module stand in its document. */
#include "schema.h"

Place graph_place(const Module *m, Diag *d, GraphId g) { return diag_place(d, m->source, "/graphs/%u", g); }

Place tensor_place(const Module *m, Diag *d, TensorId t) { return diag_place(d, m->source, "/tensors/%u", t); }

Place node_place(const Module *m, Diag *d, NodeId n) {
	const Node *node = node_get(m, n);
	if (node->origin == NONE)
		return graph_place(m, d, node->graph);
	return diag_place(d, m->source, "/graphs/%u/nodes/%u", node->graph, node->origin);
}

/* An argument may stand by position, by name, or (a default) nowhere: then the node's place has to do. */
Place node_arg_place(const Module *m, Diag *d, NodeId n, uint32_t arg) {
	const Node *node = node_get(m, n);
	if (node->origin == NONE || !m->source)
		return node_place(m, d, n);
	size_t offset;
	Place at = diag_place(d, m->source, "/graphs/%u/nodes/%u/args/%u", node->graph, node->origin, arg);
	if (d->errors >= DIAG_ERROR_LIMIT || diag_offset(m->source, at.pointer, false, &offset))
		return at;
	Schema s = schema_parse(d->arena, op_row(node->op)->params);
	if (arg < s.count) {
		at = diag_place(d, m->source, "/graphs/%u/nodes/%u/kwargs/%s", node->graph, node->origin,
		                s.params[arg].name);
		if (diag_offset(m->source, at.pointer, false, &offset))
			return at;
	}
	return node_place(m, d, n);
}
