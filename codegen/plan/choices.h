/* choices.h - the rows and values of choices.def. */
#ifndef PALLASC_CHOICES_H
#define PALLASC_CHOICES_H

#include "src/base/base.h"

typedef enum ChoiceScope { SCOPE_MODULE, SCOPE_PLAN } ChoiceScope;

/* Rows of scope MODULE come first. */
typedef enum ChoiceRow {
#define CHOICE(scope, row, key) ROW_##row,
#define VALUE(scope, row, name, legal, words)
#include "choices.def"
#undef CHOICE
#undef VALUE
	ROW_COUNT,
	FIRST_PLAN_ROW = ROW_TYPE
} ChoiceRow;

typedef enum ChoiceValue {
#define CHOICE(scope, row, key)
#define VALUE(scope, row, name, legal, words) row##_##name,
#include "choices.def"
#undef CHOICE
#undef VALUE
	VALUE_COUNT
} ChoiceValue;

typedef struct ValueRow {
	ChoiceRow row;
	const char *words;
} ValueRow;
extern const ValueRow choice_values[VALUE_COUNT];
/* One line for --explain. `wrong`: why it was refused; NULL. */
const char *choice_remark(Arena *a, const char *words, const char *wrong, double seconds, bool taken);

#endif
