/* debug_print.c - values that kernels print while they run: the names of nodes that the options give, and what is said
 * of those that no kernel has a value of. */
#include "driver.h"
#include "codegen/build/build.h"

static bool has_node(const Module *m, const char *name) {
	for (NodeId n = 0; n < m->nodes.count; n++)
		if (!node_get(m, n)->dead && strcmp(node_get(m, n)->name, name) == 0)
			return true;
	return false;
}

static const char *const *node_names(const Compilation *c) {
	const Module *m = c->module;
	const char **names = arena_array(c->arena, (size_t)m->nodes.count + 1, sizeof *names);
	uint32_t count = 0;
	for (NodeId n = 0; n < m->nodes.count; n++)
		if (!node_get(m, n)->dead)
			names[count++] = node_get(m, n)->name;
	return names;
}

bool compile_debug_prints(Compilation *c) {
	const CompileOptions *o = c->options;
	bool ok = true;
	if (!o->debug_print_count)
		return true;
	c->debug_prints = arena_alloc(c->arena, sizeof *c->debug_prints);
	*c->debug_prints = (DebugPrints){0};
	for (uint32_t i = 0; i < o->debug_print_count; i++) {
		static const char all[] = ":all";
		const char *word = o->debug_prints[i];
		size_t n = strlen(word), behind = sizeof all - 1;
		bool whole = n > behind && strcmp(word + n - behind, all) == 0;
		DebugPrint print = {arena_printf(c->arena, "%.*s", (int)(whole ? n - behind : n), word), whole};
		vec_push(c->arena, &c->debug_prints->list, print);
		if (has_node(c->module, print.name))
			continue;
		const char *near = name_nearest(print.name, node_names(c));
		diag_error(c->diag, (Place){.source = c->module->source}, "debug-print",
		           near ? arena_printf(c->arena, "did you mean '%s'?", near) : NULL,
		           "there is no node '%s' to print", print.name);
		ok = false;
	}
	c->module->debug_prints = c->debug_prints;
	return ok;
}

/* ---- what kernels print ------------------------------------------------------------------------------------------ */

typedef struct Found {
	const char *name;
	bool found;
} Found;

static void find_print(Kernel *k, StmtId s, void *data) {
	const KStmt *stmt = kernel_stmt(k, s);
	Found *f = data;
	size_t n = strlen(f->name);
	if (stmt->op == K_DEBUG_PRINT && strncmp(stmt->text, f->name, n) == 0 &&
	    (!stmt->text[n] || stmt->text[n] == ' '))
		f->found = true;
}

/* A kernel of the plan, as it is built, has a value of that name to print. */
static bool can_print(const Compilation *c, const char *name) {
	const DebugPrints given = *c->debug_prints;
	Found f = {.name = name};
	DebugPrint print = {name, false};
	c->debug_prints->list.count = 0;
	c->debug_prints->list.at = NULL;
	c->debug_prints->list.room = 0;
	vec_push(c->arena, &c->debug_prints->list, print);
	for (uint32_t i = 0; i < c->program->kernels.count && !f.found; i++) {
		Kernel *k = plan_kernel(c->program->kernels.at[i]);
		kernel_walk(k, k->body, find_print, &f);
	}
	*c->debug_prints = given;
	return f.found;
}

typedef struct Search {
	const Compilation *c;
	VEC(NodeId) nodes; /* of the graph as it was read, nearest first */
	bool *seen;
} Search;

static void search_add(Search *s, NodeId n) {
	if (n == NONE || s->seen[n])
		return;
	s->seen[n] = true;
	vec_push(s->c->arena, &s->nodes, n);
}

static void search_arg(Search *s, const Arg *a) {
	if (a->kind == ARG_REF)
		search_add(s, a->node);
	for (uint32_t i = 0; (a->kind == ARG_LIST || a->kind == ARG_SLICE) && i < a->list.count; i++)
		search_arg(s, arg_item(s->c->read, a, i));
}

/* What uses a node, or what it uses, however far: the first of which there is a value; NULL. */
static const char *nearest_value(const Compilation *c, const char *name) {
	enum { MOST_ASKED = 64 };
	const Module *m = c->read;
	Search s = {.c = c, .seen = arena_array(c->arena, (size_t)m->nodes.count + 1, sizeof *s.seen)};
	for (NodeId n = 0; n < m->nodes.count; n++)
		if (!node_get(m, n)->dead && strcmp(node_get(m, n)->name, name) == 0)
			search_add(&s, n);
	for (uint32_t i = 0; i < s.nodes.count && i < MOST_ASKED; i++) {
		NodeId n = s.nodes.at[i];
		const Node *node = node_get(m, n);
		bool asked = strcmp(node->name, name) == 0;
		if (!asked && (node_type(m, n)->kind != TYPE_TENSOR || node->op == OP_HOST_TENSOR))
			continue;
		if (!asked && can_print(c, node->name))
			return node->name;
		for (ArgId u = node_uses(m, n); u != NONE; u = arg_get(m, u)->next_use)
			search_add(&s, arg_get(m, u)->user);
		for (uint32_t k = 0; k < node->arg_count; k++)
			search_arg(&s, node_arg(m, n, k));
	}
	return NULL;
}

bool compile_debug_printed(const Compilation *c) {
	bool ok = true;
	for (uint32_t i = 0; c->debug_prints && i < c->debug_prints->list.count; i++) {
		const char *name = c->debug_prints->list.at[i].name;
		if (can_print(c, name))
			continue;
		const char *near = nearest_value(c, name);
		diag_error(c->diag, (Place){.source = c->module->source}, "debug-print",
		           near ? arena_printf(c->arena, "print '%s', the nearest that has one", near) : NULL,
		           "no kernel has a value of '%s': what uses it is computed without it", name);
		ok = false;
	}
	return ok;
}
