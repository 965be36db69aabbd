/* mosaic.h - what Pallas' TPU compiler does not do by itself, for who makes or changes kernels. Measured with libtpu
 * 0.0.51. */
#ifndef PALLASC_MOSAIC_H
#define PALLASC_MOSAIC_H

#include "src/ir/ir.h"

/* arith.c: the dtype through which Mosaic converts; DTYPE_NONE: directly. */
Dtype arith_conversion_hub(Dtype from, Dtype to);

#endif
