/* decompose_matmul.c - torch.matmul and products with vectors.
 *
 * Two matrices: mm. Batches of them: bmm, the batch dims broadcast and made one. A vector has no use for the MXU: the
 * products are added up along the dim, in float32 or int32. */
#include "decompose.h"

static NodeId factor(const Decompose *d, uint32_t which) { return node_input(d->m, d->n, which); }
static uint32_t rank_of(const Decompose *d, NodeId x) { return node_type(d->m, x)->count; }

static NodeId make_product(Decompose *d, uint16_t op, NodeId a, NodeId b) {
	Arg args[2] = {arg_ref(a), arg_ref(b)};
	return make_node(d, op, "product", 2, args);
}

/* ---- vectors ----------------------------------------------------------------------------------------------------- */

static NodeId summed(Decompose *d, NodeId a, NodeId b) {
	uint32_t rank = rank_of(d, b), dim = rank_of(d, b) > 1 ? rank - 2 : rank_of(d, a) - 1;
	Dtype dtype = result_dtype(d, 0), sum = dtype_of_sums(dtype);
	if (rank > 1) { /* a vector times matrices: [k, 1] */
		ExprId dims[2] = {node_type(d->m, a)->dims[0], expr_int(d->m, 1)};
		a = make_view(d, a, 2, dims, "column");
	}
	NodeId product = make_binary(d, OP_MUL, "terms", make_converted(d, a, sum), arg_ref(make_converted(d, b, sum)));
	return make_converted(d, make_reduced(d, OP_SUM_DIM, "product", product, 1u << dim, false), dtype);
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

/* x, a matrix or a batch of them, as [batch, rows, columns] for the result's batch dims. */
static NodeId batched(Decompose *d, NodeId x) {
	Type from = *node_type(d->m, x), to = *node_type(d->m, d->n);
	ExprId dims[RANK_MAX], flat[3] = {expr_int(d->m, 1)};
	for (uint32_t i = 0; i + 2 < to.count; i++) {
		dims[i] = to.dims[i];
		flat[0] = expr_binary(d->m, EXPR_MUL, flat[0], to.dims[i]);
	}
	for (uint32_t i = 0; i < 2; i++)
		dims[to.count - 2 + i] = flat[1 + i] = from.dims[from.count - 2 + i];
	TypeId whole = type_tensor(d->m, from.dtype, to.count, dims);
	if (whole != node_get(d->m, x)->type)
		x = make_expanded(d, x, to.count, dims, "batched");
	return make_view(d, x, 3, flat, "batched");
}

static NodeId batches(Decompose *d, NodeId a, NodeId b) {
	Type to = *node_type(d->m, d->n);
	NodeId product;
	if (rank_of(d, b) == 2) {
		Type from = *node_type(d->m, a);
		ExprId flat[2] = {dims_product(d, a, (1u << (from.count - 1)) - 1), from.dims[from.count - 1]};
		product = make_product(d, OP_MM, make_view(d, a, 2, flat, "rows"), b);
	} else {
		NodeId left = batched(d, a);
		product = make_product(d, OP_BMM, left, batched(d, b));
	}
	return make_view(d, product, to.count, to.dims, "product");
}

static NodeId product(Decompose *d, uint32_t element) {
	(void)element;
	NodeId a = factor(d, 0), b = factor(d, 1);
	if (a == NONE || b == NONE || rank_of(d, a) == 0 || rank_of(d, b) == 0)
		return NONE;
	if (rank_of(d, a) == 1 || rank_of(d, b) == 1)
		return summed(d, a, b);
	return rank_of(d, a) == 2 && rank_of(d, b) == 2 ? make_product(d, OP_MM, a, b) : batches(d, a, b);
}

Decomposition *decompose_matmul(uint16_t op) {
	switch ((Op)op) {
	case OP_MATMUL:
	case OP_MV:
	case OP_VDOT: return product;
	default: return NULL;
	}
}
