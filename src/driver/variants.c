/* variants.c - one module of a graph at several sizes: each is compiled alone, under a name of its own. */
#include "driver.h"
#include "codegen/print/print.h"

typedef struct Variants {
	Arena *arena;
	Diag *diag;
	const Source *graph;
	const CompileOptions *options;
	const SizeChoices *sizes;
	const SizeValues *lists;
	uint32_t list_count;
	const char *name; /* the graph's own */
	VEC(KProgram *) programs;
	Text *explained;
} Variants;

static uint32_t combinations(const Variants *v) {
	uint64_t count = 1;
	for (uint32_t i = 0; i < v->list_count && count <= VARIANTS_MAX; i++)
		count *= v->lists[i].values.count;
	return count <= VARIANTS_MAX ? (uint32_t)count : VARIANTS_MAX + 1;
}

/* The sizes of combination `number`, and what its functions are called by: "_S1024_D64". */
static SizeChoices chosen(const Variants *v, uint32_t number, Text *suffix) {
	uint32_t count = v->sizes->count + v->list_count;
	const char **all = arena_array(v->arena, count, sizeof *all);
	for (uint32_t i = 0; i < v->sizes->count; i++)
		all[i] = v->sizes->at[i];
	for (uint32_t i = v->list_count; i-- > 0;) {
		const SizeValues *list = &v->lists[i];
		int64_t value = list->values.at[number % list->values.count];
		number /= list->values.count;
		all[v->sizes->count + i] = arena_printf(v->arena, "%s=%lld", list->name, (long long)value);
	}
	for (uint32_t i = v->sizes->count; i < count; i++) {
		size_t name = strcspn(all[i], "=");
		text_printf(suffix, "_%.*s%s", (int)name, all[i], all[i] + name + 1);
	}
	return (SizeChoices){all, count};
}

/* What was said of an earlier one in the same words is said once. */
static void forget_repeated(Diag *d, uint32_t from) {
	uint32_t kept = from;
	for (uint32_t i = from; i < d->list.count; i++) {
		const Diagnostic *x = &d->list.at[i];
		bool known = false;
		for (uint32_t k = 0; k < from && !known; k++) {
			const Diagnostic *y = &d->list.at[k];
			known = strcmp(x->code, y->code) == 0 && strcmp(x->message, y->message) == 0;
		}
		if (!known)
			d->list.at[kept++] = *x;
	}
	d->list.count = kept;
}

static bool compile_one(Variants *v, uint32_t number) {
	uint32_t before = v->diag->list.count;
	Text suffix;
	text_init(&suffix, v->arena);
	SizeChoices sizes = chosen(v, number, &suffix);
	Module *m = module_load_sized(v->arena, v->diag, v->graph, v->options->target, &sizes);
	if (!m)
		return false;
	v->name = m->name;
	m->name = string_intern(v->arena, &m->strings, arena_printf(v->arena, "%s%s", m->name, suffix.at));
	Compilation job;
	compile_init(&job, v->options, v->arena, v->diag, m);
	bool ok = compile_module(&job) && compile_plan(&job);
	if (v->options->explain) {
		text_printf(v->explained, "%s:\n", m->name);
		compile_explain(&job, v->explained);
	}
	KProgram *p = ok ? compile_kernels(&job) : NULL;
	if (!p || !kernels_have_python(v->diag, p)) {
		module_note_sizes(m, v->diag);
		return false;
	}
	forget_repeated(v->diag, before);
	vec_push(v->arena, &v->programs, p);
	return true;
}

static bool same_shapes(const KProgram *p, const KProgram *q) {
	bool same = true;
	for (uint32_t i = 0; i < p->inputs.count && same; i++) {
		const KArray *x = &p->inputs.at[i], *y = &q->inputs.at[i];
		same = x->rank == y->rank && memcmp(x->shape, y->shape, x->rank * sizeof *x->shape) == 0;
	}
	return same;
}

/* The last one's, from those of all before it: else nobody could tell which of two is meant. */
static bool shapes_differ(const Variants *v) {
	const KProgram *last = v->programs.at[v->programs.count - 1];
	for (uint32_t i = 0; i + 1 < v->programs.count; i++)
		if (same_shapes(v->programs.at[i], last)) {
			diag_error(v->diag, (Place){.source = v->graph}, "sizes-ambiguous",
			           "give --sizes of what the shapes of inputs say, the others by --size",
			           "the arguments of %s and of %s have the same shapes: none tells which is meant",
			           v->programs.at[i]->name, last->name);
			return false;
		}
	return true;
}

bool compile_variants(Arena *a, Diag *d, const Source *graph, const CompileOptions *options, const SizeChoices *sizes,
                      const SizeValues *lists, uint32_t list_count, Text *out, Text *explained) {
	Variants v = {.arena = a,
	              .diag = d,
	              .graph = graph,
	              .options = options,
	              .sizes = sizes,
	              .lists = lists,
	              .list_count = list_count,
	              .explained = explained};
	uint32_t count = combinations(&v);
	if (count > VARIANTS_MAX) {
		diag_error(d, (Place){.source = graph}, "sizes-many", "make several modules",
		           "--sizes give more than %d combinations", VARIANTS_MAX);
		return false;
	}
	for (uint32_t i = 0; i < count; i++)
		if (!compile_one(&v, i) || !shapes_differ(&v))
			return false;
	kernels_print_variants(v.programs.at, v.programs.count, v.name, out);
	return true;
}
