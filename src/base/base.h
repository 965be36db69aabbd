/* base.h - memory, vectors and checked arithmetic: the only place where allocation failure and overflow are handled;
 * text; and every error, warning and note that a user sees, and where it points.
 *
 * An Arena owns everything that a compilation makes; arena_free() gives it all back at once. Running out of memory is a
 * diagnostic like any other: the arena carries a jump target (`oom`) that the entry points in libpallasc.c and main.c
 * set, so that no other code checks for NULL. */
#ifndef PALLASC_BASE_H
#define PALLASC_BASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The index that means "no such node, tensor, ...". */
#define NONE UINT32_MAX

#if defined(__GNUC__)
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define PRINTF_LIKE(fmt, args)
#endif

typedef struct ArenaChunk ArenaChunk;

/* A bump allocator. Zero-initialise, then arena_init(). */
typedef struct Arena {
	ArenaChunk *chunk;
	char *at, *end;          /* of the chunk, what is free */
	char *clean;             /* what is free from here on is zero already */
	jmp_buf *oom;            /* where to go when malloc fails; NULL: abort() */
	size_t total;            /* bytes asked of malloc so far */
	ArenaChunk *spare;       /* to be used before malloc is asked again; not zero */
	struct Arena *documents; /* where what jansson reads lies (main.c); NULL: in memory of its own */
} Arena;

void arena_init(Arena *a, jmp_buf *oom);
void arena_free(Arena *a);
/* Forgets every allocation but keeps one chunk for reuse: makes the next compilation free of malloc. */
void arena_reset(Arena *a);
/* Forgets every allocation since the mark was made, and keeps their memory for reuse. */
typedef struct ArenaMark {
	ArenaChunk *chunk, *previous;
	char *at;
} ArenaMark;
ArenaMark arena_mark(const Arena *a);
void arena_release(Arena *a, ArenaMark mark);
/* Takes all memory of another arena, whose allocations are forgotten, for what it allocates itself from now on. */
void arena_take(Arena *a, Arena *from);
/* What does not fit the chunk; zeroed. */
void *arena_grow(Arena *a, size_t size);
/* `size` bytes, aligned for any type, that the caller fills. Never NULL. */
static inline void *arena_raw(Arena *a, size_t size) {
	const size_t unit = sizeof(max_align_t), rounded = (size + unit - 1) / unit * unit;
	if (rounded < size || rounded >= (size_t)(a->end - a->at)) /* no room at all before the first chunk */
		return arena_grow(a, size);
	void *piece = a->at;
	a->at += rounded;
	return piece;
}
/* The same, zeroed. */
static inline void *arena_alloc(Arena *a, size_t size) {
	char *piece = arena_raw(a, size);
	return (uintptr_t)piece < (uintptr_t)a->clean ? memset(piece, 0, size) : piece;
}
/* `count` zeroed elements of `size` bytes each; the product is checked. */
static inline void *arena_array(Arena *a, size_t count, size_t size) {
	size_t all;
	if (__builtin_mul_overflow(count, size, &all))
		return arena_grow(a, SIZE_MAX); /* which nobody has */
	return arena_alloc(a, all);
}
/* A copy of so many. */
void *arena_copy(Arena *a, const void *at, size_t count, size_t size);
char *arena_strdup(Arena *a, const char *s);
char *arena_printf(Arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3);
char *arena_vprintf(Arena *a, const char *fmt, va_list ap);

/* A growing array that lives in an arena: declare `VEC(Node) nodes;`, then vec_push(arena, &nodes, node). Old storage
 * is abandoned to the arena when it grows (by doubling), so indices stay valid and pointers into it do not. */
#define VEC(T)                                                                                                         \
	struct {                                                                                                       \
		T *at;                                                                                                 \
		uint32_t count, room;                                                                                  \
	}
#define vec_reserve(a, v, n) ((v)->at = vec_grow((a), (v)->at, &(v)->room, (v)->count, (n), sizeof *(v)->at))
#define vec_push(a, v, x)                                                                                              \
	((v)->count == (v)->room ? (void)vec_reserve((a), (v), 1) : (void)0, (v)->at[(v)->count++] = (x))
/* Room for `extra` more elements than `count`; returns the storage, moved or not. */
void *vec_grow(Arena *a, void *at, uint32_t *room, uint32_t count, uint32_t extra, size_t size);

/* ASCII alone, in any locale. */
static inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
/* Of Python; keywords count too. */
static inline bool is_identifier(const char *s) {
	for (const char *c = s; *c; c++)
		if (!is_letter(*c) && (c == s || !is_digit(*c)))
			return false;
	return *s != '\0';
}

/* Strings are interned: equal strings are the same pointer, so names compare with ==. */
typedef struct StringTable {
	const char **slot;
	uint32_t count, room;
} StringTable;
const char *string_intern(Arena *a, StringTable *t, const char *s);
/* The interned string equal to `s`, or NULL if there is none. */
const char *string_find(const StringTable *t, const char *s);

/* From a 64-bit key to an index: names (by the address of the interned string) and ids. Never iterated, so nothing
 * depends on the order of addresses. */
typedef struct MapSlot {
	uint64_t key;
	uint32_t value;
	bool used;
} MapSlot;
typedef struct Map {
	MapSlot *slot;
	uint32_t count, room;
} Map;
/* NONE if there is no such key. */
uint32_t map_get(const Map *map, uint64_t key);
/* Adds or overwrites; NONE as the value forgets the key. */
void map_put(Arena *a, Map *map, uint64_t key, uint32_t value);
Map map_clone(Arena *a, const Map *map);
static inline uint64_t map_key(const char *interned) { return (uint64_t)(uintptr_t)interned; }

/* A string under construction. */
typedef struct Text {
	Arena *arena;
	char *at; /* NUL-terminated whenever length > 0 or room > 0 */
	size_t length, room;
} Text;
void text_init(Text *t, Arena *a);
/* Room for more than so many characters behind those that are there. */
void text_grow(Text *t, size_t extra);
/* n more characters, which the caller fills. Inline, as are those two: most of what is put is a few letters long. */
static inline char *text_more(Text *t, size_t n) {
	if (t->room - t->length <= n)
		text_grow(t, n);
	char *at = t->at + t->length;
	t->length += n;
	t->at[t->length] = '\0';
	return at;
}
static inline void text_putn(Text *t, const char *s, size_t n) {
	char *at = text_more(t, n);
	if (n)
		memcpy(at, s, n);
}
static inline void text_put(Text *t, const char *s) { text_putn(t, s, strlen(s)); }
void text_put_int(Text *t, int64_t value);
void text_printf(Text *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
void text_vprintf(Text *t, const char *fmt, va_list ap) PRINTF_LIKE(2, 0);
/* The shortest decimal text of a finite number that reads back as the same double; always with a '.' or an 'e', and
 * never with the locale's decimal point. Valid in JSON and in Python. */
void text_put_double(Text *t, double value);
/* The number that the text begins with, whose decimal point is '.' in any locale. The locale's is put there meanwhile:
 * behind the text is room for DECIMAL_POINT_MOST more bytes. */
enum { DECIMAL_POINT_MOST = 16 };
double text_read_double(char *number);
/* Bytes of the UTF-8 character at s (before end), and its code point; 0 if it is malformed. */
int utf8_decode(const char *s, const char *end, uint32_t *code);
/* Controls, invisible and bidirectional formatting: what a terminal must not get raw. */
bool utf8_unprintable(uint32_t code);
/* A quoted JSON string. UTF-8 is kept, but for unprintable characters, which are escaped, and bytes that are no UTF-8,
 * which become U+FFFD. */
void text_put_json(Text *t, const char *s);
/* One line of text for a terminal: unprintable characters and bytes that are no UTF-8 are escaped. */
void text_put_printable(Text *t, const char *s);

/* Checked int64 arithmetic: false (and *out untouched) when the true result does not fit. */
static inline bool checked_add(int64_t a, int64_t b, int64_t *out) {
	int64_t sum;
	return !__builtin_add_overflow(a, b, &sum) && (*out = sum, true);
}
static inline bool checked_sub(int64_t a, int64_t b, int64_t *out) {
	int64_t difference;
	return !__builtin_sub_overflow(a, b, &difference) && (*out = difference, true);
}
static inline bool checked_mul(int64_t a, int64_t b, int64_t *out) {
	int64_t product;
	return !__builtin_mul_overflow(a, b, &product) && (*out = product, true);
}
/* Python's // and %: rounded towards minus infinity, sign of the divisor. False when b is 0 or on overflow. */
bool checked_floordiv(int64_t a, int64_t b, int64_t *out);
bool checked_mod(int64_t a, int64_t b, int64_t *out);

static inline int64_t int_cdiv(int64_t a, int64_t b) { return a / b + (a % b > 0); } /* a >= 0, b > 0 */
/* The same; where that is above INT64_MAX, a is rounded down. */
static inline int64_t int_round_up(int64_t a, int64_t b) {
	int64_t up;
	return checked_mul(int_cdiv(a, b), b, &up) ? up : a / b * b;
}
static inline int64_t int_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t int_max(int64_t a, int64_t b) { return a > b ? a : b; }
/* The greatest common divisor; the least common multiple of two that are positive. */
static inline int64_t int_gcd(int64_t a, int64_t b) { return b ? int_gcd(b, a % b) : a < 0 ? -a : a; }
static inline int64_t int_lcm(int64_t a, int64_t b) { return a / int_gcd(a, b) * b; }

/* The one of `names` (NULL-terminated) with the smallest edit distance to `word` if that is at most a third of its
 * length (at least 1), else NULL. For "did you mean" hints. */
const char *name_nearest(const char *word, const char *const *names);

/* ---- diagnostics ------------------------------------------------------------------------------------------------- */

/* A document that the user gave: a graph, a configuration, a target. */
typedef struct Source {
	const char *name; /* as the user wrote it; "<stdin>" for standard input; "<command line>" for --set */
	const char *text; /* NUL-terminated at `length` */
	size_t length;
} Source;

/* A line of the program that a document was made of, as the document tells it. */
typedef struct Location {
	const char *file, *code; /* NULL: none */
	int64_t line;            /* 0: none */
} Location;

/* Where a diagnostic points. Made by the helpers below, passed by value. */
typedef struct Place {
	const Source *source; /* may be NULL: no place */
	const char *pointer;  /* JSON pointer into source; NULL: use line and column as they are */
	int line, column;     /* 1-based; 0: none. For syntax errors, from the JSON parser */
	bool at_key;          /* points at the member's name rather than at its value */
	Location loc; /* of the program, where the document's `loc` at `pointer` does not say it; no file: none */
} Place;

typedef enum { SEVERITY_ERROR, SEVERITY_WARNING, SEVERITY_NOTE } Severity;

/* Another place that a diagnostic is about. */
typedef struct Related {
	Place at;
	const char *message; /* one line: what stands there */
} Related;

typedef struct Diagnostic {
	Severity severity;
	const char *code; /* stable, kebab-case: "unknown-target"; a page of docs/diagnostics for each */
	Place at;
	const char *message; /* one line: what is wrong, naming the thing */
	const char *hint;    /* one line: what to do; NULL where the message says it all */
	VEC(Related) related;
} Diagnostic;

enum {
	DIAG_ERROR_LIMIT = 20,  /* further errors are counted, not kept */
	DIAG_OTHER_LIMIT = 50,  /* further warnings and notes are dropped */
	DIAG_RELATED_LIMIT = 4, /* of one diagnostic; further ones are dropped */
};

typedef struct Diag {
	Arena *arena;
	VEC(Diagnostic) list;
	uint32_t errors; /* all of them, also those past the limit */
	uint32_t others; /* warnings and notes */
	bool brief;      /* what costs time to find out, such as what would fit, is not wanted */
	bool dropped;    /* the last one is past the limit */
	bool reads_code; /* printing may read a line of the program from its file, where the document does not have it
	                  */
} Diag;

void diag_init(Diag *d, Arena *a);

/* A place `pointer_fmt...` (a JSON pointer, printf-formatted) in `source`. */
Place diag_place(Diag *d, const Source *source, const char *pointer_fmt, ...) PRINTF_LIKE(3, 4);

/* One member's name as a token of a JSON pointer: ~ and / are escaped. */
const char *diag_pointer_token(Diag *d, const char *key);
/* A place by byte offset: for what is no valid JSON. */
Place diag_place_offset(const Source *source, size_t offset);

/* Adds a diagnostic. `hint` may be NULL; it is copied. */
void diag_error(Diag *d, Place at, const char *code, const char *hint, const char *fmt, ...) PRINTF_LIKE(5, 6);
void diag_warning(Diag *d, Place at, const char *code, const char *hint, const char *fmt, ...) PRINTF_LIKE(5, 6);
void diag_note(Diag *d, Place at, const char *code, const char *hint, const char *fmt, ...) PRINTF_LIKE(5, 6);

/* Another place that the last diagnostic is about: "'x' is float32[u0]". Each place is kept once. */
void diag_related(Diag *d, Place at, const char *fmt, ...) PRINTF_LIKE(3, 4);

typedef enum { DIAG_TEXT, DIAG_JSON } DiagFormat;
/* Prints all in order. Text: where the document says of which line of a program a node is, that line,
 * `kernel.py:40: error: message [code]`, its code, and `--> graph.json:42:31: node 'x' (/graphs/0/nodes/7)`; else
 * `graph.json:42:31: error: ...`, that line and a caret, and the same without file and line. Then `hint: ...`, and the
 * places that it is about as notes of the same form. JSON: one object per line. `color`: ANSI colours in text. */
void diag_print(const Diag *d, FILE *out, DiagFormat format, bool color);

/* Line and column (1-based, column in bytes) of the value at `pointer` in valid JSON text; false if there is none. */
bool diag_locate(const Source *source, const char *pointer, int *line, int *column);
/* The byte offset of the value (or of its name) at `pointer`, or of the deepest part of `pointer` that exists: then
 * false. Linear in the text, no recursion. In locate.c. */
bool diag_offset(const Source *source, const char *pointer, bool key, size_t *offset);
/* The string at `pointer`, its escapes decoded, its first `max` bytes at most; NULL if there is none. */
const char *diag_string(Arena *a, const Source *source, const char *pointer, size_t max);

/* What a place is of, for people: the line of the program and the node. In origin.c. */
typedef struct Origin {
	Location loc;     /* no file: none */
	const char *node; /* its name; NULL: the place is in no node */
} Origin;
/* `read_code`: a line of code that the document lacks may be read from its file, beside the document or in the current
 * folder, if that is there and is Python. */
Origin origin_find(Arena *a, const Place *at, bool read_code);

#endif
