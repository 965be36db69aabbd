/* ops.c - the op table of ops.def as data, the look-ups in it, and in the parameters of a row. */
#include "ops.h"

const OpRow op_rows[OP_COUNT] = {
#define OP(e, target, kind, params, shape, dtype, form, text)                                                          \
	[OP_##e] = {target, kind, params, SHAPE_##shape, RULE_##dtype, PRINT_##form, text},
#include "ops.def"
#undef OP
};

/* The targets' lengths as bytes: memchr() over them finds the few candidates of a look-up. */
static const unsigned char target_length[OP_COUNT] = {
#define OP(e, target, kind, params, shape, dtype, form, text) [OP_##e] = sizeof(target) - 1,
#include "ops.def"
#undef OP
};

static const char *const op_targets[OP_COUNT + 1] = {
#define OP(e, target, kind, params, shape, dtype, form, text) target,
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

bool op_writes(uint16_t op) { return op == OP_STORE || (op >= OP_ATOMIC_ADD && op <= OP_ATOMIC_CAS); }

bool op_has_effect(uint16_t op) { return op_writes(op) || op == OP_PLACEHOLDER || op == OP_OUTPUT; }

uint16_t op_canonical(uint16_t op) {
	/* clang-format off */
	switch ((Op)op) {
	case OP_ADD_SCALAR: case OP_SYM_ADD: case OP_ATOMIC_ADD: return OP_ADD;
	case OP_SUB_SCALAR: case OP_SYM_SUB: return OP_SUB;
	case OP_RSUB_SCALAR: return OP_RSUB;
	case OP_MUL_SCALAR: case OP_SYM_MUL: return OP_MUL;
	case OP_DIV_SCALAR: case OP_TRUE_DIVIDE: return OP_DIV;
	case OP_FLOOR_DIVIDE_SCALAR: case OP_SYM_FLOORDIV: return OP_FLOOR_DIVIDE;
	case OP_FMOD_SCALAR: return OP_FMOD;
	case OP_REMAINDER_SCALAR: return OP_REMAINDER;
	case OP_SGN: return OP_SIGN;
	case OP_MAX_OTHER: case OP_CLAMP_MIN: case OP_CLAMP_MIN_TENSOR: case OP_SYM_MAX:
	case OP_ATOMIC_MAX: return OP_MAXIMUM;
	case OP_MIN_OTHER: case OP_CLAMP_MAX: case OP_CLAMP_MAX_TENSOR: case OP_SYM_MIN:
	case OP_ATOMIC_MIN: return OP_MINIMUM;
	case OP_CLAMP_TENSOR: case OP_HARDTANH: return OP_CLAMP;
	case OP_LERP_SCALAR: return OP_LERP;
	case OP_ROUND_DECIMALS: return OP_ROUND;
	case OP_POW_SCALAR: case OP_POW_BASE: return OP_POW;
	case OP_COPYSIGN_SCALAR: return OP_COPYSIGN;
	case OP_WHERE_SCALAR_SELF: case OP_WHERE_SCALAR_OTHER: case OP_WHERE_SCALAR: return OP_WHERE;
	case OP_MASKED_FILL_TENSOR: return OP_MASKED_FILL;
	case OP_EQ_SCALAR: case OP_SYM_EQ: return OP_EQ;
	case OP_NE_SCALAR: case OP_SYM_NE: return OP_NE;
	case OP_LT_SCALAR: case OP_SYM_LT: return OP_LT;
	case OP_LE_SCALAR: case OP_SYM_LE: return OP_LE;
	case OP_GT_SCALAR: case OP_SYM_GT: return OP_GT;
	case OP_GE_SCALAR: case OP_SYM_GE: return OP_GE;
	case OP_BITWISE_AND_SCALAR: case OP_ATOMIC_AND: return OP_BITWISE_AND;
	case OP_BITWISE_OR_SCALAR: case OP_ATOMIC_OR: return OP_BITWISE_OR;
	case OP_BITWISE_XOR_SCALAR: case OP_ATOMIC_XOR: return OP_BITWISE_XOR;
	case OP_LSHIFT_TENSOR_SCALAR: case OP_LSHIFT_DUNDER: case OP_LSHIFT_SCALAR: return OP_LSHIFT;
	case OP_RSHIFT_TENSOR_SCALAR: case OP_RSHIFT_DUNDER: case OP_RSHIFT_SCALAR: return OP_RSHIFT;
	case OP_SYM_NEG: return OP_NEG;
	case OP_SYM_AND: return OP_LOGICAL_AND;
	case OP_SYM_OR: return OP_LOGICAL_OR;
	case OP_SYM_NOT: return OP_LOGICAL_NOT;
	default: return op;
	}
	/* clang-format on */
}

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

uint32_t matmul_arg(uint16_t op, uint32_t which) {
	bool add = op == OP_ADDMM || op == OP_ADDMM_DTYPE || op == OP_BADDBMM || op == OP_BADDBMM_DTYPE;
	if (which == 2)
		return add ? 0 : op == OP_DOT ? 2 : NONE;
	return which + add;
}
