/* passes_fixture.h - a Module from graphs over the tensors and blocks of module_fixture.h (u0 = 128, u1 = 256), and
 * passes run on it; the Module must verify before and after each. */
#ifndef PALLASC_TESTS_PASSES_FIXTURE_H
#define PALLASC_TESTS_PASSES_FIXTURE_H

#include "module_fixture.h"
#include "passes/pipeline/pipeline.h"
#include "src/emit/emit.h"
#include "src/verify/verify.h"

#include <stdio.h>

static void run_or_fail(Fixture *f, PassContext *c, const char *const *names, uint32_t count) {
	PassHooks hooks = {.verify_each = true};
	bool ok = module_verify(f->module, &f->diag) && pass_pipeline_run(c, names, count, &hooks);
	if (ok)
		return;
	diag_print(&f->diag, stderr, DIAG_TEXT, false);
	fail_msg("refused");
}

/* Runs one pass; its remarks are in the context that is returned. */
static PassContext run_pass(Fixture *f, const char *name) {
	PassContext c = {.module = f->module, .diag = &f->diag, .arena = &f->arena, .explain = true};
	run_or_fail(f, &c, &name, 1);
	return c;
}

/* How many live nodes of graph g have that op. */
static inline uint32_t count_op(const Module *m, GraphId g, uint16_t op) {
	uint32_t count = 0;
	for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next)
		count += node_get(m, n)->op == op;
	return count;
}

static inline bool remarked(const PassContext *c, const char *text) {
	for (uint32_t i = 0; i < c->remarks.count; i++)
		if (strstr(c->remarks.at[i].message, text))
			return true;
	return false;
}

/* The node of graph 0 that is called `name`, which must be there. */
static inline NodeId named(const Module *m, const char *name) {
	NodeId n = graph_node(m, 0, name);
	assert_int_not_equal(n, NONE);
	return n;
}

/* The type of the node called `name`, as text. */
static inline const char *type_of(Module *m, GraphId g, const char *name) {
	NodeId n = graph_node(m, g, name);
	return n == NONE ? "no such node" : type_string(m, node_get(m, n)->type);
}

/* The whole Module as text, to compare. */
static inline const char *emitted(Fixture *f) {
	Text out;
	text_init(&out, &f->arena);
	module_emit_json(f->module, &out);
	return out.at;
}

static inline void assert_idempotent(Fixture *f, const char *pass) {
	const char *once = emitted(f);
	run_pass(f, pass);
	assert_string_equal(once, emitted(f));
}

/* ---- the graphs that Helion made, where the tests run at the root of the repository ------------------------------ */

/* The text with each `from`, unless that is NULL, replaced by `to`. */
static inline const char *replaced(Arena *a, const char *text, const char *from, const char *to) {
	Text out;
	text_init(&out, a);
	for (const char *found; from && (found = strstr(text, from)); text = found + strlen(from)) {
		text_putn(&out, text, (size_t)(found - text));
		text_put(&out, to);
	}
	text_put(&out, text);
	return out.at;
}

/* The text of testdata/graphs/NAME.json. */
static inline const char *graph_text(Arena *a, const char *name) {
	FILE *file = fopen(arena_printf(a, "testdata/graphs/%s.json", name), "rb");
	assert_non_null(file);
	char *text = arena_alloc(a, 1 << 20);
	text[fread(text, 1, (1 << 20) - 1, file)] = 0;
	fclose(file);
	return text;
}

/* Loads it, with replacements as above, configured. */
static inline Module *graph_load(Fixture *f, const char *name, const char *from, const char *to) {
	const char *text = replaced(&f->arena, graph_text(&f->arena, name), from, to);
	f->source = (Source){name, text, strlen(text)};
	f->module = module_load(&f->arena, &f->diag, &f->source, target_find("v7x"));
	assert_non_null(f->module);
	assert_true(module_configure(f->module, &f->diag));
	return f->module;
}

#endif
