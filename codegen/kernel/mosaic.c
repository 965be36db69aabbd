/* mosaic.c - what Pallas' TPU compiler does not do by itself. Measured with libtpu 0.0.51. */
#include "kernel.h"

Dtype mosaic_conversion_hub(Dtype from, Dtype to) {
	bool both_fp8 = dtype_is_float(from) && dtype_is_float(to) && dtype_bits(from) == 8 && dtype_bits(to) == 8;
	return both_fp8 ? DTYPE_F32 : DTYPE_NONE;
}
