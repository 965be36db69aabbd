/* bounds.h - what bounds.c does for dce. */
#ifndef PALLASC_BOUNDS_H
#define PALLASC_BOUNDS_H

#include "pass.h"

/* A loop's bounds are clamped to the tensors that it indexes. Accesses whose node is not in `stays` (by NodeId) are
 * about to be removed: bounds that only they hold are clamped now. Makes nodes. */
void bounds_keep(PassContext *c, const bool *stays);

#endif
