/* whiles.c - the condition of a tile.while is computed before it and at the end of each step, and carried.
 *
 * What: the nodes of the cond graph are copied in front of the call, of what the loop starts with, and to the end of
 * the body, of what the next step gets. Its bool is one more carried value, and all that is left of the cond graph is
 * that placeholder. Stays: a condition that calls graphs. Why on a TPU: a loop whose next step hangs on a value that it
 * carries is one region of statements, as all loops are, and its body and condition share what they compute.
 *
 *     cond(x):  c = max(x) > 1                        go = max(x) > 1
 *     body(x):  y = x / 2                             r = while go, [x, go]
 *     r = while cond, body, [x]          =>           body(x, go):  y = x / 2
 *                                                                   next = max(y) > 1
 */
#include "simplify.h"

typedef struct Rotation {
	Decompose d;
	GraphId cond, body;
	Arg *now; /* by node of the cond graph: what its copy is */
} Rotation;

static bool calls(const Module *m, GraphId g) {
	GraphId graphs[2];
	for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next)
		if (call_graphs(m, n, graphs))
			return true;
	return false;
}

static void use_copies(Rotation *r, ArgId slot) {
	Module *m = r->d.m;
	Arg a = *arg_get(m, slot);
	if (a.kind == ARG_REF)
		arg_set(m, slot, arg_copy(m, r->now[a.node]));
	for (uint32_t i = 0; (a.kind == ARG_LIST || a.kind == ARG_SLICE) && i < a.list.count; i++)
		use_copies(r, a.list.first + i);
}

/* A bool tensor without dims. */
static NodeId as_flag(Rotation *r, Arg test) {
	Arg full[3] = {arg_list(r->d.m, 0, NULL), test, arg_dtype(DTYPE_BOOL)}, differs[2] = {test, arg_int(0)};
	if (test.kind != ARG_REF)
		return make_node(&r->d, OP_FULL, "go", 3, full);
	bool symbolic = node_type(r->d.m, test.node)->kind == TYPE_SYM;
	return symbolic ? make_node(&r->d, OP_NE_SCALAR, "go", 2, differs) : test.node;
}

/* The condition of these values, before a node. */
static NodeId condition_of(Rotation *r, const Arg *values, NodeId before) {
	Module *m = r->d.m;
	r->d.n = before;
	for (uint32_t i = 0; i < graph_get(m, r->cond)->placeholders.count; i++)
		r->now[graph_get(m, r->cond)->placeholders.at[i]] = values[i];
	for (NodeId n = graph_first(m, r->cond); n != NONE; n = node_get(m, n)->next) {
		if (node_get(m, n)->op == OP_PLACEHOLDER || node_get(m, n)->op == OP_OUTPUT)
			continue;
		NodeId copy = node_copy(m, n, before);
		for (uint32_t i = 0; i < node_get(m, copy)->arg_count; i++)
			use_copies(r, node_get(m, copy)->arg_first + i);
		r->now[n] = arg_ref(copy);
	}
	Arg test = *arg_item(m, graph_results(m, r->cond), 0);
	return as_flag(r, test.kind == ARG_REF ? r->now[test.node] : test);
}

/* What the graphs get at the start, and in the step after this one. */
static void arguments(const Rotation *r, NodeId call, Arg *first, Arg *next) {
	const Module *m = r->d.m;
	const Graph *g = graph_get(m, r->body);
	for (uint32_t i = 0; i < g->placeholders.count; i++) {
		first[i] = *arg_item(m, loop_args(m, call), i);
		next[i] = arg_ref(g->placeholders.at[i]);
	}
	for (uint32_t i = 0; i < g->carried.count; i++)
		next[g->carried.at[i].arg] = *arg_item(m, graph_results(m, r->body), g->carried.at[i].output);
}

static void add_result(Module *m, NodeId call, GraphId body, NodeId value) {
	Type tuple = *node_type(m, call);
	uint32_t count = graph_result_count(m, body);
	Arg *items = arena_array(m->arena, (size_t)count + 1, sizeof *items);
	TypeId *types = arena_array(m->arena, (size_t)count + 1, sizeof *types);
	for (uint32_t i = 0; i < count; i++) {
		items[i] = *arg_item(m, graph_results(m, body), i);
		types[i] = tuple.elements[i];
	}
	items[count] = arg_ref(value);
	types[count] = node_get(m, value)->type;
	Arg list = arg_list(m, count + 1, items);
	node_set_args(m, graph_get(m, body)->output, 1, &list);
	node_set_type(m, call, type_tuple(m, count + 1, types));
}

/* The last placeholder is all that is left. */
static void empty_condition(Module *m, GraphId cond) {
	const Graph *g = graph_get(m, cond);
	Arg last = arg_ref(g->placeholders.at[g->placeholders.count - 1]), list = arg_list(m, 1, &last);
	node_set_args(m, g->output, 1, &list);
	for (NodeId n = g->last, prev; n != NONE; n = prev) {
		prev = node_get(m, n)->prev;
		if (node_get(m, n)->op != OP_PLACEHOLDER && node_get(m, n)->op != OP_OUTPUT)
			node_remove(m, n);
	}
}

static bool rotate(PassContext *c, NodeId call) {
	Module *m = c->module;
	Rotation r = {.d = {.c = c, .m = m}, .cond = op_arg(m, call, "cond")->graph, .body = loop_body(m, call)};
	uint32_t count = graph_get(m, r.body)->placeholders.count;
	Arg *first = arena_array(c->arena, (size_t)count + 1, sizeof *first);
	Arg *next = arena_array(c->arena, (size_t)count + 1, sizeof *next);
	r.now = arena_array(c->arena, (size_t)m->nodes.count + 1, sizeof *r.now);
	arguments(&r, call, first, next);
	NodeId go = condition_of(&r, first, call), again = condition_of(&r, next, graph_get(m, r.body)->output);
	graph_add_argument(m, r.body, go, "go");
	Carried carried = {count, graph_result_count(m, r.body)};
	vec_push(m->arena, &graph_get(m, r.body)->carried, carried);
	add_result(m, call, r.body, again);
	empty_condition(m, r.cond);
	pass_remark(c, "whiles", "%s: its condition is computed at the end of each step, and carried",
	            node_get(m, call)->name);
	return !r.d.failed;
}

bool pass_whiles(PassContext *c) {
	Module *m = c->module;
	NodeId known = m->nodes.count;
	for (NodeId n = 0; n < known; n++) {
		if (node_get(m, n)->dead || node_get(m, n)->op != OP_WHILE)
			continue;
		if (while_flag(m, n) == NONE && !calls(m, op_arg(m, n, "cond")->graph) && !rotate(c, n))
			return false;
	}
	return true;
}
