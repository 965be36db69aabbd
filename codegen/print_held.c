/* print_held.c - what the first and the last of the grid points that find a held block do with it (held.c). */
#include "printer.h"

PyExpr held_initial_text(Printer *pr, const Operand *o, Dtype dtype) {
	Text out;
	text_init(&out, pr->a);
	if (dtype_is_float(dtype))
		py_put_float(&out, o->held->value);
	else
		text_printf(&out, "%lld", (long long)o->held->value);
	return (PyExpr){out.at, out.at[0] == '-' ? PREC_UNARY : PREC_ATOM};
}

static const char *filled_text(Printer *pr, const Operand *o, Dtype dtype) {
	const char *shape = shape_text(pr, o->rank, o->block);
	if (o->held->value == 0)
		return arena_printf(pr->a, "jnp.zeros(%s, %s)", shape, dtype_jnp(dtype));
	return arena_printf(pr->a, "jnp.full(%s, %s, %s)", shape, held_initial_text(pr, o, dtype).text,
	                    dtype_jnp(dtype));
}

static void print_first_visit(Printer *pr, uint32_t index) {
	const Operand *o = &pr->plan->operands.at[index];
	const Held *held = o->held;
	bool sums = held->accumulator != NONE;
	const char *ref = sums ? pr->scratch[held->accumulator] : pr->refs[index];
	Dtype dtype = sums ? pr->plan->scratches.at[held->accumulator].dtype : o->dtype;
	PyExpr from = {filled_text(pr, o, dtype), PREC_ATOM};
	if (held->initial == INITIAL_COPY)
		from = converted_text(pr, (PyExpr){arena_printf(pr->a, "%s[...]", pr->refs[held->from]), PREC_ATOM},
		                      o->dtype, dtype);
	py_line(&pr->w, "%s[...] = %s", ref, from.text);
}

static void print_last_visit(Printer *pr, uint32_t index) {
	const Operand *o = &pr->plan->operands.at[index];
	const Scratch *sums = &pr->plan->scratches.at[o->held->accumulator];
	PyExpr all = {arena_printf(pr->a, "%s[...]", pr->scratch[o->held->accumulator]), PREC_ATOM};
	py_line(&pr->w, "%s[...] = %s", pr->refs[index], converted_text(pr, all, sums->dtype, o->dtype).text);
}

static bool starts(const Operand *o) {
	return o->held && (o->held->initial == INITIAL_VALUE || o->held->initial == INITIAL_COPY);
}

static bool ends(const Operand *o) { return o->held && o->held->accumulator != NONE; }

/* `tile_m == 0`, or `(tile_m == 0) & (tile_n == 0)`; the last steps if not the first. */
static const char *visit_text(Printer *pr, uint32_t revisits, bool first) {
	Text out;
	text_init(&out, pr->a);
	bool many = (revisits & (revisits - 1)) != 0;
	for (uint32_t k = 0; k < pr->plan->grid.count; k++) {
		Affine id = affine_var(pr->a, VAR_PROGRAM, k, 1);
		if (!(revisits >> k & 1))
			continue;
		text_printf(&out, many ? "%s(%s == %lld)" : "%s%s == %lld", out.length ? " & " : "",
		            affine_text(pr, &id, PREC_COMPARE),
		            (long long)(first ? 0 : pr->plan->grid.at[k].steps - 1));
	}
	return out.at;
}

/* What `print` writes for each operand that `wanted` names, those with the same condition together. */
static void print_visits(Printer *pr, bool first, bool (*wanted)(const Operand *), void (*print)(Printer *, uint32_t)) {
	const Plan *p = pr->plan;
	for (uint32_t i = 0; i < p->operands.count; i++) {
		bool done = !wanted(&p->operands.at[i]);
		for (uint32_t k = 0; k < i && !done; k++)
			done = wanted(&p->operands.at[k]) &&
			       p->operands.at[k].held->revisits == p->operands.at[i].held->revisits;
		if (done)
			continue;
		uint32_t revisits = p->operands.at[i].held->revisits;
		if (revisits) {
			py_def(&pr->w);
			py_line(&pr->w, "@pl.when(%s)", visit_text(pr, revisits, first));
			py_line(&pr->w, "def %s():", printer_name(pr, first ? "first_visit" : "last_visit"));
			pr->w.indent++;
		}
		for (uint32_t k = i; k < p->operands.count; k++)
			if (wanted(&p->operands.at[k]) && p->operands.at[k].held->revisits == revisits)
				print(pr, k);
		if (revisits) {
			pr->w.indent--;
			if (first)
				py_blank(&pr->w);
		}
	}
}

void print_first_visits(Printer *pr) { print_visits(pr, true, starts, print_first_visit); }
void print_last_visits(Printer *pr) { print_visits(pr, false, ends, print_last_visit); }
