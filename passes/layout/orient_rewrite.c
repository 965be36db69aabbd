/* orient_rewrite.c - the second half of orient.c: rewrites graphs, given how each value is to stand.
 *
 * Nodes are visited in order. A turned node changes its type and its arguments in place; what only added or dropped the
 * last dim of a statistic vanishes; each other use of a turned value gets what it can take. What nothing uses any more
 * is removed. */
#include "orient.h"

/* ---- new nodes --------------------------------------------------------------------------------------------------- */

/* Node `of`, called after x, with its last two dims swapped. */
static NodeId swapped(Orient *o, NodeId of, NodeId x, const char *suffix, TypeId type, NodeId before) {
	Arg args[] = {arg_ref(of), rows_swapped(o->m, type_get(o->m, type)->count)};
	return node_derive(o->m, OP_PERMUTE, x, suffix, type, 2, args, before);
}

/* tile.full x in the shape that it has turned. */
static NodeId full_as(Orient *o, NodeId x, const char *suffix, TypeId type, NodeId before) {
	Arg args[] = {shape_arg(o->m, type), *node_arg(o->m, x, 1), *node_arg(o->m, x, 2)};
	return node_derive(o->m, OP_FULL, x, suffix, type, 3, args, before);
}

/* ---- a value as a use wants it ----------------------------------------------------------------------------------- */

/* Where one conversion for all uses of x can stand: straight after it. */
static NodeId after(const Orient *o, NodeId x) {
	NodeId next = node_get(o->m, x)->next;
	while (node_get(o->m, next)->op == OP_PLACEHOLDER)
		next = node_get(o->m, next)->next;
	return next;
}

static NodeId asis_of(Orient *o, NodeId x);

/* A conversion to a narrower type follows the swap: 16-bit tiles take longer to transpose than 32-bit ones. In a
 * loop a matmul reads the swap for nothing. NONE if x is no such conversion. */
static NodeId converted_after(Orient *o, NodeId x) {
	const Node *node = node_get(o->m, x);
	bool behind = node->op == OP_CONVERT && graph_get(o->m, node->graph)->kind == GRAPH_ROOT;
	NodeId from = behind ? node_input(o->m, x, 0) : NONE;
	if (from == NONE || from >= o->nodes || stand_of(o, from) != STAND_TURNED ||
	    dtype_bits(type_get(o->m, o->old[from])->dtype) <= dtype_bits(type_get(o->m, o->old[x])->dtype))
		return NONE;
	NodeId wide = asis_of(o, from), copy = node_copy(o->m, x, after(o, o->now[x]));
	arg_set_ref(o->m, node_get(o->m, copy)->arg_first, wide);
	node_set_type(o->m, copy, o->old[x]);
	return copy;
}

/* A turned value in its old shape. */
static NodeId asis_of(Orient *o, NodeId x) {
	if (o->asis[x] != NONE)
		return o->asis[x];
	NodeId now = o->now[x];
	TypeId old = o->old[x];
	NodeId converted = converted_after(o, x);
	if (converted != NONE)
		return o->asis[x] = converted;
	if (type_get(o->m, old)->count == node_type(o->m, now)->count)
		return o->asis[x] = swapped(o, now, x, "rows", old, after(o, now));
	Arg args[] = {arg_ref(now), arg_int((int64_t)type_get(o->m, old)->count - 1)};
	return o->asis[x] = node_derive(o->m, OP_SQUEEZE_DIM, x, "rows", old, 2, args, after(o, now));
}

/* A loaded vector [.., n] along the sublanes, as [.., n, lanes]: a row of it in each sublane, turned, has all of its
 * lanes equal, so that no tile that it meets has to spread a column. */
static NodeId across_lanes(Orient *o, NodeId load) {
	if (o->across[load] != NONE)
		return o->across[load];
	Type t = *type_get(o->m, o->old[load]);
	ExprId columns = t.dims[t.count - 1];
	t.dims[t.count++] = columns;
	t.dims[t.count - 2] = expr_int(o->m, 1);
	NodeId before = after(o, load);
	Arg args[] = {arg_ref(load), arg_int(-2)};
	NodeId row = node_derive(o->m, OP_UNSQUEEZE, load, "row", type_tensor(o->m, t.dtype, t.count, t.dims), 2, args,
	                         before);
	t.dims[t.count - 2] = expr_int(o->m, o->m->target->lanes);
	TypeId rows = type_tensor(o->m, t.dtype, t.count, t.dims);
	Arg as[] = {arg_ref(row), shape_arg(o->m, rows), arg_bool(false)};
	NodeId spread = node_derive(o->m, OP_EXPAND, load, "rows", rows, 3, as, before);
	return o->across[load] = swapped(o, spread, load, "across", turned_type(o, rows, STAND_TURNED), before);
}

/* The same, as wide as what n makes of it. */
static NodeId across_tile(Orient *o, NodeId n, NodeId load) {
	NodeId lanes = across_lanes(o, load);
	const Type *met = type_get(o->m, o->old[n]);
	Type t = *node_type(o->m, lanes);
	ExprId width = t.dims[t.count - 1] = met->dims[met->count - 2];
	if (expr_number(o->m, width) == o->m->target->lanes)
		return lanes;
	Arg args[] = {arg_ref(lanes), size_arg(o->m, width)};
	return node_derive(o->m, OP_PRE_BROADCAST_TILE, load, "tile", type_tensor(o->m, t.dtype, t.count, t.dims), 2,
	                   args, n);
}

/* An index along the sublanes. */
static NodeId across_of(Orient *o, NodeId x) {
	NodeId index = across_index(o, x);
	if (o->across[index] == NONE) {
		Type t = *type_get(o->m, o->old[index]);
		t.dims[t.count++] = expr_int(o->m, 1);
		Arg args[] = {arg_ref(index), arg_int(-1)};
		o->across[index] = node_derive(o->m, OP_UNSQUEEZE, index, "across",
		                               type_tensor(o->m, t.dtype, t.count, t.dims), 2, args, after(o, index));
	}
	return o->across[index];
}

/* Any value standing as s, where n takes it. */
static NodeId standing(Orient *o, NodeId n, NodeId x, Stand s) {
	if (s == STAND_ACROSS && across_load(o, x) != NONE)
		return across_tile(o, n, across_load(o, x));
	if (s == STAND_ACROSS)
		return across_of(o, x);
	if (stand_of(o, x) == s)
		return o->now[x];
	if (swaps_asis(o, x, s))
		return node_input(o->m, x, 0);
	NodeId *made = s == STAND_TURNED ? o->turned : o->lanes;
	if (made[x] != NONE)
		return made[x];
	TypeId type = turned_type(o, o->old[x], s);
	const char *suffix = s == STAND_TURNED ? "turned" : "lanes";
	if (node_get(o->m, x)->op == OP_FULL)
		return made[x] = full_as(o, x, suffix, type, after(o, x));
	if (type_get(o->m, type)->count == type_get(o->m, o->old[x])->count)
		return made[x] = swapped(o, x, x, suffix, type, after(o, x));
	Arg args[] = {arg_ref(x), arg_int(-2)};
	return made[x] = node_derive(o->m, OP_UNSQUEEZE, x, suffix, type, 2, args, after(o, x));
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

/* How the value in `slot` of node n, a call or the output of a loop, must stand: as the placeholder that takes it. */
static Stand taken_as(const Orient *o, NodeId n, ArgId slot) {
	const Node *node = node_get(o->m, n);
	bool call = node->op == OP_FOR_LOOP;
	GraphId loop = call ? node_arg(o->m, n, 0)->graph : node->graph;
	const Graph *g = graph_get(o->m, loop);
	uint32_t place = list_index(call ? op_arg(o->m, n, "args") : node_arg(o->m, n, 0), slot);
	uint32_t arg = call || place == NONE ? place : graph_carried_arg(g, place);
	return arg == NONE ? STAND_ASIS : stand_of(o, g->placeholders.at[arg]);
}

static Stand wanted(const Orient *o, NodeId n, NodeId x, ArgId slot) {
	const Node *node = node_get(o->m, n);
	if (node->op == OP_FOR_LOOP || node->op == OP_OUTPUT)
		return taken_as(o, n, slot);
	if (stand_of(o, n) == STAND_ASIS)
		return STAND_ASIS;
	if (op_kind(o->m, n) == KIND_REDUCTION || op_kind(o->m, n) == KIND_MATMUL)
		return STAND_TURNED;
	bool view = op_kind(o->m, n) == KIND_VIEW;
	return stand_of(o, n) == STAND_TURNED && !view ? beside_turned(o, n, x) : stand_of(o, n);
}

/* x only swaps a turned value: what that is already, so nothing will use x. */
static bool swaps_turned(const Orient *o, NodeId x) {
	NodeId from = op_kind(o->m, x) == KIND_VIEW ? node_input(o->m, x, 0) : NONE;
	return from != NONE && stand_of(o, from) == STAND_TURNED && stand_of(o, x) == STAND_ASIS &&
	       permutation_swaps_rows(o->m, x);
}

static void rewrite_slot(Orient *o, NodeId n, ArgId slot) {
	Arg a = *arg_get(o->m, slot);
	if (a.kind == ARG_REF && is_old_tile(o, a.node)) {
		Stand s = wanted(o, n, a.node, slot);
		if (s != STAND_ASIS)
			arg_set_ref(o->m, slot, standing(o, n, a.node, s));
		else if (swaps_turned(o, a.node))
			arg_set_ref(o->m, slot, o->now[node_input(o->m, a.node, 0)]);
		else if (stand_of(o, a.node) != STAND_ASIS)
			arg_set_ref(o->m, slot, asis_of(o, a.node));
	}
	for (uint32_t i = 0; (a.kind == ARG_LIST || a.kind == ARG_SLICE) && i < a.list.count; i++)
		rewrite_slot(o, n, a.list.first + i);
}

/* The product of swapped factors in the other order is the product swapped. */
static void swap_factors(Orient *o, NodeId n) {
	ArgId first = node_get(o->m, n)->arg_first;
	uint16_t op = node_get(o->m, n)->op;
	ArgId left = first + matmul_arg(op, 0), right = first + matmul_arg(op, 1);
	NodeId a = arg_get(o->m, left)->node, b = arg_get(o->m, right)->node;
	arg_set_ref(o->m, left, b);
	arg_set_ref(o->m, right, a);
}

/* Along the second-last dim, which stays as a dim of 1. */
static void reduce_sublanes(Orient *o, NodeId n) {
	const Node *node = node_get(o->m, n);
	uint16_t op = node->op;
	ArgId first = node->arg_first;
	ArgId dim = first + op_param_index(op, "dim"), keep = first + op_param_index(op, "keepdim");
	Arg minus_two = arg_int(-2);
	arg_set(o->m, dim, arg_get(o->m, dim)->kind == ARG_LIST ? arg_list(o->m, 1, &minus_two) : minus_two);
	arg_set(o->m, keep, arg_bool(true));
}

static void retype_call(Orient *o, NodeId call) {
	const Graph *g = graph_get(o->m, node_arg(o->m, call, 0)->graph);
	for (uint32_t i = 0; i < g->carried.count; i++) {
		Stand s = stand_of(o, g->placeholders.at[g->carried.at[i].arg]);
		uint32_t output = g->carried.at[i].output;
		TypeId old = node_type(o->m, call)->elements[output];
		if (s != STAND_ASIS)
			node_set_result_type(o->m, call, output, turned_type(o, old, s));
	}
}

static void rewrite_node(Orient *o, NodeId n) {
	Stand s = stand_of(o, n);
	if (s == STAND_LANES && is_unit_view(o, n)) {
		o->now[n] = standing(o, n, node_input(o->m, n, 0), STAND_LANES);
		return;
	}
	if (swaps_turned(o, n))
		return;
	uint32_t count = node_get(o->m, n)->arg_count;
	for (uint32_t i = 0; i < count; i++)
		rewrite_slot(o, n, node_get(o->m, n)->arg_first + i);
	if (node_get(o->m, n)->op == OP_FOR_LOOP)
		retype_call(o, n);
	if (s == STAND_ASIS)
		return;
	if (op_kind(o->m, n) == KIND_MATMUL)
		swap_factors(o, n);
	if (op_kind(o->m, n) == KIND_REDUCTION)
		reduce_sublanes(o, n);
	node_set_type(o->m, n, turned_type(o, o->old[n], s));
	o->now[n] = n;
}

/* What is turned is turned before its users are seen: placeholders first, then node by node. */
static void rewrite_graph(Orient *o, GraphId g) {
	for (NodeId n = graph_first(o->m, g), next; n != NONE; n = next) {
		next = node_get(o->m, n)->next;
		if (n < o->nodes)
			rewrite_node(o, n);
	}
	for (NodeId n = graph_get(o->m, g)->last, prev; n != NONE; n = prev) {
		prev = node_get(o->m, n)->prev;
		if (n < o->nodes && o->used[n] && node_uses(o->m, n) == NONE)
			node_remove(o->m, n);
	}
}

void orient_rewrite(Orient *o) {
	for (GraphId g = 0; g < o->m->graphs.count; g++)
		rewrite_graph(o, g);
}
