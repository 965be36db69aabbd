/* cuts.h - between the files of this room: which blocks, and so which dims of tensors, are cut along which axes. */
#ifndef PALLASC_CUTS_H
#define PALLASC_CUTS_H

#include "shard.h"

typedef struct Cuts {
	Module *m; /* nothing of it is changed by what is here */
	Arena *a;
	const Mesh *mesh;
	const Ring *ring;
	Cut *block;                  /* by BlockId */
	Parted *tensor;              /* by TensorId: dims, and sums that are still to be added up */
	Parted *returned;            /* by Module.returns */
	VEC(NodeId) stored, dropped; /* stores of such sums; conversions before them, which come after the sum */
	const char *why;             /* the first thing that is against it; NULL */
	NodeId at;                   /* whose fault it is; NONE */
	bool changed;
} Cuts;

/* What is against it; the first one stays. False, for callers that end with it. */
bool cuts_refuse(Cuts *c, NodeId at, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* The block whose position an index entry is: of a whole tile, or of a grid that takes one position at a time. */
BlockId entry_block(const Module *m, const Arg *entry);
/* The block of this name, or symbol; NULL, or that there is none. */
const char *block_named(const Module *m, const char *name, BlockId *found);
/* The index list of a load, store or atomic. */
static inline const Arg *access_index(const Module *m, NodeId n) { return node_arg(m, n, 1); }
static inline bool cut_is(const Cut *x, const Cut *y) {
	return x->count == y->count && memcmp(x->axis, y->axis, x->count) == 0;
}

/* cuts.c: from the cuts of some blocks those of all tensors and other blocks, and whether each device then computes
 * what its part of the results is. False: `why` says what is against it. */
bool cuts_solve(Cuts *c);
/* ring.c: the axis of what travels, and behind those of the mesh that of its steps; NULL, or what is wrong. */
const char *ring_read(const Module *m, Mesh *mesh, const ShardRequest *request, Ring *ring);
bool ring_moves(const Ring *ring, TensorId t);
/* The steps are of parts of all that travels. */
bool ring_reaches(const Cuts *c);
/* What a solved Cuts has is a ring. False: `why` says what is against it. */
bool ring_check(Cuts *c);
/* How an input, and what is returned, lies on the mesh, and what of it a step takes or gives; from whole sizes. */
Parted ring_input(const Cuts *c, TensorId t);
Parted ring_output(const Cuts *c, uint32_t r);
/* Why it is none, where no block could be asked. */
const char *ring_nothing(const Module *m, const Ring *ring);
/* All steps are one: the kernel's. */
void ring_forget_steps(Cuts *c);
void ring_explain(const Cuts *c, Sharding *s);
bool cut_has(const Cut *cut, uint32_t axis);
Cut cut_without(const Cut *cut, uint32_t axis);
/* sums.c: each step of the loop that graph g is adds to what it gives, and sums are stored as they are. */
bool cuts_sum_loop(Cuts *c, GraphId g, const Cut *cut);

#endif
