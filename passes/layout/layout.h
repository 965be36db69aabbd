/* layout.h - passes that turn values: rows to columns, matmuls to transposed ones. */
#ifndef PALLASC_LAYOUT_H
#define PALLASC_LAYOUT_H

#include "passes/facts/facts.h"

bool pass_columns(PassContext *c);
bool pass_orient(PassContext *c);

#endif
