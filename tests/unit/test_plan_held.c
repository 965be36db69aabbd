/* Held blocks (codegen/place/held.c): out[n] combined with the column sums of x[m, n], grid (m, n), x float32 [64,
 * 256]. */
#include "plan_fixture.h"

#define DOCUMENT                                                                                                       \
	"name column_sums\n"                                                                                           \
	"tensor x input float32[64, 256]\n"                                                                            \
	"tensor out %s %s[256] %s\n"                                                                                   \
	"block m 64\n"                                                                                                 \
	"block n %d\n"                                                                                                 \
	"config {\"block_sizes\": [%d, 128]%s}\n"                                                                      \
	"root 0 over [0, 1]\n"                                                                                         \
	"x = tile.host_tensor('x') : float32[64, 256]\n"                                                               \
	"t = tile.load(x, [u0, u1]) : float32[u0, u1]\n"                                                               \
	"s = aten.sum.dim_IntList(t, [0]) : float32[u1]\n"                                                             \
	"out = tile.host_tensor('out') : %s[256]\n"                                                                    \
	"add = tile.atomic_add(out, [u1], s) : %s[u1]\n"                                                               \
	"return\n"

typedef struct Wanted {
	const char *role, *dtype, *init;
	int extent, block_m;
	const char *order;
} Wanted;

static void planned_start(Planned *p, Wanted w) {
	front_start(&p->front);
	const char *lines = arena_printf(&p->front.arena, DOCUMENT, w.role, w.dtype, w.init, w.extent, w.block_m,
	                                 w.order, w.dtype, w.dtype);
	planned_load(p, lines);
	planned_make(p, (const char *const[]){NULL});
	assert_non_null(p->plan);
}

static void revisiting_dims_come_last(void **state) {
	(void)state;
	Planned p;
	planned_start(&p, (Wanted){"output", "float32", "\"init\": 0", 256, 32, ""});
	assert_string_equal(p.plan->grid.at[0].name, "n");
	assert_true(p.plan->grid.at[0].parallel);
	assert_string_equal(p.plan->grid.at[1].name, "m");
	assert_false(p.plan->grid.at[1].parallel);
	const Operand *out = planned_output(&p);
	assert_int_equal(out->block[1], 128);
	assert_int_equal(out->held->revisits, 1u << 1);
	assert_int_equal(out->held->initial, INITIAL_VALUE);
	/* the rows' registers add up, eight rows of them */
	assert_int_equal(p.plan->scratches.at[out->held->accumulator].shape[1], 128);
	assert_int_equal(p.plan->vmem.scratch, 8 * 128 * 4);
	planned_end(&p);
}

static void a_given_order_holds_the_whole_dim(void **state) {
	(void)state;
	Planned p;
	planned_start(&p, (Wanted){"output", "float32", "\"init\": 0", 256, 32, ", \"loop_orders\": [[0, 1]]"});
	assert_string_equal(p.plan->grid.at[0].name, "m");
	assert_int_equal(planned_output(&p)->block[1], 256);
	assert_int_equal(planned_output(&p)->held->revisits, 3);
	assert_false(p.plan->grid.at[1].parallel);
	planned_end(&p);
}

static void narrow_sums_have_a_wide_scratch(void **state) {
	(void)state;
	Planned p;
	planned_start(&p, (Wanted){"output", "bfloat16", "\"init\": 0", 256, 32, ""});
	uint32_t sums = planned_output(&p)->held->accumulator;
	assert_int_equal(p.plan->scratches.at[sums].dtype, DTYPE_F32);
	assert_int_equal(p.plan->scratches.at[sums].shape[1], 128);
	assert_int_equal(p.plan->vmem.scratch, 8 * 128 * 4);
	planned_end(&p);
}

static void one_visit_folds_the_initial_value(void **state) {
	(void)state;
	Planned p;
	planned_start(&p, (Wanted){"output", "bfloat16", "\"init\": 3", 256, 64, ""});
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
	planned_start(&some, (Wanted){"output", "float32", "\"init\": 2", 128, 32, ""});
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
