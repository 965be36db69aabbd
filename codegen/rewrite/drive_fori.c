/* drive_fori.c - a loop as jax.lax.fori_loop, one without dims as jax.lax.while_loop: copies of its windows started
 * early into spare buffers, waited for where they are read; without copies, parts of resident blocks.
 *
 *     m = call step(k_win[...], m)       def body(j, m) fori {
 *                                          when (j + 1 < 4) { start k_copy(j + 1) }
 *                                          wait k_copy(j)
 *                                          m = call step(k_buf[rem(j, 2)], m)
 *                                          return m
 *                                        } */
#include "drive.h"
#include "rewrite.h"

typedef struct Fori {
	Driver *d;
	FunctionId *copy; /* by window: makes the copy of one step's; NONE */
	int *uses;        /* by window: so many steps of an iteration read it, or write it */
	IntId flat;       /* the number of the region's step among all; NONE: behind or before the loop */
	IntId *written;   /* by window: the step of which the call under way writes it; NONE */
	StmtId group;     /* the first call whose windows nothing waits for yet; NONE */
	/* of a loop whose first windows the grid point before copies, or the item before (drive_items.c), else NONE: */
	IntId base, after; /* steps of all before this one, and before the next one: of points one at least each */
	IntId unstarted;   /* nobody has started the first copies yet */
	NextPoint point;   /* of grid points */
	Elsewhere there;   /* where the next one is */
	FunctionId *next;  /* by window: makes the copy of the next one's first one */
	BufferId counted;  /* of `base`, from one to the next */
} Fori;

/* ---- steps ------------------------------------------------------------------------------------------------------ */

/* The buffer of a step. */
static IntId slot_of(Driver *d, IntId step, int buffers) {
	int64_t number;
	if (d->fori->base != NONE)
		step = int_is_const(d->k, step, &number) && number == 0
		               ? d->fori->base
		               : int_binary(d->k, INT_ADD, d->fori->base, step);
	if (int_is_const(d->k, step, &number))
		return int_const(d->k, number % buffers);
	return buffers == 1 ? int_const(d->k, 0) : int_binary(d->k, INT_REM, step, int_const(d->k, buffers));
}

/* What of a count of all steps is left once the dim's own step is taken out of it. */
static ValueId rest_of(Driver *d, IntId i, ValueId step) {
	ValueId rest = drive_int(d, i, "rest", NONE);
	d->k->values.at[rest].after = step;
	d->k->values.at[rest].suffix = "rest";
	d->k->values.at[rest].exact = true;
	return rest;
}

/* One induction variable counts all steps, of the last dim fastest: what the step numbers are of it. Only those that
 * something reads from here on are computed: `reads` says of which. */
static void split_step(Driver *d, IntId flat, const bool *reads) {
	const KLoop *loop = d->loop;
	uint32_t first = 0;
	while (first < loop->rank && !reads[first])
		first++;
	if (loop->rank == 1)
		d->step[0] = flat;
	for (uint32_t i = loop->rank; loop->rank > 1 && i-- > first;) {
		ValueId step = loop->dim[i].step;
		const char *name = d->k->values.at[step].name;
		IntId steps = loop->dim[i].steps;
		if (i == 0)
			d->step[i] = int_value(d->k, drive_int(d, flat, name, step));
		else if (reads[i])
			d->step[i] = int_value(d->k, drive_int(d, int_binary(d->k, INT_REM, flat, steps), name, step));
		if (i > first)
			flat = int_value(d->k, rest_of(d, int_binary(d->k, INT_DIV, flat, steps), step));
	}
}

static ValueId exact_int(Kernel *k, const char *name) {
	ValueId v = kernel_value(k, KTYPE_INT, DTYPE_I32, 0, NULL, name);
	k->values.at[v].exact = true;
	return v;
}

/* Windows are those of the next one, and of its piece. */
static void move_to_next(Fori *f, const KWindow *win, ValueId piece) {
	Driver *d = f->d;
	uint32_t moved = f->there.moved;
	d->from = f->there.from;
	d->to = f->there.to;
	d->moved = moved;
	if (win->pieces == NONE)
		return;
	f->there.from[moved] = win->piece;
	f->there.to[moved] = int_value(d->k, piece);
	d->moved++;
}

/* The function that makes the copy of one step's window, or of one piece of it: of the step that it is given, or of the
 * first one of what runs next. */
static FunctionId define_copy(Driver *d, uint32_t w, bool next) {
	Kernel *k = d->k;
	const KWindow *win = &d->loop->windows.at[w];
	const char *name = win->copy ? win->copy : "copy";
	FunctionId f = kernel_function(k, FUNCTION_PLAIN, next ? arena_printf(k->arena, "%s_next", name) : name);
	ValueId step = exact_int(k, "i"), piece = next && win->pieces != NONE ? exact_int(k, "piece") : win->piece;
	KParameter parameter = {PARAMETER_VALUE, step};
	if (!next)
		vec_push(k->arena, &k->functions.at[f].parameters, parameter);
	parameter.id = piece;
	if (win->pieces != NONE)
		vec_push(k->arena, &k->functions.at[f].parameters, parameter);
	Cursor outer = drive_define(d, f);
	bool reads[RANK_MAX] = {false};
	for (uint32_t i = 0; i < d->loop->rank; i++)
		reads[i] = drive_window_reads(d, win, i);
	split_step(d, next ? int_const(k, 0) : int_value(k, step), reads);
	if (next)
		move_to_next(d->fori, win, piece);
	KArg hbm = drive_window(d, win, NONE);
	d->moved = 0;
	KDim dims[KDIM_MAX] = {{.kind = KDIM_AT, .start = int_const(k, 0)}};
	if (win->buffers > 1) {
		IntId slot = next ? int_binary(k, INT_REM, d->fori->there.count, int_const(k, win->buffers))
		                  : slot_of(d, int_value(k, step), win->buffers);
		ValueId number = drive_int(d, slot, "slot", NONE);
		k->values.at[number].exact = true;
		dims[0].start = int_value(k, number);
	}
	for (uint32_t i = 0; win->pieces != NONE && i <= win->pieces; i++)
		dims[i + 1] = (KDim){
			.kind = i < win->pieces ? KDIM_ALL : KDIM_RANGE, .start = int_value(k, piece), .size = 1};
	KArg vmem = karg_ref(kernel_ref(k, win->scratch, win->pieces == NONE ? 1 : win->pieces + 2, dims));
	KArg semaphore = karg_ref(kernel_ref(k, win->semaphore, 1, dims));
	const KArg args[3] = {win->output ? vmem : hbm, win->output ? hbm : vmem, semaphore};
	KArg copy = karg_value(kernel_result(k, drive_put(d, K_COPY, 3, args), KTYPE_COPY, DTYPE_NONE, 0, NULL, NULL));
	drive_put(d, K_RETURN, 1, &copy);
	d->at = outer;
	drive_set_own_steps(d);
	return f;
}

/* ---- from point to point ---------------------------------------------------------------------------------------- */

static KArg count_element(Kernel *k, BufferId counts, IntId at) {
	KDim dim = {.kind = KDIM_AT, .start = at, .size = 1};
	return karg_ref(kernel_ref(k, counts, 1, &dim));
}

void drive_store_count(Driver *d, BufferId counts, IntId at, IntId count) {
	KArg arg = karg_int(count);
	StmtId s = drive_put(d, K_SCALAR, 1, &arg);
	KArg value = karg_value(kernel_result(d->k, s, KTYPE_SCALAR, DTYPE_I32, 0, NULL, NULL));
	drive_put(d, K_STORE, 2, (const KArg[]){count_element(d->k, counts, at), value});
}

IntId drive_load_count(Driver *d, BufferId counts, IntId at, const char *name) {
	KArg ref = count_element(d->k, counts, at);
	return int_value(d->k,
	                 kernel_result(d->k, drive_put(d, K_LOAD, 1, &ref), KTYPE_SCALAR, DTYPE_I32, 0, NULL, name));
}

BufferId drive_counts(Kernel *k, int64_t count) {
	return kernel_scratch(k, KSPACE_SMEM, DTYPE_I32, 1, &count, "steps_ref");
}

static IntId both(Driver *d, IntId a, IntId b) {
	int64_t known;
	return int_is_const(d->k, a, &known) && known ? b : int_binary(d->k, INT_AND, a, b);
}

/* Of what counts all points, the last dim fastest. */
NextPoint drive_next_point(Driver *d, bool within) {
	Kernel *k = d->k;
	NextPoint n = {.program = drive_program(d), .point = arena_array(k->arena, k->grid.count + 1, sizeof *n.point)};
	IntId number = NONE;
	int64_t points = 1;
	for (uint32_t g = 0; g < k->grid.count; g++) {
		IntId own = int_value(k, n.program[g]), steps = int_const(k, k->grid.at[g].steps);
		points *= k->grid.at[g].steps;
		if (k->grid.at[g].steps > 1)
			number = number == NONE ? own
			                        : int_binary(k, INT_ADD, int_binary(k, INT_MUL, number, steps), own);
	}
	n.number = number;
	n.first = int_binary(k, INT_EQ, number, int_const(k, 0));
	IntId after = int_binary(k, INT_ADD, number, int_const(k, 1));
	IntId left =
		drive_named(d, within ? int_binary(k, INT_MIN, after, int_const(k, points - 1)) : after, "next_point");
	n.another = int_binary(k, INT_LT, within ? after : left, int_const(k, points));
	for (uint32_t g = k->grid.count; g-- > 0;) {
		IntId steps = int_const(k, k->grid.at[g].steps);
		points /= k->grid.at[g].steps;
		n.point[g] = k->grid.at[g].steps == 1 ? int_const(k, 0)
		             : points == 1            ? left
		                                      : int_binary(k, INT_REM, left, steps);
		left = k->grid.at[g].steps == 1 || points == 1 ? left : int_binary(k, INT_DIV, left, steps);
	}
	return n;
}

NextPoint grid_next_point(Kernel *k, RegionId at) {
	Driver d = {.k = k, .at = {at, NONE}};
	return drive_next_point(&d, false);
}

/* Buffers go round from the first point on. */
static void count_steps(Fori *f) {
	Driver *d = f->d;
	Kernel *k = d->k;
	f->point = drive_next_point(d, false);
	f->counted = drive_counts(k, 1);
	Cursor outer = drive_when(d, f->point.first, "start");
	drive_store_count(d, f->counted, int_const(k, 0), int_const(k, 0));
	d->at = outer;
	f->base = drive_load_count(d, f->counted, int_const(k, 0), "steps_before");
	IntId steps = int_binary(k, INT_MAX, drive_total_steps(d), int_const(k, 1));
	f->after = drive_named(d, int_binary(k, INT_ADD, f->base, steps), "steps_after");
	f->unstarted = f->point.first;
	f->there = (Elsewhere){f->point.program, f->point.point, k->grid.count, f->after};
}

/* ... or from the first item on. */
static void count_item(Fori *f) {
	Driver *d = f->d;
	Kernel *k = d->k;
	f->counted = d->item->counts;
	f->base = drive_load_count(d, f->counted, int_const(k, 0), "steps_before");
	f->after = drive_named(d, int_binary(k, INT_ADD, f->base, drive_total_steps(d)), "steps_after");
	IntId started = drive_load_count(d, f->counted, int_const(k, 1), "started");
	drive_store_count(d, f->counted, int_const(k, 1), int_const(k, 0));
	f->unstarted = both(d, int_binary(k, INT_LT, int_const(k, 0), drive_total_steps(d)),
	                    int_binary(k, INT_EQ, started, int_const(k, 0)));
}

/* ---- copies ----------------------------------------------------------------------------------------------------- */

static const KWindow *window(const Fori *f, uint32_t w) { return &f->d->loop->windows.at[w]; }
static uint32_t windows(const Fori *f) { return f->d->loop->windows.count; }
static bool input_copied(const KWindow *w) { return w->dma && w->input; }
static bool output_copied(const KWindow *w) { return w->dma && w->output; }

static void put_call(Fori *f, uint16_t op, uint32_t w, uint32_t arg_count, const KArg *args) {
	drive_put_copy(f->d, op, f->copy[w], arg_count, args);
}

/* Straight code that stands once for each number below `count`, from `from` on: the region, which ends with a yield. */
static KFor *put_for(Driver *d, const char *name, int64_t from, int64_t count, Cursor *outer) {
	KFor *each = arena_alloc(d->k->arena, sizeof *each);
	*each = (KFor){.step = exact_int(d->k, name), .from = from, .end = int_const(d->k, count)};
	StmtId s = drive_put(d, K_FOR, 0, NULL);
	RegionId body = kernel_region(d->k, s);
	kernel_stmt(d->k, s)->each = each;
	kernel_stmt(d->k, s)->body = body;
	*outer = drive_into(d, body);
	return each;
}

/* Of a window in pieces: each is started by itself, and one wait is for as many bytes as they all have. */
static void put_pieces(Fori *f, uint16_t op, uint32_t w, IntId step) {
	Driver *d = f->d;
	Kernel *k = d->k;
	const KWindow *win = window(f, w);
	if (op == K_START) {
		Cursor outer;
		KFor *each = put_for(d, "piece", 0, k->buffers.at[win->buffer].shape[win->pieces], &outer);
		put_call(f, op, w, 2, (const KArg[]){karg_int(step), karg_int(int_value(k, each->step))});
		drive_put(d, K_YIELD, 0, NULL);
		d->at = outer;
		return;
	}
	KDim slot = {.kind = KDIM_AT, .start = slot_of(d, step, win->buffers)};
	KArg vmem = karg_ref(kernel_ref(k, win->scratch, 1, &slot));
	KArg semaphore = karg_ref(kernel_ref(k, win->semaphore, 1, &slot));
	StmtId s = drive_put(d, K_COPY, 3, (const KArg[]){vmem, vmem, semaphore});
	KArg copy = karg_value(kernel_result(k, s, KTYPE_COPY, DTYPE_NONE, 0, NULL, NULL));
	drive_put(d, op, 1, &copy);
}

static void define_next(Fori *f) {
	f->next = arena_array(f->d->k->arena, windows(f) + 1, sizeof *f->next);
	for (uint32_t w = 0; w < windows(f); w++)
		f->next[w] = window(f, w)->dma ? define_copy(f->d, w, true) : NONE;
}

/* Starts the copies of the first windows of what runs next. */
static void start_next(Fori *f) {
	Driver *d = f->d;
	for (uint32_t w = 0; w < windows(f); w++) {
		const KWindow *win = window(f, w);
		Cursor outer = d->at;
		KArg piece;
		uint32_t args = 0;
		if (!input_copied(win))
			continue;
		if (win->pieces != NONE) {
			int64_t pieces = d->k->buffers.at[win->buffer].shape[win->pieces];
			KFor *each = put_for(d, "piece", 0, pieces, &outer);
			piece = karg_int(int_value(d->k, each->step));
			args = 1;
		}
		drive_put_copy(d, K_START, f->next[w], args, &piece);
		if (args)
			drive_put(d, K_YIELD, 0, NULL);
		d->at = outer;
	}
}

/* Starts the copy of window w for a step, or waits for it. */
static void put_copy(Fori *f, uint16_t op, uint32_t w, IntId step) {
	KArg arg = karg_int(step);
	if (window(f, w)->pieces != NONE)
		put_pieces(f, op, w, step);
	else
		put_call(f, op, w, 1, &arg);
}

/* The call reads the window, or writes it, at that step of all. */
static bool reads(Fori *f, StmtId call, uint32_t w, IntId *step) {
	IntId at;
	if (!drive_call_reads(f->d, call, w, &at))
		return false;
	*step = at == NONE ? f->flat : drive_here(f->d, at);
	return true;
}

static void count_uses(Fori *f) {
	const Kernel *k = f->d->k;
	IntId at;
	f->uses = arena_array(k->arena, windows(f) + 1, sizeof *f->uses);
	for (StmtId c = drive_next_call(k, region_first(k, kernel_stmt(k, f->d->stmt)->body)); c != NONE;
	     c = drive_next_call(k, kernel_stmt(k, c)->next))
		for (uint32_t w = 0; w < windows(f); w++)
			f->uses[w] += drive_call_reads(f->d, c, w, &at);
}

/* Each step of an iteration has a buffer of its own, and so has each one of the next iteration. */
static bool has_all(const Fori *f, uint32_t w) {
	return window(f, w)->buffers >= (input_copied(window(f, w)) ? 2 : 1) * f->uses[w];
}

/* An input is copied so many steps early. */
static int early(const Fori *f, uint32_t w) {
	return window(f, w)->buffers - (has_all(f, w) ? (int)int_max(f->uses[w], 1) : 1);
}

static int most_early(const Fori *f) {
	int most = 0;
	for (uint32_t w = 0; w < windows(f); w++)
		if (input_copied(window(f, w)) && early(f, w) > most)
			most = early(f, w);
	return most;
}

/* The first copies: as many steps early as there are spare buffers. */
static void start_first(Fori *f) {
	Driver *d = f->d;
	int64_t steps;
	bool known = loop_static_steps(d->k, d->loop, &steps);
	for (int step = 0; step < most_early(f); step++) {
		if (known && step >= steps)
			continue;
		Cursor outer = d->at;
		if (step == 0 && f->unstarted != NONE)
			drive_when(d, f->unstarted, d->item ? "unstarted" : "first");
		else if (!known)
			drive_when(d, int_binary(d->k, INT_LT, int_const(d->k, step), drive_total_steps(d)),
			           "prefetch");
		for (uint32_t w = 0; w < windows(f); w++)
			if (input_copied(window(f, w)) && early(f, w) > step)
				put_copy(f, K_START, w, int_const(d->k, step));
		d->at = outer;
	}
}

/* Copies for the step so many later that have a buffer by then are on their way. */
static void start_early(Fori *f, StmtId call, int steps) {
	Driver *d = f->d;
	Cursor outer = d->at;
	IntId step, next = NONE;
	for (uint32_t w = 0; w < windows(f); w++) {
		if (!input_copied(window(f, w)) || early(f, w) != steps || !reads(f, call, w, &step))
			continue;
		if (next == NONE) {
			next = int_binary(d->k, INT_ADD, step, int_const(d->k, steps));
			drive_when(d, int_binary(d->k, INT_LT, next, drive_total_steps(d)), "prefetch");
		}
		put_copy(f, K_START, w, next);
	}
	d->at = outer;
}

/* In the last step. */
static void start_across(Fori *f) {
	Driver *d = f->d;
	Cursor outer = d->at;
	IntId next = int_binary(d->k, INT_ADD, f->flat, int_const(d->k, 1));
	IntId last = int_binary(d->k, INT_EQ, next, drive_total_steps(d));
	drive_when(d, d->item ? last : both(d, last, f->point.another), "across");
	if (d->item) {
		drive_store_count(d, f->counted, int_const(d->k, 0), f->after);
		items_start_next(d);
	} else {
		start_next(f);
	}
	d->at = outer;
}

/* What a call reads is there. */
static void wait_for(Fori *f, StmtId call) {
	IntId step;
	for (int steps = 1; steps <= most_early(f); steps++)
		start_early(f, call, steps);
	if (f->base != NONE)
		start_across(f);
	for (uint32_t w = 0; w < windows(f); w++) {
		if (!input_copied(window(f, w)) || !reads(f, call, w, &step))
			continue;
		if (window(f, w)->buffers == 1)
			put_copy(f, K_START, w, step);
		put_copy(f, K_WAIT, w, step);
	}
}

/* A buffer is free for the next result once its copy of `buffers` steps ago has arrived. */
static void wait_for_room(Fori *f, StmtId call) {
	Driver *d = f->d;
	IntId step;
	for (uint32_t w = 0; w < windows(f); w++) {
		if (!output_copied(window(f, w)) || !reads(f, call, w, &step))
			continue;
		IntId buffers = int_const(d->k, window(f, w)->buffers);
		Cursor outer = drive_when(d, int_binary(d->k, INT_GE, step, buffers), "reuse");
		put_copy(f, K_WAIT, w, int_binary(d->k, INT_SUB, step, buffers));
		d->at = outer;
	}
}

/* The same of a call before or behind the loop, whose steps are known. */
static void wait_there(Fori *f, StmtId call) {
	Kernel *k = f->d->k;
	IntId step;
	int64_t steps, number;
	loop_static_steps(k, f->d->loop, &steps);
	for (uint32_t w = 0; w < windows(f); w++) {
		if (!input_copied(window(f, w)) || !reads(f, call, w, &step) || !int_is_const(k, step, &number))
			continue;
		int64_t next = number + early(f, w);
		if (next < steps)
			put_copy(f, K_START, w, int_const(k, next));
		put_copy(f, K_WAIT, w, step);
	}
	for (uint32_t w = 0; w < windows(f); w++)
		if (output_copied(window(f, w)) && reads(f, call, w, &step) && int_is_const(k, step, &number) &&
		    number >= window(f, w)->buffers)
			put_copy(f, K_WAIT, w, int_const(k, number - window(f, w)->buffers));
}

/* A point without steps has windows on their way all the same, and starts those of the next one. */
static void go_across(Fori *f) {
	Driver *d = f->d;
	Kernel *k = d->k;
	int64_t steps;
	IntId none = int_binary(k, INT_LT, drive_total_steps(d), int_const(k, 1));
	Cursor outer = d->at;
	if (!loop_static_steps(k, d->loop, &steps)) {
		drive_when(d, both(d, none, f->point.another), "across");
		start_next(f);
		d->at = outer;
		drive_when(d, none, "unread");
		for (uint32_t w = 0; w < windows(f); w++)
			if (input_copied(window(f, w)))
				put_copy(f, K_WAIT, w, int_const(k, 0));
		d->at = outer;
	}
	drive_store_count(d, f->counted, int_const(k, 0), f->after);
}

/* After the loop: the last results are still on their way. */
static void drain(Fori *f) {
	Driver *d = f->d;
	Kernel *k = d->k;
	int64_t steps;
	bool known = loop_static_steps(k, d->loop, &steps);
	for (uint32_t w = 0; w < windows(f); w++) {
		int buffers = window(f, w)->buffers;
		if (!output_copied(window(f, w)))
			continue;
		if (known) {
			Cursor outer;
			KFor *each = put_for(d, "i", int_max(steps - buffers, 0), steps, &outer);
			put_copy(f, K_WAIT, w, int_value(k, each->step));
			drive_put(d, K_YIELD, 0, NULL);
			d->at = outer;
			continue;
		}
		for (int back = buffers; back >= 1; back--) {
			IntId total = drive_total_steps(d), number = int_const(k, back);
			Cursor outer = drive_when(d, int_binary(k, INT_GE, total, number), "drain");
			put_copy(f, K_WAIT, w, int_binary(k, INT_SUB, total, number));
			d->at = outer;
		}
	}
}

/* ---- calls ------------------------------------------------------------------------------------------------------ */

static KArg window_there(Driver *d, uint32_t w, IntId at) {
	Fori *f = d->fori;
	KDim slot = {.kind = KDIM_AT};
	if (!window(f, w)->dma)
		return drive_window(d, window(f, w), at);
	slot.start = slot_of(d, at == NONE ? f->flat : at, window(f, w)->buffers);
	return karg_ref(kernel_ref(d->k, window(f, w)->scratch, 1, &slot));
}

static void note_written(Fori *f, StmtId call) {
	IntId step;
	for (uint32_t w = 0; w < windows(f); w++)
		f->written[w] = output_copied(window(f, w)) && reads(f, call, w, &step) ? step : NONE;
}

static void start_results(Driver *d, StmtId call) {
	Fori *f = d->fori;
	(void)call;
	for (uint32_t w = 0; w < windows(f); w++)
		if (f->written[w] != NONE)
			put_copy(f, K_START, w, f->written[w]);
}

/* All calls are a group if there are buffers for all. Else those of one function each are, up to one of a function that
 * was called before: that one needs buffers which the others still read. */
static StmtId group_end(const Fori *f, StmtId first) {
	const Kernel *k = f->d->k;
	StmtId s = first;
	bool copied = false, all = true;
	for (uint32_t w = 0; w < windows(f); w++) {
		copied = copied || window(f, w)->dma;
		all = all && (!window(f, w)->dma || has_all(f, w));
	}
	if (copied && all)
		return NONE;
	for (bool again = false; s != NONE && !again;) {
		s = drive_next_call(k, kernel_stmt(k, s)->next);
		for (StmtId c = first; s != NONE && c != s; c = drive_next_call(k, kernel_stmt(k, c)->next))
			again = again || kernel_stmt(k, c)->function == kernel_stmt(k, s)->function;
	}
	return s;
}

/* Something reads the number of the step of which a call is, if that is an expression: the expression; else NONE. */
static IntId step_to_name(const Fori *f, StmtId call) {
	const Driver *d = f->d;
	const KLoop *loop = d->loop;
	IntId found = NONE, at = NONE;
	for (uint32_t w = 0; w < loop->windows.count; w++)
		if (drive_call_reads(d, call, w, &at) && at != NONE &&
		    (loop->windows.at[w].dma ? loop->windows.at[w].input
		                             : drive_window_reads(d, &loop->windows.at[w], 0)))
			found = at;
	for (uint32_t i = 0; i < kernel_stmt(d->k, call)->arg_count; i++)
		if (kernel_arg(d->k, call, i)->kind == KARG_INT)
			found = kernel_arg(d->k, call, i)->index;
	return found == NONE || d->k->ints.at[found].kind == INT_VALUE ? NONE : found;
}

/* Nothing is waited for between the calls of a group: a wait would keep the compiler from scheduling them as one. */
static void before_group(Fori *f, StmtId first, StmtId end) {
	Driver *d = f->d;
	bool read[RANK_MAX] = {false};
	d->named = NONE;
	for (StmtId c = first; c != end; c = drive_next_call(d->k, kernel_stmt(d->k, c)->next)) {
		IntId step = d->loop->rank == 1 ? step_to_name(f, c) : NONE;
		if (step != NONE && d->named == NONE) {
			IntId by = int_value(d->k, drive_int(d, drive_here(d, step), "ahead", NONE));
			d->named = step;
			d->by = by;
		}
		wait_for(f, c);
	}
	for (StmtId c = first; c != end; c = drive_next_call(d->k, kernel_stmt(d->k, c)->next))
		wait_for_room(f, c);
	for (uint32_t i = 0; i < d->loop->rank; i++)
		read[i] = drive_step_read(d, kernel_stmt(d->k, first)->region, i);
	split_step(d, f->flat, read);
}

static void before_call(Driver *d, StmtId call) {
	Fori *f = d->fori;
	if (f->group == call) {
		StmtId end = group_end(f, call);
		before_group(f, call, end);
		f->group = end;
	}
	note_written(f, call);
}

static void before_call_there(Driver *d, StmtId call) {
	Fori *f = d->fori;
	wait_there(f, call);
	note_written(f, call);
}

static const Placing inside = {window_there, before_call, start_results};
static const Placing outside = {window_there, before_call_there, start_results};

/* ---- the body --------------------------------------------------------------------------------------------------- */

/* The loop body and its function: what is carried as values is its parameters and what it returns. */
static FunctionId define_body(Fori *f) {
	Driver *d = f->d;
	Kernel *k = d->k;
	const KLoop *loop = d->loop;
	FunctionId body = kernel_function(k, loop->rank ? FUNCTION_FORI : FUNCTION_WHILE, "body");
	ValueId step = loop->rank > 1 ? exact_int(k, loop->step_name) : loop->dim[0].step;
	KParameter number = {PARAMETER_VALUE, step};
	if (loop->rank)
		vec_push(k->arena, &k->functions.at[body].parameters, number);
	ValueId *carried = arena_array(k->arena, loop->carried.count + 1, sizeof *carried);
	for (uint32_t i = 0; i < loop->carried.count; i++) {
		KParameter p = {PARAMETER_VALUE, loop->carried.at[i]};
		carried[i] = loop->carried.at[i];
		if (loop->place.at[i] == NONE)
			vec_push(k->arena, &k->functions.at[body].parameters, p);
	}
	Cursor outer = drive_define(d, body);
	f->flat = loop->rank ? int_value(k, step) : NONE;
	f->group = drive_next_call(k, region_first(k, kernel_stmt(k, d->stmt)->body));
	drive_region(d, kernel_stmt(k, d->stmt)->body, &inside, &(Flow){carried, loop->place.at, loop->place.at, 0});
	KArgs results = {0};
	for (uint32_t i = 0; i < loop->carried.count; i++)
		if (loop->place.at[i] == NONE)
			vec_push(k->arena, &results, karg_value(carried[i]));
	drive_put(d, K_RETURN, results.count, results.at);
	d->at = outer;
	drive_set_own_steps(d);
	return body;
}

/* ---- around the body -------------------------------------------------------------------------------------------- */

/* What stands before the loop: once in all, or at each point. */
static void run_before(Fori *f, ValueId *values) {
	Driver *d = f->d;
	const KLoop *loop = d->loop;
	IntId first = loop->once ? grid_first_point(d->k) : NONE;
	Cursor outer = d->at;
	if (loop->before == NONE)
		return;
	if (first != NONE)
		drive_when(d, first, "first");
	drive_region(d, loop->before, &outside, &(Flow){values, loop->place.at, loop->place.at, drive_first_given(d)});
	d->at = outer;
}

/* The loop's statement; `values` of what it passes on. */
static void run_body(Fori *f, FunctionId body, ValueId *values) {
	Driver *d = f->d;
	Kernel *k = d->k;
	const KLoop *loop = d->loop;
	KArgs args = {0};
	start_first(f);
	run_before(f, values);
	if (loop->rank)
		vec_push(k->arena, &args, karg_int(drive_runs(d)));
	for (uint32_t i = 0; i < loop->carried.count; i++)
		if (loop->place.at[i] == NONE) {
			KArg x = *kernel_arg(k, d->stmt, i);
			vec_push(k->arena, &args, x.kind == KARG_NONE ? karg_value(values[i]) : x);
		}
	StmtId s = drive_put(d, loop->rank ? K_FORI : K_WHILE, args.count, args.at);
	kernel_stmt(k, s)->function = body;
	if (loop->unroll) {
		int64_t *steps = arena_array(k->arena, 1, sizeof *steps);
		*steps = loop->unroll;
		kernel_stmt(k, s)->ints = steps;
		kernel_stmt(k, s)->int_count = 1;
	}
	for (uint32_t i = 0; i < loop->carried.count; i++)
		if (loop->place.at[i] == NONE) {
			ValueId carried = loop->carried.at[i];
			values[i] = kernel_result_like(k, s, carried, k->values.at[carried].name);
			k->values.at[values[i]].as = i < drive_results(d) ? drive_result(d, i) : carried;
		}
}

/* Each iteration as straight code, behind a condition that always holds: the compiler schedules straight code the worse
 * the more of it there is, and moves nothing across a branch. What is carried is in scratch.
 *
 *     for i in 3 {
 *       when (point >= 0) { ... }
 *     } */
static void run_fenced(Fori *f, ValueId *values) {
	Driver *d = f->d;
	Kernel *k = d->k;
	const KLoop *loop = d->loop;
	IntId always = int_binary(k, INT_GE, int_value(k, drive_program(d)[0]), int_const(k, 0));
	run_before(f, values);
	KFor *each = arena_alloc(k->arena, sizeof *each);
	*each = (KFor){.step = loop->dim[0].step, .end = drive_runs(d)};
	StmtId s = drive_put(d, K_FOR, 0, NULL);
	RegionId steps = kernel_region(k, s);
	kernel_stmt(k, s)->each = each;
	kernel_stmt(k, s)->body = steps;
	Cursor outer = drive_into(d, steps);
	drive_when(d, always, "steps");
	f->flat = int_value(k, each->step);
	f->group = drive_next_call(k, region_first(k, kernel_stmt(k, d->stmt)->body));
	drive_region(d, kernel_stmt(k, d->stmt)->body, &inside, &(Flow){values, loop->place.at, loop->place.at, 0});
	d->at = (Cursor){steps, NONE};
	drive_put(d, K_YIELD, 0, NULL);
	d->at = outer;
	drive_set_own_steps(d);
}

/* What comes out of the loop is a variable from here on, what does not is where the loop left it. */
static const BufferId *left_in(const Driver *d) {
	uint32_t count = d->loop->carried.count;
	BufferId *from = arena_array(d->k->arena, count + 1, sizeof *from);
	for (uint32_t i = 0; i < count; i++)
		from[i] = i < drive_results(d) ? NONE : d->loop->place.at[i];
	return from;
}

/* Values that the loop passes on start as these; without a loop they stay so. */
static void put_initial(Driver *d, bool none, ValueId *results) {
	Kernel *k = d->k;
	for (uint32_t i = 0; i < d->loop->carried.count; i++) {
		if (d->loop->place.at[i] != NONE || kernel_arg(k, d->stmt, i)->kind == KARG_NONE)
			continue;
		KArg x = drive_initial(d, i);
		if (!none && x.kind == KARG_VALUE && k->values.at[x.value].def != NONE)
			kernel_stmt(k, k->values.at[x.value].def)->flags |= KSTMT_SAID;
		if (none)
			results[i] = drive_let(d, x, d->loop->carried.at[i]);
	}
}

void drive_first_windows(Driver *d, Elsewhere there) {
	Fori f = {.d = d, .group = NONE, .flat = NONE, .base = NONE, .unstarted = NONE, .there = there};
	d->fori = &f;
	define_next(&f);
	start_next(&f);
}

void drive_fori(Driver *d, ValueId *results) {
	bool none = drive_no_full_steps(d);
	uint32_t count = d->loop->windows.count + 1;
	Fori f = {.d = d, .group = NONE, .flat = NONE, .base = NONE, .unstarted = NONE};
	bool across = d->loop->across && !d->item && !none;
	d->fori = &f;
	if (across)
		count_steps(&f);
	else if (d->item)
		count_item(&f);
	count_uses(&f);
	f.copy = arena_array(d->k->arena, count, sizeof *f.copy);
	f.written = arena_array(d->k->arena, count, sizeof *f.written);
	for (uint32_t w = 0; w < windows(&f); w++)
		f.copy[w] = window(&f, w)->dma && !none ? define_copy(d, w, false) : NONE;
	if (across)
		define_next(&f);
	FunctionId body = none || d->loop->fenced ? NONE : define_body(&f);
	drive_fill_scratch(d);
	put_initial(d, none, results);
	if (!none && d->loop->fenced)
		run_fenced(&f, results);
	else if (!none)
		run_body(&f, body, results);
	drive_read_scratch(d, results);
	if (!none && d->loop->behind != NONE)
		drive_region(d, d->loop->behind, &outside, &(Flow){results, left_in(d), drive_values(d), 0});
	if (!none)
		drain(&f);
	if (across)
		go_across(&f);
	drive_tail(d, results);
}
