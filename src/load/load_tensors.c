/* load_tensors.c - host tensors, their views and derivations, and what the function returns. */
#include "loader.h"

enum {
	OF_NAME,
	OF_ROLE,
	OF_DTYPE,
	OF_SHAPE,
	OF_INIT,
	OF_OF,
	OF_OPS,
	OF_PERMUTE,
	OF_SLICE,
	OF_EXPAND,
	OF_WHOLE,
	OF_MEMBERS
};

/* ---- one tensor ------------------------------------------------------------------------------------------------- */

static bool tensor_role(Loader *l, const json_t *role, const Path *path, TensorRole *out) {
	static const char *const names[] = {"input", "output", "inout", "view", "derived", NULL};
	const char *text;
	Path at = path_key(path, "role");
	if (!take_string(&l->r, role, "role", path, true, &text))
		return false;
	for (int i = 0; names[i]; i++) {
		if (strcmp(text, names[i]) == 0) {
			*out = (TensorRole)i;
			return true;
		}
	}
	const char *hint = hint_nearest(&l->r, text, names);
	diag_error(l->r.d, place_at(&l->r, &at), "unknown-role",
	           hint ? hint : "one of input, output, inout, view, derived", "unknown role '%s'", text);
	return false;
}

/* Fields that belong to another role are as wrong as unknown ones: they would be ignored silently. */
static void check_role_fields(Loader *l, const json_t *const *v, const Path *path, const Tensor *t) {
	static const struct {
		const char *field;
		int member;
		unsigned roles; /* bit 1 << TensorRole */
	} rows[] = {{"init", OF_INIT, 1u << ROLE_OUTPUT},
	            {"of", OF_OF, 1u << ROLE_VIEW | 1u << ROLE_DERIVED},
	            {"permute", OF_PERMUTE, 1u << ROLE_VIEW},
	            {"slice", OF_SLICE, 1u << ROLE_VIEW},
	            {"expand", OF_EXPAND, 1u << ROLE_VIEW},
	            {"ops", OF_OPS, 1u << ROLE_DERIVED},
	            {"whole", OF_WHOLE, 1u << ROLE_OUTPUT | 1u << ROLE_INOUT}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const json_t *value = v[rows[i].member];
		Path at = path_key(path, rows[i].field);
		if (value && !json_is_null(value) && !(rows[i].roles & 1u << t->role))
			diag_error(l->r.d, place_key(&l->r, &at), "field-of-other-role", NULL,
			           "'%s' means nothing for a tensor of role '%s'", rows[i].field,
			           json_string_value(v[OF_ROLE]));
	}
}

static void tensor_init(Loader *l, const json_t *value, const Path *path, Tensor *t) {
	Path at = path_key(path, "init");
	if (!value || json_is_null(value) || t->role != ROLE_OUTPUT)
		return;
	if (json_is_string(value) && strcmp(json_string_value(value), "empty") == 0)
		return;
	t->has_init = true;
	if (json_is_boolean(value))
		t->init = json_is_true(value);
	else if (json_is_string(value))
		expected(&l->r, &at, "\"empty\" or a number", value);
	else if (load_number(l, value, &at, &t->init) && !number_fits(t->dtype, t->init))
		diag_error(l->r.d, place_at(&l->r, &at), "scalar-range", "give it a whole number that its dtype has",
		           "%.15g does not fit %s", t->init, dtype_name(t->dtype));
}

static void tensor_whole(Loader *l, const json_t *value, const Path *path, Tensor *t) {
	Path at = path_key(path, "whole");
	if (!value || json_is_null(value))
		return;
	if (!json_is_boolean(value))
		expected(&l->r, &at, "true or false", value);
	else if (json_is_true(value) && t->dtype != DTYPE_I32)
		diag_error(l->r.d, place_at(&l->r, &at), "whole-dtype", NULL, "only a tensor of int32 is whole");
	t->whole = json_is_true(value);
}

static void load_tensor(Loader *l, const json_t *v, const Path *at) {
	static const char *const known[] = {"name", "role",    "dtype", "shape",  "init",  "of",
	                                    "ops",  "permute", "slice", "expand", "whole", NULL};
	Tensor t = {.name = "?", .role = ROLE_INPUT, .dtype = DTYPE_F32, .of = NONE};
	const json_t *found[OF_MEMBERS];
	const char *name;
	Path name_at = path_key(at, "name"), dtype_at = path_key(at, "dtype"), shape_at = path_key(at, "shape");
	if (read_members(&l->r, v, at, "a tensor", known, found)) {
		if (take_string(&l->r, found[OF_NAME], "name", at, true, &name)) {
			t.name = intern(l, name);
			if (tensor_find(l->m, name) != NONE)
				diag_error(l->r.d, place_at(&l->r, &name_at), "duplicate-name", NULL,
				           "two tensors are called '%s'", name);
			else
				map_put(l->r.arena, &l->m->tensor_names, map_key(t.name), l->m->tensors.count);
		}
		if (tensor_role(l, found[OF_ROLE], at, &t.role))
			check_role_fields(l, found, at, &t);
		const json_t *dtype = needed(&l->r, found[OF_DTYPE], "dtype", at, "a tensor"),
			     *shape = needed(&l->r, found[OF_SHAPE], "shape", at, "a tensor");
		if (dtype)
			load_dtype(l, dtype, &dtype_at, DTYPE_OF_HOST, &t.dtype);
		if (shape)
			load_shape(l, shape, &shape_at, &t.rank, t.shape);
		tensor_init(l, found[OF_INIT], at, &t);
		tensor_whole(l, found[OF_WHOLE], at, &t);
	}
	vec_push(l->r.arena, &l->m->tensors, t);
}

/* ---- what it is made of ----------------------------------------------------------------------------------------- */

static const char *const *tensor_list(Loader *l) {
	Module *m = l->m;
	const char **names = arena_array(l->r.arena, (size_t)m->tensors.count + 1, sizeof *names);
	for (uint32_t i = 0; i < m->tensors.count; i++)
		names[i] = m->tensors.at[i].name;
	return names;
}

static TensorId tensor_named(Loader *l, const json_t *v, const Path *at) {
	if (!json_is_string(v)) {
		expected(&l->r, at, "the name of a tensor", v);
		return NONE;
	}
	TensorId t = tensor_find(l->m, json_string_value(v));
	if (t == NONE && !l->tensors_unclear)
		diag_error(l->r.d, place_at(&l->r, at), "unknown-tensor",
		           hint_nearest(&l->r, json_string_value(v), tensor_list(l)), "there is no tensor '%s'",
		           json_string_value(v));
	return t;
}

/* `permute: [dims]` or `slice: [[start, stop, step], ...]`: one entry for each dim of the base. */
static void view_permute(Loader *l, const json_t *list, const Path *at, Tensor *t) {
	t->view = VIEW_PERMUTE;
	uint32_t rank = l->m->tensors.at[t->of].rank, seen = 0;
	bool ok = read_list(&l->r, list, at, "a list of dims") && json_array_size(list) == rank;
	for (uint32_t i = 0; ok && i < rank; i++) {
		const json_t *v = json_array_get(list, i);
		int64_t dim = json_is_integer(v) ? json_integer_value(v) : -1;
		ok = dim >= 0 && dim < rank && !(seen & 1u << dim);
		if (ok)
			seen |= 1u << dim;
		t->view_arg[i][0] = dim;
	}
	if (ok)
		return;
	diag_error(l->r.d, place_at(&l->r, at), "view-permute", NULL,
	           "permute must name each of the %u dims of '%s' once", rank, l->m->tensors.at[t->of].name);
	tensor_relate(l->m, l->r.d, t->of);
}

static bool slice_bound(Loader *l, const json_t *v, const Path *at, int64_t none, int64_t *out) {
	ExprId e;
	*out = none;
	if (json_is_null(v))
		return none >= 0 || expected(&l->r, at, "an int (the dim's size is not constant)", v);
	if (!json_is_string(v))
		return to_int(&l->r, v, at, "an int or null", out);
	if (!load_size(l, v, at, &e))
		return false;
	if (l->m->exprs.at[e].kind != EXPR_INT)
		return expected(&l->r, at, "an int, or an expression of sizes", v);
	*out = l->m->exprs.at[e].value;
	return true;
}

static void view_slice_dim(Loader *l, const json_t *v, const Path *at, ExprId size, int64_t arg[3]) {
	int64_t dim = -1;
	if (size == NONE) /* reported where it stands */
		return;
	const Expr *e = &l->m->exprs.at[size];
	if (e->kind == EXPR_INT)
		dim = e->value;
	if (!json_is_array(v) || json_array_size(v) != 3) {
		expected(&l->r, at, "[start, stop, step]", v);
		return;
	}
	Path p0 = path_index(at, 0), p1 = path_index(at, 1), p2 = path_index(at, 2);
	if (!slice_bound(l, json_array_get(v, 0), &p0, 0, &arg[0]) ||
	    !slice_bound(l, json_array_get(v, 1), &p1, dim, &arg[1]) ||
	    !slice_bound(l, json_array_get(v, 2), &p2, 1, &arg[2]))
		return;
	if (arg[0] < 0 || arg[1] < arg[0] || arg[2] < 1 || (dim >= 0 && arg[1] > dim))
		diag_error(l->r.d, place_at(&l->r, at), "view-slice", "0 <= start <= stop <= size, step >= 1",
		           "the slice [%lld, %lld, %lld] is outside the dim", (long long)arg[0], (long long)arg[1],
		           (long long)arg[2]);
}

static void view_slice(Loader *l, const json_t *list, const Path *at, Tensor *t) {
	t->view = VIEW_SLICE;
	const Tensor *of = &l->m->tensors.at[t->of];
	if (!read_list(&l->r, list, at, "a list of [start, stop, step]"))
		return;
	if (json_array_size(list) != of->rank) {
		diag_error(l->r.d, place_at(&l->r, at), "view-slice", NULL, "%zu slices for the %u dims of '%s'",
		           json_array_size(list), of->rank, of->name);
		tensor_relate(l->m, l->r.d, t->of);
		return;
	}
	for (uint32_t i = 0; i < of->rank; i++) {
		Path item = path_index(at, i);
		view_slice_dim(l, json_array_get(list, i), &item, of->shape[i], t->view_arg[i]);
	}
}

static void load_view(Loader *l, const json_t *v, const Path *path, Tensor *t) {
	const json_t *permute = json_object_get(v, "permute"), *slice = json_object_get(v, "slice");
	Path permute_at = path_key(path, "permute"), slice_at = path_key(path, "slice"),
	     dtype_at = path_key(path, "dtype");
	bool expand = false;
	get_bool(&l->r, v, "expand", path, &expand);
	if (!!permute + !!slice + expand > 1) {
		diag_error(l->r.d, place_at(&l->r, path), "view-kind", "chain two views",
		           "a view is one of permute, slice, expand and (with none of them) a reshape");
		return;
	}
	if (permute)
		view_permute(l, permute, &permute_at, t);
	else if (slice)
		view_slice(l, slice, &slice_at, t);
	else
		t->view = expand ? VIEW_EXPAND : VIEW_RESHAPE;
	const Tensor *of = &l->m->tensors.at[t->of];
	if (t->dtype == of->dtype)
		return;
	diag_error(l->r.d, place_at(&l->r, &dtype_at), "view-dtype", "a view has the dtype of its base",
	           "the view is %s, but its base '%s' is %s", dtype_name(t->dtype), of->name, dtype_name(of->dtype));
	tensor_relate(l->m, l->r.d, t->of);
}

/* One step `[target, args...]`. */
static bool load_step(Loader *l, const json_t *v, const Path *at, HostStep *step) {
	if (!json_is_array(v) || json_array_size(v) == 0)
		return expected(&l->r, at, "a step [target, args...]", v);
	Path target_at = path_index(at, 0);
	Arg *args;
	step->op = load_target(l, json_array_get(v, 0), &target_at);
	if (step->op == OP_UNKNOWN || !load_arguments(l, step->op, 1, v, 1, NULL, at, &step->count, &args))
		return false;
	step->first = arg_list(l->m, step->count, args).list.first;
	return true;
}

static void load_steps(Loader *l, const json_t *list, const Path *at, HostStep **steps, uint32_t *count) {
	if (!list || json_is_null(list) || !read_list(&l->r, list, at, "a list of steps") ||
	    !limit_keeps(&l->r, place_at(&l->r, at), LIMIT_STEPS, json_array_size(list)))
		return;
	*steps = arena_array(l->r.arena, json_array_size(list), sizeof **steps);
	for (size_t i = 0; i < json_array_size(list); i++) {
		Path item = path_index(at, i);
		if (load_step(l, json_array_get(list, i), &item, &(*steps)[*count]))
			++*count;
	}
}

static void load_aliases(Loader *l, const json_t *v, const Path *path, TensorId id) {
	Tensor t = l->m->tensors.at[id];
	Path of_at = path_key(path, "of"), ops_at = path_key(path, "ops");
	if (t.role != ROLE_VIEW && t.role != ROLE_DERIVED)
		return;
	const json_t *of = need(&l->r, v, "of", path, "a view or derived tensor");
	t.of = of ? tensor_named(l, of, &of_at) : NONE;
	if (t.of != NONE && t.role == ROLE_VIEW)
		load_view(l, v, path, &t);
	if (t.role == ROLE_DERIVED && need(&l->r, v, "ops", path, "a derived tensor"))
		load_steps(l, json_object_get(v, "ops"), &ops_at, &t.steps, &t.step_count);
	l->m->tensors.at[id] = t;
}

/* `of` may name a later tensor, so chains may close. Each tensor is walked once: 1 on the current chain, 2 done. */
static void check_chains(Loader *l, const Path *here) {
	Module *m = l->m;
	uint8_t *state = arena_alloc(l->r.arena, (size_t)m->tensors.count + 1);
	for (TensorId start = 0; start < m->tensors.count; start++) {
		TensorId t = start;
		for (; t != NONE && state[t] == 0; t = m->tensors.at[t].of)
			state[t] = 1;
		Path at = path_index(here, start), of = path_key(&at, "of");
		if (t != NONE && state[t] == 1) {
			diag_error(l->r.d, place_at(&l->r, &of), "view-cycle", NULL, "'%s' is a view of itself",
			           m->tensors.at[start].name);
			m->tensors.at[t].of = NONE;
		}
		for (t = start; t != NONE && state[t] == 1; t = m->tensors.at[t].of)
			state[t] = 2;
	}
}

/* A derived tensor may be derived from another: all their steps are one expression of the wrapper. No chain closes. */
static void check_steps(Loader *l, const Path *here) {
	const Module *m = l->m;
	for (TensorId i = 0; i < m->tensors.count; i++) {
		uint64_t steps = 0;
		Path at = path_index(here, i);
		for (TensorId t = i; t != NONE && m->tensors.at[t].role == ROLE_DERIVED; t = m->tensors.at[t].of)
			steps += m->tensors.at[t].step_count;
		if (!limit_keeps(&l->r, place_at(&l->r, &at), LIMIT_STEPS, steps))
			return;
	}
}

void load_tensors(Loader *l, const json_t *root, const Path *path) {
	const json_t *list = need(&l->r, root, "tensors", path, "the document");
	Path here = path_key(path, "tensors");
	l->tensors_unclear = true;
	if (!list || !read_list(&l->r, list, &here, "a list of tensors"))
		return;
	l->tensors_unclear = false;
	for (size_t i = 0; i < json_array_size(list); i++) {
		Path at = path_index(&here, i);
		load_tensor(l, json_array_get(list, i), &at);
	}
	for (size_t i = 0; i < json_array_size(list); i++) {
		Path at = path_index(&here, i);
		load_aliases(l, json_array_get(list, i), &at, (TensorId)i);
	}
	check_chains(l, &here);
	check_steps(l, &here);
}

/* ---- returns ---------------------------------------------------------------------------------------------------- */

static bool is_derived(const Module *m, TensorId t) {
	for (uint32_t steps = 0; m->tensors.at[t].role == ROLE_VIEW; t = m->tensors.at[t].of)
		if (m->tensors.at[t].of == NONE || ++steps > m->tensors.count)
			return false;
	return m->tensors.at[t].role == ROLE_DERIVED;
}

static void load_return(Loader *l, const json_t *v, const Path *at) {
	static const char *const known[] = {"tensor", "ops", "shape", NULL};
	Return x = {.tensor = NONE};
	Path tensor_at = path_key(at, "tensor"), ops_at = path_key(at, "ops"), shape_at = path_key(at, "shape");
	if (!read_object(&l->r, v, at, "a return", known))
		return;
	const json_t *tensor = need(&l->r, v, "tensor", at, "a return"), *shape = json_object_get(v, "shape");
	x.tensor = tensor ? tensor_named(l, tensor, &tensor_at) : NONE;
	if (x.tensor == NONE)
		return;
	if (is_derived(l->m, x.tensor))
		diag_error(l->r.d, place_at(&l->r, &tensor_at), "return-derived",
		           "return what it is derived from, with its ops", "derived tensor '%s' is no result",
		           l->m->tensors.at[x.tensor].name);
	load_steps(l, json_object_get(v, "ops"), &ops_at, &x.steps, &x.step_count);
	x.has_shape = shape && !json_is_null(shape) && load_shape(l, shape, &shape_at, &x.rank, x.shape);
	vec_push(l->r.arena, &l->m->returns, x);
}

static void default_returns(Loader *l) {
	Module *m = l->m;
	for (TensorId t = 0; t < m->tensors.count; t++) {
		if (m->tensors.at[t].role != ROLE_OUTPUT && m->tensors.at[t].role != ROLE_INOUT)
			continue;
		vec_push(l->r.arena, &m->returns, ((Return){.tensor = t}));
	}
}

void load_returns(Loader *l, const json_t *root, const Path *path) {
	const json_t *list = json_object_get(root, "returns");
	Path here = path_key(path, "returns");
	uint32_t errors = l->r.d->errors;
	if (!list || json_is_null(list)) {
		default_returns(l);
	} else if (read_list(&l->r, list, &here, "a list of returns")) {
		for (size_t i = 0; i < json_array_size(list); i++) {
			Path at = path_index(&here, i);
			load_return(l, json_array_get(list, i), &at);
		}
	}
	if (l->m->returns.count == 0 && l->r.d->errors == errors && json_is_array(json_object_get(root, "tensors")))
		diag_error(l->r.d, place_at(&l->r, list ? &here : path), "no-returns",
		           "give a tensor the role 'output' or 'inout'", "the function returns nothing");
}
