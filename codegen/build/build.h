/* build.h - a Kernel of a Plan. */
#ifndef PALLASC_BUILD_H
#define PALLASC_BUILD_H

#include "codegen/kernel/kernel.h"
#include "codegen/plan/plan.h"

/* build_kernel.c: the kernel of a plan. */
Kernel *plan_kernel(Plan *p);
/* All kernels of a program, and the wrapper around them. */
KProgram *program_build(const Program *g);

#endif
