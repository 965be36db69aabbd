/* units.c - include/units.def: the units of each kind of chip. */
#include "core.h"

typedef struct UnitsRow {
	const char *device_kind;
	Units units;
} UnitsRow;

static const UnitsRow rows[] = {
#define UNITS(kind, ...) {kind, {__VA_ARGS__}},
#include "units.def"
#undef UNITS
};

enum { ROWS = sizeof rows / sizeof *rows };

const char *const unit_names[UNIT_COUNT] = {"mxu", "weights", "results", "vector", "xlu",
                                            "eup", "load",    "store",   "scalar"};

/* Small matrix units are those of the first row, which is v5e; large ones those of the second, v6e. */
const Units *units_of(const Target *t) {
	for (uint32_t i = 0; i < ROWS; i++)
		if (strcmp(rows[i].device_kind, t->device_kind) == 0)
			return &rows[i].units;
	return &rows[t->mxu_size > 128].units;
}
