/* ir_clone.c - a deep copy of a Module: every array is copied, interned strings and tuple elements are shared. */
#include "ir.h"

static void *copy_array(Arena *a, const void *at, size_t count, size_t size) {
	return count ? arena_copy(a, at, count, size) : NULL;
}

/* The vector gets storage of its own in arena `a`, with no spare room. */
#define OWN(a, v) ((v)->at = copy_array((a), (v)->at, (v)->count, sizeof *(v)->at), (v)->room = (v)->count)

/* The same, with room for a quarter more: what passes add to. */
static void *copy_with_room(Arena *a, const void *at, uint32_t count, size_t size, uint32_t *room) {
	uint32_t none = 0;
	void *copy = vec_grow(a, NULL, &none, 0, count + count / 4 + 8, size);
	*room = none;
	return count ? memcpy(copy, at, count * size) : copy;
}
#define OWN_GROWING(a, v) ((v)->at = copy_with_room((a), (v)->at, (v)->count, sizeof *(v)->at, &(v)->room))

static void own_steps(Arena *a, HostStep **steps, uint32_t count) {
	*steps = copy_array(a, *steps, count, sizeof **steps);
}

static void own_orders(Arena *a, ConfigOrders *orders) {
	OWN(a, &orders->values);
	for (uint32_t i = 0; i < orders->values.count; i++)
		OWN(a, &orders->values.at[i].values);
}

static void own_config(Arena *a, Config *c) {
	for (const KeyRow *row = key_rows; row < key_rows + KEY_COUNT; row++) {
		if (key_is_list(row))
			OWN(a, &((ConfigList *)key_field(row, c))->values);
		else if (row->kind == KEY_ORDERS)
			own_orders(a, key_field(row, c));
	}
	OWN(a, &c->tunables);
	OWN(a, &c->tunables_given);
}

static void own_tables(Arena *a, Module *m) {
	OWN(a, &m->sizes);
	OWN(a, &m->by_size);
	OWN(a, &m->tensors);
	for (uint32_t i = 0; i < m->tensors.count; i++)
		own_steps(a, &m->tensors.at[i].steps, m->tensors.at[i].step_count);
	OWN(a, &m->returns);
	for (uint32_t i = 0; i < m->returns.count; i++)
		own_steps(a, &m->returns.at[i].steps, m->returns.at[i].step_count);
	OWN(a, &m->tunables);
	for (uint32_t i = 0; i < m->tunables.count; i++)
		OWN(a, &m->tunables.at[i].choices);
	OWN(a, &m->scalars);
	OWN(a, &m->blocks);
	OWN(a, &m->block_size);
	OWN(a, &m->narrowed);
	OWN(a, &m->enlarged);
	OWN(a, &m->element_limits);
	OWN(a, &m->indirect);
	OWN(a, &m->given_limits);
}

static void own_graphs(Arena *a, Module *m) {
	OWN(a, &m->graphs);
	for (uint32_t i = 0; i < m->graphs.count; i++) {
		Graph *g = &m->graphs.at[i];
		OWN(a, &g->blocks);
		OWN(a, &g->carried);
		OWN(a, &g->placeholders);
		g->names = map_clone(a, &g->names);
	}
	OWN_GROWING(a, &m->nodes);
	OWN_GROWING(a, &m->args);
	OWN_GROWING(a, &m->types);
	OWN_GROWING(a, &m->exprs);
}

static void own_indices(Arena *a, Module *m) {
	m->strings.slot = copy_array(a, m->strings.slot, m->strings.room, sizeof *m->strings.slot);
	m->type_table.slot = copy_array(a, m->type_table.slot, m->type_table.room, sizeof(uint32_t));
	m->expr_table.slot = copy_array(a, m->expr_table.slot, m->expr_table.room, sizeof(uint32_t));
	m->tensor_names = map_clone(a, &m->tensor_names);
	m->scalar_names = map_clone(a, &m->scalar_names);
	m->symbols = map_clone(a, &m->symbols);
	m->graph_ids = map_clone(a, &m->graph_ids);
	if (m->alignments)
		m->alignments = copy_array(a, m->alignments, m->tensors.count, sizeof *m->alignments);
	if (m->loop_facts)
		m->loop_facts = copy_array(a, m->loop_facts, m->graphs.count, sizeof *m->loop_facts);
	if (m->given_loop_facts)
		m->given_loop_facts = copy_array(a, m->given_loop_facts, m->graphs.count, sizeof *m->given_loop_facts);
}

Module *module_clone(const Module *m, Arena *a) {
	Module *copy = arena_alloc(a, sizeof *copy);
	*copy = *m;
	copy->arena = a;
	own_tables(a, copy);
	own_graphs(a, copy);
	own_indices(a, copy);
	own_config(a, &copy->config);
	return copy;
}
