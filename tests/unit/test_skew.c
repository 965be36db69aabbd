/* test_skew.c - which loops compute part of a step one step ahead, and what they hand on. */
#include "passes_fixture.h"
#include "planned.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* The plan of a graph of testdata/graphs for v7x; NULL if it is refused. */
static Plan *planned(Fixture *f, const char *graph, const char *const *settings) {
	fixture_init(f);
	Module *m = graph_load(f, graph, NULL, NULL);
	for (; *settings; settings++)
		assert_true(config_set(m, &f->diag, *settings));
	assert_true(config_set(m, &f->diag, "pallas_straight_loops=off"));
	assert_true(module_configure(m, &f->diag) && module_verify(m, &f->diag));
	return planned_kernel(&f->arena, m, &f->diag);
}

#define ONE_STEP "pallas_emit_pipeline_group_size=1"

/* Attention, [4, 512, 128], K and V in 4 steps of 128 rows. */
static Plan *attention(Fixture *f, const char *loop_type, const char *more, const char *group) {
	Plan *plan = planned(f, "attention", SETTINGS("block_sizes=[1,256,128]", loop_type, more, group));
	assert_non_null(plan);
	assert_int_equal(plan->loops.at[0].dim[0].full_steps, 4);
	return plan;
}

static const Window *window(const Plan *plan, const char *ref) {
	const Loop *loop = &plan->loops.at[0];
	for (uint32_t i = 0; i < loop->windows.count; i++)
		if (strcmp(loop->windows.at[i].ref, ref) == 0)
			return &loop->windows.at[i];
	fail_msg("no window %s", ref);
	return NULL;
}

static void scores_are_handed_on_and_k_runs_ahead(void **state) {
	(void)state;
	Fixture f;
	for (int type = 0; type < 2; type++) {
		Plan *plan = attention(&f, type ? "pallas_loop_type=fori_loop" : "pallas_loop_type=emit_pipeline",
		                       type ? "pallas_fori_dma=on" : "pallas_loop_skew=on", ONE_STEP);
		const Loop *loop = &plan->loops.at[0];
		assert_true(loop->skewed && plan->skewed);
		assert_int_equal(loop->handed.count, 1);
		assert_string_equal(node_get(plan->module, loop->handed.at[0].node)->name, "scores");
		/* float32 [1, 256, 128] */
		assert_int_equal(plan->scratches.at[loop->handed.at[0].scratch].bytes, 256 * 128 * 4);
		assert_true(window(plan, "k_in_win")->ahead && !window(plan, "k_in_win")->behind);
		assert_true(!window(plan, "v_in_win")->ahead && window(plan, "v_in_win")->behind);
		fixture_free(&f);
	}
}

static void the_scratch_counts(void **state) {
	(void)state;
	Fixture f;
	Plan *plan = attention(&f, "pallas_loop_type=emit_pipeline", "pallas_loop_skew=off", NULL);
	int64_t off = plan->vmem.scratch, spilled = plan->vmem.intermediates;
	assert_false(plan->loops.at[0].skewed);
	assert_string_equal(plan->loops.at[0].skew_why, "pallas_loop_skew is off");
	fixture_free(&f);
	plan = attention(&f, "pallas_loop_type=emit_pipeline", "pallas_loop_skew=on", ONE_STEP);
	assert_int_equal(plan->vmem.scratch, off + INT64_C(256) * 128 * 4);
	assert_true(plan->vmem.intermediates >= spilled + INT64_C(256) * 128 * 4 / 2);
	fixture_free(&f);
}

/* Pairs: resident blocks, or as asked for; their scratch counts twice. */
static void steps_stand_in_pairs(void **state) {
	(void)state;
	static const struct {
		const char *loop_type, *setting, *dma, *why;
	} rows[] = {
		{"pallas_loop_type=fori_loop", "pallas_step_pairs=auto", "pallas_fori_dma=off", NULL},
		{"pallas_loop_type=fori_loop", "pallas_step_pairs=off", "pallas_fori_dma=off",
	         "pallas_step_pairs is off"},
		{"pallas_loop_type=fori_loop", "pallas_step_pairs=auto", "pallas_fori_dma=on",
	         "each one waits for its copies"},
		{"pallas_loop_type=fori_loop", "pallas_step_pairs=on", "pallas_fori_dma=on", NULL},
		{"pallas_loop_type=emit_pipeline", "pallas_step_pairs=on", "pallas_loop_skew=on", NULL},
		{"pallas_loop_type=emit_pipeline", "pallas_step_pairs=off", "pallas_loop_skew=on",
	         "pallas_step_pairs is off"},
	};
	for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		Fixture f;
		Plan *plan = planned(
			&f, "attention",
			SETTINGS("block_sizes=[1,256,128]", rows[i].loop_type, rows[i].setting, rows[i].dma, ONE_STEP));
		assert_non_null(plan);
		const Loop *loop = &plan->loops.at[0];
		const Handed *h = &loop->handed.at[0];
		assert_true(loop->skewed);
		assert_int_equal(loop->paired, rows[i].why == NULL);
		assert_string_equal(loop->pair_why,
		                    rows[i].why ? rows[i].why : "what each one hands on has its own scratch");
		assert_int_equal(h->odd != NONE, loop->paired);
		if (loop->paired) {
			assert_int_not_equal(h->odd, h->scratch);
			assert_int_equal(plan->scratches.at[h->odd].bytes, 256 * 128 * 4);
		}
		fixture_free(&f);
	}
	Fixture f;
	Plan *plan = planned(&f, "attention",
	                     SETTINGS("block_sizes=[1,256,256]", "pallas_loop_type=fori_loop", "pallas_fori_dma=off"));
	assert_non_null(plan);
	assert_string_equal(plan->loops.at[0].pair_why, "it has too few of them");
	assert_int_equal(plan->loops.at[0].handed.at[0].odd, NONE);
	fixture_free(&f);
}

static const char *why_not(Fixture *f, const char *graph, const char *const *settings) {
	Plan *plan = planned(f, graph, settings);
	assert_non_null(plan);
	for (uint32_t i = 0; i < plan->loops.count; i++) {
		assert_false(plan->loops.at[i].skewed);
		assert_int_equal(plan->loops.at[i].handed.count, 0);
	}
	return plan->loops.at[0].skew_why;
}

static void loops_that_stay_as_they_are(void **state) {
	(void)state;
	static const struct {
		const char *graph, *setting, *blocks, *why;
	} rows[] = {
		{"attention", "pallas_loop_type=unroll", "block_sizes=[1,256,128]",
	         "unrolled steps that reduce along lanes overlap as they are"},
		{"attention", "pallas_loop_type=fori_loop", "block_sizes=[1,256,512]", "it has no two full steps"},
		{"attention", "pallas_loop_type=emit_pipeline", "block_sizes=[1,256,128]",
	         "one step more of the pipeline takes longer than what could run beside the others"},
		{"causal_attention", "pallas_loop_type=fori_loop", "block_sizes=[1,128,256]",
	         "its bounds are computed in the kernel"},
		{"causal_attention", "pallas_loop_type=emit_pipeline", "block_sizes=[1,128,128]",
	         "its bounds are computed in the kernel"},
		{"matmul_1024", "pallas_loop_type=fori_loop", "block_sizes=[256,256,128]",
	         "no matmul of the next step can run beside a step"},
		{"softmax_two_pass", "pallas_loop_type=emit_pipeline", "block_sizes=[128,128]",
	         "no matmul of the next step can run beside a step"},
	};
	for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		Fixture f;
		assert_string_equal(why_not(&f, rows[i].graph, SETTINGS(rows[i].setting, rows[i].blocks, ONE_STEP)),
		                    rows[i].why);
		fixture_free(&f);
	}
}

static bool is_seldom(const Plan *plan, const char *name) {
	for (NodeId n = 0; n < plan->module->nodes.count; n++)
		if (plan->values[n].seldom && strcmp(node_get(plan->module, n)->name, name) == 0)
			return true;
	return false;
}

/* Causal attention of 512 rows: as many steps as reach the end of the tile of rows. */
static void computed_steps_are_counted_over_the_grid(void **state) {
	(void)state;
	static const struct {
		const char *blocks, *pairs;
		bool paired, seldom; /* the mask is needed in at most as many steps as stand behind the loop */
		const char *why;
	} rows[] = {
		{"block_sizes=[1,128,128]", "pallas_step_pairs=auto", false, true,
	         "at some grid points their number is odd, at others even"},
		{"block_sizes=[1,256,128]", "pallas_step_pairs=auto", true, true,
	         "what each one hands on has its own scratch"},
		{"block_sizes=[1,256,256]", "pallas_step_pairs=auto", false, true,
	         "at some grid points their number is odd, at others even"},
		{"block_sizes=[1,256,128]", "pallas_step_pairs=off", false, false, "pallas_step_pairs is off"},
	};
	for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		Fixture f;
		Plan *plan = planned(
			&f, "causal_attention",
			SETTINGS(rows[i].blocks, rows[i].pairs, "pallas_loop_type=fori_loop", "pallas_fori_dma=off"));
		assert_non_null(plan);
		const Loop *loop = &plan->loops.at[0];
		assert_true(loop->dim[0].computed && loop->skewed);
		assert_int_equal(loop->paired, rows[i].paired);
		assert_string_equal(loop->pair_why, rows[i].why);
		assert_int_equal(loop->flagged, rows[i].seldom);
		assert_int_equal(is_seldom(plan, "scores_1"), rows[i].seldom);
		assert_string_equal(node_get(plan->module, loop->handed.at[0].node)->name,
		                    rows[i].seldom ? "scores" : "scores_1");
		fixture_free(&f);
	}
}

/* Masked last steps are cut into blocks where they are larger than one. */
static void masked_steps_are_cut(void **state) {
	(void)state;
	static const struct {
		const char *blocks, *cut;
		bool is_cut;
		const char *why;
	} rows[] = {
		{"block_sizes=[1,512,256]", "pallas_mask_blocks=auto", true,
	         "those that the mask leaves nothing of are left out where they add nothing"},
		{"block_sizes=[1,512,256]", "pallas_mask_blocks=off", false, "pallas_mask_blocks is off"},
		{"block_sizes=[1,256,128]", "pallas_mask_blocks=auto", false, "they are no larger than a block"},
	};
	for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		Fixture f;
		Plan *plan = planned(
			&f, "../coverage/graphs/causal_attention_b2_h8_s4096_d128",
			SETTINGS(rows[i].blocks, rows[i].cut, "pallas_loop_type=fori_loop", "pallas_fori_dma=off"));
		assert_non_null(plan);
		assert_true(plan->loops.at[0].flagged);
		assert_int_equal(plan->loops.at[0].cut, rows[i].is_cut);
		assert_string_equal(plan->loops.at[0].cut_why, rows[i].why);
		fixture_free(&f);
	}
}

/* Unrolled steps: values, not scratch; so many steps ahead as asked for, and there are. */
static void unrolled_steps_go_ahead_as_asked(void **state) {
	(void)state;
	static const struct {
		const char *setting;
		int ahead;
		const char *why;
	} rows[] = {
		{"pallas_matmul_ahead=auto", 0, "unrolled steps that reduce along lanes overlap as they are"},
		{"pallas_matmul_ahead=0", 0, "pallas_matmul_ahead is 0"},
		{"pallas_matmul_ahead=1", 1, "of the next step scores (131072 bytes) can be computed beside this one"},
		{"pallas_matmul_ahead=2", 2,
	         "of the step 2 later scores (131072 bytes) can be computed beside this one"},
		{"pallas_matmul_ahead=3", 3,
	         "of the step 3 later scores (131072 bytes) can be computed beside this one"},
	};
	for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		Fixture f;
		Plan *plan = attention(&f, "pallas_loop_type=unroll", rows[i].setting, NULL);
		const Loop *loop = &plan->loops.at[0];
		assert_int_equal(loop->ahead, rows[i].ahead);
		assert_int_equal(loop->skewed, rows[i].ahead > 0);
		assert_string_equal(loop->skew_why, rows[i].why);
		assert_int_equal(loop->handed.count, rows[i].ahead > 0);
		assert_int_equal(plan->scratches.count, 0);
		if (loop->skewed) {
			assert_int_equal(loop->handed.at[0].scratch, NONE);
			assert_true(window(plan, "k_in_win")->ahead && !window(plan, "k_in_win")->behind);
			assert_true(!window(plan, "v_in_win")->ahead && window(plan, "v_in_win")->behind);
		}
		fixture_free(&f);
	}
}

/* auto, with scores that orient transposed: one step, two where D is less than the MXU is deep. */
static void auto_goes_ahead_of_reductions_along_sublanes(void **state) {
	(void)state;
	static const char *const graphs[] = {"attention_b1_h2_s384_d256", "attention"};
	for (int i = 0; i < 2; i++) {
		Fixture f;
		fixture_init(&f);
		Module *m = graph_load(&f, graphs[i], NULL, NULL);
		PassContext c = {.module = m, .diag = &f.diag, .arena = &f.arena};
		assert_true(config_set(m, &f.diag, "pallas_loop_type=unroll") &&
		            config_set(m, &f.diag, "pallas_transposed_scores=on") && module_configure(m, &f.diag) &&
		            pass_pipeline_run(&c, NULL, 0, NULL));
		Plan *plan = planned_kernel(&f.arena, m, &f.diag);
		assert_non_null(plan);
		assert_int_equal(plan->loops.at[0].ahead, i + 1);
		fixture_free(&f);
	}
}

/* About half of each tile that waits longer than a step is spilled. */
static void what_waits_counts(void **state) {
	(void)state;
	static const char *const settings[] = {"pallas_matmul_ahead=1", "pallas_matmul_ahead=2",
	                                       "pallas_matmul_ahead=3"};
	int64_t one = 0, tile = INT64_C(256) * 128 * 4;
	for (int i = 0; i < 3; i++) {
		Fixture f;
		Plan *plan = attention(&f, "pallas_loop_type=unroll", settings[i], NULL);
		assert_int_equal(plan->loops.at[0].handed.at[0].bytes, tile);
		one = i ? one : plan->vmem.intermediates;
		/* and what may be spilled beyond that: margin.c */
		assert_in_range(plan->vmem.intermediates - one, i * (tile / 2), i * (tile / 8 * 5));
		assert_int_equal(plan->vmem.scratch, 0);
		fixture_free(&f);
	}
}

/* What is asked for and does not fit is refused. */
static void what_is_ahead_counts_against_the_limit(void **state) {
	(void)state;
	static const char *const settings[] = {"pallas_matmul_ahead=0", "pallas_matmul_ahead=3"};
	Fixture f;
	Plan *plan = attention(&f, "pallas_loop_type=unroll", settings[0], NULL);
	Target chip = *plan->module->target;
	chip.vmem_bytes = plan->vmem.total;
	fixture_free(&f);
	for (int i = 0; i < 2; i++) {
		fixture_init(&f);
		Module *m = graph_load(&f, "attention", NULL, NULL);
		m->target = &chip;
		assert_true(config_set(m, &f.diag, "block_sizes=[1,256,128]") &&
		            config_set(m, &f.diag, "pallas_loop_type=unroll") &&
		            config_set(m, &f.diag, "pallas_load_buffer_count=[2,2,2]") &&
		            config_set(m, &f.diag, settings[i]) && module_configure(m, &f.diag));
		plan = planned_kernel(&f.arena, m, &f.diag);
		assert_int_equal(plan == NULL, i);
		assert_int_equal(f.diag.errors, i);
		if (i)
			assert_string_equal(f.diag.list.at[0].code, "vmem-uncertain"); /* by less than 7% */
		fixture_free(&f);
	}
}

static void no_more_steps_ahead_than_there_are(void **state) {
	(void)state;
	Fixture f;
	Plan *plan = planned(&f, "attention",
	                     SETTINGS("block_sizes=[1,256,256]", "pallas_loop_type=unroll", "pallas_matmul_ahead=3"));
	assert_non_null(plan);
	assert_int_equal(plan->loops.at[0].dim[0].full_steps, 2);
	assert_int_equal(plan->loops.at[0].ahead, 1);
	fixture_free(&f);
	/* A sum of matmuls has nothing to overlap with. */
	assert_string_equal(
		why_not(&f, "matmul_1024",
	                SETTINGS("block_sizes=[256,256,256]", "pallas_loop_type=unroll", "pallas_matmul_ahead=2")),
		"no matmul of the next step can run beside a step");
	fixture_free(&f);
	plan = planned(&f, "attention",
	               SETTINGS("block_sizes=[1,256,128]", "pallas_loop_type=fori_loop", "pallas_matmul_ahead=2"));
	assert_non_null(plan);
	assert_int_equal(plan->loops.at[0].ahead, 1);
	fixture_free(&f);
}

/* What a skew takes must not push out the second buffers of windows, nor the kernel over the limit. */
static void a_skew_gives_way_to_the_limit(void **state) {
	(void)state;
	Fixture f;
	Plan *plan = attention(&f, "pallas_loop_type=fori_loop", "pallas_fori_dma=on", NULL);
	Target chip = *plan->module->target;
	int64_t skewed = plan->vmem.total;
	fixture_free(&f);
	for (int over = 0; over < 2; over++) {
		fixture_init(&f);
		Module *m = graph_load(&f, "attention", NULL, NULL);
		chip.vmem_bytes = skewed - over;
		m->target = &chip;
		assert_true(config_set(m, &f.diag, "block_sizes=[1,256,128]") &&
		            config_set(m, &f.diag, "pallas_loop_type=fori_loop") &&
		            config_set(m, &f.diag, "pallas_fori_dma=on"));
		assert_true(module_configure(m, &f.diag) && module_verify(m, &f.diag));
		plan = planned_kernel(&f.arena, m, &f.diag);
		assert_non_null(plan);
		assert_int_equal(f.diag.list.count, 0);
		if (over && plan->skewed) /* a grid window gave up its second buffer instead */
			assert_true(plan->vmem.total <= skewed - over);
		else
			assert_int_equal(plan->skewed, !over);
		assert_int_equal(window(plan, "v_in_win")->buffers, over ? 2 : 3);
		fixture_free(&f);
	}
}

/* ---- windows of all steps ---------------------------------------------------------------------------------------- */

static void a_pipeline_of_all_steps_is_a_resident_block(void **state) {
	(void)state;
	Fixture f;
	Plan *plan = attention(&f, "pallas_loop_type=emit_pipeline", "pallas_loop_skew=auto", NULL);
	const Loop *loop = &plan->loops.at[0];
	assert_int_equal(loop->type, LOOP_FORI);
	assert_true(loop->skewed);
	for (uint32_t i = 0; i < loop->windows.count; i++)
		assert_false(loop->windows.at[i].dma);
	assert_string_equal(loop->why, "one window of emit_pipeline holds all its steps: a resident block");
	fixture_free(&f);
	/* One tile of Q per head: nothing is copied again, but the head before computes while K and V come. */
	plan = planned(&f, "attention", SETTINGS("block_sizes=[1,512,128]", "pallas_loop_type=emit_pipeline"));
	assert_non_null(plan);
	assert_int_equal(plan->loops.at[0].type, LOOP_FORI);
	fixture_free(&f);
	/* As a loop the steps would not overlap. */
	plan = attention(&f, "pallas_loop_type=emit_pipeline", "pallas_loop_skew=off", NULL);
	assert_int_equal(plan->loops.at[0].type, LOOP_EMIT_PIPELINE);
	fixture_free(&f);
	plan = attention(&f, "pallas_loop_type=emit_pipeline", ONE_STEP, NULL);
	assert_int_equal(plan->loops.at[0].type, LOOP_EMIT_PIPELINE);
	fixture_free(&f);
}

static void a_group_size_is_one_or_all(void **state) {
	(void)state;
	static const struct {
		const char *size;
		bool taken;
	} rows[] = {{"pallas_emit_pipeline_group_size=3", false},
	            {"pallas_emit_pipeline_group_size=4", true},
	            {"pallas_emit_pipeline_group_size=1000", true}};
	for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		Fixture f;
		Plan *plan =
			planned(&f, "attention",
		                SETTINGS("block_sizes=[1,512,128]", "pallas_loop_type=emit_pipeline", rows[i].size));
		assert_int_equal(plan != NULL, rows[i].taken);
		if (plan)
			assert_int_equal(plan->loops.at[0].type, LOOP_FORI);
		else
			assert_string_equal(f.diag.list.at[0].hint, "1, or at least 4");
		fixture_free(&f);
	}
}

/* ---- chips ------------------------------------------------------------------------------------------------------ */

/* `on` skews them all the same. */
static void chips_with_a_small_mxu_skew_nothing(void **state) {
	(void)state;
	static const char *const modes[] = {"pallas_loop_skew=auto", "pallas_loop_skew=on"};
	for (int on = 0; on < 2; on++) {
		Fixture f;
		fixture_init(&f);
		Module *m = graph_load(&f, "attention", NULL, NULL);
		m->target = target_find("v5e");
		assert_true(config_set(m, &f.diag, "block_sizes=[1,256,128]") && config_set(m, &f.diag, modes[on]) &&
		            config_set(m, &f.diag, "pallas_loop_type=fori_loop"));
		assert_true(module_configure(m, &f.diag) && module_verify(m, &f.diag));
		Plan *plan = planned_kernel(&f.arena, m, &f.diag);
		assert_non_null(plan);
		assert_int_equal(plan->loops.at[0].skewed, on);
		fixture_free(&f);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(scores_are_handed_on_and_k_runs_ahead),
	                                   cmocka_unit_test(the_scratch_counts),
	                                   cmocka_unit_test(steps_stand_in_pairs),
	                                   cmocka_unit_test(loops_that_stay_as_they_are),
	                                   cmocka_unit_test(computed_steps_are_counted_over_the_grid),
	                                   cmocka_unit_test(masked_steps_are_cut),
	                                   cmocka_unit_test(a_pipeline_of_all_steps_is_a_resident_block),
	                                   cmocka_unit_test(a_group_size_is_one_or_all),
	                                   cmocka_unit_test(chips_with_a_small_mxu_skew_nothing),
	                                   cmocka_unit_test(a_skew_gives_way_to_the_limit),
	                                   cmocka_unit_test(unrolled_steps_go_ahead_as_asked),
	                                   cmocka_unit_test(no_more_steps_ahead_than_there_are),
	                                   cmocka_unit_test(auto_goes_ahead_of_reductions_along_sublanes),
	                                   cmocka_unit_test(what_waits_counts),
	                                   cmocka_unit_test(what_is_ahead_counts_against_the_limit)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
