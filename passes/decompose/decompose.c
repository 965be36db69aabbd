/* decompose.c - composite ops become the primitive ones that they are made of.
 *
 * What: softmax, variance, logsumexp, any, argmax, arange, tril, matrix times vector and their like become reductions,
 * pointwise ops, views and matmuls. Floats are computed in float32 and rounded once at the end, where ATen does so;
 * ints exactly. Every lane takes part, as the format has it: a graph masks what must not count with tile.mask_to, and
 * loads give zeros. What each op becomes: decompose_reduce.c, _softmax.c, _create.c, _matmul.c, _split.c, _scan.c,
 * _combine.c, _sort.c, _gather.c, _access.c, _store.c, _slices.c. Why on a TPU: Mosaic has few reductions, and
 * everything that is planned for those (masks, rows and columns, strips, VMEM) holds for what is made of them; cse then
 * shares parts, as the maximum of max.dim and argmax.
 *
 *                                       m = amax x, [1], keepdim
 *     y = softmax x, 1       =>         e = exp (x - m)
 *                                       y = e / sum e, [1], keepdim
 */
#include "decompose.h"

Decomposition *decompose_rewrite(uint16_t op) {
	static Decomposition *(*const parts[])(uint16_t) = {decompose_reduction, decompose_softmax, decompose_creation,
	                                                    decompose_matmul,    decompose_split,   decompose_scan,
	                                                    decompose_sort,      decompose_combine, decompose_gather};
	Decomposition *found = NULL;
	for (size_t i = 0; !found && i < sizeof parts / sizeof *parts; i++)
		found = parts[i](op);
	return found;
}

/* `value` takes the place of node n, and its name if it was made for it. */
static void replace(Decompose *d, NodeId n, NodeId value, NodeId made_from) {
	const char *name = node_get(d->m, n)->name;
	node_replace_uses(d->m, n, value, NONE);
	node_remove(d->m, n);
	if (value >= made_from)
		node_rename(d->m, value, name);
}

/* Elements of a tuple are taken by getitem alone; each becomes a value of its own. */
static void rewrite_tuple(Decompose *d, Decomposition *rewrite) {
	for (ArgId u = node_uses(d->m, d->n), next; u != NONE && !d->failed; u = next) {
		NodeId user = arg_get(d->m, u)->user, made_from = d->m->nodes.count;
		next = arg_get(d->m, u)->next_use;
		if (node_get(d->m, user)->op != OP_GETITEM)
			continue;
		NodeId value = rewrite(d, (uint32_t)node_arg(d->m, user, 1)->integer);
		if (value != NONE && !d->failed)
			replace(d, user, value, made_from);
	}
	if (node_uses(d->m, d->n) == NONE)
		node_remove(d->m, d->n);
}

static bool rewrite_node(Decompose *d, Decomposition *rewrite) {
	const char *target = op_row(node_get(d->m, d->n)->op)->target, *name = node_get(d->m, d->n)->name;
	uint32_t made_from = d->m->nodes.count;
	if (node_type(d->m, d->n)->kind == TYPE_TUPLE) {
		rewrite_tuple(d, rewrite);
	} else {
		NodeId value = rewrite(d, 0);
		if (value == NONE || d->failed)
			return !d->failed;
		replace(d, d->n, value, made_from);
	}
	pass_remark(d->c, "decompose", "%s, %s, is made of %u primitive node%s", name, target,
	            d->m->nodes.count - made_from, d->m->nodes.count - made_from == 1 ? "" : "s");
	return !d->failed;
}

/* Combine graphs of scans that are no more. */
static void drop_uncalled(PassContext *c) {
	Module *m = c->module;
	bool *drop = arena_array(c->arena, (size_t)m->graphs.count + 1, sizeof *drop), any = false;
	for (GraphId g = 0; g < m->graphs.count; g++) {
		NodeId caller = graph_get(m, g)->caller;
		any |= drop[g] = caller != NONE && node_get(m, caller)->dead;
	}
	if (any)
		module_drop_graphs(m, drop);
}

bool pass_decompose(PassContext *c) {
	Module *m = c->module;
	for (GraphId g = 0; g < m->graphs.count; g++)
		for (NodeId n = graph_first(m, g), next; n != NONE; n = next) {
			next = node_get(m, n)->next;
			n = decompose_slices(c, n);
			Decomposition *access = decompose_access(m, n);
			Decomposition *rewrite = access ? access : decompose_rewrite(node_get(m, n)->op);
			Decompose d = {.c = c, .m = m, .n = n};
			/* The load and store that an atomic becomes may go through views, and have steps. */
			NodeId before = node_get(m, n)->prev;
			bool again = atomic_loads_first(m, n);
			/* A tuple's first getitem may be that next node. */
			while (rewrite && next != NONE && node_get(m, next)->op == OP_GETITEM)
				next = node_get(m, next)->next;
			if (rewrite && !rewrite_node(&d, rewrite))
				return false;
			if (again)
				next = before == NONE ? graph_first(m, g) : node_get(m, before)->next;
		}
	drop_uncalled(c);
	return true;
}
