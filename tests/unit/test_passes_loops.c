/* test_passes_loops.c - loop_types and block_constraints. */

/* The documents are laid out by hand. */
/* clang-format off */
#include "passes_fixture.h"

#define TUPLE1(shape) "\"meta\": {\"tuple\": [{\"dtype\": \"float32\", \"shape\": [" shape "]}]}"
#define FULL(name, shape) NODE(name, "tile.full", "[" shape "], 0.0, {\"dtype\": \"float32\"}", "\"u0\"")

/* ---- facts ------------------------------------------------------------------------------------------------------- */

/* A loop over u1 to tile.end(u0) that adds up x. */
static const char computed_end[] =
	"{\"id\": 0, \"kind\": \"for_loop\", \"block_ids\": [1], \"carried\": [[0, 0]], \"nodes\": ["
	PLACEHOLDER("acc", "\"u0\"") "," HOST("x", "x", "1000, 5000") ","
	NODE("t", "tile.load", REF("x") ", [" U0 ", " U1 "]", "\"u0\", \"u1\"") ","
	NODE("s", "aten.sum.dim_IntList", REF("t") ", [1]", "\"u0\"") ","
	NODE("a", "aten.add.Tensor", REF("acc") ", " REF("s"), "\"u0\"") "," OUTPUT(REF("a")) "]},"
	"{\"id\": 1, \"kind\": \"root\", \"grid\": [0], \"nodes\": [" FULL("z", U0) ","
	"{\"name\": \"stop\", \"target\": \"tile.end\", \"args\": [\"u0\"], \"meta\": {\"sym\": null}},"
	"{\"name\": \"l\", \"target\": \"tile.for_loop\", \"args\": [0, [0], [" REF("stop") "], [" REF("z") "]], "
	TUPLE1("\"u0\"") "}," NODE("r", "getitem", REF("l") ", 0", "\"u0\"") ","
	HOST("o", "sums", "1000") "," STORE("st", "o", U0, "r") "," OUTPUT("") "]}";

static void computed_bounds_exclude_unroll(void **state) {
	(void)state;
	Fixture f;
	fixture_init(&f);
	Module *m = fixture_load(&f, computed_end);
	PassContext c = run_pass(&f, "loop_types");
	const LoopFact *fact = &m->loop_facts[0];
	assert_int_equal(fact->legal, 1 << LOOP_FORI | 1 << LOOP_EMIT_PIPELINE);
	assert_string_equal(fact->why_not[LOOP_UNROLL],
			    "the end of 'tile_n' is known only at run time (tile.end 'stop')");
	assert_true(remarked(&c, "graph 0 cannot be lowered as unroll"));
	assert_int_equal(m->loop_facts[1].legal, 0); /* a root is no loop */
	fixture_free(&f);
}

static void alignment_is_each_tensors_own(void **state) {
	(void)state;
	Fixture f;
	fixture_init(&f);
	Module *m = fixture_load(&f, computed_end);
	run_pass(&f, "block_constraints");
	const int64_t *x = m->alignments[tensor_find(m, "x")].dim, *h = m->alignments[tensor_find(m, "h")].dim;
	assert_int_equal(x[0], 8);
	assert_int_equal(x[1], 128);
	assert_int_equal(h[0], 8); /* bfloat16: the same rule */
	assert_int_equal(h[1], 128);
	assert_int_equal(m->alignments[tensor_find(m, "sums")].dim[0], 128);
	assert_int_equal(m->element_limits.count, 0); /* no TPU has a cap */
	fixture_free(&f);
}

static void limits_elements_where_the_target_does(void **state) {
	(void)state;
	Fixture f;
	fixture_init(&f);
	Module *m = fixture_load(&f, computed_end);
	Target capped = *m->target;
	capped.max_tile_elements = 1 << 20;
	m->target = &capped;
	run_pass(&f, "block_constraints");
	assert_int_equal(m->element_limits.count, 2); /* u0 and u0 * u1, once each */
	assert_string_equal(expr_string(m, m->element_limits.at[1].elements), "u0 * u1");
	assert_int_equal(m->element_limits.at[1].most, 1 << 20);
	assert_non_null(strstr(emitted(&f), "\"element_limits\": [{\"elements\": \"u0\", \"most\": 1048576}, {\"elements\": "
						"\"u0 * u1\", \"most\": 1048576}]"));
	fixture_free(&f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(computed_bounds_exclude_unroll),
		cmocka_unit_test(alignment_is_each_tensors_own),
		cmocka_unit_test(limits_elements_where_the_target_does),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
