/* ops.c - the op table of ops.def as data, the look-ups in it, and in the parameters of a row. */
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

bool op_has_effect(uint16_t op) {
	return op_writes(op) || op == OP_REMOTE_BARRIER || op == OP_PLACEHOLDER || op == OP_OUTPUT;
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
	ShapeRule rule = op_row(op)->shape;
	bool add = rule == SHAPE_ADDMM || rule == SHAPE_BADDBMM;
	if (which == 2)
		return add ? 0 : rule == SHAPE_DOT ? 2 : NONE;
	return which + add;
}
