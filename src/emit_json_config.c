/* emit_json_config.c - the configuration and the annotations of a written document. */
#include "emit_json.h"

/* As values of this kind print: null for 0 in reduction_loops, true and false in flatten_loops. */
static void put_config_list(Writer *w, const char *name, const ConfigList *list, const char *zero, const char *one) {
	if (!list->set)
		return;
	emit_key(w, name);
	put(w, "[");
	for (uint32_t i = 0; i < list->values.count; i++) {
		int64_t value = list->values.at[i];
		put(w, i ? ", " : "");
		if (value == 0 && zero)
			put(w, zero);
		else if (value == 1 && one)
			put(w, one);
		else
			text_printf(w->out, "%lld", (long long)value);
	}
	put(w, "]");
}

static void put_config_word(Writer *w, const char *name, const ConfigKey *k, const char *const *words) {
	if (!k->set)
		return;
	emit_key(w, name);
	put(w, words[k->value]);
}

static void put_loop_orders(Writer *w) {
	const Config *c = &w->m->config;
	if (!c->loop_orders.set)
		return;
	emit_key(w, "loop_orders");
	put(w, "[");
	for (uint32_t i = 0; i < c->loop_orders.values.count; i++) {
		const ConfigList *order = &c->loop_orders.values.at[i];
		put(w, i ? ", [" : "[");
		for (uint32_t k = 0; k < order->values.count; k++)
			text_printf(w->out, "%s%lld", k ? ", " : "", (long long)order->values.at[k]);
		put(w, "]");
	}
	put(w, "]");
}

void emit_config(Writer *w) {
	static const char *const choices[] = {"\"auto\"", "true", "false"};
	static const char *const choices_off[] = {"\"auto\"", "\"on\"", "\"off\""};
	static const char *const precisions[] = {"\"highest\"", "\"default\""};
	const Config *c = &w->m->config;
	put(w, " \"config\": {");
	w->first = true;
	if (!w->m->settled) /* else the graph fixes them */
		put_config_list(w, "block_sizes", &c->block_sizes, NULL, NULL);
	put_config_list(w, "reduction_loops", &c->reduction_loops, "null", NULL);
	put_loop_orders(w);
	put_config_list(w, "flatten_loops", &c->flatten_loops, "false", "true");
	put_config_list(w, "pallas_load_buffer_count", &c->load_buffer_count, NULL, NULL);
	if (c->loop_type.set)
		emit_string(w, "pallas_loop_type", loop_type_name((LoopType)c->loop_type.value));
	put_config_word(w, "pallas_pre_broadcast", &c->pre_broadcast, choices);
	if (c->indirect_access_mode.set)
		emit_string(w, "pallas_indirect_access_mode", c->indirect_access_mode.value);
	if (c->worklist_grouping.set)
		emit_int(w, "pallas_worklist_grouping", c->worklist_grouping.value);
	if (c->emit_pipeline_group_size.set)
		emit_int(w, "pallas_emit_pipeline_group_size", c->emit_pipeline_group_size.value);
	put_config_word(w, "dot_precision", &c->dot_precision, precisions);
	put_config_word(w, "pallas_boundary_views", &c->boundary_views, choices_off);
	put_config_word(w, "pallas_inloop_loads", &c->inloop_loads, choices);
	put_config_word(w, "pallas_scale_after_max", &c->scale_after_max, choices);
	put_config_word(w, "pallas_transposed_scores", &c->transposed_scores, choices);
	put_config_word(w, "pallas_row_split", &c->row_split, choices);
	put_config_word(w, "pallas_column_strips", &c->column_strips, choices);
	put_config_word(w, "pallas_fori_dma", &c->fori_dma, choices);
	put_config_word(w, "pallas_straight_loops", &c->straight_loops, choices);
	put_config_word(w, "pallas_wide_blocks", &c->wide_blocks, choices);
	put_config_word(w, "pallas_loop_skew", &c->loop_skew, choices);
	put_config_word(w, "pallas_step_pairs", &c->step_pairs, choices);
	put_config_word(w, "pallas_back_and_forth", &c->grid_walk, choices);
	if (c->matmul_ahead.set && c->matmul_ahead.value == AHEAD_AUTO)
		emit_string(w, "pallas_matmul_ahead", "auto");
	else if (c->matmul_ahead.set)
		emit_int(w, "pallas_matmul_ahead", c->matmul_ahead.value);
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
