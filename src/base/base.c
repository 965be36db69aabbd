/* base.c - the arena, interned strings, maps and checked arithmetic. */
#include "base.h"

#include <stdlib.h>

/* In builds with a sanitizer: each allocation is a chunk of its own size, with poison behind it, and is poisoned itself
 * when it is forgotten, so that nothing can be read past its end or later without the sanitizer's knowing. */
#ifndef ARENA_EXACT
#define ARENA_EXACT 0
#endif
#if ARENA_EXACT
#include <sanitizer/asan_interface.h>
#endif

/* There, and where faults are planted (tests/planted), the room behind the last entry of a list holds nothing that
 * could pass for one. */
#ifndef VEC_FILLED
#define VEC_FILLED ARENA_EXACT
#endif

enum { CHUNK_MIN = ARENA_EXACT ? 0 : 256 * 1024, CHUNK_MAX = ARENA_EXACT ? 0 : 32 * 1024 * 1024 };

struct ArenaChunk {
	ArenaChunk *previous;
	size_t size; /* of data[] */
#if ARENA_EXACT
	struct Slab *slab;
#endif
	max_align_t data[];
};

/* ---- exact chunks ----------------------------------------------------------------------------------------------- */

#if ARENA_EXACT
/* Many chunks are cut from one piece of malloc's: one each would be ten times as slow. None is used twice. The arena's
 * newest slab stands where others have spare chunks. */
typedef struct Slab {
	size_t used, size;
	size_t users; /* chunks, and the arena while it is its newest; then it is given back */
	max_align_t data[];
} Slab;
enum { SLAB_SIZE = 32 * 1024, GAP = 32 };

static Slab *slab_new(size_t size) {
	Slab *s = calloc(1, sizeof *s + size);
	if (!s)
		return NULL;
	s->size = size;
	ASAN_POISON_MEMORY_REGION(s->data, size);
	return s;
}

static void slab_leave(Slab *s) {
	if (s && --s->users == 0)
		free(s);
}

/* With room for so much: the newest one, or one for it alone. */
static Slab *slab_with(Arena *a, size_t size) {
	Slab *newest = (Slab *)a->spare;
	if (newest && newest->size - newest->used >= size)
		return newest;
	if (size > SLAB_SIZE / 4)
		return slab_new(size);
	Slab *s = slab_new(SLAB_SIZE);
	if (!s)
		return NULL;
	slab_leave(newest);
	s->users = 1;
	a->spare = (ArenaChunk *)s;
	return s;
}

/* Zeroed, as calloc's. */
static ArenaChunk *chunk_make(Arena *a, size_t size) {
	const size_t unit = sizeof(max_align_t), whole = (size + unit - 1) / unit * unit + GAP;
	Slab *s = size > SIZE_MAX / 2 ? NULL : slab_with(a, whole);
	if (!s)
		return NULL;
	ArenaChunk *c = (ArenaChunk *)((char *)s->data + s->used);
	ASAN_UNPOISON_MEMORY_REGION(c, size);
	c->slab = s;
	s->used += whole;
	s->users++;
	return c;
}

static void chunk_free(ArenaChunk *c) {
	Slab *s = c->slab;
	ASAN_POISON_MEMORY_REGION(c, sizeof *c + c->size);
	slab_leave(s);
}

static void spare_free(Arena *a) { slab_leave((Slab *)a->spare); }
#else
static ArenaChunk *chunk_make(Arena *a, size_t size) {
	(void)a;
	return calloc(1, size);
}

static void chunk_free(ArenaChunk *c) { free(c); }
#endif

/* ---- arena ------------------------------------------------------------------------------------------------------ */

void arena_init(Arena *a, jmp_buf *oom) { *a = (Arena){.oom = oom}; }

static void chunks_free(ArenaChunk *c) {
	for (ArenaChunk *previous; c; c = previous) {
		previous = c->previous;
		chunk_free(c);
	}
}

#if !ARENA_EXACT
static void spare_free(Arena *a) { chunks_free(a->spare); }
#endif

void arena_free(Arena *a) {
	chunks_free(a->chunk);
	spare_free(a);
	*a = (Arena){.oom = a->oom, .documents = a->documents};
}

void arena_reset(Arena *a) {
	ArenaChunk *keep = a->chunk;
	if (!keep)
		return;
	char *dirty = a->at > a->clean ? a->at : a->clean;
	a->chunk = keep->previous;
	arena_free(a);
	keep->previous = NULL;
	a->chunk = keep;
	a->at = (char *)keep->data;
	a->end = a->at + keep->size;
	a->clean = dirty;
	a->total = keep->size;
}

ArenaMark arena_mark(const Arena *a) {
	return (ArenaMark){.chunk = a->chunk, .previous = a->chunk ? a->chunk->previous : NULL, .at = a->at};
}

static void chunk_forget(Arena *a, ArenaChunk *c) {
	if (ARENA_EXACT) {
		chunk_free(c);
		return;
	}
	c->previous = a->spare;
	a->spare = c;
}

/* The chunks from *first to before `last` become spare ones. */
static void chunks_spare(Arena *a, ArenaChunk **first, const ArenaChunk *last) {
	for (ArenaChunk *c; (c = *first) != last;) {
		*first = c->previous;
		chunk_forget(a, c);
	}
}

void arena_release(Arena *a, ArenaMark mark) {
	bool same = a->chunk == mark.chunk;
	char *dirty = same && a->at > a->clean ? a->at : a->clean;
	chunks_spare(a, &a->chunk, mark.chunk);
	if (!mark.chunk) {
		a->at = a->end = NULL;
		return;
	}
	chunks_spare(a, &mark.chunk->previous, mark.previous); /* what had chunks for itself */
	a->at = mark.at;
	a->end = (char *)mark.chunk->data + mark.chunk->size;
	a->clean = same ? dirty : a->end;
}

void arena_take(Arena *a, Arena *from) {
	chunks_spare(a, &from->chunk, NULL);
	arena_free(from);
}

_Noreturn static void arena_fail(Arena *a) {
	if (a->oom)
		longjmp(*a->oom, 1);
	abort();
}

/* Large chunks come from the system, and are zero without anybody's work. */
static ArenaChunk *chunk_new(Arena *a, size_t room) {
	ArenaChunk *c = room > SIZE_MAX - sizeof *c ? NULL : chunk_make(a, sizeof *c + room);
	if (!c)
		arena_fail(a);
	c->size = room;
	a->total += room;
	return c;
}

/* The first of the spare ones that has the room; NULL. */
static ArenaChunk *chunk_spare(Arena *a, size_t room) {
	ArenaChunk **at = &a->spare, *c;
	if (ARENA_EXACT)
		return NULL;
	while (*at && (*at)->size < room)
		at = &(*at)->previous;
	if ((c = *at))
		*at = c->previous;
	return c;
}

/* Allocations go on in the chunk that has more room left; what is too large to share a fresh one has it for itself. */
void *arena_grow(Arena *a, size_t size) {
	const size_t unit = ARENA_EXACT ? 1 : sizeof(max_align_t);
	if (size > SIZE_MAX - unit)
		arena_fail(a);
	size = (size + unit - 1) / unit * unit;
	size_t room = a->chunk ? a->chunk->size * 2 : CHUNK_MIN;
	if (room > CHUNK_MAX)
		room = CHUNK_MAX;
	if (size > room / 4)
		room = size;
	ArenaChunk *spare = chunk_spare(a, room), *c = spare ? spare : chunk_new(a, room);
	if (spare)
		memset(c->data, 0, size);
	if (a->chunk && c->size - size <= (size_t)(a->end - a->at)) {
		c->previous = a->chunk->previous;
		a->chunk->previous = c;
		return c->data;
	}
	c->previous = a->chunk;
	a->chunk = c;
	a->at = (char *)c->data + size;
	a->end = (char *)c->data + c->size;
	a->clean = spare ? a->end : NULL;
	return c->data;
}

static size_t checked_size(Arena *a, size_t count, size_t size) {
	size_t all;
	if (__builtin_mul_overflow(count, size, &all))
		arena_fail(a);
	return all;
}

void *arena_copy(Arena *a, const void *at, size_t count, size_t size) {
	void *copy = arena_raw(a, checked_size(a, count, size));
	return count ? memcpy(copy, at, count * size) : copy;
}

char *arena_strdup(Arena *a, const char *s) { return arena_copy(a, s, strlen(s) + 1, 1); }

void *vec_grow(Arena *a, void *at, uint32_t *room, uint32_t count, uint32_t extra, size_t size) {
	if (extra <= *room - count)
		return at;
	uint64_t want = (uint64_t)count + extra, twice = (uint64_t)*room * 2;
	if (want < twice)
		want = twice;
	if (want < 8)
		want = 8;
	if (want >= NONE) /* indices are 32 bits, and NONE is none of them */
		arena_fail(a);
	void *grown = arena_raw(a, checked_size(a, (size_t)want, size));
	if (count)
		memcpy(grown, at, count * size);
	if (VEC_FILLED)
		memset((char *)grown + count * size, 0xA5, ((size_t)want - count) * size);
	*room = (uint32_t)want;
	return grown;
}

/* ---- strings ---------------------------------------------------------------------------------------------------- */

static uint64_t word_at(const char *s) {
	uint64_t word;
	memcpy(&word, s, sizeof word);
	return word;
}

/* Eight bytes at a time; the last eight may overlap those before. */
static uint64_t hash_string(const char *s, size_t length) {
	uint64_t h = length, word = 0;
	for (size_t i = 0; i + 8 < length; i += 8) {
		h = (h ^ word_at(s + i)) * 0x9e3779b97f4a7c15u;
		h ^= h >> 32;
	}
	for (size_t i = 0; i < length && length < 8; i++)
		word = word << 8 | (unsigned char)s[i];
	h = (h ^ (length < 8 ? word : word_at(s + length - 8))) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 32;
}

static uint32_t string_slot(const StringTable *t, const char *s, size_t length) {
	uint32_t i = (uint32_t)hash_string(s, length) & (t->room - 1);
	while (t->slot[i] && strcmp(t->slot[i], s) != 0)
		i = (i + 1) & (t->room - 1);
	return i;
}

static void string_rehash(Arena *a, StringTable *t) {
	StringTable old = *t;
	if (old.room > NONE / 4)
		arena_fail(a);
	t->room = old.room ? old.room * 2 : 512;
	t->slot = arena_array(a, t->room, sizeof *t->slot);
	for (uint32_t i = 0; i < old.room; i++)
		if (old.slot[i])
			t->slot[string_slot(t, old.slot[i], strlen(old.slot[i]))] = old.slot[i];
}

const char *string_intern(Arena *a, StringTable *t, const char *s) {
	if (t->count >= t->room / 4 * 3)
		string_rehash(a, t);
	size_t length = strlen(s);
	uint32_t i = string_slot(t, s, length);
	if (!t->slot[i]) {
		t->slot[i] = arena_copy(a, s, length + 1, 1);
		t->count++;
	}
	return t->slot[i];
}

const char *string_find(const StringTable *t, const char *s) {
	return t->room ? t->slot[string_slot(t, s, strlen(s))] : NULL;
}

/* ---- maps ------------------------------------------------------------------------------------------------------- */

static uint32_t map_slot(const Map *map, uint64_t key) {
	uint64_t h = key * 0x9e3779b97f4a7c15u;
	uint32_t i = (uint32_t)(h >> 32) & (map->room - 1);
	while (map->slot[i].used && map->slot[i].key != key)
		i = (i + 1) & (map->room - 1);
	return i;
}

uint32_t map_get(const Map *map, uint64_t key) {
	if (!map->room)
		return NONE;
	const MapSlot *s = &map->slot[map_slot(map, key)];
	return s->used ? s->value : NONE;
}

static void map_rehash(Arena *a, Map *map) {
	Map old = *map;
	if (old.room > NONE / 4)
		arena_fail(a);
	map->room = old.room ? old.room * 4 : 16;
	map->slot = arena_array(a, map->room, sizeof *map->slot);
	for (uint32_t i = 0; i < old.room; i++)
		if (old.slot[i].used)
			map->slot[map_slot(map, old.slot[i].key)] = old.slot[i];
}

void map_put(Arena *a, Map *map, uint64_t key, uint32_t value) {
	if (map->count >= map->room / 2)
		map_rehash(a, map);
	MapSlot *s = &map->slot[map_slot(map, key)];
	if (!s->used)
		map->count++;
	*s = (MapSlot){.key = key, .value = value, .used = true};
}

Map map_clone(Arena *a, const Map *map) {
	Map copy = *map;
	if (map->room)
		copy.slot = arena_copy(a, map->slot, map->room, sizeof *copy.slot);
	return copy;
}

/* ---- arithmetic ------------------------------------------------------------------------------------------------- */

bool checked_floordiv(int64_t a, int64_t b, int64_t *out) {
	if (b == 0 || (a == INT64_MIN && b == -1))
		return false;
	*out = a / b - (a % b != 0 && (a < 0) != (b < 0));
	return true;
}

bool checked_mod(int64_t a, int64_t b, int64_t *out) {
	if (b == 0)
		return false;
	if (b == -1) { /* INT64_MIN % -1 traps */
		*out = 0;
		return true;
	}
	int64_t r = a % b;
	*out = r != 0 && (r < 0) != (b < 0) ? r + b : r;
	return true;
}

/* ---- spelling --------------------------------------------------------------------------------------------------- */

enum { WORD_MAX = 64 };

/* Edit distance (a swap of neighbours counts as one edit), or limit + 1 when it is more than `limit`. */
static size_t edit_distance(const char *a, size_t n, const char *b, size_t m, size_t limit) {
	if ((n > m ? n - m : m - n) > limit)
		return limit + 1;
	size_t rows[3][WORD_MAX + 1], *before = rows[0], *above = rows[1], *row = rows[2];
	for (size_t j = 0; j <= m; j++)
		above[j] = j;
	for (size_t i = 1; i <= n; i++) {
		row[0] = i;
		size_t least = i;
		for (size_t j = 1; j <= m; j++) {
			size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
			if (above[j] + 1 < best)
				best = above[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
				best = before[j - 2] + 1;
			row[j] = best;
			if (best < least)
				least = best;
		}
		if (least > limit)
			return limit + 1;
		size_t *spare = before;
		before = above;
		above = row;
		row = spare;
	}
	return above[m];
}

const char *name_nearest(const char *word, const char *const *names) {
	size_t n = strlen(word);
	if (n == 0 || n > WORD_MAX)
		return NULL;
	size_t limit = n / 3 ? n / 3 : n > 1; /* one letter is like every other */
	const char *best = NULL;
	for (; *names; names++) {
		size_t m = strlen(*names);
		if (m > WORD_MAX)
			continue;
		size_t distance = edit_distance(word, n, *names, m, limit);
		if (distance <= limit) {
			best = *names;
			if (distance == 0)
				break;
			limit = distance - 1; /* a later name must be nearer */
		}
	}
	return best;
}
