/* print_views.c - views as Python: other names for the same lanes, and what puts lanes elsewhere (moves.c). */
#include "printer.h"

static PyExpr subscript_text(Printer *pr, NodeId n, PyExpr x, Form form) {
	const Arg *index = node_arg(pr->m, n, 1);
	const char **items = arena_array(pr->a, (size_t)index->list.count + 1, sizeof *items);
	uint32_t count = 0;
	for (uint32_t i = 0; i < index->list.count; i++) {
		const Arg *a = arg_item(pr->m, index, i);
		items[count++] = a->kind == ARG_NULL ? "None" : a->kind == ARG_SLICE ? ":" : number_text(pr, a).text;
	}
	if (form == FORM_COLUMN && count) /* whose own last dim is the new one */
		items[count - 1] = ":";
	return py_atom(arena_printf(pr->a, "%s[%s]", in_parens(pr, x, PREC_ATOM), dims_text(pr, count, items)));
}

static PyExpr permute_text(Printer *pr, NodeId n, const char *x) {
	const char *items[DIM_MAX];
	uint32_t rank = type_rank(pr, n);
	const Arg *dims = node_arg(pr->m, n, 1);
	if (node_get(pr->m, n)->op == OP_TRANSPOSE)
		return py_atom(arena_printf(pr->a, "jnp.swapaxes(%s, %s, %s)", x, number_text(pr, dims).text,
		                            number_text(pr, node_arg(pr->m, n, 2)).text));
	if (node_get(pr->m, n)->op != OP_PERMUTE)
		return py_atom(arena_printf(pr->a, "jnp.swapaxes(%s, -1, -2)", x));
	for (uint32_t i = 0; i < rank; i++)
		items[i] = number_text(pr, arg_item(pr->m, dims, i)).text;
	return py_atom(arena_printf(pr->a, "jnp.transpose(%s, (%s))", x, dims_text(pr, rank, items)));
}

static PyExpr tile_text(Printer *pr, NodeId n, const char *x) {
	const Type *from = node_type(pr->m, node_input(pr->m, n, 0)), *to = node_type(pr->m, n);
	int64_t times = expr_number(pr->m, to->dims[to->count - 1]) / expr_number(pr->m, from->dims[from->count - 1]);
	Text out;
	text_init(&out, pr->a);
	for (uint32_t i = 0; i + 1 < to->count; i++)
		text_put(&out, "1, ");
	return py_atom(arena_printf(pr->a, "jnp.tile(%s, (%s%lld))", x, out.at ? out.at : "", (long long)times));
}

/* One element of a dim, which stays as a dim of 1. Static slices: an index would be a gather. A lane is picked as a row
 * of the transpose, which all chips have. */
static const char *select_text(Printer *pr, NodeId n, PyExpr x) {
	const Type *from = node_type(pr->m, node_input(pr->m, n, 0));
	int64_t dim = view_int(pr->m, n, "dim", 0), index = view_int(pr->m, n, "index", 0);
	dim += dim < 0 ? from->count : 0;
	index += index < 0 ? expr_number(pr->m, from->dims[dim]) : 0;
	uint32_t axis = move_axis(from->count, FORM_NATURAL, (uint32_t)dim);
	if (pr->plan->values[n].form == FORM_COLUMN)
		return arena_printf(pr->a, "%s[..., %lld:%lld]", x.text, (long long)index, (long long)index + 1);
	if (from->count > 1 && dim + 1 == from->count)
		return arena_printf(pr->a, "jnp.swapaxes(%s, -1, -2)[..., %lld:%lld, :]", x.text, (long long)index,
		                    (long long)index + 1);
	return arena_printf(pr->a, "jax.lax.slice_in_dim(%s, %lld, %lld, axis=%u)", x.text, (long long)index,
	                    (long long)index + 1, axis);
}

/* A view that moves lanes, of x in the form that it wants. */
static PyExpr moved_text(Printer *pr, NodeId n, PyExpr x) {
	const Value *v = &pr->plan->values[n];
	int64_t shape[DIM_MAX];
	uint32_t rank = printed_shape(pr, n, v->form, shape);
	switch (node_get(pr->m, n)->op) {
	case OP_SUBSCRIPT:
		if (type_rank(pr, node_input(pr->m, n, 0)) > 1)
			return subscript_text(pr, n, x, v->wants);
		break;
	case OP_PERMUTE:
	case OP_TRANSPOSE:
	case OP_T:
	case OP_MT: return permute_text(pr, n, x.text);
	case OP_PRE_BROADCAST_TILE: return tile_text(pr, n, x.text);
	case OP_EXPAND:
		return py_atom(arena_printf(pr->a, "jnp.broadcast_to(%s, %s)", x.text, shape_text(pr, rank, shape)));
	case OP_SELECT:
		x = py_atom(select_text(pr, n, x));
		if (v->form == FORM_COLUMN)
			return x;
		break;
	default: break;
	}
	if (node_get(pr->m, n)->op == OP_SELECT && rank == 2 && type_rank(pr, n) == 1 &&
	    view_int(pr->m, n, "dim", 0) != 0)
		return x; /* a row */
	return py_atom(arena_printf(pr->a, "%s.reshape(%s)", in_parens(pr, x, PREC_ATOM), shape_text(pr, rank, shape)));
}

/* Operand x in the dtype in which its lanes move. */
static PyExpr part_text_of(Printer *pr, NodeId n, const Arg *x) {
	const Value *v = &pr->plan->values[n];
	Dtype dtype = v->compute != DTYPE_NONE ? v->compute : node_type(pr->m, n)->dtype;
	return converted_text(pr, arg_text(pr, x, v->wants), node_type(pr->m, x->node)->dtype, dtype);
}

/* Two tiles lane by lane in turn: a stack of them as pairs, which this view makes one row of. */
static PyExpr interleaved_text(Printer *pr, NodeId n, NodeId stack) {
	const Arg *parts = node_arg(pr->m, stack, 0);
	const char *a = part_text_of(pr, stack, arg_item(pr->m, parts, 0)).text;
	const char *b = part_text_of(pr, stack, arg_item(pr->m, parts, 1)).text;
	Dtype to = node_type(pr->m, n)->dtype, compute = pr->plan->values[stack].compute;
	PyExpr e = py_atom(arena_printf(pr->a, "%s(%s, %s)", helper_named(pr, "_interleave"), a, b));
	return converted_text(pr, e, compute != DTYPE_NONE ? compute : to, to);
}

PyExpr view_text(Printer *pr, NodeId n) {
	NodeId from = node_input(pr->m, n, 0);
	if (pr->plan->values[from].folded)
		return interleaved_text(pr, n, from);
	const char *index = index_view_text(pr, n);
	if (index)
		return (PyExpr){index, PREC_ADD};
	ViewShape view = view_shape(&(Planner){.plan = (Plan *)(uintptr_t)pr->plan, .m = pr->m, .a = pr->a}, n);
	bool moves = view == VIEW_SHAPE_OTHER || view == VIEW_SHAPE_LANE_0 || view == VIEW_SHAPE_DROP_ROW;
	if (!moves)
		return viewed_text(pr, n);
	PyExpr x = value_text(pr, node_input(pr->m, n, 0), pr->plan->values[n].wants);
	if (view == VIEW_SHAPE_LANE_0)
		return py_atom(arena_printf(pr->a, "%s[..., :1]", in_parens(pr, x, PREC_ATOM)));
	/* Mosaic does not move bools, which are masks to it. */
	Dtype dtype = node_type(pr->m, n)->dtype;
	return dtype == DTYPE_BOOL ? as_dtype(pr, moved_text(pr, n, as_dtype(pr, x, DTYPE_I32)), dtype)
	                           : moved_text(pr, n, x);
}

/* ---- what puts lanes elsewhere ----------------------------------------------------------------------------------- */

/* "[a, b]" of a list of values. */
static const char *parts_text(Printer *pr, NodeId n) {
	const Arg *parts = node_arg(pr->m, n, 0);
	const char **items = arena_array(pr->a, parts->list.count + 1, sizeof *items);
	for (uint32_t i = 0; i < parts->list.count; i++)
		items[i] = part_text_of(pr, n, arg_item(pr->m, parts, i)).text;
	return arena_printf(pr->a, "[%s]", dims_text(pr, parts->list.count, items));
}

static const char *cat_text(Printer *pr, NodeId n) {
	int64_t dim = view_int(pr->m, n, "dim", 0), rank = type_rank(pr, n);
	Form wants = pr->plan->values[n].wants;
	uint32_t axis = move_axis((uint32_t)rank, wants, (uint32_t)(dim < 0 ? dim + rank : dim));
	return arena_printf(pr->a, "jnp.concatenate(%s, axis=%u)", parts_text(pr, n), axis);
}

/* Rows and columns have the new dim already. */
static const char *stack_text(Printer *pr, NodeId n) {
	int64_t dim = view_int(pr->m, n, "dim", 0), rank = type_rank(pr, n);
	bool has_dim = rank == 2 || pr->plan->values[n].wants == FORM_COLUMN;
	return arena_printf(pr->a, "jnp.%s(%s, axis=%lld)", has_dim ? "concatenate" : "stack", parts_text(pr, n),
	                    (long long)(dim < 0 ? dim + rank : dim));
}

/* x[:, start:end], of an axis of a value of `rank` dims in the kernel. */
static const char *cut_text(Printer *pr, const char *x, uint32_t rank, uint32_t axis, int64_t start, int64_t end) {
	const char *items[DIM_MAX];
	for (uint32_t i = 0; i < rank; i++)
		items[i] = i == axis ? arena_printf(pr->a, "%lld:%lld", (long long)start, (long long)end) : ":";
	return arena_printf(pr->a, "%s[%s]", x, dims_text(pr, rank, items));
}

static const char *slice_in_text(Printer *pr, NodeId n, PyExpr x) {
	Slice s = slice_of(pr->m, n);
	int64_t shape[DIM_MAX];
	uint32_t rank = printed_shape(pr, node_input(pr->m, n, 0), FORM_NATURAL, shape);
	uint32_t axis = move_axis(type_rank(pr, n), FORM_NATURAL, (uint32_t)s.dim);
	if (s.step == 1 || s.count == 1)
		return cut_text(pr, in_parens(pr, x, PREC_ATOM), rank, axis, s.start, s.start + s.count);
	if (axis + 1 == rank && s.step == 2) {
		if (s.start > 0)
			x = py_atom(cut_text(pr, in_parens(pr, x, PREC_ATOM), rank, axis, s.start, shape[axis]));
		const char *even = arena_printf(pr->a, "%s(%s)", helper_named(pr, "_even_lanes"), x.text);
		bool all = (shape[axis] - s.start + 1) / 2 == s.count;
		return all ? even : cut_text(pr, even, rank, axis, 0, s.count);
	}
	const char *name = axis + 1 == rank ? "_every_lane" : axis + 2 == rank ? "_every_row" : "_every";
	const char *place = axis + 2 < rank ? arena_printf(pr->a, ", axis=%u", axis) : "";
	return arena_printf(pr->a, "%s(%s, %lld, %lld, %lld%s)", helper_named(pr, name), x.text, (long long)s.start,
	                    (long long)s.step, (long long)s.count, place);
}

/* One dim after the other, the last ones first. */
static const char *flip_text(Printer *pr, NodeId n, PyExpr x) {
	uint32_t rank = type_rank(pr, n), dims = moved_dims(pr->m, n), size = rank == 1 ? 2 : rank;
	for (uint32_t i = rank; i-- > 0;) {
		uint32_t axis = move_axis(rank, FORM_NATURAL, i);
		if (dims >> i & 1)
			x.text = axis + 2 < size
			                 ? arena_printf(pr->a, "%s(%s, %u)", helper_named(pr, "_reverse"), x.text, axis)
			                 : arena_printf(pr->a, "%s(%s, %u)", helper_named(pr, "_flip"), x.text, axis);
	}
	return x.text;
}

/* A roll by whole turns is none: Mosaic would be asked for an empty slice. */
static const char *roll_text(Printer *pr, NodeId n, PyExpr x) {
	const Arg *shifts = node_arg(pr->m, n, 1), *dims = node_arg(pr->m, n, 2);
	const char *by[DIM_MAX], *along[DIM_MAX];
	uint32_t rank = type_rank(pr, n), count = 0;
	for (uint32_t i = 0; i < shifts->list.count; i++) {
		int64_t dim = 0, shift;
		if (dims->kind == ARG_LIST && i < dims->list.count)
			view_number(pr->m, arg_item(pr->m, dims, i), 0, &dim);
		view_number(pr->m, arg_item(pr->m, shifts, i), 0, &shift);
		dim += dim < 0 ? rank : 0;
		if (shift % expr_number(pr->m, node_type(pr->m, n)->dims[dim]) == 0)
			continue;
		by[count] = arena_printf(pr->a, "%lld", (long long)shift);
		along[count++] = arena_printf(pr->a, "%u", move_axis(rank, FORM_NATURAL, (uint32_t)dim));
	}
	if (count == 0)
		return x.text;
	return count == 1 ? arena_printf(pr->a, "jnp.roll(%s, %s, axis=%s)", x.text, by[0], along[0])
	                  : arena_printf(pr->a, "jnp.roll(%s, (%s), axis=(%s))", x.text, dims_text(pr, count, by),
	                                 dims_text(pr, count, along));
}

/* Negative amounts cut off; pairs count from the last dim. */
static const char *pad_text(Printer *pr, NodeId n, PyExpr x, Dtype dtype) {
	const Arg *pad = node_arg(pr->m, n, 1), *value = node_arg(pr->m, n, 2);
	int64_t shape[DIM_MAX];
	uint32_t rank = printed_shape(pr, node_input(pr->m, n, 0), FORM_NATURAL, shape);
	const char *items[DIM_MAX];
	bool any = false;
	for (uint32_t i = 0; i < rank; i++) {
		int64_t low = 0, high = 0;
		uint32_t pair = 2 * (rank - 1 - i);
		if (pair + 1 < pad->list.count) {
			view_number(pr->m, arg_item(pr->m, pad, pair), 0, &low);
			view_number(pr->m, arg_item(pr->m, pad, pair + 1), 0, &high);
		}
		if (low < 0 || high < 0)
			x = py_atom(cut_text(pr, in_parens(pr, x, PREC_ATOM), rank, i, low < 0 ? -low : 0,
			                     shape[i] + (high < 0 ? high : 0)));
		any = any || low > 0 || high > 0;
		items[i] = arena_printf(pr->a, "(%lld, %lld)", (long long)int_max(low, 0), (long long)int_max(high, 0));
	}
	if (!any)
		return x.text;
	PyExpr fill = value->kind == ARG_NULL ? py_atom("0")
	              : dtype_is_float(dtype) ? number_text(pr, value)
	                                      : number_beside_ints(pr, value, dtype);
	return arena_printf(pr->a, "jnp.pad(%s, (%s), constant_values=%s)", x.text, dims_text(pr, rank, items),
	                    fill.text);
}

static const char *repeat_text(Printer *pr, NodeId n, PyExpr x) {
	const Arg *times = node_arg(pr->m, n, 1);
	const char *items[DIM_MAX];
	uint32_t count = 0;
	if (times->list.count == 1)
		items[count++] = "1";
	for (uint32_t i = 0; i < times->list.count; i++) {
		int64_t number;
		view_number(pr->m, arg_item(pr->m, times, i), 0, &number);
		items[count++] = arena_printf(pr->a, "%lld", (long long)number);
	}
	return arena_printf(pr->a, "jnp.tile(%s, (%s))", x.text, dims_text(pr, count, items));
}

PyExpr move_text(Printer *pr, NodeId n) {
	uint16_t op = node_get(pr->m, n)->op;
	Dtype to = node_type(pr->m, n)->dtype, compute = pr->plan->values[n].compute;
	Dtype dtype = compute != DTYPE_NONE ? compute : to;
	PyExpr x = op == OP_CAT || op == OP_STACK || op == OP_VIEW_DTYPE ? py_atom("")
	                                                                 : part_text_of(pr, n, node_arg(pr->m, n, 0));
	const char *text = NULL;
	switch (op) {
	case OP_CAT: text = cat_text(pr, n); break;
	case OP_STACK: text = stack_text(pr, n); break;
	case OP_SLICE: text = slice_in_text(pr, n, x); break;
	case OP_FLIP: text = flip_text(pr, n, x); break;
	case OP_ROLL: text = roll_text(pr, n, x); break;
	case OP_PAD: text = pad_text(pr, n, x, dtype); break;
	case OP_REPEAT: text = repeat_text(pr, n, x); break;
	default: /* aten.view.dtype */
		return py_atom(arena_printf(pr->a, "jax.lax.bitcast_convert_type(%s, %s)",
		                            arg_text(pr, node_arg(pr->m, n, 0), FORM_NATURAL).text, dtype_jnp(to)));
	}
	return converted_text(pr, py_atom(text), dtype, to);
}
