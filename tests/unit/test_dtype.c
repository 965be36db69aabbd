/* test_dtype.c - names and promotion of element types. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/ops/ops.h"

static void names_are_found(void **state) {
	(void)state;
	for (int t = 0; t < DTYPE_COUNT; t++)
		assert_int_equal(dtype_find(dtype_name((Dtype)t)), t);
	assert_int_equal(dtype_find("float64"), DTYPE_NONE);
	assert_string_equal(dtype_jnp(DTYPE_BOOL), "jnp.bool_");
	assert_string_equal(dtype_brief(DTYPE_F8E5M2), "e5m2");
	assert_string_equal(dtype_brief(DTYPE_NONE), "value");
	assert_int_equal(dtype_bits(DTYPE_I4), 4);
	assert_int_equal(dtype_vmem_bits(DTYPE_BOOL), 32);
	assert_int_equal(dtype_vmem_bits(DTYPE_I4), 4);
	assert_int_equal(dtype_class(DTYPE_U16), DTYPE_CLASS_UNSIGNED);
	assert_true(dtype_is_float(DTYPE_F8E5M2));
	assert_false(dtype_is_float(DTYPE_I8));
}

/* arith.c, ops_doc.c and the loader rely on the order; a float has a significand that is shorter than it is. */
static void rows_are_in_order(void **state) {
	(void)state;
	for (int t = 0; t < DTYPE_COUNT; t++) {
		assert_int_equal(dtype_is_float((Dtype)t), t < DTYPE_I32);
		assert_int_equal(dtype_significant((Dtype)t) > 0, dtype_is_float((Dtype)t));
		assert_true(dtype_significant((Dtype)t) < dtype_bits((Dtype)t));
		assert_true(dtype_bits((Dtype)t) <= 32 || t == DTYPE_COUNT - 1);
	}
}

static void promotion_is_symmetric_and_idempotent(void **state) {
	(void)state;
	for (int a = 0; a < DTYPE_COUNT; a++) {
		assert_int_equal(dtype_promote((Dtype)a, (Dtype)a), a);
		assert_int_equal(dtype_promote((Dtype)a, DTYPE_NONE), a);
		for (int b = 0; b < DTYPE_COUNT; b++)
			assert_int_equal(dtype_promote((Dtype)a, (Dtype)b), dtype_promote((Dtype)b, (Dtype)a));
	}
}

/* As torch.promote_types has it; uint32 and int32, which torch refuses, meet in int32. */
static void promotion_is_torchs(void **state) {
	(void)state;
	static const Dtype cases[][3] = {
		{DTYPE_F32, DTYPE_BF16, DTYPE_F32},  {DTYPE_BF16, DTYPE_F16, DTYPE_F32},
		{DTYPE_BF16, DTYPE_I32, DTYPE_BF16}, {DTYPE_BOOL, DTYPE_I8, DTYPE_I8},
		{DTYPE_U8, DTYPE_I8, DTYPE_I16},     {DTYPE_U8, DTYPE_I32, DTYPE_I32},
		{DTYPE_I8, DTYPE_I16, DTYPE_I16},    {DTYPE_U32, DTYPE_I32, DTYPE_I32},
		{DTYPE_BOOL, DTYPE_F16, DTYPE_F16},  {DTYPE_I4, DTYPE_I8, DTYPE_I8},
		{DTYPE_I64, DTYPE_I32, DTYPE_I64},   {DTYPE_I64, DTYPE_U8, DTYPE_I64},
		{DTYPE_I64, DTYPE_BF16, DTYPE_BF16}, {DTYPE_BOOL, DTYPE_I64, DTYPE_I64},
		{DTYPE_U16, DTYPE_I16, DTYPE_I32},   {DTYPE_U8, DTYPE_U32, DTYPE_U32},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(dtype_promote(cases[i][0], cases[i][1]), cases[i][2]);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_found),
		cmocka_unit_test(rows_are_in_order),
		cmocka_unit_test(promotion_is_symmetric_and_idempotent),
		cmocka_unit_test(promotion_is_torchs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
