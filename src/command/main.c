/* main.c - the command pallasc: reads what the options name, compiles, and writes the result once it is whole. */
#define _XOPEN_SOURCE 700
#include "files.h"
#include "explain.h"
#include "handover.h"
#include "options.h"
#include "sweep_command.h"
#include "version.h"
#include "codegen/rewrite/rewrite.h"
#include "src/emit/emit.h"
#include "src/load/load.h"
#include "src/verify/verify.h"

#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { EXIT_DONE, EXIT_REFUSED, EXIT_USAGE, EXIT_IO };

typedef struct Command {
	Arena arena;
	Diag diag;
	Options options;
	Source graph, target_source;
	Source *configs;
	Source *backwards;
	PassHooks hooks;
	bool color;
} Command;

/* ---- memory of documents ---------------------------------------------------------------------------------------- */

/* jansson asks for a piece for every value, key and number, and gives each back alone: half of its time. Its pieces
 * come from an arena instead, and once a document is read its memory is used for what is made of it. jansson's hooks
 * take no argument; hence the one variable of the command. The library leaves jansson's memory alone: others may use it
 * in the same process. */
static Arena documents;

static void *document_alloc(size_t size) { return arena_raw(&documents, size); }

static void document_free(void *piece) { (void)piece; }

static void documents_for(Arena *a) {
	arena_init(&documents, a->oom);
	a->documents = &documents;
	json_set_alloc_funcs(document_alloc, document_free);
}

/* ---- messages --------------------------------------------------------------------------------------------------- */

static bool want_color(ColorWhen when) {
	const char *term = getenv("TERM"), *no = getenv("NO_COLOR");
	if (when != COLOR_AUTO)
		return when == COLOR_ALWAYS;
	return isatty(STDERR_FILENO) && !(no && *no) && !(term && strcmp(term, "dumb") == 0);
}

/* An error that no document is to blame for, in the format that was asked for. */
static void complain(Command *c, const char *code, const char *message) {
	Diag only;
	diag_init(&only, &c->arena);
	diag_error(&only, (Place){0}, code, NULL, "%s", message);
	diag_print(&only, stderr, c->options.diagnostics, c->color);
}

/* There is none for a Diag then. */
static const char no_memory[] = "pallasc: error: out of memory\n";
static const char no_memory_json[] = "{\"severity\": \"error\", \"code\": \""
				     "out-of-memory"
				     "\", \"message\": \"out of memory\"}\n";

static int fail_file(Command *c, const char *verb, const char *name, const char *why) {
	complain(c, "file", arena_printf(&c->arena, "cannot %s %s: %s", verb, name, why));
	return EXIT_IO;
}

/* ---- printing lists --------------------------------------------------------------------------------------------- */

static void put_targets(Text *out) {
	size_t count;
	const Target *rows = target_rows(&count);
	for (size_t i = 0; i < count; i++) {
		const Target *t = &rows[i];
		text_printf(
			out,
			"%-4s  %-12s  VMEM %3lld MiB  MXU %lldx%lld  %4.0f MHz  HBM %4.0f GB/s  bf16 %4.0f TFLOP/s%s\n",
			t->name, t->device_kind, (long long)t->vmem_bytes >> 20, (long long)t->mxu_size,
			(long long)t->mxu_size, t->clock_hz / 1e6, t->hbm_bytes_per_s / 1e9, t->bf16_flops / 1e12,
			t->tensorcores > 1 ? "  megacore" : "");
	}
}

static void put_passes(Text *out) {
	for (const Pass *p = pass_list(); p->name; p++)
		text_printf(out, "%-18s %s\n", p->name, p->summary);
}

static void put_rewrites(Text *out) {
	for (const Rewrite *r = kernel_rewrites(); r->name; r++)
		text_printf(out, "%-18s %s\n", r->name, r->about);
}

static int fail_output(Command *c, const char *why) {
	const char *path = c->options.output;
	return fail_file(c, "write", strcmp(path, "-") == 0 ? "standard output" : path, why);
}

static int write_output(Command *c, const Text *text) {
	Output out;
	const char *error = output_open(&c->arena, c->options.output, &out);
	error = error ? error : output_put(&out, text->at ? text->at : "", text->length);
	error = error ? error : output_close(&out);
	return error ? fail_output(c, error) : EXIT_DONE;
}

static int read_source(Command *c, const char *path, Source *source) {
	const char *error = file_read(&c->arena, path, source);
	return error ? fail_file(c, "read", source->name, error) : EXIT_DONE;
}

static int read_target(Command *c) {
	return target_find(c->options.target) ? EXIT_DONE : read_source(c, c->options.target, &c->target_source);
}

/* NULL after diagnostics. */
static const Target *target_asked(Command *c) {
	const Target *target = target_find(c->options.target);
	target = target ? target : target_load(&c->arena, &c->diag, &c->target_source);
	return target_within(&c->arena, &c->diag, target, c->options.vmem_bytes, c->options.vmem_margin);
}

static int print_target(Command *c) {
	Text out;
	text_init(&out, &c->arena);
	int status = read_target(c);
	if (status != EXIT_DONE)
		return status;
	const Target *target = target_asked(c);
	diag_print(&c->diag, stderr, c->options.diagnostics, c->color);
	if (!target)
		return EXIT_REFUSED;
	target_put(target, &out);
	c->options.output = "-";
	return write_output(c, &out);
}

static int print_only(Command *c) {
	Text out;
	text_init(&out, &c->arena);
	switch (c->options.action) {
	case ACTION_HELP: text_put(&out, options_help()); break;
	case ACTION_VERSION: text_put(&out, "pallasc " PALLASC_VERSION "\n"); break;
	case ACTION_TARGETS: put_targets(&out); break;
	case ACTION_TARGET: return print_target(c);
	case ACTION_PASSES: put_passes(&out); break;
	case ACTION_REWRITES: put_rewrites(&out); break;
	case ACTION_COMPILE:
	case ACTION_SWEEP: break;
	}
	c->options.output = "-";
	return write_output(c, &out);
}

/* ---- compiling -------------------------------------------------------------------------------------------------- */

static void print_module(Command *c, const Module *m, const Pass *pass, const char *when) {
	Text out;
	text_init(&out, &c->arena);
	module_emit_json(m, &out);
	fprintf(stderr, "// the graph %s %s\n%s", when, pass->name, out.at);
}

static bool has_pass(const Pass *const *list, uint32_t count, const Pass *pass) {
	for (uint32_t i = 0; i < count; i++)
		if (list[i] == pass)
			return true;
	return false;
}

static void print_before(void *user, const Pass *pass, const Module *m) {
	Command *c = user;
	if (has_pass(c->options.print_before.at, c->options.print_before.count, pass))
		print_module(c, m, pass, "before");
}

static void print_after(void *user, const Pass *pass, const Module *m) {
	Command *c = user;
	const Options *o = &c->options;
	if (o->print_after_all || has_pass(o->print_after.at, o->print_after.count, pass))
		print_module(c, m, pass, "after");
}

static int read_inputs(Command *c) {
	const Options *o = &c->options;
	c->configs = arena_array(&c->arena, o->configs.count, sizeof *c->configs);
	if (o->verbose && strcmp(o->input, "-") == 0)
		fprintf(stderr, "pallasc: reading the graph from standard input%s\n",
		        isatty(STDIN_FILENO) ? ", a terminal: end it with Ctrl-D" : "");
	int status = read_source(c, o->input, &c->graph);
	for (uint32_t i = 0; i < o->configs.count && status == EXIT_DONE; i++)
		status = read_source(c, o->configs.at[i], &c->configs[i]);
	c->backwards = arena_array(&c->arena, o->backwards.count, sizeof *c->backwards);
	for (uint32_t i = 0; i < o->backwards.count && status == EXIT_DONE; i++)
		status = read_source(c, o->backwards.at[i], &c->backwards[i]);
	return status == EXIT_DONE ? read_target(c) : status;
}

static void say_what_was_done(const Compilation *c, const Module *m) {
	uint32_t live = 0;
	for (NodeId n = 0; n < m->nodes.count; n++)
		live += !node_get(m, n)->dead;
	fprintf(stderr, "pallasc: %s for %s: %u graphs, %u nodes after the passes\n", m->name, m->target->name,
	        m->graphs.count, live);
	for (uint32_t k = 0; c->program && k < c->program->kernels.count; k++) {
		const Plan *p = c->program->kernels.at[k];
		fprintf(stderr, "pallasc: %u operands, %u loops, %lld of %lld bytes of VMEM\n", p->operands.count,
		        p->loops.count, (long long)p->vmem.total, (long long)m->target->vmem_bytes);
	}
}

/* NULL where nobody wants to see each pass. */
static const PassHooks *hooks_of(Command *c) {
	const Options *o = &c->options;
	c->hooks = (PassHooks){.before = print_before, .after = print_after, .user = c, .verify_each = o->verify_each};
	bool any = o->print_before.count || o->print_after.count || o->print_after_all || o->verify_each;
	return any ? &c->hooks : NULL;
}

static CompileOptions compile_options(Command *c, const Target *target) {
	static const char *const no_passes[1]; /* --passes= runs none; NULL would run them all */
	const Options *o = &c->options;
	return (CompileOptions){
		.target = target,
		.configs = c->configs,
		.config_count = o->configs.count,
		.sets = o->sets.at,
		.set_count = o->sets.count,
		.passes = !o->passes_given  ? NULL
	                  : o->passes.count ? o->passes.at
	                                    : no_passes,
		.pass_count = o->passes.count,
		.rewrites = !o->rewrites_given  ? NULL
	                    : o->rewrites.count ? o->rewrites.at
	                                        : no_passes,
		.rewrite_count = o->rewrites.count,
		.verify_kernels = o->verify_each,
		.hooks = hooks_of(c),
		.explain = o->explain || o->emit == EMIT_HTML,
		.keep_read = o->emit == EMIT_HTML || o->emit == EMIT_DOT,
		.shard = o->shard,
		.named_scopes = o->named_scopes,
		.debug_prints = o->debug_prints.at,
		.debug_print_count = o->debug_prints.count,
		.adapt = o->adapt,
	};
}

/* What does nothing to kernel text. */
static void warn_of_options(Command *c) {
	const Options *o = &c->options;
	if (o->configs.count || o->sets.count || o->passes_given || o->sizes.count || o->size_lists.count ||
	    o->shard.mesh || o->debug_prints.count)
		diag_warning(&c->diag, (Place){.source = &c->graph}, "kernel-options",
		             "change the text, or compile the graph again",
		             "kernel text is compiled as it stands: no configuration, no sizes, no mesh, no passes "
		             "and no --debug-print change it");
}

/* A kernel that is text already: verified and printed. */
static bool compile_kernel(Command *c, const Target *target, Text *out) {
	const Options *o = &c->options;
	warn_of_options(c);
	CompileOptions options = compile_options(c, o->target_given ? target : NULL);
	return compile_kernel_text(&c->arena, &c->diag, &c->graph, &options, o->emit, out);
}

static SizeChoices size_choices(const Command *c) { return (SizeChoices){c->options.sizes.at, c->options.sizes.count}; }

/* One module of the graph at several sizes. */
static bool compile_sizes(Command *c, const Target *target, Text *out) {
	const Options *o = &c->options;
	const SizeChoices sizes = size_choices(c);
	CompileOptions options = compile_options(c, target);
	Text remarks;
	text_init(&remarks, &c->arena);
	text_put(&remarks, "");
	bool ok = compile_variants(&c->arena, &c->diag, &c->graph, &options, &sizes, o->size_lists.at,
	                           o->size_lists.count, out, &remarks);
	fwrite(remarks.at, 1, remarks.length, stderr);
	return ok;
}

static Module *load_graph(Command *c, const Source *source, const Target *target) {
	const SizeChoices sizes = size_choices(c);
	return module_load_sized(&c->arena, &c->diag, source, target, &sizes);
}

static void print_remarks(const Compilation *job) {
	Text remarks;
	text_init(&remarks, job->arena);
	text_put(&remarks, "");
	compile_explain(job, &remarks);
	fwrite(remarks.at, 1, remarks.length, stderr);
}

/* The forward's configuration is that of the options; a backward has its own alone. False after diagnostics. */
static bool read_part(Command *c, const Source *source, CompileOptions options, PartSource *part) {
	*part = (PartSource){.source = source, .options = options};
	if (source != &c->graph)
		part->options.config_count = part->options.set_count = part->options.debug_print_count = 0;
	else if (source_is_kernel(source))
		warn_of_options(c);
	if (source_is_kernel(source))
		return true;
	part->module = load_graph(c, source, options.target);
	return part->module != NULL;
}

static bool compile_pair_of(Command *c, const Target *target, Text *out) {
	const Options *o = &c->options;
	uint32_t count = o->backwards.count;
	PartSource *parts = arena_array(&c->arena, (size_t)count + 1, sizeof *parts);
	bool ok = target != NULL;
	for (uint32_t i = 0; i <= count && target; i++)
		ok &= read_part(c, i ? &c->backwards[i - 1] : &c->graph, compile_options(c, target), &parts[i]);
	PairWishes wishes = {.residuals = {o->residuals.at, o->residuals.count},
	                     .cotangents = {o->cotangents.at, o->cotangents.count},
	                     .gradients = {o->gradients.at, o->gradients.count},
	                     .returns = {o->returns.at, o->returns.count},
	                     .nondiff = {o->nondiff.at, o->nondiff.count}};
	ok = ok && compile_pair(&c->arena, &c->diag, &parts[0], &parts[1], count, &wishes, out);
	for (uint32_t i = 0; i <= count; i++) {
		const Compilation *job = &parts[i].compilation;
		if (job->module && o->explain)
			print_remarks(job);
		if (job->module && ok && o->verbose)
			say_what_was_done(job, job->module);
	}
	return ok && c->diag.errors == 0;
}

/* Everything up to the text; false after diagnostics. */
static bool compile(Command *c, Text *out) {
	const Options *o = &c->options;
	const Target *target = target_asked(c);
	if (o->backwards.count)
		return compile_pair_of(c, target, out);
	if (source_is_kernel(&c->graph))
		return target && compile_kernel(c, target, out);
	if (o->size_lists.count)
		return target && compile_sizes(c, target, out);
	Module *m = load_graph(c, &c->graph, target);
	if (!target || !m)
		return false;
	CompileOptions options = compile_options(c, target);
	Compilation job;
	compile_init(&job, &options, &c->arena, &c->diag, m);
	bool check_passes_only = o->passes_given && o->emit == EMIT_NONE;
	bool ok = compile_module(&job) && (!emit_needs_plan(o->emit) || check_passes_only || compile_plan(&job));
	if (o->explain)
		print_remarks(&job);
	ok = ok && compile_emit(&job, o->emit, out);
	if (!ok)
		module_note_sizes(m, &c->diag);
	if (ok && o->verbose)
		say_what_was_done(&job, job.module);
	return ok && c->diag.errors == 0;
}

/* ---- sweeps ------------------------------------------------------------------------------------------------------ */

/* A JSON object is a spec; anything else is the path of one. */
static int read_space(Command *c, Source *spec) {
	const char *text = c->options.space;
	if (!text || *text != '{')
		return text ? read_source(c, text, spec) : EXIT_DONE;
	*spec = (Source){.name = "<command line>", .text = text, .length = strlen(text)};
	return EXIT_DONE;
}

/* NULL after diagnostics. */
static ConfigSpace *space_asked(Command *c, const CompileOptions *options, const Source *spec) {
	const Options *o = &c->options;
	if (source_is_kernel(&c->graph)) {
		diag_error(&c->diag, (Place){.source = &c->graph}, "kernel-sweep",
		           "sweep the graph that it was made of",
		           "kernel text is compiled as it stands: it has no configurations");
		return NULL;
	}
	Module *m = load_graph(c, &c->graph, options->target);
	if (!m)
		return NULL;
	bool typed = m->typing != TYPING_UNKNOWN || module_verify_symbols(m, &c->diag);
	ConfigSpace *space =
		typed ? space_new(&c->arena, &c->diag, m, options, o->space ? spec : NULL, o->sample, o->seed) : NULL;
	if (!space)
		module_note_sizes(m, &c->diag);
	return space;
}

static int run_sweep(Command *c) {
	const Options *o = &c->options;
	Source spec;
	int status = read_space(c, &spec);
	if (status != EXIT_DONE)
		return status;
	const Target *target = target_asked(c);
	CompileOptions options = compile_options(c, target);
	ConfigSpace *space = target ? space_asked(c, &options, &spec) : NULL;
	diag_print(&c->diag, stderr, o->diagnostics, c->color);
	if (!space)
		return EXIT_REFUSED;
	Output output;
	const char *error = output_open(&c->arena, o->output, &output);
	if (error)
		return fail_output(c, error);
	SweepOptions how = {.output = &output,
	                    .table = o->table,
	                    .top = o->top,
	                    .threads = o->threads,
	                    .progress = isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO)};
	SweepResult result = sweep(&c->arena, space, &options, &how);
	if (result.unfinished) {
		output_drop(&output);
		return fail_file(c, "finish", "the sweep", result.unfinished);
	}
	error = result.error ? result.error : output_close(&output);
	if (error)
		return fail_output(c, error);
	return result.any_accepted ? EXIT_DONE : EXIT_REFUSED;
}

static int run(Command *c) {
	if (c->options.action != ACTION_COMPILE && c->options.action != ACTION_SWEEP)
		return print_only(c);
	int status = read_inputs(c);
	if (status != EXIT_DONE)
		return status;
	if (c->options.action == ACTION_SWEEP)
		return run_sweep(c);
	Text out;
	text_init(&out, &c->arena);
	bool ok = compile(c, &out);
	diag_print(&c->diag, stderr, c->options.diagnostics, c->color);
	if (!ok)
		return EXIT_REFUSED;
	return c->options.emit == EMIT_NONE ? EXIT_DONE : write_output(c, &out);
}

/* pallasc explain [CODE] */
static int explain(Command *c, int argc, char *const *argv) {
	Text out;
	text_init(&out, &c->arena);
	const char *code = argc > 2 ? argv[2] : NULL, *error = NULL;
	if (argc > 3)
		error = "pallasc explain takes one code";
	else if (code && *code == '-')
		text_put(&out, "usage: pallasc explain [CODE]\n\nWhat the code in brackets behind a message means, an "
		               "example and what to do; without one all codes.\n");
	else
		error = explain_put(&c->arena, code, &out);
	c->options.output = "-";
	if (!error)
		return write_output(c, &out);
	complain(c, "usage", error);
	return EXIT_USAGE;
}

static int command(Command *c, int argc, char *const *argv) {
	diag_init(&c->diag, &c->arena);
	c->diag.reads_code = true;
	if (argc > 1 && handed_over(argv[1])) {
		complain(c, "python", hand_over(&c->arena, argc, argv));
		return EXIT_IO;
	}
	if (argc > 1 && strcmp(argv[1], "explain") == 0)
		return explain(c, argc, argv);
	const char *error = options_parse(&c->arena, argc, argv, &c->options);
	c->color = want_color(c->options.color);
	if (!error)
		return run(c);
	complain(c, "usage", error);
	if (c->options.diagnostics == DIAG_TEXT)
		fputs("pallasc --help lists the options\n", stderr);
	return EXIT_USAGE;
}

int main(int argc, char **argv) {
	Command *c = calloc(1, sizeof *c);
	jmp_buf oom;
	files_guard();
	signal(SIGPIPE, SIG_IGN); /* write() then says so, and the exit status is 3 */
	signal(SIGXFSZ, SIG_IGN);
	if (!c || setjmp(oom)) {
		files_abandon();
		fputs(c && c->options.diagnostics == DIAG_JSON ? no_memory_json : no_memory, stderr);
		_exit(EXIT_IO); /* whatever is half done is not touched again */
	}
	arena_init(&c->arena, &oom);
	documents_for(&c->arena);
	int status = command(c, argc, argv);
	arena_free(&documents);
	arena_free(&c->arena);
	free(c);
	return status;
}
