/* page_vmem.c - what each buffer takes of VMEM: rows that add up to what the plan says of each owner. */
#include "page_parts.h"

typedef struct Rows {
	const Plan *plan;
	Text *out;
	bool any;
	int64_t left; /* bytes of the owner that no row has yet */
} Rows;

static void put_row(Rows *r, const char *owner, const char *ref, const char *loop, int64_t buffers, int64_t bytes) {
	text_printf(r->out, "%s{\"owner\": \"%s\", \"ref\": ", r->any ? ", " : "", owner);
	text_put_json(r->out, ref);
	text_put(r->out, ", \"loop\": ");
	if (loop)
		text_put_json(r->out, loop);
	else
		text_put(r->out, "null");
	text_printf(r->out, ", \"buffers\": %lld, \"bytes\": %lld}", (long long)buffers, (long long)bytes);
	r->any = true;
	r->left -= bytes;
}

/* Loops one after the other share space, and what is carried once never leaves registers: the total is less than the
 * rows then, and a row says so. */
static void put_rest(Rows *r, const char *owner, const char *why) {
	if (r->left != 0)
		put_row(r, owner, why, NULL, 0, r->left);
}

static void put_grid_windows(Rows *r) {
	const Plan *p = r->plan;
	r->left = p->vmem.windows;
	for (uint32_t i = 0; i < p->operands.count; i++) {
		const Operand *o = &p->operands.at[i];
		if (o->space != SPACE_WINDOW)
			continue;
		int64_t one = vmem_bytes(p->module->target, o->dtype, o->rank, o->block);
		bool whole = one > 0 && o->bytes >= one && o->bytes % one == 0;
		put_row(r, "windows", o->ref, NULL, whole ? o->bytes / one : o->buffers, o->bytes);
	}
	put_rest(r, "windows", "counted otherwise");
}

static void put_loop_windows(Rows *r) {
	const Plan *p = r->plan;
	r->left = p->vmem.inner;
	for (uint32_t l = 0; l < p->loops.count; l++)
		for (uint32_t i = 0; i < p->loops.at[l].windows.count; i++) {
			const Window *w = &p->loops.at[l].windows.at[i];
			if (w->bytes)
				put_row(r, "inner", w->ref, p->loops.at[l].name, w->buffers, w->bytes);
		}
	put_rest(r, "inner", "loops that share space, or never fill it");
}

static bool is_a_windows(const Plan *p, uint32_t scratch) {
	for (uint32_t l = 0; l < p->loops.count; l++)
		for (uint32_t i = 0; i < p->loops.at[l].windows.count; i++) {
			const Window *w = &p->loops.at[l].windows.at[i];
			if (w->dma && p->loops.at[l].type == LOOP_FORI && w->scratch == scratch)
				return true;
		}
	return false;
}

static void put_scratches(Rows *r) {
	const Plan *p = r->plan;
	r->left = p->vmem.scratch;
	for (uint32_t i = 0; i < p->scratches.count; i++)
		if (p->scratches.at[i].kind == SCRATCH_VMEM && !is_a_windows(p, i))
			put_row(r, "scratch", p->scratches.at[i].ref, NULL, 1, p->scratches.at[i].bytes);
	for (uint32_t i = 0; i < p->kept.count; i++)
		put_row(r, "scratch", p->kept.at[i].ref, NULL, 1, p->kept.at[i].bytes);
	put_rest(r, "scratch", "what never leaves registers, or is counted otherwise");
}

void page_put_vmem(const Plan *plan, Text *out) {
	Rows r = {.plan = plan, .out = out};
	text_put(out, "\"vmem\": [");
	put_grid_windows(&r);
	put_loop_windows(&r);
	put_scratches(&r);
	put_row(&r, "intermediates", "intermediates", NULL, 1, plan->vmem.intermediates);
	text_put(out, "]");
}
