/* build_pointwise.c - pointwise nodes: the op table's rows, on operands in the dtype that the Plan chose. */
#include "builder.h"
#include "codegen/lower/lower.h"

/* ---- dtypes ----------------------------------------------------------------------------------------------------- */

KArg build_scalar(Builder *b, KArg x, Dtype dtype) { return build_unary(b, K_SCALAR, dtype, x); }

KArg build_as(Builder *b, KArg x, Dtype dtype) {
	return arg_is_number(x) ? build_scalar(b, x, dtype) : build_unary(b, K_CONVERT, dtype, x);
}

KArg build_converted(Builder *b, KArg x, Dtype from, Dtype to) {
	if (from == to)
		return x;
	if (mosaic_conversion_hub(from, to) != DTYPE_NONE)
		x = build_as(b, x, mosaic_conversion_hub(from, to));
	return build_as(b, x, to);
}

/* Narrow floats become others through float32, and narrow ints through int32: of `float(x) < 1` MLIR makes `x < 1`, and
 * Mosaic compares no narrow scalars. */
KArg build_converted_scalar(Builder *b, KArg x, Dtype from, Dtype to) {
	bool ints = !dtype_is_float(from) && from != DTYPE_BOOL && dtype_bits(from) < 32;
	if (ints && dtype_is_float(to))
		return build_converted(b, build_converted(b, x, from, DTYPE_I32), DTYPE_I32, to);
	if (from == to || !dtype_is_float(from) || (dtype_bits(from) >= 16 && dtype_bits(to) >= 16))
		return build_converted(b, x, from, to);
	return build_converted(b, build_converted(b, x, from, DTYPE_F32), DTYPE_F32, to);
}

static KArg converted(Builder *b, KArg x, const Type *t, Dtype to) {
	return (t->count == 0 ? build_converted_scalar : build_converted)(b, x, t->dtype, to);
}

KArg build_computed(Builder *b, const Arg *a, Form form, Dtype compute) {
	bool tensor = a->kind == ARG_REF && node_type(b->m, a->node)->kind == TYPE_TENSOR;
	NodeId root = tensor ? value_root(b->plan, a->node) : NONE;
	/* A number beside the tile takes its dtype. */
	if (compute == DTYPE_NONE || !tensor || node_get(b->m, root)->op == OP_SCALAR)
		return build_arg(b, a, form);
	const Type *t = node_type(b->m, a->node);
	KArg x = build_arg(b, a, form);
	if (!constant_is_number(b->m, root))
		return converted(b, x, t, compute);
	Arg number = constant_of(b->m, root);
	number = constant_as(&number, compute);
	return number.kind == ARG_INT ? build_beside_ints(b, &number, compute) : build_number(b->m, &number);
}

KArg build_beside_ints(Builder *b, const Arg *a, Dtype ints) {
	Arg number = constant_as(a, ints);
	KArg x = build_number(b->m, &number);
	/* Past what jnp takes a Python int for. */
	return number.kind == ARG_INT && number.integer > INT32_MAX ? build_scalar(b, x, DTYPE_U32) : x;
}

/* A scalar whose value only the run time knows. */
static bool is_given(const Builder *b, const Arg *a) {
	return a->kind == ARG_REF && node_get(b->m, a->node)->op == OP_SCALAR &&
	       !b->m->scalars.at[node_arg(b->m, a->node, 0)->scalar].has_value;
}

/* The argument has the dtype by itself: it is more than a number, or a run-time scalar of it. */
static bool has_dtype(const Builder *b, const Arg *a, Dtype wanted) {
	return !constant_operand(b->m, a) || (is_given(b, a) && node_type(b->m, a->node)->dtype == wanted);
}

/* All operands of n are numbers: their arithmetic would give a number, which has no dtype, and jax.nn takes no ints. */
static bool lacks_dtype(const Builder *b, NodeId n, Dtype wanted) {
	for (uint32_t i = 0; i < node_get(b->m, n)->arg_count; i++) {
		const Arg *a = node_arg(b->m, n, i);
		if (arith_is_operand(a) && !op_is_condition(node_get(b->m, n)->op, i) && has_dtype(b, a, wanted))
			return false;
	}
	return true;
}

/* A narrow int in a scalar register that is chosen, or whose bits are: Mosaic would do that before it widens it, and
 * has no such op of narrow scalars. float32 holds it, and stands between. */
static bool widens_late(const Builder *b, NodeId n, const Arg *a) {
	uint16_t op = op_canonical(node_get(b->m, n)->op);
	bool bits = op == OP_WHERE || op == OP_BITWISE_AND || op == OP_BITWISE_OR || op == OP_BITWISE_XOR;
	return bits && !constant_operand(b->m, a) && b->plan->values[n].compute == DTYPE_I32 &&
	       node_type(b->m, a->node)->count == 0 && node_type(b->m, n)->count == 0 &&
	       dtype_bits(node_type(b->m, a->node)->dtype) < 32;
}

static KArg operand(Builder *b, NodeId n, uint32_t i, Dtype promoted) {
	const Value *v = &b->plan->values[n];
	const Arg *a = node_arg(b->m, n, i);
	if (op_is_condition(node_get(b->m, n)->op, i))
		return build_arg(b, a, v->wants);
	bool number = a->kind == ARG_INT || (a->kind == ARG_FLOAT && a->real > -1e18 && a->real < 1e18);
	if (number && dtype_class(promoted) != DTYPE_CLASS_FLOAT && dtype_class(promoted) != DTYPE_CLASS_BOOL &&
	    op_row(node_get(b->m, n)->op)->dtype != RULE_PROMOTE_FLOAT)
		return build_beside_ints(b, a, promoted);
	if (widens_late(b, n, a))
		return build_as(b, build_computed(b, a, v->wants, DTYPE_F32), DTYPE_I32);
	KArg x = build_computed(b, a, v->wants, v->compute);
	/* jnp makes int32 of uint32 and an int of the kernel's, or one that is given. */
	if (promoted == DTYPE_U32 && (x.kind == KARG_INT || (is_given(b, a) && !has_dtype(b, a, promoted))))
		return build_scalar(b, x, DTYPE_U32);
	return v->compute != DTYPE_NONE && lacks_dtype(b, n, v->compute) ? build_scalar(b, x, v->compute) : x;
}

/* ---- ops with statements of their own --------------------------------------------------------------------------- */

static bool string_is(const Arg *a, const char *s) { return a->kind == ARG_STRING && strcmp(a->string, s) == 0; }

static KArg divided(Builder *b, NodeId n, const KArg *operands, Dtype compute) {
	const Arg *mode = op_arg(b->m, n, "rounding_mode");
	if (string_is(mode, "floor"))
		return build_op(b, K_FLOORED, compute, 2, operands, 0, NULL);
	if (!string_is(mode, "trunc"))
		return build_op(b, OP_DIV, compute, 2, operands, 0, NULL);
	if (!dtype_is_float(compute))
		return build_op(b, K_TRUNC_DIVIDE, compute, 2, operands, 0, NULL);
	return build_unary(b, OP_TRUNC, compute, build_op(b, OP_DIV, compute, 2, operands, 0, NULL));
}

static KArg clamped(Builder *b, NodeId n, const KArg *operands, Dtype compute) {
	bool low = node_arg(b->m, n, 1)->kind != ARG_NULL, high = node_arg(b->m, n, 2)->kind != ARG_NULL;
	if (!low && !high)
		return operands[0];
	return low && high ? build_op(b, OP_CLAMP, compute, 3, operands, 0, NULL)
	                   : build_op(b, low ? OP_MAXIMUM : OP_MINIMUM, compute, 2, operands, 0, NULL);
}

/* add, sub, rsub: alpha times the operand that is added or taken away. */
static void scale_by_alpha(Builder *b, NodeId n, KArg *operands, Dtype compute) {
	const Arg *alpha = op_arg(b->m, n, "alpha");
	if (alpha->kind == ARG_NULL || (alpha->kind == ARG_INT && alpha->integer == 1) ||
	    (alpha->kind == ARG_FLOAT && alpha->real == 1) || alpha->kind == ARG_BOOL)
		return;
	uint32_t i = op_canonical(node_get(b->m, n)->op) == OP_RSUB ? 0 : 1;
	const Arg *a = node_arg(b->m, n, i);
	KArg by = build_arg(b, alpha, FORM_NATURAL), x = operands[i];
	Dtype own = x.kind == KARG_INT ? DTYPE_I32 : karg_dtype(b, x),
	      wide = compute == DTYPE_BF16 ? DTYPE_F32 : compute;
	bool scalar = a->kind == ARG_REF && node_type(b->m, a->node)->count == 0 && dtype_is_float(compute);
	/* The scalar unit has no bfloat16, and an int is multiplied as one. */
	if (scalar && own != wide && (own != DTYPE_NONE || wide != compute))
		x = x.kind == KARG_VALUE ? build_converted_scalar(b, x, own, wide) : build_scalar(b, x, wide);
	x = build_binary(b, OP_MUL, scalar ? wide : compute, x, by);
	operands[i] = scalar && wide != compute ? build_as(b, x, compute) : x;
}

/* Mosaic takes the conversions out of maximum(x.astype(wide), y.astype(wide)).astype(narrow), and then has no such op.
 */
static bool widened_pair(const Builder *b, NodeId n) {
	return b->plan->values[n].compute != DTYPE_NONE && dtype_is_float(arith_promoted(b->m, n)) &&
	       node_arg(b->m, n, 0)->kind == ARG_REF && node_arg(b->m, n, 1)->kind == ARG_REF;
}

static bool power_is_natural(const Arg *a) { return a->kind == ARG_INT && a->integer >= 0; }

/* Of ints, whose powers wrap around: as many bits of the exponent as its dtype has. */
static KArg int_power(Builder *b, NodeId n, const KArg *operands, Dtype compute) {
	const Arg *exponent = node_arg(b->m, n, 1);
	bool tensor = exponent->kind == ARG_REF && node_type(b->m, exponent->node)->kind == TYPE_TENSOR;
	Dtype t = tensor ? node_type(b->m, exponent->node)->dtype : DTYPE_I32;
	int64_t bits = t == DTYPE_BOOL ? 1 : dtype_bits(t) - (dtype_class(t) == DTYPE_CLASS_SIGNED);
	bool array = node_arg(b->m, n, 0)->kind == ARG_REF;
	const KArg items[2] = {array ? operands[0] : build_scalar(b, operands[0], compute), operands[1]};
	return build_op(b, K_INT_POWER, compute, 2, items, 1, &bits);
}

/* The scalar unit has no power: that of a row of the same. */
static KArg scalar_power(Builder *b, const KArg *operands, Dtype to) {
	const int64_t row[2] = {1, b->m->target->lanes}, first[6] = {K_ITEM_AT, 0, 0, K_ITEM_AT};
	KArg items[2] = {operands[0], operands[1]};
	uint32_t i = items[0].kind == KARG_VALUE ? 0 : 1;
	items[i] = build_shaped(b, K_BROADCAST, to, 2, row, 1, &items[i]);
	return build_op(b, K_INDEX, to, 1, (const KArg[]){build_op(b, OP_POW, to, 2, items, 0, NULL)}, 6, first);
}

/* Mosaic has no power of a tile and an int of the run time: the int as a float. */
static void float_powers(Builder *b, NodeId n, KArg *operands, Dtype compute) {
	for (uint32_t i = 0; i < 2; i++) {
		const Arg *a = node_arg(b->m, n, i);
		if (is_given(b, a) && !dtype_is_float(node_type(b->m, a->node)->dtype))
			operands[i] = build_scalar(b, operands[i], compute);
	}
}

/* `to`: what the statement gives. */
static KArg computed(Builder *b, NodeId n, KArg *operands, uint32_t count, Dtype compute, Dtype to) {
	const Node *node = node_get(b->m, n);
	bool is_float = compute != DTYPE_NONE && dtype_is_float(compute);
	uint16_t op = op_canonical(node->op);
	switch (op) {
	case OP_ADD:
	case OP_SUB:
	case OP_RSUB:
		scale_by_alpha(b, n, operands, to);
		count = 2;
		break;
	case OP_GELU:
		return build_unary(b, string_is(node_arg(b->m, n, 1), "tanh") ? K_GELU_TANH : K_GELU_ERF, to,
		                   operands[0]);
	case OP_CLAMP: return clamped(b, n, operands, to);
	case OP_DIV_MODE: return divided(b, n, operands, to);
	case OP_FLOOR:
	case OP_CEIL:
	case OP_TRUNC:
	case OP_ROUND:
		if (!is_float)
			return operands[0];
		break;
	case OP_POW:
		if (!is_float && !power_is_natural(node_arg(b->m, n, 1)))
			return int_power(b, n, operands, compute);
		if (node_type(b->m, n)->count == 0 && !power_is_natural(node_arg(b->m, n, 1)))
			return scalar_power(b, operands, to);
		if (is_float)
			float_powers(b, n, operands, compute);
		break;
	case OP_MAXIMUM: op = widened_pair(b, n) ? K_WIDE_MAXIMUM : op; break;
	case OP_MINIMUM: op = widened_pair(b, n) ? K_WIDE_MINIMUM : op; break;
	default: break;
	}
	return build_op(b, op, to, count, operands, 0, NULL);
}

static KArg conversion(Builder *b, NodeId n) {
	const Arg *a = node_arg(b->m, n, 0);
	bool tensor = a->kind == ARG_REF && node_type(b->m, a->node)->kind == TYPE_TENSOR;
	Dtype from = tensor ? node_type(b->m, a->node)->dtype : DTYPE_NONE, to = node_type(b->m, n)->dtype;
	KArg x = build_arg(b, a, b->plan->values[n].wants);
	if (from == DTYPE_NONE || from == to)
		return build_as(b, x, to);
	return converted(b, x, node_type(b->m, a->node), to);
}

/* ---- choices of what runs ahead ---------------------------------------------------------------------------------- */

/* What a step's condition is made of, and the same of the step that runs ahead. */
typedef struct Ahead {
	Builder *b;
	VEC(Converted) made; /* by value */
} Ahead;

static KArg ahead_of(Ahead *h, KArg x);

static IntId int_ahead(Ahead *h, IntId id) {
	Kernel *k = h->b->k;
	if (id == NONE)
		return NONE;
	KInt i = k->ints.at[id];
	if (i.kind == INT_VALUE) {
		ValueId v = ahead_of(h, karg_value(i.value)).value;
		return v == i.value ? id : int_value(k, v);
	}
	IntId a = int_ahead(h, i.a), b = int_ahead(h, i.b), c = int_ahead(h, i.c);
	if (a == i.a && b == i.b && c == i.c)
		return id;
	return c == NONE ? int_unfolded(k, i.kind, a, b) : int_choose(k, a, b, c);
}

static KArg ahead_of(Ahead *h, KArg x) {
	Kernel *k = h->b->k;
	if (x.kind == KARG_INT)
		x.index = int_ahead(h, x.index);
	StmtId def = kernel_def_of(k, x);
	if (def == NONE || kernel_stmt(k, def)->region != h->b->at || kernel_stmt(k, def)->flags & KSTMT_AHEAD)
		return x;
	for (uint32_t i = 0; i < h->made.count; i++)
		if (h->made.at[i].key == x.value)
			return karg_value(h->made.at[i].value);
	const KStmt old = *kernel_stmt(k, def);
	KArg *args = arena_copy(k->arena, &k->args.at[old.arg_first], old.arg_count + 1, sizeof *args);
	for (uint32_t i = 0; i < old.arg_count; i++)
		args[i] = ahead_of(h, args[i]);
	StmtId copy = kernel_append_like(k, h->b->at, def, args);
	kernel_stmt(k, copy)->flags |= KSTMT_AHEAD;
	ValueId v = kernel_result_like(k, copy, x.value, k->values.at[x.value].name);
	vec_push(k->arena, &h->made, ((Converted){x.value, v}));
	return karg_value(v);
}

/* The choice of the first step, which is made ahead of the loop: what is handed on is chosen. */
static KArg chosen_ahead(Builder *b, NodeId n, const KArg *operands, Dtype to) {
	Ahead h = {.b = b};
	uint16_t flags = b->flags;
	const KArg args[3] = {ahead_of(&h, operands[0]), operands[1], operands[2]};
	b->flags = KSTMT_AHEAD;
	KArg x = build_op(b, OP_WHERE, to, 3, args, 0, NULL);
	const KArg both[3] = {karg_value(b->flag), x, operands[1]};
	x = build_op(b, K_CHOOSE, to, 3, both, 0, NULL);
	build_name_of(b, x, n);
	b->flags = flags;
	b->value[value_root(b->plan, node_arg(b->m, n, 1)->node)] = x;
	return x;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

KArg build_pointwise(Builder *b, NodeId n) {
	const Node *node = node_get(b->m, n);
	const OpRow *row = op_row(node->op);
	const Value *v = &b->plan->values[n];
	Dtype dtype = node_type(b->m, n)->dtype;
	KArg operands[PARAMS_MAX] = {0};
	uint32_t count = 0;
	if (op_converts(node->op))
		return conversion(b, n);
	if (v->mask_count)
		return build_masked(b, n);
	Dtype promoted = arith_promoted(b->m, n);
	Dtype compute = v->compute != DTYPE_NONE ? v->compute : arith_natural(b->m, n);
	for (uint32_t i = 0; i < node->arg_count; i++)
		if (arith_is_operand(node_arg(b->m, n, i)))
			operands[count++] = operand(b, n, i, promoted);
	bool test = row->dtype == RULE_BOOL;
	Dtype to = test ? DTYPE_BOOL : compute != DTYPE_NONE ? compute : dtype;
	if (v->first)
		operands[1] = chosen_ahead(b, n, operands, to);
	KArg x = computed(b, n, operands, count, compute, to);
	if (v->seldom)
		x = build_op(b, K_CHOOSE, to, 3, (const KArg[]){karg_value(b->flag), x, operands[1]}, 0, NULL);
	return !test && compute != DTYPE_NONE ? build_converted(b, x, compute, dtype) : x;
}
