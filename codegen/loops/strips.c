/* strips.c - pallas_column_strips: a tile of long rows is computed in strips of columns that fit the registers.
 *
 * A reduction along the lanes reads all of a tile before what depends on it can start. As straight code each op runs
 * over the whole tile, [128, 10240] in float32 being 1280 registers where there are 64: every intermediate value is
 * spilled and filled again. In strips, all that needs no such reduction runs on a few columns at a time and stays in
 * registers; the reduction adds up strip by strip, in a part of one register's lanes; then a second run over the strips
 * does what waits for it:
 *
 *     x = load                          for strip in range(40):
 *     m = amax(x, -1)                           m = _fold_lanes(jnp.maximum, m, x[:, at])
 *     w = exp(x - m)            =>      m = jnp.max(m, axis=1, keepdims=True)
 *     t = sum(w, -1)                    for strip in range(40):
 *     store w / t                               w[:, at] = exp(x[:, at] - m); ...
 *
 * A run over the strips is a *phase*. What a later phase reads again of a value that spans the row is loaded or
 * converted again where that is one op, else kept in VMEM scratch, the *stash*. The order of sums changes as it does
 * from chip to chip; what is rounded stays. This decides whether to and how; rewrite_strips.c does it, which finds
 * again on the kernel what is marked by node here. */
#include "loops.h"
#include "codegen/costs/costs.h"
#include "codegen/lower/lower.h"

enum {
	/* auto: tiles of at least so many bytes as 32-bit values. docs/passes/column_strips.md has the measurements. */
	AUTO_BYTES = 1024 * 1024,
	PHASES = 32
};

typedef struct Maker {
	Planner *p;
	GraphId graph;
	Strips *s;
	int64_t rows;    /* of the tallest value that spans the row: all dims but the last */
	uint32_t reads;  /* reductions along the strips' dim */
	uint32_t *cost;  /* by node: ops to compute it again, from loads and narrow values */
	bool *turned;    /* by node: a vector of rows that strips read as a column */
	const char *why; /* not: the reason */
	NodeId at;       /* the node that says so; NONE */
} Maker;

static bool refuse(Maker *w, NodeId n, const char *why) {
	w->why = why;
	w->at = n;
	return false;
}

/* ---- which values span the row ----------------------------------------------------------------------------------- */

static bool is_value(const Maker *w, NodeId n) {
	const Type *t = node_type(w->p->m, n);
	Lowering how = op_lowering(node_get(w->p->m, n)->op);
	return t->kind == TYPE_TENSOR && t->count > 0 && how != LOWER_FREE && how != LOWER_STORE;
}

static int64_t last_dim(const Maker *w, NodeId n, int64_t *rows) {
	int64_t shape[DIM_MAX] = {0};
	uint32_t rank = plan_shape(w->p->plan, n, value_of(w->p, n)->form, shape);
	*rows = 1;
	for (uint32_t i = 0; i + 1 < rank; i++)
		*rows *= int_max(shape[i], 1);
	return rank ? shape[rank - 1] : 1;
}

/* The longest last dim is cut; a value has it or is narrow. */
static bool find_spanning(Maker *w) {
	int64_t rows = 0;
	for (NodeId n = graph_first(w->p->m, w->graph); n != NONE; n = node_get(w->p->m, n)->next)
		if (is_value(w, n))
			w->s->size = int_max(w->s->size, last_dim(w, n, &rows));
	for (NodeId n = graph_first(w->p->m, w->graph); n != NONE; n = node_get(w->p->m, n)->next) {
		w->s->stash[n] = NONE;
		if (!is_value(w, n) || last_dim(w, n, &rows) != w->s->size)
			continue;
		w->s->spans[n] = true;
		w->rows = int_max(w->rows, rows);
	}
	return w->s->size % w->p->m->target->lanes == 0 || refuse(w, NONE, "the rows are not of whole registers");
}

/* ---- what can run strip by strip -------------------------------------------------------------------------------- */

typedef bool Visit(Maker *w, NodeId user, NodeId operand);
static bool each_ref(Maker *w, NodeId user, const Arg *a, Visit *visit) {
	bool ok = true;
	if (a->kind == ARG_REF)
		ok = visit(w, user, value_root(w->p->plan, a->node));
	for (uint32_t i = 0; (a->kind == ARG_LIST || a->kind == ARG_SLICE) && i < a->list.count && ok; i++)
		ok = each_ref(w, user, arg_item(w->p->m, a, i), visit);
	return ok;
}
static bool each_operand(Maker *w, NodeId user, Visit *visit) {
	bool ok = true;
	if (w->s->folds[user])
		return visit(w, user, w->s->folded[user]);
	for (uint32_t i = 0; i < node_get(w->p->m, user)->arg_count && ok; i++)
		ok = each_ref(w, user, node_arg(w->p->m, user, i), visit);
	return ok;
}

static bool operand_not_spanning(Maker *w, NodeId user, NodeId operand) {
	(void)user;
	return !w->s->spans[operand];
}
static bool reads_spanning(Maker *w, NodeId n) { return !each_operand(w, n, operand_not_spanning); }

/* A sum is added to what lies there, strip by strip: nothing else touches the block, which is filled before the first
 * visit's strips (rewrite_held.c). */
static bool adds_up(const Maker *w, NodeId n) {
	const Plan *plan = w->p->plan;
	uint32_t operand = value_of(w->p, n)->access->operand, touches = 0;
	const Held *held = plan->operands.at[operand].held;
	for (NodeId x = graph_first(w->p->m, w->graph); x != NONE; x = node_get(w->p->m, x)->next) {
		const Access *access = value_of(w->p, x)->access;
		touches += access && access->operand == operand;
	}
	return node_get(w->p->m, n)->op == OP_ATOMIC_ADD && touches == 1 && held && held->initial == INITIAL_VALUE;
}

/* The last dim is read or written whole, as it lies; masks leave it alone. */
static bool access_in_strips(Maker *w, NodeId n) {
	const Access *access = value_of(w->p, n)->access;
	const Operand *o = &w->p->plan->operands.at[access->operand];
	bool good = access->kind == REF_OPERAND && access->rank > 1 && access->perm_rank == 0 &&
	            (!o->held || adds_up(w, n)) && o->parts == 1 && access->dim[access->rank - 1].kind == SLICE_ALL &&
	            o->block[access->rank - 1] == w->s->size;
	return good || refuse(w, n, "its columns are not a block of their own");
}

static bool masks_in_strips(Maker *w, NodeId n) {
	const Value *v = value_of(w->p, n);
	uint32_t rank = value_rank(w->p, n);
	for (uint32_t i = 0; i < v->mask_count; i++)
		if (v->masks[i].dim + 1 >= rank)
			return refuse(w, n, "its last dim is masked");
	return true;
}

/* One element of the last dim broadcasts; more than one are another tile. */
static bool operand_broadcasts(Maker *w, NodeId user, NodeId operand) {
	int64_t rows;
	if (w->s->spans[operand] && value_of(w->p, operand)->form != value_of(w->p, user)->wants)
		return refuse(w, user, "it turns a row into a column");
	return !is_value(w, operand) || w->s->spans[operand] || last_dim(w, operand, &rows) == 1 ||
	       refuse(w, user, "it joins rows of two lengths");
}

/* What a reduction adds up: a maximum or minimum of converted bfloat16 is one of what was converted, at half the ops
 * where the vector unit has them. */
static NodeId folded_value(const Maker *w, uint16_t op, NodeId x) {
	const Module *m = w->p->m;
	NodeId from = node_get(m, x)->op == OP_CONVERT ? value_root(w->p->plan, node_input(m, x, 0)) : NONE;
	bool narrow = from != NONE && w->s->spans[from] && node_type(m, from)->dtype == DTYPE_BF16 &&
	              m->target->bf16_vpu && value_of(w->p, from)->form == FORM_NATURAL;
	return narrow && op_is(op, IS_CHOICE) ? from : x;
}

static bool reduction_in_strips(Maker *w, NodeId n) {
	NodeId x = value_root(w->p->plan, node_input(w->p->m, n, 0));
	uint32_t rank = value_rank(w->p, x), dims = reduction_dims(w->p->m, n);
	uint32_t last = rank ? 1u << (rank - 1) : 0;
	const Value *v = value_of(w->p, n);
	if (v->wants != FORM_NATURAL || value_of(w->p, x)->form != FORM_NATURAL)
		return refuse(w, n, "it reduces columns");
	if (!(dims & last))
		return w->s->spans[n] || refuse(w, n, "its result is no row");
	Dtype dtype = v->compute != DTYPE_NONE ? v->compute : node_type(w->p->m, x)->dtype;
	uint16_t op = op_canonical(node_get(w->p->m, n)->op);
	bool known = op == OP_SUM || op == OP_MEAN || op_is(op, IS_CHOICE);
	if (dims != last || rank < 2 || w->s->spans[n] || !known || dtype != DTYPE_F32)
		return refuse(w, n, "it does not reduce rows alone, in float32");
	w->s->folds[n] = true;
	w->s->folded[n] = folded_value(w, op, x);
	w->reads++;
	return true;
}

static bool node_in_strips(Maker *w, NodeId n) {
	Lowering how = op_lowering(node_get(w->p->m, n)->op);
	ViewShape view = how == LOWER_VIEW ? view_shape(w->p, n) : VIEW_SHAPE_SAME;
	w->s->inside[n] =
		value_of(w->p, n)->same_as == NONE && how != LOWER_FREE && (w->s->spans[n] || reads_spanning(w, n));
	if (how == LOWER_STORE && node_uses(w->p->m, n) != NONE)
		return refuse(w, n, "it combines with what was there");
	if (!w->s->inside[n])
		return true;
	switch (how) {
	case LOWER_LOAD: return masks_in_strips(w, n) && access_in_strips(w, n);
	case LOWER_STORE:
		return (node_get(w->p->m, n)->op == OP_STORE || adds_up(w, n)) && value_of(w->p, n)->mask_count == 0
		               ? access_in_strips(w, n)
		               : refuse(w, n, "it combines with what was there");
	case LOWER_INDEX: return w->s->spans[n] || refuse(w, n, "it counts another dim");
	case LOWER_POINTWISE:
	case LOWER_FULL:
		return w->s->spans[n] ? each_operand(w, n, operand_broadcasts)
		                      : refuse(w, n, "its result has another last dim");
	case LOWER_MASK: return masks_in_strips(w, n);
	case LOWER_ALIAS:
	case LOWER_VIEW:
		return (w->s->spans[n] &&
		        (view == VIEW_SHAPE_SAME || view == VIEW_SHAPE_UNIT_FIRST || view == VIEW_SHAPE_DROP_FIRST)) ||
		       refuse(w, n, "it moves lanes");
	case LOWER_REDUCE: return reduction_in_strips(w, n);
	default: return refuse(w, n, "its op is not known to work column by column");
	}
}

/* ---- phases ----------------------------------------------------------------------------------------------------- */

/* A node runs in the phase of its operands that span the row, or after the last phase of the reductions that it reads.
 */
static bool later_than(Maker *w, NodeId user, NodeId operand) {
	uint32_t after = w->s->phase[operand] + w->s->folds[operand];
	w->s->phase[user] = after > w->s->phase[user] ? after : w->s->phase[user];
	uint32_t again = w->s->spans[operand] ? w->cost[operand] : 0;
	w->cost[user] = (uint32_t)int_min((int64_t)w->cost[user] + again, PHASES);
	return true;
}

static bool find_phases(Maker *w) {
	for (NodeId n = graph_first(w->p->m, w->graph); n != NONE; n = node_get(w->p->m, n)->next) {
		Lowering how = op_lowering(node_get(w->p->m, n)->op);
		int64_t rows = 0;
		if (how == LOWER_FREE)
			continue;
		w->cost[n] = how == LOWER_POINTWISE || how == LOWER_MASK ? 1 : how == LOWER_REDUCE ? PHASES : 0;
		each_operand(w, n, later_than);
		/* One row is nothing beside a tile of them. */
		if (is_value(w, n) && how != LOWER_REDUCE && last_dim(w, n, &rows) == w->s->size && rows == 1)
			w->cost[n] = 0;
		if (w->s->phase[n] + 1 >= PHASES)
			return refuse(w, n, "there are too many reductions one after the other");
		w->s->phases = (uint32_t)int_max(w->s->phases, w->s->phase[n] + 1);
	}
	return true;
}

/* What another node of the phase reads converted, a reduction takes converted too: it would save nothing, and the
 * compiler keeps it for later phases (cross-entropy: docs/passes/column_strips.md). */
static void share_converted(Maker *w) {
	const Module *m = w->p->m;
	for (NodeId n = graph_first(m, w->graph); n != NONE; n = node_get(m, n)->next) {
		NodeId x = w->s->folds[n] ? value_root(w->p->plan, node_input(m, n, 0)) : NONE;
		for (ArgId u = x == NONE ? NONE : node_uses(m, x); u != NONE; u = arg_get(m, u)->next_use) {
			NodeId user = arg_get(m, u)->user;
			bool folds_narrow = w->s->folds[user] && w->s->folded[user] != x;
			if (!folds_narrow && w->s->inside[user] && w->s->phase[user] == w->s->phase[n])
				w->s->folded[n] = x;
		}
	}
}

static bool note_needed(Maker *w, NodeId user, NodeId operand) {
	if (w->s->spans[operand])
		w->s->needed[operand] |= w->s->computed[user];
	return true;
}

/* Backwards from users: where each value that spans the row is computed. */
static void find_stashes(Maker *w) {
	for (NodeId n = graph_get(w->p->m, w->graph)->last; n != NONE; n = node_get(w->p->m, n)->prev) {
		uint32_t own = 1u << w->s->phase[n];
		if (op_lowering(node_get(w->p->m, n)->op) == LOWER_FREE || value_of(w->p, n)->same_as != NONE)
			continue;
		w->s->computed[n] = own;
		if (w->s->spans[n] && (w->cost[n] <= 1 || node_type(w->p->m, n)->dtype == DTYPE_BOOL))
			w->s->computed[n] = w->s->needed[n];
		else if (w->s->spans[n] && w->s->needed[n] & ~own)
			w->s->stash[n] = carry_scratch(w->p, n, "read again once the strips' reductions are known");
		each_operand(w, n, note_needed);
	}
}

/* ---- whether to ------------------------------------------------------------------------------------------------- */

/* Without a reduction straight code streams; but what makes an operand that XLA fuses is scheduled with what reads it:
 * fused.c. */
static bool fuses(const Maker *w) {
	const Plan *plan = w->p->plan;
	bool fuses = false;
	for (uint32_t i = 0; i < plan->operands.count; i++)
		fuses = fuses || operand_may_fuse(w->p, &plan->operands.at[i]);
	return fuses && w->rows * w->p->m->target->lanes * 4 <= target_strip_bytes(w->p->m->target);
}

static bool strips_at(Maker *w) {
	if (w->p->m->debug_prints)
		return refuse(w, NONE, "values are printed while it runs");
	if (!find_spanning(w))
		return false;
	for (NodeId n = graph_first(w->p->m, w->graph); n != NONE; n = node_get(w->p->m, n)->next)
		if (!node_in_strips(w, n))
			return false;
	if (w->reads == 0 && !fuses(w))
		return refuse(w, NONE, "nothing waits for a reduction of its rows");
	return find_phases(w);
}

/* A vector of rows that strips read as a column. */
static bool note_turned(Maker *w, NodeId user, NodeId operand) {
	(void)user;
	const Value *v = value_of(w->p, operand);
	bool view = op_lowering(node_get(w->p->m, operand)->op) == LOWER_VIEW && v->wants == FORM_COLUMN;
	NodeId x = view ? value_root(w->p->plan, node_input(w->p->m, operand, 0)) : NONE;
	w->turned[operand] = view && !w->s->spans[operand] && node_type(w->p->m, operand)->dtype == DTYPE_F32 &&
	                     value_of(w->p, x)->form == FORM_NATURAL;
	return true;
}

/* Spread over all lanes once, a column takes as many registers as what a reduction adds up in. Together they may take
 * three quarters. Whether all columns are spread: then strips need not be wide to share what else each would spread. */
static bool set_spread(Maker *w) {
	const Target *t = w->p->m->target;
	int64_t each = int_round_up(int_max(w->rows, 1), t->sublanes) / t->sublanes; /* no row: nothing spans one */
	int64_t columns = 0, sums = 0, folds[PHASES] = {0};
	for (NodeId n = graph_first(w->p->m, w->graph); n != NONE; n = node_get(w->p->m, n)->next) {
		if (w->s->folds[n])
			sums = int_max(sums, ++folds[w->s->phase[n]]);
		if (w->s->inside[n])
			each_operand(w, n, note_turned);
	}
	for (NodeId n = graph_first(w->p->m, w->graph); n != NONE; n = node_get(w->p->m, n)->next)
		columns += w->turned[n];
	w->s->spread = (uint32_t)int_min(columns, int_max(t->registers * 3 / 4 / each - sums, 0));
	return columns && w->s->spread == columns;
}

static bool set_width(Maker *w) {
	int64_t lanes = w->p->m->target->lanes, pieces = w->s->size / lanes;
	int64_t rows = int_round_up(w->rows, w->p->m->target->sublanes);
	int64_t most = target_strip_bytes(w->p->m->target) / (set_spread(w) ? 2 : 1);
	w->s->width = lanes;
	for (int64_t i = 2; i < pieces; i++)
		if (pieces % i == 0 && rows * i * lanes * 4 <= most)
			w->s->width = i * lanes;
	w->s->count = w->s->size / w->s->width;
	return w->s->count > 1 || refuse(w, NONE, "its rows are one register long");
}

static void *by_node(Maker *w, size_t size) { return arena_array(w->p->a, (size_t)w->p->m->nodes.count + 1, size); }

static Maker maker_new(Planner *p) {
	Strips *s = arena_alloc(p->a, sizeof *s);
	Maker w = {.p = p, .graph = p->plan->root, .s = s, .at = NONE};
	s->spans = by_node(&w, sizeof *s->spans);
	s->inside = by_node(&w, sizeof *s->inside);
	s->folds = by_node(&w, sizeof *s->folds);
	s->folded = by_node(&w, sizeof *s->folded);
	s->phase = by_node(&w, sizeof *s->phase);
	s->stash = by_node(&w, sizeof *s->stash);
	s->computed = by_node(&w, sizeof *s->computed);
	s->needed = by_node(&w, sizeof *s->needed);
	w.cost = by_node(&w, sizeof *w.cost);
	w.turned = by_node(&w, sizeof *w.turned);
	return w;
}

void plan_strips(Planner *p) {
	if (!way_is(p, ROW_TILES, TILES_STRIPS))
		return;
	Maker w = maker_new(p);
	bool cut = strips_at(&w) && set_width(&w);
	int64_t bytes = w.rows * w.s->size * 4;
	bool small = bytes < AUTO_BYTES && w.reads > 0;
	if (cut && (Switch)p->m->config.column_strips.value == SWITCH_AUTO && small)
		cut = refuse(&w, NONE,
		             arena_printf(p->a, "auto: the largest tile is %lld bytes: straight code does it",
		                          (long long)bytes));
	if (!cut) {
		plan_remark(p->plan, "column strips: none: %s%s%s", w.at == NONE ? "" : node_get(p->m, w.at)->name,
		            w.at == NONE ? "" : ": ", w.why);
		return;
	}
	share_converted(&w);
	find_stashes(&w);
	p->plan->strips = w.s;
	plan_remark(p->plan, "column strips: the tile is computed in %lld strips of %lld columns, in %u phases%s",
	            (long long)w.s->count, (long long)w.s->width, w.s->phases,
	            w.s->spread ? arena_printf(p->a, "; columns spread over all lanes for them: %u", w.s->spread) : "");
}

bool strips_may_inline(const Plan *p, NodeId n, NodeId user) {
	const Strips *s = p->strips;
	if (!s)
		return true;
	if (s->folds[n] || s->stash[n] != NONE || s->inside[n] != s->inside[user])
		return false;
	return !s->inside[n] || s->phase[n] == s->phase[user];
}

int64_t strips_bytes(const Plan *p) {
	int64_t bytes = 0;
	for (NodeId n = 0; p->strips && n < p->module->nodes.count; n++)
		if (p->strips->inside[n] && p->strips->stash[n] != NONE)
			bytes += p->scratches.at[p->strips->stash[n]].bytes;
	return bytes;
}
