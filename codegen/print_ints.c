/* print_ints.c - integer expressions as Python. */
#include "printer.h"

static PyExpr infix(Printer *pr, const KInt *i, const char *op, Precedence p) {
	Precedence left = p == PREC_COMPARE ? PREC_OR : p;
	return (PyExpr){
		arena_printf(pr->a, "%s %s %s", int_text(pr, i->a, left), op, int_text(pr, i->b, (Precedence)(p + 1))),
		p};
}

static PyExpr call(Printer *pr, const KInt *i, const char *function) {
	return py_atom(arena_printf(pr->a, "%s(%s, %s)", function, int_text(pr, i->a, PREC_LOWEST),
	                            int_text(pr, i->b, PREC_LOWEST)));
}

static PyExpr value(Printer *pr, ValueId v) {
	KArg arg = karg_value(v);
	return py_atom(in_parens(pr, print_arg(pr, &arg), PREC_ATOM));
}

/* Of a flag, which Python knows, the one or the other; of a condition, which a run may decide, what it selects. */
static PyExpr choice(Printer *pr, const KInt *i) {
	const char *yes = int_text(pr, i->b, PREC_COMPARE), *no = int_text(pr, i->c, PREC_LOWEST);
	if (pr->k->ints.at[i->a].kind != INT_VALUE)
		return py_atom(arena_printf(pr->a, "jnp.where(%s, %s, %s)", int_text(pr, i->a, PREC_LOWEST),
		                            int_text(pr, i->b, PREC_LOWEST), no));
	return (PyExpr){arena_printf(pr->a, "%s if %s else %s", yes, int_text(pr, i->a, PREC_COMPARE), no),
	                PREC_LOWEST};
}

PyExpr print_int(Printer *pr, IntId id) {
	KInt i = pr->k->ints.at[id];
	if (pr->slice && id == pr->slice_start)
		return py_atom(arena_printf(pr->a, "%s.start", pr->slice));
	switch (i.kind) {
	case INT_CONST: return py_atom(arena_printf(pr->a, "%lld", (long long)i.number));
	case INT_VALUE: return value(pr, i.value);
	case INT_NEG: return (PyExpr){arena_printf(pr->a, "-%s", int_text(pr, i.a, PREC_MUL)), PREC_MUL};
	case INT_ADD: return infix(pr, &i, "+", PREC_ADD);
	case INT_SUB: return infix(pr, &i, "-", PREC_ADD);
	case INT_MUL: return infix(pr, &i, "*", PREC_MUL);
	case INT_DIV: return call(pr, &i, "jax.lax.div");
	case INT_REM: return call(pr, &i, "jax.lax.rem");
	case INT_CDIV: return call(pr, &i, "pl.cdiv");
	case INT_MIN: return call(pr, &i, "jnp.minimum");
	case INT_MAX: return call(pr, &i, "jnp.maximum");
	case INT_EQ: return infix(pr, &i, "==", PREC_COMPARE);
	case INT_LT: return infix(pr, &i, "<", PREC_COMPARE);
	case INT_LE: return infix(pr, &i, "<=", PREC_COMPARE);
	case INT_GT: return infix(pr, &i, ">", PREC_COMPARE);
	case INT_GE: return infix(pr, &i, ">=", PREC_COMPARE);
	case INT_AND: return infix(pr, &i, "&", PREC_AND);
	case INT_CHOOSE: return choice(pr, &i);
	case INT_TURN: break;
	}
	return py_atom(arena_printf(pr->a, "%s(%s, %s, %s)", helper_named(pr, "_back_and_forth"),
	                            int_text(pr, i.a, PREC_LOWEST), int_text(pr, i.b, PREC_LOWEST),
	                            int_text(pr, i.c, PREC_LOWEST)));
}

const char *int_text(Printer *pr, IntId i, Precedence around) { return in_parens(pr, print_int(pr, i), around); }
