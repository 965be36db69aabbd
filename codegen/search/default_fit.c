/* default_fit.c - default block sizes that the chip takes.
 *
 * src/config/default_blocks.c chooses sizes before anything is planned, from what each block does. What the plan then
 * refuses, for its VMEM or for the chip's rules, is nobody's request: it is planned again with smaller defaults, down
 * to tiles of 128. Only what no size can serve is refused, with the diagnostic of the first attempt. */
#include "search.h"
#include "src/config/config.h"
#include "src/verify/verify.h"

/* Halvings of the defaults: 1024 to 128 is three; one more for outer rows and lanes. */
enum { LEVELS = 5 };

static bool has_defaults(const Module *m) {
	for (BlockId b = 0; b < m->blocks.count && !m->config.block_sizes.set; b++)
		if (block_is_chosen(&m->blocks.at[b]))
			return true;
	return false;
}

static void remark_defaults(Program *g, uint32_t level) {
	const Module *m = g->module;
	Text t;
	text_init(&t, g->arena);
	for (BlockId b = 0; b < m->blocks.count; b++)
		if (block_is_chosen(&m->blocks.at[b]))
			text_printf(&t, "%s%s %lld", t.length ? ", " : "", m->blocks.at[b].name,
			            (long long)m->block_size.at[b]);
	Remark r = {.pass = "plan",
	            .message = arena_printf(g->arena, "block_sizes by default: %s%s", t.at,
	                                    level ? ", for larger ones are refused" : "")};
	vec_push(g->arena, &g->remarks, r);
}

/* The plans with the defaults halved so often; NULL if one is refused. */
static Program *program_level(Arena *a, const Module *m, uint32_t level) {
	Module *copy = module_clone(m, a);
	Diag quiet;
	diag_init(&quiet, a);
	copy->default_level = level;
	bool ok = module_configure(copy, &quiet) && module_verify(copy, &quiet);
	return ok ? program_plan(a, copy, &quiet, true) : NULL;
}

Program *program_try(Arena *a, Module *m) {
	Diag quiet;
	diag_init(&quiet, a);
	Program *g = program_plan(a, m, &quiet, true);
	if (!has_defaults(m))
		return g;
	if (g)
		remark_defaults(g, 0);
	for (uint32_t level = 1; !g && level <= LEVELS; level++)
		if ((g = program_level(a, m, level)))
			remark_defaults(g, level);
	return g;
}

/* Nobody asked for default sizes: what they are refused for is said only where no smaller ones fit. */
Program *program_make(Arena *a, Module *m, Diag *d) {
	Program *g = has_defaults(m) ? program_try(a, m) : NULL;
	return g ? g : program_plan(a, m, d, false);
}
