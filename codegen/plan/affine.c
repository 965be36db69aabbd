/* affine.c - the integers of the kernel: constants plus multiples of program ids and loop steps. */
#include "plan.h"

Affine affine_int(int64_t value) { return (Affine){.constant = value}; }

Affine affine_term(Arena *a, Term t) {
	if (t.scale == 0)
		return affine_int(0);
	Term *term = arena_alloc(a, sizeof *term);
	*term = t;
	return (Affine){.count = 1, .term = term};
}

Affine affine_var(Arena *a, VarKind kind, uint32_t id, int64_t scale) {
	return affine_term(a, (Term){kind, id, scale, 0, 0});
}

int64_t term_value(const Term *t, int64_t value) {
	value = t->divide ? value / t->divide : value;
	return t->scale * (t->modulo ? value % t->modulo : value);
}

int64_t term_last(const Term *t, int64_t last) {
	last = t->divide ? last / t->divide : last;
	return t->modulo ? int_min(last, t->modulo - 1) : last;
}

/* The same variable, and the same part of it. */
static bool term_same(const Term *a, const Term *b) {
	return a->kind == b->kind && a->id == b->id && a->divide == b->divide && a->modulo == b->modulo;
}

/* Adds t to the `count` terms at `term`, which have room for one more; how many there are then. */
static uint32_t add_term(Term *term, uint32_t count, Term t) {
	for (uint32_t i = 0; i < count; i++) {
		if (!term_same(&term[i], &t))
			continue;
		term[i].scale += t.scale;
		if (term[i].scale == 0)
			term[i] = term[--count];
		return count;
	}
	term[count] = t;
	return count + 1;
}

Affine affine_add(Arena *arena, Affine a, Affine b) {
	a.constant += b.constant;
	if (b.count == 0)
		return a;
	Term *term = arena_array(arena, (size_t)a.count + b.count, sizeof *term);
	if (a.count > 0)
		memcpy(term, a.term, a.count * sizeof *term);
	for (uint32_t i = 0; i < b.count; i++)
		a.count = add_term(term, a.count, b.term[i]);
	a.term = term;
	return a;
}

Affine affine_scale(Arena *arena, Affine a, int64_t factor) {
	Affine scaled = {.constant = a.constant * factor};
	if (factor == 0 || a.count == 0)
		return scaled;
	Term *term = arena_array(arena, a.count, sizeof *term);
	for (; scaled.count < a.count; scaled.count++) {
		term[scaled.count] = a.term[scaled.count];
		term[scaled.count].scale *= factor;
	}
	scaled.term = term;
	return scaled;
}

Affine affine_sub(Arena *arena, Affine a, Affine b) { return affine_add(arena, a, affine_scale(arena, b, -1)); }

bool affine_multiple(const Affine *a, int64_t by) {
	bool all = a->constant % by == 0;
	for (uint32_t i = 0; i < a->count; i++)
		all = all && a->term[i].scale % by == 0;
	return all;
}

Affine affine_divide(Arena *arena, Affine a, int64_t by) {
	Affine quotient = {.constant = a.constant / by};
	if (a.count == 0)
		return quotient;
	Term *term = arena_array(arena, a.count, sizeof *term);
	for (; quotient.count < a.count; quotient.count++) {
		term[quotient.count] = a.term[quotient.count];
		term[quotient.count].scale /= by;
	}
	quotient.term = term;
	return quotient;
}

bool affine_uses_program(const Affine *a, uint32_t dim) {
	for (uint32_t i = 0; i < a->count; i++)
		if (a->term[i].kind == VAR_PROGRAM && a->term[i].id == dim)
			return true;
	return false;
}

bool index_moves(const Plan *p, const Affine *index, uint32_t dim) {
	bool moves = affine_uses_program(index, dim);
	for (uint32_t i = 0; i < index->count; i++)
		moves = moves || (index->term[i].kind == VAR_NODE && p->values[index->term[i].id].points >> dim & 1);
	return moves;
}

bool affine_tells_program(uint32_t count, const Affine *index, uint32_t dim, int64_t steps) {
	int64_t known = 1; /* steps that differ by less are told apart */
	for (bool more = true; more && known < steps;) {
		more = false;
		for (uint32_t i = 0; i < count; i++)
			for (uint32_t k = 0; k < index[i].count; k++) {
				const Term *t = &index[i].term[k];
				if (t->kind != VAR_PROGRAM || t->id != dim || int_max(t->divide, 1) > known)
					continue;
				int64_t reach = t->modulo ? int_max(t->divide, 1) * t->modulo : steps;
				more = more || reach > known;
				known = int_max(known, reach);
			}
	}
	return known >= steps;
}

/* Each term of one is a term of the other: no two terms of an affine are of the same variable. */
bool affine_equal(const Affine *a, const Affine *b) {
	bool equal = a->count == b->count && a->constant == b->constant;
	for (uint32_t i = 0; equal && i < a->count; i++) {
		equal = false;
		for (uint32_t k = 0; k < b->count && !equal; k++)
			equal = term_same(&a->term[i], &b->term[k]) && a->term[i].scale == b->term[k].scale;
	}
	return equal;
}

BlockId query_block(const Module *m, NodeId n) { return arg_block(m, node_arg(m, n, 0)); }

static Affine affine_of_node(Planner *p, NodeId n);

/* a // by, where that is a sum of terms again: what `by` does not divide is one term, of a variable that is never
 * negative, with a scale that divides `by`. */
static bool affine_floordiv(Arena *arena, Affine a, int64_t by, Affine *out) {
	Affine rest = {0};
	if (by <= 0 || a.constant < 0)
		return false;
	*out = affine_int(a.constant / by);
	for (uint32_t i = 0; i < a.count; i++) {
		Term t = a.term[i];
		if (t.scale % by != 0) {
			rest = affine_add(arena, rest, affine_term(arena, t));
			continue;
		}
		t.scale /= by;
		*out = affine_add(arena, *out, affine_term(arena, t));
	}
	if (rest.count == 0 || a.constant % by != 0)
		return rest.count == 0;
	Term t = rest.term[0];
	int64_t divide = t.scale > 0 && by % t.scale == 0 ? by / t.scale : 0;
	if (rest.count > 1 || divide == 0 || t.kind == VAR_NODE || (t.modulo && t.modulo % divide != 0))
		return false;
	t = (Term){t.kind, t.id, 1, int_max(t.divide, 1) * divide, t.modulo / divide};
	if (t.modulo != 1)
		*out = affine_add(arena, *out, affine_term(arena, t));
	return true;
}

/* a % by, where that is one term again: as above. */
static bool affine_mod(Arena *arena, Affine a, int64_t by, Affine *out) {
	Affine rest = affine_int(a.constant >= 0 ? a.constant % by : 0);
	for (uint32_t i = 0; i < a.count; i++)
		if (a.term[i].scale % by != 0)
			rest = affine_add(arena, rest, affine_term(arena, a.term[i]));
	*out = rest;
	if (rest.count == 0)
		return a.constant >= 0;
	Term t = rest.term[0];
	int64_t modulo = t.scale > 0 && by % t.scale == 0 ? by / t.scale : 0;
	if (rest.count > 1 || a.constant < 0 || rest.constant != 0 || modulo == 0 || t.kind == VAR_NODE ||
	    (t.modulo && t.modulo % modulo != 0))
		return false;
	t.modulo = modulo;
	*out = affine_term(arena, t);
	return true;
}

/* As arithmetic of symbolic ints, that of tensors of one int32. */
static uint16_t int_op(const Module *m, NodeId n) {
	const Node *node = node_get(m, n);
	const Type *t = node_type(m, n);
	if (t->kind != TYPE_TENSOR)
		return dtype_is_float(t->dtype) ? OP_COUNT : node->op;
	const Arg *alpha = node->op == OP_ADD || node->op == OP_SUB ? op_arg(m, n, "alpha") : NULL;
	if (t->count != 0 || t->dtype != DTYPE_I32 || (alpha && !(alpha->kind == ARG_INT && alpha->integer == 1)))
		return OP_COUNT;
	return node->op == OP_ADD   ? OP_SYM_ADD
	       : node->op == OP_SUB ? OP_SYM_SUB
	       : node->op == OP_MUL ? OP_SYM_MUL
	                            : OP_COUNT;
}

/* A sum or product of two ints of which one is constant, or a quotient or rest by a constant. */
static bool affine_of_arithmetic(Planner *p, NodeId n, Affine *out) {
	const Node *node = node_get(p->m, n);
	uint16_t op = int_op(p->m, n);
	if (op != OP_SYM_ADD && op != OP_SYM_SUB && op != OP_SYM_MUL && op != OP_SYM_FLOORDIV && op != OP_SYM_MOD)
		return false;
	Affine a = affine_of_arg(p, node->graph, node_arg(p->m, n, 0));
	Affine b = affine_of_arg(p, node->graph, node_arg(p->m, n, 1));
	if (op == OP_SYM_FLOORDIV)
		return affine_is_int(&b) && affine_floordiv(p->a, a, b.constant, out);
	if (op == OP_SYM_MOD)
		return affine_is_int(&b) && b.constant > 0 && affine_mod(p->a, a, b.constant, out);
	if (op == OP_SYM_ADD)
		*out = affine_add(p->a, a, b);
	else if (op == OP_SYM_SUB)
		*out = affine_sub(p->a, a, b);
	else if (affine_is_int(&b))
		*out = affine_scale(p->a, a, b.constant);
	else if (affine_is_int(&a))
		*out = affine_scale(p->a, b, a.constant);
	else
		return false;
	return true;
}

/* tile.begin, tile.id, tile.count, and tile.end where no minimum is left: the block divides its range, or there is one
 * tile. */
static bool affine_of_query(Planner *p, NodeId n, Affine *out) {
	const Node *node = node_get(p->m, n);
	if (op_row(node->op)->kind != KIND_QUERY || node->op == OP_TILE_INDEX)
		return false;
	BlockId b = query_block(p->m, n);
	Affine offset = block_offset(p, node->graph, b);
	int64_t size = block_size(p, b);
	Affine end;
	bool peeled;
	switch (node->op) {
	case OP_TILE_BEGIN: *out = offset; return true;
	case OP_TILE_BLOCK_SIZE: *out = affine_int(size); return true;
	case OP_TILE_ID: return affine_floordiv(p->a, offset, size, out);
	case OP_TILE_NUM: {
		Affine length = block_length(p, node->graph, b);
		int64_t least;
		if (!affine_min(p, &length, &least) || least < 0)
			return false;
		return affine_floordiv(p->a, affine_add(p->a, length, affine_int(size - 1)), size, out);
	}
	case OP_TILE_END:
		if (block_ragged(p, node->graph, b, &end, &peeled)) {
			if (!affine_is_int(&offset) || !affine_is_int(&end))
				return false;
			*out = affine_int(int_min(offset.constant + size, end.constant));
			return true;
		}
		*out = affine_add(p->a, offset, affine_int(size));
		return true;
	default: return false;
	}
}

static Affine affine_of_node(Planner *p, NodeId n) {
	const Type *t = node_type(p->m, n);
	int64_t value;
	Affine out;
	if (t->kind == TYPE_SYM && t->sym != NONE && expr_value(p->m, t->sym, &value))
		return affine_int(value);
	if (affine_of_query(p, n, &out) || affine_of_arithmetic(p, n, &out))
		return out;
	const Arg *outer = constant_argument(p->m, n);
	if (outer)
		return affine_of_arg(p, graph_parent(p->m, node_get(p->m, n)->graph), outer);
	return affine_var(p->a, VAR_NODE, n, 1);
}

Affine affine_of_arg(Planner *p, GraphId g, const Arg *arg) {
	(void)g;
	int64_t value = 0;
	switch (arg->kind) {
	case ARG_INT: return affine_int(arg->integer);
	case ARG_BOOL: return affine_int(arg->boolean);
	case ARG_SYM: expr_value(p->m, arg->expr, &value); return affine_int(value);
	case ARG_REF: return affine_of_node(p, arg->node);
	default: return affine_int(0);
	}
}
