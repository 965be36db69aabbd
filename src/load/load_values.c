/* load_values.c - the values that arguments are made of: JSON to Arg, whatever the parameter. */
#include "loader.h"

enum { VALUE_DEPTH_MAX = 32 };

/* Items stand on the loader's stack until the list is whole: the slots of one list are consecutive. */
static bool value_list(Loader *l, const json_t *v, const Path *path, int depth, ArgKind kind, Arg *out) {
	uint32_t base = l->stack.count;
	bool ok = true;
	for (size_t i = 0; i < json_array_size(v); i++) {
		Path at = path_index(path, i);
		Arg item = arg_null();
		ok &= load_value(l, json_array_get(v, i), &at, depth + 1, &item);
		vec_push(l->r.arena, &l->stack, item);
	}
	*out = arg_list(l->m, l->stack.count - base, l->stack.at ? l->stack.at + base : NULL);
	out->kind = kind;
	l->stack.count = base;
	return ok;
}

static const char *const *graph_node_names(Loader *l) {
	const Module *m = l->m;
	const char **names = arena_array(l->r.arena, (size_t)m->nodes.count + 1, sizeof *names);
	uint32_t count = 0;
	for (NodeId n = l->document.at[l->graph]; n < m->nodes.count && node_get(m, n)->graph == l->graph; n++)
		names[count++] = node_get(m, n)->name;
	return names;
}

static const char *unknown_node_hint(Loader *l, const char *name) {
	if (!hints_wanted(&l->r))
		return NULL;
	const char *near = hint_nearest(&l->r, name, graph_node_names(l));
	if (near)
		return near;
	for (GraphId g = 0; g < l->m->graphs.count; g++)
		if (graph_node(l->m, g, name) != NONE)
			return arena_printf(
				l->r.arena,
				"graph %lld has one, but a graph sees only its own nodes: pass it as an argument",
				(long long)graph_get(l->m, g)->id);
	return NULL;
}

static bool value_ref(Loader *l, const json_t *v, const Path *path, Arg *out) {
	if (!json_is_string(v))
		return expected(&l->r, path, "the name of a node", v);
	const char *name = json_string_value(v);
	if (l->node == NONE) {
		diag_error(l->r.d, place_at(&l->r, path), "host-step-ref", NULL,
		           "a host step's arguments are constants");
		return false;
	}
	NodeId n = graph_node(l->m, l->graph, name);
	if (n == NONE) {
		diag_error(l->r.d, place_at(&l->r, path), "unknown-node", unknown_node_hint(l, name),
		           "there is no node '%s' in graph %lld", name, (long long)graph_get(l->m, l->graph)->id);
		return false;
	}
	*out = arg_ref(n);
	if (n < l->node)
		return true;
	if (n == l->node)
		diag_error(l->r.d, place_at(&l->r, path), "node-cycle", NULL, "node '%s' refers to itself", name);
	else if (l->forward.count >= DIAG_ERROR_LIMIT)
		l->r.d->errors++; /* only counted from here on */
	else
		vec_push(l->r.arena, &l->forward, ((ForwardRef){l->node, n, place_at(&l->r, path)}));
	return n != l->node;
}

static bool value_sym(Loader *l, const json_t *v, const Path *path, Arg *out) {
	ExprId e;
	if (!load_size(l, v, path, &e))
		return false;
	bool named =
		l->m->sizes.count && json_is_string(v); /* a size is the number that it is, wherever one may stand */
	*out = named ? size_arg(l->m, e) : arg_sym(e);
	return true;
}

static bool value_slice(Loader *l, const json_t *v, const Path *path, int depth, Arg *out) {
	if (!json_is_array(v) || json_array_size(v) != 3)
		return expected(&l->r, path, "[start, stop, step]", v);
	return value_list(l, v, path, depth, ARG_SLICE, out);
}

static bool value_object(Loader *l, const json_t *v, const Path *path, int depth, Arg *out) {
	static const char *const known[] = {"ref", "sym", "slice", "dtype", "float", NULL};
	void *member = json_object_iter((json_t *)(uintptr_t)v);
	if (!member || json_object_size(v) != 1)
		return expected(&l->r, path, "a value with one key: ref, sym, slice, dtype or float", v);
	const char *key = json_object_iter_key(member);
	const json_t *inner = json_object_iter_value(member);
	Path at = path_key(path, key);
	if (strcmp(key, "ref") == 0)
		return value_ref(l, inner, &at, out);
	if (strcmp(key, "sym") == 0)
		return value_sym(l, inner, &at, out);
	if (strcmp(key, "slice") == 0)
		return value_slice(l, inner, &at, depth, out);
	if (strcmp(key, "dtype") == 0) {
		out->kind = ARG_DTYPE;
		return load_dtype(l, inner, &at, l->node == NONE ? DTYPE_OF_HOST : DTYPE_OF_VALUE, &out->dtype);
	}
	if (strcmp(key, "float") == 0) {
		out->kind = ARG_FLOAT;
		return load_number(l, v, path, &out->real);
	}
	const char *hint = hint_nearest(&l->r, key, known);
	diag_error(l->r.d, place_key(&l->r, &at), "unknown-field", hint ? hint : "one of ref, sym, slice, dtype, float",
	           "a value has no key '%s'", key);
	return false;
}

bool load_value(Loader *l, const json_t *v, const Path *path, int depth, Arg *out) {
	*out = arg_null();
	if (depth > VALUE_DEPTH_MAX) {
		diag_error(l->r.d, place_at(&l->r, path), "value-depth", NULL,
		           "the value is nested deeper than %d levels", VALUE_DEPTH_MAX);
		return false;
	}
	switch (json_typeof(v)) {
	case JSON_NULL: break;
	case JSON_TRUE:
	case JSON_FALSE: *out = arg_bool(json_is_true(v)); break;
	case JSON_INTEGER: *out = arg_int(json_integer_value(v)); break;
	case JSON_REAL: *out = arg_float(json_real_value(v)); break;
	case JSON_STRING:
		out->kind = ARG_STRING;
		out->string = intern(l, json_string_value(v));
		break;
	case JSON_ARRAY: return value_list(l, v, path, depth, ARG_LIST, out);
	case JSON_OBJECT: return value_object(l, v, path, depth, out);
	}
	return true;
}
