/* print_ints.c - integer expressions as Python. */
#include "printer.h"

static Precedence infix(Printer *pr, Text *out, const KInt *i, const char *op, Precedence p) {
	put_int_in(pr, out, i->a, p == PREC_COMPARE ? PREC_OR : p);
	text_put(out, op);
	put_int_in(pr, out, i->b, (Precedence)(p + 1));
	return p;
}

static Precedence call(Printer *pr, Text *out, uint32_t count, const IntId *args, const char *function) {
	text_put(out, function);
	for (uint32_t i = 0; i < count; i++) {
		text_putn(out, i ? ", " : "(", i ? 2 : 1);
		put_int(pr, out, args[i]);
	}
	text_put(out, ")");
	return PREC_ATOM;
}

static Precedence value(Printer *pr, Text *out, ValueId v) {
	KArg arg = karg_value(v);
	put_arg_in(pr, out, &arg, PREC_ATOM);
	return PREC_ATOM;
}

/* Of a flag, which Python knows, the one or the other; of a condition, which a run may decide, what it selects. */
static Precedence choice(Printer *pr, Text *out, const KInt *i) {
	if (pr->k->ints.at[i->a].kind != INT_VALUE)
		return call(pr, out, 3, (const IntId[]){i->a, i->b, i->c}, "jnp.where");
	put_int_in(pr, out, i->b, PREC_COMPARE);
	text_put(out, " if ");
	put_int_in(pr, out, i->a, PREC_COMPARE);
	text_put(out, " else ");
	put_int(pr, out, i->c);
	return PREC_LOWEST;
}

const Slice *slice_from(const Printer *pr, IntId start, int64_t size) {
	const Slice *s = pr->slice;
	while (s && (s->start != start || (size && s->size != size)))
		s = s->outer;
	return s;
}

Precedence put_int(Printer *pr, Text *out, IntId id) {
	KInt i = pr->k->ints.at[id];
	const IntId args[] = {i.a, i.b, i.c};
	const Slice *slice = slice_from(pr, id, 0);
	if (slice) {
		text_put(out, slice->var);
		text_put(out, ".start");
		return PREC_ATOM;
	}
	switch (i.kind) {
	case INT_CONST: text_put_int(out, i.number); return PREC_ATOM;
	case INT_VALUE: return value(pr, out, i.value);
	case INT_NEG:
		text_put(out, "-");
		put_int_in(pr, out, i.a, PREC_MUL);
		return PREC_MUL;
	case INT_ADD: return infix(pr, out, &i, " + ", PREC_ADD);
	case INT_SUB: return infix(pr, out, &i, " - ", PREC_ADD);
	case INT_MUL: return infix(pr, out, &i, " * ", PREC_MUL);
	case INT_DIV: return call(pr, out, 2, args, "jax.lax.div");
	case INT_REM: return call(pr, out, 2, args, "jax.lax.rem");
	case INT_CDIV: return call(pr, out, 2, args, "pl.cdiv");
	case INT_MIN: return call(pr, out, 2, args, "jnp.minimum");
	case INT_MAX: return call(pr, out, 2, args, "jnp.maximum");
	case INT_EQ: return infix(pr, out, &i, " == ", PREC_COMPARE);
	case INT_LT: return infix(pr, out, &i, " < ", PREC_COMPARE);
	case INT_LE: return infix(pr, out, &i, " <= ", PREC_COMPARE);
	case INT_GT: return infix(pr, out, &i, " > ", PREC_COMPARE);
	case INT_GE: return infix(pr, out, &i, " >= ", PREC_COMPARE);
	case INT_AND: return infix(pr, out, &i, " & ", PREC_AND);
	case INT_CHOOSE: return choice(pr, out, &i);
	case INT_DEVICE: text_printf(out, "jax.lax.axis_index(\"%s\")", pr->k->mesh_axis); return PREC_ATOM;
	case INT_FIRST: text_printf(out, "pl.program_id(%lld) == 0", (long long)i.number); return PREC_COMPARE;
	case INT_LATER: text_printf(out, "pl.program_id(%lld) > 0", (long long)i.number); return PREC_COMPARE;
	case INT_TURN: break;
	}
	return call(pr, out, 3, args, helper_named(pr, "_back_and_forth"));
}

void put_int_in(Printer *pr, Text *out, IntId i, Precedence around) {
	size_t start = out->length;
	put_parens(out, start, put_int(pr, out, i), around);
}
