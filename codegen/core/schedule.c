/* schedule.c - straight code on the units: a list schedule of its statements.
 *
 * A statement is a task of many registers. It streams: it can start when the first registers of what it reads are
 * there, and ends after the last ones; a matmul takes its weights block by block. Only what needs all of an operand
 * waits for its end: a reduction along rows, a sort, a loop. Each unit takes one task after the other, in the order in
 * which they can start, matmuls and registers that go across lanes in that of the program, and a task ends when the
 * unit that it needs longest is through with it.
 *
 *     x = load            load  ######
 *     m = max x           valu   ######
 *                         xlu     # # #....            .: until the result is there
 *     y = sub x, m        valu             ######
 */
#include "schedule.h"

typedef struct Task {
	StmtId stmt;
	double cycles[UNIT_COUNT];
	double chain;      /* of Work */
	const Run *inside; /* of one with regions, beside which nothing runs; NULL */
	double wait;       /* from its end, or that of its first registers, until the result is there */
	double registers;
	uint32_t read, reads;     /* in Schedule.reads */
	double ready;             /* once `can`: what it reads is there then */
	double start, first, end; /* first: there is something that others may read */
	bool can, placed;         /* all that it reads is placed; it is */
	uint16_t units;           /* a bit for each that it begins with */
	uint8_t order;            /* IN_ORDER_x */
	bool early;               /* what it reads comes from memory, if need be by the vector unit */
	bool lies_there;          /* a load of what nothing in the region stores before it */
	bool fed;                 /* a matmul that reads one, and nothing that is not `early` */
	uint32_t copy;            /* of the region */
} Task;

typedef struct Read {
	uint32_t of;
	bool whole; /* all of it, before it starts */
} Read;

typedef struct Schedule {
	const Core *c;
	NestedRun *nested;
	void *data;
	VEC(Task) tasks;
	VEC(Read) reads;
	uint32_t *task_of;  /* by value */
	uint32_t *store_of; /* by buffer: the last one */
	double free[UNIT_COUNT];
	double alone_until, end;
	uint32_t copy; /* that is added */
	bool straight; /* it is no loop's region */
	bool streams;  /* nothing waits for all of a tile: register by register goes through all tasks */
} Schedule;

/* Results leave these units as they were put in, and the compiler puts them in as the program does; but one or two
 * registers go across lanes as soon as they are there: few rows of many steps are reduced side by side. And a matmul of
 * what comes from memory goes before those of its step that wait for what is computed. */
enum { IN_ORDER_MXU = 1, IN_ORDER_XLU = 2 };

/* ---- tasks ------------------------------------------------------------------------------------------------------ */

static bool reads_whole(const Core *c, const KStmt *s, StmtId stmt) {
	switch (s->op) {
	case K_SUM:
	case K_MEAN:
	case K_MAX:
	case K_MIN:
	case K_PROD: return !reduces_lanes(c->k, stmt);
	case K_ROTATE:
	case K_SORT:
	case K_CUMSUM:
	case K_CUMPROD: return true;
	default: return false;
	}
}

static double wait_of(const Core *c, const Task *t) {
	if (t->cycles[UNIT_MXU] > 0)
		return c->u->matmul_wait;
	if (t->cycles[UNIT_XLU] > 0)
		return c->u->xlu_wait;
	if (t->cycles[UNIT_EUP] > 0)
		return c->u->eup_wait;
	if (t->cycles[UNIT_STORE] > 0 && t->cycles[UNIT_VALU] + t->cycles[UNIT_LOAD] == 0)
		return 0;
	bool works = false;
	for (uint32_t u = 0; u < UNIT_COUNT; u++)
		works = works || t->cycles[u] > 0;
	return !works ? 0 : t->cycles[UNIT_LOAD] > 0 ? c->u->load_wait : c->u->valu_wait;
}

/* What reads it waits for no unit but the vector unit. */
static bool comes_early(const Task *t) { return t->early && !t->inside && t->order == 0 && t->cycles[UNIT_EUP] == 0; }

static void add_read(Schedule *s, Task *t, uint32_t of, bool whole) {
	if (of == NONE || !s->tasks.at)
		return;
	t->early = t->early && comes_early(&s->tasks.at[of]);
	Read r = {of, whole};
	vec_push(s->c->a, &s->reads, r);
	t->reads++;
}

static uint8_t order_of(const Core *c, const Task *t) {
	enum { PASSING = 2 };
	bool across = t->cycles[UNIT_XLU] * c->u->per_cycle[UNIT_XLU] > PASSING;
	return (uint8_t)((t->cycles[UNIT_MXU] > 0 ? IN_ORDER_MXU : 0) | (across ? IN_ORDER_XLU : 0));
}

static const Work *cycles_of(const Core *c, StmtId stmt, double *cycles) {
	const Work *w = statement_work(c, stmt);
	for (uint32_t u = 0; u < UNIT_COUNT; u++)
		cycles[u] = w->of[u] / c->u->per_cycle[u];
	return w;
}

static void add_task(Schedule *s, StmtId stmt) {
	const Core *c = s->c;
	const KStmt *x = &c->k->stmts.at[stmt];
	RegionId regions[STMT_REGIONS_MAX];
	bool holds = kernel_regions(c->k, stmt, regions) > 0;
	Task t = {.stmt = stmt, .read = s->reads.count, .early = true, .copy = s->copy};
	if (holds) {
		t.inside = s->nested(s->data, stmt);
	} else {
		const Work *w = cycles_of(c, stmt, t.cycles);
		t.wait = wait_of(c, &t) + w->again * c->u->xlu_wait;
		t.chain = w->chain;
		t.order = order_of(c, &t);
	}
	for (uint32_t i = 0; i < x->arg_count; i++) {
		const KArg *a = &c->k->args.at[x->arg_first + i];
		if (a->kind == KARG_VALUE)
			add_read(s, &t, s->task_of[a->value], holds || reads_whole(c, x, stmt));
		if (a->kind == KARG_REF && x->op == K_LOAD)
			add_read(s, &t, s->store_of[c->k->refs.at[a->ref].buffer], false);
	}
	for (uint32_t i = 0; holds && i < s->tasks.count; i++) /* it may read and store anything */
		if (s->tasks.at[i].inside || c->k->stmts.at[s->tasks.at[i].stmt].op == K_STORE)
			add_read(s, &t, i, true);
	t.lies_there = x->op == K_LOAD && t.reads == 0;
	for (uint32_t i = 0; i < t.reads && t.cycles[UNIT_MXU] > 0 && t.early && s->straight; i++)
		t.fed = t.fed || s->tasks.at[s->reads.at[t.read + i].of].lies_there;
	uint32_t number = s->tasks.count; /* what runs ahead is there from the step before */
	for (uint32_t i = 0; i < x->result_count; i++) {
		s->task_of[x->result + i] = (x->flags & KSTMT_AHEAD) ? NONE : number;
		t.registers += value_registers(c, x->result + i);
	}
	const KArg *to = &c->k->args.at[x->arg_first];
	if (x->op == K_STORE && x->arg_count && to->kind == KARG_REF)
		s->store_of[c->k->refs.at[to->ref].buffer] = number;
	s->streams = s->streams && !holds && t.chain == 0 && t.cycles[UNIT_MXU] + t.cycles[UNIT_XLU] == 0 &&
	             !reads_whole(c, x, stmt);
	vec_push(c->a, &s->tasks, t);
}

/* ---- placing ---------------------------------------------------------------------------------------------------- */

/* All that it reads is placed: from then on it is known when that is there. */
static bool can_run(const Schedule *s, Task *t) {
	double at = 0;
	if (t->can)
		return true;
	for (uint32_t i = 0; i < t->reads; i++) {
		const Read *r = &s->reads.at[t->read + i];
		const Task *of = &s->tasks.at[r->of];
		if (!of->placed)
			return false;
		if (!t->fed || !of->lies_there)
			at = larger(at, r->whole ? of->end : of->first);
	}
	t->ready = at;
	return t->can = true;
}

/* When the first unit that it needs would begin with it. */
static double could_start(const Schedule *s, const Task *t) {
	double begin = t->ready;
	if (t->inside)
		return larger(begin, s->end);
	for (uint32_t u = 0, left = t->units; left; u++, left >>= 1)
		if (left & 1)
			begin = larger(begin, s->free[u]);
	return larger(begin, s->alone_until);
}

/* Of the cycles of a matmul, %, after which something reads its first results: rows. */
enum { FIRST_PRODUCTS = 15 };

static void place(Schedule *s, Task *t) {
	double start = could_start(s, t), longest = 0;
	t->start = start;
	t->placed = true;
	if (t->inside) {
		t->first = t->end = s->alone_until = s->end = start + t->inside->cycles;
		return;
	}
	t->end = start + t->chain;
	for (uint32_t u = 0; u < UNIT_COUNT; u++)
		if (t->cycles[u] > 0) {
			s->free[u] = larger(s->free[u], start) + t->cycles[u];
			t->end = larger(t->end, s->free[u]);
			longest = larger(longest, t->cycles[u]);
		}
	for (uint32_t i = 0; i < t->reads; i++)
		t->end = larger(t->end, s->tasks.at[s->reads.at[t->read + i].of].end);
	longest = larger(longest, t->chain);
	double part = t->registers > 1 ? longest / t->registers : longest;
	if (t->cycles[UNIT_MXU] > 0)
		part = (t->end - start) * FIRST_PRODUCTS / 100;
	t->first = start + part + t->wait;
	t->end += t->wait;
	t->first = t->first < t->end ? t->first : t->end;
	s->end = larger(s->end, t->end);
}

/* Of the first tasks that are not placed the one that can begin first; matmuls and what goes across lanes in order. */
static uint32_t next_task(const Schedule *s, uint32_t from) {
	enum { WINDOW = 96 }; /* statements that the scheduler looks ahead */
	uint32_t best = NONE;
	double at = 0;
	int left = 0;         /* the units of those that are left behind */
	uint32_t copy = NONE; /* of the first matmul of those */
	for (uint32_t i = from, seen = 0; i < s->tasks.count && seen < WINDOW; i++) {
		Task *t = &s->tasks.at[i];
		if (t->placed)
			continue;
		seen++;
		bool passes = t->order == IN_ORDER_MXU && t->early && t->copy == copy;
		bool waits = (left & t->order) && !passes;
		copy = copy == NONE && (t->order & IN_ORDER_MXU) ? t->copy : copy;
		left |= t->order;
		if (waits || !can_run(s, t))
			continue;
		double begin = could_start(s, t);
		if (best == NONE || begin < at) {
			best = i;
			at = begin;
		}
	}
	return best;
}

/* A matmul loads what lies in memory as it goes on, and begins when the matrix unit can. */
static const uint32_t matrix_unit = 1u << UNIT_MXU | 1u << UNIT_PUSH | 1u << UNIT_POP;

/* All units that it needs; where registers stream, the one that it needs longest. */
static uint16_t units_to_begin(const Schedule *s, const Task *t) {
	uint32_t units = 0;
	double most = 0;
	for (uint32_t u = 0; u < UNIT_COUNT; u++) {
		if (t->cycles[u] > most && s->streams)
			units = 0;
		if (t->cycles[u] > 0 && t->cycles[u] >= (s->streams ? most : 0))
			units |= 1u << u;
		most = larger(most, t->cycles[u]);
	}
	if (t->fed)
		units &= matrix_unit;
	return (uint16_t)units;
}

static void place_all(Schedule *s) {
	uint32_t from = 0;
	for (uint32_t i = 0; i < s->tasks.count; i++)
		s->tasks.at[i].units = units_to_begin(s, &s->tasks.at[i]);
	for (uint32_t left = s->tasks.count; left; left--) {
		while (from < s->tasks.count && s->tasks.at[from].placed)
			from++;
		place(s, &s->tasks.at[next_task(s, from)]);
	}
}

/* ---- what a loop carries --------------------------------------------------------------------------------------- */

/* What is carried in scratch is loaded and stored in each step; straight code carries nothing. */
static double carried_registers(const Core *c, const KLoop *loop) {
	double registers = 0;
	if (!loop || loop->type == LOOP_UNROLL)
		return 0;
	for (uint32_t i = 0; i < loop->carried.count && i < loop->place.count; i++)
		registers += loop->place.at[i] == NONE ? 0 : value_registers(c, loop->carried.at[i]);
	return registers;
}

/* The yield stores it, as soon as it comes. */
static void add_stores(Schedule *s, double registers) {
	if (registers > 0 && s->tasks.count > 0)
		s->tasks.at[s->tasks.count - 1].cycles[UNIT_STORE] += registers / s->c->u->per_cycle[UNIT_STORE];
}

/* ---- a region --------------------------------------------------------------------------------------------------- */

static void add_copy(Schedule *s, RegionId r) {
	const Kernel *k = s->c->k;
	for (StmtId x = k->regions.at[r].first; x != NONE; x = k->stmts.at[x].next)
		add_task(s, x);
}

/* What the step before yields is what the next one carries. */
static void hand_on(Schedule *s, RegionId r, const KLoop *loop) {
	const Kernel *k = s->c->k;
	StmtId last = k->regions.at[r].last;
	const KStmt *yield = last == NONE ? NULL : &k->stmts.at[last];
	for (uint32_t i = 0; yield && loop && i < yield->arg_count && i < loop->carried.count; i++) {
		const KArg *a = &k->args.at[yield->arg_first + i];
		s->task_of[loop->carried.at[i]] = a->kind == KARG_VALUE ? s->task_of[a->value] : NONE;
	}
}

/* As if nothing waited for what it reads: beside a statement with regions nothing runs, and of the others the unit that
 * has most to do is busy all the time. */
static Run region_bound(const Core *c, RegionId r, double carried, NestedRun *nested, void *data) {
	Run run = {0};
	double own[UNIT_COUNT] = {0}, most = 0;
	own[UNIT_LOAD] = carried / c->u->per_cycle[UNIT_LOAD];
	own[UNIT_STORE] = carried / c->u->per_cycle[UNIT_STORE];
	for (StmtId s = c->k->regions.at[r].first; s != NONE; s = c->k->stmts.at[s].next) {
		RegionId regions[STMT_REGIONS_MAX];
		double cycles[UNIT_COUNT];
		if (kernel_regions(c->k, s, regions) > 0) {
			run_add(&run, nested(data, s), 1);
			continue;
		}
		cycles_of(c, s, cycles);
		for (uint32_t u = 0; u < UNIT_COUNT; u++)
			own[u] += cycles[u];
	}
	for (uint32_t u = 0; u < UNIT_COUNT; u++) {
		run.busy[u] += own[u];
		most = larger(most, own[u]);
	}
	run.cycles += most;
	return run;
}

Run region_run(const Core *c, RegionId r, const KLoop *loop, uint32_t copies, NestedRun *nested, void *data) {
	double carried = carried_registers(c, loop);
	if (c->bound) {
		Run one = region_bound(c, r, carried, nested, data), all = {0};
		run_add(&all, &one, copies);
		return all;
	}
	Schedule s = {.c = c, .nested = nested, .data = data, .streams = true};
	s.straight = !loop || loop->type == LOOP_UNROLL;
	s.task_of = arena_array(c->a, c->k->values.count + 1, sizeof *s.task_of);
	s.store_of = arena_array(c->a, c->k->buffers.count + 1, sizeof *s.store_of);
	memset(s.task_of, 0xff, (c->k->values.count + 1) * sizeof *s.task_of);
	memset(s.store_of, 0xff, (c->k->buffers.count + 1) * sizeof *s.store_of);
	for (uint32_t i = 0; i < copies; i++) {
		s.copy = i;
		add_copy(&s, r);
		add_stores(&s, carried);
		hand_on(&s, r, loop);
	}
	place_all(&s);
	Run run = {0};
	for (uint32_t i = 0; i < s.tasks.count; i++) {
		const Task *t = &s.tasks.at[i];
		if (t->inside)
			run_add(&run, t->inside, 1);
		for (uint32_t u = 0; u < UNIT_COUNT; u++)
			run.busy[u] += t->cycles[u];
	}
	run.busy[UNIT_LOAD] += copies * carried / c->u->per_cycle[UNIT_LOAD];
	run.cycles = larger(s.end, run.busy[UNIT_LOAD]);
	return run;
}
