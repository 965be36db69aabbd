/* trace.c - a kernel as Python runs it while it is traced: calls and straight loops statement after statement, what
 * data bound once. Equal values are computed once, as the compiler has it. */
#include "ints.h"
#include "registers.h"

typedef struct Computed {
	uint64_t id;
	Traced value;
} Computed;

typedef struct Trace {
	Expander e;
	Kernel *k;
	Arena *a;
	Ints ints;      /* steps of straight loops */
	Operations *of; /* by statement */
	StmtIds order;  /* those with any, as they are come to */
	double times;   /* that what is traced runs */
	ValueId *lazy;  /* by statement: the flag without which it is not computed; NONE */
	uint64_t next;
	uint64_t stored;   /* what was stored last: a load behind it is another one */
	uint64_t *part_of; /* by buffer: what a parameter is */
	Map known_at;
	VEC(Computed) known;
	VEC(Traced) waiting; /* in queues */
	uint32_t popped;
	VEC(Traced) returned;
	uint32_t left; /* statements that may still be followed */
} Trace;

/* Of a kernel that runs on for longer, what is behind is not counted. */
enum { MOST_FOLLOWED = 1 << 22 };

static void trace_region(Trace *t, RegionId r);

/* ---- equal values ----------------------------------------------------------------------------------------------- */

static uint64_t mixed(uint64_t h, uint64_t x) {
	h ^= x + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
	return h * 0xff51afd7ed558ccdu;
}

static uint64_t int_key(const Trace *t, uint64_t h, IntId i) {
	const KInt *x = &t->k->ints.at[i];
	h = mixed(mixed(h, x->kind), (uint64_t)x->number);
	if (x->kind == INT_VALUE)
		return mixed(h, t->e.values[x->value].id);
	if (x->kind == INT_CONST)
		return h;
	h = int_key(t, h, x->a);
	return x->kind == INT_NEG ? h : int_key(t, h, x->b);
}

static uint64_t ref_key(const Trace *t, uint64_t h, const KRef *r) {
	h = mixed(h, t->part_of[r->buffer]);
	for (uint32_t i = 0; i < r->rank; i++) {
		const KDim *d = &r->dim[i];
		h = mixed(mixed(h, d->kind), (uint64_t)d->size);
		h = d->kind == KDIM_ALL ? h : int_key(t, h, d->start);
	}
	return h;
}

static uint64_t arg_key(const Trace *t, uint64_t h, const KArg *a) {
	h = mixed(h, a->kind);
	switch (a->kind) {
	case KARG_VALUE: return mixed(h, t->e.values[a->value].id);
	case KARG_INTEGER: return mixed(h, (uint64_t)a->integer);
	case KARG_BOOL: return mixed(h, a->boolean);
	case KARG_INT: return int_key(t, h, a->index);
	case KARG_REAL: {
		uint64_t bits;
		memcpy(&bits, &a->real, sizeof bits);
		return mixed(h, bits);
	}
	case KARG_REF: return ref_key(t, h, &t->k->refs.at[a->ref]);
	default: return h;
	}
}

uint64_t argument_key(const Expander *e, uint64_t before, const KStmt *s, uint32_t i) {
	return e->trace ? arg_key(e->trace, before, &e->k->args.at[s->arg_first + i]) : 0;
}

bool argument_number(Expander *e, const KStmt *s, uint32_t i, double *number) {
	const KArg *a = &e->k->args.at[s->arg_first + i];
	switch (a->kind) {
	case KARG_INTEGER: *number = (double)a->integer; return true;
	case KARG_REAL: *number = a->real; return true;
	case KARG_INT: *number = e->trace ? int_at(&e->trace->ints, a->index) : NAN; return !isnan(*number);
	case KARG_VALUE: *number = e->values[a->value].form.number; return e->values[a->value].form.splat;
	default: return false;
	}
}

static void know(Trace *t, uint64_t key, Traced value) {
	Computed known = {key, value};
	map_put(t->a, &t->known_at, key, t->known.count);
	vec_push(t->a, &t->known, known);
}

static const Computed *known_as(const Trace *t, uint64_t key) {
	uint32_t at = key ? map_get(&t->known_at, key) : NONE;
	return at != NONE && at < t->known.count && t->known.at[at].id == key ? &t->known.at[at] : NULL;
}

bool computed_before(Expander *e, uint64_t key) {
	Trace *t = e->trace;
	if (!t)
		return false;
	bool before = known_as(t, key) != NULL;
	if (!before)
		know(t, key, (Traced){0});
	return before;
}

/* Of what it computes; 0: it is like no other. */
static uint64_t statement_key(const Trace *t, const KStmt *s) {
	if ((kernel_op_kind(s->op) != KIND_PURE && s->op != K_LOAD) || s->result == NONE || s->result_count != 1)
		return 0;
	const KValue *v = &t->k->values.at[s->result];
	uint64_t h = mixed(mixed(s->op, v->dtype), v->rank);
	h = s->op == K_LOAD ? mixed(h, t->stored) : h;
	for (uint32_t i = 0; i < v->rank; i++)
		h = mixed(h, (uint64_t)v->shape[i]);
	for (uint32_t i = 0; i < s->int_count; i++)
		h = mixed(h, (uint64_t)s->ints[i]);
	for (uint32_t i = 0; i < s->arg_count; i++)
		h = arg_key(t, h, &t->k->args.at[s->arg_first + i]);
	return h ? h : 1;
}

/* ---- statements ------------------------------------------------------------------------------------------------- */

static void fresh(Trace *t, ValueId v) {
	t->e.values[v] = (Traced){.form = usual_form(t->k->values.at[v].dtype), .id = t->next++};
}

/* By a flag that is known. */
static bool chosen_of(Trace *t, StmtId s) {
	const KArg *flag = kernel_arg(t->k, s, 0);
	double set = flag->kind == KARG_VALUE ? t->ints.at[flag->value] : NAN;
	const KArg *x = isnan(set) ? flag : kernel_arg(t->k, s, set != 0 ? 1 : 2);
	if (isnan(set) || x->kind != KARG_VALUE)
		return false;
	t->e.values[kernel_stmt(t->k, s)->result] = t->e.values[x->value];
	return true;
}

/* What only such choices read, the compiler leaves out where the flag is not set. `read`: by value, how often they do.
 */
static void mark_lazy(Trace *t, uint32_t *read, ValueId v, ValueId flag) {
	const KValue *x = &t->k->values.at[v];
	if (x->def == NONE || ++read[v] < t->e.uses[v] || kernel_op_kind(t->k->stmts.at[x->def].op) != KIND_PURE)
		return;
	const KStmt *s = kernel_stmt(t->k, x->def);
	t->lazy[x->def] = flag;
	for (uint32_t i = 0; i < s->arg_count; i++)
		if (kernel_arg(t->k, x->def, i)->kind == KARG_VALUE)
			mark_lazy(t, read, kernel_arg(t->k, x->def, i)->value, flag);
}

static void find_lazy(Trace *t) {
	uint32_t *read = arena_array(t->a, t->k->values.count + 1, sizeof *read);
	t->lazy = arena_array(t->a, t->k->stmts.count + 1, sizeof *t->lazy);
	memset(t->lazy, 0xff, (t->k->stmts.count + 1) * sizeof *t->lazy);
	for (StmtId s = 0; s < t->k->stmts.count; s++) {
		bool choice = kernel_stmt(t->k, s)->op == K_CHOOSE && kernel_arg(t->k, s, 0)->kind == KARG_VALUE;
		if (choice && kernel_arg(t->k, s, 1)->kind == KARG_VALUE)
			mark_lazy(t, read, kernel_arg(t->k, s, 1)->value, kernel_arg(t->k, s, 0)->value);
	}
}

static void expand(Trace *t, StmtId stmt) {
	const KStmt *s = kernel_stmt(t->k, stmt);
	uint64_t key = statement_key(t, s);
	const Computed *known = known_as(t, key);
	for (uint32_t i = 0; i < s->result_count; i++)
		fresh(t, s->result + i);
	if (s->op == K_LET && kernel_arg(t->k, stmt, 0)->kind == KARG_VALUE) {
		t->e.values[s->result] = t->e.values[kernel_arg(t->k, stmt, 0)->value];
		return;
	}
	if (s->op == K_CHOOSE && chosen_of(t, stmt))
		return;
	if (t->lazy[stmt] != NONE && t->ints.at[t->lazy[stmt]] == 0)
		return;
	if (known) {
		t->e.values[s->result] = known->value;
		return;
	}
	if (kernel_op_kind(s->op) != KIND_PURE && s->op != K_LOAD)
		t->stored = t->next++;
	Operations one = {0};
	t->e.to = &one;
	expand_statement(&t->e, stmt);
	if (one.any && !t->of[stmt].any)
		vec_push(t->a, &t->order, stmt);
	t->of[stmt].any = t->of[stmt].any || one.any;
	for (int i = 0; i < RO_COUNT; i++)
		t->of[stmt].of[i] += t->times * one.of[i];
	if (!key)
		return;
	t->e.values[s->result].id = key;
	know(t, key, t->e.values[s->result]);
}

/* What stands around a region that is not run where it stands. */
typedef struct Outside {
	uint32_t known;
	double times;
} Outside;

static Outside enter(Trace *t, double times) {
	Outside o = {t->known.count, t->times};
	t->times *= times;
	t->stored = t->next++;
	return o;
}

/* What was computed inside, nothing outside has. */
static void leave(Trace *t, Outside o) {
	t->stored = t->next++;
	t->times = o.times;
	t->known.count = o.known;
}

static void trace_inner(Trace *t, RegionId r, double times) {
	Outside o = enter(t, times);
	trace_region(t, r);
	leave(t, o);
}

/* ---- calls and loops -------------------------------------------------------------------------------------------- */

static Traced traced_arg(const Trace *t, StmtId s, uint32_t i) {
	const KArg *a = kernel_arg(t->k, s, i);
	return a->kind == KARG_VALUE ? t->e.values[a->value] : (Traced){.id = arg_key(t, 7, a)};
}

static void keep_returned(Trace *t, StmtId s) {
	t->returned.count = 0;
	for (uint32_t i = 0; i < kernel_stmt(t->k, s)->arg_count; i++) {
		Traced v = traced_arg(t, s, i);
		vec_push(t->a, &t->returned, v);
	}
}

/* What a loop carries lies as what each step hands on; one row, or lane, stands in all where it does in both. */
static RegisterForm joined(const Trace *t, ValueId v, const RegisterForm *first, const RegisterForm *next) {
	const KValue *x = &t->k->values.at[v];
	RegisterForm f = usual_form(x->dtype);
	bool one_lane = x->rank > 0 && x->shape[x->rank - 1] == 1, one_row = x->rank > 1 && x->shape[x->rank - 2] == 1;
	if (next->bits == f.bits && next->rows && !next->splat)
		f.rows = next->rows;
	f.same_lanes = one_lane && (first->splat || first->same_lanes) && (next->splat || next->same_lanes);
	f.same_rows = one_row && (first->splat || first->same_rows) && (next->splat || next->same_rows);
	return f;
}

static void give_results(Trace *t, StmtId s, bool carried) {
	const KStmt *x = kernel_stmt(t->k, s);
	for (uint32_t i = 0; i < x->result_count; i++) {
		fresh(t, x->result + i);
		Traced *v = &t->e.values[x->result + i];
		if (i < t->returned.count && carried)
			v->form = joined(t, x->result + i, &t->returned.at[i].form, &t->returned.at[i].form);
		else if (i < t->returned.count)
			*v = t->returned.at[i];
	}
	t->returned.count = 0;
}

static void trace_call(Trace *t, StmtId s) {
	const KStmt *x = kernel_stmt(t->k, s);
	const KFunction *f = &t->k->functions.at[x->function];
	VEC(Traced) given = {0};
	for (uint32_t i = 0; i < f->parameters.count; i++) {
		Traced v = i < x->arg_count ? traced_arg(t, s, i) : (Traced){.id = t->next++};
		vec_push(t->a, &given, v);
	}
	for (uint32_t i = 0; i < f->parameters.count; i++) {
		const KParameter *p = &f->parameters.at[i];
		const KArg *a = i < x->arg_count ? kernel_arg(t->k, s, i) : NULL;
		if (p->kind == PARAMETER_BUFFER && a && a->kind == KARG_REF) {
			t->e.rows[p->id] = t->e.rows[t->k->refs.at[a->ref].buffer];
			t->part_of[p->id] = arg_key(t, 13, a);
		} else if (p->kind != PARAMETER_BUFFER) {
			t->e.values[p->id] = given.at[i];
		}
		if (p->kind == PARAMETER_FLAG)
			t->ints.at[p->id] = a != NULL;
		else if (p->kind == PARAMETER_VALUE && a && a->kind == KARG_INT)
			t->ints.at[p->id] = int_at(&t->ints, a->index);
	}
	trace_region(t, f->body);
	give_results(t, s, false);
}

static double known_int(Trace *t, IntId i) { return i == NONE ? NAN : int_at(&t->ints, i); }

static void trace_for(Trace *t, StmtId s) {
	const KStmt *x = kernel_stmt(t->k, s);
	const KFor *each = x->each;
	double end = known_int(t, each->end);
	for (uint32_t i = 0; i < each->carried.count; i++)
		t->e.values[each->carried.at[i]] = traced_arg(t, s, i);
	for (int64_t i = each->from; t->left > 0 && (isnan(end) ? i == each->from : (double)i < end); i++) {
		t->ints.at[each->step] = isnan(end) ? NAN : (double)i;
		fresh(t, each->step);
		t->e.values[each->step].id = mixed(11, (uint64_t)i);
		trace_region(t, x->body);
		for (uint32_t c = 0; c < each->carried.count && c < t->returned.count; c++)
			t->e.values[each->carried.at[c]] = t->returned.at[c];
	}
	t->returned.count = 0;
	for (uint32_t i = 0; i < x->result_count && i < each->carried.count; i++)
		t->e.values[x->result + i] = t->e.values[each->carried.at[i]];
}

/* So many steps stand in one iteration: what is equal in them is computed once. */
static void trace_copies(Trace *t, const KFunction *f, uint32_t first, uint32_t copies, double times) {
	Outside o = enter(t, times);
	for (uint32_t c = 0; c < copies && t->left > 0; c++) {
		for (uint32_t i = first; c && i < f->parameters.count && i - first < t->returned.count; i++)
			t->e.values[f->parameters.at[i].id] = t->returned.at[i - first];
		for (uint32_t i = 0; c && i < first; i++)
			fresh(t, f->parameters.at[i].id);
		trace_region(t, f->body);
	}
	leave(t, o);
}

/* How parameter i of a loop's function lies at first. */
static RegisterForm carried_from(const Trace *t, StmtId s, uint32_t i) {
	const KStmt *x = kernel_stmt(t->k, s);
	const KParameter *p = &t->k->functions.at[x->function].parameters.at[i];
	RegisterForm f = {0};
	if (p->kind == PARAMETER_BUFFER)
		return f;
	Traced from = {0};
	if (i < x->arg_count && (i > 0 || x->op != K_FORI)) /* before them is a step, or how many there are */
		from = traced_arg(t, s, i);
	return joined(t, p->id, &from.form, &from.form);
}

static void enter_loop(Trace *t, const KFunction *f, const RegisterForm *form) {
	for (uint32_t i = 0; i < f->parameters.count; i++) {
		if (f->parameters.at[i].kind == PARAMETER_BUFFER)
			continue;
		fresh(t, f->parameters.at[i].id);
		t->e.values[f->parameters.at[i].id].form = form[i];
	}
}

/* fori and while: the function runs with what is carried, of which is known how it lies. */
static void trace_loop(Trace *t, StmtId s) {
	const KStmt *x = kernel_stmt(t->k, s);
	const KFunction *f = &t->k->functions.at[x->function];
	const KArg *count = kernel_arg(t->k, s, 0);
	double times = x->op != K_FORI               ? 1
	               : count->kind == KARG_INT     ? known_int(t, count->index)
	               : count->kind == KARG_INTEGER ? (double)count->integer
	                                             : NAN;
	RegisterForm *form = arena_array(t->a, f->parameters.count + 1, sizeof *form);
	for (uint32_t i = 0; i < f->parameters.count; i++)
		form[i] = carried_from(t, s, i);
	enter_loop(t, f, form);
	trace_inner(t, f->body, 0); /* to see how what it hands on lies */
	for (uint32_t i = 0, first = x->op == K_FORI; i < f->parameters.count; i++)
		if (i >= first && i - first < t->returned.count)
			form[i] = joined(t, f->parameters.at[i].id, &form[i], &t->returned.at[i - first].form);
	enter_loop(t, f, form);
	uint32_t copies = x->op == K_FORI && x->int_count && times >= (double)x->ints[0] ? (uint32_t)x->ints[0] : 1;
	trace_copies(t, f, x->op == K_FORI, copies, (isnan(times) ? 1 : times) / copies);
	give_results(t, s, true);
}

static void trace_pipeline(Trace *t, StmtId s) {
	const KPipeline *p = kernel_stmt(t->k, s)->pipeline;
	const KFunction *f = &t->k->functions.at[p->body];
	double times = 1;
	for (uint32_t i = 0; i < p->rank; i++) {
		double steps = known_int(t, p->grid[i]);
		times *= isnan(steps) ? 1 : steps;
	}
	for (uint32_t i = 0, w = 0; i < f->parameters.count; i++) {
		const KParameter *x = &f->parameters.at[i];
		if (x->kind != PARAMETER_BUFFER || w >= p->windows.count)
			continue;
		const KBuffer *b = &t->k->buffers.at[x->id];
		t->e.rows[x->id] = tile_rows(b->dtype, b->rank, b->shape, true);
		w++;
	}
	trace_inner(t, f->body, times);
	t->returned.count = 0;
}

static void trace_if(Trace *t, StmtId s) {
	const KStmt *x = kernel_stmt(t->k, s);
	const KArg *a = kernel_arg(t->k, s, 0);
	double holds = a->kind == KARG_INT     ? known_int(t, a->index)
	               : a->kind == KARG_VALUE ? t->ints.at[a->value]
	                                       : NAN;
	for (uint32_t i = 0; i < x->result_count; i++)
		t->e.values[x->result + i] = traced_arg(t, s, i + 1);
	if (holds == 0)
		return;
	trace_region(t, x->body);
	give_results(t, s, false);
}

static void trace_queue(Trace *t, StmtId s) {
	const KStmt *x = kernel_stmt(t->k, s);
	for (uint32_t i = 1; x->op == K_PUSH && i < x->arg_count; i++) {
		Traced v = traced_arg(t, s, i);
		vec_push(t->a, &t->waiting, v);
	}
	for (uint32_t i = 0; x->op == K_POP && i < x->result_count; i++) {
		fresh(t, x->result + i);
		if (t->popped < t->waiting.count)
			t->e.values[x->result + i] = t->waiting.at[t->popped++];
	}
}

static void trace_statement(Trace *t, StmtId s) {
	const KStmt *x = kernel_stmt(t->k, s);
	if (t->left == 0)
		return;
	t->left--;
	switch (x->op) {
	case K_DEF:
	case K_QUEUE: break;
	case K_RETURN:
	case K_YIELD: keep_returned(t, s); break;
	case K_CALL: trace_call(t, s); break;
	case K_FOR: trace_for(t, s); break;
	case K_FORI:
	case K_WHILE: trace_loop(t, s); break;
	case K_PIPELINE: trace_pipeline(t, s); break;
	case K_WHEN: trace_inner(t, x->body, 1); break;
	case K_IF: trace_if(t, s); break;
	case K_PUSH:
	case K_POP: trace_queue(t, s); break;
	case K_INT:
		find_value(&t->ints, s);
		expand(t, s);
		break;
	default: expand(t, s); break;
	}
}

static void trace_region(Trace *t, RegionId r) {
	for (StmtId s = region_first(t->k, r); s != NONE; s = kernel_stmt(t->k, s)->next)
		trace_statement(t, s);
}

/* ---- kernels ---------------------------------------------------------------------------------------------------- */

Expander *expander_of(const Kernel *k, const Target *t, Arena *a) {
	Expander *e = arena_alloc(a, sizeof *e);
	*e = (Expander){.k = k, .t = t};
	e->values = arena_array(a, k->values.count + 1, sizeof *e->values);
	e->rows = arena_array(a, k->buffers.count + 1, sizeof *e->rows);
	for (ValueId v = 0; v < k->values.count; v++)
		e->values[v].form = usual_form(k->values.at[v].dtype);
	for (uint32_t i = 0; i < k->buffers.count; i++)
		e->rows[i] = tile_rows(k->buffers.at[i].dtype, k->buffers.at[i].rank, k->buffers.at[i].shape, false);
	return e;
}

Operations *kernel_operations(Kernel *k, const Target *target, Arena *a, StmtIds *order) {
	Trace t = {.k = k, .a = a, .times = 1, .next = 1, .left = MOST_FOLLOWED, .ints = ints_start(k, a)};
	t.of = arena_array(a, k->stmts.count + 1, sizeof *t.of);
	t.e = *expander_of(k, target, a);
	t.e.trace = &t;
	t.e.uses = kernel_uses(k);
	t.part_of = arena_array(a, k->buffers.count + 1, sizeof *t.part_of);
	for (ValueId v = 0; v < k->values.count; v++)
		t.e.values[v].id = t.next++;
	for (uint32_t i = 0; i < k->buffers.count; i++)
		t.part_of[i] = t.next++;
	for (uint32_t i = 0; i < k->grid.count; i++)
		t.times *= (double)k->grid.at[i].steps;
	find_lazy(&t);
	trace_region(&t, k->body);
	*order = t.order;
	return t.of;
}
