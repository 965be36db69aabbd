/* drive.c - what drivers share: the statements of a loop's regions, initial values and results. */
#include "drive.h"
#include "rewrite.h"

/* ---- statements ------------------------------------------------------------------------------------------------- */

StmtId drive_put(Driver *d, uint16_t op, uint32_t arg_count, const KArg *args) {
	if (d->at.before == NONE)
		return kernel_append(d->k, d->at.region, op, arg_count, args, 0, NULL);
	return kernel_insert_before(d->k, d->at.before, op, arg_count, args, 0, NULL);
}

static void move_here(Driver *d, StmtId s) {
	if (d->at.before == NONE)
		kernel_move(d->k, s, d->at.region);
	else
		kernel_move_before(d->k, s, d->at.before);
}

ValueId drive_int(Driver *d, IntId i, const char *name, ValueId as) {
	KArg arg = karg_int(i);
	ValueId v = kernel_result(d->k, drive_put(d, K_INT, 1, &arg), KTYPE_INT, DTYPE_I32, 0, NULL, name);
	d->k->values.at[v].as = as;
	return v;
}

IntId drive_named(Driver *d, IntId i, const char *name) { return int_value(d->k, drive_int(d, i, name, NONE)); }

IntId drive_parameter(Kernel *k, FunctionId f, const char *name) {
	KParameter p = {PARAMETER_VALUE, kernel_value(k, KTYPE_INT, DTYPE_I32, 0, NULL, name)};
	vec_push(k->arena, &k->functions.at[f].parameters, p);
	return int_value(k, p.id);
}

void drive_put_copy(Driver *d, uint16_t op, FunctionId copy, uint32_t count, const KArg *args) {
	StmtId call = drive_put(d, K_CALL, count, args);
	kernel_stmt(d->k, call)->function = copy;
	KArg made = karg_value(kernel_result(d->k, call, KTYPE_COPY, DTYPE_NONE, 0, NULL, NULL));
	drive_put(d, op, 1, &made);
}

KArg drive_whole(Driver *d, BufferId buffer) { return karg_ref(kernel_ref(d->k, buffer, 0, NULL)); }

static void store(Driver *d, BufferId buffer, KArg x) {
	drive_put(d, K_STORE, 2, (const KArg[]){drive_whole(d, buffer), x});
}

static ValueId load(Driver *d, BufferId buffer, ValueId like, const char *name) {
	KArg ref = drive_whole(d, buffer);
	return kernel_result_like(d->k, drive_put(d, K_LOAD, 1, &ref), like, name);
}

Cursor drive_when(Driver *d, IntId condition, const char *name) {
	int64_t known;
	if (int_is_const(d->k, condition, &known) && known)
		return d->at;
	KArg arg = karg_int(condition);
	StmtId s = drive_put(d, K_WHEN, 1, &arg);
	RegionId body = kernel_region(d->k, s);
	kernel_stmt(d->k, s)->body = body;
	kernel_stmt(d->k, s)->name = name;
	return drive_into(d, body);
}

Cursor drive_define(Driver *d, FunctionId f) {
	return drive_into(d, kernel_define(d->k, drive_put(d, K_DEF, 0, NULL), f));
}

/* ---- steps ------------------------------------------------------------------------------------------------------ */

void drive_set_own_steps(Driver *d) {
	for (uint32_t i = 0; i < d->loop->rank; i++)
		d->step[i] = int_value(d->k, d->loop->dim[i].step);
	d->named = NONE;
}

IntId drive_here(Driver *d, IntId i) {
	if (i != NONE && i == d->named)
		return d->by;
	for (uint32_t dim = 0; dim < d->loop->rank; dim++)
		i = int_substitute(d->k, i, d->loop->dim[dim].step, d->step[dim]);
	for (uint32_t v = 0; v < d->moved; v++)
		i = int_substitute(d->k, i, d->from[v], d->to[v]);
	return i;
}

ValueId *drive_program(Driver *d) {
	Kernel *k = d->k;
	ValueId *program = arena_array(k->arena, k->grid.count + 1, sizeof *program);
	for (uint32_t g = 0; g < k->grid.count; g++)
		program[g] = NONE;
	for (StmtId s = region_first(k, k->body); s != NONE; s = kernel_stmt(k, s)->next)
		if (kernel_stmt(k, s)->op == K_PROGRAM_ID)
			program[kernel_stmt(k, s)->ints[0]] = kernel_stmt(k, s)->result;
	for (uint32_t g = 0; g < k->grid.count; g++) {
		int64_t dim = g;
		if (program[g] != NONE)
			continue;
		StmtId s = kernel_insert_before(k, region_first(k, k->body), K_PROGRAM_ID, 0, NULL, 1, &dim);
		program[g] = kernel_result(k, s, KTYPE_INT, DTYPE_I32, 0, NULL, "point");
	}
	return program;
}

bool drive_no_full_steps(const Driver *d) {
	for (uint32_t i = 0; i < d->loop->rank; i++) {
		const KLoopDim *dim = &d->loop->dim[i];
		if (!dim->computed && dim->full_steps == 0 && (d->loop->peeled || dim->tail == 0))
			return true;
	}
	return false;
}

IntId drive_total_steps(Driver *d) {
	IntId total = d->loop->dim[0].steps;
	for (uint32_t i = 1; i < d->loop->rank; i++)
		total = int_unfolded(d->k, INT_MUL, total, d->loop->dim[i].steps);
	return total;
}

/* ---- windows ---------------------------------------------------------------------------------------------------- */

IntId drive_loaded(Driver *d, IntId id) {
	Kernel *k = d->k;
	if (id == NONE)
		return NONE;
	KInt i = k->ints.at[id];
	RefId element = i.kind == INT_VALUE ? value_element(k, i.value) : NONE;
	if (element != NONE) {
		KRef ref = k->refs.at[element];
		KDim dim[KDIM_MAX];
		for (uint32_t x = 0; x < ref.rank; x++)
			dim[x] = (KDim){.kind = KDIM_AT, .start = drive_loaded(d, ref.dim[x].start)};
		KArg arg = karg_ref(kernel_ref(k, ref.buffer, ref.rank, dim));
		return int_value(k, kernel_result(k, drive_put(d, K_LOAD, 1, &arg), KTYPE_SCALAR,
		                                  k->buffers.at[ref.buffer].dtype, 0, NULL, "place"));
	}
	if (i.a == NONE)
		return id;
	i.a = drive_loaded(d, i.a);
	i.b = drive_loaded(d, i.b);
	i.c = drive_loaded(d, i.c);
	return int_intern(k, i);
}

/* The subscript that cuts a window out of its operand: a range in each dim that is not whole. */
KArg drive_window(Driver *d, const KWindow *win, IntId at) {
	Kernel *k = d->k;
	const KBuffer *of = &k->buffers.at[win->of];
	const int64_t *block = k->buffers.at[win->buffer].shape, *extent = of->shape;
	KDim dims[KDIM_MAX];
	uint32_t rank = of->rank;
	bool whole = true;
	for (uint32_t i = 0; i < rank; i++) {
		bool piece = i == win->pieces, all = !piece && block[i] == extent[i];
		IntId start = at == NONE ? drive_here(d, win->start[i])
		                         : int_substitute(k, win->start[i], d->loop->dim[0].step, at);
		whole = whole && all;
		start = all ? start : drive_loaded(d, start);
		dims[i] = all ? (KDim){.kind = KDIM_ALL}
		              : (KDim){.kind = KDIM_RANGE,
		                       .start = start,
		                       .size = piece ? 1 : block[i],
		                       .multiple = win->multiple[i]};
	}
	return karg_ref(kernel_ref(k, win->of, whole ? 0 : rank, dims));
}

bool drive_window_reads(const Driver *d, const KWindow *win, uint32_t dim) {
	const KBuffer *of = &d->k->buffers.at[win->of];
	bool reads = false;
	for (uint32_t i = 0; i < of->rank; i++)
		reads = reads || (d->k->buffers.at[win->buffer].shape[i] != of->shape[i] &&
		                  int_reads(d->k, win->start[i], d->loop->dim[dim].step));
	return reads;
}

uint32_t drive_window_of(const Driver *d, const KArg *x) {
	for (uint32_t w = 0; x->kind == KARG_REF && w < d->loop->windows.count; w++)
		if (d->k->refs.at[x->ref].buffer == d->loop->windows.at[w].buffer)
			return w;
	return NONE;
}

bool drive_call_reads(const Driver *d, StmtId call, uint32_t w, IntId *at) {
	for (uint32_t i = 0; i < kernel_stmt(d->k, call)->arg_count; i++)
		if (drive_window_of(d, kernel_arg(d->k, call, i)) == w) {
			*at = d->k->refs.at[kernel_arg(d->k, call, i)->ref].at;
			return true;
		}
	return false;
}

static bool arg_reads_step(const Driver *d, const KArg *x, uint32_t dim) {
	ValueId step = d->loop->dim[dim].step;
	uint32_t w = drive_window_of(d, x);
	if (x->kind == KARG_INT)
		return x->index != d->named && int_reads(d->k, x->index, step);
	if (w == NONE)
		return false;
	const KWindow *win = &d->loop->windows.at[w];
	IntId at = d->k->refs.at[x->ref].at;
	bool resident = d->loop->type == LOOP_UNROLL || !win->dma;
	return resident && drive_window_reads(d, win, dim) &&
	       (at == NONE || (at != d->named && int_reads(d->k, at, step)));
}

bool drive_step_read(const Driver *d, RegionId r, uint32_t dim) {
	bool read = false;
	for (StmtId s = region_first(d->k, r); s != NONE && !read; s = kernel_stmt(d->k, s)->next)
		for (uint32_t i = 0; i < kernel_stmt(d->k, s)->arg_count; i++)
			read = read || arg_reads_step(d, kernel_arg(d->k, s, i), dim);
	return read;
}

/* ---- regions ---------------------------------------------------------------------------------------------------- */

static uint32_t carried_by(const Driver *d, ValueId v) {
	for (uint32_t i = 0; i < d->loop->carried.count; i++)
		if (d->loop->carried.at[i] == v)
			return i;
	return NONE;
}

static KArg arg_here(Driver *d, const Flow *flow, KArg x) {
	uint32_t i = x.kind == KARG_VALUE ? carried_by(d, x.value) : NONE, w = drive_window_of(d, &x);
	if (i != NONE)
		return karg_value(flow->from[i] != NONE ? load(d, flow->from[i], x.value, NULL) : flow->value[i]);
	if (w != NONE)
		return d->placing->window(d, w, drive_here(d, d->k->refs.at[x.ref].at));
	if (x.kind == KARG_INT)
		x.index = drive_here(d, x.index);
	return x;
}

/* A statement, and those in it, as it is where statements go. A step that is not masked has no flag. */
static void settle_here(Driver *d, const Flow *flow, StmtId s) {
	Kernel *k = d->k;
	for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++) {
		KArg x = *kernel_arg(k, s, i);
		if (kernel_stmt(k, s)->op == K_CALL && x.kind == KARG_VALUE && x.value == d->loop->ragged) {
			kernel_stmt(k, s)->arg_count = i;
			break;
		}
		x = arg_here(d, flow, x);
		*kernel_arg(k, s, i) = x;
	}
	for (uint32_t i = 0; i < kernel_stmt(k, s)->result_count; i++) {
		KValue *v = &k->values.at[kernel_stmt(k, s)->result + i];
		uint32_t c = v->as == NONE ? NONE : carried_by(d, v->as);
		if (c != NONE && flow->value[c] != NONE) {
			v->as = flow->value[c];
			v->var = NULL;
		}
	}
	RegionId body = kernel_stmt(k, s)->body;
	for (StmtId in = body == NONE ? NONE : region_first(k, body); in != NONE; in = kernel_stmt(k, in)->next)
		settle_here(d, flow, in);
}

/* How often statements from `s` on read it. */
static uint32_t reads_from(const Kernel *k, StmtId s, ValueId v) {
	uint32_t reads = 0;
	for (; s != NONE; s = kernel_stmt(k, s)->next)
		for (uint32_t i = 0; i < kernel_stmt(k, s)->arg_count; i++)
			reads += kernel_arg(k, s, i)->kind == KARG_VALUE && kernel_arg(k, s, i)->value == v;
	return reads;
}

/* What is yielded to scratch is stored where it is computed, if nothing reads what is there any more: a `let` of it is
 * the store. */
static void store_yielded(Driver *d, const Flow *flow, StmtId s, StmtId next, KArg *yields, uint32_t count) {
	Kernel *k = d->k;
	for (uint32_t i = 0; i < count; i++) {
		KArg x = yields[i];
		BufferId to = flow->to[flow->first + i];
		if (to == NONE || x.kind != KARG_VALUE || k->values.at[x.value].def != s ||
		    reads_from(k, next, d->loop->carried.at[flow->first + i]))
			continue;
		bool alone = reads_from(k, next, x.value) == 1, let = kernel_stmt(k, s)->op == K_LET && alone;
		store(d, to, let ? *kernel_arg(k, s, 0) : x);
		if (let)
			kernel_remove(k, s);
		else if (alone)
			k->values.at[x.value].name = k->values.at[x.value].var = NULL;
		yields[i] = (KArg){.kind = KARG_NONE};
	}
}

ValueId drive_let(Driver *d, KArg x, ValueId like) {
	return kernel_result_like(d->k, drive_put(d, K_LET, 1, &x), like, d->k->values.at[like].name);
}

/* What is yielded, as a value: a number has none yet. */
static ValueId value_here(Driver *d, KArg x, uint32_t i) {
	ValueId carried = d->loop->carried.at[i];
	return x.kind == KARG_VALUE ? x.value : drive_let(d, x, carried);
}

StmtId drive_next_call(const Kernel *k, StmtId s) {
	while (s != NONE && kernel_stmt(k, s)->op != K_CALL)
		s = kernel_stmt(k, s)->next;
	return s;
}

/* What goes before a call goes before what Python loads inside of it, too. */
static void put_before(Driver *d, StmtId s) {
	const KStmt *stmt = kernel_stmt(d->k, s);
	bool inside = stmt->op == K_CALL || (stmt->op == K_LOAD && !d->k->values.at[stmt->result].name);
	StmtId call = inside ? drive_next_call(d->k, s) : NONE;
	if (call != NONE && call != d->told && d->placing->before)
		d->placing->before(d, call);
	d->told = call == NONE ? d->told : call;
}

static void put_stmt(Driver *d, const Flow *flow, StmtId s, KArg *yields, uint32_t count) {
	Kernel *k = d->k;
	StmtId next = kernel_stmt(k, s)->next;
	put_before(d, s);
	bool call = kernel_stmt(k, s)->op == K_CALL;
	uint32_t c = NONE;
	if (kernel_stmt(k, s)->op == K_LET && kernel_arg(k, s, 0)->kind == KARG_VALUE)
		c = carried_by(d, kernel_arg(k, s, 0)->value);
	if (c != NONE && flow->from[c] != NONE) { /* a variable for what is in scratch */
		KArg whole = drive_whole(d, flow->from[c]);
		*kernel_arg(k, s, 0) = whole;
		kernel_stmt(k, s)->op = K_LOAD;
	}
	settle_here(d, flow, s);
	move_here(d, s);
	store_yielded(d, flow, s, next, yields, count);
	if (call && d->placing->behind)
		d->placing->behind(d, s);
}

void drive_region(Driver *d, RegionId r, const Placing *placing, Flow *flow) {
	Kernel *k = d->k;
	StmtId yield = region_last(k, r);
	uint32_t count = kernel_stmt(k, yield)->arg_count;
	KArg *yields = arena_array(k->arena, count + 1, sizeof *yields);
	for (uint32_t i = 0; i < count; i++)
		yields[i] = *kernel_arg(k, yield, i);
	d->placing = placing;
	d->told = NONE;
	while (region_first(k, r) != yield)
		put_stmt(d, flow, region_first(k, r), yields, count);
	kernel_remove(k, yield);
	ValueId *values = arena_array(k->arena, d->loop->carried.count + 1, sizeof *values);
	for (uint32_t i = 0; i < count; i++) {
		BufferId from = flow->from[flow->first + i], to = flow->to[flow->first + i];
		uint32_t c = yields[i].kind == KARG_VALUE ? carried_by(d, yields[i].value) : NONE;
		bool there = yields[i].kind == KARG_NONE || (to != NONE && c == flow->first + i && from == to);
		KArg x = there ? yields[i] : arg_here(d, flow, yields[i]);
		if (to != NONE && !there)
			store(d, to, x);
		values[i] = to != NONE ? NONE : value_here(d, x, flow->first + i);
	}
	for (uint32_t i = 0; i < count; i++)
		flow->value[flow->first + i] = values[i];
}

uint32_t drive_first_given(const Driver *d) {
	uint32_t first = d->loop->carried.count;
	while (first > 0 && kernel_arg(d->k, d->stmt, first - 1)->kind == KARG_NONE)
		first--;
	return first;
}

const BufferId *drive_values(const Driver *d) {
	uint32_t count = d->loop->carried.count;
	BufferId *none = arena_array(d->k->arena, count + 1, sizeof *none);
	for (uint32_t i = 0; i < count; i++)
		none[i] = NONE;
	return none;
}

/* ---- the ragged step -------------------------------------------------------------------------------------------- */

static KArg tail_window(Driver *d, uint32_t w, IntId at) {
	const KWindow *win = &d->loop->windows.at[w];
	return win->tail != NONE ? drive_whole(d, win->tail) : drive_window(d, win, at);
}

void drive_tail(Driver *d, ValueId *values) {
	static const Placing placing = {tail_window, NULL, NULL};
	const BufferId *none = drive_values(d);
	if (d->loop->tail != NONE)
		drive_region(d, d->loop->tail, &placing, &(Flow){values, none, none, 0});
}

/* ---- initial values and results --------------------------------------------------------------------------------- */

void drive_move_initial(Driver *d, KArg x) {
	Kernel *k = d->k;
	StmtId def = kernel_def_of(k, x);
	if (def == NONE || !(kernel_stmt(k, def)->flags & KSTMT_INITIAL))
		return;
	kernel_stmt(k, def)->flags &= (uint16_t)~KSTMT_INITIAL;
	for (uint32_t i = 0; i < kernel_stmt(k, def)->arg_count; i++)
		drive_move_initial(d, *kernel_arg(k, def, i));
	move_here(d, def);
}

KArg drive_initial(Driver *d, uint32_t i) {
	KArg x = *kernel_arg(d->k, d->stmt, i);
	drive_move_initial(d, x);
	return x;
}

void drive_fill_scratch(Driver *d) {
	for (uint32_t i = 0; i < d->loop->carried.count; i++)
		if (d->loop->place.at[i] != NONE && kernel_arg(d->k, d->stmt, i)->kind != KARG_NONE) {
			KArg x = drive_initial(d, i);
			store(d, d->loop->place.at[i], x);
		}
}

/* Something reads the loop's result i, or what stands behind its steps. */
static bool result_read(const Driver *d, uint32_t i) {
	if (d->loop->tail != NONE || d->loop->behind != NONE)
		return true;
	if (!*d->uses)
		*d->uses = kernel_uses(d->k);
	return (*d->uses)[drive_result(d, i)] > 0;
}

void drive_read_scratch(Driver *d, ValueId *results) {
	for (uint32_t i = 0; i < drive_results(d); i++)
		if (d->loop->place.at[i] != NONE && result_read(d, i)) {
			ValueId carried = d->loop->carried.at[i];
			results[i] = load(d, d->loop->place.at[i], carried, d->k->values.at[carried].name);
			d->k->values.at[results[i]].as = drive_result(d, i);
		}
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

static const Item *item_of(const Items *items, const KLoop *loop) {
	for (uint32_t i = 0; items && i < items->at.count; i++)
		if (items->at.at[i].loop == loop)
			return &items->at.at[i];
	return NULL;
}

static void drive_loop(Kernel *k, StmtId s, const Items *items, uint32_t **uses, ValueId *final) {
	KStmt *stmt = kernel_stmt(k, s);
	Driver d = {.k = k, .loop = stmt->loop, .stmt = s, .at = {stmt->region, s}, .uses = uses, .items = items};
	uint32_t carried = d.loop->carried.count;
	ValueId *results = arena_array(k->arena, carried + 1, sizeof *results);
	for (uint32_t i = 0; i < carried; i++)
		results[i] = NONE;
	d.item = item_of(items, d.loop);
	drive_set_own_steps(&d);
	if (d.loop->bodies.count) {
		drive_bodies(&d);
		kernel_remove(k, s);
		return;
	}
	switch (d.loop->type) {
	case LOOP_UNROLL: drive_unroll(&d, results); break;
	case LOOP_FORI: drive_fori(&d, results); break;
	default: drive_pipeline(&d, results); break;
	}
	for (uint32_t i = 0; i < drive_results(&d); i++)
		final[drive_result(&d, i)] = results[i];
	kernel_remove(k, s);
}

void rewrite_drive(Kernel *k) {
	rewrite_peel(k);
	rewrite_split(k);
	StmtIds loops = kernel_loops(k);
	if (loops.count == 0)
		return;
	const Items *items = drive_items(k, loops.at, loops.count);
	uint32_t count = k->values.count, *uses = NULL;
	ValueId *final = kernel_value_map(k);
	for (uint32_t i = 0; i < loops.count; i++)
		drive_loop(k, loops.at[i], items, &uses, final);
	kernel_replace_values(k, final, count);
}
