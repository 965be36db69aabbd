/* load_args.c - arguments: JSON values to Args, each checked against the letter of its parameter (ir.h). Kwargs and
 * defaults go to their positional slots, so that nothing behind the loader knows of either. */
#include "loader.h"

/* ---- names ------------------------------------------------------------------------------------------------------ */

static bool load_tensor_name(Loader *l, const json_t *v, const Path *path, bool scalar, Arg *out) {
	const Module *m = l->m;
	const char *what = scalar ? "scalar" : "tensor";
	if (!json_is_string(v))
		return expected(&l->r, path, arena_printf(l->r.arena, "the name of a %s", what), v);
	const char *name = json_string_value(v);
	uint32_t found = scalar ? scalar_find(m, name) : tensor_find(m, name);
	uint32_t count = scalar ? m->scalars.count : m->tensors.count;
	if (found == NONE && l->tensors_unclear)
		return false;
	if (found == NONE) {
		const char **names = arena_array(l->r.arena, (size_t)count + 1, sizeof *names);
		for (uint32_t i = 0; i < count; i++)
			names[i] = scalar ? m->scalars.at[i].name : m->tensors.at[i].name;
		diag_error(l->r.d, place_at(&l->r, path), scalar ? "unknown-scalar" : "unknown-tensor",
		           hint_nearest(&l->r, name, names), "there is no %s '%s'", what, name);
		return false;
	}
	out->kind = scalar ? ARG_SCALAR : ARG_TENSOR;
	if (scalar)
		out->scalar = found;
	else
		out->tensor = found;
	return true;
}

/* The kinds of graph that a parameter may call, as bits 1 << GraphKind, and their name for messages. */
static unsigned graph_kinds(uint16_t op, const char *param, const char **what) {
	const char *target = op_row(op)->target;
	if (strcmp(param, "else_graph") == 0)
		return *what = "an else graph", 1u << GRAPH_ELSE;
	if (strcmp(param, "cond") == 0)
		return *what = "a cond graph", 1u << GRAPH_COND;
	if (strcmp(target, "tile.for_loop") == 0)
		return *what = "a for_loop or reduction_loop", 1u << GRAPH_FOR_LOOP | 1u << GRAPH_REDUCTION_LOOP;
	if (strcmp(target, "tile.if") == 0)
		return *what = "an if graph", 1u << GRAPH_IF;
	if (strcmp(target, "tile.while") == 0)
		return *what = "a while graph", 1u << GRAPH_WHILE;
	return *what = "a combine graph", 1u << GRAPH_COMBINE;
}

static bool load_graph_id(Loader *l, uint16_t op, const Param *p, const json_t *v, const Path *path, Arg *out) {
	int64_t id;
	const char *what;
	if (!to_int(&l->r, v, path, "the id of a graph", &id))
		return false;
	GraphId g = graph_find(l->m, id);
	if (g == NONE || l->node == NONE) {
		diag_error(l->r.d, place_at(&l->r, path), "unknown-graph", NULL, "there is no graph %lld",
		           (long long)id);
		return false;
	}
	Graph *graph = graph_get(l->m, g);
	if (!l->kinds_unclear && !(graph_kinds(op, p->name, &what) & 1u << graph->kind)) {
		diag_error(l->r.d, place_at(&l->r, path), "graph-kind", NULL,
		           "'%s' must be %s, but graph %lld is of another kind", p->name, what, (long long)id);
		graph_relate(l->m, l->r.d, g);
		return false;
	}
	if (graph->caller != NONE) {
		diag_error(l->r.d, place_at(&l->r, path), "graph-called-twice",
		           "give each call its own copy of the graph", "graph %lld is called already, by '%s'",
		           (long long)id, node_get(l->m, graph->caller)->name);
		diag_related(l->r.d, node_place(l->m, l->r.d, graph->caller), "'%s' calls it here",
		             node_get(l->m, graph->caller)->name);
		return false;
	}
	graph->caller = l->node;
	out->kind = ARG_GRAPH;
	out->graph = g;
	return true;
}

/* {"sym": "u0"} or just "u0"; tile.symnode may name any expression. A ref stays one. */
static bool load_block(Loader *l, uint16_t op, const json_t *v, const Path *path, Arg *out) {
	const json_t *sym = json_object_get(v, "sym");
	Path at = path_key(path, "sym");
	if (json_is_string(v))
		sym = v;
	if (!sym)
		return load_value(l, v, path, 0, out);
	ExprId e;
	if (!load_size(l, sym, sym == v ? path : &at, &e))
		return false;
	BlockId b = expr_as_block(l->m, e);
	*out = arg_sym(e);
	if (b == NONE)
		return op == OP_SYMNODE || expected(&l->r, path, "a block symbol", sym);
	out->kind = ARG_BLOCK;
	out->block = b;
	return true;
}

/* ---- does a value fit a parameter? ------------------------------------------------------------------------------ */

static const Type *ref_type(const Loader *l, const Arg *a) { return node_type(l->m, a->node); }

/* "expected ..., found node 's', which is float32[u0]". Says nothing of nodes that were reported themselves. */
static bool misfit(Loader *l, const Path *path, const char *param, const char *what, const Arg *a, const json_t *v) {
	const char *found, *hint = NULL;
	if (a->kind == ARG_REF && (a->node > l->node || node_get(l->m, a->node)->dead))
		return false;
	if (a->kind != ARG_REF)
		found = json_describe(&l->r, v);
	else if (ref_type(l, a)->kind == TYPE_NONE)
		found = arena_printf(l->r.arena, "node '%s', which has no value", node_get(l->m, a->node)->name);
	else
		found = arena_printf(l->r.arena, "node '%s', which is %s", node_get(l->m, a->node)->name,
		                     type_string(l->m, node_get(l->m, a->node)->type));
	if (a->kind == ARG_REF && ref_type(l, a)->kind == TYPE_TUPLE)
		hint = "take an element with getitem";
	diag_error(l->r.d, place_at(&l->r, path), "wrong-argument", hint, "%s: argument '%s' must be %s, found %s",
	           l->node == NONE ? "host step" : op_row(node_get(l->m, l->node)->op)->target, param, what, found);
	return false;
}

static bool check_items(Loader *l, const Param *p, const json_t *v, const Path *path, const Arg *list) {
	const char *what = p->letter == 'I' ? "a list of ints" : p->letter == 'N' ? "an index" : "a list of values";
	bool ok = true;
	if (list->kind != ARG_LIST)
		return misfit(l, path, p->name, schema_expects(p->letter), list, v);
	for (uint32_t i = 0; i < list->list.count; i++) {
		const Arg *a = arg_item(l->m, list, i);
		Path at = path_index(path, i);
		if (!arg_item_fits(l->m, p->letter, a))
			ok = misfit(l, &at, p->name, what, a, json_array_get(v, i));
	}
	return ok;
}

/* One argument, by its parameter's letter. */
static bool load_argument(Loader *l, uint16_t op, const Param *p, const json_t *v, const Path *path, Arg *out) {
	*out = arg_null();
	if (json_is_null(v) && p->nullable)
		return true;
	switch (p->letter) {
	case 'T': return load_tensor_name(l, v, path, false, out);
	case 'C': return load_tensor_name(l, v, path, true, out);
	case 'G': return load_graph_id(l, op, p, v, path, out);
	default: break;
	}
	if (p->letter == 'S' ? !load_block(l, op, v, path, out) : !load_value(l, v, path, 0, out))
		return false;
	if (p->letter == 'I' && arg_fits(l->m, op, 'i', out)) {
		*out = arg_list(l->m, 1, out);
		return true;
	}
	if (p->letter == 'I' || p->letter == 'X' || p->letter == 'N')
		return check_items(l, p, v, path, out);
	return arg_fits(l->m, op, p->letter, out) || misfit(l, path, p->name, schema_expects(p->letter), out, v);
}

/* ---- a call's arguments ----------------------------------------------------------------------------------------- */

const Schema *load_schema(Loader *l, uint16_t op) {
	if (!l->schema_known[op]) {
		l->schemas[op] = schema_parse(l->r.arena, op_row(op)->params);
		l->schema_known[op] = true;
	}
	return &l->schemas[op];
}

uint16_t load_target(Loader *l, const json_t *v, const Path *path) {
	if (!json_is_string(v)) {
		expected(&l->r, path, "a target (a string)", v);
		return OP_UNKNOWN;
	}
	const char *target = json_string_value(v);
	const char *before = string_find(&l->targets, target);
	if (before)
		return (uint16_t)map_get(&l->ops, map_key(before));
	uint16_t op = op_find(target);
	if (op != OP_UNKNOWN && op != OP_PLACEHOLDER && op != OP_OUTPUT) {
		map_put(l->r.arena, &l->ops, map_key(string_intern(l->r.arena, &l->targets, target)), op);
		return op;
	}
	const char *near = hints_wanted(&l->r) ? op_nearest(target) : NULL;
	const char *hint = near ? arena_printf(l->r.arena, "did you mean '%s'?", near) : NULL;
	if (strncmp(target, "torch.ops.", 10) == 0 && op_find(target + 10) != OP_UNKNOWN)
		hint = arena_printf(l->r.arena, "write '%s'", target + 10);
	diag_error(l->r.d, place_at(&l->r, path), "unknown-target", hint, "unknown target '%s'", target);
	return OP_UNKNOWN;
}

static bool is_ignored_kwarg(const char *name) {
	return strcmp(name, "device") == 0 || strcmp(name, "layout") == 0 || strcmp(name, "pin_memory") == 0 ||
	       strcmp(name, "memory_format") == 0;
}

static const char *const *param_names(Loader *l, const Schema *s) {
	const char **names = arena_array(l->r.arena, (size_t)s->count + 1, sizeof *names);
	for (uint32_t i = 0; i < s->count; i++)
		names[i] = s->params[i].name;
	return names;
}

/* What is given, by position and by name: for each parameter its value and where it stands. */
typedef struct Given {
	const json_t *value;
	bool by_name;
	size_t index;
} Given;

static bool place_kwargs(Loader *l, uint16_t op, const json_t *kwargs, const Path *path, Given *given) {
	const Schema *s = load_schema(l, op);
	Path here = path_key(path, "kwargs");
	const char *name;
	json_t *v;
	bool ok = true;
	if (!kwargs || json_is_null(kwargs))
		return true;
	if (!json_is_object(kwargs))
		return expected(&l->r, &here, "an object of arguments by name", kwargs);
	json_object_foreach((json_t *)(uintptr_t)kwargs, name, v) {
		Path at = path_key(&here, name);
		uint32_t i = schema_find(s, name);
		if (i == NONE && is_ignored_kwarg(name))
			continue;
		if (i == NONE || given[i].value) {
			diag_error(l->r.d, place_key(&l->r, &at), i == NONE ? "unknown-argument" : "duplicate-argument",
			           i == NONE ? hint_nearest(&l->r, name, param_names(l, s)) : NULL,
			           i == NONE ? "%s has no argument '%s'" : "%s is given '%s' twice", op_row(op)->target,
			           name);
			ok = false;
			continue;
		}
		given[i] = (Given){.value = v, .by_name = true};
	}
	return ok;
}

static bool place_positional(Loader *l, uint16_t op, uint32_t skip, const json_t *args, size_t from, const Path *path,
                             Given *given) {
	const Schema *s = load_schema(l, op);
	uint32_t last = from ? s->count : s->positional; /* a host step has no names */
	size_t count = json_array_size(args) - from, room = last - skip;
	for (size_t i = 0; i < count && i < room; i++)
		given[skip + i] = (Given){.value = json_array_get(args, from + i), .index = from + i};
	if (count <= room)
		return true;
	Path at = path_index(path, from + room);
	if (last < s->count && count <= s->count - skip) {
		const char *name = s->params[last].name;
		diag_error(l->r.d, place_at(&l->r, &at), "by-name-only",
		           arena_printf(l->r.arena, "write \"kwargs\": {\"%s\": ...}", name),
		           "%s takes '%s' by name, not by position", op_row(op)->target, name);
		return false;
	}
	diag_error(l->r.d, place_at(&l->r, &at), "too-many-arguments", "docs/ops.md lists what each target takes",
	           "%s takes %s%zu argument%s, found %zu", op_row(op)->target,
	           s->required < s->positional ? "at most " : "", room, room == 1 ? "" : "s", count);
	return false;
}

bool load_arguments(Loader *l, uint16_t op, uint32_t skip, const json_t *args, size_t from, const json_t *kwargs,
                    const Path *path, uint32_t *count, Arg **out) {
	const Schema *s = load_schema(l, op);
	Given given[PARAMS_MAX + 1] = {0};
	Path args_at = path_key(path, "args"), kwargs_at = path_key(path, "kwargs");
	const Path *list = from ? path : &args_at; /* a host step is itself the list */
	if (skip > s->count)
		skip = s->count;
	bool ok = !args || place_positional(l, op, skip, args, from, list, given);
	ok &= place_kwargs(l, op, kwargs, path, given);
	*count = s->count - skip;
	*out = l->args;
	for (uint32_t i = skip; i < s->count; i++) {
		const Param *p = &s->params[i];
		Path at = given[i].by_name ? path_key(&kwargs_at, p->name) : path_index(list, given[i].index);
		Arg *a = &l->args[i - skip];
		*a = no_argument;
		if (given[i].value) {
			ok &= load_argument(l, op, p, given[i].value, &at, a);
		} else if (p->has_default) {
			*a = schema_default(l->m, p);
		} else {
			diag_error(l->r.d, place_at(&l->r, path), "missing-argument",
			           "docs/ops.md lists what each target takes", "%s lacks argument '%s' (%s)",
			           op_row(op)->target, p->name, schema_expects(p->letter));
			ok = false;
		}
	}
	return ok;
}
