/* orient.h - what the halves of the pass share: orient.c finds the values to turn, orient_rewrite.c turns them. */
#ifndef PALLASC_ORIENT_H
#define PALLASC_ORIENT_H

#include "passes/facts/facts.h"

/* How a value stands after the pass. */
typedef enum Stand {
	STAND_ASIS,
	STAND_TURNED, /* [.., m, n] is [.., n, m] */
	STAND_LANES,  /* a row statistic [.., m] or [.., m, 1] is [.., 1, m]: along the lanes */
	STAND_ACROSS  /* what all rows share, an index [n] or [1, n] or a loaded vector [.., n], runs along sublanes, as
	                 [n, 1] or [.., n, m]: only as an operand */
} Stand;

typedef struct Orient {
	PassContext *c;
	Module *m;
	Arena *arena;
	uint32_t nodes;    /* of the Module when the pass began: later ones are its own */
	TypeId *old;       /* by NodeId < nodes: the type before the pass */
	uint8_t *stand;    /* by NodeId < nodes: Stand */
	uint32_t *index;   /* by NodeId of a placeholder: which argument it is */
	bool *used;        /* by NodeId < nodes: before the pass, something used it */
	VEC(NodeId) found; /* what is turned with the matmul that is looked at, as far as it was followed */
	uint32_t followed;
	bool reduces;    /* in a loop, rows of them are reduced */
	bool meets_rows; /* in a loop, they meet a loaded vector of one value for each row */
	bool unswaps;    /* in a loop, one of them is wanted swapped, as it then stands */
	const char *why; /* why not; NULL: nothing speaks against it */
	NodeId at;       /* where that is */
	/* Rewritten, by NodeId < nodes: */
	NodeId *now;                            /* the node that is the turned value */
	NodeId *asis, *turned, *lanes, *across; /* a value made to stand so where a user wants it; NONE */
} Orient;

/* A node of the pass's own stands as it is. */
static inline Stand stand_of(const Orient *o, NodeId n) { return n < o->nodes ? (Stand)o->stand[n] : STAND_ASIS; }
/* Before the pass there was such a node, and it is a tensor of one or more dims. NONE is none. */
bool is_old_tile(const Orient *o, NodeId n);
/* The shape of a value of type t in another stand. */
TypeId turned_type(const Orient *o, TypeId t, Stand s);
/* A last dim of 1 more or less is all that it does: [.., m] to [.., m, 1] or back. */
bool is_unit_view(const Orient *o, NodeId n);
/* How operand x must stand beside the turned result of n, lane by lane; STAND_ASIS: there is no way. */
Stand beside_turned(const Orient *o, NodeId n, NodeId x);
/* Turned, x is what it swaps, which stands as it is. */
bool swaps_asis(const Orient *o, NodeId x, Stand s);
/* The tile.index that x is, or is with a dim of 1 in front; NONE. */
NodeId across_index(const Orient *o, NodeId x);
/* The loaded vector [.., n] of 32 bits an element that x is, or is with a dim of 1 before the last; NONE. */
NodeId across_load(const Orient *o, NodeId x);

void orient_rewrite(Orient *o);

#endif
