/* parts.c - a step of a loop may be taken as several, each of a part of its tile, if what the loop carries comes to the
 * same: the parts of a sum are added to it, a greatest or a least value is that of the parts.
 *
 *     m_new = maximum(m, amax(s))                            s: [rows, 2048]
 *     acc_new = acc * exp(m - m_new) + exp(s - m_new) @ v
 *
 * carried.c says that each carried value is such a sum or extreme, and block_parts_matter() (narrow.c) that nothing
 * else mixes lanes of the tile, or looks at its size. Here each value is followed from where lanes are folded to where
 * it joins what is carried: what joins must grow with the parts. acc + 1 counts steps, and so does exp(-m_new) in a
 * sum; of sums that are folded nothing but multiples may be taken. */
#include "cuts.h"

#include "src/config/config.h"

typedef enum PartKind {
	PART_PLAIN, /* of each lane by itself, or of none; or of running maxima as carried.c allows it */
	PART_HELD,  /* carried, or what it becomes */
	PART_SUM,   /* over the tile's lanes */
	PART_MAX,
	PART_MIN,
	PART_OTHER /* parts of the tile give something else */
} PartKind;

typedef struct Parts {
	const Module *m;
	BlockId block;
	PartKind *kind; /* by node */
} Parts;

static PartKind kind_of(const Parts *p, const Arg *a) { return a->kind == ARG_REF ? p->kind[a->node] : PART_PLAIN; }

/* Also of lists. */
static bool is_plain(const Parts *p, const Arg *a) {
	bool plain = kind_of(p, a) == PART_PLAIN;
	for (uint32_t i = 0; arg_is_list(a) && i < a->list.count; i++)
		plain = plain && is_plain(p, arg_item(p->m, a, i));
	return plain;
}

static bool has_block(const Parts *p, NodeId n) { return node_has_block(p->m, n, p->block); }

static PartKind added(PartKind x, PartKind y) {
	bool sums = (x == PART_SUM || x == PART_HELD) && (y == PART_SUM || y == PART_HELD);
	return sums && (x == PART_SUM || y == PART_SUM) ? (x == y ? PART_SUM : PART_HELD) : PART_OTHER;
}

/* m - m_new and s - m_new are exponents: carried.c says so. */
static PartKind subtracted(PartKind x, PartKind y) {
	if (y == PART_HELD)
		return x == PART_HELD || x == PART_PLAIN ? PART_PLAIN : PART_OTHER;
	return x == PART_SUM && y == PART_SUM ? PART_SUM : PART_OTHER;
}

/* By what is plain; no product of two others comes to anything. */
static PartKind scaled(PartKind x, PartKind y) {
	PartKind of = x == PART_PLAIN ? y : x;
	bool ok = (x == PART_PLAIN || y == PART_PLAIN) && (of == PART_SUM || of == PART_HELD);
	return ok ? of : PART_OTHER;
}

/* Any number of times the same value is that value. */
static PartKind extreme(PartKind x, PartKind y, PartKind own) {
	bool ok = (x == PART_PLAIN || x == PART_HELD || x == own) && (y == PART_PLAIN || y == PART_HELD || y == own);
	return !ok ? PART_OTHER : x == PART_HELD || y == PART_HELD ? PART_HELD : own;
}

/* Choices and comparisons of a running maximum with its old value, or with -inf (carried.c). */
static PartKind chosen(const Parts *p, NodeId n) {
	bool ok = true;
	for (uint32_t i = 0; i < node_get(p->m, n)->arg_count; i++) {
		PartKind x = kind_of(p, node_arg(p->m, n, i));
		ok = ok && (x == PART_PLAIN || x == PART_HELD);
	}
	return ok ? PART_PLAIN : PART_OTHER;
}

static PartKind pointwise(const Parts *p, NodeId n) {
	PartKind x = kind_of(p, node_arg(p->m, n, 0)), y = kind_of(p, node_arg(p->m, n, 1));
	switch (op_canonical(node_get(p->m, n)->op)) {
	case OP_ADD: return added(x, y);
	case OP_SUB: return subtracted(x, y);
	case OP_MUL: return scaled(x, y);
	case OP_DIV: return x == PART_SUM && y == PART_PLAIN ? PART_SUM : PART_OTHER;
	case OP_NEG: return x == PART_SUM ? PART_SUM : PART_OTHER;
	case OP_MAXIMUM: return extreme(x, y, PART_MAX);
	case OP_MINIMUM: return extreme(x, y, PART_MIN);
	case OP_CONVERT: return dtype_is_float(node_type(p->m, n)->dtype) ? x : PART_OTHER;
	case OP_EQ:
	case OP_LT:
	case OP_WHERE:
	case OP_MASK_TO: return chosen(p, n);
	default: return PART_OTHER;
	}
}

/* What a matmul's result is added to; NONE. */
static NodeId matmul_added_to(const Module *m, NodeId n) {
	switch (node_get(m, n)->op) {
	case OP_ADDMM:
	case OP_ADDMM_DTYPE:
	case OP_BADDBMM:
	case OP_BADDBMM_DTYPE: return node_input(m, n, 0);
	case OP_DOT: return op_arg(m, n, "acc")->kind == ARG_REF ? op_arg(m, n, "acc")->node : NONE;
	default: return NONE;
	}
}

static PartKind multiplied(const Parts *p, NodeId n) {
	NodeId to = matmul_added_to(p->m, n);
	bool folds = false, plain = true;
	for (uint32_t i = 0; i < node_get(p->m, n)->arg_count; i++) {
		NodeId x = node_input(p->m, n, i);
		if (x == NONE || x == to)
			continue;
		folds = folds || has_block(p, x);
		plain = plain && p->kind[x] == PART_PLAIN;
	}
	PartKind product = !plain ? PART_OTHER : folds && !has_block(p, n) ? PART_SUM : PART_PLAIN;
	if (to == NONE)
		return product;
	return product == PART_PLAIN && p->kind[to] == PART_PLAIN ? PART_PLAIN : added(p->kind[to], product);
}

static PartKind reduced(const Parts *p, NodeId n) {
	NodeId x = node_input(p->m, n, 0);
	if (x == NONE || p->kind[x] != PART_PLAIN)
		return PART_OTHER;
	if (!has_block(p, x) || has_block(p, n))
		return PART_PLAIN;
	switch (op_canonical(node_get(p->m, n)->op)) {
	case OP_SUM: return PART_SUM;
	case OP_MAX: return PART_MAX;
	case OP_MIN: return PART_MIN;
	default: return PART_OTHER;
	}
}

static PartKind follow(const Parts *p, NodeId n) {
	const Module *m = p->m;
	uint16_t op = node_get(m, n)->op;
	bool plain = true;
	for (uint32_t i = 0; i < node_get(m, n)->arg_count; i++)
		plain = plain && is_plain(p, node_arg(m, n, i));
	if (op == OP_NEW_VAR || op == OP_PHI)
		return kind_of(p, alias_arg(m, n));
	if (op == OP_SYM_SIZE)
		return PART_PLAIN;
	if (op_kind(m, n) == KIND_MATMUL)
		return multiplied(p, n);
	if (op_kind(m, n) == KIND_REDUCTION)
		return reduced(p, n);
	if (plain)
		return PART_PLAIN;
	PartKind kind = op_kind(m, n) == KIND_POINTWISE ? pointwise(p, n)
	                : op_kind(m, n) == KIND_VIEW    ? kind_of(p, node_arg(m, n, 0))
	                                                : PART_OTHER;
	if (!has_block(p, n))
		return kind;
	return kind == PART_PLAIN || kind == PART_HELD ? PART_PLAIN : PART_OTHER; /* spread over lanes */
}

/* Each carried value is a sum or an extreme that parts add to, and nothing else leaves the loop. One of 16 bits would
 * be rounded more often. */
static bool carries_parts(const Parts *p, GraphId g, const CarriedFacts *facts) {
	const Graph *graph = graph_get(p->m, g);
	bool ok = graph->carried.count > 0 && graph->carried.count == graph_result_count(p->m, g);
	for (uint32_t i = 0; i < graph->carried.count && ok; i++) {
		const Arg *result = arg_item(p->m, graph_results(p->m, g), graph->carried.at[i].output);
		ok = facts->fact[i].wrong == NONE && result->kind == ARG_REF && kind_of(p, result) == PART_HELD &&
		     !has_block(p, result->node) && node_type(p->m, result->node)->dtype == DTYPE_F32;
	}
	return ok;
}

static bool writes(const Module *m, GraphId g) {
	for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next)
		if (op_writes(node_get(m, n)->op))
			return true;
	return false;
}

/* ---- what is rounded -------------------------------------------------------------------------------------------- */

/* exp(s - m) rounded to 16 bits is another number in units of another m: within what rounding the result to them hides,
 * not of a float32. By node: some such number is in it. */
typedef struct Rounded {
	const Module *m;
	bool *carried, *rounded;
} Rounded;

static bool is_narrow_float(Dtype t) { return dtype_is_float(t) && dtype_bits(t) == 16; }

static bool any_in(const Module *m, const bool *flag, const Arg *a) {
	bool any = a->kind == ARG_REF && flag[a->node];
	for (uint32_t i = 0; arg_is_list(a) && i < a->list.count; i++)
		any = any || any_in(m, flag, arg_item(m, a, i));
	return any;
}

static bool any_arg(const Module *m, const bool *flag, NodeId n) {
	bool any = false;
	for (uint32_t i = 0; i < node_get(m, n)->arg_count; i++)
		any = any || any_in(m, flag, node_arg(m, n, i));
	return any;
}

/* In the loop; false: to less than 16 bits. */
static bool rounds_in(Rounded *r, GraphId g) {
	const Module *m = r->m;
	bool ok = true;
	for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next) {
		if (node_get(m, n)->op == OP_PLACEHOLDER)
			continue;
		r->carried[n] = any_arg(m, r->carried, n);
		r->rounded[n] = any_arg(m, r->rounded, n);
		const Type *t = node_type(m, n);
		if (r->carried[n] && t->kind == TYPE_TENSOR && dtype_is_float(t->dtype) && t->dtype != DTYPE_F32) {
			r->rounded[n] = true;
			ok = ok && is_narrow_float(t->dtype);
		}
	}
	return ok;
}

/* Behind it: every number that is stored is rounded itself. */
static bool stores_rounded(Rounded *r, GraphId g) {
	const Module *m = r->m;
	bool ok = true;
	for (NodeId n = graph_first(m, graph_parent(m, g)); n != NONE && ok; n = node_get(m, n)->next) {
		const Arg *results = graph_results(m, g);
		bool result = node_get(m, n)->op == OP_GETITEM && node_input(m, n, 0) == graph_get(m, g)->caller;
		r->rounded[n] =
			result ? any_in(m, r->rounded, arg_item(m, results, (uint32_t)node_arg(m, n, 1)->integer))
			       : any_arg(m, r->rounded, n);
		if (op_converts(node_get(m, n)->op) && is_narrow_float(node_type(m, n)->dtype))
			r->rounded[n] = false;
		ok = !op_writes(node_get(m, n)->op) || !r->rounded[n];
	}
	return ok;
}

static bool rounding_is_hidden(const Module *m, GraphId g) {
	size_t count = (size_t)m->nodes.count + 1;
	Rounded r = {m, arena_array(m->arena, count, sizeof *r.carried),
	             arena_array(m->arena, count, sizeof *r.rounded)};
	memset(r.carried, 0, count * sizeof *r.carried);
	memset(r.rounded, 0, count * sizeof *r.rounded);
	for (uint32_t i = 0; i < graph_get(m, g)->carried.count; i++)
		r.carried[graph_get(m, g)->placeholders.at[graph_get(m, g)->carried.at[i].arg]] = true;
	return rounds_in(&r, g) && stores_rounded(&r, g);
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

bool loop_takes_parts(Module *m, GraphId g, int64_t part) {
	const Graph *graph = graph_get(m, g);
	if (graph->kind != GRAPH_FOR_LOOP || graph->blocks.count != 1 || graph->lengths != NONE || writes(m, g) ||
	    m->graphs.count != 2 || block_parts_matter(m, graph->blocks.at[0], part))
		return false;
	Parts p = {.m = m, .block = graph->blocks.at[0]};
	p.kind = arena_array(m->arena, (size_t)m->nodes.count + 1, sizeof *p.kind);
	memset(p.kind, 0, m->nodes.count * sizeof *p.kind);
	for (uint32_t i = 0; i < graph->carried.count; i++)
		p.kind[graph->placeholders.at[graph->carried.at[i].arg]] = PART_HELD;
	for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next)
		if (node_get(m, n)->op != OP_PLACEHOLDER && node_get(m, n)->op != OP_OUTPUT)
			p.kind[n] = follow(&p, n);
	return carries_parts(&p, g, carried_facts(m, m->arena, g)) && rounding_is_hidden(m, g);
}
