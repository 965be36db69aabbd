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

/* One NAME=NUMBER at `at`: its row, or NULL. */
static const LimitRow *limit_read(const char *at, int64_t *most) {
	size_t n = strcspn(at, "=");
	char *end;
	for (const LimitRow *row = rows; row < rows + LIMIT_COUNT; row++) {
		if (strlen(row->name) != n || strncmp(row->name, at, n) != 0 || !is_digit(at[n + (at[n] == '=')]))
			continue;
		long long value = strtoll(at + n + 1, &end, 10); /* the greatest where it is too large */
		*most = value;
		return strchr(blanks, *end) ? row : NULL; /* the end of the text counts */
	}
	return NULL;
}

/* The last one that it gives this limit; else the row's own. */
static int64_t limit_most(Limit limit) {
	const char *at = getenv("PALLASC_LIMITS");
	int64_t most = rows[limit].most, value;
	for (at = at ? at : ""; *(at += strspn(at, blanks)); at += strcspn(at, blanks))
		if (limit_read(at, &value) == &rows[limit])
			most = value;
	return most;
}

bool limits_known(const Reader *r) {
	const char *at = getenv("PALLASC_LIMITS");
	int64_t most;
	for (at = at ? at : ""; *(at += strspn(at, blanks)); at += strcspn(at, blanks)) {
		if (limit_read(at, &most))
			continue;
		diag_error(r->d, (Place){0}, "limit", "NAME=NUMBER, of those that docs/graph-format.md lists",
		           "PALLASC_LIMITS says '%.*s'", (int)strcspn(at, blanks), at);
		return false;
	}
	return true;
}

bool limit_keeps(const Reader *r, Place at, Limit limit, uint64_t count) {
	const LimitRow *row = &rows[limit];
	int64_t most = limit_most(limit);
	if (count <= (uint64_t)most)
		return true;
	diag_error(r->d, at, "limit",
	           arena_printf(r->arena, "%s, or set PALLASC_LIMITS=%s=%llu", row->hint, row->name,
	                        (unsigned long long)count),
	           "%llu %s: at most %lld are read", (unsigned long long)count, row->what, (long long)most);
	return false;
}
