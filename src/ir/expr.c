/* expr.c - sizes: expressions over ints, block symbols and tunables. Hash-consed, folded where constant, evaluated once
 * under the configuration (config.c computes `number` for all of them; an expression made later gets it at once). */
#include "ir.h"

/* ---- making ----------------------------------------------------------------------------------------------------- */

static uint32_t expr_hash(const Expr *e) {
	uint64_t h = (uint64_t)e->value * 0x9e3779b97f4a7c15u;
	h ^= ((uint64_t)e->a << 32 | e->b) * 0xc2b2ae3d27d4eb4fu;
	h = (h ^ h >> 29 ^ (uint64_t)e->kind) * 0xbf58476d1ce4e5b9u;
	return (uint32_t)(h >> 32);
}

static uint32_t expr_slot(const Module *m, const Expr *e) {
	uint32_t mask = m->expr_table.room - 1, i = expr_hash(e) & mask;
	for (; m->expr_table.slot[i]; i = (i + 1) & mask) {
		const Expr *x = &m->exprs.at[m->expr_table.slot[i] - 1];
		if (x->kind == e->kind && x->a == e->a && x->b == e->b && x->value == e->value)
			break;
	}
	return i;
}

static void expr_rehash(Module *m) {
	m->expr_table.room = m->expr_table.room ? m->expr_table.room * 2 : 64;
	m->expr_table.slot = arena_array(m->arena, m->expr_table.room, sizeof(uint32_t));
	for (uint32_t i = 0; i < m->exprs.count; i++)
		m->expr_table.slot[expr_slot(m, &m->exprs.at[i])] = i + 1;
}

static ExprId expr_cons(Module *m, Expr e) {
	if (m->exprs.count >= m->expr_table.room / 2)
		expr_rehash(m);
	uint32_t i = expr_slot(m, &e);
	if (!m->expr_table.slot[i]) {
		vec_push(m->arena, &m->exprs, e);
		m->expr_table.slot[i] = m->exprs.count;
	}
	return m->expr_table.slot[i] - 1;
}

ExprId expr_int(Module *m, int64_t value) {
	return expr_cons(
		m, (Expr){.kind = EXPR_INT, .a = NONE, .b = NONE, .value = value, .number = value, .known = true});
}

ExprId expr_block(Module *m, BlockId b) {
	Expr e = {.kind = EXPR_BLOCK, .a = NONE, .b = NONE, .value = b};
	if (m->configured && b < m->block_size.count) {
		e.number = m->block_size.at[b];
		e.known = true;
	}
	return expr_cons(m, e);
}

ExprId expr_tunable(Module *m, TunableId t) {
	Expr e = {.kind = EXPR_TUNABLE, .a = NONE, .b = NONE, .value = t};
	if (m->configured && t < m->config.tunables.count) {
		e.number = m->config.tunables.at[t];
		e.known = true;
	}
	return expr_cons(m, e);
}

static bool next_pow2(int64_t a, int64_t *out) {
	int64_t p = 1;
	while (p < a)
		if (!checked_mul(p, 2, &p))
			return false;
	*out = p;
	return true;
}

/* -(-a // b), as Python writes it: no intermediate sum that could overflow. */
static bool checked_cdiv(int64_t a, int64_t b, int64_t *out) {
	int64_t q;
	return checked_sub(0, a, &a) && checked_floordiv(a, b, &q) && checked_sub(0, q, out);
}

bool expr_apply(ExprKind kind, int64_t a, int64_t b, int64_t *out) {
	switch (kind) {
	case EXPR_ADD: return checked_add(a, b, out);
	case EXPR_SUB: return checked_sub(a, b, out);
	case EXPR_MUL: return checked_mul(a, b, out);
	case EXPR_FLOORDIV: return checked_floordiv(a, b, out);
	case EXPR_MOD: return checked_mod(a, b, out);
	case EXPR_CDIV: return checked_cdiv(a, b, out);
	case EXPR_MIN: *out = int_min(a, b); return true;
	case EXPR_MAX: *out = int_max(a, b); return true;
	case EXPR_NEXT_POW2: return next_pow2(a, out);
	case EXPR_INT:
	case EXPR_BLOCK:
	case EXPR_TUNABLE: break;
	}
	return false;
}

/* x + 0, x * 1, x // 1 and the like are x; NONE where no such rule applies. */
static ExprId expr_identity(const Module *m, ExprKind kind, ExprId a, ExprId b) {
	switch (kind) {
	case EXPR_ADD: return expr_is_int(m, b, 0) ? a : expr_is_int(m, a, 0) ? b : NONE;
	case EXPR_SUB: return expr_is_int(m, b, 0) ? a : NONE;
	case EXPR_MUL: return expr_is_int(m, b, 1) ? a : expr_is_int(m, a, 1) ? b : NONE;
	case EXPR_FLOORDIV:
	case EXPR_CDIV: return expr_is_int(m, b, 1) ? a : NONE;
	case EXPR_MIN:
	case EXPR_MAX: return a == b ? a : NONE;
	default: return NONE;
	}
}

/* Evaluates where the operands' values are known; a constant expression that overflows stays unfolded and unknown. */
static ExprId expr_make(Module *m, ExprKind kind, ExprId a, ExprId b) {
	Expr e = {.kind = kind, .a = a, .b = b};
	Expr left = m->exprs.at[a], right = b == NONE ? left : m->exprs.at[b];
	if (left.known && right.known)
		e.known = expr_apply(kind, left.number, right.number, &e.number);
	if (e.known && left.kind == EXPR_INT && right.kind == EXPR_INT)
		return expr_int(m, e.number);
	return expr_cons(m, e);
}

ExprId expr_binary(Module *m, ExprKind kind, ExprId a, ExprId b) {
	ExprId same = expr_identity(m, kind, a, b);
	return same != NONE ? same : expr_make(m, kind, a, b);
}

ExprId expr_next_pow2(Module *m, ExprId a) { return expr_make(m, EXPR_NEXT_POW2, a, NONE); }

ExprId expr_sized(Module *m, ExprId e, BlockId b, ExprId size) {
	Expr x = m->exprs.at[e];
	if (x.kind == EXPR_BLOCK && x.value == (int64_t)b)
		return size;
	if (x.kind == EXPR_INT || x.kind == EXPR_BLOCK || x.kind == EXPR_TUNABLE)
		return e;
	ExprId left = expr_sized(m, x.a, b, size);
	return expr_make(m, x.kind, left, x.b == NONE ? NONE : expr_sized(m, x.b, b, size));
}

/* ---- asking ----------------------------------------------------------------------------------------------------- */

/* A constant in it is none: of ints that overflow, or divide by zero. What it is made of was asked before, so that a
 * few levels tell. */
static bool overflows_within(const Module *m, ExprId e, int levels) {
	const Expr *x = &m->exprs.at[e];
	if (levels == 0 || x->kind == EXPR_INT || x->kind == EXPR_BLOCK || x->kind == EXPR_TUNABLE)
		return false;
	bool ints = m->exprs.at[x->a].kind == EXPR_INT && (x->b == NONE || m->exprs.at[x->b].kind == EXPR_INT);
	return (ints && !x->known) || overflows_within(m, x->a, levels - 1) ||
	       (x->b != NONE && overflows_within(m, x->b, levels - 1));
}

bool expr_overflows(const Module *m, ExprId e) { return overflows_within(m, e, 4); }

bool expr_value(const Module *m, ExprId e, int64_t *value) {
	if (e == NONE)
		return false;
	const Expr *x = &m->exprs.at[e];
	if (m->sizes_asked)
		*m->sizes_asked |= x->kind != EXPR_INT;
	if (x->known)
		*value = x->number;
	return x->known;
}

bool expr_equal(const Module *m, ExprId a, ExprId b) {
	int64_t x, y;
	return a == b || (expr_value(m, a, &x) && expr_value(m, b, &y) && x == y);
}

/* ---- printing --------------------------------------------------------------------------------------------------- */

typedef struct ExprSyntax {
	const char *text;
	int precedence; /* 1: + -, 2: * // %, 3: calls and atoms */
} ExprSyntax;

static ExprSyntax expr_syntax(ExprKind kind) {
	switch (kind) {
	case EXPR_ADD: return (ExprSyntax){" + ", 1};
	case EXPR_SUB: return (ExprSyntax){" - ", 1};
	case EXPR_MUL: return (ExprSyntax){" * ", 2};
	case EXPR_FLOORDIV: return (ExprSyntax){" // ", 2};
	case EXPR_MOD: return (ExprSyntax){" % ", 2};
	case EXPR_CDIV: return (ExprSyntax){"cdiv", 3};
	case EXPR_MIN: return (ExprSyntax){"min", 3};
	case EXPR_MAX: return (ExprSyntax){"max", 3};
	case EXPR_NEXT_POW2: return (ExprSyntax){"next_pow2", 3};
	case EXPR_INT:
	case EXPR_BLOCK:
	case EXPR_TUNABLE: break;
	}
	return (ExprSyntax){"", 3};
}

/* The recursion is bounded: expr_parse() limits operators and nesting. */
static void expr_print_at(const Module *m, ExprId id, int precedence, bool names, Text *out) {
	const Expr *e = &m->exprs.at[id];
	ExprSyntax syntax = expr_syntax(e->kind);
	if (e->kind == EXPR_INT) {
		text_printf(out, "%lld", (long long)e->value);
	} else if (e->kind == EXPR_BLOCK) {
		text_put(out, names ? m->blocks.at[e->value].name : m->blocks.at[e->value].symbol);
	} else if (e->kind == EXPR_TUNABLE) {
		text_put(out, m->tunables.at[e->value].name);
	} else if (syntax.precedence == 3) {
		text_printf(out, "%s(", syntax.text);
		expr_print_at(m, e->a, 0, names, out);
		if (e->b != NONE) {
			text_put(out, ", ");
			expr_print_at(m, e->b, 0, names, out);
		}
		text_put(out, ")");
	} else {
		if (syntax.precedence < precedence)
			text_put(out, "(");
		expr_print_at(m, e->a, syntax.precedence, names, out);
		text_put(out, syntax.text);
		expr_print_at(m, e->b, syntax.precedence + 1, names, out);
		if (syntax.precedence < precedence)
			text_put(out, ")");
	}
}

void expr_print(const Module *m, ExprId e, Text *out) { expr_print_at(m, e, 0, false, out); }

const char *expr_named(const Module *m, Arena *a, ExprId e) {
	Text t;
	text_init(&t, a);
	expr_print_at(m, e, 0, true, &t);
	return t.at;
}

const char *expr_string(Module *m, ExprId e) {
	Text t;
	text_init(&t, m->arena);
	expr_print(m, e, &t);
	return string_intern(m->arena, &m->strings, t.at);
}
