/* pre_broadcast_use.c - how nodes take thin values: what the two halves of pre_broadcast.c ask of a single node. */
#include "pre_broadcast.h"

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

bool is_column(const Module *m, TypeId type) {
	const Type *t = type_get(m, type);
	return t->kind == TYPE_TENSOR && t->count >= 2 && expr_is_int(m, t->dims[t->count - 1], 1);
}

bool is_tensor_value(const Spreading *w, NodeId n) { return type_get(w->m, w->old[n])->kind == TYPE_TENSOR; }

/* The first `count` dims are equal. */
static bool same_dims(const Spreading *w, NodeId a, NodeId b, uint32_t count) {
	Type x = *type_get(w->m, w->old[a]), y = *type_get(w->m, w->old[b]);
	for (uint32_t i = 0; i < count; i++)
		if (!expr_equal(w->m, x.dims[i], y.dims[i]))
			return false;
	return true;
}

static bool same_shape(const Spreading *w, NodeId a, NodeId b) {
	uint32_t rank = type_get(w->m, w->old[a])->count;
	return is_tensor_value(w, a) && is_tensor_value(w, b) && rank == type_get(w->m, w->old[b])->count &&
	       is_column(w->m, w->old[a]) == is_column(w->m, w->old[b]) && same_dims(w, a, b, rank);
}

TypeId spread_type(const Spreading *w, TypeId thin) {
	Type t = *type_get(w->m, thin);
	uint32_t rank = is_column(w->m, thin) ? t.count : t.count + 1;
	t.dims[rank - 1] = expr_int(w->m, w->lanes);
	return type_tensor(w->m, t.dtype, rank, t.dims);
}

bool meeting_width(const Spreading *w, NodeId n, int64_t *width) {
	const Type *t = type_get(w->m, w->old[n]);
	return expr_value(w->m, t->dims[t->count - 1], width) && *width > 0 && *width % w->lanes == 0;
}

/* ---- what nodes do ----------------------------------------------------------------------------------------------- */

bool is_lanewise(const Module *m, NodeId n) {
	const OpRow *row = op_row(node_get(m, n)->op);
	return row->kind == KIND_POINTWISE && row->shape == SHAPE_BROADCAST;
}

static bool is_slice_of_all(const Module *m, const Arg *a) {
	return a->kind == ARG_SLICE && arg_item(m, a, 0)->kind == ARG_NULL && arg_item(m, a, 1)->kind == ARG_NULL &&
	       arg_item(m, a, 2)->kind == ARG_NULL;
}

/* x[:, :, None] */
static bool indexes_new_last(const Module *m, NodeId n, uint32_t rank) {
	const Arg *index = node_arg(m, n, 1);
	if (index->kind != ARG_LIST || index->list.count != rank + 1 || arg_item(m, index, rank)->kind != ARG_NULL)
		return false;
	for (uint32_t i = 0; i < rank; i++)
		if (!is_slice_of_all(m, arg_item(m, index, i)))
			return false;
	return true;
}

/* n is x with one more dim of 1 at the end. */
static bool adds_last(const Spreading *w, NodeId n, NodeId x) {
	Lanes lanes = op_lanes(node_get(w->m, n)->op);
	uint32_t rank = type_get(w->m, w->old[x])->count;
	if (!is_column(w->m, w->old[n]) || is_column(w->m, w->old[x]) || type_get(w->m, w->old[n])->count != rank + 1)
		return false;
	if (lanes == LANES_INDEX)
		return indexes_new_last(w->m, n, rank);
	if (lanes == LANES_UNSQUEEZE) {
		const Arg *dim = node_arg(w->m, n, 1);
		return dim->kind == ARG_INT && (dim->integer == -1 || dim->integer == rank);
	}
	return lanes == LANES_RESHAPE && same_dims(w, n, x, rank);
}

/* n is x without its last dim of 1. */
static bool drops_last(const Spreading *w, NodeId n, NodeId x) {
	Lanes lanes = op_lanes(node_get(w->m, n)->op);
	uint32_t rank = type_get(w->m, w->old[x])->count;
	bool drops = lanes == LANES_SQUEEZE || lanes == LANES_RESHAPE;
	return drops && is_column(w->m, w->old[x]) && !is_column(w->m, w->old[n]) &&
	       type_get(w->m, w->old[n])->count == rank - 1 && same_dims(w, n, x, rank - 1);
}

/* tile.mask_to of x with a number: lanes are masked by the dims that x has. */
static bool masks(const Spreading *w, NodeId n, NodeId x) {
	const Arg *value = node_arg(w->m, n, 1);
	if (node_get(w->m, n)->op != OP_MASK_TO || node_input(w->m, n, 0) != x)
		return false;
	return value->kind != ARG_REF || (value->node != x && type_get(w->m, w->old[value->node])->count == 0);
}

bool reduces_last(const Spreading *w, NodeId n) {
	NodeId x = op_row(node_get(w->m, n)->op)->shape == SHAPE_REDUCE ? node_input(w->m, n, 0) : NONE;
	if (x == NONE)
		return false;
	const Arg *dims = op_arg(w->m, n, "dim");
	const Arg *dim = dims->kind == ARG_LIST && dims->list.count == 1 ? arg_item(w->m, dims, 0) : dims;
	return dim->kind == ARG_INT && (dim->integer == -1 || dim->integer == (int64_t)node_type(w->m, x)->count - 1);
}

bool is_fat(const Spreading *w, NodeId n) {
	const Type *t = type_get(w->m, w->old[n]);
	return t->kind == TYPE_TENSOR && t->count >= 2 && !is_column(w->m, w->old[n]);
}

static bool expands_last(const Spreading *w, NodeId n, NodeId x) {
	uint32_t rank = type_get(w->m, w->old[x])->count;
	return op_lanes(node_get(w->m, n)->op) == LANES_EXPAND && type_get(w->m, w->old[n])->count == rank &&
	       same_dims(w, n, x, rank - 1);
}

ThinUse thin_use(const Spreading *w, NodeId n, NodeId x) {
	uint16_t op = node_get(w->m, n)->op;
	if (!is_tensor_value(w, n))
		return THIN_OTHER;
	bool is_x = op == OP_NEW_VAR || (op == OP_PHI && node_input(w->m, n, 1) == x);
	if ((is_x && same_shape(w, n, x)) || adds_last(w, n, x) || drops_last(w, n, x))
		return THIN_IDENTITY;
	if ((is_lanewise(w->m, n) && same_shape(w, n, x)) || masks(w, n, x))
		return THIN_SAME;
	bool meets = is_column(w->m, w->old[x]) && is_fat(w, n) && (is_lanewise(w->m, n) || expands_last(w, n, x));
	return meets ? THIN_MEETS : THIN_OTHER;
}
