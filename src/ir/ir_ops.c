/* ir_ops.c - what the arguments of a node say, by its op. */
#include "ir.h"

const Arg *op_arg(const Module *m, NodeId n, const char *name) {
	uint32_t index = op_param_index(node_get(m, n)->op, name);
	return node_arg(m, n, index == NONE ? node_get(m, n)->arg_count : index);
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */

uint32_t reduction_dims(const Module *m, NodeId n) {
	const Arg *a = op_arg(m, n, "dim");
	uint32_t rank = node_type(m, node_input(m, n, 0))->count, dims = 0;
	uint32_t count = a->kind == ARG_LIST ? a->list.count : a->kind == ARG_INT;
	for (uint32_t i = 0; i < count; i++) {
		int64_t d = (a->kind == ARG_LIST ? arg_item(m, a, i) : a)->integer;
		dims |= 1u << (d < 0 ? d + int_max(rank, 1) : d); /* a rank of 0 counts as 1, as in torch */
	}
	return count ? dims : (1u << rank) - 1;
}

bool reduction_keeps_dims(const Module *m, NodeId n) {
	const Arg *keep = op_arg(m, n, "keepdim");
	return keep->kind == ARG_BOOL && keep->boolean;
}

bool node_combines(const Module *m, NodeId n) {
	uint16_t op = node_get(m, n)->op;
	return op == OP_ASSOCIATIVE_SCAN || op == OP_TILE_REDUCE;
}

const Arg *combined_operand(const Module *m, NodeId n, uint32_t i) {
	const Arg *x = op_arg(m, n, "x");
	return x->kind == ARG_LIST ? arg_item(m, x, i) : x;
}

uint32_t combined_dims(const Module *m, NodeId n) {
	const Arg *dim = op_arg(m, n, "dim"), *x = combined_operand(m, n, 0);
	uint32_t rank = x->kind == ARG_REF ? node_type(m, x->node)->count : 0;
	if (dim->kind != ARG_INT)
		return (1u << rank) - 1;
	return 1u << (dim->integer < 0 ? dim->integer + rank : dim->integer);
}

/* ---- matmuls ----------------------------------------------------------------------------------------------------- */

bool matmul_is_plain(const Module *m, NodeId n) {
	uint16_t op = node_get(m, n)->op;
	NodeId a = node_input(m, n, matmul_arg(op, 0)), b = node_input(m, n, matmul_arg(op, 1));
	if (op_kind(m, n) != KIND_MATMUL || a == NONE || b == NONE)
		return false;
	uint32_t rank = node_type(m, a)->count;
	return rank >= 2 && node_type(m, b)->count == rank && node_type(m, n)->count == rank;
}

/* A dim given as a plain int, counted from the end if negative. */
static bool read_dim(const Arg *a, uint32_t rank, uint32_t *dim) {
	if (a->kind != ARG_INT || a->integer >= rank || a->integer + rank < 0)
		return false;
	*dim = (uint32_t)(a->integer < 0 ? a->integer + rank : a->integer);
	return true;
}

static void swap_dims(uint32_t *order, uint32_t a, uint32_t b) {
	uint32_t t = order[a];
	order[a] = order[b];
	order[b] = t;
}

bool permutation_order(const Module *m, NodeId n, uint32_t order[RANK_MAX]) {
	uint16_t op = node_get(m, n)->op;
	if (op_lanes(op) != LANES_PERMUTE || node_input(m, n, 0) == NONE)
		return false;
	ShapeRule rule = op_row(op)->shape;
	uint32_t rank = node_type(m, n)->count, a = rank - 2, b = rank - 1; /* t and mT swap the last two */
	bool known = true;
	for (uint32_t i = 0; i < rank; i++) {
		order[i] = i;
		known &= rule != SHAPE_PERMUTE || read_dim(arg_item(m, node_arg(m, n, 1), i), rank, &order[i]);
	}
	if (rule == SHAPE_TRANSPOSE)
		known &= read_dim(node_arg(m, n, 1), rank, &a) && read_dim(node_arg(m, n, 2), rank, &b);
	if (rule != SHAPE_PERMUTE && known && rank > 1)
		swap_dims(order, a, b);
	return known;
}

bool permutation_swaps_rows(const Module *m, NodeId n) {
	uint32_t order[RANK_MAX] = {0}, rank = node_type(m, n)->count;
	if (rank < 2 || !permutation_order(m, n, order) || order[rank - 2] != rank - 1)
		return false;
	for (uint32_t i = 0; i + 2 < rank; i++)
		if (order[i] != i)
			return false;
	return true;
}

Arg rows_swapped(Module *m, uint32_t rank) {
	Arg dims[RANK_MAX];
	for (uint32_t i = 0; i < rank; i++)
		dims[i] = arg_int(i + 2 < rank ? i : i + 1 < rank ? rank - 1 : rank - 2);
	return arg_list(m, rank, dims);
}

const Arg *alias_arg(const Module *m, NodeId n) { return node_arg(m, n, node_get(m, n)->op == OP_PHI); }

Arg fill_arg(const Module *m, NodeId n) {
	uint16_t op = node_get(m, n)->op;
	OpParam param;
	uint32_t i = 0;
	if (op_fill(op) == FILL_NONE)
		return arg_null();
	if (op_fill(op) != FILL_GIVEN)
		return arg_int(op_fill(op) == FILL_ONES);
	for (const char *at = op_row(op)->params; (at = op_param_next(at, &param)) != NULL && param.letter != 'x';)
		i++;
	return *node_arg(m, n, i);
}

bool entry_is_dim(const Module *m, const Arg *entry) {
	return entry->kind == ARG_NULL || entry->kind == ARG_SLICE || arg_block(m, entry) != NONE;
}

bool entry_gathers(const Module *m, const Arg *entry) {
	return entry->kind == ARG_REF && arg_block(m, entry) == NONE &&
	       node_type(m, entry->node)->kind == TYPE_TENSOR && node_type(m, entry->node)->count > 0;
}

/* Of 32-bit elements at 32-bit positions, of as many dims: aten.gather along dim `*dim`. */
static bool gathers_words(const Module *m, NodeId n, int64_t *dim) {
	NodeId x = node_get(m, n)->op == OP_GATHER ? node_input(m, n, 0) : NONE;
	NodeId index = x == NONE ? NONE : node_input(m, n, 2);
	if (index == NONE || node_arg(m, n, 1)->kind != ARG_INT)
		return false;
	const Type *of = node_type(m, x), *at = node_type(m, index);
	*dim = node_arg(m, n, 1)->integer;
	*dim += *dim < 0 ? of->count : 0;
	return at->count == of->count && of->dtype == DTYPE_I32 && at->dtype == DTYPE_I32;
}

bool gathers_lanes(const Module *m, NodeId n) {
	int64_t dim;
	if (!gathers_words(m, n, &dim))
		return false;
	const Type *of = node_type(m, node_input(m, n, 0)), *at = node_type(m, node_input(m, n, 2));
	return dim + 1 == (int64_t)of->count &&
	       (of->count == 1 || (of->count == 2 && expr_equal(m, of->dims[0], at->dims[0])));
}

bool gathers_rows(const Module *m, NodeId n) {
	int64_t dim;
	if (!gathers_words(m, n, &dim))
		return false;
	NodeId index = node_input(m, n, 2);
	const Type *of = node_type(m, node_input(m, n, 0)), *at = node_type(m, index);
	const Type *column = node_get(m, index)->op == OP_EXPAND ? node_type(m, node_input(m, index, 0)) : at;
	return dim == 0 && of->count == 2 && expr_equal(m, of->dims[1], at->dims[1]) && column->count == 2 &&
	       expr_is_int(m, column->dims[1], 1);
}

const Arg *constant_argument(const Module *m, NodeId n) {
	const Graph *g = graph_get(m, node_get(m, n)->graph);
	uint32_t i = 0;
	if (node_get(m, n)->op != OP_PLACEHOLDER || g->caller == NONE ||
	    op_lowering(node_get(m, g->caller)->op) != LOWER_LOOP)
		return NULL;
	while (g->placeholders.at[i] != n)
		i++;
	for (uint32_t c = 0; c < g->carried.count; c++)
		if (g->carried.at[c].arg == i)
			return NULL;
	return arg_item(m, op_arg(m, g->caller, "args"), i);
}

uint32_t while_flag(const Module *m, NodeId call) {
	const Graph *cond = graph_get(m, arg_get(m, node_get(m, call)->arg_first)->graph);
	const Graph *body = graph_get(m, loop_body(m, call));
	const Arg *test = arg_item(m, node_arg(m, cond->output, 0), 0);
	for (uint32_t i = 0; test->kind == ARG_REF && i < body->carried.count; i++)
		if (cond->placeholders.at[body->carried.at[i].arg] == test->node &&
		    node_type(m, test->node)->kind == TYPE_TENSOR)
			return body->carried.at[i].arg;
	return NONE;
}
