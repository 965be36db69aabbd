/* orders.c - loop_orders: in which order the dims of a grid or loop stand, outermost first.
 *
 * Grid points run in any order. The steps of a loop run in the graph's, so another one is taken only where it cannot be
 * told: each step stores its own tile, and what is carried is a sum, a product, a maximum or a minimum of one part from
 * each step. Sums of floats are rounded in the new order. */
#include "loops.h"
#include "codegen/lower/lower.h"
#include "src/config/config.h"

const ConfigList *loop_order_given(Planner *p, GraphId g) {
	const Config *c = &p->m->config;
	uint32_t count;
	if (!c->loop_orders.set)
		return NULL;
	const GraphId *loops = config_loops(p->m, p->a, &count);
	for (uint32_t k = 0; k < count && k < c->loop_orders.values.count; k++)
		if (loops[k] == g)
			return &c->loop_orders.values.at[k];
	return NULL;
}

void loop_order(Planner *p, GraphId g, uint32_t *order) {
	const ConfigList *given = loop_order_given(p, g);
	uint32_t rank = graph_get(p->m, g)->blocks.count;
	for (uint32_t i = 0; i < rank && i < RANK_MAX; i++)
		order[i] = given && i < given->values.count ? (uint32_t)given->values.at[i] : i;
}

static bool is_one(const Module *m, NodeId n, const char *factor) {
	const Arg *a = op_param_index(node_get(m, n)->op, factor) == NONE ? NULL : op_arg(m, n, factor);
	return !a || a->kind == ARG_NULL || (a->kind == ARG_INT && a->integer == 1) ||
	       (a->kind == ARG_FLOAT && a->real == 1);
}

/* The placeholder comes into the result as one operand of a sum or the like, and into nothing else. */
static bool adds_up(const Module *m, NodeId result, NodeId placeholder) {
	uint16_t op = op_canonical(node_get(m, result)->op);
	uint32_t sum = op_lowering(op) == LOWER_MATMUL ? matmul_arg(node_get(m, result)->op, 2) : NONE;
	bool commutes = op == OP_ADD || op == OP_MUL || op == OP_MAXIMUM || op == OP_MINIMUM;
	NodeId into = sum != NONE ? node_input(m, result, sum) : node_input(m, result, 0);
	bool second =
		sum == NONE && op != OP_SUB && node_input(m, result, 1) == placeholder && is_one(m, result, "alpha");
	return is_one(m, result, "beta") && (commutes || op == OP_SUB || sum != NONE) &&
	       (into == placeholder || second) && node_use_count(m, placeholder) == 1;
}

/* Every step of the loop writes a place of its own. */
static bool writes_apart(const Module *m, const Graph *g, NodeId n) {
	const Arg *index = node_arg(m, n, 1);
	uint32_t found = 0;
	for (uint32_t b = 0; b < g->blocks.count; b++) {
		bool named = false;
		for (uint32_t i = 0; index->kind == ARG_LIST && i < index->list.count; i++)
			named = named || arg_block(m, arg_item(m, index, i)) == g->blocks.at[b];
		found += named;
	}
	return found == g->blocks.count;
}

static bool reads_tensor(const Module *m, GraphId g, TensorId base) {
	for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next)
		if (node_get(m, n)->op == OP_LOAD && access_base(m, n) == base)
			return true;
	return false;
}

/* Why the graph's order must stay; NULL if no other can be told from it. */
static const char *order_matters(const Module *m, GraphId id) {
	const Graph *g = graph_get(m, id);
	GraphId called[2];
	for (uint32_t i = 0; i < g->carried.count; i++) {
		const Arg *result = arg_item(m, graph_results(m, id), g->carried.at[i].output);
		NodeId carried = g->placeholders.at[g->carried.at[i].arg];
		if (result->kind != ARG_REF || !adds_up(m, result->node, carried))
			return "what it carries is no sum of its steps";
	}
	for (NodeId n = graph_first(m, id); n != NONE; n = node_get(m, n)->next) {
		if (call_graphs(m, n, called))
			return "its steps hold loops";
		if (op_writes(node_get(m, n)->op) && (!writes_apart(m, g, n) || reads_tensor(m, id, access_base(m, n))))
			return "its steps write what others write or read";
	}
	return NULL;
}

bool loop_order_kept(Planner *p, const Loop *loop) {
	const ConfigList *given = loop_order_given(p, loop->graph);
	bool same = true;
	for (uint32_t i = 0; given && i < given->values.count; i++)
		same = same && given->values.at[i] == (int64_t)i;
	const char *why = same ? NULL : order_matters(p->m, loop->graph);
	if (!why)
		return true;
	diag_error(p->d, config_place(&given->origin), "unsupported-config", "keep the loop's own order, [0, 1, ...]",
	           "loop_orders: the loop %s must keep its order: %s", node_get(p->m, loop->call)->name, why);
	loop_relate(p->m, p->d, loop->call);
	return false;
}
