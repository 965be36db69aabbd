/* print_sharded.c - the function around one device's kernel: whole arrays on a mesh. */
#include "printer.h"
#include "src/shard/shard.h"

/* "data", ("data", "model") or None. */
static void put_cut(Text *out, const Mesh *mesh, const Cut *cut) {
	text_put(out, cut->count == 0 ? "None" : cut->count > 1 ? "(" : "");
	for (uint32_t i = 0; i < cut->count; i++)
		text_printf(out, i ? ", \"%s\"" : "\"%s\"", mesh->axis[cut->axis[i]].name);
	text_put(out, cut->count > 1 ? ")" : "");
}

/* Dims at the end that are not cut need not be said. */
static void put_dims(Text *out, const Mesh *mesh, const Parted *p) {
	uint32_t rank = p->rank;
	while (rank && p->dim[rank - 1].count == 0)
		rank--;
	for (uint32_t d = 0; d < rank; d++) {
		text_put(out, d ? ", " : "");
		put_cut(out, mesh, &p->dim[d]);
	}
}

static void put_info(Text *out, const Mesh *mesh, const char *key, const Parted *list, uint32_t count) {
	text_printf(out, ", \"%s\": [", key);
	for (uint32_t i = 0; i < count; i++) {
		text_put(out, i ? ", [" : "[");
		put_dims(out, mesh, &list[i]);
		text_put(out, "]");
	}
	text_put(out, "]");
}

/* Of whole arrays. */
static void put_shapes(Text *out, const char *key, const Parted *list, uint32_t count) {
	text_printf(out, "\"%s\": [", key);
	for (uint32_t i = 0; i < count; i++) {
		text_put(out, i ? ", [" : "[");
		for (uint32_t d = 0; d < list[i].rank; d++)
			text_printf(out, d ? ", %lld" : "%lld", (long long)list[i].size[d]);
		text_put(out, "]");
	}
	text_put(out, "]");
}

/* "gather": {"x": "model"}: as it was asked for. A step's arrays and their specs do not say how large whole ones are.
 */
static void put_ring_info(Text *out, const Sharding *s) {
	if (s->ring.kind == RING_NONE)
		return;
	text_printf(out, ", \"%s\": {", s->ring.kind == RING_GATHER ? "gather" : "scatter");
	for (uint32_t i = 0; i < s->ring.arrays.count; i++)
		text_printf(out, i ? ", \"%s\": \"%s\"" : "\"%s\": \"%s\"", s->ring.names.at[i],
		            s->mesh.axis[s->ring.axis].name);
	text_put(out, s->ring.asks ? "}, \"step\": \"ring_step\", \"shapes\": {" : "}, \"shapes\": {");
	put_shapes(out, "inputs", s->inputs.at, s->inputs.count);
	text_put(out, ", ");
	put_shapes(out, "outputs", s->outputs.at, s->outputs.count);
	text_put(out, s->ring.inside ? "}, \"ring\": \"kernel\"" : "}");
}

void print_sharding_info(const Sharding *s, Text *out) {
	text_put(out, " \"sharding\": {\"mesh\": {");
	for (uint32_t i = 0; i < s->mesh.count; i++)
		text_printf(out, i ? ", \"%s\": %lld" : "\"%s\": %lld", s->mesh.axis[i].name,
		            (long long)s->mesh.axis[i].devices);
	text_put(out, "}");
	put_info(out, &s->mesh, "inputs", s->inputs.at, s->inputs.count);
	put_info(out, &s->mesh, "outputs", s->outputs.at, s->outputs.count);
	put_ring_info(out, s);
	text_put(out, "},");
}

static void put_spec(Text *out, const Mesh *mesh, const Parted *p) {
	text_put(out, "jax.P(");
	put_dims(out, mesh, p);
	text_put(out, ")");
}

/* `jax.P` of each; numbers are the same everywhere. */
static const char *specs(Printer *pr, const Mesh *mesh, const Parted *list, uint32_t count, uint32_t numbers) {
	static const Parted number;
	Text out;
	text_init(&out, pr->a);
	text_put(&out, "(");
	for (uint32_t i = 0; i < count + numbers; i++) {
		text_put(&out, i ? ", " : "");
		put_spec(&out, mesh, i < count ? &list[i] : &number);
	}
	text_put(&out, count + numbers == 1 ? ",)" : ")");
	return out.at;
}

/* As the kernel's function gives one array, or a tuple. */
static const char *output_specs(Printer *pr, const Sharding *s) {
	Text out;
	text_init(&out, pr->a);
	if (s->outputs.count != 1)
		return specs(pr, &s->mesh, s->outputs.at, s->outputs.count, 0);
	put_spec(&out, &s->mesh, &s->outputs.at[0]);
	return out.at;
}

/* ---- one device's function --------------------------------------------------------------------------------------- */

/* What a step takes of an input, where `part` says of whose part it is. */
static void put_input(Text *out, const KProgram *p, const Sharding *s, uint32_t i, uint32_t *moved) {
	static const Parted number = {.part_dim = NONE};
	const Parted *x = i < s->inputs.count ? &s->inputs.at[i] : &number;
	if (x->moves)
		text_printf(out, "moved[%u]", (*moved)++);
	else if (s->ring.asks && i == p->inputs.count - 1)
		text_put(out, "part");
	else if (x->part_dim == NONE)
		text_printf(out, "arrays[%u]", i);
	else {
		long long size = (long long)p->inputs.at[i].shape[x->part_dim];
		text_printf(out, "jax.lax.dynamic_slice_in_dim(arrays[%u], part * %lld, %lld, %u)", i, size, size,
		            x->part_dim);
	}
}

/* The inputs, each with a comma behind it. */
static const char *inputs_text(Printer *pr, const Sharding *s) {
	const KProgram *p = pr->program;
	uint32_t moved = 0;
	Text out;
	text_init(&out, pr->a);
	text_put(&out, "");
	for (uint32_t i = 0; i < p->inputs.count; i++) {
		put_input(&out, p, s, i, &moved);
		text_put(&out, ", ");
	}
	return out.at;
}

/* The ring's axis and its devices, as its helpers take them. */
static const char *ring_text(Printer *pr, const Sharding *s) {
	const MeshAxis *axis = &s->mesh.axis[s->ring.axis];
	return arena_printf(pr->a, "\"%s\", %lld", axis->name, (long long)axis->devices);
}

/* The function of one step, of a part and, where they travel, of the arrays that are there. */
static void print_of_part(Printer *pr, const Sharding *s, const char *parameters) {
	const char *name = pr->program->name, *inputs = inputs_text(pr, s);
	py_def(&pr->w);
	py_line(&pr->w, "def of_part(%s):", parameters);
	pr->w.indent++;
	if (s->ring.root == NONE)
		py_line(&pr->w, "return %s(%sinterpret=interpret)", name, inputs);
	else
		py_line(&pr->w, "return _%s_step(%s_simulator(interpret))", name, inputs);
	pr->w.indent--;
	py_blank(&pr->w);
}

/* ---- inputs travel ---- */

/* Each step's outputs are written in their places. */
static void print_placed(Printer *pr, const Sharding *s) {
	Text places, put;
	text_init(&places, pr->a);
	text_init(&put, pr->a);
	for (uint32_t i = 0; i < s->outputs.count; i++) {
		const KArray *x = &pr->program->outputs.at[i];
		uint32_t dim = s->outputs.at[i].part_dim;
		int64_t *shape = arena_copy(pr->a, x->shape, x->rank, sizeof *shape);
		shape[dim] *= s->mesh.axis[s->ring.axis].devices;
		text_put(&places, "jnp.zeros(");
		put_shape(&places, x->rank, shape);
		text_printf(&places, ", %s),", dtype_jnp(x->dtype));
		const char *now = s->outputs.count == 1 ? "outputs" : arena_printf(pr->a, "outputs[%u]", i);
		text_printf(&put, "jax.lax.dynamic_update_slice_in_dim(whole[%u], %s, part * %lld, %u),", i, now,
		            (long long)x->shape[dim], dim);
	}
	py_line(&pr->w, "def add(whole, part, outputs):");
	pr->w.indent++;
	py_line(&pr->w, "return (%s)", put.at);
	pr->w.indent--;
	py_blank(&pr->w);
	py_line(&pr->w, "whole = (%s)", places.at);
}

/* Which of the merges of steps is that of the tensor. */
static uint32_t merge_of(const Sharding *s, TensorId t) {
	uint32_t number = 0;
	for (uint32_t i = 0; i < s->merges.count && s->merges.at[i].tensor != t; i++)
		number += s->merges.at[i].steps;
	return number;
}

/* x[i] and y[i] in one. */
static void put_merged(Printer *pr, Text *out, const Sharding *s, const Merge *merge, uint32_t i) {
	static const char *const forms[] = {"x[%u] + y[%u],", "jnp.maximum(x[%u], y[%u]),",
	                                    "jnp.minimum(x[%u], y[%u]),"};
	const Kernel *host = pr->program->host;
	if (merge->kind != MERGE_SCALED) {
		text_printf(out, forms[merge->kind], i, i);
		return;
	}
	uint32_t by = merge_of(s, merge->by);
	const KValue *most = &host->values.at[pr->program->step_values.at[by]];
	uint32_t rank = host->values.at[pr->program->step_values.at[i]].rank;
	int64_t shape[KDIM_MAX];
	for (uint32_t d = 0; d < rank; d++)
		shape[d] = merge->row[d] >= 0 ? most->shape[merge->row[d]] : 1;
	text_printf(out, "%s(x[%u], y[%u], x[%u], y[%u], jnp.%s, ", helper_named(pr, "_add_scaled"), i, i, by, by,
	            merge->exp == OP_EXP2 ? "exp2" : "exp");
	put_shape(out, rank, shape);
	text_put(out, "),");
}

/* What the steps leave is merged, step by step. */
static void print_merged(Printer *pr, const Sharding *s) {
	Text all;
	text_init(&all, pr->a);
	uint32_t number = 0;
	for (uint32_t i = 0; i < s->merges.count; i++)
		if (s->merges.at[i].steps)
			put_merged(pr, &all, s, &s->merges.at[i], number++);
	py_line(&pr->w, "def add(x, part, y):");
	pr->w.indent++;
	py_line(&pr->w, "if x is None:");
	pr->w.indent++;
	py_line(&pr->w, "return y");
	pr->w.indent--;
	py_line(&pr->w, "return (%s)", all.at);
	pr->w.indent--;
	py_blank(&pr->w);
}

static void print_gather(Printer *pr, const Sharding *s) {
	Text moved, own;
	text_init(&moved, pr->a);
	text_init(&own, pr->a);
	for (uint32_t i = 0; i < s->inputs.count; i++)
		if (s->inputs.at[i].moves)
			text_printf(&moved, moved.length ? ", arrays[%u]" : "arrays[%u]", i);
	print_of_part(pr, s, "part, moved");
	if (s->ring.root == NONE)
		print_placed(pr, s);
	else
		print_merged(pr, s);
	py_line(&pr->w, "whole = %s(%s, [%s], of_part, add, %s)", helper_named(pr, "_ring_parts"), ring_text(pr, s),
	        moved.at, s->ring.root == NONE ? "whole" : "None");
	if (s->ring.root == NONE) {
		py_line(&pr->w, s->outputs.count == 1 ? "return whole[0]" : "return whole");
		return;
	}
	/* What is behind reads nothing that has parts. */
	for (uint32_t i = 0; i < pr->program->inputs.count - s->ring.asks; i++)
		text_printf(&own, "arrays[%u], ", i);
	text_put(&own, s->ring.asks ? "0, " : "");
	py_line(&pr->w, "return _%s_end(*whole, %s_simulator(interpret))", pr->program->name, own.at);
}

/* ---- sums travel ---- */

static void print_scatter(Printer *pr, const Sharding *s) {
	const char *axis = s->mesh.axis[s->ring.axis].name;
	if (!s->ring.plain) {
		print_of_part(pr, s, "part");
		py_line(&pr->w, "outputs = %s(%s, of_part)", helper_named(pr, "_ring_sum"), ring_text(pr, s));
		py_line(&pr->w, "part = jax.lax.axis_index(\"%s\")", axis);
		py_line(&pr->w, "return _%s_end(*outputs, %s_simulator(interpret))", pr->program->name,
		        inputs_text(pr, s));
		return;
	}
	/* All that is returned is a sum, scattered along its first dim that can be. */
	py_line(&pr->w, "outputs = _%s_step(*arrays, _simulator(interpret))", pr->program->name);
	Text all;
	text_init(&all, pr->a);
	for (uint32_t i = 0; i < s->merges.count; i++)
		for (uint32_t r = 0; r < s->outputs.count; r++)
			if (s->merges.at[i].steps && s->outputs.at[r].tensor == s->merges.at[i].tensor)
				text_printf(&all,
				            "jax.lax.psum_scatter(outputs[%u], \"%s\", scatter_dimension=%u, "
				            "tiled=True),",
				            merge_of(s, s->merges.at[i].tensor), axis, s->outputs.at[r].part_dim);
	py_line(&pr->w, "outputs = (%s)", all.at);
	py_line(&pr->w, "return _%s_end(*outputs, *arrays, _simulator(interpret))", pr->program->name);
}

/* A device's parts of the inputs are what they must be: the kernel's own checks are of one step's. */
static void print_checks(Printer *pr, const Sharding *s) {
	for (uint32_t i = 0; i < s->inputs.count; i++) {
		const Parted *p = &s->inputs.at[i];
		const KArray *x = &pr->program->inputs.at[i];
		Text shape;
		text_init(&shape, pr->a);
		text_put(&shape, "");
		for (uint32_t d = 0; d < p->rank; d++)
			text_printf(&shape, d ? ", %lld" : "%lld",
			            (long long)(p->size[d] / cut_parts(&s->mesh, &p->dim[d])));
		py_line(&pr->w, "_check(\"%s\", arrays[%u], \"%s[%s]\")", x->name, i, dtype_name(x->dtype), shape.at);
	}
}

static void print_of_one_device(Printer *pr, const Sharding *s) {
	print_checks(pr, s);
	if (s->ring.kind == RING_GATHER)
		print_gather(pr, s);
	else
		print_scatter(pr, s);
}

void print_sharded(Printer *pr, const Sharding *s) {
	const KProgram *p = pr->program;
	uint32_t numbers = p->inputs.count - s->inputs.count - s->ring.asks;
	text_put(pr->w.out, "\n\n");
	pr->w.indent = 0;
	py_line(&pr->w, "def %s_sharded(mesh):", p->name);
	pr->w.indent = 1;
	text_printf(
		pr->w.out,
		"    \"\"\"Returns %s() of whole arrays, split over a mesh: see its KERNEL_INFO[\"sharding\"].\"\"\"\n",
		p->name);
	py_line(&pr->w, "for axis, devices in KERNEL_INFO[\"sharding\"][\"mesh\"].items():");
	pr->w.indent = 2;
	py_line(&pr->w, "if mesh.shape.get(axis) != devices:");
	pr->w.indent = 3;
	py_line(&pr->w, "raise TypeError(f\"the mesh must have an axis {axis} of {devices} devices\")");
	pr->w.indent = 1;
	py_blank(&pr->w);
	const char *one = p->name;
	if (s->ring.kind != RING_NONE && !s->ring.inside) {
		py_line(&pr->w, "def of_one_device(*arrays, interpret):");
		pr->w.indent = 2;
		print_of_one_device(pr, s);
		pr->w.indent = 1;
		py_blank(&pr->w);
		one = "of_one_device";
	}
	py_line(&pr->w, "@functools.partial(jax.jit, static_argnames=(\"interpret\",))");
	py_line(&pr->w, "def whole(*arrays, interpret=False):");
	pr->w.indent = 2;
	const char *inputs = specs(pr, &s->mesh, s->inputs.at, s->inputs.count, numbers);
	py_statement(&pr->w, arena_printf(pr->a, "specs = %s", inputs));
	py_statement(&pr->w,
	             arena_printf(pr->a,
	                          "split = jax.shard_map(functools.partial(%s, interpret=interpret), mesh=mesh, "
	                          "in_specs=specs, out_specs=%s, check_vma=%s,)",
	                          one, output_specs(pr, s),
	                          pr->program->axes.count || s->ring.inside ? "False" : "True"));
	py_line(&pr->w, "# A mesh of explicit axes takes only what lies so.");
	py_line(&pr->w, "places = tuple(jax.sharding.NamedSharding(mesh, spec) for spec in specs)");
	py_line(&pr->w, "return split(*jax.device_put(arrays, places))");
	pr->w.indent = 1;
	py_blank(&pr->w);
	py_line(&pr->w, "return whole");
	pr->w.indent = 0;
}
