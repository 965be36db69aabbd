/* arith.c - the dtype in which a pointwise op is computed, and which ops the chips cannot be given: what Mosaic takes
 * was measured with libtpu 0.0.51 by tests/whole/ops/probe.py. */
#include "lower.h"

#include <math.h>

/* ---- the dtype of the operands ---------------------------------------------------------------------------------- */

static bool weak(const Module *m, const Arg *a) {
	return a->kind != ARG_REF || node_type(m, a->node)->kind == TYPE_SYM || node_get(m, a->node)->op == OP_SCALAR;
}

bool arith_is_operand(const Arg *a) {
	return a->kind == ARG_REF || a->kind == ARG_INT || a->kind == ARG_FLOAT || a->kind == ARG_BOOL ||
	       a->kind == ARG_SYM;
}

static Dtype number_dtype(const Module *m, const Arg *a) {
	switch (a->kind) {
	case ARG_FLOAT: return DTYPE_F32;
	case ARG_BOOL: return DTYPE_BOOL;
	case ARG_REF: return node_type(m, a->node)->dtype;
	default: return DTYPE_I32;
	}
}

/* A lower class only matters where its category is above the higher one's. */
static Dtype combine(Dtype higher, Dtype lower) {
	if (higher == DTYPE_NONE || lower == DTYPE_NONE)
		return higher == DTYPE_NONE ? lower : higher;
	if (dtype_is_float(higher))
		return higher;
	return higher == DTYPE_BOOL || dtype_is_float(lower) ? dtype_promote(higher, lower) : higher;
}

Dtype arith_promoted(const Module *m, NodeId n) {
	Dtype with_dims = DTYPE_NONE, zero_dim = DTYPE_NONE, number = DTYPE_NONE;
	const Node *node = node_get(m, n);
	const OpRow *row = op_row(node->op);
	if (row->dtype == RULE_SAME)
		return node_type(m, n)->dtype;
	OpParam param;
	uint32_t i = 0;
	for (const char *at = row->params; i < node->arg_count && (at = op_param_next(at, &param)) != NULL; i++) {
		const Arg *a = node_arg(m, n, i);
		if ((param.letter != 'x' && param.letter != 't') || !arith_is_operand(a) ||
		    op_is_condition(node->op, i))
			continue;
		bool is_weak = weak(m, a);
		Dtype t = number_dtype(m, a);
		Dtype *class = is_weak ? &number : node_type(m, a->node)->count == 0 ? &zero_dim : &with_dims;
		*class = dtype_promote(*class, t);
	}
	return combine(with_dims, combine(zero_dim, number));
}

/* ---- the dtype to compute in ------------------------------------------------------------------------------------ */

/* Exact in bfloat16, so that rounding the number first changes nothing: a multiple of 1/128 up to 256 in size that
 * has 8 significant bits, or no finite number. */
static bool number_is_exact(const Arg *a) {
	double x = a->kind == ARG_FLOAT ? a->real : a->kind == ARG_INT ? (double)a->integer : 0;
	if (x != x || x - x != 0)
		return true;
	for (int i = 0; i < 8 && x <= 256 && x >= -256; i++, x *= 2)
		if (x == (double)(int)x)
			return true;
	return false;
}

/* Is nothing lost when the operand is rounded to bfloat16 first? */
static bool operand_is_exact(const Module *m, const Arg *a) {
	Arg constant = {0};
	if (a->kind == ARG_REF && constant_is_number(m, a->node)) {
		constant = constant_of(m, a->node);
		a = &constant;
	}
	if (a->kind != ARG_REF)
		return number_is_exact(a);
	if (node_get(m, a->node)->op != OP_SCALAR) {
		Dtype t = node_type(m, a->node)->dtype;
		return node_type(m, a->node)->kind == TYPE_TENSOR && (t == DTYPE_BF16 || dtype_bits(t) <= 8);
	}
	const Scalar *s = &m->scalars.at[node_arg(m, a->node, 0)->scalar];
	return s->has_value && number_is_exact(&(Arg){.kind = ARG_FLOAT, .real = s->value});
}

enum { FEW_ROWS = 8 }; /* tiles of fewer rows */

/* Tiles of few rows are packed otherwise: see arith_mask_dtype(). A value of rank 1 is a row. */
static bool has_few_rows(const Module *m, NodeId n) {
	const Type *t = node_type(m, n);
	return t->count < 2 || expr_number(m, t->dims[t->count - 2]) < FEW_ROWS;
}

/* One rounding whether it is computed in bfloat16 or in float32: sums, products and choices of two values. The scalar
 * unit has float32 alone. */
static bool rounds_once(const Module *m, NodeId n) {
	const Node *node = node_get(m, n);
	const OpRow *row = op_row(node->op);
	if (node_type(m, n)->count == 0)
		return false;
	switch ((Op)node->op) {
	case OP_MAXIMUM:
	case OP_MINIMUM:
	case OP_ABS:
	case OP_RELU: break;
	case OP_WHERE:
		if (has_few_rows(m, n))
			return false;
		break;
	default:
		if (op_canonical(node->op) == OP_FLOOR_DIVIDE ||
		    (row->form != PRINT_INFIX && row->form != PRINT_PREFIX))
			return false;
	}
	for (uint32_t i = 0; i < node->arg_count; i++)
		if (!operand_is_exact(m, node_arg(m, n, i)))
			return false;
	return true;
}

/* Ops that Mosaic has for bools. */
static bool takes_bools(uint16_t op) { return op_is(op, IS_OF_BOOLS) || op_lowering(op) == LOWER_ALIAS; }

/* A number with a fraction stands beside bools that it does not make floats of: a limit of hardtanh. */
static bool has_fraction(const Module *m, NodeId n) {
	bool found = false;
	for (uint32_t i = 0; i < node_get(m, n)->arg_count; i++) {
		const Arg *a = node_arg(m, n, i);
		found = found || (a->kind == ARG_FLOAT && a->real != floor(a->real));
	}
	return found;
}

/* Narrow floats compute in float32 and round once, as torch does; narrow ints and bools in int32, which wraps around to
 * the same. A vector unit has arithmetic for 32 bits only, or for bfloat16 too. */
static Dtype compute_in(const Module *m, NodeId n, Dtype promoted) {
	const Node *node = node_get(m, n);
	DtypeRule rule = op_row(node->op)->dtype;
	if (rule == RULE_PROMOTE_FLOAT || (rule == RULE_DIV_MODE && node_type(m, n)->dtype == DTYPE_F32))
		promoted = dtype_is_float(promoted) ? promoted : DTYPE_F32;
	if (dtype_is_float(promoted))
		return promoted == DTYPE_BF16 && rounds_once(m, n) ? DTYPE_BF16 : DTYPE_F32;
	if (promoted == DTYPE_BOOL)
		return takes_bools(node->op) ? DTYPE_BOOL : has_fraction(m, n) ? DTYPE_F32 : DTYPE_I32;
	return op_widened(node->op, promoted);
}

/* What jnp itself computes in, given the operands as they are; DTYPE_NONE if it would refuse them. */
Dtype arith_natural(const Module *m, NodeId n) {
	const Node *node = node_get(m, n);
	Dtype all = DTYPE_NONE;
	for (uint32_t i = 0; i < node->arg_count; i++) {
		const Arg *a = node_arg(m, n, i);
		if (constant_operand(m, a) || op_is_condition(node->op, i))
			continue;
		Dtype t = node_type(m, a->node)->dtype;
		if (all != DTYPE_NONE && all != t && (dtype_bits(all) == 8 || dtype_bits(t) == 8) &&
		    (dtype_is_float(all) || dtype_is_float(t)))
			return DTYPE_NONE;
		all = dtype_promote(all, t);
	}
	return all;
}

/* All lanes are the same, of a number or of what is spread: Mosaic reduces such tiles in 32 bits alone. */
static bool is_spread(const Module *m, NodeId n, int depth) {
	enum { DEPTH = 16 };
	uint16_t op = node_get(m, n)->op;
	OpKind kind = op_kind(m, n);
	if (op_lowering(op) == LOWER_FULL || op_lanes(op) == LANES_EXPAND)
		return true;
	bool spread = (kind == KIND_VIEW || kind == KIND_POINTWISE || op == OP_NEW_VAR) && depth < DEPTH;
	for (uint32_t i = 0; spread && i < node_get(m, n)->arg_count; i++) {
		const Arg *a = node_arg(m, n, i);
		spread = a->kind != ARG_REF || node_type(m, a->node)->count == 0 || is_spread(m, a->node, depth + 1);
	}
	return spread;
}

/* Sums are float32 or int32; the greatest and the least lanes are looked for in the same. */
static Dtype reduced_in(const Module *m, NodeId n) {
	NodeId self = node_input(m, n, 0);
	Dtype x = node_type(m, self)->dtype, result = node_type(m, n)->dtype;
	bool whole = reduction_dims(m, n) == (1u << node_type(m, self)->count) - 1;
	bool is_choice = op_is(node_get(m, n)->op, IS_CHOICE);
	if (node_get(m, n)->op == OP_SORT) /* by the bits of 32 */
		return dtype_bits(x) == 32 ? DTYPE_NONE : dtype_of_sums(x);
	Dtype compute = dtype_is_float(x) || dtype_is_float(result) ? DTYPE_F32
	                : dtype_bits(x) < 32 || !is_choice          ? DTYPE_I32
	                                                            : x;
	/* A whole tile's greatest lane is a scalar register, of 32 bits. */
	bool packed = is_choice && x == DTYPE_BF16 && !whole && !is_spread(m, self, 0);
	return compute == x || packed ? DTYPE_NONE : compute;
}

/* Operands of several dtypes, for what is no single op of jnp: a helper may compute with each of them alone. */
static bool must_be_alike(const Module *m, NodeId n) {
	const Node *node = node_get(m, n);
	const OpRow *row = op_row(node->op);
	bool is_power = op_canonical(node->op) == OP_POW;
	Dtype first = DTYPE_NONE;
	if (!is_power && row->form != PRINT_CUSTOM && (row->text == NULL || row->text[0] != '_'))
		return false;
	for (uint32_t i = 0; i < node->arg_count; i++) {
		const Arg *a = node_arg(m, n, i);
		if (constant_operand(m, a) || op_is_condition(node->op, i))
			continue;
		if (first != DTYPE_NONE && node_type(m, a->node)->dtype != first)
			return true;
		first = node_type(m, a->node)->dtype;
	}
	return false;
}

Dtype arith_compute_dtype(const Module *m, NodeId n) {
	uint16_t op = node_get(m, n)->op;
	if (op_converts(op))
		return DTYPE_NONE;
	if (op_row(op)->kind == KIND_REDUCTION)
		return reduced_in(m, n);
	Dtype promoted = arith_promoted(m, n);
	if (promoted == DTYPE_NONE)
		return DTYPE_NONE;
	Dtype compute = compute_in(m, n, promoted), as_is = arith_natural(m, n);
	return compute == as_is && !must_be_alike(m, n) ? DTYPE_NONE : compute;
}

/* Several chips make a new last dim of 32-bit lanes alone. */
Dtype arith_moved_in(const Module *m, NodeId n) {
	Dtype t = node_type(m, n)->dtype;
	if (t != DTYPE_BOOL && (dtype_bits(t) >= 32 || !stacks_last(m, n)))
		return DTYPE_NONE;
	return dtype_widened(t);
}

/* ---- what the chips take ---------------------------------------------------------------------------------------- */

enum {
#define DTYPE(e, name, class, ...) SET_##e = 1 << DTYPE_##e,
#include "dtypes.def"
#undef DTYPE
	SET_ALL = (1 << DTYPE_I64) - 1, /* the pass int64 leaves none */
	NOT_FOR_MXU = SET_I32 | SET_I16 | SET_I4 | SET_U32 | SET_U16 | SET_U8 | SET_BOOL,
	SET_FLOATS = (1 << DTYPE_I32) - 1 /* they come first */
};

/* What Mosaic refuses, or computes otherwise: (op, the dtypes of its operands). Probed with libtpu 0.0.51. */
typedef enum When {
	WHEN_ALWAYS,
	WHEN_LANES_MIXED, /* such a view whose last dim neither becomes nor is the last few dims of the other side */
	WHEN_LANES_SPLIT  /* a view whose last dim changes, and is not whole registers before and after */
} When;

typedef struct Refusal {
	Op op;        /* by op_canonical(); or ... */
	bool matmuls; /* ... all matmuls, ... */
	Lanes lanes;  /* ... all such views */
	uint32_t dtypes;
	const char *hint;
	size_t unless; /* a flag of Target: chips that have it take the op; 0: all refuse it */
	When when;
} Refusal;

static const char as_float32[] = "convert it with prims.convert_element_type.default to float32";
static const Refusal refusals[] = {
	{OP_LGAMMA, .dtypes = SET_ALL, .hint = "compute it outside the kernel: Mosaic has no lgamma"},
	{OP_DIGAMMA, .dtypes = SET_ALL, .hint = "compute it outside the kernel: Mosaic has no digamma"},
	{OP_NEXTAFTER, .dtypes = SET_ALL - SET_F32, .hint = as_float32},
	{OP_FRAC, .dtypes = SET_ALL - SET_FLOATS, .hint = as_float32},
	{OP_FMA, .dtypes = SET_ALL - SET_FLOATS, .hint = as_float32},
	{OP_LERP, .dtypes = SET_ALL - SET_FLOATS, .hint = as_float32},
	{OP_LEAKY_RELU, .dtypes = SET_ALL - SET_FLOATS, .hint = as_float32},
	{OP_ELU, .dtypes = SET_ALL - SET_FLOATS, .hint = as_float32},
	{.matmuls = true,
         .dtypes = NOT_FOR_MXU,
         .hint = "convert both operands to float32 or bfloat16; of the ints, int8 has matmuls"},
	{.matmuls = true,
         .dtypes = SET_I8 | SET_F8E4M3 | SET_F8E5M2,
         .hint = "convert both operands to bfloat16, which holds them",
         .unless = offsetof(Target, narrow_matmuls)},
	{.lanes = LANES_RESHAPE,
         .dtypes = SET_ALL,
         .hint = "keep the last dim, or make it a multiple of 128",
         .unless = offsetof(Target, splits_lanes),
         .when = WHEN_LANES_SPLIT},
	{.lanes = LANES_RESHAPE,
         .dtypes = SET_ALL,
         .hint = "keep the last dim, split it into several, merge it with those before it, or make it a multiple of "
                 "128",
         .when = WHEN_LANES_MIXED},
};

static bool is_about(const Refusal *r, uint16_t op) {
	if (r->lanes != LANES_NONE)
		return op_lanes(op) == r->lanes;
	return r->matmuls ? op_row(op)->kind == KIND_MATMUL : op_canonical(op) == r->op;
}

/* The same of a row with an op of its own, which most have: asked for each row at each node. */
static bool names_another(const Refusal *r, uint16_t canonical) {
	return r->op != canonical && r->lanes == LANES_NONE && !r->matmuls;
}

static bool refuse_op(Planner *p, NodeId n, Dtype t, const char *hint) {
	return plan_refuse(p, n, "unsupported-op", hint, "%s of %s does not compile for %s",
	                   op_row(node_get(p->m, n)->op)->target, dtype_name(t), p->m->target->name);
}

/* The dtype that a row of the table is about: the operands'. */
static Dtype judged_dtype(const Module *m, NodeId n) {
	const Node *node = node_get(m, n);
	if (op_row(node->op)->kind == KIND_POINTWISE)
		return arith_promoted(m, n);
	NodeId x = op_row(node->op)->kind == KIND_MATMUL ? matmul_operand(m, n, 0) : node_input(m, n, 0);
	return x != NONE && node_type(m, x)->kind == TYPE_TENSOR ? node_type(m, x)->dtype : DTYPE_NONE;
}

Dtype arith_write_dtype(const Module *m, NodeId n) {
	Dtype t = node_type(m, node_input(m, n, 0))->dtype;
	const Arg *value = node_arg(m, n, 2);
	uint16_t op = node_get(m, n)->op;
	if (op_canonical(op) == op) /* it combines nothing */
		return t;
	if (value->kind == ARG_REF && node_type(m, value->node)->kind == TYPE_TENSOR &&
	    node_get(m, value->node)->op != OP_SCALAR)
		t = dtype_promote(t, node_type(m, value->node)->dtype);
	return op_widened(op, t);
}

/* Mosaic selects no bools, which are masks to it; and spreads no mask of 32-bit lanes over the packed rows of a tile of
 * few rows ("Sublane broadcast"; measured for 1 to 3). Of rows that are `loose`, each in a tile of its own in memory,
 * it makes such tiles where it has to: of 300 rows in fours. */
Dtype arith_mask_dtype(Dtype t, int64_t rows, bool loose) {
	if (t == DTYPE_BOOL)
		return DTYPE_I32;
	return rows >= FEW_ROWS && !(loose && rows % FEW_ROWS) ? t : dtype_widened(t);
}

static Dtype tensor_dtype(const Module *m, NodeId n) {
	return n != NONE && node_type(m, n)->kind == TYPE_TENSOR ? node_type(m, n)->dtype : DTYPE_NONE;
}

/* No chip has vectors of float16: the pass float16 leaves it to memory and to conversions. */
static bool accepts_dtype(Planner *p, NodeId n) {
	uint16_t op = node_get(p->m, n)->op;
	bool moves = op_row(op)->kind == KIND_MEMORY || op_converts(op) || op == OP_HOST_TENSOR || op == OP_SCALAR ||
	             op == OP_VIEW_DTYPE;
	return moves || tensor_dtype(p->m, n) != DTYPE_F16 ||
	       refuse_op(p, n, DTYPE_F16, "run the pass float16: it computes in float32");
}

/* An index that stays along one dim is made along that at once. */
static bool is_index_along(const Planner *p, NodeId n) {
	NodeId x = node_input(p->m, n, 0);
	int64_t length = expr_number(p->m, node_type(p->m, x)->dims[0]);
	bool found = false;
	for (uint32_t i = 0; i < node_type(p->m, n)->count; i++)
		found = found || expr_number(p->m, node_type(p->m, n)->dims[i]) == length;
	return op_lowering(node_get(p->m, x)->op) == LOWER_INDEX && found;
}

static bool lanes_split(const Planner *p, NodeId n) {
	const Type *from = node_type(p->m, node_input(p->m, n, 0)), *to = node_type(p->m, n);
	if (view_shape(p, n) != VIEW_SHAPE_OTHER || from->count == 0 || to->count == 0 || is_index_along(p, n))
		return false;
	int64_t before = expr_number(p->m, from->dims[from->count - 1]),
		after = expr_number(p->m, to->dims[to->count - 1]);
	return before != after && (before % p->m->target->lanes != 0 || after % p->m->target->lanes != 0);
}

/* `size` is the product of two or more of the last dims of t, and not of all. */
static bool ends_with(const Planner *p, const Type *t, int64_t size) {
	int64_t product = 1;
	for (uint32_t i = t->count; i-- > 1;) {
		product *= expr_number(p->m, t->dims[i]);
		if (product == size)
			return true;
	}
	return false;
}

static bool lanes_mixed(const Planner *p, NodeId n) {
	const Type *from = node_type(p->m, node_input(p->m, n, 0)), *to = node_type(p->m, n);
	/* The lanes of one register can be cut into rows. */
	return lanes_split(p, n) && expr_number(p->m, from->dims[from->count - 1]) != p->m->target->lanes &&
	       !ends_with(p, from, expr_number(p->m, to->dims[to->count - 1])) &&
	       !ends_with(p, to, expr_number(p->m, from->dims[from->count - 1]));
}

static bool applies(const Planner *p, NodeId n, const Refusal *r) {
	if (r->unless && *(const bool *)((const char *)p->m->target + r->unless))
		return false;
	switch (r->when) {
	case WHEN_LANES_SPLIT: return lanes_split(p, n);
	case WHEN_LANES_MIXED: return lanes_mixed(p, n);
	case WHEN_ALWAYS: break;
	}
	return true;
}

bool arith_accepts(Planner *p, NodeId n) {
	const Node *node = node_get(p->m, n);
	if (!accepts_dtype(p, n))
		return false;
	uint16_t canonical = op_canonical(node->op);
	for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
		if (names_another(&refusals[i], canonical) || !is_about(&refusals[i], node->op))
			continue;
		Dtype t = judged_dtype(p->m, n);
		if (t != DTYPE_NONE && (refusals[i].dtypes >> t & 1) && applies(p, n, &refusals[i]))
			return refuse_op(p, n, t, refusals[i].hint);
	}
	return true;
}

uint32_t arith_refused_dtypes(uint16_t op) {
	uint32_t set = 0;
	for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
		if (is_about(&refusals[i], op) && !refusals[i].unless && refusals[i].when == WHEN_ALWAYS)
			set |= refusals[i].dtypes;
	return set;
}
