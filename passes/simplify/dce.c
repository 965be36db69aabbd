/* dce.c - removes what no store or atomic depends on.
 *
 * What: unused nodes, and across calls: results that nobody takes, arguments that nobody reads, values that a loop
 * carries only to compute themselves, and calls without effect, with their graphs. Liveness starts at the writes and
 * flows to operands, from a result to the called graph's output, from a placeholder to the call's argument, and around
 * carried pairs; all that it does not reach goes.
 * Why on a TPU: a carried value is a live register, or VMEM, on each step of the loop.
 *
 *     l = for_loop g, [0], [n], [q, z]      l = for_loop g, [0], [n], [q]
 *     a = getitem l, 0               =>     a = getitem l, 0
 *     b = getitem l, 1                      store out, a
 *     store out, a
 */
#include "simplify.h"

typedef struct GraphLiveness {
	bool *output;         /* by output: its value is needed */
	uint32_t *arg_output; /* by argument: the output carried to it; NONE */
	uint32_t *output_arg; /* by output: the argument that it is carried to; NONE */
	bool live;            /* something in it is: its call is needed */
} GraphLiveness;

typedef struct Dce {
	Module *m;
	Arena *arena;
	NodeId known;       /* how many nodes there were: later ones are live */
	bool *live;         /* by NodeId */
	uint32_t *argument; /* by NodeId of a placeholder: its index */
	GraphLiveness *graph;
	VEC(NodeId) work;
	uint32_t nodes, values; /* removed: nodes, arguments and results */
} Dce;

/* ---- liveness ---------------------------------------------------------------------------------------------------- */

static void mark(Dce *d, NodeId n) {
	if (d->live[n])
		return;
	d->live[n] = true;
	vec_push(d->arena, &d->work, n);
}

static bool is_call(uint16_t op) { return op == OP_FOR_LOOP || op == OP_IF || op == OP_WHILE; }

static void demand_argument(Dce *d, GraphId g, uint32_t i) { mark(d, graph_get(d->m, g)->placeholders.at[i]); }

/* Result i of the call node: of the loop's graph, or of both branches. With no iteration at all a carried result is the
 * initial argument. */
static void demand_result(Dce *d, NodeId call, uint32_t i) {
	GraphId graphs[2];
	uint32_t count = call_graphs(d->m, call, graphs);
	for (uint32_t k = 0; k < count; k++) {
		GraphId g = graphs[k];
		if (graph_get(d->m, g)->kind == GRAPH_COND || i >= graph_result_count(d->m, g) || d->graph[g].output[i])
			continue;
		d->graph[g].output[i] = true;
		const Arg *value = arg_item(d->m, graph_results(d->m, g), i);
		if (value->kind == ARG_REF)
			mark(d, value->node);
		if (d->graph[g].output_arg[i] != NONE)
			demand_argument(d, g, d->graph[g].output_arg[i]);
	}
}

static void mark_arg(Dce *d, const Arg *a) {
	if (a->kind == ARG_REF) {
		mark(d, a->node);
		const Type *t = node_type(d->m, a->node);
		for (uint32_t i = 0; is_call(node_get(d->m, a->node)->op) && i < t->count; i++)
			demand_result(d, a->node, i); /* the whole tuple */
	} else if (a->kind == ARG_LIST || a->kind == ARG_SLICE) {
		for (uint32_t i = 0; i < a->list.count; i++)
			mark_arg(d, arg_item(d->m, a, i));
	}
}

static void visit_getitem(Dce *d, NodeId n) {
	NodeId tuple = node_input(d->m, n, 0);
	const Arg *index = node_arg(d->m, n, 1);
	if (tuple == NONE || !is_call(node_get(d->m, tuple)->op) || index->kind != ARG_INT) {
		mark_arg(d, node_arg(d->m, n, 0));
		return;
	}
	mark(d, tuple);
	demand_result(d, tuple, (uint32_t)index->integer);
}

static const char *argument_list(const Module *m, GraphId g) {
	return graph_get(m, g)->kind == GRAPH_ELSE ? "else_args" : "args";
}

/* A placeholder needs the call's argument, the output carried to it, and where a while and its cond share arguments,
 * the other's placeholder. */
static void visit_placeholder(Dce *d, NodeId n) {
	GraphId g = node_get(d->m, n)->graph, graphs[2];
	NodeId call = graph_get(d->m, g)->caller;
	uint32_t i = d->argument[n];
	if (call == NONE || !is_call(node_get(d->m, call)->op))
		return;
	mark_arg(d, arg_item(d->m, op_arg(d->m, call, argument_list(d->m, g)), i));
	if (d->graph[g].arg_output[i] != NONE)
		demand_result(d, call, d->graph[g].arg_output[i]);
	for (uint32_t k = 0, count = call_graphs(d->m, call, graphs); k < count; k++)
		if (node_get(d->m, call)->op == OP_WHILE)
			demand_argument(d, graphs[k], i);
}

/* What a call needs to run at all: bounds, predicate, lengths, the condition; values only as far as they are used. */
static void visit_call(Dce *d, NodeId n) {
	static const char *const names[] = {"begins", "ends", "pred"};
	GraphId graphs[2];
	uint32_t count = call_graphs(d->m, n, graphs);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		mark_arg(d, op_arg(d->m, n, names[i]));
	for (uint32_t k = 0; k < count; k++) {
		if (graph_get(d->m, graphs[k])->lengths != NONE)
			demand_argument(d, graphs[k], graph_get(d->m, graphs[k])->lengths);
		if (graph_get(d->m, graphs[k])->kind == GRAPH_COND)
			mark_arg(d, graph_results(d->m, graphs[k]));
	}
}

/* A combine graph is needed as it is. */
static void visit_combine(Dce *d, NodeId n) {
	GraphId graphs[2];
	for (uint32_t k = 0, count = call_graphs(d->m, n, graphs); k < count; k++) {
		for (uint32_t i = 0; i < graph_get(d->m, graphs[k])->placeholders.count; i++)
			demand_argument(d, graphs[k], i);
		mark_arg(d, graph_results(d->m, graphs[k]));
		memset(d->graph[graphs[k]].output, true, graph_result_count(d->m, graphs[k]));
	}
}

static void visit(Dce *d, NodeId n) {
	const Node *node = node_get(d->m, n);
	GraphLiveness *around = &d->graph[node->graph];
	if (!around->live) {
		around->live = true;
		if (graph_get(d->m, node->graph)->caller != NONE)
			mark(d, graph_get(d->m, node->graph)->caller);
	}
	if (node->op == OP_PLACEHOLDER) {
		visit_placeholder(d, n);
	} else if (node->op == OP_GETITEM) {
		visit_getitem(d, n);
	} else if (is_call(node->op)) {
		visit_call(d, n);
	} else {
		visit_combine(d, n);
		for (uint32_t i = 0; i < node_get(d->m, n)->arg_count; i++)
			mark_arg(d, node_arg(d->m, n, i));
	}
}

static void find_live(Dce *d) {
	for (GraphId g = 0; g < d->m->graphs.count; g++)
		for (NodeId n = graph_first(d->m, g); n != NONE; n = node_get(d->m, n)->next)
			if (op_writes(node_get(d->m, n)->op) || node_get(d->m, n)->op == OP_REMOTE_BARRIER)
				mark(d, n);
	while (d->work.count)
		visit(d, d->work.at[--d->work.count]);
}

static void index_graph(Dce *d, GraphId g) {
	const Graph *graph = graph_get(d->m, g);
	GraphLiveness *l = &d->graph[g];
	uint32_t outputs = graph_result_count(d->m, g), args = graph->placeholders.count;
	l->output = arena_array(d->arena, (size_t)outputs + 1, sizeof *l->output);
	l->output_arg = arena_array(d->arena, (size_t)outputs + 1, sizeof *l->output_arg);
	l->arg_output = arena_array(d->arena, (size_t)args + 1, sizeof *l->arg_output);
	memset(l->output_arg, 0xff, outputs * sizeof *l->output_arg);
	memset(l->arg_output, 0xff, args * sizeof *l->arg_output);
	for (uint32_t i = 0; i < args; i++)
		d->argument[graph->placeholders.at[i]] = i;
	for (uint32_t i = 0; i < graph->carried.count; i++) {
		l->output_arg[graph->carried.at[i].output] = graph->carried.at[i].arg;
		l->arg_output[graph->carried.at[i].arg] = graph->carried.at[i].output;
	}
}

/* ---- removal ----------------------------------------------------------------------------------------------------- */

static bool is_fixed(const Dce *d, NodeId n) {
	uint16_t op = node_get(d->m, n)->op;
	return n >= d->known || d->live[n] || op == OP_OUTPUT || op == OP_PLACEHOLDER;
}

/* Dead nodes let go of their operands; graph arguments stay, to find the graphs below. */
static void release_operands(Dce *d, NodeId n) {
	const Node *node = node_get(d->m, n);
	for (uint32_t i = 0; i < node->arg_count; i++)
		if (node_arg(d->m, n, i)->kind != ARG_GRAPH)
			arg_set(d->m, node->arg_first + i, arg_null());
}

static bool any(const bool *drop, uint32_t count) {
	for (uint32_t i = 0; i < count; i++)
		if (drop[i])
			return true;
	return false;
}

static void drop_outputs(Dce *d, GraphId g) {
	uint32_t count = graph_result_count(d->m, g);
	bool *drop = arena_array(d->arena, (size_t)count + 1, sizeof *drop);
	for (uint32_t i = 0; i < count; i++)
		d->values += drop[i] = !d->graph[g].output[i];
	if (any(drop, count))
		graph_drop_outputs(d->m, g, drop);
}

static void drop_arguments(Dce *d, GraphId g) {
	uint32_t count = graph_get(d->m, g)->placeholders.count;
	bool *drop = arena_array(d->arena, (size_t)count + 1, sizeof *drop);
	for (uint32_t i = 0; i < count; i++)
		d->values += drop[i] = !d->live[graph_get(d->m, g)->placeholders.at[i]];
	if (any(drop, count))
		graph_drop_arguments(d->m, g, drop);
}

/* Results before arguments: a carried pair that goes by its result leaves the placeholder without uses. */
static void shrink_calls(Dce *d) {
	for (GraphId g = 0; g < d->m->graphs.count; g++) {
		const Graph *graph = graph_get(d->m, g);
		bool called =
			graph->caller != NONE && d->live[graph->caller] && is_call(node_get(d->m, graph->caller)->op);
		if (called && graph->kind != GRAPH_COND && graph->kind != GRAPH_ELSE)
			drop_outputs(d, g); /* of the other branch too */
	}
	for (GraphId g = 0; g < d->m->graphs.count; g++) {
		const Graph *graph = graph_get(d->m, g);
		bool called =
			graph->caller != NONE && d->live[graph->caller] && is_call(node_get(d->m, graph->caller)->op);
		if (called && graph->kind != GRAPH_COND)
			drop_arguments(d, g); /* of the condition too */
	}
}

static void drop_graphs(Dce *d) {
	uint32_t count = d->m->graphs.count;
	bool *drop = arena_array(d->arena, (size_t)count + 1, sizeof *drop);
	for (GraphId g = 0; g < count; g++)
		drop[g] = graph_get(d->m, g)->caller != NONE && !d->live[graph_get(d->m, g)->caller];
	if (any(drop, count))
		module_drop_graphs(d->m, drop);
}

static void for_each_dead(Dce *d, void (*visitor)(Dce *, NodeId)) {
	for (GraphId g = 0; g < d->m->graphs.count; g++)
		for (NodeId n = graph_get(d->m, g)->last, prev; n != NONE; n = prev) {
			prev = node_get(d->m, n)->prev;
			if (!is_fixed(d, n))
				visitor(d, n);
		}
}

/* A dead call goes with its graphs. */
static void remove_dead(Dce *d, NodeId n) {
	GraphId graphs[2];
	d->nodes++;
	if (call_graphs(d->m, n, graphs) == 0)
		node_remove(d->m, n);
}

static Dce dce_of(PassContext *c) {
	Module *m = c->module;
	Dce d = {.m = m, .arena = c->arena, .known = m->nodes.count};
	d.live = arena_array(d.arena, (size_t)m->nodes.count + 1, sizeof *d.live);
	d.argument = arena_array(d.arena, (size_t)m->nodes.count + 1, sizeof *d.argument);
	d.graph = arena_array(d.arena, (size_t)m->graphs.count + 1, sizeof *d.graph);
	for (GraphId g = 0; g < m->graphs.count; g++)
		index_graph(&d, g);
	find_live(&d);
	return d;
}

const bool *nodes_live(PassContext *c) { return dce_of(c).live; }

bool pass_dce(PassContext *c) {
	Module *m = c->module;
	Dce d = dce_of(c);
	bounds_keep(c, d.live);
	for_each_dead(&d, release_operands);
	shrink_calls(&d);
	for_each_dead(&d, remove_dead);
	drop_graphs(&d);
	if (!d.nodes && !d.values)
		return true;
	pass_remark(c, "dce", "removed %u nodes, and %u arguments and results of calls", d.nodes, d.values);
	return !m->configured || pass_facts_again(c); /* what is gone no longer says how large a block is */
}
