/* row_split_rewrite.c - the rewrite of row_split.c: a loop graph, its call, and what it carries. */
#include "row_split.h"

typedef struct Rewrite {
	RowSplit *s;
	Module *m;
	GraphId loop;
	BlockId rows;
	NodeId call, output; /* of the loop graph */
	Map inside;          /* node of the root -> its copy or placeholder in the loop */
	VEC(Arg) results;
	VEC(TypeId) types;
} Rewrite;

/* ---- arguments --------------------------------------------------------------------------------------------------- */

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
	found = leaf ? node_copy(w->m, n, op == OP_HOST_TENSOR ? user : first)
	             : graph_add_argument(w->m, w->loop, n, node_get(w->m, n)->name);
	map_put(w->m->arena, &w->inside, n, found);
	return found;
}

static void point_inside(Rewrite *w, ArgId slot, NodeId user) {
	Arg a = *arg_get(w->m, slot);
	if (arg_block(w->m, &a) == w->s->block && a.kind == ARG_BLOCK)
		arg_get(w->m, slot)->block = w->rows;
	else if (arg_block(w->m, &a) == w->s->block)
		arg_set(w->m, slot, arg_sym(expr_block(w->m, w->rows)));
	else if (a.kind == ARG_REF && node_get(w->m, a.node)->graph != w->loop)
		arg_set_ref(w->m, slot, inner(w, a.node, user));
	for (uint32_t i = 0; (a.kind == ARG_LIST || a.kind == ARG_SLICE) && i < a.list.count; i++)
		point_inside(w, a.list.first + i, user);
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
}

/* ---- what is carried --------------------------------------------------------------------------------------------- */

static NodeId initial(Rewrite *w, NodeId n) {
	Module *m = w->m;
	Type t = *node_type(m, n);
	uint16_t op = op_canonical(node_get(m, n)->op);
	Arg dims[RANK_MAX];
	for (uint32_t i = 0; i < t.count; i++)
		dims[i] = m->exprs.at[t.dims[i]].kind == EXPR_INT ? arg_int(m->exprs.at[t.dims[i]].value)
		                                                  : arg_sym(t.dims[i]);
	Arg value = op == OP_SUM ? dtype_is_float(t.dtype) ? arg_float(0) : arg_int(0)
	                         : arg_float(op == OP_MAX ? -1.0 / 0.0 : 1.0 / 0.0);
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
	uint16_t op = op_canonical(node_get(m, n)->op);
	NodeId full = initial(w, n);
	NodeId acc = graph_add_argument(m, w->loop, full, node_get(m, full)->name);
	uint32_t arg = graph_get(m, w->loop)->placeholders.count - 1, output = w->results.count;
	Arg args[3] = {arg_ref(acc), arg_ref(n), arg_int(1)};
	NodeId sum = node_new(m, w->loop,
	                      op == OP_SUM   ? OP_ADD
	                      : op == OP_MAX ? OP_MAXIMUM
	                                     : OP_MINIMUM,
	                      arena_printf(m->arena, "%s_sum", node_get(m, n)->name), node_get(m, n)->type,
	                      op == OP_SUM ? 3 : 2, args);
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
	return pass_facts_again(s->c);
}
