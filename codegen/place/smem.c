/* smem.c - what stands in SMEM: run-time scalars, and *tables*, small tensors of which the kernel reads single elements
 * at computed positions.
 *
 * Flags and bounds of blocks, offsets of packed rows, scales of experts. An element of a block in VMEM is a vector
 * load, a rotation by a computed number of lanes, which Mosaic refuses ("not at multiples of 128"), and a move to the
 * scalar unit; SMEM is read by that unit itself. Its words have 32 bits (Pallas's documentation of TPU memory spaces).
 */
#include "access.h"
#include "place.h"

/* How much of SMEM tables may take: the compiler keeps its own there as well, as semaphores and the grid's counters. */
enum { SMEM_SHARE = 2 };

/* Bytes in SMEM, whose arrays are padded as those of VMEM are. */
static int64_t table_bytes(const Planner *p, const AccessWant *w) {
	int64_t shape[RANK_MAX];
	for (uint32_t i = 0; i < w->rank; i++)
		shape[i] = w->dim[i].extent;
	return vmem_bytes(p->m->target, p->m->tensors.at[w->tensor].dtype, w->rank, shape);
}

/* Single positions; or a tile of them, each of which is a place in another tensor. */
static bool is_element(const Planner *p, const AccessWant *w, bool *computed) {
	uint32_t tiles = 0;
	for (uint32_t i = 0; i < w->rank; i++) {
		tiles += w->dim[i].kind != WANT_AT;
		*computed = *computed || !affine_is_int(&w->dim[i].at);
	}
	if (tiles > 0 && reads_positions(p, w->node))
		return *computed = true;
	return tiles == 0 && !w->store;
}

/* All that the kernel does with tensor t is to read elements, some of them at a position that it computes. */
static bool is_table(const Planner *p, const AccessWants *wants, TensorId t) {
	const Tensor *tensor = &p->m->tensors.at[t];
	bool computed = false;
	if (tensor->role == ROLE_VIEW || !tensor_is_given(p->m, t) || tensor->rank == 0 ||
	    dtype_bits(tensor->dtype) != 32)
		return false;
	for (uint32_t i = 0; i < wants->count; i++)
		if (tensor_base(p->m, wants->at[i].tensor) == t &&
		    (wants->at[i].tensor != t || !is_element(p, &wants->at[i], &computed)))
			return false;
	return computed;
}

void tables_mark(Planner *p, AccessWants *wants) {
	int64_t left = p->m->target->smem_bytes / SMEM_SHARE;
	TensorId last = NONE;
	for (TensorId t = 0; t < p->m->tensors.count; t++) {
		bool table = is_table(p, wants, t);
		for (uint32_t i = 0; i < wants->count && table; i++) {
			AccessWant *w = &wants->at[i];
			if (w->tensor != t)
				continue;
			int64_t bytes = last == t ? 0 : table_bytes(p, w);
			if (bytes > left)
				break;
			left -= bytes;
			last = t;
			w->table = true;
			w->loop = NONE;
		}
	}
}

uint32_t operand_table(Planner *p, const AccessWant *w) {
	Operand o = {0};
	if (!operand_array(p, &o, w))
		return NONE;
	o.space = SPACE_SMEM;
	o.input = true;
	o.why = "single elements are read at computed positions";
	for (uint32_t i = 0; i < w->rank; i++)
		o.dim_of[i] = i;
	return operand_intern(p, &o, "_ref");
}

/* ---- run-time scalars
 * ---------------------------------------------------------------------------------------------------- */

static bool scalar_read(const Module *m, ScalarId s) {
	for (NodeId n = 0; n < m->nodes.count; n++)
		if (!node_get(m, n)->dead && node_get(m, n)->op == OP_SCALAR && node_arg(m, n, 0)->scalar == s)
			return true;
	return false;
}

bool plan_scalars(Planner *p) {
	for (ScalarId s = 0; s < p->m->scalars.count; s++) {
		const Scalar *scalar = &p->m->scalars.at[s];
		if (scalar->has_value || !scalar_read(p->m, s))
			continue;
		Operand o = {.tensor = NONE,
		             .scalar = s,
		             .seen_as = NONE,
		             .input = true,
		             .space = SPACE_SMEM,
		             .unit = NONE,
		             .merged = NONE,
		             .split = NONE,
		             .parts = 1};
		o.dtype = dtype_of_sums(scalar->dtype);
		o.rank = 1;
		o.shape[0] = 1;
		o.alias_of = NONE;
		o.ref = arena_printf(p->a, "%s_ref", scalar->name);
		o.why = "a run-time scalar";
		vec_push(p->a, &p->plan->operands, o);
	}
	return true;
}
