/* ints.h - between ints.c and steps.c: ints of a kernel at one grid point, with guesses of what data say. */
#ifndef PALLASC_CORE_INTS_H
#define PALLASC_CORE_INTS_H

#include <math.h>
#include "schedule.h"

typedef struct Ints {
	Kernel *k;
	double *at;      /* by value: of an int, and the mean of a tile of ints; NAN: not known */
	bool *guessed;   /* by value: ... by a guess of what data hold */
	bool guess;      /* what was evaluated last was */
	double *most;    /* by buffer: what its ints are taken to reach; NAN: not known */
	BufferId probed; /* the buffer whose ints are all PROBE, while those of others are 0; NONE */
	bool probing;    /* nothing is clamped */
	double *probe;   /* by statement: a clamp's argument while no buffer is probed */
} Ints;

/* Of which nothing is known yet. */
Ints ints_start(Kernel *k, Arena *a);
/* At the grid point and the steps of loops that `at` says. */
double int_at(Ints *t, IntId i);
/* Finds what the statement gives. */
void find_value(Ints *t, StmtId s);
/* Finds what ints in tables reach: of those that are clamped as much as the clamp lets through. `visit` evaluates a
 * statement, with `data`. */
void find_most(Ints *t, Arena *a, KVisit *visit, void *data);

/* Of what is not negative. */
static inline double remainder_of(double a, double b) { return a - b * floor(a / b); }

#endif
