#include "front.h"
#include "src/json/json.h"

#include <stdlib.h>

static void test_arena(void **state) {
	Arena a;
	(void)state;
	arena_init(&a, NULL);
	for (size_t size = 0; size < 3000; size += 7) {
		char *p = arena_alloc(&a, size);
		assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
		for (size_t i = 0; i < size; i++)
			assert_int_equal(p[i], 0);
		memset(p, 0xff, size);
	}
	char *large = arena_alloc(&a, 10 << 20), *small = arena_alloc(&a, 1);
	assert_int_equal(large[(10 << 20) - 1] + small[0], 0);
	arena_reset(&a);
	for (int turn = 0; turn < 2; turn++) { /* reused memory is zeroed too, behind pieces that are not */
		memset(arena_raw(&a, 100), 0xff, 100);
		char *again = arena_alloc(&a, 2000);
		for (int i = 0; i < 2000; i++)
			assert_int_equal(again[i], 0);
		memset(again, 0xff, 2000);
		arena_reset(&a);
	}
	arena_free(&a);
	arena_free(&a);
}

/* One whose allocations are exact uses none twice. */
#ifndef ARENA_EXACT
#define ARENA_EXACT 0
#endif

/* What another arena held is used before malloc is asked, and is zero where that is promised. */
static void test_taken_memory(void **state) {
	Arena a, other;
	(void)state;
	arena_init(&a, NULL);
	arena_init(&other, NULL);
	char *small = arena_raw(&other, 1 << 20), *large = arena_raw(&other, 20 << 20);
	memset(small, 0xff, 1 << 20);
	memset(large, 0xff, 20 << 20);
	arena_take(&a, &other);
	assert_null(other.chunk);
	for (int i = 0; i < 3; i++) {
		char *piece = arena_alloc(&a, 6 << 20);
		for (size_t at = 0; at < 6 << 20; at++)
			assert_int_equal(piece[at], 0);
		memset(piece, 0xff, 6 << 20);
	}
	assert_int_equal(a.total, ARENA_EXACT ? 3 * (6 << 20) : 0);
	assert_int_equal(*(char *)arena_alloc(&other, 1), 0);
	arena_free(&a);
	arena_free(&other);
}

/* What was allocated before stays, and what comes after is zero, in one chunk and over several. */
static void test_mark(void **state) {
	static const size_t sizes[] = {1000, 100 << 10, 3 << 20};
	Arena a;
	(void)state;
	arena_init(&a, NULL);
	ArenaMark empty = arena_mark(&a);
	memset(arena_raw(&a, 5000), 0xff, 5000);
	arena_release(&a, empty);
	char *before = memset(arena_raw(&a, 100), 'x', 100);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		ArenaMark mark = arena_mark(&a);
		for (int turn = 0; turn < 5; turn++)
			memset(arena_raw(&a, sizes[i]), 0xff, sizes[i]);
		size_t total = a.total;
		arena_release(&a, mark);
		for (int turn = 0; turn < 5; turn++) {
			const char *again = arena_alloc(&a, sizes[i]);
			for (size_t at = 0; at < sizes[i]; at++)
				assert_int_equal(again[at], 0);
		}
		assert_int_equal(a.total, ARENA_EXACT ? total + 5 * sizes[i] : total);
		arena_release(&a, mark);
		for (int at = 0; at < 100; at++)
			assert_int_equal(before[at], 'x');
	}
	arena_free(&a);
}

static void test_out_of_memory(void **state) {
	jmp_buf oom;
	Arena a;
	(void)state;
	arena_init(&a, &oom);
	if (setjmp(oom) == 0) {
		arena_array(&a, SIZE_MAX / 2, 4);
		fail();
	}
	arena_free(&a);
}

static void test_vec(void **state) {
	Arena a;
	VEC(int) v = {0};
	(void)state;
	arena_init(&a, NULL);
	for (int i = 0; i < 1000; i++)
		vec_push(&a, &v, i);
	assert_int_equal(v.count, 1000);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(v.at[i], i);
	arena_free(&a);
}

static void test_names(void **state) {
	Arena a;
	StringTable t = {0};
	Map map = {0};
	(void)state;
	arena_init(&a, NULL);
	assert_null(string_find(&t, "x"));
	for (uint32_t i = 0; i < 5000; i++) {
		const char *s = string_intern(&a, &t, arena_printf(&a, "name%u", i));
		assert_int_equal(map_get(&map, map_key(s)), NONE);
		map_put(&a, &map, map_key(s), i);
	}
	Map copy = map_clone(&a, &map);
	for (uint32_t i = 0; i < 5000; i++) {
		const char *s = string_find(&t, arena_printf(&a, "name%u", i));
		assert_non_null(s);
		assert_ptr_equal(s, string_intern(&a, &t, arena_strdup(&a, s)));
		assert_int_equal(map_get(&map, map_key(s)), i);
		map_put(&a, &map, map_key(s), NONE);
		assert_int_equal(map_get(&map, map_key(s)), NONE);
		assert_int_equal(map_get(&copy, map_key(s)), i);
	}
	arena_free(&a);
}

static void test_arithmetic(void **state) {
	static const int64_t edge[] = {INT64_MIN, INT64_MIN + 1, -7, -2, -1, 0, 1, 2, 7, INT64_MAX - 1, INT64_MAX};
	enum { N = sizeof edge / sizeof *edge };
	(void)state;
	for (int i = 0; i < N; i++) {
		for (int k = 0; k < N; k++) {
			int64_t a = edge[i], b = edge[k], out, truth;
			assert_int_equal(checked_add(a, b, &out), !__builtin_add_overflow(a, b, &truth));
			assert_true(!checked_add(a, b, &out) || out == truth);
			assert_int_equal(checked_sub(a, b, &out), !__builtin_sub_overflow(a, b, &truth));
			assert_true(!checked_sub(a, b, &out) || out == truth);
			assert_int_equal(checked_mul(a, b, &out), !__builtin_mul_overflow(a, b, &truth));
			assert_true(!checked_mul(a, b, &out) || out == truth);
		}
	}
	int64_t out;
	assert_true(checked_floordiv(-7, 2, &out) && out == -4);
	assert_true(checked_floordiv(7, -2, &out) && out == -4);
	assert_true(checked_mod(-7, 3, &out) && out == 2);
	assert_true(checked_mod(7, -3, &out) && out == -2);
	assert_true(checked_mod(INT64_MIN, -1, &out) && out == 0);
	assert_false(checked_floordiv(INT64_MIN, -1, &out));
	assert_false(checked_floordiv(1, 0, &out));
	assert_false(checked_mod(1, 0, &out));
}

static void test_nearest(void **state) {
	static const char *const names[] = {"block_sizes", "loop_orders", "x", NULL};
	(void)state;
	assert_string_equal(name_nearest("block_szies", names), "block_sizes");
	assert_string_equal(name_nearest("loop_order", names), "loop_orders");
	assert_null(name_nearest("num_warps", names));
	assert_null(name_nearest("q", names));
	assert_null(name_nearest("", names));
}

static void expect_whole(Arena *a, double value, const char *text) {
	assert_string_equal(arena_printf(a, "<%.0f>", value), text);
}

static void test_whole_numbers(void **state) {
	Arena a;
	Text t;
	(void)state;
	arena_init(&a, NULL);
	expect_whole(&a, 0, "<0>");
	expect_whole(&a, -0.0, "<-0>");
	expect_whole(&a, 34359738368.0, "<34359738368>");
	expect_whole(&a, 2.5, "<2>");
	expect_whole(&a, -7, "<-7>");
	expect_whole(&a, 1e18, "<1000000000000000000>");
	expect_whole(&a, 1e20, "<100000000000000000000>");
	text_init(&t, &a);
	text_put_int(&t, INT64_MIN);
	assert_string_equal(t.at, "-9223372036854775808");
	arena_free(&a);
}

static void test_text(void **state) {
	static const double numbers[] = {0.0, 1.0, -2.5, 0.1, 1e300, 5e-324, 0.12751743082459868, 1e15, 123456789.0};
	Arena a;
	(void)state;
	arena_init(&a, NULL);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		Text t;
		text_init(&t, &a);
		text_put_double(&t, numbers[i]);
		assert_true(strtod(t.at, NULL) == numbers[i]);
		assert_non_null(strpbrk(t.at, ".e"));
	}
	assert_string_equal(arena_printf(&a, "%.*s|%.*s|%.*s|%s", 2, "abc", 9, "abc", -1, "abc", ""), "ab|abc|abc|");
	assert_string_equal(arena_printf(&a, "%s %.3g", "about", 1234.5), "about 1.23e+03");
	Text t;
	text_init(&t, &a);
	text_put_json(&t, "a\"b\\c\n\x01\xc3\xbc");
	assert_string_equal(t.at, "\"a\\\"b\\\\c\\n\\u0001\xc3\xbc\"");
	arena_free(&a);
}

/* Short decimals take a way of their own: what it prints is what %.15g would. */
static void test_decimals(void **state) {
	Arena a;
	char expected[64];
	(void)state;
	arena_init(&a, NULL);
	for (int64_t digits = 1; digits < 1000000000000000; digits = digits * 3 + 1) {
		double power = 1;
		for (int decimals = 0; decimals < 23; decimals++, power *= 10) {
			double value = (double)(decimals % 2 ? -digits : digits) / power;
			Text t;
			text_init(&t, &a);
			text_put_double(&t, value);
			int length = snprintf(expected, sizeof expected, "%.15g", value);
			if (!strpbrk(expected, ".e"))
				snprintf(expected + length, sizeof expected - (size_t)length, ".0");
			assert_string_equal(t.at, expected);
		}
	}
	arena_free(&a);
}

#define expect_rounded(a, fmt, x)                                                                                      \
	do {                                                                                                           \
		char expected[64];                                                                                     \
		snprintf(expected, sizeof expected, fmt, x);                                                           \
		assert_string_equal(arena_printf(a, fmt, x), expected);                                                \
	} while (0)

/* What the C library makes of it, also in the middle of two texts. */
static void test_rounded(void **state) {
	Arena a;
	(void)state;
	arena_init(&a, NULL);
	double value = 3e-7;
	for (int turn = 0; turn < 1050; turn++, value *= 1.0371) {
		const double numbers[] = {value, -(double)(int64_t)(value * 64) / 64, (double)(int64_t)value + 0.5};
		for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
			expect_rounded(&a, "%.1g", numbers[i]);
			expect_rounded(&a, "%.2g", numbers[i]);
			expect_rounded(&a, "%.3g", numbers[i]);
			expect_rounded(&a, "%.4g", numbers[i]);
			expect_rounded(&a, "%.9g", numbers[i]);
		}
	}
	arena_free(&a);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arena),   cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_vec),
		cmocka_unit_test(test_names),   cmocka_unit_test(test_arithmetic),    cmocka_unit_test(test_nearest),
		cmocka_unit_test(test_text),    cmocka_unit_test(test_whole_numbers), cmocka_unit_test(test_decimals),
		cmocka_unit_test(test_rounded), cmocka_unit_test(test_taken_memory),  cmocka_unit_test(test_mark),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
