/* grid.c - the grid, and where a block symbol stands in the kernel: a grid dim, a loop's dim, or a dim taken whole. */
#include "codegen/plan/planner.h"

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

static int64_t block_begin(Planner *p, BlockId b) {
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

static bool is_identity(const ConfigList *order) {
	for (uint32_t i = 0; i < order->values.count; i++)
		if (order->values.at[i] != (int64_t)i)
			return false;
	return true;
}

/* The order of the root's grid dims: the graph's, or the configuration's permutation. Inner loops keep theirs. */
static bool grid_order(Planner *p, const Graph *root, uint32_t *order) {
	const Config *c = &p->m->config;
	uint32_t count;
	for (uint32_t i = 0; i < root->blocks.count; i++)
		order[i] = i;
	if (!c->loop_orders.set)
		return true;
	const GraphId *loops = config_loops(p->m, p->a, &count);
	for (uint32_t k = 0; k < count && k < c->loop_orders.values.count; k++) {
		const ConfigList *given = &c->loop_orders.values.at[k];
		bool grid = loops[k] == p->plan->root;
		if (!grid && !is_identity(given)) {
			diag_error(p->d, config_list_place(p->d, c->loop_orders.origin, k), "unsupported-config",
			           "keep the loop's own order, [0, 1, ...]",
			           "loop_orders: only the grid's order can be chosen yet");
			return false;
		}
		for (uint32_t i = 0; grid && i < given->values.count && i < root->blocks.count; i++)
			order[i] = (uint32_t)given->values.at[i];
	}
	return true;
}

bool grid_order_given(Planner *p) {
	uint32_t count;
	const Config *c = &p->m->config;
	if (!c->loop_orders.set)
		return false;
	const GraphId *loops = config_loops(p->m, p->a, &count);
	for (uint32_t k = 0; k < count && k < c->loop_orders.values.count; k++)
		if (loops[k] == p->plan->root && c->loop_orders.values.at[k].values.count > 0)
			return true;
	return false;
}

bool plan_grid(Planner *p, const uint32_t *given) {
	Module *m = p->m;
	const Graph *root = graph_get(m, p->plan->root);
	uint32_t order[RANK_MAX];
	p->plan->grid.count = 0;
	if (root->blocks.count > RANK_MAX)
		return plan_refuse(p, root->first, "unsupported", "split the kernel", "a grid of more than %d dims",
		                   RANK_MAX);
	if (!grid_order(p, root, order))
		return false;
	if (given)
		memcpy(order, given, root->blocks.count * sizeof *order);
	for (uint32_t i = 0; i < root->blocks.count; i++) {
		BlockId b = root->blocks.at[order[i]];
		const Block *block = &m->blocks.at[b];
		int64_t extent, size = block_size(p, b);
		if (block->extent == NONE || !expr_value(m, block->extent, &extent))
			return plan_refuse(p, root->first, "grid-extent", "give block_sizes an extent for it",
			                   "grid dim %u (%s) has no extent", i, block->name);
		int64_t length = extent - block_begin(p, b);
		if (length <= 0) /* what an output holds then, jax leaves open */
			return plan_refuse(p, root->first, "grid-extent", "return the initial values without a kernel",
			                   "grid dim %u (%s) is empty: it begins at %lld and ends at %lld", i,
			                   block->name, (long long)block_begin(p, b), (long long)extent);
		GridDim dim = {.block = b, .steps = int_cdiv(length, size), .parallel = true, .name = block->name};
		vec_push(p->a, &p->plan->grid, dim);
	}
	return true;
}
