/* decompose_sort.c - the k greatest or least lanes, and sorts by other names.
 *
 * A few are looked for one after the other: the greatest key that is left, and the first place of it. Keys are ints
 * that are ordered as the lanes are, NaN as the greatest, so that -0.0 is found as it is and nothing is rounded. More
 * of them are the front of a sort. */
#include "decompose.h"

static NodeId self_of(const Decompose *d) { return node_input(d->m, d->n, 0); }

static uint32_t dim_of(const Decompose *d) {
	uint32_t dims = reduction_dims(d->m, d->n), dim = 0;
	while (!(dims >> dim & 1))
		dim++;
	return dim;
}

/* Element `element` of the sorted operand. */
static NodeId make_sorted(Decompose *d, bool descending, uint32_t element) {
	Arg args[3] = {arg_ref(self_of(d)), arg_int(dim_of(d)), arg_bool(descending)};
	NodeId sort = make_node(d, OP_SORT, "sort", 3, args);
	Arg taken[2] = {arg_ref(sort), arg_int(element)};
	return make_node(d, OP_GETITEM, element ? "places" : "values", 2, taken);
}

static NodeId sorted(Decompose *d, uint32_t element) {
	const Arg *descending = op_arg(d->m, d->n, "descending");
	return make_converted(d, make_sorted(d, descending->kind == ARG_BOOL && descending->boolean, element),
	                      result_dtype(d, element));
}

/* ---- a few ------------------------------------------------------------------------------------------------------- */

typedef struct Found {
	NodeId bits, key; /* of the lanes, int32 */
	NodeId place;     /* 0, 1, ... along the dim */
	NodeId left;      /* the same, where a lane was not taken yet; else the dim's size */
	Arg size;
	uint32_t dim;
} Found;

NodeId make_bits(Decompose *d, NodeId x) {
	Dtype t = node_type(d->m, x)->dtype;
	if (!dtype_is_float(t))
		return make_converted(d, x, DTYPE_I32);
	Arg args[2] = {arg_ref(make_wide(d, x)), arg_dtype(DTYPE_I32)};
	return make_node(d, OP_VIEW_DTYPE, "bits", 2, args);
}

NodeId make_from_bits(Decompose *d, NodeId bits, Dtype t) {
	if (!dtype_is_float(t))
		return make_converted(d, bits, t);
	Arg args[2] = {arg_ref(bits), arg_dtype(DTYPE_F32)};
	return make_converted(d, make_node(d, OP_VIEW_DTYPE, "value", 2, args), t);
}

/* Of floats, those below 0 the other way round, -0.0 as 0.0. */
static NodeId make_key(Decompose *d, NodeId bits, Dtype t, bool largest) {
	NodeId key = bits;
	if (t == DTYPE_U32)
		key = make_binary(d, OP_BITWISE_XOR_SCALAR, "key", bits, arg_int(INT32_MIN));
	if (dtype_is_float(t)) {
		NodeId turned = make_binary(d, OP_BITWISE_XOR_SCALAR, "turned", bits, arg_int(INT32_MAX));
		NodeId below = make_binary(d, OP_LT_SCALAR, "below", bits, arg_int(0));
		NodeId zero = make_binary(d, OP_EQ_SCALAR, "zero", bits, arg_int(INT32_MIN));
		NodeId size = make_binary(d, OP_BITWISE_AND_SCALAR, "size", bits, arg_int(INT32_MAX));
		NodeId nan = make_binary(d, OP_GT_SCALAR, "nan", size, arg_int(0x7f800000));
		key = make_where(d, "key", below, arg_ref(turned), arg_ref(bits));
		key = make_where(d, "key", zero, arg_int(0), arg_ref(key));
		key = make_where(d, "key", nan, arg_int(INT32_MAX), arg_ref(key));
	}
	return largest ? key : make_unary(d, OP_BITWISE_NOT, "key", key);
}

/* The next place; its lane is taken away. */
static NodeId take_next(Decompose *d, Found *f) {
	NodeId most = make_reduced(d, OP_AMAX, "most", f->key, 1u << f->dim, true);
	NodeId equal = make_binary(d, OP_EQ, "equal", f->key, arg_ref(most));
	NodeId places = make_where(d, "left", equal, arg_ref(f->left), f->size);
	return make_reduced(d, OP_AMIN, "first", places, 1u << f->dim, true);
}

static void take_away(Decompose *d, Found *f, NodeId taken) {
	f->key = make_where(d, "key", taken, arg_int(INT32_MIN), arg_ref(f->key));
	f->left = make_where(d, "left", taken, f->size, arg_ref(f->left));
}

static NodeId one_by_one(Decompose *d, uint32_t element, int64_t k, bool largest) {
	NodeId x = self_of(d), out = NONE;
	Dtype t = node_type(d->m, x)->dtype;
	uint32_t rank = node_type(d->m, x)->count, dim = dim_of(d);
	Found f = {.bits = make_bits(d, x), .dim = dim, .size = size_arg(d->m, node_type(d->m, x)->dims[dim])};
	f.key = make_key(d, f.bits, t, largest);
	f.left = f.place = make_iota(d, node_type(d->m, x)->dims[dim], dim, rank);
	NodeId row = make_iota(d, expr_int(d->m, k), dim, rank);
	for (int64_t i = 0; i < k; i++) {
		NodeId next = take_next(d, &f);
		NodeId taken = make_binary(d, OP_EQ, "taken", f.place, arg_ref(next));
		if (element == 0) {
			NodeId lanes = make_where(d, "lanes", taken, arg_ref(f.bits), arg_int(0));
			next = make_reduced(d, OP_SUM_DIM, "found", lanes, 1u << dim, true);
		}
		NodeId here = make_binary(d, OP_EQ_SCALAR, "here", row, arg_int(i));
		out = make_where(d, "found", here, arg_ref(next), out == NONE ? arg_int(0) : arg_ref(out));
		if (i + 1 < k)
			take_away(d, &f, taken);
	}
	return element == 0 ? make_from_bits(d, out, result_dtype(d, 0)) : make_converted(d, out, result_dtype(d, 1));
}

/* ---- top k ------------------------------------------------------------------------------------------------------- */

static NodeId topk(Decompose *d, uint32_t element) {
	const Arg *k = op_arg(d->m, d->n, "k"), *which = op_arg(d->m, d->n, "largest");
	bool largest = which->kind != ARG_BOOL || which->boolean;
	if (k->kind != ARG_INT || node_type(d->m, self_of(d))->count == 0)
		return NONE;
	bool has_bits = node_type(d->m, self_of(d))->dtype != DTYPE_F16; /* which no kernel views as ints */
	if (k->integer > 0 && k->integer <= 8 && has_bits)
		return one_by_one(d, element, k->integer, largest);
	Arg args[5] = {arg_ref(make_sorted(d, largest, element)), arg_int(dim_of(d)), arg_int(0), *k, arg_int(1)};
	return make_converted(d, make_node(d, OP_SLICE, "front", 5, args), result_dtype(d, element));
}

Decomposition *decompose_sort(uint16_t op) { return op == OP_TOPK ? topk : op == OP_SORT_STABLE ? sorted : NULL; }
