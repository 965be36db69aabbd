/* diag_print.c - diagnostics as text for people and as JSON lines for programs. Whatever the document holds, the
 * terminal only ever gets printable characters: controls, bidirectional overrides and bytes that are no UTF-8 are
 * escaped, and long lines are cut around the column. */
#define _POSIX_C_SOURCE 200809L
#include "base.h"

#include <stdlib.h>

enum { LINE_WIDTH = 110, LINE_BEFORE = 70, MESSAGE_MAX = 600 };

/* ---- characters ------------------------------------------------------------------------------------------------- */

/* Printed as it is, in one column: most are. */
static bool is_plain(char c) { return c >= ' ' && c < 0x7f; }

/* Writes one character, escaped where it must be; returns its bytes and adds the columns it takes. */
static int put_char(FILE *out, const char *s, const char *end, int *columns) {
	uint32_t code;
	if (is_plain(*s)) {
		fputc(*s, out);
		*columns += 1;
		return 1;
	}
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

static size_t plain_length(const char *s, const char *end) {
	const char *at = s;
	while (at < end && is_plain(*at))
		at++;
	return (size_t)(at - s);
}

static void put_text(FILE *out, const char *s) {
	const char *end = s + strlen(s), *stop = end - s > MESSAGE_MAX ? s + MESSAGE_MAX + 1 : end;
	int columns = 0;
	for (const char *at = s; at < end;) {
		if (at >= stop) {
			fputs("...", out);
			break;
		}
		size_t plain = plain_length(at, stop);
		fwrite(at, 1, plain, out);
		at += plain;
		if (at < stop)
			at += put_char(out, at, end, &columns);
	}
}

/* ---- places ----------------------------------------------------------------------------------------------------- */

static Place resolve(const Place *x) {
	Place at = *x;
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

/* ---- the two forms ---------------------------------------------------------------------------------------------- */

static const char *severity_name(Severity s) {
	return s == SEVERITY_ERROR ? "error" : s == SEVERITY_WARNING ? "warning" : "note";
}

typedef struct TextForm {
	FILE *out;
	Arena *scratch;
	bool reads_code;
	const char *bold, *reset, *dim, *caret; /* empty without colours */
} TextForm;

static const char *tint(Severity s, bool color) {
	return !color ? "" : s == SEVERITY_ERROR ? "\033[1;31m" : s == SEVERITY_WARNING ? "\033[1;35m" : "\033[1;36m";
}

static void put_place(FILE *out, const Place *at) {
	put_text(out, at->source ? at->source->name : "pallasc");
	if (at->line > 0)
		fprintf(out, ":%d:%d", at->line, at->column);
}

/* The place in the program if that is known, else in the document. */
static void put_first_place(FILE *out, const Place *at, const Location *loc) {
	if (!loc->file) {
		put_place(out, at);
		return;
	}
	put_text(out, loc->file);
	if (loc->line > 0)
		fprintf(out, ":%lld", (long long)loc->line);
}

/* `   40 | m_new = torch.maximum(m_i, torch.amax(scores, -1))` */
static void put_code(const TextForm *f, const Location *loc) {
	if (!loc->code || !*loc->code)
		return;
	const char *end = loc->code + strlen(loc->code), *to = loc->code;
	if (loc->line > 0)
		fprintf(f->out, "%s%5lld |%s ", f->dim, (long long)loc->line, f->reset);
	else
		fprintf(f->out, "%s      |%s ", f->dim, f->reset);
	for (int columns = 0; to < end && columns < LINE_WIDTH;)
		to += put_char(f->out, to, end, &columns);
	fputs(to < end ? "...\n" : "\n", f->out);
}

/* `  --> graph.json:42:31: node 'm_new' (/graphs/0/nodes/7)`; the file and line only where they were not first. */
static void put_arrow(const TextForm *f, const Place *at, const Origin *from) {
	bool deep = at->pointer && *at->pointer && strchr(at->pointer + 1, '/');
	if (!from->loc.file && !deep)
		return;
	fprintf(f->out, "  %s-->%s ", f->dim, f->reset);
	if (from->loc.file) {
		put_place(f->out, at);
		fputs(": ", f->out);
	}
	if (from->node) {
		fputs("node '", f->out);
		put_text(f->out, from->node);
		fputs("' (", f->out);
	}
	put_text(f->out, at->pointer ? at->pointer : "");
	fputs(from->node ? ")\n" : "\n", f->out);
}

static bool same_line(const Location *a, const Location *b) {
	return a->file && b->file && a->line == b->line && strcmp(a->file, b->file) == 0;
}

/* `above`: the line that stands above already. */
static void print_related(const TextForm *f, const Related *r, const Location *above, const char *color) {
	Place at = resolve(&r->at);
	Origin from = origin_find(f->scratch, &r->at, f->reads_code);
	fputs(f->bold, f->out);
	put_first_place(f->out, &at, &from.loc);
	fprintf(f->out, ":%s %snote:%s ", f->reset, color, f->reset);
	put_text(f->out, r->message);
	if (from.loc.file) {
		fprintf(f->out, " %s(", f->dim);
		put_place(f->out, &at);
		fprintf(f->out, ")%s", f->reset);
	}
	fputc('\n', f->out);
	if (!same_line(above, &from.loc))
		put_code(f, &from.loc);
}

static void print_text(const Diagnostic *x, const TextForm *f, bool color) {
	FILE *out = f->out;
	Place at = resolve(&x->at);
	Origin from = origin_find(f->scratch, &x->at, f->reads_code);
	fputs(f->bold, out);
	put_first_place(out, &at, &from.loc);
	fprintf(out, ": %s%s:%s %s", tint(x->severity, color), severity_name(x->severity), f->reset, f->bold);
	put_text(out, x->message);
	fprintf(out, "%s [%s]\n", f->reset, x->code);
	if (from.loc.file)
		put_code(f, &from.loc);
	else if (at.source && at.source->text && at.line > 0)
		put_line(out, at, f->caret, f->reset);
	put_arrow(f, &at, &from);
	if (x->hint) {
		fputs("  hint: ", out);
		put_text(out, x->hint);
		fputc('\n', out);
	}
	for (uint32_t i = 0; i < x->related.count; i++)
		print_related(f, &x->related.at[i], &from.loc, tint(SEVERITY_NOTE, color));
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

/* The members that say where: the document, then what the place is of, if that is known. */
static void put_json_place(FILE *out, Arena *a, const Place *x) {
	Place at = resolve(x);
	fputs("\"file\": ", out);
	put_json(out, a, at.source ? at.source->name : NULL);
	fputs(", \"pointer\": ", out);
	put_json(out, a, x->pointer);
	put_json_int(out, "line", at.line);
	put_json_int(out, "column", at.column);
}

static void put_json_origin(FILE *out, Arena *a, const Place *at, bool reads_code) {
	Origin from = origin_find(a, at, reads_code);
	if (from.node) {
		fputs(", \"node\": ", out);
		put_json(out, a, from.node);
	}
	if (!from.loc.file)
		return;
	fputs(", \"loc\": {\"file\": ", out);
	put_json(out, a, from.loc.file);
	put_json_int(out, "line", from.loc.line > 0 && from.loc.line <= INT32_MAX ? (int)from.loc.line : 0);
	if (from.loc.code && *from.loc.code) {
		fputs(", \"code\": ", out);
		put_json(out, a, from.loc.code);
	}
	fputs("}", out);
}

static void print_json(const Diagnostic *x, Arena *a, bool reads_code, FILE *out) {
	fprintf(out, "{\"severity\": \"%s\", \"code\": ", severity_name(x->severity));
	put_json(out, a, x->code);
	fputs(", ", out);
	put_json_place(out, a, &x->at);
	fputs(", \"message\": ", out);
	put_json(out, a, x->message);
	fputs(", \"hint\": ", out);
	put_json(out, a, x->hint);
	put_json_origin(out, a, &x->at, reads_code);
	for (uint32_t i = 0; i < x->related.count; i++) {
		fputs(i ? ", {\"message\": " : ", \"related\": [{\"message\": ", out);
		put_json(out, a, x->related.at[i].message);
		fputs(", ", out);
		put_json_place(out, a, &x->related.at[i].at);
		put_json_origin(out, a, &x->related.at[i].at, reads_code);
		fputs("}", out);
	}
	fputs(x->related.count ? "]}\n" : "}\n", out);
}

static void print_one(const Diag *d, const Diagnostic *x, Arena *scratch, FILE *out, DiagFormat format, bool color) {
	const TextForm form = {.out = out,
	                       .scratch = scratch,
	                       .reads_code = d->reads_code,
	                       .bold = color ? "\033[1m" : "",
	                       .reset = color ? "\033[0m" : "",
	                       .dim = color ? "\033[1;34m" : "",
	                       .caret = color ? "\033[1;32m" : ""};
	if (format == DIAG_JSON)
		print_json(x, scratch, d->reads_code, out);
	else
		print_text(x, &form, color);
}

void diag_print(const Diag *d, FILE *out, DiagFormat format, bool color) {
	Arena scratch;
	arena_init(&scratch, d->arena->oom);
	for (uint32_t i = 0; i < d->list.count; i++)
		print_one(d, &d->list.at[i], &scratch, out, format, color);
	if (d->errors > DIAG_ERROR_LIMIT) {
		uint32_t more = d->errors - DIAG_ERROR_LIMIT;
		Diagnostic rest = {.severity = SEVERITY_NOTE,
		                   .code = "more-errors",
		                   .message = arena_printf(&scratch, "%u more error%s", more, more == 1 ? "" : "s")};
		print_one(d, &rest, &scratch, out, format, color);
	}
	arena_free(&scratch);
}
