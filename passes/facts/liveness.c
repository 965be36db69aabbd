/* liveness.c - what some write depends on.
 *
 * Liveness starts at the writes and flows to operands, from a result to the called graph's output, from a placeholder
 * to the call's argument, and around carried pairs. */
#include "facts.h"

typedef struct Finder {
	Module *m;
	Arena *arena;
	Liveness of;
	uint32_t *argument; /* by NodeId of a placeholder: its index */
	VEC(NodeId) work;
} Finder;

static void mark(Finder *d, NodeId n) {
	if (d->of.live[n])
		return;
	d->of.live[n] = true;
	vec_push(d->arena, &d->work, n);
}

static void demand_argument(Finder *d, GraphId g, uint32_t i) { mark(d, graph_get(d->m, g)->placeholders.at[i]); }

/* Result i of the call node: of the loop's graph, or of both branches. With no iteration at all a carried result is the
 * initial argument. */
static void demand_result(Finder *d, NodeId call, uint32_t i) {
	GraphId graphs[2];
	uint32_t count = call_graphs(d->m, call, graphs);
	for (uint32_t k = 0; k < count; k++) {
		GraphId g = graphs[k];
		if (graph_get(d->m, g)->kind == GRAPH_COND || i >= graph_result_count(d->m, g) ||
		    d->of.graph[g].output[i])
			continue;
		d->of.graph[g].output[i] = true;
		const Arg *value = arg_item(d->m, graph_results(d->m, g), i);
		if (value->kind == ARG_REF)
			mark(d, value->node);
		if (d->of.graph[g].output_arg[i] != NONE)
			demand_argument(d, g, d->of.graph[g].output_arg[i]);
	}
}

static void mark_arg(Finder *d, const Arg *a) {
	if (a->kind == ARG_REF) {
		mark(d, a->node);
		const Type *t = node_type(d->m, a->node);
		for (uint32_t i = 0; op_is_call(node_get(d->m, a->node)->op) && i < t->count; i++)
			demand_result(d, a->node, i); /* the whole tuple */
	} else if (a->kind == ARG_LIST || a->kind == ARG_SLICE) {
		for (uint32_t i = 0; i < a->list.count; i++)
			mark_arg(d, arg_item(d->m, a, i));
	}
}

static void visit_getitem(Finder *d, NodeId n) {
	NodeId tuple = node_input(d->m, n, 0);
	const Arg *index = node_arg(d->m, n, 1);
	if (tuple == NONE || !op_is_call(node_get(d->m, tuple)->op) || index->kind != ARG_INT) {
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
static void visit_placeholder(Finder *d, NodeId n) {
	GraphId g = node_get(d->m, n)->graph, graphs[2];
	NodeId call = graph_get(d->m, g)->caller;
	uint32_t i = d->argument[n];
	if (call == NONE || !op_is_call(node_get(d->m, call)->op))
		return;
	mark_arg(d, arg_item(d->m, op_arg(d->m, call, argument_list(d->m, g)), i));
	if (d->of.graph[g].arg_output[i] != NONE)
		demand_result(d, call, d->of.graph[g].arg_output[i]);
	for (uint32_t k = 0, count = call_graphs(d->m, call, graphs); k < count; k++)
		if (node_get(d->m, call)->op == OP_WHILE)
			demand_argument(d, graphs[k], i);
}

/* What a call needs to run at all: bounds, predicate, lengths, the condition; values only as far as they are used. */
static void visit_call(Finder *d, NodeId n) {
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
static void visit_combine(Finder *d, NodeId n) {
	GraphId graphs[2];
	for (uint32_t k = 0, count = call_graphs(d->m, n, graphs); k < count; k++) {
		for (uint32_t i = 0; i < graph_get(d->m, graphs[k])->placeholders.count; i++)
			demand_argument(d, graphs[k], i);
		mark_arg(d, graph_results(d->m, graphs[k]));
		memset(d->of.graph[graphs[k]].output, true, graph_result_count(d->m, graphs[k]));
	}
}

static void visit(Finder *d, NodeId n) {
	const Node *node = node_get(d->m, n);
	GraphLiveness *around = &d->of.graph[node->graph];
	if (!around->live) {
		around->live = true;
		if (graph_get(d->m, node->graph)->caller != NONE)
			mark(d, graph_get(d->m, node->graph)->caller);
	}
	if (node->op == OP_PLACEHOLDER) {
		visit_placeholder(d, n);
	} else if (node->op == OP_GETITEM) {
		visit_getitem(d, n);
	} else if (op_is_call(node->op)) {
		visit_call(d, n);
	} else {
		visit_combine(d, n);
		for (uint32_t i = 0; i < node_get(d->m, n)->arg_count; i++)
			mark_arg(d, node_arg(d->m, n, i));
	}
}

static void find_live(Finder *d) {
	for (GraphId g = 0; g < d->m->graphs.count; g++)
		for (NodeId n = graph_first(d->m, g); n != NONE; n = node_get(d->m, n)->next)
			if (op_writes(node_get(d->m, n)->op) || node_get(d->m, n)->op == OP_REMOTE_BARRIER)
				mark(d, n);
	while (d->work.count)
		visit(d, d->work.at[--d->work.count]);
}

static void index_graph(Finder *d, GraphId g) {
	const Graph *graph = graph_get(d->m, g);
	GraphLiveness *l = &d->of.graph[g];
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

Liveness liveness_of(PassContext *c) {
	Module *m = c->module;
	Finder d = {.m = m, .arena = c->arena, .of = {.known = m->nodes.count}};
	d.of.live = arena_array(d.arena, (size_t)m->nodes.count + 1, sizeof *d.of.live);
	d.argument = arena_array(d.arena, (size_t)m->nodes.count + 1, sizeof *d.argument);
	d.of.graph = arena_array(d.arena, (size_t)m->graphs.count + 1, sizeof *d.of.graph);
	for (GraphId g = 0; g < m->graphs.count; g++)
		index_graph(&d, g);
	find_live(&d);
	return d.of;
}
