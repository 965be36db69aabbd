/* shapes_create.c - values made from nothing: full, arange, iota, random numbers. */
#include "infer.h"

#include <math.h>

/* The value that fills, of whichever name. */
static bool check_fill(const Infer *in) {
	static const char *const names[] = {"value", "fill_value"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		Operand fill;
		if (!infer_operand(in, op_arg(in->m, in->n, names[i]), &fill))
			return false;
		if (!fill.absent && fill.shape.rank > 0)
			return infer_error(in, "shape-mismatch", "expand a tensor with aten.expand.default",
			                   "the value that fills has the shape %s, not []",
			                   shape_string(in, &fill.shape));
	}
	return true;
}

bool infer_full(const Infer *in, TypeId *type) {
	Shape shape;
	const char *list = op_param_index(node_get(in->m, in->n)->op, "size") == NONE ? "shape" : "size";
	if (!check_fill(in) || !infer_shape_list(in, list, &shape))
		return false;
	for (uint32_t i = 0; i < shape.rank; i++)
		if (shape.dims[i] == NONE)
			return infer_error(in, "bad-argument", NULL, "size -1 is negative");
	return infer_result(in, &shape, type);
}

bool infer_scalar(const Infer *in, TypeId *type) {
	Operand value;
	Shape shape = {0};
	if (!infer_operand(in, node_arg(in->m, in->n, 0), &value))
		return false;
	if (value.shape.rank != 0)
		return infer_error(in, "shape-mismatch", NULL, "its operand has the shape %s, not []",
		                   shape_string(in, &value.shape));
	return infer_result(in, &shape, type);
}

/* ---- ranges ------------------------------------------------------------------------------------------------------ */

static bool range_length_int(const Infer *in, const Arg *start, const Arg *end, const Arg *step, ExprId *length) {
	ExprId from = expr_int(in->m, 0), to, by = expr_int(in->m, 1);
	int64_t stride = 1, count;
	if (!infer_size(in, end, &to) || (start->kind != ARG_NULL && !infer_size(in, start, &from)) ||
	    (step->kind != ARG_NULL && (!infer_size(in, step, &by) || !infer_number(in, step, &stride))))
		return false;
	if (stride == 0)
		return infer_error(in, "bad-argument", NULL, "the step is 0");
	ExprId distance = stride > 0 ? expr_binary(in->m, EXPR_SUB, to, from) : expr_binary(in->m, EXPR_SUB, from, to);
	if (stride < 0)
		by = expr_binary(in->m, EXPR_SUB, expr_int(in->m, 0), by);
	*length = expr_binary(in->m, EXPR_CDIV, distance, by);
	if (expr_value(in->m, *length, &count) && count < 0)
		*length = expr_int(in->m, 0);
	return true;
}

static double number(const Arg *arg, double absent) {
	return arg->kind == ARG_FLOAT ? arg->real : arg->kind == ARG_INT ? (double)arg->integer : absent;
}

static bool range_length_float(const Infer *in, const Arg *start, const Arg *end, const Arg *step, ExprId *length) {
	double count = ceil((number(end, NAN) - number(start, 0)) / number(step, 1));
	if (!(fabs(count) < 0x1p31))
		return infer_error(in, "bad-argument", NULL, "a range between floats needs plain numbers");
	*length = expr_int(in->m, count > 0 ? (int64_t)count : 0);
	return true;
}

bool infer_arange(const Infer *in, TypeId *type) {
	const Arg *start = op_arg(in->m, in->n, "start"), *end = op_arg(in->m, in->n, "end");
	const Arg *step = op_arg(in->m, in->n, "step");
	bool is_float = start->kind == ARG_FLOAT || end->kind == ARG_FLOAT || step->kind == ARG_FLOAT;
	Shape shape = {.rank = 1};
	return (is_float ? range_length_float : range_length_int)(in, start, end, step, &shape.dims[0]) &&
	       infer_result(in, &shape, type);
}

bool infer_iota(const Infer *in, TypeId *type) {
	Shape shape = {.rank = 1};
	return infer_size(in, op_arg(in->m, in->n, "length"), &shape.dims[0]) && infer_result(in, &shape, type);
}
