/* decompose_reduce.c - positions of extremes, any and all, variances and norms; and
 * extremes of uint32.
 *
 * argmax gives the first of equal lanes, and a NaN is the greatest and the least, as in ATen. */
#include "decompose.h"

#include <math.h>

static NodeId self_of(const Decompose *d) { return node_input(d->m, d->n, 0); }

/* ---- extremes ---------------------------------------------------------------------------------------------------- */

static bool is_least(uint16_t op) { return op_canonical(op) == OP_MIN || op == OP_ARGMIN || op == OP_MIN_DIM; }

/* As float32 or int32. Mosaic reduces no unsigned ints: with the sign bit turned over they are ordered as int32 is. */
static NodeId ordered(Decompose *d, NodeId x) {
	Dtype t = node_type(d->m, x)->dtype;
	if (dtype_is_float(t))
		return make_wide(d, x);
	x = make_converted(d, x, DTYPE_I32);
	return t == DTYPE_U32 ? make_binary(d, OP_BITWISE_XOR_SCALAR, "ordered", x, arg_int(INT32_MIN)) : x;
}

/* The other way. */
static NodeId unordered(Decompose *d, NodeId x, Dtype dtype) {
	if (dtype == DTYPE_U32)
		x = make_binary(d, OP_BITWISE_XOR_SCALAR, "back", x, arg_int(INT32_MIN));
	return make_converted(d, x, dtype);
}

static NodeId extreme(Decompose *d, NodeId x, bool keep) {
	bool least = is_least(node_get(d->m, d->n)->op);
	return make_reduced(d, least ? OP_AMIN : OP_AMAX, least ? "min" : "max", x, reduction_dims(d->m, d->n), keep);
}

static NodeId uint32_extreme(Decompose *d, uint32_t element) {
	(void)element;
	if (node_type(d->m, self_of(d))->dtype != DTYPE_U32)
		return NONE;
	NodeId x = ordered(d, self_of(d));
	return unordered(d, extreme(d, x, reduction_keeps_dims(d->m, d->n)), DTYPE_U32);
}

/* The place of each lane among those that are reduced, dims in order. */
static NodeId places(Decompose *d, NodeId x, uint32_t dims) {
	uint32_t rank = node_type(d->m, x)->count;
	NodeId all = NONE;
	for (uint32_t i = 0; i < rank; i++) {
		if (!(dims >> i & 1))
			continue;
		NodeId place = make_iota(d, node_type(d->m, x)->dims[i], i, rank);
		ExprId inner = dims_product(d, x, dims & ~((2u << i) - 1));
		if (!expr_is_int(d->m, inner, 1))
			place = make_binary(d, OP_MUL, "strided", place, size_arg(d->m, inner));
		all = all == NONE ? place : make_binary(d, OP_ADD, "place", all, arg_ref(place));
	}
	return all;
}

/* The first lane that equals the extreme. Lanes that are NaN come before all others: what is looked for among `count`
 * lanes is then the least place, and others count from `count` on. */
static NodeId position(Decompose *d) {
	uint32_t dims = reduction_dims(d->m, d->n);
	NodeId x = ordered(d, self_of(d));
	bool is_float = dtype_is_float(node_type(d->m, x)->dtype), keep = reduction_keeps_dims(d->m, d->n);
	NodeId place = places(d, x, dims);
	ExprId count = dims_product(d, x, dims);
	NodeId found = make_binary(d, OP_EQ, "found", x, arg_ref(extreme(d, x, true)));
	if (!is_float) {
		NodeId lanes = make_where(d, "lanes", found, arg_ref(place), size_arg(d->m, count));
		return make_reduced(d, OP_AMIN, "first", lanes, dims, keep);
	}
	ExprId beyond = expr_binary(d->m, EXPR_MUL, expr_int(d->m, 2), count);
	NodeId later = make_binary(d, OP_ADD, "later", place, size_arg(d->m, count));
	NodeId lanes = make_where(d, "lanes", found, arg_ref(later), size_arg(d->m, beyond));
	NodeId nan = make_unary(d, OP_ISNAN, "nan", x);
	lanes = make_where(d, "lanes", nan, arg_ref(place), arg_ref(lanes));
	NodeId first = make_reduced(d, OP_AMIN, "first", lanes, dims, keep);
	return make_binary(d, OP_REMAINDER_SCALAR, "position", first, size_arg(d->m, count));
}

static bool is_empty(const Decompose *d) { return node_type(d->m, self_of(d))->count == 0; }

static NodeId arg_extreme(Decompose *d, uint32_t element) {
	(void)element;
	return is_empty(d) ? NONE : position(d);
}

static NodeId extreme_and_place(Decompose *d, uint32_t element) {
	if (is_empty(d))
		return NONE;
	if (element == 1)
		return position(d);
	NodeId value = extreme(d, ordered(d, self_of(d)), true);
	value = make_kept(d, value, reduction_dims(d->m, d->n), reduction_keeps_dims(d->m, d->n));
	return unordered(d, value, result_dtype(d, 0));
}

/* ---- any, all ---------------------------------------------------------------------------------------------------- */

/* The greatest or the least of zeros and ones. */
static NodeId any_or_all(Decompose *d, uint32_t element) {
	bool all = op_canonical(node_get(d->m, d->n)->op) == OP_ALL;
	const Arg *dim = op_arg(d->m, d->n, "dim");
	NodeId x = self_of(d);
	if (node_type(d->m, x)->dtype != DTYPE_BOOL)
		x = make_binary(d, OP_NE_SCALAR, "true", x, arg_int(0));
	if (dim->kind == ARG_LIST && dim->list.count == 0)
		return make_converted(d, x, result_dtype(d, element)); /* torch takes [] for no dim here */
	x = make_reduced(d, all ? OP_AMIN : OP_AMAX, all ? "all" : "any", make_converted(d, x, DTYPE_I32),
	                 reduction_dims(d->m, d->n), reduction_keeps_dims(d->m, d->n));
	return make_converted(d, make_binary(d, OP_NE_SCALAR, "true", x, arg_int(0)), result_dtype(d, element));
}

/* ---- variances --------------------------------------------------------------------------------------------------- */

static double correction_of(const Decompose *d) {
	const Arg *unbiased = op_arg(d->m, d->n, "unbiased"), *correction = op_arg(d->m, d->n, "correction");
	if (unbiased->kind == ARG_BOOL)
		return unbiased->boolean;
	return correction->kind == ARG_INT     ? (double)correction->integer
	       : correction->kind == ARG_FLOAT ? correction->real
	                                       : 1;
}

/* What the squares' sum is divided by: their count, less the correction, at least 0. A count that the configuration
 * decides, less a fraction, is computed in the kernel. */
static Arg divisor(Decompose *d, ExprId count) {
	Module *m = d->m;
	double correction = correction_of(d);
	Expr e = m->exprs.at[count];
	if (e.kind == EXPR_INT)
		return arg_float((double)e.value > correction ? (double)e.value - correction : 0);
	if (correction == floor(correction) && fabs(correction) < INT32_MAX) {
		ExprId left = expr_binary(m, EXPR_SUB, count, expr_int(m, (int64_t)correction));
		return size_arg(m, expr_binary(m, EXPR_MAX, left, expr_int(m, 0)));
	}
	Arg args[3] = {arg_list(m, 0, NULL), size_arg(m, count), arg_dtype(DTYPE_F32)};
	NodeId left = make_binary(d, OP_SUB, "left", make_node(d, OP_FULL, "count", 3, args), arg_float(correction));
	return arg_ref(make_binary(d, OP_CLAMP_MIN, "left", left, arg_float(0)));
}

/* Of the distances from the mean, which are computed first: sums of squares would cancel. */
static NodeId variance(Decompose *d, uint32_t element) {
	uint16_t op = node_get(d->m, d->n)->op;
	uint32_t dims = reduction_dims(d->m, d->n);
	bool keep = reduction_keeps_dims(d->m, d->n);
	NodeId x = make_wide(d, self_of(d));
	NodeId mean = make_reduced(d, OP_MEAN_DIM, "mean", x, dims, true);
	if (element == 1)
		return make_converted(d, make_kept(d, mean, dims, keep), result_dtype(d, 1));
	NodeId distance = make_binary(d, OP_SUB, "distance", x, arg_ref(mean));
	NodeId square = make_binary(d, OP_MUL, "square", distance, arg_ref(distance));
	NodeId sum = make_reduced(d, OP_SUM_DIM, "sum", square, dims, keep);
	Arg by = divisor(d, dims_product(d, x, dims));
	NodeId var = by.kind == ARG_FLOAT && by.real == 1 ? sum : make_binary(d, OP_DIV, "var", sum, by);
	return make_converted(d, op == OP_STD ? make_unary(d, OP_SQRT, "std", var) : var, result_dtype(d, 0));
}

/* ---- norms ------------------------------------------------------------------------------------------------------- */

static NodeId norm(Decompose *d, uint32_t element) {
	(void)element;
	const Arg *ord = op_arg(d->m, d->n, "ord"), *dtype = op_arg(d->m, d->n, "dtype");
	double p = ord->kind == ARG_INT ? (double)ord->integer : ord->real;
	uint32_t dims = reduction_dims(d->m, d->n);
	bool keep = reduction_keeps_dims(d->m, d->n);
	NodeId x = self_of(d);
	x = make_wide(d, dtype->kind == ARG_DTYPE ? make_converted(d, x, dtype->dtype) : x);
	NodeId value;
	if (p == 2) {
		NodeId sum =
			make_reduced(d, OP_SUM_DIM, "sum", make_binary(d, OP_MUL, "square", x, arg_ref(x)), dims, keep);
		value = make_unary(d, OP_SQRT, "norm", sum);
	} else if (p == 0) {
		NodeId other = make_converted(d, make_binary(d, OP_NE_SCALAR, "other", x, arg_int(0)), DTYPE_F32);
		value = make_reduced(d, OP_SUM_DIM, "norm", other, dims, keep);
	} else {
		NodeId size = make_unary(d, OP_ABS, "size", x);
		bool power = isfinite(p) && p != 1;
		if (power)
			size = make_binary(d, OP_POW_SCALAR, "power", size, arg_float(p));
		value = make_reduced(d, isfinite(p) ? OP_SUM_DIM : p > 0 ? OP_AMAX : OP_AMIN, "norm", size, dims, keep);
		if (power)
			value = make_binary(d, OP_POW_SCALAR, "root", value, arg_float(1 / p));
	}
	return make_converted(d, value, result_dtype(d, 0));
}

Decomposition *decompose_reduction(uint16_t op) {
	switch (op_canonical(op)) {
	case OP_MAX:
	case OP_MIN: return uint32_extreme;
	case OP_ARGMAX:
	case OP_ARGMIN: return arg_extreme;
	case OP_MAX_DIM:
	case OP_MIN_DIM: return extreme_and_place;
	case OP_ANY:
	case OP_ALL: return any_or_all;
	case OP_VAR:
	case OP_VAR_MEAN:
	case OP_STD: return variance;
	case OP_VECTOR_NORM: return norm;
	default: return NULL;
	}
}
