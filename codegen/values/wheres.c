/* wheres.c - a choice by position is a mask: where(index + a < b, x, number) leaves the first b - a lanes of x.
 *
 * The condition has one dim, and to meet x it would be moved, from lanes to sublanes in the worst case; a mask counts
 * along x's own dim. What nothing else reads of the condition is not computed. */
#include "values.h"
#include "codegen/lower/lower.h"

/* The one dim of the value that is longer than 1, counted from the last; NONE. */
static uint32_t long_dim(const Planner *p, NodeId n) {
	const Type *t = node_type(p->m, n);
	uint32_t found = NONE, many = 0;
	for (uint32_t i = 0; i < t->count; i++)
		if (t->dims[i] != NONE && expr_number(p->m, t->dims[i]) != 1) {
			found = t->count - 1 - i;
			many++;
		}
	return many == 1 ? found : NONE;
}

/* The value behind views that only add dims of size 1. */
static NodeId behind_views(const Planner *p, NodeId n) {
	while (op_lowering(node_get(p->m, n)->op) == LOWER_VIEW && long_dim(p, node_input(p->m, n, 0)) != NONE)
		n = node_input(p->m, n, 0);
	return n;
}

static int64_t length(const Planner *p, NodeId n, uint32_t from_last) {
	const Type *t = node_type(p->m, n);
	return expr_number(p->m, t->dims[t->count - 1 - from_last]);
}

/* Positions that stand along one dim. */
static bool line_behind(Planner *p, GraphId g, const Arg *x, Line *out) {
	Arg plain = *x;
	if (x->kind == ARG_REF && node_type(p->m, x->node)->kind == TYPE_TENSOR && long_dim(p, x->node) != NONE)
		plain = arg_ref(behind_views(p, x->node));
	return line_of(p, g, &plain, LINE_DEPTH, out);
}

/* The condition holds, or if *negated does not, for the lanes whose number and *offset are below *end. */
static bool first_lanes(Planner *p, NodeId condition, Affine *offset, Affine *end, bool *negated) {
	const Node *node = node_get(p->m, condition);
	uint16_t op = op_canonical(node->op);
	Line a, b;
	if ((op != OP_LT && op != OP_LE && op != OP_GT && op != OP_GE) ||
	    !line_behind(p, node->graph, node_arg(p->m, condition, 0), &a) ||
	    !line_behind(p, node->graph, node_arg(p->m, condition, 1), &b) || a.index == b.index)
		return false;
	bool less = op == OP_LT || op == OP_LE, swapped = b.index, equal = op == OP_LE || op == OP_GE;
	*negated = less == swapped;
	*offset = swapped ? b.more : a.more;
	*end = swapped ? a.more : b.more;
	if (equal == *negated)
		return true;
	int64_t most; /* x <= y is x < y + 1, where that is an int of 32 bits */
	bool known = affine_max(p, end, &most) && most < INT32_MAX;
	*end = affine_add(p->a, *end, affine_int(1));
	return known;
}

/* Of an `and`, one of the two does. */
static bool either_leaves(Planner *p, NodeId both, uint32_t from_last, const Affine *lane, bool before) {
	bool any = false;
	for (uint32_t i = 0; i < 2 && !any; i++) {
		NodeId part = node_input(p->m, both, i);
		any = part != NONE && condition_leaves(p, part, from_last, lane, before);
	}
	return any;
}

bool condition_leaves(Planner *p, NodeId condition, uint32_t from_last, const Affine *lane, bool before) {
	uint32_t dim = long_dim(p, condition);
	Affine offset, end;
	bool negated;
	int64_t least;
	if (dim != NONE && dim != from_last)
		return false;
	if (dim != NONE) {
		condition = behind_views(p, condition);
		from_last = long_dim(p, condition);
	}
	uint16_t op = op_canonical(node_get(p->m, condition)->op);
	if (op == OP_LOGICAL_AND || op == OP_BITWISE_AND)
		return either_leaves(p, condition, from_last, lane, before);
	if (dim == NONE || !first_lanes(p, condition, &offset, &end, &negated) || negated != before)
		return false;
	Affine end_lane = affine_sub(p->a, end, offset);
	Affine more = before ? affine_sub(p->a, end_lane, *lane) : affine_sub(p->a, *lane, end_lane);
	return affine_min(p, &more, &least) && least >= 0;
}

/* Ints of 32 bits hold what the mask computes: the tile's lanes from 0 on, and an end that may be anything. */
static bool holds(Planner *p, const Affine *offset, int64_t lanes) {
	int64_t low, high;
	return affine_min(p, offset, &low) && low >= 0 && affine_max(p, offset, &high) && high <= INT32_MAX - lanes;
}

static bool is_number(const Planner *p, const Arg *a) {
	if (a->kind == ARG_REF)
		return op_lowering(node_get(p->m, a->node)->op) == LOWER_FULL && node_type(p->m, a->node)->count == 0;
	return a->kind == ARG_INT || a->kind == ARG_FLOAT || a->kind == ARG_SYM;
}

static void where_in(Planner *p, NodeId n) {
	Value *v = value_of(p, n);
	const Node *node = node_get(p->m, n);
	const Arg *condition = node_arg(p->m, n, 0);
	Mask mask = {.block = NONE};
	bool negated;
	if (op_canonical(node->op) != OP_WHERE || v->form != FORM_NATURAL || v->compute != DTYPE_NONE ||
	    v->mask_count || condition->kind != ARG_REF || node_type(p->m, n)->count < 2)
		return;
	uint32_t from_last = long_dim(p, condition->node);
	NodeId test = from_last == NONE ? NONE : behind_views(p, condition->node);
	if (test == NONE || !first_lanes(p, test, &mask.offset, &mask.end, &negated))
		return;
	const Arg *x = node_arg(p->m, n, 1), *number = node_arg(p->m, n, 2);
	if (is_number(p, x)) {
		number = x;
		x = node_arg(p->m, n, 2);
	}
	if (x->kind != ARG_REF || !is_number(p, number) || node_type(p->m, x->node) != node_type(p->m, n) ||
	    node_type(p->m, n)->dtype == DTYPE_BOOL ||
	    length(p, n, from_last) != length(p, condition->node, from_last) ||
	    !holds(p, &mask.offset, length(p, n, from_last)))
		return;
	Affine lanes = affine_sub(p->a, mask.end, mask.offset);
	int64_t most;
	if (negated && x == node_arg(p->m, n, 1) && value_of(p, x->node)->form == FORM_NATURAL &&
	    affine_max(p, &lanes, &most) && most <= 0) {
		v->same_as = x->node; /* all lanes of it */
		return;
	}
	v->negated = negated;
	mask.dim = node_type(p->m, n)->count - 1 - from_last;
	v->masks = arena_copy(p->a, &mask, 1, sizeof mask);
	v->mask_count = 1;
}

/* The use is the index of a slice, whose positions are not read. */
static bool is_sliced(const Planner *p, NodeId user, ArgId u) {
	const Access *access = p->plan->values[user].access;
	return access && access->places == NONE && list_index(node_arg(p->m, user, 1), u) != NONE;
}

/* Nothing reads the value but conditions that are masks, what makes them, and slices. */
static bool is_unread(Planner *p, NodeId n) {
	Lowering how = op_lowering(node_get(p->m, n)->op);
	if ((how != LOWER_POINTWISE && how != LOWER_VIEW && how != LOWER_INDEX) || node_uses(p->m, n) == NONE ||
	    node_type(p->m, n)->count == 0)
		return false;
	for (ArgId u = node_uses(p->m, n); u != NONE; u = arg_get(p->m, u)->next_use) {
		NodeId user = arg_get(p->m, u)->user;
		bool chosen = value_of(p, user)->mask_count || value_of(p, user)->same_as != NONE;
		bool condition = op_canonical(node_get(p->m, user)->op) == OP_WHERE && chosen &&
		                 node_arg(p->m, user, 0) == arg_get(p->m, u);
		if (!condition && !is_sliced(p, user, u) && !value_of(p, user)->folded)
			return false;
	}
	return true;
}

static void wheres_in(Planner *p, GraphId g) {
	for (NodeId n = graph_first(p->m, g); n != NONE; n = node_get(p->m, n)->next) {
		if (op_lowering(node_get(p->m, n)->op) == LOWER_LOOP)
			wheres_in(p, node_arg(p->m, n, 0)->graph);
		where_in(p, n);
	}
	for (NodeId n = graph_get(p->m, g)->last; n != NONE; n = node_get(p->m, n)->prev)
		value_of(p, n)->folded = value_of(p, n)->folded || is_unread(p, n);
}

void plan_wheres(Planner *p) { wheres_in(p, p->plan->root); }
