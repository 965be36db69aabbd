/* random.c - tile.rand and tile.randint become the arithmetic of Philox-4x32-10 in int64, as Helion traces it.
 *
 * What: the word at each place is a function of the seed (the key, 64 bits) and of the place's number in the whole
 * range of its tiles (the counter): so the numbers are the same whatever the blocks are. A round multiplies two words
 * of 32 bits, keeps the low word and, of 16-bit halves, the high one. uniform: |word| * 2**-31; integers: low + |word|
 * modulo the range, of the word as int32.
 *
 *     r = rand [u0, u1], 42      =>      place = index_0 * 512 + index_1       int64
 *                                        .. ten rounds ..
 *                                        r = float(size) * 4.6566127342e-10    float32
 *
 * Before the pass int64, which makes words of 32 bits of it all. Why on a TPU: its own generator has another stream on
 * each chip, and none in the reference. Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (2011). */
#include "decompose.h"

enum { ROUNDS = 10, HALF = 16 };

static const int64_t low_word = 0xffffffff, low_half = 0xffff, sign_bit = 0x80000000;
static const int64_t multipliers[2] = {0xd2511f53, 0xcd9e8d57}, key_steps[2] = {0x9e3779b9, 0xbb67ae85};
static const double unit = 4.6566127342e-10; /* Triton's and Helion's 2**-31 */

/* A word: a node of int64 between 0 and 2**32 - 1; where that is NONE, a number. */
typedef struct Word {
	NodeId node;
	int64_t number;
} Word;

static Word number(int64_t x) { return (Word){NONE, x & low_word}; }

static Word word(NodeId node) { return (Word){node, 0}; }

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

static NodeId masked(Decompose *d, NodeId x, int64_t mask) {
	return make_binary(d, OP_BITWISE_AND_SCALAR, "low", x, arg_int(mask));
}

static NodeId shifted(Decompose *d, NodeId x, int64_t by) {
	return make_binary(d, OP_RSHIFT_TENSOR_SCALAR, "high", x, arg_int(by));
}

static NodeId scaled(Decompose *d, NodeId x, int64_t by) { return make_binary(d, OP_MUL, "times", x, arg_int(by)); }

static NodeId sum(Decompose *d, NodeId a, Arg b) { return make_binary(d, OP_ADD, "plus", a, b); }

static Word mixed(Decompose *d, Word a, Word b) {
	if (a.node == NONE && b.node == NONE)
		return number(a.number ^ b.number);
	if (a.node == NONE)
		return mixed(d, b, a);
	if (b.node != NONE)
		return word(make_binary(d, OP_BITWISE_XOR, "mixed", a.node, arg_ref(b.node)));
	return b.number == 0 ? a : word(make_binary(d, OP_BITWISE_XOR_SCALAR, "mixed", a.node, arg_int(b.number)));
}

/* The product of 64 bits: its low word as such, its high one of halves, none of which passes 32 bits. */
static Word low_product(Decompose *d, int64_t a, Word b) {
	if (b.node == NONE)
		return number((int64_t)((uint64_t)a * (uint64_t)b.number));
	return word(masked(d, scaled(d, b.node, a), low_word));
}

static Word high_product(Decompose *d, int64_t a, Word b) {
	int64_t a0 = a & low_half, a1 = a >> HALF;
	if (b.node == NONE)
		return number((int64_t)((uint64_t)a * (uint64_t)b.number >> 32));
	NodeId b0 = masked(d, b.node, low_half), b1 = shifted(d, b.node, HALF);
	NodeId carry = shifted(d, scaled(d, b0, a0), HALF);
	NodeId middle = sum(d, scaled(d, b0, a1), arg_ref(carry));
	NodeId other = sum(d, scaled(d, b1, a0), arg_ref(masked(d, middle, low_half)));
	NodeId high = sum(d, scaled(d, b1, a1), arg_ref(shifted(d, middle, HALF)));
	return word(masked(d, sum(d, high, arg_ref(shifted(d, other, HALF))), low_word));
}

static Word stepped(Decompose *d, Word key, int64_t by) {
	return key.node == NONE ? number(key.number + by) : word(masked(d, sum(d, key.node, arg_int(by)), low_word));
}

/* The first word of the counter's block. */
static Word philox(Decompose *d, Word key[2], Word low, Word high) {
	Word c[4] = {low, high, number(0), number(0)};
	for (int i = 0; i < ROUNDS; i++) {
		Word high0 = high_product(d, multipliers[0], c[0]), low0 = low_product(d, multipliers[0], c[0]);
		Word high1 = high_product(d, multipliers[1], c[2]), low1 = low_product(d, multipliers[1], c[2]);
		c[0] = mixed(d, mixed(d, high1, c[1]), key[0]);
		c[2] = mixed(d, mixed(d, high0, c[3]), key[1]);
		c[1] = low1;
		c[3] = low0;
		for (int k = 0; k < 2; k++)
			key[k] = stepped(d, key[k], key_steps[k]);
	}
	return c[0];
}

/* ---- counter and key --------------------------------------------------------------------------------------------- */

/* A bound of a loop; NONE: only the run time knows it. */
static ExprId bound_of(Module *m, const Arg *a) {
	if (a->kind == ARG_REF && node_type(m, a->node)->kind == TYPE_SYM)
		return node_type(m, a->node)->sym;
	return a->kind == ARG_INT ? expr_int(m, a->integer) : a->kind == ARG_SYM ? a->expr : NONE;
}

/* How many positions the tiles of a block go through: from where its loop begins to where that ends, if it says so,
 * else the block's own range; NONE: only the run time knows. */
static ExprId range_of(Module *m, GraphId g, BlockId b) {
	const Graph *graph = graph_get(m, g);
	const Block *block = &m->blocks.at[b];
	ExprId begin = block->begin, end = block->extent;
	bool loop = graph->kind == GRAPH_FOR_LOOP && graph->caller != NONE;
	for (uint32_t i = 0; loop && i < graph->blocks.count; i++) {
		const Arg *from = arg_item(m, node_arg(m, graph->caller, 1), i);
		const Arg *to = arg_item(m, node_arg(m, graph->caller, 2), i);
		if (graph->blocks.at[i] != b || from->kind == ARG_NULL || to->kind == ARG_NULL)
			continue;
		begin = bound_of(m, from);
		end = begin == NONE ? NONE : bound_of(m, to);
	}
	return end == NONE || begin == NONE ? end : expr_binary(m, EXPR_SUB, end, begin);
}

/* Numbers along one dim, int64; *count: how many there are in the whole range; NONE: only the run time knows. */
static NodeId numbers(Decompose *d, uint32_t dim, ExprId *count) {
	Module *m = d->m;
	const Type t = *node_type(m, d->n);
	BlockId b = expr_as_block(m, t.dims[dim]);
	ExprId sizes[RANK_MAX] = {t.dims[dim]};
	*count = t.dims[dim];
	GraphId g = b == NONE ? NONE : block_graph(m, node_get(m, d->n)->graph, b);
	if (g == NONE)
		return make_converted(d, make_iota(d, t.dims[dim], dim, t.count), DTYPE_I64);
	*count = range_of(m, g, b);
	Arg block = {.kind = ARG_BLOCK, .block = b};
	NodeId index = make_converted(d, make_node(d, OP_TILE_INDEX, "index", 1, &block), DTYPE_I64);
	for (uint32_t i = 1; i < t.count - dim; i++)
		sizes[i] = expr_int(m, 1);
	return make_view(d, index, t.count - dim, sizes, "index");
}

/* Each lane's number in the whole range of its tiles, in row-major order; NONE: only the run time knows how many come
 * before it, that is how many there are in a dim but the first. */
static NodeId places(Decompose *d) {
	Module *m = d->m;
	ExprId stride = expr_int(m, 1), count = NONE;
	NodeId place = NONE;
	for (uint32_t dim = node_type(m, d->n)->count; dim-- > 0;) {
		NodeId index = numbers(d, dim, &count);
		if (!expr_is_int(m, stride, 1))
			index = make_binary(d, OP_MUL, "times", index, size_arg(m, stride));
		place = place == NONE ? index : sum(d, place, arg_ref(index));
		if (dim > 0 && count == NONE)
			return NONE;
		stride = dim > 0 ? expr_binary(m, EXPR_MUL, stride, count) : stride;
	}
	return place;
}

/* A value of int64; NONE: it is no int. */
static NodeId long_int(Decompose *d, const Arg *a) {
	if (a->kind != ARG_REF || node_type(d->m, a->node)->kind != TYPE_TENSOR ||
	    dtype_is_float(node_type(d->m, a->node)->dtype))
		return NONE;
	return make_converted(d, a->node, DTYPE_I64);
}

static bool split(Decompose *d, NodeId x, Word *low, Word *high) {
	if (x == NONE)
		return false;
	*low = word(masked(d, x, low_word));
	*high = word(masked(d, shifted(d, x, 32), low_word));
	return true;
}

static bool same_shape(Decompose *d, NodeId x) {
	const Type *a = node_type(d->m, x), *b = node_type(d->m, d->n);
	bool same = a->count == b->count;
	for (uint32_t i = 0; same && i < a->count; i++)
		same = expr_equal(d->m, a->dims[i], b->dims[i]);
	return same;
}

static bool find_counter(Decompose *d, Word *low, Word *high) {
	const Arg *offsets = op_arg(d->m, d->n, "offsets");
	if (offsets->kind != ARG_NULL) {
		NodeId x = long_int(d, offsets);
		return x != NONE && same_shape(d, x) && split(d, x, low, high);
	}
	if (node_type(d->m, d->n)->count > 0)
		return split(d, places(d), low, high);
	*low = *high = number(0);
	return true;
}

static bool find_key(Decompose *d, Word key[2]) {
	const Arg *seed = op_arg(d->m, d->n, "seed");
	if (seed->kind != ARG_INT)
		return split(d, long_int(d, seed), &key[0], &key[1]);
	key[0] = number(seed->integer);
	key[1] = number(seed->integer >> 32);
	return true;
}

/* ---- the ops ----------------------------------------------------------------------------------------------------- */

/* `bits` as int32, without its sign: of a negative x, -x or ~x. */
static NodeId size_of(Decompose *d, NodeId bits, bool complement) {
	NodeId moved = masked(d, sum(d, bits, arg_int(sign_bit)), low_word);
	NodeId x = make_binary(d, OP_SUB, "word", moved, arg_int(sign_bit));
	NodeId below = make_binary(d, OP_LT_SCALAR, "below", x, arg_int(0));
	NodeId turned = make_unary(d, OP_NEG, "turned", x);
	if (complement)
		turned = make_binary(d, OP_SUB, "turned", turned, arg_int(1));
	return make_where(d, "size", below, arg_ref(turned), arg_ref(x));
}

/* A scalar's word is a number where the seed is one; all else is made of nodes. */
static NodeId word_node(Decompose *d, Word w) {
	Arg args[3] = {shape_arg(d->m, node_get(d->m, d->n)->type), arg_int(w.number), arg_dtype(DTYPE_I64)};
	return w.node != NONE ? w.node : make_node(d, OP_FULL, "word", 3, args);
}

static NodeId drawn(Decompose *d) {
	Word low, high, key[2];
	const Arg *from = op_arg(d->m, d->n, "low"), *to = op_arg(d->m, d->n, "high");
	bool ints = node_get(d->m, d->n)->op == OP_RANDINT;
	if (ints && (from->kind != ARG_INT || to->kind != ARG_INT || from->integer >= to->integer))
		return NONE;
	int64_t least = from->integer, count = ints ? to->integer - from->integer : 0;
	if (!find_key(d, key) || !find_counter(d, &low, &high))
		return NONE;
	NodeId x = size_of(d, word_node(d, philox(d, key, low, high)), !ints);
	if (!ints)
		return make_binary(d, OP_MUL, "uniform", make_wide(d, x), arg_float(unit));
	x = make_binary(d, OP_REMAINDER_SCALAR, "part", x, arg_int(count));
	return make_converted(d, sum(d, x, arg_int(least)), DTYPE_I32);
}

bool pass_random(PassContext *c) {
	Module *m = c->module;
	for (GraphId g = 0; g < m->graphs.count; g++)
		for (NodeId n = graph_first(m, g), next; n != NONE; n = next) {
			Decompose d = {.c = c, .m = m, .n = n};
			uint16_t op = node_get(m, n)->op;
			next = node_get(m, n)->next;
			if (!op_is_random(op))
				continue;
			NodeId value = drawn(&d);
			if (d.failed)
				return false;
			if (value == NONE)
				continue; /* it is refused by name */
			const char *name = node_get(m, n)->name;
			pass_remark(c, "random", "%s, %s, is Philox of its seed and place", name, op_row(op)->target);
			node_replace_uses(m, n, value, NONE);
			node_remove(m, n);
			node_rename(m, value, name);
		}
	return true;
}
