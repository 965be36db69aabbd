/* effects.c - which host tensors each graph writes. */
#include "facts.h"

TensorId access_base(const Module *m, NodeId n) {
	TensorId t = access_tensor(m, n);
	return t == NONE ? NONE : tensor_base(m, t);
}

uint32_t call_graphs(const Module *m, NodeId n, GraphId graphs[2]) {
	uint32_t count = 0;
	if (!op_may_call(m, n))
		return 0;
	for (uint32_t i = 0; i < node_get(m, n)->arg_count && count < 2; i++)
		if (node_arg(m, n, i)->kind == ARG_GRAPH)
			graphs[count++] = node_arg(m, n, i)->graph;
	return count;
}

static uint64_t write_key(GraphId g, TensorId base) { return (uint64_t)g << 32 | base; }

/* Stops at a graph that knows already: so do all around it. */
static void note_write(Arena *a, Effects *e, const Module *m, GraphId g, TensorId base) {
	for (; g != NONE && map_get(&e->writes, write_key(g, base)) == NONE; g = graph_parent(m, g)) {
		map_put(a, &e->writes, write_key(g, base), 1);
		vec_push(a, &e->graph[g].written, base);
	}
}

Effects effects_of(Arena *a, const Module *m) {
	Effects e = {.graph = arena_array(a, (size_t)m->graphs.count + 1, sizeof *e.graph)};
	for (GraphId g = 0; g < m->graphs.count; g++) {
		for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next) {
			uint16_t op = node_get(m, n)->op;
			if (op_writes(op) && access_base(m, n) != NONE)
				note_write(a, &e, m, g, access_base(m, n));
			for (GraphId at = g; op == OP_WHILE && at != NONE && !e.graph[at].has_while;
			     at = graph_parent(m, at))
				e.graph[at].has_while = true;
		}
	}
	return e;
}

bool tensor_is_written(const Module *m, TensorId base) {
	for (NodeId n = 0; n < m->nodes.count; n++)
		if (!node_get(m, n)->dead && op_writes(node_get(m, n)->op) && access_base(m, n) == base)
			return true;
	return false;
}

bool graph_writes(const Effects *e, GraphId g, TensorId base) {
	return map_get(&e->writes, write_key(g, base)) != NONE;
}
