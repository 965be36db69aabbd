/* entries.c - how accesses name positions: by whole tiles, by their numbers, within a tile of another block. */
#include "cuts.h"

/* tile.begin of a tile of one position is that position. */
static BlockId tile_of(const Module *m, const Arg *entry) {
	BlockId b = arg_block(m, entry);
	if (b != NONE || entry->kind != ARG_REF)
		return b;
	const Node *n = node_get(m, entry->node);
	if (n->op != OP_TILE_BEGIN && n->op != OP_TILE_ID)
		return NONE;
	b = arg_block(m, node_arg(m, entry->node, 0));
	return b != NONE && expr_is_int(m, m->blocks.at[b].size, 1) ? b : NONE;
}

/* The dim has an element for each tile of b: cdiv(extent, u), or (u + extent - 1) // u. */
static bool counts_tiles(const Module *m, ExprId size, BlockId b) {
	const Expr *x = &m->exprs.at[size];
	ExprId extent = m->blocks.at[b].extent;
	if (extent == NONE || m->exprs.at[extent].kind != EXPR_INT || m->blocks.at[b].size != NONE ||
	    (x->kind != EXPR_CDIV && x->kind != EXPR_FLOORDIV) || expr_as_block(m, x->b) != b)
		return false;
	int64_t positions = m->exprs.at[extent].value;
	if (x->kind == EXPR_CDIV)
		return expr_is_int(m, x->a, positions);
	const Expr *sum = &m->exprs.at[x->a];
	return sum->kind == EXPR_ADD && ((expr_as_block(m, sum->a) == b && expr_is_int(m, sum->b, positions - 1)) ||
	                                 (expr_as_block(m, sum->b) == b && expr_is_int(m, sum->a, positions - 1)));
}

static BlockId number_of(const Module *m, const Arg *entry, ExprId size) {
	if (entry->kind != ARG_REF || node_get(m, entry->node)->op != OP_TILE_ID)
		return NONE;
	BlockId b = arg_block(m, node_arg(m, entry->node, 0));
	return b != NONE && counts_tiles(m, size, b) ? b : NONE;
}

bool entry_next(const Module *m, NodeId access, Entry *e) {
	TensorId t = access_tensor(m, access);
	const Arg *index = access_index(m, access);
	while (t != NONE && e->next < index->list.count && e->next_dim < m->tensors.at[t].rank) {
		e->arg = arg_item(m, index, e->next++);
		if (e->arg->kind == ARG_NULL)
			continue;
		e->dim = e->next_dim++;
		e->block = tile_of(m, e->arg);
		e->counts = e->block == NONE;
		if (e->counts)
			e->block = number_of(m, e->arg, m->tensors.at[t].shape[e->dim]);
		return true;
	}
	return false;
}

/* The block whose tile's begin, or end, an argument is; NONE. */
static BlockId bound_of(const Module *m, const Arg *bound, uint16_t op) {
	bool is = bound->kind == ARG_REF && node_get(m, bound->node)->op == op;
	return is ? arg_block(m, node_arg(m, bound->node, 0)) : NONE;
}

BlockId block_within(const Module *m, BlockId b) {
	BlockId of = NONE;
	for (GraphId g = 0; g < m->graphs.count; g++) {
		const Graph *graph = graph_get(m, g);
		for (uint32_t i = 0; i < graph->blocks.count; i++) {
			if (graph->blocks.at[i] != b)
				continue;
			if (graph->kind == GRAPH_ROOT)
				return NONE;
			of = bound_of(m, arg_item(m, node_arg(m, graph->caller, 1), i), OP_TILE_BEGIN);
			if (of == NONE || bound_of(m, arg_item(m, node_arg(m, graph->caller, 2), i), OP_TILE_END) != of)
				return NONE;
		}
	}
	return of;
}
