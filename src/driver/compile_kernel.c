/* compile_kernel.c - the pipeline from kernel text on: read, verify, print. */
#include "driver.h"
#include "codegen/core/core.h"
#include "codegen/kernel_text/kernel_text.h"
#include "codegen/print/print.h"
#include "codegen/rewrite/rewrite.h"

/* A comment or an empty line may stand before the word. */
bool source_is_kernel(const Source *source) {
	static const char word[] = "program";
	const char *at = source->text, *end = at + source->length;
	while (at < end && (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n' || *at == '#')) {
		const char *line = *at == '#' ? memchr(at, '\n', (size_t)(end - at)) : at;
		at = line ? line + 1 : end;
	}
	size_t n = sizeof word - 1;
	return (size_t)(end - at) > n && memcmp(at, word, n) == 0 && (at[n] == ' ' || at[n] == '\t');
}

static bool can_be_made(Diag *d, const KProgram *p, Emit emit) {
	if (emit == EMIT_KERNEL || emit == EMIT_OPERATIONS || emit == EMIT_NONE || emit == EMIT_PYTHON)
		return true;
	diag_error(d, (Place){.source = p->source}, "kernel-emit",
	           "python, kernel, operations and none can be asked for",
	           "of kernel text there is no graph and no plan");
	return false;
}

static void find_loop(Kernel *k, StmtId s, void *data) {
	if (kernel_stmt(k, s)->op == K_LOOP)
		*(bool *)data = true;
}

bool kernels_have_python(Diag *d, const KProgram *p) {
	bool loop = false;
	for (uint32_t i = 0; i < p->kernels.count; i++)
		kernel_walk(p->kernels.at[i], p->kernels.at[i]->body, find_loop, &loop);
	if (loop)
		diag_error(d, (Place){.source = p->source}, "kernel-emit", "run the rewrite drive, too",
		           "a `loop` is not run by anything yet, and has no Python");
	bool ring = true;
	for (uint32_t i = 0; i < p->kernels.count; i++) {
		const KRing *asked = p->kernels.at[i]->ring;
		if (!asked)
			continue;
		ring = false;
		diag_error(d, (Place){.source = p->source}, "kernel-ring", "ask for other blocks, or for no ring",
		           "kernel '%s' cannot run on a ring: %s", p->kernels.at[i]->name,
		           asked->why ? asked->why : "the rewrite ring did not run");
	}
	return !loop && ring;
}

/* As text it stays as it is, unless the options say what to do with it; as Python it goes through all. */
static bool rewritten(Diag *d, KProgram *p, const CompileOptions *options, Emit emit) {
	bool all = !options || !options->rewrites;
	if (all && emit != EMIT_PYTHON)
		return true;
	return kernels_rewrite(p, all ? NULL : options->rewrites, all ? 0 : options->rewrite_count,
	                       options && options->verify_kernels ? d : NULL);
}

KProgram *compile_kernel_program(Arena *a, Diag *d, const Source *source, const CompileOptions *options, Emit emit) {
	KProgram *p = kernels_read(a, d, source);
	if (!p || !program_verify_kernels(p, d) || !can_be_made(d, p, emit) || !rewritten(d, p, options, emit) ||
	    (emit == EMIT_PYTHON && !kernels_have_python(d, p)))
		return NULL;
	if (options && options->target)
		p->target = options->target->name;
	p->named_scopes = options && options->named_scopes;
	if (emit == EMIT_PYTHON)
		program_give_variables(p);
	kernels_name(p);
	return p;
}

bool compile_kernel_text(Arena *a, Diag *d, const Source *source, const CompileOptions *options, Emit emit, Text *out) {
	const KProgram *p = compile_kernel_program(a, d, source, options, emit);
	if (!p)
		return false;
	if (emit == EMIT_PYTHON)
		kernels_print_python(p, out);
	if (emit == EMIT_KERNEL)
		kernels_emit_text(p, out);
	if (emit != EMIT_OPERATIONS)
		return true;
	const Target *target = options ? options->target : NULL;
	target = target ? target : target_known(a, d, p->source, p->target);
	if (target)
		operations_emit(p, target, out);
	return target != NULL;
}
