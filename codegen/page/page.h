/* page.h - a page to look at: the graph, the code beside its source, VMEM, the grid's copies, estimates, decisions. */
#ifndef PALLASC_PAGE_H
#define PALLASC_PAGE_H

#include "codegen/kernel/kernel.h"
#include "codegen/plan/plan.h"

typedef struct Page {
	const Program *program;
	const KProgram *kernels; /* named: kernels_name() */
	const Module *before;    /* the graph as it was read; NULL: what passes changed is not shown */
	const Remark *remarks;   /* of the passes; those of plans are with them */
	uint32_t remark_count;
	const char *found; /* JSON: what tuning or profiling found, which has sections of its own; NULL */
} Page;

/* One HTML file that asks for nothing outside of itself: docs/page.md. */
void page_emit(const Page *page, Text *out);
/* The same of a Python module alone, which need not be ours: its text, and what was found. */
void page_emit_module(const char *name, const char *target, const char *python, const char *found, Text *out);

#endif
