"""The whole document: blocks, tunables, configuration, and its text."""

import dataclasses
import sys

import sympy
from helion.autotuner.config_spec import VALID_KEYS

from .errors import ExportError
from .graphs import GraphSet
from .host import HostReplay
from .hostroots import roots_join
from .rangeroots import UNKNOWN, range_roots, run_time
from .tensors import TensorTable
from .trace import kernel_trace
from .values import Symbols, constant, size_hint

# Those that Helion and pallasc share. Helion's others mean nothing on a TPU; what Helion has not is
# kept as it is, so that a key of pallasc alone needs no line here.
CONFIG_KEYS = (
    "block_sizes",
    "reduction_loops",
    "loop_orders",
    "flatten_loops",
    "pallas_load_buffer_count",
    "pallas_loop_type",
    "pallas_pre_broadcast",
    "pallas_indirect_access_mode",
    "pallas_worklist_grouping",
    "pallas_emit_pipeline_group_size",
)


@dataclasses.dataclass
class Export:
    """A kernel's document, and what a caller of the kernel needs beside it.

    Attributes:
      document: the document, with the configuration that was asked for.
      result: what the kernel returned, where an int stands for a tensor: its place in `returns`.
      configuration: a function of one of Helion's configurations: the document's `config` for it.
      captured: a function of a call's arguments by name: captured tensors by name, as they are now.
    """

    document: dict
    result: object
    configuration: object
    captured: object


def kernel_export(
    kernel, args, config=None, name=None, ranges=None, items=None, named=False, mesh=None
):
    """Return the Export of `kernel` traced with `args`, whose ints lie in `ranges`.

    Of the ints in some places `items` says what they are. With `named` the sizes of arguments are
    names; None: those of a kernel that says static_shapes=False, where they can be. `mesh`: the
    axis along which devices run it, and how many, as {"ring": 4}.
    """
    wanted = named if named is not None else is_dynamic(kernel)
    if not wanted:
        return trace_export(kernel_trace(kernel, args, ranges, items), config, name, mesh)
    for whole_dims in (True, False):
        try:
            trace = kernel_trace(kernel, args, ranges, items, True, whole_dims)
            return trace_export(trace, config, name, mesh)
        except Exception as error:
            found = error
    # What is wrong whatever the sizes are is told by this.
    export = kernel_export(kernel, args, config, name, ranges, items, mesh=mesh)
    told = " ".join(str(found).split())
    called = export.document["name"]
    if named:
        raise ExportError(f"sizes of {called} cannot be names: {told}") from found
    print(f"pallasc: note: sizes of {called} are numbers: {told}", file=sys.stderr)
    return export


def is_dynamic(kernel):
    """Return whether a kernel says that it is for any sizes."""
    return getattr(getattr(kernel, "settings", None), "static_shapes", True) is False


def trace_export(trace, config, name, mesh=None):
    """Return the Export of a trace."""
    with trace.env:
        replay = HostReplay(trace)
        symbols = Symbols(trace)
        for symbol in trace.numbers | replay.decided if trace.named else ():
            symbols.known[symbol] = sympy.Integer(size_hint(trace, symbol))
        sizes = symbols.sizes_name(replay.inputs)
        tensors = TensorTable(trace, symbols, replay)
        graphs = range_roots(tensors, GraphSet(trace, symbols, tensors).graphs)
        returns = tensors.returns()
        tensors.host_changes()
        tensors.promises_check()
        blocks = blocks_build(trace, symbols, replay, graphs)
        free = [b["name"] for b in blocks if "size" not in b and not b.get("reduction")]
        graphs = roots_join(tensors, graphs, blocks)
        document = {"format": "fxtile", "version": 1, "name": name or trace.name}
        if mesh := mesh_of(trace, graphs, mesh):
            document["mesh"] = mesh
        if sizes:
            document["sizes"] = sizes
        called = names_called(graphs) | {entry["tensor"] for entry in returns}
        document["tensors"] = tensors.ordered(called)
        if scalars := [entry for name, entry in tensors.scalars.items() if name in called]:
            document["scalars"] = scalars
        document["returns"] = returns
        document["block_sizes"] = blocks
        if tunables := tunables_build(trace):
            document["tunables"] = tunables
        document["graphs"] = graphs
        document["config"] = config_build(trace, config, free)

    def captured(arguments):
        return {name: tensors.value_of(path, arguments) for name, path in tensors.paths.items()}

    return Export(
        document, replay.result, lambda config: config_build(trace, config, free), captured
    )


def mesh_of(trace, graphs, mesh):
    """Return the mesh as given; one that copies need and nobody gave is asked for."""
    targets = {node.get("target") or "" for graph in graphs for node in graph["nodes"]}
    if mesh is None and any(target.startswith("tile.remote_") for target in targets):
        told = "its devices meet: say how many run it (--mesh ring=4, mesh={'ring': 4})"
        raise ExportError(told, trace.source.where(trace.source.first))
    return mesh


def names_called(graphs):
    """Return the names of the host tensors and scalars that live nodes call."""
    return {
        node["args"][0]
        for graph in graphs
        for node in graph["nodes"]
        if node.get("target") in ("tile.host_tensor", "tile.scalar")
    }


def blocks_build(trace, symbols, replay, graphs):
    """Return `block_sizes`: each block id's symbol, name and range."""
    ranges = dict(loop_ranges(graphs))
    sizes = {}
    for root, ids in zip(replay.roots, trace.device_ir.grid_block_ids, strict=True):
        for block, begin, end, step in zip(ids, root.begins, root.ends, root.steps, strict=True):
            where = trace.source.where(root.line)
            if not run_time(replay, begin) and not run_time(replay, end):
                ranges[block] = tuple(bound_of(v, symbols, replay, where) for v in (begin, end))
            if step is not None:
                sizes[block] = bound_of(step, symbols, replay, where)
    blocks = []
    registered = trace.source.registered_blocks()
    for info in trace.env.block_sizes:
        begin, extent = ranges.get(info.block_id, (0, size_of(info, symbols)))
        name = min(info.debug_names, default=f"block_{info.block_id}")
        name = registered.get(name, name)
        block = {"id": info.block_id, "symbol": str(info.symbol()), "name": name}
        if begin not in (0, None):
            block["begin"] = begin
        block["extent"] = extent
        if info.block_id in sizes or hasattr(info.block_size_source, "value"):
            fixed = getattr(info.block_size_source, "value", None)
            block["size"] = sizes.get(info.block_id) or symbols.expression(fixed)
            if block["size"] is None:
                where = trace.source.where(trace.source.first)
                raise ExportError(f"the block size of '{name}' is {fixed}, not expressible", where)
        if info.reduction:
            block["reduction"] = True
        elif "size" not in block:
            fixed_check(trace, info, name)
        blocks.append(block)
    return blocks


def fixed_check(trace, info, name):
    """Refuse a block whose size an operation compared with a number: to Helion it is that since."""
    size = trace.env.shape_env.replacements.get(info.symbol())
    if size is not None and size.is_Integer and size != 1:
        told = f"an operation takes the block of '{name}' for {size}, whatever its size is"
        hint = f"say so with block_size={size}, or use another operation"
        raise ExportError(f"{told}: {hint}", trace.source.where(trace.source.first))


def size_of(info, symbols):
    """Return the extent that Helion has for a block id, None where it varies."""
    try:
        return symbols.expression(info.size)
    except Exception:
        return None


def bound_of(value, symbols, replay, where):
    """Return a root's bound: an int or an expression."""
    if isinstance(value, int):
        return value
    node = getattr(value, "node", None)
    text = symbols.expression(node.expr.xreplace(replay.symbols)) if node else None
    if text is None:
        raise ExportError(UNKNOWN, where)
    return text


def loop_ranges(graphs):
    """Yield (block id, (begin, end)) where all calls of a loop agree; None for what varies."""
    block_ids = {graph["id"]: graph.get("block_ids", []) for graph in graphs}
    found = {}
    for graph in graphs:
        for node in graph["nodes"]:
            if node.get("target") == "tile.for_loop":
                callee, begins, ends = node["args"][:3]
                for block, begin, end in zip(block_ids[callee], begins, ends, strict=True):
                    found.setdefault(block, []).append((begin, end))
    for block, pairs in found.items():
        begins, ends = ([p[side] for p in pairs] for side in (0, 1))
        yield block, (agreed(begins), agreed(ends))


def agreed(bounds):
    """Return the one static bound among `bounds`, None if there is none."""
    first = bounds[0]
    if any(bound != first for bound in bounds):
        return None
    if isinstance(first, dict):
        return first.get("sym")
    return first


def tunables_build(trace):
    """Return `tunables` from the kernel's registered ones."""
    tunables = {}
    for name, fragment in trace.env.config_spec.user_defined_tunables.items():
        tunable = {"default": constant(fragment.default())}
        if choices := fragment_choices(fragment):
            tunable["choices"] = choices
        tunables[name] = tunable
    return tunables


def fragment_choices(fragment):
    """Return the values that one of Helion's tunable fragments may take, [] if too many."""
    if hasattr(fragment, "choices"):
        return [constant(choice) for choice in fragment.choices]
    kind = type(fragment).__name__
    if kind == "BooleanFragment":
        return [False, True]
    low, high = getattr(fragment, "low", 0), getattr(fragment, "high", -1)
    if kind == "PowerOfTwoFragment":
        return [1 << power for power in range(high.bit_length()) if low <= 1 << power <= high]
    return list(range(low, high + 1)) if high - low < 64 else []


def config_build(trace, config, free):
    """Return `config`: what the caller gave, else the kernel's own, else nothing.

    Not Helion's default: pallasc chooses block sizes for the chip where none are given.
    """
    given = config if config is not None else (trace.configs[0] if trace.configs else None)
    if given is None:
        return {}
    spec = trace.env.config_spec
    known = set(CONFIG_KEYS) | set(spec.user_defined_tunables)
    helions = set(VALID_KEYS) | set(dict(spec.default_config()))
    kept = {key: value for key, value in dict(given).items() if key in known or key not in helions}
    for key in ("block_sizes", "reduction_loops", "flatten_loops"):
        if key in kept:
            kept[key] = flat(kept[key]) if isinstance(kept[key], list | tuple) else [kept[key]]
    if "block_sizes" not in kept:
        return kept
    sizes = kept["block_sizes"]
    if len(sizes) != len(free):
        message = f"config has block_sizes {sizes}, the kernel has {len(free)} ({', '.join(free)})"
        raise ExportError(message, trace.source.where(trace.source.first))
    return kept


def flat(sizes):
    """Return block sizes one by one: Helion takes those of one loop as a list in the list, too."""
    return [x for size in sizes for x in (size if isinstance(size, list | tuple) else [size])]
