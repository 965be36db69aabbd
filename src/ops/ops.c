/* ops.c - the op table of ops.def as data, the look-ups in it, and what the arguments of a reduction say. */
#include "ops.h"

#define DEFAULT_LOWER(kind, form)                                                                                      \
	((kind) == KIND_POINTWISE && (form) != PRINT_CUSTOM ? LOWER_POINTWISE                                          \
	 : (kind) == KIND_SYMBOLIC                          ? LOWER_INT                                                \
	 : (kind) == KIND_MATMUL                            ? LOWER_MATMUL                                             \
	                                                    : LOWER_NOT)

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init" /* a row's .lower stands behind the default */
const OpRow op_rows[OP_COUNT + 1] = {
#define OP(e, name, kind, params, shape, dtype, form, ...)                                                             \
	[OP_##e] = {.lower = DEFAULT_LOWER(kind, PRINT_##form),                                                        \
	            .target = name,                                                                                    \
	            kind,                                                                                              \
	            params,                                                                                            \
	            SHAPE_##shape,                                                                                     \
	            RULE_##dtype,                                                                                      \
	            PRINT_##form,                                                                                      \
	            __VA_ARGS__},
#include "ops.def"
#undef OP
};
#pragma GCC diagnostic pop

/* The targets' lengths as bytes: memchr() over them finds the few candidates of a look-up. */
static const unsigned char target_length[OP_COUNT] = {
#define OP(e, target, ...) [OP_##e] = sizeof(target) - 1,
#include "ops.def"
#undef OP
};

static const char *const op_targets[OP_COUNT + 1] = {
#define OP(e, target, ...) target,
#include "ops.def"
#undef OP
	NULL};

/* The pseudo rows come first; a document says `"op": "placeholder"` and cannot name them as targets. */
enum { FIRST_TARGET = OP_OUTPUT + 1 };
_Static_assert(OP_PLACEHOLDER == 0 && OP_OUTPUT == 1, "the pseudo rows come first in ops.def");

uint16_t op_find(const char *target) {
	size_t length = strlen(target);
	if (length > UINT8_MAX)
		return OP_UNKNOWN;
	const unsigned char *at = target_length + FIRST_TARGET, *end = target_length + OP_COUNT;
	while (at < end && (at = memchr(at, (int)length, (size_t)(end - at))) != NULL) {
		size_t op = (size_t)(at - target_length);
		if (memcmp(op_rows[op].target, target, length) == 0)
			return (uint16_t)op;
		at++;
	}
	return OP_UNKNOWN;
}

/* "aten.mul" lacks its overload: the first row that begins so. */
static const char *target_with_prefix(const char *prefix) {
	size_t length = strlen(prefix);
	for (size_t op = FIRST_TARGET; op < OP_COUNT; op++) {
		const char *target = op_rows[op].target;
		if (strncmp(target, prefix, length) == 0 && target[length] == '.')
			return target;
	}
	return NULL;
}

const char *op_nearest(const char *target) {
	static const char torch_ops[] = "torch.ops.";
	if (strncmp(target, torch_ops, sizeof torch_ops - 1) == 0) {
		target += sizeof torch_ops - 1;
		uint16_t op = op_find(target);
		if (op != OP_UNKNOWN)
			return op_rows[op].target;
	}
	const char *longer = target_with_prefix(target);
	return longer != NULL ? longer : name_nearest(target, op_targets + FIRST_TARGET);
}

bool op_has_effect(uint16_t op) { return op_writes(op) || op == OP_PLACEHOLDER || op == OP_OUTPUT; }

/* ---- parameters -------------------------------------------------------------------------------------------------- */

const char *op_param_next(const char *at, OpParam *param) {
	bool by_name = false;
	for (; *at == ' ' || *at == '*'; at++)
		by_name = by_name || *at == '*';
	if (*at == '\0')
		return NULL;
	*param = (OpParam){.name = at, .by_name = by_name};
	while (*at != ':')
		at++;
	param->name_length = (size_t)(at - param->name);
	param->letter = *++at;
	at++;
	if (*at == '?') {
		param->nullable = true;
		at++;
	}
	if (*at == '=') {
		param->fallback = at + 1;
		for (at++; *at != '\0' && *at != ' ';)
			at++;
		param->fallback_length = (size_t)(at - param->fallback);
	}
	return at;
}

/* Compares the names alone: nothing else of a parameter is looked at, and this is asked at every turn. */
static uint32_t param_index(const char *params, const char *name) {
	uint32_t index = 0;
	for (const char *at = params; *at != '\0'; index++) {
		while (*at == ' ' || *at == '*')
			at++;
		const char *letter = name;
		while (*letter != '\0' && *at == *letter)
			at++, letter++;
		if (*letter == '\0' && *at == ':')
			return index;
		while (*at != '\0' && *at != ' ')
			at++;
	}
	return NONE;
}

uint32_t op_param_index(uint16_t op, const char *name) {
	const char *params = op_rows[op].params;
	uint32_t index = param_index(params, name);
	if (index != NONE)
		return index;
	if (strcmp(name, "x") == 0 && *params != '\0')
		return 0;
	if (strcmp(name, "dims") == 0)
		return param_index(params, "dim");
	return NONE;
}

const Arg *op_arg(const Module *m, NodeId n, const char *name) {
	uint32_t index = param_index(op_rows[node_get(m, n)->op].params, name);
	return node_arg(m, n, index == NONE ? node_get(m, n)->arg_count : index);
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */

uint32_t reduction_dims(const Module *m, NodeId n) {
	const Arg *a = op_arg(m, n, "dim");
	uint32_t rank = node_type(m, node_input(m, n, 0))->count, dims = 0;
	uint32_t count = a->kind == ARG_LIST ? a->list.count : a->kind == ARG_INT;
	for (uint32_t i = 0; i < count; i++) {
		int64_t d = (a->kind == ARG_LIST ? arg_item(m, a, i) : a)->integer;
		dims |= 1u << (d < 0 ? d + int_max(rank, 1) : d); /* a rank of 0 counts as 1, as in torch */
	}
	return count ? dims : (1u << rank) - 1;
}

bool reduction_keeps_dims(const Module *m, NodeId n) {
	const Arg *keep = op_arg(m, n, "keepdim");
	return keep->kind == ARG_BOOL && keep->boolean;
}

/* ---- matmuls ----------------------------------------------------------------------------------------------------- */

uint32_t matmul_arg(uint16_t op, uint32_t which) {
	ShapeRule rule = op_row(op)->shape;
	bool add = rule == SHAPE_ADDMM || rule == SHAPE_BADDBMM;
	if (which == 2)
		return add ? 0 : rule == SHAPE_DOT ? 2 : NONE;
	return which + add;
}

bool matmul_is_plain(const Module *m, NodeId n) {
	uint16_t op = node_get(m, n)->op;
	NodeId a = node_input(m, n, matmul_arg(op, 0)), b = node_input(m, n, matmul_arg(op, 1));
	if (op_kind(m, n) != KIND_MATMUL || a == NONE || b == NONE)
		return false;
	uint32_t rank = node_type(m, a)->count;
	return rank >= 2 && node_type(m, b)->count == rank && node_type(m, n)->count == rank;
}

/* A dim given as a plain int, counted from the end if negative. */
static bool read_dim(const Arg *a, uint32_t rank, uint32_t *dim) {
	if (a->kind != ARG_INT || a->integer >= rank || a->integer + rank < 0)
		return false;
	*dim = (uint32_t)(a->integer < 0 ? a->integer + rank : a->integer);
	return true;
}

static void swap_dims(uint32_t *order, uint32_t a, uint32_t b) {
	uint32_t t = order[a];
	order[a] = order[b];
	order[b] = t;
}

bool permutation_order(const Module *m, NodeId n, uint32_t order[RANK_MAX]) {
	uint16_t op = node_get(m, n)->op;
	if (op_lanes(op) != LANES_PERMUTE || node_input(m, n, 0) == NONE)
		return false;
	ShapeRule rule = op_row(op)->shape;
	uint32_t rank = node_type(m, n)->count, a = rank - 2, b = rank - 1; /* t and mT swap the last two */
	bool known = true;
	for (uint32_t i = 0; i < rank; i++) {
		order[i] = i;
		known &= rule != SHAPE_PERMUTE || read_dim(arg_item(m, node_arg(m, n, 1), i), rank, &order[i]);
	}
	if (rule == SHAPE_TRANSPOSE)
		known &= read_dim(node_arg(m, n, 1), rank, &a) && read_dim(node_arg(m, n, 2), rank, &b);
	if (rule != SHAPE_PERMUTE && known && rank > 1)
		swap_dims(order, a, b);
	return known;
}

bool permutation_swaps_rows(const Module *m, NodeId n) {
	uint32_t order[RANK_MAX] = {0}, rank = node_type(m, n)->count;
	if (rank < 2 || !permutation_order(m, n, order) || order[rank - 2] != rank - 1)
		return false;
	for (uint32_t i = 0; i + 2 < rank; i++)
		if (order[i] != i)
			return false;
	return true;
}

const Arg *alias_arg(const Module *m, NodeId n) { return node_arg(m, n, node_get(m, n)->op == OP_PHI); }

Arg fill_arg(const Module *m, NodeId n) {
	uint16_t op = node_get(m, n)->op;
	OpParam param;
	uint32_t i = 0;
	if (op_fill(op) == FILL_NONE)
		return arg_null();
	if (op_fill(op) != FILL_GIVEN)
		return arg_int(op_fill(op) == FILL_ONES);
	for (const char *at = op_row(op)->params; (at = op_param_next(at, &param)) != NULL && param.letter != 'x';)
		i++;
	return *node_arg(m, n, i);
}

const Arg *constant_argument(const Module *m, NodeId n) {
	const Graph *g = graph_get(m, node_get(m, n)->graph);
	uint32_t i = 0;
	if (node_get(m, n)->op != OP_PLACEHOLDER || g->caller == NONE || node_get(m, g->caller)->op != OP_FOR_LOOP)
		return NULL;
	while (g->placeholders.at[i] != n)
		i++;
	for (uint32_t c = 0; c < g->carried.count; c++)
		if (g->carried.at[c].arg == i)
			return NULL;
	return arg_item(m, op_arg(m, g->caller, "args"), i);
}
