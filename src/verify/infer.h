/* infer.h - what the shape rules (src/shapes*.c) share: reading a node's arguments as operands, sizes and dims, and
 * making the inferred type. Nothing outside them and verify.c includes this. */
#ifndef PALLASC_INFER_H
#define PALLASC_INFER_H

#include "src/ir/ir.h"

/* The node whose type is inferred. */
typedef struct Infer {
	Module *m;
	Diag *d;
	NodeId n;
} Infer;

typedef struct Shape {
	uint32_t rank;
	ExprId dims[RANK_MAX]; /* NONE where only the document can know: a slice's length between run-time bounds */
} Shape;

/* A value among the arguments: a tensor, or a number or symbolic value, which have rank 0. */
typedef struct Operand {
	bool absent; /* null */
	bool weak;   /* a Python number, a symbolic value or a tile.scalar: only its category promotes */
	Dtype dtype;
	Shape shape;
} Operand;

/* One rule: false after a diagnostic. */
typedef bool InferRule(const Infer *in, TypeId *type);
#define SHAPE_RULE(e, function) InferRule function;
#include "shape_rules.def"
#undef SHAPE_RULE

/* ---- diagnostics: always false, to be returned ------------------------------------------------------------------- */
bool infer_error(const Infer *in, const char *code, const char *hint, const char *fmt, ...) PRINTF_LIKE(4, 5);
/* "operands of shapes [u0] and [128] do not ..." needs them as text. */
const char *shape_string(const Infer *in, const Shape *s);

/* ---- arguments --------------------------------------------------------------------------------------------------- */
/* A value; null gives an absent one. */
bool infer_operand(const Infer *in, const Arg *arg, Operand *operand);
/* The tensor parameter called `name`, which must be there. */
bool infer_tensor(const Infer *in, const char *name, Operand *operand);
/* Calls for each operand among the node's arguments, in order; the parameter's index is told. */
typedef bool OperandVisitor(const Infer *in, void *context, uint32_t param, const Operand *operand);
bool infer_each_operand(const Infer *in, OperandVisitor *visit, void *context);
/* A size: the expression of an int, {"sym"} or a ref to a symbolic int with one. */
bool infer_size(const Infer *in, const Arg *arg, ExprId *size);
/* The same, without a diagnostic: NONE if it has no expression. */
ExprId arg_expr(Module *m, const Arg *arg);
/* A size whose value is known under the configuration. */
bool infer_number(const Infer *in, const Arg *arg, int64_t *value);
/* A dim of a value of that rank, from a possibly negative one; a rank of 0 counts as 1, as in torch. */
bool infer_dim(const Infer *in, const Arg *arg, uint32_t rank, uint32_t *dim);
/* The dims named by an int or a list, as a set; null or []: all. */
bool infer_dim_set(const Infer *in, const Arg *arg, uint32_t rank, bool set[RANK_MAX]);
/* The list of sizes called `name`; -1 gives NONE. */
bool infer_shape_list(const Infer *in, const char *name, Shape *shape);
bool infer_flag(const Infer *in, const char *name);
/* The type of any argument as a value passed along: to a loop, from a graph. */
TypeId arg_type(Module *m, const Arg *arg);

/* ---- shapes ------------------------------------------------------------------------------------------------------ */
/* Two dims broadcast together: the one that is not 1. */
bool dim_broadcast(Module *m, ExprId a, ExprId b, ExprId *dim);
/* *into becomes the two shapes broadcast together. */
bool shape_broadcast(const Infer *in, Shape *into, const Shape *other);
/* Does `value` broadcast into a place of shape `into`? Leading 1s may be dropped, as when torch stores. */
bool shape_fits(Module *m, const Shape *value, const Shape *into);
bool shape_push(const Infer *in, Shape *s, ExprId dim);
/* The elements of a shape, if known under the configuration. */
bool shape_elements(Module *m, const Shape *s, int64_t *elements);

/* ---- results ----------------------------------------------------------------------------------------------------- */
/* The dtype by the row's rule (shapes_dtype.c). */
bool infer_dtype(const Infer *in, Dtype *dtype);
/* Are the operands' dtypes such as the op takes? */
bool infer_check_categories(const Infer *in);
/* A tensor of that shape and the row's dtype. */
bool infer_result(const Infer *in, const Shape *shape, TypeId *type);
/* A tuple of two tensors. */
void infer_pair(const Infer *in, Dtype a, Dtype b, const Shape *shape, TypeId *type);

/* ---- index lists (shapes_index.c) -------------------------------------------------------------------------------- */
/* The shape that an index list cuts out of a value of shape `base`. */
bool infer_region(const Infer *in, const Shape *base, const Arg *index, Shape *region);

/* Does a node that declares `declared` admit a value of type `value`? As type_equal(), but a symbolic value may be
 * declared as known only at run time. */
bool type_admits(Module *m, TypeId declared, TypeId value);

#endif
