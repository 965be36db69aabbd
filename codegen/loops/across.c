/* across.c - the windows that a loop reads first are copied while what runs before it computes its last step.
 *
 * A loop that copies its windows starts empty each time it runs: it waits for the first ones, all their bytes and the
 * latency of HBM. Where the grid's point and tables alone say where they lie, what runs before can start their copies:
 * the grid point before, or, of a loop in a step of a loop around it (a tile of queries and its pages), the *item*
 * before, which is another step of that loop, of another such loop, or of the point before. Then points must run in
 * order, on one core, and steps are counted from the first point on, for the buffers go round (rewrite: drive_fori.c,
 * drive_items.c).
 *
 * `auto`: pages that are copied one by one, of a sequence whose length data say, for many points have few steps; and
 * items, for a loop in a step runs so often: fused linear + cross-entropy of 8192 x 32000 takes 3.34M cycles, 2.77M so
 * on v7x, 4.25M, 3.50M on v6e. */
#include "loops.h"
#include "codegen/costs/costs.h"

typedef struct Across {
	Planner *p;
	const Loop *loop;
	bool item;      /* it stands in a step of another loop */
	uint8_t *known; /* by node: what is known of it: 1 that it is told, 2 that it is not; 0: nothing yet */
} Across;

static bool told(Across *x, NodeId n);

static bool arg_told(Across *x, const Arg *a) {
	if (a->kind == ARG_LIST)
		return false;
	return a->kind != ARG_REF || told(x, a->node);
}

/* A scalar that tables tell: made of their elements, of where tiles begin, and of constants. */
static bool told_anew(Across *x, NodeId n) {
	const Module *m = x->p->m;
	const Node *node = node_get(m, n);
	const Arg *outer = constant_argument(m, n);
	bool all = true;
	if (outer)
		return arg_told(x, outer);
	if (node_type(m, n)->kind == TYPE_SYM && op_row(node->op)->kind == KIND_QUERY)
		return true;
	if (node_type(m, n)->count > 0)
		return false;
	if (node->op == OP_LOAD)
		return x->p->plan->values[n].table;
	OpKind kind = op_row(node->op)->kind;
	if (kind != KIND_POINTWISE && kind != KIND_SYMBOLIC && node->op != OP_SCALAR)
		return false;
	for (uint32_t i = 0; i < node->arg_count && all; i++)
		all = arg_told(x, node_arg(m, n, i));
	return all;
}

static bool told(Across *x, NodeId n) {
	if (!x->known[n])
		x->known[n] = told_anew(x, n) ? 1 : 2;
	return x->known[n] == 1;
}

/* It is known before: made of the grid's point, the loop's step and constants. Ints that a step loads are elements of
 * tables by then; of an item also what tables tell of the steps around it. */
static bool known_ahead(Across *x, const Affine *a) {
	bool known = true;
	for (uint32_t i = 0; i < a->count && known; i++) {
		const Term *t = &a->term[i];
		bool loaded = t->kind == VAR_NODE && node_get(x->p->m, t->id)->graph == x->loop->graph;
		known = t->kind == VAR_PROGRAM || t->kind == VAR_STEP || loaded ||
		        (x->item && t->kind == VAR_NODE && told(x, t->id));
	}
	return known;
}

static bool places_known(Across *x, NodeId n) {
	const Planner *p = x->p;
	while (node_get(p->m, n)->op == OP_CLAMP)
		n = node_input(p->m, n, 0);
	const Access *access = n == NONE ? NULL : p->plan->values[n].access;
	bool known = access != NULL;
	for (uint32_t d = 0; known && d < access->rank; d++)
		known = known_ahead(x, &access->dim[d].start);
	return known;
}

static bool window_known(Across *x, const Window *w) {
	const Operand *o = &x->p->plan->operands.at[w->operand];
	bool known = w->pieces == NONE || places_known(x, w->places);
	for (uint32_t d = 0; known && d < o->rank; d++)
		known = w->around[d] == 0 && known_ahead(x, &w->index[d]) && known_ahead(x, &w->start[d]);
	return known;
}

static bool bounds_known(Across *x, const Loop *loop) {
	return known_ahead(x, &loop->dim[0].begin) && known_ahead(x, &loop->dim[0].end);
}

/* It stands in a step of a loop of the kernel that counts its steps one by one. */
static bool is_item(const Planner *p, const Loop *loop) {
	if (loop->parent == NONE)
		return false;
	const Loop *around = &p->plan->loops.at[loop->parent];
	return around->parent == NONE && around->type == LOOP_FORI && around->rank == 1 && !around->skewed &&
	       !around->peeled;
}

static bool blocks_copied_ahead(const Plan *plan) {
	bool found = false;
	for (uint32_t i = 0; i < plan->operands.count; i++)
		found = found || plan->operands.at[i].ahead;
	return found;
}

/* What speaks against it; NULL: nothing. *pages: they are copied one by one, up to where data say. */
static const char *not_across(Across *x, bool *pages) {
	const Loop *loop = x->loop;
	const Plan *plan = x->p->plan;
	if (loop->type != LOOP_FORI || !loop->dma || loop->rank != 1)
		return "its windows are not copied by a fori_loop over one dim";
	if (grid_points(plan) < 2 || x->p->m->target->tensorcores > 1)
		return "there is no next point on the same core";
	if (plan->remote || plan->strips || loop->skewed || loop->peeled || blocks_copied_ahead(plan) ||
	    (!x->item && (plan->loops.count > 1 || graph_parent(x->p->m, loop->graph) != plan->root)))
		return "it is neither one loop that each point runs once, nor in one";
	if (x->item && (!bounds_known(x, loop) || !bounds_known(x, &plan->loops.at[loop->parent])))
		return "how many steps the next one has is not known before";
	for (uint32_t i = 0; i < loop->windows.count; i++) {
		const Window *w = &loop->windows.at[i];
		if (w->output || (w->dma && !window_known(x, w)))
			return "where its windows lie is not known before";
		if (w->dma && w->buffers < 2)
			return "there is no second buffer";
		*pages = *pages || (w->pieces != NONE && loop->dim[0].computed);
	}
	return NULL;
}

void plan_across(Planner *p) {
	Switch asked = (Switch)p->m->config.windows_across.value;
	Across x = {.p = p, .known = arena_array(p->a, p->m->nodes.count, sizeof *x.known)};
	for (uint32_t l = 0; l < p->plan->loops.count; l++) {
		Loop *loop = &p->plan->loops.at[l];
		bool pages = false;
		x.loop = loop;
		x.item = is_item(p, loop);
		const char *why = asked == SWITCH_OFF ? "pallas_windows_across is off" : not_across(&x, &pages);
		loop->across = !why && (pages || x.item || asked == SWITCH_ON);
		loop->across_why = why      ? why
		                   : pages  ? "pages are copied one by one"
		                   : x.item ? "it runs again in each step of the loop around it"
		                            : "pallas_windows_across";
	}
}
