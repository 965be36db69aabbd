/* compile_pair.c - a forward and its backwards, each through the pipeline alone, become one module. */
#include "driver.h"
#include "codegen/print/print.h"

/* All are compiled although one was refused: independent errors are all reported. */
static PairPart compile_part(Arena *a, Diag *d, PartSource *part) {
	PairPart out = {.source = part->source};
	if (!part->module) {
		CompileOptions options = part->options;
		options.target = NULL; /* the text says what it is for */
		out.program = compile_kernel_program(a, d, part->source, &options, EMIT_PYTHON);
		return out;
	}
	Compilation *c = &part->compilation;
	out.module = module_clone(part->module, a);
	compile_init(c, &part->options, a, d, part->module);
	KProgram *p = compile_module(c) && compile_plan(c) ? compile_kernels(c) : NULL;
	out.program = p && kernels_have_python(d, p) ? p : NULL;
	return out;
}

bool compile_pair(Arena *a, Diag *d, PartSource *forward, PartSource *backwards, uint32_t count,
                  const PairWishes *wishes, Text *out) {
	PairPart *parts = arena_array(a, (size_t)count + 1, sizeof *parts);
	bool ok = true;
	for (uint32_t i = 0; i <= count; i++) {
		parts[i] = compile_part(a, d, i ? &backwards[i - 1] : forward);
		ok &= parts[i].program != NULL;
	}
	const Pairing *pairing = ok ? pairing_make(a, d, &parts[0], &parts[1], count, wishes) : NULL;
	if (pairing)
		kernels_print_pair(pairing, out);
	return pairing != NULL;
}
