/* place.h - where arrays stand: operands, windows, slices. */
#ifndef PALLASC_PLACE_H
#define PALLASC_PLACE_H

#include "codegen/plan/plan.h"

/* False after diagnostics, as all steps of the plan. */
bool plan_accesses(Planner *p); /* access.c */

/* operand.c: they take the same array of the wrapper. */
bool operand_same_array(const Operand *a, const Operand *b);

#endif
