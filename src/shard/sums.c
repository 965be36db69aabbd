/* sums.c - a loop over a cut block gives each device a part of what it adds up. That is finished by a sum over the
 * devices if the loop does nothing but add, from 0 on, and what it gives is stored as it is. */
#include "cuts.h"

static NodeId behind_aliases(const Module *m, NodeId n) {
	while (n != NONE && (node_get(m, n)->op == OP_NEW_VAR || node_get(m, n)->op == OP_PHI)) {
		const Arg *of = alias_arg(m, n);
		n = of->kind == ARG_REF ? of->node : NONE;
	}
	return n;
}

static bool is_one(const Arg *a) { return a->kind == ARG_NULL || (a->kind == ARG_INT && a->integer == 1); }

/* `n` is its operand `acc` and something else. */
static bool adds_to(const Module *m, NodeId n, NodeId acc) {
	switch (node_get(m, n)->op) {
	case OP_ADDMM:
	case OP_ADDMM_DTYPE:
	case OP_BADDBMM:
	case OP_BADDBMM_DTYPE:
		return behind_aliases(m, node_input(m, n, 0)) == acc && is_one(op_arg(m, n, "beta")) &&
		       is_one(op_arg(m, n, "alpha"));
	case OP_ADD:
		return (behind_aliases(m, node_input(m, n, 0)) == acc ||
		        behind_aliases(m, node_input(m, n, 1)) == acc) &&
		       is_one(op_arg(m, n, "alpha"));
	case OP_DOT: {
		const Arg *to = op_arg(m, n, "acc");
		return to->kind == ARG_REF && behind_aliases(m, to->node) == acc;
	}
	default: return false;
	}
}

/* Uses of a value, behind other names of it, but for questions for its size. */
static uint32_t real_uses(const Module *m, NodeId n) {
	uint32_t count = 0;
	for (ArgId u = node_uses(m, n); u != NONE; u = arg_get(m, u)->next_use) {
		NodeId user = arg_get(m, u)->user;
		uint16_t op = node_get(m, user)->op;
		count += op == OP_NEW_VAR || op == OP_PHI ? real_uses(m, user) : op != OP_SYM_SIZE;
	}
	return count;
}

static bool is_zero(const Module *m, NodeId n) {
	n = behind_aliases(m, n);
	if (n == NONE)
		return false;
	Arg fill = fill_arg(m, n);
	return (fill.kind == ARG_INT && fill.integer == 0) || (fill.kind == ARG_FLOAT && fill.real == 0);
}

static bool check_store(Cuts *c, NodeId store, const Cut *cut, Dtype dtype) {
	const Module *m = c->m;
	TensorId t = access_tensor(m, store);
	const Tensor *x = &m->tensors.at[t];
	uint32_t accesses = 0;
	for (NodeId n = 0; n < m->nodes.count; n++)
		accesses += !node_get(m, n)->dead && op_kind(m, n) == KIND_MEMORY && access_tensor(m, n) != NONE &&
		            tensor_base(m, access_tensor(m, n)) == tensor_base(m, t);
	if (x->role != ROLE_OUTPUT || accesses != 1 || x->whole || (x->has_init && x->init != 0))
		return cuts_refuse(c, store, "%s is more than the sum that '%s' stores", x->name,
		                   node_get(m, store)->name);
	for (uint32_t r = 0; r < m->returns.count; r++)
		if (m->returns.at[r].tensor == t && m->returns.at[r].step_count)
			return cuts_refuse(c, store, "the wrapper computes what it returns of %s", x->name);
	c->tensor[t].sum = *cut;
	c->tensor[t].dtype = dtype;
	vec_push(c->a, &c->stored, store);
	return true;
}

/* All that becomes of a partial sum: it is converted, and stored. */
static bool follow(Cuts *c, NodeId n, const Cut *cut, Dtype dtype) {
	const Module *m = c->m;
	for (ArgId u = node_uses(m, n); u != NONE; u = arg_get(m, u)->next_use) {
		NodeId user = arg_get(m, u)->user;
		uint16_t op = node_get(m, user)->op;
		bool ok = op == OP_SYM_SIZE;
		if (op == OP_NEW_VAR || op == OP_PHI)
			ok = follow(c, user, cut, dtype);
		else if (op == OP_CONVERT && dtype_is_float(node_type(m, user)->dtype) && dtype_is_float(dtype)) {
			vec_push(c->a, &c->dropped, user);
			ok = follow(c, user, cut, dtype);
		} else if (op == OP_STORE && node_input(m, user, 2) == n &&
		           op_arg(m, user, "extra_mask")->kind == ARG_NULL)
			ok = check_store(c, user, cut, dtype);
		if (!ok)
			return cuts_refuse(c, user,
			                   "'%s' makes something else of a sum of which each device has a part",
			                   node_get(m, user)->name);
	}
	return true;
}

/* Does the loop carry nothing but sums? */
static bool only_adds(Cuts *c, GraphId g) {
	const Module *m = c->m;
	const Graph *graph = graph_get(m, g);
	for (uint32_t i = 0; i < graph->carried.count; i++) {
		NodeId acc = graph->placeholders.at[graph->carried.at[i].arg];
		const Arg *result = arg_item(m, graph_results(m, g), graph->carried.at[i].output);
		NodeId given = result->kind == ARG_REF ? behind_aliases(m, result->node) : NONE;
		const Arg *first = arg_item(m, loop_args(m, graph->caller), graph->carried.at[i].arg);
		if (given == NONE || !adds_to(m, given, acc) || real_uses(m, acc) != 1 || real_uses(m, given) != 1)
			return cuts_refuse(c, given, "the loop '%s' does more with '%s' than to add to it",
			                   node_get(m, graph->caller)->name, node_get(m, acc)->name);
		if (first->kind != ARG_REF || !is_zero(m, first->node))
			return cuts_refuse(c, graph->caller, "the sum '%s' does not begin at 0",
			                   node_get(m, acc)->name);
	}
	return true;
}

bool cuts_sum_loop(Cuts *c, GraphId g, const Cut *cut) {
	const Module *m = c->m;
	NodeId call = graph_get(m, g)->caller;
	if (!only_adds(c, g))
		return false;
	for (ArgId u = node_uses(m, call); u != NONE; u = arg_get(m, u)->next_use) {
		NodeId item = arg_get(m, u)->user;
		if (node_get(m, item)->op != OP_GETITEM)
			return cuts_refuse(c, item, "'%s' takes all that a cut loop gives", node_get(m, item)->name);
		if (!follow(c, item, cut, node_type(m, item)->dtype))
			return false;
	}
	return true;
}
