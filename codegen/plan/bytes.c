/* bytes.c - the bytes of arrays in VMEM and in registers. */
#include "plan.h"

int64_t vmem_tile_rows(const Target *t, int64_t rows, int64_t bits) {
	int64_t tile = int_max(32 / bits, 1);
	while (tile < rows && tile < t->sublanes)
		tile *= 2;
	return tile;
}

int64_t vmem_bytes(const Target *t, Dtype dtype, uint32_t rank, const int64_t *shape) {
	int64_t bits = int_max(dtype_vmem_bits(dtype), 4), bytes = 1;
	for (uint32_t i = 0; i < rank; i++) {
		int64_t size = shape[i];
		if (i + 1 == rank)
			size = int_round_up(size, t->lanes);
		else if (i + 2 == rank)
			size = int_round_up(size, vmem_tile_rows(t, size, bits));
		if (!checked_mul(bytes, size, &bytes))
			return INT64_MAX / 16;
	}
	return checked_mul(bytes, bits, &bits) ? (bits + 7) / 8 : INT64_MAX / 16;
}

int64_t hbm_array_bytes(const Target *t, Dtype dtype, uint32_t rank, const int64_t *shape) {
	return vmem_bytes(t, dtype == DTYPE_BOOL ? DTYPE_U8 : dtype, rank, shape);
}

int64_t scratch_vmem_bytes(const Target *t, Dtype dtype, uint32_t rank, const int64_t *shape) {
	return vmem_bytes(t, dtype == DTYPE_I4 ? DTYPE_I8 : dtype, rank, shape);
}

/* Far above any VMEM a size is no more than that. */
int64_t register_bytes(const Target *t, Dtype dtype, uint32_t rank, const int64_t *shape) {
	enum { MOST = 1 << 28 };
	int64_t bits = int_max(dtype_vmem_bits(dtype), 4), elements = 1;
	for (uint32_t i = 0; i < rank; i++) {
		int64_t unit = i + 1 == rank ? t->lanes : i + 2 == rank ? t->sublanes * 32 / int_min(bits, 32) : 1;
		int64_t size = int_min(shape[i], MOST);
		elements = int_min(elements, MOST) * (unit > 1 ? int_round_up(size, unit) : size);
	}
	return (elements * bits + 7) / 8;
}
