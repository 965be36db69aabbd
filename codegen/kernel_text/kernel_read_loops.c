/* kernel_read_loops.c - reading the statements of many parts: for, loop, pipeline. */
#include "kernel_reader.h"

typedef VEC(Token) TokenList;

static const ReadType int_type = {.type = KTYPE_INT, .dtype = DTYPE_I32, .layout = LAYOUT_SCALAR};

static void *new_of(KReader *r, size_t size) { return arena_alloc(r->a, size); }

/* What stands in `carry (a = x, b: float32[8, 128] = _ in y odd z)`, but for x, which is an argument. */
typedef struct CarriedPart {
	Token name;
	ReadType type; /* as stated: of what does not come out again */
	bool typed;
	BufferId place, odd;
} CarriedPart;
typedef VEC(CarriedPart) CarriedParts;

static BufferId read_place(KReader *r, const char *word) {
	return kread_accept(r, word) ? kread_known(r, ENTRY_BUFFER) : NONE;
}

static void read_carried(KReader *r, Draft *d, CarriedParts *all) {
	if (!kread_accept(r, "carry"))
		return;
	kread_expect(r, "(");
	for (bool more = !kread_is(r, ")"); more && !r->failed; more = kread_accept(r, ",")) {
		CarriedPart c = {.name = kread_name(r)};
		c.typed = kread_accept(r, ":");
		if (c.typed)
			c.type = kread_type(r);
		kread_expect(r, "=");
		KArg arg = kread_arg(r);
		c.place = read_place(r, "in");
		c.odd = read_place(r, "odd");
		vec_push(r->a, all, c);
		vec_push(r->a, &d->args, arg);
	}
	kread_expect(r, ")");
}

static bool carried_fits(KReader *r, const Draft *d, const CarriedParts *all) {
	Token at = r->token;
	bool fits = all->count >= d->results.count;
	for (uint32_t i = 0; i < all->count; i++)
		fits = fits && all->at[i].typed == (i >= d->results.count);
	if (!r->failed && !fits)
		kread_error(r, &at, "kernel-count", "what does not come out stands last, and states its type",
		            "%u value%s carried, and the statement gives %u", all->count,
		            all->count == 1 ? " is" : "s are", d->results.count);
	return !r->failed;
}

/* It has the type of the result, or its own. In scope from here on. */
static ValueId carried_value(KReader *r, const Draft *d, const CarriedParts *all, uint32_t i) {
	const CarriedPart *c = &all->at[i];
	return kread_new_value(r, &c->name, c->typed ? &c->type : &d->types.at[i]);
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
	CarriedParts all = {0};
	Token step = r->token;
	each->unread = kread_accept(r, "_");
	if (!each->unread)
		step = kread_name(r);
	kread_expect(r, "in");
	each->end = read_bound(r);
	kread_expect(r, "from");
	each->from = kread_number(r, "where it starts", INT64_MIN, INT64_MAX);
	read_carried(r, d, &all);
	if (kread_accept(r, "slice")) {
		d->name = kread_accept(r, "_") ? NULL : kread_variable(r, "the slice's name");
		each->slice = kread_number(r, "how many columns", 1, INT32_MAX);
	}
	draft_make(r, d);
	if (!carried_fits(r, d, &all))
		return;
	uint32_t mark = r->scope.count;
	if (each->unread)
		each->step = kernel_value(r->k, KTYPE_INT, DTYPE_I32, 0, NULL, NULL);
	else
		each->step = kread_new_value(r, &step, &int_type);
	for (uint32_t i = 0; i < all.count; i++)
		vec_push(r->a, &each->carried, carried_value(r, d, &all, i));
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
	r->in_index = true;
	if (!r->failed)
		w.index = kread_ints(r, rank);
	r->in_index = false;
	kread_expect(r, "buffers");
	w.buffers = (int)kread_number(r, "how many buffers", 0, INT16_MAX);
	w.ahead = !w.output && kread_accept(r, "ahead");
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

/* It starts at its place in units of itself, which is the first, and no hint is given. */
static void complete_window(KReader *r, KWindow *w, const int64_t *shape, uint32_t rank) {
	IntId *index = arena_array(r->a, KDIM_MAX, sizeof *index), *start = arena_array(r->a, KDIM_MAX, sizeof *start);
	for (uint32_t d = 0; d < rank; d++) {
		index[d] = w->index ? w->index[d] : int_const(r->k, 0);
		start[d] = int_binary(r->k, INT_MUL, index[d], int_const(r->k, shape[d]));
	}
	w->index = w->index ? w->index : index;
	w->start = w->start ? w->start : start;
	w->multiple = w->multiple ? w->multiple : arena_array(r->a, KDIM_MAX, sizeof *w->multiple);
}

static void read_window_parts(KReader *r, KWindow *w, uint32_t rank) {
	if (kread_accept(r, "pieces")) {
		w->pieces = (uint32_t)kread_number(r, "the dim of the pieces", 0, rank ? rank - 1 : 0);
		Token name = kread_name(r);
		w->piece = kread_new_value(r, &name, &int_type);
	}
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
	w->tail = read_place(r, "tail");
}

static void read_window(KReader *r, KLoop *loop) {
	int64_t shape[KDIM_MAX];
	KWindow w = {.scratch = NONE, .semaphore = NONE, .tail = NONE, .pieces = NONE, .piece = NONE};
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
	if (kread_accept(r, "copy"))
		w.copy = kread_variable(r, "what the function of its copies is called");
	if (r->failed)
		return;
	r->in_index = true;
	read_window_parts(r, &w, b.rank);
	r->in_index = false;
	if (r->failed)
		return;
	complete_window(r, &w, shape, b.rank);
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
	KHanded h = {.value = kread_known(r, ENTRY_VALUE)};
	h.scratch = read_place(r, "in");
	h.odd = read_place(r, "odd");
	vec_push(r->a, &loop->handed, h);
}

/* bodies NUMBER... live PERCENT columns NUMBER rows NUMBER */
static void read_bodies(KReader *r, KLoop *loop) {
	while (!kread_is(r, "live") && !r->failed)
		vec_push(r->a, &loop->bodies, kread_number(r, "how many steps, or live", 1, INT16_MAX));
	kread_expect(r, "live");
	loop->live = (int)kread_number(r, "percent that masks leave", 1, 100);
	kread_expect(r, "columns");
	loop->columns = kread_number(r, "how many columns some rows see", 1, INT32_MAX);
	kread_expect(r, "rows");
	loop->rows = kread_number(r, "how many rows a step has", 1, INT32_MAX);
}

static void read_next(KReader *r, KLoop *loop) {
	KNext next = {.by = kread_known(r, ENTRY_BUFFER)};
	kread_expect(r, "for");
	next.of = kread_known(r, ENTRY_BUFFER);
	vec_push(r->a, &loop->next, next);
}

static void read_keep(KReader *r, KLoop *loop) {
	KHanded kept = {.value = kread_known(r, ENTRY_VALUE), .odd = NONE};
	kread_expect(r, "in");
	kept.scratch = kread_known(r, ENTRY_BUFFER);
	vec_push(r->a, &loop->kept, kept);
}

static void read_region(KReader *r, StmtId loop, RegionId *region) {
	*region = kernel_region(r->k, loop);
	kread_block(r, *region, NULL, NULL);
}

/* A line of the loop itself: its first word is followed by another, or by nothing. */
static bool read_loop_line(KReader *r, void *data) {
	static const char *const words[] = {"dim",    "peel",      "mask",   "skew",   "window", "hand",   "pairs",
	                                    "runs",   "before",    "behind", "unroll", "across", "fenced", "tail",
	                                    "bodies", "lane_sums", "next",   "once",   "keep",   NULL};
	int which = 0;
	while (words[which] && !kread_is(r, words[which]))
		which++;
	/* mask is an op, too: `a = mask b, ...` starts with its result */
	if (!words[which] || kread_next_is(r, "=") || kread_next_is(r, ","))
		return false;
	const StmtId *stmt = data;
	KLoop *loop = kernel_stmt(r->k, *stmt)->loop;
	kread_token(r);
	switch (which) {
	case 0: read_dim(r, loop); break;
	case 1:
	case 2: read_ragged(r, loop, which == 1); break;
	case 3: loop->skew = (int)kread_number(r, "how many steps ahead", 1, INT16_MAX); break;
	case 4: read_window(r, loop); break;
	case 5: read_hand(r, loop); break;
	case 6: loop->paired = true; break;
	case 7: kread_int_list(r, &loop->runs, 1); break;
	case 8: read_region(r, *stmt, &loop->before); break;
	case 9: read_region(r, *stmt, &loop->behind); break;
	case 10: loop->unroll = (int)kread_number(r, "how many steps", 2, INT16_MAX); break;
	case 11: loop->across = true; break;
	case 12: loop->fenced = true; break;
	case 13: read_region(r, *stmt, &loop->tail); break;
	case 14: read_bodies(r, loop); break;
	case 15: loop->lane_sums = true; break;
	case 16: read_next(r, loop); break;
	case 17: loop->once = true; break;
	default: read_keep(r, loop); break;
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

static void join_results(Kernel *k, StmtId s, void *data) {
	const KLoop *loop = data;
	for (uint32_t i = 0; i < kernel_stmt(k, s)->result_count; i++) {
		KValue *x = &k->values.at[kernel_stmt(k, s)->result + i];
		for (uint32_t c = 0; x->var && c < loop->carried.count; c++) {
			const char *carried = k->values.at[loop->carried.at[c]].var;
			x->as = carried && strcmp(carried, x->var) == 0 ? loop->carried.at[c] : x->as;
		}
	}
}

/* What a region of a loop calls as the loop calls what it carries takes that over, wherever the region goes. */
static void join_carried(Kernel *k, StmtId s) {
	RegionId regions[STMT_REGIONS_MAX];
	for (uint32_t i = kernel_regions(k, s, regions); i-- > 0;)
		kernel_walk(k, regions[i], join_results, kernel_stmt(k, s)->loop);
}

void kread_loop(KReader *r, Draft *d) {
	KLoop *loop = new_of(r, sizeof *loop);
	TokenList steps = {0};
	CarriedParts all = {0};
	loop->ragged = loop->runs = loop->before = loop->behind = loop->tail = NONE;
	loop->name = kread_accept(r, "_") ? NULL : kread_variable(r, "the loop's name");
	read_steps(r, loop, &steps);
	loop->type = read_loop_type(r);
	if (kread_accept(r, "step"))
		loop->step_name = kread_variable(r, "the step's name");
	read_carried(r, d, &all);
	draft_make(r, d);
	if (!carried_fits(r, d, &all))
		return;
	uint32_t mark = r->scope.count;
	for (uint32_t i = 0; i < steps.count; i++) {
		loop->dim[i].step = kread_new_value(r, &steps.at[i], &int_type);
		loop->dim[i].steps = int_const(r->k, 0);
	}
	for (uint32_t i = 0; i < all.count; i++) {
		vec_push(r->a, &loop->carried, carried_value(r, d, &all, i));
		vec_push(r->a, &loop->place, all.at[i].place);
		vec_push(r->a, &loop->odd, all.at[i].odd);
	}
	kernel_stmt(r->k, d->stmt)->loop = loop;
	draft_body(r, d, read_loop_line, &d->stmt);
	join_carried(r->k, d->stmt);
	kscope_cut(r, mark);
}
