/* diag_print.c - diagnostics as text for people and as JSON lines for programs. Whatever the document holds, the
 * terminal only ever gets printable characters: controls, bidirectional overrides and bytes that are no UTF-8 are
 * escaped, and long lines are cut around the column. */
#define _POSIX_C_SOURCE 200809L
#include "base.h"

#include <stdlib.h>

enum { LINE_WIDTH = 110, LINE_BEFORE = 70, MESSAGE_MAX = 600 };

/* ---- characters ------------------------------------------------------------------------------------------------- */

/* Writes one character, escaped where it must be; returns its bytes and adds the columns it takes. */
static int put_char(FILE *out, const char *s, const char *end, int *columns) {
	uint32_t code;
	int n = utf8_decode(s, end, &code);
	if (n == 0) {
		*columns += fprintf(out, "\\x%02x", (unsigned)(unsigned char)*s);
		return 1;
	}
	if (code == '\t') {
		fputc(' ', out);
		*columns += 1;
	} else if (code == '\n') {
		*columns += fprintf(out, "\\n");
	} else if (utf8_unprintable(code)) {
		*columns += fprintf(out, code < 0x100 ? "\\x%02x" : "\\u%04x", code);
	} else {
		fwrite(s, 1, (size_t)n, out);
		*columns += 1;
	}
	return n;
}

static void put_text(FILE *out, const char *s) {
	const char *end = s + strlen(s);
	int columns = 0;
	for (const char *at = s; at < end;) {
		if (at - s > MESSAGE_MAX) {
			fputs("...", out);
			break;
		}
		at += put_char(out, at, end, &columns);
	}
}

/* ---- places ----------------------------------------------------------------------------------------------------- */

static Place resolve(const Diagnostic *x) {
	Place at = {.source = x->source, .pointer = x->pointer, .line = x->line, .column = x->column};
	if (x->source && x->pointer && x->source->text) {
		size_t offset;
		diag_offset(x->source, x->pointer, x->at_key, &offset);
		at = diag_place_offset(x->source, offset);
		at.pointer = x->pointer;
	}
	return at;
}

static void line_find(const Source *source, int line, const char **start, const char **end) {
	const char *stop = source->text + source->length, *at = source->text;
	for (; line > 1 && at < stop; line--) {
		const char *next = memchr(at, '\n', (size_t)(stop - at));
		at = next ? next + 1 : stop;
	}
	*start = at;
	const char *next = at < stop ? memchr(at, '\n', (size_t)(stop - at)) : NULL;
	*end = next ? next : stop;
	if (*end > at && (*end)[-1] == '\r')
		--*end;
}

static bool inside_character(const char *s) { return ((unsigned char)*s & 0xc0) == 0x80; }

/* The offending line, or the part of it around the column, and a caret below. */
static void put_line(FILE *out, Place at, const char *caret_colour, const char *reset) {
	const char *start, *end;
	line_find(at.source, at.line, &start, &end);
	if (start == end)
		return;
	const char *caret = end - start >= at.column ? start + at.column - 1 : end;
	const char *from = caret - start > LINE_BEFORE ? caret - LINE_BEFORE : start;
	const char *to = end - from > LINE_WIDTH ? from + LINE_WIDTH : end;
	while (from > start && from < caret && inside_character(from))
		from++;
	while (to < end && inside_character(to))
		to++;
	int columns = from > start ? fprintf(out, "    ...") : fprintf(out, "    ");
	int caret_column = columns;
	for (const char *s = from; s < to;) {
		if (s <= caret)
			caret_column = columns;
		s += put_char(out, s, end, &columns);
	}
	if (caret >= to)
		caret_column = columns;
	fprintf(out, "%s\n%*s%s^%s\n", to < end ? "..." : "", caret_column, "", caret_colour, reset);
}

/* ---- the program that a node is from ----------------------------------------------------------------------------- */

/* `loc` of the node that a diagnostic points into, as the document has it; of one about that itself there is none. */
typedef struct Origin {
	const char *file; /* as it is written in JSON, `length` bytes between quotes; NULL: there is none */
	size_t length;
	long line; /* 0: none */
} Origin;

static const char *member(const Source *source, const char *node, size_t length, const char *name) {
	char pointer[128];
	size_t offset;
	int n = snprintf(pointer, sizeof pointer, "%.*s/loc/%s", (int)length, node, name);
	if (n < 0 || (size_t)n >= sizeof pointer || !diag_offset(source, pointer, false, &offset))
		return NULL;
	return source->text + offset;
}

static Origin origin_find(const Diagnostic *x) {
	static const char nodes[] = "/nodes/";
	const char *found = x->pointer && x->source && x->source->text ? strstr(x->pointer, nodes) : NULL;
	if (!found)
		return (Origin){0};
	const char *index = found + sizeof nodes - 1;
	size_t length = (size_t)(index - x->pointer) + strspn(index, "0123456789");
	const char *file = member(x->source, x->pointer, length, "file");
	const char *line = member(x->source, x->pointer, length, "line");
	if (!file || *file++ != '"' || strncmp(x->pointer + length, "/loc", 4) == 0)
		return (Origin){0};
	return (Origin){file, strcspn(file, "\"\\"), line ? strtol(line, NULL, 10) : 0};
}

/* ---- the two forms ---------------------------------------------------------------------------------------------- */

static const char *severity_name(Severity s) {
	return s == SEVERITY_ERROR ? "error" : s == SEVERITY_WARNING ? "warning" : "note";
}

static void put_origin(const Diagnostic *x, FILE *out) {
	Origin from = origin_find(x);
	if (!from.file)
		return;
	fputs("  from: ", out);
	int columns = 0;
	const char *end = from.file + from.length;
	for (const char *at = from.file; at < end && at - from.file < MESSAGE_MAX;)
		at += put_char(out, at, end, &columns);
	fprintf(out, from.line > 0 ? ":%ld\n" : "\n", from.line);
}

static void print_text(const Diagnostic *x, FILE *out, bool color) {
	const char *tint = x->severity == SEVERITY_ERROR     ? "\033[1;31m"
	                   : x->severity == SEVERITY_WARNING ? "\033[1;35m"
	                                                     : "\033[1;36m";
	const char *bold = color ? "\033[1m" : "", *reset = color ? "\033[0m" : "";
	Place at = resolve(x);
	fputs(bold, out);
	put_text(out, at.source ? at.source->name : "pallasc");
	if (at.line > 0)
		fprintf(out, ":%d:%d", at.line, at.column);
	fprintf(out, ": %s%s:%s %s", color ? tint : "", severity_name(x->severity), reset, bold);
	put_text(out, x->message);
	fprintf(out, "%s [%s]\n", reset, x->code);
	if (at.source && at.source->text && at.line > 0)
		put_line(out, at, color ? "\033[1;32m" : "", reset);
	put_origin(x, out);
	if (x->hint) {
		fputs("  hint: ", out);
		put_text(out, x->hint);
		fputc('\n', out);
	}
}

/* A JSON string or null. */
static void put_json(FILE *out, Arena *a, const char *s) {
	Text t;
	text_init(&t, a);
	if (s)
		text_put_json(&t, s);
	fputs(s ? t.at : "null", out);
}

static void put_json_int(FILE *out, const char *name, int value) {
	if (value > 0)
		fprintf(out, ", \"%s\": %d", name, value);
	else
		fprintf(out, ", \"%s\": null", name);
}

static void print_json(const Diagnostic *x, Arena *a, FILE *out) {
	Place at = resolve(x);
	fprintf(out, "{\"severity\": \"%s\", \"code\": ", severity_name(x->severity));
	put_json(out, a, x->code);
	fputs(", \"file\": ", out);
	put_json(out, a, at.source ? at.source->name : NULL);
	fputs(", \"pointer\": ", out);
	put_json(out, a, x->pointer);
	put_json_int(out, "line", at.line);
	put_json_int(out, "column", at.column);
	fputs(", \"message\": ", out);
	put_json(out, a, x->message);
	fputs(", \"hint\": ", out);
	put_json(out, a, x->hint);
	Origin from = origin_find(x);
	if (from.file) {
		fputs(", \"loc\": {\"file\": ", out);
		put_json(out, a, arena_printf(a, "%.*s", (int)from.length, from.file));
		put_json_int(out, "line", from.line > 0 && from.line <= INT32_MAX ? (int)from.line : 0);
		fputs("}", out);
	}
	fputs("}\n", out);
}

void diag_print(const Diag *d, FILE *out, DiagFormat format, bool color) {
	for (uint32_t i = 0; i < d->list.count; i++) {
		if (format == DIAG_JSON)
			print_json(&d->list.at[i], d->arena, out);
		else
			print_text(&d->list.at[i], out, color);
	}
	if (d->errors <= DIAG_ERROR_LIMIT)
		return;
	Arena scratch;
	arena_init(&scratch, d->arena->oom);
	uint32_t more = d->errors - DIAG_ERROR_LIMIT;
	Diagnostic rest = {.severity = SEVERITY_NOTE,
	                   .code = "more-errors",
	                   .message = arena_printf(&scratch, "%u more error%s", more, more == 1 ? "" : "s")};
	if (format == DIAG_JSON)
		print_json(&rest, &scratch, out);
	else
		print_text(&rest, out, color);
	arena_free(&scratch);
}
