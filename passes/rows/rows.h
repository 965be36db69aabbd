/* rows.h - passes that compute long rows, and many rows, piece by piece. */
#ifndef PALLASC_ROWS_H
#define PALLASC_ROWS_H

#include "passes/facts/facts.h"

bool pass_whole_rows(PassContext *c);
bool pass_roll(PassContext *c);
bool pass_row_split(PassContext *c);

#endif
