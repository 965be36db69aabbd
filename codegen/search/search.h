/* search.h - the way to plan a kernel: drafts of all, the best of those that fit, and programs of several kernels. */
#ifndef PALLASC_SEARCH_H
#define PALLASC_SEARCH_H

#include "codegen/plan/plan.h"

/* A compilation lowers so many kernels whole at most, in all its trials. */
enum {
	MOST_LOWERINGS = 32,
	LEFT_FOR_LAST = 2 /* of them: for the way that takes little VMEM, and for printing it */
};

/* program.c: all ways to plan a document's kernels under its resolved configuration, none of them lowered yet; NULL:
 * there is no way. `left`: so many kernels may still be lowered; NULL: any number. */
typedef struct Drafts Drafts;
Drafts *program_draft(Arena *a, Module *m, int64_t *left);
/* What program_choose() gives is estimated to take no less. */
double drafts_bound(const Drafts *d);
/* The fastest of them that fits; NULL: none does. */
Program *program_choose(Drafts *d);
double program_seconds(const Program *g);
/* What takes little VMEM; NULL after diagnostics: the graph or the configuration cannot be served, and the message says
 * why and what to change. */
Program *program_frugal(Arena *a, Module *m, Diag *d, int64_t *left);
/* The fastest that fits, else the same. */
Program *program_plan(Arena *a, Module *m, Diag *d, int64_t *left);

/* search.c: of one kernel, every way that stands to choose, drafted; NULL: none can be planned. */
typedef struct Search Search;
Search *search_start(Arena *a, Module *m, int64_t *left);
/* As if this loop type were asked for. */
Search *search_of_type(Arena *a, Module *m, LoopType type, int64_t *left);
/* No plan that search_plan() gives is estimated to be faster. */
double search_bound(const Search *s);
/* The fastest that fits; NULL: none does. */
Plan *search_plan(Search *s);
/* The way that takes little VMEM; NULL after diagnostics. */
Plan *plan_frugal(Arena *a, Module *m, Diag *d, int64_t *left);
/* The same for a trial. */
typedef enum Verdict { FITS, TOO_LARGE, NOT_TAKEN } Verdict;
Verdict plan_frugal_fits(Arena *a, Module *m, LoopType type, int64_t *left);
/* The best with nothing left out; NULL: refused. `bounded`: what was left out, and what was drafted, was estimated to
 * be no slower than it became. */
Plan *plan_search_all(Arena *a, Module *m, bool *bounded);

/* draft.c: the steps, one way, but for what VMEM decides; NULL after diagnostics. Makes it fit VMEM, or false: after a
 * diagnostic, of a trial without. What is left once it is taken. */
Plan *plan_draft(Arena *a, Module *m, Diag *d, PlanWay way);
bool plan_complete(Plan *plan, Module *m, Diag *d, PlanWay way);
void plan_settle(Plan *plan, Module *m);

/* fit.c: it fits the target's VMEM, after giving up second buffers if the way says so. */
bool plan_fit(Planner *p);
/* third.c: a third buffer of what each grid point reads, where that is faster and fits; false after a diagnostic: it is
 * asked for, and cannot be. */
bool plan_third(Planner *p);
/* ... and of the windows that loops copy; behind the choice of the loops. */
void plan_third_windows(Planner *p);
/* One core runs the grid's points, in order: of the plan, and of its kernel. */
void plan_walk_in_order(Plan *plan, const char *why);
/* What the kernel copies itself is there before it: XLA makes none of it in VMEM. */
void plan_fuse_nothing(Planner *p);
/* A point computes on its blocks, and no more; in a plan that has its kernel. */
bool points_only_compute(const Plan *plan);
/* The operand's blocks are copied as they are, and no more. */
bool operand_is_plain(const Operand *o);
double operand_block_bits(const Operand *o);
/* Some window could give up its second buffer. */
bool plan_may_give_up(Planner *p);
/* It does not fit: the diagnostic, with what would. */
void plan_refuse_vmem(Planner *p);
bool refused_for_vmem(const Diagnostic *d); /* it is such a one */
/* points.c: of a plan that fits, what its loop's first step starts with is computed by the grid point before. */
void plan_points(Planner *p);
void plan_walk(Planner *p); /* walk.c: after plan_costs() and plan_seconds() */
/* invariants.c: decides, of a plan that fits. And what its grid is then. */
void plan_keep_invariants(Planner *p);
/* pieces.c: the same. */
void plan_pieces(Planner *p);
/* gather_across.c: of a plan that is taken. */
void plan_gather_across(Planner *p);
/* first_chunks.c: the same. */
void plan_first_chunks(Planner *p);
/* turn_once.c: scratch that it would take, of a kernel whose masked steps are cut, which is changed. And whether a plan
 * that is taken has it. */
void plan_find_turned(Plan *plan, struct Kernel *k);
void plan_turn_once(Planner *p);
void plan_run_in_order(Plan *plan);
/* returns.c: what the wrapper computes before and after the kernels; false after diagnostics. */
bool program_host(Program *g, Module *m, Diag *d);

#endif
