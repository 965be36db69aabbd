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

typedef struct Dce {
	Module *m;
	Arena *arena;
	Liveness of;
	uint32_t nodes, values; /* removed: nodes, arguments and results */
} Dce;

/* ---- removal ----------------------------------------------------------------------------------------------------- */

static bool is_fixed(const Dce *d, NodeId n) {
	uint16_t op = node_get(d->m, n)->op;
	return n >= d->of.known || d->of.live[n] || op == OP_OUTPUT || op == OP_PLACEHOLDER;
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
		d->values += drop[i] = !d->of.graph[g].output[i];
	if (any(drop, count))
		graph_drop_outputs(d->m, g, drop);
}

static void drop_arguments(Dce *d, GraphId g) {
	uint32_t count = graph_get(d->m, g)->placeholders.count;
	bool *drop = arena_array(d->arena, (size_t)count + 1, sizeof *drop);
	for (uint32_t i = 0; i < count; i++)
		d->values += drop[i] = !d->of.live[graph_get(d->m, g)->placeholders.at[i]];
	if (any(drop, count))
		graph_drop_arguments(d->m, g, drop);
}

/* Results before arguments: a carried pair that goes by its result leaves the placeholder without uses. */
static void shrink_calls(Dce *d) {
	for (GraphId g = 0; g < d->m->graphs.count; g++) {
		const Graph *graph = graph_get(d->m, g);
		bool called = graph->caller != NONE && d->of.live[graph->caller] &&
		              op_is_call(node_get(d->m, graph->caller)->op);
		if (called && graph->kind != GRAPH_COND && graph->kind != GRAPH_ELSE)
			drop_outputs(d, g); /* of the other branch too */
	}
	for (GraphId g = 0; g < d->m->graphs.count; g++) {
		const Graph *graph = graph_get(d->m, g);
		bool called = graph->caller != NONE && d->of.live[graph->caller] &&
		              op_is_call(node_get(d->m, graph->caller)->op);
		if (called && graph->kind != GRAPH_COND)
			drop_arguments(d, g); /* of the condition too */
	}
}

static void drop_graphs(Dce *d) {
	uint32_t count = d->m->graphs.count;
	bool *drop = arena_array(d->arena, (size_t)count + 1, sizeof *drop);
	for (GraphId g = 0; g < count; g++)
		drop[g] = graph_get(d->m, g)->caller != NONE && !d->of.live[graph_get(d->m, g)->caller];
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

bool pass_dce(PassContext *c) {
	Module *m = c->module;
	Dce d = {.m = m, .arena = c->arena, .of = liveness_of(c)};
	bounds_keep(c, d.of.live);
	for_each_dead(&d, release_operands);
	shrink_calls(&d);
	for_each_dead(&d, remove_dead);
	drop_graphs(&d);
	if (!d.nodes && !d.values)
		return true;
	pass_remark(c, "dce", "removed %u nodes, and %u arguments and results of calls", d.nodes, d.values);
	return !m->configured || pass_facts_again(c); /* what is gone no longer says how large a block is */
}
