/* The model of the core: statements as operations on registers, and what a kernel of them takes. */
#include "plan_fixture.h"
#include "codegen/build/build.h"
#include "codegen/core/core.h"
#include "codegen/core/schedule.h"
#include "codegen/kernel_text/kernel_text.h"

/* out = exp(x), x float32 [256, 1024]. */
#define EXPONENTIAL                                                                                                    \
	"name exponential\n"                                                                                           \
	"tensor x input float32[256, 1024]\n"                                                                          \
	"tensor out output float32[256, 1024]\n"                                                                       \
	"block m 256\n"                                                                                                \
	"root 0 over [0]\n"                                                                                            \
	"x = tile.host_tensor('x') : float32[256, 1024]\n"                                                             \
	"t = tile.load(x, [u0, :]) : float32[u0, 1024]\n"                                                              \
	"e = aten.exp.default(t) : float32[u0, 1024]\n"                                                                \
	"out = tile.host_tensor('out') : float32[256, 1024]\n"                                                         \
	"store = tile.store(out, [u0, :], e)\n"                                                                        \
	"return\n"

/* out = sum(x, -1, keepdim). */
#define ROW_SUM                                                                                                        \
	"name row_sum\n"                                                                                               \
	"tensor x input float32[256, 1024]\n"                                                                          \
	"tensor out output float32[256, 1]\n"                                                                          \
	"block m 256\n"                                                                                                \
	"root 0 over [0]\n"                                                                                            \
	"x = tile.host_tensor('x') : float32[256, 1024]\n"                                                             \
	"t = tile.load(x, [u0, :]) : float32[u0, 1024]\n"                                                              \
	"s = aten.sum.dim_IntList(t, [-1], true) : float32[u0, 1]\n"                                                   \
	"out = tile.host_tensor('out') : float32[256, 1]\n"                                                            \
	"store = tile.store(out, [u0, :], s)\n"                                                                        \
	"return\n"

/* out = x @ y, 512 x 512 x 512. */
#define PRODUCT(dtype, sum)                                                                                            \
	"name product\n"                                                                                               \
	"tensor x input " dtype "[512, 512]\n"                                                                         \
	"tensor y input " dtype "[512, 512]\n"                                                                         \
	"tensor out output " sum "[512, 512]\n"                                                                        \
	"block m 512\n"                                                                                                \
	"root 0 over [0]\n"                                                                                            \
	"x = tile.host_tensor('x') : " dtype "[512, 512]\n"                                                            \
	"a = tile.load(x, [u0, :]) : " dtype "[u0, 512]\n"                                                             \
	"y = tile.host_tensor('y') : " dtype "[512, 512]\n"                                                            \
	"b = tile.load(y, [:, :]) : " dtype "[512, 512]\n"                                                             \
	"c = tile.dot(a, b) : " sum "[u0, 512]\n"                                                                      \
	"out = tile.host_tensor('out') : " sum "[512, 512]\n"                                                          \
	"store = tile.store(out, [u0, :], c)\n"                                                                        \
	"return\n"

typedef struct Looked {
	uint16_t op;
	Core core;
	Work work;
	uint32_t count;
} Looked;

static void look(Kernel *k, StmtId s, void *data) {
	Looked *l = data;
	const Work *w = statement_work(&l->core, s);
	if (kernel_stmt(k, s)->op != l->op)
		return;
	for (uint32_t u = 0; u < UNIT_COUNT; u++)
		l->work.of[u] += w->of[u];
	l->work.chain += w->chain;
	l->work.again += w->again;
	l->count++;
}

/* Operations of the statements of an op, in one grid point; of the whole kernel the time. */
static Work work_of(const char *document, const char *chip, const char *block, uint16_t op, CoreTime *time) {
	Planned p;
	front_start(&p.front);
	planned_load(&p, document);
	planned_target(&p, chip);
	planned_make(&p, SETTINGS(block));
	assert_non_null(p.plan);
	const Target *t = target_find(chip);
	Kernel *k = plan_kernel(p.plan);
	Looked l = {.op = op, .core = core_of(k, t, &p.front.arena)};
	kernel_walk(k, k->body, look, &l);
	assert_true(l.count > 0);
	if (time)
		kernel_time(k, t, &p.front.arena, time);
	planned_end(&p);
	return l.work;
}

static void assert_near(double x, double wanted) {
	double apart = x > wanted ? x - wanted : wanted - x;
	if (apart > 1e-6 * wanted)
		fail_msg("%g, not %g", x, wanted);
}

static void assert_work(Work w, Unit unit, double operations) { assert_near(w.of[unit], operations); }

/* [256, 1024] are 32 x 8 registers: each a product, a power of two and its result. */
static void an_exponential_is_a_product_and_an_eup_op(void **state) {
	(void)state;
	Work w = work_of(EXPONENTIAL, "v6e", "block_sizes=[256]", OP_EXP, NULL);
	assert_work(w, UNIT_EUP, 256);
	assert_work(w, UNIT_POP, 256);
	assert_work(w, UNIT_VALU, 512);
	assert_work(w, UNIT_XLU, 0);
	w = work_of(EXPONENTIAL, "v6e", "block_sizes=[64]", K_LOAD, NULL);
	assert_work(w, UNIT_LOAD, 64);
}

/* 8 registers of each row group become one by 7 additions, that one is added up by the XLU. */
static void a_sum_along_lanes_is_one_xlu_op_for_eight_rows(void **state) {
	(void)state;
	Work w = work_of(ROW_SUM, "v6e", "block_sizes=[256]", K_SUM, NULL);
	assert_work(w, UNIT_XLU, 32);
	assert_work(w, UNIT_VALU, 32 * 7);
}

/* Of 16 rows each: 32 of them, 2 blocks of the contracted dim, 2 of the columns: 128 vmatmuls of 8 cycles in 2 units on
 * v6e; on v5e 32 x 4 x 4 of 16 cycles in 4 units. Half of 256 x 2 results are added to the others on v6e. */
static void a_matmul_is_passes_of_blocks(void **state) {
	(void)state;
	Work w = work_of(PRODUCT("bfloat16", "float32"), "v6e", "block_sizes=[512]", K_DOT, NULL);
	assert_work(w, UNIT_MXU, 128 * 8 / 2.0);
	assert_work(w, UNIT_POP, 512);
	assert_work(w, UNIT_VALU, 256);
	assert_work(w, UNIT_PUSH, 256);
	w = work_of(PRODUCT("bfloat16", "float32"), "v5e", "block_sizes=[512]", K_DOT, NULL);
	assert_work(w, UNIT_MXU, 512 * 16 / 4.0);
	w = work_of(PRODUCT("bfloat16", "float32"), "v7x", "block_sizes=[512]", K_DOT, NULL);
	assert_work(w, UNIT_POP, 256);
	assert_work(w, UNIT_VALU, 0);
}

/* One of int8 enters 32 rows; v7x has no such matmul and takes bfloat16. */
static void a_matmul_of_int8_has_half_the_passes_but_on_v7x(void **state) {
	(void)state;
	Work w = work_of(PRODUCT("int8", "int32"), "v6e", "block_sizes=[512]", K_DOT, NULL);
	assert_work(w, UNIT_MXU, 64 * 8 / 2.0);
	w = work_of(PRODUCT("int8", "int32"), "v7x", "block_sizes=[512]", K_DOT, NULL);
	assert_work(w, UNIT_MXU, 128 * 8 / 2.0);
}

/* 4 points of 256 KiB in and out, at 934.4 bytes a cycle: HBM takes 2244 cycles. The first block and the last one have
 * a latency of their own. */
static void a_kernel_takes_what_hbm_takes_and_its_ends(void **state) {
	(void)state;
	CoreTime time;
	work_of(EXPONENTIAL, "v6e", "block_sizes=[64]", OP_EXP, &time);
	double block = 64 * 1024 * 4 / (1.64e12 / 1.755e9);
	assert_near(time.hbm, 8 * block);
	assert_near(time.start, 2 * (block + 600));
	assert_near(time.busy[UNIT_EUP], 256);
	assert_true(time.cycles > time.start + time.hbm - 2 * block);
	assert_true(time.cycles < time.start + time.hbm + 1500);
}

/* 64 grid points, each with a loop over pages of 64 positions, `few` at once, of a table of 128. */
#define PAGED(statements)                                                                                              \
	"program p for v6e\n"                                                                                          \
	"input lengths int32[64]\n"                                                                                    \
	"input x float32[8, 128]\n"                                                                                    \
	"output y float32[64, 128]\n"                                                                                  \
	"kernel p {\n"                                                                                                 \
	"  grid i 64 parallel\n"                                                                                       \
	"  in lengths_ref smem int32[64] buffers 2\n"                                                                  \
	"  in x_ref vmem float32[8, 128] of [8, 128] at (0, 0) buffers 2\n"                                            \
	"  out y_ref vmem float32[1, 128] of [64, 128] at (i, 0) buffers 2\n"                                          \
	"  i = program_id dim=0 : int\n"                                                                               \
	"  %1 = zeros : float32[8, 128] initial\n" statements "}\n"                                                    \
	"host(lengths, x) {\n"                                                                                         \
	"  y = launch kernel=0, lengths, x : float32[64, 128]\n"                                                       \
	"  return y\n"                                                                                                 \
	"}\n"

#define STEPS(steps)                                                                                                   \
	"  s = loop step(j) fori_loop step j carry (a = %1) : float32[8, 128] {\n"                                     \
	"    dim j computed steps (" steps ") full 0 tail 0 size 1\n"                                                  \
	"    window w vmem float32[8, 128] of x_ref in copy x_copy at (0, 0) start (0, 0) by (0, 0) buffers 0\n"       \
	"    b = load w[...] : float32[8, 128]\n"                                                                      \
	"    c = add a, b : float32[8, 128]\n"                                                                         \
	"    yield c\n"                                                                                                \
	"  }\n"

/* Of a kernel text; the caller ends the front. */
static const KProgram *read_kernels(Front *f, const char *text) {
	front_start(f);
	f->source = (Source){.name = "p.kernel", .text = text, .length = strlen(text)};
	const KProgram *p = kernels_read(&f->arena, &f->diag, &f->source);
	assert_non_null(p);
	return p;
}

/* The mean of a loop's steps. */
static double mean_steps(const char *text) {
	Front f;
	const KProgram *p = read_kernels(&f, text);
	Kernel *k = p->kernels.at[0];
	const double *trips = loop_trips(k, &f.arena);
	double found = -1;
	for (StmtId s = 0; s < k->stmts.count; s++)
		found = k->stmts.at[s].op == K_LOOP ? trips[s] : found;
	front_end(&f);
	return found;
}

/* The mean over all rows of a triangle. */
static void steps_are_the_mean_over_the_grid(void **state) {
	(void)state;
	assert_near(mean_steps(PAGED(STEPS("i + 1"))), 32.5);
}

/* Lengths rise evenly to what the clamp lets through, 128 pages of 64: of pages of 64 in fours the mean is half of 32,
 * and half a step more, for what does not fill the last one. */
static void lengths_reach_what_a_clamp_lets_through(void **state) {
	(void)state;
	double steps = mean_steps(PAGED("  n = load lengths_ref[i] : int32\n"
	                                "  %2 = add n, 63 : int32\n"
	                                "  %3 = floored_quotient %2, 64 : int32\n"
	                                "  pages = clamp %3, 0, 128 : int32\n" STEPS("cdiv(pages, 4)")));
	assert_true(steps > 16 && steps < 17);
}

/* What a clamp lets through no further is no guess: eight are two fours, and not half of one more. */
static void a_loop_to_the_end_has_all_steps_and_no_more(void **state) {
	(void)state;
	assert_near(mean_steps(PAGED("  n = load lengths_ref[i] : int32\n"
	                             "  %2 = gt n, 0 : bool\n"
	                             "  some = where %2, 12, 4 : int32\n"
	                             "  pages = clamp some, 0, 8 : int32\n" STEPS("cdiv(pages, 4)"))),
	            2);
	assert_near(mean_steps(PAGED("  n = load lengths_ref[i] : int32\n"
	                             "  %2 = gt n, 0 : bool\n"
	                             "  some = where %2, 12, 4 : int32\n"
	                             "  pages = clamp some, 0, 16 : int32\n" STEPS("cdiv(pages, 4)"))),
	            2.5);
}

/* A flag is set in half of all cases. */
static void a_flag_is_set_in_half_of_all_cases(void **state) {
	(void)state;
	assert_near(mean_steps(PAGED("  n = load lengths_ref[i] : int32\n"
	                             "  %2 = gt n, 0 : bool\n"
	                             "  some = where %2, 12, 4 : int32\n" STEPS("some"))),
	            8);
}

#define ONE_OP(dtype, shape, statements)                                                                               \
	"program p for v6e\n"                                                                                          \
	"input x " dtype shape "\n"                                                                                    \
	"input n int32[2]\n"                                                                                           \
	"output y float32[8, 128]\n"                                                                                   \
	"kernel p {\n"                                                                                                 \
	"  grid i 1 arbitrary\n"                                                                                       \
	"  in x_ref vmem " dtype shape " of " shape " at (0, 0) buffers 2\n"                                           \
	"  in n_ref smem int32[2] buffers 2\n"                                                                         \
	"  out y_ref vmem float32[8, 128] of [8, 128] at (0, 0) buffers 2\n"                                           \
	"  a = load x_ref[...] : " dtype shape "\n"                                                                    \
	"  n = load n_ref[0] : int32\n" statements "}\n"                                                               \
	"host(x, n) {\n"                                                                                               \
	"  y = launch kernel=0, x, n : float32[8, 128]\n"                                                              \
	"  return y\n"                                                                                                 \
	"}\n"

/* Operations of the statements of an op in a kernel. */
static Work work_in(const char *text, const char *chip, uint16_t op) {
	Front f;
	const KProgram *p = read_kernels(&f, text);
	Kernel *k = p->kernels.at[0];
	Looked l = {.op = op, .core = core_of(k, target_find(chip), &f.arena)};
	kernel_walk(k, k->body, look, &l);
	assert_true(l.count > 0);
	front_end(&f);
	return l.work;
}

/* The XLU knows floats alone: of each of 32 registers the high halves, then the low ones. */
static void ints_go_across_lanes_in_halves(void **state) {
	(void)state;
	Work w = work_in(ONE_OP("int32", "[256, 128]", "  b = max a keep=1 axes=(1) : int32[256, 1]\n"), "v6e", K_MAX);
	assert_work(w, UNIT_XLU, 64);
	assert_work(w, UNIT_VALU, 320);
	assert_near(w.again, 1);
	w = work_in(ONE_OP("int32", "[256, 128]", "  b = sum a keep=1 axes=(1) : int32[256, 1]\n"), "v6e", K_SUM);
	assert_work(w, UNIT_XLU, 64);
	assert_work(w, UNIT_VALU, 256);
	w = work_in(ONE_OP("float32", "[256, 128]", "  b = max a keep=1 axes=(1) : float32[256, 1]\n"), "v6e", K_MAX);
	assert_work(w, UNIT_XLU, 32);
	assert_work(w, UNIT_VALU, 0);
}

/* 33 registers are turned by a number of up to 6 bits, and each within itself. */
static void a_rotation_by_an_unknown_number_is_one_for_each_bit(void **state) {
	(void)state;
	Work w = work_in(ONE_OP("float32", "[264, 256]", "  b = rotate a, (rem(n, 264)) axis=0 : float32[264, 256]\n"),
	                 "v6e", K_ROTATE);
	assert_work(w, UNIT_VALU, 66 * 8);
	w = work_in(ONE_OP("float32", "[512, 128]", "  b = rotate a, (rem(n, 128)) axis=1 : float32[512, 128]\n"),
	            "v6e", K_ROTATE);
	assert_work(w, UNIT_VALU, 0);
	assert_work(w, UNIT_XLU, 64);
}

/* v5e has no float8: 512 x 512 x 512 of it take what bfloat16 takes. */
static void a_matmul_of_float8_is_one_of_bfloat16_on_v5e(void **state) {
	(void)state;
	const char *text =
		ONE_OP("float8_e4m3fn", "[512, 512]", "  b = dot a, a a=1 b=0 highest=0 : float32[512, 512]\n");
	assert_work(work_in(text, "v5e", K_DOT), UNIT_MXU, 512 * 16 / 4.0);
	assert_work(work_in(text, "v6e", K_DOT), UNIT_MXU, 64 * 8 / 2.0);
}

/* It gets another shape as an int, and is a bool again. */
static void a_bool_that_is_an_int_between_is_nothing(void **state) {
	(void)state;
	Work w = work_in(ONE_OP("float32", "[64, 1024]",
	                        "  b = gt a, 0.0 : bool[64, 1024]\n"
	                        "  c = convert b : int32[64, 1024]\n"
	                        "  d = reshape c : int32[1, 64, 1024]\n"
	                        "  e = convert d : bool[1, 64, 1024]\n"),
	                 "v6e", K_CONVERT);
	assert_work(w, UNIT_VALU, 0);
}

/* 16 registers, once, for all that meets them; a sum along lanes is in all of them already. */
static void a_column_that_was_a_row_is_spread_once(void **state) {
	(void)state;
	Work w = work_in(ONE_OP("float32", "[1, 128]",
	                        "  b = to_column a : float32[128, 1]\n"
	                        "  o = ones : float32[128, 256]\n"
	                        "  c = mul b, b : float32[128, 1]\n"
	                        "  d = mul o, c : float32[128, 256]\n"
	                        "  e = mul d, c : float32[128, 256]\n"),
	                 "v6e", OP_MUL);
	assert_work(w, UNIT_XLU, 16);
	assert_work(w, UNIT_VALU, 16 + 16 + 16); /* all lanes of ones times a column are the same */
	w = work_in(ONE_OP("float32", "[128, 256]",
	                   "  b = sum a keep=1 axes=(1) : float32[128, 1]\n"
	                   "  c = mul a, b : float32[128, 256]\n"),
	            "v6e", OP_MUL);
	assert_work(w, UNIT_XLU, 0);
}

/* Cycles of one grid point of a kernel. */
static double computed_in(const char *text, const char *chip) {
	Front f;
	CoreTime time;
	const KProgram *p = read_kernels(&f, text);
	kernel_time(p->kernels.at[0], target_find(chip), &f.arena, &time);
	front_end(&f);
	return time.compute;
}

/* 256 registers of which each goes through the EUP: what stands before waits for none but the first. */
static void registers_stream_where_nothing_waits_for_all(void **state) {
	(void)state;
	double cycles = computed_in(ONE_OP("float32", "[256, 1024]",
	                                   "  b = add a, a : float32[256, 1024]\n"
	                                   "  c = exp b : float32[256, 1024]\n"),
	                            "v6e");
	assert_true(cycles > 256 && cycles < 300);
	cycles = computed_in(ONE_OP("float32", "[256, 1024]",
	                            "  b = add a, a : float32[256, 1024]\n"
	                            "  c = sum b keep=1 axes=(0) : float32[1, 1024]\n"
	                            "  d = sub b, c : float32[256, 1024]\n"
	                            "  e = exp d : float32[256, 1024]\n"),
	                     "v6e");
	assert_true(cycles > 256 + 64 + 64);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_exponential_is_a_product_and_an_eup_op),
		cmocka_unit_test(a_sum_along_lanes_is_one_xlu_op_for_eight_rows),
		cmocka_unit_test(a_matmul_is_passes_of_blocks),
		cmocka_unit_test(a_matmul_of_int8_has_half_the_passes_but_on_v7x),
		cmocka_unit_test(a_kernel_takes_what_hbm_takes_and_its_ends),
		cmocka_unit_test(steps_are_the_mean_over_the_grid),
		cmocka_unit_test(lengths_reach_what_a_clamp_lets_through),
		cmocka_unit_test(a_loop_to_the_end_has_all_steps_and_no_more),
		cmocka_unit_test(a_flag_is_set_in_half_of_all_cases),
		cmocka_unit_test(ints_go_across_lanes_in_halves),
		cmocka_unit_test(a_rotation_by_an_unknown_number_is_one_for_each_bit),
		cmocka_unit_test(a_matmul_of_float8_is_one_of_bfloat16_on_v5e),
		cmocka_unit_test(a_bool_that_is_an_int_between_is_nothing),
		cmocka_unit_test(a_column_that_was_a_row_is_spread_once),
		cmocka_unit_test(registers_stream_where_nothing_waits_for_all),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
