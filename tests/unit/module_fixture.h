/* module_fixture.h - a loaded Module for tests of what works on one: a document is written as its `graphs` only, over
 * tensors, scalars and blocks that are the same for all. */
#ifndef PALLASC_TESTS_MODULE_FIXTURE_H
#define PALLASC_TESTS_MODULE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ops.h"

typedef struct Fixture {
	Arena arena;
	Diag diag;
	Source source;
	Module *module;
} Fixture;

/* u0 = 128 and u1 = 256 tile x; u2 is a dim of 64 that may be rolled; u3 = 8 is fixed by the graph; u4 = 1. */
static const char fixture_head[] =
	"{\"format\": \"fxtile\", \"version\": 1, \"name\": \"k\", \"tensors\": ["
	"{\"name\": \"x\", \"role\": \"input\", \"dtype\": \"float32\", \"shape\": [1000, 5000]},"
	"{\"name\": \"h\", \"role\": \"input\", \"dtype\": \"bfloat16\", \"shape\": [1000, 64]},"
	"{\"name\": \"v\", \"role\": \"input\", \"dtype\": \"int32\", \"shape\": [1000]},"
	"{\"name\": \"out\", \"role\": \"output\", \"dtype\": \"float32\", \"shape\": [1000, 5000]},"
	"{\"name\": \"sums\", \"role\": \"output\", \"dtype\": \"float32\", \"shape\": [1000]},"
	"{\"name\": \"io\", \"role\": \"inout\", \"dtype\": \"int32\", \"shape\": [1000]}],"
	"\"scalars\": [{\"name\": \"scale\", \"dtype\": \"float32\"}, {\"name\": \"n\", \"dtype\": \"int32\"}],"
	"\"block_sizes\": [{\"id\": 0, \"symbol\": \"u0\", \"name\": \"tile_m\", \"extent\": 1000},"
	"{\"id\": 1, \"symbol\": \"u1\", \"name\": \"tile_n\", \"extent\": 5000},"
	"{\"id\": 2, \"symbol\": \"u2\", \"name\": \"rdim\", \"extent\": 64, \"reduction\": true},"
	"{\"id\": 3, \"symbol\": \"u3\", \"name\": \"fixed\", \"extent\": 64, \"size\": 8},"
	"{\"id\": 4, \"symbol\": \"u4\", \"name\": \"one\", \"extent\": 64}],"
	"\"config\": {\"block_sizes\": [128, 256, 1]}, \"graphs\": [";

static void fixture_free(Fixture *f) { arena_free(&f->arena); }

static void fixture_init(Fixture *f) {
	memset(f, 0, sizeof *f);
	arena_init(&f->arena, NULL);
	diag_init(&f->diag, &f->arena);
}

/* Loads and configures; the test fails if that is refused. */
static inline Module *fixture_load(Fixture *f, const char *graphs) {
	const char *text = arena_printf(&f->arena, "%s%s]}", fixture_head, graphs);
	f->source = (Source){"test.json", text, strlen(text)};
	f->module = module_load(&f->arena, &f->diag, &f->source, target_find("v6e"));
	if (f->module == NULL || !module_configure(f->module, &f->diag)) {
		diag_print(&f->diag, stderr, DIAG_TEXT, false);
		fixture_free(f);
		fail_msg("the test's document is refused");
	}
	return f->module;
}

#endif
