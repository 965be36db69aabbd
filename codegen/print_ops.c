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
	return py_atom(arena_printf(pr->a, "%s(%s)", helper_named(pr, function), list_text(pr, count, items)));
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
