/* module_fixture.h - a loaded Module for tests of what works on one: a document is written as the lines of its graphs
 * (document.h), over tensors, scalars and blocks that are the same for all. */
#ifndef PALLASC_TESTS_MODULE_FIXTURE_H
#define PALLASC_TESTS_MODULE_FIXTURE_H

#include "document.h"
#include "src/config/config.h"
#include "src/load/load.h"

typedef struct Fixture {
	Arena arena;
	Diag diag;
	Source source;
	Module *module;
} Fixture;

/* u0 = 128 and u1 = 256 tile x; u2 is a dim of 64 that may be rolled; u3 = 8 is fixed by the graph; u4 = 1. */
static const char fixture_head[] = "name k\n"
				   "config {\"block_sizes\": [128, 256, 1]}\n"
				   "scalar scale float32\n"
				   "scalar n int32\n"
				   "block tile_m 1000\n"
				   "block tile_n 5000\n"
				   "block rdim 64 \"reduction\": true\n"
				   "block fixed 64 \"size\": 8\n"
				   "block one 64\n"
				   "tensor x input float32[1000, 5000]\n"
				   "tensor h input bfloat16[1000, 64]\n"
				   "tensor v input int32[1000]\n"
				   "tensor out output float32[1000, 5000]\n"
				   "tensor sums output float32[1000]\n"
				   "tensor io inout int32[1000]\n";

static void fixture_free(Fixture *f) { arena_free(&f->arena); }

static void fixture_init(Fixture *f) {
	memset(f, 0, sizeof *f);
	arena_init(&f->arena, NULL);
	diag_init(&f->diag, &f->arena);
}

/* Loads and configures; the test fails if that is refused. Before the lines of graphs may be those of more tensors. */
static inline Module *fixture_load(Fixture *f, const char *graphs) {
	const char *text = document_text(&f->arena, arena_printf(&f->arena, "%s%s", fixture_head, graphs));
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
