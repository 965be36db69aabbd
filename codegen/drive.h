/* drive.h - drivers: they make of a loop statement the function of a step, and what calls it: straight code, a
 * fori_loop with copies, an emit_pipeline. Rewrites of the kernel, that decide nothing. */
#ifndef PALLASC_DRIVE_H
#define PALLASC_DRIVE_H

#include "rewrite.h"

/* Where statements go: before a statement, or to the end of a region. */
typedef struct Cursor {
	RegionId region;
	StmtId before; /* NONE: the end */
} Cursor;

/* The functions of a step: one, or of a skewed loop what runs ahead and the rest. */
typedef enum Part { PART_STEP, PART_AHEAD } Part;

typedef VEC(KArg) KArgs;
typedef VEC(ValueId) ValueIds;

typedef struct Driver {
	Kernel *k;
	KLoop *loop;
	StmtId stmt; /* the loop; what drives it goes before it */
	Cursor at;
	FunctionId part[2];
	bool used[2][RANK_MAX]; /* the part reads that dim's step number */
	bool masked[2];         /* it takes the flag */
	IntId step[RANK_MAX];   /* each dim's step number where statements go */
	const uint32_t *uses;   /* by value, before any loop was driven */
} Driver;

/* drive.c */
StmtId drive_put(Driver *d, uint16_t op, uint32_t arg_count, const KArg *args);
/* With one result that is like the value `like`, called `name`. */
ValueId drive_value(Driver *d, uint16_t op, uint32_t arg_count, const KArg *args, ValueId like, const char *name);
/* A named int where statements go. */
ValueId drive_int(Driver *d, IntId i, const char *name, ValueId as);
/* A value of the same type, which takes over its variable. */
ValueId drive_like(Driver *d, ValueId v);
void drive_store(Driver *d, BufferId buffer, KArg x);
/* `ref[...]`: a value without a variable. */
KArg drive_load(Driver *d, BufferId buffer, ValueId like);
KArg drive_whole(Driver *d, BufferId buffer);
/* A WHEN or IF, into whose region statements go from here on; returns where they went before. */
Cursor drive_when(Driver *d, uint16_t op, IntId condition, const char *name);
/* Makes the function where statements go, and goes into it; returns where they went before. */
Cursor drive_define(Driver *d, FunctionId f);
static inline Cursor drive_into(Driver *d, RegionId r) {
	Cursor before = d->at;
	d->at = (Cursor){r, NONE};
	return before;
}
IntId drive_plus(Driver *d, IntId i, int64_t more);

/* Steps. From here on the step numbers are these: of one dim; of all dims by the loop's own values. */
void drive_set_step(Driver *d, IntId step);
void drive_set_own_steps(Driver *d);
/* `i` of the loop's steps where statements go. */
IntId drive_here(Driver *d, IntId i);
bool drive_reads(const Driver *d, Part part, uint32_t w);
/* Static and zero: there is nothing but the ragged step to run. */
bool drive_no_full_steps(const Driver *d);
/* All steps as one number; false: known only at run time. */
bool drive_static_steps(const Driver *d, int64_t *steps);
/* All dims' steps as one count. */
IntId drive_total_steps(Driver *d);
/* A part of the operand, of which a step sees `win`. */
KArg drive_window(Driver *d, const KWindow *win);

/* Calls. The step numbers that a part reads; the windows it reads, as parts of resident operands. */
void drive_add_steps(Driver *d, Part part, KArgs *args);
void drive_add_resident(Driver *d, Part part, KArgs *args);
/* Calls a part; its results take over the variables of `as`, or go to the buffers `to` that are not NONE. Returns the
 * results by place: of what went to a buffer NONE. */
ValueId *drive_call(Driver *d, Part part, const KArgs *args, const ValueId *as, const BufferId *to);
/* The value, a result of such a call, is what the next step reads: called so, not as what it stands for. */
void drive_call_next(Driver *d, ValueId v);
/* That part reads the number of the step in a dim, or a window of it that lies in a resident operand does; with
 * `windows` false only the first. */
bool drive_window_reads(const Driver *d, const KWindow *win, uint32_t dim);
bool drive_step_read(const Driver *d, Part part, uint32_t dim, bool windows);
/* The ragged last step, straight after the loop: values in, values out. */
void drive_tail(Driver *d, ValueId *values);

/* The loop's own result i, whose variable what it is then takes over. */
static inline ValueId drive_result(const Driver *d, uint32_t i) { return kernel_stmt(d->k, d->stmt)->result + i; }

/* Initial values: their statements go here, up to that of argument i, which is returned. */
KArg drive_initial(Driver *d, uint32_t i);
/* Those that are carried in scratch are stored there; what they are after the loop, of those that are read. */
void drive_fill_scratch(Driver *d);
void drive_read_scratch(Driver *d, ValueId *results);

/* drive_fori.c, drive_pipeline.c: what is carried out of the loop, by argument. */
void drive_fori(Driver *d, ValueId *results);
void drive_pipeline(Driver *d, ValueId *results);

#endif
