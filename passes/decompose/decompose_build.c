/* decompose_build.c - primitive nodes for decompose.c, made before the composite node that they are the parts of. */
#include "decompose.h"
#include "src/verify/verify.h"

#include <math.h>

NodeId make_node(Decompose *d, uint16_t op, const char *suffix, uint32_t count, const Arg *args) {
	Module *m = d->m;
	NodeId n = node_derive(m, op, d->n, suffix, type_none(m), count, args, d->n);
	node_get(m, n)->origin = node_get(m, d->n)->origin; /* what is refused is said of the composite */
	TypeId type = type_none(m);
	d->failed = !op_infer(m, d->c->diag, n, &type) || d->failed;
	node_set_type(m, n, type);
	return n;
}

NodeId make_unary(Decompose *d, uint16_t op, const char *suffix, NodeId x) {
	Arg arg = arg_ref(x);
	return make_node(d, op, suffix, 1, &arg);
}

NodeId make_binary(Decompose *d, uint16_t op, const char *suffix, NodeId a, Arg b) {
	bool scaled = op == OP_ADD || op == OP_SUB;
	Arg args[3] = {arg_ref(a), b, arg_int(1)};
	return make_node(d, op, suffix, scaled ? 3 : 2, args);
}

NodeId make_and(Decompose *d, const char *suffix, NodeId a, NodeId b) {
	return a == NONE ? b : make_binary(d, OP_LOGICAL_AND, suffix, a, arg_ref(b));
}

NodeId make_where(Decompose *d, const char *suffix, NodeId condition, Arg yes, Arg no) {
	Arg args[3] = {arg_ref(condition), yes, no};
	return make_node(d, OP_WHERE, suffix, 3, args);
}

NodeId make_converted(Decompose *d, NodeId x, Dtype dtype) {
	if (node_type(d->m, x)->dtype == dtype)
		return x;
	Arg args[2] = {arg_ref(x), arg_dtype(dtype)};
	return make_node(d, OP_CONVERT, dtype_name(dtype), 2, args);
}

/* What a mask fills with stays what it is in float32: so the values of several masks are converted once. */
static bool masks_exactly(const Decompose *d, NodeId x) {
	const Arg *value = node_arg(d->m, x, 1);
	return node_get(d->m, x)->op == OP_MASK_TO && dtype_is_float(node_type(d->m, x)->dtype) &&
	       node_type(d->m, x)->dtype != DTYPE_F32 && value->kind == ARG_FLOAT &&
	       (isinf(value->real) || value->real == 0);
}

NodeId make_wide(Decompose *d, NodeId x) {
	if (!masks_exactly(d, x))
		return make_converted(d, x, DTYPE_F32);
	NodeId wide = make_converted(d, node_input(d->m, x, 0), DTYPE_F32);
	Arg args[2] = {arg_ref(wide), arg_copy(d->m, *node_arg(d->m, x, 1))};
	return make_node(d, OP_MASK_TO, "masked", 2, args);
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

static Arg dims_arg(Decompose *d, uint32_t dims) {
	Arg items[RANK_MAX];
	uint32_t count = 0;
	for (uint32_t i = 0; i < RANK_MAX; i++)
		if (dims >> i & 1)
			items[count++] = arg_int(i);
	return arg_list(d->m, count, items);
}

NodeId make_reduced(Decompose *d, uint16_t op, const char *suffix, NodeId x, uint32_t dims, bool keep) {
	Arg args[4] = {arg_ref(x), dims_arg(d, dims), arg_bool(keep), arg_null()};
	return make_node(d, op, suffix, op == OP_AMAX || op == OP_AMIN ? 3 : 4, args);
}

NodeId make_view(Decompose *d, NodeId x, uint32_t rank, const ExprId *dims, const char *suffix) {
	TypeId type = type_tensor(d->m, node_type(d->m, x)->dtype, rank, dims);
	if (type == node_get(d->m, x)->type)
		return x;
	Arg args[2] = {arg_ref(x), shape_arg(d->m, type)};
	return make_node(d, OP_VIEW, suffix, 2, args);
}

NodeId make_expanded(Decompose *d, NodeId x, uint32_t rank, const ExprId *dims, const char *suffix) {
	TypeId type = type_tensor(d->m, node_type(d->m, x)->dtype, rank, dims);
	Arg args[3] = {arg_ref(x), shape_arg(d->m, type), arg_bool(false)};
	return make_node(d, OP_EXPAND, suffix, 3, args);
}

NodeId make_kept(Decompose *d, NodeId x, uint32_t dims, bool keep) {
	Type from = *node_type(d->m, x);
	ExprId left[RANK_MAX];
	uint32_t rank = 0;
	for (uint32_t i = 0; i < from.count; i++)
		if (keep || !(dims >> i & 1))
			left[rank++] = from.dims[i];
	return make_view(d, x, rank, left, "squeezed");
}

NodeId make_iota(Decompose *d, ExprId length, uint32_t dim, uint32_t rank) {
	Arg args[5] = {size_arg(d->m, length), arg_int(0), arg_int(1), arg_dtype(DTYPE_I32), arg_bool(false)};
	NodeId iota = make_node(d, OP_IOTA, "index", 5, args);
	ExprId dims[RANK_MAX] = {length};
	for (uint32_t i = 1; i < rank - dim; i++)
		dims[i] = expr_int(d->m, 1);
	return make_view(d, iota, rank - dim, dims, "index");
}

Dtype result_dtype(const Decompose *d, uint32_t element) {
	const Type *t = node_type(d->m, d->n);
	return t->kind == TYPE_TUPLE ? type_get(d->m, t->elements[element])->dtype : t->dtype;
}

ExprId dims_product(Decompose *d, NodeId x, uint32_t dims) {
	Type t = *node_type(d->m, x);
	ExprId product = expr_int(d->m, 1);
	for (uint32_t i = 0; i < t.count; i++)
		if (dims >> i & 1)
			product = expr_binary(d->m, EXPR_MUL, product, t.dims[i]);
	return product;
}
