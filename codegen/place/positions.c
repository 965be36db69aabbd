/* positions.c - windows of a loop at places that tables give: pages of a cache, blocks of a sparse matrix.
 *
 * A window is copied before its step runs, so its place must be known by then: the step's number, and what can be read
 * by it from tables in SMEM, maybe clamped. */
#include "access.h"

bool reads_positions(const Planner *p, NodeId load) {
	for (ArgId u = node_uses(p->m, load); u != NONE; u = arg_get(p->m, u)->next_use) {
		NodeId user = arg_get(p->m, u)->user;
		bool accesses = op_accesses(node_get(p->m, user)->op);
		bool index = accesses && list_index(node_arg(p->m, user, 1), u) != NONE;
		if (!index && !(node_get(p->m, user)->op == OP_CLAMP && reads_positions(p, user)))
			return false;
	}
	return node_type(p->m, load)->count > 0 && node_uses(p->m, load) != NONE;
}

/* Windows are copied to this access; its own index is not read. */
static bool is_copied(const Planner *p, NodeId n) {
	const Access *a = p->plan->values[n].access;
	return a && a->kind == REF_WINDOW && p->plan->loops.at[a->loop].windows.at[a->window].dma;
}

/* The access takes a slice there: positions that count up by one are not read. */
static bool is_slice(const Planner *p, NodeId index, const Access *access) {
	return access && access->places == NONE && value_rank(p, index) > 0;
}

/* Blocks of the grid come to this access; its own index is not read. */
static bool is_brought(const Planner *p, NodeId n) {
	const Access *a = p->plan->values[n].access;
	bool read = !a || a->kind != REF_OPERAND || a->places != NONE || op_writes(node_get(p->m, n)->op) ||
	            p->plan->operands.at[a->operand].space != SPACE_WINDOW;
	for (uint32_t d = 0; !read && d < a->rank; d++)
		for (uint32_t i = 0; a->dim[d].kind != SLICE_ALL && i < a->dim[d].start.count; i++)
			read = read || a->dim[d].start.term[i].kind == VAR_NODE;
	return !read;
}

/* Nothing computes with it but what copies windows. */
static bool only_ahead(const Planner *p, NodeId n) {
	for (ArgId u = node_uses(p->m, n); u != NONE; u = arg_get(p->m, u)->next_use) {
		NodeId user = arg_get(p->m, u)->user;
		bool index = list_index(node_arg(p->m, user, 1), u) != NONE;
		const Access *access = p->plan->values[user].access;
		bool places = index && access && access->places != NONE && place_table(p->plan, n) != NONE;
		bool ahead = index && (is_slice(p, n, access) || is_copied(p, user) || is_brought(p, user));
		if (!p->plan->values[user].folded && !ahead && !places)
			return false;
	}
	return node_uses(p->m, n) != NONE;
}

static void fold_in(Planner *p, GraphId g) {
	for (NodeId n = graph_get(p->m, g)->last; n != NONE; n = node_get(p->m, n)->prev) {
		Value *v = &p->plan->values[n];
		uint16_t op = op_canonical(node_get(p->m, n)->op);
		bool counts = op == OP_TILE_INDEX || op == OP_IOTA || op == OP_ADD || op == OP_SUB;
		bool chain = v->table || op == OP_CLAMP || (counts && value_rank(p, n) > 0);
		v->folded = v->folded || (chain && only_ahead(p, n));
	}
}

void positions_fold(Planner *p) {
	fold_in(p, p->plan->root);
	for (uint32_t l = 0; l < p->plan->loops.count; l++)
		fold_in(p, p->plan->loops.at[l].graph);
}

static bool affine_ahead(const Planner *p, uint32_t loop, const Affine *a);

static bool in_loop(const Planner *p, NodeId n, uint32_t loop) {
	uint32_t l = p->plan->loop_of[node_get(p->m, n)->graph];
	while (l != NONE && l != loop)
		l = p->plan->loops.at[l].parent;
	return l != NONE;
}

static bool arg_ahead(const Planner *p, uint32_t loop, NodeId n, const Arg *x) {
	Planner q = *p;
	Affine a = affine_of_arg(&q, node_get(p->m, n)->graph, x);
	return affine_ahead(p, loop, &a);
}

/* Where the load of a table reads it. */
static bool index_ahead(const Planner *p, uint32_t loop, NodeId n) {
	const Arg *index = node_arg(p->m, n, 1);
	for (uint32_t i = 0; i < index->list.count; i++) {
		const Arg *entry = arg_item(p->m, index, i);
		if (entry->kind != ARG_SLICE && arg_block(p->m, entry) == NONE && !arg_ahead(p, loop, n, entry))
			return false;
	}
	return true;
}

/* What node n computes in the loop is known before its step. */
static bool node_ahead(const Planner *p, uint32_t loop, NodeId n) {
	const Node *node = node_get(p->m, n);
	if (!in_loop(p, n, loop) || node->op == OP_SCALAR)
		return true;
	if (node->op == OP_CLAMP)
		return node_type(p->m, n)->count == 0 && node_arg(p->m, n, 1)->kind == ARG_INT &&
		       node_arg(p->m, n, 2)->kind == ARG_INT && arg_ahead(p, loop, n, node_arg(p->m, n, 0));
	return node->op == OP_LOAD && p->plan->values[n].table && index_ahead(p, loop, n);
}

/* The positions that an access goes through one by one are known to it alone. */
static bool affine_ahead(const Planner *p, uint32_t loop, const Affine *a) {
	for (uint32_t i = 0; i < a->count; i++)
		if (a->term[i].kind == VAR_PLACE ||
		    (a->term[i].kind == VAR_NODE && !node_ahead(p, loop, a->term[i].id)))
			return false;
	return true;
}

/* Positions: a row of a table, maybe clamped. */
static bool gather_ahead(const Planner *p, uint32_t loop, NodeId n) {
	while (node_get(p->m, n)->op == OP_CLAMP && node_arg(p->m, n, 1)->kind == ARG_INT &&
	       node_arg(p->m, n, 2)->kind == ARG_INT)
		n = node_arg(p->m, n, 0)->node;
	return node_get(p->m, n)->op == OP_LOAD && p->plan->values[n].table && in_loop(p, n, loop) &&
	       index_ahead(p, loop, n);
}

bool want_ahead(const Planner *p, uint32_t loop, const Want *want) {
	return want->kind == WANT_GATHER ? gather_ahead(p, loop, want->index) : affine_ahead(p, loop, &want->at);
}

/* Something of the want's place is computed in the loop. */
static bool moves(const Planner *p, uint32_t loop, const Want *want) {
	if (want->kind == WANT_GATHER)
		return in_loop(p, want->index, loop);
	for (uint32_t i = 0; i < want->at.count; i++)
		if (want->at.term[i].kind == VAR_NODE && in_loop(p, want->at.term[i].id, loop) &&
		    node_get(p->m, want->at.term[i].id)->op != OP_SCALAR)
			return true;
	return false;
}

/* The innermost loop whose steps find the access elsewhere, where all of it is known ahead; NONE. */
static uint32_t moving_loop(const Planner *p, const AccessWant *w) {
	for (uint32_t l = p->plan->loop_of[node_get(p->m, w->node)->graph]; l != NONE;
	     l = p->plan->loops.at[l].parent) {
		const Loop *loop = &p->plan->loops.at[l];
		/* A while does not know whether there is a next step. */
		bool moved = false, ahead = loop->rank > 0 && (loop->type == LOOP_FORI || want_gathers(w) != NONE);
		for (uint32_t i = 0; i < w->rank; i++) {
			bool places = w->dim[i].kind == WANT_AT || w->dim[i].kind == WANT_GATHER;
			moved = moved || (places && moves(p, l, &w->dim[i]));
			ahead = ahead && want_ahead(p, l, &w->dim[i]);
		}
		if (moved)
			return ahead ? l : NONE;
	}
	return NONE;
}

/* One dim at a row of a table, whose positions a loop can copy as pieces: it does. */
static bool pieces_want(Planner *p, AccessWant *w) {
	const Places *s = w->places == NONE ? NULL : &p->plan->places.at[w->places];
	if (!s || s->count != 1 || s->rank != 1 || place_table(p->plan, s->of[0].index) == NONE)
		return false;
	AccessWant pieces = *w;
	for (uint32_t i = 0; i < w->rank; i++) {
		Want *want = &pieces.dim[i];
		if (want->at.count != 1 || want->at.term[0].kind != VAR_PLACE)
			continue;
		want->kind = WANT_GATHER;
		want->index = s->of[0].index;
		want->size = s->shape[0];
		want->at = affine_int(0);
	}
	pieces.places = NONE;
	pieces.loop = moving_loop(p, &pieces);
	Operand o = {0};
	int64_t block[DIM_MAX];
	Affine index[DIM_MAX];
	if (pieces.loop == NONE || !operand_array(p, &o, &pieces) || window_not_copied(p, &pieces, &o, block, index))
		return false;
	*w = pieces;
	return true;
}

void positions_mark(Planner *p, AccessWants *wants) {
	for (uint32_t i = 0; i < wants->count; i++)
		p->plan->values[wants->at[i].node].table =
			wants->at[i].table &&
			wants->at[i].places == NONE; /* what is picked out of one has no place there */
	for (uint32_t i = 0; i < wants->count; i++) {
		AccessWant *w = &wants->at[i];
		if (w->table || w->held || w->store || pieces_want(p, w) || w->loop != NONE)
			continue;
		w->loop = moving_loop(p, w);
	}
}

/* ---- blocks of the grid's pipeline ------------------------------------------------------------------------------- */

static bool point_node(Planner *p, NodeId n);

/* What the grid's point and tables tell, before the kernel runs at it; *dims: the grid dims that do. */
static bool point_affine(Planner *p, const Affine *a, uint32_t *dims) {
	for (uint32_t i = 0; i < a->count; i++) {
		const Term *t = &a->term[i];
		if (t->kind != VAR_PROGRAM && (t->kind != VAR_NODE || !point_node(p, t->id)))
			return false;
		*dims |= t->kind == VAR_PROGRAM ? 1u << t->id : value_of(p, t->id)->points;
	}
	return true;
}

static bool point_arg(Planner *p, NodeId n, const Arg *x, uint32_t *dims) {
	Affine a = affine_of_arg(p, node_get(p->m, n)->graph, x);
	return point_affine(p, &a, dims);
}

/* Of the root: an element of a table, maybe clamped. */
static bool point_node(Planner *p, NodeId n) {
	const Node *node = node_get(p->m, n);
	uint32_t *dims = &value_of(p, n)->points;
	if (node->graph != p->plan->root || node_type(p->m, n)->count != 0)
		return false;
	if (node->op == OP_CLAMP)
		return node_arg(p->m, n, 1)->kind == ARG_INT && node_arg(p->m, n, 2)->kind == ARG_INT &&
		       point_arg(p, n, node_arg(p->m, n, 0), dims);
	if (node->op != OP_LOAD || !value_of(p, n)->table)
		return false;
	const Arg *index = node_arg(p->m, n, 1);
	for (uint32_t i = 0; i < index->list.count; i++)
		if (!point_arg(p, n, arg_item(p->m, index, i), dims))
			return false;
	return true;
}

bool point_tells(Planner *p, const Affine *at) {
	uint32_t dims = 0;
	return point_affine(p, at, &dims);
}

/* The tables of what `at` counts are there before the grid starts. */
void point_prefetch(Planner *p, const Affine *at) {
	for (uint32_t i = 0; i < at->count; i++) {
		NodeId n = at->term[i].id;
		if (at->term[i].kind != VAR_NODE)
			continue;
		const Node *node = node_get(p->m, n);
		const Arg *index = node_arg(p->m, n, node->op == OP_CLAMP ? 0 : 1);
		if (node->op == OP_LOAD)
			p->plan->operands.at[value_of(p, n)->access->operand].prefetch = true;
		for (uint32_t k = 0; k < (node->op == OP_CLAMP ? 1 : index->list.count); k++) {
			Affine a =
				affine_of_arg(p, node->graph, node->op == OP_CLAMP ? index : arg_item(p->m, index, k));
			point_prefetch(p, &a);
		}
	}
}
