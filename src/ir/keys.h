/* keys.h - the keys of a configuration: the rows of keys.def as data, and a key's value as JSON. */
#ifndef PALLASC_KEYS_H
#define PALLASC_KEYS_H

#include "ir.h"

typedef enum KeyKind { KEY_SIZES, KEY_FLAGS, KEY_ORDERS, KEY_WORD, KEY_CHOICE, KEY_NUMBER } KeyKind;

/* What a list has one entry for: a block whose size the configuration chooses, a whole dim that may be rolled, a grid
 * or loop of two or more dims, a tensor of role input. */
typedef enum KeyEach { EACH_NOTHING, EACH_CHOSEN, EACH_REDUCTION, EACH_LOOP, EACH_INPUT } KeyEach;

/* A row: keys.def explains the fields. */
typedef struct KeyRow {
	const char *name;
	KeyKind kind;
	size_t offset; /* of its field in Config */
	const char *const *words;
	int low, high, fallback;
	bool or_null, never_on, or_auto;
	KeyEach each;
	const char *report, *about, *absent, *unlowered;
} KeyRow;

enum {
#define KEY(field, name, kind, ...) KEY_OF_##field,
#include "keys.def"
#undef KEY
	KEY_COUNT
};
extern const KeyRow key_rows[KEY_COUNT]; /* by KEY_OF_field */

/* The field of a row: ConfigList for SIZES and FLAGS, ConfigOrders for ORDERS, else ConfigKey. */
static inline void *key_field(const KeyRow *row, const Config *c) { return (char *)(uintptr_t)c + row->offset; }
static inline bool key_is_set(const KeyRow *row, const Config *c) { return *(const bool *)key_field(row, c); }
static inline bool key_is_list(const KeyRow *row) { return row->kind == KEY_SIZES || row->kind == KEY_FLAGS; }
/* Can the key be given as what holds where nobody gives it? Lists cannot: they depend on the graph. */
bool key_has_default(const KeyRow *row);
/* The word for a value of the key; NULL: it is a number. */
const char *key_word(const KeyRow *row, int value);
/* The words that the key takes, and NULL; NULL for one that takes none. */
const char *const *key_words(const KeyRow *row);
/* The value in force, as JSON; `flags`: true and false where they mean on and off. */
void key_put(const KeyRow *row, const Config *c, bool flags, Text *out);

#endif
