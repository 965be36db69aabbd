/* batch.c - positions of a grid dim that only say where data lie become a tile: a grid step takes several.
 *
 * What: a grid over single positions of a dim (`for b, h in hl.grid(...)`) whose index stands in loads and stores
 * alone. Values that depend on it get the dim in front, matmuls become matmuls of a batch; each value is computed of
 * what it was, by the same ops. Why on a TPU: of few rows, as of the queries that share a head of keys, a step is a
 * chain of latencies (copies, matmul, maximum, exp2, matmul) in which every unit waits for the one before. Several such
 * chains stand beside each other in straight code, and a copy brings the window of all.
 *
 *     h = begin u2                               h = symnode u2                     u2: 8
 *     k = load pages[h, numbers, :, :]      =>   k = load pages[h, numbers, :, :]   [u2, u4, 64, 128]
 *     s = dot rows, permute k [1, 0]             s = dot rows, permute k [0, 2, 1]  [u2, 4, n]
 *
 * How many, and whether it pays: src/driver/choose_sizes.c, which says so in Module.enlarged. */
#include "rows.h"
#include "passes/simplify/simplify.h"

typedef struct Batch {
	Module *m;
	BlockId block;
	bool *has; /* by NodeId: the value gets the dim */
	NodeId at; /* what speaks against it; NONE */
} Batch;

/* ---- which values get the dim ------------------------------------------------------------------------------------ */

static bool is_position(const Batch *x, NodeId n) {
	return node_get(x->m, n)->op == OP_TILE_BEGIN && arg_block(x->m, node_arg(x->m, n, 0)) == x->block;
}

static bool input_has(const Batch *x, NodeId n, uint32_t i) {
	NodeId input = node_input(x->m, n, i);
	return input != NONE && x->has[input];
}

static bool arg_has(const Batch *x, const Arg *a) {
	bool found = a->kind == ARG_REF && x->has[a->node];
	for (uint32_t i = 0; arg_is_list(a) && i < a->list.count && !found; i++)
		found = arg_has(x, arg_item(x->m, a, i));
	return found;
}

static bool any_arg_has(const Batch *x, NodeId n) {
	bool found = false;
	for (uint32_t i = 0; i < node_get(x->m, n)->arg_count && !found; i++)
		found = arg_has(x, node_arg(x->m, n, i));
	return found;
}

/* The entry of an access that is the position; NONE: there is none, or several. */
static uint32_t position_entry(const Batch *x, NodeId n) {
	const Arg *index = node_arg(x->m, n, 1);
	uint32_t found = NONE, count = 0;
	for (uint32_t i = 0; index->kind == ARG_LIST && i < index->list.count; i++) {
		const Arg *a = arg_item(x->m, index, i);
		if (a->kind == ARG_REF && is_position(x, a->node))
			found = i, count++;
	}
	return count == 1 ? found : NONE;
}

static bool set(Batch *x, NodeId n) {
	bool changes = !x->has[n];
	x->has[n] = true;
	return changes;
}

/* What a loop is given, carries and gives has it together. */
static bool spread_over_call(Batch *x, NodeId call) {
	const Module *m = x->m;
	GraphId g = node_arg(m, call, 0)->graph;
	const Graph *graph = graph_get(m, g);
	bool changes = false;
	for (uint32_t i = 0; i < graph->placeholders.count; i++) {
		const Arg *given = arg_item(m, loop_args(m, call), i);
		uint32_t output = graph_carried_output(graph, i);
		const Arg *next = output == NONE ? &no_argument : arg_item(m, graph_results(m, g), output);
		NodeId inside = graph->placeholders.at[i];
		if (!x->has[inside] && !arg_has(x, given) && !arg_has(x, next))
			continue;
		changes |= set(x, inside);
		changes |= given->kind == ARG_REF && set(x, given->node);
		changes |= next->kind == ARG_REF && set(x, next->node);
	}
	return changes;
}

static bool result_has(const Batch *x, NodeId n) {
	NodeId call = node_input(x->m, n, 0);
	const Arg *which = node_arg(x->m, n, 1);
	return call != NONE && node_get(x->m, call)->op == OP_FOR_LOOP && which->kind == ARG_INT &&
	       arg_has(x,
	               arg_item(x->m, graph_results(x->m, node_arg(x->m, call, 0)->graph), (uint32_t)which->integer));
}

static bool spread(Batch *x, NodeId n) {
	uint16_t op = node_get(x->m, n)->op;
	NodeId renamed = op == OP_NEW_VAR ? node_input(x->m, n, 0) : NONE;
	if (op == OP_FOR_LOOP)
		return spread_over_call(x, n);
	if (op == OP_GETITEM)
		return result_has(x, n) && set(x, n);
	if (op == OP_OUTPUT || op_writes(op))
		return false;
	if (x->has[n])
		return renamed != NONE && set(x, renamed);
	return (any_arg_has(x, n) || (op == OP_LOAD && position_entry(x, n) != NONE)) && set(x, n);
}

static void find_values(Batch *x) {
	bool changes = true;
	x->has = arena_array(x->m->arena, (size_t)x->m->nodes.count + 1, sizeof *x->has);
	while (changes) {
		changes = false;
		for (NodeId n = 0; n < x->m->nodes.count; n++)
			changes = (!node_get(x->m, n)->dead && spread(x, n)) || changes;
	}
}

/* ---- whether each can ------------------------------------------------------------------------------------------- */

static uint32_t rank_of(const Batch *x, NodeId n) { return node_type(x->m, n)->count; }

/* Operands broadcast from the last dim on: what gets a dim in front must have all others. */
static bool meets(const Batch *x, NodeId n) {
	for (uint32_t i = 0; i < node_get(x->m, n)->arg_count; i++) {
		NodeId operand = node_input(x->m, n, i);
		if (input_has(x, n, i) && rank_of(x, operand) != rank_of(x, n))
			return false;
	}
	return any_arg_has(x, n);
}

/* The dim of the position comes first: entries before it leave none. */
static bool accesses(const Batch *x, NodeId n) {
	const Module *m = x->m;
	const Arg *index = node_arg(m, n, 1);
	uint32_t entry = position_entry(x, n);
	if (entry == NONE || arg_has(x, index) || op_arg(m, n, "extra_mask")->kind != ARG_NULL)
		return false;
	for (uint32_t i = 0; i < index->list.count; i++) {
		const Arg *a = arg_item(m, index, i);
		bool single = a->kind == ARG_INT || (a->kind == ARG_REF && node_type(m, a->node)->kind == TYPE_SYM &&
		                                     expr_as_block(m, node_type(m, a->node)->sym) == NONE);
		if (a->kind == ARG_NULL || (i < entry && !single))
			return false;
	}
	return true;
}

static bool subscript_moves(const Module *m, NodeId n) {
	const Arg *index = node_arg(m, n, 1);
	bool moves = index->kind == ARG_LIST;
	for (uint32_t i = 0; moves && i < index->list.count; i++) {
		ArgKind kind = arg_item(m, index, i)->kind;
		moves = kind == ARG_NULL || kind == ARG_SLICE || kind == ARG_INT;
	}
	return moves;
}

static bool views(const Batch *x, NodeId n) {
	switch (node_get(x->m, n)->op) {
	case OP_SUBSCRIPT: return subscript_moves(x->m, n);
	case OP_VIEW:
	case OP_RESHAPE:
	case OP_UNSAFE_VIEW:
	case OP_EXPAND:
	case OP_PERMUTE: return node_arg(x->m, n, 1)->kind == ARG_LIST;
	case OP_UNSQUEEZE: return node_arg(x->m, n, 1)->kind == ARG_INT;
	case OP_TRANSPOSE: return node_arg(x->m, n, 1)->kind == ARG_INT && node_arg(x->m, n, 2)->kind == ARG_INT;
	default: return false;
	}
}

static bool reduces(const Batch *x, NodeId n) {
	uint16_t op = op_canonical(node_get(x->m, n)->op);
	const Arg *dims = op_arg(x->m, n, "dim");
	bool named = dims->kind == ARG_INT || (dims->kind == ARG_LIST && dims->list.count > 0);
	return named && (op == OP_SUM || op == OP_MEAN || op == OP_MAX || op == OP_MIN);
}

/* Factors of two dims each: the batch is new. */
static bool multiplies(const Batch *x, NodeId n) {
	bool all = node_get(x->m, n)->op == OP_DOT && rank_of(x, n) == 2;
	for (uint32_t i = 0; all && i < 3; i++)
		all = node_input(x->m, n, i) == NONE || input_has(x, n, i);
	return all;
}

static bool structures(const Batch *x, NodeId n) {
	switch (node_get(x->m, n)->op) {
	case OP_PLACEHOLDER:
	case OP_GETITEM: return true;
	case OP_NEW_VAR: return any_arg_has(x, n);
	case OP_PHI: return input_has(x, n, 0) && input_has(x, n, 1);
	default: return false;
	}
}

static bool value_can(const Batch *x, NodeId n) {
	const Type *t = node_type(x->m, n);
	if (t->kind != TYPE_TENSOR || t->count == 0 || t->count == RANK_MAX)
		return false;
	switch (op_kind(x->m, n)) {
	case KIND_POINTWISE: return meets(x, n);
	case KIND_VIEW: return input_has(x, n, 0) && views(x, n);
	case KIND_REDUCTION: return input_has(x, n, 0) && reduces(x, n);
	case KIND_MATMUL: return multiplies(x, n);
	case KIND_CREATION: return node_get(x->m, n)->op == OP_FULL && node_arg(x->m, n, 0)->kind == ARG_LIST;
	case KIND_MEMORY: return accesses(x, n);
	case KIND_STRUCTURE: return structures(x, n);
	default: return false;
	}
}

/* The position is asked for in the indices of loads and stores alone. */
static bool position_can(const Batch *x, NodeId n) {
	bool all = true;
	for (ArgId u = node_uses(x->m, n); u != NONE && all; u = arg_get(x->m, u)->next_use) {
		NodeId user = arg_get(x->m, u)->user;
		uint16_t op = node_get(x->m, user)->op;
		all = (op == OP_LOAD || op == OP_STORE) && position_entry(x, user) != NONE;
	}
	return all;
}

/* Bounds are those of all, and what is stored lies where each is. */
static bool effect_can(const Batch *x, NodeId n) {
	const Module *m = x->m;
	uint16_t op = node_get(m, n)->op;
	if (op == OP_FOR_LOOP)
		return !arg_has(x, node_arg(m, n, 1)) && !arg_has(x, node_arg(m, n, 2));
	return op == OP_STORE && input_has(x, n, 2) ? accesses(x, n)
	                                            : !any_arg_has(x, n) && position_entry(x, n) == NONE;
}

static bool node_can(const Batch *x, NodeId n) {
	const Module *m = x->m;
	uint16_t op = node_get(m, n)->op;
	if (is_position(x, n))
		return position_can(x, n);
	if (op_kind(m, n) == KIND_QUERY || op == OP_SYMNODE)
		return arg_block(m, node_arg(m, n, 0)) != x->block;
	if (op == OP_FOR_LOOP || op_writes(op))
		return effect_can(x, n);
	return op == OP_OUTPUT || !x->has[n] || value_can(x, n);
}

static bool graphs_can(const Module *m) {
	bool all = !m->mesh_axis;
	for (GraphId g = 0; g < m->graphs.count; g++)
		all = all && (graph_get(m, g)->kind == GRAPH_ROOT || graph_get(m, g)->kind == GRAPH_FOR_LOOP);
	return all;
}

static bool is_batch(Batch *x) {
	Module *m = x->m;
	const Block *block = &m->blocks.at[x->block];
	if (!block_is_position(m, x->block) || (block->begin != NONE && !expr_is_int(m, block->begin, 0)) ||
	    !graphs_can(m))
		return false;
	find_values(x);
	for (NodeId n = 0; n < m->nodes.count; n++)
		if (!node_get(m, n)->dead && !node_can(x, n)) {
			x->at = n;
			return false;
		}
	return true;
}

bool block_is_position(const Module *m, BlockId b) { return expr_is_int(m, m->blocks.at[b].size, 1); }

bool positions_may_batch(Module *m, BlockId b, int64_t most_rows) {
	Batch x = {.m = m, .block = b, .at = NONE};
	if (!is_batch(&x))
		return false;
	for (NodeId n = 0; n < m->nodes.count; n++) {
		int64_t rows;
		bool inside = !node_get(m, n)->dead && graph_get(m, node_get(m, n)->graph)->kind == GRAPH_FOR_LOOP;
		if (inside && x.has[n] && op_kind(m, n) == KIND_MATMUL &&
		    expr_value(m, node_type(m, n)->dims[0], &rows) && rows <= most_rows)
			return true;
	}
	return false;
}

/* ---- the rewrite ------------------------------------------------------------------------------------------------- */

/* A list with one item more in front. */
static void put_first(Module *m, NodeId n, uint32_t arg, Arg item) {
	const Arg *old = node_arg(m, n, arg);
	uint32_t count = old->list.count;
	Arg *items = arena_array(m->arena, (size_t)count + 1, sizeof *items);
	items[0] = item;
	for (uint32_t i = 0; i < count; i++)
		items[i + 1] = arg_copy(m, *arg_item(m, node_arg(m, n, arg), i));
	arg_set(m, node_get(m, n)->arg_first + arg, arg_list(m, count + 1, items));
}

/* Dims that are counted from the first are one further. */
static void shift_dims(Module *m, ArgId slot) {
	Arg a = *arg_get(m, slot);
	if (a.kind == ARG_INT && a.integer >= 0)
		arg_set(m, slot, arg_int(a.integer + 1));
	for (uint32_t i = 0; a.kind == ARG_LIST && i < a.list.count; i++)
		shift_dims(m, a.list.first + i);
}

static void shift_arguments(Module *m, NodeId n, BlockId b) {
	uint16_t op = node_get(m, n)->op;
	ArgId first = node_get(m, n)->arg_first;
	switch (op) {
	case OP_SUBSCRIPT: put_first(m, n, 1, arg_whole(m)); break;
	case OP_VIEW:
	case OP_RESHAPE:
	case OP_UNSAFE_VIEW:
	case OP_EXPAND: put_first(m, n, 1, arg_sym(expr_block(m, b))); break;
	case OP_FULL: put_first(m, n, 0, arg_sym(expr_block(m, b))); break;
	case OP_PERMUTE:
		shift_dims(m, first + 1);
		put_first(m, n, 1, arg_int(0));
		break;
	case OP_TRANSPOSE: shift_dims(m, first + 2); /* FALLTHROUGH */
	case OP_UNSQUEEZE: shift_dims(m, first + 1); break;
	default:
		if (op_kind(m, n) == KIND_REDUCTION)
			shift_dims(m, first + op_param_index(op, "dim"));
	}
}

static TypeId with_dim(Module *m, TypeId type, BlockId b) {
	Type t = *type_get(m, type);
	ExprId dims[RANK_MAX] = {expr_block(m, b)};
	for (uint32_t i = 0; i < t.count; i++)
		dims[i + 1] = t.dims[i];
	return type_tensor(m, t.dtype, t.count + 1, dims);
}

static void make_tile(Module *m, NodeId position, BlockId b) {
	node_get(m, position)->op = OP_SYMNODE;
	node_set_type(m, position, type_sym(m, DTYPE_I32, expr_block(m, b)));
}

static void change(Batch *x, NodeId n) {
	Module *m = x->m;
	if (node_get(m, n)->op == OP_FOR_LOOP) {
		const Arg *results = graph_results(m, node_arg(m, n, 0)->graph);
		for (uint32_t i = 0; results->kind == ARG_LIST && i < results->list.count; i++)
			if (arg_has(x, arg_item(m, results, i)))
				node_set_result_type(m, n, i, with_dim(m, node_type(m, n)->elements[i], x->block));
	} else if (is_position(x, n)) {
		make_tile(m, n, x->block);
	} else if (x->has[n]) {
		shift_arguments(m, n, x->block);
		node_set_type(m, n, with_dim(m, node_get(m, n)->type, x->block));
	}
}

static bool batch(PassContext *c, BlockId b) {
	Module *m = c->module;
	Batch x = {.m = m, .block = b, .at = NONE};
	uint32_t count = m->nodes.count;
	if (!is_batch(&x)) {
		diag_error(c->diag, graph_place(m, c->diag, module_root(m, 0)), "unsupported", NULL,
		           "'%s' is a single position of the grid, not %lld", m->blocks.at[b].name,
		           (long long)m->block_size.at[b]);
		return false;
	}
	m->blocks.at[b].size = expr_int(m, m->block_size.at[b]);
	for (NodeId n = 0; n < count; n++)
		if (!node_get(m, n)->dead)
			change(&x, n);
	pass_remark(c, "batch", "%s: %lld positions of the grid at a time", m->blocks.at[b].name,
	            (long long)m->block_size.at[b]);
	return true;
}

/* What no store depends on speaks against nothing: so it was asked (choose_sizes.c), and so it must be here. */
bool pass_batch(PassContext *c) {
	Module *m = c->module;
	for (BlockId b = 0; b < m->enlarged.count; b++)
		if (m->enlarged.at[b].size > 1 && block_is_position(m, b) && (!pass_dce(c) || !batch(c, b)))
			return false;
	return true;
}
