/* scale_after_max.c - the maximum of scaled values is the scaled maximum.
 *
 * What: amax(x * c), c a positive constant, becomes amax(x) * c; amin alike; a mask_to between, whose value the scale
 * leaves as it is, stays. The multiplication of the other uses moves down to the first of them. Exact: x * c rounds
 * monotonically, so the largest product is the product of the largest; NaN and infinities stay what they are. The
 * constant is one whose products can neither vanish nor overflow by themselves: a zero would make NaN of an infinity.
 * Why on a TPU: the maximum is taken of what the MXU gives, while that is in registers; and what is scaled is computed
 * where it is read, register by register, and not stored for it in between. docs/passes/scale_after_max.md
 *
 *     s = mul d, 0.09                 m = amax d
 *     m = amax s             =>       m_scaled = mul m, 0.09
 *     e = sub s, m                    s = mul d, 0.09
 *                                     e = sub s, m_scaled
 */
#include "simplify.h"

#include <float.h>
#include <math.h>

bool known_number(const Module *m, const Arg *a, double *value) {
	if (a->kind == ARG_INT || a->kind == ARG_FLOAT) {
		*value = a->kind == ARG_INT ? (double)a->integer : a->real;
		return true;
	}
	if (a->kind != ARG_REF || node_get(m, a->node)->op != OP_SCALAR)
		return false;
	const Scalar *s = &m->scalars.at[node_arg(m, a->node, 0)->scalar];
	*value = dtype_is_float(s->dtype) ? s->value : (double)s->int_value;
	return s->has_value && s->dtype != DTYPE_BOOL;
}

/* Positive, and far from where float32 or bfloat16 round it to zero or infinity. */
static bool is_scale(const Module *m, const Arg *a) {
	double value = 0;
	return known_number(m, a, &value) && value >= (double)FLT_MIN && value <= (double)FLT_MAX / 2;
}

uint32_t scale_index(Module *m, NodeId n) {
	uint16_t op = node_get(m, n)->op;
	Dtype dtype = node_type(m, n)->dtype;
	if (op_canonical(op) != OP_MUL || (dtype != DTYPE_F32 && dtype != DTYPE_BF16))
		return NONE;
	for (uint32_t i = 0; i < 2; i++) {
		NodeId x = node_input(m, n, 1 - i);
		if (x != NONE && is_scale(m, node_arg(m, n, i)) &&
		    type_equal(m, node_get(m, x)->type, node_get(m, n)->type))
			return i;
	}
	return NONE;
}

/* It puts -inf (of a minimum: inf) into lanes: which the scale leaves there. */
static bool masks_with(const Module *m, NodeId n, double value) {
	const Arg *with = node_arg(m, n, 1);
	return node_get(m, n)->op == OP_MASK_TO && with->kind == ARG_FLOAT && with->real == value;
}

/* The product that the reduction is of, and the mask between; NONE. */
static NodeId reduced_product(Module *m, NodeId reduction, NodeId *mask) {
	uint16_t op = node_get(m, reduction)->op;
	*mask = NONE;
	/* Two values of rank 0 promote otherwise than a tile and a number do. */
	if ((op != OP_AMAX && op != OP_AMIN) || node_type(m, reduction)->count == 0)
		return NONE;
	NodeId n = node_input(m, reduction, 0);
	if (n != NONE && masks_with(m, n, op == OP_AMAX ? -INFINITY : INFINITY)) {
		*mask = n;
		n = node_input(m, n, 0);
	}
	return n != NONE && scale_index(m, n) != NONE ? n : NONE;
}

/* The mask now masks x; a copy does where the mask has other users. */
static NodeId mask_unscaled(Module *m, NodeId mask, NodeId x, NodeId reduction) {
	NodeId own = node_use_count(m, mask) == 1 ? mask : node_copy(m, mask, reduction);
	arg_set_ref(m, node_get(m, own)->arg_first, x);
	return own;
}

static void scale_result(Module *m, NodeId reduction, const Arg *scale) {
	const Node *r = node_get(m, reduction);
	Arg args[2] = {arg_ref(reduction), arg_copy(m, *scale)};
	const char *name = arena_printf(m->arena, "%s_scaled", r->name);
	NodeId scaled = node_new(m, r->graph, OP_MUL, name, r->type, 2, args);
	node_get(m, scaled)->loc = node_get(m, reduction)->loc;
	node_insert_after(m, scaled, reduction);
	node_replace_uses(m, reduction, scaled, scaled);
}

/* Down to before its first user. */
static void move_down(Module *m, NodeId product) {
	for (NodeId n = node_get(m, product)->next; n != NONE; n = node_get(m, n)->next)
		for (ArgId u = node_uses(m, product); u != NONE; u = arg_get(m, u)->next_use)
			if (arg_get(m, u)->user == n) {
				if (node_get(m, product)->next != n)
					node_move_before(m, product, n);
				return;
			}
}

static void rewrite(PassContext *c, NodeId reduction, NodeId mask, NodeId product) {
	Module *m = c->module;
	uint32_t scale = scale_index(m, product);
	NodeId x = node_input(m, product, 1 - scale);
	arg_set_ref(m, node_get(m, reduction)->arg_first, mask == NONE ? x : mask_unscaled(m, mask, x, reduction));
	scale_result(m, reduction, node_arg(m, product, scale));
	pass_remark(c, "scale_after_max", "%s is the %s of %s, scaled: %s is computed where it is used",
	            node_get(m, reduction)->name, node_get(m, reduction)->op == OP_AMAX ? "maximum" : "minimum",
	            node_get(m, x)->name, node_get(m, product)->name);
	if (node_uses(m, product) == NONE)
		node_remove(m, product);
	else
		move_down(m, product);
}

/* Measured: in a loop that stays one, the tile is kept from step to step or read from scratch anyway, and what is
 * scaled late costs more there than it saves. */
static bool pays(const Module *m, GraphId g) {
	Switch asked = (Switch)m->config.scale_after_max.value;
	bool unrolled = module_loop_type(m) == LOOP_UNROLL && graph_get(m, g)->kind == GRAPH_FOR_LOOP;
	return asked == SWITCH_ON || (asked == SWITCH_AUTO && unrolled);
}

bool pass_scale_after_max(PassContext *c) {
	Module *m = c->module;
	for (GraphId g = 0; g < m->graphs.count; g++)
		for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next) {
			NodeId product, mask;
			bool moves = pays(m, g);
			while ((product = reduced_product(m, n, &mask)) != NONE && moves)
				rewrite(c, n, mask, product);
			if (product != NONE && (Switch)m->config.scale_after_max.value == SWITCH_AUTO)
				pass_remark(c, "scale_after_max",
				            "%s stays of what is scaled, %s: it is not in an unrolled loop%s",
				            node_get(m, n)->name, node_get(m, product)->name,
				            m->fenced ? " without fences" : "");
		}
	return true;
}
