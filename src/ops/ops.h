/* ops.h - the op table: one row per target in ops.def, from which loading, shape inference, verification, the passes,
 * the printer and docs/ops.md are all read. */
#ifndef PALLASC_OPS_H
#define PALLASC_OPS_H
#include "src/base/base.h"

/* ---- element types ---------------------------------------------------------------------------------------------- */

typedef enum Dtype {
#define DTYPE(e, name, class, ...) DTYPE_##e,
#include "dtypes.def"
#undef DTYPE
	DTYPE_COUNT,
	DTYPE_NONE = DTYPE_COUNT
} Dtype;

typedef enum DtypeClass { DTYPE_CLASS_BOOL, DTYPE_CLASS_UNSIGNED, DTYPE_CLASS_SIGNED, DTYPE_CLASS_FLOAT } DtypeClass;

const char *dtype_name(Dtype t);  /* "bfloat16" */
const char *dtype_jnp(Dtype t);   /* "jnp.bfloat16" */
const char *dtype_brief(Dtype t); /* "bf16" */
int dtype_bits(Dtype t);          /* of one element in memory; bool is 8 */
int dtype_vmem_bits(Dtype t);     /* of one element as Pallas keeps it in VMEM: bool is an int32 there */
int dtype_significant(Dtype t);   /* bits of a float's significand, with the leading one */
double dtype_largest(Dtype t);    /* the greatest finite value of a float */
DtypeClass dtype_class(Dtype t);
Dtype dtype_find(const char *name); /* DTYPE_NONE if there is no such type */
bool dtype_is_float(Dtype t);
Dtype dtype_promote(Dtype a, Dtype b); /* torch.promote_types; what it refuses: dtype.c */
Dtype dtype_of_sums(Dtype t);          /* float32 or int32 */
Dtype dtype_widened(Dtype t);          /* the same; a dtype of 32 bits stays as it is */

/* ---- ops --------------------------------------------------------------------------------------------------------- */

typedef enum OpKind {
	KIND_POINTWISE, /* lane by lane, operands broadcast */
	KIND_REDUCTION, /* along dims */
	KIND_VIEW,      /* moves lanes, computes nothing */
	KIND_MATMUL,
	KIND_MEMORY, /* reads or writes a host tensor */
	KIND_CREATION,
	KIND_STRUCTURE, /* loops, ifs, getitem, placeholders, ... */
	KIND_QUERY,     /* tile.begin, ... : symbolic ints of the tile */
	KIND_SYMBOLIC   /* Python's operator names on symbolic values */
} OpKind;

/* How a result's shape follows from the arguments (shapes.c has one function per rule). */
typedef enum ShapeRule {
#define SHAPE_RULE(e, function) SHAPE_##e,
#include "shape_rules.def"
#undef SHAPE_RULE
	SHAPE_RULE_COUNT
} ShapeRule;

/* How its dtype does. */
typedef enum DtypeRule {
	RULE_NONE,          /* no value, or the shape rule decides both */
	RULE_SAME,          /* the first tensor argument's */
	RULE_PROMOTE,       /* torch promotion over all tensor operands; Python numbers are weak */
	RULE_PROMOTE_FLOAT, /* the same, ints and bools become float32 */
	RULE_PROMOTE_REST,  /* PROMOTE over all operands but the first, a condition */
	RULE_DIV_MODE,      /* PROMOTE with a rounding mode, PROMOTE_FLOAT without */
	RULE_BOOL,
	RULE_INT32,
	RULE_SUM, /* ints and bools become int32, or int64 if `meta` says so; floats stay; or the dtype argument */
	RULE_ARG  /* the dtype argument */
} DtypeRule;

/* How it is printed in the kernel. */
typedef enum PrintForm {
	PRINT_CUSTOM,  /* the planner and printer know it by its op */
	PRINT_CALL,    /* text(a, b, ...) */
	PRINT_INFIX,   /* a text b */
	PRINT_PREFIX,  /* text a */
	PRINT_TEMPLATE /* text with {0}, {1}, ...: an expression of call precedence */
} PrintForm;

typedef enum Op {
#define OP(e, target, kind, params, shape, dtype, form, text) OP_##e,
#include "ops.def"
#undef OP
	OP_COUNT,
	OP_UNKNOWN = OP_COUNT
} Op;

/* Parameters of a row, at most. */
enum { PARAMS_MAX = 8 };

/* A parameter of an op's schema, parsed from the row's `params` string once per context or at compile time. */
typedef struct OpRow {
	const char *target; /* "aten.mul.Tensor" */
	OpKind kind;
	const char *params; /* "self:x other:x alpha:n=1": see ops.def's header for the letters */
	ShapeRule shape;
	DtypeRule dtype;
	PrintForm form;
	const char *text;
} OpRow;

/* One parameter of a row, cut out of its `params` string. */
typedef struct OpParam {
	const char *name;
	size_t name_length;
	char letter;          /* see ops.def's header */
	bool nullable;        /* `?` */
	const char *fallback; /* the default's JSON text; NULL: required */
	size_t fallback_length;
	bool by_name; /* `*` stands before it: it and those behind it are given by name */
} OpParam;

/* for (const char *at = row->params; (at = op_param_next(at, &param)) != NULL;) ... */
const char *op_param_next(const char *at, OpParam *param);
/* The position of the parameter called `name`; NONE if the op has none. Accepts the format's short names too: `x` for
 * the first parameter and `dims` for `dim`. */
uint32_t op_param_index(uint16_t op, const char *name);
extern const OpRow op_rows[OP_COUNT];
static inline const OpRow *op_row(uint16_t op) { return &op_rows[op]; }
/* The first pointwise row that computes, and is printed, as this one: what a kernel (codegen/kernel/kernel.h) calls it.
 */
uint16_t op_canonical(uint16_t op);
/* The op of a target's name, or OP_UNKNOWN. */
uint16_t op_find(const char *target);
/* The nearest known target, or NULL. */
const char *op_nearest(const char *target);
/* Writes memory: store or atomic. */
bool op_writes(uint16_t op);
/* Must stay although nothing uses it: stores, atomics, loops and ifs that contain one are asked by the passes. */
bool op_has_effect(uint16_t op);

/* The argument that is the matmul's left (0) or right (1) factor, or what is added to it (2); NONE. */
uint32_t matmul_arg(uint16_t op, uint32_t which);
#endif
