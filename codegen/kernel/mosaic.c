/* mosaic.c - what Pallas' TPU compiler does not do by itself. Measured with libtpu 0.0.51. */
#include "kernel.h"

Dtype mosaic_conversion_hub(Dtype from, Dtype to) {
	bool both_fp8 = dtype_is_float(from) && dtype_is_float(to) && dtype_bits(from) == 8 && dtype_bits(to) == 8;
	bool half = (from == DTYPE_F16 && to != DTYPE_F32) || (to == DTYPE_F16 && from != DTYPE_F32);
	return both_fp8 || half ? DTYPE_F32 : DTYPE_NONE;
}
