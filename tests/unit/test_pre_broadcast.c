/* test_pre_broadcast.c - which values pre_broadcast spreads, and where it leaves tile nodes. */

#include "passes_fixture.h"

/* ---- the chain, by hand
 * ----------------------------------------------------------------------------------------------- */

/* running += sum(x); acc += running[:, None]; after the loop out = acc * rsqrt(running[:, None] + 1), sums = running */
static const char *outer_chain(Fixture *f, const char *width) {
	const char *pattern = "for_loop 0 over [1] carry [[0, 0], [1, 1]]\n"
			      "running : float32[u0]\n"
			      "acc : float32[u0, W]\n"
			      "x = tile.host_tensor('x') : float32[1000, 5000]\n"
			      "t = tile.load(x, [u0, u1]) : float32[u0, u1]\n"
			      "s = aten.sum.dim_IntList(t, [-1]) : float32[u0]\n"
			      "r1 = aten.add.Tensor(running, s) : float32[u0]\n"
			      "c = tile.subscript(r1, [:, null]) : float32[u0, 1]\n"
			      "a1 = aten.add.Tensor(acc, c) : float32[u0, W]\n"
			      "return r1, a1\n"
			      "root 1 over [0]\n"
			      "z = tile.full([u0], 0.0, float32) : float32[u0]\n"
			      "y = tile.full([u0, W], 0.0, float32) : float32[u0, W]\n"
			      "l = tile.for_loop(0, [0], [5000], [z, y]) : (float32[u0], float32[u0, W])\n"
			      "r = getitem(l, 0) : float32[u0]\n"
			      "a = getitem(l, 1) : float32[u0, W]\n"
			      "c = tile.subscript(r, [:, null]) : float32[u0, 1]\n"
			      "p = aten.add.Tensor(c, 1.0) : float32[u0, 1]\n"
			      "scale = aten.rsqrt.default(p) : float32[u0, 1]\n"
			      "m = aten.mul.Tensor(a, scale) : float32[u0, W]\n"
			      "q = aten.sum.dim_IntList(m, [1]) : float32[u0]\n"
			      "w = aten.log2.default(r) : float32[u0]\n"
			      "v = aten.add.Tensor(q, w) : float32[u0]\n"
			      "o = tile.host_tensor('sums') : float32[1000]\n"
			      "st = tile.store(o, [u0], v)\n"
			      "return\n";
	return replaced(&f->arena, pattern, "W", width);
}

static Module *pre_broadcast(Fixture *f, const char *width, Switch choice, PassContext *c) {
	fixture_init(f);
	Module *m = fixture_load(f, outer_chain(f, width));
	m->config.pre_broadcast.value = (int)choice;
	*c = run_pass(f, "pre_broadcast");
	return m;
}

static void spreads_the_chain(void **state) {
	(void)state;
	Fixture f;
	PassContext c;
	Module *m = pre_broadcast(&f, "256", SWITCH_ON, &c);
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
	assert_true(m->settled); /* 256 lanes were asked for, 128 meet them */
	assert_idempotent(&f, "pre_broadcast");
	fixture_free(&f);
}

static void needs_no_tile_at_128(void **state) {
	(void)state;
	Fixture f;
	PassContext c;
	Module *m = pre_broadcast(&f, "128", SWITCH_ON, &c);
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
		Module *m = pre_broadcast(&f, widths[i], SWITCH_ON, &c);
		assert_string_equal(type_of(m, 0, "running"), "float32[u0]");
		assert_true(remarked(&c, "no multiple of 128"));
		assert_false(m->settled);
		fixture_free(&f);
	}
}

static void is_off_where_asked(void **state) {
	(void)state;
	Fixture f;
	PassContext c;
	Module *m = pre_broadcast(&f, "256", SWITCH_OFF, &c);
	assert_string_equal(type_of(m, 0, "running"), "float32[u0]");
	assert_int_equal(c.remarks.count, 1);
	fixture_free(&f);
}

/* By itself it spreads where steps pass values on in memory. */
static void chooses_by_the_loop_type(void **state) {
	(void)state;
	for (LoopType type = LOOP_DEFAULT; type <= LOOP_EMIT_PIPELINE; type++) {
		Fixture f;
		fixture_init(&f);
		Module *m = fixture_load(&f, outer_chain(&f, "256"));
		m->config.loop_type.value = (int)type;
		PassContext c = run_pass(&f, "pre_broadcast");
		assert_string_equal(type_of(m, 0, "running"), type == LOOP_UNROLL ? "float32[u0]" : "float32[u0, 128]");
		assert_true(remarked(&c, type == LOOP_UNROLL ? "auto: off" : "auto: 'running'"));
		fixture_free(&f);
	}
}

/* running += x[k, m] summed over k, dim 0: nothing but rows. */
static void leaves_rows_to_themselves(void **state) {
	(void)state;
	for (Switch choice = SWITCH_AUTO; choice <= SWITCH_OFF; choice++) {
		Fixture f;
		fixture_init(&f);
		const char *graphs = replaced(&f.arena, outer_chain(&f, "256"), "(t, [-1])", "(t, [0])");
		graphs = replaced(&f.arena, graphs, "(x, [u0, u1]) : float32[u0, u1]",
		                  "(x, [u1, u0]) : float32[u1, u0]");
		Module *m = fixture_load(&f, graphs);
		m->config.pre_broadcast.value = (int)choice;
		PassContext c = run_pass(&f, "pre_broadcast");
		assert_string_equal(type_of(m, 0, "running"), choice == SWITCH_ON ? "float32[u0, 128]" : "float32[u0]");
		if (choice == SWITCH_AUTO)
			assert_true(remarked(&c, "auto: it is made of rows"));
		fixture_free(&f);
	}
}
/* ---- the graphs that Helion made --------------------------------------------------------------------------------- */

/* All passes on a graph of testdata with pallas_pre_broadcast, `from` replaced by `to` in its text. */
static Module *spread(Fixture *f, PassContext *c, const char *name, const char *from, const char *to) {
	fixture_init(f);
	Module *m = graph_load(f, name, from, to);
	m->config.pre_broadcast.value = SWITCH_ON;
	m->config.transposed_scores.value = SWITCH_OFF;
	*c = (PassContext){.module = m, .diag = &f->diag, .arena = &f->arena, .explain = true};
	run_or_fail(f, c, NULL, 0);
	return m;
}

static uint32_t tiles(const Module *m, GraphId g) { return count_op(m, g, OP_PRE_BROADCAST_TILE); }

/* Operand i of the node called `user` is a tile of the value called `of`. */
static void assert_tiled(const Module *m, GraphId g, const char *user, uint32_t i, const char *of) {
	NodeId tile = node_input(m, graph_node(m, g, user), i);
	assert_int_equal(node_get(m, tile)->op, OP_PRE_BROADCAST_TILE);
	assert_string_equal(node_get(m, node_input(m, tile, 0))->name, of);
}

/* Nothing but lane 0 of `of`, as a row, is stored by the node called `store`. */
static void assert_stores_lane_0(const Module *m, GraphId g, const char *store, const char *of) {
	NodeId row = node_input(m, graph_node(m, g, store), 2);
	assert_int_equal(node_get(m, row)->op, OP_SELECT);
	assert_int_equal(node_arg(m, row, 1)->integer, -1);
	assert_int_equal(node_arg(m, row, 2)->integer, 0);
	assert_string_equal(node_get(m, node_input(m, row, 0))->name, of);
}

/* Nothing in graph g adds a dim, spreads a value over lanes or makes one of tiles but the tile nodes. */
static void assert_no_broadcast(const Module *m, GraphId g) {
	assert_int_equal(count_op(m, g, OP_SUBSCRIPT) + count_op(m, g, OP_UNSQUEEZE) + count_op(m, g, OP_EXPAND), 0);
}

/* One tile in the loop, at the add into acc; one after it, at the multiplication, past the rsqrt. */
static void scales_by_a_chain(void **state) {
	(void)state;
	static const char *const wide[] = {", 256]", ", 384]", ", 512]"};
	for (size_t i = 0; i < 3; i++) {
		Fixture f;
		PassContext c;
		Module *m = spread(&f, &c, "outer_chain_scale", ", 256]", wide[i]);
		assert_int_equal(tiles(m, 0), 1);
		assert_tiled(m, 0, "acc_1", 1, "running_1");
		assert_string_equal(type_of(m, 0, "running_1"), "float32[u1, u2, 128]");
		assert_int_equal(tiles(m, 1), 1);
		assert_tiled(m, 1, "mul", 1, "scale");
		assert_string_equal(type_of(m, 1, "add"), "float32[u1, u2, 128]");
		assert_string_equal(type_of(m, 1, "scale"), "float32[u1, u2, 128]");
		assert_no_broadcast(m, 0);
		assert_no_broadcast(m, 1);
		assert_idempotent(&f, "pre_broadcast");
		fixture_free(&f);
	}
}

static void scales_by_a_chain_of_128(void **state) {
	(void)state;
	Fixture f;
	PassContext c;
	Module *m = spread(&f, &c, "outer_chain_scale", ", 256]", ", 128]");
	assert_int_equal(tiles(m, 0) + tiles(m, 1), 0);
	assert_string_equal(node_get(m, node_input(m, graph_node(m, 0, "acc_1"), 1))->name, "running_1");
	assert_string_equal(node_get(m, node_input(m, graph_node(m, 1, "mul"), 1))->name, "scale");
	fixture_free(&f);
	m = spread(&f, &c, "outer_chain_scale_odd", NULL, NULL); /* bfloat16 */
	assert_int_equal(tiles(m, 0) + tiles(m, 1), 0);
	assert_string_equal(type_of(m, 1, "scale"), "bfloat16[u1, u2, 128]");
	fixture_free(&f);
}

static void leaves_other_widths_alone(void **state) {
	(void)state;
	static const struct {
		const char *graph, *from, *to, *width;
	} cases[] = {
		{"outer_chain_scale", ", 256]", ", 64]", "(64)"},
		{"outer_chain_scale", ", 256]", ", 96]", "(96)"},
		{"attention_b1_h3_s421_d64", NULL, NULL, "(64)"},
		{"attention_b1_h2_s421_d96", NULL, NULL, "(96)"},
		{"attention", "[1, 128, 128]", "[1, 128, 64]", "(64)"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		Fixture f;
		PassContext c;
		Module *m = spread(&f, &c, cases[i].graph, cases[i].from, cases[i].to);
		assert_int_equal(tiles(m, 0) + tiles(m, 1) + count_op(m, 1, OP_SELECT), 0);
		assert_true(remarked(&c, "which is no multiple of 128"));
		assert_true(remarked(&c, cases[i].width));
		fixture_free(&f);
	}
}

/* D = 256, blocks of 128: p meets m as it is, acc meets a tile of alpha; the division by l a tile. */
static void attention_of_256(void **state) {
	(void)state;
	Fixture f;
	PassContext c;
	Module *m = spread(&f, &c, "attention_b1_h2_s384_d256", NULL, NULL);
	assert_int_equal(tiles(m, 0), 1);
	assert_tiled(m, 0, "acc_1", 1, "alpha");
	assert_int_equal(tiles(m, 1), 1);
	assert_tiled(m, 1, "div", 1, "getitem_1");
	assert_no_broadcast(m, 0);
	assert_no_broadcast(m, 1);
	fixture_free(&f);
	m = spread(&f, &c, "attention", NULL, NULL); /* D = 128 */
	assert_int_equal(tiles(m, 0) + tiles(m, 1), 0);
	fixture_free(&f);
	m = spread(&f, &c, "attention", "[1, 128, 128]", "[1, 128, 256]");
	assert_int_equal(tiles(m, 0), 1);
	assert_tiled(m, 0, "sub", 1, "m_new");
	assert_int_equal(tiles(m, 1), 0);
	fixture_free(&f);
}

/* lse = m + log2(l): on 128 lanes to the store, and narrow there. */
static void narrows_at_no_cost(void **state) {
	(void)state;
	Fixture f;
	PassContext c;
	Module *m = spread(&f, &c, "attention_b1_h2_s384_d256", NULL, NULL);
	assert_string_equal(type_of(m, 1, "log2"), "float32[u0, u1, 128]");
	assert_string_equal(type_of(m, 1, "add"), "float32[u0, u1, 128]");
	assert_stores_lane_0(m, 1, "store_1", "add");
	assert_int_equal(count_op(m, 1, OP_SELECT), 1);
	fixture_free(&f);
}

/* Reductions that keep their dim, `where` in the loop and after it, and values that are stored as they are. */
static void keeps_columns_wide(void **state) {
	(void)state;
	Fixture f;
	PassContext c;
	Module *m = spread(&f, &c, "attention_columns", NULL, NULL);
	assert_string_equal(type_of(m, 0, "amax"), "float32[u0, u1, 1]");
	assert_string_equal(type_of(m, 0, "lt"), "bool[u0, u1, 128]");
	assert_string_equal(type_of(m, 0, "alpha"), "float32[u0, u1, 128]");
	assert_int_equal(tiles(m, 0), 1);
	assert_tiled(m, 0, "acc_1", 1, "alpha");
	assert_string_equal(type_of(m, 1, "gt"), "bool[u0, u1, 128]");
	assert_int_equal(tiles(m, 1), 2);
	assert_tiled(m, 1, "div", 1, "getitem_1");
	assert_tiled(m, 1, "where", 0, "gt");
	assert_stores_lane_0(m, 1, "store_1", "getitem");
	assert_stores_lane_0(m, 1, "store_2", "getitem_1");
	assert_no_broadcast(m, 0);
	assert_no_broadcast(m, 1);
	assert_idempotent(&f, "pre_broadcast");
	fixture_free(&f);
}

/* Four loops in a row: the second carries on what the first gives, the others read it. */
static void passes_wide_values_on(void **state) {
	(void)state;
	Fixture f;
	PassContext c;
	Module *m = spread(&f, &c, "softmax_of_two", NULL, NULL);
	static const uint32_t expected[] = {0, 1, 0, 2, 0}; /* blocks of 128, 256, 128, 256 */
	for (GraphId g = 0; g < 5; g++) {
		assert_int_equal(tiles(m, g), expected[g]);
		assert_no_broadcast(m, g);
		for (uint32_t i = 0; g < 4 && i < 2; i++) {
			NodeId placeholder = graph_get(m, g)->placeholders.at[i];
			assert_string_equal(type_string(m, node_get(m, placeholder)->type), "float32[u2, 128]");
		}
	}
	assert_tiled(m, 1, "sub_1", 1, "new_top");
	assert_tiled(m, 3, "sub", 1, "top");
	assert_tiled(m, 3, "div", 1, "total");
	assert_stores_lane_0(m, 4, "store", "add");
	assert_int_equal(count_op(m, 4, OP_SELECT), 1);
	assert_idempotent(&f, "pre_broadcast");
	fixture_free(&f);
}

/* In a loop of a loop, bfloat16, and straight into a store. */
static void spreads_through_nested_loops(void **state) {
	(void)state;
	Fixture f;
	PassContext c;
	Module *m = spread(&f, &c, "nested_scale", NULL, NULL);
	assert_string_equal(type_of(m, 0, "running"), "bfloat16[u1, 128]");
	assert_string_equal(type_of(m, 1, "running"), "bfloat16[u1, 128]");
	assert_int_equal(tiles(m, 0), 1);
	assert_tiled(m, 0, "acc_1", 1, "running_1");
	assert_int_equal(tiles(m, 1), 1);
	assert_tiled(m, 1, "acc_1", 1, "rsqrt");
	assert_int_equal(tiles(m, 2), 0);
	assert_stores_lane_0(m, 2, "store_1", "getitem");
	for (GraphId g = 0; g < 3; g++)
		assert_no_broadcast(m, g);
	assert_idempotent(&f, "pre_broadcast");
	fixture_free(&f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spreads_the_chain),         cmocka_unit_test(needs_no_tile_at_128),
		cmocka_unit_test(refuses_other_widths),      cmocka_unit_test(is_off_where_asked),
		cmocka_unit_test(chooses_by_the_loop_type),  cmocka_unit_test(leaves_rows_to_themselves),
		cmocka_unit_test(scales_by_a_chain),         cmocka_unit_test(scales_by_a_chain_of_128),
		cmocka_unit_test(leaves_other_widths_alone), cmocka_unit_test(attention_of_256),
		cmocka_unit_test(narrows_at_no_cost),        cmocka_unit_test(keeps_columns_wide),
		cmocka_unit_test(passes_wide_values_on),     cmocka_unit_test(spreads_through_nested_loops),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
