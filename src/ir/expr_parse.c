/* expr_parse.c - the expression language of graph-format.md:
 *
 *   sum = term (("+" | "-") term)*      term = factor (("*" | "//" | "%") factor)*
 *   factor = "-" factor | int | symbol | "(" sum ")" | function "(" sum ("," sum)* ")"
 *
 * Recursive descent; nesting and length are limited, so that neither parsing nor printing can exhaust the stack. */
#include "ir.h"

enum { EXPR_DEPTH_MAX = 200, EXPR_OPERATORS_MAX = 1000 };

typedef struct Parser {
	Module *m;
	const char *text, *at;
	const char *error; /* the first one */
	int depth, operators;
} Parser;

static ExprId parse_sum(Parser *p);
static ExprId parse_factor(Parser *p);

static ExprId fail(Parser *p, const char *message) {
	if (!p->error)
		p->error = arena_printf(p->m->arena, "%s at column %d of \"%.60s\"", message,
		                        (int)(p->at - p->text) + 1, p->text);
	return NONE;
}

static void skip_space(Parser *p) {
	while (*p->at == ' ' || *p->at == '\t')
		p->at++;
}

static bool accept(Parser *p, const char *token) {
	skip_space(p);
	size_t n = strlen(token);
	if (strncmp(p->at, token, n) != 0)
		return false;
	p->at += n;
	return true;
}

static ExprId make(Parser *p, ExprKind kind, ExprId a, ExprId b) {
	if (a == NONE || b == NONE)
		return NONE;
	if (++p->operators > EXPR_OPERATORS_MAX)
		return fail(p, "more than 1000 operators");
	bool divides = kind == EXPR_FLOORDIV || kind == EXPR_MOD || kind == EXPR_CDIV;
	if (divides && expr_is_int(p->m, b, 0))
		return fail(p, "division by zero");
	ExprId e = expr_binary(p->m, kind, a, b);
	const Expr *x = &p->m->exprs.at[a], *y = &p->m->exprs.at[b];
	if (x->kind == EXPR_INT && y->kind == EXPR_INT && !p->m->exprs.at[e].known)
		return fail(p, "integer overflow");
	return e;
}

/* `sign`: 1, or -1 behind a minus: the least int is no negated one. */
static ExprId parse_int(Parser *p, int sign) {
	int64_t value = 0;
	const char *start = p->at;
	for (; is_digit(*p->at); p->at++)
		if (!checked_mul(value, 10, &value) || !checked_add(value, (int64_t)sign * (*p->at - '0'), &value))
			return fail(p, "integer overflow");
	if (*p->at == '.' || is_letter(*p->at)) {
		p->at = start;
		return fail(p, "malformed integer");
	}
	return expr_int(p->m, value);
}

/* All names that an expression may use, for a hint. */
static const char *nearest_symbol(Module *m, const char *word) {
	uint32_t n = 0;
	uint32_t most = m->sizes.count + m->blocks.count + m->tunables.count;
	if (most > 1000) /* a document made to be slow */
		return NULL;
	const char **names = arena_array(m->arena, (size_t)most + 5, sizeof *names);
	for (uint32_t i = 0; i < m->sizes.count; i++)
		names[n++] = m->sizes.at[i].name;
	for (uint32_t i = 0; i < m->blocks.count; i++)
		if (m->blocks.at[i].symbol)
			names[n++] = m->blocks.at[i].symbol;
	for (uint32_t i = 0; i < m->tunables.count; i++)
		names[n++] = m->tunables.at[i].name;
	names[n++] = "cdiv";
	names[n++] = "next_pow2";
	names[n++] = "min";
	names[n++] = "max";
	return name_nearest(word, names);
}

static ExprId unknown_symbol(Parser *p, const char *start, const char *word) {
	const char *near = nearest_symbol(p->m, word);
	p->at = start;
	const char *did = near ? arena_printf(p->m->arena, " (did you mean '%s'?)", near) : "";
	return fail(p, arena_printf(p->m->arena, "unknown symbol '%s'%s", word, did));
}

/* After the name of a function: its arguments. min and max take two or more. */
static ExprId parse_call(Parser *p, ExprKind kind) {
	if (!accept(p, "("))
		return fail(p, "expected '('");
	ExprId e = parse_sum(p);
	if (kind == EXPR_NEXT_POW2) {
		if (e != NONE && ++p->operators > EXPR_OPERATORS_MAX)
			return fail(p, "more than 1000 operators");
		e = e == NONE ? NONE : expr_next_pow2(p->m, e);
	} else {
		uint32_t count = 1;
		for (; e != NONE && accept(p, ","); count++) {
			if (kind == EXPR_CDIV && count == 2)
				return fail(p, "a third argument of cdiv");
			e = make(p, kind, e, parse_sum(p));
		}
		if (e != NONE && count == 1)
			return fail(p, "expected ','");
	}
	return e == NONE || accept(p, ")") ? e : fail(p, "expected ')'");
}

static ExprId symbol_named(Module *m, const char *word) {
	const char *known = string_find(&m->strings, word);
	uint32_t symbol = known ? map_get(&m->symbols, map_key(known)) : NONE;
	if (symbol == NONE)
		return NONE;
	if (symbol & SYMBOL_TUNABLE)
		return expr_tunable(m, symbol & ~SYMBOL_TUNABLE);
	return symbol & SYMBOL_SIZE ? expr_int(m, m->sizes.at[symbol & ~SYMBOL_SIZE].value) : expr_block(m, symbol);
}

static ExprId parse_name(Parser *p) {
	const char *start = p->at;
	while (is_letter(*p->at) || is_digit(*p->at))
		p->at++;
	size_t n = (size_t)(p->at - start);
	char *word = arena_alloc(p->m->arena, n + 1);
	memcpy(word, start, n);
	if (strcmp(word, "cdiv") == 0)
		return parse_call(p, EXPR_CDIV);
	if (strcmp(word, "next_pow2") == 0)
		return parse_call(p, EXPR_NEXT_POW2);
	if (strcmp(word, "min") == 0)
		return parse_call(p, EXPR_MIN);
	if (strcmp(word, "max") == 0)
		return parse_call(p, EXPR_MAX);
	ExprId e = symbol_named(p->m, word);
	return e == NONE ? unknown_symbol(p, start, word) : e;
}

static ExprId parse_atom(Parser *p) {
	skip_space(p);
	if (accept(p, "-")) {
		if (is_digit(*p->at))
			return parse_int(p, -1);
		ExprId zero = expr_int(p->m, 0), e = parse_factor(p);
		return make(p, EXPR_SUB, zero, e);
	}
	if (accept(p, "(")) {
		ExprId e = parse_sum(p);
		return e == NONE || accept(p, ")") ? e : fail(p, "expected ')'");
	}
	if (is_digit(*p->at))
		return parse_int(p, 1);
	if (is_letter(*p->at))
		return parse_name(p);
	if (*p->at == '\0')
		return fail(p, "unexpected end");
	return fail(p, "unexpected character");
}

static ExprId parse_factor(Parser *p) {
	if (++p->depth > EXPR_DEPTH_MAX)
		return fail(p, "more than 200 levels of nesting");
	ExprId e = parse_atom(p);
	p->depth--;
	return e;
}

static ExprId parse_term(Parser *p) {
	ExprId e = parse_factor(p);
	while (e != NONE) {
		if (accept(p, "//"))
			e = make(p, EXPR_FLOORDIV, e, parse_factor(p));
		else if (accept(p, "*"))
			e = make(p, EXPR_MUL, e, parse_factor(p));
		else if (accept(p, "%"))
			e = make(p, EXPR_MOD, e, parse_factor(p));
		else
			break;
	}
	return e;
}

static ExprId parse_sum(Parser *p) {
	ExprId e = parse_term(p);
	while (e != NONE) {
		if (accept(p, "+"))
			e = make(p, EXPR_ADD, e, parse_term(p));
		else if (accept(p, "-"))
			e = make(p, EXPR_SUB, e, parse_term(p));
		else
			break;
	}
	return e;
}

ExprId expr_parse(Module *m, const char *text, const char **error) {
	Parser p = {.m = m, .text = text, .at = text};
	ExprId alone = symbol_named(m, text); /* most are */
	*error = NULL;
	if (alone != NONE)
		return alone;
	ExprId e = parse_sum(&p);
	skip_space(&p);
	if (e != NONE && *p.at != '\0')
		e = fail(&p, *p.at == '/' ? "unexpected '/' (integer division is '//')" : "unexpected text");
	*error = p.error;
	return e;
}
