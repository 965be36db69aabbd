/* The search of choices.def: what it leaves out could not have won. */
#include "front.h"
#include "planned.h"
#include "src/driver/choose.h"
#include "passes/pipeline/pipeline.h"
#include "src/config/config.h"
#include "src/verify/verify.h"
#include <dirent.h>

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
				bool bounded;
				Search *s = search_start(&f.arena, m, NULL);
				const Plan *found = s ? search_plan(s) : NULL;
				const Plan *best = plan_search_all(&f.arena, m, &bounded);
				if (!found != !best || (found && found->seconds != best->seconds))
					fail_msg("%s on %s, %s: %g us found, %g us best", graphs[g], chips[c], types[t],
					         found ? found->seconds * 1e6 : 0, best ? best->seconds * 1e6 : 0);
				if (!bounded)
					fail_msg("%s on %s, %s: a way is faster than its bound", graphs[g], chips[c],
					         types[t]);
				front_end(&f);
			}
}

/* ---- what changes the graph or its sizes ------------------------------------------------------------------------- */

/* As a document is compiled: `set` is KEY=VALUE or NULL; `bare`: nobody gives block_sizes and reduction_loops. */
static Compilation compilation(Front *f, CompileOptions *options, const char *path, const char *set, bool bare) {
	Module *m = front_load(f, front_file(&f->arena, path));
	assert_non_null(m);
	Compilation c;
	compile_init(&c, options, &f->arena, &f->diag, m);
	if (bare)
		m->config.block_sizes = m->config.reduction_loops = (ConfigList){0};
	assert_true(!set || config_set(m, &f->diag, set));
	return c;
}

/* Between them, every row of scope MODULE is open on some chip. */
static const struct {
	const char *path, *set;
	bool bare;
} open_graphs[] = {
	{"testdata/graphs/attention.json", NULL, false},
	{"testdata/graphs/attention_b8_h32_s8192_d256.json", "pallas_loop_type=unroll", false},
	{"testdata/graphs/attention_b8_h32_s8192_d256.json", "block_sizes=[2,512,2048]", false},
	{"testdata/graphs/matmul_4096.json", NULL, true},
	{"testdata/graphs/matmul_4096.json", "block_sizes=[64,256,256]", false},
	{"testdata/graphs/layer_norm_bwd_4096_10240.json", "block_sizes=[256]", false},
	{"testdata/graphs/layer_norm_bwd_4096_10240.json", NULL, true},
	{"testdata/coverage/graphs/rolled_softmax_1048576.json", NULL, true},
	{"testdata/coverage/graphs/rolled_softmax_1048576.json", "block_sizes=[8]", true},
	{"testdata/coverage/graphs/attention_delta_8192.json", NULL, false},
	{"testdata/coverage/graphs/fused_linear_jsd_8192.json", NULL, false},
	{"testdata/coverage/graphs/swiglu_production.json", NULL, false},
	{"testdata/coverage/graphs/paged_decode_64_32_128.json", NULL, false},
	{"testdata/coverage/graphs/softmax_two_pass_4096_32768.json", NULL, false},
	{"testdata/coverage/graphs/chunk_state_odd.json", NULL, false},
	{"testdata/coverage/graphs/softmax_two_pass_4096_32768.json", NULL, false},
};

static void marks(const Module *m, bool taken[VALUE_COUNT]) {
	bool wide = false, heads = false, parts = false;
	for (BlockId b = 0; b < m->enlarged.count; b++) {
		const Enlarged *e = &m->enlarged.at[b];
		bool part = e->size && strstr(e->why, "a step of more columns");
		parts = parts || part;
		wide = wide || (e->size && !part);
		heads = heads || (e->size && !part && m->blocks.at[b].size != NONE);
	}
	taken[parts ? COLUMNS_PARTS : COLUMNS_GIVEN] = true;
	taken[m->default_level       ? SIZES_HALVED
	      : !wide                ? SIZES_GIVEN
	      : heads                ? SIZES_BATCH
	      : m->graphs.count == 1 ? SIZES_LONG_STEPS
	                             : SIZES_MORE_ROWS] = true;
	taken[m->config.reduction_loops.set ? ROWS_DIVIDED : ROWS_WHOLE] = true;
	taken[m->fenced ? FENCES_PAIRS : FENCES_WITHOUT] = true;
	taken[m->one_hot ? POSITIONS_AT_ONCE : POSITIONS_IN_TURN] = true;
	taken[m->split_rows ? BODY_SPLIT : BODY_AT_ONCE] = true;
	taken[m->whole_rows ? LOOPS_JOINED : LOOPS_GIVEN] = true;
}

static void the_same_wins_with_nothing_left_out(void **state) {
	(void)state;
	bool taken[VALUE_COUNT] = {false}, wanted[VALUE_COUNT] = {false};
	for (size_t g = 0; g < sizeof open_graphs / sizeof *open_graphs; g++)
		for (size_t c = 0; c < sizeof chips / sizeof *chips; c++) {
			const char *path = open_graphs[g].path;
			CompileOptions options = {.target = target_find(chips[c])};
			bool bounded;
			Front f;
			front_start(&f);
			Compilation all = compilation(&f, &options, path, open_graphs[g].set, open_graphs[g].bare);
			assert_true(module_verify_symbols(all.module, &f.diag) &&
			            compile_configure(all.module, &f.diag));
			all.left = 1000;
			const Program *best = choose_all(&all, &bounded);
			Compilation one = compilation(&f, &options, path, open_graphs[g].set, open_graphs[g].bare);
			const Program *found = compile_module(&one) && compile_plan(&one) ? one.program : NULL;
			if (!found != !best || (found && program_seconds(found) != program_seconds(best)))
				fail_msg("%s on %s: %g us found, %g us best", path, chips[c],
				         found ? program_seconds(found) * 1e6 : 0,
				         best ? program_seconds(best) * 1e6 : 0);
			if (!bounded)
				fail_msg("%s on %s: a way is faster than its bound", path, chips[c]);
			if (found)
				marks(one.module, taken);
			front_end(&f);
		}
	for (ChoiceValue v = 0; choice_values[v].row < FIRST_PLAN_ROW; v++)
		wanted[v] = v != ROWS_CUT; /* of rows that nothing divides: tests/test_roll.py */
	for (ChoiceValue v = 0; v < VALUE_COUNT; v++)
		if (wanted[v] && !taken[v])
			fail_msg("no graph takes %s", choice_values[v].words);
}

/* ---- what a compilation costs ------------------------------------------------------------------------------------ */

/* What is refused takes more: to say what would fit. So does a climb from the defaults. */
enum { MOST_ACCEPTED = 9 };

/* So large that most kernels do not fit. */
static const char *large_blocks(Front *f, const Module *m) {
	Text t;
	text_init(&t, &f->arena);
	for (BlockId b = 0; b < m->blocks.count; b++)
		if (block_is_chosen(&m->blocks.at[b]))
			text_printf(&t, "%s2048", t.length ? "," : "");
	return arena_printf(&f->arena, "block_sizes=[%s]", t.length ? t.at : "");
}

static void lower(const char *path, const char *chip, const char *type, int sizes) {
	CompileOptions options = {.target = target_find(chip)};
	Front f;
	Text text;
	front_start(&f);
	Compilation c =
		compilation(&f, &options, path, arena_printf(&f.arena, "pallas_loop_type=%s", type), sizes == 1);
	if (sizes == 2)
		assert_true(config_set(c.module, &f.diag, large_blocks(&f, c.module)));
	text_init(&text, &f.arena);
	bool accepted = compile_module(&c) && compile_plan(&c) && compile_emit(&c, EMIT_PYTHON, &text);
	int64_t lowered = MOST_LOWERINGS - c.left;
	int64_t most = sizes == 1 ? MOST_ACCEPTED + MOST_NEAR + MOST_LAST + MOST_JOINED : MOST_ACCEPTED;
	if (lowered > (accepted ? most : MOST_LOWERINGS))
		fail_msg("%s on %s, %s, sizes %d: %lld kernels lowered", path, chip, type, sizes, (long long)lowered);
	front_end(&f);
}

/* With the sizes that are given, without, and with large ones. */
static void few_kernels_are_lowered_whole(void **state) {
	(void)state;
	static const char *const folders[] = {"testdata/graphs", "testdata/coverage/graphs"};
	for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
		DIR *folder = opendir(folders[i]);
		assert_non_null(folder);
		for (struct dirent *file; (file = readdir(folder));) {
			char path[512];
			(void)snprintf(path, sizeof path, "%s/%s", folders[i], file->d_name);
			for (int sizes = 0; strstr(path, ".json") && sizes < 3; sizes++)
				for (size_t t = 0; t < sizeof types / sizeof *types; t++)
					lower(path, t % 2 ? "v4" : "v7x", types[t], sizes);
		}
		closedir(folder);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_that_is_left_out_is_faster),
		cmocka_unit_test(the_same_wins_with_nothing_left_out),
		cmocka_unit_test(few_kernels_are_lowered_whole),
	};
	return cmocka_run_group_tests_name("search", tests, NULL, NULL);
}
