/* page_parts.h - what the files of the page share. */
#ifndef PALLASC_PAGE_PARTS_H
#define PALLASC_PAGE_PARTS_H

#include "page.h"
#include "codegen/print/print.h"

/* page.html, page.css and page.js: the Makefile makes C of these files. */
extern const char page_html[], page_css[], page_js[];

/* A text of the program, and per line, from 1, the source lines that it is of. */
typedef struct PageCode {
	Text text;
	PrintedLines lines;
} PageCode;

typedef struct PageParts {
	const Page *page; /* NULL: of a module alone */
	Arena *arena;
	const char *name, *target, *found;
	VEC(const Location *) source; /* the source lines that the document names, by file and line; each once */
	PageCode python, kernel;
} PageParts;

/* page_source.c: fills all of them. */
void page_find_source(PageParts *p);
void page_print_code(PageParts *p);
/* The number of a source line among them; NONE. */
uint32_t page_source_line(const PageParts *p, const Location *from);

/* page_json.c: one JSON object, which can stand in a script element, or null: what is drawn of the kernel, and what was
 * found. */
void page_put_json(const PageParts *p, Text *out);
void page_put_found(const PageParts *p, Text *out);

/* Members of the JSON object of one kernel. page_walk.c: which blocks its grid brings in which order; what the compiler
 * estimates of a grid point and of the steps of loops, with their windows. page_vmem.c: bytes by buffer. */
void page_put_walk(const Plan *plan, Text *out);
void page_put_times(Plan *plan, Text *out);
void page_put_vmem(const Plan *plan, Text *out);

#endif
