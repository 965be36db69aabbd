/* whole_rows.c - loops over the columns of rows become the rows whole: what roll.c does, backwards.
 *
 * What: where all loops of a root run over one block, from the first column to the last, and what they carry comes to
 * the same over the whole row at once, their bodies stand in the root, on tiles of all columns:
 *
 *     l = for_loop g, [0], [n], [-inf, 0]              m' = maximum -inf, amax(x[r, :])
 *         m' = maximum m, amax(x[r, t])                s' = 0 * exp(-inf - m') + sum(exp(x[r, :] - m'))
 *         s' = s * exp(m - m')                    =>   store out[r, :], exp(x[r, :] - m') / s'
 *              + sum(exp(x[r, t] - m'))
 *     for_loop h, [0], [n], [l.0, l.1]
 *         store out[r, t], exp(x[r, t] - m) / s
 *
 * A sum, a maximum and a minimum may be carried, and a sum of exponentials of what lies below a maximum that is carried
 * beside it: exp(x - m) * exp(m - m') is exp(x - m'). All else is computed for each column by itself.
 *
 * Why on a TPU: a step of such a loop reduces along lanes, and waits for it, and every value is exponentiated once for
 * the sum and once for the result. Of whole rows equal nodes are one (cse.c), and strips of columns (strips.c) reduce
 * once. Which is faster is chosen by compiling both (src/driver/choose.c). `on` leaves nothing to choose but how many
 * rows there are in a block. */
#include "rows.h"

/* A loop of more columns is not joined: strips of them are straight code. */
enum { MOST_COLUMNS = 32768 };

typedef struct Whole {
	PassContext *c;
	Module *m;
	GraphId root;
	BlockId block; /* of the loops; NONE before the first one */
	int64_t columns;
	VEC(NodeId) calls;
	bool *carried; /* by NodeId: it depends on what its loop carries */
	bool *known;   /* by NodeId: it does so in a way that whole rows give as well, or is reduced into what does */
	Map inside;    /* node of a loop -> its copy in the root */
} Whole;

/* ---- the loops --------------------------------------------------------------------------------------------------- */

static bool is_const_list(const Module *m, const Arg *list, int64_t *value) {
	if (list->kind != ARG_LIST || list->list.count != 1 || arg_item(m, list, 0)->kind != ARG_INT)
		return false;
	*value = arg_item(m, list, 0)->integer;
	return true;
}

static bool add_call(Whole *w, NodeId call) {
	Module *m = w->m;
	GraphId g = loop_body(m, call);
	int64_t begin, end;
	if (graph_get(m, g)->kind != GRAPH_FOR_LOOP || graph_get(m, g)->blocks.count != 1 ||
	    graph_get(m, g)->lengths != NONE || !is_const_list(m, node_arg(m, call, 1), &begin) ||
	    !is_const_list(m, node_arg(m, call, 2), &end) || begin != 0)
		return false;
	BlockId b = graph_get(m, g)->blocks.at[0];
	const Arg *args = loop_args(m, call);
	for (uint32_t i = 0; i < args->list.count; i++)
		if (arg_item(m, args, i)->kind != ARG_REF)
			return false;
	if (w->block != NONE && (b != w->block || end != w->columns))
		return false;
	w->block = b;
	w->columns = end;
	vec_push(w->c->arena, &w->calls, call);
	return block_is_chosen(&m->blocks.at[b]);
}

/* One root over rows, and nothing but loops over the same columns in it. */
static bool find_loops(Whole *w) {
	Module *m = w->m;
	w->root = module_root(m, 0);
	if (w->root == NONE || module_root(m, 1) != NONE || graph_get(m, w->root)->blocks.count != 1)
		return false;
	for (NodeId n = graph_first(m, w->root); n != NONE; n = node_get(m, n)->next)
		if (node_get(m, n)->op == OP_FOR_LOOP && !add_call(w, n))
			return false;
	bool all = w->calls.count > 0 && m->graphs.count == w->calls.count + 1;
	return all && w->columns % m->target->lanes == 0 && w->columns <= MOST_COLUMNS &&
	       w->columns > m->block_size.at[w->block] && w->block != graph_get(m, w->root)->blocks.at[0];
}

/* ---- what a node may be ------------------------------------------------------------------------------------------ */

static bool is_block(const Whole *w, const Arg *a) {
	return (a->kind == ARG_SYM && expr_as_block(w->m, a->expr) == w->block) ||
	       (a->kind == ARG_BLOCK && a->block == w->block);
}

/* The block stands alone, as a size, or nowhere. */
static bool is_plain_arg(const Whole *w, const Arg *a) {
	if (a->kind == ARG_SYM && expr_as_block(w->m, a->expr) == NONE && w->m->exprs.at[a->expr].kind != EXPR_INT)
		return false;
	for (uint32_t i = 0; arg_is_list(a) && i < a->list.count; i++)
		if (!is_plain_arg(w, arg_item(w->m, a, i)))
			return false;
	return a->kind != ARG_GRAPH;
}

static bool has_columns(const Whole *w, NodeId n) { return node_has_block(w->m, n, w->block); }

static bool names_block(const Whole *w, const Arg *list) {
	bool any = false;
	for (uint32_t i = 0; list->kind == ARG_LIST && i < list->list.count; i++)
		any = any || is_block(w, arg_item(w->m, list, i));
	return any;
}

static bool is_plain_access(const Whole *w, NodeId n) {
	const Arg *index = node_arg(w->m, n, 1);
	bool store = node_get(w->m, n)->op == OP_STORE;
	for (uint32_t i = 0; index->kind == ARG_LIST && i < index->list.count; i++)
		if (arg_item(w->m, index, i)->kind == ARG_REF)
			return false;
	return op_arg(w->m, n, "extra_mask")->kind == ARG_NULL && (!store || names_block(w, index));
}

static bool is_reduction(uint16_t op) {
	uint16_t to = op_canonical(op);
	return to == OP_SUM || to == OP_MAX || to == OP_MIN;
}

/* Names of sizes that const_fold.c put in their places. */
static bool is_unread(const Whole *w, NodeId n) {
	uint16_t op = node_get(w->m, n)->op;
	return node_uses(w->m, n) == NONE && op != OP_STORE && op != OP_OUTPUT && op != OP_PLACEHOLDER;
}

static bool may_stand(const Whole *w, NodeId n) {
	uint16_t op = node_get(w->m, n)->op;
	OpKind kind = op_kind(w->m, n);
	for (uint32_t i = 0; i < node_get(w->m, n)->arg_count; i++)
		if (!is_plain_arg(w, node_arg(w->m, n, i)))
			return false;
	if (op == OP_LOAD || op == OP_STORE)
		return is_plain_access(w, n);
	return op == OP_PLACEHOLDER || op == OP_OUTPUT || op == OP_HOST_TENSOR || op == OP_SCALAR || op == OP_FULL ||
	       op == OP_SUBSCRIPT || op == OP_UNSQUEEZE || kind == KIND_POINTWISE ||
	       (kind == KIND_REDUCTION && is_reduction(op) && w->known[n]);
}

/* ---- what is carried --------------------------------------------------------------------------------------------- */

static NodeId without(const Whole *w, NodeId n, uint16_t op) {
	while (n != NONE && node_get(w->m, n)->op == op)
		n = node_input(w->m, n, 0);
	return n;
}

static bool is_op(const Whole *w, NodeId n, uint16_t op) {
	if (n == NONE || node_get(w->m, n)->op != op)
		return false;
	const Arg *alpha = op_arg(w->m, n, "alpha");
	return alpha->kind == ARG_NULL || (alpha->kind == ARG_INT && alpha->integer == 1) ||
	       (alpha->kind == ARG_FLOAT && alpha->real == 1);
}

static bool is_reduced(const Whole *w, NodeId n, uint16_t how) {
	if (n == NONE || op_kind(w->m, n) != KIND_REDUCTION || op_canonical(node_get(w->m, n)->op) != how ||
	    node_use_count(w->m, n) != 1)
		return false;
	NodeId x = node_input(w->m, n, 0);
	return has_columns(w, x) && !has_columns(w, n);
}

/* o is `op` of the placeholder, or of `other`, and another value: that one; NONE. */
static NodeId other_operand(const Whole *w, NodeId o, uint16_t op, NodeId one) {
	if (!is_op(w, o, op))
		return NONE;
	NodeId a = node_input(w->m, o, 0), b = node_input(w->m, o, 1);
	return a == one ? b : b == one ? a : NONE;
}

static NodeId result_of(const Whole *w, GraphId g, uint32_t k) {
	const Carried *x = &graph_get(w->m, g)->carried.at[k];
	const Arg *a = arg_item(w->m, graph_results(w->m, g), x->output);
	return a->kind == ARG_REF ? a->node : NONE;
}

static NodeId placeholder_of(const Whole *w, GraphId g, uint32_t k) {
	return graph_get(w->m, g)->placeholders.at[graph_get(w->m, g)->carried.at[k].arg];
}

/* The greatest or the least so far, or a sum of what does not depend on it. */
static bool is_gathered(Whole *w, NodeId o, NodeId was) {
	static const uint16_t ops[][2] = {{OP_MAXIMUM, OP_MAX}, {OP_MINIMUM, OP_MIN}, {OP_ADD, OP_SUM}};
	for (uint32_t i = 0; i < sizeof ops / sizeof *ops; i++) {
		NodeId part = other_operand(w, o, ops[i][0], was);
		if (!is_reduced(w, part, ops[i][1]) || w->carried[part])
			continue;
		w->known[o] = w->known[part] = true;
		return true;
	}
	return false;
}

/* exp(x - m), or a column of m: what it is of; NONE. Each node of it is known then. */
static NodeId lowered_by(Whole *w, NodeId e, NodeId m, bool commit) {
	bool power = e != NONE && (node_get(w->m, e)->op == OP_EXP || node_get(w->m, e)->op == OP_EXP2);
	NodeId sub = power ? node_input(w->m, e, 0) : NONE;
	if (!is_op(w, sub, OP_SUB))
		return NONE;
	NodeId by = node_input(w->m, sub, 1);
	for (; by != NONE && (node_get(w->m, by)->op == OP_SUBSCRIPT || node_get(w->m, by)->op == OP_UNSQUEEZE);
	     by = node_input(w->m, by, 0))
		w->known[by] = w->known[by] || commit;
	if (by != m)
		return NONE;
	w->known[e] = w->known[e] || commit;
	w->known[sub] = w->known[sub] || commit;
	return node_input(w->m, sub, 0);
}

/* s * exp(m - m') + sum(exp(x - m')), of the maximum m' that is carried as k. */
static bool is_rescaled(Whole *w, GraphId g, NodeId o, NodeId was, uint32_t k) {
	Module *m = w->m;
	NodeId most = result_of(w, g, k);
	if (!is_op(w, most, OP_MAXIMUM) || !w->known[most] || !is_op(w, o, OP_ADD))
		return false;
	for (uint32_t i = 0; i < 2; i++) {
		NodeId scaled = node_input(m, o, i), part = node_input(m, o, 1 - i);
		NodeId factor = other_operand(w, scaled, OP_MUL, was);
		if (!is_reduced(w, part, OP_SUM) || lowered_by(w, factor, most, false) != placeholder_of(w, g, k))
			continue;
		NodeId masked = node_input(m, part, 0), e = without(w, masked, OP_MASK_TO);
		NodeId x = lowered_by(w, e, most, false);
		if (x == NONE || w->carried[x] || node_get(m, e)->op != node_get(m, factor)->op)
			continue;
		lowered_by(w, factor, most, true);
		lowered_by(w, e, most, true);
		for (NodeId n = masked; n != e; n = node_input(m, n, 0))
			w->known[n] = true;
		w->known[o] = w->known[scaled] = w->known[part] = true;
		return true;
	}
	return false;
}

static void mark_carried(Whole *w, GraphId g) {
	Module *m = w->m;
	for (uint32_t k = 0; k < graph_get(m, g)->carried.count; k++)
		w->carried[placeholder_of(w, g, k)] = w->known[placeholder_of(w, g, k)] = true;
	for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next)
		for (uint32_t i = 0; i < node_get(m, n)->arg_count; i++) {
			NodeId x = node_input(m, n, i);
			w->carried[n] = w->carried[n] || (x != NONE && w->carried[x]);
		}
}

static bool loop_is_whole(Whole *w, GraphId g) {
	Module *m = w->m;
	mark_carried(w, g);
	uint32_t count = graph_get(m, g)->carried.count, found = 0;
	for (uint32_t k = 0; k < count; k++)
		found += result_of(w, g, k) != NONE && is_gathered(w, result_of(w, g, k), placeholder_of(w, g, k));
	for (uint32_t k = 0; k < count; k++) {
		bool any = result_of(w, g, k) == NONE || w->known[result_of(w, g, k)];
		for (uint32_t i = 0; i < count && !any; i++) {
			any = i != k && is_rescaled(w, g, result_of(w, g, k), placeholder_of(w, g, k), i);
			found += any;
		}
	}
	bool whole = found == count && count == graph_result_count(m, g);
	for (NodeId n = graph_first(m, g); n != NONE && whole; n = node_get(m, n)->next)
		whole = is_unread(w, n) ||
		        (may_stand(w, n) && (!w->carried[n] || w->known[n] || node_get(m, n)->op == OP_OUTPUT));
	return whole;
}

/* No step reads what another one stores, and memory is only loaded and stored. */
static bool memory_is_plain(const Whole *w) {
	Module *m = w->m;
	bool *stored = arena_array(w->c->arena, m->tensors.count + 1, sizeof *stored);
	for (int loads = 0; loads < 2; loads++)
		for (NodeId n = 0; n < m->nodes.count; n++) {
			uint16_t op = node_get(m, n)->op;
			if (node_get(m, n)->dead || op_kind(m, n) != KIND_MEMORY)
				continue;
			TensorId t = access_tensor(m, n) == NONE ? NONE : tensor_base(m, access_tensor(m, n));
			if ((op != OP_LOAD && op != OP_STORE) || t == NONE || (op == OP_LOAD && loads && stored[t]))
				return false;
			stored[t] = stored[t] || op == OP_STORE;
		}
	return true;
}

static bool carries_any(const Whole *w) {
	bool any = false;
	for (uint32_t i = 0; i < w->calls.count; i++)
		any = any || graph_get(w->m, loop_body(w->m, w->calls.at[i]))->carried.count;
	return any;
}

/* ---- the rewrite ------------------------------------------------------------------------------------------------- */

static void point_outside(Whole *w, ArgId slot, bool index) {
	Module *m = w->m;
	Arg a = *arg_get(m, slot);
	if (a.kind == ARG_REF)
		arg_set_ref(m, slot, map_get(&w->inside, a.node));
	else if (is_block(w, &a))
		arg_set(m, slot, index ? arg_whole(m) : arg_int(w->columns));
	for (uint32_t i = 0; arg_is_list(&a) && i < a.list.count; i++)
		point_outside(w, a.list.first + i, index);
}

static void copy_out(Whole *w, NodeId n, NodeId call) {
	Module *m = w->m;
	NodeId copy = node_copy(m, n, call);
	for (uint32_t i = 0; i < node_get(m, copy)->arg_count; i++)
		point_outside(w, node_get(m, copy)->arg_first + i, op_kind(m, n) == KIND_MEMORY && i == 1);
	Type t = *node_type(m, copy);
	for (uint32_t i = 0; t.kind == TYPE_TENSOR && i < t.count; i++)
		if (expr_as_block(m, t.dims[i]) == w->block)
			t.dims[i] = expr_int(m, w->columns);
	if (t.kind == TYPE_TENSOR)
		node_set_type(m, copy, type_tensor(m, t.dtype, t.count, t.dims));
	map_put(m->arena, &w->inside, n, copy);
}

static void inline_loop(Whole *w, NodeId call) {
	Module *m = w->m;
	GraphId g = loop_body(m, call);
	for (uint32_t i = 0; i < graph_get(m, g)->placeholders.count; i++)
		map_put(m->arena, &w->inside, graph_get(m, g)->placeholders.at[i],
		        arg_item(m, loop_args(m, call), i)->node);
	for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next)
		if (!is_unread(w, n) && node_get(m, n)->op != OP_PLACEHOLDER && node_get(m, n)->op != OP_OUTPUT)
			copy_out(w, n, call);
	for (NodeId n = graph_first(m, w->root), next; n != NONE; n = next) {
		next = node_get(m, n)->next;
		if (node_get(m, n)->op != OP_GETITEM || node_input(m, n, 0) != call)
			continue;
		const Arg *result = arg_item(m, graph_results(m, g), (uint32_t)node_arg(m, n, 1)->integer);
		node_replace_uses(m, n, map_get(&w->inside, result->node), NONE);
		node_remove(m, n);
	}
}

static void rewrite(Whole *w) {
	Module *m = w->m;
	bool *drop = arena_array(w->c->arena, m->graphs.count + 1, sizeof *drop);
	for (uint32_t i = 0; i < w->calls.count; i++) {
		inline_loop(w, w->calls.at[i]);
		drop[loop_body(m, w->calls.at[i])] = true;
	}
	module_drop_graphs(m, drop);
	m->settled = true;
	pass_remark(w->c, "whole_rows", "%s: the %u loops over %lld columns are the whole rows at once",
	            m->blocks.at[w->block].name, w->calls.count, (long long)w->columns);
}

/* Bytes of one row of the widest that is loaded. */
static int64_t row_bytes(const Whole *w) {
	int64_t most = 0;
	for (NodeId n = 0; n < w->m->nodes.count; n++)
		if (!node_get(w->m, n)->dead && node_get(w->m, n)->op == OP_LOAD && has_columns(w, n))
			most = int_max(most, w->columns * dtype_bits(node_type(w->m, n)->dtype) / 8);
	return most;
}

bool pass_whole_rows(PassContext *c) {
	Module *m = c->module;
	Whole w = {.c = c, .m = m, .block = NONE};
	w.carried = arena_array(c->arena, (size_t)m->nodes.count + 1, sizeof *w.carried);
	w.known = arena_array(c->arena, (size_t)m->nodes.count + 1, sizeof *w.known);
	if ((Switch)m->config.whole_rows.value == SWITCH_OFF || !find_loops(&w) || !carries_any(&w) ||
	    !memory_is_plain(&w))
		return true;
	for (uint32_t i = 0; i < w.calls.count; i++)
		if (!loop_is_whole(&w, loop_body(m, w.calls.at[i])))
			return true;
	m->row_bytes = row_bytes(&w);
	if (m->whole_rows || (Switch)m->config.whole_rows.value == SWITCH_ON)
		rewrite(&w);
	return true;
}
