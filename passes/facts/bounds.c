/* bounds.c - loop bounds and positions that only the run time knows are clamped to their tensors.
 *
 * What: a bound of a loop is clamped to the smallest dim that the loop indexes with its tiles; a position in a load to
 * the dim; a store at a position is masked where that lies outside, and clamped as well. What the plan can follow (tile
 * queries, sums and products of them and of numbers) stays as it is, for it knows where those lie. With
 * assume_in_bounds nothing is done. Why on a TPU: a DMA or a slice that starts outside its array is no zero and no
 * exception there, but whatever lies beside it. Before dce removes an access that holds a loop in bounds, the loop is
 * clamped for it.
 *
 *     n = scalar n                       n = scalar n
 *     l = for_loop g, [0], [n]    =>     n_clamped = clamp n, 0, 512
 *     x = load x[i, u0]                  l = for_loop g, [0], [n_clamped]
 *                                        i_clamped = clamp i, 0, 199
 *                                        x = load x[i_clamped, u0]
 */
#include "facts.h"

typedef struct Bounds {
	PassContext *c;
	Module *m;
	const bool *stays; /* by NodeId: what is not about to be removed; NULL: all */
	uint32_t clamped, masked;
} Bounds;

/* ---- what is known ----------------------------------------------------------------------------------------------- */

static bool is_number(const Arg *a) { return a->kind == ARG_INT || a->kind == ARG_SYM || a->kind == ARG_BOOL; }

static int64_t block_limit(const Module *m, GraphId g, BlockId b, const bool *stays);

/* The query is of a tile whose loop runs as far as the run time says, and no access by that tile bounds it. */
static bool is_unbounded(const Module *m, NodeId query) {
	BlockId block = arg_block(m, node_arg(m, query, 0));
	for (GraphId g = node_get(m, query)->graph; graph_get(m, g)->caller != NONE; g = graph_parent(m, g)) {
		const Graph *loop = graph_get(m, g);
		for (uint32_t i = 0; i < loop->blocks.count; i++) {
			if (loop->blocks.at[i] != block)
				continue;
			const Arg *end = arg_item(m, node_arg(m, loop->caller, 2), i);
			return end->kind == ARG_REF && node_get(m, end->node)->op != OP_CLAMP &&
			       node_type(m, end->node)->sym == NONE && block_limit(m, g, block, NULL) == INT64_MAX;
		}
	}
	return false;
}

/* The plan follows it: made of tile queries and numbers by symbolic arithmetic. */
static bool is_followed(const Module *m, const Arg *a, uint32_t depth) {
	if (a->kind != ARG_REF)
		return is_number(a) || a->kind == ARG_BLOCK;
	NodeId n = a->node;
	const Type *t = node_type(m, n);
	if (t->kind != TYPE_SYM || depth == 0)
		return false;
	if (t->sym != NONE)
		return true;
	if (op_kind(m, n) == KIND_QUERY)
		return !is_unbounded(m, n);
	bool all = op_kind(m, n) == KIND_SYMBOLIC;
	for (uint32_t i = 0; all && i < node_get(m, n)->arg_count; i++)
		all = is_followed(m, node_arg(m, n, i), depth - 1);
	return all;
}

/* An int that the run time gives: of an index entry, one position. */
static bool is_run_time(const Module *m, const Arg *a) {
	if (a->kind != ARG_REF || is_followed(m, a, GRAPH_DEPTH_MAX))
		return false;
	const Type *t = node_type(m, a->node);
	return t->kind == TYPE_SYM || (t->kind == TYPE_TENSOR && t->count == 0);
}

static bool is_within(const Arg *a, int64_t high) {
	return a->kind == ARG_INT && a->integer >= 0 && a->integer <= high;
}

/* It is a clamp into [0, high] already, or a choice of two numbers there; maybe around the loops that read it. */
static bool is_held(const Module *m, const Arg *a, int64_t high) {
	for (const Arg *outer = constant_argument(m, a->node); outer; outer = constant_argument(m, a->node)) {
		if (outer->kind != ARG_REF)
			return false;
		a = outer;
	}
	uint16_t op = node_get(m, a->node)->op;
	if (op != OP_CLAMP && op != OP_WHERE)
		return false;
	const Arg *low = node_arg(m, a->node, 1), *top = node_arg(m, a->node, 2);
	return is_within(low, INT64_MAX) && is_within(top, high) && (op == OP_CLAMP || is_within(low, high));
}

/* The smallest dim that graph g, and those it calls, index with whole tiles of block b; INT64_MAX. By accesses that
 * stay, where `stays` is not NULL. */
static int64_t block_limit(const Module *m, GraphId g, BlockId b, const bool *stays) {
	int64_t least = INT64_MAX, size;
	for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next) {
		GraphId graphs[2];
		for (uint32_t k = 0, count = call_graphs(m, n, graphs); k < count; k++) {
			bool rebinds = false;
			for (uint32_t i = 0; i < graph_get(m, graphs[k])->blocks.count; i++)
				rebinds = rebinds || graph_get(m, graphs[k])->blocks.at[i] == b;
			if (!rebinds)
				least = int_min(least, block_limit(m, graphs[k], b, stays));
		}
		bool counts = op_kind(m, n) == KIND_MEMORY && (!stays || stays[n]);
		TensorId t = counts ? access_tensor(m, n) : NONE;
		const Arg *index = node_arg(m, n, 1);
		for (uint32_t i = 0, dim = 0; t != NONE && index->kind == ARG_LIST && i < index->list.count; i++) {
			const Arg *entry = arg_item(m, index, i);
			if (entry->kind == ARG_NULL)
				continue;
			if (arg_block(m, entry) == b && dim < m->tensors.at[t].rank &&
			    expr_value(m, m->tensors.at[t].shape[dim], &size))
				least = int_min(least, size);
			dim++;
		}
	}
	return least;
}

/* ---- rewriting --------------------------------------------------------------------------------------------------- */

/* The type of n's value once an op computed with it: a symbolic int is an int32 then. */
static TypeId int_type(Module *m, NodeId n) {
	const Type *t = node_type(m, n);
	return type_tensor(m, t->kind == TYPE_SYM ? DTYPE_I32 : t->dtype, 0, NULL);
}

static bool is_int(const Arg *a, int64_t value) { return a->kind == ARG_INT && a->integer == value; }

/* x clamped into [0, high], as something before that node has it; NONE: nothing has. */
static NodeId clamped_before(const Module *m, NodeId x, int64_t high, NodeId before) {
	for (NodeId n = node_get(m, before)->prev; n != NONE && n != x; n = node_get(m, n)->prev)
		if (node_get(m, n)->op == OP_CLAMP && node_input(m, n, 0) == x && is_int(node_arg(m, n, 1), 0) &&
		    is_int(node_arg(m, n, 2), high))
			return n;
	return NONE;
}

/* The slot refers to its int clamped into [0, high] from now on. */
static void clamp_slot(Bounds *b, ArgId slot, int64_t high, NodeId before) {
	NodeId x = arg_get(b->m, slot)->node, clamp = clamped_before(b->m, x, high, before);
	Arg args[3] = {arg_ref(x), arg_int(0), arg_int(high)};
	if (clamp == NONE)
		clamp = node_derive(b->m, OP_CLAMP, x, "clamped", int_type(b->m, x), 3, args, before);
	arg_set_ref(b->m, slot, clamp);
	b->clamped++;
}

/* One bound of a loop over `block`. */
static void hold_bound(Bounds *b, NodeId call, ArgId slot, BlockId block) {
	Module *m = b->m;
	GraphId g = node_arg(m, call, 0)->graph;
	const Arg *bound = arg_get(m, slot);
	if (bound->kind == ARG_INT && bound->integer == 0) /* lies in any dim */
		return;
	int64_t limit = block_limit(m, g, block, NULL), value;
	if (limit == INT64_MAX)
		return;
	bool forgotten = b->stays && bound->kind != ARG_INT && block_limit(m, g, block, b->stays) > limit;
	if (bound->kind == ARG_REF && (forgotten || is_run_time(m, bound)) && !is_held(m, bound, limit))
		clamp_slot(b, slot, limit, call);
	else if (bound->kind == ARG_INT && (bound->integer < 0 || bound->integer > limit))
		arg_set(m, slot, arg_int(int_min(int_max(bound->integer, 0), limit)));
	else if (bound->kind == ARG_SYM && forgotten && expr_value(m, bound->expr, &value) && value > limit)
		arg_set(m, slot, arg_int(limit));
}

static void hold_bounds(Bounds *b, NodeId call) {
	Module *m = b->m;
	for (uint32_t list = 1; list <= 2; list++) {
		Arg bounds = *node_arg(m, call, list);
		for (uint32_t i = 0; bounds.kind == ARG_LIST && i < bounds.list.count; i++)
			hold_bound(b, call, bounds.list.first + i,
			           graph_get(m, node_arg(m, call, 0)->graph)->blocks.at[i]);
	}
}

static NodeId compare(Bounds *b, uint16_t op, NodeId x, int64_t with, NodeId before) {
	Arg args[2] = {arg_ref(x), arg_int(with)};
	TypeId type = type_tensor(b->m, DTYPE_BOOL, 0, NULL);
	return node_derive(b->m, op, x, op == OP_GE_SCALAR ? "not_below" : "below", type, 2, args, before);
}

static NodeId both(Bounds *b, NodeId x, NodeId y, NodeId before) {
	bool larger = node_type(b->m, y)->count > node_type(b->m, x)->count;
	Arg args[2] = {arg_ref(x), arg_ref(y)};
	TypeId type = node_get(b->m, larger ? y : x)->type;
	return node_derive(b->m, OP_LOGICAL_AND, x, "and", type, 2, args, before);
}

/* Where the position lies outside, nothing is stored: one more extra_mask. */
static void mask_store(Bounds *b, NodeId store, NodeId position, int64_t extent) {
	NodeId low = compare(b, OP_GE_SCALAR, position, 0, store),
	       high = compare(b, OP_LT_SCALAR, position, extent, store);
	NodeId inside = both(b, low, high, store);
	NodeId mask = node_input(b->m, store, 3);
	NodeId all = mask == NONE ? inside : both(b, mask, inside, store);
	arg_set(b->m, node_get(b->m, store)->arg_first + 3, arg_ref(all));
	b->masked++;
}

static void hold_positions(Bounds *b, NodeId n) {
	Module *m = b->m;
	TensorId t = access_tensor(m, n);
	uint16_t op = node_get(m, n)->op;
	if (t == NONE || !op_accesses(op) || op_is_atomic(op) || node_arg(m, n, 1)->kind != ARG_LIST)
		return;
	for (uint32_t i = 0, dim = 0; i < node_arg(m, n, 1)->list.count; i++) {
		ArgId slot = node_arg(m, n, 1)->list.first + i;
		const Arg *entry = arg_get(m, slot);
		int64_t extent;
		if (entry->kind == ARG_NULL)
			continue;
		bool known = dim < m->tensors.at[t].rank && expr_value(m, m->tensors.at[t].shape[dim++], &extent);
		if (!known || arg_block(m, entry) != NONE || !is_run_time(m, entry) || is_held(m, entry, extent - 1))
			continue;
		if (op == OP_STORE)
			mask_store(b, n, entry->node, extent);
		clamp_slot(b, node_arg(m, n, 1)->list.first + i, extent - 1, n);
	}
}

void bounds_keep(PassContext *c, const bool *stays) {
	Bounds b = {.c = c, .m = c->module, .stays = stays};
	NodeId known = b.m->nodes.count;
	for (NodeId n = 0; n < known && !b.m->assume_in_bounds; n++)
		if (!node_get(b.m, n)->dead && stays[n] && node_get(b.m, n)->op == OP_FOR_LOOP)
			hold_bounds(&b, n);
}

bool pass_bounds(PassContext *c) {
	Bounds b = {.c = c, .m = c->module};
	for (GraphId g = 0; g < b.m->graphs.count && !b.m->assume_in_bounds; g++)
		for (NodeId n = graph_first(b.m, g), next; n != NONE; n = next) {
			next = node_get(b.m, n)->next;
			if (node_get(b.m, n)->op == OP_FOR_LOOP)
				hold_bounds(&b, n);
			else
				hold_positions(&b, n);
		}
	if (b.clamped || b.masked)
		pass_remark(c, "bounds", "%u run-time bound%s and positions are clamped, %u stores masked", b.clamped,
		            b.clamped == 1 ? "" : "s", b.masked);
	return true;
}
