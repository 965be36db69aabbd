/* ir.c - reading and editing the Module. Every edit keeps the use lists: each ARG_REF slot, also one nested in lists
 * and slices, is a member of the doubly linked list of its node's uses. */
#include "ir.h"

/* ---- reading ---------------------------------------------------------------------------------------------------- */

const Arg no_argument = {.kind = ARG_NULL, .user = NONE, .next_use = NONE, .prev_use = NONE};

bool arg_is_whole(const Module *m, const Arg *a) {
	for (uint32_t i = 0; i < 3; i++)
		if (a->kind != ARG_SLICE || arg_item(m, a, i)->kind != ARG_NULL)
			return false;
	return true;
}

BlockId arg_block(const Module *m, const Arg *arg) {
	switch (arg->kind) {
	case ARG_BLOCK: return arg->block;
	case ARG_SYM: return expr_as_block(m, arg->expr);
	case ARG_REF: {
		const Type *t = node_type(m, arg->node);
		return t->kind == TYPE_SYM && t->dtype != DTYPE_BOOL ? expr_as_block(m, t->sym) : NONE;
	}
	default: return NONE;
	}
}

bool node_has_block(const Module *m, NodeId n, BlockId b) {
	const Type *t = node_type(m, n);
	for (uint32_t i = 0; t->kind == TYPE_TENSOR && i < t->count; i++)
		if (expr_as_block(m, t->dims[i]) == b)
			return true;
	return false;
}

NodeId node_only_user(const Module *m, NodeId n) {
	ArgId use = node_uses(m, n);
	return use != NONE && arg_get(m, use)->next_use == NONE ? arg_get(m, use)->user : NONE;
}

bool graph_holds(const Module *m, GraphId g, Lowering how) {
	for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next)
		if (op_lowering(node_get(m, n)->op) == how)
			return true;
	return false;
}

uint32_t node_use_count(const Module *m, NodeId n) {
	uint32_t count = 0;
	for (ArgId u = node_uses(m, n); u != NONE; u = arg_get(m, u)->next_use)
		count++;
	return count;
}

GraphId graph_find(const Module *m, int64_t id) { return map_get(&m->graph_ids, (uint64_t)id); }

GraphId graph_root(const Module *m, GraphId g, uint32_t *depth) {
	for (*depth = 0; *depth <= GRAPH_DEPTH_MAX; ++*depth) {
		if (graph_get(m, g)->kind == GRAPH_ROOT)
			return g;
		g = graph_parent(m, g);
		if (g == NONE)
			return NONE;
	}
	return NONE;
}

GraphId block_graph(const Module *m, GraphId g, BlockId b) {
	for (uint32_t depth = 0; g != NONE && depth <= GRAPH_DEPTH_MAX; depth++, g = graph_parent(m, g))
		for (uint32_t i = 0; i < graph_get(m, g)->blocks.count; i++)
			if (graph_get(m, g)->blocks.at[i] == b)
				return g;
	return NONE;
}

bool module_has_loops(const Module *m) {
	for (GraphId g = 0; g < m->graphs.count; g++)
		if (graph_get(m, g)->kind != GRAPH_ROOT)
			return true;
	return false;
}

bool block_iterated(const Module *m, BlockId b) {
	for (GraphId g = 0; g < m->graphs.count; g++)
		for (uint32_t i = 0; i < graph_get(m, g)->blocks.count; i++)
			if (graph_get(m, g)->blocks.at[i] == b)
				return true;
	return false;
}

bool block_in_scope(const Module *m, GraphId g, BlockId b) {
	return m->blocks.at[b].reduction || block_graph(m, g, b) != NONE;
}

static uint32_t name_find(const Module *m, const Map *map, const char *name) {
	const char *known = string_find(&m->strings, name);
	return known ? map_get(map, map_key(known)) : NONE;
}

TensorId tensor_find(const Module *m, const char *name) { return name_find(m, &m->tensor_names, name); }
ScalarId scalar_find(const Module *m, const char *name) { return name_find(m, &m->scalar_names, name); }
NodeId graph_node(const Module *m, GraphId g, const char *name) { return name_find(m, &graph_get(m, g)->names, name); }

TensorId tensor_base(const Module *m, TensorId t) {
	while (m->tensors.at[t].role == ROLE_VIEW)
		t = m->tensors.at[t].of;
	return t;
}

bool tensor_is_part(const Module *m, TensorId t) {
	ViewKind view = m->tensors.at[t].view;
	return m->tensors.at[t].role == ROLE_VIEW && (view == VIEW_SLICE || view == VIEW_EXPAND);
}

bool tensor_is_given(const Module *m, TensorId t) {
	TensorRole role = m->tensors.at[tensor_base(m, t)].role;
	return role == ROLE_INPUT || role == ROLE_DERIVED;
}

TensorId access_tensor(const Module *m, NodeId n) {
	NodeId host = node_input(m, n, 0);
	const Arg *name = host == NONE ? &no_argument : node_arg(m, host, 0);
	return name->kind == ARG_TENSOR ? name->tensor : NONE;
}

/* ---- arguments -------------------------------------------------------------------------------------------------- */

static Arg arg_of(ArgKind kind) {
	Arg a = no_argument;
	a.kind = kind;
	return a;
}

Arg arg_null(void) { return arg_of(ARG_NULL); }

Arg arg_bool(bool b) {
	Arg a = arg_of(ARG_BOOL);
	a.boolean = b;
	return a;
}

Arg number_of_dtype(Dtype t, int64_t value) {
	return dtype_is_float(t) ? arg_float((double)value) : t == DTYPE_BOOL ? arg_bool(value != 0) : arg_int(value);
}

Arg extreme_of_dtype(Dtype t, bool greatest) {
	if (dtype_is_float(t))
		return arg_float(greatest ? 1.0 / 0.0 : -1.0 / 0.0);
	if (t == DTYPE_BOOL)
		return arg_bool(greatest);
	bool is_signed = dtype_class(t) == DTYPE_CLASS_SIGNED;
	int64_t most = (INT64_C(1) << (dtype_bits(t) - is_signed)) - 1;
	return arg_int(greatest ? most : is_signed ? -most - 1 : 0);
}

Arg arg_int(int64_t i) {
	Arg a = arg_of(ARG_INT);
	a.integer = i;
	return a;
}

Arg arg_float(double f) {
	Arg a = arg_of(ARG_FLOAT);
	a.real = f;
	return a;
}

Arg arg_dtype(Dtype t) {
	Arg a = arg_of(ARG_DTYPE);
	a.dtype = t;
	return a;
}

Arg arg_ref(NodeId n) {
	Arg a = arg_of(ARG_REF);
	a.node = n;
	return a;
}

Arg arg_sym(ExprId e) {
	Arg a = arg_of(ARG_SYM);
	a.expr = e;
	return a;
}

Arg size_arg(const Module *m, ExprId e) {
	return m->exprs.at[e].kind == EXPR_INT ? arg_int(m->exprs.at[e].value) : arg_sym(e);
}

Arg shape_arg(Module *m, TypeId type) {
	const Type *t = type_get(m, type);
	Arg sizes[RANK_MAX];
	for (uint32_t i = 0; i < t->count; i++)
		sizes[i] = size_arg(m, t->dims[i]);
	return arg_list(m, t->count, sizes);
}

/* Consecutive slots at the end of Module.args; `items` may itself point into Module.args. */
static ArgId args_push(Module *m, uint32_t count, const Arg *items) {
	ArgId first = m->args.count;
	const Arg *old = m->args.at;
	bool inside = old && items >= old && items < old + first;
	size_t offset = inside ? (size_t)(items - old) : 0;
	vec_reserve(m->arena, &m->args, count);
	if (inside)
		items = m->args.at + offset;
	for (uint32_t i = 0; i < count; i++) {
		Arg a = items[i];
		a.user = a.next_use = a.prev_use = NONE;
		m->args.at[m->args.count++] = a;
	}
	return first;
}

Arg arg_list(Module *m, uint32_t count, const Arg *items) {
	Arg a = arg_of(ARG_LIST);
	a.list.first = args_push(m, count, items);
	a.list.count = count;
	return a;
}

Arg arg_whole(Module *m) {
	Arg parts[3] = {arg_null(), arg_null(), arg_null()}, slice = arg_list(m, 3, parts);
	slice.kind = ARG_SLICE;
	return slice;
}

Arg arg_copy(Module *m, Arg value) {
	if (!arg_is_list(&value))
		return value;
	uint32_t count = value.list.count;
	ArgId from = value.list.first, to = args_push(m, count, m->args.at ? m->args.at + from : NULL);
	for (uint32_t i = 0; i < count; i++) { /* the call may move Module.args: assign after it */
		Arg item = arg_copy(m, m->args.at[from + i]);
		item.user = item.next_use = item.prev_use = NONE;
		m->args.at[to + i] = item;
	}
	value.list.first = to;
	return value;
}

/* ---- use lists -------------------------------------------------------------------------------------------------- */

/* Nesting of arguments is limited by the loader, so these recurse a bounded depth. */
static void use_link(Module *m, ArgId slot, NodeId user) {
	Arg *a = arg_get(m, slot);
	a->user = user;
	if (a->kind == ARG_REF) {
		Node *node = node_get(m, a->node);
		a->prev_use = NONE;
		a->next_use = node->first_use;
		if (node->first_use != NONE)
			arg_get(m, node->first_use)->prev_use = slot;
		node->first_use = slot;
	} else if (arg_is_list(a)) {
		for (uint32_t i = 0; i < a->list.count; i++)
			use_link(m, a->list.first + i, user);
	}
}

static void use_unlink(Module *m, ArgId slot) {
	Arg *a = arg_get(m, slot);
	if (a->kind == ARG_REF && a->user != NONE) {
		if (a->prev_use != NONE)
			arg_get(m, a->prev_use)->next_use = a->next_use;
		else
			node_get(m, a->node)->first_use = a->next_use;
		if (a->next_use != NONE)
			arg_get(m, a->next_use)->prev_use = a->prev_use;
		a->prev_use = a->next_use = NONE;
	} else if (arg_is_list(a)) {
		for (uint32_t i = 0; i < a->list.count; i++)
			use_unlink(m, a->list.first + i);
	}
	a->user = NONE;
}

void arg_set(Module *m, ArgId slot, Arg value) {
	NodeId user = arg_get(m, slot)->user;
	use_unlink(m, slot);
	value.user = value.next_use = value.prev_use = NONE;
	*arg_get(m, slot) = value;
	if (user != NONE)
		use_link(m, slot, user);
}

void arg_set_ref(Module *m, ArgId slot, NodeId with) { arg_set(m, slot, arg_ref(with)); }

void node_replace_uses(Module *m, NodeId of, NodeId with, NodeId except) {
	if (of == with)
		return;
	for (ArgId u = node_uses(m, of), next; u != NONE; u = next) {
		next = arg_get(m, u)->next_use;
		if (arg_get(m, u)->user != except)
			arg_set_ref(m, u, with);
	}
}

static void node_unlink_args(Module *m, NodeId n) {
	const Node *node = node_get(m, n);
	for (uint32_t i = 0; i < node->arg_count; i++)
		use_unlink(m, node->arg_first + i);
}

void node_set_args(Module *m, NodeId n, uint32_t count, const Arg *args) {
	ArgId first = args_push(m, count, args); /* before unlinking: args may be the node's own */
	node_unlink_args(m, n);
	node_get(m, n)->arg_first = first;
	node_get(m, n)->arg_count = (uint8_t)count;
	for (uint32_t i = 0; i < count; i++)
		use_link(m, first + i, n);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------ */

/* `name`, or name_1, name_2, ... : the first that no live node of the graph has. The Module's counter keeps a long run
 * of equal names linear. */
static const char *name_unique(Module *m, GraphId g, const char *name) {
	const Map *names = &graph_get(m, g)->names;
	const char *unique = string_intern(m->arena, &m->strings, name);
	for (uint32_t i = 1; map_get(names, map_key(unique)) != NONE; i++) {
		uint32_t suffix = i < 16 ? i : ++m->fresh + 15;
		unique = string_intern(m->arena, &m->strings, arena_printf(m->arena, "%s_%u", name, suffix));
	}
	return unique;
}

NodeId node_new(Module *m, GraphId g, uint16_t op, const char *name, TypeId type, uint32_t count, const Arg *args) {
	NodeId n = m->nodes.count;
	name = name_unique(m, g, name);
	Node node = {.name = name,
	             .op = op,
	             .graph = g,
	             .type = type,
	             .first_use = NONE,
	             .prev = NONE,
	             .next = NONE,
	             .origin = NONE};
	vec_push(m->arena, &m->nodes, node);
	map_put(m->arena, &graph_get(m, g)->names, map_key(name), n);
	node_set_args(m, n, count, args);
	return n;
}

/* Takes a node out of its graph's list; it may already stand outside. */
static void node_detach(Module *m, NodeId n) {
	Node *node = node_get(m, n);
	Graph *g = graph_get(m, node->graph);
	if (node->prev != NONE)
		node_get(m, node->prev)->next = node->next;
	else if (g->first == n)
		g->first = node->next;
	if (node->next != NONE)
		node_get(m, node->next)->prev = node->prev;
	else if (g->last == n)
		g->last = node->prev;
	node->prev = node->next = NONE;
}

/* Links a detached node between two neighbours (NONE at an end) of the graph it belongs to. */
static void node_attach(Module *m, NodeId n, NodeId prev, NodeId next) {
	Node *node = node_get(m, n);
	Graph *g = graph_get(m, node->graph);
	node->prev = prev;
	node->next = next;
	if (prev != NONE)
		node_get(m, prev)->next = n;
	else
		g->first = n;
	if (next != NONE)
		node_get(m, next)->prev = n;
	else
		g->last = n;
}

/* Makes a node a member of graph g, under a name that is free there. */
static void node_adopt(Module *m, NodeId n, GraphId g) {
	Node *node = node_get(m, n);
	if (node->graph == g)
		return;
	map_put(m->arena, &graph_get(m, node->graph)->names, map_key(node->name), NONE);
	const char *name = name_unique(m, g, node->name);
	node->name = name;
	node->graph = g;
	node->origin = NONE; /* the document's node of that number is in another graph */
	map_put(m->arena, &graph_get(m, g)->names, map_key(name), n);
}

void node_append(Module *m, NodeId n) {
	node_detach(m, n);
	node_attach(m, n, graph_get(m, node_get(m, n)->graph)->last, NONE);
}

void node_insert_before(Module *m, NodeId n, NodeId before) {
	if (n == before)
		return;
	node_detach(m, n);
	node_adopt(m, n, node_get(m, before)->graph);
	node_attach(m, n, node_get(m, before)->prev, before);
}

void node_insert_after(Module *m, NodeId n, NodeId after) {
	if (n == after)
		return;
	node_detach(m, n);
	node_adopt(m, n, node_get(m, after)->graph);
	node_attach(m, n, after, node_get(m, after)->next);
}

void node_move_before(Module *m, NodeId n, NodeId before) { node_insert_before(m, n, before); }

void node_set_type(Module *m, NodeId n, TypeId t) { node_get(m, n)->type = t; }

void node_set_result_type(Module *m, NodeId n, uint32_t i, TypeId t) {
	Type tuple = *node_type(m, n);
	TypeId *elements = arena_array(m->arena, (size_t)tuple.count + 1, sizeof *elements);
	memcpy(elements, tuple.elements, tuple.count * sizeof *elements);
	elements[i] = t;
	node_set_type(m, n, type_tuple(m, tuple.count, elements));
}

void node_rename(Module *m, NodeId n, const char *name) {
	Node *node = node_get(m, n);
	map_put(m->arena, &graph_get(m, node->graph)->names, map_key(node->name), NONE);
	node->name = name_unique(m, node->graph, name);
	map_put(m->arena, &graph_get(m, node->graph)->names, map_key(node->name), n);
}

void node_remove(Module *m, NodeId n) {
	node_unlink_args(m, n);
	node_detach(m, n);
	Node *node = node_get(m, n);
	node->arg_count = 0;
	node->dead = true;
	map_put(m->arena, &graph_get(m, node->graph)->names, map_key(node->name), NONE);
}
