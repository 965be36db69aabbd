/* test_passes_loops.c - loop_types and block_constraints. */

#include "passes_fixture.h"

/* ---- facts ------------------------------------------------------------------------------------------------------- */

/* A loop over u1 to tile.end(u0) that adds up x. */
static const char computed_end[] = "for_loop 0 over [1] carry [[0, 0]]\n"
				   "acc : float32[u0]\n"
				   "x = tile.host_tensor('x') : float32[1000, 5000]\n"
				   "t = tile.load(x, [u0, u1]) : float32[u0, u1]\n"
				   "s = aten.sum.dim_IntList(t, [1]) : float32[u0]\n"
				   "a = aten.add.Tensor(acc, s) : float32[u0]\n"
				   "return a\n"
				   "root 1 over [0]\n"
				   "z = tile.full([u0], 0.0, float32) : float32[u0]\n"
				   "stop = tile.end('u0') : sym\n"
				   "l = tile.for_loop(0, [0], [stop], [z]) : (float32[u0])\n"
				   "r = getitem(l, 0) : float32[u0]\n"
				   "o = tile.host_tensor('sums') : float32[1000]\n"
				   "st = tile.store(o, [u0], r)\n"
				   "return\n";

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
	assert_non_null(strstr(emitted(&f),
	                       "\"element_limits\": [{\"elements\": \"u0\", \"most\": 1048576}, {\"elements\": "
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
