/* build_kernel.c - a kernel of a Plan: its signature, then its statements, with what rewrites are still to do. */
#include "build.h"
#include "builder.h"
#include "codegen/place/place.h"
#include "codegen/rewrite/rewrite.h"

/* ---- the signature ---------------------------------------------------------------------------------------------- */

static KSpace space_of(const Operand *o) {
	return o->space == SPACE_WINDOW ? KSPACE_VMEM
	       : o->space == SPACE_HBM  ? KSPACE_HBM
	       : o->prefetch            ? KSPACE_PREFETCH
	                                : KSPACE_SMEM;
}

/* What its block's visits do; add_sums() says where they add up. */
static KHeld *held_of(Builder *b, const Held *h) {
	KHeld *held = arena_alloc(b->a, sizeof *held);
	*held = (KHeld){.fill = h->initial == INITIAL_VALUE,
	                .copy = h->initial == INITIAL_COPY,
	                .value = h->value,
	                .revisits = h->revisits};
	held->from = held->copy ? b->operand[h->from] : NONE;
	held->sums = NONE;
	return held;
}

/* Scratch stands behind the operands. */
static void add_sums(Builder *b) {
	for (uint32_t i = 0; i < b->plan->operands.count; i++) {
		const Operand *o = &b->plan->operands.at[i];
		KHeld *held = o->held ? b->k->buffers.at[b->operand[i]].held : NULL;
		if (held && o->held->accumulator != NONE)
			held->sums = b->scratch[o->held->accumulator];
	}
}

static IntId clamped_index(Builder *b, const Operand *o, uint32_t d, IntId index) {
	Planner p = build_planner(b);
	BlocksOutside outside = operand_outside(&p, o, d);
	if (outside.before)
		index = int_binary(b->k, INT_MAX, index, int_const(b->k, 0));
	if (outside.behind)
		index = int_binary(b->k, INT_MIN, index, int_const(b->k, outside.end));
	return index;
}

static IntId block_index(Builder *b, const Operand *o, uint32_t d) {
	IntId index = build_divided(b, &o->index[d], d == o->part_dim ? o->parts : 1, false);
	if (o->clamped >> d & 1)
		index = clamped_index(b, o, d, index);
	if (o->within && o->within->first[d])
		index = int_binary(b->k, INT_ADD, index, int_const(b->k, o->within->first[d] / o->block[d]));
	return index;
}

/* The same at the grid's next point, of the last dim first; that of the last point is the first. */
static IntId at_next_point(Builder *b, IntId index) {
	Kernel *k = b->k;
	IntId turns = NONE; /* all dims further in start anew */
	for (uint32_t d = k->grid.count; d-- > 0;) {
		if (k->grid.at[d].steps == 1)
			continue;
		IntId at = int_value(k, k->grid.at[d].at);
		IntId last = int_binary(k, INT_EQ, at, int_const(k, k->grid.at[d].steps - 1));
		IntId next = int_choose(k, last, int_const(k, 0), int_binary(k, INT_ADD, at, int_const(k, 1)));
		index = int_substitute(k, index, k->grid.at[d].at,
		                       turns == NONE ? next : int_choose(k, turns, next, at));
		turns = turns == NONE ? last : int_binary(k, INT_AND, turns, last);
	}
	return index;
}

static void add_operand(Builder *b, uint32_t i) {
	const Operand *o = &b->plan->operands.at[i];
	const int64_t *array = o->within ? o->within->shape : o->shape;
	KBuffer buffer = {.role = o->output ? BUFFER_OUT : BUFFER_IN,
	                  .space = space_of(o),
	                  .dtype = o->dtype,
	                  .rank = o->rank,
	                  .shape = o->space == SPACE_WINDOW ? o->block : array,
	                  .name = o->ref,
	                  .array = array,
	                  .buffers = o->buffers,
	                  .ahead = o->ahead && o->buffers > 1,
	                  .fused = operand_fuses(o),
	                  .alias = NONE};
	if (o->output && o->alias_of != NONE)
		buffer.alias = b->operand[o->alias_of];
	if (o->space == SPACE_WINDOW) {
		IntId *index = arena_array(b->a, o->rank + 1, sizeof *index);
		for (uint32_t d = 0; d < o->rank; d++)
			index[d] = o->next ? at_next_point(b, block_index(b, o, d)) : block_index(b, o, d);
		buffer.index = index;
	}
	if (o->held)
		buffer.held = held_of(b, o->held);
	b->operand[i] = kernel_buffer(b->k, buffer);
}

static void add_scratch(Builder *b, uint32_t i) {
	const Scratch *s = &b->plan->scratches.at[i];
	int64_t *shape = arena_array(b->a, DIM_MAX + 2, sizeof *shape);
	uint32_t rank = scratch_shape(s, shape);
	if (s->whole)
		shape[s->whole_dim] = s->whole;
	KSpace space = s->kind == SCRATCH_VMEM ? KSPACE_VMEM : s->kind == SCRATCH_SMEM ? KSPACE_SMEM : KSPACE_DMA;
	b->scratch[i] = kernel_scratch(b->k, space, s->dtype, rank, shape, s->ref);
}

static void add_grid(Builder *b) {
	for (uint32_t d = 0; d < b->plan->grid.count; d++) {
		const GridDim *g = &b->plan->grid.at[d];
		KGridDim dim = {kernel_value(b->k, KTYPE_INT, DTYPE_I32, 0, NULL, g->name), g->steps, g->parallel};
		vec_push(b->a, &b->k->grid, dim);
		b->program[d] = dim.at;
	}
}

/* What index maps read is read ahead of the root's steps. */
static void add_operands(Builder *b) {
	b->ahead = b->plan->root;
	for (uint32_t place = 0; place < OPERAND_PLACES; place++)
		for (uint32_t i = 0; i < b->plan->operands.count; i++)
			if (operand_place_in_call(&b->plan->operands.at[i]) == place)
				add_operand(b, i);
	b->ahead = NONE;
}

static void build_signature(Builder *b) {
	const Plan *p = b->plan;
	b->operand = arena_array(b->a, p->operands.count + 1, sizeof *b->operand);
	b->scratch = arena_array(b->a, p->scratches.count + 1, sizeof *b->scratch);
	b->program = arena_array(b->a, p->grid.count + 1, sizeof *b->program);
	add_grid(b);
	add_operands(b);
	for (uint32_t i = 0; i < p->scratches.count; i++)
		add_scratch(b, i);
	add_sums(b);
}

/* ---- the body --------------------------------------------------------------------------------------------------- */

/* The program ids as the body reads them. */
static void build_program_ids(Builder *b) {
	for (uint32_t d = 0; d < b->plan->grid.count; d++) {
		int64_t dim = d;
		StmtId s = kernel_append(b->k, b->at, K_PROGRAM_ID, 0, NULL, 1, &dim);
		b->program[d] = kernel_result(b->k, s, KTYPE_INT, DTYPE_I32, 0, NULL, b->plan->grid.at[d].name);
		b->k->values.at[b->program[d]].as = b->k->grid.at[d].at;
	}
}

/* For rewrite_strips.c, which finds the rest. */
static void add_strips(Builder *b) {
	const Strips *s = b->plan->strips;
	KStrips *strips = arena_alloc(b->a, sizeof *strips);
	*strips = (KStrips){.size = s->size, .width = s->width, .spread = s->spread};
	for (NodeId n = 0; n < b->m->nodes.count; n++)
		if (s->inside[n] && s->stash[n] != NONE) {
			KStash stash = {b->value[n].value, b->scratch[s->stash[n]]};
			vec_push(b->a, &strips->stashes, stash);
		}
	b->k->strips = strips;
}

Scratch scratch_of_buffer(const Target *t, const KBuffer *b, const char *why) {
	Scratch s = {.kind = SCRATCH_VMEM,
	             .ref = b->name,
	             .dtype = b->dtype,
	             .rank = b->rank,
	             .bytes = scratch_vmem_bytes(t, b->dtype, b->rank, b->shape),
	             .why = why};
	memcpy(s.shape, b->shape, b->rank * sizeof *b->shape);
	return s;
}

/* Scratch that the plan has not asked for. */
static void note_kept(Builder *b) {
	Plan *p = b->plan;
	uint32_t seen = 0;
	p->kept.count = 0;
	for (BufferId i = 0; i < b->k->buffers.count; i++) {
		const KBuffer *x = &b->k->buffers.at[i];
		if (x->role != BUFFER_SCRATCH || seen++ < p->scratches.count)
			continue;
		vec_push(b->a, &p->kept,
		         scratch_of_buffer(b->m->target, x, "the first step of a grid dim computes it for the others"));
	}
}

/* For rewrite_pieces.c, which makes the scratch: of each matmul as many rows of float32. */
static void take_pieces(Builder *b) {
	Plan *p = b->plan;
	ResultPieces found = {0};
	p->kept.count = 0;
	b->k->pieces = results_in_pieces(b->k, &found);
	p->piece_bytes = 0;
	for (uint32_t i = 0; i < found.matmuls; i++) {
		Scratch piece = {.kind = SCRATCH_VMEM,
		                 .ref = "piece_ref",
		                 .dtype = DTYPE_F32,
		                 .rank = 2,
		                 .shape = {found.rows, found.columns},
		                 .bytes = found.rows * found.columns * dtype_bits(DTYPE_F32) / 8,
		                 .why = "a matmul's result goes through it, piece by piece"};
		vec_push(b->a, &p->kept, piece);
		p->piece_bytes += piece.bytes;
	}
}

Kernel *plan_kernel(Plan *p) {
	Builder b = {.plan = p, .m = p->module, .a = p->arena, .ahead = NONE, .slot = NONE};
	uint32_t loops = p->loops.count + 1;
	if (p->left)
		--*p->left;
	b.k = kernel_new(b.a, p->module->name);
	b.k->expected_steps = p->module->config.expected_steps.value;
	b.at = b.k->body;
	vec_reserve(b.a, &b.k->stmts, b.m->nodes.count);
	vec_reserve(b.a, &b.k->values, b.m->nodes.count);
	vec_reserve(b.a, &b.k->args, b.m->nodes.count);
	b.value = arena_array(b.a, b.m->nodes.count + 1, sizeof *b.value);
	b.window = arena_array(b.a, loops, sizeof *b.window);
	for (uint32_t l = 0; l < p->loops.count; l++)
		b.window[l] = arena_array(b.a, p->loops.at[l].windows.count + 1, sizeof **b.window);
	b.step = arena_array(b.a, (size_t)loops * RANK_MAX, sizeof *b.step);
	build_order(&b);
	build_signature(&b);
	build_program_ids(&b);
	build_mesh(&b);
	build_graph(&b, p->root);
	if (p->strips)
		add_strips(&b);
	if (p->keeps) {
		kernel_open_steps(b.k);
		p->widened_bytes = kernel_widen_tables(b.k, p->module->target);
		p->kept_bytes =
			p->widened_bytes + kernel_keep_invariants(b.k, p->module->target, p->keeps == KEEPS_WITH_REST);
		note_kept(&b);
		b.k->chunks = p->chunks && factor_in_chunks(b.k);
		p->chunks = b.k->chunks;
	}
	b.k->first_chunks = p->first_chunks;
	b.k->narrow = p->module->target->bf16_vpu;
	if (p->pieces) {
		kernel_open_steps(b.k);
		take_pieces(&b);
	}
	return b.k;
}

KProgram *program_build(const Program *g) {
	KProgram *out = arena_alloc(g->arena, sizeof *out);
	out->arena = g->arena;
	for (uint32_t i = 0; i < g->kernels.count; i++) {
		Plan *p = g->kernels.at[i];
		Kernel *k = p->kernel ? p->kernel : plan_kernel(p);
		k->turns = p->back_and_forth;
		k->turn_once = p->turned_bytes > 0;
		if (k->collective_id >= 0)
			k->collective_id = i;
		k->vmem_limit = p->vmem_asked;
		p->kernel = NULL; /* rewrites change it */
		vec_push(g->arena, &out->kernels, k);
	}
	build_host(g, out);
	return out;
}
