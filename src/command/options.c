/* options.c - the command line of pallasc: one row per option. */
#include "options.h"
#include "codegen/rewrite/rewrite.h"
#include "src/load/load.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

typedef struct Parser {
	Arena *arena;
	Options *options;
	const char *error; /* the first one */
} Parser;

/* `value` is NULL for an option that takes none; `name` is as the user wrote it. */
typedef void OptionAction(Parser *p, const char *name, const char *value);

PRINTF_LIKE(2, 3) static void fail(Parser *p, const char *fmt, ...) {
	va_list ap;
	va_start(ap, fmt);
	if (!p->error)
		p->error = arena_vprintf(p->arena, fmt, ap);
	va_end(ap);
}

/* The first name that begins with the word, for words cut short; else the nearest; NULL. */
static const char *nearest(const char *word, const char *const *names) {
	for (uint32_t i = 0; *word && names[i]; i++)
		if (strncmp(names[i], word, strlen(word)) == 0)
			return names[i];
	return name_nearest(word, names);
}

/* "; did you mean 'x'?", or the whole list where nothing is near. */
static const char *suggest(Parser *p, const char *word, const char *const *names) {
	const char *near = nearest(word, names);
	if (near)
		return arena_printf(p->arena, "; did you mean '%s'?", near);
	Text t;
	text_init(&t, p->arena);
	text_put(&t, "; one of: ");
	for (uint32_t i = 0; names[i]; i++)
		text_printf(&t, "%s%s", i ? ", " : "", names[i]);
	return t.at;
}

/* The index of `value` among `names`, or -1 after an error. */
static int choose(Parser *p, const char *name, const char *value, const char *const *names) {
	for (int i = 0; names[i]; i++)
		if (strcmp(value, names[i]) == 0)
			return i;
	fail(p, "unknown value '%s' for %s%s", value, name, suggest(p, value, names));
	return -1;
}

/* ---- options with a value --------------------------------------------------------------------------------------- */

static void set_emit(Parser *p, const char *name, const char *value) {
	int i = choose(p, name, value, emit_names());
	p->options->emit = i < 0 ? EMIT_PYTHON : (Emit)i;
	p->options->emit_given = true;
}

static bool is_target_file(const char *value) {
	size_t n = strlen(value);
	return n > 5 && strcmp(value + n - 5, ".json") == 0;
}

static void set_target(Parser *p, const char *name, const char *value) {
	(void)name;
	p->options->target = value;
	p->options->target_given = true;
	if (!is_target_file(value) && !target_find(value))
		fail(p, "unknown target '%s'%s", value, suggest(p, value, target_names()));
}

static void add_config(Parser *p, const char *name, const char *value) {
	(void)name;
	vec_push(p->arena, &p->options->configs, value);
}

static void add_set(Parser *p, const char *name, const char *value) {
	const char *equals = strchr(value, '=');
	if (!equals || equals == value)
		fail(p, "expected KEY=VALUE after %s, found '%s'", name, value);
	vec_push(p->arena, &p->options->sets, value);
}

static void add_size(Parser *p, const char *name, const char *value) {
	size_t length;
	int64_t size;
	if (!size_choice_read(value, &length, &size))
		fail(p, "expected NAME=SIZE after %s, a size from 1 to %d, found '%s'", name, NAMED_SIZE_MAX, value);
	vec_push(p->arena, &p->options->sizes, value);
}

/* NAME=SIZE,SIZE,... */
static void add_size_list(Parser *p, const char *name, const char *value) {
	size_t length = strcspn(value, "=");
	SizeValues list = {.name = arena_printf(p->arena, "%.*s", (int)length, value)};
	for (const char *at = value + length; *at && !p->error;) {
		size_t n = strcspn(++at, ","), named;
		int64_t size;
		if (!size_choice_read(arena_printf(p->arena, "%s=%.*s", list.name, (int)n, at), &named, &size))
			break;
		for (uint32_t i = 0; i < list.values.count; i++)
			if (list.values.at[i] == size)
				fail(p, "%s %s has %lld twice", name, value, (long long)size);
		vec_push(p->arena, &list.values, size);
		at += n;
		if (!*at) {
			vec_push(p->arena, &p->options->size_lists, list);
			return;
		}
	}
	fail(p, "expected NAME=SIZE,SIZE,... after %s, sizes from 1 to %d, found '%s'", name, NAMED_SIZE_MAX, value);
}

/* One module of several sizes is Python, and says each size once. */
static void check_size_lists(Parser *p) {
	const Options *o = p->options;
	const char *stages = "leave out other --emit, --passes, --rewrites and --print-...";
	if (o->size_lists.count && o->action == ACTION_SWEEP)
		fail(p, "a sweep is of one size: give --size instead of --sizes");
	else if (o->size_lists.count &&
	         ((o->emit != EMIT_PYTHON && o->emit != EMIT_NONE) || o->passes_given || o->rewrites_given ||
	          o->print_before.count || o->print_after.count || o->print_after_all))
		fail(p, "--sizes prints one module of several sizes: %s", stages);
	else if (o->size_lists.count && o->backwards.count)
		fail(p, "a pair is of one size: give --size instead of --sizes");
	for (uint32_t i = 0; i < o->size_lists.count; i++) {
		const char *name = o->size_lists.at[i].name;
		size_t n = strlen(name);
		for (uint32_t k = 0; k < o->sizes.count; k++)
			if (strncmp(o->sizes.at[k], name, n) == 0 && o->sizes.at[k][n] == '=')
				fail(p, "the size '%s' is given by --size and by --sizes", name);
		for (uint32_t k = 0; k < i; k++)
			if (strcmp(o->size_lists.at[k].name, name) == 0)
				fail(p, "--sizes is given twice for '%s'", name);
	}
}

static const char *const *pass_names(Parser *p) {
	uint32_t count = 0;
	while (pass_list()[count].name)
		count++;
	const char **names = arena_array(p->arena, (size_t)count + 1, sizeof *names);
	for (uint32_t i = 0; i < count; i++)
		names[i] = pass_list()[i].name;
	return names;
}

static const char *const *rewrite_names(Parser *p) {
	uint32_t count = 0;
	while (kernel_rewrites()[count].name)
		count++;
	const char **names = arena_array(p->arena, (size_t)count + 1, sizeof *names);
	for (uint32_t i = 0; i < count; i++)
		names[i] = kernel_rewrites()[i].name;
	return names;
}

/* Calls `add` with each pass of a comma-separated list. */
static void each_pass(Parser *p, const char *value, void (*add)(Parser *p, const Pass *pass)) {
	for (const char *at = value; *at;) {
		size_t n = strcspn(at, ",");
		const char *word = arena_printf(p->arena, "%.*s", (int)n, at);
		const Pass *pass = pass_find(word);
		if (pass)
			add(p, pass);
		else
			fail(p, "unknown pass '%s'%s", word, suggest(p, word, pass_names(p)));
		at += n;
		if (strcmp(at, ",") == 0)
			fail(p, "the list of passes '%s' ends with a comma", value);
		at += *at == ',';
	}
}

static void add_pass(Parser *p, const Pass *pass) { vec_push(p->arena, &p->options->passes, pass->name); }
static void add_before(Parser *p, const Pass *pass) { vec_push(p->arena, &p->options->print_before, pass); }
static void add_after(Parser *p, const Pass *pass) { vec_push(p->arena, &p->options->print_after, pass); }

static void set_passes(Parser *p, const char *name, const char *value) {
	(void)name;
	p->options->passes.count = 0; /* the last --passes counts */
	each_pass(p, value, add_pass);
	p->options->passes_given = true;
}

static void set_rewrites(Parser *p, const char *name, const char *value) {
	(void)name;
	p->options->rewrites.count = 0; /* the last --rewrites counts */
	p->options->rewrites_given = true;
	for (const char *at = value; *at;) {
		size_t n = strcspn(at, ",");
		const char *word = arena_printf(p->arena, "%.*s", (int)n, at);
		if (rewrite_find(word))
			vec_push(p->arena, &p->options->rewrites, word);
		else
			fail(p, "unknown rewrite '%s'%s", word, suggest(p, word, rewrite_names(p)));
		at += n;
		if (strcmp(at, ",") == 0)
			fail(p, "the list of rewrites '%s' ends with a comma", value);
		at += *at == ',';
	}
}

static void set_print_before(Parser *p, const char *name, const char *value) {
	(void)name;
	each_pass(p, value, add_before);
}

static void set_print_after(Parser *p, const char *name, const char *value) {
	(void)name;
	each_pass(p, value, add_after);
}

static void set_diagnostics(Parser *p, const char *name, const char *value) {
	static const char *const names[] = {"text", "json", NULL};
	p->options->diagnostics = choose(p, name, value, names) == 1 ? DIAG_JSON : DIAG_TEXT;
}

static void set_color(Parser *p, const char *name, const char *value) {
	static const char *const names[] = {"auto", "always", "never", NULL};
	int i = choose(p, name, value, names);
	p->options->color = i < 0 ? COLOR_AUTO : (ColorWhen)i;
}

static void set_output(Parser *p, const char *name, const char *value) {
	if (*value == '\0')
		fail(p, "%s needs the name of a file", name);
	p->options->output = value;
}

/* An int from `low` to `high`; `what` it is a number of. */
static uint64_t read_count(Parser *p, const char *name, const char *value, const char *what, uint64_t low,
                           uint64_t high) {
	char *end;
	errno = 0;
	unsigned long long count = strtoull(value, &end, 10);
	if (is_digit(*value) && *end == '\0' && errno == 0 && count >= low && count <= high)
		return count;
	fail(p, "%s needs a number of %s, %llu or more, not '%s'", name, what, (unsigned long long)low, value);
	return low;
}

/* A sweep's; one graph is compiled by one thread, and scripts may say so. */
static void set_jobs(Parser *p, const char *name, const char *value) {
	p->options->threads = (uint32_t)read_count(p, name, value, "threads", 1, INT_MAX);
}

static void set_mesh(Parser *p, const char *name, const char *value) {
	Mesh mesh;
	const char *error = mesh_parse(p->arena, value, &mesh);
	if (error)
		fail(p, "%s: %s", name, error);
	p->options->shard.mesh = value;
}

/* All of one option as one list. */
static void add_pairs(Parser *p, const char **list, const char *value) {
	*list = *list ? arena_printf(p->arena, "%s,%s", *list, value) : value;
}

/* NODE[:all],... */
static void add_debug_prints(Parser *p, const char *name, const char *value) {
	for (const char *at = value; *at || at == value;) {
		size_t n = strcspn(at, ",");
		if (n == 0 || (at[n] && !at[n + 1]))
			fail(p, "%s needs names of nodes, with commas between, not '%s'", name, value);
		vec_push(p->arena, &p->options->debug_prints, arena_printf(p->arena, "%.*s", (int)n, at));
		at += n + 1 - (at[n] == '\0');
		if (n == 0)
			return;
	}
}

static void add_shard(Parser *p, const char *name, const char *value) {
	(void)name;
	add_pairs(p, &p->options->shard.blocks, value);
}

static void add_gather(Parser *p, const char *name, const char *value) {
	(void)name;
	add_pairs(p, &p->options->shard.gather, value);
}

static void add_scatter(Parser *p, const char *name, const char *value) {
	(void)name;
	add_pairs(p, &p->options->shard.scatter, value);
}

static void set_ring(Parser *p, const char *name, const char *value) {
	if (!ring_way_read(value, &p->options->shard))
		fail(p, "%s is wrapper, kernel, kernel:bfloat16, auto or auto:bfloat16, not '%s'", name, value);
}

/* Bytes: 1048576, 1024KiB, 1MiB. */
static void set_vmem(Parser *p, const char *name, const char *value) {
	static const struct {
		const char *name;
		int shift;
	} units[] = {{"", 0}, {"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}};
	char *end;
	errno = 0;
	unsigned long long count = strtoull(value, &end, 10);
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (is_digit(*value) && errno == 0 && strcmp(end, units[i].name) == 0 && count > 0 &&
		    count <= (unsigned long long)INT64_MAX >> units[i].shift) {
			p->options->vmem_bytes = (int64_t)(count << units[i].shift);
			return;
		}
	fail(p, "%s needs a size such as 32MiB, not '%s'", name, value);
}

/* Percent: 5, 2.5%, -3. */
static void set_vmem_margin(Parser *p, const char *name, const char *value) {
	char *end;
	double percent = strtod(value, &end);
	bool starts = is_digit(*value) || ((*value == '-' || *value == '+') && is_digit(value[1]));
	if (!starts || (*end && strcmp(end, "%") != 0))
		fail(p, "%s needs a percentage such as 5 or -2.5, not '%s'", name, value);
	else
		p->options->vmem_margin = percent;
}

static void for_sweep(Parser *p, const char *name) {
	if (!p->options->sweep_only)
		p->options->sweep_only = name;
}

static void set_space(Parser *p, const char *name, const char *value) {
	for_sweep(p, name);
	p->options->space = value;
}

static void set_sample(Parser *p, const char *name, const char *value) {
	for_sweep(p, name);
	p->options->sample = read_count(p, name, value, "configurations", 1, UINT64_MAX);
}

static void set_seed(Parser *p, const char *name, const char *value) {
	for_sweep(p, name);
	p->options->seed = read_count(p, name, value, "a seed", 0, UINT64_MAX);
}

static void set_top(Parser *p, const char *name, const char *value) {
	for_sweep(p, name);
	p->options->table = true;
	p->options->top = (uint32_t)read_count(p, name, value, "rows", 1, 1000000);
}

static void set_sweep(Parser *p, const char *name, const char *value) {
	(void)name;
	p->options->action = ACTION_SWEEP;
	if (value)
		p->options->space = value;
}

/* ---- pairs: a forward and its backwards ------------------------------------------------------------------------ */

static void add_backward(Parser *p, const char *name, const char *value) {
	if (*value == '\0')
		fail(p, "%s needs the name of a file", name);
	vec_push(p->arena, &p->options->backwards, value);
}

typedef VEC(const char *) Words;

/* Words with commas between. */
static Words words_of(Parser *p, const char *name, const char *value, bool pairs) {
	Words words = {0};
	if (!p->options->pair_only)
		p->options->pair_only = name;
	for (const char *at = value; *at;) {
		size_t n = strcspn(at, ",");
		const char *word = arena_printf(p->arena, "%.*s", (int)n, at);
		const char *equals = strchr(word, '=');
		if (pairs && (!equals || equals == word || !equals[1]))
			fail(p, "expected BACKWARD=FORWARD, the names of two arrays, after %s, found '%s'", name, word);
		vec_push(p->arena, &words, word);
		at += n + (at[n] == ',');
	}
	if (words.count == 0)
		fail(p, "%s needs names, with commas between", name);
	return words;
}

#define WORDS(function, list, pairs)                                                                                   \
	static void function(Parser *p, const char *name, const char *value) {                                         \
		Words words = words_of(p, name, value, pairs);                                                         \
		for (uint32_t i = 0; i < words.count; i++)                                                             \
			vec_push(p->arena, &p->options->list, words.at[i]);                                            \
	}
WORDS(add_residuals, residuals, true)
WORDS(add_cotangents, cotangents, true)
WORDS(add_gradients, gradients, true)
WORDS(add_returns, returns, false)
WORDS(add_nondiff, nondiff, false)
#undef WORDS

/* ---- options without -------------------------------------------------------------------------------------------- */

#define FLAG(function, statement)                                                                                      \
	static void function(Parser *p, const char *name, const char *value) {                                         \
		(void)name;                                                                                            \
		(void)value;                                                                                           \
		statement;                                                                                             \
	}
FLAG(set_help, p->options->action = ACTION_HELP)
FLAG(set_version, p->options->action = ACTION_VERSION)
FLAG(set_print_targets, p->options->action = ACTION_TARGETS)
FLAG(set_print_target, p->options->action = ACTION_TARGET)
FLAG(set_print_passes, p->options->action = ACTION_PASSES)
FLAG(set_print_rewrites, p->options->action = ACTION_REWRITES)
FLAG(set_print_after_all, p->options->print_after_all = true)
FLAG(set_verify_each, p->options->verify_each = true)
FLAG(set_table, (for_sweep(p, name), p->options->table = true))
FLAG(set_adapt, p->options->adapt = true)
FLAG(set_named_scopes, p->options->named_scopes = true)
FLAG(set_explain, p->options->explain = true)
FLAG(set_verbose, p->options->verbose = true)
#undef FLAG

/* ---- the table -------------------------------------------------------------------------------------------------- */

typedef enum TakesValue { NO_VALUE, A_VALUE, MAYBE_A_VALUE } TakesValue; /* maybe: only behind = */

typedef struct Option {
	const char *name;
	TakesValue takes_value;
	OptionAction *action;
} Option;

static const Option table[] = {
	{"--emit", A_VALUE, set_emit},
	{"--target", A_VALUE, set_target},
	{"--print-targets", NO_VALUE, set_print_targets},
	{"--print-target", NO_VALUE, set_print_target},
	{"--config", A_VALUE, add_config},
	{"--set", A_VALUE, add_set},
	{"--size", A_VALUE, add_size},
	{"--sizes", A_VALUE, add_size_list},
	{"--mesh", A_VALUE, set_mesh},
	{"--shard", A_VALUE, add_shard},
	{"--gather", A_VALUE, add_gather},
	{"--scatter", A_VALUE, add_scatter},
	{"--ring", A_VALUE, set_ring},
	{"--debug-print", A_VALUE, add_debug_prints},
	{"--named-scopes", NO_VALUE, set_named_scopes},
	{"--adapt", NO_VALUE, set_adapt},
	{"--vmem", A_VALUE, set_vmem},
	{"--vmem-margin", A_VALUE, set_vmem_margin},
	{"--sweep", MAYBE_A_VALUE, set_sweep},
	{"--space", A_VALUE, set_space},
	{"--sample", A_VALUE, set_sample},
	{"--seed", A_VALUE, set_seed},
	{"--table", NO_VALUE, set_table},
	{"--top", A_VALUE, set_top},
	{"--backward", A_VALUE, add_backward},
	{"--residuals", A_VALUE, add_residuals},
	{"--cotangents", A_VALUE, add_cotangents},
	{"--gradients", A_VALUE, add_gradients},
	{"--returns", A_VALUE, add_returns},
	{"--nondiff", A_VALUE, add_nondiff},
	{"--passes", A_VALUE, set_passes},
	{"--print-passes", NO_VALUE, set_print_passes},
	{"--rewrites", A_VALUE, set_rewrites},
	{"--print-rewrites", NO_VALUE, set_print_rewrites},
	{"--print-before", A_VALUE, set_print_before},
	{"--print-after", A_VALUE, set_print_after},
	{"--print-after-all", NO_VALUE, set_print_after_all},
	{"--verify-each", NO_VALUE, set_verify_each},
	{"--explain", NO_VALUE, set_explain},
	{"--diagnostics", A_VALUE, set_diagnostics},
	{"--color", A_VALUE, set_color},
	{"--version", NO_VALUE, set_version},
	{"--help", NO_VALUE, set_help},
	{"-h", NO_VALUE, set_help},
	{"-v", NO_VALUE, set_verbose},
	{"-j", A_VALUE, set_jobs},
	{"-o", A_VALUE, set_output},
};
enum { OPTION_COUNT = sizeof table / sizeof table[0] };

const char *options_help(void) {
	return "usage: pallasc [compile] [options] [GRAPH.json | KERNEL.kernel | -]\n"
	       "       pallasc sweep [options] [GRAPH.json | -];  pallasc explain [CODE of a message]\n"
	       "       pallasc check | run | aot | profile | tune | export | grad | ... [--help]: Python's\n"
	       "\n"
	       "Compiles a graph of tile operations (JSON, format fxtile 1) to a Pallas TPU kernel: a\n"
	       "standalone Python module; or what --emit=kernel wrote. Without a file: standard input.\n"
	       "\n"
	       "  -o FILE               write there, atomically, instead of to standard output\n"
	       "  --emit=WHAT           python (default): the module; json: the graph after the passes;\n"
	       "                        plan: as JSON; kernel: the kernels as text, which can be read\n"
	       "                        again; operations: on registers; dot: Graphviz; report: the plan\n"
	       "                        for people; html: a page of all that, to look at; none: only check\n"
	       "  --target=CHIP         "
#define TARGET(name, ...) #name ", "
#include "targets.def"
#undef TARGET
	       "or a .json file; default v6e\n"
	       "  --print-targets       list the chips; --print-target: that of --target, as such a file\n"
	       "  --config FILE         a configuration (JSON object) over the graph's own\n"
	       "  --set KEY=VALUE       one key over that; repeatable\n"
	       "  --size NAME=SIZE      a named size over the graph's own; repeatable\n"
	       "  --sizes NAME=A,B,...  one module for several, by its arguments' shapes; combinations\n"
	       "  --adapt               if it is refused, the nearest that is accepted; notes say why\n"
	       "  --mesh AXIS=N,...     split it over a mesh; --shard BLOCK=AXIS: what an axis cuts;\n"
	       "                        --gather, --scatter ARRAY=AXIS: what travels, by --ring=WAY\n"
	       "  --debug-print NODE    print its values as it runs; --named-scopes: lines in profiles\n"
	       "  --vmem SIZE           a budget of VMEM, such as 32MiB, less than the chip has\n"
	       "  --vmem-margin PERCENT of it that an estimate must leave free; -3: it may be over by\n"
	       "  --backward BWD.json   one module of both, which jax.grad differentiates; repeatable\n"
	       "                        (docs/gradients.md). What names do not say: --residuals B=F,...,\n"
	       "                        --cotangents, --gradients, --returns F,..., --nondiff F,...\n"
	       "\n"
	       "  --passes=P,Q,...      run just these passes, in this order; implies --emit=json\n"
	       "  --print-passes        list the passes in the pipeline's order\n"
	       "  --print-before=P      the graph before pass P, as JSON on standard error\n"
	       "  --print-after=P       and after it; --print-after-all: after each\n"
	       "  --rewrites=R,Q,...    run just these rewrites of kernels, in their own order; implies\n"
	       "                        --emit=kernel; --print-rewrites lists them\n"
	       "  --verify-each         verify the graph after each pass, kernels after each rewrite\n"
	       "\n"
	       "  sweep, --sweep[=SPEC] judge many configurations: a line of JSON for each\n"
	       "  --space SPEC          values to try by key or block: a JSON object, or a .json file\n"
	       "  --sample N, --seed S  N configurations, spread evenly over all\n"
	       "  --table, --top N      the N (20) fastest, and why how many are refused; -j N: threads\n"
	       "\n"
	       "  --explain             each decision and why, on standard error\n"
	       "  --diagnostics=FORMAT  text (default) or json, one object per line\n"
	       "  --color=WHEN          auto (default), always or never; and -v, --version, --help\n"
	       "\n"
	       "Exit status: 0 done; 1 graph or settings refused; 2 wrong usage; 3 cannot read or write.\n"
	       "\n"
	       "  pallasc attention.json --set block_sizes=[1,256,512] --explain -o attention.py\n";
}

/* ---- parsing ---------------------------------------------------------------------------------------------------- */

static const Option *option_find(const char *name, size_t length) {
	for (size_t i = 0; i < OPTION_COUNT; i++)
		if (strlen(table[i].name) == length && memcmp(table[i].name, name, length) == 0)
			return &table[i];
	return NULL;
}

static void unknown_option(Parser *p, const char *name) {
	const char *names[OPTION_COUNT + 1] = {NULL};
	for (size_t i = 0; i < OPTION_COUNT; i++)
		names[i] = table[i].name;
	const char *near = strlen(name) > 2 ? nearest(name, names) : NULL;
	if (near)
		fail(p, "unknown option %s; did you mean %s?", name, near);
	else
		fail(p, "unknown option %s", name);
}

/* Consumes an option, and the argument after it if that is its value; returns the arguments used up. */
static int parse_option(Parser *p, char *const *argv, int left) {
	const char *word = argv[0], *value = NULL;
	bool is_long = word[1] == '-';
	size_t length = is_long ? strcspn(word, "=") : 2;
	const char *name = arena_printf(p->arena, "%.*s", (int)length, word);
	const Option *option = option_find(word, length);
	if (word[length] != '\0')
		value = word + length + is_long; /* --name=value, -nVALUE */
	if (!option) {
		unknown_option(p, is_long ? name : word);
		return 1;
	}
	if (option->takes_value == NO_VALUE && value) {
		if (is_long)
			fail(p, "%s takes no value", name);
		else
			unknown_option(p, word);
		return 1;
	}
	bool next = option->takes_value == A_VALUE && !value;
	if (next && left < 2) {
		fail(p, "%s needs a value", name);
		return 1;
	}
	option->action(p, name, next ? argv[1] : value);
	return next ? 2 : 1;
}

static void add_input(Parser *p, const char *word) {
	if (p->options->input)
		fail(p, "more than one graph: '%s' and '%s'", p->options->input, word);
	else if (*word == '\0')
		fail(p, "the name of the graph's file is empty");
	p->options->input = word;
}

static void check_standard_input(Parser *p) {
	int uses = strcmp(p->options->input, "-") == 0;
	for (uint32_t i = 0; i < p->options->configs.count; i++)
		uses += strcmp(p->options->configs.at[i], "-") == 0;
	for (uint32_t i = 0; i < p->options->backwards.count; i++)
		uses += strcmp(p->options->backwards.at[i], "-") == 0;
	if (uses > 1)
		fail(p, "standard input can be read only once: as the graph, a --config or a --backward");
}

/* Options that a sweep does not take, and those that only it takes. */
static void check_sweep(Parser *p) {
	const Options *o = p->options;
	bool texts = o->emit_given || o->passes_given || o->rewrites_given || o->print_before.count ||
	             o->print_after.count || o->print_after_all || o->explain || o->adapt || o->verify_each;
	if (o->action == ACTION_SWEEP && o->debug_prints.count)
		fail(p, "a sweep runs no kernels: leave out --debug-print");
	if (o->shard.mesh && o->backwards.count)
		fail(p, "a forward and its --backward cannot be split over a --mesh");
	if ((o->shard.blocks || o->shard.gather || o->shard.scatter) && !o->shard.mesh)
		fail(p, "%s: there is no --mesh",
		     o->shard.blocks ? "--shard says what an axis of --mesh cuts"
		                     : "--gather and --scatter are along an axis of --mesh");
	if (o->shard.way != RING_IN_WRAPPER && !o->shard.gather && !o->shard.scatter)
		fail(p, "--ring says what moves the parts of --gather and --scatter");
	if (o->action == ACTION_SWEEP && o->shard.mesh)
		fail(p, "a sweep takes no --mesh");
	if (o->shard.mesh && o->size_lists.count)
		fail(p, "--sizes prints kernels of one device: give --size with --mesh");
	if (o->action == ACTION_COMPILE && o->sweep_only)
		fail(p, "%s is for a sweep: pallasc sweep, or --sweep", o->sweep_only);
	else if (o->action == ACTION_SWEEP && texts)
		fail(p, "a sweep judges configurations and prints no stage of them: leave out --emit, --passes, "
		        "--rewrites, --print-..., --explain, --adapt and --verify-each");
}

/* Options that a pair does not take, and those that only it takes. */
static void check_pair(Parser *p) {
	const Options *o = p->options;
	bool stages = o->passes_given || o->rewrites_given || o->print_before.count || o->print_after.count ||
	              o->print_after_all || (o->emit_given && o->emit != EMIT_PYTHON && o->emit != EMIT_NONE);
	if (!o->backwards.count && o->pair_only)
		fail(p, "%s is for a pair of graphs: it needs a --backward", o->pair_only);
	else if (o->backwards.count && o->action == ACTION_SWEEP)
		fail(p, "a sweep judges one graph: leave out --backward");
	else if (o->backwards.count && o->size_lists.count)
		fail(p, "a pair is of one size: give --size instead of --sizes");
	else if (o->backwards.count && stages)
		fail(p,
		     "--backward makes a Python module of several graphs: leave out --emit, --passes, --rewrites and "
		     "--print-...");
}

const char *options_parse(Arena *a, int argc, char *const *argv, Options *options) {
	*options = (Options){.output = "-", .target = "v6e", .top = 20};
	Parser p = {.arena = a, .options = options};
	bool only_files = false;
	for (int i = 1; i < argc;) { /* to the end, for a --diagnostics=json after the error */
		const char *word = argv[i];
		bool is_option = !only_files && word[0] == '-' && word[1] != '\0';
		if (i == 1 && (strcmp(word, "sweep") == 0 || strcmp(word, "compile") == 0))
			options->action = *word == 's' ? ACTION_SWEEP : ACTION_COMPILE;
		else if (is_option && strcmp(word, "--") == 0)
			only_files = true;
		else if (!is_option)
			add_input(&p, word);
		i += is_option && !only_files ? parse_option(&p, argv + i, argc - i) : 1;
	}
	if (!options->input)
		options->input = "-";
	if (options->passes_given && !options->emit_given)
		options->emit = EMIT_JSON;
	if (options->rewrites_given && !options->emit_given)
		options->emit = EMIT_KERNEL;
	check_standard_input(&p);
	check_sweep(&p);
	check_pair(&p);
	check_size_lists(&p);
	return p.error;
}
