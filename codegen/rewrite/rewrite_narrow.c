/* rewrite_narrow.c - a product, sum or difference of two bfloat16 that is rounded to bfloat16 is computed in it.
 *
 * In float32 it is rounded twice, to 24 bits and then to 8, which gives the same: at least 2 * 8 + 2 bits between do
 * (Figueroa, "When is double rounding innocuous?", SIGNUM Newsletter 30(3), 1995). The vector unit takes twice as many
 * elements at once, and converts none of them.
 *
 *     narrow
 *     x = load x_ref[...] : bfloat16[8, 128]        x = load x_ref[...] : bfloat16[8, 128]
 *     a = convert x : float32[8, 128]               y = load y_ref[...] : bfloat16[8, 128]
 *     y = load y_ref[...] : bfloat16[8, 128]    =>  z = mul x, y : bfloat16[8, 128]
 *     b = convert y : float32[8, 128]
 *     c = mul a, b : float32[8, 128]
 *     z = convert c : bfloat16[8, 128] */
#include "rewrite.h"

static bool is_tile_of(const Kernel *k, KArg x, Dtype dtype) {
	return kernel_is_tile(k, x) && k->values.at[x.value].dtype == dtype;
}

/* What was widened from bfloat16. */
static bool is_widened(const Kernel *k, KArg x) {
	StmtId s = kernel_def_of(k, x);
	return s != NONE && is_tile_of(k, x, DTYPE_F32) && kernel_stmt(k, s)->op == K_CONVERT &&
	       is_tile_of(k, *kernel_arg(k, s, 0), DTYPE_BF16);
}

static void narrow(Kernel *k, StmtId s, void *data) {
	const uint32_t *uses = data;
	if (kernel_stmt(k, s)->op != K_CONVERT || !is_tile_of(k, karg_value(kernel_stmt(k, s)->result), DTYPE_BF16) ||
	    !is_tile_of(k, *kernel_arg(k, s, 0), DTYPE_F32))
		return;
	StmtId wide = kernel_def_of(k, *kernel_arg(k, s, 0));
	uint16_t op = wide == NONE ? K_END : kernel_stmt(k, wide)->op;
	if ((op != OP_MUL && op != OP_ADD && op != OP_SUB) || uses[kernel_stmt(k, wide)->result] != 1 ||
	    !is_widened(k, *kernel_arg(k, wide, 0)) || !is_widened(k, *kernel_arg(k, wide, 1)))
		return;
	KArg args[2];
	for (uint32_t i = 0; i < 2; i++) {
		args[i] = *kernel_arg(k, kernel_def_of(k, *kernel_arg(k, wide, i)), 0);
		if (!value_name(k, args[i].value)) /* what widens it may go on to read it */
			k->values.at[args[i].value].name = "packed";
	}
	kernel_stmt(k, s)->op = op;
	kernel_set_args(k, s, 2, args);
}

void rewrite_narrow(Kernel *k) {
	bool wanted = k->narrow;
	k->narrow = false;
	if (!wanted)
		return;
	kernel_walk(k, k->body, narrow, kernel_uses(k));
	kernel_drop_unread(k);
}
