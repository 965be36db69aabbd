/* mutate_text.c - changes of kernel text by lines and tokens: what stands there is replaced by tokens from elsewhere in
 * it, from another text, or from the tables. */
#include "fuzz.h"
#include "codegen/kernel/kernel.h"

#include <stdlib.h>

/* Pieces of a text: lines, or tokens with the blanks before them. */
typedef struct Piece {
	const char *at;
	size_t length;
} Piece;
enum { PIECES_MOST = 40000 };
typedef struct Pieces {
	Piece *at;
	size_t count;
} Pieces;

static bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '.'; }

static size_t token_length(const char *at, const char *end) {
	const char *c = at;
	while (c < end && *c == ' ')
		c++;
	if (c == end)
		return (size_t)(c - at);
	if (*c == '"') {
		for (c++; c < end && *c != '"' && *c != '\n'; c++)
			;
		return (size_t)(c - at) + (c < end);
	}
	if (!is_word(*c))
		return (size_t)(c - at) + 1;
	while (c < end && is_word(*c))
		c++;
	return (size_t)(c - at);
}

static size_t line_length(const char *at, const char *end) {
	const char *c = memchr(at, '\n', (size_t)(end - at));
	return (size_t)((c ? c + 1 : end) - at);
}

static Pieces cut(const void *data, size_t size, size_t (*length_of)(const char *at, const char *end)) {
	Pieces p = {.at = malloc(PIECES_MOST * sizeof *p.at)};
	const char *at = size ? data : "", *end = at + size;
	while (p.at && at < end && p.count < PIECES_MOST) {
		size_t n = p.count + 1 == PIECES_MOST ? (size_t)(end - at) : length_of(at, end);
		p.at[p.count++] = (Piece){at, n};
		at += n;
	}
	return p;
}

/* clang-format off */
static const char *const words[] = {
#define KOP(e, name, ...) " " name,
#include "codegen/kernel/kernel_ops.def"
#undef KOP
	" vmem", " hbm", " smem", " dma", " in", " out", " inout", " scratch", " float32", " bfloat16", " float16", " int32",
	" int8", " int4", " bool", " uint32", " row", " column", " %0", " %1", " 0", " 1", " -1", " 128", " 2147483648",
	" 9223372036854775807", " 9223372036854775808", " 0.5", " 1e400", " nan", " inf", "{", "}", "(", ")", "[", "]",
	"[...]", ",", ":", " =", " +:", " *", " +", " -", " by", " //", " %", " \"x\"", " \"\\n\"", " \"\\u202e\"",
	" \"import\"", " \"\\\"\"", "\n", " #", " for", " loop", " pipeline", " yield", " return", " program", " kernel",
	" host", " grid", " if", "\xe2\x80\xa8", " <", " >=", " ==", " @0", " &"};
/* clang-format on */

static Piece word_known(Draw *d) {
	const char *word = words[draw(d, sizeof words / sizeof *words)];
	return (Piece){word, strlen(word)};
}

static Piece word_made(Draw *d) {
	static const char *const ops[] = {" add", " mul", " sub", " div", " maximum", " exp", " where", " dot"};
	const char *word = ops[draw(d, sizeof ops / sizeof *ops)];
	return (Piece){word, strlen(word)};
}

/* Some pieces, here or there; a single one may be a word that the tables know. */
static Piece some(Draw *d, const Pieces *here, const Pieces *there, bool tokens) {
	if (tokens && draw_one_in(d, 3))
		return draw_one_in(d, 4) ? word_made(d) : word_known(d);
	const Pieces *among = there->count && draw_one_in(d, 2) ? there : here;
	Piece p = among->at[draw(d, (uint32_t)among->count)];
	return p;
}

static void add(Text *out, Piece p) { text_putn(out, p.at, p.length); }

/* The text with one piece gone, replaced, doubled, put in or exchanged with the one at `other`. */
static void change(Draw *d, const Pieces *p, const Pieces *there, bool tokens, Text *out) {
	size_t at = draw(d, (uint32_t)p->count), other = draw(d, (uint32_t)p->count);
	uint32_t way = draw(d, tokens ? 10 : 5);
	for (size_t i = 0; i < p->count; i++) {
		if (i != at) {
			add(out, way == 1 && i == other ? p->at[at] : p->at[i]);
			continue;
		}
		if (way == 1)
			add(out, p->at[other]);
		else if (way == 2)
			add(out, p->at[i]);
		if (way >= 2)
			add(out, some(d, p, there, tokens));
		if (way == 3)
			add(out, p->at[i]);
	}
}

size_t mutate_text(uint8_t *data, size_t size, size_t room, unsigned seed, const uint8_t *other, size_t other_size) {
	Draw d = {seed};
	Arena a;
	arena_init(&a, NULL);
	do {
		bool tokens = !draw_one_in(&d, 4);
		Pieces here = cut(data, size, tokens ? token_length : line_length);
		Pieces there = cut(other, other_size, tokens ? token_length : line_length);
		Text out;
		text_init(&out, &a);
		if (here.count)
			change(&d, &here, &there, tokens, &out);
		free(here.at);
		free(there.at);
		size = out.length <= room ? out.length : 0;
		if (size)
			memcpy(data, out.at, size);
	} while (size && draw_one_in(&d, 3));
	arena_free(&a);
	return size;
}
