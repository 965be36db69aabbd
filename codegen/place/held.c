/* held.c - tensors of which one block is held in VMEM while grid points and loop steps change it piece by piece.
 *
 * A tensor that is only stored, whole blocks at a time and one way, needs nothing of this. All others do: outputs with
 * an initial value, atomics, tensors both read and written, stores of a part of a block, stores with two tilings. Such
 * a tensor has one operand, whose block covers what all its accesses touch in one grid point; they all go to that
 * block, in program order. Where several grid points find the same block, it is filled by the first of them (with the
 * initial value, or with the block of the input), and the grid dims between them must come last, so that they are
 * consecutive: the pipeline writes a block back when its index changes, and never reads it again.
 *
 *     atomic_add(out[tile_m, tile_n], acc), grid (tile_m, tile_n, outer_k)
 *       =>  block (tile_m, tile_n), revisited by outer_k: filled where outer_k == 0, written back after the last */
#include "access.h"
#include "codegen/lower/lower.h"

/* ---- which tensors ---------------------------------------------------------------------------------------------- */

static bool want_equal(const AccessWant *a, const AccessWant *b) {
	bool same = a->tensor == b->tensor && a->loop == b->loop;
	for (uint32_t i = 0; same && i < a->rank; i++)
		same = a->dim[i].kind == b->dim[i].kind && a->dim[i].size == b->dim[i].size &&
		       affine_equal(&a->dim[i].at, &b->dim[i].at);
	return same;
}

/* The tiles of all grid points together fill the tensor's dim. */
static bool fills_dim(const Planner *p, const Want *w) {
	if (w->kind == WANT_WHOLE)
		return true;
	if (w->kind != WANT_GRID)
		return false;
	const Block *b = &p->m->blocks.at[p->plan->grid.at[w->grid_dim].block];
	return (b->begin == NONE || expr_number(p->m, b->begin) == 0) && expr_number(p->m, b->extent) >= w->extent;
}

static bool fills(const Planner *p, const AccessWant *w) {
	bool all = w->loop == NONE && p->plan->loop_of[node_get(p->m, w->node)->graph] == NONE;
	for (uint32_t i = 0; all && i < w->rank; i++)
		all = fills_dim(p, &w->dim[i]);
	return all;
}

/* Some of the tile's lanes are invalid and inside the tensor: a store there must leave them alone. */
bool want_partial(Planner *p, const AccessWant *w) {
	GraphId g = node_get(p->m, w->node)->graph;
	for (uint32_t i = 0; i < w->rank; i++) {
		Affine end;
		bool peeled;
		if (w->dim[i].block != NONE && block_ragged(p, g, w->dim[i].block, &end, &peeled) &&
		    (!affine_is_int(&end) || end.constant != w->dim[i].extent))
			return true;
	}
	return false;
}

static bool grid_moves(const Planner *p, const Affine *at) {
	for (uint32_t k = 0; k < p->plan->grid.count; k++)
		if (p->plan->grid.at[k].steps > 1 && affine_uses_program(at, k))
			return true;
	return false;
}

/* The grid moves what it writes, and no block of the grid's pipeline is that: several grid points write one. */
static bool between_blocks(Planner *p, const AccessWant *w) {
	const Tensor *t = &p->m->tensors.at[w->tensor];
	bool views = (Switch)p->m->config.boundary_views.value != SWITCH_OFF;
	bool swaps = t->role == ROLE_VIEW && tensor_swaps_last_two(t);
	for (uint32_t i = 0; i < w->rank; i++) {
		const Want *want = &w->dim[i];
		int64_t size;
		Affine index;
		bool row = i + 1 < w->rank && !swaps && (views || i + 2 < w->rank);
		bool block = want->kind == WANT_WHOLE ||
		             (want->kind == WANT_GRID && affine_multiple(&want->at, want->size)) ||
		             (want->kind == WANT_STEP && want_tile(p, want, &size, &index)) ||
		             (want->kind == WANT_AT && row);
		if (!block && (want->kind == WANT_GRID || grid_moves(p, &want->at)))
			return true;
	}
	return w->loop == NONE && !operand_placeable(p, w);
}

/* Access k of the tensor `base` changes or reads its block in a way that one store alone does not. */
static bool held_by(Planner *p, const AccessWants *wants, uint32_t k, uint32_t first_write) {
	const AccessWant *w = &wants->at[k];
	const Tensor *t = &p->m->tensors.at[tensor_base(p->m, w->tensor)];
	bool atomic = w->store && op_is_atomic(node_get(p->m, w->node)->op);
	bool masked = w->store && !atomic && node_input(p->m, w->node, 3) != NONE;
	return !w->store || atomic || masked || w->places != NONE || t->role == ROLE_INOUT || want_partial(p, w) ||
	       between_blocks(p, w) || (t->has_init && !fills(p, w)) || !want_equal(w, &wants->at[first_write]);
}

static uint32_t first_write_of(const Planner *p, const AccessWants *wants, TensorId base) {
	for (uint32_t i = 0; i < wants->count; i++)
		if (wants->at[i].store && tensor_base(p->m, wants->at[i].tensor) == base)
			return i;
	return NONE;
}

static bool tensor_held(Planner *p, const AccessWants *wants, TensorId base) {
	uint32_t first = first_write_of(p, wants, base);
	Exchange exchange = tensor_exchange(p, wants, base);
	bool held = first != NONE && exchange == EXCHANGE_HELD;
	if (exchange == EXCHANGE_IN_HBM)
		return false;
	for (uint32_t i = 0; first != NONE && i < wants->count; i++)
		held = held || (tensor_base(p->m, wants->at[i].tensor) == base && held_by(p, wants, i, first));
	return held;
}

/* All accesses must name the tensor, or the same view of it. */
static bool one_view(Planner *p, const AccessWants *wants, TensorId base) {
	TensorId seen = NONE;
	for (uint32_t i = 0; i < wants->count; i++) {
		const AccessWant *w = &wants->at[i];
		if (tensor_base(p->m, w->tensor) != base)
			continue;
		if (seen != NONE && seen != w->tensor)
			return plan_refuse(p, w->node, "unsupported", "use one view of it in the whole kernel",
			                   "tensor %s is written, and accessed as %s and as %s",
			                   p->m->tensors.at[base].name, p->m->tensors.at[seen].name,
			                   p->m->tensors.at[w->tensor].name);
		seen = w->tensor;
	}
	return true;
}

bool held_mark(Planner *p, AccessWants *wants) {
	bool ok = true;
	for (TensorId t = 0; t < p->m->tensors.count; t++) {
		if (p->m->tensors.at[t].role == ROLE_VIEW || !tensor_held(p, wants, t))
			continue;
		ok = one_view(p, wants, t) && ok;
		for (uint32_t i = 0; i < wants->count; i++)
			wants->at[i].held = wants->at[i].held || tensor_base(p->m, wants->at[i].tensor) == t;
	}
	return ok;
}

static bool is_held(const Planner *p, const AccessWants *wants, TensorId base) {
	for (uint32_t i = 0; i < wants->count; i++)
		if (wants->at[i].held && tensor_base(p->m, wants->at[i].tensor) == base)
			return true;
	return false;
}

/* ---- the block -------------------------------------------------------------------------------------------------- */

/* A multiple of the variable itself. */
static bool is_multiple(const Term *t) { return !t->divide && !t->modulo; }

/* What an access touches of a dim in one grid point: `span` elements from `base`, which only the grid moves. False
 * where that is not known. */
static bool region_of(Planner *p, const Want *w, Affine *base, int64_t *span) {
	*base = affine_int(w->at.constant);
	*span = w->size;
	for (uint32_t i = 0; i < w->at.count; i++) {
		const Term *t = &w->at.term[i];
		int64_t steps;
		if (t->kind == VAR_PROGRAM && is_multiple(t))
			*base = affine_add(p->a, *base, affine_term(p->a, *t));
		else if (t->kind == VAR_STEP && t->scale > 0 &&
		         loop_most_steps(p, &p->plan->loops.at[t->id / RANK_MAX].dim[t->id % RANK_MAX], &steps))
			*span += t->scale * term_last(t, int_max(steps - 1, 0));
		else
			return false;
	}
	return true;
}

bool want_tile(Planner *p, const Want *w, int64_t *size, Affine *index) {
	Affine base;
	int64_t span;
	if (!region_of(p, w, &base, &span) || base.count != 1 || base.term[0].scale < span || base.constant < 0 ||
	    base.constant % base.term[0].scale != 0)
		return false;
	*size = base.term[0].scale;
	*index = affine_divide(p->a, base, *size);
	return true;
}

/* Of positions that count up by steps, gone through one after the other. All stay in the region: what lies outside the
 * tensor is held at its end, which is behind where the positions begin. */
static bool region_of_steps(Planner *p, const Want *w, Affine *base, int64_t *span) {
	if (w->at.count != 1 || w->at.constant != 0 || w->at.term[0].kind != VAR_PLACE || !is_multiple(&w->at.term[0]))
		return false;
	const Places *s = &p->plan->places.at[w->at.term[0].id / RANK_MAX];
	NodeId index = s->of[w->at.term[0].id % RANK_MAX].index;
	const Type *t = node_type(p->m, index);
	Arg ref = arg_ref(index);
	int64_t first, last;
	Line line;
	if (t->count != 1 || !steps_of(p, node_get(p->m, s->node)->graph, &ref, LINE_DEPTH, &line) || !line.index ||
	    !affine_min(p, &line.more, &first) || first < 0 || !affine_max(p, &line.more, &last) || last >= w->extent)
		return false;
	Want all = {.at = line.more};
	bool fits = checked_mul(expr_number(p->m, t->dims[0]) - 1, line.step, &all.size) && all.size < INT32_MAX;
	all.size++;
	return fits && last <= INT32_MAX - all.size && region_of(p, &all, base, span);
}

/* A held block in the making, in the dims of the tensor as the graph names it. */
typedef struct Joint {
	TensorId base;
	uint32_t rank;
	int64_t extent[RANK_MAX], block[RANK_MAX];
	Affine index[RANK_MAX];
	AccessWant first; /* a write of it */
} Joint;

int64_t want_end(Planner *p, const Want *w) {
	int64_t start = 0, end = 0;
	if (!affine_max(p, &w->at, &start) || start >= w->extent)
		start = w->extent - 1;
	if (w->kind == WANT_STEP && affine_max(p, &p->plan->loops.at[w->loop].dim[w->loop_dim].end, &end))
		start = int_min(start, end - 1);
	if (w->kind != WANT_AT && affine_multiple(&w->at, w->size))
		start -= start % w->size;
	return start + w->size;
}

/* The whole dim, and what tiles reach past its end. */
static void join_whole(Planner *p, const AccessWants *wants, Joint *j, uint32_t d) {
	j->block[d] = j->extent[d];
	j->index[d] = affine_int(0);
	for (uint32_t i = 0; i < wants->count; i++)
		if (tensor_base(p->m, wants->at[i].tensor) == j->base && wants->at[i].dim[d].kind != WANT_WHOLE)
			j->block[d] = int_max(j->block[d], want_end(p, &wants->at[i].dim[d]));
}

/* One block per step of the one grid dim that moves all accesses, if they stay in it; else the whole dim. */
static void join_dim(Planner *p, const AccessWants *wants, Joint *j, uint32_t d) {
	Affine common = affine_int(0);
	int64_t low = 0, high = 0;
	bool any = false;
	join_whole(p, wants, j, d);
	for (uint32_t i = 0; i < wants->count; i++) {
		Affine base;
		int64_t span;
		if (tensor_base(p->m, wants->at[i].tensor) != j->base)
			continue;
		const Want *w = &wants->at[i].dim[d];
		if (!region_of(p, w, &base, &span) && !region_of_steps(p, w, &base, &span))
			return;
		int64_t start = base.constant;
		base.constant = 0;
		if (any && !affine_equal(&base, &common))
			return;
		low = any ? int_min(low, start) : start;
		high = any ? int_max(high, start + span) : start + span;
		common = base;
		any = true;
	}
	if (common.count != 1 || common.term[0].scale <= 0 || low < 0)
		return;
	int64_t size = common.term[0].scale, first = low / size;
	if (high - first * size > size)
		return;
	j->block[d] = size;
	j->index[d] = affine_add(p->a, affine_divide(p->a, common, size), affine_int(first));
}

/* Nothing but stores, and nothing that was there before them: a block need not be filled first. */
static bool only_stored(const Planner *p, const AccessWants *wants, TensorId base) {
	const Tensor *t = &p->m->tensors.at[base];
	bool only = t->role == ROLE_OUTPUT && !t->has_init;
	for (uint32_t i = 0; i < wants->count; i++)
		only = only && (tensor_base(p->m, wants->at[i].tensor) != base ||
		                node_get(p->m, wants->at[i].node)->op == OP_STORE);
	return only;
}

/* Dims that grid dims inside of dim k walk: their steps would come between two of one block. */
static bool moves_inside(const Planner *p, const Joint *j, uint32_t d, uint32_t k) {
	for (uint32_t i = 0; i < j->rank; i++)
		for (uint32_t inner = k + 1; inner < p->plan->grid.count; inner++)
			if (i != d && p->plan->grid.at[inner].steps > 1 && affine_uses_program(&j->index[i], inner))
				return true;
	return false;
}

/* A block that is none of the chip's becomes one that several steps share, or the whole dim. */
static void join_legal(Planner *p, const AccessWants *wants, Joint *j, uint32_t d, int64_t multiple) {
	if (j->block[d] >= j->extent[d] || j->block[d] % multiple == 0)
		return;
	int64_t size = j->block[d], wide = int_lcm(size, multiple);
	const Affine *at = &j->index[d];
	bool shared = at->count == 1 && at->constant == 0 && at->term[0].scale == 1 && !at->term[0].divide &&
	              !at->term[0].modulo && wide < j->extent[d] && only_stored(p, wants, j->base) &&
	              !moves_inside(p, j, d, at->term[0].id);
	if (!shared) {
		join_whole(p, wants, j, d);
		return;
	}
	Term t = at->term[0];
	t.divide = wide / size;
	j->block[d] = wide;
	j->index[d] = affine_term(p->a, t);
}

static Joint joint_make(Planner *p, const AccessWants *wants, TensorId base) {
	Joint j = {.base = base, .first = wants->at[first_write_of(p, wants, base)]};
	j.rank = j.first.rank;
	for (uint32_t d = 0; d < j.rank; d++) {
		j.extent[d] = j.first.dim[d].extent;
		join_dim(p, wants, &j, d);
	}
	const Tensor *t = &p->m->tensors.at[j.first.tensor];
	bool swaps = t->role == ROLE_VIEW && tensor_swaps_last_two(t);
	bool views = (Switch)p->m->config.boundary_views.value != SWITCH_OFF;
	if (j.rank > 0)
		join_legal(p, wants, &j, swaps ? j.rank - 2 : j.rank - 1, p->m->target->lanes);
	if (j.rank > 1 && !views)
		join_legal(
			p, wants, &j, swaps ? j.rank - 1 : j.rank - 2,
			target_row_multiple(p->m->target, TILE_BLOCK, dtype_bits(t->dtype), p->m->target->lanes + 1));
	return j;
}

static uint32_t indexing_dims(const Planner *p, const Joint *j) {
	uint32_t dims = 0;
	for (uint32_t d = 0; d < j->rank; d++)
		for (uint32_t k = 0; k < p->plan->grid.count; k++)
			dims |= affine_uses_program(&j->index[d], k) ? 1u << k : 0;
	return dims;
}

/* Grid dims whose steps find the same block. */
static uint32_t revisiting_dims(const Planner *p, const Joint *j) {
	uint32_t dims = 0, indexing = indexing_dims(p, j);
	for (uint32_t k = 0; k < p->plan->grid.count; k++)
		dims |= p->plan->grid.at[k].steps > 1 && !(indexing >> k & 1) ? 1u << k : 0;
	return dims;
}

/* Where a revisiting dim is outside one that moves the block, its visits are not consecutive: that dim stays whole. */
static void join_in_order(Planner *p, const AccessWants *wants, Joint *j) {
	for (bool again = true; again;) {
		again = false;
		uint32_t revisits = revisiting_dims(p, j), indexing = indexing_dims(p, j);
		uint32_t outermost = revisits & (~revisits + 1);
		uint32_t late = outermost ? indexing & ~(outermost - 1) : 0;
		for (uint32_t d = 0; d < j->rank; d++)
			for (uint32_t k = 0; k < p->plan->grid.count; k++)
				if ((late >> k & 1) && affine_uses_program(&j->index[d], k)) {
					join_whole(p, wants, j, d);
					again = true;
				}
	}
}

/* ---- the grid's order ------------------------------------------------------------------------------------------- */

/* Grid dims that move every held block come first, the others last, each in the graph's order. False: so they do. */
bool held_order(Planner *p, const AccessWants *wants, uint32_t *order) {
	uint32_t moving = ~0u, slots[RANK_MAX] = {0}, count = 0, next = 0;
	bool changed = false;
	for (TensorId t = 0; t < p->m->tensors.count; t++) {
		if (!is_held(p, wants, t))
			continue;
		Joint j = joint_make(p, wants, t);
		moving &= indexing_dims(p, &j);
	}
	for (uint32_t k = 0; k < p->plan->grid.count; k++) {
		order[k] = k;
		if (p->plan->grid.at[k].steps > 1)
			slots[count++] = k; /* a dim of one step stands anywhere */
	}
	for (uint32_t last = 0; last < 2; last++)
		for (uint32_t i = 0; i < count; i++)
			if ((moving >> slots[i] & 1) != last) {
				changed = changed || slots[next] != slots[i];
				order[slots[next++]] = slots[i];
			}
	return changed;
}

/* ---- operands --------------------------------------------------------------------------------------------------- */

static bool moved_by(const AccessWant *w, uint32_t step) {
	for (uint32_t i = 0; i < w->rank; i++)
		for (uint32_t k = 0; k < w->dim[i].at.count; k++) {
			const Term *t = &w->dim[i].at.term[k];
			if (t->kind == VAR_STEP && t->id == step && is_multiple(t))
				return true;
		}
	return false;
}

/* Some step of a loop around the access finds the place of another step again. */
static bool place_repeats(const Planner *p, const AccessWant *w) {
	for (uint32_t l = p->plan->loop_of[node_get(p->m, w->node)->graph]; l != NONE;
	     l = p->plan->loops.at[l].parent) {
		if (p->plan->loops.at[l].rank == 0)
			return true;
		for (uint32_t k = 0; k < p->plan->loops.at[l].rank; k++)
			if (!moved_by(w, l * RANK_MAX + k))
				return true;
	}
	return false;
}

/* The dtype in which the block adds up before it is rounded once; DTYPE_NONE: the tensor's own. Only atomics that
 * combine in a wider float dtype may round late, and one that meets no other need not. */
static Dtype accumulated_in(Planner *p, const AccessWants *wants, TensorId base, bool revisited) {
	const Tensor *t = &p->m->tensors.at[base];
	uint32_t count = 0;
	bool repeats = revisited;
	for (uint32_t i = 0; i < wants->count; i++) {
		const AccessWant *w = &wants->at[i];
		if (tensor_base(p->m, w->tensor) != base)
			continue;
		bool read = !w->store || node_uses(p->m, w->node) != NONE; /* old values are rounded at each */
		if (read || node_get(p->m, w->node)->op == OP_STORE || !dtype_is_float(t->dtype) ||
		    dtype_bits(arith_write_dtype(p->m, w->node)) <= dtype_bits(t->dtype))
			return DTYPE_NONE;
		repeats = repeats || w->places != NONE || place_repeats(p, w);
		count++;
	}
	return repeats || count > 1 ? DTYPE_F32 : DTYPE_NONE;
}

/* Each grid point adds a sum of whole registers' rows to a row, and nothing else: the registers themselves can be added
 * up, and summed once (rewrite_row_sums.c). */
static bool adds_rows(Planner *p, const AccessWants *wants, const Operand *o, TensorId base, const Held *held) {
	NodeId sum = NONE;
	uint32_t count = 0;
	for (uint32_t i = 0; i < wants->count; i++)
		if (tensor_base(p->m, wants->at[i].tensor) == base) {
			sum = wants->at[i].node;
			count++;
		}
	if (count != 1 || !held->revisits || held->initial != INITIAL_VALUE || held->value != 0 || o->rank < 2 ||
	    o->block[o->rank - 2] != 1 || node_get(p->m, sum)->op != OP_ATOMIC_ADD || node_uses(p->m, sum) != NONE ||
	    p->plan->loop_of[node_get(p->m, sum)->graph] != NONE)
		return false;
	NodeId value = node_input(p->m, sum, 2), of;
	if (value == NONE || op_canonical(node_get(p->m, value)->op) != OP_SUM || node_use_count(p->m, value) != 1)
		return false;
	of = node_input(p->m, value, 0);
	const Type *t = of == NONE ? NULL : node_type(p->m, of);
	return t && t->dtype == DTYPE_F32 && t->count == 2 && node_type(p->m, value)->count == 1 &&
	       expr_number(p->m, t->dims[1]) == o->block[o->rank - 1] &&
	       expr_number(p->m, t->dims[0]) % p->m->target->sublanes == 0;
}

static uint32_t accumulator_add(Planner *p, const Operand *o, Dtype dtype, bool rows) {
	Scratch s = {.kind = SCRATCH_VMEM, .dtype = dtype, .rank = o->rank};
	int64_t shape[DIM_MAX];
	s.why = rows ? "sums of rows, a register of them, that are summed once" : "sums that are rounded once";
	memcpy(s.shape, o->block, o->rank * sizeof(int64_t));
	memcpy(shape, s.shape, sizeof shape);
	if (rows)
		shape[o->rank - 2] = p->m->target->sublanes;
	s.bytes = scratch_vmem_bytes(p->m->target, dtype, s.rank, shape);
	s.ref = arena_printf(p->a, "%s_acc_ref", p->m->tensors.at[o->tensor].name);
	return plan_scratch(p, s);
}

/* The blocks of all grid points fill the dim: nothing there keeps what it held before the kernel. */
static bool blocks_fill(const Planner *p, const Joint *j, uint32_t d) {
	int64_t blocks = j->index[d].count == 1 ? p->plan->grid.at[j->index[d].term[0].id].steps : 1;
	return j->index[d].constant == 0 && blocks * j->block[d] >= j->extent[d];
}

/* Blocks that no grid point visits must keep what they hold; jax simulates that only where blocks divide the dim. */
static bool join_to_fill(Planner *p, const AccessWants *wants, Joint *j) {
	bool all = true;
	for (uint32_t d = 0; d < j->rank; d++) {
		if (!blocks_fill(p, j, d) && j->extent[d] % j->block[d] != 0)
			join_whole(p, wants, j, d);
		all = all && blocks_fill(p, j, d);
	}
	join_in_order(p, wants, j);
	return all;
}

/* The input whose block is copied into the held one when it is first visited. Where some blocks are never visited, the
 * output takes over its buffer, so that they keep what they hold; it does where that is asked for, too. */
static void initial_operand(Planner *p, Operand *o, Held *held, bool all_visited) {
	Operand in = *o;
	in.input = true;
	in.output = false;
	in.why = "what the output's block holds when it is first visited";
	in.ref = arena_printf(p->a, "%s_in_ref", p->m->tensors.at[o->tensor].name);
	held->initial = INITIAL_COPY;
	held->from = p->plan->operands.count;
	if (!all_visited || (Switch)p->m->config.in_place.value == SWITCH_ON)
		o->alias_of = held->from;
	vec_push(p->a, &p->plan->operands, in);
}

static bool held_block(Planner *p, const AccessWants *wants, const Joint *j, Operand *o) {
	if (!operand_array(p, o, &j->first))
		return false;
	for (uint32_t i = 0; i < j->rank; i++) {
		uint32_t d = o->dim_of[i];
		int64_t multiple =
			d + 1 == o->rank ? p->m->target->lanes : target_packed_rows(p->m->target, dtype_bits(o->dtype));
		bool past_end = j->block[i] > j->extent[i] && d + 2 >= o->rank;
		o->block[d] = past_end ? int_round_up(j->block[i], multiple) : j->block[i];
		o->index[d] = j->index[i];
	}
	for (uint32_t i = 0; i < wants->count; i++)
		for (uint32_t k = 0;
		     k < j->rank && wants->at[i].held && tensor_base(p->m, wants->at[i].tensor) == j->base; k++) {
			uint32_t d = o->dim_of[k];
			if (o->block[d] == j->extent[k])
				o->block[d] = slice_block(p, o, d, wants->at[i].dim[k].size, &wants->at[i].dim[k].at);
		}
	const char *wrong = operand_align(p, o, o->block, o->index, j->rank, TILE_BLOCK);
	if (!wrong && j->first.rows)
		operand_unit_rows(p, o, j->rank);
	return !wrong || refuse_block(p, &j->first, wrong);
}

/* One access combines into the whole block, once: the initial value can stand in its expression. */
static bool combines_once(Planner *p, const AccessWants *wants, const Joint *j, const Held *held) {
	uint32_t count = 0;
	for (uint32_t i = 0; i < wants->count; i++)
		count += tensor_base(p->m, wants->at[i].tensor) == j->base;
	bool once = count == 1 && j->first.places == NONE && held->revisits == 0 && !want_partial(p, &j->first) &&
	            p->plan->loop_of[node_get(p->m, j->first.node)->graph] == NONE;
	for (uint32_t i = 0; once && i < j->rank; i++)
		once = j->first.dim[i].size == j->block[i];
	return once;
}

static bool held_operand(Planner *p, AccessWants *wants, TensorId base) {
	Operand o = {.space = SPACE_WINDOW, .output = true, .why = "held while several steps change it"};
	Joint j = joint_make(p, wants, base);
	const Tensor *t = &p->m->tensors.at[base];
	Held *held = arena_alloc(p->a, sizeof *held);
	join_in_order(p, wants, &j);
	bool keeps = t->role == ROLE_INOUT || t->has_init;
	bool all_visited = !keeps || join_to_fill(p, wants, &j);
	if (!held_block(p, wants, &j, &o))
		return false;
	*held = (Held){.revisits = revisiting_dims(p, &j), .value = t->init, .accumulator = NONE, .from = NONE};
	if (keeps && (t->role == ROLE_INOUT || !all_visited))
		initial_operand(p, &o, held, all_visited);
	else if (t->has_init)
		held->initial = combines_once(p, wants, &j, held) ? INITIAL_FOLDED : INITIAL_VALUE;
	Dtype wide = accumulated_in(p, wants, base, held->revisits != 0);
	bool rows = adds_rows(p, wants, &o, base, held);
	if (wide != DTYPE_NONE || rows)
		held->accumulator = accumulator_add(p, &o, DTYPE_F32, rows);
	o.held = held;
	o.ref = arena_printf(p->a, "%s_ref", t->name);
	plan_remark(p->plan, "%s: one block is held over all its accesses%s%s", t->name,
	            held->revisits ? ", and revisited by consecutive grid steps" : "",
	            wide != DTYPE_NONE ? "; it adds up in float32 and is rounded once" : "");
	for (uint32_t i = 0; i < wants->count; i++)
		if (tensor_base(p->m, wants->at[i].tensor) == base)
			wants->at[i].held_in = p->plan->operands.count;
	vec_push(p->a, &p->plan->operands, o);
	return true;
}

bool held_operands(Planner *p, AccessWants *wants) {
	bool ok = true;
	for (TensorId t = 0; t < p->m->tensors.count; t++)
		if (is_held(p, wants, t))
			ok = held_operand(p, wants, t) && ok;
	return ok;
}

/* ---- accesses --------------------------------------------------------------------------------------------------- */

void held_access(Planner *p, const AccessWant *w, Access *access) {
	const Operand *o = &p->plan->operands.at[w->held_in];
	if (w->loop != NONE && !w->store)
		plan_remark(p->plan, "%s: %s is resident: the kernel writes it", p->plan->loops.at[w->loop].name,
		            p->m->tensors.at[w->tensor].name);
	*access = (Access){.kind = REF_OPERAND, .operand = w->held_in, .window = NONE, .rank = o->rank};
	for (uint32_t d = 0; d < o->rank; d++)
		access->dim[d].kind = d == o->unit && w->rank > 1 ? SLICE_AT : SLICE_ALL;
	for (uint32_t i = 0; i < w->rank; i++) {
		uint32_t d = o->dim_of[i];
		const Want *want = &w->dim[i];
		Affine start = o->block[d] == 1
		                       ? affine_int(0)
		                       : affine_add(p->a, want->at, affine_scale(p->a, o->index[d], -o->block[d]));
		if (want->kind == WANT_AT)
			access->dim[d] = (SliceDim){.kind = SLICE_AT, .start = start, .size = 1};
		else if (want->size != o->block[d]) /* as large as the block, it is nowhere else */
			access->dim[d] = (SliceDim){.kind = SLICE_RANGE, .start = start, .size = want->size};
		slice_place(p, o, d, &access->dim[d]);
	}
}
