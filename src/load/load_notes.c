/* load_notes.c - the document's `annotations`: facts that passes computed when it was written. They are kept aside, and
 * compared when the passes have computed them again; a difference is an error, for somebody edited one of the two.
 *
 *   "annotations": {"block_constraints": {"x": [8, 128]}, "element_limits": [{"elements": "u0 * 512", "most":
 * 1048576}], "loop_types": {"0": {"legal": ["unroll"], "why_not": {"fori_loop": "..."}}}} */
#include "load.h"
#include "loader.h"

#include <errno.h>
#include <stdlib.h>

/* -1: there is none. */
static int loop_find(const char *name) {
	for (LoopType i = LOOP_UNROLL; name && i <= LOOP_EMIT_PIPELINE; i++)
		if (strcmp(name, loop_type_name(i)) == 0)
			return (int)i;
	return -1;
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static void read_alignment(Loader *l, const char *name, const json_t *v, const Path *at) {
	TensorId t = tensor_find(l->m, name);
	if (t == NONE) {
		diag_error(l->r.d, place_key(&l->r, at), "unknown-tensor", NULL, "there is no tensor '%s'", name);
		return;
	}
	const Tensor *tensor = &l->m->tensors.at[t];
	if (!read_list(&l->r, v, at, "a list of ints"))
		return;
	if (json_array_size(v) != tensor->rank) {
		diag_error(l->r.d, place_at(&l->r, at), "annotation", NULL, "%zu alignments for the %u dims of '%s'",
		           json_array_size(v), tensor->rank, name);
		return;
	}
	for (uint32_t i = 0; i < tensor->rank; i++) {
		Path item = path_index(at, i);
		int64_t value = 0;
		if (to_int(&l->r, json_array_get(v, i), &item, "an int", &value) && value < 1)
			diag_error(l->r.d, place_at(&l->r, &item), "annotation", NULL, "an alignment is 1 or more");
		l->m->given_alignments[t].dim[i] = value;
	}
}

static void read_alignments(Loader *l, json_t *object, const Path *at) {
	const char *name;
	json_t *v;
	if (!json_is_object(object)) {
		expected(&l->r, at, "an object of alignments by tensor", object);
		return;
	}
	l->m->given_alignments = arena_array(l->r.arena, (size_t)l->m->tensors.count + 1, sizeof(Alignment));
	json_object_foreach(object, name, v) {
		Path item = path_key(at, name);
		read_alignment(l, name, v, &item);
	}
}

static void read_element_limit(Loader *l, const json_t *v, const Path *at) {
	static const char *const known[] = {"elements", "most", NULL};
	Path elements_at = path_key(at, "elements");
	ElementLimit limit = {.node = NONE};
	const json_t *elements;
	if (!read_object(&l->r, v, at, "a limit", known) || !(elements = need(&l->r, v, "elements", at, "a limit")) ||
	    !get_int(&l->r, v, "most", at, true, &limit.most))
		return;
	if (load_size(l, elements, &elements_at, &limit.elements) && limit.elements != NONE)
		vec_push(l->r.arena, &l->m->given_limits, limit);
}

static void read_element_limits(Loader *l, const json_t *list, const Path *at) {
	if (!read_list(&l->r, list, at, "a list of limits"))
		return;
	l->m->has_given_limits = true;
	for (size_t i = 0; i < json_array_size(list); i++) {
		Path item = path_index(at, i);
		read_element_limit(l, json_array_get(list, i), &item);
	}
}

static void read_loop_type(Loader *l, const json_t *v, const Path *at, LoopFact *fact) {
	static const char *const known[] = {"legal", "why_not", NULL};
	const json_t *legal = json_object_get(v, "legal");
	json_t *why_not = json_object_get(v, "why_not"), *reason;
	const char *name;
	Path legal_at = path_key(at, "legal"), why_at = path_key(at, "why_not");
	if (!read_object(&l->r, v, at, "a loop's types", known) || !legal ||
	    !read_list(&l->r, legal, &legal_at, "a list of loop types"))
		return;
	fact->legal = 0;
	for (size_t i = 0; i < json_array_size(legal); i++) {
		Path item = path_index(&legal_at, i);
		int type = loop_find(json_string_value(json_array_get(legal, i)));
		if (type < 0)
			expected(&l->r, &item, "unroll, fori_loop or emit_pipeline", json_array_get(legal, i));
		else
			fact->legal = (uint8_t)(fact->legal | 1u << type);
	}
	json_object_foreach(why_not, name, reason) {
		Path item = path_key(&why_at, name);
		int type = loop_find(name);
		if (type < 0 || !json_is_string(reason))
			expected(&l->r, &item, "a reason for unroll, fori_loop or emit_pipeline", reason);
		else
			fact->why_not[type] = intern(l, json_string_value(reason));
	}
}

static GraphId loop_of(const Loader *l, const char *id) {
	char *end;
	errno = 0;
	long long value = strtoll(id, &end, 10);
	return *id == '\0' || *end != '\0' || errno ? NONE : graph_find(l->m, value);
}

static void read_loop_types(Loader *l, json_t *object, const Path *at) {
	const char *id;
	json_t *v;
	if (!json_is_object(object)) {
		expected(&l->r, at, "an object of loop types by graph", object);
		return;
	}
	l->m->given_loop_facts = arena_array(l->r.arena, (size_t)l->m->graphs.count + 1, sizeof(LoopFact));
	for (GraphId g = 0; g < l->m->graphs.count; g++)
		l->m->given_loop_facts[g].legal = LOOP_FACT_ABSENT;
	json_object_foreach(object, id, v) {
		Path item = path_key(at, id);
		GraphId g = loop_of(l, id);
		if (g == NONE)
			diag_error(l->r.d, place_key(&l->r, &item), "unknown-graph", NULL, "there is no graph %s", id);
		else
			read_loop_type(l, v, &item, &l->m->given_loop_facts[g]);
	}
}

void load_annotations(Loader *l, const json_t *root, const Path *path) {
	static const char *const known[] = {"block_constraints", "loop_types", "element_limits", NULL};
	const json_t *v = json_object_get(root, "annotations");
	Path at = path_key(path, "annotations");
	if (!v || json_is_null(v) || !read_object(&l->r, v, &at, "annotations", known))
		return;
	json_t *alignments = json_object_get(v, known[0]), *loops = json_object_get(v, known[1]);
	Path alignments_at = path_key(&at, known[0]), loops_at = path_key(&at, known[1]);
	if (alignments)
		read_alignments(l, alignments, &alignments_at);
	if (loops)
		read_loop_types(l, loops, &loops_at);
	const json_t *limits = json_object_get(v, known[2]);
	Path limits_at = path_key(&at, known[2]);
	if (limits)
		read_element_limits(l, limits, &limits_at);
}

/* ---- comparing -------------------------------------------------------------------------------------------------- */

static void compare_alignment(Module *m, Diag *d, TensorId id) {
	const Tensor *t = &m->tensors.at[id];
	const int64_t *given = m->given_alignments[id].dim, *found = m->alignments[id].dim;
	for (uint32_t i = 0; i < t->rank && given[0]; i++)
		if (given[i] != found[i])
			diag_error(d,
			           diag_place(d, m->source, "/annotations/block_constraints/%s/%u",
			                      diag_pointer_token(d, t->name), i),
			           "annotation-differs", "remove the annotations: they are computed anew",
			           "dim %u of '%s' needs blocks that are multiples of %lld, not of %lld", i, t->name,
			           (long long)found[i], (long long)given[i]);
}

static bool limit_in(const ElementLimit *list, uint32_t count, const ElementLimit *limit) {
	for (uint32_t i = 0; i < count; i++)
		if (list[i].elements == limit->elements && list[i].most == limit->most)
			return true;
	return false;
}

/* The same limits, in any order. */
static void compare_limits(Module *m, Diag *d) {
	Place at = diag_place(d, m->source, "/annotations/element_limits");
	for (uint32_t i = 0; i < m->element_limits.count; i++)
		if (!limit_in(m->given_limits.at, m->given_limits.count, &m->element_limits.at[i]))
			diag_error(d, at, "annotation-differs", "remove the annotations: they are computed anew",
			           "a limit is missing: %s <= %lld", expr_string(m, m->element_limits.at[i].elements),
			           (long long)m->element_limits.at[i].most);
	for (uint32_t i = 0; i < m->given_limits.count; i++)
		if (!limit_in(m->element_limits.at, m->element_limits.count, &m->given_limits.at[i]))
			diag_error(d, diag_place(d, m->source, "/annotations/element_limits/%u", i),
			           "annotation-differs", "remove the annotations: they are computed anew",
			           "%s limits no tile to %lld elements: %s", m->target->name,
			           (long long)m->given_limits.at[i].most,
			           expr_string(m, m->given_limits.at[i].elements));
}

static void compare_loop(Module *m, Diag *d, GraphId g) {
	const LoopFact *given = &m->given_loop_facts[g], *found = &m->loop_facts[g];
	long long id = graph_get(m, g)->id;
	if (given->legal == LOOP_FACT_ABSENT)
		return;
	Place at = diag_place(d, m->source, "/annotations/loop_types/%lld", id);
	for (LoopType i = LOOP_UNROLL; i <= LOOP_EMIT_PIPELINE; i++) {
		bool is = found->legal & 1u << i, was = given->legal & 1u << i;
		const char *why = found->why_not[i] ? found->why_not[i] : "",
			   *why_given = given->why_not[i] ? given->why_not[i] : "";
		if (is != was)
			diag_error(d, at, "annotation-differs", "remove the annotations: they are computed anew",
			           "graph %lld %s be lowered as %s", id, is ? "can" : "cannot", loop_type_name(i));
		else if (strcmp(why, why_given) != 0)
			diag_error(d, at, "annotation-differs", "remove the annotations: they are computed anew",
			           "the reason why graph %lld cannot be lowered as %s is: %s", id, loop_type_name(i),
			           why);
	}
}

bool module_check_annotations(Module *m, Diag *d) {
	uint32_t errors = d->errors;
	for (TensorId t = 0; m->alignments && m->given_alignments && t < m->tensors.count; t++)
		compare_alignment(m, d, t);
	if (m->alignments && m->has_given_limits)
		compare_limits(m, d);
	for (GraphId g = 0; m->loop_facts && m->given_loop_facts && g < m->graphs.count; g++)
		compare_loop(m, d, g);
	return d->errors == errors;
}
