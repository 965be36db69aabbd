/* test_id_masks.c - masks of equal ids in a matmul: what is made, and what stays a mask. */

#include "passes_fixture.h"

#define TENSORS                                                                                                        \
	"tensor qt input bfloat16[1000, 128]\n"                                                                        \
	"tensor kt input bfloat16[5000, 128]\n"                                                                        \
	"tensor ri input int32[1000]\n"                                                                                \
	"tensor ci input int32[5000]\n"
#define SCORES(factor)                                                                                                 \
	"kp = aten.permute.default(k, [1, 0]) : bfloat16[128, u1]\n"                                                   \
	"d = aten.mm.dtype(q, " factor ", float32) : float32[u0, u1]\n"                                                \
	"s = aten.mul.Tensor(d, 0.25) : float32[u0, u1]\n"
#define IDS                                                                                                            \
	"ch = tile.host_tensor('ci') : int32[5000]\n"                                                                  \
	"c = tile.load(ch, [u1]) : int32[u1]\n"                                                                        \
	"r2 = tile.subscript(r, [:, null]) : int32[u0, 1]\n"                                                           \
	"c2 = tile.subscript(c, [null, :]) : int32[1, u1]\n"
#define SAME "e = aten.eq.Tensor(r2, c2) : bool[u0, u1]\n"
#define CHOOSE(mask, other) "w = aten.where.self(" mask ", s, " other ") : float32[u0, u1]\n"
#define EXPONENT(shifted)                                                                                              \
	"m = aten.amax.default(w, [1]) : float32[u0]\n"                                                                \
	"n = aten.maximum.default(m, x) : float32[u0]\n"                                                               \
	"n2 = tile.subscript(n, [:, null]) : float32[u0, 1]\n"                                                         \
	"t = aten.sub.Tensor(" shifted ") : float32[u0, u1]\n"                                                         \
	"p = aten.exp2.default(t) : float32[u0, u1]\n"                                                                 \
	"y = aten.sum.dim_IntList(p, [1]) : float32[u0]\n"
#define GRAPHS(body)                                                                                                   \
	TENSORS "for_loop 0 over [1] carried [[2, 0]]\n"                                                               \
		"q : bfloat16[u0, 128]\n"                                                                              \
		"r : int32[u0]\n"                                                                                      \
		"x : float32[u0]\n"                                                                                    \
		"kh = tile.host_tensor('kt') : bfloat16[5000, 128]\n"                                                  \
		"k = tile.load(kh, [u1, :]) : bfloat16[u1, 128]\n" body "return y\n"                                   \
		"root 1 over [0]\n"                                                                                    \
		"qh = tile.host_tensor('qt') : bfloat16[1000, 128]\n"                                                  \
		"q = tile.load(qh, [u0, :]) : bfloat16[u0, 128]\n"                                                     \
		"rh = tile.host_tensor('ri') : int32[1000]\n"                                                          \
		"r = tile.load(rh, [u0]) : int32[u0]\n"                                                                \
		"x = tile.full([u0], 0.0, float32) : float32[u0]\n"                                                    \
		"l = tile.for_loop(0, [0], [5000], [q, r, x]) : (float32[u0])\n"                                       \
		"g = getitem(l, 0) : float32[u0]\n"                                                                    \
		"o = tile.host_tensor('sums') : float32[1000]\n"                                                       \
		"st = tile.store(o, [u0], g)\n"                                                                        \
		"return\n"
#define MASKED GRAPHS(SCORES("kp") IDS SAME CHOOSE("e", "-inf") EXPONENT("w, n2"))

static PassContext told(Fixture *f, const char *graphs, Switch asked, int64_t mxu) {
	fixture_init(f);
	Module *m = fixture_load(f, graphs);
	static Target wide;
	wide = *m->target;
	wide.mxu_size = mxu;
	m->target = &wide;
	m->config.id_masks.value = (int)asked;
	return run_pass(f, "id_masks");
}

static void assert_stays(const char *graphs, Switch asked, int64_t mxu) {
	Fixture f, g;
	told(&f, graphs, SWITCH_OFF, mxu);
	told(&g, graphs, asked, mxu);
	assert_string_equal(emitted(&f), emitted(&g));
	fixture_free(&f);
	fixture_free(&g);
}

/* Q's digits are made before the loop, those of K in each step, and no score is compared. */
static void the_matmul_tells_ids(void **state) {
	(void)state;
	Fixture f;
	PassContext c = told(&f, MASKED, SWITCH_ON, 256);
	Module *m = f.module;
	assert_int_equal(graph_node(m, 0, "w"), NONE);
	assert_string_equal(type_of(m, 1, "q_and_ids"), "bfloat16[u0, 256]");
	assert_string_equal(type_of(m, 0, "k_and_ids"), "bfloat16[u1, 256]");
	NodeId d = graph_node(m, 0, "d"), first = node_input(m, d, 0);
	assert_int_equal(node_get(m, first)->op, OP_PLACEHOLDER);
	assert_int_equal(arg_item(m, loop_args(m, graph_node(m, 1, "l")), 3)->node, graph_node(m, 1, "q_and_ids"));
	assert_int_equal(node_input(m, graph_node(m, 0, "t"), 0), graph_node(m, 0, "s"));
	NodeId shift = node_input(m, graph_node(m, 0, "t"), 1), seen = node_input(m, graph_node(m, 0, "n"), 0);
	assert_int_equal(node_get(m, shift)->op, OP_WHERE);
	assert_int_equal(node_get(m, seen)->op, OP_WHERE);
	NodeId low = node_input(m, seen, 0);
	assert_true(node_arg(m, low, 1)->real == -0x1p107); /* 2^109, times the scale */
	assert_true(remarked(&c, "w is told by d, of 128 more elements: where ids are equal they add 0"));
	assert_idempotent(&f, "id_masks");
	fixture_free(&f);
}

/* Another condition stays a mask, and so does what is written about it. */
static void what_else_is_asked_stays(void **state) {
	(void)state;
	Fixture f;
	told(&f,
	     GRAPHS(SCORES("kp") IDS SAME "f = aten.gt.Tensor(r2, 3) : bool[u0, 1]\n"
	                                  "h = aten.ne.Tensor(r2, c2) : bool[u0, u1]\n"
	                                  "b = aten.logical_and.default(h, e) : bool[u0, u1]\n" CHOOSE("b", "-inf")
	                                          EXPONENT("w, n2")),
	     SWITCH_ON, 256);
	Module *m = f.module;
	assert_int_equal(node_input(m, graph_node(m, 0, "w"), 0), graph_node(m, 0, "h"));
	assert_int_not_equal(graph_node(m, 0, "k_and_ids"), NONE);
	fixture_free(&f);
}

static void what_may_not_be_told_stays(void **state) {
	(void)state;
	static const char *const graphs[] = {
		/* hidden by another number */
		GRAPHS(SCORES("kp") IDS SAME CHOOSE("e", "-100.0") EXPONENT("w, n2")),
		/* not equal ids */
		GRAPHS(SCORES("kp") IDS "e = aten.le.Tensor(r2, c2) : bool[u0, u1]\n" CHOOSE("e", "-inf")
	                       EXPONENT("w, n2")),
		/* the scores are read without the mask */
		GRAPHS(SCORES("kp") IDS SAME CHOOSE("e", "-inf") EXPONENT("s, n2")),
		/* what is hidden is read by more than exponents */
		GRAPHS(SCORES("kp") IDS SAME CHOOSE("e", "-inf")
	                       EXPONENT("w, n2") "z = aten.amin.default(w, [1]) : float32[u0]\n"),
		GRAPHS(SCORES("kp") IDS SAME CHOOSE("e", "-inf")
	                       EXPONENT("w, n2") "z = aten.abs.default(t) : float32[u0, u1]\n"),
		/* subtracted from a number of its own for each score */
		GRAPHS(SCORES("kp") IDS SAME CHOOSE("e", "-inf") EXPONENT("w, s")),
	};
	assert_stays(MASKED, SWITCH_OFF, 256);
	assert_stays(MASKED, SWITCH_ON, 128);
	for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++)
		assert_stays(graphs[i], SWITCH_ON, 256);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_matmul_tells_ids),
		cmocka_unit_test(what_else_is_asked_stays),
		cmocka_unit_test(what_may_not_be_told_stays),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
