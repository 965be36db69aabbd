/* verify_remote.c - copies between devices: there is a mesh, and what starts and what waits on a channel agree. Whether
 * each copy is waited for on every path is known once loops have steps: codegen/loops/remote.c. */
#include "verifier.h"

typedef struct Channel {
	NodeId first;    /* of its nodes; NONE: it has none */
	NodeId copy;     /* one of its copies; NONE */
	bool send, recv; /* some node waits for that end */
} Channel;

/* The shape and dtype that an access names, as it was inferred once already. */
static bool region_type(Verifier *v, NodeId n, TypeId *type) {
	Infer in = {v->m, v->d, n};
	return infer_part(&in, type);
}

static bool same_region(Verifier *v, NodeId a, NodeId b) {
	TypeId x, y;
	if (!region_type(v, a, &x) || !region_type(v, b, &y) || type_equal(v->m, x, y))
		return true;
	verify_node_error(v, b, "remote-channel", "give each kind of copy a channel of its own",
	                  "channel %lld counts %s here, and %s at '%s'", (long long)op_arg(v->m, b, "channel")->integer,
	                  type_string(v->m, y), type_string(v->m, x), node_get(v->m, a)->name);
	return false;
}

static void note(Verifier *v, Channel *channels, NodeId n) {
	Channel *c = &channels[op_arg(v->m, n, "channel")->integer];
	if (c->first != NONE && !same_region(v, c->first, n))
		return;
	c->first = c->first == NONE ? n : c->first;
	if (node_get(v->m, n)->op == OP_REMOTE_COPY) {
		c->copy = n;
		return;
	}
	const char *ends = op_arg(v->m, n, "ends")->string;
	c->send = c->send || strcmp(ends, "recv") != 0;
	c->recv = c->recv || strcmp(ends, "send") != 0;
}

static void check_channel(Verifier *v, const Channel *c) {
	if (c->copy == NONE)
		verify_node_error(v, c->first, "remote-wait", "start a copy on it with tile.remote_copy",
		                  "no copy starts on its channel");
	else if (!c->send || !c->recv)
		verify_node_error(v, c->copy, "remote-wait", "wait with tile.remote_wait for both ends of each copy",
		                  "nothing waits until %s", c->send ? "a copy has come" : "its source is sent");
}

/* It is memory, which nothing but a copy reads. */
static void check_part(Verifier *v, NodeId n) {
	for (ArgId u = node_uses(v->m, n); u != NONE; u = arg_get(v->m, u)->next_use) {
		NodeId user = arg_get(v->m, u)->user;
		if (node_get(v->m, user)->op != OP_REMOTE_COPY && !v->failed[user])
			verify_node_error(v, user, "remote-part", "tile.load gives its value",
			                  "'%s' is a part of a tensor, which only tile.remote_copy takes",
			                  node_get(v->m, n)->name);
	}
}

/* All devices must come to it, whatever their data are. */
static void check_barrier(Verifier *v, NodeId n) {
	for (GraphId g = node_get(v->m, n)->graph; g != NONE; g = graph_parent(v->m, g)) {
		GraphKind kind = graph_get(v->m, g)->kind;
		if (kind != GRAPH_ROOT && kind != GRAPH_FOR_LOOP) {
			verify_node_error(v, n, "remote-barrier", "move it to where every device comes",
			                  "a barrier stands in a root or in loops of one");
			return;
		}
	}
}

void verify_remote(Verifier *v) {
	Channel channels[CHANNELS_MAX];
	for (uint32_t i = 0; i < CHANNELS_MAX; i++)
		channels[i] = (Channel){.first = NONE, .copy = NONE};
	for (NodeId n = 0; n < v->m->nodes.count; n++) {
		uint16_t op = node_get(v->m, n)->op;
		bool meets = op_is_remote(op) || op == OP_REMOTE_BARRIER || op == OP_DEVICE_ID;
		if (node_get(v->m, n)->dead || v->failed[n])
			continue;
		if (op == OP_PART)
			check_part(v, n);
		if (op == OP_REMOTE_BARRIER)
			check_barrier(v, n);
		if (!meets)
			continue;
		if (!v->m->mesh_axis)
			verify_node_error(v, n, "mesh", "say \"mesh\": {\"x\": 4} in the document",
			                  "the program runs on no mesh of devices");
		else if (op_is_remote(op))
			note(v, channels, n);
	}
	for (uint32_t i = 0; i < CHANNELS_MAX; i++)
		if (channels[i].first != NONE && !v->failed[channels[i].first])
			check_channel(v, &channels[i]);
}
