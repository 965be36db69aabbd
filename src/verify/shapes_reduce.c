/* shapes_reduce.c - reductions, sorts and scans. */
#include "infer.h"

/* *shape without the dims of the set, or with 1s there. */
static void shape_reduce(const Infer *in, Shape *shape, const bool set[RANK_MAX], bool keep) {
	Shape full = *shape;
	shape->rank = 0;
	for (uint32_t i = 0; i < full.rank; i++)
		if (!set[i])
			shape->dims[shape->rank++] = full.dims[i];
		else if (keep)
			shape->dims[shape->rank++] = expr_int(in->m, 1);
}

static bool infer_reduced(const Infer *in, Operand *self) {
	bool set[RANK_MAX];
	if (!infer_tensor(in, "self", self) || !infer_dim_set(in, op_arg(in->m, in->n, "dim"), self->shape.rank, set))
		return false;
	const Arg *dim = op_arg(in->m, in->n, "dim");
	uint16_t op = node_get(in->m, in->n)->op;
	if ((op == OP_ANY_DIMS || op == OP_ALL_DIMS) && dim->kind == ARG_LIST && dim->list.count == 0)
		return true; /* unlike in the other reductions, torch takes [] for no dim here */
	shape_reduce(in, &self->shape, set, infer_flag(in, "keepdim"));
	return true;
}

bool infer_reduce(const Infer *in, TypeId *type) {
	Operand self;
	return infer_reduced(in, &self) && infer_result(in, &self.shape, type);
}

bool infer_reduce_pair(const Infer *in, TypeId *type) {
	Operand self;
	if (!infer_reduced(in, &self))
		return false;
	infer_pair(in, self.dtype, self.dtype, &self.shape, type);
	return true;
}

bool infer_reduce_arg(const Infer *in, TypeId *type) {
	Operand self;
	if (!infer_reduced(in, &self))
		return false;
	infer_pair(in, self.dtype, DTYPE_I32, &self.shape, type);
	return true;
}

bool infer_sort(const Infer *in, TypeId *type) {
	Operand self;
	uint32_t dim;
	if (!infer_tensor(in, "self", &self) || !infer_dim(in, op_arg(in->m, in->n, "dim"), self.shape.rank, &dim))
		return false;
	infer_pair(in, self.dtype, DTYPE_I32, &self.shape, type);
	return true;
}

bool infer_topk(const Infer *in, TypeId *type) {
	Operand self;
	ExprId k;
	uint32_t dim;
	int64_t count, size;
	if (!infer_tensor(in, "self", &self) || !infer_dim(in, op_arg(in->m, in->n, "dim"), self.shape.rank, &dim) ||
	    !infer_size(in, op_arg(in->m, in->n, "k"), &k))
		return false;
	if (dim < self.shape.rank) {
		if (expr_value(in->m, k, &count) && expr_value(in->m, self.shape.dims[dim], &size) && count > size)
			return infer_error(in, "bad-argument", NULL, "k is %lld, but the dim has %lld elements",
			                   (long long)count, (long long)size);
		self.shape.dims[dim] = k;
	}
	infer_pair(in, self.dtype, DTYPE_I32, &self.shape, type);
	return true;
}

/* ---- with a combine graph: over one value, or over several together, which give a tuple -------------------------- */

static bool infer_combined_one(const Infer *in, const Arg *value, TypeId *type) {
	Operand x;
	bool set[RANK_MAX];
	if (!infer_operand(in, value, &x) || !infer_dim_set(in, op_arg(in->m, in->n, "dim"), x.shape.rank, set))
		return false;
	if (op_row(node_get(in->m, in->n)->op)->shape == SHAPE_COMBINE)
		shape_reduce(in, &x.shape, set, infer_flag(in, "keep_dims"));
	*type = type_tensor(in->m, x.dtype, x.shape.rank, x.shape.dims);
	return true;
}

static bool infer_combined(const Infer *in, TypeId *type) {
	const Arg *x = op_arg(in->m, in->n, "x");
	if (x->kind != ARG_LIST)
		return infer_combined_one(in, x, type);
	uint32_t count = x->list.count;
	TypeId *elements = arena_array(in->m->arena, count, sizeof *elements);
	for (uint32_t i = 0; i < count; i++)
		if (!infer_combined_one(in, arg_item(in->m, x, i), &elements[i]))
			return false;
	*type = type_tuple(in->m, count, elements);
	return true;
}

bool infer_scan(const Infer *in, TypeId *type) { return infer_combined(in, type); }

bool infer_combine(const Infer *in, TypeId *type) { return infer_combined(in, type); }
