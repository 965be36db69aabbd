/* moves.c - views that put lanes elsewhere: cat, stack, slice, flip, roll, pad, repeat, gather.
 *
 * Their dims are those of the graph; in the kernel a value of rank 1 is a row [1, n], so its one dim is the second
 * (move_axis()). Along a dim in which lanes move, an invalid lane of the operand can become a valid one of the result:
 * masks.c asks for all lanes of such dims (moved_dims()), which are zeros where they were loaded, as the format says.
 */
#include "lower.h"

bool view_number(const Module *m, const Arg *arg, int64_t absent, int64_t *value) {
	ExprId e = arg->kind == ARG_SYM ? arg->expr : arg->kind == ARG_REF ? node_type(m, arg->node)->sym : NONE;
	*value = arg->kind == ARG_INT ? arg->integer : absent;
	if (arg->kind == ARG_REF && node_type(m, arg->node)->kind != TYPE_SYM)
		return false;
	/* expr_value() caches into the Module; what it holds stays as it is. */
	return arg->kind == ARG_INT || arg->kind == ARG_NULL || (e != NONE && expr_value(m, e, value));
}

int64_t view_int(const Module *m, NodeId n, const char *name, int64_t absent) {
	int64_t value;
	view_number(m, op_arg(m, n, name), absent, &value);
	return value;
}

/* What is cut, flipped, ...: of a list, its first member. */
static NodeId moved_operand(const Module *m, NodeId n) {
	const Arg *a = node_arg(m, n, 0);
	if (a->kind == ARG_LIST)
		a = a->list.count ? arg_item(m, a, 0) : &(Arg){.kind = ARG_NULL};
	return a->kind == ARG_REF ? a->node : NONE;
}

static uint32_t dims_listed(const Module *m, const Arg *list, uint32_t rank) {
	uint32_t dims = 0;
	for (uint32_t i = 0; i < (list->kind == ARG_LIST ? list->list.count : 0); i++) {
		int64_t d;
		if (view_number(m, arg_item(m, list, i), 0, &d))
			dims |= 1u << (d < 0 ? d + rank : d);
	}
	return dims;
}

uint32_t moved_dims(const Module *m, NodeId n) {
	NodeId x = moved_operand(m, n);
	uint32_t rank = x == NONE ? 0 : node_type(m, x)->count, all = (1u << rank) - 1;
	int64_t dim = view_int(m, n, "dim", 0);
	switch (op_lanes(node_get(m, n)->op)) {
	case LANES_STACK:
	case LANES_BITCAST: return 0;
	case LANES_CAT:
	case LANES_SLICE:
	case LANES_GATHER: return 1u << (dim < 0 ? dim + rank : dim);
	case LANES_FLIP: return dims_listed(m, op_arg(m, n, "dims"), rank);
	default: return all; /* a roll that names no dim, a pad, a repeat */
	}
}

bool stacks_last(const Module *m, NodeId n) {
	if (op_lanes(node_get(m, n)->op) != LANES_STACK)
		return false;
	int64_t dim = view_int(m, n, "dim", 0);
	return dim == -1 || dim + 1 == (int64_t)node_type(m, n)->count;
}

Slice slice_of(const Module *m, NodeId n) {
	const Type *t = node_type(m, node_input(m, n, 0));
	Slice s = {.dim = view_int(m, n, "dim", 0), .step = view_int(m, n, "step", 1)};
	s.dim += s.dim < 0 ? t->count : 0;
	int64_t size = expr_number(m, t->dims[s.dim]);
	s.start = view_int(m, n, "start", 0);
	s.start = s.start < 0 ? int_max(s.start + size, 0) : int_min(s.start, size);
	s.count = expr_number(m, node_type(m, n)->dims[s.dim]);
	return s;
}

/* ---- forms ------------------------------------------------------------------------------------------------------- */

bool view_picks_lane(const Planner *p, NodeId n) {
	const Type *from =
		op_lanes(node_get(p->m, n)->op) == LANES_SELECT ? node_type(p->m, node_input(p->m, n, 0)) : NULL;
	int64_t dim = from ? view_int(p->m, n, "dim", 0) : 0;
	return from && from->count > 1 && (dim == -1 || dim + 1 == from->count);
}

/* It is a column, or one lane of each row, which can be taken as one. */
static bool may_be_column(const Planner *p, NodeId n) {
	return p->plan->values[n].form == FORM_COLUMN || view_picks_lane(p, n);
}

bool stacks_columns(const Planner *p, NodeId n) {
	if (!stacks_last(p->m, n))
		return false;
	const Arg *parts = node_arg(p->m, n, 0);
	for (uint32_t i = 0; i < parts->list.count; i++)
		if (value_rank(p, n) > 2 && !may_be_column(p, arg_item(p->m, parts, i)->node))
			return false;
	return true;
}

void form_move(Planner *p, NodeId n) {
	Value *v = value_of(p, n);
	v->form = FORM_NATURAL;
	v->wants = stacks_columns(p, n) ? FORM_COLUMN : FORM_NATURAL;
}

/* ---- what cannot be lowered -------------------------------------------------------------------------------------- */

static bool refuse_move(Planner *p, NodeId n, const char *why, const char *hint) {
	return plan_refuse(p, n, "unsupported", hint, "%s %s", op_row(node_get(p->m, n)->op)->target, why);
}

static bool bitcast_accepted(Planner *p, NodeId n) {
	Dtype from = node_type(p->m, node_input(p->m, n, 0))->dtype, to = node_type(p->m, n)->dtype;
	if (dtype_bits(from) != dtype_bits(to))
		return refuse_move(p, n, "between dtypes of two widths would move lanes",
		                   "view the tensor so before the kernel; of one width, a value can be");
	if (from == DTYPE_BOOL || to == DTYPE_BOOL)
		return refuse_move(p, n, "of bools: the vector unit holds them as masks",
		                   "convert with prims.convert_element_type.default");
	return true;
}

/* New dims, whole dims and positions that are known; decompose makes slices of parts whose ends are. */
bool index_accepted(Planner *p, NodeId n) {
	const Arg *index = node_arg(p->m, n, 1);
	for (uint32_t i = 0; i < index->list.count; i++) {
		const Arg *a = arg_item(p->m, index, i);
		bool whole = a->kind == ARG_SLICE;
		for (uint32_t k = 0; whole && k < 3; k++)
			whole = arg_item(p->m, a, k)->kind == ARG_NULL;
		if (a->kind != ARG_NULL && a->kind != ARG_INT && a->kind != ARG_SYM && !whole)
			return refuse_move(p, n,
			                   "takes a part of a dim whose ends are known only at run time, or gathers",
			                   "load the part, or gather by aten.index.Tensor");
	}
	return true;
}

bool move_accepted(Planner *p, NodeId n) {
	const Type *t = node_type(p->m, n);
	for (uint32_t i = 0; i < t->count; i++)
		if (expr_number(p->m, t->dims[i]) == 0)
			return refuse_move(p, n, "makes a value without lanes", "leave it out");
	NodeId x = moved_operand(p->m, n);
	uint32_t rank = x == NONE ? 0 : node_type(p->m, x)->count;
	switch (op_lanes(node_get(p->m, n)->op)) {
	case LANES_ROLL:
		return dims_listed(p->m, op_arg(p->m, n, "dims"), rank) != 0 || rank == 1 ||
		       refuse_move(p, n, "without dims rolls the elements of all dims as one row", "name the dims");
	case LANES_BITCAST: return bitcast_accepted(p, n);
	case LANES_GATHER:
		return gathers_lanes(p->m, n) || gathers_rows(p->m, n) ||
		       refuse_move(p, n, "is not lowered as it is", op_row(OP_INDEX_SELECT)->instead);
	default:
		return rank > 0 || refuse_move(p, n, "of single values is not lowered",
		                               "make rows of them with aten.full.default, and cat those");
	}
}

NodeId before_rounding(const Module *m, NodeId x, Dtype to) {
	bool rounds = op_converts(node_get(m, x)->op) && node_type(m, x)->dtype == to && dtype_is_float(to);
	NodeId from = rounds ? node_input(m, x, 0) : NONE;
	return from != NONE && node_type(m, from)->dtype == DTYPE_F32 ? from : x;
}
