/* test_int_ranges.c - between which ints the result of each op lies (passes/facts/int_ranges.c). */
#include "passes_fixture.h"

/* Operands whose ranges are known: w in 0..9, p in -5..3, q in 2..6, z in -7..-2, y in -9..-8, s in 1..3, any int32 t,
 * any int64 that is one, x, and 0 + 3 * i, of 64 elements, r. */
#define OPERANDS                                                                                                       \
	"root 0 over [0]\n"                                                                                            \
	"v = tile.host_tensor('v') : int32[1000]\n"                                                                    \
	"t = tile.load(v, [u0]) : int32[u0]\n"                                                                         \
	"x = prims.convert_element_type.default(t, int64) : int64[u0]\n"                                               \
	"w = aten.clamp.default(t, 0, 9) : int32[u0]\n"                                                                \
	"p = aten.clamp.default(t, -5, 3) : int32[u0]\n"                                                               \
	"q = aten.clamp.default(t, 2, 6) : int32[u0]\n"                                                                \
	"z = aten.clamp.default(t, -7, -2) : int32[u0]\n"                                                              \
	"y = aten.clamp.default(t, -9, -8) : int32[u0]\n"                                                              \
	"s = aten.clamp.default(t, 1, 3) : int32[u0]\n"                                                                \
	"less = aten.lt.Scalar(p, 1) : bool[u0]\n"                                                                     \
	"most = aten.le.Scalar(p, 1) : bool[u0]\n"                                                                     \
	"more = aten.gt.Scalar(p, -2) : bool[u0]\n"                                                                    \
	"least = aten.ge.Scalar(p, -2) : bool[u0]\n"                                                                   \
	"r = prims.iota.default(64, start=2, step=3, dtype=int32) : int32[64]\n"

typedef struct Case {
	const char *value, *type;
	int64_t low, high;
} Case;

static void assert_case(const Case *c) {
	Fixture f;
	char graphs[4096];
	fixture_init(&f);
	snprintf(graphs, sizeof graphs, OPERANDS "n = %s : %s\nreturn\n", c->value, c->type);
	Module *m = fixture_load(&f, graphs);
	if (!module_verify(m, &f.diag)) {
		diag_print(&f.diag, stderr, DIAG_TEXT, false);
		fail_msg("%s is refused", c->value);
	}
	IntRanges r = int_ranges(&f.arena, m);
	IntRange n = r.of[named(m, "n")];
	if (n.low != c->low || n.high != c->high)
		fail_msg("%s is from %lld to %lld", c->value, (long long)n.low, (long long)n.high);
	fixture_free(&f);
}

#define WORD "int32[u0]"
#define ANY INT32_MIN, INT32_MAX

static void arithmetic(void **state) {
	(void)state;
	static const Case cases[] = {
		{"aten.abs.default(p)", WORD, 0, 5},
		{"aten.abs.default(z)", WORD, 2, 7},
		{"aten.abs.default(q)", WORD, 2, 6},
		{"aten.abs.default(t)", WORD, ANY},
		{"aten.abs.default(x)", "int64[u0]", 0, INT64_C(1) << 31},
		{"aten.neg.default(p)", WORD, -3, 5},
		{"aten.sign.default(p)", WORD, -1, 1},
		{"aten.relu.default(p)", WORD, 0, 3},
		{"aten.square.default(p)", WORD, 0, 25},
		{"aten.square.default(z)", WORD, 4, 49},
		{"aten.add.Tensor(p, q)", WORD, -3, 9},
		{"aten.add.Tensor(p, q, alpha=3)", WORD, 1, 21},
		{"aten.sub.Tensor(p, q)", WORD, -11, 1},
		{"aten.sub.Tensor(p, q, alpha=2)", WORD, -17, -1},
		{"aten.rsub.Scalar(p, 10)", WORD, 7, 15},
		{"aten.mul.Tensor(p, z)", WORD, -21, 35},
		{"aten.mul.Tensor(p, q)", WORD, -30, 18},
		{"aten.maximum.default(p, q)", WORD, 2, 6},
		{"aten.minimum.default(p, z)", WORD, -7, -2},
		{"aten.clamp.default(p, null, 1)", WORD, -5, 1},
		{"aten.clamp.default(p, -1, null)", WORD, -1, 3},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_case(&cases[i]);
}

/* Each rounds its own way; a remainder has the sign of the divisor in Python, of the dividend in C. */
static void division(void **state) {
	(void)state;
	static const Case cases[] = {
		{"aten.floor_divide.default(p, q)", WORD, -3, 1},
		{"aten.div.Tensor_mode(p, q, rounding_mode='floor')", WORD, -3, 1},
		{"aten.div.Tensor_mode(p, q, rounding_mode='trunc')", WORD, -2, 1},
		{"aten.floor_divide.default(p, z)", WORD, -2, 2},
		{"aten.floor_divide.default(p, w)", WORD, ANY},
		{"aten.floor_divide.default(p, p)", WORD, ANY},
		{"aten.remainder.Tensor(p, q)", WORD, 0, 5},
		{"aten.remainder.Tensor(w, q)", WORD, 0, 5},
		{"aten.remainder.Tensor(s, q)", WORD, 0, 3},
		{"aten.remainder.Tensor(p, z)", WORD, -6, 0},
		{"aten.remainder.Tensor(w, z)", WORD, -6, 0},
		{"aten.remainder.Tensor(w, p)", WORD, -4, 4},
		{"aten.fmod.Tensor(p, q)", WORD, -5, 5},
		{"aten.fmod.Tensor(z, q)", WORD, -5, 0},
		{"aten.fmod.Tensor(q, z)", WORD, 0, 6},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_case(&cases[i]);
}

static void bits(void **state) {
	(void)state;
	static const Case cases[] = {
		{"aten.bitwise_not.default(p)", WORD, -4, 4},    {"aten.bitwise_and.Tensor(p, q)", WORD, 0, 6},
		{"aten.bitwise_and.Tensor(q, p)", WORD, 0, 6},   {"aten.bitwise_and.Tensor(q, w)", WORD, 0, 6},
		{"aten.bitwise_and.Tensor(z, p)", WORD, -8, 3},  {"aten.bitwise_and.Tensor(z, y)", WORD, -16, -2},
		{"aten.bitwise_or.Tensor(q, w)", WORD, 2, 15},   {"aten.bitwise_or.Tensor(p, q)", WORD, -8, 7},
		{"aten.bitwise_or.Tensor(p, y)", WORD, -16, 15}, {"aten.bitwise_xor.Tensor(q, w)", WORD, 0, 15},
		{"aten.bitwise_xor.Tensor(p, q)", WORD, -8, 7},  {"aten.__lshift__.Tensor(p, s)", WORD, -40, 24},
		{"aten.__rshift__.Tensor(z, s)", WORD, -4, -1},  {"aten.__rshift__.Tensor(w, s)", WORD, 0, 4},
		{"aten.__rshift__.Tensor(z, t)", WORD, -7, -1},  {"aten.__rshift__.Tensor(q, t)", WORD, 0, 6},
		{"aten.__rshift__.Tensor(p, t)", WORD, -5, 3},   {"aten.__lshift__.Tensor(q, t)", WORD, ANY},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_case(&cases[i]);
}

/* On each side what is compared has the range in which that side is taken. */
static void choices(void **state) {
	(void)state;
	static const Case cases[] = {
		{"aten.where.self(less, p, y)", WORD, -9, 0},         {"aten.where.self(less, q, p)", WORD, 1, 6},
		{"aten.where.self(most, p, y)", WORD, -9, 1},         {"aten.where.self(most, q, p)", WORD, 2, 6},
		{"aten.where.self(more, p, q)", WORD, -1, 6},         {"aten.where.self(more, y, p)", WORD, -9, -2},
		{"aten.where.self(least, p, q)", WORD, -2, 6},        {"aten.where.self(least, y, p)", WORD, -9, -3},
		{"aten.masked_fill.Scalar(p, less, 9)", WORD, -5, 9},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_case(&cases[i]);
}

static void of_many_elements(void **state) {
	(void)state;
	static const Case cases[] = {
		{"aten.neg.default(r)", "int32[64]", -191, -2},
		{"aten.arange.default(7, dtype=int32)", "int32[7]", 0, 6},
		{"aten.arange.start(3, 9, dtype=int32)", "int32[6]", 3, 9},
		{"aten.sum.dim_IntList(r, [-1], dtype=int32)", "int32[]", 128, 12224},
		{"aten.cumsum.default(r, 0, dtype=int32)", "int32[64]", 2, 12224},
		{"aten.argmax.default(r, 0)", "int32[]", 0, 63},
		{"aten.amax.default(r, [0])", "int32[]", 2, 191},
		{"aten.cat.default([p, y])", "int32[u0 * 2]", -9, 3},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_case(&cases[i]);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arithmetic), cmocka_unit_test(division),         cmocka_unit_test(bits),
		cmocka_unit_test(choices),    cmocka_unit_test(of_many_elements),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
