/* cse.c - one node for equal pure nodes of a graph.
 *
 * What: nodes of one op with equal arguments and type become one, the first; loads too, as long as nothing between them
 * writes their tensor (through any view of it), so that each version of a tensor is read once.
 * Why on a TPU: a tile of [512, 2048] float32 is 1024 vector registers' worth of work per op, and a second load of a
 * tile is a second window in VMEM or a second DMA.
 *
 *     a = load x[u0]                    a = load x[u0]
 *     b = load x[u0]           =>       c = mul a, a
 *     c = mul a, b                      store out[u0], c
 *     store out[u0], c
 */
#include "simplify.h"

typedef struct Cse {
	Module *m;
	Arena *arena;
	Effects effects;
	uint64_t *version; /* by base TensorId: when it was last written; graphs do not share loads, so it is never
	                      reset */
	uint64_t now;
	struct CseSlot {
		NodeId node;
		uint64_t hash, version;
	} * slot; /* open addressing over the nodes of one graph */
	uint32_t mask;
	uint32_t merged;
} Cse;

/* ---- hashing and equality ---------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, uint64_t x) {
	h = (h ^ x) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}

static uint64_t real_bits(double x) {
	uint64_t bits;
	memcpy(&bits, &x, sizeof bits);
	return bits;
}

/* An argument that holds no others, as 64 bits. */
static uint64_t atom_bits(const Arg *a) {
	switch (a->kind) {
	case ARG_BOOL: return a->boolean;
	case ARG_INT: return (uint64_t)a->integer;
	case ARG_FLOAT: return real_bits(a->real);
	case ARG_STRING: return strlen(a->string);
	case ARG_DTYPE: return (uint64_t)a->dtype;
	case ARG_REF: return a->node;
	case ARG_SYM: return a->expr;
	case ARG_TENSOR: return a->tensor;
	case ARG_SCALAR: return a->scalar;
	case ARG_GRAPH: return a->graph;
	case ARG_BLOCK: return a->block;
	case ARG_NULL:
	case ARG_LIST:
	case ARG_SLICE: break;
	}
	return 0;
}

static bool is_nested(const Arg *a) { return a->kind == ARG_LIST || a->kind == ARG_SLICE; }

static uint64_t arg_hash(const Module *m, const Arg *a, uint64_t h) {
	h = mix(h, (uint64_t)a->kind);
	if (!is_nested(a))
		return mix(h, atom_bits(a));
	h = mix(h, a->list.count);
	for (uint32_t i = 0; i < a->list.count; i++)
		h = arg_hash(m, arg_item(m, a, i), h);
	return h;
}

static bool arg_same(const Module *m, const Arg *a, const Arg *b) {
	if (a->kind != b->kind)
		return false;
	if (a->kind == ARG_STRING)
		return strcmp(a->string, b->string) == 0;
	if (!is_nested(a))
		return atom_bits(a) == atom_bits(b); /* bits: 0.0 and -0.0 differ, a NaN is itself */
	if (a->list.count != b->list.count)
		return false;
	for (uint32_t i = 0; i < a->list.count; i++)
		if (!arg_same(m, arg_item(m, a, i), arg_item(m, b, i)))
			return false;
	return true;
}

static bool node_same(const Module *m, NodeId x, NodeId y) {
	const Node *a = node_get(m, x), *b = node_get(m, y);
	if (a->op != b->op || a->type != b->type || a->arg_count != b->arg_count)
		return false;
	for (uint32_t i = 0; i < a->arg_count; i++)
		if (!arg_same(m, node_arg(m, x, i), node_arg(m, y, i)))
			return false;
	return true;
}

/* ---- the walk ---------------------------------------------------------------------------------------------------- */

static bool is_pure(const Cse *c, NodeId n) {
	uint16_t op = node_get(c->m, n)->op;
	GraphId graphs[2];
	return !op_has_effect(op) && call_graphs(c->m, n, graphs) == 0;
}

/* A load is equal only to one that sees the same version of its tensor. */
static uint64_t node_version(const Cse *c, NodeId n) {
	TensorId base = node_get(c->m, n)->op == OP_LOAD ? access_base(c->m, n) : NONE;
	return base == NONE ? 0 : c->version[base];
}

static uint64_t node_hash(const Cse *c, NodeId n) {
	const Node *node = node_get(c->m, n);
	uint64_t h = mix(node->op, node->type);
	for (uint32_t i = 0; i < node->arg_count; i++)
		h = arg_hash(c->m, node_arg(c->m, n, i), h);
	return h;
}

/* The earlier node equal to n, else n, which is remembered. */
static NodeId intern_node(Cse *c, NodeId n) {
	uint64_t version = node_version(c, n), hash = mix(node_hash(c, n), version);
	uint32_t i = (uint32_t)(hash >> 32) & c->mask;
	for (; c->slot[i].node != NONE; i = (i + 1) & c->mask)
		if (c->slot[i].hash == hash && c->slot[i].version == version && node_same(c->m, c->slot[i].node, n))
			return c->slot[i].node;
	c->slot[i] = (struct CseSlot){n, hash, version};
	return n;
}

static void note_writes(Cse *c, NodeId n) {
	GraphId graphs[2];
	uint32_t count = call_graphs(c->m, n, graphs);
	if (op_writes(node_get(c->m, n)->op) && access_base(c->m, n) != NONE)
		c->version[access_base(c->m, n)] = ++c->now;
	for (uint32_t g = 0; g < count; g++) {
		const GraphEffects *e = &c->effects.graph[graphs[g]];
		for (uint32_t i = 0; i < e->written.count; i++)
			c->version[e->written.at[i]] = ++c->now;
	}
}

static void table_clear(Cse *c, GraphId g) {
	uint32_t nodes = 0, room = 16;
	for (NodeId n = graph_first(c->m, g); n != NONE; n = node_get(c->m, n)->next)
		nodes++;
	while (room / 2 <= nodes)
		room *= 2;
	if (c->mask + 1 < room)
		c->slot = arena_array(c->arena, room, sizeof *c->slot);
	c->mask = room - 1;
	for (uint32_t i = 0; i < room; i++)
		c->slot[i].node = NONE;
}

static void merge_graph(Cse *c, GraphId g) {
	table_clear(c, g);
	for (NodeId n = graph_first(c->m, g), next; n != NONE; n = next) {
		next = node_get(c->m, n)->next;
		note_writes(c, n);
		NodeId first = is_pure(c, n) ? intern_node(c, n) : n;
		if (first == n)
			continue;
		node_replace_uses(c->m, n, first, NONE);
		node_remove(c->m, n);
		c->merged++;
	}
}

bool pass_cse(PassContext *context) {
	Module *m = context->module;
	Cse c = {.m = m, .arena = context->arena, .effects = effects_of(context->arena, m)};
	c.version = arena_array(c.arena, (size_t)m->tensors.count + 1, sizeof *c.version);
	for (GraphId g = 0; g < m->graphs.count; g++)
		merge_graph(&c, g);
	if (c.merged)
		pass_remark(context, "cse", "merged %u node%s with an equal one", c.merged, c.merged == 1 ? "" : "s");
	return true;
}
