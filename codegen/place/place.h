/* place.h - where arrays stand: operands, windows, slices. */
#ifndef PALLASC_PLACE_H
#define PALLASC_PLACE_H

#include "codegen/plan/plan.h"

/* False after diagnostics, as all steps of the plan. */
bool plan_scalars(Planner *p);   /* smem.c */
bool plan_accesses(Planner *p);  /* access.c */
void plan_ways(Planner *p);      /* ways.c: of the plan that is taken */
void plan_semantics(Planner *p); /* semantics.c: of the operands that accesses made */

/* operand.c: what the wrapper does to an array for a view of it. */
ArrayStep view_step(const Module *m, const Tensor *view);
/* operand.c: they take the same array of the wrapper. */
bool operand_same_array(const Operand *a, const Operand *b);

/* operand.c: the last block of dim d is `end`; whether the operand's index names some before the first, or behind that.
 */
typedef struct BlocksOutside {
	int64_t end;
	bool before, behind;
} BlocksOutside;
BlocksOutside operand_outside(Planner *p, const Operand *o, uint32_t d);

/* buffers.c: of an input's windows, as the configuration says: pallas_load_buffer_count, 2 where it says nothing. */
int input_buffers(Planner *p, TensorId base);

#endif
