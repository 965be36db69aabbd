/* The VMEM model against what libtpu 0.0.51 uses, a kernel of each kind that was once predicted too low: never less,
 * and not much more. */
#include "front.h"
#include "planned.h"
#include "passes/pipeline/pipeline.h"
#include "src/config/config.h"

/* As it was measured: the grid's own pipeline. */
#define OF_GRID "pallas_first_chunks=off"
/* Two buffers of each input's blocks, as they were measured. */
#define TWO_OF_ONE "pallas_load_buffer_count=[2]"
#define TWO_OF_TWO "pallas_load_buffer_count=[2,2]"
#define TWO_OF_THREE "pallas_load_buffer_count=[2,2,2]"
#define TWO_OF_FOUR "pallas_load_buffer_count=[2,2,2,2]"

typedef struct Measured {
	const char *graph; /* of testdata/coverage/graphs */
	const char *chip;
	const char *settings[4];
	int64_t used; /* bytes, by the largest of the kernels */
	int percent;  /* of which the prediction may be */
} Measured;

static int64_t predicted(const Measured *w) {
	Front f;
	front_start(&f);
	const char *path = arena_printf(&f.arena, "testdata/coverage/graphs/%s.json", w->graph);
	Module *m = front_load(&f, front_file(&f.arena, path));
	assert_non_null(m);
	m->target = target_find(w->chip);
	for (int i = 0; w->settings[i]; i++)
		assert_true(config_set(m, &f.diag, w->settings[i]));
	PassContext context = {.module = m, .diag = &f.diag, .arena = &f.arena};
	assert_true(pass_pipeline_run(&context, NULL, 0, NULL));
	const Program *program = program_plan(&f.arena, m, &f.diag, NULL);
	assert_non_null(program);
	int64_t bytes = program->vmem_bytes;
	front_end(&f);
	return bytes;
}

static void check(const Measured *rows, size_t count) {
	for (size_t i = 0; i < count; i++) {
		int64_t bytes = predicted(&rows[i]);
		if (bytes < rows[i].used || bytes > rows[i].used / 100 * rows[i].percent)
			fail_msg("%s on %s: %lld bytes used, %lld predicted", rows[i].graph, rows[i].chip,
			         (long long)rows[i].used, (long long)bytes);
	}
}

/* x / sum(y): what is widened waits for the sum; a second tile that meets it waits packed. */
static void what_waits_for_a_reduction(void **state) {
	(void)state;
	static const Measured rows[] = {
		{"normalise_by_total_8192_4096", "v5e", {"block_sizes=[256,256]", TWO_OF_ONE}, 9285632, 115},
		{"normalise_by_total_8192_4096", "v6e", {"block_sizes=[256,256]"}, 12406784, 110},
		{"normalise_by_total_8192_4096", "v7x", {"block_sizes=[256,256]", TWO_OF_ONE}, 12406784, 110},
		{"plane_norm_1024", "v5e", {"block_sizes=[1]", TWO_OF_TWO}, 16699392, 110},
		{"plane_norm_1024", "v7x", {"block_sizes=[1]", TWO_OF_TWO}, 16646144, 110},
	};
	check(rows, sizeof rows / sizeof *rows);
}

/* A block that is filled first: what does not need it is computed meanwhile. */
static void what_waits_for_a_block_changed_in_place(void **state) {
	(void)state;
	static const Measured rows[] = {
		{"add_in_place_8192_4096", "v5e", {"block_sizes=[256,1024]"}, 3756032, 125},
		{"masked_copy_8192_4096", "v5e", {"block_sizes=[128]"}, 9461760, 120},
		{"masked_copy_8192_4096", "v6e", {"block_sizes=[128]"}, 9506816, 120},
		{"adamw_8192_4096", "v5e", {"block_sizes=[256,512]"}, 8581120, 115},
		{"adamw_8192_4096", "v7x", {"block_sizes=[256,512]"}, 8409088, 115},
	};
	check(rows, sizeof rows / sizeof *rows);
}

/* A reduction before an unrolled loop; a block that straight code reads again is there twice. */
static void what_waits_in_unrolled_steps(void **state) {
	(void)state;
	static const Measured rows[] = {
		{"softmax_bwd_4096_8192", "v7x", {"pallas_loop_type=unroll", "pallas_whole_rows=off"}, 14008320, 110},
		{"softmax_through_output_4096_8192", "v7x", {"pallas_loop_type=unroll"}, 10358784, 115},
	};
	check(rows, sizeof rows / sizeof *rows);
}

/* Phases that only reduce: what they widen waits, all before an exponential. */
static void what_strips_widen_early(void **state) {
	(void)state;
	static const Measured rows[] = {
		{"logsumexp_rows_8192_4096", "v5e", {"block_sizes=[128]", TWO_OF_ONE}, 3919872, 130},
		{"logsumexp_rows_8192_4096", "v6e", {"block_sizes=[128]", TWO_OF_ONE}, 3924992, 130},
		{"logsumexp_rows_8192_4096", "v7x", {"block_sizes=[256]"}, 8343552, 115},
	};
	check(rows, sizeof rows / sizeof *rows);
}

/* A choice that is a matmul's factor in a loop goes there with its mask. */
static void what_a_loop_reads(void **state) {
	(void)state;
	static const Measured rows[] = {
		{"squeeze_excite_bwd_x_4096",
	         "v7x",
	         {"pallas_loop_type=fori_loop", "pallas_fori_dma=on", "pallas_load_buffer_count=[2,2,2,2,2,2]"},
	         19288064,
	         115},
		{"squeeze_excite_bwd_x_4096",
	         "v7x",
	         {"pallas_loop_type=emit_pipeline", "pallas_straight_loops=off"},
	         43429888,
	         110},
	};
	check(rows, sizeof rows / sizeof *rows);
}

/* Rows turned into columns, one after the other; rows stored one by one; halves of a tile of lanes side by side; a
 * stack along lanes; planes transposed. */
static void what_moves(void **state) {
	(void)state;
	static const Measured rows[] = {
		{"grpo_loss_bwd_32000", "v5e", {"pallas_fori_dma=on"}, 21332992, 110},
		{"grpo_loss_bwd_32000", "v7x", {"pallas_loop_type=unroll"}, 36635648, 110},
		{"rotary_production", "v7x", {NULL}, 7213056, 155},
		{"rotary_slices_production", "v5e", {NULL}, 2867200, 125},
		{"rotary_slices_production", "v7x", {TWO_OF_THREE}, 2822144, 130},
		{"swap_pairs_production", "v5e", {NULL}, 2506752, 120},
		{"swap_pairs_production", "v6e", {NULL}, 2916352, 120},
		{"permuted_3d_production", "v6e", {NULL}, 3522560, 115},
		{"permuted_3d_production", "v7x", {TWO_OF_TWO}, 3522560, 115},
	};
	check(rows, sizeof rows / sizeof *rows);
}

/* A ragged last step beside its loop. */
static void what_a_ragged_step_holds(void **state) {
	(void)state;
	static const Measured rows[] = {
		{"grpo_loss_32000", "v5e", {"pallas_straight_loops=off"}, 19043328, 105},
		{"grpo_loss_32000", "v6e", {"pallas_straight_loops=off"}, 19207168, 105},
		{"grpo_loss_32000", "v7x", {"pallas_straight_loops=off"}, 19031040, 105},
		{"grpo_loss_32000",
	         "v7x",
	         {"pallas_loop_type=emit_pipeline", "pallas_straight_loops=off"},
	         4408320,
	         115},
	};
	check(rows, sizeof rows / sizeof *rows);
}

/* Long rows of a matmul's result, less their mean, squared. */
static void what_is_squared(void **state) {
	(void)state;
	static const Measured rows[] = {
		{"matmul_layer_norm_4096", "v5e", {"pallas_loop_type=unroll", OF_GRID}, 40881152, 105},
		{"matmul_layer_norm_4096", "v6e", {"pallas_loop_type=unroll", OF_GRID}, 41213952, 105},
		{"matmul_layer_norm_4096", "v7x", {"pallas_loop_type=unroll", OF_GRID}, 41275392, 105},
		{"matmul_layer_norm_4096",
	         "v7x",
	         {"pallas_loop_type=unroll", "block_sizes=[256,512]", OF_GRID},
	         48062464,
	         110},
	};
	check(rows, sizeof rows / sizeof *rows);
}

/* A tile that is computed waits for a column that is loaded. */
static void what_waits_for_a_column(void **state) {
	(void)state;
	static const Measured rows[] = {
		{"broadcast_operands_production", "v6e", {NULL}, 5140992, 120},
		{"broadcast_operands_production", "v7x", {TWO_OF_FOUR}, 5140992, 120},
	};
	check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_waits_for_a_reduction),
		cmocka_unit_test(what_waits_for_a_block_changed_in_place),
		cmocka_unit_test(what_waits_in_unrolled_steps),
		cmocka_unit_test(what_strips_widen_early),
		cmocka_unit_test(what_a_loop_reads),
		cmocka_unit_test(what_moves),
		cmocka_unit_test(what_a_ragged_step_holds),
		cmocka_unit_test(what_is_squared),
		cmocka_unit_test(what_waits_for_a_column),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
