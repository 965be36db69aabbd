/* grid.c - the grid: its dims, their order and steps. */
#include "loops.h"
#include "src/config/config.h"

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
	const Module *m = p->m;
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
