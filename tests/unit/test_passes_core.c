/* test_passes_core.c - const_fold, cse and dce, each on the smallest graphs that show what it must and must not do. */

/* The documents are laid out by hand. */
/* clang-format off */
#include "passes_fixture.h"

/* ---- const_fold -------------------------------------------------------------------------------------------------- */

static void folds_identities(void **state) {
	(void)state;
	Fixture f;
	fixture_init(&f);
	Module *m = fixture_load(
		&f,
		"{\"id\": 0, \"kind\": \"root\", \"grid\": [0, 1], \"nodes\": [" HOST("x", "x", "1000, 5000") ","
		"{\"name\": \"s\", \"target\": \"tile.symnode\", \"args\": [\"u0\"], \"meta\": {\"sym\": \"u0\"}},"
		NODE("a", "tile.load", REF("x") ", [" REF("s") ", " U1 "]", "\"u0\", \"u1\"") ","
		NODE("b", "tile.new_var", REF("a"), "\"u0\", \"u1\"") ","
		NODE("c", "aten.mul.Tensor", REF("b") ", 1.0", "\"u0\", \"u1\"") ","
		NODE("d", "aten.add.Tensor", REF("c") ", 0.0", "\"u0\", \"u1\"") ","
		NODE("e", "aten.permute.default", REF("d") ", [1, 0]", "\"u1\", \"u0\"") ","
		NODE("g", "aten.permute.default", REF("e") ", [1, 0]", "\"u0\", \"u1\"") ","
		HOST("out", "out", "1000, 5000") "," STORE("st", "out", U0 ", " U1, "g") "," OUTPUT("") "]}");
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

/* A host scalar promotes as a Python number; a copy of it does not. */
static void keeps_weak_scalars(void **state) {
	(void)state;
	Fixture f;
	fixture_init(&f);
	Module *m = fixture_load(&f, "{\"id\": 0, \"kind\": \"root\", \"grid\": [0], \"nodes\": ["
				     NODE("s", "tile.scalar", "\"scale\"", "") "," NODE("b", "tile.new_var", REF("s"), "") ","
				     NODE("c", "tile.full", "[" U0 "], " REF("b") ", {\"dtype\": \"float32\"}", "\"u0\"") ","
				     HOST("o", "sums", "1000") "," STORE("st", "o", U0, "c") "," OUTPUT("") "]}");
	run_pass(&f, "const_fold");
	assert_int_not_equal(graph_node(m, 0, "b"), NONE);
	fixture_free(&f);
}

/* ---- cse --------------------------------------------------------------------------------------------------------- */

static const char two_loads_and_a_store[] =
	"{\"id\": 0, \"kind\": \"root\", \"grid\": [0], \"nodes\": [" HOST("o", "sums", "1000") ","
	HOST("p", "sums", "1000") "," NODE("a", "tile.load", REF("o") ", [" U0 "]", "\"u0\"") ","
	NODE("b", "tile.load", REF("p") ", [" U0 "]", "\"u0\"") ","
	NODE("c", "aten.add.Tensor", REF("a") ", " REF("b"), "\"u0\"") "," STORE("st", "o", U0, "c") ","
	NODE("d", "tile.load", REF("o") ", [" U0 "]", "\"u0\"") "," STORE("st2", "p", U0, "d") "," OUTPUT("") "]}";

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
	Module *m = fixture_load(&f, "{\"id\": 0, \"kind\": \"root\", \"grid\": [0], \"nodes\": ["
				     NODE("a", "tile.full", "[" U0 "], 0.0, {\"dtype\": \"float32\"}", "\"u0\"") ","
				     NODE("b", "tile.full", "[" U0 "], -0.0, {\"dtype\": \"float32\"}", "\"u0\"") ","
				     NODE("c", "aten.copysign.Tensor", REF("a") ", " REF("b"), "\"u0\"") ","
				     HOST("o", "sums", "1000") "," STORE("st", "o", U0, "c") "," OUTPUT("") "]}");
	run_pass(&f, "cse");
	assert_int_equal(count_op(m, 0, OP_FULL), 2);
	fixture_free(&f);
}

/* ---- dce --------------------------------------------------------------------------------------------------------- */

/* acc is stored; `idle` is carried only to itself; `unread` is an argument nobody reads; result 1 is not taken. */
static const char wasteful_loop[] =
	"{\"id\": 0, \"kind\": \"for_loop\", \"block_ids\": [1], \"carried\": [[1, 1], [2, 0]], \"nodes\": ["
	PLACEHOLDER("unread", "\"u0\"") "," PLACEHOLDER("idle", "\"u0\"") "," PLACEHOLDER("acc", "\"u0\"") ","
	HOST("x", "x", "1000, 5000") "," NODE("t", "tile.load", REF("x") ", [" U0 ", " U1 "]", "\"u0\", \"u1\"") ","
	NODE("s", "aten.sum.dim_IntList", REF("t") ", [1]", "\"u0\"") ","
	NODE("i", "aten.add.Tensor", REF("idle") ", " REF("s"), "\"u0\"") ","
	NODE("a", "aten.add.Tensor", REF("acc") ", " REF("s"), "\"u0\"") ","
	OUTPUT(REF("a") ", " REF("i")) "]},"
	"{\"id\": 1, \"kind\": \"root\", \"grid\": [0], \"nodes\": ["
	NODE("z", "tile.full", "[" U0 "], 0.0, {\"dtype\": \"float32\"}", "\"u0\"") ","
	NODE("y", "tile.full", "[" U0 "], 1.0, {\"dtype\": \"float32\"}", "\"u0\"") ","
	"{\"name\": \"l\", \"target\": \"tile.for_loop\", \"args\": [0, [0], [5000], [" REF("y") ", " REF("y") ", "
	REF("z") "]], \"meta\": {\"tuple\": [{\"dtype\": \"float32\", \"shape\": [\"u0\"]}, {\"dtype\": \"float32\","
	" \"shape\": [\"u0\"]}]}}," NODE("r", "getitem", REF("l") ", 0", "\"u0\"") ","
	HOST("o", "sums", "1000") "," STORE("st", "o", U0, "r") "," OUTPUT("") "]}";

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
	const char *text = arena_strdup(&f.arena, wasteful_loop);
	char *store = strstr(text, "\"name\": \"st\"");
	memcpy(strstr(store, "\"ref\": \"r\""), "\"ref\": \"y\"", 10); /* stores y instead */
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
	int calls = 0;
	fixture_init(&f);
	fixture_load(&f, two_loads_and_a_store);
	PassContext c = {.module = f.module, .diag = &f.diag, .arena = &f.arena};
	PassHooks hooks = {.before = count_call, .after = count_call, .user = &calls, .verify_each = true};
	assert_true(pass_pipeline_run(&c, NULL, 0, &hooks));
	assert_int_equal(calls, 34);
	assert_int_equal(c.remarks.count, 0); /* unless asked for */
	const char *names[] = {"cse", "dse"};
	assert_false(pass_pipeline_run(&c, names, 2, &hooks));
	assert_string_equal(f.diag.list.at[0].code, "unknown-pass");
	assert_int_equal(calls, 34);
	fixture_free(&f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(folds_identities),
		cmocka_unit_test(keeps_weak_scalars),
		cmocka_unit_test(merges_loads_between_writes),
		cmocka_unit_test(keeps_signs_of_zero_apart),
		cmocka_unit_test(drops_what_loops_need_not),
		cmocka_unit_test(drops_graphs_without_effect),
		cmocka_unit_test(pipeline_calls_hooks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
