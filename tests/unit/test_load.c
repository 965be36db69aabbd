#include "front.h"
#include "codegen/plan/plan.h"
#include "src/config/config.h"
#include "src/emit/emit.h"
#include "src/verify/verify.h"

#include <stdlib.h>

static void test_document(void **state) {
	Front f;
	(void)state;
	front_start(&f);
	Module *m = front_load(&f, FRONT_DOCUMENT);
	assert_non_null(m);
	assert_int_equal(f.diag.list.count, 0);
	assert_string_equal(m->name, "row_sum");
	assert_int_equal(m->tensors.count, 2);
	assert_int_equal(m->returns.count, 1); /* by default: all outputs */
	assert_int_equal(m->tunables.at[0].choices.count, 3);
	GraphId loop = graph_find(m, 5), root = graph_find(m, 6);
	assert_int_equal(graph_get(m, loop)->caller, graph_node(m, root, "loop"));
	assert_int_equal(graph_get(m, root)->caller, NONE);
	assert_int_equal(graph_get(m, loop)->carried.count, 1);
	assert_int_equal(graph_get(m, loop)->output, graph_get(m, loop)->last);
	NodeId sum = graph_node(m, loop, "s");
	assert_int_equal(node_arg(m, sum, 2)->kind, ARG_BOOL); /* keepdim: a default, in its slot */
	assert_int_equal(node_arg(m, graph_node(m, loop, "x"), 0)->kind, ARG_TENSOR);
	assert_int_equal(tensor_find(m, "out"), 1);
	assert_int_equal(tensor_find(m, "nothing"), NONE);
	front_end(&f);
}

static void test_round_trip(void **state) {
	Front f;
	Text first, second;
	(void)state;
	front_start(&f);
	Module *m = front_load(&f, FRONT_DOCUMENT);
	m->alignments = arena_array(&f.arena, m->tensors.count, sizeof *m->alignments);
	m->alignments[0] = (Alignment){{8, 128}};
	m->alignments[1] = (Alignment){{128}};
	m->loop_facts = arena_array(&f.arena, m->graphs.count, sizeof *m->loop_facts);
	m->loop_facts[0] = (LoopFact){.legal = 1u << LOOP_UNROLL, .why_not = {[LOOP_FORI] = "a \"reason\""}};
	assert_true(config_set(m, &f.diag, "block_sizes=[64,128]"));
	assert_true(config_set(m, &f.diag, "pallas_loop_type=fori_loop"));
	assert_true(config_set(m, &f.diag, "split=4"));
	text_init(&first, &f.arena);
	text_init(&second, &f.arena);
	module_emit_json(m, &first);
	Module *again = front_load(&f, first.at);
	assert_non_null(again);
	assert_int_equal(again->config.loop_type.value, LOOP_FORI);
	again->alignments = m->alignments;
	again->loop_facts = m->loop_facts;
	assert_true(module_check_annotations(again, &f.diag));
	module_emit_json(again, &second);
	assert_string_equal(first.at, second.at);
	m->alignments[0].dim[0] = 16;
	assert_false(module_check_annotations(again, &f.diag));
	assert_true(front_has(&f, "annotation-differs"));
	front_end(&f);
}

static void replace_check(const char *old, const char *new, const char *code) {
	Front f;
	front_start(&f);
	const char *document = document_text(&f.arena, FRONT_DOCUMENT), *at = strstr(document, old);
	assert_non_null(at);
	Text t;
	text_init(&t, &f.arena);
	text_putn(&t, document, (size_t)(at - document));
	text_put(&t, new);
	text_put(&t, at + strlen(old));
	Module *m = front_load(&f, t.at);
	if (code && !front_has(&f, code))
		fail_msg("%s -> %s: no %s", old, new, code);
	if (!code)
		assert_non_null(m);
	front_end(&f);
}

static void test_tolerance(void **state) {
	(void)state;
	replace_check("\"kwargs\": {", "\"kwargs\": {\"device\": \"cuda\", \"layout\": null, ", NULL);
	replace_check("\"version\": 1,", "\"version\": 1, \"x_note\": {\"any\": 1},", NULL);
	replace_check("[[{\"sym\": \"u0\"}], 0.0,", "[{\"sym\": \"u0\"}, 0.0,",
	              NULL); /* a bare int for a list of one */
	replace_check("\"name\": \"s\",", "\"name\": \"s\", \"loc\": null,", NULL);
	replace_check("{\"ref\": \"t\"}, [-1]], \"meta\": {\"dtype\": \"float32\"",
	              "{\"ref\": \"t\"}, [-1]], \"meta\": {\"dtype\": \"int64\"", NULL);
}

static void test_every_prefix(void **state) {
	Front whole;
	(void)state;
	front_start(&whole);
	const char *document = document_text(&whole.arena, FRONT_DOCUMENT);
	for (size_t n = 0; n + 2 < strlen(document); n++) {
		Front f;
		front_start(&f);
		f.source = (Source){.name = "t", .text = document, .length = n};
		assert_null(module_load(&f.arena, &f.diag, &f.source, NULL));
		assert_int_not_equal(f.diag.errors, 0);
		front_end(&f);
	}
	front_end(&whole);
}

/* Every token replaced by each of a few others: refused or accepted, never a crash. For the sanitizers. */
static void test_mutations(void **state) {
	static const char *const others[] = {
		"null", "-1", "1.5", "\"u0\"", "[]", "{}", "[[]]", "{\"ref\": \"s\"}", "true", "99999999999"};
	Front whole;
	(void)state;
	front_start(&whole);
	const char *document = document_text(&whole.arena, FRONT_DOCUMENT);
	size_t length = strlen(document);
	for (size_t i = 0; i < length; i++) {
		size_t n = strspn(document + i, "0123456789");
		if (document[i] == '"')
			n = strcspn(document + i + 1, "\"") + 2;
		if (n == 0)
			continue;
		for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
			Front f;
			Text t;
			front_start(&f);
			text_init(&t, &f.arena);
			text_putn(&t, document, i);
			text_put(&t, others[k]);
			text_put(&t, document + i + n);
			Module *m = front_load(&f, t.at);
			assert_true(m || f.diag.errors);
			if (m && module_configure(m, &f.diag))
				module_verify(m, &f.diag);
			front_end(&f);
		}
		i += n - 1;
	}
	front_end(&whole);
}

/* A target file without a base, with `more` in it. */
static const Target *whole_target(Front *f, const char *more) {
	Source *s = arena_alloc(&f->arena, sizeof *s);
	s->name = "t";
	s->text = arena_printf(
		&f->arena,
		"{%s \"name\": \"t\", \"device_kind\": \"TPU v6 lite\", \"topology\": \"v6e:2x2\", "
		"\"vmem_bytes\": 1, \"smem_bytes\": 1, \"lanes\": 128, \"sublanes\": 8, \"mxu_size\": 256, "
		"\"clock_hz\": 1e9, \"hbm_bytes_per_s\": 1e12, \"bf16_flops\": 1e14, \"tensorcores\": 1, "
		"\"bf16_vpu\": true}",
		more);
	s->length = strlen(s->text);
	const Target *t = target_load(&f->arena, &f->diag, s);
	assert_non_null(t);
	return t;
}

static void test_targets(void **state) {
	Front f;
	size_t count;
	(void)state;
	front_start(&f);
	target_rows(&count);
	assert_int_equal(target_find("v6e")->vmem_bytes, 134152192); /* 127.94 MiB */
	assert_null(target_find("v9"));
	Source based = {.name = "t", .text = "{\"base\": \"v6e\", \"name\": \"small\", \"vmem_bytes\": 1000}"};
	based.length = strlen(based.text);
	const Target *t = target_load(&f.arena, &f.diag, &based);
	assert_non_null(t);
	assert_int_equal(t->vmem_bytes, 1000);
	assert_int_equal(t->mxu_size, 256);
	assert_int_equal(t->max_tile_elements, 0);
	Source cap = {.name = "t", .text = "{\"base\": \"v6e\", \"max_tile_elements\": 4096}"};
	cap.length = strlen(cap.text);
	assert_int_equal(target_load(&f.arena, &f.diag, &cap)->max_tile_elements, 4096);
	cap.text = "{\"base\": \"v6e\", \"max_tile_elements\": null}";
	cap.length = strlen(cap.text);
	assert_int_equal(target_load(&f.arena, &f.diag, &cap)->max_tile_elements, 0);
	assert_int_equal(whole_target(&f, "")->max_tile_elements, 1048576); /* no base, and not said */
	assert_int_equal(whole_target(&f, "\"max_tile_elements\": null,")->max_tile_elements, 0);
	assert_int_equal(whole_target(&f, "\"max_tile_elements\": 7,")->max_tile_elements, 7);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(target_rows(&count)[i].max_tile_elements, 0);
	Source bad = {.name = "t", .text = "{\"base\": \"v6\", \"vmem\": 1}"};
	bad.length = strlen(bad.text);
	assert_null(target_load(&f.arena, &f.diag, &bad));
	assert_true(front_has(&f, "unknown-field") && front_has(&f, "unknown-target"));
	front_end(&f);
}

/* What rows are legal is data of the target: bfloat16 windows by DMA as an example. */
static void test_tile_rows(void **state) {
	Front f;
	(void)state;
	front_start(&f);
	const Target *v6e = target_find("v6e"), *whole = whole_target(&f, "");
	assert_int_equal(target_row_multiple(v6e, TILE_COPY, 16, 256), 8);
	assert_int_equal(target_row_multiple(v6e, TILE_COPY, 16, 128),
	                 2); /* as wide as a tile: rows follow each other */
	assert_int_equal(target_row_multiple(whole, TILE_COPY, 16, 128), 2);
	assert_true(target_takes_rows(v6e, TILE_COPY, 16, 256, 24));
	assert_true(target_takes_rows(v6e, TILE_COPY, 16, 256, 4));
	assert_false(target_takes_rows(v6e, TILE_COPY, 16, 256, 12));
	assert_false(target_takes_rows(v6e, TILE_COPY, 16, 256, 1));
	assert_false(target_takes_rows(v6e, TILE_CLIPPED, 16, 256, 4));
	/* On v7x XLA may lay out what a kernel makes in taller tiles than what it reads. */
	const Target *v7x = target_find("v7x");
	assert_int_equal(target_row_multiple(v7x, TILE_COPY, 16, 256), 8);
	assert_int_equal(target_row_multiple(v7x, TILE_COPY_OUT, 16, 256), 16);
	assert_true(target_takes_rows(v7x, TILE_COPY_OUT, 16, 256, 8));
	assert_int_equal(target_row_multiple(v7x, TILE_SLICE_OUT, 16, 128), 16);
	assert_int_equal(target_row_multiple(v6e, TILE_SLICE_OUT, 16, 128), 8);
	Source s = {
		.name = "t",
		.text = "{\"base\": \"v6e\", \"tile_rows\": {\"copy\": {\"wide\": [8, 16, 32, 64], \"powers\": [0, 0, "
			"0, 0]}}}"};
	s.length = strlen(s.text);
	const Target *t = target_load(&f.arena, &f.diag, &s);
	assert_non_null(t);
	assert_int_equal(target_row_multiple(t, TILE_COPY, 16, 256), 16);
	assert_int_equal(target_row_multiple(t, TILE_SLICE, 16, 256), 8);
	assert_false(target_takes_rows(t, TILE_COPY, 16, 256, 4));
	s.text = "{\"base\": \"v6e\", \"tile_rows\": {\"copy\": {\"wide\": [8, 16, 32, 0]}}}";
	s.length = strlen(s.text);
	assert_null(target_load(&f.arena, &f.diag, &s));
	front_end(&f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_document),  cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_tolerance), cmocka_unit_test(test_every_prefix),
		cmocka_unit_test(test_mutations), cmocka_unit_test(test_targets),
		cmocka_unit_test(test_tile_rows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
