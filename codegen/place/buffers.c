/* buffers.c - how many buffers a window has: two, so that one is copied while the other is used, or what the
 * configuration asks for. fit.c gives up second ones where VMEM is short. */
#include "access.h"
#include "place.h"

int input_buffers(Planner *p, TensorId base) {
	const ConfigList *given = &p->m->config.load_buffer_count;
	uint32_t input = 0;
	for (TensorId t = 0; t < base; t++)
		input += p->m->tensors.at[t].role == ROLE_INPUT;
	bool counted = given->set && p->m->tensors.at[base].role == ROLE_INPUT && input < given->values.count;
	return counted ? (int)given->values.at[input] : 2;
}

/* jax: "Only single (1) and double (2) buffering are supported" of the grid's own pipeline. */
bool grid_buffers(Planner *p, Operand *o, bool also_copied) {
	int given = input_buffers(p, o->tensor);
	o->buffers = given < 2 ? given : 2;
	if (given <= 2 || also_copied || (given == 3 && !module_has_loops(p->m))) /* third.c */
		return true;
	diag_error(p->d, config_place(&p->m->config.load_buffer_count.origin), "unsupported-config", "give it 1 or 2",
	           "pallas_load_buffer_count: %d windows of %s, but the grid's pipeline keeps 1 or 2", given,
	           p->m->tensors.at[o->tensor].name);
	tensor_relate(p->m, p->d, o->tensor);
	return false;
}
