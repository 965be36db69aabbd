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

bool compile_kernel_text(Arena *a, Diag *d, const Source *source, Emit emit, Text *out) {
	KProgram *p = kernels_read(a, d, source);
	if (!p || !program_verify_kernels(p, d))
		return false;
	if (emit == EMIT_KERNEL)
		kernels_emit_text(p, out);
	return true;
}
