/* test_decompose.c - composite ops as primitive ones: which, in which dtype, and what stays. */

/* The documents are laid out by hand. */
/* clang-format off */
#include "passes_fixture.h"

#define TILE "\"u0\", 5000"
#define TYPED(name, target, args, dtype, shape) "{\"name\": \"" name "\", \"target\": \"" target "\", \"args\": [" args \
	"], \"meta\": {\"dtype\": \"" dtype "\", \"shape\": [" shape "]}}"
#define ROOT(body) "{\"id\": 0, \"kind\": \"root\", \"grid\": [0], \"nodes\": [" HOST("x", "x", "1000, 5000") "," \
	NODE("t", "tile.load", REF("x") ", [" U0 ", " ALL "]", TILE) "," \
	TYPED("hh", "tile.host_tensor", "\"h\"", "bfloat16", "1000, 64") "," \
	TYPED("hx", "tile.load", REF("hh") ", [" U0 ", " ALL "]", "bfloat16", "\"u0\", 64") "," \
	body "," OUTPUT("") "]}"
#define KEEP_ROW HOST("o", "out", "1000, 5000") "," STORE("st", "o", U0 ", " ALL, "y")
#define KEEP_SUM HOST("o", "sums", "1000") "," STORE("st", "o", U0, "y")
/* clang-format on */

static NodeId named(const Module *m, const char *name) {
	NodeId n = graph_node(m, 0, name);
	assert_int_not_equal(n, NONE);
	return n;
}

/* What is stored, after the pass on a root with that body. */
static NodeId stored(Fixture *f, const char *graphs) {
	fixture_init(f);
	fixture_load(f, graphs);
	run_pass(f, "decompose");
	assert_idempotent(f, "decompose");
	return node_input(f->module, named(f->module, "st"), 2);
}

static void softmax_is_exponentials_over_their_sum(void **state) {
	(void)state;
	Fixture f;
	NodeId y = stored(&f, ROOT(NODE("y", "aten._softmax.default", REF("t") ", -1, false", TILE) "," KEEP_ROW));
	Module *m = f.module;
	assert_string_equal(node_get(m, y)->name, "y"); /* the composite's place and name */
	assert_int_equal(node_get(m, y)->op, OP_DIV);
	NodeId weight = node_input(m, y, 0), sum = node_input(m, y, 1);
	assert_int_equal(node_get(m, weight)->op, OP_EXP);
	assert_int_equal(node_get(m, sum)->op, OP_SUM_DIM);
	assert_int_equal(node_input(m, sum, 0), weight);
	assert_int_equal(reduction_dims(m, sum), 2);
	assert_string_equal(type_string(m, node_get(m, sum)->type), "float32[u0, 1]");
	NodeId shifted = node_input(m, weight, 0);
	assert_int_equal(node_input(m, shifted, 0), named(m, "t"));
	assert_int_equal(node_get(m, node_input(m, shifted, 1))->op, OP_AMAX);
	fixture_free(&f);
}

/* bfloat16 is computed in float32 and rounded once. */
static void narrow_floats_round_once(void **state) {
	(void)state;
	static const char *const bodies[] = {
		ROOT(TYPED("y", "aten.var.correction", REF("hx") ", [1]", "bfloat16", "\"u0\"") "," KEEP_SUM),
		ROOT(TYPED("y", "aten.logsumexp.default", REF("hx") ", [1]", "bfloat16", "\"u0\"") "," KEEP_SUM),
		ROOT(TYPED("y", "aten.linalg_vector_norm.default", REF("hx") ", 2, [1]", "bfloat16",
	                   "\"u0\"") "," KEEP_SUM),
	};
	for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
		Fixture f;
		NodeId y = stored(&f, bodies[i]);
		Module *m = f.module;
		assert_int_equal(node_get(m, y)->op, OP_CONVERT);
		assert_int_equal(count_op(m, 0, OP_CONVERT), 2);
		assert_string_equal(type_string(m, node_get(m, y)->type), "bfloat16[u0]");
		assert_int_equal(node_type(m, node_input(m, y, 0))->dtype, DTYPE_F32);
		fixture_free(&f);
	}
}

/* The divisor: the count less the correction, where the configuration decides the count too. */
static void variance_divides_by_what_is_left(void **state) {
	(void)state;
	Fixture f;
	NodeId y = stored(
		&f, ROOT(NODE("y", "aten.var.correction",
	                      REF("t") ", [-1]], \"kwargs\": {\"correction\": 2}, \"x_\": [0", "\"u0\"") "," KEEP_SUM));
	assert_int_equal(node_get(f.module, y)->op, OP_DIV);
	assert_true(node_arg(f.module, y, 1)->real == 4998);
	fixture_free(&f);
	y = stored(&f, ROOT(NODE("y", "aten.std.correction", REF("t") ", [0]",
	                         "5000") "," HOST("o", "out", "1000, 5000") "," STORE("st", "o", "0, " ALL, "y")));
	NodeId var = node_input(f.module, y, 0);
	assert_int_equal(node_get(f.module, y)->op, OP_SQRT);
	assert_int_equal(node_arg(f.module, var, 1)->kind, ARG_SYM);
	assert_int_equal(expr_number(f.module, node_arg(f.module, var, 1)->expr), 127);
	fixture_free(&f);
}

/* clang-format off */
#define PAIR "{\"name\": \"p\", \"target\": \"aten.max.dim\", \"args\": [" REF("t") ", 1], \"meta\": {\"tuple\": [" \
	"{\"dtype\": \"float32\", \"shape\": [\"u0\"]}, {\"dtype\": \"int32\", \"shape\": [\"u0\"]}]}}"
/* clang-format on */

static void a_pair_becomes_what_is_taken_of_it(void **state) {
	(void)state;
	Fixture f;
	NodeId y = stored(&f, ROOT(PAIR "," TYPED("y", "getitem", REF("p") ", 1", "int32", "\"u0\"") "," KEEP_SUM));
	Module *m = f.module;
	assert_int_equal(graph_node(m, 0, "p"), NONE);
	assert_int_equal(count_op(m, 0, OP_GETITEM), 0);
	assert_string_equal(type_string(m, node_get(m, y)->type), "int32[u0]");
	/* NaN first, then the extreme: positions of the second kind begin at the count. */
	assert_int_equal(node_get(m, y)->op, OP_REMAINDER_SCALAR);
	assert_int_equal(node_get(m, node_input(m, y, 0))->op, OP_AMIN);
	assert_int_equal(count_op(m, 0, OP_IOTA), 1);
	assert_int_equal(count_op(m, 0, OP_AMAX), 1);
	fixture_free(&f);
	y = stored(&f, ROOT(PAIR "," TYPED("y", "getitem", REF("p") ", 0", "float32", "\"u0\"") "," KEEP_SUM));
	assert_int_equal(count_op(f.module, 0, OP_IOTA), 0);
	assert_string_equal(type_string(f.module, node_get(f.module, y)->type), "float32[u0]");
	fixture_free(&f);
}

static void ranges_are_indices(void **state) {
	(void)state;
	Fixture f;
	NodeId y = stored(&f, ROOT(TYPED("y", "prims.iota.default", "5000", "int32", "5000") "," HOST(
				      "o", "out", "1000, 5000") "," STORE("st", "o", "0, " ALL, "y")));
	assert_int_equal(node_get(f.module, y)->op, OP_IOTA); /* it is one */
	fixture_free(&f);
	y = stored(&f, ROOT(NODE("y", "aten.arange.start_step", "3.0, 2503.0, 0.5",
	                         "5000") "," HOST("o", "out", "1000, 5000") "," STORE("st", "o", "0, " ALL, "y")));
	assert_int_equal(node_get(f.module, y)->op, OP_ADD);
	assert_true(node_arg(f.module, y, 1)->real == 3);
	NodeId strided = node_input(f.module, y, 0);
	assert_int_equal(node_get(f.module, strided)->op, OP_MUL);
	assert_true(node_arg(f.module, strided, 1)->real == 0.5);
	assert_int_equal(node_get(f.module, node_input(f.module, strided, 0))->op, OP_CONVERT);
	fixture_free(&f);
}

static void a_vector_needs_no_mxu(void **state) {
	(void)state;
	Fixture f;
	NodeId y = stored(&f, ROOT(NODE("row", "tile.load", REF("x") ", [0, " ALL "]", "5000") "," NODE(
				      "y", "aten.mv.default", REF("t") ", " REF("row"), "\"u0\"") "," KEEP_SUM));
	assert_int_equal(node_get(f.module, y)->op, OP_SUM_DIM);
	assert_int_equal(node_get(f.module, node_input(f.module, y, 0))->op, OP_MUL);
	fixture_free(&f);
}

/* clang-format off */
#define LABELS(width) TYPED("i", "tile.full", "[" U0 ", " width "], 3, {\"dtype\": \"int32\"}", "int32", "\"u0\", " width)
/* clang-format on */

static void one_element_a_row_is_picked(void **state) {
	(void)state;
	Fixture f;
	NodeId y = stored(&f, ROOT(LABELS("1") "," NODE("y", "aten.gather.default", REF("t") ", 1, " REF("i"),
	                                                "\"u0\", 1") "," KEEP_ROW));
	Module *m = f.module;
	assert_int_equal(node_get(m, y)->op, OP_SUM_DIM);
	NodeId lanes = node_input(m, y, 0), found = node_input(m, lanes, 0);
	assert_int_equal(node_get(m, lanes)->op, OP_WHERE);
	assert_int_equal(node_get(m, found)->op, OP_EQ);
	assert_int_equal(node_input(m, found, 1), named(m, "i"));
	fixture_free(&f);
	y = stored(&f, ROOT(LABELS("5000") "," NODE("y", "aten.gather.default", REF("t") ", 1, " REF("i"),
	                                            TILE) "," KEEP_ROW));
	assert_int_equal(node_get(f.module, y)->op, OP_GATHER); /* several a row */
	fixture_free(&f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(softmax_is_exponentials_over_their_sum),
		cmocka_unit_test(narrow_floats_round_once),
		cmocka_unit_test(variance_divides_by_what_is_left),
		cmocka_unit_test(a_pair_becomes_what_is_taken_of_it),
		cmocka_unit_test(ranges_are_indices),
		cmocka_unit_test(a_vector_needs_no_mxu),
		cmocka_unit_test(one_element_a_row_is_picked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
