#define _POSIX_C_SOURCE 200809L
#include "front.h"

#include <stdio.h>
#include <stdlib.h>

static void locate(const char *text, const char *pointer, bool found, int line, int column) {
	Source s = {.name = "t", .text = text, .length = strlen(text)};
	int at_line, at_column;
	assert_int_equal(diag_locate(&s, pointer, &at_line, &at_column), found);
	assert_int_equal(at_line, line);
	assert_int_equal(at_column, column);
}

static void test_locate(void **state) {
	const char *text = "{\"a\": [1,\n {\"b/c\": 2, \"~\\u00fc\": [3, [4]]}],\n \"\": null}";
	(void)state;
	locate(text, "", true, 1, 1);
	locate(text, "/a/0", true, 1, 8);
	locate(text, "/a/1/b~1c", true, 2, 10);
	locate(text, "/a/1/~0\xc3\xbc/1/0", true, 2, 29);
	locate(text, "/", true, 3, 6);
	locate(text, "/a/2", false, 1, 7); /* the deepest that exists */
	locate(text, "/a/x", false, 1, 7);
	locate(text, "/b", false, 1, 1);
	locate("[", "/0", false, 1, 1);
	locate("{\"a", "/a", false, 1, 1);
	locate("", "/a", false, 1, 1);
}

/* What diag_print() writes. */
static char *printed(const Diag *d, DiagFormat format) {
	char *text;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	diag_print(d, out, format, false);
	fclose(out);
	return text;
}

static void test_print(void **state) {
	Front f;
	(void)state;
	front_start(&f);
	f.source = (Source){.name = "a.json", .text = "{\n\t\"x\": \"\x1b[2J\xff\"}"};
	f.source.length = strlen(f.source.text);
	Place key = diag_place(&f.diag, &f.source, "/%s", "x");
	diag_error(&f.diag, key, "some-code", "do %s", "bad '%s'",
	           "\x1b[31m\n\xe2\x80\xae"); /* NOLINT(misc-misleading-bidirectional): that is what it tests */
	char *text = printed(&f.diag, DIAG_TEXT);
	assert_string_equal(text, "a.json:2:7: error: bad '\\x1b[31m\\n\\u202e' [some-code]\n"
	                          "     \"x\": \"\\x1b[2J\\xff\"}\n"
	                          "          ^\n"
	                          "  hint: do %s\n");
	free(text);
	text = printed(&f.diag, DIAG_JSON);
	assert_string_equal(
		text, "{\"severity\": \"error\", \"code\": \"some-code\", \"file\": \"a.json\", \"pointer\": \"/x\", "
		      "\"line\": 2, \"column\": 7, \"message\": \"bad '\\u001b[31m\\n\\u202e'\", "
		      "\"hint\": \"do %s\"}\n");
	free(text);
	front_end(&f);
}

static void test_limit(void **state) {
	Front f;
	(void)state;
	front_start(&f);
	for (int i = 0; i < 25; i++)
		diag_error(&f.diag, (Place){0}, "c", NULL, "number %d", i);
	assert_int_equal(f.diag.errors, 25);
	assert_int_equal(f.diag.list.count, 20);
	char *text = printed(&f.diag, DIAG_TEXT);
	assert_non_null(strstr(text, "number 19"));
	assert_null(strstr(text, "number 20"));
	assert_non_null(strstr(text, "5 more errors"));
	free(text);
	front_end(&f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_locate),
		cmocka_unit_test(test_print),
		cmocka_unit_test(test_limit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
