/* kernel_text.c - a program of kernels as text (docs/kernel.md): every statement on its line, every region in braces.
 * Whatever the Python of it needs is there, so that what reads it back prints the same. */
#include "kernel_text.h"
#include "kernel_writer.h"

/* ---- lines ------------------------------------------------------------------------------------------------------ */

static void line_start(KTextOut *t) {
	for (int i = 0; i < t->depth; i++)
		text_put(t->out, "  ");
}

static void line_end(KTextOut *t) {
	text_put(t->out, "\n");
	t->line++;
}

static void put_line(KTextOut *t, const char *text) {
	line_start(t);
	text_put(t->out, text);
	line_end(t);
}

static void put_option(KTextOut *t, const char *word, int64_t number) {
	line_start(t);
	text_printf(t->out, "%s %lld", word, (long long)number);
	line_end(t);
}

static void block_start(KTextOut *t) {
	text_put(t->out, " {");
	line_end(t);
	t->depth++;
}

static void block_end(KTextOut *t) {
	t->depth--;
	line_start(t);
	text_put(t->out, "}");
	line_end(t);
}

/* ---- source lines ----------------------------------------------------------------------------------------------- */

static const char *location_key(KTextOut *t, const Location *from) {
	const char *key = arena_printf(t->k->arena, "%lld\n%s\n%s", (long long)from->line, from->code ? from->code : "",
	                               from->file ? from->file : "");
	return string_intern(t->k->arena, &t->lines, key);
}

static void put_source_line(KTextOut *t, const Location *from) {
	const char *key = from ? location_key(t, from) : NULL;
	if (!key || map_get(&t->line_of, map_key(key)) != NONE)
		return;
	map_put(t->k->arena, &t->line_of, map_key(key), ++t->line_count);
	line_start(t);
	text_printf(t->out, "line %u %lld ", t->line_count, (long long)from->line);
	if (from->code)
		text_put_json(t->out, from->code);
	else
		text_put(t->out, "_");
	if (from->file) {
		text_put(t->out, " ");
		text_put_json(t->out, from->file);
	}
	line_end(t);
}

static void put_lines_of(Kernel *k, StmtId s, void *data) {
	put_source_line(data, kernel_stmt(k, s)->from);
	put_source_line(data, kernel_stmt(k, s)->also);
}

static void put_line_number(KTextOut *t, const Location *from) {
	if (from)
		text_printf(t->out, " @%u", map_get(&t->line_of, map_key(location_key(t, from))));
	else
		text_put(t->out, " @_");
}

/* ---- statements ------------------------------------------------------------------------------------------------- */

static void put_region(KTextOut *t, RegionId r);

static void put_results(KTextOut *t, const KStmt *s) {
	for (uint32_t i = 0; i < s->result_count; i++) {
		ValueId v = s->result + i;
		text_put(t->out, i ? ", " : "");
		const char *var = t->k->values.at[v].var;
		if (t->uses[v] == 0 && (!var || strcmp(var, "_") == 0))
			text_put(t->out, "_");
		else
			ktext_value(t, v);
	}
	text_put(t->out, s->result_count ? " = " : "");
}

static void put_types(KTextOut *t, const KStmt *s) {
	for (uint32_t i = 0; i < s->result_count; i++) {
		text_put(t->out, i ? ", " : " : ");
		ktext_type(t, s->result + i);
	}
}

static const char *stmt_name(const KStmt *s) { return s->var ? s->var : s->name; }

/* Of a WHEN or PIPELINE: in quotes where it would be read as what may follow it. */
static void put_label(KTextOut *t, const KStmt *s) {
	const char *name = stmt_name(s);
	if (!name)
		return;
	text_put(t->out, " ");
	if (strcmp(name, "ahead") == 0 || strcmp(name, "named") == 0 || strcmp(name, "said") == 0 ||
	    strcmp(name, "initial") == 0)
		text_put_json(t->out, name);
	else
		ktext_name(t, name);
}

/* The scratch that is to keep the value while rows are computed in strips. */
static void put_stash(KTextOut *t, const KStmt *s) {
	for (uint32_t i = 0; t->k->strips && i < t->k->strips->stashes.count; i++)
		if (s->result != NONE && t->k->strips->stashes.at[i].value == s->result) {
			text_put(t->out, " stash ");
			ktext_buffer(t, t->k->strips->stashes.at[i].scratch);
		}
}

/* What stands behind the types of any statement. */
static void put_words(KTextOut *t, const KStmt *s) {
	bool named = stmt_name(s) && s->op != K_WHEN && s->op != K_PIPELINE && !(s->op == K_FOR && s->each->slice);
	if (s->arg_count == 0 && s->result_count == 0 && (named || s->flags))
		text_put(t->out, " :"); /* so that no word is read as an argument */
	if (named) {
		text_put(t->out, " named ");
		ktext_name(t, stmt_name(s));
	}
	put_stash(t, s);
	if (s->flags & KSTMT_NARROW)
		text_put(t->out, " narrow");
	if (s->flags & KSTMT_AHEAD)
		text_put(t->out, " ahead");
	if (s->flags & KSTMT_SAID)
		text_put(t->out, " said");
	if (s->flags & KSTMT_INITIAL)
		text_put(t->out, " initial");
	if (s->from || s->also)
		put_line_number(t, s->from);
	if (s->also)
		put_line_number(t, s->also);
}

static void put_body(KTextOut *t, const KStmt *s) {
	put_words(t, s);
	block_start(t);
	put_region(t, s->body);
	block_end(t);
}

static void put_parameter(KTextOut *t, const KParameter *x) {
	if (x->kind == PARAMETER_BUFFER) {
		ktext_buffer(t, x->id);
		text_put(t->out, ": ");
		ktext_buffer_type(t, &t->k->buffers.at[x->id]);
		return;
	}
	ktext_value(t, x->id);
	text_put(t->out, ": ");
	ktext_type(t, x->id);
	if (x->kind == PARAMETER_VALUE && t->k->values.at[x->id].type == KTYPE_FLAG)
		text_put(t->out, " given");
}

static void put_def(KTextOut *t, const KStmt *s) {
	const KFunction *f = &t->k->functions.at[s->function];
	ktext_function(t, s->function);
	text_put(t->out, "(");
	for (uint32_t i = 0; i < f->parameters.count; i++) {
		text_put(t->out, i ? ", " : "");
		put_parameter(t, &f->parameters.at[i]);
	}
	static const char *const kinds[] = {")", ") fori", ") while"};
	text_put(t->out, kinds[f->kind]);
	put_words(t, s);
	block_start(t);
	put_region(t, f->body);
	block_end(t);
}

/* An argument of a flag parameter: the parameter itself where it is set, its name alone. */
static void put_call_arg(KTextOut *t, const KFunction *f, uint32_t i, const KArg *arg) {
	if (i < f->parameters.count && f->parameters.at[i].kind == PARAMETER_FLAG && arg->kind != KARG_NONE) {
		ktext_value(t, f->parameters.at[i].id);
		if (arg->kind == KARG_VALUE && arg->value == f->parameters.at[i].id)
			return;
		text_put(t->out, "=");
	}
	ktext_arg(t, arg);
}

/* `fori` has the count before the function's name. */
static void put_called(KTextOut *t, StmtId id, uint32_t first) {
	const KStmt *s = kernel_stmt(t->k, id);
	ktext_function(t, s->function);
	text_put(t->out, "(");
	for (uint32_t i = first; i < s->arg_count; i++) {
		text_put(t->out, i > first ? ", " : "");
		put_call_arg(t, &t->k->functions.at[s->function], i, kernel_arg(t->k, id, i));
	}
	text_put(t->out, ")");
}

static void put_place(KTextOut *t, const char *word, BufferId b) {
	if (b != NONE) {
		text_put(t->out, word);
		ktext_buffer(t, b);
	}
}

/* What does not come out of a loop states its type here. */
static void put_carried(KTextOut *t, StmtId s, const ValueId *carried, uint32_t count, const KLoop *loop) {
	if (count)
		text_put(t->out, " carry (");
	for (uint32_t i = 0; i < count; i++) {
		text_put(t->out, i ? ", " : "");
		ktext_value(t, carried[i]);
		if (i >= kernel_stmt(t->k, s)->result_count) {
			text_put(t->out, ": ");
			ktext_type(t, carried[i]);
		}
		text_put(t->out, " = ");
		ktext_arg(t, kernel_arg(t->k, s, i));
		put_place(t, " in ", loop ? loop->place.at[i] : NONE);
		put_place(t, " odd ", loop ? loop->odd.at[i] : NONE);
	}
	text_put(t->out, count ? ")" : "");
}

static void put_for(KTextOut *t, StmtId id) {
	const KStmt *s = kernel_stmt(t->k, id);
	const KFor *each = s->each;
	int64_t number;
	if (each->unread)
		text_put(t->out, "_");
	else
		ktext_value(t, each->step);
	text_put(t->out, " in ");
	if (int_is_const(t->k, each->end, &number))
		text_printf(t->out, "%lld", (long long)number);
	else
		ktext_ints(t, &each->end, 1);
	text_printf(t->out, " from %lld", (long long)each->from);
	put_carried(t, id, each->carried.at, each->carried.count, NULL);
	if (each->slice) {
		text_put(t->out, " slice ");
		ktext_name(t, stmt_name(s));
		text_printf(t->out, " %lld", (long long)each->slice);
	}
}

static void put_if(KTextOut *t, StmtId s) {
	ktext_arg(t, kernel_arg(t->k, s, 0));
	if (kernel_stmt(t->k, s)->arg_count > 1) {
		text_put(t->out, " else (");
		ktext_args(t, s, 1);
		text_put(t->out, ")");
	}
}

/* ---- pipelines -------------------------------------------------------------------------------------------------- */

static void put_pipeline_window(KTextOut *t, const KPipelineWindow *w) {
	uint32_t rank = t->k->buffers.at[w->of].rank;
	line_start(t);
	text_put(t->out, w->output ? "out " : "in ");
	ktext_buffer(t, w->of);
	ktext_numbers(t, " [", w->block, rank, "] at ");
	ktext_ints(t, w->index, rank);
	text_printf(t->out, w->ahead ? " buffers %d ahead" : " buffers %d", w->buffers);
	line_end(t);
}

static void put_pipeline(KTextOut *t, const KStmt *s) {
	const KPipeline *p = s->pipeline;
	ktext_function(t, p->body);
	text_put(t->out, " grid ");
	ktext_ints(t, p->grid, p->rank);
	text_put(t->out, " at (");
	for (uint32_t i = 0; i < p->rank; i++) {
		text_put(t->out, i ? ", " : "");
		ktext_value(t, p->at[i]);
	}
	text_put(t->out, ")");
	put_label(t, s);
	put_words(t, s);
	block_start(t);
	for (uint32_t i = 0; i < p->windows.count; i++)
		put_pipeline_window(t, &p->windows.at[i]);
	block_end(t);
}

/* ---- loops ------------------------------------------------------------------------------------------------------ */

static void put_loop_window(KTextOut *t, const KWindow *w) {
	uint32_t rank = t->k->buffers.at[w->of].rank;
	line_start(t);
	text_put(t->out, "window ");
	ktext_buffer(t, w->buffer);
	text_put(t->out, " ");
	ktext_buffer_type(t, &t->k->buffers.at[w->buffer]);
	text_put(t->out, " of ");
	ktext_buffer(t, w->of);
	text_put(t->out, w->input ? " in" : "");
	text_put(t->out, w->output ? " out" : "");
	text_put(t->out, w->dma ? " dma" : "");
	if (w->copy) {
		text_put(t->out, " copy ");
		ktext_name(t, w->copy);
	}
	if (w->pieces != NONE) {
		text_printf(t->out, " pieces %u ", w->pieces);
		ktext_value(t, w->piece);
	}
	text_put(t->out, " at ");
	ktext_ints(t, w->index, rank);
	text_put(t->out, " start ");
	ktext_ints(t, w->start, rank);
	ktext_numbers(t, " by (", w->multiple, rank, ")");
	text_printf(t->out, " buffers %d", w->buffers);
	if (w->scratch != NONE) {
		text_put(t->out, " scratch ");
		ktext_buffer(t, w->scratch);
		text_put(t->out, " ");
		ktext_buffer(t, w->semaphore);
	}
	put_place(t, " tail ", w->tail);
	line_end(t);
}

static void put_loop_dim(KTextOut *t, const KLoopDim *dim) {
	line_start(t);
	text_put(t->out, "dim ");
	ktext_value(t, dim->step);
	text_put(t->out, dim->computed ? " computed steps " : " steps ");
	ktext_ints(t, &dim->steps, 1);
	text_printf(t->out, " full %lld tail %lld size %lld", (long long)dim->full_steps, (long long)dim->tail,
	            (long long)dim->size);
	line_end(t);
}

static void put_loop_region(KTextOut *t, const char *word, RegionId r) {
	if (r == NONE)
		return;
	line_start(t);
	text_put(t->out, word);
	block_start(t);
	put_region(t, r);
	block_end(t);
}

static void put_loop_head(KTextOut *t, const KLoop *loop) {
	for (uint32_t i = 0; i < loop->rank; i++)
		put_loop_dim(t, &loop->dim[i]);
	if (loop->peeled || loop->peel || loop->ragged != NONE) {
		line_start(t);
		text_put(t->out, loop->peeled ? "peel " : "mask ");
		if (loop->ragged != NONE)
			ktext_value(t, loop->ragged);
		else
			text_put(t->out, "_");
		text_put(t->out, loop->peel ? " peel" : "");
		line_end(t);
	}
	if (loop->skew)
		put_option(t, "skew", loop->skew);
	if (loop->paired)
		put_line(t, "pairs");
	if (loop->across)
		put_line(t, "across");
	if (loop->once)
		put_line(t, "once");
	if (loop->fenced)
		put_line(t, "fenced");
	if (loop->lane_sums)
		put_line(t, "lane_sums");
	if (loop->unroll)
		put_option(t, "unroll", loop->unroll);
	if (loop->bodies.count) {
		line_start(t);
		text_put(t->out, "bodies");
		for (uint32_t i = 0; i < loop->bodies.count; i++)
			text_printf(t->out, " %lld", (long long)loop->bodies.at[i]);
		text_printf(t->out, " live %d columns %lld rows %lld", loop->live, (long long)loop->columns,
		            (long long)loop->rows);
		line_end(t);
	}
	if (loop->runs != NONE) {
		line_start(t);
		text_put(t->out, "runs ");
		ktext_ints(t, &loop->runs, 1);
		line_end(t);
	}
	for (uint32_t i = 0; i < loop->windows.count; i++)
		put_loop_window(t, &loop->windows.at[i]);
	for (uint32_t i = 0; i < loop->next.count; i++) {
		line_start(t);
		text_put(t->out, "next ");
		ktext_buffer(t, loop->next.at[i].by);
		text_put(t->out, " for ");
		ktext_buffer(t, loop->next.at[i].of);
		line_end(t);
	}
	for (uint32_t i = 0; i < loop->kept.count; i++) {
		line_start(t);
		text_put(t->out, "keep ");
		ktext_value(t, loop->kept.at[i].value);
		put_place(t, " in ", loop->kept.at[i].scratch);
		line_end(t);
	}
	put_loop_region(t, "before", loop->before);
	put_loop_region(t, "behind", loop->behind);
	put_loop_region(t, "tail", loop->tail);
}

/* Behind the statements, which give what is handed on. */
static void put_handed(KTextOut *t, const KLoop *loop) {
	for (uint32_t i = 0; i < loop->handed.count; i++) {
		const KHanded *h = &loop->handed.at[i];
		line_start(t);
		text_put(t->out, "hand ");
		ktext_value(t, h->value);
		put_place(t, " in ", h->scratch);
		put_place(t, " odd ", h->odd);
		line_end(t);
	}
}

static void put_loop(KTextOut *t, StmtId id) {
	const KStmt *s = kernel_stmt(t->k, id);
	const KLoop *loop = s->loop;
	ktext_name(t, loop->name);
	text_put(t->out, "(");
	for (uint32_t i = 0; i < loop->rank; i++) {
		text_put(t->out, i ? ", " : "");
		ktext_value(t, loop->dim[i].step);
	}
	text_printf(t->out, ") %s", loop_type_name(loop->type));
	if (loop->step_name) {
		text_put(t->out, " step ");
		ktext_name(t, loop->step_name);
	}
	put_carried(t, id, loop->carried.at, loop->carried.count, loop);
	put_types(t, s);
	put_words(t, s);
	block_start(t);
	put_loop_head(t, loop);
	put_region(t, s->body);
	put_handed(t, loop);
	block_end(t);
}

/* ---- any statement ---------------------------------------------------------------------------------------------- */

static void put_when(KTextOut *t, StmtId id) {
	const KStmt *s = kernel_stmt(t->k, id);
	ktext_args(t, id, 0);
	put_label(t, s);
}

/* Those with regions end their last line themselves. */
static bool put_with_region(KTextOut *t, StmtId id) {
	const KStmt *s = kernel_stmt(t->k, id);
	bool has = s->op == K_DEF || s->op == K_PIPELINE || s->op == K_LOOP || s->body != NONE;
	if (!has)
		return false;
	text_put(t->out, " ");
	switch (s->op) {
	case K_DEF: put_def(t, s); return true;
	case K_PIPELINE: put_pipeline(t, s); return true;
	case K_LOOP: put_loop(t, id); return true;
	case K_FOR: put_for(t, id); break;
	case K_IF: put_if(t, id); break;
	default: put_when(t, id); break;
	}
	put_types(t, s);
	put_body(t, s);
	return true;
}

static void put_plain(KTextOut *t, StmtId id) {
	const KStmt *s = kernel_stmt(t->k, id);
	if (s->op == K_CALL || s->op == K_WHILE) {
		text_put(t->out, " ");
		put_called(t, id, 0);
	} else if (s->op == K_FORI) {
		text_put(t->out, " ");
		ktext_arg(t, kernel_arg(t->k, id, 0));
		text_put(t->out, " ");
		if (s->int_count)
			text_printf(t->out, "unroll %lld ", (long long)s->ints[0]);
		put_called(t, id, 1);
	} else if (s->op == K_LAUNCH && s->int_count == 1) {
		text_printf(t->out, " kernel=%lld%s", (long long)s->ints[0], s->arg_count ? ", " : "");
		ktext_args(t, id, 0);
	} else {
		text_put(t->out, s->arg_count ? " " : "");
		if (s->op == K_DEBUG_PRINT) {
			text_put_json(t->out, s->text);
			text_put(t->out, ", ");
		}
		ktext_args(t, id, 0);
		ktext_attributes(t, id);
	}
	put_types(t, s);
	put_words(t, s);
	line_end(t);
}

static void put_stmt(KTextOut *t, StmtId id) {
	const KStmt *s = kernel_stmt(t->k, id);
	if (t->line_of_stmt)
		t->line_of_stmt[id] = t->line;
	line_start(t);
	put_results(t, s);
	text_put(t->out, kernel_op_name(t->k->arena, s->op));
	if (!put_with_region(t, id))
		put_plain(t, id);
}

static void put_region(KTextOut *t, RegionId r) {
	for (StmtId s = region_first(t->k, r); s != NONE; s = kernel_stmt(t->k, s)->next)
		put_stmt(t, s);
}

/* ---- signatures ------------------------------------------------------------------------------------------------- */

static void put_operand(KTextOut *t, const KBuffer *b) {
	bool whole = b->array && b->space != KSPACE_VMEM &&
	             (b->rank == 0 || memcmp(b->array, b->shape, b->rank * sizeof *b->array) == 0);
	if (b->array && !whole)
		ktext_numbers(t, " of [", b->array, b->rank, "]");
	if (b->index) {
		text_put(t->out, " at ");
		ktext_ints(t, b->index, b->rank);
	}
	if (b->buffers)
		text_printf(t->out, b->ahead ? " buffers %d ahead" : " buffers %d", b->buffers);
	if (b->role == BUFFER_OUT && b->alias != NONE) {
		text_put(t->out, " alias ");
		ktext_buffer(t, b->alias);
	}
	text_put(t->out, b->fused ? " fused" : b->half ? " half" : "");
}

static void put_buffer(KTextOut *t, BufferId id) {
	static const char *const words[] = {"in ", "out ", "scratch "};
	const KBuffer *b = &t->k->buffers.at[id];
	if (b->role == BUFFER_PARAMETER)
		return;
	line_start(t);
	text_put(t->out, words[b->role]);
	ktext_buffer(t, id);
	text_put(t->out, " ");
	ktext_buffer_type(t, b);
	if (b->role != BUFFER_SCRATCH)
		put_operand(t, b);
	line_end(t);
}

/* What the first and the last of the grid points that find a block are still to do. */
static void put_held(KTextOut *t, BufferId id) {
	const KHeld *held = t->k->buffers.at[id].held;
	int64_t dims[32];
	uint32_t count = 0;
	if (!held)
		return;
	line_start(t);
	text_put(t->out, "held ");
	ktext_buffer(t, id);
	if (held->fill) {
		text_put(t->out, " fill ");
		KArg value = karg_real(held->value);
		ktext_arg(t, &value);
	}
	if (held->copy) {
		text_put(t->out, " copy ");
		ktext_buffer(t, held->from);
	}
	if (held->sums != NONE) {
		text_put(t->out, " sums ");
		ktext_buffer(t, held->sums);
	}
	for (uint32_t d = 0; d < 32; d++)
		if (held->revisits >> d & 1)
			dims[count++] = d;
	ktext_numbers(t, " over (", dims, count, ")");
	line_end(t);
}

static void put_ring(KTextOut *t, const KRing *ring) {
	line_start(t);
	text_put(t->out, ring->scatter ? "ring scatter " : "ring gather ");
	ktext_buffer(t, ring->buffer);
	text_put(t->out, " ");
	ktext_name(t, ring->axis);
	text_printf(t->out, " %lld", (long long)ring->devices);
	if (ring->scatter)
		text_printf(t->out, " of %s in %s", dtype_name(ring->out), dtype_name(ring->travels));
	line_end(t);
}

static void put_signature(KTextOut *t) {
	Kernel *k = t->k;
	for (uint32_t i = 0; i < k->grid.count; i++) {
		line_start(t);
		text_put(t->out, "grid ");
		ktext_value(t, k->grid.at[i].at);
		text_printf(t->out, " %lld %s", (long long)k->grid.at[i].steps,
		            k->grid.at[i].parallel ? "parallel" : "arbitrary");
		line_end(t);
	}
	for (BufferId b = 0; b < k->buffers.count; b++)
		put_buffer(t, b);
	for (BufferId b = 0; b < k->buffers.count; b++)
		put_held(t, b);
	if (k->strips) {
		line_start(t);
		text_printf(t->out, "strips %lld %lld", (long long)k->strips->size, (long long)k->strips->width);
		if (k->strips->spread)
			text_printf(t->out, " spread %u", k->strips->spread);
		line_end(t);
	}
	if (k->vmem_limit)
		put_option(t, "vmem_limit", k->vmem_limit);
	if (k->cost) {
		line_start(t);
		text_printf(t->out, "cost_estimate flops %lld transcendentals %lld bytes %lld",
		            (long long)k->cost->flops, (long long)k->cost->transcendentals, (long long)k->cost->bytes);
		line_end(t);
	}
	if (k->mesh_axis) {
		line_start(t);
		text_put(t->out, "mesh ");
		ktext_name(t, k->mesh_axis);
		text_printf(t->out, " %lld", (long long)k->devices);
		line_end(t);
	}
	if (k->collective_id != -1)
		put_option(t, "collective_id", k->collective_id);
	if (k->sparse_cores) {
		line_start(t);
		text_printf(t->out, "sparse_core %lld %lld", (long long)k->sparse_cores, (long long)k->subcores);
		line_end(t);
	}
	if (k->unchecked)
		put_line(t, "unchecked");
	if (k->turns)
		put_line(t, "turns");
	if (k->blocks)
		put_line(t, "blocks");
	if (k->turn_once)
		put_line(t, "turn_once");
	if (k->unmasked)
		put_line(t, "unmasked");
	if (k->narrow)
		put_line(t, "narrow");
	if (k->chunks)
		put_line(t, "chunks");
	if (k->first_chunks)
		put_line(t, "first_chunks");
	if (k->pieces)
		put_line(t, "pieces");
	if (k->ring)
		put_ring(t, k->ring);
	kernel_walk(k, k->body, put_lines_of, t);
}

/* ---- kernels ---------------------------------------------------------------------------------------------------- */

static uint32_t *no_numbers(Arena *a, uint32_t count) {
	uint32_t *numbers = arena_array(a, count + 1, sizeof *numbers);
	for (uint32_t i = 0; i < count; i++)
		numbers[i] = NONE;
	return numbers;
}

static void kernel_start(KTextOut *t, Kernel *k) {
	t->k = k;
	t->value_number = no_numbers(k->arena, k->values.count);
	t->buffer_number = no_numbers(k->arena, k->buffers.count);
	t->function_number = no_numbers(k->arena, k->functions.count);
	t->next_number = 0;
	t->uses = kernel_uses(k);
	t->line_of = (Map){0};
	t->line_count = 0;
}

static void put_kernel(KTextOut *t, Kernel *k) {
	kernel_start(t, k);
	line_end(t);
	text_put(t->out, "kernel ");
	ktext_name(t, k->name);
	block_start(t);
	uint32_t before = t->line;
	put_signature(t);
	if (t->line > before && region_first(k, k->body) != NONE)
		line_end(t);
	put_region(t, k->body);
	block_end(t);
}

static void put_host(KTextOut *t, Kernel *k) {
	kernel_start(t, k);
	line_end(t);
	text_put(t->out, "host(");
	for (uint32_t i = 0; i < t->p->inputs.count; i++) {
		text_put(t->out, i ? ", " : "");
		ktext_value(t, i);
	}
	text_put(t->out, ")");
	block_start(t);
	put_signature(t);
	put_region(t, k->body);
	block_end(t);
}

/* ---- the program ------------------------------------------------------------------------------------------------ */

static void put_array(KTextOut *t, const char *word, const KArray *x) {
	text_printf(t->out, "%s ", word);
	ktext_name(t, x->name);
	text_put(t->out, " ");
	if (x->scalar)
		text_put(t->out, dtype_name(x->dtype));
	else
		ktext_array(t, x->dtype, x->rank, x->shape);
	line_end(t);
}

static void put_cost(KTextOut *t, const char *word, double x) {
	text_printf(t->out, " %s ", word);
	if (x >= 0 && x < 1e15 && (double)(int64_t)x == x)
		text_printf(t->out, "%lld", (long long)x);
	else
		text_put_double(t->out, x - x == 0 ? x : 0);
}

/* Nothing, where there are none. */
static void put_parts(KTextOut *t, const char *word, const KParts *parts) {
	for (uint32_t i = 0; i < parts->count; i++) {
		text_put(t->out, i ? "" : word);
		put_cost(t, parts->at[i].name, parts->at[i].value);
	}
	if (parts->count)
		line_end(t);
}

/* A line break of JSON is only between its parts. */
static void put_members(KTextOut *t, const char *word, const char *members) {
	text_printf(t->out, "%s ", word);
	for (const char *at = members; *at;) {
		size_t n = strcspn(at, "\r\n");
		text_putn(t->out, at, n);
		at += n;
		text_put(t->out, *at ? " " : "");
		at += *at != '\0';
	}
	line_end(t);
}

static void put_program(KTextOut *t) {
	const KProgram *p = t->p;
	text_put(t->out, "program ");
	ktext_name(t, p->name);
	text_put(t->out, " for ");
	ktext_name(t, p->target);
	line_end(t);
	for (uint32_t i = 0; i < p->inputs.count; i++)
		put_array(t, "input", &p->inputs.at[i]);
	for (uint32_t i = 0; i < p->outputs.count; i++)
		put_array(t, "output", &p->outputs.at[i]);
	if (p->config && *p->config)
		put_members(t, "config", p->config);
	if (p->sizes && *p->sizes)
		put_members(t, "sizes", p->sizes);
	for (uint32_t i = 0; i < p->axes.count; i++) {
		text_put(t->out, i ? " " : "axes ");
		ktext_name(t, p->axes.at[i].name);
		text_printf(t->out, " %lld", (long long)p->axes.at[i].devices);
	}
	if (p->axes.count)
		line_end(t);
	if (p->vmem_bytes != 0 || p->flops != 0 || p->hbm_bytes != 0) {
		text_printf(t->out, "cost vmem_bytes %lld", (long long)p->vmem_bytes);
		put_cost(t, "flops", p->flops);
		put_cost(t, "hbm_bytes", p->hbm_bytes);
		line_end(t);
	}
	put_parts(t, "vmem", &p->vmem);
	put_parts(t, "estimate", &p->estimate);
	for (uint32_t i = 0; i < p->kernels.count; i++) {
		t->line_of_stmt = t->line_of_stmts ? t->line_of_stmts[i] : NULL;
		put_kernel(t, p->kernels.at[i]);
	}
	t->line_of_stmt = t->line_of_stmts ? t->line_of_stmts[p->kernels.count] : NULL;
	if (p->host)
		put_host(t, p->host);
}

void kernels_emit_lines(const KProgram *p, Text *out, uint32_t *const *lines) {
	KTextOut t = {.out = out, .p = p, .line = 1, .line_of_stmts = lines};
	put_program(&t);
}

void kernels_emit_text(const KProgram *p, Text *out) { kernels_emit_lines(p, out, NULL); }
