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

IntId build_clamped(Builder *b, IntId x, int64_t low, int64_t high) {
	if (low == high) /* known where Mosaic asks for a position among lanes */
		return int_const(b->k, low);
	return int_binary(b->k, INT_MIN, int_binary(b->k, INT_MAX, x, int_const(b->k, low)), int_const(b->k, high));
}

/* Of a window, which stands nowhere yet, the element itself; else a load of it. */
static IntId table_element(Builder *b, const Access *access, const IntId *at) {
	BufferId table = b->operand[access->operand];
	KDim dims[DIM_MAX];
	if (b->ahead != NONE)
		return int_element(b->k, table, at);
	for (uint32_t d = 0; d < access->rank; d++)
		dims[d] = (KDim){.kind = KDIM_AT, .start = at[d]};
	KArg ref = karg_ref(kernel_ref(b->k, table, access->rank, dims));
	return int_value(b->k, build_shaped(b, K_LOAD, b->k->buffers.at[table].dtype, 0, NULL, 1, &ref).value);
}

static bool is_ahead(const Builder *b, NodeId n) {
	GraphId g = node_get(b->m, n)->graph;
	while (b->ahead != NONE && g != NONE && g != b->ahead)
		g = graph_parent(b->m, g);
	return b->ahead != NONE && g == b->ahead && node_get(b->m, n)->op != OP_SCALAR;
}

/* What a step will compute, before it does: an element of a table, maybe clamped (positions.c). */
static IntId ahead_int(Builder *b, NodeId n) {
	IntId at[DIM_MAX];
	Planner p = build_planner(b);
	if (node_get(b->m, n)->op == OP_CLAMP) {
		Affine x = affine_of_arg(&p, node_get(b->m, n)->graph, node_arg(b->m, n, 0));
		return build_clamped(b, build_affine(b, &x), node_arg(b->m, n, 1)->integer,
		                     node_arg(b->m, n, 2)->integer);
	}
	const Access *access = b->plan->values[n].access;
	for (uint32_t d = 0; d < access->rank; d++)
		at[d] = build_affine(b, &access->dim[d].start);
	return int_element(b->k, b->operand[access->operand], at);
}

static IntId term_int(Builder *b, const Term *t) {
	IntId x = t->kind == VAR_PROGRAM ? int_value(b->k, b->program[t->id])
	          : t->kind == VAR_STEP  ? b->step[t->id]
	          : t->kind == VAR_PLACE ? b->place[t->id % RANK_MAX]
	          : is_ahead(b, t->id)   ? ahead_int(b, t->id)
	                                 : node_int(b, t->id);
	if (t->divide)
		x = int_binary(b->k, INT_DIV, x, int_const(b->k, t->divide));
	return t->modulo ? int_binary(b->k, INT_REM, x, int_const(b->k, t->modulo)) : x;
}

/* The table's element; the last ones of a tile may be past its end. `piece`: by dim of n's value. */
IntId build_table_place(Builder *b, NodeId n, const IntId *piece) {
	if (node_get(b->m, n)->op == OP_CLAMP)
		return build_clamped(b, build_table_place(b, node_arg(b->m, n, 0)->node, piece),
		                     node_arg(b->m, n, 1)->integer, node_arg(b->m, n, 2)->integer);
	const Access *access = b->plan->values[n].access;
	const Operand *o = &b->plan->operands.at[access->operand];
	IntId at[DIM_MAX];
	for (uint32_t d = 0; d < access->rank; d++) {
		const SliceDim *s = &access->dim[d];
		at[d] = build_affine(b, &s->start);
		if (s->kind == SLICE_AT)
			continue;
		at[d] = int_binary(b->k, INT_ADD, at[d], *piece++);
		if (!affine_multiple(&s->start, s->size) || o->shape[d] % s->size)
			at[d] = int_binary(b->k, INT_MIN, at[d], int_const(b->k, o->shape[d] - 1));
	}
	return table_element(b, access, at);
}

IntId build_place(Builder *b, NodeId places, ValueId piece, int64_t extent) {
	const IntId at = int_value(b->k, piece);
	IntId place = build_table_place(b, places, &at);
	return b->m->assume_in_bounds ? place : build_clamped(b, place, 0, extent - 1);
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
