/* decompose_take.c - lanes of rows at computed positions, as a TPU takes them: from registers, all of one at once.
 *
 *     v = load x[u0, i]         =>     w = load x[u0, :]
 *                                      v = gather w, 1, i expanded to [u0, ..]
 *
 * A register gives any of its 128 lanes; of longer rows each register is asked, and the one that has the lane is
 * chosen. Bits are moved as ints: nothing is rounded. */
#include "decompose.h"

/* Registers taken from, at most: all stand in straight code. */
enum { TAKEN_MOST = 8192 };

bool may_take_lanes(Module *m, int64_t rows, int64_t size, int64_t count) {
	const Target *t = m->target;
	int64_t registers = int_cdiv(size, t->lanes) * int_cdiv(count, t->lanes) * int_cdiv(rows, t->sublanes);
	return size > 0 && count > 0 && rows > 0 && size < INT32_MAX && registers <= TAKEN_MOST;
}

static bool sizes_known(const Module *m, const Type *t, int64_t *sizes) {
	bool known = true;
	for (uint32_t i = 0; i < t->count; i++)
		known = known && expr_value(m, t->dims[i], &sizes[i]);
	return known;
}

/* x as so many equal rows. */
static NodeId expanded(Decompose *d, NodeId x, ExprId rows) {
	Type t = *node_type(d->m, x);
	const ExprId dims[] = {rows, t.dims[0]};
	Arg args[3] = {arg_ref(x), shape_arg(d->m, type_tensor(d->m, t.dtype, 2, dims)), arg_bool(false)};
	return make_node(d, OP_EXPAND, "rows", 3, args);
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
	for (uint32_t i = 0; i < of.count; i++)
		m->settled = m->settled || m->exprs.at[of.dims[i]].kind != EXPR_INT;
	for (uint32_t i = 0; i < at.count; i++)
		m->settled = m->settled || m->exprs.at[at.dims[i]].kind != EXPR_INT;
	index = make_inside(d, make_converted(d, index, DTYPE_I32), of.dims[of.count - 1]);
	NodeId bits = make_bits(d, x);
	if (at.count < of.count)
		index = expanded(d, index, of.dims[0]);
	if (of.count < at.count)
		bits = expanded(d, bits, at.dims[0]);
	Arg args[3] = {arg_ref(bits), arg_int(of.count > at.count ? of.count - 1 : at.count - 1), arg_ref(index)};
	return make_from_bits(d, make_node(d, OP_GATHER, "taken", 3, args), of.dtype);
}
