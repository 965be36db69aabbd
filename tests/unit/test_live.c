/* What a kernel spills, by its statements: kernels as text, and the bytes of v6e and v4. */
#include "front.h"
#include "codegen/kernel_text/kernel_text.h"
#include "codegen/vmem/live.h"

enum { TILE = 256 * 512 * 4 };

/* Bytes that the kernel of this body spills. It has x and y float32 [256, 512], c [256, 1], w [512, 512], b
 * like x in bfloat16, o and q like x, r [256, 1, 512], p [256, 2, 512], c_out like c, and scratch acc. */
static int64_t spilled(const char *chip, const char *body) {
	Front f;
	front_start(&f);
	const char *text =
		arena_printf(&f.arena,
	                     "program p for v6e\ninput x float32[256, 512]\noutput o float32[256, 512]\n"
	                     "kernel k {\n"
	                     "  in x_ref vmem float32[256, 512] of [256, 512] at (0, 0) buffers 1\n"
	                     "  in y_ref vmem float32[256, 512] of [256, 512] at (0, 0) buffers 1\n"
	                     "  in c_ref vmem float32[256, 1] of [256, 1] at (0, 0) buffers 1\n"
	                     "  in w_ref vmem float32[512, 512] of [512, 512] at (0, 0) buffers 1\n"
	                     "  in b_ref vmem bfloat16[256, 512] of [256, 512] at (0, 0) buffers 1\n"
	                     "  out o_ref vmem float32[256, 512] of [256, 512] at (0, 0) buffers 1\n"
	                     "  out q_ref vmem float32[256, 512] of [256, 512] at (0, 0) buffers 1\n"
	                     "  out r_ref vmem float32[256, 1, 512] of [256, 1, 512] at (0, 0, 0) buffers 2\n"
	                     "  out p_ref vmem float32[256, 2, 512] of [256, 2, 512] at (0, 0, 0) buffers 2\n"
	                     "  out c_out_ref vmem float32[256, 1] of [256, 1] at (0, 0) buffers 2\n"
	                     "  scratch acc_ref vmem float32[256, 512]\n"
	                     "%s}\nhost(x) {\n  return x\n}\n",
	                     body);
	f.source = (Source){.name = "k.kernel", .text = text, .length = strlen(text)};
	const KProgram *p = kernels_read(&f.arena, &f.diag, &f.source);
	if (!p)
		diag_print(&f.diag, stderr, DIAG_TEXT, false);
	assert_non_null(p);
	int64_t bytes = p ? kernel_spills(p->kernels.at[0], target_find(chip), &f.arena) : -1;
	front_end(&f);
	return bytes;
}

enum { SPARE_BYTES = 20 * 4096 }; /* what the registers hold */

static int64_t kept(int64_t bytes, int64_t percent) { return bytes * percent / 100 - SPARE_BYTES; }

static const Target *of(const char *chip) { return target_find(chip); }

#define TILED " : float32[256, 512]\n"
#define COLUMNED " : float32[256, 1] column\n"
#define LOADED "  x = load x_ref[...]" TILED
#define EXPONENT "  e = exp x" TILED
#define STORED(value) "  store o_ref[...], " value "\n"

/* A chain of ops streams; a second store starts before the first is done. */
static void what_streams_is_not_held(void **state) {
	(void)state;
	assert_int_equal(spilled("v6e", LOADED EXPONENT "  n = neg e" TILED STORED("n")), 0);
	assert_int_equal(spilled("v6e", LOADED EXPONENT "  store q_ref[...], e\n  n = neg e" TILED STORED("n")), TILE);
}

/* Whole, from where it is computed to its last use: a load, which some chips' compilers load again, weighs less. */
static void what_lies_across_a_barrier_is_held(void **state) {
	(void)state;
	static const char *const computed =
		LOADED EXPONENT "  s = sum e keep=1 axes=(1)" COLUMNED "  d = div e, s" TILED STORED("d");
	static const char *const loaded =
		LOADED "  m = max x keep=1 axes=(1)" COLUMNED "  d = sub x, m" TILED STORED("d");
	static const char *const chips[] = {"v4", "v5e", "v5p", "v6e", "v7x"};
	for (size_t i = 0; i < sizeof chips / sizeof *chips; i++) {
		assert_int_equal(spilled(chips[i], computed), kept(TILE, of(chips[i])->spill_tiles));
		assert_int_equal(spilled(chips[i], loaded), int_max(kept(TILE, of(chips[i])->spill_loads), 0));
	}
}

/* What only comes after a reduction reads, and does not need it: not where nothing of 32-bit loads is computed early.
 */
static void what_waits_for_a_reduction_is_computed_early(void **state) {
	(void)state;
	static const char *const body = LOADED "  t = sum x keep=1 axes=(1)" COLUMNED "  y = load y_ref[...]" TILED
					       "  e = exp y" TILED "  d = mul e, t" TILED STORED("d");
	assert_int_equal(spilled("v6e", body), kept(TILE, of("v6e")->spill_tiles));
	assert_int_equal(spilled("v5e", body), 0);
	static const char *const rows =
		LOADED "  t = sum x keep=1 axes=(0) : float32[1, 512] row\n  y = load y_ref[...]" TILED
		       "  e = exp y" TILED "  d = mul e, t" TILED STORED("d");
	assert_int_equal(spilled("v6e", rows), 0); /* it comes out as it goes */
}

/* A computed tile waits for a column that is loaded; a second column for all chips. */
static void what_meets_a_loaded_column_waits(void **state) {
	(void)state;
	static const char *const one =
		"  c = load c_ref[...]" COLUMNED LOADED EXPONENT "  d = mul e, c" TILED STORED("d");
	assert_int_equal(spilled("v6e", one), TILE - SPARE_BYTES);
	assert_int_equal(spilled("v4", one), 0);
	static const char *const two =
		"  c = load c_ref[...]" COLUMNED LOADED "  d = sub x, c" TILED "  e = mul d, c" TILED STORED("e");
	assert_int_equal(spilled("v6e", two), TILE - SPARE_BYTES);
	assert_int_equal(spilled("v5e", two), int_max(TILE / 6 - SPARE_BYTES, 0));
}

/* A product is there whole, and its left factor; where steps add it up it streams back. */
static void what_a_product_holds(void **state) {
	(void)state;
	const Target *t = of("v6e");
	int64_t factors = (int64_t)TILE * t->spill_factors;
	static const char *const once = LOADED "  w = load w_ref[...] : float32[512, 512]\n"
					       "  d = dot x, w a=1 b=0 highest=0" TILED STORED("d");
	assert_int_equal(spilled("v7x", once), 0); /* in the matrix unit's buffer */
	assert_int_equal(spilled("v6e", once), (TILE * t->spill_tiles + factors) / 100 - SPARE_BYTES);
	static const char *const steps =
		"  z = zeros" TILED "  o = loop step(j) fori_loop carry (acc = z in acc_ref) : float32[256, 512] {\n"
		"    dim j steps (4) full 4 tail 0 size 512\n"
		"    x = load x_ref[...]" TILED "    w = load w_ref[...] : float32[512, 512]\n"
		"    d = dot x, w a=1 b=0 highest=0" TILED "    sum = add acc, d" TILED
		"    yield sum\n  }\n" STORED("o");
	assert_int_equal(spilled("v6e", steps), (TILE * t->spill_results + factors) / 100 - SPARE_BYTES);
	static const char *const few =
		"  z = zeros" TILED "  o = loop step(j) fori_loop carry (acc = z in acc_ref) : float32[256, 512] {\n"
		"    dim j steps (4) full 4 tail 0 size 512\n"
		"    b = load b_ref[...] : bfloat16[256, 512]\n    w = load w_ref[...] : float32[512, 512]\n"
		"    d = dot b, w a=1 b=0 highest=0" TILED "    sum = add acc, d" TILED
		"    yield sum\n  }\n" STORED("o");
	assert_int_equal(spilled("v6e", few), kept(TILE / 2, t->spill_tiles)); /* the packed factor alone */
	assert_int_equal(spilled("v4", few),
	                 kept(TILE, of("v4")->spill_results) + TILE / 2 * of("v4")->spill_factors / 100);
}

/* Halves of tiles of lanes side by side. */
static void what_moves_goes_through_registers_whole(void **state) {
	(void)state;
	static const char *const body = LOADED "  a = index x items=[:, 0:192] : float32[256, 192]\n"
					       "  b = index x items=[:, 192:512] : float32[256, 320]\n"
					       "  d = concatenate a, b axis=1" TILED STORED("d");
	assert_int_equal(spilled("v6e", body), 3 * TILE - SPARE_BYTES);
}

/* v4 moves rows one by one: a register for each that becomes a tile, one for each 128 lanes of those side by side. */
static void what_is_moved_row_by_row(void **state) {
	(void)state;
	static const char *const view = LOADED "  d = index x items=[:, None, :] : float32[256, 1, 512]\n"
					       "  store r_ref[...], d\n";
	assert_int_equal(spilled("v4", view), 256 * 4096 - SPARE_BYTES);
	assert_int_equal(spilled("v6e", view), 0);
	static const char *const stack = LOADED EXPONENT "  d = stack x, e axis=1 : float32[256, 2, 512]\n"
							 "  store p_ref[...], d\n";
	assert_int_equal(spilled("v4", stack), 2 * TILE * 8 - SPARE_BYTES);
	assert_int_equal(spilled("v6e", stack), 0);
}

/* Each step's sum of columns is ready before its turn: twice, beside the carried one. */
static void what_unrolled_steps_compute_early(void **state) {
	(void)state;
	enum { COLUMN = 256 * 128 * 4 };
	const Target *t = of("v6e");
	static const char *const body =
		"  z = zeros" COLUMNED "  o = loop step(j) unroll carry (t = z) : float32[256, 1] column {\n"
		"    dim j steps (4) full 4 tail 0 size 512\n"
		"    x = load x_ref[...]" TILED "    s = sum x keep=1 axes=(1)" COLUMNED "    n = add t, s" COLUMNED
		"    yield n\n  }\n  d = add o, 1.0" COLUMNED "  store c_out_ref[...], d\n";
	assert_int_equal(spilled("v6e", body),
	                 COLUMN * (t->spill_columns + INT64_C(3) * t->spill_steps) / 100 - SPARE_BYTES);
}

#define STEPS(yielded)                                                                                                 \
	"  z = zeros" TILED "  o = loop step(j) unroll carry (acc = z)" BODY yielded "    yield n\n  }\n" STORED("o")
#define BODY " : float32[256, 512] {\n    dim j steps (4) full 4 tail 0 size 512\n    x = load x_ref[...]" TILED

/* Steps without a barrier are computed register by register, one after the other. */
static void what_streams_through_unrolled_steps(void **state) {
	(void)state;
	assert_int_equal(spilled("v6e", STEPS("    e = exp x" TILED "    n = add acc, e" TILED)), 0);
}

/* A sum of columns is a column, whatever tile it is said to be: the carried one, and each step's beside it. */
static void what_is_the_same_in_all_lanes(void **state) {
	(void)state;
	enum { COLUMN = 256 * 128 * 4 };
	const Target *t = of("v6e");
	int64_t steps = INT64_C(3) * COLUMN * t->spill_steps;
	assert_int_equal(spilled("v6e", STEPS("    s = sum x keep=1 axes=(1)" COLUMNED "    n = add acc, s" TILED)),
	                 (COLUMN * t->spill_columns + steps) / 100 - SPARE_BYTES);
}

/* Of tiles that steps compute early only so much is under way: here less than one each. */
static void what_steps_have_under_way(void **state) {
	(void)state;
	static const char *const body = STEPS("    e = exp x" TILED "    s = sum e keep=1 axes=(1)" COLUMNED
	                                      "    m = mul acc, s" TILED "    n = add m, e" TILED);
	enum { COLUMN = 256 * 128 * 4 };
	int64_t one = TILE + INT64_C(2) * COLUMN, ahead = INT64_C(8) * COLUMN + INT64_C(768) * 1024;
	const Target *t = of("v6e");
	assert_true(3 * one > ahead);
	int64_t bytes = spilled("v6e", body), more = spilled("v5e", body);
	assert_in_range(bytes, ahead * t->spill_steps / 100, ahead * t->spill_steps / 100 + INT64_C(3) * TILE);
	assert_true(more > bytes);
}

/* Rows in strips: no tile is kept, but what the maximum adds up in, and what is widened for the sum. */
static void what_strips_spill(void **state) {
	(void)state;
	static const char *const body =
		"  strips 512 128\n  b = load b_ref[...] : bfloat16[256, 512]\n  x = convert b" TILED
		"  m = max x keep=1 axes=(1)" COLUMNED "  d = sub x, m" TILED "  e = exp d" TILED
		"  s = sum e keep=1 axes=(1)" COLUMNED "  store c_out_ref[...], s\n";
	assert_int_equal(spilled("v6e", body), TILE + 2 * (256 * 128 * 4));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_streams_is_not_held),
		cmocka_unit_test(what_lies_across_a_barrier_is_held),
		cmocka_unit_test(what_waits_for_a_reduction_is_computed_early),
		cmocka_unit_test(what_meets_a_loaded_column_waits),
		cmocka_unit_test(what_a_product_holds),
		cmocka_unit_test(what_moves_goes_through_registers_whole),
		cmocka_unit_test(what_is_moved_row_by_row),
		cmocka_unit_test(what_unrolled_steps_compute_early),
		cmocka_unit_test(what_streams_through_unrolled_steps),
		cmocka_unit_test(what_is_the_same_in_all_lanes),
		cmocka_unit_test(what_steps_have_under_way),
		cmocka_unit_test(what_strips_spill),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
