/* compile_kernel.c - the pipeline from kernel text on: read, verify, print. */
#include "compile.h"
#include "kernel.h"

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
	if (emit == EMIT_KERNEL || emit == EMIT_NONE || emit == EMIT_PYTHON)
		return true;
	diag_error(d, (Place){.source = p->source}, "kernel-emit", "python, kernel and none can be asked for",
	           "of kernel text there is no graph and no plan");
	return false;
}

bool compile_kernel_text(Arena *a, Diag *d, const Source *source, const Target *target, Emit emit, Text *out) {
	KProgram *p = kernels_read(a, d, source);
	if (!p || !program_verify_kernels(p, d) || !can_be_made(d, p, emit))
		return false;
	if (target)
		p->target = target->name;
	kernels_name(p);
	if (emit == EMIT_PYTHON)
		kernels_print_python(p, out);
	if (emit == EMIT_KERNEL)
		kernels_emit_text(p, out);
	return true;
}
