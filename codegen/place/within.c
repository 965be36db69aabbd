/* within.c - windows of a slice of an array are windows of the array itself, further on:
 *
 *     second = x[:, 2048:]                         x_ref [1024, 2048] of [4096, 2048] at (tile_m, 0), which XLA copies
 *     load second[tile_m, tile_k]      =>          x_ref [1024, 2048] of [4096, 4096] at (tile_m, 1)
 *
 * So the wrapper makes no slice, which would be read and written once more in HBM. The slice has to start at a window,
 * and to end at one: no window may reach past it into what else the array holds. All but the signature goes on seeing
 * the slice alone (build: build_kernel.c, build_loop.c). */
#include "access.h"

/* The array before its last step; false: another step makes it of which that is not known. */
static bool shape_before(Planner *p, const Operand *o, int64_t *shape) {
	const Tensor *t = &p->m->tensors.at[o->tensor];
	const ArrayStep *before = o->steps.count > 1 ? &o->steps.at[o->steps.count - 2] : NULL;
	if ((before ? before->rank : t->rank) != o->rank || (before && before->kind == ARRAY_TRANSPOSE))
		return false;
	for (uint32_t d = 0; d < o->rank; d++)
		shape[d] = before ? before->shape[d] : tensor_dim(p, t, d);
	return true;
}

/* In whole tiles of the array, of which the window covers a part. */
static bool in_tiles(const Planner *p, const Operand *o, const Within *in, uint32_t d, int64_t block, TileUse use) {
	int64_t lanes = p->m->target->lanes;
	if (d + 2 < o->rank || block == in->shape[d])
		return true;
	if (d + 1 == o->rank)
		return block % lanes == 0;
	return block % target_row_multiple(p->m->target, use, dtype_bits(o->dtype), in->shape[o->rank - 1]) == 0;
}

const Within *operand_within(Planner *p, const Operand *o, const int64_t *block, TileUse use) {
	const ArrayStep *last = o->steps.count ? &o->steps.at[o->steps.count - 1] : NULL;
	if (!last || last->kind != ARRAY_SLICE || last->rank != o->rank || o->output || o->dtype == DTYPE_BOOL ||
	    o->dtype == DTYPE_F16 || p->m->sharding || (Switch)p->m->config.sliced_windows.value == SWITCH_OFF)
		return NULL;
	Within *in = arena_alloc(p->a, sizeof *in);
	bool fits = shape_before(p, o, in->shape);
	for (uint32_t d = 0; fits && d < o->rank; d++) {
		bool whole = last->slice[d][0] == 0 && o->shape[d] == in->shape[d];
		in->first[d] = last->slice[d][0];
		fits = block[d] > 0 && last->slice[d][2] == 1 && in_tiles(p, o, in, d, block[d], use) &&
		       (whole || (in->first[d] % block[d] == 0 && o->shape[d] % block[d] == 0));
	}
	return fits ? in : NULL;
}

void operand_take_within(Planner *p, Operand *o, const Within *in) {
	if (!in)
		return;
	o->within = in;
	o->steps.count--;
	plan_remark(p->plan, "%s: its windows are those of %s, further on: no slice of it is made",
	            p->m->tensors.at[o->seen_as].name, p->m->tensors.at[o->tensor].name);
}
