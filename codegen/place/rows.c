/* rows.c - gathers that copy rows from HBM: the tensor stays there, and may be of any size.
 *
 *     v = load x[idx, :]   =>   for i in 64 { start copy x_hbm[clamp(idx_smem[i]) +: 1, :], rows[i +: 1, :] }
 *                               wait for all;  v = rows
 *
 * A copy takes whole tiles of 32 bits: of narrower elements the *group* of rows that lie in one, of which the kernel
 * then picks the row; the last rows, where they fill no group, are copied before. What search.c compares it with is a
 * slice of a block in VMEM (places.c). */
#include "access.h"
#include "codegen/lower/lower.h"

/* All of the dim, or tiles that fill it: a copy touches nothing past its end. */
static bool stays_inside(const Want *want) {
	if (want->kind == WANT_WHOLE)
		return want->size == want->extent;
	return want->kind == WANT_RANGE || (affine_multiple(&want->at, want->size) && want->extent % want->size == 0);
}

static const char *cut(Planner *p, const Want *want, int64_t multiple, SliceDim *s) {
	if (!stays_inside(want))
		return "its last tile reaches past the tensor";
	if (want->size == want->extent)
		return NULL;
	if (want->size % multiple || !affine_divisible(p, &want->at, multiple))
		return "its tiles are no whole tiles of HBM";
	*s = (SliceDim){.kind = SLICE_RANGE, .start = want->at, .size = want->size};
	s->multiple = affine_multiple(&want->at, multiple) ? 0 : multiple;
	return NULL;
}

/* Single rows, of tiles that hold several: the group of them in which it lies. */
static const char *cut_rows(Planner *p, const Operand *o, const Want *want, Places *places, SliceDim *s) {
	int bits = dtype_vmem_bits(o->dtype);
	const Affine *at = &want->at;
	uint32_t group = places->group;
	bool last = places->count == 1 && at->count == 1 && at->term[0].kind == VAR_PLACE && want->extent >= group;
	places->last_rows = want->extent % group;
	if ((places->last_rows && !last) ||
	    !target_takes_rows(p->m->target, TILE_COPY, bits, o->shape[o->rank - 1], group))
		return "its rows do not fill whole words of 32 bits";
	*s = (SliceDim){.kind = SLICE_RANGE, .start = *at, .size = group};
	if (group == 1)
		return NULL;
	if (at->count != 1 || at->term[0].kind != VAR_PLACE)
		return "it is one row of each of several matrices, beside which others lie in one word";
	Term t = at->term[0];
	t.divide = t.scale = group;
	s->start = affine_term(p->a, t);
	return NULL;
}

/* Why the rows of a gather cannot be copied; NULL if they can. Fills o and the access. */
static const char *rows_access(Planner *p, const AccessWant *w, Operand *o, Access *access) {
	uint32_t last = w->rank - 1, kept = want_kept(w);
	if (!operand_array(p, o, w))
		return "its view cannot be made";
	if (o->dtype == DTYPE_BOOL || o->dtype == DTYPE_F16)
		return "no DMA copies its dtype"; /* jax: "DMAs with bool dtypes are not supported" */
	if (kept == 0 || w->dim[last].kind == WANT_AT)
		return "it gathers single elements of rows";
	if (o->rank != w->rank || o->dim_of[last] != last)
		return "its rows lie along another dim";
	bool rows = w->dim[last - 1].kind == WANT_AT;
	if (rows && kept > 1)
		return "it gathers rows of several matrices at once";
	*access = (Access){.kind = REF_OPERAND, .loop = NONE, .window = NONE, .rank = o->rank, .places = w->places};
	Places *places = &p->plan->places.at[w->places];
	places->group = rows ? (uint32_t)(32 / int_min(dtype_vmem_bits(o->dtype), 32)) : 1;
	places->last_rows = 0;
	const char *why = NULL;
	for (uint32_t i = 0; i < w->rank && !why; i++) {
		const Want *want = &w->dim[i];
		SliceDim *s = &access->dim[i];
		int64_t multiple = i == last       ? p->m->target->lanes
		                   : i + 1 == last ? target_row_multiple(p->m->target, TILE_COPY,
		                                                         dtype_vmem_bits(o->dtype), o->shape[last])
		                                   : 1;
		if (want->kind != WANT_AT)
			why = cut(p, want, multiple, s);
		else if (i + 1 == last)
			why = cut_rows(p, o, want, places, s);
		else
			*s = (SliceDim){.kind = SLICE_AT, .start = want->at, .size = 1};
	}
	return why;
}

static bool refuse_mode(Planner *p, const AccessWant *w, const char *why) {
	bool dma = p->m->config.indirect_access_mode.value == INDIRECT_DMA;
	diag_error(p->d, config_place(&p->m->config.indirect_access_mode.origin), "indirect-access-mode",
	           "auto takes what can be done", "pallas_indirect_access_mode is %s, and %s cannot be %s so: %s",
	           dma ? "dma" : "one_hot", p->m->tensors.at[w->tensor].name, w->store ? "written" : "gathered", why);
	return false;
}

/* Those that are were made by the pass one_hot. */
static const char *no_one_hot(const Planner *p, const AccessWant *w) {
	OneHot o;
	const char *why = one_hot_of(p->m, w->node, &o);
	return why ? why : "the pass one_hot did not run";
}

const char *rows_not_copied(Planner *p, const AccessWant *w) {
	Operand o = {0};
	Access access;
	return w->store            ? "each position is changed in VMEM"
	       : w->held           ? "the kernel writes it"
	       : w->table          ? "it stands in SMEM"
	       : w->places == NONE ? NULL
	                           : rows_access(p, w, &o, &access);
}

/* Slices, but that some lanes may lie outside: no gather. */
static bool counts_up(const Planner *p, const AccessWant *w) {
	const Arg *index = node_arg(p->m, w->node, 1);
	for (uint32_t i = 0; i < index->list.count; i++) {
		const Arg *entry = arg_item(p->m, index, i);
		if (entry_gathers(p->m, entry) && !entry_counts_up(p->m, entry))
			return false;
	}
	return true;
}

bool rows_mark(Planner *p, AccessWants *wants) {
	IndirectMode mode = (IndirectMode)p->m->config.indirect_access_mode.value;
	for (uint32_t i = 0; i < wants->count; i++) {
		AccessWant *w = &wants->at[i];
		if (w->places == NONE)
			continue;
		if (mode == INDIRECT_ONE_HOT && counts_up(p, w))
			continue;
		if (mode == INDIRECT_ONE_HOT)
			return refuse_mode(p, w, w->store ? "each position is changed in VMEM" : no_one_hot(p, w));
		const char *why = rows_not_copied(p, w);
		if (why && mode == INDIRECT_DMA)
			return refuse_mode(p, w, why);
		p->plan->may_copy_rows = p->plan->may_copy_rows || !why;
		if (!why && way_is(p, ROW_GATHERS, GATHERS_COPIED)) {
			p->plan->places.at[w->places].copied = true;
			w->loop = NONE;
		}
	}
	return true;
}

bool rows_copied(Planner *p, const AccessWant *w, Access *access) {
	Operand o = {0};
	if (rows_access(p, w, &o, access))
		return false;
	o.space = SPACE_HBM;
	o.input = true;
	o.why = "in HBM; rows are copied one by one";
	access->operand = operand_intern(p, &o, "_hbm");
	return true;
}
