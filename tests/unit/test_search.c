/* The search of choices.def: what it leaves out could not have won. */
#include "front.h"
#include "planned.h"
#include "passes/pipeline/pipeline.h"
#include "src/config/config.h"

static const char *const graphs[] = {"attention",        "attention_b8_h32_s8192_d128",
                                     "causal_attention", "matmul_4096",
                                     "matmul_bias_gelu", "softmax_two_pass",
                                     "layer_norm",       "gram",
                                     "nested_sums",      "layer_norm_bwd_4096_10240"};
static const char *const chips[] = {"v4", "v5e", "v6e", "v7x"};
static const char *const types[] = {"default", "unroll", "fori_loop", "emit_pipeline"};

static Module *load(Front *f, const char *graph, const char *chip, const char *type) {
	const char *path = arena_printf(&f->arena, "testdata/graphs/%s.json", graph);
	Module *m = front_load(f, front_file(&f->arena, path));
	assert_non_null(m);
	m->target = target_find(chip);
	assert_true(config_set(m, &f->diag, arena_printf(&f->arena, "pallas_loop_type=%s", type)));
	PassContext context = {.module = m, .diag = &f->diag, .arena = &f->arena};
	assert_true(pass_pipeline_run(&context, NULL, 0, NULL));
	return m;
}

static void nothing_that_is_left_out_is_faster(void **state) {
	(void)state;
	for (size_t g = 0; g < sizeof graphs / sizeof *graphs; g++)
		for (size_t c = 0; c < sizeof chips / sizeof *chips; c++)
			for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
				Front f;
				front_start(&f);
				Module *m = load(&f, graphs[g], chips[c], types[t]);
				const Plan *found = plan_search(&f.arena, m, &f.diag, true);
				const Plan *best = plan_search_all(&f.arena, m);
				if (!found != !best || (found && found->seconds != best->seconds))
					fail_msg("%s on %s, %s: %g us found, %g us best", graphs[g], chips[c], types[t],
					         found ? found->seconds * 1e6 : 0, best ? best->seconds * 1e6 : 0);
				front_end(&f);
			}
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_that_is_left_out_is_faster)};
	return cmocka_run_group_tests_name("search", tests, NULL, NULL);
}
