/* print_jax.c - how a module's kernels are called: in simulation, and under jax's transformations. Nothing here decides
 * what a TPU runs, and kernel_text() of Python's module.py leaves it out: all of it stands behind `def _simulator`, or
 * `def _sparse_call` where jax simulates nothing. */
#include "printer.h"

static void blank_lines(Printer *pr) { text_put(pr->w.out, "\n\n"); }

void print_simulator(Printer *pr, const char *mesh_axis) {
	blank_lines(pr);
	text_put(pr->w.out,
	         "def _simulator(interpret):\n"
	         "    \"\"\"What pallas_call takes: True simulates a TPU, InterpretParams pass through.\"\"\"\n"
	         "    if not interpret:\n"
	         "        return False\n"
	         "    mesh = jax.sharding.get_abstract_mesh()\n"
	         "    threads = 4 * mesh.size if mesh.manual_axes and mesh.size > 1 else 0\n"
	         "    if _threads() < threads:\n"
	         "        raise RuntimeError(\n"
	         "            f\"{mesh.size} simulated devices need NPROC={threads} or more in the \"\n"
	         "            \"environment before jax starts: with fewer threads they wait forever\"\n"
	         "        )\n");
	if (mesh_axis)
		text_printf(
			pr->w.out,
			"    if _axes(jax.lax.axis_index(\"%s\")):\n"
			"        raise TypeError(\n"
			"            \"simulated, it needs a jax.shard_map with check_vma=False: jax's simulator \"\n"
			"            \"gives no varying axes to what devices exchange\"\n"
			"        )\n",
			mesh_axis);
	text_put(pr->w.out, "    try:\n"
	                    "        from jax._src.pallas.mosaic import tpu_info\n"
	                    "\n"
	                    "        if hasattr(pltpu, \"get_tpu_info_for_chip\"):\n"
	                    "            chip = pltpu.get_tpu_info_for_chip(pltpu.ChipVersion.TPU_V6E, 1)\n"
	                    "            kind = tpu_info.get_device_kind()\n"
	                    "        else:\n"
	                    "            device = jax.sharding.AbstractDevice(\"TPU v6 lite\", 1)\n"
	                    "            chips = jax.sharding.AbstractMesh((), (), abstract_device=device)\n"
	                    "            with jax.sharding.use_abstract_mesh(chips):\n"
	                    "                chip, kind = tpu_info.get_tpu_info(), \"cpu\"\n"
	                    "        tpu_info.registry.setdefault(kind, lambda: chip)\n"
	                    "    except (ImportError, AttributeError):\n"
	                    "        pass\n"
	                    "    if interpret is not True:\n"
	                    "        return interpret\n"
	                    "    try:\n"
	                    "        return pltpu.InterpretParams(buffer_bounds=\"padded\")\n"
	                    "    except TypeError:\n"
	                    "        return pltpu.InterpretParams()\n");
	blank_lines(pr);
	text_put(pr->w.out, "@functools.cache\n"
	                    "def _threads():\n"
	                    "    \"\"\"How many threads XLA has on a CPU: it counts them once.\"\"\"\n"
	                    "    from os import cpu_count, environ\n"
	                    "\n"
	                    "    count = environ.get(\"NPROC\", \"\")\n"
	                    "    return int(count) if count.isdecimal() else cpu_count() or 1\n");
}

/* `name` is what kernels are called by: jax's `function` gets the types of their outputs as `keyword`. `ragged`: some
 * update arrays that are not of whole blocks. */
static void print_call(Printer *pr, const char *name, const char *function, const char *keyword, bool ragged) {
	const char *padded = "        if interpret:\n"
			     "            arrays, shapes = _whole_blocks(arrays, shapes, options)\n",
		   *cut = "_cut(call(*arrays), out_shape)";
	blank_lines(pr);
	text_printf(pr->w.out,
	            "def %s(kernel, %s, interpret, **options):\n"
	            "    \"\"\"%s for shard_map and vmap, which says that it has no derivative.\"\"\"\n"
	            "\n"
	            "    def run(*arrays):\n"
	            "        arrays, shapes = _varying(arrays, %s)\n"
	            "%s"
	            "        call = %s(kernel, %s=shapes, interpret=interpret, **options)\n"
	            "        return %s\n"
	            "\n"
	            "    def batched(*arrays):\n"
	            "        specs = [*options.get(\"in_specs\", [None]), *options.get(\"out_specs\", [None])]\n"
	            "        windows = all(spec and len(spec.block_shape or ()) > 1 for spec in specs)\n"
	            "        half = any(x.dtype == jnp.float16 for x in (*arrays, *%s))\n"
	            "        return _batched(run, windows and not half and not interpret)(*arrays)\n"
	            "\n"
	            "    def refuse(primals, tangents):\n"
	            "        raise TypeError(\n"
	            "            f\"{KERNEL_INFO['name']} has no backward: add one by pallasc --backward or \"\n"
	            "            \"pallasc grad, or give it jax.lax.stop_gradient of its arguments\"\n"
	            "        )\n"
	            "\n"
	            "    call = jax.custom_jvp(batched)\n"
	            "    call.defjvp(refuse)\n"
	            "    return call\n",
	            name, keyword, function, keyword, ragged ? padded : "", function, keyword,
	            ragged ? cut : "call(*arrays)", keyword);
}

/* jax's simulator pads an array to whole blocks, and gives one that takes over a buffer back so; it then has another
 * shape than was declared. */
static void print_whole_blocks(Printer *pr) {
	blank_lines(pr);
	text_put(pr->w.out,
	         "def _whole_blocks(arrays, shapes, options):\n"
	         "    \"\"\"The same, those that are updated of whole blocks, as the simulator wants them.\"\"\"\n"
	         "    spec = options.get(\"grid_spec\")\n"
	         "    specs = spec.out_specs if spec else options[\"out_specs\"]\n"
	         "    for source, output in options.get(\"input_output_aliases\", {}).items():\n"
	         "        x, block = arrays[source], specs[output].block_shape or ()\n"
	         "        widths = [(0, -n % size) for n, size in zip(x.shape, block)]\n"
	         "        if any(width != (0, 0) for width in widths):\n"
	         "            fill = jnp.nan if jnp.issubdtype(x.dtype, jnp.floating) else 1\n"
	         "            arrays[source] = jnp.pad(x, widths, constant_values=fill)\n"
	         "            shapes[output] = shapes[output].update(shape=arrays[source].shape)\n"
	         "    return arrays, shapes\n");
	blank_lines(pr);
	text_put(pr->w.out, "def _cut(arrays, shapes):\n"
	                    "    \"\"\"The elements that an array of each shape has.\"\"\"\n"
	                    "    return [x[tuple(map(slice, y.shape))] for x, y in zip(arrays, shapes)]\n");
}

static void print_transformations(Printer *pr) {
	blank_lines(pr);
	text_put(pr->w.out,
	         "def _varying(arrays, shapes):\n"
	         "    \"\"\"The same, varying along all axes of a shard_map along which one of them does.\"\"\"\n"
	         "    axes = [_axes(x) for x in arrays]\n"
	         "    every = frozenset().union(*axes)\n"
	         "    along = {\"vma\": every}\n"
	         "    if hasattr(jax.sharding, \"ManualAxisType\"):\n"
	         "        along = {\"manual_axis_type\": jax.sharding.ManualAxisType(varying=every)}\n"
	         "    missing = [tuple(every - some) for some in axes]\n"
	         "    return (\n"
	         "        [jax.lax.pcast(x, to, to=\"varying\") for x, to in zip(arrays, missing)],\n"
	         "        [jax.ShapeDtypeStruct(x.shape, x.dtype, **along) for x in shapes],\n"
	         "    )\n");
	blank_lines(pr);
	text_put(pr->w.out, "def _axes(x):\n"
	                    "    \"\"\"The axes along which x varies in a shard_map that checks it.\"\"\"\n"
	                    "    kind = jax.typeof(x)\n"
	                    "    return kind.vma if hasattr(kind, \"vma\") else kind.manual_axis_type.varying\n");
	blank_lines(pr);
	text_put(pr->w.out,
	         "def _batched(run, in_grid):\n"
	         "    \"\"\"`run` whose vmap is one more dim of the grid, or one run after the other.\"\"\"\n"
	         "    if not in_grid:\n"
	         "        return jax.custom_batching.sequential_vmap(run)\n"
	         "    call = jax.custom_batching.custom_vmap(run)\n"
	         "\n"
	         "    def rule(_, batched, *arrays):\n"
	         "        together = jax.vmap(run, [0 if each else None for each in batched])\n"
	         "        outputs = _batched(together, in_grid)(*arrays)\n"
	         "        return outputs, jax.tree.map(lambda _: True, outputs)\n"
	         "\n"
	         "    call.def_vmap(rule)\n"
	         "    return call\n");
}

/* An output takes over the buffer of an input, which is not of whole blocks. */
static bool updates_ragged(const Kernel *k) {
	bool ragged = false;
	for (BufferId i = 0; i < k->buffers.count; i++) {
		const KBuffer *b = &k->buffers.at[i];
		bool windows = b->role == BUFFER_OUT && b->alias != NONE && b->space == KSPACE_VMEM;
		for (uint32_t d = 0; windows && d < b->rank; d++)
			ragged = ragged || b->array[d] % b->shape[d] != 0;
	}
	return ragged;
}

void note_calls(const KProgram *p, Calls *calls) {
	for (uint32_t i = 0; i < p->kernels.count; i++) {
		calls->sparse |= p->kernels.at[i]->sparse_cores != 0;
		calls->grids |= p->kernels.at[i]->sparse_cores == 0;
		calls->ragged |= updates_ragged(p->kernels.at[i]);
	}
}

void print_calls(Printer *pr, const Calls *calls) {
	if (calls->grids)
		print_call(pr, "_pallas_call", "pl.pallas_call", "out_shape", calls->ragged);
	if (calls->sparse)
		print_call(pr, "_sparse_call", "pl.kernel", "out_type", false);
	if (calls->ragged)
		print_whole_blocks(pr);
	print_transformations(pr);
}
