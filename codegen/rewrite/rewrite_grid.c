/* rewrite_grid.c - windows that are parts of their arrays have a grid: pallas_call takes none of a kernel without one.
 *
 *     out out_ref vmem float32[64, 128]         grid _ 1 arbitrary
 *         of float32[70, 128] at (0, 0)         out out_ref vmem float32[64, 128] of float32[70, 128] at (0, 0) */
#include "codegen/kernel/kernel.h"

static bool is_part(const KBuffer *b) {
	bool window = (b->role == BUFFER_IN || b->role == BUFFER_OUT) && b->space == KSPACE_VMEM;
	return window && !kernel_same_shape(b->rank, b->shape, b->rank, b->array);
}

void rewrite_grid(Kernel *k) {
	bool part = false;
	for (BufferId b = 0; b < k->buffers.count; b++)
		part = part || is_part(&k->buffers.at[b]);
	if (!part || k->grid.count > 0)
		return;
	ValueId step = kernel_value(k, KTYPE_INT, DTYPE_I32, 0, NULL, "_");
	vec_push(k->arena, &k->grid, ((KGridDim){.at = step, .steps = 1}));
}
