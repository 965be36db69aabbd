/* print_calls.c - the body of the jitted function: a pallas_call for each kernel, and what stands between them: views
 * of the arrays that go in, views back of what comes out. */
#include "printer.h"

/* ---- specs ------------------------------------------------------------------------------------------------------ */

static const char *block_spec(Printer *pr, const Operand *o, const char *variables) {
	if (o->space == SPACE_SMEM)
		return "pl.BlockSpec(memory_space=pltpu.SMEM)";
	if (o->space == SPACE_HBM)
		return "pl.BlockSpec(memory_space=pl.ANY)";
	const char *items[DIM_MAX];
	for (uint32_t d = 0; d < o->rank; d++)
		items[d] = affine_divided(pr, &o->index[d], d == o->part_dim ? o->parts : 1, false, PREC_LOWEST);
	const char *index = dims_text(pr, o->rank, items);
	const char *mode = o->buffers == 2 ? "" : arena_printf(pr->a, ", pipeline_mode=pl.Buffered(%d)", o->buffers);
	return arena_printf(pr->a, "pl.BlockSpec(%s, lambda%s%s: (%s%s)%s)", shape_text(pr, o->rank, o->block),
	                    *variables ? " " : "", variables, index, o->rank == 1 ? "," : "", mode);
}

static const char *specs(Printer *pr, bool output, const char *variables) {
	Text out;
	text_init(&out, pr->a);
	for (uint32_t i = 0; i < pr->plan->operands.count; i++)
		if (pr->plan->operands.at[i].output == output)
			text_printf(&out, "%s,", block_spec(pr, &pr->plan->operands.at[i], variables));
	return out.at ? out.at : "";
}

static const char *out_shapes(Printer *pr) {
	Text out;
	text_init(&out, pr->a);
	for (uint32_t i = 0; i < pr->plan->operands.count; i++) {
		const Operand *o = &pr->plan->operands.at[i];
		if (o->output)
			text_printf(&out, "jax.ShapeDtypeStruct(%s, %s),", shape_text(pr, o->rank, o->shape),
			            dtype_jnp(o->dtype));
	}
	return out.at ? out.at : "";
}

static const char *scratch_shapes(Printer *pr) {
	Text out;
	text_init(&out, pr->a);
	for (uint32_t i = 0; i < pr->plan->scratches.count; i++) {
		const Scratch *s = &pr->plan->scratches.at[i];
		if (s->kind == SCRATCH_VMEM)
			text_printf(&out, "pltpu.VMEM(%s, %s),", shape_text(pr, s->rank, s->shape),
			            dtype_jnp(s->dtype));
		else
			text_printf(&out, "pltpu.SemaphoreType.DMA(%s),", shape_text(pr, s->rank, s->shape));
	}
	return out.at;
}

static const char *semantics(Printer *pr) {
	Text out;
	text_init(&out, pr->a);
	for (uint32_t i = 0; i < pr->plan->grid.count; i++)
		text_printf(&out, i ? ", \"%s\"" : "\"%s\"", pr->plan->grid.at[i].parallel ? "parallel" : "arbitrary");
	return arena_printf(pr->a, pr->plan->grid.count == 1 ? "(%s,)" : "(%s)", out.at ? out.at : "");
}

static const char *grid_text(Printer *pr) {
	int64_t steps[RANK_MAX];
	for (uint32_t i = 0; i < pr->plan->grid.count; i++)
		steps[i] = pr->plan->grid.at[i].steps;
	return shape_text(pr, pr->plan->grid.count, steps);
}

/* ---- arrays in the wrapper -------------------------------------------------------------------------------------- */

static const char *slices_text(Printer *pr, const ArrayStep *s) {
	const char *items[DIM_MAX];
	for (uint32_t i = 0; i < s->rank; i++)
		items[i] = s->slice[i][2] == 1 ? arena_printf(pr->a, "%lld:%lld", (long long)s->slice[i][0],
		                                              (long long)s->slice[i][1])
		                               : arena_printf(pr->a, "%lld:%lld:%lld", (long long)s->slice[i][0],
		                                              (long long)s->slice[i][1], (long long)s->slice[i][2]);
	return dims_text(pr, s->rank, items);
}

static const char *stepped(Printer *pr, const char *x, const ArrayStep *s) {
	switch (s->kind) {
	case ARRAY_RESHAPE: return arena_printf(pr->a, "%s.reshape(%s)", x, shape_text(pr, s->rank, s->shape));
	case ARRAY_TRANSPOSE: return arena_printf(pr->a, "jnp.transpose(%s, %s)", x, shape_text(pr, s->rank, s->shape));
	case ARRAY_SLICE: return arena_printf(pr->a, "%s[%s]", x, slices_text(pr, s));
	case ARRAY_EXPAND: return arena_printf(pr->a, "jnp.broadcast_to(%s, %s)", x, shape_text(pr, s->rank, s->shape));
	}
	return x;
}

static const char *initial_text(Printer *pr, const Tensor *t) {
	Text out;
	text_init(&out, pr->a);
	if (dtype_is_float(t->dtype))
		py_put_float(&out, t->init);
	else
		text_printf(&out, "%lld", (long long)t->init);
	return out.at;
}

/* Outputs that take over an input's buffer: `{2: 0}`, positions among the inputs and among the outputs. NULL: none. */
static const char *aliases_text(Printer *pr) {
	Text out;
	text_init(&out, pr->a);
	uint32_t output = 0;
	for (uint32_t i = 0; i < pr->plan->operands.count; i++) {
		const Operand *o = &pr->plan->operands.at[i];
		if (!o->output)
			continue;
		uint32_t input = 0;
		for (uint32_t k = 0; o->alias_of != NONE && k < o->alias_of; k++)
			input += !pr->plan->operands.at[k].output;
		if (o->alias_of != NONE)
			text_printf(&out, out.length ? ", %u: %u" : "%u: %u", input, output);
		output++;
	}
	return out.length ? out.at : NULL;
}

/* Consecutive reshapes are one: the last says it all. */
static bool absorbed(const Operand *o, uint32_t i) {
	return o->steps.at[i].kind == ARRAY_RESHAPE && i + 1 < o->steps.count &&
	       o->steps.at[i + 1].kind == ARRAY_RESHAPE;
}

/* The tensor's own shape; returns its rank. */
static uint32_t host_shape(Printer *pr, TensorId t, int64_t *shape) {
	const Tensor *tensor = &pr->m->tensors.at[t];
	for (uint32_t i = 0; i < tensor->rank; i++)
		shape[i] = expr_number(pr->m, tensor->shape[i]);
	return tensor->rank;
}

static const char *reshaped(Printer *pr, const char *x, const HostValue *from, const HostValue *to) {
	bool same = from->rank == to->rank && memcmp(from->shape, to->shape, to->rank * sizeof *to->shape) == 0;
	return same ? x : arena_printf(pr->a, "%s.reshape(%s)", x, shape_text(pr, to->rank, to->shape));
}

/* x, which the kernel gave as `o`, with the array steps undone from the last to the first, in its final shape. */
static const char *undone_text(Printer *pr, const Operand *o, const char *x, const HostValue *final) {
	HostValue *before = arena_array(pr->a, (size_t)o->steps.count + 1, sizeof *before), now, wanted;
	before[0].rank = host_shape(pr, o->tensor, before[0].shape);
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
		x = arena_printf(pr->a, "jnp.transpose(%s, %s)", reshaped(pr, x, &now, &wanted),
		                 shape_text(pr, s->rank, inverse));
		now = before[i];
	}
	return reshaped(pr, x, &now, final);
}

/* ---- one call --------------------------------------------------------------------------------------------------- */

/* What the wrapper holds of a tensor. */
typedef struct HostArray {
	const char *text;  /* NULL: nothing yet */
	const Operand *as; /* a kernel gave it so; NULL: it is as the tensor is */
} HostArray;

static const char *operand_array_text(Printer *pr, const Operand *o, const Parameters *params,
                                      const HostArray *arrays) {
	if (o->tensor == NONE)
		return arena_printf(pr->a, "jnp.asarray(%s, %s).reshape(1)", params->scalar[o->scalar],
		                    dtype_jnp(o->dtype));
	const HostArray *given = &arrays[o->tensor];
	const char *x = given->text;
	HostValue shape = {.rank = 0};
	uint32_t done = 0;
	if (given->as && operand_same_array(given->as, o))
		return x;
	shape.rank = host_shape(pr, o->tensor, shape.shape);
	if (given->as) {
		for (; done < o->steps.count && o->steps.at[done].kind == ARRAY_RESHAPE; done++) {
			shape.rank = o->steps.at[done].rank;
			memcpy(shape.shape, o->steps.at[done].shape, shape.rank * sizeof *shape.shape);
		}
		x = undone_text(pr, given->as, x, &shape);
	} else if (!x) { /* an output that keeps its initial value where no grid point writes */
		x = arena_printf(pr->a, "jnp.full(%s, %s, %s)", shape_text(pr, shape.rank, shape.shape),
		                 initial_text(pr, &pr->m->tensors.at[o->tensor]), dtype_jnp(o->dtype));
	}
	for (uint32_t i = done; i < o->steps.count; i++)
		if (!absorbed(o, i))
			x = stepped(pr, x, &o->steps.at[i]);
	return x;
}

/* More results than this are not unpacked into variables of their own. */
enum { UNPACK_MAX = 4 };

static const char *inputs_text(Printer *pr, const Parameters *params, const HostArray *arrays) {
	Text out;
	text_init(&out, pr->a);
	for (uint32_t i = 0; i < pr->plan->operands.count; i++)
		if (!pr->plan->operands.at[i].output)
			text_printf(&out, out.length ? ", %s" : "%s",
			            operand_array_text(pr, &pr->plan->operands.at[i], params, arrays));
	return out.at ? out.at : "";
}

/* The call's results by name, which the wrapper holds from now on. */
static const char *results_text(Printer *pr, HostArray *arrays) {
	Text out;
	uint32_t count = 0, place = 0;
	text_init(&out, pr->a);
	for (uint32_t i = 0; i < pr->plan->operands.count; i++)
		count += pr->plan->operands.at[i].output;
	const char *all = count > UNPACK_MAX ? printer_name(pr, "outputs") : NULL;
	for (uint32_t i = 0; i < pr->plan->operands.count; i++) {
		const Operand *o = &pr->plan->operands.at[i];
		if (!o->output)
			continue;
		const char *name = all ? arena_printf(pr->a, "%s[%u]", all, place++)
		                       : printer_name(pr, pr->m->tensors.at[o->tensor].name);
		arrays[o->tensor] = (HostArray){.text = name, .as = o};
		text_printf(&out, out.length ? ", %s" : "%s", name);
	}
	return all ? all : count == 0 ? "_" : count == 1 ? arena_printf(pr->a, "(%s,)", out.at) : out.at;
}

/* The variables of the index maps: the kernel's names of its program ids. */
static const char *map_variables(Printer *pr) {
	const Plan *p = pr->plan;
	Text out;
	text_init(&out, pr->a);
	for (uint32_t i = 0; i < p->grid.count; i++)
		text_printf(&out, i ? ", %s" : "%s", pr->program[i]);
	uint32_t last = p->grid.count - 1;
	if (p->back_and_forth)
		pr->program[last] = back_and_forth_text(pr, pr->program[last - 1], pr->program[last]);
	return out.at ? out.at : "";
}

static void print_call(Printer *pr, const Parameters *params, HostArray *arrays) {
	const Plan *p = pr->plan;
	const char *variables = map_variables(pr), *aliases = aliases_text(pr), *scratch = scratch_shapes(pr);
	py_line(&pr->w,
	        "call = pl.pallas_call(%s, name=\"%s\", grid=%s, in_specs=[%s], out_specs=[%s], out_shape=[%s],%s%s "
	        "compiler_params=pltpu.CompilerParams(dimension_semantics=%s, vmem_limit_bytes=%lld,), "
	        "interpret=interpret,)",
	        kernel_name(p), p->module->name, grid_text(pr), specs(pr, false, variables), specs(pr, true, variables),
	        out_shapes(pr), scratch ? arena_printf(pr->a, " scratch_shapes=[%s],", scratch) : "",
	        aliases ? arena_printf(pr->a, " input_output_aliases={%s},", aliases) : "", semantics(pr),
	        (long long)p->vmem_limit);
	const char *inputs = inputs_text(pr, params, arrays); /* before the results take their places */
	const char *results = results_text(pr, arrays);
	py_line(&pr->w, "%s = call(%s)", results, inputs);
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

static void print_results(Printer *pr, const HostArray *arrays) {
	Text out;
	text_init(&out, pr->a);
	for (uint32_t i = 0; i < pr->m->returns.count; i++) {
		const Return *r = &pr->m->returns.at[i];
		const HostArray *x = &arrays[r->tensor];
		const HostValue *values = pr->whole->returns.at[i];
		const char *text = undone_text(pr, x->as, x->text,
		                               r->step_count ? &values[0] : &values[1]); /* one reshape says it all */
		text_printf(&out, out.length ? ", %s" : "%s", r->step_count ? returned_text(pr, i, text) : text);
	}
	bool fits = out.length + 11 <= PY_WIDTH; /* "    return " */
	py_line(&pr->w, fits || pr->m->returns.count == 1 ? "return %s" : "return (%s,)", out.at ? out.at : "()");
}

void print_calls(Printer *pr, const Parameters *params, const Printer *kernels) {
	HostArray *arrays = arena_array(pr->a, (size_t)pr->m->tensors.count + 1, sizeof *arrays);
	for (TensorId t = 0; t < pr->m->tensors.count; t++)
		arrays[t].text = params->tensor[t];
	for (uint32_t k = 0; k < pr->whole->kernels.count; k++) {
		pr->plan = kernels[k].plan;
		pr->program = kernels[k].program;
		pr->program_used = kernels[k].program_used;
		print_call(pr, params, arrays);
	}
	print_results(pr, arrays);
}
