/* load_sizes.c - sizes, shapes, dtypes and types of values. */
#include "loader.h"

#include <math.h>

/* ---- sizes ------------------------------------------------------------------------------------------------------ */

static bool size_real(Loader *l, const json_t *v, const Path *path) {
	double x = json_real_value(v);
	const char *hint = NULL;
	if (x == floor(x) && fabs(x) < 1e15)
		hint = arena_printf(l->r.arena, "write %lld: a size is an int", (long long)x);
	diag_error(l->r.d, place_at(&l->r, path), "wrong-type", hint,
	           "expected a size (an int or an expression), found %s", json_describe(&l->r, v));
	return false;
}

bool load_size(Loader *l, const json_t *v, const Path *path, ExprId *out) {
	if (json_is_integer(v)) {
		*out = expr_int(l->m, json_integer_value(v));
		return true;
	}
	if (json_is_real(v))
		return size_real(l, v, path);
	if (!json_is_string(v))
		return expected(&l->r, path, "a size (an int or an expression)", v);
	const char *error;
	*out = expr_parse(l->m, json_string_value(v), &error);
	bool follows = l->symbols_unclear && *out == NONE && strncmp(error, "unknown symbol", 14) == 0;
	if (*out == NONE && !follows)
		diag_error(l->r.d, place_at(&l->r, path), "bad-expression", NULL, "%s", error);
	return *out != NONE;
}

bool load_shape(Loader *l, const json_t *v, const Path *path, uint32_t *rank, ExprId *dims) {
	*rank = 0;
	if (!read_list(&l->r, v, path, "a shape (a list of sizes)"))
		return false;
	size_t n = json_array_size(v);
	if (n > RANK_MAX) {
		diag_error(l->r.d, place_at(&l->r, path), "rank", NULL, "rank %zu: at most %d dims are supported", n,
		           RANK_MAX);
		return false;
	}
	bool ok = true;
	for (size_t i = 0; i < n; i++) {
		Path at = path_index(path, i);
		dims[i] = NONE;
		if (!load_size(l, json_array_get(v, i), &at, &dims[i]) || dims[i] == NONE) {
			ok = false;
			continue;
		}
		const Expr *e = &l->m->exprs.at[dims[i]];
		if (e->kind == EXPR_INT && e->value < 0) {
			diag_error(l->r.d, place_at(&l->r, &at), "negative-size", NULL, "size %lld is negative",
			           (long long)e->value);
			ok = false;
		}
	}
	*rank = (uint32_t)n;
	return ok;
}

/* ---- dtypes ----------------------------------------------------------------------------------------------------- */

static const char *const dtype_names[] = {
#define DTYPE(e, name, class, ...) name,
#include "dtypes.def"
#undef DTYPE
	NULL};

static void dtype_unknown(Loader *l, const char *name, const Path *path) {
	const char *bare = strncmp(name, "torch.", 6) == 0 ? name + 6 : name;
	Text all;
	text_init(&all, l->r.arena);
	text_put(&all, "one of ");
	for (size_t i = 0; i < DTYPE_I64; i++) /* the last: not of arrays */
		text_printf(&all, "%s%s", i ? ", " : "", dtype_names[i]);
	const char *hint = hint_nearest(&l->r, bare, dtype_names);
	diag_error(l->r.d, place_at(&l->r, path), "unknown-dtype", hint ? hint : all.at, "unknown dtype '%s'", name);
}

static bool dtype_wide(Loader *l, const char *name, const Path *path, DtypeUse use, Dtype *out) {
	bool is_int = strcmp(name, "int64") == 0;
	if (is_int && use == DTYPE_OF_VALUE) {
		*out = DTYPE_I64; /* the pass int64 finds words that hold it */
		return true;
	}
	diag_error(l->r.d, place_at(&l->r, path), "dtype-64-bit",
	           is_int ? "declare int32 and convert on the host: x.astype(jnp.int32)"
	                  : "declare float32 and convert on the host: x.astype(jnp.float32)",
	           "%s is not supported: TPUs have no 64-bit types", name);
	return false;
}

bool load_dtype(Loader *l, const json_t *v, const Path *path, DtypeUse use, Dtype *out) {
	if (!json_is_string(v))
		return expected(&l->r, path, "a dtype (a string)", v);
	const char *name = json_string_value(v);
	if (strcmp(name, "int64") == 0 || strcmp(name, "float64") == 0)
		return dtype_wide(l, name, path, use, out);
	*out = dtype_find(name);
	if (*out != DTYPE_NONE)
		return true;
	dtype_unknown(l, name, path);
	return false;
}

bool load_number(Loader *l, const json_t *v, const Path *path, double *out) {
	const char *word = json_string_value(json_object_get(v, "float"));
	if (json_is_number(v)) {
		*out = json_number_value(v);
		return true;
	}
	if (!word || json_object_size(v) != 1)
		return expected(&l->r, path, "a number", v);
	if (strcmp(word, "inf") == 0)
		*out = (double)INFINITY;
	else if (strcmp(word, "-inf") == 0)
		*out = -(double)INFINITY;
	else if (strcmp(word, "nan") == 0)
		*out = (double)NAN;
	else
		return expected(&l->r, path, "{\"float\": \"inf\"}, \"-inf\" or \"nan\"", v);
	return true;
}

bool number_fits(Dtype t, double x) {
	if (t >= DTYPE_COUNT) /* reported */
		return true;
	bool is_signed = dtype_class(t) == DTYPE_CLASS_SIGNED;
	if (!is_signed && dtype_class(t) != DTYPE_CLASS_UNSIGNED)
		return true;
	double end = ldexp(1, dtype_bits(t) - is_signed);
	return x == floor(x) && x >= (is_signed ? -end : 0) && x < end;
}

/* ---- types ------------------------------------------------------------------------------------------------------ */

enum { TUPLE_DEPTH_MAX = 8, TUPLE_MAX = 4096 };
enum { META_DTYPE, META_SHAPE, META_SYM, META_TUPLE, META_MEMBERS };

static bool meta_tuple(Loader *l, const json_t *v, const Path *path, int depth, TypeId *out) {
	static const char *const known[] = {"tuple", NULL};
	const json_t *list = json_object_get(v, "tuple");
	Path at = path_key(path, "tuple");
	if (!read_object(&l->r, v, path, "a tuple's meta", known) || !read_list(&l->r, list, &at, "a list of metas"))
		return false;
	size_t n = json_array_size(list);
	if (depth >= TUPLE_DEPTH_MAX || n > TUPLE_MAX) {
		diag_error(l->r.d, place_at(&l->r, &at), "meta-tuple", NULL,
		           "the tuple is nested too deep or too long");
		return false;
	}
	TypeId *elements = arena_array(l->r.arena, n, sizeof *elements);
	bool ok = true;
	for (size_t i = 0; i < n; i++) {
		Path item = path_index(&at, i);
		ok &= load_meta(l, json_array_get(list, i), &item, depth + 1, &elements[i]);
	}
	if (ok)
		*out = type_tuple(l->m, (uint32_t)n, elements);
	return ok;
}

static bool meta_sym(Loader *l, const json_t *v, const Path *path, TypeId *out) {
	static const char *const known[] = {"sym", "dtype", NULL};
	const json_t *found[2];
	bool ok = read_members(&l->r, v, path, "a symbolic value's meta", known, found);
	const json_t *sym = found[0], *dtype = found[1];
	Path at = path_key(path, "sym"), dtype_at = path_key(path, "dtype");
	Dtype type = DTYPE_I32;
	ExprId e = NONE;
	if (dtype && load_dtype(l, dtype, &dtype_at, DTYPE_OF_VALUE, &type) && type != DTYPE_BOOL &&
	    type != DTYPE_I32 && type != DTYPE_I64)
		ok = expected(&l->r, &dtype_at, "\"bool\" or \"int32\"", dtype);
	if (!json_is_null(sym))
		ok &= load_size(l, sym, &at, &e);
	if (ok)
		*out = type_sym(l->m, type == DTYPE_BOOL ? DTYPE_BOOL : DTYPE_I32, e);
	return ok;
}

static bool meta_tensor(Loader *l, const json_t *const *found, const Path *path, TypeId *out) {
	const json_t *dtype = needed(&l->r, found[META_DTYPE], "dtype", path, "meta"),
		     *shape = needed(&l->r, found[META_SHAPE], "shape", path, "meta");
	Path dtype_at = path_key(path, "dtype"), shape_at = path_key(path, "shape");
	Dtype type = DTYPE_NONE;
	uint32_t rank = 0;
	ExprId dims[RANK_MAX];
	bool ok = dtype && load_dtype(l, dtype, &dtype_at, DTYPE_OF_VALUE, &type);
	ok &= shape && load_shape(l, shape, &shape_at, &rank, dims);
	if (ok)
		*out = type_tensor(l->m, type, rank, dims);
	return ok;
}

bool load_meta(Loader *l, const json_t *v, const Path *path, int depth, TypeId *out) {
	static const char *const known[] = {"dtype", "shape", "sym", "tuple", NULL};
	const json_t *found[META_MEMBERS];
	*out = type_none(l->m);
	if (!v || json_is_null(v))
		return true;
	bool all_known = find_members(v, known, found) && json_is_object(v);
	if (found[META_TUPLE])
		return meta_tuple(l, v, path, depth, out);
	if (found[META_SYM])
		return meta_sym(l, v, path, out);
	return (all_known || read_object(&l->r, v, path, "meta", known)) && meta_tensor(l, found, path, out);
}
