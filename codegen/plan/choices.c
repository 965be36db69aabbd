/* choices.c - the rows of choices.def, and how --explain says what became of a way. */
#include "choices.h"

#define CHOICE(scope, row, key)
#define VALUE(scope, row, name, legal, words) [row##_##name] = {ROW_##row, words},
const ValueRow choice_values[VALUE_COUNT] = {
#include "choices.def"
};
#undef CHOICE
#undef VALUE

const char *choice_remark(Arena *a, const char *words, const char *wrong, double seconds, bool taken) {
	if (wrong)
		return arena_printf(a, "refused: %s: %s", words, wrong);
	return arena_printf(a, "%s: %s: about %.3g us", taken ? "taken" : "not taken", words, seconds * 1e6);
}
