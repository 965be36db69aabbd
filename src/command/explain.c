/* explain.c - `pallasc explain CODE`. The pages are those of docs/diagnostics.md, which the Makefile makes a string:
 * each code has a row `| [`CODE`](#CODE) | SUMMARY |` of its table, and a section `## CODE`. */
#include "explain.h"

extern const char page_explain[]; /* docs/diagnostics.md, by the Makefile */

static const char row_start[] = "| [`";

/* The next row of the table behind `at`, and its code; NULL. */
static const char *row_next(Arena *a, const char *at, const char **code) {
	at = strstr(at, row_start);
	if (!at)
		return NULL;
	at += sizeof row_start - 1;
	*code = arena_printf(a, "%.*s", (int)strcspn(at, "`"), at);
	return at;
}

static void put_list(Arena *a, Text *out) {
	const char *code;
	for (const char *at = page_explain; (at = row_next(a, at, &code)) != NULL;) {
		const char *summary = strstr(at, ") | ") + 4;
		text_printf(out, "%-22s %.*s\n", code, (int)(strcspn(summary, "\n") - 2), summary);
	}
	text_put(out, "\nMore of one: pallasc explain CODE\n");
}

/* Without the marks of a block that is code. */
static void put_section(Text *out, const char *at) {
	const char *end = strstr(at, "\n## ");
	end = end ? end : at + strlen(at);
	while (at < end) {
		size_t n = strcspn(at, "\n") + 1;
		if (strncmp(at, "```", 3) != 0)
			text_putn(out, at, n);
		at += n;
	}
}

static const char *unknown(Arena *a, const char *word) {
	VEC(const char *) codes = {0};
	const char *code;
	for (const char *at = page_explain; (at = row_next(a, at, &code)) != NULL;)
		vec_push(a, &codes, code);
	vec_push(a, &codes, NULL);
	const char *near = name_nearest(word, codes.at);
	for (uint32_t i = 0; !near && *word && codes.at[i]; i++)
		near = strstr(codes.at[i], word) ? codes.at[i] : NULL;
	return near ? arena_printf(a, "there is no code '%s'; did you mean '%s'?", word, near)
	            : arena_printf(a, "there is no code '%s': pallasc explain lists them", word);
}

/* As a message has it, in brackets, too. */
static const char *bare(Arena *a, const char *code) {
	size_t n = strlen(code);
	return n > 2 && *code == '[' && code[n - 1] == ']' ? arena_printf(a, "%.*s", (int)n - 2, code + 1) : code;
}

const char *explain_put(Arena *a, const char *code, Text *out) {
	if (!code) {
		put_list(a, out);
		return NULL;
	}
	const char *name = bare(a, code);
	const char *at = strchr(name, '\n') ? NULL : strstr(page_explain, arena_printf(a, "\n## %s\n", name));
	if (!at)
		return unknown(a, name);
	text_printf(out, "%s\n", name);
	put_section(out, at + strlen(name) + 5);
	return NULL;
}
