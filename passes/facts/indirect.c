/* indirect.c - fact: which loads at the positions of an int tensor are a matmul by a one-hot matrix. */
#include "facts.h"

/* Bytes of an element that the matmul takes, each exact in bfloat16. Of floats in float32, whose last bytes are 0 where
 * they were narrower. */
static uint32_t planes_of(Dtype t, uint32_t *first) {
	bool is_float = dtype_is_float(t);
	uint32_t bytes = (uint32_t)int_cdiv(dtype_bits(t), 8);
	uint32_t count = t == DTYPE_F16 ? 3 : is_float && bytes == 1 ? 2 : bytes;
	*first = is_float ? 4 - count : 0;
	return count;
}

/* Sizes of a value are known. */
static bool has_sizes(const Module *m, const Type *t) {
	int64_t size;
	for (uint32_t i = 0; i < t->count; i++)
		if (!expr_value(m, t->dims[i], &size))
			return false;
	return true;
}

const char *one_hot_of(const Module *m, NodeId load, OneHot *o) {
	const Arg *index = node_arg(m, load, 1);
	TensorId tensor = access_tensor(m, load);
	const Type *t = node_type(m, load);
	uint32_t kept = 0, gathers = 0, before = 0;
	*o = (OneHot){.load = load, .entry = NONE};
	if (node_get(m, load)->op != OP_LOAD)
		return "it is no load";
	if (m->tensors.at[tensor_base(m, tensor)].role != ROLE_INPUT)
		return "the kernel writes it";
	for (uint32_t i = 0; i < index->list.count; i++) {
		const Arg *e = arg_item(m, index, i);
		if (entry_gathers(m, e)) {
			gathers++;
			before = kept;
			o->entry = i;
			o->index = e->node;
		}
		kept += entry_is_dim(m, e) && !entry_gathers(m, e);
	}
	if (gathers != 1)
		return "several int tensors say where";
	const Type *at = node_type(m, o->index);
	if (at->count != 1)
		return "its positions have several dims";
	if (kept > 1)
		return "it gathers from several matrices at once";
	if (!has_sizes(m, t) || !has_sizes(m, at) ||
	    !expr_value(m, m->tensors.at[tensor].shape[o->entry], &o->rows))
		return "its sizes are known only at run time";
	o->extent = m->tensors.at[tensor].shape[o->entry];
	o->last = kept == 0 || before == 1;
	o->positions = expr_number(m, at->dims[0]);
	o->columns = kept ? expr_number(m, t->dims[before ? 0 : 1]) : 1;
	o->planes = planes_of(t->dtype, &o->first);
	return NULL;
}

bool one_hot_pays(const Module *m, const OneHot *o) {
	(void)m;
	return o->rows <= 1024 && o->positions >= 16;
}
