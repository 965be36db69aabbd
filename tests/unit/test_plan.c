/* The Plan of the row sum in front.h: out[m] = scale * sum(x[m, :]), x float32 [256, 512]; and the planner's parts. */
#include "plan_fixture.h"
#include "passes/pipeline/pipeline.h"

/* Compiles FRONT_DOCUMENT under the settings (NULL-terminated) as far as the Plan; plan is NULL if it is refused. */
static void planned_start(Planned *p, const char *const *settings) {
	front_start(&p->front);
	planned_load(p, FRONT_DOCUMENT);
	planned_make(p, settings);
}

static const Operand *operand(const Planned *p, const char *ref) {
	for (uint32_t i = 0; i < p->plan->operands.count; i++)
		if (strcmp(p->plan->operands.at[i].ref, ref) == 0)
			return &p->plan->operands.at[i];
	fail_msg("no operand %s", ref);
	return NULL;
}

static void pipelined_windows_stay_in_hbm(void **state) {
	(void)state;
	Planned p;
	planned_start(&p, SETTINGS("block_sizes=[128,256]", "pallas_loop_type=emit_pipeline"));
	assert_non_null(p.plan);
	assert_int_equal(p.plan->grid.count, 1);
	assert_int_equal(p.plan->grid.at[0].steps, 2);
	assert_true(p.plan->grid.at[0].parallel);
	const Loop *loop = &p.plan->loops.at[0];
	assert_int_equal(loop->type, LOOP_EMIT_PIPELINE);
	assert_int_equal(loop->dim[0].full_steps, 2);
	assert_false(loop->peeled);
	assert_int_equal(loop->windows.count, 1);
	assert_true(loop->windows.at[0].dma);
	assert_int_equal(loop->windows.at[0].block[0], 128);
	assert_int_equal(loop->windows.at[0].block[1], 256);
	assert_int_equal(loop->windows.at[0].bytes, 2 * 128 * 256 * 4);
	assert_int_equal(operand(&p, "x_hbm")->space, SPACE_HBM);
	assert_int_equal(loop->carries.at[0].place, CARRY_SCRATCH);
	planned_end(&p);
}

static void a_one_dimensional_result_is_a_row(void **state) {
	(void)state;
	Planned p;
	planned_start(&p, SETTINGS("block_sizes=[128,256]", "pallas_loop_type=fori_loop"));
	assert_non_null(p.plan);
	const Operand *out = operand(&p, "out_ref");
	assert_int_equal(out->rank, 2);
	assert_int_equal(out->unit, 0);
	assert_int_equal(out->shape[0], 1);
	assert_int_equal(out->shape[1], 256);
	assert_int_equal(out->block[1], 128);
	/* [128, 1] float32: one lane of a whole register row each, small enough for registers. */
	assert_int_equal(p.plan->loops.at[0].carries.at[0].place, CARRY_REGISTER);
	planned_end(&p);
}

static void unrolled_operands_are_resident(void **state) {
	(void)state;
	Planned p;
	planned_start(&p, SETTINGS("block_sizes=[128,256]", "pallas_loop_type=unroll"));
	assert_non_null(p.plan);
	const Operand *x = operand(&p, "x_ref");
	assert_int_equal(x->block[0], 128);
	assert_int_equal(x->block[1], 512);
	assert_int_equal(x->bytes, 2 * 128 * 512 * 4);
	assert_false(p.plan->loops.at[0].windows.at[0].dma);
	planned_end(&p);
}

static void a_ragged_last_step_is_peeled(void **state) {
	(void)state;
	Planned p;
	planned_start(&p, SETTINGS("block_sizes=[128,384]", "pallas_loop_type=fori_loop", "pallas_fori_dma=on"));
	assert_non_null(p.plan);
	const Loop *loop = &p.plan->loops.at[0];
	assert_true(loop->peeled);
	assert_true(loop->masked);
	assert_int_equal(loop->dim[0].full_steps, 1);
	assert_int_equal(loop->dim[0].tail, 128);
	assert_int_equal(loop->windows.at[0].tail_operand, (uint32_t)(operand(&p, "x_tail_ref") - p.plan->operands.at));
	planned_end(&p);
}

static void steps_off_the_lanes_are_cut_out_of_whole_tiles(void **state) {
	(void)state;
	Planned p;
	planned_start(&p, SETTINGS("block_sizes=[128,100]", "pallas_loop_type=fori_loop"));
	assert_non_null(p.plan);
	const Operand *x = operand(&p, "x_ref");
	assert_int_equal(x->block[1], 640); /* six steps of 100, in tiles of 128 */
	SliceDim slice = {0};
	for (NodeId n = 0; n < p.plan->module->nodes.count; n++)
		if (p.plan->values[n].access && p.plan->values[n].access->kind == REF_WINDOW)
			slice = p.plan->values[n].access->dim[1];
	assert_int_equal(slice.size, 100);
	assert_int_equal(slice.window, 256);
	assert_int_equal(slice.multiple, 128);
	assert_int_equal(slice.last, 640 - 256);
	planned_end(&p);
}

static void too_much_vmem_is_refused(void **state) {
	(void)state;
	Planned p;
	front_start(&p.front);
	planned_load(&p, FRONT_DOCUMENT);
	planned_target(&p, "v6e")->vmem_bytes = INT64_C(300) * 1024;
	planned_make(&p, SETTINGS("block_sizes=[128,256]", "pallas_loop_type=unroll"));
	assert_null(p.plan);
	assert_true(front_has(&p.front, "vmem"));
	planned_end(&p);
}

/* ---- pallas_fori_dma: auto -------------------------------------------------------------------------------------- */

static bool has_remark(const Planned *p, const char *text) {
	for (uint32_t i = 0; i < p->plan->remarks.count; i++)
		if (strstr(p->plan->remarks.at[i].message, text))
			return true;
	return false;
}

/* FRONT_DOCUMENT with another extent. */
static const char *resized_document(Arena *a, const char *extent, const char *other) {
	Text t;
	text_init(&t, a);
	const char *from = FRONT_DOCUMENT;
	for (const char *at; (at = strstr(from, extent)); from = at + strlen(extent)) {
		text_putn(&t, from, (size_t)(at - from));
		text_put(&t, other);
	}
	text_put(&t, from);
	return t.at;
}

/* Plans 2048 rows for a v6e with this much VMEM (0: its own), in blocks of [128,128]: 16 grid points. */
static void planned_tall(Planned *p, int64_t vmem, const char *const *settings) {
	front_start(&p->front);
	planned_load(p, resized_document(&p->front.arena, "256", "2048"));
	Target *target = planned_target(p, "v6e");
	target->vmem_bytes = vmem ? vmem : target->vmem_bytes;
	planned_set(p, SETTINGS("block_sizes=[128,128]", "pallas_loop_type=fori_loop"));
	planned_make(p, settings);
}

static const char *const none[] = {NULL};

/* One grid point: resident blocks would be waited for whole, the loop waits for its first window only. */
static void one_long_loop_copies_its_windows(void **state) {
	(void)state;
	Planned p;
	front_start(&p.front);
	planned_load(&p, resized_document(&p.front.arena, "512", "16384"));
	planned_make(&p, SETTINGS("block_sizes=[256,128]", "pallas_loop_type=fori_loop"));
	assert_non_null(p.plan);
	assert_true(p.plan->loops.at[0].dma);
	assert_int_equal(operand(&p, "x_hbm")->space, SPACE_HBM);
	assert_true(has_remark(&p, "taken: windows copied from HBM: about "));
	planned_end(&p);
}

/* 16 grid points: each would wait for its first window; the grid brings the next block while one is computed on. */
static void many_points_have_resident_blocks(void **state) {
	(void)state;
	Planned p;
	planned_tall(&p, 0, none);
	assert_non_null(p.plan);
	assert_false(p.plan->loops.at[0].dma);
	assert_int_equal(operand(&p, "x_ref")->block[1], 512);
	assert_true(has_remark(&p, "taken: resident blocks: about "));
	assert_true(has_remark(&p, "step: x is resident: pallas_fori_dma is auto"));
	planned_end(&p);
}

static void asked_for_is_obeyed(void **state) {
	(void)state;
	Planned p;
	planned_tall(&p, 0, SETTINGS("pallas_fori_dma=on"));
	assert_true(p.plan->loops.at[0].dma);
	planned_end(&p);
	planned_start(&p, SETTINGS("block_sizes=[256,128]", "pallas_loop_type=fori_loop", "pallas_fori_dma=off"));
	assert_false(p.plan->loops.at[0].dma);
	assert_true(has_remark(&p, "step: x is resident: pallas_fori_dma is off"));
	planned_end(&p);
}

/* The grid's pipeline keeps no three windows; the way that is left is taken, without a diagnostic of the other. */
static void a_way_that_cannot_be_served_is_not_taken(void **state) {
	(void)state;
	Planned p;
	planned_tall(&p, 0, SETTINGS("pallas_load_buffer_count=[3]"));
	assert_non_null(p.plan);
	assert_true(p.plan->loops.at[0].dma);
	assert_int_equal(p.front.diag.errors, 0);
	assert_int_equal(p.front.diag.list.count, 0);
	planned_end(&p);
}

/* The limit is `vmem`; asserts that windows are copied, for this reason, and that nothing is complained of. */
static void assert_copied(int64_t vmem, const char *reason) {
	Planned p;
	planned_tall(&p, vmem, none);
	assert_non_null(p.plan);
	assert_true(p.plan->loops.at[0].dma);
	assert_true(has_remark(&p, reason));
	assert_int_equal(p.front.diag.list.count, 0);
	planned_end(&p);
}

static void blocks_that_do_not_fit_are_copied(void **state) {
	(void)state;
	Planned p;
	planned_tall(&p, 0, SETTINGS("pallas_load_buffer_count=[1]", "pallas_fori_dma=on"));
	int64_t copied = p.plan->vmem.total;
	planned_end(&p);
	planned_tall(&p, 0, none);
	assert_false(p.plan->loops.at[0].dma);
	assert_true(p.plan->vmem.total > copied);
	planned_end(&p);
	assert_copied(copied, "refused: resident blocks, one buffer where two do not fit: VMEM");
	planned_tall(&p, 1024, none);
	assert_null(p.plan);
	assert_int_equal(p.front.diag.errors, 1);
	planned_end(&p);
}

/* ---- the cap on a tile's elements -------------------------------------------------------------------------------- */

/* Plans FRONT_DOCUMENT for v6e with that cap; returns the first message, "" if it is not refused. */
static const char *capped_message(Planned *p, int64_t most, const char *const *settings) {
	front_start(&p->front);
	planned_load(p, FRONT_DOCUMENT);
	Target *target = planned_target(p, "v6e");
	target->name = "capped";
	target->max_tile_elements = most;
	planned_set(p, settings);
	PassContext c = {.module = p->m, .diag = &p->front.diag, .arena = &p->front.arena};
	const char *const names[] = {"block_constraints"};
	assert_true(module_configure(p->m, &p->front.diag) && module_verify(p->m, &p->front.diag) &&
	            pass_pipeline_run(&c, names, 1, NULL));
	p->plan = planned_kernel(&p->front.arena, p->m, &p->front.diag);
	if (p->plan)
		return "";
	assert_true(front_has(&p->front, "tile-elements"));
	return p->front.diag.list.at[0].message;
}

static void a_tile_over_the_cap_is_refused(void **state) {
	(void)state;
	Planned p;
	const char *message = capped_message(&p, 32768, SETTINGS("block_sizes=[256,512]"));
	assert_string_equal(message,
	                    "m * n: a tile of 't' is too large for capped: 256*512 = 131072 > 32768; largest that "
	                    "fits: m 64 or n 128");
	planned_end(&p);
	assert_string_equal(capped_message(&p, 32768, SETTINGS("block_sizes=[128,256]")), "");
	planned_end(&p);
	assert_string_equal(
		capped_message(&p, 100, SETTINGS("block_sizes=[8,128]")),
		"m * n <= 100 and n >= 128 cannot both hold: 't' has m * n elements in a tile and capped holds "
		"100; blocks of the 2-D float32 tensor x are multiples of 128");
	planned_end(&p);
}

static void no_size_meets_cap_and_alignment(void **state) {
	(void)state;
	Planned p;
	/* out is 1-D float32 and tiled by m; x asks for 128 columns. */
	const char *const sizes[] = {"block_sizes=[8,128]", "block_sizes=[128,128]", "block_sizes=[256,512]"};
	for (int i = 0; i < 3; i++) {
		const char *message = capped_message(&p, 8192, SETTINGS(sizes[i], "pallas_boundary_views=off"));
		assert_non_null(strstr(message, "m * n <= 8192 and m >= 128 cannot both hold"));
		planned_end(&p);
	}
}

static void vmem_is_padded_to_tiles(void **state) {
	(void)state;
	const Target *t = target_find("v6e");
	assert_int_equal(vmem_bytes(t, DTYPE_F32, 2, (const int64_t[]){1, 1}), 1 * 128 * 4);
	assert_int_equal(vmem_bytes(t, DTYPE_F32, 2, (const int64_t[]){3, 384}), 4 * 384 * 4);
	assert_int_equal(vmem_bytes(t, DTYPE_BF16, 2, (const int64_t[]){1, 256}), 2 * 256 * 2);
	assert_int_equal(vmem_bytes(t, DTYPE_BF16, 3, (const int64_t[]){2, 421, 64}), 2 * 424 * 128 * 2);
	assert_int_equal(vmem_bytes(t, DTYPE_I8, 3, (const int64_t[]){2, 33, 129}), 2 * 40 * 256);
	assert_int_equal(vmem_bytes(t, DTYPE_I4, 2, (const int64_t[]){64, 128}), 64 * 128 / 2);
	assert_int_equal(scratch_vmem_bytes(t, DTYPE_I4, 2, (const int64_t[]){64, 128}), 64 * 128);
	assert_int_equal(scratch_vmem_bytes(t, DTYPE_BF16, 2, (const int64_t[]){64, 128}), 64 * 128 * 2);
	/* A register holds 8 rows of 32 bits, 16 of 16. */
	assert_int_equal(register_bytes(t, DTYPE_F32, 2, (const int64_t[]){1, 256}), 8 * 256 * 4);
	assert_int_equal(register_bytes(t, DTYPE_BF16, 2, (const int64_t[]){9, 64}), 16 * 128 * 2);
	/* Too large to count is still too large for any chip. */
	assert_true(vmem_bytes(t, DTYPE_F32, 3, (const int64_t[]){INT32_MAX, INT32_MAX, INT32_MAX}) > INT64_C(1) << 50);
}

static void affines_add_up(void **state) {
	(void)state;
	Arena arena;
	arena_init(&arena, NULL);
	Affine a = affine_add(&arena, affine_var(&arena, VAR_PROGRAM, 0, 128), affine_int(64));
	a = affine_add(&arena, a, affine_var(&arena, VAR_PROGRAM, 0, 128));
	assert_int_equal(a.count, 1);
	assert_int_equal(a.term[0].scale, 256);
	assert_true(affine_multiple(&a, 64));
	assert_false(affine_multiple(&a, 128));
	a = affine_divide(&arena, a, 64);
	assert_int_equal(a.constant, 1);
	assert_int_equal(a.term[0].scale, 4);
	a = affine_add(&arena, a, affine_var(&arena, VAR_PROGRAM, 0, -4));
	assert_true(affine_is_int(&a));
	for (uint32_t i = 0; i < 100; i++)
		a = affine_add(&arena, a, affine_var(&arena, VAR_NODE, i, i + 1));
	assert_int_equal(a.count, 100);
	Affine twice = affine_add(&arena, a, a), scaled = affine_scale(&arena, a, 2);
	assert_true(affine_equal(&twice, &scaled));
	assert_false(affine_equal(&twice, &a));
	twice = affine_sub(&arena, twice, scaled);
	assert_true(affine_is_int(&twice) && twice.constant == 0);
	arena_free(&arena);
}

/* Which steps a grid dim's index tells apart: K/V heads of groups, and batch and head of one dim. */
static void parts_of_a_program_id(void **state) {
	(void)state;
	Arena arena;
	arena_init(&arena, NULL);
	Term quotient = {VAR_PROGRAM, 0, 128, 4, 0}, rest = {VAR_PROGRAM, 0, 1, 0, 4},
	     digit = {VAR_PROGRAM, 0, 1, 4, 2};
	assert_int_equal(term_value(&quotient, 11), 256);
	assert_int_equal(term_value(&rest, 11), 3);
	assert_int_equal(term_value(&digit, 14), 1);
	assert_int_equal(term_last(&quotient, 30), 7);
	assert_int_equal(term_last(&rest, 30), 3);
	assert_int_equal(term_last(&rest, 2), 2);
	Affine sum = affine_add(&arena, affine_term(&arena, quotient), affine_term(&arena, rest));
	assert_int_equal(sum.count, 2);
	sum = affine_add(&arena, sum, affine_scale(&arena, affine_term(&arena, quotient), -1));
	assert_int_equal(sum.count, 1);
	assert_true(affine_multiple(&(Affine){.count = 1, .term = &quotient}, 128));
	const Affine both[] = {affine_term(&arena, quotient), affine_term(&arena, rest)};
	assert_true(affine_tells_program(2, both, 0, 32));
	assert_false(affine_tells_program(1, both, 0, 32));
	assert_false(affine_tells_program(1, both + 1, 0, 32));
	assert_true(affine_tells_program(1, both + 1, 0, 4));
	const Affine digits[] = {affine_term(&arena, digit), affine_term(&arena, rest)};
	assert_true(affine_tells_program(2, digits, 0, 8));
	assert_false(affine_tells_program(2, digits, 0, 9));
	arena_free(&arena);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_of_a_program_id),
		cmocka_unit_test(pipelined_windows_stay_in_hbm),
		cmocka_unit_test(a_one_dimensional_result_is_a_row),
		cmocka_unit_test(unrolled_operands_are_resident),
		cmocka_unit_test(a_ragged_last_step_is_peeled),
		cmocka_unit_test(steps_off_the_lanes_are_cut_out_of_whole_tiles),
		cmocka_unit_test(too_much_vmem_is_refused),
		cmocka_unit_test(one_long_loop_copies_its_windows),
		cmocka_unit_test(many_points_have_resident_blocks),
		cmocka_unit_test(asked_for_is_obeyed),
		cmocka_unit_test(a_way_that_cannot_be_served_is_not_taken),
		cmocka_unit_test(blocks_that_do_not_fit_are_copied),
		cmocka_unit_test(a_tile_over_the_cap_is_refused),
		cmocka_unit_test(no_size_meets_cap_and_alignment),
		cmocka_unit_test(vmem_is_padded_to_tiles),
		cmocka_unit_test(affines_add_up),
	};
	return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
