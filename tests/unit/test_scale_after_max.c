/* test_scale_after_max.c - amax(x * c) as amax(x) * c: where, and above all where not. */

/* The documents are laid out by hand. */
/* clang-format off */
#include "passes_fixture.h"

#define TILE "\"u0\", 5000"
#define LOAD NODE("t", "tile.load", REF("x") ", [" U0 ", " ALL "]", TILE)
#define SCALAR(name) "{\"name\": \"c\", \"target\": \"tile.scalar\", \"args\": [\"" name "\"], \"meta\": {\"dtype\": \"float32\", \"shape\": []}}"
#define MUL(args) NODE("s", "aten.mul.Tensor", args, TILE)
#define MAX(op, of) NODE("m", "aten." op ".default", REF(of) ", [-1], true", "\"u0\", 1")
#define MASK(name, value) NODE(name, "tile.mask_to", REF("s") ", " value, TILE)
#define INF "{\"float\": \"inf\"}"
#define MINUS_INF "{\"float\": \"-inf\"}"
#define REST NODE("d", "aten.sub.Tensor", REF("s") ", " REF("m"), TILE) "," HOST("o", "out", "1000, 5000") "," \
	STORE("st", "o", U0 ", " ALL, "d")
#define ROOT(body) "{\"id\": 0, \"kind\": \"root\", \"grid\": [0], \"nodes\": [" HOST("x", "x", "1000, 5000") "," LOAD "," \
	body "," OUTPUT("") "]}"
/* clang-format on */

static NodeId named(const Module *m, const char *name) {
	NodeId n = graph_node(m, 0, name);
	assert_int_not_equal(n, NONE);
	return n;
}

/* Runs it with pallas_scale_after_max on. */
static PassContext moved(Fixture *f, const char *graphs) {
	fixture_init(f);
	fixture_load(f, graphs)->config.scale_after_max.value = CHOICE_ON;
	return run_pass(f, "scale_after_max");
}

static void the_maximum_is_scaled(void **state) {
	(void)state;
	static const char *const graphs[] = {
		ROOT(MUL(REF("t") ", 0.5") "," MAX("amax", "s") "," REST),
		ROOT(MUL("0.5, " REF("t")) "," MAX("amin", "s") "," REST),
		ROOT(MUL(REF("t") ", 2") "," MAX("amax", "s") "," REST),
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
	moved(&f, ROOT(MUL(REF("t") ", 0.5") "," NODE("m", "aten.amax.default", REF("s") ", [-1]", "\"u0\"") "," HOST(
			  "o", "sums", "1000") "," STORE("st", "o", U0, "m")));
	assert_int_equal(graph_node(f.module, 0, "s"), NONE);
	assert_int_equal(node_input(f.module, named(f.module, "st"), 2), named(f.module, "m_scaled"));
	fixture_free(&f);
}

/* The lanes that the mask fills keep their infinity. */
static void a_mask_masks_what_is_not_scaled(void **state) {
	(void)state;
	Fixture f;
	moved(&f, ROOT(MUL(REF("t") ", 0.5") "," MASK("k", MINUS_INF) "," MAX("amax", "k") "," REST));
	assert_int_equal(node_input(f.module, named(f.module, "k"), 0), named(f.module, "t"));
	assert_int_equal(node_input(f.module, named(f.module, "m"), 0), named(f.module, "k"));
	fixture_free(&f);
	/* Another user of the mask still gets what is scaled. */
	moved(&f, ROOT(MUL(REF("t") ", 0.5") "," MASK("k", INF) "," MAX("amin", "k") "," NODE(
			  "d", "aten.sub.Tensor", REF("k") ", " REF("m"),
			  TILE) "," HOST("o", "out", "1000, 5000") "," STORE("st", "o", U0 ", " ALL, "d")));
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
	moved(&f, ROOT(NODE("s0", "aten.mul.Tensor", REF("t") ", 3.0",
	                    TILE) "," MUL(REF("s0") ", 0.5") "," MAX("amax", "s") "," REST));
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
		ROOT(MUL(REF("t") ", -0.5") "," MAX("amax", "s") "," REST),
		ROOT(MUL(REF("t") ", 0.0") "," MAX("amax", "s") "," REST),
		ROOT(MUL(REF("t") ", 1e-60") "," MAX("amax", "s") "," REST), /* 0 in float32 */
		ROOT(MUL(REF("t") ", 1e60") "," MAX("amax", "s") "," REST),  /* inf */
		ROOT(MUL(REF("t") ", " INF) "," MAX("amax", "s") "," REST),
		ROOT(MUL(REF("t") ", {\"float\": \"nan\"}") "," MAX("amax", "s") "," REST),
		ROOT(SCALAR("scale") "," MUL(REF("t") ", " REF("c")) "," MAX("amax", "s") "," REST), /* at run time */
		ROOT(MUL(REF("t") ", " REF("t")) "," MAX("amax", "s") "," REST),
		ROOT(NODE("s", "aten.add.Tensor", REF("t") ", 0.5", TILE) "," MAX("amax", "s") "," REST),
		ROOT(MUL(REF("t") ", 0.5") "," NODE("m", "aten.sum.dim_IntList", REF("s") ", [-1], true",
	                                            "\"u0\", 1") "," REST),
		ROOT(MUL(REF("t") ", 0.5") "," MASK("k", "1.0") "," MAX("amax", "k") "," REST),
		ROOT(MUL(REF("t") ", 0.5") "," MASK("k", INF) "," MAX("amax", "k") "," REST),
	};
	for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
		Fixture f;
		fixture_init(&f);
		fixture_load(&f, graphs[i])->config.scale_after_max.value = CHOICE_ON;
		const char *before = emitted(&f);
		run_pass(&f, "scale_after_max");
		assert_string_equal(before, emitted(&f));
		fixture_free(&f);
	}
}

/* Ints do not round, and wrap. */
static void ints_stay(void **state) {
	(void)state;
	static const char ints[] = "\"meta\": {\"dtype\": \"int32\", \"shape\": [\"u0\"]}";
	Fixture f;
	fixture_init(&f);
	fixture_load(
		&f, arena_printf(
			    &f.arena,
			    "{\"id\": 0, \"kind\": \"root\", \"grid\": [0], \"nodes\": ["
			    "{\"name\": \"v\", \"target\": \"tile.host_tensor\", \"args\": [\"v\"], \"meta\": "
			    "{\"dtype\": \"int32\", \"shape\": [1000]}},"
			    "{\"name\": \"t\", \"target\": \"tile.load\", \"args\": [" REF(
				    "v") ", [" U0 "]], %s},"
					 "{\"name\": \"s\", \"target\": \"aten.mul.Tensor\", \"args\": [" REF(
						 "t") ", 3], %s},"
						      "{\"name\": \"m\", \"target\": \"aten.amax.default\", \"args\": "
						      "[" REF("s") ", [0], true], \"meta\": {\"dtype\": \"int32\", "
								   "\"shape\": [1]}},"
								   "{\"name\": \"d\", \"target\": \"aten.sub.Tensor\", "
								   "\"args\": [" REF("s") ", " REF(
									   "m") "], %s}," OUTPUT("") "]}",
			    ints, ints, ints));
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
	fixture_load(&f, ROOT(MUL(REF("t") ", 0.5") "," NODE("m", "aten.amax.default", REF("s"), "") "," REST))
		->config.scale_after_max.value = CHOICE_ON;
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
		Choice asked;
		LoopType loop;
		bool moves;
	} rows[] = {{CHOICE_AUTO, LOOP_UNROLL, true},
	            {CHOICE_AUTO, LOOP_FORI, false},
	            {CHOICE_AUTO, LOOP_DEFAULT, false},
	            {CHOICE_ON, LOOP_EMIT_PIPELINE, true},
	            {CHOICE_OFF, LOOP_UNROLL, false}};
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
		                 rows[i].asked == CHOICE_AUTO && !rows[i].moves);
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
