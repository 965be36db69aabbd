/* simplify.h - the same values by less: each of these passes leaves results as they are. */
#ifndef PALLASC_SIMPLIFY_H
#define PALLASC_SIMPLIFY_H

#include "passes/facts/facts.h"

bool pass_const_fold(PassContext *c);
bool pass_whiles(PassContext *c);
bool pass_branches(PassContext *c);
bool pass_cse(PassContext *c);
bool pass_scale_after_max(PassContext *c);
bool pass_trim(PassContext *c);
bool pass_dce(PassContext *c);

#endif
