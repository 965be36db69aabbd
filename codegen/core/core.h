/* core.h - the time of a kernel: a model of the TensorCore that runs it, from the Kernel as it is built.
 *
 *     statement --work*.c--> operations on vector registers, by unit
 *     region    --schedule.c--> cycles: what its units need, and what waits for what
 *     kernel    --time.c--> cycles: loops times their steps, the grid, and copies beside it
 *
 * Plans, reports and sweeps say it. Ways of planning one kernel are compared by plan_seconds(), which needs no kernel.
 */
#ifndef PALLASC_CORE_H
#define PALLASC_CORE_H

#include "codegen/kernel/kernel.h"
#include "codegen/plan/plan.h"

typedef enum Unit {
	UNIT_MXU,
	UNIT_PUSH,
	UNIT_POP,
	UNIT_VALU,
	UNIT_XLU,
	UNIT_EUP,
	UNIT_LOAD,
	UNIT_STORE,
	UNIT_SCALAR,
	UNIT_COUNT
} Unit;

/* A row of units.def. */
typedef struct Units {
	double per_cycle[UNIT_COUNT]; /* operations; of the MXU cycles */
	double matrix_units, matmul_cycles, transpose_cycles;
	bool adds_results, multiplies_ints;
	double valu_wait, load_wait, eup_wait, xlu_wait, matmul_wait, copy_wait;
} Units;

/* units.c: by Unit, as plans and modules call them. */
extern const char *const unit_names[UNIT_COUNT];
/* Those of a chip; of one that nobody measured, those of a chip with such matrix units. */
const Units *units_of(const Target *t);

/* Operations of each unit; of the MXU cycles that its units are busy, shared evenly. */
typedef struct Work {
	double of[UNIT_COUNT];
	double chain; /* cycles that it takes at least: each of its operations waits for the one before */
	double again; /* how often more it waits for the XLU */
} Work;

/* What runs on the units. */
typedef struct Core {
	const Kernel *k;
	const Target *t;
	const Units *u;
	Arena *a;
	struct Expander *expander; /* how values lie in registers: expander_of() */
	Work **works;              /* by statement: once it is known */
	const bool *gone;          /* by statement: gone_statements(); NULL */
	bool *narrow;              /* by value: a column that stands in one lane; until it is spread over all */
	const double *beside;      /* by buffer: of a window how often it starts within a register's lanes; NULL */
	bool bound;                /* no more than units must take: nothing waits for another */
} Core;

/* Cycles by part: of each unit those in which its slots would be full, of HBM those of its bytes. */
typedef struct CoreTime {
	double cycles;           /* in all */
	double busy[UNIT_COUNT]; /* by unit */
	double compute;          /* in which a grid point's statements run, over the grid */
	double hbm;              /* bytes over the bandwidth */
	double hbm_bytes;        /* that copies move */
	double waits;            /* for copies that nothing hides */
	double start;            /* before the first grid point and behind the last one */
	double steps;            /* between grid points and between steps of loops */
} CoreTime;

/* work.c: all that runs on the units may wait for something else. */
Core core_of(const Kernel *k, const Target *t, Arena *a);
/* Of a statement without the regions in it. */
const Work *statement_work(const Core *c, StmtId s);
double value_registers(const Core *c, ValueId v);
/* By statement: one that the compiler does without, a bool made an int that is made a bool again. */
const bool *gone_statements(const Kernel *k, Arena *a);
/* Vector registers of an array as it stands in VMEM. */
double array_registers(const Target *t, Dtype dtype, uint32_t rank, const int64_t *shape);
/* The axes of a reduction: along lanes, along any other dim. */
bool reduces_lanes(const Kernel *k, StmtId s);

/* time.c: nothing of the kernel changes. */
void kernel_time(Kernel *k, const Target *t, Arena *a, CoreTime *out);
/* Of a plan's kernel, which is built if it is not there. */
void plan_time(Plan *p, Arena *a, CoreTime *out);
/* Adds that of a kernel that runs after the others. */
void core_time_add(CoreTime *to, const CoreTime *x);
/* Of the kernels of a program, one after the other. */
void program_time(const Program *g, Arena *a, CoreTime *out);
/* Cycles of them that program_time() does not undercut, for a third of its work: what the units have to do, and copies.
 */
double program_bound(const Program *g, Arena *a);

/* operations.c: what the kernels do to vector registers, over all their runs, as JSON: in all, and by statement. Of a
 * loop whose steps data decide one step. */
void operations_emit(const KProgram *p, const Target *t, Text *out);

#endif
