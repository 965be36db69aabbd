/* place.c - where the parts of a Module stand in its document. */
#include "ir.h"

/* Graphs move up where passes drop others: the place is the document's. What a pass made stands nowhere, so the
 * document as a whole is meant. A loop's line in the program is that of its call. */
Place graph_place(const Module *m, Diag *d, GraphId g) {
	uint32_t origin = graph_get(m, g)->origin;
	NodeId caller = graph_get(m, g)->caller;
	Place at =
		origin == NONE ? diag_place(d, m->source, "/graphs") : diag_place(d, m->source, "/graphs/%u", origin);
	if (caller != NONE)
		at.loc = node_get(m, caller)->loc;
	return at;
}

Place tensor_place(const Module *m, Diag *d, TensorId t) { return diag_place(d, m->source, "/tensors/%u", t); }

Place node_place(const Module *m, Diag *d, NodeId n) {
	const Node *node = node_get(m, n);
	Place at = graph_place(m, d, node->graph);
	if (node->origin != NONE)
		at = diag_place(d, m->source, "%s/nodes/%u", at.pointer, node->origin);
	if (node->loc.file)
		at.loc = node->loc;
	return at;
}

/* An argument may stand by position, by name, or (a default) nowhere: then the node's place has to do. */
Place node_arg_place(const Module *m, Diag *d, NodeId n, uint32_t arg) {
	const Node *node = node_get(m, n);
	Place whole = node_place(m, d, n);
	if (node->origin == NONE || !m->source)
		return whole;
	size_t offset;
	Place at = diag_place(d, m->source, "%s/args/%u", whole.pointer, arg);
	at.loc = whole.loc;
	if (d->errors >= DIAG_ERROR_LIMIT || diag_offset(m->source, at.pointer, false, &offset))
		return at;
	Schema s = schema_parse(d->arena, op_row(node->op)->params);
	if (arg < s.count) {
		at.pointer = diag_place(d, m->source, "%s/kwargs/%s", whole.pointer, s.params[arg].name).pointer;
		if (diag_offset(m->source, at.pointer, false, &offset))
			return at;
	}
	return whole;
}
