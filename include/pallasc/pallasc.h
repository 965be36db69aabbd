/* pallasc.h - the public C API of libpallasc.
 *
 * libpallasc reads an FX-style graph of tile operations as JSON (format "fxtile", version 1) and
 * gives back the text of a standalone Pallas TPU kernel module in Python.
 *
 *     pallasc_context *context = pallasc_context_new();
 *     pallasc_options options = PALLASC_OPTIONS_INIT;
 *     options.target = "v6e";
 *     pallasc_result *result = pallasc_compile(context, json, strlen(json), &options);
 *     if (pallasc_result_status(result) == PALLASC_OK)
 *         fputs(pallasc_result_source(result, NULL), stdout);
 *     else
 *         fputs(pallasc_result_diagnostics(result, NULL), stderr);
 *     pallasc_result_free(result);
 *     pallasc_context_free(context);
 *
 * Threads. There is no global state. Different contexts may be used by different threads at the
 * same time; one context, and the graphs made from it, belong to one thread at a time. A result is
 * on its own once made: it may be read, and freed, by any one thread.
 *
 * Text. All text is UTF-8. Texts that go in need not outlive the call. Texts that come out are
 * NUL-terminated, belong to the handle that gave them, and live until that handle is freed.
 *
 * NULL. Every `_free` function takes NULL. Every other function that takes a handle also takes
 * NULL and then answers as for a failed allocation: status PALLASC_FAILED, empty texts, a NULL
 * handle. So a chain of calls can be checked once, at its end.
 *
 * Results are byte-identical for the same input, options and version.
 */
#ifndef PALLASC_PALLASC_H
#define PALLASC_PALLASC_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(PALLASC_STATIC) || !defined(__GNUC__)
#define PALLASC_API
#else
#define PALLASC_API __attribute__((visibility("default")))
#endif

/* The ABI described by this header. A library with another number is not to be used with it; new
 * functions and new fields at the end of pallasc_options do not change it. */
#define PALLASC_ABI_VERSION 1

/* A compiler: holds nothing that one compilation could leave for the next. */
typedef struct pallasc_context pallasc_context;

/* A graph that was read and verified once, to be compiled any number of times. */
typedef struct pallasc_graph pallasc_graph;

/* What one compilation gave: texts if it succeeded, diagnostics in any case. */
typedef struct pallasc_result pallasc_result;

/* The outcome of a call; the same numbers as the exit statuses of the command `pallasc`. */
typedef enum pallasc_status {
	PALLASC_OK = 0,      /* done */
	PALLASC_REFUSED = 1, /* the graph or the configuration is refused: see the diagnostics */
	PALLASC_USAGE = 2,   /* the options are wrong: an unknown target, a malformed set string */
	PALLASC_FAILED = 3   /* the environment failed: out of memory */
} pallasc_status;

/* What a compilation is to produce; several may be asked for at once. */
typedef enum pallasc_emit {
	PALLASC_EMIT_SOURCE = 1,  /* the Python module */
	PALLASC_EMIT_PLAN = 2,    /* the kernel plan, JSON */
	PALLASC_EMIT_REPORT = 4,  /* the report for people, plain text without colour */
	PALLASC_EMIT_GRAPH = 8,   /* the graph after the passes: a valid document again, JSON */
	PALLASC_EMIT_KERNEL = 16, /* the kernels as text (docs/kernel.md), which can be compiled again */
	PALLASC_EMIT_PAGE = 32    /* an HTML page of all that was decided (docs/page.md) */
} pallasc_emit;

/* Backward graphs, whose module with the graph's own is one function that jax differentiates (docs/gradients.md).
 * Arrays are paired by their names; the lists say what names do not. Start from PALLASC_PAIRING_INIT. */
typedef struct pallasc_pairing {
	size_t size;                           /* sizeof(pallasc_pairing) */
	const pallasc_graph *const *backwards; /* `backward_count` graphs, of any contexts: they run in this order */
	const char *const *backward_configs;   /* of each a configuration over its own, or NULL; or NULL */
	size_t backward_count;
	const char *const *residuals; /* `residual_count` strings B=F: input B of a backward is F of the forward */
	size_t residual_count;
	const char *const *cotangents; /* B=F: it is the cotangent of output F */
	size_t cotangent_count;
	const char *const *gradients; /* B=F: output B of a backward is the gradient of input F */
	size_t gradient_count;
	const char *const *returns; /* outputs of the forward that the function returns; none: all */
	size_t return_count;
	const char *const *nondiff; /* inputs whose gradient is zero, outputs whose cotangent is ignored */
	size_t nondiff_count;
} pallasc_pairing;

#define PALLASC_PAIRING_INIT                                                                                           \
	{ sizeof(pallasc_pairing), NULL, NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0 }

/* The options of one compilation. Start from PALLASC_OPTIONS_INIT; `size` lets the library know
 * which fields the caller's header had, so that fields can be added at the end. */
typedef struct pallasc_options {
	size_t size;             /* sizeof(pallasc_options) */
	unsigned emit;           /* pallasc_emit values or'ed; 0 only checks */
	const char *target;      /* a chip's name ("v6e"), or a target's JSON text, known by its
	                                                        first character '{'; NULL is the default target, "v6e" */
	const char *config_json; /* a configuration as a JSON object, over the graph's own; or NULL */
	const char *const *sets; /* `set_count` strings KEY=VALUE, over `config_json`; or NULL */
	size_t set_count;        /* number of strings in `sets` */
	const char *rewrites;    /* names of the rewrites of kernels to run, with commas between, "" for none;
	                                                        NULL is all: --print-rewrites of the command lists them */
	int adapt; /* not 0: where the configuration is refused, the nearest one that is accepted; notes among the
	              diagnostics say what was changed and why */
	long long vmem_bytes; /* kernels may take so much of the chip's VMEM, bytes; 0 is all of it */
	double vmem_margin;   /* percent of that which a kernel must leave free by estimate; below 0: may be over by */
	const char *found;    /* JSON of what was found by tuning or profiling, for sections of its own in the page
	                         (docs/page.md); or NULL */
	const pallasc_pairing *pairing; /* the graph is a forward, and these its backwards: then the source is of all of
	                                   them, and nothing else can be asked for; or NULL */
	const char *const *sizes; /* `size_count` strings NAME=SIZE: named sizes over the graph's own; or NULL. The
	                             graph is read again at these sizes, without its text being parsed again */
	size_t size_count;        /* number of strings in `sizes` */
	const char *mesh;    /* "data=2,model=4": a mesh that the kernel is split over (docs/sharding.md); or NULL */
	const char *shard;   /* "tile_m=data,tile_n=model": what is cut along its axes; NULL: chosen */
	const char *gather;  /* "x=model": inputs whose parts travel round a ring of an axis's devices; or NULL */
	const char *scatter; /* "out=model": outputs, sums over an axis, that are left in parts along it; or NULL */
	const char *ring;    /* "wrapper", "kernel" or "auto": what moves them (docs/sharding.md); NULL: the wrapper */
	const char *const *debug_prints; /* `debug_print_count` names of nodes whose values kernels print while they run
	                                    (docs/jax.md); NAME:all prints whole tiles; or NULL */
	size_t debug_print_count;
	int named_scopes;   /* not 0: in the source the statements of each line of the graph's source stand in a
	                       jax.named_scope of its name */
	const char *passes; /* names of the passes to run, in this order, with commas between, "" for none: then
	                       PALLASC_EMIT_GRAPH gives the graph as it was read, with the `meta` that it left out; NULL
	                       is the whole pipeline */
} pallasc_options;

#define PALLASC_OPTIONS_INIT                                                                                           \
	{                                                                                                              \
		sizeof(pallasc_options), PALLASC_EMIT_SOURCE | PALLASC_EMIT_PLAN, NULL, NULL, NULL, 0, NULL, 0, 0, 0,  \
			NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL                            \
	}

/* The library's version, such as "0.1.0". Static text. */
PALLASC_API const char *pallasc_version(void);

/* The ABI that the library was built with: compare it with PALLASC_ABI_VERSION. */
PALLASC_API int pallasc_abi_version(void);

/* Name of the built-in target number `index`, counted from 0, in the order of --print-targets;
 * NULL after the last. Static text. */
PALLASC_API const char *pallasc_target_name(size_t index);

/* A new context, or NULL if there is no memory. Free it with pallasc_context_free. */
PALLASC_API pallasc_context *pallasc_context_new(void);

/* Frees a context. All graphs made from it must have been freed; results may live on. */
PALLASC_API void pallasc_context_free(pallasc_context *context);

/* Reads and verifies the graph in `json`, `length` bytes, which need not end with NUL. `name`
 * stands for the file in diagnostics; NULL is "<graph>". Kernel text, whose first word is
 * `program`, is read as well: it has no configuration, and gives the module and the kernels alone.
 *
 * Gives a handle also for a graph that is refused: pallasc_graph_status tells, and compiling it
 * gives a refused result with the same diagnostics, unless its options choose other sizes. NULL only if there is no
 * memory. Free it with pallasc_graph_free, before the context. */
PALLASC_API pallasc_graph *pallasc_graph_load(pallasc_context *context, const char *json, size_t length,
                                              const char *name);

/* PALLASC_OK, or PALLASC_REFUSED if the graph cannot be compiled with any options. */
PALLASC_API pallasc_status pallasc_graph_status(const pallasc_graph *graph);

/* The diagnostics of reading and verifying, as pallasc_result_diagnostics gives them. */
PALLASC_API const char *pallasc_graph_diagnostics(const pallasc_graph *graph, size_t *length);

/* Frees a graph. The results compiled from it live on. */
PALLASC_API void pallasc_graph_free(pallasc_graph *graph);

/* Compiles a loaded graph; `options` NULL is PALLASC_OPTIONS_INIT. The graph is not changed by it,
 * so that it can be compiled again under another configuration or for another target, and each
 * result depends on the graph and its own options alone.
 *
 * NULL only if there is no memory. Free the result with pallasc_result_free. */
PALLASC_API pallasc_result *pallasc_graph_compile(const pallasc_graph *graph, const pallasc_options *options);

/* Loads, compiles and frees the graph in one call: pallasc_graph_load with no name, followed by
 * pallasc_graph_compile. */
PALLASC_API pallasc_result *pallasc_compile(pallasc_context *context, const char *json, size_t length,
                                            const pallasc_options *options);

/* The type of one node: `json` is a document without a configuration, the node stands before the output of its last
 * graph. It may leave out its `meta`: pallasc_result_graph() is what that would be, as JSON, null for a store; another
 * that it has is refused. It holds for all sizes that blocks and tunables may get, or the result is refused. A builder
 * of documents asks this, so that the rules stand here alone (python/pallasc/build).
 *
 * NULL only if there is no memory. Free the result with pallasc_result_free. */
PALLASC_API pallasc_result *pallasc_infer(pallasc_context *context, const char *json, size_t length);

/* A page of a Python module alone, which need not be one of pallasc's: `python` is its text, `target` names the chip in
 * the heading, `found` is as in pallasc_options. The result has the page and no other text.
 *
 * NULL only if there is no memory. Free the result with pallasc_result_free. */
PALLASC_API pallasc_result *pallasc_module_page(pallasc_context *context, const char *name, const char *target,
                                                const char *python, const char *found);

/* How the compilation ended. Texts other than the diagnostics are empty unless it is PALLASC_OK. */
PALLASC_API pallasc_status pallasc_result_status(const pallasc_result *result);

/* The text of the emitted Python module. Never NULL: "" if it was not asked for, or refused.
 * If `length` is not NULL, the number of bytes before the ending NUL goes there; so below. */
PALLASC_API const char *pallasc_result_source(const pallasc_result *result, size_t *length);

/* The kernel plan as JSON text, or "". */
PALLASC_API const char *pallasc_result_plan(const pallasc_result *result, size_t *length);

/* The report for people, or "". */
PALLASC_API const char *pallasc_result_report(const pallasc_result *result, size_t *length);

/* The graph after the passes as JSON text, or "". */
PALLASC_API const char *pallasc_result_graph(const pallasc_result *result, size_t *length);

/* The kernels as text, or "". */
PALLASC_API const char *pallasc_result_kernel(const pallasc_result *result, size_t *length);

/* The page as HTML text, or "". */
PALLASC_API const char *pallasc_result_page(const pallasc_result *result, size_t *length);

/* Errors, warnings and notes as JSON lines, in the order of the input: one object per line with
 * "severity" ("error", "warning", "note"), "code", "message", and, where known, "file", "line",
 * "column" (both from 1), "pointer" (a JSON pointer into the document), "hint" and "loc" ("file" and "line"
 * of the program that the node is from). "" if there are none. Warnings come with successful results, too. */
PALLASC_API const char *pallasc_result_diagnostics(const pallasc_result *result, size_t *length);

/* Frees a result and its texts. */
PALLASC_API void pallasc_result_free(pallasc_result *result);

#ifdef __cplusplus
}
#endif

#endif
