/* float16.c - arithmetic of float16 becomes arithmetic of float32 that is rounded.
 *
 * What: every value of float16 becomes one of float32 that float16 holds. What computes is followed by a rounding, a
 * conversion to float16 and back; what takes its lanes from others (views, choices, signs, masks) needs none. float16
 * stays where memory is: loads, stores, and those conversions.
 *
 *     x = load x                 f16         x = load x              f16
 *     y = exp x                  f16         wide = convert x        f32
 *     store out, y                      =>   y = exp wide            f32
 *                                            half = convert y        f16
 *                                            store out, half
 *
 * Why on a TPU: no chip has vectors of float16. It is 16 bits in memory, which the kernel takes apart
 * (codegen/rewrite/rewrite_float16.c); nothing between this pass and that knows of it. */
#include "decompose.h"

#include <math.h>

typedef struct Halves {
	Module *m;
	VEC(bool) held; /* by NodeId: a value of float32 that float16 holds */
	uint32_t rounded;
} Halves;

/* ---- values that float16 holds ------------------------------------------------------------------------------------
 */

static void note(Halves *h, NodeId n) {
	while (h->held.count <= n)
		vec_push(h->m->arena, &h->held, false);
	h->held.at[n] = true;
}

/* 11 significant bits, none below 2^-24. */
static bool number_is_half(double x) {
	int exponent;
	if (x == 0 || !isfinite(x))
		return true;
	double significand = frexp(x, &exponent);
	double bits = exponent < -13 ? ldexp(x, 24) : ldexp(significand, 11);
	return fabs(x) <= dtype_largest(DTYPE_F16) && bits == floor(bits);
}

static bool arg_is_half(const Halves *h, const Arg *a) {
	switch (a->kind) {
	case ARG_INT: return number_is_half((double)a->integer);
	case ARG_FLOAT: return number_is_half(a->real);
	case ARG_SYM: return false;
	case ARG_REF: {
		const Type *t = node_type(h->m, a->node);
		return t->kind == TYPE_TENSOR &&
		       (t->dtype == DTYPE_BOOL || (a->node < h->held.count && h->held.at[a->node]));
	}
	case ARG_LIST:
		for (uint32_t i = 0; i < a->list.count; i++)
			if (!arg_is_half(h, arg_item(h->m, a, i)))
				return false;
		return true;
	default: return true;
	}
}

/* Its lanes are lanes of its operands, or those with another sign. */
static bool takes_lanes(uint16_t op) {
	if (op_row(op)->kind == KIND_VIEW || op_row(op)->fill != FILL_NONE)
		return true;
	switch (op_canonical(op)) {
	case OP_MASK_TO:
	case OP_NEG:
	case OP_ABS:
	case OP_RELU:
	case OP_MAXIMUM:
	case OP_MINIMUM:
	case OP_CLAMP:
	case OP_WHERE:
	case OP_MAX:
	case OP_MIN: return true;
	default: return op_lowering(op) == LOWER_ALIAS;
	}
}

/* What is handed on was rounded where it was made. */
static bool needs_no_rounding(const Halves *h, NodeId n) {
	uint16_t op = node_get(h->m, n)->op;
	OpParam param;
	uint32_t i = 0;
	if (op_row(op)->kind == KIND_STRUCTURE)
		return true;
	if (!takes_lanes(op))
		return false;
	/* Numbers of other parameters are sizes and dims. */
	for (const char *at = op_row(op)->params; (at = op_param_next(at, &param)) != NULL; i++)
		if (strchr("xtXn", param.letter) && !arg_is_half(h, node_arg(h->m, n, i)))
			return false;
	return true;
}

/* ---- types --------------------------------------------------------------------------------------------------------
 */

static bool is_half(const Module *m, NodeId n) {
	return node_type(m, n)->kind == TYPE_TENSOR && node_type(m, n)->dtype == DTYPE_F16;
}

static TypeId of_dtype(Module *m, TypeId type, Dtype dtype) {
	Type t = *type_get(m, type);
	return type_tensor(m, dtype, t.count, t.dims);
}

static void widen_type(Module *m, NodeId n) {
	if (is_half(m, n))
		node_set_type(m, n, of_dtype(m, node_get(m, n)->type, DTYPE_F32));
	for (uint32_t i = 0; node_type(m, n)->kind == TYPE_TUPLE && i < node_type(m, n)->count; i++) {
		TypeId element = node_type(m, n)->elements[i];
		if (type_get(m, element)->kind == TYPE_TENSOR && type_get(m, element)->dtype == DTYPE_F16)
			node_set_result_type(m, n, i, of_dtype(m, element, DTYPE_F32));
	}
}

static NodeId convert_after(Module *m, NodeId x, Dtype to, NodeId after) {
	Arg args[2] = {arg_ref(x), arg_dtype(to)};
	NodeId n = node_derive(m, OP_CONVERT, x, dtype_brief(to), of_dtype(m, node_get(m, x)->type, to), 2, args,
	                       node_get(m, after)->next);
	node_get(m, n)->loc = node_get(m, after)->loc;
	return n;
}

/* ---- nodes --------------------------------------------------------------------------------------------------------
 */

/* Those who read n, of float16, read it in float32. */
static NodeId widen_uses(Halves *h, NodeId n) {
	NodeId wide = convert_after(h->m, n, DTYPE_F32, n);
	node_replace_uses(h->m, n, wide, wide);
	note(h, wide);
	return wide;
}

/* n, of float32, is what float16 holds of it to all who read it. */
static void round_result(Halves *h, NodeId n) {
	NodeId half = convert_after(h->m, n, DTYPE_F16, n);
	node_replace_uses(h->m, n, half, half);
	widen_uses(h, half);
	h->rounded++;
}

/* A dtype argument; what a sum is told to add up in, its operand becomes first. */
static void widen_dtype_argument(Halves *h, NodeId n) {
	Module *m = h->m;
	for (uint32_t i = 0; i < node_get(m, n)->arg_count; i++) {
		if (node_arg(m, n, i)->kind != ARG_DTYPE || node_arg(m, n, i)->dtype != DTYPE_F16)
			continue;
		NodeId x = node_input(m, n, 0);
		arg_set(m, node_get(m, n)->arg_first + i, arg_dtype(DTYPE_F32));
		if (op_kind(m, n) != KIND_REDUCTION || x == NONE || (x < h->held.count && h->held.at[x]))
			continue;
		NodeId half = convert_after(m, x, DTYPE_F16, node_get(m, n)->prev);
		NodeId wide = convert_after(m, half, DTYPE_F32, half);
		note(h, wide);
		arg_set_ref(m, node_get(m, n)->arg_first, wide);
	}
}

/* What is stored as float16 was so before it became float32 again. */
static void store_half(Module *m, NodeId n) {
	NodeId value = node_input(m, n, 2);
	bool rounds = node_get(m, n)->op == OP_STORE && value != NONE && node_get(m, value)->op == OP_CONVERT &&
	              node_type(m, node_input(m, n, 0))->dtype == DTYPE_F16;
	if (rounds && node_input(m, value, 0) != NONE && is_half(m, node_input(m, value, 0)))
		arg_set_ref(m, node_get(m, n)->arg_first + 2, node_input(m, value, 0));
}

/* The bits of a float16, or a float16 of bits: it is one for that. The 32 bits of one that was widened stay. */
static void reinterpret(Halves *h, NodeId n) {
	Module *m = h->m;
	NodeId x = node_input(m, n, 0);
	if (is_half(m, n))
		widen_uses(h, n);
	else if (x < h->held.count && h->held.at[x] && dtype_bits(node_type(m, n)->dtype) == 16)
		arg_set_ref(m, node_get(m, n)->arg_first, convert_after(m, x, DTYPE_F16, node_get(m, n)->prev));
}

static void lower_node(Halves *h, NodeId n) {
	Module *m = h->m;
	uint16_t op = node_get(m, n)->op;
	bool half = is_half(m, n);
	if (op == OP_HOST_TENSOR)
		return;
	if (op == OP_VIEW_DTYPE) {
		reinterpret(h, n);
		return;
	}
	if (op_writes(op))
		store_half(m, n);
	if (op_converts(op) && node_input(m, n, 0) != NONE &&
	    node_get(m, n)->type == node_get(m, node_input(m, n, 0))->type) { /* to float32, as it is by now */
		node_replace_uses(m, n, node_input(m, n, 0), NONE);
		node_remove(m, n);
		return;
	}
	if (half && (op_kind(m, n) == KIND_MEMORY || op_converts(op) || op == OP_SCALAR)) {
		if (node_uses(m, n) != NONE)
			widen_uses(h, n);
		return;
	}
	bool exact = needs_no_rounding(h, n);
	widen_dtype_argument(h, n);
	widen_type(m, n);
	if (half && exact)
		note(h, n);
	else if (half && node_uses(m, n) != NONE)
		round_result(h, n);
}

static bool any_half(const Module *m) {
	for (TypeId t = 0; t < m->types.count; t++)
		if (m->types.at[t].kind == TYPE_TENSOR && m->types.at[t].dtype == DTYPE_F16)
			return true;
	return false;
}

bool pass_float16(PassContext *c) {
	Module *m = c->module;
	Halves h = {.m = m};
	if (!any_half(m))
		return true;
	for (GraphId g = 0; g < m->graphs.count; g++)
		for (NodeId n = graph_first(m, g), next; n != NONE; n = next) {
			next = node_get(m, n)->next;
			lower_node(&h, n);
		}
	pass_remark(
		c, "float16",
		"float16 is computed in float32, and %u values are rounded to it; XLA copies each array of it before "
		"or after the kernel, which it does not for bfloat16",
		h.rounded);
	return true;
}
