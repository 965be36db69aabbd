/* program.c - the kernels of a document: one for each root graph, in document order. Each is planned as if it were
 * alone; what an earlier root stored is given to a later one (src/ir/ir_root.c). XLA runs them one after the other, so
 * the program needs the VMEM of the largest. */
#include "search.h"

/* ---- results ---------------------------------------------------------------------------------------------------- */

static bool is_written(const Module *m, TensorId base) {
	for (NodeId n = 0; n < m->nodes.count; n++) {
		bool writes = !node_get(m, n)->dead && op_writes(node_get(m, n)->op);
		TensorId t = writes ? access_tensor(m, n) : NONE;
		if (t != NONE && tensor_base(m, t) == base)
			return true;
	}
	return false;
}

static bool outputs_stored(Module *m, Diag *d) {
	bool ok = true;
	for (TensorId t = 0; t < m->tensors.count; t++) {
		TensorRole role = m->tensors.at[t].role;
		if ((role != ROLE_OUTPUT && role != ROLE_INOUT) || !m->tensors.at[t].returned || is_written(m, t))
			continue;
		diag_error(d, tensor_place(m, d, t), "output-not-stored",
		           role == ROLE_INOUT ? "make it an input, or store to it"
		                              : "store it, or drop it from returns",
		           "output tensor %s is returned but never stored", m->tensors.at[t].name);
		ok = false;
	}
	return ok;
}

/* ---- kernels ---------------------------------------------------------------------------------------------------- */

static uint32_t root_count(const Module *m) {
	uint32_t count = 0;
	while (module_root(m, count) != NONE)
		count++;
	return count;
}

static void add_up(Program *g) {
	for (uint32_t k = 0; k < g->kernels.count; k++) {
		const Plan *p = g->kernels.at[k];
		g->vmem_bytes = int_max(g->vmem_bytes, p->vmem.total);
		g->flops += p->flops;
		g->hbm_bytes += p->hbm_bytes;
	}
}

Program *program_plan(Arena *a, Module *m, Diag *d, bool trial) {
	Program *g = arena_alloc(a, sizeof *g);
	*g = (Program){.module = m, .arena = a};
	uint32_t roots = root_count(m);
	bool ok = roots > 0;
	if (!ok)
		diag_error(d, diag_place(d, m->source, "/graphs"), "unsupported", "add a graph of kind root",
		           "no root graph: there is nothing to run");
	for (uint32_t k = 0; k < roots; k++) {
		Plan *plan = plan_search(a, roots == 1 ? m : module_of_root(m, a, k), d, trial);
		vec_push(a, &g->kernels, plan);
		ok = ok && plan;
	}
	if (!ok || !outputs_stored(m, d) || !program_returns(g, m, d))
		return NULL;
	add_up(g);
	return g;
}
