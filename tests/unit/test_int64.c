/* test_int64.c - the intervals of ints, and the words in which int64 values are computed. */

#include "passes_fixture.h"

#define HEAD                                                                                                           \
	"root 0 over [0]\n"                                                                                            \
	"v = tile.host_tensor('v') : int32[1000]\n"                                                                    \
	"io = tile.host_tensor('io') : int32[1000]\n"                                                                  \
	"i = tile.index(u0) : int32[u0]\n"                                                                             \
	"t = tile.load(v, [u0]) : int32[u0]\n"                                                                         \
	"at = prims.convert_element_type.default(i, int64) : int64[u0]\n"                                              \
	"x = prims.convert_element_type.default(t, int64) : int64[u0]\n"
#define TAIL(value) "s = tile.store(io, [u0], " value ")\nreturn\n"

static const char arithmetic[] = HEAD "sum = aten.add.Tensor(x, x) : int64[u0]\n"
				      "low = aten.bitwise_and.Scalar(sum, 4294967295) : int64[u0]\n"
				      "half = aten.bitwise_and.Scalar(low, 65535) : int64[u0]\n"
				      "product = aten.mul.Tensor(half, 53841) : int64[u0]\n"
				      "high = aten.__rshift__.Scalar(product, 16) : int64[u0]\n"
				      "less = aten.sub.Tensor(low, 2147483648) : int64[u0]\n"
				      "negative = aten.lt.Scalar(less, 0) : bool[u0]\n"
				      "minus = aten.neg.default(less) : int64[u0]\n"
				      "size = aten.where.self(negative, minus, less) : int64[u0]\n"
				      "mod = aten.remainder.Scalar(size, 10) : int64[u0]\n"
				      "nothing = aten.mul.Tensor(at, 0) : int64[u0]\n"
				      "all = aten.add.Tensor(mod, high) : int64[u0]\n"
				      "end = aten.add.Tensor(all, nothing) : int64[u0]\n" TAIL("end");

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

/* 0 + y is y, but 0 + 2 * y is not. */
static void nothing_is_left_out_of_a_sum(void **state) {
	(void)state;
	Fixture f;
	fixture_init(&f);
	Module *m =
		fixture_load(&f, HEAD "few = aten.bitwise_and.Scalar(x, 255) : int64[u0]\n"
	                              "nothing = aten.mul.Tensor(at, 0) : int64[u0]\n"
	                              "once = aten.add.Tensor(nothing, few) : int64[u0]\n"
	                              "twice = aten.add.Tensor(nothing, once, alpha=2) : int64[u0]\n" TAIL("twice"));
	run_pass(&f, "int64");
	assert_int_equal(graph_node(m, 0, "once"), NONE);
	NodeId twice = named(m, "twice");
	assert_int_equal(node_arg(m, twice, 0)->integer, 0);
	assert_int_equal(node_arg(m, twice, 2)->integer, 2);
	fixture_free(&f);
}

/* Of a value and its place, both int64 in torch, the place needs no more than the int32 that counts elements. */
static void a_place_is_int32_whatever_the_value_is(void **state) {
	(void)state;
	Fixture f;
	fixture_init(&f);
	Module *m = fixture_load(&f, HEAD "low = aten.bitwise_and.Scalar(x, 4294967295) : int64[u0]\n"
	                                  "pair = aten.max.dim(low, 0) : (int64[], int64[])\n"
	                                  "value = getitem(pair, 0) : int64[]\n"
	                                  "place = getitem(pair, 1) : int64[]\n"
	                                  "high = aten.__rshift__.Scalar(value, 16) : int64[]\n"
	                                  "both = aten.add.Tensor(high, place) : int64[]\n"
	                                  "few = aten.bitwise_and.Scalar(x, 255) : int64[u0]\n"
	                                  "end = aten.add.Tensor(few, both) : int64[u0]\n" TAIL("end"));
	run_pass(&f, "int64");
	assert_string_equal(type_of(m, 0, "pair"), "(uint32[], int32[])");
	fixture_free(&f);
}

/* A count grows by what a step adds; what else is carried may be anything. */
#define CARRIED(more)                                                                                                  \
	"for_loop 1 over [1] carry [[0, 0]]\n"                                                                         \
	"n : int64[u0]\n"                                                                                              \
	"more = " more " : int64[u0]\n"                                                                                \
	"return more\n" HEAD "none = tile.full([u0], 0, int64) : int64[u0]\n"                                          \
	"l = tile.for_loop(1, [0], [5000], [none]) : (int64[u0])\n"                                                    \
	"count = getitem(l, 0) : int64[u0]\n"                                                                          \
	"f = aten.lt.Scalar(count, 3) : bool[u0]\n" TAIL("f")
static const char counted[] = CARRIED("aten.add.Tensor(n, 7)"), doubled[] = CARRIED("aten.mul.Tensor(n, 2)"),
		  squared[] = CARRIED("aten.add.Tensor(n, n)");

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

/* `all` adds up what itself grows: by then nothing is known of it, nor of what is made of it. */
static void what_adds_up_a_growing_value_may_be_anything(void **state) {
	(void)state;
	Fixture f;
	fixture_init(&f);
	Module *m = fixture_load(&f, "for_loop 1 over [1] carry [[0, 0], [1, 1]]\n"
	                             "n : int64[u0]\n"
	                             "all : int64[u0]\n"
	                             "more = aten.add.Tensor(n, 7) : int64[u0]\n"
	                             "sum = aten.add.Tensor(all, more) : int64[u0]\n"
	                             "return more, sum\n" HEAD "none = tile.full([u0], 0, int64) : int64[u0]\n"
	                             "l = tile.for_loop(1, [0], [5000], [none, none]) : (int64[u0], int64[u0])\n"
	                             "count = getitem(l, 1) : int64[u0]\n"
	                             "f = aten.lt.Scalar(count, 3) : bool[u0]\n" TAIL("f"));
	IntRanges r = int_ranges(&f.arena, m);
	static const char *const names[] = {"all", "sum"};
	for (size_t i = 0; i < 2; i++) {
		IntRange found = r.of[graph_node(m, 0, names[i])];
		assert_true(found.low == INT64_MIN && found.high == INT64_MAX);
	}
	fixture_free(&f);
}

/* A position that a function picks is one of those given; a sum is of all; what else it makes may be anything. */
#define COMBINED(function, of)                                                                                         \
	"combine 1\n"                                                                                                  \
	"a : float32[]\n"                                                                                              \
	"i : int64[]\n"                                                                                                \
	"b : float32[]\n"                                                                                              \
	"k : int64[]\n"                                                                                                \
	"less = aten.lt.Tensor(a, b) : bool[]\n"                                                                       \
	"c = aten.where.self(less, b, a) : float32[]\n"                                                                \
	"r = " function " : int64[]\n"                                                                                 \
	"return c, r\n" HEAD "f = prims.convert_element_type.default(t, float32) : float32[u0]\n"                      \
	"near = aten.clamp.default(x, 2, 9) : int64[u0]\n"                                                             \
	"both = tile.reduce(1, [f, " of "], 0) : (float32[], int64[])\n"                                               \
	"count = getitem(both, 1) : int64[]\n"                                                                         \
	"g = aten.lt.Scalar(count, 3) : bool[]\n" TAIL("g")

static void combined_values_are_of_the_operands(void **state) {
	(void)state;
	static const struct {
		const char *graphs;
		int64_t low, high;
	} cases[] = {
		{COMBINED("aten.where.self(less, k, i)", "near"), 2, 9},
		{COMBINED("aten.maximum.default(k, i)", "x"), INT32_MIN, INT32_MAX},
		{COMBINED("aten.add.Tensor(i, k)", "near"), 2, INT64_C(9) * 128},
		{COMBINED("aten.add.Tensor(i, i)", "near"), INT64_MIN, INT64_MAX},
		{COMBINED("aten.sub.Tensor(i, k)", "near"), INT64_MIN, INT64_MAX},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		Fixture f;
		IntRange r = range_of_result(&f, cases[i].graphs);
		if (r.low != cases[i].low || r.high != cases[i].high)
			fail_msg("%zu: %lld to %lld", i, (long long)r.low, (long long)r.high);
		fixture_free(&f);
	}
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

#define COMPARED HEAD "sum = aten.add.Tensor(x, x) : int64[u0]\nb = aten.lt.Scalar(sum, 0) : bool[u0]\n"

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
	assert_false(accepted(&f, COMPARED TAIL("b")));
	assert_string_equal(f.diag.list.at[0].code, "int64-range");
	assert_non_null(strstr(f.diag.list.at[0].message,
	                       "aten.lt.Scalar 'b': 'sum', in int64, may be anywhere from -2^32 to 4294967294"));
	assert_non_null(f.diag.list.at[0].hint);
	fixture_free(&f);
	assert_true(accepted(&f, COMPARED TAIL("sum"))); /* a comparison that nothing reads */
	fixture_free(&f);
	assert_true(accepted(&f, COMBINED("aten.where.self(less, k, i)", "x")));
	assert_string_equal(type_of(f.module, 1, "count"), "int32[]");
	fixture_free(&f);
	assert_false(accepted(&f, COMBINED("aten.sub.Tensor(i, k)", "near")));
	assert_non_null(strstr(f.diag.list.at[0].message, "'count', in int64, may be anywhere"));
	fixture_free(&f);
}

/* Of two bounds each has to be an int32, and so has what says whether something runs. */
static void bounds_are_needed_whole(void **state) {
	(void)state;
	static const char *const bounds[] = {"[0], [sum]", "[sum], [9]"};
	for (size_t i = 0; i < 2; i++) {
		Fixture f;
		char graphs[2048];
		snprintf(graphs, sizeof graphs,
		         "for_loop 1 over [1]\n"
		         "io = tile.host_tensor('io') : int32[1000]\n"
		         "one = tile.full([u0], 1, int32) : int32[u0]\n"
		         "s = tile.store(io, [u0], one)\n"
		         "return\n"
		         "root 0 over [0]\n"
		         "n = tile.scalar('n') : int32[]\n"
		         "wide = prims.convert_element_type.default(n, int64) : int64[]\n"
		         "sum = aten.add.Tensor(wide, wide) : int64[]\n"
		         "l = tile.for_loop(1, %s, []) : ()\n"
		         "return\n",
		         bounds[i]);
		assert_false(accepted(&f, graphs));
		assert_non_null(strstr(f.diag.list.at[0].message, "tile.for_loop 'l': 'sum', in int64, may be"));
		fixture_free(&f);
	}
}

/* io stands for int64 and begins with `init`: what each of the 1000 rows adds to a place of it. */
static bool sums(const char *value, bool has_init, double init) {
	Fixture f;
	const char *name = "int64";
	char graphs[2048];
	fixture_init(&f);
	snprintf(graphs, sizeof graphs, "%s", HEAD);
	snprintf(graphs + strlen(graphs), sizeof graphs - strlen(graphs),
	         "near = aten.clamp.default(t, -3, 9) : int32[u0]\n"
	         "old = tile.atomic_add(io, [t], %s) : int32[u0]\nreturn\n",
	         value);
	Module *m = fixture_load(&f, graphs);
	for (TensorId i = 0; i < m->tensors.count; i++)
		if (strcmp(m->tensors.at[i].name, "io") == 0)
			m->tensors.at[i].whole = true, m->tensors.at[i].has_init = has_init,
			m->tensors.at[i].init = init;
	PassContext c = {.module = m, .diag = &f.diag, .arena = &f.arena};
	bool ok = module_verify(m, &f.diag) && pass_pipeline_run(&c, &name, 1, NULL);
	if (!ok) {
		assert_string_equal(f.diag.list.at[0].code, "int64-range");
		assert_non_null(strstr(f.diag.list.at[0].message, "'io' stands for one of int64"));
	}
	fixture_free(&f);
	return ok;
}

static void sums_of_atomics_stay_in_their_word(void **state) {
	(void)state;
	assert_true(sums("1", true, 0));
	assert_true(sums("1", true, INT32_MAX - 1000.0));
	assert_false(sums("1", true, INT32_MAX - 999.0));
	assert_true(sums("near", true, INT32_MAX - 9000.0));
	assert_false(sums("near", true, INT32_MAX - 8999.0));
	assert_true(sums("near", true, INT32_MIN + 3000.0));
	assert_false(sums("near", true, INT32_MIN + 2999.0));
	assert_false(sums("t", true, 0));
	assert_false(sums("1", false, 0)); /* nobody knows what it begins with */
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(intervals_are_those_of_the_operations),
		cmocka_unit_test(values_get_the_word_that_holds_them),
		cmocka_unit_test(nothing_is_left_out_of_a_sum),
		cmocka_unit_test(a_place_is_int32_whatever_the_value_is),
		cmocka_unit_test(carried_values_grow_by_the_steps_of_the_loop),
		cmocka_unit_test(what_adds_up_a_growing_value_may_be_anything),
		cmocka_unit_test(combined_values_are_of_the_operands),
		cmocka_unit_test(what_no_word_holds_is_refused_where_it_is_needed_whole),
		cmocka_unit_test(bounds_are_needed_whole),
		cmocka_unit_test(sums_of_atomics_stay_in_their_word),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
