/* test_int64.c - the intervals of ints, and the words in which int64 values are computed. */

/* The documents are laid out by hand. */
/* clang-format off */
#include "passes_fixture.h"

#include "../../passes/int_ranges.h"

#define META(dtype) "\"meta\": {\"dtype\": \"" dtype "\", \"shape\": [\"u0\"]}"
#define WIDE(name, target, args) \
	"{\"name\": \"" name "\", \"target\": \"" target "\", \"args\": [" args "], " META("int64") "},"
#define HEAD                                                                                                           \
	"{\"id\": 0, \"kind\": \"root\", \"grid\": [0], \"nodes\": ["                                                  \
	"{\"name\": \"v\", \"target\": \"tile.host_tensor\", \"args\": [\"v\"], "                                      \
	"\"meta\": {\"dtype\": \"int32\", \"shape\": [1000]}},"                                                        \
	"{\"name\": \"io\", \"target\": \"tile.host_tensor\", \"args\": [\"io\"], "                                    \
	"\"meta\": {\"dtype\": \"int32\", \"shape\": [1000]}},"                                                        \
	"{\"name\": \"i\", \"target\": \"tile.index\", \"args\": [" U0 "], " META("int32") "},"                        \
	"{\"name\": \"t\", \"target\": \"tile.load\", \"args\": [" REF("v") ", [" U0 "]], " META("int32") "},"         \
	WIDE("at", "prims.convert_element_type.default", REF("i") ", {\"dtype\": \"int64\"}")                           \
	WIDE("x", "prims.convert_element_type.default", REF("t") ", {\"dtype\": \"int64\"}")
#define TAIL(value) STORE("s", "io", U0, value) "," OUTPUT("") "]}"

static const char arithmetic[] = HEAD
	WIDE("sum", "aten.add.Tensor", REF("x") ", " REF("x"))
	WIDE("low", "aten.bitwise_and.Scalar", REF("sum") ", 4294967295")
	WIDE("half", "aten.bitwise_and.Scalar", REF("low") ", 65535")
	WIDE("product", "aten.mul.Tensor", REF("half") ", 53841")
	WIDE("high", "aten.__rshift__.Scalar", REF("product") ", 16")
	WIDE("less", "aten.sub.Tensor", REF("low") ", 2147483648")
	"{\"name\": \"negative\", \"target\": \"aten.lt.Scalar\", \"args\": [" REF("less") ", 0], " META("bool") "},"
	WIDE("minus", "aten.neg.default", REF("less"))
	WIDE("size", "aten.where.self", REF("negative") ", " REF("minus") ", " REF("less"))
	WIDE("mod", "aten.remainder.Scalar", REF("size") ", 10")
	WIDE("nothing", "aten.mul.Tensor", REF("at") ", 0")
	WIDE("all", "aten.add.Tensor", REF("mod") ", " REF("high"))
	WIDE("end", "aten.add.Tensor", REF("all") ", " REF("nothing"))
	TAIL("end");
/* clang-format on */

static void assert_range(const IntRanges *r, const char *name, int64_t low, int64_t high) {
	NodeId n = graph_node(r->m, 0, name);
	assert_int_not_equal(n, NONE);
	if (r->of[n].low != low || r->of[n].high != high)
		fail_msg("%s is from %lld to %lld", name, (long long)r->of[n].low, (long long)r->of[n].high);
}

static void intervals_are_those_of_the_operations(void **state) {
	(void)state;
	Fixture f;
	fixture_init(&f);
	Module *m = fixture_load(&f, arithmetic);
	IntRanges r = int_ranges(&f.arena, m);
	const int64_t word = INT64_C(1) << 32;
	assert_range(&r, "x", INT32_MIN, INT32_MAX);
	assert_range(&r, "at", 0, 3000); /* and lanes beyond the 1000 */
	assert_range(&r, "sum", -word, word - 2);
	assert_range(&r, "low", 0, word - 1);
	assert_range(&r, "half", 0, 65535);
	assert_range(&r, "product", 0, INT64_C(65535) * 53841);
	assert_range(&r, "high", 0, 53840);
	assert_range(&r, "less", INT32_MIN, INT32_MAX);
	assert_range(&r, "minus", -(int64_t)INT32_MAX, word / 2);
	assert_range(&r, "size", 0, word / 2); /* minus is chosen where less is negative */
	assert_range(&r, "mod", 0, 9);
	assert_range(&r, "nothing", 0, 0);
	fixture_free(&f);
}

static void values_get_the_word_that_holds_them(void **state) {
	(void)state;
	Fixture f;
	fixture_init(&f);
	Module *m = fixture_load(&f, arithmetic);
	PassContext c = run_pass(&f, "int64");
	assert_string_equal(type_of(m, 0, "x"), "int32[u0]");
	assert_string_equal(type_of(m, 0, "sum"), "int32[u0]"); /* its low bits */
	assert_string_equal(type_of(m, 0, "half"), "uint32[u0]");
	assert_string_equal(type_of(m, 0, "product"), "uint32[u0]");
	assert_string_equal(type_of(m, 0, "less"), "int32[u0]");
	assert_string_equal(type_of(m, 0, "size"), "uint32[u0]");
	assert_int_equal(graph_node(m, 0, "low"), NONE);     /* the low word of sum */
	assert_int_equal(graph_node(m, 0, "nothing"), NONE); /* 0 */
	assert_int_equal(graph_node(m, 0, "end"), NONE);     /* and nothing more */
	assert_true(remarked(&c, "values of int64 are computed in 32 bits"));
	assert_idempotent(&f, "int64");
	fixture_free(&f);
}

/* A count grows by what a step adds; what else is carried may be anything. */
/* clang-format off */
#define CARRIED(target, args)                                                                                          \
	"{\"id\": 1, \"kind\": \"for_loop\", \"block_ids\": [1], \"carried\": [[0, 0]], \"nodes\": ["                  \
	"{\"name\": \"n\", \"op\": \"placeholder\", " META("int64") "},"                                               \
	WIDE("more", target, args) OUTPUT(REF("more")) "]},"                                                           \
	HEAD WIDE("none", "tile.full", "[" U0 "], 0, {\"dtype\": \"int64\"}")                                          \
	"{\"name\": \"l\", \"target\": \"tile.for_loop\", \"args\": [1, [0], [5000], [" REF("none") "]], "             \
	"\"meta\": {\"tuple\": [{\"dtype\": \"int64\", \"shape\": [\"u0\"]}]}},"                                       \
	WIDE("count", "getitem", REF("l") ", 0")                                                                       \
	"{\"name\": \"f\", \"target\": \"aten.lt.Scalar\", \"args\": [" REF("count") ", 3], " META("bool") "},"        \
	TAIL("f")
static const char counted[] = CARRIED("aten.add.Tensor", REF("n") ", 7"),
		  doubled[] = CARRIED("aten.mul.Tensor", REF("n") ", 2"),
		  squared[] = CARRIED("aten.add.Tensor", REF("n") ", " REF("n"));
/* clang-format on */

static IntRange range_of_result(Fixture *f, const char *graphs) {
	fixture_init(f);
	Module *m = fixture_load(f, graphs);
	IntRanges r = int_ranges(&f->arena, m);
	return r.of[graph_node(m, 1, "count")];
}

static void carried_values_grow_by_the_steps_of_the_loop(void **state) {
	(void)state;
	Fixture f;
	IntRange r = range_of_result(&f, counted);
	assert_int_equal(r.low, 0);
	assert_int_equal(r.high, 7 * (20 + 1)); /* 20 steps of 256; one more, for what a step makes of the last */
	fixture_free(&f);
	r = range_of_result(&f, doubled); /* 0 stays 0 */
	assert_true(r.low == 0 && r.high == 0);
	fixture_free(&f);
	r = range_of_result(&f, squared);
	assert_true(r.low == 0 && r.high == 0);
	fixture_free(&f);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

/* clang-format off */
static const char compared[] = HEAD
	WIDE("sum", "aten.add.Tensor", REF("x") ", " REF("x"))
	"{\"name\": \"b\", \"target\": \"aten.lt.Scalar\", \"args\": [" REF("sum") ", 0], " META("bool") "},"
	TAIL("b");
static const char unread[] = HEAD
	WIDE("sum", "aten.add.Tensor", REF("x") ", " REF("x"))
	"{\"name\": \"b\", \"target\": \"aten.lt.Scalar\", \"args\": [" REF("sum") ", 0], " META("bool") "},"
	TAIL("sum");
/* clang-format on */

static bool accepted(Fixture *f, const char *graphs) {
	const char *name = "int64";
	fixture_init(f);
	fixture_load(f, graphs);
	PassContext c = {.module = f->module, .diag = &f->diag, .arena = &f->arena};
	return module_verify(f->module, &f->diag) && pass_pipeline_run(&c, &name, 1, NULL);
}

static void what_no_word_holds_is_refused_where_it_is_needed_whole(void **state) {
	(void)state;
	Fixture f;
	assert_false(accepted(&f, compared));
	assert_string_equal(f.diag.list.at[0].code, "int64-range");
	assert_non_null(strstr(f.diag.list.at[0].message, "'sum', in int64, may be anywhere from -2^32 to 4294967294"));
	assert_non_null(f.diag.list.at[0].hint);
	fixture_free(&f);
	assert_true(accepted(&f, unread)); /* a comparison that nothing reads */
	fixture_free(&f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(intervals_are_those_of_the_operations),
		cmocka_unit_test(values_get_the_word_that_holds_them),
		cmocka_unit_test(carried_values_grow_by_the_steps_of_the_loop),
		cmocka_unit_test(what_no_word_holds_is_refused_where_it_is_needed_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
