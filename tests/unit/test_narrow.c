/* Blocks wider than their range: the row sum of front.h, out[m] = sum(x[m, :]), x float32 [256, 512], and variants of
 * it that look at the size. */
#include "front.h"
#include "codegen/plan/plan.h"
#include "src/config/config.h"
#include "src/verify/verify.h"

/* The document with each `from` replaced by `to`; both are pairs in `edits`, which ends with NULL. */
static const char *edited(Arena *a, const char *const *edits) {
	const char *text = FRONT_DOCUMENT;
	for (; *edits; edits += 2) {
		const char *at = strstr(text, edits[0]);
		if (!at)
			fail_msg("no %s in the document", edits[0]);
		else
			text = arena_printf(a, "%.*s%s%s", (int)(at - text), text, edits[1], at + strlen(edits[0]));
	}
	return text;
}

/* The sizes of m and n that block_sizes=[1024, 2048] comes to. */
static void narrowed_to(int64_t m_size, int64_t n_size, const char *const *edits) {
	Front f;
	front_start(&f);
	Module *m = front_load(&f, edited(&f.arena, edits));
	assert_non_null(m);
	assert_true(config_set(m, &f.diag, "block_sizes=[1024,2048]"));
	assert_true(module_configure(m, &f.diag) && module_verify(m, &f.diag));
	assert_int_equal(m->block_size.at[0], m_size);
	assert_int_equal(m->block_size.at[1], n_size);
	assert_int_equal(m->narrowed.at[1].asked, 2048);
	assert_int_equal(m->narrowed.at[1].size, n_size);
	if (n_size == 2048 && !m->narrowed.at[1].kept)
		fail_msg("kept, but no reason given");
	front_end(&f);
}

#define EDITS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NO_EDITS ((const char *const[]){NULL})

static void to_the_range(void **state) {
	(void)state;
	narrowed_to(256, 512, NO_EDITS);
}

static void a_smaller_block_stays(void **state) {
	(void)state;
	Front f;
	front_start(&f);
	Module *m = front_load(&f, FRONT_DOCUMENT);
	assert_true(config_set(m, &f.diag, "block_sizes=[64,512]") && module_configure(m, &f.diag));
	assert_int_equal(m->block_size.at[0], 64);
	assert_int_equal(m->block_size.at[1], 512);
	front_end(&f);
}

/* Full lanes where the range ends inside the tensor: 300 -> 384. */
static void to_full_lanes_of_a_wider_tensor(void **state) {
	(void)state;
	narrowed_to(256, 384, EDITS("[0], [512]", "[0], [300]"));
}

static void not_where_a_mean_divides_by_it(void **state) {
	(void)state;
	narrowed_to(256, 2048, EDITS("aten.sum.dim_IntList", "aten.mean.dim"));
}

static void not_where_a_maximum_reads_zeros(void **state) {
	(void)state;
	narrowed_to(256, 2048, EDITS("aten.sum.dim_IntList", "aten.amax.default"));
}

#define LOADED "t = tile.load(x, [u0, u1]) : float32[u0, u1]\n"
/* The loaded tile, and a copy of it with its invalid lanes lowered. */
static const char *const masked = LOADED "low = tile.mask_to(t, -inf) : float32[u0, u1]\n";
#define SUM "aten.sum.dim_IntList(t,"

static void where_a_maximum_is_masked(void **state) {
	(void)state;
	narrowed_to(256, 512, EDITS(LOADED, masked, SUM, "aten.amax.default(low,"));
}

static void not_where_the_mask_is_not_neutral(void **state) {
	(void)state;
	narrowed_to(256, 2048, EDITS(LOADED, masked, SUM, "aten.sum.dim_IntList(low,"));
}

static void not_where_the_size_is_a_number(void **state) {
	(void)state;
	narrowed_to(256, 2048, EDITS("other=s", "other=u1"));
}

static void though_a_number_equals_it(void **state) {
	(void)state;
	narrowed_to(256, 512, EDITS("loop =", "wide = tile.full([2048], 0.0, float32) : float32[2048]\nloop ="));
}

static void not_where_a_host_tensor_has_it(void **state) {
	(void)state;
	narrowed_to(256, 2048, EDITS("tunables", "tensor y input float32[cdiv(512, u1)]\ntunables"));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(to_the_range),
		cmocka_unit_test(a_smaller_block_stays),
		cmocka_unit_test(to_full_lanes_of_a_wider_tensor),
		cmocka_unit_test(not_where_a_mean_divides_by_it),
		cmocka_unit_test(not_where_a_maximum_reads_zeros),
		cmocka_unit_test(where_a_maximum_is_masked),
		cmocka_unit_test(not_where_the_mask_is_not_neutral),
		cmocka_unit_test(not_where_the_size_is_a_number),
		cmocka_unit_test(though_a_number_equals_it),
		cmocka_unit_test(not_where_a_host_tensor_has_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
