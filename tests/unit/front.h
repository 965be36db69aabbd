/* front.h - what the unit tests of the front end share: documents from strings, and the diagnostics they give. */
#ifndef PALLASC_TEST_FRONT_H
#define PALLASC_TEST_FRONT_H

#include "document.h"
#include "src/load/load.h"

/* One compilation's worth of state; front_end() gives it all back. */
typedef struct Front {
	Arena arena;
	Diag diag;
	Source source;
} Front;

static inline void front_start(Front *f) {
	arena_init(&f->arena, NULL);
	diag_init(&f->diag, &f->arena);
}

static inline void front_end(Front *f) { arena_free(&f->arena); }

/* Of a document: JSON, or lines of document.h. */
/* The text of a file, named from the root of the tree. */
static inline char *front_file(Arena *a, const char *path) {
	enum { MOST = 1 << 20 };
	FILE *file = fopen(path, "rb");
	assert_non_null(file);
	char *text = arena_alloc(a, MOST);
	text[fread(text, 1, MOST - 1, file)] = 0;
	(void)fclose(file);
	return text;
}

static inline Module *front_load(Front *f, const char *document) {
	const char *text = document_text(&f->arena, document);
	f->source = (Source){.name = "test.json", .text = text, .length = strlen(text)};
	return module_load(&f->arena, &f->diag, &f->source, target_find("v6e"));
}

/* Is there a diagnostic with this code? */
static inline bool front_has(const Front *f, const char *code) {
	for (uint32_t i = 0; i < f->diag.list.count; i++)
		if (strcmp(f->diag.list.at[i].code, code) == 0)
			return true;
	return false;
}

/* A loop in a root: the row sum of graph-format.md, with tunables and a fixed size. */
#define FRONT_DOCUMENT                                                                                                 \
	"name row_sum\n"                                                                                               \
	"tensor x input float32[256, 512]\n"                                                                           \
	"tensor out output float32[256]\n"                                                                             \
	"tunables {\"split\": {\"default\": 2, \"choices\": [1, 2, 4]}}\n"                                             \
	"block m 256\n"                                                                                                \
	"block n 512\n"                                                                                                \
	"for_loop 5 over [1] carry [[0, 0]]\n"                                                                         \
	"acc : float32[u0]\n"                                                                                          \
	"x = tile.host_tensor('x') : float32[256, 512]\n"                                                              \
	"t = tile.load(x, [u0, u1]) : float32[u0, u1]\n"                                                               \
	"s = aten.sum.dim_IntList(t, [-1]) : float32[u0]\n"                                                            \
	"add = aten.add.Tensor(acc, other=s) : float32[u0]\n"                                                          \
	"return add\n"                                                                                                 \
	"root 6 over [0]\n"                                                                                            \
	"zero = tile.full([u0], 0.0, float32) : float32[u0]\n"                                                         \
	"loop = tile.for_loop(5, [0], [512], [zero]) : (float32[u0])\n"                                                \
	"acc = getitem(loop, 0) : float32[u0]\n"                                                                       \
	"out = tile.host_tensor('out') : float32[256]\n"                                                               \
	"store = tile.store(out, [u0], acc)\n"                                                                         \
	"return\n"

/* FRONT_DOCUMENT, loaded into a Front that this starts. */
static inline Module *front_module(Front *f) {
	front_start(f);
	Module *m = front_load(f, FRONT_DOCUMENT);
	assert_non_null(m);
	return m;
}

#endif
