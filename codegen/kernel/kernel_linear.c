/* kernel_linear.c - an int as a number and multiples of ints of which nothing is known. */
#include "kernel.h"

static void add_term(Linear *to, ValueId v, int64_t by) {
	uint32_t i = 0;
	while (i < to->terms && to->term[i] != v)
		i++;
	to->known = to->known && i < LINEAR_TERMS;
	if (!to->known)
		return;
	if (i == to->terms) {
		to->term[i] = v;
		to->by[i] = 0;
		to->terms++;
	}
	to->by[i] += by;
}

void linear_add_value(const Kernel *k, StmtId call, Linear *to, ValueId v, int64_t by) {
	const KFunction *f = call == NONE ? NULL : &k->functions.at[kernel_stmt(k, call)->function];
	StmtId def = k->values.at[v].def;
	for (uint32_t i = 0; f && i < f->parameters.count; i++)
		if (f->parameters.at[i].kind == PARAMETER_VALUE && f->parameters.at[i].id == v) {
			to->known = to->known && kernel_arg(k, call, i)->kind == KARG_INT;
			if (to->known)
				linear_add(k, call, to, kernel_arg(k, call, i)->index, by);
			return;
		}
	if (def != NONE && kernel_stmt(k, def)->op == K_INT && kernel_arg(k, def, 0)->kind == KARG_INT)
		linear_add(k, call, to, kernel_arg(k, def, 0)->index, by);
	else
		add_term(to, v, by);
}

void linear_add(const Kernel *k, StmtId call, Linear *to, IntId id, int64_t by) {
	const KInt *i = &k->ints.at[id];
	int64_t number;
	switch (i->kind) {
	case INT_CONST: to->number += by * i->number; break;
	case INT_VALUE: linear_add_value(k, call, to, i->value, by); break;
	case INT_NEG: linear_add(k, call, to, i->a, -by); break;
	case INT_ADD:
	case INT_SUB:
		linear_add(k, call, to, i->a, by);
		linear_add(k, call, to, i->b, i->kind == INT_ADD ? by : -by);
		break;
	case INT_MUL:
		if (int_is_const(k, i->b, &number))
			linear_add(k, call, to, i->a, by * number);
		else if (int_is_const(k, i->a, &number))
			linear_add(k, call, to, i->b, by * number);
		else
			to->known = false;
		break;
	default: to->known = false;
	}
}

bool linear_is_number(const Linear *x) {
	bool number = x->known;
	for (uint32_t i = 0; i < x->terms; i++)
		number = number && x->by[i] == 0;
	return number;
}
