/* build_order.c - where a value is computed: with its one user, in one expression of it, where both are of one source
 * line and that stays readable; else where its node stands. */
#include "builder.h"
#include "codegen/loops/loops.h"
#include "codegen/lower/lower.h"

enum { SUNK_WEIGHT = 3 }; /* operations that one expression may hold */

static bool same_line(const Node *a, const Node *b) {
	return a->loc.line == b->loc.line && a->loc.file == b->loc.file && a->loc.code == b->loc.code;
}

/* The one node that uses n, seeing through nodes that are just other names; NONE. */
static NodeId only_user(const Builder *b, NodeId n) {
	do
		n = node_only_user(b->m, n);
	while (n != NONE && b->plan->values[n].same_as != NONE);
	return n;
}

/* It is the position of a write, which is read by name. */
static bool is_position(const Builder *b, NodeId n) {
	for (ArgId u = node_uses(b->m, n); u != NONE; u = arg_get(b->m, u)->next_use) {
		NodeId user = arg_get(b->m, u)->user;
		if (op_writes(node_get(b->m, user)->op) && list_index(node_arg(b->m, user, 1), u) != NONE)
			return true;
	}
	return false;
}

static bool can_sink(const Builder *b, NodeId n) {
	const Value *values = b->plan->values;
	Lowering how = op_lowering(node_get(b->m, n)->op);
	if (values[n].same_as != NONE || values[n].folded || is_position(b, n) || is_printed(b, n))
		return false;
	NodeId user = only_user(b, n);
	if (user == NONE || node_get(b->m, user)->graph != node_get(b->m, n)->graph ||
	    values[user].ahead != values[n].ahead || !strips_may_inline(b->plan, n, user))
		return false;
	Lowering use = op_lowering(node_get(b->m, user)->op);
	if (how == LOWER_REDUCE && values[n].seldom) /* it is handed on */
		return false;
	if (how == LOWER_FULL) /* a constant reads best where it is used */
		return use == LOWER_LOOP || use == LOWER_POINTWISE;
	if (how == LOWER_INDEX) /* made along another dim at once */
		return use == LOWER_VIEW;
	if (how != LOWER_POINTWISE && how != LOWER_REDUCE && how != LOWER_VIEW && how != LOWER_MOVE)
		return false;
	bool line = same_line(node_get(b->m, n), node_get(b->m, user));
	if (use == LOWER_MATMUL)
		return node_get(b->m, n)->op == OP_CONVERT && line;
	bool good = use == LOWER_POINTWISE || (use == LOWER_REDUCE && how != LOWER_REDUCE) || use == LOWER_STORE;
	/* A store of a column moves its operand to a row, and a conversion of form is a call already. */
	bool move = use == LOWER_STORE ? values[n].form == FORM_COLUMN : values[user].wants != values[n].form;
	return good && !move && line;
}

static void order_in(Builder *b, GraphId g, uint32_t *weight) {
	for (NodeId n = graph_first(b->m, g); n != NONE; n = node_get(b->m, n)->next) {
		const Value *v = &b->plan->values[n];
		Lowering how = op_lowering(node_get(b->m, n)->op);
		b->made[n] = how != LOWER_FREE && v->same_as == NONE && !v->folded;
		if (how == LOWER_LOOP)
			order_in(b, loop_body(b->m, n), weight);
		weight[n] += 1;
		if (weight[n] > SUNK_WEIGHT || !can_sink(b, n))
			continue;
		b->sunk[n] = true;
		weight[only_user(b, n)] += weight[n];
	}
}

void build_order(Builder *b) {
	uint32_t *weight = arena_array(b->a, b->m->nodes.count, sizeof *weight);
	b->made = arena_array(b->a, b->m->nodes.count, sizeof *b->made);
	b->sunk = arena_array(b->a, b->m->nodes.count, sizeof *b->sunk);
	order_in(b, b->plan->root, weight);
}
