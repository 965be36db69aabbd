/* builder.h - what the build_*.c files share: they make a Kernel of a Plan, node by node, and decide nothing but where
 * a value with one user is computed. */
#ifndef PALLASC_BUILDER_H
#define PALLASC_BUILDER_H

#include "codegen/kernel/kernel.h"
#include "codegen/plan/plan.h"
#include "codegen/rewrite/rewrite.h"

/* A value in another form than its own, where it was made. */
typedef struct Converted {
	uint64_t key; /* node, form, and whether it is of what runs ahead */
	ValueId value;
} Converted;

/* Computed positions, where they were last copied to that scratch. */
typedef struct Brought {
	uint32_t smem;
	ValueId value;
	RegionId at;
	uint16_t flags; /* of the statements */
} Brought;

typedef struct Builder {
	Plan *plan;
	const Module *m;
	Arena *a;
	Kernel *k;
	RegionId at;          /* statements go to its end */
	const Location *from; /* the source line of the node that is being built */
	const Location *also;
	uint16_t flags;    /* of its statements */
	ValueId flag;      /* of the loop: this step is one of the last, which all choices are made in; NONE */
	bool *made;        /* by node: it is a statement, or a part of one; else folded away */
	bool *sunk;        /* by node: its one user computes it, in its own expression */
	KArg *value;       /* by node, once it is built */
	BufferId *operand; /* by operand */
	BufferId *scratch; /* by scratch */
	BufferId **window; /* by loop and window: the step's parameter */
	ValueId *program;  /* by grid dim: its program id in the kernel's function */
	IntId *step;       /* by loop * RANK_MAX + dim */
	const IntId
		*place; /* by tensor dim that an access finds by an int tensor, while one of its positions is built */
	IntId slot;     /* of scratch that has several: which of them; NONE: nothing has */
	const NextPoint *next; /* the grid's, once something asks for it */
	ValueId barrier, me;   /* of a kernel that copies to other devices: the barrier's semaphore, the own place */
	bool met;              /* nothing has happened since the last barrier */
	GraphId ahead; /* a loop of which a window is built, the root for the grid's: what its steps compute is read
	                * from tables; NONE */
	VEC(Converted) converted;
	VEC(Brought) brought;
} Builder;

static inline Planner build_planner(const Builder *b) { return (Planner){.plan = b->plan, .m = b->m, .a = b->a}; }

/* build_host.c */
void build_host(const Program *g, KProgram *out);

/* build_order.c: which nodes are built, and which where their one user is. */
void build_order(Builder *b);

/* build_ints.c. An affine where statements go. */
IntId build_affine(Builder *b, const Affine *a);
IntId build_clamped(Builder *b, IntId x, int64_t low, int64_t high);
/* Of 1-D ints that are a row of a table, that at `piece`: a position in a dim of so many, the nearest if it is none. */
IntId build_place(Builder *b, NodeId places, ValueId piece, int64_t extent);
/* Of ints that are part of a table, that at a position in each dim: as it is. */
IntId build_table_place(Builder *b, NodeId n, const IntId *piece);
/* Divided by `by`, or the rest of that. */
IntId build_divided(Builder *b, const Affine *a, int64_t by, bool rest);
/* The int as an argument: a number if it is known. */
KArg build_int_arg(Builder *b, IntId i);

/* build_values.c */
/* The graph dims of node n's value. */
uint32_t type_rank(const Builder *b, NodeId n);
/* The shape of node n's value. */
uint32_t built_shape(const Builder *b, NodeId n, Form form, int64_t *shape);
/* A statement where statements go, with one result, and that. */
KArg build_op(Builder *b, uint16_t op, Dtype dtype, uint32_t arg_count, const KArg *args, uint32_t int_count,
              const int64_t *ints);
KArg build_shaped(Builder *b, uint16_t op, Dtype dtype, uint32_t rank, const int64_t *shape, uint32_t arg_count,
                  const KArg *args);
static inline KArg build_unary(Builder *b, uint16_t op, Dtype dtype, KArg x) {
	return build_op(b, op, dtype, 1, &x, 0, NULL);
}
static inline KArg build_binary(Builder *b, uint16_t op, Dtype dtype, KArg x, KArg y) {
	return build_op(b, op, dtype, 2, (const KArg[]){x, y}, 0, NULL);
}
/* A statement without a result. */
StmtId build_statement(Builder *b, uint16_t op, uint32_t arg_count, const KArg *args);
/* Statements go into a region that runs if the condition holds. */
void build_when(Builder *b, KArg condition, const char *name);
/* What it would like to be called: a variable for a value that had none. */
void build_name(Builder *b, KArg x, const char *name);
/* Called as node n, or, where a tracer named that after its op, after its operand. */
void build_name_of(Builder *b, KArg x, NodeId n);
Dtype karg_dtype(const Builder *b, KArg x);
/* A Python number, which has no dtype. */
static inline bool arg_is_number(KArg x) {
	return x.kind == KARG_INTEGER || x.kind == KARG_REAL || x.kind == KARG_BOOL;
}
/* A literal, or the number that an expression is. */
KArg build_number(const Module *m, const Arg *a);
/* The kernel's op of a reduction's. */
uint16_t build_reduction_op(uint16_t op);
/* How a value lies that is in a form; `vector`: of a graph value of one dim. */
Layout build_layout(const KValue *v, Form form, bool vector);
/* Node n's value in a form; computed here if it is sunk. */
KArg build_value(Builder *b, NodeId n, Form form);
KArg build_value_for(Builder *b, NodeId n, Form form, NodeId view);
KArg build_arg(Builder *b, const Arg *a, Form form);
/* What computes node n itself. */
KArg build_node_value(Builder *b, NodeId n);
/* The index along a dim that a view of one is; KARG_NONE. */
KArg build_index_view(Builder *b, NodeId n);

/* build_pointwise.c */
KArg build_pointwise(Builder *b, NodeId n);
KArg build_as(Builder *b, KArg x, Dtype dtype);
KArg build_scalar(Builder *b, KArg x, Dtype dtype);
/* By a way that Mosaic has. */
KArg build_converted(Builder *b, KArg x, Dtype from, Dtype to);
/* The same of a scalar: Mosaic widens narrow floats to float32 alone, and narrows them from there. */
KArg build_converted_scalar(Builder *b, KArg x, Dtype from, Dtype to);
/* An operand in the dtype in which its op computes; as it is if that is DTYPE_NONE. */
KArg build_computed(Builder *b, const Arg *a, Form form, Dtype compute);
/* A number beside ints is one of them: cut off after the point, wrapped around. */
KArg build_beside_ints(Builder *b, const Arg *a, Dtype ints);

/* build_views.c */
KArg build_view(Builder *b, NodeId n);
KArg build_move(Builder *b, NodeId n);

/* build_places.c: at one position after the other. */
KArg build_gather(Builder *b, NodeId n);
void build_scatter(Builder *b, NodeId n);

/* build_memory.c */
/* The part of its buffer that an access covers; that as a value, of a ref that has it as it lies. */
RefId build_ref(Builder *b, const Access *access);
KArg build_region(Builder *b, const Access *access);
/* One element of the access. */
KArg build_element(Builder *b, const Access *access, Dtype to);
/* What stands at the position of a write, or in all lanes around it (Places.lanes), in 32 bits. */
KArg build_old_at(Builder *b, NodeId n);
/* What is written at one position: `value`, of the region's dims, under `mask` if there is one. `old`: build_old_at(),
 * if it is there already. `there`: of what build_puts_within(), nothing is written where this does not hold; NONE. */
void build_write_at(Builder *b, NodeId n, KArg value, KArg mask, KArg old, IntId there);
KArg build_load(Builder *b, NodeId n);
void build_write(Builder *b, NodeId n);
/* `scalar_ref[0]`, or the number that it is. */
KArg build_runtime_scalar(Builder *b, NodeId n);
void build_masks(Builder *b, NodeId n, KArg x, KArg fill);
/* A choice by position: its value with the number in the other lanes. */
KArg build_masked(Builder *b, NodeId n);

/* build_turns.c: slices from where Mosaic slices nothing. Some dim of the access is one. */
bool access_turns(const Access *access);
/* Where what is read around a slice starts, or the window that is copied for it: at a whole tile. */
IntId build_base(Builder *b, const SliceDim *s);
KDim build_around(Builder *b, const SliceDim *s);
/* What an access reads, of what is read around it; `unit`: a dim that stays although one position is read; NONE. */
KArg build_turned(Builder *b, const Access *access, uint32_t unit, KArg x);
/* What is written around it: x in its place in what stands there, or that alone where `there` is not NONE and does not
 * hold. */
KArg build_put(Builder *b, const Access *access, uint32_t unit, KArg x, KArg old, IntId there);
/* Its place is chosen among those around it. */
bool build_puts_within(const Access *access);

/* build_remote.c */
/* The mesh, and a barrier before all else: no copy comes to a device that is not in the kernel. */
void build_mesh(Builder *b);
/* A copy, a wait or a barrier. */
void build_remote(Builder *b, NodeId n);
/* Of a tensor that stays in HBM, by a DMA that is waited for. */
KArg build_staged_load(Builder *b, NodeId n);
void build_staged_store(Builder *b, NodeId n);

/* build_graph.c */
void build_node(Builder *b, NodeId n);
void build_graph(Builder *b, GraphId g);
/* build_loop.c */
void build_loop(Builder *b, NodeId call);

/* build_invariants.c, and of build_tables.c: a branch behind the program ids, taken where the condition holds, still
 * empty. */
StmtId build_first_when(Kernel *k, IntId condition, const char *name);

/* build_debug.c: the value of node n is to be printed; prints it, behind the point of the grid and of the loops. */
bool is_printed(const Builder *b, NodeId n);
void build_debug_print(Builder *b, NodeId n);

#endif
