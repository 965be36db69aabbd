/* text.c - strings under construction. */
#define _POSIX_C_SOURCE 200809L
#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <locale.h>

void text_init(Text *t, Arena *a) { *t = (Text){.arena = a}; }

static void text_room(Text *t, size_t extra) {
	if (t->room - t->length > extra)
		return;
	size_t room = t->room ? t->room * 2 : 256;
	while (room - t->length <= extra)
		room *= 2;
	char *grown = arena_alloc(t->arena, room);
	if (t->length)
		memcpy(grown, t->at, t->length);
	t->at = grown;
	t->room = room;
}

void text_putn(Text *t, const char *s, size_t n) {
	text_room(t, n);
	if (n)
		memcpy(t->at + t->length, s, n);
	t->length += n;
	t->at[t->length] = '\0';
}

void text_put(Text *t, const char *s) { text_putn(t, s, strlen(s)); }

/* vsnprintf that cannot fail: an encoding error (impossible for the formats used here) gives an empty string. */
static size_t format_length(const char *fmt, va_list ap) {
	va_list copy;
	va_copy(copy, ap);
	int n = vsnprintf(NULL, 0, fmt, copy);
	va_end(copy);
	return n < 0 ? 0 : (size_t)n;
}

static void text_vprintf(Text *t, const char *fmt, va_list ap) {
	size_t n = format_length(fmt, ap);
	text_room(t, n);
	if (n)
		vsnprintf(t->at + t->length, n + 1, fmt, ap);
	t->length += n;
	t->at[t->length] = '\0';
}

void text_printf(Text *t, const char *fmt, ...) {
	va_list ap;
	va_start(ap, fmt);
	text_vprintf(t, fmt, ap);
	va_end(ap);
}

char *arena_vprintf(Arena *a, const char *fmt, va_list ap) {
	size_t n = format_length(fmt, ap);
	char *s = arena_alloc(a, n + 1);
	if (n)
		vsnprintf(s, n + 1, fmt, ap);
	return s;
}

char *arena_printf(Arena *a, const char *fmt, ...) {
	va_list ap;
	va_start(ap, fmt);
	char *s = arena_vprintf(a, fmt, ap);
	va_end(ap);
	return s;
}

void text_put_double(Text *t, double value) {
	char buffer[40];
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(buffer, sizeof buffer, "%.*g", digits, value);
		if (strtod(buffer, NULL) == value)
			break;
	}
	const char *point = localeconv()->decimal_point;
	char *at = strstr(buffer, point);
	if (at && strcmp(point, ".") != 0) { /* a point of several bytes shrinks to one */
		*at = '.';
		memmove(at + 1, at + strlen(point), strlen(at + strlen(point)) + 1);
	}
	text_put(t, buffer);
	if (!strpbrk(buffer, ".e"))
		text_put(t, ".0");
}

void text_put_json(Text *t, const char *s) {
	text_put(t, "\"");
	for (const char *run = s;; s++) {
		unsigned char c = (unsigned char)*s;
		if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f)
			continue;
		text_putn(t, run, (size_t)(s - run));
		run = s + 1;
		if (c == '\0')
			break;
		if (c == '"' || c == '\\')
			text_printf(t, "\\%c", c);
		else if (c == '\n')
			text_put(t, "\\n");
		else
			text_printf(t, "\\u%04x", c);
	}
	text_put(t, "\"");
}
