/* places.c - gathers and scatters: accesses at positions that int tensors give.
 *
 * The kernel goes through the positions one after the other; at each it accesses what one position selects, where an
 * int that it reads says. The ints are a table in SMEM (smem.c), or computed, and then copied there: only there are
 * single ones read. What is read is put together in scratch; what is written is cut out of scratch. So positions may
 * come in any order and any number of times, and writes combine in the order of the index, as in a sequential run. The
 * old value that an atomic gives is put together like what is read: what the position had before its own write.
 *
 *     v = load x[idx, :]   =>   for i in 64 { rows[i, :] = x_ref[clamp(idx_smem[i]), :] };  v = rows */
#include "access.h"
#include "place.h"
#include "codegen/lower/lower.h"

/* How the index tensors of an access go together, as docs/graph-format.md says it. */
typedef struct Together {
	bool outer;    /* each is 1-D over a block and makes a dim of its own */
	uint32_t rank; /* else: of what they broadcast to */
} Together;

static Together together(const Module *m, const Arg *index) {
	Together t = {.outer = true};
	for (uint32_t i = 0; i < index->list.count; i++) {
		const Arg *entry = arg_item(m, index, i);
		if (!entry_gathers(m, entry))
			continue;
		const Type *type = node_type(m, entry->node);
		t.rank = type->count > t.rank ? type->count : t.rank;
		t.outer = t.outer && type->count == 1 && expr_as_block(m, type->dims[0]) != NONE;
	}
	return t;
}

static Places *places_of(Planner *p, AccessWant *w) {
	if (w->places == NONE) {
		vec_push(p->a, &p->plan->places,
		         ((Places){.node = w->node,
		                   .rows = NONE,
		                   .masks = NONE,
		                   .expected = NONE,
		                   .old = NONE,
		                   .groups = NONE,
		                   .numbers = NONE,
		                   .last = NONE,
		                   .arrived = NONE}));
		w->places = p->plan->places.count - 1;
	}
	return &p->plan->places.at[w->places];
}

uint32_t want_places(Planner *p, AccessWant *w, Want *want, const Arg *entry, uint32_t kept) {
	const Type *t = node_type(p->m, entry->node);
	Together all = together(p->m, node_arg(p->m, w->node, 1));
	bool first = w->places == NONE;
	Places *s = places_of(p, w);
	uint32_t rank = all.outer ? 1 : all.rank, added = first || all.outer ? rank : 0;
	PlaceDim place = {.index = entry->node,
	                  .extent = want->extent,
	                  .first = all.outer ? s->rank : 0,
	                  .vmem = NONE,
	                  .smem = NONE,
	                  .semaphore = NONE};
	for (uint32_t i = 0; i < added; i++) {
		s->shape[s->rank] = 1;
		s->dim[s->rank++] = kept + i;
	}
	for (uint32_t i = 0; i < t->count; i++) {
		uint32_t at = place.first + rank - t->count + i;
		s->shape[at] = int_max(s->shape[at], expr_number(p->m, t->dims[i]));
	}
	place.first += rank - t->count;
	want->kind = WANT_AT;
	want->size = 1;
	want->at = affine_var(p->a, VAR_PLACE, w->places * RANK_MAX + s->count, 1);
	s->of[s->count++] = place;
	return added;
}

static uint32_t add_scratch(Planner *p, ScratchKind kind, Dtype dtype, uint32_t rank, const int64_t *shape,
                            const char *name, const char *why) {
	Scratch s = {.kind = kind, .dtype = dtype, .rank = rank, .why = why};
	for (uint32_t i = 0; i < rank; i++)
		s.shape[i] = shape[i];
	if (kind == SCRATCH_VMEM)
		s.bytes = scratch_vmem_bytes(p->m->target, dtype, rank, shape);
	s.ref = name;
	return plan_scratch(p, s);
}

/* Where an access before this one brings the same positions; NULL. */
static const PlaceDim *brought(const Planner *p, const Places *s, NodeId index) {
	const Places *all = p->plan->places.at;
	for (const Places *other = all; other < s; other++)
		for (uint32_t i = 0; i < other->count; i++)
			if (other->of[i].index == index && other->of[i].smem != NONE)
				return &other->of[i];
	return NULL;
}

/* Computed positions go to SMEM, by way of VMEM. */
static void place_scratch(Planner *p, const Places *s, PlaceDim *place) {
	const PlaceDim *same = brought(p, s, place->index);
	if (same) {
		place->vmem = same->vmem;
		place->smem = same->smem;
		place->semaphore = same->semaphore;
		place->shared = true;
		return;
	}
	const Type *t = node_type(p->m, place->index);
	const char *name = node_get(p->m, place->index)->name;
	int64_t shape[RANK_MAX + 1] = {1};
	uint32_t rank = t->count == 1;
	for (uint32_t i = 0; i < t->count; i++)
		shape[rank++] = expr_number(p->m, t->dims[i]);
	place->vmem = add_scratch(p, SCRATCH_VMEM, DTYPE_I32, rank, shape, arena_printf(p->a, "%s_vmem", name),
	                          "positions on their way to SMEM");
	place->smem =
		add_scratch(p, SCRATCH_SMEM, DTYPE_I32, rank, shape, arena_printf(p->a, "%s_smem", name), "positions");
	for (uint32_t i = 0; i < s->count && place->semaphore == NONE; i++)
		place->semaphore = s->of[i].semaphore;
	if (place->semaphore == NONE)
		place->semaphore = add_scratch(p, SCRATCH_DMA_SEMAPHORE, DTYPE_I32, 1, (const int64_t[]){1},
		                               arena_printf(p->a, "%s_sem", name), "the copy of positions");
}

/* Single elements of a row are changed in the register that has them, with no move of lanes: what is written is spread
 * over all of its lanes, and so are old values, but for zeros in the other lanes. Else 0. */
static int64_t lanes_around(const Operand *o, const Access *access) {
	const SliceDim *last = &access->dim[access->rank - 1];
	uint32_t kept = 0;
	for (uint32_t d = 0; d + 1 < access->rank; d++) {
		if (access->dim[d].window || (access->dim[d].kind != SLICE_AT && o->block[d] != 1))
			return 0;
		kept += access->dim[d].kind != SLICE_AT;
	}
	return kept == 1 && last->size == 1 ? last->window : 0;
}

/* What is spread over lanes, or taken from them, waits in registers: for few positions at once. */
enum { CHUNK_ROWS = 64 };

/* False: no part of the positions is as small, and made of whole registers. */
static bool chunks_fit(const Planner *p, Places *s) {
	int64_t rest = 1, sublanes = p->m->target->sublanes;
	s->chunked = 0;
	while (s->chunked + 1 < s->rank && s->shape[s->chunked] == 1)
		s->chunked++;
	for (uint32_t i = s->chunked + 1; i < s->rank; i++)
		rest *= i + 1 == s->rank ? int_round_up(s->shape[i], sublanes) : s->shape[i];
	int64_t all = s->shape[s->chunked], most = CHUNK_ROWS / rest, unit = s->chunked + 1 == s->rank ? sublanes : 1;
	s->chunk = all <= most ? all : most / unit * unit;
	while (s->chunk > 0 && all % s->chunk)
		s->chunk -= unit;
	return s->chunk > 0;
}

/* Why the rows of words that are copied are not taken from them all at once; NULL: they are. */
static const char *not_packed(const Planner *p, const Places *s, Dtype dtype, int64_t columns) {
	const Target *t = p->m->target;
	if ((Switch)p->m->config.packed_rows.value == SWITCH_OFF)
		return "pallas_packed_rows is off";
	if (!t->bf16_vpu) /* what is picked takes VMEM there that nobody predicts */
		return "the chip has no vectors of 16 bits";
	if (s->rank > 1 || s->count > 1 || s->dim[0] != 0)
		return "its positions are not the rows of its value";
	if (dtype_bits(dtype) != 16 && dtype_bits(dtype) != 8)
		return "its elements have neither 16 bits nor 8";
	if (s->last_rows)
		return "the table's last rows fill no word";
	return s->shape[0] % t->sublanes || columns % t->lanes ? "a tile of it does not fill registers" : NULL;
}

/* Where words come to that hold the rows, a register's of them side by side, and which row of its word each is. */
static void packed_scratch(Planner *p, Places *s, const AccessWant *w, Dtype dtype, int64_t columns) {
	const char *name = node_get(p->m, w->node)->name;
	int64_t sublanes = p->m->target->sublanes, tiles = s->shape[0] / sublanes;
	const int64_t groups[] = {tiles, sublanes * s->group, columns},
		      numbers[] = {tiles, sublanes, p->m->target->lanes};
	s->groups = add_scratch(p, SCRATCH_VMEM, dtype, 3, groups, arena_printf(p->a, "%s_groups", name),
	                        "what is copied from HBM, words of several rows");
	s->numbers = add_scratch(p, SCRATCH_VMEM, DTYPE_I32, 3, numbers, arena_printf(p->a, "%s_numbers", name),
	                         "which rows are asked for");
	s->arrived = add_scratch(p, SCRATCH_DMA_SEMAPHORE, DTYPE_I32, 1, (const int64_t[]){1},
	                         arena_printf(p->a, "%s_arrived", name), "the copies of rows");
}

/* What the positions select, one after the other: their dims first. */
static void rows_scratch(Planner *p, Places *s, const AccessWant *w, const Access *access) {
	const Operand *o = &p->plan->operands.at[access->operand];
	Dtype dtype = o->dtype;
	int64_t shape[DIM_MAX] = {0};
	uint32_t rank = 0;
	for (uint32_t i = 0; i < s->rank; i++)
		shape[rank++] = s->shape[i];
	for (uint32_t i = 0; i < w->rank; i++)
		if (w->dim[i].kind != WANT_AT)
			shape[rank++] = w->dim[i].size;
	s->single = w->store && rank == s->rank;
	if (s->single) {
		s->lanes = chunks_fit(p, s) ? lanes_around(o, access) : 0;
		shape[rank++] = int_max(s->lanes, 1);
	}
	s->kept = rank - s->rank;
	const char *name = node_get(p->m, w->node)->name;
	uint16_t op = node_get(p->m, w->node)->op;
	Dtype wide = dtype_turned(dtype);
	Dtype in = s->copied && s->group == 1 ? dtype
	           : op_is_atomic(op)         ? dtype_turned(arith_write_dtype(p->m, w->node))
	                                      : wide;
	bool grouped = s->copied && s->group > 1 && s->kept == 1;
	const char *why = grouped ? not_packed(p, s, dtype, shape[rank - 1]) : NULL;
	if (grouped && !why)
		packed_scratch(p, s, w, dtype, shape[rank - 1]);
	if (why)
		plan_remark(p->plan, "packed rows: none of %s: %s", p->m->tensors.at[w->tensor].name, why);
	if (s->kept && s->numbers == NONE)
		s->rows = add_scratch(p, SCRATCH_VMEM, in, rank, shape, arena_printf(p->a, "%s_rows", name),
		                      w->store ? "what is scattered" : "what is gathered");
	if (w->store && !op_is_atomic(op) && node_input(p->m, w->node, 3) != NONE)
		s->masks = add_scratch(p, SCRATCH_VMEM, DTYPE_I32, rank, shape, arena_printf(p->a, "%s_masks", name),
		                       "where it is scattered");
	if (op == OP_ATOMIC_CAS)
		s->expected = add_scratch(p, SCRATCH_VMEM, wide, rank, shape, arena_printf(p->a, "%s_expected", name),
		                          "what is replaced");
	if (op_is_atomic(op) && node_uses(p->m, w->node) != NONE)
		s->old = add_scratch(p, SCRATCH_VMEM, wide, rank, shape, arena_printf(p->a, "%s_old", name),
		                     "what was there before");
}

/* Where what is copied from HBM comes to. */
static void copies_scratch(Planner *p, Places *s, const AccessWant *w, Dtype dtype) {
	const char *name = node_get(p->m, w->node)->name;
	const Scratch rows = p->plan->scratches.at[s->rows];
	int64_t shape[DIM_MAX];
	memcpy(shape, rows.shape, rows.rank * sizeof *shape);
	shape[rows.rank] = shape[rows.rank - 1];
	shape[rows.rank - 1] = s->group;
	/* One wait is for as many bytes as all copies have: where they fill the tiles of scratch, or lie in its own. */
	bool fills = s->kept > 1 || (rows.shape[rows.rank - 2] % target_packed_rows(p->m->target, 32) == 0 &&
	                             rows.shape[rows.rank - 1] % p->m->target->lanes == 0);
	if (s->group > 1 || !fills)
		s->groups = add_scratch(p, SCRATCH_VMEM, dtype, rows.rank + 1, shape,
		                        arena_printf(p->a, "%s_groups", name), "what is copied from HBM, row by row");
	shape[rows.rank - 1] = s->last_rows;
	if (s->last_rows)
		s->last = add_scratch(p, SCRATCH_VMEM, dtype, 2, shape + rows.rank - 1,
		                      arena_printf(p->a, "%s_last", name), "the last rows, which fill no word");
	s->arrived = add_scratch(p, SCRATCH_DMA_SEMAPHORE, DTYPE_I32, 1, (const int64_t[]){1 + (s->last != NONE)},
	                         arena_printf(p->a, "%s_arrived", name), "the copies of rows");
}

static bool scatter_fits(Planner *p, const AccessWant *w, const Access *access) {
	return !access->perm_rank || plan_refuse(p, w->node, "unsupported", "scatter to the tensor itself",
	                                         "a scatter through a transposed view is not lowered yet");
}

bool places_plan(Planner *p, const AccessWant *w, const Access *access) {
	if (w->places == NONE)
		return true;
	Places *s = &p->plan->places.at[w->places];
	const char *tensor = p->m->tensors.at[w->tensor].name;
	if (w->store && s->count && !scatter_fits(p, w, access))
		return false;
	for (uint32_t i = 0; i < s->count; i++)
		if (place_table(p->plan, s->of[i].index) == NONE)
			place_scratch(p, s, &s->of[i]);
	rows_scratch(p, s, w, access);
	if (s->copied && s->numbers == NONE)
		copies_scratch(p, s, w, p->plan->operands.at[access->operand].dtype);
	if (access->column && s->kept > 1)
		return plan_refuse(
			p, w->node, "unsupported", "gather along another dim, or fewer dims at once",
			"%s is indexed by a tensor in its last dim, beside %u others: that is not lowered yet", tensor,
			s->kept);
	const Operand *o = &p->plan->operands.at[access->operand];
	if (s->kept == 0 && o->dtype == DTYPE_BOOL &&
	    o->space != SPACE_SMEM) /* "dynamic load with unaligned indices" */
		return plan_refuse(p, w->node, "unsupported", "make it an int8 tensor",
		                   "single bools are gathered from %s, which Mosaic does not load", tensor);
	plan_remark(p->plan, "%s: one position after the other, %s", tensor,
	            w->store ? "each changed where it lies in VMEM"
	            : s->numbers != NONE
	                    ? "each copied from HBM, where the tensor stays, and all taken at once from words"
	            : s->copied ? "each copied from HBM, where the tensor stays"
	                        : "each sliced from a block in VMEM");
	return true;
}
