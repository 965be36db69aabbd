/* placement.c - where a tile of an array lies in VMEM, and in which block: chosen by cost for each operand alone.
 *
 * A block's last dim is a multiple of 128 or the whole dim, the one before a multiple of 8 or the whole dim (1-D arrays
 * as they are: 128 * 32 / bits). A tile that is no such block has four ways out:
 *
 *     lse [256, 8192], tiles [2, 512]
 *     view    [256, 1, 8192], blocks (2, 1, 512)   the tiled dim moves off the last two: the wrapper reshapes, and XLA
 *                                                  copies the array once, since its tiles in HBM change
 *     split   [N / 64, 1, 64], blocks (1, 1, 64)   the same for a last dim of N with tiles of 64; padded to 128 lanes
 *     merged  [8192, 2 * 1024], of a tensor [8192, 2, 1024] at one position of its second dim: blocks of the last two
 *             dims as one, which the index map chooses; nothing is copied where the array lies so
 *     shared  [256, 8192], blocks (8, 8192)        four steps fill one block, and nothing is copied; but steps that
 *                                                  write must come one after the other, on one core
 *
 * Mosaic refuses a part at a computed offset ("cannot statically prove that index in dimension 0 is a multiple of 8",
 * libtpu 0.0.51; single rows of 256 or more lanes of 32 bits are an exception), and takes it at a static one for every
 * dtype, in rows and in lanes: the kernel has one branch for each part. */
#include "access.h"

typedef struct Candidate {
	Operand o;
	int64_t hbm_bytes;  /* that XLA moves for the view: the copy written and read */
	int64_t vmem_bytes; /* of all its windows */
	bool ordered;       /* grid dims become sequential */
	bool branches;      /* in each step of a loop, whose matmuls cannot be scheduled across them */
} Candidate;

static bool fits(int64_t block, int64_t dim, int64_t multiple) { return block == dim || block % multiple == 0; }

/* ---- boundary views --------------------------------------------------------------------------------------------- */

static void boundary_step(Planner *p, Operand *o) {
	ArrayStep s = {.kind = ARRAY_RESHAPE, .rank = o->rank, .boundary = true};
	memcpy(s.shape, o->shape, sizeof s.shape);
	vec_push(p->a, &o->steps, s);
}

/* Inserts a dim of size 1 before operand dim `at`, into block and index too. */
static void insert_dim(Operand *o, int64_t *block, Affine *index, uint32_t at, uint32_t tensor_rank) {
	for (uint32_t i = o->rank; i > at; i--) {
		o->shape[i] = o->shape[i - 1];
		block[i] = block[i - 1];
		index[i] = index[i - 1];
	}
	o->rank++;
	o->clamped = (o->clamped & ((1u << at) - 1)) | o->clamped >> at << (at + 1);
	o->shape[at] = block[at] = 1;
	index[at] = affine_int(0);
	for (uint32_t i = 0; i < tensor_rank; i++)
		o->dim_of[i] += o->dim_of[i] >= at;
}

static void insert_unit(Planner *p, Operand *o, int64_t *block, Affine *index, uint32_t at, uint32_t tensor_rank) {
	insert_dim(o, block, index, at, tensor_rank);
	o->unit = at;
	boundary_step(p, o);
}

void operand_unit_rows(Planner *p, Operand *o, uint32_t tensor_rank) {
	if (o->unit == NONE)
		insert_unit(p, o, o->block, o->index, o->rank - 1, tensor_rank);
}

/* Every array of the kernel has two dims: [N] is [1, N]. */
static void make_row(Planner *p, Operand *o, int64_t *block, Affine *index, uint32_t tensor_rank) {
	if (o->rank == 1)
		insert_unit(p, o, block, index, 0, tensor_rank);
}

static bool views_allowed(const Planner *p) { return (Switch)p->m->config.boundary_views.value != SWITCH_OFF; }

/* Few rows of a tile, which copies may take, are left to where there are no views, as they come in short pieces. */
const char *operand_align(Planner *p, Operand *o, int64_t *block, Affine *index, uint32_t tensor_rank, TileUse use) {
	int bits = dtype_bits(o->dtype);
	int64_t lanes = p->m->target->lanes, lanes_1d = target_block_multiple(p->m->target, bits, 1, 0);
	if (o->rank == 1 && !views_allowed(p) && !fits(block[0], o->shape[0], lanes_1d))
		return arena_printf(p->a, "a 1-D block of %lld must be the whole dim of %lld or a multiple of %lld",
		                    (long long)block[0], (long long)o->shape[0], (long long)lanes_1d);
	make_row(p, o, block, index, tensor_rank);
	uint32_t last = o->rank - 1;
	if (!fits(block[last], o->shape[last], lanes))
		return arena_printf(p->a,
		                    "its last dim's block of %lld must be the whole dim of %lld or a multiple of %lld",
		                    (long long)block[last], (long long)o->shape[last], (long long)lanes);
	int64_t rows = target_row_multiple(p->m->target, use, bits, o->shape[last]);
	if (fits(block[last - 1], o->shape[last - 1], rows))
		return NULL;
	if (!views_allowed(p) && target_takes_rows(p->m->target, use, bits, o->shape[last], block[last - 1]))
		return NULL;
	if (!views_allowed(p))
		return arena_printf(
			p->a, "its second-last dim's block of %lld must be the whole dim of %lld or a multiple of %lld",
			(long long)block[last - 1], (long long)o->shape[last - 1], (long long)rows);
	insert_unit(p, o, block, index, last, tensor_rank);
	return NULL;
}

/* ---- candidates ------------------------------------------------------------------------------------------------- */

static int64_t array_bytes(const Planner *p, const Operand *o) {
	return vmem_bytes(p->m->target, o->dtype, o->rank, o->shape);
}

/* As vmem_bytes(), but XLA pads no dim of size 1 before the last to 8 rows in HBM. */
static int64_t view_bytes(const Planner *p, const Operand *o) {
	int64_t bytes = int_round_up(o->shape[o->rank - 1], p->m->target->lanes) * dtype_bits(o->dtype) / 8;
	for (uint32_t i = 0; i + 1 < o->rank; i++)
		if (!checked_mul(bytes, o->shape[i], &bytes))
			return array_bytes(p, o);
	return bytes;
}

static Candidate candidate(Planner *p, const Operand *o) {
	Candidate c = {.o = *o};
	c.o.steps.at = arena_array(p->a, (size_t)o->steps.count + 2, sizeof *o->steps.at);
	c.o.steps.room = o->steps.count + 2;
	for (uint32_t i = 0; i < o->steps.count; i++)
		c.o.steps.at[i] = o->steps.at[i];
	return c;
}

static int64_t row_multiple(const Planner *p, const Operand *o) {
	return target_row_multiple(p->m->target, TILE_BLOCK, dtype_bits(o->dtype), o->shape[o->rank - 1]);
}

/* The array as it comes has the last dim that merging makes, and whole tiles of rows: XLA changes nothing in HBM. */
static bool lies_merged(Planner *p, const Operand *o) {
	const Tensor *t = &p->m->tensors.at[o->tensor];
	if (t->rank < 2 || tensor_dim(p, t, t->rank - 1) != o->shape[o->rank - 1])
		return false;
	int64_t rows = o->shape[o->rank - 2];
	return tensor_dim(p, t, t->rank - 2) == rows || rows % row_multiple(p, o) == 0;
}

/* The access stands in a loop, beside matmuls. */
static bool is_beside_matmuls(const Planner *p, const AccessWant *w) {
	GraphId g = node_get(p->m, w->node)->graph;
	NodeId n = graph_get(p->m, g)->kind == GRAPH_FOR_LOOP ? graph_first(p->m, g) : NONE;
	while (n != NONE && op_lowering(node_get(p->m, n)->op) != LOWER_MATMUL)
		n = node_get(p->m, n)->next;
	return n != NONE;
}

static void measure(Planner *p, const AccessWant *w, Candidate *c) {
	c->vmem_bytes = c->o.buffers * vmem_bytes(p->m->target, c->o.dtype, c->o.rank, c->o.block);
	bool moved = c->o.placement == PLACE_MERGED ? !lies_merged(p, &c->o)
	                                            : c->o.placement == PLACE_VIEW || c->o.placement == PLACE_SPLIT;
	if (moved)
		c->hbm_bytes = 2 * view_bytes(p, &c->o);
	c->branches = c->o.placement == PLACE_SHARED && is_beside_matmuls(p, w);
}

static int64_t last_multiple(const Planner *p, const Operand *o) {
	bool flat = o->rank == 1 && !views_allowed(p);
	return target_block_multiple(p->m->target, dtype_bits(o->dtype), flat ? 1 : 2, flat ? 0 : 1);
}

static bool last_fits(const Planner *p, const Operand *o) {
	return fits(o->block[o->rank - 1], o->shape[o->rank - 1], last_multiple(p, o));
}

static bool rows_fit(const Planner *p, const Operand *o) {
	return o->rank == 1 || fits(o->block[o->rank - 2], o->shape[o->rank - 2], row_multiple(p, o));
}

static bool try_own(Planner *p, const Operand *o, const AccessWant *w, Candidate *c) {
	if (!last_fits(p, o) || !rows_fit(p, o))
		return false;
	*c = candidate(p, o);
	make_row(p, &c->o, c->o.block, c->o.index, w->rank);
	return true;
}

static bool try_view(Planner *p, const Operand *o, const AccessWant *w, Candidate *c) {
	if (!views_allowed(p) || o->rank == 1 || !last_fits(p, o) || rows_fit(p, o))
		return false;
	*c = candidate(p, o);
	c->o.placement = PLACE_VIEW;
	insert_unit(p, &c->o, c->o.block, c->o.index, o->rank - 1, w->rank);
	return true;
}

/* The tensor dim that operand dim d is. */
static uint32_t tensor_dim_of(const Operand *o, const AccessWant *w, uint32_t d) {
	for (uint32_t i = 0; i < w->rank; i++)
		if (o->dim_of[i] == d)
			return i;
	return NONE;
}

static bool try_split(Planner *p, const Operand *o, const AccessWant *w, Candidate *c) {
	uint32_t last = o->rank - 1, dim = tensor_dim_of(o, w, last);
	int64_t size = o->block[last];
	if (!views_allowed(p) || last_fits(p, o) || dim == NONE || w->dim[dim].kind != WANT_GRID ||
	    o->shape[last] % size != 0)
		return false;
	*c = candidate(p, o);
	c->o.placement = PLACE_SPLIT;
	insert_dim(&c->o, c->o.block, c->o.index, last, w->rank);
	c->o.split = last;
	c->o.shape[last] = o->shape[last] / size;
	c->o.index[last] = o->index[last];
	c->o.shape[last + 1] = size;
	c->o.index[last + 1] = affine_int(0);
	insert_unit(p, &c->o, c->o.block, c->o.index, last + 1, w->rank);
	return true;
}

/* Steps that share a block, at most: each is a branch of the kernel. */
enum { PARTS_MAX = 16 };

/* Dims that grid dims inside of dim k walk must lie in the block whole: their steps come between two of the same. False
 * where a step's part of such a dim would start at no whole tile. */
static bool cover_inner(Planner *p, const Operand *o, const AccessWant *w, uint32_t k, Candidate *c) {
	int64_t rows = target_row_multiple(p->m->target, operand_slice_use(o), dtype_vmem_bits(o->dtype),
	                                   o->shape[o->rank - 1]);
	for (uint32_t i = 0; i < w->rank; i++) {
		uint32_t d = o->dim_of[i];
		int64_t multiple = d + 1 == o->rank ? p->m->target->lanes : d + 2 == o->rank ? rows : 1;
		if (w->dim[i].kind != WANT_GRID || w->dim[i].grid_dim <= k)
			continue;
		if (!fits(o->block[d], o->shape[d], multiple))
			return false;
		c->o.block[d] = int_round_up(o->shape[d], o->block[d]);
		c->o.index[d] = affine_int(0);
		c->o.covered |= 1u << d;
	}
	return true;
}

static bool tiled_at_position(const Operand *o, const AccessWant *w) {
	for (uint32_t i = 0; i < w->rank; i++)
		if (w->dim[i].kind == WANT_AT && o->dim_of[i] + 2 >= o->rank)
			return true;
	return false;
}

static bool try_shared(Planner *p, const Operand *o, const AccessWant *w, Candidate *c) {
	uint32_t d = last_fits(p, o) ? o->rank - 2 : o->rank - 1, dim = tensor_dim_of(o, w, d);
	/* Mosaic returns no bools from a branch. */
	if ((last_fits(p, o) && rows_fit(p, o)) || w->loop != NONE || w->dim[dim].kind != WANT_GRID ||
	    tiled_at_position(o, w) || (o->input && o->dtype == DTYPE_BOOL))
		return false;
	int64_t size = o->block[d], multiple = d + 1 == o->rank ? last_multiple(p, o) : row_multiple(p, o);
	int64_t wide = int_lcm(size, multiple);
	if (wide > o->shape[d] && o->shape[d] % size == 0)
		wide = o->shape[d];
	if (wide / size > PARTS_MAX)
		return false;
	*c = candidate(p, o);
	c->o.placement = PLACE_SHARED;
	c->o.parts = wide / size;
	c->o.part_dim = d;
	c->o.block[d] = wide;
	c->ordered = c->o.output;
	if (!cover_inner(p, o, w, w->dim[dim].grid_dim, c) || !last_fits(p, &c->o) || !rows_fit(p, &c->o))
		return false;
	if (o->rank == 1) {
		make_row(p, &c->o, c->o.block, c->o.index, w->rank);
		c->o.part_dim++;
	}
	return true;
}

/* A load of one position in the second-last dim, whose last dim has blocks that fill it and is not sliced any further.
 */
static bool mergeable(Planner *p, const Operand *o, const AccessWant *w) {
	uint32_t last = o->rank - 1, row = tensor_dim_of(o, w, last - 1), lane = tensor_dim_of(o, w, last);
	if (row == NONE || lane == NONE || lane < row || w->dim[row].kind != WANT_AT || o->block[last - 1] != 1)
		return false;
	WantKind kind = w->dim[lane].kind;
	return (kind == WANT_WHOLE || kind == WANT_GRID) && o->shape[last] % o->block[last] == 0 &&
	       o->block[last] % p->m->target->lanes == 0;
}

/* The dim of the position goes to the front, at size 1: the others keep their order. */
static bool try_merged(Planner *p, const Operand *o, const AccessWant *w, Candidate *c) {
	if (!views_allowed(p) || w->store || o->output || o->rank < 3 || rows_fit(p, o) || !mergeable(p, o, w))
		return false;
	uint32_t last = o->rank - 1, row = tensor_dim_of(o, w, last - 1);
	*c = candidate(p, o);
	Operand *m = &c->o;
	m->placement = PLACE_MERGED;
	m->index[last] = affine_add(p->a, affine_scale(p->a, o->index[last - 1], o->shape[last] / o->block[last]),
	                            o->index[last]);
	m->shape[last] = o->shape[last - 1] * o->shape[last];
	for (uint32_t i = last - 1; i > 0; i--) {
		m->shape[i] = o->shape[i - 1];
		m->block[i] = o->block[i - 1];
		m->index[i] = o->index[i - 1];
	}
	m->clamped = o->clamped << 1;
	m->shape[0] = m->block[0] = 1;
	m->index[0] = affine_int(0);
	m->merged = 0;
	for (uint32_t i = 0; i < w->rank; i++)
		m->dim_of[i] = i == row ? 0 : o->dim_of[i] + (o->dim_of[i] != last);
	boundary_step(p, m);
	round_to_slices(p, m, w);
	return rows_fit(p, m);
}

/* ---- the choice ------------------------------------------------------------------------------------------------- */

/* A grid in any order before one that no second core can take; no branches beside a loop's matmuls; then the fewest
 * bytes. */
static bool cheaper(const Candidate *a, const Candidate *b) {
	if (a->ordered != b->ordered)
		return !a->ordered;
	if (a->branches != b->branches)
		return !a->branches;
	return a->hbm_bytes + a->vmem_bytes < b->hbm_bytes + b->vmem_bytes;
}

static const char *described(Planner *p, const Candidate *c) {
	static const char *const forms[] = {"its own block", "a view with a unit dim", "a view of the dim in blocks",
	                                    "a block that several steps share", "a block of the last two dims as one"};
	return arena_printf(p->a, "%s (%lld bytes moved in HBM, %lld of VMEM%s)", forms[c->o.placement],
	                    (long long)c->hbm_bytes, (long long)c->vmem_bytes, c->ordered ? ", in order" : "");
}

/* The smallest size of the block from this one up that could be placed; 0: none below the whole dim. */
static int64_t smallest_size(const Planner *p, const Operand *o, uint32_t d) {
	bool last = d + 1 == o->rank;
	int64_t multiple = last ? last_multiple(p, o) : row_multiple(p, o);
	int64_t aligned = int_min(int_round_up(o->block[d], multiple), o->shape[d]);
	for (int64_t size = o->block[d]; last && views_allowed(p) && size < aligned; size++)
		if (o->shape[d] % size == 0)
			return size;
	return aligned;
}

static bool refuse_dim(Planner *p, const Operand *o, const AccessWant *w, uint32_t d) {
	uint32_t dim = tensor_dim_of(o, w, d);
	const Want *want = &w->dim[dim];
	bool last = d + 1 == o->rank, grid = want->kind == WANT_GRID;
	const char *block = grid ? p->m->blocks.at[p->plan->grid.at[want->grid_dim].block].name : "the block";
	int64_t size = smallest_size(p, o, d), multiple = last ? last_multiple(p, o) : row_multiple(p, o);
	const char *dividing = last && views_allowed(p) ? ", or divide it" : "";
	return plan_refuse(
		p, w->node, "block-alignment",
		arena_printf(p->a, "%s %lld is the smallest that works%s", block, (long long)size,
	                     views_allowed(p) ? "" : "; pallas_boundary_views auto may take smaller ones"),
		"tensor %s cannot be tiled this way: in dim %u a block of %lld must be a multiple of %lld or "
		"the whole dim of %lld%s",
		p->m->tensors.at[w->tensor].name, dim, (long long)o->block[d], (long long)multiple,
		(long long)o->shape[d], dividing);
}

static bool (*const kinds[])(Planner *, const Operand *, const AccessWant *,
                             Candidate *) = {try_own, try_merged, try_view, try_split, try_shared};
enum { KIND_COUNT = sizeof kinds / sizeof *kinds };

/* All ways there are, and which of them is the cheapest. */
typedef struct Candidates {
	Candidate at[KIND_COUNT];
	uint32_t count, best;
} Candidates;

/* False: there is none. */
static bool cheapest(Planner *p, const Operand *o, const AccessWant *w, Candidates *c) {
	c->count = c->best = 0;
	for (size_t i = 0; i < KIND_COUNT; i++) {
		if (!kinds[i](p, o, w, &c->at[c->count]))
			continue;
		measure(p, w, &c->at[c->count]);
		if (cheaper(&c->at[c->count], &c->at[c->best]))
			c->best = c->count;
		c->count++;
	}
	return c->count > 0;
}

static void remark_placed(Planner *p, const Candidates *c, const AccessWant *w, const char *why) {
	Text others;
	if (!p->m->explain)
		return;
	text_init(&others, p->a);
	for (uint32_t i = 0; i < c->count; i++)
		if (i != c->best)
			text_printf(&others, "%s%s", others.length ? ", " : ", rather than ", described(p, &c->at[i]));
	plan_remark(p->plan, "%s: %s%s", p->m->tensors.at[w->tensor].name, why, others.length ? others.at : "");
}

bool operand_placeable(Planner *p, const AccessWant *w) {
	Operand o = {.space = SPACE_WINDOW, .input = !w->store, .output = w->store};
	Candidate way;
	Diag quiet;
	Planner trial = *p;
	diag_init(&quiet, p->a);
	trial.d = &quiet;
	bool placeable = !operand_array(&trial, &o, w) || !operand_block(&trial, &o, w, false);
	for (size_t i = 0; i < KIND_COUNT && !placeable; i++)
		placeable = kinds[i](&trial, &o, w, &way);
	return placeable;
}

/* Where no block is the tile of a grid dim, one that is the whole dim stands for all of them, and each slices it. */
static bool whole_dims(Planner *p, Operand *o, const AccessWant *w) {
	bool any = false;
	for (uint32_t i = 0; i < w->rank; i++) {
		uint32_t d = o->dim_of[i];
		bool legal = d + 2 < o->rank || (d + 1 == o->rank ? last_fits(p, o) : rows_fit(p, o));
		if (legal || w->dim[i].kind != WANT_GRID)
			continue;
		o->block[d] = int_round_up(want_end(p, &w->dim[i]),
		                           d + 1 == o->rank ? last_multiple(p, o) : row_multiple(p, o));
		o->index[d] = affine_int(0);
		o->block[d] = slice_block(p, o, d, w->dim[i].size, &w->dim[i].at);
		any = true;
	}
	return any;
}

bool operand_place(Planner *p, Operand *o, const AccessWant *w) {
	Candidates ways;
	if (!cheapest(p, o, w, &ways) && (w->store || !whole_dims(p, o, w) || !cheapest(p, o, w, &ways)))
		return refuse_dim(p, o, w, last_fits(p, o) ? o->rank - 2 : o->rank - 1);
	const Candidate *best = &ways.at[ways.best];
	*o = best->o;
	o->view_hbm_bytes = best->hbm_bytes;
	o->why = best->o.placement == PLACE_OWN ? NULL : described(p, best);
	if (o->why)
		remark_placed(p, &ways, w, o->why);
	return true;
}
