/* test_decompose_split.c - the pieces of splits as slices, joins as stacks. */

#include "passes_fixture.h"

#define ROOT(body)                                                                                                     \
	"root 0 over [0]\n"                                                                                            \
	"x = tile.host_tensor('x') : float32[1000, 5000]\n"                                                            \
	"t = tile.load(x, [u0, :]) : float32[u0, 5000]\n" body "return\n"

static int64_t number(Module *m, NodeId n, uint32_t i) {
	const Arg *a = node_arg(m, n, i);
	return a->kind == ARG_INT ? a->integer : expr_number(m, a->expr);
}

static const char thirds[] =
	ROOT("p = aten.split.Tensor(t, 2000, -1) : (float32[u0, 2000], float32[u0, 2000], float32[u0, 1000])\n"
             "a = getitem(p, 0) : float32[u0, 2000]\n"
             "c = getitem(p, 2) : float32[u0, 1000]\n");
static const char pairs[] = ROOT("v = aten.view.default(t, [u0, 2500, 2]) : float32[u0, 2500, 2]\n"
                                 "p = tile.split(v) : (float32[u0, 2500], float32[u0, 2500])\n"
                                 "b = getitem(p, 1) : float32[u0, 2500]\n"
                                 "j = tile.join(b, 1.0) : float32[u0, 2500, 2]\n");

static void pieces_are_slices(void **state) {
	(void)state;
	Fixture f;
	fixture_init(&f);
	Module *m = fixture_load(&f, thirds);
	run_pass(&f, "decompose");
	NodeId a = named(m, "a"), c = named(m, "c");
	assert_int_equal(node_get(m, a)->op, OP_SLICE);
	assert_int_equal(node_get(m, c)->op, OP_SLICE);
	assert_int_equal(node_input(m, c, 0), named(m, "t"));
	assert_int_equal(number(m, c, 1), 1);
	assert_int_equal(number(m, c, 2), 4000);
	assert_int_equal(number(m, c, 3), 5000);
	assert_int_equal(graph_node(m, 0, "p"), NONE);
	assert_idempotent(&f, "decompose");
	fixture_free(&f);
}

static void pairs_are_cut_and_stacked(void **state) {
	(void)state;
	Fixture f;
	fixture_init(&f);
	Module *m = fixture_load(&f, pairs);
	run_pass(&f, "decompose");
	NodeId b = named(m, "b"), j = named(m, "j");
	assert_int_equal(node_get(m, b)->op, OP_SLICE); /* every other lane of the row that the pairs were */
	assert_int_equal(node_input(m, b, 0), named(m, "t"));
	assert_int_equal(number(m, b, 1), 1);
	assert_int_equal(number(m, b, 2), 1);
	assert_int_equal(number(m, b, 4), 2);
	assert_int_equal(node_get(m, j)->op, OP_STACK);
	assert_int_equal(number(m, j, 1), -1);
	NodeId one = arg_item(m, node_arg(m, j, 0), 1)->node;
	assert_int_equal(node_get(m, one)->op, OP_FULL);
	assert_true(type_equal(m, node_get(m, one)->type, node_get(m, b)->type));
	assert_idempotent(&f, "decompose");
	fixture_free(&f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_are_slices),
		cmocka_unit_test(pairs_are_cut_and_stacked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
