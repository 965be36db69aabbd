/* config.c - reads configurations: the document's own, --config FILE and --set KEY=VALUE, each over the one before.
 * What depends on several keys, or on the graph, waits for module_configure() (configure.c). */
#include "json_read.h"

#include <limits.h>

static const char *const loop_type_names[] = {"default", "unroll", "fori_loop", "emit_pipeline", NULL};

const char *loop_type_name(LoopType t) { return loop_type_names[t]; }

void config_init(Module *m) {
	m->config = (Config){.matmul_ahead.value = AHEAD_AUTO};
	for (uint32_t i = 0; i < m->tunables.count; i++)
		vec_push(m->arena, &m->config.tunables, m->tunables.at[i].default_value);
}

/* ---- keys ------------------------------------------------------------------------------------------------------- */

typedef struct ConfigReader {
	const Reader *r;
	Module *m;
} ConfigReader;

typedef enum ItemKind { ITEM_SIZE, ITEM_SIZE_OR_NULL, ITEM_FLAG } ItemKind;

static bool read_item(const ConfigReader *c, const json_t *v, const Path *at, ItemKind kind, int64_t *out) {
	if (kind == ITEM_FLAG) {
		*out = json_is_true(v);
		return json_is_boolean(v) || expected(c->r, at, "true or false", v);
	}
	*out = 0;
	if (kind == ITEM_SIZE_OR_NULL && json_is_null(v))
		return true;
	if (!to_int(c->r, v, at, kind == ITEM_SIZE ? "an int" : "an int or null", out))
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
static void read_list_key(const ConfigReader *c, const json_t *v, const Path *at, ItemKind kind, ConfigList *out) {
	ConfigList list = {.set = json_array_size(v) > 0, .origin = origin_of(c, at)};
	if (!read_list(c->r, v, at, "a list"))
		return;
	for (size_t i = 0; i < json_array_size(v); i++) {
		Path item = path_index(at, i);
		int64_t value = 0;
		read_item(c, json_array_get(v, i), &item, kind, &value);
		vec_push(c->m->arena, &list.values, value);
	}
	*out = list;
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

static void read_loop_orders(const ConfigReader *c, const json_t *v, const Path *at) {
	Config *config = &c->m->config;
	config->loop_orders.set = json_array_size(v) > 0;
	config->loop_orders.origin = origin_of(c, at);
	config->loop_orders.values.count = 0;
	if (!read_list(c->r, v, at, "a list of permutations"))
		return;
	for (size_t i = 0; i < json_array_size(v); i++) {
		Path item = path_index(at, i);
		ConfigList order = {.set = true, .origin = origin_of(c, &item)};
		read_order(c, json_array_get(v, i), &item, &order);
		vec_push(c->m->arena, &config->loop_orders.values, order);
	}
}

/* A word out of a NULL-terminated list; its index is the value. */
static void read_word(const ConfigReader *c, const json_t *v, const Path *at, const char *const *words,
                      ConfigKey *out) {
	const char *text = json_string_value(v);
	for (int i = 0; text && words[i]; i++) {
		if (strcmp(text, words[i]) != 0)
			continue;
		*out = (ConfigKey){.set = true, .origin = origin_of(c, at), .value = i};
		return;
	}
	Text all;
	text_init(&all, c->r->arena);
	text_put(&all, "one of ");
	for (int i = 0; words[i]; i++)
		text_printf(&all, "%s%s", i ? ", " : "", words[i]);
	diag_error(c->r->d, place_at(c->r, at), "config-value", text ? hint_nearest(c->r, text, words) : NULL,
	           "'%s' must be %s, found %s", at->key, all.at, json_describe(c->r, v));
}

/* true, false or one of the words auto, on, off. */
static void read_choice(const ConfigReader *c, const json_t *v, const Path *at, bool may_be_on, ConfigKey *out) {
	static const char *const words[] = {"auto", "on", "off", NULL};
	ConfigKey key = *out;
	if (json_is_boolean(v))
		key = (ConfigKey){
			.set = true, .origin = origin_of(c, at), .value = json_is_true(v) ? CHOICE_ON : CHOICE_OFF};
	else
		read_word(c, v, at, words, &key);
	if (!may_be_on && key.set && key.value == CHOICE_ON)
		diag_error(c->r->d, place_at(c->r, at), "config-value", NULL, "'%s' must be auto or off", at->key);
	else
		*out = key;
}

static void read_number(const ConfigReader *c, const json_t *v, const Path *at, int low, int high, ConfigKey *out) {
	int64_t value;
	if (!to_int(c->r, v, at, "an int", &value))
		return;
	if (value < low || value > high)
		diag_error(c->r->d, place_at(c->r, at), "config-value", NULL, "'%s' must be %d to %d, found %lld",
		           at->key, low, high, (long long)value);
	else
		*out = (ConfigKey){.set = true, .origin = origin_of(c, at), .value = (int)value};
}

/* Steps, or the word auto. */
static void read_ahead(const ConfigReader *c, const json_t *v, const Path *at, ConfigKey *out) {
	const char *text = json_string_value(v);
	if (text && strcmp(text, "auto") == 0)
		*out = (ConfigKey){.set = true, .origin = origin_of(c, at), .value = AHEAD_AUTO};
	else if (json_is_integer(v))
		read_number(c, v, at, 0, AHEAD_MAX, out);
	else
		expected(c->r, at, "auto or an int from 0 to 3", v);
}

static void read_access_mode(const ConfigReader *c, const json_t *v, const Path *at) {
	static const char *const words[] = {"one_hot", "dma", NULL};
	ConfigKey key = {0};
	read_word(c, v, at, words, &key);
	if (!key.set)
		return;
	c->m->config.indirect_access_mode.set = true;
	c->m->config.indirect_access_mode.origin = key.origin;
	c->m->config.indirect_access_mode.value = words[key.value];
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
	if (allowed)
		c->m->config.tunables.at[id] = value;
	else
		diag_error(c->r->d, place_at(c->r, at), "config-value", NULL, "'%s' must be one of %s, found %lld",
		           t->name, all.at, (long long)value);
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

enum {
	KEY_BLOCK_SIZES,
	KEY_REDUCTION_LOOPS,
	KEY_LOOP_ORDERS,
	KEY_FLATTEN_LOOPS,
	KEY_LOAD_BUFFER_COUNT,
	KEY_LOOP_TYPE,
	KEY_PRE_BROADCAST,
	KEY_INDIRECT_ACCESS_MODE,
	KEY_WORKLIST_GROUPING,
	KEY_GROUP_SIZE,
	KEY_DOT_PRECISION,
	KEY_BOUNDARY_VIEWS,
	KEY_INLOOP_LOADS,
	KEY_SCALE_AFTER_MAX,
	KEY_TRANSPOSED_SCORES,
	KEY_ROW_SPLIT,
	KEY_COLUMN_STRIPS,
	KEY_FORI_DMA,
	KEY_STRAIGHT_LOOPS,
	KEY_WIDE_BLOCKS,
	KEY_LOOP_SKEW,
	KEY_STEP_PAIRS,
	KEY_GRID_WALK,
	KEY_MATMUL_AHEAD,
	KEY_COUNT
};

static const char *const key_names[KEY_COUNT + 1] = {"block_sizes",
                                                     "reduction_loops",
                                                     "loop_orders",
                                                     "flatten_loops",
                                                     "pallas_load_buffer_count",
                                                     "pallas_loop_type",
                                                     "pallas_pre_broadcast",
                                                     "pallas_indirect_access_mode",
                                                     "pallas_worklist_grouping",
                                                     "pallas_emit_pipeline_group_size",
                                                     "dot_precision",
                                                     "pallas_boundary_views",
                                                     "pallas_inloop_loads",
                                                     "pallas_scale_after_max",
                                                     "pallas_transposed_scores",
                                                     "pallas_row_split",
                                                     "pallas_column_strips",
                                                     "pallas_fori_dma",
                                                     "pallas_straight_loops",
                                                     "pallas_wide_blocks",
                                                     "pallas_loop_skew",
                                                     "pallas_step_pairs",
                                                     "pallas_back_and_forth",
                                                     "pallas_matmul_ahead",
                                                     NULL};

/* Keys of helion.Config that mean nothing here: those of its GPU backends, and a few switches of its Pallas backend
 * that work around its own code generation. Also everything that starts with "cute_". */
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

static int find(const char *word, const char *const *list) {
	for (int i = 0; list[i]; i++)
		if (strcmp(word, list[i]) == 0)
			return i;
	return -1;
}

static void read_key(const ConfigReader *c, int key, const json_t *v, const Path *at) {
	static const char *const precisions[] = {"highest", "default", NULL};
	Config *config = &c->m->config;
	switch (key) {
	case KEY_BLOCK_SIZES: read_list_key(c, v, at, ITEM_SIZE, &config->block_sizes); break;
	case KEY_REDUCTION_LOOPS: read_list_key(c, v, at, ITEM_SIZE_OR_NULL, &config->reduction_loops); break;
	case KEY_LOOP_ORDERS: read_loop_orders(c, v, at); break;
	case KEY_FLATTEN_LOOPS: read_list_key(c, v, at, ITEM_FLAG, &config->flatten_loops); break;
	case KEY_LOAD_BUFFER_COUNT: read_list_key(c, v, at, ITEM_SIZE, &config->load_buffer_count); break;
	case KEY_LOOP_TYPE: read_word(c, v, at, loop_type_names, &config->loop_type); break;
	case KEY_PRE_BROADCAST: read_choice(c, v, at, true, &config->pre_broadcast); break;
	case KEY_INDIRECT_ACCESS_MODE: read_access_mode(c, v, at); break;
	case KEY_WORKLIST_GROUPING: read_number(c, v, at, 0, 2, &config->worklist_grouping); break;
	case KEY_GROUP_SIZE: read_number(c, v, at, 1, 1024, &config->emit_pipeline_group_size); break;
	case KEY_DOT_PRECISION: read_word(c, v, at, precisions, &config->dot_precision); break;
	case KEY_BOUNDARY_VIEWS: read_choice(c, v, at, false, &config->boundary_views); break;
	case KEY_INLOOP_LOADS: read_choice(c, v, at, true, &config->inloop_loads); break;
	case KEY_SCALE_AFTER_MAX: read_choice(c, v, at, true, &config->scale_after_max); break;
	case KEY_TRANSPOSED_SCORES: read_choice(c, v, at, true, &config->transposed_scores); break;
	case KEY_ROW_SPLIT: read_choice(c, v, at, true, &config->row_split); break;
	case KEY_COLUMN_STRIPS: read_choice(c, v, at, true, &config->column_strips); break;
	case KEY_FORI_DMA: read_choice(c, v, at, true, &config->fori_dma); break;
	case KEY_WIDE_BLOCKS: read_choice(c, v, at, true, &config->wide_blocks); break;
	case KEY_STRAIGHT_LOOPS: read_choice(c, v, at, true, &config->straight_loops); break;
	case KEY_LOOP_SKEW: read_choice(c, v, at, true, &config->loop_skew); break;
	case KEY_STEP_PAIRS: read_choice(c, v, at, true, &config->step_pairs); break;
	case KEY_GRID_WALK: read_choice(c, v, at, true, &config->grid_walk); break;
	case KEY_MATMUL_AHEAD: read_ahead(c, v, at, &config->matmul_ahead); break;
	default: break;
	}
}

static const char *const *all_keys(const ConfigReader *c) {
	const Module *m = c->m;
	const char **names = arena_array(c->r->arena, (size_t)m->tunables.count + KEY_COUNT + 1, sizeof *names);
	memcpy(names, key_names, sizeof key_names);
	for (uint32_t i = 0; i < m->tunables.count; i++)
		names[KEY_COUNT + i] = m->tunables.at[i].name;
	return names;
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
	json_t *v;
	text_init(&ignored, r->arena);
	if (!json_is_object(object)) {
		expected(r, path, "a configuration (an object)", object);
		return;
	}
	json_object_foreach((json_t *)(uintptr_t)object, name, v) {
		Path at = path_key(path, name);
		int key = find(name, key_names);
		TunableId tunable = tunable_find(m, name);
		if (key >= 0 && json_is_null(v))
			continue; /* null: as if absent */
		if (key >= 0)
			read_key(&c, key, v, &at);
		else if (tunable != NONE)
			read_tunable(&c, v, &at, tunable);
		else if (find(name, ignored_keys) >= 0 || strncmp(name, "cute_", 5) == 0)
			text_printf(&ignored, "%s%s", ignored.length ? ", " : "", name);
		else if (strncmp(name, "x_", 2) != 0)
			diag_error(r->d, place_key(r, &at), "unknown-config-key", hint_nearest(r, name, all_keys(&c)),
			           "unknown configuration key '%s'", name);
	}
	note_ignored(&c, path, &ignored);
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
	ConfigJob job = {.r = {.arena = m->arena, .d = d, .source = source}, .m = m};
	uint32_t errors = d->errors;
	json_t *root = json_read(&job.r);
	if (root)
		json_guard(root, m->arena, config_body, &job);
	return d->errors == errors;
}

/* Does the text parse as JSON? If not it is a bare word: --set pallas_loop_type=unroll. */
static bool is_json(const char *text) {
	json_error_t e;
	json_t *v = json_loads(text, JSON_DECODE_ANY, &e);
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
	if (is_json(equals + 1))
		text_put(&t, equals + 1);
	else
		text_put_json(&t, equals + 1);
	text_put(&t, "}");
	source->text = t.at;
	source->length = t.length;
	return config_load(m, d, source);
}
