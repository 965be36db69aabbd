/* folds.c - what is not computed for itself: transposes that a matmul reads as they lie, lanes and pairs that only
 * their user sees. */
#include "values.h"
#include "codegen/lower/lower.h"

/* ---- matmul operands -------------------------------------------------------------------------------------------- */

/* Swaps the last two dims of what it is given, in the kernel or as the load finds it. */
static bool swaps(const Planner *p, NodeId n) {
	const Module *m = p->m;
	if (node_get(m, n)->op == OP_LOAD)
		return p->plan->values[n].access && p->plan->values[n].access->perm_rank > 0 &&
		       p->plan->values[n].mask_count == 0;
	return permutation_swaps_rows(m, n);
}

/* x is read as it lies, by its one user. */
static void leave_unswapped(Planner *p, NodeId x) {
	Value *v = value_of(p, x);
	if (node_get(p->m, x)->op != OP_LOAD) {
		v->same_as = node_input(p->m, x, 0);
		return;
	}
	Access *plain = arena_alloc(p->a, sizeof *plain);
	*plain = *v->access;
	plain->perm_rank = 0;
	plain->unswapped = true;
	v->access = plain;
}

/* jax lowers a matrix times one row, contracted over lanes, as a product of float32 alone. */
static bool one_column(const Planner *p, NodeId x) {
	const Type *t = node_type(p->m, x);
	return t->count == 2 && t->dtype != DTYPE_F32 && expr_number(p->m, t->dims[1]) == 1;
}

/* A swap whose one user is a matmul costs nothing: the matmul contracts the other dim. Two of them are none. */
static void fold_swap(Planner *p, NodeId n, int which) {
	NodeId x = matmul_operand(p->m, n, which);
	bool swapped = false;
	if (which == 1 && x != NONE && one_column(p, x))
		return;
	while (x != NONE && swaps(p, x) && node_use_count(p->m, x) == 1 &&
	       node_get(p->m, x)->graph == node_get(p->m, n)->graph) {
		leave_unswapped(p, x);
		swapped = !swapped;
		x = node_get(p->m, x)->op == OP_LOAD ? NONE : node_input(p->m, x, 0);
	}
	if (which == 0)
		value_of(p, n)->transpose_a = swapped;
	else
		value_of(p, n)->transpose_b = swapped;
}

/* Lane 0 of a value that is only stored as a row: all its lanes are equal, so _to_row() takes it as it is. */
static void fold_lane(Planner *p, NodeId n) {
	NodeId x = node_input(p->m, n, 0);
	if (view_shape(p, n) != VIEW_SHAPE_LANE_0 ||
	    expr_number(p->m, node_type(p->m, x)->dims[value_rank(p, x) - 1]) != 128)
		return;
	for (ArgId u = node_uses(p->m, n); u != NONE; u = arg_get(p->m, u)->next_use)
		if (op_lowering(node_get(p->m, arg_get(p->m, u)->user)->op) != LOWER_STORE)
			return;
	value_of(p, n)->same_as = x;
}

/* A row of pairs whose lanes are read one after the other: two tiles lane by lane in turn. As pairs they would be two
 * lanes of each register. */
static void fold_pairs(Planner *p, NodeId n) {
	NodeId stack = node_input(p->m, n, 0);
	uint32_t rank = value_rank(p, n);
	if (op_lanes(node_get(p->m, n)->op) != LANES_RESHAPE || op_lanes(node_get(p->m, stack)->op) != LANES_STACK ||
	    rank == 0 || value_rank(p, stack) != rank + 1 || node_use_count(p->m, stack) != 1)
		return;
	const Type *pairs = node_type(p->m, stack), *row = node_type(p->m, n);
	int64_t dim = view_int(p->m, stack, "dim", 0);
	bool last = dim == -1 || dim == (int64_t)rank;
	for (uint32_t i = 0; i + 1 < rank; i++)
		last = last && expr_number(p->m, pairs->dims[i]) == expr_number(p->m, row->dims[i]);
	value_of(p, stack)->folded = last && expr_number(p->m, pairs->dims[rank]) == 2 &&
	                             node_get(p->m, stack)->graph == node_get(p->m, n)->graph;
	if (value_of(p, stack)->folded)
		value_of(p, stack)->wants = FORM_NATURAL;
}

static void folds_in(Planner *p, GraphId g) {
	for (NodeId n = graph_first(p->m, g); n != NONE; n = node_get(p->m, n)->next) {
		Lowering how = op_lowering(node_get(p->m, n)->op);
		if (how == LOWER_LOOP)
			folds_in(p, loop_body(p->m, n));
		for (int i = 0; how == LOWER_MATMUL && i < 2; i++)
			fold_swap(p, n, i);
		if (how == LOWER_VIEW) {
			fold_lane(p, n);
			fold_pairs(p, n);
		}
	}
}

void plan_folds(Planner *p) { folds_in(p, p->plan->root); }
