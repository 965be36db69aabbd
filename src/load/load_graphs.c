/* load_graphs.c - graphs and their nodes, in two sweeps: first every graph's fields and every node's name and target,
 * so that a reference can say what it found; then arguments and metas in order. */
#include "loader.h"

/* ---- first sweep: graphs ---------------------------------------------------------------------------------------- */

static const char *const kind_names[] = {"root",  "for_loop", "reduction_loop", "if", "else",
                                         "while", "cond",     "combine",        NULL};

static bool graph_kind(Loader *l, const json_t *v, const Path *path, GraphKind *out) {
	const char *text;
	Path at = path_key(path, "kind");
	bool unclear = l->kinds_unclear;
	l->kinds_unclear = true; /* until it is known */
	if (!get_string(&l->r, v, "kind", path, true, &text))
		return false;
	for (int i = 0; kind_names[i]; i++) {
		if (strcmp(text, kind_names[i]) == 0) {
			*out = (GraphKind)i;
			l->kinds_unclear = unclear;
			return true;
		}
	}
	const char *hint = hint_nearest(&l->r, text, kind_names);
	diag_error(l->r.d, place_at(&l->r, &at), "unknown-kind",
	           hint ? hint : "one of root, for_loop, reduction_loop, if, else, while, cond, combine",
	           "unknown kind of graph '%s'", text);
	return false;
}

static void graph_blocks(Loader *l, const json_t *v, const char *key, const Path *path, Graph *g) {
	const json_t *list = need(&l->r, v, key, path, "the graph");
	Path here = path_key(path, key);
	if (!list || !read_list(&l->r, list, &here, "a list of block ids"))
		return;
	for (size_t i = 0; i < json_array_size(list); i++) {
		Path at = path_index(&here, i);
		int64_t id;
		if (!to_int(&l->r, json_array_get(list, i), &at, "a block id", &id))
			continue;
		bool twice = false;
		for (uint32_t k = 0; k < g->blocks.count && k < RANK_MAX; k++)
			twice |= g->blocks.at[k] == id;
		bool unknown = id < 0 || id >= l->m->blocks.count;
		l->calls_unclear |= unknown;
		if (unknown && l->symbols_unclear)
			continue;
		if (unknown)
			diag_error(l->r.d, place_at(&l->r, &at), "unknown-block", NULL, "there is no block %lld",
			           (long long)id);
		else if (twice)
			diag_error(l->r.d, place_at(&l->r, &at), "duplicate-block", NULL,
			           "block %lld stands here twice", (long long)id);
		else
			vec_push(l->r.arena, &g->blocks, (BlockId)id);
	}
	if (json_array_size(list) > RANK_MAX)
		diag_error(l->r.d, place_at(&l->r, &here), "rank", NULL, "%zu dims: at most %d are supported",
		           json_array_size(list), RANK_MAX);
}

static void graph_carried(Loader *l, const json_t *v, const Path *path, Graph *g) {
	const json_t *list = json_object_get(v, "carried");
	Path here = path_key(path, "carried");
	if (!list || json_is_null(list) || !read_list(&l->r, list, &here, "a list of [argument, output]"))
		return;
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *pair = json_array_get(list, i);
		const json_t *arg = json_array_get(pair, 0), *output = json_array_get(pair, 1);
		Path at = path_index(&here, i);
		if (json_array_size(pair) != 2 || !json_is_integer(arg) || !json_is_integer(output)) {
			expected(&l->r, &at, "[argument, output], two ints", pair);
			continue;
		}
		json_int_t a = json_integer_value(arg), o = json_integer_value(output);
		Carried c = {.arg = a >= 0 && a < NONE ? (uint32_t)a : NONE,
		             .output = o >= 0 && o < NONE ? (uint32_t)o : NONE};
		vec_push(l->r.arena, &g->carried, c); /* ranges are checked when the outputs are known */
	}
}

/* Which fields a kind of graph has beside id, kind and nodes. */
static void graph_fields(Loader *l, const json_t *v, const Path *path, Graph *g) {
	bool loop = g->kind == GRAPH_FOR_LOOP || g->kind == GRAPH_REDUCTION_LOOP;
	static const char *const fields[] = {"grid", "block_ids", "lengths", "carried"};
	bool allowed[] = {g->kind == GRAPH_ROOT, loop, loop, loop || g->kind == GRAPH_WHILE};
	for (int i = 0; i < 4; i++) {
		const json_t *value = json_object_get(v, fields[i]);
		Path at = path_key(path, fields[i]);
		if (value && !json_is_null(value) && !allowed[i])
			diag_error(l->r.d, place_key(&l->r, &at), "field-of-other-kind", NULL,
			           "a graph of kind '%s' has no '%s'", kind_names[g->kind], fields[i]);
	}
	if (g->kind == GRAPH_ROOT)
		graph_blocks(l, v, "grid", path, g);
	if (loop)
		graph_blocks(l, v, "block_ids", path, g);
	int64_t lengths;
	if (loop && get_int(&l->r, v, "lengths", path, false, &lengths))
		g->lengths = lengths >= 0 && lengths < NONE - 1 ? (uint32_t)lengths : NONE - 1;
	if (allowed[3])
		graph_carried(l, v, path, g);
}

/* ---- first sweep: nodes ----------------------------------------------------------------------------------------- */

static uint16_t node_op(Loader *l, const NodeMembers *v, const Path *path) {
	static const char *const names[] = {"call_function", "placeholder", "output", NULL};
	const json_t *op = v->at[NODE_OP], *target = v->at[NODE_TARGET];
	const char *text = json_string_value(op);
	Path op_at = path_key(path, "op"), target_at = path_key(path, "target");
	if (op && !text) {
		expected(&l->r, &op_at, "a string", op);
		return OP_UNKNOWN;
	}
	bool call = !text || strcmp(text, names[0]) == 0;
	if (call) {
		target = needed(&l->r, target, "target", path, "a node");
		return target ? load_target(l, target, &target_at) : OP_UNKNOWN;
	}
	if (strcmp(text, "placeholder") != 0 && strcmp(text, "output") != 0) {
		diag_error(l->r.d, place_at(&l->r, &op_at), "unknown-op", hint_nearest(&l->r, text, names),
		           "unknown op '%s'", text);
		return OP_UNKNOWN;
	}
	if (target && !json_is_null(target))
		diag_error(l->r.d, place_key(&l->r, &target_at), "node-target", NULL,
		           "a node with op '%s' has no target", text);
	return *text == 'p' ? OP_PLACEHOLDER : OP_OUTPUT;
}

static void node_define(Loader *l, const json_t *v, const Path *at, uint32_t index) {
	static const char *const known[] = {"name", "op", "target", "args", "kwargs", "meta", "loc", NULL};
	Module *m = l->m;
	Graph *g = graph_get(m, l->graph);
	NodeId n = m->nodes.count;
	NodeMembers members;
	Node node = {.name = "?",
	             .op = OP_UNKNOWN,
	             .graph = l->graph,
	             .type = type_none(m),
	             .first_use = NONE,
	             .prev = g->last,
	             .next = NONE,
	             .origin = index};
	const char *name;
	Path name_at = path_key(at, "name");
	if (read_members(&l->r, v, at, "a node", known, members.at)) {
		if (take_string(&l->r, members.at[NODE_NAME], "name", at, true, &name)) {
			node.name = intern(l, name);
			if (map_get(&g->names, map_key(node.name)) != NONE) {
				diag_error(l->r.d, place_at(&l->r, &name_at), "duplicate-name", "rename one of them",
				           "two nodes of graph %lld are called '%s'", (long long)g->id, name);
				diag_related(l->r.d, node_place(m, l->r.d, map_get(&g->names, map_key(node.name))),
				             "the other one stands here");
			} else
				map_put(l->r.arena, &g->names, map_key(node.name), n);
		}
		node.op = node_op(l, &members, at);
	}
	vec_push(l->r.arena, &l->members, members);
	node.dead = node.op == OP_UNKNOWN; /* while loading: reported, so say nothing of its users */
	vec_push(l->r.arena, &m->nodes, node);
	if (g->last != NONE)
		node_get(m, g->last)->next = n;
	else
		g->first = n;
	g->last = n;
	if (node.op == OP_PLACEHOLDER)
		vec_push(l->r.arena, &g->placeholders, n);
}

static void graph_outputs(Loader *l, const json_t *nodes, const Path *here) {
	Graph *g = graph_get(l->m, l->graph);
	for (NodeId n = g->first; n != NONE; n = node_get(l->m, n)->next) {
		if (node_get(l->m, n)->op != OP_OUTPUT)
			continue;
		Path at = path_index(here, node_get(l->m, n)->origin);
		if (n != g->last)
			diag_error(l->r.d, place_at(&l->r, &at), "output-node", NULL,
			           "the output node must be the graph's last");
		g->output = n;
	}
	if (g->output == NONE && json_is_array(nodes))
		diag_error(l->r.d, place_at(&l->r, here), "output-node",
		           "end it with {\"name\": \"output\", \"op\": \"output\", \"args\": [[]]}",
		           "graph %lld has no output node", (long long)g->id);
}

static void load_graph(Loader *l, const json_t *v, const Path *at) {
	static const char *const known[] = {"id", "kind", "grid", "block_ids", "carried", "lengths", "nodes", NULL};
	Graph g = {.id = -1,
	           .origin = l->m->graphs.count,
	           .kind = GRAPH_ROOT,
	           .lengths = NONE,
	           .first = NONE,
	           .last = NONE,
	           .output = NONE,
	           .caller = NONE};
	Path id_at = path_key(at, "id"), nodes_at = path_key(at, "nodes");
	const json_t *nodes = NULL;
	l->graph = l->m->graphs.count;
	if (read_object(&l->r, v, at, "a graph", known)) {
		if (get_int(&l->r, v, "id", at, true, &g.id)) {
			if (graph_find(l->m, g.id) != NONE)
				diag_error(l->r.d, place_at(&l->r, &id_at), "duplicate-name", NULL,
				           "two graphs have the id %lld", (long long)g.id);
			else
				map_put(l->r.arena, &l->m->graph_ids, (uint64_t)g.id, l->graph);
		}
		if (graph_kind(l, v, at, &g.kind))
			graph_fields(l, v, at, &g);
		nodes = need(&l->r, v, "nodes", at, "a graph");
	}
	vec_push(l->r.arena, &l->m->graphs, g);
	vec_push(l->r.arena, &l->document, l->m->nodes.count);
	if (!nodes || !read_list(&l->r, nodes, &nodes_at, "a list of nodes"))
		return;
	vec_reserve(l->r.arena, &l->m->nodes, (uint32_t)json_array_size(nodes));
	vec_reserve(l->r.arena, &l->members, (uint32_t)json_array_size(nodes));
	vec_reserve(l->r.arena, &l->m->args, 3 * (uint32_t)json_array_size(nodes));
	for (size_t i = 0; i < json_array_size(nodes); i++) {
		Path node_at = path_index(&nodes_at, i);
		node_define(l, json_array_get(nodes, i), &node_at, (uint32_t)i);
	}
	graph_outputs(l, nodes, &nodes_at);
}

/* ---- second sweep: arguments and metas -------------------------------------------------------------------------- */

static void node_location(Loader *l, const json_t *loc, const Path *path, NodeId n) {
	static const char *const known[] = {"file", "line", "code", NULL};
	const json_t *found[3];
	Path at = path_key(path, "loc");
	const char *text;
	Location *out = &node_get(l->m, n)->loc;
	if (!loc || json_is_null(loc) || !read_members(&l->r, loc, &at, "a location", known, found))
		return;
	if (take_string(&l->r, found[0], "file", &at, false, &text))
		out->file = intern(l, text);
	if (take_string(&l->r, found[2], "code", &at, false, &text))
		out->code = intern(l, text);
	take_int(&l->r, found[1], "line", &at, false, &out->line);
}

static bool is_empty(const json_t *v) {
	return !v || json_is_null(v) || (json_is_array(v) && json_array_size(v) == 0) ||
	       (json_is_object(v) && json_object_size(v) == 0);
}

static void load_placeholder(Loader *l, const NodeMembers *v, const Path *at, NodeId n) {
	Path args_at = path_key(at, "args");
	node_get(l->m, n)->arg_first = l->m->args.count;
	if (!is_empty(v->at[NODE_ARGS]) || !is_empty(v->at[NODE_KWARGS]))
		diag_error(l->r.d, place_at(&l->r, &args_at), "placeholder-args", NULL,
		           "a placeholder has no arguments");
	if (l->kinds_unclear)
		return;
	if (graph_get(l->m, l->graph)->kind == GRAPH_ROOT)
		diag_error(l->r.d, place_at(&l->r, at), "root-placeholder",
		           "read it by tile.host_tensor or tile.scalar", "a root has no arguments");
}

/* How many arguments a call passes to each graph it names. */
static void check_counts(Loader *l, NodeId n, const Path *at) {
	const Schema *s = load_schema(l, node_get(l->m, n)->op);
	Path args_at = path_key(at, "args");
	for (uint32_t i = 0; i < s->count; i++) {
		const Arg *a = node_arg(l->m, n, i);
		if (a->kind != ARG_GRAPH)
			continue;
		uint32_t list = schema_find(s, strcmp(s->params[i].name, "else_graph") == 0 ? "else_args" : "args");
		const Graph *g = graph_get(l->m, a->graph);
		uint32_t passed = list == NONE ? 0 : node_arg(l->m, n, list)->list.count;
		if (list == NONE || passed == g->placeholders.count)
			continue;
		diag_error(l->r.d, place_at(&l->r, &args_at), "argument-count", "pass one for each placeholder",
		           "'%s' passes %u argument%s to graph %lld, which has %u placeholder%s",
		           node_get(l->m, n)->name, passed, passed == 1 ? "" : "s", (long long)g->id,
		           g->placeholders.count, g->placeholders.count == 1 ? "" : "s");
		graph_relate(l->m, l->r.d, a->graph);
	}
}

static void load_node_args(Loader *l, const NodeMembers *v, const Path *at, NodeId n) {
	uint16_t op = node_get(l->m, n)->op;
	const json_t *args = v->at[NODE_ARGS], *kwargs = v->at[NODE_KWARGS];
	Path args_at = path_key(at, "args");
	uint32_t count;
	Arg *list;
	if (json_is_null(args))
		args = NULL;
	if (args && !read_list(&l->r, args, &args_at, "a list of arguments"))
		return;
	if (load_arguments(l, op, 0, args, 0, kwargs, at, &count, &list)) {
		node_set_args(l->m, n, count, list);
		if (op_row(op)->kind == KIND_STRUCTURE)
			check_counts(l, n, at);
	} else {
		node_get(l->m, n)->dead = true;
		l->calls_unclear = true;
	}
}

static void load_node(Loader *l, const Path *at, NodeId n) {
	uint16_t op = node_get(l->m, n)->op;
	NodeMembers of = l->members.at[n], *v = &of;
	Path meta_at = path_key(at, "meta");
	TypeId type;
	l->node = n;
	if (load_meta(l, v->at[NODE_META], &meta_at, 0, &type))
		node_get(l->m, n)->type = type;
	else
		node_get(l->m, n)->dead = true;
	if (op == OP_PLACEHOLDER)
		load_placeholder(l, v, at, n);
	else if (op != OP_UNKNOWN)
		load_node_args(l, v, at, n);
	else
		l->calls_unclear = true;
	if (op == OP_OUTPUT && !is_empty(v->at[NODE_META]))
		diag_error(l->r.d, place_at(&l->r, &meta_at), "output-node", NULL, "the output node has no meta");
	node_location(l, v->at[NODE_LOC], at, n);
}

/* ---- cycles ----------------------------------------------------------------------------------------------------- */

typedef VEC(NodeId) NodeList;

static void push_inputs(Loader *l, const Arg *first, uint32_t count, uint8_t *seen, NodeList *work) {
	for (uint32_t i = 0; i < count; i++) {
		const Arg *a = &first[i];
		if (a->kind == ARG_LIST || a->kind == ARG_SLICE)
			push_inputs(l, arg_get(l->m, a->list.first), a->list.count, seen, work);
		else if (a->kind == ARG_REF && !seen[a->node]) {
			seen[a->node] = 1;
			vec_push(l->r.arena, work, a->node);
		}
	}
}

/* Does `target`, a later node, depend on `user` itself? */
static bool depends_on(Loader *l, NodeId target, NodeId user) {
	NodeList work = {0};
	uint8_t *seen = arena_alloc(l->r.arena, l->m->nodes.count);
	vec_push(l->r.arena, &work, target);
	while (work.count) {
		NodeId n = work.at[--work.count];
		const Node *node = node_get(l->m, n);
		if (n == user)
			return true;
		if (node->arg_count)
			push_inputs(l, arg_get(l->m, node->arg_first), node->arg_count, seen, &work);
	}
	return false;
}

static void report_forward(Loader *l) {
	for (uint32_t i = 0; i < l->forward.count; i++) {
		ForwardRef f = l->forward.at[i];
		const char *user = node_get(l->m, f.user)->name, *target = node_get(l->m, f.target)->name;
		if (depends_on(l, f.target, f.user))
			diag_error(l->r.d, f.at, "node-cycle", NULL, "'%s' and '%s' depend on each other: a cycle",
			           user, target);
		else
			diag_error(l->r.d, f.at, "node-order", "nodes stand in topological order",
			           "'%s' uses '%s', which stands later", user, target);
		diag_related(l->r.d, node_place(l->m, l->r.d, f.target), "'%s' stands here", target);
	}
}

/* ---- both sweeps ------------------------------------------------------------------------------------------------ */

void load_graphs(Loader *l, const json_t *root, const Path *path) {
	const json_t *list = need(&l->r, root, "graphs", path, "the document");
	Path here = path_key(path, "graphs");
	if (!list || !read_list(&l->r, list, &here, "a list of graphs"))
		return;
	for (size_t i = 0; i < json_array_size(list); i++) {
		Path at = path_index(&here, i);
		load_graph(l, json_array_get(list, i), &at);
	}
	for (GraphId g = 0; g < l->m->graphs.count; g++) {
		const json_t *nodes = json_object_get(json_array_get(list, g), "nodes");
		Path at = path_index(&here, g), nodes_at = path_key(&at, "nodes");
		l->graph = g;
		for (size_t i = 0; i < json_array_size(nodes); i++) {
			Path node_at = path_index(&nodes_at, i);
			if (json_is_object(json_array_get(nodes, i)))
				load_node(l, &node_at, l->document.at[g] + (NodeId)i);
		}
	}
	report_forward(l);
	l->node = NONE;
	load_check_calls(l);
}
