/* cuts.h - between the files of this room: which blocks, and so which dims of tensors, are cut along which axes. */
#ifndef PALLASC_CUTS_H
#define PALLASC_CUTS_H

#include "shard.h"

/* What becomes of one carried value of a loop of which each device runs a part. */
typedef struct CarriedFact {
	MergeKind kind;
	uint32_t by;          /* SCALED: which of Graph.carried is its running maximum; NONE */
	uint16_t exp;         /* ... OP_EXP or OP_EXP2 */
	int8_t row[RANK_MAX]; /* ... by dim: the dim of the maximum that it goes along; -1 */
	NodeId wrong;         /* no merge makes it good: the node that is to blame; NONE: one does */
} CarriedFact;

typedef struct CarriedFacts {
	CarriedFact *fact; /* by Graph.carried */
	NodeId writes;     /* what the loop writes has a carried value in it; NONE */
} CarriedFacts;

/* A cut loop, in a root, whose results the devices merge before anything else reads them. */
typedef struct Split {
	NodeId call;
	Cut cut;
} Split;

/* A store of a part of a sum, a maximum or a minimum, merged where it lies. */
typedef struct Stored {
	NodeId store;
	MergeKind kind;
	Cut cut;
	Dtype dtype; /* of the part */
} Stored;

typedef struct Cuts {
	Module *m; /* nothing of it is changed by what is here */
	Arena *a;
	const Mesh *mesh;
	const Ring *ring;
	TensorId made;              /* tensors from here on are none of the document's */
	const CarriedFacts **facts; /* by GraphId, of loops that were asked for; they do not depend on cuts */
	Cut *block;                 /* by BlockId */
	ExprId *range;    /* of a cut block: its extent, or of computed ones the dim that it goes along; NONE */
	Parted *tensor;   /* by TensorId */
	Parted *returned; /* by Module.returns */
	Merge *summed;    /* the same: of parts that its step `root` leaves; no cut: there are none */
	BlockId (*counted)[RANK_MAX]; /* by TensorId and dim: it has an element for each tile of this block; NONE */
	VEC(Split) splits;
	VEC(Stored) stored;
	VEC(NodeId) dropped; /* conversions before such a store, which come after the merge */
	VEC(NodeId) queries; /* positions in cut blocks that are asked for */
	double sent;         /* bytes that a device sends and gets */
	const char *why;     /* the first thing that is against it; NULL */
	NodeId at;           /* whose fault it is; NONE */
	bool changed;
} Cuts;

/* What is against it; the first one stays. False, for callers that end with it. */
bool cuts_refuse(Cuts *c, NodeId at, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* The block of this name, or symbol; NULL, or that there is none. */
const char *block_named(const Module *m, const char *name, BlockId *found);
/* The index list of a load, store or atomic. */
static inline const Arg *access_index(const Module *m, NodeId n) { return node_arg(m, n, 1); }

/* An entry of that list which indexes a dim: for (Entry e = {0}; entry_next(m, access, &e);) */
typedef struct Entry {
	const Arg *arg;
	uint32_t dim;
	BlockId block; /* it is a whole tile of it, or the position of a grid that takes one at a time; NONE */
	bool counts;   /* or the number of its tile, in a dim that has an element for each */
	uint32_t next, next_dim;
} Entry;
bool entry_next(const Module *m, NodeId access, Entry *e);
/* The block within a tile of which loops over b go, from its begin to its end; NONE. */
BlockId block_within(const Module *m, BlockId b);
static inline bool cut_is(const Cut *x, const Cut *y) {
	return x->count == y->count && memcmp(x->axis, y->axis, x->count) == 0;
}
/* Of a merge of so many elements: all but one's own part, there and back; one way for what stays in parts. */
void cuts_send(Cuts *c, double elements, Dtype dtype, const Cut *cut);

/* Elements of a dim on one device; of a dim that only a configuration tells, 1. */
double cuts_size(const Cuts *c, TensorId t, uint32_t d);

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
/* Which merges are of a ring's steps, and whether nothing else goes past them; of one device's document. */
bool ring_settle(Cuts *c, Sharding *s);
/* shard.c: on how many devices each part differs; a step's parts are in turn on the same ones. */
int64_t devices_of(const Cuts *c, const Cut *cut);
/* The number of the root that a node is in, as kernels are counted. */
uint32_t root_number(const Module *m, NodeId n);
/* All steps are one: the kernel's. */
void ring_forget_steps(Cuts *c);
void ring_explain(const Cuts *c, Sharding *s);
Cut cut_without(const Cut *cut, uint32_t axis);
/* carried.c: the facts of loop graph g, in the arena. */
const CarriedFacts *carried_facts(const Module *m, Arena *a, GraphId g);
/* As the graph calls what Graph.carried i is. */
static inline const char *carried_name(const Module *m, GraphId g, uint32_t i) {
	const Graph *graph = graph_get(m, g);
	return node_get(m, graph->placeholders.at[graph->carried.at[i].arg])->name;
}
/* Behind new_var and phi; NONE: it is no node's value. */
NodeId behind_aliases(const Module *m, NodeId n);
/* A number, or a value with that in all lanes. */
bool arg_is_filled(const Module *m, const Arg *a, double *value);
/* merges.c: what the cut loop that graph g is leaves on each device can be merged: Cuts.splits or Cuts.stored says how.
 */
bool cuts_merge_loop(Cuts *c, GraphId g, const Cut *cut);
/* An atomic at the same places in each step of a block with this cut: each device has its own array, all are merged. */
bool cuts_merge_atomic(Cuts *c, NodeId atomic, const Cut *cut);
/* What carried value i is before the first step; is it nothing, so that each device can begin with it? A sum that is
 * not begins at 0, and what it began at is added when it is merged. */
const Arg *carried_first(const Module *m, GraphId g, uint32_t i);
bool carried_begins_as_nothing(const Module *m, GraphId g, uint32_t i, const CarriedFact *fact);
/* split.c: what follows the loop can be a kernel of its own. */
bool split_is_possible(Cuts *c, NodeId call, const Cut *cut);
/* ... and is one, for all Cuts.splits; blocks are one device's by now. The merges behind both get Merge.root. */
void split_roots(Cuts *c, Sharding *s);
/* The positions that a device has of a cut block. */
static inline int64_t cuts_part(const Cuts *c, BlockId b) {
	return c->m->exprs.at[c->range[b]].value / cut_parts(c->mesh, &c->block[b]);
}
/* cuts.c: the loop graph g goes over the whole range of its block i. */
bool goes_over_all(const Cuts *c, GraphId g, uint32_t i);
/* positions.c: a query of a cut block's positions can be answered. */
bool position_is_known(Cuts *c, NodeId query);
/* ... and is, for all Cuts.queries: with the offset of the device's part. */
void positions_shift(Cuts *c, Sharding *s);
/* The loop graph g goes from and to positions of the whole range of its block i: from now on over those of the device's
 * part among them. */
void positions_clip(Cuts *c, Sharding *s, GraphId g, uint32_t i);

#endif
