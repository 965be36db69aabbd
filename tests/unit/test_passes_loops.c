/* test_passes_loops.c - loop_types, block_constraints and pre_broadcast. */

/* The documents are laid out by hand. */
/* clang-format off */
#include "passes_fixture.h"

#include <stdio.h>

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

/* ---- pre_broadcast ----------------------------------------------------------------------------------------------- */

/* running += sum(x); acc += running[:, None]; after the loop out = acc * rsqrt(running[:, None] + 1), sums = running */
static const char *outer_chain(Fixture *f, const char *width) {
	const char *pattern =
		"{\"id\": 0, \"kind\": \"for_loop\", \"block_ids\": [1], \"carried\": [[0, 0], [1, 1]], \"nodes\": ["
		PLACEHOLDER("running", "\"u0\"") "," PLACEHOLDER("acc", "\"u0\", W") ","
		HOST("x", "x", "1000, 5000") "," NODE("t", "tile.load", REF("x") ", [" U0 ", " U1 "]", "\"u0\", \"u1\"") ","
		NODE("s", "aten.sum.dim_IntList", REF("t") ", [-1]", "\"u0\"") ","
		NODE("r1", "aten.add.Tensor", REF("running") ", " REF("s"), "\"u0\"") ","
		NODE("c", "tile.subscript", REF("r1") ", [" ALL ", null]", "\"u0\", 1") ","
		NODE("a1", "aten.add.Tensor", REF("acc") ", " REF("c"), "\"u0\", W") ","
		OUTPUT(REF("r1") ", " REF("a1")) "]},"
		"{\"id\": 1, \"kind\": \"root\", \"grid\": [0], \"nodes\": [" FULL("z", U0) ","
		NODE("y", "tile.full", "[" U0 ", W], 0.0, {\"dtype\": \"float32\"}", "\"u0\", W") ","
		"{\"name\": \"l\", \"target\": \"tile.for_loop\", \"args\": [0, [0], [5000], [" REF("z") ", " REF("y")
		"]], \"meta\": {\"tuple\": [{\"dtype\": \"float32\", \"shape\": [\"u0\"]}, {\"dtype\": \"float32\","
		" \"shape\": [\"u0\", W]}]}}," NODE("r", "getitem", REF("l") ", 0", "\"u0\"") ","
		NODE("a", "getitem", REF("l") ", 1", "\"u0\", W") ","
		NODE("c", "tile.subscript", REF("r") ", [" ALL ", null]", "\"u0\", 1") ","
		NODE("p", "aten.add.Tensor", REF("c") ", 1.0", "\"u0\", 1") ","
		NODE("scale", "aten.rsqrt.default", REF("p"), "\"u0\", 1") ","
		NODE("m", "aten.mul.Tensor", REF("a") ", " REF("scale"), "\"u0\", W") ","
		NODE("q", "aten.sum.dim_IntList", REF("m") ", [1]", "\"u0\"") ","
		NODE("w", "aten.log2.default", REF("r"), "\"u0\"") ","
		NODE("v", "aten.add.Tensor", REF("q") ", " REF("w"), "\"u0\"") ","
		HOST("o", "sums", "1000") "," STORE("st", "o", U0, "v") "," OUTPUT("") "]}";
	Text out;
	text_init(&out, &f->arena);
	for (const char *at = pattern; *at; at++) {
		if (*at == 'W')
			text_put(&out, width);
		else
			text_putn(&out, at, 1);
	}
	return out.at;
}

static Module *pre_broadcast(Fixture *f, const char *width, Choice choice, PassContext *c) {
	fixture_init(f);
	Module *m = fixture_load(f, outer_chain(f, width));
	m->config.pre_broadcast.value = (int)choice;
	*c = run_pass(f, "pre_broadcast");
	return m;
}

static void widens_the_chain(void **state) {
	(void)state;
	Fixture f;
	PassContext c;
	Module *m = pre_broadcast(&f, "256", CHOICE_ON, &c);
	assert_string_equal(type_of(m, 0, "running"), "float32[u0, 128]");
	assert_string_equal(type_of(m, 0, "r1"), "float32[u0, 128]");
	assert_string_equal(type_of(m, 0, "s"), "float32[u0, 1]"); /* keepdim */
	assert_string_equal(type_of(m, 1, "z"), "float32[u0, 128]");
	assert_string_equal(type_of(m, 1, "scale"), "float32[u0, 128]");
	assert_int_equal(graph_node(m, 0, "c"), NONE);
	/* One tile node in each graph, where the narrow chain ends. */
	assert_int_equal(count_op(m, 0, OP_PRE_BROADCAST_TILE), 1);
	assert_int_equal(count_op(m, 1, OP_PRE_BROADCAST_TILE), 1);
	NodeId inner = node_input(m, graph_node(m, 0, "a1"), 1), outer = node_input(m, graph_node(m, 1, "m"), 1);
	assert_int_equal(node_get(m, inner)->op, OP_PRE_BROADCAST_TILE);
	assert_int_equal(node_input(m, inner, 0), graph_node(m, 0, "r1"));
	assert_int_equal(node_input(m, outer, 0), graph_node(m, 1, "scale"));
	/* Without an unsqueeze: on 128 lanes to the store, and narrow there. */
	assert_string_equal(type_of(m, 1, "v"), "float32[u0, 128]");
	NodeId stored = node_input(m, graph_node(m, 1, "st"), 2);
	assert_int_equal(node_get(m, stored)->op, OP_SELECT);
	assert_int_equal(count_op(m, 1, OP_SELECT), 1);
	assert_idempotent(&f, "pre_broadcast");
	fixture_free(&f);
}

static void needs_no_tile_at_128(void **state) {
	(void)state;
	Fixture f;
	PassContext c;
	Module *m = pre_broadcast(&f, "128", CHOICE_ON, &c);
	assert_string_equal(type_of(m, 0, "running"), "float32[u0, 128]");
	assert_int_equal(count_op(m, 0, OP_PRE_BROADCAST_TILE), 0);
	assert_int_equal(count_op(m, 1, OP_PRE_BROADCAST_TILE), 0);
	assert_idempotent(&f, "pre_broadcast");
	fixture_free(&f);
}

static void refuses_other_widths(void **state) {
	(void)state;
	static const char *const widths[] = {"64", "96", "320"};
	for (size_t i = 0; i < 3; i++) {
		Fixture f;
		PassContext c;
		Module *m = pre_broadcast(&f, widths[i], CHOICE_ON, &c);
		assert_string_equal(type_of(m, 0, "running"), "float32[u0]");
		assert_true(remarked(&c, "no multiple of 128"));
		fixture_free(&f);
	}
}

static void is_off_unless_asked_for(void **state) {
	(void)state;
	for (Choice choice = CHOICE_AUTO; choice <= CHOICE_OFF; choice++) {
		Fixture f;
		PassContext c;
		if (choice == CHOICE_ON)
			continue;
		Module *m = pre_broadcast(&f, "256", choice, &c);
		assert_string_equal(type_of(m, 0, "running"), "float32[u0]");
		assert_int_equal(c.remarks.count, 1);
		fixture_free(&f);
	}
}

/* ---- real graphs ------------------------------------------------------------------------------------------------- */

/* The graphs that Helion made, where the tests run at the root of the repository. */
static bool load_graph(Fixture *f, const char *name) {
	const char *path = arena_printf(&f->arena, "testdata/graphs/%s.json", name);
	FILE *file = fopen(path, "rb");
	if (!file)
		return false;
	char *text = arena_alloc(&f->arena, 1 << 20);
	size_t length = fread(text, 1, (1 << 20) - 1, file);
	fclose(file);
	f->source = (Source){path, text, length};
	f->module = module_load(&f->arena, &f->diag, &f->source, target_find("v7x"));
	assert_non_null(f->module);
	assert_true(module_configure(f->module, &f->diag));
	return true;
}

static void run_all(Fixture *f) {
	PassContext c = {.module = f->module, .diag = &f->diag, .arena = &f->arena};
	run_or_fail(f, &c, NULL, 0);
}

static void attention_narrows_at_no_cost(void **state) {
	(void)state;
	Fixture f;
	fixture_init(&f);
	if (!load_graph(&f, "attention_b1_h2_s384_d256"))
		skip();
	f.module->config.pre_broadcast.value = CHOICE_ON;
	run_all(&f);
	assert_int_equal(count_op(f.module, 0, OP_PRE_BROADCAST_TILE), 1); /* acc * alpha */
	assert_int_equal(count_op(f.module, 1, OP_PRE_BROADCAST_TILE), 1); /* the division by l */
	assert_int_equal(count_op(f.module, 1, OP_SELECT), 1);             /* lse */
	assert_int_equal(count_op(f.module, 0, OP_SUBSCRIPT) + count_op(f.module, 0, OP_UNSQUEEZE), 0);
	fixture_free(&f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(computed_bounds_exclude_unroll),
		cmocka_unit_test(alignment_is_each_tensors_own),
		cmocka_unit_test(limits_elements_where_the_target_does),
		cmocka_unit_test(widens_the_chain),
		cmocka_unit_test(needs_no_tile_at_128),
		cmocka_unit_test(refuses_other_widths),
		cmocka_unit_test(is_off_unless_asked_for),
		cmocka_unit_test(attention_narrows_at_no_cost),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
