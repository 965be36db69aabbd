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
/* NULL-terminated names, for "did you mean". */
const char *const *target_names(void);

#endif
