/* block_constraints.c - fact: what each dim of each tensor asks of a block of it.
 *
 * What: for every host tensor as the graph names it, views too: blocks are multiples of 128 lanes in the last dim, of 8
 * sublanes in the one before (both or else the whole dim), of 1 in the others; a 1-D tensor's of 128 * (32 / bits),
 * where it is used as it is: a boundary view [1, N] is the plan's choice. Each tensor has its own: a block id shared by
 * a float32 [B, S] and a bfloat16 [B, S, D] is not raised on the second for the sake of the first. Where the target
 * caps the elements of a tile, and only there, also the size of each tile value as an expression to be held under it.
 * Why on a TPU: these are Pallas' BlockSpec rules, from the (8, 128) tiles of its memory; merging them per block id is
 * what made attention's batch block 8 instead of 2, and its VMEM 238 MB.
 *
 *     q    bfloat16[B, S, 256]     =>     [1, 8, 128]
 *     lse  float32[B, S]           =>     [8, 128]
 *     mean float32[S]              =>     [128]
 */
#include "facts.h"

/* ---- alignment --------------------------------------------------------------------------------------------------- */

static Alignment tensor_alignment(const Target *target, const Tensor *t) {
	Alignment a = {0};
	for (uint32_t i = 0; i < t->rank; i++)
		a.dim[i] = target_block_multiple(target, dtype_bits(t->dtype), t->rank, i);
	return a;
}

/* ---- the cap on a tile's elements -------------------------------------------------------------------------------- */

static ExprId value_elements(Module *m, NodeId n) {
	Type t = *node_type(m, n);
	ExprId product = expr_int(m, 1);
	for (uint32_t i = 0; i < t.count; i++)
		product = expr_binary(m, EXPR_MUL, product, t.dims[i]);
	return product;
}

static void limit_elements(Module *m, Map *seen, NodeId n) {
	ExprId elements = value_elements(m, n);
	int64_t most = m->target->max_tile_elements;
	const Expr *e = &m->exprs.at[elements];
	if (map_get(seen, elements) != NONE || (e->kind == EXPR_INT && e->value <= most))
		return;
	map_put(m->arena, seen, elements, n);
	vec_push(m->arena, &m->element_limits, ((ElementLimit){n, elements, most}));
}

static void find_element_limits(Module *m) {
	Map seen = {0};
	m->element_limits.count = 0;
	if (m->target->max_tile_elements == 0) /* none, as on every TPU */
		return;
	for (GraphId g = 0; g < m->graphs.count; g++)
		for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next)
			if (node_is_tile(m, n))
				limit_elements(m, &seen, n);
}

bool pass_block_constraints(PassContext *c) {
	Module *m = c->module;
	m->alignments = arena_array(m->arena, (size_t)m->tensors.count + 1, sizeof *m->alignments);
	for (TensorId t = 0; t < m->tensors.count; t++)
		m->alignments[t] = tensor_alignment(m->target, &m->tensors.at[t]);
	find_element_limits(m);
	for (uint32_t i = 0; i < m->element_limits.count; i++) {
		const ElementLimit *limit = &m->element_limits.at[i];
		pass_remark(c, "block_constraints", "%s <= %lld: the elements of '%s' in one tile of %s",
		            expr_named(m, c->arena, limit->elements), (long long)limit->most,
		            node_get(m, limit->node)->name, m->target->name);
	}
	return true;
}
