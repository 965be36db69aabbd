/* waits.c - what is computed early, and kept until what it waits for is there.
 *
 * A reduction along lanes takes long to come out, as does a column that is loaded, or turned from a row, until it is
 * spread along the lanes. Straight code is scheduled by what is ready: of
 *
 *     t = sum(x, -1)
 *     out = exp(y) * t + z
 *
 * the exponents are ready at once, and are computed and spilled before the first of them meets t. What was measured,
 * for tiles of [32, 1024] to [1024, 1024] and [256, 4096] and all chips (tests/unit/test_vmem_measured.c,
 * tests/vmem/test_vmem_measured.py):
 *
 * - What is computed waits whole for a reduction, of 32-bit loads as spill_late says.
 * - What is only loaded, or widened, as the tile that meets t itself waits as well, if something is computed of the
 *   product; of an op alone that is stored, spill_joined. What meets such a tile later, as z, is loaded where it
 *   is used; of widened ones the compilers load one early, packed.
 * - What has met one column waits for the next.
 * - A computed tile, or one that is widened, waits for a loaded column, but for the registers, and no more than
 *   spill_spread. What has met one column waits for the next whole; where elements of 32 bits are loaded, as
 *   spill_second_loaded and spill_third_loaded say.
 * - Reductions of rows and matmuls come out as they go: nothing waits for them. */
#include "live.h"

enum { WIDENED_SECOND = 1024 * 1024 };

static const Target *target_of(const Region *r) { return r->of->t; }

static bool is_wide(const Live *x) { return !x->column && x->bytes > 0; }

/* Several rows, each turned into a column. */
static bool turns(const Lives *l, const Live *x) { return live_op(l, x) == K_TO_COLUMN && live_value(l, x)->rank > 2; }

/* A reduction along lanes, or an unrolled loop with one: straight code too. */
static bool takes_long(const Lives *l, const Live *x) {
	if (x->part != PART_LOOP || !region_is_unrolled(x->body))
		return live_reduces_lanes(l, x);
	for (uint32_t pos = 1; pos <= x->body->count; pos++)
		if (live_reduces_lanes(l, &x->body->at[pos]))
			return true;
	return false;
}

/* The packed load that this widens, and does no more than that; NULL. */
static const Live *widened_load(const Lives *l, Live *x) {
	Live *from = live_computed_as(l, x);
	return from && from->part == PART_LOAD && from->narrow && !is_narrow(live_value(l, x)) ? from : NULL;
}

/* ---- what waits for what ---------------------------------------------------------------------------------------- */

/* In an unrolled step, of a value that is there before the loop. */
static bool waits_outside(const Region *r, const Live *x) {
	return x->region != r && region_is_unrolled(r) && x->reduced;
}

static void add_wait(Region *r, Live *user, Live *operand) {
	uint32_t last = waits_outside(r, operand) ? OUTSIDE : 0;
	if (operand->region == r)
		last = takes_long(r->of, operand) ? AFTER(operand->pos) : operand->waits;
	if (turns(r->of, user))
		last = (uint32_t)int_max(last, OUTSIDE);
	if (user->waits < last)
		user->waits = last;
	r->any_waits = r->any_waits || last;
	user->reduced = user->waits > 0 || takes_long(r->of, user);
}

/* It reads another wide value that waits for the same, or was there before. */
static void mark_joins(Region *r, Live *user, Live *operand) {
	if (operand->region == r && user->waits && is_wide(operand))
		user->joins = user->joins || operand->pos < user->waits || operand->waits == user->waits;
}

/* ---- what comes early ------------------------------------------------------------------------------------------- */

/* What is computed here is only stored, rounded or not. */
static bool goes_to_store(const Lives *l, const Live *x) {
	const Live *store = x->uses == 1 ? &x->region->at[x->until] : NULL;
	return store && store->part == PART_STORE && live_computed_as(l, live_operand(l, store, 1)) == x;
}

/* Percent of the tile that meets the reduction itself, if it is loaded only. */
static int64_t first_share(const Region *r, const Live *user) {
	uint16_t op = live_op(r->of, user);
	bool one_op = op == OP_ADD || op == OP_SUB || op == OP_MUL || op == OP_DIV;
	return one_op && goes_to_store(r->of, user) ? target_of(r)->spill_joined : 100;
}

static int64_t early_size(const Region *r, const Live *user, Live *x) {
	int64_t wait = x->narrow ? 100 : target_of(r)->spill_late;
	bool widened = widened_load(r->of, x), loaded = live_is_plain_load(r->of, x);
	if (live_value(r->of, x)->dtype == DTYPE_BOOL)
		return 0;
	if (!widened && !loaded)
		return x->bytes * wait / 100;
	int64_t share = first_share(r, user);
	if (user->joins || (loaded && (share < 100 || x->narrow)))
		return 0;
	return x->bytes * int_min(share, wait) / 100;
}

static void add_late(Region *r, Live *user, Live *x) {
	uint32_t after = user->waits;
	if (x->region != r || x->pos < after || x->waits >= after || x->early || !part_streams(user->part) ||
	    x->part == PART_CARRIED || !is_wide(x))
		return;
	x->early = true;
	r->late[after] += early_size(r, user, x);
	const Live *from = user->joins ? widened_load(r->of, x) : NULL;
	r->late_load[after] = int_max(r->late_load[after], from ? from->bytes : 0);
}

/* Columns are turned one after the other: what has met one waits for the next. */
static void add_between(Region *r, Live *user, Live *column) {
	if (column->region != r || !turns(r->of, column) || user->waits != OUTSIDE)
		return;
	for (uint32_t i = 0; i < user->reads; i++) {
		const Live *x = r->of->reads.at[user->read + i];
		if (x != column && x->region == r && is_wide(x) && x->waits == OUTSIDE)
			r->late_load[OUTSIDE] = int_max(r->late_load[OUTSIDE], x->bytes);
	}
}

/* What is spread along lanes. */
static const Live *column_of(const Lives *l, const Live *x) {
	bool spreads = live_op(l, x) == K_TILE || live_op(l, x) == K_BROADCAST;
	return spreads && x->column ? live_operand(l, x, 0) : x;
}

/* What has met one column of outside the unrolled steps waits for the next, of all steps. Measured for softmax in two
 * passes on v6e and v7x: of 4 and 8 steps' tiles [256, 256] half, of 13 of [128, 1280] nine tenths, of 32 tiles one
 * register wide an eighth; of what is widened no more than 1 MiB. */
static int64_t second_size(const Region *r, const Live *x) {
	const KLoopDim *d = &r->loop->dim[0];
	int64_t steps = int_min(d->full_steps + (d->tail != 0), TOO_MUCH / 1024);
	int64_t bytes = int_min(x->bytes, TOO_MUCH / 1024) * steps, share = bytes * target_of(r)->spill_second / 100;
	if (!is_wide(x))
		return share / 4;
	if (x->narrow)
		return int_min(share, WIDENED_SECOND);
	return steps > 8 ? bytes / 10 * 9 : share;
}

static void add_second(Region *r, Live *user, Live *x) {
	if (!target_of(r)->spill_second || x->region != r || !r->loop || x->waits != OUTSIDE ||
	    !part_streams(x->part) || turns(r->of, x) || column_of(r->of, x) != x)
		return;
	bool second = false;
	for (uint32_t i = 0; i < user->reads; i++) {
		const Live *column = column_of(r->of, r->of->reads.at[user->read + i]);
		second = second || (waits_outside(r, column) && rows_of(live_value(r->of, column)) > 1);
	}
	if (second)
		r->of->beside += second_size(r, x);
}

/* What is turned is there whole; so often. */
static void turn(Lives *l, int64_t bytes, int64_t times) {
	int64_t spilled = bytes - target_registers_bytes(l->t, l->t->registers - l->t->spill_turning);
	l->columns = int_max(l->columns, spilled * times);
}

/* ---- columns that are loaded ------------------------------------------------------------------------------------ */

/* Bytes of a tile that waits, in 32-bit elements. */
static int64_t waiting(const Region *r, const Live *x, uint32_t met) {
	const Target *t = target_of(r);
	int64_t bytes = live_wide_bytes(r->of, x);
	if (met == 0)
		return int_min(bytes - held_bytes(t), t->spill_spread * 1024);
	if (!x->narrow)
		bytes = bytes * (met == 1 ? t->spill_second_loaded : t->spill_third_loaded) / 12;
	return bytes - held_bytes(t);
}

/* A column that is computed and meets a tile is there whole: rsqrt(x) [2, 4096, 1], 4 MiB on v5p and v6e. */
static void meet_computed(Region *r, const Live *x) {
	if (x->shape == SHAPE_COLUMN && part_streams(x->part))
		turn(r->of, live_wide_bytes(r->of, x), 1);
}

static void meet_columns(Region *r, Live *x) {
	Lives *l = r->of;
	bool column = false;
	const Live *tile = NULL;
	for (uint32_t i = 0; i < x->reads; i++) {
		const Live *of = l->reads.at[x->read + i];
		column = column || of->spread;
		x->computed = x->computed || of->computed;
		if (of->shape == SHAPE_TILE && (!tile || of->met > tile->met))
			tile = of;
	}
	x->spread = column && x->shape == SHAPE_COLUMN;
	for (uint32_t i = 0; i < x->reads && x->shape == SHAPE_TILE; i++)
		meet_computed(r, column_of(l, l->reads.at[x->read + i]));
	if (!tile || x->shape != SHAPE_TILE)
		return;
	if (column && (x->computed || tile->met))
		l->columns = int_max(l->columns, waiting(r, x, tile->met));
	x->met = (uint8_t)int_min(tile->met + column, 2);
	x->computed = x->computed || !live_rounds_or_views(l, x) ||
	              (is_narrow(live_value(l, tile)) && !is_narrow(live_value(l, x)));
}

/* ---- columns that are turned ------------------------------------------------------------------------------------ */

/* Bytes that come out of the unit for lanes, or of a loop. */
static int64_t source_bytes(const Lives *l, const Live *x) {
	if (live_reduces_lanes(l, x))
		return live_wide_bytes(l, x) / (l->t->packs_reduced && is_narrow(live_value(l, x)) ? 2 : 1);
	bool column = x->shape == SHAPE_COLUMN && !part_streams(x->part) && x->part != PART_NOTHING;
	return column || turns(l, x) ? live_wide_bytes(l, x) : 0;
}

/* All that a column that becomes a row is computed of; each counts once. */
static int64_t sources(const Lives *l, const Live *row) {
	VEC(Live *) left = {0};
	int64_t bytes = 0;
	vec_push(l->a, &left, live_operand(l, row, 0));
	while (left.count) {
		Live *x = left.at[--left.count];
		if (!x || x->seen == row->stmt)
			continue;
		x->seen = row->stmt;
		int64_t own = source_bytes(l, x);
		bytes = int_min(bytes + own, TOO_MUCH);
		for (uint32_t i = 0; part_streams(x->part) && own == 0 && i < x->reads; i++)
			vec_push(l->a, &left, l->reads.at[x->read + i]);
	}
	return bytes;
}

/* A ragged last step, which stands after its loop, turns it again (columns of 0.5 to 8 MiB that become rows, v5p and
 * v6e: 1.7 to 1.93 times). */
static void turn_column(const Region *r, Live *x) {
	Lives *l = r->of;
	int64_t bytes = turns(l, x) ? live_wide_bytes(l, x) : live_op(l, x) == K_TO_ROW ? sources(l, x) : 0;
	turn(l, bytes, region_is_again(r) ? 2 : 1);
}

void region_waits(Region *r) {
	Arena *a = r->of->a;
	r->late = arena_array(a, AFTER(r->count) + 1, sizeof *r->late);
	r->late_load = arena_array(a, AFTER(r->count) + 1, sizeof *r->late_load);
	each_read(r, add_wait);
	for (uint32_t pos = 1; pos <= r->count; pos++) {
		Live *x = &r->at[pos];
		x->spread = x->part == PART_LOAD && x->shape == SHAPE_COLUMN;
		if (part_streams(x->part)) {
			meet_columns(r, x);
			turn_column(r, x);
		}
	}
	if (!r->any_waits)
		return;
	each_read(r, mark_joins);
	each_read(r, add_late);
	each_read(r, add_between);
	each_read(r, add_second);
}
