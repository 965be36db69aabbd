/* planned.h - the Plan of a Module with one root. */
#ifndef PALLASC_TEST_PLANNED_H
#define PALLASC_TEST_PLANNED_H

#include "codegen/search/search.h"

/* NULL if it is refused. */
static inline Plan *planned_kernel(Arena *a, Module *m, Diag *d) {
	Program *g = program_make(a, m, d);
	return g ? g->kernels.at[0] : NULL;
}

#endif
