/* grid.c - the grid: its dims and their steps. */
#include "loops.h"

bool grid_order_given(Planner *p) {
	const ConfigList *given = loop_order_given(p, p->plan->root);
	return given && given->values.count > 0;
}

bool plan_grid(Planner *p, const uint32_t *given) {
	const Module *m = p->m;
	const Graph *root = graph_get(m, p->plan->root);
	uint32_t order[RANK_MAX] = {0};
	p->plan->grid.count = 0;
	if (root->blocks.count > RANK_MAX)
		return plan_refuse(p, root->first, "unsupported", "split the kernel", "a grid of more than %d dims",
		                   RANK_MAX);
	loop_order(p, p->plan->root, order);
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
