/* targets.c - what each fuzz target does with its bytes. */
#define _POSIX_C_SOURCE 200809L
#include "fuzz.h"
#include "codegen/kernel_text/kernel_text.h"
#include "src/config/config.h"
#include "src/driver/driver.h"
#include "src/emit/emit.h"
#include "src/sweep/sweep.h"
#include "src/verify/verify.h"

#include <jansson.h>
#include <stdlib.h>
#include <time.h>

#if defined(__SANITIZE_ADDRESS__) /* gcc */
#define WITH_ASAN 1
#elif defined(__has_feature)
#define WITH_ASAN __has_feature(address_sanitizer)
#else
#define WITH_ASAN 0
#endif

/* One run: given back at its end, so that nothing is left for the next. */
typedef struct Run {
	jmp_buf oom;
	Arena arena;
	Diag diag;
	size_t size;    /* of the file */
	uint32_t shown; /* diagnostics that were looked at */
} Run;

static void fail(const char *what, const char *text) {
	(void)fprintf(stderr, "fuzz: %s\n%.2000s\n", what, text ? text : "");
	abort();
}

/* Whatever a file says, what is printed has no controls but line ends, no bidirectional formatting, and is UTF-8. */
static void check_printable(const char *what, const char *text, size_t length) {
	for (const char *at = text, *end = text + length; at < end;) {
		uint32_t code = 0;
		if (*at >= ' ' && *at < 0x7f) { /* most are */
			at++;
			continue;
		}
		int n = utf8_decode(at, end, &code);
		if (n == 0 || (code != '\n' && code != '\t' && utf8_unprintable(code)))
			fail(what, at - text > 200 ? at - 200 : text);
		at += n;
	}
}

/* In one of the two forms: which one, the size of the file says. */
static void check_diagnostics(Run *r) {
	const Diag *d = &r->diag;
	char *text = NULL;
	size_t length = 0;
	if (r->shown == d->list.count)
		return;
	r->shown = d->list.count;
	FILE *out = open_memstream(&text, &length);
	if (!out)
		return;
	diag_print(d, out, r->size % 2 ? DIAG_JSON : DIAG_TEXT, false);
	(void)fclose(out);
	check_printable("a diagnostic is not printable", text, length);
	free(text);
	for (uint32_t i = 0; i < d->list.count; i++)
		if (strcmp(d->list.at[i].code, "internal") == 0)
			fail("an internal error", d->list.at[i].message);
}

static void check_refused(Run *r, bool refused) {
	if (refused && r->diag.errors == 0)
		fail("it is refused without a word", NULL);
	check_diagnostics(r);
}

static Source source_of(Run *r, const char *name, const void *data, size_t size) {
	char *text = arena_alloc(&r->arena, size + 1);
	if (size)
		memcpy(text, data, size);
	return (Source){.name = name, .text = text, .length = size};
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* What one file may take, of at most 1 MiB. With a sanitizer: all that malloc gives, jansson's and scratch too, at any
 * one time; chunks that are kept apart take about twice as much. Without, what the arena took. */
enum { MEMORY_MOST = WITH_ASAN ? 512 << 20 : 256 << 20 };

#if WITH_ASAN
/* Of every ASan, though gcc has no header with them. */
int __sanitizer_install_malloc_and_free_hooks(void (*taken)(const volatile void *at, size_t size),
                                              void (*given)(const volatile void *at));
size_t __sanitizer_get_allocated_size(const volatile void *at);

static int64_t held, most_held; /* since it started */

static void count_malloc(const volatile void *at, size_t size) {
	(void)at;
	held += (int64_t)size;
	most_held = held > most_held ? held : most_held;
}

static void count_free(const volatile void *at) { held -= at ? (int64_t)__sanitizer_get_allocated_size(at) : 0; }

static void memory_start(void) {
	static bool counts;
	if (!counts)
		__sanitizer_install_malloc_and_free_hooks(count_malloc, count_free);
	counts = true;
	held = most_held = 0;
}

static int64_t memory_most(const Run *r) {
	(void)r;
	return most_held;
}
#else
static void memory_start(void) {}
static int64_t memory_most(const Run *r) { return (int64_t)r->arena.total; }
#endif

/* Of the processor, which sanitizers take three times as much of. */
enum { SECONDS_MOST = WITH_ASAN ? 3 : 1 };

static void run_in(void (*body)(Run *r, const uint8_t *data, size_t size), const uint8_t *data, size_t size) {
	static Run r; /* setjmp() must not clobber it */
	r = (Run){.size = size};
	memory_start();
	arena_init(&r.arena, &r.oom);
	diag_init(&r.diag, &r.arena);
	if (setjmp(r.oom) != 0)
		fail("out of memory", NULL);
	const clock_t start = clock();
	body(&r, data, size);
	if (clock() - start > SECONDS_MOST * CLOCKS_PER_SEC)
		fail("it takes more than a second without the sanitizers", NULL);
	if (memory_most(&r) > MEMORY_MOST)
		fail("it takes more than 256 MiB without the sanitizers", NULL);
	arena_free(&r.arena);
}

/* ---- load -------------------------------------------------------------------------------------------------------- */

static Module *load_verified(Run *r, const Source *source) {
	Module *m = module_load(&r->arena, &r->diag, source, target_find("v6e"));
	return m && module_verify_symbols(m, &r->diag) ? m : NULL;
}

static Text module_json(Run *r, const Module *m) {
	Text out;
	text_init(&out, &r->arena);
	module_emit_json(m, &out);
	check_printable("JSON is not printable", out.at, out.length);
	return out;
}

static void load_body(Run *r, const uint8_t *data, size_t size) {
	Source *first = arena_alloc(&r->arena, sizeof *first), *second = arena_alloc(&r->arena, sizeof *second);
	*first = source_of(r, "graph.json", data, size);
	Module *m = load_verified(r, first);
	check_refused(r, !m);
	if (!m)
		return;
	Text once = module_json(r, m);
	*second = (Source){"again.json", once.at, once.length};
	Module *again = load_verified(r, second);
	check_diagnostics(r);
	if (!again)
		fail("what --emit=json writes is refused", r->diag.list.count ? r->diag.list.at[0].message : once.at);
	Text twice = module_json(r, again);
	if (strcmp(once.at, twice.at) != 0)
		fail("what --emit=json writes is another document when it is read again", once.at);
}

static void run_load(const uint8_t *data, size_t size) { run_in(load_body, data, size); }

/* ---- compile ----------------------------------------------------------------------------------------------------- */

/* Strings of a list, in the arena. */
static const char *const *strings_of(Run *r, const json_t *list, uint32_t *count) {
	const char **out = arena_array(&r->arena, json_array_size(list) + 1, sizeof *out);
	*count = 0;
	for (size_t i = 0; i < json_array_size(list); i++)
		if (json_is_string(json_array_get(list, i)))
			out[(*count)++] = arena_strdup(&r->arena, json_string_value(json_array_get(list, i)));
	return out;
}

static const char *string_at(Run *r, const json_t *of, const char *key) {
	const json_t *v = json_object_get(of, key);
	return json_is_string(v) ? arena_strdup(&r->arena, json_string_value(v)) : NULL;
}

/* A string is the text of it; any other value is written as JSON. No text: it is not there. */
static Source source_at(Run *r, const json_t *of, const char *key) {
	const json_t *v = json_object_get(of, key);
	char *text = v && !json_is_string(v) ? json_dumps(v, JSON_ENCODE_ANY) : NULL;
	const char *said = text ? text : json_string_value(v);
	Source source = said ? source_of(r, key, said, strlen(said)) : (Source){0};
	free(text);
	return source;
}

/* A chip's name, or a target file. NULL: it is refused. */
static const Target *target_at(Run *r, const json_t *of) {
	const Target *named = target_find(json_is_string(json_object_get(of, "target"))
	                                          ? json_string_value(json_object_get(of, "target"))
	                                          : "v6e");
	if (named)
		return named;
	Source *source = arena_alloc(&r->arena, sizeof *source);
	*source = source_at(r, of, "target");
	return source->text ? target_load(&r->arena, &r->diag, source) : target_find("v6e");
}

/* What x_fuzz says, or a whole file of the fuzz target `target`. False: it is refused. */
static bool options_of(Run *r, const json_t *of, CompileOptions *o) {
	*o = (CompileOptions){.target = target_at(r, of), .verify_kernels = false, .explain = true, .keep_read = true};
	Source *config = arena_alloc(&r->arena, sizeof *config);
	*config = source_at(r, of, "config");
	o->configs = config;
	o->config_count = config->text != NULL;
	o->sets = strings_of(r, json_object_get(of, "set"), &o->set_count);
	o->debug_prints = strings_of(r, json_object_get(of, "debug_print"), &o->debug_print_count);
	o->named_scopes = json_is_true(json_object_get(of, "named_scopes"));
	o->adapt = json_is_true(json_object_get(of, "adapt"));
	o->shard = (ShardRequest){.mesh = string_at(r, of, "mesh"),
	                          .blocks = string_at(r, of, "shard"),
	                          .gather = string_at(r, of, "gather"),
	                          .scatter = string_at(r, of, "scatter")};
	if (!o->shard.mesh) /* the command asks for it */
		o->shard = (ShardRequest){0};
	return o->target != NULL;
}

/* The module, and one other text: which one, the size of the file says. */
static void emit_some(Run *r, Compilation *c, size_t size) {
	for (int emit = EMIT_PYTHON; emit < EMIT_NONE; emit++) {
		if (emit != EMIT_PYTHON && (size_t)emit != 1 + size % (EMIT_NONE - 1))
			continue;
		Text out;
		text_init(&out, &r->arena);
		if (compile_emit(c, (Emit)emit, &out))
			check_printable(emit_names()[emit], out.at ? out.at : "", out.length);
		else
			check_refused(r, true);
	}
	Text remarks;
	text_init(&remarks, &r->arena);
	compile_explain(c, &remarks);
	check_printable("a remark is not printable", remarks.at ? remarks.at : "", remarks.length);
}

static void compile_with(Run *r, Module *m, CompileOptions *o, size_t size) {
	PassHooks hooks = {.verify_each = size % 2 == 0};
	Compilation job;
	o->hooks = &hooks;
	o->verify_kernels = size % 2 == 1;
	compile_init(&job, o, &r->arena, &r->diag, m);
	bool ok = compile_module(&job) && compile_plan(&job);
	for (uint32_t i = 0; i < r->diag.list.count; i++)
		if (strstr(r->diag.list.at[i].message, "made by a pass"))
			fail("a pass breaks the graph", r->diag.list.at[i].message);
	check_refused(r, !ok);
	if (ok)
		emit_some(r, &job, size);
}

static SizeChoices sizes_at(Run *r, const json_t *of) {
	SizeChoices sizes = {0};
	sizes.at = strings_of(r, json_object_get(of, "size"), &sizes.count);
	return sizes;
}

static void compile_body(Run *r, const uint8_t *data, size_t size) {
	Source *source = arena_alloc(&r->arena, sizeof *source);
	*source = source_of(r, "graph.json", data, size);
	json_t *root = json_loadb(source->text, size, JSON_REJECT_DUPLICATES, NULL);
	const json_t *said = json_object_get(root, "x_fuzz");
	CompileOptions options;
	bool ok = options_of(r, said, &options);
	const SizeChoices sizes = sizes_at(r, said);
	json_decref(root);
	Module *m = ok ? module_load_sized(&r->arena, &r->diag, source, options.target, &sizes) : NULL;
	check_refused(r, !m);
	if (m)
		compile_with(r, m, &options, size);
}

static void run_compile(const uint8_t *data, size_t size) { run_in(compile_body, data, size); }

/* ---- kernel ------------------------------------------------------------------------------------------------------ */

/* The text of what was read, as it is read again; NULL: it is refused. */
static const char *kernel_written(Run *r, const Source *source) {
	Text out;
	text_init(&out, &r->arena);
	if (!compile_kernel_text(&r->arena, &r->diag, source, NULL, EMIT_KERNEL, &out))
		return NULL;
	check_printable("kernel text is not printable", out.at, out.length);
	return out.at;
}

static void kernel_body(Run *r, const uint8_t *data, size_t size) {
	Source *first = arena_alloc(&r->arena, sizeof *first), *second = arena_alloc(&r->arena, sizeof *second);
	*first = source_of(r, "text.kernel", data, size);
	const char *once = kernel_written(r, first);
	check_refused(r, !once);
	if (!once)
		return;
	*second = (Source){"again.kernel", once, strlen(once)};
	const char *twice = kernel_written(r, second);
	if (!twice || strcmp(once, twice) != 0)
		fail("kernel text that is read again is another, or refused",
		     twice ? once : r->diag.list.at[0].message);
	CompileOptions options = {.verify_kernels = true, .named_scopes = size % 2 == 0};
	for (int emit = EMIT_PYTHON; emit <= EMIT_OPERATIONS; emit += EMIT_OPERATIONS - EMIT_PYTHON) {
		Text out;
		text_init(&out, &r->arena);
		bool ok = compile_kernel_text(&r->arena, &r->diag, first, &options, (Emit)emit, &out);
		check_refused(r, !ok);
		if (ok)
			check_printable("the module is not printable", out.at ? out.at : "", out.length);
	}
}

static void run_kernel(const uint8_t *data, size_t size) { run_in(kernel_body, data, size); }

/* ---- target ------------------------------------------------------------------------------------------------------ */

/* Small graphs of testdata/graphs, from the root of the tree: read once, whatever runs. */
static const char *const graph_names[] = {"add_odd", "softmax_odd", "matmul_1024", "nested_sums"};
enum { GRAPHS = sizeof graph_names / sizeof *graph_names };

static const Source *graph_at(size_t i) {
	static Source found[GRAPHS];
	static char texts[GRAPHS][1 << 16];
	Source *s = &found[i % GRAPHS];
	if (s->text)
		return s;
	char path[128];
	(void)snprintf(path, sizeof path, "testdata/graphs/%s.json", graph_names[i % GRAPHS]);
	FILE *file = fopen(path, "rb");
	if (!file)
		fail("this runs in the root of the tree", path);
	size_t length = fread(texts[i % GRAPHS], 1, sizeof texts[0] - 1, file);
	(void)fclose(file);
	*s = (Source){.name = graph_names[i % GRAPHS], .text = texts[i % GRAPHS], .length = length};
	return s;
}

static void judge_some(Run *r, const Module *m, const CompileOptions *options, const Source *spec, uint64_t seed) {
	enum { JUDGED = 2 };
	ConfigSpace *space = space_new(&r->arena, &r->diag, module_clone(m, &r->arena), options,
	                               spec->text ? spec : NULL, JUDGED, seed);
	check_refused(r, !space);
	if (!space)
		return;
	Shared *shared = shared_new(&r->arena, shared_ways_new(&r->arena), space->start, &r->oom);
	for (uint64_t i = 0; i < space->count && i < JUDGED; i++) {
		Arena own;
		Text out;
		arena_init(&own, &r->oom);
		Judgement found = space_judge(space, space_number(space, i), options, 0, shared, &own);
		text_init(&out, &r->arena);
		judgement_put(space, space_number(space, i), &found, &own, &out);
		check_printable("a line of a sweep is not printable", out.at, out.length);
		arena_free(&own);
	}
	shared_free(shared);
}

static void target_body(Run *r, const uint8_t *data, size_t size) {
	json_t *root = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
	CompileOptions options;
	bool ok = options_of(r, root, &options);
	const SizeChoices sizes = sizes_at(r, root);
	const size_t graph = (size_t)json_integer_value(json_object_get(root, "graph"));
	Source *space = arena_alloc(&r->arena, sizeof *space);
	*space = source_at(r, root, "space");
	const bool sweep = json_object_get(root, "space") != NULL;
	json_decref(root);
	check_refused(r, !ok);
	if (!ok)
		return;
	Text out;
	text_init(&out, &r->arena);
	target_put(options.target, &out);
	check_printable("a target is not printable", out.at, out.length);
	Source *again = arena_alloc(&r->arena, sizeof *again);
	*again = (Source){"again.json", out.at, out.length};
	if (!target_load(&r->arena, &r->diag, again))
		fail("what --print-target writes is refused", r->diag.list.at[0].message);
	Module *m = module_load_sized(&r->arena, &r->diag, graph_at(graph), options.target, &sizes);
	check_refused(r, !m);
	if (m && sweep && (m->typing != TYPING_UNKNOWN || module_verify_symbols(m, &r->diag)))
		judge_some(r, m, &options, space, size);
	else if (m && !sweep)
		compile_with(r, m, &options, size);
}

static void run_target(const uint8_t *data, size_t size) { run_in(target_body, data, size); }

const FuzzTarget fuzz_targets[] = {{"load", run_load, false},
                                   {"compile", run_compile, false},
                                   {"kernel", run_kernel, true},
                                   {"target", run_target, false},
                                   {0}};
