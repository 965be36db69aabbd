/* shapes_cut.c - views that cut a value or join several: cat, split, slice, select, pad, gathers. */
#include "infer.h"

/* A document cannot ask for a tuple longer than this by one small number. */
enum { PIECES_MAX = 4096 };

/* The operand and the dim called `dim` of it, which must be there. */
static bool infer_self_dim(const Infer *in, Operand *self, uint32_t *dim) {
	if (!infer_operand(in, node_arg(in->m, in->n, 0), self) ||
	    !infer_dim(in, op_arg(in->m, in->n, "dim"), self->shape.rank, dim))
		return false;
	return self->shape.rank > 0 || infer_error(in, "shape-mismatch", NULL, "its operand has no dim");
}

/* ---- cat --------------------------------------------------------------------------------------------------------- */

/* The sum of the operands' sizes; beyond a few operands as a number, lest the expression grow with their count. */
static ExprId cat_size(Module *m, ExprId sum, ExprId next, uint32_t so_far) {
	ExprId both = expr_binary(m, EXPR_ADD, sum, next);
	int64_t value;
	return so_far >= RANK_MAX && expr_value(m, both, &value) ? expr_int(m, value) : both;
}

static bool cat_add(const Infer *in, Shape *shape, const Shape *next, uint32_t dim, uint32_t so_far) {
	bool same = shape->rank == next->rank;
	for (uint32_t i = 0; same && i < shape->rank; i++)
		same = i == dim || expr_equal(in->m, shape->dims[i], next->dims[i]);
	if (!same)
		return infer_error(in, "shape-mismatch", "all dims but that one must be the same",
		                   "cannot join %s and %s along dim %u", shape_string(in, shape),
		                   shape_string(in, next), dim);
	shape->dims[dim] = cat_size(in->m, shape->dims[dim], next->dims[dim], so_far);
	return true;
}

bool infer_cat(const Infer *in, TypeId *type) {
	const Arg *tensors = node_arg(in->m, in->n, 0);
	Operand first, next;
	uint32_t dim;
	if (tensors->kind != ARG_LIST || tensors->list.count == 0)
		return infer_error(in, "bad-argument", NULL, "it takes a list of at least one tensor");
	if (!infer_operand(in, arg_item(in->m, tensors, 0), &first) ||
	    !infer_dim(in, op_arg(in->m, in->n, "dim"), first.shape.rank, &dim))
		return false;
	if (first.shape.rank == 0)
		return infer_error(in, "shape-mismatch", NULL, "0-d values cannot be joined; stack them");
	for (uint32_t i = 1; i < tensors->list.count; i++)
		if (!infer_operand(in, arg_item(in->m, tensors, i), &next) ||
		    !cat_add(in, &first.shape, &next.shape, dim, i))
			return false;
	return infer_result(in, &first.shape, type);
}

/* ---- split ------------------------------------------------------------------------------------------------------- */

static bool dim_number(const Infer *in, ExprId dim, int64_t *size) {
	return expr_value(in->m, dim, size) ||
	       infer_error(in, "size-unknown", NULL, "`%s` has no value under the configuration",
	                   expr_string(in->m, dim));
}

/* The pieces' sizes along the dim; NULL after a diagnostic. */
static ExprId *split_even(const Infer *in, ExprId dim, uint32_t *count) {
	const Arg *arg = op_arg(in->m, in->n, "split_size");
	int64_t size, piece;
	if (!dim_number(in, dim, &size) || !infer_number(in, arg, &piece))
		return NULL;
	if (piece <= 0 || size < 0 || (size - 1) / piece + 1 > PIECES_MAX) {
		infer_error(in, "bad-argument", NULL, "cannot split %lld into pieces of %lld", (long long)size,
		            (long long)piece);
		return NULL;
	}
	*count = size == 0 ? 1 : (uint32_t)((size - 1) / piece + 1);
	ExprId *sizes = arena_array(in->m->arena, *count, sizeof *sizes);
	for (uint32_t i = 0; i < *count; i++)
		sizes[i] = arg_expr(in->m, arg);
	if (size < piece || size % piece != 0)
		sizes[*count - 1] = size < piece ? dim : expr_int(in->m, size % piece);
	return sizes;
}

static ExprId *split_as_listed(const Infer *in, ExprId dim, uint32_t *count) {
	const Arg *list = op_arg(in->m, in->n, "split_sizes");
	*count = list->kind == ARG_LIST ? list->list.count : 0;
	ExprId *sizes = arena_array(in->m->arena, *count, sizeof *sizes);
	int64_t size, sum = 0, piece;
	for (uint32_t i = 0; i < *count; i++) {
		if (!infer_size(in, arg_item(in->m, list, i), &sizes[i]) || !dim_number(in, sizes[i], &piece))
			return NULL;
		if (piece < 0 || !checked_add(sum, piece, &sum))
			sum = -1;
	}
	if (!dim_number(in, dim, &size))
		return NULL;
	if (sum != size) {
		infer_error(in, "shape-mismatch", NULL, "the pieces make %lld, the dim has %lld", (long long)sum,
		            (long long)size);
		return NULL;
	}
	return sizes;
}

bool infer_unbind(const Infer *in, TypeId *type) {
	Operand self;
	uint32_t dim;
	int64_t size;
	if (!infer_self_dim(in, &self, &dim) || !dim_number(in, self.shape.dims[dim], &size))
		return false;
	if (size < 0 || size > PIECES_MAX)
		return infer_error(in, "bad-argument", NULL, "cannot unbind a dim of %lld", (long long)size);
	Shape *s = &self.shape;
	memmove(s->dims + dim, s->dims + dim + 1, (s->rank - dim - 1) * sizeof *s->dims);
	TypeId *elements = arena_array(in->m->arena, (size_t)size, sizeof *elements);
	for (int64_t i = 0; i < size; i++)
		elements[i] = type_tensor(in->m, self.dtype, s->rank - 1, s->dims);
	*type = type_tuple(in->m, (uint32_t)size, elements);
	return true;
}

typedef ExprId *Sizes(const Infer *in, ExprId dim, uint32_t *count);

static bool infer_pieces(const Infer *in, Sizes *sizes_of, TypeId *type) {
	Operand self;
	uint32_t dim, count;
	if (!infer_self_dim(in, &self, &dim))
		return false;
	ExprId *sizes = sizes_of(in, self.shape.dims[dim], &count);
	if (sizes == NULL)
		return false;
	TypeId *elements = arena_array(in->m->arena, count, sizeof *elements);
	for (uint32_t i = 0; i < count; i++) {
		self.shape.dims[dim] = sizes[i];
		elements[i] = type_tensor(in->m, self.dtype, self.shape.rank, self.shape.dims);
	}
	*type = type_tuple(in->m, count, elements);
	return true;
}

bool infer_split(const Infer *in, TypeId *type) { return infer_pieces(in, split_even, type); }

bool infer_split_sizes(const Infer *in, TypeId *type) { return infer_pieces(in, split_as_listed, type); }

bool infer_tile_split(const Infer *in, TypeId *type) {
	Operand x;
	int64_t size;
	if (!infer_tensor(in, "x", &x))
		return false;
	if (x.shape.rank == 0 || !expr_value(in->m, x.shape.dims[x.shape.rank - 1], &size) || size != 2)
		return infer_error(in, "shape-mismatch", NULL, "the last dim of %s is not 2",
		                   shape_string(in, &x.shape));
	x.shape.rank--;
	infer_pair(in, x.dtype, x.dtype, &x.shape, type);
	return true;
}

bool infer_tile_join(const Infer *in, TypeId *type) {
	Operand a, b;
	return infer_operand(in, node_arg(in->m, in->n, 0), &a) && infer_operand(in, node_arg(in->m, in->n, 1), &b) &&
	       shape_broadcast(in, &a.shape, &b.shape) && shape_push(in, &a.shape, expr_int(in->m, 2)) &&
	       infer_result(in, &a.shape, type);
}

/* ---- slice, select, pad ------------------------------------------------------------------------------------------ */

/* A bound within [0, size], counted from the end if negative. */
static bool slice_bound(const Infer *in, const Arg *arg, int64_t size, int64_t absent, int64_t *bound) {
	*bound = absent;
	if (arg->kind != ARG_NULL && !infer_number(in, arg, bound))
		return false;
	if (*bound < 0)
		*bound = *bound < -size ? 0 : *bound + size;
	*bound = int_min(*bound, size);
	return true;
}

bool infer_slice(const Infer *in, TypeId *type) {
	Operand self;
	uint32_t dim;
	int64_t size, start, end, step;
	const Arg *end_arg = op_arg(in->m, in->n, "end");
	if (!infer_self_dim(in, &self, &dim) || !dim_number(in, self.shape.dims[dim], &size) ||
	    !slice_bound(in, op_arg(in->m, in->n, "start"), size, 0, &start) ||
	    !slice_bound(in, end_arg, size, size, &end) || !infer_number(in, op_arg(in->m, in->n, "step"), &step))
		return false;
	if (step <= 0)
		return infer_error(in, "bad-argument", NULL, "the step of a slice must be positive");
	int64_t length = end > start ? (end - start - 1) / step + 1 : 0;
	ExprId *place = &self.shape.dims[dim], end_expr = arg_expr(in->m, end_arg);
	if (length == size) /* the whole dim: its symbol stays */
		return infer_result(in, &self.shape, type);
	bool is_end = start == 0 && step == 1 && expr_value(in->m, end_expr, &end) && end == length;
	*place = is_end ? end_expr : expr_int(in->m, length);
	return infer_result(in, &self.shape, type);
}

bool infer_select(const Infer *in, TypeId *type) {
	Operand self;
	uint32_t dim;
	int64_t size, at;
	if (!infer_self_dim(in, &self, &dim))
		return false;
	Shape *s = &self.shape;
	if (expr_value(in->m, s->dims[dim], &size) &&
	    expr_value(in->m, arg_expr(in->m, op_arg(in->m, in->n, "index")), &at) && (at < -size || at >= size))
		return infer_error(in, "index-out-of-range", NULL, "index %lld is not in a dim of %lld", (long long)at,
		                   (long long)size);
	memmove(s->dims + dim, s->dims + dim + 1, (s->rank - dim - 1) * sizeof *s->dims);
	s->rank--;
	return infer_result(in, s, type);
}

/* `pad` counts pairs from the last dim. */
bool infer_pad(const Infer *in, TypeId *type) {
	Operand self;
	const Arg *pad = op_arg(in->m, in->n, "pad");
	if (!infer_operand(in, node_arg(in->m, in->n, 0), &self))
		return false;
	uint32_t count = pad->kind == ARG_LIST ? pad->list.count : 1;
	if (count % 2 != 0 || count / 2 > self.shape.rank)
		return infer_error(in, "bad-argument", NULL, "`pad` must hold pairs, at most one for each dim");
	for (uint32_t i = 0; i < count; i++) {
		ExprId amount, *dim = &self.shape.dims[self.shape.rank - 1 - i / 2];
		int64_t size;
		if (!infer_size(in, arg_item(in->m, pad, i), &amount))
			return false;
		*dim = expr_binary(in->m, EXPR_ADD, *dim, amount);
		if (i % 2 == 1 && expr_value(in->m, *dim, &size) && size < 0)
			return infer_error(in, "bad-argument", NULL, "the padded dim has the size %lld",
			                   (long long)size);
	}
	return infer_result(in, &self.shape, type);
}

/* ---- gathers ----------------------------------------------------------------------------------------------------- */

static bool infer_index_operand(const Infer *in, const char *name, Operand *index) {
	if (!infer_tensor(in, name, index))
		return false;
	bool is_int =
		dtype_class(index->dtype) == DTYPE_CLASS_SIGNED || dtype_class(index->dtype) == DTYPE_CLASS_UNSIGNED;
	return is_int || infer_error(in, "dtype-mismatch", NULL, "indices are ints, not %s", dtype_name(index->dtype));
}

bool infer_gather(const Infer *in, TypeId *type) {
	Operand self, index;
	uint32_t dim;
	if (!infer_self_dim(in, &self, &dim) || !infer_index_operand(in, "index", &index))
		return false;
	if (index.shape.rank != self.shape.rank)
		return infer_error(in, "shape-mismatch", NULL, "indices of shape %s must have the rank of %s",
		                   shape_string(in, &index.shape), shape_string(in, &self.shape));
	for (uint32_t i = 0; i < self.shape.rank; i++) {
		int64_t asked, size;
		if (i != dim && expr_value(in->m, index.shape.dims[i], &asked) &&
		    expr_value(in->m, self.shape.dims[i], &size) && asked > size)
			return infer_error(in, "shape-mismatch", NULL, "indices of shape %s reach beyond %s in dim %u",
			                   shape_string(in, &index.shape), shape_string(in, &self.shape), i);
	}
	return infer_result(in, &index.shape, type);
}

bool infer_index_select(const Infer *in, TypeId *type) {
	Operand self, index;
	uint32_t dim;
	if (!infer_self_dim(in, &self, &dim) || !infer_index_operand(in, "index", &index))
		return false;
	if (index.shape.rank > 1)
		return infer_error(in, "shape-mismatch", NULL, "indices of shape %s must have one dim",
		                   shape_string(in, &index.shape));
	self.shape.dims[dim] = index.shape.rank == 1 ? index.shape.dims[0] : expr_int(in->m, 1);
	return infer_result(in, &self.shape, type);
}

bool infer_embedding(const Infer *in, TypeId *type) {
	Operand weight, indices;
	if (!infer_tensor(in, "weight", &weight) || !infer_index_operand(in, "indices", &indices))
		return false;
	if (weight.shape.rank != 2)
		return infer_error(in, "shape-mismatch", NULL, "weight %s must have two dims",
		                   shape_string(in, &weight.shape));
	return shape_push(in, &indices.shape, weight.shape.dims[1]) && infer_result(in, &indices.shape, type);
}
