/* json_parse.c - the text of a document as jansson's values.
 *
 * jansson's own reader is not asked: where memory runs out within a token it loses bytes of it and goes on behind its
 * buffer, and the library may be in a process that goes on. This one takes a buffer for tokens before it makes any
 * value, and knows where a token begins. */
#include "json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum { DEPTH_MAX = 2048, TOKEN_SHOWN = 20 };

typedef struct Parser {
	const char *text, *at, *end;
	char *token; /* room for any token of the text, decoded, and a NUL */
	JsonError *error;
	int depth;
} Parser;

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static bool fail(Parser *p, JsonFault fault, const char *at) {
	p->error->fault = fault;
	p->error->offset = (size_t)(at - p->text);
	return false;
}

/* What is wrong with the token from `at` to before `end`, which is shown if it is short. */
static bool fail_token(Parser *p, const char *at, const char *end, const char *what) {
	size_t n = (size_t)(end - at);
	bool shown = n <= TOKEN_SHOWN && !memchr(at, '\0', n);
	snprintf(p->error->text, sizeof p->error->text, shown ? "%s near '%.*s'" : "%s", what, (int)n, at);
	return fail(p, JSON_FAULT_SYNTAX, at);
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static bool is_json_letter(char c) { return is_letter(c) && c != '_'; }

/* Behind the token at `at`, which may be none of JSON's. */
static const char *token_end(const Parser *p, const char *at) {
	const char *end = at;
	uint32_t code;
	if (*at == '"') {
		for (end++; end < p->end && *end != '"' && *end != '\n'; end++)
			end += *end == '\\' && end + 1 < p->end;
		return end < p->end && *end == '"' ? end + 1 : end;
	}
	while (end < p->end && is_json_letter(*end))
		end++;
	if (end == at)
		while (end < p->end && (is_digit(*end) || strchr("+-.eE", *end)) && *end)
			end++;
	int n = end == at ? utf8_decode(at, p->end, &code) : 0;
	return end > at ? end : at + (n ? n : 1);
}

/* Another token was expected than the one that is there. */
static bool unexpected(Parser *p, const char *what) {
	uint32_t code;
	if (p->at == p->end)
		return fail(p, JSON_FAULT_TRUNCATED, p->at);
	if (!utf8_decode(p->at, p->end, &code))
		return fail(p, JSON_FAULT_UTF8, p->at);
	return fail_token(p, p->at, token_end(p, p->at), what);
}

static json_t *made(Parser *p, json_t *value) {
	if (!value)
		fail(p, JSON_FAULT_MEMORY, p->at);
	return value;
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

static void skip_space(Parser *p) {
	while (p->at < p->end && is_space(*p->at))
		p->at++;
}

static bool next_is(Parser *p, char c) {
	skip_space(p);
	return p->at < p->end && *p->at == c;
}

/* The four digits of an escape \uXXXX; false where they are none. */
static bool read_unit(Parser *p, uint32_t *unit) {
	static const char digits[] = "0123456789abcdef";
	*unit = 0;
	for (int i = 0; i < 4; i++, p->at++) {
		char c = p->at < p->end ? *p->at : '\0';
		const char *found = c ? strchr(digits, c >= 'A' && c <= 'F' ? c | 0x20 : c) : NULL;
		if (!found)
			return false;
		*unit = *unit << 4 | (uint32_t)(found - digits);
	}
	return true;
}

/* A character of an escape behind its u: one unit, or two of a pair. */
static bool read_unicode(Parser *p, uint32_t *code) {
	uint32_t low;
	if (!read_unit(p, code) || (*code >= 0xdc00 && *code < 0xe000))
		return false;
	if (*code < 0xd800 || *code >= 0xdc00)
		return true;
	if (p->end - p->at < 2 || p->at[0] != '\\' || p->at[1] != 'u')
		return false;
	p->at += 2;
	if (!read_unit(p, &low) || low < 0xdc00 || low >= 0xe000)
		return false;
	*code = 0x10000 + ((*code - 0xd800) << 10 | (low - 0xdc00));
	return true;
}

static char *put_utf8(char *out, uint32_t c) {
	int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
	static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};
	*out++ = (char)(first[more] | c >> 6 * more);
	while (more-- > 0)
		*out++ = (char)(0x80 | (c >> 6 * more & 0x3f));
	return out;
}

/* The escape at p->at, decoded to `out`; its new end, or NULL. */
static char *read_escape(Parser *p, char *out) {
	static const char names[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
	char c = ++p->at < p->end ? *p->at : '\0';
	const char *name = c ? strchr(names, c) : NULL;
	uint32_t code;
	p->at += p->at < p->end;
	if (name)
		return put_utf8(out, (uint32_t)means[name - names]);
	return c == 'u' && read_unicode(p, &code) ? put_utf8(out, code) : NULL;
}

/* The string at p->at, which begins with its quote, into p->token. */
static bool read_string(Parser *p, size_t *length) {
	const char *start = p->at++;
	char *out = p->token;
	bool nul = false;
	while (p->at < p->end && *p->at != '"') {
		uint32_t code;
		unsigned char c = (unsigned char)*p->at;
		int n = c < 0x80 ? 1 : utf8_decode(p->at, p->end, &code);
		if (n == 0)
			return fail(p, JSON_FAULT_UTF8, p->at);
		if (c < 0x20) {
			char what[40] = "unexpected newline";
			if (c != '\n')
				snprintf(what, sizeof what, "control character 0x%x", c);
			return fail_token(p, start, p->at, what);
		}
		if (c == '\\') {
			char *end = read_escape(p, out);
			if (!end && p->at == p->end)
				break;
			if (!end)
				return fail_token(p, start, p->at, "invalid escape");
			nul |= end == out + 1 && *out == '\0';
			out = end;
			continue;
		}
		memcpy(out, p->at, (size_t)n);
		out += n;
		p->at += n;
	}
	if (p->at == p->end)
		return fail(p, JSON_FAULT_TRUNCATED, p->at);
	p->at++;
	*out = '\0';
	*length = (size_t)(out - p->token);
	return !nul || fail(p, JSON_FAULT_NUL, start);
}

static bool skip_digits(Parser *p) {
	const char *start = p->at;
	while (p->at < p->end && is_digit(*p->at))
		p->at++;
	return p->at > start;
}

/* Past the number at p->at; false where it is none. */
static bool skip_number(Parser *p, bool *real) {
	const char *first = p->at += *p->at == '-';
	*real = false;
	if (!skip_digits(p) || (*first == '0' && p->at > first + 1))
		return false;
	if (p->at < p->end && *p->at == '.') {
		*real = true;
		p->at++;
		if (!skip_digits(p))
			return false;
	}
	if (p->at < p->end && (*p->at == 'e' || *p->at == 'E')) {
		*real = true;
		p->at++;
		p->at += p->at < p->end && (*p->at == '+' || *p->at == '-');
		return skip_digits(p);
	}
	return true;
}

static json_t *read_number(Parser *p) {
	const char *start = p->at;
	bool real;
	if (!skip_number(p, &real)) {
		bool cut = p->at == p->end && !is_digit(p->at[-1]);
		cut ? fail(p, JSON_FAULT_TRUNCATED, p->at) : fail_token(p, start, token_end(p, start), "invalid token");
		return NULL;
	}
	size_t n = (size_t)(p->at - start);
	memcpy(p->token, start, n);
	p->token[n] = '\0';
	errno = 0;
	double value = real ? text_read_double(p->token) : 0;
	long long whole = real ? 0 : strtoll(p->token, NULL, 10);
	if (real ? isinf(value) : errno == ERANGE) {
		fail(p, JSON_FAULT_NUMBER, start);
		return NULL;
	}
	return made(p, real ? json_real(value) : json_integer(whole));
}

static json_t *read_word(Parser *p) {
	const char *start = p->at, *end = token_end(p, start);
	size_t n = (size_t)(end - start);
	p->at = end;
	if (n == 4 && memcmp(start, "true", n) == 0)
		return json_true();
	if (n == 5 && memcmp(start, "false", n) == 0)
		return json_false();
	if (n == 4 && memcmp(start, "null", n) == 0)
		return json_null();
	fail_token(p, start, end, "invalid token");
	return NULL;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static json_t *read_value(Parser *p);

/* A member. Its name stays where it is while the value is read: its quotes leave room for that. */
static bool read_member(Parser *p, json_t *object) {
	size_t length;
	if (!next_is(p, '"'))
		return unexpected(p, "a name in double quotes expected");
	const char *start = p->at;
	char *name = p->token;
	if (!read_string(p, &length))
		return false;
	if (json_object_get(object, name))
		return fail(p, JSON_FAULT_DUPLICATE, start);
	if (!next_is(p, ':'))
		return unexpected(p, "':' expected");
	p->at++;
	p->token += length + 1;
	json_t *value = read_value(p);
	p->token = name;
	if (!value)
		return false;
	return json_object_set_new_nocheck(object, name, value) == 0 || fail(p, JSON_FAULT_MEMORY, start);
}

static bool read_element(Parser *p, json_t *array) {
	json_t *value = read_value(p);
	return value && (json_array_append_new(array, value) == 0 || fail(p, JSON_FAULT_MEMORY, p->at));
}

/* The members or elements at p->at, up to `close`. */
static bool read_all(Parser *p, json_t *into, char close, bool (*read)(Parser *p, json_t *into)) {
	p->at++;
	if (!next_is(p, close)) {
		do {
			if (!read(p, into))
				return false;
		} while (next_is(p, ',') && p->at++);
	}
	if (!next_is(p, close))
		return unexpected(p, close == '}' ? "',' or '}' expected" : "',' or ']' expected");
	p->at++;
	return true;
}

static json_t *read_container(Parser *p) {
	bool object = *p->at == '{';
	json_t *value = made(p, object ? json_object() : json_array());
	if (value && (object ? read_all(p, value, '}', read_member) : read_all(p, value, ']', read_element)))
		return value;
	json_decref(value);
	return NULL;
}

static json_t *read_token(Parser *p) {
	size_t length;
	char c = p->at < p->end ? *p->at : '\0';
	if (c == '{' || c == '[')
		return read_container(p);
	if (c == '"')
		return read_string(p, &length) ? made(p, json_stringn_nocheck(p->token, length)) : NULL;
	if (c == '-' || is_digit(c))
		return read_number(p);
	if (is_json_letter(c))
		return read_word(p);
	unexpected(p, c && strchr(",:]}", c) ? "unexpected token" : "invalid token");
	return NULL;
}

static json_t *read_value(Parser *p) {
	skip_space(p);
	if (++p->depth > DEPTH_MAX) {
		fail(p, JSON_FAULT_DEPTH, p->at);
		return NULL;
	}
	json_t *value = read_token(p);
	p->depth--;
	return value;
}

json_t *json_parse(Arena *a, const char *text, size_t length, JsonError *error) {
	Parser p = {.text = text, .at = text, .end = text + length, .error = error};
	ArenaMark mark = arena_mark(a);
	p.token = arena_raw(a, length + DECIMAL_POINT_MOST);
	*error = (JsonError){0};
	json_t *value = read_value(&p);
	skip_space(&p);
	arena_release(a, mark);
	if (!value || p.at == p.end)
		return value;
	json_decref(value);
	fail(&p, JSON_FAULT_AFTER_END, p.at);
	return NULL;
}
