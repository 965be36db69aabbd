/* mask_blocks.h - into what masked steps are cut: blocks of rows and columns, of so many steps at most.
 * rewrite_blocks.c cuts them; the plan, and what says how much they spill, count on it. */
#ifndef PALLASC_MASK_BLOCKS_H
#define PALLASC_MASK_BLOCKS_H

#include <stdint.h>

enum { MASK_BLOCK = 256, MASK_STEPS = 12 };

/* Rows, or columns, of a block where there are so many. */
static inline int64_t mask_block(int64_t size) {
	return size > MASK_BLOCK && size % MASK_BLOCK == 0 ? MASK_BLOCK : size;
}

#endif
