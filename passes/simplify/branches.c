/* branches.c - straight code in place of tile.if: both branches run, and each result is chosen.
 *
 * What: the nodes of both branches move to where the tile.if stands, and a result is an aten.where of the predicate.
 * What a branch does besides is guarded: a store gets the predicate as one more extra_mask, the value of an atomic
 * becomes the one that changes nothing, a position that the predicate may hold inside its tensor becomes 0, and a loop
 * makes no step, so that a branch that is not taken leaves out what takes long. Where both branches store the same tile
 * there is one store, of the chosen value. A predicate that is a constant, or that the ranges of ints decide, leaves
 * one branch. Stays: what holds an effect that nothing can hide, such as tile.atomic_xchg. A branch with a matmul, of a
 * predicate that is data, or one that loads what other devices write, is a tile.while of at most one step instead: what
 * is not taken is left out. Why on a TPU: a conditional is a barrier to the scheduler, its results live in VMEM, and no
 * window of a pipeline is read or written in it; a choice takes one instruction a register.
 *
 *     r = if p, g, h, [x], [x]           a = neg x
 *     y = getitem r, 0             =>    b = mul x, 2
 *                                        y = where p, a, b
 */
#include "simplify.h"

typedef struct Conversion {
	PassContext *c;
	Module *m;
	bool *dropped; /* by GraphId, those that it makes too */
	uint32_t count, skipped;
} Conversion;

/* One branch that moves: what is made for it stands before the tile.if, d.n. */
typedef struct Branch {
	Decompose d;
	Arg taken; /* its predicate: a value, or a bool if that is known */
	struct {
		NodeId yes, no;
	} * pair; /* stores of one tile by both branches */
	uint32_t pairs;
} Branch;

/* ---- what can be guarded ---------------------------------------------------------------------------------------- */

/* The dtype that an atomic combines in: its value's and the tensor's. */
static Dtype atomic_dtype(const Module *m, NodeId n) {
	const Arg *value = op_arg(m, n, "value");
	Dtype own = m->tensors.at[access_tensor(m, n)].dtype;
	if (value->kind == ARG_REF)
		return dtype_promote(node_type(m, value->node)->dtype, own);
	return value->kind == ARG_FLOAT && !dtype_is_float(own) ? DTYPE_F32 : own;
}

/* The value with which an atomic leaves what is there as it is. An int that takes part in float32 is rounded. */
bool atomic_has_identity(const Module *m, NodeId n) {
	uint16_t op = node_get(m, n)->op;
	if (!op_is_atomic(op) || op_canonical(op) == op || access_tensor(m, n) == NONE)
		return false;
	return !dtype_is_float(atomic_dtype(m, n)) || dtype_is_float(m->tensors.at[access_tensor(m, n)].dtype);
}

static Arg identity(uint16_t op, Dtype t) {
	switch ((Op)op) {
	case OP_ATOMIC_MAX: return extreme_of_dtype(t, false);
	case OP_ATOMIC_MIN: return extreme_of_dtype(t, true);
	case OP_ATOMIC_AND:
		return t == DTYPE_BOOL || dtype_class(t) == DTYPE_CLASS_UNSIGNED ? extreme_of_dtype(t, true)
		                                                                 : arg_int(-1);
	default: return dtype_is_float(t) ? arg_float(-0.0) : number_of_dtype(t, 0); /* 0.0 + -0.0 is 0.0 */
	}
}

/* An index entry that is one position, and no constant. */
static bool is_position(const Module *m, const Arg *entry) {
	return entry->kind == ARG_REF && arg_block(m, entry) == NONE && node_type(m, entry->node)->count == 0;
}

static bool has_computed_slice(const Module *m, const Arg *index) {
	for (uint32_t i = 0; index->kind == ARG_LIST && i < index->list.count; i++) {
		const Arg *entry = arg_item(m, index, i);
		for (uint32_t k = 0; entry->kind == ARG_SLICE && k < 3; k++)
			if (arg_item(m, entry, k)->kind == ARG_REF)
				return true;
	}
	return false;
}

/* Loops that a branch calls make no step: only its own nodes count. */
static bool can_move(const Module *m, GraphId g) {
	for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next) {
		uint16_t op = node_get(m, n)->op;
		bool atomic = op_is_atomic(op);
		if ((op == OP_WHILE && while_flag(m, n) == NONE) || op == OP_IF ||
		    (atomic && !atomic_has_identity(m, n)) ||
		    (op_kind(m, n) == KIND_MEMORY && has_computed_slice(m, node_arg(m, n, 1))))
			return false;
	}
	return true;
}

/* ---- stores of both branches ------------------------------------------------------------------------------------ */

static bool same_entry(const Module *m, const Arg *a, const Arg *b) {
	if (arg_block(m, a) != NONE)
		return arg_block(m, a) == arg_block(m, b);
	return (a->kind == ARG_INT && b->kind == ARG_INT && a->integer == b->integer) ||
	       (arg_is_whole(m, a) && arg_is_whole(m, b));
}

static bool same_tile(const Module *m, NodeId a, NodeId b) {
	const Arg *x = node_arg(m, a, 1), *y = node_arg(m, b, 1);
	bool same = access_tensor(m, a) == access_tensor(m, b) && x->kind == ARG_LIST && y->kind == ARG_LIST &&
	            x->list.count == y->list.count && node_input(m, a, 3) == NONE && node_input(m, b, 3) == NONE;
	for (uint32_t i = 0; same && i < x->list.count; i++)
		same = same_entry(m, arg_item(m, x, i), arg_item(m, y, i));
	return same;
}

/* The one store of graph g to that tensor, which nothing else there touches; NONE. */
static NodeId only_store(const Module *m, GraphId g, TensorId base) {
	NodeId store = NONE;
	for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next) {
		bool loop = op_lowering(node_get(m, n)->op) == LOWER_LOOP;
		if (op_kind(m, n) != KIND_MEMORY && !loop)
			continue;
		if (loop || (access_base(m, n) == base && store != NONE))
			return NONE;
		if (access_base(m, n) == base)
			store = n;
	}
	return store != NONE && node_get(m, store)->op == OP_STORE ? store : NONE;
}

static NodeId stored_value(const Module *m, NodeId store) { return node_input(m, store, 2); }

static void find_pairs(Branch *b, GraphId yes, GraphId no) {
	Module *m = b->d.m;
	b->pair = arena_array(b->d.c->arena, (size_t)m->tensors.count + 1, sizeof *b->pair);
	for (TensorId t = 0; t < m->tensors.count; t++) {
		NodeId x = only_store(m, yes, t), y = only_store(m, no, t);
		if (x == NONE || y == NONE || !same_tile(m, x, y) || stored_value(m, x) == NONE ||
		    stored_value(m, y) == NONE)
			continue;
		if (node_get(m, stored_value(m, x))->type != node_get(m, stored_value(m, y))->type)
			continue;
		b->pair[b->pairs].yes = x;
		b->pair[b->pairs++].no = y;
	}
}

static bool is_paired(const Branch *b, NodeId n) {
	bool found = false;
	for (uint32_t i = 0; i < b->pairs; i++)
		found = found || b->pair[i].yes == n || b->pair[i].no == n;
	return found;
}

/* Both have moved: the second stores the chosen value. */
static void join_pairs(Branch *b) {
	Module *m = b->d.m;
	for (uint32_t i = 0; i < b->pairs; i++) {
		NodeId yes = b->pair[i].yes, no = b->pair[i].no;
		NodeId chosen = make_where(&b->d, "chosen", b->taken.node, arg_ref(stored_value(m, yes)),
		                           arg_ref(stored_value(m, no)));
		arg_set_ref(m, node_get(m, no)->arg_first + 2, chosen);
		node_move_before(m, no, b->d.n);
		node_remove(m, yes);
	}
}

/* ---- guards ----------------------------------------------------------------------------------------------------- */

/* A mask is a tensor, also where the predicate is symbolic. */
static NodeId mask_of_node(Branch *b, NodeId pred) {
	Arg args[2] = {arg_ref(pred), arg_int(0)};
	bool symbolic = node_type(b->d.m, pred)->kind == TYPE_SYM;
	return symbolic ? make_node(&b->d, OP_NE_SCALAR, "mask", 2, args) : pred;
}

static NodeId mask_of(Branch *b) { return mask_of_node(b, b->taken.node); }

static void guard_store(Branch *b, NodeId store) {
	Module *m = b->d.m;
	NodeId mask = node_input(m, store, 3), taken = mask_of(b);
	NodeId all = make_and(&b->d, "and", mask, taken);
	arg_set(m, node_get(m, store)->arg_first + 3, arg_ref(all));
}

void atomic_guard(Decompose *d, NodeId n, NodeId taken) {
	Module *m = d->m;
	Dtype dtype = atomic_dtype(m, n);
	Arg value = *op_arg(m, n, "value");
	uint32_t slot = op_param_index(node_get(m, n)->op, "value");
	Arg full[3] = {arg_list(m, 0, NULL), value, arg_dtype(dtype)};
	NodeId x =
		value.kind == ARG_REF ? make_converted(d, value.node, dtype) : make_node(d, OP_FULL, "value", 3, full);
	NodeId guarded = make_where(d, "taken", taken, arg_ref(x), identity(node_get(m, n)->op, dtype));
	arg_set(m, node_get(m, n)->arg_first + slot, arg_ref(guarded));
}

static void guard_remote(Branch *b, NodeId n) {
	Module *m = b->d.m;
	uint32_t slot = op_param_index(node_get(m, n)->op, "pred");
	NodeId pred = node_input(m, n, slot);
	NodeId both = pred == NONE ? b->taken.node : make_and(&b->d, "and", mask_of_node(b, pred), mask_of(b));
	arg_set(m, node_get(m, n)->arg_first + slot, arg_ref(both));
}

static void guard_positions(Branch *b, NodeId n) {
	Arg index = *node_arg(b->d.m, n, 1);
	for (uint32_t i = 0; index.kind == ARG_LIST && i < index.list.count; i++) {
		const Arg *entry = arg_item(b->d.m, &index, i);
		if (!is_position(b->d.m, entry))
			continue;
		NodeId inside = make_where(&b->d, "position", b->taken.node, *entry, arg_int(0));
		arg_set_ref(b->d.m, index.list.first + i, inside);
	}
}

/* Its outermost dim ends where it begins. */
static void guard_loop(Branch *b, NodeId call) {
	Module *m = b->d.m;
	Arg begins = *node_arg(m, call, 1), ends = *node_arg(m, call, 2);
	if (begins.kind != ARG_LIST || begins.list.count == 0)
		return;
	NodeId end = make_where(&b->d, "end", b->taken.node, arg_copy(m, *arg_item(m, &ends, 0)),
	                        arg_copy(m, *arg_item(m, &begins, 0)));
	arg_set(m, ends.list.first, arg_ref(end));
}

/* It does not go on where it starts. */
static void guard_while(Branch *b, NodeId call) {
	Module *m = b->d.m;
	ArgId flag = loop_args(m, call)->list.first + while_flag(m, call);
	Arg both[2] = {arg_copy(m, *arg_get(m, flag)), arg_ref(mask_of(b))};
	arg_set(m, flag, arg_ref(make_node(&b->d, OP_LOGICAL_AND, "goes", 2, both)));
}

static void guard(Branch *b, NodeId n) {
	uint16_t op = node_get(b->d.m, n)->op;
	if (is_paired(b, n))
		return;
	if (op == OP_LOAD || (op_writes(op) && !op_is_remote(op))) /* of copies, bounds.c holds them */
		guard_positions(b, n);
	if (op == OP_STORE)
		guard_store(b, n);
	else if (op_is_remote(op))
		guard_remote(b, n);
	else if (op_writes(op))
		atomic_guard(&b->d, n, b->taken.node);
	else if (op == OP_FOR_LOOP)
		guard_loop(b, n);
	else if (op == OP_WHILE)
		guard_while(b, n);
}

/* ---- what is left out ------------------------------------------------------------------------------------------- */

static bool has_matmul(const Module *m, GraphId g) {
	for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next)
		if (op_kind(m, n) == KIND_MATMUL)
			return true;
	return false;
}

static bool copies_come(const Module *m, TensorId base) {
	for (NodeId n = 0; n < m->nodes.count; n++)
		if (!node_get(m, n)->dead && op_is_remote(node_get(m, n)->op) && access_base(m, n) == base)
			return true;
	return false;
}

/* Other devices may write what it loads, unless it is taken. */
static bool loads_exchanged(const Module *m, GraphId g) {
	for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next)
		if (node_get(m, n)->op == OP_LOAD && m->mesh_axis && copies_come(m, access_base(m, n)))
			return true;
	return false;
}

/* What comes out is tensors, and the predicate is data (one of tile positions may end a loop, trim.c) or `any`. */
static bool may_skip(const Module *m, NodeId n, bool any) {
	const Arg *pred = op_arg(m, n, "pred");
	const Type *results = node_type(m, n);
	bool tensors = pred->kind == ARG_REF && (any || node_type(m, pred->node)->kind == TYPE_TENSOR);
	for (uint32_t i = 0; results->kind == TYPE_TUPLE && i < results->count; i++)
		tensors = tensors && type_get(m, results->elements[i])->kind == TYPE_TENSOR;
	return tensors;
}

static NodeId full_of(Decompose *d, TypeId type, Arg value) {
	Arg args[3] = {shape_arg(d->m, type), value, arg_dtype(type_get(d->m, type)->dtype)};
	return make_node(d, OP_FULL, "start", 3, args);
}

/* A cond graph of as many arguments, which gives none of them yet. */
static GraphId condition_new(Module *m, const Graph *body) {
	GraphId cond = graph_new(m, GRAPH_COND, NONE);
	graph_get(m, cond)->blocks.count = 0;
	for (uint32_t i = 0; i < body->placeholders.count; i++) {
		NodeId like = body->placeholders.at[i];
		NodeId p = node_new(m, cond, OP_PLACEHOLDER, node_get(m, like)->name, node_get(m, like)->type, 0, NULL);
		node_insert_before(m, p, graph_get(m, cond)->output);
		vec_push(m->arena, &graph_get(m, cond)->placeholders, p);
	}
	return cond;
}

/* What the branch is called with in place of its placeholders; `all`: else only numbers. */
static void pass_arguments(Module *m, GraphId g, const Arg *args, bool all) {
	const Graph *graph = graph_get(m, g);
	for (uint32_t i = 0; i < graph->placeholders.count; i++)
		while ((all || arg_item(m, args, i)->kind != ARG_REF) &&
		       node_uses(m, graph->placeholders.at[i]) != NONE)
			arg_set(m, node_uses(m, graph->placeholders.at[i]), arg_copy(m, *arg_item(m, args, i)));
}

/* The branch as the body of a while that goes on if `flag` is set, and then no more. `values`: what comes out if it is
 * not taken; then what comes out. */
static void run_once(Branch *b, GraphId g, Arg args, NodeId flag, uint32_t count, NodeId *values) {
	Module *m = b->d.m;
	Decompose inside = b->d;
	pass_arguments(m, g, &args, false);
	Graph body = *graph_get(m, g);
	GraphId cond = condition_new(m, &body);
	Arg graphs[3] = {{.kind = ARG_GRAPH, .graph = cond}, {.kind = ARG_GRAPH, .graph = g}, arg_copy(m, args)};
	graphs[2] = graphs[2].kind == ARG_LIST ? graphs[2] : arg_list(m, 0, NULL);
	TypeId *types = arena_array(m->arena, (size_t)count + 1, sizeof *types);
	Arg *items = arena_array(m->arena, (size_t)count + 1, sizeof *items);
	NodeId call = node_derive(m, OP_WHILE, b->d.n, "taken", type_none(m), 3, graphs, b->d.n);
	graph_get(m, g)->kind = GRAPH_WHILE;
	graph_get(m, g)->caller = graph_get(m, cond)->caller = call;
	inside.n = body.output;
	for (uint32_t i = 0; i < count; i++) {
		const Arg *result = arg_item(m, graph_results(m, g), i);
		types[i] = node_get(m, values[i])->type;
		items[i] = result->kind == ARG_REF ? *result : arg_ref(full_of(&inside, types[i], *result));
	}
	types[count] = node_get(m, flag)->type;
	items[count] = arg_ref(full_of(&inside, types[count], arg_bool(false)));
	Arg results = arg_list(m, count + 1, items);
	node_set_args(m, body.output, 1, &results);
	node_set_type(m, call, type_tuple(m, count + 1, types));
	for (uint32_t i = 0; i <= count; i++) {
		Carried carried = {body.placeholders.count + i, i};
		graph_add_argument(m, g, i < count ? values[i] : flag, i < count ? "start" : "go");
		vec_push(m->arena, &graph_get(m, g)->carried, carried);
	}
	const Graph *test = graph_get(m, cond);
	Arg go = arg_ref(test->placeholders.at[body.placeholders.count + count]);
	results = arg_list(m, 1, &go);
	node_set_args(m, test->output, 1, &results);
	for (uint32_t i = 0; i < count; i++) {
		Arg taken[2] = {arg_ref(call), arg_int(i)};
		values[i] = node_derive(m, OP_GETITEM, call, "result", types[i], 2, taken, b->d.n);
	}
	b->d.failed = b->d.failed || inside.failed;
}

/* ---- one tile.if ------------------------------------------------------------------------------------------------ */

/* Nodes of branch g stand before the tile.if from now on; `args` are what it calls it with. */
static void move_branch(Branch *b, GraphId g, Arg args) {
	Module *m = b->d.m;
	pass_arguments(m, g, &args, true);
	for (NodeId n = graph_first(m, g), next; n != NONE; n = next) {
		next = node_get(m, n)->next;
		if (node_get(m, n)->op == OP_PLACEHOLDER || node_get(m, n)->op == OP_OUTPUT)
			continue;
		if (b->taken.kind == ARG_REF)
			guard(b, n);
		node_move_before(m, n, b->d.n);
	}
}

/* A symbolic int stays one, so that what computes with it does: else * (1 - taken) + then * taken. */
static Arg choose_sym(Branch *b, Arg yes, Arg no) {
	Arg one_less[2] = {arg_int(1), b->taken};
	Arg left[2] = {b->taken, yes}, right[2] = {arg_ref(make_node(&b->d, OP_SYM_SUB, "not", 2, one_less)), no};
	Arg sum[2] = {arg_ref(make_node(&b->d, OP_SYM_MUL, "then", 2, left)),
	              arg_ref(make_node(&b->d, OP_SYM_MUL, "else", 2, right))};
	return arg_ref(make_node(&b->d, OP_SYM_ADD, "chosen", 2, sum));
}

static bool same_value(const Arg *a, const Arg *b) {
	return a->kind == b->kind &&
	       ((a->kind == ARG_REF && a->node == b->node) || (a->kind == ARG_INT && a->integer == b->integer) ||
	        (a->kind == ARG_SYM && a->expr == b->expr));
}

static Arg choose(Branch *b, const Type *type, const Arg *yes, const Arg *no) {
	Module *m = b->d.m;
	if (b->taken.kind == ARG_BOOL)
		return arg_copy(m, b->taken.boolean ? *yes : *no);
	if (same_value(yes, no))
		return arg_copy(m, *yes);
	if (type->kind == TYPE_SYM && type->sym != NONE)
		return arg_sym(type->sym);
	if (type->kind == TYPE_SYM && type->dtype != DTYPE_BOOL && node_type(m, b->taken.node)->kind == TYPE_SYM)
		return choose_sym(b, arg_copy(m, *yes), arg_copy(m, *no));
	return arg_ref(make_where(&b->d, "chosen", b->taken.node, arg_copy(m, *yes), arg_copy(m, *no)));
}

/* What the getitems of the tile.if gave is the chosen value. */
static void replace_results(Branch *b, GraphId yes, GraphId no) {
	Module *m = b->d.m;
	for (ArgId u = node_uses(m, b->d.n), next; u != NONE; u = next) {
		NodeId item = arg_get(m, u)->user, made = m->nodes.count;
		next = arg_get(m, u)->next_use;
		uint32_t i = (uint32_t)node_arg(m, item, 1)->integer;
		Type type = *node_type(m, item);
		Arg chosen =
			choose(b, &type, arg_item(m, graph_results(m, yes), i), arg_item(m, graph_results(m, no), i));
		const char *name = node_get(m, item)->name;
		while (node_uses(m, item) != NONE)
			arg_set(m, node_uses(m, item), arg_copy(m, chosen));
		node_remove(m, item);
		if (chosen.kind == ARG_REF && chosen.node >= made)
			node_rename(m, chosen.node, name);
	}
}

static Arg negated(Branch *b) {
	if (b->taken.kind == ARG_BOOL)
		return arg_bool(!b->taken.boolean);
	uint16_t op = node_type(b->d.m, b->taken.node)->kind == TYPE_SYM ? OP_SYM_NOT : OP_LOGICAL_NOT;
	return arg_ref(make_unary(&b->d, op, "not", b->taken.node));
}

static bool convert(Conversion *v, NodeId n) {
	Module *m = v->m;
	GraphId graphs[2];
	uint32_t count = call_graphs(m, n, graphs);
	Branch b = {.d = {.c = v->c, .m = m, .n = n}, .taken = arg_copy(m, *op_arg(m, n, "pred"))};
	Arg taken = b.taken;
	if (count == 2 && taken.kind == ARG_REF)
		find_pairs(&b, graphs[0], graphs[1]);
	for (uint32_t i = 0; i < count; i++) {
		if (i == 1)
			b.taken = negated(&b);
		v->dropped[graphs[i]] = true;
		if (b.taken.kind != ARG_BOOL || b.taken.boolean)
			move_branch(&b, graphs[i], *op_arg(m, n, i == 0 ? "args" : "else_args"));
	}
	b.taken = taken;
	join_pairs(&b);
	if (count == 2)
		replace_results(&b, graphs[0], graphs[1]);
	v->count++;
	return !b.d.failed;
}

/* The same, of branches that are left out where they are not taken. */
static bool skip(Conversion *v, NodeId n) {
	Module *m = v->m;
	GraphId graphs[2];
	uint32_t count = call_graphs(m, n, graphs);
	Type results = *node_type(m, n);
	uint32_t values = results.kind == TYPE_TUPLE ? results.count : 0;
	Branch b = {.d = {.c = v->c, .m = m, .n = n}, .taken = arg_copy(m, *op_arg(m, n, "pred"))};
	NodeId flag = mask_of(&b), *value = arena_array(v->c->arena, (size_t)values + 1, sizeof *value);
	Arg args = *op_arg(m, n, "args"), others = *op_arg(m, n, "else_args");
	b.taken = negated(&b);
	bool straight = count == 2 && can_move(m, graphs[1]) && !has_matmul(m, graphs[1]);
	if (straight) {
		v->dropped[graphs[1]] = true;
		move_branch(&b, graphs[1], others);
	}
	for (uint32_t i = 0; i < values; i++) {
		const Arg *other = arg_item(m, graph_results(m, graphs[1]), i);
		value[i] = straight && other->kind == ARG_REF
		                   ? other->node
		                   : full_of(&b.d, results.elements[i], straight ? *other : arg_int(0));
	}
	if (count == 2 && !straight)
		run_once(&b, graphs[1], others, b.taken.node, values, value);
	run_once(&b, graphs[0], args, flag, values, value);
	for (ArgId u = node_uses(m, n), next; u != NONE; u = next) {
		NodeId item = arg_get(m, u)->user;
		next = arg_get(m, u)->next_use;
		node_replace_uses(m, item, value[node_arg(m, item, 1)->integer], NONE);
		node_remove(m, item);
	}
	v->skipped++;
	return !b.d.failed;
}

/* The innermost first: what is guarded there is a part of the branch around it then. */
static bool convert_in(Conversion *v, GraphId g) {
	Module *m = v->m;
	for (NodeId n = graph_first(m, g), next; n != NONE; n = next) {
		GraphId graphs[2];
		bool is_if = node_get(m, n)->op == OP_IF, movable = is_if, heavy = false, ok = true, exchanged = false;
		for (uint32_t i = 0, count = is_if ? call_graphs(m, n, graphs) : 0; i < count && ok; i++) {
			ok = convert_in(v, graphs[i]);
			movable = movable && can_move(m, graphs[i]);
			heavy = heavy || has_matmul(m, graphs[i]);
			exchanged = exchanged || loads_exchanged(m, graphs[i]);
		}
		bool left_out = is_if && (heavy || exchanged || !movable) && may_skip(m, n, exchanged);
		if (!ok || (left_out && !skip(v, n)) || (movable && !left_out && !convert(v, n)))
			return false;
		next = node_get(m, n)->next;
		if (movable || left_out)
			node_remove(m, n);
	}
	return true;
}

/* By TensorId: an output that is what the kernel stores. */
static bool *stored_outputs(PassContext *c) {
	const Module *m = c->module;
	bool *stored = arena_array(c->arena, (size_t)m->tensors.count + 1, sizeof *stored);
	for (TensorId t = 0; t < m->tensors.count; t++)
		stored[t] =
			m->tensors.at[t].role == ROLE_OUTPUT && !m->tensors.at[t].has_init && tensor_is_written(m, t);
	return stored;
}

/* An output that only branches store that are never taken holds anything: zeros. */
static void fill_unwritten(Module *m, const bool *stored) {
	for (TensorId t = 0; t < m->tensors.count; t++)
		if (stored[t] && !tensor_is_written(m, t))
			m->tensors.at[t].has_init = true, m->tensors.at[t].init = 0;
}

/* Predicates that the ranges of ints decide, such as of the only tile of a grid's dim, become constants. False if there
 * is no tile.if. */
static bool settle_predicates(PassContext *c) {
	Module *m = c->module;
	IntRanges ranges = {0};
	bool any = false;
	for (NodeId n = 0; n < m->nodes.count; n++) {
		if (node_get(m, n)->dead || node_get(m, n)->op != OP_IF)
			continue;
		any = true;
		if (op_arg(m, n, "pred")->kind != ARG_REF)
			continue;
		if (!ranges.of)
			ranges = int_ranges(c->arena, m);
		IntRange pred = arg_range(&ranges, op_arg(m, n, "pred"));
		if (range_is_one(pred))
			arg_set(m, node_get(m, n)->arg_first + op_param_index(OP_IF, "pred"), arg_bool(pred.low != 0));
	}
	return any;
}

bool pass_branches(PassContext *c) {
	Module *m = c->module;
	if (!settle_predicates(c))
		return true;
	const bool *stored = stored_outputs(c);
	Conversion v = {
		.c = c, .m = m, .dropped = arena_array(c->arena, 3 * (size_t)m->graphs.count + 1, sizeof(bool))};
	for (GraphId g = 0; g < m->graphs.count; g++) {
		GraphKind kind = graph_get(m, g)->kind;
		if (kind != GRAPH_IF && kind != GRAPH_ELSE && !convert_in(&v, g))
			return false;
	}
	if (v.skipped)
		pass_remark(c, "branches", "%u tile.if: what is not taken is left out", v.skipped);
	if (v.count + v.skipped == 0)
		return true;
	for (GraphId g = 0; g < m->graphs.count; g++)
		for (GraphId up = graph_parent(m, g); up != NONE && !v.dropped[g]; up = graph_parent(m, up))
			v.dropped[g] = v.dropped[up];
	module_drop_graphs(m, v.dropped);
	fill_unwritten(m, stored);
	if (v.count)
		pass_remark(c, "branches", "%u tile.if: both branches run, and their results are chosen", v.count);
	return true;
}
