/* build_places.c - accesses at positions that int tensors give: a loop over the positions (codegen/place/places.c). */
#include "builder.h"

/* The loop over the positions of an access, while its body is built. */
typedef struct Walk {
	Builder *b;
	const Places *s;
	RegionId outer;
	StmtId loop;
	KLoop *k;
	IntId at[RANK_MAX];    /* the position, by its dims */
	IntId place[RANK_MAX]; /* what the index tensors say there: as it is, */
	IntId held[RANK_MAX];  /* and the nearest that the tensor has */
} Walk;

static const Places *places_of(const Builder *b, NodeId n) {
	return &b->plan->places.at[b->plan->values[n].access->places];
}

/* Of scratch with several slots in the one that is in use. */
static KArg scratch_ref(Builder *b, uint32_t scratch, uint32_t rank, const KDim *dims) {
	KDim all[DIM_MAX + 2] = {{.kind = KDIM_AT, .start = b->slot}};
	if (!b->plan->scratches.at[scratch].slots)
		return karg_ref(kernel_ref(b->k, b->scratch[scratch], rank, dims));
	for (uint32_t d = 0; d < rank; d++)
		all[d + 1] = dims[d];
	return karg_ref(kernel_ref(b->k, b->scratch[scratch], rank + 1, all));
}

/* False: they are there already, from an access before this one. */
static bool to_bring(Builder *b, const PlaceDim *d, ValueId value) {
	const Brought now = {.smem = d->smem, .value = value, .at = b->at, .flags = b->flags};
	Brought *last = NULL;
	for (uint32_t i = 0; i < b->brought.count && !last; i++)
		last = b->brought.at[i].smem == d->smem ? &b->brought.at[i] : NULL;
	if (!last)
		vec_push(b->a, &b->brought, now);
	else if (last->value == now.value && last->at == now.at && last->flags == now.flags)
		return false;
	else
		*last = now;
	return true;
}

/* Computed positions, copied to where single ones are read. */
static void bring(Builder *b, const Places *s) {
	const KDim first = {.kind = KDIM_AT, .start = int_const(b->k, 0)};
	for (uint32_t i = 0; i < s->count; i++) {
		const PlaceDim *d = &s->of[i];
		if (d->smem == NONE)
			continue;
		KArg x = build_value(b, d->index, FORM_NATURAL);
		if (!to_bring(b, d, x.value))
			continue;
		KArg vmem = scratch_ref(b, d->vmem, 0, NULL), smem = scratch_ref(b, d->smem, 0, NULL);
		build_statement(b, K_STORE, 2, (const KArg[]){vmem, build_as(b, x, DTYPE_I32)});
		KArg args[] = {vmem, smem, scratch_ref(b, d->semaphore, 1, &first)};
		StmtId copy = build_statement(b, K_COPY, 3, args);
		KArg c = karg_value(kernel_result(b->k, copy, KTYPE_COPY, DTYPE_NONE, 0, NULL, "positions"));
		build_statement(b, K_START, 1, &c);
		build_statement(b, K_WAIT, 1, &c);
	}
}

/* The int that says where dim i is. */
static IntId place_at(Walk *w, uint32_t i) {
	Builder *b = w->b;
	const PlaceDim *d = &w->s->of[i];
	const Type *t = node_type(b->m, d->index);
	IntId at[RANK_MAX];
	KDim dims[RANK_MAX + 1];
	uint32_t rank = 0;
	for (uint32_t k = 0; k < t->count; k++) /* what is broadcast stays at its one position */
		at[k] = expr_number(b->m, t->dims[k]) == 1 ? int_const(b->k, 0) : w->at[d->first + k];
	if (d->smem == NONE)
		return build_table_place(b, d->index, at);
	if (t->count == 1)
		dims[rank++] = (KDim){.kind = KDIM_AT, .start = int_const(b->k, 0)};
	for (uint32_t k = 0; k < t->count; k++)
		dims[rank++] = (KDim){.kind = KDIM_AT, .start = at[k]};
	KArg ref = scratch_ref(b, d->smem, rank, dims);
	KArg x = build_shaped(b, K_LOAD, DTYPE_I32, 0, NULL, 1, &ref);
	return int_value(b->k, x.value);
}

/* The int by a name: it is read more than once. */
static IntId named(Walk *w, IntId i, const char *name) {
	Kernel *k = w->b->k;
	KArg x = karg_int(i);
	return int_value(k, kernel_result(k, build_statement(w->b, K_INT, 1, &x), KTYPE_INT, DTYPE_I32, 0, NULL, name));
}

/* Registers of what one position selects. */
static int64_t position_registers(const Builder *b, const Places *s) {
	const Scratch *rows = &b->plan->scratches.at[s->rows];
	int64_t registers = 1;
	for (uint32_t i = s->rank; i < rows->rank; i++)
		registers *= i + 1 == rows->rank   ? int_cdiv(rows->shape[i], b->m->target->lanes)
		             : i + 2 == rows->rank ? int_cdiv(rows->shape[i], b->m->target->sublanes)
		                                   : rows->shape[i];
	return registers;
}

/* A position outside the tensor writes what stands at the nearest one: a branch would take 20 cycles, as long as so
 * many registers that are read. Where old values are asked for, there is none of it. */
enum { CHOSEN_REGISTERS = 32 };

static bool write_chooses(const Builder *b, const Places *s) {
	return s->old == NONE && position_registers(b, s) <= CHOSEN_REGISTERS;
}

/* Positions in one iteration: four take little longer than one where they do not wait for each other, and half of it
 * where they write, in order. Of rows that several times the registers would not hold, it is one. */
enum { UNROLLED = 4 };

static bool walk_unrolls(const Builder *b, const Places *s, int64_t count) {
	if (s->rows == NONE || count % UNROLLED)
		return false;
	if (op_writes(node_get(b->m, s->node)->op))
		return write_chooses(b, s);
	return position_registers(b, s) <= (s->copied ? 4 : 2) * b->m->target->sublanes;
}

/* A loop of so many steps, into its body. */
static StmtId begin_loop(Builder *b, KLoop *loop, int64_t steps, const char *name, KArg carried) {
	Kernel *k = b->k;
	*loop = (KLoop){.type = LOOP_FORI,
	                .rank = 1,
	                .ragged = NONE,
	                .runs = NONE,
	                .before = NONE,
	                .behind = NONE,
	                .tail = NONE,
	                .name = name,
	                .step_name = "i"};
	loop->dim[0] = (KLoopDim){.steps = int_const(k, steps), .full_steps = steps, .size = 1};
	loop->dim[0].step = kernel_value(k, KTYPE_INT, DTYPE_I32, 0, NULL, "i");
	StmtId stmt = build_statement(b, K_LOOP, carried.kind != KARG_NONE, &carried);
	if (carried.kind != KARG_NONE) {
		KValue like = k->values.at[carried.value];
		ValueId found = kernel_value(k, like.type, like.dtype, like.rank, like.shape, "found");
		vec_push(b->a, &loop->carried, found);
		vec_push(b->a, &loop->place, NONE);
		vec_push(b->a, &loop->odd, NONE);
	}
	RegionId body = kernel_region(k, stmt);
	kernel_stmt(k, stmt)->body = body;
	kernel_stmt(k, stmt)->loop = loop;
	b->at = body;
	return stmt;
}

/* What the index tensors say at the position. */
static void find_places(Walk *w) {
	Builder *b = w->b;
	for (uint32_t i = 0; i < w->s->count; i++) {
		w->place[i] = named(w, place_at(w, i), "place");
		w->held[i] = w->place[i];
		if (b->m->assume_in_bounds && !w->s->copied) /* past a tile's end there may be anything */
			continue;
		w->held[i] = named(w, build_clamped(b, w->place[i], 0, w->s->of[i].extent - 1), "held");
	}
}

/* Into the loop's body. `carried`: what it hands from position to position, or KARG_NONE. `places`: it reads what the
 * index tensors say. */
static Walk walk_of(Builder *b, NodeId n, KArg carried, bool places) {
	Walk w = {.b = b, .s = places_of(b, n), .outer = b->at, .k = arena_alloc(b->a, sizeof *w.k)};
	Kernel *k = b->k;
	int64_t count = 1;
	for (uint32_t i = 0; i < w.s->rank; i++)
		count *= w.s->shape[i];
	w.loop = begin_loop(b, w.k, count, "position", carried);
	if (carried.kind == KARG_NONE && walk_unrolls(b, w.s, count))
		w.k->unroll = UNROLLED;
	IntId rest = int_value(k, w.k->dim[0].step);
	for (uint32_t i = w.s->rank; i-- > 0;) {
		IntId size = int_const(k, w.s->shape[i]);
		w.at[i] = i == 0 ? rest : w.s->shape[i] == 1 ? int_const(k, 0) : int_binary(k, INT_REM, rest, size);
		rest = i == 0 || w.s->shape[i] == 1 ? rest : int_binary(k, INT_DIV, rest, size);
	}
	if (places)
		find_places(&w);
	return w;
}

static Walk walk(Builder *b, NodeId n, KArg carried) {
	bring(b, places_of(b, n));
	return walk_of(b, n, carried, true);
}

static void walk_end(Walk *w, KArg result) {
	build_statement(w->b, K_YIELD, result.kind != KARG_NONE, &result);
	w->b->at = w->outer;
	w->b->place = NULL;
}

/* Where scratch `rows` has what the position selects: its shape. */
static KArg slot(Walk *w, uint32_t scratch, uint32_t *rank, int64_t *shape) {
	Builder *b = w->b;
	const Scratch *rows = &b->plan->scratches.at[scratch];
	KDim dims[DIM_MAX];
	*rank = 0;
	for (uint32_t i = 0; i < rows->rank; i++) {
		bool row = rows->rank == w->s->rank + 1 && i + 1 == w->s->rank; /* no value is 1-D */
		if (i >= w->s->rank)
			dims[i] = (KDim){.kind = KDIM_ALL};
		else
			dims[i] = (KDim){.kind = row ? KDIM_RANGE : KDIM_AT, .start = w->at[i], .size = 1};
		if (i >= w->s->rank || row)
			shape[(*rank)++] = i >= w->s->rank ? rows->shape[i] : 1;
	}
	return scratch_ref(b, scratch, rows->rank, dims);
}

static bool has_shape(const Builder *b, KArg x, uint32_t rank, const int64_t *shape) {
	const KValue *v = &b->k->values.at[x.value];
	return kernel_same_shape(v->rank, v->shape, rank, shape);
}

/* The dims of the positions, which stand first in scratch, where the value has them: the axes of the transpose; false
 * if they stand there already. */
static bool order(const Places *s, uint32_t rank, bool back, int64_t *axes) {
	uint32_t position = 0, kept = s->rank;
	bool moved = false;
	for (uint32_t i = 0; i < rank; i++) {
		uint32_t at = position < s->rank && s->dim[position] == i ? position++ : kept++;
		axes[back ? at : i] = back ? i : at;
		moved = moved || at != i;
	}
	return moved;
}

static KArg transposed(Builder *b, KArg x, uint32_t rank, const int64_t *axes) {
	static const int64_t last_two[] = {-1, -2};
	if (rank == 2)
		return build_op(b, K_SWAPAXES, karg_dtype(b, x), 1, &x, 2, last_two);
	return build_op(b, K_TRANSPOSE, karg_dtype(b, x), 1, &x, rank, axes);
}

/* ---- gathers ---------------------------------------------------------------------------------------------------- */

/* Of those that lie in whole groups. */
static int64_t full_rows(const Places *s) { return s->of[0].extent - s->last_rows; }

/* A copy on one of the semaphores; where grid points take turns, on the point's. */
static KArg copy_on(Builder *b, const Places *s, KArg from, KArg to, uint32_t semaphore, const char *name) {
	const KDim at = {.kind = KDIM_AT, .start = s->across ? b->slot : int_const(b->k, semaphore)};
	const KArg args[] = {from, to, karg_ref(kernel_ref(b->k, b->scratch[s->arrived], 1, &at))};
	StmtId copy = build_statement(b, K_COPY, 3, args);
	return karg_value(kernel_result(b->k, copy, KTYPE_COPY, DTYPE_NONE, 0, NULL, name));
}

/* The copy of what one position selects; of the last rows, of the group before them. */
static KArg copy_of(Walk *w, const Access *access) {
	Builder *b = w->b;
	uint32_t rank;
	int64_t shape[DIM_MAX] = {0};
	IntId place = w->held[0];
	b->place = w->held;
	if (w->s->last != NONE) {
		place = int_binary(b->k, INT_MIN, place, int_const(b->k, full_rows(w->s) - 1));
		b->place = &place;
	}
	KArg from = karg_ref(build_ref(b, access));
	b->place = w->held;
	return copy_on(b, w->s, from, slot(w, w->s->groups == NONE ? w->s->rows : w->s->groups, &rank, shape), 0,
	               "row");
}

/* That of `count` rows whose number, from `first` on, is `at`; `else_`, or the first of them, where it is none. */
static KArg picked(Builder *b, KArg rows, Dtype wide, KArg at, int64_t first, int64_t count, KArg else_) {
	const int64_t shape[] = {1, b->k->values.at[rows.value].shape[1]};
	KArg ats = build_shaped(b, K_FULL, DTYPE_I32, 2, shape, 1, &at), x = else_;
	for (int64_t i = 0; i < count; i++) {
		const int64_t ints[] = {i, i + 1, 0};
		KArg row = count == 1 ? rows : build_op(b, K_SLICE_IN_DIM, wide, 1, &rows, 3, ints);
		if (x.kind == KARG_NONE) {
			x = row;
			continue;
		}
		KArg same = build_binary(b, OP_EQ, DTYPE_BOOL, ats, karg_integer(first + i));
		x = build_op(b, OP_WHERE, wide, 3, (const KArg[]){same, row, x}, 0, NULL);
	}
	return x;
}

/* The one of a group's rows that was asked for. */
static KArg row_of_group(Walk *w, const Access *access, Dtype from, Dtype wide) {
	Builder *b = w->b;
	const Places *s = w->s;
	uint32_t rank, dim = access->rank - 2;
	int64_t shape[DIM_MAX] = {0};
	KArg ref = slot(w, s->groups, &rank, shape);
	KArg all = build_shaped(b, K_LOAD, from, rank, shape, 1, &ref);
	all = build_converted(b, all, from, wide);
	if (s->group == 1)
		return all;
	IntId at = int_const(b->k, 0);
	for (uint32_t i = 0; i < s->count; i++)
		at = access->dim[dim].start.count && access->dim[dim].start.term[0].id % RANK_MAX == i ? w->held[i]
		                                                                                       : at;
	KArg rest = build_int_arg(b, int_binary(b->k, INT_REM, at, int_const(b->k, s->group)));
	build_name(b, all, "value");
	KArg x = picked(b, all, wide, rest, 0, s->group, (KArg){0});
	if (s->last == NONE)
		return x;
	KArg last = scratch_ref(b, s->last, 0, NULL);
	shape[0] = s->last_rows;
	last = build_shaped(b, K_LOAD, from, 2, shape, 1, &last);
	last = build_converted(b, last, from, wide);
	x = picked(b, last, wide, build_int_arg(b, at), full_rows(s), s->last_rows, x);
	return x;
}

static void pick_rows(Builder *b, NodeId n, Dtype wide) {
	const Access *access = b->plan->values[n].access;
	Walk w = walk_of(b, n, (KArg){0}, places_of(b, n)->group > 1);
	int64_t shape[DIM_MAX] = {0};
	uint32_t rank;
	KArg x = row_of_group(&w, access, b->plan->operands.at[access->operand].dtype, wide);
	KArg to = slot(&w, w.s->rows, &rank, shape);
	build_statement(b, K_STORE, 2, (const KArg[]){to, x});
	walk_end(&w, (KArg){0});
}

static KArg copy_last(Builder *b, const Places *s, const Access *access) {
	Access of = *access;
	of.dim[access->rank - 2].start = affine_int(full_rows(s));
	of.dim[access->rank - 2].size = s->last_rows;
	return copy_on(b, s, karg_ref(build_ref(b, &of)), scratch_ref(b, s->last, 0, NULL), 1, "last");
}

/* ---- across grid points ------------------------------------------------------------------------------------------ */

/* Starts the copies of a point, where statements go. */
typedef void StartRows(Builder *b, NodeId n);

/* Of the grid dims that move what is copied the point, then the slot. */
static FunctionId define_start(Builder *b, NodeId n, StartRows *start) {
	Kernel *k = b->k;
	const Places *s = places_of(b, n);
	RegionId outer = b->at;
	ValueId *own = b->program;
	StmtId def = build_statement(b, K_DEF, 0, NULL);
	FunctionId f = kernel_function(k, FUNCTION_PLAIN, arena_printf(b->a, "%s_start", node_get(b->m, n)->name));
	RegionId body = kernel_define(k, def, f);
	b->program = arena_copy(b->a, own, b->plan->grid.count, sizeof *own);
	for (uint32_t g = 0; g <= b->plan->grid.count; g++) {
		bool slot = g == b->plan->grid.count;
		if (!slot && !(s->moved_by >> g & 1))
			continue;
		ValueId v = kernel_value(k, KTYPE_INT, DTYPE_I32, 0, NULL, slot ? "slot" : b->plan->grid.at[g].name);
		vec_push(b->a, &k->functions.at[f].parameters, ((KParameter){PARAMETER_VALUE, v}));
		k->values.at[v].exact = slot;
		if (slot)
			b->slot = int_value(k, v);
		else
			b->program[g] = v;
	}
	b->at = body;
	start(b, n);
	b->at = outer;
	b->program = own;
	return f;
}

static void call_start(Builder *b, const Places *s, FunctionId f, const IntId *point, IntId slot) {
	KArg args[RANK_MAX + 1];
	uint32_t count = 0;
	for (uint32_t g = 0; g < b->plan->grid.count; g++)
		if (s->moved_by >> g & 1)
			args[count++] = karg_int(point ? point[g] : int_value(b->k, b->program[g]));
	args[count++] = karg_int(slot);
	StmtId call = build_statement(b, K_CALL, count, args);
	kernel_stmt(b->k, call)->function = f;
}

/* The point before has started these copies, and this one starts those of the next:
 *
 *     when (point == 0) { call start(point, 0) }
 *     when (next < points) { call start(next, rem(next, 2)) }
 *     slot = int (rem(point, 2)) */
static void start_across(Builder *b, NodeId n, StartRows *start) {
	Kernel *k = b->k;
	const Places *s = places_of(b, n);
	RegionId outer = b->at;
	IntId slots = int_const(k, GATHER_SLOTS);
	if (!b->next) {
		NextPoint *next = arena_alloc(b->a, sizeof *next);
		*next = grid_next_point(k, b->at);
		b->next = next;
	}
	FunctionId f = define_start(b, n, start);
	build_when(b, karg_int(b->next->first), "first");
	call_start(b, s, f, NULL, int_const(k, 0));
	b->at = outer;
	build_when(b, karg_int(b->next->another), "another");
	IntId after = int_binary(k, INT_ADD, b->next->number, int_const(k, 1));
	call_start(b, s, f, b->next->point, int_binary(k, INT_REM, after, slots));
	b->at = outer;
	KArg own = karg_int(int_binary(k, INT_REM, b->next->number, slots));
	b->slot = int_value(
		k, kernel_result(k, build_statement(b, K_INT, 1, &own), KTYPE_INT, DTYPE_I32, 0, NULL, "slot"));
}

static void start_copies(Builder *b, NodeId n, StartRows *start) {
	if (places_of(b, n)->across)
		start_across(b, n, start);
	else
		start(b, n);
}

static void start_rows(Builder *b, NodeId n) {
	Walk w = walk(b, n, (KArg){0});
	KArg copy = copy_of(&w, b->plan->values[n].access);
	build_statement(b, K_START, 1, &copy);
	if (w.k->dim[0].full_steps % UNROLLED == 0) /* nothing of it is in registers */
		w.k->unroll = UNROLLED;
	walk_end(&w, (KArg){0});
}

/* All copies are started, then waited for at once: for as many bytes as they have together. */
static void copy_rows(Builder *b, NodeId n, Dtype wide) {
	const Access *access = b->plan->values[n].access;
	const Places *s = places_of(b, n);
	b->k->unchecked = true; /* places are held inside: a test of each takes as long as its copy */
	KArg last = {0};
	if (s->last != NONE) {
		last = copy_last(b, s, access);
		build_statement(b, K_START, 1, &last);
	}
	start_copies(b, n, start_rows);
	KArg all = scratch_ref(b, s->groups == NONE ? s->rows : s->groups, 0, NULL);
	KArg copy = copy_on(b, s, all, all, 0, "rows");
	build_statement(b, K_WAIT, 1, &copy);
	if (s->last != NONE)
		build_statement(b, K_WAIT, 1, &last);
	if (s->groups != NONE)
		pick_rows(b, n, wide);
}

/* One of a register's positions: the word that holds its row comes, and its number is kept. */
static void copy_packed_row(Walk *w, const Access *access, IntId tile, int64_t row) {
	Builder *b = w->b;
	const Places *s = w->s;
	const Scratch *numbers = &b->plan->scratches.at[s->numbers];
	w->at[0] = int_binary(b->k, INT_ADD, int_binary(b->k, INT_MUL, tile, int_const(b->k, numbers->shape[1])),
	                      int_const(b->k, row));
	find_places(w);
	KDim to[] = {{.kind = KDIM_AT, .start = tile},
	             {.kind = KDIM_RANGE, .start = int_const(b->k, row * s->group), .size = s->group}};
	b->place = w->held;
	KArg copy = copy_on(b, s, karg_ref(build_ref(b, access)), scratch_ref(b, s->groups, 2, to), 0, "row");
	build_statement(b, K_START, 1, &copy);
	const int64_t shape[] = {1, numbers->shape[2]};
	KArg held = build_int_arg(b, w->held[0]);
	to[1] = (KDim){.kind = KDIM_RANGE, .start = int_const(b->k, row), .size = 1};
	build_statement(b, K_STORE, 2,
	                (const KArg[]){scratch_ref(b, s->numbers, 2, to),
	                               build_shaped(b, K_FULL, DTYPE_I32, 2, shape, 1, &held)});
}

/* All of a scratch of registers, one below the other. */
static KArg load_below(Builder *b, uint32_t scratch) {
	const Scratch *s = &b->plan->scratches.at[scratch];
	const int64_t shape[] = {s->shape[0] * s->shape[1], s->shape[2]};
	KArg all = scratch_ref(b, scratch, 0, NULL);
	KArg x = build_shaped(b, K_LOAD, s->dtype, s->rank, s->shape, 1, &all);
	return build_shaped(b, K_RESHAPE, s->dtype, 2, shape, 1, &x);
}

/* Rows of words, of which all were copied, each from its place in its word: a shift that differs from row to row.
 *
 *     x = words groups >> numbers % 2 * 16        of two rows in a word */
static KArg packed_rows(Builder *b, const Places *s) {
	const Scratch *groups = &b->plan->scratches.at[s->groups];
	Dtype dtype = groups->dtype;
	int64_t bits = dtype_bits(dtype);
	Dtype ints = bits == 16 ? DTYPE_I16 : DTYPE_I8;
	KArg x = build_unary(b, K_WORDS, DTYPE_I32, load_below(b, s->groups));
	KArg at = load_below(b, s->numbers);
	at = build_binary(b, OP_BITWISE_AND, DTYPE_I32, at, karg_integer(s->group - 1));
	at = build_binary(b, OP_MUL, DTYPE_I32, at, karg_integer(bits));
	const int64_t times[] = {1, groups->shape[2] / b->plan->scratches.at[s->numbers].shape[2]};
	at = build_op(b, K_TILE, DTYPE_I32, 1, &at, 2, times);
	x = build_unary(b, K_CONVERT, ints, build_binary(b, OP_RSHIFT, DTYPE_I32, x, at));
	return dtype == ints ? x : build_unary(b, K_BITCAST, dtype, x);
}

/* A register's positions stand in one iteration, where their places in it are known. */
static void start_packed(Builder *b, NodeId n) {
	const Places *s = places_of(b, n);
	bring(b, s);
	Walk w = {.b = b, .s = s, .outer = b->at, .k = arena_alloc(b->a, sizeof *w.k)};
	const Scratch *numbers = &b->plan->scratches.at[s->numbers];
	w.loop = begin_loop(b, w.k, numbers->shape[0], "positions", (KArg){0});
	IntId tile = int_value(b->k, w.k->dim[0].step);
	for (int64_t row = 0; row < numbers->shape[1]; row++)
		copy_packed_row(&w, b->plan->values[n].access, tile, row);
	walk_end(&w, (KArg){0});
}

static KArg gathered_packed(Builder *b, NodeId n) {
	const Places *s = places_of(b, n);
	b->k->unchecked = true; /* as copy_rows() does */
	start_copies(b, n, start_packed);
	KArg all = scratch_ref(b, s->groups, 0, NULL);
	KArg copy = copy_on(b, s, all, all, 0, "rows");
	build_statement(b, K_WAIT, 1, &copy);
	return packed_rows(b, s);
}

/* What lies in scratch, its dims as the value has them. */
static KArg gathered(Builder *b, NodeId n, uint32_t scratch, Dtype wide) {
	const Places *s = places_of(b, n);
	const Scratch *rows = &b->plan->scratches.at[scratch];
	int64_t axes[DIM_MAX];
	KArg all = scratch_ref(b, scratch, 0, NULL);
	KArg x = build_shaped(b, K_LOAD, rows->dtype, rows->rank, rows->shape, 1, &all);
	x = build_converted(b, x, rows->dtype, wide);
	return order(s, rows->rank, false, axes) ? transposed(b, x, rows->rank, axes) : x;
}

static KArg gathered_rows(Builder *b, NodeId n, Dtype wide) {
	const Access *access = b->plan->values[n].access;
	Walk w = walk(b, n, (KArg){0});
	int64_t shape[DIM_MAX] = {0};
	uint32_t rank;
	KArg to = slot(&w, w.s->rows, &rank, shape);
	b->place = w.held;
	KArg x = build_region(b, access);
	x = build_converted(b, x, karg_dtype(b, x), wide);
	if (access->column)
		x = build_unary(b, K_TO_ROW, wide, x);
	if (!has_shape(b, x, rank, shape))
		x = build_shaped(b, K_RESHAPE, wide, rank, shape, 1, &x);
	build_statement(b, K_STORE, 2, (const KArg[]){to, x});
	walk_end(&w, (KArg){0});
	return gathered(b, n, w.s->rows, wide);
}

/* Element by element, each put where its position is. */
static KArg gathered_elements(Builder *b, NodeId n, Dtype wide) {
	int64_t shape[DIM_MAX];
	uint32_t rank = built_shape(b, n, FORM_NATURAL, shape), first = rank - type_rank(b, n);
	Walk w = walk(b, n, build_shaped(b, K_ZEROS, wide, rank, shape, 0, NULL));
	b->place = w.held;
	KArg x = build_element(b, b->plan->values[n].access, wide), here = {0};
	for (uint32_t i = 0; i < w.s->rank; i++) {
		int64_t axis = first + i;
		KArg index = build_shaped(b, K_IOTA, DTYPE_I32, rank, shape, 0, NULL);
		KStmt *stmt = kernel_stmt(b->k, b->k->values.at[index.value].def);
		stmt->int_count = 1;
		stmt->ints = memcpy(arena_array(b->a, 1, sizeof axis), &axis, sizeof axis);
		KArg same = build_binary(b, OP_EQ, DTYPE_BOOL, index, build_int_arg(b, w.at[i]));
		here = here.kind == KARG_NONE ? same : build_binary(b, OP_LOGICAL_AND, DTYPE_BOOL, here, same);
	}
	const KArg args[3] = {here, x, karg_value(w.k->carried.at[0])};
	KArg next = build_op(b, OP_WHERE, wide, 3, args, 0, NULL);
	walk_end(&w, next);
	return karg_value(kernel_result_like(b->k, w.loop, w.k->carried.at[0], node_get(b->m, n)->name));
}

KArg build_gather(Builder *b, NodeId n) {
	Dtype to = node_type(b->m, n)->dtype;
	Dtype wide = dtype_turned(b->plan->operands.at[b->plan->values[n].access->operand].dtype);
	const Places *s = places_of(b, n);
	if (s->numbers != NONE) {
		KArg rows = gathered_packed(b, n);
		return build_converted(b, rows, karg_dtype(b, rows), to);
	}
	if (s->copied)
		copy_rows(b, n, wide);
	KArg x = s->copied         ? gathered(b, n, s->rows, wide)
	         : s->rows == NONE ? gathered_elements(b, n, wide)
	                           : gathered_rows(b, n, wide);
	return build_converted(b, x, wide, to);
}

/* ---- scatters --------------------------------------------------------------------------------------------------- */

/* Some positions of a scratch whose elements are spread over lanes; `first`: the first lane alone. */
static KArg some_of(Builder *b, const Places *s, uint32_t scratch, IntId from, bool first, int64_t *shape) {
	const Scratch *rows = &b->plan->scratches.at[scratch];
	KDim dims[DIM_MAX];
	for (uint32_t i = 0; i < rows->rank; i++) {
		dims[i] = (KDim){.kind = KDIM_ALL};
		shape[i] = rows->shape[i];
	}
	if (from != NONE) {
		dims[s->chunked] = (KDim){.kind = KDIM_RANGE, .start = from, .size = s->chunk};
		if (s->chunked + 1 == s->rank)
			dims[s->chunked].multiple = s->chunk;
		shape[s->chunked] = s->chunk;
	}
	if (first) {
		dims[rows->rank - 1] = (KDim){.kind = KDIM_RANGE, .start = int_const(b->k, 0), .size = 1};
		shape[rows->rank - 1] = 1;
	}
	return scratch_ref(b, scratch, rows->rank, dims);
}

static KArg load_some(Builder *b, const Places *s, uint32_t scratch, IntId from, bool first) {
	int64_t shape[DIM_MAX];
	KArg ref = some_of(b, s, scratch, from, first, shape);
	const Scratch *rows = &b->plan->scratches.at[scratch];
	return build_shaped(b, K_LOAD, rows->dtype, rows->rank, shape, 1, &ref);
}

/* The one lane of each row that is not zero, whatever its bits. */
static KArg only_lane(Builder *b, KArg x) {
	Dtype dtype = karg_dtype(b, x);
	const int64_t ints[] = {true, b->k->values.at[x.value].rank - 1};
	x = dtype == DTYPE_I32 ? x : build_unary(b, K_BITCAST, DTYPE_I32, x);
	x = build_op(b, K_SUM, DTYPE_I32, 1, &x, 2, ints);
	return dtype == DTYPE_I32 ? x : build_unary(b, K_BITCAST, dtype, x);
}

/* In each row of a scratch the first lane goes to all others (`spread`), or gets the one that is not zero. */
static void over_lanes(Builder *b, const Places *s, uint32_t scratch, bool spread) {
	const Scratch *rows = &b->plan->scratches.at[scratch];
	int64_t shape[DIM_MAX], steps = rows->shape[s->chunked] / s->chunk;
	RegionId outer = b->at;
	IntId from = NONE;
	if (steps > 1) {
		KLoop *loop = arena_alloc(b->a, sizeof *loop);
		begin_loop(b, loop, steps, "chunk", (KArg){0});
		from = int_binary(b->k, INT_MUL, int_value(b->k, loop->dim[0].step), int_const(b->k, s->chunk));
	}
	KArg x = load_some(b, s, scratch, from, spread), to = some_of(b, s, scratch, from, !spread, shape);
	x = spread ? build_shaped(b, K_BROADCAST, rows->dtype, rows->rank, shape, 1, &x) : only_lane(b, x);
	build_statement(b, K_STORE, 2, (const KArg[]){to, x});
	if (steps > 1)
		build_statement(b, K_YIELD, 0, NULL);
	b->at = outer;
}

/* The first dim is one of 1. */
static KArg without_first(Builder *b, KArg x) {
	uint32_t rank = b->k->values.at[x.value].rank;
	int64_t items[3 * DIM_MAX] = {0};
	for (uint32_t i = 0; i < rank; i++)
		items[(size_t)3 * i] = i ? K_ITEM_ALL : K_ITEM_AT;
	return build_op(b, K_INDEX, karg_dtype(b, x), 1, &x, 3 * rank, items);
}

/* An operand of the write in all dims of what is written, the positions' first, in scratch. */
static void spread_out(Builder *b, const Places *s, const Arg *arg, uint32_t scratch) {
	const Scratch *rows = &b->plan->scratches.at[scratch];
	int64_t shape[DIM_MAX] = {0}, axes[DIM_MAX];
	bool moved = order(s, rows->rank, true, axes), tensor = arg->kind == ARG_REF && type_rank(b, arg->node) > 0;
	for (uint32_t i = 0; i < rows->rank; i++)
		shape[moved ? axes[i] : i] = rows->shape[i];
	bool elements = tensor && s->single, spreads = tensor && s->lanes;
	if (spreads)
		shape[rows->rank - 1] = 1;
	KArg x = build_arg(b, arg, elements ? FORM_COLUMN : FORM_NATURAL);
	if (tensor && !elements && node_type(b->m, arg->node)->count < rows->rank && type_rank(b, arg->node) > 1)
		x = build_op(b, K_EXPAND_DIMS, karg_dtype(b, x), 1, &x, 1, (const int64_t[]){0});
	while (tensor && b->k->values.at[x.value].rank > rows->rank)
		x = without_first(b, x);
	x = tensor ? build_converted(b, x, node_type(b->m, arg->node)->dtype, rows->dtype)
	           : build_as(b, x, rows->dtype);
	if (x.kind != KARG_VALUE || !has_shape(b, x, rows->rank, shape))
		x = build_shaped(b, K_BROADCAST, rows->dtype, rows->rank, shape, 1, &x);
	if (moved)
		x = transposed(b, x, rows->rank, axes);
	KArg to = spreads ? some_of(b, s, scratch, NONE, true, shape) : scratch_ref(b, scratch, 0, NULL);
	build_statement(b, K_STORE, 2, (const KArg[]){to, x});
	if (spreads)
		over_lanes(b, s, scratch, true);
}

/* What scratch has for the position. */
static KArg at_position(Walk *w, uint32_t scratch) {
	int64_t shape[DIM_MAX] = {0};
	uint32_t rank;
	KArg from = slot(w, scratch, &rank, shape);
	return build_shaped(w->b, K_LOAD, w->b->plan->scratches.at[scratch].dtype, rank, shape, 1, &from);
}

/* The positions are in the tensor, and lanes of tiles that are valid. */
static IntId written_there(Walk *w, NodeId n) {
	Builder *b = w->b;
	Kernel *k = b->k;
	IntId all = NONE;
	Planner p = build_planner(b);
	for (uint32_t i = 0; i < w->s->count; i++) {
		const PlaceDim *d = &w->s->of[i];
		const Type *t = node_type(b->m, d->index);
		IntId same = b->m->assume_in_bounds ? NONE : int_binary(k, INT_EQ, w->held[i], w->place[i]);
		all = same == NONE ? all : all == NONE ? same : int_binary(k, INT_AND, all, same);
		for (uint32_t j = 0; j < t->count; j++) {
			BlockId block = expr_as_block(b->m, t->dims[j]);
			Affine end;
			bool peeled;
			if (block == NONE || !block_ragged(&p, node_get(b->m, n)->graph, block, &end, &peeled))
				continue;
			Affine left = affine_sub(b->a, end, block_offset(&p, node_get(b->m, n)->graph, block));
			IntId valid = int_binary(k, INT_LT, w->at[d->first + j], build_affine(b, &left));
			all = all == NONE ? valid : int_binary(k, INT_AND, all, valid);
		}
	}
	return all;
}

/* All of a scratch is zero. */
static void clear(Builder *b, uint32_t scratch) {
	const Scratch *s = &b->plan->scratches.at[scratch];
	KArg zeros = build_shaped(b, K_ZEROS, s->dtype, s->rank, s->shape, 0, NULL);
	build_statement(b, K_STORE, 2, (const KArg[]){scratch_ref(b, scratch, 0, NULL), zeros});
}

/* What stood at the position goes to its place among the old values. */
static void keep_old(Walk *w, const Access *access, KArg old) {
	Builder *b = w->b;
	int64_t shape[DIM_MAX] = {0};
	uint32_t rank;
	KArg to = slot(w, w->s->old, &rank, shape);
	if (w->s->lanes) {
		KArg zeros = build_shaped(b, K_ZEROS, karg_dtype(b, old), rank, shape, 0, NULL);
		old = build_put(b, access, NONE, old, zeros, NONE);
	}
	if (access->column && !has_shape(b, old, rank, shape))
		old = build_unary(b, K_TO_ROW, karg_dtype(b, old), old);
	if (!has_shape(b, old, rank, shape))
		old = build_shaped(b, K_RESHAPE, karg_dtype(b, old), rank, shape, 1, &old);
	build_statement(b, K_STORE, 2, (const KArg[]){to, old});
}

/* x, of one position, in the dims of what stands there. */
static KArg along_old(Walk *w, NodeId n, KArg x) {
	bool column = w->b->plan->values[n].access->column && !w->s->lanes;
	return column ? build_unary(w->b, K_TO_COLUMN, karg_dtype(w->b, x), x) : x;
}

/* What is written at the position. */
static KArg value_at(Walk *w, NodeId n, KArg old) {
	Builder *b = w->b;
	KArg x = at_position(w, w->s->rows);
	if (!op_is_atomic(node_get(b->m, n)->op))
		x = build_converted(b, x, karg_dtype(b, x), node_type(b->m, node_input(b->m, n, 0))->dtype);
	x = along_old(w, n, x);
	if (w->s->expected == NONE)
		return x;
	KArg expected = along_old(w, n, at_position(w, w->s->expected));
	KArg same = build_binary(b, OP_EQ, DTYPE_BOOL, old, expected);
	return build_op(b, OP_WHERE, karg_dtype(b, x), 3, (const KArg[]){same, x, old}, 0, NULL);
}

/* The old values, as the node's. */
static void take_old(Builder *b, NodeId n) {
	const Places *s = places_of(b, n);
	if (s->lanes)
		over_lanes(b, s, s->old, false);
	KArg x = s->lanes ? load_some(b, s, s->old, NONE, true)
	                  : gathered(b, n, s->old, b->plan->scratches.at[s->old].dtype);
	x = build_converted(b, x, karg_dtype(b, x), node_type(b->m, n)->dtype);
	build_name_of(b, x, n);
	b->value[n] = x;
}

void build_scatter(Builder *b, NodeId n) {
	const Places *s = places_of(b, n);
	const Access *access = b->plan->values[n].access;
	uint16_t op = node_get(b->m, n)->op;
	NodeId mask = op_is_atomic(op) ? NONE : node_input(b->m, n, 3);
	spread_out(b, s, op_arg(b->m, n, "value"), s->rows);
	if (mask != NONE)
		spread_out(b, s, node_arg(b->m, n, 3), s->masks);
	if (s->expected != NONE)
		spread_out(b, s, op_arg(b->m, n, "expected"), s->expected);
	if (s->old != NONE)
		clear(b, s->old);
	Walk w = walk(b, n, (KArg){0});
	IntId there = written_there(&w, n);
	bool chooses = there != NONE && write_chooses(b, s);
	RegionId body = b->at;
	b->place = w.held;
	if (there != NONE && !chooses)
		build_when(b, karg_int(there), "write");
	KArg old = {0}, under = {0};
	if (s->old != NONE || s->expected != NONE || chooses || mask != NONE) {
		KArg found = build_old_at(b, n);
		old = build_unary(b, K_LET, karg_dtype(b, found), found);
		build_name(b, old, "found");
	}
	if (s->old != NONE)
		keep_old(&w, access, old);
	KArg x = value_at(&w, n, old);
	if (mask != NONE)
		under = build_binary(b, OP_NE, DTYPE_BOOL, along_old(&w, n, at_position(&w, s->masks)),
		                     karg_integer(0));
	bool within = chooses && under.kind == KARG_NONE && build_puts_within(access);
	if (chooses && !within)
		under = under.kind == KARG_NONE ? karg_int(there)
		                                : build_binary(b, OP_LOGICAL_AND, DTYPE_BOOL, under, karg_int(there));
	build_write_at(b, n, x, under, old, within ? there : NONE);
	b->at = body;
	walk_end(&w, (KArg){0});
	if (s->old != NONE)
		take_old(b, n);
}
