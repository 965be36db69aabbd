/* planner.h - what the files that make the Plan share; nobody else includes it. */
#ifndef PALLASC_PLANNER_H
#define PALLASC_PLANNER_H

#include "codegen/kernel/mosaic.h"
#include "plan.h"

/* One of the ways in which a kernel can be planned: a value for each row of choices.def. */
typedef enum PlanRow {
#define CHOICE(row, key) ROW_##row,
#define VALUE(row, name, legal, words)
#include "choices.def"
#undef CHOICE
#undef VALUE
	ROW_COUNT
} PlanRow;
typedef enum PlanValue {
#define CHOICE(row, key)
#define VALUE(row, name, legal, words) row##_##name,
#include "choices.def"
#undef CHOICE
#undef VALUE
	VALUE_COUNT
} PlanValue;

typedef struct PlanWay {
	bool trial;        /* refuse what does not fit without looking for what would */
	const Plan *other; /* of another way: what none can lower is not there, and dtypes are the same; NULL */
	int64_t left;      /* of a refusal: so many plans may be made to say what would fit */
	PlanValue at[ROW_COUNT];
} PlanWay;

typedef struct Planner {
	Plan *plan;
	Module *m;
	Diag *d;
	Arena *a;
	PlanWay way;
} Planner;

/* A refusal at node n. Always false, so that `return refuse(...)` reads well. */
bool plan_refuse(Planner *p, NodeId n, const char *code, const char *hint, const char *fmt, ...) PRINTF_LIKE(5, 6);

static inline bool way_is(const Planner *p, PlanRow row, PlanValue v) { return p->way.at[row] == v; }
/* Windows of an emit_pipeline may hold all its steps: group.c. */
static inline bool way_holds_all(const Planner *p) { return way_is(p, ROW_WINDOWS, WINDOWS_OF_ALL_STEPS); }
/* Inputs stay resident where copies would move more: residency.c. */
static inline bool way_keeps(const Planner *p) { return p->way.at[ROW_WINDOWS] >= WINDOWS_KEPT; }

/* The place where the configuration says something. */
static inline Place config_place(const ConfigOrigin *o) { return (Place){.source = o->source, .pointer = o->pointer}; }

/* affine.c */
Affine affine_int(int64_t value);
Affine affine_var(Arena *a, VarKind kind, uint32_t id, int64_t scale);
Affine affine_term(Arena *a, Term t);
/* The term where its variable has this value; the largest multiple of its scale where that counts to `last`. */
int64_t term_value(const Term *t, int64_t value);
int64_t term_last(const Term *t, int64_t last);
Affine affine_add(Arena *arena, Affine a, Affine b);
Affine affine_sub(Arena *arena, Affine a, Affine b);
Affine affine_scale(Arena *arena, Affine a, int64_t factor);
static inline bool affine_is_int(const Affine *a) { return a->count == 0; }
/* Every value it can take is a multiple of `by`, as far as its coefficients show. */
bool affine_multiple(const Affine *a, int64_t by);
/* a / by, of an affine that is a multiple of it. */
Affine affine_divide(Arena *arena, Affine a, int64_t by);
/* The int that an argument stands for: a literal, an expression, a tile query or arithmetic on these; else VAR_NODE. */
Affine affine_of_arg(Planner *p, GraphId g, const Arg *arg);

bool affine_equal(const Affine *a, const Affine *b);
/* ranges.c: the largest and the smallest value that it can take over the grid and the loops around it; false if that
 * is not known. */
bool affine_max(Planner *p, const Affine *a, int64_t *max);
bool affine_min(Planner *p, const Affine *a, int64_t *min);
/* loops.c: it is a multiple of `by` in every grid point: also tile.end where neither the tile nor its range leaves a
 * rest, which the compiler must be told. */
bool affine_divisible(Planner *p, const Affine *a, int64_t by);
bool affine_uses_program(const Affine *a, uint32_t dim);
/* No two steps of the grid dim have the same values of all these. */
bool affine_tells_program(uint32_t count, const Affine *index, uint32_t dim, int64_t steps);
/* The loop's steps fill the range, in every grid point. */
bool loop_dim_divides(Planner *p, const LoopDim *d);
/* It has ragged steps that do not run after it: each step masks. */
bool loop_ragged_unpeeled(Planner *p, const Loop *loop);
/* The most steps that a loop takes in a dim, over all its calls; false if that is not known. */
bool loop_most_steps(Planner *p, const LoopDim *d, int64_t *steps);
/* The block that a tile query names, as a symbol or by a reference to one. */
BlockId query_block(const Module *m, NodeId n);

/* The loop around graph g that iterates block b (its index in plan->loops and the dim), or NONE: then *dim is its grid
 * dim, or NONE where b is in neither (a reduction dim taken whole). */
uint32_t block_scope(const Plan *plan, GraphId g, BlockId b, uint32_t *dim);
/* First element of the current tile of b, seen from graph g. */
Affine block_offset(Planner *p, GraphId g, BlockId b);
/* Some tile of b has invalid lanes; *end is the range's end, *peeled whether only in a step that runs after its loop.
 */
bool block_ragged(Planner *p, GraphId g, BlockId b, Affine *end, bool *peeled);
int64_t block_size(const Planner *p, BlockId b);

static inline int64_t tensor_dim(const Planner *p, const Tensor *t, uint32_t d) {
	return expr_number(p->m, t->shape[d]);
}
static inline Value *value_of(Planner *p, NodeId n) { return &p->plan->values[n]; }
/* The graph rank of a tensor value; 0 for anything else. */
static inline uint32_t value_rank(const Planner *p, NodeId n) {
	const Type *t = node_type(p->m, n);
	return t->kind == TYPE_TENSOR ? t->count : 0;
}
/* Result i of a called graph. */
static inline NodeId graph_result(const Module *m, const Graph *g, uint32_t i) {
	return arg_item(m, node_arg(m, g->output, 0), i)->node;
}

/* operand.c: they take the same array of the wrapper. */
bool operand_same_array(const Operand *a, const Operand *b);

/* The steps, in order; false after diagnostics. */
bool plan_supported(Planner *p); /* lower.c */
bool plan_limits(Planner *p);    /* limits.c */
/* grid.c. `order`: of the root's dims; NULL: the configuration's, else the graph's. */
bool plan_grid(Planner *p, const uint32_t *order);
/* The configuration gives the order of the grid's dims. */
bool grid_order_given(Planner *p);
bool plan_loops(Planner *p); /* loops.c */
/* straight.c: why this loop is straight code whatever type is asked for; NULL if it is not. Marks the plan if it could
 * be. */
const char *loop_straight(Planner *p, const Loop *loop);
bool plan_accesses(Planner *p); /* access.c */
bool plan_values(Planner *p);   /* values.c */
bool plan_carries(Planner *p);  /* loops.c */
void plan_skew(Planner *p);     /* skew.c */
/* loops.c: a VMEM buffer for a value of a loop; its index in plan->scratches. */
uint32_t carry_scratch(Planner *p, NodeId value, const char *why);
void plan_walk(Planner *p);      /* walk.c: after plan_costs() and plan_seconds() */
void plan_costs(Planner *p);     /* costs.c */
double plan_seconds(Planner *p); /* seconds.c */
/* Windows of a grid operand copied over the whole grid; copies of one window of a loop. */
int64_t operand_fetches(const Plan *p, const Operand *o);
double loop_copies(Planner *p, uint32_t loop);
/* The mean number of times that one grid point enters a loop: the steps of the loops around it. */
double loop_entries(Planner *p, uint32_t loop);
/* fit.c: makes it fit the target's VMEM, or refuses. */
bool plan_fit(Planner *p);
void plan_strips(Planner *p); /* strips.c */
void plan_forms(Planner *p);  /* forms.c */
void plan_masks(Planner *p);  /* masks.c */

/* program.c: all kernels under the sizes in force; NULL after diagnostics (a trial: also without). */
Program *program_plan(Arena *a, Module *m, Diag *d, bool trial);
/* returns.c: what the wrapper does to results; false after diagnostics. */
bool program_returns(Program *g, Module *m, Diag *d);
/* plan.c: the steps, one way, but for what VMEM decides; NULL after diagnostics. Makes it fit VMEM, or false: after a
 * diagnostic, of a trial without. What is left once it is taken. */
Plan *plan_draft(Arena *a, Module *m, Diag *d, PlanWay way);
bool plan_complete(Plan *plan, Module *m, Diag *d, PlanWay way);
void plan_settle(Plan *plan, Module *m);
/* search.c: the best of all ways. NULL after diagnostics (a trial: without). */
Plan *plan_search(Arena *a, Module *m, Diag *d, bool trial);
/* The same with nothing left out. NULL: refused. */
Plan *plan_search_all(Arena *a, Module *m);
/* Of `left` plans that may still be made: what becomes of the way that takes little VMEM. */
typedef enum Verdict { FITS, TOO_LARGE, NOT_TAKEN } Verdict;
Verdict plan_least(Arena *a, Module *m, int64_t *left);
/* Some way fits. */
bool plan_fits_somehow(Arena *a, Module *m, int64_t *left);
/* group.c: the configuration asks for windows of several steps; they hold all of this loop's, else false after a
 * diagnostic. */
bool group_holds_all(const Module *m);
bool group_covers(Planner *p, const Loop *loop);

/* costs.c: of the whole grid; of one matmul; the mean steps of a loop, `tail_too`: with the one that is peeled; mean
 * bytes that a copy of one block moves. */
double grid_points(const Plan *p);
double matmul_flops(Planner *p, NodeId n);
double loop_steps(Planner *p, const Loop *loop, bool tail_too);
double block_hbm_bytes(const Operand *o, const int64_t *block, const Affine *index);

/* strips.c: n may be printed inside its user; bytes of the stashes. */
bool strips_may_inline(const Plan *p, NodeId n, NodeId user);
int64_t strips_bytes(const Plan *p);

/* arith.c: dtypes. Argument i is a condition, which takes no part in promotion. */
bool arith_is_condition(uint16_t op, uint32_t i);
/* The argument is a value, not null, a string, a dtype, ... */
bool arith_is_operand(const Arg *a);
/* The dtype in which a store or atomic makes what it writes, before it is rounded to the tensor's: of an atomic, the
 * wider of both, and at least float32 or int32. */
Dtype arith_write_dtype(const Module *m, NodeId n);
/* In which dtype lanes of a value of so many rows are masked. */
Dtype arith_mask_dtype(Dtype t, int64_t rows);
/* What torch promotes n's operands to. */
Dtype arith_promoted(const Module *m, NodeId n);
/* What jnp would compute n in, given the operands as they are; DTYPE_NONE if it would refuse them. */
Dtype arith_natural(const Module *m, NodeId n);
/* The dtype to convert n's operands to; DTYPE_NONE: they stay as they are. */
Dtype arith_compute_dtype(const Module *m, NodeId n);
/* The dtype in which a LOWER_MOVE moves lanes: of bools, which are masks to Mosaic, int32; DTYPE_NONE: its own. */
Dtype arith_moved_in(const Module *m, NodeId n);
/* The TPU compiler takes what n is lowered to; else false after a diagnostic. */
bool arith_accepts(Planner *p, NodeId n);
/* Bit set of the dtypes of which no kernel can hold this op. */
uint32_t arith_refused_dtypes(uint16_t op);

/* constants.c. A number as one of the dtype: an int wrapped around, a float, a bool; another argument as it is. */
Arg constant_as(const Arg *a, Dtype dtype);
/* What the creation op n puts into every lane. */
Arg constant_of(const Module *m, NodeId n);
/* n is a 0-d constant that is printed as a Python number. */
bool constant_is_number(const Module *m, NodeId n);
/* The argument is a number to jnp: it takes the dtype of what stands beside it. */
bool constant_operand(const Module *m, const Arg *a);

/* lower.c: how an op becomes Python. */
typedef enum Lowering {
	LOWER_NOT,  /* refused */
	LOWER_FREE, /* no code: host tensors, symbolic ints that affine.c reads, ... */
	LOWER_INT,  /* a scalar int that is computed in the kernel */
	LOWER_POINTWISE,
	LOWER_MASK,
	LOWER_REDUCE,
	LOWER_SCAN, /* along one dim, which stays */
	LOWER_VIEW,
	LOWER_MOVE, /* a view that puts lanes elsewhere: moves.c */
	LOWER_MATMUL,
	LOWER_FULL,  /* one value in every lane */
	LOWER_INDEX, /* tile.index, a range of ints */
	LOWER_LOAD,
	LOWER_STORE, /* atomics too */
	LOWER_LOOP,
	LOWER_RESULT, /* getitem of a loop */
	LOWER_ALIAS   /* its first (tile.phi: second) operand by another name */
} Lowering;
/* lower.c: by name; LOWER_NOT for those whose kind and printed form say it all. Tables, for each step of the plan asks.
 */
extern const unsigned char lowering_table[OP_COUNT];
static inline Lowering op_lowering(uint16_t op) { return (Lowering)lowering_table[op]; }
/* Computed register by register as its operands come. */
static inline bool lowering_streams(Lowering how) {
	return how == LOWER_POINTWISE || how == LOWER_MASK || how == LOWER_VIEW || how == LOWER_ALIAS;
}

/* The shapes of a view: what tile.subscript, unsqueeze, squeeze, ... do to a value's dims. */
typedef enum ViewShape {
	VIEW_SHAPE_SAME,
	VIEW_SHAPE_UNIT_LAST,  /* adds a last dim of size 1: a column by another name */
	VIEW_SHAPE_UNIT_FIRST, /* rank 1 to [1, n]: a row by another name */
	VIEW_SHAPE_DROP_LAST,  /* drops a last dim of size 1 */
	VIEW_SHAPE_DROP_FIRST, /* [1, n] to rank 1 */
	VIEW_SHAPE_DROP_ROW,   /* [.., 1, n] to [.., n] */
	VIEW_SHAPE_LANE_0,     /* aten.select.int(x, -1, 0) */
	VIEW_SHAPE_OTHER
} ViewShape;
ViewShape view_shape(const Planner *p, NodeId n);

/* moves.c: the number that a view's argument is, `absent` where there is none; false if it is not known here. */
bool view_number(const Module *m, const Arg *arg, int64_t absent, int64_t *value);
/* The same of the argument called `name`. */
int64_t view_int(const Module *m, NodeId n, const char *name, int64_t absent);
/* What an aten.slice takes of its operand: elements start, start + step, ... */
typedef struct Slice {
	int64_t dim, start, step, count;
} Slice;
Slice slice_of(const Module *m, NodeId n);
/* Bit set of the operands' dims along which a LOWER_MOVE puts lanes elsewhere. */
uint32_t moved_dims(const Module *m, NodeId n);
/* It is a stack along a new last dim. */
bool stacks_last(const Module *m, NodeId n);
/* It picks one lane of each row: aten.select along the last of several dims. */
bool view_picks_lane(const Planner *p, NodeId n);
/* It is a stack along a new last dim of what are columns, or can be: rank 1, sums of rows, lanes. */
bool stacks_columns(const Planner *p, NodeId n);
void form_move(Planner *p, NodeId n);
/* It can be held; else false after a diagnostic. */
bool move_accepted(Planner *p, NodeId n);
/* The axis of a graph dim, counted from the front, of a value in the form: a rank-1 one is a row [1, n]. */
static inline uint32_t move_axis(uint32_t rank, Form form, uint32_t dim) {
	return dim + (rank == 1 && form == FORM_NATURAL);
}

/* The node's operand i that is the matmul's left (0) or right (1) factor, or what is added to it (2); NONE. */
NodeId matmul_operand(const Module *m, NodeId n, int which);

#endif
