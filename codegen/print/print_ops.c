/* print_ops.c - pointwise ops as Python: the op table's text around operands. */
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

/* A number of Python's, which has no dtype and no methods. */
static bool is_literal(const char *text) {
	text += *text == '-';
	return (*text >= '0' && *text <= '9' && text[strspn(text, "0123456789.e-")] == '\0') ||
	       strcmp(text, "True") == 0 || strcmp(text, "False") == 0 || strcmp(text, "jnp.inf") == 0 ||
	       strcmp(text, "jnp.nan") == 0;
}

static Precedence put_template(Text *out, const char *text, const PyExpr *operands, uint32_t count) {
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
			text_putn(out, c, 1);
			continue;
		}
		bool bracketed = (c == text || strchr("(,[ ", c[-1])) && strchr("),]", c[3]) && c[3];
		bool alone = bracketed && (c == text || c[-1] != ' ' || c[-2] == ',');
		size_t start = out->length;
		text_put(out, operands[i].text);
		put_parens(out, start, operands[i].precedence, alone ? PREC_LOWEST : PREC_ATOM);
		c += 2;
	}
	return loosest;
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

static bool looks_like_a_slip(const char *a, const char *b) {
	return strcmp(a, b) == 0 || (is_literal(a) && is_literal(b));
}

static PyExpr operand(Printer *pr, StmtId s, uint32_t i) {
	KArg arg = *kernel_arg(pr->k, s, i);
	Text out;
	text_init(&out, pr->a);
	Precedence p = put_arg(pr, &out, &arg);
	return (PyExpr){out.at, p};
}

/* Comparisons do not chain as in Python, so both sides of one stand in parentheses if they compare. */
static Precedence put_comparison(Printer *pr, Text *out, StmtId s, const char *text) {
	PyExpr sides[] = {operand(pr, s, 0), operand(pr, s, 1)};
	const char *call = comparison_call(text);
	if (call && looks_like_a_slip(sides[0].text, sides[1].text)) {
		text_printf(out, "%s(%s, %s)", call, sides[0].text, sides[1].text);
		return PREC_ATOM;
	}
	for (int i = 0; i < 2; i++) {
		if (i)
			text_printf(out, " %s ", text);
		size_t start = out->length;
		text_put(out, sides[i].text);
		put_parens(out, start, sides[i].precedence, PREC_OR);
	}
	return PREC_COMPARE;
}

static Precedence put_infix(Printer *pr, Text *out, StmtId s, const char *text) {
	KArg a = *kernel_arg(pr->k, s, 0), b = *kernel_arg(pr->k, s, 1);
	Precedence p = infix_precedence(text);
	if (p == PREC_COMPARE)
		return put_comparison(pr, out, s, text);
	put_arg_in(pr, out, &a, p);
	text_put(out, " ");
	text_put(out, text);
	text_put(out, " ");
	put_arg_in(pr, out, &b, (Precedence)(p + 1));
	return p;
}

Precedence put_pointwise(Printer *pr, Text *out, StmtId s) {
	const OpRow *row = op_row(kernel_stmt(pr->k, s)->op);
	PyExpr operands[PARAMS_MAX];
	uint32_t count = kernel_stmt(pr->k, s)->arg_count;
	switch (row->form) {
	case PRINT_INFIX: return put_infix(pr, out, s, row->text);
	case PRINT_PREFIX: {
		KArg arg = *kernel_arg(pr->k, s, 0);
		text_put(out, row->text);
		put_arg_in(pr, out, &arg, PREC_UNARY);
		return PREC_UNARY;
	}
	case PRINT_TEMPLATE:
		for (uint32_t i = 0; i < PARAMS_MAX; i++)
			operands[i] = i < count ? operand(pr, s, i) : (PyExpr){"", PREC_ATOM};
		return put_template(out, row->text, operands, count);
	default:
		text_put(out, helper_named(pr, row->text));
		text_put(out, "(");
		put_args(pr, out, s, 0);
		text_put(out, ")");
		return PREC_ATOM;
	}
}
