/* decompose_split.c - the pieces of splits are slices or selects, what is joined is a stack; so each way in which lanes
 * move is lowered once, and a piece that nothing reads is not cut. */
#include "decompose.h"

/* The dim of the operand that the argument `dim` names. */
static uint32_t named_dim(const Decompose *d) {
	int64_t dim = op_arg(d->m, d->n, "dim")->integer;
	return (uint32_t)(dim < 0 ? dim + node_type(d->m, node_input(d->m, d->n, 0))->count : dim);
}

/* The piece keeps the type that it had: a block symbol stays one. */
static NodeId typed_as(Decompose *d, NodeId piece, uint32_t element) {
	node_set_type(d->m, piece, node_type(d->m, d->n)->elements[element]);
	return piece;
}

static NodeId slice_piece(Decompose *d, uint32_t element) {
	Module *m = d->m;
	uint32_t dim = named_dim(d);
	const TypeId *pieces = node_type(m, d->n)->elements;
	ExprId start = expr_int(m, 0);
	for (uint32_t i = 0; i < element; i++)
		start = expr_binary(m, EXPR_ADD, start, type_get(m, pieces[i])->dims[dim]);
	ExprId end = expr_binary(m, EXPR_ADD, start, type_get(m, pieces[element])->dims[dim]);
	Arg args[] = {arg_ref(node_input(m, d->n, 0)), arg_int(dim), size_arg(m, start), size_arg(m, end), arg_int(1)};
	return typed_as(d, make_node(d, OP_SLICE, "piece", 5, args), element);
}

/* x, if n reads its last dim as pairs of lanes: [.., 2 n] as [.., n, 2]; NONE. */
static NodeId row_of_pairs(Decompose *d, NodeId n) {
	NodeId x = op_lanes(node_get(d->m, n)->op) == LANES_RESHAPE ? node_input(d->m, n, 0) : NONE;
	const Type *pairs = node_type(d->m, n), *row = x == NONE ? NULL : node_type(d->m, x);
	if (!row || row->count == 0 || row->count + 1 != pairs->count)
		return NONE;
	for (uint32_t i = 0; i + 1 < row->count; i++)
		if (!expr_equal(d->m, row->dims[i], pairs->dims[i]))
			return NONE;
	return x;
}

/* Element 0 or 1 of pairs of lanes is every other lane of the row that they were. */
static NodeId split_pairs(Decompose *d, uint32_t element) {
	Module *m = d->m;
	NodeId x = row_of_pairs(d, node_input(m, d->n, 0));
	if (x == NONE) {
		Arg args[] = {arg_ref(node_input(m, d->n, 0)), arg_int(-1), arg_int(element)};
		return typed_as(d, make_node(d, OP_SELECT, "piece", 3, args), element);
	}
	const Type *row = node_type(m, x);
	Arg args[] = {arg_ref(x), arg_int(row->count - 1), arg_int(element), size_arg(m, row->dims[row->count - 1]),
	              arg_int(2)};
	return typed_as(d, make_node(d, OP_SLICE, "piece", 5, args), element);
}

static NodeId select_piece(Decompose *d, uint32_t element) {
	Arg args[] = {arg_ref(node_input(d->m, d->n, 0)), arg_int(named_dim(d)), arg_int(element)};
	return typed_as(d, make_node(d, OP_SELECT, "piece", 3, args), element);
}

/* An operand of the join as a tile of `type`: converted and expanded where it is not one already. */
static Arg joined(Decompose *d, uint32_t i, TypeId type) {
	Arg a = *node_arg(d->m, d->n, i);
	Dtype dtype = type_get(d->m, type)->dtype;
	if (a.kind != ARG_REF || node_type(d->m, a.node)->count == 0) {
		Arg args[] = {shape_arg(d->m, type), arg_copy(d->m, a), arg_dtype(dtype)};
		return arg_ref(make_node(d, OP_FULL, "part", 3, args));
	}
	NodeId x = make_converted(d, a.node, dtype);
	if (type_equal(d->m, node_get(d->m, x)->type, type))
		return arg_ref(x);
	Arg args[] = {arg_ref(x), shape_arg(d->m, type), arg_bool(false)};
	return arg_ref(make_node(d, OP_EXPAND, "part", 3, args));
}

static NodeId stack_joined(Decompose *d, uint32_t element) {
	(void)element;
	Type t = *node_type(d->m, d->n);
	if (t.count < 2) /* two single values */
		return NONE;
	TypeId part = type_tensor(d->m, t.dtype, t.count - 1, t.dims);
	Arg parts[2];
	parts[0] = joined(d, 0, part);
	parts[1] = joined(d, 1, part);
	Arg args[] = {arg_list(d->m, 2, parts), arg_int(-1)};
	return make_node(d, OP_STACK, "joined", 2, args);
}

/* prims.rev is a flip by another name. */
static NodeId flip_reversed(Decompose *d, uint32_t element) {
	(void)element;
	Arg args[] = {arg_ref(node_input(d->m, d->n, 0)), arg_copy(d->m, *node_arg(d->m, d->n, 1))};
	return make_node(d, OP_FLIP, "flipped", 2, args);
}

Decomposition *decompose_split(uint16_t op) {
	switch (op) {
	case OP_SPLIT:
	case OP_SPLIT_SIZES: return slice_piece;
	case OP_UNBIND: return select_piece;
	case OP_TILE_SPLIT: return split_pairs;
	case OP_TILE_JOIN: return stack_joined;
	case OP_REV: return flip_reversed;
	default: return NULL;
	}
}
