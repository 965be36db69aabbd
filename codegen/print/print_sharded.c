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
	text_put(out, "}, \"shapes\": {");
	put_shapes(out, "inputs", s->inputs.at, s->inputs.count);
	text_put(out, ", ");
	put_shapes(out, "outputs", s->outputs.at, s->outputs.count);
	text_put(out, "}");
	if (s->ring.inside)
		text_put(out, ", \"ring\": \"kernel\"");
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

/* The wrapper calls the kernel several times. */
static bool ring_steps(const Sharding *s) { return s->ring.kind != RING_NONE && !s->ring.plain && !s->ring.inside; }

/* What a step takes of an input, where `part` says of whose part it is. */
static void put_input(Text *out, const KProgram *p, const Sharding *s, uint32_t i, uint32_t *moved) {
	static const Parted number = {.part_dim = NONE};
	const Parted *x = i < s->inputs.count ? &s->inputs.at[i] : &number;
	if (x->moves)
		text_printf(out, "moved[%u]", (*moved)++);
	else if (x->part_dim == NONE)
		text_printf(out, "arrays[%u]", i);
	else {
		long long size = (long long)p->inputs.at[i].shape[x->part_dim];
		text_printf(out, "jax.lax.dynamic_slice_in_dim(arrays[%u], part * %lld, %lld, %u)", i, size, size,
		            x->part_dim);
	}
}

/* The kernel's call, of all that the device has or of what a step takes. */
static const char *call_text(Printer *pr, const Sharding *s) {
	const KProgram *p = pr->program;
	uint32_t moved = 0;
	if (!ring_steps(s))
		return arena_printf(pr->a, "%s(*arrays, interpret=interpret)", p->name);
	Text out;
	text_init(&out, pr->a);
	text_printf(&out, "%s(", p->name);
	for (uint32_t i = 0; i < p->inputs.count; i++) {
		put_input(&out, p, s, i, &moved);
		text_put(&out, ", ");
	}
	text_put(&out, "interpret=interpret)");
	return out.at;
}

/* Output i of a call that gives one or a tuple. */
static const char *output_text(Printer *pr, const Sharding *s, uint32_t i) {
	return s->outputs.count == 1 ? "outputs" : arena_printf(pr->a, "outputs[%u]", i);
}

/* Each output as it is when all devices have added what they have. */
static void print_returned(Printer *pr, const Sharding *s) {
	Text all;
	text_init(&all, pr->a);
	for (uint32_t i = 0; i < s->outputs.count; i++) {
		const Parted *p = &s->outputs.at[i];
		const char *value = s->ring.kind == RING_GATHER && ring_steps(s) ? arena_printf(pr->a, "whole_%u", i)
		                                                                 : output_text(pr, s, i);
		if (p->moves && s->ring.plain)
			value = arena_printf(pr->a,
			                     "jax.lax.psum_scatter(%s, \"%s\", scatter_dimension=%u, tiled=True)",
			                     value, s->mesh.axis[s->ring.axis].name, p->part_dim);
		text_put(&all, i ? ", " : "");
		text_put(&all, p->sum.count ? "jax.lax.psum(" : "");
		text_put(&all, value);
		if (p->sum.count) {
			text_put(&all, ", ");
			put_cut(&all, &s->mesh, &p->sum);
			text_put(&all, ")");
		}
		bool moved = p->moves && s->ring.kind == RING_SCATTER && !s->ring.inside;
		if (p->sum.count || p->part_sum || moved)
			text_printf(&all, ".astype(%s)", dtype_jnp(p->dtype));
	}
	py_line(&pr->w, "return %s", all.at);
}

/* The ring's axis and its devices, as its helpers take them. */
static const char *ring_text(Printer *pr, const Sharding *s) {
	const MeshAxis *axis = &s->mesh.axis[s->ring.axis];
	return arena_printf(pr->a, "\"%s\", %lld", axis->name, (long long)axis->devices);
}

/* Places for what steps give parts of, and 0 for what they add to. */
static void print_places(Printer *pr, const Sharding *s) {
	for (uint32_t i = 0; i < s->outputs.count; i++) {
		const KArray *x = &pr->program->outputs.at[i];
		uint32_t dim = s->outputs.at[i].part_dim;
		if (dim == NONE) {
			py_line(&pr->w, "whole_%u = 0", i);
			continue;
		}
		int64_t *shape = arena_copy(pr->a, x->shape, x->rank, sizeof *shape);
		shape[dim] *= s->mesh.axis[s->ring.axis].devices;
		Text out;
		text_init(&out, pr->a);
		put_shape(&out, x->rank, shape);
		py_line(&pr->w, "whole_%u = jnp.zeros(%s, %s)", i, out.at, dtype_jnp(x->dtype));
	}
}

/* The function of one step, of a part and, where they travel, of the arrays that are there. */
static void print_of_part(Printer *pr, const Sharding *s, const char *parameters) {
	py_def(&pr->w);
	py_line(&pr->w, "def of_part(%s):", parameters);
	pr->w.indent++;
	py_line(&pr->w, "return %s", call_text(pr, s));
	pr->w.indent--;
	py_blank(&pr->w);
}

static void print_gather(Printer *pr, const Sharding *s) {
	Text moved;
	text_init(&moved, pr->a);
	for (uint32_t i = 0; i < s->inputs.count; i++)
		if (s->inputs.at[i].moves)
			text_printf(&moved, moved.length ? ", arrays[%u]" : "arrays[%u]", i);
	print_of_part(pr, s, "part, moved");
	print_places(pr, s);
	py_line(&pr->w, "for part, outputs in %s(%s, [%s], of_part):", helper_named(pr, "_ring_parts"),
	        ring_text(pr, s), moved.at);
	pr->w.indent++;
	for (uint32_t i = 0; i < s->outputs.count; i++) {
		uint32_t dim = s->outputs.at[i].part_dim;
		if (dim == NONE)
			py_line(&pr->w, "whole_%u += %s", i, output_text(pr, s, i));
		else
			py_line(&pr->w, "whole_%u = jax.lax.dynamic_update_slice_in_dim(whole_%u, %s, part * %lld, %u)",
			        i, i, output_text(pr, s, i), (long long)pr->program->outputs.at[i].shape[dim], dim);
	}
	pr->w.indent--;
}

static void print_scatter(Printer *pr, const Sharding *s) {
	print_of_part(pr, s, "part");
	py_line(&pr->w, "outputs = %s(%s, of_part)", helper_named(pr, "_ring_sum"), ring_text(pr, s));
}

static void print_of_one_device(Printer *pr, const Sharding *s) {
	bool sums = false;
	for (uint32_t i = 0; i < s->outputs.count; i++)
		sums = sums || s->outputs.at[i].sum.count;
	if ((s->ring.kind == RING_NONE || s->ring.inside) && !sums) {
		py_line(&pr->w, "return %s", call_text(pr, s));
		return;
	}
	if (s->ring.kind == RING_GATHER && ring_steps(s))
		print_gather(pr, s);
	else if (s->ring.kind == RING_SCATTER && ring_steps(s))
		print_scatter(pr, s);
	else
		py_line(&pr->w, "outputs = %s", call_text(pr, s));
	print_returned(pr, s);
}

void print_sharded(Printer *pr, const Sharding *s) {
	const KProgram *p = pr->program;
	uint32_t numbers = p->inputs.count - s->inputs.count;
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
	py_line(&pr->w, "def of_one_device(*arrays, interpret):");
	pr->w.indent = 2;
	print_of_one_device(pr, s);
	pr->w.indent = 1;
	py_blank(&pr->w);
	py_line(&pr->w, "@functools.partial(jax.jit, static_argnames=(\"interpret\",))");
	py_line(&pr->w, "def whole(*arrays, interpret=False):");
	pr->w.indent = 2;
	const char *inputs = specs(pr, &s->mesh, s->inputs.at, s->inputs.count, numbers);
	py_statement(&pr->w, arena_printf(pr->a, "specs = %s", inputs));
	py_statement(
		&pr->w,
		arena_printf(pr->a,
	                     "split = jax.shard_map(functools.partial(of_one_device, interpret=interpret), mesh=mesh, "
	                     "in_specs=specs, out_specs=%s, check_vma=%s,)",
	                     output_specs(pr, s), s->ring.inside ? "False" : "True"));
	py_line(&pr->w, "# A mesh of explicit axes takes only what lies so.");
	py_line(&pr->w, "places = tuple(jax.sharding.NamedSharding(mesh, spec) for spec in specs)");
	py_line(&pr->w, "return split(*jax.device_put(arrays, places))");
	pr->w.indent = 1;
	py_blank(&pr->w);
	py_line(&pr->w, "return whole");
	pr->w.indent = 0;
}
