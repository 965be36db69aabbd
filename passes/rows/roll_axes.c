/* roll_axes.c - which dims of a graph's values are one row.
 *
 * Helion writes the length of a whole row as a number, and two rows of one length are different things. So dims are
 * joined by what the nodes do with them: the row is a set of dims that meet. What an op does with a dim that is not
 * lane by lane (a flip, a scan, a reshape across it) is noted with the set: such a row stays whole. */
#include "roll.h"

/* ---- sets -------------------------------------------------------------------------------------------------------- */

uint32_t axis_find(Axes *a, uint32_t slot) {
	while (a->parent[slot] != slot)
		slot = a->parent[slot] = a->parent[a->parent[slot]];
	return slot;
}

static void join(Axes *a, uint32_t x, uint32_t y) {
	x = axis_find(a, x);
	y = axis_find(a, y);
	if (x == y)
		return;
	a->parent[y] = x;
	AxisFact *to = &a->fact[x], *from = &a->fact[y];
	to->accessed |= from->accessed;
	to->reduced |= from->reduced;
	if (!to->why) {
		to->why = from->why;
		to->at = from->at;
	}
}

static void forbid(Axes *a, NodeId n, uint32_t dim, NodeId at, const char *why) {
	AxisFact *f = &a->fact[axis_find(a, axis_slot(n, dim))];
	if (f->why)
		return;
	f->why = why;
	f->at = at;
}

static uint32_t rank_of(const Module *m, NodeId n) {
	const Type *t = node_type(m, n);
	return t->kind == TYPE_TENSOR && node_get(m, n)->op != OP_HOST_TENSOR ? t->count : 0;
}

uint32_t axis_rank(const Axes *a, NodeId n) {
	if (!op_writes(node_get(a->m, n)->op))
		return rank_of(a->m, n);
	uint32_t rank = 0;
	while (rank < RANK_MAX && index_entry_of(a->m, n, rank) != NONE)
		rank++;
	return rank;
}

static bool is_one(const Module *m, NodeId n, uint32_t dim) { return expr_is_int(m, node_type(m, n)->dims[dim], 1); }

static void forbid_all(Axes *a, NodeId n, NodeId at, const char *why) {
	for (uint32_t d = 0; d < axis_rank(a, n); d++)
		forbid(a, n, d, at, why);
}

/* ---- reading arguments ------------------------------------------------------------------------------------------- */

typedef void OnOperand(Axes *a, NodeId n, NodeId operand, const char *why);

static void each_operand_in(Axes *a, NodeId n, const Arg *arg, OnOperand *f, const char *why) {
	if (arg->kind == ARG_REF && rank_of(a->m, arg->node) > 0)
		f(a, n, arg->node, why);
	for (uint32_t i = 0; (arg->kind == ARG_LIST || arg->kind == ARG_SLICE) && i < arg->list.count; i++)
		each_operand_in(a, n, arg_item(a->m, arg, i), f, why);
}

static void each_operand(Axes *a, NodeId n, OnOperand *f, const char *why) {
	for (uint32_t i = 0; i < node_get(a->m, n)->arg_count; i++)
		each_operand_in(a, n, node_arg(a->m, n, i), f, why);
}

/* Operands broadcast: their last dims meet. */
static void meet_operand(Axes *a, NodeId n, NodeId operand, const char *why) {
	(void)why;
	uint32_t rank = axis_rank(a, n), own = rank_of(a->m, operand);
	for (uint32_t d = 0; d < own && d < rank; d++)
		if (!is_one(a->m, operand, own - 1 - d))
			join(a, axis_slot(n, rank - 1 - d), axis_slot(operand, own - 1 - d));
}

static void forbid_operand(Axes *a, NodeId n, NodeId operand, const char *why) { forbid_all(a, operand, n, why); }

/* Nothing is known of what the op does with the dims of its value, an atomic's old one as well. */
static void forbid_node(Axes *a, NodeId n, const char *why) {
	for (uint32_t d = 0; d < rank_of(a->m, n); d++)
		forbid(a, n, d, n, why);
	each_operand(a, n, forbid_operand, why);
}

static const char *whole_row_op(Axes *a, NodeId n) {
	return arena_printf(a->arena, "%s needs the whole row", op_row(node_get(a->m, n)->op)->target);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

uint32_t index_entry_of(Module *m, NodeId access, uint32_t dim) {
	const Arg *index = node_arg(m, access, 1);
	for (uint32_t i = 0; index->kind == ARG_LIST && i < index->list.count; i++)
		if (entry_is_dim(m, arg_item(m, index, i)) && dim-- == 0)
			return i;
	return NONE;
}

/* A whole dim can be taken block by block; a part of one or a gather cannot. */
static void spread_access(Axes *a, NodeId n) {
	const Arg *index = node_arg(a->m, n, 1);
	bool plain = access_tensor(a->m, n) != NONE && index->kind == ARG_LIST;
	for (uint32_t i = 0; plain && i < index->list.count; i++)
		plain = !entry_gathers(a->m, arg_item(a->m, index, i));
	if (!plain) {
		forbid_node(a, n, "its index gathers or scatters");
		return;
	}
	for (uint32_t d = 0, entry; d < axis_rank(a, n) && (entry = index_entry_of(a->m, n, d)) != NONE; d++) {
		const Arg *e = arg_item(a->m, index, entry);
		if (arg_is_whole(a->m, e))
			a->fact[axis_find(a, axis_slot(n, d))].accessed = true;
		else if (e->kind == ARG_SLICE)
			forbid(a, n, d, n, "it takes a part of a tensor's dim");
	}
	if (op_writes(node_get(a->m, n)->op) && node_input(a->m, n, 2) != NONE)
		meet_operand(a, n, node_input(a->m, n, 2), NULL);
	NodeId mask = op_arg(a->m, n, "extra_mask")->kind == ARG_REF ? op_arg(a->m, n, "extra_mask")->node : NONE;
	if (mask != NONE)
		meet_operand(a, n, mask, NULL);
	if (op_writes(node_get(a->m, n)->op) && node_type(a->m, n)->kind == TYPE_TENSOR && node_uses(a->m, n) != NONE)
		forbid_all(a, n, n, "the old value of an atomic is used");
}

/* ---- views ------------------------------------------------------------------------------------------------------- */

static void spread_subscript(Axes *a, NodeId n) {
	NodeId x = node_input(a->m, n, 0);
	const Arg *index = node_arg(a->m, n, 1);
	for (uint32_t i = 0, from = 0, to = 0; index->kind == ARG_LIST && i < index->list.count; i++) {
		const Arg *e = arg_item(a->m, index, i);
		if (e->kind == ARG_NULL) {
			to++;
		} else if (arg_is_whole(a->m, e)) {
			join(a, axis_slot(n, to++), axis_slot(x, from++));
		} else {
			forbid(a, x, from++, n, "it takes a part of the row");
			to += e->kind == ARG_SLICE;
		}
	}
}

/* Dims that stand behind equally many elements and are equally long are the same; others are cut or merged. */
static void spread_reshape(Axes *a, NodeId n) {
	NodeId x = node_input(a->m, n, 0);
	uint32_t rank = rank_of(a->m, x), to_rank = rank_of(a->m, n);
	bool *kept = arena_array(a->arena, (size_t)rank + to_rank + 1, sizeof *kept);
	int64_t before = 1, to_before = 1, size = 0, to_size = 0;
	for (uint32_t i = 0, k = 0; i < rank && k < to_rank;) {
		if (!expr_value(a->m, node_type(a->m, x)->dims[i], &size) ||
		    !expr_value(a->m, node_type(a->m, n)->dims[k], &to_size))
			break;
		if (before == to_before && size == to_size) {
			join(a, axis_slot(n, k), axis_slot(x, i));
			kept[i] = kept[rank + k] = true;
		}
		bool both = before == to_before && size == to_size;
		bool left = both || (before * size <= to_before * to_size && size != 1) || (size == 1 && to_size != 1);
		if (both || !left)
			to_before *= to_size, k++;
		if (left)
			before *= size, i++;
	}
	for (uint32_t i = 0; i < rank; i++)
		if (!kept[i] && !is_one(a->m, x, i))
			forbid(a, x, i, n, "a reshape cuts or merges the row");
	for (uint32_t k = 0; k < to_rank; k++)
		if (!kept[rank + k] && !is_one(a->m, n, k))
			forbid(a, n, k, n, "a reshape cuts or merges the row");
}

static void spread_permute(Axes *a, NodeId n) {
	uint32_t order[RANK_MAX];
	if (!permutation_order(a->m, n, order)) {
		forbid_node(a, n, whole_row_op(a, n));
		return;
	}
	for (uint32_t d = 0; d < rank_of(a->m, n); d++)
		join(a, axis_slot(n, d), axis_slot(node_input(a->m, n, 0), order[d]));
}

static void spread_view(Axes *a, NodeId n) {
	switch (op_lanes(node_get(a->m, n)->op)) {
	case LANES_INDEX: spread_subscript(a, n); break;
	case LANES_RESHAPE:
	case LANES_SQUEEZE:
	case LANES_UNSQUEEZE: spread_reshape(a, n); break;
	case LANES_PERMUTE: spread_permute(a, n); break;
	case LANES_EXPAND: meet_operand(a, n, node_input(a->m, n, 0), NULL); break;
	default: forbid_node(a, n, whole_row_op(a, n)); break;
	}
}

/* ---- reductions and matmuls -------------------------------------------------------------------------------------- */

bool roll_reduces(const Module *m, NodeId n) {
	uint16_t op = node_get(m, n)->op;
	return op_row(op)->kind == KIND_REDUCTION && op_is(op, IS_FOLD);
}

static void spread_reduction(Axes *a, NodeId n) {
	NodeId x = node_input(a->m, n, 0);
	if (x == NONE || rank_of(a->m, x) == 0 || node_type(a->m, n)->kind != TYPE_TENSOR ||
	    op_row(node_get(a->m, n)->op)->shape != SHAPE_REDUCE) {
		forbid_node(a, n, whole_row_op(a, n));
		return;
	}
	uint32_t dims = reduction_dims(a->m, n), to = 0;
	bool keep = reduction_keeps_dims(a->m, n);
	for (uint32_t d = 0; d < rank_of(a->m, x); d++) {
		if (!(dims >> d & 1)) {
			join(a, axis_slot(n, to++), axis_slot(x, d));
			continue;
		}
		to += keep;
		a->fact[axis_find(a, axis_slot(x, d))].reduced = true;
		if (!roll_reduces(a->m, n))
			forbid(a, x, d, n, whole_row_op(a, n));
	}
}

static bool is_one_arg(const Arg *a) {
	return a->kind == ARG_NULL || (a->kind == ARG_INT && a->integer == 1) || (a->kind == ARG_FLOAT && a->real == 1);
}

static void spread_matmul(Axes *a, NodeId n) {
	uint16_t op = node_get(a->m, n)->op;
	NodeId x = node_input(a->m, n, matmul_arg(op, 0)), y = node_input(a->m, n, matmul_arg(op, 1));
	if (!matmul_is_plain(a->m, n)) {
		forbid_node(a, n, whole_row_op(a, n));
		return;
	}
	const Arg *alpha = op_arg(a->m, n, "alpha"), *beta = op_arg(a->m, n, "beta");
	if (!is_one_arg(alpha) || !is_one_arg(beta)) {
		forbid_node(a, n, "its sum has weights");
		return;
	}
	uint32_t rank = rank_of(a->m, n);
	for (uint32_t d = 0; d + 2 < rank; d++) {
		join(a, axis_slot(n, d), axis_slot(x, d));
		join(a, axis_slot(n, d), axis_slot(y, d));
	}
	join(a, axis_slot(n, rank - 2), axis_slot(x, rank - 2));
	join(a, axis_slot(n, rank - 1), axis_slot(y, rank - 1));
	join(a, axis_slot(x, rank - 1), axis_slot(y, rank - 2));
	a->fact[axis_find(a, axis_slot(x, rank - 1))].reduced = true;
	uint32_t added = matmul_arg(op, 2);
	if (added != NONE && node_input(a->m, n, added) != NONE)
		meet_operand(a, n, node_input(a->m, n, added), NULL);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static void spread_structure(Axes *a, NodeId n) {
	switch ((Op)node_get(a->m, n)->op) {
	case OP_HOST_TENSOR:
	case OP_SCALAR:
	case OP_SYMNODE: break;
	case OP_NEW_VAR: meet_operand(a, n, node_input(a->m, n, 0), NULL); break;
	case OP_OUTPUT: forbid_node(a, n, "it is handed out of the graph whole"); break;
	case OP_PLACEHOLDER: forbid_node(a, n, "it comes into the graph whole"); break;
	case OP_SYM_SIZE:
		if (node_uses(a->m, n) != NONE)
			forbid_node(a, n, "its length is asked for");
		break;
	default: forbid_node(a, n, "it goes through an inner loop or branch whole"); break;
	}
}

static void spread(Axes *a, NodeId n) {
	uint16_t op = node_get(a->m, n)->op;
	switch (op_kind(a->m, n)) {
	case KIND_POINTWISE:
		if (op_row(op)->shape == SHAPE_BROADCAST || op == OP_MASK_TO)
			each_operand(a, n, meet_operand, NULL);
		else
			forbid_node(a, n, whole_row_op(a, n));
		break;
	case KIND_REDUCTION: spread_reduction(a, n); break;
	case KIND_VIEW: spread_view(a, n); break;
	case KIND_MATMUL: spread_matmul(a, n); break;
	case KIND_MEMORY: spread_access(a, n); break;
	case KIND_CREATION:
		if (op_row(op)->shape == SHAPE_SAME)
			each_operand(a, n, meet_operand, NULL);
		else if (op != OP_IOTA && (op_row(op)->shape != SHAPE_FULL || op_is_random(op)))
			forbid_node(a, n, whole_row_op(a, n));
		break;
	case KIND_STRUCTURE: spread_structure(a, n); break;
	case KIND_QUERY:
	case KIND_SYMBOLIC: break;
	}
}

Axes axes_of(Arena *arena, Module *m, GraphId g) {
	Axes a = {.m = m, .arena = arena, .graph = g, .nodes = m->nodes.count};
	size_t slots = (size_t)a.nodes * RANK_MAX + 1;
	a.parent = arena_array(arena, slots, sizeof *a.parent);
	a.fact = arena_array(arena, slots, sizeof *a.fact);
	for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next)
		for (uint32_t d = 0; d < RANK_MAX; d++)
			a.parent[axis_slot(n, d)] = axis_slot(n, d);
	for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next)
		spread(&a, n);
	return a;
}
