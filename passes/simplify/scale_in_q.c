/* scale_in_q.c - Q is scaled, once before the loop, and not the scores in each of its steps. Only where asked for.
 *
 * What: where a loop multiplies a matmul by a positive constant, and a factor of that matmul is a bfloat16 tile that
 * the loop does not change and reads nowhere else, the factor is multiplied instead: in float32, then rounded to
 * bfloat16. That rounding is new: of each element by up to half a unit in the last place, none if the constant is a
 * power of two. A factor of float32 stays.
 * Why on a TPU: a step has a multiplication less for each score. docs/passes/scale_in_q.md
 *
 *     l = for_loop g, [0], [n], [q]         q_scaled = convert (mul (convert q, float32), 0.09), bfloat16
 *     g(q):                                 l = for_loop g, [0], [n], [q_scaled]
 *       d = bmm q, k                   =>   g(q):
 *       s = mul d, 0.09                       d = bmm q, k
 *       e = exp2 s                            e = exp2 d
 */
#include "simplify.h"

/* Node n is read by `user` alone, but for those that ask for its shape. */
static bool only_reader(const Module *m, NodeId n, NodeId user) {
	for (ArgId u = node_uses(m, n); u != NONE; u = arg_get(m, u)->next_use) {
		NodeId other = arg_get(m, u)->user;
		if (other != user && node_get(m, other)->op != OP_SYM_SIZE)
			return false;
	}
	return true;
}

/* Where the caller names what n, a factor of `user`, stands for in every step; NONE. A graph between the loop and the
 * value would have it scaled in each of its own steps. */
static ArgId constant_slot(const Module *m, NodeId n, NodeId user) {
	while (only_reader(m, n, user) && node_get(m, n)->op == OP_NEW_VAR) {
		user = n;
		n = node_input(m, n, 0);
	}
	const Arg *outer = only_reader(m, n, user) ? constant_argument(m, n) : NULL;
	if (!outer || outer->kind != ARG_REF || node_get(m, outer->node)->op == OP_PLACEHOLDER)
		return NONE;
	return (ArgId)(outer - m->args.at);
}

/* A plain product of two factors, which nothing is added to and only `user` reads. */
static bool is_scores(const Module *m, NodeId n, NodeId user) {
	return matmul_is_plain(m, n) && matmul_arg(node_get(m, n)->op, 0) == 0 && node_input(m, n, 2) == NONE &&
	       only_reader(m, n, user);
}

/* Where the caller names the factor that is to be scaled in place of `product`; NONE. */
static ArgId factor_slot(const Module *m, NodeId product, NodeId scores) {
	if (node_type(m, product)->dtype != DTYPE_F32 || !is_scores(m, scores, product))
		return NONE;
	for (uint32_t i = 0; i < 2; i++) {
		NodeId factor = node_input(m, scores, i);
		ArgId slot = node_type(m, factor)->dtype == DTYPE_BF16 ? constant_slot(m, factor, scores) : NONE;
		if (slot != NONE)
			return slot;
	}
	return NONE;
}

static NodeId scaled_value(Module *m, NodeId value, double scale, NodeId before) {
	Type t = *node_type(m, value);
	TypeId own = node_get(m, value)->type, wide = type_tensor(m, DTYPE_F32, t.count, t.dims);
	Arg widen[2] = {arg_ref(value), arg_dtype(DTYPE_F32)};
	NodeId f32 = node_derive(m, OP_CONVERT, value, "f32", wide, 2, widen, before);
	Arg factors[2] = {arg_ref(f32), arg_float(scale)};
	NodeId product = node_derive(m, OP_MUL, value, "product", wide, 2, factors, before);
	Arg narrow[2] = {arg_ref(product), arg_dtype(DTYPE_BF16)};
	return node_derive(m, OP_CONVERT, value, "scaled", own, 2, narrow, before);
}

static void scale_factor(PassContext *c, NodeId product, NodeId scores, ArgId slot, double scale) {
	Module *m = c->module;
	NodeId value = arg_get(m, slot)->node;
	NodeId scaled = scaled_value(m, value, scale, graph_get(m, node_get(m, product)->graph)->caller);
	pass_remark(c, "scale_in_q", "%s is scaled before the loop, and rounded to bfloat16, in place of %s",
	            node_get(m, value)->name, node_get(m, product)->name);
	arg_set_ref(m, slot, scaled);
	node_replace_uses(m, product, scores, NONE);
	node_remove(m, product);
}

bool pass_scale_in_q(PassContext *c) {
	Module *m = c->module;
	if ((Switch)m->config.scale_in_q.value != SWITCH_ON)
		return true;
	for (GraphId g = 0; g < m->graphs.count; g++)
		for (NodeId n = graph_first(m, g), next; n != NONE; n = next) {
			double scale = 0;
			uint32_t index = scale_index(m, n);
			next = node_get(m, n)->next;
			if (index == NONE || !known_number(m, node_arg(m, n, index), &scale))
				continue;
			NodeId scores = node_input(m, n, 1 - index);
			ArgId slot = factor_slot(m, n, scores);
			if (slot != NONE)
				scale_factor(c, n, scores, slot, scale);
			else if (op_kind(m, scores) == KIND_MATMUL)
				pass_remark(
					c, "scale_in_q",
					"%s stays: no bfloat16 factor of %s is for it alone, and the same in each step",
					node_get(m, n)->name, node_get(m, scores)->name);
		}
	return true;
}
