/* text.c - strings under construction. */
#define _POSIX_C_SOURCE 200809L
#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <locale.h>

void text_init(Text *t, Arena *a) { *t = (Text){.arena = a}; }

void text_grow(Text *t, size_t extra) {
	size_t room = t->room ? t->room * 2 : 256;
	while (room - t->length <= extra)
		room *= 2;
	char *grown = arena_raw(t->arena, room);
	if (t->length)
		memcpy(grown, t->at, t->length);
	t->at = grown;
	t->room = room;
}

static inline void text_room(Text *t, size_t extra) {
	if (t->room - t->length <= extra)
		text_grow(t, extra);
}

static void put_decimal(Text *t, bool negative, unsigned long long value) {
	size_t length = negative ? 2 : 1;
	for (unsigned long long rest = value; rest >= 10; rest /= 10)
		length++;
	char *at = text_more(t, length) + length;
	do
		*--at = (char)('0' + value % 10);
	while ((value /= 10) != 0);
	if (negative)
		*--at = '-';
}

static void put_signed(Text *t, long long value) {
	put_decimal(t, value < 0, value < 0 ? 0ull - (unsigned long long)value : (unsigned long long)value);
}

void text_put_int(Text *t, int64_t value) { put_signed(t, value); }

/* %.*s: so many bytes at most, or all of them if the number is negative. */
static void put_part(Text *t, va_list *ap) {
	int most = va_arg(*ap, int);
	const char *s = va_arg(*ap, const char *);
	text_putn(t, s, most < 0 ? strlen(s) : strnlen(s, (size_t)most));
}

/* %.0f of a whole number, but for one that is too large; false for others. */
static bool put_whole(Text *t, double value) {
	if (!(value >= 1 && value < 1e18 && value == (double)(long long)value))
		return false;
	put_signed(t, (long long)value);
	return true;
}

/* digits / 10^decimals; with no decimals, without a point. */
static void put_point(Text *t, bool negative, uint64_t digits, int decimals) {
	uint64_t unit = 1;
	for (int i = 0; i < decimals; i++)
		unit *= 10;
	put_decimal(t, negative, digits / unit);
	if (decimals > 0)
		text_put(t, ".");
	for (uint64_t rest = digits % unit; unit > 1; rest %= unit) {
		unit /= 10;
		*text_more(t, 1) = (char)('0' + rest / unit);
	}
}

/* %.3g of a number that it writes without an exponent, and of which it keeps 1 to 9 digits. False for others, and for
 * one so close to the middle of two such texts that only more digits than a double has can tell. */
static bool put_rounded(Text *t, int digits, double value) {
	double power = 1, least = 1, size = value < 0 ? -value : value;
	int decimals = 0;
	for (int i = 1; i < digits; i++)
		least *= 10;
	if (!(size >= 1e-4 && size < least * 10 - 1))
		return false;
	for (; size * power < least; power *= 10)
		decimals++;
	double scaled = size * power;
	uint64_t whole = (uint64_t)scaled;
	double rest = scaled - (double)whole;
	if (rest > 0.499999 && rest < 0.500001)
		return false;
	whole += rest > 0.5;
	for (; decimals > 0 && whole % 10 == 0; decimals--)
		whole /= 10;
	put_point(t, value < 0, whole, decimals);
	return true;
}

/* Whatever the locale has between a number's digits becomes a point; one of several bytes shrinks to one. */
static void point_plain(char *number) {
	const char *point = localeconv()->decimal_point;
	char *at = strcmp(point, ".") != 0 ? strstr(number, point) : NULL;
	if (!at)
		return;
	*at = '.';
	memmove(at + 1, at + strlen(point), strlen(at + strlen(point)) + 1);
}

/* Of a double: %f, %g or %e with flags, a width and a precision that stand in the format. NULL: it is none. */
static const char *put_real(Text *t, const char *at, va_list *ap) {
	enum { FORMAT_MOST = 12, NUMBER_MOST = 400 }; /* the greatest double has 309 digits before its point */
	char format[FORMAT_MOST + 2], number[NUMBER_MOST];
	size_t n = strspn(at, "+- 0123456789.");
	if (n >= FORMAT_MOST || !at[n] || !strchr("feg", at[n]))
		return NULL;
	double value = va_arg(*ap, double);
	if (n == 2 && at[0] == '.' && at[1] == '0' && at[2] == 'f' && put_whole(t, value))
		return at + 3;
	if (n == 2 && at[0] == '.' && at[1] > '0' && at[2] == 'g' && put_rounded(t, at[1] - '0', value))
		return at + 3;
	(void)snprintf(format, sizeof format, "%%%.*s", (int)n + 1, at);
	(void)snprintf(number, sizeof number, format, value);
	point_plain(number);
	text_put(t, number);
	return at + n + 1;
}

/* One conversion of those that nearly all formats are made of: %s %.*s %d %u %lld %zu %c %% and doubles.
 * Returns the text behind it; NULL for any other. */
static const char *put_conversion(Text *t, const char *at, va_list *ap) {
	switch (at[0]) {
	case 's': text_put(t, va_arg(*ap, const char *)); return at + 1;
	case 'd': put_signed(t, va_arg(*ap, int)); return at + 1;
	case 'u': put_decimal(t, false, va_arg(*ap, unsigned)); return at + 1;
	case 'c': *text_more(t, 1) = (char)va_arg(*ap, int); return at + 1;
	case '%': *text_more(t, 1) = '%'; return at + 1;
	case 'l':
		if (at[1] != 'l' || at[2] != 'd')
			return NULL;
		put_signed(t, va_arg(*ap, long long));
		return at + 3;
	case 'z':
		if (at[1] != 'u')
			return NULL;
		put_decimal(t, false, va_arg(*ap, size_t));
		return at + 2;
	case '.':
		if (at[1] != '*' || at[2] != 's')
			return put_real(t, at, ap);
		put_part(t, ap);
		return at + 3;
	default: return put_real(t, at, ap);
	}
}

/* Printing is mostly this: going through vsnprintf() would take two thirds of the time of a compilation. False, with
 * the Text as it was, for a format with another conversion. */
static bool put_simple(Text *t, const char *fmt, va_list ap) {
	size_t before = t->length;
	va_list copy;
	va_copy(copy, ap);
	while (fmt) {
		const char *end = fmt; /* what stands between two conversions is short: no call for it */
		while (*end && *end != '%')
			end++;
		char *at = text_more(t, (size_t)(end - fmt));
		while (fmt < end)
			*at++ = *fmt++;
		if (!*fmt)
			break;
		fmt = put_conversion(t, fmt + 1, &copy);
	}
	va_end(copy);
	if (!fmt)
		t->length = before;
	return fmt != NULL;
}

/* Again where there was too little room. An encoding error, impossible for the formats used here, gives nothing. */
static void put_formatted(Text *t, const char *fmt, va_list ap) {
	va_list copy;
	va_copy(copy, ap);
	size_t room = t->room - t->length;
	int n = vsnprintf(t->at + t->length, room, fmt, copy);
	va_end(copy);
	if (n > 0 && (size_t)n >= room) {
		text_room(t, (size_t)n);
		vsnprintf(t->at + t->length, (size_t)n + 1, fmt, ap);
	}
	t->length += n > 0 ? (size_t)n : 0;
	t->at[t->length] = '\0';
}

void text_vprintf(Text *t, const char *fmt, va_list ap) {
	text_room(t, 0);
	t->at[t->length] = '\0';
	if (!put_simple(t, fmt, ap))
		put_formatted(t, fmt, ap);
}

void text_printf(Text *t, const char *fmt, ...) {
	va_list ap;
	va_start(ap, fmt);
	text_vprintf(t, fmt, ap);
	va_end(ap);
}

/* Put together on the stack, so that the arena gets no more than the text; a longer one is formatted there. */
char *arena_vprintf(Arena *a, const char *fmt, va_list ap) {
	char buffer[256];
	Text t = {.arena = a, .at = buffer, .room = sizeof buffer};
	text_vprintf(&t, fmt, ap);
	return t.at == buffer ? arena_copy(a, buffer, t.length + 1, 1) : t.at;
}

char *arena_printf(Arena *a, const char *fmt, ...) {
	va_list ap;
	va_start(ap, fmt);
	char *s = arena_vprintf(a, fmt, ap);
	va_end(ap);
	return s;
}

static bool wants_exponent(double value) {
	return !(value < 0 ? value <= -1e-4 && value > -1e15 : value >= 1e-4 && value < 1e15);
}

/* A value of at most 15 digits, as most constants are: digits / 10^decimals is a correctly rounded quotient of two
 * exact doubles, and so what reading the text gives; and of so few digits only one text gives it. False for others. */
static bool put_short_decimal(Text *t, double value) {
	enum { DECIMALS_MAX = 19 };
	double size = value < 0 ? -value : value, power = 1;
	if (wants_exponent(value))
		return false;
	for (int decimals = 0; decimals <= DECIMALS_MAX && size * power < 1e15; decimals++, power *= 10) {
		uint64_t digits = (uint64_t)(size * power + 0.5);
		if (digits >= 1000000000000000u || (double)digits / power != size)
			continue;
		put_point(t, value < 0, digits, decimals);
		if (decimals == 0)
			text_put(t, ".0");
		return true;
	}
	return false;
}

void text_put_double(Text *t, double value) {
	char buffer[40];
	if (put_short_decimal(t, value))
		return;
	for (int digits = wants_exponent(value) ? 15 : 16; digits <= 17; digits++) {
		snprintf(buffer, sizeof buffer, "%.*g", digits, value);
		if (digits < 17 && strtod(buffer, NULL) == value) /* 17 are enough for any */
			break;
	}
	point_plain(buffer);
	text_put(t, buffer);
	if (!strpbrk(buffer, ".e"))
		text_put(t, ".0");
}

double text_read_double(char *number) {
	const char *point = localeconv()->decimal_point;
	char *at = strchr(number, '.');
	if (at && strcmp(point, ".") != 0) {
		memmove(at + strlen(point), at + 1, strlen(at + 1) + 1);
		memcpy(at, point, strlen(point));
	}
	return strtod(number, NULL);
}

int utf8_decode(const char *s, const char *end, uint32_t *code) {
	unsigned char c = (unsigned char)*s;
	int n = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
	if (n == 0 || end - s < n)
		return 0;
	*code = n == 1 ? c : c & (0x7fu >> n);
	for (int i = 1; i < n; i++) {
		if (((unsigned char)s[i] & 0xc0) != 0x80)
			return 0;
		*code = *code << 6 | ((unsigned char)s[i] & 0x3f);
	}
	bool overlong = (n == 3 && *code < 0x800) || (n == 4 && *code < 0x10000);
	return overlong || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000) ? 0 : n;
}

/* Controls, line ends, and what Unicode calls Default_Ignorable_Code_Point: it shows nothing, or turns its neighbours.
 */
static const uint32_t unprintable[][2] = {{0x00, 0x1f},       {0x7f, 0x9f},       {0xad, 0xad},      {0x34f, 0x34f},
                                          {0x61c, 0x61c},     {0x115f, 0x1160},   {0x17b4, 0x17b5},  {0x180b, 0x180f},
                                          {0x200b, 0x200f},   {0x2028, 0x202e},   {0x2060, 0x206f},  {0x3164, 0x3164},
                                          {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},  {0xfff0, 0xfffb},
                                          {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}};

bool utf8_unprintable(uint32_t c) {
	if (c >= 0x20 && c < 0x7f)
		return false;
	for (size_t i = 0; i < sizeof unprintable / sizeof *unprintable; i++)
		if (c >= unprintable[i][0] && c <= unprintable[i][1])
			return true;
	return false;
}

/* JSON escapes by UTF-16 units. */
static void put_json_escape(Text *t, uint32_t code) {
	if (code == '"' || code == '\\')
		text_printf(t, "\\%c", (int)code);
	else if (code == '\n')
		text_put(t, "\\n");
	else if (code < 0x10000)
		text_printf(t, "\\u%04x", code);
	else
		text_printf(t, "\\u%04x\\u%04x", 0xd7c0 + (code >> 10), 0xdc00 + (code & 0x3ff));
}

void text_put_json(Text *t, const char *s) {
	const char *end = s + strlen(s), *run = s;
	text_put(t, "\"");
	while (s < end) {
		uint32_t code = 0xfffd;
		int n = utf8_decode(s, end, &code);
		bool plain = n > 0 && code != '"' && code != '\\' && !utf8_unprintable(code);
		s += n ? n : 1;
		if (plain)
			continue;
		text_putn(t, run, (size_t)(s - run) - (size_t)(n ? n : 1));
		put_json_escape(t, n ? code : 0xfffd);
		run = s;
	}
	text_putn(t, run, (size_t)(s - run));
	text_put(t, "\"");
}

void text_put_printable(Text *t, const char *s) {
	for (const char *end = s + strlen(s); s < end;) {
		uint32_t code = 0;
		int n = utf8_decode(s, end, &code);
		if (n == 0)
			text_printf(t, "\\x%02x", (unsigned)(unsigned char)*s);
		else if (utf8_unprintable(code))
			text_printf(t, code < 0x100 ? "\\x%02x" : "\\u%04x", code);
		else
			text_putn(t, s, (size_t)n);
		s += n ? n : 1;
	}
}
