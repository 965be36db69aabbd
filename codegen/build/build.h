/* build.h - a Kernel of a Plan. */
#ifndef PALLASC_BUILD_H
#define PALLASC_BUILD_H

#include "codegen/kernel/kernel.h"
#include "codegen/plan/plan.h"

/* build_kernel.c: the kernel of a plan, which counts it. */
Kernel *plan_kernel(Plan *p);
/* build_invariants.c: something does not change along the grid's innermost dim, and takes more to compute than to load.
 */
bool kernel_has_invariants(Kernel *k);
/* It is computed at the first step of that dim; returns the bytes of VMEM that keep it. */
int64_t kernel_keep_invariants(Kernel *k, const Target *t);
/* build_tables.c: rows of a table of 16 bits that stays are gathered one by one. It is widened at the grid's first
 * point; returns the bytes of VMEM that keep it so. */
bool kernel_has_tables(Kernel *k);
int64_t kernel_widen_tables(Kernel *k, const Target *t);
/* All kernels of a program, and the wrapper around them. */
KProgram *program_build(const Program *g);

#endif
