/* spill_batches.c - factors of a batch of matmuls of few rows that are masked: each matrix of the batch is multiplied
 * by itself, one after the other, and what is masked of the next ones is ready before. A quarter of the largest such
 * factor is spilled meanwhile: libtpu's reports of decoding from pages of 8 heads, 256 to 2048 tokens a step
 * (tests/vmem). */
#include "live.h"

enum { SPILLED_SHARE = 4, FEW_ROWS = 8 }; /* rows of one register */

/* What it is of, where it is of the same lanes under another shape. */
static StmtId made_by(const Kernel *k, KArg x) {
	StmtId def = kernel_def_of(k, x);
	while (def != NONE && k->stmts.at[def].op == K_RESHAPE) {
		const KArg *from = &k->args.at[k->stmts.at[def].arg_first];
		def = from->kind == KARG_VALUE ? k->values.at[from->value].def : NONE;
	}
	return def;
}

static int64_t masked_bytes(const Kernel *k, KArg x) {
	StmtId def = made_by(k, x);
	if (def == NONE || k->stmts.at[def].op != K_MASK)
		return 0;
	const KValue *v = &k->values.at[x.value];
	int64_t bytes = dtype_bits(v->dtype);
	for (uint32_t d = 0; d < v->rank; d++)
		if (!checked_mul(bytes, v->shape[d], &bytes))
			return TOO_MUCH;
	return v->rank > 2 && v->shape[0] > 1 ? bytes / 8 : 0;
}

int64_t spilled_by_batches(const Kernel *k) {
	int64_t most = 0;
	for (StmtId s = 0; s < k->stmts.count; s++) {
		const KStmt *stmt = &k->stmts.at[s];
		const KValue *v = stmt->op == K_DOT ? &k->values.at[stmt->result] : NULL;
		for (uint32_t i = 0; v && v->rank > 2 && v->shape[v->rank - 2] <= FEW_ROWS && i < 2; i++)
			most = int_max(most, masked_bytes(k, k->args.at[stmt->arg_first + i]));
	}
	return int_min(most, TOO_MUCH) / SPILLED_SHARE;
}
