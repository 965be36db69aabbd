/* build_views.c - views: other names for the same lanes, and what puts lanes elsewhere (moves.c). */
#include "builder.h"
#include "codegen/lower/lower.h"

static const int64_t last_two[] = {-1, -2};

static KArg shaped(Builder *b, uint16_t op, KArg x, uint32_t rank, const int64_t *shape) {
	return build_shaped(b, op, karg_dtype(b, x), rank, shape, 1, &x);
}

static KArg with_ints(Builder *b, uint16_t op, KArg x, uint32_t count, const int64_t *ints) {
	return build_op(b, op, karg_dtype(b, x), 1, &x, count, ints);
}

static void put_item(int64_t *items, uint32_t *count, KItem kind, int64_t start, int64_t end) {
	int64_t *item = items + (size_t)3 * (*count)++;
	item[0] = kind;
	item[1] = start;
	item[2] = end;
}

static KArg subscript(Builder *b, NodeId n, KArg x, Form form) {
	const Arg *index = node_arg(b->m, n, 1);
	int64_t *items = arena_array(b->a, 3 * ((size_t)index->list.count + 1), sizeof *items);
	uint32_t count = 0;
	for (uint32_t i = 0; i < index->list.count; i++) {
		const Arg *a = arg_item(b->m, index, i);
		if (a->kind == ARG_NULL)
			put_item(items, &count, K_ITEM_NEW, 0, 0);
		else if (a->kind == ARG_SLICE)
			put_item(items, &count, K_ITEM_ALL, 0, 0);
		else
			put_item(items, &count, K_ITEM_AT, build_number(b->m, a).integer, 0);
	}
	if (form == FORM_COLUMN && count) { /* whose own last dim is the new one */
		count--;
		put_item(items, &count, K_ITEM_ALL, 0, 0);
	}
	return with_ints(b, K_INDEX, x, 3 * count, items);
}

/* The axes stand as the graph names them. */
static KArg permuted(Builder *b, NodeId n, KArg x) {
	int64_t axes[DIM_MAX];
	uint32_t rank = type_rank(b, n);
	const Arg *dims = node_arg(b->m, n, 1);
	switch (op_row(node_get(b->m, n)->op)->shape) {
	case SHAPE_T: return with_ints(b, K_SWAPAXES, x, 2, last_two);
	case SHAPE_TRANSPOSE:
		axes[0] = build_number(b->m, dims).integer;
		axes[1] = build_number(b->m, node_arg(b->m, n, 2)).integer;
		return with_ints(b, K_SWAPAXES, x, 2, axes);
	default:
		for (uint32_t i = 0; i < rank; i++)
			axes[i] = build_number(b->m, arg_item(b->m, dims, i)).integer;
		return with_ints(b, K_TRANSPOSE, x, rank, axes);
	}
}

/* Mosaic makes as many copies of a column as it is to have lanes; spread along lanes it is one. */
static KArg tiled(Builder *b, NodeId n, KArg x) {
	const Type *from = node_type(b->m, node_input(b->m, n, 0)), *to = node_type(b->m, n);
	int64_t times[DIM_MAX], shape[DIM_MAX];
	if (expr_number(b->m, from->dims[from->count - 1]) == 1) {
		uint32_t rank = built_shape(b, n, b->plan->values[n].form, shape);
		return build_shaped(b, K_BROADCAST, karg_dtype(b, x), rank, shape, 1, &x);
	}
	for (uint32_t i = 0; i + 1 < to->count; i++)
		times[i] = 1;
	times[to->count - 1] =
		expr_number(b->m, to->dims[to->count - 1]) / expr_number(b->m, from->dims[from->count - 1]);
	return with_ints(b, K_TILE, x, to->count, times);
}

/* One element of a dim, which stays as a dim of 1. Static slices: an index would be a gather. A lane is picked as a row
 * of the transpose, which all chips have. */
static KArg selected(Builder *b, NodeId n, KArg x) {
	const Type *from = node_type(b->m, node_input(b->m, n, 0));
	int64_t dim = view_int(b->m, n, "dim", 0), index = view_int(b->m, n, "index", 0), items[9];
	uint32_t count = 0;
	dim += dim < 0 ? from->count : 0;
	index += index < 0 ? expr_number(b->m, from->dims[dim]) : 0;
	bool column = b->plan->values[n].form == FORM_COLUMN;
	if (!column && (from->count == 1 || dim + 1 != from->count)) {
		const int64_t ints[3] = {index, index + 1, move_axis(from->count, FORM_NATURAL, (uint32_t)dim)};
		return with_ints(b, K_SLICE_IN_DIM, x, 3, ints);
	}
	put_item(items, &count, K_ITEM_REST, 0, 0);
	put_item(items, &count, K_ITEM_RANGE, index, index + 1);
	if (column)
		return with_ints(b, K_INDEX, x, 3 * count, items);
	put_item(items, &count, K_ITEM_ALL, 0, 0);
	return with_ints(b, K_INDEX, with_ints(b, K_SWAPAXES, x, 2, last_two), 3 * count, items);
}

/* A view that moves lanes, of x in the form that it wants. */
static KArg moved(Builder *b, NodeId n, KArg x) {
	const Value *v = &b->plan->values[n];
	int64_t shape[DIM_MAX];
	uint32_t rank = built_shape(b, n, v->form, shape);
	Lanes lanes = op_lanes(node_get(b->m, n)->op);
	switch (lanes) {
	case LANES_INDEX:
		if (type_rank(b, node_input(b->m, n, 0)) > 1)
			return subscript(b, n, x, v->wants);
		break;
	case LANES_PERMUTE: return permuted(b, n, x);
	case LANES_TILE: return tiled(b, n, x);
	case LANES_EXPAND: return shaped(b, K_BROADCAST, x, rank, shape);
	case LANES_SELECT:
		x = selected(b, n, x);
		if (v->form == FORM_COLUMN)
			return x;
		break;
	default: break;
	}
	if (lanes == LANES_SELECT && rank == 2 && type_rank(b, n) == 1 && view_int(b->m, n, "dim", 0) != 0)
		return x; /* a row */
	return shaped(b, K_RESHAPE, x, rank, shape);
}

/* Operand x in the dtype in which its lanes move. */
static KArg part_of_move(Builder *b, NodeId n, const Arg *x) {
	const Value *v = &b->plan->values[n];
	Dtype dtype = v->compute != DTYPE_NONE ? v->compute : node_type(b->m, n)->dtype;
	return build_converted(b, build_arg(b, x, v->wants), node_type(b->m, x->node)->dtype, dtype);
}

/* Two tiles lane by lane in turn: a stack of them as pairs, which this view makes one row of. */
static KArg interleaved(Builder *b, NodeId n, NodeId stack) {
	const Arg *parts = node_arg(b->m, stack, 0);
	KArg x = part_of_move(b, stack, arg_item(b->m, parts, 0));
	KArg y = part_of_move(b, stack, arg_item(b->m, parts, 1));
	Dtype to = node_type(b->m, n)->dtype, compute = b->plan->values[stack].compute;
	KArg e = build_binary(b, K_INTERLEAVE, karg_dtype(b, x), x, y);
	return build_converted(b, e, compute != DTYPE_NONE ? compute : to, to);
}

/* Mosaic does not move bools, which are masks to it; nor, where packed elements are not computed with, makes it rows of
 * one of whole rows of them. */
static Dtype moved_in(const Builder *b, NodeId n) {
	const Type *to = node_type(b->m, n), *from = node_type(b->m, node_input(b->m, n, 0));
	bool ones = op_lanes(node_get(b->m, n)->op) == LANES_RESHAPE && from->count > 0 && to->count > 0 &&
	            expr_number(b->m, to->dims[to->count - 1]) == 1 &&
	            expr_number(b->m, from->dims[from->count - 1]) > 1;
	bool packed = dtype_vmem_bits(to->dtype) < 32 && to->dtype != DTYPE_F16;
	return to->dtype == DTYPE_BOOL                     ? DTYPE_I32
	       : ones && packed && !b->m->target->bf16_vpu ? dtype_of_sums(to->dtype)
	                                                   : to->dtype;
}

KArg build_view(Builder *b, NodeId n) {
	static const int64_t lane_0[] = {K_ITEM_REST, 0, 0, K_ITEM_FIRST, 0, 1};
	NodeId from = node_input(b->m, n, 0);
	if (b->plan->values[from].folded)
		return interleaved(b, n, from);
	KArg index = build_index_view(b, n);
	if (index.kind != KARG_NONE)
		return index;
	Planner p = build_planner(b);
	ViewShape view = view_shape(&p, n);
	bool moves = view == VIEW_SHAPE_OTHER || view == VIEW_SHAPE_LANE_0 || view == VIEW_SHAPE_DROP_ROW;
	if (!moves)
		return build_value_for(b, from, b->plan->values[n].wants, n);
	KArg x = build_value(b, from, b->plan->values[n].wants);
	if (view == VIEW_SHAPE_LANE_0)
		return with_ints(b, K_INDEX, x, 6, lane_0);
	Dtype dtype = node_type(b->m, n)->dtype, by = moved_in(b, n);
	return by == dtype ? moved(b, n, x) : build_as(b, moved(b, n, build_as(b, x, by)), dtype);
}

/* ---- what puts lanes elsewhere ---------------------------------------------------------------------------------- */

static KArg joined(Builder *b, NodeId n, uint16_t op, int64_t axis) {
	const Arg *parts = node_arg(b->m, n, 0);
	KArg *items = arena_array(b->a, parts->list.count + 1, sizeof *items);
	for (uint32_t i = 0; i < parts->list.count; i++)
		items[i] = part_of_move(b, n, arg_item(b->m, parts, i));
	return build_op(b, op, karg_dtype(b, items[0]), parts->list.count, items, 1, &axis);
}

static KArg concatenated(Builder *b, NodeId n) {
	int64_t dim = view_int(b->m, n, "dim", 0), rank = type_rank(b, n);
	return joined(b, n, K_CONCATENATE,
	              move_axis((uint32_t)rank, b->plan->values[n].wants, (uint32_t)(dim < 0 ? dim + rank : dim)));
}

/* Rows and columns have the new dim already. */
static KArg stacked(Builder *b, NodeId n) {
	int64_t dim = view_int(b->m, n, "dim", 0), rank = type_rank(b, n);
	bool has_dim = rank == 2 || b->plan->values[n].wants == FORM_COLUMN;
	return joined(b, n, has_dim ? K_CONCATENATE : K_STACK, dim < 0 ? dim + rank : dim);
}

/* x[:, start:end], of an axis of a value of `rank` dims in the kernel. */
static KArg cut(Builder *b, KArg x, uint32_t rank, uint32_t axis, int64_t start, int64_t end) {
	int64_t items[3 * DIM_MAX];
	uint32_t count = 0;
	for (uint32_t i = 0; i < rank; i++)
		put_item(items, &count, i == axis ? K_ITEM_RANGE : K_ITEM_ALL, start, end);
	return with_ints(b, K_INDEX, x, 3 * count, items);
}

static KArg sliced(Builder *b, NodeId n, KArg x) {
	Slice s = slice_of(b->m, n);
	int64_t shape[DIM_MAX];
	uint32_t rank = built_shape(b, node_input(b->m, n, 0), FORM_NATURAL, shape);
	uint32_t axis = move_axis(type_rank(b, n), FORM_NATURAL, (uint32_t)s.dim);
	if (s.step == 1 || s.count == 1)
		return cut(b, x, rank, axis, s.start, s.start + s.count);
	if (axis + 1 == rank && s.step == 2) {
		if (s.start > 0)
			x = cut(b, x, rank, axis, s.start, shape[axis]);
		x = with_ints(b, K_EVEN_LANES, x, 0, NULL);
		return (shape[axis] - s.start + 1) / 2 == s.count ? x : cut(b, x, rank, axis, 0, s.count);
	}
	const int64_t ints[4] = {s.start, s.step, s.count, axis};
	return with_ints(b, K_EVERY, x, 4, ints);
}

/* One dim after the other, the last ones first. */
static KArg flipped(Builder *b, NodeId n, KArg x) {
	uint32_t rank = type_rank(b, n), dims = moved_dims(b->m, n), size = rank == 1 ? 2 : rank;
	for (uint32_t i = rank; i-- > 0;) {
		int64_t axis = move_axis(rank, FORM_NATURAL, i);
		if (dims >> i & 1)
			x = with_ints(b, axis + 2 < size ? K_REVERSE : K_FLIP, x, 1, &axis);
	}
	return x;
}

/* A roll by whole turns is none: Mosaic would be asked for an empty slice. */
static KArg rolled(Builder *b, NodeId n, KArg x) {
	const Arg *shifts = node_arg(b->m, n, 1), *dims = node_arg(b->m, n, 2);
	int64_t turns[2 * DIM_MAX];
	uint32_t rank = type_rank(b, n), count = 0;
	for (uint32_t i = 0; i < shifts->list.count; i++) {
		int64_t dim = 0, shift;
		if (dims->kind == ARG_LIST && i < dims->list.count)
			view_number(b->m, arg_item(b->m, dims, i), 0, &dim);
		view_number(b->m, arg_item(b->m, shifts, i), 0, &shift);
		dim += dim < 0 ? rank : 0;
		if (shift % expr_number(b->m, node_type(b->m, n)->dims[dim]) == 0)
			continue;
		turns[count++] = shift;
		turns[count++] = move_axis(rank, FORM_NATURAL, (uint32_t)dim);
	}
	return count ? with_ints(b, K_ROLL, x, count, turns) : x;
}

/* Negative amounts cut off; pairs count from the last dim. */
static KArg padded(Builder *b, NodeId n, KArg x, Dtype dtype) {
	const Arg *pad = node_arg(b->m, n, 1), *value = node_arg(b->m, n, 2);
	int64_t shape[DIM_MAX], widths[2 * DIM_MAX];
	uint32_t rank = built_shape(b, node_input(b->m, n, 0), FORM_NATURAL, shape);
	bool any = false;
	for (uint32_t i = 0; i < rank; i++) {
		int64_t low = 0, high = 0;
		uint32_t pair = 2 * (rank - 1 - i);
		if (pair + 1 < pad->list.count) {
			view_number(b->m, arg_item(b->m, pad, pair), 0, &low);
			view_number(b->m, arg_item(b->m, pad, pair + 1), 0, &high);
		}
		if (low < 0 || high < 0)
			x = cut(b, x, rank, i, low < 0 ? -low : 0, shape[i] + (high < 0 ? high : 0));
		any = any || low > 0 || high > 0;
		widths[(size_t)2 * i] = int_max(low, 0);
		widths[(size_t)2 * i + 1] = int_max(high, 0);
	}
	if (!any)
		return x;
	KArg fill = value->kind == ARG_NULL ? karg_integer(0)
	            : dtype_is_float(dtype) ? build_number(b->m, value)
	                                    : build_beside_ints(b, value, dtype);
	return build_op(b, K_PAD, karg_dtype(b, x), 2, (const KArg[]){x, fill}, 2 * rank, widths);
}

/* What a dim of one is repeated to it is spread to, as tiled() says. */
static KArg repeated(Builder *b, NodeId n, KArg x) {
	const Arg *given = node_arg(b->m, n, 1);
	NodeId of = node_input(b->m, n, 0);
	int64_t times[DIM_MAX], from[DIM_MAX], shape[DIM_MAX];
	uint32_t rank = built_shape(b, of, b->plan->values[n].wants, from), count = 0;
	bool spreads = false, repeats = false;
	if (given->list.count == 1)
		times[count++] = 1;
	for (uint32_t i = 0; i < given->list.count; i++)
		view_number(b->m, arg_item(b->m, given, i), 0, &times[count++]);
	for (uint32_t i = 0; i < count; i++) {
		shape[i] = i + rank < count ? 1 : from[i + rank - count];
		if (shape[i] == 1 && times[i] > 1) {
			shape[i] = times[i];
			times[i] = 1;
			spreads = true;
		}
		repeats = repeats || times[i] != 1;
	}
	if (spreads)
		x = build_shaped(b, K_BROADCAST, karg_dtype(b, x), count, shape, 1, &x);
	return repeats || !spreads ? with_ints(b, K_TILE, x, count, times) : x;
}

KArg build_move(Builder *b, NodeId n) {
	Lanes lanes = op_lanes(node_get(b->m, n)->op);
	Dtype to = node_type(b->m, n)->dtype, compute = b->plan->values[n].compute;
	Dtype dtype = compute != DTYPE_NONE ? compute : to;
	if (lanes == LANES_BITCAST)
		return build_unary(b, K_BITCAST, to, build_arg(b, node_arg(b->m, n, 0), FORM_NATURAL));
	if (lanes == LANES_CAT || lanes == LANES_STACK)
		return build_converted(b, lanes == LANES_CAT ? concatenated(b, n) : stacked(b, n), dtype, to);
	KArg x = part_of_move(b, n, node_arg(b->m, n, 0));
	switch (lanes) {
	case LANES_GATHER:
		x = build_binary(b, gathers_lanes(b->m, n) ? K_TAKE_LANES : K_TAKE_ROWS, dtype, x,
		                 build_arg(b, node_arg(b->m, n, 2), FORM_NATURAL));
		break;
	case LANES_SLICE: x = sliced(b, n, x); break;
	case LANES_FLIP: x = flipped(b, n, x); break;
	case LANES_ROLL: x = rolled(b, n, x); break;
	case LANES_PAD: x = padded(b, n, x, dtype); break;
	default: x = repeated(b, n, x); break;
	}
	return build_converted(b, x, dtype, to);
}
