/* plan_json.c - the Plan as JSON: what --emit=plan prints and what tests read. docs/plan.md has one row per field;
 * every object of one kind has the same keys, with null where a key has nothing to say. */
#include "codegen/core/core.h"
#include "plan_work.h"
#include "report.h"

/* An object or list that was opened on one line keeps all that is in it on that line. */
typedef struct Json {
	const Plan *p;
	Text *out;
	Arena *a;
	uint32_t depth;  /* of brackets with one item per line */
	uint32_t inside; /* brackets on the current line */
	bool first;      /* nothing was put in the current bracket yet */
} Json;

static void new_line(Json *j) {
	text_put(j->out, "\n");
	for (uint32_t i = 0; i < j->depth; i++)
		text_put(j->out, " ");
}

/* Before each value: the comma, and its key if it has one. */
static void item(Json *j, const char *key) {
	if (!j->first)
		text_put(j->out, j->inside ? ", " : ",");
	if (!j->inside && j->depth)
		new_line(j);
	j->first = false;
	if (key)
		text_printf(j->out, "\"%s\": ", key);
}

static void open_lines(Json *j, const char *key, const char *bracket) {
	item(j, key);
	text_put(j->out, bracket);
	j->depth++;
	j->first = true;
}

static void close_lines(Json *j, const char *bracket) {
	j->depth--;
	if (!j->first)
		new_line(j);
	text_put(j->out, bracket);
	j->first = false;
}

static void open_line(Json *j, const char *key, const char *bracket) {
	item(j, key);
	text_put(j->out, bracket);
	j->inside++;
	j->first = true;
}

static void close_line(Json *j, const char *bracket) {
	text_put(j->out, bracket);
	j->inside--;
	j->first = false;
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

static void put_int(Json *j, const char *key, int64_t value) {
	item(j, key);
	text_printf(j->out, "%lld", (long long)value);
}

static void put_bool(Json *j, const char *key, bool value) {
	item(j, key);
	text_put(j->out, value ? "true" : "false");
}

static void put_null(Json *j, const char *key) {
	item(j, key);
	text_put(j->out, "null");
}

static void put_string(Json *j, const char *key, const char *value) {
	item(j, key);
	if (value)
		text_put_json(j->out, value);
	else
		text_put(j->out, "null");
}

/* A count that was added up in doubles: an int as long as every int up to it has its own double. */
static void put_count(Json *j, const char *key, double value) {
	item(j, key);
	if (value >= 0 && value <= 9007199254740992.0 && (double)(int64_t)value == value)
		text_printf(j->out, "%lld", (long long)value);
	else
		text_put_double(j->out, value);
}

static void put_rounded(Json *j, const char *key, double value) { put_count(j, key, (double)(int64_t)(value + 0.5)); }

static void put_ints(Json *j, const char *key, uint32_t count, const int64_t *values) {
	open_line(j, key, "[");
	for (uint32_t i = 0; i < count; i++)
		put_int(j, NULL, values[i]);
	close_line(j, "]");
}

static void put_affines(Json *j, const char *key, uint32_t count, const Affine *values) {
	open_line(j, key, "[");
	for (uint32_t i = 0; i < count; i++)
		put_string(j, NULL, plan_affine_text(j->p, j->a, &values[i]));
	close_line(j, "]");
}

/* A bound is an int where it is known, else the text of what computes it. */
static void put_bound(Json *j, const char *key, const Affine *x) {
	if (affine_is_int(x))
		put_int(j, key, x->constant);
	else
		put_string(j, key, plan_affine_text(j->p, j->a, x));
}

/* ---- configuration and grid ------------------------------------------------------------------------------------- */

static void put_block_sizes(Json *j, const Module *m) {
	open_line(j, "block_sizes", "[");
	for (BlockId b = 0; b < m->blocks.count; b++)
		if (plan_block_chosen(j->p, b))
			put_int(j, NULL, m->narrowed.at[b].asked);
	close_line(j, "]");
}

/* The keys that shape the Plan, each with the value in force, defaults included: a valid --config document. */
static void put_config(Json *j, const Module *m) {
	const Config *c = &m->config;
	open_lines(j, "config", "{");
	for (uint32_t k = 0; k < KEY_COUNT; k++) {
		const KeyRow *row = &key_rows[k];
		if (k == KEY_OF_block_sizes) {
			put_block_sizes(j, m);
		} else if (!row->unlowered && (key_is_set(row, c) || key_has_default(row))) {
			item(j, row->name);
			key_put(row, c, false, j->out);
		}
	}
	for (uint32_t i = 0; i < c->tunables.count; i++) {
		item(j, NULL);
		text_put_json(j->out, m->tunables.at[i].name);
		text_printf(j->out, ": %lld", (long long)c->tunables.at[i]);
	}
	close_lines(j, "}");
}

static void put_blocks(Json *j, const Module *m) {
	open_lines(j, "blocks", "[");
	for (BlockId b = 0; b < m->blocks.count; b++) {
		int64_t extent = plan_block_extent(j->p, b);
		open_line(j, NULL, "{");
		put_string(j, "symbol", m->blocks.at[b].symbol);
		put_string(j, "name", m->blocks.at[b].name);
		put_int(j, "size", m->block_size.at[b]);
		if (extent)
			put_int(j, "extent", extent);
		else
			put_null(j, "extent");
		put_bool(j, "chosen", plan_block_chosen(j->p, b));
		close_line(j, "}");
	}
	close_lines(j, "]");
}

static void put_grid(Json *j) {
	const Module *m = j->p->module;
	open_lines(j, "grid", "[");
	for (uint32_t i = 0; i < j->p->grid.count; i++) {
		const GridDim *g = &j->p->grid.at[i];
		open_line(j, NULL, "{");
		put_string(j, "block", m->blocks.at[g->block].symbol);
		put_string(j, "name", g->name);
		put_int(j, "steps", g->steps);
		put_string(j, "semantics", g->parallel ? "parallel" : "arbitrary");
		put_string(j, "why", g->why);
		put_bool(j, "back_and_forth", j->p->back_and_forth && i + 1 == j->p->grid.count);
		close_line(j, "}");
	}
	close_lines(j, "]");
}

/* ---- operands --------------------------------------------------------------------------------------------------- */

static void put_step(Json *j, const ArrayStep *s) {
	static const char *const names[] = {"reshape", "transpose", "slice", "expand"};
	open_line(j, NULL, "{");
	put_string(j, "step", names[s->kind]);
	put_ints(j, s->kind == ARRAY_TRANSPOSE ? "permutation" : "shape", s->rank, s->shape);
	if (s->kind == ARRAY_SLICE) {
		open_line(j, "slices", "[");
		for (uint32_t i = 0; i < s->rank; i++)
			put_ints(j, NULL, 3, s->slice[i]);
		close_line(j, "]");
	}
	put_bool(j, "boundary", s->boundary);
	close_line(j, "}");
}

/* What only a window over the grid has. */
static void put_operand_window(Json *j, const Operand *o) {
	static const char *const placements[] = {"own", "view", "split", "shared", "merged"};
	if (o->space == SPACE_WINDOW) {
		put_ints(j, "block", o->rank, o->block);
		open_line(j, "index_map", "[");
		for (uint32_t i = 0; i < o->rank; i++)
			put_string(j, NULL, plan_index_text(j->p, j->a, o, i));
		close_line(j, "]");
		put_string(j, "placement", placements[o->placement]);
		put_int(j, "view_hbm_bytes", o->view_hbm_bytes);
		put_int(j, "buffers", o->buffers);
		put_int(j, "fetches", o->fetches);
	} else {
		put_null(j, "block");
		put_null(j, "index_map");
		put_null(j, "placement");
		put_int(j, "view_hbm_bytes", 0);
		put_int(j, "buffers", 0);
		put_null(j, "fetches");
	}
	put_int(j, "vmem_bytes", o->bytes);
}

/* How an output's block is held over several steps. */
static void put_held(Json *j, const Held *held) {
	static const char *const initial[] = {NULL, "value", "folded", "copy"};
	if (!held) {
		put_null(j, "held");
		return;
	}
	open_line(j, "held", "{");
	put_string(j, "initial", initial[held->initial]);
	put_string(j, "from", held->from == NONE ? NULL : j->p->operands.at[held->from].ref);
	open_line(j, "revisited_by", "[");
	for (uint32_t k = 0; k < j->p->grid.count; k++)
		if (held->revisits >> k & 1)
			put_string(j, NULL, j->p->grid.at[k].name);
	close_line(j, "]");
	put_string(j, "accumulator", held->accumulator == NONE ? NULL : j->p->scratches.at[held->accumulator].ref);
	close_line(j, "}");
}

/* The array that it is a slice of, and where in it that starts. */
static void put_within(Json *j, const Operand *o) {
	if (!o->within) {
		put_null(j, "within");
		return;
	}
	open_line(j, "within", "{");
	put_ints(j, "shape", o->rank, o->within->shape);
	put_ints(j, "first", o->rank, o->within->first);
	close_line(j, "}");
}

static void put_operand(Json *j, uint32_t index) {
	const Operand *o = &j->p->operands.at[index];
	const Module *m = j->p->module;
	bool scalar = o->tensor == NONE;
	open_lines(j, NULL, "{");
	put_string(j, "ref", o->ref);
	put_string(j, "role", o->input && o->output ? "inout" : o->output ? "output" : "input");
	put_string(j, "tensor", scalar ? NULL : m->tensors.at[o->tensor].name);
	put_string(j, "scalar", scalar ? m->scalars.at[o->scalar].name : NULL);
	put_string(j, "seen_as", o->seen_as == NONE ? NULL : m->tensors.at[o->seen_as].name);
	put_string(j, "space", plan_space_name(o->space));
	put_string(j, "dtype", dtype_name(o->dtype));
	open_line(j, "array_steps", "[");
	for (uint32_t i = 0; i < o->steps.count; i++)
		put_step(j, &o->steps.at[i]);
	close_line(j, "]");
	put_ints(j, "shape", o->rank, o->shape);
	put_within(j, o);
	put_operand_window(j, o);
	put_count(j, "hbm_bytes", plan_operand_traffic(j->p, index));
	put_string(j, "alias_of", o->alias_of == NONE ? NULL : j->p->operands.at[o->alias_of].ref);
	put_held(j, o->held);
	put_string(j, "why", o->why);
	close_lines(j, "}");
}

static void put_scratch(Json *j, const Scratch *s) {
	open_line(j, NULL, "{");
	put_string(j, "ref", s->ref);
	put_string(j, "kind", s->kind == SCRATCH_VMEM ? "vmem" : s->kind == SCRATCH_SMEM ? "smem" : "dma_semaphore");
	put_string(j, "dtype", s->kind != SCRATCH_DMA_SEMAPHORE ? dtype_name(s->dtype) : NULL);
	int64_t shape[DIM_MAX + 2];
	put_ints(j, "shape", scratch_shape(s, shape), shape);
	put_int(j, "bytes", s->bytes);
	put_string(j, "why", s->why);
	close_line(j, "}");
}

/* ---- loops ------------------------------------------------------------------------------------------------------ */

static void put_loop_dim(Json *j, const LoopDim *d) {
	const Module *m = j->p->module;
	open_line(j, NULL, "{");
	put_string(j, "block", m->blocks.at[d->block].symbol);
	put_string(j, "name", m->blocks.at[d->block].name);
	put_bound(j, "begin", &d->begin);
	put_bound(j, "end", &d->end);
	put_int(j, "step", d->step);
	put_bool(j, "computed", d->computed);
	if (d->computed) {
		put_null(j, "full_steps");
		put_null(j, "tail");
	} else {
		put_int(j, "full_steps", d->full_steps);
		put_int(j, "tail", d->tail);
	}
	close_line(j, "}");
}

static void put_ref(Json *j, const char *key, uint32_t scratch) {
	put_string(j, key, scratch == NONE ? NULL : j->p->scratches.at[scratch].ref);
}

static void put_window(Json *j, const Loop *l, const Window *w) {
	const Plan *p = j->p;
	const Operand *o = &p->operands.at[w->operand];
	bool copies = w->dma && l->type == LOOP_FORI; /* emit_pipeline owns its buffers */
	open_lines(j, NULL, "{");
	put_string(j, "ref", w->ref);
	put_string(j, "role", w->input && w->output ? "inout" : w->output ? "output" : "input");
	put_string(j, "operand", o->ref);
	put_bool(j, "dma", w->dma);
	put_ints(j, "block", o->rank, w->block);
	put_affines(j, "index_map", o->rank, w->index);
	put_affines(j, "start", o->rank, w->start);
	put_int(j, "buffers", w->buffers);
	put_int(j, "vmem_bytes", w->bytes);
	put_ref(j, "scratch", copies ? w->scratch : NONE);
	put_ref(j, "semaphore", copies ? w->semaphore : NONE);
	put_string(j, "tail_operand", w->tail_operand == NONE ? NULL : p->operands.at[w->tail_operand].ref);
	put_string(j, "why", w->why);
	close_lines(j, "}");
}

static void put_carry(Json *j, const Loop *l, const Carry *c) {
	const Module *m = j->p->module;
	NodeId argument = graph_get(m, l->graph)->placeholders.at[c->arg];
	int64_t shape[DIM_MAX];
	uint32_t rank = plan_shape(j->p, argument, j->p->values[argument].form, shape);
	open_line(j, NULL, "{");
	put_string(j, "node", node_get(m, argument)->name);
	put_int(j, "arg", c->arg);
	put_int(j, "output", c->output);
	put_string(j, "dtype", dtype_name(node_type(m, argument)->dtype));
	put_ints(j, "shape", rank, shape);
	put_string(j, "place", c->place == CARRY_REGISTER ? "register" : "scratch");
	put_ref(j, "scratch", c->place == CARRY_SCRATCH ? c->scratch : NONE);
	put_string(j, "why", c->why);
	close_line(j, "}");
}

static void put_handed(Json *j, const Handed *h) {
	open_line(j, NULL, "{");
	put_string(j, "node", node_get(j->p->module, h->node)->name);
	put_ref(j, "scratch", h->scratch);
	put_ref(j, "odd", h->odd);
	close_line(j, "}");
}

static void put_loop(Json *j, const Loop *l) {
	const Module *m = j->p->module;
	open_lines(j, NULL, "{");
	put_string(j, "name", l->name);
	put_string(j, "step_variable", l->step_name);
	put_int(j, "graph", graph_get(m, l->graph)->id);
	put_string(j, "call", node_get(m, l->call)->name);
	put_string(j, "parent", l->parent == NONE ? NULL : j->p->loops.at[l->parent].name);
	put_string(j, "type", loop_lowering_name(l));
	put_bool(j, "dma", l->dma);
	put_string(j, "why", l->why);
	open_lines(j, "dims", "[");
	for (uint32_t i = 0; i < l->rank; i++)
		put_loop_dim(j, &l->dim[i]);
	close_lines(j, "]");
	put_bool(j, "peeled", l->peeled);
	put_bool(j, "masked", l->masked);
	put_bool(j, "skewed", l->skewed);
	put_int(j, "ahead", l->ahead);
	put_bool(j, "paired", l->paired);
	put_bool(j, "fenced", l->fenced);
	put_bool(j, "across", l->across);
	put_bool(j, "ahead_across", l->next.count > 0);
	put_bool(j, "unmasked", l->unmasked);
	put_bool(j, "lane_sums", l->lane_sums);
	put_bool(j, "blocks", l->cut);
	put_bool(j, "bodies", l->bodies != NULL);
	open_line(j, "handed", "[");
	for (uint32_t i = 0; i < l->handed.count; i++)
		put_handed(j, &l->handed.at[i]);
	close_line(j, "]");
	open_lines(j, "windows", "[");
	for (uint32_t i = 0; i < l->windows.count; i++)
		put_window(j, l, &l->windows.at[i]);
	close_lines(j, "]");
	open_lines(j, "carried", "[");
	for (uint32_t i = 0; i < l->carries.count; i++)
		put_carry(j, l, &l->carries.at[i]);
	close_lines(j, "]");
	close_lines(j, "}");
}

/* ---- accesses and values ---------------------------------------------------------------------------------------- */

static const char *access_kind(uint16_t op) { return op == OP_LOAD ? "load" : strchr(op_row(op)->target, '.') + 1; }

static void put_access(Json *j, NodeId n, const Access *access) {
	const Plan *p = j->p;
	const Node *node = node_get(p->module, n);
	bool window = access->kind == REF_WINDOW;
	open_line(j, NULL, "{");
	put_int(j, "graph", graph_get(p->module, node->graph)->id);
	put_string(j, "node", node->name);
	put_string(j, "kind", access_kind(node->op));
	put_string(j, "ref",
	           window ? p->loops.at[access->loop].windows.at[access->window].ref
	                  : p->operands.at[access->operand].ref);
	put_string(j, "loop", window ? p->loops.at[access->loop].name : NULL);
	put_string(j, "slices", plan_slices_text(p, j->a, access));
	put_bool(j, "swapped", access->perm_rank > 0);
	close_line(j, "}");
}

/* A way that an access takes, or could; null cycles where it is none. */
static void put_way(Json *j, const Indirect *x, IndirectWay way) {
	put_string(j, "way", indirect_way_name(way));
	if (way != x->way && x->cost[way].why)
		put_null(j, "cycles");
	else
		put_count(j, "cycles", (double)(int64_t)(x->cost[way].cycles + 0.5));
}

static void put_other_way(Json *j, const Indirect *x, IndirectWay way) {
	open_line(j, NULL, "{");
	put_way(j, x, way);
	put_string(j, "why", x->cost[way].why);
	close_line(j, "}");
}

static void put_indirect(Json *j, const Indirect *x) {
	open_lines(j, NULL, "{");
	put_int(j, "graph", x->graph);
	put_string(j, "node", x->node);
	put_string(j, "kind", access_kind(x->op));
	put_string(j, "tensor", j->p->module->tensors.at[x->tensor].name);
	put_way(j, x, x->way);
	put_bool(j, "ahead", x->ahead);
	open_lines(j, "others", "[");
	for (IndirectWay way = 0; way < WAY_COUNT; way++)
		if (way != x->way)
			put_other_way(j, x, way);
	close_lines(j, "]");
	close_lines(j, "}");
}

static void put_masks(Json *j, const Value *v) {
	open_line(j, "masks", "[");
	for (uint32_t i = 0; i < v->mask_count; i++) {
		const Mask *mask = &v->masks[i];
		open_line(j, NULL, "{");
		put_string(j, "block", mask->block == NONE ? NULL : j->p->module->blocks.at[mask->block].symbol);
		put_int(j, "dim", mask->dim);
		put_bound(j, "offset", &mask->offset);
		put_bound(j, "end", &mask->end);
		put_bool(j, "last_only", mask->last_only);
		close_line(j, "}");
	}
	close_line(j, "]");
}

/* A tensor with a name of its own that does not stand in the kernel just as the graph has it. */
static bool value_differs(const Plan *p, NodeId n) {
	const Value *v = &p->values[n];
	const Type *t = node_type(p->module, n);
	if (v->same_as != NONE || t->kind != TYPE_TENSOR || t->count == 0)
		return false;
	return v->form != FORM_NATURAL || v->mask_count > 0 || v->transpose_a || v->transpose_b ||
	       v->compute != DTYPE_NONE;
}

static void put_value(Json *j, NodeId n) {
	const Plan *p = j->p;
	const Node *node = node_get(p->module, n);
	const Value *v = &p->values[n];
	int64_t shape[DIM_MAX];
	uint32_t rank = plan_shape(p, n, v->form, shape);
	open_line(j, NULL, "{");
	put_int(j, "graph", graph_get(p->module, node->graph)->id);
	put_string(j, "node", node->name);
	static const char *const forms[] = {[FORM_NATURAL] = "natural", [FORM_COLUMN] = "column", [FORM_ROW] = "row"};
	put_string(j, "form", forms[v->form]);
	put_ints(j, "shape", rank, shape);
	put_masks(j, v);
	put_bool(j, "transpose_a", v->transpose_a);
	put_bool(j, "transpose_b", v->transpose_b);
	put_string(j, "compute", v->compute == DTYPE_NONE ? NULL : dtype_name(v->compute));
	close_line(j, "}");
}

/* Graphs in the order of the document, nodes in the order of their graph. */
static void put_nodes(Json *j, const char *key, bool accesses) {
	const Module *m = j->p->module;
	open_lines(j, key, "[");
	for (GraphId g = 0; g < m->graphs.count; g++)
		for (NodeId n = graph_first(m, g); n != NONE; n = node_get(m, n)->next) {
			if (accesses && j->p->values[n].access)
				put_access(j, n, j->p->values[n].access);
			else if (!accesses && value_differs(j->p, n))
				put_value(j, n);
		}
	close_lines(j, "]");
}

/* ---- strips ------------------------------------------------------------------------------------------------------ */

/* Of each value that is kept for later phases: its name, scratch and phase. */
static void put_stashes(Json *j, const Strips *s) {
	const Module *m = j->p->module;
	open_line(j, "stashes", "[");
	for (NodeId n = graph_first(m, j->p->root); n != NONE; n = node_get(m, n)->next) {
		if (!s->inside[n] || s->stash[n] == NONE)
			continue;
		open_line(j, NULL, "{");
		put_string(j, "node", node_get(m, n)->name);
		put_string(j, "scratch", j->p->scratches.at[s->stash[n]].ref);
		put_int(j, "phase", s->phase[n]);
		close_line(j, "}");
	}
	close_line(j, "]");
}

static void put_strips(Json *j) {
	const Strips *s = j->p->strips;
	if (!s) {
		put_null(j, "strips");
		return;
	}
	open_line(j, "strips", "{");
	put_int(j, "size", s->size);
	put_int(j, "width", s->width);
	put_int(j, "count", s->count);
	put_int(j, "phases", s->phases);
	put_int(j, "spread", s->spread);
	put_stashes(j, s);
	close_line(j, "}");
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

static void put_vmem(Json *j) {
	const VmemUse *v = &j->p->vmem;
	open_line(j, "vmem", "{");
	put_int(j, "windows", v->windows);
	put_int(j, "inner", v->inner);
	put_int(j, "scratch", v->scratch);
	put_int(j, "intermediates", v->intermediates);
	put_int(j, "total", v->total);
	put_int(j, "most", vmem_most(v->total));
	put_int(j, "asked", j->p->vmem_asked);
	put_int(j, "limit", j->p->vmem_limit);
	close_line(j, "}");
}

static void put_seconds(Json *j, const char *key, double seconds) {
	item(j, key);
	text_put_double(j->out, seconds);
}

static void put_time(Json *j, double seconds, const TimeParts *t) {
	put_seconds(j, "seconds", seconds);
	open_line(j, "time", "{");
	put_seconds(j, "mxu", t->mxu);
	put_seconds(j, "vector", t->vector);
	put_seconds(j, "windows", t->windows);
	put_seconds(j, "steps", t->steps);
	put_seconds(j, "gathers", t->gathers);
	put_seconds(j, "one_hot", t->one_hot);
	put_seconds(j, "blocks", t->blocks);
	put_seconds(j, "start", t->start);
	close_line(j, "}");
}

/* All that is one kernel's own. */
static void put_kernel(Json *j) {
	const Plan *p = j->p;
	put_grid(j);
	open_lines(j, "operands", "[");
	for (uint32_t i = 0; i < p->operands.count; i++)
		put_operand(j, i);
	close_lines(j, "]");
	open_lines(j, "scratch", "[");
	for (uint32_t i = 0; i < p->scratches.count; i++)
		put_scratch(j, &p->scratches.at[i]);
	for (uint32_t i = 0; i < p->kept.count; i++)
		put_scratch(j, &p->kept.at[i]);
	close_lines(j, "]");
	open_lines(j, "loops", "[");
	for (uint32_t i = 0; i < p->loops.count; i++)
		put_loop(j, &p->loops.at[i]);
	close_lines(j, "]");
	put_strips(j);
	put_nodes(j, "accesses", true);
	open_lines(j, "indirect", "[");
	for (uint32_t i = 0; i < p->indirect.count; i++)
		put_indirect(j, &p->indirect.at[i]);
	close_lines(j, "]");
	put_nodes(j, "values", false);
	put_vmem(j);
	put_count(j, "flops", p->flops);
	put_count(j, "hbm_bytes", p->hbm_bytes);
	put_time(j, p->seconds, &p->time);
}

/* Of each unit in all, of the MXU those that enter 16 rows of bfloat16. */
static void put_operations(Json *j, const Program *g, const CoreTime *t) {
	const Units *units = units_of(g->module->target);
	open_line(j, "operations", "{");
	for (uint32_t u = 0; u < UNIT_COUNT; u++) {
		double a_cycle = u == UNIT_MXU ? units->matrix_units / units->matmul_cycles : units->per_cycle[u];
		put_rounded(j, unit_names[u], t->busy[u] * a_cycle);
	}
	close_line(j, "}");
}

/* What the kernels take, by the model of the core: codegen/core. */
static void put_estimate(Json *j, const Program *g) {
	CoreTime t;
	double compared = 0;
	program_time(g, j->a, &t);
	for (uint32_t i = 0; i < g->kernels.count; i++)
		compared += g->kernels.at[i]->seconds;
	open_lines(j, "estimate", "{");
	put_rounded(j, "cycles", t.cycles);
	item(j, "seconds");
	text_put_double(j->out, t.cycles / g->module->target->clock_hz);
	put_rounded(j, "bound", program_bound(g, j->a));
	for (uint32_t u = 0; u < UNIT_COUNT; u++)
		put_rounded(j, unit_names[u], t.busy[u]);
	put_rounded(j, "compute", t.compute);
	put_rounded(j, "hbm", t.hbm);
	put_rounded(j, "waits", t.waits);
	put_rounded(j, "steps", t.steps);
	put_rounded(j, "start", t.start);
	item(j, "compared_seconds");
	text_put_double(j->out, compared);
	put_operations(j, g, &t);
	close_lines(j, "}");
}

/* Of several kernels: each, and what they take together. They run one after the other, so the VMEM is the largest's. */
static void put_kernels(Json *j, const Program *g) {
	const Plan *largest = g->kernels.at[0];
	double seconds = 0;
	open_lines(j, "kernels", "[");
	for (uint32_t k = 0; k < g->kernels.count; k++) {
		j->p = g->kernels.at[k];
		seconds += j->p->seconds;
		largest = j->p->vmem.total > largest->vmem.total ? j->p : largest;
		open_lines(j, NULL, "{");
		put_string(j, "name", j->p->module->name);
		put_kernel(j);
		close_lines(j, "}");
	}
	close_lines(j, "]");
	j->p = largest;
	put_vmem(j);
	put_count(j, "flops", g->flops);
	put_count(j, "hbm_bytes", g->hbm_bytes);
	put_seconds(j, "seconds", seconds);
}

void program_emit_json(const Program *g, Text *out) {
	Json *j = &(Json){.p = g->kernels.at[0], .out = out, .a = out->arena, .first = true};
	open_lines(j, NULL, "{");
	put_string(j, "name", g->module->name);
	put_string(j, "target", g->module->target->name);
	put_config(j, g->module);
	put_blocks(j, g->module);
	if (g->kernels.count == 1)
		put_kernel(j);
	else
		put_kernels(j, g);
	put_estimate(j, g);
	close_lines(j, "}");
	text_put(out, "\n");
}
