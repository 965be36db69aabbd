/* build_host.c - the wrapper around the kernels: what is derived from arrays, views of those that go in, a launch of
 * each kernel, views back of what comes out, and what `returns` makes of it. */
#include "builder.h"
#include "codegen/lower/lower.h"
#include "codegen/place/place.h"
#include "src/shard/shard.h"
#include "src/verify/verify.h"

#include <math.h>

typedef struct Host {
	const Program *whole;
	const Module *m;
	Arena *a;
	Kernel *k;
	ValueId *tensor;    /* by tensor: what the wrapper holds of it; NONE */
	const Operand **as; /* ... a kernel gave it so; NULL: it is as the tensor is */
	ValueId *scalar;    /* by scalar */
	ValueId step;       /* the number of a ring's step, where kernels ask for it */
} Host;

static ValueId host_op(Host *h, uint16_t op, Dtype dtype, uint32_t rank, const int64_t *shape, uint32_t arg_count,
                       const KArg *args, uint32_t int_count, const int64_t *ints) {
	return kernel_op(h->k, h->k->body, op, dtype, rank, shape, arg_count, args, int_count, ints);
}

static Dtype dtype_of(const Host *h, ValueId x) { return h->k->values.at[x].dtype; }

static ValueId with_shape(Host *h, uint16_t op, ValueId x, uint32_t rank, const int64_t *shape) {
	KArg arg = karg_value(x);
	return host_op(h, op, dtype_of(h, x), rank, shape, 1, &arg, 0, NULL);
}

static ValueId with_ints(Host *h, uint16_t op, ValueId x, Dtype dtype, uint32_t count, const int64_t *ints) {
	KArg arg = karg_value(x);
	return host_op(h, op, dtype, 0, NULL, 1, &arg, count, ints);
}

/* ---- views that operands ask for -------------------------------------------------------------------------------- */

static ValueId stepped(Host *h, ValueId x, const ArrayStep *s) {
	switch (s->kind) {
	case ARRAY_RESHAPE: return with_shape(h, K_RESHAPE, x, s->rank, s->shape);
	case ARRAY_TRANSPOSE: return with_ints(h, K_TRANSPOSE, x, dtype_of(h, x), s->rank, s->shape);
	case ARRAY_SLICE: return with_ints(h, K_STRIDED, x, dtype_of(h, x), 3 * s->rank, &s->slice[0][0]);
	case ARRAY_EXPAND: return with_shape(h, K_BROADCAST, x, s->rank, s->shape);
	}
	return x;
}

/* Consecutive reshapes are one: the last says it all. */
static bool absorbed(const Operand *o, uint32_t i) {
	return o->steps.at[i].kind == ARRAY_RESHAPE && i + 1 < o->steps.count &&
	       o->steps.at[i + 1].kind == ARRAY_RESHAPE;
}

/* The tensor's own shape; returns its rank. */
static uint32_t host_shape(Host *h, TensorId t, int64_t *shape) {
	const Tensor *tensor = &h->m->tensors.at[t];
	for (uint32_t i = 0; i < tensor->rank; i++)
		shape[i] = expr_number(h->m, tensor->shape[i]);
	return tensor->rank;
}

static ValueId reshaped(Host *h, ValueId x, const HostValue *from, const HostValue *to) {
	bool same = from->rank == to->rank && memcmp(from->shape, to->shape, to->rank * sizeof *to->shape) == 0;
	return same ? x : with_shape(h, K_RESHAPE, x, to->rank, to->shape);
}

/* x, which the kernel gave as `o`, with the array steps undone from the last to the first, in its final shape. */
static ValueId undone(Host *h, const Operand *o, ValueId x, const HostValue *final) {
	HostValue *before = arena_array(h->a, (size_t)o->steps.count + 1, sizeof *before), now, wanted;
	before[0].rank = host_shape(h, o->tensor, before[0].shape);
	for (uint32_t i = 0; i < o->steps.count; i++) {
		const ArrayStep *s = &o->steps.at[i];
		before[i + 1].rank = s->rank;
		for (uint32_t d = 0; d < s->rank; d++)
			before[i + 1].shape[d] =
				s->kind == ARRAY_TRANSPOSE ? before[i].shape[s->shape[d]] : s->shape[d];
	}
	now = wanted = before[o->steps.count];
	for (uint32_t i = o->steps.count; i-- > 0; wanted = before[i]) {
		const ArrayStep *s = &o->steps.at[i];
		int64_t inverse[DIM_MAX];
		if (s->kind != ARRAY_TRANSPOSE)
			continue;
		for (uint32_t d = 0; d < s->rank; d++)
			inverse[s->shape[d]] = d;
		x = reshaped(h, x, &now, &wanted);
		x = with_ints(h, K_TRANSPOSE, x, dtype_of(h, x), s->rank, inverse);
		now = before[i];
	}
	return reshaped(h, x, &now, final);
}

/* ---- one launch ------------------------------------------------------------------------------------------------- */

static KArg number_of(Dtype t, double x) { return dtype_is_float(t) ? karg_real(x) : karg_integer((int64_t)x); }

/* An output that keeps its initial value where no grid point writes. */
static ValueId initial(Host *h, TensorId t) {
	const Tensor *tensor = &h->m->tensors.at[t];
	KArg value = number_of(tensor->dtype, tensor->init);
	int64_t shape[DIM_MAX];
	return host_op(h, K_FULL, tensor->dtype, host_shape(h, t, shape), shape, 1, &value, 0, NULL);
}

static ValueId operand_array(Host *h, const Operand *o) {
	HostValue shape = {.rank = 0};
	uint32_t done = 0;
	if (o->tensor == NONE) {
		KArg x = karg_value(h->scalar[o->scalar]);
		return host_op(h, K_ARRAY, o->dtype, 0, NULL, 1, &x, 0, NULL);
	}
	ValueId x = h->tensor[o->tensor];
	const Operand *as = h->as[o->tensor];
	if (as && operand_same_array(as, o))
		return x;
	shape.rank = host_shape(h, o->tensor, shape.shape);
	if (as) {
		for (; done < o->steps.count && o->steps.at[done].kind == ARRAY_RESHAPE; done++) {
			shape.rank = o->steps.at[done].rank;
			memcpy(shape.shape, o->steps.at[done].shape, shape.rank * sizeof *shape.shape);
		}
		x = undone(h, as, x, &shape);
	} else if (x == NONE) {
		x = initial(h, o->tensor);
	}
	for (uint32_t i = done; i < o->steps.count; i++)
		if (!absorbed(o, i))
			x = stepped(h, x, &o->steps.at[i]);
	return x;
}

static void build_launch(Host *h, const Plan *p, int64_t kernel) {
	VEC(KArg) args = {0};
	for (uint32_t place = 0; place < OPERAND_OUT; place++)
		for (uint32_t i = 0; i < p->operands.count; i++)
			if (operand_place_in_call(&p->operands.at[i]) == place)
				vec_push(h->a, &args, karg_value(operand_array(h, &p->operands.at[i])));
	StmtId s = kernel_append(h->k, h->k->body, K_LAUNCH, args.count, args.at, 1, &kernel);
	uint32_t outputs = 0;
	for (uint32_t i = 0; i < p->operands.count; i++)
		outputs += p->operands.at[i].output;
	for (uint32_t i = 0; i < p->operands.count; i++) {
		const Operand *o = &p->operands.at[i];
		if (!o->output)
			continue;
		h->tensor[o->tensor] = kernel_result(h->k, s, KTYPE_TILE, o->dtype, o->rank, o->shape,
		                                     outputs > UNPACK_MAX ? NULL : h->m->tensors.at[o->tensor].name);
		h->as[o->tensor] = o;
	}
	if (outputs > UNPACK_MAX)
		kernel_stmt(h->k, s)->name = "outputs";
}

/* ---- along axes of the mesh ------------------------------------------------------------------------------------- */

static ValueId along(Host *h, uint16_t op, ValueId x, Dtype dtype, const Cut *cut) {
	int64_t axes[MESH_AXES_MAX];
	KArg arg = karg_value(x);
	for (uint32_t i = 0; i < cut->count; i++)
		axes[i] = cut->axis[i];
	return host_op(h, op, dtype, 0, NULL, op != K_AXES_INDEX, &arg, cut->count, axes);
}

static ValueId merged(Host *h, const Merge *merge, ValueId x) {
	static const uint16_t ops[] = {K_ALL_SUM, K_ALL_MAX, K_ALL_MIN, K_ALL_SUM};
	return along(h, ops[merge->kind], x, dtype_of(h, x), &merge->cut);
}

/* ---- what derived tensors and `returns` compute ----------------------------------------------------------------- */

static const Arg *step_arg(Host *h, const HostStep *s, uint32_t i) {
	static const Arg none = {.kind = ARG_NULL};
	return i < s->count ? arg_get(h->m, s->first + i) : &none;
}

/* Dims counted from the front; returns how many. */
static uint32_t dims_of(Host *h, const Arg *a, uint32_t rank, int64_t *dims) {
	uint32_t count = a->kind == ARG_LIST ? a->list.count : a->kind == ARG_INT;
	count = count < DIM_MAX ? count : DIM_MAX;
	for (uint32_t i = 0; i < count; i++) {
		int64_t dim = (a->kind == ARG_LIST ? arg_item(h->m, a, i) : a)->integer;
		dims[i] = dim < 0 ? dim + rank : dim;
	}
	return count;
}

static ValueId reduced(Host *h, const HostStep *s, ValueId x, const HostValue *before, const HostValue *after) {
	int64_t ints[DIM_MAX + 1] = {0};
	bool all = op_param_index(s->op, "dim") == NONE;
	uint32_t count = all ? 0 : dims_of(h, step_arg(h, s, 0), before->rank, ints + 1);
	const Arg *keep = step_arg(h, s, 1);
	ints[0] = !all && keep->kind == ARG_BOOL && keep->boolean;
	x = with_ints(h, build_reduction_op(s->op), x, before->dtype, count + 1, ints);
	return before->dtype == after->dtype ? x : with_ints(h, K_CONVERT, x, after->dtype, 0, NULL);
}

static bool same_shape(const HostValue *a, const HostValue *b) {
	return a->rank == b->rank && memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0;
}

static ValueId viewed(Host *h, const HostStep *s, ValueId x, const HostValue *before, const HostValue *after) {
	int64_t dims[DIM_MAX] = {-1, -2};
	ShapeRule rule = op_row(s->op)->shape;
	if (rule == SHAPE_PERMUTE)
		return with_ints(h, K_TRANSPOSE, x, dtype_of(h, x), dims_of(h, step_arg(h, s, 0), before->rank, dims),
		                 dims);
	if (rule == SHAPE_T)
		return before->rank < 2 ? x : with_ints(h, K_SWAPAXES, x, dtype_of(h, x), 2, dims);
	if (rule == SHAPE_TRANSPOSE) {
		dims[0] = step_arg(h, s, 0)->integer;
		dims[1] = step_arg(h, s, 1)->integer;
		return with_ints(h, K_SWAPAXES, x, dtype_of(h, x), 2, dims);
	}
	if (same_shape(before, after))
		return x;
	return with_shape(h, op_lanes(s->op) == LANES_EXPAND ? K_BROADCAST : K_RESHAPE, x, after->rank, after->shape);
}

static ValueId computed(Host *h, const HostStep *s, ValueId x, const HostValue *after) {
	KArg operands[PARAMS_MAX] = {karg_value(x)};
	uint32_t count = 1;
	OpParam param;
	const char *at = op_param_next(op_row(s->op)->params, &param);
	for (uint32_t i = 0; i < s->count && at; i++) {
		at = op_param_next(at, &param);
		if (at && param.letter == 'x')
			operands[count++] = build_number(h->m, step_arg(h, s, i));
	}
	return host_op(h, op_canonical(s->op), after->dtype, 0, NULL, count, operands, 0, NULL);
}

static ValueId step_value(Host *h, const HostStep *s, ValueId x, const HostValue *before, const HostValue *after) {
	switch (op_lowering(s->op)) {
	case LOWER_REDUCE: return reduced(h, s, x, before, after);
	case LOWER_VIEW: return viewed(h, s, x, before, after);
	case LOWER_ALIAS: return x;
	default: break;
	}
	if (op_converts(s->op))
		return before->dtype == after->dtype ? x : with_ints(h, K_CONVERT, x, after->dtype, 0, NULL);
	return computed(h, s, x, after);
}

/* `parts`: of what one of the steps gives, to be merged; NULL. */
static ValueId stepwise(Host *h, const HostSteps *of, ValueId x, const HostValue *values, const Merge *parts) {
	for (uint32_t i = 0; i < of->count; i++) {
		x = step_value(h, &of->steps[i], x, &values[i], &values[i + 1]);
		if (parts && parts->cut.count && parts->root == i)
			x = merged(h, parts, x);
	}
	return x;
}

/* The tensor as the document shapes it. */
static ValueId tensor_value(Host *h, TensorId t) {
	const Tensor *tensor = &h->m->tensors.at[t];
	HostValue own;
	own.rank = host_shape(h, t, own.shape);
	if (tensor->role == ROLE_DERIVED && h->tensor[t] == NONE) {
		HostSteps of = derived_steps(h->m, t);
		h->tensor[t] = stepwise(h, &of, tensor_value(h, tensor->of), h->whole->derived[t], NULL);
	}
	if (tensor->role != ROLE_VIEW) {
		ValueId x = h->tensor[t] == NONE ? initial(h, t) : h->tensor[t];
		return h->as[t] ? undone(h, h->as[t], x, &own) : x;
	}
	ArrayStep step = view_step(h->m, tensor);
	return stepped(h, tensor_value(h, tensor->of), &step);
}

static KArg returned(Host *h, uint32_t r) {
	const Return *ret = &h->m->returns.at[r];
	const HostValue *values = h->whole->returns.at[r], *last = &values[ret->step_count];
	const HostValue *first = ret->step_count ? &values[0] : &values[1];
	const Operand *as = h->as[ret->tensor];
	/* One reshape says it all. */
	ValueId x = as ? undone(h, as, h->tensor[ret->tensor], first)
	               : reshaped(h, tensor_value(h, ret->tensor), &values[0], first);
	HostSteps of = return_steps(h->m, r);
	x = stepwise(h, &of, x, values, h->m->sharding ? &h->m->sharding->summed.at[r] : NULL);
	if (ret->step_count && !same_shape(last, last + 1))
		x = with_shape(h, K_RESHAPE, x, last[1].rank, last[1].shape);
	return karg_value(x);
}

/* ---- between devices --------------------------------------------------------------------------------------------- */

/* The place of what is there among the parts of a cut; those of a ring's steps are innermost. */
static ValueId place_of(Host *h, const Cut *cut) {
	const Sharding *s = h->m->sharding;
	Cut in_space = *cut;
	if (!cut_has(cut, s->ring.steps))
		return along(h, K_AXES_INDEX, NONE, DTYPE_I32, cut);
	in_space.count--;
	if (in_space.count == 0)
		return h->step;
	KArg args[2] = {karg_value(along(h, K_AXES_INDEX, NONE, DTYPE_I32, &in_space)),
	                karg_integer(s->mesh.axis[s->ring.steps].devices)};
	KArg sum[2] = {karg_value(host_op(h, OP_MUL, DTYPE_I32, 0, NULL, 2, args, 0, NULL)), karg_value(h->step)};
	return host_op(h, OP_ADD, DTYPE_I32, 0, NULL, 2, sum, 0, NULL);
}

/* Where a device's part begins: scalars that no caller gives. */
static void build_offsets(Host *h) {
	const Sharding *s = h->m->sharding;
	for (uint32_t i = 0; s && i < s->offsets.count; i++) {
		const Offset *o = &s->offsets.at[i];
		KArg args[2] = {karg_value(place_of(h, &o->cut)), karg_integer(o->part)};
		h->scalar[o->scalar] = host_op(h, OP_MUL, DTYPE_I32, 0, NULL, 2, args, 0, NULL);
	}
}

/* The mesh, if devices do not run alone. */
static void build_axes(Host *h, KProgram *out) {
	const Sharding *s = h->m->sharding;
	bool together = s && s->merges.count + s->offsets.count;
	for (uint32_t r = 0; s && r < s->summed.count; r++)
		together = together || s->summed.at[r].cut.count;
	for (uint32_t i = 0; together && i < s->mesh.count; i++) {
		KAxis axis = {s->mesh.axis[i].name, s->mesh.axis[i].devices};
		vec_push(h->a, &out->axes, axis);
	}
}

static bool is_offset(const Module *m, ScalarId scalar) {
	bool any = false;
	for (uint32_t i = 0; m->sharding && i < m->sharding->offsets.count; i++)
		any = any || m->sharding->offsets.at[i].scalar == scalar;
	return any;
}

static ValueId of_two(Host *h, uint16_t op, ValueId x, KArg y) {
	KArg args[2] = {karg_value(x), y};
	Dtype dtype = op == OP_EQ ? DTYPE_BOOL : dtype_of(h, x);
	return host_op(h, op, dtype, 0, NULL, 2, args, 0, NULL);
}

static ValueId zero_where(Host *h, ValueId x, double is, ValueId else_) {
	KArg choice[3] = {karg_value(of_two(h, OP_EQ, x, karg_real(is))), karg_real(0), karg_value(else_)};
	return host_op(h, OP_WHERE, dtype_of(h, else_), 0, NULL, 3, choice, 0, NULL);
}

/* What turns units of exp(-m) of this device's maximum into those of all devices'. Nothing was there where it is -inf.
 */
static ValueId decay(Host *h, const Merge *merge, ValueId own) {
	ValueId all = h->tensor[merge->by];
	KArg drop = karg_value(of_two(h, OP_SUB, own, karg_value(all)));
	ValueId x = host_op(h, merge->exp, dtype_of(h, own), 0, NULL, 1, &drop, 0, NULL);
	x = zero_where(h, own, -(double)INFINITY, x);
	kernel_value_at(h->k, x)->name = "decay";
	return x;
}

/* Whatever was computed of nothing is not taken, as it may be NaN. */
static ValueId rescaled(Host *h, const Merge *merge, ValueId x, ValueId by) {
	const KValue *from = kernel_value_at(h->k, by);
	uint32_t rank = h->m->tensors.at[merge->tensor].rank;
	int64_t shape[DIM_MAX];
	for (uint32_t d = 0; d < rank; d++)
		shape[d] = merge->row[d] >= 0 ? from->shape[merge->row[d]] : 1;
	if (rank != from->rank)
		by = with_shape(h, K_RESHAPE, by, rank, shape);
	return zero_where(h, by, 0, of_two(h, OP_MUL, x, karg_value(by)));
}

/* What the steps of a ring leave has names: the rest of the wrapper is a function of it. */
static void end_step(Host *h, uint32_t root, KProgram *out) {
	const Sharding *s = h->m->sharding;
	if (!s || s->ring.root != root)
		return;
	for (uint32_t i = 0; i < s->merges.count; i++) {
		const Merge *merge = &s->merges.at[i];
		if (!merge->steps)
			continue;
		ValueId x = tensor_value(h, merge->tensor);
		kernel_value_at(h->k, x)->name = arena_printf(h->a, "%s_step", merge->name);
		h->tensor[merge->tensor] = x;
		h->as[merge->tensor] = NULL;
		vec_push(h->a, &out->step_values, x);
	}
	out->step_end = h->k->stmts.count - 1;
}

/* What the kernel of a root left on each device, as it is on all. */
static void build_merges(Host *h, uint32_t root) {
	const Sharding *s = h->m->sharding;
	ValueId *own = arena_array(h->a, (size_t)h->m->tensors.count + 1, sizeof *own);
	ValueId *by = arena_array(h->a, (size_t)h->m->tensors.count + 1, sizeof *by);
	memset(by, -1, h->m->tensors.count * sizeof *by);
	for (uint32_t i = 0; s && i < s->merges.count; i++) {
		const Merge *merge = &s->merges.at[i];
		if (merge->root != root || merge->cut.count == 0)
			continue;
		ValueId x = own[merge->tensor] = tensor_value(h, merge->tensor);
		if (merge->kind == MERGE_SCALED) {
			if (by[merge->by] == NONE)
				by[merge->by] = decay(h, merge, own[merge->by]);
			x = rescaled(h, merge, x, by[merge->by]);
		}
		x = merged(h, merge, x);
		kernel_value_at(h->k, x)->name = merge->name;
		h->tensor[merge->tensor] = x;
		h->as[merge->tensor] = NULL;
	}
}

/* ---- what comes in, what goes out ------------------------------------------------------------------------------- */

static void add_array(Host *h, KProgram *out, bool input, const char *name, Dtype dtype, uint32_t rank,
                      const int64_t *shape, bool scalar) {
	int64_t *copy = arena_array(h->a, rank + 1, sizeof *copy);
	for (uint32_t i = 0; i < rank; i++)
		copy[i] = shape[i];
	KArray x = {.name = name, .dtype = dtype, .rank = rank, .shape = copy, .scalar = scalar};
	if (input)
		vec_push(h->a, &out->inputs, x);
	else
		vec_push(h->a, &out->outputs, x);
}

static void build_parameters(Host *h, KProgram *out) {
	for (TensorId t = 0; t < h->m->tensors.count; t++) {
		const Tensor *tensor = &h->m->tensors.at[t];
		int64_t shape[DIM_MAX];
		uint32_t rank = tensor->role == ROLE_INPUT || tensor->role == ROLE_INOUT ? host_shape(h, t, shape) : 0;
		h->tensor[t] = NONE;
		if (tensor->role != ROLE_INPUT && tensor->role != ROLE_INOUT)
			continue;
		h->tensor[t] = kernel_value(h->k, KTYPE_TILE, tensor->dtype, rank, shape, tensor->name);
		add_array(h, out, true, tensor->name, tensor->dtype, rank, shape, false);
	}
	for (ScalarId s = 0; s < h->m->scalars.count; s++) {
		const Scalar *scalar = &h->m->scalars.at[s];
		if (scalar->has_value || is_offset(h->m, s))
			continue;
		h->scalar[s] = kernel_value(h->k, KTYPE_SCALAR, scalar->dtype, 0, NULL, scalar->name);
		add_array(h, out, true, scalar->name, scalar->dtype, 0, NULL, true);
	}
	if (h->m->sharding && h->m->sharding->ring.asks) {
		h->step = kernel_value(h->k, KTYPE_SCALAR, DTYPE_I32, 0, NULL, "ring_step");
		add_array(h, out, true, "ring_step", DTYPE_I32, 0, NULL, true);
	}
}

/* What kernels read of derived tensors, from arrays that no kernel has changed yet. */
static void build_derived(Host *h) {
	for (uint32_t k = 0; k < h->whole->kernels.count; k++) {
		const Plan *p = h->whole->kernels.at[k];
		for (uint32_t i = 0; i < p->operands.count; i++) {
			TensorId t = p->operands.at[i].tensor;
			if (t != NONE && h->m->tensors.at[t].role == ROLE_DERIVED)
				tensor_value(h, t);
		}
	}
}

static void build_outputs(Host *h, KProgram *out) {
	for (uint32_t r = 0; r < h->m->returns.count; r++) {
		const HostValue *v = &h->whole->returns.at[r][h->m->returns.at[r].step_count + 1];
		add_array(h, out, false, h->m->tensors.at[h->m->returns.at[r].tensor].name, v->dtype, v->rank, v->shape,
		          false);
	}
}

/* ---- the configuration in force, as far as it can be given back ------------------------------------------------- */

/* A key that was given. */
static void put_key(Host *h, uint32_t key, Text *out) {
	text_printf(out, ", \"%s\": ", key_rows[key].name);
	key_put(&key_rows[key], &h->m->config, true, out);
}

static const char *config_text(Host *h) {
	Text out, sizes;
	text_init(&out, h->a);
	text_init(&sizes, h->a);
	for (BlockId b = 0; b < h->m->blocks.count; b++)
		if (block_is_chosen(&h->m->blocks.at[b]))
			text_printf(&sizes, sizes.length ? ", %lld" : "%lld", (long long)h->m->narrowed.at[b].asked);
	text_printf(&out, "\"block_sizes\": [%s]", sizes.at ? sizes.at : "");
	if (h->m->config.reduction_loops.set)
		put_key(h, KEY_OF_reduction_loops, &out);
	for (uint32_t k = 0, said = 0; k < h->whole->kernels.count && !said; k++) {
		const Plan *p = h->whole->kernels.at[k];
		said = p->loops.count;
		if (said)
			text_printf(&out, ", \"pallas_loop_type\": \"%s\"", loop_lowering_name(&p->loops.at[0]));
	}
	if (h->m->config.pre_broadcast.set && (Switch)h->m->config.pre_broadcast.value != SWITCH_AUTO)
		put_key(h, KEY_OF_pre_broadcast, &out);
	for (TunableId t = 0; t < h->m->tunables.count; t++) {
		text_put(&out, ", ");
		text_put_json(&out, h->m->tunables.at[t].name);
		text_printf(&out, ": %lld", (long long)h->m->config.tunables.at[t]);
	}
	return out.at;
}

static const char *sizes_text(const Host *h) {
	Text out;
	text_init(&out, h->a);
	text_put(&out, "");
	for (uint32_t i = 0; i < h->m->sizes.count; i++) {
		text_put(&out, i ? ", " : "");
		text_put_json(&out, h->m->sizes.at[i].name);
		text_printf(&out, ": %lld", (long long)h->m->sizes.at[i].value);
	}
	return out.at;
}

void build_host(const Program *g, KProgram *out) {
	const Module *m = g->module;
	Host h = {.whole = g, .m = m, .a = g->arena, .k = kernel_new(g->arena, m->name)};
	h.tensor = arena_array(h.a, m->tensors.count + 1, sizeof *h.tensor);
	h.as = arena_array(h.a, m->tensors.count + 1, sizeof *h.as);
	h.scalar = arena_array(h.a, m->scalars.count + 1, sizeof *h.scalar);
	out->name = m->name;
	out->target = m->target->name;
	out->host = h.k;
	out->config = config_text(&h);
	out->sizes = sizes_text(&h);
	out->sharding = m->sharding;
	build_axes(&h, out);
	out->vmem_bytes = g->vmem_bytes;
	out->flops = g->flops;
	out->hbm_bytes = g->hbm_bytes;
	build_parameters(&h, out);
	build_outputs(&h, out);
	build_derived(&h);
	build_offsets(&h);
	for (uint32_t k = 0; k < g->kernels.count; k++) {
		build_launch(&h, g->kernels.at[k], k);
		end_step(&h, k, out);
		build_merges(&h, k);
	}
	KArg *args = arena_array(h.a, m->returns.count + 1, sizeof *args);
	for (uint32_t r = 0; r < m->returns.count; r++)
		args[r] = returned(&h, r);
	kernel_append(h.k, h.k->body, K_RETURN, m->returns.count, args, 0, NULL);
}
