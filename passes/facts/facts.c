/* facts.c - remarks, and facts found again. */
#include "facts.h"
#include "src/config/config.h"

void pass_remark(PassContext *c, const char *pass, const char *fmt, ...) {
	va_list ap;
	if (!c->explain)
		return;
	va_start(ap, fmt);
	Remark remark = {pass, arena_vprintf(c->arena, fmt, ap)};
	va_end(ap);
	vec_push(c->arena, &c->remarks, remark);
}

bool pass_facts_again(PassContext *c) {
	bool explain = c->explain;
	c->explain = false;
	bool ok = module_configure(c->module, c->diag) && (!c->module->loop_facts || pass_loop_types(c)) &&
	          (!c->module->alignments || pass_block_constraints(c));
	c->explain = explain;
	return ok;
}
