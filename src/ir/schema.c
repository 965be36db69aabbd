/* schema.c - reads the `params` strings of ops.def. */
#include "ir.h"

#include <math.h>
#include <stdlib.h>

static Arg default_number(const char *text) {
	enum { NUMBER_MOST = 40 };
	char number[NUMBER_MOST + DECIMAL_POINT_MOST];
	(void)snprintf(number, NUMBER_MOST, "%s", text);
	if (strpbrk(text, ".eE"))
		return arg_float(text_read_double(number));
	return arg_int(strtoll(text, NULL, 10));
}

static void default_list(Param *p, const char *text) {
	p->value.kind = ARG_LIST;
	p->value.list.first = 0;
	p->value.list.count = 0;
	for (text++; *text && *text != ']' && p->value.list.count < PARAM_LIST_MAX; text += *text == ',') {
		char *end;
		p->items[p->value.list.count++] = strtoll(text, &end, 10);
		if (end == text)
			break;
		text = end;
	}
}

/* "float32" with its quotes: a dtype or a string, by the letter. */
static Arg default_string(Arena *a, char letter, const char *text) {
	char *s = arena_strdup(a, text + 1);
	if (*s)
		s[strlen(s) - 1] = '\0';
	if (letter == 'd')
		return arg_dtype(dtype_find(s));
	Arg value = arg_null();
	value.kind = ARG_STRING;
	value.string = s;
	return value;
}

static void param_default(Arena *a, Param *p, const char *text) {
	p->has_default = true;
	if (*text == 't' || *text == 'f')
		p->value = arg_bool(*text == 't');
	else if (*text == '[')
		default_list(p, text);
	else if (*text == '"')
		p->value = default_string(a, p->letter, text);
	else if (strcmp(text, "inf") == 0 || strcmp(text, "-inf") == 0)
		p->value = arg_float(*text == '-' ? -(double)INFINITY : (double)INFINITY);
	else if (*text != 'n')
		p->value = default_number(text);
}

/* One `name:letter[?][=default]`, cut up in place. */
static Param param_parse(Arena *a, char *word) {
	Param p = {.name = word, .letter = 'V', .value = arg_null()};
	char *colon = strchr(word, ':');
	if (!colon)
		return p;
	*colon = '\0';
	p.letter = colon[1];
	for (char *at = colon + 1; *at && *at != '='; at++)
		p.nullable |= *at == '?';
	char *equals = strchr(colon + 1, '=');
	if (equals)
		param_default(a, &p, equals + 1);
	p.nullable |= p.has_default && p.value.kind == ARG_NULL;
	return p;
}

Schema schema_parse(Arena *a, const char *params) {
	VEC(Param) list = {0};
	char *at = arena_strdup(a, params ? params : "");
	uint32_t required = 0, positional = NONE;
	while (*(at += strspn(at, " \t\n"))) {
		char *word = at;
		at += strcspn(at, " \t\n");
		if (*at)
			*at++ = '\0';
		if (*word == '*') {
			positional = list.count;
			continue;
		}
		Param p = param_parse(a, word);
		required += !p.has_default;
		vec_push(a, &list, p);
	}
	positional = positional == NONE ? list.count : positional;
	return (Schema){.params = list.at, .count = list.count, .required = required, .positional = positional};
}

Arg schema_default(Module *m, const Param *p) {
	Arg value = p->value;
	if (value.kind == ARG_STRING)
		value.string = string_intern(m->arena, &m->strings, value.string);
	if (value.kind != ARG_LIST)
		return value;
	Arg items[PARAM_LIST_MAX];
	for (uint32_t i = 0; i < value.list.count; i++)
		items[i] = arg_int(p->items[i]);
	return arg_list(m, value.list.count, items);
}

static bool default_list_equal(const Module *m, const Param *p, const Arg *value) {
	if (value->list.count != p->value.list.count)
		return false;
	for (uint32_t i = 0; i < value->list.count; i++) {
		const Arg *item = arg_item(m, value, i);
		if (item->kind != ARG_INT || item->integer != p->items[i])
			return false;
	}
	return true;
}

bool schema_is_default(const Module *m, const Param *p, const Arg *value) {
	if (!p->has_default || value->kind != p->value.kind)
		return false;
	switch (value->kind) {
	case ARG_NULL: return true;
	case ARG_BOOL: return value->boolean == p->value.boolean;
	case ARG_INT: return value->integer == p->value.integer;
	case ARG_FLOAT: return value->real == p->value.real && signbit(value->real) == signbit(p->value.real);
	case ARG_STRING: return strcmp(value->string, p->value.string) == 0;
	case ARG_DTYPE: return value->dtype == p->value.dtype;
	case ARG_LIST: return default_list_equal(m, p, value);
	default: return false;
	}
}

uint32_t schema_find(const Schema *s, const char *name) {
	for (uint32_t i = 0; i < s->count; i++)
		if (strcmp(s->params[i].name, name) == 0)
			return i;
	return NONE;
}

const char *schema_expects(char letter) {
	switch (letter) {
	case 'x': return "a value ({\"ref\"} or a number)";
	case 't': return "a tensor ({\"ref\"})";
	case 'i': return "an int (or {\"sym\"}, or a {\"ref\"} to a symbolic int)";
	case 'n': return "a number";
	case 'b': return "true or false";
	case 'I': return "a list of ints";
	case 'X': return "a list of values";
	case 'd': return "a dtype ({\"dtype\": \"float32\"})";
	case 's': return "a string";
	case 'S': return "a block symbol ({\"sym\": \"u0\"})";
	case 'N': return "an index list";
	case 'T': return "the name of a tensor";
	case 'C': return "the name of a scalar";
	case 'G': return "the id of a graph";
	default: return "a value";
	}
}
