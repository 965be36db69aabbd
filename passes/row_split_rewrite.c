/* row_split_rewrite.c - the rewrite of row_split.c: a loop graph, its call, what it carries, and columns. */
#include "row_split.h"

typedef struct Leaf {
	NodeId of, copy;
} Leaf;

typedef struct Rewrite {
	RowSplit *s;
	Module *m;
	GraphId loop;
	BlockId rows;
	NodeId call, output; /* of the loop graph */
	Map inside;          /* node of the root -> its copy or placeholder in the loop */
	VEC(Leaf) leaves;    /* the same, in order */
	VEC(Arg) results;
	VEC(TypeId) types;
} Rewrite;

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static NodeId leaf_copy(Rewrite *w, NodeId n, NodeId before) {
	Node old = *node_get(w->m, n);
	Arg *args = arena_array(w->m->arena, (size_t)old.arg_count + 1, sizeof *args);
	for (uint32_t i = 0; i < old.arg_count; i++)
		args[i] = arg_copy(w->m, *node_arg(w->m, n, i));
	NodeId copy = node_new(w->m, w->loop, old.op, old.name, old.type, old.arg_count, args);
	node_get(w->m, copy)->loc = old.loc;
	node_insert_before(w->m, copy, before);
	return copy;
}

/* A host tensor, a scalar and a query of the tile stand in the loop as well; other values are passed to it. */
static NodeId inner(Rewrite *w, NodeId n, NodeId user) {
	NodeId found = map_get(&w->inside, n);
	if (found != NONE)
		return found;
	uint16_t op = node_get(w->m, n)->op;
	bool leaf = op == OP_HOST_TENSOR || op == OP_SCALAR || op_kind(w->m, n) == KIND_QUERY || op == OP_SYMNODE;
	NodeId first = graph_get(w->m, w->loop)->first;
	while (leaf && node_get(w->m, first)->op == OP_PLACEHOLDER)
		first = node_get(w->m, first)->next;
	found = leaf ? leaf_copy(w, n, op == OP_HOST_TENSOR ? user : first)
	             : graph_add_argument(w->m, w->loop, n, node_get(w->m, n)->name);
	map_put(w->m->arena, &w->inside, n, found);
	vec_push(w->m->arena, &w->leaves, ((Leaf){n, found}));
	return found;
}

static void point_inside(Rewrite *w, ArgId slot, NodeId user) {
	Arg a = *arg_get(w->m, slot);
	if (row_arg_block(w->m, &a) == w->s->block && a.kind == ARG_BLOCK)
		arg_get(w->m, slot)->block = w->rows;
	else if (row_arg_block(w->m, &a) == w->s->block)
		arg_set(w->m, slot, arg_sym(expr_block(w->m, w->rows)));
	else if (a.kind == ARG_REF && node_get(w->m, a.node)->graph != w->loop)
		arg_set_ref(w->m, slot, inner(w, a.node, user));
	for (uint32_t i = 0; (a.kind == ARG_LIST || a.kind == ARG_SLICE) && i < a.list.count; i++)
		point_inside(w, a.list.first + i, user);
}

/* ---- columns ----------------------------------------------------------------------------------------------------- */

static Arg whole_dim(Module *m) {
	Arg parts[3] = {arg_null(), arg_null(), arg_null()};
	Arg slice = arg_list(m, 3, parts);
	slice.kind = ARG_SLICE;
	return slice;
}

/* The 1-D tensor of an access, as a view [N, 1]. */
static NodeId column_host(Rewrite *w, NodeId access) {
	TensorId of = row_access_tensor(w->m, access);
	Tensor t = w->m->tensors.at[of];
	const char *name = arena_printf(w->m->arena, "%s_column", t.name);
	TensorId view = tensor_find(w->m, name);
	if (view == NONE || w->m->tensors.at[view].of != of) {
		Tensor column = {.role = ROLE_VIEW, .dtype = t.dtype, .rank = 2, .of = of, .view = VIEW_RESHAPE};
		column.shape[0] = t.shape[0];
		column.shape[1] = expr_int(w->m, 1);
		view = tensor_new(w->m, name, column);
	}
	Arg arg = {.kind = ARG_TENSOR, .tensor = view};
	TypeId type = type_tensor(w->m, t.dtype, 2, w->m->tensors.at[view].shape);
	NodeId host = node_new(w->m, w->loop, OP_HOST_TENSOR, w->m->tensors.at[view].name, type, 1, &arg);
	node_get(w->m, host)->loc = node_get(w->m, access)->loc;
	node_insert_before(w->m, host, access);
	return host;
}

static TypeId column_type(Rewrite *w, Dtype dtype) {
	const ExprId dims[2] = {expr_block(w->m, w->rows), expr_int(w->m, 1)};
	return type_tensor(w->m, dtype, 2, dims);
}

static void set_column_index(Rewrite *w, NodeId n, NodeId host) {
	NodeId old = node_input(w->m, n, 0);
	Arg entries[2] = {arg_sym(expr_block(w->m, w->rows)), whole_dim(w->m)};
	Arg index = arg_list(w->m, 2, entries);
	arg_set_ref(w->m, node_get(w->m, n)->arg_first, host);
	arg_set(w->m, node_get(w->m, n)->arg_first + 1, index);
	for (uint32_t i = 0; i < w->leaves.count && node_uses(w->m, old) == NONE; i++)
		if (w->leaves.at[i].copy == old)
			map_put(w->m->arena, &w->inside, w->leaves.at[i].of, NONE);
	if (node_uses(w->m, old) == NONE)
		node_remove(w->m, old);
}

/* load t[u] becomes squeeze(load t_column[u, :], 1). */
static void load_column(Rewrite *w, NodeId n) {
	TypeId row = node_get(w->m, n)->type;
	set_column_index(w, n, column_host(w, n));
	node_set_type(w->m, n, column_type(w, node_type(w->m, n)->dtype));
	Arg args[2] = {arg_ref(n), arg_int(1)};
	NodeId squeezed = node_new(w->m, w->loop, OP_SQUEEZE_DIM, node_get(w->m, n)->name, row, 2, args);
	node_get(w->m, squeezed)->loc = node_get(w->m, n)->loc;
	node_insert_after(w->m, squeezed, n);
	node_replace_uses(w->m, n, squeezed, squeezed);
}

static void store_column(Rewrite *w, NodeId n) {
	NodeId value = node_input(w->m, n, 2);
	set_column_index(w, n, column_host(w, n));
	if (value == NONE || node_type(w->m, value)->count == 0)
		return;
	Arg args[2] = {arg_ref(value), arg_int(1)};
	NodeId column = node_new(w->m, w->loop, OP_UNSQUEEZE, node_get(w->m, value)->name,
	                         column_type(w, node_type(w->m, value)->dtype), 2, args);
	node_get(w->m, column)->loc = node_get(w->m, n)->loc;
	node_insert_before(w->m, column, n);
	arg_set_ref(w->m, node_get(w->m, n)->arg_first + 2, column);
}

/* ---- moving ------------------------------------------------------------------------------------------------------ */

static void move_inside(Rewrite *w, NodeId n) {
	Module *m = w->m;
	node_move_before(m, n, w->output);
	for (uint32_t i = 0; i < node_get(m, n)->arg_count; i++)
		point_inside(w, node_get(m, n)->arg_first + i, n);
	Type t = *node_type(m, n);
	for (uint32_t i = 0; t.kind == TYPE_TENSOR && i < t.count; i++)
		if (expr_as_block(m, t.dims[i]) == w->s->block)
			t.dims[i] = expr_block(m, w->rows);
	if (t.kind == TYPE_TENSOR)
		node_set_type(m, n, type_tensor(m, t.dtype, t.count, t.dims));
	uint16_t op = node_get(m, n)->op;
	if ((op != OP_LOAD && op != OP_STORE) || m->tensors.at[row_access_tensor(m, n)].rank != 1)
		return;
	if (op == OP_LOAD)
		load_column(w, n);
	else
		store_column(w, n);
}

/* ---- what is carried --------------------------------------------------------------------------------------------- */

static NodeId initial(Rewrite *w, NodeId n) {
	Module *m = w->m;
	Type t = *node_type(m, n);
	uint16_t op = node_get(m, n)->op;
	Arg dims[RANK_MAX];
	for (uint32_t i = 0; i < t.count; i++)
		dims[i] = m->exprs.at[t.dims[i]].kind == EXPR_INT ? arg_int(m->exprs.at[t.dims[i]].value)
		                                                  : arg_sym(t.dims[i]);
	Arg value = op == OP_SUM_DIM ? dtype_is_float(t.dtype) ? arg_float(0) : arg_int(0)
	                             : arg_float(op == OP_AMAX ? -1.0 / 0.0 : 1.0 / 0.0);
	Arg args[3] = {arg_list(m, t.count, dims), value, arg_dtype(t.dtype)};
	NodeId full = node_new(m, w->s->root, OP_FULL, arena_printf(m->arena, "%s_acc", node_get(m, n)->name),
	                       type_tensor(m, t.dtype, t.count, t.dims), 3, args);
	node_get(m, full)->loc = node_get(m, n)->loc;
	node_insert_before(m, full, w->call);
	return full;
}

/* The sum of a step is added to what the steps before gave; users outside see the loop's result. */
static void carry(Rewrite *w, NodeId n) {
	Module *m = w->m;
	uint16_t op = node_get(m, n)->op;
	NodeId full = initial(w, n);
	NodeId acc = graph_add_argument(m, w->loop, full, node_get(m, full)->name);
	uint32_t arg = graph_get(m, w->loop)->placeholders.count - 1, output = w->results.count;
	Arg args[3] = {arg_ref(acc), arg_ref(n), arg_int(1)};
	NodeId sum = node_new(m, w->loop,
	                      op == OP_SUM_DIM ? OP_ADD
	                      : op == OP_AMAX  ? OP_MAXIMUM
	                                       : OP_MINIMUM,
	                      arena_printf(m->arena, "%s_sum", node_get(m, n)->name), node_get(m, n)->type,
	                      op == OP_SUM_DIM ? 3 : 2, args);
	node_get(m, sum)->loc = node_get(m, n)->loc;
	node_insert_before(m, sum, w->output);
	vec_push(m->arena, &w->results, arg_ref(sum));
	vec_push(m->arena, &w->types, node_get(m, n)->type);
	vec_push(m->arena, &graph_get(m, w->loop)->carried, ((Carried){arg, output}));
	Arg taken[2] = {arg_ref(w->call), arg_int(output)};
	NodeId result = node_new(m, w->s->root, OP_GETITEM, node_get(m, n)->name, node_get(m, n)->type, 2, taken);
	node_insert_before(m, result, graph_get(m, w->s->root)->output);
	for (ArgId u = node_uses(m, n), next; u != NONE; u = next) {
		next = arg_get(m, u)->next_use;
		if (node_get(m, arg_get(m, u)->user)->graph == w->s->root)
			arg_set_ref(m, u, result);
	}
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static NodeId bound(Rewrite *w, uint16_t op, const char *name) {
	Arg block = {.kind = ARG_BLOCK, .block = w->s->block};
	return node_new(w->m, w->s->root, op, name, type_sym(w->m, DTYPE_I32, NONE), 1, &block);
}

static void make_loop(Rewrite *w) {
	Module *m = w->m;
	NodeId end_of_root = graph_get(m, w->s->root)->output;
	const char *name = arena_printf(m->arena, "%s_rows", m->blocks.at[w->s->block].name);
	w->rows = block_new(m, name, expr_int(m, w->s->rows));
	w->loop = graph_new(m, GRAPH_FOR_LOOP, w->rows);
	w->output = graph_get(m, w->loop)->output;
	NodeId begin = bound(w, OP_TILE_BEGIN, "rows_begin"), end = bound(w, OP_TILE_END, "rows_end");
	Arg begins = arg_ref(begin), ends = arg_ref(end), graph = {.kind = ARG_GRAPH, .graph = w->loop};
	Arg args[4] = {graph, arg_list(m, 1, &begins), arg_list(m, 1, &ends), arg_list(m, 0, NULL)};
	w->call = node_new(m, w->s->root, OP_FOR_LOOP, name, type_tuple(m, 0, NULL), 4, args);
	graph_get(m, w->loop)->caller = w->call;
	node_insert_before(m, begin, end_of_root);
	node_insert_before(m, end, end_of_root);
	node_insert_before(m, w->call, end_of_root);
}

static void finish_loop(Rewrite *w) {
	Module *m = w->m;
	Arg results = arg_list(m, w->results.count, w->results.at);
	node_set_args(m, w->output, 1, &results);
	node_set_type(m, w->call, type_tuple(m, w->types.count, w->types.at));
}

/* Names of tensors and sizes that only the rows used. */
static void remove_unused(Rewrite *w) {
	Module *m = w->m;
	for (NodeId n = graph_get(m, w->s->root)->last, prev; n != NONE; n = prev) {
		prev = node_get(m, n)->prev;
		uint16_t op = node_get(m, n)->op;
		if (node_uses(m, n) == NONE && op != OP_OUTPUT && !op_has_effect(op) && op != OP_FOR_LOOP)
			node_remove(m, n);
	}
}

/* Facts are of the Module as it is now. */
static bool facts_again(RowSplit *s) {
	bool explain = s->c->explain;
	s->c->explain = false;
	bool ok = module_configure(s->m, s->c->diag) && (!s->m->loop_facts || pass_loop_types(s->c)) &&
	          (!s->m->alignments || pass_block_constraints(s->c));
	s->c->explain = explain;
	return ok;
}

bool row_split_rewrite(RowSplit *s) {
	Module *m = s->m;
	Rewrite w = {.s = s, .m = m};
	VEC(NodeId) moving = {0};
	VEC(NodeId) after = {0};
	for (NodeId n = graph_first(m, s->root); n != NONE; n = node_get(m, n)->next) {
		if (s->role[n] == ROLE_ROW || s->role[n] == ROLE_SUM)
			vec_push(m->arena, &moving, n);
		else if (s->role[n] == ROLE_AFTER)
			vec_push(m->arena, &after, n);
	}
	make_loop(&w);
	for (uint32_t i = 0; i < moving.count; i++) {
		move_inside(&w, moving.at[i]);
		if (s->role[moving.at[i]] == ROLE_SUM)
			carry(&w, moving.at[i]);
	}
	finish_loop(&w);
	for (uint32_t i = 0; i < after.count; i++)
		node_move_before(m, after.at[i], graph_get(m, s->root)->output);
	remove_unused(&w);
	pass_remark(s->c, "row_split", "%s: the body runs on %lld rows at a time; %u value%s carried",
	            m->blocks.at[s->block].name, (long long)s->rows, w.results.count,
	            w.results.count == 1 ? " is" : "s are");
	return facts_again(s);
}
