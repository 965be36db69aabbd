/* roll.h - what roll.c decides, roll_axes.c finds and roll_rewrite.c does. */
#ifndef PALLASC_ROLL_H
#define PALLASC_ROLL_H

#include "passes/facts/facts.h"

/* Dims of values that run together, as sets: an elementwise op joins its operands' dims with its own, a reduction ends
 * the dims that it reduces. A slot is dim d of node n: n * RANK_MAX + d; of a store, dim d of what it writes. */
typedef struct AxisFact {
	bool accessed;   /* a load or store takes all of a tensor's dim here */
	bool reduced;    /* something is reduced along it */
	const char *why; /* it cannot be cut into blocks: the reason; NULL */
	NodeId at;       /* the node that says so */
} AxisFact;

typedef struct Axes {
	Module *m;
	Arena *arena;
	GraphId graph;
	uint32_t nodes;   /* how many the Module had */
	uint32_t *parent; /* by slot */
	AxisFact *fact;   /* by slot, of a set's representative */
} Axes;

/* Of the nodes of graph g. */
Axes axes_of(Arena *a, Module *m, GraphId g);
uint32_t axis_find(Axes *a, uint32_t slot);
static inline uint32_t axis_slot(NodeId n, uint32_t dim) { return n * RANK_MAX + dim; }
/* How many dims node n has slots for: its value's, or those of what it writes. */
uint32_t axis_rank(const Axes *a, NodeId n);
/* The entry of an access' index list that gives dim `dim` of what it names; NONE. */
uint32_t index_entry_of(Module *m, NodeId access, uint32_t dim);

typedef enum RollRole {
	ROLL_OUTSIDE, /* has no row: stays outside the loops */
	ROLL_ROW,     /* has the row as a dim: is computed again in each loop that needs it, block by block */
	ROLL_REDUCE,  /* reduces the row: its loop carries what it has so far */
	ROLL_WRITE    /* writes the row: in the last loop */
} RollRole;

enum { ROLL_NO_DIM = 0xff };

typedef struct Roll {
	PassContext *c;
	Module *m;
	GraphId graph;
	BlockId block;
	int64_t extent, step;
	VEC(int64_t) later; /* the lengths of rows that are rolled after this one */
	uint8_t *dim;       /* by NodeId: which dim is the row; ROLL_NO_DIM */
	RollRole *role;     /* by NodeId */
	uint32_t *level;    /* by NodeId: how many loops must have run */
	uint32_t nodes;     /* how many the Module had */
	uint32_t loops;
	bool reduces;
	const char *why; /* not: the reason */
	NodeId at;
} Roll;

/* Can the op's result over the row be put together from those over its blocks? */
bool roll_reduces(const Module *m, NodeId n);
void roll_rewrite(Roll *r);

#endif
