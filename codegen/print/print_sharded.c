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

void print_sharding_info(const Sharding *s, Text *out) {
	text_put(out, " \"sharding\": {\"mesh\": {");
	for (uint32_t i = 0; i < s->mesh.count; i++)
		text_printf(out, i ? ", \"%s\": %lld" : "\"%s\": %lld", s->mesh.axis[i].name,
		            (long long)s->mesh.axis[i].devices);
	text_put(out, "}");
	put_info(out, &s->mesh, "inputs", s->inputs.at, s->inputs.count);
	put_info(out, &s->mesh, "outputs", s->outputs.at, s->outputs.count);
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
	py_line(&pr->w, "@functools.partial(jax.jit, static_argnames=(\"interpret\",))");
	py_line(&pr->w, "def whole(*arrays, interpret=False):");
	pr->w.indent = 2;
	py_statement(&pr->w,
	             arena_printf(pr->a,
	                          "split = jax.shard_map(functools.partial(%s, interpret=interpret), mesh=mesh, "
	                          "in_specs=%s, out_specs=%s, check_vma=%s,)",
	                          p->name, specs(pr, &s->mesh, s->inputs.at, s->inputs.count, numbers),
	                          output_specs(pr, s), pr->program->axes.count ? "False" : "True"));
	py_line(&pr->w, "return split(*arrays)");
	pr->w.indent = 1;
	py_blank(&pr->w);
	py_line(&pr->w, "return whole");
	pr->w.indent = 0;
}
