/* test_passes_core.c - const_fold, cse and dce, each on the smallest graphs that show what it must and must not do. */

#include "passes_fixture.h"

/* ---- const_fold -------------------------------------------------------------------------------------------------- */

static void folds_identities(void **state) {
	(void)state;
	Fixture f;
	fixture_init(&f);
	Module *m = fixture_load(&f, "root 0 over [0, 1]\n"
	                             "x = tile.host_tensor('x') : float32[1000, 5000]\n"
	                             "s = tile.symnode('u0') : sym u0\n"
	                             "a = tile.load(x, [s, u1]) : float32[u0, u1]\n"
	                             "b = tile.new_var(a) : float32[u0, u1]\n"
	                             "c = aten.mul.Tensor(b, 1.0) : float32[u0, u1]\n"
	                             "d = aten.add.Tensor(c, 0.0) : float32[u0, u1]\n"
	                             "e = aten.permute.default(d, [1, 0]) : float32[u1, u0]\n"
	                             "g = aten.permute.default(e, [1, 0]) : float32[u0, u1]\n"
	                             "out = tile.host_tensor('out') : float32[1000, 5000]\n"
	                             "st = tile.store(out, [u0, u1], g)\n"
	                             "return\n");
	run_pass(&f, "const_fold");
	NodeId load = graph_node(m, 0, "a"), add = graph_node(m, 0, "d"), store = graph_node(m, 0, "st");
	assert_int_equal(graph_node(m, 0, "b"), NONE);
	assert_int_equal(graph_node(m, 0, "c"), NONE);
	assert_int_equal(graph_node(m, 0, "g"), NONE);
	assert_int_equal(node_input(m, add, 0), load); /* x + 0.0 stays: it changes -0.0 */
	assert_int_equal(node_input(m, store, 2), add);
	const Arg *entry = arg_item(m, node_arg(m, load, 1), 0);
	assert_int_equal(entry->kind, ARG_SYM);
	assert_int_equal(expr_as_block(m, entry->expr), 0);
	assert_int_equal(node_uses(m, graph_node(m, 0, "s")), NONE);
	assert_idempotent(&f, "const_fold");
	fixture_free(&f);
}

/* The dims of a permutation, as text. */
static const char *order_of(const Module *m, NodeId n, char text[RANK_MAX + 1]) {
	const Arg *dims = node_arg(m, n, 1);
	memset(text, 0, RANK_MAX + 1);
	for (uint32_t i = 0; i < dims->list.count; i++)
		text[i] = (char)('0' + arg_item(m, dims, i)->integer);
	return text;
}

/* Of a permutation of a permutation, whatever the second is called. */
static void folds_permutations(void **state) {
	(void)state;
	static const char *const second[] = {"aten.permute.default(once, [1, 0, 2])", "aten.transpose.int(once, 0, 1)"};
	for (size_t i = 0; i < 2; i++) {
		Fixture f;
		char text[RANK_MAX + 1];
		fixture_init(&f);
		Module *m =
			fixture_load(&f, arena_printf(&f.arena,
		                                      "tensor cube input float32[4, 6, 8]\n"
		                                      "tensor turned output float32[8, 6, 4]\n"
		                                      "root 0 over [0]\n"
		                                      "x = tile.host_tensor('cube') : float32[4, 6, 8]\n"
		                                      "all = tile.load(x, [:, :, :]) : float32[4, 6, 8]\n"
		                                      "once = aten.permute.default(all, [1, 2, 0]) : float32[6, 8, 4]\n"
		                                      "twice = %s : float32[8, 6, 4]\n"
		                                      "out = tile.host_tensor('turned') : float32[8, 6, 4]\n"
		                                      "st = tile.store(out, [:, :, :], twice)\n"
		                                      "return\n",
		                                      second[i]));
		run_pass(&f, "const_fold");
		NodeId twice = node_input(m, named(m, "st"), 2);
		assert_int_equal(node_get(m, twice)->op, OP_PERMUTE);
		assert_int_equal(node_input(m, twice, 0), named(m, "all"));
		assert_string_equal(order_of(m, twice, text), "210");
		fixture_free(&f);
	}
}

/* A host scalar promotes as a Python number; a copy of it does not. */
static void keeps_weak_scalars(void **state) {
	(void)state;
	Fixture f;
	fixture_init(&f);
	Module *m = fixture_load(&f, "root 0 over [0]\n"
	                             "s = tile.scalar('scale') : float32[]\n"
	                             "b = tile.new_var(s) : float32[]\n"
	                             "c = tile.full([u0], b, float32) : float32[u0]\n"
	                             "o = tile.host_tensor('sums') : float32[1000]\n"
	                             "st = tile.store(o, [u0], c)\n"
	                             "return\n");
	run_pass(&f, "const_fold");
	assert_int_not_equal(graph_node(m, 0, "b"), NONE);
	fixture_free(&f);
}

/* ---- float16 ----------------------------------------------------------------------------------------------------- */

/* A type that the module has no longer is none of its own. */
static void float16_is_not_asked_of_what_is_gone(void **state) {
	(void)state;
	Fixture f;
	fixture_init(&f);
	Module *m = fixture_load(&f, "root 0 over [0]\n"
	                             "a = tile.full([u0], 0, float32) : float32[u0]\n"
	                             "return\n");
	type_tensor(m, DTYPE_F16, 0, NULL);
	m->types.count--;
	PassContext c = run_pass(&f, "float16");
	assert_int_equal(c.remarks.count, 0);
	fixture_free(&f);
}

/* ---- cse --------------------------------------------------------------------------------------------------------- */

static const char two_loads_and_a_store[] = "root 0 over [0]\n"
					    "o = tile.host_tensor('sums') : float32[1000]\n"
					    "p = tile.host_tensor('sums') : float32[1000]\n"
					    "a = tile.load(o, [u0]) : float32[u0]\n"
					    "b = tile.load(p, [u0]) : float32[u0]\n"
					    "c = aten.add.Tensor(a, b) : float32[u0]\n"
					    "st = tile.store(o, [u0], c)\n"
					    "d = tile.load(o, [u0]) : float32[u0]\n"
					    "st2 = tile.store(p, [u0], d)\n"
					    "return\n";

static void merges_loads_between_writes(void **state) {
	(void)state;
	Fixture f;
	fixture_init(&f);
	Module *m = fixture_load(&f, two_loads_and_a_store);
	run_pass(&f, "cse");
	assert_int_equal(count_op(m, 0, OP_HOST_TENSOR), 1);
	assert_int_equal(count_op(m, 0, OP_LOAD), 2); /* a is b; d sees the store */
	assert_int_equal(node_input(m, graph_node(m, 0, "c"), 1), graph_node(m, 0, "a"));
	assert_idempotent(&f, "cse");
	fixture_free(&f);
}

static void keeps_signs_of_zero_apart(void **state) {
	(void)state;
	Fixture f;
	fixture_init(&f);
	Module *m = fixture_load(&f, "root 0 over [0]\n"
	                             "a = tile.full([u0], 0.0, float32) : float32[u0]\n"
	                             "b = tile.full([u0], -0.0, float32) : float32[u0]\n"
	                             "c = aten.copysign.Tensor(a, b) : float32[u0]\n"
	                             "o = tile.host_tensor('sums') : float32[1000]\n"
	                             "st = tile.store(o, [u0], c)\n"
	                             "return\n");
	run_pass(&f, "cse");
	assert_int_equal(count_op(m, 0, OP_FULL), 2);
	fixture_free(&f);
}

/* ---- dce --------------------------------------------------------------------------------------------------------- */

/* acc is stored; `idle` is carried only to itself; `unread` is an argument nobody reads; result 1 is not taken. */
static const char wasteful_loop[] = "for_loop 0 over [1] carry [[1, 1], [2, 0]]\n"
				    "unread : float32[u0]\n"
				    "idle : float32[u0]\n"
				    "acc : float32[u0]\n"
				    "x = tile.host_tensor('x') : float32[1000, 5000]\n"
				    "t = tile.load(x, [u0, u1]) : float32[u0, u1]\n"
				    "s = aten.sum.dim_IntList(t, [1]) : float32[u0]\n"
				    "i = aten.add.Tensor(idle, s) : float32[u0]\n"
				    "a = aten.add.Tensor(acc, s) : float32[u0]\n"
				    "return a, i\n"
				    "root 1 over [0]\n"
				    "z = tile.full([u0], 0.0, float32) : float32[u0]\n"
				    "y = tile.full([u0], 1.0, float32) : float32[u0]\n"
				    "l = tile.for_loop(0, [0], [5000], [y, y, z]) : (float32[u0], float32[u0])\n"
				    "r = getitem(l, 0) : float32[u0]\n"
				    "o = tile.host_tensor('sums') : float32[1000]\n"
				    "st = tile.store(o, [u0], r)\n"
				    "return\n";

static void drops_what_loops_need_not(void **state) {
	(void)state;
	Fixture f;
	fixture_init(&f);
	Module *m = fixture_load(&f, wasteful_loop);
	run_pass(&f, "dce");
	const Graph *g = graph_get(m, 0);
	assert_int_equal(g->placeholders.count, 1);
	assert_int_equal(g->carried.count, 1);
	assert_int_equal(g->carried.at[0].arg, 0);
	assert_int_equal(g->carried.at[0].output, 0);
	assert_int_equal(node_arg(m, g->output, 0)->list.count, 1);
	assert_int_equal(node_type(m, g->caller)->count, 1);
	assert_int_equal(count_op(m, 1, OP_FULL), 1);
	assert_idempotent(&f, "dce");
	fixture_free(&f);
}

/* A loop that writes nothing and whose results nobody takes goes with its graph. */
static void drops_graphs_without_effect(void **state) {
	(void)state;
	Fixture f;
	fixture_init(&f);
	char *text = arena_strdup(&f.arena, wasteful_loop);
	*strstr(text, "r)\nreturn") = 'y'; /* is stored instead */
	Module *m = fixture_load(&f, text);
	run_pass(&f, "dce");
	assert_int_equal(m->graphs.count, 1);
	assert_int_equal(graph_get(m, 0)->kind, GRAPH_ROOT);
	assert_int_equal(graph_find(m, 1), 0);
	assert_int_equal(graph_find(m, 0), NONE);
	assert_int_equal(count_op(m, 0, OP_FOR_LOOP), 0);
	fixture_free(&f);
}

/* ---- the pipeline ------------------------------------------------------------------------------------------------ */

static void count_call(void *user, const Pass *pass, const Module *m) {
	(void)pass;
	(void)m;
	++*(int *)user;
}

static void pipeline_calls_hooks(void **state) {
	(void)state;
	Fixture f;
	int calls = 0, passes = 0;
	fixture_init(&f);
	fixture_load(&f, two_loads_and_a_store);
	PassContext c = {.module = f.module, .diag = &f.diag, .arena = &f.arena};
	PassHooks hooks = {.before = count_call, .after = count_call, .user = &calls, .verify_each = true};
	assert_true(pass_pipeline_run(&c, NULL, 0, &hooks));
	for (const Pass *p = pass_list(); p->name; p++)
		passes++;
	assert_int_equal(calls, 2 * passes);
	assert_int_equal(c.remarks.count, 0); /* unless asked for */
	const char *names[] = {"cse", "dse"};
	assert_false(pass_pipeline_run(&c, names, 2, &hooks));
	assert_string_equal(f.diag.list.at[0].code, "unknown-pass");
	assert_int_equal(calls, 2 * passes);
	fixture_free(&f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(folds_identities),
		cmocka_unit_test(folds_permutations),
		cmocka_unit_test(float16_is_not_asked_of_what_is_gone),
		cmocka_unit_test(keeps_weak_scalars),
		cmocka_unit_test(merges_loads_between_writes),
		cmocka_unit_test(keeps_signs_of_zero_apart),
		cmocka_unit_test(drops_what_loops_need_not),
		cmocka_unit_test(drops_graphs_without_effect),
		cmocka_unit_test(pipeline_calls_hooks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
