/* simplify.h - the same values by less: each of these passes leaves results as they are. */
#ifndef PALLASC_SIMPLIFY_H
#define PALLASC_SIMPLIFY_H

#include "passes/decompose/decompose.h"

bool pass_const_fold(PassContext *c);
bool pass_whiles(PassContext *c);
bool pass_jagged(PassContext *c);
bool pass_branches(PassContext *c);
bool pass_cse(PassContext *c);
bool pass_scale_after_max(PassContext *c);
bool pass_trim(PassContext *c);
bool pass_dce(PassContext *c);

/* branches.c: some value of the atomic leaves what is there as it is; it becomes that where the mask does not hold. */
bool atomic_has_identity(const Module *m, NodeId n);
void atomic_guard(Decompose *d, NodeId n, NodeId taken);

#endif
