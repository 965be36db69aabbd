/* default_blocks.h - what configure.c asks of default_blocks.c. */
#ifndef PALLASC_DEFAULT_BLOCKS_H
#define PALLASC_DEFAULT_BLOCKS_H

#include "src/ir/ir.h"

/* What a block's tiles are used for. */
typedef struct BlockUse {
	bool free, contracted; /* rows or columns of a matmul's result; what a matmul sums over */
	bool columns;          /* of the result, which the MXU takes as many at a time as it is wide */
	uint32_t rank;         /* the most dims of a tensor that it indexes; 0: none */
	uint32_t from_end;     /* of those tensors' dims, its nearest to the last one: 0 is the last */
	int64_t reach;         /* the longest dim that it indexes; 0: unknown */
} BlockUse;

/* By BlockId. */
BlockUse *block_uses(Module *m);
/* The size of a block by itself; `extent` is 0 if unknown. */
int64_t default_block(const Module *m, const BlockUse *use, int64_t extent);
/* No smaller default is tried. */
int64_t default_least(const BlockUse *use);
/* Cuts what together makes tiles too large, and widens outer dims of small ones; `sizes` and `candidate` are by
 * BlockId. True if any changed. */
bool default_blocks_balance(Module *m, const BlockUse *uses, const bool *candidate, int64_t *sizes);

#endif
