/* rewrite_alike.c - a loop starts with values that lie as those that its steps hand on.
 *
 * Mosaic keeps one register of rows or lanes that are all alike, as of a constant. What a loop carries lies as what it
 * starts with and what a step gives of that lie together. Where one carried value is computed of another, it lies
 * otherwise in a second step still, and Mosaic, which looks at two (libtpu 0.0.51), then says "Invalid relayout" or
 * "Lane broadcast"; and where a step has one packed element of an array meet what is packed. A choice by an index of
 * rows and lanes, which always holds, is alike in none.
 *
 *     %1 = full 5 : int32[8, 128] initial            %1 = full 5 : int32[8, 128] initial
 *     loop carry (a = %1, b = %2) {                  %3 = iota axis=1 : int32[8, 128] initial
 *       a_1 = max a, x                               %4 = iota axis=0 : int32[8, 128] initial
 *       b_1 = convert a : float32[8, 128]            %5 = add %3, %4 : int32[8, 128] initial
 *       yield a_1, b_1                               %6 = ge %5, 0 : bool[8, 128] initial
 *     }                                              %7 = where %6, %1, 0 : int32[8, 128] initial
 *                                                    ... loop carry (a = %7, b = %12) */
#include "rewrite.h"

#include <math.h>

enum { ROWS_ALIKE = 1, LANES_ALIKE = 2, ALL_ALIKE = ROWS_ALIKE | LANES_ALIKE };

static int64_t size_from_last(const KValue *v, uint32_t i) { return i < v->rank ? v->shape[v->rank - 1 - i] : 1; }

static bool is_tile(const KValue *v) { return v->type == KTYPE_TILE && v->rank > 0; }

/* What is alike in x, met by something of the shape of `to`. `alike`: by value. */
static unsigned spread(const Kernel *k, const unsigned *alike, KArg x, const KValue *to) {
	const KValue *v = x.kind == KARG_VALUE ? &k->values.at[x.value] : NULL;
	if (!v || !is_tile(v))
		return ALL_ALIKE;
	unsigned found = alike[x.value];
	if (size_from_last(v, 0) == 1 && size_from_last(to, 0) > 1)
		found |= LANES_ALIKE;
	if (size_from_last(v, 1) == 1 && size_from_last(to, 1) > 1)
		found |= ROWS_ALIKE;
	return found;
}

static bool is_pointwise(uint16_t op) {
	switch (op) {
	case K_CONVERT:
	case K_ZEROS:
	case K_ONES:
	case K_FULL:
	case K_LET:
	case K_CHOOSE:
	case K_MASK:
	case K_KEEP:
	case K_WITHIN:
	case K_BROADCAST:
	case K_IOTA:
	case K_SUM:
	case K_MEAN:
	case K_MAX:
	case K_MIN:
	case K_PROD: return true;
	default: return op < K_FIRST;
	}
}

/* Of an axis: its rows, its lanes, or neither. */
static unsigned along(const KValue *v, int64_t axis) {
	return axis == (int64_t)v->rank - 1 ? LANES_ALIKE : axis == (int64_t)v->rank - 2 ? ROWS_ALIKE : 0;
}

/* What a reduction makes alike. */
static unsigned reduced(const Kernel *k, StmtId s) {
	const KStmt *stmt = kernel_stmt(k, s);
	const KValue *v = &k->values.at[stmt->result];
	unsigned found = stmt->int_count == 1 ? ALL_ALIKE : 0;
	for (uint32_t i = 1; i < stmt->int_count; i++)
		found |= along(v, stmt->ints[i]);
	return found;
}

static bool carries_all(const KStmt *loop) { return loop->arg_count == loop->loop->carried.count; }

/* What a loop's first step is given, before its body. */
static void find_started(Kernel *k, StmtId s, unsigned *alike) {
	const ValueId *carried = kernel_stmt(k, s)->loop->carried.at;
	for (uint32_t i = 0; carries_all(kernel_stmt(k, s)) && i < kernel_stmt(k, s)->arg_count; i++)
		alike[carried[i]] = spread(k, alike, *kernel_arg(k, s, i), &k->values.at[carried[i]]);
}

/* What a loop gives, where its body ends: what its steps give of that, and of a loop that stays one that itself, too.
 */
static void find_given(Kernel *k, StmtId yield, unsigned *alike) {
	StmtId s = k->regions.at[kernel_stmt(k, yield)->region].owner;
	const KStmt *stmt = s == NONE ? NULL : kernel_stmt(k, s);
	if (!stmt || stmt->op != K_LOOP || stmt->result == NONE || !carries_all(stmt))
		return;
	for (uint32_t i = 0; i < stmt->result_count && i < stmt->arg_count; i++) {
		unsigned gives = spread(k, alike, *kernel_arg(k, yield, i), &k->values.at[stmt->result + i]);
		bool straight = stmt->loop->type == LOOP_UNROLL;
		alike[stmt->result + i] = straight ? gives : gives & alike[stmt->loop->carried.at[i]];
	}
}

/* Statements come in the order of the program. */
static void find_alike(Kernel *k, StmtId s, void *data) {
	unsigned *alike = data;
	const KStmt *stmt = kernel_stmt(k, s);
	if (stmt->op == K_LOOP)
		find_started(k, s, alike);
	else if (stmt->op == K_YIELD)
		find_given(k, s, alike);
	if (stmt->op == K_LOOP || stmt->result == NONE || stmt->result_count != 1 ||
	    !is_tile(&k->values.at[stmt->result]))
		return;
	const KValue *v = &k->values.at[stmt->result];
	unsigned found = is_pointwise(stmt->op) ? ALL_ALIKE : 0;
	for (uint32_t i = 0; i < stmt->arg_count && found; i++)
		found &= spread(k, alike, *kernel_arg(k, s, i), v);
	switch (stmt->op) {
	case K_MASK:
	case K_KEEP:
	case K_WITHIN:
	case K_IOTA: found &= ~along(v, stmt->ints[0]); break;
	case K_SUM:
	case K_MEAN:
	case K_MAX:
	case K_MIN:
	case K_PROD: found = stmt->ints[0] ? found | reduced(k, s) : 0; break;
	default: break;
	}
	alike[stmt->result] = found;
}

/* It is handed on in registers. */
static bool is_handed_on(const Kernel *k, const KLoop *loop, uint32_t i) {
	return is_tile(&k->values.at[loop->carried.at[i]]) && loop->place.at[i] == NONE;
}

static unsigned starts_alike(const Kernel *k, const unsigned *alike, StmtId s, uint32_t i) {
	const KLoop *loop = kernel_stmt(k, s)->loop;
	const KValue *v = &k->values.at[loop->carried.at[i]];
	return is_handed_on(k, loop, i) ? spread(k, alike, *kernel_arg(k, s, i), v) : 0;
}

/* What the first step gives, of what is alike in what it is given, the second gives too. */
static bool settles(Kernel *k, unsigned *alike, StmtId s) {
	const KLoop *loop = kernel_stmt(k, s)->loop;
	StmtId yield = region_last(k, kernel_stmt(k, s)->body);
	unsigned *given = arena_array(k->arena, loop->carried.count + 1, sizeof *given);
	kernel_walk(k, k->body, find_alike, alike);
	for (uint32_t i = 0; i < loop->carried.count; i++)
		given[i] = starts_alike(k, alike, s, i);
	for (int step = 0; step < 2; step++) {
		for (uint32_t i = 0; i < loop->carried.count; i++)
			alike[loop->carried.at[i]] = given[i];
		kernel_walk(k, kernel_stmt(k, s)->body, find_alike, alike);
		for (uint32_t i = 0; i < loop->carried.count; i++) {
			const KValue *v = &k->values.at[loop->carried.at[i]];
			unsigned gives = spread(k, alike, *kernel_arg(k, yield, i), v);
			if (step == 1 && (given[i] & ~gives))
				return false;
			given[i] &= gives;
		}
	}
	return true;
}

/* ---- a choice by an index --------------------------------------------------------------------------------------- */

static KArg made(Kernel *k, StmtId loop, KValue like, uint16_t op, Dtype dtype, uint32_t count, const KArg *args,
                 int64_t axis) {
	KArg x = tile_before(k, loop, like, op, dtype, count, args, axis);
	kernel_stmt(k, k->values.at[x.value].def)->flags |= KSTMT_INITIAL;
	return x;
}

/* A constant zero, as infinities may become where they are ints: of a choice between such nothing is left. */
static bool is_zero(const Kernel *k, KArg x) {
	if (x.kind == KARG_REAL && !isfinite(x.real))
		return true;
	if (x.kind != KARG_VALUE)
		return karg_is_number(x, 0) || (x.kind == KARG_BOOL && !x.boolean);
	StmtId s = k->values.at[x.value].def;
	uint16_t op = s == NONE ? K_LOAD : kernel_stmt(k, s)->op;
	bool same = op == K_FULL || op == K_CONVERT || op == K_BROADCAST || op == K_LET || op == K_SCALAR;
	return op == K_ZEROS || (same && is_zero(k, *kernel_arg(k, s, 0)));
}

/* Packed elements are chosen in 32 bits. */
static KArg chosen(Kernel *k, StmtId loop, KArg x) {
	KValue like = k->values.at[x.value];
	bool narrow = dtype_bits(like.dtype) < 32;
	Dtype wide = narrow ? dtype_widened(like.dtype) : like.dtype;
	int64_t other = is_zero(k, x) ? 1 : 0;
	KArg lane = made(k, loop, like, K_IOTA, DTYPE_I32, 0, NULL, (int64_t)like.rank - 1);
	const KArg both[] = {lane, made(k, loop, like, K_IOTA, DTYPE_I32, 0, NULL, (int64_t)like.rank - 2)};
	const KArg index[] = {made(k, loop, like, OP_ADD, DTYPE_I32, 2, both, -1), karg_integer(0)};
	KArg holds = made(k, loop, like, OP_GE, DTYPE_BOOL, 2, index, -1);
	if (narrow) /* one statement after the other: C calls what stands in a list in any order */
		x = made(k, loop, like, K_CONVERT, wide, 1, &x, -1);
	const KArg choice[] = {holds, x, dtype_is_float(wide) ? karg_real((double)other) : karg_integer(other)};
	x = made(k, loop, like, OP_WHERE, wide, 3, choice, -1);
	return narrow ? made(k, loop, like, K_CONVERT, like.dtype, 1, &x, -1) : x;
}

static bool hands_on_registers(const Kernel *k, StmtId s) {
	const KStmt *stmt = kernel_stmt(k, s);
	return (stmt->loop->type == LOOP_FORI || stmt->loop->rank == 0) && stmt->arg_count == stmt->loop->carried.count;
}

/* What was converted, in the end. */
static KArg unconverted(const Kernel *k, KArg x) {
	while (x.kind == KARG_VALUE && k->values.at[x.value].def != NONE &&
	       kernel_stmt(k, k->values.at[x.value].def)->op == K_CONVERT)
		x = *kernel_arg(k, k->values.at[x.value].def, 0);
	return x;
}

static bool is_packed(const KValue *v) { return is_tile(v) && dtype_bits(v->dtype) < 32; }

/* What a step hands on is packed, and was met by one packed element, of an array: Mosaic spreads that over lanes which
 * it does not take for alike, as it takes what the loop starts with. */
static bool meets_one_packed(const Kernel *k, StmtId s, uint32_t i) {
	KArg x = *kernel_arg(k, region_last(k, kernel_stmt(k, s)->body), i);
	if (x.kind != KARG_VALUE || !is_packed(&k->values.at[x.value]) ||
	    size_from_last(&k->values.at[x.value], 0) == 1)
		return false;
	KArg met = unconverted(k, x);
	StmtId def = kernel_def_of(k, met);
	bool meets = false;
	for (uint32_t a = 0; def != NONE && kernel_stmt(k, def)->op < K_FIRST && a < kernel_stmt(k, def)->arg_count;
	     a++) {
		KArg y = unconverted(k, *kernel_arg(k, def, a));
		const KValue *v = y.kind == KARG_VALUE ? &k->values.at[y.value] : NULL;
		meets = meets || (v && is_packed(v) && size_from_last(v, 0) == 1 && size_from_last(v, 1) == 1);
	}
	return meets;
}

static bool any_meets_one_packed(const Kernel *k, StmtId s) {
	bool any = false;
	for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++)
		any = any || meets_one_packed(k, s, i);
	return any;
}

void rewrite_alike(Kernel *k) {
	StmtIds loops = kernel_loops(k);
	for (uint32_t l = 0; l < loops.count; l++) {
		StmtId s = loops.at[l];
		if (!hands_on_registers(k, s))
			continue;
		unsigned *alike = arena_array(k->arena, k->values.count + 1, sizeof *alike);
		bool settled = kernel_stmt(k, s)->arg_count < 2 || settles(k, alike, s);
		if (settled && !any_meets_one_packed(k, s))
			continue;
		if (settled)
			kernel_walk(k, k->body, find_alike, alike);
		for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++) {
			KArg x = *kernel_arg(k, s, i);
			if (!starts_alike(k, alike, s, i) || x.kind != KARG_VALUE || k->values.at[x.value].rank < 2 ||
			    (settled && !meets_one_packed(k, s, i)))
				continue;
			x = chosen(k, s, x); /* arguments may have moved */
			*kernel_arg(k, s, i) = x;
		}
	}
}
