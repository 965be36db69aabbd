/* positions.c - where in its whole range a tile of a cut block is: what the device's part says, and an offset that the
 * wrapper knows. */
#include "cuts.h"

/* The use names the tile's place in an array, of which the device has the same part, or a loop's within the tile. */
static bool is_local(const Module *m, NodeId query, ArgId use) {
	NodeId user = arg_get(m, use)->user;
	BlockId b = arg_block(m, node_arg(m, query, 0));
	bool any = false;
	if (node_get(m, user)->op == OP_FOR_LOOP) {
		const Graph *loop = graph_get(m, loop_body(m, user));
		for (uint32_t k = 1; k <= 2; k++) {
			uint32_t i = list_index(node_arg(m, user, k), use);
			any = any || (i != NONE && block_within(m, loop->blocks.at[i]) == b);
		}
	}
	if (op_kind(m, user) == KIND_MEMORY && list_index(access_index(m, user), use) != NONE)
		for (Entry e = {0}; entry_next(m, user, &e);)
			any = any || (e.arg == arg_get(m, use) && e.block == b);
	return any;
}

bool position_is_known(Cuts *c, NodeId query) {
	const Module *m = c->m;
	const Block *block = &m->blocks.at[arg_block(m, node_arg(m, query, 0))];
	uint16_t op = node_get(m, query)->op;
	bool asks = false;
	for (ArgId u = node_uses(m, query); u != NONE; u = arg_get(m, u)->next_use)
		asks = asks || !is_local(m, query, u);
	if (op == OP_TILE_BLOCK_SIZE || !asks)
		return true;
	vec_push(c->a, &c->queries, query);
	return op == OP_TILE_INDEX || op == OP_TILE_BEGIN || op == OP_TILE_END ||
	       (op == OP_TILE_ID && block->size != NONE);
}

/* The scalar of a block's offset, in positions or in tiles. */
static ScalarId offset_of(Cuts *c, Sharding *s, BlockId b, bool tiles) {
	Module *m = c->m;
	const Block *block = &m->blocks.at[b];
	int64_t part = cuts_part(c, b) / (tiles ? m->exprs.at[block->size].value : 1);
	const char *name = arena_printf(c->a, tiles ? "%s_tiles_before" : "%s_before", block->name);
	for (uint32_t i = 0; i < s->offsets.count; i++)
		if (s->offsets.at[i].block == b && s->offsets.at[i].part == part)
			return s->offsets.at[i].scalar;
	Offset offset = {.block = b, .part = part, .cut = c->block[b]};
	offset.scalar = scalar_new(m, name,
	                           (Scalar){.dtype = DTYPE_I32, .most = part * (cut_parts(c->mesh, &c->block[b]) - 1)});
	vec_push(c->a, &s->offsets, offset);
	return offset.scalar;
}

/* What is computed of a scalar is a value of the run, and no expression. */
static void retype(Module *m, NodeId n) {
	for (ArgId u = node_uses(m, n); u != NONE; u = arg_get(m, u)->next_use) {
		NodeId user = arg_get(m, u)->user;
		const Type *type = node_type(m, user);
		if (op_kind(m, user) != KIND_SYMBOLIC || type->kind != TYPE_SYM)
			continue;
		node_set_type(m, user, type_tensor(m, type->dtype, 0, NULL));
		retype(m, user);
	}
}

/* query + offset stands for the query, but where it only indexes. */
static void shift(Cuts *c, Sharding *s, NodeId query) {
	Module *m = c->m;
	uint16_t op = node_get(m, query)->op;
	Arg name = {.kind = ARG_SCALAR};
	name.scalar = offset_of(c, s, arg_block(m, node_arg(m, query, 0)), op == OP_TILE_ID);
	NodeId behind = node_get(m, query)->next;
	NodeId offset =
		node_derive(m, OP_SCALAR, query, "before", type_tensor(m, DTYPE_I32, 0, NULL), 1, &name, behind);
	Arg sum[3] = {arg_ref(query), arg_ref(offset), arg_int(1)};
	bool many = op == OP_TILE_INDEX;
	TypeId type = many ? node_get(m, query)->type : type_tensor(m, DTYPE_I32, 0, NULL);
	NodeId at = node_derive(m, many ? OP_ADD : OP_SYM_ADD, query, "in_all", type, many ? 3 : 2, sum, behind);
	for (ArgId u = node_uses(m, query), next; u != NONE; u = next) {
		next = arg_get(m, u)->next_use;
		if (arg_get(m, u)->user != at && !is_local(m, query, u))
			arg_set_ref(m, u, at);
	}
	if (!many)
		retype(m, at);
}

void positions_shift(Cuts *c, Sharding *s) {
	for (uint32_t i = 0; i < c->queries.count; i++)
		shift(c, s, c->queries.at[i]);
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */

/* max(min(bound - offset, part), 0), before the loop. */
static void clip(Cuts *c, Sharding *s, NodeId call, BlockId b, ArgId slot) {
	Module *m = c->m;
	TypeId type = type_tensor(m, DTYPE_I32, 0, NULL);
	Arg name = {.kind = ARG_SCALAR, .scalar = offset_of(c, s, b, false)}, bound = *arg_get(m, slot);
	if (bound.kind == ARG_INT && bound.integer == 0)
		return;
	NodeId offset = node_derive(m, OP_SCALAR, call, "before", type, 1, &name, call);
	Arg of[2] = {bound, arg_ref(offset)};
	NodeId x = node_derive(m, OP_SYM_SUB, call, "here", type, 2, of, call);
	x = node_derive(m, OP_SYM_MIN, call, "here", type, 2, (Arg[]){arg_ref(x), arg_int(cuts_part(c, b))}, call);
	x = node_derive(m, OP_SYM_MAX, call, "here", type, 2, (Arg[]){arg_ref(x), arg_int(0)}, call);
	arg_set(m, slot, arg_ref(x));
}

void positions_clip(Cuts *c, Sharding *s, GraphId g, uint32_t i) {
	NodeId call = graph_get(c->m, g)->caller;
	BlockId b = graph_get(c->m, g)->blocks.at[i];
	clip(c, s, call, b, node_arg(c->m, call, 1)->list.first + i);
	clip(c, s, call, b, node_arg(c->m, call, 2)->list.first + i);
}
