/* test_decompose_split.c - the pieces of splits as slices, joins as stacks. */

/* The documents are laid out by hand. */
/* clang-format off */
#include "passes_fixture.h"

#define PIECE(name, of, i, shape) NODE(name, "getitem", REF(of) ", " i, shape)
#define SPLIT(name, target, args, metas) "{\"name\": \"" name "\", \"target\": \"" target "\", \"args\": [" args "]," \
	"\"meta\": {\"tuple\": [" metas "]}}"
#define META(shape) "{\"dtype\": \"float32\", \"shape\": [" shape "]}"
#define LOAD NODE("t", "tile.load", REF("x") ", [" U0 ", " ALL "]", "\"u0\", 5000")
#define ROOT(body) "{\"id\": 0, \"kind\": \"root\", \"grid\": [0], \"nodes\": [" HOST("x", "x", "1000, 5000") "," LOAD "," \
	body "," OUTPUT("") "]}"
/* clang-format on */

static NodeId named(const Module *m, const char *name) {
	NodeId n = graph_node(m, 0, name);
	assert_int_not_equal(n, NONE);
	return n;
}

static int64_t number(Module *m, NodeId n, uint32_t i) {
	const Arg *a = node_arg(m, n, i);
	return a->kind == ARG_INT ? a->integer : expr_number(m, a->expr);
}

/* clang-format off */
static const char thirds[] = ROOT(
	SPLIT("p", "aten.split.Tensor", REF("t") ", 2000, -1",
	      META("\"u0\", 2000") ", " META("\"u0\", 2000") ", " META("\"u0\", 1000")) ","
	PIECE("a", "p", "0", "\"u0\", 2000") "," PIECE("c", "p", "2", "\"u0\", 1000"));
static const char pairs[] = ROOT(
	NODE("v", "aten.view.default", REF("t") ", [" U0 ", 2500, 2]", "\"u0\", 2500, 2") ","
	SPLIT("p", "tile.split", REF("v"), META("\"u0\", 2500") ", " META("\"u0\", 2500")) ","
	PIECE("b", "p", "1", "\"u0\", 2500") ","
	NODE("j", "tile.join", REF("b") ", 1.0", "\"u0\", 2500, 2"));
/* clang-format on */

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
