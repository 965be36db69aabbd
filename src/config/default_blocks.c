/* default_blocks.c - block sizes where neither the graph nor the configuration says any, from what each block does and
 * from the chip.
 *
 * What a block is, in this order:
 *
 *   rows or columns of a matmul   `side`, below
 *   what a loop contracts         1024: a step far longer than the start of its copies and of the MXU
 *   an outer dim (head, batch)    1; more where all tiles are small
 *   the only dim of a tensor      131072
 *   the last dim of a tensor      2048
 *   any other                     1024
 *
 * A matmul's tile of side x side does side FLOPs for each byte of bfloat16 that it reads. That must be twice what the
 * chip does in the time that HBM takes to bring a byte; at most 1024, at least two MXU tiles.
 *
 * A size stays no wider than its range and, where the range is longer, is the widest multiple of 128 that leaves the
 * least over, where columns of a matmul count in multiples of the MXU's. Then tiles are cut, outermost dim first, until
 * each is at most TILE_BYTES: large enough that the copy of one takes far longer than its start, small enough that two
 * of each array leave room. Outer dims grow as long as tiles are small.
 *
 * The plan knows what fits VMEM. What it refuses is tried again with everything halved (src/driver/choose.c). From what
 * fits a climb begins (src/driver/choose_near.c).
 * docs/config.md compares the defaults with the best of a search. */
#include "config.h"
#include "default_blocks.h"

enum {
	MOST_SIDE = 1024,       /* of a matmul's tile */
	MOST_CONTRACTED = 1024, /* that one step of a loop contracts */
	MOST_LANES = 2048,
	MOST_ROWS = 1024,
	MOST_ALONE = 128 * 1024, /* the only dim of a tensor: one row, that vector registers hold badly */
	LEAST = 128,             /* no level goes below: a register's lanes, an MXU tile of the older chips */
	LEAST_ROWS = 32
};
/* Of one load or store; of any tile in a kernel with matmuls, whose results stay in VMEM in float32. */
#define TILE_BYTES (INT64_C(2) << 20)
#define MATMUL_TILE_BYTES (INT64_C(4) << 20)
/* Tiles below this are small: several heads or batches at a time. */
#define SMALL_BYTES (INT64_C(512) << 10)

/* ---- what each block does --------------------------------------------------------------------------------------- */

/* Dim d of a tensor that is loaded or stored is a tile of the block. What tells most is the tensor of most dims: heads
 * are the outer dim of Q [heads, m, d], whatever they are of lse [heads, m]. */
static void use_dim(BlockUse *u, uint32_t rank, uint32_t d, int64_t extent) {
	uint32_t from_end = rank - 1 - d;
	u->reach = int_max(u->reach, extent);
	if (rank > u->rank)
		u->from_end = from_end;
	else if (rank == u->rank && from_end < u->from_end)
		u->from_end = from_end;
	u->rank = rank > u->rank ? rank : u->rank;
}

static void use_access(Module *m, NodeId n, BlockUse *uses) {
	NodeId host = node_input(m, n, 0);
	const Arg *index = node_arg(m, n, 1);
	if (host == NONE || node_get(m, host)->op != OP_HOST_TENSOR)
		return;
	const Tensor *t = &m->tensors.at[node_arg(m, host, 0)->tensor];
	for (uint32_t i = 0; index->kind == ARG_LIST && i < index->list.count && i < t->rank; i++) {
		BlockId b = arg_block(m, arg_item(m, index, i));
		int64_t extent = 0;
		if (b != NONE && m->exprs.at[t->shape[i]].kind == EXPR_INT)
			extent = m->exprs.at[t->shape[i]].value;
		if (b != NONE)
			use_dim(&uses[b], t->rank, i, extent);
	}
}

/* Dim `from_end` of a matmul's factor, counted from the last. */
static BlockUse *factor_dim(Module *m, NodeId factor, uint32_t from_end, BlockUse *uses) {
	const Type *t = factor == NONE ? NULL : node_type(m, factor);
	if (!t || t->kind != TYPE_TENSOR || t->count <= from_end)
		return NULL;
	BlockId b = expr_as_block(m, t->dims[t->count - 1 - from_end]);
	return b == NONE ? NULL : &uses[b];
}

static void use_matmul(Module *m, NodeId n, BlockUse *uses) {
	uint16_t op = node_get(m, n)->op;
	NodeId left = node_input(m, n, matmul_arg(op, 0)), right = node_input(m, n, matmul_arg(op, 1));
	BlockUse *rows = factor_dim(m, left, 1, uses), *columns = factor_dim(m, right, 0, uses);
	BlockUse *contracted[] = {factor_dim(m, left, 0, uses), factor_dim(m, right, 1, uses)};
	if (rows)
		rows->free = true;
	if (columns)
		columns->free = columns->columns = true;
	for (int i = 0; i < 2; i++)
		if (contracted[i])
			contracted[i]->contracted = true;
}

BlockUse *block_uses(Module *m) {
	BlockUse *uses = arena_array(m->arena, (size_t)m->blocks.count + 1, sizeof *uses);
	for (BlockId b = 0; b < m->blocks.count; b++)
		uses[b] = (BlockUse){.from_end = 0};
	for (NodeId n = 0; n < m->nodes.count; n++) {
		const Node *node = node_get(m, n);
		if (node->dead || node->op == OP_UNKNOWN)
			continue;
		if (op_accesses(node->op))
			use_access(m, n, uses);
		else if (op_kind(m, n) == KIND_MATMUL)
			use_matmul(m, n, uses);
	}
	return uses;
}

/* ---- each alone ------------------------------------------------------------------------------------------------- */

static int64_t next_power(int64_t x) {
	int64_t power = 1;
	while (power < x && power < INT64_C(1) << 40)
		power *= 2;
	return power;
}

static int64_t matmul_side(const Target *t) {
	double balance = t->hbm_bytes_per_s > 0 ? t->bf16_flops / t->hbm_bytes_per_s : 0;
	return int_max(int_min(next_power((int64_t)(2 * balance)), MOST_SIDE), 2 * t->mxu_size);
}

/* The most elements of the block's tile. */
static int64_t most_of(const Module *m, const BlockUse *u, bool known) {
	if (u->free && u->contracted) /* each step of a loop whose end is a tile's must fit in that tile */
		return known ? MOST_CONTRACTED : matmul_side(m->target) / 2;
	if (u->free || u->contracted)
		return u->free ? matmul_side(m->target) : MOST_CONTRACTED;
	if (u->rank <= 1)
		return u->rank ? MOST_ALONE : LEAST;
	return u->from_end >= 2 ? 1 : u->from_end == 0 ? MOST_LANES : MOST_ROWS;
}

int64_t default_least(const BlockUse *u) {
	bool outer = u->rank > 2 && u->from_end >= 2 && !u->free && !u->contracted;
	return outer ? 1 : u->rank >= 2 && u->from_end == 1 && !u->free && !u->contracted ? LEAST_ROWS / 4 : LEAST;
}

/* Blocks of a size leave less over than others: columns of a matmul as the MXU takes them, then as they are. */
static bool fits_better(const Module *m, const BlockUse *u, int64_t extent, int64_t size, int64_t other) {
	int64_t wide = u->columns ? m->target->mxu_size : 1;
	int64_t blocks = int_cdiv(extent, size), others = int_cdiv(extent, other);
	int64_t taken = blocks * int_round_up(size, wide), by_others = others * int_round_up(other, wide);
	return taken < by_others || (taken == by_others && blocks * size < others * other);
}

/* The widest of the multiples of 128 from half of `most` on whose blocks leave least over. */
static int64_t fitting(const Module *m, const BlockUse *u, int64_t extent, int64_t most) {
	int64_t best = most;
	for (int64_t size = most - LEAST; size >= most / 2 && size >= LEAST; size -= LEAST)
		if (fits_better(m, u, extent, size, best))
			best = size;
	return best;
}

int64_t default_block(const Module *m, const BlockUse *u, int64_t extent) {
	bool known = extent > 0;
	int64_t most = most_of(m, u, known), reach = known ? extent : u->reach;
	if (reach > 0 && reach <= most)
		return next_power(reach);
	/* Of a tensor of one dim, blocks of other sizes would be laid out anew. */
	if (reach <= 0 || reach % most == 0 || most <= LEAST || u->rank <= 1)
		return most;
	return known ? fitting(m, u, reach, most) : most;
}

int64_t default_columns(Module *m, BlockId b, int64_t most) {
	const BlockUse *u = &block_uses(m)[b];
	return u->columns && u->reach > most ? fitting(m, u, u->reach, most) : most;
}

/* ---- together --------------------------------------------------------------------------------------------------- */

typedef struct Sizes {
	Module *m;
	const BlockUse *uses;
	const bool *candidate;
	int64_t *sizes; /* by BlockId */
	bool matmuls;
} Sizes;

/* Loads and stores; in a kernel with matmuls every tile: what is between them lies in VMEM too. */
static bool counts(const Sizes *s, NodeId n) {
	const Node *node = node_get(s->m, n);
	return !node->dead && node->op != OP_UNKNOWN && node_is_tile(s->m, n) && (s->matmuls || node->op == OP_LOAD);
}

static int64_t tile_bytes(const Sizes *s, const Type *t, const int64_t *values) {
	int64_t bytes = int_max(dtype_bits(t->dtype), 8) / 8;
	for (uint32_t i = 0; i < t->count; i++) {
		int64_t dim = values[t->dims[i]];
		BlockId b = expr_as_block(s->m, t->dims[i]);
		if (b != NONE && s->uses[b].reach > 0)
			dim = int_min(dim, s->uses[b].reach);
		if (dim != EXPR_UNKNOWN && !checked_mul(bytes, int_max(dim, 1), &bytes))
			return INT64_MAX;
	}
	return bytes;
}

/* The node with the largest tile; NONE if there is none. */
static NodeId largest_tile(const Sizes *s, int64_t *bytes) {
	const int64_t *values = expr_values_at(s->m, s->m->arena, s->sizes);
	NodeId largest = NONE;
	*bytes = 0;
	for (NodeId n = 0; n < s->m->nodes.count; n++) {
		int64_t here = counts(s, n) ? tile_bytes(s, node_type(s->m, n), values) : 0;
		if (here > *bytes) {
			*bytes = here;
			largest = n;
		}
	}
	return largest;
}

/* The tile as it is, no wider than its range. */
static int64_t size_in_range(const Sizes *s, BlockId b) {
	return s->uses[b].reach > 0 ? int_min(s->sizes[b], next_power(s->uses[b].reach)) : s->sizes[b];
}

/* Half of a size; of columns that the MXU takes in several passes all of each. */
static int64_t halved(const Sizes *s, BlockId b, int64_t least) {
	int64_t half = size_in_range(s, b) / 2, wide = s->m->target->mxu_size;
	return int_round_up(half, s->uses[b].columns && half > wide ? wide : least);
}

/* Halves the outermost dim that is still long; false if none is. */
static bool cut(const Sizes *s, const Type *t) {
	for (int pass = 0; pass < 2; pass++)
		for (uint32_t i = 0; i < t->count; i++) {
			BlockId b = expr_as_block(s->m, t->dims[i]);
			int64_t least = i + 1 == t->count || pass == 0 ? LEAST : LEAST_ROWS;
			if (b == NONE || !s->candidate[b] || size_in_range(s, b) / 2 < least)
				continue;
			s->sizes[b] = halved(s, b, least);
			return true;
		}
	return false;
}

static bool grow_outer(const Sizes *s, int64_t most) {
	for (BlockId b = s->m->blocks.count; b-- > 0;) {
		const BlockUse *u = &s->uses[b];
		int64_t before = s->sizes[b], bytes;
		if (!s->candidate[b] || u->free || u->contracted || u->rank < 3 || u->from_end < 2 ||
		    before * 2 > u->reach)
			continue;
		s->sizes[b] *= 2;
		if (largest_tile(s, &bytes) != NONE && bytes <= most)
			return true;
		s->sizes[b] = before;
	}
	return false;
}

bool default_blocks_balance(Module *m, const BlockUse *uses, const bool *candidate, int64_t *sizes) {
	Sizes s = {.m = m, .uses = uses, .candidate = candidate, .sizes = sizes};
	int64_t *before = arena_array(m->arena, (size_t)m->blocks.count + 1, sizeof *before), bytes;
	memcpy(before, sizes, m->blocks.count * sizeof *before);
	for (BlockId b = 0; b < m->blocks.count; b++)
		s.matmuls = s.matmuls || uses[b].free || uses[b].contracted;
	int64_t most = s.matmuls ? MATMUL_TILE_BYTES : TILE_BYTES;
	NodeId n = largest_tile(&s, &bytes);
	while (n != NONE && bytes > most && cut(&s, node_type(m, n)))
		n = largest_tile(&s, &bytes);
	while (grow_outer(&s, SMALL_BYTES))
		;
	return memcmp(before, sizes, m->blocks.count * sizeof *before) != 0;
}
