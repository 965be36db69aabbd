/* target.h - a chip is a row of data. A limit is a field that passes and the plan ask for; no code says
 * `if (target == ...)`. Rows: src/targets.def; a JSON file may give another, whole or `{"base": "v6e", ...}`. */
#ifndef PALLASC_TARGET_H
#define PALLASC_TARGET_H

#include "diag.h"

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
} Target;

/* The built-in row called `name`, or NULL. */
const Target *target_find(const char *name);
/* All built-in rows, in the order that --print-targets lists them. */
const Target *target_rows(size_t *count);
/* Reads a target file: every field, or `base` and the fields that differ. NULL after diagnostics. A file without a
 * `base` and without `max_tile_elements` has a cap of 1048576 elements; null is no cap. */
const Target *target_load(Arena *a, Diag *d, const Source *source);
/* What a block must be a multiple of in dim `dim` of an array of `rank` dims of `bits` each, unless it covers the dim:
 * Pallas' BlockSpec rule, 128 lanes and 8 sublanes for every dtype; 128 * 32 / bits for 1-D arrays. */
int64_t target_block_multiple(const Target *t, int bits, uint32_t rank, uint32_t dim);
/* Rows of one packed tile: 8 of 32 bits, 16 of 16, 32 of 8 (jax's TPU tiling; copies of fewer were refused by Mosaic
 * with "Slice sizes along tiled dimensions must be aligned to tiles"). */
int64_t target_packed_rows(const Target *t, int bits);
/* NULL-terminated names, for "did you mean". */
const char *const *target_names(void);

#endif
