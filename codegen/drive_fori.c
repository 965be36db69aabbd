/* drive_fori.c - a loop as jax.lax.fori_loop: copies of its windows started ahead into spare buffers, waited for where
 * they are read; without copies, parts of resident blocks. */
#include "drive.h"

typedef struct Fori {
	Driver *d;
	FunctionId *copy; /* by window: makes the copy of one step's; NONE */
	ValueId *body;    /* by argument: what the body carries */
} Fori;

/* ---- copies ----------------------------------------------------------------------------------------------------- */

static const KWindow *window(const Fori *f, uint32_t w) { return &f->d->loop->windows.at[w]; }
static uint32_t windows(const Fori *f) { return f->d->loop->windows.count; }

/* The buffer of a step. */
static IntId slot_of(Driver *d, IntId step, int buffers) {
	int64_t number;
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

/* The function that makes the copy of one step's window. */
static FunctionId define_copy(Driver *d, uint32_t w) {
	Kernel *k = d->k;
	const KWindow *win = &d->loop->windows.at[w];
	FunctionId f = kernel_function(k, FUNCTION_PLAIN, win->copy);
	ValueId step = exact_int(k, "i");
	KParameter parameter = {PARAMETER_VALUE, step};
	vec_push(k->arena, &k->functions.at[f].parameters, parameter);
	Cursor outer = drive_define(d, f);
	bool reads[RANK_MAX] = {false};
	for (uint32_t i = 0; i < d->loop->rank; i++)
		reads[i] = drive_window_reads(d, win, i);
	split_step(d, int_value(k, step), reads);
	KArg hbm = drive_window(d, win);
	KDim slot = {.kind = KDIM_AT, .start = int_const(k, 0)};
	if (win->buffers > 1) {
		ValueId number = drive_int(d, slot_of(d, int_value(k, step), win->buffers), "slot", NONE);
		k->values.at[number].exact = true;
		slot.start = int_value(k, number);
	}
	KArg vmem = karg_ref(kernel_ref(k, win->scratch, 1, &slot));
	KArg semaphore = karg_ref(kernel_ref(k, win->semaphore, 1, &slot));
	const KArg args[3] = {win->output ? vmem : hbm, win->output ? hbm : vmem, semaphore};
	KArg copy = karg_value(kernel_result(k, drive_put(d, K_COPY, 3, args), KTYPE_COPY, DTYPE_NONE, 0, NULL, NULL));
	drive_put(d, K_RETURN, 1, &copy);
	d->at = outer;
	drive_set_own_steps(d);
	return f;
}

/* Starts the copy of window w for a step, or waits for it. */
static void put_copy(const Fori *f, uint16_t op, uint32_t w, IntId step) {
	Driver *d = f->d;
	KArg arg = karg_int(step);
	StmtId call = drive_put(d, K_CALL, 1, &arg);
	kernel_stmt(d->k, call)->function = f->copy[w];
	KArg copy = karg_value(kernel_result(d->k, call, KTYPE_COPY, DTYPE_NONE, 0, NULL, NULL));
	drive_put(d, op, 1, &copy);
}

static bool input_copied(const KWindow *w) { return w->dma && w->input; }
static bool output_copied(const KWindow *w) { return w->dma && w->output; }

static bool input_copied_for(const Fori *f, Part part, uint32_t w) {
	return input_copied(window(f, w)) && drive_reads(f->d, part, w);
}

static int most_buffers(const Fori *f) {
	int most = 0;
	for (uint32_t w = 0; w < windows(f); w++)
		if (input_copied(window(f, w)) && window(f, w)->buffers > most)
			most = window(f, w)->buffers;
	return most;
}

static bool any_buffers(const Fori *f, Part part, int buffers) {
	for (uint32_t w = 0; w < windows(f); w++)
		if (input_copied_for(f, part, w) && window(f, w)->buffers == buffers)
			return true;
	return false;
}

/* The first copies: as many steps ahead as there are spare buffers. */
static void start_first(const Fori *f) {
	Driver *d = f->d;
	int64_t steps;
	bool known = drive_static_steps(d, &steps);
	for (int ahead = 0; ahead + 1 < most_buffers(f); ahead++) {
		if (known && ahead >= steps)
			continue;
		Cursor outer = d->at;
		if (!known)
			drive_when(d, K_WHEN, int_binary(d->k, INT_LT, int_const(d->k, ahead), drive_total_steps(d)),
			           "prefetch");
		for (uint32_t w = 0; w < windows(f); w++)
			if (input_copied(window(f, w)) && window(f, w)->buffers - 1 > ahead)
				put_copy(f, K_START, w, int_const(d->k, ahead));
		d->at = outer;
	}
}

/* What `part` reads at a step is there; copies for as many steps later as there are spare buffers are on their way. */
static void wait_for(const Fori *f, Part part, IntId step) {
	Driver *d = f->d;
	for (int ahead = 1; ahead < most_buffers(f); ahead++) {
		if (!any_buffers(f, part, ahead + 1))
			continue;
		IntId next = drive_plus(d, step, ahead);
		Cursor outer = drive_when(d, K_WHEN, int_binary(d->k, INT_LT, next, drive_total_steps(d)), "prefetch");
		for (uint32_t w = 0; w < windows(f); w++)
			if (input_copied_for(f, part, w) && window(f, w)->buffers - 1 == ahead)
				put_copy(f, K_START, w, next);
		d->at = outer;
	}
	for (uint32_t w = 0; w < windows(f); w++) {
		if (!input_copied_for(f, part, w))
			continue;
		if (window(f, w)->buffers == 1)
			put_copy(f, K_START, w, step);
		put_copy(f, K_WAIT, w, step);
	}
}

/* The same at a step whose number is known, of a loop of `steps`. */
static void wait_at(const Fori *f, Part part, int64_t step, int64_t steps) {
	for (uint32_t w = 0; w < windows(f); w++) {
		int64_t next = step + window(f, w)->buffers - 1;
		if (!input_copied_for(f, part, w))
			continue;
		if (next < steps)
			put_copy(f, K_START, w, int_const(f->d->k, next));
		put_copy(f, K_WAIT, w, int_const(f->d->k, step));
	}
}

/* A buffer is free for the next result once its copy of `buffers` steps ago has arrived. */
static void wait_for_room(const Fori *f, IntId step) {
	Driver *d = f->d;
	for (uint32_t w = 0; w < windows(f); w++) {
		if (!output_copied(window(f, w)))
			continue;
		IntId buffers = int_const(d->k, window(f, w)->buffers);
		Cursor outer = drive_when(d, K_WHEN, int_binary(d->k, INT_GE, step, buffers), "reuse");
		put_copy(f, K_WAIT, w, int_binary(d->k, INT_SUB, step, buffers));
		d->at = outer;
	}
}

static void start_results(const Fori *f, IntId step) {
	for (uint32_t w = 0; w < windows(f); w++)
		if (output_copied(window(f, w)))
			put_copy(f, K_START, w, step);
}

/* After the loop: the last results are still on their way. */
static void drain(const Fori *f) {
	Driver *d = f->d;
	Kernel *k = d->k;
	int64_t steps;
	bool known = drive_static_steps(d, &steps);
	for (uint32_t w = 0; w < windows(f); w++) {
		int buffers = window(f, w)->buffers;
		if (!output_copied(window(f, w)))
			continue;
		if (known) {
			KFor *each = arena_alloc(k->arena, sizeof *each);
			*each = (KFor){.step = exact_int(k, "i"),
			               .from = int_max(steps - buffers, 0),
			               .end = int_const(k, steps)};
			StmtId s = drive_put(d, K_FOR, 0, NULL);
			RegionId body = kernel_region(k, s);
			kernel_stmt(k, s)->each = each;
			kernel_stmt(k, s)->body = body;
			Cursor outer = drive_into(d, body);
			put_copy(f, K_WAIT, w, int_value(k, each->step));
			drive_put(d, K_YIELD, 0, NULL);
			d->at = outer;
			continue;
		}
		for (int back = buffers; back >= 1; back--) {
			IntId total = drive_total_steps(d), number = int_const(k, back);
			Cursor outer = drive_when(d, K_WHEN, int_binary(k, INT_GE, total, number), "drain");
			put_copy(f, K_WAIT, w, int_binary(k, INT_SUB, total, number));
			d->at = outer;
		}
	}
}

/* ---- calls ------------------------------------------------------------------------------------------------------ */

static void add_windows(const Fori *f, Part part, IntId step, KArgs *args) {
	Driver *d = f->d;
	for (uint32_t w = 0; w < windows(f); w++) {
		const KWindow *win = window(f, w);
		KDim slot = {.kind = KDIM_AT};
		if (!drive_reads(d, part, w))
			continue;
		if (win->dma)
			slot.start = slot_of(d, step, win->buffers);
		vec_push(d->k->arena, args,
		         win->dma ? karg_ref(kernel_ref(d->k, win->scratch, 1, &slot)) : drive_window(d, win));
	}
}

/* Where a step's part finds what was handed to it, or leaves what it hands on. */
typedef struct Hand {
	ValueId *value;   /* by handed value: what passes it on; NONE: ... */
	BufferId *buffer; /* ... this */
} Hand;

static Hand hand(const Fori *f, bool odd, const ValueId *value) {
	const KLoop *loop = f->d->loop;
	Arena *a = f->d->k->arena;
	Hand h = {arena_array(a, loop->handed.count + 1, sizeof *h.value),
	          arena_array(a, loop->handed.count + 1, sizeof *h.buffer)};
	for (uint32_t i = 0; i < loop->handed.count; i++) {
		h.buffer[i] = odd ? loop->handed.at[i].odd : loop->handed.at[i].scratch;
		h.value[i] = h.buffer[i] == NONE || loop->handed.at[i].scratch == NONE ? value[i] : NONE;
		if (loop->handed.at[i].scratch == NONE)
			h.buffer[i] = NONE;
	}
	return h;
}

static ValueId *handed_values(const Fori *f) {
	const KLoop *loop = f->d->loop;
	ValueId *values = arena_array(f->d->k->arena, loop->handed.count + 1, sizeof *values);
	for (uint32_t i = 0; i < loop->handed.count; i++)
		values[i] = loop->handed.at[i].value;
	return values;
}

/* What the step computes one step ahead, for `to`. Values take over the variables of what they stand for, or with
 * `next` have their own. */
static void call_ahead(const Fori *f, IntId step, Hand *to, bool next) {
	KArgs args = {0};
	Driver *d = f->d;
	drive_set_step(d, step);
	drive_add_steps(d, PART_AHEAD, &args);
	add_windows(f, PART_AHEAD, step, &args);
	const ValueId *results = drive_call(d, PART_AHEAD, &args, to->value, to->buffer);
	for (uint32_t i = 0; i < d->loop->handed.count; i++) {
		to->value[i] = results[i];
		if (next && results[i] != NONE)
			drive_call_next(d, results[i]);
	}
}

/* The rest of a step, or a whole one. `carried` become what it gives; those with a buffer in `place` are read and
 * stored there. */
static void call_rest(const Fori *f, IntId step, const Hand *from, ValueId *carried, const BufferId *place) {
	Driver *d = f->d;
	Arena *a = d->k->arena;
	const KLoop *loop = d->loop;
	KArgs args = {0};
	drive_add_steps(d, PART_STEP, &args);
	for (uint32_t i = 0; i < loop->handed.count; i++)
		vec_push(a, &args,
		         from->buffer[i] != NONE ? drive_load(d, from->buffer[i], loop->handed.at[i].value)
		                                 : karg_value(from->value[i]));
	add_windows(f, PART_STEP, step, &args);
	for (uint32_t i = 0; i < loop->carried.count; i++)
		vec_push(a, &args,
		         place && place[i] != NONE ? drive_load(d, place[i], loop->carried.at[i])
		                                   : karg_value(carried[i]));
	const ValueId *results = drive_call(d, PART_STEP, &args, carried, place);
	for (uint32_t i = 0; i < loop->carried.count; i++)
		if (!place || place[i] == NONE)
			carried[i] = results[i];
}

/* ---- the body --------------------------------------------------------------------------------------------------- */

static bool copies_ahead(const Fori *f) {
	for (uint32_t w = 0; w < windows(f); w++)
		if (input_copied_for(f, PART_AHEAD, w))
			return true;
	return false;
}

/* One step of the body, with the copies that it waits for and starts. Nothing is waited for between what it computes
 * ahead and the rest: a wait would keep the compiler from scheduling them as one. `next`: what counts the next step
 * already; NONE. */
static void body_step(const Fori *f, IntId step, IntId next, const Hand *from, Hand *to, bool own, ValueId *carried,
                      const BufferId *place) {
	Driver *d = f->d;
	const KLoop *loop = d->loop;
	if (loop->skewed) {
		bool counted = next != NONE || !(copies_ahead(f) || drive_step_read(d, PART_AHEAD, 0, true));
		if (next == NONE)
			next = drive_plus(d, step, 1);
		if (!counted)
			next = int_value(d->k, drive_int(d, next, "ahead", NONE));
		wait_for(f, PART_AHEAD, next);
	}
	wait_for(f, PART_STEP, step);
	wait_for_room(f, step);
	if (loop->skewed)
		call_ahead(f, next, to, own);
	bool reads[RANK_MAX] = {false};
	for (uint32_t i = 0; i < loop->rank; i++)
		reads[i] = drive_step_read(d, PART_STEP, i, true);
	split_step(d, step, reads);
	call_rest(f, step, from, carried, place);
	start_results(f, step);
}

/* Both steps of an iteration: what one hands on the other reads from its own scratch, so that neither waits for room.
 * Carried values go through scratch once for both. */
static void body_pair(const Fori *f, IntId step, ValueId *carried) {
	Driver *d = f->d;
	Kernel *k = d->k;
	const KLoop *loop = d->loop;
	const ValueId *values = handed_values(f);
	Hand even = hand(f, false, values);
	for (uint32_t i = 0; i < loop->carried.count; i++)
		if (loop->place.at[i] != NONE) {
			KArg ref = drive_whole(d, loop->place.at[i]);
			carried[i] = drive_value(d, K_LOAD, 1, &ref, loop->carried.at[i],
			                         k->values.at[loop->carried.at[i]].name);
			k->values.at[carried[i]].as = loop->carried.at[i];
		}
	IntId second = int_value(k, drive_int(d, drive_plus(d, step, 1), k->values.at[loop->dim[0].step].name, NONE));
	Hand odd = hand(f, true, values);
	body_step(f, step, second, &even, &odd, true, carried, NULL);
	Hand next = hand(f, false, values);
	body_step(f, second, NONE, &odd, &next, false, carried, NULL);
	for (uint32_t i = 0; i < loop->handed.count; i++)
		f->body[loop->carried.count + i] = next.value[i];
	for (uint32_t i = 0; i < loop->carried.count; i++)
		if (loop->place.at[i] != NONE)
			drive_store(d, loop->place.at[i], karg_value(carried[i]));
}

/* A step of a loop that has one in each iteration: it hands on once all is read. */
static void body_single(const Fori *f, IntId step, ValueId *carried) {
	Driver *d = f->d;
	Kernel *k = d->k;
	const KLoop *loop = d->loop;
	uint32_t handed = loop->handed.count;
	const ValueId *values = handed_values(f);
	Hand from = hand(f, false, values);
	Hand to = {arena_array(k->arena, handed + 1, sizeof *to.value),
	           arena_array(k->arena, handed + 1, sizeof *to.buffer)};
	for (uint32_t i = 0; i < handed; i++) {
		to.buffer[i] = NONE;
		to.value[i] = values[i];
	}
	body_step(f, step, NONE, &from, &to, true, carried, loop->place.at);
	for (uint32_t i = 0; i < handed; i++) {
		KArg x = karg_value(to.value[i]);
		if (from.buffer[i] != NONE) {
			drive_store(d, from.buffer[i], x);
			continue;
		}
		ValueId now = drive_value(d, K_LET, 1, &x, values[i], k->values.at[values[i]].name);
		k->values.at[now].as = values[i];
		f->body[loop->carried.count + i] = now;
	}
}

/* The loop body: the step or two, and what they pass on. Its function. */
static FunctionId define_body(const Fori *f) {
	Driver *d = f->d;
	Kernel *k = d->k;
	const KLoop *loop = d->loop;
	uint32_t carries = loop->carried.count;
	FunctionId body = kernel_function(k, FUNCTION_FORI, "body");
	ValueId own = loop->dim[0].step, step = own;
	if (loop->paired)
		step = exact_int(k, "i");
	else if (loop->rank > 1)
		step = kernel_value(k, KTYPE_INT, DTYPE_I32, 0, NULL, loop->step_name);
	k->values.at[step].exact = k->values.at[step].exact || (loop->rank > 1 && !loop->paired);
	KParameter number = {PARAMETER_VALUE, step};
	vec_push(k->arena, &k->functions.at[body].parameters, number);
	ValueId *carried = arena_array(k->arena, carries + 1, sizeof *carried);
	for (uint32_t i = 0; i < carries; i++) {
		KParameter p = {PARAMETER_VALUE, loop->carried.at[i]};
		carried[i] = loop->carried.at[i];
		if (loop->place.at[i] == NONE)
			vec_push(k->arena, &k->functions.at[body].parameters, p);
	}
	for (uint32_t i = 0; i < loop->handed.count; i++) {
		KParameter p = {PARAMETER_VALUE, loop->handed.at[i].value};
		if (loop->handed.at[i].scratch == NONE)
			vec_push(k->arena, &k->functions.at[body].parameters, p);
	}
	Cursor outer = drive_define(d, body);
	if (loop->paired)
		step = drive_int(d, int_binary(k, INT_MUL, int_value(k, step), int_const(k, 2)), k->values.at[own].name,
		                 own);
	(loop->paired ? body_pair : body_single)(f, int_value(k, step), carried);
	KArgs results = {0};
	for (uint32_t i = 0; i < carries; i++)
		if (loop->place.at[i] == NONE)
			vec_push(k->arena, &results, karg_value(carried[i]));
	for (uint32_t i = 0; i < loop->handed.count; i++)
		if (loop->handed.at[i].scratch == NONE)
			vec_push(k->arena, &results, karg_value(f->body[carries + i]));
	drive_put(d, K_RETURN, results.count, results.at);
	d->at = outer;
	drive_set_own_steps(d);
	return body;
}

/* ---- around the body -------------------------------------------------------------------------------------------- */

static void ahead_at(const Fori *f, int64_t number, int64_t steps, Hand *to, bool next) {
	wait_at(f, PART_AHEAD, number, steps);
	call_ahead(f, int_const(f->d->k, number), to, next);
}

static void rest_at(const Fori *f, int64_t number, int64_t steps, const Hand *handed, ValueId *results) {
	Driver *d = f->d;
	IntId step = int_const(d->k, number);
	wait_at(f, PART_STEP, number, steps);
	for (uint32_t w = 0; w < windows(f); w++)
		if (output_copied(window(f, w)) && number >= window(f, w)->buffers)
			put_copy(f, K_WAIT, w, int_const(d->k, number - window(f, w)->buffers));
	drive_set_step(d, step);
	call_rest(f, step, handed, results, NULL);
	start_results(f, step);
}

/* The last full steps of a skewed loop: one, or two that were a pair if the second had anything to compute ahead. */
static void last_rest(const Fori *f, int64_t steps, Hand *even, ValueId *results) {
	bool two = f->d->loop->paired && steps % 2 == 0;
	const ValueId *values = handed_values(f);
	if (!two) {
		rest_at(f, steps - 1, steps, even, results);
		return;
	}
	Hand odd = hand(f, true, values);
	ahead_at(f, steps - 1, steps, &odd, true);
	rest_at(f, steps - 2, steps, even, results);
	rest_at(f, steps - 1, steps, &odd, results);
}

/* The loop's statement; `results` of what it passes on, and `first` of what is handed on as values. */
static void run_body(const Fori *f, FunctionId body, ValueId *results, Hand *first) {
	Driver *d = f->d;
	Kernel *k = d->k;
	const KLoop *loop = d->loop;
	int64_t steps = 0;
	bool skewed = loop->skewed && drive_static_steps(d, &steps);
	KArgs args = {0};
	start_first(f);
	if (skewed)
		ahead_at(f, 0, steps, first, false);
	/* The last full step of a skewed loop computes nothing ahead, and stands behind it. */
	vec_push(k->arena, &args,
	         karg_int(skewed ? int_const(k, loop->paired ? (steps - 1) / 2 : steps - 1) : drive_total_steps(d)));
	for (uint32_t i = 0; i < loop->carried.count; i++)
		if (loop->place.at[i] == NONE)
			vec_push(k->arena, &args, *kernel_arg(k, d->stmt, i));
	for (uint32_t i = 0; skewed && i < loop->handed.count; i++)
		if (loop->handed.at[i].scratch == NONE)
			vec_push(k->arena, &args, karg_value(first->value[i]));
	StmtId s = drive_put(d, K_FORI, args.count, args.at);
	kernel_stmt(k, s)->function = body;
	for (uint32_t i = 0; i < loop->carried.count; i++)
		if (loop->place.at[i] == NONE) {
			KValue like = k->values.at[loop->carried.at[i]];
			results[i] = kernel_result(k, s, like.type, like.dtype, like.rank, like.shape, like.name);
			k->values.at[results[i]].layout = like.layout;
			k->values.at[results[i]].as = drive_result(d, i);
		}
	for (uint32_t i = 0; skewed && i < loop->handed.count; i++)
		if (loop->handed.at[i].scratch == NONE) {
			KValue like = k->values.at[loop->handed.at[i].value];
			ValueId v = kernel_result(k, s, like.type, like.dtype, like.rank, like.shape, like.name);
			k->values.at[v].layout = like.layout;
			k->values.at[v].as = loop->handed.at[i].value;
			first->value[i] = v;
		}
}

void drive_fori(Driver *d, ValueId *results) {
	Kernel *k = d->k;
	const KLoop *loop = d->loop;
	int64_t steps;
	bool none = drive_no_full_steps(d);
	Fori f = {d, arena_array(k->arena, windows(&(Fori){.d = d}) + 1, sizeof *f.copy),
	          arena_array(k->arena, (size_t)loop->carried.count + loop->handed.count + 1, sizeof *f.body)};
	for (uint32_t w = 0; w < windows(&f); w++)
		f.copy[w] = loop->windows.at[w].dma && !none ? define_copy(d, w) : NONE;
	FunctionId body = none ? NONE : define_body(&f);
	drive_fill_scratch(d);
	for (uint32_t i = 0; i < loop->carried.count; i++) {
		if (loop->place.at[i] != NONE)
			continue;
		KArg x = drive_initial(d, i);
		if (!none && x.kind == KARG_VALUE && k->values.at[x.value].def != NONE)
			kernel_stmt(k, k->values.at[x.value].def)->flags |= KSTMT_SAID;
		if (none)
			results[i] = drive_value(d, K_LET, 1, &x, loop->carried.at[i],
			                         k->values.at[loop->carried.at[i]].name);
	}
	Hand first = hand(&f, false, handed_values(&f));
	if (!none)
		run_body(&f, body, results, &first);
	drive_read_scratch(d, results);
	if (loop->skewed && drive_static_steps(d, &steps))
		last_rest(&f, steps, &first, results);
	if (!none)
		drain(&f);
	drive_tail(d, results);
}
