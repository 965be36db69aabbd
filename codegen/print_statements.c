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
	py_comment(&pr->w,
	           again ? arena_printf(pr->a, "line %lld: %s", (long long)from->line, from->code) : from->code);
}

static void comment_stmt(Printer *pr, StmtId s) {
	print_comment(pr, kernel_stmt(pr->k, s)->from);
	print_comment(pr, kernel_stmt(pr->k, s)->also);
}

static const char *arg_text(Printer *pr, StmtId s, uint32_t i) {
	KArg arg = *kernel_arg(pr->k, s, i);
	return print_arg(pr, &arg).text;
}

static const char *value_text(Printer *pr, ValueId v) { return pr->k->values.at[v].var; }

/* Arguments from `first` on. */
static const char *args_text(Printer *pr, StmtId s, uint32_t first) {
	uint32_t count = kernel_stmt(pr->k, s)->arg_count;
	const char **items = arena_array(pr->a, count + 1, sizeof *items);
	for (uint32_t i = first; i < count; i++)
		items[i - first] = arg_text(pr, s, i);
	return list_text(pr, count - first, items);
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
	PyExpr e = print_expr(pr, s);
	py_line(&pr->w, "%s = %s", var, e.text);
}

/* Into this step's part of a block that several share. */
static void print_part_store(Printer *pr, StmtId s, const KRef *ref, const KDim *part) {
	const char *put = kernel_stmt(pr->k, s)->var, *value = arg_text(pr, s, 1);
	const char *before = part_text(pr, part);
	py_def(&pr->w);
	py_line(&pr->w, "def %s(part):", put);
	pr->w.indent++;
	py_line(&pr->w, "%s = %s", ref_text(pr, ref), value);
	pr->w.indent--;
	py_blank(&pr->w);
	py_line(&pr->w, "%s%s)", before, put);
}

static void print_store(Printer *pr, StmtId s) {
	const KRef *ref = &pr->k->refs.at[kernel_arg(pr->k, s, 0)->ref];
	const KDim *part = ref_part(ref);
	comment_stmt(pr, s);
	if (part) {
		print_part_store(pr, s, ref, part);
		return;
	}
	const char *value = arg_text(pr, s, 1);
	py_line(&pr->w, "%s = %s", ref_text(pr, ref), value);
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

static const char *target_text(Printer *pr, StmtId call, ValueId v) {
	if (value_text(pr, v))
		return value_text(pr, v);
	StmtId store = store_of(pr, call, v);
	if (store == NONE)
		return "_";
	pr->printed[store] = true;
	return ref_text(pr, &pr->k->refs.at[kernel_arg(pr->k, store, 0)->ref]);
}

static const char *targets_text(Printer *pr, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	const char **items = arena_array(pr->a, stmt->result_count + 1, sizeof *items);
	for (uint32_t i = 0; i < stmt->result_count; i++)
		items[i] = target_text(pr, s, stmt->result + i);
	return list_text(pr, stmt->result_count, items);
}

static void print_results(Printer *pr, StmtId s, const char *call) {
	const char *targets = targets_text(pr, s);
	py_statement(&pr->w, *targets ? arena_printf(pr->a, "%s = %s", targets, call) : call);
}

static void print_call(Printer *pr, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	bool copy = stmt->result_count == 1 && pr->k->values.at[stmt->result].type == KTYPE_COPY;
	if (copy && !value_text(pr, stmt->result))
		return;
	comment_stmt(pr, s);
	print_results(pr, s, print_expr(pr, s).text);
}

static void print_fori(Printer *pr, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	const char *initial = args_text(pr, s, 1);
	const char *init = stmt->arg_count == 1   ? "None"
	                   : stmt->arg_count == 2 ? initial
	                                          : arena_printf(pr->a, "(%s)", initial);
	print_results(pr, s,
	              arena_printf(pr->a, "jax.lax.fori_loop(0, %s, %s, %s)", arg_text(pr, s, 0),
	                           pr->k->functions.at[stmt->function].var, init));
}

static const char *pipeline_spec(Printer *pr, const KPipelineWindow *w, const char *at) {
	uint32_t rank = pr->k->buffers.at[w->of].rank;
	const char *items[KDIM_MAX];
	for (uint32_t d = 0; d < rank; d++)
		items[d] = int_text(pr, w->index[d], PREC_LOWEST);
	const char *index = arena_printf(pr->a, rank == 1 ? "(%s,)" : "(%s)", list_text(pr, rank, items));
	const char *mode = w->buffers == 2 ? "" : arena_printf(pr->a, ", pipeline_mode=pl.Buffered(%d)", w->buffers);
	return arena_printf(pr->a, "pl.BlockSpec(%s, lambda %s: %s%s)", shape_text(pr, rank, w->block), at, index,
	                    mode);
}

static void print_pipeline(Printer *pr, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	const KPipeline *p = stmt->pipeline;
	const char *at[RANK_MAX], *grid[RANK_MAX];
	const char **specs[2], **refs = arena_array(pr->a, p->windows.count + 1, sizeof *refs);
	uint32_t count[2] = {0, 0};
	for (int output = 0; output < 2; output++)
		specs[output] = arena_array(pr->a, p->windows.count + 1, sizeof **specs);
	for (uint32_t i = 0; i < p->rank; i++) {
		at[i] = value_text(pr, p->at[i]);
		grid[i] = int_text(pr, p->grid[i], PREC_LOWEST);
	}
	for (uint32_t w = 0; w < p->windows.count; w++) {
		const KPipelineWindow *win = &p->windows.at[w];
		specs[win->output][count[win->output]++] = pipeline_spec(pr, win, list_text(pr, p->rank, at));
		refs[w] = pr->k->buffers.at[win->of].var;
	}
	const char *ins = count[0] ? arena_printf(pr->a, "in_specs=[%s,],", list_text(pr, count[0], specs[0])) : "";
	const char *outs = count[1] ? arena_printf(pr->a, "out_specs=[%s,],", list_text(pr, count[1], specs[1])) : "";
	py_line(&pr->w, "%s = pltpu.emit_pipeline(%s, grid=(%s%s), %s%s%s)", stmt->var,
	        pr->k->functions.at[p->body].var, list_text(pr, p->rank, grid), p->rank == 1 ? "," : "", ins,
	        *ins && *outs ? " " : "", outs);
	py_line(&pr->w, "%s(%s)", stmt->var, list_text(pr, p->windows.count, refs));
}

/* ---- functions and regions -------------------------------------------------------------------------------------- */

static const char *parameters_text(Printer *pr, const KFunction *f) {
	const char **items = arena_array(pr->a, f->parameters.count + 1, sizeof *items);
	for (uint32_t i = 0; i < f->parameters.count; i++) {
		const KParameter *p = &f->parameters.at[i];
		items[i] = p->kind == PARAMETER_BUFFER ? pr->k->buffers.at[p->id].var : value_text(pr, p->id);
		if (p->kind == PARAMETER_FLAG)
			items[i] = arena_printf(pr->a, "%s=False", items[i]);
	}
	return list_text(pr, f->parameters.count, items);
}

/* What a fori carries comes as one argument. */
static void print_fori_head(Printer *pr, const KFunction *f) {
	uint32_t carried = f->parameters.count - 1;
	const char **items = arena_array(pr->a, carried + 1, sizeof *items);
	for (uint32_t i = 0; i < carried; i++)
		items[i] = value_text(pr, f->parameters.at[i + 1].id);
	py_line(&pr->w, "def %s(%s, %s):", f->var, value_text(pr, f->parameters.at[0].id),
	        carried == 1 ? items[0] : "carry");
	pr->w.indent++;
	if (carried > 1)
		py_line(&pr->w, "%s = carry", list_text(pr, carried, items));
	pr->w.indent--;
}

static void print_def(Printer *pr, StmtId s) {
	KFunction f = pr->k->functions.at[kernel_stmt(pr->k, s)->function];
	const char *outer = pr->fori_carry;
	py_def(&pr->w);
	comment_stmt(pr, s);
	pr->fori_carry = f.kind == FUNCTION_FORI ? "carry" : NULL;
	if (f.kind == FUNCTION_FORI)
		print_fori_head(pr, &f);
	else
		py_line(&pr->w, "def %s(%s):", f.var, parameters_text(pr, &f));
	pr->w.indent++;
	print_region(pr, f.body);
	pr->w.indent--;
	py_blank(&pr->w);
	pr->fori_carry = outer;
}

static void print_return(Printer *pr, StmtId s) {
	if (kernel_stmt(pr->k, s)->arg_count)
		py_line(&pr->w, "return %s", args_text(pr, s, 0));
	else if (pr->fori_carry)
		py_line(&pr->w, "return %s", pr->fori_carry);
}

static void print_when(Printer *pr, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	RegionId body = stmt->body;
	bool last = stmt->next == NONE;
	py_def(&pr->w);
	py_line(&pr->w, "@pl.when(%s)", arg_text(pr, s, 0));
	py_line(&pr->w, "def %s():", kernel_stmt(pr->k, s)->var);
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
	const char *step = each->unread ? "_" : value_text(pr, each->step), *slice = pr->slice;
	const char *from = each->from ? arena_printf(pr->a, "%lld, ", (long long)each->from) : "";
	print_carried(pr, s, 0, each->carried.at);
	py_line(&pr->w, "for %s in range(%s%s):", step, from, int_text(pr, each->end, PREC_LOWEST));
	pr->w.indent++;
	if (each->slice) {
		const char *at = kernel_stmt(pr->k, s)->var;
		IntId start = int_binary(pr->k, INT_MUL, int_value(pr->k, each->step), int_const(pr->k, each->slice));
		py_line(&pr->w, "%s = pl.ds(%s, %lld)", at, int_text(pr, start, PREC_LOWEST), (long long)each->slice);
		pr->slice = at;
		pr->slice_start = start;
		pr->slice_size = each->slice;
	}
	print_region(pr, kernel_stmt(pr->k, s)->body);
	pr->slice = slice;
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
	const char *values = args_text(pr, s, 1);
	py_line(&pr->w, kernel_stmt(pr->k, s)->arg_count == 2 ? "%s.append(%s)" : "%s.append((%s))", arg_text(pr, s, 0),
	        values);
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
	case K_PIPELINE: print_pipeline(pr, s); break;
	case K_PUSH: print_push(pr, s); break;
	case K_POP: print_results(pr, s, print_expr(pr, s).text); break;
	case K_START:
	case K_WAIT:
	case K_WAIT_SEND:
	case K_WAIT_RECV:
	case K_SIGNAL:
	case K_SEMAPHORE_WAIT: py_statement(&pr->w, print_expr(pr, s).text); break;
	default: print_assignment(pr, s); break;
	}
}

void print_region(Printer *pr, RegionId r) {
	size_t before = pr->w.out->length;
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
	py_line(&pr->w, "def _%s_kernel(%s):", pr->k->name, list_text(pr, count, items));
	pr->w.indent = 1;
	if (region_first(pr->k, pr->k->body) == NONE)
		py_line(&pr->w, "pass");
	print_region(pr, pr->k->body);
	pr->w.indent = 0;
}
