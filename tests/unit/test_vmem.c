/* The VMEM model: buffers of windows, and the values that are kept across barriers. */
#include "plan_fixture.h"

/* out = e / sum(e), e = exp(x): x float32 [256, 512], rows in blocks of m. */
#define ROWS                                                                                                           \
	"name rows\n"                                                                                                  \
	"tensor x input float32[256, 512]\n"                                                                           \
	"tensor out output float32[256, 512]\n"                                                                        \
	"block m 256\n"                                                                                                \
	"root 0 over [0]\n"                                                                                            \
	"x = tile.host_tensor('x') : float32[256, 512]\n"                                                              \
	"t = tile.load(x, [u0, :]) : float32[u0, 512]\n"                                                               \
	"e = aten.exp.default(t) : float32[u0, 512]\n"                                                                 \
	"s = aten.sum.dim_IntList(e, [-1], true) : float32[u0, 1]\n"                                                   \
	"q = aten.div.Tensor(e, s) : float32[u0, 512]\n"                                                               \
	"out = tile.host_tensor('out') : float32[256, 512]\n"                                                          \
	"store = tile.store(out, [u0, :], q)\n"                                                                        \
	"return\n"

static VmemUse use_of(const char *document, const char *chip, const char *const *settings) {
	Planned p;
	front_start(&p.front);
	planned_load(&p, document);
	planned_target(&p, chip);
	planned_make(&p, settings);
	assert_non_null(p.plan);
	VmemUse use = p.plan->vmem;
	planned_end(&p);
	return use;
}

enum { TILE = 128 * 512 * 4, LEAST = 32 * 1024, MOST = 320 * 1024 };

/* What is counted of a kernel that neither multiplies nor moves, and its margin. */
static int64_t intermediates(VmemUse use, int64_t spills) {
	int64_t bytes = use.windows + use.inner + use.scratch + spills;
	int64_t share = spills ? bytes / 20 : int_min(bytes / 50, INT64_C(40) * 1024);
	return spills + int_min(MOST, LEAST + share) + spills / 10 + bytes / 170;
}

/* Of one that moves a column. */
static int64_t moving(VmemUse use, int64_t spills) {
	int64_t bytes = use.windows + use.inner + use.scratch + spills;
	return spills + int_min(MOST, LEAST + bytes / 2) + spills / 10 + bytes / 170;
}

/* A window that never moves has one buffer; on v5p two steps are one for each core. */
static void a_window_that_stays_has_one_buffer(void **state) {
	(void)state;
	assert_int_equal(use_of(ROWS, "v6e", SETTINGS("block_sizes=[64]")).windows, 2 * 2 * TILE / 2);
	assert_int_equal(use_of(ROWS, "v6e", SETTINGS("block_sizes=[128]")).windows, 2 * 2 * TILE);
	assert_int_equal(use_of(ROWS, "v6e", SETTINGS("block_sizes=[256]")).windows, 2 * 2 * TILE);
	assert_int_equal(use_of(ROWS, "v5p", SETTINGS("block_sizes=[128]")).windows, 2 * TILE);
	assert_int_equal(use_of(ROWS, "v4", SETTINGS("block_sizes=[128]")).windows, 2 * 2 * TILE);
}

/* e is read before and after the sum: it is kept whole, less the registers. */
static void what_lies_across_a_reduction_is_held(void **state) {
	(void)state;
	const Target *t = target_find("v6e");
	int64_t spilled = TILE * t->spill_tiles / 100 - INT64_C(20) * 4096;
	VmemUse use = use_of(ROWS, "v6e", SETTINGS("block_sizes=[128]"));
	assert_int_equal(use.intermediates, intermediates(use, spilled));
	use = use_of(ROWS, "v6e", SETTINGS("block_sizes=[8]")); /* 8 rows are 4 registers */
	assert_int_equal(use.intermediates, intermediates(use, 0));
}

/* The row sum reads what it loads once, and holds the carried column alone: 16 registers. */
static void what_streams_is_not_held(void **state) {
	(void)state;
	VmemUse use = use_of(FRONT_DOCUMENT, "v6e",
	                     SETTINGS("block_sizes=[128,512]", "pallas_loop_type=fori_loop", "pallas_fori_dma=off"));
	assert_int_equal(use.intermediates, moving(use, 0));
}

/* Sums of the other steps do not wait for the carried one: each is there twice, beside the carried one. */
static void steps_of_an_unrolled_loop_overlap(void **state) {
	(void)state;
	const Target *t = target_find("v6e");
	int64_t column = INT64_C(256) / 8 * 4096;
	int64_t spilled = column * (t->spill_columns + INT64_C(3) * 2 * t->spill_steps) / 100 - INT64_C(20) * 4096;
	VmemUse use = use_of(FRONT_DOCUMENT, "v6e", SETTINGS("block_sizes=[256,128]", "pallas_loop_type=unroll"));
	assert_int_equal(use.intermediates, moving(use, spilled));
	use = use_of(FRONT_DOCUMENT, "v6e", SETTINGS("block_sizes=[256,128]", "pallas_loop_type=emit_pipeline"));
	assert_int_equal(use.intermediates, moving(use, 0));
}

/* Two windows of a step of the loop; one of an array that the window covers whole. */
static void a_pipeline_keeps_one_buffer_of_a_whole_array(void **state) {
	(void)state;
	const char *const *pipeline = SETTINGS("block_sizes=[256,128]", "pallas_loop_type=emit_pipeline");
	assert_int_equal(use_of(FRONT_DOCUMENT, "v6e", pipeline).inner, 2 * 256 * 128 * 4);
	pipeline = SETTINGS("block_sizes=[256,512]", "pallas_loop_type=emit_pipeline", "pallas_straight_loops=off");
	assert_int_equal(use_of(FRONT_DOCUMENT, "v6e", pipeline).inner, 256 * 512 * 4);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_window_that_stays_has_one_buffer),
		cmocka_unit_test(what_lies_across_a_reduction_is_held),
		cmocka_unit_test(what_streams_is_not_held),
		cmocka_unit_test(steps_of_an_unrolled_loop_overlap),
		cmocka_unit_test(a_pipeline_keeps_one_buffer_of_a_whole_array),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
