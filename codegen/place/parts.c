/* parts.c - what devices exchange: parts of tensors, which a copy reads or writes at any time between its start and the
 * wait for it.
 *
 * A tensor of which nothing else is accessed stays in HBM, and copies go from there and to there; an input does
 * whatever else is read of it. Others are held in VMEM whole, for the one grid point that there is: what a device
 * loads or stores lies where the others' copies come. Where that would take too much of VMEM, they stay in HBM as well,
 * and loads and stores are DMAs that are waited for, from and to scratch. A DMA moves whole tiles of the last two dims:
 * where single rows go, the tensor, and what is copied to and from it, has a unit dim before the last. */
#include "access.h"

/* An input is never written: copies may read it in HBM, whoever else does. */
static bool counts(const Planner *p, const AccessWant *w, TensorId base) {
	return tensor_base(p->m, w->tensor) == base && (w->part || !tensor_is_given(p->m, base));
}

/* ---- what is asked for ------------------------------------------------------------------------------------------ */

/* Why a DMA does not move what the access names; NULL if it does. */
static const char *not_moved(Planner *p, const AccessWant *w, const char **hint) {
	const Tensor *t = &p->m->tensors.at[w->tensor];
	const Want *last = &w->dim[w->rank - 1];
	*hint = "copy parts of the tensor itself";
	if (t->role == ROLE_VIEW && t->view != VIEW_RESHAPE)
		return "it is of a permuted, sliced or expanded view";
	*hint = "copy one position after the other";
	if (w->places != NONE || want_shifted(w) != NONE)
		return "an int tensor says where";
	*hint = "copy the last dim whole, or multiples of 128 of it, from a multiple of 128 on";
	if (last->kind == WANT_AT || (last->size != last->extent && (last->size % p->m->target->lanes ||
	                                                             !affine_multiple(&last->at, p->m->target->lanes))))
		return "a DMA moves whole lanes";
	*hint = "choose a block that divides the dim";
	for (uint32_t i = 0; i < w->rank; i++) {
		int64_t start;
		bool tile = w->dim[i].kind == WANT_STEP || w->dim[i].kind == WANT_GRID;
		if (tile && (!affine_max(p, &w->dim[i].at, &start) || start + w->dim[i].size > w->dim[i].extent))
			return "its last tile reaches past the end";
	}
	return NULL;
}

static bool accepted(Planner *p, const AccessWant *w) {
	const char *hint, *why = not_moved(p, w, &hint);
	return !why || plan_refuse(p, w->node, "remote-part", hint,
	                           "this part of tensor %s cannot be copied between devices: %s",
	                           p->m->tensors.at[w->tensor].name, why);
}

/* ---- HBM or VMEM ------------------------------------------------------------------------------------------------ */

/* A number, or of as many dims as the access keeps, of their sizes. */
static bool fills_part(const Planner *p, const AccessWant *w) {
	const Arg *value = node_arg(p->m, w->node, 2);
	const Type *t = value->kind == ARG_REF ? node_type(p->m, value->node) : NULL;
	if (!t || t->kind != TYPE_TENSOR || t->count == 0)
		return true;
	uint32_t kept = 0;
	bool same = t->count == want_kept(w);
	for (uint32_t i = 0; same && i < w->rank; i++)
		if (w->dim[i].kind != WANT_AT)
			same = expr_number(p->m, t->dims[kept++]) == w->dim[i].size;
	return same;
}

/* A load or store that can go through scratch, by a DMA that it waits for. */
static bool can_be_staged(Planner *p, const AccessWant *w) {
	const char *hint;
	uint16_t op = node_get(p->m, w->node)->op;
	NodeId mask = op == OP_STORE ? node_input(p->m, w->node, 3) : NONE;
	bool plain =
		op == OP_LOAD || (op == OP_STORE && (mask == NONE || value_rank(p, mask) == 0) && fills_part(p, w));
	return plain && want_kept(w) > 0 && !not_moved(p, w, &hint);
}

/* A tensor is held in VMEM if it takes no more than this share of it: percent, of one of what comes and goes. */
enum { HELD_PERCENT = 10 };

/* It is too large to be held, and each of its loads and stores can be staged. */
static bool is_staged(Planner *p, const AccessWants *wants, TensorId base) {
	const Tensor *t = &p->m->tensors.at[base];
	int64_t shape[RANK_MAX];
	for (uint32_t d = 0; d < t->rank; d++)
		shape[d] = tensor_dim(p, t, d);
	if (vmem_bytes(p->m->target, t->dtype, t->rank, shape) <= p->m->target->vmem_bytes / 100 * HELD_PERCENT)
		return false;
	for (uint32_t i = 0; i < wants->count; i++) {
		const AccessWant *w = &wants->at[i];
		if (counts(p, w, base) && !w->part && !can_be_staged(p, w))
			return false;
	}
	return true;
}

Exchange tensor_exchange(Planner *p, const AccessWants *wants, TensorId base) {
	bool parts = false, others = false;
	for (uint32_t i = 0; i < wants->count; i++) {
		const AccessWant *w = &wants->at[i];
		parts = parts || (counts(p, w, base) && w->part);
		others = others || (counts(p, w, base) && !w->part);
	}
	return !parts ? EXCHANGE_NOT : others && !is_staged(p, wants, base) ? EXCHANGE_HELD : EXCHANGE_IN_HBM;
}

/* Its rows are no whole tiles. */
static bool splits_tiles(const Planner *p, const AccessWant *w) {
	const Tensor *t = &p->m->tensors.at[w->tensor];
	if (w->rank < 2)
		return false;
	const Want *row = &w->dim[w->rank - 2];
	int64_t width = w->dim[w->rank - 1].extent;
	int64_t rows = target_row_multiple(p->m->target, TILE_COPY_OUT, dtype_bits(t->dtype), width);
	return row->kind == WANT_AT ||
	       (row->size != row->extent && (row->size % rows || !affine_multiple(&row->at, rows)));
}

static AccessWant *want_of_node(AccessWants *wants, NodeId n) {
	for (uint32_t i = 0; i < wants->count; i++)
		if (wants->at[i].node == n)
			return &wants->at[i];
	return NULL;
}

/* The part that a copy reads; NULL: it is computed. */
static AccessWant *source_of(const Planner *p, AccessWants *wants, const AccessWant *w) {
	NodeId source = node_get(p->m, w->node)->op == OP_REMOTE_COPY ? node_input(p->m, w->node, 2) : NONE;
	return source != NONE && node_get(p->m, source)->op == OP_PART ? want_of_node(wants, source) : NULL;
}

static bool spread(const Planner *p, bool *rows, TensorId from, TensorId to) {
	TensorId a = tensor_base(p->m, from), b = tensor_base(p->m, to);
	bool news = rows[a] != rows[b];
	rows[a] = rows[b] = rows[a] || rows[b];
	return news;
}

/* Both ends of a copy have one shape: of all tensors that are copied to each other, or of none. */
static void mark_rows(Planner *p, AccessWants *wants) {
	bool *rows = arena_array(p->a, p->m->tensors.count + 1, sizeof *rows);
	for (uint32_t i = 0; i < wants->count; i++)
		if ((wants->at[i].part || wants->at[i].stays_in_hbm) && splits_tiles(p, &wants->at[i]))
			rows[tensor_base(p->m, wants->at[i].tensor)] = true;
	for (bool again = true; again;) {
		again = false;
		for (uint32_t i = 0; i < wants->count; i++) {
			const AccessWant *source = source_of(p, wants, &wants->at[i]);
			again = (source && spread(p, rows, source->tensor, wants->at[i].tensor)) || again;
		}
	}
	for (uint32_t i = 0; i < wants->count; i++) {
		AccessWant *w = &wants->at[i];
		TensorId base = tensor_base(p->m, w->tensor);
		w->rows = rows[base] && counts(p, w, base);
	}
}

bool parts_mark(Planner *p, AccessWants *wants) {
	bool ok = true;
	if (!p->plan->remote)
		return true;
	for (uint32_t i = 0; i < wants->count; i++) {
		AccessWant *w = &wants->at[i];
		TensorId base = tensor_base(p->m, w->tensor);
		w->stays_in_hbm = counts(p, w, base) && tensor_exchange(p, wants, base) == EXCHANGE_IN_HBM;
		ok = (!w->part || accepted(p, w)) && ok;
	}
	mark_rows(p, wants);
	return ok;
}

/* ---- operands --------------------------------------------------------------------------------------------------- */

static const char *operand_whole(Planner *p, Operand *o, const AccessWant *w) {
	memcpy(o->block, o->shape, sizeof o->block);
	const char *wrong = operand_align(p, o, o->block, o->index, w->rank, TILE_BLOCK);
	if (!wrong && w->rows)
		operand_unit_rows(p, o, w->rank);
	return wrong;
}

/* What the array holds already stays where no copy comes. */
static void keep_content(Planner *p, Operand *o) {
	const Tensor *t = &p->m->tensors.at[o->tensor];
	if (t->role != ROLE_INOUT && !t->has_init)
		return;
	Operand in = *o;
	in.input = true;
	in.output = false;
	in.ref = arena_printf(p->a, "%s_in_hbm", t->name);
	o->alias_of = p->plan->operands.count;
	vec_push(p->a, &p->plan->operands, in);
}

static bool hbm_operand(Planner *p, AccessWants *wants, const AccessWant *w) {
	TensorId base = tensor_base(p->m, w->tensor);
	bool given = tensor_is_given(p->m, base);
	Operand o = {.space = SPACE_HBM, .input = given, .output = !given};
	if (!operand_array(p, &o, w))
		return false;
	const char *wrong = operand_whole(p, &o, w);
	if (wrong)
		return refuse_block(p, w, wrong);
	o.why = "in HBM: devices copy parts of it";
	o.ref = arena_printf(p->a, "%s_hbm", p->m->tensors.at[base].name);
	if (!given)
		keep_content(p, &o);
	for (uint32_t i = 0; i < wants->count; i++) {
		AccessWant *other = &wants->at[i];
		if (!other->stays_in_hbm || tensor_base(p->m, other->tensor) != base)
			continue;
		if (other->tensor != w->tensor)
			return plan_refuse(p, other->node, "remote-part", "use one view of it in the whole kernel",
			                   "devices exchange parts of %s and of %s, which are one tensor",
			                   p->m->tensors.at[w->tensor].name, p->m->tensors.at[other->tensor].name);
		other->held_in = p->plan->operands.count;
	}
	vec_push(p->a, &p->plan->operands, o);
	plan_remark(p->plan, "%s: it stays in HBM, from and to which devices copy parts of it",
	            p->m->tensors.at[base].name);
	return true;
}

static uint32_t scratch_once(Planner *p, Scratch s) {
	for (uint32_t i = 0; i < p->plan->scratches.count; i++)
		if (strcmp(p->plan->scratches.at[i].ref, s.ref) == 0)
			return i;
	p->plan->staging_bytes += s.bytes;
	return plan_scratch(p, s);
}

/* What is computed goes through scratch, as DMAs move memory alone. */
static void stage_source(Planner *p, const AccessWant *w) {
	NodeId source = node_input(p->m, w->node, 2);
	const Type *t = node_type(p->m, source);
	Scratch s = {.kind = SCRATCH_VMEM, .dtype = t->dtype, .why = "a computed tile that is sent"};
	if (node_get(p->m, source)->op == OP_PART)
		return;
	s.rank = plan_shape(p->plan, source, w->rows && t->count > 1 ? FORM_ROW : FORM_NATURAL, s.shape);
	s.bytes = scratch_vmem_bytes(p->m->target, s.dtype, s.rank, s.shape);
	s.ref = arena_printf(p->a, "sent_%lld_ref", (long long)op_arg(p->m, w->node, "channel")->integer);
	p->plan->values[w->node].staged = scratch_once(p, s);
}

/* What is loaded or stored of a tensor in HBM does so, too: all of one shape through the same. */
static void stage_access(Planner *p, const AccessWant *w) {
	const Operand *o = &p->plan->operands.at[w->held_in];
	Scratch s = {.kind = SCRATCH_VMEM, .dtype = o->dtype, .why = "what is loaded from HBM, or stored to it"};
	Access access;
	Text name;
	part_access(p, w, &access);
	text_init(&name, p->a);
	text_printf(&name, "staged_%s", dtype_name(o->dtype));
	for (uint32_t d = 0; d < o->rank; d++)
		if (access.dim[d].kind != SLICE_AT) {
			s.shape[s.rank++] = access.dim[d].kind == SLICE_ALL ? o->shape[d] : access.dim[d].size;
			text_printf(&name, "_%lld", (long long)s.shape[s.rank - 1]);
		}
	s.ref = name.at;
	s.bytes = scratch_vmem_bytes(p->m->target, s.dtype, s.rank, s.shape);
	p->plan->values[w->node].staged = scratch_once(p, s);
	p->plan->staged =
		scratch_once(p, (Scratch){.kind = SCRATCH_DMA_SEMAPHORE, .rank = 1, .shape = {1}, .ref = "staged_sem"});
}

/* One for each channel counts here what has left, and one for each of its slots what has come. */
static void semaphores(Planner *p, int64_t channels) {
	Scratch s = {.kind = SCRATCH_DMA_SEMAPHORE, .rank = 1, .shape = {channels}, .ref = "sent_sem"};
	int64_t slots = 0, most = 0;
	if (!channels)
		return;
	for (int64_t i = 0; i < channels; i++) {
		ChannelUse *c = &p->plan->channels[i];
		c->first = slots;
		c->slots = int_min(c->starts, CHANNEL_SLOTS);
		slots += c->slots;
		most = int_max(most, c->starts);
	}
	p->plan->sent = plan_scratch(p, s);
	s.shape[0] = int_max(slots, 1);
	s.ref = "come_sem";
	p->plan->come = plan_scratch(p, s);
	if (most > 1)
		p->plan->started = plan_scratch(p, (Scratch){.kind = SCRATCH_SMEM,
		                                             .dtype = DTYPE_I32,
		                                             .rank = 1,
		                                             .shape = {channels},
		                                             .ref = "started"});
}

bool parts_operands(Planner *p, AccessWants *wants) {
	int64_t channels = 0;
	bool *made = arena_array(p->a, p->m->tensors.count + 1, sizeof *made);
	for (uint32_t i = 0; i < wants->count && p->plan->remote; i++) {
		const AccessWant *w = &wants->at[i];
		TensorId base = tensor_base(p->m, w->tensor);
		if (w->stays_in_hbm && !made[base] && !hbm_operand(p, wants, w))
			return false;
		made[base] = made[base] || w->stays_in_hbm;
		if (node_get(p->m, w->node)->op == OP_REMOTE_COPY)
			stage_source(p, w);
		if (w->stays_in_hbm && !w->part)
			stage_access(p, w);
		if (op_is_remote(node_get(p->m, w->node)->op))
			channels = int_max(channels, op_arg(p->m, w->node, "channel")->integer + 1);
	}
	semaphores(p, channels);
	return true;
}

/* ---- accesses --------------------------------------------------------------------------------------------------- */

bool part_access(Planner *p, const AccessWant *w, Access *access) {
	const Operand *o = &p->plan->operands.at[w->held_in];
	*access = (Access){.kind = REF_OPERAND, .operand = w->held_in, .window = NONE, .rank = o->rank, .places = NONE};
	for (uint32_t i = 0; i < w->rank; i++) {
		uint32_t d = o->dim_of[i];
		const Want *want = &w->dim[i];
		SliceKind kind = want->kind == WANT_AT        ? SLICE_AT
		                 : want->size == want->extent ? SLICE_ALL
		                                              : SLICE_RANGE;
		access->dim[d] = (SliceDim){.kind = kind, .start = want->at, .size = want->size};
		access->dim[d].multiple = kind == SLICE_RANGE ? slice_hint(p, o, d, &want->at) : 0;
		if (kind == SLICE_ALL && o->block[d] != want->extent) /* held with lanes past the end */
			access->dim[d].kind = SLICE_RANGE;
	}
	return true;
}
