/* test_json.c - json_parse(): values, faults and where they are; beside jansson's own reader on mutated documents. */
#include "front.h"
#include "src/json/json.h"

#include <stdlib.h>

static Arena arena;

static int setup(void **state) {
	(void)state;
	arena_init(&arena, NULL);
	return 0;
}

static int teardown(void **state) {
	(void)state;
	arena_free(&arena);
	return 0;
}

/* What is written again of a text is what stands beside it. */
static void values(void **state) {
	static const char *const rows[][2] = {
		{"null", "null"},
		{" [true,false , null]\n", "[true, false, null]"},
		{"{}", "{}"},
		{"[]", "[]"},
		{"{\"a\": {\"b\": [1, {\"c\": \"d\"}]}, \"e\": []}",
	         "{\"a\": {\"b\": [1, {\"c\": \"d\"}]}, \"e\": []}"},
		{"-9223372036854775808", "-9223372036854775808"},
		{"[0, -0, 10]", "[0, 0, 10]"},
		{"[0.5, -1e3, 2.25E-2, 1e-400]", "[0.5, -1000.0, 0.022499999999999999, 0.0]"},
		{"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\\"\\\\/\\b\\f\\n\\r\\t\""},
		{"\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"", "\"A\303\251\342\202\254\360\237\230\200\""},
		{"{\"\\u0041\": 1, \"\": 2}", "{\"A\": 1, \"\": 2}"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		JsonError e;
		json_t *value = json_parse(&arena, rows[i][0], strlen(rows[i][0]), &e);
		char *again = json_dumps(value, JSON_ENCODE_ANY);
		assert_string_equal(again, rows[i][1]);
		free(again);
		json_decref(value);
	}
}

static void faults(void **state) {
	static const struct {
		const char *text;
		JsonFault fault;
		size_t offset;
		const char *says;
	} rows[] = {
		{"", JSON_FAULT_TRUNCATED, 0, ""},
		{"[1, ", JSON_FAULT_TRUNCATED, 4, ""},
		{"{\"a\"", JSON_FAULT_TRUNCATED, 4, ""},
		{"\"abc", JSON_FAULT_TRUNCATED, 4, ""},
		{"\"abc\\", JSON_FAULT_TRUNCATED, 5, ""},
		{"\"abc\\u12", JSON_FAULT_TRUNCATED, 8, ""},
		{"-", JSON_FAULT_TRUNCATED, 1, ""},
		{"1.", JSON_FAULT_TRUNCATED, 2, ""},
		{"1e+", JSON_FAULT_TRUNCATED, 3, ""},
		{"1 2", JSON_FAULT_AFTER_END, 2, ""},
		{"[01]", JSON_FAULT_SYNTAX, 1, "invalid token near '01'"},
		{"[1.x]", JSON_FAULT_SYNTAX, 1, "invalid token near '1.'"},
		{"[1,]", JSON_FAULT_SYNTAX, 3, "unexpected token near ']'"},
		{"{\"a\": 1,}", JSON_FAULT_SYNTAX, 8, "a name in double quotes expected near '}'"},
		{"{\"a\" 1}", JSON_FAULT_SYNTAX, 5, "':' expected near '1'"},
		{"[1 2]", JSON_FAULT_SYNTAX, 3, "',' or ']' expected near '2'"},
		{"[truE]", JSON_FAULT_SYNTAX, 1, "invalid token near 'truE'"},
		{"[\"a\nb\"]", JSON_FAULT_SYNTAX, 1, "unexpected newline near '\"a'"},
		{"[\"a\001b\"]", JSON_FAULT_SYNTAX, 1, "control character 0x1 near '\"a'"},
		{"[\"\\x\"]", JSON_FAULT_SYNTAX, 1, "invalid escape near '\"\\x'"},
		{"[\"\\udc00\"]", JSON_FAULT_SYNTAX, 1, "invalid escape near '\"\\udc00'"},
		{"[\"\\ud800\\u0041\"]", JSON_FAULT_SYNTAX, 1, "invalid escape near '\"\\ud800\\u0041'"},
		{"[\"a\\u0000\"]", JSON_FAULT_NUL, 1, ""},
		{"{\"\\u0000\": 1}", JSON_FAULT_NUL, 1, ""},
		{"[\"\377\"]", JSON_FAULT_UTF8, 2, ""},
		{"[\377]", JSON_FAULT_UTF8, 1, ""},
		{"[\303\251]", JSON_FAULT_SYNTAX, 1, "invalid token near '\303\251'"},
		{"{\"a\": 1, \"b\": 2, \"a\": 3}", JSON_FAULT_DUPLICATE, 17, ""},
		{"[9223372036854775808]", JSON_FAULT_NUMBER, 1, ""},
		{"[-1e999]", JSON_FAULT_NUMBER, 1, ""},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		JsonError e;
		assert_null(json_parse(&arena, rows[i].text, strlen(rows[i].text), &e));
		assert_int_equal(e.fault, rows[i].fault);
		assert_int_equal(e.offset, rows[i].offset);
		assert_string_equal(e.text, rows[i].says);
	}
}

/* A value in 2047 lists is as deep as may be. */
static void depth(void **state) {
	enum { DEEPEST = 2047 };
	(void)state;
	for (int more = 0; more < 2; more++) {
		char text[2 * (DEEPEST + 1) + 1];
		int n = DEEPEST + more;
		JsonError e;
		memset(text, '[', (size_t)n);
		text[n] = '1';
		memset(text + n + 1, ']', (size_t)n);
		json_t *value = json_parse(&arena, text, 2 * (size_t)n + 1, &e);
		assert_int_equal(value == NULL, more);
		if (!value)
			assert_int_equal(e.fault, JSON_FAULT_DEPTH);
		json_decref(value);
	}
}

/* Both take the same texts, and make the same of them. */
static void as_jansson_reads_it(void **state) {
	static const char document[] = "{\"name\": \"a\\u00e9\303\251\", \"list\": [1, -20, 3.5e1, true, null, {}], "
				       "\"x\": {\"b\": [[\"\\\"\\n\", 0]], \"c\": false}}";
	static const char bytes[] = "{}[]:,\"\\u0019eE+-. tfn\303\251\377\n\001a";
	const char *asked = getenv("PALLASC_JSON_TEXTS");
	long count = asked ? strtol(asked, NULL, 10) : 20000;
	unsigned long seed = 1;
	int taken = 0;
	(void)state;
	for (long i = 0; i < count; i++) {
		char text[sizeof document + 8];
		size_t length = sizeof document - 1;
		memcpy(text, document, sizeof document);
		for (int edits = 1 + (int)(i % 3); edits > 0; edits--) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			size_t at = (size_t)(seed >> 33) % length, kind = (size_t)(seed >> 20) % 4;
			char byte = bytes[(size_t)(seed >> 40) % (sizeof bytes - 1)];
			if (kind == 0 && length > 1)
				memmove(text + at, text + at + 1, --length - at);
			else if (kind == 1 && length < sizeof document + 4)
				memmove(text + at + 1, text + at, length++ - at), text[at] = byte;
			else
				text[at] = kind == 2 ? byte : text[(at * 7) % length];
		}
		JsonError e;
		json_error_t theirs;
		json_t *a = json_parse(&arena, text, length, &e);
		json_t *b = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &theirs);
		if (!a != !b)
			fail_msg("%.*s: %s", (int)length, text, a ? "taken" : "not taken");
		assert_true(!a || json_equal(a, b));
		taken += a != NULL;
		json_decref(a);
		json_decref(b);
	}
	assert_true(taken > count / 50);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values),
		cmocka_unit_test(faults),
		cmocka_unit_test(depth),
		cmocka_unit_test(as_jansson_reads_it),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
