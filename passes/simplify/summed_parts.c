/* summed_parts.c - parts that the wrapper would sum are summed in the kernel.
 *
 * What: an output with a row for each tile of the grid, float32, which is returned as the sum of these rows alone,
 * loses that dim: each grid point adds its row to what the points before it made, in VMEM, in their order.
 *
 * Why on a TPU: the parts go to HBM and come back, and XLA sums them behind the kernel, which takes some 4,000 cycles
 * however few they are: 2 to 3% of a norm's backward on v7x and v6e. One core runs the points one after the other
 * anyway; where two share the grid, each would need a sum of its own. docs/passes/summed_parts.md
 *
 *     dw : float32[tiles, 4096]                      dw : bfloat16[4096]
 *     store dw[tile.id, :], row              =>      atomic_add dw[:], row
 *     returns sum(dw, [0]).to(bfloat16)              returns dw
 */
#include "simplify.h"

/* The return of the tensor, if there is one; `count`: all returns of it. */
static uint32_t return_of(const Module *m, TensorId t, uint32_t *count) {
	uint32_t found = NONE;
	*count = 0;
	for (uint32_t r = 0; r < m->returns.count; r++)
		if (tensor_base(m, m->returns.at[r].tensor) == t) {
			found = r;
			(*count)++;
		}
	return found;
}

/* The first step sums dim 0, and drops it. */
static bool sums_first_dim(const Module *m, const Return *r) {
	if (r->step_count == 0 || op_canonical(r->steps[0].op) != OP_SUM || r->steps[0].count != 3)
		return false;
	const Arg *dims = arg_get(m, r->steps[0].first), *keep = arg_get(m, r->steps[0].first + 1),
		  *dtype = arg_get(m, r->steps[0].first + 2);
	bool plain = keep->kind == ARG_BOOL && !keep->boolean && dtype->kind == ARG_NULL;
	return plain && dims->kind == ARG_LIST && dims->list.count == 1 && arg_item(m, dims, 0)->kind == ARG_INT &&
	       arg_item(m, dims, 0)->integer == 0;
}

/* Nothing but the store names it, as itself and not by a view. */
static bool stored_alone(const Module *m, TensorId t, NodeId store) {
	for (TensorId v = 0; v < m->tensors.count; v++)
		if (v != t && m->tensors.at[v].role == ROLE_VIEW && tensor_base(m, v) == t)
			return false;
	for (GraphId g = 0; g < m->graphs.count; g++)
		for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next)
			if (n != store && op_kind(m, n) == KIND_MEMORY && access_tensor(m, n) == t)
				return false;
	return true;
}

/* It stores a row for each tile of the grid's one dim: [tile.id, :, ...]. */
static bool stores_row(const Module *m, NodeId n) {
	const Graph *g = graph_get(m, node_get(m, n)->graph);
	const Arg *index = node_arg(m, n, 1);
	if (g->kind != GRAPH_ROOT || g->blocks.count != 1 || node_input(m, n, 3) != NONE || index->kind != ARG_LIST ||
	    index->list.count < 2 || arg_item(m, index, 0)->kind != ARG_REF)
		return false;
	NodeId row = arg_item(m, index, 0)->node;
	if (node_get(m, row)->op != OP_TILE_ID || arg_block(m, node_arg(m, row, 0)) != g->blocks.at[0])
		return false;
	for (uint32_t d = 1; d < index->list.count; d++)
		if (!arg_is_whole(m, arg_item(m, index, d)))
			return false;
	return true;
}

/* Its tensor has a row for each tile, of float32, and is returned as their sum. */
static bool is_part(const Module *m, NodeId n) {
	uint32_t count;
	TensorId t = node_get(m, n)->op == OP_STORE && stores_row(m, n) ? access_tensor(m, n) : NONE;
	uint32_t r = t == NONE ? NONE : return_of(m, t, &count);
	if (r == NONE || count != 1 || !sums_first_dim(m, &m->returns.at[r]))
		return false;
	const Tensor *of = &m->tensors.at[t];
	NodeId value = node_input(m, n, 2);
	bool zeros = !of->has_init || of->init == 0; /* rows that no tile stores would count */
	return of->role == ROLE_OUTPUT && of->dtype == DTYPE_F32 && zeros && m->returns.at[r].tensor == t &&
	       value != NONE && node_type(m, value)->count + 1 == of->rank && stored_alone(m, t, n);
}

/* The next step rounds to bfloat16, as an atomic of that dtype does once all is added (held.c). */
static bool rounds(const Module *m, const Return *r) {
	if (r->step_count == 0 || !op_converts(r->steps[0].op) || r->steps[0].count == 0)
		return false;
	const Arg *to = arg_get(m, r->steps[0].first);
	return to->kind == ARG_DTYPE && to->dtype == DTYPE_BF16;
}

static void sum_in_kernel(PassContext *c, NodeId n) {
	Module *m = c->module;
	TensorId t = access_tensor(m, n);
	Tensor *of = &m->tensors.at[t];
	uint32_t count;
	Return *ret = &m->returns.at[return_of(m, t, &count)];
	of->rank--;
	memmove(of->shape, of->shape + 1, of->rank * sizeof *of->shape);
	of->has_init = true;
	of->init = 0;
	ret->steps++;
	ret->step_count--;
	if (rounds(m, ret)) {
		of->dtype = DTYPE_BF16;
		ret->steps++;
		ret->step_count--;
	}
	node_set_type(m, node_input(m, n, 0), type_tensor(m, of->dtype, of->rank, of->shape));
	const Arg *index = node_arg(m, n, 1);
	Arg rest[RANK_MAX];
	for (uint32_t d = 0; d < of->rank; d++)
		rest[d] = arg_copy(m, *arg_item(m, index, d + 1));
	Arg args[] = {arg_copy(m, *node_arg(m, n, 0)), arg_list(m, of->rank, rest), arg_copy(m, *node_arg(m, n, 2))};
	node_derive(m, OP_ATOMIC_ADD, n, "sum", type_tensor(m, of->dtype, of->rank, of->shape), 3, args, n);
	node_remove(m, n);
	pass_remark(c, "summed_parts", "%s: the kernel sums its rows, one of each grid point", of->name);
}

bool pass_summed_parts(PassContext *c) {
	Module *m = c->module;
	Switch asked = (Switch)m->config.summed_parts.value;
	bool wanted = asked == SWITCH_ON || (asked == SWITCH_AUTO && m->target->tensorcores == 1);
	for (GraphId g = 0; g < m->graphs.count && wanted && !m->sharding; g++)
		for (NodeId n = graph_first(m, g), next; n != NONE; n = next) {
			next = node_get(m, n)->next;
			if (is_part(m, n))
				sum_in_kernel(c, n);
		}
	return true;
}
