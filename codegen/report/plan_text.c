/* plan_text.c - the words in which plan_json.c and report.c speak of a Plan. */
#include "plan_text.h"

static const char *variable_name(const Plan *p, Arena *a, const Term *t) {
	if (t->kind == VAR_PROGRAM)
		return p->grid.at[t->id].name;
	if (t->kind == VAR_NODE)
		return node_get(p->module, t->id)->name;
	if (t->kind == VAR_PLACE)
		return node_get(p->module, p->places.at[t->id / RANK_MAX].of[t->id % RANK_MAX].index)->name;
	const Loop *loop = &p->loops.at[t->id / RANK_MAX];
	return loop->rank == 1 ? loop->step_name : arena_printf(a, "%s[%u]", loop->step_name, t->id % RANK_MAX);
}

/* Without its sign. */
static void put_term(const Plan *p, Text *out, const Term *t) {
	int64_t scale = t->scale < 0 ? -t->scale : t->scale;
	const char *name = variable_name(p, out->arena, t);
	if (t->divide)
		name = arena_printf(out->arena, "%s // %lld", name, (long long)t->divide);
	if (t->modulo)
		name = arena_printf(out->arena, "%s %% %lld", name, (long long)t->modulo);
	if (scale != 1)
		text_printf(out, "%lld*", (long long)scale);
	text_printf(out, scale != 1 && (t->divide || t->modulo) ? "(%s)" : "%s", name);
}

const char *plan_affine_text(const Plan *p, Arena *a, const Affine *x) {
	Text out;
	text_init(&out, a);
	for (uint32_t i = 0; i < x->count; i++) {
		bool negative = x->term[i].scale < 0;
		text_put(&out, i == 0 ? (negative ? "-" : "") : negative ? " - " : " + ");
		put_term(p, &out, &x->term[i]);
	}
	int64_t constant = x->constant;
	if (x->count == 0)
		text_printf(&out, "%lld", (long long)constant);
	else if (constant != 0)
		text_printf(&out, constant < 0 ? " - %lld" : " + %lld",
		            (long long)(constant < 0 ? -constant : constant));
	return out.at;
}

static const char *index_in_operand(const Plan *p, Arena *a, const Operand *o, uint32_t dim) {
	const char *index = plan_affine_text(p, a, &o->index[dim]);
	if (o->clamped >> dim & 1)
		return arena_printf(a, "min(max(%s, 0), %lld)", index,
		                    (long long)int_cdiv(o->shape[dim], o->block[dim]) - 1);
	if (o->parts <= 1 || dim != o->part_dim || o->index[dim].count == 0)
		return index;
	bool one = o->index[dim].count == 1 && o->index[dim].constant == 0;
	return arena_printf(a, one ? "%s // %lld" : "(%s) // %lld", index, (long long)o->parts);
}

const char *plan_index_text(const Plan *p, Arena *a, const Operand *o, uint32_t dim) {
	const char *index = index_in_operand(p, a, o, dim);
	int64_t first = o->within ? o->within->first[dim] / o->block[dim] : 0;
	bool start = affine_is_int(&o->index[dim]) && o->index[dim].constant == 0;
	return !first  ? index
	       : start ? arena_printf(a, "%lld", (long long)first)
	               : arena_printf(a, "%s + %lld", index, (long long)first);
}

const char *plan_slices_text(const Plan *p, Arena *a, const Access *access) {
	Text out;
	text_init(&out, a);
	text_put(&out, "[");
	for (uint32_t i = 0; i < access->rank; i++) {
		const SliceDim *s = &access->dim[i];
		const char *start = s->kind == SLICE_ALL ? ":" : plan_affine_text(p, a, &s->start);
		text_put(&out, i ? ", " : "");
		if (s->parts)
			text_printf(&out, "pl.ds((%s) %% %lld * %lld, %lld)", start, (long long)s->parts,
			            (long long)s->size, (long long)s->size);
		else if (s->kind == SLICE_RANGE)
			text_printf(&out, "pl.ds(%s, %lld)", start, (long long)s->size);
		else
			text_put(&out, start);
	}
	text_put(&out, "]");
	return out.at;
}

const char *plan_space_name(Space s) {
	static const char *const names[] = {"vmem", "hbm", "smem"};
	return names[s];
}

const char *plan_block_name(const Plan *p, BlockId b) { return p->module->blocks.at[b].name; }

const char *plan_operand_name(const Plan *p, const Operand *o) {
	return o->tensor == NONE ? p->module->scalars.at[o->scalar].name : p->module->tensors.at[o->tensor].name;
}

/* expr_value() caches into the Module, as in plan_shape(); the Plan itself stays as it is. */
static int64_t size_or_0(const Plan *p, ExprId e) {
	int64_t value;
	return e != NONE && expr_value(p->module, e, &value) ? value : 0;
}

int64_t plan_block_extent(const Plan *p, BlockId b) { return size_or_0(p, p->module->blocks.at[b].extent); }

int64_t plan_block_length(const Plan *p, BlockId b) {
	return int_max(plan_block_extent(p, b) - size_or_0(p, p->module->blocks.at[b].begin), 0);
}

int64_t plan_loop_steps(const Loop *l) {
	int64_t steps = 1;
	for (uint32_t i = 0; i < l->rank; i++) {
		if (l->dim[i].computed)
			return -1;
		if (!checked_mul(steps, l->dim[i].full_steps + (l->dim[i].tail != 0), &steps))
			return INT64_MAX;
	}
	return steps;
}
