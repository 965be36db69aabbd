/* streams.c - what is spilled of straight code without a barrier, where everything could stream through registers.
 *
 * Of several stores the compiler starts the later ones' values before the first is done, and shares what they have in
 * common: up to a tile of each (2 to 6 tiles seen for 5 to 8 outputs).
 *
 * A block that is filled and then read again, as that of a tensor changed in place, is a barrier of its own: its loads
 * wait for its stores, and what else is ready is computed meanwhile. Of
 *
 *     o_ref[...] = x_ref[...]
 *     o_ref[...] = exp(o_ref[...]) + exp(y_ref[...])
 *
 * both exponents wait whole; of o + y nothing does. Seen for [256, 1024] to [1024, 1024]: each stored value that
 * something is computed for, and once what the largest join reads beside it. The compilers of v5e and v5p let stored
 * values of 32-bit loads stream; of fewer bits they, and that of v4, widen all. */
#include "region.h"

static Lowering lowering_of(const Planner *p, NodeId n) { return op_lowering(node_get(p->m, n)->op); }

static bool in_order(const Planner *p) {
	for (uint32_t i = 0; i < p->plan->operands.count; i++) {
		const Held *held = p->plan->operands.at[i].held;
		bool filled = held && (held->initial == INITIAL_COPY || held->initial == INITIAL_VALUE);
		if (filled && held->revisits == 0)
			return true;
	}
	return false;
}

/* What is computed before it is rounded or viewed; what rounds a number is all there is. */
static NodeId computed_as(const Planner *p, NodeId n) {
	n = value_root(p->plan, n);
	while (rounds_or_views(p->m, n) && node_input(p->m, n, 0) != NONE)
		n = value_root(p->plan, node_input(p->m, n, 0));
	return n;
}

/* What a load gives or a store takes; NONE where that is a number, which no register holds. */
static NodeId accessed_value(const Planner *p, NodeId n) {
	NodeId value = lowering_of(p, n) == LOWER_LOAD ? n : node_input(p->m, n, 2);
	return value != NONE && node_is_tile(p->m, value) ? value : NONE;
}

/* Bytes of a value as the vector unit computes it. */
static int64_t computed_size(const Planner *p, NodeId n) {
	bool widened = is_narrow(p->m, n) && (!p->m->target->bf16_vpu || p->plan->values[n].compute == DTYPE_F32);
	int64_t bits = widened ? dtype_vmem_bits(node_type(p->m, n)->dtype) : 32;
	return spilled_size(p->plan, n) * 32 / bits;
}

static bool is_computed(const Planner *p, NodeId n) {
	Lowering how = lowering_of(p, n);
	return lowering_streams(how) || how == LOWER_MOVE || (how == LOWER_LOAD && p->plan->values[n].mask_count > 0);
}

/* A mask waits as what it is computed of; of loads it is made where it is used, but for those that must be widened. */
static int64_t mask_size(const Planner *p, NodeId mask, bool *computed) {
	int64_t bytes = 0;
	for (uint32_t i = 0; i < node_get(p->m, mask)->arg_count; i++) {
		const Arg *a = node_arg(p->m, mask, i);
		NodeId n = a->kind == ARG_REF ? computed_as(p, a->node) : NONE;
		bool widens = n != NONE && lowering_of(p, n) == LOWER_LOAD && is_narrow(p->m, n);
		if (n == NONE || !(is_computed(p, n) || (widens && !p->m->target->bf16_vpu)))
			continue;
		bytes += widens ? spilled_size(p->plan, n) : computed_size(p, n);
		*computed = true;
	}
	return bytes;
}

/* What a join has of one operand: a computed tile, or one that is loaded packed, to be widened. */
static int64_t joined_size(const Planner *p, NodeId operand, bool *computed) {
	NodeId n = computed_as(p, operand);
	Lowering how = lowering_of(p, n);
	if (how == LOWER_POINTWISE && node_type(p->m, n)->dtype == DTYPE_BOOL)
		return mask_size(p, n, computed);
	if (how == LOWER_LOAD && p->plan->values[n].mask_count == 0)
		return is_narrow(p->m, n) ? spilled_size(p->plan, n) : 0;
	if (!is_computed(p, n))
		return 0;
	*computed = true;
	return computed_size(p, n);
}

/* Bytes of all operands that wait for each other; `computed`: one of them is more than loaded. */
static int64_t operands_size(const Planner *p, NodeId n, bool *computed) {
	int64_t bytes = 0;
	for (uint32_t i = 0; i < node_get(p->m, n)->arg_count; i++)
		if (node_arg(p->m, n, i)->kind == ARG_REF)
			bytes += joined_size(p, node_arg(p->m, n, i)->node, computed);
	return bytes;
}

/* A value of loads alone is computed as they come; not where they are to be widened. A masked store is one more op, of
 * the value and what is there. */
static int64_t stored_size(const Planner *p, NodeId store) {
	if (accessed_value(p, store) == NONE)
		return 0;
	NodeId n = computed_as(p, node_input(p->m, store, 2));
	bool computed = is_computed(p, n) && node_input(p->m, store, 3) != NONE;
	int64_t operands = operands_size(p, n, &computed);
	bool widens = operands > 0 && !p->m->target->bf16_vpu;
	return lowering_streams(lowering_of(p, n)) && (computed || widens) ? computed_size(p, n) : 0;
}

static int64_t join_size(const Planner *p, NodeId n) {
	bool computed = false;
	int64_t operands = lowering_streams(lowering_of(p, n)) ? operands_size(p, n, &computed) : 0;
	return computed ? int_max(operands - computed_size(p, n), 0) : 0;
}

static int64_t stores_spills(const Planner *p) {
	int64_t bytes = 0, most = 0, stored = 0, join = 0;
	bool narrow = false;
	for (NodeId n = graph_first(p->m, p->plan->root); n != NONE; n = node_get(p->m, n)->next) {
		Lowering how = lowering_of(p, n);
		if (lowering_is_barrier(how))
			return 0;
		narrow = narrow || (how == LOWER_LOAD && is_narrow(p->m, n));
		join = int_max(join, join_size(p, n));
		if (how != LOWER_STORE)
			continue;
		NodeId value = accessed_value(p, n);
		int64_t held = value == NONE ? 0 : spilled_size(p->plan, value);
		bytes += held;
		most = int_max(most, held);
		stored += stored_size(p, n);
	}
	bool early = narrow || p->m->target->spills.late > 0;
	return int_max(bytes - most, in_order(p) ? (early ? stored : 0) + join : 0);
}

/* Position of the root's node that n is part of; 0 if there is a loop around it that is no straight code. */
static uint32_t place_in_root(const Planner *p, const uint32_t *place, NodeId n) {
	for (GraphId g = node_get(p->m, n)->graph; g != p->plan->root; g = node_get(p->m, n)->graph) {
		uint32_t l = p->plan->loop_of[g];
		if (l == NONE || p->plan->loops.at[l].type != LOOP_UNROLL)
			return 0;
		n = p->plan->loops.at[l].call;
	}
	return place[n];
}

/* What straight code stores, and reads again after a barrier, never leaves the registers: it is spilled beside its
 * block. Bytes of such blocks. */
static int64_t forwarded_spills(const Planner *p) {
	uint32_t *place = arena_array(p->a, p->m->nodes.count, sizeof *place), at = 0;
	uint32_t *stored = arena_array(p->a, p->plan->operands.count + 1, sizeof *stored);
	int64_t bytes = 0;
	for (NodeId n = graph_first(p->m, p->plan->root); n != NONE; n = node_get(p->m, n)->next) {
		at += lowering_is_barrier(lowering_of(p, n));
		place[n] = at + 1;
	}
	for (int loads = 0; loads < 2; loads++) {
		for (NodeId n = 0; n < p->m->nodes.count; n++) {
			const Access *access = p->plan->values[n].access;
			if (node_get(p->m, n)->dead || !access ||
			    lowering_of(p, n) != (loads ? LOWER_LOAD : LOWER_STORE))
				continue;
			uint32_t here = place_in_root(p, place, n), *first = &stored[access->operand];
			const Operand *o = &p->plan->operands.at[access->operand];
			if (!loads && here && (!*first || here < *first)) {
				*first = here;
			} else if (loads && *first && here > *first && o->space == SPACE_WINDOW) {
				bytes += vmem_bytes(p->m->target, o->dtype, o->rank, o->block);
				*first = 0;
			}
		}
	}
	return bytes;
}

/* Bytes of an access of which each row comes from or goes to a tile of its own, as those of x[:, :, 0, :] do: packed
 * elements are moved row by row, a register each. */
static int64_t row_by_row(const Planner *p, NodeId n) {
	const Access *a = p->plan->values[n].access;
	NodeId value = accessed_value(p, n);
	int64_t rows = 1, shape[DIM_MAX] = {0};
	if (!a || value == NONE || !is_narrow(p->m, value) || a->rank < 3 || a->dim[a->rank - 2].kind != SLICE_AT)
		return 0;
	uint32_t rank = plan_shape(p->plan, value, FORM_NATURAL, shape);
	for (uint32_t i = 0; i + 1 < rank; i++)
		rows *= int_max(shape[i], 1);
	const Target *t = p->m->target;
	return rank < 2 || rows < t->sublanes ? 0
	                                      : rows * int_cdiv(shape[rank - 1], t->lanes) * t->lanes * t->sublanes * 4;
}

/* Measured for two such stores and loads of [2, 256, 128] to [8, 256, 128], all chips: the rows of one store, two
 * thirds of each further one; of what is loaded so as well, two thirds each; loads alone are kept by chips that widen
 * them. */
static int64_t rows_spills(const Planner *p) {
	int64_t stores = 0, most = 0, loads = 0, load = 0;
	for (NodeId n = 0; n < p->m->nodes.count; n++) {
		Lowering how = lowering_of(p, n);
		if (node_get(p->m, n)->dead || (how != LOWER_LOAD && how != LOWER_STORE))
			continue;
		int64_t bytes = row_by_row(p, n);
		stores += how == LOWER_STORE ? bytes : 0;
		most = int_max(most, how == LOWER_STORE ? bytes : 0);
		loads += how == LOWER_LOAD ? bytes : 0;
		load = int_max(load, how == LOWER_LOAD ? bytes : 0);
	}
	if (stores == 0)
		return p->m->target->bf16_vpu ? 0 : load;
	return most + (stores - most + loads) * 2 / 3;
}

/* A masked write at a position known at run time, to a block that is filled first: what is there is read, chosen from
 * and written, and the compiler, which cannot tell the positions apart, has all of it chosen before it writes (0.81 MiB
 * of a region of 1 MiB, int32 [128, 1, 129] on v7x). */
static int64_t rewritten_size(const Planner *p, NodeId n) {
	const Access *a = p->plan->values[n].access;
	const Held *held = a ? p->plan->operands.at[a->operand].held : NULL;
	int64_t region[DIM_MAX] = {0};
	uint32_t rank = 0;
	bool run_time = false;
	if (!held || held->initial != INITIAL_VALUE || held->revisits || node_input(p->m, n, 3) == NONE)
		return 0;
	for (uint32_t i = 0; i < a->rank; i++) {
		const SliceDim *d = &a->dim[i];
		run_time = run_time || (d->kind == SLICE_AT && !affine_is_int(&d->start));
		if (d->kind != SLICE_AT)
			region[rank++] = d->kind == SLICE_ALL ? p->plan->operands.at[a->operand].block[i] : d->size;
	}
	return run_time ? register_bytes(p->m->target, p->plan->operands.at[a->operand].dtype, rank, region) : 0;
}

static int64_t rewritten_spills(const Planner *p) {
	int64_t bytes = 0;
	for (NodeId n = 0; n < p->m->nodes.count; n++)
		if (!node_get(p->m, n)->dead && lowering_of(p, n) == LOWER_STORE)
			bytes = int_max(bytes, rewritten_size(p, n));
	return bytes;
}

/* What a branch of a switch loads is there whole after it, as is what is stored by one: of a block that several steps
 * share (for two loads and a store of float32 [640, 200] 1.7 to 2 MiB, of [320, 200] 1.1 to 1.4 MiB). */
static int64_t branches_spills(const Planner *p) {
	int64_t bytes = 0;
	for (NodeId n = 0; n < p->m->nodes.count; n++) {
		Lowering how = lowering_of(p, n);
		const Access *a = p->plan->values[n].access;
		bool branches = false;
		if (node_get(p->m, n)->dead || !a || (how != LOWER_LOAD && how != LOWER_STORE))
			continue;
		for (uint32_t i = 0; i < a->rank; i++)
			branches = branches || a->dim[i].parts > 0;
		NodeId value = accessed_value(p, n);
		bytes += branches && value != NONE ? spilled_size(p->plan, value) : 0;
	}
	return bytes;
}

int64_t streams_spills(const Planner *p) {
	return branches_spills(p) + int_max(stores_spills(p), rewritten_spills(p)) + forwarded_spills(p) +
	       rows_spills(p);
}
