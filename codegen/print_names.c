/* print_names.c - identifiers. Names in a graph are any text; here they become Python names, each used once. */
#include "printer.h"

enum { NAME_MAX_LENGTH = 24 };

/* Keywords, what the kernel text itself uses, and builtins whose shadowing would confuse a reader. */
/* clang-format off */
static const char *const reserved[] = {
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield", "match", "case", "type", "jax", "jnp",
    "pl", "pltpu", "functools", "warnings", "range", "tuple", "str", "getattr", "carry", "slot", "i", "interpret",
    "KERNEL_INFO", "abs", "all", "any", "bool", "float", "int", "len", "list", "map", "max", "min", "object", "print",
    "round", "set", "slice", "sum", "zip", "input", "id", "filter", "iter", "next", "open", "eval", "exec", "vars",
    "dict", "bytes", "hash", "dir", "pow", "sorted", "reversed", "super", "self", "cls", "compile", "getattr",
    "setattr", "delattr", "globals", "locals", "breakpoint", "exit", "quit", "memoryview", "hasattr", "type",
    "isinstance", "property", "TypeError", "AttributeError", "ImportError", NULL};
/* clang-format on */

static const char *identifier(Printer *pr, const char *wish) {
	char *name = arena_alloc(pr->a, NAME_MAX_LENGTH + 2);
	size_t n = 0;
	while (*wish == '_')
		wish++;
	for (; *wish && n < NAME_MAX_LENGTH; wish++) {
		bool good = is_letter(*wish) || is_digit(*wish);
		if (n == 0 && is_digit(*wish))
			name[n++] = 'v';
		if (good)
			name[n++] = *wish;
		else if (n > 0 && name[n - 1] != '_')
			name[n++] = '_';
	}
	while (n > 0 && name[n - 1] == '_')
		n--;
	name[n] = 0;
	return n ? name : "value";
}

void printer_reserve(Printer *pr, const char *name) {
	map_put(pr->a, &pr->taken, map_key(string_intern(pr->a, &pr->strings, name)), 1);
}

static bool is_taken(Printer *pr, const char *name) {
	const char *interned = string_find(&pr->strings, name);
	return interned && map_get(&pr->taken, map_key(interned)) != NONE;
}

const char *printer_name(Printer *pr, const char *wish) {
	if (pr->taken.count == 0)
		for (const char *const *r = reserved; *r; r++)
			printer_reserve(pr, *r);
	const char *base = identifier(pr, wish), *name = base;
	/* The suffix to try next is kept per base, so that a thousand equal names cost a thousand steps. */
	const char *key = string_intern(pr->a, &pr->strings, arena_printf(pr->a, "%s#", base));
	uint32_t suffix = map_get(&pr->taken, map_key(key));
	suffix = suffix == NONE ? 1 : suffix;
	for (; is_taken(pr, name); suffix++)
		name = arena_printf(pr->a, "%s_%u", base, suffix);
	map_put(pr->a, &pr->taken, map_key(key), suffix);
	printer_reserve(pr, name);
	return name;
}

static const char *dtype_suffix(Dtype t) {
	static const char *const names[] = {"f32", "bf16", "f16", "e4m3", "e5m2", "i32",  "i16",
	                                    "i8",  "i4",   "u32", "u16",  "u8",   "bool", "i64"};
	return t < DTYPE_COUNT ? names[t] : "value";
}

const char *value_name(Printer *pr, NodeId n) {
	const Node *node = node_get(pr->m, n);
	NodeId x = node_input(pr->m, n, 0);
	const char *operand = x == NONE ? NULL : pr->names[value_root(pr->plan, x)];
	bool convert = strncmp(node->name, "convert_element_type", 20) == 0,
	     mask = strncmp(node->name, "_mask_to", 8) == 0;
	if (operand && convert)
		return printer_name(pr,
		                    arena_printf(pr->a, "%.16s_%s", operand, dtype_suffix(node_type(pr->m, n)->dtype)));
	if (operand && mask)
		return printer_name(pr, arena_printf(pr->a, "%.16s_masked", operand));
	return printer_name(pr, node->name);
}

void printer_comment(Printer *pr, NodeId n) {
	const Location *loc = &node_get(pr->m, n)->loc;
	if (!loc->code || !loc->code[strspn(loc->code, " \t\r\n")])
		return;
	/* One comment per source line; lines that read alike are told apart by their numbers. */
	uint64_t line = map_key(loc->code) * 31 + (uint64_t)loc->line, text = map_key(loc->code);
	if (map_get(&pr->commented, line) != NONE)
		return;
	bool again = map_get(&pr->commented, text) != NONE;
	map_put(pr->a, &pr->commented, line, 1);
	map_put(pr->a, &pr->commented, text, 1);
	py_comment(&pr->w, again ? arena_printf(pr->a, "line %lld: %s", (long long)loc->line, loc->code) : loc->code);
}
