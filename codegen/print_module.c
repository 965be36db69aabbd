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
	return &pr->whole->returns.at[r][pr->m->returns.at[r].step_count + 1];
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
	for (uint32_t k = 0, said = 0; k < pr->whole->kernels.count && !said; k++) {
		const Plan *p = pr->whole->kernels.at[k];
		said = p->loops.count;
		if (said)
			text_printf(&out, ", \"pallas_loop_type\": \"%s\"", loop_type_name(p->loops.at[0].type));
	}
	if (pr->m->config.pre_broadcast.set && (Choice)pr->m->config.pre_broadcast.value != CHOICE_AUTO)
		text_printf(&out, ", \"pallas_pre_broadcast\": %s",
		            (Choice)pr->m->config.pre_broadcast.value == CHOICE_ON ? "True" : "False");
	for (TunableId t = 0; t < pr->m->tunables.count; t++)
		text_printf(&out, ", %s: %lld", quoted(pr, pr->m->tunables.at[t].name),
		            (long long)pr->m->config.tunables.at[t]);
	return out.at;
}

static void print_info(Printer *pr) {
	const Program *g = pr->whole;
	Text out;
	text_init(&out, pr->a);
	text_printf(&out, "KERNEL_INFO = {\"name\": \"%s\", \"target\": %s,", pr->m->name,
	            quoted(pr, pr->m->target->name));
	text_printf(&out, " \"inputs\": [%s],", inputs_info(pr));
	if (scalars_info(pr))
		text_printf(&out, " \"scalars\": [%s],", scalars_info(pr));
	text_printf(&out, " \"outputs\": [%s],", outputs_info(pr));
	text_printf(&out, " \"config\": {%s},", config_info(pr));
	text_printf(&out, " \"vmem_bytes\": %lld, \"flops\": %.0f, \"hbm_bytes\": %.0f,", (long long)g->vmem_bytes,
	            g->flops, g->hbm_bytes);
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

static void print_jitted(Printer *pr, const Parameters *params, const Printer *kernels) {
	blank_lines(pr);
	pr->w.indent = 0;
	py_line(&pr->w, "@functools.partial(jax.jit, static_argnames=(\"interpret\",))");
	py_line(&pr->w, "def _%s_jit(%sinterpret):", pr->m->name, argument_list(pr, params));
	pr->w.indent = 1;
	print_calls(pr, params, kernels);
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

static Printer printer_of(const Program *g, Text *out) {
	Printer pr = {.whole = g, .m = (Module *)(uintptr_t)g->module, .a = g->arena};
	pr.w = (PyWriter){.arena = g->arena, .out = out};
	return pr;
}

/* The kernel functions, each after two blank lines; a Printer for each, which knows the names that it chose. The last
 * one knows which helpers they need. */
static Printer *print_kernels(const Program *g, Text *out) {
	Printer *printers = arena_array(g->arena, g->kernels.count, sizeof *printers);
	for (uint32_t k = 0; k < g->kernels.count; k++) {
		Printer *pr = &printers[k];
		*pr = printer_of(g, out);
		pr->plan = g->kernels.at[k];
		pr->m = (Module *)(uintptr_t)pr->plan->module;
		if (k > 0)
			printer_take_helpers(pr, &printers[k - 1]);
		printer_reserve(pr, printer_name(pr, g->module->name));
		blank_lines(pr);
		print_kernel(pr, kernel_name(pr->plan));
	}
	return printers;
}

void program_print(const Program *g, Text *out) {
	Text kernels;
	text_init(&kernels, g->arena);
	const Printer *printers = print_kernels(g, &kernels);
	Printer pr = printer_of(g, out);
	printer_take_helpers(&pr, &printers[g->kernels.count - 1]);
	text_printf(out, "\"\"\"%s: a Pallas TPU kernel for %s, made by pallasc %s.\"\"\"\n\n", g->module->name,
	            g->module->target->name, PALLASC_VERSION);
	text_put(out,
	         "import functools\nimport warnings\n\nimport jax\nimport jax.numpy as jnp\n"
	         "from jax.experimental import pallas as pl\nfrom jax.experimental.pallas import tpu as pltpu\n\n");
	print_info(&pr);
	print_helpers(&pr);
	text_put(out, kernels.at);
	printer_reserve(&pr, printer_name(&pr, g->module->name));
	printer_reserve(&pr, "call");
	Parameters params = name_parameters(&pr);
	print_jitted(&pr, &params, printers);
	print_public(&pr, &params);
	print_check(&pr);
	print_simulator(&pr);
}
