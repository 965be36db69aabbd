/* The layout of Python statements, line by line as `ruff format` leaves them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "codegen/print/pywriter.h"
#include "src/json/json.h"
#include <math.h>

typedef struct Page {
	Arena arena;
	Text text;
	PyWriter w;
} Page;

static void page_start(Page *p) {
	arena_init(&p->arena, NULL);
	text_init(&p->text, &p->arena);
	p->w = (PyWriter){.arena = &p->arena, .out = &p->text};
}

#define EXPECT(page, expected)                                                                                         \
	do {                                                                                                           \
		assert_string_equal((page).text.at, expected);                                                         \
		arena_free(&(page).arena);                                                                             \
	} while (0)

static void a_short_statement_stays_on_its_line(void **state) {
	(void)state;
	Page p;
	page_start(&p);
	p.w.indent = 1;
	py_line(&p.w, "x = f(%d)", 3);
	EXPECT(p, "    x = f(3)\n");
}

static void a_long_call_breaks_at_its_arguments(void **state) {
	(void)state;
	Page p;
	page_start(&p);
	py_statement(&p.w, "result = some_function_with_a_long_name(first_argument_here, second_argument_here, third)");
	EXPECT(p, "result = some_function_with_a_long_name(\n"
	          "    first_argument_here, second_argument_here, third\n"
	          ")\n");
}

static void arguments_that_fit_no_line_get_one_each(void **state) {
	(void)state;
	Page p;
	page_start(&p);
	py_statement(&p.w, "r = f(first_argument_with_a_name_of_thirty_letters, (1, 2, 3), "
	                   "second_argument_with_a_name_of_thirty_letters, x)");
	EXPECT(p, "r = f(\n"
	          "    first_argument_with_a_name_of_thirty_letters,\n"
	          "    (1, 2, 3),\n"
	          "    second_argument_with_a_name_of_thirty_letters,\n"
	          "    x,\n"
	          ")\n");
}

static void a_trailing_comma_breaks_but_not_in_a_tuple_of_one(void **state) {
	(void)state;
	Page p;
	page_start(&p);
	py_statement(&p.w, "x = [1, 2,]");
	py_statement(&p.w, "y = f((1,))");
	EXPECT(p, "x = [\n    1,\n    2,\n]\ny = f((1,))\n");
}

static void commas_of_a_lambda_do_not_split_it(void **state) {
	(void)state;
	Page p;
	page_start(&p);
	py_statement(&p.w, "f(lambda a, b: (a, b), g(1),)");
	EXPECT(p, "f(\n    lambda a, b: (a, b),\n    g(1),\n)\n");
}

static void brackets_in_strings_are_text(void **state) {
	(void)state;
	Page p;
	page_start(&p);
	py_statement(&p.w, "x = {\"a]\\\"(\": 1, \"b\": [2],}");
	EXPECT(p, "x = {\n    \"a]\\\"(\": 1,\n    \"b\": [2],\n}\n");
}

static void a_comma_before_a_bracket_in_a_string_breaks_nothing(void **state) {
	(void)state;
	Page p;
	page_start(&p);
	py_statement(&p.w, "f(\"a,)\", \").b).c\")");
	EXPECT(p, "f(\"a,)\", \").b).c\")\n");
}

/* No text of ours ends so: nothing behind its end is read. */
static void a_string_without_an_end_ends_with_the_text(void **state) {
	(void)state;
	Page p;
	page_start(&p);
	py_statement(&p.w, "f(a,), \"b");
	EXPECT(p, "f(\n    a,\n), \"b\n");
}

static void a_chain_of_calls_breaks_before_each(void **state) {
	(void)state;
	Page p;
	page_start(&p);
	py_statement(&p.w, "low = ((packed.astype(jnp.int32) << 4).astype(jnp.int8).astype(jnp.int32) >> 4)"
	                   ".astype(jnp.int8).astype(jnp.bfloat16)");
	py_statement(&p.w,
	             "x = packed.astype(jnp.a_dtype_that_has_a_very_long_name_of_its_own_x).astype(jnp.bfloat16)");
	EXPECT(p, "low = (\n"
	          "    ((packed.astype(jnp.int32) << 4).astype(jnp.int8).astype(jnp.int32) >> 4)\n"
	          "    .astype(jnp.int8)\n"
	          "    .astype(jnp.bfloat16)\n"
	          ")\n"
	          "x = packed.astype(jnp.a_dtype_that_has_a_very_long_name_of_its_own_x).astype(\n"
	          "    jnp.bfloat16\n"
	          ")\n");
}

static void a_long_sum_breaks_before_its_operators(void **state) {
	(void)state;
	Page p;
	page_start(&p);
	py_statement(&p.w, "out_ref[:, 0, :] = out_ref[:, 0, :] + jnp.sum(distance * distance, axis=1, "
	                   "keepdims=True) / 1.0 - first_of_all");
	py_statement(&p.w, "x = first_argument_with_a_name_of_thirty_letters_x + jnp.sum(distance * distance, axis=1)");
	EXPECT(p, "out_ref[:, 0, :] = (\n"
	          "    out_ref[:, 0, :]\n"
	          "    + jnp.sum(distance * distance, axis=1, keepdims=True) / 1.0\n"
	          "    - first_of_all\n"
	          ")\n"
	          "x = first_argument_with_a_name_of_thirty_letters_x + jnp.sum(\n"
	          "    distance * distance, axis=1\n"
	          ")\n");
}

static void a_target_that_fits_is_not_broken(void **state) {
	(void)state;
	Page p;
	page_start(&p);
	py_statement(&p.w, "out_ref[:, pl.ds(j0, 1), pl.ds(j1 * 128, 128), pl.ds(j * 128, 128), :, :, :, :] = "
	                   "jnp.zeros((1, 128, 128), jnp.float32)");
	EXPECT(p, "out_ref[:, pl.ds(j0, 1), pl.ds(j1 * 128, 128), pl.ds(j * 128, 128), :, :, :, :] = (\n"
	          "    jnp.zeros((1, 128, 128), jnp.float32)\n"
	          ")\n");
}

static void a_choice_that_is_too_long_stands_in_parentheses(void **state) {
	(void)state;
	Page p;
	page_start(&p);
	p.w.indent = 2;
	py_choice(&p.w, "masked", "_mask(x, 0, 3, 0)", "ragged", "x");
	py_choice(&p.w, "a_value_with_a_long_name", "_mask(a_value_with_long_name, 2, 37, -jnp.inf)", "ragged",
	          "a_value_with_long_name");
	EXPECT(p, "        masked = _mask(x, 0, 3, 0) if ragged else x\n"
	          "        a_value_with_a_long_name = (\n"
	          "            _mask(a_value_with_long_name, 2, 37, -jnp.inf)\n"
	          "            if ragged\n"
	          "            else a_value_with_long_name\n"
	          "        )\n");
}

static void a_comment_is_one_line_of_ascii(void **state) {
	(void)state;
	Page p;
	page_start(&p);
	py_comment(&p.w, "x = 1\nimport os\r\xe2\x80\xa8os.system()");
	EXPECT(p, "# x = 1?import os????os.system()\n");
}

static void a_long_comment_is_cut(void **state) {
	(void)state;
	Page p;
	page_start(&p);
	char text[301] = {0};
	memset(text, 'a', 300);
	py_comment(&p.w, text);
	assert_int_equal(p.text.length, PY_WIDTH);
	assert_string_equal(p.text.at + p.text.length - 5, "a...\n");
	arena_free(&p.arena);
}

static void strings_are_escaped_to_ascii(void **state) {
	(void)state;
	Page p;
	page_start(&p);
	py_put_string(&p.text, "a\"\\\n\xc3\xa9\xe2\x80\xa8\xf0\x9f\x98\x80");
	EXPECT(p, "\"a\\\"\\\\\\x0a\\xe9\\u2028\\U0001f600\"");
}

static void floats_read_back(void **state) {
	(void)state;
	Page p;
	page_start(&p);
	py_put_float(&p.text, 0.1);
	text_put(&p.text, " ");
	py_put_float(&p.text, -INFINITY);
	text_put(&p.text, " ");
	py_put_float(&p.text, (double)NAN);
	text_put(&p.text, " ");
	py_put_float(&p.text, 2.0);
	text_put(&p.text, " ");
	py_put_float(&p.text, -1e30);
	EXPECT(p, "0.1 -jnp.inf jnp.nan 2.0 -1e30");
}

static void a_nested_function_stands_apart(void **state) {
	(void)state;
	Page p;
	page_start(&p);
	py_line(&p.w, "def f():");
	p.w.indent = 1;
	py_def(&p.w);
	py_line(&p.w, "def g():");
	p.w.indent = 2;
	py_line(&p.w, "pass");
	p.w.indent = 1;
	py_def(&p.w);
	py_line(&p.w, "def h():");
	EXPECT(p, "def f():\n    def g():\n        pass\n\n    def h():\n");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_short_statement_stays_on_its_line),
		cmocka_unit_test(a_long_call_breaks_at_its_arguments),
		cmocka_unit_test(arguments_that_fit_no_line_get_one_each),
		cmocka_unit_test(a_trailing_comma_breaks_but_not_in_a_tuple_of_one),
		cmocka_unit_test(commas_of_a_lambda_do_not_split_it),
		cmocka_unit_test(brackets_in_strings_are_text),
		cmocka_unit_test(a_comma_before_a_bracket_in_a_string_breaks_nothing),
		cmocka_unit_test(a_string_without_an_end_ends_with_the_text),
		cmocka_unit_test(a_chain_of_calls_breaks_before_each),
		cmocka_unit_test(a_long_sum_breaks_before_its_operators),
		cmocka_unit_test(a_target_that_fits_is_not_broken),
		cmocka_unit_test(a_choice_that_is_too_long_stands_in_parentheses),
		cmocka_unit_test(a_comment_is_one_line_of_ascii),
		cmocka_unit_test(a_long_comment_is_cut),
		cmocka_unit_test(strings_are_escaped_to_ascii),
		cmocka_unit_test(floats_read_back),
		cmocka_unit_test(a_nested_function_stands_apart),
	};
	return cmocka_run_group_tests_name("pywriter", tests, NULL, NULL);
}
