/* operations.c - what kernels do to vector registers, as JSON. */
#include "registers.h"

static void put_operations(Text *out, const Operations *x) {
	const char *before = "";
	text_put(out, "{");
	for (int i = 0; i < RO_COUNT; i++) {
		if (x->of[i] == 0)
			continue;
		text_printf(out, "%s\"%s\": %lld", before, register_op_names[i], (long long)(x->of[i] + 0.5));
		before = ", ";
	}
	text_put(out, "}");
}

static void put_statements(Text *out, const Kernel *k, const Operations *of, const StmtIds *order) {
	for (uint32_t i = 0; i < order->count; i++) {
		const KStmt *x = kernel_stmt(k, order->at[i]);
		const char *name = x->result == NONE ? NULL : k->values.at[x->result].var;
		text_printf(out, "%s\n      {\"op\": \"%s\", \"value\": ", i ? "," : "",
		            kernel_op_name(out->arena, x->op));
		text_put_json(out, name ? name : "");
		text_put(out, ", \"operations\": ");
		put_operations(out, &of[order->at[i]]);
		text_put(out, "}");
	}
}

void operations_emit(const KProgram *p, const Target *t, Text *out) {
	text_put(out, "{\n  \"kernels\": [");
	for (uint32_t i = 0; i < p->kernels.count; i++) {
		Kernel *k = p->kernels.at[i];
		StmtIds order = {0};
		Operations *of = kernel_operations(k, t, p->arena, &order), all = {0};
		for (uint32_t s = 0; s < order.count; s++)
			for (int o = 0; o < RO_COUNT; o++)
				all.of[o] += of[order.at[s]].of[o];
		text_printf(out, "%s\n    {\"name\": ", i ? "," : "");
		text_put_json(out, k->name);
		text_put(out, ", \"operations\": ");
		put_operations(out, &all);
		text_put(out, ", \"statements\": [");
		put_statements(out, k, of, &order);
		text_put(out, "]}");
	}
	text_put(out, "\n  ]\n}\n");
}
