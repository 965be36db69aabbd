/* build_graph.c - the statements of a graph, node by node. */
#include "builder.h"
#include "codegen/lower/lower.h"

static bool int_is_read(Builder *b, NodeId n) {
	Planner p = build_planner(b);
	Arg ref = arg_ref(n);
	Affine a = affine_of_arg(&p, node_get(b->m, n)->graph, &ref);
	return a.count == 1 && a.term[0].kind == VAR_NODE && a.term[0].id == n;
}

/* A variable for the node's value. */
static void build_named(Builder *b, NodeId n) {
	KArg x = build_node_value(b, n);
	if (b->value[n].kind != KARG_NONE) /* a view that gave its name to a conversion */
		return;
	if (x.kind != KARG_VALUE || b->k->values.at[x.value].name) {
		const KValue *v = x.kind == KARG_VALUE ? &b->k->values.at[x.value] : NULL;
		x = build_shaped(b, K_LET, v ? v->dtype : node_type(b->m, n)->dtype, v ? v->rank : 0,
		                 v ? v->shape : NULL, 1, &x);
	}
	build_name_of(b, x, n);
	b->value[n] = x;
}

static void build_mask_to(Builder *b, NodeId n) {
	KArg x = build_arg(b, node_arg(b->m, n, 0), b->plan->values[n].form);
	KArg fill = build_arg(b, node_arg(b->m, n, 1), FORM_NATURAL);
	build_masks(b, n, x, fill);
}

void build_node(Builder *b, NodeId n) {
	Lowering how = op_lowering(node_get(b->m, n)->op);
	if (!b->made[n] || b->sunk[n] || (how == LOWER_RESULT && takes_of_loop(b->m, n)))
		return;
	b->from = &node_get(b->m, n)->loc;
	b->also = NULL;
	b->flags = b->plan->values[n].ahead ? KSTMT_AHEAD : 0;
	if (node_get(b->m, n)->op != OP_REMOTE_BARRIER && (op_writes(node_get(b->m, n)->op) || how == LOWER_LOOP))
		b->met = false;
	switch (how) {
	case LOWER_STORE: build_write(b, n); break;
	case LOWER_LOOP: build_loop(b, n); break;
	case LOWER_REMOTE: build_remote(b, n); break;
	case LOWER_INT:
		if (int_is_read(b, n))
			build_named(b, n);
		break;
	case LOWER_MASK: build_mask_to(b, n); break;
	case LOWER_FULL:
		if (node_type(b->m, n)->count > 0)
			build_named(b, n);
		break;
	case LOWER_LOAD:
		build_named(b, n);
		build_masks(b, n, b->value[n],
		            node_type(b->m, n)->dtype == DTYPE_BOOL ? karg_bool(false) : karg_integer(0));
		break;
	default: build_named(b, n); break;
	}
	b->from = b->also = NULL;
	b->flags = 0;
}

void build_graph(Builder *b, GraphId g) {
	for (NodeId n = graph_first(b->m, g); n != NONE; n = node_get(b->m, n)->next) {
		build_node(b, n);
		if (is_printed(b, n))
			build_debug_print(b, n);
	}
}
