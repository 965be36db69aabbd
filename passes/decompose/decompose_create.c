/* decompose_create.c - values made from nothing: fills by other names, ranges, what is known of all ints; and
 * triangles, which are made of ranges. */
#include "decompose.h"

/* ---- fills ------------------------------------------------------------------------------------------------------- */

/* A tile like the result, of one number. */
static NodeId filled(Decompose *d, Dtype dtype, Arg value) {
	Arg args[3] = {shape_arg(d->m, node_get(d->m, d->n)->type), value, arg_dtype(dtype)};
	return make_node(d, OP_FULL, "full", 3, args);
}

static NodeId fill(Decompose *d, uint32_t element) {
	Dtype dtype = result_dtype(d, element);
	Fill how = op_fill(node_get(d->m, d->n)->op);
	return filled(d, dtype,
	              how == FILL_GIVEN ? arg_copy(d->m, fill_arg(d->m, d->n))
	                                : number_of_dtype(dtype, how == FILL_ONES));
}

/* All ints are finite numbers. */
static NodeId told_of_ints(Decompose *d, uint32_t element) {
	const Arg *x = node_arg(d->m, d->n, 0);
	if (x->kind == ARG_FLOAT || (x->kind == ARG_REF && dtype_is_float(node_type(d->m, x->node)->dtype)))
		return NONE;
	Dtype dtype = result_dtype(d, element);
	return filled(d, dtype, number_of_dtype(dtype, node_get(d->m, d->n)->op == OP_ISFINITE));
}

/* ---- ranges ------------------------------------------------------------------------------------------------------ */

static bool is_number(const Arg *a, int64_t value) {
	return a->kind == ARG_NULL || (a->kind == ARG_INT && a->integer == value) ||
	       (a->kind == ARG_FLOAT && a->real == (double)value);
}

/* Ints count in ints: torch cuts off what is behind the point first. */
static Arg counted(Decompose *d, const Arg *a, Dtype dtype) {
	bool cut = a->kind == ARG_FLOAT && !dtype_is_float(dtype);
	return cut ? arg_int((int64_t)a->real) : arg_copy(d->m, *a);
}

/* index * step + start. */
static NodeId range(Decompose *d, uint32_t element) {
	Dtype dtype = result_dtype(d, element);
	Arg from = counted(d, op_arg(d->m, d->n, "start"), dtype), by = counted(d, op_arg(d->m, d->n, "step"), dtype);
	bool starts = !is_number(&from, 0), steps = !is_number(&by, 1);
	if (node_get(d->m, d->n)->op == OP_IOTA && dtype == DTYPE_I32 && !starts && !steps)
		return NONE;
	NodeId x = make_iota(d, node_type(d->m, d->n)->dims[0], 0, 1);
	if (dtype_is_float(dtype))
		x = make_wide(d, x);
	x = steps ? make_binary(d, OP_MUL, "strided", x, by) : x;
	x = starts ? make_binary(d, OP_ADD, "moved", x, from) : x;
	return make_converted(d, x, dtype);
}

/* ---- triangles --------------------------------------------------------------------------------------------------- */

static NodeId triangle(Decompose *d, uint32_t element) {
	NodeId x = node_input(d->m, d->n, 0);
	uint32_t rank = node_type(d->m, x)->count;
	bool lower = node_get(d->m, d->n)->op == OP_TRIL;
	if (rank < 2)
		return NONE;
	NodeId column = make_iota(d, node_type(d->m, x)->dims[rank - 1], rank - 1, rank);
	NodeId row = make_iota(d, node_type(d->m, x)->dims[rank - 2], rank - 2, rank);
	NodeId diagonal = make_binary(d, OP_SUB, "diagonal", column, arg_ref(row));
	NodeId kept = make_binary(d, lower ? OP_LE_SCALAR : OP_GE_SCALAR, "kept", diagonal,
	                          arg_copy(d->m, *op_arg(d->m, d->n, "diagonal")));
	return make_where(d, "triangle", kept, arg_ref(x), number_of_dtype(result_dtype(d, element), 0));
}

Decomposition *decompose_creation(uint16_t op) {
	if (op_fill(op) != FILL_NONE && op_lowering(op) == LOWER_PARTS)
		return fill;
	switch ((Op)op) {
	case OP_ARANGE:
	case OP_ARANGE_START:
	case OP_ARANGE_STEP:
	case OP_IOTA: return range;
	case OP_TRIL:
	case OP_TRIU: return triangle;
	case OP_ISNAN:
	case OP_ISINF:
	case OP_ISFINITE: return told_of_ints;
	default: return NULL;
	}
}
