/* keys.c - the rows of keys.def as data, and a key's value as JSON. */
#include "ir.h"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

const KeyRow key_rows[KEY_COUNT] = {
#define KEY(field, name, kind, ...) [KEY_OF_##field] = {name, KEY_##kind, offsetof(Config, field), __VA_ARGS__},
#include "keys.def"
#undef KEY
};

const char *loop_type_name(LoopType t) { return key_rows[KEY_OF_loop_type].words[t]; }

const char *const *key_words(const KeyRow *row) {
	static const char *const choices[] = {"auto", "on", "off", NULL};
	return row->kind == KEY_SWITCH ? choices : row->words;
}

const char *key_word(const KeyRow *row, int value) {
	if (row->kind == KEY_NUMBER)
		return row->or_auto && value == row->fallback ? "auto" : NULL;
	return key_words(row)[value];
}

bool key_has_default(const KeyRow *row) {
	bool is_word = row->kind == KEY_WORD || row->kind == KEY_SWITCH;
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
	if (row->kind == KEY_SWITCH && !row->never_on && flags && value != SWITCH_AUTO)
		text_put(out, value == SWITCH_ON ? "true" : "false");
	else if (word)
		text_put_json(out, word);
	else
		text_put_int(out, value);
}

/* ---- loops of two or more dims --------------------------------------------------------------------------------- */

typedef struct LoopWalk {
	const Module *m;
	GraphId *list;
	uint32_t count;
} LoopWalk;

static void walk_loops(LoopWalk *w, GraphId g, uint32_t depth);

static void walk_arg(LoopWalk *w, const Arg *a, uint32_t depth) {
	if (a->kind == ARG_GRAPH)
		walk_loops(w, a->graph, depth + 1);
}

/* Calls nest 64 deep at most (load_calls.c), so this may recurse. */
static void walk_loops(LoopWalk *w, GraphId g, uint32_t depth) {
	if (graph_get(w->m, g)->blocks.count >= 2)
		w->list[w->count++] = g;
	for (NodeId n = graph_first(w->m, g); n != NONE; n = node_get(w->m, n)->next) {
		bool calls = depth < 100 && op_may_call(w->m, n);
		for (uint32_t i = 0; calls && i < node_get(w->m, n)->arg_count; i++)
			walk_arg(w, node_arg(w->m, n, i), depth);
	}
}

const GraphId *config_loops(const Module *m, Arena *a, uint32_t *count) {
	LoopWalk w = {.m = m, .list = arena_array(a, (size_t)m->graphs.count + 1, sizeof(GraphId))};
	for (GraphId g = 0; g < m->graphs.count; g++)
		if (graph_get(m, g)->kind == GRAPH_ROOT)
			walk_loops(&w, g, 0);
	*count = w.count;
	return w.list;
}
