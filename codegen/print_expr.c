/* print_expr.c - values as Python expressions. */
#include "printer.h"
#include <stdio.h>

const char *in_parens(Printer *pr, PyExpr e, Precedence around) {
	return e.precedence < around ? arena_printf(pr->a, "(%s)", e.text) : e.text;
}

/* ---- integers --------------------------------------------------------------------------------------------------- */

static const char *term_name(Printer *pr, const Term *t) {
	switch (t->kind) {
	case VAR_PROGRAM: pr->program_used[t->id] = true; return pr->program[t->id];
	case VAR_STEP: pr->step_used[t->id] = true; return pr->step[t->id];
	case VAR_NODE: /* a run-time scalar has no variable of its own */
		if (!pr->names[value_root(pr->plan, t->id)])
			return in_parens(pr, value_text(pr, t->id, FORM_NATURAL), PREC_ATOM);
		return pr->names[value_root(pr->plan, t->id)];
	}
	return "";
}

static Affine affine_here(Printer *pr, const Affine *a) {
	Affine here = affine_int(a->constant);
	for (uint32_t i = 0; i < a->count; i++) {
		const Term *t = &a->term[i];
		bool known = t->kind == VAR_STEP && !pr->step[t->id];
		here = affine_add(pr->a, here,
		                  known ? affine_int(term_value(t, pr->step_value[t->id])) : affine_term(pr->a, *t));
	}
	return here;
}

static void put_term(Printer *pr, Text *out, const Term *t) {
	int64_t scale = t->scale < 0 ? -t->scale : t->scale;
	text_put(out, t->scale < 0 ? (out->length ? " - " : "-") : out->length ? " + " : "");
	const char *name = term_name(pr, t);
	if (t->divide)
		name = arena_printf(pr->a, "jax.lax.div(%s, %lld)", name, (long long)t->divide);
	if (t->modulo)
		name = arena_printf(pr->a, "jax.lax.rem(%s, %lld)", name, (long long)t->modulo);
	text_put(out, name);
	if (scale != 1)
		text_printf(out, " * %lld", (long long)scale);
}

static PyExpr affine_expr(Printer *pr, const Affine *affine) {
	Affine a = affine_here(pr, affine);
	Text out;
	text_init(&out, pr->a);
	bool negative_first = a.count > 0 && a.term[0].scale < 0;
	if (a.count == 0 || (negative_first && a.constant != 0))
		text_printf(&out, "%lld", (long long)a.constant);
	for (uint32_t i = 0; i < a.count; i++)
		put_term(pr, &out, &a.term[i]);
	if (a.count > 0 && !negative_first && a.constant != 0)
		text_printf(&out, a.constant < 0 ? " - %lld" : " + %lld",
		            (long long)(a.constant < 0 ? -a.constant : a.constant));
	bool sum = a.count > 1 || (a.count == 1 && a.constant != 0);
	bool product = a.count == 1 && a.term[0].scale != 1;
	Precedence precedence = sum ? PREC_ADD : product ? PREC_MUL : PREC_ATOM;
	return (PyExpr){out.at, precedence};
}

const char *affine_text(Printer *pr, const Affine *affine, Precedence around) {
	return in_parens(pr, affine_expr(pr, affine), around);
}

/* ---- small pieces ----------------------------------------------------------------------------------------------- */

const char *dims_text(Printer *pr, uint32_t rank, const char *const *items) {
	Text out;
	text_init(&out, pr->a);
	for (uint32_t i = 0; i < rank; i++)
		text_printf(&out, i ? ", %s" : "%s", items[i]);
	return out.at ? out.at : "";
}

const char *shape_text(Printer *pr, uint32_t rank, const int64_t *shape) {
	Text out;
	text_init(&out, pr->a);
	text_put(&out, "(");
	for (uint32_t i = 0; i < rank; i++)
		text_printf(&out, i ? ", %lld" : "%lld", (long long)shape[i]);
	text_put(&out, rank == 1 ? ",)" : ")");
	return out.at;
}

/* `a` divided by `by`, or the rest. */
const char *affine_divided(Printer *pr, const Affine *a, int64_t by, bool rest, Precedence around) {
	Affine here = affine_here(pr, a);
	if (by == 1 || affine_is_int(&here)) {
		Affine known = affine_is_int(&here) ? affine_int(rest ? here.constant % by : here.constant / by) : here;
		return affine_text(pr, &known, around);
	}
	return arena_printf(pr->a, "jax.lax.%s(%s, %lld)", rest ? "rem" : "div", affine_text(pr, &here, PREC_LOWEST),
	                    (long long)by);
}

/* Of a block that several grid steps share: the part that the variable `part` counts. */
static const char *part_text(Printer *pr, const SliceDim *s) {
	if (s->size == 1)
		return "pl.ds(part, 1)";
	return arena_printf(pr->a, "pl.ds(part * %lld, %lld)", (long long)s->size, (long long)s->size);
}

const char *start_text(Printer *pr, const Affine *start, int64_t multiple) {
	const char *text = affine_text(pr, start, PREC_LOWEST);
	return multiple ? arena_printf(pr->a, "pl.multiple_of(%s, %lld)", text, (long long)multiple) : text;
}

static const char *slice_text(Printer *pr, const SliceDim *s) {
	if (s->kind == SLICE_ALL)
		return ":";
	if (s->parts)
		return part_text(pr, s);
	const char *start = start_text(pr, &s->start, s->multiple);
	return s->kind == SLICE_AT ? start : arena_printf(pr->a, "pl.ds(%s, %lld)", start, (long long)s->size);
}

/* The subscript of a ref, brackets included. `keep_unit`: the boundary view's unit dim stays. `row`: one row of a part
 * of a shared block; -1: all of it. */
const char *access_text(Printer *pr, const Access *access, bool keep_unit) {
	const Operand *o = &pr->plan->operands.at[access->operand];
	const char *items[DIM_MAX];
	bool all = true;
	for (uint32_t i = 0; i < access->rank; i++) {
		SliceDim s = access->dim[i];
		if (keep_unit && i == o->unit)
			s.kind = SLICE_ALL;
		bool strip = pr->strip && i + 1 == access->rank;
		all = all && s.kind == SLICE_ALL && !strip;
		items[i] = strip ? pr->strip : slice_text(pr, &s);
	}
	return all ? "[...]" : arena_printf(pr->a, "[%s]", dims_text(pr, access->rank, items));
}

static const char *ref_name(Printer *pr, const Access *access) {
	if (access->kind == REF_OPERAND)
		return pr->refs[access->operand];
	return pr->window[access->loop][access->window];
}

/* ---- forms ------------------------------------------------------------------------------------------------------ */

uint32_t type_rank(Printer *pr, NodeId n) {
	const Type *t = node_type(pr->m, n);
	return t->kind == TYPE_TENSOR ? t->count : 0;
}

static const char *temporary_find(Printer *pr, uint64_t key) {
	for (uint32_t i = pr->temporaries.count; i-- > 0;)
		if (pr->temporaries.at[i].key == key && pr->temporaries.at[i].scope <= pr->scope)
			return pr->temporaries.at[i].name;
	return NULL;
}

uint32_t printed_shape(Printer *pr, NodeId n, Form form, int64_t *shape) {
	uint32_t rank = plan_shape(pr->plan, n, form, shape);
	if (pr->strip && pr->plan->strips->wide[n])
		shape[rank - 1] = pr->plan->strips->width;
	return rank;
}

static const char *full_text(Printer *pr, NodeId n, Form form);
static const char *index_text(Printer *pr, NodeId n, Form form);

static const char *converted(Printer *pr, NodeId n, const char *x, Form to) {
	bool row = type_rank(pr, n) == 1;
	if (op_lowering(node_get(pr->m, n)->op) == LOWER_FULL)
		return full_text(pr, n, to);
	if (op_lowering(node_get(pr->m, n)->op) == LOWER_INDEX)
		return index_text(pr, n, to);
	if (to == FORM_COLUMN) {
		pr->to_column = true;
		return arena_printf(pr->a, row ? "_to_column(%s)" : "_to_column(%s[..., None, :])", x);
	}
	pr->to_row = true;
	return arena_printf(pr->a, row ? "_to_row(%s)" : "_to_row(%s)[..., 0, :]", x);
}

/* A converted value gets a name, so that it is converted once: that of `view`, a view that is this and no more, or one
 * of its own. */
static PyExpr value_converted(Printer *pr, NodeId n, const char *x, Form to, NodeId view) {
	uint64_t key = (uint64_t)n * 2 + to;
	const char *name = temporary_find(pr, key);
	if (name)
		return py_atom(name);
	if (view != NONE && !pr->plan->values[view].inlined)
		name = pr->names[view] = value_name(pr, view);
	else
		name = printer_name(
			pr, arena_printf(pr->a, "%s_%s", node_get(pr->m, n)->name, to == FORM_COLUMN ? "col" : "row"));
	py_line(&pr->w, "%s = %s", name, converted(pr, n, x, to));
	Temporary t = {key, name, pr->scope};
	vec_push(pr->a, &pr->temporaries, t);
	return py_atom(name);
}

static PyExpr scalar_text(Printer *pr, NodeId n) {
	const Scalar *s = &pr->m->scalars.at[node_arg(pr->m, n, 0)->scalar];
	for (uint32_t i = 0; !s->has_value && i < pr->plan->operands.count; i++)
		if (pr->plan->operands.at[i].tensor == NONE && &pr->m->scalars.at[pr->plan->operands.at[i].scalar] == s)
			return py_atom(arena_printf(pr->a, "%s[0]", pr->refs[i]));
	Text out;
	text_init(&out, pr->a);
	if (dtype_is_float(s->dtype))
		py_put_float(&out, s->value);
	else if (s->dtype == DTYPE_BOOL)
		text_put(&out, s->int_value ? "True" : "False");
	else
		text_printf(&out, "%lld", (long long)s->int_value);
	return (PyExpr){out.at, out.at[0] == '-' ? PREC_UNARY : PREC_ATOM};
}

static PyExpr int_text(Printer *pr, NodeId n) {
	Planner p = {.plan = (Plan *)(uintptr_t)pr->plan, .m = pr->m, .a = pr->a};
	Arg ref = arg_ref(n);
	Affine a = affine_of_arg(&p, node_get(pr->m, n)->graph, &ref);
	return affine_expr(pr, &a);
}

static PyExpr value_text_for(Printer *pr, NodeId n, Form form, NodeId view) {
	Form own = pr->plan->values[n].form;
	NodeId root = value_root(pr->plan, n);
	const Value *v = &pr->plan->values[root];
	Lowering how = op_lowering(node_get(pr->m, root)->op);
	if (node_get(pr->m, root)->op == OP_SCALAR)
		return scalar_text(pr, root);
	if (node_type(pr->m, root)->kind == TYPE_SYM || how == LOWER_INT)
		return int_text(pr, root);
	PyExpr e = how == LOWER_FULL && type_rank(pr, root) == 0 ? node_text(pr, root)
	           : v->inlined                                  ? node_text(pr, root)
	                                                         : py_atom(pr->names[root]);
	if (v->inlined && how == LOWER_FULL)
		printer_comment(pr, root);
	/* An alias's form differs from its root's where a view is free: what counts is the physical shape, its own. */
	if (type_rank(pr, n) == 0 || own == form)
		return e;
	if (how == LOWER_FULL && v->inlined && root == n)
		return py_atom(full_text(pr, root, form));
	return value_converted(pr, n, in_parens(pr, e, PREC_ATOM), form, view);
}

PyExpr value_text(Printer *pr, NodeId n, Form form) { return value_text_for(pr, n, form, NONE); }

PyExpr viewed_text(Printer *pr, NodeId view) {
	return value_text_for(pr, node_input(pr->m, view, 0), pr->plan->values[view].wants, view);
}

PyExpr number_text(Printer *pr, const Arg *a) {
	Text out;
	text_init(&out, pr->a);
	if (a->kind == ARG_FLOAT)
		py_put_float(&out, a->real);
	else if (a->kind == ARG_BOOL)
		text_put(&out, a->boolean ? "True" : "False");
	else if (a->kind == ARG_SYM)
		text_printf(&out, "%lld", (long long)expr_number(pr->m, a->expr));
	else
		text_printf(&out, "%lld", (long long)a->integer);
	return (PyExpr){out.at, out.at[0] == '-' ? PREC_UNARY : PREC_ATOM};
}

PyExpr arg_text(Printer *pr, const Arg *a, Form form) {
	return a->kind == ARG_REF ? value_text(pr, a->node, form) : number_text(pr, a);
}

/* ---- creation --------------------------------------------------------------------------------------------------- */

static const char *full_text(Printer *pr, NodeId n, Form form) {
	Arg value = constant_of(pr->m, n);
	const char *dtype = dtype_jnp(node_type(pr->m, n)->dtype);
	int64_t shape[DIM_MAX];
	uint32_t rank = printed_shape(pr, n, form, shape);
	bool zero = (value.kind == ARG_FLOAT && value.real == 0 && !(1 / value.real < 0)) ||
	            (value.kind == ARG_INT && value.integer == 0);
	bool one = node_get(pr->m, n)->op == OP_ONES || node_get(pr->m, n)->op == OP_ONES_LIKE;
	const char *shape_string = shape_text(pr, rank, shape);
	if (zero || one)
		return arena_printf(pr->a, "jnp.%s(%s, %s)", zero ? "zeros" : "ones", shape_string, dtype);
	return arena_printf(pr->a, "jnp.full(%s, %s, %s)", shape_string, arg_text(pr, &value, FORM_NATURAL).text,
	                    dtype);
}

static PyExpr scalar_full_text(Printer *pr, NodeId n) {
	Arg value = constant_of(pr->m, n);
	if (constant_is_number(pr->m, n))
		return number_text(pr, &value);
	return as_scalar(pr, arg_text(pr, &value, FORM_NATURAL), node_type(pr->m, n)->dtype);
}

/* In a shape whose dim `dim` is the index's own; the others are 1. */
static const char *index_along(Printer *pr, NodeId n, uint32_t rank, const int64_t *shape, uint32_t dim) {
	Planner p = {.plan = (Plan *)(uintptr_t)pr->plan, .m = pr->m, .a = pr->a};
	bool query = node_get(pr->m, n)->op == OP_TILE_INDEX;
	Affine offset = query ? block_offset(&p, node_get(pr->m, n)->graph, query_block(pr->m, n)) : affine_int(0);
	const char *iota =
		arena_printf(pr->a, "jax.lax.broadcasted_iota(jnp.int32, %s, %u)", shape_text(pr, rank, shape), dim);
	if (pr->strip && pr->plan->strips->wide[n]) /* which is along the strips */
		iota = arena_printf(pr->a, "%s.start + %s", pr->strip, iota);
	if (offset.count == 0 && offset.constant == 0)
		return iota;
	return arena_printf(pr->a, "%s + %s", affine_text(pr, &offset, PREC_ADD), iota);
}

static const char *index_text(Printer *pr, NodeId n, Form form) {
	int64_t shape[DIM_MAX];
	uint32_t rank = printed_shape(pr, n, form, shape);
	return index_along(pr, n, rank, shape, form == FORM_COLUMN ? 0 : 1);
}

const char *index_view_text(Printer *pr, NodeId n) {
	NodeId x = value_root(pr->plan, node_input(pr->m, n, 0));
	int64_t shape[DIM_MAX], length = 1;
	uint32_t rank = printed_shape(pr, n, pr->plan->values[n].form, shape), dim = 0;
	if (op_lowering(node_get(pr->m, x)->op) != LOWER_INDEX || node_get(pr->m, n)->op == OP_EXPAND)
		return NULL;
	for (uint32_t i = 0; i < rank; i++) {
		length *= shape[i];
		dim = shape[i] > 1 ? i : dim;
	}
	return shape[dim] == length ? index_along(pr, x, rank, shape, dim) : NULL;
}

/* ---- reductions, matmuls ---------------------------------------------------------------------------------------- */

/* dims: of the operand as it is printed. */
static const char *reduced_along(Printer *pr, const char *function, const char *operand, uint32_t dims, bool keep) {
	const char *items[DIM_MAX];
	uint32_t count = 0;
	for (uint32_t i = 0; i < DIM_MAX; i++)
		if (dims >> i & 1)
			items[count++] = arena_printf(pr->a, "%u", i);
	const char *axis = count == 1 ? items[0] : arena_printf(pr->a, "(%s)", dims_text(pr, count, items));
	return arena_printf(pr->a, "%s(%s, axis=%s%s)", function, operand, axis, keep ? ", keepdims=True" : "");
}

/* Of several dims that are reduced, only the last is kept, at size 1: the others go first. */
static const char *last_kept(Printer *pr, const char *function, const char *operand, uint32_t dims) {
	uint32_t last = 0, others = 0;
	for (uint32_t i = 0; i < DIM_MAX; i++)
		last = dims >> i & 1 ? i : last;
	for (uint32_t i = 0; i < last; i++)
		others += dims >> i & 1;
	if (others)
		operand = reduced_along(pr, function, operand, dims & ~(1u << last), false);
	return reduced_along(pr, function, operand, 1u << (last - others), true);
}

PyExpr reduction_text(Printer *pr, NodeId n, const char *operand, Dtype from) {
	const Value *v = &pr->plan->values[n];
	NodeId x = node_input(pr->m, n, 0);
	uint32_t dims = reduction_dims(pr->m, n) << (type_rank(pr, x) == 1 && v->wants == FORM_NATURAL);
	uint32_t rank = type_rank(pr, x);
	bool product = node_get(pr->m, n)->op == OP_PROD || node_get(pr->m, n)->op == OP_PROD_DIM;
	bool mean = pr->plan->strips && pr->plan->strips->folds[n] && node_get(pr->m, n)->op == OP_MEAN_DIM;
	const char *function = product ? helper_named(pr, "_prod")
	                       : mean  ? "jnp.sum"
	                               : op_row(node_get(pr->m, n)->op)->text;
	if (v->form == FORM_ROW && rank >= 2)
		return py_atom(reduced_along(pr, function, arena_printf(pr->a, "jnp.swapaxes(%s, -1, -2)", operand),
		                             1u << (rank - 2), true));
	/* A column's own last dim is never reduced; a rank-1 result keeps a dim so that it stays a row or a column. */
	bool stays_column = v->form == FORM_COLUMN && v->wants == FORM_COLUMN;
	bool keep_one = !stays_column && (v->form == FORM_COLUMN || type_rank(pr, n) == 1);
	PyExpr e = py_atom(type_rank(pr, n) == 0 ? arena_printf(pr->a, "%s(%s)", function, operand)
	                   : !reduction_keeps_dims(pr->m, n) && keep_one
	                           ? last_kept(pr, function, operand, dims)
	                           : reduced_along(pr, function, operand, dims, reduction_keeps_dims(pr->m, n)));
	if (mean)
		e = (PyExpr){arena_printf(pr->a, "%s / %lld", e.text, (long long)pr->plan->strips->size), PREC_MUL};
	Dtype dtype = node_type(pr->m, n)->dtype;
	return from == dtype ? e : as_dtype(pr, e, dtype);
}

static PyExpr reduce_text(Printer *pr, NodeId n) {
	const Value *v = &pr->plan->values[n];
	const char *operand = computed_text(pr, node_arg(pr->m, n, 0), v->wants, v->compute).text;
	Dtype from = v->compute != DTYPE_NONE ? v->compute : node_type(pr->m, node_input(pr->m, n, 0))->dtype;
	return reduction_text(pr, n, operand, from);
}

static PyExpr scan_text(Printer *pr, NodeId n) {
	const Value *v = &pr->plan->values[n];
	NodeId x = node_input(pr->m, n, 0);
	int64_t dim = op_arg(pr->m, n, "dim")->integer;
	uint32_t rank = type_rank(pr, x);
	bool sums = node_get(pr->m, n)->op == OP_CUMSUM;
	dim += (dim < 0 ? rank : 0) + (rank == 1); /* a row is [1, n] */
	PyExpr e = py_atom(arena_printf(pr->a, "%s(%s, axis=%lld)", helper_named(pr, sums ? "_cumsum" : "_cumprod"),
	                                computed_text(pr, node_arg(pr->m, n, 0), v->wants, v->compute).text,
	                                (long long)dim));
	Dtype from = v->compute != DTYPE_NONE ? v->compute : node_type(pr->m, x)->dtype;
	return from == node_type(pr->m, n)->dtype ? e : as_dtype(pr, e, node_type(pr->m, n)->dtype);
}

static const char *contraction(Printer *pr, uint32_t rank, bool transpose_a, bool transpose_b) {
	if (rank == 2)
		return arena_printf(pr->a, "(((%d,), (%d,)), ((), ()))", transpose_a ? 0 : 1, transpose_b ? 1 : 0);
	return arena_printf(pr->a, "(((%u,), (%u,)), ((0,), (0,)))", transpose_a ? rank - 2 : rank - 1,
	                    transpose_b ? rank - 1 : rank - 2);
}

static bool number_is(const Arg *a, double x) {
	return (a->kind == ARG_INT && (double)a->integer == x) || (a->kind == ARG_FLOAT && a->real == x) ||
	       a->kind == ARG_NULL;
}

static PyExpr scaled(Printer *pr, PyExpr e, const Arg *factor) {
	if (number_is(factor, 1))
		return e;
	return (PyExpr){arena_printf(pr->a, "%s * %s", in_parens(pr, e, PREC_MUL), number_text(pr, factor).text),
	                PREC_MUL};
}

static PyExpr matmul_text(Printer *pr, NodeId n) {
	const Value *v = &pr->plan->values[n];
	NodeId a = matmul_operand(pr->m, n, 0), b = matmul_operand(pr->m, n, 1), added = matmul_operand(pr->m, n, 2);
	Dtype ta = node_type(pr->m, a)->dtype, tb = node_type(pr->m, b)->dtype, to = node_type(pr->m, n)->dtype;
	Dtype sum = dtype_of_sums(ta);
	bool highest =
		ta == DTYPE_F32 && tb == DTYPE_F32 && (DotPrecision)pr->m->config.dot_precision.value == DOT_HIGHEST;
	const char *dot = arena_printf(pr->a, "jax.lax.dot_general(%s, %s, %s%s, preferred_element_type=%s)",
	                               value_text(pr, a, FORM_NATURAL).text, value_text(pr, b, FORM_NATURAL).text,
	                               contraction(pr, type_rank(pr, a), v->transpose_a, v->transpose_b),
	                               highest ? ", precision=jax.lax.Precision.HIGHEST" : "", dtype_jnp(sum));
	PyExpr e = py_atom(dot);
	if (added != NONE) {
		/* The product has a name of its own: the sum reads like the source. */
		const char *name = printer_name(pr, arena_printf(pr->a, "%s_dot", node_get(pr->m, n)->name));
		py_line(&pr->w, "%s = %s", name, dot);
		uint32_t beta = node_get(pr->m, n)->arg_count >= 5 ? node_get(pr->m, n)->arg_count - 2 : 0;
		/* jnp promotes no 8-bit floats. */
		bool fp8 = dtype_is_float(node_type(pr->m, added)->dtype) &&
		           dtype_bits(node_type(pr->m, added)->dtype) == 8;
		Arg bias = arg_ref(added);
		PyExpr left = computed_text(pr, &bias, FORM_NATURAL, fp8 ? sum : DTYPE_NONE), right = py_atom(name);
		if (beta && node_get(pr->m, n)->op != OP_DOT) {
			left = scaled(pr, left, node_arg(pr->m, n, beta));
			right = scaled(pr, right, node_arg(pr->m, n, beta + 1));
		}
		e = (PyExpr){arena_printf(pr->a, "%s + %s", in_parens(pr, left, PREC_ADD), right.text), PREC_ADD};
		sum = dtype_promote(sum, node_type(pr->m, added)->dtype);
	}
	return to == sum ? e : as_dtype(pr, e, to);
}

/* `_part(index, count, ` before the function of the part: a static offset is aligned where a computed one is not. */
const char *part_of(Printer *pr, const SliceDim *s) {
	pr->part = true;
	return arena_printf(pr->a, "_part(%s, %lld, ", affine_divided(pr, &s->start, s->parts, true, PREC_LOWEST),
	                    (long long)s->parts);
}

/* The positions of one element: of a 1-D tensor, which is a row, the dim of one row is one too. `kind`: SLICE_AT drops
 * the dims, SLICE_RANGE keeps them. */
static const Access *element_access(Printer *pr, const Access *access, SliceKind kind) {
	Access *copy = arena_alloc(pr->a, sizeof *copy);
	*copy = *access;
	for (uint32_t i = 0; i < copy->rank; i++) {
		SliceDim *s = &copy->dim[i];
		if (s->kind == SLICE_ALL && kind == SLICE_AT)
			*s = (SliceDim){.kind = SLICE_AT, .start = affine_int(0)};
		else if (s->kind == SLICE_AT && kind == SLICE_RANGE)
			s->kind = SLICE_RANGE, s->size = 1;
	}
	return copy;
}

/* One element, a scalar: Mosaic extracts 32 bits only ("Only 32-bit scalar vector.extracts supported"), so that a
 * narrower one widens while it is a vector. */
static PyExpr element_text(Printer *pr, NodeId n) {
	const Access *access = pr->plan->values[n].access;
	Dtype from = pr->plan->operands.at[access->operand].dtype, to = node_type(pr->m, n)->dtype;
	bool narrow = dtype_bits(from) < 32 && from != DTYPE_BOOL;
	access = element_access(pr, access, narrow ? SLICE_RANGE : SLICE_AT);
	PyExpr e = py_atom(arena_printf(pr->a, "%s%s", ref_name(pr, access), access_text(pr, access, false)));
	if (!narrow)
		return converted_text(pr, e, from, to);
	const char *zeros[DIM_MAX];
	for (uint32_t i = 0; i < access->rank; i++)
		zeros[i] = "0";
	e = as_dtype(pr, e, dtype_widened(from));
	return as_dtype(pr, py_atom(arena_printf(pr->a, "%s[%s]", e.text, dims_text(pr, access->rank, zeros))), to);
}

static PyExpr load_text(Printer *pr, NodeId n) {
	if (type_rank(pr, n) == 0)
		return element_text(pr, n);
	const Access *access = pr->plan->values[n].access;
	const char *text = arena_printf(pr->a, "%s%s", ref_name(pr, access), access_text(pr, access, false));
	const SliceDim *part = access_part_dim(access);
	if (part)
		text = arena_printf(pr->a, "%slambda part: %s)", part_of(pr, part), text);
	const Operand *o = &pr->plan->operands.at[access->operand];
	Dtype dtype = node_type(pr->m, n)->dtype;
	if (access->perm_rank)
		text = arena_printf(pr->a, "jnp.swapaxes(%s, -1, -2)", text);
	return converted_text(pr, py_atom(text), o->dtype, dtype);
}

static PyExpr int_node_text(Printer *pr, NodeId n) {
	Planner p = {.plan = (Plan *)(uintptr_t)pr->plan, .m = pr->m, .a = pr->a};
	const Node *node = node_get(pr->m, n);
	if (node->op == OP_TILE_END) {
		BlockId b = query_block(pr->m, n);
		Affine offset = block_offset(&p, node->graph, b), end = {0};
		bool peeled;
		block_ragged(&p, node->graph, b, &end, &peeled);
		Affine next = affine_add(pr->a, offset, affine_int(block_size(&p, b)));
		return py_atom(arena_printf(pr->a, "jnp.minimum(%s, %s)", affine_text(pr, &next, PREC_LOWEST),
		                            affine_text(pr, &end, PREC_LOWEST)));
	}
	PyExpr operands[2] = {{0}};
	for (uint32_t i = 0; i < node->arg_count && i < 2; i++)
		operands[i] = arg_text(pr, node_arg(pr->m, n, i), FORM_NATURAL);
	return row_text(pr, op_row(node->op), operands, node->arg_count);
}

PyExpr node_text(Printer *pr, NodeId n) {
	switch (op_lowering(node_get(pr->m, n)->op)) {
	case LOWER_INT: return int_node_text(pr, n);
	case LOWER_POINTWISE: return pointwise_text(pr, n);
	case LOWER_REDUCE: return reduce_text(pr, n);
	case LOWER_SCAN: return scan_text(pr, n);
	case LOWER_VIEW: return view_text(pr, n);
	case LOWER_MOVE: return move_text(pr, n);
	case LOWER_MATMUL: return matmul_text(pr, n);
	case LOWER_FULL:
		return type_rank(pr, n) == 0 ? scalar_full_text(pr, n)
		                             : py_atom(full_text(pr, n, pr->plan->values[n].form));
	case LOWER_INDEX: return (PyExpr){index_text(pr, n, pr->plan->values[n].form), PREC_ADD};
	case LOWER_LOAD: return load_text(pr, n);
	default: return py_atom("None");
	}
}
