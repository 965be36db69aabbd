/* vmem.c - the VMEM model: what the kernel will hold at once, by owner, known before anything is printed. */
#include "planner.h"

/* Mosaic's own scratch and the pipeline's bookkeeping. Measured: bench/vmem_probe on the graphs of testdata. */
enum { INTERNAL_BYTES = 64 * 1024 };
/* The scheduler starts an unrolled loop's next steps early, so that their values are live beside this step's: up to
 * three times as many bytes, and at most so many for each step after the first. Measured on attention, D = 128 and 256,
 * blocks [1, 512, 1024] (8 steps: 12 MiB on v5e) and [2, 512, 2048] (4 steps: 5 MiB on v7x), libtpu 0.0.51; see
 * docs/results.md. */
enum { UNROLL_OVERLAP_BYTES = 12 * 1024 * 1024 / 7, UNROLL_OVERLAP_STEPS = 7 };

int64_t vmem_bytes(const Target *t, Dtype dtype, uint32_t rank, const int64_t *shape) {
	int64_t bits = int_max(dtype_vmem_bits(dtype), 4), bytes = 1;
	for (uint32_t i = 0; i < rank; i++) {
		int64_t size = shape[i];
		if (i + 1 == rank)
			size = int_round_up(size, t->lanes);
		else if (i + 2 == rank)
			size = int_round_up(size, target_packed_rows(t, (int)bits));
		if (!checked_mul(bytes, size, &bytes))
			return INT64_MAX / 16;
	}
	return checked_mul(bytes, bits, &bits) ? (bits + 7) / 8 : INT64_MAX / 16;
}

static int64_t add_bytes(int64_t a, int64_t b) { return a > INT64_MAX / 4 - b ? INT64_MAX / 4 : a + b; }

static int64_t value_bytes(const Plan *p, NodeId n) {
	const Type *t = node_type(p->module, n);
	int64_t shape[DIM_MAX];
	bool carried = node_get(p->module, n)->op == OP_PLACEHOLDER && p->values[n].same_as == NONE;
	if (t->kind != TYPE_TENSOR || t->count == 0 || !(carried || p->values[n].printed) || p->values[n].inlined)
		return 0;
	uint32_t rank = plan_shape(p, n, p->values[n].form, shape);
	return vmem_bytes(p->module->target, t->dtype, rank, shape);
}

/* A constant in every lane costs a register, not a buffer; a loaded window is read where it lies. */
static bool value_is_free(const Plan *p, NodeId n) {
	Lowering how = op_lowering(node_get(p->module, n)->op);
	return how == LOWER_FULL || how == LOWER_LOAD || how == LOWER_STORE || how == LOWER_INDEX;
}

/* A float32 matmul at full precision splits each factor into three bfloat16 parts; these and the passes' partial sums
 * stand beside it: five bfloat16 copies of the factors held for attention, D = 96, blocks [1, 256, 256], v7x. */
static int64_t transient_bytes(Planner *p, NodeId n) {
	int64_t bytes = 0;
	if (op_lowering(node_get(p->m, n)->op) != LOWER_MATMUL ||
	    (DotPrecision)p->m->config.dot_precision.value == DOT_DEFAULT)
		return 0;
	for (int i = 0; i < 2; i++) {
		NodeId x = matmul_operand(p->m, n, i);
		int64_t shape[DIM_MAX];
		if (node_type(p->m, x)->dtype != DTYPE_F32)
			return 0;
		uint32_t rank = plan_shape(p->plan, x, FORM_NATURAL, shape);
		bytes += 5 * vmem_bytes(p->m->target, DTYPE_BF16, rank, shape);
	}
	return bytes;
}

/* Positions of the last users, seeing through names: found by one walk backwards. */
static void mark_last_use(const Plan *p, NodeId n, uint32_t at, uint32_t *last) {
	while (p->values[n].same_as != NONE)
		n = p->values[n].same_as;
	if (last[n] < at)
		last[n] = at;
}

static void mark_uses(const Plan *p, const Arg *a, uint32_t at, uint32_t *last) {
	if (a->kind == ARG_REF)
		mark_last_use(p, a->node, at, last);
	for (uint32_t i = 0; (a->kind == ARG_LIST || a->kind == ARG_SLICE) && i < a->list.count; i++)
		mark_uses(p, arg_get(p->module, a->list.first + i), at, last);
}

/* The most bytes of intermediates alive at once in graph g and the loops it calls. */
static int64_t peak_live(Planner *p, GraphId g, uint32_t *last) {
	Module *m = p->m;
	uint32_t at = 0, count = 0;
	for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next, count++)
		for (uint32_t i = 0; i < node_get(m, n)->arg_count; i++)
			mark_uses(p->plan, arg_get(m, node_get(m, n)->arg_first + i), count, last);
	int64_t *expiring = arena_array(p->a, count + 1, sizeof *expiring);
	int64_t live = 0, peak = 0;
	for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next, at++) {
		int64_t bytes = value_is_free(p->plan, n) ? 0 : value_bytes(p->plan, n), inner = transient_bytes(p, n);
		if (op_lowering(node_get(m, n)->op) == LOWER_LOOP)
			inner = peak_live(p, node_arg(m, n, 0)->graph, last);
		live = add_bytes(live, bytes);
		int64_t *expires = &expiring[last[n] > at ? last[n] : at];
		*expires = add_bytes(*expires, bytes);
		peak = int_max(peak, add_bytes(live, inner));
		live = int_max(live - expiring[at], 0);
	}
	return peak;
}

static int64_t intermediates(Planner *p) {
	uint32_t *last = arena_array(p->a, p->m->nodes.count, sizeof *last);
	int64_t peak = peak_live(p, p->plan->root, last);
	int64_t overlapping = 0;
	for (uint32_t i = 0; i < p->plan->loops.count; i++) {
		const Loop *loop = &p->plan->loops.at[i];
		if (loop->type == LOOP_UNROLL)
			overlapping = int_max(overlapping, loop->dim[0].full_steps + (loop->dim[0].tail != 0) - 1);
	}
	peak += int_min(3 * peak, int_min(overlapping, UNROLL_OVERLAP_STEPS) * UNROLL_OVERLAP_BYTES);
	return peak + peak / 16 + INTERNAL_BYTES; /* buffers are not packed without gaps */
}

static int64_t operand_bytes(const Planner *p, const Operand *o) {
	return o->space == SPACE_WINDOW ? o->buffers * vmem_bytes(p->m->target, o->dtype, o->rank, o->block) : 0;
}

void plan_vmem(Plan *plan, Module *m) {
	Planner p = {.plan = plan, .m = m, .a = plan->arena};
	VmemUse *v = &plan->vmem;
	*v = (VmemUse){0};
	for (uint32_t i = 0; i < plan->operands.count; i++) {
		Operand *o = &plan->operands.at[i];
		o->bytes = operand_bytes(&p, o);
		v->windows = add_bytes(v->windows, o->bytes);
	}
	for (uint32_t l = 0; l < plan->loops.count; l++)
		for (uint32_t i = 0; i < plan->loops.at[l].windows.count; i++)
			v->inner = add_bytes(v->inner, plan->loops.at[l].windows.at[i].bytes);
	for (uint32_t l = 0; l < plan->loops.count; l++)
		for (uint32_t i = 0; i < plan->loops.at[l].carries.count; i++)
			if (plan->loops.at[l].carries.at[i].place == CARRY_SCRATCH)
				v->scratch = add_bytes(
					v->scratch, plan->scratches.at[plan->loops.at[l].carries.at[i].scratch].bytes);
	for (uint32_t i = 0; i < plan->operands.count; i++)
		if (plan->operands.at[i].held && plan->operands.at[i].held->accumulator != NONE)
			v->scratch =
				add_bytes(v->scratch, plan->scratches.at[plan->operands.at[i].held->accumulator].bytes);
	v->intermediates = intermediates(&p);
	v->total = add_bytes(add_bytes(v->windows, v->inner), add_bytes(v->scratch, v->intermediates));
	plan->vmem_limit = m->target->vmem_bytes;
}
