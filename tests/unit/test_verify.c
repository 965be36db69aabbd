/* test_verify.c - module_verify: the example document and variants of it, each wrong in one way. */
#include "module_fixture.h"
#include "src/verify/verify.h"

/* ---- a loop, its call, and what may be wrong with them ----------------------------------------------------------- */

/* A loop that sums x along dim 1, called by a root that stores the sums; the blanks are filled by each test. */
typedef struct Parts {
	const char *carried, *acc_meta, *tile_meta, *loop_output;              /* of the loop */
	const char *first_nodes, *bounds, *loop_args, *loop_meta, *root_nodes; /* of the root */
} Parts;

static const Parts good = {
	.carried = "[[0, 0]]",
	.acc_meta = "float32[u0]",
	.tile_meta = "float32[u0, u1]",
	.loop_output = "acc_1",
	.first_nodes = "",
	.bounds = "[0], [5000]",
	.loop_args = "zero",
	.loop_meta = "(float32[u0])",
	.root_nodes = "",
};

static Module *load_parts(Fixture *f, const Parts *p) {
	fixture_init(f);
	const char *loop = arena_printf(&f->arena,
	                                "for_loop 0 over [1] carry %s\n"
	                                "acc : %s\n"
	                                "x = tile.host_tensor('x') : float32[1000, 5000]\n"
	                                "tile = tile.load(x, [u0, u1]) : %s\n"
	                                "s = aten.sum.dim_IntList(tile, [-1]) : float32[u0]\n"
	                                "acc_1 = aten.add.Tensor(acc, s) : float32[u0]\n"
	                                "return %s\n",
	                                p->carried, p->acc_meta, p->tile_meta, p->loop_output);
	const char *root = arena_printf(&f->arena,
	                                "root 1 over [0]\n"
	                                "zero = tile.full([u0], 0.0, float32) : float32[u0]\n"
	                                "%sloop = tile.for_loop(0, %s, [%s]) : %s\n"
	                                "acc = getitem(loop, 0) : float32[u0]\n"
	                                "sums = tile.host_tensor('sums') : float32[1000]\n"
	                                "store = tile.store(sums, [u0], acc)\n"
	                                "%sreturn\n",
	                                p->first_nodes, p->bounds, p->loop_args, p->loop_meta, p->root_nodes);
	return fixture_load(f, arena_printf(&f->arena, "%s%s", loop, root));
}

static void check_good(const Parts *p) {
	Fixture f;
	Module *m = load_parts(&f, p);
	bool ok = module_verify(m, &f.diag);
	if (!ok)
		diag_print(&f.diag, stderr, DIAG_TEXT, false);
	assert_true(ok);
	assert_true(module_verify(m, &f.diag)); /* again: nothing was changed */
	fixture_free(&f);
}

/* Refused with just one error, which says so at that place. */
static void check_bad(const Parts *p, const char *pointer, const char *message) {
	Fixture f;
	Module *m = load_parts(&f, p);
	assert_false(module_verify(m, &f.diag));
	if (f.diag.errors != 1 || strstr(f.diag.list.at[0].message, message) == NULL ||
	    strcmp(f.diag.list.at[0].at.pointer, pointer) != 0) {
		diag_print(&f.diag, stderr, DIAG_TEXT, false);
		fail_msg("expected just \"%s\" at %s", message, pointer);
	}
	fixture_free(&f);
}

static void good_documents_pass(void **state) {
	(void)state;
	check_good(&good);
	Parts p = good;
	p.acc_meta = "float32[128]"; /* by value under the configuration */
	p.loop_meta = "(float32[128])";
	check_good(&p);
	p = good;
	p.bounds = "[u0], [<u0 * 3>]";
	check_good(&p);
	p = good;
	p.root_nodes = "b = tile.begin('u0') : sym\n"
		       "c = tile.count('u0') : sym\n"
		       "s = tile.block_size('u1') : sym u1\n";
	check_good(&p);
}

/* Sizes are asked for only where the document does more with a block's size than name it. */
static void typing_says_whether_sizes_matter(void **state) {
	static const struct {
		const char *root_nodes, *acc_meta;
		Typing typing;
	} rows[] = {
		{"", "float32[u0]", TYPING_ALWAYS},
		{"twice = tile.full([<u0 * 2>], 0.0, float32) : float32[u0 * 2]\n", "float32[u0]", TYPING_SYMBOLIC},
		{"", "float32[128]", TYPING_UNKNOWN}, /* u0 is 128 by chance */
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		Fixture f;
		Parts p = good;
		p.root_nodes = rows[i].root_nodes;
		p.acc_meta = rows[i].acc_meta;
		Module *m = load_parts(&f, &p);
		assert_int_equal(module_verify_symbols(m, &f.diag), rows[i].typing != TYPING_UNKNOWN);
		assert_int_equal(m->typing, rows[i].typing);
		fixture_free(&f);
	}
}

static void types_must_agree(void **state) {
	(void)state;
	Parts p = good;
	p.tile_meta = "bfloat16[u0, u1]";
	check_bad(&p, "/graphs/0/nodes/2", "'tile': it declares bfloat16[u0, u1], inferred float32[u0, u1]");
	p.tile_meta = "float32[u0, 128]";
	check_bad(&p, "/graphs/0/nodes/2", "it declares float32[u0, 128], inferred float32[u0, u1]");
	p = good;
	p.loop_meta = "(float32[u0], sym)";
	check_bad(&p, "/graphs/1/nodes/1", "it declares (float32[u0], symbolic int), inferred (float32[u0],)");
	p = good;
	p.root_nodes = "e = aten.exp.default(acc) : bfloat16[u0]\n"
		       /* not reported again: its operand was */
		       "e2 = aten.exp.default(e) : float32[u0]\n";
	check_bad(&p, "/graphs/1/nodes/5", "'e': it declares bfloat16[u0], inferred float32[u0]");
}

static void calls_must_agree(void **state) {
	(void)state;
	Parts p = good;
	p.bounds = "[0, 0], [5000, 1]";
	Fixture f;
	assert_false(module_verify(load_parts(&f, &p), &f.diag));
	assert_non_null(strstr(f.diag.list.at[0].message, "it gives 2 begins, graph 0 has 1 block ids"));
	fixture_free(&f);
	p = good;
	p.bounds = "[0], [end]";
	p.first_nodes = "end = tile.full([], 3, int32) : int32[]\n"
			"several = tile.full([u0], 3, int32) : int32[u0]\n"
			"half = tile.full([], 0.5, float32) : float32[]\n"
			"flag = tile.full([], true, bool) : bool[]\n";
	check_good(&p);
	for (int i = 0; i < 3; i++) { /* which a pass put there */
		static const char *const ends[] = {"several", "half", "flag"};
		Module *m = load_parts(&f, &p);
		arg_set_ref(m, node_uses(m, graph_node(m, 1, "end")), graph_node(m, 1, ends[i]));
		assert_false(module_verify(m, &f.diag));
		assert_non_null(strstr(f.diag.list.at[0].message, "entry 0 of ends is not an int or a 0-d int tensor"));
		fixture_free(&f);
	}
	p = good;
	p.root_nodes = "one = tile.full([8], 1, float32) : float32[8]\n"
		       "both = aten.cat.default([one, sums]) : float32[1008]\n";
	check_bad(&p, "/graphs/1/nodes/6", "operand 'sums' is a host tensor");
	p = good;
	p.loop_args = "1";
	check_bad(&p, "/graphs/1/nodes/1",
	          "argument 0 is symbolic int 1, placeholder 'acc' of graph 0 declares float32[u0]");
	p = good;
	p.acc_meta = "float32[u0, 1]"; /* three errors: argument, sum, carried */
	assert_false(module_verify(load_parts(&f, &p), &f.diag));
	assert_non_null(strstr(f.diag.list.at[0].message, "inferred float32[u0, u0]"));
	assert_non_null(strstr(f.diag.list.at[1].message, "argument 0 is float32[u0]"));
	fixture_free(&f);
	p = good;
	p.loop_output = "tile";
	p.loop_meta = "(float32[u0, u1])";
	assert_false(module_verify(load_parts(&f, &p), &f.diag));
	assert_int_equal(f.diag.errors, 2); /* the carried output, and the getitem of the loop's result */
	assert_non_null(strstr(f.diag.list.at[0].message, "'acc': it declares float32[u0], inferred float32[u0, u1]"));
	assert_non_null(
		strstr(f.diag.list.at[1].message,
	               "carried output 0 is float32[u0, u1], but argument 0, which it replaces, declares float32[u0]"));
	fixture_free(&f);
}

/* ---- after a pass ------------------------------------------------------------------------------------------------ */

static void nodes_of_passes_are_named(void **state) {
	(void)state;
	Fixture f;
	Module *m = load_parts(&f, &good);
	NodeId acc = graph_node(m, 1, "acc");
	Arg args[] = {arg_ref(acc)};
	NodeId n = node_new(m, 1, OP_EXP, "made", type_tensor(m, DTYPE_I8, 0, NULL), 1, args);
	node_insert_after(m, n, acc);
	assert_false(module_verify(m, &f.diag));
	assert_non_null(strstr(f.diag.list.at[0].message,
	                       "'made' (made by a pass in graph 1): it declares int8[], inferred float32[u0]"));
	fixture_free(&f);
}

/* The loader refuses these in a document; a pass could still make them. */
static void calls_of_passes_are_checked(void **state) {
	(void)state;
	Fixture f;
	Module *m = load_parts(&f, &good);
	NodeId loop = graph_node(m, 1, "loop");
	Arg empty = arg_list(m, 0, NULL);
	arg_set(m, node_get(m, loop)->arg_first + 3, empty);
	assert_false(module_verify(m, &f.diag));
	assert_non_null(strstr(f.diag.list.at[0].message, "it passes 0 arguments in `args`, graph 0 takes 1"));
	fixture_free(&f);
	m = load_parts(&f, &good);
	graph_get(m, 0)->carried.at[0].output = 7;
	assert_false(module_verify(m, &f.diag));
	assert_non_null(strstr(f.diag.list.at[0].message, "`carried` names [0, 7]"));
	fixture_free(&f);
	m = load_parts(&f, &good);
	graph_get(m, 0)->caller = graph_node(m, 1, "zero");
	assert_false(module_verify(m, &f.diag));
	assert_non_null(strstr(f.diag.list.at[0].message, "graph 0 records another caller"));
	fixture_free(&f);
}

static void scopes_are_checked(void **state) {
	(void)state;
	Fixture f;
	Module *m = load_parts(&f, &good);
	Arg u1 = arg_sym(expr_block(m, 1));
	NodeId begin = node_new(m, 1, OP_TILE_BEGIN, "begin", type_sym(m, DTYPE_I32, NONE), 1, &u1);
	node_insert_after(m, begin, graph_node(m, 1, "acc"));
	assert_false(module_verify(m, &f.diag));
	assert_non_null(strstr(f.diag.list.at[0].message, "no grid or loop around it iterates over block 'u1'"));
	fixture_free(&f);
	m = load_parts(&f, &good);
	const Arg *index = op_arg(m, graph_node(m, 1, "store"), "index");
	arg_set(m, index->list.first, arg_sym(expr_block(m, 1)));
	arg_set(m, node_get(m, graph_node(m, 1, "store"))->arg_first + 2, arg_int(1));
	assert_false(module_verify(m, &f.diag));
	assert_non_null(strstr(f.diag.list.at[0].message, "block 'u1'"));
	fixture_free(&f);
}

static void roots_have_no_outputs(void **state) {
	(void)state;
	Fixture f;
	Module *m = load_parts(&f, &good);
	Arg value = arg_ref(graph_node(m, 1, "acc")), list = arg_list(m, 1, &value);
	arg_set(m, node_get(m, graph_get(m, 1)->output)->arg_first, list);
	assert_false(module_verify(m, &f.diag));
	assert_non_null(strstr(f.diag.list.at[0].message, "the output of a root must be empty"));
	fixture_free(&f);
}

static void order_is_checked(void **state) {
	(void)state;
	Fixture f;
	Module *m = load_parts(&f, &good);
	NodeId zero = graph_node(m, 1, "zero"), acc = graph_node(m, 1, "acc");
	node_insert_after(m, zero, acc);
	assert_false(module_verify(m, &f.diag));
	assert_non_null(strstr(f.diag.list.at[0].message, "it refers to 'zero', which stands later"));
	fixture_free(&f);
}

static void use_lists_are_checked(void **state) {
	(void)state;
	Fixture f;
	Module *m = load_parts(&f, &good);
	NodeId acc = graph_node(m, 1, "acc");
	node_get(m, acc)->first_use = NONE; /* as a pass would that edits behind the functions' back */
	assert_false(module_verify(m, &f.diag));
	assert_non_null(strstr(f.diag.list.at[0].message, "its use list does not hold its 1 uses"));
	fixture_free(&f);
}

static void broken_lists_are_checked(void **state) {
	(void)state;
	Fixture f;
	Module *m = load_parts(&f, &good);
	node_get(m, graph_node(m, 1, "acc"))->prev = NONE;
	assert_false(module_verify(m, &f.diag));
	assert_non_null(strstr(f.diag.list.at[0].message, "broken link"));
	fixture_free(&f);
	m = load_parts(&f, &good);
	node_get(m, graph_node(m, 1, "acc"))->next = graph_node(m, 1, "zero");
	assert_false(module_verify(m, &f.diag));
	fixture_free(&f);
}

/* ---- ifs, whiles, combines --------------------------------------------------------------------------------------- */

#define BRANCH(id, kind, dtype) kind " " id "\nc = tile.full([], 1, " dtype ") : " dtype "[]\nreturn c\n"
#define ROOT_IF(pred)                                                                                                  \
	"root 9 over [0]\n"                                                                                            \
	"b = tile.begin('u0') : sym\n"                                                                                 \
	"p = lt(b, 5) : sym bool\n"                                                                                    \
	"if = tile.if(" pred ", 0, 1, [], []) : (float32[])\n"                                                         \
	"return\n"

static void expect(const char *graphs, const char *message) {
	Fixture f;
	fixture_init(&f);
	bool ok = module_verify(fixture_load(&f, graphs), &f.diag);
	if (message == NULL ? !ok : ok || f.diag.errors != 1 || strstr(f.diag.list.at[0].message, message) == NULL) {
		diag_print(&f.diag, stderr, DIAG_TEXT, false);
		fail_msg("expected %s", message == NULL ? "no error" : message);
	}
	fixture_free(&f);
}

static void ifs(void **state) {
	(void)state;
	expect(BRANCH("0", "if", "float32") BRANCH("1", "else", "float32") ROOT_IF("p"), NULL);
	expect(BRANCH("0", "if", "float32") BRANCH("1", "else", "int32") ROOT_IF("p"),
	       "it declares float32[] for result 0, output 0 of its else graph is int32[]");
	expect(BRANCH("0", "if", "float32") BRANCH("1", "else", "float32") ROOT_IF("b"),
	       "its predicate is symbolic int");
}

#define WHILE(body_output, cond_output)                                                                                \
	"cond 0\ni : sym\np = lt(i, 5) : sym bool\nreturn " cond_output "\n"                                           \
	"while 1 carry [[0, 0]]\ni : sym\nf = tile.full([], 0, float32) : float32[]\nn = add(i, 1) : sym\n"            \
	"return " body_output "\n"                                                                                     \
	"root 2 over [0]\nw = tile.while(0, 1, [0]) : (sym)\nreturn\n"

static void whiles(void **state) {
	(void)state;
	expect(WHILE("n", "p"), NULL);
	expect(WHILE("n", "i"), "a condition outputs one symbolic bool");
}

#define SCAN(dtype, meta)                                                                                              \
	"combine 0\na : " dtype "[1]\nb : " dtype "[1]\nc = aten.add.Tensor(a, b) : " dtype "[1]\nreturn c\n"          \
	"root 1 over [0]\nx = tile.full([4, 6], 0, float32) : float32[4, 6]\n"                                         \
	"s = tile.associative_scan(0, x, 1) : " meta "\nreturn\n"

static void scans(void **state) {
	(void)state;
	expect(SCAN("float32", "float32[4, 6]"), NULL);
	expect(SCAN("int32", "float32[4, 6]"), "value 0 is not float32 throughout");
	expect(SCAN("float32", "float32[4]"), "it declares float32[4], inferred float32[4, 6]");
}

/* d is the column sums of h, bfloat16 [1000, 64]. */
#define DERIVED(type, ops) "tensor d derived " type " \"of\": \"h\", \"ops\": " ops "\nroot 0 over [0]\nreturn\n"
#define SUM_0 "[[\"aten.sum.dim_IntList\", [0]]]"

static void derived_tensors(void **state) {
	(void)state;
	expect(DERIVED("bfloat16[64]", SUM_0), NULL);
	expect(DERIVED("float32[64]", SUM_0), "derived tensor d is declared with another dtype or shape");
	expect(DERIVED("bfloat16[65]", SUM_0), "derived tensor d is declared with another dtype or shape");
	expect(DERIVED("bfloat16[1, 64]", SUM_0), "derived tensor d is declared with another dtype or shape");
	expect(DERIVED("bfloat16[64]", "[[\"aten.sum.dim_IntList\", [2]]]"), "dim 2");
	expect(DERIVED("bfloat16[64]", "[[\"aten.sort.default\"]]"),
	       "aten.sort.default gives no tensor before the kernel");
}

/* What takes a value whose type is not known says nothing: the one error is where that comes from. */
static void types_that_are_left_out(void **state) {
	(void)state;
	static const char *const users[] = {"aten.cat.default([t, a])", "aten.cat.default([a, t])",
	                                    "aten.add.Tensor(t, a)"};
	for (size_t i = 0; i < sizeof users / sizeof *users; i++) {
		Fixture f;
		fixture_init(&f);
		Module *m = fixture_load(&f, arena_printf(&f.arena,
		                                          "root 0 over [0]\n"
		                                          "v = tile.host_tensor('v')\n"
		                                          "t = tile.load(v, [u0])\n"
		                                          "a = aten.sum.dim_IntList(t, [7])\n"
		                                          "b = %s\n"
		                                          "return\n",
		                                          users[i]));
		assert_false(types_fill(m, &f.diag));
		assert_int_equal(f.diag.errors, 1);
		assert_non_null(strstr(f.diag.list.at[0].message, "'a'"));
		fixture_free(&f);
	}
}

/* ---- size -------------------------------------------------------------------------------------------------------- */

static void many_nodes(void **state) {
	(void)state;
	Text t;
	Fixture f;
	fixture_init(&f);
	text_init(&t, &f.arena);
	text_put(&t, "root 0 over [0]\nn0 = tile.full([u0], 0, float32) : float32[u0]\n");
	for (int i = 1; i < 20000; i++)
		text_printf(&t, "n%d = aten.add.Tensor(n%d, n0) : float32[u0]\n", i, i - 1);
	text_put(&t, "return\n");
	assert_true(module_verify(fixture_load(&f, t.at), &f.diag));
	fixture_free(&f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_documents_pass),
		cmocka_unit_test(typing_says_whether_sizes_matter),
		cmocka_unit_test(types_must_agree),
		cmocka_unit_test(calls_must_agree),
		cmocka_unit_test(scopes_are_checked),
		cmocka_unit_test(calls_of_passes_are_checked),
		cmocka_unit_test(roots_have_no_outputs),
		cmocka_unit_test(nodes_of_passes_are_named),
		cmocka_unit_test(order_is_checked),
		cmocka_unit_test(use_lists_are_checked),
		cmocka_unit_test(broken_lists_are_checked),
		cmocka_unit_test(ifs),
		cmocka_unit_test(whiles),
		cmocka_unit_test(scans),
		cmocka_unit_test(derived_tensors),
		cmocka_unit_test(types_that_are_left_out),
		cmocka_unit_test(many_nodes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
