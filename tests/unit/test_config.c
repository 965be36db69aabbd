#include "front.h"
#include "codegen/plan/plan.h"
#include "src/config/config.h"

static void test_defaults(void **state) {
	Front f;
	Module *m = front_module(&f);
	(void)state;
	assert_true(module_configure(m, &f.diag));
	assert_int_equal(m->block_size.count, 2);
	assert_int_equal(m->block_size.at[0], 256); /* both ranges whole: half a megabyte */
	assert_int_equal(m->block_size.at[1], 512);
	assert_int_equal(m->config.tunables.at[0], 2);
	assert_int_equal(m->config.loop_type.value, LOOP_DEFAULT);
	front_end(&f);
}

static void test_keys(void **state) {
	static const char *const settings[] = {"block_sizes=[32, 1000]",
	                                       "pallas_loop_type=unroll",
	                                       "pallas_pre_broadcast=true",
	                                       "pallas_boundary_views=off",
	                                       "dot_precision=default",
	                                       "pallas_fori_dma=\"auto\"",
	                                       "pallas_loop_skew=false",
	                                       "pallas_step_pairs=true",
	                                       "pallas_load_buffer_count=[2]",
	                                       "num_warps=4",
	                                       "split=4",
	                                       "pallas_indirect_access_mode=dma",
	                                       "flatten_loops=[]",
	                                       "loop_orders=[]"};
	Front f;
	Module *m = front_module(&f);
	(void)state;
	for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
		if (!config_set(m, &f.diag, settings[i]))
			fail_msg("%s", settings[i]);
	assert_true(module_configure(m, &f.diag));
	assert_int_equal(m->narrowed.at[1].asked, 1000);
	assert_int_equal(m->block_size.at[1], 512); /* no wider than its range */
	assert_int_equal(m->config.loop_type.value, LOOP_UNROLL);
	assert_int_equal(m->config.pre_broadcast.value, SWITCH_ON);
	assert_int_equal(m->config.boundary_views.value, SWITCH_OFF);
	assert_int_equal(m->config.loop_skew.value, SWITCH_OFF);
	assert_int_equal(m->config.step_pairs.value, SWITCH_ON);
	assert_int_equal(m->config.dot_precision.value, DOT_DEFAULT);
	assert_int_equal(f.diag.list.count, 1); /* the note on num_warps */
	assert_int_equal(f.diag.list.at[0].severity, SEVERITY_NOTE);
	front_end(&f);
}

/* Each word and number that a key takes, set, printed and set again. */
static void test_values_come_back(void **state) {
	Front f;
	Module *m = front_module(&f);
	(void)state;
	for (const KeyRow *row = key_rows; row < key_rows + KEY_COUNT; row++) {
		if (row->kind == KEY_ORDERS || key_is_list(row))
			continue;
		const ConfigKey *key = key_field(row, &m->config);
		assert_false(key->set);
		assert_int_equal(key->value, row->fallback);
		int last = row->high;
		if (row->kind != KEY_NUMBER)
			for (last = 0; key_word(row, last + 1);)
				last++;
		for (int value = row->low; value <= last; value++) {
			Text t;
			if (row->never_on && value == SWITCH_ON)
				continue;
			text_init(&t, &f.arena);
			((ConfigKey *)key_field(row, &m->config))->value = value;
			text_printf(&t, "%s=", row->name);
			key_put(row, &m->config, value % 2, &t);
			*(ConfigKey *)key_field(row, &m->config) = (ConfigKey){.value = -2};
			assert_true(config_set(m, &f.diag, t.at));
			assert_true(key->set);
			assert_int_equal(key->value, value);
		}
	}
	front_end(&f);
}

static void refused(const char *setting, const char *code) {
	Front f;
	Module *m = front_module(&f);
	bool ok = config_set(m, &f.diag, setting) && module_configure(m, &f.diag);
	if (ok || !front_has(&f, code))
		fail_msg("%s: no %s", setting, code);
	front_end(&f);
}

static void test_refused(void **state) {
	(void)state;
	refused("block_sizes=[1]", "config-count");
	refused("block_sizes=[1, 2, 3]", "config-count");
	refused("block_sizes=[1, 0]", "config-value");
	refused("block_sizes=[1, -5]", "config-value");
	refused("block_sizes=[1, 2.0]", "wrong-type");
	refused("block_sizes=[1, true]", "wrong-type");
	refused("block_sizes=128", "wrong-type");
	refused("block_sizes=[1, 4294967296]", "config-value");
	refused("reduction_loops=[16]", "config-count");
	refused("flatten_loops=[true]", "config-count");
	refused("loop_orders=[[0, 2]]", "wrong-type");
	refused("loop_orders=[[1, 0]]", "config-count");
	refused("pallas_load_buffer_count=[1, 1]", "config-count");
	refused("pallas_loop_type=unrolled", "config-value");
	refused("pallas_boundary_views=on", "config-value");
	refused("split=3", "config-value");
	refused("splt=2", "unknown-config-key");
	refused("no_equals_sign", "config-set");
	refused("pallas_worklist_grouping=7", "config-value");
}

static void test_file(void **state) {
	Front f;
	Module *m = front_module(&f);
	Source s = {.name = "c.json", .text = "{\"block_sizes\": [8, 16], \"num_warps\": 4, \"num_stages\": 2}"};
	(void)state;
	s.length = strlen(s.text);
	assert_true(config_load(m, &f.diag, &s));
	assert_true(module_configure(m, &f.diag));
	assert_int_equal(m->block_size.at[0], 8);
	assert_int_equal(f.diag.list.count, 1);
	assert_string_equal(config_list_place(&f.diag, m->config.block_sizes.origin, 1).pointer, "/block_sizes/1");
	front_end(&f);
}

#define BLOCKS(blocks)                                                                                                 \
	"name k\ntensor out output float32[8]\ntunables {\"t\": {\"default\": 3}}\n" blocks "root 0 over "             \
	"[0]\nreturn\n"

static void test_block_sources(void **state) {
	Front f;
	(void)state;
	front_start(&f);
	/* u0 depends on a later block, which depends on a tunable; u2 is a reduction; u3 has no extent */
	Module *m = front_load(&f, BLOCKS("block a 64 \"size\": \"u1 * 2\"\n"
	                                  "block b 64 \"size\": \"next_pow2(t)\"\n"
	                                  "block c \"u0 * 100\" \"reduction\": true\n"
	                                  "block d null\n"));
	assert_non_null(m);
	assert_true(module_configure(m, &f.diag));
	assert_int_equal(m->block_size.at[0], 8);
	assert_int_equal(m->block_size.at[1], 4);
	assert_int_equal(m->block_size.at[2], 800);
	assert_int_equal(m->block_size.at[3], 128);
	assert_true(config_set(m, &f.diag, "reduction_loops=[256]"));
	assert_true(module_configure(m, &f.diag));
	assert_int_equal(m->block_size.at[2], 800); /* the whole dim, until a loop iterates it: passes/rows/roll.c */
	assert_true(config_set(m, &f.diag, "reduction_loops=[null]"));
	assert_true(config_set(m, &f.diag, "block_sizes=[32]"));
	assert_true(module_configure(m, &f.diag));
	assert_int_equal(m->block_size.at[2], 800);
	assert_int_equal(m->block_size.at[3], 32);
	front_end(&f);
}

static void test_block_cycle(void **state) {
	Front f;
	(void)state;
	front_start(&f);
	Module *m = front_load(&f, BLOCKS("block a 64 \"size\": \"u1 * 2\"\n"
	                                  "block b 64 \"size\": \"u0 + u0\"\n"));
	assert_non_null(m);
	assert_false(module_configure(m, &f.diag));
	assert_true(front_has(&f, "block-cycle"));
	front_end(&f);
}

/* ---- config_shrink ---------------------------------------------------------------------------------------------- */

static Target capped(int64_t most) {
	Target t = *target_find("v6e");
	t.name = "capped";
	t.max_tile_elements = most;
	return t;
}

/* The tiles of front.h are m, n and m * n. */
static void test_shrink_candidates(void **state) {
	Front f;
	Module *m = front_module(&f);
	Target target = capped(8192);
	(void)state;
	assert_true(module_configure(m, &f.diag));
	int64_t sizes[] = {128, 256};
	const bool none[] = {false, false}, both[] = {true, true}, second[] = {false, true};
	m->target = &target;
	assert_false(config_shrink(m, &f.arena, none, sizes)); /* the user's: refused by the plan, not changed */
	assert_int_equal(sizes[0], 128);
	assert_true(config_shrink(m, &f.arena, both, sizes)); /* the outer dim first, while it is whole tiles */
	assert_int_equal(sizes[0], 32);
	assert_int_equal(sizes[1], 256);
	sizes[0] = 128;
	assert_true(config_shrink(m, &f.arena, second, sizes));
	assert_int_equal(sizes[0], 128);
	assert_int_equal(sizes[1], 64); /* no whole lanes fit */
	target.max_tile_elements = 0;
	sizes[1] = 1 << 20;
	assert_false(config_shrink(m, &f.arena, both, sizes)); /* no cap, as on every TPU */
	front_end(&f);
}

static void test_shrink_gives_up_at_one(void **state) {
	Front f;
	Module *m = front_module(&f);
	Target target = capped(3);
	const bool first[] = {true, false};
	(void)state;
	assert_true(module_configure(m, &f.diag));
	int64_t sizes[] = {128, 256};
	m->target = &target;
	assert_true(config_shrink(m, &f.arena, first, sizes));
	assert_int_equal(sizes[0], 1);
	assert_int_equal(sizes[1], 256);
	front_end(&f);
}

static void test_shrink_defaults_only(void **state) {
	Front f;
	Module *m = front_module(&f);
	Target target = capped(4096);
	(void)state;
	m->target = &target;
	assert_true(module_configure(m, &f.diag)); /* defaults: 256, 512 */
	assert_int_equal(m->block_size.at[0], 8);
	assert_int_equal(m->block_size.at[1], 512);
	int64_t rows;
	assert_true(expr_value(m, expr_block(m, 0), &rows)); /* expressions follow */
	assert_int_equal(rows, 8);
	assert_true(config_set(m, &f.diag, "block_sizes=[128,128]"));
	assert_true(module_configure(m, &f.diag)); /* the user's are left for the plan to refuse */
	assert_int_equal(m->block_size.at[0], 128);
	front_end(&f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_values_come_back),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_block_sources),
		cmocka_unit_test(test_block_cycle),
		cmocka_unit_test(test_shrink_candidates),
		cmocka_unit_test(test_shrink_gives_up_at_one),
		cmocka_unit_test(test_shrink_defaults_only),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
