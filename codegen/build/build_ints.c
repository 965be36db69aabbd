/* build_ints.c - integers of the Plan as integers of the kernel. */
#include "builder.h"

/* A run-time scalar has no variable of its own: it is read here. */
static IntId node_int(Builder *b, NodeId n) {
	NodeId root = value_root(b->plan, n);
	KArg x = b->value[root].kind != KARG_NONE ? b->value[root] : build_value(b, n, FORM_NATURAL);
	switch (x.kind) {
	case KARG_VALUE: return int_value(b->k, x.value);
	case KARG_INT: return x.index;
	default: return int_const(b->k, x.integer);
	}
}

static IntId term_int(Builder *b, const Term *t) {
	IntId x = t->kind == VAR_PROGRAM ? int_value(b->k, b->program[t->id])
	          : t->kind == VAR_STEP  ? b->step[t->id]
	                                 : node_int(b, t->id);
	if (t->divide)
		x = int_binary(b->k, INT_DIV, x, int_const(b->k, t->divide));
	return t->modulo ? int_binary(b->k, INT_REM, x, int_const(b->k, t->modulo)) : x;
}

IntId build_affine(Builder *b, const Affine *a) {
	Kernel *k = b->k;
	IntId sum = NONE;
	if (a->count == 0 || (a->term[0].scale < 0 && a->constant != 0))
		sum = int_const(k, a->constant);
	bool first = sum != NONE;
	for (uint32_t i = 0; i < a->count; i++) {
		int64_t scale = a->term[i].scale;
		IntId x = term_int(b, &a->term[i]);
		if (scale != 1 && scale != -1)
			x = int_binary(k, INT_MUL, x, int_const(k, scale < 0 ? -scale : scale));
		sum = sum == NONE ? scale < 0 ? int_binary(k, INT_NEG, x, NONE) : x
		                  : int_binary(k, scale < 0 ? INT_SUB : INT_ADD, sum, x);
	}
	if (a->constant == 0 || first)
		return sum;
	return int_binary(k, a->constant < 0 ? INT_SUB : INT_ADD, sum,
	                  int_const(k, a->constant < 0 ? -a->constant : a->constant));
}

IntId build_divided(Builder *b, const Affine *a, int64_t by, bool rest) {
	IntId x = build_affine(b, a);
	return by == 1 && !affine_is_int(a) ? x : int_binary(b->k, rest ? INT_REM : INT_DIV, x, int_const(b->k, by));
}

KArg build_int_arg(Builder *b, IntId i) {
	int64_t number;
	return int_is_const(b->k, i, &number) ? karg_integer(number) : karg_int(i);
}
