/* spill_ints.c - long chains of ints, as Philox's: ten rounds of products of halves. With a key that only the run time
 * knows the compiler starts many rows at once and keeps a dozen words of each. Of a key that is known, one; of a tile
 * of a few registers three. Fitted to libtpu's reports of dropout with tiles of [256, 512] on v6e.
 *
 * Reductions of ints along lanes, one after the other, as those of the greatest k lanes: tiles that are reduced are
 * kept beside, one to five reductions, if they are one register wide. For wider ones the rest of the prediction is
 * enough. Fitted to libtpu's reports of the greatest 2 to 8 of 128 to 512 lanes, tiles of 64 to 2048 rows on v5e, v6e
 * and v7x.
 *
 * Lanes that a comparison picks, summed as ints (passes/decompose/decompose_gather.c): the tile once more where they
 * are summed along lanes, else what is picked from, and the positions twice. libtpu's reports of gathers over values
 * are below that, in 8 to 32 bits on v5e, v6e and v7x.
 *
 * The index of the greatest lane: of each row the greatest one and the indices that are left wait, as columns, and a
 * uint32 as it is ordered waits beside; float32 that the compiler loads again needs one of the columns. Of packed
 * floats of more lanes than a register half a tile more. Fitted to libtpu's reports of 640 to 2560 rows of 2 to 512
 * lanes, all chips: a quarter to all of the tile that nothing else accounts for. */
#include "live.h"

enum { LONG_CHAIN = 60, STEPS_A_WORD = 16, WORDS = 12, REDUCTIONS_A_TILE = 5, SMALL_TILE = 32 << 10 };

static int64_t region_ints(const Lives *l, const Region *r) {
	int64_t steps = 0, made = 0, tile = 0, inside = 0;
	for (uint32_t pos = 1; pos <= r->count; pos++) {
		const Live *x = &r->at[pos];
		Dtype t = live_value(l, x)->dtype;
		if (x->body)
			inside = int_max(inside, region_ints(l, x->body));
		if ((!part_streams(x->part) && x->part != PART_NOTHING) || (t != DTYPE_U32 && t != DTYPE_I32) ||
		    live_value(l, x)->rank == 0)
			continue;
		steps += x->part != PART_NOTHING;
		made += x->part == PART_NOTHING;
		tile = int_max(tile, live_wide_bytes(l, x));
	}
	int64_t known = made <= LONG_CHAIN ? 0 : tile <= SMALL_TILE ? 3 : 1;
	int64_t words = steps > LONG_CHAIN ? int_min(steps / STEPS_A_WORD, WORDS) : known;
	return inside + tile * words;
}

static int64_t region_reduced(const Lives *l, const Region *r) {
	int64_t reductions = 0, tile = 0, inside = 0;
	for (uint32_t pos = 1; pos <= r->count; pos++) {
		const Live *x = &r->at[pos];
		if (x->body)
			inside = int_max(inside, region_reduced(l, x->body));
		if (!live_reduces_lanes(l, x) || live_value(l, x)->dtype != DTYPE_I32 || !live_operand(l, x, 0)->column)
			continue;
		reductions++;
		tile = int_max(tile, live_wide_bytes(l, live_operand(l, x, 0)));
	}
	return inside + tile * ((reductions + REDUCTIONS_A_TILE / 2) / REDUCTIONS_A_TILE);
}

static int64_t operand_bytes(const Lives *l, const Live *x, uint32_t i) {
	const Live *operand = live_operand(l, x, i);
	return operand ? live_wide_bytes(l, operand) : 0;
}

/* The most of any statement in a region or the regions in it. */
static int64_t most_in(const Lives *l, const Region *r, int64_t (*bytes_of)(const Lives *l, const Live *x)) {
	int64_t bytes = 0;
	for (uint32_t pos = 1; pos <= r->count; pos++) {
		const Live *x = &r->at[pos];
		bytes = int_max(bytes, x->body ? most_in(l, x->body, bytes_of) : bytes_of(l, x));
	}
	return bytes;
}

static int64_t picked_bytes(const Lives *l, const Live *x) {
	const Live *lanes = x->part == PART_REDUCE ? live_operand(l, x, 0) : NULL;
	const Live *found = lanes && live_op(l, lanes) == OP_WHERE ? live_operand(l, lanes, 0) : NULL;
	if (!found || live_op(l, found) != OP_EQ || dtype_is_float(live_value(l, lanes)->dtype) ||
	    live_value(l, lanes)->rank < 3)
		return 0;
	if (live_reduces_lanes(l, x))
		return live_wide_bytes(l, lanes);
	return operand_bytes(l, lanes, 1) + 2 * operand_bytes(l, found, 1);
}

/* The comparison with the greatest lane of each row, of whose lanes x is the least index; NULL. */
static const Live *greatest_lanes(const Lives *l, const Live *x) {
	const Live *chosen = live_reduces_lanes(l, x) ? live_operand(l, x, 0) : NULL;
	for (int i = 0; i < 2 && chosen && live_op(l, chosen) == OP_WHERE; i++) { /* the outer one is about NaN */
		const Live *same = live_operand(l, chosen, 0);
		Live *greatest = same && live_op(l, same) == OP_EQ ? live_operand(l, same, 1) : NULL;
		if (greatest && live_operand(l, same, 0) && live_reduces_lanes(l, live_computed_as(l, greatest)))
			return same;
		chosen = live_operand(l, chosen, 2);
	}
	return NULL;
}

static int64_t waiting_bytes(const Lives *l, const Live *x) {
	enum { RELOADED = 50, FEW_REGISTERS = 48 };
	const Live *same = live_value(l, x)->dtype == DTYPE_I32 ? greatest_lanes(l, x) : NULL;
	if (!same)
		return 0;
	Live *tile = live_operand(l, same, 0);
	bool is_float = dtype_is_float(live_value(l, tile)->dtype), packed = live_op(l, tile) == K_CONVERT;
	bool again = live_is_plain_load(l, tile) && is_float && l->t->spill_loads < RELOADED;
	bool ordered = live_op(l, tile) == OP_BITWISE_XOR; /* of uint32, as signed ints */
	int64_t columns = again ? 1 : ordered ? 3 : 2, bytes = columns * live_wide_bytes(l, x);
	if (is_float && packed && last_size(live_value(l, tile)) > l->t->lanes)
		bytes += live_wide_bytes(l, tile) / 2;
	return int_max(bytes - target_registers_bytes(l->t, FEW_REGISTERS), 0);
}

int64_t waiting_indices(const Lives *l) { return most_in(l, l->root, waiting_bytes); }

int64_t spilled_by_ints(const Lives *l) {
	return region_ints(l, l->root) + region_reduced(l, l->root) + most_in(l, l->root, picked_bytes);
}
