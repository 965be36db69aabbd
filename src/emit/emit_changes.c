/* emit_changes.c - which nodes passes made or changed. Names tell which is which: a pass that makes a node of another
 * gives it one of its own. Types, expressions, tensors and blocks keep their ids, as passes only add to them. */
#include "emit.h"

typedef struct Pair {
	const Module *before, *after;
} Pair;

static bool same_args(const Pair *p, ArgId a, ArgId b, uint32_t count);

static bool same_arg(const Pair *p, const Arg *x, const Arg *y) {
	if (x->kind != y->kind)
		return false;
	switch (x->kind) {
	case ARG_NULL: return true;
	case ARG_BOOL: return x->boolean == y->boolean;
	case ARG_INT: return x->integer == y->integer;
	case ARG_FLOAT: return x->real == y->real || (x->real != x->real && y->real != y->real); /* NaN too */
	case ARG_STRING: return strcmp(x->string, y->string) == 0;
	case ARG_DTYPE: return x->dtype == y->dtype;
	case ARG_REF: return strcmp(node_get(p->before, x->node)->name, node_get(p->after, y->node)->name) == 0;
	case ARG_SYM: return x->expr == y->expr;
	case ARG_LIST:
	case ARG_SLICE:
		return x->list.count == y->list.count && same_args(p, x->list.first, y->list.first, x->list.count);
	case ARG_TENSOR: return x->tensor == y->tensor;
	case ARG_SCALAR: return x->scalar == y->scalar;
	case ARG_GRAPH: return graph_get(p->before, x->graph)->id == graph_get(p->after, y->graph)->id;
	case ARG_BLOCK: return x->block == y->block;
	}
	return false;
}

static bool same_args(const Pair *p, ArgId a, ArgId b, uint32_t count) {
	for (uint32_t i = 0; i < count; i++)
		if (!same_arg(p, arg_get(p->before, a + i), arg_get(p->after, b + i)))
			return false;
	return true;
}

/* A pass may have moved it to another graph: then it keeps its number. */
static NodeId node_before(const Pair *p, NodeId n) {
	const Node *node = node_get(p->after, n);
	GraphId g = graph_find(p->before, graph_get(p->after, node->graph)->id);
	NodeId old = g == NONE ? NONE : graph_node(p->before, g, node->name);
	if (old != NONE)
		return old;
	bool known = n < p->before->nodes.count && !node_get(p->before, n)->dead;
	return known && strcmp(node_get(p->before, n)->name, node->name) == 0 ? n : NONE;
}

static NodeChange change_of(const Pair *p, NodeId n) {
	NodeId old = node_before(p, n);
	if (old == NONE)
		return NODE_NEW;
	const Node *x = node_get(p->before, old), *y = node_get(p->after, n);
	bool stays = graph_get(p->before, x->graph)->id == graph_get(p->after, y->graph)->id;
	bool same = stays && x->op == y->op && x->arg_count == y->arg_count && x->type == y->type &&
	            same_args(p, x->arg_first, y->arg_first, x->arg_count);
	return same ? NODE_SAME : NODE_CHANGED;
}

static uint32_t node_count(const Module *m) {
	uint32_t count = 0;
	for (NodeId n = 0; n < m->nodes.count; n++)
		count += !node_get(m, n)->dead;
	return count;
}

NodeChanges module_changes(Arena *a, const Module *before, const Module *after) {
	Pair p = {before, after};
	NodeChanges changes = {.of = arena_array(a, after->nodes.count, sizeof *changes.of)};
	uint32_t kept = 0;
	for (NodeId n = 0; before && n < after->nodes.count; n++) {
		if (node_get(after, n)->dead)
			continue;
		changes.of[n] = change_of(&p, n);
		changes.made += changes.of[n] == NODE_NEW;
		changes.changed += changes.of[n] == NODE_CHANGED;
		kept += changes.of[n] != NODE_NEW;
	}
	if (before && node_count(before) > kept)
		changes.removed = node_count(before) - kept;
	return changes;
}
