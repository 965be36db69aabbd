/* inloop_loads.c - sinks loop-invariant loads into the loop that uses them.
 *
 * What: a value passed to a loop as an argument that it does not carry, computed from loads by nothing but cheap
 * arithmetic (with constants), conversions and views, and used by that loop alone, is computed at the start of the
 * loop's body instead. Not where something between the load and the end of the loop writes the tensor or runs a while.
 * Why on a TPU: a tile of Q held across the loop is hundreds of vector registers of which there are 64: it is spilled
 * and filled on each step. In the body it is read from the resident VMEM block where it is needed, for nothing.
 *
 *     q = load q_view[u0, u1, :]                    l = for_loop g, [0], [n], [m]
 *     l = for_loop g, [0], [n], [q, m]      =>
 *     g(q, m):                                      g(m):
 *       s = bmm q, k                                  q = load q_view[u0, u1, :]
 *                                                     s = bmm q, k
 */
#include "effects.h"
#include "pass.h"

#include <stdlib.h>

/* What the walk of a graph notes at each node. */
typedef struct NodeNote {
	uint32_t order;   /* position in its graph */
	uint64_t version; /* of a load: when its tensor was last written */
	uint64_t whiles;  /* the whiles met so far */
} NodeNote;

typedef struct Sink {
	PassContext *c;
	Module *m;
	Arena *arena;
	Effects effects;
	bool duplicate;     /* pallas_inloop_loads is on: also what has other users, computed again in the loop */
	VEC(NodeNote) note; /* by NodeId */
	uint64_t *version;  /* by base TensorId: when it was last written, in the walk of the graph at hand */
	uint64_t now, whiles;
	/* Of the loop at hand: */
	GraphId loop;
	NodeId call;
	const bool *pinned; /* by argument: carried, or the rows' lengths */
	VEC(NodeId) moving; /* what moves into it */
	Map chosen;         /* the members of `moving` */
	Map inner;          /* by node of the graph around: the one in the loop that stands for it */
	Map inner_host;     /* by TensorId: the loop's tile.host_tensor */
	NodeId before;      /* moved nodes are put before this one */
	/* Of the value at hand: */
	VEC(NodeId) chain; /* what would move */
	Map in_chain;
	uint32_t loads;
	const char *why_not;
} Sink;

/* ---- what may move ----------------------------------------------------------------------------------------------- */

static bool refuse(Sink *s, const char *fmt, NodeId n) {
	const char *name = node_get(s->m, n)->name;
	s->why_not = arena_printf(s->arena, "%s '%s'", fmt, name);
	return false;
}

/* Costs nothing to repeat, has no operands that could move: names of tensors and scalars, symbols, queries of tiles
 * that the loop sees as well. */
static bool is_leaf(const Module *m, NodeId n) {
	uint16_t op = node_get(m, n)->op;
	bool query = op_kind(m, n) == KIND_QUERY && node_arg(m, n, 0)->kind != ARG_REF;
	return op == OP_HOST_TENSOR || op == OP_SCALAR || op == OP_SYMNODE || query;
}

/* One pass over the tile at most, without transcendentals. */
static bool is_cheap(uint16_t op) {
	switch (op) {
	case OP_NEW_VAR:
	case OP_CONVERT:
	case OP_TO_COPY:
	case OP_CLONE:
	case OP_NEG:
	case OP_ABS:
	case OP_ADD:
	case OP_ADD_SCALAR:
	case OP_SUB:
	case OP_SUB_SCALAR:
	case OP_MUL:
	case OP_MUL_SCALAR:
	case OP_SUBSCRIPT:
	case OP_PERMUTE:
	case OP_TRANSPOSE:
	case OP_T:
	case OP_MT:
	case OP_VIEW:
	case OP_UNSAFE_VIEW:
	case OP_RESHAPE:
	case OP_SQUEEZE:
	case OP_SQUEEZE_DIM:
	case OP_SQUEEZE_DIMS:
	case OP_UNSQUEEZE: return true;
	default: return false;
	}
}

/* Is `slot` an argument of the call that may be dropped? */
static bool is_free_argument(const Sink *s, ArgId slot) {
	const Arg *list = op_arg(s->m, s->call, "args");
	return arg_get(s->m, slot)->user == s->call && slot >= list->list.first &&
	       slot - list->list.first < list->list.count && !s->pinned[slot - list->list.first];
}

/* Something but the chain, and for the value itself the loop's argument, holds node n alive outside the loop. */
static bool used_elsewhere(const Sink *s, NodeId n, NodeId value) {
	for (ArgId u = node_uses(s->m, n); u != NONE; u = arg_get(s->m, u)->next_use)
		if (map_get(&s->in_chain, arg_get(s->m, u)->user) == NONE && (n != value || !is_free_argument(s, u)))
			return true;
	return false;
}

static bool load_may_move(Sink *s, NodeId n) {
	TensorId base = access_base(s->m, n);
	const NodeNote *note = &s->note.at[n];
	if (base == NONE)
		return refuse(s, "no tensor is known for", n);
	if (op_arg(s->m, n, "extra_mask")->kind != ARG_NULL)
		return refuse(s, "a mask computed outside guards the load", n);
	if (s->version[base] != note->version)
		return refuse(s, "the tensor is written between the loop and the load", n);
	if (graph_writes(&s->effects, s->loop, base))
		return refuse(s, "the loop writes the tensor of the load", n);
	if (s->whiles != note->whiles || s->effects.graph[s->loop].has_while)
		return refuse(s, "a while runs between its use and the load", n);
	return true;
}

static bool collect(Sink *s, NodeId n, uint32_t depth);

static bool collect_operands(Sink *s, const Arg *a, uint32_t depth) {
	if (a->kind == ARG_REF)
		return is_leaf(s->m, a->node) || collect(s, a->node, depth + 1);
	if (a->kind != ARG_LIST && a->kind != ARG_SLICE)
		return true;
	for (uint32_t i = 0; i < a->list.count; i++)
		if (!collect_operands(s, arg_item(s->m, a, i), depth))
			return false;
	return true;
}

enum { CHAIN_DEPTH_MAX = 16 };

/* Adds node n and what it is computed from to the chain; false with a reason if something there cannot move. */
static bool collect(Sink *s, NodeId n, uint32_t depth) {
	uint16_t op = node_get(s->m, n)->op;
	bool is_load = op == OP_LOAD;
	if (map_get(&s->in_chain, n) != NONE)
		return true;
	if (depth > CHAIN_DEPTH_MAX || (!is_load && !is_cheap(op)))
		return refuse(s, "it is computed by", n);
	if (is_load && !load_may_move(s, n))
		return false;
	map_put(s->arena, &s->in_chain, n, 1);
	for (uint32_t i = 0; i < node_get(s->m, n)->arg_count; i++)
		if (!collect_operands(s, node_arg(s->m, n, i), depth))
			return false;
	s->loads += is_load;
	vec_push(s->arena, &s->chain, n);
	return true;
}

/* Finds the chain of `value`, which moves as a whole or not at all. */
static bool plan_chain(Sink *s, NodeId value) {
	s->chain.count = 0;
	s->loads = 0;
	s->in_chain = (Map){0};
	if (is_leaf(s->m, value) || node_type(s->m, value)->kind != TYPE_TENSOR)
		return refuse(s, "it is no load:", value);
	if (!collect(s, value, 0))
		return false;
	if (s->loads == 0)
		return refuse(s, "it is no load:", value);
	for (uint32_t i = 0; i < s->chain.count && !s->duplicate; i++)
		if (used_elsewhere(s, s->chain.at[i], value))
			return refuse(s, "it would be computed twice: the loop is not the only user of",
			              s->chain.at[i]);
	return true;
}

/* ---- moving ------------------------------------------------------------------------------------------------------ */

static NodeId node_copy(Module *m, NodeId n, NodeId before) {
	Node old = *node_get(m, n);
	Arg *args = arena_array(m->arena, (size_t)old.arg_count + 1, sizeof *args);
	for (uint32_t i = 0; i < old.arg_count; i++)
		args[i] = arg_copy(m, *node_arg(m, n, i));
	NodeId copy = node_new(m, node_get(m, before)->graph, old.op, old.name, old.type, old.arg_count, args);
	node_get(m, copy)->loc = old.loc;
	node_insert_before(m, copy, before);
	return copy;
}

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
	uint32_t order;
	NodeId node;
} Ordered;

static int compare_order(const void *a, const void *b) {
	uint32_t x = ((const Ordered *)a)->order, y = ((const Ordered *)b)->order;
	return (x > y) - (x < y);
}

/* Copies what moves to the start of the loop's body, in its original order: as if it had been written there. */
static void copy_inside(Sink *s) {
	uint32_t count = s->moving.count;
	Ordered *sorted = arena_array(s->arena, (size_t)count + 1, sizeof *sorted);
	for (uint32_t i = 0; i < count; i++)
		sorted[i] = (Ordered){s->note.at[s->moving.at[i]].order, s->moving.at[i]};
	qsort(sorted, count, sizeof *sorted, compare_order);
	for (uint32_t i = 0; i < count; i++) {
		NodeId copy = node_copy(s->m, sorted[i].node, s->before);
		map_put(s->arena, &s->inner, sorted[i].node, copy);
		for (uint32_t k = 0; k < node_get(s->m, copy)->arg_count; k++)
			point_inside(s, node_get(s->m, copy)->arg_first + k, copy);
	}
	for (uint32_t i = count; i-- > 0;) { /* the originals, users first */
		NodeId n = sorted[i].node, leaf = node_input(s->m, n, 0);
		if (node_uses(s->m, n) != NONE)
			continue;
		node_remove(s->m, n);
		if (leaf != NONE && is_leaf(s->m, leaf) && node_uses(s->m, leaf) == NONE)
			node_remove(s->m, leaf);
	}
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
	if (moves)
		pass_remark(s->c, "inloop_loads",
		            "'%s' is computed at the start of graph %lld: no register holds it across the loop", name,
		            id);
	else
		pass_remark(s->c, "inloop_loads", "'%s' stays an argument of graph %lld: %s", name, id, s->why_not);
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
		drop[i] = plan_chain(s, value[i]);
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

static void note_node(Sink *s, NodeId n, uint32_t order) {
	TensorId base = node_get(s->m, n)->op == OP_LOAD ? access_base(s->m, n) : NONE;
	while (s->note.count <= n)
		vec_push(s->arena, &s->note, ((NodeNote){0}));
	s->note.at[n] = (NodeNote){order, base == NONE ? 0 : s->version[base], s->whiles};
}

static void note_call(Sink *s, NodeId n, GraphId g) {
	const GraphEffects *e = &s->effects.graph[g];
	for (uint32_t i = 0; i < e->written.count; i++)
		s->version[e->written.at[i]] = ++s->now;
	s->whiles += e->has_while || node_get(s->m, n)->op == OP_WHILE;
}

typedef VEC(GraphId) GraphList;

static void walk_graph(Sink *s, GraphId g, GraphList *below) {
	uint32_t order = 0;
	for (NodeId n = graph_first(s->m, g), next; n != NONE; n = next) {
		GraphId graphs[2];
		uint32_t count = call_graphs(s->m, n, graphs);
		next = node_get(s->m, n)->next;
		note_node(s, n, order++);
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
	Sink s = {.c = c, .m = m, .arena = c->arena, .duplicate = m->config.inloop_loads.value == CHOICE_ON};
	if (m->config.inloop_loads.value == CHOICE_OFF) {
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
