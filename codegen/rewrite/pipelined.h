/* pipelined.h - a grid whose blocks the kernel itself copies: what rewrite_runs.c, rewrite_grid_loop.c and
 * rewrite_pipelined.c share. */
#ifndef PALLASC_PIPELINED_H
#define PALLASC_PIPELINED_H

#include "rewrite.h"

/* An output of which each step reads and stores the one block that an element of a table, clamped, names. */
typedef struct Visited {
	BufferId out, table, seen, semaphore;
	ValueId place; /* in the body */
	StmtId clamp;  /* makes it */
	int64_t count; /* blocks */
} Visited;

/* The operand's block is not the same one at all points. */
bool block_moves(const Kernel *k, const KBuffer *b);
/* The grid's points can run in the kernel, one after the other. */
bool points_can_run_inside(const Kernel *k);
/* An operand that is there whole: in VMEM as its one block, or in HBM. */
bool operand_is_whole(const Kernel *k, const KBuffer *b);
/* No block ends outside its array. */
bool blocks_fill(const KBuffer *b);
/* ... and some blocks are to be copied earlier than the grid's own pipeline does. */
bool blocks_come_early(const Kernel *k);
/* What is called as an operand is, without its `_ref`, with something behind. */
const char *called_after(Kernel *k, const char *ref, const char *what);
/* The operand as it was, whose array stays in HBM from now on. */
KBuffer leave_in_hbm(Kernel *k, BufferId operand);
/* What the first point alone does, or the last one, of those that compute: to the end of `to`. In the steps it would be
 * a branch of each. */
void take_out(Kernel *k, RegionId steps, bool first, RegionId to);

/* Output b is such a one. */
bool find_visited(Kernel *k, BufferId b, Visited *v);
/* It comes in blocks of one position; what tells which were seen is scratch. */
void cut_blocks(Kernel *k, Visited *v);
/* Before the first step nothing was seen. */
void clear_flags(Kernel *k, const Visited *v, RegionId to);

/* One element of a table. */
RefId element_at(Kernel *k, BufferId b, IntId at);
/* Stores a number there. */
void put_flag(Kernel *k, RegionId to, RefId at, int64_t flag);

#endif
