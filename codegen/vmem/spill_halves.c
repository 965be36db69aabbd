/* spill_halves.c - tiles of float16 that become float32 in a dozen instructions (codegen/rewrite/rewrite_float16.c):
 * the compiler starts with them where it waits for something else, and keeps the parts, the bits, the sign and the
 * sizes, beside each other. Percentages of the float32 tile, fitted to libtpu's reports of the kernels of
 * testdata/coverage with float16 for bfloat16. */
#include "live.h"

enum {
	WAITING = 300, /* it waits for a reduction, or for stores to an array that the kernel also reads */
	KEPT = 150,    /* it is read twice, or beside a reduction, a matmul, a loop */
	SPREAD = 400,  /* else, where a loaded column is spread along lanes, for which tiles wait */
	FACTOR = 50,   /* a matmul alone reads it, whose factors are counted in float32 */
	TURNED = 10,   /* it is turned, and read by nothing else */
	STRIPED = 10   /* rows are computed strip by strip */
};

static bool widens_half(const Lives *l, const Live *x) {
	const Live *of = live_op(l, x) == K_CONVERT ? live_operand(l, x, 0) : NULL;
	return of && live_value(l, of)->dtype == DTYPE_F16;
}

/* Some block is what stands in the array before the kernel stores to it. */
static bool in_place(const Kernel *k) {
	for (BufferId b = 0; b < k->buffers.count; b++)
		if (k->buffers.at[b].held && k->buffers.at[b].held->copy)
			return true;
	return false;
}

static bool is_factor(const Lives *l, const Region *r, const Live *x) {
	for (uint32_t pos = x->pos + 1; pos <= r->count && x->uses == 1; pos++)
		for (uint32_t i = 0; i < r->at[pos].reads; i++)
			if (l->reads.at[r->at[pos].read + i] == x)
				return r->at[pos].part == PART_PRODUCT || live_op(l, &r->at[pos]) == K_DOT;
	return false;
}

static bool is_turned(const Lives *l, const Region *r, const Live *x) {
	for (uint32_t pos = x->pos + 1; pos <= r->count && x->uses == 1; pos++)
		for (uint32_t i = 0; i < r->at[pos].reads; i++)
			if (l->reads.at[r->at[pos].read + i] == x)
				return live_op(l, &r->at[pos]) == K_TRANSPOSE || live_op(l, &r->at[pos]) == K_SWAPAXES;
	return false;
}

/* What all of a region's tiles may wait for. */
typedef struct Waits {
	bool stores, barrier, column;
} Waits;

static int64_t percentage(const Lives *l, const Region *r, const Live *x, Waits w) {
	if (l->k->strips)
		return STRIPED;
	if (is_factor(l, r, x))
		return FACTOR;
	if (w.stores || x->waits || x->early)
		return WAITING;
	if (w.barrier)
		return KEPT;
	if (w.column && x->shape == SHAPE_TILE)
		return SPREAD;
	return x->uses > 1 ? KEPT : is_turned(l, r, x) ? TURNED : 0;
}

static int64_t region_halves(const Lives *l, const Region *r, bool stores) {
	Waits w = {.stores = stores, .barrier = r != l->root};
	int64_t bytes = 0;
	for (uint32_t pos = 1; pos <= r->count; pos++) {
		w.barrier = w.barrier || part_is_barrier(r->at[pos].part);
		w.column = w.column || (r->at[pos].part == PART_LOAD && r->at[pos].shape == SHAPE_COLUMN);
	}
	for (uint32_t pos = 1; pos <= r->count; pos++) {
		const Live *x = &r->at[pos];
		if (x->body)
			bytes += region_halves(l, x->body, stores);
		if (widens_half(l, x))
			bytes += live_wide_bytes(l, x) / 100 * percentage(l, r, x, w);
	}
	return bytes;
}

int64_t spilled_by_halves(const Lives *l) { return region_halves(l, l->root, in_place(l->k)); }
