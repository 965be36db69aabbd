/* build_debug.c - values that a kernel prints while it runs (--debug-print), behind the point of the grid and the
 * steps of the loops around. A TPU prints numbers of 32 bits: others are converted to float32 or int32. */
#include "builder.h"

static const DebugPrint *debug_print_of(const Builder *b, NodeId n) {
	const DebugPrints *all = b->m->debug_prints;
	for (uint32_t i = 0; all && i < all->list.count; i++)
		if (strcmp(all->list.at[i].name, node_get(b->m, n)->name) == 0)
			return &all->list.at[i];
	return NULL;
}

bool is_printed(const Builder *b, NodeId n) {
	const Value *v = &b->plan->values[n];
	const Type *t = node_type(b->m, n);
	uint16_t op = node_get(b->m, n)->op;
	if (!debug_print_of(b, n) || v->folded || (t->kind != TYPE_TENSOR && t->kind != TYPE_SYM) ||
	    op == OP_HOST_TENSOR)
		return false;
	NodeId root = value_root(b->plan, n);
	return root == n || strcmp(node_get(b->m, root)->name, node_get(b->m, n)->name) != 0;
}

typedef struct Printed {
	Text text;
	VEC(KArg) args; /* the value, the point */
} Printed;

static void add_int(Builder *b, Printed *p, const char *name, IntId at) {
	text_printf(&p->text, p->args.count > 1 ? " %s" : " (%s", name);
	KArg arg = build_int_arg(b, at);
	vec_push(b->a, &p->args, arg);
}

/* The steps of loops around a graph, outermost first. */
static void add_steps(Builder *b, Printed *p, GraphId g) {
	if (g == NONE)
		return;
	add_steps(b, p, graph_parent(b->m, g));
	uint32_t l = b->plan->loop_of[g];
	for (uint32_t i = 0; l != NONE && i < b->plan->loops.at[l].rank; i++) {
		IntId step = b->step[l * RANK_MAX + i];
		add_int(b, p, b->k->values.at[b->k->ints.at[step].value].name, step);
	}
}

/* As a number of 32 bits. */
static KArg as_word(Builder *b, NodeId n, KArg x) {
	Dtype from = karg_dtype(b, x);
	if (x.kind == KARG_BOOL)
		return karg_integer(x.boolean);
	if (x.kind == KARG_REAL)
		return build_scalar(b, x, DTYPE_F32);
	if (x.kind != KARG_VALUE || b->k->values.at[x.value].type == KTYPE_INT)
		return x;
	Dtype to = dtype_is_float(from) ? DTYPE_F32 : DTYPE_I32;
	return (type_rank(b, n) ? build_converted : build_converted_scalar)(b, x, from, to);
}

void build_debug_print(Builder *b, NodeId n) {
	Printed p = {0};
	KArg none = {0};
	const Node *node = node_get(b->m, n);
	b->from = &node->loc;
	b->flags = b->plan->values[n].ahead ? KSTMT_AHEAD : 0;
	KArg x = build_value(b, n, b->plan->values[n].form);
	if (x.kind != KARG_NONE) {
		vec_push(b->a, &p.args, none);
		text_init(&p.text, b->a);
		text_put(&p.text, node->name);
		for (uint32_t d = 0; d < b->plan->grid.count; d++)
			add_int(b, &p, b->plan->grid.at[d].name, int_value(b->k, b->program[d]));
		add_steps(b, &p, node->graph);
		text_put(&p.text, p.args.count > 1 ? ")" : "");
		p.args.at[0] = as_word(b, n, x);
		StmtId s = build_statement(b, K_DEBUG_PRINT, p.args.count, p.args.at);
		int64_t *whole = arena_alloc(b->a, sizeof *whole);
		*whole = debug_print_of(b, n)->whole;
		kernel_stmt(b->k, s)->ints = whole;
		kernel_stmt(b->k, s)->int_count = 1;
		kernel_stmt(b->k, s)->text = p.text.at;
	}
	b->from = NULL;
	b->flags = 0;
}
