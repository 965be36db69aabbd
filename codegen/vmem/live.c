/* live.c - what of a kernel lives from where to where.
 *
 * Straight-line code is scheduled so that a chain of pointwise ops streams through registers, one register of each tile
 * after the other. What must be whole is what lies across a *barrier*: a reduction, a matmul or a loop, which reads all
 * of a tile before anything that depends on it can start:
 *
 *     x = load               x lives until the subtraction: the maximum lies between
 *     m = max x
 *     y = sub x, m           y streams into the exponential and that into the store
 *     store exp(y)
 *
 * A region is one list of values, in the order of the program; a loop in it is one barrier, which reads what its steps
 * read of outside. */
#include "live.h"

/* ---- what a statement is ---------------------------------------------------------------------------------------- */

Part part_of_op(uint16_t op) {
	switch (op) {
	case K_LOAD: return PART_LOAD;
	case K_STORE: return PART_STORE;
	case K_LOOP: return PART_LOOP;
	case K_DOT: return PART_PRODUCT;
	case K_SUM:
	case K_MEAN:
	case K_MAX:
	case K_MIN:
	case K_PROD: return PART_REDUCE;
	case K_CUMSUM:
	case K_CUMPROD:
	case K_SORT: return PART_SCAN;
	case K_ZEROS:
	case K_ONES:
	case K_FULL:
	case K_IOTA:
	case K_SCALAR:
	case K_INT:
	case K_PROGRAM_ID:
	case K_DEBUG_PRINT:
	case K_YIELD: return PART_NOTHING;
	case K_CONCATENATE:
	case K_STACK:
	case K_PAD:
	case K_ROLL:
	case K_ROTATE:
	case K_FLIP:
	case K_REVERSE:
	case K_EVERY:
	case K_EVEN_LANES:
	case K_INTERLEAVE:
	case K_TAKE_LANES:
	case K_TAKE_ROWS:
	case K_BITCAST:
	case K_WORDS: return PART_MOVE;
	default: return PART_STREAM;
	}
}

Live *live_operand(const Lives *l, const Live *x, uint32_t i) {
	const KStmt *s = x->stmt == NONE ? NULL : live_stmt(l, x);
	const KArg *a = s && i < s->arg_count ? &l->k->args.at[s->arg_first + i] : NULL;
	return a && a->kind == KARG_VALUE ? l->value[a->value] : NULL;
}

bool live_rounds_or_views(const Lives *l, const Live *x) {
	return live_op(l, x) == K_CONVERT || kernel_op_views(live_op(l, x));
}

Live *live_computed_as(const Lives *l, Live *x) {
	while (x && live_rounds_or_views(l, x) && live_operand(l, x, 0))
		x = live_operand(l, x, 0);
	return x;
}

/* Along the last dim (1), or the one before it (2), among others. */
static bool reduces(const Lives *l, const Live *x, uint32_t from_last) {
	const Live *of = x->part == PART_REDUCE ? live_operand(l, x, 0) : NULL;
	uint32_t rank = of ? live_value(l, of)->rank : 0;
	if (rank == 0)
		return false;
	const KStmt *s = live_stmt(l, x);
	bool along = s->int_count == 1; /* all axes */
	for (uint32_t i = 1; i < s->int_count; i++)
		along = along || s->ints[i] + from_last == rank;
	return along;
}

bool live_reduces_lanes(const Lives *l, const Live *x) { return reduces(l, x, 1); }

bool live_reduces_rows(const Lives *l, const Live *x) { return reduces(l, x, 2); }

bool live_is_plain_load(const Lives *l, const Live *x) {
	return x->part == PART_LOAD || (live_op(l, x) == K_SWAPAXES && live_operand(l, x, 0)->part == PART_LOAD);
}

static int64_t value_bytes(const Lives *l, const KValue *v, Dtype dtype) {
	return v->rank ? int_min(register_bytes(l->t, dtype, v->rank, v->shape), TOO_MUCH) : 0;
}

int64_t live_wide_bytes(const Lives *l, const Live *x) {
	const KValue *v = live_value(l, x);
	return value_bytes(l, v, DTYPE_F32);
}

/* ---- a region --------------------------------------------------------------------------------------------------- */

static Shape shape_of(const KValue *v) {
	bool rows = v->rank >= 2 && v->shape[v->rank - 2] > 1;
	return !rows ? SHAPE_OTHER : v->shape[v->rank - 1] == 1 ? SHAPE_COLUMN : SHAPE_TILE;
}

static Live *add(Region *r, StmtId s, ValueId v, Part part) {
	Lives *l = r->of;
	Live *x = &r->at[++r->count];
	*x = (Live){.region = r,
	            .pos = r->count,
	            .stmt = s,
	            .value = v,
	            .part = part,
	            .read = l->reads.count,
	            .seen = NONE};
	if (v == NONE)
		return x;
	const KValue *value = &l->k->values.at[v];
	l->value[v] = x;
	x->bytes = part == PART_NOTHING ? 0 : value_bytes(l, value, value->dtype);
	x->column = last_size(value) <= l->t->lanes;
	x->shape = shape_of(value);
	x->uses = l->uses[v];
	x->narrow = part == PART_LOAD && is_narrow(value);
	x->loaded = part <= PART_LOAD;
	return x;
}

/* x reads a tile whose lanes are rows of x, or a value of such rows. */
static bool splits(const Lives *l, const Live *x, const Live *of) {
	int64_t lanes = last_size(live_value(l, x)), before = last_size(live_value(l, of));
	return live_op(l, x) == K_RESHAPE ? lanes > 0 && lanes < before && before % lanes == 0
	                                  : part_streams(x->part) && of->split && lanes == before;
}

static void add_read(Region *r, Live *x, Live *of) {
	if (of->region != r)
		vec_push(r->of->a, &r->outside, of->value);
	vec_push(r->of->a, &r->of->reads, of);
	x->reads++;
	of->looped = of->looped || x->part == PART_LOOP;
	x->loaded = x->loaded && of->loaded;
	x->split = x->split || splits(r->of, x, of);
	x->narrow = x->narrow || (of->narrow && !live_reduces_lanes(r->of, of));
}

static void add_reads(Region *r, Live *x) {
	const KStmt *s = live_stmt(r->of, x);
	for (uint32_t i = 0; i < s->arg_count; i++) {
		Live *of = live_operand(r->of, x, i);
		if (of)
			add_read(r, x, of);
	}
}

Live *live_product(const Lives *l, const Live *sum) {
	for (uint32_t i = 0; i < 2 && live_op(l, sum) == OP_ADD; i++) {
		Live *x = live_operand(l, sum, i);
		while (x && x->uses == 1 && live_op(l, x) == OP_MUL && x->reads == 1)
			x = l->reads.at[x->read];
		if (x && x->uses == 1 && x->region == sum->region && live_op(l, x) == K_DOT)
			return x;
	}
	return NULL;
}

/* The loop's next step gets it: as it is, rounded, chosen, or with more added to it. */
static bool is_handed_on(const Kernel *k, RegionId region, ValueId v) {
	const KStmt *yield = &k->stmts.at[k->regions.at[region].last];
	for (uint32_t i = 0; yield->op == K_YIELD && i < yield->arg_count; i++) {
		KArg a = k->args.at[yield->arg_first + i];
		while (a.kind == KARG_VALUE && a.value != v && k->values.at[a.value].def != NONE) {
			const KStmt *s = &k->stmts.at[k->values.at[a.value].def];
			bool goes_on = s->op == K_CONVERT || s->op == OP_ADD || s->op == OP_WHERE;
			a = goes_on ? k->args.at[s->arg_first + (s->op == OP_WHERE)] : (KArg){0};
		}
		if (a.kind == KARG_VALUE && a.value == v)
			return true;
	}
	return false;
}

/* A product that adds up over a loop's steps: the sum is the barrier, and reads the factors as well. */
static void merge_product(Region *r, Live *sum) {
	Lives *l = r->of;
	Live *dot = live_product(l, sum);
	if (!dot || !is_handed_on(l->k, live_stmt(l, sum)->region, sum->value))
		return;
	sum->part = PART_PRODUCT;
	sum->loaded = false;
	for (uint32_t i = 0; i < dot->reads; i++) {
		Live *factor = l->reads.at[dot->read + i];
		vec_push(l->a, &l->reads, factor);
		sum->reads++;
	}
	dot->part = PART_NOTHING;
	dot->bytes = 0;
	dot->reads = 0;
}

/* The value is the same in all lanes: of each row one register. */
static void make_column(const Lives *l, Live *x) {
	const KValue *v = live_value(l, x);
	int64_t shape[KDIM_MAX];
	memcpy(shape, v->shape, v->rank * sizeof *shape);
	shape[v->rank - 1] = 1;
	x->column = true;
	x->shape = SHAPE_COLUMN;
	x->bytes = int_min(register_bytes(l->t, v->dtype, v->rank, shape), TOO_MUCH);
}

/* A column that is spread along lanes is made where it is used, as is what is computed of such and of constants. */
static void spread_column(const Lives *l, Live *x) {
	bool spread = false;
	if (x->shape != SHAPE_TILE)
		return;
	for (uint32_t i = 0; i < x->reads; i++) {
		const Live *of = l->reads.at[x->read + i];
		if (of->part != PART_NOTHING && (!of->column || of->shape != SHAPE_COLUMN))
			return;
		spread = spread || of->part != PART_NOTHING;
	}
	if (spread)
		make_column(l, x);
}

/* Of constants alone: made where it is used. */
static void drop_constant(const Lives *l, Live *x) {
	for (uint32_t i = 0; i < x->reads; i++)
		if (l->reads.at[x->read + i]->part != PART_NOTHING)
			return;
	x->part = PART_NOTHING;
	x->bytes = 0;
}

/* A product that is rounded is so as it comes. */
static void round_product(const Lives *l, const Live *x) {
	Live *of = live_op(l, x) == K_CONVERT ? live_operand(l, x, 0) : NULL;
	if (of && of->part == PART_PRODUCT && of->uses == 1)
		of->bytes = int_min(of->bytes, x->bytes);
}

static void note_part(Region *r, const Live *x) {
	r->stores = r->stores || x->part == PART_STORE;
	r->multiplies = r->multiplies || x->part == PART_PRODUCT ||
	                (x->part == PART_LOOP && region_is_unrolled(x->body) && x->body->multiplies);
}

static Region *region_of(Lives *l, RegionId id, const KLoop *loop, const bool *spread);

static bool is_spread(const Live *x) {
	return x && (x->part == PART_NOTHING || (x->column && x->shape == SHAPE_COLUMN));
}

/* By argument of an unrolled loop: it is the same in all lanes from the first step on, if each step leaves it so. */
static bool *spread_from_start(const Lives *l, const Live *x) {
	const KStmt *s = live_stmt(l, x);
	bool *spread = arena_array(l->a, s->loop->carried.count + 1, sizeof *spread);
	for (uint32_t i = 0; i < s->loop->carried.count; i++)
		spread[i] = s->loop->type == LOOP_UNROLL && is_spread(live_operand(l, x, i));
	return spread;
}

/* Drops those that a step hands on otherwise. */
static bool stay_spread(const Lives *l, const Live *x, bool *spread) {
	const KStmt *yield = &l->k->stmts.at[l->k->regions.at[live_stmt(l, x)->body].last];
	bool stay = true;
	for (uint32_t i = 0; i < live_stmt(l, x)->loop->carried.count; i++) {
		const KArg *a = i < yield->arg_count ? &l->k->args.at[yield->arg_first + i] : NULL;
		if (spread[i] && !(a && a->kind == KARG_VALUE && is_spread(l->value[a->value])))
			spread[i] = stay = false;
	}
	return stay;
}

static void add_loop(Region *r, Live *x) {
	Lives *l = r->of;
	const KStmt *s = live_stmt(l, x);
	bool *spread = spread_from_start(l, x);
	do
		x->body = region_of(l, s->body, s->loop, spread);
	while (!stay_spread(l, x, spread));
	x->read = l->reads.count;
	add_reads(r, x);
	for (uint32_t i = 0; i < x->body->outside.count; i++)
		add_read(r, x, l->value[x->body->outside.at[i]]);
	for (uint32_t i = 0; i < s->result_count; i++) {
		Live *result = add(r, x->stmt, s->result + i, PART_RESULT);
		add_read(r, result, x);
		if (i < s->loop->carried.count && spread[i] && result->shape == SHAPE_TILE)
			make_column(l, result);
	}
}

static void add_stmt(Region *r, StmtId id) {
	Lives *l = r->of;
	const KStmt *s = &l->k->stmts.at[id];
	Part part = part_of_op(s->op);
	Live *x = add(r, id, part == PART_LOOP ? NONE : s->result, part);
	if (part == PART_LOOP) {
		add_loop(r, x);
		note_part(r, x);
		return;
	}
	add_reads(r, x);
	note_part(r, x);
	if (part != PART_STREAM)
		return;
	spread_column(l, x);
	drop_constant(l, x);
	round_product(l, x);
	merge_product(r, x);
}

static uint32_t region_size(const Kernel *k, RegionId id, const KLoop *loop) {
	uint32_t count = loop ? loop->carried.count : 0;
	for (StmtId s = region_first(k, id); s != NONE; s = k->stmts.at[s].next)
		count += 1 + (k->stmts.at[s].op == K_LOOP ? k->stmts.at[s].result_count : 0);
	return count;
}

/* ---- until when ------------------------------------------------------------------------------------------------- */

void each_read(Region *r, Visit *visit) {
	for (uint32_t pos = 1; pos <= r->count; pos++)
		for (uint32_t i = 0; i < r->at[pos].reads; i++)
			visit(r, &r->at[pos], r->of->reads.at[r->at[pos].read + i]);
}

bool live_crosses(const Live *x) { return x->until > x->pos && x->region->at[x->until].barriers > x[1].barriers; }

static void read_until(Live *user, Live *operand) {
	/* What streams is computed where it is read; a loop reads its arguments until its last step. */
	bool through = part_streams(user->part) && !live_crosses(user) && user->until > user->pos;
	uint32_t last = through ? user->until : user->pos + (user->part == PART_LOOP);
	if (operand->region == user->region && operand->until < last)
		operand->until = last;
}

static void mark_carried(Region *r, Live *user, Live *operand) {
	user->carries = user->carries || (operand->region == r && operand->carries);
}

/* What does not depend on the step before, but is read by what does. */
static void mark_frontier(Region *r, Live *user, Live *operand) {
	if (operand->region == r && user->carries && !operand->carries)
		operand->frontier = true;
}

static void find_ways(Region *r) {
	bool lanes = false, rows = false;
	for (uint32_t pos = 1; pos <= r->count; pos++) {
		const Live *x = &r->at[pos], *of = x->part == PART_REDUCE ? live_operand(r->of, x, 0) : NULL;
		bool along = of && live_reduces_lanes(r->of, x);
		lanes = lanes || along;
		rows = rows || (of && live_value(r->of, of)->rank >= 2 && !along);
	}
	r->both_ways = lanes && rows;
}

static void region_flow(Region *r) {
	const Lives *l = r->of;
	for (uint32_t pos = 1; pos <= r->count; pos++) {
		Live *x = &r->at[pos];
		x[1].barriers = x->barriers + part_is_barrier(x->part);
		x->carries = x->part == PART_CARRIED;
	}
	find_ways(r);
	for (uint32_t pos = r->count; pos >= 1; pos--)
		for (uint32_t i = 0; i < r->at[pos].reads; i++)
			read_until(&r->at[pos], l->reads.at[r->at[pos].read + i]);
	each_read(r, mark_carried);
	each_read(r, mark_frontier);
	region_waits(r);
	for (uint32_t pos = 1; pos <= r->count; pos++)
		if (r->at[pos].body)
			region_flow(r->at[pos].body);
}

static Region *region_of(Lives *l, RegionId id, const KLoop *loop, const bool *spread) {
	Region *r = arena_alloc(l->a, sizeof *r);
	*r = (Region){.of = l, .loop = loop};
	r->at = arena_array(l->a, region_size(l->k, id, loop) + 2, sizeof *r->at);
	for (uint32_t i = 0; loop && i < loop->carried.count; i++) {
		Live *x = add(r, NONE, loop->carried.at[i], PART_CARRIED);
		if (spread[i] && x->shape == SHAPE_TILE)
			make_column(l, x);
	}
	for (uint32_t i = 0; loop && i < loop->windows.count; i++)
		l->operand[loop->windows.at[i].buffer] = loop->windows.at[i].of;
	for (StmtId s = region_first(l->k, id); s != NONE; s = l->k->stmts.at[s].next)
		add_stmt(r, s);
	return r;
}

Lives *lives_of(const Kernel *k, const Target *t, Arena *a) {
	Lives *l = arena_alloc(a, sizeof *l);
	*l = (Lives){.k = k, .t = t, .a = a};
	l->value = arena_array(a, k->values.count + 1, sizeof *l->value);
	for (StmtId s = 0; s < k->stmts.count; s++)
		l->copies = l->copies || k->stmts.at[s].op == K_WAIT;
	l->operand = arena_array(a, k->buffers.count + 1, sizeof *l->operand);
	for (BufferId b = 0; b < k->buffers.count; b++)
		l->operand[b] = b;
	l->uses = arena_array(a, k->values.count + 1, sizeof *l->uses);
	for (uint32_t i = 0; i < k->args.count; i++)
		if (k->args.at[i].kind == KARG_VALUE)
			l->uses[k->args.at[i].value]++;
	l->root = region_of(l, k->body, NULL, NULL);
	region_flow(l->root);
	return l;
}
