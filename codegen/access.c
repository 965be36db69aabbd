/* access.c - where every load and store goes: each tensor's memory space, boundary view, block shape and index map, and
 * the windows of the inner loops.
 *
 * A load is pipelined by the innermost loop that iterates one of its block ids, if that loop copies (fori_loop with DMA,
 * emit_pipeline) and the window is aligned; a load whose ids match none of a loop's stays where it is, and the loop
 * reads it through the resident block. Alignment is asked for each operand alone. */
#include "planner.h"
#include <stdio.h>

/* What an access wants of one dim of the tensor as the graph names it. */
typedef enum WantKind {
	WANT_WHOLE,
	WANT_GRID,  /* the tile of a block that the grid iterates */
	WANT_STEP,  /* the tile of a block that an inner loop iterates */
	WANT_AT,    /* one position */
	WANT_RANGE  /* a constant slice */
} WantKind;

typedef struct Want {
	WantKind kind;
	uint32_t loop, loop_dim; /* STEP */
	uint32_t grid_dim;       /* GRID */
	int64_t size;            /* elements of the tile */
	Affine at;               /* first element */
	int64_t extent;          /* of the tensor's dim */
} Want;

typedef struct AccessWant {
	NodeId node;
	TensorId tensor;
	bool store;
	uint32_t rank;
	Want dim[RANK_MAX];
	uint32_t loop; /* the innermost loop that moves it; NONE */
} AccessWant;

/* ---- the array as the kernel sees it ---------------------------------------------------------------------------- */

static int64_t tensor_dim(const Planner *p, const Tensor *t, uint32_t d) { return expr_number(p->m, t->shape[d]); }

static void add_step(Planner *p, Operand *o, ArrayStep s) {
	for (uint32_t i = 0; i < s.rank && s.kind != ARRAY_TRANSPOSE; i++)
		o->shape[i] = s.shape[i];
	o->rank = s.rank;
	vec_push(p->a, &o->steps, s);
}

static void reshape_step(Planner *p, Operand *o, const Tensor *view) {
	ArrayStep s = {.kind = ARRAY_RESHAPE, .rank = view->rank};
	bool same = view->rank == o->rank;
	for (uint32_t i = 0; i < view->rank; i++) {
		s.shape[i] = tensor_dim(p, view, i);
		same = same && s.shape[i] == o->shape[i];
	}
	if (!same)
		add_step(p, o, s);
}

static void permute_step(Planner *p, Operand *o, const Tensor *view) {
	ArrayStep s = {.kind = ARRAY_TRANSPOSE, .rank = view->rank};
	int64_t shape[DIM_MAX];
	for (uint32_t i = 0; i < view->rank; i++) {
		s.shape[i] = view->view_arg[i][0];
		shape[i] = o->shape[s.shape[i]];
	}
	memcpy(o->shape, shape, sizeof shape);
	add_step(p, o, s);
}

static void slice_step(Planner *p, Operand *o, const Tensor *view) {
	ArrayStep s = {.kind = view->view == VIEW_SLICE ? ARRAY_SLICE : ARRAY_EXPAND, .rank = view->rank};
	for (uint32_t i = 0; i < view->rank; i++) {
		s.shape[i] = tensor_dim(p, view, i);
		for (int k = 0; k < 3; k++)
			s.slice[i][k] = view->view_arg[i][k];
	}
	add_step(p, o, s);
}

/* The last two dims, and nothing else, are swapped: the kernel reads the tile as it lies and the matmul contracts the
 * other dim, which costs nothing; any other permutation is made in HBM by the wrapper. */
static bool swaps_last_two(const Tensor *view) {
	if (view->view != VIEW_PERMUTE || view->rank < 2)
		return false;
	for (uint32_t i = 0; i < view->rank; i++) {
		uint32_t to = i == view->rank - 1 ? i - 1 : i == view->rank - 2 ? i + 1 : i;
		if (view->view_arg[i][0] != (int64_t)to)
			return false;
	}
	return true;
}

static bool array_steps(Planner *p, Operand *o, TensorId t, bool outermost, NodeId n, bool store) {
	const Tensor *view = &p->m->tensors.at[t];
	if (view->role == ROLE_DERIVED)
		return plan_refuse(p, n, "unsupported", "compute it before the call and pass it as an input",
		                   "derived tensor %s is not lowered yet", view->name);
	if (view->role != ROLE_VIEW) {
		o->tensor = t;
		o->dtype = view->dtype;
		o->rank = view->rank;
		for (uint32_t i = 0; i < view->rank; i++)
			o->shape[i] = tensor_dim(p, view, i);
		return true;
	}
	if (!array_steps(p, o, view->of, false, n, store))
		return false;
	if (store && (view->view == VIEW_SLICE || view->view == VIEW_EXPAND))
		return plan_refuse(p, n, "unsupported", "store through a reshape or permute view, or to the tensor itself",
		                   "a store through the slice or expand view %s is not lowered yet", view->name);
	if (outermost && swaps_last_two(view))
		return true; /* dim_of swaps instead */
	if (view->view == VIEW_RESHAPE)
		reshape_step(p, o, view);
	else if (view->view == VIEW_PERMUTE)
		permute_step(p, o, view);
	else
		slice_step(p, o, view);
	return true;
}

static bool operand_array(Planner *p, Operand *o, const AccessWant *w) {
	const Tensor *t = &p->m->tensors.at[w->tensor];
	o->seen_as = w->tensor;
	o->scalar = NONE;
	o->unit = NONE;
	o->alias_of = NONE;
	o->buffers = 2;
	if (!array_steps(p, o, w->tensor, true, w->node, w->store))
		return false;
	if (o->rank == 0)
		return plan_refuse(p, w->node, "unsupported", "pass it as a scalar", "0-d tensor %s is not lowered", t->name);
	for (uint32_t i = 0; i < w->rank; i++)
		o->dim_of[i] = i;
	if (t->role == ROLE_VIEW && swaps_last_two(t)) {
		o->dim_of[w->rank - 1] = w->rank - 2;
		o->dim_of[w->rank - 2] = w->rank - 1;
	}
	return true;
}

/* ---- alignment -------------------------------------------------------------------------------------------------- */

/* Rows of one packed tile: 8 of 32 bits, 16 of 16, 32 of 8 (jax's TPU tiling; copies of fewer were refused by Mosaic
 * with "Slice sizes along tiled dimensions must be aligned to tiles"). */
static int64_t packed_rows(const Planner *p, Dtype t) { return p->m->target->sublanes * 32 / int_min(dtype_bits(t), 32); }

static bool fits(int64_t block, int64_t dim, int64_t multiple) { return block == dim || block % multiple == 0; }

/* Inserts a dim of size 1 before operand dim `at`. */
static void insert_unit(Planner *p, Operand *o, int64_t *block, Affine *index, uint32_t at, uint32_t tensor_rank) {
	for (uint32_t i = o->rank; i > at; i--) {
		o->shape[i] = o->shape[i - 1];
		block[i] = block[i - 1];
		index[i] = index[i - 1];
	}
	o->shape[at] = block[at] = 1;
	index[at] = affine_int(0);
	for (uint32_t i = 0; i < tensor_rank; i++)
		o->dim_of[i] += o->dim_of[i] >= at;
	o->unit = at;
	ArrayStep s = {.kind = ARRAY_RESHAPE, .rank = o->rank + 1, .boundary = true};
	memcpy(s.shape, o->shape, sizeof s.shape);
	add_step(p, o, s);
}

/* Makes the block legal for the last two dims, with a boundary view where that helps. `rows`: what the second-last dim
 * must be a multiple of. Returns NULL, or what is wrong. */
static const char *operand_align(Planner *p, Operand *o, int64_t *block, Affine *index, uint32_t tensor_rank,
                                 int64_t rows) {
	int64_t lanes = p->m->target->lanes;
	uint32_t last = o->rank - 1;
	bool views = (Choice)p->m->config.boundary_views.value != CHOICE_OFF;
	int64_t lanes_1d = lanes * 32 / int_min(dtype_bits(o->dtype), 32);
	if (o->rank == 1) {
		if (!views && !fits(block[0], o->shape[0], lanes_1d))
			return arena_printf(p->a, "a 1-D block of %lld must be the whole dim of %lld or a multiple of %lld",
			                    (long long)block[0], (long long)o->shape[0], (long long)lanes_1d);
		insert_unit(p, o, block, index, 0, tensor_rank);
		last = 1;
	}
	if (!fits(block[last], o->shape[last], lanes))
		return arena_printf(p->a, "its last dim's block of %lld must be the whole dim of %lld or a multiple of %lld",
		                    (long long)block[last], (long long)o->shape[last], (long long)lanes);
	if (fits(block[last - 1], o->shape[last - 1], rows))
		return NULL;
	if (!views)
		return arena_printf(p->a, "its second-last dim's block of %lld must be the whole dim of %lld or a multiple of %lld",
		                    (long long)block[last - 1], (long long)o->shape[last - 1], (long long)rows);
	insert_unit(p, o, block, index, last, tensor_rank);
	return NULL;
}

/* ---- windows over the grid -------------------------------------------------------------------------------------- */

/* The elements a resident block needs in a dim that loop steps walk: whole steps, so that the last may reach past the
 * tensor's end; and a legal block again. */
static int64_t resident_extent(const Want *w, int64_t multiple) {
	if (w->extent % w->size == 0)
		return w->extent;
	return int_round_up(int_round_up(w->extent, w->size), multiple);
}

static bool grid_block(Planner *p, Operand *o, const AccessWant *w, bool step_is_tail, int64_t *block, Affine *index) {
	for (uint32_t i = 0; i < w->rank; i++) {
		uint32_t d = o->dim_of[i];
		const Want *want = &w->dim[i];
		bool tiled = d + 2 >= o->rank;
		int64_t multiple = d + 1 == o->rank ? p->m->target->lanes : packed_rows(p, o->dtype);
		block[d] = o->shape[d];
		index[d] = affine_int(0);
		if (want->kind == WANT_GRID) {
			if (!affine_multiple(&want->at, want->size))
				return plan_refuse(p, w->node, "unsupported", "start the range at a multiple of the block size",
				                   "a grid range that starts between blocks is not lowered");
			block[d] = want->size;
			index[d] = affine_divide(want->at, want->size);
		} else if (want->kind == WANT_STEP && step_is_tail) {
			const LoopDim *dim = &p->plan->loops.at[want->loop].dim[want->loop_dim];
			block[d] = want->size;
			index[d] = affine_int(dim->begin.constant / want->size + dim->full_steps);
		} else if (want->kind == WANT_STEP) {
			block[d] = resident_extent(want, multiple);
		} else if (want->kind == WANT_AT && !tiled) {
			block[d] = 1;
			index[d] = want->at;
		}
	}
	return true;
}

static bool affine_equal(const Affine *a, const Affine *b) {
	Affine difference = affine_add(*a, affine_scale(*b, -1));
	return difference.count == 0 && difference.constant == 0;
}

static bool operand_same(const Operand *a, const Operand *b) {
	if (a->tensor != b->tensor || a->space != b->space || a->rank != b->rank || a->steps.count != b->steps.count ||
	    a->output != b->output)
		return false;
	for (uint32_t i = 0; i < a->steps.count; i++)
		if (memcmp(&a->steps.at[i], &b->steps.at[i], sizeof(ArrayStep)) != 0)
			return false;
	for (uint32_t i = 0; i < a->rank; i++) {
		if (a->shape[i] != b->shape[i])
			return false;
		if (a->space == SPACE_WINDOW && (a->block[i] != b->block[i] || !affine_equal(&a->index[i], &b->index[i])))
			return false;
	}
	return true;
}

/* The operand's index in the plan: an equal one that is there already, or a new one. */
static uint32_t operand_intern(Planner *p, Operand *o, const char *suffix) {
	uint32_t same_tensor = 0;
	for (uint32_t i = 0; i < p->plan->operands.count; i++) {
		Operand *old = &p->plan->operands.at[i];
		if (operand_same(old, o))
			return i;
		same_tensor += old->tensor == o->tensor && old->space == o->space;
	}
	const char *name = p->m->tensors.at[o->tensor].name;
	o->ref = same_tensor ? arena_printf(p->a, "%s%s_%u", name, suffix, same_tensor) : arena_printf(p->a, "%s%s", name, suffix);
	vec_push(p->a, &p->plan->operands, *o);
	return p->plan->operands.count - 1;
}

static bool refuse_block(Planner *p, const AccessWant *w, const char *why) {
	return plan_refuse(p, w->node, "block-alignment", "choose block sizes that meet it, or cover the dim",
	                   "tensor %s cannot be tiled this way: %s", p->m->tensors.at[w->tensor].name, why);
}

/* An operand that the grid's own pipeline brings to VMEM; NONE after a diagnostic. */
static uint32_t operand_window(Planner *p, const AccessWant *w, bool step_is_tail, const char *suffix) {
	Operand o = {.space = SPACE_WINDOW, .input = !w->store, .output = w->store};
	if (!operand_array(p, &o, w) || !grid_block(p, &o, w, step_is_tail, o.block, o.index))
		return NONE;
	const char *wrong = operand_align(p, &o, o.block, o.index, w->rank, p->m->target->sublanes);
	if (wrong)
		return refuse_block(p, w, wrong), NONE;
	o.why = step_is_tail ? "the ragged last step's window"
	        : w->loop == NONE ? "tiled by the grid"
	                          : "resident while the loop reads slices of it";
	return operand_intern(p, &o, suffix);
}

/* ---- windows of loops ------------------------------------------------------------------------------------------- */

/* Block and block index of one step's window, in operand dims; NULL, or why it cannot be copied. */
static const char *step_window(Planner *p, Operand *o, const AccessWant *w, int64_t *block, Affine *index) {
	/* emit_pipeline clips a window that reaches past the array to whole tiles, as the grid's own pipeline does. */
	bool clips = p->plan->loops.at[w->loop].type == LOOP_EMIT_PIPELINE;
	for (uint32_t i = 0; i < w->rank; i++) {
		uint32_t d = o->dim_of[i];
		const Want *want = &w->dim[i];
		bool tiled = d + 2 >= o->rank;
		block[d] = o->shape[d];
		index[d] = affine_int(0);
		if (want->kind == WANT_AT && tiled)
			return "it reads one position of a tiled dim";
		if (want->kind == WANT_RANGE)
			return "it reads a slice";
		if (want->kind == WANT_WHOLE)
			continue;
		block[d] = want->kind == WANT_AT ? 1 : want->size;
		if (!affine_multiple(&want->at, block[d]))
			return "its windows do not start at multiples of the block";
		index[d] = affine_divide(want->at, block[d]);
		if (want->kind == WANT_GRID && want->extent % want->size != 0 && !clips)
			return "its last block in a grid dim reaches past the tensor";
	}
	return operand_align(p, o, block, index, w->rank, packed_rows(p, o->dtype));
}

static bool tensor_written(const Planner *p, TensorId t) { return p->m->tensors.at[t].role != ROLE_INPUT; }

static bool loop_masks_every_step(const Loop *loop) {
	for (uint32_t i = 0; i < loop->rank; i++) {
		Affine length = affine_add(loop->dim[i].end, affine_scale(loop->dim[i].begin, -1));
		if (!loop->peeled && !affine_multiple(&length, loop->dim[i].step))
			return true;
	}
	return false;
}

/* Why the loop cannot copy the window of this access; NULL if it can. Fills o, block and index. */
static const char *window_not_copied(Planner *p, const AccessWant *w, Operand *o, int64_t *block, Affine *index) {
	const Loop *loop = &p->plan->loops.at[w->loop];
	if (loop->type == LOOP_UNROLL)
		return "unrolled steps read resident blocks";
	if (loop->type == LOOP_FORI && (Choice)p->m->config.fori_dma.value == CHOICE_OFF)
		return "pallas_fori_dma is off";
	if (loop_masks_every_step(loop))
		return "its last step is ragged and cannot be peeled";
	if (w->store && loop->peeled)
		return "the ragged last step writes part of a window";
	if (!w->store && tensor_written(p, tensor_base(p->m, w->tensor)))
		return "the kernel writes it";
	return step_window(p, o, w, block, index);
}

static int window_buffers(Planner *p, TensorId base, bool store) {
	const ConfigList *given = &p->m->config.load_buffer_count;
	if (store || !given->set)
		return 2;
	uint32_t input = 0;
	for (TensorId t = 0; t < base; t++)
		input += p->m->tensors.at[t].role == ROLE_INPUT || p->m->tensors.at[t].role == ROLE_INOUT;
	return input < given->values.count ? (int)given->values.at[input] : 2;
}

static bool window_equal(const Window *a, const Window *b, uint32_t rank) {
	bool same = a->operand == b->operand && a->dma == b->dma && a->output == b->output;
	for (uint32_t i = 0; same && i < rank; i++)
		same = a->block[i] == b->block[i] && affine_equal(&a->index[i], &b->index[i]);
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
	win->ref = same_tensor ? arena_printf(p->a, "%s_win_%u", name, same_tensor) : arena_printf(p->a, "%s_win", name);
	vec_push(p->a, &loop->windows, *win);
	return loop->windows.count - 1;
}

static uint32_t scratch_add(Planner *p, Scratch s) {
	vec_push(p->a, &p->plan->scratches, s);
	return p->plan->scratches.count - 1;
}

/* The buffers and semaphores of a window that fori_loop copies itself. */
static void window_scratch(Planner *p, Window *win, const Operand *o, const char *name) {
	Scratch buffer = {.kind = SCRATCH_VMEM, .dtype = o->dtype, .rank = o->rank + 1, .bytes = win->bytes};
	buffer.why = "copies of the loop's windows";
	buffer.shape[0] = win->buffers;
	memcpy(buffer.shape + 1, win->block, o->rank * sizeof(int64_t));
	buffer.ref = arena_printf(p->a, "%s_buf", name);
	win->scratch = scratch_add(p, buffer);
	Scratch semaphore = {.kind = SCRATCH_DMA_SEMAPHORE, .rank = 1, .shape = {win->buffers}};
	semaphore.ref = arena_printf(p->a, "%s_sem", name);
	win->semaphore = scratch_add(p, semaphore);
}

static bool window_copied(Planner *p, const AccessWant *w, Operand *o, Window *win) {
	Loop *loop = &p->plan->loops.at[w->loop];
	TensorId base = o->tensor;
	o->space = SPACE_HBM;
	o->input = !w->store;
	o->output = w->store;
	o->why = "in HBM; the loop copies windows of it";
	win->operand = operand_intern(p, o, "_hbm");
	win->dma = true;
	win->buffers = window_buffers(p, base, w->store);
	win->bytes = win->buffers * vmem_bytes(p->m->target, o->dtype, o->rank, win->block);
	win->tail_operand = NONE;
	if (loop->peeled) {
		win->tail_operand = operand_window(p, w, true, "_tail_ref");
		if (win->tail_operand == NONE)
			return false;
	}
	loop->dma = true;
	return true;
}

/* A loop that walks a resident block by a traced step must start at whole tiles. */
static bool resident_start_ok(Planner *p, const AccessWant *w, const Operand *o) {
	const Loop *loop = &p->plan->loops.at[w->loop];
	for (uint32_t i = 0; i < w->rank && loop->type != LOOP_UNROLL; i++) {
		uint32_t d = o->dim_of[i];
		int64_t multiple = d + 1 == o->rank ? p->m->target->lanes : d + 2 == o->rank ? packed_rows(p, o->dtype) : 1;
		if (w->dim[i].kind != WANT_STEP || w->dim[i].size == o->block[d] || affine_multiple(&w->dim[i].at, multiple))
			continue;
		return refuse_block(p, w, arena_printf(p->a, "steps of %lld in dim %u do not start at multiples of %lld; make it a "
		                                             "multiple or use unroll",
		                                       (long long)w->dim[i].size, i, (long long)multiple));
	}
	return true;
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
		win->block[o->dim_of[i]] = w->dim[i].size;
		if (!affine_multiple(&w->dim[i].at, w->dim[i].size))
			return plan_refuse(p, w->node, "unsupported", NULL, "a loop that starts between blocks is not lowered");
		win->index[o->dim_of[i]] = affine_divide(w->dim[i].at, w->dim[i].size);
	}
	win->tail_operand = NONE;
	return resident_start_ok(p, w, o);
}

/* The window of an access that a loop moves; NONE after a diagnostic. */
static uint32_t loop_window(Planner *p, const AccessWant *w) {
	Loop *loop = &p->plan->loops.at[w->loop];
	Window win = {.input = !w->store, .output = w->store, .scratch = NONE, .semaphore = NONE};
	Operand o = {0};
	if (!operand_array(p, &o, w))
		return NONE;
	const char *name = p->m->tensors.at[o.tensor].name;
	win.why = window_not_copied(p, w, &o, win.block, win.index);
	bool ok = win.why ? window_resident(p, w, &win) : window_copied(p, w, &o, &win);
	if (!ok)
		return NONE;
	plan_remark(p->plan, "%s: %s is %s: %s", loop->name, name,
	            win.dma ? "copied window by window" : "resident", win.why ? win.why : "aligned, and moved by this loop");
	uint32_t before = loop->windows.count, index = window_intern(p, loop, &win);
	if (win.dma && loop->type == LOOP_FORI && loop->windows.count > before)
		window_scratch(p, &loop->windows.at[index], &p->plan->operands.at[win.operand],
		               arena_printf(p->a, "%.*s", (int)(strlen(loop->windows.at[index].ref) - 4), loop->windows.at[index].ref));
	return index;
}

/* ---- from nodes to wants ---------------------------------------------------------------------------------------- */

static bool want_block(Planner *p, AccessWant *w, Want *want, BlockId b) {
	uint32_t dim, l = block_scope(p->plan, node_get(p->m, w->node)->graph, b, &dim);
	want->size = block_size(p, b);
	want->at = block_offset(p, node_get(p->m, w->node)->graph, b);
	if (l != NONE) {
		want->kind = WANT_STEP;
		want->loop = l;
		want->loop_dim = dim;
	} else if (dim != NONE) {
		want->kind = WANT_GRID;
		want->grid_dim = dim;
	} else {
		want->kind = WANT_WHOLE;
	}
	return true;
}

static bool want_of(Planner *p, AccessWant *w, Want *want, const Arg *entry) {
	GraphId g = node_get(p->m, w->node)->graph;
	if (entry->kind == ARG_NULL)
		return plan_refuse(p, w->node, "unsupported", "index it after the load", "a new axis in a load or store");
	if (entry->kind == ARG_REF && node_type(p->m, entry->node)->kind == TYPE_TENSOR && node_type(p->m, entry->node)->count)
		return plan_refuse(p, w->node, "unsupported", NULL, "gathers and scatters are not lowered yet");
	if (entry->kind == ARG_SLICE) {
		const Arg *start = arg_item(p->m, entry, 0), *stop = arg_item(p->m, entry, 1), *step = arg_item(p->m, entry, 2);
		bool whole = start->kind == ARG_NULL && stop->kind == ARG_NULL && step->kind == ARG_NULL;
		if (!whole)
			return plan_refuse(p, w->node, "unsupported", "slice the loaded value, or make a slice view of the tensor",
			                   "a bounded slice in a load or store is not lowered yet");
		want->kind = WANT_WHOLE;
		want->size = want->extent;
		return true;
	}
	ExprId e = entry->kind == ARG_SYM ? entry->expr : entry->kind == ARG_REF ? node_type(p->m, entry->node)->sym : NONE;
	BlockId b = entry->kind != ARG_INT && e != NONE ? expr_as_block(p->m, e) : NONE;
	if (b != NONE)
		return want_block(p, w, want, b);
	want->kind = WANT_AT;
	want->size = 1;
	want->at = affine_of_arg(p, g, entry);
	return true;
}

/* The innermost loop of the access's graph whose steps move it. */
static uint32_t access_loop(const Planner *p, const AccessWant *w) {
	for (uint32_t l = p->plan->loop_of[node_get(p->m, w->node)->graph]; l != NONE; l = p->plan->loops.at[l].parent)
		for (uint32_t i = 0; i < w->rank; i++)
			for (uint32_t t = 0; t < w->dim[i].at.count; t++)
				if (w->dim[i].at.term[t].kind == VAR_STEP && w->dim[i].at.term[t].id / RANK_MAX == l)
					return l;
	/* One static step leaves no term, but the window is that loop's all the same. */
	for (uint32_t i = 0; i < w->rank; i++)
		if (w->dim[i].kind == WANT_STEP)
			return w->dim[i].loop;
	return NONE;
}

static bool access_want(Planner *p, NodeId n, AccessWant *w) {
	Module *m = p->m;
	NodeId host = node_input(m, n, 0);
	if (host == NONE || node_get(m, host)->op != OP_HOST_TENSOR)
		return plan_refuse(p, n, "unsupported", NULL, "its tensor is not a tile.host_tensor");
	*w = (AccessWant){.node = n, .tensor = node_arg(m, host, 0)->tensor, .store = node_get(m, n)->op == OP_STORE};
	const Tensor *t = &m->tensors.at[w->tensor];
	const Arg *index = node_arg(m, n, 1);
	if (index->list.count != t->rank)
		return plan_refuse(p, n, "unsupported", "index it after the load", "a new axis in a load or store");
	w->rank = t->rank;
	for (uint32_t i = 0; i < w->rank; i++) {
		w->dim[i].extent = tensor_dim(p, t, i);
		if (!want_of(p, w, &w->dim[i], arg_item(m, index, i)))
			return false;
	}
	w->loop = access_loop(p, w);
	return true;
}

/* A store may not write lanes that are invalid but inside the tensor: the window would carry garbage there. */
static bool store_covers(Planner *p, const AccessWant *w) {
	GraphId g = node_get(p->m, w->node)->graph;
	for (uint32_t i = 0; i < w->rank; i++) {
		const Arg *entry = arg_item(p->m, node_arg(p->m, w->node, 1), i);
		ExprId e = entry->kind == ARG_SYM ? entry->expr : entry->kind == ARG_REF ? node_type(p->m, entry->node)->sym : NONE;
		BlockId b = e != NONE ? expr_as_block(p->m, e) : NONE;
		Affine end;
		bool peeled;
		if (b == NONE || !block_ragged(p, g, b, &end, &peeled))
			continue;
		if (!affine_is_int(&end) || end.constant != w->dim[i].extent)
			return plan_refuse(p, w->node, "unsupported", "use a block size that divides the range",
			                   "the range of %s ends inside tensor %s: a partial store there is not lowered yet",
			                   p->m->blocks.at[b].name, p->m->tensors.at[w->tensor].name);
	}
	return true;
}

/* ---- the access as the printer needs it ------------------------------------------------------------------------- */

static void access_dims(const AccessWant *w, const Operand *o, Access *access) {
	access->rank = o->rank;
	for (uint32_t d = 0; d < o->rank; d++)
		access->dim[d].kind = d == o->unit && w->rank > 1 ? SLICE_AT : SLICE_ALL;
	for (uint32_t i = 0; i < w->rank; i++) {
		if (w->dim[i].kind != WANT_AT)
			continue;
		SliceDim *s = &access->dim[o->dim_of[i]];
		s->kind = SLICE_AT;
		bool tiled = o->dim_of[i] + 2 >= o->rank && o->space == SPACE_WINDOW && access->kind == REF_OPERAND;
		s->start = tiled ? w->dim[i].at : affine_int(0);
	}
}

static void access_perm(const AccessWant *w, const Operand *o, Access *access) {
	if (w->rank < 2 || o->dim_of[w->rank - 1] > o->dim_of[w->rank - 2])
		return;
	access->perm_rank = w->rank; /* array_steps() leaves only a swap of the last two */
	for (uint32_t i = 0; i < w->rank; i++)
		access->perm[i] = i == w->rank - 1 ? i - 1 : i == w->rank - 2 ? i + 1 : i;
}

static bool access_plan(Planner *p, const AccessWant *w) {
	Access access = {.kind = w->loop == NONE ? REF_OPERAND : REF_WINDOW, .loop = w->loop, .window = NONE};
	if (w->loop == NONE) {
		access.operand = operand_window(p, w, false, "_ref");
		if (access.operand == NONE)
			return false;
	} else {
		access.window = loop_window(p, w);
		if (access.window == NONE)
			return false;
		access.operand = p->plan->loops.at[w->loop].windows.at[access.window].operand;
	}
	const Operand *o = &p->plan->operands.at[access.operand];
	access_dims(w, o, &access);
	access_perm(w, o, &access);
	Access *kept = arena_alloc(p->a, sizeof access);
	*kept = access;
	p->plan->values[w->node].access = kept;
	return true;
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

typedef VEC(AccessWant) AccessWants;

static bool wants_in(Planner *p, GraphId g, AccessWants *out) {
	bool ok = true;
	for (NodeId n = graph_first(p->m, g); n != NONE; n = node_get(p->m, n)->next) {
		const Node *node = node_get(p->m, n);
		AccessWant w;
		if (node->op == OP_FOR_LOOP) {
			ok = wants_in(p, node_arg(p->m, n, 0)->graph, out) && ok;
		} else if (node->op == OP_LOAD || node->op == OP_STORE) {
			bool good = access_want(p, n, &w) && (!w.store || store_covers(p, &w));
			if (good)
				vec_push(p->a, out, w);
			ok = ok && good;
		}
	}
	return ok;
}

/* A loop that emit_pipeline has nothing to copy for is refused if the user asked for it, else lowered by fori_loop. */
static bool check_pipelines(Planner *p, const AccessWants *wants) {
	for (uint32_t l = 0; l < p->plan->loops.count; l++) {
		Loop *loop = &p->plan->loops.at[l];
		const char *why = "it loads nothing that its steps move";
		bool copies = false;
		for (uint32_t i = 0; i < wants->count && loop->type == LOOP_EMIT_PIPELINE; i++) {
			const AccessWant *w = &wants->at[i];
			Operand o = {0};
			int64_t block[DIM_MAX];
			Affine index[DIM_MAX];
			if (w->loop != l || !operand_array(p, &o, w))
				continue;
			const char *not_copied = window_not_copied(p, w, &o, block, index);
			copies = copies || !not_copied;
			why = not_copied ? arena_printf(p->a, "%s: %s", p->m->tensors.at[w->tensor].name, not_copied) : why;
		}
		if (loop->type != LOOP_EMIT_PIPELINE || copies)
			continue;
		if ((LoopType)p->m->config.loop_type.value == LOOP_EMIT_PIPELINE) {
			diag_error(p->d, config_place(&p->m->config.loop_type.origin), "loop-type", "use fori_loop, or aligned block sizes",
			           "pallas_loop_type emit_pipeline cannot lower the loop %s: nothing to pipeline (%s)",
			           node_get(p->m, loop->call)->name, why);
			return false;
		}
		loop->type = LOOP_FORI;
		loop->why = "nothing that emit_pipeline could copy";
	}
	return true;
}

/* One tensor, one way of writing it; and nothing reads what the kernel writes. */
static bool check_outputs(Planner *p, const AccessWants *wants) {
	for (uint32_t i = 0; i < wants->count; i++) {
		TensorId base = tensor_base(p->m, wants->at[i].tensor);
		const Tensor *t = &p->m->tensors.at[base];
		if (t->role == ROLE_INOUT)
			return plan_refuse(p, wants->at[i].node, "unsupported", "make it an input and an output",
			                   "inout tensor %s is not lowered yet", t->name);
		if (wants->at[i].store && t->role == ROLE_INPUT)
			return plan_refuse(p, wants->at[i].node, "store-to-input", "give it role inout or output",
			                   "a store to input tensor %s", t->name);
		if (!wants->at[i].store && t->role == ROLE_OUTPUT)
			return plan_refuse(p, wants->at[i].node, "unsupported", "keep the value instead of loading it back",
			                   "a load from output tensor %s is not lowered yet", t->name);
		if (t->role == ROLE_OUTPUT && t->has_init)
			return plan_refuse(p, wants->at[i].node, "unsupported", "store the initial value in the kernel",
			                   "an initial value of output tensor %s is not lowered yet", t->name);
	}
	return true;
}

static bool check_one_output(Planner *p) {
	for (uint32_t i = 0; i < p->plan->operands.count; i++)
		for (uint32_t k = 0; k < i; k++) {
			const Operand *a = &p->plan->operands.at[k], *b = &p->plan->operands.at[i];
			if (!a->output || !b->output || a->tensor != b->tensor)
				continue;
			diag_error(p->d, tensor_place(p->m, p->d, a->tensor), "unsupported", "store it from one place",
			           "output tensor %s is stored with two different tilings, which is not lowered yet",
			           p->m->tensors.at[a->tensor].name);
			return false;
		}
	return true;
}

bool plan_accesses(Planner *p) {
	AccessWants wants = {0};
	if (!wants_in(p, p->plan->root, &wants) || !check_outputs(p, &wants) || !check_pipelines(p, &wants))
		return false;
	bool ok = true;
	for (uint32_t i = 0; i < wants.count; i++)
		ok = access_plan(p, &wants.at[i]) && ok;
	return ok && check_one_output(p);
}
