/* Held blocks (codegen/held.c): out[n] combined with the column sums of x[m, n], grid (m, n), x float32 [64, 256]. */
#include "plan_fixture.h"

#define META_2D "\"meta\": {\"dtype\": \"float32\", \"shape\": [\"u0\", \"u1\"]}"
#define DOCUMENT                                                                                                       \
	"{\"format\": \"fxtile\", \"version\": 1, \"name\": \"column_sums\",\n"                                        \
	" \"tensors\": [{\"name\": \"x\", \"role\": \"input\", \"dtype\": \"float32\", \"shape\": [64, 256]},\n"       \
	"  {\"name\": \"out\", \"role\": \"%s\", \"dtype\": \"%s\", \"shape\": [256]%s}],\n"                           \
	" \"block_sizes\": [{\"id\": 0, \"symbol\": \"u0\", \"name\": \"m\", \"extent\": 64},\n"                       \
	"  {\"id\": 1, \"symbol\": \"u1\", \"name\": \"n\", \"extent\": %d}],\n"                                       \
	" \"graphs\": [{\"id\": 0, \"kind\": \"root\", \"grid\": [0, 1], \"nodes\": [\n"                               \
	"   {\"name\": \"x\", \"target\": \"tile.host_tensor\", \"args\": [\"x\"], \"meta\": {\"dtype\": "             \
	"\"float32\", \"shape\": [64, 256]}},\n"                                                                       \
	"   {\"name\": \"t\", \"target\": \"tile.load\", \"args\": [{\"ref\": \"x\"}, [{\"sym\": \"u0\"}, "            \
	"{\"sym\": \"u1\"}]], " META_2D "},\n"                                                                         \
	"   {\"name\": \"s\", \"target\": \"aten.sum.dim_IntList\", \"args\": [{\"ref\": \"t\"}, [0]], \"meta\": "     \
	"{\"dtype\": \"float32\", \"shape\": [\"u1\"]}},\n"                                                            \
	"   {\"name\": \"out\", \"target\": \"tile.host_tensor\", \"args\": [\"out\"], \"meta\": {\"dtype\": "         \
	"\"%s\", \"shape\": [256]}},\n"                                                                                \
	"   {\"name\": \"add\", \"target\": \"tile.atomic_add\", \"args\": [{\"ref\": \"out\"}, [{\"sym\": "           \
	"\"u1\"}], {\"ref\": \"s\"}], \"meta\": {\"dtype\": \"%s\", \"shape\": [\"u1\"]}},\n"                          \
	"   {\"name\": \"output\", \"op\": \"output\", \"args\": [[]]}]}],\n"                                          \
	" \"config\": {\"block_sizes\": [%d, 128]%s}}\n"

typedef struct Wanted {
	const char *role, *dtype, *init;
	int extent, block_m;
	const char *order;
} Wanted;

static void planned_start(Planned *p, Wanted w) {
	front_start(&p->front);
	const char *text = arena_printf(&p->front.arena, DOCUMENT, w.role, w.dtype, w.init, w.extent, w.dtype, w.dtype,
	                                w.block_m, w.order);
	planned_load(p, text);
	planned_make(p, (const char *const[]){NULL});
	assert_non_null(p->plan);
}

static void revisiting_dims_come_last(void **state) {
	(void)state;
	Planned p;
	planned_start(&p, (Wanted){"output", "float32", ", \"init\": 0", 256, 32, ""});
	assert_string_equal(p.plan->grid.at[0].name, "n");
	assert_true(p.plan->grid.at[0].parallel);
	assert_string_equal(p.plan->grid.at[1].name, "m");
	assert_false(p.plan->grid.at[1].parallel);
	const Operand *out = planned_output(&p);
	assert_int_equal(out->block[1], 128);
	assert_int_equal(out->held->revisits, 1u << 1);
	assert_int_equal(out->held->initial, INITIAL_VALUE);
	assert_int_equal(out->held->accumulator, NONE);
	planned_end(&p);
}

static void a_given_order_holds_the_whole_dim(void **state) {
	(void)state;
	Planned p;
	planned_start(&p, (Wanted){"output", "float32", ", \"init\": 0", 256, 32, ", \"loop_orders\": [[0, 1]]"});
	assert_string_equal(p.plan->grid.at[0].name, "m");
	assert_int_equal(planned_output(&p)->block[1], 256);
	assert_int_equal(planned_output(&p)->held->revisits, 3);
	assert_false(p.plan->grid.at[1].parallel);
	planned_end(&p);
}

static void narrow_sums_have_a_wide_scratch(void **state) {
	(void)state;
	Planned p;
	planned_start(&p, (Wanted){"output", "bfloat16", ", \"init\": 0", 256, 32, ""});
	uint32_t sums = planned_output(&p)->held->accumulator;
	assert_int_equal(p.plan->scratches.at[sums].dtype, DTYPE_F32);
	assert_int_equal(p.plan->scratches.at[sums].shape[1], 128);
	assert_int_equal(p.plan->vmem.scratch, 1 * 128 * 4);
	planned_end(&p);
}

static void one_visit_folds_the_initial_value(void **state) {
	(void)state;
	Planned p;
	planned_start(&p, (Wanted){"output", "bfloat16", ", \"init\": 3", 256, 64, ""});
	assert_int_equal(planned_output(&p)->held->initial, INITIAL_FOLDED);
	assert_true(planned_output(&p)->held->value == 3.0);
	assert_int_equal(planned_output(&p)->held->accumulator, NONE);
	assert_int_equal(p.plan->scratches.count, 0);
	planned_end(&p);
}

static void all_that_is_visited_needs_no_alias(void **state) {
	(void)state;
	Planned all, some;
	planned_start(&all, (Wanted){"inout", "float32", "", 256, 32, ""});
	assert_int_equal(planned_output(&all)->held->initial, INITIAL_COPY);
	assert_int_equal(planned_output(&all)->alias_of, NONE);
	planned_end(&all);
	planned_start(&some, (Wanted){"output", "float32", ", \"init\": 2", 128, 32, ""});
	/* One tile of 128: the block is the whole dim of 256, so that all of it is filled. */
	assert_int_equal(planned_output(&some)->block[1], 256);
	assert_int_equal(planned_output(&some)->held->initial, INITIAL_VALUE);
	assert_int_equal(planned_output(&some)->alias_of, NONE);
	planned_end(&some);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(revisiting_dims_come_last),
		cmocka_unit_test(a_given_order_holds_the_whole_dim),
		cmocka_unit_test(narrow_sums_have_a_wide_scratch),
		cmocka_unit_test(one_visit_folds_the_initial_value),
		cmocka_unit_test(all_that_is_visited_needs_no_alias),
	};
	return cmocka_run_group_tests_name("held", tests, NULL, NULL);
}
