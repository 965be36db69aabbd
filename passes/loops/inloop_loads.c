/* inloop_loads.c - sinks loop-invariant loads into the loops that use them.
 *
 * What: a value passed to a loop as an argument that it does not carry, and computed from loads alone, is computed at
 * the start of the loop's body instead; inloop_chain.c says when. What else uses the load reads it again: a later loop
 * has a load of its own, and what comes after the loop has the original, moved behind it. Why on a TPU: a tile of Q
 * kept across the loop is hundreds of vector registers of which there are 64: it is spilled and filled on each step. In
 * the body it is read from the resident VMEM block where it is needed, for nothing.
 *
 *     q = load q_view[u0, u1, :]                    l = for_loop g, [0], [n], [m]
 *     l = for_loop g, [0], [n], [q, m]      =>
 *     g(q, m):                                      g(m):
 *       s = bmm q, k                                  q = load q_view[u0, u1, :]
 *                                                     s = bmm q, k
 */
#include "inloop.h"
#include "loops.h"

#include <stdlib.h>

/* ---- moving ------------------------------------------------------------------------------------------------------ */

static void find_inner_hosts(Sink *s) {
	s->inner_host = (Map){0};
	for (NodeId n = graph_first(s->m, s->loop); n != NONE; n = node_get(s->m, n)->next) {
		uint16_t op = node_get(s->m, n)->op;
		if (op == OP_HOST_TENSOR && map_get(&s->inner_host, node_arg(s->m, n, 0)->tensor) == NONE)
			map_put(s->arena, &s->inner_host, node_arg(s->m, n, 0)->tensor, n);
	}
}

/* A leaf is copied when it is first wanted; a tensor that the loop names already is named earlier instead. */
static NodeId inner_leaf(Sink *s, NodeId n, NodeId user) {
	bool host = node_get(s->m, n)->op == OP_HOST_TENSOR;
	NodeId found = host ? map_get(&s->inner_host, node_arg(s->m, n, 0)->tensor) : NONE;
	if (found == NONE)
		return node_copy(s->m, n, user);
	if (found == s->before)
		s->before = node_get(s->m, found)->next;
	node_move_before(s->m, found, user);
	map_put(s->arena, &s->inner_host, node_arg(s->m, n, 0)->tensor, NONE); /* it stands early enough from now on */
	return found;
}

static NodeId inner_node(Sink *s, NodeId n, NodeId user) {
	NodeId found = map_get(&s->inner, n);
	if (found == NONE) {
		found = inner_leaf(s, n, user);
		map_put(s->arena, &s->inner, n, found);
	}
	return found;
}

static void point_inside(Sink *s, ArgId slot, NodeId user) {
	Arg a = *arg_get(s->m, slot);
	if (a.kind == ARG_REF)
		arg_set_ref(s->m, slot, inner_node(s, a.node, user));
	for (uint32_t i = 0; (a.kind == ARG_LIST || a.kind == ARG_SLICE) && i < a.list.count; i++)
		point_inside(s, a.list.first + i, user);
}

typedef struct Ordered {
	uint64_t order; /* position, then place in `moving` */
	NodeId node;
} Ordered;

static int compare_order(const void *a, const void *b) {
	uint64_t x = ((const Ordered *)a)->order, y = ((const Ordered *)b)->order;
	return (x > y) - (x < y);
}

/* All that still uses node n stands behind the loop: n can be computed there, and nothing holds it across. */
static bool only_used_later(const Sink *s, NodeId n) {
	for (ArgId u = node_uses(s->m, n); u != NONE; u = arg_get(s->m, u)->next_use) {
		NodeId user = arg_get(s->m, u)->user;
		if (user == s->call || s->note.at[user].order < s->note.at[s->call].order)
			return false;
	}
	return true;
}

/* The originals, users first: each goes if nothing uses it any more, or behind the loop if only that does. */
static void settle_originals(Sink *s, const Ordered *sorted) {
	for (uint32_t i = s->moving.count; i-- > 0;) {
		NodeId n = sorted[i].node, leaf = node_input(s->m, n, 0);
		if (node_uses(s->m, n) != NONE && only_used_later(s, n)) {
			node_move_before(s->m, n, node_get(s->m, s->call)->next);
			s->note.at[n].order = s->note.at[s->call].order;
		}
		if (node_uses(s->m, n) != NONE)
			continue;
		node_remove(s->m, n);
		if (leaf != NONE && inloop_is_leaf(s->m, leaf) && node_uses(s->m, leaf) == NONE)
			node_remove(s->m, leaf);
	}
}

/* Copies what moves to the start of the loop's body, in its original order: as if it had been written there. */
static void copy_inside(Sink *s) {
	uint32_t count = s->moving.count;
	Ordered *sorted = arena_array(s->arena, (size_t)count + 1, sizeof *sorted);
	for (uint32_t i = 0; i < count; i++)
		sorted[i] = (Ordered){(uint64_t)s->note.at[s->moving.at[i]].order << 32 | i, s->moving.at[i]};
	qsort(sorted, count, sizeof *sorted, compare_order);
	for (uint32_t i = 0; i < count; i++) {
		NodeId copy = node_copy(s->m, sorted[i].node, s->before);
		map_put(s->arena, &s->inner, sorted[i].node, copy);
		for (uint32_t k = 0; k < node_get(s->m, copy)->arg_count; k++)
			point_inside(s, node_get(s->m, copy)->arg_first + k, copy);
	}
	settle_originals(s, sorted);
}

/* A use of a placeholder that gives way. */
typedef struct Inward {
	ArgId slot;
	NodeId value; /* in the graph around */
} Inward;
typedef VEC(Inward) InwardList;

/* The placeholders go before the copies come, which then may have their names. Meanwhile their users refer outwards. */
static void sink_arguments(Sink *s, const bool *drop, const NodeId *value) {
	const Graph *graph = graph_get(s->m, s->loop);
	InwardList inward = {0};
	for (uint32_t i = 0; i < graph->placeholders.count; i++) {
		NodeId p = graph->placeholders.at[i];
		for (ArgId u = node_uses(s->m, p); drop[i] && u != NONE; u = arg_get(s->m, u)->next_use)
			vec_push(s->arena, &inward, ((Inward){u, value[i]}));
		if (drop[i])
			node_replace_uses(s->m, p, value[i], NONE);
	}
	graph_drop_arguments(s->m, s->loop, drop);
	s->before = graph_first(s->m, s->loop);
	while (node_get(s->m, s->before)->op == OP_PLACEHOLDER)
		s->before = node_get(s->m, s->before)->next;
	for (uint32_t i = 0; i < inward.count; i++) /* else the originals would look used */
		arg_set(s->m, inward.at[i].slot, arg_null());
	copy_inside(s);
	for (uint32_t i = 0; i < inward.count; i++)
		arg_set_ref(s->m, inward.at[i].slot, map_get(&s->inner, inward.at[i].value));
}

/* ---- one loop ---------------------------------------------------------------------------------------------------- */

static const bool *pinned_arguments(Sink *s, GraphId g) {
	const Graph *graph = graph_get(s->m, g);
	bool *pinned = arena_array(s->arena, (size_t)graph->placeholders.count + 1, sizeof *pinned);
	for (uint32_t i = 0; i < graph->carried.count; i++)
		pinned[graph->carried.at[i].arg] = true;
	if (graph->lengths != NONE)
		pinned[graph->lengths] = true;
	return pinned;
}

static void choose_chain(Sink *s) {
	for (uint32_t i = 0; i < s->chain.count; i++) {
		NodeId n = s->chain.at[i];
		if (map_get(&s->chosen, n) != NONE)
			continue;
		map_put(s->arena, &s->chosen, n, 1);
		vec_push(s->arena, &s->moving, n);
	}
}

static void explain(Sink *s, uint32_t i, bool moves) {
	const char *name = node_get(s->m, graph_get(s->m, s->loop)->placeholders.at[i])->name;
	long long id = graph_get(s->m, s->loop)->id;
	pass_remark(s->c, "inloop_loads",
	            moves ? "'%s' is read at the start of graph %lld: %s" : "'%s' stays an argument of graph %lld: %s",
	            name, id, s->why);
}

static void sink_into(Sink *s, NodeId call, GraphId g) {
	uint32_t count = graph_get(s->m, g)->placeholders.count;
	bool *drop = arena_array(s->arena, (size_t)count + 1, sizeof *drop);
	NodeId *value = arena_array(s->arena, (size_t)count + 1, sizeof *value);
	s->loop = g;
	s->call = call;
	s->pinned = pinned_arguments(s, g);
	s->moving.count = 0;
	s->chosen = s->inner = (Map){0};
	for (uint32_t i = 0; i < count; i++) {
		const Arg *a = arg_item(s->m, op_arg(s->m, call, "args"), i);
		if (s->pinned[i] || a->kind != ARG_REF)
			continue;
		value[i] = a->node;
		drop[i] = inloop_plan_chain(s, value[i]);
		explain(s, i, drop[i]);
		if (drop[i])
			choose_chain(s);
	}
	if (s->moving.count == 0)
		return;
	find_inner_hosts(s);
	sink_arguments(s, drop, value);
}

/* ---- the walk ---------------------------------------------------------------------------------------------------- */

static void number_nodes(Sink *s, GraphId g) {
	uint32_t order = 0;
	for (NodeId n = graph_first(s->m, g); n != NONE; n = node_get(s->m, n)->next) {
		while (s->note.count <= n)
			vec_push(s->arena, &s->note, ((NodeNote){0}));
		s->note.at[n].order = order++;
	}
}

static void note_node(Sink *s, NodeId n) {
	TensorId base = node_get(s->m, n)->op == OP_LOAD ? access_base(s->m, n) : NONE;
	s->note.at[n].version = base == NONE ? 0 : s->version[base];
	s->note.at[n].whiles = s->whiles;
}

static void note_call(Sink *s, NodeId n, GraphId g) {
	const GraphEffects *e = &s->effects.graph[g];
	for (uint32_t i = 0; i < e->written.count; i++)
		s->version[e->written.at[i]] = ++s->now;
	s->whiles += e->has_while || node_get(s->m, n)->op == OP_WHILE;
}

typedef VEC(GraphId) GraphList;

static void walk_graph(Sink *s, GraphId g, GraphList *below) {
	number_nodes(s, g);
	for (NodeId n = graph_first(s->m, g), next; n != NONE; n = next) {
		GraphId graphs[2];
		uint32_t count = call_graphs(s->m, n, graphs);
		next = node_get(s->m, n)->next;
		note_node(s, n);
		if (op_writes(node_get(s->m, n)->op) && access_base(s->m, n) != NONE)
			s->version[access_base(s->m, n)] = ++s->now;
		if (node_get(s->m, n)->op == OP_FOR_LOOP)
			sink_into(s, n, graphs[0]);
		for (uint32_t i = 0; i < count; i++) {
			note_call(s, n, graphs[i]);
			vec_push(s->arena, below, graphs[i]);
		}
	}
}

bool pass_inloop_loads(PassContext *c) {
	Module *m = c->module;
	Sink s = {.c = c, .m = m, .arena = c->arena, .always = m->config.inloop_loads.value == SWITCH_ON};
	if (m->config.inloop_loads.value == SWITCH_OFF) {
		pass_remark(c, "inloop_loads", "pallas_inloop_loads is off");
		return true;
	}
	s.effects = effects_of(s.arena, m);
	s.version = arena_array(s.arena, (size_t)m->tensors.count + 1, sizeof *s.version);
	GraphList graphs = {0};
	for (GraphId g = 0; g < m->graphs.count; g++)
		if (graph_get(m, g)->kind == GRAPH_ROOT)
			vec_push(s.arena, &graphs, g);
	for (uint32_t i = 0; i < graphs.count; i++) /* graphs before those they call: a load may sink on */
		walk_graph(&s, graphs.at[i], &graphs);
	return true;
}
