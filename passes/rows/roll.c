/* roll.c - computes whole rows in blocks of columns.
 *
 * What: where a graph takes a tensor's whole dim (a `reduction` block id) and reduction_loops gives it a size, what has
 * that dim moves into loops over blocks of it. A reduction becomes a loop that carries what it has so far; what depends
 * on a finished reduction is computed in a later loop, which loads its blocks again. There are as many loops as the
 * longest chain of reductions needs, and one more if the row is written after it. Why on a TPU: a row of 1,048,576
 * float32 takes 4 MiB, and eight of them, the least that a tile has, half of the VMEM of a v7x.
 *
 *     x = load x[u0, :]                      m = reduction_loop over u1, [-inf]:
 *     m = amax x, 1                                acc = maximum acc, amax(load x[u0, u1])
 *     w = exp(x - m)                  =>     s = reduction_loop over u1, [0]:
 *     s = sum w, 1                                 acc = acc + sum exp(load x[u0, u1] - m)
 *     store y[u0, :], w / s                  reduction_loop over u1:
 *                                                  store y[u0, u1], exp(load x[u0, u1] - m) / s
 *
 * Without reduction_loops a row is rolled where no tile of whole rows fits VMEM: roll_choose(). */
#include "roll.h"
#include "rows.h"
#include "passes/simplify/simplify.h"
#include "src/config/config.h"

/* ---- one row of one graph: what moves ---------------------------------------------------------------------------- */

static bool refuse(Roll *r, NodeId n, const char *why) {
	r->why = why;
	r->at = n;
	return false;
}

/* The level of what the argument refers to, once it is there. */
static uint32_t level_of(const Roll *r, const Arg *a) {
	uint32_t level = 0;
	if (a->kind == ARG_REF)
		return r->level[a->node] + (r->role[a->node] == ROLL_REDUCE);
	for (uint32_t i = 0; (a->kind == ARG_LIST || a->kind == ARG_SLICE) && i < a->list.count; i++)
		level = (uint32_t)int_max(level, level_of(r, arg_item(r->m, a, i)));
	return level;
}

static bool has_row_operand(const Roll *r, const Arg *a) {
	bool found = a->kind == ARG_REF && r->dim[a->node] != ROLL_NO_DIM;
	for (uint32_t i = 0; (a->kind == ARG_LIST || a->kind == ARG_SLICE) && i < a->list.count && !found; i++)
		found = has_row_operand(r, arg_item(r->m, a, i));
	return found;
}

static void classify(Roll *r, NodeId n) {
	bool row = false;
	for (uint32_t i = 0; i < node_get(r->m, n)->arg_count; i++) {
		const Arg *a = node_arg(r->m, n, i);
		r->level[n] = (uint32_t)int_max(r->level[n], level_of(r, a));
		row |= has_row_operand(r, a);
	}
	if (r->dim[n] != ROLL_NO_DIM)
		r->role[n] = op_writes(node_get(r->m, n)->op) ? ROLL_WRITE : ROLL_ROW;
	else if (row)
		r->role[n] = ROLL_REDUCE;
	if (r->role[n] == ROLL_REDUCE || r->role[n] == ROLL_WRITE)
		r->loops = (uint32_t)int_max(r->loops, r->level[n] + 1);
	r->reduces |= r->role[n] == ROLL_REDUCE;
}

static bool same_index(const Roll *r, NodeId a, NodeId b) {
	const Arg *x = node_arg(r->m, a, 1), *y = node_arg(r->m, b, 1);
	bool same = access_tensor(r->m, a) == access_tensor(r->m, b) && x->list.count == y->list.count;
	for (uint32_t i = 0; same && i < x->list.count; i++) {
		const Arg *p = arg_item(r->m, x, i), *q = arg_item(r->m, y, i);
		same = p->kind == q->kind && (p->kind == ARG_SLICE ||
		                              (arg_block(r->m, p) != NONE && arg_block(r->m, p) == arg_block(r->m, q)));
	}
	return same;
}

/* Loops load again what the graph loads once: a tensor that is written must hold then what it held before. It does if
 * one write, in the last loop, replaces just what the loads took, block by block. */
static bool writes_last(Roll *r, TensorId base, NodeId written) {
	for (NodeId n = graph_first(r->m, r->graph); n != NONE; n = node_get(r->m, n)->next) {
		uint16_t op = node_get(r->m, n)->op;
		if (n == written || (op != OP_LOAD && !op_writes(op)) || access_base(r->m, n) != base)
			continue;
		if (op_writes(op))
			return refuse(r, n, "the tensor is written twice");
		if (r->role[n] != ROLL_ROW || r->role[written] != ROLL_WRITE || !same_index(r, n, written))
			return refuse(r, n, "the tensor is written too, at another place");
	}
	return true;
}

static bool reads_before_writes(Roll *r) {
	Effects effects = effects_of(r->c->arena, r->m);
	for (NodeId n = graph_first(r->m, r->graph); n != NONE; n = node_get(r->m, n)->next) {
		GraphId called[2];
		if (op_writes(node_get(r->m, n)->op) && !writes_last(r, access_base(r->m, n), n))
			return false;
		for (uint32_t i = 0, count = call_graphs(r->m, n, called); i < count; i++)
			if (effects.graph[called[i]].written.count || effects.graph[called[i]].has_while)
				return refuse(r, n, "a loop or branch beside the row writes tensors of its own");
	}
	return true;
}

/* The nodes whose dims are of the set, and what moves where. */
static bool plan_roll(Roll *r, Axes *axes, uint32_t set) {
	const AxisFact *fact = &axes->fact[set];
	r->nodes = axes->nodes;
	r->dim = arena_array(r->c->arena, (size_t)r->nodes + 1, sizeof *r->dim);
	r->role = arena_array(r->c->arena, (size_t)r->nodes + 1, sizeof *r->role);
	r->level = arena_array(r->c->arena, (size_t)r->nodes + 1, sizeof *r->level);
	memset(r->dim, ROLL_NO_DIM, r->nodes);
	if (fact->why)
		return refuse(r, fact->at, fact->why);
	for (NodeId n = graph_first(r->m, r->graph); n != NONE; n = node_get(r->m, n)->next) {
		for (uint32_t d = 0; d < axis_rank(axes, n); d++) {
			if (axis_find(axes, axis_slot(n, d)) != set)
				continue;
			if (r->dim[n] != ROLL_NO_DIM)
				return refuse(r, n, "two of its dims are the row");
			r->dim[n] = (uint8_t)d;
		}
		classify(r, n);
	}
	return reads_before_writes(r);
}

/* ---- which rows -------------------------------------------------------------------------------------------------- */

/* The length of dim d: of a value, or of what a store names. */
static bool dim_length(Module *m, NodeId n, uint32_t d, int64_t *length) {
	if (!op_writes(node_get(m, n)->op))
		return expr_value(m, node_type(m, n)->dims[d], length);
	uint32_t entry = index_entry_of(m, n, d), at = 0;
	for (uint32_t i = 0; i < entry; i++)
		at += arg_item(m, node_arg(m, n, 1), i)->kind != ARG_NULL;
	return expr_value(m, m->tensors.at[access_tensor(m, n)].shape[at], length);
}

/* The first set, at or after node `from`, that is a whole dim of the block's length; NONE. */
static uint32_t next_row(Roll *r, Axes *axes, NodeId *from) {
	for (NodeId n = *from; n != NONE; n = node_get(r->m, n)->next) {
		uint16_t op = node_get(r->m, n)->op;
		for (uint32_t d = 0; (op == OP_LOAD || op_writes(op)) && d < axis_rank(axes, n); d++) {
			uint32_t set = axis_find(axes, axis_slot(n, d));
			int64_t length = 0;
			if (!axes->fact[set].accessed || !dim_length(r->m, n, d, &length) || length != r->extent)
				continue;
			*from = n;
			return set;
		}
	}
	return NONE;
}

/* Rolls the first row of the graph that can be. False if there is none; r->why says why one stays whole. */
static bool roll_one(Roll *r) {
	for (NodeId n = graph_first(r->m, r->graph); n != NONE; n = node_get(r->m, n)->next)
		if (op_is_remote(node_get(r->m, n)->op)) {
			refuse(r, n, "devices exchange parts in it");
			return false;
		}
	Axes axes = axes_of(r->c->arena, r->m, r->graph);
	NodeId from = graph_first(r->m, r->graph);
	for (uint32_t set; (set = next_row(r, &axes, &from)) != NONE; from = node_get(r->m, from)->next) {
		Roll one = *r;
		if (plan_roll(&one, &axes, set) && one.loops > 0) {
			roll_rewrite(&one);
			return true;
		}
		if (one.why && (axes.fact[set].reduced || !r->why))
			refuse(r, one.at, one.why);
	}
	return false;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static void write_out_arg(Module *m, ArgId slot, BlockId b, ExprId whole, bool index) {
	Arg a = *arg_get(m, slot);
	bool named = arg_block(m, &a) == b && a.kind != ARG_BLOCK;
	if (named && index) {
		arg_set(m, slot, arg_whole(m));
	} else if (named) {
		arg_set(m, slot, arg_int(m->exprs.at[whole].value));
	} else if (a.kind == ARG_SYM) {
		ExprId e = expr_sized(m, a.expr, b, whole);
		Expr x = m->exprs.at[e];
		if (e != a.expr)
			arg_set(m, slot, x.kind == EXPR_INT ? arg_int(x.value) : arg_sym(e));
	}
	for (uint32_t i = 0; arg_is_list(&a) && i < a.list.count; i++)
		write_out_arg(m, a.list.first + i, b, whole, index && a.kind == ARG_LIST);
}

static TypeId written_out_type(Module *m, TypeId type, BlockId b, ExprId whole) {
	Type t = *type_get(m, type);
	if (t.kind == TYPE_TENSOR) {
		for (uint32_t i = 0; i < t.count; i++)
			t.dims[i] = expr_sized(m, t.dims[i], b, whole);
		return type_tensor(m, t.dtype, t.count, t.dims);
	}
	if (t.kind != TYPE_TUPLE)
		return type;
	TypeId *elements = arena_array(m->arena, (size_t)t.count + 1, sizeof *elements);
	for (uint32_t i = 0; i < t.count; i++)
		elements[i] = written_out_type(m, t.elements[i], b, whole);
	return type_tuple(m, t.count, elements);
}

/* Where shapes and indices name the block, they mean its whole extent, as long as nothing iterates it. */
static void write_out_size(Module *m, BlockId b, int64_t extent) {
	ExprId whole = expr_int(m, extent);
	for (TensorId t = 0; t < m->tensors.count; t++)
		for (uint32_t i = 0; i < m->tensors.at[t].rank; i++)
			m->tensors.at[t].shape[i] = expr_sized(m, m->tensors.at[t].shape[i], b, whole);
	for (NodeId n = 0; n < m->nodes.count; n++) {
		bool indexes = op_kind(m, n) == KIND_MEMORY || op_lanes(node_get(m, n)->op) == LANES_INDEX;
		for (uint32_t i = 0; !node_get(m, n)->dead && i < node_get(m, n)->arg_count; i++)
			write_out_arg(m, node_get(m, n)->arg_first + i, b, whole, indexes && i == 1);
		if (!node_get(m, n)->dead)
			node_set_type(m, n, written_out_type(m, node_get(m, n)->type, b, whole));
	}
}

static bool roll_block(Roll *r) {
	bool rolled = false;
	write_out_size(r->m, r->block, r->extent);
	for (GraphId g = 0; g < r->m->graphs.count; g++) {
		GraphKind kind = graph_get(r->m, g)->kind;
		r->graph = g;
		while ((kind == GRAPH_ROOT || kind == GRAPH_FOR_LOOP || kind == GRAPH_REDUCTION_LOOP) && roll_one(r))
			rolled = true;
	}
	return rolled;
}

static bool refuse_block(Roll *r, uint32_t index) {
	Module *m = r->m;
	Place at = config_list_place(r->c->diag, m->config.reduction_loops.origin, index);
	diag_error(r->c->diag, at, "roll", "leave it whole: reduction_loops null",
	           "reduction_loops: the row of %lld '%s' cannot be computed in blocks: '%s': %s", (long long)r->extent,
	           m->blocks.at[r->block].name, node_get(m, r->at)->name, r->why);
	return false;
}

/* Every row of the block, in every graph. */
static bool roll_rows(Roll *r, uint32_t index) {
	Module *m = r->m;
	if (r->step >= r->extent) {
		pass_remark(r->c, "roll", "%s: %lld columns are all of the row: it stays whole",
		            m->blocks.at[r->block].name, (long long)r->step);
		return true;
	}
	bool rolled = roll_block(r);
	return rolled || !r->why || refuse_block(r, index);
}

/* ---- the order --------------------------------------------------------------------------------------------------- */

/* A row that is to be rolled. */
typedef struct Asked {
	BlockId block;
	uint32_t index; /* in reduction_loops */
	int64_t extent, step;
	uint32_t kept; /* how many of its reductions give values that have another such row */
} Asked;

typedef VEC(Asked) AskedList;

static bool has_length(Module *m, NodeId n, uint32_t dims, int64_t length) {
	int64_t size = 0;
	for (uint32_t d = 0; node_type(m, n)->kind == TYPE_TENSOR && d < node_type(m, n)->count; d++)
		if (dims >> d & 1 && expr_value(m, node_type(m, n)->dims[d], &size) && size == length)
			return true;
	return false;
}

/* What a loop carries must not be whole in the other row: that one's loop stands outside then. */
static void count_kept(Module *m, AskedList *asked) {
	for (NodeId n = 0; n < m->nodes.count; n++) {
		NodeId x = node_get(m, n)->dead || op_kind(m, n) != KIND_REDUCTION ? NONE : node_input(m, n, 0);
		if (x == NONE || node_type(m, x)->kind != TYPE_TENSOR)
			continue;
		for (uint32_t i = 0; i < asked->count; i++)
			for (uint32_t k = 0;
			     k < asked->count && has_length(m, x, reduction_dims(m, n), asked->at[i].extent); k++)
				asked->at[i].kept += k != i && has_length(m, n, ~0u, asked->at[k].extent);
	}
}

static AskedList rows_asked(PassContext *c) {
	Module *m = c->module;
	const ConfigList *list = &m->config.reduction_loops;
	AskedList asked = {0};
	for (BlockId b = 0, index = 0; b < m->blocks.count; b++) {
		if (!m->blocks.at[b].reduction)
			continue;
		Asked a = {.block = b, .index = index};
		a.step = index < list->values.count ? list->values.at[index] : 0;
		if (a.step && expr_value(m, m->blocks.at[b].extent, &a.extent) && !block_iterated(m, b))
			vec_push(c->arena, &asked, a);
		index++;
	}
	if (asked.count > 1)
		count_kept(m, &asked);
	return asked;
}

/* Takes the row out of the list that others must be in. */
static Asked take_outermost(AskedList *asked) {
	uint32_t first = 0;
	for (uint32_t i = 1; i < asked->count; i++)
		if (asked->at[i].kept < asked->at[first].kept)
			first = i;
	Asked taken = asked->at[first];
	asked->count--;
	memmove(asked->at + first, asked->at + first + 1, (asked->count - first) * sizeof *asked->at);
	return taken;
}

bool pass_roll(PassContext *c) {
	Module *m = c->module;
	AskedList asked = rows_asked(c);
	if (asked.count && !pass_dce(c)) /* rows that nothing reads are no rows */
		return false;
	uint32_t graphs = m->graphs.count;
	while (asked.count) {
		Asked a = take_outermost(&asked);
		Roll r = {.c = c, .m = m, .block = a.block, .extent = a.extent, .step = a.step, .at = NONE};
		for (uint32_t i = 0; i < asked.count; i++)
			vec_push(c->arena, &r.later, asked.at[i].extent);
		if (!roll_rows(&r, a.index))
			return false;
	}
	return m->graphs.count == graphs || pass_facts_again(c);
}
