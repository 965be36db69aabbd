/* expand_folds.c - what Mosaic folds away before it takes registers apart: ops on constants, of which nothing comes,
 * that a matmul takes up, or that other ops have computed as well. */
#include <math.h>
#include "expand.h"

/* Of numbers alone. */
static bool is_constant(Expander *e, const KStmt *s) {
	double number;
	for (uint32_t i = 0; i < s->arg_count; i++)
		if (e->k->args.at[s->arg_first + i].kind == KARG_VALUE && !argument_number(e, s, i, &number))
			return false;
	return true;
}

/* Of ints with this number as argument i the other argument comes. */
static bool changes_nothing(const KStmt *s, uint32_t i, double number) {
	switch (s->op) {
	case OP_MUL: return number == 1;
	case OP_ADD:
	case OP_BITWISE_OR:
	case OP_BITWISE_XOR: return number == 0;
	case OP_SUB:
	case OP_LSHIFT:
	case OP_RSHIFT: return i == 1 && number == 0;
	default: return false;
	}
}

/* Of all numbers the least of a maximum, the greatest of a minimum. */
static bool is_least(const KStmt *s, double number) {
	return isinf(number) && ((s->op == OP_MAXIMUM && number < 0) || (s->op == OP_MINIMUM && number > 0));
}

/* Argument i is added to a matmul's product into nothing: the matmul begins with it. A constant may come first. */
static bool taken_up(Expander *e, const KStmt *s, uint32_t i, bool constant, double number) {
	const RegisterForm *f = &expand_traced(e, s, 1 - i)->form;
	if (s->op != OP_ADD || !f->product || (i == 0 && !constant))
		return false;
	const KValue *added = constant ? NULL : expand_tile(e, s, i);
	if (added)
		spread(e, added, expand_traced(e, s, i), &expand_traced(e, s, i)->form, result_of(e, s), f->rows);
	*result_form(e, s) = *f;
	result_form(e, s)->product = constant && number == 0;
	return true;
}

bool expand_folded(Expander *e, const KStmt *s) {
	double number = NAN;
	if (is_constant(e, s)) {
		result_form(e, s)->splat = true;
		result_form(e, s)->number = NAN;
		return true;
	}
	if (s->op == OP_WHERE && expand_tile(e, s, 1) && argument_key(e, 1, s, 1) == argument_key(e, 1, s, 2) &&
	    e->trace) {
		e->values[s->result] = *expand_traced(e, s, 1); /* of two equal ones */
		return true;
	}
	for (uint32_t i = 0; i < 2 && s->arg_count == 2; i++) {
		bool constant = argument_number(e, s, i, &number);
		const KValue *x = expand_tile(e, s, 1 - i);
		if (!x)
			continue;
		bool ints = !dtype_is_float(x->dtype) && x->dtype == result_of(e, s)->dtype;
		if (constant && ((ints && changes_nothing(s, i, number)) || is_least(s, number))) {
			*result_form(e, s) = expand_traced(e, s, 1 - i)->form;
			return true;
		}
		if (taken_up(e, s, i, constant, number))
			return true;
	}
	return false;
}

/* What an op computes of its argument that another op computes as well: the second has less to do. */
typedef struct Shared {
	uint16_t op, with;
	Known op_has, with_has;
} Shared;

static const Shared shares[] = {
	{OP_EXPM1, OP_EXP, {0, 1, 0}, {0, 1, 0}},      {OP_EXPM1, OP_ABS, {1, 0, 0}, {1, 0, 0}},
	{OP_LOG2, OP_LOG, {0, 1, 0}, {0, 1, 0}},       {OP_LOG10, OP_LOG, {0, 1, 0}, {0, 1, 0}},
	{OP_TRUNC, OP_FLOOR, {0, 1, 0}, {0, 1, 0}},    {OP_TRUNC, OP_CEIL, {0, 1, 0}, {0, 1, 0}},
	{OP_REMAINDER, OP_FMOD, {0, 1, 0}, {0, 1, 0}}, {OP_ASINH, OP_SINH, {1, 0, 2}, {1, 0, 2}},
};

static void known_add(Known *to, const Known *x) {
	to->floats += x->floats;
	to->functions += x->functions;
	to->compares += x->compares;
}

Known expand_known(Expander *e, const KStmt *s) {
	Known known = {0};
	bool asked = false;
	for (uint32_t i = 0; e->trace && i < sizeof shares / sizeof *shares; i++) {
		const Shared *x = &shares[i];
		if (s->op == x->op && computed_before(e, argument_key(e, x->with, s, 0)))
			known_add(&known, &x->op_has);
		if (s->op != x->with || asked)
			continue;
		asked = true;
		if (computed_before(e, argument_key(e, x->with, s, 0)))
			known_add(&known, &x->with_has);
	}
	return known;
}

/* Nothing else reads argument i. */
static bool alone(const Expander *e, const KStmt *s, uint32_t i) {
	return e->uses && e->uses[e->k->args.at[s->arg_first + i].value] == 1;
}

/* A number added to a sum with another one: both are added at once. */
static void chain_sum(Expander *e, const KStmt *s, double n) {
	double number;
	Traced *out = &e->values[s->result];
	for (uint32_t i = 0; i < (s->op == OP_SUB ? 1 : 2); i++) {
		const KValue *x = expand_tile(e, s, i);
		if (!x || dtype_is_float(x->dtype) || !argument_number(e, s, 1 - i, &number))
			continue;
		const Traced *v = expand_traced(e, s, i);
		bool chained = v->summed && alone(e, s, i);
		out->summed = true;
		out->added = (chained ? v->added : 0) + (s->op == OP_ADD ? (int64_t)number : -(int64_t)number);
		if (chained)
			count_operations(e, RO_INT, out->added & 0xffffffff ? -n : -2 * n);
		return;
	}
}

/* Of a choice within one by the same mask one is left. */
static void nest_choice(Expander *e, const KStmt *s, double n) {
	if (!expand_tile(e, s, 0))
		return;
	uint64_t by = expand_traced(e, s, 0)->id;
	e->values[s->result].chosen = by;
	if (expand_tile(e, s, 1) && expand_traced(e, s, 1)->chosen == by && alone(e, s, 1))
		count_operations(e, RO_SELECT, -n);
}

void expand_chained(Expander *e, const KStmt *s, double n) {
	if (!e->trace)
		return;
	if (s->op == OP_ADD || s->op == OP_SUB)
		chain_sum(e, s, n);
	if (s->op == OP_WHERE)
		nest_choice(e, s, n);
}
