/* decompose_take.c - lanes of rows at computed positions, as a TPU takes them: from registers, all of one at once.
 *
 *     v = load x[u0, i]         =>     w = load x[u0, :]
 *                                      v = gather w, 1, i expanded to [u0, ..]
 *
 * A register gives any of its 128 lanes; of longer rows each register is asked, and the one that has the lane is
 * chosen. Bits are moved as ints: nothing is rounded. Whole rows of a small table are taken in the same way, of every 8
 * of them. */
#include "decompose.h"

static bool sizes_known(const Module *m, const Type *t, int64_t *sizes) {
	bool known = true;
	for (uint32_t i = 0; i < t->count; i++)
		known = known && expr_value(m, t->dims[i], &sizes[i]);
	return known;
}

/* x as equal rows, or lanes. */
static NodeId expanded(Decompose *d, NodeId x, ExprId rows, ExprId lanes) {
	const ExprId dims[] = {rows, lanes};
	return make_expanded(d, x, 2, dims, "rows");
}

/* The graph is right for these sizes alone. */
static void settle(Module *m, const Type *t) {
	for (uint32_t i = 0; i < t->count; i++)
		m->settled = m->settled || m->exprs.at[t->dims[i]].kind != EXPR_INT;
}

NodeId make_taken(Decompose *d, NodeId x, NodeId index) {
	Module *m = d->m;
	Type of = *node_type(m, x), at = *node_type(m, index);
	int64_t from[RANK_MAX], to[RANK_MAX];
	if (of.count < 1 || of.count > 2 || at.count < 1 || at.count > 2 || !sizes_known(m, &of, from) ||
	    !sizes_known(m, &at, to))
		return NONE;
	if (of.count == 2 && at.count == 2 && !expr_equal(m, of.dims[0], at.dims[0]))
		return NONE;
	int64_t rows = of.count == 2 ? from[0] : at.count == 2 ? to[0] : 1;
	if (!may_take_lanes(m, rows, from[of.count - 1], to[at.count - 1]))
		return NONE;
	settle(m, &of);
	settle(m, &at);
	index = make_inside(d, make_converted(d, index, DTYPE_I32), of.dims[of.count - 1]);
	NodeId bits = make_bits(d, x);
	if (at.count < of.count)
		index = expanded(d, index, of.dims[0], at.dims[0]);
	if (of.count < at.count)
		bits = expanded(d, bits, at.dims[0], of.dims[0]);
	Arg args[3] = {arg_ref(bits), arg_int(of.count > at.count ? of.count - 1 : at.count - 1), arg_ref(index)};
	return make_from_bits(d, make_node(d, OP_GATHER, "taken", 3, args), of.dtype);
}

NodeId make_rows_taken(Decompose *d, NodeId x, NodeId index) {
	Type of = *node_type(d->m, x);
	settle(d->m, &of);
	settle(d->m, node_type(d->m, index));
	index = make_inside(d, make_converted(d, index, DTYPE_I32), of.dims[0]);
	ExprId count = node_type(d->m, index)->dims[0];
	index = expanded(d, make_unsqueezed(d, index, 1, 1, "places"), count, of.dims[1]);
	Arg args[3] = {arg_ref(make_bits(d, x)), arg_int(0), arg_ref(index)};
	return make_from_bits(d, make_node(d, OP_GATHER, "taken", 3, args), of.dtype);
}
