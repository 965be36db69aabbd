/* kernel_lex.c - reading kernel text: tokens, the names in scope, complaints. */
#include "kernel_reader.h"
#include "src/json/json.h"

/* ---- complaints ------------------------------------------------------------------------------------------------- */

static void say(KReader *r, size_t at, const char *code, const char *hint, const char *message) {
	Place place = {.source = r->source, .line = r->line, .column = (int)(at - r->line_start) + 1};
	if (!r->failed)
		diag_error(r->d, place, code, hint, "%s", message);
	r->failed = true;
	r->token = (Token){.kind = TOKEN_END, .at = at};
}

void kread_error(KReader *r, const Token *at, const char *code, const char *hint, const char *fmt, ...) {
	va_list ap;
	va_start(ap, fmt);
	const char *message = arena_vprintf(r->a, fmt, ap);
	va_end(ap);
	say(r, at->at, code, hint, message);
}

static const char *describe(KReader *r) {
	enum { SHOWN = 40 };
	const Token *t = &r->token;
	if (t->kind == TOKEN_END)
		return t->at >= r->source->length ? "the end of the text" : "the end of the line";
	char *text = arena_alloc(r->a, SHOWN + 1);
	memcpy(text, r->source->text + t->at, t->length < SHOWN ? t->length : SHOWN);
	return arena_printf(r->a, "'%s'", text);
}

void kread_expected(KReader *r, const char *what) {
	Token at = r->token;
	kread_error(r, &at, "kernel-syntax", NULL, "expected %s, found %s", what, describe(r));
}

/* ---- tokens ----------------------------------------------------------------------------------------------------- */

static char peek(const KReader *r, size_t ahead) {
	size_t at = r->cursor + ahead;
	return at < r->source->length ? r->source->text[at] : '\0';
}

static const char *intern(KReader *r, size_t at, size_t length) {
	char *text = arena_alloc(r->a, length + 1);
	memcpy(text, r->source->text + at, length);
	return string_intern(r->a, &r->strings, text);
}

static void lex_number(KReader *r) {
	Token *t = &r->token;
	bool real = false, fits = true;
	for (;; r->cursor++) {
		char c = peek(r, 0);
		bool sign = (c == '+' || c == '-') && r->cursor > t->at && (peek(r, (size_t)-1) | 0x20) == 'e';
		if (is_digit(c)) {
			uint64_t digit = (uint64_t)(c - '0');
			fits = fits && t->number <= (UINT64_MAX - digit) / 10;
			t->number = t->number * 10 + digit;
		} else if (c == '.' || c == 'e' || c == 'E' || sign) {
			real = true;
		} else {
			break;
		}
	}
	t->kind = real ? TOKEN_REAL : TOKEN_INTEGER;
	t->length = r->cursor - t->at;
	if (!real && (!fits || t->number > (uint64_t)INT64_MAX + 1)) {
		say(r, t->at, "kernel-number", NULL, "the number does not fit into 64 bits");
		return;
	}
	if (!real)
		return;
	json_t *value = json_of(r->a, r->source->text + t->at, t->length);
	t->real = value ? json_real_value(value) : 0;
	json_decref(value);
	if (!value)
		say(r, t->at, "kernel-number", NULL, "this is no number, or too large for one");
}

static void lex_string(KReader *r) {
	Token *t = &r->token;
	for (r->cursor++; peek(r, 0) != '"' && peek(r, 0) != '\n' && r->cursor < r->source->length; r->cursor++)
		r->cursor += peek(r, 0) == '\\' && peek(r, 1) != '\n';
	if (peek(r, 0) != '"') {
		say(r, t->at, "kernel-syntax", NULL, "the string has no closing quote in its line");
		return;
	}
	r->cursor++;
	t->length = r->cursor - t->at;
	t->kind = TOKEN_STRING;
	char *text = arena_alloc(r->a, t->length); /* running out of memory would leave the value behind */
	json_t *value = json_of(r->a, r->source->text + t->at, t->length);
	bool good = value != NULL;
	if (good)
		memcpy(text, json_string_value(value), json_string_length(value));
	json_decref(value);
	t->text = string_intern(r->a, &r->strings, text);
	if (!good)
		say(r, t->at, "kernel-syntax", NULL, "the string is no string of JSON");
}

static void lex_sign(KReader *r) {
	static const char *const signs[] = {"...", "+:", "*:", "==", "<=", ">=", NULL};
	Token *t = &r->token;
	char c = peek(r, 0);
	t->kind = TOKEN_SIGN;
	t->length = 1;
	for (const char *const *s = signs; *s; s++)
		if (t->length == 1 && r->source->length - r->cursor >= strlen(*s) &&
		    memcmp(r->source->text + r->cursor, *s, strlen(*s)) == 0)
			t->length = strlen(*s);
	if (t->length == 1 && (c == '\0' || !strchr("{}()[],:=+-*&<>@", c))) {
		say(r, t->at, "kernel-syntax", NULL, "no kernel text has this character here");
		return;
	}
	r->cursor += t->length;
	t->text = intern(r, t->at, t->length);
}

static bool at_line_end(const KReader *r) {
	char c = peek(r, 0);
	return r->cursor >= r->source->length || c == '\n' || c == '#';
}

void kread_token(KReader *r) {
	if (r->failed)
		return;
	while (peek(r, 0) == ' ' || peek(r, 0) == '\t' || (peek(r, 0) == '\r' && peek(r, 1) == '\n'))
		r->cursor++;
	Token *t = &r->token;
	*t = (Token){.kind = TOKEN_END, .at = r->cursor};
	if (at_line_end(r))
		return;
	char c = peek(r, 0);
	if (is_digit(c)) {
		lex_number(r);
	} else if (c == '"') {
		lex_string(r);
	} else if (is_letter(c) || (c == '%' && is_digit(peek(r, 1)))) {
		t->kind = c == '%' ? TOKEN_NUMBERED : TOKEN_NAME;
		for (r->cursor++; is_digit(peek(r, 0)) || (c != '%' && is_letter(peek(r, 0)));)
			r->cursor++;
		t->length = r->cursor - t->at;
		t->text = intern(r, t->at, t->length);
	} else {
		lex_sign(r);
	}
}

/* ---- lines ------------------------------------------------------------------------------------------------------ */

static bool next_line(KReader *r) {
	const char *text = r->source->text, *end = text + r->source->length;
	const char *found = memchr(text + r->cursor, '\n', (size_t)(end - text) - r->cursor);
	r->cursor = found ? (size_t)(found - text) + 1 : r->source->length;
	if (!found)
		return false;
	r->line_start = r->cursor;
	r->line++;
	return true;
}

bool kread_line(KReader *r) {
	if (r->line == 0)
		r->line = 1;
	else if (!r->failed)
		next_line(r);
	for (kread_token(r); !r->failed && r->token.kind == TOKEN_END; kread_token(r))
		if (!next_line(r))
			break;
	return !r->failed && r->token.kind != TOKEN_END;
}

const char *kread_rest(KReader *r) {
	size_t from = r->token.at + r->token.length, to;
	while (from < r->source->length && r->source->text[from] == ' ')
		from++;
	to = from;
	while (to < r->source->length && r->source->text[to] != '\n')
		to++;
	r->cursor = to;
	while (to > from && (r->source->text[to - 1] == '\r' || r->source->text[to - 1] == ' '))
		to--;
	const char *rest = r->failed ? "" : intern(r, from, to - from);
	kread_token(r);
	return rest;
}

bool kread_next_is(KReader *r, const char *sign) {
	Token here = r->token;
	size_t cursor = r->cursor;
	kread_token(r);
	bool is = kread_is(r, sign);
	r->cursor = cursor;
	r->token = r->failed ? r->token : here;
	return is;
}

bool kread_is(const KReader *r, const char *word) {
	const Token *t = &r->token;
	return (t->kind == TOKEN_SIGN || t->kind == TOKEN_NAME) && strcmp(t->text, word) == 0; /* none in quotes */
}

bool kread_accept(KReader *r, const char *word) {
	if (!kread_is(r, word))
		return false;
	kread_token(r);
	return true;
}

bool kread_expect(KReader *r, const char *word) {
	if (!kread_accept(r, word))
		kread_expected(r, arena_printf(r->a, "'%s'", word));
	return !r->failed;
}

bool kread_end_of_line(KReader *r) {
	if (r->token.kind != TOKEN_END)
		kread_expected(r, "the end of the line");
	return !r->failed;
}

int64_t kread_number(KReader *r, const char *what, int64_t low, int64_t high) {
	Token first = r->token;
	bool negative = kread_accept(r, "-");
	uint64_t number = r->token.number;
	if (r->token.kind != TOKEN_INTEGER) {
		kread_expected(r, what);
		return low;
	}
	kread_token(r);
	int64_t value = negative ? (int64_t)(0 - number) : (int64_t)number;
	bool fits = negative || number <= INT64_MAX;
	if (!r->failed && (!fits || value < low || value > high))
		kread_error(r, &first, "kernel-number", NULL, "%s must be from %lld to %lld", what, (long long)low,
		            (long long)high);
	return r->failed ? low : value;
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

/* clang-format off */
static const char *const taken[] = {
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield", "jax", "jnp", "pl", "pltpu", "plsc",
    "functools", "warnings", "range", "tuple", "str", "getattr", "carry", "interpret", "KERNEL_INFO", NULL};
/* clang-format on */

/* A variable as Python has it; what is printed around kernels starts with `_`. */
static bool is_variable(const char *name) {
	for (const char *const *t = taken; *t; t++)
		if (strcmp(name, *t) == 0)
			return false;
	if (!is_letter(*name) || *name == '_')
		return false;
	while (is_letter(*name) || is_digit(*name))
		name++;
	return *name == '\0';
}

const char *kread_word(KReader *r, const char *what) {
	const char *text = r->token.text;
	if (r->token.kind != TOKEN_NAME && r->token.kind != TOKEN_STRING) {
		kread_expected(r, what);
		return "";
	}
	kread_token(r);
	return text;
}

const char *kread_variable(KReader *r, const char *what) {
	Token at = r->token;
	const char *name = kread_word(r, what);
	if (!r->failed && !is_variable(name))
		kread_error(r, &at, "kernel-name", "take letters, digits and _, a letter first",
		            "'%s' can be no variable of the kernel", name);
	return r->failed ? "failed" : name;
}

void kscope_add(KReader *r, const char *name, EntryKind kind, uint32_t id) {
	if (!name || r->failed)
		return;
	name = string_intern(r->a, &r->strings, name);
	Entry e = {name, kind, id, map_get(&r->entry_of, map_key(name))};
	map_put(r->a, &r->entry_of, map_key(name), r->scope.count);
	vec_push(r->a, &r->scope, e);
}

void kscope_cut(KReader *r, uint32_t count) {
	while (r->scope.count > count) {
		Entry e = r->scope.at[--r->scope.count];
		map_put(r->a, &r->entry_of, map_key(e.name), e.hidden);
	}
}

static const char *near_name(KReader *r, const char *name, EntryKind kind) {
	enum { LOOKED_AT = 1000 };
	const char *names[LOOKED_AT + 1];
	uint32_t count = 0;
	for (uint32_t i = r->scope.count; i-- > 0 && count < LOOKED_AT;)
		if (r->scope.at[i].kind == kind)
			names[count++] = r->scope.at[i].name;
	names[count] = NULL;
	const char *near = name_nearest(name, names);
	return near ? arena_printf(r->a, "did you mean '%s'?", near) : NULL;
}

uint32_t kread_known(KReader *r, EntryKind kind) {
	static const char *const whats[] = {"a value", "a buffer", "a function"};
	Token at = r->token;
	bool named = at.kind == TOKEN_NAME || at.kind == TOKEN_NUMBERED || at.kind == TOKEN_STRING;
	uint32_t entry = named ? map_get(&r->entry_of, map_key(at.text)) : NONE;
	if (!named) {
		kread_expected(r, whats[kind]);
		return NONE;
	}
	if (entry == NONE) {
		kread_error(r, &at, "kernel-unknown", near_name(r, at.text, kind), "there is no '%s' here", at.text);
		return NONE;
	}
	const Entry *e = &r->scope.at[entry];
	if (e->kind != kind) {
		kread_error(r, &at, "kernel-unknown", NULL, "'%s' is %s, and %s is needed", at.text, whats[e->kind],
		            whats[kind]);
		return NONE;
	}
	kread_token(r);
	return e->id;
}
