/* load_named.c - named sizes: what stands in the document, and what is chosen over that. Each is a number before the
 * first expression is read, so that nothing behind the loader knows that it had a name. */
#include "loader.h"

#include <errno.h>
#include <stdlib.h>

/* ---- the document's ---------------------------------------------------------------------------------------------- */

/* A positive int, or {"fixed": INT}, as --emit=json writes it. */
static bool read_named(Loader *l, const json_t *v, const Path *path, NamedSize *out) {
	static const char *const known[] = {"fixed", NULL};
	Path at = path_key(path, "fixed");
	out->fixed = json_is_object(v);
	if (out->fixed &&
	    (!read_object(&l->r, v, path, "a size", known) || !(v = need(&l->r, v, "fixed", path, "a size"))))
		return false;
	const Path *here = out->fixed ? &at : path;
	if (!to_int(&l->r, v, here, "a positive int", &out->value))
		return false;
	if (out->value >= 1 && out->value <= NAMED_SIZE_MAX)
		return true;
	diag_error(l->r.d, place_at(&l->r, here), "size-value", NULL, "size %lld of '%s' is out of range: 1 to %d",
	           (long long)out->value, out->name, NAMED_SIZE_MAX);
	return false;
}

void load_named_sizes(Loader *l, const json_t *root, const Path *path) {
	json_t *object = json_object_get(root, "sizes"), *v;
	Path here = path_key(path, "sizes");
	const char *name;
	uint32_t errors = l->r.d->errors;
	if (object && !json_is_null(object) && !json_is_object(object))
		expected(&l->r, &here, "an object of sizes by name", object);
	json_object_foreach(object, name, v) {
		Path at = path_key(&here, name);
		NamedSize size = {.name = intern(l, name), .value = 1};
		if (!symbol_define(l, name, l->m->sizes.count | SYMBOL_SIZE, place_key(&l->r, &at)))
			continue;
		read_named(l, v, &at, &size);
		vec_push(l->r.arena, &l->m->sizes, size);
	}
	if (l->sizes && l->r.d->errors == errors)
		module_choose_sizes(l->m, l->r.d, l->sizes);
	l->sizes_unclear = l->r.d->errors != errors;
}

/* ---- what is chosen over that ------------------------------------------------------------------------------------ */

bool size_choice_read(const char *text, size_t *name_length, int64_t *value) {
	const char *equals = strchr(text, '=');
	char *end;
	if (!equals || equals == text || !is_digit(equals[1]))
		return false;
	errno = 0;
	*name_length = (size_t)(equals - text);
	*value = strtoll(equals + 1, &end, 10);
	return errno == 0 && *end == '\0' && *value >= 1 && *value <= NAMED_SIZE_MAX;
}

static NamedSize *size_named(const Module *m, const char *name) {
	for (uint32_t i = 0; i < m->sizes.count; i++)
		if (strcmp(m->sizes.at[i].name, name) == 0)
			return &m->sizes.at[i];
	return NULL;
}

/* "its sizes are S, D", nearest first if there is one. */
static const char *known_sizes(const Module *m, Diag *d, const char *name) {
	const char **names = arena_array(d->arena, (size_t)m->sizes.count + 1, sizeof *names);
	Text t;
	text_init(&t, d->arena);
	text_put(&t, m->sizes.count ? "its sizes are " : "a document names them under \"sizes\"");
	for (uint32_t i = 0; i < m->sizes.count; i++) {
		names[i] = m->sizes.at[i].name;
		text_printf(&t, "%s%s", i ? ", " : "", names[i]);
	}
	const char *near = name_nearest(name, names);
	return near ? arena_printf(d->arena, "did you mean '%s'? %s", near, t.at) : t.at;
}

static void choose_size(Module *m, Diag *d, const char *text) {
	size_t length;
	int64_t value;
	if (!size_choice_read(text, &length, &value)) {
		diag_error(d, (Place){0}, "size-value", NULL, "expected NAME=SIZE, a size from 1 to %d, found '%s'",
		           NAMED_SIZE_MAX, text);
		return;
	}
	const char *name = arena_printf(d->arena, "%.*s", (int)length, text);
	NamedSize *size = size_named(m, name);
	if (!size)
		diag_error(d, (Place){0}, "unknown-size", known_sizes(m, d, name),
		           m->sizes.count ? "the graph has no size '%s'"
		                          : "the graph names no sizes, and '%s' is given",
		           name);
	else if (size->fixed && size->value != value)
		diag_error(d, (Place){0}, "size-fixed", "give it to the graph that this one was made of",
		           "size '%s' is fixed: the graph was written for %lld, not for %lld", name,
		           (long long)size->value, (long long)value);
	else
		size->value = value;
}

bool module_choose_sizes(Module *m, Diag *d, const SizeChoices *sizes) {
	uint32_t errors = d->errors;
	for (uint32_t i = 0; i < sizes->count; i++)
		choose_size(m, d, sizes->at[i]);
	return d->errors == errors;
}

void module_note_sizes(const Module *m, Diag *d) {
	if (!m->sizes.count)
		return;
	Text t;
	text_init(&t, d->arena);
	for (uint32_t i = 0; i < m->sizes.count; i++)
		text_printf(&t, "%s%s = %lld", i ? ", " : "", m->sizes.at[i].name, (long long)m->sizes.at[i].value);
	diag_note(d, diag_place(d, m->source, "/sizes"), "sizes-read", NULL, "it was read with the sizes %s", t.at);
}
