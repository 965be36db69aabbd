/* kernel_clashes.c - names that a text gives several times, where Python would find the wrong value.
 *
 *     a = load x_ref[...]                 a_1 = x_ref[...]
 *     for i in 2 from 0 {                 for i in range(2):
 *       a = exp a                             a = jnp.exp(a_1)
 *       store y_ref[i], a                     y_ref[i] = a
 *     }
 *     store z_ref[...], a                 z_ref[...] = a_1
 *
 * A region of the text sees the names around it, and what it gives is gone behind it. Python has functions alone for
 * that: a name that is given in one, anywhere, is its own. A function reads what a name means where it is called, and
 * what has no variable is read where it is printed. So the kernel is walked in the order in which Python runs, and
 * whoever is read when its name means something else, or may, gives the name up: kernel_name_values() finds another. */
#include "kernel.h"

/* A value, a buffer or a function, one number for all: values first, then buffers, then functions. */
typedef uint32_t Thing;

typedef struct Given {
	Thing thing; /* NONE: what Python calls a statement */
	StmtId function;
	const char *name;
	uint32_t time;
} Given;

typedef struct Read {
	Thing thing;
	RegionId region;
	uint32_t time;
} Read;

typedef struct Clashes {
	Kernel *k;
	bool strict;
	uint32_t time, values, buffers;
	uint32_t *begin, *end; /* by statement: when it starts, and when its region is done */
	uint32_t *seen;        /* by value: when what is printed in its reader was last looked at */
	RegionId *home;        /* by thing: the region in which it is given; NONE */
	uint32_t *next;        /* by thing: when something else takes its name in its function */
	StringTable names;
	VEC(Given) given;
	VEC(Read) reads;
	Map taken; /* name of a function: it is given there */
} Clashes;

static const char **name_of(const Clashes *c, Thing thing) {
	if (thing < c->values)
		return &c->k->values.at[thing].var;
	if (thing - c->values < c->buffers)
		return &c->k->buffers.at[thing - c->values].var;
	return &c->k->functions.at[thing - c->values - c->buffers].var;
}

static Thing buffer_thing(const Clashes *c, BufferId b) { return c->values + b; }
static Thing function_thing(const Clashes *c, FunctionId f) { return c->values + c->buffers + f; }

/* ---- what is given ---------------------------------------------------------------------------------------------- */

static void give_name(Clashes *c, Thing thing, const char *name, StmtId function) {
	name = string_intern(c->k->arena, &c->names, name);
	Given given = {.thing = thing, .function = function, .name = name, .time = ++c->time};
	vec_push(c->k->arena, &c->given, given);
}

static void give(Clashes *c, Thing thing, RegionId home, StmtId function) {
	c->home[thing] = home;
	if (*name_of(c, thing))
		give_name(c, thing, *name_of(c, thing), function);
}

static void give_parameters(Clashes *c, const KFunction *f, StmtId def) {
	for (uint32_t i = 0; i < f->parameters.count; i++) {
		const KParameter *p = &f->parameters.at[i];
		give(c, p->kind == PARAMETER_BUFFER ? buffer_thing(c, p->id) : p->id, f->body, def);
	}
}

/* ---- what is read ----------------------------------------------------------------------------------------------- */

/* It stands in whatever reads its result. */
static bool is_late(const Kernel *k, StmtId s) {
	const KStmt *stmt = kernel_stmt(k, s);
	if (stmt->result_count != 1 || k->values.at[stmt->result].name)
		return false;
	return kernel_op_kind(stmt->op) != KIND_CONTROL || k->values.at[stmt->result].type == KTYPE_COPY;
}

static void read_thing(Clashes *c, Thing thing, RegionId region) {
	Read read = {.thing = thing, .region = region, .time = c->time};
	if (*name_of(c, thing))
		vec_push(c->k->arena, &c->reads, read);
}

static void read_args(Clashes *c, StmtId s, RegionId region);

static void read_value(Clashes *c, ValueId v, RegionId region) {
	const KValue *x = &c->k->values.at[v];
	if (x->def == NONE || !is_late(c->k, x->def)) {
		read_thing(c, v, region);
		return;
	}
	if (c->seen[v] != c->time)
		read_args(c, x->def, region);
	c->seen[v] = c->time;
}

static void read_int(Clashes *c, IntId id, RegionId region) {
	if (id == NONE)
		return;
	const KInt *i = &c->k->ints.at[id];
	if (i->kind == INT_VALUE)
		read_value(c, i->value, region);
	read_int(c, i->a, region);
	read_int(c, i->b, region);
	read_int(c, i->c, region);
}

static void read_arg(Clashes *c, StmtId s, uint32_t i, RegionId region) {
	const KArg *arg = kernel_arg(c->k, s, i);
	if (arg->kind == KARG_VALUE && arg->value != NONE)
		read_value(c, arg->value, region);
	if (arg->kind == KARG_INT)
		read_int(c, arg->index, region);
	if (arg->kind != KARG_REF)
		return;
	const KRef *ref = &c->k->refs.at[arg->ref];
	read_thing(c, buffer_thing(c, ref->buffer), region);
	for (uint32_t d = 0; d < ref->rank; d++)
		if (ref->dim[d].kind != KDIM_ALL)
			read_int(c, ref->dim[d].start, region);
}

/* All that a statement reads, its region left aside. */
static void read_args(Clashes *c, StmtId s, RegionId region) {
	const KStmt *stmt = kernel_stmt(c->k, s);
	for (uint32_t i = 0; i < stmt->arg_count; i++)
		read_arg(c, s, i, region);
	if (stmt->op == K_CALL || stmt->op == K_FORI || stmt->op == K_WHILE)
		read_thing(c, function_thing(c, stmt->function), region);
	if (stmt->op != K_PIPELINE)
		return;
	const KPipeline *p = stmt->pipeline;
	read_thing(c, function_thing(c, p->body), region);
	for (uint32_t i = 0; i < p->rank; i++)
		read_int(c, p->grid[i], region);
	for (uint32_t w = 0; w < p->windows.count; w++) {
		read_thing(c, buffer_thing(c, p->windows.at[w].of), region);
		for (uint32_t d = 0; d < c->k->buffers.at[p->windows.at[w].of].rank; d++)
			read_int(c, p->windows.at[w].index[d], region);
	}
}

/* ---- the walk --------------------------------------------------------------------------------------------------- */

static void walk_region(Clashes *c, RegionId r, StmtId function);

/* Python assigns what is carried one after the other, and then counts. */
static void walk_for(Clashes *c, StmtId s, StmtId function) {
	const KStmt *stmt = kernel_stmt(c->k, s);
	for (uint32_t i = 0; i < stmt->arg_count; i++) {
		read_arg(c, s, i, stmt->region);
		give(c, stmt->each->carried.at[i], stmt->body, function);
	}
	read_int(c, stmt->each->end, stmt->region);
	if (!stmt->each->unread)
		give(c, stmt->each->step, stmt->body, function);
	if (stmt->var)
		give_name(c, NONE, stmt->var, function);
	walk_region(c, stmt->body, function);
	for (uint32_t i = 0; i < stmt->result_count; i++) /* which a yield has given already */
		c->home[stmt->result + i] = stmt->region;
}

static bool is_called(const Clashes *c, const KArg *x, const char *name) {
	const char *var = x->kind == KARG_VALUE ? c->k->values.at[x->value].var : NULL;
	return var && name && strcmp(var, name) == 0;
}

/* What is behind `else` is assigned first, if it is called otherwise, and stays so. */
static void walk_if(Clashes *c, StmtId s, StmtId function) {
	const KStmt *stmt = kernel_stmt(c->k, s);
	for (uint32_t i = 0; i < stmt->result_count; i++) {
		read_arg(c, s, i + 1, stmt->region);
		if (c->strict || !is_called(c, kernel_arg(c->k, s, i + 1), *name_of(c, stmt->result + i)))
			give(c, stmt->result + i, stmt->region, function);
	}
	read_arg(c, s, 0, stmt->region);
	walk_region(c, stmt->body, function);
}

static void walk_yield(Clashes *c, StmtId s, StmtId function) {
	StmtId owner = c->k->regions.at[kernel_stmt(c->k, s)->region].owner;
	const KStmt *to = kernel_stmt(c->k, owner);
	for (uint32_t i = 0; i < kernel_stmt(c->k, s)->arg_count; i++) {
		read_arg(c, s, i, kernel_stmt(c->k, s)->region);
		give(c, to->result + i, to->region, function);
	}
}

static void walk_other(Clashes *c, StmtId s, StmtId function) {
	const KStmt *stmt = kernel_stmt(c->k, s);
	if (!is_late(c->k, s))
		read_args(c, s, stmt->region);
	if (stmt->op == K_DEF) {
		const KFunction *f = &c->k->functions.at[stmt->function];
		give(c, function_thing(c, stmt->function), stmt->region, function);
		give_parameters(c, f, s);
		walk_region(c, f->body, s);
	}
	if (stmt->var)
		give_name(c, NONE, stmt->var, function);
	if (stmt->op == K_WHEN)
		walk_region(c, stmt->body, s);
	c->time++;
	for (uint32_t i = 0; i < stmt->result_count; i++)
		give(c, stmt->result + i, stmt->region, function);
}

static void walk_region(Clashes *c, RegionId r, StmtId function) {
	for (StmtId s = region_first(c->k, r); s != NONE; s = kernel_stmt(c->k, s)->next) {
		c->begin[s] = ++c->time;
		switch (kernel_stmt(c->k, s)->op) {
		case K_FOR: walk_for(c, s, function); break;
		case K_IF: walk_if(c, s, function); break;
		case K_YIELD: walk_yield(c, s, function); break;
		default: walk_other(c, s, function);
		}
		c->end[s] = ++c->time;
	}
}

static void walk(Clashes *c) {
	for (BufferId b = 0; b < c->buffers; b++)
		if (c->k->buffers.at[b].role != BUFFER_PARAMETER)
			give(c, buffer_thing(c, b), c->k->body, NONE);
	for (ValueId v = 0; v < c->values && c->k->values.at[v].def == NONE && c->buffers == 0; v++)
		give(c, v, c->k->body, NONE); /* the wrapper's parameters */
	walk_region(c, c->k->body, NONE);
}

/* ---- what is lost ----------------------------------------------------------------------------------------------- */

static uint64_t own_name(StmtId function, const char *name) { return map_key(name) * 31 + function; }

/* From the last to the first. */
static void find_next(Clashes *c) {
	for (uint32_t i = c->given.count; i-- > 0;) {
		const Given *g = &c->given.at[i];
		uint64_t key = own_name(g->function, g->name);
		if (g->thing != NONE && c->next[g->thing] == 0)
			c->next[g->thing] = map_get(&c->taken, key); /* NONE: never */
		map_put(c->k->arena, &c->taken, key, g->time);
	}
}

/* When what stands in a region may be called for the last time. */
static uint32_t last_call(const Clashes *c, RegionId r) {
	StmtId last = c->k->regions.at[r].last;
	return kernel_stmt(c->k, last)->op == K_YIELD ? c->begin[last] : c->end[last];
}

/* What is read may be something else in Python. */
static bool is_lost(Clashes *c, const Read *read) {
	const char *name = string_intern(c->k->arena, &c->names, *name_of(c, read->thing));
	RegionId home = c->home[read->thing];
	uint32_t time = read->time;
	for (RegionId r = read->region; r != home;) {
		StmtId owner = c->k->regions.at[r].owner;
		if (owner == NONE)
			return false;
		uint16_t op = kernel_stmt(c->k, owner)->op;
		bool function = op == K_DEF || op == K_WHEN;
		if (function && map_get(&c->taken, own_name(owner, name)) != NONE)
			return true;
		if (op == K_FOR) /* it is read again after all of it */
			time = c->end[owner];
		if (op == K_DEF) /* it is called somewhere behind */
			time = last_call(c, home);
		r = kernel_stmt(c->k, owner)->region;
	}
	return c->next[read->thing] <= time;
}

static void give_up(Clashes *c, Thing thing) {
	const char **var = name_of(c, thing), *name = *var;
	if (!name)
		return;
	*var = NULL;
	if (thing < c->values)
		c->k->values.at[thing].name = name;
	else if (thing - c->values < c->buffers)
		c->k->buffers.at[thing - c->values].name = name;
	else
		c->k->functions.at[thing - c->values - c->buffers].name = name;
}

/* The wrapper's parameters are called as its user calls them: the others give way. */
static void lose(Clashes *c, Thing thing) {
	const char *name = *name_of(c, thing);
	if (c->buffers || thing >= c->values || c->k->values.at[thing].def != NONE) {
		give_up(c, thing);
		return;
	}
	for (uint32_t i = 0; i < c->given.count; i++) {
		const Given *g = &c->given.at[i];
		if (g->thing != NONE && g->thing != thing && strcmp(g->name, name) == 0)
			give_up(c, g->thing);
	}
	c->next[thing] = NONE;
}

/* What is carried and what comes out have one variable. */
static void part_carried(Kernel *k, StmtId s, void *data) {
	const KStmt *stmt = kernel_stmt(k, s);
	for (uint32_t i = 0; stmt->op == K_FOR && i < stmt->result_count; i++) {
		ValueId in = stmt->each->carried.at[i], out = stmt->result + i;
		if (k->values.at[in].var && k->values.at[out].var)
			continue;
		give_up(data, in);
		give_up(data, out);
		k->values.at[out].as = in;
	}
}

/* False: nothing is lost. */
static bool part_names(Kernel *k, bool strict) {
	uint32_t things = k->values.count + k->buffers.count + k->functions.count + 1;
	Clashes c = {.k = k, .strict = strict, .values = k->values.count, .buffers = k->buffers.count};
	bool lost = false;
	c.begin = arena_array(k->arena, k->stmts.count + 1, sizeof *c.begin);
	c.end = arena_array(k->arena, k->stmts.count + 1, sizeof *c.end);
	c.seen = arena_array(k->arena, k->values.count + 1, sizeof *c.seen);
	c.home = arena_array(k->arena, things, sizeof *c.home);
	c.next = arena_array(k->arena, things, sizeof *c.next);
	for (Thing thing = 0; thing < things; thing++)
		c.home[thing] = NONE;
	walk(&c);
	find_next(&c);
	for (uint32_t i = 0; i < c.reads.count; i++) {
		const Read *read = &c.reads.at[i];
		if (c.home[read->thing] == NONE || !*name_of(&c, read->thing) || !is_lost(&c, read))
			continue;
		lose(&c, read->thing);
		lost = true;
	}
	kernel_walk(k, k->body, part_carried, &c);
	return lost;
}

void kernel_part_names(Kernel *k) {
	if (part_names(k, false))
		part_names(k, true);
}
