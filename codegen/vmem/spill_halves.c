/* spill_halves.c - tiles of float16 that become float32 in a dozen instructions (codegen/rewrite/rewrite_float16.c):
 * the compiler starts with them where it waits for something else, and keeps the parts, the bits, the sign and the
 * sizes, beside each other. Percentages of the float32 tile, fitted to libtpu's reports of the kernels of
 * testdata/coverage with float16 for bfloat16. */
#include "live.h"

enum {
	WAITING = 300, /* it waits for a reduction, or for stores to an array that the kernel also reads */
	KEPT = 150,    /* it is read twice, or beside a reduction, a matmul, a loop */
	FACTOR = 50,   /* a matmul alone reads it, whose factors are counted in float32 */
	STRIPED = 50   /* rows are computed strip by strip */
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

static int64_t percentage(const Lives *l, const Region *r, const Live *x, bool waits, bool barrier) {
	if (l->k->strips)
		return STRIPED;
	if (is_factor(l, r, x))
		return FACTOR;
	return waits || x->waits || x->early ? WAITING : barrier || x->uses > 1 ? KEPT : 0;
}

static int64_t region_halves(const Lives *l, const Region *r, bool waits) {
	bool barrier = r != l->root;
	int64_t bytes = 0;
	for (uint32_t pos = 1; pos <= r->count; pos++)
		barrier = barrier || part_is_barrier(r->at[pos].part);
	for (uint32_t pos = 1; pos <= r->count; pos++) {
		const Live *x = &r->at[pos];
		if (x->body)
			bytes += region_halves(l, x->body, waits);
		if (widens_half(l, x))
			bytes += live_wide_bytes(l, x) / 100 * percentage(l, r, x, waits, barrier);
	}
	return bytes;
}

int64_t spilled_by_halves(const Lives *l) { return region_halves(l, l->root, in_place(l->k)); }
