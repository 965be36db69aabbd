/* load_tables.c - the document's small tables: tunables, block sizes, host scalars. */
#include "loader.h"

#include <math.h>

/* ---- symbols: sizes, block sizes and tunables
 * -------------------------------------------------------------------------- */

static bool is_symbol(const char *s) {
	for (const char *c = s; *c; c++) {
		bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_';
		if (!letter && (c == s || *c < '0' || *c > '9'))
			return false;
	}
	bool function =
		strcmp(s, "cdiv") == 0 || strcmp(s, "next_pow2") == 0 || strcmp(s, "min") == 0 || strcmp(s, "max") == 0;
	return *s && !function;
}

bool symbol_define(Loader *l, const char *name, uint32_t value, Place at) {
	Module *m = l->m;
	bool unclear = l->symbols_unclear;
	l->symbols_unclear = true; /* until all is well */
	if (!is_symbol(name)) {
		diag_error(l->r.d, at, "bad-symbol", "use letters, digits and _, as in \"u0\"",
		           "'%s' cannot stand in an expression", name);
		return false;
	}
	uint64_t key = map_key(intern(l, name));
	uint32_t known = map_get(&m->symbols, key);
	if (known != NONE) {
		bool sized = !(known & SYMBOL_TUNABLE) && known & SYMBOL_SIZE;
		diag_error(l->r.d, at, "duplicate-name",
		           sized ? "sizes, block symbols and tunables share one namespace" : NULL,
		           sized ? "'%s' is the name of a size already" : "the symbol '%s' is defined twice", name);
		return false;
	}
	map_put(l->r.arena, &m->symbols, key, value);
	l->symbols_unclear = unclear;
	return true;
}

static void tunable_choices(Loader *l, const json_t *v, const Path *path, Tunable *t) {
	const json_t *list = json_object_get(v, "choices");
	Path at = path_key(path, "choices");
	if (!list || !read_list(&l->r, list, &at, "a list of ints"))
		return;
	bool found = false;
	for (size_t i = 0; i < json_array_size(list); i++) {
		Path item = path_index(&at, i);
		int64_t choice;
		if (!to_int(&l->r, json_array_get(list, i), &item, "an int", &choice))
			return;
		found |= choice == t->default_value;
		vec_push(l->r.arena, &t->choices, choice);
	}
	Path def = path_key(path, "default");
	if (!found)
		diag_error(l->r.d, place_at(&l->r, &def), "tunable-default", NULL,
		           "the default %lld of '%s' is not one of its choices", (long long)t->default_value, t->name);
}

void load_tunables(Loader *l, const json_t *root, const Path *path) {
	static const char *const known[] = {"default", "choices", NULL};
	json_t *object = json_object_get(root, "tunables"), *v;
	Path here = path_key(path, "tunables");
	const char *name;
	if (!object || json_is_null(object))
		return;
	if (!json_is_object(object)) {
		expected(&l->r, &here, "an object of tunables by name", object);
		return;
	}
	json_object_foreach(object, name, v) {
		Path at = path_key(&here, name);
		Tunable t = {.name = intern(l, name)};
		if (!symbol_define(l, name, l->m->tunables.count | SYMBOL_TUNABLE, place_key(&l->r, &at)))
			continue;
		if (read_object(&l->r, v, &at, "a tunable", known) &&
		    get_int(&l->r, v, "default", &at, true, &t.default_value))
			tunable_choices(l, v, &at, &t);
		vec_push(l->r.arena, &l->m->tunables, t);
	}
}

enum { OF_ID, OF_SYMBOL, OF_NAME, OF_EXTENT, OF_BEGIN, OF_SIZE, OF_REDUCTION, OF_MEMBERS };
static const char *const block_members[] = {"id", "symbol", "name", "extent", "begin", "size", "reduction", NULL};

/* The block's symbol and name; its expressions are read when all symbols are known. */
static void block_define(Loader *l, const json_t *const *v, const Path *at, uint32_t index) {
	Block b = {.symbol = "?", .name = NULL, .begin = NONE, .extent = NONE, .size = NONE};
	const char *text;
	int64_t id;
	Path id_at = path_key(at, "id"), symbol_at = path_key(at, "symbol");
	if (take_int(&l->r, v[OF_ID], "id", at, true, &id) && id != (int64_t)index)
		diag_error(l->r.d, place_at(&l->r, &id_at), "block-id", "number them 0, 1, 2, ... in order",
		           "block id %lld stands where %u is due", (long long)id, index);
	if (take_string(&l->r, v[OF_SYMBOL], "symbol", at, true, &text)) {
		b.symbol = intern(l, text);
		symbol_define(l, text, index, place_at(&l->r, &symbol_at));
	}
	b.name = take_string(&l->r, v[OF_NAME], "name", at, false, &text) ? intern(l, text) : b.symbol;
	take_bool(&l->r, v[OF_REDUCTION], "reduction", at, &b.reduction);
	vec_push(l->r.arena, &l->m->blocks, b);
}

/* An optional size; null and absent give `none`. */
static ExprId block_expr(Loader *l, const json_t *value, const char *key, const Path *path, ExprId none) {
	Path at = path_key(path, key);
	ExprId e = none;
	if (!value || json_is_null(value) || !load_size(l, value, &at, &e))
		return none;
	if (l->m->exprs.at[e].kind == EXPR_INT && l->m->exprs.at[e].value < (strcmp(key, "size") == 0))
		diag_error(l->r.d, place_at(&l->r, &at), "negative-size", NULL, "%s %lld is too small", key,
		           (long long)l->m->exprs.at[e].value);
	return e;
}

static void block_sizes_of(Loader *l, const json_t *v, const Path *at, Block *b) {
	const json_t *found[OF_MEMBERS];
	find_members(v, block_members, found);
	ExprId begin = block_expr(l, found[OF_BEGIN], "begin", at, expr_int(l->m, 0));
	ExprId extent = block_expr(l, found[OF_EXTENT], "extent", at, NONE);
	ExprId size = block_expr(l, found[OF_SIZE], "size", at, NONE);
	b->begin = begin;
	b->extent = extent;
	b->size = size;
	if (b->reduction && extent == NONE)
		diag_error(l->r.d, place_at(&l->r, at), "block-reduction", NULL, "reduction block '%s' needs an extent",
		           b->name);
}

void load_blocks(Loader *l, const json_t *root, const Path *path) {
	const json_t *list = json_object_get(root, "block_sizes"), *found[OF_MEMBERS];
	Path here = path_key(path, "block_sizes");
	if (!list || json_is_null(list) || !read_list(&l->r, list, &here, "a list of block sizes"))
		return;
	for (size_t i = 0; i < json_array_size(list); i++) {
		Path at = path_index(&here, i);
		const json_t *v = json_array_get(list, i);
		if (read_members(&l->r, v, &at, "a block size", block_members, found))
			block_define(l, found, &at, (uint32_t)i);
		else
			vec_push(l->r.arena, &l->m->blocks,
			         ((Block){.symbol = "?", .name = "?", .begin = NONE, .extent = NONE, .size = NONE}));
	}
	for (size_t i = 0; i < json_array_size(list); i++) {
		Path at = path_index(&here, i);
		block_sizes_of(l, json_array_get(list, i), &at, &l->m->blocks.at[i]);
	}
}

/* ---- host scalars ----------------------------------------------------------------------------------------------- */

/* The number 2 is fine for a float; 2.5 and true are no ints. */
static void scalar_value(Loader *l, const json_t *v, const Path *path, Scalar *s) {
	DtypeClass class = dtype_class(s->dtype);
	s->has_value = true;
	if (class == DTYPE_CLASS_FLOAT) {
		load_number(l, v, path, &s->value);
		s->int_value = fabs(s->value) < 9e15 ? (int64_t)s->value : 0;
		return;
	}
	if (class == DTYPE_CLASS_BOOL && json_is_boolean(v))
		s->int_value = json_is_true(v);
	else if (class == DTYPE_CLASS_BOOL)
		expected(&l->r, path, "true or false", v);
	else if (to_int(&l->r, v, path, "an int", &s->int_value) && !number_fits(s->dtype, (double)s->int_value))
		diag_error(l->r.d, place_at(&l->r, path), "scalar-range", NULL, "%lld does not fit %s",
		           (long long)s->int_value, dtype_name(s->dtype));
	s->value = (double)s->int_value;
}

static void load_scalar(Loader *l, const json_t *v, const Path *at) {
	static const char *const known[] = {"name", "dtype", "value", NULL};
	const char *name;
	Scalar s = {.dtype = DTYPE_NONE};
	Path name_at = path_key(at, "name"), dtype_at = path_key(at, "dtype"), value_at = path_key(at, "value");
	if (!read_object(&l->r, v, at, "a scalar", known) || !get_string(&l->r, v, "name", at, true, &name))
		return;
	s.name = intern(l, name);
	if (tensor_find(l->m, name) != NONE || scalar_find(l->m, name) != NONE)
		diag_error(l->r.d, place_at(&l->r, &name_at), "duplicate-name",
		           "tensors and scalars share one namespace", "the name '%s' is taken", name);
	map_put(l->r.arena, &l->m->scalar_names, map_key(s.name), l->m->scalars.count);
	const json_t *dtype = need(&l->r, v, "dtype", at, "a scalar"), *value = json_object_get(v, "value");
	if (dtype && load_dtype(l, dtype, &dtype_at, DTYPE_OF_HOST, &s.dtype) && value && !json_is_null(value))
		scalar_value(l, value, &value_at, &s);
	vec_push(l->r.arena, &l->m->scalars, s);
}

void load_scalars(Loader *l, const json_t *root, const Path *path) {
	const json_t *list = json_object_get(root, "scalars");
	Path here = path_key(path, "scalars");
	if (!list || json_is_null(list) || !read_list(&l->r, list, &here, "a list of scalars"))
		return;
	for (size_t i = 0; i < json_array_size(list); i++) {
		Path at = path_index(&here, i);
		load_scalar(l, json_array_get(list, i), &at);
	}
}
