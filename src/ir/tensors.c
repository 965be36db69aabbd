/* tensors.c - host tensors, as far as their sizes are known: at load where they are constant, and again when the
 * configuration is. */
#include "ir.h"

/* Bytes of the tensor, with each dim's size in `dims`; false where a size is unknown or an error was reported. */
static bool tensor_sizes(Module *m, Diag *d, TensorId id, int64_t dims[RANK_MAX], int64_t *elements) {
	const Tensor *t = &m->tensors.at[id];
	int64_t count = 1, bits;
	for (uint32_t i = 0; i < t->rank; i++) {
		if (!expr_value(m, t->shape[i], &dims[i]))
			return false;
		if (dims[i] >= 0 && checked_mul(count, dims[i], &count))
			continue;
		Place at = diag_place(d, m->source, "/tensors/%u/shape/%u", id, i);
		if (dims[i] < 0)
			diag_error(d, at, "negative-size", NULL, "dim %u of '%s' has the size %lld", i, t->name,
			           (long long)dims[i]);
		else
			diag_error(d, at, "size-overflow", NULL, "'%s' has more than 2^63 elements", t->name);
		return false;
	}
	if (!checked_mul(count, dtype_bits(t->dtype), &bits)) {
		diag_error(d, diag_place(d, m->source, "/tensors/%u/shape", id), "size-overflow", NULL,
		           "'%s' is larger than 2^60 bytes", t->name);
		return false;
	}
	*elements = count;
	return true;
}

static bool view_fails(Module *m, Diag *d, TensorId id, const char *why) {
	const Tensor *t = &m->tensors.at[id];
	diag_error(d, diag_place(d, m->source, "/tensors/%u/shape", id), "view-shape", NULL,
	           "'%s' cannot be a view of '%s': %s", t->name, m->tensors.at[t->of].name, why);
	tensor_relate(m, d, t->of);
	return false;
}

static bool size_is(Module *m, Diag *d, TensorId id, uint32_t dim, int64_t is, int64_t must) {
	return is == must || view_fails(m, d, id,
	                                arena_printf(m->arena, "dim %u has the size %lld, not %lld", dim,
	                                             (long long)must, (long long)is));
}

static bool check_permute(Module *m, Diag *d, TensorId id, const int64_t *dims, const int64_t *of) {
	const Tensor *t = &m->tensors.at[id];
	for (uint32_t i = 0; i < t->rank; i++)
		if (!size_is(m, d, id, i, dims[i], of[t->view_arg[i][0]]))
			return false;
	return true;
}

static bool check_slice(Module *m, Diag *d, TensorId id, const int64_t *dims, const int64_t *of) {
	const Tensor *t = &m->tensors.at[id];
	for (uint32_t i = 0; i < t->rank; i++) {
		const int64_t *s = t->view_arg[i];
		if (s[1] > of[i])
			return view_fails(m, d, id,
			                  arena_printf(m->arena, "dim %u is sliced to %lld of %lld", i, (long long)s[1],
			                               (long long)of[i]));
		if (!size_is(m, d, id, i, dims[i], (s[1] - s[0]) / s[2] + ((s[1] - s[0]) % s[2] != 0)))
			return false;
	}
	return true;
}

/* As numpy.broadcast_to: dims align at the right, a size of 1 stretches. */
static bool check_expand(Module *m, Diag *d, TensorId id, const int64_t *dims, const int64_t *of) {
	const Tensor *t = &m->tensors.at[id];
	uint32_t rank = m->tensors.at[t->of].rank;
	if (t->rank < rank)
		return view_fails(m, d, id, "expand drops no dims");
	for (uint32_t i = 0; i < rank; i++) {
		int64_t must = of[i], is = dims[t->rank - rank + i];
		if (must != 1 && !size_is(m, d, id, t->rank - rank + i, is, must))
			return false;
	}
	return true;
}

static bool check_view(Module *m, Diag *d, TensorId id, const int64_t *dims, int64_t elements) {
	const Tensor *t = &m->tensors.at[id];
	int64_t of[RANK_MAX] = {0}, of_elements;
	uint32_t rank = m->tensors.at[t->of].rank;
	if (!tensor_sizes(m, d, t->of, of, &of_elements))
		return true; /* unknown, or reported where it stands */
	bool same_rank = t->view == VIEW_PERMUTE || t->view == VIEW_SLICE;
	if (same_rank && t->rank != rank)
		return view_fails(m, d, id, arena_printf(m->arena, "it has %u dims, not %u", t->rank, rank));
	switch (t->view) {
	case VIEW_PERMUTE: return check_permute(m, d, id, dims, of);
	case VIEW_SLICE: return check_slice(m, d, id, dims, of);
	case VIEW_EXPAND: return check_expand(m, d, id, dims, of);
	case VIEW_RESHAPE: break;
	}
	return elements == of_elements || view_fails(m, d, id,
	                                             arena_printf(m->arena, "%lld elements are not %lld",
	                                                          (long long)elements, (long long)of_elements));
}

/* A returned shape holds as many elements as its tensor, unless steps come between. */
static void check_return(Module *m, Diag *d, uint32_t i) {
	const Return *r = &m->returns.at[i];
	int64_t dims[RANK_MAX] = {0}, has = 0, elements = 1;
	if (!r->has_shape || r->step_count > 0 || !tensor_sizes(m, d, r->tensor, dims, &has))
		return;
	for (uint32_t k = 0; k < r->rank; k++) {
		int64_t size = 0;
		if (!expr_value(m, r->shape[k], &size) || size < 0 || !checked_mul(elements, size, &elements))
			return;
	}
	if (elements != has)
		diag_error(d, diag_place(d, m->source, "/returns/%u/shape", i), "shape-mismatch", NULL,
		           "the shape has %lld elements, tensor %s %lld", (long long)elements,
		           m->tensors.at[r->tensor].name, (long long)has);
}

bool tensors_check(Module *m, Diag *d) {
	uint32_t errors = d->errors;
	for (TensorId t = 0; t < m->tensors.count; t++) {
		int64_t dims[RANK_MAX], elements;
		if (tensor_sizes(m, d, t, dims, &elements) && m->tensors.at[t].role == ROLE_VIEW)
			check_view(m, d, t, dims, elements);
	}
	for (uint32_t i = 0; i < m->returns.count; i++)
		check_return(m, d, i);
	return d->errors == errors;
}
