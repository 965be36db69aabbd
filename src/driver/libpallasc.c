/* libpallasc.c - the public C API on the pipeline of driver.h. A context keeps one arena for the work of a compilation
 * and uses it again for the next, so that a further configuration costs no page faults. Running out of memory jumps
 * back to the function that was called. */
#define _POSIX_C_SOURCE 200809L
#include "driver.h"
#include "version.h"
#include "codegen/page/page.h"
#include "codegen/rewrite/rewrite.h"
#include "pallasc/pallasc.h"
#include "src/emit/emit.h"
#include "src/json/json.h"
#include "src/load/load.h"
#include "src/verify/verify.h"

#include <stdlib.h>

struct pallasc_context {
	jmp_buf oom;
	Arena work;
	unsigned graphs; /* alive: they point here */
};

struct pallasc_graph {
	pallasc_context *context;
	jmp_buf oom;
	Arena arena;
	Diag diag;
	Source source;
	Module *module; /* NULL: refused, or kernel text */
	json_t *root;   /* the parsed text, where it names sizes; NULL */
	bool kernel;    /* kernel text that is right */
	Text diagnostics;
};

enum { TEXT_SOURCE, TEXT_PLAN, TEXT_REPORT, TEXT_GRAPH, TEXT_KERNEL, TEXT_PAGE, TEXT_DIAGNOSTICS, TEXT_COUNT };

struct pallasc_result {
	pallasc_status status;
	size_t length[TEXT_COUNT];
	const char *text[TEXT_COUNT]; /* in the same allocation, behind this struct */
};

const char *pallasc_version(void) { return PALLASC_VERSION; }

int pallasc_abi_version(void) { return PALLASC_ABI_VERSION; }

const char *pallasc_target_name(size_t index) {
	size_t count;
	const Target *rows = target_rows(&count);
	return index < count ? rows[index].name : NULL;
}

/* ---- contexts --------------------------------------------------------------------------------------------------- */

pallasc_context *pallasc_context_new(void) {
	pallasc_context *context = calloc(1, sizeof *context);
	if (context)
		arena_init(&context->work, &context->oom);
	return context;
}

void pallasc_context_free(pallasc_context *context) {
	if (!context)
		return;
	arena_free(&context->work);
	free(context);
}

/* ---- diagnostics ------------------------------------------------------------------------------------------------ */

/* Whether all were printed: memory may run out meanwhile, and the stream is the caller's to close. */
static bool diagnostics_print(const Diag *d, FILE *out) {
	jmp_buf here, *outer = d->arena->oom;
	bool done = false;
	d->arena->oom = &here;
	if (setjmp(here) == 0) {
		diag_print(d, out, DIAG_JSON, false);
		done = true;
	}
	d->arena->oom = outer;
	return done;
}

/* JSON lines in the Diag's arena; "" where there is nothing to say. False if there is no memory: a stream that grows by
 * itself (open_memstream) would not say so. */
static bool diagnostics_text(const Diag *d, Text *text) {
	enum { ROOM_MIN = 16 << 10, ROOM_MAX = 1 << 30 };
	text_init(text, d->arena);
	text_put(text, "");
	for (size_t room = ROOM_MIN; d->list.count && room < ROOM_MAX; room *= 2) {
		char *at = arena_raw(d->arena, room);
		FILE *out = fmemopen(at, room, "w");
		if (!out)
			return false;
		bool printed = diagnostics_print(d, out), fits = fflush(out) == 0 && !ferror(out);
		long length = ftell(out);
		fclose(out);
		if (!printed || length < 0)
			return false;
		*text = (Text){.at = at, .length = (size_t)length};
		if (fits)
			return true;
	}
	return d->list.count == 0;
}

/* ---- graphs ----------------------------------------------------------------------------------------------------- */

static void root_drop(pallasc_graph *graph) {
	json_decref(graph->root);
	graph->root = NULL;
}

static void graph_load_module(pallasc_graph *graph) {
	const Reader reader = reader_of(&graph->arena, &graph->diag, &graph->source);
	graph->root = json_read(&reader);
	if (graph->root)
		graph->module = module_load_parsed(&graph->arena, &graph->diag, &graph->source, graph->root,
		                                   target_find("v6e"), NULL);
	if (json_object_size(json_object_get(graph->root, "sizes")) == 0)
		root_drop(graph);
}

static bool graph_read(pallasc_graph *graph, const char *json, size_t length, const char *name) {
	if (setjmp(graph->oom))
		return false;
	arena_init(&graph->arena, &graph->oom);
	diag_init(&graph->diag, &graph->arena);
	char *text = arena_alloc(&graph->arena, length + 1);
	if (length)
		memcpy(text, json, length);
	graph->source = (Source){arena_strdup(&graph->arena, name ? name : "<graph>"), text, length};
	if (source_is_kernel(&graph->source))
		graph->kernel = compile_kernel_text(&graph->arena, &graph->diag, &graph->source, NULL, EMIT_NONE, NULL);
	else
		graph_load_module(graph);
	Diag quiet; /* what is wrong is said by each compilation, where its turn is */
	diag_init(&quiet, &graph->arena);
	if (graph->module)
		module_verify_symbols(graph->module, &quiet);
	return diagnostics_text(&graph->diag, &graph->diagnostics);
}

pallasc_graph *pallasc_graph_load(pallasc_context *context, const char *json, size_t length, const char *name) {
	pallasc_graph *graph = context && (json || length == 0) ? calloc(1, sizeof *graph) : NULL;
	if (!graph)
		return NULL;
	graph->context = context;
	context->graphs++;
	if (graph_read(graph, json, length, name))
		return graph;
	pallasc_graph_free(graph);
	return NULL;
}

pallasc_status pallasc_graph_status(const pallasc_graph *graph) {
	return !graph ? PALLASC_FAILED : graph->module || graph->kernel ? PALLASC_OK : PALLASC_REFUSED;
}

const char *pallasc_graph_diagnostics(const pallasc_graph *graph, size_t *length) {
	if (length)
		*length = graph ? graph->diagnostics.length : 0;
	return graph ? graph->diagnostics.at : "";
}

void pallasc_graph_free(pallasc_graph *graph) {
	if (!graph)
		return;
	graph->context->graphs--;
	root_drop(graph);
	arena_free(&graph->arena);
	free(graph);
}

/* ---- compiling -------------------------------------------------------------------------------------------------- */

/* A module of which there is to be a page. */
typedef struct PageOf {
	const char *name, *target, *python;
} PageOf;

/* One call of pallasc_graph_compile(), pallasc_infer() or pallasc_module_page(): everything in it lives in the
 * context's arena, but for the result. */
typedef struct Job {
	pallasc_context *context;
	const pallasc_graph *graph; /* NULL: `document` */
	Source document;            /* no text: `module` */
	PageOf module;
	const pallasc_options *options;
	Arena *arena;
	Diag diag;
	Text text[TEXT_COUNT];
} Job;

/* What a graph was told when it was read belongs to each of its results. */
static void inherit_diagnostics(Job *job, const pallasc_graph *graph) {
	const Diag *given = &graph->diag;
	for (uint32_t i = 0; i < given->list.count; i++)
		vec_push(job->arena, &job->diag.list, given->list.at[i]);
	job->diag.errors += given->errors;
	job->diag.others += given->others;
}

static const Target *choose_target(Job *job, pallasc_status *status) {
	const char *name = job->options->target ? job->options->target : "v6e";
	const Target *target;
	if (*name == '{') {
		Source *source = arena_alloc(job->arena, sizeof *source);
		*source = (Source){"<target>", name, strlen(name)};
		target = target_load(job->arena, &job->diag, source);
	} else {
		target = target_known(job->arena, &job->diag, NULL, name);
	}
	target = target_within(job->arena, &job->diag, target, job->options->vmem_bytes, job->options->vmem_margin);
	*status = target ? PALLASC_OK : PALLASC_USAGE;
	return target;
}

static bool sets_are_pairs(Job *job) {
	const pallasc_options *o = job->options;
	for (size_t i = 0; i < o->set_count; i++) {
		const char *equals = strchr(o->sets[i], '=');
		if (!equals || equals == o->sets[i])
			diag_error(&job->diag, (Place){0}, "config-set", NULL, "expected KEY=VALUE, found '%s'",
			           o->sets[i]);
	}
	return job->diag.errors == 0;
}

/* What was found is JSON, or there is nothing; else false after a diagnostic. */
static bool found_is_json(Job *job) {
	const char *found = job->options->found;
	if (!found)
		return true;
	Source *source = arena_alloc(job->arena, sizeof *source);
	*source = (Source){"<found>", found, strlen(found)};
	const Reader reader = reader_of(job->arena, &job->diag, source);
	json_t *value = json_read(&reader);
	json_decref(value);
	return value != NULL;
}

static bool emit_texts(Job *job, Compilation *c) {
	static const struct {
		unsigned flag;
		Emit emit;
	} kinds[] = {{PALLASC_EMIT_SOURCE, EMIT_PYTHON}, {PALLASC_EMIT_PLAN, EMIT_PLAN},
	             {PALLASC_EMIT_REPORT, EMIT_REPORT}, {PALLASC_EMIT_GRAPH, EMIT_JSON},
	             {PALLASC_EMIT_KERNEL, EMIT_KERNEL}, {PALLASC_EMIT_PAGE, EMIT_HTML}};
	for (int i = TEXT_SOURCE; i <= TEXT_PAGE; i++)
		if ((job->options->emit & kinds[i].flag) && !compile_emit(c, kinds[i].emit, &job->text[i]))
			return false;
	return true;
}

/* As the command does it: a graph alone (json) needs no plan. */
static bool wants_plan(unsigned emit) { return emit != PALLASC_EMIT_GRAPH; }

/* The names of a list with commas between, in the job's arena. Never NULL. */
static const char *const *names_of(const Job *job, const char *list, uint32_t *count) {
	VEC(const char *) names = {0};
	static const char *const none[1];
	for (size_t n; *list; list += n + (list[n] == ',')) {
		n = strcspn(list, ",");
		vec_push(job->arena, &names, arena_printf(job->arena, "%.*s", (int)n, list));
	}
	*count = names.count;
	return names.count ? names.at : none;
}

/* The passes and the rewrites of the options; false after a diagnostic. Passes are looked up as they run. */
static bool choose_stages(Job *job, CompileOptions *options) {
	const pallasc_options *o = job->options;
	if (o->passes)
		options->passes = names_of(job, o->passes, &options->pass_count);
	if (o->rewrites)
		options->rewrites = names_of(job, o->rewrites, &options->rewrite_count);
	for (uint32_t i = 0; i < options->rewrite_count; i++)
		if (!rewrite_find(options->rewrites[i])) {
			diag_error(&job->diag, (Place){0}, "unknown-rewrite", "pallasc --print-rewrites lists them",
			           "there is no rewrite '%s'", options->rewrites[i]);
			return false;
		}
	return true;
}

/* Each text is made of a program of its own: printing gives names. */
static pallasc_status compile_kernel(Job *job, const Target *target) {
	CompileOptions options = {.target = target, .named_scopes = job->options->named_scopes != 0};
	if (!choose_stages(job, &options))
		return PALLASC_USAGE;
	const Source *source = &job->graph->source;
	bool ok = true;
	if (job->options->size_count || job->options->mesh || job->options->debug_print_count)
		diag_warning(&job->diag, (Place){.source = source}, "kernel-options", "compile the graph again",
		             "kernel text is compiled as it stands: no sizes, no mesh and no debug_print change it");
	if (job->options->emit & PALLASC_EMIT_SOURCE)
		ok = compile_kernel_text(job->arena, &job->diag, source, &options, EMIT_PYTHON,
		                         &job->text[TEXT_SOURCE]);
	if (ok && job->options->emit & PALLASC_EMIT_KERNEL)
		ok = compile_kernel_text(job->arena, &job->diag, source, &options, EMIT_KERNEL,
		                         &job->text[TEXT_KERNEL]);
	return ok ? PALLASC_OK : PALLASC_REFUSED;
}

/* The graph at the sizes of the options, in the job's arena; NULL after diagnostics. */
static Module *module_asked(Job *job, const pallasc_graph *graph) {
	const SizeChoices sizes = {job->options->sizes, (uint32_t)job->options->size_count};
	if (sizes.count && graph->root)
		return module_load_parsed(job->arena, &job->diag, &graph->source, graph->root, target_find("v6e"),
		                          &sizes);
	inherit_diagnostics(job, graph);
	Module *m = graph->module ? module_clone(graph->module, job->arena) : NULL;
	return m && module_choose_sizes(m, &job->diag, &sizes) ? m : NULL;
}

/* The caller's as far as its header had it. */
static pallasc_pairing full_pairing(const pallasc_pairing *given) {
	pallasc_pairing pairing = PALLASC_PAIRING_INIT;
	memcpy(&pairing, given, given->size < sizeof pairing ? given->size : sizeof pairing);
	return pairing;
}

/* False after a diagnostic. */
static bool can_be_paired(Job *job, const pallasc_pairing *pairing) {
	if (job->options->emit & ~(unsigned)PALLASC_EMIT_SOURCE) {
		diag_error(&job->diag, (Place){0}, "pair-emit", "ask for the source alone",
		           "of a forward and its backwards there is a module, and no other text");
		return false;
	}
	if (job->options->mesh) {
		diag_error(&job->diag, (Place){0}, "shard", "split the forward alone",
		           "a forward and its backwards cannot be split over a mesh");
		return false;
	}
	bool ok = pairing->backward_count > 0;
	if (!ok)
		diag_error(&job->diag, (Place){0}, "pair-emit", NULL, "there is no backward to pair the forward with");
	for (size_t i = 0; i < pairing->backward_count; i++)
		ok &= pairing->backwards[i] != NULL; /* there was no memory for it */
	return ok;
}

static NameList name_list(const char *const *names, size_t count) {
	return (NameList){.at = names, .count = (uint32_t)count};
}

/* `module`: the forward's, at the sizes that are asked for; NULL: the forward is kernel text. */
static pallasc_status compile_with_backwards(Job *job, Module *module, const CompileOptions *options) {
	pallasc_pairing pairing = full_pairing(job->options->pairing);
	if (!can_be_paired(job, &pairing))
		return job->diag.errors ? PALLASC_REFUSED : PALLASC_FAILED;
	size_t count = pairing.backward_count;
	PartSource forward = {.source = &job->graph->source, .module = module, .options = *options};
	bool ok = true;
	PartSource *backwards = arena_array(job->arena, count, sizeof *backwards);
	for (size_t i = 0; i < count; i++) {
		const char *text = pairing.backward_configs ? pairing.backward_configs[i] : NULL;
		CompileOptions own = *options; /* the configuration given is the forward's */
		Source *config = arena_alloc(job->arena, sizeof *config);
		if (text)
			*config = (Source){"<config>", text, strlen(text)};
		own.configs = config;
		own.config_count = text != NULL;
		own.set_count = 0;
		own.debug_print_count = 0;
		const pallasc_graph *graph = pairing.backwards[i];
		backwards[i] =
			(PartSource){.source = &graph->source, .module = module_asked(job, graph), .options = own};
		ok &= backwards[i].module || graph->kernel;
	}
	PairWishes wishes = {.residuals = name_list(pairing.residuals, pairing.residual_count),
	                     .cotangents = name_list(pairing.cotangents, pairing.cotangent_count),
	                     .gradients = name_list(pairing.gradients, pairing.gradient_count),
	                     .returns = name_list(pairing.returns, pairing.return_count),
	                     .nondiff = name_list(pairing.nondiff, pairing.nondiff_count)};
	ok = ok && compile_pair(job->arena, &job->diag, &forward, backwards, (uint32_t)count, &wishes,
	                        &job->text[TEXT_SOURCE]);
	return ok ? PALLASC_OK : PALLASC_REFUSED;
}

static pallasc_status compile(Job *job) {
	const pallasc_options *o = job->options;
	pallasc_status status;
	diag_init(&job->diag, job->arena);
	Module *module = module_asked(job, job->graph);
	if (!module && !job->graph->kernel)
		return PALLASC_REFUSED;
	const Target *target = choose_target(job, &status);
	ShardRequest shard = {.mesh = o->mesh, .blocks = o->shard, .gather = o->gather, .scatter = o->scatter};
	if (!target || !sets_are_pairs(job) || !found_is_json(job))
		return PALLASC_USAGE;
	if (o->ring && !ring_way_read(o->ring, &shard)) {
		diag_error(&job->diag, (Place){0}, "shard",
		           "it is wrapper, kernel, kernel:bfloat16, auto or auto:bfloat16", "ring: '%s'", o->ring);
		return PALLASC_USAGE;
	}
	if (job->graph->kernel && !o->pairing)
		return compile_kernel(job, o->target ? target : NULL);
	Source *config = arena_alloc(job->arena, sizeof *config);
	if (o->config_json)
		*config = (Source){"<config>", o->config_json, strlen(o->config_json)};
	CompileOptions options = {.target = target,
	                          .configs = config,
	                          .config_count = o->config_json != NULL,
	                          .sets = o->sets,
	                          .set_count = (uint32_t)o->set_count,
	                          .explain = (o->emit & PALLASC_EMIT_PAGE) != 0,
	                          .keep_read = (o->emit & PALLASC_EMIT_PAGE) != 0,
	                          .shard = shard,
	                          .named_scopes = o->named_scopes != 0,
	                          .debug_prints = o->debug_prints,
	                          .debug_print_count = (uint32_t)o->debug_print_count,
	                          .adapt = o->adapt != 0,
	                          .found = o->found};
	if (!choose_stages(job, &options))
		return PALLASC_USAGE;
	if (o->pairing)
		return compile_with_backwards(job, module, &options);
	Compilation c;
	compile_init(&c, &options, job->arena, &job->diag, module);
	if (compile_module(&c) && (!wants_plan(o->emit) || compile_plan(&c)) && emit_texts(job, &c))
		return PALLASC_OK;
	module_note_sizes(module, &job->diag);
	return PALLASC_REFUSED;
}

/* The last node before the output of the last graph; NONE. */
static NodeId last_value(const Module *m) {
	return m->graphs.count ? node_get(m, graph_get(m, m->graphs.count - 1)->output)->prev : NONE;
}

static pallasc_status infer(Job *job) {
	diag_init(&job->diag, job->arena);
	char *text = arena_alloc(job->arena, job->document.length + 1); /* a Source's ends with NUL */
	memcpy(text, job->document.text, job->document.length);
	job->document.text = text;
	Module *m = module_load(job->arena, &job->diag, &job->document, target_find("v6e"));
	NodeId n = m ? last_value(m) : NONE;
	m = n != NONE ? node_infer_symbols(m, &job->diag, n) : NULL;
	if (!m)
		return PALLASC_REFUSED;
	type_emit_json(m, node_get(m, n)->type, &job->text[TEXT_GRAPH]);
	return PALLASC_OK;
}

static pallasc_status module_page(Job *job) {
	const PageOf *module = &job->module;
	diag_init(&job->diag, job->arena);
	if (!found_is_json(job))
		return PALLASC_USAGE;
	page_emit_module(module->name, module->target, module->python, job->options->found, &job->text[TEXT_PAGE]);
	return PALLASC_OK;
}

/* The texts move into one allocation with the result. NULL if there is no memory. */
static pallasc_result *result_new(const Job *job, pallasc_status status) {
	size_t size = sizeof(pallasc_result);
	for (int i = 0; i < TEXT_COUNT; i++)
		size += job->text[i].length + 1;
	pallasc_result *result = malloc(size);
	if (!result)
		return NULL;
	char *at = (char *)(result + 1);
	result->status = status;
	for (int i = 0; i < TEXT_COUNT; i++) {
		size_t length = job->text[i].length;
		if (length)
			memcpy(at, job->text[i].at, length);
		at[length] = '\0';
		result->text[i] = at;
		result->length[i] = length;
		at += length + 1;
	}
	return result;
}

static pallasc_result *job_run(Job *job) {
	if (setjmp(job->context->oom))
		return NULL;
	for (int i = 0; i < TEXT_COUNT; i++)
		text_init(&job->text[i], job->arena);
	pallasc_status status = job->graph ? compile(job) : job->document.text ? infer(job) : module_page(job);
	return diagnostics_text(&job->diag, &job->text[TEXT_DIAGNOSTICS]) ? result_new(job, status) : NULL;
}

/* The caller's options as far as its header had them, over the defaults. */
static pallasc_options full_options(const pallasc_options *given) {
	pallasc_options options = PALLASC_OPTIONS_INIT;
	if (given)
		memcpy(&options, given, given->size < sizeof options ? given->size : sizeof options);
	return options;
}

static pallasc_result *job_of(const Job *asked) {
	Job *job = calloc(1, sizeof *job); /* not on the stack: longjmp() leaves changed locals undefined */
	if (!job)
		return NULL;
	*job = *asked;
	job->arena = &job->context->work;
	arena_reset(job->arena);
	pallasc_result *result = job_run(job);
	free(job);
	return result;
}

pallasc_result *pallasc_graph_compile(const pallasc_graph *graph, const pallasc_options *options) {
	if (!graph)
		return NULL;
	pallasc_options full = full_options(options);
	const Job job = {.context = graph->context, .graph = graph, .options = &full};
	return job_of(&job);
}

pallasc_result *pallasc_infer(pallasc_context *context, const char *json, size_t length) {
	if (!context || !json)
		return NULL;
	const Job job = {.context = context, .document = {"<graph>", json, length}};
	return job_of(&job);
}

pallasc_result *pallasc_module_page(pallasc_context *context, const char *name, const char *target, const char *python,
                                    const char *found) {
	if (!context || !name || !target || !python)
		return NULL;
	pallasc_options options = {.found = found};
	const Job job = {.context = context, .module = {name, target, python}, .options = &options};
	return job_of(&job);
}

pallasc_result *pallasc_compile(pallasc_context *context, const char *json, size_t length,
                                const pallasc_options *options) {
	pallasc_graph *graph = pallasc_graph_load(context, json, length, NULL);
	pallasc_result *result = pallasc_graph_compile(graph, options);
	pallasc_graph_free(graph);
	return result;
}

/* ---- results ---------------------------------------------------------------------------------------------------- */

pallasc_status pallasc_result_status(const pallasc_result *result) { return result ? result->status : PALLASC_FAILED; }

static const char *result_text(const pallasc_result *result, int which, size_t *length) {
	if (length)
		*length = result ? result->length[which] : 0;
	return result ? result->text[which] : "";
}

const char *pallasc_result_source(const pallasc_result *result, size_t *length) {
	return result_text(result, TEXT_SOURCE, length);
}

const char *pallasc_result_plan(const pallasc_result *result, size_t *length) {
	return result_text(result, TEXT_PLAN, length);
}

const char *pallasc_result_report(const pallasc_result *result, size_t *length) {
	return result_text(result, TEXT_REPORT, length);
}

const char *pallasc_result_graph(const pallasc_result *result, size_t *length) {
	return result_text(result, TEXT_GRAPH, length);
}

const char *pallasc_result_kernel(const pallasc_result *result, size_t *length) {
	return result_text(result, TEXT_KERNEL, length);
}

const char *pallasc_result_page(const pallasc_result *result, size_t *length) {
	return result_text(result, TEXT_PAGE, length);
}

const char *pallasc_result_diagnostics(const pallasc_result *result, size_t *length) {
	return result_text(result, TEXT_DIAGNOSTICS, length);
}

void pallasc_result_free(pallasc_result *result) { free(result); }
