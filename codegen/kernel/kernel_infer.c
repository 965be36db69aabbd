/* kernel_infer.c - the type of what a pure statement gives, as jax.numpy gives it. The dtype of pointwise ops is what
 * the statement states: which one jnp computes in is decided where the statement is made (build_pointwise.c). */
#include "kernel.h"

typedef struct KInfer {
	const Kernel *k;
	uint32_t arg_count;
	const KArg *args;
	uint32_t int_count;
	const int64_t *ints;
	Dtype *dtype;
	uint32_t *rank;
	int64_t *shape;
	const char *why;
} KInfer;

static bool no(KInfer *in, const char *why) {
	in->why = why;
	return false;
}

/* The value that argument i is; NULL: a number. */
static const KValue *value_at(const KInfer *in, uint32_t i) {
	return i < in->arg_count && in->args[i].kind == KARG_VALUE ? &in->k->values.at[in->args[i].value] : NULL;
}

static void take(KInfer *in, const KValue *v) {
	*in->rank = v->rank;
	if (v->rank)
		memcpy(in->shape, v->shape, v->rank * sizeof *in->shape);
}

static int64_t elements(uint32_t rank, const int64_t *shape) {
	int64_t n = 1;
	for (uint32_t i = 0; i < rank; i++)
		if (!checked_mul(n, shape[i], &n))
			return -1;
	return n;
}

static bool broadcast_all(KInfer *in) {
	int64_t shape[KDIM_MAX];
	uint32_t rank = 0;
	for (uint32_t i = 0; i < in->arg_count; i++) {
		const KValue *v = value_at(in, i);
		for (; v && rank < v->rank; rank++) {
			memmove(shape + 1, shape, rank * sizeof *shape);
			shape[0] = 1;
		}
	}
	for (uint32_t i = 0; i < in->arg_count; i++) {
		const KValue *v = value_at(in, i);
		for (uint32_t d = 0; v && d < v->rank; d++) {
			int64_t *to = &shape[rank - v->rank + d];
			if (*to != 1 && v->shape[d] != 1 && *to != v->shape[d])
				return no(in, "the arguments' shapes do not broadcast");
			*to = *to == 1 ? v->shape[d] : *to;
		}
	}
	*in->rank = rank;
	if (rank)
		memcpy(in->shape, shape, rank * sizeof *shape);
	return true;
}

static void drop_axis(KInfer *in, uint32_t axis) {
	for (uint32_t d = axis; d + 1 < *in->rank; d++)
		in->shape[d] = in->shape[d + 1];
	--*in->rank;
}

/* ints: keep, axes. */
static bool reduced(KInfer *in) {
	const KValue *x = value_at(in, 0);
	if (!x || in->int_count < 1)
		return no(in, "a tile and the attributes keep and axes are needed");
	take(in, x);
	bool all = in->int_count == 1;
	for (uint32_t i = 1; i < in->int_count; i++)
		if (in->ints[i] < 0 || in->ints[i] >= x->rank)
			return no(in, "an axis is out of range");
	for (uint32_t d = x->rank; d-- > 0;) {
		bool gone = all;
		for (uint32_t i = 1; i < in->int_count; i++)
			gone = gone || in->ints[i] == d;
		if (gone && in->ints[0])
			in->shape[d] = 1;
		else if (gone)
			drop_axis(in, d);
	}
	return true;
}

static bool transposed(KInfer *in) {
	const KValue *x = value_at(in, 0);
	uint32_t seen = 0;
	if (!x || in->int_count != x->rank)
		return no(in, "axes must name each dim of the tile once");
	*in->rank = x->rank;
	for (uint32_t d = 0; d < x->rank; d++) {
		if (in->ints[d] < 0 || in->ints[d] >= x->rank || (seen >> in->ints[d] & 1))
			return no(in, "axes must name each dim of the tile once");
		seen |= 1u << in->ints[d];
		in->shape[d] = x->shape[in->ints[d]];
	}
	return true;
}

static bool axis_of(const KValue *x, int64_t axis, uint32_t *out) {
	axis += axis < 0 ? x->rank : 0;
	*out = (uint32_t)axis;
	return axis >= 0 && axis < x->rank;
}

static bool swapped(KInfer *in) {
	const KValue *x = value_at(in, 0);
	uint32_t a, b;
	if (!x || in->int_count != 2 || !axis_of(x, in->ints[0], &a) || !axis_of(x, in->ints[1], &b))
		return no(in, "an axis is out of range");
	take(in, x);
	in->shape[a] = x->shape[b];
	in->shape[b] = x->shape[a];
	return true;
}

static bool joined(KInfer *in, bool stack) {
	const KValue *x = value_at(in, 0);
	if (!x || in->int_count != 1 || in->ints[0] < 0 || in->ints[0] > (int64_t)x->rank - !stack)
		return no(in, "the axis is out of range");
	uint32_t axis = (uint32_t)in->ints[0];
	take(in, x);
	if (stack) {
		memmove(in->shape + axis + 1, in->shape + axis, (x->rank - axis) * sizeof *in->shape);
		++*in->rank;
		in->shape[axis] = 0;
	}
	for (uint32_t i = stack ? 0 : 1; i < in->arg_count; i++) {
		const KValue *v = value_at(in, i);
		if (!v || v->rank != x->rank)
			return no(in, "tiles of one rank are needed");
		for (uint32_t d = 0; d < v->rank; d++)
			if (v->shape[d] != x->shape[d] && (stack || d != axis))
				return no(in, "the tiles' other dims differ");
		in->shape[axis] += stack ? 1 : v->shape[axis];
	}
	return true;
}

static bool tiled(KInfer *in) {
	const KValue *x = value_at(in, 0);
	if (!x || in->int_count < x->rank || in->int_count > KDIM_MAX)
		return no(in, "times must have a number for each dim");
	uint32_t more = in->int_count - x->rank;
	*in->rank = in->int_count;
	for (uint32_t d = 0; d < in->int_count; d++)
		in->shape[d] = in->ints[d] * (d < more ? 1 : x->shape[d - more]);
	return true;
}

/* items: kind, start, end of each. */
static bool indexed(KInfer *in) {
	const KValue *x = value_at(in, 0);
	uint32_t count = in->int_count / 3, given = 0, from = 0, to = 0;
	if (!x || in->int_count % 3)
		return no(in, "a tile and items are needed");
	for (uint32_t i = 0; i < count; i++)
		given += in->ints[(size_t)3 * i] != K_ITEM_NEW && in->ints[(size_t)3 * i] != K_ITEM_REST;
	if (given > x->rank)
		return no(in, "there are more items than dims");
	for (uint32_t i = 0; i < count; i++) {
		const int64_t *item = in->ints + (size_t)3 * i;
		for (uint32_t d = 0; item[0] == K_ITEM_REST && d < x->rank - given; d++)
			in->shape[to++] = x->shape[from++];
		if (item[0] == K_ITEM_NEW)
			in->shape[to++] = 1;
		else if (item[0] == K_ITEM_ALL)
			in->shape[to++] = x->shape[from++];
		else if (item[0] == K_ITEM_RANGE || item[0] == K_ITEM_FIRST) {
			int64_t end = int_min(item[2], x->shape[from++]);
			in->shape[to++] = int_max(end - item[1], 0);
		} else if (item[0] == K_ITEM_AT && item[1] >= x->shape[from++]) {
			return no(in, "a position is past the end");
		}
	}
	while (from < x->rank)
		in->shape[to++] = x->shape[from++];
	*in->rank = to;
	return true;
}

static bool padded(KInfer *in) {
	const KValue *x = value_at(in, 0);
	if (!x || in->int_count != 2 * x->rank)
		return no(in, "widths must have two numbers for each dim");
	take(in, x);
	for (uint32_t d = 0; d < x->rank; d++)
		in->shape[d] += in->ints[(size_t)2 * d] + in->ints[(size_t)2 * d + 1];
	return true;
}

/* ints: a, b, highest, nan. */
static bool multiplied(KInfer *in) {
	const KValue *x = value_at(in, 0), *y = value_at(in, 1);
	uint32_t rank = x ? x->rank : 0, to = 0;
	if (!x || !y || y->rank != rank || rank < 2 || rank > 3 || in->int_count < 3)
		return no(in, "two tiles of two or three dims are needed");
	int64_t a = in->ints[0], b = in->ints[1], batch = rank == 3;
	if (a < batch || a >= rank || b < batch || b >= rank || x->shape[a] != y->shape[b] ||
	    (batch && x->shape[0] != y->shape[0]))
		return no(in, "the contracted dims differ");
	for (uint32_t i = 3; i < in->int_count; i++)
		if (rank != 2 || a != 1 || b != 0 || in->ints[i] < 0 || in->ints[i] > 1 ||
		    (in->ints[i] ? y : x)->dtype != DTYPE_F8E4M3)
			return no(in, "nan are of factors 0 and 1 of float8_e4m3fn, two tiles that are not transposed");
	for (int64_t d = 0; d < rank; d++)
		if (d != a)
			in->shape[to++] = x->shape[d];
	for (int64_t d = batch; d < rank; d++)
		if (d != b)
			in->shape[to++] = y->shape[d];
	*in->rank = to;
	return true;
}

static bool rows_and_columns(KInfer *in, bool to_row) {
	const KValue *x = value_at(in, 0);
	if (!x || x->rank < 2)
		return no(in, "a tile of two dims or more is needed");
	take(in, x);
	in->shape[x->rank - 1] = to_row ? x->shape[x->rank - 2] : 1;
	in->shape[x->rank - 2] = to_row ? 1 : x->shape[x->rank - 1];
	return true;
}

/* ints: start, step, count, axis. */
static bool every(KInfer *in) {
	const KValue *x = value_at(in, 0);
	if (!x || in->int_count != 4 || in->ints[3] < 0 || in->ints[3] >= x->rank)
		return no(in, "a tile and the attributes start, step, count and axis are needed");
	take(in, x);
	in->shape[in->ints[3]] = in->ints[2];
	return true;
}

static bool lanes(KInfer *in, bool twice) {
	const KValue *x = value_at(in, 0);
	if (!x || x->rank == 0)
		return no(in, "a tile is needed");
	take(in, x);
	int64_t *last = &in->shape[x->rank - 1];
	*last = twice ? *last * 2 : (*last + 1) / 2;
	return true;
}

/* Rows of less than 32 bits, as many as fill one of int32. */
static bool words(KInfer *in) {
	const KValue *x = value_at(in, 0);
	int64_t bits = x ? dtype_bits(x->dtype) : 32, rows = 32 / bits;
	if (!x || x->rank < 2 || bits >= 32 || x->dtype == DTYPE_BOOL || x->shape[x->rank - 2] % rows)
		return no(in, "rows of less than 32 bits that fill whole words are needed");
	take(in, x);
	in->shape[x->rank - 2] /= rows;
	return true;
}

/* The bits of what is sorted, then its places. */
static bool sorted(KInfer *in) {
	const KValue *x = value_at(in, 0);
	if (!x || x->rank == 0 || x->rank == KDIM_MAX || dtype_bits(x->dtype) != 32)
		return no(in, "a tile of 32-bit elements is needed");
	take(in, x);
	memmove(in->shape + 1, in->shape, x->rank * sizeof *in->shape);
	in->shape[0] = 2;
	++*in->rank;
	return true;
}

static bool words_taken(KInfer *in, uint32_t kept) {
	const KValue *x = value_at(in, 0), *places = value_at(in, 1);
	if (!x || !places || x->rank != 2 || places->rank != 2 || x->shape[kept] != places->shape[kept] ||
	    dtype_bits(x->dtype) != 32 || places->dtype != DTYPE_I32)
		return no(in, "a tile of 32-bit elements and int32 places of the same rows, or lanes, are needed");
	take(in, places);
	return true;
}

static bool first(KInfer *in) {
	const KValue *x = value_at(in, 0);
	if (!x)
		return no(in, "the first argument must be a value");
	take(in, x);
	return true;
}

static bool shape_of(KInfer *in, uint16_t op) {
	const KValue *x = value_at(in, 0);
	switch (op) {
	case K_BITCAST:
	case K_FLOAT16_VALUE:
	case K_FLOAT16_BITS:
	case K_FLOAT16_ROUNDED:
	case K_ROLL:
	case K_ROTATE:
	case K_FLIP:
	case K_REVERSE:
	case K_CUMSUM:
	case K_CUMPROD:
	case K_FOLD_SUM:
	case K_FOLD_MAX:
	case K_FOLD_MIN:
	case K_FOLD_WHERE:
	case K_ALL_SUM:
	case K_ALL_MAX:
	case K_ALL_MIN: return first(in);
	case K_LET:
	case K_CONVERT: return x ? first(in) : (*in->rank = 0, true);
	case K_SCALAR:
	case K_INT:
	case K_PROGRAM_ID:
	case K_DEVICE_ID:
	case K_AXES_INDEX:
	case K_CORE_ID:
	case K_SUBCORE_ID: *in->rank = 0; return true;
	case K_ZEROS:
	case K_ONES:
	case K_FULL:
	case K_IOTA: return true; /* as stated */
	case K_ARRAY: *in->rank = 1, in->shape[0] = 1; return true;
	case K_MASK: return first(in);
	case K_KEEP: return broadcast_all(in);
	case K_WITHIN: return first(in);
	case K_CHOOSE: return value_at(in, 1) ? (take(in, value_at(in, 1)), true) : true;
	case K_LOAD:
		if (in->arg_count != 1 || in->args[0].kind != KARG_REF)
			return no(in, "a reference is needed");
		*in->rank = kernel_ref_shape(in->k, in->args[0].ref, in->shape);
		*in->dtype = in->k->buffers.at[in->k->refs.at[in->args[0].ref].buffer].dtype;
		return true;
	case K_RESHAPE:
		return x && elements(*in->rank, in->shape) == elements(x->rank, x->shape)
		               ? true
		               : no(in, "a reshape keeps the number of elements");
	case K_BROADCAST: return true;
	case K_TRANSPOSE: return transposed(in);
	case K_SWAPAXES: return swapped(in);
	case K_EXPAND_DIMS:
		if (!x || in->int_count != 1)
			return no(in, "a tile and an axis are needed");
		take(in, x);
		{
			uint32_t axis = (uint32_t)(in->ints[0] < 0 ? in->ints[0] + x->rank + 1 : in->ints[0]);
			if (axis > x->rank)
				return no(in, "the axis is out of range");
			memmove(in->shape + axis + 1, in->shape + axis, (x->rank - axis) * sizeof *in->shape);
			in->shape[axis] = 1;
			++*in->rank;
		}
		return true;
	case K_TILE: return tiled(in);
	case K_INDEX: return indexed(in);
	case K_SLICE_IN_DIM:
		if (!x || in->int_count != 3 || in->ints[2] < 0 || in->ints[2] >= x->rank)
			return no(in, "a tile and the attributes start, end and axis are needed");
		take(in, x);
		in->shape[in->ints[2]] = in->ints[1] - in->ints[0];
		return true;
	case K_CONCATENATE: return joined(in, false);
	case K_STACK: return joined(in, true);
	case K_PAD: return padded(in);
	case K_STRIDED:
		if (!x || in->int_count != 3 * x->rank)
			return no(in, "slices must have three numbers for each dim");
		take(in, x);
		for (uint32_t d = 0; d < x->rank; d++) {
			const int64_t *s = in->ints + (size_t)3 * d;
			if (s[2] < 1)
				return no(in, "a step must be 1 or more");
			in->shape[d] = int_max(int_cdiv(int_max(int_min(s[1], x->shape[d]) - s[0], 0), s[2]), 0);
		}
		return true;
	case K_EVERY: return every(in);
	case K_EVEN_LANES: return lanes(in, false);
	case K_WORDS: *in->dtype = DTYPE_I32; return words(in);
	case K_INTERLEAVE: return lanes(in, true);
	case K_TAKE_LANES: return words_taken(in, 0);
	case K_TAKE_ROWS: return words_taken(in, 1);
	case K_TO_ROW: return rows_and_columns(in, true);
	case K_TO_COLUMN: return rows_and_columns(in, false);
	case K_SORT: return sorted(in);
	case K_SUM:
	case K_MEAN:
	case K_MAX:
	case K_MIN:
	case K_PROD: return reduced(in);
	case K_DOT: return multiplied(in);
	default: return broadcast_all(in); /* pointwise */
	}
}

static void dtype_of(KInfer *in, uint16_t op) {
	const KValue *x = value_at(in, 0);
	if (op == K_IOTA || op == K_INT || op == K_PROGRAM_ID || op == K_DEVICE_ID || op == K_CORE_ID ||
	    op == K_SUBCORE_ID || op == K_AXES_INDEX || op == K_SORT)
		*in->dtype = DTYPE_I32;
	bool keeps = op == K_LET || op == K_MASK || op == K_KEEP || op == K_WITHIN || op == K_STRIDED ||
	             (op >= K_RESHAPE && op <= K_TO_COLUMN) || (op >= K_MAX && op <= K_MIN) ||
	             (op >= K_FOLD_SUM && op <= K_FOLD_WHERE) || (op >= K_ALL_SUM && op <= K_ALL_MIN);
	if (keeps && x)
		*in->dtype = x->dtype;
}

bool kernel_infer(const Kernel *k, uint16_t op, uint32_t arg_count, const KArg *args, uint32_t int_count,
                  const int64_t *ints, Dtype *dtype, uint32_t *rank, int64_t *shape, const char **why) {
	KInfer in = {k, arg_count, args, int_count, ints, dtype, rank, shape, NULL};
	dtype_of(&in, op);
	bool ok = shape_of(&in, op);
	*why = in.why;
	return ok;
}
