/* driver.h - the pipeline, once, for the command (main.c) and the library (libpallasc.c):
 *
 *     module_load() -> compile_module() -> compile_plan() -> compile_emit()
 *
 * The only part of src that knows passes and codegen. */
#ifndef PALLASC_DRIVER_H
#define PALLASC_DRIVER_H

#include "codegen/kernel/kernel.h"
#include "codegen/pair/pair.h"
#include "codegen/plan/plan.h"
#include "passes/pipeline/pipeline.h"
#include "src/load/load.h"
#include "src/shard/shard.h"

/* What a compilation can give; the order of --help. */
typedef enum Emit {
	EMIT_PYTHON,
	EMIT_JSON,
	EMIT_PLAN,
	EMIT_KERNEL,
	EMIT_OPERATIONS,
	EMIT_DOT,
	EMIT_REPORT,
	EMIT_HTML,
	EMIT_NONE
} Emit;
/* "python", ..., by Emit; NULL-terminated. */
const char *const *emit_names(void);

typedef struct CompileOptions {
	const Target *target;
	const Source
		*configs; /* `config_count` documents over the graph's own configuration, each over the one before */
	uint32_t config_count;
	const char *const *sets; /* `set_count` strings KEY=VALUE, over all of them */
	uint32_t set_count;
	const char *const *passes; /* `pass_count` names of those to run, in this order; NULL: the whole pipeline */
	uint32_t pass_count;
	const char *const
		*rewrites; /* `rewrite_count` names of those to run on kernels, in their own order; NULL: all */
	uint32_t rewrite_count;
	bool verify_kernels;             /* as built, and after each rewrite */
	const PassHooks *hooks;          /* may be NULL */
	bool explain;                    /* remarks are wanted */
	bool keep_read;                  /* and the graph as it was read */
	ShardRequest shard;              /* a mesh that the kernel is split over; its mesh NULL: none */
	const char *const *debug_prints; /* `debug_print_count` names of nodes whose values kernels print; NAME:all */
	uint32_t debug_print_count;
	bool named_scopes; /* Python has a scope of its name for each source line */
	bool adapt;        /* the nearest configuration that is accepted, where the one given is refused */
	const char *found; /* JSON that EMIT_HTML shows in sections of its own; NULL */
} CompileOptions;

/* What a configuration comes to, without its texts. */
typedef struct Outcome {
	int64_t vmem_bytes;      /* of the largest kernel */
	double flops, hbm_bytes; /* of all kernels */
	double seconds;          /* of the plans: by these ways are compared */
	double cycles; /* of the kernels on a core; of what is past the bar of a Compilation, no more than a bound */
} Outcome;

/* share.c: what compilations of one graph under many configurations find out for each other. They come to what each
 * would come to alone. Ways are shared by all threads; all else is one thread's. */
typedef struct SharedWays SharedWays;
typedef struct Shared Shared;
SharedWays *shared_ways_new(Arena *a);
/* `start`: the Module, read and verified, of which each compilation compiles a clone. It has memory of its own. */
Shared *shared_new(Arena *a, SharedWays *ways, const Module *start, jmp_buf *oom);
void shared_free(Shared *s);
/* Before each compilation. */
void share_start(Shared *s);

/* One compilation under way. Everything in it lives in the arena. */
typedef struct Compilation {
	const CompileOptions *options;
	Arena *arena;
	Diag *diag;
	Module *module;
	Program *program;     /* NULL until compile_plan(), or until a trial is adopted */
	KProgram *kernels;    /* NULL until compile_kernels() */
	PassContext context;  /* with the passes' remarks */
	const Module *read;   /* as it was before the passes, where the options keep it; NULL */
	Module *whole_rows;   /* as it was before the passes, where the configuration keeps long rows whole; NULL */
	Shared *shared;       /* with others; NULL: none. Then there is no plan to look at, but an outcome */
	const Outcome *known; /* of the way that was found the best before; NULL */
	double bar;           /* cycles: of what takes more nobody asks how many; 0: of all */
	int64_t left;         /* of MOST_LOWERINGS */
	bool refused;         /* every way that stood to choose was */
	DebugPrints *debug_prints; /* what the options name; NULL: nothing */
} Compilation;

/* Starts on a loaded Module, which the compilation changes from now on. */
void compile_init(Compilation *c, const CompileOptions *options, Arena *a, Diag *d, Module *m);
/* Configures, verifies and runs the passes; false after diagnostics. */
bool compile_module(Compilation *c);
/* Reads what the options give over the graph's own configuration; false after diagnostics. */
bool compile_read_configuration(const CompileOptions *o, Module *m, Diag *d);
/* The same, of a Module whose configuration has been read. */
bool compile_configured(Compilation *c);
/* Plans; false after diagnostics. Facts that the plan reads and no pass of the options computed are computed first. */
bool compile_plan(Compilation *c);
/* As both, of one that may share; false after diagnostics. */
bool compile_outcome(Compilation *c, Outcome *out);
/* Of a whole plan. */
Outcome program_outcome(const Program *p, double bar, Arena *a);
/* Gives sizes values, and verifies what only sizes can show. */
bool compile_configure(Module *m, Diag *d);
/* Runs the passes of the options on a clone, without hooks, and computes what the plan reads. */
bool compile_passes(const Compilation *c, PassContext *context);
/* Does this need a plan? Checking does: what is accepted compiles. */
bool emit_needs_plan(Emit emit);
/* Appends the text to `out`. False after diagnostics. */
bool compile_emit(Compilation *c, Emit emit, Text *out);
/* What the plan becomes, with a name for all that has one. NULL after diagnostics. */
KProgram *compile_kernels(Compilation *c);
/* choose_ring.c: whether the parts that travel are moved by the kernel, where the options leave it open. */
void compile_choose_ring(Compilation *c, ShardRequest *asked);
/* What the graph's kernel, as it is built, is still to be: one that moves them. */
void ring_ask(const KProgram *p);
/* Whether it became that, if it was to. False after a diagnostic. */
bool ring_answered(const Compilation *c, const KProgram *p);
/* debug_print.c: gives the Module what its kernels are to print; false after a diagnostic about names that no node has.
 */
bool compile_debug_prints(Compilation *c);
/* The kernels of the plan print all of it; else false after diagnostics that say what they could. */
bool compile_debug_printed(const Compilation *c);
/* estimate.c: adds what the kernels, as they are built, are thought to need and to take. */
void compile_estimate(const Program *g, KProgram *out);
/* variants.c: a size and the values that it is to have. */
typedef struct SizeValues {
	const char *name;
	VEC(int64_t) values;
} SizeValues;
enum { VARIANTS_MAX = 64 };
/* The Python module of a graph at every combination of those values (the last changes fastest), which chooses by the
 * shapes of its arguments; `sizes`: of the others, NAME=VALUE. What was decided goes to `explained`. False after
 * diagnostics. */
bool compile_variants(Arena *a, Diag *d, const Source *graph, const CompileOptions *options, const SizeChoices *sizes,
                      const SizeValues *lists, uint32_t list_count, Text *out, Text *explained);
/* compile_kernel.c: the source is kernel text (docs/kernel.md), not a graph. */
bool source_is_kernel(const Source *source);
/* A `loop` has none, until it is driven. False after a diagnostic. */
bool kernels_have_python(Diag *d, const KProgram *p);
/* Reads and verifies it; what is asked for goes to `out`. `target`: over the text's own, or NULL. False after
 * diagnostics. */
bool compile_kernel_text(Arena *a, Diag *d, const Source *source, const CompileOptions *options, Emit emit, Text *out);
/* The same up to what is printed; NULL after a diagnostic. */
KProgram *compile_kernel_program(Arena *a, Diag *d, const Source *source, const CompileOptions *options, Emit emit);
/* compile_pair.c: a graph, or kernel text, that is compiled to be one of a pair. */
typedef struct PartSource {
	const Source *source;
	Module *module; /* as it was read, the compilation's from now on; NULL: the source is kernel text */
	CompileOptions options;
	Compilation compilation; /* of a module, for what it has to tell */
} PartSource;
/* Compiles the forward and its backwards, pairs them, and appends the module to `out`. False after diagnostics. */
bool compile_pair(Arena *a, Diag *d, PartSource *forward, PartSource *backwards, uint32_t count,
                  const PairWishes *wishes, Text *out);
/* What the passes and the plan decided and why, one line each. */
void compile_explain(const Compilation *c, Text *out);

/* Appends docs/ops.md, the list of all rows, for `make docs` (ops_doc.c). */
void ops_print_markdown(Text *out);
/* The same rows as JSON: a list of {"target", "kind", "shape", "dtype", "params": [{"name", "letter", "nullable",
 * "by_name", "default"}]}; letters are those of ops.def. */
void ops_print_json(Text *out);

#endif
