/* target.h - a chip is a row of data. A limit is a field that passes and the plan ask for; no code says
 * `if (target == ...)`. Rows: include/targets.def; a JSON file may give another, whole or `{"base": "v6e", ...}`. */
#ifndef PALLASC_TARGET_H
#define PALLASC_TARGET_H

#include "src/base/base.h"

/* How an array is cut, for what its rows (the second-last dim) must be; lanes are alike for all. */
typedef enum TileUse {
	TILE_BLOCK,   /* a block of the grid's pipeline: Pallas' BlockSpec */
	TILE_COPY,    /* a window copied between HBM and VMEM: make_async_copy, emit_pipeline */
	TILE_CLIPPED, /* windows of emit_pipeline the last of which reaches past the array's end */
	TILE_SLICE,   /* a slice of a block in VMEM, from a start that the kernel computes */
	TILE_USES
} TileUse;

enum { TILE_WIDTHS = 4 }; /* elements of 32, 16, 8 and 4 bits */

typedef struct TileRows {
	int64_t wide[TILE_WIDTHS];   /* any multiple of it is legal */
	int64_t narrow[TILE_WIDTHS]; /* the same where the last dim is no wider than one tile */
	int64_t powers[TILE_WIDTHS]; /* the sum of the smaller powers of two that are legal from multiples of themselves
	                              */
} TileRows;

/* How a chip's compiler spills: percent of what is kept across a barrier, by what is kept, and what else differs
 * between schedules (codegen/vmem/spills.c, waits.c, spill_stores.c, spill_moves.c). Fitted to what libtpu reports; a
 * target file calls them spill_tiles, .... More of any is never less spilled. */
typedef struct TargetSpills {
	int64_t tiles;   /* values of several registers in a row */
	int64_t columns; /* values one register wide */
	int64_t loads;   /* loaded values that are used again later */
	int64_t results; /* a matmul's that go on to a scratch buffer */
	int64_t parts;   /* float32 factors of a matmul at full precision */
	int64_t factors; /* a matmul's left factor */
	int64_t steps;   /* what an unrolled loop's other steps compute early */
	int64_t late;    /* what is computed of 32-bit loads and waits for a reduction that it does not need */
	int64_t joined;  /* a widened load that waits to be joined to a reduction, by an op alone that is stored */
	int64_t squares; /* squares of long rows of a matmul's result that wait for what the rows are reduced to */
	int64_t second;  /* what waits in unrolled steps for the second of two columns */
	int64_t rows;    /* what is moved row by row, between the last two dims and those before */
	int64_t spread;  /* KiB at most of a computed tile that waits for a loaded column to be spread */
	int64_t turning; /* registers, of 64, that are at work while columns are turned into rows or back */
} TargetSpills;

typedef struct Target {
	const char *name;          /* "v6e" */
	const char *device_kind;   /* as jax prints it: "TPU v6 lite" */
	const char *topology;      /* for jax.experimental.topologies: "v6e:2x2" */
	int64_t vmem_bytes;        /* usable scoped VMEM of one TensorCore, bytes */
	int64_t smem_bytes;        /* bytes */
	int64_t max_tile_elements; /* cap on the elements of one tile; 0: none, as on every TPU */
	int64_t lanes, sublanes;   /* 128, 8: the shape of a 32-bit vector register */
	int64_t mxu_size;          /* rows and columns of the systolic array */
	double clock_hz;           /* TensorCore clock */
	double hbm_bytes_per_s;    /* per TensorCore */
	double bf16_flops;         /* peak per TensorCore, per second */
	int tensorcores;           /* per jax device (2: megacore, grid dims marked parallel are split) */
	bool bf16_vpu;             /* the vector unit computes in bfloat16 */
	bool result_buffer;        /* the MXU adds up what it computes in a buffer of its own */
	TileRows tile[TILE_USES];
	bool splits_grid; /* the cores share one kernel's grid */
	TargetSpills spills;
} Target;

/* The built-in row called `name`, or NULL. */
const Target *target_find(const char *name);
/* All built-in rows, in the order that --print-targets lists them. */
const Target *target_rows(size_t *count);
/* Reads a target file: every field, or `base` and the fields that differ. NULL after diagnostics. A file without a
 * `base` and without `max_tile_elements` has a cap of 1048576 elements; null is no cap. */
const Target *target_load(Arena *a, Diag *d, const Source *source);
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

#endif
