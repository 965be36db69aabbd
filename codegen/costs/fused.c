/* fused.c - inputs that the wrapper need not make: XLA may fuse what makes an operand (allow_input_fusion), and makes
 * each block of it that the grid's pipeline brings, in VMEM. It fuses blocks up to a size, and inputs up to twice that,
 * without padding in their lanes (measured, libtpu 0.0.51: fused_bytes).
 *
 * The bits of float16: the kernel takes ints, and XLA copies an array that it reinterprets. Each block is to come once:
 * one that stays, or comes again, would be reinterpreted again.
 *
 * Rows of narrow elements: [1, N] of [N] lies in pairs or fours of rows, and XLA copies that, however small it is (640
 * cycles on v6e, of 4096 bfloat16). The row comes once and stays. Not of kernels that reduce along columns, too: they
 * spill more then (layer norm backward of 8192 x 4096, v6e: 0.1278 ms, 0.1268 with the copy).
 *
 * And the kernel has no loops, and reads nothing of the block at computed positions, on some of which libtpu fails
 * ("Allocation ... dematerialized"), and computes strip by strip, or reduces what it reads. A pointwise tile that is
 * read at once is scheduled with what makes it, and spills (exp of 8192 x 8192, v6e: 951,000 cycles, 847,000 with a
 * copy of the array, 695,000 in strips). */
#include "costs.h"
#include "codegen/lower/lower.h"

/* A whole row of elements of less than 32 bits, which the wrapper makes of a vector. */
static bool is_row(const Operand *o) {
	return o->rank == 2 && o->unit == 0 && o->steps.count == 1 && o->block[1] == o->shape[1] &&
	       dtype_bits(o->dtype) < 32 && o->dtype != DTYPE_F16 && o->dtype != DTYPE_BOOL;
}

static bool may_fuse(const Planner *p, const Operand *o) {
	const Target *t = p->m->target;
	bool straight = p->plan->loops.count == 0 && p->plan->places.count == 0;
	return straight && o->space == SPACE_WINDOW && !o->output && o->rank > 1 &&
	       o->shape[o->rank - 1] % t->lanes == 0 && vmem_bytes(t, o->dtype, o->rank, o->block) <= t->fused_bytes;
}

bool operand_may_fuse(const Planner *p, const Operand *o) {
	return o->dtype == DTYPE_F16 && o->steps.count == 0 && may_fuse(p, o);
}

static bool is_alias(const Plan *plan, uint32_t operand) {
	for (uint32_t i = 0; i < plan->operands.count; i++)
		if (plan->operands.at[i].alias_of == operand)
			return true;
	return false;
}

static bool comes_once(const Plan *plan, const Operand *o) {
	double blocks = 1, points = grid_points(plan);
	for (uint32_t d = 0; d < o->rank; d++)
		blocks *= (double)int_cdiv(o->shape[d], o->block[d]);
	return (double)o->fetches == points && points <= blocks;
}

/* Something is reduced; `columns`: along another dim than the last. */
static bool reduces(const Planner *p, bool columns) {
	for (NodeId n = graph_first(p->m, p->plan->root); n != NONE; n = node_get(p->m, n)->next) {
		if (op_lowering(node_get(p->m, n)->op) != LOWER_REDUCE)
			continue;
		uint32_t rank = node_type(p->m, node_input(p->m, n, 0))->count;
		if (!columns || reduction_dims(p->m, n) << 1 != 1u << rank)
			return true;
	}
	return false;
}

/* Something of its block is read at a position that the kernel computes. */
static bool read_at_positions(const Planner *p, uint32_t operand) {
	for (NodeId n = graph_first(p->m, p->plan->root); n != NONE; n = node_get(p->m, n)->next) {
		const Access *access = p->plan->values[n].access;
		for (uint32_t d = 0; access && access->operand == operand && d < access->rank; d++)
			if (access->dim[d].kind != SLICE_ALL && access->dim[d].start.count > 0)
				return true;
	}
	return false;
}

void plan_fused(Planner *p) {
	const Target *t = p->m->target;
	int64_t left = 2 * t->fused_bytes;
	if (!p->plan->strips && !reduces(p, false))
		return;
	for (uint32_t i = 0; i < p->plan->operands.count; i++) {
		Operand *o = &p->plan->operands.at[i];
		int64_t bytes = vmem_bytes(t, o->dtype, o->rank, o->block);
		bool comes = is_row(o) ? may_fuse(p, o) && !reduces(p, true)
		                       : operand_may_fuse(p, o) && comes_once(p->plan, o);
		o->fused = comes && bytes <= left && !is_alias(p->plan, i) && !read_at_positions(p, i);
		left -= o->fused ? bytes : 0;
	}
}
