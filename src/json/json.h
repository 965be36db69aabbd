/* json.h - typed access to a parsed document, with a located diagnostic for everything that is not as expected.
 * Internal to the readers: load*.c, config.c, target.c. */
#ifndef PALLASC_JSON_H
#define PALLASC_JSON_H

#include "src/base/base.h"
#include <jansson.h>

/* Where a value stands, as links on the stack: made a JSON pointer only when there is something to report. */
typedef struct Path {
	const struct Path *up; /* NULL: the document itself */
	const char *key;       /* NULL: an array element */
	size_t index;
} Path;

/* limits.c: what a document may have at most. */
typedef enum Limit {
#define LIMIT(e, ...) LIMIT_##e,
#include "limits.def"
#undef LIMIT
	LIMIT_COUNT
} Limit;

typedef struct Reader {
	Arena *arena;
	Diag *d;
	const Source *source;
	int64_t most[LIMIT_COUNT]; /* of each, as the environment had it when the reader was made */
	const char *unknown;       /* what it says of limits and is none; NULL */
} Reader;

Reader reader_of(Arena *a, Diag *d, const Source *source);
static inline Path path_key(const Path *up, const char *key) { return (Path){.up = up, .key = key}; }
static inline Path path_index(const Path *up, size_t index) { return (Path){.up = up, .index = index}; }
const char *path_string(const Reader *r, const Path *path);
/* Of the value; of the name of the member that `path` ends with. */
Place place_at(const Reader *r, const Path *path);
Place place_key(const Reader *r, const Path *path);

/* No more than that; else false after a diagnostic. */
bool limit_keeps(const Reader *r, Place at, Limit limit, uint64_t count);
/* Is what the environment says of limits understood? Else false after a diagnostic. */
bool limits_known(const Reader *r);

/* ---- parsing ----------------------------------------------------------------------------------------------------- */

typedef enum JsonFault {
	JSON_FAULT_SYNTAX, /* the text of the JsonError says what */
	JSON_FAULT_TRUNCATED,
	JSON_FAULT_AFTER_END,
	JSON_FAULT_DEPTH,
	JSON_FAULT_UTF8,
	JSON_FAULT_NUL,
	JSON_FAULT_DUPLICATE,
	JSON_FAULT_NUMBER,
	JSON_FAULT_MEMORY
} JsonFault;

typedef struct JsonError {
	JsonFault fault;
	size_t offset; /* of the token that is wrong */
	char text[96];
} JsonError;

/* The value of `length` bytes of JSON; NULL, and what is wrong. Only room for its tokens is taken from the arena,
 * before there is a value that running out of memory could leave behind, and given back. */
json_t *json_parse(Arena *a, const char *text, size_t length, JsonError *error);
/* The same; NULL: it is no JSON. */
json_t *json_of(Arena *a, const char *text, size_t length);
/* Parses the text; NULL after a diagnostic. The caller owns the reference. */
json_t *json_read(const Reader *r);
/* Calls body(context) and releases `root` whether it returns or runs out of memory. */
void json_guard(json_t *root, Arena *a, void (*body)(void *context, json_t *root), void *context);

/* "the string \"abc\"", "the number 1.5", "a list": for "expected ..., found ...". */
const char *json_describe(const Reader *r, const json_t *value);
/* "expected X, found Y" at path. Returns false. */
bool expected(const Reader *r, const Path *path, const char *what, const json_t *found);
/* False once there are more errors than will be shown: a search for the nearest name costs, and nobody sees it. */
static inline bool hints_wanted(const Reader *r) { return r->d->errors < DIAG_ERROR_LIMIT; }
/* "did you mean 'x'?", or NULL. */
const char *hint_nearest(const Reader *r, const char *word, const char *const *names);

/* Is it an object, with no members but `known` (NULL-terminated) and those that start with "x_"? Unknown members are
 * reported, and do not make it false. */
bool read_object(const Reader *r, const json_t *value, const Path *path, const char *what, const char *const *known);
/* The same, and its members: found[i] is the one called known[i], or NULL. One walk instead of a look-up for each. */
bool read_members(const Reader *r, const json_t *value, const Path *path, const char *what, const char *const *known,
                  const json_t **found);
/* The members alone, with nothing said; true if all of them are among `known`. */
bool find_members(const json_t *value, const char *const *known, const json_t **found);
bool read_list(const Reader *r, const json_t *value, const Path *path, const char *what);
/* A member that must be there; NULL after a diagnostic. */
json_t *need(const Reader *r, const json_t *object, const char *key, const Path *path, const char *what);
/* The same for a member that was looked up already: `value`, which may be NULL. */
const json_t *needed(const Reader *r, const json_t *value, const char *key, const Path *path, const char *what);
/* A member of the given type. Missing or null: false without a diagnostic unless `required`. */
bool get_string(const Reader *r, const json_t *object, const char *key, const Path *path, bool required,
                const char **out);
bool get_int(const Reader *r, const json_t *object, const char *key, const Path *path, bool required, int64_t *out);
bool get_bool(const Reader *r, const json_t *object, const char *key, const Path *path, bool *out);
/* The same for a member that was looked up already. */
bool take_string(const Reader *r, const json_t *value, const char *key, const Path *path, bool required,
                 const char **out);
bool take_int(const Reader *r, const json_t *value, const char *key, const Path *path, bool required, int64_t *out);
bool take_bool(const Reader *r, const json_t *value, const char *key, const Path *path, bool *out);
/* A value that must be an int (1.0 and true are not). */
bool to_int(const Reader *r, const json_t *value, const Path *path, const char *what, int64_t *out);

#endif
