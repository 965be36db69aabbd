/* decompose_softmax.c - softmax, log_softmax and logsumexp: exponentials relative to the maximum, in float32.
 *
 * A row of -inf alone is NaN in softmax and log_softmax and -inf in logsumexp, as in ATen. */
#include "decompose.h"

#include <math.h>

/* What torch converts the operand to first, and the result's dtype. */
static NodeId operand(Decompose *d) {
	NodeId x = node_input(d->m, d->n, 0);
	const Arg *dtype = op_arg(d->m, d->n, "dtype");
	if (dtype->kind == ARG_DTYPE)
		x = make_converted(d, x, dtype->dtype);
	return make_wide(d, x);
}

static NodeId softmax(Decompose *d, uint32_t element) {
	(void)element;
	uint32_t dims = reduction_dims(d->m, d->n);
	NodeId x = operand(d);
	NodeId top = make_reduced(d, OP_AMAX, "max", x, dims, true);
	NodeId weight = make_unary(d, OP_EXP, "exp", make_binary(d, OP_SUB, "shifted", x, arg_ref(top)));
	NodeId sum = make_reduced(d, OP_SUM_DIM, "sum", weight, dims, true);
	return make_converted(d, make_binary(d, OP_DIV, "share", weight, arg_ref(sum)), result_dtype(d, 0));
}

static NodeId log_softmax(Decompose *d, uint32_t element) {
	(void)element;
	uint32_t dims = reduction_dims(d->m, d->n);
	NodeId x = operand(d);
	NodeId top = make_reduced(d, OP_AMAX, "max", x, dims, true);
	NodeId shifted = make_binary(d, OP_SUB, "shifted", x, arg_ref(top));
	NodeId sum = make_reduced(d, OP_SUM_DIM, "sum", make_unary(d, OP_EXP, "exp", shifted), dims, true);
	NodeId log = make_unary(d, OP_LOG, "log", sum);
	return make_converted(d, make_binary(d, OP_SUB, "share", shifted, arg_ref(log)), result_dtype(d, 0));
}

/* Relative to 0 where the maximum is infinite: inf - inf would be NaN. */
static NodeId logsumexp(Decompose *d, uint32_t element) {
	(void)element;
	uint32_t dims = reduction_dims(d->m, d->n);
	bool keep = reduction_keeps_dims(d->m, d->n);
	NodeId x = operand(d);
	NodeId top = make_reduced(d, OP_AMAX, "max", x, dims, true);
	NodeId infinite = make_binary(d, OP_EQ, "infinite", make_unary(d, OP_ABS, "size", top), arg_float(INFINITY));
	NodeId shift = make_where(d, "shift", infinite, arg_float(0), arg_ref(top));
	NodeId weight = make_unary(d, OP_EXP, "exp", make_binary(d, OP_SUB, "shifted", x, arg_ref(shift)));
	NodeId log = make_unary(d, OP_LOG, "log", make_reduced(d, OP_SUM_DIM, "sum", weight, dims, true));
	NodeId sum = make_binary(d, OP_ADD, "total", log, arg_ref(shift));
	return make_converted(d, make_kept(d, sum, dims, keep), result_dtype(d, 0));
}

Decomposition *decompose_softmax(uint16_t op) {
	switch ((Op)op) {
	case OP_SOFTMAX:
	case OP_SOFTMAX_INT: return softmax;
	case OP_LOG_SOFTMAX:
	case OP_LOG_SOFTMAX_INT: return log_softmax;
	case OP_LOGSUMEXP: return logsumexp;
	default: return NULL;
	}
}
