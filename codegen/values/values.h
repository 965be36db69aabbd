/* values.h - values in the kernel: their forms, and which lanes are masked. */
#ifndef PALLASC_VALUES_H
#define PALLASC_VALUES_H

#include "codegen/plan/plan.h"

/* False after diagnostics, as all steps of the plan. */
bool plan_values(Planner *p); /* values.c */
void plan_forms(Planner *p);  /* forms.c */
void plan_masks(Planner *p);  /* masks.c */
void plan_wheres(Planner *p); /* wheres.c */
/* The condition is false in all lanes of its dim `from_last` (counted from the last) before `lane`, or else from it on.
 */
bool condition_leaves(Planner *p, NodeId condition, uint32_t from_last, const Affine *lane, bool before);
void plan_folds(Planner *p);   /* folds.c: after all of these */
void plan_factors(Planner *p); /* factors.c: after those too */

#endif
