/* drive_pipeline.c - a loop as pltpu.emit_pipeline: a spec for each window that is copied, carried values in scratch.
 */
#include "drive.h"

static int64_t full_steps(const Driver *d) { return d->loop->dim[0].full_steps; }

static void call_rest(Driver *d) {
	Arena *a = d->k->arena;
	const KLoop *loop = d->loop;
	KArgs args = {0};
	drive_add_steps(d, PART_STEP, &args);
	for (uint32_t i = 0; i < loop->handed.count; i++)
		vec_push(a, &args, drive_load(d, loop->handed.at[i].scratch, loop->handed.at[i].value));
	for (uint32_t w = 0; w < loop->windows.count; w++)
		if (drive_reads(d, PART_STEP, w))
			vec_push(a, &args,
			         loop->windows.at[w].dma ? drive_whole(d, loop->windows.at[w].buffer)
			                                 : drive_window(d, &loop->windows.at[w]));
	for (uint32_t i = 0; i < loop->carried.count; i++)
		vec_push(a, &args, drive_load(d, loop->place.at[i], loop->carried.at[i]));
	drive_call(d, PART_STEP, &args, loop->carried.at, loop->place.at);
}

/* `next`: what it gives waits in variables, which are returned; else it goes to scratch. */
static const ValueId *call_ahead(Driver *d, IntId step, bool next) {
	Arena *a = d->k->arena;
	const KLoop *loop = d->loop;
	KArgs args = {0};
	ValueIds values = {0};
	VEC(BufferId) scratch = {0};
	drive_set_step(d, step);
	drive_add_steps(d, PART_AHEAD, &args);
	for (uint32_t w = 0; w < loop->windows.count; w++)
		if (drive_reads(d, PART_AHEAD, w))
			vec_push(a, &args,
			         loop->windows.at[w].dma ? drive_whole(d, loop->windows.at[w].buffer)
			                                 : drive_window(d, &loop->windows.at[w]));
	for (uint32_t i = 0; i < loop->handed.count; i++) {
		vec_push(a, &values, loop->handed.at[i].value);
		vec_push(a, &scratch, loop->handed.at[i].scratch);
	}
	ValueId *results = drive_call(d, PART_AHEAD, &args, values.at, next ? NULL : scratch.at);
	for (uint32_t i = 0; next && i < loop->handed.count; i++)
		drive_call_next(d, results[i]);
	return results;
}

/* Three kinds of steps: the first computes ahead, the last does not, all others do both. */
static void skewed_body(Driver *d) {
	Kernel *k = d->k;
	const KLoop *loop = d->loop;
	int64_t dim = 0;
	StmtId s = kernel_append(k, d->at.region, K_PROGRAM_ID, 0, NULL, 1, &dim);
	IntId ahead = int_value(k, kernel_result(k, s, KTYPE_INT, DTYPE_I32, 0, NULL, "ahead"));
	IntId own = NONE, steps = int_const(k, full_steps(d));
	if (drive_step_read(d, PART_STEP, 0, true))
		own = int_value(k, drive_int(d, int_binary(k, INT_SUB, ahead, int_const(k, 1)),
		                             k->values.at[loop->dim[0].step].name, loop->dim[0].step));
	Cursor outer = drive_when(d, K_WHEN, int_binary(k, INT_EQ, ahead, int_const(k, 0)), "first");
	call_ahead(d, ahead, false);
	d->at = outer;
	IntId some = int_binary(k, INT_GT, ahead, int_const(k, 0));
	drive_when(d, K_WHEN, int_binary(k, INT_AND, some, int_binary(k, INT_LT, ahead, steps)), "both");
	const ValueId *next = call_ahead(d, ahead, true);
	drive_set_step(d, own == NONE ? ahead : own);
	call_rest(d);
	for (uint32_t i = 0; i < loop->handed.count; i++)
		drive_store(d, loop->handed.at[i].scratch, karg_value(next[i]));
	d->at = outer;
	drive_when(d, K_WHEN, int_binary(k, INT_EQ, ahead, steps), "last");
	call_rest(d);
	d->at = outer;
}

static void plain_body(Driver *d) {
	Kernel *k = d->k;
	for (uint32_t i = 0; i < d->loop->rank; i++) {
		int64_t dim = i;
		if (!drive_step_read(d, PART_STEP, i, true))
			continue;
		StmtId s = kernel_append(k, d->at.region, K_PROGRAM_ID, 0, NULL, 1, &dim);
		d->step[i] = int_value(k, kernel_result(k, s, KTYPE_INT, DTYPE_I32, 0, NULL, NULL));
	}
	call_rest(d);
}

/* The windows' references are its parameters: ins, then outs. */
static FunctionId define_body(Driver *d) {
	Kernel *k = d->k;
	FunctionId f = kernel_function(k, FUNCTION_PLAIN, "body");
	for (int output = 0; output < 2; output++)
		for (uint32_t w = 0; w < d->loop->windows.count; w++) {
			const KWindow *win = &d->loop->windows.at[w];
			KParameter p = {PARAMETER_BUFFER, win->buffer};
			if (win->dma && win->output == (bool)output)
				vec_push(k->arena, &k->functions.at[f].parameters, p);
		}
	Cursor outer = drive_define(d, f);
	(d->loop->skewed ? skewed_body : plain_body)(d);
	d->at = outer;
	drive_set_own_steps(d);
	return f;
}

/* A skewed loop has one step more: the first one computes nothing but what runs ahead, the last one nothing of that. */
static KPipelineWindow window_of(Driver *d, uint32_t w) {
	Kernel *k = d->k;
	const KWindow *win = &d->loop->windows.at[w];
	uint32_t rank = k->buffers.at[win->of].rank;
	IntId *index = arena_array(k->arena, rank, sizeof *index);
	IntId own = int_value(k, d->loop->dim[0].step);
	if (d->loop->skewed)
		drive_set_step(d, drive_reads(d, PART_AHEAD, w)
		                          ? int_binary(k, INT_MIN, own, int_const(k, full_steps(d) - 1))
		                          : int_binary(k, INT_MAX, int_binary(k, INT_SUB, own, int_const(k, 1)),
		                                       int_const(k, 0)));
	for (uint32_t i = 0; i < rank; i++)
		index[i] = drive_here(d, win->index[i]);
	drive_set_own_steps(d);
	return (KPipelineWindow){win->of, win->output, k->buffers.at[win->buffer].shape, index, win->buffers};
}

static void run_body(Driver *d, FunctionId body) {
	Kernel *k = d->k;
	KPipeline *p = arena_alloc(k->arena, sizeof *p);
	*p = (KPipeline){.body = body, .rank = d->loop->rank};
	for (uint32_t i = 0; i < d->loop->rank; i++) {
		p->at[i] = d->loop->dim[i].step;
		p->grid[i] = d->loop->skewed ? int_const(k, full_steps(d) + 1) : d->loop->dim[i].steps;
	}
	for (int output = 0; output < 2; output++)
		for (uint32_t w = 0; w < d->loop->windows.count; w++)
			if (d->loop->windows.at[w].dma && d->loop->windows.at[w].output == (bool)output) {
				KPipelineWindow window = window_of(d, w);
				vec_push(k->arena, &p->windows, window);
			}
	StmtId s = drive_put(d, K_PIPELINE, 0, NULL);
	kernel_stmt(k, s)->pipeline = p;
	kernel_stmt(k, s)->function = body;
	kernel_stmt(k, s)->name = "pipeline";
}

void drive_pipeline(Driver *d, ValueId *results) {
	bool none = drive_no_full_steps(d);
	drive_fill_scratch(d);
	if (!none)
		run_body(d, define_body(d));
	drive_read_scratch(d, results);
	drive_tail(d, results);
}
