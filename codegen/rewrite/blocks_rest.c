/* blocks_rest.c - what stands behind masked steps and makes tiles of the same rows: each block of rows goes on with it
 * by itself, up to what it stores.
 *
 *     acc, l = call step(...)            acc_1, l_1 = call step_256_512(...)
 *     out = div acc, l                   out_1 = div acc_1, l_1
 *     store out_ref[...], out     =>     store out_ref[0 +: 256, :], out_1
 *                                        acc_2, l_2 = ... */
#include "blocks.h"

/* Between them the rows stay apart. */
static bool keeps_rows(const Kernel *k, StmtId s) {
	const KStmt *stmt = kernel_stmt(k, s);
	return stmt->result_count == 1 &&
	       (stmt->op < OP_COUNT || stmt->op == K_CONVERT || stmt->op == K_LET || stmt->op == K_TRANSPOSE ||
	        stmt->op == K_INDEX || stmt->op == K_BROADCAST || blocks_fold(k, s));
}

/* One of its axes is the rows', all of them. */
static bool has_rows(Blocks *b, ValueId v) {
	uint32_t found = 0;
	for (uint32_t d = 0; d < b->k->values.at[v].rank; d++)
		if (block_cut(b, block_value_axis(v, d)) == 0)
			found += b->k->values.at[v].shape[d] == b->size[0] ? 1 : 2;
	return found == 1;
}

static bool has_columns(Blocks *b, ValueId v) {
	bool any = false;
	for (uint32_t d = 0; d < b->k->values.at[v].rank; d++)
		any = any || block_cut(b, block_value_axis(v, d)) == 1;
	return any;
}

static bool is_tile_of_rows(Blocks *b, StmtId s, uint32_t i) {
	KArg x = *kernel_arg(b->k, s, i);
	return kernel_is_tile(b->k, x) && has_rows(b, x.value);
}

/* All that it reads or gives has rows, or nothing that is cut. */
static bool fits(Blocks *b, StmtId s) {
	const Kernel *k = b->k;
	const KStmt *stmt = kernel_stmt(k, s);
	if (stmt->op == K_STORE ? !is_tile_of_rows(b, s, 1)
	                        : !has_rows(b, stmt->result) || has_columns(b, stmt->result))
		return false;
	for (uint32_t i = 0; i < stmt->arg_count; i++) {
		KArg x = *kernel_arg(k, s, i);
		if (kernel_is_tile(k, x) && has_columns(b, x.value))
			return false;
	}
	return true;
}

static bool find_rest(Blocks *b) {
	Kernel *k = b->k;
	StmtId call = b->steps[b->count - 1].call, end = region_last(k, k->functions.at[b->step].body);
	StmtId first = kernel_stmt(k, call)->next;
	for (uint32_t i = 0; i < kernel_stmt(k, call)->result_count; i++)
		blocks_join_values(b, kernel_stmt(k, call)->result + i, kernel_arg(k, end, i)->value);
	for (StmtId s = first; s != NONE; s = kernel_stmt(k, s)->next) {
		if (kernel_stmt(k, s)->op != K_STORE && !keeps_rows(k, s))
			return false;
		blocks_join_stmt(b, s);
	}
	if (first == NONE || b->whole[block_class(b, b->rows)] || block_class(b, b->rows) == block_class(b, b->columns))
		return false;
	for (StmtId s = first; s != NONE; s = kernel_stmt(k, s)->next)
		if (!fits(b, s))
			return false;
	return true;
}

bool blocks_find_rest(Blocks *b) {
	size_t axes = (size_t)(b->values + b->k->buffers.count) * KDIM_MAX;
	uint32_t *root = arena_copy(b->k->arena, b->root, axes, sizeof *root);
	bool *whole = arena_copy(b->k->arena, b->whole, axes, sizeof *whole);
	if (find_rest(b))
		return true;
	b->root = root;
	b->whole = whole;
	return false;
}
