/* ring.c - what travels round the devices of an axis while kernels run: the parts of inputs that each device needs
 * whole (gather), and sums to which each device adds (scatter). The kernel is then one of as many steps as there are
 * devices. A step is a cut as any other, in time: by one more axis, behind those of the mesh. */
#include "cuts.h"

bool ring_way_read(const char *text, ShardRequest *to) {
	static const char *const names[] = {"wrapper", "kernel", "auto"}; /* by RingWay */
	size_t n = strcspn(text, ":");
	to->narrow = strcmp(text + n, ":bfloat16") == 0;
	for (int i = 0; i < 3; i++)
		if (strlen(names[i]) == n && strncmp(names[i], text, n) == 0) {
			to->way = (RingWay)i;
			return text[n] == '\0' || (to->narrow && to->way != RING_IN_WRAPPER);
		}
	return false;
}

/* ---- what is asked for ------------------------------------------------------------------------------------------- */

static bool is_returned(const Module *m, TensorId t) {
	bool any = false;
	for (uint32_t r = 0; r < m->returns.count; r++)
		any = any || m->returns.at[r].tensor == t;
	return any;
}

static bool can_travel(const Module *m, TensorId t, RingKind kind) {
	return kind == RING_GATHER ? m->tensors.at[t].role == ROLE_INPUT : is_returned(m, t);
}

static const char *names_of(const Module *m, RingKind kind) {
	Text out;
	text_init(&out, m->arena);
	for (TensorId t = 0; t < m->tensors.count; t++)
		if (can_travel(m, t, kind))
			text_printf(&out, out.length ? ", %s" : "%s", m->tensors.at[t].name);
	return out.length ? out.at : "none";
}

bool ring_moves(const Ring *ring, TensorId t) {
	bool any = false;
	for (uint32_t i = 0; i < ring->arrays.count; i++)
		any = any || ring->arrays.at[i] == t;
	return any;
}

static const char *blocks_text(const Module *m) {
	Text out;
	text_init(&out, m->arena);
	for (BlockId b = 0; b < m->blocks.count; b++)
		text_printf(&out, b ? ", %s" : "%s", m->blocks.at[b].name);
	return out.at ? out.at : "none";
}

const char *block_named(const Module *m, const char *name, BlockId *found) {
	for (BlockId b = 0; b < m->blocks.count; b++)
		if (strcmp(m->blocks.at[b].name, name) == 0 || strcmp(m->blocks.at[b].symbol, name) == 0) {
			*found = b;
			return NULL;
		}
	return arena_printf(m->arena, "there is no block '%s'; there are: %s", name, blocks_text(m));
}

/* Behind ARRAY=, AXIS or AXIS:BLOCK. */
static const char *read_axis(const Module *m, const Mesh *mesh, const char *text, Ring *ring) {
	size_t length = strcspn(text, ":");
	uint32_t axis = mesh_axis(mesh, text, length);
	BlockId block = NONE;
	const char *error = text[length] ? block_named(m, text + length + 1, &block) : NULL;
	if (error)
		return error;
	if (axis == NONE)
		return arena_printf(m->arena, "the mesh has no axis '%.*s'", (int)length, text);
	if (ring->arrays.count && ring->axis != axis)
		return arena_printf(m->arena, "there is one ring, along %s or along %s", mesh->axis[ring->axis].name,
		                    mesh->axis[axis].name);
	if (ring->block != NONE && block != NONE && ring->block != block)
		return arena_printf(m->arena, "a step is a part of %s or of %s", m->blocks.at[ring->block].name,
		                    m->blocks.at[block].name);
	ring->axis = (uint8_t)axis;
	ring->block = block == NONE ? ring->block : block;
	return NULL;
}

/* x=model or x=model:tile_k; NULL, or what is wrong with it. */
static const char *read_array(const Module *m, const Mesh *mesh, const char *word, Ring *ring) {
	Arena *a = m->arena;
	const char *equals = strchr(word, '=');
	if (!equals || equals == word)
		return arena_printf(a, "expected ARRAY=AXIS, found '%s'", word);
	const char *name = arena_printf(a, "%.*s", (int)(equals - word), word);
	TensorId found = NONE;
	for (TensorId t = 0; t < m->tensors.count; t++)
		if (can_travel(m, t, ring->kind) && strcmp(m->tensors.at[t].name, name) == 0)
			found = t;
	if (found == NONE)
		return arena_printf(a, "there is no %s '%s'; there are: %s",
		                    ring->kind == RING_GATHER ? "input" : "output", name, names_of(m, ring->kind));
	if (ring_moves(ring, found))
		return arena_printf(a, "%s stands twice", name);
	const char *error = read_axis(m, mesh, equals + 1, ring);
	if (error)
		return error;
	vec_push(a, &ring->arrays, found);
	vec_push(a, &ring->names, name);
	return NULL;
}

const char *ring_read(const Module *m, Mesh *mesh, const ShardRequest *request, Ring *ring) {
	*ring = (Ring){.steps = (uint8_t)mesh->count, .block = NONE, .root = NONE};
	if (request->gather && request->scatter)
		return "either inputs are gathered or an output is scattered: there is one ring";
	const char *text = request->gather ? request->gather : request->scatter;
	if (!text)
		return NULL;
	ring->kind = request->gather ? RING_GATHER : RING_SCATTER;
	for (const char *at = text;; at++) {
		size_t n = strcspn(at, ",");
		const char *error = read_array(m, mesh, arena_printf(m->arena, "%.*s", (int)n, at), ring);
		at += n;
		if (error)
			return error;
		if (*at == '\0')
			break;
	}
	mesh->axis[ring->steps] = mesh->axis[ring->axis];
	mesh->axis[ring->steps].name = arena_printf(m->arena, "%s's ring", mesh->axis[ring->axis].name);
	return NULL;
}

/* ---- what can be done -------------------------------------------------------------------------------------------- */

Cut cut_without(const Cut *cut, uint32_t axis) {
	Cut rest = {0};
	for (uint32_t i = 0; i < cut->count; i++)
		if (cut->axis[i] != axis)
			rest.axis[rest.count++] = cut->axis[i];
	return rest;
}

/* The dim that is cut along the axis; NONE. */
static uint32_t dim_along(const Parted *p, uint32_t axis) {
	for (uint32_t d = 0; d < p->rank; d++)
		if (cut_has(&p->dim[d], axis))
			return d;
	return NONE;
}

bool ring_reaches(const Cuts *c) {
	bool all = true;
	for (uint32_t i = 0; i < c->ring->arrays.count; i++)
		all = all && dim_along(&c->tensor[c->ring->arrays.at[i]], c->ring->steps) != NONE;
	return all;
}

static const char *axis_name(const Cuts *c) { return c->mesh->axis[c->ring->axis].name; }

/* Something is merged along the axis. */
static bool merges_along(const Cuts *c, uint32_t axis) {
	bool any = false;
	for (uint32_t i = 0; i < c->splits.count; i++)
		any = any || cut_has(&c->splits.at[i].cut, axis);
	for (uint32_t i = 0; i < c->stored.count; i++)
		any = any || cut_has(&c->stored.at[i].cut, axis);
	return any;
}

static bool check_inout(Cuts *c) {
	for (TensorId t = 0; t < c->made; t++)
		if (c->m->tensors.at[t].role == ROLE_INOUT)
			return cuts_refuse(c, NONE, "each step would change %s again", c->m->tensors.at[t].name);
	return true;
}

static bool check_gather(Cuts *c) {
	const Module *m = c->m;
	for (uint32_t i = 0; i < c->ring->arrays.count; i++) {
		TensorId t = c->ring->arrays.at[i];
		if (dim_along(&c->tensor[t], c->ring->axis) != NONE)
			return cuts_refuse(c, NONE, "the axis %s would cut two dims of %s", axis_name(c),
			                   m->tensors.at[t].name);
	}
	for (uint32_t r = 0; r < m->returns.count; r++) {
		const Parted *out = &c->returned[r];
		const char *name = m->tensors.at[m->returns.at[r].tensor].name;
		if (dim_along(out, c->ring->axis) == NONE && !merges_along(c, c->ring->axis))
			return cuts_refuse(c, NONE, "all devices along %s would compute the same %s", axis_name(c),
			                   name);
		if (dim_along(out, c->ring->steps) == NONE && !merges_along(c, c->ring->steps))
			return cuts_refuse(c, NONE, "each step would compute the same %s", name);
	}
	return check_inout(c);
}

static const ExprId *return_shape(const Module *m, uint32_t r) {
	const Return *ret = &m->returns.at[r];
	return ret->has_shape ? ret->shape : m->tensors.at[ret->tensor].shape;
}

/* The first dim of an output's part on a device that the axis's devices can share equally; NONE. */
static uint32_t even_dim(const Cuts *c, uint32_t r) {
	const Parted *out = &c->returned[r];
	const ExprId *shape = return_shape(c->m, r);
	for (uint32_t d = 0; d < out->rank; d++) {
		int64_t size = c->m->exprs.at[shape[d]].value / cut_parts(c->mesh, &out->dim[d]);
		if (size % c->mesh->axis[c->ring->axis].devices == 0)
			return d;
	}
	return NONE;
}

/* What travels is added up, and nothing else is made of it on the way. */
static bool check_sums(Cuts *c) {
	const Module *m = c->m;
	for (uint32_t i = 0; i < c->splits.count; i++) {
		const Split *split = &c->splits.at[i];
		GraphId g = loop_body(m, split->call);
		if (!cut_has(&split->cut, c->ring->axis))
			continue;
		if (c->ring->plain)
			return cuts_refuse(c, split->call, "more is made of what the loop '%s' gives than a sum",
			                   node_get(m, split->call)->name);
		for (uint32_t k = 0; k < graph_get(m, g)->carried.count; k++)
			if (c->facts[g]->fact[k].kind != MERGE_SUM)
				return cuts_refuse(c, split->call, "'%s', which the loop '%s' carries, is no sum",
				                   carried_name(m, g, k), node_get(m, split->call)->name);
	}
	for (uint32_t i = 0; i < c->stored.count; i++)
		if (cut_has(&c->stored.at[i].cut, c->ring->axis) && c->stored.at[i].kind != MERGE_SUM)
			return cuts_refuse(c, c->stored.at[i].store, "'%s' stores no sum",
			                   node_get(m, c->stored.at[i].store)->name);
	return merges_along(c, c->ring->axis) ||
	       cuts_refuse(c, NONE, "%s is no sum along %s", m->tensors.at[c->ring->arrays.at[0]].name, axis_name(c));
}

static bool check_scatter(Cuts *c) {
	const Module *m = c->m;
	if (!check_sums(c))
		return false;
	for (uint32_t r = 0; r < m->returns.count; r++) {
		TensorId t = m->returns.at[r].tensor;
		const char *name = m->tensors.at[t].name;
		if (!ring_moves(c->ring, t))
			return cuts_refuse(c, NONE, "%s is not scattered", name);
		if (c->ring->plain && (m->returns.at[r].has_shape || even_dim(c, r) == NONE))
			return cuts_refuse(c, NONE, "no dim of %s can be shared equally along %s", name, axis_name(c));
	}
	return c->ring->plain || check_inout(c);
}

const char *ring_nothing(const Module *m, const Ring *ring) {
	Text out;
	text_init(&out, m->arena);
	if (ring->block == NONE)
		text_put(&out, "no block but those that the axis cuts goes over a dim of ");
	else
		text_printf(&out, "%s goes over no dim of ", m->blocks.at[ring->block].name);
	for (uint32_t i = 0; i < ring->arrays.count; i++)
		text_printf(&out, i ? " and %s" : "%s", m->tensors.at[ring->arrays.at[i]].name);
	return out.at;
}

/* Of what a step of `returns` reduces the wrapper merges parts once. */
static bool check_summed(Cuts *c) {
	for (uint32_t r = 0; r < c->m->returns.count; r++)
		if (c->summed[r].cut.count)
			return cuts_refuse(c, NONE, "what is returned of %s is merged behind the ring",
			                   c->m->tensors.at[c->m->returns.at[r].tensor].name);
	return true;
}

bool ring_check(Cuts *c) {
	if (c->ring->kind != RING_NONE && !check_summed(c))
		return false;
	if (c->ring->kind != RING_NONE && !c->ring->plain && !ring_reaches(c))
		return cuts_refuse(c, NONE, "%s", ring_nothing(c->m, c->ring));
	switch (c->ring->kind) {
	case RING_GATHER: return check_gather(c);
	case RING_SCATTER: return check_scatter(c);
	case RING_NONE: break;
	}
	return true;
}

void ring_explain(const Cuts *c, Sharding *s) {
	const Ring *ring = c->ring;
	const char *axis = axis_name(c);
	long long devices = (long long)c->mesh->axis[ring->axis].devices;
	if (ring->plain)
		vec_push(c->a, &s->remarks,
		         arena_printf(c->a,
		                      "sums are scattered along %s when they are whole, and not in %lld steps: %s",
		                      axis, devices, ring->why));
	if (ring->narrow)
		vec_push(c->a, &s->remarks,
		         arena_printf(c->a, "sums travel in bfloat16: %lld devices round them, one after the other",
		                      devices - 1));
	for (BlockId b = 0; b < c->m->blocks.count; b++) {
		if (cut_has(&c->block[b], ring->steps) || c->m->blocks.at[b].share)
			vec_push(c->a, &s->remarks,
			         arena_printf(c->a, "the ring along %s has %lld steps%s, each of %lld positions of %s",
			                      axis, devices, ring->inside ? " in the kernel" : "",
			                      ring->inside ? cuts_part(c, b) / devices : (long long)cuts_part(c, b),
			                      c->m->blocks.at[b].name));
	}
}

/* ---- what is left at the end of a step --------------------------------------------------------------------------- */

static bool is_merged(const Sharding *s, TensorId t) {
	bool any = false;
	for (uint32_t i = 0; i < s->merges.count; i++)
		any = any || (s->merges.at[i].steps && s->merges.at[i].tensor == t);
	return any;
}

static bool cut_in_steps(const Cuts *c, TensorId t) {
	return t < c->made && dim_along(&c->tensor[t], c->ring->steps) != NONE;
}

/* A store of a step's kernels, or an access behind them. */
static bool settle_access(Cuts *c, const Sharding *s, NodeId n) {
	const Module *m = c->m;
	TensorId t = access_tensor(m, n);
	const Node *node = node_get(m, n);
	if (t == NONE || is_merged(s, t))
		return true;
	if (root_number(m, n) > s->ring.root)
		return s->ring.kind == RING_SCATTER || !cut_in_steps(c, t) ||
		       cuts_refuse(c, n, "'%s' needs %s behind the steps, each of which has a part", node->name,
		                   m->tensors.at[t].name);
	return node->op == OP_LOAD ||
	       cuts_refuse(c, n, "'%s' writes %s in each step, which is not merged", node->name, m->tensors.at[t].name);
}

/* The kernel finishes its sums along the ring, and what its steps store is not merged. */
static bool settle_inside(Cuts *c, Sharding *s) {
	uint32_t kept = 0;
	for (uint32_t i = 0; i < s->merges.count; i++) {
		Merge merge = s->merges.at[i];
		if (cut_has(&merge.cut, s->ring.steps))
			return cuts_refuse(c, NONE, "%s is merged step by step, which the kernel does not", merge.name);
		if (s->ring.kind == RING_SCATTER)
			merge.cut = cut_without(&merge.cut, s->ring.axis);
		if (merge.cut.count)
			s->merges.at[kept++] = merge;
	}
	s->merges.count = kept;
	return true;
}

bool ring_settle(Cuts *c, Sharding *s) {
	Ring *ring = &s->ring;
	if (ring->inside)
		return settle_inside(c, s);
	for (uint32_t i = 0; i < s->offsets.count; i++)
		ring->asks = ring->asks || cut_has(&s->offsets.at[i].cut, ring->steps);
	uint32_t along = ring->kind == RING_GATHER ? ring->steps : ring->axis;
	for (uint32_t i = 0; i < s->merges.count && ring->kind != RING_NONE; i++) {
		Merge *merge = &s->merges.at[i];
		if (!cut_has(&merge->cut, along))
			continue;
		if (ring->root != NONE && ring->root != merge->root)
			return cuts_refuse(c, NONE, "%s is merged behind kernel %u, and more behind kernel %u",
			                   merge->name, merge->root, ring->root);
		merge->steps = true;
		merge->cut = cut_without(&merge->cut, along);
		ring->root = merge->root;
	}
	for (NodeId n = 0; n < c->m->nodes.count && ring->root != NONE; n++)
		if (!node_get(c->m, n)->dead && op_kind(c->m, n) == KIND_MEMORY && !settle_access(c, s, n))
			return false;
	return true;
}

/* ---- how arrays lie ---------------------------------------------------------------------------------------------- */

/* As it lies on the mesh: its parts along the ring are its devices', or it is whole. */
static Parted laid(const Cuts *c, TensorId t, const ExprId *shape, const Parted *cut, uint32_t plain_dim) {
	const Ring *ring = c->ring;
	Parted p = *cut;
	for (uint32_t d = 0; d < p.rank; d++)
		p.size[d] = c->m->exprs.at[shape[d]].value;
	p.tensor = t;
	p.part_dim = NONE;
	if (ring->kind == RING_NONE)
		return p;
	p.moves = ring_moves(ring, t);
	p.part_dim = ring->plain && p.moves ? plain_dim : dim_along(&p, ring->steps);
	for (uint32_t d = 0; d < p.rank; d++)
		p.dim[d] = cut_without(&p.dim[d], ring->steps);
	if (!p.moves)
		return p;
	Cut *dim = &p.dim[p.part_dim];
	dim->axis[dim->count++] = ring->axis;
	return p;
}

/* Half of what a step is of goes each way, where the halves are whole registers' rows. */
enum { WHOLE_ROWS = 2 * 8 };

static void forget_steps(const Cuts *c, Parted *p) {
	for (uint32_t d = 0; d < p->rank; d++)
		p->dim[d] = cut_without(&p->dim[d], c->ring->steps);
}

void ring_forget_steps(Cuts *c) {
	for (BlockId b = 0; b < c->m->blocks.count; b++) {
		Block *block = &c->m->blocks.at[b];
		if (cut_has(&c->block[b], c->ring->steps)) {
			int64_t step = c->m->exprs.at[block->extent].value / cut_parts(c->mesh, &c->block[b]);
			block->share = step % WHOLE_ROWS ? step : step / 2;
		}
		c->block[b] = cut_without(&c->block[b], c->ring->steps);
	}
	for (TensorId t = 0; t < c->m->tensors.count; t++)
		forget_steps(c, &c->tensor[t]);
	for (uint32_t r = 0; r < c->m->returns.count; r++)
		forget_steps(c, &c->returned[r]);
}

Parted ring_input(const Cuts *c, TensorId t) { return laid(c, t, c->m->tensors.at[t].shape, &c->tensor[t], NONE); }

Parted ring_output(const Cuts *c, uint32_t r) {
	return laid(c, c->m->returns.at[r].tensor, return_shape(c->m, r), &c->returned[r], even_dim(c, r));
}
