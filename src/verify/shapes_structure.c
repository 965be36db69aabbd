/* shapes_structure.c - structure nodes, symbolic arithmetic and tile queries. What a call must agree with is checked in
 * verify_call.c; here is only its result's type. */
#include "infer.h"

bool infer_host_scalar(const Infer *in, TypeId *type) {
	const Arg *name = node_arg(in->m, in->n, 0);
	if (name->kind != ARG_SCALAR)
		return infer_error(in, "bad-argument", NULL, "it must name a scalar of the document");
	*type = type_tensor(in->m, in->m->scalars.at[name->scalar].dtype, 0, NULL);
	return true;
}

bool infer_symbol(const Infer *in, TypeId *type) {
	ExprId e;
	if (!infer_size(in, node_arg(in->m, in->n, 0), &e))
		return false;
	*type = type_sym(in->m, DTYPE_I32, e);
	return true;
}

bool infer_sym_size(const Infer *in, TypeId *type) {
	Operand x;
	uint32_t dim;
	if (!infer_tensor(in, "x", &x) || !infer_dim(in, op_arg(in->m, in->n, "dim"), x.shape.rank, &dim))
		return false;
	if (x.shape.rank == 0)
		return infer_error(in, "dim-out-of-range", NULL, "a 0-d value has no sizes");
	*type = type_sym(in->m, DTYPE_I32, x.shape.dims[dim]);
	return true;
}

/* ---- Python's operators ------------------------------------------------------------------------------------------ */

/* On host scalars and 0-d tensors they are computed as values: the result is a 0-d tensor, not an expression. */
static bool sym_operands(const Infer *in, bool *as_tensor) {
	*as_tensor = false;
	for (uint32_t i = 0; i < node_get(in->m, in->n)->arg_count; i++) {
		const Arg *arg = node_arg(in->m, in->n, i);
		Operand operand;
		if (!infer_operand(in, arg, &operand))
			return false;
		if (operand.absent || operand.shape.rank > 0)
			return infer_error(in, "bad-operand", "tensors are computed by aten targets",
			                   "Python's operators take ints and symbolic values");
		*as_tensor |= arg->kind == ARG_FLOAT ||
		              (arg->kind == ARG_REF && node_type(in->m, arg->node)->kind == TYPE_TENSOR);
	}
	return true;
}

static ExprId sym_apply(Module *m, uint16_t op, ExprId a, ExprId b) {
	if (a == NONE || (b == NONE && op != OP_SYM_NEG))
		return NONE;
	switch (op) {
	case OP_SYM_ADD: return expr_binary(m, EXPR_ADD, a, b);
	case OP_SYM_SUB: return expr_binary(m, EXPR_SUB, a, b);
	case OP_SYM_MUL: return expr_binary(m, EXPR_MUL, a, b);
	case OP_SYM_FLOORDIV: return expr_binary(m, EXPR_FLOORDIV, a, b);
	case OP_SYM_MOD: return expr_binary(m, EXPR_MOD, a, b);
	case OP_SYM_MAX: return expr_binary(m, EXPR_MAX, a, b);
	case OP_SYM_MIN: return expr_binary(m, EXPR_MIN, a, b);
	case OP_SYM_NEG: return expr_binary(m, EXPR_SUB, expr_int(m, 0), a);
	default: return NONE;
	}
}

bool infer_sym_arith(const Infer *in, TypeId *type) {
	bool as_tensor;
	Shape shape = {0};
	if (!sym_operands(in, &as_tensor))
		return false;
	if (as_tensor)
		return infer_result(in, &shape, type);
	ExprId a = arg_expr(in->m, node_arg(in->m, in->n, 0)), b = arg_expr(in->m, node_arg(in->m, in->n, 1));
	ExprId e = sym_apply(in->m, node_get(in->m, in->n)->op, a, b);
	if (e != NONE && expr_overflows(in->m, e))
		return infer_error(in, "size-overflow", NULL, "the int overflows or divides by zero");
	*type = type_sym(in->m, DTYPE_I32, e);
	return true;
}

bool infer_sym_test(const Infer *in, TypeId *type) {
	bool as_tensor;
	if (!sym_operands(in, &as_tensor))
		return false;
	*type = as_tensor ? type_tensor(in->m, DTYPE_BOOL, 0, NULL) : type_sym(in->m, DTYPE_BOOL, NONE);
	return true;
}

/* ---- tile queries ------------------------------------------------------------------------------------------------ */

static bool infer_block(const Infer *in, BlockId *block) {
	*block = arg_block(in->m, node_arg(in->m, in->n, 0));
	return *block != NONE || infer_error(in, "bad-argument", NULL, "its argument must be just a block symbol");
}

/* cdiv(end - begin, size) where a grid or call gives both bounds; a call's win over the block's own. */
static ExprId tile_count(Module *m, NodeId n, BlockId block) {
	GraphId g = block_graph(m, node_get(m, n)->graph, block);
	if (g == NONE)
		return NONE;
	const Graph *graph = graph_get(m, g);
	ExprId begin = m->blocks.at[block].begin, end = m->blocks.at[block].extent;
	uint32_t position = 0;
	while (graph->blocks.at[position] != block)
		position++;
	if (graph->kind != GRAPH_ROOT) {
		begin = arg_expr(m, arg_item(m, op_arg(m, graph->caller, "begins"), position));
		end = arg_expr(m, arg_item(m, op_arg(m, graph->caller, "ends"), position));
	}
	if (begin == NONE || end == NONE)
		return NONE;
	return expr_binary(m, EXPR_CDIV, expr_binary(m, EXPR_SUB, end, begin), expr_block(m, block));
}

bool infer_query(const Infer *in, TypeId *type) {
	BlockId block;
	ExprId e = NONE; /* known only at run time */
	if (!infer_block(in, &block))
		return false;
	if (node_get(in->m, in->n)->op == OP_TILE_BLOCK_SIZE)
		e = expr_block(in->m, block);
	else if (node_get(in->m, in->n)->op == OP_TILE_NUM)
		e = tile_count(in->m, in->n, block);
	*type = type_sym(in->m, DTYPE_I32, e);
	return true;
}

bool infer_tile_index(const Infer *in, TypeId *type) {
	BlockId block;
	if (!infer_block(in, &block))
		return false;
	ExprId size = expr_block(in->m, block);
	*type = type_tensor(in->m, DTYPE_I32, 1, &size);
	return true;
}

/* ---- calls and their results ------------------------------------------------------------------------------------- */

bool infer_call(const Infer *in, TypeId *type) {
	const Arg *graph = op_arg(in->m, in->n, "graph");
	if (graph->kind != ARG_GRAPH)
		return infer_error(in, "bad-argument", NULL, "it must name a graph");
	const Arg *results = graph_results(in->m, graph->graph);
	uint32_t count = results->kind == ARG_LIST ? results->list.count : 0;
	TypeId *elements = arena_array(in->m->arena, count, sizeof *elements);
	for (uint32_t i = 0; i < count; i++)
		elements[i] = arg_type(in->m, arg_item(in->m, graph_results(in->m, graph->graph), i));
	*type = type_tuple(in->m, count, elements);
	return true;
}

bool infer_getitem(const Infer *in, TypeId *type) {
	const Arg *tuple = node_arg(in->m, in->n, 0), *index = node_arg(in->m, in->n, 1);
	if (tuple->kind != ARG_REF || node_type(in->m, tuple->node)->kind != TYPE_TUPLE)
		return infer_error(
			in, "bad-operand",
			"getitem takes one result of a loop, a tile.if or a split; of a tile tile.subscript takes part",
			"its first argument is not a tuple");
	const Type *t = node_type(in->m, tuple->node);
	if (index->kind != ARG_INT || index->integer < 0 || index->integer >= t->count)
		return infer_error(in, "index-out-of-range", NULL, "index %lld is not in the %u results of '%s'",
		                   index->kind == ARG_INT ? (long long)index->integer : -1LL, t->count,
		                   node_get(in->m, tuple->node)->name);
	*type = t->elements[index->integer];
	return true;
}

bool infer_result_of_last(const Infer *in, TypeId *type) {
	uint32_t count = node_get(in->m, in->n)->arg_count;
	*type = arg_type(in->m, node_arg(in->m, in->n, count == 0 ? 0 : count - 1));
	return true;
}
