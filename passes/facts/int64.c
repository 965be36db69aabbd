/* int64.c - 64-bit ints become 32-bit words that hold them, or are refused.
 *
 * What: a TPU computes ints in 32 bits. Each int64 value gets the word that provably holds it, by the interval that
 * int_ranges.c finds: int32, or uint32 where it is never negative. Where neither does, its low 32 bits may be enough: a
 * sum, product, mask or left shift needs no more of its operands for the low bits of its own.
 *
 *     k = key + 0x9e3779b9               k = key + 0x9e3779b9      uint32, wraps around
 *     m = k & 0xffffffff         =>      m = k
 *     h = m >> 16                        h = m >> 16               uint32, filled with zeros
 *
 * k may pass 2^32, and its low word is all that m reads. What needs the whole of a value (a comparison, a quotient, a
 * right shift, a conversion to float) is refused if no word holds it, with the interval and what to do. So nothing
 * wraps around that would not in 64 bits. A value that is the same number whatever the inputs hold becomes that number.
 *
 * Why on a TPU: neither Mosaic nor jax (without x64) has 64-bit ints, and torch makes int64 of every sum of ints,
 * position and Python number. */
#include "facts.h"

/* What is known of a node. */
typedef struct Known {
	bool touched;  /* it gives or reads int64 in the document */
	bool needed;   /* some effect depends on it; else nothing is refused */
	bool low_only; /* an int64 value of which the node holds the low bits alone */
} Known;

typedef struct Wide {
	PassContext *c;
	Module *m;
	IntRanges ranges;
	Known *known;    /* by NodeId */
	NodeId capacity; /* of both arrays */
	uint32_t low_only, words;
	bool refused;
} Wide;

/* ---- what is int64 ----------------------------------------------------------------------------------------------- */

static bool type_has_int64(const Module *m, TypeId type) {
	const Type *t = type_get(m, type);
	bool found = t->kind == TYPE_TENSOR && t->dtype == DTYPE_I64;
	for (uint32_t i = 0; t->kind == TYPE_TUPLE && i < t->count; i++)
		found = found || type_has_int64(m, t->elements[i]);
	return found;
}

static bool is_int64(const Module *m, NodeId n) {
	return node_type(m, n)->kind == TYPE_TENSOR && node_type(m, n)->dtype == DTYPE_I64;
}

static bool arg_has_int64(const Module *m, const Arg *a) {
	if (a->kind == ARG_DTYPE)
		return a->dtype == DTYPE_I64;
	if (a->kind == ARG_REF)
		return type_has_int64(m, node_get(m, a->node)->type);
	bool found = false;
	for (uint32_t i = 0; (a->kind == ARG_LIST || a->kind == ARG_SLICE) && i < a->list.count; i++)
		found = found || arg_has_int64(m, arg_item(m, a, i));
	return found;
}

static bool touches_int64(const Module *m, NodeId n) {
	bool found = type_has_int64(m, node_get(m, n)->type);
	for (uint32_t i = 0; !found && i < node_get(m, n)->arg_count; i++)
		found = arg_has_int64(m, node_arg(m, n, i));
	return found;
}

/* Nothing of the graph can be int64; types and arguments that nothing uses any more count as well. */
static bool no_int64(const Module *m) {
	for (TypeId t = 0; t < m->types.count; t++)
		if (m->types.at[t].kind == TYPE_TENSOR && m->types.at[t].dtype == DTYPE_I64)
			return false;
	for (ArgId a = 0; a < m->args.count; a++)
		if (m->args.at[a].kind == ARG_DTYPE && m->args.at[a].dtype == DTYPE_I64)
			return false;
	return true;
}

static bool any_int64(const Module *m) {
	if (no_int64(m))
		return false;
	for (NodeId n = 0; n < m->nodes.count; n++)
		if (!node_get(m, n)->dead && touches_int64(m, n))
			return true;
	return false;
}

/* Users come after what they use. */
static void find_needed(Wide *w, GraphId g) {
	const Module *m = w->m;
	GraphId graphs[2];
	for (NodeId n = graph_get(m, g)->last; n != NONE; n = node_get(m, n)->prev) {
		Known *k = &w->known[n];
		k->touched = touches_int64(m, n);
		k->needed = op_has_effect(node_get(m, n)->op) || node_get(m, n)->op == OP_OUTPUT ||
		            call_graphs(m, n, graphs) > 0;
		for (ArgId u = node_uses(m, n); u != NONE && !k->needed; u = arg_get(m, u)->next_use)
			k->needed = w->known[arg_get(m, u)->user].needed;
	}
}

/* ---- what an op needs of its operands ---------------------------------------------------------------------------- */

static bool is_modular_dtype(Dtype t) { return !dtype_is_float(t) && t != DTYPE_BOOL; }

/* The low bits of the result depend on the low bits of the operands alone: of its op, where it gives ints. */
static bool op_is_modular(uint16_t op) {
	switch (op_row(op)->kind) {
	case KIND_CREATION: return true;
	case KIND_MEMORY: return false;
	case KIND_VIEW: return op_lanes(op) != LANES_BITCAST && op_lanes(op) != LANES_GATHER;
	default: return op_is(op, IS_MODULAR) || op_lowering(op) == LOWER_ALIAS;
	}
}

static bool reads_floats(const Module *m, NodeId n) {
	for (uint32_t i = 0; i < node_get(m, n)->arg_count; i++) {
		const Arg *a = node_arg(m, n, i);
		bool tensor = a->kind == ARG_REF && node_type(m, a->node)->kind == TYPE_TENSOR;
		if (a->kind == ARG_FLOAT || (tensor && dtype_is_float(node_type(m, a->node)->dtype)))
			return true;
	}
	return false;
}

static bool is_modular(const Module *m, NodeId n) {
	const Type *t = node_type(m, n);
	if (!op_is_modular(node_get(m, n)->op))
		return false;
	return t->kind == TYPE_TUPLE || (t->kind == TYPE_TENSOR && is_modular_dtype(t->dtype));
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

static bool holds(Dtype word, IntRange r) { return range_within(r, dtype_range(word)); }

/* int32 if it can be; DTYPE_NONE if neither holds it. */
static Dtype word_of(IntRange r) {
	return holds(DTYPE_I32, r) ? DTYPE_I32 : holds(DTYPE_U32, r) ? DTYPE_U32 : DTYPE_NONE;
}

static int64_t low_word(int64_t x, Dtype word) {
	return word == DTYPE_U32 ? (int64_t)(uint32_t)x : (int64_t)(int32_t)(uint32_t)x;
}

static TypeId retyped(Wide *w, TypeId type, Dtype word) {
	Type t = *type_get(w->m, type);
	return type_tensor(w->m, word, t.count, t.dims);
}

/* Notes a node that was made. */
static NodeId note(Wide *w, NodeId n, IntRange r, bool low_only) {
	if (n >= w->capacity) {
		NodeId grown = 2 * (n + 1);
		Known *known = arena_array(w->m->arena, grown, sizeof *known);
		IntRange *of = arena_array(w->m->arena, grown, sizeof *of);
		memcpy(known, w->known, w->capacity * sizeof *known);
		memcpy(of, w->ranges.of, w->capacity * sizeof *of);
		w->known = known, w->ranges.of = of, w->capacity = grown;
	}
	w->known[n] = (Known){.needed = true, .low_only = low_only};
	w->ranges.of[n] = r;
	return n;
}

static void set_word(Wide *w, NodeId n, Dtype word) {
	w->known[n].low_only = !holds(word, w->ranges.of[n]);
	w->low_only += w->known[n].low_only;
	w->words++;
	node_set_type(w->m, n, retyped(w, node_get(w->m, n)->type, word));
}

/* A constant in the place of node x. */
static NodeId number_node(Wide *w, NodeId x, int64_t value, Dtype word, NodeId before) {
	Module *m = w->m;
	TypeId type = retyped(w, node_get(m, x)->type, word);
	Arg number = arg_int(low_word(value, word)), scalar[2] = {number, arg_dtype(word)};
	Arg tile[3] = {shape_arg(m, type), number, arg_dtype(word)};
	bool is_scalar = type_get(m, type)->count == 0;
	NodeId n = node_derive(m, is_scalar ? OP_SCALAR_TENSOR : OP_FULL, x, dtype_name(word), type, is_scalar ? 2 : 3,
	                       is_scalar ? scalar : tile, before);
	return note(w, n, w->ranges.of[x], !holds(word, w->ranges.of[x]));
}

/* x in a word, made before a node. */
static NodeId in_word(Wide *w, NodeId x, Dtype word, NodeId before) {
	if (range_is_one(w->ranges.of[x]))
		return number_node(w, x, w->ranges.of[x].low, word, before);
	Arg args[2] = {arg_ref(x), arg_dtype(word)};
	TypeId type = retyped(w, node_get(w->m, x)->type, word);
	NodeId n = node_derive(w->m, OP_CONVERT, x, dtype_name(word), type, 2, args, before);
	return note(w, n, w->ranges.of[x], w->known[x].low_only || !holds(word, w->ranges.of[x]));
}

static bool is_tensor_of_ints(const Module *m, NodeId x) {
	const Type *t = node_type(m, x);
	return t->kind == TYPE_TENSOR && is_modular_dtype(t->dtype) && node_get(m, x)->op != OP_HOST_TENSOR &&
	       node_get(m, x)->op != OP_SCALAR;
}

/* The operand in a slot: of uint32 where the word is, and of no uint32 where it is not. */
static void give_word(Wide *w, ArgId slot, Dtype word) {
	Arg a = *arg_get(w->m, slot);
	if (a.kind == ARG_INT && low_word(a.integer, word) != a.integer)
		arg_set(w->m, slot, arg_int(low_word(a.integer, word)));
	if (a.kind == ARG_REF && is_tensor_of_ints(w->m, a.node) &&
	    (node_type(w->m, a.node)->dtype == DTYPE_U32) != (word == DTYPE_U32))
		arg_set_ref(w->m, slot, in_word(w, a.node, word, a.user));
}

static void give_words(Wide *w, ArgId first, uint32_t count, Dtype word) {
	for (ArgId slot = first; slot < first + count; slot++) {
		Arg a = *arg_get(w->m, slot);
		if (a.kind == ARG_LIST)
			give_words(w, a.list.first, a.list.count, word);
		else if (a.kind == ARG_REF)
			give_word(w, slot, word);
	}
}

/* All operands of a pointwise op, numbers too; of others what is no size and no dim. */
static void give_operands(Wide *w, NodeId n, Dtype word) {
	const Node node = *node_get(w->m, n);
	OpParam param;
	const char *at = op_row(node.op)->params;
	for (uint32_t i = 0; i < node.arg_count && (at = op_param_next(at, &param)) != NULL; i++)
		if (param.letter == 'x' || param.letter == 'n')
			give_word(w, node.arg_first + i, word);
		else
			give_words(w, node.arg_first + i, 1, word);
}

static void set_dtype_argument(Wide *w, NodeId n, Dtype word) {
	for (uint32_t i = 0; i < node_get(w->m, n)->arg_count; i++)
		if (node_arg(w->m, n, i)->kind == ARG_DTYPE && node_arg(w->m, n, i)->dtype == DTYPE_I64)
			arg_set(w->m, node_get(w->m, n)->arg_first + i, arg_dtype(word));
}

/* n computes its result in `word`; if that does not hold it and the other one does, its users read it in that. */
static void set_result(Wide *w, NodeId n, Dtype word) {
	Module *m = w->m;
	IntRange r = w->ranges.of[n];
	set_dtype_argument(w, n, word);
	set_word(w, n, word);
	if (!w->known[n].low_only || word_of(r) == DTYPE_NONE)
		return;
	NodeId held = in_word(w, n, word_of(r), node_get(m, n)->next);
	node_replace_uses(m, n, held, held);
	w->known[held].low_only = false;
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

/* -2^31, 2^40 - 1, 17 */
static const char *number_text(const Wide *w, int64_t x) {
	if (x == INT64_MIN)
		return "-2^63";
	for (int k = 31; k <= 63; k++) {
		uint64_t p = UINT64_C(1) << k;
		if ((uint64_t)x == p - 1)
			return arena_printf(w->m->arena, "2^%d - 1", k);
		if (x > 0 ? (uint64_t)x == p : (uint64_t)-x == p)
			return arena_printf(w->m->arena, "%s2^%d", x < 0 ? "-" : "", k);
	}
	return arena_printf(w->m->arena, "%lld", (long long)x);
}

static void refuse(Wide *w, NodeId n, const char *code, const char *hint, const char *what) {
	if (!w->known[n].needed)
		return;
	w->refused = true;
	diag_error(w->c->diag, node_place(w->m, w->c->diag, n), code, hint, "%s '%s': %s",
	           op_row(node_get(w->m, n)->op)->target, node_get(w->m, n)->name, what);
}

/* x: what no word holds; NONE: all operands together. */
static void refuse_range(Wide *w, NodeId n, NodeId x, IntRange r) {
	const char *who = x == NONE ? "its operands" : arena_printf(w->m->arena, "'%s'", node_get(w->m, x)->name);
	const char *what =
		arena_printf(w->m->arena, "%s, in int64, may be anywhere from %s to %s, more than 32 bits hold", who,
	                     number_text(w, r.low), number_text(w, r.high));
	refuse(w, n, "int64-range",
	       "bound it before: x & 0xffffffff, a clamp, a right shift; or convert it, to int32 if it may wrap "
	       "around; an "
	       "exporter can be told the range of an int64 argument",
	       what);
}

/* ---- ops that need the whole of their operands ------------------------------------------------------------------- */

typedef struct Operands {
	IntRange all;     /* of those that count */
	NodeId too_large; /* one that no word holds, or of which there are the low bits alone; NONE */
} Operands;

static IntRange hull(IntRange a, IntRange b) { return (IntRange){int_min(a.low, b.low), int_max(a.high, b.high)}; }

static void operands_add(const Wide *w, Operands *o, const Arg *a, bool numbers) {
	for (uint32_t i = 0; a->kind == ARG_LIST && i < a->list.count; i++)
		operands_add(w, o, arg_item(w->m, a, i), false);
	bool tensor = a->kind == ARG_REF && is_tensor_of_ints(w->m, a->node);
	if (!tensor && !(numbers && a->kind == ARG_INT))
		return;
	IntRange r = arg_range(&w->ranges, a);
	o->all = hull(o->all, r);
	if (tensor && o->too_large == NONE && (w->known[a->node].low_only || word_of(r) == DTYPE_NONE))
		o->too_large = a->node;
}

/* Of arguments [first, first + count) of a node. */
static Operands operands_of(const Wide *w, NodeId n, uint32_t first, uint32_t count, bool numbers) {
	Operands o = {{INT64_MAX, INT64_MIN}, NONE};
	for (uint32_t i = first; i < first + count && i < node_get(w->m, n)->arg_count; i++)
		operands_add(w, &o, node_arg(w->m, n, i), numbers);
	if (o.all.low > o.all.high)
		o.all = (IntRange){0, 0};
	return o;
}

static bool is_unsigned(const Wide *w, const Arg *a) {
	bool found = a->kind == ARG_REF && is_tensor_of_ints(w->m, a->node) &&
	             node_type(w->m, a->node)->dtype == DTYPE_U32 && !range_is_one(w->ranges.of[a->node]);
	for (uint32_t i = 0; a->kind == ARG_LIST && i < a->list.count; i++)
		found = found || is_unsigned(w, arg_item(w->m, a, i));
	return found;
}

/* An operand that is no number is in uint32. */
static bool reads_unsigned(const Wide *w, NodeId n) {
	bool found = false;
	for (uint32_t i = 0; i < node_get(w->m, n)->arg_count; i++)
		found = found || is_unsigned(w, node_arg(w->m, n, i));
	return found;
}

/* Operands that are made floats, each by itself, need no common word. */
static bool is_float_result(const Module *m, NodeId n) {
	return node_type(m, n)->kind == TYPE_TENSOR && dtype_is_float(node_type(m, n)->dtype);
}

static void set_tuple(Wide *w, NodeId n, Dtype values) {
	const Type *t = node_type(w->m, n);
	for (uint32_t i = 0, count = t->count; i < count; i++) {
		TypeId element = node_type(w->m, n)->elements[i];
		bool places = i == 1 && op_kind(w->m, n) == KIND_REDUCTION;
		if (type_has_int64(w->m, element))
			node_set_result_type(w->m, n, i, retyped(w, element, places ? DTYPE_I32 : values));
	}
}

static void compute_whole(Wide *w, NodeId n) {
	Module *m = w->m;
	uint16_t op = node_get(m, n)->op;
	bool floats = is_float_result(m, n);
	Operands o = operands_of(w, n, 0, op_canonical(op) == OP_RSHIFT ? 1 : node_get(m, n)->arg_count,
	                         op_kind(m, n) == KIND_POINTWISE && !floats);
	Dtype word = reads_unsigned(w, n) && holds(DTYPE_U32, o.all) ? DTYPE_U32 : word_of(o.all);
	if (o.too_large != NONE)
		refuse_range(w, n, o.too_large, w->ranges.of[o.too_large]);
	else if (word == DTYPE_NONE && !floats)
		refuse_range(w, n, NONE, o.all);
	word = word == DTYPE_NONE ? DTYPE_I32 : word;
	if (!floats)
		give_operands(w, n, word);
	if (node_type(m, n)->kind == TYPE_TUPLE)
		set_tuple(w, n, word);
	else if (is_int64(m, n))
		set_result(w, n, op_kind(m, n) == KIND_REDUCTION && !op_is(op, IS_CHOICE) ? DTYPE_I32 : word);
}

/* Of floats there are no intervals. */
static bool makes_int64_of_floats(Wide *w, NodeId n) {
	if (!is_int64(w->m, n) || !op_converts(node_get(w->m, n)->op) || !reads_floats(w->m, n))
		return false;
	refuse(w, n, "int64-float", "convert it to int32, if that holds it",
	       "it makes int64 of floats, which may be any; there are ints of 32 bits");
	set_result(w, n, DTYPE_I32);
	return true;
}

/* ---- ops that need low bits alone -------------------------------------------------------------------------------- */

/* That of its operands, where it holds the result; else one that does; else that of its operands. Sums are int32. */
static Dtype modular_word(const Wide *w, NodeId n) {
	IntRange r = w->ranges.of[n];
	bool from_unsigned = reads_unsigned(w, n);
	if (op_kind(w->m, n) == KIND_REDUCTION)
		return DTYPE_I32;
	if (from_unsigned && holds(DTYPE_U32, r))
		return DTYPE_U32;
	Dtype word = word_of(r);
	return word != DTYPE_NONE ? word : from_unsigned || r.low >= 0 ? DTYPE_U32 : DTYPE_I32;
}

static void compute_modular(Wide *w, NodeId n) {
	Module *m = w->m;
	const Type t = *node_type(m, n);
	bool gives = t.kind == TYPE_TUPLE || t.dtype == DTYPE_I64;
	Dtype word = gives ? modular_word(w, n) : t.dtype == DTYPE_U32 ? DTYPE_U32 : DTYPE_I32;
	if (!op_converts(node_get(m, n)->op))
		give_operands(w, n, word);
	if (t.kind == TYPE_TUPLE)
		set_tuple(w, n, word);
	else if (gives)
		set_result(w, n, word);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* n is always `value`, as far as its low bits go. */
static void become_number(Wide *w, NodeId n, int64_t value) {
	Dtype word = word_of(w->ranges.of[n]) == DTYPE_NONE ? DTYPE_I32 : word_of(w->ranges.of[n]);
	node_replace_uses(w->m, n, number_node(w, n, value, word, n), NONE);
	node_remove(w->m, n);
}

static bool is_number(Wide *w, NodeId n) {
	if (op_kind(w->m, n) != KIND_POINTWISE || !is_int64(w->m, n) || !range_is_one(w->ranges.of[n]))
		return false;
	become_number(w, n, w->ranges.of[n].low);
	return true;
}

/* x & 0xffffffff is the low word of x; x & 0xffff of an x that has no more bits is x. */
static bool is_low_word(Wide *w, NodeId n) {
	uint16_t op = node_get(w->m, n)->op;
	if (op_canonical(op) != OP_BITWISE_AND || !is_int64(w->m, n))
		return false;
	for (uint32_t i = 0; i < 2; i++) {
		IntRange mask = arg_range(&w->ranges, node_arg(w->m, n, i));
		NodeId x = node_input(w->m, n, 1 - i);
		if (!range_is_one(mask) || mask.low < 0 || (mask.low & (mask.low + 1)) != 0 || x == NONE ||
		    !is_tensor_of_ints(w->m, x) ||
		    retyped(w, node_get(w->m, x)->type, DTYPE_U32) != retyped(w, node_get(w->m, n)->type, DTYPE_U32))
			continue;
		bool bounded = range_within(w->ranges.of[x], (IntRange){0, mask.low}) && !w->known[x].low_only;
		if (!bounded && mask.low != UINT32_MAX)
			continue;
		Dtype word = bounded && node_type(w->m, x)->dtype != DTYPE_U32 ? DTYPE_I32 : DTYPE_U32;
		NodeId low = note(w, in_word(w, x, word, n), w->ranges.of[n], false);
		node_replace_uses(w->m, n, low, NONE);
		node_remove(w->m, n);
		return true;
	}
	return false;
}

/* A count of 32 to 63 leaves the sign of what a word holds, or no low bits at all. True if n is done. */
static bool limit_shift(Wide *w, NodeId n) {
	Module *m = w->m;
	uint16_t op = op_canonical(node_get(m, n)->op);
	IntRange by = arg_range(&w->ranges, node_arg(m, n, 1));
	if ((op != OP_LSHIFT && op != OP_RSHIFT) || !is_int64(m, n) || (by.low >= 0 && by.high <= 31))
		return false;
	if (by.low >= 32 && by.high <= 63 && op == OP_LSHIFT) {
		become_number(w, n, 0);
		return true;
	}
	if (by.low >= 32 && by.high <= 63 && holds(DTYPE_I32, arg_range(&w->ranges, node_arg(m, n, 0)))) {
		arg_set(m, node_get(m, n)->arg_first + 1, arg_int(31));
		return false;
	}
	if (by.low < 0 || by.high > 31)
		refuse(w, n, "int64-range", "clamp the count to 0 to 31",
		       arena_printf(m->arena, "it shifts int64 by %s to %s bits, and there are words of 32",
		                    number_text(w, by.low), number_text(w, by.high)));
	return false;
}

/* ---- what hides lanes ------------------------------------------------------------------------------------------- */

/* One of the dims is a tile of a loop whose rows have lengths: a row may have no valid lane. */
static bool is_jagged(const Module *m, NodeId n) {
	const Type *t = node_type(m, n);
	for (GraphId g = node_get(m, n)->graph; graph_get(m, g)->caller != NONE; g = graph_parent(m, g)) {
		const Graph *graph = graph_get(m, g);
		for (uint32_t i = 0; i < graph->blocks.count * t->count && graph->lengths != NONE; i++)
			if (expr_as_block(m, t->dims[i % t->count]) == graph->blocks.at[i / t->count])
				return true;
	}
	return false;
}

/* Of x, which is reduced by n, no tile is left. */
static bool reduces_tiles(const Module *m, NodeId n, NodeId x) {
	const Type *t = node_type(m, x);
	uint32_t dims = reduction_dims(m, n);
	for (uint32_t i = 0; i < t->count; i++)
		if (!(dims >> i & 1) && m->exprs.at[t->dims[i]].kind != EXPR_INT)
			return false;
	return true;
}

/* The extreme of int64 that tile.mask_to gives lanes which a maximum or minimum is not to see: -1 for a maximum, 1 for
 * a minimum; 0: it is something else. */
static int hides_from(const Module *m, NodeId n) {
	const Arg *value = node_arg(m, n, 1);
	int side = value->kind != ARG_INT ? 0 : value->integer == INT64_MIN ? -1 : value->integer == INT64_MAX ? 1 : 0;
	if (node_get(m, n)->op != OP_MASK_TO || node_uses(m, n) == NONE || is_jagged(m, n))
		return 0;
	for (ArgId u = node_uses(m, n); u != NONE; u = arg_get(m, u)->next_use) {
		NodeId user = arg_get(m, u)->user;
		if (op_canonical(node_get(m, user)->op) != (side < 0 ? OP_MAX : OP_MIN) || !reduces_tiles(m, user, n))
			return 0;
	}
	return side;
}

/* A tile has a valid lane, so what no valid one exceeds hides the others as well. True: some were given it. */
static bool hide_by_bounds(Wide *w) {
	bool any = false;
	for (NodeId n = 0; n < w->m->nodes.count; n++) {
		int side = node_get(w->m, n)->dead || !is_int64(w->m, n) ? 0 : hides_from(w->m, n);
		if (side == 0)
			continue;
		IntRange r = w->ranges.of[node_input(w->m, n, 0)];
		arg_set(w->m, node_get(w->m, n)->arg_first + 1, arg_int(side < 0 ? r.low : r.high));
		any = true;
	}
	return any;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Positions are int32; what is stored as an int keeps its low bits; what is compared, made a float, or stored in the
 * place of an int64, is whole. */
static void lower_access(Wide *w, NodeId n) {
	Module *m = w->m;
	const Node node = *node_get(m, n);
	Operands index = operands_of(w, n, 1, 1, false);
	Dtype own = node_type(m, node_input(m, n, 0))->dtype;
	Dtype word = own == DTYPE_U32 ? DTYPE_U32 : DTYPE_I32;
	bool stands_for_int64 = op_writes(node.op) && m->tensors.at[tensor_base(m, access_tensor(m, n))].whole;
	bool whole =
		stands_for_int64 || node.op == OP_ATOMIC_MAX || node.op == OP_ATOMIC_MIN || node.op == OP_ATOMIC_CAS;
	Operands values = operands_of(w, n, 2, node.arg_count, stands_for_int64);
	if (index.too_large != NONE || !holds(DTYPE_I32, index.all))
		refuse_range(w, n, index.too_large, index.all);
	if ((whole || !is_modular_dtype(own)) && values.too_large != NONE)
		refuse_range(w, n, values.too_large, w->ranges.of[values.too_large]);
	else if (whole && !dtype_is_float(own) && !holds(word, values.all))
		refuse_range(w, n, NONE, values.all);
	give_words(w, node.arg_first + 1, 1, DTYPE_I32);
	if (node.op != OP_LOAD && node.op != OP_STORE && is_modular_dtype(own) && node.arg_count > 2)
		give_words(w, node.arg_first + 2, node.arg_count - 2, word);
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

/* On both sides of a call a value has one word: that of all it may be there. */
static Dtype slot_word(IntRange r) { return word_of(r) == DTYPE_NONE ? DTYPE_I32 : word_of(r); }

static void lower_placeholders(Wide *w, GraphId g) {
	const Graph *graph = graph_get(w->m, g);
	for (uint32_t i = 0; i < graph->placeholders.count; i++)
		if (is_int64(w->m, graph->placeholders.at[i]))
			set_word(w, graph->placeholders.at[i], slot_word(w->ranges.of[graph->placeholders.at[i]]));
}

static void give_arguments(Wide *w, NodeId call, const char *list, GraphId g) {
	const Arg args = *op_arg(w->m, call, list);
	const Graph *graph = graph_get(w->m, g);
	for (uint32_t i = 0; args.kind == ARG_LIST && i < graph->placeholders.count && i < args.list.count; i++) {
		const Type *t = node_type(w->m, graph->placeholders.at[i]);
		if (t->kind == TYPE_TENSOR && (t->dtype == DTYPE_I32 || t->dtype == DTYPE_U32))
			give_word(w, args.list.first + i, t->dtype);
	}
}

/* What is carried stays in its placeholder's word. */
static void give_results(Wide *w, NodeId call, GraphId g, GraphId other) {
	Module *m = w->m;
	for (uint32_t i = 0; i < graph_result_count(m, g); i++) {
		TypeId element = type_get(m, node_get(m, call)->type)->elements[i];
		if (!type_has_int64(m, element) || type_get(m, element)->kind != TYPE_TENSOR)
			continue;
		uint32_t carried = graph_carried_arg(graph_get(m, g), i);
		IntRange r = arg_range(&w->ranges, arg_item(m, graph_results(m, g), i));
		if (other != NONE)
			r = hull(r, arg_range(&w->ranges, arg_item(m, graph_results(m, other), i)));
		Dtype word =
			carried == NONE ? slot_word(r) : node_type(m, graph_get(m, g)->placeholders.at[carried])->dtype;
		give_word(w, graph_results(m, g)->list.first + i, word);
		if (other != NONE)
			give_word(w, graph_results(m, other)->list.first + i, word);
		node_set_result_type(m, call, i, retyped(w, element, word));
	}
}

static void lower_graph(Wide *w, GraphId g);

/* An operand, what is combined of it and the result have the word of what the graph takes. */
static void lower_combine(Wide *w, NodeId n) {
	Module *m = w->m;
	GraphId g = op_arg(m, n, "combine")->graph;
	const bool several = op_arg(m, n, "x")->kind == ARG_LIST;
	const uint32_t count = graph_get(m, g)->placeholders.count / 2;
	lower_placeholders(w, g);
	for (uint32_t i = 0; i < count; i++) {
		const Type *t = node_type(m, graph_get(m, g)->placeholders.at[i]);
		ArgId slot = several ? op_arg(m, n, "x")->list.first + i : node_get(m, n)->arg_first + 1;
		if (t->dtype == DTYPE_I32 || t->dtype == DTYPE_U32)
			give_word(w, slot, t->dtype);
	}
	lower_graph(w, g);
	for (uint32_t i = 0; i < count; i++) {
		Dtype word = node_type(m, graph_get(m, g)->placeholders.at[i])->dtype;
		TypeId type = several ? type_get(m, node_get(m, n)->type)->elements[i] : node_get(m, n)->type;
		if (!type_has_int64(m, type))
			continue;
		give_word(w, graph_results(m, g)->list.first + i, word);
		if (several)
			node_set_result_type(m, n, i, retyped(w, type, word));
		else
			set_word(w, n, word);
	}
}

static void lower_call(Wide *w, NodeId n) {
	Module *m = w->m;
	GraphId graphs[2] = {NONE, NONE};
	uint32_t count = call_graphs(m, n, graphs);
	bool is_if = node_get(m, n)->op == OP_IF, is_loop = node_get(m, n)->op == OP_FOR_LOOP;
	if (is_loop) {
		Operands bounds = operands_of(w, n, 1, 2, false);
		if (bounds.too_large != NONE || !holds(DTYPE_I32, bounds.all))
			refuse_range(w, n, bounds.too_large, bounds.all);
		give_words(w, node_get(m, n)->arg_first + 1, 2, DTYPE_I32);
	}
	for (uint32_t k = 0; k < count; k++) {
		lower_placeholders(w, graphs[k]);
		give_arguments(w, n, is_if && k == 1 ? "else_args" : "args", graphs[k]);
		lower_graph(w, graphs[k]);
	}
	if (is_if || is_loop)
		give_results(w, n, graphs[0], is_if ? graphs[1] : NONE);
	else if (node_type(m, n)->kind == TYPE_TUPLE)
		set_tuple(w, n, DTYPE_I32);
}

/* In the word that the tuple has by now. */
static void lower_element(Wide *w, NodeId n) {
	const Type *t = node_type(w->m, node_input(w->m, n, 0));
	set_word(w, n, type_get(w->m, t->elements[node_arg(w->m, n, 1)->integer])->dtype);
}

static bool is_sum_or_bits(uint16_t op) { return op == OP_ADD || op == OP_BITWISE_OR || op == OP_BITWISE_XOR; }

/* A tile that is one number is written as that beside another tile of its shape; 0 of a sum or of bits is left out.
 * True if n is done. */
static bool write_number(Wide *w, NodeId n) {
	Module *m = w->m;
	const Node node = *node_get(m, n);
	if (!is_sum_or_bits(node.op) && node.op != OP_MUL && node.op != OP_SUB && node.op != OP_BITWISE_AND)
		return false;
	for (uint32_t i = 0; i < 2; i++) {
		NodeId x = node_input(m, n, i), other = node_input(m, n, 1 - i);
		if (x == NONE || other == NONE || !is_tensor_of_ints(m, x) || !range_is_one(w->ranges.of[x]) ||
		    !is_tensor_of_ints(m, other) ||
		    node_get(m, other)->type != retyped(w, node.type, node_type(m, other)->dtype))
			continue;
		bool scaled = node.op == OP_ADD && i == 0 && node_arg(m, n, 2)->integer != 1;
		if (w->ranges.of[x].low == 0 && is_sum_or_bits(node.op) && !scaled && is_int64(m, n)) {
			NodeId same = node_type(m, other)->dtype == DTYPE_U32 ? other : in_word(w, other, DTYPE_I32, n);
			node_replace_uses(m, n, same, NONE);
			node_remove(m, n);
			return true;
		}
		arg_set(m, node.arg_first + i, arg_int(w->ranges.of[x].low));
		return false;
	}
	return false;
}

static void lower_node(Wide *w, NodeId n) {
	Module *m = w->m;
	GraphId graphs[2];
	uint16_t op = node_get(m, n)->op;
	if (node_combines(m, n)) {
		lower_combine(w, n);
		return;
	}
	if (call_graphs(m, n, graphs) > 0) {
		lower_call(w, n);
		return;
	}
	if (!w->known[n].touched || op == OP_PLACEHOLDER || op == OP_OUTPUT || is_number(w, n) || is_low_word(w, n) ||
	    makes_int64_of_floats(w, n) || limit_shift(w, n) || write_number(w, n))
		return;
	if (op == OP_GETITEM)
		lower_element(w, n);
	else if (op_kind(m, n) == KIND_MEMORY)
		lower_access(w, n);
	else if (is_modular(m, n))
		compute_modular(w, n);
	else
		compute_whole(w, n);
}

static void lower_graph(Wide *w, GraphId g) {
	for (NodeId n = graph_first(w->m, g), next; n != NONE; n = next) {
		next = node_get(w->m, n)->next;
		lower_node(w, n);
	}
}

bool pass_int64(PassContext *c) {
	Module *m = c->module;
	if (!int64_sums_fit(c))
		return false;
	if (!any_int64(m))
		return true;
	Wide w = {.c = c, .m = m, .ranges = int_ranges(m->arena, m), .capacity = m->nodes.count};
	w.known = arena_array(m->arena, w.capacity, sizeof *w.known);
	if (hide_by_bounds(&w))
		w.ranges = int_ranges(m->arena, m);
	for (GraphId g = 0; g < m->graphs.count; g++)
		find_needed(&w, g);
	for (GraphId g = 0; g < m->graphs.count; g++)
		if (graph_get(m, g)->kind == GRAPH_ROOT)
			lower_graph(&w, g);
	if (w.words)
		pass_remark(c, "int64",
		            "%u values of int64 are computed in 32 bits, %u of them as far as their low bits go",
		            w.words, w.low_only);
	return !w.refused;
}
