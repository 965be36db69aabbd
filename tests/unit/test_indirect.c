/* test_indirect.c - what ways to reach positions of int tensors take (passes/facts/indirect.c): more of anything never
 * takes less. */
#include "passes_fixture.h"
#include "src/target/target.h"

static const char *const chips[] = {"v4", "v5e", "v6e", "v7x"};

static OneHot table(void) { return (OneHot){.positions = 512, .rows = 512, .columns = 512, .planes = 2}; }

static void more_of_a_one_hot_product_takes_longer(void **state) {
	(void)state;
	for (size_t c = 0; c < sizeof chips / sizeof *chips; c++) {
		const Target *t = target_find(chips[c]);
		OneHot o = table(), more = table();
		double plain = one_hot_cycles(t, &o);
		assert_true(plain > 0);
		more.positions *= 2;
		assert_true(one_hot_cycles(t, &more) > plain);
		more = table(), more.rows *= 2;
		assert_true(one_hot_cycles(t, &more) > plain);
		more = table(), more.columns *= 2;
		assert_true(one_hot_cycles(t, &more) > plain);
		more = table(), more.planes *= 2;
		assert_true(one_hot_cycles(t, &more) > plain);
		more = table(), more.apart = true;
		assert_true(one_hot_cycles(t, &more) > plain);
		more = table(), more.shares = true;
		assert_true(one_hot_cycles(t, &more) < plain);
	}
}

static void more_that_is_copied_takes_longer(void **state) {
	(void)state;
	for (size_t c = 0; c < sizeof chips / sizeof *chips; c++) {
		const Target *t = target_find(chips[c]);
		double few = rows_copied_cycles(t, 64, 1 << 10, false),
		       moved = rows_copied_cycles(t, 64, 1 << 24, false);
		assert_true(few > 0 && moved > few);
		assert_true(rows_copied_cycles(t, 128, 1 << 10, false) > few);
		assert_true(rows_copied_cycles(t, 64, 1 << 10, true) > few);
		assert_true(rows_copied_cycles(t, 64, 1 << 24, true) == moved); /* picked while others are copied */
	}
}

/* Cycles of slicing 128 rows of x at the places that node `name` loads. */
static double slicing(const Module *m, const char *name) {
	WayCost cost[WAY_COUNT];
	indirect_costs(m, named(m, name), 128, 5000, cost);
	assert_null(cost[WAY_DYNAMIC].why);
	return cost[WAY_DYNAMIC].cycles;
}

/* To where the scalar unit reads them; what is loaded comes there by itself, clamped or not. */
static void computed_positions_are_copied_first(void **state) {
	(void)state;
	Fixture f;
	fixture_init(&f);
	Module *m = fixture_load(&f, "root 0 over [0]\n"
	                             "v = tile.host_tensor('v') : int32[1000]\n"
	                             "x = tile.host_tensor('x') : float32[1000, 5000]\n"
	                             "t = tile.load(v, [u0]) : int32[u0]\n"
	                             "inside = aten.clamp.default(t, 0, 999) : int32[u0]\n"
	                             "more = aten.add.Tensor(t, 1) : int32[u0]\n"
	                             "below = aten.clamp.default(more, 0, 999) : int32[u0]\n"
	                             "loaded = tile.load(x, [t, :]) : float32[u0, 5000]\n"
	                             "clamped = tile.load(x, [inside, :]) : float32[u0, 5000]\n"
	                             "computed = tile.load(x, [below, :]) : float32[u0, 5000]\n"
	                             "return\n");
	double loaded = slicing(m, "loaded");
	assert_true(slicing(m, "clamped") == loaded);
	assert_true(slicing(m, "computed") == loaded + positions_copied_cycles());
	fixture_free(&f);
}

/* Rows with others between them have registers of their own each, which its product pays for. */
static void rows_of_a_product_lie_apart(void **state) {
	(void)state;
	static const char *const loads[] = {"tile.load(apart, [t, 1, :])", "tile.load(flat, [t, :])"};
	for (size_t i = 0; i < 2; i++) {
		Fixture f;
		fixture_init(&f);
		Module *m = fixture_load(&f, arena_printf(&f.arena,
		                                          "tensor table input bfloat16[512, 3, 256]\n"
		                                          "tensor plain input bfloat16[512, 256]\n"
		                                          "tensor rows output bfloat16[1000, 256]\n"
		                                          "root 0 over [0]\n"
		                                          "v = tile.host_tensor('v') : int32[1000]\n"
		                                          "apart = tile.host_tensor('table') : bfloat16[512, 3, 256]\n"
		                                          "flat = tile.host_tensor('plain') : bfloat16[512, 256]\n"
		                                          "t = tile.load(v, [u0]) : int32[u0]\n"
		                                          "row = %s : bfloat16[u0, 256]\n"
		                                          "out = tile.host_tensor('rows') : bfloat16[1000, 256]\n"
		                                          "s = tile.store(out, [u0, :], row)\n"
		                                          "return\n",
		                                          loads[i]));
		m->config.indirect_access_mode.value = INDIRECT_ONE_HOT;
		run_pass(&f, "one_hot");
		uint32_t products = 0;
		for (NodeId n = graph_first(m, 0); n != NONE; n = node_get(m, n)->next) {
			OneHot o;
			if (!one_hot_product(m, n, &o))
				continue;
			assert_int_equal(o.apart, i == 0);
			assert_int_equal(o.rows, 512);
			assert_int_equal(o.columns, 256);
			products++;
		}
		assert_true(products > 0);
		fixture_free(&f);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(more_of_a_one_hot_product_takes_longer),
		cmocka_unit_test(more_that_is_copied_takes_longer),
		cmocka_unit_test(computed_positions_are_copied_first),
		cmocka_unit_test(rows_of_a_product_lie_apart),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
