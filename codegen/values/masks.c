/* masks.c - which invalid lanes are read, and so which masks are written: none that cannot matter.
 *
 * Backwards from the uses: a reduction reads all lanes of the dims it reduces, a matmul those of the contracted dim; a
 * store skips invalid lanes, mask_to overwrites them; everything else hands its users' needs on. */
#include "values.h"
#include "codegen/lower/lower.h"

static uint64_t blocks_of(const Planner *p, NodeId n) {
	const Type *t = node_type(p->m, n);
	uint64_t bits = 0;
	for (uint32_t i = 0; t->kind == TYPE_TENSOR && i < t->count; i++) {
		BlockId b = expr_as_block(p->m, t->dims[i]);
		if (b != NONE)
			bits |= 1ull << (b & 63);
	}
	return bits;
}

typedef struct Needs {
	Planner *p;
	bool changed;
} Needs;

static void need(Needs *s, NodeId n, uint64_t bits) {
	if (n == NONE || bits == 0)
		return;
	Value *v = value_of(s->p, n);
	bits &= blocks_of(s->p, n) & ~v->needed;
	if (bits == 0)
		return;
	v->needed |= bits;
	s->changed = true;
}

static void need_operands_in(Needs *s, const Arg *a, uint64_t bits) {
	if (a->kind == ARG_REF)
		need(s, a->node, bits);
	for (uint32_t i = 0; (a->kind == ARG_LIST || a->kind == ARG_SLICE) && i < a->list.count; i++)
		need_operands_in(s, arg_get(s->p->m, a->list.first + i), bits);
}

static void need_operands(Needs *s, NodeId n, uint64_t bits) {
	const Node *node = node_get(s->p->m, n);
	for (uint32_t i = 0; i < node->arg_count && bits; i++)
		need_operands_in(s, arg_get(s->p->m, node->arg_first + i), bits);
}

static uint64_t block_of_dim(const Planner *p, NodeId n, uint32_t dim) {
	BlockId b = expr_as_block(p->m, node_type(p->m, n)->dims[dim]);
	return b == NONE ? 0 : 1ull << (b & 63);
}

static uint64_t blocks_of_dims(const Planner *p, NodeId n, uint32_t dims) {
	uint64_t bits = 0;
	for (uint32_t i = 0; i < value_rank(p, n); i++)
		if (dims >> i & 1)
			bits |= block_of_dim(p, n, i);
	return bits;
}

/* A matmul adds up along the contracted dim: both factors need zeros there. The other dims only carry through. */
static void need_matmul(Needs *s, NodeId n) {
	uint64_t needed = value_of(s->p, n)->needed;
	for (int i = 0; i < 2; i++) {
		NodeId x = matmul_operand(s->p->m, n, i);
		uint32_t rank = value_rank(s->p, x);
		need(s, x, block_of_dim(s->p, x, i == 0 ? rank - 1 : rank - 2) | needed);
	}
	need(s, matmul_operand(s->p->m, n, 2), needed);
}

static void need_reduce(Needs *s, NodeId n) {
	NodeId x = node_input(s->p->m, n, 0);
	need(s, x, value_of(s->p, n)->needed | blocks_of_dims(s->p, x, reduction_dims(s->p->m, n)));
}

/* A block symbol that a reshape makes vanish may be looked at in all its lanes. */
static void need_through(Needs *s, NodeId n) {
	NodeId x = node_input(s->p->m, n, 0);
	need(s, x, value_of(s->p, n)->needed | (blocks_of(s->p, x) & ~blocks_of(s->p, n)));
}

static void need_moved(Needs *s, NodeId n, const Arg *a, uint32_t dims) {
	if (a->kind == ARG_REF) {
		uint64_t bits = value_of(s->p, n)->needed | (blocks_of(s->p, a->node) & ~blocks_of(s->p, n));
		for (uint32_t i = 0; i < value_rank(s->p, a->node); i++)
			if (dims >> i & 1)
				bits |= block_of_dim(s->p, a->node, i);
		need(s, a->node, bits);
	}
	for (uint32_t i = 0; a->kind == ARG_LIST && i < a->list.count; i++)
		need_moved(s, n, arg_item(s->p->m, a, i), dims);
}

static void needs_in(Needs *s, GraphId g);

static void need_loop(Needs *s, NodeId call) {
	const Module *m = s->p->m;
	const Graph *g = graph_get(m, loop_body(m, call));
	for (uint32_t i = 0; i < g->carried.count; i++)
		need(s, graph_result(m, g, g->carried.at[i].output),
		     value_of(s->p, g->placeholders.at[g->carried.at[i].arg])->needed);
	needs_in(s, loop_body(m, call));
	const Arg *args = loop_args(m, call);
	for (uint32_t i = 0; i < g->placeholders.count; i++)
		if (arg_item(m, args, i)->kind == ARG_REF)
			need(s, arg_item(m, args, i)->node, value_of(s->p, g->placeholders.at[i])->needed);
}

/* An element of a sort, which moves lanes of the dim anywhere. */
static void need_sorted(Needs *s, NodeId n) {
	NodeId sort = node_input(s->p->m, n, 0), x = node_input(s->p->m, sort, 0);
	need(s, x, value_of(s->p, n)->needed | blocks_of_dims(s->p, x, reduction_dims(s->p->m, sort)));
}

static void need_node(Needs *s, NodeId n) {
	const Module *m = s->p->m;
	uint64_t needed = value_of(s->p, n)->needed;
	switch (op_lowering(node_get(m, n)->op)) {
	case LOWER_POINTWISE:
	case LOWER_SCAN: /* what is valid comes first in a dim: no valid lane reads an invalid one */
		need_operands(s, n, needed);
		break;
	case LOWER_ALIAS: need(s, value_of(s->p, n)->same_as, needed); break;
	case LOWER_REDUCE: need_reduce(s, n); break;
	case LOWER_VIEW: need_through(s, n); break;
	case LOWER_MOVE:
		need_moved(s, n, node_arg(m, n, 0), moved_dims(m, n));
		if (op_lanes(node_get(m, n)->op) == LANES_GATHER)
			need(s, node_input(m, n, 2), needed);
		break;
	case LOWER_MATMUL: need_matmul(s, n); break;
	case LOWER_LOOP: need_loop(s, n); break;
	case LOWER_RESULT: {
		if (!takes_of_loop(m, n)) {
			need_sorted(s, n);
			break;
		}
		const Graph *g = graph_get(m, loop_body(m, node_input(m, n, 0)));
		need(s, graph_result(m, g, (uint32_t)node_arg(m, n, 1)->integer), needed);
		break;
	}
	default: break; /* mask_to overwrites what it masks; stores skip invalid lanes */
	}
}

static void needs_in(Needs *s, GraphId g) {
	for (NodeId n = graph_get(s->p->m, g)->last; n != NONE; n = node_get(s->p->m, n)->prev)
		need_node(s, n);
}

typedef VEC(Mask) Masks;

static void add_mask(Planner *p, GraphId g, Masks *masks, Mask mask) {
	uint32_t dim, l = block_scope(p->plan, g, mask.block, &dim);
	mask.offset = block_offset(p, g, mask.block);
	if (mask.last_only)
		p->plan->loops.at[l].masked = true;
	vec_push(p->a, masks, mask);
}

static void masks_of(Planner *p, NodeId n) {
	const Type *t = node_type(p->m, n);
	GraphId g = node_get(p->m, n)->graph;
	Value *v = value_of(p, n);
	Masks masks = {0};
	for (uint32_t i = 0; i < t->count; i++) {
		BlockId b = expr_as_block(p->m, t->dims[i]);
		Mask mask = {.block = b, .dim = i};
		if (b == NONE || !(v->needed >> (b & 63) & 1) || !block_ragged(p, g, b, &mask.end, &mask.last_only))
			continue;
		add_mask(p, g, &masks, mask);
	}
	v->masks = masks.at;
	v->mask_count = masks.count;
	if (op_lowering(node_get(p->m, n)->op) == LOWER_MASK && masks.count == 0)
		v->same_as = node_input(p->m, n, 0);
}

/* Whose tile's positions the entry of a write that is a slice counts up along, somewhere in the tensor. */
static BlockId block_of_line(Planner *p, NodeId n, const Arg *entry) {
	Line line;
	bool slice = entry_gathers(p->m, entry) && value_of(p, n)->access->places == NONE;
	return slice && line_of(p, node_get(p->m, n)->graph, entry, LINE_DEPTH, &line) ? line.block : NONE;
}

/* A write leaves lanes alone that are invalid but inside the tensor. Here a mask's dim is the tensor's. */
static void masks_of_write(Planner *p, NodeId n) {
	GraphId g = node_get(p->m, n)->graph;
	const Type *t = node_type(p->m, node_input(p->m, n, 0));
	Masks masks = {0};
	for (uint32_t i = 0; i < t->count; i++) {
		const Arg *entry = arg_item(p->m, node_arg(p->m, n, 1), i);
		BlockId b = arg_block(p->m, entry), line = b == NONE ? block_of_line(p, n, entry) : NONE;
		Mask mask = {.block = b == NONE ? line : b, .dim = i};
		if (mask.block == NONE || !block_ragged(p, g, mask.block, &mask.end, &mask.last_only) ||
		    (b != NONE && affine_is_int(&mask.end) && mask.end.constant == expr_number(p->m, t->dims[i])))
			continue;
		add_mask(p, g, &masks, mask);
	}
	value_of(p, n)->masks = masks.at;
	value_of(p, n)->mask_count = masks.count;
}

static void masks_in(Planner *p, GraphId g) {
	for (NodeId n = graph_first(p->m, g); n != NONE; n = node_get(p->m, n)->next) {
		Lowering how = op_lowering(node_get(p->m, n)->op);
		if (how == LOWER_LOAD || how == LOWER_MASK)
			masks_of(p, n);
		if (how == LOWER_STORE)
			masks_of_write(p, n);
		if (how == LOWER_LOOP)
			masks_in(p, loop_body(p->m, n));
	}
}

/* Some tile has invalid lanes. */
static bool any_ragged(Planner *p) {
	const Plan *plan = p->plan;
	Affine end;
	bool any = false, peeled;
	for (uint32_t i = 0; i < plan->grid.count && !any; i++)
		any = block_ragged(p, plan->root, plan->grid.at[i].block, &end, &peeled);
	for (uint32_t l = 0; l < plan->loops.count && !any; l++)
		for (uint32_t i = 0; i < plan->loops.at[l].rank && !any; i++)
			any = block_ragged(p, plan->loops.at[l].graph, plan->loops.at[l].dim[i].block, &end, &peeled);
	return any;
}

void plan_masks(Planner *p) {
	Needs needs = {.p = p, .changed = any_ragged(p)};
	while (needs.changed) {
		needs.changed = false;
		needs_in(&needs, p->plan->root);
	}
	masks_in(p, p->plan->root);
}
