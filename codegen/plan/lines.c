/* lines.c - index tensors that count up: tile.index, an arange, products of them with an int, and ints added. */
#include "plan.h"

static bool is_int(const Planner *p, NodeId n) {
	const Type *t = node_type(p->m, n);
	return t->kind == TYPE_SYM || t->dtype == DTYPE_I32;
}

bool is_absent_or(const Arg *a, int64_t number) {
	return a->kind == ARG_NULL || (a->kind == ARG_INT && a->integer == number);
}

/* A product with a number. */
static bool times(Planner *p, NodeId n, int depth, Line *out) {
	const Arg *by = node_arg(p->m, n, 1);
	if (by->kind != ARG_INT || by->integer < 1 || by->integer > INT32_MAX ||
	    !steps_of(p, node_get(p->m, n)->graph, node_arg(p->m, n, 0), depth - 1, out))
		return false;
	out->more = affine_scale(p->a, out->more, by->integer);
	return checked_mul(out->step, by->integer, &out->step);
}

static bool line_of_node(Planner *p, NodeId n, int depth, Line *out) {
	const Node *node = node_get(p->m, n);
	uint16_t op = op_canonical(node->op);
	Line a, b;
	if (!is_int(p, n) || depth == 0)
		return false;
	if (node_type(p->m, n)->kind == TYPE_SYM || node_type(p->m, n)->count == 0) {
		Arg ref = arg_ref(n);
		*out = (Line){.more = affine_of_arg(p, node->graph, &ref), .step = 1};
		return true;
	}
	if (op == OP_TILE_INDEX) {
		BlockId block = query_block(p->m, n);
		*out = (Line){true, block, block_offset(p, node->graph, block), 1};
		return true;
	}
	if (op == OP_IOTA && is_absent_or(op_arg(p->m, n, "step"), 1)) {
		const Arg *start = op_arg(p->m, n, "start");
		*out = (Line){true, NONE, affine_int(start->kind == ARG_INT ? start->integer : 0), 1};
		return true;
	}
	if (op == OP_MUL)
		return times(p, n, depth, out);
	if ((op != OP_ADD && op != OP_SUB) || !is_absent_or(op_arg(p->m, n, "alpha"), 1) ||
	    !steps_of(p, node->graph, node_arg(p->m, n, 0), depth - 1, &a) ||
	    !steps_of(p, node->graph, node_arg(p->m, n, 1), depth - 1, &b) || (b.index && (a.index || op == OP_SUB)))
		return false;
	*out = (Line){a.index || b.index, a.index ? a.block : b.block,
	              op == OP_ADD ? affine_add(p->a, a.more, b.more) : affine_sub(p->a, a.more, b.more),
	              a.index ? a.step : b.step};
	return true;
}

bool steps_of(Planner *p, GraphId g, const Arg *x, int depth, Line *out) {
	if (x->kind == ARG_REF)
		return line_of_node(p, x->node, depth, out);
	*out = (Line){.more = affine_of_arg(p, g, x), .step = 1};
	return x->kind == ARG_INT || x->kind == ARG_SYM;
}

bool line_of(Planner *p, GraphId g, const Arg *x, int depth, Line *out) {
	return steps_of(p, g, x, depth, out) && out->step == 1;
}
