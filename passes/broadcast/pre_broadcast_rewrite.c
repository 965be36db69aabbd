/* pre_broadcast_rewrite.c - the second half of pre_broadcast.c: rewrites graphs, given which values are spread.
 *
 * Nodes are visited in order. A spread node changes its type in place; nodes that only added or dropped the last dim
 * vanish; each other use of a spread value gets what it can take: the value itself, its tile, or its old shape. */
#include "pre_broadcast.h"

/* ---- new nodes --------------------------------------------------------------------------------------------------- */

/* The spread value x in its old shape: lane 0, which costs nothing. */
static NodeId narrow_of(Spreading *w, NodeId x, NodeId before) {
	if (w->narrow[x] != NONE)
		return w->narrow[x];
	Arg args[] = {arg_ref(w->representative[x]), arg_int(-1), arg_int(0), arg_int(1), arg_int(1)};
	if (is_column(w->m, w->old[x]))
		w->narrow[x] = node_derive(w->m, OP_SLICE, x, "column", w->old[x], 5, args, before);
	else
		w->narrow[x] = node_derive(w->m, OP_SELECT, x, "row", w->old[x], 3, args, before);
	return w->narrow[x];
}

/* The spread value x as wide as node n's result; one node for each width. */
static NodeId tile_of(Spreading *w, NodeId x, NodeId n, int64_t width) {
	NodeId spread = w->representative[x];
	if (width == w->lanes)
		return spread;
	uint64_t key = (uint64_t)spread << 32 | (uint32_t)width;
	NodeId tile = map_get(&w->tiles, key);
	if (tile != NONE)
		return tile;
	Type t = *type_get(w->m, spread_type(w, w->old[x])), fat = *type_get(w->m, w->old[n]);
	ExprId size = t.dims[t.count - 1] = fat.dims[fat.count - 1];
	Arg args[] = {arg_ref(spread), size_arg(w->m, size)};
	tile = node_derive(w->m, OP_PRE_BROADCAST_TILE, spread, "tile", type_tensor(w->m, t.dtype, t.count, t.dims), 2,
	                   args, n);
	map_put(w->arena, &w->tiles, key, tile);
	return tile;
}

/* ---- rows beside spread ones ------------------------------------------------------------------------------------ */

static TypeId column_type(const Spreading *w, TypeId row) {
	Type t = *type_get(w->m, row);
	t.dims[t.count] = expr_int(w->m, 1);
	return type_tensor(w->m, t.dtype, t.count + 1, t.dims);
}

static bool is_spread_row_op(Spreading *w, NodeId n) {
	return is_spread(w, n) && is_lanewise(w->m, n) && !is_column(w->m, w->old[n]);
}

/* The slot of `keepdim` of a reduction along the last dim alone whose users all take a column; NONE. */
static ArgId keepdim_slot(Spreading *w, NodeId x) {
	const Node *node = node_get(w->m, x);
	uint32_t keepdim = op_param_index(node->op, "keepdim");
	if (keepdim == NONE || keepdim >= node->arg_count || !reduces_last(w, x) ||
	    type_get(w->m, w->old[x])->count + 1 != node_type(w->m, node_input(w->m, x, 0))->count)
		return NONE;
	for (ArgId u = node_uses(w->m, x); u != NONE; u = arg_get(w->m, u)->next_use)
		if (!is_spread_row_op(w, arg_get(w->m, u)->user))
			return NONE;
	return node->arg_first + keepdim;
}

/* Row x, in its old shape as `row`, with a last dim of 1. */
static NodeId column_of(Spreading *w, NodeId x, NodeId row, NodeId before) {
	if (w->column[x] != NONE)
		return w->column[x];
	ArgId keepdim = row == x ? keepdim_slot(w, x) : NONE;
	if (keepdim != NONE) {
		arg_set(w->m, keepdim, arg_bool(true));
		node_set_type(w->m, x, column_type(w, w->old[x]));
		return w->column[x] = x;
	}
	Arg args[] = {arg_ref(row), arg_int(-1)};
	return w->column[x] = node_derive(w->m, OP_UNSQUEEZE, x, "column", column_type(w, w->old[x]), 2, args, before);
}

/* ---- values that a loop takes spread ----------------------------------------------------------------------------- */

static NodeId placeholder_of(const Spreading *w, NodeId call, ArgId slot) {
	uint32_t arg = list_index(op_arg(w->m, call, "args"), slot);
	return arg == NONE ? NONE : graph_get(w->m, node_arg(w->m, call, 0)->graph)->placeholders.at[arg];
}

/* Every use of x is an argument that its loop takes spread. */
static bool only_spread(Spreading *w, NodeId x) {
	for (ArgId u = node_uses(w->m, x); u != NONE; u = arg_get(w->m, u)->next_use) {
		NodeId call = arg_get(w->m, u)->user;
		NodeId p = node_get(w->m, call)->op == OP_FOR_LOOP ? placeholder_of(w, call, u) : NONE;
		if (p == NONE || !is_spread(w, p))
			return false;
	}
	return true;
}

/* tile.full of the spread shape: x itself, if nothing wants it thin. */
static NodeId spread_full(Spreading *w, NodeId x, NodeId before) {
	TypeId type = spread_type(w, w->old[x]);
	Arg args[] = {shape_arg(w->m, type), *node_arg(w->m, x, 1), *node_arg(w->m, x, 2)};
	if (!only_spread(w, x))
		return node_derive(w->m, OP_FULL, x, "wide", type, 3, args, before);
	node_set_args(w->m, x, 3, args);
	node_set_type(w->m, x, type);
	return x;
}

static NodeId spread_of(Spreading *w, NodeId x, NodeId before) {
	if (is_spread(w, x))
		return w->representative[x];
	if (w->spread[x] != NONE)
		return w->spread[x];
	if (node_get(w->m, x)->op == OP_FULL)
		return w->spread[x] = spread_full(w, x, before);
	NodeId column = is_column(w->m, w->old[x]) ? x : column_of(w, x, x, before);
	TypeId type = spread_type(w, w->old[x]);
	Arg args[] = {arg_ref(column), shape_arg(w->m, type), arg_bool(false)};
	return w->spread[x] = node_derive(w->m, OP_EXPAND, x, "wide", type, 3, args, before);
}

/* ---- one use ----------------------------------------------------------------------------------------------------- */

/* An operand of a spread node: spread, or a column that broadcasts to it. */
static NodeId operand_beside(Spreading *w, NodeId n, NodeId x) {
	bool row_op = !is_column(w->m, w->old[n]), row = !is_column(w->m, w->old[x]);
	const Type *t = type_get(w->m, w->old[x]);
	if (is_spread(w, x) && row_op == row)
		return w->representative[x];
	NodeId thin = is_spread(w, x) ? narrow_of(w, x, n) : x;
	return row_op && t->kind == TYPE_TENSOR && t->count > 0 ? column_of(w, x, thin, n) : thin;
}

/* The placeholder that takes the value in `slot` of node n, a call or the output of a loop's graph; NONE. */
static NodeId taker(const Spreading *w, NodeId n, ArgId slot) {
	const Node *node = node_get(w->m, n);
	if (node->op == OP_FOR_LOOP)
		return placeholder_of(w, n, slot);
	if (node->op != OP_OUTPUT || !w->loop[node->graph].is_loop)
		return NONE;
	const Arg *list = node_arg(w->m, n, 0);
	uint32_t arg = w->loop[node->graph].output_arg[slot - list->list.first];
	return arg == NONE ? NONE : graph_get(w->m, node->graph)->placeholders.at[arg];
}

/* An operand of a node that keeps its type. */
static NodeId operand_of_other(Spreading *w, NodeId n, NodeId x, ArgId slot) {
	int64_t width;
	NodeId p = taker(w, n, slot);
	if (p != NONE && is_spread(w, p))
		return spread_of(w, x, n);
	if (!is_spread(w, x))
		return x;
	if (thin_use(w, n, x) != THIN_MEETS || !meeting_width(w, n, &width))
		return narrow_of(w, x, n);
	/* An expansion stays one, to the width that its operand now has. */
	return tile_of(w, x, n, width);
}

static NodeId operand(Spreading *w, NodeId n, NodeId x, ArgId slot) {
	bool spread = is_spread(w, n);
	if (spread && is_lanewise(w->m, n))
		return operand_beside(w, n, x);
	if (spread && node_get(w->m, n)->op == OP_MASK_TO && is_spread(w, x))
		return w->representative[x];
	return operand_of_other(w, n, x, slot);
}

static void rewrite_slot(Spreading *w, NodeId n, ArgId slot) {
	Arg a = *arg_get(w->m, slot);
	NodeId x = a.kind == ARG_REF ? a.node : NONE, with = x < w->nodes ? operand(w, n, x, slot) : x;
	if (with != x)
		arg_set_ref(w->m, slot, with);
	for (uint32_t i = 0; (a.kind == ARG_LIST || a.kind == ARG_SLICE) && i < a.list.count; i++)
		rewrite_slot(w, n, a.list.first + i);
}

/* ---- nodes and graphs -------------------------------------------------------------------------------------------- */

/* The operand that an identity node stands for; NONE. */
static NodeId identity_of(Spreading *w, NodeId n) {
	uint16_t op = node_get(w->m, n)->op;
	NodeId x = node_input(w->m, n, op == OP_PHI ? 1 : 0);
	bool value = x != NONE && x < w->nodes && is_spread(w, x);
	return value && is_spread(w, n) && thin_use(w, n, x) == THIN_IDENTITY ? x : NONE;
}

static void retype_call(Spreading *w, NodeId call) {
	GraphId g = node_arg(w->m, call, 0)->graph;
	for (uint32_t i = 0; i < node_type(w->m, call)->count; i++) {
		uint32_t arg = w->loop[g].output_arg[i];
		if (arg != NONE && is_spread(w, graph_get(w->m, g)->placeholders.at[arg]))
			node_set_result_type(w->m, call, i, spread_type(w, node_type(w->m, call)->elements[i]));
	}
}

static void rewrite_node(Spreading *w, NodeId n) {
	NodeId x = identity_of(w, n);
	if (x != NONE) {
		w->representative[n] = w->representative[x];
		return;
	}
	const Node *node = node_get(w->m, n);
	uint32_t count = node->arg_count;
	for (uint32_t i = 0; i < count; i++)
		rewrite_slot(w, n, node_get(w->m, n)->arg_first + i);
	if (is_spread(w, n)) {
		w->representative[n] = n;
		node_set_type(w->m, n, spread_type(w, w->old[n]));
	}
	if (node_get(w->m, n)->op == OP_FOR_LOOP)
		retype_call(w, n);
}

static void rewrite_graph(Spreading *w, GraphId g) {
	for (NodeId n = graph_first(w->m, g), next; n != NONE; n = next) {
		next = node_get(w->m, n)->next;
		rewrite_node(w, n);
	}
	for (NodeId n = graph_get(w->m, g)->last, prev; n != NONE; n = prev) {
		prev = node_get(w->m, n)->prev;
		bool replaced = n < w->nodes && node_uses(w->m, n) == NONE &&
		                (identity_of(w, n) != NONE || w->spread[n] != NONE);
		bool full = node_get(w->m, n)->op == OP_FULL;
		if (replaced && (full || w->spread[n] == NONE))
			node_remove(w->m, n);
	}
}

void spreading_rewrite(Spreading *w) {
	for (GraphId g = 0; g < w->m->graphs.count; g++)
		rewrite_graph(w, g);
}
