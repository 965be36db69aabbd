/* target.h - a chip is named fields (include/target_fields.def), which passes and the plan ask for; no code says
 * `if (target == ...)`. Chips: include/targets.def; a JSON file may give another, whole or `{"base": "v6e", ...}`. */
#ifndef PALLASC_TARGET_H
#define PALLASC_TARGET_H

#include "src/base/base.h"

/* How an array is cut, for what its rows (the second-last dim) must be; lanes are alike for all. */
typedef enum TileUse {
	TILE_BLOCK,   /* a block of the grid's pipeline: Pallas' BlockSpec */
	TILE_COPY,    /* a window copied between HBM and VMEM: make_async_copy, emit_pipeline */
	TILE_CLIPPED, /* windows of emit_pipeline the last of which reaches past the array's end */
	TILE_SLICE,   /* a slice of a block in VMEM, from a start that the kernel computes */
	/* The same of an array that the kernel makes, whose tiles XLA chooses by what reads it: */
	TILE_COPY_OUT,
	TILE_SLICE_OUT,
	TILE_USES
} TileUse;

enum { TILE_WIDTHS = 4 }; /* elements of 32, 16, 8 and 4 bits */

typedef struct TileRows {
	int64_t wide[TILE_WIDTHS];   /* any multiple of it is legal */
	int64_t narrow[TILE_WIDTHS]; /* the same where the last dim is no wider than one tile */
	int64_t powers[TILE_WIDTHS]; /* the sum of the smaller powers of two that are legal from multiples of themselves
	                              */
} TileRows;

/* The kinds of target_fields.def, and what a field of each is in C. */
typedef enum FieldKind { FIELD_TEXT, FIELD_INT, FIELD_CAP, FIELD_NUMBER, FIELD_FLAG, FIELD_TILES } FieldKind;
#define FIELD_OF_TEXT(name) const char *name;
#define FIELD_OF_INT(name) int64_t name;
#define FIELD_OF_CAP(name) int64_t name;
#define FIELD_OF_NUMBER(name) double name;
#define FIELD_OF_FLAG(name) bool name;
#define FIELD_OF_TILES(name) TileRows name[TILE_USES];

/* target_fields.def says what each field is, and in which unit. */
typedef struct Target {
#define FIELD(name, kind, ...) FIELD_OF_##kind(name)
#include "target_fields.def"
#undef FIELD
	double vmem_margin; /* %, of VMEM, not of the chip: target_within() */
} Target;

/* The built-in row called `name`, or NULL. */
const Target *target_find(const char *name);
/* All built-in rows, in the order that --print-targets lists them. */
const Target *target_rows(size_t *count);
/* Reads a target file: `base` and the fields that differ, or every field but those that target_fields.def says what to
 * take for. NULL after diagnostics. */
const Target *target_load(Arena *a, Diag *d, const Source *source);
/* The same chip, of whose VMEM kernels may take `bytes` alone; 0: all. By estimate they leave `margin` percent of that
 * free; less than 0: they may be over by so much. NULL after a diagnostic, and of NULL. */
const Target *target_within(Arena *a, Diag *d, const Target *target, int64_t bytes, double margin);
/* The most bytes of VMEM that a kernel is accepted with: of so many, with a margin of so many percent. */
static inline int64_t vmem_line(int64_t bytes, double margin) {
	return bytes - (int64_t)((double)bytes * margin / 100);
}
/* The most bytes of VMEM that a kernel takes of which so many are estimated: a quarter and 2 MiB more. Of 2,073 kernels
 * that libtpu takes (`make bench-vmem PART=stored`) none takes more, while 42 take more than the estimate; of those of
 * random documents (docs/results.md) one of 200 takes more than that, most of them less than 1 MiB. */
static inline int64_t vmem_most(int64_t estimate) { return int_min(estimate, INT64_MAX / 4) / 4 * 5 + (2 << 20); }
/* The chip as a target file. */
void target_put(const Target *t, Text *out);
/* Bytes of so many vector registers. */
static inline int64_t target_registers_bytes(const Target *t, int64_t registers) {
	return registers * t->lanes * t->sublanes * 4;
}
/* Half of the registers: so much a loop carries in them, or a strip's values take, and leaves the rest to its work. */
static inline int64_t target_strip_bytes(const Target *t) { return target_registers_bytes(t, t->registers) / 2; }
/* What a grid's block must be a multiple of in dim `dim` of an array of `rank` dims of `bits` each, unless it covers
 * the dim: Pallas' BlockSpec rule, 128 lanes and 8 rows for every dtype; 128 * 32 / bits for 1-D arrays. */
int64_t target_block_multiple(const Target *t, int bits, uint32_t rank, uint32_t dim);
/* What the rows of a cut, and the row it starts at, are multiples of, in an array `width` elements wide, unless it
 * covers the dim. */
int64_t target_row_multiple(const Target *t, TileUse use, int bits, int64_t width);
/* Whether cuts of so many rows, each starting at a multiple of that, are legal: multiples, and some powers of two. */
bool target_takes_rows(const Target *t, TileUse use, int bits, int64_t width, int64_t rows);
/* Rows of one packed tile in VMEM, which arrays there are padded to: 8 of 32 bits, 16 of 16, 32 of 8. */
int64_t target_packed_rows(const Target *t, int bits);
/* NULL-terminated names, for "did you mean". */
const char *const *target_names(void);
/* The built-in chip of that name; NULL after a diagnostic, of the text that says it or, with NULL, of none. */
const Target *target_known(Arena *a, Diag *d, const Source *source, const char *name);

#endif
