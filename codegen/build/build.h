/* build.h - a Kernel of a Plan. */
#ifndef PALLASC_BUILD_H
#define PALLASC_BUILD_H

#include "codegen/kernel/kernel.h"
#include "codegen/plan/plan.h"

/* build_kernel.c: the kernel of a plan, which counts it. */
Kernel *plan_kernel(Plan *p);
/* What a plan says of scratch in VMEM that a kernel has. */
Scratch scratch_of_buffer(const Target *t, const KBuffer *b, const char *why);
/* build_invariants.c: something does not change along the grid's innermost dim, and takes more to compute than to load.
 */
bool kernel_has_invariants(Kernel *k);
/* It is computed at the first step of that dim, before the rest of it or, `with_rest`, in one piece of straight code
 * with it; returns the bytes of VMEM that keep it, 0 where that cannot be done. */
int64_t kernel_keep_invariants(Kernel *k, const Target *t, bool with_rest);
/* build_opened.c: there are loops of one step on whole resident blocks, which do no more than that step. */
bool kernel_has_steps_to_open(Kernel *k);
/* They are straight code of the kernel. */
void kernel_open_steps(Kernel *k);
/* build_tables.c: rows of a table of 16 bits that stays are gathered one by one. It is widened at the grid's first
 * point; returns the bytes of VMEM that keep it so. */
bool kernel_has_tables(Kernel *k);
int64_t kernel_widen_tables(Kernel *k, const Target *t);
/* All kernels of a program, and the wrapper around them. */
KProgram *program_build(const Program *g);

#endif
