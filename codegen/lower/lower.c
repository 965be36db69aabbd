/* lower.c - which ops the kernel can hold, and how. An op that is not here is refused by name before anything else is
 * planned. */
#include "lower.h"
#include "passes/decompose/decompose.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
/* clang-format off */
const unsigned char lowering_table[OP_COUNT] = {
	/* Those whose kind and printed form say it all; ... */
#define OP(e, target, kind, params, shape, dtype, form, text)                                                          \
	[OP_##e] = kind == KIND_POINTWISE && PRINT_##form != PRINT_CUSTOM ? LOWER_POINTWISE : LOWER_NOT,
#include "ops.def"
#undef OP
	/* ... by name. */
	[OP_PLACEHOLDER] = LOWER_FREE, [OP_OUTPUT] = LOWER_FREE, [OP_HOST_TENSOR] = LOWER_FREE,
	[OP_SYMNODE] = LOWER_FREE, [OP_SYM_SIZE] = LOWER_FREE, [OP_SCALAR] = LOWER_FREE,
	[OP_TILE_BLOCK_SIZE] = LOWER_FREE,
	[OP_SYM_ADD] = LOWER_INT, [OP_SYM_SUB] = LOWER_INT, [OP_SYM_MUL] = LOWER_INT, [OP_SYM_FLOORDIV] = LOWER_INT,
	[OP_SYM_MOD] = LOWER_INT, [OP_SYM_NEG] = LOWER_INT, [OP_SYM_MAX] = LOWER_INT, [OP_SYM_MIN] = LOWER_INT,
	[OP_SYM_EQ] = LOWER_INT, [OP_SYM_NE] = LOWER_INT, [OP_SYM_LT] = LOWER_INT, [OP_SYM_LE] = LOWER_INT,
	[OP_SYM_GT] = LOWER_INT, [OP_SYM_GE] = LOWER_INT, [OP_SYM_AND] = LOWER_INT, [OP_SYM_OR] = LOWER_INT,
	[OP_SYM_NOT] = LOWER_INT, [OP_TILE_BEGIN] = LOWER_INT, [OP_TILE_END] = LOWER_INT, [OP_TILE_ID] = LOWER_INT,
	[OP_TILE_NUM] = LOWER_INT,
	[OP_TILE_INDEX] = LOWER_INDEX, [OP_IOTA] = LOWER_INDEX,
	[OP_LOAD] = LOWER_LOAD,
	[OP_STORE] = LOWER_STORE, [OP_ATOMIC_ADD] = LOWER_STORE, [OP_ATOMIC_MAX] = LOWER_STORE,
	[OP_ATOMIC_MIN] = LOWER_STORE, [OP_ATOMIC_AND] = LOWER_STORE, [OP_ATOMIC_OR] = LOWER_STORE,
	[OP_ATOMIC_XOR] = LOWER_STORE, [OP_ATOMIC_XCHG] = LOWER_STORE,
	[OP_FOR_LOOP] = LOWER_LOOP,
	[OP_GETITEM] = LOWER_RESULT,
	[OP_PHI] = LOWER_ALIAS, [OP_NEW_VAR] = LOWER_ALIAS,
	[OP_MASK_TO] = LOWER_MASK,
	[OP_SUBSCRIPT] = LOWER_VIEW, [OP_PERMUTE] = LOWER_VIEW, [OP_TRANSPOSE] = LOWER_VIEW, [OP_T] = LOWER_VIEW,
	[OP_MT] = LOWER_VIEW, [OP_VIEW] = LOWER_VIEW, [OP_UNSAFE_VIEW] = LOWER_VIEW, [OP_RESHAPE] = LOWER_VIEW,
	[OP_SQUEEZE] = LOWER_VIEW, [OP_SQUEEZE_DIM] = LOWER_VIEW, [OP_SQUEEZE_DIMS] = LOWER_VIEW,
	[OP_UNSQUEEZE] = LOWER_VIEW, [OP_EXPAND] = LOWER_VIEW, [OP_SELECT] = LOWER_VIEW,
	[OP_PRE_BROADCAST_TILE] = LOWER_VIEW,
	[OP_CAT] = LOWER_MOVE, [OP_STACK] = LOWER_MOVE, [OP_SLICE] = LOWER_MOVE, [OP_FLIP] = LOWER_MOVE,
	[OP_ROLL] = LOWER_MOVE, [OP_PAD] = LOWER_MOVE, [OP_REPEAT] = LOWER_MOVE, [OP_VIEW_DTYPE] = LOWER_MOVE,
	[OP_FULL] = LOWER_FULL, [OP_ATEN_FULL] = LOWER_FULL, [OP_ZEROS] = LOWER_FULL, [OP_ONES] = LOWER_FULL,
	[OP_FULL_LIKE] = LOWER_FULL, [OP_ZEROS_LIKE] = LOWER_FULL, [OP_ONES_LIKE] = LOWER_FULL,
	[OP_SCALAR_TENSOR] = LOWER_FULL,
	[OP_MM] = LOWER_MATMUL, [OP_MM_DTYPE] = LOWER_MATMUL, [OP_INT_MM] = LOWER_MATMUL, [OP_BMM] = LOWER_MATMUL,
	[OP_BMM_DTYPE] = LOWER_MATMUL, [OP_ADDMM] = LOWER_MATMUL, [OP_ADDMM_DTYPE] = LOWER_MATMUL,
	[OP_BADDBMM] = LOWER_MATMUL, [OP_BADDBMM_DTYPE] = LOWER_MATMUL, [OP_DOT] = LOWER_MATMUL,
	[OP_SUM] = LOWER_REDUCE, [OP_SUM_DIM] = LOWER_REDUCE, [OP_MEAN] = LOWER_REDUCE, [OP_MEAN_DIM] = LOWER_REDUCE,
	[OP_AMAX] = LOWER_REDUCE, [OP_AMIN] = LOWER_REDUCE, [OP_MAX] = LOWER_REDUCE, [OP_MIN] = LOWER_REDUCE,
	[OP_PROD] = LOWER_REDUCE, [OP_PROD_DIM] = LOWER_REDUCE,
	[OP_CUMSUM] = LOWER_SCAN, [OP_CUMPROD] = LOWER_SCAN,
	[OP_GELU] = LOWER_POINTWISE, [OP_ELU] = LOWER_POINTWISE, [OP_SOFTPLUS] = LOWER_POINTWISE,
	[OP_DIV_MODE] = LOWER_POINTWISE, [OP_DIV_SCALAR_MODE] = LOWER_POINTWISE,
	[OP_CLONE] = LOWER_ALIAS, [OP_ALIAS] = LOWER_ALIAS, [OP_DETACH] = LOWER_ALIAS,
	[OP_LIFT_FRESH_COPY] = LOWER_ALIAS, [OP_CONTIGUOUS] = LOWER_ALIAS,
	[OP_CONVERT] = LOWER_POINTWISE, [OP_TO_COPY] = LOWER_POINTWISE,
};
/* clang-format on */
#pragma GCC diagnostic pop

/* The nearest thing that works. */
static const char *hint_instead(uint16_t op) {
	switch ((Op)op) {
	case OP_SORT: return "sort outside the kernel; aten.max.dim gives the greatest element and its place";
	case OP_TOPK: return "take aten.max.dim k times, each time without what was found, or do it outside the kernel";
	case OP_ASSOCIATIVE_SCAN: return "of one tensor, a sum or a product of the two is lowered";
	case OP_TILE_REDUCE: return "aten.sum, amax, amin, prod, argmax, any and all are lowered";
	case OP_GATHER:
	case OP_INDEX_SELECT:
	case OP_INDEX:
	case OP_EMBEDDING:
		return "of one index a row: aten.gather with a dim of 1 is lowered; else multiply by a one-hot matrix, "
		       "tile.index == index";
	case OP_RAND:
	case OP_RANDINT: return "make the random numbers outside the kernel: an input";
	case OP_IF:
		return "move atomic_xchg, atomic_cas, tile.while and slices with computed bounds out of its branches: "
		       "the pass branches runs both and guards all else";
	case OP_ATOMIC_CAS: return "tile.atomic_max, atomic_min and atomic_add are lowered";
	default: return op_decomposes(op) ? "run the pass decompose, which makes other ops of it" : NULL;
	}
}

static bool supported_in(Planner *p, GraphId g) {
	bool ok = true;
	for (NodeId n = graph_first(p->m, g); n != NONE; n = node_get(p->m, n)->next) {
		uint16_t op = node_get(p->m, n)->op;
		if (op_lowering(op) == LOWER_NOT)
			ok = plan_refuse(p, n, "unsupported-op", hint_instead(op), "%s is not lowered yet",
			                 op_row(op)->target);
		else
			ok = arith_accepts(p, n) &&
			     ((op_lowering(op) != LOWER_MOVE && op != OP_SUBSCRIPT) || move_accepted(p, n)) && ok;
		if (op == OP_TILE_NUM && node_type(p->m, n)->sym == NONE)
			ok = plan_refuse(p, n, "unsupported-op",
			                 "compute it from the loop's bounds and tile.block_size",
			                 "the number of tiles is known only at run time");
		if (op == OP_LOAD && node_input(p->m, n, 2) != NONE)
			ok = plan_refuse(p, n, "unsupported", "run the pass decompose, which makes an aten.where of it",
			                 "the extra_mask of a load is not lowered");
		if (op_lowering(op) == LOWER_ALIAS && node_input(p->m, n, op == OP_PHI) == NONE)
			ok = plan_refuse(p, n, "unsupported", "run the pass const_fold, which makes a constant of it",
			                 "%s of a number is not lowered", op_row(op)->target);
		if ((op_lowering(op) == LOWER_REDUCE || op_lowering(op) == LOWER_SCAN) &&
		    node_type(p->m, node_input(p->m, n, 0))->count == 0)
			ok = plan_refuse(p, n, "unsupported", "use the value itself",
			                 "%s of a value without dims is not lowered", op_row(op)->target);
		if (op_writes(op) && op != OP_STORE && node_use_count(p->m, n) > 0)
			ok = plan_refuse(p, n, "unsupported", "load the element before it, or after it",
			                 "the old value that %s gives is not lowered yet", op_row(op)->target);
		if (op == OP_FOR_LOOP)
			ok = supported_in(p, node_arg(p->m, n, 0)->graph) && ok;
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
	switch (node_get(m, n)->op) {
	case OP_SUBSCRIPT: return subscript_shape(m, n);
	case OP_VIEW:
	case OP_UNSAFE_VIEW:
	case OP_RESHAPE:
	case OP_SQUEEZE:
	case OP_SQUEEZE_DIM:
	case OP_SQUEEZE_DIMS:
	case OP_UNSQUEEZE: return reshape_shape(p, n);
	case OP_EXPAND: return same_sizes(p, x, n) ? VIEW_SHAPE_SAME : VIEW_SHAPE_OTHER;
	case OP_SELECT: {
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
