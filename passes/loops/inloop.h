/* inloop.h - what the two files of inloop_loads share: inloop_chain.c says which values may move into a loop and
 * whether that pays, inloop_loads.c moves them. */
#ifndef PALLASC_INLOOP_H
#define PALLASC_INLOOP_H

#include "passes/facts/facts.h"

/* What the walk of a graph notes at each node. */
typedef struct NodeNote {
	uint32_t order;   /* position in its graph; of a load moved behind a loop: the loop's */
	uint64_t version; /* of a load: when its tensor was last written */
	uint64_t whiles;  /* the whiles met so far */
} NodeNote;

typedef struct Sink {
	PassContext *c;
	Module *m;
	Arena *arena;
	Effects effects;
	bool always;        /* pallas_inloop_loads is on: also what costs arithmetic in each step */
	VEC(NodeNote) note; /* by NodeId */
	uint64_t *version;  /* by base TensorId: when it was last written, in the walk of the graph at hand */
	uint64_t now, whiles;
	/* Of the loop at hand: */
	GraphId loop;
	NodeId call;
	const bool *pinned; /* by argument: carried, or the rows' lengths */
	VEC(NodeId) moving; /* what moves into it, operands before users */
	Map chosen;         /* the members of `moving` */
	Map inner;          /* by node of the graph around: the one in the loop that stands for it */
	Map inner_host;     /* by TensorId: the loop's tile.host_tensor */
	NodeId before;      /* moved nodes are put before this one */
	/* Of the value at hand: */
	VEC(NodeId) chain; /* what would move, operands before users */
	Map in_chain;
	uint32_t loads;
	const char *why; /* it moves, or stays */
} Sink;

/* Costs nothing to repeat, has no operands that could move: names of tensors and scalars, symbols, queries of tiles. */
bool inloop_is_leaf(const Module *m, NodeId n);
/* Finds the chain of an argument of the loop at hand, which moves as a whole or not at all; `why` says why. */
bool inloop_plan_chain(Sink *s, NodeId value);

#endif
