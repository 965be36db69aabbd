/* config_by_size.c - `by_size` of a configuration: of its entries the first whose sizes are the graph's. */
#include "config.h"

/* A name of the graph's sizes; NULL after a diagnostic. */
static const NamedSize *size_asked(const Reader *r, const Module *m, const char *name, const Path *at) {
	const char **names = arena_array(r->arena, (size_t)m->sizes.count + 1, sizeof *names);
	for (uint32_t i = 0; i < m->sizes.count; i++) {
		names[i] = m->sizes.at[i].name;
		if (strcmp(names[i], name) == 0)
			return &m->sizes.at[i];
	}
	const char *hint = hint_nearest(r, name, names);
	diag_error(r->d, place_key(r, at), "unknown-size", m->sizes.count ? hint : "a graph names them under \"sizes\"",
	           "the graph has no size '%s'", name);
	return NULL;
}

/* A bound of a range; null is none. */
static bool read_bound(const Reader *r, const json_t *v, const Path *at, int64_t *out) {
	return json_is_null(v) || to_int(r, v, at, "an int or null", out);
}

/* Is the size the int, or in the range [low, high], both inclusive? */
static bool size_is(const Reader *r, const json_t *v, const Path *at, const NamedSize *size) {
	int64_t low = INT64_MIN, high = INT64_MAX;
	if (json_is_integer(v))
		return json_integer_value(v) == size->value;
	if (!json_is_array(v) || json_array_size(v) != 2)
		return expected(r, at, "an int, or a range [low, high] with null where it has no end", v);
	Path low_at = path_index(at, 0), high_at = path_index(at, 1);
	if (!read_bound(r, json_array_get(v, 0), &low_at, &low) ||
	    !read_bound(r, json_array_get(v, 1), &high_at, &high))
		return false;
	if (low > high)
		diag_error(r->d, place_at(r, at), "config-value", NULL, "the range %lld to %lld is empty",
		           (long long)low, (long long)high);
	return low <= size->value && size->value <= high;
}

/* Do all of an entry's sizes say so? `why`: they, for people. */
static bool entry_holds(const Reader *r, const Module *m, const json_t *when, const Path *path, Text *why) {
	const char *name;
	json_t *v;
	bool holds = json_is_object(when) || expected(r, path, "an object of ranges by the names of sizes", when);
	json_object_foreach((json_t *)(uintptr_t)when, name, v) {
		Path at = path_key(path, name);
		const NamedSize *size = size_asked(r, m, name, &at);
		holds = size && size_is(r, v, &at, size) && holds;
		if (size)
			text_printf(why, "%s%s = %lld", why->length ? ", " : "", name, (long long)size->value);
	}
	return holds;
}

/* Reads what is not in force: is it a configuration at all? */
static void read_aside(const Reader *r, Module *m, const json_t *config, const Path *at) {
	Config kept = m->config;
	config_init(m);
	m->config.gpu_keys_noted = true;
	config_read(r, m, config, at);
	m->config = kept;
}

void config_read_by_size(const Reader *r, Module *m, const json_t *list, const Path *path) {
	static const char *const known[] = {"when", "config", NULL};
	bool found = false;
	if (json_is_null(list) || !read_list(r, list, path, "a list of entries {\"when\": ..., \"config\": ...}"))
		return;
	for (size_t i = 0; i < json_array_size(list); i++) {
		Path at = path_index(path, i), when_at = path_key(&at, "when"), config_at = path_key(&at, "config");
		const json_t *entry = json_array_get(list, i);
		Text why;
		text_init(&why, m->arena);
		if (!read_object(r, entry, &at, "an entry of by_size", known))
			continue;
		const json_t *when = need(r, entry, "when", &at, "an entry of by_size");
		const json_t *config = need(r, entry, "config", &at, "an entry of by_size");
		bool holds = when && config && entry_holds(r, m, when, &when_at, &why) && !found;
		if (json_object_get(config, "by_size"))
			expected(r, &config_at, "a configuration without by_size", config);
		else if (config)
			(holds ? config_read : read_aside)(r, m, config, &config_at);
		if (holds)
			vec_push(m->arena, &m->by_size,
			         arena_printf(m->arena, "%s of %s is in force: %s", path_string(r, &at),
			                      r->source->name, why.length ? why.at : "whatever the sizes"));
		found = found || holds;
	}
}
