/* front.h - what the unit tests of the front end share: documents from strings, and the diagnostics they give. */
#ifndef PALLASC_TEST_FRONT_H
#define PALLASC_TEST_FRONT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ops.h"

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

static inline Module *front_load(Front *f, const char *text) {
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
	"{\"format\": \"fxtile\", \"version\": 1, \"name\": \"row_sum\",\n"                                            \
	" \"tensors\": [{\"name\": \"x\", \"role\": \"input\", \"dtype\": \"float32\", \"shape\": [256, 512]},\n"      \
	"  {\"name\": \"out\", \"role\": \"output\", \"dtype\": \"float32\", \"shape\": [256]}],\n"                    \
	" \"tunables\": {\"split\": {\"default\": 2, \"choices\": [1, 2, 4]}},\n"                                      \
	" \"block_sizes\": [{\"id\": 0, \"symbol\": \"u0\", \"name\": \"m\", \"extent\": 256},\n"                      \
	"  {\"id\": 1, \"symbol\": \"u1\", \"name\": \"n\", \"extent\": 512}],\n"                                      \
	" \"graphs\": [{\"id\": 5, \"kind\": \"for_loop\", \"block_ids\": [1], \"carried\": [[0, 0]], \"nodes\": [\n"  \
	"   {\"name\": \"acc\", \"op\": \"placeholder\", \"meta\": {\"dtype\": \"float32\", \"shape\": [\"u0\"]}},\n"  \
	"   {\"name\": \"x\", \"target\": \"tile.host_tensor\", \"args\": [\"x\"], \"meta\": {\"dtype\": "             \
	"\"float32\", \"shape\": [256, 512]}},\n"                                                                      \
	"   {\"name\": \"t\", \"target\": \"tile.load\", \"args\": [{\"ref\": \"x\"}, [{\"sym\": \"u0\"}, "            \
	"{\"sym\": \"u1\"}]], \"meta\": {\"dtype\": \"float32\", \"shape\": [\"u0\", \"u1\"]}},\n"                     \
	"   {\"name\": \"s\", \"target\": \"aten.sum.dim_IntList\", \"args\": [{\"ref\": \"t\"}, [-1]], \"meta\": "    \
	"{\"dtype\": \"float32\", \"shape\": [\"u0\"]}},\n"                                                            \
	"   {\"name\": \"add\", \"target\": \"aten.add.Tensor\", \"args\": [{\"ref\": \"acc\"}], \"kwargs\": "         \
	"{\"other\": {\"ref\": \"s\"}}, \"meta\": {\"dtype\": \"float32\", \"shape\": [\"u0\"]}},\n"                   \
	"   {\"name\": \"output\", \"op\": \"output\", \"args\": [[{\"ref\": \"add\"}]]}]},\n"                         \
	"  {\"id\": 6, \"kind\": \"root\", \"grid\": [0], \"nodes\": [\n"                                              \
	"   {\"name\": \"zero\", \"target\": \"tile.full\", \"args\": [[{\"sym\": \"u0\"}], 0.0, {\"dtype\": "         \
	"\"float32\"}], \"meta\": {\"dtype\": \"float32\", \"shape\": [\"u0\"]}},\n"                                   \
	"   {\"name\": \"loop\", \"target\": \"tile.for_loop\", \"args\": [5, [0], [512], [{\"ref\": \"zero\"}]], "    \
	"\"meta\": {\"tuple\": [{\"dtype\": \"float32\", \"shape\": [\"u0\"]}]}},\n"                                   \
	"   {\"name\": \"acc\", \"target\": \"getitem\", \"args\": [{\"ref\": \"loop\"}, 0], \"meta\": {\"dtype\": "   \
	"\"float32\", \"shape\": [\"u0\"]}},\n"                                                                        \
	"   {\"name\": \"out\", \"target\": \"tile.host_tensor\", \"args\": [\"out\"], \"meta\": {\"dtype\": "         \
	"\"float32\", \"shape\": [256]}},\n"                                                                           \
	"   {\"name\": \"store\", \"target\": \"tile.store\", \"args\": [{\"ref\": \"out\"}, [{\"sym\": \"u0\"}], "    \
	"{\"ref\": \"acc\"}]},\n"                                                                                      \
	"   {\"name\": \"output\", \"op\": \"output\", \"args\": [[]]}]}]}\n"

/* FRONT_DOCUMENT, loaded into a Front that this starts. */
static inline Module *front_module(Front *f) {
	front_start(f);
	Module *m = front_load(f, FRONT_DOCUMENT);
	assert_non_null(m);
	return m;
}

#endif
