/* plan.c - what is asked of a Plan. */
#include "plan.h"
#include <stdio.h>

bool plan_refuse(Planner *p, NodeId n, const char *code, const char *hint, const char *fmt, ...) {
	va_list ap;
	va_start(ap, fmt);
	const char *message = arena_vprintf(p->a, fmt, ap);
	va_end(ap);
	diag_error(p->d, node_place(p->m, p->d, n), code, hint, "%s", message);
	if (op_accesses(node_get(p->m, n)->op))
		tensor_relate(p->m, p->d, access_tensor(p->m, n));
	return false;
}

uint32_t plan_scratch(Planner *p, Scratch s) {
	vec_push(p->a, &p->plan->scratches, s);
	return p->plan->scratches.count - 1;
}

uint32_t scratch_shape(const Scratch *s, int64_t *shape) {
	bool counts = s->slots && s->kind == SCRATCH_VMEM; /* of one semaphore there are as many */
	memcpy(shape + counts, s->shape, s->rank * sizeof *shape);
	if (s->slots)
		shape[0] = s->slots;
	return s->rank + counts;
}

bool plan_writes(const Plan *plan, TensorId tensor) {
	for (uint32_t i = 0; i < plan->operands.count; i++)
		if (plan->operands.at[i].output && plan->operands.at[i].tensor == tensor)
			return true;
	return false;
}

bool plan_has_pairs(const Plan *plan) {
	for (uint32_t l = 0; l < plan->loops.count; l++)
		if (plan->loops.at[l].paired)
			return true;
	return false;
}

bool plan_has_bodies(const Plan *plan) {
	for (uint32_t l = 0; l < plan->loops.count; l++)
		if (plan->loops.at[l].bodies)
			return true;
	return false;
}

void plan_window_buffers(Plan *plan, Window *w, int buffers) {
	w->bytes = w->bytes / w->buffers * buffers;
	w->buffers = buffers;
	if (w->scratch == NONE)
		return;
	plan->scratches.at[w->scratch].shape[0] = plan->scratches.at[w->semaphore].shape[0] = buffers;
	plan->scratches.at[w->scratch].bytes = w->bytes;
}

void plan_remark(Plan *p, const char *fmt, ...) {
	va_list ap;
	if (!p->module->explain)
		return;
	va_start(ap, fmt);
	Remark r = {.pass = "plan", .message = arena_vprintf(p->arena, fmt, ap)};
	va_end(ap);
	vec_push(p->arena, &p->remarks, r);
}

NodeId value_root(const Plan *p, NodeId n) {
	while (n != NONE && p->values[n].same_as != NONE)
		n = p->values[n].same_as;
	return n;
}

uint32_t plan_shape(const Plan *p, NodeId n, Form form, int64_t *shape) {
	const Module *m = p->module;
	const Type *t = node_type(m, n);
	uint32_t rank = 0;
	if (t->count == 1 && form == FORM_NATURAL)
		shape[rank++] = 1;
	for (uint32_t i = 0; i < t->count; i++) {
		if (form == FORM_ROW && i + 1 == t->count)
			shape[rank++] = 1;
		shape[rank++] = expr_number(m, t->dims[i]);
	}
	if (t->count > 0 && form == FORM_COLUMN)
		shape[rank++] = 1;
	return rank;
}
