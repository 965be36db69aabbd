/* print_module.c - the Python module around the kernels: KERNEL_INFO, the function that callers use, and helpers. */
#include "print.h"
#include "printer.h"
#include "version.h"

/* The jax versions that emitted modules were tested with: for people, and as Python. */
typedef struct JaxRange {
	const char *text, *test;
} JaxRange;
static const JaxRange old_range = {">=0.8.3,<0.11", "(0, 8, 3) <= jax.__version_info__ < (0, 11)"},
		      new_range = {">=0.10.2,<0.11", "(0, 10, 2) <= jax.__version_info__ < (0, 11)"};

/* What Mosaic lowers since jax 0.10; a comment that says so does no harm. */
static const JaxRange *range_of(const Text *kernels, const Text *helpers) {
	static const char *const needs[] = {"jax.lax.erf(", "unroll="};
	for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
		if ((kernels->at && strstr(kernels->at, needs[i])) || (helpers->at && strstr(helpers->at, needs[i])))
			return &new_range;
	return &old_range;
}

/* Keywords, what the kernel text itself uses, and builtins whose shadowing would confuse a reader; as strcmp() sorts.
 */
/* clang-format off */
static const char *const reserved[] = {
    "AttributeError", "False", "ImportError", "KERNEL_INFO", "None", "True", "TypeError", "abs", "all", "and",
    "any", "as", "assert", "async", "await", "bool", "break", "breakpoint", "bytes", "carry", "case", "class",
    "cls", "compile", "continue", "def", "del", "delattr", "dict", "dir", "elif", "else", "eval", "except", "exec",
    "exit", "filter", "finally", "float", "for", "from", "functools", "getattr", "global", "globals", "hasattr",
    "hash", "i", "id", "if", "import", "in", "input", "int", "interpret", "is", "isinstance", "iter", "jax", "jnp",
    "lambda", "len", "list", "locals", "map", "match", "max", "memoryview", "min", "next", "nonlocal", "not",
    "object", "open", "or", "pass", "pl", "plsc", "pltpu", "pow", "print", "property", "quit", "raise", "range", "return",
    "reversed", "round", "self", "set", "setattr", "slice", "slot", "sorted", "str", "sum", "super", "try", "tuple",
    "type", "vars", "warnings", "while", "with", "yield", "zip",
};
/* clang-format on */

bool name_is_reserved(const char *name) {
	size_t low = 0, high = sizeof reserved / sizeof *reserved;
	while (low < high) {
		size_t middle = (low + high) / 2;
		const char *word = reserved[middle];
		int order = *name != *word ? *name - *word : strcmp(name, word); /* mostly the first letter tells */
		if (order == 0)
			return true;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return false;
}

static bool is_reserved_in_wrapper(const char *name) { return name_is_reserved(name) || strcmp(name, "call") == 0; }

/* [2, 512] */
static void put_dims(Text *out, const KArray *x) {
	text_put(out, "[");
	for (uint32_t i = 0; i < x->rank; i++) {
		if (i)
			text_put(out, ", ");
		text_put_int(out, x->shape[i]);
	}
	text_put(out, "]");
}

/* float32[2, 512] */
static const char *array_text(Printer *pr, const KArray *x) {
	Text out;
	text_init(&out, pr->a);
	text_put(&out, dtype_name(x->dtype));
	put_dims(&out, x);
	return out.at;
}

static const char *quoted(Printer *pr, const char *s) {
	Text out;
	text_init(&out, pr->a);
	py_put_string(&out, s);
	return out.at;
}

/* ---- KERNEL_INFO ------------------------------------------------------------------------------------------------ */

static void put_array_info(Text *out, const KArray *x) {
	text_put(out, "{\"name\": ");
	py_put_string(out, x->name);
	text_put(out, ", \"dtype\": \"");
	text_put(out, dtype_name(x->dtype));
	text_put(out, "\", \"shape\": ");
	put_dims(out, x);
	text_put(out, "},");
}

static void put_scalars_info(Printer *pr, Text *out, const KProgram *p) {
	bool any = false;
	for (uint32_t i = 0; i < p->inputs.count; i++) {
		const KArray *x = &p->inputs.at[i];
		if (!x->scalar)
			continue;
		text_put(out, any ? "" : " \"scalars\": [");
		text_printf(out, "{\"name\": %s, \"dtype\": \"%s\"},", quoted(pr, x->name), dtype_name(x->dtype));
		any = true;
	}
	text_put(out, any ? "]," : "");
}

/* The kernel that runs on a mesh, of which all have one; NULL. */
static const Kernel *meshed(const KProgram *p) {
	for (uint32_t i = 0; i < p->kernels.count; i++)
		if (p->kernels.at[i]->mesh_axis)
			return p->kernels.at[i];
	return NULL;
}

static bool on_sparse_core(const KProgram *p) {
	bool any = false;
	for (uint32_t i = 0; i < p->kernels.count; i++)
		any = any || p->kernels.at[i]->sparse_cores;
	return any;
}

/* Members of a JSON object as those of a dict: strings, numbers and brackets are the same. */
static const char *config_text(Printer *pr, const char *json) {
	static const char *const words[][2] = {{"true", "True"}, {"false", "False"}, {"null", "None"}};
	Text out;
	text_init(&out, pr->a);
	text_put(&out, "");
	for (bool in_string = false; *json;) {
		size_t n = in_string && *json == '\\' ? 2 : 1;
		const char *word = NULL;
		in_string ^= *json == '"';
		for (size_t i = 0; !in_string && is_letter(*json) && !word && i < sizeof words / sizeof *words; i++)
			if (strncmp(json, words[i][0], strlen(words[i][0])) == 0) {
				word = words[i][1];
				n = strlen(words[i][0]);
			}
		text_putn(&out, word ? word : json, word ? strlen(word) : n);
		json += n;
	}
	return out.at;
}

/* `"KEY": {...},` with whole numbers as such; nothing, where there are no parts. */
static void put_parts(Text *out, const char *key, const KParts *parts) {
	for (uint32_t i = 0; i < parts->count; i++) {
		double x = parts->at[i].value;
		text_printf(out, i ? ", " : " \"%s\": {", key);
		py_put_string(out, parts->at[i].name);
		text_put(out, ": ");
		if (x >= 0 && x < 9e18 && (double)(int64_t)x == x)
			text_put_int(out, (int64_t)x);
		else
			text_put_double(out, x);
	}
	text_put(out, parts->count ? "}," : "");
}

/* From its inputs on, all that is one program's. */
static void put_program_info(Printer *pr, Text *out, const KProgram *p) {
	text_put(out, " \"inputs\": [");
	for (uint32_t i = 0; i < p->inputs.count; i++)
		if (!p->inputs.at[i].scalar)
			put_array_info(out, &p->inputs.at[i]);
	text_put(out, "],");
	put_scalars_info(pr, out, p);
	text_put(out, " \"outputs\": [");
	for (uint32_t i = 0; i < p->outputs.count; i++)
		put_array_info(out, &p->outputs.at[i]);
	text_printf(out, "], \"config\": {%s},", config_text(pr, p->config));
	if (p->sizes && *p->sizes)
		text_printf(out, " \"sizes\": {%s},", p->sizes);
	text_printf(out, " \"vmem_bytes\": %lld, \"vmem_most_bytes\": %lld,", (long long)p->vmem_bytes,
	            (long long)vmem_most(p->vmem_bytes));
	put_parts(out, "vmem", &p->vmem);
	text_printf(out, " \"flops\": %.0f, \"hbm_bytes\": %.0f,", p->flops, p->hbm_bytes);
	put_parts(out, "estimate", &p->estimate);
}

static void put_backwards_info(Printer *pr, Text *out, const Pairing *pairing) {
	text_put(out, " \"backward\": [");
	for (uint32_t b = 0; b < pairing->backward_count; b++) {
		text_printf(out, "{\"name\": \"%s\",", pairing->backwards[b]->name);
		put_program_info(pr, out, pairing->backwards[b]);
		text_put(out, "},");
	}
	text_put(out, "],");
}

/* The members of KERNEL_INFO that are of one program. */
static void put_info(Printer *pr, const KProgram *p, const char *name, Text *out) {
	text_printf(out, "\"name\": \"%s\", \"target\": %s,", name, quoted(pr, p->target));
	put_program_info(pr, out, p);
	if (meshed(p))
		text_printf(out, " \"mesh\": {\"axis\": \"%s\", \"devices\": %lld},", meshed(p)->mesh_axis,
		            (long long)meshed(p)->devices);
}

/* `pairing`: pr's program is its forward; `variants`: of which it is the first; NULL. */
static void print_info(Printer *pr, const char *name, const Pairing *pairing, const JaxRange *range,
                       KProgram *const *variants, uint32_t count) {
	Text out;
	text_init(&out, pr->a);
	text_put(&out, "KERNEL_INFO = {");
	put_info(pr, pr->program, name, &out);
	if (pairing)
		put_backwards_info(pr, &out, pairing);
	text_put(&out, count ? " \"variants\": [" : "");
	for (uint32_t i = 0; i < count; i++) {
		text_put(&out, "{");
		put_info(pr, variants[i], variants[i]->name, &out);
		text_put(&out, "},");
	}
	text_put(&out, count ? "]," : "");
	if (pr->program->sharding)
		print_sharding_info(pr->program->sharding, &out);
	text_printf(&out, " \"compiler\": \"pallasc %s\", \"jax\": \"%s\",}", PALLASC_VERSION, range->text);
	py_statement(&pr->w, out.at);
}

/* ---- helpers ---------------------------------------------------------------------------------------------------- */

static void blank_lines(Printer *pr) { text_put(pr->w.out, "\n\n"); }

static void print_check(Printer *pr) {
	blank_lines(pr);
	text_put(pr->w.out,
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

static const char *parameter(Printer *pr, uint32_t i) { return pr->program->host->values.at[i].var; }

static const char *argument_list(Printer *pr) {
	Text out;
	text_init(&out, pr->a);
	for (uint32_t i = 0; i < pr->program->inputs.count; i++)
		text_printf(&out, "%s, ", parameter(pr, i));
	return out.at ? out.at : "";
}

static void open_jitted(Printer *pr, const char *name, const char *first) {
	blank_lines(pr);
	pr->w.indent = 0;
	py_line(&pr->w, "@functools.partial(jax.jit, static_argnames=(\"interpret\",))");
	py_line(&pr->w, "def _%s_%s(%s%sinterpret):", pr->program->name, name, first, argument_list(pr));
	pr->w.indent = 1;
}

/* What a step of a ring does, and what is left to do of what all of them gave. */
static void print_steps(Printer *pr, const KProgram *p) {
	Text left;
	text_init(&left, pr->a);
	uint32_t count = p->step_values.count;
	for (uint32_t i = 0; i < count; i++)
		text_printf(&left, "%s, ", p->host->values.at[p->step_values.at[i]].var);
	open_jitted(pr, "step", "");
	print_host(pr, p->kernels.at, region_first(pr->k, pr->k->body), p->step_end);
	py_line(&pr->w, count == 1 ? "return (%.*s,)" : "return %.*s", (int)left.length - 2, left.at);
	open_jitted(pr, "end", left.at);
	print_host(pr, p->kernels.at, kernel_stmt(pr->k, p->step_end)->next, NONE);
	open_jitted(pr, "jit", "");
	py_line(&pr->w, "left = _%s_step(%sinterpret)", p->name, argument_list(pr));
	py_line(&pr->w, "return _%s_end(*left, %sinterpret)", p->name, argument_list(pr));
}

static void print_jitted(Printer *pr, const KProgram *p) {
	if (p->step_values.count) {
		print_steps(pr, p);
		return;
	}
	open_jitted(pr, "jit", "");
	print_host(pr, p->kernels.at, region_first(pr->k, pr->k->body), NONE);
}

static const char *signature(Printer *pr) {
	const KProgram *p = pr->program;
	Text out;
	text_init(&out, pr->a);
	for (uint32_t i = 0; i < p->outputs.count; i++)
		text_printf(&out, i ? ", %s" : "%s", array_text(pr, &p->outputs.at[i]));
	return out.at ? out.at : "nothing";
}

static void print_axis_check(Printer *pr, const char *axis, int64_t devices) {
	py_line(&pr->w, "if jax.lax.axis_size(\"%s\") != %lld:", axis, (long long)devices);
	pr->w.indent = 2;
	py_line(&pr->w, "raise TypeError(\"the axis %s must have %lld devices\")", axis, (long long)devices);
	pr->w.indent = 1;
}

static void print_mesh_check(Printer *pr) {
	const Kernel *k = meshed(pr->program);
	if (k)
		print_axis_check(pr, k->mesh_axis, k->devices);
	for (uint32_t i = 0; i < pr->program->axes.count; i++)
		print_axis_check(pr, pr->program->axes.at[i].name, pr->program->axes.at[i].devices);
}

static void print_public(Printer *pr, bool paired, const JaxRange *range) {
	const KProgram *p = pr->program;
	blank_lines(pr);
	pr->w.indent = 0;
	py_line(&pr->w, "def %s(%sinterpret=False):", p->name, argument_list(pr));
	pr->w.indent = 1;
	py_line(&pr->w, "\"\"\"Returns %s.", signature(pr));
	py_blank(&pr->w);
	if (meshed(p)) {
		text_printf(pr->w.out,
		            "    Call it in a jax.shard_map over an axis \"%s\" of %lld devices: it takes and gives\n"
		            "    one device's parts.\n\n",
		            meshed(p)->mesh_axis, (long long)meshed(p)->devices);
	}
	if (p->axes.count)
		text_put(pr->w.out, "    Call it in a jax.shard_map over the axes below: it takes and gives one "
		                    "device's parts.\n\n");
	text_printf(pr->w.out, "    interpret: %s.\n    \"\"\"\n",
	            on_sparse_core(p) ? "False, as jax simulates no SparseCores"
	                              : "run on a CPU: True, or pltpu.InterpretParams");
	for (uint32_t i = 0; i < p->inputs.count; i++) {
		const KArray *x = &p->inputs.at[i];
		if (!x->scalar)
			py_line(&pr->w, "_check(\"%s\", %s, \"%s\")", parameter(pr, i), parameter(pr, i),
			        array_text(pr, x));
	}
	print_mesh_check(pr);
	if (on_sparse_core(p)) {
		py_line(&pr->w, "if interpret:");
		pr->w.indent = 2;
		py_line(&pr->w, "raise NotImplementedError(\"jax simulates no SparseCores\")");
		pr->w.indent = 1;
	}
	py_line(&pr->w, "if not %s:", range->test);
	pr->w.indent = 2;
	py_line(&pr->w, "warnings.warn(\"%s: tested with jax %s\", stacklevel=2)", p->name, range->text);
	pr->w.indent = 1;
	py_line(&pr->w, "return _%s_%s(%s%s)", p->name, paired ? "vjp" : "jit", argument_list(pr),
	        on_sparse_core(p) ? "interpret" : "_simulator(interpret)");
}

void kernels_name(KProgram *p) {
	for (uint32_t i = 0; i < p->kernels.count; i++)
		kernel_name_values(p->kernels.at[i], name_is_reserved, p->name);
	kernel_name_values(p->host, is_reserved_in_wrapper, p->name);
}

/* The kernel functions, each after two blank lines. `helpers` is then what they need. */
static void print_kernels(const KProgram *p, Text *out, Printer *last, PyLinks *links) {
	for (uint32_t i = 0; i < p->kernels.count; i++) {
		Printer pr = {.program = p,
		              .k = p->kernels.at[i],
		              .a = p->arena,
		              .w = {.arena = p->arena, .out = out, .links = links}};
		memcpy(pr.helpers, last->helpers, sizeof pr.helpers);
		blank_lines(&pr);
		print_kernel(&pr);
		memcpy(last->helpers, pr.helpers, sizeof pr.helpers);
	}
}

/* What the caller sees of a pair's forward: without the outputs that are only residuals. */
static const KProgram *seen(const Pairing *pairing) {
	KProgram *p = arena_copy(pairing->forward->arena, pairing->forward, 1, sizeof *p);
	p->outputs.at = NULL;
	p->outputs.count = p->outputs.room = 0;
	for (uint32_t i = 0; i < pairing->forward->outputs.count; i++)
		if (pairing->returned[i])
			vec_push(p->arena, &p->outputs, pairing->forward->outputs.at[i]);
	return p;
}

/* The kernels of all programs, and behind them, as `wrapper`, the functions that call them. */
static void print_programs(const KProgram *p, const Pairing *pairing, Text *kernels, Text *wrapper, Printer *pr,
                           PyLinks *links) {
	for (uint32_t b = 0; b <= (pairing ? pairing->backward_count : 0); b++) {
		const KProgram *program = b ? pairing->backwards[b - 1] : p;
		print_kernels(program, kernels, pr, links);
	}
	pr->w.out = wrapper;
	for (uint32_t b = 0; b <= (pairing ? pairing->backward_count : 0); b++) {
		pr->program = b ? pairing->backwards[b - 1] : p;
		pr->k = pr->program->host;
		print_jitted(pr, pr->program);
	}
	if (pairing)
		print_rules(pr, pairing);
	pr->program = p;
	pr->k = p->host;
}

/* What the kernels of all programs of a pair are called by. */
static void print_calls_of(Printer *pr, const KProgram *p, const Pairing *pairing) {
	Calls calls = {0};
	note_calls(p, &calls);
	for (uint32_t b = 0; pairing && b < pairing->backward_count; b++)
		note_calls(pairing->backwards[b], &calls);
	print_calls(pr, &calls);
}

static void print_imports(const KProgram *p, const char *name, const char *more, bool sparse, Text *out) {
	text_printf(out, "\"\"\"%s: a Pallas TPU kernel for %s%s, made by pallasc %s.\"\"\"\n\n", name, p->target, more,
	            PALLASC_VERSION);
	text_put(out, "import functools\nimport warnings\n\nimport jax\nimport jax.numpy as jnp\n"
	              "from jax.experimental import pallas as pl\nfrom jax.experimental.pallas import tpu as pltpu\n");
	text_put(out, sparse ? "from jax.experimental.pallas import tpu_sc as plsc\n\n" : "\n");
}

/* `pairing`: p is its forward; NULL: p alone. `links`: of the kernels' statements, in bytes of `out`; NULL. */
static void print_module(const KProgram *p, const Pairing *pairing, Text *out, PyLinks *links) {
	Text kernels, wrapper, sharded, helpers;
	text_init(&kernels, p->arena);
	text_init(&sharded, p->arena);
	text_init(&wrapper, p->arena);
	const KProgram *outside = pairing ? seen(pairing) : p;
	Printer pr = {.program = outside, .k = p->host, .a = p->arena, .w = {.arena = p->arena, .out = out}};
	print_imports(p, p->name, pairing ? " and its gradient" : "", on_sparse_core(p), out);
	print_programs(p, pairing, &kernels, &wrapper, &pr, links);
	pr.program = outside;
	text_put(&sharded, "");
	pr.w.out = &sharded;
	if (p->sharding)
		print_sharded(&pr, p->sharding);
	text_init(&helpers, p->arena);
	text_put(&helpers, "");
	pr.w.out = &helpers;
	pr.w.indent = 0;
	print_used_helpers(&pr);
	const JaxRange *range = range_of(&kernels, &helpers);
	pr.w.out = out;
	print_info(&pr, p->name, pairing, range, NULL, 0);
	text_put(out, helpers.at);
	for (uint32_t i = 0; links && i < links->count; i++) {
		links->at[i].from += out->length;
		links->at[i].to += out->length;
	}
	text_put(out, kernels.at);
	text_put(out, wrapper.at);
	print_public(&pr, pairing != NULL, range);
	text_put(out, sharded.at);
	print_check(&pr);
	if (!on_sparse_core(p))
		print_simulator(&pr, meshed(p) ? meshed(p)->mesh_axis : NULL);
	if (pairing)
		print_allow_checkpoint(&pr);
	print_calls_of(&pr, p, pairing);
}

void kernels_print_python(const KProgram *p, Text *out) { print_module(p, NULL, out, NULL); }

void kernels_print_pair(const Pairing *pairing, Text *out) { print_module(pairing->forward, pairing, out, NULL); }

/* ---- several programs -------------------------------------------------------------------------------------------- */

static void print_dispatch(Printer *pr) {
	blank_lines(pr);
	text_put(pr->w.out,
	         "def _dispatch(kernels, arguments, interpret):\n"
	         "    \"\"\"Calls the kernel for the shapes that the arguments have.\"\"\"\n"
	         "    shapes = [list(jnp.shape(x)) for x in arguments]\n"
	         "    variants = KERNEL_INFO[\"variants\"]\n"
	         "    for kernel, variant in zip(kernels, variants):\n"
	         "        inputs = [entry[\"shape\"] for entry in variant[\"inputs\"]]\n"
	         "        if shapes[: len(inputs)] == inputs:\n"
	         "            return kernel(*arguments, interpret=interpret)\n"
	         "    name = KERNEL_INFO[\"name\"]\n"
	         "    known = [str(variant[\"sizes\"]) for variant in variants]\n"
	         "    raise ValueError(\n"
	         "        f\"{name} has no kernel for the shapes {shapes}; its sizes are {', '.join(known)}\"\n"
	         "    )\n");
}

/* The function that chooses. */
static void print_chooser(Printer *pr, KProgram *const *programs, uint32_t count, const char *name) {
	Text call;
	text_init(&call, pr->a);
	text_put(&call, "return _dispatch((");
	for (uint32_t i = 0; i < count; i++)
		text_printf(&call, i ? ", %s" : "%s", programs[i]->name);
	text_put(&call, count == 1 ? ",), (" : "), (");
	uint32_t inputs = pr->program->inputs.count;
	for (uint32_t i = 0; i < inputs; i++)
		text_printf(&call, i ? ", %s" : "%s", parameter(pr, i));
	text_put(&call, inputs == 1 ? ",), interpret)" : "), interpret)");
	blank_lines(pr);
	pr->w.indent = 0;
	py_line(&pr->w, "def %s(%sinterpret=False):", name, argument_list(pr));
	pr->w.indent = 1;
	text_put(pr->w.out, "    \"\"\"Calls the kernel for the sizes of its arguments: KERNEL_INFO has them.\n\n"
	                    "    interpret: run on a CPU: True, or pltpu.InterpretParams.\n    \"\"\"\n");
	py_statement(&pr->w, call.at);
}

/* One of several programs: its kernels and its function. Gives the versions of jax that it is for. */
static const JaxRange *print_variant(KProgram *p, Printer *pr, Text *out) {
	Text kernels, helpers;
	text_init(&kernels, p->arena);
	text_init(&helpers, p->arena);
	Printer one = {.program = p, .k = p->host, .a = p->arena, .w = {.arena = p->arena, .out = &helpers}};
	print_kernels(p, &kernels, pr, NULL);
	memcpy(one.helpers, pr->helpers, sizeof one.helpers);
	print_used_helpers(&one);
	const JaxRange *range = range_of(&kernels, &helpers);
	text_put(out, kernels.at);
	one.w.out = out;
	print_jitted(&one, p);
	memcpy(pr->helpers, one.helpers, sizeof pr->helpers);
	print_public(&one, false, range);
	return range;
}

void kernels_print_variants(KProgram *const *programs, uint32_t count, const char *name, Text *out) {
	const KProgram *first = programs[0];
	const JaxRange *range = &old_range;
	Calls calls = {0};
	Text body;
	text_init(&body, first->arena);
	Printer pr = {.program = first, .k = first->host, .a = first->arena};
	for (uint32_t i = 0; i < count; i++) {
		if (print_variant(programs[i], &pr, &body) == &new_range)
			range = &new_range;
		note_calls(programs[i], &calls);
	}
	pr.w = (PyWriter){.arena = first->arena, .out = out};
	print_imports(first, name, "", calls.sparse, out);
	print_info(&pr, name, NULL, range, programs, count);
	print_used_helpers(&pr);
	text_put(out, body.at);
	print_chooser(&pr, programs, count, name);
	print_dispatch(&pr);
	print_check(&pr);
	if (calls.grids)
		print_simulator(&pr, meshed(first) ? meshed(first)->mesh_axis : NULL);
	print_calls(&pr, &calls);
}

void kernels_print_linked(const KProgram *p, Text *out, PrintedLines *lines) {
	PyLinks links = {0};
	size_t at = out->length;
	uint32_t line = 1;
	print_module(p, NULL, out, &links);
	for (uint32_t i = 0; i < links.count; i++) {
		PyLink link = links.at[i];
		for (; at < link.from; at++)
			line += out->at[at] == '\n';
		uint32_t within = line;
		for (size_t byte = link.from; byte < link.to; byte++)
			if (out->at[byte] == '\n') {
				PrintedLine printed = {within++, link.about};
				vec_push(p->arena, lines, printed);
			}
	}
}
