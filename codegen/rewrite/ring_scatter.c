/* ring_scatter.c - a kernel that makes a device's share of sums over all devices, of a whole array, of which each
 * device keeps its part: sums travel from device to device, and each adds what it makes of the share that comes.
 *
 *     out out_ref vmem float32[64, 128]            out out_ref vmem bfloat16[64, 128] of [256, 256]   # the own part
 *         of [1024, 256] at (tile_m, tile_n)       out sums hbm float32[4, 128, 256]
 *     store out_ref[...], y                        wait fetch; sum = y + got; start send
 *
 * The first turn makes a share of the device that is furthest, the last one the own. A tile goes to the next device as
 * soon as it is summed, from VMEM to HBM, where shares have two places in each direction, one for even rounds and one
 * for odd ones: a place is sent to again once the next device has fetched what was there, which it signals. */
#include "ring.h"

typedef struct Scatter {
	Travel *r;
	Dtype travels;
	BufferId sums, got, put, free;   /* in HBM, in VMEM: what came, what goes; signals */
	BufferId fetched, sent, came;    /* semaphores of copies */
	FunctionId fetch, send, arrival; /* copies: of a turn's tile; of what comes in a turn */
	int64_t points, rounds;          /* of a turn, with the steps of all tiles; of all turns */
	StmtId store;
	IntId at, round; /* the number of the grid's point; of the turn's round */
	IntId *index;    /* of the out's block within its share, in blocks, of the function's ints */
} Scatter;

static StmtId store_of(const Travel *r, uint32_t *count) {
	StmtId found = NONE;
	*count = 0;
	for (StmtId s = 0; s < r->k->stmts.count; s++)
		for (uint32_t i = 0; i < kernel_stmt(r->k, s)->arg_count && kernel_stmt(r->k, s)->region != NONE; i++) {
			const KArg *x = kernel_arg(r->k, s, i);
			if (x->kind != KARG_REF || r->k->refs.at[x->ref].buffer != r->whole)
				continue;
			found = kernel_stmt(r->k, s)->op == K_STORE && i == 0 ? s : NONE;
			*count += 1;
		}
	return found;
}

const char *scatter_look(const Travel *r) {
	const Kernel *k = r->k;
	const KBuffer *x = &k->buffers.at[r->whole];
	uint32_t count;
	StmtId store = store_of(r, &count);
	bool whole = count == 1 && store != NONE && kernel_stmt(k, store)->region == k->body &&
	             k->refs.at[kernel_arg(k, store, 0)->ref].rank == 0 && kernel_arg(k, store, 1)->kind == KARG_VALUE;
	if (x->dtype != DTYPE_F32 || !whole)
		return arena_printf(k->arena, "%s: its blocks of float32 are not stored by one statement each",
		                    x->name);
	if (x->rank + 1 > KDIM_MAX)
		return arena_printf(k->arena, "%s: it has too many dims", x->name);
	for (BufferId b = 0; b < k->buffers.count; b++)
		if (b != r->whole && k->buffers.at[b].role == BUFFER_OUT)
			return arena_printf(k->arena, "%s: the kernel has other outputs", x->name);
	for (uint32_t g = 0; g < k->grid.count; g++) {
		bool read = k->grid.at[g].steps == 1;
		for (uint32_t d = 0; d < x->rank; d++)
			read = read || int_reads(k, x->index[d], k->grid.at[g].at);
		if (!read)
			return arena_printf(k->arena, "%s: several points of the grid make one of its blocks", x->name);
	}
	return NULL;
}

/* ---- parts of buffers ------------------------------------------------------------------------------------------- */

/* The share's place in the buffer of sums: of a round even or odd, in a direction. */
static IntId place_of(const Scatter *s, IntId turn) {
	const Travel *r = s->r;
	IntId parity = ring_rest(r, ring_round(r, turn), 2);
	return ring_sum(r, ring_product(r, parity, r->directions), ring_direction(r, turn));
}

/* All of a share, or the block where the grid is. */
static KArg in_sums(const Scatter *s, IntId place, bool block) {
	const Travel *r = s->r;
	const KBuffer *x = &r->k->buffers.at[r->whole];
	KDim dim[KDIM_MAX] = {{.kind = KDIM_AT, .start = place, .size = 1}};
	for (uint32_t d = 0; d < x->rank; d++)
		dim[d + 1] = block ? (KDim){.kind = KDIM_RANGE,
		                            .start = ring_product(r, s->index[d], x->shape[d]),
		                            .size = x->shape[d],
		                            .multiple = x->shape[d]}
		                   : (KDim){.kind = KDIM_ALL};
	return karg_ref(kernel_ref(r->k, s->sums, block ? x->rank + 1 : 1, dim));
}

/* ---- copies ----------------------------------------------------------------------------------------------------- */

static void define_fetch(Scatter *s) {
	Travel *r = s->r;
	Cursor outer;
	s->fetch = ring_define(r, "fetch", 0, NULL, NULL, &outer);
	IntId before = int_binary(r->k, INT_SUB, r->turn, ring_number(r, r->directions));
	KArg args[] = {in_sums(s, place_of(s, before), true), karg_ref(kernel_ref(r->k, s->got, 0, NULL)),
	               ring_at(r, s->fetched, ring_number(r, 0))};
	ring_return(r, K_COPY, 3, args, outer);
}

/* The tile that the grid is at, from where point `at` keeps it. */
static void define_send(Scatter *s) {
	Travel *r = s->r;
	Cursor outer;
	IntId at;
	s->send = ring_define(r, "send", 1, (const char *const[]){"i"}, &at, &outer);
	IntId slot = ring_rest(r, at, 2), place = place_of(s, r->turn);
	KArg args[] = {ring_at(r, s->put, slot), in_sums(s, place, true), ring_at(r, s->came, place),
	               ring_at(r, s->sent, slot), karg_int(ring_neighbour(r, r->turn, false))};
	ring_return(r, K_REMOTE_COPY, 5, args, outer);
}

/* All that came for this turn, tile by tile, which went in the round before. */
static void define_arrival(Scatter *s) {
	Travel *r = s->r;
	Cursor outer;
	s->arrival = ring_define(r, "arrival", 0, NULL, NULL, &outer);
	IntId place = place_of(s, int_binary(r->k, INT_SUB, r->turn, ring_number(r, r->directions)));
	KArg all = in_sums(s, place, false);
	KArg args[] = {all, all, ring_at(r, s->came, place), ring_at(r, s->sent, ring_number(r, 0)),
	               karg_int(ring_neighbour(r, r->turn, true))};
	ring_return(r, K_REMOTE_COPY, 5, args, outer);
}

/* ---- statements ------------------------------------------------------------------------------------------------- */

static IntId first_of_turn(const Scatter *s) { return ring_is(s->r, ring_rest(s->r, s->at, s->points), 0); }

static void begin(const Scatter *s) {
	Travel *r = s->r;
	Kernel *k = r->k;
	const KBuffer *got = &k->buffers.at[s->got];
	Cursor outer = drive_when(&r->d, ring_is(r, s->at, 0), "begin");
	ring_meet(r);
	StmtId zeros = drive_put(&r->d, K_ZEROS, 0, NULL);
	KArg none = karg_value(kernel_result(k, zeros, KTYPE_TILE, s->travels, got->rank, got->shape, NULL));
	drive_put(&r->d, K_STORE, 2, (const KArg[]){karg_ref(kernel_ref(k, s->got, 0, NULL)), none});
	r->d.at = outer;
	outer = drive_when(&r->d, ring_from(r, s->round, 1), "come");
	Cursor inside = r->d.at;
	if (s->points > 1)
		drive_when(&r->d, first_of_turn(s), "arrive");
	ring_do(r, K_WAIT_RECV, s->arrival, 0, NULL);
	r->d.at = inside;
	ring_do(r, K_START, s->fetch, 0, NULL);
	r->d.at = outer;
}

/* A sum, in the dtype that something takes. */
static KArg converted(const Scatter *s, KArg x, Dtype from, Dtype to) {
	Kernel *k = s->r->k;
	const KBuffer *got = &k->buffers.at[s->got];
	if (from == to)
		return x;
	StmtId c = drive_put(&s->r->d, K_CONVERT, 1, &x);
	return karg_value(kernel_result(k, c, KTYPE_TILE, to, got->rank, got->shape, NULL));
}

/* Of the block that is stored the sum with what came, once that is here; in the first round 0. */
static KArg add(const Scatter *s, KArg made) {
	Travel *r = s->r;
	Kernel *k = r->k;
	const KBuffer *got = &k->buffers.at[s->got];
	Cursor outer = drive_when(&r->d, ring_from(r, s->round, 1), "fetched");
	ring_do(r, K_WAIT, s->fetch, 0, NULL);
	if (r->devices > 3) {
		IntId last = ring_is(r, ring_rest(r, s->at, s->points), s->points - 1);
		IntId when = ring_both(r, last, ring_below(r, s->round, r->devices - 2));
		drive_when(&r->d, s->points > 1 ? when : ring_below(r, s->round, r->devices - 2), "tell_free");
		KArg args[] = {ring_at(r, s->free, ring_direction(r, r->turn)), karg_integer(1),
		               karg_int(ring_neighbour(r, r->turn, true))};
		drive_put(&r->d, K_SIGNAL, 3, args);
	}
	r->d.at = outer;
	KArg from = karg_ref(kernel_ref(k, s->got, 0, NULL));
	StmtId load = drive_put(&r->d, K_LOAD, 1, &from);
	KArg came = karg_value(kernel_result(k, load, KTYPE_TILE, s->travels, got->rank, got->shape, "came"));
	KArg both[] = {made, converted(s, came, s->travels, DTYPE_F32)};
	StmtId sum = drive_put(&r->d, OP_ADD, 2, both);
	return karg_value(kernel_result(k, sum, KTYPE_TILE, DTYPE_F32, got->rank, got->shape, "total"));
}

static void wait_sent(const Scatter *s, IntId at) { ring_do(s->r, K_WAIT_SEND, s->send, 1, &at); }

/* What is summed goes on, but for the own part, which is stored. */
static void pass_on(const Scatter *s, KArg sum) {
	Travel *r = s->r;
	Kernel *k = r->k;
	int64_t sends = (r->devices - 1) * s->rounds;
	IntId two = int_binary(k, INT_SUB, s->at, ring_number(r, 2));
	Cursor outer = drive_when(&r->d, ring_both(r, ring_from(r, s->at, 2), ring_below(r, s->at, sends + 2)), "left");
	wait_sent(s, two);
	r->d.at = outer;
	outer = drive_when(&r->d, ring_below(r, s->round, r->devices - 1), "onward");
	drive_put(&r->d, K_STORE, 2,
	          (const KArg[]){ring_at(r, s->put, ring_rest(r, s->at, 2)), converted(s, sum, DTYPE_F32, s->travels)});
	Cursor inside = r->d.at;
	if (r->devices > 3) {
		IntId when = ring_from(r, s->round, 2);
		drive_when(&r->d, s->points > 1 ? ring_both(r, first_of_turn(s), when) : when, "wait_free");
		drive_put(&r->d, K_SEMAPHORE_WAIT, 2,
		          (const KArg[]){ring_at(r, s->free, ring_direction(r, r->turn)), karg_integer(1)});
		r->d.at = inside;
	}
	ring_do(r, K_START, s->send, 1, &s->at);
	r->d.at = outer;
	outer = drive_when(&r->d, ring_from(r, s->round, r->devices - 1), "own");
	KArg to = karg_ref(kernel_ref(k, r->whole, 0, NULL));
	drive_put(&r->d, K_STORE, 2, (const KArg[]){to, converted(s, sum, DTYPE_F32, k->buffers.at[r->whole].dtype)});
	if (s->rounds == 1)
		wait_sent(s, int_binary(k, INT_SUB, s->at, ring_number(r, 1)));
	r->d.at = outer;
}

/* ---- buffers ---------------------------------------------------------------------------------------------------- */

/* The block's place within a share, where the grid is. */
static void find_index(Scatter *s) {
	Travel *r = s->r;
	Kernel *k = r->k;
	const KBuffer *x = &k->buffers.at[r->whole];
	s->index = arena_array(k->arena, x->rank, sizeof *s->index);
	for (uint32_t d = 0; d < x->rank; d++) {
		s->index[d] = d == r->dim ? r->tile : x->index[d];
		for (uint32_t g = 0; g < k->grid.count; g++)
			s->index[d] = int_substitute(k, s->index[d], k->grid.at[g].at, r->here[g]);
	}
}

/* The own part's blocks come in the last round; before, the first of them stays. */
static void set_output(const Scatter *s) {
	Travel *r = s->r;
	Kernel *k = r->k;
	KBuffer *x = &k->buffers.at[r->whole];
	IntId turn = int_value(k, k->grid.at[0].at), tile = int_value(k, k->grid.at[1].at);
	IntId last = ring_from(r, turn, r->turns - r->directions);
	int64_t *part = arena_copy(k->arena, x->array, x->rank, sizeof *part);
	part[r->dim] /= r->devices;
	IntId *index = arena_array(k->arena, x->rank, sizeof *index);
	for (uint32_t d = 0; d < x->rank; d++) {
		IntId here = x->index[d];
		if (d == r->dim)
			here = ring_sum(r, ring_product(r, ring_direction(r, turn), r->tiles), tile);
		IntId first = int_substitute(k, here, k->grid.at[0].at, ring_number(r, r->turns - r->directions));
		for (uint32_t g = 1; g < k->grid.count; g++)
			first = int_substitute(k, first, k->grid.at[g].at, ring_number(r, 0));
		index[d] = first == here ? here : int_choose(k, last, here, first);
	}
	x->index = index;
	x->array = part;
	x->dtype = r->ring->out;
}

/* Of a tile in VMEM, where the last two dims are padded to whole registers. */
static int64_t tile_bytes(uint32_t rank, const int64_t *shape, Dtype dtype) {
	int64_t bytes = dtype_bits(dtype) / 8, rows = 32 / bytes;
	for (uint32_t d = 0; d < rank; d++)
		bytes *= d + 1 == rank   ? int_round_up(shape[d], 128)
		         : d + 2 == rank ? int_round_up(shape[d], rows)
		                         : shape[d];
	return bytes;
}

static void make_buffers(Scatter *s) {
	Travel *r = s->r;
	Kernel *k = r->k;
	KBuffer x = k->buffers.at[r->whole];
	int64_t sums[KDIM_MAX] = {2 * r->directions}, put[KDIM_MAX] = {2};
	memcpy(sums + 1, x.array, x.rank * sizeof *sums);
	sums[r->dim + 1] = r->share;
	memcpy(put + 1, x.shape, x.rank * sizeof *put);
	s->sums = kernel_add_output(k, (KBuffer){.role = BUFFER_OUT,
	                                         .space = KSPACE_HBM,
	                                         .dtype = s->travels,
	                                         .rank = x.rank + 1,
	                                         .shape = sums,
	                                         .array = sums,
	                                         .name = "sums",
	                                         .alias = NONE});
	s->got = kernel_scratch(r->k, KSPACE_VMEM, s->travels, x.rank, x.shape, "got");
	s->put = kernel_scratch(r->k, KSPACE_VMEM, s->travels, x.rank + 1, put, "going");
	k->ring->bytes = 3 * tile_bytes(x.rank, x.shape, s->travels);
	s->fetched = ring_semaphores(r, KSPACE_DMA, 1, "fetched_sem");
	s->sent = ring_semaphores(r, KSPACE_DMA, 2, "sent_sem");
	s->came = ring_semaphores(r, KSPACE_DMA, 2 * r->directions, "came_sem");
	s->free = r->devices > 3 ? ring_semaphores(r, KSPACE_REGULAR, r->directions, "free_sem") : NONE;
}

BufferId scatter_run(Travel *r) {
	Kernel *k = r->k;
	uint32_t count;
	Scatter s = {.r = r, .travels = r->ring->travels, .points = r->tiles * r->inner, .store = store_of(r, &count)};
	s.rounds = s.points * r->directions;
	make_buffers(&s);
	find_index(&s);
	set_output(&s);
	define_fetch(&s);
	define_send(&s);
	define_arrival(&s);
	IntId tile = ring_sum(r, ring_product(r, r->turn, r->tiles), r->tile);
	s.at = int_value(k, drive_int(&r->d, ring_sum(r, ring_product(r, tile, r->inner), r->step), "at", NONE));
	s.round = int_value(k, drive_int(&r->d, ring_round(r, r->turn), "round", NONE));
	begin(&s);
	r->d.at = (Cursor){k->body, s.store};
	pass_on(&s, add(&s, *kernel_arg(k, s.store, 1)));
	kernel_remove(k, s.store);
	return s.sums;
}
