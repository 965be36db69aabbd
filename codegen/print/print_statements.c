/* print_statements.c - regions as Python: a statement a line, functions and what runs them. A value without a variable
 * stands in the one statement that reads it. */
#include "printer.h"

void print_comment(Printer *pr, const Location *from) {
	if (!from || !from->code || !from->code[strspn(from->code, " \t\r\n")])
		return;
	/* One comment per source line; lines that read alike are told apart by their numbers. */
	uint64_t line = map_key(from->code) * 31 + (uint64_t)from->line, text = map_key(from->code);
	if (map_get(&pr->commented, line) != NONE)
		return;
	bool again = map_get(&pr->commented, text) != NONE;
	map_put(pr->a, &pr->commented, line, 1);
	map_put(pr->a, &pr->commented, text, 1);
	size_t start = pr->w.out->length;
	py_comment(&pr->w,
	           again ? arena_printf(pr->a, "line %lld: %s", (long long)from->line, from->code) : from->code);
	py_link(&pr->w, start, from);
}

static void comment_stmt(Printer *pr, StmtId s) {
	print_comment(pr, kernel_stmt(pr->k, s)->from);
	print_comment(pr, kernel_stmt(pr->k, s)->also);
	py_about(&pr->w, kernel_stmt(pr->k, s)->from);
	py_about(&pr->w, kernel_stmt(pr->k, s)->also);
}

static const char *value_text(Printer *pr, ValueId v) { return pr->k->values.at[v].var; }

/* A statement that assigns begins so. */
static Text *open_assignment(Printer *pr, const char *var) {
	Text *out = py_open(&pr->w);
	text_put(out, var);
	text_put(out, " = ");
	return out;
}

/* ---- assignments ------------------------------------------------------------------------------------------------ */

static void print_choice(Printer *pr, StmtId s, const char *var) {
	const char *flag = arg_text(pr, s, 0), *yes = arg_text(pr, s, 1), *no = arg_text(pr, s, 2);
	py_choice(&pr->w, var, yes, flag, no);
}

static void print_assignment(Printer *pr, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	const char *var = value_text(pr, stmt->result);
	if (!var) {
		if (stmt->flags & KSTMT_SAID)
			print_comment(pr, stmt->from);
		return;
	}
	comment_stmt(pr, s);
	if (stmt->op == K_CHOOSE) {
		print_choice(pr, s, var);
		return;
	}
	put_expr(pr, open_assignment(pr, var), s);
	py_close(&pr->w);
}

/* Into this step's part of a block that several share. */
static void print_part_store(Printer *pr, StmtId s, const KRef *ref, const KDim *part) {
	const char *put = kernel_stmt(pr->k, s)->var, *value = arg_text(pr, s, 1);
	py_def(&pr->w);
	py_line(&pr->w, "def %s(part):", put);
	pr->w.indent++;
	put_ref(pr, py_open(&pr->w), ref);
	text_printf(&pr->w.line, " = %s", value);
	py_close(&pr->w);
	pr->w.indent--;
	py_blank(&pr->w);
	put_part(pr, py_open(&pr->w), part);
	text_printf(&pr->w.line, "%s)", put);
	py_close(&pr->w);
}

static void print_store(Printer *pr, StmtId s) {
	const KRef *ref = &pr->k->refs.at[kernel_arg(pr->k, s, 0)->ref];
	const KDim *part = ref_part(ref);
	comment_stmt(pr, s);
	if (part) {
		print_part_store(pr, s, ref, part);
		return;
	}
	KArg value = *kernel_arg(pr->k, s, 1);
	Text *out = py_open(&pr->w);
	put_ref(pr, out, ref);
	text_put(out, " = ");
	put_arg(pr, out, &value);
	py_close(&pr->w);
}

/* ---- calls ------------------------------------------------------------------------------------------------------ */

/* The store that puts a result without a variable where it belongs, among those that follow; NONE. */
static StmtId store_of(Printer *pr, StmtId call, ValueId v) {
	for (StmtId s = kernel_stmt(pr->k, call)->next; s != NONE && kernel_stmt(pr->k, s)->op == K_STORE;
	     s = kernel_stmt(pr->k, s)->next) {
		const KArg *x = kernel_arg(pr->k, s, 1);
		if (x->kind == KARG_VALUE && x->value == v)
			return s;
	}
	return NONE;
}

static void put_target(Printer *pr, Text *out, StmtId call, ValueId v) {
	StmtId store = value_text(pr, v) ? NONE : store_of(pr, call, v);
	if (store == NONE) {
		text_put(out, value_text(pr, v) ? value_text(pr, v) : "_");
		return;
	}
	pr->printed[store] = true;
	put_ref(pr, out, &pr->k->refs.at[kernel_arg(pr->k, store, 0)->ref]);
}

/* What takes the results; py_close() when the rest stands behind it. */
static Text *open_results(Printer *pr, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	Text *out = py_open(&pr->w);
	for (uint32_t i = 0; i < stmt->result_count; i++) {
		text_put(out, i ? ", " : "");
		put_target(pr, out, s, stmt->result + i);
	}
	text_put(out, stmt->result_count ? " = " : "");
	return out;
}

static void print_results(Printer *pr, StmtId s) {
	put_expr(pr, open_results(pr, s), s);
	py_close(&pr->w);
}

static void print_call(Printer *pr, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	bool copy = stmt->result_count == 1 && pr->k->values.at[stmt->result].type == KTYPE_COPY;
	if (copy && !value_text(pr, stmt->result))
		return;
	comment_stmt(pr, s);
	print_results(pr, s);
}

static void print_fori(Printer *pr, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	KArg steps = *kernel_arg(pr->k, s, 0);
	Text *out = open_results(pr, s);
	text_put(out, "jax.lax.fori_loop(0, ");
	put_arg(pr, out, &steps);
	text_printf(out, ", %s, ", pr->k->functions.at[stmt->function].var);
	text_put(out, stmt->arg_count == 1 ? "None" : stmt->arg_count == 2 ? "" : "(");
	put_args(pr, out, s, 1);
	text_put(out, stmt->arg_count > 2 ? ")" : "");
	if (stmt->int_count)
		text_printf(out, ", unroll=%lld", (long long)stmt->ints[0]);
	text_put(out, ")");
	py_close(&pr->w);
}

static bool is_bool(const Printer *pr, ValueId v) { return pr->k->values.at[v].dtype == DTYPE_BOOL; }

/* What a while carries, a bool as an int: Mosaic cannot pass a constant one on. */
static void put_handed_on(Printer *pr, Text *out, StmtId s, const KFunction *body) {
	for (uint32_t i = 0; i < kernel_stmt(pr->k, s)->arg_count; i++) {
		ValueId to = body->parameters.at[i].id;
		const char *x = arg_text(pr, s, i);
		text_put(out, i ? ", " : "");
		if (is_bool(pr, to))
			text_printf(out, pr->k->values.at[to].rank ? "(%s).astype(jnp.int32)" : "jnp.int32(%s)", x);
		else
			text_put(out, x);
	}
}

static void print_bool_again(Printer *pr, ValueId v) {
	const char *var = value_text(pr, v);
	if (is_bool(pr, v) && var && strcmp(var, "_") != 0)
		py_line(&pr->w, "%s = %s != 0", var, var);
}

static void print_while(Printer *pr, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	const KFunction *body = &pr->k->functions.at[stmt->function];
	bool one = stmt->arg_count == 1;
	Text *out = open_results(pr, s);
	text_printf(out, "jax.lax.while_loop(lambda carry: carry%s != 0, %s, %s", one ? "" : "[0]", body->var,
	            one ? "" : "(");
	put_handed_on(pr, out, s, body);
	text_put(out, one ? ")" : "))");
	py_close(&pr->w);
	for (uint32_t i = 0; i < stmt->result_count; i++)
		print_bool_again(pr, stmt->result + i);
}

static void put_window(Printer *pr, Text *out, const KPipelineWindow *w, const char *at) {
	uint32_t rank = pr->k->buffers.at[w->of].rank;
	text_put(out, "pl.BlockSpec(");
	put_shape(out, rank, w->block);
	text_printf(out, ", lambda %s: (", at);
	for (uint32_t d = 0; d < rank; d++) {
		text_put(out, d ? ", " : "");
		put_int(pr, out, w->index[d]);
	}
	text_put(out, rank == 1 ? ",)" : ")");
	if (w->ahead)
		text_printf(out, ", pipeline_mode=pl.Buffered(%d, use_lookahead=True)", w->buffers);
	else if (w->buffers != 2)
		text_printf(out, ", pipeline_mode=pl.Buffered(%d)", w->buffers);
	text_put(out, ")");
}

/* `in_specs=[...],`, or of the outputs. */
static void put_windows(Printer *pr, Text *out, const KPipeline *p, bool output, const char *at) {
	bool any = false;
	for (uint32_t w = 0; w < p->windows.count; w++) {
		if (p->windows.at[w].output != output)
			continue;
		text_put(out, any ? ", " : output ? " out_specs=[" : " in_specs=[");
		put_window(pr, out, &p->windows.at[w], at);
		any = true;
	}
	text_put(out, any ? ",]," : "");
}

static void print_pipeline(Printer *pr, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	const KPipeline *p = stmt->pipeline;
	Text at, *out = open_assignment(pr, stmt->var);
	text_init(&at, pr->a);
	for (uint32_t i = 0; i < p->rank; i++)
		text_printf(&at, i ? ", %s" : "%s", value_text(pr, p->at[i]));
	text_printf(out, "pltpu.emit_pipeline(%s, grid=(", pr->k->functions.at[p->body].var);
	for (uint32_t i = 0; i < p->rank; i++) {
		text_put(out, i ? ", " : "");
		put_int(pr, out, p->grid[i]);
	}
	text_put(out, p->rank == 1 ? ",)," : "),");
	put_windows(pr, out, p, false, at.at);
	put_windows(pr, out, p, true, at.at);
	text_put(out, ")");
	py_close(&pr->w);
	out = py_open(&pr->w);
	text_printf(out, "%s(", stmt->var);
	for (uint32_t w = 0; w < p->windows.count; w++)
		text_printf(out, w ? ", %s" : "%s", pr->k->buffers.at[p->windows.at[w].of].var);
	text_put(out, ")");
	py_close(&pr->w);
}

/* ---- functions and regions -------------------------------------------------------------------------------------- */

static void print_function_head(Printer *pr, const KFunction *f) {
	Text *out = py_open(&pr->w);
	text_printf(out, "def %s(", f->var);
	for (uint32_t i = 0; i < f->parameters.count; i++) {
		const KParameter *p = &f->parameters.at[i];
		text_put(out, i ? ", " : "");
		text_put(out, p->kind == PARAMETER_BUFFER ? pr->k->buffers.at[p->id].var : value_text(pr, p->id));
		text_put(out, p->kind == PARAMETER_FLAG ? "=False" : "");
	}
	text_put(out, "):");
	py_close(&pr->w);
}

/* What a fori or a while carries comes as one argument. */
static void print_loop_head(Printer *pr, const KFunction *f) {
	uint32_t first = f->kind == FUNCTION_FORI, carried = f->parameters.count - first;
	py_line(&pr->w, "def %s(%s%s%s):", f->var, first ? value_text(pr, f->parameters.at[0].id) : "",
	        first ? ", " : "", carried == 1 ? value_text(pr, f->parameters.at[first].id) : "carry");
	if (carried <= 1)
		return;
	pr->w.indent++;
	Text *out = py_open(&pr->w);
	for (uint32_t i = 0; i < carried; i++) {
		text_put(out, i ? ", " : "");
		text_put(out, value_text(pr, f->parameters.at[i + first].id));
	}
	text_put(out, " = carry");
	py_close(&pr->w);
	pr->w.indent--;
}

static void print_def(Printer *pr, StmtId s) {
	KFunction f = pr->k->functions.at[kernel_stmt(pr->k, s)->function];
	const char *outer = pr->fori_carry;
	const KFunction *around = pr->while_body;
	py_def(&pr->w);
	comment_stmt(pr, s);
	pr->fori_carry = f.kind == FUNCTION_FORI ? "carry" : NULL;
	if (f.kind != FUNCTION_PLAIN)
		print_loop_head(pr, &f);
	else
		print_function_head(pr, &f);
	pr->w.indent++;
	pr->while_body = f.kind == FUNCTION_WHILE ? &f : NULL;
	for (uint32_t i = 0; pr->while_body && i < f.parameters.count; i++)
		print_bool_again(pr, f.parameters.at[i].id);
	print_region(pr, f.body);
	pr->w.indent--;
	py_blank(&pr->w);
	pr->while_body = around;
	pr->fori_carry = outer;
}

static void print_return(Printer *pr, StmtId s) {
	if (kernel_stmt(pr->k, s)->arg_count) {
		Text *out = py_open(&pr->w);
		text_put(out, "return ");
		if (pr->while_body)
			put_handed_on(pr, out, s, pr->while_body);
		else
			put_args(pr, out, s, 0);
		py_close(&pr->w);
	} else if (pr->fori_carry) {
		py_line(&pr->w, "return %s", pr->fori_carry);
	}
}

static void print_when(Printer *pr, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	RegionId body = stmt->body;
	bool last = stmt->next == NONE;
	StmtId owner = pr->k->regions.at[stmt->region].owner;
	const KFor *each =
		owner != NONE && region_first(pr->k, stmt->region) == s ? kernel_stmt(pr->k, owner)->each : NULL;
	if (each)
		py_blank(&pr->w);
	else
		py_def(&pr->w);
	py_line(&pr->w, "@pl.when(%s)", arg_text(pr, s, 0));
	if (each && !each->unread) { /* the step that the Python loop is in now */
		const char *step = value_text(pr, each->step);
		py_line(&pr->w, "def %s(%s=%s):", stmt->var, step, step);
	} else {
		py_line(&pr->w, "def %s():", stmt->var);
	}
	pr->w.indent++;
	print_region(pr, body);
	pr->w.indent--;
	if (!last)
		py_blank(&pr->w);
}

/* What a region yields, for the variables that hold it: by value from `first` on, or by `carried`. */
static void print_yield(Printer *pr, StmtId s) {
	StmtId owner = pr->k->regions.at[kernel_stmt(pr->k, s)->region].owner;
	const KStmt *stmt = kernel_stmt(pr->k, owner);
	for (uint32_t i = 0; i < kernel_stmt(pr->k, s)->arg_count; i++) {
		ValueId to = stmt->op == K_FOR ? stmt->each->carried.at[i] : stmt->result + i;
		const char *x = arg_text(pr, s, i), *var = value_text(pr, to);
		if (strcmp(x, var) != 0)
			py_line(&pr->w, "%s = %s", var, x);
	}
}

static void print_carried(Printer *pr, StmtId s, uint32_t first, const ValueId *to) {
	for (uint32_t i = first; i < kernel_stmt(pr->k, s)->arg_count; i++) {
		const char *x = arg_text(pr, s, i), *var = value_text(pr, to[i - first]);
		if (strcmp(x, var) != 0)
			py_line(&pr->w, "%s = %s", var, x);
	}
}

static void print_for(Printer *pr, StmtId s) {
	const KFor *each = kernel_stmt(pr->k, s)->each;
	const char *step = each->unread ? "_" : value_text(pr, each->step);
	const Slice *outer = pr->slice;
	print_carried(pr, s, 0, each->carried.at);
	Text *out = py_open(&pr->w);
	text_printf(out, "for %s in range(", step);
	if (each->from)
		text_printf(out, "%lld, ", (long long)each->from);
	put_int(pr, out, each->end);
	text_put(out, "):");
	py_close(&pr->w);
	pr->w.indent++;
	if (each->slice) {
		const char *at = kernel_stmt(pr->k, s)->var;
		IntId start = int_binary(pr->k, INT_MUL, int_value(pr->k, each->step), int_const(pr->k, each->slice));
		out = open_assignment(pr, at);
		text_put(out, "pl.ds(");
		put_int(pr, out, start);
		text_printf(out, ", %lld)", (long long)each->slice);
		py_close(&pr->w);
		Slice *slice = arena_alloc(pr->a, sizeof *slice);
		*slice = (Slice){start, each->slice, at, outer};
		pr->slice = slice;
	}
	print_region(pr, kernel_stmt(pr->k, s)->body);
	pr->slice = outer;
	pr->w.indent--;
}

static void print_if(Printer *pr, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	ValueId *results = arena_array(pr->a, stmt->result_count + 1, sizeof *results);
	for (uint32_t i = 0; i < stmt->result_count; i++)
		results[i] = stmt->result + i;
	print_carried(pr, s, 1, results);
	py_line(&pr->w, "if %s:", arg_text(pr, s, 0));
	pr->w.indent++;
	print_region(pr, kernel_stmt(pr->k, s)->body);
	pr->w.indent--;
}

static void print_push(Printer *pr, StmtId s) {
	KArg queue = *kernel_arg(pr->k, s, 0);
	bool several = kernel_stmt(pr->k, s)->arg_count != 2;
	Text *out = py_open(&pr->w);
	put_arg(pr, out, &queue);
	text_put(out, several ? ".append((" : ".append(");
	put_args(pr, out, s, 1);
	text_put(out, several ? "))" : ")");
	py_close(&pr->w);
}

/* `_debug_print("m_new tile_m j", m_new, tile_m, j)`. */
static void print_debug(Printer *pr, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	Text *out = py_open(&pr->w);
	text_put(out, helper_named(pr, stmt->ints[0] ? "_debug_print_all" : "_debug_print"));
	text_put(out, "(");
	py_put_string(out, stmt->text);
	text_put(out, ", ");
	put_args(pr, out, s, 0);
	text_put(out, ")");
	py_close(&pr->w);
}

static void print_stmt(Printer *pr, StmtId s) {
	switch (kernel_stmt(pr->k, s)->op) {
	case K_STORE: print_store(pr, s); break;
	case K_DEF: print_def(pr, s); break;
	case K_CALL: print_call(pr, s); break;
	case K_RETURN: print_return(pr, s); break;
	case K_FOR: print_for(pr, s); break;
	case K_YIELD: print_yield(pr, s); break;
	case K_WHEN: print_when(pr, s); break;
	case K_IF: print_if(pr, s); break;
	case K_FORI: print_fori(pr, s); break;
	case K_WHILE: print_while(pr, s); break;
	case K_PIPELINE: print_pipeline(pr, s); break;
	case K_PUSH: print_push(pr, s); break;
	case K_POP: print_results(pr, s); break;
	case K_DEBUG_PRINT: print_debug(pr, s); break;
	case K_START:
	case K_WAIT:
	case K_WAIT_SEND:
	case K_WAIT_RECV:
	case K_SIGNAL:
	case K_SEMAPHORE_WAIT:
		put_expr(pr, py_open(&pr->w), s);
		py_close(&pr->w);
		break;
	default: print_assignment(pr, s); break;
	}
}

/* ---- scopes: --named-scopes ------------------------------------------------------------------------------------- */

/* What Python calls what a statement makes or stores to; NULL: it is no line of its own. */
static const char *made_name(Printer *pr, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	if (pr->printed[s])
		return NULL;
	if (stmt->op == K_STORE)
		return pr->k->buffers.at[pr->k->refs.at[kernel_arg(pr->k, s, 0)->ref].buffer].var;
	bool assigns = kernel_op_kind(stmt->op) == KIND_PURE || stmt->op == K_LOAD;
	return assigns && stmt->result != NONE ? value_text(pr, stmt->result) : NULL;
}

static bool same_line(const Location *a, const Location *b) {
	return a == b || (a && b && a->line == b->line && a->file == b->file);
}

/* `with jax.named_scope("attention.py:40 m_new"):`, after what the source line gives in the end. */
static void open_scope(Printer *pr, StmtId s) {
	const Location *from = kernel_stmt(pr->k, s)->from;
	const char *name = NULL, *file = from->file ? from->file : "line";
	for (; s != NONE; s = kernel_stmt(pr->k, s)->next) {
		const char *made = made_name(pr, s);
		if (made && !same_line(from, kernel_stmt(pr->k, s)->from))
			break;
		name = made ? made : name;
	}
	const char *slash = strrchr(file, '/');
	Text *out = py_open(&pr->w);
	text_put(out, "with jax.named_scope(");
	py_put_string(out, arena_printf(pr->a, "%s%c%lld %s", slash ? slash + 1 : file, from->file ? ':' : ' ',
	                                (long long)from->line, name));
	text_put(out, "):");
	py_close(&pr->w);
	pr->w.indent++;
}

/* The statements of a region; those of one source line that stand together in a scope of its name. */
static void print_in_scopes(Printer *pr, RegionId r) {
	const Location *open = NULL;
	for (StmtId s = region_first(pr->k, r); s != NONE; s = kernel_stmt(pr->k, s)->next) {
		const Location *from = kernel_stmt(pr->k, s)->from;
		bool line = made_name(pr, s) && from && from->line;
		bool silent = !made_name(pr, s) && kernel_op_kind(kernel_stmt(pr->k, s)->op) == KIND_PURE &&
		              !(kernel_stmt(pr->k, s)->flags & KSTMT_SAID);
		if (open && !silent && !(line && same_line(open, from))) {
			pr->w.indent--;
			open = NULL;
		}
		if (line && !open) {
			open_scope(pr, s);
			open = from;
		}
		if (!pr->printed[s])
			print_stmt(pr, s);
	}
	pr->w.indent -= open != NULL;
}

void print_region(Printer *pr, RegionId r) {
	size_t before = pr->w.out->length;
	if (pr->program->named_scopes && pr->k != pr->program->host)
		print_in_scopes(pr, r);
	else
		for (StmtId s = region_first(pr->k, r); s != NONE; s = kernel_stmt(pr->k, s)->next)
			if (!pr->printed[s])
				print_stmt(pr, s);
	if (pr->w.out->length == before)
		py_line(&pr->w, "pass");
}

/* ---- the kernel's function -------------------------------------------------------------------------------------- */

void print_kernel(Printer *pr) {
	const char **items = arena_array(pr->a, pr->k->buffers.count + 1, sizeof *items);
	uint32_t count = 0;
	for (BufferId b = 0; b < pr->k->buffers.count; b++)
		if (pr->k->buffers.at[b].role != BUFFER_PARAMETER)
			items[count++] = pr->k->buffers.at[b].var;
	pr->printed = arena_array(pr->a, pr->k->stmts.count + 1, sizeof *pr->printed);
	pr->w.indent = 0;
	Text *out = py_open(&pr->w);
	text_printf(out, "def _%s_kernel(", pr->k->name);
	put_list(out, count, items);
	text_put(out, "):");
	py_close(&pr->w);
	pr->w.indent = 1;
	if (region_first(pr->k, pr->k->body) == NONE)
		py_line(&pr->w, "pass");
	for (BufferId b = 0; b < pr->k->buffers.count; b++)
		if (pr->k->buffers.at[b].half)
			py_line(&pr->w, "%s = %s(%s)", pr->k->buffers.at[b].var, helper_named(pr, "_float16_ref"),
			        pr->k->buffers.at[b].var);
	print_region(pr, pr->k->body);
	pr->w.indent = 0;
}
