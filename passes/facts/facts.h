/* facts.h - what every pass needs: its context, remarks, and facts of a Module that are found without changing it. */
#ifndef PALLASC_FACTS_H
#define PALLASC_FACTS_H

#include "src/ir/ir.h"

/* What the passes decided and why, for --explain: one line each. */
typedef struct Remark {
	const char *pass, *message;
} Remark;

typedef struct PassContext {
	Module *module;
	Diag *diag;
	Arena *arena; /* for scratch that may live as long as the Module */
	VEC(Remark) remarks;
	bool explain; /* remarks are wanted */
} PassContext;

void pass_remark(PassContext *c, const char *pass, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Resolves the configuration again, and finds again the facts that were found: a pass has changed the Module, and
 * sizes depend on which loops there are and who reads a size. False after diagnostics. */
bool pass_facts_again(PassContext *c);

/* The passes of this folder. */
bool pass_loop_types(PassContext *c);
bool pass_block_constraints(PassContext *c);
bool pass_int64(PassContext *c);
bool pass_bounds(PassContext *c);

/* ---- effects.c: which host tensors each graph writes, by itself or through the graphs it calls ------------------- */

typedef struct GraphEffects {
	VEC(TensorId) written; /* base tensors, each once */
	bool has_while;        /* it or a graph below it calls a while */
} GraphEffects;

typedef struct Effects {
	GraphEffects *graph; /* by GraphId */
	Map writes;          /* graph << 32 | base: a member of `written` */
} Effects;

/* Linear: each write is noted in the graphs around it, whose depth is bounded. */
Effects effects_of(Arena *a, const Module *m);
bool graph_writes(const Effects *e, GraphId g, TensorId base);
/* The base tensor that a load, store or atomic touches. */
TensorId access_base(const Module *m, NodeId n);
/* The graphs that call node n runs: up to two; returns their count. */
uint32_t call_graphs(const Module *m, NodeId n, GraphId graphs[2]);

/* ---- int_ranges.c: between which ints each int of the kernel lies, whatever the inputs hold ---------------------- */

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

/* ---- indirect.c: loads at the positions of an int tensor, and what each way to do them takes -------------------- */

typedef struct OneHot {
	NodeId load, index;
	uint32_t entry; /* of the load's index: the dim of the table that the positions are in, */
	ExprId extent;  /* and its size */
	bool last;      /* it is the last dim: the table stands before the one-hot matrix */
	int64_t positions, rows, columns;
	bool shares;            /* one of several products with the same matrix, and not the first */
	uint32_t first, planes; /* the bytes of an element that are a factor each: of so many, from which one on */
} OneHot;

/* Why the load is none; NULL: it is. */
const char *one_hot_of(const Module *m, NodeId load, OneHot *o);
/* It is estimated to take less time than slices. */
bool one_hot_pays(const Module *m, const OneHot *o);
/* The node is the product of a one-hot matrix and one byte of a table's elements. */
bool one_hot_product(const Module *m, NodeId n, OneHot *o);
/* Cycles: of all products but what the matrix unit takes at its peak; of a row of so many elements that is sliced from
 * a block in VMEM; of one that is copied from HBM, and maybe picked from those in one word. */
double one_hot_cycles(const Target *t, const OneHot *o);
double row_sliced_cycles(const Target *t, Dtype dtype, double elements);
double row_copied_cycles(bool picked);
/* Cycles of all products with what the matrix unit takes; of lanes of rows that registers have, taken there. */
double one_hot_all_cycles(const Target *t, const OneHot *o);
double lanes_taken_cycles(const Target *t, int64_t rows, int64_t size, int64_t count);

/* The ways to access a tensor where an int tensor says. */
typedef enum IndirectWay { WAY_SLICE, WAY_DYNAMIC, WAY_ONE_HOT, WAY_LANES, WAY_DMA, WAY_COUNT } IndirectWay;
typedef struct WayCost {
	double cycles;   /* each time that a tile's positions are gone through */
	const char *why; /* why it is not possible; NULL: it is */
} WayCost;
/* "x: dynamic slice, about 500 cycles a time; one-hot matmul: 700; no DMA gather: ..." */
const char *ways_text(Arena *a, const char *tensor, IndirectWay taken, const WayCost *cost);

/* ---- bounds.c ---------------------------------------------------------------------------------------------------- */

/* A loop's bounds are clamped to the tensors that it indexes. Accesses whose node is not in `stays` (by NodeId) are
 * about to be removed: bounds that only they hold are clamped now. Makes nodes. */
void bounds_keep(PassContext *c, const bool *stays);

#endif
