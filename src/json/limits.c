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

/* The next of them from *at on, its row or NULL, and *at behind it; false: that was all. */
static bool limit_next(const char **at, const LimitRow **row, int64_t *most) {
	*at += strspn(*at, blanks);
	if (!**at)
		return false;
	*row = limit_read(*at, most);
	*at += strcspn(*at, blanks);
	return true;
}

static const char *limits_said(void) {
	const char *said = getenv("PALLASC_LIMITS");
	return said ? said : "";
}

/* The last one that it gives this limit; else the row's own. */
static int64_t limit_most(Limit limit) {
	const LimitRow *row;
	int64_t most = rows[limit].most, value;
	for (const char *at = limits_said(); limit_next(&at, &row, &value);)
		most = row == &rows[limit] ? value : most;
	return most;
}

bool limits_known(const Reader *r) {
	const LimitRow *row;
	int64_t most;
	for (const char *at = limits_said(), *word = at; limit_next(&at, &row, &most); word = at) {
		if (row)
			continue;
		word += strspn(word, blanks);
		diag_error(r->d, (Place){0}, "limit", "NAME=NUMBER, of those that docs/graph-format.md lists",
		           "PALLASC_LIMITS says '%.*s'", (int)(at - word), word);
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
