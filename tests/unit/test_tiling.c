/* The rows and lanes that targets ask for are those that the TPU compiler took: tests/plan/tiling/rules.json, which
 * `make probe-tiling` measures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "src/ops/ops.h"
#include "src/target/target.h"

static const char *const chips[] = {"v4", "v5e", "v5p", "v6e", "v7x"};
static const char *const wide[] = {"[n, 256]", "[b, n, 256]"}, *const narrow[] = {"[n, 128]"};

#define COUNT(a) (sizeof(a) / sizeof *(a))

static json_t *rules_of(const json_t *root, const char *chip, const char *use, const char *dtype) {
	json_t *at = json_object_get(json_object_get(root, "targets"), chip);
	at = json_object_get(json_object_get(at, use), dtype);
	return at;
}

/* A measured multiple; 0 where the compiler takes none. */
static int64_t measured(const json_t *rules, const char *layout, const char *question) {
	const json_t *answer = json_object_get(json_object_get(rules, layout), question);
	return json_is_integer(answer) ? json_integer_value(answer) : 0;
}

static int64_t measured_powers(const json_t *rules, const char *layout) {
	const json_t *powers = json_object_get(json_object_get(rules, layout), "powers");
	int64_t sum = 0;
	for (size_t i = 0; i < json_array_size(powers); i++)
		sum += json_integer_value(json_array_get(powers, i));
	return sum;
}

static bool refused(const json_t *rules) { return json_object_get(json_object_get(rules, "[n, 256]"), "refused"); }

static void check_rows(const Target *t, TileUse use, int bits, const json_t *rules, const char *question) {
	for (size_t i = 0; i < COUNT(wide); i++)
		assert_int_equal(target_row_multiple(t, use, bits, 256), measured(rules, wide[i], question));
	for (size_t i = 0; i < COUNT(narrow); i++)
		assert_int_equal(target_row_multiple(t, use, bits, 128), measured(rules, narrow[i], question));
}

static void check_powers(const Target *t, TileUse use, int bits, const json_t *rules) {
	for (size_t i = 0; i < COUNT(wide); i++) {
		int64_t sum = 0;
		for (int64_t rows = 1; rows < target_row_multiple(t, use, bits, 256); rows *= 2)
			sum += target_takes_rows(t, use, bits, 256, rows) ? rows : 0;
		assert_int_equal(sum, measured_powers(rules, wide[i]));
	}
}

static void check_lanes(const Target *t, const json_t *rules, const char *question) {
	static const char *const layouts[] = {"[r, n]", "[b, r, n]", "[1, n]", "[b, 1, n]"};
	for (size_t i = 0; i < COUNT(layouts); i++)
		if (i < 2 || json_object_get(rules, layouts[i])) /* not every use is asked about all */
			assert_int_equal(t->lanes, measured(rules, layouts[i], question));
}

static void check_clipped(const Target *t, int bits, const json_t *rules) {
	for (int is_wide = 0; is_wide < 2; is_wide++) {
		const char *layout = is_wide ? wide[0] : narrow[0];
		int64_t width = is_wide ? 256 : 128, copied = target_row_multiple(t, TILE_COPY, bits, width);
		assert_int_equal(target_row_multiple(t, TILE_CLIPPED, bits, width),
		                 int_max(copied, measured(rules, layout, "ragged")));
	}
}

static void check_dtype(const json_t *root, const char *chip, const char *name) {
	const Target *t = target_find(chip);
	Dtype dtype = dtype_find(name);
	int bits = dtype_bits(dtype), vmem_bits = dtype_vmem_bits(dtype);
	const json_t *block = rules_of(root, chip, "block", name), *windows = rules_of(root, chip, "pipeline", name);
	assert_non_null(block);
	check_rows(t, TILE_BLOCK, bits, block, "multiple");
	check_lanes(t, block, "multiple");
	assert_int_equal(refused(windows), dtype == DTYPE_BOOL);
	if (dtype != DTYPE_BOOL) {
		check_rows(t, TILE_COPY_OUT, bits, windows, "multiple"); /* it brings one and takes one away */
		check_powers(t, TILE_COPY_OUT, bits, windows);
		check_clipped(t, bits, windows);
	}
	static const char *const copies[] = {"copy_in", "copy_out"}, *const slices[] = {"load", "store"};
	static const TileUse copy_use[] = {TILE_COPY, TILE_COPY_OUT}, slice_use[] = {TILE_SLICE, TILE_SLICE_OUT};
	for (size_t i = 0; i < 2; i++) {
		const json_t *copy = rules_of(root, chip, copies[i], name);
		const json_t *slice = rules_of(root, chip, slices[i], name);
		assert_int_equal(refused(copy), dtype == DTYPE_BOOL);
		if (dtype != DTYPE_BOOL) {
			check_rows(t, copy_use[i], bits, copy, "steps");
			check_rows(t, copy_use[i], bits, copy, "hint");
			check_powers(t, copy_use[i], bits, copy);
			check_lanes(t, copy, "hint");
		}
		check_rows(t, slice_use[i], vmem_bits, slice, "steps");
		check_rows(t, slice_use[i], vmem_bits, slice, "hint");
		check_powers(t, slice_use[i], vmem_bits, slice);
		check_lanes(t, slice, "hint");
	}
}

static void targets_ask_for_what_was_measured(void **state) {
	static const char *const dtypes[] = {"float32", "bfloat16", "int8", "float8_e4m3fn", "bool", "int4"};
	json_error_t error;
	(void)state;
	json_t *root = json_load_file("tests/plan/tiling/rules.json", 0, &error);
	assert_non_null(root);
	for (size_t c = 0; c < COUNT(chips); c++)
		for (size_t d = 0; d < COUNT(dtypes); d++)
			check_dtype(root, chips[c], dtypes[d]);
	json_decref(root);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(targets_ask_for_what_was_measured),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
