/* spill_moves.c - what is spilled to move rows and lanes.
 *
 * A register holds 8 rows of 128 lanes of the last two dims. What the compiler moves between lanes, or between rows and
 * the dims before them, goes through registers whole. Each number was measured alone (libtpu 0.0.51):
 *
 * - Lanes, one distance after the other: the tile is moved both ways and chosen from. 7 times the tile for every other
 *   lane, twice for a flip, 2.4 times for halves of a tile of lanes side by side, 0.8 times for a stack along lanes, of
 *   2, 3 and 4 columns up to 1, 2.8 and 3.8 times.
 * - Tiles whose rows are no whole registers of lanes, by one distance: up to 1.5 times the tile in 32 bits, twice where
 *   rows are moved one by one.
 * - A sum of all lanes before each lane, in 32 bits: twice the tile (1.7 to 1.95), along other dims once (0.8 to 1.2).
 * - A reshape that joins rows to lanes, where the rows were no whole registers or no eight are left: 0.8 to 1.15 times
 *   what it joins, in 32 bits.
 * - What is compared for a reduction (`any`, the place of the greatest) or is to be widened for it: the tile in 32 bits
 *   (0.8 to 1.2 beside what waits), along lanes what comes of it, a register for 8 rows; for products too, but 3 to 6
 *   times of ints along lanes where rows are moved one by one.
 * - Rows or lanes, by a distance that is known at run time: 1.3 times the tile. By several that are known, each of what
 *   the last one gave: 2 to 5.9 times.
 * - Dims before the last two that are transposed with them. For [b, m, n] to [n, b, m], planes of 32-bit [m, n] go
 *   together, as many as a register has rows, and the registers hold as many as they are; of fewer bits a quarter more.
 * To [n, m, b] all of it goes, and a fifth or (of fewer bits) three tenths more. To [m, b, n] and [m, n, b] nothing
 *   waits.
 * - Lanes that became rows, turned back to lanes, as where [256, 128] is given as [4096, 8] and XLA lays it out as [8,
 *   4096]: 8 registers for each of the rows, but for 0.5 to 0.75 MiB (2 to 15.8 MiB; of 16 bits, where a register has
 *   16 rows of them, and tiles of 16 lanes or more, as many as there are).
 * - A chip that moves rows one by one (spill_rows): any of these takes 2.2 times the tile, [m, b, n] 3 times of
 *   fewer than 32 bits, and 3.6 and 5 times where something is computed of it. A row that becomes a tile of its own, as
 *   by x[:, None, :] or a store to out[:, 0, :], takes a register, half more of fewer bits; where rows are stacked side
 *   by side, each takes a register for each 128 lanes. */
#include "live.h"

enum { FEW_ROLLS = 4 }; /* of a region, which wait for nothing */

/* ---- lanes ------------------------------------------------------------------------------------------------------ */

/* Columns that become lanes are turned to theirs one by one; other parts start at whole tiles of lanes, or move. */
static int64_t joined_times(const Lives *l, const Live *x) {
	int64_t lanes = 0, before = (int64_t)x->reads - 1;
	for (int64_t i = 0; i < before; i++)
		lanes += last_size(live_value(l, l->reads.at[x->read + i]));
	if (lanes == before)
		return int_max(2 * before - 1, 1);
	return lanes % l->t->lanes ? 3 : 0;
}

/* Of keys and places, both also as they lie after a trade, and what compares them: 6 times the tile, whose dim is
 * filled up to a power of two (measured: 4.5 to 5.6 times). */
static int64_t sorted_size(const Lives *l, const Live *x) {
	const KValue *of = live_value(l, live_operand(l, x, 0));
	int64_t shape[KDIM_MAX], axis = live_stmt(l, x)->ints[0];
	memcpy(shape, of->shape, of->rank * sizeof *shape);
	for (shape[axis] = 1; shape[axis] < of->shape[axis];)
		shape[axis] *= 2;
	return 6 * int_min(register_bytes(l->t, DTYPE_I32, of->rank, shape), TOO_MUCH / 16);
}

/* A chip that moves rows one by one takes those that lie in a register each twice (v4, [2, 64, 1, 2] of 8 to 32 bits).
 */
static int64_t stacked_times(const Lives *l, const Live *x) {
	const KValue *v = live_value(l, x);
	return l->t->spill_rows && v->rank > 2 && v->shape[v->rank - 2] == 1 ? 2 : 1;
}

/* No wider than a register, and the factor of a matmul: moved as that asks for it (blocks of 8 to 64 columns of a
 * window, of 512 to 1536 rows, all chips). */
static bool moves_into_product(const Live *x) {
	return x->column && x->uses == 1 && x->region->at[x->until].part == PART_PRODUCT;
}

/* A tile as it is moved: a chip that moves rows one by one has each element in 32 bits. */
static int64_t moved_bytes(const Lives *l, const Live *x) {
	bool widens = l->t->spill_rows && is_narrow(live_value(l, x));
	return int_min(widens ? live_wide_bytes(l, x) : x->bytes, TOO_MUCH / 16);
}

static int64_t wide_size(const Lives *l, const Live *x) { return int_min(live_wide_bytes(l, x), TOO_MUCH / 16); }

static bool in_whole_lanes(const Lives *l, const Live *x) { return last_size(live_value(l, x)) % l->t->lanes == 0; }

/* By a distance that is known. */
static int64_t rolled_once(const Lives *l, const Live *x) {
	bool lanes = live_stmt(l, x)->ints[1] + 1 == live_value(l, x)->rank;
	if (lanes && !in_whole_lanes(l, x))
		return wide_size(l, x) * (l->t->spill_rows ? 4 : 3) / 2;
	return l->t->spill_rows && is_narrow(live_value(l, x)) ? wide_size(l, x) : 0;
}

/* Bytes that a move of lanes keeps beside itself. */
static int64_t moved_size(const Lives *l, const Live *x) {
	const Live *of = live_operand(l, x, 0);
	const KStmt *s = live_stmt(l, x);
	bool last = s->int_count == 1 && (s->ints[0] == -1 || s->ints[0] + 1 == live_value(l, x)->rank);
	int64_t most = TOO_MUCH / 16;
	switch (s->op) {
	case K_INTERLEAVE: return 16 * int_min(of->bytes, most); /* its parts are half as wide */
	case K_EVEN_LANES:
	case K_EVERY: return 8 * int_min(of->bytes, most);
	case K_TAKE_LANES:
	case K_TAKE_ROWS:
		return int_min(of->bytes, most); /* its rows, for each part of the places (measured: 0.65 to 0.85) */
	case K_FLIP: return (is_narrow(live_value(l, x)) ? 3 : 2) * moved_bytes(l, x);
	case K_ROLL: return rolled_once(l, x);
	case K_CUMSUM:
	case K_CUMPROD: return wide_size(l, x) * (last ? 8 : 5) / 4;
	case K_PAD: return l->t->spill_rows && is_narrow(live_value(l, x)) ? wide_size(l, x) : 0;
	case K_SORT: return sorted_size(l, x);
	case K_ROTATE: return moves_into_product(x) ? 0 : 3 * int_min(x->bytes, most) / 2;
	case K_STACK: return last ? stacked_times(l, x) * moved_bytes(l, x) : 0;
	case K_CONCATENATE: return last ? joined_times(l, x) * moved_bytes(l, x) : 0;
	default: return 0;
	}
}

/* ---- transposed dims -------------------------------------------------------------------------------------------- */

static bool only_stored(const Lives *l, const Live *x) {
	const Live *user = &x->region->at[x->until];
	return x->uses == 1 && user->part == PART_STORE && live_operand(l, user, 1) == x;
}

/* On a chip that moves rows one by one, in tenths of the tile. */
static int64_t tenths_by_rows(const Lives *l, const Live *x, bool last_stays) {
	if (!last_stays)
		return 22;
	bool narrow = is_narrow(live_value(l, x));
	return only_stored(l, x) ? (narrow ? 30 : 22) : narrow ? 50 : 36;
}

/* What goes together of planes of the operand's last two dims, along dim d, but for what the registers hold. */
static int64_t planes_size(const Lives *l, const KValue *v, int64_t d) {
	int64_t packed = 32 / int_min(dtype_vmem_bits(v->dtype), 32);
	int64_t planes = int_min(v->shape[d], l->t->sublanes * packed);
	int64_t plane = register_bytes(l->t, v->dtype, 2, v->shape + v->rank - 2);
	int64_t bytes = int_min(planes * int_min(plane, TOO_MUCH / 64), TOO_MUCH);
	return int_max((packed > 1 ? bytes * 5 / 4 : bytes) - target_registers_bytes(l->t, l->t->registers), 0);
}

/* Of a transposition that does not leave the dims before the last two alone. Of lanes that are no whole registers what
 * is moved counts, not what comes of it, which may be few registers. */
static int64_t transposed_size(const Lives *l, const Live *x) {
	const KStmt *s = live_stmt(l, x);
	int64_t rank = s->int_count, rows = l->t->spill_rows, tile = int_min(x->bytes, TOO_MUCH / 16);
	if (s->op != K_TRANSPOSE || rank < 3 || (s->ints[rank - 1] >= rank - 2 && s->ints[rank - 2] >= rank - 2))
		return 0;
	const Live *of = live_operand(l, x, 0);
	int64_t before = s->ints[rank - 2], last = s->ints[rank - 1];
	if (last + 1 != rank && !in_whole_lanes(l, of))
		return wide_size(l, of) * (!rows ? 5 : is_narrow(live_value(l, x)) ? 8 : 14) / 4;
	if (rows)
		return tile * tenths_by_rows(l, x, last == rank - 1) / 10 * rows / 100;
	if (last >= rank - 2)
		return last == rank - 2 ? planes_size(l, live_value(l, live_operand(l, x, 0)), before) : 0;
	return before == rank - 2 ? tile * (is_narrow(live_value(l, x)) ? 13 : 12) / 10 : 0;
}

/* Rows that a reshape joins to lanes. */
static int64_t joined_rows_size(const Lives *l, const Live *x) {
	const Live *of = live_op(l, x) == K_RESHAPE ? live_operand(l, x, 0) : NULL;
	const KValue *to = live_value(l, x);
	if (!of || last_size(to) <= last_size(live_value(l, of)) || rows_of(live_value(l, of)) == 1)
		return 0;
	bool few = rows_of(to) < l->t->sublanes;
	if (few && l->t->spill_rows && is_narrow(to))
		return wide_size(l, x);
	return few || !in_whole_lanes(l, of) ? wide_size(l, of) * 5 / 4 : 0;
}

/* Elements of 8 bits that come to lie in other rows of their registers, where rows are moved one by one: 1 to 2 times
 * the tile in 32 bits. */
static int64_t bytes_moved_by_rows(const Lives *l, const Live *x) {
	const Live *of = live_operand(l, x, 0);
	bool bytes = of && l->t->spill_rows && dtype_vmem_bits(live_value(l, x)->dtype) == 8;
	switch (live_op(l, x)) {
	case K_SLICE_IN_DIM:
	case K_INDEX: return bytes ? wide_size(l, of) * 5 / 4 : 0;
	case K_SWAPAXES:
	case K_TRANSPOSE: return bytes ? wide_size(l, of) * 3 / 4 : 0;
	case K_RESHAPE:
		return bytes && last_size(live_value(l, of)) != last_size(live_value(l, x)) ? wide_size(l, of) * 5 / 4
		                                                                            : 0;
	case K_TILE:
	case K_CONCATENATE: return bytes ? 2 * wide_size(l, of) : 0;
	default: return 0;
	}
}

/* Of rows that were lanes, turned to lanes. */
static int64_t turned_back_size(const Lives *l, const Live *x) {
	enum { NONE_WAITS = 512 << 10 };
	const Live *of = live_op(l, x) == K_SWAPAXES ? live_operand(l, x, 0) : NULL;
	if (!of || !of->split)
		return 0;
	int64_t bytes = int_min(live_wide_bytes(l, of), TOO_MUCH / 16);
	bool packed = l->t->bf16_vpu && is_narrow(live_value(l, of)) && last_size(live_value(l, of)) >= 16;
	return packed ? bytes : int_max(8 * bytes - NONE_WAITS, 0);
}

/* ---- rows that become tiles ------------------------------------------------------------------------------------- */

/* x[:, None, :]. */
static bool separates(const Lives *l, const Live *x) {
	const Live *of = live_rounds_or_views(l, x) ? live_operand(l, x, 0) : NULL;
	const KValue *to = live_value(l, x), *from = of ? live_value(l, of) : NULL;
	return from && from->rank >= 2 && to->rank >= 3 && from->shape[from->rank - 2] > 1 &&
	       to->shape[to->rank - 2] == 1 && last_size(from) == last_size(to);
}

/* To out[:, 0, :]; of packed elements they are in spill_stores.c. */
static bool stores_rows(const Lives *l, const Live *x) {
	const KRef *ref = live_ref(l, x);
	const Live *of = live_operand(l, x, 1);
	const KValue *v = of ? live_value(l, of) : NULL;
	return v && v->rank >= 2 && v->shape[v->rank - 2] > 1 && !is_narrow(v) && ref->rank >= 3 &&
	       ref->dim[ref->rank - 2].kind == KDIM_AT;
}

/* Where rows are moved one by one. */
static int64_t separated_size(const Lives *l, const Live *x) {
	const KValue *v = live_value(l, x->part == PART_STORE ? live_operand(l, x, 1) : x);
	int64_t rows = rows_of(v), lanes = int_round_up(int_min(last_size(v), TOO_MUCH / 1024), l->t->lanes);
	if (live_op(l, x) == K_STACK)
		return live_stmt(l, x)->ints[0] + 2 == v->rank ? int_min(rows * lanes, TOO_MUCH) * l->t->sublanes * 4
		                                               : 0;
	int64_t bytes = rows * target_registers_bytes(l->t, 1);
	return is_narrow(v) ? bytes / 2 * 3 : bytes;
}

/* ---- reductions ------------------------------------------------------------------------------------------------- */

/* What is reduced is a comparison, as an int, or the places of those that are equal; or narrow ints, widened. */
static bool widens_for(const Lives *l, const Live *x, const Live *of) {
	const Live *from = live_op(l, of) == K_CONVERT ? live_operand(l, of, 0) : NULL;
	if (from)
		return live_value(l, from)->dtype == DTYPE_BOOL ||
		       (is_narrow(live_value(l, from)) && !dtype_is_float(live_value(l, from)->dtype));
	return live_op(l, x) == K_MIN && live_op(l, of) == OP_WHERE && live_value(l, of)->dtype == DTYPE_I32;
}

static int64_t reduced_size(const Lives *l, const Live *x) {
	const Live *of = live_operand(l, x, 0);
	bool product = live_op(l, x) == K_PROD;
	if (!of || !(product || widens_for(l, x, of)))
		return 0;
	bool lanes = live_reduces_lanes(l, x);
	bool slow = product && lanes && l->t->spill_rows && !dtype_is_float(live_value(l, of)->dtype);
	return wide_size(l, lanes ? x : of) * (slow ? 24 : 5) / 4;
}

/* Copies of a tile side by side, where they start between whole registers. */
static int64_t repeated_size(const Lives *l, const Live *x) {
	const Live *of = live_op(l, x) == K_TILE ? live_operand(l, x, 0) : NULL;
	bool beside = of && last_size(live_value(l, x)) > last_size(live_value(l, of)) && !in_whole_lanes(l, of);
	return beside && last_size(live_value(l, of)) > 1 ? wide_size(l, x) * 7 / 4 : 0;
}

/* A packed row in a tile of its own that meets tiles of more rows, where rows are moved one by one: 1.3 to 2 of these
 * in 32 bits (bfloat16 [24, 1, 4096] and [24, 32, 4096]). */
static int64_t met_by_a_row(const Lives *l, const Live *x) {
	const KValue *v = live_value(l, x);
	for (uint32_t i = 0; l->t->spill_rows && v->rank > 2 && i < x->reads; i++) {
		const KValue *of = live_value(l, l->reads.at[x->read + i]);
		bool row = of->rank > 2 && is_narrow(of) && of->shape[of->rank - 2] == 1;
		if (row && v->shape[v->rank - 2] > 1)
			return wide_size(l, x) * 13 / 8;
	}
	return 0;
}

/* Sums of the rows of many tiles, a row each, turned to columns: the compiler has all that is summed first, where the
 * tiles are no whole registers of lanes (a gather of 64 rows of 64 at [128, 64] places, all chips: 0.94 to 1 of it). */
static int64_t turned_sums_size(const Lives *l, const Live *x) {
	Live *of = live_op(l, x) == K_SWAPAXES ? live_computed_as(l, live_operand(l, x, 0)) : NULL;
	if (of && live_op(l, of) == K_BITCAST)
		of = live_computed_as(l, live_operand(l, of, 0));
	if (!of || of->part != PART_REDUCE || live_reduces_lanes(l, of) || in_whole_lanes(l, of))
		return 0;
	const Live *summed = live_operand(l, of, 0);
	return live_value(l, summed)->rank > 2 ? wide_size(l, summed) : 0;
}

static int64_t streamed_size(const Lives *l, const Live *x) {
	int64_t turned = int_max(transposed_size(l, x), int_max(turned_back_size(l, x), turned_sums_size(l, x)));
	return int_max(turned, int_max(joined_rows_size(l, x), met_by_a_row(l, x)));
}

static int64_t size_of(const Lives *l, const Live *x) {
	bool rows = x->part == PART_STORE ? stores_rows(l, x) : live_op(l, x) == K_STACK || separates(l, x);
	int64_t bytes = rows && l->t->spill_rows ? separated_size(l, x) * l->t->spill_rows / 100 : 0;
	bytes = int_max(bytes, int_max(bytes_moved_by_rows(l, x), repeated_size(l, x)));
	switch (x->part) {
	case PART_MOVE:
	case PART_SCAN: return int_max(bytes, moved_size(l, x));
	case PART_STREAM: return int_max(bytes, streamed_size(l, x));
	case PART_REDUCE: return int_max(bytes, reduced_size(l, x));
	default: return bytes;
	}
}

/* Rolls by one distance after the other, as of a scan with a function, are not worked off one after the other. */
static int64_t rolled_size(const Lives *l, const Region *r) {
	int64_t most = 0;
	uint32_t count = 0;
	for (uint32_t pos = 1; pos <= r->count; pos++) {
		const Live *x = &r->at[pos];
		if (x->part != PART_MOVE || live_op(l, x) != K_ROLL)
			continue;
		most = int_max(most, int_min(x->bytes, TOO_MUCH / 16));
		count++;
	}
	return count > FEW_ROLLS ? 6 * most : 0;
}

static int64_t most_moved(const Lives *l, const Region *r) {
	int64_t most = rolled_size(l, r);
	for (uint32_t pos = 1; pos <= r->count; pos++) {
		const Live *x = &r->at[pos];
		most = int_max(most, size_of(l, x));
		if (x->body)
			most = int_max(most, most_moved(l, x->body));
	}
	return most;
}

int64_t spilled_by_moves(const Lives *l) { return most_moved(l, l->root); }
