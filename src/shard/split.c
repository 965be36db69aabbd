/* split.c - what follows a cut loop becomes a root of its own: a kernel over the same grid, which runs when the devices
 * have merged what the loop gave.
 *
 *     acc = for_loop(...)                     acc = for_loop(...)
 *     out[m, n] = acc + bias[n]               acc_part[m, n] = acc
 *                                             --- the wrapper adds up acc_part ---
 *                                             out[m, n] = acc_part[m, n] + bias[n]
 *
 * What it reads from before the loop is computed anew if that is cheap, and goes through an array else. */
#include "cuts.h"

/* An array of a value of a root's tiles. */
typedef struct Laid {
	uint32_t rank;
	ExprId shape[RANK_MAX];
	BlockId block[RANK_MAX]; /* whose tiles index the dim; NONE: it is whole */
	int8_t dim[RANK_MAX]; /* of the value; -1: the dim is only there for a grid that takes positions one by one */
} Laid;

static void lay_dim(Laid *out, ExprId size, BlockId b, int8_t dim) {
	out->shape[out->rank] = size;
	out->block[out->rank] = b;
	out->dim[out->rank++] = dim;
}

/* NULL, or why it cannot lie in an array. */
static const char *lay(const Module *m, GraphId root, NodeId value, Laid *out) {
	const Type *type = node_type(m, value);
	const Graph *graph = graph_get(m, root);
	*out = (Laid){.rank = 0};
	if (type->kind != TYPE_TENSOR || dtype_bits(type->dtype) > 32 || type->dtype == DTYPE_BOOL)
		return "it is no tile of numbers of 32 bits or less";
	for (uint32_t i = 0; i < graph->blocks.count; i++) {
		BlockId b = graph->blocks.at[i];
		bool there = false;
		for (uint32_t d = 0; d < type->count; d++)
			there = there || expr_as_block(m, type->dims[d]) == b;
		if (!there && (!expr_is_int(m, m->blocks.at[b].size, 1) || out->rank + type->count >= RANK_MAX))
			return arena_printf(m->arena, "each tile of %s has its own", m->blocks.at[b].name);
		if (!there)
			lay_dim(out, m->blocks.at[b].extent, b, -1);
	}
	for (uint32_t d = 0; d < type->count; d++) {
		BlockId b = expr_as_block(m, type->dims[d]);
		bool number = m->exprs.at[type->dims[d]].kind == EXPR_INT;
		if (!number && (b == NONE || m->blocks.at[b].extent == NONE || !block_in_scope(m, root, b)))
			return "its size is computed";
		lay_dim(out, number ? type->dims[d] : m->blocks.at[b].extent, b, (int8_t)d);
	}
	return NULL;
}

/* Of it another root can have a copy. */
static bool is_cheap(const Module *m, NodeId n, TensorId made) {
	const Node *node = node_get(m, n);
	for (uint32_t i = 0; i < node->arg_count; i++)
		if (node_arg(m, n, i)->kind == ARG_GRAPH)
			return false;
	switch (op_kind(m, n)) {
	case KIND_POINTWISE:
	case KIND_VIEW:
	case KIND_CREATION:
	case KIND_QUERY:
	case KIND_SYMBOLIC: return true;
	case KIND_STRUCTURE: return node->op != OP_GETITEM && node->op != OP_PHI;
	case KIND_MEMORY: {
		TensorId t = access_tensor(m, n);
		return node->op == OP_LOAD && t != NONE && (tensor_is_given(m, t) || t >= made);
	}
	default: return false;
	}
}

static bool is_result(const Module *m, NodeId n, NodeId call) {
	return node_get(m, n)->op == OP_GETITEM && node_input(m, n, 0) == call;
}

/* The getitem of a carried value, if there is one. */
static NodeId result_of(const Module *m, NodeId call, uint32_t output) {
	for (ArgId u = node_uses(m, call); u != NONE; u = arg_get(m, u)->next_use) {
		NodeId item = arg_get(m, u)->user;
		if (is_result(m, item, call) && node_arg(m, item, 1)->integer == output)
			return item;
	}
	return NONE;
}

/* ---- can it be? -------------------------------------------------------------------------------------------------- */

static double elements_of(const Cuts *c, const Laid *x) {
	double elements = 1;
	for (uint32_t d = 0; d < x->rank; d++)
		elements *= (double)c->m->exprs.at[x->shape[d]].value /
		            (x->block[d] == NONE ? 1 : (double)devices_of(c, &c->block[x->block[d]]));
	return elements;
}

static bool check_crossing(Cuts *c, GraphId root, NodeId n) {
	Laid laid;
	const char *why = lay(c->m, root, n, &laid);
	return !why || cuts_refuse(c, n, "'%s' is needed behind the cut loop, and cannot go there: %s",
	                           node_get(c->m, n)->name, why);
}

/* What stands before the loop and is needed behind it. */
static bool check_before(Cuts *c, NodeId call, bool *needed) {
	const Module *m = c->m;
	GraphId root = node_get(m, call)->graph;
	for (NodeId n = node_get(m, call)->prev; n != NONE; n = node_get(m, n)->prev) {
		for (ArgId u = node_uses(m, n); u != NONE && !needed[n]; u = arg_get(m, u)->next_use)
			needed[n] = needed[arg_get(m, u)->user];
		if (!needed[n] || is_cheap(m, n, m->tensors.count))
			continue;
		if (!check_crossing(c, root, n))
			return false;
		needed[n] = false; /* it comes as it is: nothing that it is made of need */
	}
	return true;
}

bool split_is_possible(Cuts *c, NodeId call, const Cut *cut) {
	const Module *m = c->m;
	GraphId root = node_get(m, call)->graph, g = loop_body(m, call);
	const Graph *graph = graph_get(m, g);
	if (graph_get(m, root)->kind != GRAPH_ROOT)
		return cuts_refuse(c, call, "more is made of what the cut loop '%s' gives within another loop",
		                   node_get(m, call)->name);
	for (uint32_t i = 0; i < graph->carried.count; i++) {
		NodeId item = result_of(m, call, graph->carried.at[i].output);
		Laid laid;
		if (item == NONE)
			item = graph->placeholders.at[graph->carried.at[i].arg]; /* of the same type */
		const char *why = lay(m, root, item, &laid);
		if (why && c->facts[g]->fact[i].wrong == NONE)
			return cuts_refuse(c, item, "'%s' cannot be merged: %s", node_get(m, item)->name, why);
		if (!why)
			cuts_send(c, elements_of(c, &laid), node_type(m, item)->dtype, cut);
	}
	bool *needed = arena_array(c->a, (size_t)m->nodes.count + 1, sizeof *needed);
	memset(needed, 0, m->nodes.count * sizeof *needed);
	for (NodeId n = node_get(m, call)->next; n != NONE; n = node_get(m, n)->next)
		needed[n] = true;
	for (uint32_t i = 0; i < graph->carried.count; i++) {
		const Arg *first = carried_first(m, g, i);
		bool added = c->facts[g]->fact[i].kind == MERGE_SUM && c->facts[g]->fact[i].wrong == NONE &&
		             !carried_begins_as_nothing(m, g, i, &c->facts[g]->fact[i]);
		if (added && first->kind != ARG_REF)
			return cuts_refuse(c, call, "the sum '%s' does not begin at 0", carried_name(m, g, i));
		if (added)
			needed[first->node] = true;
	}
	return check_before(c, call, needed);
}

/* ---- the second root --------------------------------------------------------------------------------------------- */

typedef struct Splitter {
	Cuts *c;
	Module *m;
	Sharding *s;
	TensorId made; /* the first tensor that goes between roots */
} Splitter;

/* A value on its way from one root to another. */
typedef struct Crossing {
	Laid laid;
	TensorId tensor;
	NodeId store, load;
} Crossing;

/* What a configuration says of each loop it says of the new root too, the last one: the same as of `index`. */
static void configure_alike(Module *m, uint32_t index, uint32_t loops) {
	for (const KeyRow *row = key_rows; row < key_rows + KEY_COUNT; row++) {
		if (row->each != EACH_LOOP)
			continue;
		ConfigOrders *orders = row->kind == KEY_ORDERS ? key_field(row, &m->config) : NULL;
		ConfigList *list = orders ? NULL : key_field(row, &m->config);
		if (orders && orders->values.count == loops)
			vec_push(m->arena, &orders->values, orders->values.at[index]);
		if (list && list->values.count == loops)
			vec_push(m->arena, &list->values, list->values.at[index]);
	}
}

static GraphId root_like(Module *m, GraphId root) {
	uint32_t loops;
	const GraphId *loop = config_loops(m, m->arena, &loops);
	for (uint32_t i = 0; i < loops; i++)
		if (loop[i] == root)
			configure_alike(m, i, loops);
	GraphId g = graph_new(m, GRAPH_ROOT, NONE);
	graph_get(m, g)->blocks.count = 0;
	for (uint32_t i = 0; i < graph_get(m, root)->blocks.count; i++)
		vec_push(m->arena, &graph_get(m, g)->blocks, graph_get(m, root)->blocks.at[i]);
	return g;
}

/* The tensor, and where a tile of it lies, as arguments of an access before node `before`. */
static void place(Module *m, NodeId before, NodeId value, const Crossing *x, Arg out[2]) {
	Arg items[RANK_MAX], name = {.kind = ARG_TENSOR, .tensor = x->tensor};
	const Tensor *tensor = &m->tensors.at[x->tensor];
	TypeId type = type_tensor(m, tensor->dtype, tensor->rank, tensor->shape);
	out[0] = arg_ref(node_derive(m, OP_HOST_TENSOR, value, "part", type, 1, &name, before));
	for (uint32_t d = 0; d < x->laid.rank; d++) {
		BlockId b = x->laid.block[d];
		Arg block = {.kind = ARG_BLOCK, .block = b};
		if (b == NONE)
			items[d] = arg_whole(m);
		else if (x->laid.dim[d] >= 0)
			items[d] = arg_sym(expr_block(m, b));
		else
			items[d] = arg_ref(node_derive(m, OP_TILE_BEGIN, value, "at", type_sym(m, DTYPE_I32, NONE), 1,
			                               &block, before));
	}
	out[1] = arg_list(m, x->laid.rank, items);
}

/* `name`: of the value, in the wrapper. */
static Crossing cross(Module *m, NodeId value, const char *name, GraphId to) {
	GraphId root = node_get(m, value)->graph;
	Crossing x;
	Arg args[4] = {arg_null(), arg_null(), arg_null(), arg_null()};
	lay(m, root, value, &x.laid);
	TypeId type = node_get(m, value)->type;
	Tensor t = {.role = ROLE_OUTPUT, .dtype = type_get(m, type)->dtype, .rank = x.laid.rank, .of = NONE};
	memcpy(t.shape, x.laid.shape, sizeof t.shape);
	x.tensor = tensor_new(m, arena_printf(m->arena, "%s_part", name), t);
	NodeId end = graph_get(m, root)->output, start = graph_first(m, to);
	place(m, end, value, &x, args);
	args[2] = arg_ref(value);
	x.store = node_derive(m, OP_STORE, value, "store", type_none(m), 4, args, end);
	place(m, start, value, &x, args);
	args[2] = arg_null();
	x.load = node_derive(m, OP_LOAD, value, "merged", type, 3, args, start);
	return x;
}

static bool used_in(const Module *m, NodeId n, GraphId g) {
	bool any = false;
	for (ArgId u = node_uses(m, n); u != NONE && !any; u = arg_get(m, u)->next_use)
		any = node_get(m, arg_get(m, u)->user)->graph == g;
	return any;
}

/* Every use of n in graph g becomes a use of `by`. */
static void use_there(Module *m, NodeId n, GraphId g, NodeId by) {
	for (ArgId u = node_uses(m, n), next; u != NONE; u = next) {
		next = arg_get(m, u)->next_use;
		if (node_get(m, arg_get(m, u)->user)->graph == g)
			arg_set_ref(m, u, by);
	}
}

/* What the first root has and the second one uses; each stands before what came so far. */
static void bring_before(const Splitter *p, GraphId root, GraphId to) {
	Module *m = p->m;
	for (NodeId n = graph_get(m, root)->last, prev; n != NONE; n = prev) {
		prev = node_get(m, n)->prev;
		if (!used_in(m, n, to))
			continue;
		NodeId there = is_cheap(m, n, p->made) ? node_copy(m, n, graph_first(m, to))
		                                       : cross(m, n, node_get(m, n)->name, to).load;
		use_there(m, n, to, there);
	}
}

/* Its phis are no choice any more. */
static void drop_phis(Module *m, NodeId load) {
	for (ArgId u = node_uses(m, load), next; u != NONE; u = next) {
		NodeId user = arg_get(m, u)->user;
		next = arg_get(m, u)->next_use;
		if (node_get(m, user)->op != OP_PHI || node_input(m, user, 1) != load)
			continue;
		node_replace_uses(m, user, load, NONE);
		node_remove(m, user);
		next = node_uses(m, load); /* the list is another one */
	}
}

/* The loop begins at 0, and what it began at is added to what is merged. */
static void begin_at_zero(Module *m, GraphId g, uint32_t i, NodeId load) {
	NodeId call = graph_get(m, g)->caller;
	ArgId slot = loop_args(m, call)->list.first + graph_get(m, g)->carried.at[i].arg;
	NodeId first = arg_get(m, slot)->node, behind = node_get(m, load)->next;
	TypeId type = node_get(m, load)->type;
	Dtype dtype = type_get(m, type)->dtype;
	Arg zeros[3] = {shape_arg(m, type), number_of_dtype(dtype, 0), arg_dtype(dtype)};
	NodeId zero = node_derive(m, OP_FULL, load, "zero", type, 3, zeros, call);
	arg_set_ref(m, slot, zero);
	Arg sum[3] = {arg_ref(load), arg_ref(first), arg_int(1)};
	node_replace_uses(m, load, node_derive(m, OP_ADD, load, "in_all", type, 3, sum, behind), NONE);
	arg_set_ref(m, node_get(m, node_get(m, behind)->prev)->arg_first, load);
}

/* By dim of an array the dim of its maximum's. */
static void merge_rows(Merge *merge, const CarriedFact *fact, const Laid *x, const Laid *by) {
	memset(merge->row, -1, sizeof merge->row);
	for (uint32_t d = 0; d < x->rank; d++)
		for (uint32_t k = 0; k < by->rank; k++) {
			bool own = x->dim[d] >= 0 && by->dim[k] >= 0;
			if (own ? fact->row[x->dim[d]] == by->dim[k]
			        : x->block[d] != NONE && x->block[d] == by->block[k])
				merge->row[d] = (int8_t)k;
		}
}

/* Roots are numbered when all are there: until then Merge.root is a store in it. */
static void push_merge(Splitter *p, NodeId store, const Merge *merge) {
	vec_push(p->c->a, &p->s->merges, *merge);
	p->s->merges.at[p->s->merges.count - 1].root = store;
}

/* The results that are used behind the loop, and what others are scaled by, go there by arrays that are merged. */
static void merge_results(Splitter *p, const Split *split, GraphId to) {
	Module *m = p->m;
	GraphId g = loop_body(m, split->call);
	const CarriedFact *fact = p->c->facts[g]->fact;
	uint32_t count = graph_get(m, g)->carried.count;
	NodeId *item = arena_array(p->c->a, (size_t)count + 1, sizeof *item);
	Crossing *x = arena_array(p->c->a, (size_t)count + 1, sizeof *x);
	bool *needed = arena_array(p->c->a, (size_t)count + 1, sizeof *needed);
	memset(needed, 0, count * sizeof *needed);
	for (uint32_t i = 0; i < count; i++) {
		item[i] = result_of(m, split->call, graph_get(m, g)->carried.at[i].output);
		if (item[i] == NONE || !used_in(m, item[i], to))
			continue;
		needed[i] = true;
		if (fact[i].by != NONE)
			needed[fact[i].by] = true;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (!needed[i])
			continue;
		uint32_t output = graph_get(m, g)->carried.at[i].output;
		if (item[i] == NONE) {
			TypeId type = type_get(m, node_get(m, split->call)->type)->elements[output];
			item[i] = node_new(m, node_get(m, split->call)->graph, OP_GETITEM, "getitem", type, 2,
			                   (Arg[]){arg_ref(split->call), arg_int(output)});
			node_insert_after(m, item[i], split->call);
		}
		x[i] = cross(m, item[i], carried_name(m, g, i), to);
		use_there(m, item[i], to, x[i].load);
		drop_phis(m, x[i].load);
		if (!carried_begins_as_nothing(m, g, i, &fact[i]))
			begin_at_zero(m, g, i, x[i].load);
	}
	for (int scaled = 0; scaled <= 1; scaled++)
		for (uint32_t i = 0; i < count; i++) {
			if (!needed[i] || (fact[i].kind == MERGE_SCALED) != scaled)
				continue;
			Merge merge = {.kind = fact[i].kind, .by = NONE, .cut = split->cut};
			merge.name = carried_name(m, g, i);
			merge.tensor = x[i].tensor;
			if (scaled) {
				merge.by = x[fact[i].by].tensor;
				merge.exp = fact[i].exp;
				merge_rows(&merge, &fact[i], &x[i].laid, &x[fact[i].by].laid);
			}
			push_merge(p, x[i].store, &merge);
		}
}

static void move_nodes(Module *m, NodeId first, NodeId call, GraphId to) {
	for (NodeId n = first, next; n != NONE; n = next) {
		next = node_get(m, n)->next;
		if (node_get(m, n)->op != OP_OUTPUT && (call == NONE || !is_result(m, n, call)))
			node_move_before(m, n, graph_get(m, to)->output);
	}
}

static GraphId split_at(Splitter *p, const Split *split) {
	Module *m = p->m;
	GraphId root = node_get(m, split->call)->graph, to = root_like(m, root);
	move_nodes(m, node_get(m, split->call)->next, split->call, to);
	merge_results(p, split, to);
	bring_before(p, root, to);
	return to;
}

/* The first split of the graph; NULL. */
static const Split *split_in(const Splitter *p, GraphId g) {
	for (NodeId n = graph_first(p->m, g); n != NONE; n = node_get(p->m, n)->next)
		for (uint32_t i = 0; i < p->c->splits.count; i++)
			if (p->c->splits.at[i].call == n)
				return &p->c->splits.at[i];
	return NULL;
}

/* Roots run in the order of their graphs: behind one that was split all others are made anew. */
static void split_all(Splitter *p) {
	Module *m = p->m;
	uint32_t count = m->graphs.count;
	bool *drop = arena_array(p->c->a, (size_t)count * 2 + p->c->splits.count + 1, sizeof *drop);
	memset(drop, 0, ((size_t)count * 2 + p->c->splits.count + 1) * sizeof *drop);
	for (GraphId g = 0; g < count; g++) {
		if (graph_get(m, g)->kind != GRAPH_ROOT)
			continue;
		GraphId root = g;
		if (m->graphs.count > count) {
			root = root_like(m, g);
			move_nodes(m, graph_first(m, g), NONE, root);
			drop[g] = true;
		}
		for (const Split *split; (split = split_in(p, root)) != NULL;)
			root = split_at(p, split);
	}
	module_drop_graphs(m, drop);
}

uint32_t root_number(const Module *m, NodeId n) {
	uint32_t depth, number = 0;
	GraphId root = graph_root(m, node_get(m, n)->graph, &depth);
	for (GraphId g = 0; g < root; g++)
		number += graph_get(m, g)->kind == GRAPH_ROOT;
	return number;
}

void split_roots(Cuts *c, Sharding *s) {
	Splitter p = {.c = c, .m = c->m, .s = s, .made = c->m->tensors.count};
	if (c->splits.count)
		split_all(&p);
	for (uint32_t i = 0; i < c->stored.count; i++) {
		const Stored *stored = &c->stored.at[i];
		Merge merge = {.kind = stored->kind, .by = NONE, .cut = stored->cut};
		merge.tensor = tensor_base(c->m, access_tensor(c->m, stored->store));
		merge.name = c->m->tensors.at[merge.tensor].name;
		push_merge(&p, stored->store, &merge);
	}
	for (uint32_t i = 0; i < s->merges.count; i++)
		s->merges.at[i].root = root_number(c->m, s->merges.at[i].root);
}
