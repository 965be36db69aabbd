/* rewrite_few_rows.c - a column of packed elements, loaded of a block of few rows, is chosen from in 32 bits before it
 * is spread along lanes.
 *
 * Mosaic keeps what such a block gives in tiles of as few rows, and spreads no column of those over several registers
 * of lanes ("Lane broadcast": of 2 to 4 rows on all chips, of one on v4, libtpu 0.0.51). A choice by an index of the
 * rows, which always holds, is made in tiles of eight.
 *
 *     x = load x_ref[...] : bfloat16[4, 1]       %1 = load x_ref[...] : bfloat16[4, 1]
 *                                                %2 = convert %1 : float32[4, 1]
 *                                                %3 = iota axis=0 : int32[4, 1]
 *                                                %4 = ge %3, 0 : bool[4, 1]
 *                                                %5 = where %4, %2, 0 : float32[4, 1]
 *                                                x = convert %5 : bfloat16[4, 1] */
#include "rewrite.h"

enum { FEW_ROWS = 4, LANES = 128 };

typedef struct FewRows {
	StmtId *from; /* by value: the load that it is a column of; NONE */
	bool *spread; /* by statement: its column is spread over more lanes than a register has */
} FewRows;

static bool is_narrow_column(const Kernel *k, StmtId s) {
	const KStmt *stmt = kernel_stmt(k, s);
	if (stmt->op != K_LOAD || stmt->result == NONE || kernel_arg(k, s, 0)->kind != KARG_REF)
		return false;
	const KValue *v = &k->values.at[stmt->result];
	const KBuffer *b = &k->buffers.at[k->refs.at[kernel_arg(k, s, 0)->ref].buffer];
	int bits = dtype_bits(v->dtype);
	return v->type == KTYPE_TILE && v->rank >= 2 && v->shape[v->rank - 1] == 1 && v->dtype != DTYPE_BOOL &&
	       (bits == 16 || bits == 8) && b->rank >= 2 && b->shape[b->rank - 2] <= FEW_ROWS;
}

/* Statements come in the order of the program. */
static void find_spread(Kernel *k, StmtId s, void *data) {
	const FewRows *f = data;
	ValueId v = kernel_stmt(k, s)->result;
	if (v == NONE || k->values.at[v].type != KTYPE_TILE || k->values.at[v].rank == 0)
		return;
	int64_t lanes = k->values.at[v].shape[k->values.at[v].rank - 1];
	if (is_narrow_column(k, s))
		f->from[v] = s;
	for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++) {
		const KArg *a = kernel_arg(k, s, i);
		StmtId load = a->kind == KARG_VALUE ? f->from[a->value] : NONE;
		if (load != NONE && lanes == 1)
			f->from[v] = load;
		else if (load != NONE && lanes > LANES)
			f->spread[load] = true;
	}
}

/* The load becomes the conversion back, behind a load of its own. */
static void choose_rows(Kernel *k, StmtId s, void *data) {
	const FewRows *f = data;
	if (!f->spread[s])
		return;
	KValue like = k->values.at[kernel_stmt(k, s)->result];
	Dtype wide = dtype_widened(like.dtype);
	const KArg ref = *kernel_arg(k, s, 0);
	KArg x = tile_before(k, s, like, K_LOAD, like.dtype, 1, &ref, -1);
	x = tile_before(k, s, like, K_CONVERT, wide, 1, &x, -1);
	const KArg row[] = {tile_before(k, s, like, K_IOTA, DTYPE_I32, 0, NULL, (int64_t)like.rank - 2),
	                    karg_integer(0)};
	const KArg choice[] = {tile_before(k, s, like, OP_GE, DTYPE_BOOL, 2, row, -1), x,
	                       dtype_is_float(wide) ? karg_real(0) : karg_integer(0)};
	x = tile_before(k, s, like, OP_WHERE, wide, 3, choice, -1);
	kernel_stmt(k, s)->op = K_CONVERT;
	kernel_set_args(k, s, 1, &x);
}

void rewrite_few_rows(Kernel *k) {
	FewRows f = {.from = arena_array(k->arena, k->values.count + 1, sizeof(StmtId)),
	             .spread = arena_array(k->arena, k->stmts.count + 1, sizeof(bool))};
	for (ValueId v = 0; v < k->values.count; v++)
		f.from[v] = NONE;
	kernel_walk(k, k->body, find_spread, &f);
	kernel_walk(k, k->body, choose_rows, &f);
}
