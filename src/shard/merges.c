/* merges.c - a loop over a cut block leaves on each device what its part of the steps carried. What only goes to arrays
 * is stored as it is and merged there; if more is made of it, what follows the loop becomes a kernel of its own, which
 * reads what was merged: split.c. */
#include "cuts.h"

#include <math.h>

void cuts_send(Cuts *c, double elements, Dtype dtype, const Cut *cut) {
	Cut all = cut_without(cut, c->ring->steps);
	if (c->ring->kind == RING_SCATTER && cut_has(cut, c->ring->axis)) {
		double devices = (double)c->mesh->axis[c->ring->axis].devices;
		all = cut_without(&all, c->ring->axis);
		elements /= devices;
		c->sent += elements * dtype_bits(dtype) / 8 * (devices - 1);
	}
	double parts = (double)cut_parts(c->mesh, &all);
	c->sent += 2 * elements * dtype_bits(dtype) / 8 * (parts - 1) / parts;
}

double cuts_size(const Cuts *c, TensorId t, uint32_t d) {
	const Expr *size = &c->m->exprs.at[c->m->tensors.at[t].shape[d]];
	return size->kind == EXPR_INT ? (double)size->value / (double)devices_of(c, &c->tensor[t].dim[d]) : 1;
}

static double elements_of(const Cuts *c, TensorId t) {
	double elements = 1;
	for (uint32_t d = 0; d < c->m->tensors.at[t].rank; d++)
		elements *= cuts_size(c, t, d);
	return elements;
}

/* ---- what is stored as it is ------------------------------------------------------------------------------------- */

/* The only access of an output that begins as nothing. */
static bool is_only_store(const Cuts *c, NodeId store) {
	const Module *m = c->m;
	TensorId t = access_tensor(m, store);
	const Tensor *x = &m->tensors.at[t];
	uint32_t accesses = 0;
	for (NodeId n = 0; n < m->nodes.count; n++)
		accesses += !node_get(m, n)->dead && op_kind(m, n) == KIND_MEMORY && access_tensor(m, n) != NONE &&
		            tensor_base(m, access_tensor(m, n)) == tensor_base(m, t);
	return x->role == ROLE_OUTPUT && accesses == 1 && !x->whole && (!x->has_init || x->init == 0) &&
	       op_arg(m, store, "extra_mask")->kind == ARG_NULL;
}

/* Another name of n; of what a phi begins with it is none. */
static bool is_name_of(const Module *m, NodeId user, NodeId n) {
	uint16_t op = node_get(m, user)->op;
	return (op == OP_NEW_VAR || op == OP_PHI) && alias_arg(m, user)->kind == ARG_REF &&
	       alias_arg(m, user)->node == n;
}

/* It is no use of the value. */
static bool only_asks(uint16_t op) { return op == OP_SYM_SIZE || op == OP_PHI; }

/* All that becomes of a value: it is converted, and stored. What is found is kept in c if it is so. */
static bool only_stored(Cuts *c, NodeId n, const Stored *as) {
	const Module *m = c->m;
	for (ArgId u = node_uses(m, n); u != NONE; u = arg_get(m, u)->next_use) {
		NodeId user = arg_get(m, u)->user;
		uint16_t op = node_get(m, user)->op;
		bool ok = only_asks(op);
		if (is_name_of(m, user, n))
			ok = only_stored(c, user, as);
		else if (op == OP_CONVERT && dtype_is_float(node_type(m, user)->dtype) && dtype_is_float(as->dtype)) {
			vec_push(c->a, &c->dropped, user);
			ok = only_stored(c, user, as);
		} else if (op == OP_STORE && node_input(m, user, 2) == n && is_only_store(c, user)) {
			Stored stored = *as;
			stored.store = user;
			vec_push(c->a, &c->stored, stored);
			ok = true;
		}
		if (!ok)
			return false;
	}
	return true;
}

/* ---- atomics ----------------------------------------------------------------------------------------------------- */

static bool atomic_kind(uint16_t op, MergeKind *kind) {
	*kind = op == OP_ATOMIC_MAX ? MERGE_MAX : op == OP_ATOMIC_MIN ? MERGE_MIN : MERGE_SUM;
	return op == OP_ATOMIC_ADD || op == OP_ATOMIC_MAX || op == OP_ATOMIC_MIN;
}

/* The root does nothing else with the tensor, and roots before and after it only read. */
static bool only_so(const Module *m, TensorId t, NodeId atomic) {
	uint32_t depth;
	GraphId root = graph_root(m, node_get(m, atomic)->graph, &depth);
	bool all = true;
	for (NodeId n = 0; n < m->nodes.count && all; n++) {
		TensorId of = node_get(m, n)->dead || op_kind(m, n) != KIND_MEMORY ? NONE : access_tensor(m, n);
		if (of == NONE || tensor_base(m, of) != t)
			continue;
		bool here = graph_root(m, node_get(m, n)->graph, &depth) == root;
		all = here ? node_get(m, n)->op == node_get(m, atomic)->op && node_uses(m, n) == NONE
		           : node_get(m, n)->op == OP_LOAD;
	}
	return all;
}

bool cuts_merge_atomic(Cuts *c, NodeId atomic, const Cut *cut) {
	const Module *m = c->m;
	TensorId t = access_tensor(m, atomic);
	MergeKind kind;
	if (t == NONE || !atomic_kind(node_get(m, atomic)->op, &kind))
		return false;
	t = tensor_base(m, t);
	const Tensor *x = &m->tensors.at[t];
	bool nothing = kind != MERGE_SUM || !x->has_init || x->init == 0;
	if (x->role != ROLE_OUTPUT || x->whole || !nothing || !only_so(m, t, atomic))
		return false;
	cuts_send(c, elements_of(c, t), x->dtype, cut);
	for (uint32_t i = 0; i < c->stored.count; i++) {
		Stored *other = &c->stored.at[i];
		if (tensor_base(m, access_tensor(m, other->store)) != t)
			continue;
		for (uint32_t k = 0; k < cut->count && !cut_has(&other->cut, cut->axis[k]); k++)
			other->cut.axis[other->cut.count++] = cut->axis[k];
		return true;
	}
	Stored stored = {atomic, kind, *cut, x->dtype};
	vec_push(c->a, &c->stored, stored);
	return true;
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static bool is_used(const Module *m, NodeId n) {
	bool any = false;
	for (ArgId u = node_uses(m, n); u != NONE && !any; u = arg_get(m, u)->next_use) {
		NodeId user = arg_get(m, u)->user;
		any = is_name_of(m, user, n) ? is_used(m, user) : !only_asks(node_get(m, user)->op);
	}
	return any;
}

const Arg *carried_first(const Module *m, GraphId g, uint32_t i) {
	const Graph *graph = graph_get(m, g);
	return arg_item(m, loop_args(m, graph->caller), graph->carried.at[i].arg);
}

/* Each device begins with the loop's first values: they must not count once for each. */
bool carried_begins_as_nothing(const Module *m, GraphId g, uint32_t i, const CarriedFact *fact) {
	double first, most;
	if (fact->kind == MERGE_MAX || fact->kind == MERGE_MIN)
		return true;
	if (!arg_is_filled(m, carried_first(m, g, i), &first))
		return false;
	if (first == 0)
		return true;
	/* exp(-inf) of anything is 0 */
	return fact->kind == MERGE_SCALED && isfinite(first) &&
	       arg_is_filled(m, carried_first(m, g, fact->by), &most) && isinf(most) && most < 0;
}

static bool check_carried(Cuts *c, GraphId g, uint32_t i, const CarriedFacts *facts) {
	const Module *m = c->m;
	const Graph *graph = graph_get(m, g);
	const CarriedFact *fact = &facts->fact[i];
	const char *name = carried_name(m, g, i);
	const char *loop = node_get(m, graph->caller)->name;
	if (fact->wrong != NONE)
		return cuts_refuse(c, fact->wrong,
		                   "'%s' makes '%s', which the loop '%s' carries, into what no merge of parts gives",
		                   node_get(m, fact->wrong)->name, name, loop);
	if (fact->kind == MERGE_SCALED && !carried_begins_as_nothing(m, g, i, fact))
		return cuts_refuse(c, graph->caller, "the sum '%s' does not begin at 0", name);
	return fact->by == NONE || check_carried(c, g, fact->by, facts);
}

/* All that the loop gives is stored as it is. */
static bool all_stored(Cuts *c, NodeId call, const CarriedFacts *facts, const Cut *cut) {
	const Module *m = c->m;
	const Graph *graph = graph_get(m, loop_body(m, call));
	uint32_t stored = c->stored.count, dropped = c->dropped.count;
	bool ok = true;
	for (ArgId u = node_uses(m, call); u != NONE && ok; u = arg_get(m, u)->next_use) {
		NodeId item = arg_get(m, u)->user;
		for (uint32_t i = 0; i < graph->carried.count && ok; i++) {
			if (graph->carried.at[i].output != node_arg(m, item, 1)->integer || !is_used(m, item))
				continue;
			Stored as = {.kind = facts->fact[i].kind, .cut = *cut, .dtype = node_type(m, item)->dtype};
			ok = as.kind != MERGE_SCALED &&
			     carried_begins_as_nothing(m, loop_body(m, call), i, &facts->fact[i]) &&
			     only_stored(c, item, &as);
		}
	}
	if (!ok) {
		c->stored.count = stored;
		c->dropped.count = dropped;
	}
	for (uint32_t i = stored; i < c->stored.count; i++)
		cuts_send(c, elements_of(c, access_tensor(m, c->stored.at[i].store)), c->stored.at[i].dtype, cut);
	return ok;
}

bool cuts_merge_loop(Cuts *c, GraphId g, const Cut *cut) {
	const Module *m = c->m;
	const Graph *graph = graph_get(m, g);
	NodeId call = graph->caller;
	if (!c->facts[g])
		c->facts[g] = carried_facts(m, c->a, g);
	const CarriedFacts *facts = c->facts[g];
	if (facts->writes != NONE)
		return cuts_refuse(c, facts->writes, "'%s' writes what the loop '%s' has carried so far",
		                   node_get(m, facts->writes)->name, node_get(m, call)->name);
	bool used = false;
	for (ArgId u = node_uses(m, call); u != NONE; u = arg_get(m, u)->next_use) {
		NodeId item = arg_get(m, u)->user;
		if (node_get(m, item)->op != OP_GETITEM)
			return cuts_refuse(c, item, "'%s' takes all that a cut loop gives", node_get(m, item)->name);
		if (!is_used(m, item))
			continue;
		uint32_t output = (uint32_t)node_arg(m, item, 1)->integer, i = 0;
		while (i < graph->carried.count && graph->carried.at[i].output != output)
			i++;
		if (i == graph->carried.count)
			return cuts_refuse(c, item, "'%s' is of the last step of the loop '%s'",
			                   node_get(m, item)->name, node_get(m, call)->name);
		if (!check_carried(c, g, i, facts))
			return false;
		used = true;
	}
	if (!used || all_stored(c, call, facts, cut))
		return true;
	Split split = {call, *cut};
	vec_push(c->a, &c->splits, split);
	return split_is_possible(c, call, cut);
}
