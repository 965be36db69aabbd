/* host_steps.c - dtypes and shapes of what the wrapper computes: `ops` of `returns` after the kernel, of derived
 * tensors before it.
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

static bool step_refused(const Module *m, Diag *d, const HostSteps *of, uint32_t step, const Diag *found) {
	const char *target = op_row(of->steps[step].op)->target;
	Place at = diag_place(d, m->source, "/%s/%u/ops/%u", of->list, of->index, step);
	const char *why = found->list.count ? found->list.at[0].message : NULL;
	const char *scratch_node = why ? strstr(why, "): ") : NULL; /* it names a node that only this file knows */
	if (why)
		diag_error(d, at, found->list.at[0].code, found->list.at[0].hint, "%s %s the kernel: %s", target,
		           of->when, scratch_node ? scratch_node + 3 : why);
	else
		diag_error(d, at, "unsupported-op", of->hint, "%s gives no tensor %s the kernel", target, of->when);
	return false;
}

/* Of tensor t, which is values[0], after each step. */
static bool steps_infer(const Module *m, Diag *d, Arena *a, const HostSteps *of, const Tensor *t, HostValue *values) {
	if (!host_value(m, t->dtype, t->rank, t->shape, &values[0]))
		return false;
	if (of->count == 0)
		return true;
	Diag found;
	diag_init(&found, a);
	Module *scratch = module_clone(m, a);
	TypeId type = type_tensor(scratch, t->dtype, t->rank, t->shape);
	NodeId value = node_new(scratch, 0, OP_HOST_TENSOR, "value", type, 0, NULL);
	for (uint32_t i = 0; i < of->count; i++) {
		value = step_node(scratch, 0, value, &of->steps[i]);
		if (!op_infer(scratch, &found, value, &type) || !step_value(scratch, type, &values[i + 1]))
			return step_refused(m, d, of, i, &found);
		node_set_type(scratch, value, type);
	}
	return true;
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

HostSteps return_steps(const Module *m, uint32_t r) {
	const Return *x = &m->returns.at[r];
	return (HostSteps){x->steps, x->step_count, "returns", r, "after", "apply it to the result"};
}

HostSteps derived_steps(const Module *m, TensorId t) {
	const Tensor *x = &m->tensors.at[t];
	return (HostSteps){x->steps, x->step_count, "tensors",
	                   t,        "before",      "compute it before the call and pass it as an input"};
}

bool return_infer(const Module *m, Diag *d, Arena *a, uint32_t r, HostValue *values) {
	const Return *x = &m->returns.at[r];
	HostSteps of = return_steps(m, r);
	return steps_infer(m, d, a, &of, &m->tensors.at[x->tensor], values) &&
	       final_shape(m, d, r, &values[of.count], &values[of.count + 1]);
}

bool derived_infer(const Module *m, Diag *d, Arena *a, TensorId t, HostValue *values) {
	const Tensor *x = &m->tensors.at[t];
	HostSteps of = derived_steps(m, t);
	HostValue own;
	if (!steps_infer(m, d, a, &of, &m->tensors.at[x->of], values) ||
	    !host_value(m, x->dtype, x->rank, x->shape, &own))
		return false;
	const HostValue *last = &values[of.count];
	if (last->dtype == own.dtype && last->rank == own.rank &&
	    memcmp(last->shape, own.shape, own.rank * sizeof *own.shape) == 0)
		return true;
	diag_error(d, tensor_place(m, d, t), "shape-mismatch", "declare what its ops give",
	           "derived tensor %s is declared with another dtype or shape than its ops give", x->name);
	return false;
}
