/* int_ranges.h - between which ints each int of the kernel lies, whatever the inputs hold: the fact on which the pass
 * int64 decides in how many bits a value can be computed. */
#ifndef PALLASC_INT_RANGES_H
#define PALLASC_INT_RANGES_H

#include "src/ops/ops.h"

/* Both ends belong to it. */
typedef struct IntRange {
	int64_t low, high;
} IntRange;

typedef struct IntRanges {
	Module *m;
	Arena *a;
	IntRange *of; /* by NodeId; of a value that is no int or bool: all ints */
	/* While a choice is looked at: what its condition says of one node. */
	NodeId given;
	IntRange given_range;
} IntRanges;

/* The ranges of all nodes, under the configuration. Each loop is gone through twice at most. */
IntRanges int_ranges(Arena *a, Module *m);

/* What the dtype holds: of floats, all ints. */
IntRange dtype_range(Dtype t);
/* What an argument may be: a number, a symbol, a node's value. */
IntRange arg_range(const IntRanges *r, const Arg *a);
bool range_within(IntRange inner, IntRange outer);
bool range_is_one(IntRange r);

#endif
