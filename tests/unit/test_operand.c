/* test_operand.c - which operands are one array (codegen/place/operand.c): of one tensor, at one shape, by one way. */
#include "codegen/place/place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

/* float32 [8, 128] of tensor 3, cut out of itself at `within`, reached by one step; behind its rank stands anything. */
static Operand array(Arena *a, int64_t rows, int64_t behind, int64_t slice, Within *within) {
	Operand o = {.tensor = 3, .rank = 2, .shape = {rows, 128, behind}, .within = within};
	ArrayStep step = {.rank = 2, .shape = {rows, 128}, .slice = {{slice}}};
	vec_push(a, &o.steps, step);
	return o;
}

static void same_arrays(void **state) {
	(void)state;
	Arena a;
	arena_init(&a, NULL);
	Operand one = array(&a, 8, 5, 0, NULL), same = array(&a, 8, 7, 0, NULL), rows = array(&a, 16, 5, 0, NULL);
	assert_true(operand_same_array(&one, &same));
	assert_false(operand_same_array(&one, &rows));
	Operand sliced = array(&a, 8, 5, 1, NULL), plain = array(&a, 8, 5, 0, NULL), other = plain;
	plain.steps.count = 0;
	other.tensor = 4;
	assert_false(operand_same_array(&one, &sliced));
	assert_false(operand_same_array(&one, &plain));
	assert_false(operand_same_array(&one, &other));
	arena_free(&a);
}

static void parts_of_arrays(void **state) {
	(void)state;
	Arena a;
	arena_init(&a, NULL);
	Within first = {.shape = {8, 128}}, again = first, second = first, wide = first;
	again.shape[2] = 9; /* behind the rank */
	second.first[1] = 1;
	wide.shape[1] = 256;
	Operand whole = array(&a, 8, 0, 0, NULL), one = array(&a, 8, 0, 0, &first);
	assert_false(operand_same_array(&whole, &one));
	Operand same = array(&a, 8, 0, 0, &again);
	assert_true(operand_same_array(&one, &same));
	Operand later = array(&a, 8, 0, 0, &second), wider = array(&a, 8, 0, 0, &wide);
	assert_false(operand_same_array(&one, &later));
	assert_false(operand_same_array(&one, &wider));
	arena_free(&a);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_arrays),
		cmocka_unit_test(parts_of_arrays),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
