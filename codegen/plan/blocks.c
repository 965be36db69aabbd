/* blocks.c - where a block symbol stands in the kernel: a grid dim, a loop's dim, or a dim taken whole; and what its
 * steps leave over. */
#include "plan.h"

int64_t block_size(const Planner *p, BlockId b) { return p->m->block_size.at[b]; }

uint32_t block_scope(const Plan *plan, GraphId g, BlockId b, uint32_t *dim) {
	for (uint32_t l = plan->loop_of[g]; l != NONE; l = plan->loops.at[l].parent) {
		const Loop *loop = &plan->loops.at[l];
		for (uint32_t i = 0; i < loop->rank; i++)
			if (loop->dim[i].block == b)
				return *dim = i, l;
	}
	*dim = NONE;
	for (uint32_t i = 0; i < plan->grid.count; i++)
		if (plan->grid.at[i].block == b)
			*dim = i;
	return NONE;
}

int64_t block_begin(const Planner *p, BlockId b) {
	ExprId begin = p->m->blocks.at[b].begin;
	return begin == NONE ? 0 : expr_number(p->m, begin);
}

/* The step number of dim i of a loop of several dims, flattened with the last dim fastest, is not affine; such loops
 * get one step variable per dim: loop id * RANK_MAX + dim. */
static Affine loop_step(Arena *a, uint32_t loop, uint32_t dim, int64_t scale) {
	return affine_var(a, VAR_STEP, loop * RANK_MAX + dim, scale);
}

Affine block_offset(Planner *p, GraphId g, BlockId b) {
	uint32_t dim, l = block_scope(p->plan, g, b, &dim);
	int64_t size = block_size(p, b);
	if (l != NONE)
		return affine_add(p->a, p->plan->loops.at[l].dim[dim].begin, loop_step(p->a, l, dim, size));
	Affine begin = affine_int(dim == NONE ? 0 : block_begin(p, b));
	if (dim == NONE || p->plan->grid.at[dim].steps == 1)
		return begin;
	return affine_add(p->a, begin, affine_var(p->a, VAR_PROGRAM, dim, size));
}

bool block_ragged(Planner *p, GraphId g, BlockId b, Affine *end, bool *peeled) {
	uint32_t dim, l = block_scope(p->plan, g, b, &dim);
	*peeled = false;
	if (l != NONE) {
		const LoopDim *d = &p->plan->loops.at[l].dim[dim];
		*end = d->end;
		*peeled = p->plan->loops.at[l].peeled;
		return !loop_dim_divides(p, d);
	}
	*end = affine_int(0);
	if (dim == NONE)
		return false;
	int64_t extent = expr_number(p->m, p->m->blocks.at[b].extent);
	*end = affine_int(extent);
	return (extent - block_begin(p, b)) % block_size(p, b) != 0;
}

Affine block_length(Planner *p, GraphId g, BlockId b) {
	uint32_t dim, l = block_scope(p->plan, g, b, &dim);
	if (l != NONE)
		return affine_sub(p->a, p->plan->loops.at[l].dim[dim].end, p->plan->loops.at[l].dim[dim].begin);
	ExprId extent = p->m->blocks.at[b].extent;
	return affine_int(dim == NONE || extent == NONE ? block_size(p, b)
	                                                : expr_number(p->m, extent) - block_begin(p, b));
}

/* The end is tile.end of a tile that the loop starts with: its length is that tile's at most. */
static bool ends_with_tile(Planner *p, const LoopDim *d, int64_t *length) {
	if (d->end.count != 1 || d->end.constant != 0 || d->end.term[0].kind != VAR_NODE || d->end.term[0].scale != 1)
		return false;
	NodeId n = d->end.term[0].id;
	BlockId b = node_get(p->m, n)->op == OP_TILE_END ? query_block(p->m, n) : NONE;
	if (b == NONE)
		return false;
	Affine offset = block_offset(p, node_get(p->m, n)->graph, b);
	*length = block_size(p, b);
	return affine_equal(&offset, &d->begin);
}

bool loop_most_steps(Planner *p, const LoopDim *d, int64_t *steps) {
	Affine length = affine_sub(p->a, d->end, d->begin);
	int64_t most = 0;
	if (!ends_with_tile(p, d, &most) && !affine_max(p, &length, &most))
		return false;
	*steps = int_cdiv(int_max(most, 0), d->step);
	return true;
}

/* Ragged steps that are not peeled: each step masks, and windows may reach past the tensor, so nothing is copied. */
bool loop_ragged_unpeeled(Planner *p, const Loop *loop) {
	for (uint32_t i = 0; i < loop->rank; i++)
		if (!loop->peeled && !loop_dim_divides(p, &loop->dim[i]))
			return true;
	return false;
}

static bool tile_end_divisible(Planner *p, NodeId n, int64_t by) {
	BlockId b = query_block(p->m, n);
	if (b == NONE || block_size(p, b) % by != 0)
		return false;
	Affine offset = block_offset(p, node_get(p->m, n)->graph, b), end;
	bool peeled;
	block_ragged(p, node_get(p->m, n)->graph, b, &end, &peeled);
	return affine_divisible(p, &offset, by) && affine_divisible(p, &end, by);
}

/* The end of a tile, or one of several numbers: as of a loop in a branch, whose end is its begin where it is not
 * taken. */
static bool arg_divisible(Planner *p, const Arg *a, int64_t by) {
	int64_t value;
	if (a->kind != ARG_REF)
		return (a->kind == ARG_INT && a->integer % by == 0) ||
		       (a->kind == ARG_SYM && expr_value(p->m, a->expr, &value) && value % by == 0);
	uint16_t op = node_get(p->m, a->node)->op;
	Affine sum = affine_of_arg(p, node_get(p->m, a->node)->graph, a);
	if (sum.count != 1 || sum.term[0].kind != VAR_NODE || sum.term[0].id != a->node)
		return affine_divisible(p, &sum, by);
	if (op == OP_TILE_END)
		return tile_end_divisible(p, a->node, by);
	bool pair = op == OP_SYM_MIN || op == OP_SYM_MAX, all = pair || op == OP_WHERE || op == OP_CLAMP;
	for (uint32_t i = op == OP_WHERE; i < (pair ? 2u : 3u) && all; i++)
		all = arg_divisible(p, node_arg(p->m, a->node, i), by);
	return all;
}

bool affine_divisible(Planner *p, const Affine *a, int64_t by) {
	if (by <= 0 || a->constant % by != 0)
		return false;
	for (uint32_t i = 0; i < a->count; i++) {
		const Term *t = &a->term[i];
		Arg value = arg_ref(t->id);
		if (t->scale % by != 0 && (t->kind != VAR_NODE || !arg_divisible(p, &value, by)))
			return false;
	}
	return true;
}

bool loop_dim_divides(Planner *p, const LoopDim *d) {
	Affine length = affine_sub(p->a, d->end, d->begin);
	return affine_divisible(p, &length, d->step);
}

NodeId place_table(const Plan *plan, NodeId index) {
	const Module *m = plan->module;
	while (node_get(m, index)->op == OP_CLAMP && node_arg(m, index, 1)->kind == ARG_INT &&
	       node_arg(m, index, 2)->kind == ARG_INT)
		index = node_arg(m, index, 0)->node;
	return node_get(m, index)->op == OP_LOAD && plan->values[index].table ? index : NONE;
}
