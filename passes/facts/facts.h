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

typedef struct GraphLiveness {
	bool *output;         /* by output: its value is needed */
	uint32_t *arg_output; /* by argument: the output carried to it; NONE */
	uint32_t *output_arg; /* by output: the argument that it is carried to; NONE */
	bool live;            /* something in it is: its call is needed */
} GraphLiveness;

typedef struct Liveness {
	NodeId known; /* how many nodes there were: later ones are live */
	bool *live;   /* by NodeId: a write depends on it */
	GraphLiveness *graph;
} Liveness;

/* In the pass's arena. */
Liveness liveness_of(PassContext *c);
/* It runs graphs, whose results are its own. */
static inline bool op_is_call(uint16_t op) { return op == OP_FOR_LOOP || op == OP_IF || op == OP_WHILE; }

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
/* A node of any graph writes it. */
bool tensor_is_written(const Module *m, TensorId base);
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

/* Of tensors that stand for int64: what atomics add up there is of int32. False after a diagnostic. */
bool int64_sums_fit(PassContext *c);

/* What the dtype holds: of floats, all ints. */
IntRange dtype_range(Dtype t);
/* What an argument may be: a number, a symbol, a node's value. */
IntRange arg_range(const IntRanges *r, const Arg *a);
bool range_within(IntRange inner, IntRange outer);
bool range_is_one(IntRange r);

/* ---- indirect.c: accesses at the positions of int tensors, and what each way to do them takes ------------------ */

typedef struct OneHot {
	NodeId load, index;
	uint32_t entry; /* of the load's index: the dim of the table that the positions are in, */
	ExprId extent;  /* and its size */
	bool last;      /* it is the last dim: the table stands before the one-hot matrix */
	int64_t positions, rows, columns;
	bool apart;             /* of the table, each row has registers of its own */
	bool shares;            /* one of several products with the same matrix, and not the first */
	uint32_t first, planes; /* the bytes of an element that are a factor each: of so many, from which one on */
} OneHot;

/* Why the load is none; NULL: it is. */
const char *one_hot_of(const Module *m, NodeId load, OneHot *o);
/* It is estimated to take less time than slices. */
bool one_hot_pays(const Module *m, const OneHot *o);
/* The node is the product of a one-hot matrix and one byte of a table's elements. */
bool one_hot_product(const Module *m, NodeId n, OneHot *o);

/* A load whose elements are taken from registers: lanes of rows, or rows of few. */
typedef struct VectorGather {
	NodeId index;
	bool rows;
	int64_t size, count, others; /* of the tensor's dim; positions; elements of the other dim */
} VectorGather;

/* Why the load is none; NULL: it is. */
const char *vector_gather_of(const Module *m, NodeId load, VectorGather *v);
/* So many lanes of each row, of rows of `size`, are taken in registers. */
bool may_take_lanes(const Module *m, int64_t rows, int64_t size, int64_t count);

enum { LINE_DEPTH = 4 }; /* ops of an index that are looked through */
/* The entry is tile.index, or an arange, and ints added to it: a slice, where that lies in the tensor. */
bool entry_counts_up(const Module *m, const Arg *entry);

/* Cycles: of products with a one-hot matrix, but what the matrix unit takes at its peak; of access n's positions, whose
 * elements are sliced from a block in VMEM one after the other; of so many that are copied from HBM, `bytes` in all,
 * and maybe picked from those in one word; of a tensor of positions that was computed, and is copied to SMEM. */
double one_hot_cycles(const Target *t, const OneHot *o);
double rows_sliced_cycles(const Module *m, NodeId n, double positions, double elements);
double rows_copied_cycles(const Target *t, double positions, double bytes, bool picked);
double positions_copied_cycles(void);

/* What each way takes the access of node n, at so many positions of so many elements each; or why it is none. */
void indirect_costs(const Module *m, NodeId n, double positions, double elements, WayCost *cost);
/* Of an access that is about to become other nodes. */
void indirect_note(PassContext *c, NodeId n, IndirectWay way);
const char *indirect_way_name(IndirectWay way);

/* ---- bounds.c ---------------------------------------------------------------------------------------------------- */

/* A loop's bounds are clamped to the tensors that it indexes. Accesses whose node is not in `stays` (by NodeId) are
 * about to be removed: bounds that only they hold are clamped now. Makes nodes. */
void bounds_keep(PassContext *c, const bool *stays);

#endif
