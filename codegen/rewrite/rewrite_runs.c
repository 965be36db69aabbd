/* rewrite_runs.c - a grid of which tables name the blocks is a loop whose copies are the kernel's own. A run is a
 * stretch of points with the same block. Its copy starts when the run so many before it has ended, whose slot it takes:
 *
 *     grid i 95 arbitrary                          in w_hbm hbm int8[32, 1024, 1024]
 *     in w_ref vmem int8[1, 1024, 1024] ...        scratch w_ref vmem int8[3, 1, 1024, 1024]
 *         at (groups_ref[i], 0, 0)                 scratch w_runs_ref smem int32[98]   the first point of each run
 *         buffers 3 ahead                          def body(point, run, slot) fori {
 *     ...                                            when (w_runs_ref[run] == point) {
 *                                                      call w_start(w_runs_ref[run + 2], slot)
 *                                                      wait w_copy(point, slot + 1)
 *                                                    }
 *                                                    ...
 *                                                  }
 *
 * Runs are looked for once, while the first copies are on their way; an emit_pipeline looks at each step for the next
 * one, and compares the blocks of three steps. Results of a run start to go back when it has ended. */
#include "pipelined.h"
#include "runs.h"

enum { OUT_SLOTS = 2, POINTS_MAX = 8192 /* their runs take 32 KiB of SMEM at most */ };

static IntId number(const Runs *r, int64_t n) { return runs_number(r, n); }

/* ---- what can be done ------------------------------------------------------------------------------------------- */

bool blocks_fill(const KBuffer *b) {
	bool all = true;
	for (uint32_t d = 0; d < b->rank; d++)
		all = all && b->array[d] % b->shape[d] == 0;
	return all;
}

static bool names_blocks(const Kernel *k) {
	bool ahead = false;
	for (BufferId b = 0; b < k->buffers.count; b++)
		ahead = ahead || k->buffers.at[b].ahead;
	return ahead;
}

int64_t runs_points(const Kernel *k) {
	int64_t points = 1;
	for (uint32_t d = 0; d < k->grid.count; d++)
		points *= k->grid.at[d].steps;
	return points;
}

static bool is_wanted(Kernel *k) {
	bool can = points_can_run_inside(k);
	int64_t points = runs_points(k);
	for (BufferId b = 0; b < k->buffers.count; b++) {
		const KBuffer *x = &k->buffers.at[b];
		can = can && (!block_moves(k, x) || blocks_fill(x));
	}
	return (names_blocks(k) || k->first_chunks) && can && points > 1 && points <= POINTS_MAX;
}

/* ---- tracks ----------------------------------------------------------------------------------------------------- */

static bool same_runs(const Track *a, const Track *b) {
	return a->count == b->count && memcmp(a->index, b->index, a->count * sizeof *a->index) == 0;
}

static uint32_t track_of(Runs *r, const KBuffer *block) {
	Track t = {.slots = block->role == BUFFER_OUT ? OUT_SLOTS : block->buffers};
	for (uint32_t d = 0; d < block->rank; d++) {
		int64_t known;
		bool there = int_is_const(r->k, block->index[d], &known);
		for (uint32_t i = 0; i < t.count; i++)
			there = there || t.index[i] == block->index[d];
		if (!there)
			t.index[t.count++] = block->index[d];
	}
	uint32_t found = 0;
	while (found < r->tracks.count &&
	       (r->tracks.at[found].slots != t.slots || !same_runs(&r->tracks.at[found], &t)))
		found++;
	t.name = block->name;
	if (found == r->tracks.count)
		vec_push(r->k->arena, &r->tracks, t);
	r->tracks.at[found].in = r->tracks.at[found].in || block->role == BUFFER_IN;
	return found;
}

static const char *called(const Runs *r, const Track *t, const char *what) { return called_after(r->k, t->name, what); }

void runs_refer_to_slot(const Runs *r, const Moved *m) {
	Kernel *k = r->k;
	for (RefId id = 0; id < r->refs; id++) {
		KRef *ref = &k->refs.at[id];
		if (ref->buffer != m->of)
			continue;
		KDim *dim = arena_array(k->arena, ref->rank + 1, sizeof *dim);
		dim[0] = (KDim){.kind = KDIM_AT, .start = r->tracks.at[m->track].now, .size = 1};
		for (uint32_t d = 0; d < ref->rank; d++)
			dim[d + 1] = ref->dim[d];
		ref->buffer = m->window;
		ref->dim = dim;
		ref->rank++;
	}
}

Moved *runs_take_over(Runs *r, BufferId operand, uint32_t track) {
	Kernel *k = r->k;
	Moved m = {.of = operand, .track = track};
	int64_t slots = r->tracks.at[track].slots;
	m.block = leave_in_hbm(k, operand);
	int64_t *shape = arena_array(k->arena, m.block.rank + 1, sizeof *shape);
	shape[0] = slots;
	memcpy(shape + 1, m.block.shape, m.block.rank * sizeof *shape);
	m.window = kernel_scratch(k, KSPACE_VMEM, m.block.dtype, m.block.rank + 1, shape, m.block.name);
	m.semaphore = kernel_scratch(k, KSPACE_DMA, DTYPE_NONE, 1, &slots, called_after(k, m.block.name, "sem"));
	vec_push(k->arena, &r->moved, m);
	return &r->moved.at[r->moved.count - 1];
}

/* The operand's blocks, if they move, come in windows of the kernel's own. */
static void take_over(Runs *r, BufferId operand) {
	Kernel *k = r->k;
	Visited v, *visited = NULL;
	if (find_visited(k, operand, &v)) {
		cut_blocks(k, &v);
		visited = arena_alloc(k->arena, sizeof *visited);
		*visited = v;
	}
	if (!block_moves(k, &k->buffers.at[operand]))
		return;
	runs_take_over(r, operand, track_of(r, &k->buffers.at[operand]))->visited = visited;
}

/* ---- where blocks lie ------------------------------------------------------------------------------------------- */

/* The place along a grid dim of a point, which counts all, the last dim fastest. */
static IntId place_of(const Runs *r, uint32_t dim, IntId point) {
	Kernel *k = r->k;
	int64_t behind = 1, before = 1;
	for (uint32_t d = 0; d < k->grid.count; d++) {
		before *= d < dim ? k->grid.at[d].steps : 1;
		behind *= d > dim ? k->grid.at[d].steps : 1;
	}
	if (k->grid.at[dim].steps == 1)
		return number(r, 0);
	IntId place = behind == 1 ? point : int_binary(k, INT_DIV, point, number(r, behind));
	return before == 1 ? place : int_binary(k, INT_REM, place, number(r, k->grid.at[dim].steps));
}

static IntId index_at(Runs *r, IntId index, IntId point) {
	for (uint32_t d = 0; d < r->k->grid.count; d++)
		index = int_substitute(r->k, index, r->k->grid.at[d].at, place_of(r, d, point));
	return drive_loaded(&r->d, index);
}

void runs_block_at(Runs *r, const Moved *m, IntId point, KDim *dims) {
	Kernel *k = r->k;
	for (uint32_t d = 0; d < m->block.rank; d++) {
		int64_t size = m->block.shape[d];
		IntId at = size == m->block.array[d] ? NONE : index_at(r, m->block.index[d], point);
		if (at == NONE)
			dims[d] = (KDim){.kind = KDIM_ALL};
		else
			dims[d] = (KDim){.kind = KDIM_RANGE,
			                 .start = size == 1 ? at : int_binary(k, INT_MUL, at, number(r, size)),
			                 .size = size};
	}
}

static KArg block_at(Runs *r, const Moved *m, IntId point) {
	KDim dims[KDIM_MAX];
	runs_block_at(r, m, point, dims);
	return karg_ref(kernel_ref(r->k, m->of, m->block.rank, dims));
}

static KArg slot_of(const Runs *r, BufferId b, IntId slot) { return karg_ref(element_at(r->k, b, slot)); }

/* ---- statements ------------------------------------------------------------------------------------------------- */

static void put_start(Runs *r, const Track *t, IntId point, IntId slot) {
	const KArg args[2] = {karg_int(point), karg_int(slot)};
	kernel_stmt(r->k, drive_put(&r->d, K_CALL, 2, args))->function = t->start;
}

void runs_put_copy(Runs *r, uint16_t op, const Moved *m, IntId point, IntId slot) {
	const KArg args[2] = {karg_int(point), karg_int(slot)};
	drive_put_copy(&r->d, op, m->copy, 2, args);
}

/* ---- functions -------------------------------------------------------------------------------------------------- */

void runs_define_copy(Runs *r, Moved *m) {
	Kernel *k = r->k;
	m->copy = kernel_function(k, FUNCTION_PLAIN, called_after(k, m->block.name, "copy"));
	Cursor outer = drive_define(&r->d, m->copy);
	IntId point = drive_parameter(r->k, m->copy, "of_point"), slot = drive_parameter(r->k, m->copy, "to_slot");
	KArg hbm = block_at(r, m, point), vmem = slot_of(r, m->window, slot);
	bool out = m->block.role == BUFFER_OUT;
	const KArg args[3] = {out ? vmem : hbm, out ? hbm : vmem, slot_of(r, m->semaphore, slot)};
	StmtId s = drive_put(&r->d, K_COPY, 3, args);
	KArg copy = karg_value(kernel_result(k, s, KTYPE_COPY, DTYPE_NONE, 0, NULL, NULL));
	drive_put(&r->d, K_RETURN, 1, &copy);
	r->d.at = outer;
}

/* The run that begins at a point, if there is such a point, gets a slot. */
static void define_start(Runs *r, Track *t) {
	t->start = kernel_function(r->k, FUNCTION_PLAIN, called(r, t, "start"));
	Cursor outer = drive_define(&r->d, t->start);
	IntId point = drive_parameter(r->k, t->start, "of_point"), slot = drive_parameter(r->k, t->start, "to_slot");
	drive_when(&r->d, int_binary(r->k, INT_LT, point, number(r, r->points)), "another");
	for (uint32_t i = 0; i < r->moved.count; i++)
		if (&r->tracks.at[r->moved.at[i].track] == t && r->moved.at[i].block.role == BUFFER_IN)
			runs_put_copy(r, K_START, &r->moved.at[i], point, slot);
	r->d.at = outer;
}

/* ---- around the points ------------------------------------------------------------------------------------------ */

/* 1 if a point has another block than the one before it, else 0; said once of tracks with the same runs. */
static IntId changes(Runs *r, Track *t, IntId point) {
	for (const Track *other = r->tracks.at; other < t; other++)
		if (same_runs(other, t))
			return t->new = other->new;
	IntId before = int_binary(r->k, INT_SUB, point, number(r, 1)), same = NONE;
	for (uint32_t i = 0; i < t->count; i++) {
		IntId one = int_binary(r->k, INT_EQ, index_at(r, t->index[i], point), index_at(r, t->index[i], before));
		same = same == NONE ? one : int_binary(r->k, INT_AND, same, one);
	}
	return t->new = drive_named(&r->d, int_choose(r->k, same, number(r, 0), number(r, 1)), called(r, t, "new"));
}

/* Lists the runs; what has so many more slots than one as the first runs have copies on their way is left. */
static void find_runs(Runs *r) {
	Kernel *k = r->k;
	KArgs args = {0}, counts = {0};
	FunctionId find = kernel_function(k, FUNCTION_FORI, "find_runs");
	for (uint32_t i = 0; i < r->tracks.count; i++)
		drive_store_count(&r->d, r->tracks.at[i].runs, number(r, 0), number(r, 0));
	Cursor outer = drive_define(&r->d, find);
	IntId step = drive_parameter(r->k, find, "step");
	vec_push(k->arena, &args, karg_int(number(r, r->points - 1)));
	IntId point = drive_named(&r->d, int_binary(k, INT_ADD, step, number(r, 1)), "point");
	KArg first = karg_int(point); /* a value, once for all lists */
	StmtId scalar = drive_put(&r->d, K_SCALAR, 1, &first);
	first = karg_value(
		kernel_result(k, scalar, KTYPE_SCALAR, DTYPE_I32, 0, NULL, r->tracks.count > 1 ? "first" : NULL));
	for (uint32_t i = 0; i < r->tracks.count; i++) {
		Track *t = &r->tracks.at[i];
		IntId count = drive_parameter(r->k, find, called(r, t, "count"));
		drive_put(&r->d, K_STORE, 2, (const KArg[]){slot_of(r, t->runs, count), first});
		vec_push(k->arena, &args, karg_int(number(r, 1)));
		IntId after = int_binary(k, INT_ADD, count, changes(r, t, point));
		vec_push(k->arena, &counts, karg_int(drive_named(&r->d, after, called(r, t, "counted"))));
	}
	drive_put(&r->d, K_RETURN, counts.count, counts.at);
	r->d.at = outer;
	StmtId s = drive_put(&r->d, K_FORI, args.count, args.at);
	kernel_stmt(k, s)->function = find;
	for (uint32_t i = 0; i < r->tracks.count; i++)
		kernel_result(k, s, KTYPE_INT, DTYPE_I32, 0, NULL, called(r, &r->tracks.at[i], "count"));
	for (uint32_t i = 0; i < r->tracks.count; i++) {
		IntId count = int_value(k, kernel_stmt(k, s)->result + i);
		for (int n = 0; n < r->tracks.at[i].slots; n++)
			drive_store_count(&r->d, r->tracks.at[i].runs,
			                  n ? int_binary(k, INT_ADD, count, number(r, n)) : count,
			                  number(r, r->points));
	}
}

/* With code of its own for the first point: when the second run's copy starts. HBM has the first point's blocks to
 * bring then, and what is needed sooner. */
static int64_t late_start(const Runs *r, const Track *t) {
	enum { LATE = 2 };
	int64_t points = 1; /* of a run, at least */
	for (uint32_t d = r->k->grid.count; d-- > 0;) {
		for (uint32_t i = 0; i < t->count; i++)
			if (r->k->grid.at[d].steps > 1 && int_reads(r->k, t->index[i], r->k->grid.at[d].at))
				return int_min(points - 1, LATE);
		points *= r->k->grid.at[d].steps;
	}
	return 0;
}

/* Of the runs behind the first, those that have slots. */
static void start_next(Runs *r, const Track *t) {
	for (int run = 1; run + !r->first < t->slots; run++) {
		IntId point = drive_load_count(&r->d, t->runs, number(r, run), called(r, t, "run"));
		put_start(r, t, point, number(r, run));
	}
}

static void put_first(Runs *r) {
	for (uint32_t i = 0; !r->first && i < r->tracks.count; i++)
		if (r->tracks.at[i].in && r->tracks.at[i].slots > 1)
			put_start(r, &r->tracks.at[i], number(r, 0), number(r, 0));
	if (r->first)
		first_point_start(r);
	for (uint32_t i = 0; i < r->moved.count; i++)
		if (r->moved.at[i].visited)
			clear_flags(r->k, r->moved.at[i].visited, r->k->body);
	find_runs(r);
	for (uint32_t i = 0; i < r->tracks.count; i++)
		if (r->tracks.at[i].in && (!r->first || late_start(r, &r->tracks.at[i]) == 0))
			start_next(r, &r->tracks.at[i]);
}

IntId runs_slot_after(Runs *r, const Track *t, IntId slot) {
	IntId last = number(r, t->slots - 1);
	return t->slots == 1 ? slot
	                     : int_choose(r->k, int_binary(r->k, INT_EQ, slot, last), number(r, 0),
	                                  int_binary(r->k, INT_ADD, slot, number(r, 1)));
}

/* Results of the run before go back; the slot is free once those have that went from it before. */
static void change_out(Runs *r, const Track *t, const Moved *m, IntId point) {
	IntId before = int_binary(r->k, INT_SUB, point, number(r, 1));
	Cursor outer = drive_when(&r->d, int_binary(r->k, INT_GT, point, number(r, 0)), "ended");
	runs_put_copy(r, K_START, m, before, t->slot);
	r->d.at = outer;
	IntId run = t->run, slots = number(r, t->slots);
	outer = drive_when(&r->d, int_binary(r->k, INT_GE, run, slots), "reuse");
	runs_put_copy(r, K_WAIT, m, drive_load_count(&r->d, t->runs, int_binary(r->k, INT_SUB, run, slots), "gone"),
	              t->now);
	r->d.at = outer;
}

/* A block that was seen, and left, is read again. What was written of it has arrived: not the run before this one
 * wrote it, and for others of two slots was waited for. */
static void bring_back(Runs *r, const Track *t, const Moved *m, IntId point) {
	Kernel *k = r->k;
	const Visited *v = m->visited;
	IntId place = drive_named(&r->d, index_at(r, m->block.index[0], point), called(r, t, "block"));
	KDim *dim = arena_array(k->arena, 1, sizeof *dim);
	*dim = (KDim){.kind = KDIM_RANGE, .start = place, .size = 1};
	IntId seen = drive_load_count(&r->d, v->seen, place, "seen");
	Cursor outer = drive_when(&r->d, int_binary(k, INT_GT, seen, number(r, 0)), "again");
	KArg parts[] = {karg_ref(kernel_ref(k, m->of, 1, dim)), slot_of(r, m->window, t->now),
	                slot_of(r, v->semaphore, number(r, 0))};
	StmtId s = drive_put(&r->d, K_COPY, 3, parts);
	KArg back = karg_value(kernel_result(k, s, KTYPE_COPY, DTYPE_NONE, 0, NULL, "back"));
	drive_put(&r->d, K_START, 1, &back);
	drive_put(&r->d, K_WAIT, 1, &back);
	r->d.at = outer;
	drive_store_count(&r->d, v->seen, place, number(r, 1));
}

/* What the first point of a run does before it computes. */
static void begin_run(Runs *r, Track *t, IntId point) {
	IntId old = t->slot;
	Cursor outer = drive_when(&r->d, t->new, called(r, t, "changes"));
	if (t->in) {
		IntId ahead = int_binary(r->k, INT_ADD, t->run, number(r, t->slots - 1));
		IntId from = t->slots > 1 ? drive_load_count(&r->d, t->runs, ahead, called(r, t, "ahead")) : point;
		put_start(r, t, from, old);
	}
	for (uint32_t i = 0; i < r->moved.count; i++)
		if (&r->tracks.at[r->moved.at[i].track] == t && r->moved.at[i].block.role == BUFFER_OUT)
			change_out(r, t, &r->moved.at[i], point);
	for (uint32_t i = 0; i < r->moved.count; i++)
		if (&r->tracks.at[r->moved.at[i].track] == t && r->moved.at[i].visited)
			bring_back(r, t, &r->moved.at[i], point);
	for (uint32_t i = 0; i < r->moved.count; i++)
		if (&r->tracks.at[r->moved.at[i].track] == t && r->moved.at[i].block.role == BUFFER_IN)
			runs_put_copy(r, K_WAIT, &r->moved.at[i], point, t->now);
	r->d.at = outer;
}

/* The last results have not started, those of the run before are on their way. */
static void put_last(Runs *r, StmtId loop) {
	for (uint32_t i = 0; i < r->moved.count; i++) {
		const Moved *m = &r->moved.at[i];
		IntId runs = int_value(r->k, kernel_stmt(r->k, loop)->result + 2 * m->track);
		IntId slot = int_value(r->k, kernel_stmt(r->k, loop)->result + 2 * m->track + 1);
		IntId last = number(r, r->points - 1);
		if (m->block.role != BUFFER_OUT)
			continue;
		runs_put_copy(r, K_START, m, last, slot);
		Cursor outer = drive_when(&r->d, int_binary(r->k, INT_GT, runs, number(r, 1)), "drain");
		IntId before = int_binary(r->k, INT_SUB, runs, number(r, 2));
		runs_put_copy(r, K_WAIT, m, drive_load_count(&r->d, r->tracks.at[m->track].runs, before, "gone"),
		              int_binary(r->k, INT_SUB, number(r, 1), slot));
		r->d.at = outer;
		runs_put_copy(r, K_WAIT, m, last, slot);
	}
}

/* ---- the points ------------------------------------------------------------------------------------------------- */

void runs_move_points(Runs *r, RegionId from, IntId point) {
	Kernel *k = r->k;
	for (StmtId s = region_first(k, from), next; s != NONE; s = next) {
		KStmt *stmt = kernel_stmt(k, s);
		next = stmt->next;
		if (stmt->op == K_PROGRAM_ID) {
			KArg place = karg_int(place_of(r, (uint32_t)stmt->ints[0], point));
			stmt->op = K_INT;
			stmt->int_count = 0;
			kernel_set_args(k, s, 1, &place);
		}
		kernel_move(k, s, r->d.at.region);
	}
}

static FunctionId define_body(Runs *r, RegionId computes) {
	Kernel *k = r->k;
	FunctionId body = kernel_function(k, FUNCTION_FORI, "body");
	Cursor outer = drive_define(&r->d, body);
	IntId point = drive_parameter(r->k, body, r->first ? "step" : "point");
	KArgs carried = {0};
	for (uint32_t i = 0; i < r->tracks.count; i++) {
		Track *t = &r->tracks.at[i];
		t->run = drive_parameter(r->k, body, called(r, t, "run"));
		t->slot = drive_parameter(r->k, body, called(r, t, "slot"));
	}
	if (r->first)
		point = drive_named(&r->d, int_binary(k, INT_ADD, point, number(r, 1)), "point");
	for (uint32_t i = 0; i < r->tracks.count; i++) {
		Track *t = &r->tracks.at[i];
		IntId run = t->run, slot = t->slot;
		IntId first = drive_load_count(&r->d, t->runs, run, called(r, t, "first"));
		t->new = int_binary(k, INT_EQ, first, point);
		IntId now = int_choose(k, t->new, runs_slot_after(r, t, slot), slot);
		t->now = drive_named(&r->d, now, called(r, t, "slot_now"));
		IntId next = int_choose(k, t->new, int_binary(k, INT_ADD, run, number(r, 1)), run);
		t->next = drive_named(&r->d, next, called(r, t, "run_next"));
	}
	for (uint32_t i = 0; i < r->tracks.count; i++)
		begin_run(r, &r->tracks.at[i], point);
	for (uint32_t i = 0; r->first && i < r->tracks.count; i++) {
		int64_t late = r->tracks.at[i].in ? late_start(r, &r->tracks.at[i]) : 0;
		if (late == 0)
			continue;
		Cursor before = drive_when(&r->d, int_binary(k, INT_EQ, point, number(r, late)),
		                           called(r, &r->tracks.at[i], "second"));
		start_next(r, &r->tracks.at[i]);
		r->d.at = before;
	}
	for (uint32_t i = 0; i < r->moved.count; i++)
		runs_refer_to_slot(r, &r->moved.at[i]);
	runs_move_points(r, computes, point);
	for (uint32_t i = 0; i < r->tracks.count; i++) {
		vec_push(k->arena, &carried, karg_int(r->tracks.at[i].next));
		vec_push(k->arena, &carried, karg_int(r->tracks.at[i].now));
	}
	drive_put(&r->d, K_RETURN, carried.count, carried.at);
	r->d.at = outer;
	return body;
}

static void run_points(Runs *r, FunctionId body) {
	Kernel *k = r->k;
	KArgs args = {0};
	int64_t done = r->first != NULL;
	vec_push(k->arena, &args, karg_int(number(r, r->points - done)));
	for (uint32_t i = 0; i < r->tracks.count; i++) {
		vec_push(k->arena, &args, karg_int(number(r, done)));
		vec_push(k->arena, &args, karg_int(number(r, done ? 0 : r->tracks.at[i].slots - 1)));
	}
	StmtId s = drive_put(&r->d, K_FORI, args.count, args.at);
	kernel_stmt(k, s)->function = body;
	for (uint32_t i = 0; i < r->tracks.count; i++) {
		kernel_result(k, s, KTYPE_INT, DTYPE_I32, 0, NULL, called(r, &r->tracks.at[i], "runs"));
		kernel_result(k, s, KTYPE_INT, DTYPE_I32, 0, NULL, called(r, &r->tracks.at[i], "slot"));
	}
	put_last(r, s);
}

void rewrite_runs(Kernel *k) {
	Runs r = {.k = k, .points = runs_points(k), .refs = k->refs.count};
	BufferId operands = k->buffers.count;
	bool wanted = is_wanted(k), chunks = k->first_chunks;
	k->first_chunks = false;
	if (!wanted)
		return;
	r.d = (Driver){.k = k, .at = {k->body, NONE}};
	r.first = chunks ? first_point_find(&r) : NULL;
	if (chunks && !r.first && !names_blocks(k))
		return;
	for (BufferId b = 0; b < operands; b++)
		take_over(&r, b);
	for (uint32_t i = 0; i < r.tracks.count; i++) {
		int64_t count = r.points + r.tracks.at[i].slots;
		const char *name = called(&r, &r.tracks.at[i], "runs_ref");
		r.tracks.at[i].runs = kernel_scratch(k, KSPACE_SMEM, DTYPE_I32, 1, &count, name);
	}
	RegionId computes = kernel_region(k, NONE);
	kernel_move_all(k, k->body, computes);
	for (uint32_t i = 0; i < r.moved.count; i++)
		runs_define_copy(&r, &r.moved.at[i]);
	for (uint32_t i = 0; i < r.tracks.count; i++)
		if (r.tracks.at[i].in)
			define_start(&r, &r.tracks.at[i]);
	put_first(&r);
	if (r.first)
		first_point_compute(&r, computes);
	run_points(&r, define_body(&r, computes));
	k->grid.count = 0;
	k->unchecked = true; /* index maps name blocks inside their arrays */
	kernel_drop_unread(k);
}
