/* test_ops.c - the op table: rows are well formed, look-ups find them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "passes/decompose/decompose.h"
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
	assert_true(op_writes(OP_REMOTE_COPY) && op_writes(OP_REMOTE_WAIT));
	assert_true(op_has_effect(OP_OUTPUT));
	assert_true(op_has_effect(OP_REMOTE_BARRIER));
	assert_false(op_writes(OP_PART));
	assert_false(op_has_effect(OP_ADD));
}

/* A row that stands for another takes its arguments in the same places, and what holds of it is said once. */
static void check_same(const OpRow *row) {
	const OpRow *as = op_row(row->as);
	OpParam own, other;
	const char *at = op_param_next(row->params, &own), *there = op_param_next(as->params, &other);
	if (as->as || row->facts || row->condition || row->takes)
		fail_msg("%s: `.as` names a row that stands for itself and says what holds", row->target);
	if (row->kind == KIND_MEMORY) /* the value that an atomic combines is no first argument */
		return;
	if (row->kind != as->kind && row->kind != KIND_SYMBOLIC)
		fail_msg("%s: of another kind than %s", row->target, as->target);
	for (; at && there && own.letter == 'x'; at = op_param_next(at, &own), there = op_param_next(there, &other))
		if (own.letter != other.letter)
			fail_msg("%s: its arguments are not those of %s", row->target, as->target);
}

static bool is_given(Lowering how, uint64_t of) { return of >> how & 1; }

static void check_lowering(uint16_t op) {
	static const uint64_t of_kind[] = {
		[KIND_POINTWISE] = 1 << LOWER_POINTWISE | 1 << LOWER_MASK | 1 << LOWER_ALIAS | 1 << LOWER_PARTS,
		[KIND_REDUCTION] = 1 << LOWER_REDUCE | 1 << LOWER_SCAN | 1 << LOWER_PARTS | 1 << LOWER_NOT,
		[KIND_VIEW] = 1 << LOWER_VIEW | 1 << LOWER_MOVE | 1 << LOWER_PARTS | 1 << LOWER_NOT,
		[KIND_MATMUL] = 1 << LOWER_MATMUL | 1 << LOWER_PARTS,
		[KIND_MEMORY] =
			1 << LOWER_LOAD | 1 << LOWER_STORE | 1 << LOWER_PARTS | 1 << LOWER_REMOTE | 1 << LOWER_FREE,
		[KIND_CREATION] = 1 << LOWER_FULL | 1 << LOWER_INDEX | 1 << LOWER_PARTS | 1 << LOWER_NOT,
		[KIND_STRUCTURE] = 1 << LOWER_FREE | 1 << LOWER_LOOP | 1 << LOWER_RESULT | 1 << LOWER_ALIAS |
	                           1 << LOWER_PARTS | 1 << LOWER_NOT | 1 << LOWER_REMOTE | 1 << LOWER_INT,
		[KIND_QUERY] = 1 << LOWER_FREE | 1 << LOWER_INT | 1 << LOWER_INDEX,
		[KIND_SYMBOLIC] = 1 << LOWER_INT};
	const OpRow *row = op_row(op);
	if (!is_given(op_lowering(op), of_kind[row->kind]))
		fail_msg("%s: its kind has no such lowering", row->target);
	if (op_lowering(op) == LOWER_NOT && row->instead == NULL)
		fail_msg("%s: refused, and nothing is said of what to do instead", row->target);
	if (op_is_lowered(op) && row->instead != NULL)
		fail_msg("%s: lowered, with a hint for when it is not", row->target);
	if (op_lowering(op) == LOWER_PARTS && op != OP_IF && op != OP_RAND && op != OP_RANDINT && op != OP_ATOMIC_CAS &&
	    decompose_rewrite(op) == NULL)
		fail_msg("%s: the pass decompose makes nothing of it", row->target);
	if (decompose_rewrite(op) != NULL && op_lowering(op) < LOWER_PARTS)
		fail_msg("%s: the pass decompose knows it", row->target);
}

/* What a kernel does with a view follows from where it puts the lanes. */
static void check_lanes(const OpRow *row) {
	bool stays = row->lanes != LANES_NONE && row->lanes <= LANES_TILE;
	if ((row->kind == KIND_VIEW) != (row->lanes != LANES_NONE))
		fail_msg("%s: views alone say where they put lanes", row->target);
	if (row->lower == LOWER_VIEW && !stays)
		fail_msg("%s: it moves lanes, so it is a LOWER_MOVE", row->target);
	if (row->lower == LOWER_MOVE && (stays || row->lanes == LANES_SPLIT))
		fail_msg("%s: no LOWER_MOVE is known for where it puts lanes", row->target);
}

static void columns_agree(void **state) {
	(void)state;
	for (uint16_t op = 0; op < OP_COUNT; op++) {
		const OpRow *row = op_row(op);
		OpParam param;
		uint32_t count = 0, operands = 0;
		for (const char *at = row->params; (at = op_param_next(at, &param)) != NULL; count++)
			operands += param.letter == 'x';
		check_lowering(op);
		check_lanes(row);
		if (row->as)
			check_same(row);
		if (row->condition > count)
			fail_msg("%s: its condition is no argument", row->target);
		if (row->fill != FILL_NONE &&
		    (row->kind != KIND_CREATION || (operands == 1) != (row->fill == FILL_GIVEN)))
			fail_msg("%s: FILL_GIVEN creations have one operand, others none", row->target);
		if (row->lower == LOWER_FULL && row->fill == FILL_NONE)
			fail_msg("%s: nothing is said of what it fills with", row->target);
	}
}

static void columns_are_read(void **state) {
	(void)state;
	assert_int_equal(op_canonical(OP_ADD_SCALAR), OP_ADD);
	assert_int_equal(op_canonical(OP_ADD), OP_ADD);
	assert_int_equal(op_lowering(OP_EXP), LOWER_POINTWISE); /* by its kind and text */
	assert_int_equal(op_lowering(OP_SYM_ADD), LOWER_INT);   /* by its kind */
	assert_int_equal(op_lowering(OP_MM), LOWER_MATMUL);
	assert_int_equal(op_lowering(OP_MV), LOWER_PARTS); /* though of that kind */
	assert_int_equal(op_lowering(OP_UNKNOWN), LOWER_NOT);
	assert_true(op_is(OP_SUB_SCALAR, IS_MODULAR | IS_CHEAP)); /* as OP_SUB */
	assert_false(op_is(OP_ABS, IS_MODULAR | IS_CHEAP));       /* one of the two */
	assert_true(op_is_condition(OP_WHERE_SCALAR, 0) && op_is_condition(OP_MASKED_FILL_TENSOR, 1));
	assert_false(op_is_condition(OP_WHERE, 1) || op_is_condition(OP_ADD, 0));
	assert_int_equal(op_takes(OP_WHERE, 0), TAKES_BOOLS);
	assert_int_equal(op_takes(OP_WHERE, 1), TAKES_ALL);
	assert_int_equal(op_takes(OP_RSHIFT_SCALAR, 1), TAKES_INTS);
	assert_true(view_renames(OP_RESHAPE) && view_renames(OP_SUBSCRIPT));
	assert_false(view_renames(OP_EXPAND) || view_renames(OP_PERMUTE) || view_renames(OP_ADD));
	assert_true(view_is_of_shapes(OP_EXPAND) && view_is_of_shapes(OP_SQUEEZE));
	assert_false(view_is_of_shapes(OP_SUBSCRIPT) || view_is_of_shapes(OP_ADD));
	assert_true(view_keeps_dims(OP_T) && view_keeps_dims(OP_SUBSCRIPT));
	assert_false(view_keeps_dims(OP_SELECT) || view_keeps_dims(OP_CAT) || view_keeps_dims(OP_ADD));
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
		cmocka_unit_test(columns_agree),
		cmocka_unit_test(columns_are_read),
		cmocka_unit_test(every_row_is_documented),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
