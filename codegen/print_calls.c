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
	uint32_t count = pr->k->grid.count;
	const char **items = arena_array(pr->a, count + prefetch_count(pr->k) + 1, sizeof *items);
	for (uint32_t d = 0; d < count; d++)
		items[d] = pr->k->values.at[pr->k->grid.at[d].at].var;
	for (BufferId b = 0; b < pr->k->buffers.count; b++)
		if (pr->k->buffers.at[b].role == BUFFER_IN && pr->k->buffers.at[b].space == KSPACE_PREFETCH)
			items[count++] = pr->k->buffers.at[b].var;
	return list_text(pr, count, items);
}

static const char *block_spec(Printer *pr, const KBuffer *b, const char *variables) {
	if (b->space == KSPACE_SMEM)
		return "pl.BlockSpec(memory_space=pltpu.SMEM)";
	if (b->space == KSPACE_HBM)
		return "pl.BlockSpec(memory_space=pl.ANY)";
	const char *items[KDIM_MAX];
	for (uint32_t d = 0; d < b->rank; d++)
		items[d] = int_text(pr, b->index[d], PREC_LOWEST);
	const char *mode = b->buffers == 2 ? "" : arena_printf(pr->a, ", pipeline_mode=pl.Buffered(%d)", b->buffers);
	return arena_printf(pr->a, "pl.BlockSpec(%s, lambda%s%s: (%s%s)%s)", shape_text(pr, b->rank, b->shape),
	                    *variables ? " " : "", variables, list_text(pr, b->rank, items), b->rank == 1 ? "," : "",
	                    mode);
}

static const char *specs(Printer *pr, BufferRole role, const char *variables) {
	Text out;
	text_init(&out, pr->a);
	for (BufferId b = 0; b < pr->k->buffers.count; b++)
		if (pr->k->buffers.at[b].role == role && pr->k->buffers.at[b].space != KSPACE_PREFETCH)
			text_printf(&out, "%s,", block_spec(pr, &pr->k->buffers.at[b], variables));
	return out.at ? out.at : "";
}

static const char *out_shapes(Printer *pr) {
	Text out;
	text_init(&out, pr->a);
	for (BufferId i = 0; i < pr->k->buffers.count; i++) {
		const KBuffer *b = &pr->k->buffers.at[i];
		if (b->role == BUFFER_OUT)
			text_printf(&out, "jax.ShapeDtypeStruct(%s, %s),", shape_text(pr, b->rank, b->array),
			            dtype_jnp(b->dtype));
	}
	return out.at ? out.at : "";
}

static const char *scratch_shapes(Printer *pr) {
	Text out;
	text_init(&out, pr->a);
	for (BufferId i = 0; i < pr->k->buffers.count; i++) {
		const KBuffer *b = &pr->k->buffers.at[i];
		if (b->role != BUFFER_SCRATCH)
			continue;
		const char *shape = shape_text(pr, b->rank, b->shape);
		switch (b->space) {
		case KSPACE_DMA: text_printf(&out, "pltpu.SemaphoreType.DMA(%s),", shape); break;
		case KSPACE_REGULAR: text_printf(&out, "pltpu.SemaphoreType.REGULAR(%s),", shape); break;
		case KSPACE_SMEM: text_printf(&out, "pltpu.SMEM(%s, %s),", shape, dtype_jnp(b->dtype)); break;
		default: text_printf(&out, "pltpu.VMEM(%s, %s),", shape, dtype_jnp(b->dtype)); break;
		}
	}
	return out.at;
}

static const char *grid_text(Printer *pr) {
	int64_t *steps = arena_array(pr->a, pr->k->grid.count + 1, sizeof *steps);
	for (uint32_t d = 0; d < pr->k->grid.count; d++)
		steps[d] = pr->k->grid.at[d].steps;
	return shape_text(pr, pr->k->grid.count, steps);
}

static const char *semantics(Printer *pr) {
	const char **items = arena_array(pr->a, pr->k->grid.count + 1, sizeof *items);
	uint32_t count = pr->k->grid.count;
	for (uint32_t d = 0; d < count; d++)
		items[d] = pr->k->grid.at[d].parallel ? "\"parallel\"" : "\"arbitrary\"";
	return arena_printf(pr->a, count == 1 ? "(%s,)" : "(%s)", list_text(pr, count, items));
}

/* Outputs that take over an input's buffer: `{2: 0}`, positions among the inputs and among the outputs. NULL: none. */
static const char *aliases_text(Printer *pr) {
	Text out;
	text_init(&out, pr->a);
	uint32_t output = 0;
	for (BufferId b = 0; b < pr->k->buffers.count; b++) {
		const KBuffer *buffer = &pr->k->buffers.at[b];
		if (buffer->role != BUFFER_OUT)
			continue;
		uint32_t input = 0;
		for (BufferId i = 0; buffer->alias != NONE && i < buffer->alias; i++)
			input += pr->k->buffers.at[i].role == BUFFER_IN;
		if (buffer->alias != NONE)
			text_printf(&out, out.length ? ", %u: %u" : "%u: %u", input, output);
		output++;
	}
	return out.length ? out.at : NULL;
}

/* ---- launches --------------------------------------------------------------------------------------------------- */

static const char *host_args(Printer *pr, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	const char **items = arena_array(pr->a, stmt->arg_count + 1, sizeof *items);
	for (uint32_t i = 0; i < stmt->arg_count; i++)
		items[i] = print_arg(pr, kernel_arg(pr->k, s, i)).text;
	return list_text(pr, stmt->arg_count, items);
}

static const char *results_text(Printer *pr, StmtId s) {
	const KStmt *stmt = kernel_stmt(pr->k, s);
	const char *items[UNPACK_MAX];
	if (stmt->var)
		return stmt->var;
	for (uint32_t i = 0; i < stmt->result_count; i++)
		items[i] = pr->k->values.at[stmt->result + i].var;
	if (stmt->result_count == 0)
		return "_";
	return arena_printf(pr->a, stmt->result_count == 1 ? "(%s,)" : "%s", list_text(pr, stmt->result_count, items));
}

/* `scratch_shapes=[...],`; of the same for what else takes them. */
static const char *scratch_text(Printer *pr, const char *keyword) {
	const char *scratch = scratch_shapes(pr);
	return scratch ? arena_printf(pr->a, " %s=[%s],", keyword, scratch) : "";
}

/* Grid and windows: by themselves, or with what is prefetched in one object. */
static const char *grid_spec(Printer *pr) {
	const char *variables = variables_text(pr), *grid = grid_text(pr);
	const char *ins = specs(pr, BUFFER_IN, variables), *outs = specs(pr, BUFFER_OUT, variables);
	uint32_t prefetched = prefetch_count(pr->k);
	const char *windows = arena_printf(pr->a, "grid=%s, in_specs=[%s], out_specs=[%s],", grid, ins, outs);
	if (prefetched == 0)
		return windows;
	return arena_printf(pr->a, "grid_spec=pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=%u, %s%s),", prefetched,
	                    windows, scratch_text(pr, "scratch_shapes"));
}

static const char *compiler_params(Printer *pr) {
	Text out;
	text_init(&out, pr->a);
	text_printf(&out, "dimension_semantics=%s,", semantics(pr));
	if (pr->k->vmem_limit)
		text_printf(&out, " vmem_limit_bytes=%lld,", (long long)pr->k->vmem_limit);
	if (pr->k->collective_id >= 0)
		text_printf(&out, " collective_id=%lld,", (long long)pr->k->collective_id);
	return out.at;
}

static void print_pallas_call(Printer *pr, const Kernel *kernel) {
	const char *spec = grid_spec(pr), *shapes = out_shapes(pr), *aliases = aliases_text(pr);
	py_line(&pr->w,
	        "call = pl.pallas_call(_%s_kernel, name=\"%s\", %s out_shape=[%s],%s%s "
	        "compiler_params=pltpu.CompilerParams(%s), interpret=interpret,)",
	        kernel->name, kernel->name, spec, shapes,
	        prefetch_count(kernel) ? "" : scratch_text(pr, "scratch_shapes"),
	        aliases ? arena_printf(pr->a, " input_output_aliases={%s},", aliases) : "", compiler_params(pr));
}

/* Arrays stay in HBM; what would be a grid is a mesh of subcores. */
static void print_sparse_call(Printer *pr, const Kernel *kernel) {
	const char *shapes = out_shapes(pr), *scratch = scratch_text(pr, "scratch_types");
	py_line(&pr->w,
	        "call = pl.kernel(_%s_kernel, name=\"%s\", mesh=plsc.VectorSubcoreMesh(core_axis_name=\"core\", "
	        "subcore_axis_name=\"subcore\", num_cores=%lld, num_subcores=%lld,), out_type=[%s],%s "
	        "interpret=interpret,)",
	        kernel->name, kernel->name, (long long)kernel->sparse_cores, (long long)kernel->subcores, shapes,
	        scratch);
}

static void print_launch(Printer *pr, StmtId s, Kernel *kernel) {
	Kernel *host = pr->k;
	pr->k = kernel;
	if (kernel->sparse_cores)
		print_sparse_call(pr, kernel);
	else
		print_pallas_call(pr, kernel);
	pr->k = host;
	const char *inputs = host_args(pr, s); /* before the results take their places */
	py_line(&pr->w, "%s = call(%s)", results_text(pr, s), inputs);
}

static void print_host_return(Printer *pr, StmtId s) {
	const char *values = host_args(pr, s);
	uint32_t count = kernel_stmt(pr->k, s)->arg_count;
	bool fits = strlen(values) + 11 <= PY_WIDTH; /* "    return " */
	py_line(&pr->w, fits || count == 1 ? "return %s" : "return (%s,)", count ? values : "()");
}

void print_host(Printer *pr, Kernel *const *kernels) {
	for (StmtId s = region_first(pr->k, pr->k->body); s != NONE; s = kernel_stmt(pr->k, s)->next)
		if (kernel_stmt(pr->k, s)->op == K_LAUNCH)
			print_launch(pr, s, kernels[kernel_stmt(pr->k, s)->ints[0]]);
		else if (kernel_stmt(pr->k, s)->op == K_RETURN)
			print_host_return(pr, s);
}
