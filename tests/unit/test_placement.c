/* Where a small tile lies, and what it costs: `out`, float32 [256], of the row sum in front.h, tiled by m. */
#include "front.h"

#include "../../codegen/planner.h"

typedef struct Placed {
	Front front;
	Plan *plan;
	const Operand *out;
} Placed;

static void placed(Placed *p, const char *sizes, const char *views) {
	front_start(&p->front);
	Module *m = front_load(&p->front, FRONT_DOCUMENT);
	assert_true(config_set(m, &p->front.diag, sizes) && config_set(m, &p->front.diag, views));
	assert_true(module_configure(m, &p->front.diag) && module_verify(m, &p->front.diag));
	p->plan = plan_make(&p->front.arena, m, &p->front.diag);
	p->out = NULL;
	for (uint32_t i = 0; p->plan && i < p->plan->operands.count; i++)
		if (p->plan->operands.at[i].output)
			p->out = &p->plan->operands.at[i];
}

#define AUTO "pallas_boundary_views=auto"
#define OFF "pallas_boundary_views=off"

static void an_aligned_tile_is_its_own_block(void **state) {
	(void)state;
	Placed p;
	placed(&p, "block_sizes=[128,512]", OFF);
	assert_non_null(p.out);
	assert_int_equal(p.out->placement, PLACE_OWN);
	assert_int_equal(p.out->view_hbm_bytes, 0);
	assert_int_equal(p.out->parts, 1);
	assert_int_equal(p.out->split, NONE);
	assert_true(p.plan->grid.at[0].parallel);
	front_end(&p.front);
}

static void a_divisor_of_the_dim_is_split_off(void **state) {
	(void)state;
	Placed p;
	placed(&p, "block_sizes=[64,512]", AUTO);
	assert_non_null(p.out);
	assert_int_equal(p.out->placement, PLACE_SPLIT);
	static const int64_t shape[] = {4, 1, 64}, block[] = {1, 1, 64};
	assert_int_equal(p.out->rank, 3);
	assert_memory_equal(p.out->shape, shape, sizeof shape);
	assert_memory_equal(p.out->block, block, sizeof block);
	assert_int_equal(p.out->split, 0);
	assert_int_equal(p.out->unit, 1);
	assert_true(affine_uses_program(&p.out->index[0], 0));
	assert_int_equal(p.out->view_hbm_bytes, 2 * 4 * 128 * 4); /* written and read, 64 lanes padded to 128 */
	assert_true(p.plan->grid.at[0].parallel);
	front_end(&p.front);
}

static void without_views_two_steps_share_a_block(void **state) {
	(void)state;
	Placed p;
	placed(&p, "block_sizes=[64,512]", OFF);
	assert_non_null(p.out);
	assert_int_equal(p.out->placement, PLACE_SHARED);
	assert_int_equal(p.out->parts, 2);
	assert_int_equal(p.out->part_dim, 1);
	assert_int_equal(p.out->block[1], 128);
	assert_int_equal(p.out->view_hbm_bytes, 0);
	assert_int_equal(p.out->fetches, 2); /* four steps, two blocks */
	assert_false(p.plan->grid.at[0].parallel);
	front_end(&p.front);
}

static void a_tile_that_divides_nothing_shares_a_block_of_whole_tiles(void **state) {
	(void)state;
	Placed p;
	placed(&p, "block_sizes=[48,512]", AUTO);
	assert_non_null(p.out);
	assert_int_equal(p.out->placement, PLACE_SHARED);
	assert_int_equal(p.out->block[1], 384); /* of 48 and 128 the least common multiple */
	assert_int_equal(p.out->parts, 8);
	front_end(&p.front);
}

static void too_many_parts_are_refused(void **state) {
	(void)state;
	Placed p;
	placed(&p, "block_sizes=[12,512]", AUTO); /* 384 / 12 = 32 branches */
	assert_null(p.plan);
	assert_true(front_has(&p.front, "block-alignment"));
	const Diagnostic *d = &p.front.diag.list.at[p.front.diag.list.count - 1];
	assert_non_null(strstr(d->message, "tensor out cannot be tiled this way: in dim 0 a block of 12"));
	assert_string_equal(d->hint, "m 16 is the smallest that works");
	front_end(&p.front);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_aligned_tile_is_its_own_block),
		cmocka_unit_test(a_divisor_of_the_dim_is_split_off),
		cmocka_unit_test(without_views_two_steps_share_a_block),
		cmocka_unit_test(a_tile_that_divides_nothing_shares_a_block_of_whole_tiles),
		cmocka_unit_test(too_many_parts_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
