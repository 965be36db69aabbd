/* test_scale_in_q.c - (q @ k) * c as (q * c) @ k: only where asked for, and where not even then. */

#include "passes_fixture.h"

#define TENSORS(dtype)                                                                                                 \
	"tensor qt input " dtype "[1000, 64]\n"                                                                        \
	"tensor kt input " dtype "[64, 5000]\n"
#define MM(a, b) "d = aten.mm.dtype(" a ", " b ", float32) : float32[u0, u1]\n"
#define MUL(args) "s = aten.mul.Tensor(" args ") : float32[u0, u1]\n"
#define STORE                                                                                                          \
	"o = tile.host_tensor('out') : float32[1000, 5000]\n"                                                          \
	"st = tile.store(o, [u0, u1], s)\n"
#define LOOP(dtype, body)                                                                                              \
	"for_loop 0 over [1]\n"                                                                                        \
	"p : " dtype "[u0, 64]\n"                                                                                      \
	"kh = tile.host_tensor('kt') : " dtype "[64, 5000]\n"                                                          \
	"k = tile.load(kh, [:, u1]) : " dtype "[64, u1]\n" body "return\n"
#define ROOT(dtype)                                                                                                    \
	"root 1 over [0]\n"                                                                                            \
	"qh = tile.host_tensor('qt') : " dtype "[1000, 64]\n"                                                          \
	"q = tile.load(qh, [u0, :]) : " dtype "[u0, 64]\n"                                                             \
	"l = tile.for_loop(0, [0], [5000], [q]) : ()\n"                                                                \
	"return\n"
#define GRAPHS(dtype, body) TENSORS(dtype) LOOP(dtype, body) ROOT(dtype)

static PassContext scaled(Fixture *f, const char *graphs, Switch asked) {
	fixture_init(f);
	fixture_load(f, graphs)->config.scale_in_q.value = (int)asked;
	return run_pass(f, "scale_in_q");
}

static void assert_stays(const char *graphs, Switch asked) {
	Fixture f;
	fixture_init(&f);
	fixture_load(&f, graphs)->config.scale_in_q.value = (int)asked;
	const char *before = emitted(&f);
	run_pass(&f, "scale_in_q");
	assert_string_equal(before, emitted(&f));
	fixture_free(&f);
}

/* In float32, then rounded once; the loop gets that, and has no product. */
static void the_factor_is_scaled_before_the_loop(void **state) {
	(void)state;
	Fixture f;
	PassContext c = scaled(&f, GRAPHS("bfloat16", MM("p", "k") MUL("d, 0.3") STORE), SWITCH_ON);
	Module *m = f.module;
	NodeId call = graph_node(m, 1, "l"), q = graph_node(m, 1, "q_scaled");
	assert_int_equal(arg_item(m, loop_args(m, call), 0)->node, q);
	assert_string_equal(type_of(m, 1, "q_scaled"), "bfloat16[u0, 64]");
	NodeId product = node_input(m, q, 0);
	assert_string_equal(type_string(m, node_get(m, product)->type), "float32[u0, 64]");
	assert_true(node_arg(m, product, 1)->real == 0.3);
	assert_int_equal(node_input(m, node_input(m, product, 0), 0), graph_node(m, 1, "q"));
	assert_int_equal(graph_node(m, 0, "s"), NONE);
	assert_int_equal(node_input(m, named(m, "st"), 2), named(m, "d"));
	assert_true(remarked(&c, "q is scaled before the loop, and rounded to bfloat16, in place of s"));
	assert_idempotent(&f, "scale_in_q");
	fixture_free(&f);
}

static void the_other_factor_may_be_the_one_that_stays(void **state) {
	(void)state;
	Fixture f;
	scaled(&f, GRAPHS("bfloat16", "v = tile.new_var(p) : bfloat16[u0, 64]\n" MM("v", "k") MUL("2, d") STORE),
	       SWITCH_ON);
	assert_int_not_equal(graph_node(f.module, 1, "q_scaled"), NONE);
	fixture_free(&f);
}

static void what_is_not_asked_for_stays(void **state) {
	(void)state;
	assert_stays(GRAPHS("bfloat16", MM("p", "k") MUL("d, 0.3") STORE), SWITCH_AUTO);
	assert_stays(GRAPHS("bfloat16", MM("p", "k") MUL("d, 0.3") STORE), SWITCH_OFF);
}

static void what_has_no_factor_for_it_stays(void **state) {
	(void)state;
	static const char *const graphs[] = {
		GRAPHS("float32", MM("p", "k") MUL("d, 0.3") STORE),
		GRAPHS("bfloat16", MM("p", "k") MUL("d, -0.3") STORE),
		GRAPHS("bfloat16", MM("p", "k") MUL("d, 0.0") STORE),
		GRAPHS("bfloat16", MM("p", "k") MUL("d, inf") STORE),
		GRAPHS("bfloat16", MM("p", "k") MUL("d, d") STORE),
		/* The scores, or Q, are read as they are as well. */
		GRAPHS("bfloat16", MM("p", "k") MUL("d, 0.3") "e = aten.exp.default(d) : float32[u0, u1]\n" STORE),
		GRAPHS("bfloat16", MM("p", "k") MUL("d, 0.3") "e = aten.exp.default(p) : bfloat16[u0, 64]\n" STORE),
	};
	for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++)
		assert_stays(graphs[i], SWITCH_ON);
}

/* Helion's attention: a scalar whose value the graph gives, and queries of Q's shape. */
static void attention_has_q_scaled(void **state) {
	(void)state;
	static const char *const names[] = {"const_fold", "cse", "scale_in_q"};
	Fixture f;
	fixture_init(&f);
	Module *m = graph_load(&f, "attention", NULL, NULL);
	m->config.scale_in_q.value = SWITCH_ON;
	PassContext c = {.module = m, .diag = &f.diag, .arena = &f.arena, .explain = true};
	run_or_fail(&f, &c, names, 3);
	assert_int_equal(graph_node(m, 0, "scores"), NONE);
	assert_int_equal(node_input(m, node_input(m, named(m, "amax"), 0), 0), named(m, "bmm"));
	assert_true(remarked(&c, "q is scaled before the loop"));
	fixture_free(&f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_factor_is_scaled_before_the_loop),
		cmocka_unit_test(the_other_factor_may_be_the_one_that_stays),
		cmocka_unit_test(what_is_not_asked_for_stays),
		cmocka_unit_test(what_has_no_factor_for_it_stays),
		cmocka_unit_test(attention_has_q_scaled),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
