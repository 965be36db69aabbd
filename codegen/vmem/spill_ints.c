/* spill_ints.c - long chains of ints, as Philox's: ten rounds of products of halves. With a key that only the run time
 * knows the compiler starts many rows at once and keeps a dozen words of each. Of a key that is known, one. Fitted to
 * libtpu's reports of dropout with tiles of [256, 512] on v6e. */
#include "live.h"

enum { LONG_CHAIN = 60, STEPS_A_WORD = 16, WORDS = 12 };

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
	int64_t words = steps > LONG_CHAIN ? int_min(steps / STEPS_A_WORD, WORDS) : made > LONG_CHAIN;
	return inside + tile * words;
}

int64_t spilled_by_ints(const Lives *l) { return region_ints(l, l->root); }
