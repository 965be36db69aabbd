/* lower.h - how an op becomes code of the kernel: in which dtype, as what, and what no kernel can hold. */
#ifndef PALLASC_LOWER_H
#define PALLASC_LOWER_H

#include "codegen/plan/plan.h"

/* False after diagnostics, as all steps of the plan. */
bool plan_supported(Planner *p); /* lower.c */
bool plan_limits(Planner *p);    /* limits.c */

/* arith.c: dtypes. The argument is a value, not null, a string, a dtype, ... */
bool arith_is_operand(const Arg *a);
/* The dtype in which a store or atomic makes what it writes, before it is rounded to the tensor's: of an atomic, the
 * wider of both, and at least float32 or int32. */
Dtype arith_write_dtype(const Module *m, NodeId n);
/* In which dtype lanes of a value of so many rows are masked; `loose`: they may lie in tiles of their own. */
Dtype arith_mask_dtype(Dtype t, int64_t rows, bool loose);
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

/* Computed register by register as its operands come. */
static inline bool lowering_streams(Lowering how) {
	return how == LOWER_POINTWISE || how == LOWER_MASK || how == LOWER_VIEW || how == LOWER_ALIAS;
}

/* The getitem n takes what a loop gives; else of a sort. */
static inline bool takes_of_loop(const Module *m, NodeId n) { return node_get(m, node_input(m, n, 0))->op != OP_SORT; }

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
/* It, or the index list of a LANES_INDEX, can be lowered; else false after a diagnostic. */
bool move_accepted(Planner *p, NodeId n);
bool index_accepted(Planner *p, NodeId n);
/* The axis of a graph dim, counted from the front, of a value in the form: a rank-1 one is a row [1, n]. */
static inline uint32_t move_axis(uint32_t rank, Form form, uint32_t dim) {
	return dim + (rank == 1 && form == FORM_NATURAL);
}

/* The node's operand i that is the matmul's left (0) or right (1) factor, or what is added to it (2); NONE. */
NodeId matmul_operand(const Module *m, NodeId n, int which);
/* What x rounds to dtype `to`, or x: 32-bit tiles are turned in less time than 16-bit ones. */
NodeId before_rounding(const Module *m, NodeId x, Dtype to);

#endif
