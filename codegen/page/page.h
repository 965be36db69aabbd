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
} Page;

/* One HTML file that asks for nothing outside of itself: docs/page.md. */
void page_emit(const Page *page, Text *out);

#endif
