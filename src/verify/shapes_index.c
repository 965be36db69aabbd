/* shapes_index.c - index lists: what part of a tensor they name, and the loads, stores and atomics that use them. */
#include "infer.h"

/* What one entry of an index list does. */
typedef enum EntryKind {
	ENTRY_NEW,   /* null: a new dim of 1 */
	ENTRY_DIM,   /* a whole tile or a slice: a dim stays */
	ENTRY_POINT, /* one position: the dim goes */
	ENTRY_GATHER /* an int tensor */
} EntryKind;

typedef struct Entry {
	EntryKind kind;
	ExprId size; /* ENTRY_DIM; NONE: only the document knows */
	Shape shape; /* ENTRY_GATHER */
} Entry;

/* ---- entries ----------------------------------------------------------------------------------------------------- */

/* The length of [start, stop, step] in a dim of that size, if it follows from numbers. */
static ExprId slice_length(Module *m, const Arg *slice, ExprId dim) {
	const Arg *start = arg_item(m, slice, 0), *stop = arg_item(m, slice, 1), *step = arg_item(m, slice, 2);
	ExprId stop_expr = arg_expr(m, stop);
	int64_t size, from = 0, to, by = 1;
	if (start->kind == ARG_NULL && stop->kind == ARG_NULL && step->kind == ARG_NULL)
		return dim;
	if (!expr_value(m, dim, &size) || (start->kind != ARG_NULL && !expr_value(m, arg_expr(m, start), &from)) ||
	    (step->kind != ARG_NULL && !expr_value(m, arg_expr(m, step), &by)) || by <= 0)
		return NONE;
	to = size;
	if (stop->kind != ARG_NULL && !expr_value(m, stop_expr, &to))
		return NONE;
	from = from < 0 ? int_max(from + size, 0) : int_min(from, size);
	to = to < 0 ? int_max(to + size, 0) : int_min(to, size);
	int64_t length = to > from ? (to - from - 1) / by + 1 : 0, bound;
	if (length == size)
		return dim;
	bool is_stop = expr_value(m, stop_expr, &bound) && bound == length; /* keeps its symbols */
	return is_stop ? stop_expr : expr_int(m, length);
}

static bool entry_of_node(const Infer *in, const Arg *arg, Entry *e) {
	const Type *t = node_type(in->m, arg->node);
	const char *name = node_get(in->m, arg->node)->name;
	if (t->kind == TYPE_SYM && t->dtype != DTYPE_BOOL) {
		e->kind = ENTRY_POINT;
		return true;
	}
	if (t->kind != TYPE_TENSOR)
		return infer_error(in, "bad-index", NULL, "index '%s' is neither an int nor a tensor of ints", name);
	DtypeClass class = dtype_class(t->dtype);
	if (class != DTYPE_CLASS_SIGNED && class != DTYPE_CLASS_UNSIGNED)
		return infer_error(in, "bad-index", class == DTYPE_CLASS_BOOL ? "mask with extra_mask instead" : NULL,
		                   "index '%s' is %s; indices are ints", name, dtype_name(t->dtype));
	e->kind = t->count == 0 ? ENTRY_POINT : ENTRY_GATHER;
	e->shape.rank = t->count;
	memcpy(e->shape.dims, t->dims, sizeof t->dims);
	return true;
}

/* `dim`: the tensor's dim that the entry stands for; NONE past the last. */
static bool entry_read(const Infer *in, const Arg *arg, ExprId dim, Entry *e) {
	*e = (Entry){.kind = ENTRY_POINT};
	BlockId block = arg_block(in->m, arg);
	if (block != NONE) {
		e->kind = ENTRY_DIM;
		e->size = expr_block(in->m, block);
		return true;
	}
	switch (arg->kind) {
	case ARG_NULL: /* aten.index writes null for a whole dim */
		e->kind = op_lanes(node_get(in->m, in->n)->op) == LANES_GATHER ? ENTRY_DIM : ENTRY_NEW;
		e->size = dim;
		return true;
	case ARG_INT:
	case ARG_SYM: return true;
	case ARG_SLICE:
		e->kind = ENTRY_DIM;
		e->size = dim == NONE ? NONE : slice_length(in->m, arg, dim);
		return true;
	case ARG_REF: return entry_of_node(in, arg, e);
	default:
		return infer_error(in, "bad-index", NULL,
		                   "an index entry is neither an int, a slice, null nor a tensor");
	}
}

/* ---- gathers ----------------------------------------------------------------------------------------------------- */

/* How the int tensors of an index list go together. */
typedef struct Gathers {
	bool outer;     /* all are 1-D over block symbols: each makes its own dim */
	bool open;      /* the last dims pushed are a run of adjacent ones that may go on */
	uint32_t runs;  /* begun so far */
	uint32_t first; /* the result dim at which the run stands */
	Shape joined;   /* of the run so far */
} Gathers;

static bool gathers_are_outer(const Infer *in, const Arg *index) {
	for (uint32_t i = 0; i < index->list.count; i++) {
		const Arg *arg = arg_item(in->m, index, i);
		if (arg->kind != ARG_REF)
			continue;
		const Type *t = node_type(in->m, arg->node);
		if (t->kind == TYPE_TENSOR && t->count > 0 &&
		    (t->count > 1 || expr_as_block(in->m, t->dims[0]) == NONE))
			return false;
	}
	return true;
}

/* The run's dims are rewritten at its place when a further tensor broadcasts into it. */
static bool gather_push(const Infer *in, Gathers *g, const Shape *index, Shape *region) {
	if (!g->open || g->outer) {
		if (!g->outer && g->runs++ > 0)
			return infer_error(in, "bad-index",
			                   "load by one of them, and take part of that by tile.subscript",
			                   "index tensors must be adjacent, or all 1-D over block symbols");
		g->open = true;
		g->first = region->rank;
		g->joined = (Shape){0};
	}
	if (!shape_broadcast(in, &g->joined, index))
		return false;
	region->rank = g->first;
	for (uint32_t i = 0; i < g->joined.rank; i++)
		if (!shape_push(in, region, g->joined.dims[i]))
			return false;
	return true;
}

/* ---- regions ----------------------------------------------------------------------------------------------------- */

/* A length that follows from nothing is what the node declares for that dim; a store has no type to say it. */
static ExprId declared_dim(const Infer *in, uint32_t dim) {
	const Type *t = node_type(in->m, in->n);
	return t->kind == TYPE_TENSOR && dim < t->count ? t->dims[dim] : NONE;
}

static bool region_push(const Infer *in, Gathers *g, const Entry *e, Shape *region) {
	switch (e->kind) {
	case ENTRY_POINT: return true; /* does not end a run: it broadcasts into it as a 0-d tensor */
	case ENTRY_GATHER: return gather_push(in, g, &e->shape, region);
	case ENTRY_NEW: g->open = false; return shape_push(in, region, expr_int(in->m, 1));
	case ENTRY_DIM: break;
	}
	g->open = false;
	return shape_push(in, region, e->size != NONE ? e->size : declared_dim(in, region->rank));
}

bool infer_region(const Infer *in, const Shape *base, const Arg *index, Shape *region) {
	*region = (Shape){0};
	if (index->kind != ARG_LIST)
		return infer_error(in, "bad-index", NULL, "the index must be a list");
	bool null_counts = op_lanes(node_get(in->m, in->n)->op) == LANES_GATHER;
	Gathers gathers = {.outer = gathers_are_outer(in, index)};
	uint32_t dim = 0;
	for (uint32_t i = 0; i < index->list.count; i++) {
		const Arg *arg = arg_item(in->m, index, i);
		Entry entry;
		if (!entry_read(in, arg, dim < base->rank ? base->dims[dim] : NONE, &entry) ||
		    !region_push(in, &gathers, &entry, region))
			return false;
		dim += arg->kind != ARG_NULL || null_counts;
	}
	while (null_counts && dim < base->rank) /* aten.index may leave out the last ones */
		if (!shape_push(in, region, base->dims[dim++]))
			return false;
	if (dim != base->rank)
		return infer_error(in, "bad-index", "write one entry per dim, and null for each new axis",
		                   "the index has entries for %u dims, the tensor %s has %u", dim,
		                   shape_string(in, base), base->rank);
	return true;
}

static bool region_known(const Infer *in, const Shape *region) {
	for (uint32_t i = 0; i < region->rank; i++)
		if (region->dims[i] == NONE)
			return infer_error(in, "size-unknown",
			                   "it is in the node's `meta`: {\"dtype\": ..., \"shape\": [..., LENGTH]}",
			                   "the length of the slice in dim %u is not declared", i);
	return true;
}

bool infer_subscript(const Infer *in, TypeId *type) {
	Operand x;
	Shape region;
	return infer_operand(in, node_arg(in->m, in->n, 0), &x) &&
	       infer_region(in, &x.shape, node_arg(in->m, in->n, 1), &region) && region_known(in, &region) &&
	       infer_result(in, &region, type);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

bool infer_host(const Infer *in, TypeId *type) {
	const Arg *name = node_arg(in->m, in->n, 0);
	if (name->kind != ARG_TENSOR)
		return infer_error(in, "bad-argument", NULL, "it must name a tensor of the document");
	const Tensor *t = &in->m->tensors.at[name->tensor];
	*type = type_tensor(in->m, t->dtype, t->rank, t->shape);
	return true;
}

/* The region of a host tensor that a load, store or atomic touches, and its dtype. */
static bool infer_access(const Infer *in, Shape *region, Dtype *dtype) {
	Operand tensor;
	NodeId host = node_input(in->m, in->n, 0);
	if (host == NONE || node_get(in->m, host)->op != OP_HOST_TENSOR)
		return infer_error(in, "not-a-host-tensor",
		                   "a value computed in the kernel is indexed by tile.subscript",
		                   "its first argument must be a tile.host_tensor");
	if (!infer_tensor(in, "tensor", &tensor))
		return false;
	*dtype = tensor.dtype;
	return infer_region(in, &tensor.shape, op_arg(in->m, in->n, "index"), region);
}

static bool check_fits(const Infer *in, const char *name, const Shape *region) {
	Operand value;
	if (!infer_operand(in, op_arg(in->m, in->n, name), &value))
		return false;
	return shape_fits(in->m, &value.shape, region) ||
	       infer_error(in, "shape-mismatch", "sizes match if they are the same expression, or 1",
	                   "%s of shape %s does not broadcast to the indexed %s", name, shape_string(in, &value.shape),
	                   shape_string(in, region));
}

static bool check_extra_mask(const Infer *in, const Shape *region) {
	Operand mask;
	if (!infer_operand(in, op_arg(in->m, in->n, "extra_mask"), &mask))
		return false;
	if (!mask.absent && mask.dtype != DTYPE_BOOL)
		return infer_error(in, "dtype-mismatch", NULL, "extra_mask is %s, not bool", dtype_name(mask.dtype));
	return mask.absent || check_fits(in, "extra_mask", region);
}

/* An input belongs to the caller, and a derived tensor is computed before the kernel. */
static bool check_writable(const Infer *in) {
	TensorId named = node_arg(in->m, node_input(in->m, in->n, 0), 0)->tensor;
	const Tensor *base = &in->m->tensors.at[tensor_base(in->m, named)];
	if (base->role == ROLE_OUTPUT || base->role == ROLE_INOUT)
		return true;
	return infer_error(in, "read-only-tensor", "give it the role `inout` (returned updated) or write an output",
	                   "tensor '%s' is %s and cannot be written", base->name,
	                   base->role == ROLE_INPUT ? "an input" : "derived");
}

bool infer_load(const Infer *in, TypeId *type) {
	Shape region = {0};
	Dtype dtype = DTYPE_NONE;
	if (!infer_access(in, &region, &dtype) || !region_known(in, &region) || !check_extra_mask(in, &region))
		return false;
	*type = type_tensor(in->m, dtype, region.rank, region.dims);
	return true;
}

bool infer_store(const Infer *in, TypeId *type) {
	Shape region = {0};
	Dtype dtype = DTYPE_NONE;
	*type = type_none(in->m);
	return infer_access(in, &region, &dtype) && check_writable(in) && check_fits(in, "value", &region) &&
	       check_extra_mask(in, &region);
}

bool infer_atomic(const Infer *in, TypeId *type) {
	Shape region = {0};
	Dtype dtype = DTYPE_NONE;
	if (!infer_access(in, &region, &dtype) || !check_writable(in) || !region_known(in, &region) ||
	    !check_fits(in, "value", &region))
		return false;
	if (node_get(in->m, in->n)->op == OP_ATOMIC_CAS && !check_fits(in, "expected", &region))
		return false;
	*type = type_tensor(in->m, dtype, region.rank, region.dims);
	return true;
}

/* ---- between devices --------------------------------------------------------------------------------------------- */

bool infer_part(const Infer *in, TypeId *type) {
	Shape region = {0};
	Dtype dtype = DTYPE_NONE;
	if (!infer_access(in, &region, &dtype) || !region_known(in, &region))
		return false;
	*type = type_tensor(in->m, dtype, region.rank, region.dims);
	return true;
}

/* A scalar of that class: an int, or a bool. */
static bool check_scalar(const Infer *in, const char *name, bool is_bool) {
	Operand x;
	if (!infer_operand(in, op_arg(in->m, in->n, name), &x))
		return false;
	bool fits = !x.absent && x.shape.rank == 0 && !dtype_is_float(x.dtype) && (x.dtype == DTYPE_BOOL) == is_bool;
	return fits || (is_bool && x.absent) ||
	       infer_error(in, "dtype-mismatch", NULL, "%s must be %s", name,
	                   is_bool ? "a bool without dims" : "one int");
}

/* DMAs move whole bytes, and Mosaic no bools; float16 is int16 to the kernel, and XLA's alone. */
static bool check_copied(const Infer *in, const Shape *region, Dtype dtype) {
	if (dtype == DTYPE_BOOL || dtype == DTYPE_F16 || dtype_bits(dtype) < 8)
		return infer_error(in, "dtype-mismatch", "copy another dtype, such as int8, int16 or bfloat16",
		                   "devices exchange no %s", dtype_name(dtype));
	return region->rank > 0 ||
	       infer_error(in, "shape-mismatch", "copy a whole row", "devices exchange no single elements");
}

bool infer_remote(const Infer *in, TypeId *type) {
	Shape region = {0};
	Dtype dtype = DTYPE_NONE;
	const Arg *channel = op_arg(in->m, in->n, "channel"), *ends = op_arg(in->m, in->n, "ends");
	*type = type_none(in->m);
	if (!infer_access(in, &region, &dtype) || !check_writable(in) || !region_known(in, &region) ||
	    !check_copied(in, &region, dtype) || !check_scalar(in, "pred", true))
		return false;
	if (channel->kind != ARG_INT || channel->integer < 0 || channel->integer >= CHANNELS_MAX)
		return infer_error(in, "bad-argument", NULL, "channel is an int from 0 to %d", CHANNELS_MAX - 1);
	if (node_get(in->m, in->n)->op == OP_REMOTE_WAIT)
		return strcmp(ends->string, "both") == 0 || strcmp(ends->string, "send") == 0 ||
		       strcmp(ends->string, "recv") == 0 ||
		       infer_error(in, "bad-argument", NULL, "ends is both, send or recv, not '%s'", ends->string);
	Operand source;
	if (!infer_tensor(in, "source", &source) || !check_scalar(in, "device", false))
		return false;
	TypeId from = type_tensor(in->m, source.dtype, source.shape.rank, source.shape.dims),
	       to = type_tensor(in->m, dtype, region.rank, region.dims);
	return type_equal(in->m, from, to) ||
	       infer_error(in, "type-mismatch", "both ends of a copy have one dtype and shape", "it copies %s to %s",
	                   type_string(in->m, from), type_string(in->m, to));
}

bool infer_device_id(const Infer *in, TypeId *type) {
	*type = type_sym(in->m, DTYPE_I32, NONE);
	return true;
}
