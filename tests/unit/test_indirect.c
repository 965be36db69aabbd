/* test_indirect.c - what ways to reach positions of int tensors take (passes/facts/indirect.c): more of anything never
 * takes less. */
#include "passes/facts/facts.h"
#include "src/target/target.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static const char *const chips[] = {"v4", "v5e", "v6e", "v7x"};

static OneHot table(void) { return (OneHot){.positions = 512, .rows = 512, .columns = 512, .planes = 2}; }

static void more_of_a_one_hot_product_takes_longer(void **state) {
	(void)state;
	for (size_t c = 0; c < sizeof chips / sizeof *chips; c++) {
		const Target *t = target_find(chips[c]);
		OneHot o = table(), more = table();
		double plain = one_hot_cycles(t, &o);
		assert_true(plain > 0);
		more.positions *= 2;
		assert_true(one_hot_cycles(t, &more) > plain);
		more = table(), more.rows *= 2;
		assert_true(one_hot_cycles(t, &more) > plain);
		more = table(), more.columns *= 2;
		assert_true(one_hot_cycles(t, &more) > plain);
		more = table(), more.planes *= 2;
		assert_true(one_hot_cycles(t, &more) > plain);
		more = table(), more.apart = true;
		assert_true(one_hot_cycles(t, &more) > plain);
		more = table(), more.shares = true;
		assert_true(one_hot_cycles(t, &more) < plain);
	}
}

static void more_that_is_copied_takes_longer(void **state) {
	(void)state;
	for (size_t c = 0; c < sizeof chips / sizeof *chips; c++) {
		const Target *t = target_find(chips[c]);
		double few = rows_copied_cycles(t, 64, 1 << 10, false),
		       moved = rows_copied_cycles(t, 64, 1 << 24, false);
		assert_true(few > 0 && moved > few);
		assert_true(rows_copied_cycles(t, 128, 1 << 10, false) > few);
		assert_true(rows_copied_cycles(t, 64, 1 << 10, true) > few);
		assert_true(rows_copied_cycles(t, 64, 1 << 24, true) == moved); /* picked while others are copied */
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(more_of_a_one_hot_product_takes_longer),
		cmocka_unit_test(more_that_is_copied_takes_longer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
