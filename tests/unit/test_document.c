/* test_document.c - what the lines of document.h stand for. */
#include "document.h"

static void assert_json(const char *lines, const char *fields) {
	Arena a;
	arena_init(&a, NULL);
	assert_string_equal(document_text(&a, lines),
	                    arena_printf(&a, "{\"format\": \"fxtile\", \"version\": 1%s}\n", fields));
	arena_free(&a);
}

static void fields_and_arrays(void **state) {
	(void)state;
	assert_json("name k\ntensor x input float32[8, u0]\ntensor y view int8[] \"of\": \"x\"\nscalar n int32 "
	            "\"value\": 1\n",
	            ", \"name\": \"k\", \"tensors\": ["
	            "{\"name\": \"x\", \"role\": \"input\", \"dtype\": \"float32\", \"shape\": [8, \"u0\"]}, "
	            "{\"name\": \"y\", \"role\": \"view\", \"dtype\": \"int8\", \"shape\": [], \"of\": \"x\"}], "
	            "\"scalars\": [{\"name\": \"n\", \"dtype\": \"int32\", \"value\": 1}]");
	assert_json("block m 8\nblock n \"u0 * 2\" \"size\": 4\nconfig {\"a\": [1]}\n",
	            ", \"block_sizes\": [{\"id\": 0, \"symbol\": \"u0\", \"name\": \"m\", \"extent\": 8}, "
	            "{\"id\": 1, \"symbol\": \"u1\", \"name\": \"n\", \"extent\": \"u0 * 2\", \"size\": 4}], "
	            "\"config\": {\"a\": [1]}");
}

static void graphs(void **state) {
	(void)state;
	assert_json("for_loop 3 over [1] carry [[0, 0]]\na : sym\nreturn a, 1\nroot 4 over [0]\nreturn",
	            ", \"graphs\": [{\"id\": 3, \"kind\": \"for_loop\", \"block_ids\": [1], \"carried\": [[0, 0]], "
	            "\"nodes\": [{\"name\": \"a\", \"op\": \"placeholder\", \"meta\": {\"sym\": null}}, "
	            "{\"name\": \"output\", \"op\": \"output\", \"args\": [[{\"ref\": \"a\"}, 1]]}]}, "
	            "{\"id\": 4, \"kind\": \"root\", \"grid\": [0], \"nodes\": ["
	            "{\"name\": \"output\", \"op\": \"output\", \"args\": [[]]}]}]");
}

#define NODE(fields) ", \"graphs\": [{\"id\": 0, \"kind\": \"if\", \"nodes\": [{\"name\": \"n\"" fields "}]}]"

static void arguments(void **state) {
	(void)state;
	assert_json("if 0\nn = f(a, 'a', u1, <u1 * (2)>, int8, -inf, 1e-5, null, {\"x\": [1]})\n",
	            NODE(", \"target\": \"f\", \"args\": [{\"ref\": \"a\"}, \"a\", {\"sym\": \"u1\"}, "
	                 "{\"sym\": \"u1 * (2)\"}, {\"dtype\": \"int8\"}, {\"float\": \"-inf\"}, 1e-5, null, {\"x\": "
	                 "[1]}]"));
	assert_json("if 0\nn = f([:, 1:u0, ::2], [[]], k=a, l=true)\n",
	            NODE(", \"target\": \"f\", \"args\": [[{\"slice\": [null, null, null]}, "
	                 "{\"slice\": [1, {\"sym\": \"u0\"}, null]}, {\"slice\": [null, null, 2]}], [[]]], "
	                 "\"kwargs\": {\"k\": {\"ref\": \"a\"}, \"l\": true}"));
}

static void types(void **state) {
	(void)state;
	assert_json("if 0\nn = f() : (float32[cdiv(8, u0), 1], sym u0 * 2, sym bool)\n",
	            NODE(", \"target\": \"f\", \"args\": [], \"meta\": {\"tuple\": ["
	                 "{\"dtype\": \"float32\", \"shape\": [\"cdiv(8, u0)\", 1]}, {\"sym\": \"u0 * 2\"}, "
	                 "{\"sym\": null, \"dtype\": \"bool\"}]}"));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_and_arrays),
		cmocka_unit_test(graphs),
		cmocka_unit_test(arguments),
		cmocka_unit_test(types),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
