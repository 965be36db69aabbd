/* remote.c - copies between devices, step by step: each is waited for before the next one on its channel starts, and
 * before the kernel ends, whatever path it takes.
 *
 * All devices run one program, so that what holds of one holds of all: as many copies come as go. That can be counted
 * because nothing but the numbers of steps says whether a copy starts; a predicate of data is refused. One copy on a
 * channel at a time makes a wait one for that copy, and a computed source may be written again once it is sent. */
#include "loops.h"
#include "codegen/lower/lower.h"

/* So many nodes are followed: thousands of steps. */
enum { VISITS_MAX = 1 << 20 };

typedef struct Walk {
	Planner *p;
	bool *holds;                                        /* by GraphId: it, or what it calls, has remote nodes */
	int64_t *step;                                      /* by loop * RANK_MAX + dim: which one it is at */
	NodeId sending[CHANNELS_MAX], coming[CHANNELS_MAX]; /* the copy that is not waited for yet; NONE */
	int64_t visits;
} Walk;

static bool is_one(const Module *m, NodeId n) {
	return op_is_remote(node_get(m, n)->op) || node_get(m, n)->op == OP_REMOTE_BARRIER;
}

static bool find(Walk *w, GraphId g) {
	const Module *m = w->p->m;
	for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next) {
		bool inside = op_lowering(node_get(m, n)->op) == LOWER_LOOP && find(w, loop_body(m, n));
		w->holds[g] = w->holds[g] || inside || is_one(m, n);
	}
	return w->holds[g];
}

/* ---- ints at a step --------------------------------------------------------------------------------------------- */

static bool number_of(Walk *w, GraphId g, const Arg *arg, int64_t *x);

static bool compared(uint16_t op, int64_t a, int64_t b, int64_t *x) {
	switch (op) {
	case OP_EQ: *x = a == b; return true;
	case OP_NE: *x = a != b; return true;
	case OP_LT: *x = a < b; return true;
	case OP_LE: *x = a <= b; return true;
	case OP_GT: *x = a > b; return true;
	case OP_GE: *x = a >= b; return true;
	case OP_LOGICAL_AND: *x = a && b; return true;
	case OP_LOGICAL_OR: *x = a || b; return true;
	case OP_MINIMUM: *x = int_min(a, b); return true;
	case OP_MAXIMUM: *x = int_max(a, b); return true;
	default: return false;
	}
}

/* What affine.c leaves as a variable. */
static bool number_of_node(Walk *w, NodeId n, int64_t *x) {
	const Module *m = w->p->m;
	const Node *node = node_get(m, n);
	uint16_t op = op_canonical(node->op);
	int64_t a, b;
	if (node->arg_count == 0 || op_kind(m, n) == KIND_MEMORY || !number_of(w, node->graph, node_arg(m, n, 0), &a))
		return false;
	if (op == OP_LOGICAL_NOT)
		*x = !a;
	return op == OP_LOGICAL_NOT ||
	       (node->arg_count > 1 && number_of(w, node->graph, node_arg(m, n, 1), &b) && compared(op, a, b, x));
}

static bool number_of(Walk *w, GraphId g, const Arg *arg, int64_t *x) {
	Affine a = affine_of_arg(w->p, g, arg);
	*x = a.constant;
	for (uint32_t i = 0; i < a.count; i++) {
		const Term *t = &a.term[i];
		int64_t value = 0; /* the grid has one point */
		if (t->kind == VAR_PLACE || (t->kind == VAR_NODE && !number_of_node(w, t->id, &value)))
			return false;
		*x += term_value(t, t->kind == VAR_STEP ? w->step[t->id] : value);
	}
	return true;
}

/* ---- the walk --------------------------------------------------------------------------------------------------- */

static const char *name_of(const Walk *w, NodeId n) { return node_get(w->p->m, n)->name; }

/* Of a device that is known here. */
static bool device_is_there(Walk *w, NodeId n) {
	int64_t device, devices = w->p->m->mesh_devices;
	if (!number_of(w, node_get(w->p->m, n)->graph, op_arg(w->p->m, n, "device"), &device) ||
	    (device >= 0 && device < devices))
		return true;
	return plan_refuse(w->p, n, "remote-device", "count devices along the mesh's axis from 0",
	                   "there is no device %lld: the axis %s has %lld", (long long)device, w->p->m->mesh_axis,
	                   (long long)devices);
}

static bool visit(Walk *w, NodeId n) {
	const Module *m = w->p->m;
	const Arg *pred = op_arg(m, n, "pred"), *ends = op_arg(m, n, "ends");
	int64_t channel = op_arg(m, n, "channel")->integer, runs = 1;
	if (pred->kind != ARG_NULL && !number_of(w, node_get(m, n)->graph, pred, &runs))
		return plan_refuse(w->p, n, "remote-wait",
		                   "let every device start and wait alike, by numbers of steps alone",
		                   "whether '%s' runs depends on data: no device could say what comes", name_of(w, n));
	if (!runs)
		return true;
	NodeId *sending = &w->sending[channel], *coming = &w->coming[channel];
	if (node_get(m, n)->op == OP_REMOTE_COPY) {
		if (*sending != NONE || *coming != NONE)
			return plan_refuse(w->p, n, "remote-wait",
			                   "wait for it first, or give this copy another channel",
			                   "it starts before '%s', on its channel, is waited for",
			                   name_of(w, *sending != NONE ? *sending : *coming));
		if (!device_is_there(w, n))
			return false;
		*sending = *coming = n;
		w->p->plan->channels[channel].starts++;
		return true;
	}
	bool send = strcmp(ends->string, "recv") != 0, recv = strcmp(ends->string, "send") != 0;
	if ((send && *sending == NONE) || (recv && *coming == NONE))
		return plan_refuse(w->p, n, "remote-wait", "wait once for each copy",
		                   "'%s' waits for a copy that no device started", name_of(w, n));
	*sending = send ? NONE : *sending;
	*coming = recv ? NONE : *coming;
	return true;
}

static bool refuse_loop(Walk *w, NodeId call) {
	return plan_refuse(w->p, call, "remote-wait", "give it bounds that are numbers",
	                   "the loop '%s' holds copies between devices, and how often it runs is not known",
	                   name_of(w, call));
}

static bool walk(Walk *w, GraphId g);

/* What a branch became that is left out where it is not taken (branches.c): its flag is false behind the first step. */
static bool walk_once(Walk *w, NodeId call) {
	const Module *m = w->p->m;
	uint32_t flag = while_flag(m, call),
		 output = flag == NONE ? NONE : graph_carried_output(graph_get(m, loop_body(m, call)), flag);
	const Arg *last = output == NONE ? NULL : arg_item(m, graph_results(m, loop_body(m, call)), output);
	int64_t taken;
	bool once = last && last->kind == ARG_REF && node_get(m, last->node)->op == OP_FULL &&
	            !constant_of(m, last->node).boolean;
	if (!once || !number_of(w, node_get(m, call)->graph, arg_item(m, loop_args(m, call), flag), &taken))
		return refuse_loop(w, call);
	return !taken || walk(w, loop_body(m, call));
}

static bool walk_loop(Walk *w, NodeId call, uint32_t d) {
	uint32_t l = w->p->plan->loop_of[loop_body(w->p->m, call)];
	const Loop *loop = &w->p->plan->loops.at[l];
	const LoopDim *dim = &loop->dim[d];
	if (loop->rank && d == loop->rank)
		return walk(w, loop->graph);
	if (!loop->rank)
		return walk_once(w, call);
	if (dim->computed)
		return refuse_loop(w, call);
	int64_t steps = dim->full_steps + (dim->tail != 0);
	for (int64_t i = 0; i < steps; i++) {
		w->step[l * RANK_MAX + d] = i;
		if (!walk_loop(w, call, d + 1))
			return false;
	}
	return true;
}

static bool walk(Walk *w, GraphId g) {
	const Module *m = w->p->m;
	for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next) {
		uint16_t op = node_get(m, n)->op;
		if (op_lowering(op) == LOWER_LOOP && w->holds[loop_body(m, n)]) {
			if (!walk_loop(w, n, 0))
				return false;
		} else if (op_is_remote(op) && !visit(w, n)) {
			return false;
		}
		if (++w->visits > VISITS_MAX)
			return plan_refuse(w->p, n, "remote-wait", "copy larger parts in fewer steps",
			                   "copies start in more steps than are followed, of '%s'", name_of(w, n));
	}
	return true;
}

static bool one_point(Planner *p) {
	for (uint32_t d = 0; d < p->plan->grid.count; d++)
		if (p->plan->grid.at[d].steps > 1)
			return plan_refuse(
				p, graph_first(p->m, p->plan->root), "remote-grid",
				"make the grid dims loops inside of one grid point",
				"a kernel that copies between devices runs at one grid point, not at %lld of %s",
				(long long)p->plan->grid.at[d].steps, p->plan->grid.at[d].name);
	return true;
}

bool plan_remote(Planner *p) {
	Walk w = {.p = p, .holds = arena_array(p->a, p->m->graphs.count, sizeof *w.holds)};
	w.step = arena_array(p->a, (size_t)p->plan->loops.count * RANK_MAX, sizeof *w.step);
	for (uint32_t i = 0; i < CHANNELS_MAX; i++)
		w.sending[i] = w.coming[i] = NONE;
	p->plan->remote = p->m->mesh_axis && find(&w, p->plan->root);
	if (!p->plan->remote)
		return true;
	p->plan->channels = arena_array(p->a, CHANNELS_MAX, sizeof *p->plan->channels);
	if (!one_point(p) || !walk(&w, p->plan->root))
		return false;
	for (uint32_t i = 0; i < CHANNELS_MAX; i++) {
		NodeId left = w.sending[i] != NONE ? w.sending[i] : w.coming[i];
		if (left != NONE)
			return plan_refuse(p, left, "remote-wait", "wait for both ends of the last copy as well",
			                   "the kernel may end before '%s' is done", name_of(&w, left));
	}
	return true;
}
