/* mutate_json.c - changes of a document that keep it JSON: values are replaced by others that stand under the same name
 * here or in another document, or that the op table, the schema and the table of keys know. */
#include "fuzz.h"
#include "src/emit/emit.h"
#include "src/load/load.h"
#include "src/ops/ops.h"
#include "src/verify/verify.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

/* A place of a document: an element or a member. */
typedef struct Slot {
	json_t *container, *value; /* borrowed */
	size_t index;
	const char *key;   /* NULL: an element */
	const char *under; /* the nearest member's name above or at it */
} Slot;

enum { SLOTS_MOST = 20000, DEPTH_MOST = 64 };
typedef struct Slots {
	Slot *at;
	size_t count;
} Slots;

typedef struct Mutation {
	Draw d;
	Slots here, there; /* of the document, and of the other one */
} Mutation;

static void slots_find(Slots *s, json_t *container, const char *under, int depth) {
	const char *key;
	json_t *value;
	size_t index;
	if (depth > DEPTH_MOST)
		return;
	json_object_foreach(container, key, value) {
		if (s->count < SLOTS_MOST)
			s->at[s->count++] = (Slot){container, value, 0, key, key};
		slots_find(s, value, key, depth + 1);
	}
	json_array_foreach(container, index, value) {
		if (s->count < SLOTS_MOST)
			s->at[s->count++] = (Slot){container, value, index, NULL, under};
		slots_find(s, value, under, depth + 1);
	}
}

/* In room that stays. */
static Slots slots_of(json_t *root, Slot room[SLOTS_MOST]) {
	Slots s = {.at = room};
	if (root)
		slots_find(&s, root, "", 0);
	return s;
}

/* ---- values that are known -----------------------------------------------------------------------------------------
 */

/* clang-format off */
static const char *const names[] = {
	"format", "version", "name", "tensors", "graphs", "sizes", "scalars", "returns", "block_sizes", "tunables",
	"config", "mesh", "assume_in_bounds", "annotations", "role", "dtype", "shape", "init", "whole", "of", "permute",
	"slice", "expand", "ops", "value", "tensor", "id", "symbol", "begin", "extent", "size", "reduction", "default",
	"choices", "kind", "grid", "block_ids", "nodes", "carried", "lengths", "op", "target", "args", "kwargs", "meta",
	"loc", "file", "line", "code", "ref", "sym", "float", "tuple", "fixed", "by_size", "when", "x_fuzz", "set",
	"adapt", "shard", "gather", "scatter", "debug_print", "named_scopes", "space", "base",
#define FIELD(name, ...) #name,
#include "target_fields.def"
#undef FIELD
};
static const char *const words[] = {
	"fxtile", "input", "output", "inout", "view", "derived", "empty", "call_function", "placeholder", "root",
	"for_loop", "while_loop", "if", "combine", "u0", "u1", "u2", "u0 + 1", "cdiv(u0, u1)", "next_pow2(u1)",
	"min(u0, 7)", "max(u0, u1)", "-u0 % 3", "u0 // 0", "(((u0)))", "9223372036854775807 * u0", "inf", "-inf",
	"nan", "x", "out", "auto", "true", "default", "unroll", "fori_loop", "emit_pipeline", "highest", "v5e", "v6e",
	"v7x", "v5p", "v4", "mean", "sum", "data=2", "data=2,model=4", "tile_m=data", "block_sizes=[128]",
	"pallas_loop_type=\"unroll\"", "S=64", "=", "a=b", "", " ", "\n", "\"", "\\", "'''", "\"\"\"", "#", "</script>",
	"\xe2\x80\xa8", "\xc2\x85", "\xe2\x80\xae", "\x1b[2J", "import", "__class__", "%s%n", "\xf0\x9f\x98\x80",
	"both", "send", "recv"};
static const char *const dtypes[] = {"float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "int32", "int16",
                                     "int8", "int4", "uint32", "uint16", "uint8", "bool", "int64", "float64"};
static const json_int_t ints[] = {0, 1, -1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 32, 63, 64, 65, 127, 128, 129, 255, 256, 1000,
                                  1024, 4096, 65535, 65536, 1 << 20, INT32_MAX, (json_int_t)INT32_MAX + 1, INT32_MIN,
                                  UINT32_MAX, (json_int_t)1 << 40, (json_int_t)1 << 62, INT64_MAX, INT64_MIN};
static const char *const pieces[] = {
	"{\"slice\": [null, null, null]}", "{\"slice\": [1, 5, 2]}", "{\"slice\": [0, {\"sym\": \"u0\"}, 1]}",
	"{\"float\": \"nan\"}", "{\"float\": \"-inf\"}", "{\"dtype\": \"float32\"}", "{\"sym\": \"u0\"}",
	"{\"sym\": null}", "{\"dtype\": \"float32\", \"shape\": [\"u0\", 128]}", "{\"dtype\": \"bool\", \"sym\": null}",
	"[[1, 0]]", "[0, 1]", "[]", "{}", "null", "true", "false", "0.5", "-0.0", "1e308", "1e-310", "[null]", "[128, 128]",
	"{\"tuple\": []}", "[[\"aten.exp.default\"]]", "[8, 8, 32, 64]", "{\"copy\": {\"wide\": [8, 8, 32, 64]}}"};
/* clang-format on */

#define SOME(d, list) (list)[draw((d), sizeof(list) / sizeof *(list))]

static json_t *string_known(Draw *d) {
	switch (draw(d, 5)) {
	case 0: return json_string(SOME(d, dtypes));
	case 1: return json_string(op_rows[draw(d, OP_COUNT)].target);
	case 2: return json_string(SOME(d, names));
	default: return json_string(SOME(d, words));
	}
}

/* A value for what stands under that name. */
static json_t *value_known(Draw *d, const char *under) {
	if (!draw_one_in(d, 6)) {
		if (strcmp(under, "target") == 0)
			return json_string(op_rows[draw(d, OP_COUNT)].target);
		if (strcmp(under, "dtype") == 0)
			return json_string(SOME(d, dtypes));
	}
	switch (draw(d, 4)) {
	case 0: return string_known(d);
	case 1: return json_loads(SOME(d, pieces), JSON_DECODE_ANY, NULL);
	default: return json_integer(SOME(d, ints));
	}
}

static const char *name_known(Draw *d) {
	return draw_one_in(d, 2) ? SOME(d, names) : key_rows[draw(d, KEY_COUNT)].name;
}

/* ---- changes -------------------------------------------------------------------------------------------------------
 */

/* One that stands under the same name, here or there; NULL after some tries. */
static const Slot *slot_alike(Mutation *m, const Slot *slot) {
	enum { TRIES = 200 };
	const Slots *among = m->there.count && draw_one_in(&m->d, 2) ? &m->there : &m->here;
	for (int i = 0; i < TRIES; i++) {
		const Slot *found = &among->at[draw(&m->d, (uint32_t)among->count)];
		if (found != slot && strcmp(found->under, slot->under) == 0 && !found->key == !slot->key)
			return found;
	}
	return NULL;
}

static void put(const Slot *slot, json_t *value) {
	if (slot->key)
		json_object_set_new(slot->container, slot->key, value);
	else
		json_array_set_new(slot->container, slot->index, value);
}

static json_t *int_beside(Draw *d, json_int_t value) {
	switch (draw(d, 6)) {
	case 0: return json_integer((json_int_t)((uint64_t)value + 1));
	case 1: return json_integer((json_int_t)((uint64_t)value - 1));
	case 2: return json_integer((json_int_t)((uint64_t)value * 2));
	case 3: return json_integer(value / 2);
	case 4: return json_integer((json_int_t)(0 - (uint64_t)value));
	default: return json_integer(SOME(d, ints));
	}
}

/* A word of the list is put in, or a part goes. */
static json_t *string_beside(Draw *d, const char *text) {
	char made[512];
	size_t length = strlen(text), cut = draw(d, (uint32_t)length + 1);
	if (length > 200)
		return string_known(d);
	const char *rest = text + cut;
	if (draw_one_in(d, 2) && *rest)
		(void)snprintf(made, sizeof made, "%.*s%s", (int)cut, text, rest + 1);
	else
		(void)snprintf(made, sizeof made, "%.*s%s%s", (int)cut, text, SOME(d, words), rest);
	return json_string(made); /* NULL: it was cut within a character */
}

static json_t *beside(Draw *d, const Slot *slot) {
	if (json_is_integer(slot->value))
		return int_beside(d, json_integer_value(slot->value));
	if (json_is_string(slot->value) && draw_one_in(d, 3))
		return string_beside(d, json_string_value(slot->value));
	return value_known(d, slot->under);
}

static void change_list(Mutation *m, const Slot *slot) {
	json_t *list = slot->container;
	const Slot *alike = slot_alike(m, slot);
	switch (draw(&m->d, 4)) {
	case 0: json_array_remove(list, slot->index); break;
	case 1: json_array_insert_new(list, slot->index, json_deep_copy(slot->value)); break;
	case 2: json_array_insert_new(list, slot->index, json_deep_copy(alike ? alike->value : slot->value)); break;
	default: {
		size_t other = draw(&m->d, (uint32_t)json_array_size(list));
		json_t *kept = json_incref(json_array_get(list, other));
		json_array_set(list, other, slot->value);
		json_array_set_new(list, slot->index, kept);
	}
	}
}

static void change_object(Mutation *m, const Slot *slot) {
	if (draw_one_in(&m->d, 2)) {
		json_object_del(slot->container, slot->key);
		return;
	}
	const char *name = name_known(&m->d);
	json_object_set_new(slot->container, name, value_known(&m->d, name));
}

/* The slots do not hold after it. */
static void change(Mutation *m) {
	const Slot *slot = &m->here.at[draw(&m->d, (uint32_t)m->here.count)];
	uint32_t way = draw(&m->d, 10);
	if (way < 5) {
		const Slot *alike = slot_alike(m, slot);
		put(slot, alike ? json_deep_copy(alike->value) : value_known(&m->d, slot->under));
	} else if (way < 8) {
		put(slot, beside(&m->d, slot));
	} else if (slot->key) {
		change_object(m, slot);
	} else {
		change_list(m, slot);
	}
}

/* ---- repairs --------------------------------------------------------------------------------------------------------
 */

static bool is_reported(const Diag *d, const char *pointer) {
	for (uint32_t i = 0; i < d->list.count; i++) {
		const Diagnostic *x = &d->list.at[i];
		if (x->at.pointer && strcmp(x->at.pointer, pointer) == 0 &&
		    (strcmp(x->code, "type-mismatch") == 0 || strcmp(x->code, "missing-meta") == 0))
			return true;
	}
	return false;
}

static json_t *node_at(json_t *root, const char *pointer) {
	unsigned graph, node;
	if (sscanf(pointer, "/graphs/%u/nodes/%u", &graph, &node) != 2)
		return NULL;
	return json_array_get(json_object_get(json_array_get(json_object_get(root, "graphs"), graph), "nodes"), node);
}

/* Nodes that were said to be of another type are declared as they are inferred; false where there is none. */
static bool repair(json_t *root, Arena *a) {
	static const Source source = {.name = "graph.json", .text = "", .length = 0};
	Diag d;
	bool any = false;
	diag_init(&d, a);
	Module *m = module_load_parsed(a, &d, &source, root, target_find("v6e"), NULL);
	if (!m || module_verify_symbols(m, &d))
		return false;
	for (NodeId n = 0; n < m->nodes.count; n++) {
		Place at = node_place(m, &d, n);
		json_t *node = at.pointer && is_reported(&d, at.pointer) ? node_at(root, at.pointer) : NULL;
		TypeId type;
		if (!node || !op_infer(m, &d, n, &type))
			continue;
		Text text;
		text_init(&text, a);
		type_emit_json(m, type, &text);
		json_object_set_new(node, "meta", json_loads(text.at ? text.at : "null", JSON_DECODE_ANY, NULL));
		any = true;
	}
	return any;
}

static void repair_some(json_t *root) {
	enum { ROUNDS = 4 };
	jmp_buf oom;
	Arena a;
	arena_init(&a, &oom);
	if (setjmp(oom) == 0)
		for (int i = 0; i < ROUNDS && repair(root, &a); i++)
			;
	arena_free(&a);
}

/* ---- all of it ------------------------------------------------------------------------------------------------------
 */

/* What jansson takes for one mutation: nothing is given back before its end. None left: nothing came of it. */
static struct {
	max_align_t at[(32 << 20) / sizeof(max_align_t)];
	size_t used;
} pool;

static void *pool_take(size_t size) {
	size_t units = size / sizeof *pool.at + 1;
	if (units > sizeof pool.at / sizeof *pool.at - pool.used)
		return NULL;
	pool.used += units;
	return &pool.at[pool.used - units];
}

static void pool_keep(void *at) { (void)at; }

static size_t mutated(uint8_t *data, size_t size, size_t room, unsigned seed, const uint8_t *other, size_t other_size) {
	static Slot here[SLOTS_MOST], there[SLOTS_MOST];
	Mutation m = {.d = {seed}};
	json_t *root = json_loadb((const char *)data, size, 0, NULL);
	json_t *another = other ? json_loadb((const char *)other, other_size, 0, NULL) : NULL;
	if (!root)
		return 0;
	m.there = slots_of(another, there);
	do {
		m.here = slots_of(root, here);
		if (m.here.count)
			change(&m);
	} while (draw_one_in(&m.d, 3));
	if (json_object_get(root, "graphs") && draw_one_in(&m.d, 2))
		repair_some(root);
	size_t made = json_dumpb(root, (char *)data, room, JSON_COMPACT);
	return made > room ? 0 : made;
}

size_t mutate_json(uint8_t *data, size_t size, size_t room, unsigned seed, const uint8_t *other, size_t other_size) {
	json_malloc_t malloc_before;
	json_free_t free_before;
	json_get_alloc_funcs(&malloc_before, &free_before);
	json_set_alloc_funcs(pool_take, pool_keep);
	pool.used = 0;
	size_t made = mutated(data, size, room, seed, other, other_size);
	json_set_alloc_funcs(malloc_before, free_before);
	return made;
}
