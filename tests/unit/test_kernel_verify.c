/* The verifier of kernels: each rule refuses what breaks it, at the statement that does; what is right passes. */
#define _POSIX_C_SOURCE 200809L
#include "front.h"
#include "codegen/kernel_text/kernel_text.h"

#include <stdio.h>
#include <stdlib.h>

#define HEAD                                                                                                           \
	"program p for v6e\n"                                                                                          \
	"input x float32[16, 256]\n"                                                                                   \
	"output y float32[16, 256]\n"

#define SIGNATURE                                                                                                      \
	"  grid i 2 parallel\n"                                                                                        \
	"  in table prefetch int32[2]\n"                                                                               \
	"  in x_ref vmem float32[8, 256] of [16, 256] at (table[i], 0) buffers 2\n"                                    \
	"  in x_hbm hbm float32[16, 256]\n"                                                                            \
	"  out y_ref vmem float32[8, 256] of [16, 256] at (i, 0) buffers 2\n"                                          \
	"  scratch buf vmem float32[2, 8, 256]\n"                                                                      \
	"  scratch sem dma [2]\n"                                                                                      \
	"  scratch done regular []\n"                                                                                  \
	"  collective_id 0\n"

/* The statements are lines 15 and on. */
#define KERNEL HEAD "kernel k {\n" SIGNATURE "  a = load x_ref[...] : float32[8, 256]\n"
#define HOST                                                                                                           \
	"}\n"                                                                                                          \
	"host(x) {\n"                                                                                                  \
	"  t = zeros : int32[2]\n"                                                                                     \
	"  y = launch kernel=0, t, x, x : float32[16, 256]\n"                                                          \
	"  return y\n"                                                                                                 \
	"}\n"

static bool verified(Front *f, const char *text) {
	f->source = (Source){.name = "k.kernel", .text = text, .length = strlen(text)};
	const KProgram *p = kernels_read(&f->arena, &f->diag, &f->source);
	if (!p)
		diag_print(&f->diag, stderr, DIAG_TEXT, false);
	assert_non_null(p);
	return program_verify_kernels(p, &f->diag);
}

typedef struct Wrong {
	const char *lines;
	int line;                   /* the statement's among these, from 1; 0: none */
	const char *code, *message; /* what it ends with */
} Wrong;

static void refused(const char *text, int line, const Wrong *w) {
	Front f;
	front_start(&f);
	bool good = verified(&f, text);
	if (good)
		fprintf(stderr, "not refused:\n%s\n", text);
	assert_false(good);
	const Diagnostic *x = &f.diag.list.at[0];
	size_t n = strlen(x->message), m = strlen(w->message);
	if (f.diag.list.count != 1 || n < m || strcmp(x->message + n - m, w->message) != 0 || x->at.line != line)
		diag_print(&f.diag, stderr, DIAG_TEXT, false);
	assert_int_equal(f.diag.list.count, 1);
	assert_true(n >= m);
	assert_string_equal(x->message + n - m, w->message);
	assert_string_equal(x->code, w->code);
	assert_int_equal(x->at.line, line);
	front_end(&f);
}

static void each_refused(const Wrong *wrong, size_t count) {
	for (size_t i = 0; i < count; i++) {
		Arena a;
		arena_init(&a, NULL);
		refused(arena_printf(&a, "%s%s\n%s", KERNEL, wrong[i].lines, HOST), 14 + wrong[i].line, &wrong[i]);
		arena_free(&a);
	}
}
#define REFUSED(wrong) each_refused(wrong, sizeof(wrong) / sizeof *(wrong))

/* ---- what is right ---------------------------------------------------------------------------------------------- */

static void accepted(const char *lines) {
	Front f;
	front_start(&f);
	bool good = verified(&f, arena_printf(&f.arena, "%s%s\n%s", KERNEL, lines, HOST));
	if (!good)
		diag_print(&f.diag, stderr, DIAG_TEXT, false);
	assert_true(good);
	front_end(&f);
}

static void test_right(void **state) {
	(void)state;
	accepted("store y_ref[...], a");
	accepted("store y_ref[0, 255], 1.5");
	accepted("i = program_id dim=0 : int\nstore y_ref[i, 0], (i + 1)");
	accepted("b = index a items=[..., None, 0:128] : float32[8, 1, 128]");
	accepted("b = clamp a, _, 1.0 : float32[8, 256]");
	accepted("b = lt a, 0 : bool[8, 256]\nc = where b, a, nan : float32[8, 256]");
	accepted("b = sum a keep=1 axes=(1) : float32[8, 1] column\nc = sub a, b : float32[8, 256]");
	accepted("c = copy x_hbm[8 +: 8, :], buf[1], sem[1] : copy\nstart c\nwait c");
	accepted("b = load x_ref[:, 1 *: 128 of 2] : float32[8, 128]");
	accepted("def f(w: vmem float32[8, 256], n: int, r: flag) {\n b = load w[...] : float32[8, 256]\n return b\n}\n"
	         "b = call f(buf[0], 3) : float32[8, 256]\nb = call f(x_ref[...], (2), r) : float32[8, 256]");
	accepted("def f(j: int, b: float32[8, 256]) fori {\n c = add b, 1.0 : float32[8, 256]\n return c\n}\n"
	         "b = fori (4) f(a) : float32[8, 256]");
	accepted("def f(go: bool, b: float32[8, 256]) while {\n c = add b, 1.0 : float32[8, 256]\n %1 = max c keep=0 "
	         "axes=() "
	         ": float32\n %2 = lt %1, 9.0 : bool\n return %2, c\n}\n_, b = while f(true, a) : bool, float32[8, "
	         "256]");
	accepted("go, b = loop step() fori_loop carry (go = true, b = a) : bool, float32[8, 256] {\n"
	         "c = add b, 1.0 : float32[8, 256]\n%1 = max c keep=0 axes=() : float32\n%2 = lt %1, 9.0 : bool\n"
	         "yield %2, c\n}");
	accepted("for s in 4 from 0 {\n n = int (s * 2) : int\n}");
	accepted("b = if (0 < 1) else (a) : float32[8, 256] {\n c = neg a : float32[8, 256]\n yield c\n}");
	accepted("q = queue : queue\npush q, a\nb = pop q : float32[8, 256]");
	accepted("b = barrier_semaphore : semaphore\nsemaphore_wait b, 1\nsignal done[...], 1, _");
	accepted("def f(w: vmem float32[4, 256]) {\n n = program_id dim=1 : int\n return\n}\n"
	         "pipeline f grid (2, 2) at (u, v) {\n in x_hbm [4, 256] at (u + v, 0) buffers 2\n}");
}

static void test_files(void **state) {
	static const char *const names[] = {"attention.fori_loop", "constructs",  "paged_decode",
	                                    "jagged_sum",          "ring_matmul", "gather_rows"};
	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		Front f;
		front_start(&f);
		const char *path = arena_printf(&f.arena, "testdata/kernels/%s.kernel", names[i]);
		const char *text = front_file(&f.arena, path);
		assert_true(*text);
		assert_true(verified(&f, text));
		front_end(&f);
	}
}

/* ---- what is wrong ---------------------------------------------------------------------------------------------- */

static void test_values(void **state) {
	static const Wrong wrong[] = {
		{"b = add a, x_ref[...] : float32[8, 256]", 1, "kernel-arguments", "argument 1 is a buffer"},
		{"b = add a : float32[8, 256]", 1, "kernel-arguments", "it has 1 argument and takes at least 2"},
		{"b = exp a, a : float32[8, 256]", 1, "kernel-arguments", "it has 2 arguments and takes 1"},
		{"b = reshape _ : float32[8, 256]", 1, "kernel-arguments", "argument 0 is missing"},
		{"b = exp a : float32[8, 128]", 1, "kernel-type",
	         "it gives float32[8, 256] and states float32[8, 128]"},
		{"b = transpose a axes=(1, 0) : bfloat16[256, 8]", 1, "kernel-type",
	         "it gives float32[256, 8] and states bfloat16[256, 8]"},
		{"b = words a : int32[8, 256]", 1, "kernel-type",
	         "rows of less than 32 bits that fill whole words are needed"},
		{"h = convert a : bfloat16[8, 256]\n  b = words h : int32[8, 256]", 2, "kernel-type",
	         "it gives int32[4, 256] and states int32[8, 256]"},
		{"b = lt a, 0 : float32[8, 256]", 1, "kernel-type", "it gives bool[8, 256] and states float32[8, 256]"},
		{"b = dot a, a a=1 b=0 highest=0 : float32[8, 256]", 1, "kernel-type", "the contracted dims differ"},
		{"b = exp a : float32[8, 256] row", 1, "kernel-type", "'b' is float32[8, 256], which is no row"},
		{"b = exp a : float32[8, 256] column", 1, "kernel-type", "'b' is float32[8, 256], which is no column"},
		{"b = slice_in_dim a start=8 end=300 axis=1 : float32[8, 292]", 1, "kernel-bounds",
	         "the dim has 256 elements: 8 up to 300 are not in it"},
		{"b = broadcast a : float32[2, 4, 256]", 1, "kernel-type",
	         "float32[8, 256] does not broadcast to float32[2, 4, 256]"},
		{"b = mask a, 3, 0 axis=2 : float32[8, 256]", 1, "kernel-bounds", "there is no axis 2 of 2"},
		{"b = index a items=[..., ...] : float32[8, 256]", 1, "kernel-arguments",
	         "its items have more than one `...`"},
		{"b = index a items=[None, None, None, None, None, None, None, None, None, None] : float32", 1,
	         "kernel-type", "it would have 12 dims; at most 11 can be"},
		{"b = tile a times=(99999999999, 1) : float32", 1, "kernel-arguments", "an attribute is 99999999999"},
		{"b = roll a turns=(1) : float32[8, 256]", 1, "kernel-arguments", "each shift has its axis behind it"},
		{"b = exp a : int", 1, "kernel-type", "it gives int32[8, 256] and states an int"},
		{"b, c = exp a : float32[8, 256], float32[8, 256]", 1, "kernel-structure",
	         "it gives 2 values, and computes one"},
		{"b = int (a + 1) : int", 1, "kernel-type", "'a' is float32[8, 256]"},
		{"b = program_id dim=1 : int", 1, "kernel-bounds", "the innermost grid has 1 dims"},
		{"b = program_id dim=0 : int\nc = int (div(b, 0)) : int", 2, "kernel-bounds", "it divides by 0"},
		{"b = device_id : int", 1, "kernel-signature", "the kernel runs on no mesh"},
		{"b = core_id : int", 1, "kernel-signature", "the kernel runs on no SparseCore"},
	};
	(void)state;
	REFUSED(wrong);
}

static void test_memory(void **state) {
	static const Wrong wrong[] = {
		{"b = load x_ref[...] : float32[8, 128]", 1, "kernel-type",
	         "it loads float32[8, 256] and states float32[8, 128]"},
		{"b = load x_ref[0] : bfloat16[256]", 1, "kernel-type",
	         "it loads float32[256] and states bfloat16[256]"},
		{"b = load x_hbm[...] : float32[16, 256]", 1, "kernel-type",
	         "what is in hbm cannot be loaded or stored"},
		{"b = load a : float32[8, 256]", 1, "kernel-arguments",
	         "argument 0 must be what is loaded: a reference"},
		{"b = load x_ref[8] : float32[256]", 1, "kernel-bounds",
	         "dim 0 of 'x_ref' has 8 elements: 1 from 8 are not in it"},
		{"b = load x_ref[:, 128 +: 129] : float32[8, 129]", 1, "kernel-bounds",
	         "dim 1 of 'x_ref' has 256 elements: 129 from 128 are not in it"},
		{"b = load x_ref[:, -1 +: 2] : float32[8, 2]", 1, "kernel-bounds",
	         "dim 1 of 'x_ref' has 256 elements: 2 from -1 are not in it"},
		{"b = load x_ref[:, 2 *: 128 of 2] : float32[8, 128]", 1, "kernel-bounds", "there is no part 2 of 2"},
		{"b = load x_ref[:, 0 *: 128 of 3] : float32[8, 128]", 1, "kernel-bounds",
	         "dim 1 of 'x_ref' has 256 elements, no 3 parts of 128"},
		{"b = load x_ref[:, 12 by 8 +: 8] : float32[8, 8]", 1, "kernel-bounds", "12 is no multiple of 8"},
		{"store x_ref[...], a", 1, "kernel-type", "it stores to an input"},
		{"store y_ref[0], a", 1, "kernel-type", "it stores float32[8, 256] to float32[256]"},
		{"store y_ref[...], 1.0", 1, "kernel-type", "it stores no value to float32[8, 256]"},
		{"b = convert a : bfloat16[8, 256]\nstore y_ref[...], b", 2, "kernel-type",
	         "it stores bfloat16[8, 256] to float32[8, 256]"},
		{"store y_ref[...]", 1, "kernel-arguments", "it has 1 argument and takes 2"},
	};
	(void)state;
	REFUSED(wrong);
}

static void test_copies(void **state) {
	static const Wrong wrong[] = {
		{"c = copy x_hbm[0 +: 8, :], buf[...], sem[0] : copy", 1, "kernel-type",
	         "it copies float32[8, 256] to float32[2, 8, 256]"},
		{"c = copy x_hbm[0 +: 8, :], buf[0], sem[...] : copy", 1, "kernel-type",
	         "argument 2 is not one semaphore of copies"},
		{"c = copy x_hbm[0 +: 8, :], buf[0], done[...] : copy", 1, "kernel-type",
	         "argument 2 is not one semaphore of copies"},
		{"c = copy x_hbm[0 +: 8, :], buf[0], sem[2] : copy", 1, "kernel-bounds",
	         "dim 0 of 'sem' has 2 elements: 1 from 2 are not in it"},
		{"c = copy buf[0], x_hbm[0 +: 8, :], sem[0] : copy", 1, "kernel-type", "it copies to an input"},
		{"c = copy x_hbm[0 +: 8, :], buf[0], sem[0] : int", 1, "kernel-type", "it gives a copy"},
		{"start a", 1, "kernel-type", "its argument is no copy"},
		{"signal done[...], 1, 0", 1, "kernel-signature", "the kernel runs on no mesh"},
		{"semaphore_wait sem[0], 1", 1, "kernel-type", "argument 0 is not one semaphore that is counted"},
		{"semaphore_wait done[...], 0.5", 1, "kernel-type", "argument 1 must be an int"},
	};
	(void)state;
	REFUSED(wrong);
}

/* A gather is of a SparseCore, and gives a row for each of its table. */
static void test_gathers(void **state) {
	static const Wrong wrong[] = {
		{"c = gather_copy x_hbm[...], buf[0], buf[...], sem[...] : copy", 1, "kernel-type",
	         "the table is float32[256], no int32[n]"},
		{"c = gather_copy x_hbm[...], rows[0 +: 4], buf[...], sem[...] : copy", 1, "kernel-type",
	         "it gathers float32[4, 256] to float32[8, 256]"},
		{"c = gather_copy buf[...], rows[...], buf[...], sem[...] : copy", 1, "kernel-type",
	         "a SparseCore gathers from hbm to vmem, by a table in vmem"},
		{"c = gather_copy x_hbm[...], rows[...], buf[...], sem[...] : int", 1, "kernel-type",
	         "it gives a copy"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		Front f;
		front_start(&f);
		const char *text =
			arena_printf(&f.arena,
		                     "%skernel k {\nin x_hbm hbm float32[16, 256]\nscratch rows vmem int32[8]\n"
		                     "scratch buf vmem float32[8, 256]\nscratch sem dma []\nsparse_core 2 16\n"
		                     "%s\n}\nhost(x) {\nreturn x\n}\n",
		                     HEAD, wrong[i].lines);
		refused(text, 9 + wrong[i].line, &wrong[i]);
		front_end(&f);
	}
}

#define FUNCTION                                                                                                       \
	"def f(w: vmem float32[8, 256], n: int) {\n"                                                                   \
	"b = load w[...] : float32[8, 256]\n"                                                                          \
	"return b\n"                                                                                                   \
	"}\n"
#define BODY                                                                                                           \
	"def f(j: int, b: float32[8, 256]) fori {\n"                                                                   \
	"return b\n"                                                                                                   \
	"}\n"

static void test_functions(void **state) {
	static const Wrong wrong[] = {
		{FUNCTION "b = call f(buf[0]) : float32[8, 256]", 5, "kernel-arguments", "parameter 'n' is not given"},
		{FUNCTION "b = call f(buf[0], 1, 2) : float32[8, 256]", 5, "kernel-arguments",
	         "the function takes 2 arguments, not 3"},
		{FUNCTION "b = call f(buf[...], 1) : float32[8, 256]", 5, "kernel-type",
	         "parameter 'w' is float32[8, 256], and it is called with float32[2, 8, 256]"},
		{FUNCTION "b = call f(x_hbm[0 +: 8, :], 1) : float32[8, 256]", 5, "kernel-type",
	         "parameter 'w' is float32[8, 256], and it is called with float32[8, 256] of another space"},
		{FUNCTION "b = call f(a, 1) : float32[8, 256]", 5, "kernel-arguments",
	         "argument 0 must be parameter 'w': a reference"},
		{FUNCTION "b = call f(buf[0], a) : float32[8, 256]", 5, "kernel-type",
	         "'a' is float32[8, 256], and parameter 'n' is an int"},
		{FUNCTION "b = call f(buf[0], 1) : float32[8]", 5, "kernel-type",
	         "'b' is float32[8, 256], and the result is float32[8]"},
		{FUNCTION "call f(buf[0], 1)", 5, "kernel-structure", "it has 0 results and the function gives 1"},
		{BODY "b = call f(1, a) : float32[8, 256]", 4, "kernel-structure",
	         "it calls the body of a fori, a while or a pipeline"},
		{BODY "b = fori (4) f(2.0) : float32[8, 256]", 4, "kernel-type",
	         "parameter 'b' is float32[8, 256]: it needs a value"},
		{BODY "fori (4) f(a)", 4, "kernel-structure", "it carries 1 values and gives 0"},
		{FUNCTION "b = fori (4) f(a) : float32[8, 256]", 5, "kernel-arguments",
	         "it carries 1 value, its body does not take the step and as many"},
		{"return", 1, "kernel-structure", "it ends no region here"},
		{"def f() {\nreturn\nb = zeros : float32[8]\n}", 2, "kernel-structure", "it ends no region here"},
	};
	(void)state;
	REFUSED(wrong);
}

static void test_regions(void **state) {
	static const Wrong wrong[] = {
		{"b = for s in 2 from 0 carry (b = a) : float32[8, 128] {\nyield b\n}", 1, "kernel-type",
	         "'a' is float32[8, 256], and 'b' is float32[8, 128]"},
		{"b = for s in 2 from 0 carry (b = a) : float32[8, 256] {\nc = exp b : float32[8, 256]\n}", 1,
	         "kernel-structure", "it has 1 result and its region gives 0"},
		{"b = for s in 2 from 0 carry (b = a) : float32[8, 256] {\nc = zeros : int32[8, 256]\nyield c\n}", 1,
	         "kernel-type", "'c' is int32[8, 256], and the result is float32[8, 256]"},
		{"b = if (0 < 1) : float32[8, 256] {\nyield a\n}", 1, "kernel-arguments",
	         "it has 1 argument and takes 2"},
		{"b = if (0 < 1) else (1) : float32[8, 256] {\nyield a\n}", 1, "kernel-type",
	         "the result is float32[8, 256]: it needs a value"},
		{"when a {\n}", 1, "kernel-arguments", "it needs a condition: a flag, or an expression in parentheses"},
		{"when (1 < 2) {\nyield\n}", 2, "kernel-structure", "it ends no region here"},
		{"for _ in 2 from 0 slice at 128 {\n}", 1, "kernel-structure", "its slice reads the step"},
		{"def f() fori {\n}", 1, "kernel-structure", "the body of a fori takes the step and what is carried"},
		{"def f(go: int32) while {\n return go\n}", 1, "kernel-structure",
	         "the body of a while takes what is carried, a bool first"},
		{BODY "b = while f(a) : float32[8, 256]", 4, "kernel-arguments",
	         "it carries 1 value and gives 1, its body takes 2"},
		{"b = loop step() fori_loop carry (b = a) : float32[8, 256] {\nyield b\n}", 1, "kernel-structure",
	         "a loop without dims runs while what it carries first is set"},
		{"push a, a", 1, "kernel-type", "its first argument is no queue"},
		{"def f(w: vmem float32[4, 256]) {\n}\npipeline f grid (2) at (u) {\n}", 3, "kernel-arguments",
	         "it has 0 windows, its body takes 1"},
		{"def f(w: vmem float32[4, 256]) {\n}\npipeline f grid (2) at (u) {\nin x_hbm [8, 256] at (u, 0) "
	         "buffers "
	         "2\n}",
	         3, "kernel-type", "parameter 'w' is not float32[8, 256], as the window of 'x_hbm' is"},
		{"b = launch kernel=0, a : float32[8, 256]", 1, "kernel-structure",
	         "the host launches kernels of the program, by their numbers"},
	};
	(void)state;
	REFUSED(wrong);
}

/* Statements 1 to 3 are the function, 4 is the loop. */
#define LOOP(type, carry)                                                                                              \
	"def f(w: vmem float32[8, 128], m: float32[8, 256]) {\nreturn m\n}\n"                                          \
	"b = loop f(j) " type " carry (" carry ") : float32[8, 256] {\n"                                               \
	"dim j steps (2) full 2 tail 0 size 128\n"                                                                     \
	"window w vmem float32[8, 128] of x_ref in at (0, j) buffers 0\n"
#define STEP "m = call f(w[...] at (j), m) : float32[8, 256]\nyield m\n}"

static void test_loops(void **state) {
	static const Wrong wrong[] = {
		{LOOP("unroll", "m = a in buf") "yield m\n}", 4, "kernel-type",
	         "'m' is float32[8, 256], and 'buf' is float32[2, 8, 256]"},
		{LOOP("unroll", "m = a") "window v vmem int32[8, 128] of x_ref at (0, j) buffers 0\nyield m\n}", 4,
	         "kernel-type", "window 'v' is not of the type of 'x_ref'"},
		{LOOP("unroll", "m = a") "call f(w[...], m)\n}", 4, "kernel-structure",
	         "a region of it yields nothing"},
		{LOOP("unroll", "m = _") "runs (2)\n" STEP, 4, "kernel-arguments", "'m' starts as nothing"},
		{LOOP("unroll", "m = a") STEP, 7, "kernel-structure", "only a whole window of a loop is one at a step"},
		{LOOP("unroll", "m = a") "runs (2)\nc = load w[...] : float32[8, 128]\n" STEP, 8, "kernel-structure",
	         "there is no window of an own step before or behind a loop, or where it says `runs`"},
		{LOOP("unroll", "m = a") "runs (2)\nbehind {\nm = call f(w[...] at (j), m) : float32[8, 256]\nyield "
	                                 "m\n}\n" STEP,
	         9, "kernel-structure", "before and behind a loop the step is a number"},
		{LOOP("unroll", "m = a, n: float32[8, 256] = a") "tail {\nyield n\n}\nyield m, n\n}", 8,
	         "kernel-undefined", "'n' is read before it is defined"},
		{LOOP("emit_pipeline", "m = a") "yield m\n}", 4, "kernel-structure",
	         "an emit_pipeline passes no value on, and 'm' is one"},
	};
	(void)state;
	REFUSED(wrong);
}

/* The signature has no statement. */
static void test_signatures(void **state) {
	static const Wrong wrong[] = {
		{"in x_ref vmem float32[8, 256] buffers 2", 0, "kernel-signature",
	         "kernel 'k': 'x_ref' does not say of which array its block is, and where"},
		{"in x_ref vmem float32[8, 256] of [16, 256] at (2, 0) buffers 2", 0, "kernel-bounds",
	         "kernel 'k': block 2 of 'x_ref' in dim 0 is behind its 16 elements"},
		{"in t smem int32[2]\nin x_ref vmem float32[8, 256] of [16, 256] at (t[0], 0) buffers 2", 0,
	         "kernel-signature", "kernel 'k': 't' is not there before the grid starts"},
		{"scratch s hbm float32[8]", 0, "kernel-signature",
	         "kernel 'k': scratch 's' is in no space of the kernel's own"},
		{"in s dma [2]", 0, "kernel-signature", "kernel 'k': 's' is an operand, and no array"},
		{"in u hbm float32[8]\nout w hbm float32[9] alias u", 0, "kernel-signature",
	         "kernel 'k': 'w' cannot take over 'u': float32[8] is no float32[9]"},
		{"out w hbm float32[8] half", 0, "kernel-signature",
	         "kernel 'k': 'w' cannot be the bits of an array of float16"},
		{"in u hbm int16[8] at (0) fused", 0, "kernel-signature",
	         "kernel 'k': 'u' is in no window of the grid"},
		{"in u hbm float32[8]\nin t prefetch int32[2]", 0, "kernel-signature",
	         "kernel 'k': 't' is prefetched, and stands behind an operand that is not"},
		{"out t prefetch int32[2]", 0, "kernel-signature", "kernel 'k': 't' is prefetched, and an output"},
		{"grid i 2 parallel\nsparse_core 2 16", 0, "kernel-signature",
	         "kernel 'k': a kernel of SparseCores has no grid, vmem_limit, cost_estimate, mesh or collective_id"},
		{"in u smem int32[2]\nsparse_core 2 16", 0, "kernel-signature",
	         "kernel 'k': 'u' is an operand of SparseCores"},
		{"strips 512 96", 0, "kernel-signature",
	         "kernel 'k': rows of 512 columns are not made of strips of 96"},
		{"strips 512 512", 0, "kernel-signature",
	         "kernel 'k': rows of 512 columns are not made of strips of 512"},
		{"strips 512 384", 0, "kernel-signature",
	         "kernel 'k': rows of 512 columns are not made of strips of 384"},
		{"scratch s vmem float32[8, 512]\nstrips 512 128\na = zeros : float32[1, 512] stash s", 0,
	         "kernel-signature", "kernel 'k': 's' is no stash of the value"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		Front f;
		front_start(&f);
		const char *text =
			arena_printf(&f.arena, "%skernel k {\n%s\n}\nhost(x) {\nreturn x\n}\n", HEAD, wrong[i].lines);
		refused(text, 0, &wrong[i]);
		front_end(&f);
	}
}

static void test_hosts(void **state) {
	static const Wrong wrong[] = {
		{"return", 1, "kernel-structure", "the program has 1 outputs, the host returns 0"},
		{"b = zeros : float32[8]\nreturn b", 2, "kernel-type",
	         "output 'y' is float32[16, 256], not float32[8]"},
		{"b = launch kernel=1 : float32[8]\nreturn x", 1, "kernel-structure",
	         "the host launches kernels of the program, by their numbers"},
		{"b = launch kernel=0, x : float32[16, 256]\nreturn b", 1, "kernel-type",
	         "input 'table' of the kernel is int32[2], not float32[16, 256]"},
		{"t = zeros : int32[2]\nb = launch kernel=0, t, x : float32[16, 256]\nreturn b", 2, "kernel-arguments",
	         "the kernel has 3 inputs, it is launched with 2"},
		{"t = zeros : int32[2]\nb = launch kernel=0, t, x, x : float32[16]\nreturn x", 2, "kernel-type",
	         "output 'y_ref' of the kernel is float32[16, 256], not float32[16]"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		Front f;
		front_start(&f);
		const char *text = arena_printf(&f.arena, "%s}\nhost(x) {\n%s\n}\n", KERNEL, wrong[i].lines);
		refused(text, 16 + wrong[i].line, &wrong[i]);
		front_end(&f);
	}
}

/* The statement in the message is as it is written; the place is that of the text that was read. */
static void test_printed(void **state) {
	Front f;
	char *printed;
	size_t length;
	(void)state;
	front_start(&f);
	assert_false(verified(&f, "# a comment\n" KERNEL "   b = exp a:float32[8,128]\n" HOST));
	FILE *out = open_memstream(&printed, &length);
	diag_print(&f.diag, out, DIAG_TEXT, false);
	fclose(out);
	assert_string_equal(printed, "k.kernel:16:4: error: kernel 'k', `b = exp a : float32[8, 128]`: it gives "
	                             "float32[8, 256] and states float32[8, 128] [kernel-type]\n"
	                             "       b = exp a:float32[8,128]\n"
	                             "       ^\n"
	                             "  hint: state what it gives, or convert\n");
	free(printed);
	front_end(&f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_right),   cmocka_unit_test(test_files),   cmocka_unit_test(test_values),
		cmocka_unit_test(test_memory),  cmocka_unit_test(test_copies),  cmocka_unit_test(test_functions),
		cmocka_unit_test(test_regions), cmocka_unit_test(test_hosts),   cmocka_unit_test(test_signatures),
		cmocka_unit_test(test_gathers), cmocka_unit_test(test_printed), cmocka_unit_test(test_loops),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
