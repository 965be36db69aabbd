/* keys.c - the rows of keys.def as data, and a key's value as JSON. */
#include "keys.h"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

const KeyRow key_rows[KEY_COUNT] = {
#define KEY(field, name, kind, ...) [KEY_OF_##field] = {name, KEY_##kind, offsetof(Config, field), __VA_ARGS__},
#include "keys.def"
#undef KEY
};

const char *loop_type_name(LoopType t) { return key_rows[KEY_OF_loop_type].words[t]; }

const char *const *key_words(const KeyRow *row) {
	static const char *const choices[] = {"auto", "on", "off", NULL};
	return row->kind == KEY_CHOICE ? choices : row->words;
}

const char *key_word(const KeyRow *row, int value) {
	if (row->kind == KEY_NUMBER)
		return row->or_auto && value == row->fallback ? "auto" : NULL;
	return key_words(row)[value];
}

bool key_has_default(const KeyRow *row) {
	bool is_word = row->kind == KEY_WORD || row->kind == KEY_CHOICE;
	return (is_word && row->fallback >= 0) ||
	       (row->kind == KEY_NUMBER && (row->or_auto || row->fallback >= row->low));
}

/* `zero` and `one` are other words for 0 and 1; NULL: the numbers. */
static void put_list(const ConfigList *list, const char *zero, const char *one, Text *out) {
	text_put(out, "[");
	for (uint32_t i = 0; i < list->values.count; i++) {
		int64_t value = list->values.at[i];
		const char *word = value == 0 ? zero : value == 1 ? one : NULL;
		text_put(out, i ? ", " : "");
		if (word)
			text_put(out, word);
		else
			text_put_int(out, value);
	}
	text_put(out, "]");
}

static void put_orders(const ConfigOrders *orders, Text *out) {
	text_put(out, "[");
	for (uint32_t i = 0; i < orders->values.count; i++) {
		text_put(out, i ? ", " : "");
		put_list(&orders->values.at[i], NULL, NULL, out);
	}
	text_put(out, "]");
}

void key_put(const KeyRow *row, const Config *c, bool flags, Text *out) {
	const void *field = key_field(row, c);
	switch (row->kind) {
	case KEY_SIZES: put_list(field, row->or_null ? "null" : NULL, NULL, out); return;
	case KEY_FLAGS: put_list(field, "false", "true", out); return;
	case KEY_ORDERS: put_orders(field, out); return;
	default: break;
	}
	int value = ((const ConfigKey *)field)->value;
	const char *word = key_word(row, value);
	if (row->kind == KEY_CHOICE && !row->never_on && flags && value != CHOICE_AUTO)
		text_put(out, value == CHOICE_ON ? "true" : "false");
	else if (word)
		text_put_json(out, word);
	else
		text_put_int(out, value);
}
