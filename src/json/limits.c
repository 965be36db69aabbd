/* limits.c - limits.def as data, and what PALLASC_LIMITS says instead. */
#include "json.h"

#include <stdlib.h>

typedef struct LimitRow {
	const char *name;
	int64_t most;
	const char *what, *hint;
} LimitRow;

static const LimitRow rows[LIMIT_COUNT] = {
#define LIMIT(e, ...) [LIMIT_##e] = {__VA_ARGS__},
#include "limits.def"
#undef LIMIT
};

static const char blanks[] = " ,\t\n";

/* One NAME=NUMBER at `at`, into `most`; false: it is none. */
static bool limit_read(const char *at, int64_t *most) {
	size_t n = strcspn(at, "=");
	for (Limit i = 0; i < LIMIT_COUNT; i++) {
		if (strlen(rows[i].name) != n || strncmp(rows[i].name, at, n) != 0 || !is_digit(at[n + (at[n] == '=')]))
			continue;
		char *end;
		most[i] = strtoll(at + n + 1, &end, 10); /* the greatest where it is too large */
		return strchr(blanks, *end);             /* the end of the text counts */
	}
	return false;
}

Reader reader_of(Arena *a, Diag *d, const Source *source) {
	Reader r = {.arena = a, .d = d, .source = source};
	const char *at = getenv("PALLASC_LIMITS");
	for (Limit i = 0; i < LIMIT_COUNT; i++)
		r.most[i] = rows[i].most;
	for (; at && *(at += strspn(at, blanks)); at += strcspn(at, blanks))
		if (!limit_read(at, r.most) && !r.unknown)
			r.unknown = at;
	return r;
}

bool limits_known(const Reader *r) {
	if (r->unknown)
		diag_error(r->d, (Place){0}, "limit", "NAME=NUMBER, of those that docs/graph-format.md lists",
		           "PALLASC_LIMITS says '%.*s'", (int)strcspn(r->unknown, blanks), r->unknown);
	return !r->unknown;
}

bool limit_keeps(const Reader *r, Place at, Limit limit, uint64_t count) {
	const LimitRow *row = &rows[limit];
	int64_t most = r->most[limit];
	if (count <= (uint64_t)most)
		return true;
	diag_error(r->d, at, "limit",
	           arena_printf(r->arena, "%s, or set PALLASC_LIMITS=%s=%llu", row->hint, row->name,
	                        (unsigned long long)count),
	           "%llu %s: at most %lld are read", (unsigned long long)count, row->what, (long long)most);
	return false;
}
