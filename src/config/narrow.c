/* narrow.c - a block wider than the range it iterates is narrowed to it.
 *
 * With blocks of 2048 over a range of 512 every tile would carry 1536 lanes that are never valid: loaded, computed,
 * masked, held in VMEM. The tile is the range instead, and whole: no mask, and a window that covers its dim is aligned
 * whatever its size. The configuration stays what the user gave; --explain and the plan say both.
 *
 * Where the kernel moves parts of the range round a ring of devices, a tile is of one share of them.
 *
 * A graph may look at the size, and then it must stay: in a tensor's shape, in arithmetic, through tile.block_size, or
 * by a reduction that reads invalid lanes which no mask made neutral (a mean divides by all of them). A range that is
 * computed in the kernel is not known. */
#include "config.h"
#include <math.h>

typedef struct Narrowing {
	Module *m;
	NodeId *calls; /* of loops */
	uint32_t call_count;
	BlockId b;
	int64_t size, length; /* of the block, of the range */
	bool any_use, whole;  /* whole: every tensor dim indexed by it is the range */
	bool *depends;        /* by ExprId: on the block */
} Narrowing;

/* ---- the range -------------------------------------------------------------------------------------------------- */

static bool arg_number(Module *m, const Arg *a, int64_t *value) {
	if (a->kind == ARG_INT)
		return *value = a->integer, true;
	ExprId e = a->kind == ARG_SYM                                              ? a->expr
	           : a->kind == ARG_REF && node_type(m, a->node)->kind == TYPE_SYM ? node_type(m, a->node)->sym
	                                                                           : NONE;
	return e != NONE && expr_value(m, e, value);
}

/* One more place that iterates the block; false if its range is another one, or is not known. */
static bool range_add(Narrowing *w, bool known, int64_t begin, int64_t end) {
	int64_t share = w->m->blocks.at[w->b].share, length = known ? int_max(end - begin, 0) : 0;
	length = share ? int_min(share, length) : length;
	bool same = known && (!w->any_use || length == w->length);
	w->whole = w->whole && begin == 0;
	w->length = length;
	w->any_use = true;
	return same;
}

static bool range_of_grid(Narrowing *w) {
	const Block *block = &w->m->blocks.at[w->b];
	int64_t begin = 0, end = 0;
	bool known = block->extent != NONE && expr_value(w->m, block->extent, &end) &&
	             (block->begin == NONE || expr_value(w->m, block->begin, &begin));
	return range_add(w, known, begin, end);
}

static bool range_of_call(Narrowing *w, NodeId call, uint32_t dim) {
	const Arg *begins = node_arg(w->m, call, 1), *ends = node_arg(w->m, call, 2);
	int64_t begin = 0, end = 0;
	bool known = begins->kind == ARG_LIST && ends->kind == ARG_LIST && dim < begins->list.count &&
	             dim < ends->list.count && arg_number(w->m, arg_item(w->m, begins, dim), &begin) &&
	             arg_number(w->m, arg_item(w->m, ends, dim), &end);
	return range_add(w, known, begin, end);
}

static bool range_in(Narrowing *w, const Graph *g, NodeId call) {
	for (uint32_t i = 0; i < g->blocks.count; i++)
		if (g->blocks.at[i] == w->b && !(call == NONE ? range_of_grid(w) : range_of_call(w, call, i)))
			return false;
	return true;
}

static bool range_known(Narrowing *w) {
	Module *m = w->m;
	for (GraphId g = 0; g < m->graphs.count; g++)
		if (graph_get(m, g)->kind == GRAPH_ROOT && !range_in(w, graph_get(m, g), NONE))
			return false;
	for (uint32_t i = 0; i < w->call_count; i++)
		if (!range_in(w, graph_get(m, node_arg(m, w->calls[i], 0)->graph), w->calls[i]))
			return false;
	return w->any_use && w->length > 0;
}

/* ---- who looks at the size -------------------------------------------------------------------------------------- */

static bool is_block(const Narrowing *w, ExprId e) { return expr_as_block(w->m, e) == w->b; }

/* An expression's parts were made before it. */
static void find_dependent(Narrowing *w) {
	const Module *m = w->m;
	w->depends = arena_array(m->arena, (size_t)m->exprs.count + 1, sizeof *w->depends);
	for (ExprId e = 0; e < m->exprs.count; e++) {
		const Expr *x = &m->exprs.at[e];
		w->depends[e] =
			is_block(w, e) || (x->a != NONE && w->depends[x->a]) || (x->b != NONE && w->depends[x->b]);
	}
}

static bool contains(const Narrowing *w, ExprId e) { return e != NONE && w->depends[e]; }

static bool in_arithmetic(const Narrowing *w, ExprId e) { return contains(w, e) && !is_block(w, e); }

static bool in_host_sizes(const Narrowing *w) {
	const Module *m = w->m;
	bool found = false;
	for (TensorId t = 0; t < m->tensors.count; t++)
		for (uint32_t i = 0; i < m->tensors.at[t].rank; i++)
			found = found || contains(w, m->tensors.at[t].shape[i]);
	for (uint32_t r = 0; r < m->returns.count; r++)
		for (uint32_t i = 0; i < m->returns.at[r].rank; i++)
			found = found || contains(w, m->returns.at[r].shape[i]);
	for (BlockId b = 0; b < m->blocks.count; b++)
		found = found || contains(w, m->blocks.at[b].size) || contains(w, m->blocks.at[b].begin) ||
		        contains(w, m->blocks.at[b].extent);
	return found;
}

/* A dim that is a number is none of the block's, however large: types hold for blocks of other sizes, too
 * (verify_symbols.c). */
static bool type_reads(const Narrowing *w, const Type *t) {
	bool found = t->kind == TYPE_SYM && in_arithmetic(w, t->sym);
	for (uint32_t i = 0; t->kind == TYPE_TENSOR && i < t->count; i++)
		found = found || in_arithmetic(w, t->dims[i]);
	return found;
}

/* The argument is the block's symbol, by name or by reference. */
static bool arg_is_size(const Narrowing *w, const Arg *a) { return a->kind != ARG_BLOCK && arg_block(w->m, a) == w->b; }

static bool list_has_size(const Narrowing *w, const Arg *list) {
	for (uint32_t i = 0; list->kind == ARG_LIST && i < list->list.count; i++)
		if (arg_is_size(w, arg_item(w->m, list, i)))
			return true;
	return false;
}

static bool has_dim(const Narrowing *w, NodeId n) {
	const Type *t = node_type(w->m, n);
	for (uint32_t i = 0; t->kind == TYPE_TENSOR && i < t->count; i++)
		if (is_block(w, t->dims[i]))
			return true;
	return false;
}

/* The size itself is a number here, not the name of a dim. */
static bool number_is_read(const Narrowing *w, NodeId n) {
	const Node *node = node_get(w->m, n);
	OpKind kind = op_row(node->op)->kind;
	bool named = kind == KIND_QUERY || kind == KIND_VIEW || kind == KIND_STRUCTURE;
	for (uint32_t i = 0; i < node->arg_count; i++) {
		const Arg *a = node_arg(w->m, n, i);
		if ((arg_is_size(w, a) && !named) || (a->kind == ARG_SYM && in_arithmetic(w, a->expr)))
			return true;
	}
	return node->op == OP_TILE_BLOCK_SIZE || node->op == OP_TILE_ID ||
	       (node->op == OP_FOR_LOOP &&
	        (list_has_size(w, node_arg(w->m, n, 1)) || list_has_size(w, node_arg(w->m, n, 2))));
}

/* ---- invalid lanes ---------------------------------------------------------------------------------------------- */

static bool arg_is_number(const Arg *a, double value) {
	return (a->kind == ARG_FLOAT && a->real == value) || (a->kind == ARG_INT && (double)a->integer == value);
}

/* The invalid lanes of n are known to hold `value`. */
static bool lanes_hold(const Narrowing *w, NodeId n, double value, int depth) {
	if (n == NONE || depth > 8)
		return false;
	uint16_t op = op_canonical(node_get(w->m, n)->op);
	switch (op) {
	case OP_MASK_TO: return arg_is_number(node_arg(w->m, n, 1), value);
	case OP_LOAD: return value == 0;
	case OP_NEW_VAR:
	case OP_CONVERT: return lanes_hold(w, node_input(w->m, n, 0), value, depth + 1);
	case OP_MUL:
		return value == 0 && (lanes_hold(w, node_input(w->m, n, 0), 0, depth + 1) ||
		                      lanes_hold(w, node_input(w->m, n, 1), 0, depth + 1));
	case OP_ADD:
	case OP_SUB:
		return value == 0 && lanes_hold(w, node_input(w->m, n, 0), 0, depth + 1) &&
		       lanes_hold(w, node_input(w->m, n, 1), 0, depth + 1);
	default:
		return (view_adds_units(op) || op_lanes(op) == LANES_PERMUTE) &&
		       lanes_hold(w, node_input(w->m, n, 0), value, depth + 1);
	}
}

/* A reduction along the dim: its operand's invalid lanes must be neutral. */
static bool reduction_reads(const Narrowing *w, NodeId n) {
	NodeId x = node_input(w->m, n, 0);
	switch (op_canonical(node_get(w->m, n)->op)) {
	case OP_SUM: return !lanes_hold(w, x, 0, 0);
	case OP_MAX: return !lanes_hold(w, x, -INFINITY, 0);
	case OP_MIN: return !lanes_hold(w, x, INFINITY, 0);
	default: return true;
	}
}

/* One factor's zeros are enough. A dim that both factors and the result have is no contracted one. */
static bool matmul_reads(const Narrowing *w, NodeId n) {
	NodeId a = NONE, b = NONE;
	uint32_t with = 0;
	for (uint32_t i = 0; i < node_get(w->m, n)->arg_count; i++) {
		NodeId x = node_input(w->m, n, i);
		if (x == NONE || !has_dim(w, x))
			continue;
		b = with++ == 0 ? NONE : x;
		a = a == NONE ? x : a;
	}
	return !has_dim(w, n) && !lanes_hold(w, a, 0, 0) && !lanes_hold(w, b, 0, 0);
}

/* Along the dim, so that the result has lost it; what keeps every dim (a softmax, a scan) may be along it as well. */
static bool reduces(const Narrowing *w, NodeId n, NodeId x) {
	const Type *from = node_type(w->m, x), *to = node_type(w->m, n);
	bool same = to->kind == TYPE_TENSOR && from->count == to->count;
	for (uint32_t i = 0; same && i < from->count; i++)
		same = expr_equal(w->m, from->dims[i], to->dims[i]);
	return has_dim(w, x) && (same || !has_dim(w, n));
}

static bool lanes_are_read(const Narrowing *w, NodeId n) {
	NodeId x = node_input(w->m, n, 0);
	switch (op_row(node_get(w->m, n)->op)->kind) {
	case KIND_REDUCTION: return x == NONE || (reduces(w, n, x) && reduction_reads(w, n));
	case KIND_MATMUL: return matmul_reads(w, n);
	case KIND_VIEW: return x == NONE || (has_dim(w, x) && !view_keeps_dims(node_get(w->m, n)->op));
	default: return false;
	}
}

/* What keeps the block as wide as it is; NULL: nothing. */
static const char *size_is_read(Narrowing *w) {
	Module *m = w->m;
	if (in_host_sizes(w))
		return "a size outside the kernel depends on it";
	bool cut = m->blocks.at[w->b].share > 0; /* arrays have other sizes now than those that were traced */
	for (NodeId n = 0; n < m->nodes.count; n++) {
		if (node_get(m, n)->dead || (cut && node_get(m, n)->op == OP_HOST_TENSOR))
			continue;
		if (number_is_read(w, n) || type_reads(w, node_type(m, n)))
			return arena_printf(m->arena, "'%s' reads the block's size", node_get(m, n)->name);
		if (lanes_are_read(w, n))
			return arena_printf(m->arena, "'%s' reads lanes beyond the range", node_get(m, n)->name);
	}
	return NULL;
}

/* ---- tensors that it indexes ------------------------------------------------------------------------------------ */

/* A whole dim is aligned whatever its size; part of one must be full lanes. */
static bool covers_tensors(Narrowing *w) {
	Module *m = w->m;
	for (NodeId n = 0; n < m->nodes.count && w->whole; n++) {
		const Node *node = node_get(m, n);
		NodeId host = node->dead || op_row(node->op)->kind != KIND_MEMORY ? NONE : node_input(m, n, 0);
		const Arg *index = node_arg(m, n, 1);
		if (host == NONE || index->kind != ARG_LIST || node_type(m, host)->kind != TYPE_TENSOR)
			continue;
		const Type *t = node_type(m, host);
		for (uint32_t i = 0; i < index->list.count; i++) {
			int64_t dim = 0;
			if (arg_is_size(w, arg_item(m, index, i)) &&
			    (index->list.count != t->count || !expr_value(m, t->dims[i], &dim) || dim != w->length))
				return false;
		}
	}
	return w->whole;
}

/* ---- the decision ----------------------------------------------------------------------------------------------- */

static int64_t narrowed(Narrowing *w, const char **kept) {
	const Block *block = &w->m->blocks.at[w->b];
	if (!block_is_chosen(block) || !range_known(w) || w->length >= w->size)
		return w->size;
	int64_t lanes = w->m->target ? w->m->target->lanes : 128;
	int64_t narrow = covers_tensors(w) || block->share ? w->length : int_round_up(w->length, lanes);
	if (narrow >= w->size)
		return w->size;
	find_dependent(w);
	*kept = size_is_read(w);
	return *kept ? w->size : narrow;
}

static Narrowing narrowing(Module *m) {
	Narrowing w = {.m = m, .calls = arena_array(m->arena, (size_t)m->nodes.count + 1, sizeof *w.calls)};
	for (NodeId n = 0; n < m->nodes.count; n++)
		if (node_get(m, n)->op == OP_FOR_LOOP && !node_get(m, n)->dead && node_arg(m, n, 0)->kind == ARG_GRAPH)
			w.calls[w.call_count++] = n;
	return w;
}

bool blocks_narrow(Module *m) {
	bool any = false;
	Narrowing w = narrowing(m);
	m->narrowed.count = 0;
	for (w.b = 0; w.b < m->blocks.count; w.b++) {
		Narrowed one = {.asked = m->block_size.at[w.b]};
		w.size = one.asked;
		w.length = 0;
		w.any_use = false;
		w.whole = true;
		one.size = narrowed(&w, &one.kept);
		if (one.size != one.asked && m->blocks.at[w.b].share)
			one.wide = "so much travels at once";
		any = any || one.size != one.asked;
		vec_push(m->arena, &m->narrowed, one);
	}
	return any;
}

/* ---- tiles of another size --------------------------------------------------------------------------------------- */

static bool any_operand_has_dim(const Narrowing *w, NodeId n) {
	bool found = false;
	for (uint32_t i = 0; i < node_get(w->m, n)->arg_count; i++) {
		NodeId x = node_input(w->m, n, i);
		found = found || (x != NONE && has_dim(w, x));
	}
	return found;
}

/* What a tile stores lies where the tile is; what it loads there, or anywhere that is the same for all tiles. */
static bool access_by_tiles(const Narrowing *w, NodeId n) {
	const Arg *index = node_arg(w->m, n, 1);
	bool load = node_get(w->m, n)->op == OP_LOAD, known = index->kind == ARG_LIST;
	uint32_t found = 0;
	for (uint32_t i = 0; known && i < index->list.count; i++) {
		const Arg *a = arg_item(w->m, index, i);
		NodeId x = a->kind == ARG_REF ? a->node : NONE;
		known = x == NONE || node_type(w->m, x)->kind == TYPE_SYM;
		found += arg_block(w->m, a) == w->b;
	}
	return known && (found == 1 || (load && found == 0));
}

/* Lanes of the dim are computed each from its own, if at all. */
static bool keeps_lanes(const Narrowing *w, NodeId n) {
	const Node *node = node_get(w->m, n);
	NodeId x = node_input(w->m, n, 0);
	switch (op_row(node->op)->kind) {
	case KIND_POINTWISE:
	case KIND_SYMBOLIC: return true;
	case KIND_REDUCTION: return x != NONE && !reduces(w, n, x);
	case KIND_VIEW: return x != NONE && (!has_dim(w, x) || view_keeps_dims(node->op));
	case KIND_MATMUL: return has_dim(w, n) || !any_operand_has_dim(w, n);
	case KIND_MEMORY: return (node->op == OP_LOAD || node->op == OP_STORE) && access_by_tiles(w, n);
	case KIND_CREATION:
		return (op_lowering(node->op) == LOWER_FULL || op_is_random(node->op)) && node_type(w->m, n)->count > 0;
	case KIND_STRUCTURE: return node->op != OP_IF && node->op != OP_WHILE;
	case KIND_QUERY: return node->op == OP_TILE_INDEX;
	}
	return false;
}

/* Lanes of the dim go into one sum, or one greatest or least value: all of them, and nothing is left of the dim. */
static bool folds_lanes(const Narrowing *w, NodeId n) {
	uint16_t op = op_canonical(node_get(w->m, n)->op);
	NodeId x = node_input(w->m, n, 0);
	if (op_kind(w->m, n) == KIND_REDUCTION)
		return x != NONE && has_dim(w, x) && !has_dim(w, n) && (op == OP_SUM || op == OP_MAX || op == OP_MIN);
	return op_kind(w->m, n) == KIND_MATMUL && !has_dim(w, n);
}

/* Behind a loop that folds them. */
static bool stores_none(const Narrowing *w, NodeId n) {
	return node_get(w->m, n)->op == OP_STORE && !any_operand_has_dim(w, n) &&
	       !list_has_size(w, node_arg(w->m, n, 1));
}

/* Lanes meet in it, each with each. */
static bool has_dim_twice(const Narrowing *w, NodeId n) {
	const Type *t = node_type(w->m, n);
	uint32_t count = 0;
	for (uint32_t i = 0; t->kind == TYPE_TENSOR && i < t->count; i++)
		count += is_block(w, t->dims[i]);
	return count > 1;
}

/* `folds`: lanes may be folded. */
static const char *tile_matters(Narrowing *w, bool folds) {
	Module *m = w->m;
	find_dependent(w);
	if (in_host_sizes(w))
		return "a size outside the kernel depends on it";
	for (NodeId n = 0; n < m->nodes.count; n++)
		if (!node_get(m, n)->dead &&
		    (number_is_read(w, n) || type_reads(w, node_type(m, n)) || has_dim_twice(w, n) ||
		     (!keeps_lanes(w, n) && !(folds && (folds_lanes(w, n) || stores_none(w, n))))))
			return arena_printf(m->arena, "'%s' takes the tile as it is", node_get(m, n)->name);
	return NULL;
}

const char *block_size_matters(Module *m, BlockId b) {
	Narrowing w = {.m = m, .b = b};
	return tile_matters(&w, false);
}

const char *block_parts_matter(Module *m, BlockId b, int64_t part) {
	Narrowing w = narrowing(m);
	w.b = b;
	w.size = m->block_size.at[b];
	if (w.size % part != 0 || !range_known(&w) || w.length % part != 0)
		return "its parts do not divide its range";
	return tile_matters(&w, true);
}
