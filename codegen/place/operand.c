/* operand.c - arrays that the kernel takes: what the wrapper does to them, the block and index map of each, its
 * alignment and boundary view. Alignment is asked for each operand alone. */
#include "access.h"
#include "place.h"

/* ---- the array as the kernel sees it ---------------------------------------------------------------------------- */

static void add_step(Planner *p, Operand *o, ArrayStep s) {
	int64_t shape[DIM_MAX];
	for (uint32_t i = 0; i < s.rank; i++)
		shape[i] = s.kind == ARRAY_TRANSPOSE ? o->shape[s.shape[i]] : s.shape[i];
	memcpy(o->shape, shape, s.rank * sizeof *shape);
	o->rank = s.rank;
	vec_push(p->a, &o->steps, s);
}

ArrayStep view_step(const Module *m, const Tensor *view) {
	static const ArrayStepKind kinds[] = {[VIEW_RESHAPE] = ARRAY_RESHAPE,
	                                      [VIEW_PERMUTE] = ARRAY_TRANSPOSE,
	                                      [VIEW_SLICE] = ARRAY_SLICE,
	                                      [VIEW_EXPAND] = ARRAY_EXPAND};
	ArrayStep s = {.kind = kinds[view->view], .rank = view->rank};
	for (uint32_t i = 0; i < view->rank; i++) {
		s.shape[i] = view->view == VIEW_PERMUTE ? view->view_arg[i][0] : expr_number(m, view->shape[i]);
		for (int k = 0; k < 3 && view->view == VIEW_SLICE; k++)
			s.slice[i][k] = view->view_arg[i][k];
	}
	return s;
}

static bool changes_shape(const Operand *o, const ArrayStep *s) {
	return s->kind != ARRAY_RESHAPE || s->rank != o->rank ||
	       memcmp(s->shape, o->shape, s->rank * sizeof *s->shape) != 0;
}

/* The last two dims, and nothing else, are swapped: the kernel reads the tile as it lies and the matmul contracts the
 * other dim, which costs nothing; any other permutation is made in HBM by the wrapper. */
bool tensor_swaps_last_two(const Tensor *view) {
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
	if (store && tensor_is_part(p->m, t))
		return plan_refuse(p, n, "unsupported",
		                   "store through a reshape or permute view, or to the tensor itself",
		                   "a store through the slice or expand view %s is not lowered yet", view->name);
	if (outermost && tensor_swaps_last_two(view))
		return true; /* dim_of swaps instead */
	ArrayStep step = view_step(p->m, view);
	if (changes_shape(o, &step))
		add_step(p, o, step);
	return true;
}

/* The boundary view of an array that lies so in HBM. */
static void swap_step(Planner *p, Operand *o, uint32_t rank) {
	ArrayStep s = {.kind = ARRAY_TRANSPOSE, .rank = o->rank, .boundary = true};
	uint32_t dim = o->dim_of[rank - 1];
	for (uint32_t i = 0; i < o->rank; i++)
		s.shape[i] = i;
	s.shape[o->rank - 1] = o->rank - 2;
	s.shape[o->rank - 2] = o->rank - 1;
	o->dim_of[rank - 1] = o->dim_of[rank - 2];
	o->dim_of[rank - 2] = dim;
	add_step(p, o, s);
}

bool operand_array(Planner *p, Operand *o, const AccessWant *w) {
	const Tensor *t = &p->m->tensors.at[w->tensor];
	o->seen_as = w->tensor;
	o->scalar = NONE;
	o->unit = o->split = o->merged = NONE;
	o->parts = 1;
	o->alias_of = NONE;
	o->buffers = 2;
	if (!array_steps(p, o, w->tensor, true, w->node, w->store))
		return false;
	if (o->rank == 0)
		return plan_refuse(p, w->node, "unsupported", "pass it as a scalar", "0-d tensor %s is not lowered",
		                   t->name);
	for (uint32_t i = 0; i < w->rank; i++)
		o->dim_of[i] = i;
	if (t->role == ROLE_VIEW && tensor_swaps_last_two(t)) {
		o->dim_of[w->rank - 1] = w->rank - 2;
		o->dim_of[w->rank - 2] = w->rank - 1;
	}
	if (operand_lies_swapped(p, o))
		swap_step(p, o, w->rank);
	return true;
}

/* ---- windows over the grid -------------------------------------------------------------------------------------- */

/* The elements a resident block needs in a dim that loop steps walk: whole steps, so that the last may reach past the
 * tensor's end; and a legal block again. */
static int64_t resident_extent(Planner *p, const Want *w, int64_t multiple) {
	int64_t end = want_end(p, w);
	return end <= w->extent ? w->extent : int_round_up(end, multiple);
}

/* The same of all loads of the tensor by steps of any fori_loop: one block is there for them, though they take tiles of
 * different sizes. */
static int64_t resident_for_all(Planner *p, const AccessWant *w, uint32_t dim, int64_t multiple) {
	int64_t most = resident_extent(p, &w->dim[dim], multiple);
	for (uint32_t i = 0; i < p->plan->placed_count && !w->store; i++) {
		const AccessWant *x = &p->plan->placed[i];
		if (!x->store && x->tensor == w->tensor && x->loop != NONE && x->dim[dim].kind == WANT_STEP &&
		    p->plan->loops.at[x->loop].type == LOOP_FORI)
			most = int_max(most, resident_extent(p, &x->dim[dim], multiple));
	}
	return most;
}

/* One position of the second-last dim: a window of its own, behind a boundary view's unit dim. */
static bool row_window(const Planner *p, const Want *want, uint32_t d, uint32_t rank) {
	return want->kind == WANT_AT && d + 2 == rank && (Switch)p->m->config.boundary_views.value != SWITCH_OFF;
}

/* The position as the ragged last step of the access's loop has it. */
static Affine at_last_step(const Planner *p, const AccessWant *w, Affine at) {
	Affine out = affine_int(at.constant);
	for (uint32_t i = 0; i < at.count; i++) {
		const Term *t = &at.term[i];
		bool own = t->kind == VAR_STEP && t->id == w->loop * RANK_MAX;
		out = affine_add(p->a, out,
		                 own ? affine_int(term_value(t, p->plan->loops.at[w->loop].dim[0].full_steps))
		                     : affine_term(p->a, *t));
	}
	return out;
}

/* A smaller array than that is resident: it comes to VMEM once, in less time than a few copies of blocks start in. */
enum { BY_TABLE_BYTES = 1 << 20 };

/* The grid's pipeline can bring a slice or position alone: program ids know where it starts, or of a position in an
 * array worth it a table does, at a multiple of its size, and its size is legal. Stores share one block, whatever
 * slices of it they write. */
static bool slice_is_block(Planner *p, const Operand *o, const AccessWant *w, const Want *want, const Affine *at,
                           int64_t multiple) {
	bool table = false, tables = want->kind == WANT_AT && !w->store && multiple == 1 &&
	                             vmem_bytes(p->m->target, o->dtype, o->rank, o->shape) > BY_TABLE_BYTES;
	for (uint32_t i = 0; i < at->count; i++) {
		if (at->term[i].kind != VAR_PROGRAM && !tables)
			return false;
		table = table || at->term[i].kind != VAR_PROGRAM;
	}
	if (table && !point_tells(p, at))
		return false;
	return affine_multiple(at, want->size) && want->size % multiple == 0 && (want->kind == WANT_AT || !w->store);
}

void round_to_slices(Planner *p, Operand *o, const AccessWant *w) {
	for (uint32_t i = 0; i < w->rank; i++) {
		uint32_t d = o->dim_of[i];
		WantKind kind = w->dim[i].kind;
		bool sliced = kind != WANT_WHOLE;
		if (sliced && affine_is_int(&o->index[d]) && o->block[d] >= o->shape[d])
			o->block[d] = slice_block(p, o, d, w->dim[i].size, &w->dim[i].at);
	}
}

BlocksOutside operand_outside(Planner *p, const Operand *o, uint32_t d) {
	BlocksOutside out = {.end = int_cdiv(o->shape[d], o->block[d]) - 1};
	int64_t first, last;
	out.before = !affine_min(p, &o->index[d], &first) || first < 0;
	out.behind = !affine_max(p, &o->index[d], &last) || last > out.end;
	return out;
}

/* The nearest block comes for one that lies outside. */
static void clamp_index(Planner *p, Operand *o, uint32_t d) {
	BlocksOutside outside = operand_outside(p, o, d);
	if (affine_is_int(&o->index[d]))
		o->index[d] = affine_int(int_min(int_max(o->index[d].constant, 0), outside.end));
	else if (outside.before || outside.behind)
		o->clamped |= 1u << (d & 31); /* DIM_MAX is less */
}

bool operand_block(Planner *p, Operand *o, const AccessWant *w, bool step_is_tail) {
	int64_t *block = o->block;
	Affine *index = o->index;
	for (uint32_t i = 0; i < w->rank; i++) {
		uint32_t d = o->dim_of[i];
		const Want *want = &w->dim[i];
		bool tiled = d + 2 >= o->rank;
		int64_t multiple = d + 1 == o->rank ? p->m->target->lanes
		                   : tiled ? target_row_multiple(p->m->target, TILE_BLOCK, dtype_bits(o->dtype),
		                                                 o->shape[o->rank - 1])
		                           : 1;
		block[d] = o->shape[d];
		index[d] = affine_int(0);
		if (want->kind == WANT_GRID) {
			if (!affine_multiple(&want->at, want->size)) {
				block[d] = resident_extent(p, want, multiple);
				continue;
			}
			block[d] = want->size;
			index[d] = affine_divide(p->a, want->at, want->size);
		} else if (want->kind == WANT_STEP && step_is_tail) {
			const LoopDim *dim = &p->plan->loops.at[want->loop].dim[want->loop_dim];
			block[d] = want->size;
			index[d] = affine_add(p->a, affine_divide(p->a, dim->begin, want->size),
			                      affine_int(dim->full_steps));
		} else if (want->kind == WANT_STEP && want_tile(p, want, &block[d], &index[d])) {
			continue;
		} else if (want->kind == WANT_STEP) {
			block[d] = resident_for_all(p, w, i, multiple);
		} else if (want->kind == WANT_AT || want->kind == WANT_RANGE) {
			Affine at = step_is_tail ? at_last_step(p, w, want->at) : want->at;
			bool any = !tiled || row_window(p, want, d, o->rank);
			if (!slice_is_block(p, o, w, want, &at, any ? 1 : multiple))
				continue;
			block[d] = want->size;
			index[d] = affine_divide(p->a, at, want->size);
			if (want->shifted)
				clamp_index(p, o, d);
		}
	}
	round_to_slices(p, o, w);
	return true;
}

static bool array_step_equal(const ArrayStep *a, const ArrayStep *b) {
	return a->kind == b->kind && a->rank == b->rank && memcmp(a->shape, b->shape, sizeof a->shape) == 0 &&
	       memcmp(a->slice, b->slice, sizeof a->slice) == 0;
}

static bool same_within(const Operand *a, const Operand *b) {
	bool same = !a->within == !b->within;
	for (uint32_t i = 0; same && a->within && i < a->rank; i++)
		same = a->within->shape[i] == b->within->shape[i] && a->within->first[i] == b->within->first[i];
	return same;
}

bool operand_same_array(const Operand *a, const Operand *b) {
	bool same = a->tensor == b->tensor && a->rank == b->rank && a->steps.count == b->steps.count;
	for (uint32_t i = 0; same && i < a->steps.count; i++)
		same = array_step_equal(&a->steps.at[i], &b->steps.at[i]);
	for (uint32_t i = 0; same && i < a->rank; i++)
		same = a->shape[i] == b->shape[i];
	return same && same_within(a, b);
}

static bool operand_same(const Operand *a, const Operand *b) {
	bool same = operand_same_array(a, b) && a->space == b->space && a->output == b->output &&
	            a->parts == b->parts && a->clamped == b->clamped;
	for (uint32_t i = 0; same && i < a->rank; i++)
		same = a->output || a->dim_of[i] == b->dim_of[i]; /* an access finds there whether it swaps dims */
	for (uint32_t i = 0; same && a->space == SPACE_WINDOW && i < a->rank; i++)
		same = a->block[i] == b->block[i] && affine_equal(&a->index[i], &b->index[i]);
	return same;
}

/* The operand's index in the plan: an equal one that is there already, or a new one. */
uint32_t operand_intern(Planner *p, Operand *o, const char *suffix) {
	uint32_t same_tensor = 0;
	for (uint32_t i = 0; i < p->plan->operands.count; i++) {
		Operand *old = &p->plan->operands.at[i];
		if (operand_same(old, o))
			return i;
		same_tensor += old->tensor == o->tensor && old->space == o->space;
	}
	const char *name = p->m->tensors.at[o->tensor].name;
	o->ref = same_tensor ? arena_printf(p->a, "%s%s_%u", name, suffix, same_tensor)
	                     : arena_printf(p->a, "%s%s", name, suffix);
	vec_push(p->a, &p->plan->operands, *o);
	return p->plan->operands.count - 1;
}

bool refuse_block(Planner *p, const AccessWant *w, const char *why) {
	return plan_refuse(p, w->node, "block-alignment", "choose block sizes that meet it, or cover the dim",
	                   "tensor %s cannot be tiled this way: %s", p->m->tensors.at[w->tensor].name, why);
}

/* An operand that the grid's own pipeline brings to VMEM; NONE after a diagnostic. */
uint32_t operand_window(Planner *p, const AccessWant *w, bool step_is_tail, const char *suffix) {
	Operand o = {.space = SPACE_WINDOW, .input = !w->store, .output = w->store};
	if (!operand_array(p, &o, w) || !operand_block(p, &o, w, step_is_tail))
		return NONE;
	if (!w->store && !grid_buffers(p, &o, step_is_tail))
		return NONE;
	if (!operand_place(p, &o, w))
		return NONE;
	const char *role = step_is_tail      ? "the ragged last step's window"
	                   : w->loop == NONE ? "tiled by the grid"
	                                     : "resident while the loop reads slices of it";
	for (uint32_t d = 0; d < o.rank; d++) {
		point_prefetch(p, &o.index[d]);
		for (uint32_t i = 0; i < o.index[d].count && o.buffers == 2; i++)
			o.ahead = o.ahead || o.index[d].term[i].kind == VAR_NODE;
	}
	operand_take_within(p, &o, operand_within(p, &o, o.block, TILE_BLOCK));
	o.why = o.why ? arena_printf(p->a, "%s; %s", role, o.why) : role;
	return operand_intern(p, &o, suffix);
}
