/* runs_first.c - the first point of a grid, whose blocks come chunk by chunk of its loop: the first step runs when its
 * chunk is there, beside the copies of the others. Of all other points the blocks come while the one before computes.
 *
 *     acc = for j in 4 carry (acc) {               for j in 4 { start x_first(j); start y_first(j) }
 *       acc = call step(x_ref[:, j * 512 +: 512],   def first_step(j, acc) fori {
 *                       y_ref[j * 512 +: 512, :],     wait x_first(j); wait y_first(j)
 *                       acc)                          acc = call step(x_ref[0, :, j * 512 +: 512], ..., acc)
 *     }                                             }
 *                                                   acc = fori (4) first_step(acc) */
#include "pipelined.h"
#include "runs.h"

typedef struct ChunkWindow {
	BufferId of; /* the operand */
	uint32_t dim;
	int64_t size; /* of a chunk along it */
	FunctionId copy;
	BufferId semaphore;
} ChunkWindow;

struct FirstPoint {
	StmtId loop, call;
	int64_t steps;
	VEC(ChunkWindow) windows;
};

/* ---- whether it is such ----------------------------------------------------------------------------------------- */

/* Straight steps of one call each, which hand on what it gives. */
static bool is_chunk_loop(const Kernel *k, StmtId s, FirstPoint *f) {
	const KStmt *stmt = kernel_stmt(k, s);
	const KFor *each = stmt->op == K_FOR ? stmt->each : NULL;
	if (!each || each->slice || each->from != 0 || !int_is_const(k, each->end, &f->steps) || f->steps < 2)
		return false;
	StmtId call = region_first(k, stmt->body), yield = region_last(k, stmt->body);
	if (call == NONE || kernel_stmt(k, call)->op != K_CALL || kernel_stmt(k, call)->next != yield)
		return false;
	bool hands_on = kernel_stmt(k, yield)->arg_count == kernel_stmt(k, call)->result_count;
	for (uint32_t i = 0; hands_on && i < kernel_stmt(k, yield)->arg_count; i++) {
		const KArg *x = kernel_arg(k, yield, i);
		hands_on = x->kind == KARG_VALUE && x->value == kernel_stmt(k, call)->result + i;
	}
	f->loop = s;
	f->call = call;
	return hands_on;
}

/* Of all steps together the argument is the whole block, one chunk behind the other along a dim. */
static bool add_window(Kernel *k, FirstPoint *f, RefId ref) {
	const KRef *x = &k->refs.at[ref];
	const KBuffer *block = &k->buffers.at[x->buffer];
	ValueId step = kernel_stmt(k, f->loop)->each->step;
	ChunkWindow w = {.of = x->buffer, .dim = NONE};
	if (block->role != BUFFER_IN || x->rank != block->rank)
		return false;
	for (uint32_t d = 0; d < x->rank; d++) {
		const KDim *dim = &x->dim[d];
		if (dim->kind == KDIM_ALL)
			continue;
		bool chunks = dim->kind == KDIM_RANGE && w.dim == NONE && dim->size * f->steps == block->shape[d];
		for (int64_t j = 0; chunks && j < f->steps; j++) {
			int64_t at;
			chunks = int_is_const(k, int_substitute(k, dim->start, step, int_const(k, j)), &at) &&
			         at == j * dim->size;
		}
		if (!chunks)
			return false;
		w.dim = d;
		w.size = dim->size;
	}
	if (w.dim != NONE)
		vec_push(k->arena, &f->windows, w);
	return w.dim != NONE;
}

/* The operand's block comes in chunks, which nothing but the loop's call may read. */
static bool is_in_chunks(const FirstPoint *f, BufferId of) {
	for (uint32_t w = 0; w < f->windows.count; w++)
		if (f->windows.at[w].of == of)
			return true;
	return false;
}

typedef struct Look {
	const FirstPoint *f;
	RegionId body;
	bool can;
} Look;

/* The statement computes a point by itself, and can be written once more: it says no place by an int. */
static void look_at(Kernel *k, StmtId s, void *data) {
	Look *look = data;
	const KStmt *stmt = kernel_stmt(k, s);
	if (s == look->f->loop || stmt->region == kernel_stmt(k, look->f->loop)->body)
		return;
	bool top = stmt->region == look->body;
	look->can = look->can && (stmt->body == NONE || stmt->op == K_DEF) && !stmt->name;
	for (uint32_t i = 0; look->can && i < stmt->arg_count; i++) {
		const KArg *x = kernel_arg(k, s, i);
		int64_t number;
		if (x->kind == KARG_INT)
			look->can = !top || int_is_const(k, x->index, &number);
		StmtId def = kernel_def_of(k, *x);
		look->can = look->can && (def == NONE || kernel_stmt(k, def)->op != K_PROGRAM_ID);
		if (x->kind == KARG_VALUE && !top) /* in a function: what it reads is its own */
			look->can = k->values.at[x->value].def == NONE ||
			            kernel_stmt(k, k->values.at[x->value].def)->region != look->body;
		if (x->kind != KARG_REF)
			continue;
		const KRef *ref = &k->refs.at[x->ref];
		look->can = look->can && !is_in_chunks(look->f, ref->buffer) &&
		            (top || !block_moves(k, &k->buffers.at[ref->buffer]));
		for (uint32_t d = 0; d < ref->rank; d++)
			look->can = look->can &&
			            (ref->dim[d].kind == KDIM_ALL || int_is_const(k, ref->dim[d].start, &number));
	}
}

FirstPoint *first_point_find(Runs *r) {
	Kernel *k = r->k;
	FirstPoint *f = arena_alloc(k->arena, sizeof *f);
	*f = (FirstPoint){.loop = NONE};
	for (StmtId s = region_first(k, k->body); s != NONE; s = kernel_stmt(k, s)->next)
		if (kernel_stmt(k, s)->op == K_FOR && (f->loop != NONE || !is_chunk_loop(k, s, f)))
			return NULL;
	if (f->loop == NONE)
		return NULL;
	for (uint32_t i = 0; i < kernel_stmt(k, f->call)->arg_count; i++) {
		const KArg *x = kernel_arg(k, f->call, i);
		bool chunks = x->kind == KARG_REF && block_moves(k, &k->buffers.at[k->refs.at[x->ref].buffer]);
		if (x->kind == KARG_INT || (chunks && !add_window(k, f, x->ref)))
			return NULL;
	}
	Look look = {f, k->body, f->windows.count > 0};
	kernel_walk(k, k->body, look_at, &look);
	return look.can ? f : NULL;
}

/* ---- copies ----------------------------------------------------------------------------------------------------- */

static const Moved *moved_of(const Runs *r, BufferId of) {
	for (uint32_t i = 0; i < r->moved.count; i++)
		if (r->moved.at[i].of == of)
			return &r->moved.at[i];
	return NULL;
}

/* Chunk j of the first point's block, into the first slot. */
static void define_chunk(Runs *r, ChunkWindow *w) {
	Kernel *k = r->k;
	const Moved *m = moved_of(r, w->of);
	KDim hbm[KDIM_MAX], vmem[KDIM_MAX] = {{.kind = KDIM_AT, .start = runs_number(r, 0), .size = 1}};
	w->semaphore = kernel_scratch(k, KSPACE_DMA, DTYPE_NONE, 1, &r->first->steps,
	                              called_after(k, m->block.name, "first_sem"));
	w->copy = kernel_function(k, FUNCTION_PLAIN, called_after(k, m->block.name, "first"));
	Cursor outer = drive_define(&r->d, w->copy);
	IntId chunk = drive_parameter(k, w->copy, "chunk");
	IntId start = int_binary(k, INT_MUL, chunk, runs_number(r, w->size));
	runs_block_at(r, m, runs_number(r, 0), hbm);
	for (uint32_t d = 0; d < m->block.rank; d++)
		vmem[d + 1] = (KDim){.kind = KDIM_ALL};
	vmem[w->dim + 1] = (KDim){.kind = KDIM_RANGE, .start = start, .size = w->size};
	KDim *cut = &hbm[w->dim];
	*cut = (KDim){.kind = KDIM_RANGE,
	              .start = cut->kind == KDIM_ALL ? start : int_binary(k, INT_ADD, cut->start, start),
	              .size = w->size};
	KDim one = {.kind = KDIM_AT, .start = chunk, .size = 1};
	const KArg args[3] = {karg_ref(kernel_ref(k, m->of, m->block.rank, hbm)),
	                      karg_ref(kernel_ref(k, m->window, m->block.rank + 1, vmem)),
	                      karg_ref(kernel_ref(k, w->semaphore, 1, &one))};
	StmtId s = drive_put(&r->d, K_COPY, 3, args);
	KArg copy = karg_value(kernel_result(k, s, KTYPE_COPY, DTYPE_NONE, 0, NULL, NULL));
	drive_put(&r->d, K_RETURN, 1, &copy);
	r->d.at = outer;
}

/* What computes the points reads it before the loop does. */
static bool is_read_early(const Runs *r, const Moved *m) {
	const Kernel *k = r->k;
	for (StmtId s = kernel_stmt(k, r->first->loop)->prev; s != NONE; s = kernel_stmt(k, s)->prev)
		for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++) {
			const KArg *x = kernel_arg(k, s, i);
			if (x->kind == KARG_REF && k->refs.at[x->ref].buffer == m->of)
				return true;
		}
	return false;
}

/* What comes whole: of inputs that the loop does not read in chunks, those that are read before it, or behind it. */
static void put_whole(Runs *r, uint16_t op, bool early) {
	for (uint32_t i = 0; i < r->moved.count; i++) {
		const Moved *m = &r->moved.at[i];
		if (m->block.role == BUFFER_IN && !is_in_chunks(r->first, m->of) && is_read_early(r, m) == early)
			runs_put_copy(r, op, m, runs_number(r, 0), runs_number(r, 0));
	}
}

void first_point_start(Runs *r) {
	Kernel *k = r->k;
	FirstPoint *f = r->first;
	for (uint32_t w = 0; w < f->windows.count; w++)
		define_chunk(r, &f->windows.at[w]);
	put_whole(r, K_START, true);
	KFor *each = arena_alloc(k->arena, sizeof *each);
	*each = (KFor){.step = kernel_value(k, KTYPE_INT, DTYPE_I32, 0, NULL, "chunk"),
	               .end = runs_number(r, f->steps)};
	StmtId s = drive_put(&r->d, K_FOR, 0, NULL);
	RegionId body = kernel_region(k, s);
	kernel_stmt(k, s)->each = each;
	kernel_stmt(k, s)->body = body;
	KArg chunk = karg_int(int_value(k, each->step));
	Cursor outer = drive_into(&r->d, body);
	for (uint32_t w = 0; w < f->windows.count; w++)
		drive_put_copy(&r->d, K_START, f->windows.at[w].copy, 1, &chunk);
	drive_put(&r->d, K_YIELD, 0, NULL);
	r->d.at = outer;
	put_whole(r, K_START, false);
}

/* ---- what it computes ------------------------------------------------------------------------------------------- */

/* The start of a part, with `chunk` in place of the loop's step; what it is a multiple of in all steps. */
static void set_chunk(Runs *r, KDim *dim, IntId chunk) {
	Kernel *k = r->k;
	const FirstPoint *f = r->first;
	ValueId step = kernel_stmt(k, f->loop)->each->step;
	int64_t by = 0, at;
	if (dim->kind == KDIM_ALL || !int_reads(k, dim->start, step))
		return;
	for (int64_t j = 0; j < f->steps; j++)
		by = int_is_const(k, int_substitute(k, dim->start, step, int_const(k, j)), &at) ? int_gcd(by, at) : 1;
	dim->start = int_substitute(k, dim->start, step, chunk);
	dim->multiple = by > 1 ? by : dim->multiple;
}

/* A part of the operand's block in the first slot, or of what is there whole; `chunk` in place of the loop's step. */
static KArg in_first_slot(Runs *r, KArg x, IntId chunk) {
	Kernel *k = r->k;
	const KRef *ref = x.kind == KARG_REF ? &k->refs.at[x.ref] : NULL;
	const Moved *m = ref ? moved_of(r, ref->buffer) : NULL;
	KDim dims[KDIM_MAX] = {{.kind = KDIM_AT, .start = runs_number(r, 0), .size = 1}};
	uint32_t slot = m != NULL;
	if (!ref || (!m && chunk == NONE))
		return x;
	for (uint32_t d = 0; d < ref->rank; d++) {
		dims[d + slot] = ref->dim[d];
		if (chunk != NONE)
			set_chunk(r, &dims[d + slot], chunk);
	}
	return karg_ref(kernel_ref(k, m ? m->window : ref->buffer, ref->rank + slot, dims));
}

static StmtId copy_first(Runs *r, StmtId s, ValueId *now, uint32_t count, IntId chunk) {
	Kernel *k = r->k;
	StmtId copy = kernel_copy(k, r->d.at.region, s, now, count, true);
	for (uint32_t i = 0; i < kernel_stmt(k, s)->result_count; i++)
		k->values.at[kernel_stmt(k, copy)->result + i].as = kernel_stmt(k, s)->result + i;
	for (uint32_t i = 0; i < kernel_stmt(k, copy)->arg_count; i++) {
		KArg arg = in_first_slot(r, *kernel_arg(k, copy, i), chunk);
		*kernel_arg(k, copy, i) = arg;
	}
	return copy;
}

/* The steps, each when its chunk is there. */
static void put_steps(Runs *r, ValueId *now, uint32_t count) {
	Kernel *k = r->k;
	const FirstPoint *f = r->first;
	StmtId loop = f->loop;
	const KFor *each = kernel_stmt(k, loop)->each;
	FunctionId step = kernel_function(k, FUNCTION_FORI, "first_step");
	KArgs args = {0}, results = {0};
	Cursor outer = drive_define(&r->d, step);
	IntId chunk = drive_parameter(k, step, "chunk");
	vec_push(k->arena, &args, karg_int(runs_number(r, f->steps)));
	for (uint32_t i = 0; i < each->carried.count; i++) {
		KArg x = *kernel_arg(k, loop, i);
		if (x.kind == KARG_VALUE && x.value < count && now[x.value] != NONE)
			x.value = now[x.value];
		vec_push(k->arena, &args, x);
		KParameter p = {PARAMETER_VALUE, kernel_value_like(k, each->carried.at[i])};
		vec_push(k->arena, &k->functions.at[step].parameters, p);
		now[each->carried.at[i]] = p.id;
	}
	for (uint32_t w = 0; w < f->windows.count; w++)
		drive_put_copy(&r->d, K_WAIT, f->windows.at[w].copy, 1, &(KArg){.kind = KARG_INT, .index = chunk});
	StmtId call = copy_first(r, f->call, now, count, chunk);
	for (uint32_t i = 0; i < kernel_stmt(k, call)->result_count; i++)
		vec_push(k->arena, &results, karg_value(kernel_stmt(k, call)->result + i));
	drive_put(&r->d, K_RETURN, results.count, results.at);
	r->d.at = outer;
	StmtId run = drive_put(&r->d, K_FORI, args.count, args.at);
	kernel_stmt(k, run)->function = step;
	for (uint32_t i = 0; i < kernel_stmt(k, loop)->result_count; i++) {
		ValueId old = kernel_stmt(k, loop)->result + i;
		now[old] = kernel_result_like(k, run, old, k->values.at[old].name);
		k->values.at[now[old]].as = old;
	}
}

void first_point_compute(Runs *r, RegionId computes) {
	Kernel *k = r->k;
	uint32_t count = k->values.count;
	ValueId *now = kernel_value_map(k);
	for (StmtId s = region_first(k, computes), next; s != NONE; s = next) {
		next = kernel_stmt(k, s)->next;
		if (kernel_stmt(k, s)->op == K_DEF)
			kernel_move(k, s, k->body);
	}
	put_whole(r, K_WAIT, true);
	for (StmtId s = region_first(k, computes); s != NONE; s = kernel_stmt(k, s)->next) {
		if (s == r->first->loop) {
			put_steps(r, now, count);
			put_whole(r, K_WAIT, false);
		} else if (kernel_stmt(k, s)->op != K_PROGRAM_ID) {
			copy_first(r, s, now, count, NONE);
		}
	}
}
