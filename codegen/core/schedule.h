/* schedule.h - between schedule.c, steps.c and time.c of this room. */
#ifndef PALLASC_CORE_SCHEDULE_H
#define PALLASC_CORE_SCHEDULE_H

#include "core.h"

/* Straight code, from an idle core to an idle core: its cycles, those of each unit, and of loops in it the cycles of
 * waits for copies and between steps, and the bytes that they copy. */
typedef struct Run {
	double cycles, busy[UNIT_COUNT];
	double waits, steps, hbm_bytes;
} Run;

/* What a statement with regions takes: time.c. */
typedef const Run *NestedRun(void *data, StmtId s);

/* A region `copies` times, one after the other, each given what the one before yields. */
Run region_run(const Core *c, RegionId r, const KLoop *loop, uint32_t copies, NestedRun *nested, void *data);

/* steps.c: by statement: of a loop, the mean of its steps each time it is entered. */
double *loop_trips(Kernel *k, Arena *a);
double grid_points_of(const Kernel *k);

static inline double larger(double a, double b) { return a > b ? a : b; }

static inline void run_add(Run *to, const Run *x, double times) {
	to->cycles += times * x->cycles;
	for (uint32_t u = 0; u < UNIT_COUNT; u++)
		to->busy[u] += times * x->busy[u];
	to->waits += times * x->waits;
	to->steps += times * x->steps;
	to->hbm_bytes += times * x->hbm_bytes;
}

#endif
