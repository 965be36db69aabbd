/* ir_new.c - what passes add to a Module: tensors, blocks, graphs and copies of nodes. */
#include "ir.h"

/* `name`, or name_1, name_2, ...: the first that the map does not have. */
static const char *name_fresh(Module *m, const Map *map, const char *name) {
	const char *fresh = string_intern(m->arena, &m->strings, name);
	for (uint32_t i = 1; map_get(map, map_key(fresh)) != NONE; i++)
		fresh = string_intern(m->arena, &m->strings, arena_printf(m->arena, "%s_%u", name, i));
	return fresh;
}

TensorId tensor_new(Module *m, const char *name, Tensor t) {
	/* Tensors and scalars share one namespace. */
	t.name = name_fresh(m, &m->tensor_names, name);
	while (map_get(&m->scalar_names, map_key(t.name)) != NONE)
		t.name = name_fresh(m, &m->tensor_names, arena_printf(m->arena, "%s_", t.name));
	TensorId id = m->tensors.count;
	vec_push(m->arena, &m->tensors, t);
	map_put(m->arena, &m->tensor_names, map_key(t.name), id);
	return id;
}

ScalarId scalar_new(Module *m, const char *name, Scalar s) {
	s.name = name_fresh(m, &m->scalar_names, name);
	while (map_get(&m->tensor_names, map_key(s.name)) != NONE)
		s.name = name_fresh(m, &m->scalar_names, arena_printf(m->arena, "%s_", s.name));
	ScalarId id = m->scalars.count;
	vec_push(m->arena, &m->scalars, s);
	map_put(m->arena, &m->scalar_names, map_key(s.name), id);
	return id;
}

BlockId block_new(Module *m, const char *name, ExprId size) {
	Block b = {.begin = expr_int(m, 0), .extent = NONE, .size = size};
	BlockId id = m->blocks.count;
	b.name = string_intern(m->arena, &m->strings, name);
	b.symbol = name_fresh(m, &m->symbols, arena_printf(m->arena, "u%u", id));
	vec_push(m->arena, &m->blocks, b);
	map_put(m->arena, &m->symbols, map_key(b.symbol), id);
	return id;
}

GraphId graph_new(Module *m, GraphKind kind, BlockId block) {
	Graph g = {.kind = kind,
	           .origin = NONE,
	           .lengths = NONE,
	           .first = NONE,
	           .last = NONE,
	           .output = NONE,
	           .caller = NONE};
	GraphId index = m->graphs.count;
	for (GraphId i = 0; i < index; i++)
		g.id = int_max(g.id, graph_get(m, i)->id + 1);
	vec_push(m->arena, &g.blocks, block);
	vec_push(m->arena, &m->graphs, g);
	map_put(m->arena, &m->graph_ids, (uint64_t)g.id, index);
	Arg none = arg_list(m, 0, NULL);
	NodeId output = node_new(m, index, OP_OUTPUT, "output", type_none(m), 1, &none);
	graph_get(m, index)->output = output;
	node_append(m, output);
	return index;
}

NodeId node_derive(Module *m, uint16_t op, NodeId x, const char *suffix, TypeId type, uint32_t count, const Arg *args,
                   NodeId before) {
	const char *name = arena_printf(m->arena, "%s_%s", node_get(m, x)->name, suffix);
	NodeId n = node_new(m, node_get(m, before)->graph, op, name, type, count, args);
	node_get(m, n)->loc = node_get(m, before)->loc;
	node_insert_before(m, n, before);
	return n;
}

NodeId node_copy(Module *m, NodeId n, NodeId before) {
	Node old = *node_get(m, n);
	Arg *args = arena_array(m->arena, (size_t)old.arg_count + 1, sizeof *args);
	for (uint32_t i = 0; i < old.arg_count; i++)
		args[i] = arg_copy(m, *node_arg(m, n, i));
	NodeId copy = node_new(m, node_get(m, before)->graph, old.op, old.name, old.type, old.arg_count, args);
	node_get(m, copy)->loc = old.loc;
	node_insert_before(m, copy, before);
	return copy;
}
