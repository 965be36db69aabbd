/* test_constants.c - 0-d constants as Python numbers (codegen/lower/constants.c). */
#include "module_fixture.h"
#include "codegen/lower/lower.h"

static void numbers_are_of_the_dtype(void **state) {
	(void)state;
	Arg many = arg_int(300), real = arg_float(1.75), truth = arg_bool(true);
	assert_int_equal(constant_as(&many, DTYPE_I8).integer, 44);
	assert_int_equal(constant_as(&many, DTYPE_U8).integer, 44);
	assert_int_equal(constant_as(&(Arg){.kind = ARG_INT, .integer = -1}, DTYPE_U16).integer, 65535);
	assert_int_equal(constant_as(&real, DTYPE_I32).integer, 1);
	assert_int_equal(constant_as(&truth, DTYPE_F32).kind, ARG_FLOAT);
	assert_true(constant_as(&real, DTYPE_BOOL).boolean);
}

/* A root with one constant, tile.full([], VALUE, DTYPE). */
static bool is_number(const char *value, const char *dtype) {
	Fixture f;
	fixture_init(&f);
	Module *m =
		fixture_load(&f, arena_printf(&f.arena, "root 0 over [4]\nc = tile.full([], %s, %s) : %s[]\nreturn\n",
	                                      value, dtype, dtype));
	bool number = constant_is_number(m, graph_first(m, 0));
	fixture_free(&f);
	return number;
}

static void what_must_be_rounded_is_no_number(void **state) {
	(void)state;
	assert_true(is_number("1.3", "float32"));
	assert_false(is_number("1.3", "bfloat16"));
	assert_true(is_number("1.5", "bfloat16"));
	assert_true(is_number("-448", "float8_e4m3fn"));
	assert_false(is_number("1.0625", "float8_e4m3fn"));
	assert_true(is_number("1.125", "float8_e4m3fn"));
	assert_false(is_number("1.125", "float8_e5m2"));
	assert_true(is_number("-inf", "bfloat16"));
	assert_false(is_number("-inf", "float8_e4m3fn"));
	assert_true(is_number("300", "int8"));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_of_the_dtype),
		cmocka_unit_test(what_must_be_rounded_is_no_number),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
