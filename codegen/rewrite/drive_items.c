/* drive_items.c - the first windows of the next item are copied while this one's last step computes.
 *
 * An item is one run of a loop that stands in a step of a loop around it: a tile of queries and its pages. Items follow
 * each other in the steps of the loop around, then in the next such loop of the grid's point, then at the next point,
 * and which one is next, how many steps it has and where its first windows lie are ints that tables tell:
 *
 *     def start_next(loop, step, steps) {     in the last step of item `step` of `steps` of that loop
 *       next_loop = choose(step + 1 < steps, loop, ...)
 *       when (next_loop == 1) {
 *         ends = ...                          what its steps and windows read is computed again, for where it is
 *         when (0 < ends) { start first_copy() }
 *       }
 *     }
 *
 * So what an item needs is computed a second time, of the next item's numbers, and must be made of loads of tables and
 * arithmetic of scalars alone. An item without steps, and what comes after a point without items, starts its own first
 * windows. In SMEM stands, for each such loop, how many steps it has run, for its buffers go round, and whether its
 * next item's first windows are on their way. */
#include "drive.h"
#include "rewrite.h"

/* ---- what is computed again -------------------------------------------------------------------------------------- */

typedef struct Again {
	Driver *d;
	VEC(ValueId) from; /* these values are, for the item, */
	VEC(IntId) to;     /* these */
	bool look;         /* only whether it can be done: nothing is made */
	bool fails;
} Again;

static void again_value(Again *a, ValueId v);

static void becomes(Again *a, ValueId v, IntId to) {
	vec_push(a->d->k->arena, &a->from, v);
	vec_push(a->d->k->arena, &a->to, to);
}

/* What v is for the item; NONE: nobody said. */
static IntId meant(const Again *a, ValueId v) {
	for (uint32_t i = 0; i < a->from.count; i++)
		if (a->from.at[i] == v)
			return a->to.at[i];
	return NONE;
}

/* All that an int reads is there. */
static void again_read(Again *a, IntId id) {
	const Kernel *k = a->d->k;
	if (id == NONE || a->fails)
		return;
	KInt i = k->ints.at[id];
	RefId element = i.kind == INT_VALUE ? value_element(k, i.value) : NONE;
	a->fails = i.kind == INT_TURN || i.kind == INT_DEVICE || int_kind_of_dim(i.kind);
	for (uint32_t x = 0; element != NONE && x < k->refs.at[element].rank; x++)
		again_read(a, k->refs.at[element].dim[x].start);
	if (i.kind == INT_VALUE && element == NONE)
		again_value(a, i.value);
	again_read(a, i.a);
	again_read(a, i.b);
	again_read(a, i.c);
}

static IntId again_int(Again *a, IntId id) {
	again_read(a, id);
	for (uint32_t i = 0; !a->look && !a->fails && i < a->from.count; i++)
		id = int_substitute(a->d->k, id, a->from.at[i], a->to.at[i]);
	return id;
}

static KArg again_arg(Again *a, KArg x) {
	Kernel *k = a->d->k;
	if (x.kind == KARG_VALUE) {
		again_value(a, x.value);
		IntId to = a->look || a->fails ? NONE : meant(a, x.value);
		return to == NONE                         ? x
		       : k->ints.at[to].kind == INT_VALUE ? karg_value(k->ints.at[to].value)
		                                          : karg_int(to);
	}
	if (x.kind == KARG_INT)
		x.index = again_int(a, x.index);
	if (x.kind != KARG_REF)
		return x;
	KRef ref = k->refs.at[x.ref];
	KDim dim[KDIM_MAX];
	for (uint32_t i = 0; i < ref.rank; i++) {
		dim[i] = ref.dim[i];
		a->fails = a->fails || dim[i].kind != KDIM_AT;
		dim[i].start = a->fails ? NONE : again_int(a, dim[i].start);
	}
	return a->look || a->fails ? x : karg_ref(kernel_ref(k, ref.buffer, ref.rank, dim));
}

/* A scalar that is made of others, or of an element of a table. */
static bool told(const Kernel *k, ValueId v) {
	StmtId def = k->values.at[v].def;
	KType type = k->values.at[v].type;
	if (def == NONE || (type != KTYPE_SCALAR && type != KTYPE_INT) || kernel_stmt(k, def)->result_count != 1)
		return false;
	uint16_t op = kernel_stmt(k, def)->op;
	if (op == K_LOAD)
		return buffer_is_table(k, k->refs.at[kernel_arg(k, def, 0)->ref].buffer);
	return op == K_INT || kernel_op_kind(op) == KIND_PURE;
}

static void again_value(Again *a, ValueId v) {
	Kernel *k = a->d->k;
	if (a->fails || meant(a, v) != NONE)
		return;
	a->fails = !told(k, v);
	if (a->fails)
		return;
	KStmt def = *kernel_stmt(k, k->values.at[v].def);
	KArg *args = arena_array(k->arena, def.arg_count + 1, sizeof *args);
	for (uint32_t i = 0; i < def.arg_count; i++)
		args[i] = again_arg(a, k->args.at[def.arg_first + i]);
	if (a->look) {
		becomes(a, v, int_value(k, v));
		return;
	}
	StmtId s = drive_put(a->d, def.op, def.arg_count, args);
	kernel_stmt(k, s)->ints = def.ints;
	kernel_stmt(k, s)->int_count = def.int_count;
	const char *name = value_name(k, v);
	name = name ? arena_printf(k->arena, "next_%s", name) : NULL;
	becomes(a, v, int_value(k, kernel_result_like(k, s, v, name)));
}

/* What the places of a loop's first windows are made of; the number of a piece is the copy's own. */
static void again_windows(Again *a, const KLoop *loop) {
	Kernel *k = a->d->k;
	becomes(a, loop->dim[0].step, int_const(k, 0));
	for (uint32_t w = 0; w < loop->windows.count; w++) {
		const KWindow *win = &loop->windows.at[w];
		if (win->pieces != NONE)
			becomes(a, win->piece, int_value(k, win->piece));
		for (uint32_t i = 0; win->dma && i < k->buffers.at[win->of].rank; i++)
			if (i == win->pieces || k->buffers.at[win->buffer].shape[i] != k->buffers.at[win->of].shape[i])
				again_read(a, win->start[i]);
	}
}

/* At this point of the grid. */
static void again_at(Again *a, const ValueId *program, const IntId *point) {
	for (uint32_t g = 0; g < a->d->k->grid.count; g++)
		becomes(a, program[g], point[g]);
}

/* ---- which loops ------------------------------------------------------------------------------------------------- */

/* The loop, of the kernel's function, each of whose steps calls the function in which the statement stands, once; the
 * call. NONE: there is none. */
static StmtId loop_around(const Kernel *k, const StmtId *loops, uint32_t count, StmtId s, StmtId *call) {
	for (uint32_t i = 0; i < count; i++) {
		const KLoop *loop = kernel_stmt(k, loops[i])->loop;
		StmtId ahead;
		if (kernel_stmt(k, loops[i])->region == k->body && loop->type == LOOP_FORI && loop->rank == 1 &&
		    loop->runs == NONE && loop->before == NONE && loop->behind == NONE && loop->tail == NONE &&
		    loop_calls(k, loops[i], &ahead, call) && ahead == NONE &&
		    k->functions.at[kernel_stmt(k, *call)->function].body == kernel_stmt(k, s)->region)
			return loops[i];
	}
	return NONE;
}

/* What the function calls the number of the step that the call gives it; NONE. */
static ValueId step_in(const Kernel *k, StmtId call, ValueId step) {
	const KFunction *f = &k->functions.at[kernel_stmt(k, call)->function];
	for (uint32_t i = 0; i < f->parameters.count && i < kernel_stmt(k, call)->arg_count; i++) {
		const KArg *x = kernel_arg(k, call, i);
		if (x->kind == KARG_INT && k->ints.at[x->index].kind == INT_VALUE && k->ints.at[x->index].value == step)
			return f->parameters.at[i].id;
	}
	return NONE;
}

/* The function takes that number, as its first argument. */
static void give_step(Kernel *k, StmtId call, ValueId step, ValueId as) {
	KFunction *f = &k->functions.at[kernel_stmt(k, call)->function];
	uint32_t count = kernel_stmt(k, call)->arg_count;
	KArg *args = arena_array(k->arena, count + 1, sizeof *args);
	args[0] = karg_int(int_value(k, step));
	for (uint32_t i = 0; i < count; i++)
		args[i + 1] = *kernel_arg(k, call, i);
	kernel_set_args(k, call, count + 1, args);
	KParameter first = {PARAMETER_VALUE, as};
	vec_push(k->arena, &f->parameters, first);
	for (uint32_t i = f->parameters.count - 1; i > 0; i--)
		f->parameters.at[i] = f->parameters.at[i - 1];
	f->parameters.at[0] = first;
}

static IntId *own_point(Driver *d, const ValueId *program) {
	IntId *point = arena_array(d->k->arena, d->k->grid.count + 1, sizeof *point);
	for (uint32_t g = 0; g < d->k->grid.count; g++)
		point[g] = int_value(d->k, program[g]);
	return point;
}

/* All that the next item needs can be computed before it. */
static bool known_before(Driver *d, const Item *item) {
	Kernel *k = d->k;
	Again a = {.d = d, .look = true};
	ValueId *program = drive_program(d);
	again_at(&a, program, own_point(d, program));
	again_read(&a, item->steps);
	becomes(&a, k->ints.at[item->step].value, item->step);
	again_read(&a, item->loop->dim[0].steps);
	again_windows(&a, item->loop);
	return !a.fails;
}

static void find_items(Driver *d, const StmtId *loops, uint32_t count, Items *items) {
	Kernel *k = d->k;
	for (uint32_t i = 0; i < count; i++) {
		KLoop *loop = kernel_stmt(k, loops[i])->loop;
		if (!loop->across || kernel_stmt(k, loops[i])->region == k->body)
			continue;
		StmtId call, around = loop_around(k, loops, count, loops[i], &call);
		loop->across = false;
		if (around == NONE)
			continue;
		const KLoopDim *dim = &kernel_stmt(k, around)->loop->dim[0];
		ValueId step = step_in(k, call, dim->step), given = step;
		if (given == NONE)
			step = kernel_value_like(k, dim->step);
		Item item = {.loop = loop,
		             .number = items->at.count,
		             .step = int_value(k, step),
		             .steps = dim->steps,
		             .counts = NONE};
		loop->across = known_before(d, &item);
		if (loop->across && given == NONE)
			give_step(k, call, dim->step, step);
		if (loop->across)
			vec_push(k->arena, &items->at, item);
	}
}

/* ---- the next item ----------------------------------------------------------------------------------------------- */

static IntId number(const Driver *d, int64_t i) { return int_const(d->k, i); }
static IntId below(const Driver *d, IntId a, IntId b) { return int_binary(d->k, INT_LT, a, b); }
/* How many items each loop has at a point. */
static IntId *count_items(Driver *d, const Items *items, const ValueId *program, const IntId *point) {
	Again a = {.d = d};
	IntId *counts = arena_array(d->k->arena, items->at.count, sizeof *counts);
	again_at(&a, program, point);
	for (uint32_t i = 0; i < items->at.count; i++)
		counts[i] = drive_named(d, again_int(&a, items->at.at[i].steps), "count");
	return counts;
}

/* The number of the first loop that has items, of those behind loop `after` if that is not NONE; -1: none has. */
static IntId first_with_items(const Driver *d, const Items *items, const IntId *counts, IntId after) {
	IntId found = number(d, -1);
	for (uint32_t i = items->at.count; i-- > 0;) {
		IntId some = below(d, number(d, 0), counts[i]);
		if (after != NONE)
			some = int_binary(d->k, INT_AND, below(d, after, number(d, i)), some);
		found = int_choose(d->k, some, number(d, i), found);
	}
	return found;
}

/* If the item, a step of the loop around, has steps of its own. */
static void start_item(Driver *d, const Item *item, const ValueId *program, const IntId *point, IntId step) {
	Kernel *k = d->k;
	Driver there = {.k = k, .loop = item->loop, .at = d->at};
	Again a = {.d = &there};
	drive_set_own_steps(&there);
	again_at(&a, program, point);
	becomes(&a, k->ints.at[item->step].value, step);
	IntId steps = again_int(&a, item->loop->dim[0].steps);
	drive_when(&there, below(d, number(d, 0), steps), "first_windows");
	drive_store_count(&there, item->counts, int_const(k, 1), number(d, 1));
	IntId count = drive_load_count(&there, item->counts, int_const(k, 0), "steps_before");
	again_windows(&a, item->loop);
	uint32_t moved = a.from.count;
	becomes(&a, NONE, NONE); /* room for one more */
	drive_first_windows(&there, (Elsewhere){a.from.at, a.to.at, moved, count});
}

/* Which item is next: `loop`'s, at `step`, if that is one of its steps here; else the first of a loop behind it, or of
 * the next point. */
typedef struct NextItem {
	IntId loop, step, *point;
} NextItem;

static NextItem find_next(Driver *d, const Items *items, const NextPoint *at, IntId loop, IntId step, IntId steps) {
	Kernel *k = d->k;
	IntId *own = own_point(d, at->program);
	IntId more = below(d, step, steps);
	IntId here = first_with_items(d, items, count_items(d, items, at->program, own), loop);
	here = drive_named(d, int_choose(k, more, loop, here), "next_here");
	IntId there = first_with_items(d, items, count_items(d, items, at->program, at->point), NONE);
	there = int_choose(k, at->another, there, number(d, -1));
	IntId stays = int_binary(k, INT_LE, number(d, 0), here);
	NextItem next = {.point = own};
	next.loop = drive_named(d, int_choose(k, stays, here, there), "next_loop");
	next.step = drive_named(d, int_choose(k, more, step, number(d, 0)), "next_step");
	for (uint32_t g = 0; g < k->grid.count; g++)
		next.point[g] = k->grid.at[g].steps == 1
		                        ? number(d, 0)
		                        : drive_named(d, int_choose(k, stays, own[g], at->point[g]), "point");
	return next;
}

/* Of the loop that is given, the step of the loop around it, and how many of these there are. */
static void define_start_next(Driver *d, Items *items, const NextPoint *at) {
	Kernel *k = d->k;
	FunctionId f = items->start_next = kernel_function(k, FUNCTION_PLAIN, "start_next");
	Cursor outer = drive_define(d, f);
	IntId loop = drive_parameter(k, f, "which"), item = drive_parameter(k, f, "item"),
	      count = drive_parameter(k, f, "items");
	NextItem next = find_next(d, items, at, loop, int_binary(k, INT_ADD, item, number(d, 1)), count);
	for (uint32_t i = 0; i < items->at.count; i++) {
		Cursor before = drive_when(d, int_binary(k, INT_EQ, next.loop, number(d, i)), "next_item");
		start_item(d, &items->at.at[i], at->program, next.point, next.step);
		d->at = before;
	}
	d->at = outer;
}

void items_start_next(Driver *d) {
	const KArg args[3] = {karg_int(number(d, d->item->number)), karg_int(d->item->step), karg_int(d->item->steps)};
	kernel_stmt(d->k, drive_put(d, K_CALL, 3, args))->function = d->items->start_next;
}

const Items *drive_items(Kernel *k, const StmtId *loops, uint32_t count) {
	Items *items = arena_alloc(k->arena, sizeof *items);
	*items = (Items){0};
	Driver d = {.k = k, .at = {k->body, region_first(k, k->body)}};
	find_items(&d, loops, count, items);
	if (items->at.count == 0)
		return NULL;
	while (kernel_stmt(k, d.at.before)->op == K_PROGRAM_ID)
		d.at.before = kernel_stmt(k, d.at.before)->next;
	NextPoint next = drive_next_point(&d, true);
	Cursor outer = drive_when(&d, next.first, "first_point");
	for (uint32_t i = 0; i < items->at.count; i++) {
		items->at.at[i].counts = drive_counts(k, 2);
		drive_store_count(&d, items->at.at[i].counts, int_const(k, 0), number(&d, 0));
		drive_store_count(&d, items->at.at[i].counts, int_const(k, 1), number(&d, 0));
	}
	d.at = outer;
	define_start_next(&d, items, &next);
	return items;
}
