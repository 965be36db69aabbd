/* print_module.c - the Python module around the kernel: KERNEL_INFO, the function that callers use, and helpers. */
#include "printer.h"
#include "version.h"
#include <stdio.h>

/* The jax versions that emitted modules were tested with: for people, and as Python. */
#define JAX_RANGE ">=0.10.2,<0.11"
#define JAX_TEST "(0, 10, 2) <= jax.__version_info__ < (0, 11)"

static const char *tensor_shape(Printer *pr, const Tensor *t) {
	Text out;
	text_init(&out, pr->a);
	text_put(&out, "[");
	for (uint32_t i = 0; i < t->rank; i++)
		text_printf(&out, i ? ", %lld" : "%lld", (long long)expr_number(pr->m, t->shape[i]));
	text_put(&out, "]");
	return out.at;
}

static const char *quoted(Printer *pr, const char *s) {
	Text out;
	text_init(&out, pr->a);
	py_put_string(&out, s);
	return out.at;
}

/* Parameters of the function: the inputs in order, then run-time scalars, as identifiers. */
typedef struct Parameters {
	const char **tensor; /* by TensorId: NULL if it is none */
	const char **scalar; /* by ScalarId */
} Parameters;

static bool is_parameter(const Tensor *t) { return t->role == ROLE_INPUT || t->role == ROLE_INOUT; }

/* ---- KERNEL_INFO ------------------------------------------------------------------------------------------------ */

static void put_array_info(Printer *pr, Text *out, const char *name, Dtype dtype, const char *shape) {
	text_printf(out, "{\"name\": %s, \"dtype\": \"%s\", \"shape\": %s},", quoted(pr, name), dtype_name(dtype),
	            shape);
}

static const char *inputs_info(Printer *pr) {
	Text out;
	text_init(&out, pr->a);
	for (TensorId t = 0; t < pr->m->tensors.count; t++)
		if (is_parameter(&pr->m->tensors.at[t]))
			put_array_info(pr, &out, pr->m->tensors.at[t].name, pr->m->tensors.at[t].dtype,
			               tensor_shape(pr, &pr->m->tensors.at[t]));
	return out.at ? out.at : "";
}

/* What is returned in the end. */
static const HostValue *returned(Printer *pr, uint32_t r) {
	return &pr->plan->returns.at[r][pr->m->returns.at[r].step_count + 1];
}

static const char *return_shape(Printer *pr, uint32_t r) {
	const HostValue *v = returned(pr, r);
	Text out;
	text_init(&out, pr->a);
	text_put(&out, "[");
	for (uint32_t i = 0; i < v->rank; i++)
		text_printf(&out, i ? ", %lld" : "%lld", (long long)v->shape[i]);
	text_put(&out, "]");
	return out.at;
}

static const char *outputs_info(Printer *pr) {
	Text out;
	text_init(&out, pr->a);
	for (uint32_t i = 0; i < pr->m->returns.count; i++) {
		const Tensor *t = &pr->m->tensors.at[pr->m->returns.at[i].tensor];
		put_array_info(pr, &out, t->name, returned(pr, i)->dtype, return_shape(pr, i));
	}
	return out.at ? out.at : "";
}

static const char *scalars_info(Printer *pr) {
	Text out;
	text_init(&out, pr->a);
	for (ScalarId s = 0; s < pr->m->scalars.count; s++)
		if (!pr->m->scalars.at[s].has_value)
			text_printf(&out, "{\"name\": %s, \"dtype\": \"%s\"},", quoted(pr, pr->m->scalars.at[s].name),
			            dtype_name(pr->m->scalars.at[s].dtype));
	return out.at;
}

static void put_separator(Text *out) { text_put(out, out->length ? ", " : ""); }

static void put_reduction_loops(Text *out, const ConfigList *list) {
	text_put(out, ", \"reduction_loops\": [");
	for (uint32_t i = 0; i < list->values.count; i++)
		if (list->values.at[i])
			text_printf(out, "%s%lld", i ? ", " : "", (long long)list->values.at[i]);
		else
			text_put(out, i ? ", None" : "None");
	text_put(out, "]");
}

/* The configuration in force, as far as it can be given back. */
static const char *config_info(Printer *pr) {
	Text out, sizes;
	text_init(&out, pr->a);
	text_init(&sizes, pr->a);
	for (BlockId b = 0; b < pr->m->blocks.count; b++) {
		if (!block_is_chosen(&pr->m->blocks.at[b]))
			continue;
		put_separator(&sizes);
		text_printf(&sizes, "%lld", (long long)pr->m->narrowed.at[b].asked);
	}
	text_printf(&out, "\"block_sizes\": [%s]", sizes.at ? sizes.at : "");
	if (pr->m->config.reduction_loops.set)
		put_reduction_loops(&out, &pr->m->config.reduction_loops);
	if (pr->plan->loops.count)
		text_printf(&out, ", \"pallas_loop_type\": \"%s\"", loop_type_name(pr->plan->loops.at[0].type));
	if (pr->m->config.pre_broadcast.set && (Choice)pr->m->config.pre_broadcast.value != CHOICE_AUTO)
		text_printf(&out, ", \"pallas_pre_broadcast\": %s",
		            (Choice)pr->m->config.pre_broadcast.value == CHOICE_ON ? "True" : "False");
	for (TunableId t = 0; t < pr->m->tunables.count; t++)
		text_printf(&out, ", %s: %lld", quoted(pr, pr->m->tunables.at[t].name),
		            (long long)pr->m->config.tunables.at[t]);
	return out.at;
}

static void print_info(Printer *pr) {
	const Plan *p = pr->plan;
	Text out;
	text_init(&out, pr->a);
	text_printf(&out, "KERNEL_INFO = {\"name\": \"%s\", \"target\": %s,", pr->m->name,
	            quoted(pr, pr->m->target->name));
	text_printf(&out, " \"inputs\": [%s],", inputs_info(pr));
	if (scalars_info(pr))
		text_printf(&out, " \"scalars\": [%s],", scalars_info(pr));
	text_printf(&out, " \"outputs\": [%s],", outputs_info(pr));
	text_printf(&out, " \"config\": {%s},", config_info(pr));
	text_printf(&out, " \"vmem_bytes\": %lld, \"flops\": %.0f, \"hbm_bytes\": %.0f,", (long long)p->vmem.total,
	            p->flops, p->hbm_bytes);
	text_printf(&out, " \"compiler\": \"pallasc %s\", \"jax\": \"%s\",}", PALLASC_VERSION, JAX_RANGE);
	py_statement(&pr->w, out.at);
}

/* ---- helpers ---------------------------------------------------------------------------------------------------- */

static void blank_lines(Printer *pr) { text_put(pr->w.out, "\n\n"); }

static void print_helpers(Printer *pr) {
	print_used_helpers(pr);
	if (pr->mask) {
		blank_lines(pr);
		text_put(pr->w.out, "def _mask(x, axis, count, fill):\n"
		                    "    \"\"\"x where its index along axis is below count, else fill.\"\"\"\n"
		                    "    index = jax.lax.broadcasted_iota(jnp.int32, x.shape, axis)\n"
		                    "    return jnp.where(index < count, x, fill)\n");
	}
	if (pr->part) {
		blank_lines(pr);
		text_put(pr->w.out, "def _part(index, count, take):\n"
		                    "    \"\"\"take(index) with a static index, one of count.\"\"\"\n"
		                    "    branches = [functools.partial(take, part) for part in range(count)]\n"
		                    "    return jax.lax.switch(index, branches)\n");
	}
	if (pr->to_row) {
		blank_lines(pr);
		text_put(pr->w.out, "def _to_row(x):\n"
		                    "    \"\"\"A column [..., m, 1] as a row [..., 1, m].\"\"\"\n"
		                    "    lanes = jnp.broadcast_to(x, (*x.shape[:-1], 128))\n"
		                    "    return jnp.swapaxes(lanes, -1, -2)[..., :1, :]\n");
	}
	if (pr->to_column) {
		blank_lines(pr);
		text_put(pr->w.out, "def _to_column(x):\n"
		                    "    \"\"\"A row [..., 1, m] as a column [..., m, 1].\"\"\"\n"
		                    "    rows = jnp.broadcast_to(x, (*x.shape[:-2], 128, x.shape[-1]))\n"
		                    "    return jnp.swapaxes(rows, -1, -2)[..., :1]\n");
	}
}

static void print_simulator(Printer *pr) {
	blank_lines(pr);
	text_printf(pr->w.out,
	            "def _simulator(interpret):\n"
	            "    \"\"\"What pallas_call takes: True simulates a TPU, InterpretParams pass through.\"\"\"\n"
	            "    if not interpret:\n"
	            "        return False\n"
	            "    try:\n"
	            "        from jax._src.pallas.mosaic import tpu_info\n"
	            "\n"
	            "        chip = pltpu.get_tpu_info_for_chip(pltpu.ChipVersion.TPU_V6E, 1)\n"
	            "        tpu_info.registry.setdefault(tpu_info.get_device_kind(), lambda: chip)\n"
	            "    except (ImportError, AttributeError):\n"
	            "        return pltpu.InterpretParams()\n"
	            "    if interpret is True:\n"
	            "        return pltpu.InterpretParams(buffer_bounds=\"padded\")\n"
	            "    return interpret\n");
}

static void print_check(Printer *pr) {
	blank_lines(pr);
	text_printf(pr->w.out,
	            "def _check(name, x, expected):\n"
	            "    \"\"\"Raises TypeError unless x is an array of exactly the expected dtype and shape.\"\"\"\n"
	            "    try:\n"
	            "        found = f\"{x.dtype}{list(x.shape)}\"\n"
	            "    except AttributeError:\n"
	            "        found = \"no array\"\n"
	            "    if found != expected:\n"
	            "        raise TypeError(f\"{name} must be {expected}, not {found}\")\n");
}

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

static const char *tensor_tuple(Printer *pr, const Tensor *t) {
	int64_t shape[RANK_MAX];
	for (uint32_t i = 0; i < t->rank; i++)
		shape[i] = expr_number(pr->m, t->shape[i]);
	return shape_text(pr, t->rank, shape);
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

static const char *operand_array_text(Printer *pr, const Operand *o, const Parameters *params) {
	if (o->space == SPACE_SMEM)
		return arena_printf(pr->a, "jnp.asarray(%s, %s).reshape(1)", params->scalar[o->scalar],
		                    dtype_jnp(o->dtype));
	const char *x = params->tensor[o->tensor];
	if (!x) /* an output that keeps its initial value where no grid point writes */
		x = arena_printf(pr->a, "jnp.full(%s, %s, %s)", tensor_tuple(pr, &pr->m->tensors.at[o->tensor]),
		                 initial_text(pr, &pr->m->tensors.at[o->tensor]),
		                 dtype_jnp(pr->m->tensors.at[o->tensor].dtype));
	for (uint32_t i = 0; i < o->steps.count; i++)
		if (!absorbed(o, i))
			x = stepped(pr, x, &o->steps.at[i]);
	return x;
}

/* The array steps of an output undone: a permutation inverted, then reshaped to its tensor; what comes after. */
static const char *result_text(Printer *pr, const Operand *o, const char *x, uint32_t r) {
	const Return *ret = &pr->m->returns.at[r];
	const HostValue *tensor = &pr->plan->returns.at[r][0];
	for (uint32_t i = o->steps.count; i-- > 0;) {
		const ArrayStep *s = &o->steps.at[i];
		if (s->kind != ARRAY_TRANSPOSE)
			continue;
		int64_t inverse[DIM_MAX];
		for (uint32_t d = 0; d < s->rank; d++)
			inverse[s->shape[d]] = d;
		x = arena_printf(pr->a, "jnp.transpose(%s, %s)", x, shape_text(pr, s->rank, inverse));
	}
	if (ret->step_count == 0) /* one reshape says it all */
		tensor = returned(pr, r);
	bool same = tensor->rank == o->rank && o->steps.count == 0;
	for (uint32_t i = 0; i < tensor->rank; i++)
		same = same && tensor->shape[i] == o->shape[i];
	if (!same)
		x = arena_printf(pr->a, "%s.reshape(%s)", x, shape_text(pr, tensor->rank, tensor->shape));
	return ret->step_count == 0 ? x : returned_text(pr, r, x);
}

/* ---- the two functions ------------------------------------------------------------------------------------------ */

static const char *argument_list(Printer *pr, const Parameters *params) {
	Text out;
	text_init(&out, pr->a);
	for (TensorId t = 0; t < pr->m->tensors.count; t++)
		if (params->tensor[t])
			text_printf(&out, "%s, ", params->tensor[t]);
	for (ScalarId s = 0; s < pr->m->scalars.count; s++)
		if (params->scalar[s])
			text_printf(&out, "%s, ", params->scalar[s]);
	return out.at ? out.at : "";
}

static Parameters name_parameters(Printer *pr) {
	Parameters p;
	p.tensor = arena_array(pr->a, pr->m->tensors.count + 1, sizeof *p.tensor);
	p.scalar = arena_array(pr->a, pr->m->scalars.count + 1, sizeof *p.scalar);
	for (TensorId t = 0; t < pr->m->tensors.count; t++)
		if (is_parameter(&pr->m->tensors.at[t]))
			p.tensor[t] = printer_name(pr, pr->m->tensors.at[t].name);
	for (ScalarId s = 0; s < pr->m->scalars.count; s++)
		if (!pr->m->scalars.at[s].has_value)
			p.scalar[s] = printer_name(pr, pr->m->scalars.at[s].name);
	return p;
}

/* What the jitted function returns, from the call's results. */
static void print_returns(Printer *pr, const char *const *results) {
	Text out;
	text_init(&out, pr->a);
	for (uint32_t i = 0; i < pr->m->returns.count; i++) {
		const Return *r = &pr->m->returns.at[i];
		for (uint32_t o = 0; o < pr->plan->operands.count; o++)
			if (pr->plan->operands.at[o].output && pr->plan->operands.at[o].tensor == r->tensor)
				text_printf(&out, out.length ? ", %s" : "%s",
				            result_text(pr, &pr->plan->operands.at[o], results[o], i));
	}
	bool fits = out.length + 11 <= PY_WIDTH; /* "    return " */
	py_line(&pr->w, fits || pr->m->returns.count == 1 ? "return %s" : "return (%s,)", out.at ? out.at : "()");
}

/* More results than this are not unpacked into variables of their own. */
enum { UNPACK_MAX = 4 };

static void print_jitted(Printer *pr, const Parameters *params, const char *kernel) {
	const Plan *p = pr->plan;
	Text arrays, results, variables;
	text_init(&arrays, pr->a);
	text_init(&results, pr->a);
	text_init(&variables, pr->a);
	const char **names = arena_array(pr->a, p->operands.count + 1, sizeof *names);
	for (uint32_t i = 0; i < p->grid.count; i++)
		text_printf(&variables, i ? ", %s" : "%s", pr->program[i]);
	uint32_t last = p->grid.count - 1;
	if (p->back_and_forth)
		pr->program[last] = back_and_forth_text(pr, pr->program[last - 1], pr->program[last]);
	blank_lines(pr);
	pr->w.indent = 0;
	py_line(&pr->w, "@functools.partial(jax.jit, static_argnames=(\"interpret\",))");
	py_line(&pr->w, "def _%s_jit(%sinterpret):", pr->m->name, argument_list(pr, params));
	pr->w.indent = 1;
	uint32_t count = 0, outputs = 0;
	for (uint32_t i = 0; i < p->operands.count; i++)
		outputs += p->operands.at[i].output;
	bool one = outputs == 1, many = outputs > UNPACK_MAX;
	if (many)
		printer_reserve(pr, "outputs");
	for (uint32_t i = 0; i < p->operands.count; i++) {
		const Operand *o = &p->operands.at[i];
		if (o->output) {
			names[i] = many ? arena_printf(pr->a, "outputs[%u]", count)
			                : printer_name(pr, pr->m->tensors.at[o->tensor].name);
			count++;
			text_printf(&results, results.length ? ", %s" : "%s", names[i]);
		} else {
			text_printf(&arrays, arrays.length ? ", %s" : "%s", operand_array_text(pr, o, params));
		}
	}
	const char *aliases = aliases_text(pr), *scratch = scratch_shapes(pr), *vars = variables.at ? variables.at : "";
	py_line(&pr->w,
	        "call = pl.pallas_call(%s, name=\"%s\", grid=%s, in_specs=[%s], out_specs=[%s], out_shape=[%s],%s%s "
	        "compiler_params=pltpu.CompilerParams(dimension_semantics=%s, vmem_limit_bytes=%lld,), "
	        "interpret=interpret,)",
	        kernel, pr->m->name, grid_text(pr), specs(pr, false, vars), specs(pr, true, vars), out_shapes(pr),
	        scratch ? arena_printf(pr->a, " scratch_shapes=[%s],", scratch) : "",
	        aliases ? arena_printf(pr->a, " input_output_aliases={%s},", aliases) : "", semantics(pr),
	        (long long)p->vmem_limit);
	py_line(&pr->w, one ? "(%s,) = call(%s)" : "%s = call(%s)",
	        many         ? "outputs"
	        : results.at ? results.at
	                     : "_",
	        arrays.at ? arrays.at : "");
	print_returns(pr, names);
}

static const char *signature(Printer *pr) {
	Text out;
	text_init(&out, pr->a);
	for (uint32_t i = 0; i < pr->m->returns.count; i++) {
		text_printf(&out, i ? ", %s%s" : "%s%s", dtype_name(returned(pr, i)->dtype), return_shape(pr, i));
	}
	return out.at ? out.at : "nothing";
}

static void print_public(Printer *pr, const Parameters *params) {
	blank_lines(pr);
	pr->w.indent = 0;
	py_line(&pr->w, "def %s(%sinterpret=False):", pr->m->name, argument_list(pr, params));
	pr->w.indent = 1;
	py_line(&pr->w, "\"\"\"Returns %s.", signature(pr));
	py_blank(&pr->w);
	text_put(pr->w.out, "    interpret: run on a CPU: True, or pltpu.InterpretParams.\n    \"\"\"\n");
	for (TensorId t = 0; t < pr->m->tensors.count; t++) {
		const Tensor *x = &pr->m->tensors.at[t];
		if (params->tensor[t])
			py_line(&pr->w, "_check(\"%s\", %s, \"%s%s\")", params->tensor[t], params->tensor[t],
			        dtype_name(x->dtype), tensor_shape(pr, x));
	}
	py_line(&pr->w, "if not %s:", JAX_TEST);
	pr->w.indent = 2;
	py_line(&pr->w, "warnings.warn(\"%s: tested with jax %s\", stacklevel=2)", pr->m->name, JAX_RANGE);
	pr->w.indent = 1;
	py_line(&pr->w, "return _%s_jit(%s_simulator(interpret))", pr->m->name, argument_list(pr, params));
}

void plan_print(const Plan *p, Text *out) {
	Printer pr = {.plan = p, .m = (Module *)(uintptr_t)p->module, .a = p->arena};
	pr.w = (PyWriter){.arena = p->arena, .out = out};
	Text kernel;
	text_init(&kernel, p->arena);
	const char *kernel_name = arena_printf(p->arena, "_%s_kernel", p->module->name);
	printer_reserve(&pr, printer_name(&pr, p->module->name));
	pr.w.out = &kernel;
	print_kernel(&pr, kernel_name);
	pr.w.out = out;
	text_printf(out, "\"\"\"%s: a Pallas TPU kernel for %s, made by pallasc %s.\"\"\"\n\n", p->module->name,
	            p->module->target->name, PALLASC_VERSION);
	text_put(out,
	         "import functools\nimport warnings\n\nimport jax\nimport jax.numpy as jnp\n"
	         "from jax.experimental import pallas as pl\nfrom jax.experimental.pallas import tpu as pltpu\n\n");
	print_info(&pr);
	print_helpers(&pr);
	blank_lines(&pr);
	text_put(out, kernel.at);
	Printer wrapper = {.plan = p, .m = pr.m, .a = p->arena, .w = pr.w, .program = pr.program};
	wrapper.program_used = pr.program_used;
	printer_reserve(&wrapper, printer_name(&wrapper, p->module->name));
	printer_reserve(&wrapper, "call");
	Parameters params = name_parameters(&wrapper);
	print_jitted(&wrapper, &params, kernel_name);
	print_public(&wrapper, &params);
	print_check(&wrapper);
	print_simulator(&wrapper);
}
