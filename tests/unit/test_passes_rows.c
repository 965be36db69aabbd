/* test_passes_rows.c - row_split. Tensors and blocks: x [1000, 5000] by u0 (128) and u1 (256), sums [1000]. */

#include "passes_fixture.h"
#include "codegen/plan/plan.h"

#define ROOT(body)                                                                                                     \
	"root 1 over [0]\n"                                                                                            \
	"x = tile.host_tensor('x') : float32[1000, 5000]\n"                                                            \
	"t = tile.load(x, [u0, :]) : float32[u0, 5000]\n" body "return\n"
#define SUMS(value) "o = tile.host_tensor('sums') : float32[1000]\nst = tile.store(o, [u0], " value ")\n"

/* Runs it with pallas_row_split on; the Module is verified before and after. */
static PassContext split(Fixture *f, const char *graphs) {
	fixture_init(f);
	fixture_load(f, graphs)->config.row_split.value = SWITCH_ON;
	return run_pass(f, "row_split");
}

static void rows_move_into_a_loop(void **state) {
	(void)state;
	Fixture f;
	split(&f, ROOT("s = aten.sum.dim_IntList(t, [1]) : float32[u0]\n" SUMS("s")));
	Module *m = f.module;
	assert_int_equal(m->graphs.count, 2);
	const Graph *loop = graph_get(m, 1);
	assert_int_equal(loop->kind, GRAPH_FOR_LOOP);
	assert_int_equal(loop->carried.count, 0);
	assert_int_equal(m->block_size.at[loop->blocks.at[0]], 8); /* float32: 8 sublanes */
	assert_string_equal(m->blocks.at[loop->blocks.at[0]].name, "tile_m_rows");
	assert_string_equal(type_of(m, 1, "t"), "float32[u5, 5000]");
	assert_int_equal(count_op(m, 1, OP_STORE), 1);
	assert_int_equal(count_op(m, 0, OP_STORE), 0);
	assert_int_equal(count_op(m, 0, OP_LOAD), 0);
	assert_int_equal(node_get(m, arg_item(m, node_arg(m, loop->caller, 1), 0)->node)->op, OP_TILE_BEGIN);
	assert_idempotent(&f, "row_split"); /* the body has a loop now */
	fixture_free(&f);
}

static void one_value_a_row_lies_in_a_column(void **state) {
	(void)state;
	Fixture f;
	split(&f, ROOT("s = aten.sum.dim_IntList(t, [1]) : float32[u0]\n" SUMS("s")));
	PassContext c = run_pass(&f, "columns");
	Module *m = f.module;
	assert_true(remarked(&c, "sums is a column in graph 2: its steps are of 8 rows"));
	assert_string_equal(type_of(m, 1, "sums_column"), "float32[1000, 1]");
	assert_int_equal(count_op(m, 1, OP_UNSQUEEZE), 1);
	TensorId view = tensor_find(m, "sums_column");
	assert_int_equal(m->tensors.at[view].of, tensor_find(m, "sums"));
	assert_int_equal(m->alignments ? m->alignments[view].dim[0] : 8, 8);
	assert_idempotent(&f, "columns");
	fixture_free(&f);
}

static void columns_are_of_loops_alone(void **state) {
	(void)state;
	static const char graphs[] = ROOT("s = aten.sum.dim_IntList(t, [1]) : float32[u0]\n" SUMS("s"));
	Fixture f;
	fixture_init(&f);
	fixture_load(&f, graphs);
	run_pass(&f, "columns"); /* the grid's tiles of sums have a placement of their own */
	assert_int_equal(tensor_find(f.module, "sums_column"), NONE);
	fixture_free(&f);
	split(&f, graphs);
	f.module->config.loop_type.value = LOOP_UNROLL;
	run_pass(&f, "columns");
	assert_int_equal(tensor_find(f.module, "sums_column"), NONE);
	fixture_free(&f);
}

static void sums_over_rows_are_carried(void **state) {
	(void)state;
	static const char *const ops[] = {"aten.sum.dim_IntList", "aten.amax.default", "aten.amin.default"};
	static const uint16_t combine[] = {OP_ADD, OP_MAXIMUM, OP_MINIMUM};
	static const double initial[] = {0, -1.0 / 0.0, 1.0 / 0.0};
	for (int i = 0; i < 3; i++) {
		Fixture f;
		fixture_init(&f);
		const char *text = arena_printf(&f.arena,
		                                ROOT("s = %s(t, [0]) : float32[5000]\n"
		                                     "d = aten.mul.Tensor(s, 2.0) : float32[5000]\n"
		                                     "o = tile.host_tensor('out') : float32[1000, 5000]\n"
		                                     "st = tile.store(o, [0, :], d)\n"),
		                                ops[i]);
		fixture_load(&f, text)->config.row_split.value = SWITCH_ON;
		run_pass(&f, "row_split");
		Module *m = f.module;
		const Graph *loop = graph_get(m, 1);
		assert_int_equal(loop->carried.count, 1);
		assert_string_equal(type_of(m, 1, "s_acc"), "float32[5000]");
		assert_int_equal(node_get(m, graph_node(m, 1, "s_sum"))->op, combine[i]);
		NodeId full = graph_node(m, 0, "s_acc");
		assert_true(node_arg(m, full, 1)->real == initial[i]);
		/* What uses the sum stands behind the loop, on its result. */
		NodeId d = graph_node(m, 0, "d");
		assert_int_equal(node_get(m, node_input(m, d, 0))->op, OP_GETITEM);
		assert_int_equal(count_op(m, 0, OP_STORE), 1);
		fixture_free(&f);
	}
}

/* Not split, with a remark that says why. */
static void stays(const char *graphs, const char *why) {
	Fixture f;
	PassContext c = split(&f, graphs);
	assert_int_equal(f.module->graphs.count, 1);
	if (!remarked(&c, why))
		fail_msg("no remark: %s", why);
	fixture_free(&f);
}

static void what_is_not_row_by_row_stays(void **state) {
	(void)state;
	stays(ROOT("s = aten.mean.dim(t, [0]) : float32[5000]\n"), "it needs all rows at once");
	stays(ROOT("s = aten.sum.dim_IntList(t, [0]) : float32[5000]\n"
	           "d = aten.sub.Tensor(t, s) : float32[u0, 5000]\n"),
	      "it needs what all rows give");
	stays(ROOT("p = aten.permute.default(t, [1, 0]) : float32[5000, u0]\n"),
	      "its rows are not its first dim alone");
	stays(ROOT("s = aten.cumsum.default(t, 0) : float32[u0, 5000]\n"), "its op is not known to work row by row");
}

static void auto_leaves_what_may_not_fit_to_the_search(void **state) {
	(void)state;
	static const char graphs[] = ROOT("s = aten.sum.dim_IntList(t, [1]) : float32[u0]\n" SUMS("s"));
	Fixture f;
	/* [128, 5000] float32, 2.4 MiB: two windows of it and of its sums, and two tiles. */
	fixture_init(&f);
	Module *m = fixture_load(&f, graphs);
	Target small = *m->target;
	small.vmem_bytes = 4 * 128 * 5000 * 4 + 2 * 128 * 4;
	m->target = &small;
	PassContext c = run_pass(&f, "row_split");
	assert_true(remarked(&c, "whole tiles take about 10241024 bytes of VMEM: they fit"));
	assert_int_equal(f.module->graphs.count, 1);
	assert_false(m->may_split_rows);
	small.vmem_bytes--;
	run_pass(&f, "row_split");
	assert_int_equal(f.module->graphs.count, 1);
	assert_true(m->may_split_rows);
	m->split_rows = true;
	run_pass(&f, "row_split");
	assert_int_equal(f.module->graphs.count, 2);
	fixture_free(&f);
	fixture_init(&f);
	m = fixture_load(&f, graphs);
	m->config.row_split.value = SWITCH_OFF;
	run_pass(&f, "row_split");
	assert_int_equal(m->graphs.count, 1);
	fixture_free(&f);
	fixture_init(&f);
	m = fixture_load(&f, graphs);
	m->config.loop_type.value = LOOP_UNROLL;
	c = run_pass(&f, "row_split");
	assert_true(remarked(&c, "unroll asks for straight code"));
	assert_int_equal(m->graphs.count, 1);
	fixture_free(&f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_move_into_a_loop),
		cmocka_unit_test(one_value_a_row_lies_in_a_column),
		cmocka_unit_test(columns_are_of_loops_alone),
		cmocka_unit_test(sums_over_rows_are_carried),
		cmocka_unit_test(what_is_not_row_by_row_stays),
		cmocka_unit_test(auto_leaves_what_may_not_fit_to_the_search),
	};
	return cmocka_run_group_tests_name("row_split", tests, NULL, NULL);
}
