/* values.c - the steps of what is planned for each value, and in which dtype it is computed. */
#include "values.h"
#include "codegen/lower/lower.h"

/* A stack of columns puts lanes beside lanes, which all chips do of 16 bits too: only a new last dim of rows takes 32.
 */
static Dtype moved_in(Planner *p, NodeId n) {
	const Arg *parts = node_arg(p->m, n, 0);
	bool columns = stacks_last(p->m, n) && dtype_bits(node_type(p->m, n)->dtype) == 16;
	for (uint32_t i = 0; columns && i < parts->list.count; i++)
		columns = value_of(p, arg_item(p->m, parts, i)->node)->form == FORM_COLUMN;
	return columns ? DTYPE_NONE : arith_moved_in(p->m, n);
}

static void compute_dtypes_in(Planner *p, GraphId g) {
	for (NodeId n = graph_first(p->m, g); n != NONE; n = node_get(p->m, n)->next) {
		Lowering how = op_lowering(node_get(p->m, n)->op);
		if (how == LOWER_POINTWISE || how == LOWER_REDUCE || how == LOWER_SCAN)
			value_of(p, n)->compute =
				p->way.other ? p->way.other->values[n].compute : arith_compute_dtype(p->m, n);
		if (how == LOWER_MOVE)
			value_of(p, n)->compute = moved_in(p, n);
		if (how == LOWER_LOOP)
			compute_dtypes_in(p, loop_body(p->m, n));
	}
}

bool plan_values(Planner *p) {
	plan_forms(p);
	compute_dtypes_in(p, p->plan->root);
	plan_masks(p);
	plan_wheres(p);
	plan_folds(p);
	plan_factors(p);
	return true;
}
