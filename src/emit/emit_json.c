/* emit_json.c - the Module as a document that module_load() reads back to an equal Module. One line for each tensor,
 * block and node, in the order of the document; defaults are left out. */
#include "emit.h"
#include "writer.h"

#include <math.h>

void emit_key(Writer *w, const char *name) {
	put(w, w->first ? "" : ", ");
	w->first = false;
	text_put_json(w->out, name);
	put(w, ": ");
}

void emit_string(Writer *w, const char *name, const char *value) {
	emit_key(w, name);
	text_put_json(w->out, value);
}

void emit_int(Writer *w, const char *name, int64_t value) {
	emit_key(w, name);
	text_printf(w->out, "%lld", (long long)value);
}

static void put_float(Writer *w, double value) {
	if (isnan(value))
		put(w, "{\"float\": \"nan\"}");
	else if (isinf(value))
		put(w, value < 0 ? "{\"float\": \"-inf\"}" : "{\"float\": \"inf\"}");
	else
		text_put_double(w->out, value);
}

/* ---- sizes and types -------------------------------------------------------------------------------------------- */

static void put_size(Writer *w, ExprId e) {
	if (e == NONE) {
		put(w, "null");
	} else if (w->m->exprs.at[e].kind == EXPR_INT) {
		text_printf(w->out, "%lld", (long long)w->m->exprs.at[e].value);
	} else {
		put(w, "\"");
		expr_print(w->m, e, w->out); /* letters, digits and operators: nothing to escape */
		put(w, "\"");
	}
}

static void put_shape(Writer *w, uint32_t rank, const ExprId *dims) {
	put(w, "[");
	for (uint32_t i = 0; i < rank; i++) {
		put(w, i ? ", " : "");
		put_size(w, dims[i]);
	}
	put(w, "]");
}

static void put_type(Writer *w, TypeId id) {
	const Type *t = type_get(w->m, id);
	switch (t->kind) {
	case TYPE_NONE: put(w, "null"); break;
	case TYPE_TENSOR:
		text_printf(w->out, "{\"dtype\": \"%s\", \"shape\": ", dtype_name(t->dtype));
		put_shape(w, t->count, t->dims);
		put(w, "}");
		break;
	case TYPE_SYM:
		put(w, "{\"sym\": ");
		put_size(w, t->sym);
		put(w, t->dtype == DTYPE_BOOL ? ", \"dtype\": \"bool\"}" : "}");
		break;
	case TYPE_TUPLE:
		put(w, "{\"tuple\": [");
		for (uint32_t i = 0; i < t->count; i++) {
			put(w, i ? ", " : "");
			put_type(w, t->elements[i]);
		}
		put(w, "]}");
		break;
	}
}

void type_emit_json(const Module *m, TypeId type, Text *out) {
	Writer writer = {.m = m, .out = out};
	put_type(&writer, type);
}

/* ---- arguments -------------------------------------------------------------------------------------------------- */

static void put_arg(Writer *w, const Arg *a);

static void put_args(Writer *w, ArgId first, uint32_t count) {
	put(w, "[");
	for (uint32_t i = 0; i < count; i++) {
		put(w, i ? ", " : "");
		put_arg(w, arg_get(w->m, first + i));
	}
	put(w, "]");
}

static void put_boxed(Writer *w, const char *name, const char *value) {
	text_printf(w->out, "{\"%s\": ", name);
	text_put_json(w->out, value);
	put(w, "}");
}

static void put_arg(Writer *w, const Arg *a) {
	const Module *m = w->m;
	switch (a->kind) {
	case ARG_NULL: put(w, "null"); break;
	case ARG_BOOL: put(w, a->boolean ? "true" : "false"); break;
	case ARG_INT: text_printf(w->out, "%lld", (long long)a->integer); break;
	case ARG_FLOAT: put_float(w, a->real); break;
	case ARG_STRING: text_put_json(w->out, a->string); break;
	case ARG_DTYPE: put_boxed(w, "dtype", dtype_name(a->dtype)); break;
	case ARG_REF: put_boxed(w, "ref", node_get(m, a->node)->name); break;
	case ARG_SYM:
		put(w, "{\"sym\": ");
		put_size(w, a->expr);
		put(w, "}");
		break;
	case ARG_LIST: put_args(w, a->list.first, a->list.count); break;
	case ARG_SLICE:
		put(w, "{\"slice\": ");
		put_args(w, a->list.first, a->list.count);
		put(w, "}");
		break;
	case ARG_TENSOR: text_put_json(w->out, m->tensors.at[a->tensor].name); break;
	case ARG_SCALAR: text_put_json(w->out, m->scalars.at[a->scalar].name); break;
	case ARG_GRAPH: text_printf(w->out, "%lld", (long long)graph_get(m, a->graph)->id); break;
	case ARG_BLOCK: put_boxed(w, "sym", m->blocks.at[a->block].symbol); break;
	}
}

static const Schema *schema_of(Writer *w, uint16_t op) {
	Schema *s = &w->schemas[op];
	if (s->count == NONE)
		*s = schema_parse(&w->scratch, op_row(op)->params);
	return s;
}

/* Without the defaults at the end. `skip`: parameters that stand elsewhere. */
static uint32_t needed_args(Writer *w, uint16_t op, uint32_t skip, ArgId first, uint32_t count) {
	const Schema *s = schema_of(w, op);
	while (count && count - 1 + skip < s->count &&
	       schema_is_default(w->m, &s->params[count - 1 + skip], arg_get(w->m, first + count - 1)))
		count--;
	return count;
}

/* ---- the tables ------------------------------------------------------------------------------------------------- */

static void put_steps(Writer *w, const HostStep *steps, uint32_t count) {
	if (!count)
		return;
	emit_key(w, "ops");
	put(w, "[");
	for (uint32_t i = 0; i < count; i++) {
		put(w, i ? ", [" : "[");
		text_put_json(w->out, op_row(steps[i].op)->target);
		uint32_t n = needed_args(w, steps[i].op, 1, steps[i].first, steps[i].count);
		for (uint32_t k = 0; k < n; k++) {
			put(w, ", ");
			put_arg(w, arg_get(w->m, steps[i].first + k));
		}
		put(w, "]");
	}
	put(w, "]");
}

static void put_view(Writer *w, const Tensor *t) {
	uint32_t rank = w->m->tensors.at[t->of].rank;
	if (t->view == VIEW_RESHAPE)
		return;
	if (t->view == VIEW_EXPAND) {
		emit_key(w, "expand");
		put(w, "true");
		return;
	}
	emit_key(w, t->view == VIEW_PERMUTE ? "permute" : "slice");
	put(w, "[");
	for (uint32_t i = 0; i < rank; i++) {
		const int64_t *a = t->view_arg[i];
		put(w, i ? ", " : "");
		if (t->view == VIEW_PERMUTE)
			text_printf(w->out, "%lld", (long long)a[0]);
		else
			text_printf(w->out, "[%lld, %lld, %lld]", (long long)a[0], (long long)a[1], (long long)a[2]);
	}
	put(w, "]");
}

static void put_tensor(Writer *w, const Tensor *t) {
	static const char *const roles[] = {"input", "output", "inout", "view", "derived"};
	emit_string(w, "name", t->name);
	emit_string(w, "role", roles[t->role]);
	emit_string(w, "dtype", dtype_name(t->dtype));
	emit_key(w, "shape");
	put_shape(w, t->rank, t->shape);
	if (t->has_init) {
		emit_key(w, "init");
		put_float(w, t->init);
	}
	if (t->whole)
		put(w, ", \"whole\": true");
	if (t->role == ROLE_VIEW || t->role == ROLE_DERIVED)
		emit_string(w, "of", w->m->tensors.at[t->of].name);
	if (t->role == ROLE_VIEW)
		put_view(w, t);
	if (t->role == ROLE_DERIVED && !t->step_count)
		put(w, ", \"ops\": []");
	put_steps(w, t->steps, t->step_count);
}

static void put_scalar(Writer *w, const Scalar *s) {
	emit_string(w, "name", s->name);
	emit_string(w, "dtype", dtype_name(s->dtype));
	if (!s->has_value)
		return;
	emit_key(w, "value");
	if (dtype_is_float(s->dtype))
		put_float(w, s->value);
	else if (s->dtype == DTYPE_BOOL)
		put(w, s->int_value ? "true" : "false");
	else
		text_printf(w->out, "%lld", (long long)s->int_value);
}

static void put_return(Writer *w, const Return *r) {
	emit_string(w, "tensor", w->m->tensors.at[r->tensor].name);
	put_steps(w, r->steps, r->step_count);
	if (r->has_shape) {
		emit_key(w, "shape");
		put_shape(w, r->rank, r->shape);
	}
}

static void put_block(Writer *w, const Block *b, BlockId id) {
	emit_int(w, "id", id);
	emit_string(w, "symbol", b->symbol);
	emit_string(w, "name", b->name);
	emit_key(w, "extent");
	put_size(w, b->extent);
	if (!expr_is_int(w->m, b->begin, 0)) {
		emit_key(w, "begin");
		put_size(w, b->begin);
	}
	if (b->size != NONE) {
		emit_key(w, "size");
		put_size(w, b->size);
	} else if (w->m->settled && (!b->reduction || block_iterated(w->m, id))) {
		emit_int(w, "size", w->m->block_size.at[id]);
	}
	if (b->reduction) {
		emit_key(w, "reduction");
		put(w, "true");
	}
}

/* `"name": [` and one object on each line. */
#define PUT_TABLE(w, name, list, call)                                                                                 \
	do {                                                                                                           \
		put(w, " \"" name "\": [");                                                                            \
		for (uint32_t i = 0; i < (list).count; i++) {                                                          \
			put(w, i ? ",\n  {" : "\n  {");                                                                \
			(w)->first = true;                                                                             \
			call;                                                                                          \
			put(w, "}");                                                                                   \
		}                                                                                                      \
		put(w, "],\n");                                                                                        \
	} while (0)

static void put_tunables(Writer *w) {
	put(w, " \"tunables\": {");
	for (uint32_t i = 0; i < w->m->tunables.count; i++) {
		const Tunable *t = &w->m->tunables.at[i];
		put(w, i ? ",\n  " : "\n  ");
		text_put_json(w->out, t->name);
		text_printf(w->out, ": {\"default\": %lld", (long long)t->default_value);
		for (uint32_t k = 0; k < t->choices.count; k++)
			text_printf(w->out, "%s%lld", k ? ", " : ", \"choices\": [", (long long)t->choices.at[k]);
		put(w, t->choices.count ? "]}" : "}");
	}
	put(w, "},\n");
}

/* The graph has their values where it had their names. */
static void put_named_sizes(Writer *w) {
	put(w, " \"sizes\": {");
	w->first = true;
	for (uint32_t i = 0; i < w->m->sizes.count; i++) {
		emit_key(w, w->m->sizes.at[i].name);
		text_printf(w->out, "{\"fixed\": %lld}", (long long)w->m->sizes.at[i].value);
	}
	put(w, "},\n");
}

static void put_tables(Writer *w) {
	const Module *m = w->m;
	if (m->sizes.count)
		put_named_sizes(w);
	PUT_TABLE(w, "tensors", m->tensors, put_tensor(w, &m->tensors.at[i]));
	if (m->scalars.count)
		PUT_TABLE(w, "scalars", m->scalars, put_scalar(w, &m->scalars.at[i]));
	PUT_TABLE(w, "returns", m->returns, put_return(w, &m->returns.at[i]));
	PUT_TABLE(w, "block_sizes", m->blocks, put_block(w, &m->blocks.at[i], i));
	if (m->tunables.count)
		put_tunables(w);
}

/* ---- graphs ----------------------------------------------------------------------------------------------------- */

static void put_location(Writer *w, const Location *loc) {
	if (!loc->file && !loc->code && !loc->line)
		return;
	emit_key(w, "loc");
	put(w, "{");
	w->first = true;
	if (loc->file)
		emit_string(w, "file", loc->file);
	if (loc->line)
		emit_int(w, "line", loc->line);
	if (loc->code)
		emit_string(w, "code", loc->code);
	put(w, "}");
	w->first = false;
}

/* By position, and by name what can only be given so. */
static void put_arguments(Writer *w, const Node *node) {
	const Schema *s = schema_of(w, node->op);
	uint32_t needed = needed_args(w, node->op, 0, node->arg_first, node->arg_count);
	bool first = true;
	emit_key(w, "args");
	put_args(w, node->arg_first, needed < s->positional ? needed : s->positional);
	for (uint32_t i = s->positional; i < needed; i++) {
		const Arg *a = arg_get(w->m, node->arg_first + i);
		if (schema_is_default(w->m, &s->params[i], a))
			continue;
		if (first)
			emit_key(w, "kwargs");
		text_printf(w->out, "%s\"%s\": ", first ? "{" : ", ", s->params[i].name);
		put_arg(w, a);
		first = false;
	}
	put(w, first ? "" : "}");
}

static void put_node(Writer *w, NodeId n) {
	const Node *node = node_get(w->m, n);
	w->first = true;
	put(w, "   {");
	emit_string(w, "name", node->name);
	if (node->op == OP_PLACEHOLDER || node->op == OP_OUTPUT)
		emit_string(w, "op", op_row(node->op)->target);
	else
		emit_string(w, "target", op_row(node->op)->target);
	if (node->op != OP_PLACEHOLDER)
		put_arguments(w, node);
	if (type_get(w->m, node->type)->kind != TYPE_NONE) {
		emit_key(w, "meta");
		put_type(w, node->type);
	}
	put_location(w, &node->loc);
	put(w, "}");
}

static void put_ids(Writer *w, const char *name, const Graph *g) {
	emit_key(w, name);
	for (uint32_t i = 0; i < g->blocks.count; i++)
		text_printf(w->out, "%s%u", i ? ", " : "[", g->blocks.at[i]);
	put(w, g->blocks.count ? "]" : "[]");
}

static void put_graph(Writer *w, GraphId id) {
	static const char *const kinds[] = {"root", "for_loop", "reduction_loop", "if",
	                                    "else", "while",    "cond",           "combine"};
	const Graph *g = graph_get(w->m, id);
	emit_int(w, "id", g->id);
	emit_string(w, "kind", kinds[g->kind]);
	if (g->kind == GRAPH_ROOT)
		put_ids(w, "grid", g);
	if (g->kind == GRAPH_FOR_LOOP || g->kind == GRAPH_REDUCTION_LOOP)
		put_ids(w, "block_ids", g);
	for (uint32_t i = 0; i < g->carried.count; i++)
		text_printf(w->out, "%s[%u, %u]", i ? ", " : ", \"carried\": [", g->carried.at[i].arg,
		            g->carried.at[i].output);
	put(w, g->carried.count ? "]" : "");
	if (g->lengths != NONE)
		emit_int(w, "lengths", g->lengths);
	put(w, ", \"nodes\": [");
	for (NodeId n = g->first; n != NONE; n = node_get(w->m, n)->next) {
		put(w, n == g->first ? "\n" : ",\n");
		put_node(w, n);
	}
	put(w, "]");
}

/* ---- the document ----------------------------------------------------------------------------------------------- */

void module_emit_json(const Module *m, Text *out) {
	Writer writer = {.m = m, .out = out}, *w = &writer;
	arena_init(&w->scratch, m->arena->oom);
	w->schemas = arena_array(&w->scratch, OP_COUNT, sizeof *w->schemas);
	for (int i = 0; i < OP_COUNT; i++)
		w->schemas[i].count = NONE;
	put(w, "{\n \"format\": \"fxtile\",\n \"version\": 1,\n \"name\": ");
	text_put_json(out, m->name);
	put(w, m->assume_in_bounds ? ",\n \"assume_in_bounds\": true,\n" : ",\n");
	if (m->mesh_axis)
		text_printf(out, " \"mesh\": {\"%s\": %lld},\n", m->mesh_axis, (long long)m->mesh_devices);
	put_tables(w);
	PUT_TABLE(w, "graphs", m->graphs, put_graph(w, i));
	emit_config(w);
	emit_annotations(w);
	put(w, "}\n");
	arena_free(&w->scratch);
}
