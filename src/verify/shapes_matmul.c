/* shapes_matmul.c - products. Results have the row's dtype; what they accumulate in is the plan's concern. */
#include "infer.h"

static bool product_error(const Infer *in, const Shape *a, const Shape *b) {
	return infer_error(in, "shape-mismatch",
	                   "the last dim of the first must be the last but one of the second: the same expression",
	                   "cannot multiply %s by %s", shape_string(in, a), shape_string(in, b));
}

static bool infer_factors(const Infer *in, uint32_t first, Operand *a, Operand *b) {
	return infer_operand(in, node_arg(in->m, in->n, first), a) &&
	       infer_operand(in, node_arg(in->m, in->n, first + 1), b);
}

/* The last two dims of [.., m, k] x [.., k, n] with the batch dims in *shape already. */
static bool product_push(const Infer *in, const Shape *a, const Shape *b, Shape *shape) {
	if (!expr_equal(in->m, a->dims[a->rank - 1], b->dims[b->rank - 2]))
		return product_error(in, a, b);
	return shape_push(in, shape, a->dims[a->rank - 2]) && shape_push(in, shape, b->dims[b->rank - 1]);
}

/* [batch dims.., m, k] x [batch dims.., k, n] of one rank, batch dims equal. */
static bool product_fixed(const Infer *in, const Shape *a, const Shape *b, uint32_t rank, Shape *shape) {
	if (a->rank != rank || b->rank != rank)
		return infer_error(
			in, "shape-mismatch", "aten.matmul.default takes any ranks, aten.bmm.default ranks of 3",
			"it takes operands of rank %u, not %s and %s", rank, shape_string(in, a), shape_string(in, b));
	shape->rank = 0;
	for (uint32_t i = 0; i + 2 < rank; i++) {
		if (!expr_equal(in->m, a->dims[i], b->dims[i]))
			return product_error(in, a, b);
		shape->dims[shape->rank++] = a->dims[i];
	}
	return product_push(in, a, b, shape);
}

/* Any ranks of at least 2, batch dims broadcast. */
static bool product_batched(const Infer *in, const Shape *a, const Shape *b, Shape *shape) {
	if (a->rank < 2 || b->rank < 2)
		return product_error(in, a, b);
	Shape batch = *b;
	*shape = *a;
	shape->rank -= 2;
	batch.rank -= 2;
	return shape_broadcast(in, shape, &batch) && product_push(in, a, b, shape);
}

static bool infer_product(const Infer *in, uint32_t rank, TypeId *type) {
	Operand a = {0}, b = {0};
	Shape shape = {0};
	return infer_factors(in, 0, &a, &b) && product_fixed(in, &a.shape, &b.shape, rank, &shape) &&
	       infer_result(in, &shape, type);
}

bool infer_mm(const Infer *in, TypeId *type) { return infer_product(in, 2, type); }

bool infer_bmm(const Infer *in, TypeId *type) { return infer_product(in, 3, type); }

static bool check_addend(const Infer *in, const Shape *addend, const Shape *shape) {
	return shape_fits(in->m, addend, shape) ||
	       infer_error(in, "shape-mismatch", NULL, "addend of shape %s does not broadcast to the product's %s",
	                   shape_string(in, addend), shape_string(in, shape));
}

static bool infer_product_plus(const Infer *in, uint32_t rank, TypeId *type) {
	Operand self, a, b;
	Shape shape = {0};
	return infer_tensor(in, "self", &self) && infer_factors(in, 1, &a, &b) &&
	       product_fixed(in, &a.shape, &b.shape, rank, &shape) && check_addend(in, &self.shape, &shape) &&
	       infer_result(in, &shape, type);
}

bool infer_addmm(const Infer *in, TypeId *type) { return infer_product_plus(in, 2, type); }

bool infer_baddbmm(const Infer *in, TypeId *type) { return infer_product_plus(in, 3, type); }

bool infer_mv(const Infer *in, TypeId *type) {
	Operand a = {0}, b = {0};
	if (!infer_factors(in, 0, &a, &b))
		return false;
	if (a.shape.rank != 2 || b.shape.rank != 1 || !expr_equal(in->m, a.shape.dims[1], b.shape.dims[0]))
		return product_error(in, &a.shape, &b.shape);
	Shape shape = {.rank = 1, .dims = {a.shape.dims[0]}};
	return infer_result(in, &shape, type);
}

bool infer_vdot(const Infer *in, TypeId *type) {
	Operand a = {0}, b = {0};
	if (!infer_factors(in, 0, &a, &b))
		return false;
	if (a.shape.rank != 1 || b.shape.rank != 1 || !expr_equal(in->m, a.shape.dims[0], b.shape.dims[0]))
		return product_error(in, &a.shape, &b.shape);
	Shape shape = {0};
	return infer_result(in, &shape, type);
}

static void shape_drop(Shape *s, uint32_t dim) {
	memmove(s->dims + dim, s->dims + dim + 1, (s->rank - dim - 1) * sizeof *s->dims);
	s->rank--;
}

/* As torch.matmul: a vector is a row on the left, a column on the right, and that dim goes away again. */
bool infer_matmul(const Infer *in, TypeId *type) {
	Operand a = {0}, b = {0};
	Shape shape = {0};
	if (!infer_factors(in, 0, &a, &b))
		return false;
	bool row = a.shape.rank == 1, column = b.shape.rank == 1;
	if (row)
		a.shape = (Shape){.rank = 2, .dims = {expr_int(in->m, 1), a.shape.dims[0]}};
	if (column)
		b.shape = (Shape){.rank = 2, .dims = {b.shape.dims[0], expr_int(in->m, 1)}};
	if (!product_batched(in, &a.shape, &b.shape, &shape))
		return false;
	if (column)
		shape_drop(&shape, shape.rank - 1);
	if (row)
		shape_drop(&shape, shape.rank - (column ? 1 : 2));
	return infer_result(in, &shape, type);
}

/* The accumulator's dtype, else out_dtype, else what it accumulates in. */
bool infer_dot(const Infer *in, TypeId *type) {
	Operand a, b, acc;
	Shape shape = {0};
	const Arg *out = op_arg(in->m, in->n, "out_dtype");
	if (!infer_factors(in, 0, &a, &b) || !product_batched(in, &a.shape, &b.shape, &shape) ||
	    !infer_operand(in, op_arg(in->m, in->n, "acc"), &acc))
		return false;
	Dtype dtype = dtype_is_float(a.dtype) || dtype_is_float(b.dtype) ? DTYPE_F32 : DTYPE_I32;
	if (out->kind == ARG_DTYPE)
		dtype = out->dtype;
	if (!acc.absent) {
		if (!check_addend(in, &acc.shape, &shape))
			return false;
		dtype = acc.dtype;
	}
	*type = type_tensor(in->m, dtype, shape.rank, shape.dims);
	return true;
}
