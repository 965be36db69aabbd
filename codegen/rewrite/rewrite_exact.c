/* rewrite_exact.c - what holds narrow floats in float32 is not rounded to them, and widened, once more.
 *
 * Rows of 16 bits are changed one at a time in 32 bits, for Mosaic slices and chooses there: what stands at a position
 * is widened, the new row comes from scratch of float32, and the choice between both is as exact as they are.
 *
 *     found = convert old : float32[8, 256]              found = convert old : float32[8, 256]
 *     row = load rows_ref[i +: 1, :] : float32[1, 256]   row = load rows_ref[i +: 1, :] : float32[1, 256]
 *     %1 = convert row : bfloat16[1, 256]
 *     %2 = convert %1 : float32[1, 256]
 *     x = within found, %2, 3 axis=0 count=1             x = within found, row, 3 axis=0 count=1
 *
 * Scratch holds such values where nothing else is stored there. */
#include "rewrite.h"

typedef struct Exact {
	Kernel *k;
	Dtype *of;    /* by value of float32: the float that each of its elements is one of; DTYPE_NONE */
	Dtype *in;    /* by buffer: the same of scratch, as far as is known */
	bool *others; /* by buffer: something else is written there */
	ValueId *as;  /* by value: the one that it equals; NONE */
} Exact;

/* It gives elements of its tiles, and of numbers, wherever they stand. */
static bool moves_elements(uint16_t op) {
	switch (op) {
	case OP_WHERE:
	case OP_MAXIMUM:
	case OP_MINIMUM:
	case K_CHOOSE:
	case K_MASK:
	case K_KEEP:
	case K_WITHIN:
	case K_CONCATENATE:
	case K_STACK:
	case K_PAD:
	case K_ROLL:
	case K_ROTATE:
	case K_MAX:
	case K_MIN: return true;
	default: return kernel_op_views(op);
	}
}

/* Argument i counts elements, or says where they stand, and is none. */
static bool is_place(uint16_t op, uint32_t i) {
	switch (op) {
	case K_MASK:
	case K_KEEP:
	case K_ROTATE: return i == 1;
	case K_WITHIN: return i == 2;
	default: return false;
	}
}

/* What all of its operands are; DTYPE_NONE: they differ. Of numbers 0 is in every dtype. */
static Dtype common(const Exact *e, StmtId s) {
	Dtype all = DTYPE_NONE;
	for (uint32_t i = 0; i < kernel_stmt(e->k, s)->arg_count; i++) {
		KArg x = *kernel_arg(e->k, s, i);
		bool number = x.kind == KARG_REAL || x.kind == KARG_INTEGER;
		if (number && !karg_is_number(x, 0) && !is_place(kernel_stmt(e->k, s)->op, i))
			return DTYPE_NONE;
		if (x.kind != KARG_VALUE || e->k->values.at[x.value].dtype != DTYPE_F32)
			continue;
		Dtype of = e->of[x.value];
		if (of == DTYPE_NONE || (all != DTYPE_NONE && all != of))
			return DTYPE_NONE;
		all = of;
	}
	return all;
}

static Dtype narrower(const Kernel *k, KArg x) {
	Dtype from = x.kind == KARG_VALUE ? k->values.at[x.value].dtype : DTYPE_NONE;
	return from != DTYPE_NONE && dtype_is_float(from) && dtype_bits(from) < 32 ? from : DTYPE_NONE;
}

/* Statements come in the order of the program. */
static void find_values(Kernel *k, StmtId s, void *data) {
	const Exact *e = data;
	const KStmt *stmt = kernel_stmt(k, s);
	if (stmt->result == NONE || stmt->result_count != 1 || k->values.at[stmt->result].dtype != DTYPE_F32)
		return;
	Dtype *of = &e->of[stmt->result];
	if (stmt->op == K_CONVERT)
		*of = narrower(k, *kernel_arg(k, s, 0));
	else if (stmt->op == K_LOAD)
		*of = e->in[k->refs.at[kernel_arg(k, s, 0)->ref].buffer];
	else if (moves_elements(stmt->op))
		*of = common(e, s);
}

static void note(const Exact *e, BufferId b, Dtype of) {
	if (b == NONE)
		return;
	e->others[b] = e->others[b] || of == DTYPE_NONE || (e->in[b] != DTYPE_NONE && e->in[b] != of);
	e->in[b] = of;
}

/* What is written, by a store or by anything else that names a buffer. */
static void find_stores(Kernel *k, StmtId s, void *data) {
	const Exact *e = data;
	const KStmt *stmt = kernel_stmt(k, s);
	for (uint32_t i = 0; i < stmt->arg_count && stmt->op != K_LOAD; i++) {
		KArg to = *kernel_arg(k, s, i), x = stmt->op == K_STORE ? *kernel_arg(k, s, 1) : (KArg){0};
		if (to.kind == KARG_REF)
			note(e, k->refs.at[to.ref].buffer, x.kind == KARG_VALUE ? e->of[x.value] : DTYPE_NONE);
	}
	for (uint32_t i = 0; stmt->op == K_LOOP && i < stmt->loop->carried.count; i++) {
		note(e, stmt->loop->place.at[i], DTYPE_NONE);
		note(e, stmt->loop->odd.at[i], DTYPE_NONE);
	}
}

/* What has no variable is computed where it is read, which may be behind a store. */
static void name_as(Kernel *k, ValueId x, ValueId like) {
	KValue *to = kernel_value_at(k, x);
	const KValue *from = &k->values.at[like];
	if (!to->name && !to->var)
		to->name = from->name ? from->name : from->var;
}

/* The float32 value that is rounded and widened again. */
static void find_rounded(Kernel *k, StmtId s, void *data) {
	const Exact *e = data;
	KArg narrow = kernel_stmt(k, s)->op == K_CONVERT ? *kernel_arg(k, s, 0) : (KArg){0};
	Dtype to = narrower(k, narrow);
	StmtId def = to != DTYPE_NONE ? k->values.at[narrow.value].def : NONE;
	ValueId v = kernel_stmt(k, s)->result;
	if (def == NONE || kernel_stmt(k, def)->op != K_CONVERT || kernel_arg(k, def, 0)->kind != KARG_VALUE ||
	    k->values.at[v].dtype != DTYPE_F32)
		return;
	ValueId x = kernel_arg(k, def, 0)->value;
	if (k->values.at[x].dtype != DTYPE_F32 || e->of[x] != to || k->values.at[x].layout != k->values.at[v].layout)
		return;
	x = e->as[v] = e->as[x] != NONE ? e->as[x] : x;
	name_as(k, x, v);
	name_as(k, x, narrow.value);
	k->values.at[v].name = k->values.at[v].var = NULL; /* nothing reads it now */
	kernel_remove(k, s);
}

void rewrite_exact(Kernel *k) {
	uint32_t values = k->values.count, buffers = k->buffers.count;
	Exact e = {.k = k,
	           .of = arena_array(k->arena, values + 1, sizeof *e.of),
	           .in = arena_array(k->arena, buffers + 1, sizeof *e.in),
	           .others = arena_array(k->arena, buffers + 1, sizeof *e.others),
	           .as = arena_array(k->arena, values + 1, sizeof *e.as)};
	for (ValueId v = 0; v < values; v++)
		e.of[v] = DTYPE_NONE, e.as[v] = NONE;
	for (BufferId b = 0; b < buffers; b++)
		e.in[b] = DTYPE_NONE;
	kernel_walk(k, k->body, find_values, &e);
	kernel_walk(k, k->body, find_stores, &e);
	for (BufferId b = 0; b < buffers; b++) {
		const KBuffer *x = &k->buffers.at[b];
		if (e.others[b] || x->role != BUFFER_SCRATCH || x->dtype != DTYPE_F32)
			e.in[b] = DTYPE_NONE;
	}
	kernel_walk(k, k->body, find_values, &e);
	kernel_walk(k, k->body, find_rounded, &e);
	kernel_replace_values(k, e.as, values);
}
