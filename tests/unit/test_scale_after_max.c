/* test_scale_after_max.c - amax(x * c) as amax(x) * c: where, and above all where not. */

#include "passes_fixture.h"

#define MUL(args) "s = aten.mul.Tensor(" args ") : float32[u0, 5000]\n"
#define MAX(op, of) "m = aten." op ".default(" of ", [-1], true) : float32[u0, 1]\n"
#define MASK(name, value) name " = tile.mask_to(s, " value ") : float32[u0, 5000]\n"
#define REST                                                                                                           \
	"d = aten.sub.Tensor(s, m) : float32[u0, 5000]\n"                                                              \
	"o = tile.host_tensor('out') : float32[1000, 5000]\n"                                                          \
	"st = tile.store(o, [u0, :], d)\n"
#define ROOT(body)                                                                                                     \
	"root 0 over [0]\n"                                                                                            \
	"x = tile.host_tensor('x') : float32[1000, 5000]\n"                                                            \
	"t = tile.load(x, [u0, :]) : float32[u0, 5000]\n" body "return\n"

/* Runs it with pallas_scale_after_max on. */
static PassContext moved(Fixture *f, const char *graphs) {
	fixture_init(f);
	fixture_load(f, graphs)->config.scale_after_max.value = SWITCH_ON;
	return run_pass(f, "scale_after_max");
}

static void the_maximum_is_scaled(void **state) {
	(void)state;
	static const char *const graphs[] = {
		ROOT(MUL("t, 0.5") MAX("amax", "s") REST),
		ROOT(MUL("0.5, t") MAX("amin", "s") REST),
		ROOT(MUL("t, 2") MAX("amax", "s") REST),
	};
	for (int i = 0; i < 3; i++) {
		Fixture f;
		PassContext c = moved(&f, graphs[i]);
		Module *m = f.module;
		assert_int_equal(node_input(m, named(m, "m"), 0), named(m, "t"));
		NodeId scaled = named(m, "m_scaled");
		assert_int_equal(node_get(m, scaled)->op, OP_MUL);
		assert_int_equal(node_input(m, scaled, 0), named(m, "m"));
		assert_string_equal(type_of(m, 0, "m_scaled"), "float32[u0, 1]");
		assert_int_equal(node_input(m, named(m, "d"), 1), scaled);
		assert_int_equal(node_get(m, named(m, "s"))->next, named(m, "d")); /* down to its user */
		assert_true(remarked(&c, i == 1 ? "m is the minimum of t, scaled: s is computed where it is used"
		                                : "m is the maximum of t, scaled: s is computed where it is used"));
		assert_idempotent(&f, "scale_after_max");
		fixture_free(&f);
	}
}

static void a_product_without_other_users_goes(void **state) {
	(void)state;
	Fixture f;
	moved(&f, ROOT(MUL("t, 0.5") "m = aten.amax.default(s, [-1]) : float32[u0]\n"
	                             "o = tile.host_tensor('sums') : float32[1000]\n"
	                             "st = tile.store(o, [u0], m)\n"));
	assert_int_equal(graph_node(f.module, 0, "s"), NONE);
	assert_int_equal(node_input(f.module, named(f.module, "st"), 2), named(f.module, "m_scaled"));
	fixture_free(&f);
}

/* The lanes that the mask fills keep their infinity. */
static void a_mask_masks_what_is_not_scaled(void **state) {
	(void)state;
	Fixture f;
	moved(&f, ROOT(MUL("t, 0.5") MASK("k", "-inf") MAX("amax", "k") REST));
	assert_int_equal(node_input(f.module, named(f.module, "k"), 0), named(f.module, "t"));
	assert_int_equal(node_input(f.module, named(f.module, "m"), 0), named(f.module, "k"));
	fixture_free(&f);
	/* Another user of the mask still gets what is scaled. */
	moved(&f,
	      ROOT(MUL("t, 0.5") MASK("k", "inf") MAX("amin", "k") "d = aten.sub.Tensor(k, m) : float32[u0, 5000]\n"
	                                                           "o = tile.host_tensor('out') : float32[1000, 5000]\n"
	                                                           "st = tile.store(o, [u0, :], d)\n"));
	assert_int_equal(node_input(f.module, named(f.module, "k"), 0), named(f.module, "s"));
	assert_int_equal(node_input(f.module, named(f.module, "d"), 0), named(f.module, "k"));
	NodeId own = node_input(f.module, named(f.module, "m"), 0);
	assert_int_equal(node_get(f.module, own)->op, OP_MASK_TO);
	assert_int_equal(node_input(f.module, own, 0), named(f.module, "t"));
	fixture_free(&f);
}

/* Two scales, one after the other: both move behind the maximum, in their order. */
static void scales_in_a_row(void **state) {
	(void)state;
	Fixture f;
	moved(&f, ROOT("s0 = aten.mul.Tensor(t, 3.0) : float32[u0, 5000]\n" MUL("s0, 0.5") MAX("amax", "s") REST));
	Module *m = f.module;
	assert_int_equal(node_input(m, named(m, "m"), 0), named(m, "t"));
	NodeId last = node_input(m, named(m, "d"), 1), first = node_input(m, last, 0);
	assert_true(node_arg(m, last, 1)->real == 0.5);
	assert_true(node_arg(m, first, 1)->real == 3);
	assert_int_equal(node_input(m, first, 0), named(m, "m"));
	fixture_free(&f);
}

static void what_would_not_be_exact_stays(void **state) {
	(void)state;
	static const char *const graphs[] = {
		ROOT(MUL("t, -0.5") MAX("amax", "s") REST),
		ROOT(MUL("t, 0.0") MAX("amax", "s") REST),
		ROOT(MUL("t, 1e-60") MAX("amax", "s") REST), /* 0 in float32 */
		ROOT(MUL("t, 1e60") MAX("amax", "s") REST),  /* inf */
		ROOT(MUL("t, inf") MAX("amax", "s") REST),
		ROOT(MUL("t, nan") MAX("amax", "s") REST),
		ROOT("c = tile.scalar('scale') : float32[]\n" MUL("t, c") MAX("amax", "s") REST), /* at run time */
		ROOT(MUL("t, t") MAX("amax", "s") REST),
		ROOT("s = aten.add.Tensor(t, 0.5) : float32[u0, 5000]\n" MAX("amax", "s") REST),
		ROOT(MUL("t, 0.5") "m = aten.sum.dim_IntList(s, [-1], true) : float32[u0, 1]\n" REST),
		ROOT(MUL("t, 0.5") MASK("k", "1.0") MAX("amax", "k") REST),
		ROOT(MUL("t, 0.5") MASK("k", "inf") MAX("amax", "k") REST),
	};
	for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
		Fixture f;
		fixture_init(&f);
		fixture_load(&f, graphs[i])->config.scale_after_max.value = SWITCH_ON;
		const char *before = emitted(&f);
		run_pass(&f, "scale_after_max");
		assert_string_equal(before, emitted(&f));
		fixture_free(&f);
	}
}

/* Ints do not round, and wrap. */
static void ints_stay(void **state) {
	(void)state;
	Fixture f;
	fixture_init(&f);
	fixture_load(&f, "root 0 over [0]\n"
	                 "v = tile.host_tensor('v') : int32[1000]\n"
	                 "t = tile.load(v, [u0]) : int32[u0]\n"
	                 "s = aten.mul.Tensor(t, 3) : int32[u0]\n"
	                 "m = aten.amax.default(s, [0], true) : int32[1]\n"
	                 "d = aten.sub.Tensor(s, m) : int32[u0]\n"
	                 "return\n");
	const char *before = emitted(&f);
	run_pass(&f, "scale_after_max");
	assert_string_equal(before, emitted(&f));
	fixture_free(&f);
}

/* Both are of rank 0: as a tile's number, a float32 scalar would not widen a bfloat16. */
static void a_maximum_of_all_stays(void **state) {
	(void)state;
	Fixture f;
	fixture_init(&f);
	fixture_load(&f, ROOT(MUL("t, 0.5") "m = aten.amax.default(s) : float32[]\n" REST))
		->config.scale_after_max.value = SWITCH_ON;
	const char *before = emitted(&f);
	run_pass(&f, "scale_after_max");
	assert_string_equal(before, emitted(&f));
	fixture_free(&f);
}

/* Helion's attention: the scale is a scalar whose value the graph gives; through the mask that Helion writes. */
static void attention_takes_the_maximum_of_the_matmul(void **state) {
	(void)state;
	static const char *const names[] = {"const_fold", "cse", "scale_after_max"};
	static const struct {
		Switch asked;
		LoopType loop;
		bool moves;
	} rows[] = {{SWITCH_AUTO, LOOP_UNROLL, true},
	            {SWITCH_AUTO, LOOP_FORI, false},
	            {SWITCH_AUTO, LOOP_DEFAULT, false},
	            {SWITCH_ON, LOOP_EMIT_PIPELINE, true},
	            {SWITCH_OFF, LOOP_UNROLL, false}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		Fixture f;
		fixture_init(&f);
		Module *m = graph_load(&f, "attention", NULL, NULL);
		m->config.scale_after_max.value = (int)rows[i].asked;
		m->config.loop_type.value = (int)rows[i].loop;
		PassContext c = {.module = m, .diag = &f.diag, .arena = &f.arena, .explain = true};
		run_or_fail(&f, &c, names, 3);
		NodeId mask = node_input(m, named(m, "amax"), 0);
		assert_int_equal(node_input(m, mask, 0), named(m, rows[i].moves ? "bmm" : "scores"));
		assert_int_equal(remarked(&c, "amax is the maximum of bmm, scaled"), rows[i].moves);
		assert_int_equal(remarked(&c, "amax stays of what is scaled, scores: it is not in an unrolled loop"),
		                 rows[i].asked == SWITCH_AUTO && !rows[i].moves);
		fixture_free(&f);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_maximum_is_scaled),
		cmocka_unit_test(a_product_without_other_users_goes),
		cmocka_unit_test(a_mask_masks_what_is_not_scaled),
		cmocka_unit_test(scales_in_a_row),
		cmocka_unit_test(what_would_not_be_exact_stays),
		cmocka_unit_test(ints_stay),
		cmocka_unit_test(a_maximum_of_all_stays),
		cmocka_unit_test(attention_takes_the_maximum_of_the_matmul),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
