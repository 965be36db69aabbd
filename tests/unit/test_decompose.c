/* test_decompose.c - composite ops as primitive ones: which, in which dtype, and what stays. */

#include "passes_fixture.h"

#define ROOT(body)                                                                                                     \
	"root 0 over [0]\n"                                                                                            \
	"x = tile.host_tensor('x') : float32[1000, 5000]\n"                                                            \
	"t = tile.load(x, [u0, :]) : float32[u0, 5000]\n"                                                              \
	"hh = tile.host_tensor('h') : bfloat16[1000, 64]\n"                                                            \
	"hx = tile.load(hh, [u0, :]) : bfloat16[u0, 64]\n" body "return\n"
#define KEEP_ROW "o = tile.host_tensor('out') : float32[1000, 5000]\nst = tile.store(o, [u0, :], y)\n"
#define KEEP_SUM "o = tile.host_tensor('sums') : float32[1000]\nst = tile.store(o, [u0], y)\n"

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
	NodeId y = stored(&f, ROOT("y = aten._softmax.default(t, -1, false) : float32[u0, 5000]\n" KEEP_ROW));
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
		ROOT("y = aten.var.correction(hx, [1]) : bfloat16[u0]\n" KEEP_SUM),
		ROOT("y = aten.logsumexp.default(hx, [1]) : bfloat16[u0]\n" KEEP_SUM),
		ROOT("y = aten.linalg_vector_norm.default(hx, 2, [1]) : bfloat16[u0]\n" KEEP_SUM),
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
	NodeId y = stored(&f, ROOT("y = aten.var.correction(t, [-1], correction=2) : "
	                           "float32[u0]\n" KEEP_SUM));
	assert_int_equal(node_get(f.module, y)->op, OP_DIV);
	assert_true(node_arg(f.module, y, 1)->real == 4998);
	fixture_free(&f);
	y = stored(&f, ROOT("y = aten.std.correction(t, [0]) : float32[5000]\n"
	                    "o = tile.host_tensor('out') : float32[1000, 5000]\n"
	                    "st = tile.store(o, [0, :], y)\n"));
	NodeId var = node_input(f.module, y, 0);
	assert_int_equal(node_get(f.module, y)->op, OP_SQRT);
	assert_int_equal(node_arg(f.module, var, 1)->kind, ARG_SYM);
	assert_int_equal(expr_number(f.module, node_arg(f.module, var, 1)->expr), 127);
	fixture_free(&f);
}

#define PAIR "p = aten.max.dim(t, 1) : (float32[u0], int32[u0])\n"

static void a_pair_becomes_what_is_taken_of_it(void **state) {
	(void)state;
	Fixture f;
	NodeId y = stored(&f, ROOT(PAIR "y = getitem(p, 1) : int32[u0]\n" KEEP_SUM));
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
	y = stored(&f, ROOT(PAIR "y = getitem(p, 0) : float32[u0]\n" KEEP_SUM));
	assert_int_equal(count_op(f.module, 0, OP_IOTA), 0);
	assert_string_equal(type_string(f.module, node_get(f.module, y)->type), "float32[u0]");
	fixture_free(&f);
}

static void ranges_are_indices(void **state) {
	(void)state;
	Fixture f;
	NodeId y = stored(&f, ROOT("y = prims.iota.default(5000) : int32[5000]\n"
	                           "o = tile.host_tensor('out') : float32[1000, 5000]\n"
	                           "st = tile.store(o, [0, :], y)\n"));
	assert_int_equal(node_get(f.module, y)->op, OP_IOTA); /* it is one */
	fixture_free(&f);
	y = stored(&f, ROOT("y = aten.arange.start_step(3.0, 2503.0, 0.5) : float32[5000]\n"
	                    "o = tile.host_tensor('out') : float32[1000, 5000]\n"
	                    "st = tile.store(o, [0, :], y)\n"));
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
	NodeId y = stored(&f, ROOT("row = tile.load(x, [0, :]) : float32[5000]\n"
	                           "y = aten.mv.default(t, row) : float32[u0]\n" KEEP_SUM));
	assert_int_equal(node_get(f.module, y)->op, OP_SUM_DIM);
	assert_int_equal(node_get(f.module, node_input(f.module, y, 0))->op, OP_MUL);
	fixture_free(&f);
}

#define LABELS(width) "i = tile.full([u0, " width "], 3, int32) : int32[u0, " width "]\n"

/* The bits of a lane, added up with zeros: of its position, which is clamped. */
static void elements_are_picked(void **state) {
	(void)state;
	Fixture f;
	NodeId y = stored(&f, ROOT(LABELS("1") "y = aten.gather.default(t, 1, i) : float32[u0, 1]\n" KEEP_ROW));
	Module *m = f.module;
	assert_int_equal(node_get(m, y)->op, OP_VIEW_DTYPE);
	NodeId sum = node_input(m, y, 0), lanes = node_input(m, sum, 0), found = node_input(m, lanes, 0);
	assert_int_equal(node_get(m, sum)->op, OP_SUM_DIM);
	assert_int_equal(node_type(m, sum)->dtype, DTYPE_I32);
	assert_int_equal(node_get(m, lanes)->op, OP_WHERE);
	assert_int_equal(node_get(m, found)->op, OP_EQ);
	assert_int_equal(node_get(m, node_input(m, found, 1))->op, OP_CLAMP);
	assert_int_equal(node_input(m, node_input(m, found, 1), 0), named(m, "i"));
	fixture_free(&f);
	y = stored(&f, ROOT(LABELS("7") "y = aten.gather.default(t, 1, i) : float32[u0, 7]\n"
	                                "o = tile.host_tensor('out') : float32[1000, 5000]\n"
	                                "st = tile.store(o, [u0, 0:7], y)\n"));
	m = f.module;
	NodeId taken = node_input(m, y, 0); /* several a row: from registers */
	assert_true(gathers_lanes(m, taken));
	assert_int_equal(node_get(m, node_input(m, taken, 2))->op, OP_CLAMP);
	assert_int_equal(node_get(m, node_input(m, taken, 0))->op, OP_VIEW_DTYPE);
	fixture_free(&f);
	y = stored(&f, ROOT("t0 = tile.load(x, [u0, 0:500]) : float32[u0, 500]\n"
	                    "i = tile.full([7], 3, int32) : int32[7]\n"
	                    "y = aten.index_select.default(t0, 1, i) : float32[u0, 7]\n"
	                    "o = tile.host_tensor('out') : float32[1000, 5000]\n"
	                    "st = tile.store(o, [u0, 0:7], y)\n"));
	taken = node_input(f.module, y, 0); /* the same places in each row */
	assert_true(gathers_lanes(f.module, taken));
	assert_int_equal(node_get(f.module, node_input(f.module, taken, 2))->op, OP_EXPAND);
	fixture_free(&f);
}

/* Of a table with one lane a column of positions need not be spread over lanes. */
static void rows_are_taken_by_a_column(void **state) {
	(void)state;
	Fixture f;
	NodeId y = stored(&f, ROOT("table = tile.full([64, 1], 3, int32) : int32[64, 1]\n" LABELS(
				      "1") "at = aten.clamp.default(i, 0, 63) : int32[u0, 1]\n"
	                                   "y = aten.gather.default(table, 0, at) : int32[u0, 1]\n"
	                                   "o = tile.host_tensor('io') : int32[1000]\n"
	                                   "row = aten.squeeze.dim(y, 1) : int32[u0]\n"
	                                   "st = tile.store(o, [u0], row)\n"));
	assert_true(gathers_rows(f.module, node_input(f.module, y, 0)));
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
		cmocka_unit_test(elements_are_picked),
		cmocka_unit_test(rows_are_taken_by_a_column),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
