/* test_forms.c - rows and columns: what stays a column, and what a stack of columns is made in
 * (codegen/values/forms.c). */
#include "plan_fixture.h"

/* x and out, [16, 32, N] of a dtype, a tile of 8 of which `load` holds; then nodes, of which `y` is stored to `out`. */
#define DOCUMENT(dtype, n, nodes)                                                                                      \
	"name k\n"                                                                                                     \
	"tensor x input " dtype "[16, 32, " n "]\n"                                                                    \
	"tensor out output " dtype "[16, 32, " n "]\n"                                                                 \
	"block b 16\n"                                                                                                 \
	"root 0 over [0]\n"                                                                                            \
	"hx = tile.host_tensor('x') : " dtype "[16, 32, " n "]\n"                                                      \
	"load = tile.load(hx, [u0, :, :]) : " dtype "[u0, 32, " n "]\n" nodes                                          \
	"hout = tile.host_tensor('out') : " dtype "[16, 32, " n "]\n"                                                  \
	"store = tile.store(hout, [u0, :, :], y)\n"                                                                    \
	"return\n"

static void plan_lines(Planned *p, const char *lines) {
	front_start(&p->front);
	planned_load(p, lines);
	planned_make(p, SETTINGS("block_sizes=[8]"));
	assert_non_null(p->plan);
}

/* The Value of the first node of an op; of the last one if `last`. */
static const Value *value_of_op(const Planned *p, uint16_t op, bool last) {
	const Module *m = p->plan->module;
	const Value *found = NULL;
	for (NodeId n = graph_first(m, p->plan->root); n != NONE; n = node_get(m, n)->next)
		if (node_get(m, n)->op == op && (last || !found))
			found = &p->plan->values[n];
	assert_non_null(found);
	return found;
}

/* x - sum(sum(x, -1), -1)[:, None, None]: both sums are columns, and the dims are added before a column's last. */
static void a_column_is_reduced_as_it_stands(void **state) {
	(void)state;
	Planned p;
	plan_lines(&p, DOCUMENT("float32", "256",
	                        "inner = aten.sum.dim_IntList(load, [-1]) : float32[u0, 32]\n"
	                        "total = aten.sum.dim_IntList(inner, [-1]) : float32[u0]\n"
	                        "wide = tile.subscript(total, [:, null, null]) : float32[u0, 1, 1]\n"
	                        "y = aten.sub.Tensor(load, wide) : float32[u0, 32, 256]\n"));
	assert_int_equal(value_of_op(&p, OP_SUM_DIM, false)->wants, FORM_NATURAL);
	assert_int_equal(value_of_op(&p, OP_SUM_DIM, false)->form, FORM_COLUMN);
	assert_int_equal(value_of_op(&p, OP_SUM_DIM, true)->wants, FORM_COLUMN);
	assert_int_equal(value_of_op(&p, OP_SUM_DIM, true)->form, FORM_COLUMN);
	assert_int_equal(value_of_op(&p, OP_SUBSCRIPT, false)->wants, FORM_COLUMN);
	assert_int_equal(value_of_op(&p, OP_SUBSCRIPT, false)->form, FORM_NATURAL);
	planned_end(&p);
}

#define SWAPPED(dtype)                                                                                                 \
	DOCUMENT(dtype, "2",                                                                                           \
	         "odd = aten.select.int(load, -1, 1) : " dtype "[u0, 32]\n"                                            \
	         "even = aten.select.int(load, -1, 0) : " dtype "[u0, 32]\n"                                           \
	         "y = aten.stack.default([odd, even], -1) : " dtype "[u0, 32, 2]\n")

/* Lanes that are only stacked again are columns, which 16 bits are wide enough for. */
static void lanes_that_are_stacked_are_columns(void **state) {
	(void)state;
	Planned p;
	plan_lines(&p, SWAPPED("bfloat16"));
	assert_int_equal(value_of_op(&p, OP_SELECT, false)->form, FORM_COLUMN);
	assert_int_equal(value_of_op(&p, OP_SELECT, true)->form, FORM_COLUMN);
	assert_int_equal(value_of_op(&p, OP_STACK, false)->wants, FORM_COLUMN);
	assert_int_equal(value_of_op(&p, OP_STACK, false)->compute, DTYPE_NONE);
	planned_end(&p);
	plan_lines(&p, SWAPPED("int8"));
	assert_int_equal(value_of_op(&p, OP_STACK, false)->wants, FORM_COLUMN);
	assert_int_equal(value_of_op(&p, OP_STACK, false)->compute, DTYPE_I32);
	planned_end(&p);
}

/* Another use of a lane as a tile [8, 32] keeps it a row. */
static void a_lane_that_is_computed_with_is_a_row(void **state) {
	(void)state;
	Planned p;
	plan_lines(&p, DOCUMENT("float32", "2",
	                        "odd = aten.select.int(load, -1, 1) : float32[u0, 32]\n"
	                        "twice = aten.add.Tensor(odd, odd) : float32[u0, 32]\n"
	                        "y = aten.stack.default([twice, odd], -1) : float32[u0, 32, 2]\n"));
	assert_int_equal(value_of_op(&p, OP_SELECT, false)->form, FORM_NATURAL);
	assert_int_equal(value_of_op(&p, OP_STACK, false)->wants, FORM_NATURAL);
	planned_end(&p);
}

/* A row has a dim of one before its lanes, a column behind them; [N] is [1, N] where it is neither. */
static void forms_have_shapes(void **state) {
	(void)state;
	static const int64_t wide[3][4] = {{8, 32, 256}, {8, 32, 1, 256}, {8, 32, 256, 1}},
			     one[3][2] = {{1, 8}, {1, 8}, {8, 1}};
	static const Form forms[] = {FORM_NATURAL, FORM_ROW, FORM_COLUMN};
	Planned p;
	plan_lines(&p, DOCUMENT("float32", "256",
	                        "inner = aten.sum.dim_IntList(load, [-1]) : float32[u0, 32]\n"
	                        "total = aten.sum.dim_IntList(inner, [-1]) : float32[u0]\n"
	                        "wide = tile.subscript(total, [:, null, null]) : float32[u0, 1, 1]\n"
	                        "y = aten.sub.Tensor(load, wide) : float32[u0, 32, 256]\n"));
	const Module *m = p.plan->module;
	for (int i = 0; i < 3; i++) {
		int64_t shape[DIM_MAX];
		assert_int_equal(plan_shape(p.plan, graph_node(m, p.plan->root, "load"), forms[i], shape), i ? 4 : 3);
		assert_memory_equal(shape, wide[i], (i ? 4 : 3) * sizeof *shape);
		assert_int_equal(plan_shape(p.plan, graph_node(m, p.plan->root, "total"), forms[i], shape), 2);
		assert_memory_equal(shape, one[i], 2 * sizeof *shape);
	}
	planned_end(&p);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_column_is_reduced_as_it_stands),
		cmocka_unit_test(lanes_that_are_stacked_are_columns),
		cmocka_unit_test(forms_have_shapes),
		cmocka_unit_test(a_lane_that_is_computed_with_is_a_row),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
