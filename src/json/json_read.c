/* json_read.c - parsing a document, and typed access to it. */
#include "json.h"

#include <math.h>
#include <stdlib.h>

/* ---- places ----------------------------------------------------------------------------------------------------- */

static void path_put(const Reader *r, const Path *path, Text *out) {
	if (!path->up)
		return;
	path_put(r, path->up, out); /* as deep as the readers descend: bounded */
	if (path->key)
		text_printf(out, "/%s", diag_pointer_token(r->d, path->key));
	else
		text_printf(out, "/%zu", path->index);
}

const char *path_string(const Reader *r, const Path *path) {
	Text t;
	text_init(&t, r->arena);
	text_put(&t, "");
	path_put(r, path, &t);
	return t.at;
}

Place place_at(const Reader *r, const Path *path) {
	return (Place){.source = r->source, .pointer = path_string(r, path)};
}

Place place_key(const Reader *r, const Path *path) {
	Place at = place_at(r, path);
	at.at_key = true;
	return at;
}

/* ---- parsing ---------------------------------------------------------------------------------------------------- */

typedef struct SyntaxText {
	const char *code, *message, *hint;
} SyntaxText;

static SyntaxText syntax_text(JsonFault fault) {
	static const SyntaxText texts[] = {
		[JSON_FAULT_SYNTAX] = {"json-syntax", NULL, NULL},
		[JSON_FAULT_TRUNCATED] = {"json-truncated", "the document ends in the middle",
	                                  "is the file truncated?"},
		[JSON_FAULT_AFTER_END] = {"json-syntax", "text after the end of the document", NULL},
		[JSON_FAULT_DEPTH] = {"json-depth", "nested deeper than 2048 levels", NULL},
		[JSON_FAULT_UTF8] = {"json-utf8", "not valid UTF-8", "save the document as UTF-8"},
		[JSON_FAULT_NUL] = {"json-nul", "a string holds the character NUL (\\u0000)", NULL},
		[JSON_FAULT_DUPLICATE] = {"json-duplicate-key", "the object has this member twice", NULL},
		[JSON_FAULT_NUMBER] = {"json-number", "the number is too large",
	                               "ints have 64 bits, floats are doubles"},
	};
	return texts[fault];
}

/* What other languages have and JSON has not, where the parser gave up: `offset` moves to it. */
static void syntax_borrowed(const Source *s, size_t *offset, SyntaxText *t) {
	const char *at = s->text + *offset;
	size_t before = *offset;
	while (before > 0 && strchr(" \t\r\n", s->text[before - 1]))
		before--;
	if (strncmp(at, "//", 2) == 0 || strncmp(at, "/*", 2) == 0 || *at == '#') {
		t->message = "JSON has no comments";
		t->hint = "leave it out; a member whose name begins with x_ may hold any text";
	} else if (*at == '\'') {
		t->message = "JSON has its strings and names in double quotes";
	} else if ((*at == '}' || *at == ']') && before > 0 && s->text[before - 1] == ',') {
		t->message = *at == '}' ? "a comma behind the last member" : "a comma behind the last element";
		t->hint = "leave it out";
		*offset = before - 1;
	}
}

static void syntax_error(const Reader *r, const JsonError *e) {
	SyntaxText t = syntax_text(e->fault);
	size_t offset = e->offset;
	if (strcmp(t.code, "json-syntax") == 0 && !t.message)
		syntax_borrowed(r->source, &offset, &t);
	const char *at = r->source->text + offset;
	if (strncmp(at, "NaN", 3) == 0 || strncmp(at, "Infinity", 8) == 0 || strncmp(at, "-Infinity", 9) == 0 ||
	    strncmp(at, "nan", 3) == 0) {
		t.code = "json-number";
		t.message = "NaN and Infinity are not JSON";
		t.hint = "write {\"float\": \"nan\"}, {\"float\": \"inf\"} or {\"float\": \"-inf\"}; a size is an int";
	}
	Place place = diag_place_offset(r->source, offset);
	diag_error(r->d, place, t.code, t.hint, "%s", t.message ? t.message : e->text);
}

static bool is_blank(const Source *s) {
	for (size_t i = 0; i < s->length; i++)
		if (!strchr(" \t\r\n", s->text[i]))
			return false;
	return true;
}

_Noreturn static void out_of_memory(Arena *a) {
	if (a->oom)
		longjmp(*a->oom, 1);
	abort();
}

/* Of the text, or what is wrong with it: running out of memory is no such thing. */
static json_t *parsed(Arena *a, const char *text, size_t length, JsonError *e) {
	json_t *value = json_parse(a, text, length, e);
	if (!value && e->fault == JSON_FAULT_MEMORY)
		out_of_memory(a);
	return value;
}

json_t *json_of(Arena *a, const char *text, size_t length) {
	JsonError e;
	return parsed(a, text, length, &e);
}

json_t *json_read(const Reader *r) {
	const Source *s = r->source;
	JsonError e;
	if (!limits_known(r) || !limit_keeps(r, (Place){.source = s}, LIMIT_FILE, s->length))
		return NULL;
	if (s->length >= 3 && memcmp(s->text, "\xef\xbb\xbf", 3) == 0) {
		diag_error(r->d, diag_place_offset(s, 0), "json-syntax", "save it as UTF-8 without one",
		           "the document starts with a byte order mark");
		return NULL;
	}
	if (is_blank(s)) {
		diag_error(r->d, diag_place_offset(s, 0), "json-truncated", NULL, "the document is empty");
		return NULL;
	}
	json_t *root = parsed(r->arena, s->text, s->length, &e);
	if (!root)
		syntax_error(r, &e);
	return root;
}

static void release(Arena *a, json_t *root) {
	if (a->documents)
		arena_take(a, a->documents);
	else
		json_decref(root);
}

void json_guard(json_t *root, Arena *a, void (*body)(void *context, json_t *root), void *context) {
	jmp_buf here, *outer = a->oom;
	a->oom = &here;
	if (setjmp(here) == 0) {
		body(context, root);
		a->oom = outer;
		release(a, root);
	} else {
		a->oom = outer;
		release(a, root);
		out_of_memory(a);
	}
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

/* A short list or object as it stands, a long one by its kind. */
static const char *describe_nested(const Reader *r, const json_t *value) {
	char text[49] = "";
	const char *kind = json_is_array(value) ? "a list" : "an object";
	if (json_array_size(value) > 8 || json_object_size(value) > 4)
		return kind;
	size_t length = json_dumpb(value, text, sizeof text - 1, 0); /* jansson limits the depth; 0: it failed */
	return length > 0 && length < sizeof text ? arena_strdup(r->arena, text) : kind;
}

const char *json_describe(const Reader *r, const json_t *value) {
	Text t;
	text_init(&t, r->arena);
	switch (json_typeof(value)) {
	case JSON_OBJECT:
	case JSON_ARRAY: return describe_nested(r, value);
	case JSON_TRUE: return "true";
	case JSON_FALSE: return "false";
	case JSON_NULL: return "null";
	case JSON_INTEGER: text_printf(&t, "the int %lld", (long long)json_integer_value(value)); break;
	case JSON_REAL:
		text_put(&t, "the number ");
		text_put_double(&t, json_real_value(value));
		break;
	case JSON_STRING: text_printf(&t, "the string \"%.60s\"", json_string_value(value)); break;
	}
	return t.at;
}

bool expected(const Reader *r, const Path *path, const char *what, const json_t *found) {
	diag_error(r->d, place_at(r, path), "wrong-type", NULL, "expected %s, found %s", what, json_describe(r, found));
	return false;
}

const char *hint_nearest(const Reader *r, const char *word, const char *const *names) {
	const char *near = hints_wanted(r) ? name_nearest(word, names) : NULL;
	return near ? arena_printf(r->arena, "did you mean '%s'?", near) : NULL;
}

/* The index of `key`, looked for from `first` on, since members mostly come in the order of `known`; NONE. */
static uint32_t known_index(const char *key, const char *const *known, uint32_t first) {
	for (uint32_t i = first; known[i]; i++)
		if (known[i][0] == key[0] && strcmp(known[i], key) == 0)
			return i;
	for (uint32_t i = 0; i < first; i++)
		if (known[i][0] == key[0] && strcmp(known[i], key) == 0)
			return i;
	return NONE;
}

bool find_members(const json_t *value, const char *const *known, const json_t **found) {
	json_t *object = (json_t *)(uintptr_t)value;
	uint32_t next = 0;
	bool all = true;
	for (uint32_t i = 0; known[i]; i++)
		found[i] = NULL;
	for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
		uint32_t i = known_index(json_object_iter_key(at), known, next);
		all &= i != NONE;
		if (i != NONE) {
			found[i] = json_object_iter_value(at);
			next = i + 1;
		}
	}
	return all;
}

static void report_unknown(const Reader *r, const json_t *value, const Path *path, const char *what,
                           const char *const *known) {
	const char *key;
	json_t *member;
	json_object_foreach((json_t *)(uintptr_t)value, key, member) {
		if (known_index(key, known, 0) != NONE || strncmp(key, "x_", 2) == 0)
			continue;
		Path at = path_key(path, key);
		diag_error(r->d, place_key(r, &at), "unknown-field", hint_nearest(r, key, known),
		           "%s has no field '%s'", what, key);
	}
}

bool read_members(const Reader *r, const json_t *value, const Path *path, const char *what, const char *const *known,
                  const json_t **found) {
	if (!find_members(value, known, found))
		report_unknown(r, value, path, what, known);
	return json_is_object(value) || expected(r, path, arena_printf(r->arena, "%s (an object)", what), value);
}

bool read_object(const Reader *r, const json_t *value, const Path *path, const char *what, const char *const *known) {
	if (!json_is_object(value))
		return expected(r, path, arena_printf(r->arena, "%s (an object)", what), value);
	report_unknown(r, value, path, what, known);
	return true;
}

bool read_list(const Reader *r, const json_t *value, const Path *path, const char *what) {
	return json_is_array(value) || expected(r, path, what, value);
}

const json_t *needed(const Reader *r, const json_t *value, const char *key, const Path *path, const char *what) {
	if (!value)
		diag_error(r->d, place_at(r, path), "missing-field", NULL, "%s lacks the field '%s'", what, key);
	return value;
}

json_t *need(const Reader *r, const json_t *object, const char *key, const Path *path, const char *what) {
	json_t *value = json_object_get(object, key);
	needed(r, value, key, path, what);
	return value;
}

/* NULL where there is nothing to take. */
static const json_t *take(const Reader *r, const json_t *value, const char *key, const Path *path, bool required) {
	if (!value && required)
		diag_error(r->d, place_at(r, path), "missing-field", NULL, "the field '%s' is missing", key);
	return !required && json_is_null(value) ? NULL : value;
}

/* Shorter ones are within any limit, which costs to ask for. */
enum { STRING_SHORT = 4096 };

bool take_string(const Reader *r, const json_t *value, const char *key, const Path *path, bool required,
                 const char **out) {
	Path at = path_key(path, key);
	if (!(value = take(r, value, key, path, required)))
		return false;
	if (!json_is_string(value))
		return expected(r, &at, "a string", value);
	if (json_string_length(value) > STRING_SHORT &&
	    !limit_keeps(r, place_at(r, &at), LIMIT_STRING, json_string_length(value)))
		return false;
	*out = json_string_value(value);
	return true;
}

bool get_string(const Reader *r, const json_t *object, const char *key, const Path *path, bool required,
                const char **out) {
	return take_string(r, json_object_get(object, key), key, path, required, out);
}

bool to_int(const Reader *r, const json_t *value, const Path *path, const char *what, int64_t *out) {
	if (!json_is_integer(value))
		return expected(r, path, what, value);
	*out = json_integer_value(value);
	return true;
}

bool take_int(const Reader *r, const json_t *value, const char *key, const Path *path, bool required, int64_t *out) {
	Path at = path_key(path, key);
	value = take(r, value, key, path, required);
	return value && to_int(r, value, &at, "an int", out);
}

bool get_int(const Reader *r, const json_t *object, const char *key, const Path *path, bool required, int64_t *out) {
	return take_int(r, json_object_get(object, key), key, path, required, out);
}

bool take_bool(const Reader *r, const json_t *value, const char *key, const Path *path, bool *out) {
	Path at = path_key(path, key);
	if (!(value = take(r, value, key, path, false)))
		return false;
	if (!json_is_boolean(value))
		return expected(r, &at, "true or false", value);
	*out = json_is_true(value);
	return true;
}

bool get_bool(const Reader *r, const json_t *object, const char *key, const Path *path, bool *out) {
	return take_bool(r, json_object_get(object, key), key, path, out);
}
