/* kernel_read_loops.c - reading the statements of many parts: for, loop, pipeline. */
#include "kernel_reader.h"

static const ReadType int_type = {.type = KTYPE_INT, .dtype = DTYPE_I32, .layout = LAYOUT_SCALAR};

static void *new_of(KReader *r, size_t size) { return arena_alloc(r->a, size); }

/* The names are in scope from here on, but those of what the statement itself reads are read already. */
void kread_carried(KReader *r, Draft *d, TokenList *names, BufferList *places) {
	if (!kread_accept(r, "carry"))
		return;
	kread_expect(r, "(");
	for (bool more = !kread_is(r, ")"); more && !r->failed; more = kread_accept(r, ",")) {
		Token name = kread_name(r);
		kread_expect(r, "=");
		KArg arg = kread_arg(r);
		BufferId place = places && kread_accept(r, "in") ? kread_known(r, ENTRY_BUFFER) : NONE;
		vec_push(r->a, names, name);
		vec_push(r->a, &d->args, arg);
		if (places)
			vec_push(r->a, places, place);
	}
	kread_expect(r, ")");
}

/* What is carried has the types of the results. */
static ValueId carried_value(KReader *r, const Draft *d, const Token *name, uint32_t i) {
	return kread_new_value(r, name, &d->types.at[i]);
}

static bool carried_fits(KReader *r, const Draft *d, const TokenList *names) {
	Token at = r->token;
	if (!r->failed && names->count != d->results.count)
		kread_error(r, &at, "kernel-count", "what is carried in comes out, as many values",
		            "%u value%s carried, and the statement gives %u", names->count,
		            names->count == 1 ? " is" : "s are", d->results.count);
	return !r->failed;
}

/* ---- for -------------------------------------------------------------------------------------------------------- */

static IntId read_bound(KReader *r) {
	if (!kread_accept(r, "("))
		return int_const(r->k,
		                 kread_number(r, "a number, or an expression in parentheses", INT64_MIN, INT64_MAX));
	IntId bound = kread_int(r);
	kread_expect(r, ")");
	return bound;
}

void kread_for(KReader *r, Draft *d) {
	KFor *each = new_of(r, sizeof *each);
	TokenList names = {0};
	Token step = r->token;
	each->unread = kread_accept(r, "_");
	if (!each->unread)
		step = kread_name(r);
	kread_expect(r, "in");
	each->end = read_bound(r);
	kread_expect(r, "from");
	each->from = kread_number(r, "where it starts", INT64_MIN, INT64_MAX);
	kread_carried(r, d, &names, NULL);
	if (kread_accept(r, "slice")) {
		d->name = kread_accept(r, "_") ? NULL : kread_variable(r, "the slice's name");
		each->slice = kread_number(r, "how many columns", 1, INT32_MAX);
	}
	draft_make(r, d);
	if (!carried_fits(r, d, &names))
		return;
	uint32_t mark = r->scope.count;
	if (each->unread)
		each->step = kernel_value(r->k, KTYPE_INT, DTYPE_I32, 0, NULL, NULL);
	else
		each->step = kread_new_value(r, &step, &int_type);
	for (uint32_t i = 0; i < names.count; i++)
		vec_push(r->a, &each->carried, carried_value(r, d, &names.at[i], i));
	kernel_stmt(r->k, d->stmt)->each = each;
	draft_body(r, d, NULL, NULL);
	kscope_cut(r, mark);
}

/* ---- pipeline --------------------------------------------------------------------------------------------------- */

static bool read_pipeline_window(KReader *r, void *data) {
	KPipeline *p = data;
	KPipelineWindow w = {.output = kread_is(r, "out")};
	int64_t *block = arena_array(r->a, KDIM_MAX, sizeof *block);
	if (!kread_is(r, "in") && !kread_is(r, "out"))
		return false;
	kread_token(r);
	w.of = kread_known(r, ENTRY_BUFFER);
	Token at = r->token;
	uint32_t rank = kread_numbers(r, "[", "]", 0, block, KDIM_MAX);
	if (!r->failed && rank != r->k->buffers.at[w.of].rank)
		kread_error(r, &at, "kernel-count", NULL, "the block has %u dims, its array %u", rank,
		            r->k->buffers.at[w.of].rank);
	w.block = block;
	kread_expect(r, "at");
	if (!r->failed)
		w.index = kread_ints(r, rank);
	kread_expect(r, "buffers");
	w.buffers = (int)kread_number(r, "how many buffers", 0, INT16_MAX);
	vec_push(r->a, &p->windows, w);
	return true;
}

void kread_pipeline(KReader *r, Draft *d) {
	KPipeline *p = new_of(r, sizeof *p);
	uint32_t mark = r->scope.count, rank = 0;
	p->body = kread_known(r, ENTRY_FUNCTION);
	kread_expect(r, "grid");
	p->rank = kread_int_list(r, p->grid, RANK_MAX);
	kread_expect(r, "at");
	kread_expect(r, "(");
	Token at = r->token;
	for (bool more = !kread_is(r, ")"); more && !r->failed; more = kread_accept(r, ",")) {
		Token name = kread_name(r);
		if (rank == RANK_MAX)
			kread_expected(r, "')'");
		else
			p->at[rank++] = kread_new_value(r, &name, &int_type);
	}
	kread_expect(r, ")");
	if (!r->failed && rank != p->rank)
		kread_error(r, &at, "kernel-count", NULL, "the grid has %u dim%s and %u name%s", p->rank,
		            p->rank == 1 ? "" : "s", rank, rank == 1 ? "" : "s");
	bool word = kread_is(r, "ahead") || kread_is(r, "named") || kread_is(r, "said") || kread_is(r, "initial");
	if (r->token.kind == TOKEN_STRING || (r->token.kind == TOKEN_NAME && !word))
		d->name = kread_variable(r, "a name");
	draft_make(r, d);
	if (r->failed)
		return;
	kernel_stmt(r->k, d->stmt)->pipeline = p;
	kread_block(r, NONE, read_pipeline_window, p);
	kscope_cut(r, mark);
}

/* ---- loop ------------------------------------------------------------------------------------------------------- */

static void read_window_parts(KReader *r, KWindow *w, uint32_t rank) {
	if (kread_accept(r, "at"))
		w->index = kread_ints(r, rank);
	if (kread_accept(r, "start"))
		w->start = kread_ints(r, rank);
	if (kread_is(r, "by")) {
		int64_t *multiple = arena_array(r->a, KDIM_MAX, sizeof *multiple);
		Token at = r->token;
		kread_token(r);
		uint32_t found = kread_numbers(r, "(", ")", 0, multiple, KDIM_MAX);
		w->multiple = multiple;
		if (!r->failed && found != rank)
			kread_error(r, &at, "kernel-count", NULL,
			            "there must be %u multiples, one for each dim, not %u", rank, found);
	}
	kread_expect(r, "buffers");
	w->buffers = (int)kread_number(r, "how many buffers", 0, INT16_MAX);
	if (kread_accept(r, "scratch")) {
		w->scratch = kread_known(r, ENTRY_BUFFER);
		w->semaphore = kread_known(r, ENTRY_BUFFER);
	}
	if (kread_accept(r, "tail"))
		w->tail = kread_known(r, ENTRY_BUFFER);
}

static void read_window(KReader *r, KLoop *loop) {
	int64_t shape[KDIM_MAX];
	KWindow w = {.scratch = NONE, .semaphore = NONE, .tail = NONE};
	Token name = kread_name(r);
	KBuffer b = kread_buffer_type(r, shape);
	b.role = BUFFER_PARAMETER;
	Token at = r->token;
	kread_expect(r, "of");
	w.of = kread_known(r, ENTRY_BUFFER);
	if (!r->failed && b.rank != r->k->buffers.at[w.of].rank)
		kread_error(r, &at, "kernel-count", NULL, "the window has %u dims, its array %u", b.rank,
		            r->k->buffers.at[w.of].rank);
	w.input = kread_accept(r, "in");
	w.output = kread_accept(r, "out");
	w.dma = kread_accept(r, "dma");
	w.ahead = kread_accept(r, "ahead");
	w.behind = kread_accept(r, "behind");
	if (kread_accept(r, "copy"))
		w.copy = kread_variable(r, "what the function of its copies is called");
	if (r->failed)
		return;
	read_window_parts(r, &w, b.rank);
	w.buffer = kread_new_buffer(r, &name, b);
	vec_push(r->a, &loop->windows, w);
}

static void read_dim(KReader *r, KLoop *loop) {
	Token at = r->token;
	ValueId step = kread_known(r, ENTRY_VALUE);
	KLoopDim *dim = NULL;
	for (uint32_t i = 0; i < loop->rank; i++)
		dim = loop->dim[i].step == step ? &loop->dim[i] : dim;
	if (!dim) {
		kread_error(r, &at, "kernel-unknown", NULL, "'%s' is no step of this loop", at.text ? at.text : "");
		return;
	}
	dim->computed = kread_accept(r, "computed");
	kread_expect(r, "steps");
	kread_int_list(r, &dim->steps, 1);
	kread_expect(r, "full");
	dim->full_steps = kread_number(r, "how many full steps", 0, INT64_MAX);
	kread_expect(r, "tail");
	dim->tail = kread_number(r, "the lanes of the last step", 0, INT64_MAX);
	kread_expect(r, "size");
	dim->size = kread_number(r, "the elements of a step", 0, INT64_MAX);
}

static void read_ragged(KReader *r, KLoop *loop, bool peeled) {
	static const ReadType flag = {.type = KTYPE_FLAG, .dtype = DTYPE_BOOL, .layout = LAYOUT_SCALAR};
	loop->peeled = peeled;
	if (!kread_accept(r, "_")) {
		Token name = kread_name(r);
		loop->ragged = kread_new_value(r, &name, &flag);
	}
	loop->peel = !peeled && kread_accept(r, "peel");
}

static void read_hand(KReader *r, KLoop *loop) {
	KHanded h = {.value = kread_known(r, ENTRY_VALUE), .scratch = NONE, .odd = NONE};
	if (kread_accept(r, "in"))
		h.scratch = kread_known(r, ENTRY_BUFFER);
	if (kread_accept(r, "odd"))
		h.odd = kread_known(r, ENTRY_BUFFER);
	vec_push(r->a, &loop->handed, h);
}

/* A line of the loop itself: its first word is followed by another, or by nothing. */
static bool read_loop_line(KReader *r, void *data) {
	static const char *const words[] = {"dim", "peel", "mask", "skew", "window", "hand", NULL};
	int which = 0;
	while (words[which] && !kread_is(r, words[which]))
		which++;
	/* mask is an op, too: `a = mask b, ...` starts with its result */
	if (!words[which] || kread_next_is(r, "=") || kread_next_is(r, ","))
		return false;
	KLoop *loop = data;
	kread_token(r);
	switch (which) {
	case 0: read_dim(r, loop); break;
	case 1:
	case 2: read_ragged(r, loop, which == 1); break;
	case 3:
		loop->skewed = true;
		loop->ahead = (int)kread_number(r, "how many steps ahead", 0, INT16_MAX);
		loop->paired = kread_accept(r, "paired");
		break;
	case 4: read_window(r, loop); break;
	default: read_hand(r, loop); break;
	}
	return true;
}

static LoopType read_loop_type(KReader *r) {
	for (LoopType t = LOOP_DEFAULT; t <= LOOP_EMIT_PIPELINE; t++)
		if (kread_accept(r, loop_type_name(t)))
			return t;
	kread_expected(r, "default, unroll, fori_loop or emit_pipeline");
	return LOOP_DEFAULT;
}

static void read_steps(KReader *r, KLoop *loop, TokenList *steps) {
	kread_expect(r, "(");
	for (bool more = !kread_is(r, ")"); more && !r->failed; more = kread_accept(r, ",")) {
		Token name = kread_name(r);
		vec_push(r->a, steps, name);
		if (++loop->rank == RANK_MAX)
			break;
	}
	kread_expect(r, ")");
}

void kread_loop(KReader *r, Draft *d) {
	KLoop *loop = new_of(r, sizeof *loop);
	TokenList steps = {0}, names = {0};
	BufferList places = {0};
	loop->ragged = NONE;
	loop->name = kread_accept(r, "_") ? NULL : kread_variable(r, "the loop's name");
	read_steps(r, loop, &steps);
	loop->type = read_loop_type(r);
	if (kread_accept(r, "step"))
		loop->step_name = kread_variable(r, "the step's name");
	kread_carried(r, d, &names, &places);
	draft_make(r, d);
	if (!carried_fits(r, d, &names))
		return;
	uint32_t mark = r->scope.count;
	for (uint32_t i = 0; i < steps.count; i++) {
		loop->dim[i].step = kread_new_value(r, &steps.at[i], &int_type);
		loop->dim[i].steps = int_const(r->k, 0);
	}
	for (uint32_t i = 0; i < names.count; i++) {
		vec_push(r->a, &loop->carried, carried_value(r, d, &names.at[i], i));
		vec_push(r->a, &loop->place, places.at[i]);
	}
	kernel_stmt(r->k, d->stmt)->loop = loop;
	draft_body(r, d, read_loop_line, loop);
	kscope_cut(r, mark);
}
