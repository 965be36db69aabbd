#include "front.h"
#include "src/config/config.h"
#include "src/emit/emit.h"
#include "src/verify/verify.h"

/* The use lists and node lists say what the arguments say. */
static void check_arg(const Module *m, ArgId slot, NodeId user, uint32_t *uses) {
	const Arg *a = arg_get(m, slot);
	assert_int_equal(a->user, user);
	if (a->kind == ARG_REF) {
		bool found = false;
		for (ArgId u = node_uses(m, a->node); u != NONE; u = arg_get(m, u)->next_use)
			found |= u == slot;
		assert_true(found);
		++*uses;
	}
	for (uint32_t i = 0; (a->kind == ARG_LIST || a->kind == ARG_SLICE) && i < a->list.count; i++)
		check_arg(m, a->list.first + i, user, uses);
}

static void check(const Module *m) {
	uint32_t uses = 0, listed = 0;
	for (GraphId g = 0; g < m->graphs.count; g++) {
		NodeId prev = NONE;
		for (NodeId n = graph_first(m, g); n != NONE; prev = n, n = node_get(m, n)->next) {
			const Node *node = node_get(m, n);
			assert_false(node->dead);
			assert_int_equal(node->prev, prev);
			assert_int_equal(node->graph, g);
			assert_int_equal(graph_node(m, g, node->name), n);
			for (uint32_t i = 0; i < node->arg_count; i++)
				check_arg(m, node->arg_first + i, n, &uses);
		}
		assert_int_equal(graph_get(m, g)->last, prev);
	}
	for (NodeId n = 0; n < m->nodes.count; n++)
		listed += node_use_count(m, n);
	assert_int_equal(uses, listed);
}

static void test_edit(void **state) {
	Front f;
	Module *m = front_module(&f);
	GraphId loop = graph_find(m, 5);
	NodeId s = graph_node(m, loop, "s"), add = graph_node(m, loop, "add");
	(void)state;
	check(m);
	assert_int_equal(node_input(m, add, 1), s); /* the kwarg stands in its slot */
	assert_int_equal(node_use_count(m, s), 1);
	Arg args[] = {arg_ref(s)};
	NodeId neg = node_new(m, loop, op_find("aten.neg.default"), "s", node_get(m, s)->type, 1, args);
	node_insert_after(m, neg, s);
	assert_string_equal(node_get(m, neg)->name, "s_1");
	check(m);
	node_replace_uses(m, s, neg, neg);
	assert_int_equal(node_input(m, add, 1), neg);
	assert_int_equal(node_use_count(m, s), 1);
	check(m);
	arg_set_ref(m, node_get(m, add)->arg_first + 1, s);
	assert_int_equal(node_use_count(m, neg), 0);
	node_remove(m, neg);
	assert_true(node_get(m, neg)->dead);
	assert_int_equal(graph_node(m, loop, "s_1"), NONE);
	check(m);
	front_end(&f);
}

static void test_lists(void **state) {
	Front f;
	Module *m = front_module(&f);
	GraphId loop = graph_find(m, 5);
	NodeId load = graph_node(m, loop, "t"), x = graph_node(m, loop, "x"), acc = graph_node(m, loop, "acc");
	(void)state;
	Arg index = arg_copy(m, *node_arg(m, load, 1));
	Arg args[] = {arg_ref(x), index, arg_null()};
	NodeId copy = node_new(m, loop, node_get(m, load)->op, "t", node_get(m, load)->type, 3, args);
	node_insert_before(m, copy, load);
	check(m);
	arg_set(m, node_get(m, copy)->arg_first + 1, arg_list(m, 2, (Arg[]){arg_ref(acc), arg_int(0)}));
	check(m);
	assert_int_equal(node_use_count(m, acc), 2);
	assert_int_equal(arg_item(m, node_arg(m, load, 1), 0)->kind, ARG_SYM);
	node_replace_uses(m, load, copy, NONE);
	node_remove(m, load);
	check(m);
	front_end(&f);
}

static void test_move_between_graphs(void **state) {
	Front f;
	Module *m = front_module(&f);
	GraphId loop = graph_find(m, 5), root = graph_find(m, 6);
	NodeId x = graph_node(m, loop, "x"), zero = graph_node(m, root, "zero");
	(void)state;
	node_move_before(m, x, zero);
	assert_int_equal(graph_first(m, root), x);
	assert_int_equal(graph_node(m, root, "x"), x);
	assert_int_equal(graph_node(m, loop, "x"), NONE);
	node_move_before(m, x, graph_node(m, loop, "t"));
	check(m);
	front_end(&f);
}

static void test_add_argument(void **state) {
	Front f;
	Module *m = front_module(&f);
	GraphId loop = graph_find(m, 5), root = graph_find(m, 6);
	NodeId zero = graph_node(m, root, "zero"), call = graph_get(m, loop)->caller;
	(void)state;
	NodeId inner = graph_add_argument(m, loop, zero, "acc");
	assert_string_equal(node_get(m, inner)->name, "acc_1");
	assert_int_equal(graph_get(m, loop)->placeholders.at[1], inner);
	assert_int_equal(node_get(m, graph_first(m, loop))->next, inner);
	assert_int_equal(node_arg(m, call, 3)->list.count, 2);
	assert_int_equal(node_use_count(m, zero), 2);
	node_replace_uses(m, graph_node(m, loop, "s"), inner, NONE);
	check(m);
	assert_true(module_configure(m, &f.diag));
	if (!module_verify(m, &f.diag))
		fail_msg("%s", f.diag.list.at[0].message);
	assert_int_equal(graph_add_argument(m, root, zero, "y"), NONE);
	front_end(&f);
}

static void test_types(void **state) {
	Front f;
	Module *m = front_module(&f);
	ExprId dims[] = {expr_block(m, 0), expr_int(m, 128)}, other[] = {expr_int(m, 64), expr_int(m, 128)};
	(void)state;
	TypeId a = type_tensor(m, DTYPE_BF16, 2, dims), b = type_tensor(m, DTYPE_BF16, 2, other);
	assert_int_equal(a, type_tensor(m, DTYPE_BF16, 2, dims));
	assert_string_equal(type_string(m, a), "bfloat16[u0, 128]");
	assert_string_equal(type_string(m, type_tuple(m, 1, &a)), "(bfloat16[u0, 128],)");
	assert_false(type_equal(m, a, b));
	assert_true(config_set(m, &f.diag, "block_sizes=[64, 128]"));
	assert_true(module_configure(m, &f.diag));
	assert_true(type_equal(m, a, b));
	assert_true(type_equal(m, type_tuple(m, 1, &a), type_tuple(m, 1, &b)));
	assert_false(type_equal(m, type_sym(m, DTYPE_I32, NONE), type_sym(m, DTYPE_I32, dims[1])));
	for (uint32_t i = 0; i < 500; i++) { /* the table grows */
		ExprId dim = expr_int(m, i);
		TypeId t = type_tensor(m, DTYPE_F32, 1, &dim);
		assert_int_equal(t, type_tensor(m, DTYPE_F32, 1, &dim));
	}
	front_end(&f);
}

static void test_clone(void **state) {
	Front f;
	Module *m = front_module(&f);
	Arena other;
	Text before, copied, after;
	(void)state;
	arena_init(&other, NULL);
	text_init(&before, &f.arena);
	text_init(&copied, &f.arena);
	text_init(&after, &f.arena);
	module_emit_json(m, &before);
	Module *copy = module_clone(m, &other);
	module_emit_json(copy, &copied);
	assert_string_equal(before.at, copied.at);
	GraphId loop = graph_find(copy, 5);
	node_replace_uses(copy, graph_node(copy, loop, "s"), graph_node(copy, loop, "acc"), NONE);
	node_remove(copy, graph_node(copy, loop, "s"));
	assert_true(config_set(copy, &f.diag, "split=4"));
	check(copy);
	check(m);
	module_emit_json(m, &after);
	assert_string_equal(before.at, after.at);
	arena_free(&other);
	front_end(&f);
}

/* What was removed with a graph keeps its number, which later names another graph, or none. */
static void test_drop_graphs_twice(void **state) {
	Front f;
	Module *m = front_module(&f);
	GraphId loop = graph_find(m, 5), count = m->graphs.count;
	NodeId zero = graph_node(m, graph_find(m, 6), "zero"), lost = graph_node(m, loop, "x");
	bool drop[8] = {false};
	(void)state;
	Module *copy = module_clone(m, &f.arena);
	copy->given_loop_facts = arena_array(&f.arena, count, sizeof *copy->given_loop_facts);
	copy->given_loop_facts[loop].legal = 5;
	m = module_clone(copy, &f.arena);
	NodeId result = graph_node(m, graph_find(m, 6), "acc");
	node_replace_uses(m, result, zero, NONE);
	node_remove(m, result);
	drop[loop] = true;
	module_drop_graphs(m, drop);
	assert_int_equal(copy->given_loop_facts[loop].legal, 5);
	node_get(m, lost)->graph = UINT32_MAX - 1;
	drop[loop] = false;
	module_drop_graphs(m, drop);
	assert_int_equal(m->graphs.count, count - 1);
	assert_int_equal(node_get(m, zero)->graph, graph_find(m, 6));
	check(m);
	front_end(&f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_edit),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_move_between_graphs),
		cmocka_unit_test(test_add_argument),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_clone),
		cmocka_unit_test(test_drop_graphs_twice),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
