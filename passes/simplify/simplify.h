/* simplify.h - the same values by less: each of these passes leaves results as they are, but for
 * scale_in_q, which is asked for. */
#ifndef PALLASC_SIMPLIFY_H
#define PALLASC_SIMPLIFY_H

#include "passes/decompose/decompose.h"

bool pass_const_fold(PassContext *c);
bool pass_whiles(PassContext *c);
bool pass_jagged(PassContext *c);
bool pass_branches(PassContext *c);
bool pass_summed_parts(PassContext *c);
bool pass_cse(PassContext *c);
bool pass_id_masks(PassContext *c);
bool pass_scale_in_q(PassContext *c);
bool pass_scale_after_max(PassContext *c);
bool pass_trim(PassContext *c);
bool pass_dce(PassContext *c);

/* branches.c: some value of the atomic leaves what is there as it is; it becomes that where the mask does not hold. */
bool atomic_has_identity(const Module *m, NodeId n);
void atomic_guard(Decompose *d, NodeId n, NodeId taken);

/* scale_after_max.c: the number that an argument is known to be, as a literal or a scalar with a value; false if it is
 * not known. The argument of node n, a product of a tile and a positive number, that is the number; NONE. */
bool known_number(const Module *m, const Arg *a, double *value);
uint32_t scale_index(Module *m, NodeId n);

#endif
