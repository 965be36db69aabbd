/* spills.c - the values that a kernel holds at once and the vector registers cannot: the compiler spills them to
 * VMEM.
 *
 * libtpu's VMEM report has no other buffers for intermediates than the register allocator's spill slots. A value is
 * *kept* from where it is computed to its last use if a barrier lies strictly between (live.c); the peak over the
 * barriers of the bytes kept is what must be spilled, less the registers. What of a kept byte is spilled differs by
 * chip and by what is kept: the fields spill_* of the target. */
#include "live.h"
#include "mask_blocks.h"

/* What is kept across one barrier. */
typedef struct Kept {
	int64_t tiles;   /* values of several registers in a row */
	int64_t columns; /* values one register wide, as [.., 1]: one lane of it in use */
	int64_t loads;   /* what was loaded and is read again later: some chips' compilers load it again */
	int64_t results; /* of the matmul that is the barrier: partial sums of its passes */
	int64_t parts;   /* bfloat16 parts of float32 factors at full precision */
	int64_t factors; /* the matmul's left factor: kept for each column of tiles of the right one */
	int64_t steps;   /* what the other steps of an unrolled loop compute before their turn */
	int64_t early;   /* of the same, what one step computes */
	int64_t wide;    /* of that, what is wider than a register */
} Kept;

static int64_t weigh(const Target *t, const Kept *h) {
	int64_t bytes = h->tiles * t->spill_tiles + h->columns * t->spill_columns + h->loads * t->spill_loads +
	                h->results * t->spill_results + h->parts * t->spill_parts + h->factors * t->spill_factors +
	                h->steps * t->spill_steps;
	return bytes / 100;
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

/* A choice that a loop reads, as the factor of a matmul: the compiler hands the mask to the matrix unit, and keeps it
 * beside the value, as 32-bit elements (read from its schedule of squeeze-and-excitation backward). */
static int64_t mask_beside(const Lives *l, Live *x) {
	const Live *chosen = live_computed_as(l, x);
	return x->looped && live_op(l, chosen) == OP_WHERE && live_operand(l, chosen, 0)
	               ? live_operand(l, chosen, 0)->bytes
	               : 0;
}

/* A scratch carry is read where it lies. */
static bool in_scratch(const Live *x) {
	return x->part == PART_CARRIED && x->region->loop->place.at[x->pos - 1] != NONE;
}

/* A mask of what is kept anyway is made where it is used; one that is loaded is not. */
static bool is_made_again(const Lives *l, const Live *x) {
	bool again = live_value(l, x)->dtype == DTYPE_BOOL && !live_is_plain_load(l, x);
	for (uint32_t i = 0; i < x->reads; i++) {
		const Live *of = l->reads.at[x->read + i];
		again = again && (of->part == PART_NOTHING || of->region != x->region || of->until >= x->until);
	}
	return again;
}

/* What is only loaded, converted and scaled on its way into a matmul is so as the matmul asks for it. */
static bool is_loaded_factor(const Live *x) {
	return x->loaded && x->uses == 1 && x->region->at[x->until].part == PART_PRODUCT;
}

/* A step without a barrier is computed register by register, with those before it. */
static bool streams_through(const Region *r) { return !r->stores && r->at[r->count + 1].barriers == 0; }

/* A sum of lanes of a tile wider than a register, that is added to one that steps hand on, of steps that do no more. */
static bool joins_at_once(const Lives *l, const Live *x) {
	const Live *of = live_reduces_lanes(l, x) ? live_operand(l, x, 0) : NULL;
	const Region *r = x->region;
	if (!of || live_op(l, x) != K_SUM || last_size(live_value(l, of)) <= l->t->lanes || r->multiplies)
		return false;
	for (uint32_t pos = 1; pos <= r->count; pos++)
		if (part_is_barrier(r->at[pos].part) && &r->at[pos] != x)
			return false;
	return true;
}

/* Of a step of an unrolled loop, before the step it follows is done: what does not depend on it but is read by what
 * does. A tile that is reduced and stored, and no step hands on: the reductions of all steps come late, and each step's
 * tile waits for its own (fitted to JS divergence, 16 steps on v7x). A column is there twice: as the step reduced it,
 * and joined to the carried one. */
static int64_t early_bytes(const Lives *l, const Live *x) {
	bool waits = x->region->stores && !x->carries && !x->column && live_crosses(x);
	if (streams_through(x->region) || !(x->frontier || waits) || live_is_plain_load(l, x))
		return 0;
	if (is_loaded_factor(x))
		return x->bytes * l->t->spill_converted / 100;
	bool twice = last_size(live_value(l, x)) == 1 && !joins_at_once(l, x);
	return x->bytes * (twice ? 2 : 1);
}

/* ---- products --------------------------------------------------------------------------------------------------- */

static const KStmt *dot_of(const Lives *l, const Live *product) {
	const Live *dot = live_op(l, product) == K_DOT ? product : live_product(l, product);
	return live_stmt(l, dot);
}

static Live *factor_of(const Lives *l, const Live *product, int i) {
	return l->value[l->k->args.at[dot_of(l, product)->arg_first + (uint32_t)i].value];
}

/* Both factors are multiplied in bfloat16 parts. Those of the right one go to the matrix unit as they are made if a
 * register has all rows of the left one, and each meets them once: as much as of the left one is on its way (8 rows of
 * 768 to 4096, v5p and v7x). */
static int64_t parts_of(const Lives *l, const Live *product) {
	const Live *left = factor_of(l, product, 0);
	const KValue *v = live_value(l, left);
	bool once = v->rank >= 2 && v->shape[v->rank - 2] <= l->t->sublanes;
	if (!dot_of(l, product)->ints[2])
		return 0;
	return left->bytes + (once ? left->bytes : factor_of(l, product, 1)->bytes);
}

/* Tiles of float8 that a matmul reads are widened to bfloat16 on the way, where its result does not stream back. */
static int64_t widened_of(const Lives *l, const Live *product) {
	int64_t bytes = 0;
	for (int i = 0; i < 2; i++) {
		const Live *x = factor_of(l, product, i);
		Dtype d = live_value(l, x)->dtype;
		bytes += dtype_is_float(d) && dtype_bits(d) == 8 ? 2 * x->bytes : 0;
	}
	return bytes;
}

/* And those that the kernel converts itself. */
static int64_t converted_of(const Lives *l, const Live *product) {
	int64_t bytes = 0;
	for (int i = 0; i < 2; i++) {
		const Live *x = factor_of(l, product, i);
		const Live *from = live_op(l, x) == K_CONVERT ? live_operand(l, x, 0) : NULL;
		Dtype d = from ? live_value(l, from)->dtype : DTYPE_NONE;
		bytes += from && dtype_is_float(d) && dtype_bits(d) == 8 ? x->bytes : 0;
	}
	return bytes;
}

/* Of a loop with one dim whose length is known. */
static int64_t known_steps(const KLoop *loop) { return loop->dim[0].full_steps + (loop->dim[0].tail != 0); }

/* Straight code to the compiler: the matmul's result is there whole before it is added to what is carried. */
static bool one_step(const KLoop *loop) { return loop->rank == 1 && !loop->dim[0].computed && known_steps(loop) <= 1; }

static bool is_straight(const KLoop *loop) { return loop->type == LOOP_UNROLL || one_step(loop); }

/* A sum that the loop's steps hand on: live.c. */
static bool adds_up(const Lives *l, const Live *product) { return live_op(l, product) != K_DOT; }

/* It streams back as it is computed. */
static bool accumulates(const Lives *l, const Live *product) {
	return adds_up(l, product) && !is_straight(product->region->loop);
}

/* A sum of products alone, which is not scaled before it grows. */
static bool adds_to_carried(const Lives *l, const Live *product) {
	bool carried = false;
	for (uint32_t i = 0; i < product->reads; i++)
		carried = carried || l->reads.at[product->read + i]->part == PART_CARRIED;
	return carried && adds_up(l, product);
}

/* In straight code: the next step's factor is read before this one is done. */
static bool adds_straight_on(const Lives *l, const Live *product) {
	return adds_to_carried(l, product) && region_is_unrolled(product->region);
}

/* A result that streams back; in int32 a quarter more is under way (fitted to int8 products on v7x). */
static int64_t streamed_bytes(const Lives *l, const Live *x) {
	return live_value(l, x)->dtype == DTYPE_I32 ? x->bytes / 4 * 5 : x->bytes;
}

/* It adds up in the matrix unit, and its left factor is read where it lies, or computed in straight code. */
static bool sums_in_mxu(const Lives *l, const Live *product) {
	bool straight = !product->region->loop || region_is_unrolled(product->region);
	return l->t->mxu_sums && dtype_is_float(live_value(l, product)->dtype) &&
	       (live_computed_as(l, factor_of(l, product, 0))->part == PART_LOAD ||
	        (straight && !live_crosses(product)));
}

static int64_t batch_of(const KValue *v) {
	int64_t batch = 1;
	for (uint32_t i = 0; i + 2 < v->rank; i++)
		batch *= int_max(v->shape[i], 1);
	return batch;
}

/* Of an element; 1 where blocks of one element are multiplied. */
static int64_t products_of(const Lives *l, const Live *product) {
	const KValue *left = live_value(l, factor_of(l, product, 0));
	return left->rank ? left->shape[dot_of(l, product)->ints[0]] : 1;
}

/* It is multiplied in one pass of the matrix unit: no results wait for others to be added to. */
static bool in_one_pass(const Lives *l, const Live *product) { return products_of(l, product) <= l->t->mxu_size; }

/* What the matrix unit's buffer has no room for goes out and comes back, and half of it a second time, with the left
 * factor (bfloat16 matmuls on v7x: of results of 4 MiB 4.1 to 4.4 for left factors of 0.25 and 0.5 MiB, 4.6 and 5.6 for
 * 1 and 2, 5.8 of a loop; nothing up to 2 MiB). A loop works off a few columns of tiles after the other: nothing goes
 * out if these fit, or in one pass. */
static int64_t beyond_mxu(const Lives *l, const Live *x) {
	const KValue *v = live_value(l, x);
	const Live *left = factor_of(l, x, 0);
	int64_t batch = batch_of(v), rows = v->rank < 2 ? 1 : v->shape[v->rank - 2];
	bool columns_fit = rows <= l->t->mxu_sums / (2 * l->t->mxu_size * 4);
	bool fits = !adds_straight_on(l, x) && (in_one_pass(l, x) || columns_fit);
	return fits || x->bytes / batch <= 2 * l->t->mxu_sums ? 0 : (x->bytes + left->bytes / 5 * 4) / batch;
}

/* In straight code a sum that is scaled before it grows comes back as it is computed too, if that takes a while and it
 * is not too large (attention on v6e and v7x: sums of 0.25 to 2 MiB, of 128 products and more; not of 32 products, nor
 * of 3 MiB). */
static bool grows_as_it_comes(const Lives *l, const Live *x) {
	enum { MOST_BYTES = 2 << 20, LEAST_PRODUCTS = 128 };
	return adds_up(l, x) && region_is_unrolled(x->region) && !adds_straight_on(l, x) && x->bytes <= MOST_BYTES &&
	       products_of(l, x) >= LEAST_PRODUCTS;
}

/* Of few products a loop's sums are added to as they come out, and none of them waits for another: the left factor
 * alone is kept, whole, if that is less than what else is (bfloat16 matmuls in loops on v5e to v7x: for results of 1 to
 * 20 MiB, of 32 to 512 products, what is spilled is the left factor less 0.16 MiB, or nothing). */
static bool adds_as_it_comes(const Lives *l, const Live *x, int64_t left) {
	const Target *t = l->t;
	return accumulates(l, x) && adds_to_carried(l, x) && live_value(l, x)->dtype == DTYPE_F32 &&
	       products_of(l, x) <= t->sums_streamed && parts_of(l, x) + widened_of(l, x) == 0 &&
	       left * t->spill_tiles < x->bytes * t->spill_results + left * t->spill_factors;
}

/* In unrolled steps a result that meets a tile which waits for it goes out whole, though the matrix unit's buffer would
 * do (attention's dq on v7x, blocks of 512 to 2048 by 1024 to 4096: two tiles are spilled, in loops of DMA one). */
static int64_t met_by_waiting(const Lives *l, const Live *x, const Kept *h) {
	return region_is_unrolled(x->region) && !adds_up(l, x) && h->tiles >= x->bytes ? x->bytes : 0;
}

/* Of batched products in unrolled steps the right factors of one batch after the other are read ahead: 0.5 MiB for each
 * 512 columns of a batch (bfloat16 on v7x, 1 to 4 batches of 16 to 256 rows, 1024 to 2048 columns, steps of 1024 to
 * 4096 products: 0.8 to 6.9 MiB, 1.1 less than that and no more than it). */
static int64_t batches_ahead(const Lives *l, const Live *x) {
	enum { BYTES_A_COLUMN = 1024 };
	const KValue *v = live_value(l, x);
	return adds_straight_on(l, x) && batch_of(v) > 1 ? batch_of(v) * last_size(v) * BYTES_A_COLUMN : 0;
}

/* Rows that lie in tiles of their own are a register each, where the chip does not split registers on the way (x @ x.T
 * of bfloat16 on v4, 300 rows: 300 times the 2 or 4 registers of a row beside the result; of 256 rows, packed, none).
 */
static bool has_loose_rows(const Lives *l, const Live *x) {
	const KArg *from = x->part == PART_LOAD ? &l->k->args.at[live_stmt(l, x)->arg_first] : NULL;
	const KValue *v = live_value(l, x);
	if (l->t->splits_lanes || !from || from->kind != KARG_REF || v->rank < 2)
		return false;
	const KRef *r = &l->k->refs.at[from->ref];
	uint32_t rank = l->k->buffers.at[r->buffer].rank;
	return rank > 2 && r->rank >= rank - 1 && r->dim[rank - 2].kind == KDIM_AT;
}

static int64_t factor_bytes(const Lives *l, const Live *left) {
	const KValue *v = live_value(l, left);
	if (!has_loose_rows(l, left))
		return left->bytes / batch_of(v);
	const int64_t row[] = {1, last_size(v)};
	return register_bytes(l->t, DTYPE_F32, 2, row) * v->shape[v->rank - 2];
}

/* So often the matrix units go through the left factor for all columns. */
static int64_t column_passes(const Lives *l, const Live *product) {
	enum { UNITS = 2 };
	return int_cdiv(last_size(live_value(l, product)), UNITS * l->t->mxu_size);
}

enum { CHAIN = 8 }; /* so far back is looked */

/* Of nothing but loads and constants. */
static bool is_of_loads(const Lives *l, Live *x, int depth) {
	if (x->part == PART_NOTHING || x->part == PART_LOAD)
		return true;
	bool loads = (part_streams(x->part) || x->part == PART_REDUCE) && depth < CHAIN;
	for (uint32_t i = 0; loads && i < x->reads; i++)
		loads = is_of_loads(l, l->reads.at[x->read + i], depth + 1);
	return loads;
}

/* It is computed of loads, in 32 bits, and rounded; what is computed of that in 16 bits, too. */
static bool is_rounded_factor(const Lives *l, Live *factor, int depth) {
	Live *from = live_op(l, factor) == K_CONVERT ? live_operand(l, factor, 0) : NULL;
	if (from && !is_narrow(live_value(l, from)))
		return live_computed_as(l, from)->part != PART_LOAD && is_of_loads(l, from, 0);
	for (uint32_t i = 0; depth < CHAIN && part_streams(factor->part) && i < factor->reads; i++)
		if (is_rounded_factor(l, l->reads.at[factor->read + i], depth + 1))
			return is_of_loads(l, factor, 0);
	return false;
}

/* A left factor that is computed waits whole if it is gone through again, and some of the result beside it (rows times
 * a gain in blocks of 256 to 1024 by 1024 to 8192, by 512 to 2048 columns, on v7x). */
static int64_t gone_through_again(const Lives *l, const Live *product, int64_t factor) {
	Live *left = factor_of(l, product, 0);
	int64_t times = column_passes(l, product);
	if (!is_rounded_factor(l, left, 0))
		return 0;
	if (times <= 1)
		return left->loaded && factor >= 2 * product->bytes ? product->bytes / 8 * 9 : 0;
	return factor + (times == 2 ? product->bytes / 2 : product->bytes / 10 * 9);
}

static void held_product(const Lives *l, const Live *x, Kept *h) {
	Live *left = factor_of(l, x, 0);
	int64_t factor = factor_bytes(l, left);
	bool streams = accumulates(l, x), few = adds_as_it_comes(l, x, factor);
	h->parts += parts_of(l, x);
	if (sums_in_mxu(l, x)) {
		int64_t out = int_max(beyond_mxu(l, x), gone_through_again(l, x, factor));
		h->tiles += int_max(out, met_by_waiting(l, x, h)) + batches_ahead(l, x);
		return;
	}
	if (streams || grows_as_it_comes(l, x))
		h->results += few ? 0 : streamed_bytes(l, x);
	else
		h->tiles += x->bytes;
	h->parts += streams ? 0 : widened_of(l, x);
	bool whole = adds_straight_on(l, x) || few || is_rounded_factor(l, left, 0);
	int64_t *factors = whole ? &h->tiles : &h->factors;
	*factors += factor;
}

/* Bytes that wait. What is only loaded and widened, and read last on its way into a matmul, is so once more there: of
 * the load itself if that waits for a reduction, or where nothing is computed in 16 bits, else of nothing (norms before
 * matmuls, 256 to 1024 rows of 1024 to 8192, on v4 to v7x). Where results stay in the matrix unit, and it goes through
 * the factor once, that waits too. */
static int64_t waiting_bytes(const Lives *l, const Live *x) {
	const Live *of = live_op(l, x) == K_CONVERT ? live_operand(l, x, 0) : NULL, *user = &x->region->at[x->until];
	if (!of || !live_is_plain_load(l, of) || !is_narrow(live_value(l, of)) || user->part != PART_PRODUCT)
		return x->bytes;
	if (!factor_of(l, user, 0)->waits && !factor_of(l, user, 1)->waits)
		return l->t->bf16_vpu ? 0 : of->bytes;
	return l->t->mxu_sums && column_passes(l, user) <= 1 ? x->bytes : of->bytes;
}

static void held_add(const Lives *l, Kept *h, Live *x, int64_t sign) {
	h->tiles += sign * mask_beside(l, x);
	bool loaded = live_is_plain_load(l, x);
	int64_t bytes = waiting_bytes(l, x);
	if (loaded && !l->copies)
		h->loads += sign * bytes;
	else if (x->column && !loaded)
		h->columns += sign * bytes;
	else
		h->tiles += sign * bytes;
}

/* ---- reductions ------------------------------------------------------------------------------------------------- */

/* Straight code that reduces along lanes and along rows walks its tiles in two directions: what streams into a
 * reduction of rows is there whole, and a quarter of the next (fitted to layer-norm backward, 8 to 128 rows of 10240).
 */
static int64_t other_way_bytes(const Lives *l, const Live *x) {
	const Live *from = live_operand(l, x, 0);
	bool rows = x->region->both_ways && live_value(l, from)->rank >= 2 && !live_reduces_lanes(l, x);
	return rows && from->region == x->region && part_streams(from->part) && !live_crosses(from)
	               ? from->bytes * 5 / 4
	               : 0;
}

/* Rows of a matmul's result less what they were reduced to, squared and summed up: the row and its squares are more
 * than the registers hold, and the results come column by column, so that squares of other rows wait. Measured for (c *
 * c).sum(-1), c = x @ y - mean, of 32 to 256 rows: 46% to 67% of the tile for 4096 columns, 72% to 82% for 8192,
 * nothing for 3584, nor of an exponential, nor of what is loaded. */
static int64_t squares_bytes(const Lives *l, const Live *x) {
	const Live *from = live_operand(l, x, 0);
	const Target *t = l->t;
	int64_t registers = last_size(live_value(l, from)) / t->lanes;
	bool waits = x->region->multiplies && from->region == x->region && from->waits && !live_crosses(from);
	if (!waits || registers < t->registers / 2 || !part_streams(from->part) || live_op(l, from) == OP_EXP)
		return 0;
	return from->bytes * (registers >= t->registers ? t->spill_long_squares : t->spill_squares) / 100;
}

/* A column of which one number is made: on a chip that moves rows one by one, what else is computed of it waits beside,
 * as drawn kernels show (v4, 256 and 300 rows: 1.4 columns). */
static int64_t number_bytes(const Lives *l, const Live *x) {
	const Live *from = live_operand(l, x, 0);
	bool number = l->t->spill_rows && live_value(l, x)->rank == 0 && from && last_size(live_value(l, from)) == 1;
	return number ? 2 * live_wide_bytes(l, from) : 0;
}

/* ---- loops ------------------------------------------------------------------------------------------------------ */

/* What a scratch buffer of this region hands to one of a loop in it goes through registers whole, in float32 where that
 * is what it is computed in; not where that loop is straight code, nor what a chip computes as it is, packed (nested
 * sums and scales of 0.5 to 3 MiB on v6e and v7x). */
static int64_t copied_bytes(const Lives *l, const Live *x) {
	int64_t bytes = 0;
	for (uint32_t i = 0; !one_step(x->body->loop) && i < x->body->loop->carried.count; i++) {
		const Live *from = live_operand(l, x, i);
		if (from && x->body->loop->place.at[i] != NONE && from->region == x->region && in_scratch(from) &&
		    !(l->t->bf16_vpu && is_narrow(live_value(l, from))))
			bytes += live_wide_bytes(l, from);
	}
	return bytes;
}

static int64_t times(int64_t bytes, int64_t steps) {
	int64_t all;
	return checked_mul(bytes, steps, &all) ? int_min(all, TOO_MUCH) : TOO_MUCH;
}

/* Of what the steps of an unrolled loop compute early: all columns, as a chain of them runs ahead of the tiles that it
 * meets (sums of 8 or 16 lanes of 128 rows on v5p and v6e, 512 and 1024 steps: 60 KiB a step); of tiles no more than
 * spill_ahead and what one step has beyond it is under way at once. Attention on v6e and v7x, scores of 256, 512 and
 * 1024 KiB a step: 0.7 MiB of 4, 8 and 16 steps, 1 and 1.1 of 4 and 8, 2, 3 and 3.7 of 4, 8 and 12. */
static int64_t under_way(const Target *t, const Kept *step, int64_t steps) {
	int64_t ahead = (int64_t)t->spill_ahead * 1024;
	return times(step->early - step->wide, steps) +
	       int_min(times(step->wide, steps), ahead + times(int_max(step->wide - ahead, 0), steps) / 4 * 5);
}

/* What the other steps of an unrolled loop compute before their turn; `step` is one step's, of which `own` is not that
 * of loops in it. Steps of an unrolled loop in an unrolled loop are steps of both. */
static void add_steps(const Target *t, const KLoop *loop, const Kept *step, int64_t own, Kept *h) {
	int64_t steps = known_steps(loop);
	h->early = h->wide = 0;
	if (loop->type != LOOP_UNROLL || steps <= 0)
		return;
	h->early = times(step->early, steps);
	h->wide = times(step->wide, steps);
	h->steps = int_max(h->steps, int_min(h->early - own, under_way(t, step, steps)));
}

/* Of an odd number of columns of tiles one of two matrix units has nothing to do at the end of a step, so that the next
 * is begun: a float32 left factor of a register's lanes, with its bfloat16 parts, is made in all steps before their
 * turn (v7x, 256 to 1000 rows by 768 and 1280 columns, 8 to 63 steps of 16 to 128 products: 0.19 MiB a step of 256
 * rows, 0.53 of 512, 1 of 768, 1.4 of 1000, half of these in one pass; nothing of 512 and 1024 columns). */
static int64_t factors_of_steps(const Lives *l, const Region *r) {
	int64_t bytes = 0;
	if (!region_is_unrolled(r) || !l->t->mxu_sums)
		return 0;
	for (uint32_t pos = 1; pos <= r->count; pos++) {
		const Live *x = &r->at[pos], *left = x->part == PART_PRODUCT ? factor_of(l, x, 0) : NULL;
		int64_t columns = left ? int_cdiv(last_size(live_value(l, x)), l->t->mxu_size) : 0;
		if (columns > 1 && columns % 2 && left->column && live_value(l, left)->dtype == DTYPE_F32)
			bytes += left->bytes / 2 * (dot_of(l, x)->ints[2] ? 5 : 3);
	}
	return bytes ? times(bytes, known_steps(r->loop) - 1) : 0;
}

/* A ragged last step stands after its loop, hands what it carries on as values, and has spill slots of its own: what
 * the step holds, of the elements that are not masked away (read from the schedule of GRPO's loss on v5e: 359 slots in
 * the loop, 224 after it, 62 of them in both: the carried columns). */
static void add_tail(Lives *l, const KLoop *loop, const Kept *step) {
	const KLoopDim *d = &loop->dim[0];
	if (!loop->peel || is_straight(loop) || loop->rank != 1 || d->size <= 0)
		return;
	Kept own = *step;
	own.columns = 0;
	l->beside += int_max(weigh(l->t, &own) / d->size * d->tail - held_bytes(l->t), 0);
}

static int64_t handed_bytes(const Lives *l, const KLoop *loop) {
	int64_t bytes = 0;
	for (uint32_t i = 0; i < loop->handed.count; i++)
		bytes += l->value[loop->handed.at[i].value]->bytes;
	return bytes;
}

/* Beside the rest of its step a skewed loop has the factors of what it computes ahead in bfloat16 parts (of float8, a
 * quarter more), and what it hands on again: the last step of a fori_loop, and a ragged one, stand after the loop and
 * spill on their own. Of unrolled steps about half of what waits longer than a step is spilled beside what they have
 * anyway. A pipeline has the part ahead twice, in its first step and in others, and what is rotated there twice too
 * (measured for experts' rows in 64 to 512 of 2048, on v6e). */
static int64_t skew_spills(const Lives *l, const Region *r) {
	const KLoop *loop = r->loop;
	int64_t bytes = handed_bytes(l, loop), parts = 0;
	if (loop->skew && loop->type == LOOP_UNROLL)
		return bytes / 2 * (loop->skew - 1);
	for (uint32_t pos = 1; pos <= r->count && loop->skew; pos++) {
		const Live *x = &r->at[pos];
		if (x->part == PART_PRODUCT && live_stmt(l, x)->flags & KSTMT_AHEAD)
			parts += parts_of(l, x) + widened_of(l, x) * 5 / 4 + converted_of(l, x) * 3 / 2;
		if (loop->type == LOOP_EMIT_PIPELINE && live_op(l, x) == K_ROTATE &&
		    live_stmt(l, x)->flags & KSTMT_AHEAD)
			parts += x->bytes;
	}
	return (loop->peel || loop->type == LOOP_FORI ? bytes : bytes / 2) + parts;
}

/* What a while hands on is whole before it is known whether there is a next step. */
static int64_t while_spills(const Lives *l, const KLoop *loop) {
	int64_t bytes = 0;
	for (uint32_t i = 0; loop->rank == 0 && i < loop->carried.count; i++)
		bytes += l->value[loop->carried.at[i]]->bytes;
	return bytes;
}

static Kept region_peak(Region *r);

static bool reduces_rows_only(const Region *r) {
	bool rows = false;
	for (uint32_t pos = 1; pos <= r->count; pos++) {
		if (live_reduces_lanes(r->of, &r->at[pos]))
			return false;
		rows = rows || r->at[pos].part == PART_REDUCE;
	}
	return rows;
}

/* Percent of it that a skewed fori_loop spills: the parts ahead and behind keep both units at work, and what reduces
 * along rows only goes through register by register, one step in an iteration better than two. */
static int64_t skewed_share(const Lives *l, const Region *r) {
	if (!r->loop->skew || (r->loop->type != LOOP_FORI && !r->loop->paired) || !reduces_rows_only(r))
		return 100;
	return r->loop->paired ? l->t->spill_paired : l->t->spill_skewed;
}

/* What two steps in an iteration hand on in scratch goes from one to the other as values, in the last ones too (for
 * sums of 0.25 to 1.5 MiB twice as much, on v6e and v7x). */
static int64_t between_pairs(const Lives *l, const KLoop *loop) {
	int64_t bytes = 0;
	for (uint32_t i = 0; loop->paired && i < loop->carried.count; i++)
		bytes += loop->place.at[i] == NONE ? 0 : 2 * l->value[loop->carried.at[i]]->bytes;
	return bytes;
}

/* Choices that only the last steps make stand behind the loop, in straight code: half of what was handed on waits for
 * them (causal attention of 4096 and 8192 rows, in blocks of 512 and 1024: at most a third, on v7x). */
static int64_t chosen_behind(const Lives *l, const KLoop *loop) {
	return !loop->peel && loop->ragged != NONE ? handed_bytes(l, loop) / 2 : 0;
}

/* What the next grid point is handed waits for the last steps, of which one in an iteration still reads what it was
 * handed. Of 26 kernels, attention and its gradients in bfloat16, float16 and float32 on v6e and v7x, at most so much:
 * 0 to 0.6 of it of pairs, 0.7 to 1.15 of single steps. */
static int64_t handed_to_next(const Lives *l, const KLoop *loop) {
	enum { OF_PAIRS = 60, OF_SINGLE = 115 };
	return loop->next.count ? handed_bytes(l, loop) / 100 * (loop->paired ? OF_PAIRS : OF_SINGLE) : 0;
}

static Kept share_of(Kept h, int64_t percent) {
	int64_t *of[] = {&h.tiles, &h.columns, &h.loads, &h.results, &h.parts, &h.factors};
	for (size_t i = 0; i < sizeof of / sizeof *of; i++)
		*of[i] = *of[i] * percent / 100;
	return h;
}

/* Bytes of a window's elements once a matmul takes them: of float32 in bfloat16 parts, of 8 bits widened. */
static int64_t window_factors(const KBuffer *window) {
	int64_t elements = 1;
	for (uint32_t d = 0; d < window->rank; d++)
		elements *= window->shape[d];
	return elements * (window->dtype == DTYPE_F32 ? 9 : dtype_bits(window->dtype) == 8 ? 3 : 0);
}

/* Of bodies, which go through their rows in blocks: what is handed from the part ahead to the rest, and factors, of the
 * columns that some rows see, and what the steps carry; more where there are more blocks, for the code is longer. Of
 * 300 kernels, windows of 128 to 2048 and causal attention, heads of 64 to 256 by 1 to 4, in bfloat16 and float32 on
 * v6e and v7x, libtpu spills at most so much (tests/vmem/test_vmem_measured.py). */
static int64_t spilled_by_bodies(const Lives *l, const KLoop *loop) {
	enum { HANDED = 175, CARRIED = 225, MORE = 16 };
	int64_t handed = handed_bytes(l, loop), carried = 0, factors = 0;
	for (uint32_t i = 0; i < loop->carried.count; i++)
		carried += l->value[loop->carried.at[i]]->bytes;
	for (uint32_t i = 0; i < loop->windows.count; i++)
		factors += window_factors(&l->k->buffers.at[loop->windows.at[i].buffer]);
	int64_t seen = loop->dim[0].size, rows = int_max(loop->rows, MASK_BLOCK);
	int64_t block = handed / 100 * HANDED / seen * loop->columns / rows * MASK_BLOCK +
	                carried / 100 * CARRIED / rows * MASK_BLOCK + factors / seen * loop->columns;
	return block + block / MORE * (rows / MASK_BLOCK);
}

static void held_loop(Lives *l, const Live *x, Kept *h) {
	if (x->body->loop->bodies.count) {
		l->beside += spilled_by_bodies(l, x->body->loop);
		return;
	}
	int64_t before = l->beside, share = skewed_share(l, x->body);
	Kept in = share_of(region_peak(x->body), share);
	l->beside += skew_spills(l, x->body) + while_spills(l, x->body->loop);
	l->beside = before + (l->beside - before) * share / 100 + between_pairs(l, x->body->loop) +
	            chosen_behind(l, x->body->loop) + handed_to_next(l, x->body->loop);
	h->tiles += in.tiles + copied_bytes(l, x);
	h->columns += in.columns;
	h->loads += in.loads;
	h->results += in.results;
	h->parts += in.parts;
	h->factors += in.factors;
	h->steps += in.steps;
	h->early = in.early;
	h->wide = in.wide;
}

/* ---- the peak --------------------------------------------------------------------------------------------------- */

static Kept barrier_held(Region *r, const Live *x, const Kept *across) {
	Kept h = *across;
	h.tiles += r->late[AFTER(x->pos)] + r->late_load[AFTER(x->pos)];
	if (x->part == PART_REDUCE)
		h.tiles += other_way_bytes(r->of, x) + squares_bytes(r->of, x) + number_bytes(r->of, x);
	if (x->part == PART_PRODUCT)
		held_product(r->of, x, &h);
	if (x->part == PART_LOOP)
		held_loop(r->of, x, &h);
	return h;
}

/* A sum of products in scratch, of nothing else: a chip with the larger matrix units adds to it there in the ragged
 * last step as well (matmuls on v6e, steps of 384 to 1536 products: nothing of results of 1.25 to 4 MiB). */
static bool adds_where_it_lies(const Lives *l, const Live *carried) {
	enum { SMALL_UNITS = 128 };
	const Live *user = &carried->region->at[carried->until];
	return l->t->mxu_size > SMALL_UNITS && in_scratch(carried) && user->part == PART_PRODUCT &&
	       adds_to_carried(l, user);
}

static Kept region_peak(Region *r) {
	Lives *l = r->of;
	Kept across = {0}, peak = {.tiles = r->late[OUTSIDE] + r->late_load[OUTSIDE]};
	Kept *ends = arena_array(l->a, r->count + 2, sizeof *ends);
	Kept step = {0};
	int64_t own = 0;
	for (uint32_t pos = 1; pos <= r->count; pos++) {
		Live *x = &r->at[pos];
		if (part_is_barrier(x->part)) {
			Kept here = barrier_held(r, x, &across);
			step.early = int_min(step.early + here.early, TOO_MUCH);
			step.wide = int_min(step.wide + here.wide, TOO_MUCH);
			if (weigh(l->t, &here) > weigh(l->t, &peak))
				peak = here;
		}
		across.tiles -= ends[pos].tiles;
		across.columns -= ends[pos].columns;
		across.loads -= ends[pos].loads;
		int64_t early = early_bytes(l, x);
		own += early;
		step.early = int_min(step.early + early, TOO_MUCH);
		step.wide = int_min(step.wide + (x->column ? 0 : early), TOO_MUCH);
		if (!live_crosses(x) || in_scratch(x) || is_made_again(l, x))
			continue;
		held_add(l, &across, x, 1);
		held_add(l, &ends[x->until], x, 1);
	}
	if (!r->loop)
		return peak;
	add_steps(l->t, r->loop, &step, own, &peak);
	l->beside += factors_of_steps(l, r);
	add_tail(l, r->loop, &peak);
	for (uint32_t i = 0; r->loop->peel && !is_straight(r->loop) && i < r->loop->carried.count; i++)
		if (!adds_where_it_lies(l, &r->at[i + 1]))
			held_add(l, &peak, &r->at[i + 1], 1);
	return peak;
}

int64_t kernel_spills(const Kernel *k, const Target *t, Arena *a) {
	Lives *l = lives_of(k, t, a);
	if (k->strips)
		return spilled_by_strips(l) + spilled_by_halves(l) +
		       spilled_by_late_chains(l) / k->strips->size * k->strips->width;
	Kept h = region_peak(l->root);
	int64_t waiting = int_max(int_max(l->columns, waiting_indices(l)), spilled_by_late_chains(l));
	return int_max(weigh(t, &h) - held_bytes(t), waiting) + l->beside + spilled_by_stores(l) +
	       spilled_by_halves(l) + spilled_by_ints(l) + spilled_by_batches(k) +
	       int_max(spilled_by_moves(l) - held_bytes(t), 0);
}
