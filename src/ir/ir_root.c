/* ir_root.c - one root graph of a document that has several, as a document of its own.
 *
 * Each root becomes a kernel, and the kernels run one after the other. So what an earlier root stored is there from the
 * start for a later one: an output that this root only loads is an input of its kernel, and one that it stores to as
 * well is both. Nothing else of a root depends on the others: from here on it is planned as if it were alone. */
#include "ir.h"

GraphId module_root(const Module *m, uint32_t index) {
	for (GraphId g = 0; g < m->graphs.count; g++)
		if (graph_get(m, g)->kind == GRAPH_ROOT && index-- == 0)
			return g;
	return NONE;
}

/* What the graphs below a root do with the tensors that are no views. */
typedef struct RootUse {
	bool *reads, *writes; /* by TensorId */
} RootUse;

static RootUse root_use(const Module *m, Arena *a, GraphId root) {
	RootUse use = {.reads = arena_array(a, (size_t)m->tensors.count + 1, sizeof(bool)),
	               .writes = arena_array(a, (size_t)m->tensors.count + 1, sizeof(bool))};
	for (GraphId g = 0; g < m->graphs.count; g++) {
		uint32_t depth;
		if (graph_root(m, g, &depth) != root)
			continue;
		for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next) {
			TensorId t = access_tensor(m, n);
			bool writes = op_writes(node_get(m, n)->op);
			if (t != NONE)
				(writes ? use.writes : use.reads)[tensor_base(m, t)] = true;
		}
	}
	return use;
}

/* The role that a tensor has for this root. An output that nothing has stored to yet keeps its own. */
static TensorRole role_for(const Tensor *t, TensorId id, const RootUse *own, const bool *stored) {
	if (t->role == ROLE_VIEW || t->role == ROLE_DERIVED || (t->role == ROLE_OUTPUT && !stored[id]))
		return t->role;
	return own->writes[id] ? ROLE_INOUT : ROLE_INPUT;
}

/* A list that counts the document's inputs, of which there are now others. */
static void count_inputs_anew(const Module *m, Module *kernel, const KeyRow *row) {
	ConfigList *list = key_field(row, &kernel->config);
	uint32_t given = list->values.count, at = 0;
	const int64_t *values = list->values.at;
	if (!list->set)
		return;
	memset(&list->values, 0, sizeof list->values);
	for (TensorId t = 0; t < m->tensors.count; t++) {
		int64_t value = row->fallback;
		if (m->tensors.at[t].role == ROLE_INPUT && at < given)
			value = values[at++];
		if (kernel->tensors.at[t].role == ROLE_INPUT)
			vec_push(kernel->arena, &list->values, value);
	}
}

/* The graphs of root `index` stay, with the facts that passes found out about them. */
static void keep_root(const Module *m, Module *kernel, GraphId root) {
	bool *drop = arena_array(kernel->arena, (size_t)m->graphs.count + 1, sizeof *drop);
	LoopFact *facts = m->loop_facts ? arena_array(kernel->arena, m->graphs.count, sizeof *facts) : NULL;
	uint32_t kept = 0;
	for (GraphId g = 0; g < m->graphs.count; g++) {
		uint32_t depth;
		drop[g] = graph_root(m, g, &depth) != root;
		if (facts && !drop[g])
			facts[kept++] = m->loop_facts[g];
	}
	module_drop_graphs(kernel, drop);
	kernel->loop_facts = facts;
}

Module *module_of_root(const Module *m, Arena *a, uint32_t index) {
	Module *kernel = module_clone(m, a);
	GraphId root = module_root(m, index);
	RootUse own = root_use(m, a, root);
	bool *stored = arena_array(a, (size_t)m->tensors.count + 1, sizeof *stored);
	for (uint32_t i = 0; i < index; i++) {
		RootUse before = root_use(m, a, module_root(m, i));
		for (TensorId t = 0; t < m->tensors.count; t++)
			stored[t] = stored[t] || before.writes[t];
	}
	for (TensorId t = 0; t < m->tensors.count; t++) {
		Tensor *tensor = &kernel->tensors.at[t];
		tensor->role = role_for(&m->tensors.at[t], t, &own, stored);
		tensor->has_init = tensor->has_init && tensor->role == ROLE_OUTPUT;
	}
	for (const KeyRow *row = key_rows; row < key_rows + KEY_COUNT; row++)
		if (row->each == EACH_INPUT)
			count_inputs_anew(m, kernel, row);
	keep_root(m, kernel, root);
	kernel->is_part = true;
	kernel->name = string_intern(a, &kernel->strings, arena_printf(a, "%s_%u", m->name, index));
	return kernel;
}
