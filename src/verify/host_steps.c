/* host_steps.c - dtypes and shapes of what the wrapper does to a result after the kernel: `ops` of `returns`.
 *
 * The rules are those of the kernel's nodes: each step becomes a node of a scratch copy of the Module, and is inferred
 * there. So the op table says once what an op gives. */
#include "verify.h"

static bool host_value(const Module *m, Dtype dtype, uint32_t rank, const ExprId *dims, HostValue *out) {
	*out = (HostValue){.dtype = dtype, .rank = rank};
	for (uint32_t i = 0; i < rank; i++)
		if (!expr_value(m, dims[i], &out->shape[i]))
			return false;
	return true;
}

static bool step_value(const Module *m, TypeId type, HostValue *out) {
	const Type *t = type_get(m, type);
	return t->kind == TYPE_TENSOR && host_value(m, t->dtype, t->count, t->dims, out);
}

static NodeId step_node(Module *m, GraphId g, NodeId value, const HostStep *step) {
	Arg *args = arena_array(m->arena, (size_t)step->count + 1, sizeof *args);
	args[0] = arg_ref(value);
	for (uint32_t i = 0; i < step->count; i++)
		args[i + 1] = arg_copy(m, *arg_get(m, step->first + i));
	return node_new(m, g, step->op, "value", type_none(m), step->count + 1, args);
}

static bool step_refused(const Module *m, Diag *d, uint32_t r, uint32_t step, const Diag *found) {
	const char *target = op_row(m->returns.at[r].steps[step].op)->target;
	Place at = diag_place(d, m->source, "/returns/%u/ops/%u", r, step);
	const char *why = found->list.count ? found->list.at[0].message : NULL;
	const char *scratch_node = why ? strstr(why, "): ") : NULL; /* it names a node that only this file knows */
	if (why)
		diag_error(d, at, found->list.at[0].code, found->list.at[0].hint, "%s after the kernel: %s", target,
		           scratch_node ? scratch_node + 3 : why);
	else
		diag_error(d, at, "unsupported-op", "apply it to the result", "%s gives no tensor after the kernel",
		           target);
	return false;
}

static bool same_elements(const HostValue *a, const HostValue *b) {
	int64_t x = 1, y = 1;
	for (uint32_t i = 0; i < a->rank; i++)
		x *= a->shape[i];
	for (uint32_t i = 0; i < b->rank; i++)
		y *= b->shape[i];
	return x == y;
}

/* The `shape` that comes last. */
static bool final_shape(const Module *m, Diag *d, uint32_t r, const HostValue *value, HostValue *out) {
	const Return *x = &m->returns.at[r];
	*out = *value;
	out->rank = x->has_shape ? x->rank : value->rank;
	for (uint32_t i = 0; i < x->rank && x->has_shape; i++)
		if (!expr_value(m, x->shape[i], &out->shape[i]))
			return false;
	if (same_elements(out, value))
		return true;
	diag_error(d, diag_place(d, m->source, "/returns/%u/shape", r), "shape-mismatch", NULL,
	           "the shape has another number of elements than what the ops give");
	return false;
}

bool return_infer(const Module *m, Diag *d, Arena *a, uint32_t r, HostValue *values) {
	const Return *x = &m->returns.at[r];
	const Tensor *t = &m->tensors.at[x->tensor];
	if (!host_value(m, t->dtype, t->rank, t->shape, &values[0]))
		return false;
	if (x->step_count > 0) {
		Diag found;
		diag_init(&found, a);
		Module *scratch = module_clone(m, a);
		TypeId type = type_tensor(scratch, t->dtype, t->rank, t->shape);
		NodeId value = node_new(scratch, 0, OP_HOST_TENSOR, "value", type, 0, NULL);
		for (uint32_t i = 0; i < x->step_count; i++) {
			value = step_node(scratch, 0, value, &x->steps[i]);
			if (!op_infer(scratch, &found, value, &type) || !step_value(scratch, type, &values[i + 1]))
				return step_refused(m, d, r, i, &found);
			node_set_type(scratch, value, type);
		}
	}
	return final_shape(m, d, r, &values[x->step_count], &values[x->step_count + 1]);
}
