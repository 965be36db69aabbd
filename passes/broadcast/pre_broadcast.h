/* pre_broadcast.h - what the parts of the pass share: pre_broadcast.c finds the values to spread, pre_broadcast_judge.c
 * refuses some, pre_broadcast_use.c says what a node does with one, pre_broadcast_rewrite.c rewrites the graphs.
 * Nothing else includes this. */
#ifndef PALLASC_PRE_BROADCAST_H
#define PALLASC_PRE_BROADCAST_H

#include "passes/facts/facts.h"

/* A thin value is a row [.., m], or a column [.., m, 1]; spread over the lanes, both are [.., m, 128] with equal lanes.
 */
typedef struct SpreadLoop {
	uint32_t *arg_output, *output_arg; /* the carried pairs by argument and by output; NONE */
	NodeId *getitem;                   /* by output: the first getitem of it, then next_getitem */
	bool in_loop;                      /* the graph, or one around it, is a loop */
	bool is_loop;                      /* it is one itself */
} SpreadLoop;

typedef struct Spreading {
	PassContext *c;
	Module *m;
	Arena *arena;
	int64_t lanes;      /* 128 */
	bool automatic;     /* pallas_pre_broadcast: auto */
	uint32_t nodes;     /* of the Module when the pass began: later ones are its own */
	TypeId *old;        /* by NodeId < nodes: the type before the pass */
	SpreadLoop *loop;   /* by GraphId */
	uint32_t *argument; /* by NodeId of a placeholder: its index */
	NodeId *next_getitem;
	/* Found: */
	bool *reach;                    /* its value meets a wider one in a loop, through thin values only */
	bool *may_spread;               /* tentatively; is_spread() knows of refusals */
	NodeId *parent;                 /* union-find: values that are spread together or not at all */
	bool *met;                      /* by root: something in a loop profits */
	bool *columns;                  /* by root: a step takes something that lies in a column */
	const char **refusal;           /* by root: why it is left alone */
	VEC(NodeId) reached, spreading; /* work: found, but not followed yet */
	/* Rewritten, by NodeId < nodes: */
	NodeId *representative; /* of a spread value: the node that is it now */
	NodeId *narrow;         /* the value in its old shape again */
	NodeId *column;         /* a row value with a last dim of 1 */
	NodeId *spread;         /* a thin value spread where a loop wants it so */
	Map tiles;              /* representative << 32 | width */
} Spreading;

/* How node n takes the thin operand x. */
typedef enum ThinUse {
	THIN_OTHER,    /* unknown to the pass: it gets the old shape */
	THIN_SAME,     /* lane by lane with a result of x's shape: n is spread with x */
	THIN_IDENTITY, /* n is x, or x with or without a last dim of 1 */
	THIN_MEETS     /* x is broadcast against a wider value */
} ThinUse;

ThinUse thin_use(const Spreading *w, NodeId n, NodeId x);
/* Is it spread, now that refusals are known? */
bool is_spread(Spreading *w, NodeId n);
bool is_column(const Module *m, TypeId t);
bool is_tensor_value(const Spreading *w, NodeId n);
/* Its last dim is wider than 1, and a column could be broadcast along it. */
bool is_fat(const Spreading *w, NodeId n);
bool is_lanewise(const Module *m, NodeId n);
/* A reduction along the last dim alone. */
bool reduces_last(const Spreading *w, NodeId n);
/* [.., 128]. */
TypeId spread_type(const Spreading *w, TypeId thin);
/* The width at which a column meets node n's result, if it is a multiple of 128 lanes. */
bool meeting_width(const Spreading *w, NodeId n, int64_t *width);

/* Item i of a list, if it is a node; NONE. */
NodeId item_node(const Module *m, const Arg *list, uint32_t i);
/* The node that stands for all that are spread together with n. */
NodeId find_root(Spreading *w, NodeId n);

void spreading_judge(Spreading *w);
void spreading_rewrite(Spreading *w);

#endif
