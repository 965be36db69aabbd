/* vmem.h - how much VMEM a kernel takes, known before the TPU compiler says so. */
#ifndef PALLASC_VMEM_H
#define PALLASC_VMEM_H

#include "codegen/plan/plan.h"

/* vmem.c: fills p->vmem, the limit, and what is asked for; where buffers alone do not fit without what the kernel
 * spills, unless `all`. */
void plan_vmem(Plan *p, const Module *m, bool all);
/* The most bytes that the plan is accepted with: its limit, but for the margin. */
int64_t plan_vmem_line(const Plan *p);

#endif
