/* rewrite.h - rewrites of a kernel: from kernels to kernels that compute the same, values that are rounded alike. */
#ifndef PALLASC_REWRITE_H
#define PALLASC_REWRITE_H

#include "kernel.h"

typedef struct Rewrite {
	const char *name, *about;
	void (*run)(Kernel *k);
} Rewrite;

/* In their order; the last has no name. */
const Rewrite *kernel_rewrites(void);
const Rewrite *rewrite_find(const char *name);
/* Runs those of `names`, in their own order, or all if `names` is NULL. With `verify`, every kernel is verified after
 * each: false after a diagnostic. */
bool kernels_rewrite(KProgram *p, const char *const *names, uint32_t count, Diag *verify);

#define REWRITE(name, about) void rewrite_##name(Kernel *k);
#include "rewrites.def"
#undef REWRITE

typedef VEC(StmtId) StmtIds;
/* The loops that no driver runs yet, outer ones first. */
StmtIds kernel_loops(Kernel *k);
/* The calls of the functions of a step in a loop's region, once rewrite_split() made them: false, there are none. Of
 * one that is not skewed `ahead` is NONE. */
bool loop_calls(const Kernel *k, StmtId loop, StmtId *ahead, StmtId *step);

#endif
