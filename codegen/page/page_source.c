/* page_source.c - the source lines that the document names, and the lines of code that are of them. */
#include "page_parts.h"
#include "codegen/kernel_text/kernel_text.h"

#include <stdlib.h>

static bool says_something(const Location *l) { return l && ((l->code && *l->code) || l->line > 0); }

static int compare_texts(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : ""); }

static int compare(const Location *a, const Location *b) {
	int file = compare_texts(a->file, b->file);
	if (file)
		return file;
	return a->line != b->line ? (a->line > b->line) - (a->line < b->line) : compare_texts(a->code, b->code);
}

static int compare_entries(const void *a, const void *b) {
	return compare(*(const Location *const *)a, *(const Location *const *)b);
}

static void add_lines_of(PageParts *p, const Module *m) {
	for (NodeId n = 0; m && n < m->nodes.count; n++)
		if (!node_get(m, n)->dead && says_something(&node_get(m, n)->loc))
			vec_push(p->arena, &p->source, &node_get(m, n)->loc);
}

void page_find_source(PageParts *p) {
	uint32_t kept = 0;
	add_lines_of(p, p->page->before);
	add_lines_of(p, p->page->program->module);
	for (uint32_t k = 0; k < p->page->program->kernels.count; k++)
		add_lines_of(p, p->page->program->kernels.at[k]->module);
	if (p->source.count)
		qsort(p->source.at, p->source.count, sizeof *p->source.at, compare_entries);
	for (uint32_t i = 0; i < p->source.count; i++)
		if (kept == 0 || compare(p->source.at[kept - 1], p->source.at[i]) != 0)
			p->source.at[kept++] = p->source.at[i];
	p->source.count = kept;
}

uint32_t page_source_line(const PageParts *p, const Location *from) {
	uint32_t low = 0, high = p->source.count;
	while (says_something(from) && low < high) {
		uint32_t middle = (low + high) / 2;
		int order = compare(p->source.at[middle], from);
		if (order == 0)
			return middle;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NONE;
}

static void add_kernel_line(PageParts *p, uint32_t line, const Location *from) {
	PrintedLine printed = {line, from};
	if (from)
		vec_push(p->arena, &p->kernel.lines, printed);
}

void page_print_code(PageParts *p) {
	const KProgram *program = p->page->kernels;
	uint32_t count = program->kernels.count;
	uint32_t **lines = arena_array(p->arena, count + 1, sizeof *lines);
	for (uint32_t k = 0; k <= count; k++) {
		const Kernel *kernel = k < count ? program->kernels.at[k] : program->host;
		lines[k] = arena_array(p->arena, kernel->stmts.count + 1, sizeof *lines[k]);
	}
	text_init(&p->python.text, p->arena);
	text_init(&p->kernel.text, p->arena);
	kernels_print_linked(program, &p->python.text, &p->python.lines);
	kernels_emit_lines(program, &p->kernel.text, lines);
	for (uint32_t k = 0; k < count; k++)
		for (StmtId s = 0; s < program->kernels.at[k]->stmts.count; s++)
			if (lines[k][s]) {
				add_kernel_line(p, lines[k][s], kernel_stmt(program->kernels.at[k], s)->from);
				add_kernel_line(p, lines[k][s], kernel_stmt(program->kernels.at[k], s)->also);
			}
}
