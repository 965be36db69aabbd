/* config.c - reads configurations: the document's own, --config FILE and --set KEY=VALUE, each over the one before.
 * What depends on several keys, or on the graph, waits for module_configure() (configure.c). */
#include "config.h"

#include <limits.h>

void config_init(Module *m) {
	m->config = (Config){0};
	for (const KeyRow *row = key_rows; row < key_rows + KEY_COUNT; row++)
		if (row->kind == KEY_WORD || row->kind == KEY_SWITCH || row->kind == KEY_NUMBER)
			((ConfigKey *)key_field(row, &m->config))->value = row->fallback;
	for (uint32_t i = 0; i < m->tunables.count; i++) {
		vec_push(m->arena, &m->config.tunables, m->tunables.at[i].default_value);
		vec_push(m->arena, &m->config.tunables_given, false);
	}
}

/* ---- keys ------------------------------------------------------------------------------------------------------- */

typedef struct ConfigReader {
	const Reader *r;
	Module *m;
} ConfigReader;

static bool read_item(const ConfigReader *c, const KeyRow *row, const json_t *v, const Path *at, int64_t *out) {
	if (row->kind == KEY_FLAGS) {
		*out = json_is_true(v);
		return json_is_boolean(v) || expected(c->r, at, "true or false", v);
	}
	*out = 0;
	if (row->or_null && json_is_null(v))
		return true;
	if (!to_int(c->r, v, at, row->or_null ? "an int or null" : "an int", out))
		return false;
	if (*out >= 1 && *out <= INT32_MAX)
		return true;
	diag_error(c->r->d, place_at(c->r, at), "config-value", NULL, "%lld is out of range: 1 to 2147483647",
	           (long long)*out);
	return false;
}

static ConfigOrigin origin_of(const ConfigReader *c, const Path *at) {
	return (ConfigOrigin){.source = c->r->source, .pointer = path_string(c->r, at)};
}

/* An empty list says nothing: Helion writes one where a kernel has nothing to choose. */
static void read_list_key(const ConfigReader *c, const KeyRow *row, const json_t *v, const Path *at) {
	ConfigList list = {.set = json_array_size(v) > 0, .origin = origin_of(c, at)};
	if (!read_list(c->r, v, at, "a list"))
		return;
	for (size_t i = 0; i < json_array_size(v); i++) {
		Path item = path_index(at, i);
		int64_t value = 0;
		read_item(c, row, json_array_get(v, i), &item, &value);
		vec_push(c->m->arena, &list.values, value);
	}
	*(ConfigList *)key_field(row, &c->m->config) = list;
}

static bool read_order(const ConfigReader *c, const json_t *v, const Path *at, ConfigList *out) {
	uint32_t seen = 0;
	size_t n = json_array_size(v);
	bool ok = json_is_array(v) && n <= RANK_MAX;
	for (size_t i = 0; ok && i < n; i++) {
		const json_t *item = json_array_get(v, i);
		json_int_t dim = json_integer_value(item);
		ok = json_is_integer(item) && dim >= 0 && (size_t)dim < n && !(seen & 1u << dim);
		if (ok)
			seen |= 1u << dim;
		vec_push(c->m->arena, &out->values, dim);
	}
	return ok || expected(c->r, at, "a permutation of the loop's dims, as [1, 0]", v);
}

/* The short form of a list: one entry; of sizes also the list; of reductions the entry of each. */
static void read_one(const ConfigReader *c, const KeyRow *row, const json_t *v, const Path *at) {
	ConfigList list = {.set = true, .origin = origin_of(c, at)};
	uint32_t count = 0;
	int64_t value = 0;
	if (json_is_array(v)) {
		read_list_key(c, row, v, at);
		return;
	}
	if (!read_item(c, row, v, at, &value))
		return;
	for (BlockId b = 0; b < c->m->blocks.count && row->each == EACH_REDUCTION; b++)
		count += c->m->blocks.at[b].reduction;
	for (uint32_t i = 0; i < count || i == 0; i++)
		vec_push(c->m->arena, &list.values, value);
	*(ConfigList *)key_field(row, &c->m->config) = list;
}

static void add_order(const ConfigReader *c, ConfigOrders *orders, const json_t *v, const Path *at) {
	ConfigList order = {.set = true, .origin = origin_of(c, at)};
	read_order(c, v, at, &order);
	vec_push(c->m->arena, &orders->values, order);
}

/* A list of them; `one`: its short form. */
static void read_orders(const ConfigReader *c, const KeyRow *row, const json_t *v, const Path *at, bool one) {
	ConfigOrders *orders = key_field(row, &c->m->config);
	orders->set = one || json_array_size(v) > 0;
	orders->origin = origin_of(c, at);
	orders->values.count = 0;
	if (one)
		add_order(c, orders, v, at);
	else if (read_list(c->r, v, at, "a list of permutations"))
		for (size_t i = 0; i < json_array_size(v); i++) {
			Path item = path_index(at, i);
			add_order(c, orders, json_array_get(v, i), &item);
		}
}

/* The value of one of the key's words; of true and false where it is a choice; NONE after a diagnostic. */
static uint32_t read_word(const ConfigReader *c, const KeyRow *row, const json_t *v, const Path *at) {
	const char *const *words = key_words(row), *text = json_string_value(v);
	if (row->kind == KEY_SWITCH && json_is_boolean(v))
		return json_is_true(v) ? SWITCH_ON : SWITCH_OFF;
	for (uint32_t i = 0; text && words[i]; i++)
		if (strcmp(text, words[i]) == 0)
			return i;
	Text all;
	text_init(&all, c->r->arena);
	text_put(&all, "one of ");
	for (int i = 0; words[i]; i++)
		text_printf(&all, "%s%s", i ? ", " : "", words[i]);
	diag_error(c->r->d, place_at(c->r, at), "config-value", text ? hint_nearest(c->r, text, words) : NULL,
	           "'%s' must be %s, found %s", row->name, all.at, json_describe(c->r, v));
	return NONE;
}

static void set_key(const ConfigReader *c, const KeyRow *row, const Path *at, int value) {
	*(ConfigKey *)key_field(row, &c->m->config) =
		(ConfigKey){.set = true, .origin = origin_of(c, at), .value = value};
}

static void read_word_key(const ConfigReader *c, const KeyRow *row, const json_t *v, const Path *at) {
	uint32_t value = read_word(c, row, v, at);
	if (row->never_on && value == SWITCH_ON)
		diag_error(c->r->d, place_at(c->r, at), "config-value", NULL, "'%s' must be auto or off", row->name);
	else if (value != NONE)
		set_key(c, row, at, (int)value);
}

static void read_number(const ConfigReader *c, const KeyRow *row, const json_t *v, const Path *at) {
	const char *text = json_string_value(v), *what = "an int";
	int64_t value;
	if (row->or_auto)
		what = arena_printf(c->r->arena, "auto or an int from %d to %d", row->low, row->high);
	if (row->or_auto && text && strcmp(text, "auto") == 0)
		set_key(c, row, at, row->fallback);
	else if (!to_int(c->r, v, at, what, &value))
		return;
	else if (value < row->low || value > row->high)
		diag_error(c->r->d, place_at(c->r, at), "config-value", NULL, "'%s' must be %d to %d, found %lld",
		           row->name, row->low, row->high, (long long)value);
	else
		set_key(c, row, at, (int)value);
}

static void read_key(const ConfigReader *c, const KeyRow *row, const json_t *v, const Path *at) {
	switch (row->kind) {
	case KEY_SIZES:
	case KEY_FLAGS: read_list_key(c, row, v, at); break;
	case KEY_ORDERS: read_orders(c, row, v, at, false); break;
	case KEY_WORD:
	case KEY_SWITCH: read_word_key(c, row, v, at); break;
	case KEY_NUMBER: read_number(c, row, v, at); break;
	}
}

void config_read_key(const Reader *r, Module *m, const KeyRow *row, const json_t *v, const Path *at) {
	const ConfigReader c = {r, m};
	if (!json_is_null(v))
		read_key(&c, row, v, at);
}

static void read_tunable(const ConfigReader *c, const json_t *v, const Path *at, TunableId id) {
	const Tunable *t = &c->m->tunables.at[id];
	int64_t value;
	if (!to_int(c->r, v, at, "an int", &value))
		return;
	bool allowed = t->choices.count == 0;
	Text all;
	text_init(&all, c->r->arena);
	text_put(&all, "");
	for (uint32_t i = 0; i < t->choices.count; i++) {
		text_printf(&all, "%s%lld", i ? ", " : "", (long long)t->choices.at[i]);
		allowed |= t->choices.at[i] == value;
	}
	c->m->config.tunables_given.at[id] |= c->r->source != c->m->source;
	if (allowed)
		c->m->config.tunables.at[id] = value;
	else
		diag_error(c->r->d, place_at(c->r, at), "config-value", NULL, "'%s' must be one of %s, found %lld",
		           t->name, all.at, (long long)value);
}

/* ---- whose keys -------------------------------------------------------------------------------------------------- */

/* Keys of helion.Config that mean nothing here: those of its GPU backends, and a few switches of its Pallas backend
 * that work around its own code generation. Also everything that starts with "cute_" or
 * "tcgen05_". */
static const char *const ignored_keys[] = {"num_warps",
                                           "num_stages",
                                           "num_threads",
                                           "indexing",
                                           "atomic_indexing",
                                           "pid_type",
                                           "l2_groupings",
                                           "range_unroll_factors",
                                           "range_warp_specializes",
                                           "range_num_stages",
                                           "range_multi_buffers",
                                           "range_flattens",
                                           "static_ranges",
                                           "load_eviction_policies",
                                           "load_cache_modifiers",
                                           "store_cache_modifiers",
                                           "advanced_controls_file",
                                           "epilogue_subtile",
                                           "cross_loop_pipeline",
                                           "num_sm_multiplier",
                                           "maxnreg",
                                           "host_tensor_descriptors",
                                           "xcd_remap",
                                           "reduction_fusion",
                                           "waves_per_eu",
                                           "matrix_instr_nonkdim",
                                           "num_ctas",
                                           "occupancy",
                                           "pallas_use_low_level_scheduler",
                                           "pallas_fold_dot_lhs_cast",
                                           "pallas_internal_scratch",
                                           NULL};

/* `name` is the key without its last s: the short form, of one entry. */
static bool is_short_of(const char *name, const char *key) {
	size_t length = strlen(name);
	return length > 0 && strncmp(name, key, length) == 0 && strcmp(key + length, "s") == 0;
}

static bool is_ignored(const char *name) {
	for (const char *const *key = ignored_keys; *key; key++)
		if (strcmp(name, *key) == 0 || is_short_of(name, *key))
			return true;
	return strncmp(name, "cute_", 5) == 0 || strncmp(name, "tcgen05_", 8) == 0;
}

/* The list whose short form it is; NULL. */
static const KeyRow *key_of_short(const char *name) {
	for (const KeyRow *row = key_rows; row < key_rows + KEY_COUNT; row++)
		if ((key_is_list(row) || row->kind == KEY_ORDERS) && is_short_of(name, row->name))
			return row;
	return NULL;
}

static void read_short(const ConfigReader *c, const KeyRow *row, const json_t *v, const Path *at, bool both) {
	if (both)
		diag_error(c->r->d, place_key(c->r, at), "config-twice", "give one of them",
		           "'%s' and '%s' are one key", at->key, row->name);
	else if (row->kind == KEY_ORDERS)
		read_orders(c, row, v, at, true);
	else
		read_one(c, row, v, at);
}

static const KeyRow *key_find(const char *name) {
	for (const KeyRow *row = key_rows; row < key_rows + KEY_COUNT; row++)
		if (strcmp(name, row->name) == 0)
			return row;
	return NULL;
}

static const char *const *all_keys(const ConfigReader *c) {
	const Module *m = c->m;
	VEC(const char *) names = {0};
	for (const KeyRow *row = key_rows; row < key_rows + KEY_COUNT; row++) {
		size_t length = strlen(row->name);
		char *shorter = arena_strdup(c->r->arena, row->name);
		vec_push(c->r->arena, &names, row->name);
		shorter[length - 1] = '\0';
		if (key_of_short(shorter))
			vec_push(c->r->arena, &names, shorter);
	}
	for (uint32_t i = 0; i < m->tunables.count; i++)
		vec_push(c->r->arena, &names, m->tunables.at[i].name);
	vec_push(c->r->arena, &names, "by_size");
	vec_push(c->r->arena, &names, NULL);
	return names.at;
}

/* A block's name is no key: which element of block_sizes is meant. */
static const char *hint_key(const ConfigReader *c, const char *name) {
	uint32_t chosen = 0, at = NONE;
	for (BlockId b = 0; b < c->m->blocks.count; b++) {
		const Block *block = &c->m->blocks.at[b];
		if (!block_is_chosen(block))
			continue;
		if (block->name && strcmp(block->name, name) == 0)
			at = chosen;
		chosen++;
	}
	if (at == NONE)
		return hint_nearest(c->r, name, all_keys(c));
	return arena_printf(c->r->arena, "the size of the block '%s' is value %u of the %u of block_sizes", name,
	                    at + 1, chosen);
}

static TunableId tunable_find(const Module *m, const char *name) {
	const char *known = string_find(&m->strings, name);
	uint32_t symbol = known ? map_get(&m->symbols, map_key(known)) : NONE;
	return symbol != NONE && symbol & SYMBOL_TUNABLE ? symbol & ~SYMBOL_TUNABLE : NONE;
}

/* One note for all of them, once for each kernel. */
static void note_ignored(const ConfigReader *c, const Path *at, const Text *ignored) {
	if (!ignored->length || c->m->config.gpu_keys_noted)
		return;
	c->m->config.gpu_keys_noted = true;
	diag_note(c->r->d, place_at(c->r, at), "config-ignored", NULL,
	          "configuration keys that mean nothing on a TPU are ignored: %s", ignored->at);
}

void config_read(const Reader *r, Module *m, const json_t *object, const Path *path) {
	ConfigReader c = {r, m};
	Text ignored;
	const char *name;
	const json_t *by_size = NULL;
	json_t *v;
	text_init(&ignored, r->arena);
	if (!json_is_object(object)) {
		expected(r, path, "a configuration (an object)", object);
		return;
	}
	json_object_foreach((json_t *)(uintptr_t)object, name, v) {
		Path at = path_key(path, name);
		const KeyRow *row = key_find(name), *list = row ? NULL : key_of_short(name);
		TunableId tunable = tunable_find(m, name);
		if (json_is_null(v) && (row || (list && !list->or_null)))
			continue; /* as if absent */
		const json_t *whole = list ? json_object_get(object, list->name) : NULL;
		if (row)
			read_key(&c, row, v, &at);
		else if (tunable != NONE)
			read_tunable(&c, v, &at, tunable);
		else if (list)
			read_short(&c, list, v, &at, whole && !json_is_null(whole));
		else if (strcmp(name, "by_size") == 0)
			by_size = v;
		else if (is_ignored(name))
			text_printf(&ignored, "%s%s", ignored.length ? ", " : "", name);
		else if (strncmp(name, "x_", 2) != 0)
			diag_error(r->d, place_key(r, &at), "unknown-config-key", hint_key(&c, name),
			           "unknown configuration key '%s'", name);
	}
	note_ignored(&c, path, &ignored);
	Path at = path_key(path, "by_size");
	if (by_size) /* over the others, wherever it stands */
		config_read_by_size(r, m, by_size, &at);
}

/* ---- from outside the graph ------------------------------------------------------------------------------------- */

typedef struct ConfigJob {
	Reader r;
	Module *m;
} ConfigJob;

static void config_body(void *context, json_t *root) {
	ConfigJob *job = context;
	Path path = {0};
	config_read(&job->r, job->m, root, &path);
}

bool config_load(Module *m, Diag *d, const Source *source) {
	ConfigJob job = {.r = reader_of(m->arena, d, source), .m = m};
	uint32_t errors = d->errors;
	json_t *root = json_read(&job.r);
	if (root)
		json_guard(root, m->arena, config_body, &job);
	return d->errors == errors;
}

/* Does the text parse as JSON? If not it is a bare word: --set pallas_loop_type=unroll. */
static bool is_json(Arena *a, const char *text) {
	json_t *v = json_of(a, text, strlen(text));
	json_decref(v);
	return v != NULL;
}

/* Made a document of one member, so that diagnostics can show it. */
bool config_set(Module *m, Diag *d, const char *key_value) {
	Source *source = arena_alloc(m->arena, sizeof *source);
	const char *equals = strchr(key_value, '=');
	*source = (Source){.name = "<command line>", .text = key_value, .length = strlen(key_value)};
	if (!equals) {
		diag_error(d, diag_place_offset(source, 0), "config-set", NULL, "expected KEY=VALUE, found '%s'",
		           key_value);
		return false;
	}
	char *key = arena_strdup(m->arena, key_value);
	key[equals - key_value] = '\0';
	Text t;
	text_init(&t, m->arena);
	text_put(&t, "{");
	text_put_json(&t, key);
	text_put(&t, ": ");
	if (is_json(m->arena, equals + 1))
		text_put(&t, equals + 1);
	else
		text_put_json(&t, equals + 1);
	text_put(&t, "}");
	source->text = t.at;
	source->length = t.length;
	return config_load(m, d, source);
}
