/* rewrite_float16.c - no chip has vectors of float16: it is 16 bits in memory, int16 to the kernel, which makes float32
 * of them and rounds float32 to them. The arrays of the wrapper are float16; the bits of one are another array to XLA,
 * which copies it. Where it makes a block of them for each point of the grid (`fused`), they are wide, int32: it widens
 * them to reinterpret them, and the kernel widens them too.
 *
 *     in x_ref vmem float16[16, 128]         in x_ref vmem int16[16, 128]
 *     x = load x_ref[...] : float16          x = load x_ref[...] : int16
 *     x_f32 = convert x : float32      =>    x_f32 = float16_value x : float32
 *     y_f16 = convert y : float16            y_f16 = float16_bits y : int16
 *     z = convert y_f16 : float32            z = float16_rounded y : float32 */
#include "rewrite.h"

#include <math.h>

/* The bits of a float16 of up to 11 significant ones. */
static int64_t bits_of(double x) {
	int64_t sign = signbit(x) ? 0x8000 : 0;
	int exponent;
	if (isnan(x) || isinf(x))
		return (sign | (isnan(x) ? 0x7e00 : 0x7c00)) - (sign ? 0x10000 : 0);
	double significand = frexp(fabs(x), &exponent);
	int64_t size = exponent < -13 ? (int64_t)ldexp(fabs(x), 24)
	                              : (int64_t)(exponent + 13) * 1024 + (int64_t)ldexp(significand, 11);
	return (sign | (x == 0 ? 0 : size)) - (sign ? 0x10000 : 0);
}

static bool is_half(const Kernel *k, KArg x) {
	return x.kind == KARG_VALUE && k->values.at[x.value].dtype == DTYPE_F16;
}

/* What was rounded, if that stands where it can be read; NONE-kind. */
static KArg rounded(const Kernel *k, StmtId s) {
	StmtId def = k->values.at[kernel_arg(k, s, 0)->value].def;
	bool here = def != NONE && kernel_stmt(k, def)->region == kernel_stmt(k, s)->region;
	return here && kernel_stmt(k, def)->op == K_FLOAT16_BITS ? *kernel_arg(k, def, 0) : (KArg){0};
}

/* Its numbers are elements: no counts or places. */
static bool takes_elements(uint16_t op) { return op < K_FIRST || op == K_SCALAR || op == K_FULL; }

static void lower(Kernel *k, StmtId s, void *data) {
	(void)data;
	KStmt *stmt = kernel_stmt(k, s);
	bool gives = stmt->result_count == 1 && k->values.at[stmt->result].dtype == DTYPE_F16;
	bool takes = stmt->arg_count > 0 && is_half(k, *kernel_arg(k, s, 0));
	if (stmt->op == K_CONVERT && gives) {
		stmt->op = takes ? K_LET : K_FLOAT16_BITS;
	} else if (stmt->op == K_CONVERT && takes) {
		KArg x = rounded(k, s);
		stmt->op = x.kind == KARG_VALUE ? K_FLOAT16_ROUNDED : K_FLOAT16_VALUE;
		if (x.kind == KARG_VALUE)
			*kernel_arg(k, s, 0) = x;
	} else if (stmt->op == K_BITCAST) {
		bool bits = stmt->result_count == 1 && k->values.at[stmt->result].dtype == DTYPE_I16;
		bool from_bits = kernel_arg(k, s, 0)->kind == KARG_VALUE &&
		                 k->values.at[kernel_arg(k, s, 0)->value].dtype == DTYPE_I16;
		if ((gives && from_bits) || (takes && bits))
			stmt->op = K_LET;
	} else {
		for (uint32_t i = 0; gives && i < stmt->arg_count; i++) {
			KArg *x = kernel_arg(k, s, i);
			if (x->kind == KARG_REAL)
				*x = karg_integer(bits_of(x->real));
			else if (x->kind == KARG_INTEGER && takes_elements(stmt->op))
				*x = karg_integer(bits_of((double)x->integer));
		}
	}
}

/* It loads of a buffer whose bits come wide. */
static bool loads_wide(const Kernel *k, StmtId s) {
	if (s == NONE || kernel_stmt(k, s)->op != K_LOAD)
		return false;
	const KBuffer *b = &k->buffers.at[k->refs.at[kernel_arg(k, s, 0)->ref].buffer];
	return b->fused && b->dtype == DTYPE_F16;
}

/* What is loaded of bits that come wide is wide; float16_value takes it so, and all else as int16. */
static void load_wide(Kernel *k, StmtId s, void *data) {
	(void)data;
	if (loads_wide(k, s))
		k->values.at[kernel_stmt(k, s)->result].dtype = DTYPE_I32;
	for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count && kernel_stmt(k, s)->op != K_FLOAT16_VALUE; i++) {
		KArg x = *kernel_arg(k, s, i);
		if (x.kind != KARG_VALUE || !loads_wide(k, k->values.at[x.value].def))
			continue;
		KValue v = k->values.at[x.value];
		StmtId bits = kernel_insert_before(k, s, K_CONVERT, 1, &x, 0, NULL);
		kernel_result(k, bits, v.type, DTYPE_I16, v.rank, v.shape, NULL);
		*kernel_arg(k, s, i) = karg_value(kernel_stmt(k, bits)->result);
	}
}

static bool has_float16(const Kernel *k) {
	bool has = false;
	for (ValueId v = 0; v < k->values.count && !has; v++)
		has = k->values.at[v].dtype == DTYPE_F16;
	for (BufferId b = 0; b < k->buffers.count && !has; b++)
		has = k->buffers.at[b].dtype == DTYPE_F16;
	return has;
}

void rewrite_float16(Kernel *k) {
	if (!has_float16(k))
		return;
	kernel_walk(k, k->body, lower, NULL);
	kernel_walk(k, k->body, load_wide, NULL);
	for (ValueId v = 0; v < k->values.count; v++)
		if (k->values.at[v].dtype == DTYPE_F16)
			k->values.at[v].dtype = DTYPE_I16;
	for (BufferId b = 0; b < k->buffers.count; b++) {
		KBuffer *buffer = &k->buffers.at[b];
		if (buffer->dtype != DTYPE_F16)
			continue;
		buffer->dtype = buffer->fused ? DTYPE_I32 : DTYPE_I16;
		buffer->half = buffer->role == BUFFER_OUT && buffer->alias == NONE;
	}
}

/* ---- the wrapper --------------------------------------------------------------------------------------------------
 */

static StmtId bitcast(Kernel *k, StmtId before, ValueId x) {
	KArg arg = karg_value(x);
	return kernel_insert_before(k, before, K_BITCAST, 1, &arg, 0, NULL);
}

/* What a launch gives is bits, and float16 to who reads it. */
static void give_bits(Kernel *k, StmtId s) {
	ValueId *map = kernel_value_map(k), first = kernel_stmt(k, s)->result;
	uint32_t count = k->values.count, results = kernel_stmt(k, s)->result_count;
	for (ValueId v = first; v < first + results; v++)
		if (k->values.at[v].dtype == DTYPE_F16) {
			KValue half = k->values.at[v];
			map[v] = kernel_value(k, half.type, DTYPE_F16, half.rank, half.shape, NULL);
			k->values.at[v].dtype = DTYPE_I16;
		}
	kernel_replace_values(k, map, count);
	for (ValueId v = first; v < first + results; v++)
		if (map[v] != NONE) {
			StmtId cast = bitcast(k, kernel_stmt(k, s)->next, v);
			kernel_stmt(k, cast)->result = map[v];
			kernel_stmt(k, cast)->result_count = 1;
			k->values.at[map[v]].def = cast;
		}
}

static void take_bits(Kernel *k, StmtId s, const Kernel *launched) {
	BufferId b = 0;
	for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++, b++) {
		while (b < launched->buffers.count && launched->buffers.at[b].role != BUFFER_IN)
			b++;
		KArg x = *kernel_arg(k, s, i);
		if (!is_half(k, x))
			continue;
		KValue half = k->values.at[x.value];
		StmtId bits = bitcast(k, s, x.value);
		kernel_result(k, bits, half.type, DTYPE_I16, half.rank, half.shape, NULL);
		if (launched->buffers.at[b].fused) {
			KArg narrow = karg_value(kernel_stmt(k, bits)->result);
			bits = kernel_insert_before(k, s, K_CONVERT, 1, &narrow, 0, NULL);
			kernel_result(k, bits, half.type, DTYPE_I32, half.rank, half.shape, NULL);
		}
		*kernel_arg(k, s, i) = karg_value(kernel_stmt(k, bits)->result);
	}
}

void launch_bits(const KProgram *p) {
	Kernel *k = p->host;
	bool any = false;
	for (ValueId v = 0; v < k->values.count; v++)
		any = any || k->values.at[v].dtype == DTYPE_F16;
	for (StmtId s = region_first(k, k->body); any && s != NONE; s = kernel_stmt(k, s)->next)
		if (kernel_stmt(k, s)->op == K_LAUNCH) {
			take_bits(k, s, p->kernels.at[kernel_stmt(k, s)->ints[0]]);
			give_bits(k, s);
		}
	if (any)
		kernel_drop_unread(k);
}
