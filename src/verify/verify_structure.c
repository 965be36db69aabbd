/* verify_structure.c - what every Module keeps: nodes in lists that agree in both directions, arguments that stand
 * before their users, use lists that hold exactly the uses, and a tree of calls. A violation is a document's fault only
 * for order and calls; the rest would be a pass's. */
#include "verifier.h"

/* ---- lists of nodes ---------------------------------------------------------------------------------------------- */

static bool check_link(Verifier *v, GraphId g, NodeId n, NodeId previous) {
	const Node *node = node_get(v->m, n);
	const char *wrong = NULL;
	if (v->position[n] != 0)
		wrong = "stands twice in a list";
	else if (node->dead)
		wrong = "was removed but is still listed";
	else if (node->graph != g)
		wrong = "is listed in another graph than its own";
	else if (node->prev != previous)
		wrong = "has a broken link to the node before it";
	else if (node->op >= OP_COUNT)
		wrong = "has no op";
	if (wrong != NULL)
		verify_graph_error(v, g, "internal-structure", NULL, "node '%s' %s", node->name, wrong);
	return wrong == NULL;
}

static bool check_ends(Verifier *v, GraphId g, NodeId last) {
	const Graph *graph = graph_get(v->m, g);
	if (graph->last != last) {
		verify_graph_error(v, g, "internal-structure", NULL, "its last node is not the end of its list");
		return false;
	}
	if (last == NONE || graph->output != last || node_get(v->m, last)->op != OP_OUTPUT) {
		verify_graph_error(v, g, "output-node", NULL, "its last node is not an output node");
		return false;
	}
	for (uint32_t i = 0; i < graph->placeholders.count; i++) {
		NodeId p = graph->placeholders.at[i];
		if (v->position[p] == 0 || node_get(v->m, p)->op != OP_PLACEHOLDER || node_get(v->m, p)->graph != g) {
			verify_graph_error(v, g, "internal-structure", NULL, "placeholder %u is not one of its nodes",
			                   i);
			return false;
		}
	}
	return true;
}

/* Numbers the nodes of a graph. */
static bool check_list(Verifier *v, GraphId g) {
	NodeId last = NONE;
	uint32_t position = 0, placeholders = 0, outputs = 0;
	for (NodeId n = graph_first(v->m, g); n != NONE; n = node_get(v->m, n)->next) {
		if (!check_link(v, g, n, last))
			return false;
		v->position[n] = ++position;
		placeholders += node_get(v->m, n)->op == OP_PLACEHOLDER;
		outputs += node_get(v->m, n)->op == OP_OUTPUT;
		last = n;
	}
	if (!check_ends(v, g, last))
		return false;
	if (placeholders != graph_get(v->m, g)->placeholders.count || outputs != 1) {
		verify_graph_error(v, g, "internal-structure", NULL, "it has %u placeholder nodes and %u output nodes",
		                   placeholders, outputs);
		return false;
	}
	return true;
}

/* ---- uses -------------------------------------------------------------------------------------------------------- */

typedef struct UseCheck {
	Verifier *v;
	NodeId user;
	uint32_t *uses; /* by NodeId: the slots that refer to it */
	bool ok;
} UseCheck;

static void check_reference(UseCheck *c, const Arg *arg) {
	Module *m = c->v->m;
	const Node *user = node_get(m, c->user), *used = node_get(m, arg->node);
	if (used->dead || used->graph != user->graph || c->v->position[arg->node] == 0) {
		verify_node_error(c->v, c->user, "unknown-node", NULL, "it refers to '%s', which is not in its graph",
		                  used->name);
	} else if (c->v->position[arg->node] >= c->v->position[c->user]) {
		verify_node_error(c->v, c->user, "node-order", "nodes stand after those they use",
		                  "it refers to '%s', which stands later", used->name);
	} else {
		c->uses[arg->node]++;
		if (arg->user == c->user)
			return;
		verify_node_error(c->v, c->user, "internal-use-list", NULL,
		                  "its use of '%s' is recorded for another node", used->name);
	}
	c->ok = false;
}

/* Lists nest as deep as the loader admits. */
static void check_references(UseCheck *c, const Arg *arg) {
	if (arg->kind == ARG_REF)
		check_reference(c, arg);
	if (arg->kind == ARG_LIST || arg->kind == ARG_SLICE)
		for (uint32_t i = 0; i < arg->list.count; i++)
			check_references(c, arg_item(c->v->m, arg, i));
}

/* A use list as long as the uses counted, each of them a reference to n: then it holds exactly those. */
static bool check_use_list(UseCheck *c, NodeId n) {
	Module *m = c->v->m;
	uint32_t count = 0;
	ArgId previous = NONE;
	bool ok = true;
	for (ArgId u = node_uses(m, n); ok && u != NONE && count <= c->uses[n]; u = arg_get(m, u)->next_use) {
		const Arg *use = arg_get(m, u);
		ok = use->kind == ARG_REF && use->node == n && use->prev_use == previous;
		previous = u;
		count++;
	}
	if (ok && count == c->uses[n])
		return true;
	verify_node_error(c->v, n, "internal-use-list", NULL, "its use list does not hold its %u uses", c->uses[n]);
	return false;
}

static bool check_uses(Verifier *v) {
	UseCheck c = {.v = v, .ok = true};
	c.uses = arena_array(v->m->arena, v->m->nodes.count, sizeof *c.uses);
	for (GraphId g = 0; g < v->m->graphs.count; g++)
		for (NodeId n = graph_first(v->m, g); n != NONE; n = node_get(v->m, n)->next)
			for (uint32_t i = 0; i < node_get(v->m, n)->arg_count; i++) {
				c.user = n;
				check_references(&c, node_arg(v->m, n, i));
			}
	if (!c.ok)
		return false;
	for (NodeId n = 0; n < v->m->nodes.count; n++)
		if (v->position[n] != 0)
			c.ok &= check_use_list(&c, n);
	return c.ok;
}

/* ---- the tree of calls ------------------------------------------------------------------------------------------- */

/* Every graph argument of every node: its graph is called here, and nowhere else. */
static bool check_callers(Verifier *v, uint32_t *calls) {
	bool ok = true;
	for (NodeId n = 0; n < v->m->nodes.count; n++) {
		if (v->position[n] == 0)
			continue;
		for (uint32_t i = 0; i < node_get(v->m, n)->arg_count; i++) {
			const Arg *arg = node_arg(v->m, n, i);
			if (arg->kind != ARG_GRAPH)
				continue;
			const Graph *called = graph_get(v->m, arg->graph);
			const char *wrong = called->kind == GRAPH_ROOT ? "is a root, which no node may call"
			                    : calls[arg->graph]++ > 0  ? "is called twice"
			                    : called->caller != n      ? "records another caller"
			                                               : NULL;
			if (wrong == NULL)
				continue;
			verify_node_error(v, n, "bad-call", "each graph but the roots is called by one node",
			                  "graph %lld %s", (long long)called->id, wrong);
			ok = false;
		}
	}
	return ok;
}

static bool check_call_tree(Verifier *v) {
	uint32_t *calls = arena_array(v->m->arena, v->m->graphs.count, sizeof *calls);
	if (!check_callers(v, calls))
		return false;
	bool ok = true;
	uint32_t depth;
	for (GraphId g = 0; g < v->m->graphs.count; g++) {
		bool is_root = graph_get(v->m, g)->kind == GRAPH_ROOT;
		if (!is_root && calls[g] == 0)
			verify_graph_error(v, g, "graph-unreachable", "drop it, or call it", "no node calls it");
		else if (graph_root(v->m, g, &depth) == NONE)
			verify_graph_error(v, g, "bad-call", NULL, "its callers do not lead to a root within %d calls",
			                   GRAPH_DEPTH_MAX);
		else
			continue;
		ok = false;
	}
	return ok;
}

void verify_structure(Verifier *v) {
	bool ok = true;
	for (GraphId g = 0; g < v->m->graphs.count; g++)
		ok &= check_list(v, g);
	if (ok && check_uses(v))
		check_call_tree(v);
}
