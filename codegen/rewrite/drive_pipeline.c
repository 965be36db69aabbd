/* drive_pipeline.c - a loop as pltpu.emit_pipeline: a spec for each window that is copied, carried values in scratch.
 * What stands before and behind the loop has steps of the pipeline for itself, the first and the last.
 *
 *     before { s = call ahead(k at (0)) }               ahead  k of step        rest   v of step
 *     s_next = call ahead(k at (j + 1))              0  first  0                       0
 *     m = call rest(s, v at (j), m)              1 - 3  both   1 - 3            both   0 - 2
 *     behind { m = call rest(s, v at (3), m) }       4         3                last   3
 *
 * Of two steps in an iteration each reads a window of its own: that of the ahead of step 2 i + 1 is 2 n - 1 at step n
 * of the pipeline, that of 2 i + 2 is 2 n. */
#include "drive.h"
#include "rewrite.h"

/* A window as some call reads it: at step n of the pipeline that of the loop's step `by` n + `number`. */
typedef struct Read {
	uint32_t window;
	int64_t by, number;
	BufferId buffer; /* the parameter of the pipeline's body */
} Read;

/* A loop with steps before and behind it. */
typedef struct Pipelined {
	VEC(Read) reads;
	int64_t last;  /* the pipeline's last step */
	int64_t stage; /* that of the region that is placed; REGION: one in between */
} Pipelined;

enum { REGION = -1 };

static Linear linear_of(const Kernel *k, IntId i) {
	Linear x = {.known = true};
	linear_add(k, NONE, &x, i, 1);
	return x;
}

/* Of a window's reads that of a place: in the loop's own region it moves with the pipeline's step, else it is a number.
 */
static BufferId parameter_at(const Driver *d, uint32_t w, IntId at) {
	const Pipelined *p = d->pipelined;
	Linear x = linear_of(d->k, at);
	BufferId found = d->loop->windows.at[w].buffer;
	for (uint32_t i = p->reads.count; i-- > 0;) {
		const Read *r = &p->reads.at[i];
		bool same = p->stage == REGION ? x.terms == 1 && x.by[0] == r->by && x.number == r->number
		                               : x.number == r->by * p->stage + r->number;
		if (r->window == w && same)
			found = r->buffer;
	}
	return found;
}

static KArg pipelined_window(Driver *d, uint32_t w, IntId at) {
	const KWindow *win = &d->loop->windows.at[w];
	if (!win->dma)
		return drive_window(d, win, at);
	return drive_whole(d, d->pipelined ? parameter_at(d, w, at) : win->buffer);
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
	int64_t steps = steps_of(d);
	bool single = d->pipelined->last == steps; /* one step in an iteration */
	IntId number = int_value(k, program_id(d, 0, "ahead")), last = int_const(k, d->pipelined->last), own = number;
	d->named = single ? next_step(d) : NONE;
	if (drive_step_read(d, body, 0))
		own = int_value(k, drive_int(d, int_binary(k, INT_SUB, number, int_const(k, 1)),
		                             k->values.at[loop->dim[0].step].name, loop->dim[0].step));
	d->step[0] = own;
	IntId some = int_binary(k, INT_GT, number, int_const(k, 0));
	d->pipelined->stage = 0;
	put_when(d, int_binary(k, INT_EQ, number, int_const(k, 0)), "first", int_const(k, 0), number, loop->before,
	         drive_first_given(d));
	d->pipelined->stage = REGION;
	put_when(d, int_binary(k, INT_AND, some, int_binary(k, INT_LT, number, last)), "both",
	         single ? next_step(d) : NONE, number, body, 0);
	d->pipelined->stage = d->pipelined->last;
	put_when(d, int_binary(k, INT_EQ, number, last), "last", single ? int_const(k, steps - 1) : NONE, own,
	         loop->behind, 0);
}

static void plain_body(Driver *d) {
	RegionId body = kernel_stmt(d->k, d->stmt)->body;
	for (uint32_t i = 0; i < d->loop->rank; i++)
		if (drive_step_read(d, body, i))
			d->step[i] = int_value(d->k, program_id(d, i, NULL));
	put_region(d, body, 0);
}

/* The windows' references are its parameters: ins, then outs. */
static FunctionId define_body(Driver *d, const Pipelined *p) {
	Kernel *k = d->k;
	FunctionId f = kernel_function(k, FUNCTION_PLAIN, "body");
	for (int output = 0; output < 2; output++)
		for (uint32_t i = 0; i < p->reads.count; i++)
			if (d->loop->windows.at[p->reads.at[i].window].output == (bool)output)
				vec_push(k->arena, &k->functions.at[f].parameters,
				         ((KParameter){PARAMETER_BUFFER, p->reads.at[i].buffer}));
	Cursor outer = drive_define(d, f);
	(d->loop->before != NONE ? staged_body : plain_body)(d);
	d->at = outer;
	drive_set_own_steps(d);
	return f;
}

static uint32_t reads_of(const Pipelined *p, uint32_t w) {
	uint32_t count = 0;
	for (uint32_t i = 0; i < p->reads.count; i++)
		count += p->reads.at[i].window == w;
	return count;
}

static void add_read(Driver *d, Pipelined *p, Read r) {
	Kernel *k = d->k;
	for (uint32_t i = 0; i < p->reads.count; i++)
		if (p->reads.at[i].window == r.window && p->reads.at[i].by == r.by && p->reads.at[i].number == r.number)
			return;
	r.buffer = d->loop->windows.at[r.window].buffer;
	if (reads_of(p, r.window))
		r.buffer = kernel_buffer(k, k->buffers.at[r.buffer]);
	vec_push(k->arena, &p->reads, r);
}

/* Of a window those of a region. The loop's own iteration is one less than the pipeline's step. */
static void find_reads(Driver *d, Pipelined *p, uint32_t w, RegionId r, int64_t stage) {
	const Kernel *k = d->k;
	int64_t by = p->last == steps_of(d) ? 1 : 2;
	IntId at = NONE;
	for (StmtId s = r == NONE ? NONE : region_first(k, r); s != NONE; s = kernel_stmt(k, s)->next) {
		if (!drive_call_reads(d, s, w, &at) || at == NONE)
			continue;
		int64_t number = linear_of(k, at).number - (stage == REGION ? by : by * stage);
		add_read(d, p, (Read){.window = w, .by = by, .number = number});
	}
}

/* One that nothing reads is its step's own. */
static void find_all_reads(Driver *d, Pipelined *p) {
	for (uint32_t w = 0; w < d->loop->windows.count; w++) {
		if (!d->loop->windows.at[w].dma)
			continue;
		if (d->loop->before != NONE) {
			find_reads(d, p, w, kernel_stmt(d->k, d->stmt)->body, REGION);
			find_reads(d, p, w, d->loop->before, 0);
			find_reads(d, p, w, d->loop->behind, p->last);
		}
		if (reads_of(p, w) == 0)
			add_read(d, p, (Read){.window = w, .by = 1, .number = -1});
	}
}

/* The loop's step whose window it is at the pipeline's step `own`; where nothing reads it, of one that there is. */
static IntId step_of(Driver *d, const Pipelined *p, const Read *r, IntId own) {
	Kernel *k = d->k;
	IntId step = r->by == 1 ? own : int_binary(k, INT_MUL, own, int_const(k, r->by));
	if (r->number)
		step = int_binary(k, r->number < 0 ? INT_SUB : INT_ADD, step,
		                  int_const(k, r->number < 0 ? -r->number : r->number));
	if (r->by * p->last + r->number >= steps_of(d))
		step = int_binary(k, INT_MIN, step, int_const(k, steps_of(d) - 1));
	return r->number < 0 ? int_binary(k, INT_MAX, step, int_const(k, 0)) : step;
}

static KPipelineWindow window_of(Driver *d, const Pipelined *p, const Read *r) {
	Kernel *k = d->k;
	const KWindow *win = &d->loop->windows.at[r->window];
	uint32_t rank = k->buffers.at[win->of].rank;
	IntId *index = arena_array(k->arena, rank, sizeof *index);
	if (d->loop->before != NONE)
		d->step[0] = step_of(d, p, r, int_value(k, d->loop->dim[0].step));
	for (uint32_t i = 0; i < rank; i++)
		index[i] = drive_here(d, win->index[i]);
	drive_set_own_steps(d);
	int buffers = win->buffers / (int)reads_of(p, r->window); /* the plan has some for each */
	return (KPipelineWindow){win->of, win->output, k->buffers.at[win->buffer].shape, index, buffers, false};
}

static void run_body(Driver *d) {
	Kernel *k = d->k;
	KPipeline *p = arena_alloc(k->arena, sizeof *p);
	Pipelined staged = {.stage = REGION};
	*p = (KPipeline){.rank = d->loop->rank};
	if (d->loop->before != NONE && int_is_const(k, d->loop->runs, &staged.last))
		staged.last++;
	for (uint32_t i = 0; i < d->loop->rank; i++) {
		p->at[i] = d->loop->dim[i].step;
		p->grid[i] = d->loop->before != NONE ? int_const(k, staged.last + 1) : d->loop->dim[i].steps;
	}
	find_all_reads(d, &staged);
	for (int output = 0; output < 2; output++)
		for (uint32_t i = 0; i < staged.reads.count; i++)
			if (d->loop->windows.at[staged.reads.at[i].window].output == (bool)output) {
				KPipelineWindow window = window_of(d, &staged, &staged.reads.at[i]);
				vec_push(k->arena, &p->windows, window);
			}
	d->pipelined = d->loop->before != NONE ? &staged : NULL;
	p->body = define_body(d, &staged);
	d->pipelined = NULL;
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
