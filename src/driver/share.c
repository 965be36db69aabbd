/* share.c - what the compilations of a sweep remember for each other. */
#define _POSIX_C_SOURCE 200809L
#include "share.h"

#include <pthread.h>

enum {
	KNOWN_SLOTS = 1 << 13, /* ways, 2 MiB; a later one takes the slot of an earlier one */
	MODULES = 24           /* of one thread: what passes made */
};

typedef struct KnownSlot {
	ShareKey key;
	Known known;
} KnownSlot;

struct SharedWays {
	pthread_mutex_t lock;
	KnownSlot slots[KNOWN_SLOTS];
};

/* What passes made of a Module, in memory of its own. */
typedef struct Prepared {
	ShareKey key;
	Arena arena;
	Module *module;
	uint64_t used; /* by this compilation last */
} Prepared;

struct Shared {
	SharedWays *ways;
	const Module *start; /* read and verified; stays as it is */
	Prepared modules[MODULES];
	bool drops_loops; /* passes do: what they make depends on more than its key says */
	uint64_t now;     /* compilations so far */
};

SharedWays *shared_ways_new(Arena *a) {
	SharedWays *w = arena_alloc(a, sizeof *w);
	pthread_mutex_init(&w->lock, NULL);
	return w;
}

Shared *shared_new(Arena *a, SharedWays *ways, const Module *start, jmp_buf *oom) {
	Shared *s = arena_alloc(a, sizeof *s);
	s->ways = ways;
	s->start = start;
	for (size_t i = 0; i < MODULES; i++)
		arena_init(&s->modules[i].arena, oom);
	return s;
}

void shared_free(Shared *s) {
	for (size_t i = 0; i < MODULES; i++)
		arena_free(&s->modules[i].arena);
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* Seven bits a byte, the lowest first; small ints of either sign are short. */
static void put(ShareKey *key, int64_t value) {
	uint64_t x = ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0);
	for (; key->count < SHARE_KEY_MAX; x >>= 7) {
		key->at[key->count++] = (uint8_t)((x & 127) | (x > 127 ? 128 : 0));
		if (x <= 127)
			return;
	}
	key->count = SHARE_KEY_MAX + 1;
}

static void put_list(ShareKey *key, const ConfigList *list) {
	put(key, list->values.count);
	for (uint32_t i = 0; i < list->values.count; i++)
		put(key, list->values.at[i]);
}

static void put_key(ShareKey *key, const KeyRow *row, const Config *c) {
	const void *field = key_field(row, c);
	put(key, key_is_set(row, c));
	if (!key_is_set(row, c) && row->kind != KEY_WORD && row->kind != KEY_SWITCH && row->kind != KEY_NUMBER)
		return;
	if (key_is_list(row)) {
		put_list(key, field);
	} else if (row->kind == KEY_ORDERS) {
		const ConfigOrders *orders = field;
		put(key, orders->values.count);
		for (uint32_t i = 0; i < orders->values.count; i++)
			put_list(key, &orders->values.at[i]);
	} else {
		put(key, ((const ConfigKey *)field)->value);
	}
}

/* Sizes are those that blocks have, whoever chose them. `passes`: only what passes depend on. They ask whether loops
 * are unrolled, but not how else they run, nor in which order (tests/command/test_sweep.py). */
static ShareKey key_of(const Module *m, bool passes) {
	ShareKey key = {.count = 0};
	for (const KeyRow *row = key_rows; row < key_rows + KEY_COUNT; row++) {
		int number = (int)(row - key_rows);
		if (number == KEY_OF_block_sizes || (passes && number == KEY_OF_loop_orders))
			continue;
		if (passes && number == KEY_OF_loop_type)
			put(&key, module_loop_type(m) == LOOP_UNROLL);
		else
			put_key(&key, row, &m->config);
	}
	for (uint32_t i = 0; i < m->config.tunables.count; i++)
		put(&key, m->config.tunables.at[i]);
	for (BlockId b = 0; b < m->blocks.count; b++)
		put(&key, m->block_size.at[b]);
	put(&key, m->one_hot | m->split_rows << 1 | m->whole_rows << 2 | m->fenced << 3);
	if (key.count > SHARE_KEY_MAX)
		key.count = 0;
	return key;
}

ShareKey share_key(const Module *m) { return key_of(m, false); }

static bool same_key(const ShareKey *a, const ShareKey *b) {
	return a->count == b->count && memcmp(a->at, b->at, a->count) == 0;
}

/* FNV-1a (Fowler, Noll and Vo). */
static uint64_t hash_of(const ShareKey *key) {
	uint64_t hash = 0xcbf29ce484222325u;
	for (uint32_t i = 0; i < key->count; i++)
		hash = (hash ^ key->at[i]) * 0x100000001b3u;
	return hash ^ (hash >> 32);
}

/* ---- ways -------------------------------------------------------------------------------------------------------- */

bool share_find(Shared *s, const ShareKey *key, Known *out) {
	if (!key->count)
		return false;
	pthread_mutex_lock(&s->ways->lock);
	const KnownSlot *slot = &s->ways->slots[hash_of(key) % KNOWN_SLOTS];
	bool found = same_key(&slot->key, key);
	if (found)
		*out = slot->known;
	pthread_mutex_unlock(&s->ways->lock);
	return found;
}

void share_add(Shared *s, const ShareKey *key, const Known *known) {
	if (!key->count)
		return;
	pthread_mutex_lock(&s->ways->lock);
	s->ways->slots[hash_of(key) % KNOWN_SLOTS] = (KnownSlot){*key, *known};
	pthread_mutex_unlock(&s->ways->lock);
}

/* ---- what passes make -------------------------------------------------------------------------------------------- */

void share_start(Shared *s) { s->now++; }

static Prepared *prepared(Shared *s, const ShareKey *key) {
	for (size_t i = 0; i < MODULES; i++)
		if (s->modules[i].module && same_key(&s->modules[i].key, key))
			return &s->modules[i];
	return NULL;
}

/* The one whose use is longest ago; NULL: this compilation has clones of all, which share their strings. */
static Prepared *oldest(Shared *s) {
	Prepared *best = &s->modules[0];
	for (size_t i = 1; i < MODULES; i++)
		if (s->modules[i].used < best->used)
			best = &s->modules[i];
	return best->used == s->now ? NULL : best;
}

/* What a compilation says of a Module before the passes, but for the configuration. */
static void copy_settings(const Module *from, Module *to) {
	to->target = from->target;
	to->enlarged = from->enlarged;
	to->defaults = from->defaults;
	to->default_level = from->default_level;
	to->one_hot = from->one_hot;
	to->split_rows = from->split_rows;
	to->whole_rows = from->whole_rows;
	to->settled = from->settled;
}

/* The Module that is asked for, made again of what stays: strings and types of its own lie in `a` alone. */
static Module *made_again(const Shared *s, const Module *asked, Arena *a) {
	Module start = *s->start;
	start.config = asked->config;
	copy_settings(asked, &start);
	return module_clone(&start, a);
}

/* Passes drop the entries of loops that they remove. */
static uint32_t listed_loops(const Config *c) {
	uint32_t count = c->loop_orders.values.count;
	for (const KeyRow *row = key_rows; row < key_rows + KEY_COUNT; row++)
		if (row->each == EACH_LOOP && key_is_list(row))
			count += ((const ConfigList *)key_field(row, c))->values.count;
	return count;
}

/* NULL: passes refuse it, which is to be said, or it depends on more. */
static Prepared *prepare(const Compilation *c, const ShareKey *key, const Module *asked) {
	Prepared *p = oldest(c->shared);
	Diag quiet;
	if (!p)
		return NULL;
	p->module = NULL;
	arena_reset(&p->arena);
	diag_init(&quiet, &p->arena);
	PassContext context = {.arena = &p->arena, .diag = &quiet, .module = made_again(c->shared, asked, &p->arena)};
	if (!compile_configure(context.module, &quiet) || !compile_passes(c, &context) || quiet.errors)
		return NULL;
	if (listed_loops(&context.module->config) != listed_loops(&asked->config)) {
		c->shared->drops_loops = true;
		return NULL;
	}
	p->key = *key;
	p->module = context.module;
	return p;
}

/* As the one that is asked for is after them. */
static Module *taken(Prepared *p, const Module *asked, Arena *a) {
	Module *m = module_clone(p->module, a);
	m->config = asked->config;
	m->narrowed.at = asked->narrowed.at;
	copy_settings(asked, m);
	return m;
}

bool share_passes(const Compilation *c, PassContext *context) {
	Shared *s = c->shared;
	const Module *asked = context->module;
	if (!s || s->drops_loops)
		return compile_passes(c, context);
	ShareKey key = key_of(asked, true);
	Prepared *p = key.count ? prepared(s, &key) : NULL;
	p = p || !key.count ? p : prepare(c, &key, asked);
	if (!p)
		return compile_passes(c, context);
	p->used = s->now;
	context->module = taken(p, asked, context->arena);
	return true;
}
