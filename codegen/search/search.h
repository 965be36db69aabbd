/* search.h - the way to plan a kernel: drafts of all, the best of those that fit, and programs of several kernels. */
#ifndef PALLASC_SEARCH_H
#define PALLASC_SEARCH_H

#include "codegen/plan/plan.h"

/* Decides everything for the Module under its resolved configuration. NULL after diagnostics: the graph or the
 * configuration cannot be served, and the message says why and what to change. */
Program *program_make(Arena *a, Module *m, Diag *d);
/* The same where a refusal is nobody's: without a diagnostic. */
Program *program_try(Arena *a, Module *m);

void plan_walk(Planner *p); /* walk.c: after plan_costs() and plan_seconds() */
/* fit.c: makes it fit the target's VMEM, or refuses. */
bool plan_fit(Planner *p);

/* program.c: all kernels under the sizes in force; NULL after diagnostics (a trial: also without). */
Program *program_plan(Arena *a, Module *m, Diag *d, bool trial);
/* returns.c: what the wrapper does to results; false after diagnostics. */
bool program_returns(Program *g, Module *m, Diag *d);
/* draft.c: the steps, one way, but for what VMEM decides; NULL after diagnostics. Makes it fit VMEM, or false: after a
 * diagnostic, of a trial without. What is left once it is taken. */
Plan *plan_draft(Arena *a, Module *m, Diag *d, PlanWay way);
bool plan_complete(Plan *plan, Module *m, Diag *d, PlanWay way);
void plan_settle(Plan *plan, Module *m);
/* search.c: the best of all ways. NULL after diagnostics (a trial: without). */
Plan *plan_search(Arena *a, Module *m, Diag *d, bool trial);
/* The same with nothing left out. NULL: refused. */
Plan *plan_search_all(Arena *a, Module *m);
/* Of `left` plans that may still be made: what becomes of the way that takes little VMEM. */
typedef enum Verdict { FITS, TOO_LARGE, NOT_TAKEN } Verdict;
Verdict plan_least(Arena *a, Module *m, int64_t *left);
/* Some way fits. */
bool plan_fits_somehow(Arena *a, Module *m, int64_t *left);

#endif
