/* drive.c - what drivers share: calls of the step's functions, initial values and results; straight calls too. */
#include "drive.h"

/* ---- statements ------------------------------------------------------------------------------------------------- */

StmtId drive_put(Driver *d, uint16_t op, uint32_t arg_count, const KArg *args) {
	if (d->at.before == NONE)
		return kernel_append(d->k, d->at.region, op, arg_count, args, 0, NULL);
	return kernel_insert_before(d->k, d->at.before, op, arg_count, args, 0, NULL);
}

static ValueId result_like(Driver *d, StmtId s, ValueId like, const char *name) {
	KValue x = d->k->values.at[like];
	ValueId v = kernel_result(d->k, s, x.type, x.dtype, x.rank, x.shape, name);
	d->k->values.at[v].layout = x.layout;
	return v;
}

ValueId drive_value(Driver *d, uint16_t op, uint32_t arg_count, const KArg *args, ValueId like, const char *name) {
	return result_like(d, drive_put(d, op, arg_count, args), like, name);
}

ValueId drive_like(Driver *d, ValueId v) {
	KValue x = d->k->values.at[v];
	ValueId copy = kernel_value(d->k, x.type, x.dtype, x.rank, x.shape, x.name);
	d->k->values.at[copy].layout = x.layout;
	d->k->values.at[copy].as = v;
	return copy;
}

ValueId drive_int(Driver *d, IntId i, const char *name, ValueId as) {
	KArg arg = karg_int(i);
	ValueId v = kernel_result(d->k, drive_put(d, K_INT, 1, &arg), KTYPE_INT, DTYPE_I32, 0, NULL, name);
	d->k->values.at[v].as = as;
	return v;
}

KArg drive_whole(Driver *d, BufferId buffer) { return karg_ref(kernel_ref(d->k, buffer, 0, NULL)); }

void drive_store(Driver *d, BufferId buffer, KArg x) {
	drive_put(d, K_STORE, 2, (const KArg[]){drive_whole(d, buffer), x});
}

KArg drive_load(Driver *d, BufferId buffer, ValueId like) {
	KArg ref = drive_whole(d, buffer);
	return karg_value(drive_value(d, K_LOAD, 1, &ref, like, NULL));
}

Cursor drive_when(Driver *d, uint16_t op, IntId condition, const char *name) {
	KArg arg = karg_int(condition);
	StmtId s = drive_put(d, op, 1, &arg);
	RegionId body = kernel_region(d->k, s);
	kernel_stmt(d->k, s)->body = body;
	kernel_stmt(d->k, s)->name = name;
	return drive_into(d, body);
}

Cursor drive_define(Driver *d, FunctionId f) {
	StmtId s = drive_put(d, K_DEF, 0, NULL);
	kernel_stmt(d->k, s)->function = f;
	d->k->regions.at[d->k->functions.at[f].body].owner = s;
	return drive_into(d, d->k->functions.at[f].body);
}

IntId drive_plus(Driver *d, IntId i, int64_t more) { return int_binary(d->k, INT_ADD, i, int_const(d->k, more)); }

/* ---- steps ------------------------------------------------------------------------------------------------------ */

void drive_set_step(Driver *d, IntId step) { d->step[0] = step; }

void drive_set_own_steps(Driver *d) {
	for (uint32_t i = 0; i < d->loop->rank; i++)
		d->step[i] = int_value(d->k, d->loop->dim[i].step);
}

IntId drive_here(Driver *d, IntId i) {
	for (uint32_t dim = 0; dim < d->loop->rank; dim++)
		i = int_substitute(d->k, i, d->loop->dim[dim].step, d->step[dim]);
	return i;
}

bool drive_reads(const Driver *d, Part part, uint32_t w) {
	const KWindow *win = &d->loop->windows.at[w];
	return !d->loop->skewed || (part == PART_AHEAD ? win->ahead : win->behind);
}

bool drive_no_full_steps(const Driver *d) {
	for (uint32_t i = 0; i < d->loop->rank; i++) {
		const KLoopDim *dim = &d->loop->dim[i];
		if (!dim->computed && dim->full_steps == 0 && (d->loop->peeled || dim->tail == 0))
			return true;
	}
	return false;
}

bool drive_static_steps(const Driver *d, int64_t *steps) {
	int64_t dim;
	*steps = 1;
	for (uint32_t i = 0; i < d->loop->rank; i++) {
		if (!int_is_const(d->k, d->loop->dim[i].steps, &dim))
			return false;
		*steps *= dim;
	}
	return true;
}

IntId drive_total_steps(Driver *d) {
	IntId total = d->loop->dim[0].steps;
	for (uint32_t i = 1; i < d->loop->rank; i++)
		total = int_unfolded(d->k, INT_MUL, total, d->loop->dim[i].steps);
	return total;
}

/* The subscript that cuts a window out of its operand: a range in each dim that is not whole. */
KArg drive_window(Driver *d, const KWindow *win) {
	Kernel *k = d->k;
	const KBuffer *of = &k->buffers.at[win->of];
	const int64_t *block = k->buffers.at[win->buffer].shape, *extent = of->shape;
	KDim dims[KDIM_MAX];
	uint32_t rank = of->rank;
	bool whole = true;
	for (uint32_t i = 0; i < rank; i++) {
		bool all = block[i] == extent[i];
		whole = whole && all;
		dims[i] = all ? (KDim){.kind = KDIM_ALL}
		              : (KDim){.kind = KDIM_RANGE,
		                       .start = drive_here(d, win->start[i]),
		                       .size = block[i],
		                       .multiple = win->multiple[i]};
	}
	return karg_ref(kernel_ref(k, win->of, whole ? 0 : rank, dims));
}

/* ---- calls ------------------------------------------------------------------------------------------------------ */

void drive_add_steps(Driver *d, Part part, KArgs *args) {
	for (uint32_t i = 0; i < d->loop->rank; i++)
		if (d->used[part][i])
			vec_push(d->k->arena, args, karg_int(d->step[i]));
}

void drive_add_resident(Driver *d, Part part, KArgs *args) {
	for (uint32_t w = 0; w < d->loop->windows.count; w++)
		if (drive_reads(d, part, w))
			vec_push(d->k->arena, args, drive_window(d, &d->loop->windows.at[w]));
}

static uint32_t result_count(const Driver *d, Part part) {
	return part == PART_AHEAD ? d->loop->handed.count : d->loop->carried.count;
}

ValueId *drive_call(Driver *d, Part part, const KArgs *args, const ValueId *as, const BufferId *to) {
	Kernel *k = d->k;
	uint32_t count = result_count(d, part);
	ValueId *results = arena_array(k->arena, count + 1, sizeof *results);
	StmtId s = drive_put(d, K_CALL, args->count, args->at);
	kernel_stmt(k, s)->function = d->part[part];
	for (uint32_t i = 0; i < count; i++) {
		ValueId like = part == PART_AHEAD ? d->loop->handed.at[i].value : d->loop->carried.at[i];
		bool stored = (to && to[i] != NONE) || !as;
		results[i] = result_like(d, s, like, stored ? NULL : k->values.at[as[i]].name);
		if (!stored)
			k->values.at[results[i]].as = as[i];
	}
	for (uint32_t i = 0; i < count; i++)
		if (to && to[i] != NONE) {
			drive_store(d, to[i], karg_value(results[i]));
			results[i] = NONE;
		}
	return results;
}

void drive_call_next(Driver *d, ValueId v) {
	KValue *value = &d->k->values.at[v];
	value->after = value->as;
	value->suffix = "next";
	value->as = NONE;
}

bool drive_window_reads(const Driver *d, const KWindow *win, uint32_t dim) {
	const KBuffer *of = &d->k->buffers.at[win->of];
	bool reads = false;
	for (uint32_t i = 0; i < of->rank; i++)
		reads = reads || (d->k->buffers.at[win->buffer].shape[i] != of->shape[i] &&
		                  int_reads(d->k, win->start[i], d->loop->dim[dim].step));
	return reads;
}

bool drive_step_read(const Driver *d, Part part, uint32_t dim, bool windows) {
	bool read = d->used[part][dim];
	for (uint32_t w = 0; windows && w < d->loop->windows.count; w++) {
		const KWindow *win = &d->loop->windows.at[w];
		bool resident = d->loop->type == LOOP_UNROLL || !win->dma;
		read = read || (resident && drive_reads(d, part, w) && drive_window_reads(d, win, dim));
	}
	return read;
}

static void add_tail_windows(Driver *d, Part part, KArgs *args) {
	for (uint32_t w = 0; w < d->loop->windows.count; w++) {
		const KWindow *win = &d->loop->windows.at[w];
		if (drive_reads(d, part, w))
			vec_push(d->k->arena, args,
			         win->tail != NONE ? drive_whole(d, win->tail) : drive_window(d, win));
	}
}

/* The function's own flag: it is set. */
static void add_flag(Driver *d, Part part, KArgs *args) {
	const KFunction *f = &d->k->functions.at[d->part[part]];
	if (d->masked[part])
		vec_push(d->k->arena, args, karg_value(f->parameters.at[f->parameters.count - 1].id));
}

void drive_tail(Driver *d, ValueId *values) {
	Arena *a = d->k->arena;
	const KLoop *loop = d->loop;
	if (!loop->peeled)
		return;
	KArgs ahead = {0}, args = {0};
	ValueIds handed = {0};
	const ValueId *given = NULL;
	drive_set_step(d, int_const(d->k, loop->dim[0].full_steps));
	for (uint32_t i = 0; i < loop->handed.count; i++)
		vec_push(a, &handed, loop->handed.at[i].value);
	if (loop->skewed) {
		drive_add_steps(d, PART_AHEAD, &ahead);
		add_tail_windows(d, PART_AHEAD, &ahead);
		add_flag(d, PART_AHEAD, &ahead);
		given = drive_call(d, PART_AHEAD, &ahead, handed.at, NULL);
	}
	drive_add_steps(d, PART_STEP, &args);
	for (uint32_t i = 0; given && i < loop->handed.count; i++)
		vec_push(a, &args, karg_value(given[i]));
	add_tail_windows(d, PART_STEP, &args);
	for (uint32_t i = 0; i < loop->carried.count; i++)
		vec_push(a, &args, karg_value(values[i]));
	add_flag(d, PART_STEP, &args);
	const ValueId *results = drive_call(d, PART_STEP, &args, values, NULL);
	for (uint32_t i = 0; i < loop->carried.count; i++)
		values[i] = results[i];
}

/* ---- initial values and results --------------------------------------------------------------------------------- */

/* The statement that gives an initial value, and those that it reads, go where statements go. */
static void move_here(Driver *d, KArg x) {
	Kernel *k = d->k;
	StmtId def = x.kind == KARG_VALUE ? k->values.at[x.value].def : NONE;
	if (def == NONE || !(kernel_stmt(k, def)->flags & KSTMT_INITIAL))
		return;
	kernel_stmt(k, def)->flags &= (uint16_t)~KSTMT_INITIAL;
	for (uint32_t i = 0; i < kernel_stmt(k, def)->arg_count; i++)
		move_here(d, *kernel_arg(k, def, i));
	if (d->at.before == NONE)
		kernel_move(k, def, d->at.region);
	else
		kernel_move_before(k, def, d->at.before);
}

KArg drive_initial(Driver *d, uint32_t i) {
	KArg x = *kernel_arg(d->k, d->stmt, i);
	move_here(d, x);
	return x;
}

void drive_fill_scratch(Driver *d) {
	for (uint32_t i = 0; i < d->loop->carried.count; i++)
		if (d->loop->place.at[i] != NONE) {
			KArg x = drive_initial(d, i);
			drive_store(d, d->loop->place.at[i], x);
		}
}

/* Something reads the loop's result i, or the steps that run after it. */
static bool result_read(const Driver *d, uint32_t i) {
	return d->loop->peeled || d->loop->skewed || d->uses[kernel_stmt(d->k, d->stmt)->result + i] > 0;
}

void drive_read_scratch(Driver *d, ValueId *results) {
	for (uint32_t i = 0; i < d->loop->carried.count; i++)
		if (d->loop->place.at[i] != NONE && result_read(d, i)) {
			ValueId carried = d->loop->carried.at[i];
			KArg ref = drive_whole(d, d->loop->place.at[i]);
			results[i] = drive_value(d, K_LOAD, 1, &ref, carried, d->k->values.at[carried].name);
			d->k->values.at[results[i]].as = drive_result(d, i);
		}
}

/* ---- unroll ----------------------------------------------------------------------------------------------------- */

/* A region that stands `count` times and carries `values`; statements go into it from here on. */
static StmtId open_for(Driver *d, ValueId step, IntId count, ValueId *values) {
	Kernel *k = d->k;
	uint32_t carried = d->loop->carried.count;
	KFor *each = arena_alloc(k->arena, sizeof *each);
	KArgs args = {0};
	*each = (KFor){.step = step, .end = count};
	for (uint32_t i = 0; i < carried; i++) {
		vec_push(k->arena, &args, karg_value(values[i]));
		values[i] = drive_like(d, values[i]);
		vec_push(k->arena, &each->carried, values[i]);
	}
	StmtId s = drive_put(d, K_FOR, args.count, args.at);
	RegionId body = kernel_region(k, s);
	kernel_stmt(k, s)->each = each;
	kernel_stmt(k, s)->body = body;
	d->at = (Cursor){body, NONE};
	return s;
}

static void yield_values(Driver *d, const ValueId *values) {
	KArgs args = {0};
	for (uint32_t i = 0; i < d->loop->carried.count; i++)
		vec_push(d->k->arena, &args, karg_value(values[i]));
	drive_put(d, K_YIELD, args.count, args.at);
}

/* Ends the region of `s`: its results are what it yields. */
static void close_region(Driver *d, StmtId s, Cursor outer, ValueId *values) {
	yield_values(d, values);
	d->at = outer;
	for (uint32_t i = 0; i < d->loop->carried.count; i++) {
		ValueId v = result_like(d, s, values[i], d->k->values.at[values[i]].name);
		d->k->values.at[v].as = values[i];
		values[i] = v;
	}
}

static void call_rest(Driver *d, const ValueId *handed, ValueId *values) {
	KArgs args = {0};
	drive_add_steps(d, PART_STEP, &args);
	for (uint32_t i = 0; handed && i < d->loop->handed.count; i++)
		vec_push(d->k->arena, &args, karg_value(handed[i]));
	drive_add_resident(d, PART_STEP, &args);
	for (uint32_t i = 0; i < d->loop->carried.count; i++)
		vec_push(d->k->arena, &args, karg_value(values[i]));
	const ValueId *results = drive_call(d, PART_STEP, &args, values, NULL);
	for (uint32_t i = 0; i < d->loop->carried.count; i++)
		values[i] = results[i];
}

/* What step `number` computes ahead goes into the queue, if there is such a step; returns it. */
static const ValueId *push_ahead(Driver *d, ValueId queue, ValueId number, int64_t steps) {
	Kernel *k = d->k;
	const KLoop *loop = d->loop;
	uint32_t handed = loop->handed.count;
	Cursor inside = drive_when(d, K_IF, int_binary(k, INT_LT, int_value(k, number), int_const(k, steps)), NULL);
	KArgs args = {0}, push = {0};
	ValueIds names = {0};
	for (uint32_t i = 0; i < handed; i++)
		vec_push(k->arena, &names, loop->handed.at[i].value);
	drive_set_step(d, int_value(k, number));
	drive_add_steps(d, PART_AHEAD, &args);
	drive_add_resident(d, PART_AHEAD, &args);
	const ValueId *given = drive_call(d, PART_AHEAD, &args, names.at, NULL);
	vec_push(k->arena, &push, karg_value(queue));
	for (uint32_t i = 0; i < handed; i++) { /* called alike, but variables of their own */
		KValue *v = &k->values.at[given[i]];
		v->after = v->as;
		v->suffix = "";
		v->as = NONE;
		vec_push(k->arena, &push, karg_value(given[i]));
	}
	drive_put(d, K_PUSH, push.count, push.at);
	d->at = inside;
	return given;
}

/* Parts of steps that stand ahead of the rest: what they give waits in a queue. */
static void unroll_ahead(Driver *d, ValueId *values) {
	Kernel *k = d->k;
	const KLoop *loop = d->loop;
	uint32_t handed = loop->handed.count;
	int64_t steps;
	int_is_const(k, loop->dim[0].steps, &steps);
	ValueId queue = kernel_result(k, drive_put(d, K_QUEUE, 0, NULL), KTYPE_QUEUE, DTYPE_NONE, 0, NULL, "waiting");
	ValueId number = kernel_value(k, KTYPE_INT, DTYPE_I32, 0, NULL, "ahead");
	Cursor outer = d->at;
	StmtId each = open_for(d, number, int_const(k, steps + loop->ahead), values);
	const ValueId *given = push_ahead(d, queue, number, steps);
	ValueId step = drive_int(d, int_binary(k, INT_SUB, int_value(k, number), int_const(k, loop->ahead)),
	                         k->values.at[loop->dim[0].step].name, loop->dim[0].step);
	KArgs otherwise = {0};
	vec_push(k->arena, &otherwise, karg_int(int_binary(k, INT_GE, int_value(k, step), int_const(k, 0))));
	for (uint32_t i = 0; i < loop->carried.count; i++)
		vec_push(k->arena, &otherwise, karg_value(values[i]));
	StmtId ready = drive_put(d, K_IF, otherwise.count, otherwise.at);
	RegionId body = kernel_region(k, ready);
	kernel_stmt(k, ready)->body = body;
	Cursor around = drive_into(d, body);
	KArg from = karg_value(queue);
	StmtId pop = drive_put(d, K_POP, 1, &from);
	ValueId *taken = arena_array(k->arena, handed + 1, sizeof *taken);
	for (uint32_t i = 0; i < handed; i++) {
		taken[i] = result_like(d, pop, given[i], k->values.at[given[i]].name);
		k->values.at[taken[i]].as = given[i];
	}
	drive_set_step(d, int_value(k, step));
	call_rest(d, taken, values);
	close_region(d, ready, around, values);
	close_region(d, each, outer, values);
}

static void unroll_steps(Driver *d, ValueId *values) {
	Kernel *k = d->k;
	const KLoop *loop = d->loop;
	StmtId opened[RANK_MAX];
	Cursor outer[RANK_MAX];
	int64_t steps;
	/* One step needs no loop. */
	for (uint32_t i = 0; i < loop->rank; i++)
		d->step[i] = int_is_const(k, loop->dim[i].steps, &steps) && steps == 1
		                     ? int_const(k, 0)
		                     : int_value(k, loop->dim[i].step);
	for (uint32_t i = 0; i < loop->rank; i++) {
		opened[i] = NONE;
		outer[i] = d->at;
		if (int_is_const(k, d->step[i], &steps))
			continue;
		opened[i] = open_for(d, loop->dim[i].step, loop->dim[i].steps, values);
		kernel_stmt(k, opened[i])->each->unread = !drive_step_read(d, PART_STEP, i, true);
	}
	call_rest(d, NULL, values);
	for (uint32_t i = loop->rank; i-- > 0;)
		if (opened[i] != NONE)
			close_region(d, opened[i], outer[i], values);
}

static void drive_unroll(Driver *d, ValueId *results) {
	for (uint32_t i = 0; i < d->loop->carried.count; i++) {
		ValueId carried = d->loop->carried.at[i];
		KArg x = drive_initial(d, i);
		results[i] = drive_value(d, K_LET, 1, &x, carried, d->k->values.at[carried].name);
		d->k->values.at[results[i]].as = drive_result(d, i);
	}
	if (d->loop->skewed)
		unroll_ahead(d, results);
	else if (!drive_no_full_steps(d))
		unroll_steps(d, results);
	drive_tail(d, results);
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

/* What a step's function takes, by the call in the loop's region. */
static void read_part(Driver *d, Part part, StmtId call) {
	Kernel *k = d->k;
	const KFunction *f = &k->functions.at[kernel_stmt(k, call)->function];
	d->part[part] = kernel_stmt(k, call)->function;
	d->masked[part] = f->parameters.count && f->parameters.at[f->parameters.count - 1].kind == PARAMETER_FLAG;
	for (uint32_t i = 0; i < kernel_stmt(k, call)->arg_count; i++)
		for (uint32_t dim = 0; dim < d->loop->rank; dim++) {
			const KArg *arg = kernel_arg(k, call, i);
			if (arg->kind == KARG_INT && int_reads(k, arg->index, d->loop->dim[dim].step))
				d->used[part][dim] = true;
		}
}

static void drive_loop(Kernel *k, StmtId s, const uint32_t *uses, ValueId *final) {
	KStmt *stmt = kernel_stmt(k, s);
	Driver d = {.k = k, .loop = stmt->loop, .stmt = s, .at = {stmt->region, s}, .uses = uses};
	uint32_t carried = d.loop->carried.count;
	ValueId *results = arena_array(k->arena, carried + 1, sizeof *results);
	StmtId ahead, step;
	loop_calls(k, s, &ahead, &step);
	for (uint32_t i = 0; i < carried; i++)
		results[i] = NONE;
	drive_set_own_steps(&d);
	if (ahead != NONE)
		read_part(&d, PART_AHEAD, ahead);
	read_part(&d, PART_STEP, step);
	switch (d.loop->type) {
	case LOOP_UNROLL: drive_unroll(&d, results); break;
	case LOOP_FORI: drive_fori(&d, results); break;
	default: drive_pipeline(&d, results); break;
	}
	for (uint32_t i = 0; i < carried; i++)
		final[kernel_stmt(k, s)->result + i] = results[i];
	kernel_remove(k, s);
}

void rewrite_drive(Kernel *k) {
	rewrite_split(k);
	StmtIds loops = kernel_loops(k);
	if (loops.count == 0)
		return;
	uint32_t count = k->values.count;
	ValueId *final = arena_array(k->arena, count, sizeof *final);
	for (ValueId v = 0; v < count; v++)
		final[v] = NONE;
	const uint32_t *uses = kernel_uses(k);
	for (uint32_t i = 0; i < loops.count; i++)
		drive_loop(k, loops.at[i], uses, final);
	kernel_replace_values(k, final, count);
}
