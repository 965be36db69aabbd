/* drive.h - drivers: of a loop statement, whose region calls the functions of a step, they make what runs it: straight
 * code, a fori_loop with copies, an emit_pipeline. They place copies and what is carried, and decide nothing: which
 * step a call is of, and what stands before and behind the loop, says the loop itself. */
#ifndef PALLASC_DRIVE_H
#define PALLASC_DRIVE_H

#include "rewrite.h"

/* Where statements go: before a statement, or to the end of a region. */
typedef struct Cursor {
	RegionId region;
	StmtId before; /* NONE: the end */
} Cursor;

typedef struct Driver Driver;

/* Where a loop runs next: there values `from` are `to`. Both have room for one more. */
typedef struct Elsewhere {
	ValueId *from;
	IntId *to;
	uint32_t moved; /* so many */
	IntId count;    /* steps before it, which say in which buffer its first windows lie */
} Elsewhere;

/* A loop in a step of a loop around it, whose first windows the item before copies: drive_items.c. */
typedef struct Item {
	KLoop *loop;
	uint32_t number; /* among the kernel's */
	IntId step;      /* of the loop around it */
	IntId steps;     /* of that: so many items are at a point */
	BufferId counts; /* steps of all items before this one; 1: its first windows are on their way */
} Item;
typedef struct Items {
	VEC(Item) at;
	FunctionId start_next;
} Items;

/* What a driver does about the calls of a region: the part of memory that stands for a window at a step, NONE for the
 * region's own; what goes before and behind a call, or NULL. */
typedef struct Placing {
	KArg (*window)(Driver *d, uint32_t w, IntId at);
	void (*before)(Driver *d, StmtId call);
	void (*behind)(Driver *d, StmtId call);
} Placing;

struct Driver {
	Kernel *k;
	KLoop *loop;
	StmtId stmt; /* the loop; what drives it goes before it */
	Cursor at;
	const Placing *placing;
	StmtId told;                 /* the call for which placing->before was asked; NONE */
	IntId step[RANK_MAX];        /* each dim's step number where statements go */
	const ValueId *from;         /* values that are others where a window of another grid point is named, */
	const IntId *to;             /* and these, */
	uint32_t moved;              /* so many */
	IntId named, by;             /* instead of the expression `named`, which has a variable; NONE */
	uint32_t **uses;             /* by value, once somebody asks */
	struct Fori *fori;           /* drive_fori.c's own */
	struct Pipelined *pipelined; /* drive_pipeline.c's own */
	const Items *items;          /* the kernel's */
	const Item *item;            /* the loop is one of them; else NULL */
};

/* drive.c */
StmtId drive_put(Driver *d, uint16_t op, uint32_t arg_count, const KArg *args);
/* A named int where statements go. */
ValueId drive_int(Driver *d, IntId i, const char *name, ValueId as);
/* The same as an int. */
IntId drive_named(Driver *d, IntId i, const char *name);
/* One more parameter of a function, an int. */
IntId drive_parameter(Kernel *k, FunctionId f, const char *name);
/* Calls a function that makes a copy, and starts that, or waits for it. */
void drive_put_copy(Driver *d, uint16_t op, FunctionId copy, uint32_t count, const KArg *args);
KArg drive_whole(Driver *d, BufferId buffer);
/* A WHEN, into whose region statements go from here on; returns where they went before. */
Cursor drive_when(Driver *d, IntId condition, const char *name);
/* Makes the function where statements go, and goes into it; returns where they went before. */
Cursor drive_define(Driver *d, FunctionId f);
static inline Cursor drive_into(Driver *d, RegionId r) {
	Cursor before = d->at;
	d->at = (Cursor){r, NONE};
	return before;
}

/* Steps. From here on the step numbers of all dims are the loop's own values. */
void drive_set_own_steps(Driver *d);
/* The grid's point: by dim its program id. */
ValueId *drive_program(Driver *d);
/* An int of the loop's region where statements go. */
IntId drive_here(Driver *d, IntId i);
/* Static and zero: there is nothing but the ragged step to run. */
bool drive_no_full_steps(const Driver *d);
/* All dims' steps as one count. */
IntId drive_total_steps(Driver *d);
/* How often the region runs. */
static inline IntId drive_runs(Driver *d) { return d->loop->runs != NONE ? d->loop->runs : drive_total_steps(d); }

/* The int with a load, where statements go, for each element that it reads. */
IntId drive_loaded(Driver *d, IntId i);

/* The loop's window that an argument is; NONE. */
uint32_t drive_window_of(const Driver *d, const KArg *x);
/* Windows. A part of the operand, of which a step sees `win`. */
KArg drive_window(Driver *d, const KWindow *win, IntId at);
/* A window's place in its operand reads the number of the step in that dim. */
bool drive_window_reads(const Driver *d, const KWindow *win, uint32_t dim);
/* The call reads that window: at the step *at, NONE the region's own. */
bool drive_call_reads(const Driver *d, StmtId call, uint32_t w, IntId *at);
/* The next call of the region, from `s` on; NONE. */
StmtId drive_next_call(const Kernel *k, StmtId s);
/* Something of the region reads the number of the step in a dim; windows that are copied do not count. */
bool drive_step_read(const Driver *d, RegionId r, uint32_t dim);

/* What is carried where a region stands, by carried value: in scratch, or else a value. */
typedef struct Flow {
	ValueId *value;            /* what the region reads, then what it yields */
	const BufferId *from, *to; /* NONE: a value */
	uint32_t first;            /* of those that the region yields */
} Flow;
/* The statements of a region go where statements go, and are of these values. Its yield is none of them. */
void drive_region(Driver *d, RegionId r, const Placing *placing, Flow *flow);
/* Of what is carried, the first that what stands before the loop gives. */
uint32_t drive_first_given(const Driver *d);
/* For Flow.from and .to, by carried value: all are values; those are in scratch that the loop keeps there. */
const BufferId *drive_values(const Driver *d);
/* The ragged last step, straight after the loop: values in, values out. */
void drive_tail(Driver *d, ValueId *values);

/* Of what comes out of the loop: so many values are. */
static inline uint32_t drive_results(const Driver *d) { return kernel_stmt(d->k, d->stmt)->result_count; }
/* The loop's own result i, whose variable what it is then takes over. */
static inline ValueId drive_result(const Driver *d, uint32_t i) { return kernel_stmt(d->k, d->stmt)->result + i; }

/* Where a number stands a value of it, like `like`, and called so. */
ValueId drive_let(Driver *d, KArg x, ValueId like);

/* Initial values. The statement that gives one, and those that it reads, go where statements go: of argument i, which
 * is returned. */
void drive_move_initial(Driver *d, KArg x);
KArg drive_initial(Driver *d, uint32_t i);
/* Those that are carried in scratch are stored there; what they are after the loop, of those that are read. */
void drive_fill_scratch(Driver *d);
void drive_read_scratch(Driver *d, ValueId *results);

/* drive_fori.c. Of a grid of several points; `within`: the next one of the last point is that itself. */
NextPoint drive_next_point(Driver *d, bool within);
/* So many ints in SMEM, which are there from point to point, and what stands in one of them. */
BufferId drive_counts(Kernel *k, int64_t count);
void drive_store_count(Driver *d, BufferId counts, IntId at, IntId count);
IntId drive_load_count(Driver *d, BufferId counts, IntId at, const char *name);
/* Starts the copies of the first windows of a loop that runs elsewhere. */
void drive_first_windows(Driver *d, Elsewhere there);

/* drive_items.c. Of loops that no driver runs yet: NULL if there are no items. */
const Items *drive_items(Kernel *k, const StmtId *loops, uint32_t count);
/* In the last step of an item. */
void items_start_next(Driver *d);

/* drive_unroll.c, drive_fori.c, drive_pipeline.c: what is carried out of the loop, by argument. */
void drive_unroll(Driver *d, ValueId *results);
void drive_fori(Driver *d, ValueId *results);
void drive_pipeline(Driver *d, ValueId *results);
/* drive_bodies.c: all that stands behind the loop goes into the bodies. */
void drive_bodies(Driver *d);

#endif
