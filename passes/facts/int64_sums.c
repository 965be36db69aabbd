/* int64_sums.c - what atomics add up in the place of an int64.
 *
 * What: a tensor that is `whole` stands for one of int64, and holds int32. A sum there is the value of no node, so that
 * no interval says what it may be: it lies between what the tensor begins with, or what is stored, and all that is
 * added to that. An atomic adds once for each element of the ranges that are iterated around it, and of the dims that
 * its tile has besides. Where int32 may not hold the sum, the graph is refused.
 *
 *     counts = zeros [16]                      0
 *     atomic_add counts, [x[tile]], 1          1 for each of the 8192 rows of x
 *                                        =>    0 to 8192: int32
 *
 * Why on a TPU: there are no 64-bit ints, and counts in torch are int64. */
#include "facts.h"

static const IntRange all = {INT64_MIN, INT64_MAX};

static IntRange hull(IntRange a, IntRange b) { return (IntRange){int_min(a.low, b.low), int_max(a.high, b.high)}; }

/* *count times the elements of [begin, end); false: not known. */
static bool times_length(IntRange begin, IntRange end, int64_t *count) {
	int64_t length;
	return checked_sub(end.high, begin.low, &length) && checked_mul(*count, int_max(length, 0), count);
}

static bool times_grid(const Module *m, const Graph *g, int64_t *count) {
	for (uint32_t i = 0; i < g->blocks.count; i++) {
		const Block *b = &m->blocks.at[g->blocks.at[i]];
		int64_t begin = 0, end;
		if (b->extent == NONE || !expr_value(m, b->extent, &end) ||
		    (b->begin != NONE && !expr_value(m, b->begin, &begin)) ||
		    !times_length((IntRange){begin, begin}, (IntRange){end, end}, count))
			return false;
	}
	return true;
}

static bool times_loop(const IntRanges *r, const Graph *g, int64_t *count) {
	const Arg *begins = op_arg(r->m, g->caller, "begins"), *ends = op_arg(r->m, g->caller, "ends");
	for (uint32_t i = 0; i < g->blocks.count; i++)
		if (!times_length(arg_range(r, arg_item(r->m, begins, i)), arg_range(r, arg_item(r->m, ends, i)),
		                  count))
			return false;
	return true;
}

/* Marks the first dim that is a tile of block b. */
static void find_dim(const Module *m, const Type *t, BlockId b, bool *iterated) {
	for (uint32_t i = 0; i < t->count; i++)
		if (expr_as_block(m, t->dims[i]) == b) {
			iterated[i] = true;
			return;
		}
}

/* How many elements node n handles over the whole run, at most; -1: not known. */
static int64_t elements_handled(const IntRanges *r, NodeId n) {
	const Module *m = r->m;
	const Type *t = node_type(m, n);
	int64_t count = 1, size;
	bool iterated[RANK_MAX] = {false};
	for (GraphId id = node_get(m, n)->graph; id != NONE; id = graph_parent(m, id)) {
		const Graph *g = graph_get(m, id);
		bool known = g->kind == GRAPH_ROOT       ? times_grid(m, g, &count)
		             : g->kind == GRAPH_FOR_LOOP ? times_loop(r, g, &count)
		                                         : g->kind == GRAPH_IF || g->kind == GRAPH_ELSE;
		if (!known)
			return -1;
		for (uint32_t k = 0; k < g->blocks.count; k++)
			find_dim(m, t, g->blocks.at[k], iterated);
	}
	for (uint32_t i = 0; i < t->count; i++)
		if (!iterated[i] && (!expr_value(m, t->dims[i], &size) || !checked_mul(count, size, &count)))
			return -1;
	return count;
}

/* What node n, an access of the tensor, may add to it or leave there. */
static bool access_sums(const IntRanges *r, NodeId n, IntRange *held, IntRange *added) {
	IntRange value = arg_range(r, node_arg(r->m, n, 2));
	const int64_t count = elements_handled(r, n);
	switch (node_get(r->m, n)->op) {
	case OP_STORE:
	case OP_ATOMIC_XCHG:
	case OP_ATOMIC_MAX:
	case OP_ATOMIC_MIN: *held = hull(*held, value); return true;
	case OP_ATOMIC_ADD: break;
	default: return false;
	}
	int64_t low, high;
	return count >= 0 && checked_mul(int_min(value.low, 0), count, &low) &&
	       checked_mul(int_max(value.high, 0), count, &high) && checked_add(added->low, low, &added->low) &&
	       checked_add(added->high, high, &added->high);
}

/* Over all that is stored and added to a tensor. */
static IntRange tensor_sums(const IntRanges *r, TensorId base) {
	const Module *m = r->m;
	const Tensor *tensor = &m->tensors.at[base];
	IntRange held = dtype_range(DTYPE_I32), added = {0, 0};
	if (tensor->has_init)
		held = (IntRange){(int64_t)tensor->init, (int64_t)tensor->init};
	for (NodeId n = 0; n < m->nodes.count; n++)
		if (!node_get(m, n)->dead && op_writes(node_get(m, n)->op) && access_base(m, n) == base &&
		    !access_sums(r, n, &held, &added))
			return all;
	return checked_add(held.low, added.low, &held.low) && checked_add(held.high, added.high, &held.high) ? held
	                                                                                                     : all;
}

static bool is_sum(const Module *m, NodeId n) {
	return !node_get(m, n)->dead && node_get(m, n)->op == OP_ATOMIC_ADD && m->tensors.at[access_base(m, n)].whole;
}

bool int64_sums_fit(PassContext *c) {
	Module *m = c->module;
	NodeId n = 0;
	while (n < m->nodes.count && !is_sum(m, n))
		n++;
	if (n == m->nodes.count)
		return true;
	IntRanges r = int_ranges(m->arena, m);
	for (; n < m->nodes.count; n++) {
		if (!is_sum(m, n) || range_within(tensor_sums(&r, access_base(m, n)), dtype_range(DTYPE_I32)))
			continue;
		diag_error(c->diag, node_place(m, c->diag, n), "int64-range",
		           "bound what is added, begin with a number (zeros), or make the tensor of int32",
		           "tile.atomic_add '%s': tensor '%s' stands for one of int64, and the sum may leave 32 bits",
		           node_get(m, n)->name, m->tensors.at[access_base(m, n)].name);
		return false;
	}
	return true;
}
