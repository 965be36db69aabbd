/* const_fold.c - symbolic ints become the expressions they are; identities and no-op conversions go.
 *
 * What: a use of a symbolic int whose expression is known (sym_size, tile.symnode, arithmetic) becomes the expression;
 * new_var, phi, clone, a conversion to the dtype at hand, x * 1, x - 0, a view to the same shape and the like become
 * their operand; two permutations in a row become one. Only what is exact for the dtype: x + 0.0 stays, for it makes
 * -0.0 into 0.0. Nothing here reads the configuration: [u0] and [128] stay different.
 * Why on a TPU: sizes known while compiling are static shapes, which Mosaic demands; the rest is code that the printed
 * kernel need not hold, and the later passes see one form of each thing.
 *
 *     q1 = new_var q                     k = load kv[{u0}, :]
 *     s = sym_size q1, 0      =>         d = bmm q, k
 *     k = load kv[s, :]
 *     d = bmm q1, k
 */
#include "simplify.h"

typedef struct Fold {
	PassContext *c;
	Module *m;
	uint32_t removed;
} Fold;

/* ---- symbolic ints ----------------------------------------------------------------------------------------------- */

/* What may stand in place of a reference to a value of that type: an int, an expression; a NULL kind if nothing. */
static Arg symbol_arg(Module *m, NodeId n) {
	Type t = *node_type(m, n);
	if (t.kind != TYPE_SYM || t.dtype == DTYPE_BOOL || t.sym == NONE)
		return arg_null();
	Expr e = m->exprs.at[t.sym];
	return e.kind == EXPR_INT ? arg_int(e.value) : arg_sym(t.sym);
}

/* The argument of a tile query or tile.symnode names a block as such. */
static bool is_block_slot(const Module *m, ArgId slot) {
	const Node *user = node_get(m, arg_get(m, slot)->user);
	bool names_block = op_row(user->op)->kind == KIND_QUERY || user->op == OP_SYMNODE;
	return names_block && slot == user->arg_first;
}

static void fold_symbol(Fold *f, NodeId n) {
	Arg value = symbol_arg(f->m, n);
	if (value.kind == ARG_NULL)
		return;
	for (ArgId u = node_uses(f->m, n), next; u != NONE; u = next) {
		next = arg_get(f->m, u)->next_use;
		Arg block = value;
		if (is_block_slot(f->m, u) && value.kind == ARG_SYM && expr_as_block(f->m, value.expr) != NONE) {
			block.kind = ARG_BLOCK;
			block.block = expr_as_block(f->m, value.expr);
		}
		arg_set(f->m, u, block);
	}
}

/* ---- operands ---------------------------------------------------------------------------------------------------- */

/* The number that an argument is; false if it is none. */
static bool arg_number(const Arg *a, double *value) {
	if (a->kind != ARG_INT && a->kind != ARG_FLOAT)
		return false;
	*value = a->kind == ARG_INT ? (double)a->integer : a->real;
	return true;
}

static bool arg_is_number(const Arg *a, double wanted) {
	double value = 0;
	return arg_number(a, &value) && value == wanted;
}

/* Promotes as a Python number does: putting it in the place of a tensor could change what its users compute. */
static bool is_weak(const Module *m, NodeId n) {
	const Type *t = node_type(m, n);
	return t->kind == TYPE_SYM || node_get(m, n)->op == OP_SCALAR ||
	       (t->kind == TYPE_TENSOR && t->count == 0 && op_kind(m, n) == KIND_SYMBOLIC);
}

static bool is_float(const Module *m, NodeId n) { return dtype_is_float(node_type(m, n)->dtype); }

/* x + alpha * 0: for floats only where the zero is -0.0. */
static bool adds_nothing(const Module *m, NodeId n, const Arg *zero) {
	double value;
	if (!arg_number(zero, &value) || value != 0)
		return false;
	if (!is_float(m, n))
		return true;
	uint64_t bits;
	memcpy(&bits, &value, sizeof bits);
	return bits >> 63 && arg_is_number(op_arg(m, n, "alpha"), 1);
}

/* x - alpha * 0: the difference is x, also where x is -0.0, unless the zero is negative. */
static bool subtracts_nothing(const Module *m, NodeId n) {
	double value;
	if (!arg_number(node_arg(m, n, 1), &value) || value != 0)
		return false;
	uint64_t bits;
	memcpy(&bits, &value, sizeof bits);
	return !is_float(m, n) || (!(bits >> 63) && arg_is_number(op_arg(m, n, "alpha"), 1));
}

/* ---- identities -------------------------------------------------------------------------------------------------- */

/* `x[:, :]`. */
static bool is_whole_index(const Module *m, const Arg *index) {
	if (index->kind != ARG_LIST)
		return false;
	for (uint32_t i = 0; i < index->list.count; i++) {
		const Arg *entry = arg_item(m, index, i);
		if (entry->kind != ARG_SLICE)
			return false;
		for (uint32_t k = 0; k < 3; k++)
			if (arg_item(m, entry, k)->kind != ARG_NULL)
				return false;
	}
	return true;
}

/* The operand that node n equals if their types are the same; NONE. */
static NodeId identity_operand(const Module *m, NodeId n) {
	uint16_t op = op_canonical(node_get(m, n)->op);
	if (op_lowering(op) == LOWER_ALIAS)
		return alias_arg(m, n)->kind == ARG_REF ? alias_arg(m, n)->node : NONE;
	if (op_converts(op) || view_is_of_shapes(op) ||
	    (op_lanes(op) == LANES_INDEX && is_whole_index(m, node_arg(m, n, 1))))
		return node_input(m, n, 0);
	switch (op) {
	case OP_MUL:
		if (arg_is_number(node_arg(m, n, 0), 1))
			return node_input(m, n, 1);
		return arg_is_number(node_arg(m, n, 1), 1) ? node_input(m, n, 0) : NONE;
	case OP_DIV: return arg_is_number(node_arg(m, n, 1), 1) ? node_input(m, n, 0) : NONE;
	case OP_ADD: return adds_nothing(m, n, node_arg(m, n, 1)) ? node_input(m, n, 0) : NONE;
	case OP_SUB: return subtracts_nothing(m, n) ? node_input(m, n, 0) : NONE;
	default: return NONE;
	}
}

static bool fold_identity(Fold *f, NodeId n) {
	NodeId x = identity_operand(f->m, n);
	if (x == NONE || node_get(f->m, x)->type != node_get(f->m, n)->type || is_weak(f->m, x) != is_weak(f->m, n))
		return false;
	node_replace_uses(f->m, n, x, NONE);
	node_remove(f->m, n);
	f->removed++;
	return true;
}

/* Another name of a number: a use becomes the number where it is a symbolic value, else node n a constant. */
static void fold_number(Fold *f, NodeId n) {
	Node old = *node_get(f->m, n);
	const Arg *number = alias_arg(f->m, n);
	if (op_lowering(old.op) != LOWER_ALIAS || number->kind == ARG_REF)
		return;
	Type t = *node_type(f->m, n);
	if (t.kind == TYPE_SYM) {
		for (ArgId u = node_uses(f->m, n), next; u != NONE; u = next) {
			next = arg_get(f->m, u)->next_use;
			arg_set(f->m, u, *alias_arg(f->m, n));
		}
		return;
	}
	Arg args[2] = {*number, arg_dtype(t.dtype)};
	NodeId constant = node_new(f->m, old.graph, OP_SCALAR_TENSOR, old.name, old.type, 2, args);
	node_get(f->m, constant)->loc = old.loc;
	node_insert_before(f->m, constant, n);
	node_replace_uses(f->m, n, constant, NONE);
	node_remove(f->m, n);
	f->removed++;
}

/* ---- permutations ------------------------------------------------------------------------------------------------ */

static bool is_in_order(const uint32_t *order, uint32_t rank) {
	for (uint32_t i = 0; i < rank; i++)
		if (order[i] != i)
			return false;
	return true;
}

static bool replace_node(Fold *f, NodeId n, NodeId with) {
	if (node_get(f->m, n)->type != node_get(f->m, with)->type)
		return false;
	node_replace_uses(f->m, n, with, NONE);
	node_remove(f->m, n);
	f->removed++;
	return true;
}

/* Node n becomes one permutation of x. */
static bool permute_directly(Fold *f, NodeId n, NodeId x, const uint32_t *order, uint32_t rank) {
	Arg dims[RANK_MAX], args[2];
	for (uint32_t i = 0; i < rank; i++)
		dims[i] = arg_int(order[i]);
	args[0] = arg_ref(x);
	args[1] = arg_list(f->m, rank, dims);
	Node old = *node_get(f->m, n);
	if (old.op == OP_PERMUTE) {
		node_set_args(f->m, n, 2, args);
		return true;
	}
	NodeId direct = node_new(f->m, old.graph, OP_PERMUTE, old.name, old.type, 2, args);
	node_get(f->m, direct)->loc = old.loc;
	node_insert_before(f->m, direct, n);
	return replace_node(f, n, direct);
}

static bool fold_permutation(Fold *f, NodeId n) {
	uint32_t outer[RANK_MAX] = {0}, inner[RANK_MAX] = {0}, both[RANK_MAX] = {0}, rank = node_type(f->m, n)->count;
	if (!permutation_order(f->m, n, outer))
		return false;
	NodeId x = node_input(f->m, n, 0);
	if (is_in_order(outer, rank))
		return replace_node(f, n, x);
	if (!permutation_order(f->m, x, inner))
		return false;
	for (uint32_t i = 0; i < rank; i++)
		both[i] = inner[outer[i]];
	NodeId source = node_input(f->m, x, 0);
	return is_in_order(both, rank) ? replace_node(f, n, source) : permute_directly(f, n, source, both, rank);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* A host scalar with a value is a number where only ints may stand: a bound, an index, a size. */
static void fold_scalar(Fold *f, NodeId n) {
	const Scalar *s = &f->m->scalars.at[node_arg(f->m, n, 0)->scalar];
	if (!s->has_value || dtype_is_float(s->dtype) || s->dtype == DTYPE_BOOL)
		return;
	for (ArgId u = node_uses(f->m, n), next; u != NONE; u = next) {
		next = arg_get(f->m, u)->next_use;
		NodeId user = arg_get(f->m, u)->user;
		uint32_t slots[] = {op_param_index(node_get(f->m, user)->op, "begins"),
		                    op_param_index(node_get(f->m, user)->op, "ends")};
		for (uint32_t i = 0; i < 2 && slots[i] != NONE; i++) {
			const Arg *list = node_arg(f->m, user, slots[i]);
			bool inside = list->kind == ARG_LIST && u >= list->list.first &&
			              u - list->list.first < list->list.count;
			if (inside) {
				arg_set(f->m, u, arg_int(s->int_value));
				break;
			}
		}
	}
}

static bool compare(uint16_t op, int64_t a, int64_t b, bool *out) {
	switch (op) {
	case OP_SYM_EQ: *out = a == b; return true;
	case OP_SYM_NE: *out = a != b; return true;
	case OP_SYM_LT: *out = a < b; return true;
	case OP_SYM_LE: *out = a <= b; return true;
	case OP_SYM_GT: *out = a > b; return true;
	case OP_SYM_GE: *out = a >= b; return true;
	default: return false;
	}
}

/* A comparison of two ints is true or false. */
static void fold_test(Fold *f, NodeId n) {
	const Arg *a = node_arg(f->m, n, 0), *b = node_arg(f->m, n, 1);
	bool value;
	if (a->kind != ARG_INT || b->kind != ARG_INT || node_type(f->m, n)->kind != TYPE_SYM ||
	    !compare(node_get(f->m, n)->op, a->integer, b->integer, &value))
		return;
	for (ArgId u = node_uses(f->m, n), next; u != NONE; u = next) {
		next = arg_get(f->m, u)->next_use;
		arg_set(f->m, u, arg_bool(value));
	}
}

/* ---- the walk ---------------------------------------------------------------------------------------------------- */

static void fold_node(Fold *f, NodeId n) {
	fold_symbol(f, n);
	if (node_get(f->m, n)->op == OP_SCALAR)
		fold_scalar(f, n);
	else if (op_kind(f->m, n) == KIND_SYMBOLIC)
		fold_test(f, n);
	else if (!fold_permutation(f, n) && !fold_identity(f, n))
		fold_number(f, n);
}

bool pass_const_fold(PassContext *c) {
	Fold f = {.c = c, .m = c->module};
	for (GraphId g = 0; g < f.m->graphs.count; g++)
		for (NodeId n = graph_first(f.m, g), next; n != NONE; n = next) {
			next = node_get(f.m, n)->next;
			fold_node(&f, n);
		}
	if (f.removed)
		pass_remark(c, "const_fold", "removed %u node%s that equal an operand", f.removed,
		            f.removed == 1 ? "" : "s");
	return true;
}
