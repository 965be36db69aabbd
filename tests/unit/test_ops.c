/* test_ops.c - the op table: rows are well formed, look-ups find them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/driver/driver.h"

static void targets_are_found_and_unique(void **state) {
	(void)state;
	for (uint16_t op = OP_OUTPUT + 1; op < OP_COUNT; op++)
		assert_int_equal(op_find(op_row(op)->target), op);
	assert_int_equal(op_find("aten.add"), OP_UNKNOWN);
	assert_int_equal(op_find(""), OP_UNKNOWN);
	char longer[400];
	memset(longer, 'a', sizeof longer - 1);
	longer[sizeof longer - 1] = '\0';
	assert_int_equal(op_find(longer), OP_UNKNOWN);
}

static void pseudo_rows_cannot_be_named(void **state) {
	(void)state;
	assert_int_equal(op_find("placeholder"), OP_UNKNOWN);
	assert_int_equal(op_find("output"), OP_UNKNOWN);
}

/* What reads a row's arguments into arrays has room for them. */
static void rows_have_few_parameters(void **state) {
	(void)state;
	for (uint16_t op = 0; op < OP_COUNT; op++) {
		OpParam param;
		int count = 0;
		for (const char *at = op_row(op)->params; (at = op_param_next(at, &param)) != NULL;)
			count++;
		assert_in_range(count, 0, PARAMS_MAX);
	}
}

static void nearest_helps(void **state) {
	(void)state;
	assert_string_equal(op_nearest("aten.mul"), "aten.mul.Tensor");
	assert_string_equal(op_nearest("torch.ops.aten.exp.default"), "aten.exp.default");
	assert_string_equal(op_nearest("aten.amux.default"), "aten.amax.default");
	assert_string_equal(op_nearest("tile.lod"), "tile.load");
	assert_null(op_nearest("zzzzzzzz"));
}

static void check_param(const OpRow *row, const OpParam *param, bool *optional) {
	if (strchr("xtinbIXdsSNTCGV", param->letter) == NULL || param->name_length == 0)
		fail_msg("%s: bad parameter in \"%s\"", row->target, row->params);
	if (*optional && param->fallback == NULL)
		fail_msg("%s: a required parameter after an optional one", row->target);
	*optional |= param->fallback != NULL;
}

static void rows_are_well_formed(void **state) {
	(void)state;
	for (uint16_t op = 0; op < OP_COUNT; op++) {
		const OpRow *row = op_row(op);
		OpParam param;
		bool optional = false;
		uint32_t index = 0;
		for (const char *at = row->params; (at = op_param_next(at, &param)) != NULL; index++)
			check_param(row, &param, &optional);
		if (row->form != PRINT_CUSTOM && *row->text == '\0')
			fail_msg("%s: nothing to print", row->target);
		if (row->form == PRINT_INFIX && index < 2)
			fail_msg("%s: an infix operator takes two operands", row->target);
		for (const char *hole = strchr(row->text, '{'); hole != NULL; hole = strchr(hole + 1, '{'))
			if (hole[1] < '0' || (uint32_t)(hole[1] - '0') >= index || hole[2] != '}')
				fail_msg("%s: bad hole in \"%s\"", row->target, row->text);
	}
}

static void params_are_cut_out(void **state) {
	(void)state;
	OpParam p;
	const char *at = op_param_next(op_row(OP_SUM_DIM)->params, &p);
	assert_memory_equal(p.name, "self", p.name_length);
	assert_int_equal(p.letter, 't');
	assert_null(p.fallback);
	at = op_param_next(at, &p);
	assert_memory_equal(p.name, "dim", p.name_length);
	assert_true(p.nullable);
	assert_memory_equal(p.fallback, "[]", p.fallback_length);
	at = op_param_next(op_param_next(at, &p), &p);
	assert_memory_equal(p.name, "dtype", p.name_length);
	assert_null(op_param_next(at, &p));
	assert_int_equal(op_param_index(OP_SUM_DIM, "keepdim"), 2);
	assert_int_equal(op_param_index(OP_AMAX, "dims"), 1);
	assert_int_equal(op_param_index(OP_AMAX, "x"), 0);
	assert_int_equal(op_param_index(OP_AMAX, "nothing"), NONE);
}

static void effects(void **state) {
	(void)state;
	assert_true(op_writes(OP_STORE));
	assert_true(op_writes(OP_ATOMIC_ADD));
	assert_true(op_writes(OP_ATOMIC_CAS));
	assert_false(op_writes(OP_LOAD));
	assert_false(op_writes(OP_MASK_TO));
	assert_true(op_has_effect(OP_OUTPUT));
	assert_false(op_has_effect(OP_ADD));
}

static void every_row_is_documented(void **state) {
	(void)state;
	Arena arena = {0};
	Text text;
	arena_init(&arena, NULL);
	text_init(&text, &arena);
	ops_print_markdown(&text);
	for (uint16_t op = OP_OUTPUT + 1; op < OP_COUNT; op++)
		if (strstr(text.at, arena_printf(&arena, "| `%s` |", op_row(op)->target)) == NULL)
			fail_msg("%s is not in the list", op_row(op)->target);
	arena_free(&arena);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(targets_are_found_and_unique),
		cmocka_unit_test(pseudo_rows_cannot_be_named),
		cmocka_unit_test(rows_have_few_parameters),
		cmocka_unit_test(nearest_helps),
		cmocka_unit_test(rows_are_well_formed),
		cmocka_unit_test(params_are_cut_out),
		cmocka_unit_test(effects),
		cmocka_unit_test(every_row_is_documented),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
