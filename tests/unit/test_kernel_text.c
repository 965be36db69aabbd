/* Kernel text: what is read is written the same, what is wrong is told with its line and column, and nothing that a
 * text may hold hurts. */
#define _POSIX_C_SOURCE 200809L
#include "front.h"
#include "codegen/kernel_text/kernel_text.h"
#include "codegen/print/print.h"
#include "src/json/json.h"

#include <stdio.h>
#include <stdlib.h>

static KProgram *read_text(Front *f, const char *text, size_t length) {
	f->source = (Source){.name = "k.kernel", .text = text, .length = length};
	return kernels_read(&f->arena, &f->diag, &f->source);
}

/* The file of testdata/kernels. */
static char *file_text(Front *f, const char *name) {
	return front_file(&f->arena, arena_printf(&f->arena, "testdata/kernels/%s.kernel", name));
}

static const char *written(Front *f, const KProgram *p) {
	Text out;
	text_init(&out, &f->arena);
	kernels_emit_text(p, &out);
	return out.at;
}

static const char *python(Front *f, KProgram *p) {
	Text out;
	text_init(&out, &f->arena);
	program_give_variables(p);
	kernels_name(p);
	kernels_print_python(p, &out);
	return out.at;
}

/* ---- what is right ---------------------------------------------------------------------------------------------- */

static void round_trip(Front *f, const char *text, const char *expected) {
	KProgram *p = read_text(f, text, strlen(text));
	if (!p)
		diag_print(&f->diag, stderr, DIAG_TEXT, false);
	assert_non_null(p);
	const char *once = written(f, p);
	assert_string_equal(once, expected);
	assert_string_equal(written(f, p), once); /* writing changes nothing */
}

static void test_files(void **state) {
	static const char *const names[] = {"attention.fori_loop", "constructs"};
	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		Front f;
		front_start(&f);
		char *text = file_text(&f, names[i]);
		round_trip(&f, text, strstr(text, "program "));
		front_end(&f);
	}
}

#define HEAD "program p for v6e\ninput x float32[8, 128]\noutput y float32[8, 128]\n\n"
#define KERNEL                                                                                                         \
	HEAD "kernel k {\n"                                                                                            \
	     "  grid i 2 parallel\n"                                                                                   \
	     "  in x_ref vmem float32[8, 128] of [8, 128] at (0, 0) buffers 2\n"                                       \
	     "  out y_ref vmem float32[8, 128] of [8, 128] at (0, 0) buffers 2\n"                                      \
	     "\n"
#define HOST                                                                                                           \
	"}\n\nhost(x) {\n"                                                                                             \
	"  y = launch kernel=0, x : float32[8, 128]\n"                                                                 \
	"  return y\n"                                                                                                 \
	"}\n"

/* What differs from how it is written is read all the same: spacing, comments, numbers of values. */
static void test_loose(void **state) {
	Front f;
	(void)state;
	front_start(&f);
	round_trip(&f,
	           "\r\n  # a comment\n" HEAD "kernel k{# c\r\n"
	           "\tgrid i 2 parallel\n"
	           "in x_ref vmem float32[8,128]of[8,128]at(0,0)buffers 2\n"
	           "out y_ref vmem float32[8, 128] of [8, 128] at (0 , 0) buffers 2\n\n\n"
	           "    %77=load x_ref[ ... ]:float32[8,128]#c\n"
	           "%77 = mul %77, 2e0 : float32[8, 128] tile\n"
	           "store y_ref[:, :], %77\n" HOST,
	           KERNEL "  %1 = load x_ref[...] : float32[8, 128]\n"
	                  "  %2 = mul %1, 2.0 : float32[8, 128]\n"
	                  "  store y_ref[:, :], %2\n" HOST);
	front_end(&f);
}

/* Expressions come back with as many parentheses as they need; operations stay what they are. */
static void test_ints(void **state) {
	static const char *const same[] = {
		"i + 1 - (2 - i)",      "-(i + 1) * -3",          "i * (i * 2)",
		"(i < 3) & (i > 2)",    "(i & i) == i",           "i & (i == i)",
		"choose(i <= 1, i, 2)", "turn(i, cdiv(i, 2), 4)", "--i",
		"div(rem(i, 2), -4)",   "max(min(i, 3), 2)",      "-9223372036854775808 + i"};
	(void)state;
	for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
		Front f;
		front_start(&f);
		char *text = arena_printf(&f.arena, KERNEL "  i = program_id dim=0 : int\n  j = int (%s) : int\n" HOST,
		                          same[i]);
		round_trip(&f, text, text);
		front_end(&f);
	}
}

typedef struct Printed {
	const char *lines, *python; /* of a kernel, and what stands in its module */
} Printed;

static void printed(const Printed *cases, size_t count) {
	for (size_t i = 0; i < count; i++) {
		Front f;
		front_start(&f);
		const char *text = arena_printf(&f.arena, KERNEL "%s\n" HOST, cases[i].lines);
		KProgram *p = read_text(&f, text, strlen(text));
		if (!p || !program_verify_kernels(p, &f.diag))
			diag_print(&f.diag, stderr, DIAG_TEXT, false);
		assert_non_null(p);
		assert_int_equal(f.diag.errors, 0);
		const char *module = python(&f, p);
		if (!strstr(module, cases[i].python))
			fprintf(stderr, "%s\n%s\n", cases[i].lines, module);
		assert_non_null(strstr(module, cases[i].python));
		front_end(&f);
	}
}

/* A value without a name is computed where it is read, unless that is another value by then. */
static void test_late(void **state) {
	static const Printed cases[] = {
		{"%1 = load x_ref[...] : float32[8, 128]\nstore y_ref[...], %1", "    y_ref[...] = x_ref[...]\n"},
		{"%1 = load y_ref[...] : float32[8, 128]\nstore y_ref[0, 0], 1.0\nstore y_ref[...], %1",
	         "    value = y_ref[...]\n    y_ref[0, 0] = 1.0\n    y_ref[...] = value\n"},
		{"%1 = load y_ref[...] : float32[8, 128]\n%2 = exp %1 : float32[8, 128]\nstore y_ref[0, 0], 1.0\n"
	         "store y_ref[...], %2",
	         "    value = jnp.exp(y_ref[...])\n    y_ref[0, 0] = 1.0\n    y_ref[...] = value\n"},
		{"a = load x_ref[...] : float32[8, 128]\nb = exp a : float32[8, 128]\n"
	         "%1, c = for i in 3 from 0 carry (d = a, c = b) : float32[8, 128], float32[8, 128] {\nyield c, d\n}\n"
	         "store y_ref[...], %1",
	         "    d = a\n    c = b\n    for i in range(3):\n        value = c\n        value_1 = d\n"
	         "        d = value\n        c = value_1\n    y_ref[...] = d\n"},
		{"for _ in 3 from 0 {\n}\nwhen (1 < 2) {\n}", "    for _ in range(3):\n        pass\n"},
		{"%1 = load y_ref[...] : float32[8, 128]\nwhen (1 < 2) {\nstore y_ref[...], %1\n}",
	         "    value = y_ref[...]\n\n    @pl.when(1 < 2)\n"},
		{"%1 = load x_ref[...] : float32[8, 128]\n%2 = add %1, %1 : float32[8, 128]\nstore y_ref[...], %2",
	         "    value = x_ref[...]\n    y_ref[...] = value + value\n"},
		{"a = load x_ref[...] : float32[8, 128]\n"
	         "b, c = for i in 3 from 0 carry (d = a, e = a) : float32[8, 128], float32[8, 128] {\n"
	         "%1 = add d, 1.0 : float32[8, 128]\nyield e, %1\n}\nstore y_ref[...], b",
	         "        value = d + 1.0\n        value_1 = e\n        d = value_1\n        e = value\n"},
	};
	(void)state;
	printed(cases, sizeof cases / sizeof *cases);
}

#define A "a = load x_ref[...] : float32[8, 128]\n"
#define OTHER_A "a = exp a : float32[8, 128]\n"
#define STORE_A "store y_ref[...], a\n"

/* A name that is given again hides the older value in its region alone, whatever Python does. */
static void test_given_again(void **state) {
	static const Printed cases[] = {
		{A OTHER_A STORE_A, "    a = x_ref[...]\n    a = jnp.exp(a)\n    y_ref[...] = a\n"},
		{A "for _ in 2 from 0 {\n" OTHER_A STORE_A "}\n" STORE_A,
	         "    a_1 = x_ref[...]\n    for _ in range(2):\n        a = jnp.exp(a_1)\n        y_ref[...] = a\n"
	         "    y_ref[...] = a_1\n"},
		{A "for _ in 2 from 0 {\n" OTHER_A STORE_A "}",
	         "    a_1 = x_ref[...]\n    for _ in range(2):\n        a = jnp.exp(a_1)\n"},
		{A "when (1 < 2) {\na = zeros : float32[8, 128]\n" STORE_A "}\n" STORE_A,
	         "    def then():\n        a = jnp.zeros((8, 128), jnp.float32)\n        y_ref[...] = a\n\n"
	         "    y_ref[...] = a\n"},
		{A "when (1 < 2) {\n" OTHER_A STORE_A "}", "        a = jnp.exp(a_1)\n        y_ref[...] = a\n"},
		{A "when (1 < 2) a {\n" STORE_A "}\n" STORE_A,
	         "    def a():\n        y_ref[...] = a_1\n\n    y_ref[...] = a_1\n"},
		{A "def f() {\n" STORE_A "}\n" OTHER_A "call f()\n" STORE_A,
	         "    def f():\n        y_ref[...] = a_1\n\n    a = jnp.exp(a_1)\n    f()\n"},
		{A "%1 = add a, 1.0 : float32[8, 128]\n" OTHER_A STORE_A "store y_ref[...], %1",
	         "    a = jnp.exp(a_1)\n    y_ref[...] = a\n    y_ref[...] = a_1 + 1.0\n"},
		{A "b = for _ in 2 from 0 carry (a = a) : float32[8, 128] {\n" OTHER_A "yield a\n}\n" STORE_A
	           "store y_ref[...], b",
	         "    a = a_1\n    for _ in range(2):\n        a = jnp.exp(a)\n    y_ref[...] = a_1\n    y_ref[...] = "
	         "a\n"},
		{A "a = for _ in 2 from 0 carry (a = a) : float32[8, 128] {\n" OTHER_A "yield a\n}\n" STORE_A,
	         "    a = x_ref[...]\n    for _ in range(2):\n        a = jnp.exp(a)\n    y_ref[...] = a\n"},
		{A "b = exp a : float32[8, 128]\na = if (1 < 2) else (b) : float32[8, 128] {\n" STORE_A
	           "yield b\n}\n" STORE_A,
	         "    a = b\n    if 1 < 2:\n        y_ref[...] = a_1\n        a = b\n"},
		{"def f() {\nstore y_ref[0, 0], 1.0\n}\nfor _ in 2 from 0 {\nf = load x_ref[...] : float32[8, 128]\n"
	         "store y_ref[...], f\n}\ncall f()",
	         "    for _ in range(2):\n        f = x_ref[...]\n        y_ref[...] = f\n    f_1()\n"},
		{"for _ in 2 from 0 {\nx_ref = zeros : float32[8, 128]\nstore y_ref[...], x_ref\n}\n" A STORE_A,
	         "def _k_kernel(x_ref_1, y_ref):\n    for _ in range(2):\n"
	         "        x_ref = jnp.zeros((8, 128), jnp.float32)\n"},
	};
	(void)state;
	printed(cases, sizeof cases / sizeof *cases);
}

/* ---- what is wrong ---------------------------------------------------------------------------------------------- */

typedef struct Wrong {
	const char *text;
	int line, column;
	const char *code, *message;
} Wrong;

static void refused(const char *text, size_t length, const Wrong *w) {
	Front f;
	front_start(&f);
	assert_null(read_text(&f, text, length));
	assert_int_equal(f.diag.list.count, 1);
	const Diagnostic *x = &f.diag.list.at[0];
	if (x->at.line != w->line || x->at.column != w->column || strcmp(x->message, w->message) != 0)
		fprintf(stderr, "%s\n%d:%d %s\n", text, x->at.line, x->at.column, x->message);
	assert_string_equal(x->message, w->message);
	assert_string_equal(x->code, w->code);
	assert_int_equal(x->at.line, w->line);
	assert_int_equal(x->at.column, w->column);
	front_end(&f);
}

static void test_wrong_heads(void **state) {
	static const Wrong wrong[] = {
		{"", 1, 1, "kernel-syntax", "expected 'program', found the end of the text"},
		{"module m", 1, 1, "kernel-syntax", "expected 'program', found 'module'"},
		{"program p\n", 1, 10, "kernel-syntax", "expected 'for', found the end of the line"},
		{"program class for v6e\n", 1, 9, "kernel-name", "'class' can be no variable of the kernel"},
		{"program p for v6e\n", 2, 1, "kernel-syntax",
	         "expected the host, which launches the kernels, found the end of the text"},
		{"program p for v6e x", 1, 19, "kernel-syntax", "expected the end of the line, found 'x'"},
		{"program p for v6e\nfoo", 2, 1, "kernel-syntax",
	         "expected input, output, config, sizes, axes, cost, vmem, estimate, kernel or host, found 'foo'"},
		{"program p for v6e\nconfig {", 2, 1, "kernel-syntax",
	         "the configuration is not the members of a JSON object"},
		{"program p for v6e\nconfig \nconfig", 3, 1, "kernel-syntax",
	         "expected another line: this one was there already, found 'config'"},
		{"program p for v6e\ncost vmem_bytes -1", 2, 17, "kernel-number",
	         "bytes of VMEM must be from 0 to 9223372036854775807"},
		{"program p for v6e\ninput x copy", 2, 9, "kernel-type", "an array has a dtype"},
		{"program p for v6e\ninput x float33[2]", 2, 9, "kernel-syntax", "expected a type, found 'float33'"},
		{"program p for v6e\ninput x float32[-1]", 2, 17, "kernel-number",
	         "a number must be from 0 to 9223372036854775807"},
		{"program p for v6e\ninput x float32[4294967296, 4294967296]", 2, 16, "kernel-number",
	         "the shape has more than 2**53 elements"},
		{"program p for v6e\ninput x float32[1,1,1,1,1,1,1,1,1,1,1,1]", 2, 39, "kernel-syntax",
	         "expected ']', found '1'"},
		{"program p for v6e\ninput \"x\\q\" float32", 2, 7, "kernel-syntax", "the string is no string of JSON"},
		{"program p for v6e\ninput \"x\nfloat32", 2, 7, "kernel-syntax",
	         "the string has no closing quote in its line"},
		{"program p for v6e\nhost(x) {", 2, 6, "kernel-count",
	         "the program has 0 inputs, the host takes another number"},
		{"program p for v6e\nhost() {", 2, 9, "kernel-syntax", "expected '}', found the end of the text"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		refused(wrong[i].text, strlen(wrong[i].text), &wrong[i]);
}

/* Lines of a kernel, the first of which is line 6. */
static void test_wrong_kernels(void **state) {
	static const Wrong wrong[] = {
		{"grid i x", 6, 8, "kernel-syntax", "expected the steps of the grid, found 'x'"},
		{"grid i 2 both", 6, 10, "kernel-syntax", "expected 'parallel' or 'arbitrary', found 'both'"},
		{"in x_ref hot float32[8]", 6, 10, "kernel-syntax",
	         "expected vmem, hbm, smem, prefetch, dma or regular, found 'hot'"},
		{"in x_ref vmem float32[8] of [8, 8]", 6, 4, "kernel-count", "the block has 1 dims, its array 2"},
		{"in x_ref vmem float32[8] of [8] at (0, 0)", 6, 36, "kernel-count",
	         "there must be 1 expressions, one for each dim, not 2"},
		{"in x_ref vmem float32[8] of [8] at (j)", 6, 37, "kernel-unknown", "there is no 'j' here"},
		{"line 2 1 _", 6, 6, "kernel-number", "the number after that of the line before must be from 1 to 1"},
		{"scratch s dma [2]\nx = load s : int", 7, 10, "kernel-unknown",
	         "'s' is a buffer, and a value is needed"},
		{"grid i 2 parallel\nx = int (i) : int", 7, 10, "kernel-unknown", "there is no 'i' here"},
		{"x = zeroes : float32", 6, 5, "kernel-op", "there is no op 'zeroes'"},
		{"x = zeros", 6, 10, "kernel-count", "the statement gives 1 value and states 0 types"},
		{"x, x_1 = zeros : int", 6, 16, "kernel-count", "the statement gives 2 values and states 1 type"},
		{"x = int (1 : int", 6, 12, "kernel-syntax", "expected ')', found ':'"},
		{"x = int (1 + ) : int", 6, 14, "kernel-syntax", "expected an integer expression, found ')'"},
		{"x = int (1 < 2 < 3) : int", 6, 16, "kernel-syntax", "expected ')', found '<'"},
		{"x = int (9223372036854775808) : int", 6, 10, "kernel-number", "the number does not fit into 64 bits"},
		{"x = int (99999999999999999999) : int", 6, 10, "kernel-number",
	         "the number does not fit into 64 bits"},
		{"x = add 1e999, 2 : float32", 6, 9, "kernel-number", "this is no number, or too large for one"},
		{"x = add 1., 2 : float32", 6, 9, "kernel-number", "this is no number, or too large for one"},
		{"x = sum 1 axes=(1) : float32", 6, 11, "kernel-syntax",
	         "expected the attribute 'keep=', found 'axes'"},
		{"x = full 1 : float32[2, 2] @1", 6, 29, "kernel-unknown", "there is no source line @1"},
		{"x = $ : int", 6, 5, "kernel-syntax", "no kernel text has this character here"},
		{"pl = zeros : float32", 6, 1, "kernel-name", "'pl' can be no variable of the kernel"},
		{"_mask = zeros : float32", 6, 1, "kernel-name", "'_mask' can be no variable of the kernel"},
		{"scratch s vmem int32[2]\nstore s[0, 1], 2", 7, 7, "kernel-count",
	         "'s' has 1 dim, the reference more"},
		{"scratch s vmem int32[2]\nx = int (s[0]) : int", 7, 10, "kernel-syntax",
	         "only the `at` of an operand or a window may read an element within an expression"},
		{"x = call f() : int", 6, 10, "kernel-unknown", "there is no 'f' here"},
		{"def f( {", 6, 8, "kernel-syntax", "expected a name, found '{'"},
		{"def f() { x", 6, 11, "kernel-syntax", "expected the end of the line, found 'x'"},
		{"def f() {\n x = zeros : float32\n}\nreturn x", 9, 8, "kernel-unknown", "there is no 'x' here"},
		{"for i in x from 0 {", 6, 10, "kernel-syntax",
	         "expected a number, or an expression in parentheses, found 'x'"},
		{"for i in 2 from 0 carry (a = 1) {", 6, 33, "kernel-count",
	         "1 value is carried, and the statement gives 0"},
		{"def f() {\n}\npipeline f grid (1, 2) at (j) {", 8, 28, "kernel-count",
	         "the grid has 2 dims and 1 name"},
		{"def f() {\n}\npipeline f grid () at () {\nstart x", 9, 1, "kernel-syntax",
	         "expected 'in', 'out' or '}', found 'start'"},
		{"held x revisits ()", 6, 6, "kernel-unknown", "there is no 'x' here"},
		{"x = zeros : float32[8] stash y", 6, 30, "kernel-unknown", "there is no 'y' here"},
		{"scratch y vmem float32[8]\nx = zeros : float32[8] stash y", 7, 24, "kernel-structure",
	         "no rows are computed in strips"},
		{"loop f(j) while {", 6, 11, "kernel-syntax",
	         "expected default, unroll, fori_loop or emit_pipeline, found 'while'"},
		{"loop f(j) unroll {\ndim k steps", 7, 5, "kernel-unknown", "there is no 'k' here"},
		{"x = index 1 items=[:, a] : int", 6, 23, "kernel-syntax", "expected an item, found 'a'"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		Arena a;
		arena_init(&a, NULL);
		const char *text = arena_printf(&a, HEAD "kernel k {\n%s\n" HOST, wrong[i].text);
		refused(text, strlen(text), &wrong[i]);
		arena_free(&a);
	}
}

/* Hints name what is near; the text is printed with a caret. */
static void test_printed(void **state) {
	Front f;
	char *printed;
	size_t length;
	(void)state;
	front_start(&f);
	const char *text = KERNEL "  scores = load x_ref[...] : float32[8, 128]\n  store y_ref[...], score\n" HOST;
	assert_null(read_text(&f, text, strlen(text)));
	FILE *out = open_memstream(&printed, &length);
	diag_print(&f.diag, out, DIAG_TEXT, false);
	fclose(out);
	assert_string_equal(printed, "k.kernel:11:21: error: there is no 'score' here [kernel-unknown]\n"
	                             "      store y_ref[...], score\n"
	                             "                        ^\n"
	                             "  hint: did you mean 'scores'?\n");
	free(printed);
	front_end(&f);
}

/* ---- what is meant to hurt -------------------------------------------------------------------------------------- */

static void test_depth(void **state) {
	static const struct {
		const char *before, *piece, *message;
	} cases[] = {
		{"", "when true {\n", "regions are nested more than 64 deep"},
		{"x = int ", "(", "the expression is nested more than 200 deep"},
		{"x = int (", "-", "the expression is nested more than 200 deep"},
		{"i = program_id dim=0 : int\nx = int (i", " + i", "the expression is more than 200 operations deep"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		Front f;
		Text t;
		front_start(&f);
		text_init(&t, &f.arena);
		text_printf(&t, HEAD "kernel k {\n%s", cases[i].before);
		for (int n = 0; n < 100000; n++)
			text_put(&t, cases[i].piece);
		assert_null(read_text(&f, t.at, t.length));
		assert_int_equal(f.diag.list.count, 1);
		assert_string_equal(f.diag.list.at[0].message, cases[i].message);
		front_end(&f);
	}
}

/* Each value is read twice: written out, the last one would be 2**100 loads. */
static void test_large_expressions(void **state) {
	Front f;
	Text t;
	(void)state;
	front_start(&f);
	text_init(&t, &f.arena);
	text_put(&t, KERNEL "%1 = full 1.0 : float32[8, 128]\n");
	for (int n = 2; n <= 100; n++)
		text_printf(&t, "%%%d = add %%%d, %%%d : float32[8, 128]\n", n, n - 1, n - 1);
	text_put(&t, "store y_ref[...], %100\n" HOST);
	KProgram *p = read_text(&f, t.at, t.length);
	assert_non_null(p);
	const char *printed = python(&f, p);
	assert_non_null(strstr(printed, "value_1 = "));
	assert_true(strlen(printed) < 50000);
	front_end(&f);
}

static void test_nul(void **state) {
	static const char text[] = "program p for v6e\ninput\0x";
	static const Wrong w = {NULL, 2, 6, "kernel-syntax", "no kernel text has this character here"};
	(void)state;
	refused(text, sizeof text - 1, &w);
}

/* A million lines take no more than a million times what a line takes. */
static void test_long(void **state) {
	enum { LINES = 300000 };
	Front f;
	Text t;
	(void)state;
	front_start(&f);
	text_init(&t, &f.arena);
	text_put(&t, KERNEL "  x = load x_ref[...] : float32[8, 128]\n");
	for (int i = 0; i < LINES; i++)
		text_put(&t, i % 2 ? "  x = add x, x : float32[8, 128]\n" : "  %1 = int (1) : int\n");
	text_put(&t, HOST);
	KProgram *p = read_text(&f, t.at, t.length);
	assert_non_null(p);
	assert_int_equal(p->kernels.at[0]->stmts.count, LINES + 1);
	front_end(&f);
}

/* Any change of a few bytes is read or refused; what is read is written and read the same again. */
static void mutate(Front *f, const char *text, unsigned *seed) {
	static const char *const pieces[] = {"(",   ")",  "[",  "]",   "{",     "}",  "\n", "%1",
	                                     " : ", "1",  "-",  "...", "\"",    "+:", "*:", "9999999999999999999",
	                                     "_",   "@1", ", ", "= ",  "ahead", "\0x"};
	size_t n = strlen(text);
	Text t;
	text_init(&t, &f->arena);
	for (size_t at = 0; at < n;) {
		*seed = *seed * 1103515245u + 12345u;
		unsigned r = *seed >> 8;
		if (r % 997 == 0)
			at += r / 997 % 20;
		else if (r % 997 == 1)
			text_put(&t, pieces[r / 997 % (sizeof pieces / sizeof *pieces)]);
		else
			text_putn(&t, text + at++, 1);
	}
	KProgram *p = read_text(f, t.at, t.length);
	if (!p)
		return;
	bool good = program_verify_kernels(p, &f->diag);
	f->diag.list.count = f->diag.errors = 0;
	const char *once = written(f, p);
	if (good && !strstr(once, " loop "))
		python(f, p);
	KProgram *again = read_text(f, once, strlen(once));
	assert_non_null(again);
	assert_string_equal(written(f, again), once);
}

static void test_mutations(void **state) {
	static const char *const names[] = {"attention.fori_loop", "constructs"};
	unsigned seed = 7;
	(void)state;
	for (int round = 0; round < 400; round++) {
		Front f;
		front_start(&f);
		mutate(&f, file_text(&f, names[round % 2]), &seed);
		front_end(&f);
	}
}

/* Each line changed alone, so that what stands behind others is reached too. */
static void test_mutated_lines(void **state) {
	unsigned seed = 11;
	(void)state;
	Front all;
	front_start(&all);
	const char *text = file_text(&all, "constructs");
	for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
		for (int round = 0; round < 20; round++) {
			Front f;
			front_start(&f);
			Text t;
			text_init(&t, &f.arena);
			text_putn(&t, text, (size_t)(line - text));
			size_t n = strcspn(line, "\n"), cut;
			seed = seed * 1103515245u + 12345u;
			cut = n ? (seed >> 8) % n : 0;
			text_putn(&t, line, cut);
			text_put(&t, round % 3 == 0 ? "" : round % 3 == 1 ? " 1" : ")");
			text_put(&t, line + cut + (round % 2));
			KProgram *p = read_text(&f, t.at, t.length);
			assert_true(p || f.diag.list.count == 1);
			if (p && program_verify_kernels(p, &f.diag) && !strstr(written(&f, p), " loop "))
				python(&f, p);
			front_end(&f);
		}
	}
	front_end(&all);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files),         cmocka_unit_test(test_loose),
		cmocka_unit_test(test_ints),          cmocka_unit_test(test_wrong_heads),
		cmocka_unit_test(test_wrong_kernels), cmocka_unit_test(test_printed),
		cmocka_unit_test(test_depth),         cmocka_unit_test(test_nul),
		cmocka_unit_test(test_long),          cmocka_unit_test(test_mutations),
		cmocka_unit_test(test_mutated_lines), cmocka_unit_test(test_late),
		cmocka_unit_test(test_given_again),   cmocka_unit_test(test_large_expressions),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
