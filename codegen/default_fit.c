/* default_fit.c - default block sizes that the chip takes.
 *
 * src/default_blocks.c chooses sizes before anything is planned, from what each block does. What the plan then refuses,
 * for its VMEM or for the chip's rules, is nobody's request: it is planned again with smaller defaults, down to tiles
 * of 128. Only what no size can serve is refused, with the diagnostic of the first attempt. */
#include "planner.h"

/* Halvings of the defaults: 1024 to 128 is three; one more for outer rows and lanes. */
enum { LEVELS = 5 };

static bool has_defaults(const Module *m) {
	for (BlockId b = 0; b < m->blocks.count && !m->config.block_sizes.set; b++)
		if (block_is_chosen(&m->blocks.at[b]))
			return true;
	return false;
}

static void remark_defaults(Plan *plan, uint32_t level) {
	const Module *m = plan->module;
	Text t;
	text_init(&t, plan->arena);
	for (BlockId b = 0; b < m->blocks.count; b++)
		if (block_is_chosen(&m->blocks.at[b]))
			text_printf(&t, "%s%s %lld", t.length ? ", " : "", m->blocks.at[b].name,
			            (long long)m->block_size.at[b]);
	plan_remark(plan, "block_sizes by default: %s%s", t.at, level ? ", for larger ones are refused" : "");
}

/* The plan with the defaults halved so often; NULL if it is refused. */
static Plan *plan_level(Arena *a, const Module *m, uint32_t level) {
	Module *copy = module_clone(m, a);
	Diag quiet;
	diag_init(&quiet, a);
	copy->default_level = level;
	return module_configure(copy, &quiet) && module_verify(copy, &quiet) ? plan_try(a, copy, &quiet) : NULL;
}

Plan *plan_make(Arena *a, Module *m, Diag *d) {
	if (!has_defaults(m))
		return plan_tiles(a, m, d, false);
	Diag before = *d;
	Plan *plan = plan_tiles(a, m, d, true);
	if (plan)
		remark_defaults(plan, 0);
	else
		*d = before; /* nobody asked for those sizes */
	for (uint32_t level = 1; !plan && level <= LEVELS; level++)
		if ((plan = plan_level(a, m, level)))
			remark_defaults(plan, level);
	return plan ? plan : plan_tiles(a, m, d, false);
}

Plan *plan_try(Arena *a, Module *m, Diag *d) { return plan_tiles(a, m, d, true); }
