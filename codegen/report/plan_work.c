/* plan_work.c - what the kernel moves and computes, and the least time that takes. */
#include "plan_work.h"
#include "codegen/lower/lower.h"

bool plan_computed(const Plan *p) {
	for (uint32_t l = 0; l < p->loops.count; l++)
		if (plan_loop_steps(&p->loops.at[l]) < 0)
			return true;
	return false;
}

/* ---- HBM -------------------------------------------------------------------------------------------------------- */

double plan_array_bytes(const Operand *o) {
	double bytes = dtype_bits(o->dtype) / 8.0;
	for (uint32_t i = 0; i < o->rank; i++)
		bytes *= (double)o->shape[i];
	return bytes;
}

double plan_operand_traffic(const Plan *p, uint32_t operand) { return p->operands.at[operand].hbm_bytes; }

static bool follows(const Plan *p, uint32_t rank, const Affine *index, uint32_t grid_dim) {
	for (uint32_t i = 0; i < rank; i++)
		if (index_moves(p, &index[i], grid_dim))
			return true;
	return false;
}

bool plan_operand_follows(const Plan *p, uint32_t operand, uint32_t grid_dim) {
	const Operand *o = &p->operands.at[operand];
	if (o->space == SPACE_WINDOW)
		return follows(p, o->rank, o->index, grid_dim);
	for (uint32_t l = 0; l < p->loops.count; l++)
		for (uint32_t i = 0; i < p->loops.at[l].windows.count; i++) {
			const Window *w = &p->loops.at[l].windows.at[i];
			if (w->operand == operand && follows(p, o->rank, w->index, grid_dim))
				return true;
		}
	return false;
}

/* ---- MXU -------------------------------------------------------------------------------------------------------- */

/* Calls for each matmul of the kernel, until one says false. */
typedef bool Visit(const Plan *p, NodeId n, BlockId b);

static bool all_matmuls(const Plan *p, Visit *visit, BlockId b) {
	for (GraphId g = 0; g < p->module->graphs.count; g++)
		for (NodeId n = graph_first(p->module, g); n != NONE; n = node_get(p->module, n)->next)
			if (op_lowering(node_get(p->module, n)->op) == LOWER_MATMUL && !visit(p, n, b))
				return false;
	return true;
}

static bool in_float32(const Plan *p, NodeId n, BlockId b) {
	(void)b;
	return node_type(p->module, matmul_operand(p->module, n, 0))->dtype == DTYPE_F32 &&
	       node_type(p->module, matmul_operand(p->module, n, 1))->dtype == DTYPE_F32;
}

static bool last_dim_is(const Plan *p, NodeId n, BlockId b) {
	const Type *t = node_type(p->module, n);
	return t->count > 0 && expr_as_block(p->module, t->dims[t->count - 1]) == b;
}

/* The last dims of the result and of the left factor: those that the systolic array's sides hold. */
static bool not_as_wide(const Plan *p, NodeId n, BlockId b) {
	return !last_dim_is(p, n, b) && !last_dim_is(p, matmul_operand(p->module, n, 0), b);
}

bool plan_matmul_width(const Plan *p, BlockId b) { return !all_matmuls(p, not_as_wide, b); }

/* Of bfloat16, for a product of float32 factors. */
static int mxu_passes(const Plan *p) {
	static const int passes[] = {[DOT_HIGHEST] = 6, [DOT_HIGH] = 3, [DOT_DEFAULT] = 1};
	return p->flops > 0 && all_matmuls(p, in_float32, NONE) ? passes[p->module->config.dot_precision.value] : 1;
}

Roofline plan_roofline(const Plan *p) {
	const Target *t = p->module->target;
	Roofline r = {.passes = mxu_passes(p)};
	r.mxu_seconds = p->mxu_seconds * r.passes;
	r.peak = p->mxu_seconds > 0 ? p->flops / p->mxu_seconds : t->bf16_flops;
	r.hbm_seconds = p->hbm_bytes / t->hbm_bytes_per_s;
	r.flops_per_byte = p->hbm_bytes > 0 ? p->flops / p->hbm_bytes : 0;
	r.balance = r.peak / r.passes / t->hbm_bytes_per_s;
	r.hbm_bound = r.hbm_seconds >= r.mxu_seconds;
	return r;
}
