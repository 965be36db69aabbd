/* values.h - values in the kernel: their forms, and which lanes are masked. */
#ifndef PALLASC_VALUES_H
#define PALLASC_VALUES_H

#include "codegen/plan/plan.h"

/* False after diagnostics, as all steps of the plan. */
bool plan_values(Planner *p); /* values.c */
void plan_forms(Planner *p);  /* forms.c */
void plan_masks(Planner *p);  /* masks.c */
void plan_wheres(Planner *p); /* wheres.c */
void plan_folds(Planner *p);  /* folds.c: after all of these */

#endif
