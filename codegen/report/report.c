/* report.c - the Plan for people: what the kernel is, what it holds and moves, the least time that can take, and what
 * to try next. It decides nothing; every choice and its reason is read from the Plan. */
#include "plan_work.h"
#include "report.h"
#include "report_text.h"
#include "codegen/core/core.h"
#include "codegen/costs/costs.h"

typedef struct Report {
	Plan *p;
	Text *out;
	Arena *a;
} Report;

static const char *index_text(Report *r, uint32_t rank, const Affine *index) {
	Text t;
	text_init(&t, r->a);
	for (uint32_t i = 0; i < rank; i++)
		text_printf(&t, i ? ", %s" : "%s", plan_affine_text(r->p, r->a, &index[i]));
	return rank ? t.at : "";
}

static const char *operand_index_text(Report *r, const Operand *o) {
	Text t;
	text_init(&t, r->a);
	for (uint32_t i = 0; i < o->rank; i++)
		text_printf(&t, i ? ", %s" : "%s", plan_index_text(r->p, r->a, o, i));
	return o->rank ? t.at : "";
}

static const char *percent_text(Report *r, double part, double whole) {
	return arena_printf(r->a, "%s%%", report_number(r->a, whole > 0 ? 100 * part / whole : 0, 1));
}

/* How many times an array crosses between HBM and VMEM: "4x". */
static const char *times_text(Report *r, uint32_t operand) {
	double array = plan_array_bytes(&r->p->operands.at[operand]);
	double times = array > 0 ? plan_operand_traffic(r->p, operand) / array : 0;
	return arena_printf(r->a, "%sx", report_number(r->a, times, 1));
}

/* ---- what is in force ------------------------------------------------------------------------------------------- */

static void put_headline(Report *r, const Roofline *roof) {
	const Plan *p = r->p;
	const Target *t = p->module->target;
	double seconds = roof->hbm_bound ? roof->hbm_seconds : roof->mxu_seconds;
	const char *title = arena_printf(r->a, "%s for %s (%s)", p->module->name, t->name, t->device_kind);
	report_line(r->out, 0, 2, "%s", title);
	report_line(r->out, 0, 2, "Accepted: %s of %s VMEM (%s), at most %s; at least %s, bound by %s.",
	            bytes_text(r->a, (double)p->vmem.total), bytes_text(r->a, (double)p->vmem_limit),
	            percent_text(r, (double)p->vmem.total, (double)p->vmem_limit),
	            bytes_text(r->a, (double)vmem_most(p->vmem.total)), time_text(r->a, seconds),
	            roof->hbm_bound ? "HBM" : "the MXU");
}

static void put_block_sizes(Report *r) {
	const Plan *p = r->p;
	Text t;
	text_init(&t, r->a);
	for (BlockId b = 0; b < p->module->blocks.count; b++) {
		text_printf(&t, "%s%s = %lld", t.length ? ", " : "", plan_block_name(p, b),
		            (long long)p->module->block_size.at[b]);
		const Narrowed *n = &p->module->narrowed.at[b];
		if (n->size != n->asked)
			text_printf(&t, n->wide ? " (not %lld)" : " (its whole range, not %lld)", (long long)n->asked);
		if (p->module->blocks.at[b].reduction && !block_iterated(p->module, b))
			text_put(&t, " (the whole dim)");
		else if (!plan_block_chosen(p, b))
			text_put(&t, " (fixed)");
	}
	if (t.length)
		report_line(r->out, 2, 21, "block sizes          %s%s", t.at,
		            p->module->config.block_sizes.set ? "" : " (default)");
}

static void put_key(Report *r, const KeyRow *row, const char *label, const char *state) {
	int value = ((const ConfigKey *)key_field(row, &r->p->module->config))->value;
	const char *word = key_word(row, value);
	report_line(r->out, 2, 21, "%-20s %s%s", label, word ? word : arena_printf(r->a, "%d", value), state);
}

/* A key that every report has. */
static void put_main_key(Report *r, uint32_t key) {
	const KeyRow *row = &key_rows[key];
	bool says_so = strcmp(key_word(row, row->fallback), "default") == 0;
	put_key(r, row, row->name, key_is_set(row, &r->p->module->config) || says_so ? "" : " (default)");
}

/* Was it given? A number is not told if it holds anyway. */
static bool key_is_told(const KeyRow *row, const Config *c) {
	const ConfigKey *key = key_field(row, c);
	return row->report && key->set && (row->kind != KEY_NUMBER || key->value != row->fallback);
}

static void put_configuration(Report *r) {
	report_heading(r->out, "Configuration");
	put_block_sizes(r);
	put_main_key(r, KEY_OF_loop_type);
	put_main_key(r, KEY_OF_pre_broadcast);
	if (r->p->flops > 0)
		put_main_key(r, KEY_OF_dot_precision);
	for (const KeyRow *row = key_rows; row < key_rows + KEY_COUNT; row++)
		if (key_is_told(row, &r->p->module->config))
			put_key(r, row, row->report, "");
}

static void put_grid(Report *r) {
	const Plan *p = r->p;
	Text t;
	text_init(&t, r->a);
	for (uint32_t i = 0; i < p->grid.count; i++)
		text_printf(&t, "%s%lld", i ? " x " : "", (long long)p->grid.at[i].steps);
	const char *points = report_number(r->a, grid_points(p), 0);
	report_heading(r->out, arena_printf(r->a, p->grid.count > 1 ? "Grid: %s = %s points" : "Grid: %s point%s",
	                                    p->grid.count ? t.at : points,
	                                    p->grid.count > 1          ? points
	                                    : strcmp(points, "1") == 0 ? ""
	                                                               : "s"));
	Table table = {.right = 1u << 1};
	for (uint32_t i = 0; i < p->grid.count; i++) {
		const GridDim *g = &p->grid.at[i];
		int64_t length = plan_block_length(p, g->block), size = p->module->block_size.at[g->block];
		const char *ragged =
			length % size ? arena_printf(r->a, ", the last of %lld", (long long)(length % size)) : "";
		table_add(&table, r->a,
		          (Row){{g->name, arena_printf(r->a, "%lld steps", (long long)g->steps),
		                 arena_printf(r->a, "of %lld%s", (long long)size, ragged),
		                 g->parallel ? "parallel" : "arbitrary", g->why ? g->why : ""}});
	}
	table_put(&table, r->out, 2);
}

/* ---- operands --------------------------------------------------------------------------------------------------- */

static void operand_row(Report *r, Table *t, uint32_t i) {
	const Operand *o = &r->p->operands.at[i];
	bool window = o->space == SPACE_WINDOW, scalar = o->tensor == NONE;
	table_add(
		t, r->a,
		(Row){{o->ref, o->output ? "out" : "in", plan_space_name(o->space),
	               window ? report_shape(r->a, o->rank, o->block) : "", window ? operand_index_text(r, o) : "",
	               window ? arena_printf(r->a, "%d", o->buffers) : "",
	               window ? bytes_text(r->a, (double)o->bytes) : "",
	               scalar ? "" : bytes_text(r->a, plan_operand_traffic(r->p, i)), scalar ? "" : times_text(r, i)}});
}

/* What the wrapper makes of the array, and why it is where it is. */
static void operand_note(Report *r, const Operand *o) {
	static const char *const moves[] = {NULL, ", transposed by the wrapper", ", sliced by the wrapper",
	                                    ", expanded by the wrapper"};
	Text t;
	text_init(&t, r->a);
	text_printf(&t, "%s: %s as %s %s", o->ref, plan_operand_name(r->p, o), dtype_name(o->dtype),
	            report_shape(r->a, o->rank, o->shape));
	for (uint32_t i = 0; i < o->steps.count; i++)
		if (moves[o->steps.at[i].kind])
			text_put(&t, moves[o->steps.at[i].kind]);
	if (operand_fuses(o))
		text_put(&t, ", made by XLA in VMEM");
	if (o->within)
		text_put(&t, ", a part of the array whose windows lie in it");
	if (o->unit != NONE)
		text_printf(&t, ", whose dim %u of size 1 lets any block be aligned", o->unit);
	report_line(r->out, 2, 2, "%s; %s", t.at, o->why ? o->why : "");
}

static void put_operands(Report *r) {
	static const Row head = {{"ref", "", "space", "block", "index map", "buf", "VMEM", "HBM", "times"}};
	Table t = {.right = 1u << 5 | 1u << 6 | 1u << 7 | 1u << 8};
	report_heading(r->out, "Operands (HBM: bytes moved in all, and how many times that is the array)");
	table_add(&t, r->a, head);
	for (uint32_t i = 0; i < r->p->operands.count; i++)
		operand_row(r, &t, i);
	table_put(&t, r->out, 2);
	text_put(r->out, "\n");
	for (uint32_t i = 0; i < r->p->operands.count; i++)
		operand_note(r, &r->p->operands.at[i]);
}

/* ---- loops ------------------------------------------------------------------------------------------------------ */

static void put_loop_dim(Report *r, const Loop *l, const LoopDim *d) {
	const char *begin = plan_affine_text(r->p, r->a, &d->begin), *end = plan_affine_text(r->p, r->a, &d->end);
	Text t;
	text_init(&t, r->a);
	text_printf(&t, "%s from %s to %s by %lld: ", plan_block_name(r->p, d->block), begin, end, (long long)d->step);
	if (d->computed)
		text_put(&t, "as many steps as it takes, known at run time");
	else
		text_printf(&t, "%lld full step%s", (long long)d->full_steps, d->full_steps == 1 ? "" : "s");
	if (!d->computed && d->tail)
		text_printf(&t, " and a ragged one of %lld lanes%s%s", (long long)d->tail,
		            l->peeled ? ", which runs after the loop" : "", l->masked ? ", masked" : "");
	report_line(r->out, 2, 4, "%s", t.at);
}

static void put_windows(Report *r, const Loop *l) {
	static const Row head = {{"window", "of", "moved by", "block", "index map", "buf", "VMEM"}};
	Table t = {.right = 1u << 5 | 1u << 6};
	if (l->windows.count == 0)
		return;
	table_add(&t, r->a, head);
	for (uint32_t i = 0; i < l->windows.count; i++) {
		const Window *w = &l->windows.at[i];
		const Operand *o = &r->p->operands.at[w->operand];
		table_add(&t, r->a,
		          (Row){{w->ref, o->ref, w->dma ? "DMA" : "slicing", report_shape(r->a, o->rank, w->block),
		                 index_text(r, o->rank, w->index), w->dma ? arena_printf(r->a, "%d", w->buffers) : "",
		                 w->dma ? bytes_text(r->a, (double)w->bytes) : ""}});
	}
	table_put(&t, r->out, 4);
	for (uint32_t i = 0; i < l->windows.count; i++) {
		const Window *w = &l->windows.at[i];
		if (w->why)
			report_line(r->out, 4, 2, "%s: %s", w->ref, w->why);
		if (w->tail_operand != NONE)
			report_line(r->out, 4, 2, "%s: the ragged step reads %s", w->ref,
			            r->p->operands.at[w->tail_operand].ref);
	}
}

/* One line where all have the same reason. */
static void put_carry_reasons(Report *r, const Loop *l) {
	const Graph *g = graph_get(r->p->module, l->graph);
	bool same = true;
	for (uint32_t i = 1; i < l->carries.count; i++)
		same = same && strcmp(l->carries.at[i].why, l->carries.at[0].why) == 0;
	for (uint32_t i = 0; i < (same ? int_min(l->carries.count, 1) : l->carries.count); i++)
		report_line(r->out, 4, 2, "%s: %s",
		            same ? "carried" : node_get(r->p->module, g->placeholders.at[l->carries.at[i].arg])->name,
		            l->carries.at[i].why);
}

static void put_carries(Report *r, const Loop *l) {
	const Module *m = r->p->module;
	Table t = {0};
	for (uint32_t i = 0; i < l->carries.count; i++) {
		const Carry *c = &l->carries.at[i];
		NodeId n = graph_get(m, l->graph)->placeholders.at[c->arg];
		int64_t shape[DIM_MAX];
		uint32_t rank = plan_shape(r->p, n, r->p->values[n].form, shape);
		const char *place = "registers";
		if (c->place == CARRY_SCRATCH)
			place = arena_printf(r->a, "VMEM scratch, %s",
			                     bytes_text(r->a, (double)r->p->scratches.at[c->scratch].bytes));
		table_add(&t, r->a,
		          (Row){{arena_printf(r->a, "carried %s", node_get(m, n)->name),
		                 arena_printf(r->a, "%s %s", dtype_name(node_type(m, n)->dtype),
		                              report_shape(r->a, rank, shape)),
		                 arena_printf(r->a, "in %s", place)}});
	}
	table_put(&t, r->out, 4);
	put_carry_reasons(r, l);
}

static void put_loops(Report *r) {
	for (uint32_t i = 0; i < r->p->loops.count; i++) {
		const Loop *l = &r->p->loops.at[i];
		const char *inside =
			l->parent == NONE ? "" : arena_printf(r->a, " inside %s", r->p->loops.at[l->parent].name);
		report_heading(r->out, arena_printf(r->a, "Loop %s%s: %s%s", l->name, inside, loop_lowering_name(l),
		                                    loop_copies_words(l)));
		report_line(r->out, 2, 2, "why: %s", l->why);
		for (uint32_t d = 0; d < l->rank; d++)
			put_loop_dim(r, l, &l->dim[d]);
		report_line(r->out, 2, 2, "%s: %s", l->skewed ? "skewed" : "not skewed", l->skew_why);
		put_windows(r, l);
		put_carries(r, l);
	}
}

/* ---- VMEM, work and time ---------------------------------------------------------------------------------------- */

enum { BAR = 40 };

/* Its share of what the kernel uses; rounded up, so that whatever is there shows. */
static const char *bar_text(Report *r, int64_t bytes) {
	int64_t total = r->p->vmem.total, full = 0;
	if (total > 0 && bytes > 0)
		full = int_min((int64_t)((double)bytes / (double)total * BAR) + (bytes < total), BAR);
	Text t;
	text_init(&t, r->a);
	text_put(&t, "[");
	for (int i = 0; i < BAR; i++)
		text_put(&t, i < full ? "#" : ".");
	text_put(&t, "]");
	return t.at;
}

static void vmem_row(Report *r, Table *t, const char *owner, int64_t bytes) {
	table_add(t, r->a,
	          (Row){{owner, bytes_text(r->a, (double)bytes),
	                 percent_text(r, (double)bytes, (double)r->p->vmem_limit), bar_text(r, bytes)}});
}

static void put_vmem(Report *r) {
	const VmemUse *v = &r->p->vmem;
	Table t = {.right = 1u << 1 | 1u << 2};
	report_heading(r->out,
	               arena_printf(r->a, "VMEM: %s, %s of the %s that a kernel may use (bars: shares of the total)",
	                            bytes_text(r->a, (double)v->total),
	                            percent_text(r, (double)v->total, (double)r->p->vmem_limit),
	                            bytes_text(r->a, (double)r->p->vmem_limit)));
	vmem_row(r, &t, "grid windows", v->windows);
	vmem_row(r, &t, "loop windows", v->inner);
	vmem_row(r, &t, "carried values", v->scratch);
	vmem_row(r, &t, "intermediates", v->intermediates);
	table_put(&t, r->out, 2);
}

static void put_matmuls(Report *r, Table *table, const Roofline *roof) {
	const Target *t = r->p->module->target;
	Arena *a = r->a;
	const char *passes = roof->passes > 1 ? arena_printf(a, ", %d passes of bfloat16 each", roof->passes) : "";
	table_add(table, r->a,
	          (Row){{"matmuls", flops_text(a, r->p->flops),
	                 arena_printf(a, "%s at the MXU's peak of %s%s", time_text(a, roof->mxu_seconds),
	                              rate_text(a, roof->peak, "FLOP"), passes)}});
	table_add(table, r->a,
	          (Row){{"intensity", arena_printf(a, "%s FLOP/B", report_number(a, roof->flops_per_byte, 1)),
	                 arena_printf(a, "on %s both take equally long at %s", t->name,
	                              report_number(a, roof->balance, 0))}});
}

/* By the model of the core, with what takes longest of it. */
static void put_estimate(Report *r, Table *table) {
	static const char *const names[] = {[UNIT_MXU] = "the MXU busy", [UNIT_VALU] = "vector arithmetic",
	                                    [UNIT_XLU] = "the XLU",      [UNIT_EUP] = "the EUP",
	                                    [UNIT_LOAD] = "loads",       [UNIT_STORE] = "stores",
	                                    [UNIT_SCALAR] = "scalars"};
	CoreTime t;
	plan_time(r->p, r->a, &t);
	uint32_t most = UNIT_MXU;
	for (uint32_t u = 0; u < UNIT_COUNT; u++)
		most = u < sizeof names / sizeof *names && names[u] && t.busy[u] > t.busy[most] ? u : most;
	bool copies = t.hbm > t.busy[most];
	const char *longest = percent_text(r, copies ? t.hbm : t.busy[most], t.cycles);
	table_add(table, r->a,
	          (Row){{"estimated", arena_printf(r->a, "%s cycles", report_number(r->a, t.cycles, 0)),
	                 arena_printf(r->a, "%s, of which %s %s, waits for copies %s",
	                              time_text(r->a, t.cycles / r->p->module->target->clock_hz),
	                              copies ? "HBM" : names[most], longest,
	                              percent_text(r, t.waits + t.start, t.cycles))}});
}

static void put_work(Report *r, const Roofline *roof) {
	const Target *t = r->p->module->target;
	Table table = {0};
	report_heading(r->out, "Work and ideal time");
	table_add(&table, r->a,
	          (Row){{"HBM", bytes_text(r->a, r->p->hbm_bytes),
	                 arena_printf(r->a, "%s at %s", time_text(r->a, roof->hbm_seconds),
	                              rate_text(r->a, t->hbm_bytes_per_s, "B"))}});
	if (r->p->flops > 0)
		put_matmuls(r, &table, roof);
	else
		table_add(&table, r->a, (Row){{"matmuls", "none", ""}});
	put_estimate(r, &table);
	table_put(&table, r->out, 2);
	report_line(
		r->out, 2, 2,
		"Bound by %s. This is an ideal bound from the target's peak figures for one TensorCore: vector work, "
		"latencies and the pipeline's start come on top%s.",
		roof->hbm_bound ? "HBM" : "the MXU",
		plan_computed(r->p) ? "; a loop of run-time length counts as one step" : "");
	if (t->tensorcores > 1)
		report_line(r->out, 2, 2, "%s has %lld TensorCores per device; parallel grid dims are split over them.",
		            t->name, (long long)t->tensorcores);
}

static void time_row(Report *r, Table *t, const char *part, double seconds, const char *what) {
	if (seconds > 0)
		table_add(t, r->a,
		          (Row){{part, time_text(r->a, seconds), percent_text(r, seconds, r->p->seconds), what}});
}

/* The estimate by which plans are compared, and what it consists of. */
static void put_time(Report *r) {
	const TimeParts *t = &r->p->time;
	Table table = {.right = 1u << 1 | 1u << 2};
	report_heading(r->out, arena_printf(r->a, "Compared time: %s (the longer of MXU and vector, the rest)",
	                                    time_text(r->a, r->p->seconds)));
	time_row(r, &table, "MXU", t->mxu, "matmuls at the peak");
	time_row(r, &table, "vector", t->vector, "blocks and windows read into registers");
	time_row(r, &table, "windows", t->windows, "waits for what loops copy");
	time_row(r, &table, "loop steps", t->steps, "over straight code");
	time_row(r, &table, "gathers", t->gathers, "positions taken one after the other");
	time_row(r, &table, "one hot", t->one_hot, "around matmuls with one-hot matrices");
	time_row(r, &table, "blocks", t->blocks, "waits for the grid's blocks");
	time_row(r, &table, "start", t->start, "the first blocks to come, the last to go");
	table_put(&table, r->out, 2);
}

/* ---- what to try next ------------------------------------------------------------------------------------------- */

static bool can_grow(const Plan *p, BlockId b) {
	return plan_block_chosen(p, b) && p->module->block_size.at[b] < plan_block_length(p, b);
}

/* Grid dims whose larger blocks make fewer passes over the operand: "tile_m or tile_n". */
static const char *passes_over(Report *r, uint32_t operand) {
	Text t;
	text_init(&t, r->a);
	for (uint32_t k = 0; k < r->p->grid.count; k++) {
		const GridDim *g = &r->p->grid.at[k];
		if (g->steps > 1 && can_grow(r->p, g->block) && !plan_operand_follows(r->p, operand, k))
			text_printf(&t, t.length ? " or %s" : "%s", g->name);
	}
	return t.at;
}

static bool crosses_often(Report *r, uint32_t i) {
	double traffic = plan_operand_traffic(r->p, i);
	return traffic >= 2 * plan_array_bytes(&r->p->operands.at[i]) && traffic >= r->p->hbm_bytes / 8 &&
	       passes_over(r, i);
}

static bool same_tip(Report *r, uint32_t a, uint32_t b) {
	return crosses_often(r, b) && strcmp(times_text(r, a), times_text(r, b)) == 0 &&
	       strcmp(passes_over(r, a), passes_over(r, b)) == 0;
}

/* One line for all operands of which the same is true. */
static uint32_t tip_traffic(Report *r) {
	uint32_t tips = 0;
	for (uint32_t i = 0; i < r->p->operands.count; i++) {
		bool first = crosses_often(r, i);
		for (uint32_t k = 0; k < i && first; k++)
			first = !same_tip(r, i, k);
		if (!first)
			continue;
		Text names;
		text_init(&names, r->a);
		text_put(&names, r->p->operands.at[i].ref);
		uint32_t count = 1;
		for (uint32_t k = i + 1; k < r->p->operands.count; k++)
			if (same_tip(r, i, k))
				text_printf(&names, ", %s", r->p->operands.at[k].ref), count++;
		report_line(r->out, 2, 2, "- %s cross%s HBM %s: each doubling of %s halves that (%s of VMEM are free)",
		            names.at, count > 1 ? "" : "es", times_text(r, i), passes_over(r, i),
		            bytes_text(r->a, (double)int_max(r->p->vmem_limit - r->p->vmem.total, 0)));
		tips++;
	}
	return tips;
}

static uint32_t tip_mxu(Report *r) {
	int64_t side = r->p->module->target->mxu_size;
	uint32_t tips = 0;
	for (BlockId b = 0; b < r->p->module->blocks.count; b++) {
		int64_t size = r->p->module->block_size.at[b];
		if (size >= side || plan_block_length(r->p, b) < side || !can_grow(r->p, b) ||
		    !plan_matmul_width(r->p, b))
			continue;
		report_line(r->out, 2, 2, "- %s = %lld fills %s of the %lld-wide MXU: try %lld",
		            plan_block_name(r->p, b), (long long)size, percent_text(r, (double)size, (double)side),
		            (long long)side, (long long)side);
		tips++;
	}
	return tips;
}

static uint32_t tip_ragged(Report *r) {
	uint32_t tips = 0;
	for (BlockId b = 0; b < r->p->module->blocks.count; b++) {
		int64_t size = r->p->module->block_size.at[b], length = plan_block_length(r->p, b);
		if (!plan_block_chosen(r->p, b) || length == 0 || length % size == 0)
			continue;
		report_line(
			r->out, 2, 2,
			"- %s = %lld leaves %lld of %lld in a ragged last step: a block that divides %lld, or covers "
			"it, has none",
			plan_block_name(r->p, b), (long long)size, (long long)(length % size), (long long)length,
			(long long)length);
		tips++;
	}
	return tips;
}

/* The other lowerings that a loop may have, and why not the rest. */
static uint32_t tip_loop_type(Report *r, const Loop *l) {
	const LoopFact *fact = r->p->module->loop_facts ? &r->p->module->loop_facts[l->graph] : NULL;
	Text may, cannot;
	text_init(&may, r->a);
	text_init(&cannot, r->a);
	for (LoopType t = LOOP_UNROLL; fact && t <= LOOP_EMIT_PIPELINE; t++) {
		if (t == l->type)
			continue;
		if (fact->legal & (1u << t))
			text_printf(&may, may.length ? " or %s" : "%s", loop_type_name(t));
		else
			text_printf(&cannot, "; not %s: %s", loop_type_name(t),
			            fact->why_not[t] ? fact->why_not[t] : "not legal");
	}
	if (may.length == 0)
		return 0;
	report_line(r->out, 2, 2, "- %s: the graph allows %s too (--set pallas_loop_type=...)%s", l->name, may.at,
	            cannot.length ? cannot.at : "");
	return 1;
}

static uint32_t tip_precision(Report *r, const Roofline *roof) {
	if (roof->passes == 1)
		return 0;
	report_line(r->out, 2, 2, "- dot_precision=default takes one MXU pass instead of %d, with bfloat16's accuracy",
	            roof->passes);
	return 1;
}

static uint32_t tip_vmem(Report *r) {
	int64_t free_bytes = r->p->vmem_limit - r->p->vmem.total;
	if (free_bytes > r->p->vmem_limit / 10)
		return 0;
	if (free_bytes < 0)
		report_line(
			r->out, 2, 2,
			"- by estimate it is %s over what a kernel may use: the TPU compiler decides (--vmem-margin)",
			bytes_text(r->a, (double)-free_bytes));
	else
		report_line(r->out, 2, 2,
		            "- only %s of VMEM are left: larger blocks need fewer buffers or another loop type",
		            bytes_text(r->a, (double)free_bytes));
	return 1;
}

static void put_next(Report *r, const Roofline *roof) {
	report_heading(r->out, "What to try next");
	uint32_t tips = tip_traffic(r) + tip_mxu(r) + tip_ragged(r) + tip_precision(r, roof) + tip_vmem(r);
	for (uint32_t i = 0; i < r->p->loops.count; i++)
		tips += tip_loop_type(r, &r->p->loops.at[i]);
	if (tips == 0)
		report_line(r->out, 2, 2,
		            "Nothing stands out: each array crosses HBM about once, and the tiles divide.");
}

/* `first`: the configuration is the same for all kernels. */
static void put_kernel(Plan *p, Text *out, bool first) {
	Report *r = &(Report){.p = p, .out = out, .a = out->arena};
	Roofline roof = plan_roofline(p);
	put_headline(r, &roof);
	if (first)
		put_configuration(r);
	put_grid(r);
	put_operands(r);
	put_loops(r);
	put_vmem(r);
	put_work(r, &roof);
	put_time(r);
	put_next(r, &roof);
}

void program_emit_report(const Program *g, Text *out) {
	if (g->kernels.count > 1)
		report_line(out, 0, 2, "%s: %u kernels, one after the other; the largest takes %s of VMEM",
		            g->module->name, g->kernels.count, bytes_text(out->arena, (double)g->vmem_bytes));
	for (uint32_t k = 0; k < g->kernels.count; k++) {
		if (g->kernels.count > 1)
			text_put(out, "\n");
		put_kernel(g->kernels.at[k], out, k == 0);
	}
}
