/* affine.c - the integers of the kernel: constants plus multiples of program ids and loop steps. */
#include "planner.h"

Affine affine_int(int64_t value) { return (Affine){.constant = value}; }

Affine affine_var(VarKind kind, uint32_t id, int64_t scale) {
	Affine a = {0};
	if (scale != 0)
		a.term[a.count++] = (Term){kind, id, scale};
	return a;
}

static void affine_add_term(Affine *a, Term t) {
	for (uint32_t i = 0; i < a->count; i++) {
		if (a->term[i].kind != t.kind || a->term[i].id != t.id)
			continue;
		a->term[i].scale += t.scale;
		if (a->term[i].scale == 0)
			a->term[i] = a->term[--a->count];
		return;
	}
	if (a->count < TERM_MAX)
		a->term[a->count++] = t;
}

Affine affine_add(Affine a, Affine b) {
	a.constant += b.constant;
	for (uint32_t i = 0; i < b.count; i++)
		affine_add_term(&a, b.term[i]);
	return a;
}

Affine affine_scale(Affine a, int64_t factor) {
	if (factor == 0)
		return affine_int(0);
	a.constant *= factor;
	for (uint32_t i = 0; i < a.count; i++)
		a.term[i].scale *= factor;
	return a;
}

bool affine_multiple(const Affine *a, int64_t by) {
	bool all = a->constant % by == 0;
	for (uint32_t i = 0; i < a->count; i++)
		all = all && a->term[i].scale % by == 0;
	return all;
}

Affine affine_divide(Affine a, int64_t by) {
	a.constant /= by;
	for (uint32_t i = 0; i < a.count; i++)
		a.term[i].scale /= by;
	return a;
}

bool affine_uses_program(const Affine *a, uint32_t dim) {
	for (uint32_t i = 0; i < a->count; i++)
		if (a->term[i].kind == VAR_PROGRAM && a->term[i].id == dim)
			return true;
	return false;
}

bool affine_equal(const Affine *a, const Affine *b) {
	Affine difference = affine_add(*a, affine_scale(*b, -1));
	return difference.count == 0 && difference.constant == 0;
}

BlockId query_block(const Module *m, NodeId n) { return arg_block(m, node_arg(m, n, 0)); }

static Affine affine_of_node(Planner *p, NodeId n);

/* A sum or product of two ints of which one is constant. */
static bool affine_of_arithmetic(Planner *p, NodeId n, Affine *out) {
	const Node *node = node_get(p->m, n);
	if (node->op != OP_SYM_ADD && node->op != OP_SYM_SUB && node->op != OP_SYM_MUL)
		return false;
	Affine a = affine_of_arg(p, node->graph, node_arg(p->m, n, 0));
	Affine b = affine_of_arg(p, node->graph, node_arg(p->m, n, 1));
	if (a.count + b.count > TERM_MAX)
		return false;
	if (node->op == OP_SYM_ADD)
		*out = affine_add(a, b);
	else if (node->op == OP_SYM_SUB)
		*out = affine_add(a, affine_scale(b, -1));
	else if (affine_is_int(&b))
		*out = affine_scale(a, b.constant);
	else if (affine_is_int(&a))
		*out = affine_scale(b, a.constant);
	else
		return false;
	return true;
}

/* tile.begin, tile.id, and tile.end where no minimum is left: the block divides its range, or there is one tile. */
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
	case OP_TILE_ID:
		if (!affine_multiple(&offset, size))
			return false;
		*out = affine_divide(offset, size);
		return true;
	case OP_TILE_END:
		if (block_ragged(p, node->graph, b, &end, &peeled)) {
			if (!affine_is_int(&offset) || !affine_is_int(&end))
				return false;
			*out = affine_int(int_min(offset.constant + size, end.constant));
			return true;
		}
		*out = affine_add(offset, affine_int(size));
		return true;
	default: return false;
	}
}

/* The argument that a loop's placeholder always stands for; NULL: it is carried, or no loop's. */
static const Arg *constant_argument(const Module *m, NodeId n) {
	const Graph *g = graph_get(m, node_get(m, n)->graph);
	uint32_t i = 0;
	if (node_get(m, n)->op != OP_PLACEHOLDER || g->caller == NONE || node_get(m, g->caller)->op != OP_FOR_LOOP)
		return NULL;
	while (g->placeholders.at[i] != n)
		i++;
	for (uint32_t c = 0; c < g->carried.count; c++)
		if (g->carried.at[c].arg == i)
			return NULL;
	return arg_item(m, op_arg(m, g->caller, "args"), i);
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
	return affine_var(VAR_NODE, n, 1);
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
