/* rows.h - passes that compute long rows, and many rows, piece by piece. */
#ifndef PALLASC_ROWS_H
#define PALLASC_ROWS_H

#include "passes/facts/facts.h"

bool pass_whole_rows(PassContext *c);
/* batch.c: the graph fixes the block's size: single positions. */
bool block_is_position(const Module *m, BlockId b);
/* Several positions may be taken at once, and some matmul of a loop, of at most so many rows, becomes one of a batch.
 */
bool positions_may_batch(Module *m, BlockId b, int64_t most_rows);

bool pass_batch(PassContext *c);
bool pass_roll(PassContext *c);
bool pass_row_split(PassContext *c);

#endif
