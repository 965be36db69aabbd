/* limits.c - the target's cap on the elements of a tile, compared with the resolved block sizes.
 *
 * The cap itself stands in Module.element_limits, found by the pass block_constraints; on a TPU that list is empty. A
 * block size over a limit is refused with the largest that fits: a power of two, as block sizes are by habit, that
 * keeps the alignments of the tensors which the block tiles. Where no size meets both, that is said instead, whatever
 * size the configuration gives. */
#include "lower.h"
#include "src/config/config.h"

/* ---- what tensors ask of a block -------------------------------------------------------------------------------- */

typedef struct Floor {
	int64_t least;   /* a block is a multiple of this ... */
	TensorId tensor; /* ... for the sake of this tensor; NONE: of 1 */
	int64_t whole;   /* ... or covers this: the largest dim that it tiles */
} Floor;

/* The multiple that dim `d` of a tensor asks for. A boundary view frees all but a last dim of two or more. */
static int64_t dim_multiple(const Planner *p, const Tensor *t, uint32_t d) {
	bool views = (Switch)p->m->config.boundary_views.value != SWITCH_OFF;
	bool last = d + 1 == t->rank && t->rank > 1;
	return views && !last ? 1 : target_block_multiple(p->m->target, dtype_bits(t->dtype), t->rank, d);
}

static void floor_of_access(const Planner *p, NodeId n, BlockId b, Floor *f) {
	TensorId id = access_tensor(p->m, n);
	const Arg *index = node_arg(p->m, n, 1);
	if (id == NONE || index->kind != ARG_LIST)
		return;
	const Tensor *t = &p->m->tensors.at[id];
	for (uint32_t i = 0; i < t->rank && index->list.count == t->rank; i++) {
		if (arg_block(p->m, arg_item(p->m, index, i)) != b)
			continue;
		int64_t multiple = dim_multiple(p, t, i);
		f->whole = int_max(f->whole, expr_number(p->m, t->shape[i]));
		if (multiple > f->least)
			*f = (Floor){multiple, id, f->whole};
	}
}

static Floor block_floor(const Planner *p, BlockId b) {
	Floor f = {.least = 1, .tensor = NONE};
	for (NodeId n = 0; n < p->m->nodes.count; n++) {
		uint16_t op = node_get(p->m, n)->op;
		if (!node_get(p->m, n)->dead && op_accesses(op))
			floor_of_access(p, n, b, &f);
	}
	return f;
}

/* The smallest block that its tensors take. */
static int64_t floor_size(const Floor *f) { return f->tensor == NONE ? 1 : int_min(f->least, f->whole); }

/* ---- limits ----------------------------------------------------------------------------------------------------- */

/* Does the limit hold with blocks of these sizes? */
static bool holds_at(const Planner *p, const ElementLimit *limit, const int64_t *sizes) {
	int64_t elements = expr_values_at(p->m, p->a, sizes)[limit->elements];
	return elements != EXPR_UNKNOWN && elements <= limit->most;
}

static int64_t *sizes_now(const Planner *p) {
	int64_t *sizes = arena_array(p->a, p->m->block_size.count + 1, sizeof *sizes);
	for (BlockId b = 0; b < p->m->block_size.count; b++)
		sizes[b] = p->m->block_size.at[b];
	return sizes;
}

/* The largest power of two for block b that holds and is a multiple of `least`; 0 if there is none. */
static int64_t largest_that_fits(const Planner *p, const ElementLimit *limit, BlockId b, int64_t least) {
	int64_t *sizes = sizes_now(p);
	sizes[b] = 1;
	while (sizes[b] <= limit->most / 2)
		sizes[b] *= 2;
	while (sizes[b] >= least && !holds_at(p, limit, sizes))
		sizes[b] /= 2;
	return sizes[b] >= least ? sizes[b] : 0;
}

static bool uses_block(const Module *m, ExprId e, BlockId b) {
	const Expr *x = &m->exprs.at[e];
	if (x->kind == EXPR_BLOCK)
		return (BlockId)x->value == b;
	return x->kind >= EXPR_ADD && (uses_block(m, x->a, b) || (x->b != NONE && uses_block(m, x->b, b)));
}

/* The configuration may choose it, and the limit depends on it. */
static bool limited(const Module *m, const ElementLimit *limit, BlockId b) {
	return block_is_chosen(&m->blocks.at[b]) && uses_block(m, limit->elements, b);
}

/* ---- refusals --------------------------------------------------------------------------------------------------- */

/* No sizes meet the limit and the alignments: of its blocks, b is the one that asks for most. */
static bool refuse_conflict(Planner *p, const ElementLimit *limit, BlockId b, const Floor *f) {
	const Tensor *t = &p->m->tensors.at[f->tensor];
	const char *name = p->m->blocks.at[b].name, *elements = expr_named(p->m, p->a, limit->elements);
	bool off = (Switch)p->m->config.boundary_views.value == SWITCH_OFF;
	return plan_refuse(p, limit->node, "tile-elements",
	                   off ? "pallas_boundary_views auto lets blocks be smaller" : "tile the other dims too",
	                   "%s <= %lld and %s >= %lld cannot both hold: '%s' has %s elements in a tile and %s holds "
	                   "%lld; blocks of the %u-D %s tensor %s are multiples of %lld",
	                   elements, (long long)limit->most, name, (long long)floor_size(f),
	                   node_get(p->m, limit->node)->name, elements, p->m->target->name, (long long)limit->most,
	                   t->rank, dtype_name(t->dtype), t->name, (long long)f->least);
}

/* True where some sizes meet both the limit and the alignments. */
static bool check_conflict(Planner *p, const ElementLimit *limit) {
	int64_t *sizes = sizes_now(p);
	Floor most = {.least = 1, .tensor = NONE};
	BlockId of = NONE;
	for (BlockId b = 0; b < p->m->blocks.count; b++) {
		if (!limited(p->m, limit, b))
			continue;
		Floor f = block_floor(p, b);
		sizes[b] = floor_size(&f);
		if (f.tensor != NONE && (of == NONE || sizes[b] > sizes[of]))
			most = f, of = b;
	}
	return of == NONE || holds_at(p, limit, sizes) || refuse_conflict(p, limit, of, &most);
}

/* "128*10240": the dims of the node's tile. */
static const char *dims_product(Planner *p, NodeId n) {
	const Type *t = node_type(p->m, n);
	Text out;
	text_init(&out, p->a);
	for (uint32_t i = 0; i < t->count; i++)
		text_printf(&out, i ? "*%lld" : "%lld", (long long)expr_number(p->m, t->dims[i]));
	return out.at;
}

/* The sizes of single blocks that would fit, the others as they are: "64", or "tile_m 64 or tile_n 128". */
static const char *fitting(Planner *p, const ElementLimit *limit) {
	Text fits;
	uint32_t count = 0;
	text_init(&fits, p->a);
	for (BlockId b = 0; b < p->m->blocks.count; b++)
		count += limited(p->m, limit, b);
	for (BlockId b = 0; b < p->m->blocks.count; b++) {
		int64_t size = limited(p->m, limit, b) ? largest_that_fits(p, limit, b, block_floor(p, b).least) : 0;
		if (size && fits.length)
			text_put(&fits, " or ");
		if (size && count > 1)
			text_printf(&fits, "%s ", p->m->blocks.at[b].name);
		if (size)
			text_printf(&fits, "%lld", (long long)size);
	}
	return fits.length ? fits.at : "none";
}

static bool refuse_size(Planner *p, const ElementLimit *limit) {
	return plan_refuse(p, limit->node, "tile-elements",
	                   "a configuration is never changed: give smaller block_sizes",
	                   "%s: a tile of '%s' is too large for %s: %s = %lld > %lld; largest that fits: %s",
	                   expr_named(p->m, p->a, limit->elements), node_get(p->m, limit->node)->name,
	                   p->m->target->name, dims_product(p, limit->node),
	                   (long long)expr_number(p->m, limit->elements), (long long)limit->most, fitting(p, limit));
}

bool plan_limits(Planner *p) {
	bool ok = true;
	for (uint32_t i = 0; i < p->m->element_limits.count; i++) {
		const ElementLimit *limit = &p->m->element_limits.at[i];
		int64_t elements = 0;
		bool within = expr_value(p->m, limit->elements, &elements) && elements <= limit->most;
		ok = check_conflict(p, limit) && (within || refuse_size(p, limit)) && ok;
	}
	return ok;
}
