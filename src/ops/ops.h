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

/* How a kernel computes it. */
typedef enum Lowering {
	LOWER_NOT,   /* refused */
	LOWER_PARTS, /* refused, but passes/decompose/ (of tile.if: branches.c) makes other ops of it first */
	LOWER_FREE,  /* no code: host tensors, symbolic ints that affine.c reads, ... */
	LOWER_INT,   /* a scalar int that is computed in the kernel */
	LOWER_POINTWISE,
	LOWER_MASK,
	LOWER_REDUCE,
	LOWER_SCAN, /* along one dim, which stays */
	LOWER_VIEW,
	LOWER_MOVE, /* a view that puts lanes elsewhere */
	LOWER_MATMUL,
	LOWER_FULL,  /* one value in every lane */
	LOWER_INDEX, /* tile.index, a range of ints */
	LOWER_LOAD,
	LOWER_STORE,  /* atomics too */
	LOWER_REMOTE, /* copies between devices, waits, barriers */
	LOWER_LOOP,
	LOWER_RESULT, /* getitem of a loop */
	LOWER_ALIAS   /* an operand by another name: alias_arg() */
} Lowering;

/* Where a view puts the lanes of its operand. Those that its and its operand's shape tell in full come first. */
typedef enum Lanes {
	LANES_NONE,      /* it is no view */
	LANES_RESHAPE,   /* all in the same order, in dims of other sizes */
	LANES_SQUEEZE,   /* the same, without some dims of 1 */
	LANES_UNSQUEEZE, /* the same, with another dim of 1 */
	LANES_EXPAND,    /* repeated along dims of 1 and new ones in front */
	LANES_INDEX,     /* an index list: new dims, whole dims, positions */
	LANES_PERMUTE,   /* dims in another order: permutation_order() */
	LANES_SELECT,    /* those at one position of a dim, which goes */
	LANES_TILE,      /* the last dim repeated */
	LANES_SLICE,     /* a range of a dim, or every so many of one */
	LANES_FLIP,      /* backwards along dims */
	LANES_ROLL,      /* around along dims */
	LANES_PAD,       /* with others around them */
	LANES_REPEAT,    /* all of them again and again */
	LANES_CAT,       /* several operands, one behind the other */
	LANES_STACK,     /* several operands along a new dim */
	LANES_SPLIT,     /* a tuple of pieces */
	LANES_GATHER,    /* those at computed positions */
	LANES_BITCAST    /* the same bits as another dtype */
} Lanes;

/* What a creation puts into all lanes. */
typedef enum Fill {
	FILL_NONE,
	FILL_GIVEN, /* its operand: parameter letter x */
	FILL_ZEROS,
	FILL_ONES,
	FILL_ANY /* whatever was there; zeros here */
} Fill;

/* What torch refuses, and jnp would refuse or compute otherwise. */
typedef enum Takes {
	TAKES_ALL,
	TAKES_BOOLS,   /* a condition */
	TAKES_INTS,    /* and bools */
	TAKES_NUMBERS, /* no bools */
	TAKES_FLOATS
} Takes;

typedef enum Fact {
	IS_MODULAR = 1 << 0, /* the low bits of an int result depend on the low bits of the operands alone */
	IS_CHOICE = 1 << 1,  /* the result is one of the operands, or one of the elements */
	IS_FOLD = 1 << 2,    /* a reduction of parts can be reduced again, or (a mean) comes of one that can */
	IS_CHEAP = 1 << 3,   /* one pass over the tile at most, without transcendentals */
	IS_OF_BOOLS = 1 << 4 /* Mosaic has it for bools */
} Fact;

typedef enum Op {
#define OP(e, ...) OP_##e,
#include "ops.def"
#undef OP
	OP_COUNT,
	OP_UNKNOWN = OP_COUNT
} Op;

/* Parameters of a row, at most. */
enum { PARAMS_MAX = 8 };

/* A row of ops.def, which explains the columns. */
typedef struct OpRow {
	const char *target; /* "aten.mul.Tensor" */
	OpKind kind;
	const char *params; /* "self:x other:x alpha:n=1": see ops.def's header for the letters */
	ShapeRule shape;
	DtypeRule dtype;
	PrintForm form;
	const char *text;
	const char *instead;
	uint16_t as; /* 0: itself */
	uint8_t lower, lanes, fill, condition, takes, facts;
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

extern const OpRow op_rows[OP_COUNT + 1]; /* OP_UNKNOWN has one too, of zeros */
static inline const OpRow *op_row(uint16_t op) { return &op_rows[op]; }
/* The row that computes, and is printed, as this one: what a kernel (codegen/kernel/kernel.h) calls it. */
static inline uint16_t op_canonical(uint16_t op) { return op_rows[op].as ? op_rows[op].as : op; }
static inline Lowering op_lowering(uint16_t op) { return (Lowering)op_rows[op].lower; }
static inline Lanes op_lanes(uint16_t op) { return (Lanes)op_rows[op].lanes; }
static inline Fill op_fill(uint16_t op) { return (Fill)op_rows[op].fill; }
/* All of these facts hold. */
static inline bool op_is(uint16_t op, Fact facts) { return (op_rows[op_canonical(op)].facts & facts) == facts; }
/* The dtype of 32 bits that narrow values compute in. Mosaic turns maximum() of two widened ints into one of narrow
 * ones, which it then cannot lower: float32 holds them. */
static inline Dtype op_widened(uint16_t op, Dtype t) {
	return dtype_bits(t) < 32 && op_is(op, IS_CHOICE) ? DTYPE_F32 : dtype_widened(t);
}
/* Operand i only chooses between the others. */
static inline bool op_is_condition(uint16_t op, uint32_t i) { return op_rows[op_canonical(op)].condition == i + 1; }
/* What operand i may be. */
static inline Takes op_takes(uint16_t op, uint32_t i) {
	return op_is_condition(op, i) ? TAKES_BOOLS : (Takes)op_rows[op_canonical(op)].takes;
}
/* The plan can hold it. */
static inline bool op_is_lowered(uint16_t op) { return op_lowering(op) > LOWER_PARTS; }
/* A conversion, to whichever dtype. */
static inline bool op_converts(uint16_t op) { return op_canonical(op) == OP_CONVERT; }
/* The op of a target's name, or OP_UNKNOWN. */
uint16_t op_find(const char *target);
/* The nearest known target, or NULL. */
const char *op_nearest(const char *target);
static inline bool op_is_atomic(uint16_t op) { return op_row(op)->shape == SHAPE_ATOMIC; }
/* What it draws depends on where an element lies in the range, not on its tile. */
static inline bool op_is_random(uint16_t op) { return op == OP_RAND || op == OP_RANDINT; }
/* Copies between devices, and waits: the part that they name is written at any time between the two. */
static inline bool op_is_remote(uint16_t op) { return op_row(op)->shape == SHAPE_REMOTE; }
/* Writes memory: store, atomic, remote copy. */
static inline bool op_writes(uint16_t op) { return op == OP_STORE || op_is_atomic(op) || op_is_remote(op); }
/* Names elements of a host tensor by an index list, its second argument. */
static inline bool op_accesses(uint16_t op) { return op == OP_LOAD || op == OP_PART || op_writes(op); }
/* Must stay although nothing uses it: stores, atomics, loops and ifs that contain one are asked by the passes. */
bool op_has_effect(uint16_t op);

/* ---- views ------------------------------------------------------------------------------------------------------- */

/* Its lanes, or those at one position, are its operand's in the same order, once each: another name, no work. */
static inline bool view_renames(uint16_t op) {
	Lanes v = op_lanes(op);
	return v == LANES_RESHAPE || v == LANES_SQUEEZE || v == LANES_UNSQUEEZE || v == LANES_INDEX;
}
/* The shapes of operand and result say all that it does: where they are the same, nothing. */
static inline bool view_is_of_shapes(uint16_t op) { return op_lanes(op) != LANES_NONE && op_lanes(op) <= LANES_EXPAND; }
/* Whatever the size of a dim, all of it is a dim of the result. */
static inline bool view_keeps_dims(uint16_t op) { return op_lanes(op) != LANES_NONE && op_lanes(op) <= LANES_PERMUTE; }
/* It can add dims of 1 and do nothing else. */
static inline bool view_adds_units(uint16_t op) {
	return op_lanes(op) == LANES_UNSQUEEZE || op_lanes(op) == LANES_INDEX;
}

/* The argument that is the matmul's left (0) or right (1) factor, or what is added to it (2); NONE. */
uint32_t matmul_arg(uint16_t op, uint32_t which);

#endif
