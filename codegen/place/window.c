/* window.c - what one step of an inner loop sees of an operand: a window that the loop copies from HBM, or a slice of a
 * resident block. */
#include "access.h"
#include "place.h"

/* ---- windows of loops ------------------------------------------------------------------------------------------- */

/* A loop around this one moves the dim. */
static bool outer_loop_moves(const AccessWant *w, uint32_t dim) {
	for (uint32_t t = 0; t < w->dim[dim].at.count; t++) {
		const Term *term = &w->dim[dim].at.term[t];
		if (term->kind == VAR_STEP && term->id / RANK_MAX != w->loop)
			return true;
	}
	return false;
}

/* Why single positions along operand dim d cannot be copied; NULL if they can. */
static const char *piece_refused(Planner *p, const Operand *o, const AccessWant *w, uint32_t d) {
	const Loop *loop = &p->plan->loops.at[w->loop];
	bool rows = d + 2 == o->rank &&
	            target_takes_rows(p->m->target, TILE_COPY, dtype_vmem_bits(o->dtype), o->shape[o->rank - 1], 1);
	if (loop->type != LOOP_FORI)
		return "fori_loop alone copies what a table names";
	return d + 2 < o->rank || rows ? NULL : "it gathers single rows of tiles that hold several";
}

/* The largest number that all values of `at` are multiples of, but for their constant; at most `multiple`. */
static int64_t stride_of(const Affine *at, int64_t multiple) {
	int64_t stride = multiple;
	for (uint32_t i = 0; i < at->count; i++)
		stride = int_gcd(stride, at->term[i].scale);
	return stride;
}

/* How far after a multiple of that it may start. */
static int64_t farthest_start(const Affine *at, int64_t multiple) {
	int64_t stride = stride_of(at, multiple), rest = at->constant % stride;
	return multiple - stride + (rest < 0 ? rest + stride : rest);
}

/* As many rows as whole registers hold, which turn. */
static int64_t rows_copied_around(Planner *p, const Operand *o, const Want *want, int64_t multiple) {
	int64_t packed = target_packed_rows(p->m->target, dtype_vmem_bits(o->dtype));
	return int_round_up(farthest_start(&want->at, multiple) + want->size,
	                    int_max(multiple, packed)); /* powers of two */
}

/* A resident block leaves so many percent of VMEM to all else. */
enum { RESIDENT_LEAVES = 25 };

/* Copies are asked for, or a resident block would be too large. */
static bool worth_around(Planner *p, const AccessWant *w) {
	const Target *t = p->m->target;
	Operand o = {.space = SPACE_WINDOW, .input = true};
	if ((Switch)p->m->config.fori_dma.value == SWITCH_ON)
		return true;
	return operand_array(p, &o, w) && operand_block(p, &o, w, false) &&
	       vmem_bytes(t, o.dtype, o.rank, o.block) > t->vmem_bytes / 100 * (100 - RESIDENT_LEAVES);
}

/* Of dim i, rows: tiles that start anywhere are copied with the whole tiles of HBM around them, all inside the array;
 * what those start at multiples of. 0: they are not. */
static int64_t rows_around(Planner *p, const Operand *o, const AccessWant *w, uint32_t i) {
	const Target *t = p->m->target;
	const Loop *loop = &p->plan->loops.at[w->loop];
	const Want *want = &w->dim[i];
	if (w->store || loop->type != LOOP_FORI || loop->peeled || want->kind != WANT_STEP ||
	    o->dim_of[i] + 2 != o->rank || !want_ahead(p, w->loop, want) || !worth_around(p, w))
		return 0;
	if (affine_multiple(&want->at, want->size) && !loop_ragged_unpeeled(p, loop))
		return 0;
	int bits = dtype_vmem_bits(o->dtype);
	int64_t width = o->shape[o->rank - 1], multiple = int_max(target_row_multiple(t, TILE_COPY, bits, width),
	                                                          target_row_multiple(t, TILE_SLICE, bits, width));
	bool fits = multiple > 0 && want->extent % multiple == 0 &&
	            rows_copied_around(p, o, want, multiple) <= want->extent;
	return fits ? multiple : 0;
}

/* An array of half a register's rows, or fewer, has smaller tiles in HBM than windows of more rows have in VMEM:
 * clipped to those, they are no whole tiles (libtpu 0.0.51; of 8 to 32 bits the same). */
static bool has_smaller_tiles(const Target *t, int64_t rows, int64_t window_rows) {
	return vmem_tile_rows(t, rows, 32) < vmem_tile_rows(t, window_rows, 32);
}

/* Block and block index of one step's window, in operand dims; NULL, or why it cannot be copied. */
static const char *step_window(Planner *p, Operand *o, const AccessWant *w, int64_t *block, Affine *index) {
	/* emit_pipeline clips a window that reaches past the array to whole tiles, as the grid's own pipeline does. */
	bool clips = p->plan->loops.at[w->loop].type == LOOP_EMIT_PIPELINE;
	TileUse use = w->store ? TILE_COPY_OUT : TILE_COPY;
	for (uint32_t i = 0; i < w->rank; i++) {
		uint32_t d = o->dim_of[i];
		const Want *want = &w->dim[i];
		bool tiled = d + 2 >= o->rank;
		block[d] = o->shape[d];
		index[d] = affine_int(0);
		if (want->kind == WANT_AT && tiled)
			return "it reads one position of a tiled dim";
		if (want->kind == WANT_WHOLE)
			continue;
		block[d] = want->size;
		if (want->kind == WANT_GATHER) {
			const char *why = piece_refused(p, o, w, d);
			if (why)
				return why;
			continue;
		}
		if (!want_ahead(p, w->loop, want))
			return "the step itself computes where it is";
		int64_t around = rows_around(p, o, w, i);
		if (around) {
			block[d] = rows_copied_around(p, o, want, around);
			continue;
		}
		if (!affine_multiple(&want->at, block[d]))
			return "its windows do not start at multiples of the block";
		index[d] = affine_divide(p->a, want->at, block[d]);
		bool outer = want->kind == WANT_STEP && outer_loop_moves(w, i);
		bool ends_short = want->kind == WANT_GRID || outer ||
		                  (want->kind == WANT_STEP && !p->plan->loops.at[w->loop].peeled);
		if (!ends_short || want->extent % want->size == 0)
			continue;
		if (!clips)
			return outer ? "its last block in an outer loop reaches past the tensor"
			             : "its last block in a grid dim reaches past the tensor";
		if (d + 2 == o->rank && has_smaller_tiles(p->m->target, o->shape[d], want->size))
			return "it has fewer rows than a tile of its windows";
		if (tiled)
			use = TILE_CLIPPED;
	}
	return operand_align(p, o, block, index, w->rank, use);
}

/* The peeled step reads a window that the grid moves: no other loop may move it. */
static bool tail_moves(const AccessWant *w) {
	for (uint32_t i = 0; i < w->rank; i++)
		for (uint32_t t = 0; t < w->dim[i].at.count; t++) {
			const Term *term = &w->dim[i].at.term[t];
			if (term->kind == VAR_NODE || (term->kind == VAR_STEP && term->id / RANK_MAX != w->loop))
				return true;
		}
	return false;
}

static bool fori_copies(const Planner *p) {
	ChoiceValue windows = p->way.at[ROW_WINDOWS];
	bool kept = windows >= WINDOWS_KEPT && windows <= WINDOWS_ALL_KEPT;
	return windows == WINDOWS_COPIED || (kept && (Switch)p->m->config.fori_dma.value != SWITCH_OFF);
}

static const char *why_resident(const Planner *p) {
	if (way_is(p, ROW_STEPS, STEPS_STRAIGHT))
		return "its loop is straight code";
	if (way_holds_all(p))
		return "one window holds all steps";
	if (p->m->fenced)
		return "unrolled steps read resident blocks";
	return (Switch)p->m->config.fori_dma.value == SWITCH_OFF
	               ? "pallas_fori_dma is off"
	               : "pallas_fori_dma is auto, and a resident block is estimated to be faster";
}

/* It reads tiles of the loop's own blocks, of which the last may reach past its end. */
static bool want_tiles(Planner *p, const Operand *o, const AccessWant *w) {
	bool tiles = w->store;
	for (uint32_t i = 0; i < w->rank; i++)
		tiles = tiles || (w->dim[i].kind == WANT_STEP && !rows_around(p, o, w, i));
	return tiles;
}

/* Why the loop cannot copy the window of this access; NULL if it can. Fills o, block and index. */
const char *window_not_copied(Planner *p, const AccessWant *w, Operand *o, int64_t *block, Affine *index) {
	const Loop *loop = &p->plan->loops.at[w->loop];
	if (loop->type == LOOP_UNROLL)
		return "unrolled steps read resident blocks";
	if (loop->type == LOOP_FORI && !fori_copies(p) && want_gathers(w) == NONE)
		return why_resident(p);
	bool unpeeled = loop_ragged_unpeeled(p, loop);
	if (unpeeled && loop->type == LOOP_FORI && want_tiles(p, o, w))
		return "its last step is ragged and cannot be peeled";
	if (w->store && (loop->peeled || unpeeled))
		return "the ragged last step writes part of a window";
	if (loop->peeled && tail_moves(w))
		return "an outer loop moves its ragged last step too";
	if (p->m->tensors.at[w->tensor].dtype == DTYPE_BOOL)
		return "it is bool, which no DMA copies"; /* jax: "DMAs with bool dtypes are not supported" */
	const char *refused = step_window(p, o, w, block, index);
	return refused ? refused : w->stays;
}

static bool window_equal(const Window *a, const Window *b, uint32_t rank) {
	bool same = a->operand == b->operand && a->dma == b->dma && a->output == b->output && a->pieces == b->pieces &&
	            a->places == b->places;
	for (uint32_t i = 0; same && i < rank; i++)
		same = a->block[i] == b->block[i] && affine_equal(&a->index[i], &b->index[i]) &&
		       affine_equal(&a->start[i], &b->start[i]) && a->around[i] == b->around[i];
	return same;
}

static uint32_t window_intern(Planner *p, Loop *loop, Window *win) {
	const Operand *o = &p->plan->operands.at[win->operand];
	const char *name = p->m->tensors.at[o->tensor].name;
	uint32_t same_tensor = 0;
	for (uint32_t i = 0; i < loop->windows.count; i++) {
		if (window_equal(&loop->windows.at[i], win, o->rank))
			return i;
		same_tensor += p->plan->operands.at[loop->windows.at[i].operand].tensor == o->tensor;
	}
	win->ref =
		same_tensor ? arena_printf(p->a, "%s_win_%u", name, same_tensor) : arena_printf(p->a, "%s_win", name);
	vec_push(p->a, &loop->windows, *win);
	return loop->windows.count - 1;
}

/* The buffers and semaphores of a window that fori_loop copies itself. */
static void window_scratch(Planner *p, Window *win, const Operand *o, const char *name) {
	Scratch buffer = {.kind = SCRATCH_VMEM, .dtype = o->dtype, .rank = o->rank + 1, .bytes = win->bytes};
	buffer.why = "copies of the loop's windows";
	buffer.shape[0] = win->buffers;
	memcpy(buffer.shape + 1, win->block, o->rank * sizeof(int64_t));
	buffer.ref = arena_printf(p->a, "%s_buf", name);
	win->scratch = plan_scratch(p, buffer);
	Scratch semaphore = {.kind = SCRATCH_DMA_SEMAPHORE, .rank = 1, .shape = {win->buffers}};
	semaphore.ref = arena_printf(p->a, "%s_sem", name);
	win->semaphore = plan_scratch(p, semaphore);
}

/* The ragged last step reads the same slices of its own window. */
static bool tail_matches(Planner *p, const AccessWant *w, const Window *win) {
	const Operand *tail = &p->plan->operands.at[win->tail_operand];
	for (uint32_t d = 0; d < tail->rank; d++)
		if (tail->block[d] != win->block[d])
			return refuse_block(p, w, "the ragged last step would need another block");
	return true;
}

/* Some rows come with whole tiles around them. */
static bool copied_around(Planner *p, const Operand *o, const AccessWant *w) {
	bool any = false;
	for (uint32_t i = 0; i < w->rank; i++)
		any = any || rows_around(p, o, w, i);
	return any;
}

static bool window_copied(Planner *p, const AccessWant *w, Operand *o, Window *win) {
	Loop *loop = &p->plan->loops.at[w->loop];
	TensorId base = o->tensor;
	o->space = SPACE_HBM;
	o->input = !w->store;
	o->output = w->store;
	o->why = "in HBM; the loop copies windows of it";
	if (!w->store && want_gathers(w) == NONE && !copied_around(p, o, w))
		operand_take_within(p, o, operand_within(p, o, win->block, TILE_COPY));
	win->operand = operand_intern(p, o, "_hbm");
	win->dma = true;
	if (want_gathers(w) != NONE) {
		win->pieces = o->dim_of[want_gathers(w)];
		win->places = w->dim[want_gathers(w)].index;
	}
	for (uint32_t i = 0; i < w->rank; i++) {
		uint32_t d = o->dim_of[i];
		win->around[d] = rows_around(p, o, w, i);
		if (win->around[d])
			win->start[d] = w->dim[i].at;
		if (win->around[d] > 1)
			win->multiple[d] = win->around[d];
	}
	win->buffers = w->store ? 2 : input_buffers(p, base);
	int64_t (*bytes)(const Target *, Dtype, uint32_t, const int64_t *) =
		loop->type == LOOP_EMIT_PIPELINE ? vmem_bytes : scratch_vmem_bytes;
	win->bytes = win->buffers * bytes(p->m->target, o->dtype, o->rank, win->block);
	win->tail_operand = NONE;
	if (loop->peeled) {
		win->tail_operand = operand_window(p, w, true, "_tail_ref");
		if (win->tail_operand == NONE || !tail_matches(p, w, win))
			return false;
	}
	loop->dma = true;
	return true;
}

/* Its value is known only where the kernel runs: an unrolled loop's steps are numbers. */
static bool affine_traced(const Planner *p, const Affine *a) {
	for (uint32_t i = 0; i < a->count; i++)
		if (a->term[i].kind != VAR_STEP || p->plan->loops.at[a->term[i].id / RANK_MAX].type != LOOP_UNROLL)
			return true;
	return false;
}

/* What a slice of a block in VMEM, from a start that the kernel computes, is a multiple of in operand dim d. */
static int64_t slice_multiple(const Planner *p, const Operand *o, uint32_t d) {
	if (d + 2 < o->rank)
		return 1;
	return d + 1 == o->rank ? p->m->target->lanes
	                        : target_row_multiple(p->m->target, operand_slice_use(o), dtype_vmem_bits(o->dtype),
	                                              o->block[o->rank - 1]);
}

/* Tiles of one row of lanes, as a unit dim before the last makes them: Mosaic slices them at whole tiles only
 * ("Unsupported tiling for 2d load/store", libtpu 0.0.51), a [1, n] array apart. */
static bool tiles_of_one_row(const Operand *o) { return o->rank > 2 && o->block[o->rank - 2] == 1; }

/* Whether the compiler can slice `size` elements from `at` out of a block in VMEM. */
static bool slice_ok(Planner *p, const Operand *o, uint32_t d, int64_t size, const Affine *at) {
	if (size == o->block[d] || affine_divisible(p, at, slice_multiple(p, o, d)))
		return true;
	if (!affine_traced(p, at))
		return d + 1 < o->rank || !tiles_of_one_row(o);
	return d + 2 == o->rank && affine_multiple(at, size) &&
	       target_takes_rows(p->m->target, operand_slice_use(o), dtype_vmem_bits(o->dtype), o->block[o->rank - 1],
	                         size);
}

int64_t slice_hint(Planner *p, const Operand *o, uint32_t d, const Affine *at) {
	int64_t multiple = slice_multiple(p, o, d);
	return !affine_multiple(at, multiple) && affine_divisible(p, at, multiple) ? multiple : 0;
}

int64_t slice_block(Planner *p, const Operand *o, uint32_t d, int64_t size, const Affine *at) {
	return slice_ok(p, o, d, size, at) ? o->block[d] : int_round_up(o->block[d], slice_multiple(p, o, d));
}

/* Of so many elements around the slice, it is turned to the first place. The last of a block that ends between
 * multiples reach its end. */
static void slice_around(Planner *p, const Operand *o, uint32_t d, SliceDim *s) {
	int64_t multiple = slice_multiple(p, o, d);
	int64_t farthest = farthest_start(&s->start, multiple);
	s->multiple = multiple;
	s->window = int_min(int_round_up(farthest + s->size, multiple) + o->block[d] % multiple, o->block[d]);
	s->last = o->block[d] - s->window;
	plan_remark(p->plan,
	            "%s: slices of %lld in dim %u of its block start at computed positions, not at multiples of %lld: "
	            "%lld are read and turned to their place, which starts at multiples would save",
	            p->m->tensors.at[o->tensor].name, (long long)s->size, d, (long long)multiple, (long long)s->window);
}

void slice_place(Planner *p, const Operand *o, uint32_t d, SliceDim *s) {
	s->multiple = slice_hint(p, o, d, &s->start);
	if (s->kind != SLICE_ALL && !slice_ok(p, o, d, s->size, &s->start))
		slice_around(p, o, d, s);
}

bool window_between_tiles(const Planner *p, const Operand *o, const Window *win) {
	bool between = false;
	for (uint32_t d = o->rank > 1 ? o->rank - 2 : 0; d < o->rank && !win->dma; d++)
		between = between || (win->block[d] != o->block[d] && win->block[d] % slice_multiple(p, o, d) != 0);
	return between;
}

void slice_whole(Planner *p, const Operand *o, uint32_t d, SliceDim *s) {
	int64_t multiple = slice_multiple(p, o, d);
	if (s->kind == SLICE_ALL || d + 2 < o->rank || o->block[d] % multiple != 0) {
		slice_place(p, o, d, s);
		return;
	}
	s->multiple = multiple;
	s->window = o->block[d];
	s->last = 0;
	plan_remark(p->plan,
	            "%s: slices of %lld in dim %u of windows that start between tiles: all of it is read and turned to "
	            "its place, which windows of whole tiles would save",
	            p->m->tensors.at[o->tensor].name, (long long)s->size, d);
}

/* One element. */
static bool single(const Operand *o, const SliceDim *dims) {
	bool all = true;
	for (uint32_t d = 0; d < o->rank; d++)
		all = all && dims[d].kind == SLICE_AT;
	return all;
}

void slice_single(Planner *p, const Operand *o, SliceDim *dims) {
	bool around = false;
	for (uint32_t d = 0; d < o->rank; d++)
		around = around || (dims[d].window && d + 2 != o->rank);
	if (single(o, dims) && !around)
		slice_around(p, o, o->rank - 1, &dims[o->rank - 1]);
}

/* Only a lane is left, and something around it. */
static bool only_a_lane(const Operand *o, const SliceDim *dims) {
	for (uint32_t d = 0; d < o->rank; d++)
		if (dims[d].kind != SLICE_AT || (d + 1 < o->rank && dims[d].window))
			return false;
	return dims[o->rank - 1].window > 0;
}

void slice_keep_row(Planner *p, const Operand *o, SliceDim *dims, bool turned) {
	SliceDim *row = &dims[o->rank - 2], *lane = &dims[o->rank - 1];
	if (single(o, dims) && !row->window && !affine_traced(p, &lane->start) && affine_traced(p, &row->start) &&
	    !affine_divisible(p, &row->start, slice_multiple(p, o, o->rank - 2))) { /* of a whole row */
		lane->window = o->block[o->rank - 1];
		lane->multiple = p->m->target->lanes;
		lane->last = 0;
		return;
	}
	if (!only_a_lane(o, dims) || !(turned || affine_traced(p, &lane->start)))
		return;
	int bits = dtype_vmem_bits(o->dtype);
	bool part = lane->window < o->block[o->rank - 1] ||
	            !target_takes_rows(p->m->target, operand_slice_use(o), bits, o->block[o->rank - 1], 1);
	bool aligned = affine_divisible(p, &row->start, slice_multiple(p, o, o->rank - 2));
	row->size = 1;
	if (part && !aligned && (turned || affine_traced(p, &row->start)))
		slice_around(p, o, o->rank - 2, row);
	else if (turned && !affine_divisible(p, &lane->start, lane->multiple))
		*row = (SliceDim){SLICE_AT,    .start = row->start, .size = 1,
		                  .window = 1, .multiple = 1,       .last = o->block[o->rank - 2] - 1};
}

/* A part of the lanes that is read of a row at a computed place: whole registers. Mosaic says of others "dynamic load
 * with unaligned indices", and writes all of a row's lanes or whole tiles of rows (libtpu 0.0.51). */
static bool part_ok(Planner *p, const Operand *o, const SliceDim *lane, bool store) {
	int64_t lanes = p->m->target->lanes;
	if (lane->window || lane->size == o->block[o->rank - 1])
		return true;
	return !store && lane->size % lanes == 0 && affine_divisible(p, &lane->start, lanes);
}

void slice_both(Planner *p, const Operand *o, SliceDim *dims, bool lanes_move, bool store) {
	SliceDim *row = &dims[o->rank - 2], *lane = &dims[o->rank - 1];
	bool whole = lane->kind == SLICE_ALL || single(o, dims); /* of one element slice_keep_row() reads the row */
	lanes_move = lanes_move || (!whole && affine_traced(p, &lane->start));
	if ((lanes_move || (!whole && !part_ok(p, o, lane, store))) && row->kind != SLICE_ALL && !row->window &&
	    !row->parts && affine_traced(p, &row->start) &&
	    !affine_divisible(p, &row->start, slice_multiple(p, o, o->rank - 2)))
		slice_around(p, o, o->rank - 2, row);
}

/* Mosaic slices no reference between whole tiles of which one position is taken then ("Offsets along tiled dimensions
 * must be aligned to tiles", libtpu 0.0.51): both at once. */
static bool taken_at_once(Planner *p, const AccessWant *w, const Operand *o, uint32_t d, const Affine *start) {
	bool position = false;
	for (uint32_t i = 0; i < w->rank; i++)
		position = position || w->dim[i].kind == WANT_AT;
	return position && d + 2 >= o->rank && !affine_divisible(p, start, slice_multiple(p, o, d));
}

static bool window_resident(Planner *p, const AccessWant *w, Window *win) {
	win->operand = operand_window(p, w, false, "_ref");
	if (win->operand == NONE)
		return false;
	const Operand *o = &p->plan->operands.at[win->operand];
	for (uint32_t d = 0; d < o->rank; d++) {
		win->block[d] = o->block[d];
		win->index[d] = affine_int(0);
	}
	for (uint32_t i = 0; i < w->rank; i++) {
		if (w->dim[i].kind != WANT_STEP)
			continue;
		uint32_t d = o->dim_of[i];
		Affine start = affine_add(p->a, w->dim[i].at, affine_scale(p->a, o->index[d], -o->block[d]));
		if (!slice_ok(p, o, d, w->dim[i].size, &start) || taken_at_once(p, w, o, d, &start))
			continue; /* the access slices it */
		win->block[d] = w->dim[i].size;
		if (affine_multiple(&start, win->block[d]))
			win->index[d] = affine_divide(p->a, start, win->block[d]);
		else
			win->start[d] = start, win->multiple[d] = slice_hint(p, o, d, &start);
	}
	win->tail_operand = NONE;
	return true;
}

static bool window_is_around(const Window *win) {
	bool any = false;
	for (uint32_t d = 0; d < DIM_MAX; d++)
		any = any || win->around[d];
	return any;
}

static bool refuse_dma(Planner *p, const char *tensor, const char *why) {
	diag_error(p->d, config_place(&p->m->config.fori_dma.origin), "fori-dma", "auto copies what can be copied",
	           "pallas_fori_dma is on, and tensor %s cannot be copied window by window: %s", tensor, why);
	return false;
}

/* The window of an access that a loop moves; NONE after a diagnostic. */
uint32_t loop_window(Planner *p, const AccessWant *w) {
	Loop *loop = &p->plan->loops.at[w->loop];
	Window win = {.input = !w->store,
	              .output = w->store,
	              .scratch = NONE,
	              .semaphore = NONE,
	              .pieces = NONE,
	              .places = NONE};
	Operand o = {0};
	if (!operand_array(p, &o, w))
		return NONE;
	const char *name = p->m->tensors.at[o.tensor].name;
	win.why = window_not_copied(p, w, &o, win.block, win.index);
	if (win.why && !w->store && loop->type == LOOP_FORI && (Switch)p->m->config.fori_dma.value == SWITCH_ON)
		return refuse_dma(p, name, win.why), NONE;
	bool ok = win.why ? window_resident(p, w, &win) : window_copied(p, w, &o, &win);
	if (!ok)
		return NONE;
	plan_remark(p->plan, "%s: %s is %s: %s", loop->name, name, win.dma ? "copied window by window" : "resident",
	            win.why                  ? win.why
	            : window_is_around(&win) ? "with whole tiles around each window, which starts anywhere, and turned"
	                                     : "aligned, and moved by this loop");
	uint32_t before = loop->windows.count, index = window_intern(p, loop, &win);
	if (win.dma && loop->type == LOOP_FORI && loop->windows.count > before)
		window_scratch(p, &loop->windows.at[index], &p->plan->operands.at[win.operand],
		               arena_printf(p->a, "%.*s", (int)(strlen(loop->windows.at[index].ref) - 4),
		                            loop->windows.at[index].ref));
	return index;
}
