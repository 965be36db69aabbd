/* test_inloop_loads.c - which loads sink into which loops, what keeps them out, and where the originals go. */

#include "passes_fixture.h"

/* Beside the fixture's tensors: the input `mean`, the output `extra`, and `alias`, a view of `sums`. */
static const char more_tensors[] = "tensor mean input float32[1000]\n"
				   "tensor extra output float32[1000]\n"
				   "tensor alias view float32[1000] \"of\": \"sums\"\n";

#define LOOP(id, block, nodes) "for_loop " id " over [" block "]\nq : float32[u0]\n" nodes "return\n"
#define ROOT(id, nodes) "root " id " over [0]\n" nodes "return\n"
#define CALL(name, graph, args) name " = tile.for_loop(" graph ", [0], [5000], [" args "]) : ()\n"
#define HOST(name, tensor) name " = tile.host_tensor('" tensor "') : float32[1000]\n"
#define READ(name, tensor) HOST(name "_host", tensor) name " = tile.load(" name "_host, [u0]) : float32[u0]\n"
#define WRITE(name, tensor, value) HOST(name "_host", tensor) name " = tile.store(" name "_host, [u0], " value ")\n"
#define ATOMIC(name, tensor, value)                                                                                    \
	HOST(name "_host", tensor) name " = tile.atomic_add(" name "_host, [u0], " value ") : float32[u0]\n"
/* Stores its argument q to `extra`. */
#define USER_LOOP(id, also) LOOP(id, "1", also WRITE("st", "extra", "q"))
/* Runs zero times or for ever. */
#define WHILE_GRAPHS                                                                                                   \
	"while 8 carry [[0, 0]]\np : float32[u0]\nreturn p\n"                                                          \
	"cond 9\np : float32[u0]\nt = eq(0, 1) : sym bool\nreturn t\n"
#define EXP "e = aten.exp.default(q) : float32[u0]\n"
#define WHILE(value) "w = tile.while(9, 8, [" value "]) : (float32[u0])\n"

static PassContext sink(Fixture *f, const char *graphs, Switch choice) {
	fixture_init(f);
	Module *m = fixture_load(f, arena_printf(&f->arena, "%s%s", more_tensors, graphs));
	m->config.inloop_loads.value = (int)choice;
	PassContext c = run_pass(f, "inloop_loads");
	assert_idempotent(f, "inloop_loads");
	return c;
}

/* Graph g holds exactly these nodes, in this order; `names` ends each with a space. */
static void assert_nodes(Fixture *f, GraphId g, const char *names) {
	Text out;
	text_init(&out, &f->arena);
	for (NodeId n = graph_first(f->module, g); n != NONE; n = node_get(f->module, n)->next)
		text_printf(&out, "%s ", node_get(f->module, n)->name);
	assert_string_equal(out.at, names);
}

static void assert_sinks(const char *graphs, Switch choice) {
	Fixture f;
	sink(&f, graphs, choice);
	assert_int_equal(graph_get(f.module, 0)->placeholders.count, 0);
	assert_int_equal(count_op(f.module, 0, OP_LOAD), 1);
	fixture_free(&f);
}

static void assert_stays(const char *graphs, Switch choice, const char *why) {
	Fixture f;
	PassContext c = sink(&f, graphs, choice);
	assert_int_equal(graph_get(f.module, 0)->placeholders.count, 1);
	assert_int_equal(count_op(f.module, 0, OP_LOAD), 0);
	if (!remarked(&c, why))
		fail_msg("no remark says: %s", why);
	fixture_free(&f);
}

/* ---- what sinks -------------------------------------------------------------------------------------------------- */

#define SIMPLE(loaded, inside, between) USER_LOOP("0", inside) ROOT("1", READ("q", loaded) between CALL("l", "0", "q"))

static void a_plain_load_sinks(void **state) {
	(void)state;
	Fixture f;
	PassContext c = sink(&f, SIMPLE("mean", "", ""), SWITCH_AUTO);
	assert_nodes(&f, 0, "q_host q st_host st output ");
	assert_nodes(&f, 1, "l output "); /* neither the load nor the name of its tensor is left */
	assert_true(remarked(&c, "'q' is read at the start of graph 0: a view of the block in VMEM"));
	fixture_free(&f);
	assert_sinks(SIMPLE("mean", "", ""), SWITCH_ON);
	assert_stays(SIMPLE("mean", "", ""), SWITCH_OFF, "pallas_inloop_loads is off");
}

#define SCALED                                                                                                         \
	USER_LOOP("0", "")                                                                                             \
	ROOT("1", READ("k", "mean") "q = aten.mul.Tensor(k, 2.0) : float32[u0]\n" CALL("l", "0", "q"))

/* It would run on each step: only `on` does that. */
static void arithmetic_sinks_when_asked(void **state) {
	(void)state;
	assert_stays(SCALED, SWITCH_AUTO, "each step would compute it again: 'q'");
	Fixture f;
	PassContext c = sink(&f, SCALED, SWITCH_ON);
	assert_nodes(&f, 0, "k_host k q st_host st output ");
	assert_nodes(&f, 1, "l output ");
	assert_true(remarked(&c, "computed from a view of the block in VMEM"));
	fixture_free(&f);
}

/* The ints of an address come along. */
static void a_computed_position_sinks(void **state) {
	(void)state;
	static const char graphs[] = LOOP("0", "1", WRITE("st", "extra", "q"))
		ROOT("1", "b = tile.begin('u0') : sym\n"
	                  "at = add(b, 1) : sym\n"
	                  "x = tile.host_tensor('x') : float32[1000, 5000]\n"
	                  "q = tile.load(x, [u0, at]) : float32[u0]\n" CALL("l", "0", "q"));
	Fixture f;
	sink(&f, graphs, SWITCH_AUTO);
	assert_nodes(&f, 0, "b at x q st_host st output ");
	assert_int_equal(count_op(f.module, 1, OP_LOAD), 0);
	fixture_free(&f);
}

/* Writes before the load and behind the loop change nothing. */
static void writes_elsewhere_do_not_matter(void **state) {
	(void)state;
	static const char graphs[] =
		USER_LOOP("0", "") ROOT("1", READ("m", "mean") WRITE("w1", "sums", "m") READ("q", "sums")
	                                             CALL("l", "0", "q") WRITE("w2", "sums", "m"));
	assert_sinks(graphs, SWITCH_AUTO);
}

/* ---- what stays -------------------------------------------------------------------------------------------------- */

static void never_across_a_write(void **state) {
	(void)state;
	static const char inside[] = "the loop writes the tensor of the load 'q'";
	static const char between[] = "the tensor is written between the loop and the load 'q'";
	assert_stays(SIMPLE("sums", WRITE("w", "sums", "q"), ""), SWITCH_ON, inside);
	assert_stays(SIMPLE("sums", WRITE("w", "alias", "q"), ""), SWITCH_ON, inside);
	assert_stays(SIMPLE("alias", WRITE("w", "sums", "q"), ""), SWITCH_ON, inside);
	assert_stays(SIMPLE("alias", WRITE("w", "alias", "q"), ""), SWITCH_ON, inside);
	assert_stays(SIMPLE("sums", ATOMIC("w", "sums", "q"), ""), SWITCH_ON, inside);
	assert_stays(SIMPLE("sums", ATOMIC("w", "alias", "q"), ""), SWITCH_ON, inside);
	assert_stays(SIMPLE("sums", "", WRITE("w", "sums", "q")), SWITCH_ON, between);
	assert_stays(SIMPLE("sums", "", WRITE("w", "alias", "q")), SWITCH_ON, between);
	assert_stays(SIMPLE("alias", "", WRITE("w", "sums", "q")), SWITCH_ON, between);
	assert_stays(SIMPLE("alias", "", ATOMIC("w", "sums", "q")), SWITCH_ON, between);
}

static void never_across_a_loop_that_writes(void **state) {
	(void)state;
	static const char graphs[] = USER_LOOP("0", "") LOOP("1", "1", WRITE("w", "alias", "q"))
		ROOT("2", READ("z", "mean") READ("q", "sums") CALL("between", "1", "z") CALL("l", "0", "q"));
	assert_stays(graphs, SWITCH_ON, "the tensor is written between the loop and the load 'q'");
}

static void never_over_a_while(void **state) {
	(void)state;
	assert_stays(SIMPLE("mean", "", WHILE("q")) WHILE_GRAPHS, SWITCH_ON, "a while runs between");
	assert_stays(SIMPLE("mean", WHILE("q"), "") WHILE_GRAPHS, SWITCH_ON, "a while runs between");
}

/* In the loop the same symbol is another tile. */
static void never_where_the_loop_iterates_its_block(void **state) {
	(void)state;
	static const char graphs[] =
		LOOP("0", "0", WRITE("st", "extra", "q")) ROOT("1", READ("q", "mean") CALL("l", "0", "q"));
	assert_stays(graphs, SWITCH_ON, "the loop iterates the block of 'q'");
}

static void a_masked_load_stays(void **state) {
	(void)state;
	static const char graphs[] = USER_LOOP("0", "")
		ROOT("1", READ("m", "mean") "g = aten.gt.Scalar(m, 0.0) : bool[u0]\n"
	                                    "h = tile.host_tensor('mean') : float32[1000]\n"
	                                    "q = tile.load(h, [u0], g) : float32[u0]\n" CALL("l", "0", "q"));
	assert_stays(graphs, SWITCH_ON, "a mask computed outside guards the load 'q'");
}

/* ---- other users ------------------------------------------------------------------------------------------------- */

/* Each of two loops in sequence has its own view, and between them nothing holds it. */
static void two_loops_read_it_twice(void **state) {
	(void)state;
	static const char graphs[] = USER_LOOP("0", "") USER_LOOP("1", "")
		ROOT("2", READ("q", "mean") CALL("l", "0", "q") CALL("k", "1", "q"));
	Fixture f;
	sink(&f, graphs, SWITCH_AUTO);
	assert_nodes(&f, 0, "q_host q st_host st output ");
	assert_nodes(&f, 1, "q_host q st_host st output ");
	assert_nodes(&f, 2, "l k output ");
	fixture_free(&f);
}

/* What uses it later reads it behind the loop; what used it before still does. */
static void later_users_read_it_again(void **state) {
	(void)state;
	static const char later[] =
		USER_LOOP("0", "") ROOT("1", READ("q", "mean") CALL("l", "0", "q") EXP WRITE("w", "sums", "e"));
	Fixture f;
	sink(&f, later, SWITCH_AUTO);
	assert_nodes(&f, 0, "q_host q st_host st output ");
	assert_nodes(&f, 1, "q_host l q e w_host w output ");
	fixture_free(&f);
	static const char earlier[] =
		USER_LOOP("0", "") ROOT("1", READ("q", "mean") EXP WRITE("w", "sums", "e") CALL("l", "0", "q"));
	sink(&f, earlier, SWITCH_AUTO);
	assert_nodes(&f, 0, "q_host q st_host st output ");
	assert_nodes(&f, 1, "q_host q e w_host w l output ");
	fixture_free(&f);
}

/* A store behind the loop that comes before the later user: the load stays in front of it. */
static void a_later_load_stays_before_the_store(void **state) {
	(void)state;
	static const char graphs[] =
		USER_LOOP("0", "") USER_LOOP("1", "") ROOT("2", READ("q", "sums") CALL("l", "0", "q") READ("m", "mean")
	                                                                WRITE("w", "alias", "m") CALL("k", "1", "q"));
	Fixture f;
	PassContext c = sink(&f, graphs, SWITCH_ON);
	assert_nodes(&f, 0, "q_host q st_host st output ");
	assert_nodes(&f, 1, "q st_host st output ");
	assert_nodes(&f, 2, "q_host l q m_host m w_host w k output ");
	assert_true(remarked(&c, "'q' stays an argument of graph 1: the tensor is written between"));
	fixture_free(&f);
}

/* ---- nests ------------------------------------------------------------------------------------------------------- */

#define OUTER(id, inner, also) LOOP(id, "1", also "n = tile.for_loop(" inner ", [0], [64], [q]) : ()\n")

static void goes_to_the_innermost_that_uses_it(void **state) {
	(void)state;
	static const char graphs[] =
		LOOP("0", "4", WRITE("st", "extra", "q")) LOOP("1", "3", "i = tile.for_loop(0, [0], [64], [q]) : ()\n")
			OUTER("2", "1", "") ROOT("3", READ("q", "mean") CALL("l", "2", "q"));
	Fixture f;
	sink(&f, graphs, SWITCH_AUTO);
	assert_nodes(&f, 0, "q_host q st_host st output ");
	assert_nodes(&f, 1, "i output ");
	assert_nodes(&f, 2, "n output ");
	assert_nodes(&f, 3, "l output ");
	fixture_free(&f);
}

static void both_loops_of_a_nest_read_it(void **state) {
	(void)state;
	static const char graphs[] = LOOP("0", "4", WRITE("st", "extra", "q")) OUTER("1", "0", WRITE("w", "sums", "q"))
		ROOT("2", READ("q", "mean") CALL("l", "1", "q"));
	Fixture f;
	sink(&f, graphs, SWITCH_AUTO);
	assert_nodes(&f, 0, "q_host q st_host st output ");
	assert_nodes(&f, 1, "q_host q w_host w n output ");
	assert_nodes(&f, 2, "l output ");
	fixture_free(&f);
}

/* The outer loop writes the tensor after the inner one: it sinks no further than where it is loaded. */
static void an_outer_write_stops_it_there(void **state) {
	(void)state;
	static const char graphs[] = LOOP("0", "4", WRITE("st", "extra", "q")) OUTER("1", "0", WRITE("w", "sums", "q"))
		ROOT("2", READ("q", "sums") CALL("l", "1", "q"));
	Fixture f;
	PassContext c = sink(&f, graphs, SWITCH_ON);
	assert_nodes(&f, 2, "q_host q l output ");
	assert_true(remarked(&c, "'q' stays an argument of graph 1: the loop writes the tensor"));
	assert_true(remarked(&c, "'q' stays an argument of graph 0: it is computed by 'q'"));
	fixture_free(&f);
}

/* ---- real graphs ------------------------------------------------------------------------------------------------- */

static Module *load_graph(Fixture *f, const char *name, const char *loop_type) {
	fixture_init(f);
	graph_load(f, name, NULL, NULL);
	assert_true(config_set(f->module, &f->diag, loop_type));
	assert_true(module_configure(f->module, &f->diag));
	PassContext c = {.module = f->module, .diag = &f->diag, .arena = &f->arena};
	run_or_fail(f, &c, NULL, 0);
	return f->module;
}

static const char *graphs_without_locations(Fixture *f) {
	for (NodeId n = 0; n < f->module->nodes.count; n++)
		node_get(f->module, n)->loc = (Location){0};
	const char *text = emitted(f), *end = strstr(text, "\"config\"");
	const char *first = strstr(text, "\"graphs\"");
	return arena_printf(&f->arena, "%.*s", (int)(end - first), first);
}

/* Q loaded before the loop or in it: one Module. tests/passes/test_inloop_loads.py compares what is printed. */
static void attention_is_one_module(void **state) {
	(void)state;
	static const char *const types[] = {"pallas_loop_type=unroll", "pallas_loop_type=fori_loop",
	                                    "pallas_loop_type=emit_pipeline"};
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		Fixture a, b;
		load_graph(&a, "attention", types[i]);
		load_graph(&b, "attention_q_inloop", types[i]);
		assert_string_equal(graphs_without_locations(&a), graphs_without_locations(&b));
		fixture_free(&a);
		fixture_free(&b);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_plain_load_sinks),
		cmocka_unit_test(arithmetic_sinks_when_asked),
		cmocka_unit_test(a_computed_position_sinks),
		cmocka_unit_test(writes_elsewhere_do_not_matter),
		cmocka_unit_test(never_across_a_write),
		cmocka_unit_test(never_across_a_loop_that_writes),
		cmocka_unit_test(never_over_a_while),
		cmocka_unit_test(never_where_the_loop_iterates_its_block),
		cmocka_unit_test(a_masked_load_stays),
		cmocka_unit_test(two_loops_read_it_twice),
		cmocka_unit_test(later_users_read_it_again),
		cmocka_unit_test(a_later_load_stays_before_the_store),
		cmocka_unit_test(goes_to_the_innermost_that_uses_it),
		cmocka_unit_test(both_loops_of_a_nest_read_it),
		cmocka_unit_test(an_outer_write_stops_it_there),
		cmocka_unit_test(attention_is_one_module),
	};
	return cmocka_run_group_tests_name("inloop_loads", tests, NULL, NULL);
}
