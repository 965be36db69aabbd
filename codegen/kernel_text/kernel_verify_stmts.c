/* kernel_verify_stmts.c - statements that are not pure: memory, copies, functions, what holds regions, launches. */
#include "kernel_verifier.h"

static const KArg *arg_at(const Verifier *v, uint32_t i) { return kernel_arg(v->k, v->stmt, i); }

static bool counts(Verifier *v, uint32_t args, uint32_t results) {
	const KStmt *s = kernel_stmt(v->k, v->stmt);
	if (s->arg_count != args)
		return kverify_error(v, "kernel-arguments", NULL, "it has %u argument%s and takes %u", s->arg_count,
		                     s->arg_count == 1 ? "" : "s", args);
	if (s->result_count != results)
		return kverify_error(v, "kernel-structure", NULL, "it has %u result%s and gives %u", s->result_count,
		                     s->result_count == 1 ? "" : "s", results);
	return true;
}

/* The buffer that argument i is a part of, with the part's shape; NULL after a diagnostic. */
static const KBuffer *ref_at(Verifier *v, uint32_t i, const char *what, uint32_t *rank, int64_t *shape) {
	const KArg *arg = arg_at(v, i);
	if (arg->kind != KARG_REF) {
		kverify_error(v, "kernel-arguments", NULL, "argument %u must be %s: a reference", i, what);
		return NULL;
	}
	*rank = kernel_ref_shape(v->k, arg->ref, shape);
	return &v->k->buffers.at[v->k->refs.at[arg->ref].buffer];
}

static const KValue *value_of(const Verifier *v, const KArg *arg) {
	return arg->kind == KARG_VALUE ? &v->k->values.at[arg->value] : NULL;
}

static bool is_number(const KArg *arg) {
	return arg->kind == KARG_INTEGER || arg->kind == KARG_REAL || arg->kind == KARG_BOOL || arg->kind == KARG_INT;
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static bool readable(Verifier *v, const KBuffer *b) {
	if (b->space == KSPACE_VMEM || b->space == KSPACE_SMEM || b->space == KSPACE_PREFETCH)
		return true;
	return kverify_error(v, "kernel-type", "copy it to scratch in vmem",
	                     "what is in hbm cannot be loaded or stored");
}

static bool kverify_load(Verifier *v) {
	uint32_t rank;
	int64_t shape[KDIM_MAX];
	if (!counts(v, 1, 1))
		return false;
	const KBuffer *b = ref_at(v, 0, "what is loaded", &rank, shape);
	if (!b || !readable(v, b))
		return false;
	ValueId r = kernel_stmt(v->k, v->stmt)->result;
	const KValue *x = &v->k->values.at[r];
	if (x->dtype != b->dtype || !kernel_same_shape(rank, shape, x->rank, x->shape))
		return kverify_error(v, "kernel-type", "state what is loaded, and convert it then",
		                     "it loads %s and states %s", kverify_type_text(v, b->dtype, rank, shape),
		                     kverify_value_type(v, r));
	return true;
}

static bool kverify_store(Verifier *v) {
	uint32_t rank;
	int64_t shape[KDIM_MAX];
	if (!counts(v, 2, 0))
		return false;
	const KBuffer *b = ref_at(v, 0, "what is stored to", &rank, shape);
	if (!b || !readable(v, b))
		return false;
	if (b->role == BUFFER_IN)
		return kverify_error(v, "kernel-type", "store to an output or to scratch", "it stores to an input");
	const KArg *arg = arg_at(v, 1);
	const KValue *x = value_of(v, arg);
	if (!x && (!is_number(arg) || rank))
		return kverify_error(v, "kernel-type", "broadcast it first", "it stores no value to %s",
		                     kverify_type_text(v, b->dtype, rank, shape));
	if (x && (x->dtype != b->dtype || !kernel_same_shape(rank, shape, x->rank, x->shape)))
		return kverify_error(v, "kernel-type", "convert or reshape it first", "it stores %s to %s",
		                     kverify_value_type(v, arg->value), kverify_type_text(v, b->dtype, rank, shape));
	return true;
}

/* ---- copies and semaphores -------------------------------------------------------------------------------------- */

static bool semaphore_at(Verifier *v, uint32_t i, KSpace space) {
	uint32_t rank;
	int64_t shape[KDIM_MAX];
	const KArg *arg = arg_at(v, i);
	const KValue *x = value_of(v, arg);
	if (x && space == KSPACE_REGULAR && x->type == KTYPE_SCALAR && x->dtype >= DTYPE_COUNT)
		return true;
	const KBuffer *b = ref_at(v, i, "a semaphore", &rank, shape);
	if (!b)
		return false;
	bool one = true;
	for (uint32_t d = 0; d < rank; d++)
		one = one && shape[d] == 1;
	if (b->space != space || !one)
		return kverify_error(v, "kernel-type", NULL, "argument %u is not one semaphore %s", i,
		                     space == KSPACE_DMA ? "of copies" : "that is counted");
	return true;
}

static bool device_at(Verifier *v, uint32_t i) {
	if (v->k->mesh_axis)
		return true;
	(void)i;
	return kverify_error(v, "kernel-signature", "say `mesh AXIS DEVICES` in the signature",
	                     "the kernel runs on no mesh");
}

static bool count_at(Verifier *v, uint32_t i) {
	const KArg *arg = arg_at(v, i);
	const KValue *x = value_of(v, arg);
	if (x ? x->rank == 0 && x->type != KTYPE_COPY : arg->kind == KARG_INTEGER || arg->kind == KARG_INT)
		return true;
	return kverify_error(v, "kernel-type", NULL, "argument %u must be an int", i);
}

static bool gives_copy(Verifier *v, const KBuffer *to) {
	if (to->role == BUFFER_IN)
		return kverify_error(v, "kernel-type", "copy to an output or to scratch", "it copies to an input");
	if (v->k->values.at[kernel_stmt(v->k, v->stmt)->result].type != KTYPE_COPY)
		return kverify_error(v, "kernel-type", "state `: copy`", "it gives a copy");
	return true;
}

static bool kverify_copy(Verifier *v, bool remote) {
	uint32_t rank[2];
	int64_t shape[2][KDIM_MAX];
	if (!counts(v, remote ? 5 : 3, 1))
		return false;
	const KBuffer *from = ref_at(v, 0, "what is copied", &rank[0], shape[0]);
	const KBuffer *to = from ? ref_at(v, 1, "where it is copied to", &rank[1], shape[1]) : NULL;
	if (!to || !semaphore_at(v, 2, KSPACE_DMA) || (remote && !semaphore_at(v, 3, KSPACE_DMA)))
		return false;
	if (from->dtype != to->dtype || !kernel_same_shape(rank[0], shape[0], rank[1], shape[1]))
		return kverify_error(v, "kernel-type", "both ends of a copy have one dtype and shape",
		                     "it copies %s to %s", kverify_type_text(v, from->dtype, rank[0], shape[0]),
		                     kverify_type_text(v, to->dtype, rank[1], shape[1]));
	return gives_copy(v, to) && (!remote || (count_at(v, 4) && device_at(v, 4)));
}

/* One row of `to` for each position in the table. */
static bool kverify_gather_copy(Verifier *v) {
	uint32_t rank[3];
	int64_t shape[3][KDIM_MAX];
	if (!counts(v, 4, 1))
		return false;
	const KBuffer *from = ref_at(v, 0, "what is gathered from", &rank[0], shape[0]);
	const KBuffer *table = from ? ref_at(v, 1, "the table of rows", &rank[1], shape[1]) : NULL;
	const KBuffer *to = table ? ref_at(v, 2, "where it is gathered to", &rank[2], shape[2]) : NULL;
	if (!to || !semaphore_at(v, 3, KSPACE_DMA))
		return false;
	if (!v->k->sparse_cores || from->space != KSPACE_HBM || table->space != KSPACE_VMEM || to->space != KSPACE_VMEM)
		return kverify_error(v, "kernel-type", NULL,
		                     "a SparseCore gathers from hbm to vmem, by a table in vmem");
	if (table->dtype != DTYPE_I32 || rank[1] != 1)
		return kverify_error(v, "kernel-type", NULL, "the table is %s, no int32[n]",
		                     kverify_type_text(v, table->dtype, rank[1], shape[1]));
	shape[0][0] = shape[1][0];
	if (rank[0] == 0 || from->dtype != to->dtype || !kernel_same_shape(rank[0], shape[0], rank[2], shape[2]))
		return kverify_error(v, "kernel-type", NULL, "it gathers %s to %s",
		                     kverify_type_text(v, from->dtype, rank[0], shape[0]),
		                     kverify_type_text(v, to->dtype, rank[2], shape[2]));
	return gives_copy(v, to);
}

static bool kverify_of_copy(Verifier *v) {
	if (!counts(v, 1, 0))
		return false;
	const KValue *x = value_of(v, arg_at(v, 0));
	if (!x || x->type != KTYPE_COPY)
		return kverify_error(v, "kernel-type", NULL, "its argument is no copy");
	return true;
}

/* Of what a TPU prints: a tile of words or a scalar, then ints. */
static bool kverify_debug_print(Verifier *v) {
	const KStmt *s = kernel_stmt(v->k, v->stmt);
	if (s->arg_count == 0 || s->result_count)
		return kverify_error(v, "kernel-arguments", NULL, "it prints one value, and gives none");
	const KValue *x = value_of(v, arg_at(v, 0));
	bool word = x && (x->dtype == DTYPE_F32 || x->dtype == DTYPE_I32) &&
	            (x->type == KTYPE_TILE || x->type == KTYPE_SCALAR || x->type == KTYPE_INT);
	if (!word && arg_at(v, 0)->kind != KARG_INT && arg_at(v, 0)->kind != KARG_INTEGER)
		return kverify_error(v, "kernel-type", "convert it to float32 or int32 first",
		                     "argument 0 must be an int, or of float32 or int32");
	for (uint32_t i = 1; i < s->arg_count; i++)
		if (!count_at(v, i))
			return false;
	return true;
}

static bool kverify_async(Verifier *v, uint16_t op) {
	switch (op) {
	case K_DEBUG_PRINT: return kverify_debug_print(v);
	case K_COPY:
	case K_REMOTE_COPY: return kverify_copy(v, op == K_REMOTE_COPY);
	case K_GATHER_COPY: return kverify_gather_copy(v);
	case K_SIGNAL:
		return counts(v, 3, 0) && semaphore_at(v, 0, KSPACE_REGULAR) && count_at(v, 1) &&
		       (arg_at(v, 2)->kind == KARG_NONE || (count_at(v, 2) && device_at(v, 2)));
	case K_SEMAPHORE_WAIT: return counts(v, 2, 0) && semaphore_at(v, 0, KSPACE_REGULAR) && count_at(v, 1);
	case K_BARRIER:
		if (v->k->collective_id < 0)
			return kverify_error(v, "kernel-signature", "say `collective_id N` in the signature",
			                     "the kernel has no barrier");
		return counts(v, 0, 1);
	default: return kverify_of_copy(v);
	}
}

/* ---- functions -------------------------------------------------------------------------------------------------- */

static bool function_fits(Verifier *v, FunctionId f) {
	if (f < v->k->functions.count && v->function_seen[f])
		return true;
	return kverify_error(v, "kernel-undefined", NULL, "the function is not defined here");
}

/* A bool that says at run time whether a loop goes on. */
static bool is_flag(const Verifier *v, ValueId id) {
	const KValue *x = &v->k->values.at[id];
	return x->type == KTYPE_SCALAR && x->rank == 0 && x->dtype == DTYPE_BOOL;
}

static bool kverify_def(Verifier *v) {
	const KStmt *s = kernel_stmt(v->k, v->stmt);
	StmtId def = v->stmt;
	if (s->function >= v->k->functions.count || v->function_seen[s->function])
		return kverify_error(v, "kernel-structure", NULL, "the function is not there, or defined twice");
	const KFunction *f = &v->k->functions.at[s->function];
	VerifyMark mark = kverify_mark(v);
	uint32_t outer = v->grid_rank;
	const KLoop *loop = v->loop;
	v->loop = NULL;
	v->grid_rank = v->pipeline_rank[s->function] ? v->pipeline_rank[s->function] : outer;
	bool values = f->parameters.count > 0;
	for (uint32_t i = 0; i < f->parameters.count; i++)
		values = values && f->parameters.at[i].kind == PARAMETER_VALUE;
	if (f->kind == FUNCTION_FORI && !values)
		kverify_error(v, "kernel-structure", NULL, "the body of a fori takes the step and what is carried");
	if (f->kind == FUNCTION_WHILE && (!values || !is_flag(v, f->parameters.at[0].id)))
		kverify_error(v, "kernel-structure", NULL, "the body of a while takes what is carried, a bool first");
	for (uint32_t i = 1; i < f->parameters.count; i++)
		if (f->parameters.at[i - 1].kind == PARAMETER_FLAG && f->parameters.at[i].kind != PARAMETER_FLAG)
			kverify_error(v, "kernel-structure", NULL, "its flags come last");
	for (uint32_t i = 0; i < f->parameters.count; i++) {
		if (f->parameters.at[i].kind == PARAMETER_BUFFER)
			kverify_define_buffer(v, f->parameters.at[i].id);
		else
			kverify_define_value(v, f->parameters.at[i].id);
	}
	kverify_region(v, f->body, K_RETURN);
	StmtId last = v->k->regions.at[f->body].last;
	v->returns[s->function] = last != NONE && kernel_stmt(v->k, last)->op == K_RETURN ? last : NONE;
	v->grid_rank = outer;
	v->loop = loop;
	v->stmt = def;
	kverify_leave(v, mark);
	v->function_seen[s->function] = true;
	vec_push(v->d->arena, &v->functions, s->function);
	return true;
}

static const char *parameter_name(const Verifier *v, const KParameter *x) {
	const char *name = x->kind == PARAMETER_BUFFER ? kverify_buffer_name(v, x->id) : kverify_value_name(v, x->id);
	return arena_printf(v->d->arena, "parameter %s", name);
}

static bool passes_buffer(Verifier *v, uint32_t i, const KParameter *x) {
	uint32_t rank;
	int64_t shape[KDIM_MAX];
	const char *what = parameter_name(v, x);
	const KBuffer *from = ref_at(v, i, what, &rank, shape), *to = &v->k->buffers.at[x->id];
	if (!from)
		return false;
	bool semaphore = to->space == KSPACE_DMA || to->space == KSPACE_REGULAR;
	bool same = from->space == to->space && (semaphore || from->dtype == to->dtype);
	if (!same || !kernel_same_shape(rank, shape, to->rank, to->shape))
		return kverify_error(v, "kernel-type", NULL, "%s is %s, and it is called with %s%s", what,
		                     kverify_type_text(v, to->dtype, to->rank, to->shape),
		                     kverify_type_text(v, from->dtype, rank, shape),
		                     from->space == to->space ? "" : " of another space");
	return true;
}

static bool passes_flag(Verifier *v, const KArg *arg, ValueId flag) {
	if (arg->kind == KARG_VALUE && arg->value == flag)
		return true;
	const KValue *x = value_of(v, arg);
	if (x ? x->rank == 0 : arg->kind != KARG_REF && arg->kind != KARG_REAL)
		return true;
	return kverify_error(v, "kernel-type", NULL, "a flag is called with something else");
}

static bool passes(Verifier *v, uint32_t i, const KParameter *x) {
	if (x->kind == PARAMETER_BUFFER)
		return passes_buffer(v, i, x);
	if (x->kind == PARAMETER_FLAG)
		return passes_flag(v, arg_at(v, i), x->id);
	return kverify_passes(v, arg_at(v, i), x->id, parameter_name(v, x));
}

/* `end` of a region, a return or yield, gives the statement's results. */
static bool gives_results(Verifier *v, StmtId end, const char *who) {
	const KStmt *s = kernel_stmt(v->k, v->stmt);
	uint32_t given = end == NONE ? 0 : kernel_stmt(v->k, end)->arg_count;
	if (given != s->result_count)
		return kverify_error(v, "kernel-structure", NULL, "it has %u result%s and %s gives %u", s->result_count,
		                     s->result_count == 1 ? "" : "s", who, given);
	for (uint32_t i = 0; i < given; i++)
		if (!kverify_passes(v, kernel_arg(v->k, end, i), s->result + i, "the result"))
			return false;
	return true;
}

static bool kverify_call(Verifier *v) {
	const KStmt *s = kernel_stmt(v->k, v->stmt);
	if (!function_fits(v, s->function))
		return false;
	const KFunction *f = &v->k->functions.at[s->function];
	if (f->kind != FUNCTION_PLAIN || v->pipeline_rank[s->function])
		return kverify_error(v, "kernel-structure", NULL, "it calls the body of a fori, a while or a pipeline");
	if (s->arg_count > f->parameters.count)
		return kverify_error(v, "kernel-arguments", NULL, "the function takes %u argument%s, not %u",
		                     f->parameters.count, f->parameters.count == 1 ? "" : "s", s->arg_count);
	for (uint32_t i = 0; i < f->parameters.count; i++) {
		bool flag = f->parameters.at[i].kind == PARAMETER_FLAG;
		if (i >= s->arg_count && !flag)
			return kverify_error(v, "kernel-arguments", NULL, "%s is not given",
			                     parameter_name(v, &f->parameters.at[i]));
		if (i < s->arg_count && !passes(v, i, &f->parameters.at[i]))
			return false;
	}
	return gives_results(v, v->returns[s->function], "the function");
}

static bool kverify_fori(Verifier *v) {
	const KStmt *s = kernel_stmt(v->k, v->stmt);
	if (!function_fits(v, s->function))
		return false;
	const KFunction *f = &v->k->functions.at[s->function];
	if (f->kind != FUNCTION_FORI || f->parameters.count != s->arg_count)
		return kverify_error(v, "kernel-arguments",
		                     "the body is a `def ... fori` of the step and what is carried",
		                     "it carries %u value%s, its body does not take the step and as many",
		                     s->arg_count ? s->arg_count - 1 : 0, s->arg_count == 2 ? "" : "s");
	if (!s->arg_count || !count_at(v, 0))
		return false;
	for (uint32_t i = 1; i < s->arg_count; i++)
		if (f->parameters.at[i].kind != PARAMETER_VALUE || !passes(v, i, &f->parameters.at[i]))
			return false;
	if (s->result_count != s->arg_count - 1)
		return kverify_error(v, "kernel-structure", NULL, "it carries %u values and gives %u", s->arg_count - 1,
		                     s->result_count);
	return gives_results(v, v->returns[s->function], "its body");
}

static bool kverify_while(Verifier *v) {
	const KStmt *s = kernel_stmt(v->k, v->stmt);
	if (!function_fits(v, s->function))
		return false;
	const KFunction *f = &v->k->functions.at[s->function];
	if (f->kind != FUNCTION_WHILE || f->parameters.count != s->arg_count || s->result_count != s->arg_count)
		return kverify_error(v, "kernel-arguments", "the body is a `def ... while` of what is carried",
		                     "it carries %u value%s and gives %u, its body takes %u", s->arg_count,
		                     s->arg_count == 1 ? "" : "s", s->result_count, f->parameters.count);
	for (uint32_t i = 0; i < s->arg_count; i++)
		if (f->parameters.at[i].kind != PARAMETER_VALUE || !passes(v, i, &f->parameters.at[i]))
			return false;
	return gives_results(v, v->returns[s->function], "its body");
}

/* ---- regions ---------------------------------------------------------------------------------------------------- */

static StmtId yield_of(const Verifier *v, RegionId r) {
	StmtId last = v->k->regions.at[r].last;
	return last != NONE && kernel_stmt(v->k, last)->op == K_YIELD ? last : NONE;
}

/* The body, whose parameters are in scope; then what it yields. */
static bool kverify_body(Verifier *v, VerifyMark mark, uint16_t end) {
	StmtId s = v->stmt;
	RegionId body = kernel_stmt(v->k, s)->body;
	if (body >= v->k->regions.count)
		return kverify_error(v, "kernel-structure", NULL, "it has no region");
	kverify_region(v, body, end);
	v->stmt = s;
	bool fits = end == K_END || gives_results(v, yield_of(v, body), "its region");
	kverify_leave(v, mark);
	return fits;
}

/* Those that come out; a loop may carry others. */
static bool carries(Verifier *v, const ValueId *carried, uint32_t count) {
	const KStmt *s = kernel_stmt(v->k, v->stmt);
	if (count != s->arg_count || count < s->result_count || (count > s->result_count && s->op != K_LOOP))
		return kverify_error(v, "kernel-structure", NULL, "%u values are carried in, %u within and %u out",
		                     s->arg_count, count, s->result_count);
	for (uint32_t i = 0; i < count; i++) {
		const KValue *in = &v->k->values.at[carried[i]], *out = &v->k->values.at[s->result + i];
		if (s->op == K_LOOP && arg_at(v, i)->kind == KARG_NONE)
			continue; /* what is before the loop yields it */
		if (!kverify_passes(v, arg_at(v, i), carried[i], kverify_value_name(v, carried[i])))
			return false;
		if (i < s->result_count &&
		    (in->dtype != out->dtype || !kernel_same_shape(in->rank, in->shape, out->rank, out->shape)))
			return kverify_error(v, "kernel-type", NULL, "%s is carried as %s and comes out as %s",
			                     kverify_value_name(v, carried[i]), kverify_value_type(v, carried[i]),
			                     kverify_value_type(v, s->result + i));
	}
	return true;
}

static bool kverify_for(Verifier *v) {
	const KFor *each = kernel_stmt(v->k, v->stmt)->each;
	if (each && each->slice && each->unread)
		return kverify_error(v, "kernel-structure", "give the step a name", "its slice reads the step");
	if (!each || !kverify_int(v, each->end, false) || !carries(v, each->carried.at, each->carried.count))
		return false;
	VerifyMark mark = kverify_mark(v);
	kverify_define_value(v, each->step);
	for (uint32_t i = 0; i < each->carried.count; i++)
		kverify_define_value(v, each->carried.at[i]);
	return kverify_body(v, mark, K_YIELD);
}

static bool condition_fits(Verifier *v) {
	const KStmt *s = kernel_stmt(v->k, v->stmt);
	const KArg *arg = s->arg_count ? arg_at(v, 0) : NULL;
	const KValue *x = arg ? value_of(v, arg) : NULL;
	if (arg && (x ? x->rank == 0 && x->type != KTYPE_COPY : arg->kind == KARG_INT || arg->kind == KARG_BOOL))
		return true;
	return kverify_error(v, "kernel-arguments", NULL,
	                     "it needs a condition: a flag, or an expression in parentheses");
}

static bool kverify_if(Verifier *v) {
	const KStmt *s = kernel_stmt(v->k, v->stmt);
	if (!condition_fits(v) || !counts(v, 1 + s->result_count, s->result_count))
		return false;
	for (uint32_t i = 0; i < s->result_count; i++)
		if (!kverify_passes(v, arg_at(v, 1 + i), s->result + i, "the result"))
			return false;
	return kverify_body(v, kverify_mark(v), K_YIELD);
}

/* ---- pipelines and loops ---------------------------------------------------------------------------------------- */

static bool window_fits(Verifier *v, const KPipelineWindow *w, const KParameter *x) {
	if (w->of >= v->k->buffers.count || !v->buffer_seen[w->of])
		return kverify_error(v, "kernel-undefined", NULL, "an operand of a window is not in scope here");
	if (x->kind != PARAMETER_BUFFER)
		return kverify_error(v, "kernel-type", NULL, "%s is no buffer", parameter_name(v, x));
	const KBuffer *of = &v->k->buffers.at[w->of], *to = &v->k->buffers.at[x->id];
	if (to->dtype != of->dtype || !kernel_same_shape(of->rank, w->block, to->rank, to->shape))
		return kverify_error(v, "kernel-type", NULL, "%s is not %s, as the window of %s is",
		                     parameter_name(v, x), kverify_type_text(v, of->dtype, of->rank, w->block),
		                     kverify_buffer_name(v, w->of));
	return kverify_ints(v, w->index, of->rank, false);
}

static bool kverify_pipeline(Verifier *v) {
	const KPipeline *p = kernel_stmt(v->k, v->stmt)->pipeline;
	if (!p || !function_fits(v, p->body) || !kverify_ints(v, p->grid, p->rank, false))
		return false;
	const KFunction *f = &v->k->functions.at[p->body];
	if (f->parameters.count != p->windows.count)
		return kverify_error(v, "kernel-arguments", NULL, "it has %u windows, its body takes %u",
		                     p->windows.count, f->parameters.count);
	VerifyMark mark = kverify_mark(v);
	bool ok = true;
	for (uint32_t i = 0; i < p->rank; i++)
		kverify_define_value(v, p->at[i]);
	for (uint32_t i = 0; i < p->windows.count && ok; i++) {
		if (i && p->windows.at[i - 1].output && !p->windows.at[i].output)
			ok = kverify_error(v, "kernel-structure", NULL, "its inputs come before its outputs");
		ok = ok && window_fits(v, &p->windows.at[i], &f->parameters.at[i]);
	}
	kverify_leave(v, mark);
	return ok && counts(v, 0, 0);
}

static bool window_in_scope(Verifier *v, const KWindow *w) {
	if (w->of >= v->k->buffers.count || !v->buffer_seen[w->of] ||
	    (w->tail != NONE && (w->tail >= v->k->buffers.count || !v->buffer_seen[w->tail])))
		return kverify_error(v, "kernel-undefined", NULL, "an operand of a window is not in scope here");
	const KBuffer *b = &v->k->buffers.at[w->buffer], *of = &v->k->buffers.at[w->of];
	const KBuffer *tail = w->tail != NONE ? &v->k->buffers.at[w->tail] : b;
	if (b->dtype == of->dtype && b->rank == of->rank && b->dtype == tail->dtype &&
	    kernel_same_shape(b->rank, b->shape, tail->rank, tail->shape))
		return true;
	return kverify_error(v, "kernel-type", NULL, "window %s is not of the type of %s",
	                     kverify_buffer_name(v, w->buffer), kverify_buffer_name(v, tail == b ? w->of : w->tail));
}

/* What is copied in a fori_loop has as many buffers and semaphores; what is not is there. */
static bool copied_fits(Verifier *v, const KLoop *loop, const KWindow *w) {
	const KBuffer *b = &v->k->buffers.at[w->buffer], *all = v->k->buffers.at;
	if (!w->dma || loop->type == LOOP_UNROLL)
		return v->k->buffers.at[w->of].space != KSPACE_HBM ||
		       kverify_error(v, "kernel-type", "say `dma`", "window %s is of what is in hbm",
		                     kverify_buffer_name(v, w->buffer));
	if (loop->type != LOOP_FORI)
		return true;
	bool there = w->scratch < v->k->buffers.count && v->buffer_seen[w->scratch] &&
	             w->semaphore < v->k->buffers.count && v->buffer_seen[w->semaphore] && w->buffers > 0;
	if (there && all[w->scratch].dtype == b->dtype && all[w->scratch].rank == b->rank + 1 &&
	    all[w->scratch].shape[0] == w->buffers &&
	    kernel_same_shape(b->rank, all[w->scratch].shape + 1, b->rank, b->shape) &&
	    all[w->semaphore].space == KSPACE_DMA && all[w->semaphore].rank == 1 &&
	    all[w->semaphore].shape[0] == w->buffers)
		return true;
	return kverify_error(v, "kernel-type", "say `scratch BUFFERS SEMAPHORES`",
	                     "window %s has not %d buffers to copy it to, and as many semaphores",
	                     kverify_buffer_name(v, w->buffer), w->buffers);
}

static bool loop_window_fits(Verifier *v, const KLoop *loop, const KWindow *w) {
	uint32_t rank = v->k->buffers.at[w->of].rank;
	if (w->pieces != NONE && (!w->dma || !w->input || w->output || loop->type != LOOP_FORI || w->pieces >= rank))
		return kverify_error(v, "kernel-structure", "say `in dma`, in a fori_loop",
		                     "the pieces of window %s are not copied in", kverify_buffer_name(v, w->buffer));
	if (w->piece != NONE)
		kverify_define_value(v, w->piece);
	return kverify_ints(v, w->index, rank, false) && kverify_ints(v, w->start, rank, false);
}

/* All steps of a loop of one dim, if they are known. */
static bool loop_steps(const Verifier *v, const KLoop *loop, int64_t *steps) {
	return int_is_const(v->k, loop->dim[0].steps, steps);
}

/* A region of a loop yields values for `count` of what it carries, from `first` on. */
static bool loop_region_fits(Verifier *v, RegionId r, uint32_t first, uint32_t count) {
	const KLoop *loop = kernel_stmt(v->k, v->stmt)->loop, *outer = v->loop;
	StmtId s = v->stmt;
	if (r >= v->k->regions.count || yield_of(v, r) == NONE)
		return kverify_error(v, "kernel-structure", "end it with `yield`", "a region of it yields nothing");
	VerifyMark mark = kverify_mark(v);
	RegionId around = v->loop_region;
	StmtId yield = yield_of(v, r);
	bool was = v->ok;
	v->ok = true;
	v->loop = loop;
	v->loop_region = r;
	kverify_region(v, r, K_YIELD);
	v->loop = outer;
	v->loop_region = around;
	v->stmt = yield;
	bool ok = v->ok;
	v->ok = was && ok;
	if (ok && kernel_stmt(v->k, yield)->arg_count != count)
		ok = kverify_error(v, "kernel-structure", NULL, "%u value%s due here, it yields %u", count,
		                   count == 1 ? " is" : "s are", kernel_stmt(v->k, yield)->arg_count);
	for (uint32_t i = 0; ok && i < count; i++)
		ok = kverify_passes(v, kernel_arg(v->k, yield, i), loop->carried.at[first + i], "what is carried");
	v->stmt = s;
	kverify_leave(v, mark);
	return ok;
}

/* What no argument gives, `before` does: the last ones. */
static bool before_fits(Verifier *v, const KLoop *loop) {
	uint32_t count = loop->carried.count, first = count;
	while (first > 0 && arg_at(v, first - 1)->kind == KARG_NONE)
		first--;
	for (uint32_t i = 0; i < first; i++)
		if (arg_at(v, i)->kind == KARG_NONE)
			return kverify_error(v, "kernel-arguments", NULL,
			                     "%s starts as nothing, what stands behind it does not",
			                     kverify_value_name(v, loop->carried.at[i]));
	if (loop->before == NONE && first == count)
		return true;
	if (loop->before == NONE || first < kernel_stmt(v->k, v->stmt)->result_count)
		return kverify_error(v, "kernel-arguments", "give it an argument, or yield it in `before`",
		                     "%s starts as nothing", kverify_value_name(v, loop->carried.at[first]));
	return loop_region_fits(v, loop->before, first, count - first);
}

static bool keeps(Verifier *v, BufferId b, ValueId id) {
	const KValue *x = &v->k->values.at[id];
	if (b == NONE)
		return true;
	if (b >= v->k->buffers.count || !v->buffer_seen[b])
		return kverify_error(v, "kernel-undefined", NULL, "the scratch of %s is not in scope here",
		                     kverify_value_name(v, id));
	const KBuffer *to = &v->k->buffers.at[b];
	if (to->role == BUFFER_SCRATCH && to->dtype == x->dtype &&
	    kernel_same_shape(to->rank, to->shape, x->rank, x->shape))
		return true;
	return kverify_error(v, "kernel-type", "carry it in scratch of its own type", "%s is %s, and %s is %s",
	                     kverify_value_name(v, id), kverify_value_type(v, id), kverify_buffer_name(v, b),
	                     kverify_type_text(v, to->dtype, to->rank, to->shape));
}

/* A place for each step of the longest body. */
static bool keeps_each(Verifier *v, const KLoop *loop, const KHanded *h) {
	const KValue *x = &v->k->values.at[h->value];
	const KBuffer *to = &v->k->buffers.at[h->scratch];
	int64_t most = 0;
	for (uint32_t i = 0; i < loop->bodies.count; i++)
		most = int_max(most, loop->bodies.at[i]);
	if (to->role == BUFFER_SCRATCH && to->dtype == x->dtype && to->rank > 0 && to->shape[0] >= most &&
	    kernel_same_shape(to->rank - 1, to->shape + 1, x->rank, x->shape))
		return true;
	return kverify_error(v, "kernel-type", "hand it on in scratch with a place for each step",
	                     "%s is %s, and %s is %s", kverify_value_name(v, h->value), kverify_value_type(v, h->value),
	                     kverify_buffer_name(v, h->scratch), kverify_type_text(v, to->dtype, to->rank, to->shape));
}

static bool scratch_fits(Verifier *v, const KLoop *loop) {
	for (uint32_t i = 0; i < loop->carried.count; i++)
		if (!keeps(v, loop->place.at[i], loop->carried.at[i]) ||
		    !keeps(v, loop->odd.at[i], loop->carried.at[i]))
			return false;
	for (uint32_t i = 0; i < loop->handed.count; i++) {
		const KHanded *h = &loop->handed.at[i];
		bool places = loop->bodies.count && h->scratch != NONE && h->odd == NONE;
		if (places ? !keeps_each(v, loop, h) : !keeps(v, h->scratch, h->value) || !keeps(v, h->odd, h->value))
			return false;
	}
	return true;
}

/* In the pipeline's first step stands what is before the loop, in its last one what is behind it. */
static bool staged_fits(Verifier *v, const KLoop *loop) {
	int64_t steps, runs;
	if (loop->type == LOOP_FORI || loop->type == LOOP_UNROLL)
		return true;
	for (uint32_t i = 0; i < loop->place.count; i++)
		if (loop->place.at[i] == NONE)
			return kverify_error(v, "kernel-structure", "carry it `in` scratch",
			                     "an emit_pipeline passes no value on, and %s is one",
			                     kverify_value_name(v, loop->carried.at[i]));
	if (loop->runs == NONE && loop->before == NONE && loop->behind == NONE)
		return true;
	if (loop->before == NONE || loop->behind == NONE || loop->runs == NONE || !loop_steps(v, loop, &steps) ||
	    !int_is_const(v->k, loop->runs, &runs) || (runs != steps - 1 && runs != (steps - 1) / 2))
		return kverify_error(v, "kernel-structure", NULL,
		                     "an emit_pipeline runs once less than it has steps, or half as often, between "
		                     "`before` and `behind`");
	return true;
}

static bool copies_windows(const KLoop *loop) {
	bool any = false;
	for (uint32_t i = 0; i < loop->windows.count; i++)
		any = any || loop->windows.at[i].dma;
	return any;
}

/* What stands behind it is plain, to the kernel's end: each body has a copy of it. */
static bool bodies_fit(Verifier *v, const KLoop *loop) {
	RegionId regions[STMT_REGIONS_MAX];
	bool fits = loop->type == LOOP_FORI && loop->rank == 1 && loop->skew == 1 && !loop->peel && !loop->paired &&
	            loop->runs == NONE && !copies_windows(loop) && kernel_stmt(v->k, v->stmt)->region == v->k->body;
	if (!fits)
		return kverify_error(v, "kernel-structure", NULL,
		                     "bodies are of a fori_loop of the kernel with `skew 1` that copies nothing");
	for (StmtId s = kernel_stmt(v->k, v->stmt)->next; s != NONE && fits; s = kernel_stmt(v->k, s)->next) {
		KOpKind kind = kernel_op_kind(kernel_stmt(v->k, s)->op);
		fits = (kind == KIND_PURE || kind == KIND_MEMORY_ACCESS) && kernel_regions(v->k, s, regions) == 0;
	}
	return fits || kverify_error(v, "kernel-structure", NULL, "what stands behind a loop of bodies is plain");
}

/* In place of a window, or of an operand, its shape stands for it; what then runs once lies in scratch. */
static bool next_fits(Verifier *v, const KLoop *loop) {
	bool handed = loop->type == LOOP_FORI && !loop->bodies.count && v->k->grid.count > 0 && !copies_windows(loop) &&
	              kernel_stmt(v->k, v->stmt)->region == v->k->body;
	for (uint32_t i = 0; i < loop->next.count && handed; i++) {
		const KNext *x = &loop->next.at[i];
		const KBuffer *of = &v->k->buffers.at[x->of], *by = &v->k->buffers.at[x->by];
		if (!v->buffer_seen[x->of] || !v->buffer_seen[x->by])
			return kverify_error(v, "kernel-undefined", NULL,
			                     "a block of the next point is not in scope here");
		if (by->role != BUFFER_IN || by->space != KSPACE_VMEM || of->dtype != by->dtype ||
		    !kernel_same_shape(of->rank, of->shape, by->rank, by->shape))
			return kverify_error(v, "kernel-type", "name an operand in VMEM of its shape",
			                     "%s cannot stand for %s", kverify_buffer_name(v, x->by),
			                     kverify_buffer_name(v, x->of));
	}
	for (uint32_t i = 0; i < loop->kept.count; i++)
		if (!keeps(v, loop->kept.at[i].scratch, loop->kept.at[i].value))
			return false;
	for (uint32_t i = kernel_stmt(v->k, v->stmt)->result_count; loop->once && i < loop->carried.count; i++)
		handed = handed && loop->place.at[i] != NONE;
	handed = handed && (!loop->once || loop->before != NONE);
	return handed || (!loop->next.count && !loop->once) ||
	       kverify_error(v, "kernel-structure", NULL,
	                     "what a grid point computes for the next one is of a fori_loop of the kernel that copies "
	                     "nothing, and lies in scratch");
}

static bool kverify_loop(Verifier *v) {
	const KLoop *loop = kernel_stmt(v->k, v->stmt)->loop;
	if (!loop)
		return kverify_error(v, "kernel-structure", NULL, "it has no steps");
	VerifyMark mark = kverify_mark(v);
	uint32_t results = kernel_stmt(v->k, v->stmt)->result_count;
	bool staged = loop->runs != NONE || loop->before != NONE || loop->behind != NONE || loop->tail != NONE;
	int64_t steps;
	for (uint32_t i = 0; i < loop->rank; i++)
		if (!kverify_int(v, loop->dim[i].steps, false))
			return false;
	bool goes_on = loop->carried.count > 0 && is_flag(v, loop->carried.at[0]);
	if (loop->rank == 0 && (!goes_on || loop->type != LOOP_FORI || loop->windows.count))
		return kverify_error(v, "kernel-structure", "carry the bool first, in a fori_loop without windows",
		                     "a loop without dims runs while what it carries first is set");
	bool counted = loop_steps(v, loop, &steps) || (loop->type == LOOP_FORI && !copies_windows(loop));
	if (staged && (loop->rank != 1 || !counted))
		return kverify_error(v, "kernel-structure", "they are one number",
		                     "what stands before or behind a loop that copies windows needs to know its steps");
	if (loop->bodies.count && !bodies_fit(v, loop))
		return false;
	if (!carries(v, loop->carried.at, loop->carried.count) || !scratch_fits(v, loop) || !staged_fits(v, loop))
		return false;
	if (loop->runs != NONE && !kverify_int(v, loop->runs, false))
		return false;
	for (uint32_t i = 0; i < loop->windows.count; i++)
		if (!window_in_scope(v, &loop->windows.at[i]) || !copied_fits(v, loop, &loop->windows.at[i]))
			return false;
	if (loop->ragged != NONE)
		kverify_define_value(v, loop->ragged);
	for (uint32_t i = 0; i < loop->windows.count; i++)
		kverify_define_buffer(v, loop->windows.at[i].buffer);
	bool fits = next_fits(v, loop) && before_fits(v, loop);
	for (uint32_t i = 0; i < results; i++)
		kverify_define_value(v, loop->carried.at[i]);
	fits = fits && (loop->tail == NONE || loop_region_fits(v, loop->tail, 0, results));
	for (uint32_t i = results; i < loop->carried.count; i++)
		kverify_define_value(v, loop->carried.at[i]);
	fits = fits && (loop->behind == NONE || loop_region_fits(v, loop->behind, 0, results));
	for (uint32_t i = 0; i < loop->rank; i++)
		kverify_define_value(v, loop->dim[i].step);
	for (uint32_t i = 0; fits && i < loop->windows.count; i++)
		fits = loop_window_fits(v, loop, &loop->windows.at[i]);
	fits = fits && loop_region_fits(v, kernel_stmt(v->k, v->stmt)->body, 0, loop->carried.count);
	kverify_leave(v, mark);
	return fits;
}

/* ---- the host --------------------------------------------------------------------------------------------------- */

/* The next operand of that role; the number of buffers where there is none. */
static BufferId next_operand(const Kernel *k, BufferId from, BufferRole role) {
	while (from < k->buffers.count && k->buffers.at[from].role != role)
		from++;
	return from;
}

static bool launched_fits(Verifier *v, const Kernel *k, BufferId b, const KValue *x, const char *what) {
	const KBuffer *to = &k->buffers.at[b];
	const int64_t *array = to->array ? to->array : to->shape;
	if (x && x->dtype == to->dtype && kernel_same_shape(x->rank, x->shape, to->rank, array))
		return true;
	return kverify_error(v, "kernel-type", NULL, "%s '%s' of the kernel is %s, not %s", what,
	                     to->var ? to->var : "", kverify_type_text(v, to->dtype, to->rank, array),
	                     x ? kverify_type_text(v, x->dtype, x->rank, x->shape) : "a number");
}

static bool kverify_launch(Verifier *v) {
	const KStmt *s = kernel_stmt(v->k, v->stmt);
	if (!v->host || s->int_count != 1 || s->ints[0] < 0 || s->ints[0] >= v->p->kernels.count)
		return kverify_error(v, "kernel-structure", NULL,
		                     "the host launches kernels of the program, by their numbers");
	const Kernel *k = v->p->kernels.at[s->ints[0]];
	BufferId b = 0;
	uint32_t count = 0;
	for (; (b = next_operand(k, b, BUFFER_IN)) < k->buffers.count; b++, count++)
		if (count < s->arg_count && !launched_fits(v, k, b, value_of(v, arg_at(v, count)), "input"))
			return false;
	if (count != s->arg_count)
		return kverify_error(v, "kernel-arguments", NULL, "the kernel has %u inputs, it is launched with %u",
		                     count, s->arg_count);
	count = 0;
	for (b = 0; (b = next_operand(k, b, BUFFER_OUT)) < k->buffers.count; b++, count++)
		if (count < s->result_count && !launched_fits(v, k, b, &v->k->values.at[s->result + count], "output"))
			return false;
	if (count != s->result_count)
		return kverify_error(v, "kernel-structure", NULL, "the kernel has %u outputs, the launch gives %u",
		                     count, s->result_count);
	return true;
}

static bool kverify_host_return(Verifier *v) {
	const KStmt *s = kernel_stmt(v->k, v->stmt);
	if (s->arg_count != v->p->outputs.count)
		return kverify_error(v, "kernel-structure", NULL, "the program has %u outputs, the host returns %u",
		                     v->p->outputs.count, s->arg_count);
	for (uint32_t i = 0; i < s->arg_count; i++) {
		const KArray *to = &v->p->outputs.at[i];
		const KValue *x = value_of(v, arg_at(v, i));
		if (!x || x->dtype != to->dtype || !kernel_same_shape(x->rank, x->shape, to->rank, to->shape))
			return kverify_error(v, "kernel-type", NULL, "output '%s' is %s, not %s", to->name,
			                     kverify_type_text(v, to->dtype, to->rank, to->shape),
			                     x ? kverify_type_text(v, x->dtype, x->rank, x->shape) : "a number");
	}
	return true;
}

/* ---- any statement ---------------------------------------------------------------------------------------------- */

static bool queue_at(Verifier *v) {
	const KStmt *s = kernel_stmt(v->k, v->stmt);
	const KValue *x = s->arg_count ? value_of(v, arg_at(v, 0)) : NULL;
	if (x && x->type == KTYPE_QUEUE)
		return true;
	return kverify_error(v, "kernel-type", NULL, "its first argument is no queue");
}

static bool kverify_control(Verifier *v, const KStmt *s) {
	switch (s->op) {
	case K_LOOP: return kverify_loop(v);
	case K_DEF: return counts(v, 0, 0) && kverify_def(v);
	case K_CALL: return kverify_call(v);
	case K_FORI: return kverify_fori(v);
	case K_WHILE: return kverify_while(v);
	case K_FOR: return kverify_for(v);
	case K_WHEN: return condition_fits(v) && counts(v, 1, 0) && kverify_body(v, kverify_mark(v), K_END);
	case K_IF: return kverify_if(v);
	case K_PIPELINE: return kverify_pipeline(v);
	case K_QUEUE: return counts(v, 0, 1);
	case K_PUSH:
	case K_POP: return queue_at(v);
	case K_LAUNCH: return kverify_launch(v);
	case K_RETURN: return !v->host || kverify_host_return(v);
	default: return true;
	}
}

/* The argument names a flag of the function that is called, which is in no scope here. */
static bool sets_flag(const Verifier *v, const KStmt *s, uint32_t i) {
	if (s->op != K_CALL || s->function >= v->k->functions.count)
		return false;
	const KFunction *f = &v->k->functions.at[s->function];
	const KArg *arg = arg_at(v, i);
	return i < f->parameters.count && f->parameters.at[i].kind == PARAMETER_FLAG && arg->kind == KARG_VALUE &&
	       arg->value == f->parameters.at[i].id;
}

static bool kverify_stmt(Verifier *v, const KStmt *s) {
	if (s->op == K_FIRST || s->op >= K_END)
		return kverify_error(v, "kernel-structure", NULL, "there is no op %u", s->op);
	for (uint32_t i = 0; i < s->arg_count; i++)
		if (!sets_flag(v, s, i) && !kverify_arg(v, arg_at(v, i)))
			return false;
	for (uint32_t i = 0; i < s->result_count; i++)
		if (!kverify_type(v, s->result + i))
			return false;
	switch (kernel_op_kind(s->op)) {
	case KIND_PURE: return kverify_pure(v, v->stmt);
	case KIND_MEMORY_ACCESS: return s->op == K_LOAD ? kverify_load(v) : kverify_store(v);
	case KIND_ASYNC: return kverify_async(v, s->op);
	case KIND_CONTROL: return kverify_control(v, s);
	}
	return true;
}

static bool ends_region(uint16_t op) { return op == K_RETURN || op == K_YIELD; }

void kverify_region(Verifier *v, RegionId r, uint16_t end) {
	StmtId owner = v->stmt;
	for (StmtId s = region_first(v->k, r); s != NONE; s = kernel_stmt(v->k, s)->next) {
		v->stmt = s;
		uint16_t op = kernel_stmt(v->k, s)->op;
		if (ends_region(op) && (op != end || kernel_stmt(v->k, s)->next != NONE))
			kverify_error(v, "kernel-structure", NULL, "it ends no region here");
		else
			kverify_stmt(v, kernel_stmt(v->k, s));
		v->stmt = s;
		for (uint32_t i = 0; i < kernel_stmt(v->k, s)->result_count; i++)
			kverify_define_value(v, kernel_stmt(v->k, s)->result + i);
	}
	v->stmt = owner;
}
