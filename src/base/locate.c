/* locate.c - from a JSON pointer to a place in the text. The JSON parser keeps no positions; so the text is walked
 * again, but only when there is something to report. Anything malformed just ends the walk. */
#include "base.h"

#include <stdlib.h>

typedef struct Walk {
	const char *at, *end;
} Walk;

static void skip_space(Walk *w) {
	while (w->at < w->end && (*w->at == ' ' || *w->at == '\t' || *w->at == '\n' || *w->at == '\r'))
		w->at++;
}

static bool at_char(const Walk *w, char c) { return w->at < w->end && *w->at == c; }

static bool accept(Walk *w, char c) {
	skip_space(w);
	if (!at_char(w, c))
		return false;
	w->at++;
	return true;
}

static void skip_string(Walk *w) {
	for (w->at++; w->at < w->end && *w->at != '"'; w->at++)
		if (*w->at == '\\' && w->at + 1 < w->end)
			w->at++;
	if (w->at < w->end)
		w->at++;
}

/* Skips one value, counting brackets instead of recursing. */
static void skip_value(Walk *w) {
	size_t depth = 0;
	skip_space(w);
	while (w->at < w->end) {
		char c = *w->at;
		if (c == '"') {
			skip_string(w);
		} else if (c == '{' || c == '[') {
			depth++;
			w->at++;
		} else if (c == '}' || c == ']') {
			if (depth == 0)
				return;
			depth--;
			w->at++;
		} else if (depth == 0 && c == ',') {
			return;
		} else {
			w->at++;
			continue; /* inside a number or a word, or between values */
		}
		if (depth == 0)
			return;
	}
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

/* The bytes of a JSON string, one after the other: escapes decoded to UTF-8. */
typedef struct Unescape {
	const char *at, *end;
	char bytes[4];
	int count, next;
} Unescape;

static unsigned hex4(const char *s) {
	char digits[5] = {s[0], s[1], s[2], s[3], 0};
	return (unsigned)strtoul(digits, NULL, 16);
}

static void put_utf8(Unescape *u, unsigned c) {
	u->next = 0;
	if (c < 0x80) {
		u->bytes[0] = (char)c;
		u->count = 1;
	} else if (c < 0x800) {
		u->bytes[0] = (char)(0xc0 | c >> 6);
		u->bytes[1] = (char)(0x80 | (c & 0x3f));
		u->count = 2;
	} else if (c < 0x10000) {
		u->bytes[0] = (char)(0xe0 | c >> 12);
		u->bytes[1] = (char)(0x80 | (c >> 6 & 0x3f));
		u->bytes[2] = (char)(0x80 | (c & 0x3f));
		u->count = 3;
	} else {
		u->bytes[0] = (char)(0xf0 | c >> 18);
		u->bytes[1] = (char)(0x80 | (c >> 12 & 0x3f));
		u->bytes[2] = (char)(0x80 | (c >> 6 & 0x3f));
		u->bytes[3] = (char)(0x80 | (c & 0x3f));
		u->count = 4;
	}
}

static void unescape_unicode(Unescape *u) {
	unsigned c = u->end - u->at >= 4 ? hex4(u->at) : 0;
	u->at += u->end - u->at >= 4 ? 4 : u->end - u->at;
	if (c >= 0xd800 && c < 0xdc00 && u->end - u->at >= 6 && u->at[0] == '\\' && u->at[1] == 'u') {
		c = 0x10000 + ((c & 0x3ff) << 10) + (hex4(u->at + 2) & 0x3ff);
		u->at += 6;
	}
	put_utf8(u, c);
}

/* The next byte, or -1 at the closing quote. */
static int unescape_next(Unescape *u) {
	if (u->next < u->count)
		return (unsigned char)u->bytes[u->next++];
	if (u->at >= u->end || *u->at == '"')
		return -1;
	char c = *u->at++;
	if (c != '\\' || u->at >= u->end)
		return (unsigned char)c;
	switch (c = *u->at++) {
	case 'b': return '\b';
	case 'f': return '\f';
	case 'n': return '\n';
	case 'r': return '\r';
	case 't': return '\t';
	case 'u': unescape_unicode(u); return (unsigned char)u->bytes[u->next++];
	default: return (unsigned char)c;
	}
}

/* Is the string at `w` (its opening quote) the pointer token [token, stop)? In the token ~1 is / and ~0 is ~. */
static bool name_matches(const Walk *w, const char *token, const char *stop) {
	Unescape u = {.at = w->at + 1, .end = w->end};
	for (; token < stop; token++) {
		char c = *token;
		if (c == '~' && token + 1 < stop)
			c = *++token == '1' ? '/' : '~';
		if (unescape_next(&u) != (unsigned char)c)
			return false;
	}
	return unescape_next(&u) == -1;
}

/* ---- descending ------------------------------------------------------------------------------------------------- */

/* From the start of an object to its member's value; *name is where the name stands. */
static bool enter_object(Walk *w, const char *token, const char *stop, const char **name) {
	for (w->at++; skip_space(w), at_char(w, '"');) {
		bool found = name_matches(w, token, stop);
		*name = w->at;
		skip_string(w);
		if (!accept(w, ':'))
			return false;
		skip_space(w);
		if (found)
			return true;
		skip_value(w);
		if (!accept(w, ','))
			return false;
	}
	return false;
}

static bool enter_array(Walk *w, const char *token, const char *stop) {
	char *digits_end;
	unsigned long index = strtoul(token, &digits_end, 10);
	if (digits_end != stop || token == stop)
		return false;
	w->at++;
	skip_space(w);
	for (; index && !at_char(w, ']'); index--) {
		skip_value(w);
		if (!accept(w, ','))
			return false;
		skip_space(w);
	}
	return index == 0 && w->at < w->end && !at_char(w, ']');
}

bool diag_offset(const Source *source, const char *pointer, bool key, size_t *offset) {
	Walk w = {source->text, source->text + source->length};
	skip_space(&w);
	const char *here = w.at, *name = here;
	bool found = true;
	while (found && *pointer == '/') {
		const char *token = pointer + 1, *stop = token + strcspn(token, "/");
		found = at_char(&w, '{') ? enter_object(&w, token, stop, &name)
		                         : at_char(&w, '[') && enter_array(&w, token, stop);
		pointer = stop;
		if (found)
			here = key && *stop == '\0' && name > here ? name : w.at;
	}
	*offset = (size_t)(here - source->text);
	return found;
}

Place diag_place_offset(const Source *source, size_t offset) {
	Place at = {.source = source, .line = 1};
	const char *line = source->text, *here = line + (offset < source->length ? offset : source->length);
	for (const char *end; here > line && (end = memchr(line, '\n', (size_t)(here - line))); line = end + 1)
		at.line++;
	at.column = (int)(here - line) + 1;
	return at;
}

bool diag_locate(const Source *source, const char *pointer, int *line, int *column) {
	size_t offset;
	bool found = diag_offset(source, pointer, false, &offset);
	Place at = diag_place_offset(source, offset);
	*line = at.line;
	*column = at.column;
	return found;
}

const char *diag_string(Arena *a, const Source *source, const char *pointer, size_t max) {
	size_t offset;
	if (!diag_offset(source, pointer, false, &offset) || source->text[offset] != '"')
		return NULL;
	Unescape u = {.at = source->text + offset + 1, .end = source->text + source->length};
	Text t;
	text_init(&t, a);
	text_put(&t, "");
	for (int c; t.length < max && (c = unescape_next(&u)) >= 0;)
		text_putn(&t, &(char){(char)c}, 1);
	return t.at;
}
