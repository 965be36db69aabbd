/* test_passes_roll.c - roll. h is bfloat16 [1000, 64]; block u2 is its row of 64, which reduction_loops rolls. */

#include "passes_fixture.h"
#include "codegen/plan/plan.h"

#define ROW(name) name " = tile.load(h, [u0, :]) : bfloat16[u0, 64]\n"
#define WIDE(name, of) name " = prims.convert_element_type.default(" of ", float32) : float32[u0, 64]\n"
#define EXP(name, of) name " = aten.exp.default(" of ") : float32[u0, 64]\n"
#define SUM(name, of) name " = aten.sum.dim_IntList(" of ", [1]) : float32[u0]\n"
#define ROOT(body)                                                                                                     \
	"root 1 over [0]\n"                                                                                            \
	"h = tile.host_tensor('h') : bfloat16[1000, 64]\n" ROW("t") WIDE("w", "t") body "return\n"
#define SUMS(value) "o = tile.host_tensor('sums') : float32[1000]\nst = tile.store(o, [u0], " value ")\n"

static void load(Fixture *f, const char *graphs, int64_t step) {
	fixture_init(f);
	Module *m = fixture_load(f, graphs);
	const char *key =
		step ? arena_printf(m->arena, "reduction_loops=[%lld]", (long long)step) : "reduction_loops=[null]";
	assert_true(config_set(m, &f->diag, key));
}

static PassContext roll(Fixture *f, const char *graphs, int64_t step) {
	load(f, graphs, step);
	return run_pass(f, "roll");
}

static void a_sum_is_carried(void **state) {
	(void)state;
	Fixture f;
	PassContext c = roll(&f, ROOT(SUM("s", "w") SUMS("s")), 16);
	Module *m = f.module;
	assert_int_equal(m->graphs.count, 2);
	const Graph *loop = graph_get(m, 1);
	assert_int_equal(loop->kind, GRAPH_REDUCTION_LOOP);
	assert_int_equal(loop->blocks.at[0], 2);
	assert_int_equal(loop->carried.count, 1);
	assert_int_equal(m->block_size.at[2], 16);
	assert_int_equal(arg_item(m, node_arg(m, loop->caller, 2), 0)->integer, 64);
	assert_string_equal(type_of(m, 1, "t"), "bfloat16[u0, u2]");
	assert_int_equal(count_op(m, 1, OP_MASK_TO), 0);
	assert_int_equal(count_op(m, 0, OP_LOAD), 0);
	assert_int_equal(node_get(m, node_input(m, graph_node(m, 0, "st"), 2))->op, OP_GETITEM);
	assert_true(remarked(&c, "rdim: the row of 64 is computed in blocks of 16, in 1 loop"));
	assert_idempotent(&f, "roll");
	fixture_free(&f);
}

/* A row that is replaced where it was read; at another place it would be read when it is changed already. */
#define REPLACED(at)                                                                                                   \
	"tensor rows inout bfloat16[1000, 64]\n"                                                                       \
	"root 1 over [0]\n"                                                                                            \
	"h = tile.host_tensor('rows') : bfloat16[1000, 64]\n" ROW("t") WIDE("w", "t")                                  \
		SUM("s", "w") "c = tile.subscript(s, [:, null]) : float32[u0, 1]\n"                                    \
			      "d = aten.div.Tensor(w, c) : float32[u0, 64]\n"                                          \
			      "b = prims.convert_element_type.default(d, bfloat16) : bfloat16[u0, 64]\n"               \
			      "st = tile.store(h, [" at ", :], b)\nreturn\n"

static void a_row_is_replaced(void **state) {
	(void)state;
	Fixture f;
	roll(&f, REPLACED("u0"), 16);
	assert_int_equal(f.module->graphs.count, 3); /* the sum, and what is divided by it */
	assert_int_equal(count_op(f.module, 0, OP_STORE), 0);
	fixture_free(&f);
	load(&f, REPLACED("0:u0"), 16);
	PassContext c = {.module = f.module, .diag = &f.diag, .arena = &f.arena};
	assert_false(pass_pipeline_run(&c, &(const char *){"roll"}, 1, NULL));
	assert_non_null(strstr(f.diag.list.at[0].message, "'t': the tensor is written too, at another place"));
	fixture_free(&f);
}

/* What is carried, by op: from where, by what. */
static void each_reduction_has_its_own_start(void **state) {
	(void)state;
	static const struct {
		const char *target, *dims;
		uint16_t combine;
		double start;
	} cases[] = {
		{"aten.sum.dim_IntList", "[1]", OP_ADD, 0},
		{"aten.mean.dim", "[1]", OP_ADD, 0},
		{"aten.amax.default", "[1]", OP_MAXIMUM, -1.0 / 0.0},
		{"aten.amin.default", "[-1]", OP_MINIMUM, 1.0 / 0.0},
		{"aten.prod.dim_int", "1", OP_MUL, 1},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		Fixture f;
		char body[2000];
		snprintf(body, sizeof body, ROOT("s = %s(t, %s) : bfloat16[u0]\n" SUMS("s")), cases[i].target,
		         cases[i].dims);
		load(&f, body, 24); /* 64 is not a multiple */
		run_pass(&f, "roll");
		Module *m = f.module;
		assert_string_equal(type_of(m, 0, "s_acc"), "float32[u0]");
		assert_true(node_arg(m, graph_node(m, 0, "s_acc"), 1)->real == cases[i].start);
		assert_int_equal(count_op(m, 1, cases[i].combine), 1);
		assert_int_equal(count_op(m, 1, OP_MASK_TO), cases[i].start != 0);
		assert_int_equal(count_op(m, 0, OP_DIV), i == 1);
		/* Rounded once, behind the loop. */
		assert_string_equal(type_of(m, 0, i == 1 ? "s_mean_bfloat16" : "s_1_bfloat16"), "bfloat16[u0]");
		fixture_free(&f);
	}
}

static void what_needs_a_result_is_a_loop_of_its_own(void **state) {
	(void)state;
	Fixture f;
	fixture_init(&f);
	Module *m = graph_load(&f, "softmax_odd", "{\"block_sizes\": [64]}",
	                       "{\"block_sizes\": [64], \"reduction_loops\": [256]}");
	PassContext c = run_pass(&f, "roll");
	assert_true(remarked(&c, "blocks of 256, in 3 loops"));
	assert_int_equal(m->graphs.count, 4);
	assert_int_equal(count_op(m, 0, OP_FOR_LOOP), 3);
	for (GraphId g = 1; g < 4; g++) {
		assert_int_equal(count_op(m, g, OP_LOAD), 1);
		assert_int_equal(count_op(m, g, OP_STORE), g == 3);
		assert_int_equal(count_op(m, g, OP_MASK_TO), g < 3); /* the graph's own */
		assert_int_equal(graph_get(m, g)->carried.count, g < 3);
	}
	assert_int_equal(graph_get(m, 3)->placeholders.count, 2); /* the maximum and the sum */
	assert_idempotent(&f, "roll");
	fixture_free(&f);
}

static void the_last_block_is_masked_where_it_counts(void **state) {
	(void)state;
	static const char graphs[] = ROOT(EXP("e", "w") SUM("s", "e") SUMS("s"));
	Fixture f;
	roll(&f, graphs, 16);
	assert_int_equal(count_op(f.module, 1, OP_MASK_TO), 0);
	fixture_free(&f);
	roll(&f, graphs, 24);
	NodeId mask = graph_node(f.module, 1, "e_inside");
	assert_int_equal(node_get(f.module, mask)->op, OP_MASK_TO);
	assert_true(node_arg(f.module, mask, 1)->real == 0);
	fixture_free(&f);
}

static void a_contraction_is_a_sum(void **state) {
	(void)state;
	Fixture f;
	/* h [u0, 64] times its own transpose: a Gram matrix of the tile's rows. */
	roll(&f,
	     ROOT("p = aten.permute.default(t, [1, 0]) : bfloat16[64, u0]\n"
	          "g = aten.mm.default(t,p) : bfloat16[u0, u0]\n"
	          "s = aten.amax.default(g, [1]) : bfloat16[u0]\n" SUMS("s")),
	     24);
	Module *m = f.module;
	assert_int_equal(m->graphs.count, 2);
	assert_string_equal(type_of(m, 1, "p"), "bfloat16[u2, u0]");
	assert_string_equal(type_of(m, 1, "g_part"), "float32[u0, u0]");
	assert_int_equal(node_get(m, graph_node(m, 1, "g_part"))->op, OP_DOT);
	assert_int_equal(count_op(m, 1, OP_MASK_TO), 1); /* what is no load */
	assert_string_equal(type_of(m, 0, "s"), "bfloat16[u0]");
	fixture_free(&f);
}

/* Reduced after it, the outer dim's loop stands around the other's, whatever the order of the blocks. */
static void of_two_rows_the_last_reduced_is_outside(void **state) {
	(void)state;
	Fixture f;
	fixture_init(&f);
	Module *m = graph_load(&f, "../coverage/graphs/plane_norm", "{\"block_sizes\": [2]}",
	                       "{\"block_sizes\": [2], \"reduction_loops\": [128, 8]}");
	run_pass(&f, "roll");
	assert_int_equal(count_op(m, 0, OP_FOR_LOOP), 3);
	for (GraphId g = 1; g < 4; g++) {
		assert_int_equal(graph_get(m, g)->blocks.at[0], 2); /* 32 channels, 8 at a time */
		assert_int_equal(count_op(m, g, OP_FOR_LOOP), 1);
		assert_int_equal(count_op(m, g, OP_LOAD), 0);
	}
	for (GraphId g = 4; g < 7; g++)
		assert_int_equal(graph_get(m, g)->blocks.at[0], 1); /* 512 places, 128 at a time */
	assert_int_equal(count_op(m, 6, OP_LOAD), 2);               /* the weight's block is loaded where it is used */
	assert_idempotent(&f, "roll");
	fixture_free(&f);
}

static void whole_rows_stay(void **state) {
	(void)state;
	Fixture f;
	PassContext c = roll(&f, ROOT(SUM("s", "w") SUMS("s")), 64);
	assert_int_equal(f.module->graphs.count, 1);
	assert_true(remarked(&c, "64 columns are all of the row"));
	fixture_free(&f);
	roll(&f, ROOT(SUM("s", "w") SUMS("s")), 0);
	assert_int_equal(f.module->graphs.count, 1);
	assert_int_equal(f.module->block_size.at[2], 64);
	fixture_free(&f);
}

/* Refused, with a diagnostic that says why. */
static void refused(const char *graphs, const char *why) {
	Fixture f;
	load(&f, graphs, 16);
	PassContext c = {.module = f.module, .diag = &f.diag, .arena = &f.arena};
	const char *name = "roll";
	assert_true(module_verify(f.module, &f.diag));
	assert_false(pass_pipeline_run(&c, &name, 1, NULL));
	assert_int_equal(f.diag.list.count, 1);
	if (!strstr(f.diag.list.at[0].message, why))
		fail_msg("%s, not: %s", f.diag.list.at[0].message, why);
	fixture_free(&f);
}

static void what_needs_the_whole_row_is_refused(void **state) {
	(void)state;
	refused(ROOT("c = aten.cumsum.default(w, 1) : float32[u0, 64]\n" SUM("s", "c") SUMS("s")),
	        "'c': aten.cumsum.default needs the whole row");
	refused(ROOT("c = aten.flip.default(w, [1]) : float32[u0, 64]\n" SUM("s", "c") SUMS("s")),
	        "'c': aten.flip.default needs the whole row");
	refused(ROOT("c = aten.view.default(w, [u0, 8, 8]) : float32[u0, 8, 8]\n"
	             "s = aten.sum.dim_IntList(c, [1, 2]) : float32[u0]\n" SUMS("s")),
	        "'c': a reshape cuts or merges the row");
	refused(ROOT("c = tile.subscript(w, [:, 3]) : float32[u0]\n" SUMS("c")), "'c': it takes a part of the row");
	refused("tensor table inout bfloat16[1000, 64]\n" ROOT(
			"p = tile.index(u0) : int32[u0]\n"
			"table = tile.host_tensor('table') : bfloat16[1000, 64]\n"
			"old = tile.atomic_xchg(table, [p, :], t) : bfloat16[u0, 64]\n" WIDE("v", "old") SUM("s", "v")
				SUMS("s")),
	        "'old': its index gathers or scatters");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sum_is_carried),
		cmocka_unit_test(a_row_is_replaced),
		cmocka_unit_test(each_reduction_has_its_own_start),
		cmocka_unit_test(what_needs_a_result_is_a_loop_of_its_own),
		cmocka_unit_test(the_last_block_is_masked_where_it_counts),
		cmocka_unit_test(a_contraction_is_a_sum),
		cmocka_unit_test(of_two_rows_the_last_reduced_is_outside),
		cmocka_unit_test(whole_rows_stay),
		cmocka_unit_test(what_needs_the_whole_row_is_refused),
	};
	return cmocka_run_group_tests_name("roll", tests, NULL, NULL);
}
