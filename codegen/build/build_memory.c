/* build_memory.c - loads and stores: which part of which buffer, and masks. */
#include "builder.h"
#include "codegen/lower/lower.h"

/* ---- references ------------------------------------------------------------------------------------------------- */

/* The dim in which it is part of a block that several grid steps share; NULL. */
static const SliceDim *part_dim(const Access *access) {
	for (uint32_t i = 0; i < access->rank; i++)
		if (access->dim[i].parts)
			return &access->dim[i];
	return NULL;
}

static KDim dim_of(Builder *b, const SliceDim *s) {
	if (s->window)
		return build_around(b, s);
	KDim d = {.kind = s->kind == SLICE_AT ? KDIM_AT : KDIM_RANGE, .size = s->size, .multiple = s->multiple};
	if (s->kind == SLICE_ALL)
		return (KDim){.kind = KDIM_ALL};
	if (!s->parts) {
		d.start = build_affine(b, &s->start);
		return d;
	}
	d.kind = KDIM_PART;
	d.parts = s->parts;
	d.multiple = 0;
	d.start = build_divided(b, &s->start, s->parts, true);
	return d;
}

static uint32_t accumulator_of(const Operand *o) { return o->held ? o->held->accumulator : NONE; }

static BufferId buffer_of(const Builder *b, const Access *access, bool write) {
	uint32_t sums = write ? accumulator_of(&b->plan->operands.at[access->operand]) : NONE;
	return sums != NONE                  ? b->scratch[sums]
	       : access->kind == REF_OPERAND ? b->operand[access->operand]
	                                     : b->window[access->loop][access->window];
}

/* `keep_unit`: the boundary view's unit dim stays. */
static RefId ref_of(Builder *b, const Access *access, bool keep_unit, bool write) {
	const Operand *o = &b->plan->operands.at[access->operand];
	KDim dims[DIM_MAX];
	bool all = true;
	for (uint32_t i = 0; i < access->rank; i++) {
		if (keep_unit && i == o->unit)
			dims[i] = (KDim){.kind = KDIM_ALL};
		else
			dims[i] = dim_of(b, &access->dim[i]);
		all = all && dims[i].kind == KDIM_ALL;
	}
	return kernel_ref(b->k, buffer_of(b, access, write), all ? 0 : access->rank, dims);
}

static KArg load_ref(Builder *b, RefId r) {
	int64_t shape[KDIM_MAX];
	uint32_t rank = kernel_ref_shape(b->k, r, shape);
	KArg ref = karg_ref(r);
	return build_shaped(b, K_LOAD, b->k->buffers.at[b->k->refs.at[r].buffer].dtype, rank, shape, 1, &ref);
}

/* All that an access covers. */
static KArg load_region(Builder *b, const Access *access, bool keep_unit, bool write) {
	const Operand *o = &b->plan->operands.at[access->operand];
	RefId r = ref_of(b, access, keep_unit, write);
	KArg x = load_ref(b, r);
	if (!access_turns(access))
		return x;
	Dtype dtype = b->k->buffers.at[b->k->refs.at[r].buffer].dtype, wide = dtype_turned(dtype);
	x = build_turned(b, access, keep_unit ? o->unit : NONE, build_converted(b, x, dtype, wide));
	return build_converted(b, x, wide, dtype);
}

/* Where operand dim d stands in the region. */
static uint32_t region_axis(const Operand *o, const Access *access, bool keep_unit, uint32_t d) {
	uint32_t axis = 0;
	for (uint32_t i = 0; i < d; i++)
		axis += access->dim[i].kind != SLICE_AT || (keep_unit && i == o->unit);
	return axis;
}

/* Where the tensor's dim stands in what the access reads. */
static int64_t axis_of(const Builder *b, const Access *access, uint32_t dim) {
	return region_axis(&b->plan->operands.at[access->operand], access, false,
	                   b->plan->operands.at[access->operand].dim_of[dim]);
}

/* Row `at` of x along the axis, as often as `like` has any. */
static KArg row_for_all(Builder *b, KArg x, int64_t at, int64_t axis, KArg like) {
	const int64_t row[] = {at, at + 1, axis};
	int64_t shape[KDIM_MAX];
	uint32_t rank = b->k->values.at[like.value].rank;
	Dtype dtype = karg_dtype(b, x);
	memcpy(shape, b->k->values.at[like.value].shape, rank * sizeof *shape);
	x = build_op(b, K_SLICE_IN_DIM, dtype, 1, &x, 3, row);
	return build_shaped(b, K_BROADCAST, dtype, rank, shape, 1, &x);
}

/* x, where its lanes up to `lane` stand as they are, and `fill` from there on. */
static KArg up_to(Builder *b, KArg x, const Affine *lane, KArg fill, int64_t axis) {
	KArg count = build_int_arg(b, build_affine(b, lane));
	return build_op(b, K_KEEP, karg_dtype(b, x), 3, (const KArg[]){x, count, fill}, 1, &axis);
}

/* A tile of which the block beside has a part. */
static KArg load_with_halo(Builder *b, const Access *access) {
	const Halo *halo = access->halo;
	const Operand *o = &b->plan->operands.at[access->operand];
	Dtype wide = dtype_turned(o->dtype);
	int64_t axis = axis_of(b, access, halo->dim), size = o->block[o->dim_of[halo->dim]];
	KArg block = build_converted(b, load_region(b, access, false, false), o->dtype, wide), tile = block;
	KArg first = block, last = block;
	int64_t last_size = size;
	if (halo->beside) {
		KArg beside = build_converted(b, load_region(b, halo->beside, false, false), o->dtype, wide);
		const int64_t part[] = {halo->skip, halo->skip + size, axis};
		first = halo->first ? beside : block;
		last = halo->first ? block : beside;
		last_size = halo->first ? size : halo->rows;
		tile = build_op(b, K_CONCATENATE, wide, 2, (const KArg[]){first, last}, 1, &axis);
		tile = build_op(b, K_SLICE_IN_DIM, wide, 1, &tile, 3, part);
	}
	KArg inside = tile;
	if (halo->past)
		tile = up_to(b, tile, &halo->behind,
		             row_for_all(b, last, (o->shape[o->dim_of[halo->dim]] - 1) % last_size, axis, inside),
		             axis);
	if (halo->below)
		tile = up_to(b, row_for_all(b, first, 0, axis, inside), &halo->before, tile, axis);
	return build_converted(b, tile, wide, o->dtype);
}

RefId build_ref(Builder *b, const Access *access) { return ref_of(b, access, false, false); }

KArg build_region(Builder *b, const Access *access) {
	return access->halo ? load_with_halo(b, access) : load_region(b, access, false, false);
}

/* ---- loads ------------------------------------------------------------------------------------------------------ */

/* The positions of one element: of a 1-D tensor, which is a row, the dim of one row is one too. `kind`: SLICE_AT drops
 * the dims, SLICE_RANGE keeps them. */
static const Access *element_access(Builder *b, const Access *access, SliceKind kind) {
	Access *copy = arena_alloc(b->a, sizeof *copy);
	*copy = *access;
	for (uint32_t i = 0; i < copy->rank; i++) {
		SliceDim *s = &copy->dim[i];
		if (s->kind == SLICE_ALL && kind == SLICE_AT)
			*s = (SliceDim){.kind = SLICE_AT, .start = affine_int(0)};
		else if (s->kind == SLICE_AT && kind == SLICE_RANGE)
			s->kind = SLICE_RANGE, s->size = 1;
	}
	return copy;
}

/* One element, a scalar: Mosaic extracts 32 bits only ("Only 32-bit scalar vector.extracts supported"), so that a
 * narrower one widens while it is a vector. */
KArg build_element(Builder *b, const Access *access, Dtype to) {
	Dtype from = b->plan->operands.at[access->operand].dtype;
	bool vector = (dtype_bits(from) < 32 && from != DTYPE_BOOL) || access_turns(access);
	access = element_access(b, access, vector ? SLICE_RANGE : SLICE_AT);
	KArg x = load_ref(b, build_ref(b, access));
	if (!vector)
		return build_converted(b, x, from, to);
	int64_t zeros[3 * DIM_MAX] = {0};
	for (uint32_t i = 0; i < access->rank; i++)
		zeros[(size_t)3 * i] = K_ITEM_AT;
	Dtype wide = dtype_turned(from);
	x = build_turned(b, access, NONE, build_converted(b, x, from, wide));
	return build_converted(b, build_op(b, K_INDEX, wide, 1, &x, 3 * access->rank, zeros), wide, to);
}

/* A dim of one element, which a tile of a longer range repeats. */
static KArg repeated(Builder *b, NodeId n, KArg x, Dtype dtype) {
	int64_t shape[DIM_MAX];
	uint32_t rank = built_shape(b, n, b->plan->values[n].form, shape);
	if (b->plan->values[n].access->unswapped) {
		int64_t last = shape[rank - 1];
		shape[rank - 1] = shape[rank - 2];
		shape[rank - 2] = last;
	}
	const KValue *v = &b->k->values.at[x.value];
	bool repeats = false;
	for (uint32_t i = 0; v->rank == rank && i < rank; i++)
		repeats = repeats || (v->shape[i] == 1 && shape[i] != 1);
	if (!repeats)
		return x;
	Dtype wide = dtype_turned(dtype);
	x = build_converted(b, x, dtype, wide);
	return build_converted(b, build_shaped(b, K_BROADCAST, wide, rank, shape, 1, &x), wide, dtype);
}

KArg build_load(Builder *b, NodeId n) {
	static const int64_t last_two[] = {-1, -2};
	const Access *access = b->plan->values[n].access;
	if (access->places != NONE)
		return build_gather(b, n);
	if (b->plan->values[n].staged != NONE)
		return build_staged_load(b, n);
	if (type_rank(b, n) == 0)
		return build_element(b, access, node_type(b->m, n)->dtype);
	Dtype dtype = b->plan->operands.at[access->operand].dtype;
	KArg x = build_region(b, access);
	if (access->perm_rank)
		x = build_op(b, K_SWAPAXES, dtype, 1, &x, 2, last_two);
	return build_converted(b, repeated(b, n, x, dtype), dtype, node_type(b->m, n)->dtype);
}

KArg build_runtime_scalar(Builder *b, NodeId n) {
	const Scalar *s = &b->m->scalars.at[node_arg(b->m, n, 0)->scalar];
	for (uint32_t i = 0; !s->has_value && i < b->plan->operands.count; i++)
		if (b->plan->operands.at[i].tensor == NONE && &b->m->scalars.at[b->plan->operands.at[i].scalar] == s) {
			KDim first = {.kind = KDIM_AT, .start = int_const(b->k, 0)};
			return load_ref(b, kernel_ref(b->k, b->operand[i], 1, &first));
		}
	return dtype_is_float(s->dtype) ? karg_real(s->value)
	       : s->dtype == DTYPE_BOOL ? karg_bool(s->int_value)
	                                : karg_integer(s->int_value);
}

/* ---- masks ------------------------------------------------------------------------------------------------------ */

/* The lanes that a mask leaves. The end of a choice's may be any int: what is below the offset is no lane. */
static KArg mask_count(Builder *b, const Mask *mask) {
	Planner p = build_planner(b);
	Affine count = affine_sub(b->a, mask->end, mask->offset);
	int64_t low;
	if (mask->block != NONE || affine_is_int(&mask->offset) || (affine_min(&p, &count, &low) && low >= -INT32_MAX))
		return build_int_arg(b, build_affine(b, &count));
	IntId offset = build_affine(b, &mask->offset);
	IntId end = int_binary(b->k, INT_MAX, build_affine(b, &mask->end), offset);
	return build_int_arg(b, int_binary(b->k, INT_SUB, end, offset));
}

/* Some operand has a unit dim before its last, so that rows lie in tiles of their own. */
static bool has_loose_rows(const Plan *p) {
	for (uint32_t i = 0; i < p->operands.count; i++)
		if (p->operands.at[i].unit != NONE && p->operands.at[i].unit + 2 == p->operands.at[i].rank)
			return true;
	return false;
}

/* An array of one row in blocks of more, which are loaded as few rows are. */
static bool has_lone_row(const Plan *p) {
	for (uint32_t i = 0; i < p->operands.count; i++) {
		const Operand *o = &p->operands.at[i];
		if (o->rank > 1 && o->shape[o->rank - 2] == 1 && o->block[o->rank - 2] > 1)
			return true;
	}
	return false;
}

static Dtype mask_dtype(const Builder *b, Dtype t, uint32_t rank, const int64_t *shape) {
	int64_t rows = rank > 1 && !has_lone_row(b->plan) ? shape[rank - 2] : 1;
	return arith_mask_dtype(t, rows, has_loose_rows(b->plan));
}

/* What a mask chooses of: a tile in the dtype of the choice. A number that stands where lanes are counted is one. */
static KArg choice_of(Builder *b, KArg x, bool first, Dtype from, Dtype in, uint32_t rank, const int64_t *shape) {
	bool tile = x.kind == KARG_VALUE && b->k->values.at[x.value].rank > 0;
	if (tile)
		return build_converted(b, x, from, in);
	return first ? build_shaped(b, K_FULL, in, rank, shape, 1, &x) : x;
}

static KArg masked(Builder *b, NodeId n, const Mask *mask, KArg x, KArg fill) {
	const Type *t = node_type(b->m, n);
	Form form = b->plan->values[n].form;
	int64_t axis = mask->dim + (t->count == 1 && form == FORM_NATURAL), shape[DIM_MAX];
	uint32_t rank = built_shape(b, n, form, shape);
	Dtype in = mask_dtype(b, t->dtype, rank, shape);
	const KArg args[3] = {choice_of(b, x, true, t->dtype, in, rank, shape), mask_count(b, mask),
	                      choice_of(b, fill, false, t->dtype, in, rank, shape)};
	return build_converted(b, build_op(b, K_MASK, in, 3, args, 1, &axis), in, t->dtype);
}

KArg build_masked(Builder *b, NodeId n) {
	const Value *v = &b->plan->values[n];
	KArg x = build_arg(b, node_arg(b->m, n, v->negated ? 2 : 1), FORM_NATURAL);
	return masked(b, n, v->masks, x, build_arg(b, node_arg(b->m, n, v->negated ? 1 : 2), FORM_NATURAL));
}

void build_masks(Builder *b, NodeId n, KArg x, KArg fill) {
	const Value *v = &b->plan->values[n];
	bool load = op_lowering(node_get(b->m, n)->op) == LOWER_LOAD;
	KArg first = load ? x : (KArg){0};
	for (uint32_t i = 0; i < v->mask_count; i++) {
		x = masked(b, n, &v->masks[i], x, fill);
		KValue *y = &b->k->values.at[x.value];
		y->layout = build_layout(y, v->form, type_rank(b, n) == 1);
		if (first.kind == KARG_NONE) {
			build_name_of(b, x, n);
			first = x;
		} else {
			y->name = b->k->values.at[first.value].name;
			y->as = first.value;
		}
	}
	b->value[n] = x;
}

/* ---- stores ----------------------------------------------------------------------------------------------------- */

/* The shape that an access selects of its buffer, unit dim dropped or kept. */
static uint32_t region_shape(Builder *b, const Access *access, bool keep_unit, int64_t *shape) {
	const Operand *o = &b->plan->operands.at[access->operand];
	const int64_t *block = access->kind == REF_WINDOW
	                               ? b->plan->loops.at[access->loop].windows.at[access->window].block
	                               : o->block;
	uint32_t rank = 0;
	for (uint32_t i = 0; i < access->rank; i++)
		if (access->dim[i].kind != SLICE_AT || (keep_unit && i == o->unit))
			shape[rank++] = access->dim[i].kind == SLICE_RANGE ? access->dim[i].size : block[i];
	return rank;
}

/* What is stored as a row: a column, or what lies in a row already. */
static bool stored_as_row(Builder *b, const Arg *arg) {
	return arg->kind == ARG_REF && type_rank(b, arg->node) > 0 && b->plan->values[arg->node].form != FORM_NATURAL;
}

/* Mosaic moves no bools, which are masks to it. */
static KArg movable(Builder *b, NodeId value, KArg x) {
	return node_type(b->m, value)->dtype == DTYPE_BOOL ? build_as(b, x, DTYPE_I32) : x;
}

/* A row goes into the boundary view's unit dim if there is one, else it is squeezed. */
static KArg row_to_store(Builder *b, NodeId value, bool keep_unit) {
	static const int64_t no_row[] = {K_ITEM_REST, 0, 0, K_ITEM_AT, 0, 0, K_ITEM_ALL, 0, 0};
	Form form = b->plan->values[value].form;
	KArg x = movable(b, value, build_value(b, value, form));
	if (form == FORM_COLUMN)
		x = build_unary(b, K_TO_ROW, karg_dtype(b, x), x);
	bool squeeze = !keep_unit && type_rank(b, value) > 1;
	return squeeze ? build_op(b, K_INDEX, karg_dtype(b, x), 1, &x, 9, no_row) : x;
}

/* The shape of row_to_store(). */
static uint32_t stored_row_shape(Builder *b, NodeId value, bool keep_unit, int64_t *shape) {
	uint32_t rank = built_shape(b, value, FORM_ROW, shape);
	if (keep_unit || type_rank(b, value) == 1)
		return rank;
	shape[rank - 2] = shape[rank - 1];
	return rank - 1;
}

/* Tile x with its last two dims swapped, in dtype `to` and of the shape that is written. One that is a swap already is
 * taken from before it. */
static KArg swapped_tile(Builder *b, NodeId x, Dtype to, uint32_t rank, const int64_t *shape) {
	static const int64_t last_two[] = {-1, -2};
	NodeId of = before_rounding(b->m, x, to);
	bool swaps = permutation_swaps_rows(b->m, of);
	of = swaps ? node_input(b->m, of, 0) : of;
	KArg tile = movable(b, of, build_value(b, of, FORM_NATURAL));
	if (!swaps)
		tile = build_op(b, K_SWAPAXES, karg_dtype(b, tile), 1, &tile, 2, last_two);
	const KValue *v = &b->k->values.at[tile.value];
	if (v->rank < rank && kernel_same_shape(v->rank, v->shape, v->rank, shape + rank - v->rank))
		tile = build_shaped(b, K_BROADCAST, v->dtype, rank, shape, 1, &tile);
	Dtype from = node_type(b->m, of)->dtype;
	return build_converted(b, tile, from == DTYPE_BOOL ? DTYPE_I32 : from, to);
}

/* An operand of the write n, its value or its mask, in the shape of the region and in dtype `to`. */
static KArg written(Builder *b, NodeId n, uint32_t operand, bool keep_unit, Dtype to) {
	static const int64_t last_two[] = {-1, -2}, before_last = -2;
	const Access *access = b->plan->values[n].access;
	const Arg *arg = node_arg(b->m, n, operand);
	bool tensor = arg->kind == ARG_REF && type_rank(b, arg->node) > 0;
	bool row = !access->column && stored_as_row(b, arg);
	Form form = access->column ? FORM_COLUMN : FORM_NATURAL;
	int64_t want[DIM_MAX], have[DIM_MAX];
	uint32_t want_rank = region_shape(b, access, keep_unit, want);
	if (tensor && !row && !access->column && access->perm_rank)
		return swapped_tile(b, arg->node, to, want_rank, want);
	KArg x = row ? row_to_store(b, arg->node, keep_unit) : build_arg(b, arg, tensor ? form : FORM_NATURAL);
	uint32_t have_rank = row      ? stored_row_shape(b, arg->node, keep_unit, have)
	                     : tensor ? built_shape(b, arg->node, form, have)
	                              : 0;
	bool swap = access->perm_rank && (!row || type_rank(b, arg->node) > 1); /* of one dim there is none */
	bool beside = tensor && !row && !access->column && keep_unit && type_rank(b, arg->node) >= 2;
	bool spread = swap ? have_rank < want_rank : !beside && !kernel_same_shape(want_rank, want, have_rank, have);
	bool moved = row || swap || beside || (tensor && spread);
	if (tensor && !row && (swap || beside || spread))
		x = movable(b, arg->node, x);
	Dtype t = x.kind == KARG_VALUE ? karg_dtype(b, x) : to;
	bool narrow = x.kind == KARG_VALUE && dtype_is_float(t) && dtype_bits(t) < 32;
	if (swap)
		x = build_op(b, K_SWAPAXES, t, 1, &x, 2, last_two);
	if (beside) /* a mask of a row that goes into the unit dim */
		x = build_op(b, K_EXPAND_DIMS, t, 1, &x, 1, &before_last);
	else if (spread)
		x = build_shaped(b, K_BROADCAST, t, want_rank, want, 1, &x);
	if (!tensor)
		return narrow ? build_converted_scalar(b, x, t, to) : build_as(b, x, to);
	Dtype from = node_type(b->m, arg->node)->dtype;
	return build_converted(b, x, moved && from == DTYPE_BOOL ? DTYPE_I32 : from, to);
}

/* The dtype in which lanes of a region are selected. */
static Dtype selected_dtype(Builder *b, const Access *access, bool keep_unit, Dtype dtype) {
	int64_t shape[DIM_MAX];
	uint32_t rank = region_shape(b, access, keep_unit, shape);
	return mask_dtype(b, dtype, rank, shape);
}

static KArg held_initial(const Operand *o, Dtype dtype) {
	return dtype_is_float(dtype) ? karg_real(o->held->value) : karg_integer((int64_t)o->held->value);
}

/* A position of a scatter is changed in whole tiles around it, by a value that is the same all along them: nothing
 * moves between lanes or rows. */
static bool changes_around(const Builder *b, const Access *access) {
	if (access->places == NONE)
		return false;
	const Places *s = &b->plan->places.at[access->places];
	bool along = access_turns(access) && !access->column && s->old == NONE;
	for (uint32_t i = 0; i < access->rank; i++)
		along = along &&
		        (!access->dim[i].window || (access->dim[i].kind == SLICE_RANGE && access->dim[i].size == 1));
	return s->lanes > 0 || along;
}

/* What stands where the write goes, `found` if that is read already; a number, if nothing but the tensor's initial
 * value can. */
static KArg old_value(Builder *b, NodeId n, bool keep_unit, Dtype to, KArg found) {
	if (found.kind != KARG_NONE)
		return build_converted(b, found, karg_dtype(b, found), to);
	const Access *access = b->plan->values[n].access;
	const Operand *o = &b->plan->operands.at[access->operand];
	if (o->held && o->held->initial == INITIAL_FOLDED)
		return held_initial(o, to);
	KArg x = changes_around(b, access) ? load_ref(b, ref_of(b, access, keep_unit, true))
	                                   : load_region(b, access, keep_unit, true);
	return build_converted(b, x, accumulator_of(o) != NONE ? DTYPE_F32 : o->dtype, to);
}

/* `value` where the store's extra_mask is true, else what stands there, `old` if that is read already. */
static KArg chosen(Builder *b, NodeId n, bool keep_unit, Dtype dtype, KArg value, KArg mask, KArg old) {
	Dtype in = selected_dtype(b, b->plan->values[n].access, keep_unit, dtype);
	KArg args[3];
	args[0] = mask.kind != KARG_NONE ? mask : written(b, n, 3, keep_unit, DTYPE_BOOL);
	args[1] = build_converted(b, value, dtype, in);
	args[2] = old_value(b, n, keep_unit, in, old);
	return build_converted(b, build_op(b, OP_WHERE, in, 3, args, 0, NULL), in, dtype);
}

/* `value` with the lanes that the write must leave alone as they are, `old` if that is read already. */
static KArg kept(Builder *b, NodeId n, bool keep_unit, Dtype dtype, KArg value, KArg old) {
	const Value *v = &b->plan->values[n];
	const Operand *o = &b->plan->operands.at[v->access->operand];
	Dtype in = selected_dtype(b, v->access, keep_unit, dtype);
	if (v->mask_count == 0)
		return value;
	value = build_converted(b, value, dtype, in);
	old = old_value(b, n, keep_unit, in, old);
	for (uint32_t i = 0; i < v->mask_count; i++) {
		const Mask *mask = &v->masks[i];
		int64_t axis = region_axis(o, v->access, keep_unit, o->dim_of[mask->dim]);
		value = build_op(b, K_KEEP, in, 3, (const KArg[]){value, mask_count(b, mask), old}, 1, &axis);
	}
	return build_converted(b, value, in, dtype);
}

/* What is stored around it, where Mosaic slices nothing: x, and what stands there, `old` if that is read already. */
static KArg put(Builder *b, const Access *access, bool keep_unit, KArg x, Dtype dtype, KArg old, IntId there) {
	const Operand *o = &b->plan->operands.at[access->operand];
	Dtype wide = dtype_turned(dtype);
	bool around = old.kind != KARG_NONE && changes_around(b, access);
	Dtype from = around ? karg_dtype(b, old) : dtype;
	old = around ? old : load_ref(b, ref_of(b, access, keep_unit, true));
	int64_t shape[DIM_MAX];
	uint32_t rank = region_shape(b, access, keep_unit, shape);
	if (x.kind != KARG_VALUE || !b->k->values.at[x.value].rank)
		x = build_shaped(b, K_BROADCAST, dtype, rank, shape, 1, &x);
	old = build_converted(b, old, from, wide);
	x = build_put(b, access, keep_unit ? o->unit : NONE, build_converted(b, x, dtype, wide), old, there);
	return build_converted(b, x, wide, dtype);
}

/* Into this step's part of a block that several share. */
static void store(Builder *b, const Access *access, bool keep_unit, KArg x) {
	bool part = part_dim(access);
	if (part || (b->place && x.kind == KARG_VALUE) || access_turns(access)) {
		x = build_unary(b, K_LET, karg_dtype(b, x), x);
		build_name(b, x, "value");
	}
	StmtId s = build_statement(b, K_STORE, 2, (const KArg[]){karg_ref(ref_of(b, access, keep_unit, true)), x});
	if (part)
		kernel_stmt(b->k, s)->name = "put";
}

/* What an atomic leaves of `value` and what stands there, `old` if that is read already. */
static KArg combined(Builder *b, NodeId n, bool keep_unit, Dtype in, KArg value, KArg old) {
	const Operand *o = &b->plan->operands.at[b->plan->values[n].access->operand];
	uint16_t op = node_get(b->m, n)->op;
	bool adds_zero = o->held && o->held->initial == INITIAL_FOLDED && o->held->value == 0 && op == OP_ATOMIC_ADD;
	if (!op_is_atomic(op) || op_canonical(op) == op || adds_zero)
		return value;
	old = old_value(b, n, keep_unit, in, old);
	return build_binary(b, op_canonical(op), in, old, value);
}

/* The value combined with what stands there, and what the write leaves alone as it is. Of a scatter, `mask`: where it
 * writes. */
static void write_value(Builder *b, NodeId n, bool keep_unit, Dtype in, KArg value, KArg mask, KArg old, IntId there) {
	const Value *v = &b->plan->values[n];
	const Operand *o = &b->plan->operands.at[v->access->operand];
	bool atomic = op_is_atomic(node_get(b->m, n)->op);
	Dtype held = accumulator_of(o) != NONE ? DTYPE_F32 : o->dtype;
	value = kept(b, n, keep_unit, in, combined(b, n, keep_unit, in, value, old), old);
	bool masked = v->access->places == NONE && !atomic && node_input(b->m, n, 3) != NONE;
	if (masked || mask.kind != KARG_NONE)
		value = chosen(b, n, keep_unit, in, value, mask, old);
	value = build_converted(b, value, in, held);
	store(b, v->access, keep_unit,
	      access_turns(v->access) ? put(b, v->access, keep_unit, value, held, old, there) : value);
}

/* The dtype in which the write combines. */
static Dtype write_dtype(const Builder *b, NodeId n) {
	const Operand *o = &b->plan->operands.at[b->plan->values[n].access->operand];
	bool atomic = op_is_atomic(node_get(b->m, n)->op);
	return atomic ? arith_write_dtype(b->m, n) : accumulator_of(o) != NONE ? DTYPE_F32 : o->dtype;
}

KArg build_old_at(Builder *b, NodeId n) {
	const Operand *o = &b->plan->operands.at[b->plan->values[n].access->operand];
	return old_value(b, n, false, accumulator_of(o) != NONE ? DTYPE_F32 : dtype_turned(o->dtype), (KArg){0});
}

void build_write_at(Builder *b, NodeId n, KArg value, KArg mask, KArg old, IntId there) {
	Dtype in = write_dtype(b, n);
	write_value(b, n, false, in, build_converted(b, value, karg_dtype(b, value), in), mask, old, there);
}

/* A store or an atomic. */
void build_write(Builder *b, NodeId n) {
	const Value *v = &b->plan->values[n];
	const Operand *o = &b->plan->operands.at[v->access->operand];
	const Arg *arg = node_arg(b->m, n, 2);
	if (v->access->places != NONE) {
		build_scatter(b, n);
		return;
	}
	if (v->staged != NONE) {
		build_staged_store(b, n);
		return;
	}
	bool keep_unit = !v->access->column && stored_as_row(b, arg) && o->unit != NONE && o->unit + 2 == o->rank &&
	                 v->access->perm_rank == 0;
	Dtype in = write_dtype(b, n);
	write_value(b, n, keep_unit, in, written(b, n, 2, keep_unit, in), (KArg){0}, (KArg){0}, NONE);
}
