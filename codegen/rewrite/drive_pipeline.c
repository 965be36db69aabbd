/* drive_pipeline.c - a loop as pltpu.emit_pipeline: a spec for each window that is copied, carried values in scratch.
 * What stands before and behind the loop has steps of the pipeline for itself, the first and the last.
 *
 *     before { s = call ahead(k at (0)) }               ahead  k of step        rest   v of step
 *     s_next = call ahead(k at (j + 1))              0  first  0                       0
 *     m = call rest(s, v at (j), m)              1 - 3  both   1 - 3            both   0 - 2
 *     behind { m = call rest(s, v at (3), m) }       4         3                last   3 */
#include "drive.h"
#include "rewrite.h"

static KArg pipelined_window(Driver *d, uint32_t w, IntId at) {
	const KWindow *win = &d->loop->windows.at[w];
	return win->dma ? drive_whole(d, win->buffer) : drive_window(d, win, at);
}

static const Placing pipelined = {pipelined_window, NULL, NULL};

/* All that is carried stays in scratch. */
static void put_region(Driver *d, RegionId r, uint32_t first) {
	uint32_t count = d->loop->carried.count;
	ValueId *values = arena_array(d->k->arena, count + 1, sizeof *values);
	for (uint32_t i = 0; i < count; i++)
		values[i] = NONE;
	drive_region(d, r, &pipelined, &(Flow){values, d->loop->place.at, d->loop->place.at, first});
}

static ValueId program_id(Driver *d, int64_t dim, const char *name) {
	StmtId s = kernel_append(d->k, d->at.region, K_PROGRAM_ID, 0, NULL, 1, &dim);
	return kernel_result(d->k, s, KTYPE_INT, DTYPE_I32, 0, NULL, name);
}

static IntId next_step(Driver *d) {
	return int_binary(d->k, INT_ADD, int_value(d->k, d->loop->dim[0].step), int_const(d->k, 1));
}

static int64_t steps_of(const Driver *d) {
	int64_t steps = 0;
	loop_static_steps(d->k, d->loop, &steps);
	return steps;
}

/* A step of the region where statements go, with that expression for a number that has a variable. */
static void put_when(Driver *d, IntId condition, const char *name, IntId named, IntId by, RegionId r, uint32_t first) {
	Cursor outer = drive_when(d, condition, name);
	d->named = named;
	d->by = by;
	put_region(d, r, first);
	d->at = outer;
}

/* Three kinds of steps: the first one, those of the loop's own region, the last one. */
static void staged_body(Driver *d) {
	Kernel *k = d->k;
	const KLoop *loop = d->loop;
	RegionId body = kernel_stmt(k, d->stmt)->body;
	IntId number = int_value(k, program_id(d, 0, "ahead")), steps = int_const(k, steps_of(d)), own = number;
	d->named = next_step(d);
	if (drive_step_read(d, body, 0))
		own = int_value(k, drive_int(d, int_binary(k, INT_SUB, number, int_const(k, 1)),
		                             k->values.at[loop->dim[0].step].name, loop->dim[0].step));
	d->step[0] = own;
	IntId some = int_binary(k, INT_GT, number, int_const(k, 0));
	put_when(d, int_binary(k, INT_EQ, number, int_const(k, 0)), "first", int_const(k, 0), number, loop->before,
	         drive_first_given(d));
	put_when(d, int_binary(k, INT_AND, some, int_binary(k, INT_LT, number, steps)), "both", next_step(d), number,
	         body, 0);
	put_when(d, int_binary(k, INT_EQ, number, steps), "last", int_const(k, steps_of(d) - 1), own, loop->behind, 0);
}

static void plain_body(Driver *d) {
	RegionId body = kernel_stmt(d->k, d->stmt)->body;
	for (uint32_t i = 0; i < d->loop->rank; i++)
		if (drive_step_read(d, body, i))
			d->step[i] = int_value(d->k, program_id(d, i, NULL));
	put_region(d, body, 0);
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
	(d->loop->before != NONE ? staged_body : plain_body)(d);
	d->at = outer;
	drive_set_own_steps(d);
	return f;
}

/* The loop's region reads the window at the next step. */
static bool read_ahead(Driver *d, uint32_t w) {
	IntId at = NONE;
	for (StmtId s = region_first(d->k, kernel_stmt(d->k, d->stmt)->body); s != NONE; s = kernel_stmt(d->k, s)->next)
		if (drive_call_reads(d, s, w, &at))
			return at == next_step(d);
	return false;
}

/* A window is that of a step that there is where nothing reads it, too. */
static KPipelineWindow window_of(Driver *d, uint32_t w, bool ahead) {
	Kernel *k = d->k;
	const KWindow *win = &d->loop->windows.at[w];
	uint32_t rank = k->buffers.at[win->of].rank;
	IntId *index = arena_array(k->arena, rank, sizeof *index);
	IntId own = int_value(k, d->loop->dim[0].step);
	if (d->loop->before != NONE)
		d->step[0] =
			ahead ? int_binary(k, INT_MIN, own, int_const(k, steps_of(d) - 1))
			      : int_binary(k, INT_MAX, int_binary(k, INT_SUB, own, int_const(k, 1)), int_const(k, 0));
	for (uint32_t i = 0; i < rank; i++)
		index[i] = drive_here(d, win->index[i]);
	drive_set_own_steps(d);
	return (KPipelineWindow){win->of, win->output, k->buffers.at[win->buffer].shape, index, win->buffers, false};
}

static void run_body(Driver *d) {
	Kernel *k = d->k;
	KPipeline *p = arena_alloc(k->arena, sizeof *p);
	*p = (KPipeline){.rank = d->loop->rank};
	for (uint32_t i = 0; i < d->loop->rank; i++) {
		p->at[i] = d->loop->dim[i].step;
		p->grid[i] = d->loop->before != NONE ? int_const(k, steps_of(d) + 1) : d->loop->dim[i].steps;
	}
	for (int output = 0; output < 2; output++)
		for (uint32_t w = 0; w < d->loop->windows.count; w++)
			if (d->loop->windows.at[w].dma && d->loop->windows.at[w].output == (bool)output) {
				KPipelineWindow window = window_of(d, w, read_ahead(d, w));
				vec_push(k->arena, &p->windows, window);
			}
	p->body = define_body(d);
	StmtId s = drive_put(d, K_PIPELINE, 0, NULL);
	kernel_stmt(k, s)->pipeline = p;
	kernel_stmt(k, s)->function = p->body;
	kernel_stmt(k, s)->name = "pipeline";
}

void drive_pipeline(Driver *d, ValueId *results) {
	drive_fill_scratch(d);
	if (!drive_no_full_steps(d))
		run_body(d);
	drive_read_scratch(d, results);
	drive_tail(d, results);
}
