/* kernel_names.c - variables: identifiers close to what things would like to be called, each used once. The kernel is
 * walked twice if it was read: first what the text calls things is taken, then all others get what is left. What
 * rewrites took out of the kernel keeps no name from others. */
#include "kernel.h"

enum { NAME_MAX_LENGTH = 24 };

typedef struct Namer {
	Kernel *k;
	Arena *a;
	IsReserved *reserved;
	StringTable taken;
	Map suffixes; /* of what was wished for more than once: the one to try next */
	const uint32_t *uses;
	bool given; /* the first walk */
} Namer;

static void identifier(const char *wish, char *name) {
	size_t length = 0;
	while (*wish == '_')
		wish++;
	for (; *wish && length < NAME_MAX_LENGTH; wish++) {
		bool good = is_letter(*wish) || is_digit(*wish);
		if (length == 0 && is_digit(*wish))
			name[length++] = 'v';
		if (good)
			name[length++] = *wish;
		else if (length > 0 && name[length - 1] != '_')
			name[length++] = '_';
	}
	while (length > 0 && name[length - 1] == '_')
		length--;
	name[length] = 0;
	if (length == 0)
		memcpy(name, "value", sizeof "value");
}

/* A copy of the name; NULL: somebody has it. */
static const char *take(Namer *n, const char *name) {
	uint32_t before = n->taken.count;
	if (n->reserved(name))
		return NULL;
	const char *taken = string_intern(n->a, &n->taken, name);
	return n->taken.count > before ? taken : NULL;
}

/* An unused identifier close to `wish`, which may be any text. */
static const char *new_name(Namer *n, const char *wish) {
	char base[NAME_MAX_LENGTH + 2];
	identifier(wish, base);
	const char *name = take(n, base);
	if (name)
		return name;
	/* The suffix to try next is kept per base, so that a thousand equal names cost a thousand steps. */
	uint64_t key = map_key(string_intern(n->a, &n->taken, base));
	uint32_t suffix = map_get(&n->suffixes, key);
	suffix = suffix == NONE ? 1 : suffix;
	do
		name = take(n, arena_printf(n->a, "%s_%u", base, suffix++));
	while (!name);
	map_put(n->a, &n->suffixes, key, suffix);
	return name;
}

/* A thing that has its variable, or gets one. */
static void name(Namer *n, const char **var, const char *wish) {
	if (n->given && *var)
		take(n, *var);
	else if (!n->given && !*var && wish)
		*var = new_name(n, wish);
}

static const char *value_var(Namer *n, ValueId v);

/* As `after` is called, with the suffix behind; NULL: that has no variable. */
static const char *name_after(Namer *n, const KValue *x) {
	const char *after = x->after == NONE ? NULL : value_var(n, x->after);
	if (!after)
		return NULL;
	if (!*x->suffix)
		return after;
	return x->cut ? arena_printf(n->a, "%.16s_%s", after, x->suffix)
	              : arena_printf(n->a, "%s_%s", after, x->suffix);
}

static const char *value_var(Namer *n, ValueId v) {
	KValue *x = &n->k->values.at[v];
	if (n->given && x->as != NONE)
		value_var(n, x->as);
	if (n->given)
		name(n, &x->var, x->name);
	if (n->given || x->var || !x->name)
		return x->var;
	const char *after = name_after(n, x);
	if (x->as != NONE)
		return n->k->values.at[v].var = value_var(n, x->as);
	if (x->exact)
		return x->var = after ? after : x->name;
	return x->var = new_name(n, after ? after : x->name);
}

static void name_buffer(Namer *n, BufferId b) {
	KBuffer *buffer = &n->k->buffers.at[b];
	name(n, &buffer->var, buffer->name);
}

static void name_function(Namer *n, FunctionId f) {
	KFunction *function = &n->k->functions.at[f];
	name(n, &function->var, function->name);
	for (uint32_t i = 0; i < function->parameters.count; i++) {
		const KParameter *p = &function->parameters.at[i];
		if (p->kind == PARAMETER_BUFFER)
			name_buffer(n, p->id);
		else
			value_var(n, p->id);
	}
}

static void name_loop(Namer *n, const KLoop *loop) {
	for (uint32_t i = 0; i < loop->rank; i++)
		value_var(n, loop->dim[i].step);
	for (uint32_t w = 0; w < loop->windows.count; w++) {
		name_buffer(n, loop->windows.at[w].buffer);
		if (loop->windows.at[w].piece != NONE)
			value_var(n, loop->windows.at[w].piece);
	}
	for (uint32_t i = 0; i < loop->carried.count; i++)
		value_var(n, loop->carried.at[i]);
	if (loop->ragged != NONE)
		value_var(n, loop->ragged);
}

static void name_results(Namer *n, StmtId s) {
	KStmt *stmt = kernel_stmt(n->k, s);
	if (stmt->op == K_LAUNCH && stmt->result_count > UNPACK_MAX) {
		name(n, &stmt->var, "outputs");
		return;
	}
	for (uint32_t i = 0; i < stmt->result_count; i++) {
		KValue *x = &n->k->values.at[stmt->result + i];
		if ((stmt->op == K_FORI || stmt->op == K_WHILE) && n->uses[stmt->result + i] == 0)
			x->var = "_";
		value_var(n, stmt->result + i);
	}
}

static void name_region(Namer *n, RegionId r) {
	RegionId regions[STMT_REGIONS_MAX];
	for (StmtId s = region_first(n->k, r); s != NONE; s = kernel_stmt(n->k, s)->next) {
		KStmt *stmt = kernel_stmt(n->k, s);
		if (stmt->op == K_DEF)
			name_function(n, stmt->function);
		if (stmt->op == K_LOOP)
			name_loop(n, stmt->loop);
		if (stmt->op == K_FOR && !stmt->each->unread)
			value_var(n, stmt->each->step);
		for (uint32_t i = 0; stmt->op == K_FOR && i < stmt->each->carried.count; i++)
			value_var(n, stmt->each->carried.at[i]);
		for (uint32_t i = 0; stmt->op == K_PIPELINE && i < stmt->pipeline->rank; i++)
			value_var(n, stmt->pipeline->at[i]);
		name(n, &stmt->var, stmt->name);
		uint32_t count = kernel_regions(n->k, s, regions);
		for (uint32_t i = 0; i < count; i++)
			name_region(n, regions[i]);
		name_results(n, s);
	}
}

static void name_all(Namer *n, const char *own) {
	Kernel *k = n->k;
	if (!n->given)
		new_name(n, own);
	for (BufferId b = 0; b < k->buffers.count; b++)
		if (k->buffers.at[b].role != BUFFER_PARAMETER)
			name_buffer(n, b);
	for (uint32_t d = 0; d < k->grid.count; d++)
		value_var(n, k->grid.at[d].at);
	for (ValueId v = 0; v < k->values.count && k->values.at[v].def == NONE && k->buffers.count == 0; v++)
		value_var(n, v); /* the wrapper's parameters */
	name_region(n, k->body);
}

void kernel_name_values(Kernel *k, IsReserved *reserved, const char *own) {
	enum { FEW = 64 };
	Namer n = {.k = k, .a = k->arena, .reserved = reserved, .uses = kernel_uses(k), .given = k->line_of.count > 0};
	n.taken = (StringTable){.slot = arena_array(k->arena, FEW, sizeof *n.taken.slot), .room = FEW};
	if (n.given)
		name_all(&n, own);
	n.given = false;
	name_all(&n, own);
}
