/* rewrite.c - the list of rewrites, and the small ones. */
#include "rewrite.h"

const Rewrite *kernel_rewrites(void) {
	static const Rewrite all[] = {
#define REWRITE(name, about) {#name, about, rewrite_##name},
#include "rewrites.def"
#undef REWRITE
		{NULL, NULL, NULL}};
	return all;
}

static bool is_named(const char *name, const char *const *names, uint32_t count) {
	for (uint32_t i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return names == NULL;
}

const Rewrite *rewrite_find(const char *name) {
	for (const Rewrite *r = kernel_rewrites(); r->name; r++)
		if (strcmp(r->name, name) == 0)
			return r;
	return NULL;
}

bool kernels_rewrite(KProgram *p, const char *const *names, uint32_t count, Diag *verify) {
	for (const Rewrite *r = kernel_rewrites(); r->name; r++) {
		if (!is_named(r->name, names, count))
			continue;
		for (uint32_t i = 0; i < p->kernels.count; i++)
			r->run(p->kernels.at[i]);
		if (verify && !program_verify_kernels(p, verify))
			return false;
	}
	return true;
}

static void add_loop(Kernel *k, StmtId s, void *data) {
	if (kernel_stmt(k, s)->op == K_LOOP)
		vec_push(k->arena, (StmtIds *)data, s);
}

StmtIds kernel_loops(Kernel *k) {
	StmtIds loops = {0};
	kernel_walk(k, k->body, add_loop, &loops);
	return loops;
}

bool loop_calls(const Kernel *k, StmtId loop, StmtId *ahead, StmtId *step) {
	*ahead = *step = NONE;
	for (StmtId s = region_first(k, kernel_stmt(k, loop)->body); s != NONE; s = kernel_stmt(k, s)->next) {
		uint16_t op = kernel_stmt(k, s)->op;
		if (op == K_YIELD)
			continue;
		if (op != K_CALL || *ahead != NONE)
			return false;
		*ahead = *step;
		*step = s;
	}
	return *step != NONE && (*ahead != NONE) == kernel_stmt(k, loop)->loop->skewed;
}

void rewrite_tidy(Kernel *k) { kernel_drop_unread(k); }
