/* Where a small tile lies, and what it costs: `out`, float32 [256], of the row sum in front.h, tiled by m. */
#include "plan_fixture.h"

/* Returns the operand of `out`; NULL if there is no Plan. */
static const Operand *placed(Planned *p, const char *sizes, const char *views) {
	front_start(&p->front);
	planned_load(p, FRONT_DOCUMENT);
	planned_make(p, SETTINGS(sizes, views));
	return p->plan ? planned_output(p) : NULL;
}

#define AUTO "pallas_boundary_views=auto"
#define OFF "pallas_boundary_views=off"

static void an_aligned_tile_is_its_own_block(void **state) {
	(void)state;
	Planned p;
	const Operand *out = placed(&p, "block_sizes=[128,512]", OFF);
	assert_non_null(out);
	assert_int_equal(out->placement, PLACE_OWN);
	assert_int_equal(out->view_hbm_bytes, 0);
	assert_int_equal(out->parts, 1);
	assert_int_equal(out->split, NONE);
	assert_true(p.plan->grid.at[0].parallel);
	planned_end(&p);
}

static void a_divisor_of_the_dim_is_split_off(void **state) {
	(void)state;
	Planned p;
	const Operand *out = placed(&p, "block_sizes=[64,512]", AUTO);
	assert_non_null(out);
	assert_int_equal(out->placement, PLACE_SPLIT);
	static const int64_t shape[] = {4, 1, 64}, block[] = {1, 1, 64};
	assert_int_equal(out->rank, 3);
	assert_memory_equal(out->shape, shape, sizeof shape);
	assert_memory_equal(out->block, block, sizeof block);
	assert_int_equal(out->split, 0);
	assert_int_equal(out->unit, 1);
	assert_true(affine_uses_program(&out->index[0], 0));
	assert_int_equal(out->view_hbm_bytes, 2 * 4 * 128 * 4); /* written and read, 64 lanes padded to 128 */
	assert_true(p.plan->grid.at[0].parallel);
	planned_end(&p);
}

static void without_views_two_steps_share_a_block(void **state) {
	(void)state;
	Planned p;
	const Operand *out = placed(&p, "block_sizes=[64,512]", OFF);
	assert_non_null(out);
	assert_int_equal(out->placement, PLACE_SHARED);
	assert_int_equal(out->parts, 2);
	assert_int_equal(out->part_dim, 1);
	assert_int_equal(out->block[1], 128);
	assert_int_equal(out->view_hbm_bytes, 0);
	assert_int_equal(out->fetches, 2); /* four steps, two blocks */
	assert_false(p.plan->grid.at[0].parallel);
	planned_end(&p);
}

static void a_tile_that_divides_nothing_shares_a_block_of_whole_tiles(void **state) {
	(void)state;
	Planned p;
	const Operand *out = placed(&p, "block_sizes=[48,512]", AUTO);
	assert_non_null(out);
	assert_int_equal(out->placement, PLACE_SHARED);
	assert_int_equal(out->block[1], 384); /* of 48 and 128 the least common multiple */
	assert_int_equal(out->parts, 8);
	planned_end(&p);
}

static void what_too_many_steps_would_share_is_held(void **state) {
	(void)state;
	Planned p;
	const Operand *out = placed(&p, "block_sizes=[12,512]", AUTO); /* 384 / 12 = 32 branches */
	assert_non_null(out);
	assert_non_null(out->held);
	assert_int_equal(out->placement, PLACE_OWN);
	assert_int_equal(out->block[1], 384); /* 22 steps, in tiles of 128 */
	assert_false(p.plan->grid.at[0].parallel);
	planned_end(&p);
}

/* The same of more rows than a block of whole tiles has: out[1000] is held 384 at a time, 32 steps each. */
static void steps_hold_a_block_together(void **state) {
	(void)state;
	Planned p;
	front_start(&p.front);
	planned_load(&p, "name rows\n"
	                 "tensor x input float32[1000, 512]\n"
	                 "tensor out output float32[1000]\n"
	                 "block m 1000\n"
	                 "config {\"block_sizes\": [12]}\n"
	                 "root 0 over [0]\n"
	                 "x = tile.host_tensor('x') : float32[1000, 512]\n"
	                 "t = tile.load(x, [u0, :]) : float32[u0, 512]\n"
	                 "s = aten.sum.dim_IntList(t, [-1]) : float32[u0]\n"
	                 "out = tile.host_tensor('out') : float32[1000]\n"
	                 "store = tile.store(out, [u0], s)\n"
	                 "return\n");
	planned_make(&p, SETTINGS(AUTO));
	assert_non_null(p.plan);
	const Operand *out = planned_output(&p);
	assert_non_null(out->held);
	assert_int_equal(out->block[1], 384);
	assert_int_equal(out->index[1].count, 1);
	assert_int_equal(out->index[1].term[0].divide, 384 / 12);
	planned_end(&p);
}

/* x at one position of its middle dim: [9, 5, 256] as [1, 9, 5 * 256], of which a block is the lanes of a position. */
static void a_position_merges_with_the_lanes(void **state) {
	(void)state;
	Planned p;
	front_start(&p.front);
	planned_load(&p, "name middle\n"
	                 "tensor x input float32[16, 5, 256]\n"
	                 "tensor out output float32[5, 16, 256]\n"
	                 "block a 16\n"
	                 "block n 5 \"size\": 1\n"
	                 "config {\"block_sizes\": [8]}\n"
	                 "root 0 over [0, 1]\n"
	                 "x = tile.host_tensor('x') : float32[16, 5, 256]\n"
	                 "at = tile.begin(u1) : sym\n"
	                 "t = tile.load(x, [u0, at, :]) : float32[u0, 256]\n"
	                 "out = tile.host_tensor('out') : float32[5, 16, 256]\n"
	                 "store = tile.store(out, [at, u0, :], t)\n"
	                 "return\n");
	planned_make(&p, SETTINGS(AUTO));
	assert_non_null(p.plan);
	const Operand *x = &p.plan->operands.at[0];
	assert_int_equal(x->placement, PLACE_MERGED);
	static const int64_t shape[] = {1, 16, 1280}, block[] = {1, 8, 256};
	assert_int_equal(x->rank, 3);
	assert_memory_equal(x->shape, shape, sizeof shape);
	assert_memory_equal(x->block, block, sizeof block);
	planned_end(&p);
}

/* x at pages that a table of [5, 3] names: a block of its own at each of the 15 grid points. */
static void a_table_moves_blocks_with_the_grid(void **state) {
	(void)state;
	Planned p;
	front_start(&p.front);
	planned_load(&p, "name pages\n"
	                 "tensor x input float32[65536, 8, 128]\n"
	                 "tensor table input int32[5, 3]\n"
	                 "tensor out output float32[5, 3, 8, 128]\n"
	                 "block a 5 \"size\": 1\n"
	                 "block b 3 \"size\": 1\n"
	                 "root 0 over [0, 1]\n"
	                 "x = tile.host_tensor('x') : float32[65536, 8, 128]\n"
	                 "table = tile.host_tensor('table') : int32[5, 3]\n"
	                 "i = tile.begin(u0) : sym\n"
	                 "k = tile.begin(u1) : sym\n"
	                 "page = tile.load(table, [i, k]) : int32[]\n"
	                 "inside = aten.clamp.default(page, 0, 65535) : int32[]\n"
	                 "t = tile.load(x, [inside, :, :]) : float32[8, 128]\n"
	                 "out = tile.host_tensor('out') : float32[5, 3, 8, 128]\n"
	                 "store = tile.store(out, [i, k, :, :], t)\n"
	                 "return\n");
	planned_make(&p, SETTINGS(AUTO));
	assert_non_null(p.plan);
	const Operand *x = &p.plan->operands.at[1]; /* behind the table */
	assert_int_equal(x->space, SPACE_WINDOW);
	assert_int_equal(x->fetches, 15);
	assert_true(index_moves(p.plan, &x->index[0], 0) && index_moves(p.plan, &x->index[0], 1));
	planned_end(&p);
}

/* Copied one by one, rows come whole, or as tiles of their lanes. */
static void parts_of_gathered_rows_are_whole_tiles(void **state) {
	(void)state;
	static const struct {
		const char *lanes, *size;
		bool copied;
	} rows[] = {{":", "512", true}, {"0:256", "256", true}, {"0:64", "64", false}, {"64:320", "256", false}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		Planned p;
		front_start(&p.front);
		planned_load(&p, arena_printf(&p.front.arena,
		                              "name gathered\n"
		                              "tensor x input float32[1000, 512]\n"
		                              "tensor at input int32[64]\n"
		                              "tensor out output float32[64, %s]\n"
		                              "block rows 64\n"
		                              "config {\"block_sizes\": [16]}\n"
		                              "root 0 over [0]\n"
		                              "at = tile.host_tensor('at') : int32[64]\n"
		                              "t = tile.load(at, [u0]) : int32[u0]\n"
		                              "x = tile.host_tensor('x') : float32[1000, 512]\n"
		                              "part = tile.load(x, [t, %s]) : float32[u0, %s]\n"
		                              "out = tile.host_tensor('out') : float32[64, %s]\n"
		                              "store = tile.store(out, [u0, :], part)\n"
		                              "return\n",
		                              rows[i].size, rows[i].lanes, rows[i].size, rows[i].size));
		planned_make(&p, SETTINGS("pallas_indirect_access_mode=dma"));
		if (rows[i].copied != (p.plan != NULL))
			fail_msg("%s", rows[i].lanes);
		if (!rows[i].copied)
			assert_non_null(strstr(p.front.diag.list.at[0].message, "no whole tiles of HBM"));
		planned_end(&p);
	}
}

/* What a table's own position is read from is there before the grid starts, as the table is. */
static void tables_of_tables_are_there_first(void **state) {
	(void)state;
	Planned p;
	front_start(&p.front);
	planned_load(&p, "name pages\n"
	                 "tensor x input float32[65536, 8, 128]\n"
	                 "tensor first input int32[5]\n"
	                 "tensor table input int32[5, 3]\n"
	                 "tensor out output float32[5, 8, 128]\n"
	                 "block a 5 \"size\": 1\n"
	                 "root 0 over [0]\n"
	                 "x = tile.host_tensor('x') : float32[65536, 8, 128]\n"
	                 "first = tile.host_tensor('first') : int32[5]\n"
	                 "table = tile.host_tensor('table') : int32[5, 3]\n"
	                 "i = tile.begin(u0) : sym\n"
	                 "k = tile.load(first, [i]) : int32[]\n"
	                 "near = aten.clamp.default(k, 0, 2) : int32[]\n"
	                 "page = tile.load(table, [i, near]) : int32[]\n"
	                 "inside = aten.clamp.default(page, 0, 65535) : int32[]\n"
	                 "t = tile.load(x, [inside, :, :]) : float32[8, 128]\n"
	                 "out = tile.host_tensor('out') : float32[5, 8, 128]\n"
	                 "store = tile.store(out, [i, :, :], t)\n"
	                 "return\n");
	planned_make(&p, SETTINGS(AUTO));
	assert_non_null(p.plan);
	assert_int_equal(p.plan->operands.at[0].space, SPACE_SMEM);
	assert_int_equal(p.plan->operands.at[1].space, SPACE_SMEM);
	assert_int_equal(p.plan->operands.at[2].space, SPACE_WINDOW);
	assert_true(p.plan->operands.at[0].prefetch && p.plan->operands.at[1].prefetch);
	planned_end(&p);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_aligned_tile_is_its_own_block),
		cmocka_unit_test(a_divisor_of_the_dim_is_split_off),
		cmocka_unit_test(without_views_two_steps_share_a_block),
		cmocka_unit_test(a_tile_that_divides_nothing_shares_a_block_of_whole_tiles),
		cmocka_unit_test(steps_hold_a_block_together),
		cmocka_unit_test(a_position_merges_with_the_lanes),
		cmocka_unit_test(a_table_moves_blocks_with_the_grid),
		cmocka_unit_test(parts_of_gathered_rows_are_whole_tiles),
		cmocka_unit_test(tables_of_tables_are_there_first),
		cmocka_unit_test(what_too_many_steps_would_share_is_held),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
