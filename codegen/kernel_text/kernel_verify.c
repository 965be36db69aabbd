/* kernel_verify.c - is a program of kernels one that can be printed and run? Scopes, signatures, and how an error is
 * told: at the line that the statement had in the text that was read, else at its line of `--emit=kernel`. */
#include "kernel_text.h"
#include "kernel_verifier.h"
#include "kernel_writer.h"

/* ---- diagnostics ------------------------------------------------------------------------------------------------ */

/* The text, and where in it each statement stands: written once there is something to say. */
static void write_text(Verifier *v) {
	Arena *a = v->d->arena;
	uint32_t count = v->p->kernels.count;
	uint32_t **lines = arena_array(a, count + 1, sizeof *lines);
	for (uint32_t i = 0; i < count; i++)
		lines[i] = arena_array(a, v->p->kernels.at[i]->stmts.count + 1, sizeof **lines);
	lines[count] = arena_array(a, v->p->host ? v->p->host->stmts.count + 1 : 1, sizeof **lines);
	text_init(&v->text, a);
	kernels_emit_lines(v->p, &v->text, lines);
	v->lines = lines;
}

static const char *line_text(const Verifier *v, uint32_t line) {
	enum { SHOWN = 60 };
	const char *at = v->text.at;
	for (uint32_t i = 1; i < line && at; i++)
		at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
	if (!at)
		return "";
	at += strspn(at, " ");
	size_t n = strcspn(at, "\n");
	return arena_printf(v->d->arena, "%.*s%s", (int)(n < SHOWN ? n : SHOWN), at, n > SHOWN ? "..." : "");
}

/* Where a line's text starts. */
static int column_of(const Source *source, int line) {
	const char *at = source->text, *end = at + source->length;
	while (--line > 0 && at && at < end)
		at = (at = memchr(at, '\n', (size_t)(end - at))) ? at + 1 : NULL;
	int column = 1;
	for (; at && at < end && (*at == ' ' || *at == '\t'); at++)
		column++;
	return column;
}

static Place place_of(const Verifier *v) {
	Place at = {.source = v->p->source};
	if (v->p->source && v->stmt != NONE && v->stmt < v->k->line_of.count) {
		at.line = (int)v->k->line_of.at[v->stmt];
		at.column = column_of(v->p->source, at.line);
	}
	return at;
}

bool kverify_error(Verifier *v, const char *code, const char *hint, const char *fmt, ...) {
	va_list ap;
	va_start(ap, fmt);
	const char *what = arena_vprintf(v->d->arena, fmt, ap);
	va_end(ap);
	v->ok = false;
	if (v->d->errors >= DIAG_ERROR_LIMIT) {
		v->d->errors++;
		return false;
	}
	if (!v->lines)
		write_text(v);
	const char *kernel = v->host ? "the host" : arena_printf(v->d->arena, "kernel '%s'", v->k->name);
	uint32_t line = v->stmt == NONE ? 0 : v->lines[v->index][v->stmt];
	Place at = place_of(v);
	if (line && !at.line)
		kernel = arena_printf(v->d->arena, "%s, line %u of its text", kernel, line);
	if (line)
		kernel = arena_printf(v->d->arena, "%s, `%s`", kernel, line_text(v, line));
	diag_error(v->d, at, code, hint, "%s: %s", kernel, what);
	return false;
}

static const char *named(const Verifier *v, const char *var, const char *what) {
	return var ? arena_printf(v->d->arena, "'%s'", var) : what;
}

const char *kverify_value_name(const Verifier *v, ValueId id) {
	if (id >= v->k->values.count)
		return "a value that is not there";
	const KValue *x = &v->k->values.at[id];
	return named(v, x->var ? x->var : x->name, "a value without a name");
}

const char *kverify_buffer_name(const Verifier *v, BufferId id) {
	const KBuffer *b = &v->k->buffers.at[id];
	return named(v, b->var ? b->var : b->name, "a buffer without a name");
}

const char *kverify_type_text(const Verifier *v, Dtype dtype, uint32_t rank, const int64_t *shape) {
	Text t;
	text_init(&t, v->d->arena);
	text_put(&t, dtype < DTYPE_COUNT ? dtype_name(dtype) : "no dtype");
	for (uint32_t d = 0; d < rank; d++)
		text_printf(&t, "%s%lld", d ? ", " : "[", (long long)shape[d]);
	text_put(&t, rank ? "]" : "");
	return t.at;
}

const char *kverify_value_type(const Verifier *v, ValueId id) {
	const KValue *x = &v->k->values.at[id];
	switch (x->type) {
	case KTYPE_INT: return "an int";
	case KTYPE_FLAG: return "a flag";
	case KTYPE_COPY: return "a copy";
	case KTYPE_QUEUE: return "a queue";
	default:
		if (x->type == KTYPE_SCALAR && x->dtype >= DTYPE_COUNT)
			return "a semaphore";
		return kverify_type_text(v, x->dtype, x->rank, x->shape);
	}
}

/* ---- scopes ----------------------------------------------------------------------------------------------------- */

void kverify_define_value(Verifier *v, ValueId id) {
	if (id >= v->k->values.count) {
		kverify_error(v, "kernel-undefined", NULL, "there is no value %u", id);
		return;
	}
	v->value_seen[id] = true;
	vec_push(v->d->arena, &v->values, id);
}

void kverify_define_buffer(Verifier *v, BufferId id) {
	if (id >= v->k->buffers.count) {
		kverify_error(v, "kernel-undefined", NULL, "there is no buffer %u", id);
		return;
	}
	v->buffer_seen[id] = true;
	vec_push(v->d->arena, &v->buffers, id);
}

VerifyMark kverify_mark(const Verifier *v) {
	return (VerifyMark){v->values.count, v->buffers.count, v->functions.count};
}

void kverify_leave(Verifier *v, VerifyMark mark) {
	while (v->values.count > mark.values)
		v->value_seen[v->values.at[--v->values.count]] = false;
	while (v->buffers.count > mark.buffers)
		v->buffer_seen[v->buffers.at[--v->buffers.count]] = false;
	while (v->functions.count > mark.functions)
		v->function_seen[v->functions.at[--v->functions.count]] = false;
}

/* ---- signatures ------------------------------------------------------------------------------------------------- */

static bool alias_fits(Verifier *v, const KBuffer *b) {
	const KBuffer *in = b->alias < v->k->buffers.count ? &v->k->buffers.at[b->alias] : NULL;
	if (!in || in->role != BUFFER_IN)
		return kverify_error(v, "kernel-signature", NULL,
		                     "an output may take over the buffer of an input alone");
	const int64_t *to = b->array ? b->array : b->shape, *from = in->array ? in->array : in->shape;
	if (in->dtype != b->dtype || !kernel_same_shape(b->rank, to, in->rank, from))
		return kverify_error(v, "kernel-signature", NULL, "'%s' cannot take over '%s': %s is no %s", b->var,
		                     in->var, kverify_type_text(v, in->dtype, in->rank, from),
		                     kverify_type_text(v, b->dtype, b->rank, to));
	return true;
}

/* Blocks lie in their arrays, as far as constants show. */
static bool block_fits(Verifier *v, BufferId id) {
	const KBuffer *b = &v->k->buffers.at[id];
	int64_t at, first;
	if (b->index && !kverify_ints(v, b->index, b->rank, true))
		return false;
	for (uint32_t d = 0; b->index && d < b->rank; d++) {
		if (!int_is_const(v->k, b->index[d], &at))
			continue;
		bool in = at >= 0 && checked_mul(at, b->shape[d], &first) && (first < b->array[d] || at == 0);
		if (!in)
			return kverify_error(v, "kernel-bounds", NULL,
			                     "block %lld of %s in dim %u is behind its %lld elements", (long long)at,
			                     kverify_buffer_name(v, id), d, (long long)b->array[d]);
	}
	return true;
}

static bool buffer_fits(Verifier *v, BufferId id) {
	const KBuffer *b = &v->k->buffers.at[id];
	bool semaphore = b->space == KSPACE_DMA || b->space == KSPACE_REGULAR;
	bool operand = b->role == BUFFER_IN || b->role == BUFFER_OUT;
	if (operand && (semaphore || b->dtype >= DTYPE_COUNT))
		return kverify_error(v, "kernel-signature", NULL, "%s is an operand, and no array",
		                     kverify_buffer_name(v, id));
	if (b->role == BUFFER_SCRATCH && (b->space == KSPACE_HBM || b->space == KSPACE_PREFETCH))
		return kverify_error(v, "kernel-signature", "scratch is vmem, smem, dma or regular",
		                     "scratch %s is in no space of the kernel's own", kverify_buffer_name(v, id));
	if (operand && (!b->array || (b->space == KSPACE_VMEM && b->rank && !b->index)))
		return kverify_error(v, "kernel-signature", "say `of [ARRAY] at (...) buffers N`",
		                     "%s does not say of which array its block is, and where",
		                     kverify_buffer_name(v, id));
	bool held = b->held && (b->role != BUFFER_OUT || (b->held->copy && b->held->from >= v->k->buffers.count) ||
	                        (b->held->sums != NONE && b->held->sums >= v->k->buffers.count) ||
	                        b->held->revisits >> v->k->grid.count);
	if (held)
		return kverify_error(v, "kernel-signature", NULL, "%s cannot be held so", kverify_buffer_name(v, id));
	if (b->half && (b->dtype != DTYPE_I16 || b->alias != NONE))
		return kverify_error(v, "kernel-signature", "half is for outputs of int16 with no alias",
		                     "%s cannot be the bits of an array of float16", kverify_buffer_name(v, id));
	if (b->fused && b->space != KSPACE_VMEM)
		return kverify_error(v, "kernel-signature", "only what the grid's pipeline brings is fused",
		                     "%s is in no window of the grid", kverify_buffer_name(v, id));
	if (operand && b->index && !block_fits(v, id))
		return false;
	return b->role != BUFFER_OUT || b->alias == NONE || alias_fits(v, b);
}

/* What is prefetched comes first: jax counts it from the front. */
static bool prefetch_fits(Verifier *v) {
	bool other = false;
	for (BufferId b = 0; b < v->k->buffers.count; b++) {
		const KBuffer *x = &v->k->buffers.at[b];
		if (x->role == BUFFER_OUT && x->space == KSPACE_PREFETCH)
			return kverify_error(v, "kernel-signature", NULL, "%s is prefetched, and an output",
			                     kverify_buffer_name(v, b));
		if (x->role == BUFFER_IN && x->space == KSPACE_PREFETCH && other)
			return kverify_error(v, "kernel-signature", "prefetched operands stand before all others",
			                     "%s is prefetched, and stands behind an operand that is not",
			                     kverify_buffer_name(v, b));
		other = other || x->space != KSPACE_PREFETCH;
	}
	return true;
}

/* Its operands stay in HBM, and subcores stand for grid points. */
static bool sparse_core_fits(Verifier *v) {
	if (v->k->grid.count || v->k->vmem_limit || v->k->cost || v->k->mesh_axis || v->k->collective_id >= 0)
		return kverify_error(
			v, "kernel-signature", NULL,
			"a kernel of SparseCores has no grid, vmem_limit, cost_estimate, mesh or collective_id");
	for (BufferId b = 0; b < v->k->buffers.count; b++)
		if ((v->k->buffers.at[b].role == BUFFER_IN || v->k->buffers.at[b].role == BUFFER_OUT) &&
		    (v->k->buffers.at[b].space != KSPACE_HBM || v->k->buffers.at[b].alias != NONE))
			return kverify_error(v, "kernel-signature", "declare it hbm, with no alias",
			                     "%s is an operand of SparseCores", kverify_buffer_name(v, b));
	return true;
}

/* A stash has its value's type. */
static bool stash_fits(Verifier *v, const KStash *stash) {
	const KValue *x = &v->k->values.at[stash->value];
	const KBuffer *b = &v->k->buffers.at[stash->scratch];
	bool same = b->role == BUFFER_SCRATCH && b->space == KSPACE_VMEM && b->dtype == x->dtype && b->rank == x->rank;
	for (uint32_t d = 0; same && d < b->rank; d++)
		same = b->shape[d] == x->shape[d];
	return same || kverify_error(v, "kernel-signature", "it is scratch in vmem of the value's type",
	                             "%s is no stash of the value", kverify_buffer_name(v, stash->scratch));
}

static void kverify_strips(Verifier *v, const KStrips *s) {
	if (s->width % 128 || s->size % s->width || s->size == s->width)
		kverify_error(v, "kernel-signature", "a strip is of whole registers: 128, 256, ... columns",
		              "rows of %lld columns are not made of strips of %lld", (long long)s->size,
		              (long long)s->width);
	for (uint32_t i = 0; i < s->stashes.count; i++)
		stash_fits(v, &s->stashes.at[i]);
}

static void kverify_signature(Verifier *v) {
	VerifyMark mark = kverify_mark(v);
	for (uint32_t i = 0; i < v->k->grid.count; i++)
		kverify_define_value(v, v->k->grid.at[i].at);
	for (BufferId b = 0; b < v->k->buffers.count; b++)
		if (v->k->buffers.at[b].role != BUFFER_PARAMETER)
			buffer_fits(v, b);
	kverify_leave(v, mark);
	prefetch_fits(v);
	if (v->k->sparse_cores)
		sparse_core_fits(v);
	if (v->k->strips)
		kverify_strips(v, v->k->strips);
	for (BufferId b = 0; b < v->k->buffers.count; b++)
		if (v->k->buffers.at[b].role != BUFFER_PARAMETER)
			kverify_define_buffer(v, b);
}

/* ---- kernels ---------------------------------------------------------------------------------------------------- */

static void find_pipelines(Kernel *k, StmtId s, void *data) {
	uint32_t *rank = data;
	const KStmt *stmt = kernel_stmt(k, s);
	if (stmt->op == K_PIPELINE && stmt->pipeline && stmt->pipeline->body < k->functions.count)
		rank[stmt->pipeline->body] = stmt->pipeline->rank;
}

static void kverify_kernel(Verifier *v, Kernel *k, uint32_t index) {
	Arena *a = v->d->arena;
	v->k = k;
	v->index = index;
	v->stmt = NONE;
	v->loop = NULL;
	v->host = k == v->p->host;
	v->values.count = v->buffers.count = v->functions.count = 0;
	v->value_seen = arena_array(a, k->values.count + 1, sizeof *v->value_seen);
	v->buffer_seen = arena_array(a, k->buffers.count + 1, sizeof *v->buffer_seen);
	v->function_seen = arena_array(a, k->functions.count + 1, sizeof *v->function_seen);
	v->pipeline_rank = arena_array(a, k->functions.count + 1, sizeof *v->pipeline_rank);
	v->returns = arena_array(a, k->functions.count + 1, sizeof *v->returns);
	v->grid_rank = k->grid.count;
	kernel_walk(k, k->body, find_pipelines, v->pipeline_rank);
	kverify_signature(v);
	for (uint32_t i = 0; v->host && i < v->p->inputs.count; i++)
		kverify_define_value(v, i);
	kverify_region(v, k->body, v->host ? K_RETURN : K_END);
	StmtId last = k->regions.at[k->body].last;
	v->stmt = NONE;
	if (v->host && (last == NONE || kernel_stmt(k, last)->op != K_RETURN))
		kverify_error(v, "kernel-structure", NULL, "it returns nothing");
}

/* The program is called once, on one mesh. */
static void one_mesh(Verifier *v) {
	const Kernel *first = NULL;
	for (uint32_t i = 0; i < v->p->kernels.count; i++) {
		Kernel *k = v->p->kernels.at[i];
		first = first || !k->mesh_axis ? first : k;
		v->k = k;
		v->index = i;
		v->stmt = NONE;
		v->host = false;
		if (k->mesh_axis && (strcmp(k->mesh_axis, first->mesh_axis) != 0 || k->devices != first->devices))
			kverify_error(v, "kernel-signature", NULL, "it runs on another mesh than kernel '%s'",
			              first->name);
	}
}

bool program_verify_kernels(const KProgram *p, Diag *d) {
	Verifier v = {.p = p, .d = d, .ok = true};
	for (uint32_t i = 0; i < p->kernels.count; i++)
		kverify_kernel(&v, p->kernels.at[i], i);
	one_mesh(&v);
	if (p->host)
		kverify_kernel(&v, p->host, p->kernels.count);
	return v.ok;
}
