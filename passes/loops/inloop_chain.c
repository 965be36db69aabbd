/* inloop_chain.c - which values may move into a loop, and whether that pays.
 *
 * The chain of a value is the value and all that it is computed from, back to loads. It may move if every load in it
 * gives the same tile in the loop, on each step, as before it. It pays, for `auto`, if it is free to repeat: a load of
 * a block that is in VMEM anyway is a view of that block, so a load may even be repeated in several loops. Arithmetic
 * is not free: it runs in each step on the vector unit, which is what an attention loop waits for; measured, see
 * docs/passes/inloop_loads.md. */
#include "inloop.h"

/* ---- what may move ----------------------------------------------------------------------------------------------- */

static bool refuse(Sink *s, const char *fmt, NodeId n) {
	const char *name = node_get(s->m, n)->name;
	s->why = arena_printf(s->arena, "%s '%s'", fmt, name);
	return false;
}

bool inloop_is_leaf(const Module *m, NodeId n) {
	uint16_t op = node_get(m, n)->op;
	bool query = op_kind(m, n) == KIND_QUERY && node_arg(m, n, 0)->kind != ARG_REF;
	return op == OP_HOST_TENSOR || op == OP_SCALAR || op == OP_SYMNODE || query;
}

/* The value by another name or shape: no work that a load would not do. */
static bool is_renaming(uint16_t op) { return op == OP_NEW_VAR || view_renames(op); }

static bool is_cheap(uint16_t op) {
	OpKind kind = op_row(op)->kind;
	return is_renaming(op) || op_is(op, IS_CHEAP) || op_lanes(op) == LANES_PERMUTE || kind == KIND_SYMBOLIC ||
	       kind == KIND_QUERY || (kind == KIND_POINTWISE && op_lowering(op) == LOWER_ALIAS);
}

/* Inside the loop the symbol of a block that the loop iterates is another tile. What a reference is to is judged by
 * itself. */
static bool names_loop_block(const Sink *s, const Arg *a) {
	BlockId b = a->kind == ARG_REF ? NONE : arg_block(s->m, a);
	const Graph *loop = graph_get(s->m, s->loop);
	for (uint32_t i = 0; b != NONE && i < loop->blocks.count; i++)
		if (loop->blocks.at[i] == b)
			return true;
	for (uint32_t i = 0; (a->kind == ARG_LIST || a->kind == ARG_SLICE) && i < a->list.count; i++)
		if (names_loop_block(s, arg_item(s->m, a, i)))
			return true;
	return false;
}

static bool node_may_move(Sink *s, NodeId n) {
	const Node *node = node_get(s->m, n);
	bool addresses = node->op == OP_LOAD || node->op == OP_SYMNODE || op_row(node->op)->kind == KIND_QUERY;
	for (uint32_t i = 0; addresses && i < node->arg_count; i++)
		if (names_loop_block(s, node_arg(s->m, n, i)))
			return refuse(s, "the loop iterates the block of", n);
	return true;
}

static bool load_may_move(Sink *s, NodeId n) {
	TensorId base = access_base(s->m, n);
	const NodeNote *note = &s->note.at[n];
	if (base == NONE)
		return refuse(s, "no tensor is known for", n);
	if (op_arg(s->m, n, "extra_mask")->kind != ARG_NULL)
		return refuse(s, "a mask computed outside guards the load", n);
	if (s->version[base] != note->version)
		return refuse(s, "the tensor is written between the loop and the load", n);
	if (graph_writes(&s->effects, s->loop, base))
		return refuse(s, "the loop writes the tensor of the load", n);
	if (s->whiles != note->whiles || s->effects.graph[s->loop].has_while)
		return refuse(s, "a while runs between its use and the load", n);
	return true;
}

static bool collect(Sink *s, NodeId n, uint32_t depth);

static bool collect_operands(Sink *s, const Arg *a, uint32_t depth) {
	if (a->kind == ARG_REF)
		return inloop_is_leaf(s->m, a->node) ? node_may_move(s, a->node) : collect(s, a->node, depth + 1);
	if (a->kind != ARG_LIST && a->kind != ARG_SLICE)
		return true;
	for (uint32_t i = 0; i < a->list.count; i++)
		if (!collect_operands(s, arg_item(s->m, a, i), depth))
			return false;
	return true;
}

enum { CHAIN_DEPTH_MAX = 16 };

/* Adds node n and what it is computed from to the chain; false with a reason if something there cannot move. */
static bool collect(Sink *s, NodeId n, uint32_t depth) {
	uint16_t op = node_get(s->m, n)->op;
	bool is_load = op == OP_LOAD;
	if (map_get(&s->in_chain, n) != NONE)
		return true;
	if (depth > CHAIN_DEPTH_MAX || (!is_load && !is_cheap(op)))
		return refuse(s, "it is computed by", n);
	if ((is_load && !load_may_move(s, n)) || !node_may_move(s, n))
		return false;
	map_put(s->arena, &s->in_chain, n, 1);
	for (uint32_t i = 0; i < node_get(s->m, n)->arg_count; i++)
		if (!collect_operands(s, node_arg(s->m, n, i), depth))
			return false;
	s->loads += is_load;
	vec_push(s->arena, &s->chain, n);
	return true;
}

/* ---- whether it pays --------------------------------------------------------------------------------------------- */

/* A load, or nothing but other names of one and the ints of its address. */
static bool is_free(const Sink *s, NodeId n) {
	const Type *t = node_type(s->m, n);
	uint16_t op = node_get(s->m, n)->op;
	return op == OP_LOAD || is_renaming(op) || t->kind != TYPE_TENSOR;
}

static bool chain_pays(Sink *s) {
	for (uint32_t i = 0; i < s->chain.count; i++)
		if (!s->always && !is_free(s, s->chain.at[i]))
			return refuse(s, "each step would compute it again:", s->chain.at[i]);
	s->why = s->chain.count == s->loads ? "a view of the block in VMEM"
	                                    : "computed from a view of the block in VMEM";
	return true;
}

bool inloop_plan_chain(Sink *s, NodeId value) {
	s->chain.count = 0;
	s->loads = 0;
	s->in_chain = (Map){0};
	if (inloop_is_leaf(s->m, value) || node_type(s->m, value)->kind != TYPE_TENSOR)
		return refuse(s, "it is no load:", value);
	if (!collect(s, value, 0))
		return false;
	if (s->loads == 0)
		return refuse(s, "it is no load:", value);
	return chain_pays(s);
}
