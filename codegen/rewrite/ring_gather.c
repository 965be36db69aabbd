/* ring_gather.c - a kernel that reads a whole array of which each device has a part: parts travel from HBM to HBM, and
 * each device multiplies those that it has while the next ones come.
 *
 *     in x_ref vmem [64, 256] of [1024, 256]     in x_hbm hbm [256, 256]        # the own part
 *         at (tile_m, 0) buffers 2               out x_all hbm [1024, 256]      # the others', each in its place
 *                                                scratch x_buf vmem [2, 64, 256]
 *
 * A place for each share, so nothing is overwritten, and no device waits until another is done with something. At the
 * first point of the grid both neighbours are met, and the own shares are sent. A tile's block is fetched a tile ahead,
 * at its first point; the first block of a share that comes at the last point before it: that is waited for there, and
 * goes on to the next device.
 *
 * Where the kernel copies windows of the array by itself it finds all shares in one array, the own ones too: a share is
 * waited for at its turn's first point. */
#include "ring.h"
#include "rewrite.h"

typedef struct Gather {
	Travel *r;
	BufferId own, all, blocks, fetched, sent, came; /* arrays, windows, semaphores */
	FunctionId own_block, block, own_share, share;  /* copies: of the number of a tile; of a turn */
	FunctionId fetched_block;                       /* of any of these blocks what waits for it */
	FunctionId keep;                                /* of an own share into the array of all */
	int64_t walk;                                   /* tiles of all turns */
} Gather;

const char *gather_look(const Travel *r) {
	const Kernel *k = r->k;
	const KBuffer *x = &k->buffers.at[r->whole];
	int64_t number;
	for (uint32_t d = 0; d < x->rank && !r->in_hbm; d++)
		if (d != r->dim && !int_is_const(k, x->index[d], &number))
			return arena_printf(k->arena, "%s: its blocks are several along dim %u, too", x->name, d);
	for (BufferId b = 0; b < k->buffers.count; b++) {
		const KBuffer *out = &k->buffers.at[b];
		bool follows = out->role != BUFFER_OUT;
		for (uint32_t d = 0; out->index && d < out->rank; d++)
			follows = follows || int_reads(k, out->index[d], k->grid.at[r->walks].at);
		if (!follows)
			return arena_printf(k->arena, "%s: the blocks of %s are not of one of its blocks each", x->name,
			                    out->name);
	}
	return NULL;
}

/* So many elements from `start` on of an array, along the dim that is gathered; all of the others. */
static KArg rows(const Gather *g, BufferId b, IntId start, int64_t size) {
	KDim dim[KDIM_MAX];
	uint32_t rank = g->r->k->buffers.at[b].rank;
	for (uint32_t d = 0; d < rank; d++)
		dim[d] = (KDim){.kind = KDIM_ALL};
	dim[g->r->dim] = (KDim){.kind = KDIM_RANGE, .start = start, .size = size, .multiple = size};
	return karg_ref(kernel_ref(g->r->k, b, rank, dim));
}

/* Of the block of tile `at` of all turns: from the own part, or a share of all. */
static FunctionId define_block(const Gather *g, bool own) {
	Travel *r = g->r;
	Cursor outer;
	IntId p[2];
	FunctionId f = ring_define(r, own ? "own_block" : "block", own ? 1 : 2, (const char *const[]){"i", "share"}, p,
	                           &outer);
	IntId tile = own ? p[0] : ring_sum(r, ring_product(r, p[1], r->tiles), ring_rest(r, p[0], r->tiles));
	IntId slot = ring_rest(r, p[0], 2);
	KArg args[] = {rows(g, own ? g->own : g->all, ring_product(r, tile, r->block), r->block),
	               ring_at(r, g->blocks, slot), ring_at(r, g->fetched, slot)};
	ring_return(r, K_COPY, 3, args, outer);
	return f;
}

/* Waiting asks for as many bytes, wherever they came from. */
static FunctionId define_fetched(const Gather *g) {
	Travel *r = g->r;
	Cursor outer;
	IntId at;
	FunctionId f = ring_define(r, "fetched", 1, (const char *const[]){"i"}, &at, &outer);
	KArg block = ring_at(r, g->blocks, ring_rest(r, at, 2));
	KArg args[] = {block, block, ring_at(r, g->fetched, ring_rest(r, at, 2))};
	ring_return(r, K_COPY, 3, args, outer);
	return f;
}

/* Of the share of a turn to the next device, to the same place. */
static FunctionId define_share(const Gather *g, bool own) {
	Travel *r = g->r;
	Cursor outer;
	IntId turn;
	FunctionId f = ring_define(r, own ? "send_own" : "send_on", 1, (const char *const[]){"t"}, &turn, &outer);
	KArg to = rows(g, g->all, ring_product(r, ring_share(r, r->me, turn), r->share), r->share);
	KArg args[] = {own ? rows(g, g->own, ring_product(r, turn, r->share), r->share) : to, to,
	               ring_at(r, g->came, turn), ring_at(r, g->sent, ring_direction(r, turn)),
	               karg_int(ring_neighbour(r, turn, false))};
	ring_return(r, K_REMOTE_COPY, 5, args, outer);
	return f;
}

/* Of an own share to its place among all. */
static FunctionId define_keep(const Gather *g) {
	Travel *r = g->r;
	Cursor outer;
	IntId turn;
	FunctionId f = ring_define(r, "keep", 1, (const char *const[]){"t"}, &turn, &outer);
	KArg args[] = {rows(g, g->own, ring_product(r, turn, r->share), r->share),
	               rows(g, g->all, ring_product(r, ring_share(r, r->me, turn), r->share), r->share),
	               ring_at(r, g->fetched, turn)};
	ring_return(r, K_COPY, 3, args, outer);
	return f;
}

static void start_all(const Gather *g) {
	Travel *r = g->r;
	Cursor outer = drive_when(
		&r->d,
		ring_both(r, ring_both(r, ring_is(r, r->turn, 0), ring_is(r, r->tile, 0)), ring_is(r, r->step, 0)),
		"begin");
	IntId first = ring_number(r, 0);
	if (!r->in_hbm)
		ring_do(r, K_START, g->own_block, 1, &first);
	for (int64_t i = 0; i < r->directions && r->in_hbm; i++) {
		IntId turn = ring_number(r, i);
		ring_do(r, K_START, g->keep, 1, &turn);
	}
	ring_meet(r);
	for (int64_t i = 0; i < r->directions; i++) {
		IntId turn = ring_number(r, i);
		ring_do(r, K_START, g->own_share, 1, &turn);
	}
	r->d.at = outer;
}

static void await_arrival(const Gather *g, IntId turn) {
	IntId before = int_binary(g->r->k, INT_SUB, turn, ring_number(g->r, g->r->directions));
	ring_do(g->r, K_WAIT_RECV, g->share, 1, &before);
}

/* What is here of a turn goes on, once what went that way before has left. */
static void pass_on(const Gather *g, IntId turn) {
	Travel *r = g->r;
	IntId before = int_binary(r->k, INT_SUB, turn, ring_number(r, r->directions));
	ring_do(r, K_WAIT_SEND, g->share, 1, &before);
	if (r->devices == 2)
		return;
	Cursor outer = drive_when(&r->d, ring_below(r, turn, r->turns - r->directions), "onward");
	ring_do(r, K_START, g->share, 1, &turn);
	r->d.at = outer;
}

static void fetch_next(const Gather *g, IntId at) {
	Travel *r = g->r;
	Kernel *k = r->k;
	IntId next = ring_sum(r, at, ring_number(r, 1)), more = ring_below(r, next, g->walk);
	IntId begins = ring_is(r, ring_rest(r, next, r->tiles), 0);
	IntId when = r->tiles == 1 ? ring_number(r, r->inner - 1)
	                           : int_choose(k, begins, ring_number(r, r->inner - 1), ring_number(r, 0));
	if (r->inner > 1)
		more = ring_both(r, more, int_binary(k, INT_EQ, r->step, when));
	Cursor all = drive_when(&r->d, more, "fetch");
	int64_t own = r->tiles * r->directions;
	Cursor outer = drive_when(&r->d, ring_below(r, next, own), "fetch_own");
	ring_do(r, K_START, g->own_block, 1, &next);
	r->d.at = outer;
	outer = drive_when(&r->d, ring_from(r, next, own), "fetch_other");
	IntId turn = int_value(k, drive_int(&r->d, ring_quotient(r, next, r->tiles), "next_turn", NONE));
	Cursor inside = r->d.at;
	if (r->tiles > 1)
		drive_when(&r->d, begins, "arrive");
	await_arrival(g, turn);
	r->d.at = inside;
	ring_do(r, K_START, g->block, 2, (const IntId[]){next, ring_share(r, r->me, turn)}); /* waited for first */
	if (r->tiles > 1)
		drive_when(&r->d, begins, "pass_on");
	pass_on(g, turn);
	r->d.at = outer;
	r->d.at = all;
}

static void wait_block(const Gather *g, IntId at) {
	Travel *r = g->r;
	Cursor outer = r->d.at;
	if (r->inner > 1)
		drive_when(&r->d, ring_is(r, r->step, 0), "wait");
	ring_do(r, K_WAIT, g->fetched_block, 1, &at);
	r->d.at = outer;
}

/* The share of this turn is in the array of all. */
static void await_share(const Gather *g) {
	Travel *r = g->r;
	IntId first =
		r->inner > 1 ? ring_both(r, ring_is(r, r->tile, 0), ring_is(r, r->step, 0)) : ring_is(r, r->tile, 0);
	Cursor all = drive_when(&r->d, first, "arrive");
	Cursor outer = drive_when(&r->d, ring_below(r, r->turn, r->directions), "kept");
	ring_do(r, K_WAIT, g->keep, 1, &r->turn);
	r->d.at = outer;
	outer = drive_when(&r->d, ring_from(r, r->turn, r->directions), "receive");
	await_arrival(g, r->turn);
	pass_on(g, r->turn);
	r->d.at = outer;
	r->d.at = all;
}

static void read_all(const Gather *g, uint32_t refs) {
	Kernel *k = g->r->k;
	StmtIds pipelines = kernel_stmts_of(k, K_PIPELINE);
	for (RefId i = 0; i < refs; i++)
		if (k->refs.at[i].buffer == g->own)
			k->refs.at[i].buffer = g->all;
	for (uint32_t i = 0; i < pipelines.count; i++) {
		KPipeline *p = kernel_stmt(k, pipelines.at[i])->pipeline;
		for (uint32_t w = 0; w < p->windows.count; w++)
			if (p->windows.at[w].of == g->own)
				p->windows.at[w].of = g->all;
	}
}

static void make_buffers(Gather *g) {
	Travel *r = g->r;
	Kernel *k = r->k;
	KBuffer *x = &k->buffers.at[r->whole];
	size_t length = strlen(x->name), end = 0;
	if (length > 4 && (strcmp(x->name + length - 4, "_ref") == 0 || strcmp(x->name + length - 4, "_hbm") == 0))
		end = 4;
	const char *name = arena_printf(k->arena, "%.*s", (int)(length - end), x->name);
	KBuffer whole = *x;
	int64_t blocks[KDIM_MAX] = {2}, *part = arena_copy(k->arena, whole.array, whole.rank, sizeof *part);
	memcpy(blocks + 1, whole.shape, whole.rank * sizeof *blocks);
	part[r->dim] /= r->devices;
	*x = (KBuffer){.role = BUFFER_IN,
	               .space = KSPACE_HBM,
	               .dtype = whole.dtype,
	               .rank = whole.rank,
	               .shape = part,
	               .array = part,
	               .name = arena_printf(k->arena, "%s_hbm", name),
	               .alias = NONE};
	g->own = r->whole;
	g->all = kernel_add_output(k, (KBuffer){.role = BUFFER_OUT,
	                                        .space = KSPACE_HBM,
	                                        .dtype = whole.dtype,
	                                        .rank = whole.rank,
	                                        .shape = whole.array,
	                                        .array = whole.array,
	                                        .name = arena_printf(k->arena, "%s_all", name),
	                                        .alias = NONE});
	if (!r->in_hbm)
		g->blocks = kernel_scratch(r->k, KSPACE_VMEM, whole.dtype, whole.rank + 1, blocks,
		                           arena_printf(k->arena, "%s_buf", name));
	g->fetched = ring_semaphores(r, KSPACE_DMA, 2, arena_printf(k->arena, "%s_sem", name));
	g->sent = ring_semaphores(r, KSPACE_DMA, r->directions, "sent_sem");
	g->came = ring_semaphores(r, KSPACE_DMA, r->turns - r->directions, "came_sem");
}

/* What the function reads of the block it reads of the window of tile `at`. */
static void read_windows(const Gather *g, uint32_t refs, IntId at) {
	Travel *r = g->r;
	Kernel *k = r->k;
	for (RefId i = 0; i < refs; i++) {
		KRef *ref = &k->refs.at[i];
		if (ref->buffer != g->own)
			continue;
		KDim *dim = arena_array(k->arena, ref->rank + 1, sizeof *dim);
		dim[0] = (KDim){.kind = KDIM_AT, .start = ring_rest(r, at, 2), .size = 1};
		if (ref->rank)
			memcpy(dim + 1, ref->dim, ref->rank * sizeof *dim);
		*ref = (KRef){g->blocks, ref->rank + 1, dim, ref->at};
	}
}

BufferId gather_run(Travel *r) {
	Gather g = {.r = r, .walk = r->turns * r->tiles};
	uint32_t refs = r->k->refs.count;
	make_buffers(&g);
	g.own_share = define_share(&g, true);
	g.share = define_share(&g, false);
	if (r->in_hbm) {
		g.keep = define_keep(&g);
		read_all(&g, refs);
		start_all(&g);
		await_share(&g);
		return g.all;
	}
	g.own_block = define_block(&g, true);
	g.block = define_block(&g, false);
	g.fetched_block = define_fetched(&g);
	IntId at = ring_sum(r, ring_product(r, r->turn, r->tiles), r->tile);
	at = int_value(r->k, drive_int(&r->d, at, "at", NONE));
	read_windows(&g, refs, at);
	start_all(&g);
	wait_block(&g, at);
	fetch_next(&g, at);
	return g.all;
}
