/* carried.c - what becomes of the values that a loop carries when each device runs a part of its steps. Each step's
 * share of a sum, of a greatest or of a least value is computed without what is carried, so the parts are merged by the
 * same operation. An online softmax carries a running maximum m, and sums in units of exp(-m):
 *
 *     m_new = maximum(m, amax(s))
 *     acc_new = acc * exp(m - m_new) + exp(s - m_new) @ v
 *
 * Parts of such a sum are brought to one m before they are added up. Every value of the loop is followed to see that it
 * is nothing else. */
#include "cuts.h"

#include <math.h>

typedef enum ShareKind {
	SHARE_SAME,     /* nothing that is carried is in it */
	SHARE_OLD,      /* a carried value as a step finds it; its dims may be moved, and others put between them */
	SHARE_NEW,      /* the same of a running maximum as the step leaves it */
	SHARE_SUM,      /* OLD + SAME */
	SHARE_MAX,      /* maximum(OLD, SAME) */
	SHARE_MIN,      /* minimum(OLD, SAME) */
	SHARE_DROP,     /* OLD - NEW of a running maximum */
	SHARE_DECAY,    /* exp(DROP) */
	SHARE_ABOVE,    /* SAME - NEW */
	SHARE_WEIGHT,   /* exp(ABOVE), and what is linear in it */
	SHARE_DECAYED,  /* OLD * DECAY */
	SHARE_WEIGHTED, /* DECAYED + WEIGHT */
	SHARE_OTHER     /* what no device can make good */
} ShareKind;

typedef struct Share {
	ShareKind kind;
	uint32_t of;          /* OLD, SUM, MAX, MIN, DECAYED, WEIGHTED: which of Graph.carried */
	uint32_t by;          /* all that a running maximum is in: which of Graph.carried it is */
	uint16_t exp;         /* OP_EXP or OP_EXP2 */
	int8_t row[RANK_MAX]; /* by dim: the dim of `by`, of OLD that of `of`, that it goes along; -1: none of them */
	NodeId at;            /* OTHER: where it became so */
} Share;

typedef struct Follow {
	const Module *m;
	GraphId g;
	const Graph *graph;
	Share *share;  /* by node */
	NodeId *given; /* by Graph.carried: what replaces it, behind other names */
} Follow;

NodeId behind_aliases(const Module *m, NodeId n) {
	while (n != NONE && (node_get(m, n)->op == OP_NEW_VAR || node_get(m, n)->op == OP_PHI)) {
		const Arg *of = alias_arg(m, n);
		n = of->kind == ARG_REF ? of->node : NONE;
	}
	return n;
}

static bool is_number(const Arg *a, double value) {
	return (a->kind == ARG_INT && (double)a->integer == value) || (a->kind == ARG_FLOAT && a->real == value);
}

static bool is_one(const Arg *a) { return a->kind == ARG_NULL || is_number(a, 1); }

/* A number, or a value with it in all lanes. */
bool arg_is_filled(const Module *m, const Arg *a, double *value) {
	Arg fill = *a;
	NodeId n = a->kind == ARG_REF ? behind_aliases(m, a->node) : NONE;
	if (a->kind == ARG_REF && n == NONE)
		return false;
	if (n != NONE)
		fill = fill_arg(m, n);
	*value = fill.kind == ARG_INT ? (double)fill.integer : fill.real;
	return fill.kind == ARG_INT || fill.kind == ARG_FLOAT;
}

static bool is_filled(const Module *m, const Arg *a, double value) {
	double found;
	return arg_is_filled(m, a, &found) && found == value;
}

/* ---- where dims go ----------------------------------------------------------------------------------------------- */

static uint32_t rank_of(const Follow *f, NodeId n) {
	const Type *t = node_type(f->m, n);
	return t->kind == TYPE_TENSOR ? t->count : 0;
}

static void no_rows(Share *x) { memset(x->row, -1, sizeof x->row); }

/* Dims in their order, without those of 1. */
static void own_rows(const Follow *f, NodeId n, Share *x) {
	no_rows(x);
	for (uint32_t d = 0; d < rank_of(f, n); d++)
		if (!expr_is_int(f->m, node_type(f->m, n)->dims[d], 1))
			x->row[d] = (int8_t)d;
}

/* Of an operand that is broadcast to so many dims. */
static Share broadcast(const Share *x, uint32_t rank, uint32_t to) {
	Share out = *x;
	no_rows(&out);
	for (uint32_t d = 0; d < rank && rank <= to; d++)
		out.row[d + to - rank] = x->row[d];
	return out;
}

static bool same_rows(const Share *x, const Share *y) { return memcmp(x->row, y->row, sizeof x->row) == 0; }

/* Rows that only go through dims of 1: the others stand in the same order. */
static bool through_ones(const Follow *f, NodeId from, NodeId to, const Share *x, Share *out) {
	const Type *a = node_type(f->m, from), *b = node_type(f->m, to);
	uint32_t i = 0, k = 0;
	for (;; i++, k++) {
		for (; i < a->count && expr_is_int(f->m, a->dims[i], 1); i++)
			;
		for (; k < b->count && expr_is_int(f->m, b->dims[k], 1); k++)
			;
		if (i >= a->count || k >= b->count)
			break;
		if (a->dims[i] != b->dims[k])
			return false;
		out->row[k] = x->row[i];
	}
	return i >= a->count && k >= b->count;
}

static bool indexes_whole(const Follow *f, NodeId n) {
	const Arg *index = op_arg(f->m, n, "index");
	for (uint32_t i = 0; i < index->list.count; i++) {
		const Arg *entry = arg_item(f->m, index, i);
		if (entry->kind != ARG_NULL && !arg_is_whole(f->m, entry))
			return false;
	}
	return index->kind == ARG_LIST;
}

/* False: not just dims moved, or put between others. */
static bool viewed(const Follow *f, NodeId n, const Share *x, Share *out) {
	NodeId of = node_input(f->m, n, 0);
	uint32_t order[RANK_MAX], rank = rank_of(f, n), before = rank_of(f, of);
	uint16_t op = node_get(f->m, n)->op;
	*out = *x;
	no_rows(out);
	if (op_lanes(op) == LANES_EXPAND) {
		*out = broadcast(x, before, rank);
		return true;
	}
	if (permutation_order(f->m, n, order)) {
		for (uint32_t d = 0; d < rank; d++)
			out->row[d] = x->row[order[d]];
		return true;
	}
	if (op == OP_SUBSCRIPT && !indexes_whole(f, n))
		return false;
	bool moves = op == OP_SUBSCRIPT || op_lanes(op) == LANES_RESHAPE || op_lanes(op) == LANES_SQUEEZE ||
	             op_lanes(op) == LANES_UNSQUEEZE;
	return moves && through_ones(f, of, n, x, out);
}

/* ---- one node ---------------------------------------------------------------------------------------------------- */

static const Share same = {.kind = SHARE_SAME};

static const Share *arg_share(const Follow *f, const Arg *a) { return a->kind == ARG_REF ? &f->share[a->node] : &same; }

static bool is_same(const Follow *f, const Arg *a) {
	bool all = arg_share(f, a)->kind == SHARE_SAME;
	for (uint32_t i = 0; arg_is_list(a) && i < a->list.count; i++)
		all = all && is_same(f, arg_item(f->m, a, i));
	return all;
}

/* The first argument that something carried is in. */
static const Share *first_carried(const Follow *f, const Arg *a) {
	if (a->kind == ARG_REF && f->share[a->node].kind != SHARE_SAME)
		return &f->share[a->node];
	for (uint32_t i = 0; arg_is_list(a) && i < a->list.count; i++) {
		const Share *x = first_carried(f, arg_item(f->m, a, i));
		if (x)
			return x;
	}
	return NULL;
}

/* It is a carried value of its own shape, dims in their order. */
static bool lies_as_carried(const Follow *f, const Share *x, NodeId n) {
	NodeId placeholder = f->graph->placeholders.at[f->graph->carried.at[x->of].arg];
	const Type *a = node_type(f->m, placeholder), *b = node_type(f->m, n);
	Share own;
	own_rows(f, placeholder, &own);
	bool ok = a->kind == TYPE_TENSOR && b->kind == TYPE_TENSOR && a->count == b->count &&
	          (x->kind != SHARE_OLD || same_rows(x, &own));
	for (uint32_t d = 0; ok && d < a->count; d++)
		ok = a->dims[d] == b->dims[d];
	return ok;
}

static bool like_weights(const Share *x, const Share *y) {
	return x->by == y->by && x->exp == y->exp && same_rows(x, y);
}

/* x + y, of shares that are broadcast to the result n. */
static ShareKind added(const Follow *f, NodeId n, const Share *x, const Share *y) {
	switch (x->kind) {
	case SHARE_OLD:
	case SHARE_SUM: return y->kind == SHARE_SAME && lies_as_carried(f, x, n) ? SHARE_SUM : SHARE_OTHER;
	case SHARE_ABOVE: return y->kind == SHARE_SAME ? SHARE_ABOVE : SHARE_OTHER;
	case SHARE_WEIGHT: return y->kind == SHARE_WEIGHT && like_weights(x, y) ? SHARE_WEIGHT : SHARE_OTHER;
	case SHARE_DECAYED:
	case SHARE_WEIGHTED:
		return y->kind == SHARE_WEIGHT && like_weights(x, y) && lies_as_carried(f, x, n) ? SHARE_WEIGHTED
		                                                                                 : SHARE_OTHER;
	default: return SHARE_OTHER;
	}
}

static Share sum_of(const Follow *f, NodeId n, const Share *x, const Share *y) {
	bool swap = x->kind == SHARE_SAME || (x->kind == SHARE_WEIGHT && y->kind != SHARE_SAME);
	Share out = swap ? *y : *x;
	out.kind = added(f, n, swap ? y : x, swap ? x : y);
	return out;
}

static Share difference(const Share *x, const Share *y) {
	Share out = *x;
	bool new = y->kind == SHARE_NEW;
	if (x->kind == SHARE_OLD && new && x->of == y->by && same_rows(x, y)) {
		out.kind = SHARE_DROP;
		out.by = y->by;
	} else if (x->kind == SHARE_SAME && new) {
		out = *y;
		out.kind = SHARE_ABOVE;
	} else if (x->kind != SHARE_ABOVE || y->kind != SHARE_SAME) {
		out.kind = SHARE_OTHER;
	}
	return out;
}

static Share product(const Follow *f, NodeId n, const Share *x, const Share *y) {
	bool swap = x->kind == SHARE_SAME || (x->kind == SHARE_DECAY && y->kind == SHARE_OLD);
	Share a = swap ? *y : *x, b = swap ? *x : *y;
	if (a.kind == SHARE_OLD && b.kind == SHARE_DECAY && lies_as_carried(f, &a, n)) {
		b.kind = SHARE_DECAYED;
		b.of = a.of;
		return b;
	}
	if (a.kind != SHARE_WEIGHT || b.kind != SHARE_SAME)
		a.kind = SHARE_OTHER;
	return a;
}

/* The carried value whose next value n is; NONE. */
static uint32_t given_as(const Follow *f, NodeId n) {
	for (uint32_t i = 0; i < f->graph->carried.count; i++)
		if (f->given[i] == n)
			return i;
	return NONE;
}

static Share extreme(const Follow *f, NodeId n, const Share *x, const Share *y, ShareKind kind) {
	Share out = x->kind == SHARE_SAME ? *y : *x;
	const Share *other = x->kind == SHARE_SAME ? x : y;
	bool ok =
		(out.kind == SHARE_OLD || out.kind == kind) && other->kind == SHARE_SAME && lies_as_carried(f, &out, n);
	out.kind = ok ? kind : SHARE_OTHER;
	if (ok && kind == SHARE_MAX && given_as(f, n) == out.of) {
		out.kind = SHARE_NEW;
		out.by = out.of;
		own_rows(f, n, &out);
	}
	return out;
}

/* `condition` compares what stands beside `like`, of so many dims: of a running maximum its old and its new value, or
 * the new one and -inf. */
static bool compares(const Follow *f, const Arg *condition, uint16_t op, const Share *like, uint32_t rank) {
	NodeId n = condition->kind == ARG_REF ? behind_aliases(f->m, condition->node) : NONE;
	if (n == NONE || op_canonical(node_get(f->m, n)->op) != op || node_arg(f->m, n, 0)->kind != ARG_REF)
		return false;
	const Arg *a = node_arg(f->m, n, 0), *b = node_arg(f->m, n, 1);
	uint32_t between = rank_of(f, n);
	Share x = broadcast(arg_share(f, a), rank_of(f, a->node), between);
	x = broadcast(&x, between, rank);
	if (x.of != like->by || !same_rows(&x, like))
		return false;
	if (op == OP_EQ)
		return x.kind == SHARE_NEW && is_filled(f->m, b, -(double)INFINITY);
	const Share *y = arg_share(f, b);
	return x.kind == SHARE_OLD && y->kind == SHARE_NEW && y->by == like->by && same_rows(y, arg_share(f, a));
}

/* Of weights and what they are made of, where a mask says: none. A maximum of nothing may be replaced by any number, as
 * exp(-inf - it) is 0 all the same; and where a maximum stays what it was, it decays by 1. */
static Share chosen(const Follow *f, const Arg *condition, const Arg *yes, const Arg *no, const Share *x,
                    const Share *y, uint32_t rank) {
	Share out = x->kind == SHARE_SAME ? *y : *x;
	const Arg *other = x->kind == SHARE_SAME ? yes : no;
	double filled = 0;
	bool is = arg_is_filled(f->m, other, &filled);
	switch (out.kind) {
	case SHARE_WEIGHT: is = is && filled == 0 && is_same(f, condition); break;
	case SHARE_ABOVE: is = is && isinf(filled) && filled < 0 && is_same(f, condition); break;
	case SHARE_NEW: is = is && isfinite(filled) && other == yes && compares(f, condition, OP_EQ, &out, rank); break;
	case SHARE_DECAY: is = is && filled == 1 && other == no && compares(f, condition, OP_LT, &out, rank); break;
	default: is = false; break;
	}
	if (!is)
		out.kind = SHARE_OTHER;
	return out;
}

static Share exponential(const Share *x, uint16_t op) {
	Share out = *x;
	out.exp = op;
	out.kind = x->kind == SHARE_DROP ? SHARE_DECAY : x->kind == SHARE_ABOVE ? SHARE_WEIGHT : SHARE_OTHER;
	return out;
}

static Share pointwise(const Follow *f, NodeId n) {
	uint16_t op = op_canonical(node_get(f->m, n)->op);
	const Arg *arg[3];
	Share x[3];
	for (uint32_t i = 0; i < 3; i++) {
		arg[i] = node_arg(f->m, n, i);
		x[i] = *arg_share(f, arg[i]);
		if (arg[i]->kind == ARG_REF)
			x[i] = broadcast(&x[i], rank_of(f, arg[i]->node), rank_of(f, n));
	}
	Share other = {.kind = SHARE_OTHER};
	bool plain = (op != OP_ADD && op != OP_SUB) || is_one(op_arg(f->m, n, "alpha"));
	if (op == OP_CONVERT) {
		bool kept = node_type(f->m, n)->dtype == node_type(f->m, arg[0]->node)->dtype;
		return kept || (x[0].kind == SHARE_WEIGHT && dtype_is_float(node_type(f->m, n)->dtype)) ? x[0] : other;
	}
	switch (op) {
	case OP_ADD: return plain ? sum_of(f, n, &x[0], &x[1]) : other;
	case OP_SUB: return plain ? difference(&x[0], &x[1]) : other;
	case OP_MUL: return product(f, n, &x[0], &x[1]);
	case OP_DIV: return x[0].kind == SHARE_WEIGHT && x[1].kind == SHARE_SAME ? x[0] : other;
	case OP_NEG: return x[0].kind == SHARE_WEIGHT ? x[0] : other;
	case OP_MAXIMUM: return extreme(f, n, &x[0], &x[1], SHARE_MAX);
	case OP_MINIMUM: return extreme(f, n, &x[0], &x[1], SHARE_MIN);
	case OP_EXP:
	case OP_EXP2: return exponential(&x[0], op);
	case OP_WHERE: return chosen(f, arg[0], arg[1], arg[2], &x[1], &x[2], rank_of(f, n));
	case OP_MASK_TO: return chosen(f, &no_argument, arg[0], arg[1], &x[0], &x[1], rank_of(f, n));
	default: return other;
	}
}

/* Weights are summed along dims that the maximum does not go along. */
static Share reduced(const Follow *f, NodeId n) {
	Share x = *arg_share(f, node_arg(f->m, n, 0)), out = x;
	if (x.kind != SHARE_WEIGHT || op_canonical(node_get(f->m, n)->op) != OP_SUM)
		return (Share){.kind = SHARE_OTHER};
	uint32_t dims = reduction_dims(f->m, n), rank = rank_of(f, node_input(f->m, n, 0)), to = 0;
	no_rows(&out);
	for (uint32_t d = 0; d < rank; d++) {
		bool gone = dims & (1u << d);
		if (gone && x.row[d] >= 0)
			return (Share){.kind = SHARE_OTHER};
		if (!gone || reduction_keeps_dims(f->m, n))
			out.row[to++] = x.row[d];
	}
	return out;
}

/* a @ b, one of which has weights; the dim that is summed is none of the maximum's. */
static Share matrix_product(const Follow *f, NodeId n, const Arg *a, const Arg *b) {
	const Share *x = arg_share(f, a), *y = arg_share(f, b);
	if (x->kind == SHARE_SAME && y->kind == SHARE_SAME)
		return same;
	bool left = x->kind == SHARE_WEIGHT && y->kind == SHARE_SAME;
	bool right = y->kind == SHARE_WEIGHT && x->kind == SHARE_SAME;
	uint32_t rank = rank_of(f, n);
	if ((!left && !right) || rank < 2 || rank_of(f, a->node) != rank || rank_of(f, b->node) != rank)
		return (Share){.kind = SHARE_OTHER};
	Share out = left ? *x : *y;
	uint32_t summed = left ? rank - 1 : rank - 2;
	bool ok = out.row[summed] < 0;
	out.row[summed] = -1;
	out.kind = ok ? SHARE_WEIGHT : SHARE_OTHER;
	return out;
}

static Share multiplied(const Follow *f, NodeId n) {
	const Module *m = f->m;
	switch (node_get(m, n)->op) {
	case OP_MM:
	case OP_MM_DTYPE:
	case OP_BMM:
	case OP_BMM_DTYPE: return matrix_product(f, n, node_arg(m, n, 0), node_arg(m, n, 1));
	case OP_ADDMM:
	case OP_ADDMM_DTYPE:
	case OP_BADDBMM:
	case OP_BADDBMM_DTYPE: {
		Share by = matrix_product(f, n, node_arg(m, n, 1), node_arg(m, n, 2));
		if (!is_one(op_arg(m, n, "beta")) || !is_one(op_arg(m, n, "alpha")))
			by.kind = SHARE_OTHER;
		return sum_of(f, n, arg_share(f, node_arg(m, n, 0)), &by);
	}
	case OP_DOT: {
		const Arg *to = op_arg(m, n, "acc");
		Share by = matrix_product(f, n, node_arg(m, n, 0), node_arg(m, n, 1));
		return to->kind == ARG_NULL ? by : sum_of(f, n, arg_share(f, to), &by);
	}
	default: return (Share){.kind = SHARE_OTHER};
	}
}

static Share share_of(const Follow *f, NodeId n) {
	const Share *carried = NULL;
	for (uint32_t i = 0; i < node_get(f->m, n)->arg_count && !carried; i++)
		carried = first_carried(f, node_arg(f->m, n, i));
	Share out = {.kind = SHARE_OTHER, .at = n};
	uint16_t op = node_get(f->m, n)->op;
	if (!carried || op == OP_SYM_SIZE)
		return same;
	if (carried->kind == SHARE_OTHER && op_canonical(op) != OP_WHERE)
		return *carried;
	if (op == OP_NEW_VAR || op == OP_PHI)
		return *arg_share(f, alias_arg(f->m, n));
	switch (op_kind(f->m, n)) {
	case KIND_POINTWISE: out = pointwise(f, n); break;
	case KIND_VIEW:
		if (!viewed(f, n, carried, &out))
			out.kind = SHARE_OTHER;
		break;
	case KIND_REDUCTION: out = reduced(f, n); break;
	case KIND_MATMUL: out = multiplied(f, n); break;
	default: break;
	}
	out.at = n;
	return out;
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static bool writes_below(const Module *m, GraphId g) {
	bool any = false;
	for (NodeId n = 0; n < m->nodes.count && !any; n++) {
		if (node_get(m, n)->dead || !op_writes(node_get(m, n)->op))
			continue;
		for (GraphId at = node_get(m, n)->graph; at != NONE && !any; at = graph_parent(m, at))
			any = at == g;
	}
	return any;
}

/* What is written in the loop has nothing that is carried in it. */
static bool writes_share(const Follow *f, NodeId n) {
	bool writes = op_writes(node_get(f->m, n)->op), carried = false;
	for (uint32_t i = 0; i < node_get(f->m, n)->arg_count; i++) {
		const Arg *a = node_arg(f->m, n, i);
		writes = writes || (a->kind == ARG_GRAPH && writes_below(f->m, a->graph));
		carried = carried || !is_same(f, a);
	}
	return writes && carried;
}

static CarriedFact fact_of(const Follow *f, uint32_t i) {
	const Arg *result = arg_item(f->m, graph_results(f->m, f->g), f->graph->carried.at[i].output);
	CarriedFact out = {.by = NONE, .wrong = f->graph->output};
	const Share *x = arg_share(f, result);
	if (result->kind != ARG_REF)
		return out;
	out.wrong = x->kind == SHARE_OTHER ? x->at : result->node;
	bool own = x->of == i;
	if (x->kind == SHARE_SUM && own)
		out.kind = MERGE_SUM;
	else if ((x->kind == SHARE_NEW || x->kind == SHARE_MAX) && own)
		out.kind = MERGE_MAX;
	else if (x->kind == SHARE_MIN && own)
		out.kind = MERGE_MIN;
	else if ((x->kind == SHARE_DECAYED || x->kind == SHARE_WEIGHTED) && own) {
		out.kind = MERGE_SCALED;
		out.by = x->by;
		out.exp = x->exp;
		memcpy(out.row, x->row, sizeof out.row);
	} else {
		return out;
	}
	int8_t last = -1;
	for (uint32_t d = 0; out.kind == MERGE_SCALED && d < RANK_MAX; d++) {
		if (out.row[d] >= 0 && out.row[d] <= last)
			return out; /* turned around */
		last = out.row[d] >= 0 ? out.row[d] : last;
	}
	out.wrong = NONE;
	return out;
}

const CarriedFacts *carried_facts(const Module *m, Arena *a, GraphId g) {
	Follow f = {.m = m, .g = g, .graph = graph_get(m, g)};
	uint32_t count = f.graph->carried.count;
	CarriedFacts *out = arena_alloc(a, sizeof *out);
	*out = (CarriedFacts){.fact = arena_array(a, (size_t)count + 1, sizeof *out->fact), .writes = NONE};
	f.share = arena_array(a, (size_t)m->nodes.count + 1, sizeof *f.share);
	f.given = arena_array(a, (size_t)count + 1, sizeof *f.given);
	memset(f.share, 0, m->nodes.count * sizeof *f.share);
	for (uint32_t i = 0; i < count; i++) {
		const Arg *result = arg_item(m, graph_results(m, g), f.graph->carried.at[i].output);
		NodeId placeholder = f.graph->placeholders.at[f.graph->carried.at[i].arg];
		f.given[i] = result->kind == ARG_REF ? behind_aliases(m, result->node) : NONE;
		f.share[placeholder] = (Share){.kind = SHARE_OLD, .of = i};
		own_rows(&f, placeholder, &f.share[placeholder]);
	}
	for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next) {
		if (node_get(m, n)->op == OP_PLACEHOLDER || node_get(m, n)->op == OP_OUTPUT)
			continue;
		f.share[n] = share_of(&f, n);
		if (out->writes == NONE && writes_share(&f, n))
			out->writes = n;
	}
	for (uint32_t i = 0; i < count; i++)
		out->fact[i] = fact_of(&f, i);
	return out;
}

bool loop_only_adds(const Module *m, Arena *a, GraphId g) {
	const CarriedFacts *facts = carried_facts(m, a, g);
	bool adds = facts->writes == NONE && graph_get(m, g)->carried.count > 0;
	for (uint32_t i = 0; i < graph_get(m, g)->carried.count; i++)
		adds = adds && facts->fact[i].kind == MERGE_SUM && facts->fact[i].wrong == NONE;
	return adds;
}
