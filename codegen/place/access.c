/* access.c - where every load and store goes: each tensor's memory space, boundary view, block shape and index map, and
 * the windows of the inner loops.
 *
 * A load is pipelined by the innermost loop that iterates one of its block ids or moves a position in its index, if
 * that loop copies (fori_loop with DMA, emit_pipeline), the window is aligned and residency.c does not keep it; a load
 * that no loop moves stays where it is, and the loop reads it through the resident block. */
#include "access.h"
#include "place.h"
#include "codegen/loops/loops.h"

/* ---- from nodes to wants ---------------------------------------------------------------------------------------- */

static bool lies_inside(Planner *p, const Want *want, BlockId b) {
	int64_t max = 0, first = 0;
	bool known = true, from_start = affine_min(p, &want->at, &first) && first >= 0;
	if (want->kind == WANT_AT || want->kind == WANT_RANGE) {
		known = affine_max(p, &want->at, &max);
		max += want->size - 1;
	} else if (want->kind == WANT_STEP) {
		known = affine_max(p, &p->plan->loops.at[want->loop].dim[want->loop_dim].end, &max);
		max -= 1;
	} else if (want->kind == WANT_GRID) {
		max = expr_number(p->m, p->m->blocks.at[b].extent) - 1;
	}
	return p->m->assume_in_bounds || (known && max < want->extent && from_start);
}

/* Tiles and positions must lie in their tensor: what an index outside it means costs code that is not written yet. */
static bool want_in_bounds(Planner *p, const AccessWant *w, const Want *want, BlockId b) {
	const char *tensor = p->m->tensors.at[w->tensor].name;
	if (lies_inside(p, want, b))
		return true;
	return plan_refuse(p, w->node, "out-of-bounds",
	                   "keep the bounds inside the tensor's dim (sym_max, sym_min), or set assume_in_bounds",
	                   "the index of tensor %s may lie outside its dim of %lld", tensor, (long long)want->extent);
}

/* A load of a dim of one element by a tile of a longer range: each index gives the nearest element, which is that one.
 * Not of the last dim, whose tiles may be computed in strips. */
static bool want_spreads(Planner *p, const AccessWant *w, const Want *want, BlockId b) {
	const Block *block = &p->m->blocks.at[b];
	return !w->store && want->extent == 1 && want != &w->dim[w->rank - 1] && !p->m->assume_in_bounds &&
	       tensor_is_given(p->m, w->tensor) && (block->extent == NONE || expr_number(p->m, block->extent) > 1);
}

static bool want_block(Planner *p, AccessWant *w, Want *want, BlockId b) {
	uint32_t dim, l = block_scope(p->plan, node_get(p->m, w->node)->graph, b, &dim);
	want->block = b;
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

/* A bound of a slice as an int of the kernel; a negative number counts from the end, as in Python. */
static Affine slice_bound(Planner *p, const AccessWant *w, const Arg *bound, int64_t absent, int64_t extent) {
	if (bound->kind == ARG_NULL)
		return affine_int(absent);
	Affine a = affine_of_arg(p, node_get(p->m, w->node)->graph, bound);
	if (!affine_is_int(&a))
		return a;
	return affine_int(int_min(int_max(a.constant < 0 ? a.constant + extent : a.constant, 0), extent));
}

/* [start:stop]: so many elements from a position. Of a load, the length is that of dim `kept` of its value. */
static bool want_slice(Planner *p, AccessWant *w, Want *want, const Arg *entry, uint32_t kept) {
	const Arg *step = arg_item(p->m, entry, 2);
	const Type *t = node_type(p->m, w->node);
	want->at = slice_bound(p, w, arg_item(p->m, entry, 0), 0, want->extent);
	Affine stop = slice_bound(p, w, arg_item(p->m, entry, 1), want->extent, want->extent);
	Affine length = affine_sub(p->a, stop, want->at);
	if (step->kind != ARG_NULL && !(step->kind == ARG_INT && step->integer == 1))
		return plan_refuse(p, w->node, "unsupported", "make a slice view of the tensor, which may have a step",
		                   "a slice with a step in a load or store is not lowered yet");
	if (w->store && !affine_is_int(&length))
		return plan_refuse(p, w->node, "unsupported", "store a slice of constant length",
		                   "the length of a slice that is stored is not known");
	want->size = w->store ? length.constant : expr_number(p->m, t->dims[kept]);
	want->kind = want->size == want->extent ? WANT_WHOLE : WANT_RANGE;
	if (want->size <= 0)
		return plan_refuse(p, w->node, "unsupported", "leave it out", "an empty slice is not lowered");
	return want->kind == WANT_WHOLE || want_in_bounds(p, w, want, NONE);
}

/* `kept`: how many of the entries before this one keep their dim. */
static bool want_of(Planner *p, AccessWant *w, Want *want, const Arg *entry, uint32_t kept) {
	GraphId g = node_get(p->m, w->node)->graph;
	if (entry->kind == ARG_NULL)
		return plan_refuse(p, w->node, "unsupported", "index it after the load",
		                   "a new axis in a load or store");
	if (entry->kind == ARG_SLICE)
		return want_slice(p, w, want, entry, kept);
	BlockId b = arg_block(p->m, entry);
	if (b != NONE && want_spreads(p, w, want, b)) {
		*want = (Want){.kind = WANT_WHOLE, .block = NONE, .size = 1, .at = affine_int(0), .extent = 1};
		return true;
	}
	if (b != NONE)
		return want_block(p, w, want, b) && want_in_bounds(p, w, want, b);
	want->kind = WANT_AT;
	want->size = 1;
	want->at = affine_of_arg(p, g, entry);
	if (!w->store && want->extent == 1 && !lies_inside(p, want, NONE)) /* any position is nearest to the one */
		want->at = affine_int(0);
	return want_in_bounds(p, w, want, NONE);
}

/* A store at positions takes a slice where nothing chooses among its lanes but the end of the tile (masks.c). */
static bool stores_slice(const Planner *p, NodeId n) {
	return node_get(p->m, n)->op == OP_STORE && node_input(p->m, n, 3) == NONE;
}

/* A store's block is held, and has what lies behind the tensor of its last tile: there nothing is stored. Not of dims
 * before the last two, of which a block has no more than the tensor. */
static bool goes_past(Planner *p, const AccessWant *w, uint32_t dim, const Line *line, int64_t last) {
	Affine end;
	bool peeled;
	return w->store && dim + 2 >= w->rank && last < w->dim[dim].extent && line->block != NONE &&
	       block_ragged(p, node_get(p->m, w->node)->graph, line->block, &end, &peeled);
}

/* Positions that count up by one are a slice if they all lie in the tensor, or if a block of the grid and its halo have
 * them. */
static bool want_line(Planner *p, const AccessWant *w, uint32_t dim, Want *want, const Arg *entry, bool shifts) {
	const Arg *index = node_arg(p->m, w->node, 1);
	const Type *t = node_type(p->m, entry->node);
	uint32_t gathering = 0;
	for (uint32_t i = 0; i < index->list.count; i++)
		gathering += entry_gathers(p->m, arg_item(p->m, index, i));
	Line line;
	int64_t first, last;
	if (gathering > 1 || t->count != 1 || !line_of(p, node_get(p->m, w->node)->graph, entry, LINE_DEPTH, &line) ||
	    !line.index || (w->store && !stores_slice(p, w->node)))
		return false;
	int64_t size = expr_number(p->m, t->dims[0]);
	Want line_want = {.kind = WANT_RANGE, .block = NONE, .size = size, .at = line.more, .extent = want->extent};
	bool known = affine_min(p, &line.more, &first) && affine_max(p, &line.more, &last);
	bool past = known && last + size > want->extent && !goes_past(p, w, dim, &line, last);
	if (!known || first < 0 || past) {
		line_want.block = line.block;
		line_want.shifted = true;
		if (!shifts || !halo_fits(p, w, dim, &line_want))
			return false;
	}
	*want = line_want;
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

/* `shifts`: positions that count up by one may be a block and its halo. */
static bool access_dims_want(Planner *p, AccessWant *w, bool shifts) {
	const Arg *index = node_arg(p->m, w->node, 1);
	uint32_t kept = 0;
	for (uint32_t i = 0; i < w->rank; i++) {
		const Arg *entry = arg_item(p->m, index, i);
		w->dim[i] = (Want){.extent = tensor_dim(p, &p->m->tensors.at[w->tensor], i), .block = NONE};
		if (entry_gathers(p->m, entry) && !want_line(p, w, i, &w->dim[i], entry, shifts)) {
			kept += want_places(p, w, &w->dim[i], entry, kept);
			continue;
		}
		if (!entry_gathers(p->m, entry) && !want_of(p, w, &w->dim[i], entry, kept))
			return false;
		kept += w->dim[i].kind != WANT_AT;
	}
	w->loop = access_loop(p, w);
	return true;
}

static bool access_want(Planner *p, NodeId n, AccessWant *w) {
	const Module *m = p->m;
	*w = (AccessWant){
		.node = n, .tensor = access_tensor(m, n), .store = op_writes(node_get(m, n)->op), .places = NONE};
	w->part = op_is_remote(node_get(m, n)->op) || node_get(m, n)->op == OP_PART;
	if (w->tensor == NONE)
		return plan_refuse(p, n, "unsupported", "give the access a tile.host_tensor of its own graph",
		                   "its tensor is not a tile.host_tensor");
	const Tensor *t = &m->tensors.at[w->tensor];
	if (node_arg(m, n, 1)->list.count != t->rank)
		return plan_refuse(p, n, "unsupported", "index it after the load", "a new axis in a load or store");
	w->rank = t->rank;
	if (!access_dims_want(p, w, true))
		return false;
	/* A loop that moves the tile has no halo. */
	return want_shifted(w) == NONE || w->loop == NONE || access_dims_want(p, w, false);
}

/* ---- the access as the printer needs it ------------------------------------------------------------------------- */

/* Where the access's dim d starts in what it reads: the operand's block, or the window of it. */
static Affine start_in_ref(Arena *a, const Access *access, const Operand *o, const Window *win, uint32_t d, Affine at) {
	if (access->kind == REF_WINDOW)
		at = affine_sub(a, at, affine_add(a, affine_scale(a, win->index[d], win->block[d]), win->start[d]));
	if (access->kind == REF_OPERAND || !win->dma)
		at = affine_sub(a, at, affine_scale(a, o->index[d], o->block[d]));
	return at;
}

/* Of a block that several grid steps share: this step's part of it. */
static void access_part(Planner *p, const Operand *o, uint32_t d, const Want *want, SliceDim *s) {
	if (d == o->part_dim) {
		*s = (SliceDim){SLICE_RANGE, .start = o->index[d], .size = want->size, .parts = o->parts};
	} else if ((o->covered >> d & 1) && want->size != o->block[d]) {
		*s = (SliceDim){SLICE_RANGE, .start = want->at, .size = want->size};
		slice_place(p, o, d, s);
	}
}

static void access_dims(Planner *p, const AccessWant *w, Access *access) {
	const Operand *o = &p->plan->operands.at[access->operand];
	const Window *win =
		access->kind == REF_WINDOW ? &p->plan->loops.at[access->loop].windows.at[access->window] : NULL;
	bool between = win && window_between_tiles(p, o, win);
	access->rank = o->rank;
	for (uint32_t d = 0; d < o->rank; d++)
		access->dim[d].kind =
			(d == o->unit && w->rank > 1) || d == o->split || d == o->merged ? SLICE_AT : SLICE_ALL;
	for (uint32_t i = 0; i < w->rank; i++) {
		uint32_t d = o->dim_of[i];
		const Want *want = &w->dim[i];
		if (o->parts > 1)
			access_part(p, o, d, want, &access->dim[d]);
		if (w->table) {
			access->dim[d] = (SliceDim){want->kind == WANT_AT ? SLICE_AT : SLICE_RANGE, .start = want->at,
			                            .size = want->size};
			continue;
		}
		if (win && win->around[d]) {
			access->dim[d] = (SliceDim){.kind = SLICE_RANGE,
			                            .start = want->at,
			                            .size = want->size,
			                            .multiple = win->around[d],
			                            .window = win->block[d],
			                            .last = o->shape[d] - win->block[d],
			                            .copied = true};
			continue;
		}
		bool tile = want->kind == WANT_STEP || want->kind == WANT_GRID;
		bool part = o->parts > 1 && (d == o->part_dim || (o->covered >> d & 1));
		bool moved = tile && !part && (win ? win->block[d] : o->block[d]) != want->size;
		if ((want->kind != WANT_AT && want->kind != WANT_RANGE && !moved) || d == o->merged)
			continue;
		SliceDim *s = &access->dim[d];
		*s = (SliceDim){.kind = want->kind == WANT_AT ? SLICE_AT : SLICE_RANGE, .size = want->size};
		int64_t block = win ? win->block[d] : o->block[d];
		s->start = block == 1 ? affine_int(0) : start_in_ref(p->a, access, o, win, d, want->at);
		if (s->kind == SLICE_RANGE && want->size == block)
			s->kind = SLICE_ALL;
		(between && block == o->block[d] ? slice_whole : slice_place)(p, o, d, s);
	}
}

/* A single element that is scattered is a column of one. */
static void access_element(const AccessWant *w, const Operand *o, Access *access) {
	if (!w->store || w->places == NONE || want_kept(w))
		return;
	access->column = true;
	access->dim[o->rank - 1].kind = SLICE_RANGE;
}

/* No value in the kernel is 1-D: where one dim is left of several, the dim before it stays, at size 1. */
static void access_keep_row(const Operand *o, const int64_t *block, Access *access) {
	uint32_t kept = 0, at = NONE;
	for (uint32_t d = 0; d < access->rank; d++) {
		kept += access->dim[d].kind != SLICE_AT;
		at = access->dim[d].kind == SLICE_AT && d + 2 >= access->rank ? d : at;
	}
	if (kept != 1 || at == NONE || at == o->rank - 1)
		return;
	SliceDim *s = &access->dim[at];
	s->kind = block[at] == 1 ? SLICE_ALL : SLICE_RANGE;
}

/* What lies along sublanes where one position of the lanes is accessed. */
static void access_column(const AccessWant *w, const Operand *o, Access *access) {
	SliceDim *last = &access->dim[o->rank - 1];
	if (!want_kept(w) || last->kind != SLICE_AT || w->table)
		return;
	access->column = true;
	last->kind = SLICE_RANGE;
}

static void access_perm(const AccessWant *w, const Operand *o, Access *access) {
	if (w->rank < 2 || o->dim_of[w->rank - 1] > o->dim_of[w->rank - 2] || w->dim[w->rank - 1].kind == WANT_AT ||
	    w->dim[w->rank - 2].kind == WANT_AT)
		return;
	access->perm_rank = w->rank; /* array_steps() leaves only a swap of the last two */
	for (uint32_t i = 0; i < w->rank; i++)
		access->perm[i] = i == w->rank - 1 ? i - 1 : i == w->rank - 2 ? i + 1 : i;
}

static bool keep_access(Planner *p, const AccessWant *w, const Access *access) {
	if (!places_plan(p, w, access))
		return false;
	Access *kept = arena_alloc(p->a, sizeof *kept);
	*kept = *access;
	p->plan->values[w->node].access = kept;
	return true;
}

/* Whether a write computes of what stands there. */
static bool reads_old(const Planner *p, const AccessWant *w, const Operand *o) {
	bool folded = o->held && o->held->initial == INITIAL_FOLDED;
	bool masked = node_input(p->m, w->node, 3) != NONE;
	return !folded && (masked || op_is_atomic(node_get(p->m, w->node)->op));
}

/* What it reads or writes of an operand of the grid, a window of a loop, or what is held. */
static bool access_of(Planner *p, const AccessWant *w, Access *access) {
	*access = (Access){.kind = w->loop == NONE ? REF_OPERAND : REF_WINDOW, .loop = w->loop, .window = NONE};
	if (w->held) {
		held_access(p, w, access);
	} else if (w->loop == NONE) {
		access->operand = w->table ? operand_table(p, w) : operand_window(p, w, false, "_ref");
		if (access->operand == NONE)
			return false;
	} else {
		access->window = loop_window(p, w);
		if (access->window == NONE)
			return false;
		access->operand = p->plan->loops.at[w->loop].windows.at[access->window].operand;
	}
	const Operand *o = &p->plan->operands.at[access->operand];
	access->places = w->places;
	if (!w->held)
		access_dims(p, w, access);
	const int64_t *block =
		access->window == NONE ? o->block : p->plan->loops.at[w->loop].windows.at[access->window].block;
	if (!w->table) {
		access_element(w, o, access);
		access_keep_row(o, block, access);
		if (w->store)
			slice_single(p, o, access->dim);
	}
	const Window *win = access->window == NONE ? NULL : &p->plan->loops.at[w->loop].windows.at[access->window];
	if (o->rank >= 2 && !w->table) {
		slice_both(p, o, access->dim, win && !win->dma && win->block[o->rank - 1] != o->block[o->rank - 1],
		           w->store);
		slice_keep_row(p, o, access->dim, w->store && reads_old(p, w, o));
	}
	access_column(w, o, access);
	access_perm(w, o, access);
	return true;
}

/* A block of the grid and, where it has not all of the tile, the one beside it. */
static bool access_with_halo(Planner *p, const AccessWant *w, Access *access) {
	Halo *halo = arena_alloc(p->a, sizeof *halo);
	Access *beside = arena_alloc(p->a, sizeof *beside);
	AccessWant block, rest;
	*halo = (Halo){0};
	halo_split(p, w, want_shifted(w), &block, &rest, halo);
	if (!access_of(p, &block, access) || (halo->rows && !access_of(p, &rest, beside)))
		return false;
	halo->beside = halo->rows ? beside : NULL;
	access->halo = halo;
	return true;
}

static bool access_plan(Planner *p, const AccessWant *w) {
	Access access = {.kind = REF_OPERAND, .loop = NONE, .window = NONE};
	if (w->places != NONE && p->plan->places.at[w->places].copied)
		return rows_copied(p, w, &access) && keep_access(p, w, &access);
	if (w->part || w->stays_in_hbm)
		return part_access(p, w, &access) && keep_access(p, w, &access);
	bool ok = want_shifted(w) == NONE ? access_of(p, w, &access) : access_with_halo(p, w, &access);
	return ok && keep_access(p, w, &access);
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

static bool wants_in(Planner *p, GraphId g, AccessWants *out) {
	bool ok = true;
	for (NodeId n = graph_first(p->m, g); n != NONE; n = node_get(p->m, n)->next) {
		const Node *node = node_get(p->m, n);
		AccessWant w;
		if (op_lowering(node->op) == LOWER_LOOP) {
			ok = wants_in(p, loop_body(p->m, n), out) && ok;
		} else if (op_accesses(node->op)) {
			bool good = access_want(p, n, &w);
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
		const char *why = NULL, *written = "it loads nothing that its steps move";
		bool copies = false, stays = false;
		for (uint32_t i = 0; i < wants->count && loop->type == LOOP_EMIT_PIPELINE; i++) {
			const AccessWant *w = &wants->at[i];
			Operand o = {0};
			int64_t block[DIM_MAX];
			Affine index[DIM_MAX];
			if (w->loop != l || w->stays_in_hbm)
				continue;
			if (w->held) {
				written = arena_printf(p->a, "%s: the kernel writes it",
				                       p->m->tensors.at[w->tensor].name);
				continue;
			}
			if (!operand_array(p, &o, w))
				continue;
			const char *not_copied = window_not_copied(p, w, &o, block, index);
			copies = copies || !not_copied;
			stays = stays || (not_copied && not_copied == w->stays);
			why = not_copied ? arena_printf(p->a, "%s: %s", p->m->tensors.at[w->tensor].name, not_copied)
			                 : why;
		}
		if (loop->type != LOOP_EMIT_PIPELINE || copies)
			continue;
		if (way_holds_all(p) && stays && !group_covers(p, loop))
			return false;
		if (way_type(p) == LOOP_EMIT_PIPELINE && !(way_holds_all(p) && stays)) {
			diag_error(p->d, config_place(&p->m->config.loop_type.origin), "loop-type",
			           "use fori_loop, or aligned block sizes",
			           "pallas_loop_type emit_pipeline cannot lower the loop %s: nothing to pipeline (%s)",
			           node_get(p->m, loop->call)->name, why ? why : written);
			return false;
		}
		loop->type = LOOP_FORI;
		loop->why = way_holds_all(p) && stays
		                    ? "one window of emit_pipeline holds all its steps: a resident block"
		                    : "nothing that emit_pipeline could copy";
	}
	return true;
}

/* "blocks of [8, 512]" */
static const char *block_text(Planner *p, const Operand *o) {
	Text t;
	if (o->space != SPACE_WINDOW)
		return "windows of a loop";
	text_init(&t, p->a);
	for (uint32_t i = 0; i < o->rank; i++)
		text_printf(&t, i ? ", %lld" : "blocks of [%lld", (long long)o->block[i]);
	text_put(&t, "]");
	return t.at;
}

static bool check_one_output(Planner *p) {
	for (uint32_t i = 0; i < p->plan->operands.count; i++)
		for (uint32_t k = 0; k < i; k++) {
			const Operand *a = &p->plan->operands.at[k], *b = &p->plan->operands.at[i];
			if (!a->output || !b->output || a->tensor != b->tensor)
				continue;
			diag_error(p->d, tensor_place(p->m, p->d, a->tensor), "unsupported",
			           "store the same tile everywhere, or each into a tensor of its own",
			           "output tensor %s is stored with two different tilings, %s and %s, which is not "
			           "lowered yet",
			           p->m->tensors.at[a->tensor].name, block_text(p, a), block_text(p, b));
			return false;
		}
	return true;
}

/* As the graph names them: another way of planning has the same. */
static bool first_wants(Planner *p, AccessWants *wants) {
	const Plan *other = p->way.other;
	for (uint32_t i = 0; other && i < other->want_count; i++)
		vec_push(p->a, wants, other->wants[i]);
	for (uint32_t i = 0; other && i < other->places.count; i++) {
		vec_push(p->a, &p->plan->places, other->places.at[i]);
		Places *s = &p->plan->places.at[i];
		s->rows = s->masks = s->expected = s->old = s->groups = s->arrived = s->last = s->numbers = NONE;
		for (uint32_t k = 0; k < s->count; k++) {
			s->of[k].vmem = s->of[k].smem = s->of[k].semaphore = NONE;
			s->of[k].shared = false;
		}
		s->copied = false;
	}
	if (!other && !wants_in(p, p->plan->root, wants))
		return false;
	p->plan->wants = other ? other->wants : arena_copy(p->a, wants->at, wants->count, sizeof *wants->at);
	p->plan->want_count = wants->count;
	return true;
}

/* All accesses of the kernel. Where held blocks ask for another order of the grid, grid and loops are planned again. */
static bool all_wants(Planner *p, AccessWants *wants) {
	uint32_t order[RANK_MAX] = {0};
	if (!first_wants(p, wants) || !held_mark(p, wants))
		return false;
	if (grid_order_given(p) || !held_order(p, wants, order))
		return true;
	wants->count = 0;
	p->plan->places.count = 0;
	plan_remark(p->plan, "grid: dims that revisit a written block come last");
	return plan_grid(p, order) && plan_loops(p) && wants_in(p, p->plan->root, wants) && held_mark(p, wants);
}

bool plan_accesses(Planner *p) {
	AccessWants wants = {0};
	if (!all_wants(p, &wants))
		return false;
	if (!parts_mark(p, &wants))
		return false;
	tables_mark(p, &wants);
	positions_mark(p, &wants);
	if (!rows_mark(p, &wants))
		return false;
	p->plan->placed = wants.at;
	p->plan->placed_count = wants.count;
	residency_mark(p, &wants);
	if (!check_pipelines(p, &wants) || !held_operands(p, &wants) || !parts_operands(p, &wants))
		return false;
	bool ok = true;
	for (uint32_t i = 0; i < wants.count; i++)
		ok = access_plan(p, &wants.at[i]) && ok;
	positions_fold(p);
	remark_swapped(p->plan);
	return ok && check_one_output(p);
}
