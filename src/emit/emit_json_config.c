/* emit_json_config.c - the configuration and the annotations of a written document. */
#include "writer.h"

void emit_config(Writer *w) {
	const Config *c = &w->m->config;
	put(w, " \"config\": {");
	w->first = true;
	for (uint32_t k = 0; k < KEY_COUNT; k++) {
		bool fixed = k == KEY_OF_block_sizes && w->m->settled; /* the graph has the sizes */
		if (fixed || !key_is_set(&key_rows[k], c))
			continue;
		emit_key(w, key_rows[k].name);
		key_put(&key_rows[k], c, true, w->out);
	}
	for (uint32_t i = 0; i < c->tunables.count; i++)
		if (c->tunables.at[i] != w->m->tunables.at[i].default_value)
			emit_int(w, w->m->tunables.at[i].name, c->tunables.at[i]);
	put(w, "}");
}

static void put_alignments(Writer *w) {
	put(w, "\n  \"block_constraints\": {");
	for (uint32_t t = 0; t < w->m->tensors.count; t++) {
		put(w, t ? ", " : "");
		text_put_json(w->out, w->m->tensors.at[t].name);
		put(w, ": [");
		for (uint32_t i = 0; i < w->m->tensors.at[t].rank; i++)
			text_printf(w->out, "%s%lld", i ? ", " : "", (long long)w->m->alignments[t].dim[i]);
		put(w, "]");
	}
	put(w, "}");
}

/* Only for a target that caps tiles: a TPU's document has no such member. */
static void put_element_limits(Writer *w) {
	put(w, ",\n  \"element_limits\": [");
	for (uint32_t i = 0; i < w->m->element_limits.count; i++) {
		const ElementLimit *limit = &w->m->element_limits.at[i];
		put(w, i ? ", {\"elements\": " : "{\"elements\": ");
		Text elements;
		text_init(&elements, w->out->arena);
		expr_print(w->m, limit->elements, &elements);
		text_put_json(w->out, elements.at);
		text_printf(w->out, ", \"most\": %lld}", (long long)limit->most);
	}
	put(w, "]");
}

static void put_loop_fact(Writer *w, const LoopFact *fact) {
	bool any = false;
	put(w, "{\"legal\": [");
	for (LoopType i = LOOP_UNROLL; i <= LOOP_EMIT_PIPELINE; i++) {
		if (!(fact->legal & 1u << i))
			continue;
		text_printf(w->out, "%s\"%s\"", any ? ", " : "", loop_type_name(i));
		any = true;
	}
	put(w, "], \"why_not\": {");
	w->first = true;
	for (LoopType i = LOOP_UNROLL; i <= LOOP_EMIT_PIPELINE; i++)
		if (fact->why_not[i])
			emit_string(w, loop_type_name(i), fact->why_not[i]);
	put(w, "}}");
}

static void put_loop_facts(Writer *w) {
	bool any = false;
	put(w, "\n  \"loop_types\": {");
	for (GraphId g = 0; g < w->m->graphs.count; g++) {
		GraphKind kind = graph_get(w->m, g)->kind;
		if (kind != GRAPH_FOR_LOOP && kind != GRAPH_REDUCTION_LOOP)
			continue;
		text_printf(w->out, "%s\n   \"%lld\": ", any ? "," : "", (long long)graph_get(w->m, g)->id);
		put_loop_fact(w, &w->m->loop_facts[g]);
		any = true;
	}
	put(w, "}");
}

void emit_annotations(Writer *w) {
	if (!w->m->alignments && !w->m->loop_facts)
		return;
	put(w, ",\n \"annotations\": {");
	if (w->m->alignments)
		put_alignments(w);
	if (w->m->alignments && w->m->element_limits.count)
		put_element_limits(w);
	if (w->m->loop_facts) {
		put(w, w->m->alignments ? "," : "");
		put_loop_facts(w);
	}
	put(w, "}");
}
