/* roll_rewrite.c - the rewrite of roll.c: loops over blocks of a row, one for each level of reductions.
 *
 * Each loop gets copies of what its reductions need of the row, back to the loads; then the originals go. */
#include "roll.h"

typedef struct Rewrite {
	Roll *r;
	Module *m;
	NodeId *nodes; /* of the graph before, in order */
	uint32_t count;
	GraphId loop;
	NodeId call, output; /* of the loop that is being made */
	bool *needed;        /* by NodeId: it is copied into that loop */
	Map inside;          /* node of the graph -> its copy or placeholder in that loop */
	VEC(Arg) results;
	VEC(TypeId) types;
} Rewrite;

static NodeId end_of_graph(const Rewrite *w) { return graph_get(w->m, w->r->graph)->output; }

/* ---- what a reduction carries ------------------------------------------------------------------------------------ */

typedef enum Combine { COMBINE_SUM, COMBINE_PRODUCT, COMBINE_MAX, COMBINE_MIN } Combine;

static Combine combine_of(const Module *m, NodeId n) {
	switch (op_canonical(node_get(m, n)->op)) {
	case OP_MAX:
	case OP_ANY: return COMBINE_MAX;
	case OP_MIN:
	case OP_ALL: return COMBINE_MIN;
	case OP_PROD: return COMBINE_PRODUCT;
	default: return COMBINE_SUM;
	}
}

static Arg identity(Combine how, Dtype t) {
	if (how == COMBINE_MAX || how == COMBINE_MIN)
		return extreme_of_dtype(t, how == COMBINE_MIN);
	return number_of_dtype(t, how == COMBINE_PRODUCT);
}

static TypeId with_dtype(Module *m, TypeId type, Dtype dtype) {
	Type t = *type_get(m, type);
	return type_tensor(m, dtype, t.count, t.dims);
}

static NodeId convert(Module *m, NodeId x, Dtype to, NodeId before) {
	if (node_type(m, x)->dtype == to)
		return x;
	Arg args[2] = {arg_ref(x), arg_dtype(to)};
	return node_derive(m, OP_CONVERT, x, dtype_name(to), with_dtype(m, node_get(m, x)->type, to), 2, args, before);
}

/* A node made for the reduction n, at n's place in the source. */
static NodeId make_for(Module *m, NodeId n, uint16_t op, const char *suffix, TypeId type, uint32_t count,
                       const Arg *args, NodeId before) {
	NodeId made = node_derive(m, op, n, suffix, type, count, args, before);
	node_get(m, made)->loc = node_get(m, n)->loc;
	return made;
}

/* A name of a tensor, a scalar or a size, or a query of the tile: every graph may hold its own. */
static bool is_leaf(const Module *m, NodeId n) {
	uint16_t op = node_get(m, n)->op;
	return op == OP_HOST_TENSOR || op == OP_SCALAR || op == OP_SYMNODE || op_kind(m, n) == KIND_QUERY;
}

/* ---- inside a loop ----------------------------------------------------------------------------------------------- */

static void point_inside(Rewrite *w, ArgId slot, NodeId user);

/* Another row that is still to be rolled: handed into the loop, it would have to stay whole. */
static bool has_later_row(Rewrite *w, NodeId n) {
	const Type *t = node_type(w->m, n);
	for (uint32_t i = 0; t->kind == TYPE_TENSOR && i < t->count; i++)
		for (uint32_t k = 0; k < w->r->later.count; k++)
			if (expr_is_int(w->m, t->dims[i], w->r->later.at[k]))
				return true;
	return false;
}

/* Can it be computed again in the loop? */
static bool is_pure(const Rewrite *w, NodeId n) {
	OpKind kind = op_kind(w->m, n);
	return kind == KIND_POINTWISE || kind == KIND_VIEW || kind == KIND_CREATION || node_get(w->m, n)->op == OP_LOAD;
}

/* A host tensor, a scalar and a query of the tile stand in the loop as well, and so does what has another row; other
 * values are passed to it. */
static NodeId inner(Rewrite *w, NodeId n, NodeId user) {
	Module *m = w->m;
	uint32_t found = map_get(&w->inside, n);
	if (found != NONE)
		return found;
	uint16_t op = node_get(m, n)->op;
	NodeId first = graph_get(m, w->loop)->first;
	while (node_get(m, first)->op == OP_PLACEHOLDER)
		first = node_get(m, first)->next;
	if (is_leaf(m, n)) {
		found = node_copy(m, n, op == OP_HOST_TENSOR ? user : first);
	} else if (has_later_row(w, n) && is_pure(w, n)) {
		found = node_copy(m, n, user);
		for (uint32_t i = 0; i < node_get(m, found)->arg_count; i++)
			point_inside(w, node_get(m, found)->arg_first + i, found);
	} else {
		found = graph_add_argument(m, w->loop, n, node_get(m, n)->name);
	}
	map_put(m->arena, &w->inside, n, found);
	return found;
}

static void point_inside(Rewrite *w, ArgId slot, NodeId user) {
	Arg a = *arg_get(w->m, slot);
	if (a.kind == ARG_REF) {
		NodeId inside = inner(w, a.node, user);
		arg_set_ref(w->m, slot, inside);
	}
	for (uint32_t i = 0; (a.kind == ARG_LIST || a.kind == ARG_SLICE) && i < a.list.count; i++)
		point_inside(w, a.list.first + i, user);
}

static Arg block_arg(Rewrite *w) { return arg_sym(expr_block(w->m, w->r->block)); }

/* Where arguments give the row's length, they give the block's. */
static void cut_sizes(Rewrite *w, NodeId copy, uint32_t dim) {
	uint16_t op = node_get(w->m, copy)->op;
	uint32_t at = op_param_index(op, "size");
	at = at == NONE ? op_param_index(op, "shape") : at;
	const Arg *sizes = at == NONE ? NULL : node_arg(w->m, copy, at);
	if (op_kind(w->m, copy) == KIND_MEMORY)
		arg_set(w->m, node_arg(w->m, copy, 1)->list.first + index_entry_of(w->m, copy, dim), block_arg(w));
	else if (sizes && sizes->kind == ARG_LIST && dim < sizes->list.count)
		arg_set(w->m, sizes->list.first + dim, block_arg(w));
	Type t = *node_type(w->m, copy);
	if (t.kind != TYPE_TENSOR || dim >= t.count)
		return;
	t.dims[dim] = expr_block(w->m, w->r->block);
	node_set_type(w->m, copy, type_tensor(w->m, t.dtype, t.count, t.dims));
}

/* start + step * index of the block */
static NodeId cut_iota(Rewrite *w, NodeId n) {
	Module *m = w->m;
	Arg block = {.kind = ARG_BLOCK, .block = w->r->block};
	ExprId dims[1] = {expr_block(m, w->r->block)};
	TypeId type = type_tensor(m, DTYPE_I32, 1, dims);
	NodeId value = node_new(m, w->loop, OP_TILE_INDEX, node_get(m, n)->name, type, 1, &block);
	node_insert_before(m, value, w->output);
	int64_t start = op_arg(m, n, "start")->kind == ARG_INT ? op_arg(m, n, "start")->integer : 0;
	int64_t step = op_arg(m, n, "step")->kind == ARG_INT ? op_arg(m, n, "step")->integer : 1;
	if (step != 1) {
		Arg args[2] = {arg_ref(value), arg_int(step)};
		value = node_derive(m, OP_MUL, value, "scaled", type, 2, args, w->output);
	}
	if (start != 0) {
		Arg args[3] = {arg_ref(value), arg_int(start), arg_int(1)};
		value = node_derive(m, OP_ADD, value, "moved", type, 3, args, w->output);
	}
	return convert(m, value, node_type(m, n)->dtype, w->output);
}

static NodeId copy_inside(Rewrite *w, NodeId n) {
	Module *m = w->m;
	NodeId copy;
	if (node_get(m, n)->op == OP_IOTA) {
		copy = cut_iota(w, n);
	} else {
		copy = node_copy(m, n, w->output);
		for (uint32_t i = 0; i < node_get(m, copy)->arg_count; i++)
			point_inside(w, node_get(m, copy)->arg_first + i, copy);
		if (w->r->dim[n] != ROLL_NO_DIM)
			cut_sizes(w, copy, w->r->dim[n]);
	}
	map_put(m->arena, &w->inside, n, copy);
	return copy;
}

/* ---- a reduction's part ------------------------------------------------------------------------------------------ */

/* Is it neutral past the row's end already? A load is zero there. */
static bool is_neutral(const Module *m, NodeId x, const Arg *neutral) {
	while (node_get(m, x)->op == OP_CONVERT)
		x = node_input(m, x, 0);
	double wanted = neutral->kind == ARG_FLOAT ? neutral->real
	                : neutral->kind == ARG_INT ? (double)neutral->integer
	                                           : neutral->boolean;
	if (node_get(m, x)->op == OP_LOAD)
		return wanted == 0;
	const Arg *value = node_arg(m, x, 1);
	if (node_get(m, x)->op != OP_MASK_TO)
		return false;
	return (value->kind == ARG_FLOAT && value->real == wanted) ||
	       (value->kind == ARG_INT && (double)value->integer == wanted);
}

/* Operand `slot` of the part of a reduction: past the row's end the last block must not count. */
static void mask(Rewrite *w, NodeId part, uint32_t slot, Arg neutral) {
	Module *m = w->m;
	NodeId x = node_input(m, part, slot);
	if (w->r->extent % w->r->step == 0 || is_neutral(m, x, &neutral))
		return;
	Arg args[2] = {arg_ref(x), neutral};
	NodeId masked = node_derive(m, OP_MASK_TO, x, "inside", node_get(m, x)->type, 2, args, part);
	arg_set_ref(m, node_get(m, part)->arg_first + slot, masked);
}

/* What one block adds to the reduction n, in the dtype that is carried. */
static NodeId reduced_part(Rewrite *w, NodeId n, Dtype dtype) {
	Module *m = w->m;
	NodeId part = copy_inside(w, n), x = node_input(m, part, 0);
	Combine how = combine_of(m, n);
	mask(w, part, 0, identity(how, node_type(m, x)->dtype));
	if (how == COMBINE_MAX || how == COMBINE_MIN)
		return convert(m, part, dtype, w->output);
	x = convert(m, node_input(m, part, 0), dtype, part);
	uint32_t dims = reduction_dims(m, n), count = 0;
	Arg list[RANK_MAX];
	for (uint32_t d = 0; d < node_type(m, x)->count; d++)
		if (dims >> d & 1)
			list[count++] = arg_int(d);
	Arg args[3] = {arg_ref(x), arg_list(m, count, list), arg_bool(reduction_keeps_dims(m, n))};
	if (how == COMBINE_PRODUCT)
		args[1] = list[0];
	TypeId type = with_dtype(m, node_get(m, n)->type, dtype);
	NodeId sum =
		make_for(m, n, how == COMBINE_PRODUCT ? OP_PROD_DIM : OP_SUM_DIM, "part", type, 3, args, w->output);
	node_remove(m, part);
	return sum;
}

/* A product that contracts the row: float32 parts of it. */
static NodeId matmul_part(Rewrite *w, NodeId n, Dtype dtype) {
	Module *m = w->m;
	NodeId copy = copy_inside(w, n);
	uint16_t op = node_get(m, n)->op;
	Arg zero = number_of_dtype(node_type(m, n)->dtype, 0);
	mask(w, copy, matmul_arg(op, 0), zero);
	mask(w, copy, matmul_arg(op, 1), zero);
	Arg args[4] = {*node_arg(m, copy, matmul_arg(op, 0)), *node_arg(m, copy, matmul_arg(op, 1)), arg_null(),
	               arg_dtype(dtype)};
	TypeId type = with_dtype(m, node_get(m, n)->type, dtype);
	NodeId dot = make_for(m, n, OP_DOT, "part", type, 4, args, w->output);
	node_remove(m, copy);
	return dot;
}

/* ---- carrying ---------------------------------------------------------------------------------------------------- */

static NodeId initial(Rewrite *w, NodeId n, Dtype dtype) {
	Module *m = w->m;
	TypeId type = with_dtype(m, node_get(m, n)->type, dtype);
	Arg args[3] = {shape_arg(m, type), identity(combine_of(m, n), dtype), arg_dtype(dtype)};
	if (dtype_class(node_type(m, n)->dtype) == DTYPE_CLASS_BOOL) /* any, all: 0 and 1 */
		args[1] = arg_int(combine_of(m, n) == COMBINE_MIN);
	return node_derive(m, OP_FULL, n, "acc", type, 3, args, w->call);
}

static NodeId combined(Rewrite *w, NodeId n, NodeId acc, NodeId part) {
	static const uint16_t ops[] = {[COMBINE_SUM] = OP_ADD,
	                               [COMBINE_PRODUCT] = OP_MUL,
	                               [COMBINE_MAX] = OP_MAXIMUM,
	                               [COMBINE_MIN] = OP_MINIMUM};
	Module *m = w->m;
	Combine how = combine_of(m, n);
	Arg args[3] = {arg_ref(acc), arg_ref(part), arg_int(1)};
	return make_for(m, n, ops[how], "so_far", node_get(m, part)->type, how == COMBINE_SUM ? 3 : 2, args, w->output);
}

/* How many elements each result of a mean is of. */
static int64_t reduced_count(Module *m, NodeId n) {
	NodeId x = node_input(m, n, 0);
	uint32_t dims = reduction_dims(m, n);
	int64_t count = 1;
	for (uint32_t d = 0; d < node_type(m, x)->count; d++)
		if (dims >> d & 1)
			count *= expr_number(m, node_type(m, x)->dims[d]);
	return count;
}

/* What stands in the place of the reduction n, behind the loop that gives `total`. */
static NodeId finished(Rewrite *w, NodeId n, NodeId total) {
	Module *m = w->m;
	uint16_t op = node_get(m, n)->op;
	if (op_canonical(op) == OP_MEAN) {
		Arg args[2] = {arg_ref(total), arg_int(reduced_count(m, n))};
		total = make_for(m, n, OP_DIV, "mean", node_get(m, total)->type, 2, args, end_of_graph(w));
	}
	uint32_t added = op_kind(m, n) == KIND_MATMUL ? matmul_arg(op, 2) : NONE;
	if (added != NONE && node_input(m, n, added) != NONE) {
		NodeId bias = convert(m, node_input(m, n, added), node_type(m, total)->dtype, end_of_graph(w));
		Arg args[3] = {arg_ref(total), arg_ref(bias), arg_int(1)};
		total = make_for(m, n, OP_ADD, "sum", node_get(m, total)->type, 3, args, end_of_graph(w));
	}
	return convert(m, total, node_type(m, n)->dtype, end_of_graph(w));
}

static void carry(Rewrite *w, NodeId n) {
	Module *m = w->m;
	bool matmul = op_kind(m, n) == KIND_MATMUL;
	Dtype dtype = dtype_widened(node_type(m, n)->dtype); /* parts are rounded once */
	NodeId part = matmul ? matmul_part(w, n, dtype) : reduced_part(w, n, dtype);
	NodeId full = initial(w, n, dtype);
	NodeId acc = graph_add_argument(m, w->loop, full, node_get(m, full)->name);
	uint32_t arg = graph_get(m, w->loop)->placeholders.count - 1, output = w->results.count;
	NodeId sum = combined(w, n, acc, part);
	vec_push(m->arena, &w->results, arg_ref(sum));
	vec_push(m->arena, &w->types, node_get(m, sum)->type);
	vec_push(m->arena, &graph_get(m, w->loop)->carried, ((Carried){arg, output}));
}

/* ---- a loop ------------------------------------------------------------------------------------------------------ */

static bool is_seed(const Rewrite *w, NodeId n, uint32_t level) {
	RollRole role = w->r->role[n];
	return (role == ROLL_REDUCE && w->r->level[n] == level) || (role == ROLL_WRITE && level + 1 == w->r->loops);
}

static void need_operands(Rewrite *w, const Arg *a) {
	if (a->kind == ARG_REF && a->node < w->r->nodes && w->r->role[a->node] == ROLL_ROW)
		w->needed[a->node] = true;
	for (uint32_t i = 0; (a->kind == ARG_LIST || a->kind == ARG_SLICE) && i < a->list.count; i++)
		need_operands(w, arg_item(w->m, a, i));
}

static void find_needed(Rewrite *w, uint32_t level) {
	memset(w->needed, 0, w->r->nodes * sizeof *w->needed);
	for (uint32_t i = w->count; i-- > 0;) {
		NodeId n = w->nodes[i];
		w->needed[n] = w->needed[n] || is_seed(w, n, level);
		for (uint32_t k = 0; w->needed[n] && k < node_get(w->m, n)->arg_count; k++)
			need_operands(w, node_arg(w->m, n, k));
	}
}

static void make_loop(Rewrite *w) {
	Module *m = w->m;
	const char *name = arena_printf(m->arena, "%s_loop", m->blocks.at[w->r->block].name);
	w->loop = graph_new(m, GRAPH_REDUCTION_LOOP, w->r->block);
	w->output = graph_get(m, w->loop)->output;
	w->inside = (Map){0};
	w->results.count = w->types.count = 0;
	Arg begin = arg_int(0), end = arg_int(w->r->extent), graph = {.kind = ARG_GRAPH, .graph = w->loop};
	Arg args[4] = {graph, arg_list(m, 1, &begin), arg_list(m, 1, &end), arg_list(m, 0, NULL)};
	w->call = node_new(m, w->r->graph, OP_FOR_LOOP, name, type_tuple(m, 0, NULL), 4, args);
	graph_get(m, w->loop)->caller = w->call;
	node_insert_before(m, w->call, end_of_graph(w));
}

static void take_results(Rewrite *w, uint32_t level) {
	Module *m = w->m;
	Arg results = arg_list(m, w->results.count, w->results.at);
	node_set_args(m, w->output, 1, &results);
	node_set_type(m, w->call, type_tuple(m, w->types.count, w->types.at));
	for (uint32_t i = 0, output = 0; i < w->count; i++) {
		NodeId n = w->nodes[i];
		if (w->r->role[n] != ROLL_REDUCE || w->r->level[n] != level)
			continue;
		Arg taken[2] = {arg_ref(w->call), arg_int(output)};
		NodeId total =
			node_new(m, w->r->graph, OP_GETITEM, node_get(m, n)->name, w->types.at[output], 2, taken);
		node_get(m, total)->loc = node_get(m, n)->loc;
		node_insert_before(m, total, end_of_graph(w));
		node_replace_uses(m, n, finished(w, n, total), NONE);
		output++;
	}
}

static void roll_level(Rewrite *w, uint32_t level) {
	make_loop(w);
	find_needed(w, level);
	for (uint32_t i = 0; i < w->count; i++) {
		NodeId n = w->nodes[i];
		if (w->needed[n] && w->r->role[n] == ROLL_REDUCE)
			carry(w, n);
		else if (w->needed[n])
			copy_inside(w, n);
	}
	take_results(w, level);
	for (uint32_t i = 0; i < w->count; i++)
		if (w->r->role[w->nodes[i]] == ROLL_OUTSIDE && w->r->level[w->nodes[i]] == level + 1)
			node_move_before(w->m, w->nodes[i], end_of_graph(w));
}

/* With what only they used: the pure values that were copied into loops too. */
static void remove_originals(Rewrite *w) {
	for (uint32_t i = w->count; i-- > 0;) {
		NodeId n = w->nodes[i];
		bool unused = node_uses(w->m, n) == NONE;
		if (w->r->role[n] != ROLL_OUTSIDE || (unused && (is_leaf(w->m, n) || is_pure(w, n))))
			node_remove(w->m, n);
	}
}

void roll_rewrite(Roll *r) {
	Module *m = r->m;
	Rewrite w = {.r = r, .m = m};
	w.nodes = arena_array(m->arena, (size_t)r->nodes + 1, sizeof *w.nodes);
	w.needed = arena_array(m->arena, (size_t)r->nodes + 1, sizeof *w.needed);
	for (NodeId n = graph_first(m, r->graph); n != NONE; n = node_get(m, n)->next)
		if (node_get(m, n)->op != OP_OUTPUT)
			w.nodes[w.count++] = n;
	for (uint32_t level = 0; level < r->loops; level++)
		roll_level(&w, level);
	remove_originals(&w);
	pass_remark(r->c, "roll", "%s: the row of %lld is computed in blocks of %lld, in %u loop%s",
	            m->blocks.at[r->block].name, (long long)r->extent, (long long)r->step, r->loops,
	            r->loops == 1 ? "" : "s");
}
