/* rewrite_grid_loop.c - a grid whose points all have blocks of their own is a loop whose copies are the kernel's own.
 *
 *     grid i 32 arbitrary                          in x_hbm hbm bfloat16[4096, 1024]
 *     in x_ref vmem bfloat16[128, 1024] ...        scratch x_ref vmem bfloat16[3, 128, 1024]
 *         buffers 3                                start x_copy(0, 0); start x_copy(1, 1)
 *     out y_ref vmem bfloat16[128, 1024] ...  =>   def body(point, before) fori {
 *         buffers 3                                  now = before == 2 ? 0 : before + 1
 *     ...                                            when (point >= 1) { start y_copy(point - 1, before) }
 *                                                    when (point < 30) { start x_copy(point + 2, before) }
 *                                                    wait x_copy(point, now)
 *                                                    when (point >= 3) { wait y_copy(point - 3, now) }
 *                                                    ...
 *                                                  }
 *                                                  start y_copy(31, 1)
 *                                                  wait y_copy(29, 2); wait y_copy(30, 0); wait y_copy(31, 1)
 *
 * An emit_pipeline, which rewrite_pipelined.c makes of other grids, keeps two buffers of what it gives, and waits at
 * each step for what the one before gave: behind the last block that comes HBM has nothing to do until the core has
 * computed it. And it asks at each step, of each operand, whether its block is another one. What stays, a weight, comes
 * beside the first blocks. What a point gives starts to go when the next one begins: behind what computes, in the same
 * block of code, libtpu makes up to 12% more bundles of that. */
#include "pipelined.h"
#include "runs.h"

/* ---- which grids ------------------------------------------------------------------------------------------------- */

/* Each dim of the grid tells a dim of the block's place by itself. */
static bool differs_at_points(const Kernel *k, const KBuffer *b) {
	bool all = true;
	for (uint32_t g = 0; g < k->grid.count; g++) {
		bool told = k->grid.at[g].steps == 1;
		for (uint32_t d = 0; d < b->rank; d++) {
			const KInt *x = &k->ints.at[b->index[d]];
			told = told || (x->kind == INT_VALUE && x->value == k->grid.at[g].at);
		}
		all = all && told;
	}
	return all;
}

static double block_bits(const KBuffer *b) {
	double bits = dtype_bits(b->dtype);
	for (uint32_t d = 0; d < b->rank; d++)
		bits *= (double)b->shape[d];
	return bits;
}

#define LITTLE 0.02 /* of what a point's blocks take */

/* An input that several points share, a part of a vector, comes for each of them: it is to be little. */
bool points_have_blocks(const Kernel *k) {
	bool have = runs_points(k) > 1;
	double again = 0, all = 0;
	for (BufferId b = 0; b < k->buffers.count; b++) {
		const KBuffer *x = &k->buffers.at[b];
		bool moves = block_moves(k, x), differs = !moves || differs_at_points(k, x);
		have = have && !x->ahead && (!moves || (x->space == KSPACE_VMEM && blocks_fill(x)));
		have = have && (differs || x->role == BUFFER_IN);
		again += differs ? 0 : block_bits(x);
		all += moves ? block_bits(x) : 0;
	}
	return have && again <= LITTLE * all;
}

/* Lanes of a register, and elements of a row of 1-D registers. */
enum { LANES = 128, LINE = 1024 };

/* A whole array, in whole registers. */
static bool stays(const Kernel *k, const KBuffer *b) {
	return b->role == BUFFER_IN && b->space == KSPACE_VMEM && b->rank > 0 && dtype_bits(b->dtype) >= 8 &&
	       b->dtype != DTYPE_BOOL && !b->fused && !b->half && operand_is_whole(k, b) &&
	       b->shape[b->rank - 1] % (b->rank > 1 ? LANES : LINE) == 0;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

static uint32_t track_of(Runs *r, const KBuffer *block) {
	Track t = {.slots = block->buffers, .name = block->name};
	uint32_t found = 0;
	while (found < r->tracks.count && r->tracks.at[found].slots != t.slots)
		found++;
	if (found == r->tracks.count)
		vec_push(r->k->arena, &r->tracks, t);
	return found;
}

/* An input that stays; its copy, which has started. */
static KArg start_stay(Runs *r, BufferId of) {
	Kernel *k = r->k;
	KBuffer block = leave_in_hbm(k, of);
	BufferId here = kernel_scratch(k, KSPACE_VMEM, block.dtype, block.rank, block.shape, block.name);
	BufferId semaphore =
		kernel_scratch(k, KSPACE_DMA, DTYPE_NONE, 1, (const int64_t[]){1}, called_after(k, block.name, "sem"));
	for (RefId ref = 0; ref < r->refs; ref++)
		if (k->refs.at[ref].buffer == of)
			k->refs.at[ref].buffer = here;
	const KArg parts[] = {karg_ref(kernel_ref(k, of, 0, NULL)), karg_ref(kernel_ref(k, here, 0, NULL)),
	                      karg_ref(element_at(k, semaphore, runs_number(r, 0)))};
	StmtId s = drive_put(&r->d, K_COPY, 3, parts);
	KArg copy =
		karg_value(kernel_result(k, s, KTYPE_COPY, DTYPE_NONE, 0, NULL, called_after(k, block.name, "comes")));
	drive_put(&r->d, K_START, 1, &copy);
	return copy;
}

/* Of all inputs, or all outputs, of a track. */
static void put_copies(Runs *r, uint16_t op, BufferRole role, const Track *t, IntId point, IntId slot) {
	for (uint32_t i = 0; i < r->moved.count; i++) {
		const Moved *m = &r->moved.at[i];
		if (m->block.role == role && &r->tracks.at[m->track] == t)
			runs_put_copy(r, op, m, point, slot);
	}
}

static bool has(const Runs *r, const Track *t, BufferRole role) {
	bool found = false;
	for (uint32_t i = 0; i < r->moved.count; i++)
		found = found || (r->moved.at[i].block.role == role && &r->tracks.at[r->moved.at[i].track] == t);
	return found;
}

static bool gives(const Runs *r) {
	bool found = false;
	for (uint32_t i = 0; i < r->moved.count; i++)
		found = found || r->moved.at[i].block.role == BUFFER_OUT;
	return found;
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static void start_first(Runs *r) {
	int most = 0;
	for (uint32_t i = 0; i < r->tracks.count; i++)
		most = r->tracks.at[i].slots > most ? r->tracks.at[i].slots : most;
	for (int64_t point = 0; point < int_min(r->points, most - 1); point++)
		for (uint32_t i = 0; i < r->tracks.count; i++)
			if (point + 1 < r->tracks.at[i].slots)
				put_copies(r, K_START, BUFFER_IN, &r->tracks.at[i], runs_number(r, point),
				           runs_number(r, point));
}

/* Results of the point before go. */
static void put_ended(Runs *r, IntId point) {
	IntId one = runs_number(r, 1);
	Cursor outer = drive_when(&r->d, int_binary(r->k, INT_GE, point, one), "ended");
	for (uint32_t i = 0; i < r->tracks.count; i++)
		put_copies(r, K_START, BUFFER_OUT, &r->tracks.at[i], int_binary(r->k, INT_SUB, point, one),
		           r->tracks.at[i].slot);
	r->d.at = outer;
}

/* What comes later starts to, into the slot of the point before; this point's is there. */
static void put_inputs(Runs *r, IntId point) {
	Kernel *k = r->k;
	for (uint32_t i = 0; i < r->tracks.count; i++) {
		const Track *t = &r->tracks.at[i];
		if (!has(r, t, BUFFER_IN))
			continue;
		int64_t far = t->slots - 1;
		IntId later = far ? int_binary(k, INT_ADD, point, runs_number(r, far)) : point;
		Cursor outer =
			drive_when(&r->d, int_binary(k, INT_LT, point, runs_number(r, r->points - far)), "ahead");
		put_copies(r, K_START, BUFFER_IN, t, later, t->slot);
		r->d.at = outer;
	}
	for (uint32_t i = 0; i < r->tracks.count; i++)
		put_copies(r, K_WAIT, BUFFER_IN, &r->tracks.at[i], point, r->tracks.at[i].now);
}

/* What went from this point's slots has gone. */
static void free_outputs(Runs *r, IntId point) {
	Kernel *k = r->k;
	for (uint32_t i = 0; i < r->tracks.count; i++) {
		const Track *t = &r->tracks.at[i];
		if (!has(r, t, BUFFER_OUT) || t->slots >= r->points)
			continue;
		IntId slots = runs_number(r, t->slots);
		Cursor outer = drive_when(&r->d, int_binary(k, INT_GE, point, slots), "reuse");
		put_copies(r, K_WAIT, BUFFER_OUT, t, int_binary(k, INT_SUB, point, slots), t->now);
		r->d.at = outer;
	}
}

static FunctionId define_body(Runs *r, RegionId computes) {
	Kernel *k = r->k;
	FunctionId body = kernel_function(k, FUNCTION_FORI, "body");
	Cursor outer = drive_define(&r->d, body);
	IntId point = drive_parameter(k, body, "point");
	KArgs slots = {0};
	for (uint32_t i = 0; i < r->tracks.count; i++)
		r->tracks.at[i].slot = drive_parameter(k, body, "before");
	for (uint32_t i = 0; i < r->tracks.count; i++) {
		Track *t = &r->tracks.at[i];
		t->now = drive_named(&r->d, runs_slot_after(r, t, t->slot), "now");
		vec_push(k->arena, &slots, karg_int(t->now));
	}
	if (gives(r))
		put_ended(r, point);
	put_inputs(r, point);
	free_outputs(r, point);
	for (uint32_t i = 0; i < r->moved.count; i++)
		runs_refer_to_slot(r, &r->moved.at[i]);
	runs_move_points(r, computes, point);
	drive_put(&r->d, K_RETURN, slots.count, slots.at);
	r->d.at = outer;
	return body;
}

static void run_points(Runs *r, FunctionId body) {
	KArgs args = {0};
	vec_push(r->k->arena, &args, karg_int(runs_number(r, r->points)));
	for (uint32_t i = 0; i < r->tracks.count; i++)
		vec_push(r->k->arena, &args, karg_int(runs_number(r, r->tracks.at[i].slots - 1)));
	StmtId s = drive_put(&r->d, K_FORI, args.count, args.at);
	kernel_stmt(r->k, s)->function = body;
	for (uint32_t i = 0; i < r->tracks.count; i++)
		kernel_result(r->k, s, KTYPE_INT, DTYPE_I32, 0, NULL, "last");
}

static void start_last(Runs *r) {
	IntId last = runs_number(r, r->points - 1);
	for (uint32_t i = 0; i < r->tracks.count; i++)
		put_copies(r, K_START, BUFFER_OUT, &r->tracks.at[i], last,
		           runs_number(r, (r->points - 1) % r->tracks.at[i].slots));
}

static void wait_last(Runs *r) {
	for (uint32_t i = 0; i < r->tracks.count; i++) {
		const Track *t = &r->tracks.at[i];
		for (int64_t point = int_max(r->points - t->slots, 0); point < r->points; point++)
			put_copies(r, K_WAIT, BUFFER_OUT, t, runs_number(r, point), runs_number(r, point % t->slots));
	}
}

void rewrite_grid_loop(Kernel *k) {
	if (!blocks_come_early(k) || !points_have_blocks(k))
		return;
	Runs r = {.k = k, .points = runs_points(k), .refs = k->refs.count, .d = {.k = k, .at = {k->body, NONE}}};
	BufferId operands = k->buffers.count;
	KArgs coming = {0};
	RegionId computes = kernel_region(k, NONE), last = kernel_region(k, NONE);
	kernel_move_all(k, k->body, computes);
	for (BufferId b = 0; b < operands; b++) {
		if (block_moves(k, &k->buffers.at[b]))
			runs_take_over(&r, b, track_of(&r, &k->buffers.at[b]));
		else if (stays(k, &k->buffers.at[b]))
			vec_push(k->arena, &coming, start_stay(&r, b));
	}
	for (uint32_t i = 0; i < r.moved.count; i++)
		runs_define_copy(&r, &r.moved.at[i]);
	start_first(&r);
	for (uint32_t i = 0; i < coming.count; i++)
		drive_put(&r.d, K_WAIT, 1, &coming.at[i]);
	take_out(k, computes, true, k->body);
	take_out(k, computes, false, last);
	run_points(&r, define_body(&r, computes));
	start_last(&r);
	kernel_move_all(k, last, k->body);
	wait_last(&r);
	k->grid.count = 0;
	k->unchecked = true; /* index maps name blocks inside their arrays */
	kernel_drop_unread(k);
}
