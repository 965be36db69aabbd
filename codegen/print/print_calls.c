/* print_calls.c - the body of the wrapper: a pallas_call for each kernel, and what stands between them: views of the
 * arrays that go in, views back of what comes out. */
#include "printer.h"

/* ---- specs ------------------------------------------------------------------------------------------------------ */

/* Operands that are there before the grid starts. */
static uint32_t prefetch_count(const Kernel *k) {
	uint32_t count = 0;
	for (BufferId b = 0; b < k->buffers.count; b++)
		count += k->buffers.at[b].role == BUFFER_IN && k->buffers.at[b].space == KSPACE_PREFETCH;
	return count;
}

/* What an index map takes: the grid's point, then what is prefetched. */
static const char *variables_text(Printer *pr) {
	Text out;
	text_init(&out, pr->a);
	for (uint32_t d = 0; d < pr->k->grid.count; d++)
		text_printf(&out, d ? ", %s" : " %s", pr->k->values.at[pr->k->grid.at[d].at].var);
	for (BufferId b = 0; b < pr->k->buffers.count; b++)
		if (pr->k->buffers.at[b].role == BUFFER_IN && pr->k->buffers.at[b].space == KSPACE_PREFETCH)
			text_printf(&out, out.length ? ", %s" : " %s", pr->k->buffers.at[b].var);
	return out.at ? out.at : "";
}

static void put_block_spec(Printer *pr, Text *out, const KBuffer *b, const char *variables) {
	if (b->space == KSPACE_SMEM || b->space == KSPACE_HBM) {
		text_put(out, b->space == KSPACE_SMEM ? "pl.BlockSpec(memory_space=pltpu.SMEM),"
		                                      : "pl.BlockSpec(memory_space=pl.ANY),");
		return;
	}
	text_put(out, "pl.BlockSpec(");
	put_shape(out, b->rank, b->shape);
	text_put(out, ", lambda");
	text_put(out, variables);
	text_put(out, ": (");
	for (uint32_t d = 0; d < b->rank; d++) {
		text_put(out, d ? ", " : "");
		put_int(pr, out, b->index[d]);
	}
	text_put(out, b->rank == 1 ? ",)" : ")");
	if (b->buffers != 2)
		text_printf(out, ", pipeline_mode=pl.Buffered(%d)", b->buffers);
	text_put(out, "),");
}

static void put_specs(Printer *pr, Text *out, BufferRole role, const char *variables) {
	for (BufferId b = 0; b < pr->k->buffers.count; b++)
		if (pr->k->buffers.at[b].role == role && pr->k->buffers.at[b].space != KSPACE_PREFETCH)
			put_block_spec(pr, out, &pr->k->buffers.at[b], variables);
}

static void put_shape_and_dtype(Text *out, const char *what, uint32_t rank, const int64_t *shape, const char *dtype) {
	text_put(out, what);
	put_shape(out, rank, shape);
	text_printf(out, ", %s),", dtype);
}

static void put_out_shapes(Printer *pr, Text *out) {
	for (BufferId i = 0; i < pr->k->buffers.count; i++) {
		const KBuffer *b = &pr->k->buffers.at[i];
		if (b->role == BUFFER_OUT)
			put_shape_and_dtype(out, "jax.ShapeDtypeStruct(", b->rank, b->array,
			                    b->half ? "jnp.int16 if interpret else jnp.float16" : dtype_jnp(b->dtype));
	}
}

static void put_scratch_shape(Text *out, const KBuffer *b) {
	bool dma = b->space == KSPACE_DMA;
	if (!dma && b->space != KSPACE_REGULAR) {
		const char *memory = b->space == KSPACE_SMEM ? "pltpu.SMEM(" : "pltpu.VMEM(";
		put_shape_and_dtype(out, memory, b->rank, b->shape, dtype_jnp(b->dtype));
		return;
	}
	text_put(out, dma ? "pltpu.SemaphoreType.DMA(" : "pltpu.SemaphoreType.REGULAR(");
	put_shape(out, b->rank, b->shape);
	text_put(out, "),");
}

/* `scratch_shapes=[...],`; of the same for what else takes them. */
static void put_scratch(Printer *pr, Text *out, const char *keyword) {
	bool any = false;
	for (BufferId i = 0; i < pr->k->buffers.count; i++) {
		if (pr->k->buffers.at[i].role != BUFFER_SCRATCH)
			continue;
		if (!any)
			text_printf(out, " %s=[", keyword);
		put_scratch_shape(out, &pr->k->buffers.at[i]);
		any = true;
	}
	text_put(out, any ? "]," : "");
}

static void put_grid(Printer *pr, Text *out) {
	int64_t *steps = arena_array(pr->a, pr->k->grid.count + 1, sizeof *steps);
	for (uint32_t d = 0; d < pr->k->grid.count; d++)
		steps[d] = pr->k->grid.at[d].steps;
	put_shape(out, pr->k->grid.count, steps);
}

static void put_semantics(Printer *pr, Text *out) {
	uint32_t count = pr->k->grid.count;
	text_put(out, "(");
	for (uint32_t d = 0; d < count; d++) {
		text_put(out, d ? ", " : "");
		text_put(out, pr->k->grid.at[d].parallel ? "\"parallel\"" : "\"arbitrary\"");
	}
	text_put(out, count == 1 ? ",)" : ")");
}

/* Outputs that take over an input's buffer: `{2: 0}`, positions among the inputs and among the outputs. */
static void put_aliases(Printer *pr, Text *out) {
	uint32_t output = 0;
	bool any = false;
	for (BufferId b = 0; b < pr->k->buffers.count; b++) {
		const KBuffer *buffer = &pr->k->buffers.at[b];
		if (buffer->role != BUFFER_OUT)
			continue;
		uint32_t input = 0;
		for (BufferId i = 0; buffer->alias != NONE && i < buffer->alias; i++)
			input += pr->k->buffers.at[i].role == BUFFER_IN;
		if (buffer->alias != NONE)
			text_printf(out, any ? ", %u: %u" : " input_output_aliases={%u: %u", input, output);
		any = any || buffer->alias != NONE;
		output++;
	}
	text_put(out, any ? "}," : "");
}

/* ---- launches --------------------------------------------------------------------------------------------------- */

static void put_results(Printer *pr, Text *out, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	const char *items[UNPACK_MAX];
	if (stmt->var || stmt->result_count == 0) {
		text_put(out, stmt->var ? stmt->var : "_");
		return;
	}
	for (uint32_t i = 0; i < stmt->result_count; i++)
		items[i] = pr->k->values.at[stmt->result + i].var;
	text_put(out, stmt->result_count == 1 ? "(" : "");
	put_list(out, stmt->result_count, items);
	text_put(out, stmt->result_count == 1 ? ",)" : "");
}

/* Grid and windows: by themselves, or with what is prefetched in one object. */
static void put_grid_spec(Printer *pr, Text *out) {
	const char *variables = variables_text(pr);
	uint32_t prefetched = prefetch_count(pr->k);
	if (prefetched)
		text_printf(out, "grid_spec=pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=%u, ", prefetched);
	text_put(out, "grid=");
	put_grid(pr, out);
	text_put(out, ", in_specs=[");
	put_specs(pr, out, BUFFER_IN, variables);
	text_put(out, "], out_specs=[");
	put_specs(pr, out, BUFFER_OUT, variables);
	text_put(out, "],");
	if (prefetched) {
		put_scratch(pr, out, "scratch_shapes");
		text_put(out, "),");
	}
}

/* A flag for each input. */
static void put_fusion(Printer *pr, Text *out) {
	const char **flags = arena_array(pr->a, pr->k->buffers.count + 1, sizeof *flags);
	uint32_t count = 0;
	bool any = false;
	for (BufferId b = 0; b < pr->k->buffers.count; b++) {
		const KBuffer *buffer = &pr->k->buffers.at[b];
		if (buffer->role == BUFFER_IN)
			flags[count++] = buffer->fused ? "True" : "False";
		any = any || buffer->fused;
	}
	if (!any)
		return;
	text_put(out, " allow_input_fusion=[");
	put_list(out, count, flags);
	text_put(out, "],");
}

static void put_compiler_params(Printer *pr, Text *out) {
	text_put(out, "dimension_semantics=");
	put_semantics(pr, out);
	text_put(out, ",");
	put_fusion(pr, out);
	if (pr->k->vmem_limit)
		text_printf(out, " vmem_limit_bytes=%lld,", (long long)pr->k->vmem_limit);
	if (pr->k->unchecked)
		text_put(out, " disable_bounds_checks=True,");
	if (pr->k->collective_id >= 0)
		text_printf(out, " collective_id=%lld,", (long long)pr->k->collective_id);
}

static void put_cost(Text *out, const KCost *cost) {
	text_printf(out, " cost_estimate=pl.CostEstimate(flops=%lld, transcendentals=%lld, bytes_accessed=%lld),",
	            (long long)cost->flops, (long long)cost->transcendentals, (long long)cost->bytes);
}

static void print_pallas_call(Printer *pr, const Kernel *kernel) {
	Text *out = py_open(&pr->w);
	text_printf(out, "call = _pallas_call(_%s_kernel, name=\"%s\", ", kernel->name, kernel->name);
	put_grid_spec(pr, out);
	text_put(out, " out_shape=[");
	put_out_shapes(pr, out);
	text_put(out, "],");
	if (!prefetch_count(kernel))
		put_scratch(pr, out, "scratch_shapes");
	put_aliases(pr, out);
	text_put(out, " compiler_params=pltpu.CompilerParams(");
	put_compiler_params(pr, out);
	text_put(out, "),");
	if (kernel->cost)
		put_cost(out, kernel->cost);
	text_put(out, " interpret=interpret,)");
	py_close(&pr->w);
}

/* Arrays stay in HBM; what would be a grid is a mesh of subcores. */
static void print_sparse_call(Printer *pr, const Kernel *kernel) {
	Text *out = py_open(&pr->w);
	text_printf(out,
	            "call = _sparse_call(_%s_kernel, name=\"%s\", mesh=plsc.VectorSubcoreMesh(core_axis_name=\"core\", "
	            "subcore_axis_name=\"subcore\", num_cores=%lld, num_subcores=%lld,), out_type=[",
	            kernel->name, kernel->name, (long long)kernel->sparse_cores, (long long)kernel->subcores);
	put_out_shapes(pr, out);
	text_put(out, "],");
	put_scratch(pr, out, "scratch_types");
	text_put(out, " interpret=interpret,)");
	py_close(&pr->w);
}

static void print_launch(Printer *pr, StmtId s, Kernel *kernel) {
	Kernel *host = pr->k;
	pr->k = kernel;
	if (kernel->sparse_cores)
		print_sparse_call(pr, kernel);
	else
		print_pallas_call(pr, kernel);
	pr->k = host;
	Text *out = py_open(&pr->w);
	put_results(pr, out, s);
	text_put(out, " = call(");
	put_args(pr, out, s, 0);
	text_put(out, ")");
	py_close(&pr->w);
}

static void print_host_return(Printer *pr, StmtId s) {
	Text values;
	text_init(&values, pr->a);
	put_args(pr, &values, s, 0);
	uint32_t count = kernel_stmt(pr->k, s)->arg_count;
	bool fits = values.length + 11 <= PY_WIDTH; /* "    return " */
	py_line(&pr->w, fits || count == 1 ? "return %s" : "return (%s,)", count ? values.at : "()");
}

/* What has a variable; all else stands where it is used. */
static void print_host_value(Printer *pr, StmtId s) {
	Text *out = py_open(&pr->w);
	text_printf(out, "%s = ", pr->k->values.at[kernel_stmt(pr->k, s)->result].var);
	put_expr(pr, out, s);
	py_close(&pr->w);
}

void print_host(Printer *pr, Kernel *const *kernels, StmtId first, StmtId last) {
	for (StmtId s = first, next; s != NONE; s = next) {
		next = s == last ? NONE : kernel_stmt(pr->k, s)->next;
		if (kernel_stmt(pr->k, s)->op == K_LAUNCH)
			print_launch(pr, s, kernels[kernel_stmt(pr->k, s)->ints[0]]);
		else if (kernel_stmt(pr->k, s)->op == K_RETURN)
			print_host_return(pr, s);
		else if (pr->k->values.at[kernel_stmt(pr->k, s)->result].var)
			print_host_value(pr, s);
	}
}
