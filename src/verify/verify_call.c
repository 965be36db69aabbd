/* verify_call.c - what a call and the graphs it calls must agree on: arguments and placeholders, bounds, carried
 * values, results. */
#include "verifier.h"

/* ---- values against types ---------------------------------------------------------------------------------------- */

/* A symbolic value may go where a 0-d int32, int64 or bool tensor is declared. */
static bool value_admitted(Module *m, TypeId declared, TypeId value) {
	if (type_admits(m, declared, value))
		return true;
	Type a = *type_get(m, declared), b = *type_get(m, value);
	bool same = a.dtype == b.dtype || (a.dtype == DTYPE_I64 && b.dtype == DTYPE_I32);
	return a.kind == TYPE_TENSOR && a.count == 0 && b.kind == TYPE_SYM && same;
}

static bool arg_failed(const Verifier *v, const Arg *arg) { return arg->kind == ARG_REF && v->failed[arg->node]; }

static bool list_failed(const Verifier *v, const Arg *list) {
	bool failed = false;
	for (uint32_t i = 0; list->kind == ARG_LIST && i < list->list.count; i++)
		failed |= arg_failed(v, arg_item(v->m, list, i));
	return failed;
}

static uint32_t list_count(const Arg *list) { return list->kind == ARG_LIST ? list->list.count : 0; }

static void check_arguments(Verifier *v, NodeId n, const char *name, GraphId g) {
	const Arg *args = op_arg(v->m, n, name);
	const Graph *graph = graph_get(v->m, g);
	if (list_count(args) != graph->placeholders.count) {
		verify_node_error(v, n, "argument-count", "pass one for each placeholder",
		                  "it passes %u arguments in `%s`, graph %lld takes %u", list_count(args), name,
		                  (long long)graph->id, graph->placeholders.count);
		return;
	}
	for (uint32_t i = 0; i < graph->placeholders.count; i++) {
		NodeId p = graph->placeholders.at[i];
		const Arg *arg = arg_item(v->m, op_arg(v->m, n, name), i);
		if (arg_failed(v, arg) || v->failed[p])
			continue;
		TypeId given = arg_type(v->m, arg), wanted = node_get(v->m, p)->type;
		if (value_admitted(v->m, wanted, given))
			continue;
		verify_node_error(v, n, "type-mismatch", "convert the argument, or leave out the placeholder's `meta`",
		                  "argument %u is %s, placeholder '%s' of graph %lld declares %s", i,
		                  type_string(v->m, given), node_get(v->m, p)->name, (long long)graph->id,
		                  type_string(v->m, wanted));
		node_relate(v->m, v->d, p);
		if (arg->kind == ARG_REF)
			node_relate(v->m, v->d, arg->node);
	}
}

/* The graph argument called `name`, if it has one of these kinds; NONE after a diagnostic. */
static GraphId called_graph(Verifier *v, NodeId n, const char *name, GraphKind kind, GraphKind or_kind) {
	const Arg *arg = op_arg(v->m, n, name);
	if (arg->kind != ARG_GRAPH) {
		verify_node_error(v, n, "bad-argument", NULL, "`%s` must name a graph", name);
		return NONE;
	}
	const Graph *graph = graph_get(v->m, arg->graph);
	if (graph->kind == kind || graph->kind == or_kind)
		return arg->graph;
	verify_node_error(v, n, "graph-kind", NULL, "graph %lld is not of the kind that `%s` calls",
	                  (long long)graph->id, name);
	return NONE;
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */

static bool bound_is_int(Verifier *v, const Arg *arg) {
	if (arg->kind == ARG_INT || arg->kind == ARG_SYM || arg->kind == ARG_BLOCK || arg_failed(v, arg))
		return true;
	if (arg->kind != ARG_REF)
		return false;
	const Type *t = node_type(v->m, arg->node);
	bool is_int = t->dtype < DTYPE_COUNT && !dtype_is_float(t->dtype) && t->dtype != DTYPE_BOOL;
	return is_int && (t->kind == TYPE_SYM || (t->kind == TYPE_TENSOR && t->count == 0));
}

static void check_bound(Verifier *v, NodeId n, const char *name, const Arg *bound) {
	int64_t value;
	if (!arg_failed(v, bound) && position_too_far(v->m, arg_expr(v->m, bound), &value))
		verify_node_error(v, n, "size-range", POSITION_HINT, "it has %lld in `%s`", (long long)value, name);
}

static void check_bounds(Verifier *v, NodeId n, const char *name, GraphId g) {
	const Arg *bounds = op_arg(v->m, n, name);
	const Graph *graph = graph_get(v->m, g);
	if (bounds->kind != ARG_LIST && graph->blocks.count == 1 && bound_is_int(v, bounds)) {
		check_bound(v, n, name, bounds); /* a bare one, for one dim */
		return;
	}
	if (list_count(bounds) != graph->blocks.count) {
		verify_node_error(v, n, "bad-bounds", "give one for each block id, outermost first",
		                  "it gives %u %s, graph %lld has %u block ids", list_count(bounds), name,
		                  (long long)graph->id, graph->blocks.count);
		return;
	}
	for (uint32_t i = 0; i < graph->blocks.count; i++)
		if (!bound_is_int(v, arg_item(v->m, bounds, i)))
			verify_node_error(v, n, "bad-bounds", NULL, "entry %u of %s is not an int or a 0-d int tensor",
			                  i, name);
		else
			check_bound(v, n, name, arg_item(v->m, bounds, i));
}

static void check_carried_pair(Verifier *v, GraphId g, Carried c) {
	NodeId p = graph_get(v->m, g)->placeholders.at[c.arg];
	const Arg *output = arg_item(v->m, graph_results(v->m, g), c.output);
	if (v->failed[p] || arg_failed(v, output))
		return;
	TypeId wanted = node_get(v->m, p)->type, given = arg_type(v->m, output);
	if (value_admitted(v->m, wanted, given))
		return;
	verify_node_error(v, graph_get(v->m, g)->output, "type-mismatch",
	                  "what is carried keeps its dtype and shape: convert it at the end of the loop's graph",
	                  "carried output %u is %s, but argument %u, which it replaces, declares %s", c.output,
	                  type_string(v->m, given), c.arg, type_string(v->m, wanted));
	node_relate(v->m, v->d, p);
}

static void check_carried(Verifier *v, GraphId g) {
	const Graph *graph = graph_get(v->m, g);
	uint32_t outputs = graph_result_count(v->m, g);
	bool *taken = arena_array(v->m->arena, graph->placeholders.count, sizeof *taken);
	for (uint32_t i = 0; i < graph->carried.count; i++) {
		Carried c = graph->carried.at[i];
		if (c.arg >= graph->placeholders.count || c.output >= outputs) {
			verify_graph_error(v, g, "carried", NULL,
			                   "`carried` names [%u, %u], it has %u arguments and %u outputs", c.arg,
			                   c.output, graph->placeholders.count, outputs);
		} else if (taken[c.arg]) {
			verify_graph_error(v, g, "carried", NULL, "`carried` names argument %u twice", c.arg);
		} else {
			taken[c.arg] = true;
			check_carried_pair(v, g, c);
		}
	}
}

static void check_lengths(Verifier *v, GraphId g) {
	const Graph *graph = graph_get(v->m, g);
	if (graph->lengths == NONE)
		return;
	if (graph->lengths >= graph->placeholders.count) {
		verify_graph_error(v, g, "lengths", NULL, "`lengths` names argument %u of %u", graph->lengths,
		                   graph->placeholders.count);
		return;
	}
	const Type *t = node_type(v->m, graph->placeholders.at[graph->lengths]);
	if (t->kind != TYPE_TENSOR || dtype_is_float(t->dtype) || t->dtype == DTYPE_BOOL)
		verify_graph_error(v, g, "lengths", NULL, "argument %u, the rows' lengths, is not a tensor of ints",
		                   graph->lengths);
}

static void verify_for_loop(Verifier *v, NodeId n) {
	GraphId g = called_graph(v, n, "graph", GRAPH_FOR_LOOP, GRAPH_REDUCTION_LOOP);
	if (g == NONE)
		return;
	check_bounds(v, n, "begins", g);
	check_bounds(v, n, "ends", g);
	check_arguments(v, n, "args", g);
	check_carried(v, g);
	check_lengths(v, g);
}

/* ---- predicates, ifs and whiles ---------------------------------------------------------------------------------- */

static bool is_predicate(Verifier *v, const Arg *arg) {
	Type t = *type_get(v->m, arg_type(v->m, arg));
	return t.dtype == DTYPE_BOOL && (t.kind == TYPE_SYM || (t.kind == TYPE_TENSOR && t.count == 0));
}

/* The branch not named `graph`: its outputs must be such as the node declares, as the other's are. */
static void check_else_results(Verifier *v, NodeId n, GraphId g) {
	const Arg *results = graph_results(v->m, g);
	Type declared = *node_type(v->m, n);
	uint32_t count = declared.kind == TYPE_TUPLE ? declared.count : 0;
	if (list_count(results) != count) {
		verify_node_error(v, n, "type-mismatch", "both branches have the same outputs",
		                  "its else graph %lld has %u outputs, it declares %u",
		                  (long long)graph_get(v->m, g)->id, list_count(results), count);
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		const Arg *result = arg_item(v->m, graph_results(v->m, g), i);
		TypeId given = arg_type(v->m, result);
		if (!arg_failed(v, result) && !value_admitted(v->m, declared.elements[i], given))
			verify_node_error(v, n, "type-mismatch", "both branches have the same outputs",
			                  "it declares %s for result %u, output %u of its else graph is %s",
			                  type_string(v->m, declared.elements[i]), i, i, type_string(v->m, given));
	}
}

static void verify_if(Verifier *v, NodeId n) {
	const Arg *pred = op_arg(v->m, n, "pred");
	if (!arg_failed(v, pred) && !is_predicate(v, pred))
		verify_node_error(v, n, "bad-predicate", "compare: `gt`, `eq`, aten.gt.Scalar, ... of a 0-d value",
		                  "its predicate is %s, not a symbolic bool or bool[]",
		                  type_string(v->m, arg_type(v->m, pred)));
	GraphId g = called_graph(v, n, "graph", GRAPH_IF, GRAPH_IF);
	if (g == NONE)
		return;
	check_arguments(v, n, "args", g);
	if (op_arg(v->m, n, "else_graph")->kind == ARG_NULL) {
		if (graph_result_count(v->m, g) > 0)
			verify_node_error(v, n, "missing-else", "only an if without outputs may leave it out",
			                  "it has results but no else graph");
		return;
	}
	GraphId other = called_graph(v, n, "else_graph", GRAPH_ELSE, GRAPH_ELSE);
	if (other == NONE)
		return;
	check_arguments(v, n, "else_args", other);
	check_else_results(v, n, other);
}

static void verify_while(Verifier *v, NodeId n) {
	GraphId cond = called_graph(v, n, "cond", GRAPH_COND, GRAPH_COND);
	GraphId body = called_graph(v, n, "graph", GRAPH_WHILE, GRAPH_WHILE);
	if (cond == NONE || body == NONE)
		return;
	check_arguments(v, n, "args", cond);
	check_arguments(v, n, "args", body);
	check_carried(v, body);
	const Arg *test = graph_results(v->m, cond);
	if (!list_failed(v, test) && (list_count(test) != 1 || !is_predicate(v, arg_item(v->m, test, 0))))
		verify_node_error(v, graph_get(v->m, cond)->output, "bad-predicate",
		                  "compare: `lt`, `ne`, aten.any.default, ... of what it takes",
		                  "a condition outputs one symbolic bool or bool[]");
}

/* ---- combine graphs ---------------------------------------------------------------------------------------------- */

static Dtype value_dtype(Verifier *v, const Arg *value) { return type_get(v->m, arg_type(v->m, value))->dtype; }

/* It takes the left and then the right of each value, and gives the values combined; their shapes are its own. */
static void verify_combine(Verifier *v, NodeId n) {
	GraphId g = called_graph(v, n, "combine", GRAPH_COMBINE, GRAPH_COMBINE);
	if (g == NONE)
		return;
	const Arg *x = op_arg(v->m, n, "x");
	const Graph *graph = graph_get(v->m, g);
	uint32_t count = x->kind == ARG_LIST ? x->list.count : 1;
	if (graph->placeholders.count != 2 * count || graph_result_count(v->m, g) != count) {
		verify_node_error(
			v, n, "argument-count", NULL,
			"its combine graph takes %u values and gives %u, for %u operands it must take %u and give %u",
			graph->placeholders.count, graph_result_count(v->m, g), count, 2 * count, count);
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		Dtype dtype = value_dtype(v, x->kind == ARG_LIST ? arg_item(v->m, x, i) : x);
		Dtype left = node_type(v->m, graph->placeholders.at[i])->dtype;
		Dtype right = node_type(v->m, graph->placeholders.at[count + i])->dtype;
		const Arg *result = arg_item(v->m, graph_results(v->m, g), i);
		if (!arg_failed(v, result) && (left != dtype || right != dtype || value_dtype(v, result) != dtype))
			verify_node_error(v, n, "type-mismatch", NULL,
			                  "its combine graph's value %u is not %s throughout", i, dtype_name(dtype));
	}
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static void verify_call(Verifier *v, NodeId n) {
	switch (node_get(v->m, n)->op) {
	case OP_FOR_LOOP: verify_for_loop(v, n); break;
	case OP_IF: verify_if(v, n); break;
	case OP_WHILE: verify_while(v, n); break;
	case OP_ASSOCIATIVE_SCAN:
	case OP_TILE_REDUCE: verify_combine(v, n); return;
	default: return;
	}
	/* Last, because it compares with the outputs of graphs that may stand anywhere in the document. */
	const Arg *graph = op_arg(v->m, n, "graph");
	if (!v->failed[n] && graph->kind == ARG_GRAPH && !list_failed(v, graph_results(v->m, graph->graph)))
		verify_type(v, n);
}

void verify_calls(Verifier *v) {
	for (GraphId g = 0; g < v->m->graphs.count; g++)
		for (NodeId n = graph_first(v->m, g); n != NONE; n = node_get(v->m, n)->next)
			verify_call(v, n);
}
