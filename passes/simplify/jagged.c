/* jagged.c - loops whose rows have lengths become loops with masks.
 *
 * What: the loop's end is that of its longest row already; what the format keeps inside each row says so itself from
 * here on: a load or store gets one more extra_mask, what tile.mask_to masks is chosen before it, the value of an
 * atomic becomes the one that changes nothing. Only values over all dims of the lengths have rows. Why on a TPU:
 * everything that is known of loops with a computed end holds, and a mask is two instructions a register.
 *
 *     g(n), lengths 0:               g(n):
 *       x = load x[u0, u1]     =>      inside = index u1 < n[:, None]
 *                                      x = load x[u0, u1], inside
 */
#include "simplify.h"

typedef struct Jagged {
	Decompose d;
	BlockId block;
	NodeId *lengths; /* by GraphId: their value there; NONE: nothing asked for it yet */
} Jagged;

/* The dims of what a node works on, each by the block that it is a tile of; NONE. */
typedef struct Labels {
	uint32_t rank;
	ExprId dims[RANK_MAX];
} Labels;

static bool refuse(const Jagged *j, NodeId n, const char *why) {
	diag_error(j->d.c->diag, node_place(j->d.m, j->d.c->diag, n), "unsupported", NULL,
	           "%s of a jagged loop is not lowered: %s", node_get(j->d.m, n)->name, why);
	return false;
}

static NodeId lengths_in(Jagged *j, GraphId g) {
	if (j->lengths[g] == NONE) {
		NodeId outer = lengths_in(j, graph_parent(j->d.m, g));
		j->lengths[g] = graph_add_argument(j->d.m, g, outer, "lengths");
	}
	return j->lengths[g];
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

static uint32_t label_of(const Module *m, const Labels *l, BlockId b) {
	for (uint32_t i = 0; i < l->rank; i++)
		if (expr_as_block(m, l->dims[i]) == b)
			return i;
	return NONE;
}

/* A value whose dims lie along these of the labels: x[:, None]. */
static NodeId make_along(Jagged *j, NodeId x, const bool *along, uint32_t first, uint32_t rank) {
	Module *m = j->d.m;
	Arg entries[RANK_MAX], args[2] = {arg_ref(x)};
	if (rank == first + node_type(m, x)->count)
		return x;
	for (uint32_t i = first; i < rank; i++)
		entries[i - first] = along[i] ? arg_whole(m) : arg_null();
	args[1] = arg_list(m, rank - first, entries);
	return make_node(&j->d, OP_SUBSCRIPT, "along", 2, args);
}

/* The lengths along the dims that are theirs. NONE: not all of them are there, or not in this order. */
static NodeId lengths_along(Jagged *j, GraphId g, const Labels *l, bool *ordered) {
	Module *m = j->d.m;
	Type t = *node_type(m, lengths_in(j, g));
	bool along[RANK_MAX] = {false};
	uint32_t last = 0, first = l->rank;
	for (uint32_t i = 0; i < t.count; i++) {
		uint32_t at = label_of(m, l, expr_as_block(m, t.dims[i]));
		if (at == NONE)
			return NONE;
		*ordered = *ordered && (i == 0 || at > last);
		first = i == 0 ? at : first;
		last = at;
		along[at] = true;
	}
	NodeId n = make_converted(&j->d, lengths_in(j, g), DTYPE_I32);
	return *ordered ? make_along(j, n, along, first, l->rank) : NONE;
}

/* The lanes of d.n inside their rows, in *mask; NONE: it has no rows. */
static bool row_mask(Jagged *j, const Labels *l, NodeId *mask) {
	Module *m = j->d.m;
	GraphId g = node_get(m, j->d.n)->graph;
	bool ordered = true;
	*mask = NONE;
	if (label_of(m, l, j->block) == NONE)
		return true;
	NodeId ends = lengths_along(j, g, l, &ordered);
	if (!ordered)
		return refuse(j, j->d.n, "its dims stand in another order than those of the lengths");
	for (uint32_t i = 0; ends != NONE && i < l->rank; i++) {
		if (expr_as_block(m, l->dims[i]) != j->block)
			continue;
		bool along[RANK_MAX] = {false};
		Arg tile = {.kind = ARG_BLOCK, .block = j->block};
		along[i] = true;
		NodeId index = make_node(&j->d, OP_TILE_INDEX, "index", 1, &tile);
		index = make_along(j, index, along, 0, l->rank);
		NodeId inside = make_binary(&j->d, OP_LT, "inside", index, arg_ref(ends));
		*mask = make_and(&j->d, "inside", *mask, inside);
	}
	return true;
}

/* ---- what is kept inside ----------------------------------------------------------------------------------------- */

static Labels labels_of_value(const Module *m, NodeId x) {
	const Type *t = node_type(m, x);
	Labels l = {.rank = t->count};
	memcpy(l.dims, t->dims, t->count * sizeof *t->dims);
	return l;
}

/* Of what a store or atomic writes: false where several int tensors say where. */
static bool labels_of_region(const Module *m, NodeId n, Labels *l) {
	const Arg *index = node_arg(m, n, 1);
	uint32_t gathers = 0;
	for (uint32_t i = 0; i < index->list.count; i++) {
		const Arg *entry = arg_item(m, index, i);
		if (entry_gathers(m, entry)) {
			const Type *t = node_type(m, entry->node);
			if (gathers++) /* the dims of several would be more than there are */
				return false;
			for (uint32_t k = 0; k < t->count; k++)
				l->dims[l->rank++] = t->dims[k];
		} else if (entry_is_dim(m, entry)) {
			BlockId b = arg_block(m, entry);
			l->dims[l->rank++] = b == NONE ? NONE : expr_block((Module *)m, b);
		}
	}
	return true;
}

static void add_mask(Jagged *j, uint32_t param, NodeId mask) {
	Module *m = j->d.m;
	NodeId old = node_input(m, j->d.n, param);
	NodeId all = old == NONE ? mask : make_binary(&j->d, OP_LOGICAL_AND, "both", mask, arg_ref(old));
	arg_set(m, node_get(m, j->d.n)->arg_first + param, arg_ref(all));
}

static Arg number_for(Dtype t, const Arg *value) {
	bool whole = value->kind == ARG_INT || value->kind == ARG_BOOL;
	if (t == DTYPE_BOOL)
		return arg_bool(value->kind == ARG_BOOL ? value->boolean
		                : whole                 ? value->integer != 0
		                                        : value->real != 0);
	if (value->kind == ARG_BOOL)
		return number_of_dtype(t, value->boolean);
	return whole || dtype_is_float(t) ? *value : number_of_dtype(t, (int64_t)value->real);
}

static bool mask_value(Jagged *j) {
	Module *m = j->d.m;
	Labels l = labels_of_value(m, j->d.n);
	NodeId mask, x = node_input(m, j->d.n, 0);
	if (!row_mask(j, &l, &mask) || mask == NONE)
		return mask == NONE;
	Arg value = number_for(node_type(m, x)->dtype, node_arg(m, j->d.n, 1));
	arg_set(m, node_get(m, j->d.n)->arg_first, arg_ref(make_where(&j->d, "inside", mask, arg_ref(x), value)));
	return true;
}

static bool mask_written(Jagged *j) {
	Module *m = j->d.m;
	Labels l = {0};
	NodeId mask, n = j->d.n;
	if (!labels_of_region(m, n, &l))
		return refuse(j, n, "several tensors of ints say where it writes");
	if (!row_mask(j, &l, &mask) || mask == NONE)
		return mask == NONE;
	if (node_get(m, n)->op == OP_STORE)
		add_mask(j, 3, mask);
	else if (!atomic_has_identity(m, n) || node_uses(m, n) != NONE)
		return refuse(j, n, "no value leaves what is there as it is, or the old value is read");
	else
		atomic_guard(&j->d, n, mask);
	return true;
}

static bool mask_node(Jagged *j) {
	uint16_t op = node_get(j->d.m, j->d.n)->op;
	if (op == OP_MASK_TO)
		return mask_value(j);
	if (op_writes(op))
		return mask_written(j);
	if (op != OP_LOAD)
		return true;
	Labels l = labels_of_value(j->d.m, j->d.n);
	NodeId mask;
	if (!row_mask(j, &l, &mask))
		return false;
	if (mask != NONE)
		add_mask(j, 2, mask);
	return true;
}

static bool mask_graph(Jagged *j, GraphId g) {
	Module *m = j->d.m;
	bool ok = true;
	for (NodeId n = graph_first(m, g); n != NONE && ok; n = node_get(m, n)->next) {
		GraphId graphs[2];
		j->d.n = n;
		ok = mask_node(j);
		for (uint32_t i = 0, count = call_graphs(m, n, graphs); ok && i < count; i++)
			ok = mask_graph(j, graphs[i]);
	}
	return ok && !j->d.failed;
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static bool lengths_are_rows(Jagged *j, NodeId call, NodeId lengths) {
	const Type *t = node_type(j->d.m, lengths);
	if (t->dtype == DTYPE_U32)
		return refuse(j, call, "lengths of uint32");
	for (uint32_t i = 0; i < t->count; i++)
		if (expr_as_block(j->d.m, t->dims[i]) == NONE)
			return refuse(j, call, "its lengths are not over tiles of the loops around it");
	return graph_get(j->d.m, loop_body(j->d.m, call))->blocks.count == 1 ||
	       refuse(j, call, "it runs over several dims");
}

static bool mask_loop(PassContext *c, GraphId g) {
	Module *m = c->module;
	NodeId call = graph_get(m, g)->caller;
	Graph *graph = graph_get(m, g);
	Jagged j = {.d = {.c = c, .m = m}, .block = graph->blocks.at[0]};
	j.lengths = arena_array(c->arena, (size_t)m->graphs.count + 1, sizeof *j.lengths);
	for (GraphId i = 0; i < m->graphs.count; i++)
		j.lengths[i] = NONE;
	const Arg *given = arg_item(m, loop_args(m, call), graph->lengths);
	NodeId lengths = given->kind == ARG_REF ? given->node : NONE;
	if (lengths == NONE || !lengths_are_rows(&j, call, lengths))
		return lengths != NONE || refuse(&j, call, "its lengths are no tensor");
	j.lengths[node_get(m, call)->graph] = lengths;
	if (graph_carried_output(graph, graph->lengths) == NONE)
		j.lengths[g] = graph->placeholders.at[graph->lengths];
	graph->lengths = NONE;
	pass_remark(c, "jagged", "%s: rows are masked after their lengths", node_get(m, call)->name);
	return mask_graph(&j, g);
}

bool pass_jagged(PassContext *c) {
	Module *m = c->module;
	for (GraphId g = 0; g < m->graphs.count; g++)
		if (graph_get(m, g)->lengths != NONE && graph_get(m, g)->caller != NONE && !mask_loop(c, g))
			return false;
	return true;
}
