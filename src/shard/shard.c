/* shard.c - chooses what is cut where nobody says it, and makes the document that of one device. */
#include "cuts.h"

static void start(Cuts *c, Module *m, const Sharding *s, const CarriedFacts **facts, const Cut *blocks) {
	*c = (Cuts){.m = m, .a = m->arena, .mesh = &s->mesh, .ring = &s->ring, .facts = facts, .at = NONE};
	c->made = m->tensors.count;
	c->block = arena_array(c->a, m->blocks.count + 1, sizeof *c->block);
	c->range = arena_array(c->a, m->blocks.count + 1, sizeof *c->range);
	c->tensor = arena_array(c->a, m->tensors.count + 1, sizeof *c->tensor);
	c->returned = arena_array(c->a, m->returns.count + 1, sizeof *c->returned);
	c->summed = arena_array(c->a, m->returns.count + 1, sizeof *c->summed);
	c->counted = arena_array(c->a, m->tensors.count + 1, sizeof *c->counted);
	memset(c->counted, -1, (m->tensors.count + 1) * sizeof *c->counted);
	for (BlockId b = 0; b < m->blocks.count; b++)
		c->block[b] = blocks[b], c->range[b] = m->blocks.at[b].extent;
	for (TensorId t = 0; t < m->tensors.count; t++)
		c->tensor[t] = (Parted){.rank = m->tensors.at[t].rank};
	for (uint32_t r = 0; r < m->returns.count; r++) {
		const Return *ret = &m->returns.at[r];
		c->summed[r] = (Merge){.by = NONE};
		c->returned[r] = (Parted){.rank = ret->has_shape ? ret->rank : m->tensors.at[ret->tensor].rank};
	}
}

static bool is_host_array(const Tensor *t) {
	return t->role == ROLE_INPUT || t->role == ROLE_OUTPUT || t->role == ROLE_INOUT;
}

/* On how many devices each part differs: a step's parts are in turn on the same ones. */
int64_t devices_of(const Cuts *c, const Cut *cut) {
	Cut in_space = cut_without(cut, c->ring->steps);
	return cut_parts(c->mesh, &in_space);
}

/* Bytes, on one device. */
typedef struct Cost {
	double sent;  /* to others, and as many got */
	double held;  /* of its arrays */
	double taken; /* of inputs that it has, and of which steps take parts */
} Cost;

static Cost cost_of(const Cuts *c) {
	Cost all = {.sent = c->sent};
	double ring = c->ring->kind == RING_NONE ? 1 : (double)c->mesh->axis[c->ring->axis].devices;
	for (TensorId t = 0; t < c->m->tensors.count; t++) {
		const Tensor *x = &c->m->tensors.at[t];
		double bytes = (double)dtype_bits(x->dtype) / 8;
		bool steps = false, moves = ring_moves(c->ring, t);
		for (uint32_t d = 0; d < x->rank; d++) {
			bytes *= cuts_size(c, t, d);
			steps = steps || cut_has(&c->tensor[t].dim[d], c->ring->steps);
		}
		bytes /= moves ? ring : 1;
		if (moves && c->ring->kind == RING_GATHER)
			all.sent += bytes * (ring - 1); /* all but one's own part comes by */
		all.taken += x->role == ROLE_INPUT && steps && !moves ? bytes : 0;
		all.held += is_host_array(x) ? bytes : 0;
	}
	return all;
}

static bool is_cheaper(const Cost *x, const Cost *y) {
	if (x->sent < y->sent || x->sent > y->sent)
		return x->sent < y->sent;
	if (x->held < y->held || x->held > y->held)
		return x->held < y->held;
	return x->taken < y->taken;
}

enum { TRIES = 4096 };

typedef struct Search {
	Module *m;
	const Sharding *s;
	const CarriedFacts **facts;
	uint32_t axes;   /* of the mesh, and its ring's */
	bool *given;     /* by axis: a user says what it cuts */
	Cut *now, *best; /* by BlockId */
	bool any;
	Cost cost;
	uint32_t left; /* tries */
	Text why;      /* of the first axis that cuts nothing */
	NodeId at;     /* whose fault it is; NONE */
	uint32_t deepest;
} Search;

static void search_forget(Search *s) {
	text_init(&s->why, s->m->arena);
	text_put(&s->why, "");
	s->at = NONE;
}

/* Of a block that has nothing to do with what travels nobody asked. */
static void note_why(Search *s, const Cuts *c, bool rings) {
	if ((rings && !ring_reaches(c)) || strstr(s->why.at, c->why))
		return;
	s->at = s->why.length ? s->at : c->at;
	text_printf(&s->why, s->why.length ? "; %s" : "%s", c->why);
}

/* A step is a part of what a device does: no axis cuts a block both ways. */
static bool may_cut(const Search *s, BlockId b, uint32_t axis) {
	const Ring *ring = &s->s->ring;
	bool may =
		axis < s->s->mesh.count || (ring->block == NONE ? !cut_has(&s->now[b], ring->axis) : b == ring->block);
	return may && block_iterated(s->m, b);
}

/* Cuts blocks along the axes from `axis` on, in all ways; the first of equal ones stays. */
static void try_axes(Search *s, uint32_t axis) {
	Cuts c;
	start(&c, s->m, s->s, s->facts, s->now);
	if (s->left == 0)
		return;
	s->left--;
	bool rings = axis > s->s->mesh.count, ok = cuts_solve(&c);
	while (axis < s->axes && s->given[axis])
		axis++;
	ok = ok && (axis < s->axes || ring_check(&c));
	if (!ok && axis >= s->deepest)
		note_why(s, &c, rings);
	if (!ok)
		return;
	if (axis == s->axes) {
		Cost cost = cost_of(&c);
		if (s->any && !is_cheaper(&cost, &s->cost))
			return;
		s->any = true;
		s->cost = cost;
		memcpy(s->best, s->now, s->m->blocks.count * sizeof *s->best);
		return;
	}
	if (axis + 1 > s->deepest) {
		s->deepest = axis + 1;
		search_forget(s);
	}
	for (BlockId b = 0; b < s->m->blocks.count; b++) {
		if (!may_cut(s, b, axis))
			continue;
		s->now[b].axis[s->now[b].count++] = (uint8_t)axis;
		try_axes(s, axis + 1);
		s->now[b].count--;
	}
}

static bool refuse(Diag *d, Place at, const char *why) {
	diag_error(d, at, "shard", "docs/sharding.md says what can be cut; --shard BLOCK=AXIS says what is to be",
	           "the kernel cannot be split over this mesh: %s", why);
	return false;
}

/* tile_m=data or tile_m=data+model; NULL, or what is wrong with it. */
static const char *read_block(Search *s, const char *word) {
	Arena *a = s->m->arena;
	const char *equals = strchr(word, '=');
	if (!equals || equals == word)
		return arena_printf(a, "expected BLOCK=AXIS, found '%s'", word);
	const char *name = arena_printf(a, "%.*s", (int)(equals - word), word);
	BlockId b = NONE;
	const char *error = block_named(s->m, name, &b);
	if (error)
		return error;
	for (const char *at = equals + 1;; at++) {
		size_t n = strcspn(at, "+");
		uint32_t axis = mesh_axis(&s->s->mesh, at, n);
		if (axis == NONE)
			return arena_printf(a, "the mesh has no axis '%.*s'", (int)n, at);
		if (s->given[axis])
			return arena_printf(a, "the axis %s cuts two blocks", s->s->mesh.axis[axis].name);
		s->given[axis] = true;
		s->now[b].axis[s->now[b].count++] = (uint8_t)axis;
		at += n;
		if (*at == '\0')
			return NULL;
	}
}

static const char *read_blocks(Search *s, const char *text) {
	for (const char *at = text; text; at++) {
		size_t n = strcspn(at, ",");
		const char *error = read_block(s, arena_printf(s->m->arena, "%.*s", (int)n, at));
		at += n;
		if (error || *at == '\0')
			return error;
	}
	return NULL;
}

/* ---- the document of one device -----------------------------------------------------------------------------------
 */

static ExprId part(Module *m, const Mesh *mesh, ExprId size, const Cut *cut) {
	return cut->count && size != NONE ? expr_int(m, m->exprs.at[size].value / cut_parts(mesh, cut)) : size;
}

static void localise_tensor(const Cuts *c, TensorId t) {
	Tensor *x = &c->m->tensors.at[t];
	for (uint32_t d = 0; d < x->rank; d++) {
		bool all = x->role == ROLE_VIEW && x->view == VIEW_SLICE && c->tensor[t].dim[d].count;
		BlockId b = c->tensor[t].dim[d].count ? c->counted[t][d] : NONE;
		x->shape[d] = b == NONE ? part(c->m, c->mesh, x->shape[d], &c->tensor[t].dim[d])
		                        : expr_binary(c->m, EXPR_CDIV, c->m->blocks.at[b].extent, expr_block(c->m, b));
		if (all)
			x->view_arg[d][1] = c->m->exprs.at[x->shape[d]].value;
	}
}

/* What the wrapper returns is converted when it is whole. */
static void convert_returned(Cuts *c, TensorId t, Dtype dtype) {
	Module *m = c->m;
	for (uint32_t r = 0; r < m->returns.count; r++) {
		Return *ret = &m->returns.at[r];
		if (ret->tensor != t)
			continue;
		Arg to = arg_list(m, 1, (Arg[]){arg_dtype(dtype)});
		HostStep *steps = arena_array(m->arena, (size_t)ret->step_count + 1, sizeof *steps);
		steps[0] = (HostStep){.op = OP_CONVERT, .first = to.list.first, .count = 1};
		if (ret->step_count)
			memcpy(steps + 1, ret->steps, ret->step_count * sizeof *steps);
		ret->steps = steps;
		ret->step_count++;
		c->summed[r].root++;
	}
}

/* A part is stored as it is. */
static void localise_stores(Cuts *c) {
	Module *m = c->m;
	for (uint32_t i = 0; i < c->dropped.count; i++)
		node_replace_uses(m, c->dropped.at[i], node_input(m, c->dropped.at[i], 0), NONE);
	for (uint32_t i = 0; i < c->stored.count; i++) {
		TensorId t = tensor_base(m, access_tensor(m, c->stored.at[i].store));
		Dtype dtype = m->tensors.at[t].dtype, part = c->stored.at[i].dtype;
		m->tensors.at[t].dtype = part;
		if (dtype != part)
			convert_returned(c, t, dtype);
	}
}

static void localise_nodes(const Cuts *c) {
	Module *m = c->m;
	for (NodeId n = 0; n < m->nodes.count; n++)
		if (!node_get(m, n)->dead && node_get(m, n)->op == OP_HOST_TENSOR) {
			const Tensor *t = &m->tensors.at[node_arg(m, n, 0)->tensor];
			node_set_type(m, n, type_tensor(m, t->dtype, t->rank, t->shape));
		}
}

static void localise_loops(Cuts *c, Sharding *s) {
	Module *m = c->m;
	for (GraphId g = 0; g < m->graphs.count; g++)
		for (uint32_t i = 0; i < graph_get(m, g)->blocks.count && graph_get(m, g)->kind != GRAPH_ROOT; i++) {
			BlockId b = graph_get(m, g)->blocks.at[i];
			ArgId ends = node_arg(m, graph_get(m, g)->caller, 2)->list.first;
			if (c->block[b].count && goes_over_all(c, g, i))
				arg_set(m, ends + i, arg_int(cuts_part(c, b)));
			else if (c->block[b].count && block_within(m, b) == NONE)
				positions_clip(c, s, g, i);
		}
}

static void localise_blocks(const Cuts *c) {
	Module *m = c->m;
	for (BlockId b = 0; b < m->blocks.count; b++)
		m->blocks.at[b].extent = part(m, c->mesh, m->blocks.at[b].extent, &c->block[b]);
}

/* How arrays lie, from whole sizes. */
static void lay(const Cuts *c, Sharding *s) {
	for (uint32_t r = 0; r < c->m->returns.count; r++)
		vec_push(c->a, &s->outputs, ring_output(c, r));
	for (TensorId t = 0; t < c->m->tensors.count; t++)
		if (c->m->tensors.at[t].role == ROLE_INPUT || c->m->tensors.at[t].role == ROLE_INOUT)
			vec_push(c->a, &s->inputs, ring_input(c, t));
}

static void localise(Cuts *c, Sharding *s) {
	Module *m = c->m;
	lay(c, s);
	if (s->ring.inside)
		ring_forget_steps(c);
	localise_stores(c);
	for (uint32_t r = 0; r < m->returns.count; r++)
		vec_push(c->a, &s->summed, c->summed[r]);
	positions_shift(c, s);
	localise_loops(c, s);
	localise_blocks(c);
	for (TensorId t = 0; t < m->tensors.count; t++)
		localise_tensor(c, t);
	for (uint32_t r = 0; r < m->returns.count; r++)
		for (uint32_t d = 0; m->returns.at[r].has_shape && d < m->returns.at[r].rank; d++)
			m->returns.at[r].shape[d] = part(m, c->mesh, m->returns.at[r].shape[d], &c->returned[r].dim[d]);
	localise_nodes(c);
	split_roots(c, s);
	m->given_alignments = NULL; /* they are facts of the whole document */
	m->given_loop_facts = NULL;
	m->has_given_limits = false;
	m->sharding = s;
}

static const char *merge_text(const Cuts *c, const Sharding *s, const Merge *merge) {
	static const char *const how[] = {"parts are added up", "the greatest of parts is taken",
	                                  "the least of parts is taken"};
	if (merge->kind != MERGE_SCALED)
		return how[merge->kind];
	uint32_t by = 0;
	while (s->merges.at[by].tensor != merge->by)
		by++;
	return arena_printf(c->a, "parts are scaled by %s(their %s - the greatest) and added up",
	                    merge->exp == OP_EXP2 ? "exp2" : "exp", s->merges.at[by].name);
}

static void explain_merges(const Cuts *c, Sharding *s) {
	for (uint32_t i = 0; i < s->merges.count; i++) {
		const Merge *merge = &s->merges.at[i];
		Cut cut = merge->cut;
		if (merge->steps)
			cut.axis[cut.count++] = c->ring->kind == RING_GATHER ? c->ring->steps : c->ring->axis;
		vec_push(c->a, &s->remarks,
		         arena_printf(c->a, "%s is merged along %s behind kernel %u: %s", merge->name,
		                      cut_text(c->a, c->mesh, &cut), merge->root, merge_text(c, s, merge)));
	}
	for (uint32_t r = 0; r < s->summed.count; r++)
		if (s->summed.at[r].cut.count)
			vec_push(c->a, &s->remarks,
			         arena_printf(c->a, "what is returned of %s is merged along %s: %s",
			                      s->summed.at[r].name, cut_text(c->a, c->mesh, &s->summed.at[r].cut),
			                      merge_text(c, s, &s->summed.at[r])));
	for (uint32_t i = 0; i < s->offsets.count; i++) {
		const Offset *o = &s->offsets.at[i];
		vec_push(c->a, &s->remarks,
		         arena_printf(c->a, "%s is a device's place along %s times %lld",
		                      c->m->scalars.at[o->scalar].name, cut_text(c->a, c->mesh, &o->cut),
		                      (long long)o->part));
	}
}

static void explain(const Cuts *c, const Search *found, Sharding *s) {
	for (BlockId b = 0; b < c->m->blocks.count; b++) {
		Cut cut = cut_without(&c->block[b], c->ring->steps);
		int64_t devices = cut_parts(c->mesh, &cut), steps = cut_parts(c->mesh, &c->block[b]) / devices;
		if (cut.count)
			vec_push(c->a, &s->remarks,
			         arena_printf(c->a, "%s is cut along %s: %lld positions on each of %lld devices",
			                      c->m->blocks.at[b].name, cut_text(c->a, c->mesh, &cut),
			                      (long long)(cuts_part(c, b) * steps), (long long)devices));
	}
	ring_explain(c, s);
	explain_merges(c, s);
	vec_push(c->a, &s->remarks,
	         arena_printf(c->a, "a device sends and gets %.0f bytes, and holds %.0f of arrays", found->cost.sent,
	                      found->cost.held));
}

/* Steps of a ring are parts of whole sizes: the first array whose sizes only a configuration tells; NONE. */
static TensorId unknown_sizes(const Module *m) {
	for (TensorId t = 0; t < m->tensors.count; t++)
		for (uint32_t d = 0; d < m->tensors.at[t].rank; d++)
			if (m->exprs.at[m->tensors.at[t].shape[d]].kind != EXPR_INT)
				return t;
	return NONE;
}

/* What an axis cuts that nobody says, and of what part each step of a ring is. */
static void search_all(Search *search, Sharding *s) {
	search->axes = s->mesh.count + (s->ring.kind != RING_NONE);
	try_axes(search, 0);
	if (search->any || s->ring.kind != RING_SCATTER)
		return;
	s->ring.plain = true;
	s->ring.why = search->why.length ? search->why.at : ring_nothing(search->m, &s->ring);
	search->axes = s->mesh.count;
	search->deepest = 0;
	search->left = TRIES;
	search_forget(search);
	try_axes(search, 0);
	if (!search->any && !strstr(s->ring.why, search->why.at)) {
		const char *plain = search->why.at;
		search_forget(search);
		text_printf(&search->why, "%s; in one step: %s", s->ring.why, plain);
	}
}

bool module_shard(Module *m, Diag *d, const ShardRequest *request) {
	Arena *a = m->arena;
	Sharding *s = arena_alloc(a, sizeof *s);
	*s = (Sharding){0};
	Place at = {.source = m->source};
	const char *error = request->mesh ? mesh_parse(a, request->mesh, &s->mesh) : "there is no mesh";
	if (!error)
		error = ring_read(m, &s->mesh, request, &s->ring);
	if (!error && m->mesh_axis)
		error = "the document is one device's part already, of its own mesh";
	TensorId unknown = unknown_sizes(m);
	if (!error && s->ring.kind != RING_NONE && unknown != NONE)
		error = arena_printf(a, "the shape of %s depends on the configuration, which a ring does not take",
		                     m->tensors.at[unknown].name);
	if (error)
		return refuse(d, at, error);
	Search search = {.m = m, .s = s, .left = TRIES};
	search.given = arena_array(a, s->mesh.count + 1, sizeof *search.given);
	search.now = arena_array(a, m->blocks.count + 1, sizeof *search.now);
	search.best = arena_array(a, m->blocks.count + 1, sizeof *search.best);
	search.facts = arena_array(a, m->graphs.count + 1, sizeof *search.facts);
	memset(search.facts, 0, (m->graphs.count + 1) * sizeof *search.facts);
	memset(search.given, 0, (s->mesh.count + 1) * sizeof *search.given);
	memset(search.now, 0, (m->blocks.count + 1) * sizeof *search.now);
	search_forget(&search);
	error = read_blocks(&search, request->blocks);
	if (error)
		return refuse(d, at, error);
	Cuts c;
	start(&c, m, s, search.facts, search.now);
	if (!cuts_solve(&c))
		return refuse(d, c.at == NONE ? at : node_place(m, d, c.at), c.why);
	search_all(&search, s);
	if (!search.any)
		return refuse(d, search.at == NONE ? at : node_place(m, d, search.at),
		              search.why.length           ? search.why.at
		              : s->ring.kind == RING_NONE ? "nothing in it can be cut"
		                                          : ring_nothing(m, &s->ring));
	s->ring.inside = s->ring.kind != RING_NONE && request->way == RING_IN_KERNEL;
	s->ring.narrow = s->ring.inside && s->ring.kind == RING_SCATTER && request->narrow;
	if (s->ring.inside && s->ring.plain)
		return refuse(d, at, arena_printf(a, "sums cannot be scattered in the kernel: %s", s->ring.why));
	start(&c, m, s, search.facts, search.best);
	cuts_solve(&c);
	localise(&c, s);
	if (!ring_settle(&c, s))
		return refuse(d, c.at == NONE ? at : node_place(m, d, c.at), c.why);
	explain(&c, &search, s);
	return true;
}
