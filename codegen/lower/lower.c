/* lower.c - what the kernel cannot hold is refused by name before anything else is planned; the shapes of views. */
#include "lower.h"

/* The nearest thing that works. */
static const char *hint_instead(uint16_t op) {
	const char *instead = op_row(op)->instead;
	return instead == NULL && op_lowering(op) == LOWER_PARTS ? "run the pass decompose, which makes other ops of it"
	                                                         : instead;
}

/* What takes part has the tensor's own dtype: a number of its kind, or a tensor. */
static bool has_own_dtype(const Module *m, NodeId n, const char *operand) {
	const Arg *value = op_arg(m, n, operand);
	Dtype t = node_type(m, n)->dtype;
	if (value->kind == ARG_REF)
		return node_type(m, value->node)->kind == TYPE_TENSOR ? node_type(m, value->node)->dtype == t
		                                                      : t == DTYPE_I32;
	return value->kind == ARG_INT || (value->kind == ARG_FLOAT && dtype_is_float(t));
}

/* A slice without a step, whose ends are known. */
static bool is_run(const Module *m, const Arg *slice) {
	const Arg *step = arg_item(m, slice, 2);
	for (uint32_t i = 0; i < 2; i++)
		if (arg_item(m, slice, i)->kind != ARG_NULL && arg_item(m, slice, i)->kind != ARG_INT)
			return false;
	return step->kind == ARG_NULL || (step->kind == ARG_INT && step->integer == 1);
}

/* Int tensors say where, as they may for any scatter: of the rest the pass decompose makes a load and a store. */
static bool old_lowered(Planner *p, NodeId n) {
	const Arg *index = node_arg(p->m, n, 1);
	const char *target = op_row(node_get(p->m, n)->op)->target;
	bool gathers = false, known = true;
	for (uint32_t i = 0; index->kind == ARG_LIST && i < index->list.count; i++) {
		const Arg *entry = arg_item(p->m, index, i);
		gathers = gathers || entry_gathers(p->m, entry);
		known = known && entry->kind != ARG_NULL && (entry->kind != ARG_SLICE || is_run(p->m, entry));
	}
	if (!gathers || !known)
		return plan_refuse(
			p, n, "unsupported",
			"index with tiles, whole dims, single positions and int tensors; run the pass decompose",
			"the old value that %s gives is not lowered yet", target);
	if (node_get(p->m, n)->op == OP_ATOMIC_CAS &&
	    !(has_own_dtype(p->m, n, "expected") && has_own_dtype(p->m, n, "value")))
		return plan_refuse(p, n, "unsupported", "convert both to the tensor's dtype",
		                   "%s compares or writes values of another dtype than the tensor's", target);
	return true;
}

static bool supported_in(Planner *p, GraphId g) {
	bool ok = true;
	for (NodeId n = graph_first(p->m, g); n != NONE; n = node_get(p->m, n)->next) {
		uint16_t op = node_get(p->m, n)->op;
		if (!op_is_lowered(op))
			ok = plan_refuse(p, n, "unsupported-op", hint_instead(op), "%s is not lowered yet",
			                 op_row(op)->target);
		else
			ok = arith_accepts(p, n) && (op_lowering(op) != LOWER_MOVE || move_accepted(p, n)) &&
			     (op_lanes(op) != LANES_INDEX || index_accepted(p, n)) && ok;
		if (op == OP_LOAD && node_input(p->m, n, 2) != NONE)
			ok = plan_refuse(p, n, "unsupported", "run the pass decompose, which makes an aten.where of it",
			                 "the extra_mask of a load is not lowered");
		if (op_lowering(op) == LOWER_ALIAS && alias_arg(p->m, n)->kind != ARG_REF)
			ok = plan_refuse(p, n, "unsupported", "run the pass const_fold, which makes a constant of it",
			                 "%s of a number is not lowered", op_row(op)->target);
		if ((op_lowering(op) == LOWER_REDUCE || op_lowering(op) == LOWER_SCAN) &&
		    node_type(p->m, node_input(p->m, n, 0))->count == 0)
			ok = plan_refuse(p, n, "unsupported", "use the value itself",
			                 "%s of a value without dims is not lowered", op_row(op)->target);
		if (op_is_atomic(op) && (op == OP_ATOMIC_CAS || node_uses(p->m, n) != NONE))
			ok = old_lowered(p, n) && ok;
		if (op_lowering(op) == LOWER_LOOP)
			ok = supported_in(p, loop_body(p->m, n)) && ok;
	}
	return ok;
}

bool plan_supported(Planner *p) {
	p->plan->root = module_root(p->m, 0);
	return p->way.other || supported_in(p, p->plan->root);
}

/* ---- the shapes of views ---------------------------------------------------------------------------------------- */

static ViewShape subscript_shape(const Module *m, NodeId n) {
	const Arg *index = node_arg(m, n, 1);
	uint32_t count = index->list.count, nulls = 0, first = 0, last = 0;
	for (uint32_t i = 0; i < count; i++) {
		const Arg *a = arg_item(m, index, i);
		if (a->kind != ARG_NULL && !arg_is_whole(m, a))
			return VIEW_SHAPE_OTHER;
		nulls += a->kind == ARG_NULL;
		first += a->kind == ARG_NULL && i == 0;
		last += a->kind == ARG_NULL && i == count - 1;
	}
	if (nulls == 0)
		return VIEW_SHAPE_SAME;
	if (nulls == 1 && last == 1)
		return VIEW_SHAPE_UNIT_LAST;
	return nulls == 1 && first == 1 && count == 2 ? VIEW_SHAPE_UNIT_FIRST : VIEW_SHAPE_OTHER;
}

static bool same_sizes(const Planner *p, NodeId a, NodeId b) {
	uint32_t rank = node_type(p->m, a)->count;
	if (rank != node_type(p->m, b)->count)
		return false;
	for (uint32_t i = 0; i < rank; i++)
		if (expr_number(p->m, node_type(p->m, a)->dims[i]) != expr_number(p->m, node_type(p->m, b)->dims[i]))
			return false;
	return true;
}

/* reshape, squeeze, unsqueeze, view: by the shapes alone. */
static ViewShape reshape_shape(const Planner *p, NodeId n) {
	NodeId x = node_input(p->m, n, 0);
	const Type *from = node_type(p->m, x), *to = node_type(p->m, n);
	if (same_sizes(p, x, n))
		return VIEW_SHAPE_SAME;
	bool longer = to->count == from->count + 1, shorter = to->count + 1 == from->count;
	uint32_t common = longer ? from->count : to->count;
	const Type *wide = longer ? to : from, *thin = longer ? from : to;
	if ((!longer && !shorter) || common == 0)
		return VIEW_SHAPE_OTHER;
	bool unit_last = expr_number(p->m, wide->dims[common]) == 1, unit_first = expr_number(p->m, wide->dims[0]) == 1;
	bool unit_row = expr_number(p->m, wide->dims[common - 1]) == 1;
	for (uint32_t i = 0; i < common; i++) {
		int64_t size = expr_number(p->m, thin->dims[i]);
		unit_last = unit_last && size == expr_number(p->m, wide->dims[i]);
		unit_first = unit_first && size == expr_number(p->m, wide->dims[i + 1]);
		unit_row = unit_row && size == expr_number(p->m, wide->dims[i + (i + 1 == common)]);
	}
	if (unit_first && common == 1)
		return longer ? VIEW_SHAPE_UNIT_FIRST : VIEW_SHAPE_DROP_FIRST;
	if (unit_last)
		return longer ? VIEW_SHAPE_UNIT_LAST : VIEW_SHAPE_DROP_LAST;
	return unit_row && shorter ? VIEW_SHAPE_DROP_ROW : VIEW_SHAPE_OTHER;
}

ViewShape view_shape(const Planner *p, NodeId n) {
	const Module *m = p->m;
	NodeId x = node_input(m, n, 0);
	uint32_t rank = node_type(m, x)->count;
	switch (op_lanes(node_get(m, n)->op)) {
	case LANES_INDEX: return subscript_shape(m, n);
	case LANES_RESHAPE:
	case LANES_SQUEEZE:
	case LANES_UNSQUEEZE: return reshape_shape(p, n);
	case LANES_EXPAND: return same_sizes(p, x, n) ? VIEW_SHAPE_SAME : VIEW_SHAPE_OTHER;
	case LANES_SELECT: {
		int64_t dim = node_arg(m, n, 1)->integer, index = node_arg(m, n, 2)->integer;
		bool ints = node_arg(m, n, 1)->kind == ARG_INT && node_arg(m, n, 2)->kind == ARG_INT;
		return ints && index == 0 && rank >= 2 && (dim == -1 || dim == (int64_t)rank - 1) ? VIEW_SHAPE_LANE_0
		                                                                                  : VIEW_SHAPE_OTHER;
	}
	default: return VIEW_SHAPE_OTHER;
	}
}

/* ---- matmuls ---------------------------------------------------------------------------------------------------- */

NodeId matmul_operand(const Module *m, NodeId n, int which) {
	uint32_t i = matmul_arg(node_get(m, n)->op, (uint32_t)which);
	return i == NONE ? NONE : node_input(m, n, i);
}
