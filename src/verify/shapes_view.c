/* shapes_view.c - views that keep the elements and change how they are counted: permutations, reshapes, squeezes,
 * expansions. Views that cut or join are in shapes_cut.c. */
#include "infer.h"

static bool infer_self(const Infer *in, Operand *self) { return infer_operand(in, node_arg(in->m, in->n, 0), self); }

bool infer_permute(const Infer *in, TypeId *type) {
	Operand self;
	Shape shape = {0};
	bool seen[RANK_MAX] = {false};
	const Arg *dims = op_arg(in->m, in->n, "dims");
	if (!infer_self(in, &self))
		return false;
	if (dims->kind != ARG_LIST || dims->list.count != self.shape.rank)
		return infer_error(in, "bad-argument", NULL, "it must name each of the %u dims of %s once",
		                   self.shape.rank, shape_string(in, &self.shape));
	for (uint32_t i = 0; i < self.shape.rank; i++) {
		uint32_t dim;
		if (!infer_dim(in, arg_item(in->m, dims, i), self.shape.rank, &dim))
			return false;
		if (seen[dim])
			return infer_error(in, "bad-argument", NULL, "dim %u is named twice", dim);
		seen[dim] = true;
		shape.dims[shape.rank++] = self.shape.dims[dim];
	}
	return infer_result(in, &shape, type);
}

static void shape_swap(Shape *s, uint32_t a, uint32_t b) {
	ExprId dim = s->dims[a];
	s->dims[a] = s->dims[b];
	s->dims[b] = dim;
}

bool infer_transpose(const Infer *in, TypeId *type) {
	Operand self;
	uint32_t a, b;
	if (!infer_self(in, &self) || !infer_dim(in, op_arg(in->m, in->n, "dim0"), self.shape.rank, &a) ||
	    !infer_dim(in, op_arg(in->m, in->n, "dim1"), self.shape.rank, &b))
		return false;
	shape_swap(&self.shape, a, b);
	return infer_result(in, &self.shape, type);
}

/* The last two dims change places; fewer stay as they are. */
bool infer_t(const Infer *in, TypeId *type) {
	Operand self;
	if (!infer_self(in, &self))
		return false;
	if (self.shape.rank >= 2)
		shape_swap(&self.shape, self.shape.rank - 2, self.shape.rank - 1);
	return infer_result(in, &self.shape, type);
}

/* ---- reshapes ---------------------------------------------------------------------------------------------------- */

/* What remains of `from` when each dim of `to` but the hole is taken out of it once: the hole's expression, if only
 * whole dims remain. Keeps symbols where the counts alone would give a number. */
static ExprId reshape_remainder(Module *m, Shape from, const Shape *to, uint32_t hole) {
	for (uint32_t i = 0; i < to->rank; i++) {
		uint32_t match = 0;
		if (i == hole || expr_is_int(m, to->dims[i], 1))
			continue;
		while (match < from.rank && !expr_equal(m, from.dims[match], to->dims[i]))
			match++;
		if (match == from.rank)
			return NONE;
		from.dims[match] = expr_int(m, 1);
	}
	ExprId product = expr_int(m, 1);
	for (uint32_t i = 0; i < from.rank; i++)
		product = expr_binary(m, EXPR_MUL, product, from.dims[i]);
	return product;
}

static bool reshape_error(const Infer *in, const Shape *from, const Shape *to) {
	return infer_error(in, "shape-mismatch", "one size may be -1: what is left",
	                   "cannot view %s as %s: the counts of elements differ", shape_string(in, from),
	                   shape_string(in, to));
}

/* Finds the size written -1. */
static bool reshape_fill(const Infer *in, const Shape *from, Shape *to, uint32_t hole) {
	Shape rest = *to;
	int64_t total, known;
	rest.dims[hole] = expr_int(in->m, 1);
	if (shape_elements(in->m, from, &total) && shape_elements(in->m, &rest, &known) &&
	    (known == 0 || total % known != 0))
		return reshape_error(in, from, to);
	ExprId dim = reshape_remainder(in->m, *from, to, hole);
	if (dim == NONE && shape_elements(in->m, from, &total) && shape_elements(in->m, &rest, &known))
		dim = expr_int(in->m, total / known);
	if (dim == NONE)
		return infer_error(in, "size-unknown", "write the size instead of -1", "cannot tell what -1 is in %s",
		                   shape_string(in, to));
	to->dims[hole] = dim;
	return true;
}

/* Symbolic counts are equal where the dims are, in any order. */
static bool reshape_counts_equal(const Infer *in, const Shape *from, const Shape *to) {
	int64_t a, b;
	if (shape_elements(in->m, from, &a) && shape_elements(in->m, to, &b))
		return a == b;
	ExprId rest = reshape_remainder(in->m, *from, to, to->rank);
	return rest != NONE && expr_is_int(in->m, rest, 1);
}

bool infer_reshape(const Infer *in, TypeId *type) {
	Operand self;
	Shape to;
	uint32_t hole = NONE;
	const char *list = op_param_index(node_get(in->m, in->n)->op, "size") == NONE ? "shape" : "size";
	if (!infer_self(in, &self) || !infer_shape_list(in, list, &to))
		return false;
	for (uint32_t i = 0; i < to.rank; i++) {
		if (to.dims[i] != NONE)
			continue;
		if (hole != NONE)
			return infer_error(in, "bad-argument", NULL, "only one size may be -1");
		hole = i;
	}
	if (hole != NONE && !reshape_fill(in, &self.shape, &to, hole))
		return false;
	if (!reshape_counts_equal(in, &self.shape, &to))
		return reshape_error(in, &self.shape, &to);
	return infer_result(in, &to, type);
}

bool infer_bitcast(const Infer *in, TypeId *type) {
	Operand self;
	Dtype dtype;
	if (!infer_self(in, &self) || !infer_dtype(in, &dtype))
		return false;
	int64_t from = dtype_bits(self.dtype), to = dtype_bits(dtype);
	if (from != to) {
		if (self.shape.rank == 0)
			return infer_error(in, "bad-argument", NULL, "a 0-d value keeps its width");
		ExprId *last = &self.shape.dims[self.shape.rank - 1];
		int64_t size;
		if (to > from && expr_value(in->m, *last, &size) && size % (to / from) != 0)
			return infer_error(in, "shape-mismatch", NULL,
			                   "%lld elements of %s do not make whole ones of %s", (long long)size,
			                   dtype_name(self.dtype), dtype_name(dtype));
		*last = from > to ? expr_binary(in->m, EXPR_MUL, *last, expr_int(in->m, from / to))
		                  : expr_binary(in->m, EXPR_FLOORDIV, *last, expr_int(in->m, to / from));
	}
	*type = type_tensor(in->m, dtype, self.shape.rank, self.shape.dims);
	return true;
}

/* ---- dims of 1 --------------------------------------------------------------------------------------------------- */

/* Drops only literal 1s: a block symbol's dim stays, whatever the configuration makes of it. */
bool infer_squeeze(const Infer *in, TypeId *type) {
	Operand self;
	Shape shape = {0};
	bool set[RANK_MAX];
	const Arg *dim = op_arg(in->m, in->n, "dim");
	if (!infer_self(in, &self) || !infer_dim_set(in, dim, self.shape.rank, set))
		return false;
	bool none = dim->kind == ARG_LIST && dim->list.count == 0; /* here [] is no dim; reductions take it for all */
	for (uint32_t i = 0; i < self.shape.rank; i++)
		if (none || !set[i] || !expr_is_int(in->m, self.shape.dims[i], 1))
			shape.dims[shape.rank++] = self.shape.dims[i];
	return infer_result(in, &shape, type);
}

/* Makes room for one dim; a new dim may stand at any place up to the rank. */
static bool shape_insert(const Infer *in, Shape *s, const Arg *place, ExprId size) {
	uint32_t dim;
	if (!infer_dim(in, place, s->rank + 1, &dim) || !shape_push(in, s, size))
		return false;
	memmove(s->dims + dim + 1, s->dims + dim, (s->rank - 1 - dim) * sizeof *s->dims);
	s->dims[dim] = size;
	return true;
}

bool infer_unsqueeze(const Infer *in, TypeId *type) {
	Operand self;
	return infer_self(in, &self) &&
	       shape_insert(in, &self.shape, op_arg(in->m, in->n, "dim"), expr_int(in->m, 1)) &&
	       infer_result(in, &self.shape, type);
}

bool infer_stack(const Infer *in, TypeId *type) {
	const Arg *tensors = node_arg(in->m, in->n, 0);
	Operand first, next;
	if (tensors->kind != ARG_LIST || tensors->list.count == 0)
		return infer_error(in, "bad-argument", NULL, "it takes a list of at least one tensor");
	if (!infer_operand(in, arg_item(in->m, tensors, 0), &first))
		return false;
	for (uint32_t i = 1; i < tensors->list.count; i++) {
		if (!infer_operand(in, arg_item(in->m, tensors, i), &next))
			return false;
		if (next.shape.rank != first.shape.rank || !shape_fits(in->m, &next.shape, &first.shape) ||
		    !shape_fits(in->m, &first.shape, &next.shape))
			return infer_error(in, "shape-mismatch", NULL, "cannot stack %s on %s",
			                   shape_string(in, &next.shape), shape_string(in, &first.shape));
	}
	ExprId count = expr_int(in->m, tensors->list.count);
	return shape_insert(in, &first.shape, op_arg(in->m, in->n, "dim"), count) &&
	       infer_result(in, &first.shape, type);
}

bool infer_expand(const Infer *in, TypeId *type) {
	Operand self;
	Shape to;
	if (!infer_self(in, &self) || !infer_shape_list(in, "size", &to))
		return false;
	uint32_t added = to.rank - self.shape.rank;
	for (uint32_t i = 0; i < to.rank && self.shape.rank <= to.rank; i++)
		if (to.dims[i] == NONE && i >= added)
			to.dims[i] = self.shape.dims[i - added];
	for (uint32_t i = 0; i < to.rank; i++)
		if (to.dims[i] == NONE)
			return infer_error(in, "bad-argument", NULL, "a new dim cannot have the size -1");
	if (self.shape.rank > to.rank || !shape_fits(in->m, &self.shape, &to))
		return infer_error(in, "shape-mismatch", NULL, "cannot expand %s to %s", shape_string(in, &self.shape),
		                   shape_string(in, &to));
	return infer_result(in, &to, type);
}

bool infer_repeat(const Infer *in, TypeId *type) {
	Operand self;
	Shape times;
	if (!infer_self(in, &self) || !infer_shape_list(in, "repeats", &times))
		return false;
	if (times.rank < self.shape.rank)
		return infer_error(in, "bad-argument", NULL, "it takes a repeat count for each of %u dims",
		                   self.shape.rank);
	uint32_t added = times.rank - self.shape.rank;
	for (uint32_t i = 0; i < times.rank; i++) {
		if (times.dims[i] == NONE)
			return infer_error(in, "bad-argument", NULL, "a repeat count is negative");
		if (i >= added)
			times.dims[i] = expr_binary(in->m, EXPR_MUL, self.shape.dims[i - added], times.dims[i]);
	}
	return infer_result(in, &times, type);
}

bool infer_last_dim(const Infer *in, TypeId *type) {
	Operand x;
	ExprId size;
	if (!infer_tensor(in, "x", &x) || !infer_size(in, op_arg(in->m, in->n, "size"), &size))
		return false;
	if (x.shape.rank == 0)
		return infer_error(in, "shape-mismatch", NULL, "its operand has no dim");
	x.shape.dims[x.shape.rank - 1] = size;
	return infer_result(in, &x.shape, type);
}
