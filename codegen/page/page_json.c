/* page_json.c - what page.js draws from, as one JSON object: the graph, links between lines, the plan, and of each
 * kernel what page_walk.c and page_vmem.c say. */
#include "page_parts.h"
#include "version.h"
#include "codegen/report/report.h"
#include "src/emit/emit.h"

#include <stdlib.h>

static void put_string(Text *out, const char *key, const char *value) {
	text_printf(out, "\"%s\": ", key);
	if (value)
		text_put_json(out, value);
	else
		text_put(out, "null");
}

static void put_number_or_null(Text *out, const char *key, uint32_t number) {
	text_printf(out, number == NONE ? "\"%s\": null" : "\"%s\": %u", key, number);
}

/* ---- source and code -------------------------------------------------------------------------------------------- */

static void put_source(const PageParts *p, Text *out) {
	text_put(out, "\"source\": [");
	for (uint32_t i = 0; i < p->source.count; i++) {
		const Location *l = p->source.at[i];
		text_put(out, i ? ",\n{" : "\n{");
		put_string(out, "file", l->file);
		text_printf(out, ", \"line\": %lld, ", (long long)l->line);
		put_string(out, "code", l->code);
		text_put(out, "}");
	}
	text_put(out, "]");
}

typedef struct Link {
	uint32_t line, source;
} Link;

static int compare_links(const void *a, const void *b) {
	const Link *x = a, *y = b;
	return x->line != y->line ? (x->line > y->line) - (x->line < y->line)
	                          : (x->source > y->source) - (x->source < y->source);
}

/* [line of code, source line], in order, each once. */
static void put_links(const PageParts *p, const char *key, const PrintedLines *lines, Text *out) {
	Link *links = arena_array(p->arena, (size_t)lines->count + 1, sizeof *links);
	uint32_t count = 0;
	for (uint32_t i = 0; i < lines->count; i++) {
		uint32_t source = page_source_line(p, lines->at[i].from);
		if (source != NONE)
			links[count++] = (Link){lines->at[i].line, source};
	}
	qsort(links, count, sizeof *links, compare_links);
	text_printf(out, "\"%s\": [", key);
	for (uint32_t i = 0; i < count; i++)
		if (i == 0 || compare_links(&links[i - 1], &links[i]) != 0)
			text_printf(out, i ? ", [%u, %u]" : "[%u, %u]", links[i].line, links[i].source);
	text_put(out, "]");
}

/* ---- the graph -------------------------------------------------------------------------------------------------- */

static const char *kind_name(OpKind kind) {
	switch (kind) {
	case KIND_MEMORY: return "memory";
	case KIND_MATMUL: return "matmul";
	case KIND_REDUCTION: return "reduction";
	case KIND_STRUCTURE: return "structure";
	case KIND_POINTWISE: return "pointwise";
	case KIND_VIEW: return "view";
	case KIND_CREATION: return "creation";
	case KIND_QUERY: return "query";
	case KIND_SYMBOLIC: return "symbolic";
	}
	return "pointwise";
}

/* float32[tile_m, 1024]; blocks by name. */
static const char *type_text(const Module *m, const Type *t, Arena *a) {
	Text out;
	text_init(&out, a);
	text_put(&out, "");
	if (t->kind == TYPE_SYM)
		text_printf(&out, "int %s", t->sym == NONE ? "" : expr_named(m, a, t->sym));
	if (t->kind == TYPE_TUPLE)
		text_printf(&out, "%u results", t->count);
	if (t->kind != TYPE_TENSOR)
		return out.at;
	text_printf(&out, "%s[", dtype_name(t->dtype));
	for (uint32_t i = 0; i < t->count; i++)
		text_printf(&out, i ? ", %s" : "%s", expr_named(m, a, t->dims[i]));
	text_put(&out, "]");
	return out.at;
}

typedef struct Uses {
	VEC(NodeId) of; /* each once */
	VEC(GraphId) calls;
} Uses;

static void find_uses(const Module *m, Arena *a, ArgId first, uint32_t count, Uses *uses) {
	for (uint32_t i = 0; i < count; i++) {
		const Arg *x = arg_get(m, first + i);
		bool known = x->kind != ARG_REF;
		for (uint32_t k = 0; k < uses->of.count && !known; k++)
			known = uses->of.at[k] == x->node;
		if (!known)
			vec_push(a, &uses->of, x->node);
		else if (arg_is_list(x))
			find_uses(m, a, x->list.first, x->list.count, uses);
		else if (x->kind == ARG_GRAPH)
			vec_push(a, &uses->calls, x->graph);
	}
}

static void put_numbers(Text *out, const char *key, uint32_t count, const uint32_t *numbers) {
	text_printf(out, ", \"%s\": [", key);
	for (uint32_t i = 0; i < count; i++)
		text_printf(out, i ? ", %u" : "%u", numbers[i]);
	text_put(out, "]");
}

static void put_node(const PageParts *p, const Module *m, NodeId n, NodeChange change, Text *out) {
	static const char *const words[] = {NULL, "changed", "new"};
	const Node *node = node_get(m, n);
	const OpRow *row = op_row(node->op);
	Uses uses = {0};
	find_uses(m, p->arena, node->arg_first, node->arg_count, &uses);
	text_printf(out, "{\"id\": %u, ", n);
	put_string(out, "name", node->name);
	text_put(out, ", ");
	put_string(out, "op", row->target);
	text_printf(out, ", \"kind\": \"%s\", ", kind_name(row->kind));
	put_string(out, "type", type_text(m, node_type(m, n), p->arena));
	text_put(out, ", ");
	put_number_or_null(out, "source", page_source_line(p, &node->loc));
	text_put(out, ", ");
	put_string(out, "change", words[change]);
	put_numbers(out, "of", uses.of.count, uses.of.at);
	put_numbers(out, "calls", uses.calls.count, uses.calls.at);
	text_put(out, "}");
}

static void put_graph(const PageParts *p, const Module *m, GraphId g, const NodeChange *changes, Text *out) {
	static const char *const kinds[] = {"root", "for_loop", "reduction_loop", "if",
	                                    "else", "while",    "cond",           "combine"};
	const Graph *graph = graph_get(m, g);
	text_printf(out, "\n{\"id\": %u, \"number\": %lld, \"kind\": \"%s\", \"called\": %s, \"blocks\": [", g,
	            (long long)graph->id, kinds[graph->kind], graph->caller == NONE ? "false" : "true");
	for (uint32_t i = 0; i < graph->blocks.count; i++) {
		text_put(out, i ? ", " : "");
		text_put_json(out, m->blocks.at[graph->blocks.at[i]].name);
	}
	text_put(out, "], \"nodes\": [");
	for (NodeId n = graph->first; n != NONE; n = node_get(m, n)->next) {
		text_put(out, n == graph->first ? "\n" : ",\n");
		put_node(p, m, n, changes[n], out);
	}
	text_put(out, "]}");
}

static void put_graphs(const PageParts *p, Text *out) {
	const Module *m = p->page->program->module;
	NodeChanges changes = module_changes(p->arena, p->page->before, m);
	text_printf(out, "\"changes\": {\"made\": %u, \"changed\": %u, \"removed\": %u},\n\"graphs\": [", changes.made,
	            changes.changed, changes.removed);
	for (GraphId g = 0; g < m->graphs.count; g++) {
		text_put(out, g ? "," : "");
		put_graph(p, m, g, changes.of, out);
	}
	text_put(out, "]");
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

static void put_kernel(Plan *plan, Text *out) {
	text_put(out, "\n{");
	put_string(out, "name", plan->module->name);
	text_printf(out, ", \"total\": %lld, \"limit\": %lld,\n", (long long)plan->vmem.total,
	            (long long)plan->vmem_limit);
	page_put_vmem(plan, out);
	text_put(out, ",\n");
	page_put_times(plan, out);
	text_put(out, ",\n");
	page_put_walk(plan, out);
	text_put(out, "}");
}

static void put_all(const PageParts *p, Text *out) {
	const Program *g = p->page->program;
	const Target *t = g->module->target;
	text_put(out, "{");
	put_string(out, "compiler", "pallasc " PALLASC_VERSION);
	text_put(out, ", ");
	put_string(out, "chip", t->device_kind);
	text_put(out, ",\n");
	put_source(p, out);
	text_put(out, ",\n\"links\": {");
	put_links(p, "python", &p->python.lines, out);
	text_put(out, ",\n");
	put_links(p, "kernel", &p->kernel.lines, out);
	text_put(out, "},\n");
	put_graphs(p, out);
	text_put(out, ",\n\"kernels\": [");
	for (uint32_t k = 0; k < g->kernels.count; k++) {
		text_put(out, k ? "," : "");
		put_kernel(g->kernels.at[k], out);
	}
	text_put(out, "],\n\"plan\": ");
	program_emit_json(g, out);
	text_put(out, "}\n");
}

/* These three stand in JSON's strings alone, where an escape says the same; so nothing in the object ends the script
 * element or opens a comment. */
static void put_for_script(const char *json, Text *out) {
	const char *run = json;
	for (const char *c = json; *c; c++)
		if (*c == '<' || *c == '>' || *c == '&') {
			text_putn(out, run, (size_t)(c - run));
			text_printf(out, "\\u00%c%c", *c == '&' ? '2' : '3', *c == '&' ? '6' : *c == '<' ? 'c' : 'e');
			run = c + 1;
		}
	text_put(out, run);
}

void page_put_json(const PageParts *p, Text *out) {
	Text json;
	text_init(&json, p->arena);
	if (p->page)
		put_all(p, &json);
	put_for_script(p->page ? json.at : "null\n", out);
}

void page_put_found(const PageParts *p, Text *out) { put_for_script(p->found ? p->found : "null", out); }
