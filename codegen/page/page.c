/* page.c - the page: page.html with its parts filled in. What is text (source, code, decisions, the report) is HTML and
 * needs no script; page.js draws the rest from the JSON of page_json.c. */
#include "page_parts.h"
#include "version.h"
#include "codegen/report/report.h"

/* ---- text as HTML ----------------------------------------------------------------------------------------------- */

/* Unprintable characters are shown as escapes, so that none hides or turns what stands around it. */
static void put_html(Text *out, const char *s) {
	Text plain;
	text_init(&plain, out->arena);
	text_put(&plain, "");
	text_put_printable(&plain, s);
	for (const char *c = plain.at; *c; c++)
		switch (*c) {
		case '&': text_put(out, "&amp;"); break;
		case '<': text_put(out, "&lt;"); break;
		case '>': text_put(out, "&gt;"); break;
		case '"': text_put(out, "&quot;"); break;
		case '\'': text_put(out, "&#39;"); break;
		default: text_putn(out, c, 1);
		}
}

/* Each line an element; those that are comments in both languages look like one. */
static void put_code(const Text *text, const char *prefix, Text *out) {
	Text line;
	text_init(&line, out->arena);
	uint32_t number = 1;
	for (const char *at = text->at; at && *at; number++) {
		size_t length = strcspn(at, "\n");
		line.length = 0;
		text_putn(&line, at, length);
		bool comment = line.at[strspn(line.at, " ")] == '#';
		text_printf(out, "<span class=\"l%s\" id=\"%s%u\">", comment ? " comment" : "", prefix, number);
		put_html(out, line.at);
		text_put(out, "\n</span>");
		at += length + (at[length] == '\n');
	}
}

/* ---- parts of page.html ----------------------------------------------------------------------------------------- */

typedef void PutPart(const PageParts *p, Text *out);

static void put_css(const PageParts *p, Text *out) {
	(void)p;
	text_put(out, page_css);
}

static void put_js(const PageParts *p, Text *out) {
	(void)p;
	text_put(out, page_js);
}

/* What of page.css hides the sections of a graph, where there is none. */
static void put_kind(const PageParts *p, Text *out) { text_put(out, p->page ? "graph" : "module"); }

static void put_name(const PageParts *p, Text *out) { put_html(out, p->name); }

static void put_target(const PageParts *p, Text *out) { put_html(out, p->target); }

static void put_version(const PageParts *p, Text *out) {
	(void)p;
	put_html(out, "pallasc " PALLASC_VERSION);
}

static bool same_file(const Location *a, const Location *b) {
	return strcmp(a->file ? a->file : "", b->file ? b->file : "") == 0;
}

static void put_source(const PageParts *p, Text *out) {
	if (p->page && p->source.count == 0)
		text_put(out, "<span class=\"file\">The document's nodes have no loc: there is no source.</span>");
	for (uint32_t i = 0; i < p->source.count; i++) {
		const Location *l = p->source.at[i], *before = i ? p->source.at[i - 1] : NULL;
		bool first = !before || !same_file(before, l);
		if (first) {
			text_put(out, "<span class=\"file\">");
			put_html(out, l->file && *l->file ? l->file : "source");
			text_put(out, "</span>");
		}
		text_printf(out, "<span class=\"l%s\" id=\"s%u\" data-n=\"%lld\">",
		            !first && l->line > before->line + 1 ? " gap" : "", i, (long long)l->line);
		put_html(out, l->code ? l->code : "");
		text_put(out, "\n</span>");
	}
}

static void put_python(const PageParts *p, Text *out) { put_code(&p->python.text, "p", out); }

static void put_kernel(const PageParts *p, Text *out) { put_code(&p->kernel.text, "k", out); }

/* The outcome of a way that was compared with others, which a remark begins with (choice_remark()); "". */
static const char *outcome(const char *message) {
	static const char *const outcomes[] = {"taken", "not taken", "refused"};
	for (size_t i = 0; i < sizeof outcomes / sizeof *outcomes; i++) {
		size_t n = strlen(outcomes[i]);
		if (strncmp(message, outcomes[i], n) == 0 && strncmp(message + n, ": ", 2) == 0)
			return outcomes[i];
	}
	return "";
}

static void put_decision(const Remark *r, const char *kernel, Text *out) {
	const char *word = outcome(r->message);
	text_printf(out, "<tr%s><td>", !*word ? "" : *word == 't' ? " class=\"taken\"" : " class=\"other\"");
	put_html(out, r->pass);
	if (kernel) {
		text_put(out, " of ");
		put_html(out, kernel);
	}
	text_printf(out, "</td><td>%s</td><td>", word);
	put_html(out, r->message + (*word ? strlen(word) + 2 : 0));
	text_put(out, "</td></tr>\n");
}

static void put_decisions(const PageParts *p, Text *out) {
	if (!p->page)
		return;
	const Program *g = p->page->program;
	for (uint32_t i = 0; i < p->page->remark_count; i++)
		put_decision(&p->page->remarks[i], NULL, out);
	for (uint32_t k = 0; k < g->kernels.count; k++) {
		const Plan *plan = g->kernels.at[k];
		for (uint32_t i = 0; i < plan->remarks.count; i++)
			put_decision(&plan->remarks.at[i], g->kernels.count > 1 ? plan->module->name : NULL, out);
	}
	for (uint32_t i = 0; i < g->remarks.count; i++)
		put_decision(&g->remarks.at[i], NULL, out);
}

static void put_report(const PageParts *p, Text *out) {
	if (!p->page)
		return;
	Text report;
	text_init(&report, p->arena);
	program_emit_report(p->page->program, &report);
	put_code(&report, "r", out);
}

static const struct {
	const char *name;
	PutPart *put;
} parts[] = {{"css", put_css},        {"js", put_js},
             {"json", page_put_json}, {"name", put_name},
             {"target", put_target},  {"version", put_version},
             {"source", put_source},  {"python", put_python},
             {"kernel", put_kernel},  {"decisions", put_decisions},
             {"report", put_report},  {"found", page_put_found},
             {"kind", put_kind}};

/* Puts the part that `at` names, up to `}}`; returns what stands behind that. */
static const char *put_part(const PageParts *p, const char *at, Text *out) {
	const char *end = strstr(at, "}}");
	size_t length = end ? (size_t)(end - at) : strlen(at);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (strlen(parts[i].name) == length && memcmp(parts[i].name, at, length) == 0)
			parts[i].put(p, out);
	return at + length + (end ? 2 : 0);
}

static void put_page(const PageParts *p, Text *out) {
	const char *at = page_html;
	for (const char *mark = strstr(at, "{{"); mark; mark = strstr(at, "{{")) {
		text_putn(out, at, (size_t)(mark - at));
		at = put_part(p, mark + 2, out);
	}
	text_put(out, at);
}

void page_emit(const Page *page, Text *out) {
	const Module *m = page->program->module;
	PageParts p = {.page = page, .arena = out->arena, .name = m->name, .found = page->found};
	p.target = arena_printf(p.arena, "%s (%s)", m->target->name, m->target->device_kind);
	page_find_source(&p);
	page_print_code(&p);
	put_page(&p, out);
}

void page_emit_module(const char *name, const char *target, const char *python, const char *found, Text *out) {
	PageParts p = {.arena = out->arena, .name = name, .target = target, .found = found};
	text_init(&p.python.text, p.arena);
	text_put(&p.python.text, python);
	put_page(&p, out);
}
