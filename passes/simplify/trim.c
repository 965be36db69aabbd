/* trim.c - a loop ends with the last step that may change what it carries.
 *
 * What: where all that a loop carries is `where(tile.begin < x, new, old)`, and the steps do not move x, the steps from
 * x on change nothing: the loop ends before them, at the end of the last tile that begins below x, and the choices go.
 * So a tile.if around the body of a loop, which the pass branches made choices of, leaves out what it guards. Nothing
 * is done where unroll is asked for, which takes constant bounds alone. Why on a TPU: a step that computes nothing that
 * is kept takes as long as any other, and its windows are copied.
 *
 *     l = for_loop g, [0], [n], [z]               end = min(n, cdiv(x, u1) * u1)
 *         y = f(acc)                       =>     l = for_loop g, [0], [end], [z]
 *         p = tile.begin(u1) < x                      y = f(acc)
 *         acc' = where p, y, acc
 */
#include "simplify.h"

typedef struct Trim {
	PassContext *c;
	Module *m;
	GraphId g;
	NodeId call;
} Trim;

/* ---- the condition ----------------------------------------------------------------------------------------------- */

static bool is_begin(const Trim *t, const Arg *a) {
	BlockId b = graph_get(t->m, t->g)->blocks.at[0];
	return a->kind == ARG_REF && node_get(t->m, a->node)->op == OP_TILE_BEGIN &&
	       arg_block(t->m, node_arg(t->m, a->node, 0)) == b;
}

/* Which argument of the comparison p is x, of tile.begin < x: a slot; NONE. *more: 1 of tile.begin <= x. */
static uint32_t limit_of(const Trim *t, NodeId p, int64_t *more) {
	uint16_t op = node_get(t->m, p)->op;
	bool below = op == OP_SYM_LT || op == OP_SYM_LE, above = op == OP_SYM_GT || op == OP_SYM_GE;
	*more = op == OP_SYM_LE || op == OP_SYM_GE;
	if (below && is_begin(t, node_arg(t->m, p, 0)))
		return 1;
	return above && is_begin(t, node_arg(t->m, p, 1)) ? 0 : NONE;
}

/* A symbolic int that is the same in all steps and can be computed before the loop. */
static bool is_outer(const Trim *t, const Arg *a, uint32_t depth) {
	if (a->kind != ARG_REF)
		return a->kind == ARG_INT || a->kind == ARG_SYM || a->kind == ARG_BLOCK;
	const Type *type = node_type(t->m, a->node);
	if (type->kind != TYPE_SYM || depth == 0)
		return false;
	if (type->sym != NONE || constant_argument(t->m, a->node))
		return true;
	if (op_kind(t->m, a->node) == KIND_QUERY) {
		BlockId b = arg_block(t->m, node_arg(t->m, a->node, 0));
		return b != NONE && block_graph(t->m, t->g, b) != t->g;
	}
	bool all = op_kind(t->m, a->node) == KIND_SYMBOLIC;
	for (uint32_t i = 0; all && i < node_get(t->m, a->node)->arg_count; i++)
		all = is_outer(t, node_arg(t->m, a->node, i), depth - 1);
	return all;
}

/* It, before the loop. */
static Arg outer(const Trim *t, Arg a) {
	Module *m = t->m;
	if (a.kind != ARG_REF)
		return a;
	if (node_type(m, a.node)->sym != NONE)
		return arg_sym(node_type(m, a.node)->sym);
	if (constant_argument(m, a.node))
		return *constant_argument(m, a.node);
	Node node = *node_get(m, a.node);
	Arg args[2] = {{0}};
	for (uint32_t i = 0; i < node.arg_count && i < 2; i++)
		args[i] = op_kind(m, a.node) == KIND_QUERY
		                  ? (Arg){.kind = ARG_BLOCK, .block = arg_block(m, node_arg(m, a.node, i))}
		                  : outer(t, *node_arg(m, a.node, i));
	return arg_ref(node_derive(m, node.op, a.node, "outer", node.type, node.arg_count, args, t->call));
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

/* All that the loop carries is a choice by one comparison, else what it was: that comparison. NONE. */
static NodeId condition_of(const Trim *t) {
	const Module *m = t->m;
	const Graph *g = graph_get(m, t->g);
	NodeId found = NONE;
	if (g->carried.count == 0 || g->carried.count != graph_result_count(m, t->g))
		return NONE;
	for (uint32_t i = 0; i < g->carried.count; i++) {
		const Arg *result = arg_item(m, graph_results(m, t->g), g->carried.at[i].output);
		NodeId chosen = result->kind == ARG_REF ? result->node : NONE;
		if (chosen == NONE || node_get(m, chosen)->op != OP_WHERE ||
		    node_input(m, chosen, 2) != g->placeholders.at[g->carried.at[i].arg] ||
		    node_input(m, chosen, 1) == NONE ||
		    node_get(m, node_input(m, chosen, 1))->type != node_get(m, chosen)->type)
			return NONE;
		NodeId condition = node_input(m, chosen, 0);
		if (condition == NONE || (found != NONE && condition != found))
			return NONE;
		found = condition;
	}
	return found;
}

static bool only_computes(const Module *m, GraphId g) {
	bool only = true;
	GraphId called[2];
	for (NodeId n = graph_first(m, g); n != NONE && only; n = node_get(m, n)->next)
		only = !op_writes(node_get(m, n)->op) && call_graphs(m, n, called) == 0;
	return only;
}

static Arg sym_node(const Trim *t, uint16_t op, const char *suffix, Arg a, Arg b) {
	Arg args[2] = {a, b};
	TypeId type = type_sym(t->m, DTYPE_I32, NONE);
	return arg_ref(node_derive(t->m, op, t->call, suffix, type, 2, args, t->call));
}

/* min(end, begin + cdiv(x - begin, size) * size) */
static Arg trimmed_end(const Trim *t, Arg x, int64_t more) {
	Module *m = t->m;
	ExprId size = expr_block(m, graph_get(m, t->g)->blocks.at[0]);
	Arg begin = *arg_item(m, node_arg(m, t->call, 1), 0), end = *arg_item(m, node_arg(m, t->call, 2), 0);
	bool from_start = begin.kind == ARG_INT && begin.integer == 0;
	Arg room = arg_sym(expr_binary(m, EXPR_ADD, size, expr_int(m, more - 1)));
	Arg length =
		sym_node(t, OP_SYM_ADD, "length", from_start ? x : sym_node(t, OP_SYM_SUB, "from", x, begin), room);
	Arg steps = sym_node(t, OP_SYM_FLOORDIV, "steps", length, arg_sym(size));
	Arg tiles = sym_node(t, OP_SYM_MUL, "tiles", steps, arg_sym(size));
	return sym_node(t, OP_SYM_MIN, "end", end, from_start ? tiles : sym_node(t, OP_SYM_ADD, "to", begin, tiles));
}

static void trim(Trim *t) {
	Module *m = t->m;
	const Graph *g = graph_get(m, t->g);
	int64_t more;
	NodeId condition = g->blocks.count == 1 && only_computes(m, t->g) ? condition_of(t) : NONE;
	uint32_t slot = condition == NONE ? NONE : limit_of(t, condition, &more);
	if (slot == NONE || !is_outer(t, node_arg(m, condition, slot), GRAPH_DEPTH_MAX))
		return;
	Arg end = trimmed_end(t, outer(t, *node_arg(m, condition, slot)), more);
	arg_set(m, node_arg(m, t->call, 2)->list.first, end);
	for (uint32_t i = 0; i < g->carried.count; i++) {
		NodeId chosen = arg_item(m, graph_results(m, t->g), g->carried.at[i].output)->node;
		node_replace_uses(m, chosen, node_input(m, chosen, 1), NONE);
		node_remove(m, chosen);
	}
	pass_remark(t->c, "trim", "loop %s ends where %s is false: its steps change nothing from there on",
	            node_get(m, t->call)->name, node_get(m, condition)->name);
}

bool pass_trim(PassContext *c) {
	Module *m = c->module;
	if (module_loop_type(m) == LOOP_UNROLL)
		return true;
	for (GraphId g = 0; g < m->graphs.count; g++) {
		Trim t = {.c = c, .m = m, .g = g, .call = graph_get(m, g)->caller};
		if (graph_get(m, g)->kind == GRAPH_FOR_LOOP && t.call != NONE && graph_get(m, g)->lengths == NONE)
			trim(&t);
	}
	return true;
}
