/* build_turns.c - slices of blocks in VMEM that start where Mosaic slices nothing, between tiles: whole tiles are read,
 * and turned until the slice comes first.
 *
 *     x[:, start +: 100]   =>   base = min(start / 128 * 128, last)
 *                               w = x[:, base +: 256];  rotate w, (256 - (start - base)) % 256;  its first 100 */
#include "builder.h"

bool access_turns(const Access *access) {
	bool any = false;
	for (uint32_t i = 0; i < access->rank; i++)
		any = any || access->dim[i].window;
	return any;
}

static IntId number(Builder *b, int64_t n) { return int_const(b->k, n); }

/* Where the window starts. */
IntId build_base(Builder *b, const SliceDim *s) {
	if (s->last == 0)
		return number(b, 0);
	IntId base = build_affine(b, &s->start);
	if (s->multiple > 1) {
		IntId tile = int_binary(b->k, INT_DIV, base, number(b, s->multiple));
		base = int_binary(b->k, INT_MUL, tile, number(b, s->multiple));
	}
	int64_t farthest = s->copied ? s->last + s->window - 1 : s->last + s->window - s->size;
	bool fits = farthest / s->multiple * s->multiple <= s->last;
	return fits ? base : int_binary(b->k, INT_MIN, base, number(b, s->last));
}

/* Where the slice starts in its window. */
static IntId shift_of(Builder *b, const SliceDim *s) {
	IntId start = build_affine(b, &s->start);
	return s->last == 0 ? start : int_binary(b->k, INT_SUB, start, build_base(b, s));
}

KDim build_around(Builder *b, const SliceDim *s) {
	if (s->last == 0 || s->copied)
		return (KDim){.kind = KDIM_ALL};
	return (KDim){.kind = KDIM_RANGE,
	              .start = build_base(b, s),
	              .size = s->window,
	              .multiple = s->multiple > 1 ? s->multiple : 0};
}

/* A dim of the buffer that neither the region nor what is read around it has. */
static bool is_gone(const SliceDim *s, bool keep) { return s->kind == SLICE_AT && !s->window && !keep; }

/* A row that slice_keep_row() keeps: there is nothing else around it. */
static bool is_kept_row(const Access *access, uint32_t i) { return i + 1 < access->rank && access->dim[i].window == 1; }

static KArg rotated(Builder *b, KArg x, IntId turns, int64_t axis) {
	int64_t none;
	if (int_is_const(b->k, turns, &none) && none == 0)
		return x;
	return build_op(b, K_ROTATE, karg_dtype(b, x), 2, (const KArg[]){x, build_int_arg(b, turns)}, 1, &axis);
}

KArg build_turned(Builder *b, const Access *access, uint32_t unit, KArg x) {
	int64_t items[3 * DIM_MAX], axis = 0;
	bool drops = false;
	Dtype dtype = karg_dtype(b, x);
	for (uint32_t i = 0; i < access->rank; i++) {
		const SliceDim *s = &access->dim[i];
		if (is_gone(s, i == unit))
			continue;
		if (s->window && !is_kept_row(access, i)) {
			IntId back = int_binary(b->k, INT_SUB, number(b, s->window), shift_of(b, s));
			x = rotated(b, x, int_binary(b->k, INT_REM, back, number(b, s->window)), axis);
			const int64_t first[] = {0, s->size, axis};
			x = build_op(b, K_SLICE_IN_DIM, dtype, 1, &x, 3, first);
		}
		bool drop = s->window && s->kind == SLICE_AT;
		drops = drops || drop;
		items[3 * axis] = drop ? K_ITEM_AT : K_ITEM_ALL;
		items[3 * axis + 1] = items[3 * axis + 2] = 0;
		axis++;
	}
	return drops ? build_op(b, K_INDEX, dtype, 1, &x, 3 * (uint32_t)axis, items) : x;
}

/* x at its place in a dim of what is around it. */
static KArg spread(Builder *b, const SliceDim *s, KArg x, int64_t axis) {
	Dtype dtype = karg_dtype(b, x);
	const KValue *v = &b->k->values.at[x.value];
	uint32_t rank = v->rank;
	int64_t shape[KDIM_MAX], widths[2 * KDIM_MAX] = {0};
	memcpy(shape, v->shape, rank * sizeof *shape);
	shape[axis] = s->window;
	if (s->size == 1) /* it may be everywhere already */
		return v->shape[axis] == s->window ? x : build_shaped(b, K_BROADCAST, dtype, rank, shape, 1, &x);
	widths[2 * axis + 1] = s->window - s->size;
	KArg zero = dtype_is_float(dtype) ? karg_real(0) : karg_integer(0);
	if (s->window > s->size)
		x = build_op(b, K_PAD, dtype, 2, (const KArg[]){x, zero}, 2 * rank, widths);
	return rotated(b, x, shift_of(b, s), axis);
}

bool build_puts_within(const Access *access) {
	bool any = false;
	for (uint32_t i = 0; i < access->rank; i++)
		any = any || (access->dim[i].window && !is_kept_row(access, i));
	return any;
}

KArg build_put(Builder *b, const Access *access, uint32_t unit, KArg x, KArg old, IntId there) {
	Dtype dtype = karg_dtype(b, old);
	int64_t axis = 0;
	for (uint32_t i = 0; i < access->rank; i++) {
		const SliceDim *s = &access->dim[i];
		if (is_gone(s, i == unit))
			continue;
		if (s->window && s->kind == SLICE_AT)
			x = build_op(b, K_EXPAND_DIMS, dtype, 1, &x, 1, &axis);
		if (s->window)
			x = spread(b, s, x, axis);
		axis++;
	}
	axis = 0;
	for (uint32_t i = 0; i < access->rank; i++) {
		const SliceDim *s = &access->dim[i];
		if (is_gone(s, i == unit))
			continue;
		const int64_t ints[] = {axis++, s->size};
		if (!s->window || is_kept_row(access, i))
			continue;
		IntId first = shift_of(b, s);
		if (there != NONE) /* else behind all of them */
			first = int_choose(b->k, there, first, number(b, s->window));
		x = build_op(b, K_WITHIN, dtype, 3, (const KArg[]){old, x, build_int_arg(b, first)}, 2, ints);
	}
	return x;
}
