/* print_returns.c - the ops of `returns` as jnp calls on a result of the kernel. */
#include "printer.h"

static const Arg *step_arg(Printer *pr, const HostStep *s, uint32_t i) {
	static const Arg none = {.kind = ARG_NULL};
	return i < s->count ? arg_get(pr->m, s->first + i) : &none;
}

static const char *dims_of(Printer *pr, const Arg *a, uint32_t rank) {
	const char *items[DIM_MAX];
	uint32_t count = a->kind == ARG_LIST ? a->list.count : a->kind == ARG_INT;
	if (count == 0)
		return NULL;
	for (uint32_t i = 0; i < count && i < DIM_MAX; i++) {
		int64_t dim = (a->kind == ARG_LIST ? arg_item(pr->m, a, i) : a)->integer;
		items[i] = arena_printf(pr->a, "%lld", (long long)(dim < 0 ? dim + rank : dim));
	}
	return count == 1 ? items[0] : arena_printf(pr->a, "(%s)", dims_text(pr, count, items));
}

static PyExpr reduced(Printer *pr, const HostStep *s, PyExpr x, const HostValue *before, const HostValue *after) {
	bool all = s->op == OP_SUM || s->op == OP_MEAN || s->op == OP_MAX || s->op == OP_MIN || s->op == OP_PROD;
	const char *axis = all ? NULL : dims_of(pr, step_arg(pr, s, 0), before->rank);
	const Arg *keep = step_arg(pr, s, 1);
	bool keepdims = !all && keep->kind == ARG_BOOL && keep->boolean;
	PyExpr e = py_atom(arena_printf(pr->a, "%s(%s%s%s%s)", op_row(s->op)->text, x.text, axis ? ", axis=" : "",
	                                axis ? axis : "", keepdims ? ", keepdims=True" : ""));
	return before->dtype == after->dtype ? e : as_dtype(pr, e, after->dtype);
}

static bool same_shape(const HostValue *a, const HostValue *b) {
	return a->rank == b->rank && memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0;
}

static PyExpr viewed(Printer *pr, const HostStep *s, PyExpr x, const HostValue *before, const HostValue *after) {
	const char *shape = shape_text(pr, after->rank, after->shape);
	if (s->op == OP_PERMUTE)
		return py_atom(arena_printf(pr->a, "jnp.transpose(%s, %s)", x.text,
		                            dims_of(pr, step_arg(pr, s, 0), before->rank)));
	if (s->op == OP_T || s->op == OP_MT)
		return before->rank < 2 ? x : py_atom(arena_printf(pr->a, "jnp.swapaxes(%s, -1, -2)", x.text));
	if (s->op == OP_TRANSPOSE)
		return py_atom(arena_printf(pr->a, "jnp.swapaxes(%s, %lld, %lld)", x.text,
		                            (long long)step_arg(pr, s, 0)->integer,
		                            (long long)step_arg(pr, s, 1)->integer));
	if (same_shape(before, after))
		return x;
	if (s->op == OP_EXPAND)
		return py_atom(arena_printf(pr->a, "jnp.broadcast_to(%s, %s)", x.text, shape));
	return py_atom(arena_printf(pr->a, "%s.reshape(%s)", in_parens(pr, x, PREC_ATOM), shape));
}

static PyExpr computed(Printer *pr, const HostStep *s, PyExpr x) {
	PyExpr operands[PARAMS_MAX] = {x};
	uint32_t count = 1;
	OpParam param;
	const char *at = op_param_next(op_row(s->op)->params, &param);
	for (uint32_t i = 0; i < s->count && at; i++) {
		at = op_param_next(at, &param);
		if (at && param.letter == 'x')
			operands[count++] = arg_text(pr, step_arg(pr, s, i), FORM_NATURAL);
	}
	return row_text(pr, op_row(s->op), operands, count);
}

static PyExpr step_text(Printer *pr, const HostStep *s, PyExpr x, const HostValue *before, const HostValue *after) {
	switch (op_lowering(s->op)) {
	case LOWER_REDUCE: return reduced(pr, s, x, before, after);
	case LOWER_VIEW: return viewed(pr, s, x, before, after);
	case LOWER_ALIAS: return x;
	default: break;
	}
	if (s->op == OP_CONVERT || s->op == OP_TO_COPY)
		return before->dtype == after->dtype ? x : as_dtype(pr, x, after->dtype);
	return computed(pr, s, x);
}

const char *returned_text(Printer *pr, uint32_t r, const char *x) {
	const Return *ret = &pr->m->returns.at[r];
	const HostValue *values = pr->whole->returns.at[r], *last = &values[ret->step_count];
	PyExpr e = py_atom(x);
	for (uint32_t i = 0; i < ret->step_count; i++)
		e = step_text(pr, &ret->steps[i], e, &values[i], &values[i + 1]);
	if (same_shape(last, last + 1))
		return e.text;
	return arena_printf(pr->a, "%s.reshape(%s)", in_parens(pr, e, PREC_ATOM),
	                    shape_text(pr, last[1].rank, last[1].shape));
}
