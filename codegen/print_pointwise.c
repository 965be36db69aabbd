/* print_pointwise.c - pointwise ops as Python: the op table's text, around operands in the dtype that the
 * Plan chose. */
#include "printer.h"

typedef struct Infix {
	const char *text;
	Precedence precedence;
} Infix;

static Precedence infix_precedence(const char *text) {
	static const Infix table[] = {{"|", PREC_OR},     {"^", PREC_XOR},  {"&", PREC_AND}, {"<<", PREC_SHIFT},
	                              {">>", PREC_SHIFT}, {"+", PREC_ADD},  {"-", PREC_ADD}, {"*", PREC_MUL},
	                              {"/", PREC_MUL},    {"//", PREC_MUL}, {"%", PREC_MUL}, {"**", PREC_POWER}};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (strcmp(table[i].text, text) == 0)
			return table[i].precedence;
	return PREC_COMPARE;
}

/* ---- dtypes ----------------------------------------------------------------------------------------------------- */

/* A number of Python's, which has no dtype and no methods. */
static bool is_literal(const char *text) {
	text += *text == '-';
	return (*text >= '0' && *text <= '9' && text[strspn(text, "0123456789.e-")] == '\0') ||
	       strcmp(text, "True") == 0 || strcmp(text, "False") == 0 || strcmp(text, "jnp.inf") == 0 ||
	       strcmp(text, "jnp.nan") == 0;
}

PyExpr as_dtype(Printer *pr, PyExpr e, Dtype dtype) {
	if (is_literal(e.text))
		return as_scalar(pr, e, dtype);
	return py_atom(arena_printf(pr->a, "%s.astype(%s)", in_parens(pr, e, PREC_ATOM), dtype_jnp(dtype)));
}

PyExpr as_scalar(Printer *pr, PyExpr e, Dtype dtype) {
	return py_atom(arena_printf(pr->a, "%s(%s)", dtype_jnp(dtype), e.text));
}

PyExpr converted_text(Printer *pr, PyExpr e, Dtype from, Dtype to) {
	if (from != to && arith_conversion_hub(from, to) != DTYPE_NONE)
		e = as_dtype(pr, e, arith_conversion_hub(from, to));
	return from == to ? e : as_dtype(pr, e, to);
}

/* Mosaic widens scalars to float32 alone. */
static PyExpr converted_scalar(Printer *pr, PyExpr e, Dtype from, Dtype to) {
	if (from == to || !dtype_is_float(from) || dtype_bits(from) >= 16)
		return converted_text(pr, e, from, to);
	return converted_text(pr, as_dtype(pr, e, DTYPE_F32), DTYPE_F32, to);
}

PyExpr computed_text(Printer *pr, const Arg *a, Form form, Dtype compute) {
	PyExpr e = arg_text(pr, a, form);
	if (compute == DTYPE_NONE || a->kind != ARG_REF || node_type(pr->m, a->node)->kind != TYPE_TENSOR)
		return e;
	NodeId root = value_root(pr->plan, a->node);
	if (node_get(pr->m, root)->op == OP_SCALAR)
		return e; /* a number beside the tile, whose dtype it takes */
	const Type *t = node_type(pr->m, a->node);
	if (!constant_is_number(pr->m, root))
		return t->count == 0 ? converted_scalar(pr, e, t->dtype, compute)
		                     : converted_text(pr, e, t->dtype, compute);
	Arg number = constant_of(pr->m, root);
	number = constant_as(&number, compute);
	return number.kind == ARG_INT ? number_beside_ints(pr, &number, compute) : number_text(pr, &number);
}

PyExpr number_beside_ints(Printer *pr, const Arg *a, Dtype ints) {
	Arg number = constant_as(a, ints);
	PyExpr e = number_text(pr, &number);
	/* Past what jnp takes a Python int for. */
	return number.kind == ARG_INT && number.integer > INT32_MAX ? as_scalar(pr, e, DTYPE_U32) : e;
}

/* The argument has the dtype by itself: it is more than a number, or a run-time scalar of it. */
static bool has_dtype(const Printer *pr, const Arg *a, Dtype wanted) {
	if (!constant_operand(pr->m, a))
		return true;
	return a->kind == ARG_REF && node_get(pr->m, a->node)->op == OP_SCALAR &&
	       !pr->m->scalars.at[node_arg(pr->m, a->node, 0)->scalar].has_value &&
	       node_type(pr->m, a->node)->dtype == wanted;
}

/* All operands of n are numbers: their arithmetic would give a number, which has no dtype, and jax.nn takes no ints. */
static bool lacks_dtype(const Printer *pr, NodeId n, Dtype wanted) {
	for (uint32_t i = 0; i < node_get(pr->m, n)->arg_count; i++) {
		const Arg *a = node_arg(pr->m, n, i);
		if (arith_is_operand(a) && !arith_is_condition(node_get(pr->m, n)->op, i) && has_dtype(pr, a, wanted))
			return false;
	}
	return true;
}

static PyExpr operand_text(Printer *pr, NodeId n, uint32_t i, Dtype promoted) {
	const Value *v = &pr->plan->values[n];
	const Arg *a = node_arg(pr->m, n, i);
	if (arith_is_condition(node_get(pr->m, n)->op, i))
		return arg_text(pr, a, v->wants);
	bool number = a->kind == ARG_INT || (a->kind == ARG_FLOAT && a->real > -1e18 && a->real < 1e18);
	if (number && dtype_class(promoted) != DTYPE_CLASS_FLOAT && dtype_class(promoted) != DTYPE_CLASS_BOOL &&
	    op_row(node_get(pr->m, n)->op)->dtype != RULE_PROMOTE_FLOAT)
		return number_beside_ints(pr, a, promoted);
	PyExpr e = computed_text(pr, a, v->wants, v->compute);
	return v->compute != DTYPE_NONE && lacks_dtype(pr, n, v->compute) ? as_scalar(pr, e, v->compute) : e;
}

/* ---- forms ------------------------------------------------------------------------------------------------------ */

static PyExpr template_text(Printer *pr, const char *text, const PyExpr *operands, uint32_t count) {
	Text out;
	text_init(&out, pr->a);
	Precedence loosest = PREC_ATOM;
	int depth = 0;
	for (const char *c = text; *c; c++) {
		uint32_t i = (uint32_t)(c[1] - '0');
		depth += (*c == '(') - (*c == ')');
		if (depth == 0 && strchr("+-*/", *c)) {
			Precedence p = infix_precedence((const char[]){*c, 0});
			loosest = p < loosest ? p : loosest;
		}
		if (*c != '{' || i >= count || c[2] != '}') {
			text_putn(&out, c, 1);
			continue;
		}
		bool bracketed = (c == text || strchr("(,[ ", c[-1])) && strchr("),]", c[3]) && c[3];
		text_put(&out, bracketed && (c == text || c[-1] != ' ' || c[-2] == ',')
		                       ? operands[i].text
		                       : in_parens(pr, operands[i], PREC_ATOM));
		c += 2;
	}
	return (PyExpr){out.at, loosest};
}

static PyExpr call_text(Printer *pr, const char *function, const PyExpr *operands, uint32_t count) {
	const char *items[PARAMS_MAX];
	for (uint32_t i = 0; i < count; i++)
		items[i] = operands[i].text;
	return py_atom(arena_printf(pr->a, "%s(%s)", helper_named(pr, function), dims_text(pr, count, items)));
}

/* Linters take a comparison of a name with itself for a slip; here it tells NaNs. So they do one of two numbers, as of
 * tile.id where a grid has one step. */
static const char *comparison_call(const char *infix) {
	static const char *const names[][2] = {{"<", "jnp.less"},    {"<=", "jnp.less_equal"},
	                                       {">", "jnp.greater"}, {">=", "jnp.greater_equal"},
	                                       {"==", "jnp.equal"},  {"!=", "jnp.not_equal"}};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(names[i][0], infix) == 0)
			return names[i][1];
	return NULL;
}

static bool looks_like_a_slip(const PyExpr *operands) {
	const char *a = operands[0].text, *b = operands[1].text;
	return a && b && (strcmp(a, b) == 0 || (is_literal(a) && is_literal(b)));
}

PyExpr row_text(Printer *pr, const OpRow *row, const PyExpr *operands, uint32_t count) {
	Precedence p = row->form == PRINT_INFIX ? infix_precedence(row->text) : PREC_UNARY;
	switch (row->form) {
	case PRINT_INFIX: {
		/* Comparisons do not chain as in Python, so both sides of one stand in parentheses if they compare. */
		Precedence left = p == PREC_COMPARE ? PREC_OR : p;
		if (comparison_call(row->text) && looks_like_a_slip(operands))
			return call_text(pr, comparison_call(row->text), operands, 2);
		return (PyExpr){arena_printf(pr->a, "%s %s %s", in_parens(pr, operands[0], left), row->text,
		                             in_parens(pr, operands[1], (Precedence)(p + 1))),
		                p};
	}
	case PRINT_PREFIX: return (PyExpr){arena_printf(pr->a, "%s%s", row->text, in_parens(pr, operands[0], p)), p};
	case PRINT_TEMPLATE: return template_text(pr, row->text, operands, count);
	default: return call_text(pr, row->text, operands, count);
	}
}

/* ---- ops with a text of their own ------------------------------------------------------------------------------- */

static bool string_is(const Arg *a, const char *s) { return a->kind == ARG_STRING && strcmp(a->string, s) == 0; }

static PyExpr gelu_text(Printer *pr, NodeId n, PyExpr x) {
	if (string_is(node_arg(pr->m, n, 1), "tanh"))
		return py_atom(arena_printf(pr->a, "jax.nn.gelu(%s, approximate=True)", x.text));
	return call_text(pr, "_gelu", &x, 1); /* jax.nn.gelu's exact form is erfc, which Mosaic does not lower */
}

static PyExpr clamp_text(Printer *pr, NodeId n, const PyExpr *operands) {
	bool low = node_arg(pr->m, n, 1)->kind != ARG_NULL, high = node_arg(pr->m, n, 2)->kind != ARG_NULL;
	const PyExpr one[2] = {operands[0], operands[1]};
	return low && high   ? call_text(pr, "jnp.clip", operands, 3)
	       : low || high ? call_text(pr, low ? "jnp.maximum" : "jnp.minimum", one, 2)
	                     : operands[0];
}

static PyExpr divide_text(Printer *pr, NodeId n, const PyExpr *operands, Dtype compute) {
	const Arg *mode = op_arg(pr->m, n, "rounding_mode");
	if (string_is(mode, "floor"))
		return call_text(pr, "jnp.floor_divide", operands, 2);
	PyExpr quotient = row_text(pr, op_row(OP_DIV), operands, 2);
	if (!string_is(mode, "trunc"))
		return quotient;
	return dtype_is_float(compute) ? py_atom(arena_printf(pr->a, "jnp.trunc(%s)", quotient.text))
	                               : call_text(pr, "_divide_ints", operands, 2);
}

/* add, sub, rsub: alpha times the operand that is added or taken away. */
static void scale_by_alpha(Printer *pr, NodeId n, PyExpr *operands) {
	const Arg *alpha = op_arg(pr->m, n, "alpha");
	if (alpha->kind == ARG_NULL || (alpha->kind == ARG_INT && alpha->integer == 1) ||
	    (alpha->kind == ARG_FLOAT && alpha->real == 1) || alpha->kind == ARG_BOOL)
		return;
	uint16_t op = node_get(pr->m, n)->op;
	PyExpr *scaled = op == OP_RSUB || op == OP_RSUB_SCALAR ? &operands[0] : &operands[1];
	*scaled = (PyExpr){arena_printf(pr->a, "%s * %s", in_parens(pr, *scaled, PREC_MUL),
	                                in_parens(pr, arg_text(pr, alpha, FORM_NATURAL), PREC_UNARY)),
	                   PREC_MUL};
}

/* Mosaic takes the conversions out of maximum(x.astype(wide), y.astype(wide)).astype(narrow), and then has no such op.
 */
static bool widened_pair(Printer *pr, NodeId n) {
	return pr->plan->values[n].compute != DTYPE_NONE && dtype_is_float(arith_promoted(pr->m, n)) &&
	       node_arg(pr->m, n, 0)->kind == ARG_REF && node_arg(pr->m, n, 1)->kind == ARG_REF;
}

static bool power_is_natural(const Arg *a) { return a->kind == ARG_INT && a->integer >= 0; }

/* Of ints, whose powers wrap around: as many bits of the exponent as its dtype has. */
static PyExpr int_power_text(Printer *pr, NodeId n, const PyExpr *operands, Dtype compute) {
	const Arg *exponent = node_arg(pr->m, n, 1);
	bool tensor = exponent->kind == ARG_REF && node_type(pr->m, exponent->node)->kind == TYPE_TENSOR;
	Dtype t = tensor ? node_type(pr->m, exponent->node)->dtype : DTYPE_I32;
	int bits = t == DTYPE_BOOL ? 1 : dtype_bits(t) - (dtype_class(t) == DTYPE_CLASS_SIGNED);
	bool array = node_arg(pr->m, n, 0)->kind == ARG_REF;
	const PyExpr items[3] = {array ? operands[0] : as_scalar(pr, operands[0], compute), operands[1],
	                         py_atom(arena_printf(pr->a, "%d", bits))};
	return call_text(pr, "_int_power", items, 3);
}

static PyExpr op_text(Printer *pr, NodeId n, PyExpr *operands, uint32_t count, Dtype compute) {
	const Node *node = node_get(pr->m, n);
	const OpRow *row = op_row(node->op);
	bool is_float = compute != DTYPE_NONE && dtype_is_float(compute);
	switch ((Op)node->op) {
	case OP_ADD:
	case OP_ADD_SCALAR:
	case OP_SUB:
	case OP_SUB_SCALAR:
	case OP_RSUB:
	case OP_RSUB_SCALAR: scale_by_alpha(pr, n, operands); return row_text(pr, row, operands, 2);
	case OP_GELU: return gelu_text(pr, n, operands[0]);
	case OP_CLAMP:
	case OP_CLAMP_TENSOR: return clamp_text(pr, n, operands);
	case OP_DIV_MODE:
	case OP_DIV_SCALAR_MODE: return divide_text(pr, n, operands, compute);
	case OP_FLOOR:
	case OP_CEIL:
	case OP_TRUNC:
	case OP_ROUND:
	case OP_ROUND_DECIMALS: return is_float ? row_text(pr, row, operands, count) : operands[0];
	case OP_POW:
	case OP_POW_SCALAR:
	case OP_POW_BASE:
		return is_float || power_is_natural(node_arg(pr->m, n, 1)) ? row_text(pr, row, operands, count)
		                                                           : int_power_text(pr, n, operands, compute);
	case OP_MAXIMUM:
	case OP_MAX_OTHER:
	case OP_CLAMP_MIN:
	case OP_CLAMP_MIN_TENSOR:
		return widened_pair(pr, n) ? call_text(pr, "_maximum", operands, 2)
		                           : row_text(pr, row, operands, count);
	case OP_MINIMUM:
	case OP_MIN_OTHER:
	case OP_CLAMP_MAX:
	case OP_CLAMP_MAX_TENSOR:
		return widened_pair(pr, n) ? call_text(pr, "_minimum", operands, 2)
		                           : row_text(pr, row, operands, count);
	case OP_ELU:
	case OP_SOFTPLUS: return call_text(pr, row->text, operands, count);
	default: return row_text(pr, row, operands, count);
	}
}

PyExpr pointwise_text(Printer *pr, NodeId n) {
	const Node *node = node_get(pr->m, n);
	const OpRow *row = op_row(node->op);
	const Value *v = &pr->plan->values[n];
	Dtype dtype = node_type(pr->m, n)->dtype;
	PyExpr operands[PARAMS_MAX] = {{0}};
	uint32_t count = 0;
	if (node->op == OP_CONVERT || node->op == OP_TO_COPY) {
		const Arg *a = node_arg(pr->m, n, 0);
		Dtype from = a->kind == ARG_REF && node_type(pr->m, a->node)->kind == TYPE_TENSOR
		                     ? node_type(pr->m, a->node)->dtype
		                     : DTYPE_NONE;
		PyExpr x = arg_text(pr, a, v->wants);
		return from == DTYPE_NONE || from == dtype ? as_dtype(pr, x, dtype)
		                                           : converted_text(pr, x, from, dtype);
	}
	Dtype promoted = arith_promoted(pr->m, n);
	Dtype compute = v->compute != DTYPE_NONE ? v->compute : arith_natural(pr->m, n);
	for (uint32_t i = 0; i < node->arg_count; i++)
		if (arith_is_operand(node_arg(pr->m, n, i)))
			operands[count++] = operand_text(pr, n, i, promoted);
	PyExpr e = op_text(pr, n, operands, count, compute);
	return row->dtype != RULE_BOOL && compute != DTYPE_NONE ? converted_text(pr, e, compute, dtype) : e;
}
