"""The proof's matrix, defined once: which kernels are simulated, compiled for a chip, and pinned.

A `Case` is a graph under a configuration. The numerics, the TPU compiler's verdicts, the goldens,
the lint and docs/proof.md all take their cases from here.
"""

import contextlib
import dataclasses
import functools
import hashlib
import inspect
import json
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GRAPH_DIRECTORY = ROOT / "testdata" / "graphs"
COVERAGE_DIRECTORY = ROOT / "testdata" / "coverage" / "graphs"
GOLDEN_DIRECTORY = ROOT / "testdata" / "golden"
RESULTS_DIRECTORY = ROOT / "build" / "proof"
for _path in (ROOT / "python", ROOT / "python" / "tests", ROOT / "tests" / "whole"):
    if str(_path) not in sys.path:
        sys.path.insert(0, str(_path))

import formulas  # noqa: E402
import numpy as np  # noqa: E402
import verdicts  # noqa: E402
from pallasc import chips, compare, reference  # noqa: E402
from pallasc import compile as compile_graph  # noqa: E402
from pallasc.errors import CompileError, KernelError  # noqa: E402
from pallasc.module import kernel_text  # noqa: E402

# A simulation runs each program of XLA's once or twice, and half of its time is compiling them: so
# with no optimisation, and not cut into parts (together 26% less CPU, five kernels, jaxlib 0.10.2).
_LIGHT = "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
if _LIGHT not in os.environ.get("XLA_FLAGS", ""):  # a process started by one that has it
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_LIGHT}".strip()
chips.choose_platform(simulate=True)

CHIPS = ("v4", "v5e", "v5p", "v6e", "v7x")

# The ways to lower a loop. fori_loop copies what it can; its resident form copies nothing itself.
# What `pallas_fori_dma: auto` takes is one of the two.
LOOPS = {
    "unroll": {"pallas_loop_type": "unroll"},
    "fori_loop": {"pallas_loop_type": "fori_loop"},
    "resident": {"pallas_loop_type": "fori_loop", "pallas_fori_dma": False},
    "emit_pipeline": {"pallas_loop_type": "emit_pipeline"},
}

# Block sizes beside the graph's own: other tails, other whole dims, more heads at a time.
SECOND_BLOCKS = {
    "add": (256, 128),
    "add_odd": (64, 300),
    "softmax": (128,),
    "softmax_odd": (32,),
    "softmax_two_pass": (128, 128),
    "softmax_two_pass_odd": (512, 32),
    "layer_norm": (32,),
    "layer_norm_odd": (128,),
    "matmul_1024": (256, 1024, 256),
    "layer_norm_bwd_odd": (256,),
    "layer_norm_bwd_two_level_odd": (256, 32),
    "matmul_bias_gelu": (64, 384, 256),
    "matmul_bias_gelu_odd": (64, 200, 256),
    "bmm": (2, 128, 256, 128),
    "bmm_odd": (1, 64, 200, 96),
    "attention": (2, 256, 256),
    "attention_b1_h2_s384_d256": (2, 384, 256),
    "attention_b1_h2_s421_d128": (2, 128, 256),
    "attention_b1_h2_s421_d96": (1, 256, 256),
    "attention_b1_h3_s421_d64": (1, 256, 421),
    "attention_q_inloop": (2, 128, 256),
    "attention_q_inloop_b1_h2_s421_d64": (1, 256, 128),
    "attention_scaled_q": (2, 128, 256),
    "gram": (128, 256, 256),
    "nested_sums": (256, 128, 256),
    "neighbours": (256,),
    "positions": (256,),
    "halves": (128,),
    "causal_attention": (2, 128, 256),
    "causal_attention_b1_h2_s421_d64": (1, 256, 128),
    "outer_chain_scale": (2, 128, 256),
    "outer_chain_scale_odd": (1, 64, 256),
    "attention_columns": (2, 128, 256),
    "softmax_of_two": (256, 128, 256),
    "nested_scale": (256, 128, 384),
    "matmul_split_k": (64, 64, 256),
    "matmul_split_k_odd": (72, 96, 256),
}
# The own and the second block sizes of bmm_odd leave one step; this one loops.
THIRD_BLOCKS = {"bmm_odd": (1, 64, 200, 32)}
# Where row values meet wider ones: pre-broadcast is compiled for a chip in CI.
ROW_VALUES = (
    "attention_b1_h2_s384_d256",
    "outer_chain_scale",
    "outer_chain_scale_odd",
    "attention_columns",
    "softmax_of_two",
    "nested_scale",
)
# Too large to simulate whole: compiled as they are, simulated with fewer heads (see `CUT`).
PRODUCTION = ("attention_b8_h32_s8192_d128", "attention_b8_h32_s8192_d256")
# Tiles of thousands of registers: in strips of columns, or a few rows at a time.
WIDE_ROWS = "layer_norm_bwd_4096_10240"
# Attention's emit_pipeline keeps a window for each step, which the plan would not choose.
# `pallas_straight_loops: auto` takes their loops for straight code.
STRAIGHT = ("matmul_1024", "attention_b8_h32_s512_d256")
# Split-K at its real size: simulated whole by `make proof`.
SPLIT_K = ("matmul_split_k_64", "matmul_split_k_512", "matmul_split_k_4096")
LARGE = ("attention_b8_h32_s512_d256", "matmul_4096", WIDE_ROWS, *PRODUCTION, *SPLIT_K)
GRAPHS = (*SECOND_BLOCKS, *LARGE)


@functools.cache
def document(graph):
    """The document of a graph, a dict; "NAME@N" has N heads, or rows, of it.

    "NAME@DISTRIBUTION" is NAME, whose inputs are drawn by a distribution.
    """
    name, _, heads = graph.partition("@")
    heads = heads if heads.isdigit() else ""
    path = GRAPH_DIRECTORY / f"{name}.json"
    text = (path if path.exists() else COVERAGE_DIRECTORY / path.name).read_text()
    if heads and name == WIDE_ROWS:
        return json.loads(text.replace("4096", heads).replace("4095", str(int(heads) - 1)))
    found = json.loads(text)
    return cut_heads(found, int(heads)) if heads else found


def cut_heads(found, heads):
    """An attention document with `heads` heads in one batch; all else as it is."""
    batch, per_batch, *_ = found["tensors"][0]["shape"]

    def cut(shape):
        if shape[:2] == [batch, per_batch] and len(shape) == 4:
            return [1, heads, *shape[2:]]
        return [heads, *shape[1:]] if shape[:1] == [batch * per_batch] else shape

    for tensor in found["tensors"]:
        tensor["shape"] = cut(tensor["shape"])
    for entry in found.get("returns", ()):
        if "shape" in entry:
            entry["shape"] = cut(entry["shape"])
    found["block_sizes"][0]["extent"] = heads
    for graph in found["graphs"]:
        for node in graph["nodes"]:
            if node.get("target") == "tile.host_tensor":
                node["meta"]["shape"] = cut(node["meta"]["shape"])
    return found


def has_loops(graph):
    """Whether the graph has a loop that a loop type can be asked for."""
    return any(item["kind"] == "for_loop" for item in document(graph)["graphs"])


@functools.cache
def can_copy(graph, blocks, extra=()):
    """Whether a fori_loop can copy every window of the graph's loops."""
    config = {key: json.loads(value) for key, value in extra}
    config |= {"pallas_loop_type": "fori_loop", "pallas_fori_dma": True}
    try:
        compile_graph(document(graph), config | ({"block_sizes": list(blocks)} if blocks else {}))
    except CompileError as error:
        return all(item["code"] != "fori-dma" for item in error.diagnostics)
    return True


@dataclasses.dataclass(frozen=True)
class Case:
    """A graph under a configuration: a way to lower its loops, pre-broadcast, block sizes."""

    graph: str
    loop: str | None = None
    pre_broadcast: bool | None = None
    blocks: tuple | None = None
    extra: tuple = ()

    @property
    def config(self):
        """What stands over the graph's own configuration."""
        config = dict(LOOPS[self.loop]) if self.loop else {}
        if self.blocks:
            config["block_sizes"] = list(self.blocks)
        if self.loop == "fori_loop" and can_copy(self.graph, self.blocks, self.extra):
            config["pallas_fori_dma"] = True
        if self.graph.partition("@")[0] in STRAIGHT and self.loop in ("resident", "emit_pipeline"):
            config["pallas_straight_loops"] = False
        if self.loop == "emit_pipeline" and self.graph.startswith("attention"):
            config["pallas_emit_pipeline_group_size"] = 1
        if self.pre_broadcast is not None:
            config["pallas_pre_broadcast"] = self.pre_broadcast
        if self.pre_broadcast:  # transposed scores leave no column to widen
            config["pallas_transposed_scores"] = False
        return {**config, **{key: json.loads(value) for key, value in self.extra}}

    @property
    def id(self):
        """A readable name: attention-fori_loop-pre-1.128.128."""
        parts = [self.graph, self.loop, "pre" if self.pre_broadcast else None]
        parts += [".".join(map(str, self.blocks)) if self.blocks else None]
        parts += [f"{key.removeprefix('pallas_')}={value}" for key, value in self.extra]
        return "-".join(part for part in parts if part)

    @property
    def settings(self):
        """The arguments of `pallasc` that ask for it."""
        return [f"--set {key}={json.dumps(value)}" for key, value in self.config.items()]


# ---- refused combinations ------------------------------------------------------------------------

_CAUSAL_UNROLL = (
    "pallas_loop_type unroll cannot lower the loop _for_loop: "
    "the end of 'tile_n' is known only at run time (tile.end 'tile_end')"
)
_SPLIT_K_UNROLL = (
    "pallas_loop_type unroll cannot lower the loop _for_loop: "
    "the begin of 'inner_k' is known only at run time (tile.begin 'tile_begin')"
)
# (graph, loop, blocks or None for any) -> the diagnostic's exact message.
REFUSALS = {
    ("causal_attention", "unroll", None): _CAUSAL_UNROLL,
    ("layer_norm_bwd_two_level_odd", "unroll", None): (
        "pallas_loop_type unroll cannot lower the loop _for_loop: "
        "the begin of 'tile_m' is known only at run time (tile.begin 'tile_begin')"
    ),
    ("causal_attention_b1_h2_s421_d64", "unroll", None): _CAUSAL_UNROLL,
    **{
        (graph, "unroll", None): _SPLIT_K_UNROLL
        for graph in ("matmul_split_k", "matmul_split_k_odd", *SPLIT_K)
    },
}


def refusal(case):
    """The message with which the case must be refused on every chip; None if it must compile."""
    for blocks in (case.blocks, None):
        if message := REFUSALS.get((case.graph, case.loop, blocks)):
            return message
    return None


# What a chip's VMEM cannot hold: (graph, loop) by chip.
OVER_VMEM = {
    "v4": {
        ("attention_b8_h32_s8192_d128", "unroll"),
        ("attention_b8_h32_s8192_d256", "unroll"),
        ("matmul_4096", "unroll"),
        ("matmul_4096", "resident"),
    }
}


def too_large(case, chip):
    """Whether the case must be refused for the chip because its VMEM cannot hold the kernel."""
    return (case.graph, case.loop) in OVER_VMEM.get(chip, ())


# ---- the matrix ----------------------------------------------------------------------------------


def default_blocks(graph):
    """The block sizes that the graph's own configuration names."""
    return tuple(document(graph)["config"].get("block_sizes", ()))


def blocks_of(graph):
    """All block sizes of the matrix for a graph."""
    third = THIRD_BLOCKS.get(graph)
    return (default_blocks(graph), SECOND_BLOCKS[graph], *([third] if third else []))


def loops_of(graph):
    """The loop types to ask for: all, or none if there is no loop."""
    return tuple(LOOPS) if has_loops(graph) else (None,)


@functools.cache
def matrix():
    """Every combination, refused ones too: graph x loop type x pre-broadcast x block sizes."""
    return tuple(
        Case(graph, loop, pre_broadcast, blocks)
        for graph in SECOND_BLOCKS
        for loop in loops_of(graph)
        for pre_broadcast in (False, True)
        for blocks in blocks_of(graph)
    )


def accepted():
    """The cases of `matrix` that must compile."""
    return tuple(case for case in matrix() if not refusal(case))


def refused():
    """The cases of `matrix` that must be refused."""
    return tuple(case for case in matrix() if refusal(case))


@functools.cache
def variants():
    """Cases beside the matrix: the other configuration keys, each where it changes the kernel."""
    attention, ragged = "attention", "attention_b1_h2_s421_d128"
    buffers, inloop = "pallas_load_buffer_count", "pallas_inloop_loads"
    keys = [
        (attention, "fori_loop", buffers, "[1, 1, 1]"),
        (attention, "fori_loop", buffers, "[2, 2, 2]"),
        (ragged, "fori_loop", buffers, "[1, 1, 1]"),
        (attention, "emit_pipeline", buffers, "[1, 1, 1]"),
        (attention, "fori_loop", inloop, "true"),
        (attention, "fori_loop", inloop, "false"),
        (attention, "emit_pipeline", inloop, "true"),
        (attention, "emit_pipeline", inloop, "false"),
        *(
            (graph, loop, "pallas_loop_skew", value)
            for graph in (
                attention,
                ragged,
                "attention_q_inloop_b1_h2_s421_d64",
                "attention_columns",
            )
            for loop, value in (("emit_pipeline", "true"), ("fori_loop", "false"))
        ),
        *(
            (graph, loop, "pallas_step_pairs", value)
            for graph in (attention, ragged, "attention_q_inloop_b1_h2_s421_d64")
            for loop, value in (("fori_loop", "true"), ("resident", "true"), ("resident", "false"))
        ),
        (attention, "emit_pipeline", "pallas_scale_after_max", "true"),
        (ragged, "fori_loop", "pallas_scale_after_max", "true"),
        (ragged, "unroll", "pallas_scale_after_max", "false"),
        *(
            (graph, "emit_pipeline", "pallas_emit_pipeline_group_size", "1024")
            for graph in (attention, ragged, "softmax_two_pass_odd", "matmul_bias_gelu")
        ),
        *(
            (graph, loop, "pallas_transposed_scores", "false")
            for graph, loop in (
                (attention, "unroll"),
                (attention, "fori_loop"),
                (ragged, "emit_pipeline"),
                ("causal_attention_b1_h2_s421_d64", "fori_loop"),
            )
        ),
        *(
            (graph, "unroll", "pallas_matmul_ahead", value)
            for graph, value in (
                (attention, "0"),
                (attention, "1"),
                (ragged, "1"),
                (ragged, "3"),
                ("attention_q_inloop_b1_h2_s421_d64", "0"),
                ("attention_columns", "0"),
            )
        ),
        ("softmax", None, "pallas_row_split", "true"),
        ("softmax_odd", None, "pallas_row_split", "true"),
        ("layer_norm_bwd_odd", None, "pallas_row_split", "true"),
        ("layer_norm", None, "pallas_row_split", "true"),
        ("softmax", None, "pallas_column_strips", "true"),
        ("layer_norm", None, "pallas_column_strips", "true"),
        ("softmax_two_pass", "emit_pipeline", "pallas_loop_type", '"default"'),
        ("attention", "emit_pipeline", "pallas_loop_type", '"default"'),
        ("attention_scaled_q", "unroll", inloop, "true"),
        ("attention_scaled_q", "fori_loop", inloop, "true"),
        ("attention_scaled_q", "emit_pipeline", inloop, "true"),
        *(
            (graph, loop, "split_k", value)
            for graph, loop in (
                ("matmul_split_k", "fori_loop"),
                ("matmul_split_k", "emit_pipeline"),
                ("matmul_split_k_odd", "fori_loop"),
            )
            for value in ("1", "8")
        ),
        ("matmul_split_k", "fori_loop", "pallas_fori_dma", "false"),
        ("matmul_1024", "emit_pipeline", "pallas_straight_loops", '"auto"'),
        ("matmul_1024", "unroll", "pallas_back_and_forth", "true"),
        ("bmm", "unroll", "pallas_back_and_forth", "true"),
        ("matmul_bias_gelu_odd", "unroll", "pallas_back_and_forth", "true"),
        (attention, "emit_pipeline", "pallas_straight_loops", "true"),
        (ragged, "fori_loop", "pallas_straight_loops", "true"),
    ]
    return tuple(
        Case(graph, loop, None, default_blocks(graph), ((key, value),))
        for graph, loop, key, value in keys
    )


# Production attention with one head: its kernels' text but for the number of heads.
CUT = tuple(
    Case(f"{graph}@1", loop, pre_broadcast)
    for graph in PRODUCTION
    for loop in LOOPS
    for pre_broadcast in (False, True)
)
SPLIT_K_CASES = tuple(
    Case(graph, loop, None, None, (*extra, ("split_k", value)))
    for graph in SPLIT_K
    for loop, extra in (
        ("fori_loop", ()),
        ("fori_loop", (("pallas_fori_dma", "true"),)),
        ("emit_pipeline", ()),
    )
    for value in ("1", "8")
)
FULL = (
    *(
        Case(graph, loop)
        for graph in ("attention_b8_h32_s512_d256@8", "matmul_4096")
        for loop in LOOPS
    ),
    *(Case(f"{WIDE_ROWS}@{rows}") for rows in (200, 256)),
    *(
        Case(f"{WIDE_ROWS}@256", loop, extra=(("pallas_row_split", "true"),))
        for loop in (None, "emit_pipeline", "resident")
    ),
    *CUT,
    *SPLIT_K_CASES,
)


@functools.cache
def goldens():
    """{file name: Case} of the pinned modules."""
    found = {}
    for graph in SECOND_BLOCKS:
        for loop in loops_of(graph):
            case = Case(graph, loop, False, default_blocks(graph))
            if not refusal(case) and loop != "resident":
                found[f"{graph}.{loop or 'grid'}.py"] = case
    for graph in ("attention", "softmax_two_pass"):
        found[f"{graph}.resident.py"] = Case(graph, "resident", False, default_blocks(graph))
    strips = (("pallas_column_strips", "true"),)
    found["softmax.strips.py"] = Case("softmax", None, None, default_blocks("softmax"), strips)
    for graph in ("attention", "softmax_two_pass", *ROW_VALUES[1:]):
        case = Case(graph, "fori_loop", True, default_blocks(graph))
        found[f"{graph}.fori_loop.pre_broadcast.py"] = case
    for graph in ("attention", "attention_b1_h2_s421_d128"):
        skew = (("pallas_loop_skew", "true"),)
        case = Case(graph, "emit_pipeline", None, default_blocks(graph), skew)
        found[f"{graph}.emit_pipeline.skew.py"] = case
    from coverage import row

    return found | row.goldens()


def aot_quick():
    """(case, chip) pairs that CI compiles for real chips."""
    pairs = [(Case(graph), chip) for graph in GRAPHS for chip in CHIPS]
    pairs += [
        (Case(graph, loop), chip)
        for graph in PRODUCTION
        for loop in LOOPS
        for chip in ("v6e", "v7x")
    ]
    pairs += [(case, "v6e") for case in (*goldens().values(), *SPLIT_K_CASES)]
    pairs += [(Case(graph, loop, True), "v7x") for graph in ROW_VALUES for loop in LOOPS]
    return tuple(dict.fromkeys(pairs))


def aot_full():
    """(case, chip) pairs that `make aot` compiles: everything for every chip."""
    pairs = [(case, chip) for case in (*accepted(), *variants()) for chip in CHIPS]
    large = [
        Case(graph, loop, pre_broadcast)
        for graph in LARGE
        for loop in loops_of(graph)
        for pre_broadcast in (None, True)
    ]
    large = [case for case in (*large, *SPLIT_K_CASES) if not refusal(case)]
    pairs += [(case, chip) for case in large for chip in CHIPS if not too_large(case, chip)]
    return tuple(dict.fromkeys([*aot_quick(), *pairs]))


# ---- compiling -----------------------------------------------------------------------------------


@functools.cache
def module(case, target="v6e"):
    """The compiled `pallasc.Module`. Raises CompileError."""
    return compile_graph(document(case.graph), case.config, target)


def digest(text):
    """A module's identity: the hash of its text."""
    return hashlib.sha256(text.encode()).hexdigest()


def short(text):
    """The first digits of a text's hash."""
    return digest(text)[:16]


# ---- inputs --------------------------------------------------------------------------------------

# "edge": the answer sits in the last row or column. The others: see pallasc.compare.make_inputs.
QUICK_INPUTS = ("random", "edge")
ALL_INPUTS = ("random", "edge", "last_row", "last_col", "past_edge")


def quick_kinds(case):
    """The kinds of runs for a case in CI: with huge values past the edges if it has any."""
    if row := coverage_row(case.graph):
        edges = ("huge",) if row.inputs else ("past_edge", "huge")
        return ("random", *(edges if ragged(case) else ()))
    return (*QUICK_INPUTS, "huge") if ragged(case) else QUICK_INPUTS


def formula_text(formula):
    """The source of a formula and of what it calls in this project, closures with their values."""
    texts, seen, pending = [], set(), [formula]
    while pending:
        function = pending.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        if hasattr(function, "func"):  # functools.partial
            texts.append(repr(function.keywords))
            pending.append(function.func)
        elif not inspect.isfunction(function):
            texts.append(repr(function) if isinstance(function, int | float | tuple | str) else "")
        elif ROOT in Path(function.__code__.co_filename).parents:
            texts.append(inspect.getsource(function))
            known = inspect.getclosurevars(function)
            called = [*known.nonlocals.values(), *known.globals.values()]
            pending += [item for item in called if not inspect.ismodule(item)]
    return "\0".join(texts)


def coverage_row(graph):
    """The row of the coverage of a graph that is not of the matrix; None for those that are."""
    if graph.partition("@")[0] in GRAPHS:
        return None
    from coverage import row

    return row.by_graph()[graph]


def ragged(case):
    """Whether some tile of the case reaches past its tensor, or fills no whole registers."""
    found = document(case.graph)
    blocks = iter(case.blocks or default_blocks(case.graph))
    for block in found["block_sizes"]:
        extent = block.get("extent")
        if extent is None:
            return True
        if not block.get("size") and not block.get("reduction") and extent % next(blocks):
            return True
    last = [tensor["shape"][-1] for tensor in found["tensors"]]
    return any(size % 128 for size in last if isinstance(size, int))


@functools.cache
def inputs(graph, kind, blocks=None):
    """The arguments of a graph's kernel, numpy arrays."""
    found, row = document(graph), coverage_row(graph)
    if row and row.inputs and kind == "random":
        return row.inputs(found, np.random.default_rng(1))
    if kind in ("random", "edge"):
        arrays = compare.make_inputs(found, seed=1)
        return to_edge(found["name"], arrays) if kind == "edge" else arrays
    config = {"block_sizes": list(blocks)} if blocks else None
    return compare.make_inputs(found, seed=2, adversarial=kind, config=config)


def to_edge(name, arrays):
    """Moves the answer to the last element along what the kernel `name` reduces, or to the edge."""
    dtypes = [array.dtype for array in arrays]
    arrays = [array.astype(np.float32) for array in arrays]
    first = arrays[0]
    if "attention" in name:
        key = arrays[1]
        first[...] = np.abs(first)
        key[..., -1, :] = 8.0
    elif name in ("matmul", "matmul_bias_gelu", "matmul_split_k", "bmm"):
        first[..., -1] += 30.0
        arrays[1][..., -1, :] *= 10.0
    elif name.startswith("softmax"):
        first[..., -1] += 30.0
    elif name == "layer_norm" or name in formulas.OF_TILES:
        first[..., -1] += 100.0
    else:
        first[..., -1] += 100.0
        first[..., -1, :] += 100.0
    return [array.astype(dtype) for array, dtype in zip(arrays, dtypes, strict=True)]


@functools.cache
def expected_reference(graph, kind, blocks):
    """The reference interpreter's outputs under the block sizes."""
    arguments = inputs(graph, kind, blocks)
    return reference.run(document(graph), arguments, config={"block_sizes": list(blocks)})


@functools.cache
def expected_formula(graph, kind, blocks=None):
    """The float64 formula's outputs."""
    arguments = inputs(graph, kind, blocks)
    if row := coverage_row(graph):
        return row.formula(*(np.asarray(array).astype(np.float64) for array in arguments))
    return formulas.expected(document(graph), arguments, blocks)


# ---- running -------------------------------------------------------------------------------------


@dataclasses.dataclass
class Row:
    """One output of one simulated run against one expectation, or a problem."""

    inputs: str
    output: str
    against: str
    ok: bool
    ratio: float
    error: float
    text: str


@dataclasses.dataclass
class Outcome:
    """What simulating a case gave: rows, and what else went wrong."""

    rows: list = dataclasses.field(default_factory=list)
    problems: list = dataclasses.field(default_factory=list)
    seconds: float = 0.0

    def failures(self):
        """Everything wrong with it, as lines."""
        bad = [
            f"{r.inputs}: {r.output} against {r.against}: {r.text}" for r in self.rows if not r.ok
        ]
        return bad + self.problems


def simulations(kinds):
    """(name, kind of inputs, options of interpret_params) of the runs for `kinds` of inputs."""
    for kind in kinds:
        if kind == "eager":
            yield kind, "random", {"eager": True}
        elif kind == "cores":
            yield kind, "random", {"cores": 2, "seed": 3}
        elif kind == "huge":
            # The seed keeps jax from reusing what it traced for NaN-filled memory.
            yield kind, "random", {"seed": 7}
        else:
            yield kind, kind, {}


def run_once(loaded, arguments, kind, options):
    """A `Simulation` of a loaded kernel; kind "huge" is what `huge_memory` is for."""
    from pallasc.simulate import huge_memory, interpret_params, simulate

    with huge_memory() if kind == "huge" else contextlib.nullcontext():
        return simulate(loaded, arguments, interpret_params(**options))


def simulate_case(case, kinds=None, limit=600):
    """Simulates a case on each kind of inputs: an `Outcome`. Ends the process at the time limit."""
    import faulthandler

    started, outcome = time.monotonic(), Outcome()
    blocks = case.blocks or default_blocks(case.graph)
    faulthandler.dump_traceback_later(limit, exit=True)
    try:
        compiled = module(case)
        for name, kind, options in simulations(kinds or quick_kinds(case)):
            arguments = inputs(case.graph, kind, blocks)
            try:
                ran = run_once(compiled.load(), arguments, name, options)
            except KernelError as error:
                outcome.problems.append(f"{name}: {error}")
                continue
            outcome.problems += [f"{name}: {line}" for line in (*ran.races, *ran.complaints)]
            outcome.rows += judge(case.graph, compiled.info, name, kind, blocks, ran.outputs)
    except CompileError as error:
        outcome.problems.append(str(error))
    finally:
        faulthandler.cancel_dump_traceback_later()
    outcome.problems += unjudged(outcome, kinds or quick_kinds(case))
    outcome.seconds = time.monotonic() - started
    return outcome


def unjudged(outcome, kinds):
    """Kinds of runs of which nothing was judged though nothing else is wrong, as lines."""
    seen = {(row.inputs, row.against) for row in outcome.rows}
    wanted = [(kind, against) for kind in kinds for against in ("reference", "formula")]
    missing = [] if outcome.problems else [pair for pair in wanted if pair not in seen]
    return [f"{kind}: not compared with the {against}" for kind, against in missing]


def judge(graph, info, name, kind, blocks, outputs):
    """A `Row` for each output and each of reference and formula."""
    rows = []
    both = {
        "reference": expected_reference(graph, kind, blocks),
        "formula": expected_formula(graph, kind, blocks),
    }
    for against, expected in both.items():
        for index, (actual, wanted) in enumerate(zip(outputs, expected, strict=True)):
            tolerance = compare.tolerance_for(document(graph), index)
            verdict = compare.compare(actual, np.reshape(wanted, actual.shape), tolerance)
            output = info["outputs"][index]["name"]
            row = Row(name, output, against, verdict.ok, verdict.ratio, verdict.error, str(verdict))
            rows.append(row)
    return rows


def problems(case, remember=True):
    """All that is wrong with a case's kernel: simulated, or right by a kept verdict."""

    def simulate():
        outcome = simulate_case(case)
        return outcome.failures(), worst(outcome.rows)

    return verdicts.settle(question(case), simulate, remember)


def question(case):
    """What a verdict on a case depends on: a `verdicts.Question`."""
    kinds, blocks = quick_kinds(case), case.blocks or default_blocks(case.graph)
    asked = json.dumps([document(case.graph), blocks, list(simulations(kinds))], sort_keys=True)

    def arrays():
        found = [kind for _, kind, _ in simulations(kinds)]
        return arrays_of(case.graph, found, blocks, len(module(case).info["outputs"]))

    return verdicts.Question(
        case.id, module(case).source, (asked, *running()), judging(case.graph), arrays
    )


def arrays_of(graph, kinds, blocks, outputs):
    """The inputs of some kinds, what is expected of them, and the tolerances of so many outputs."""
    for kind in dict.fromkeys(kinds):
        yield from inputs(graph, kind, blocks)
        yield from expected_reference(graph, kind, blocks)
        yield from expected_formula(graph, kind, blocks)
    for index in range(outputs):
        yield str(compare.tolerance_for(document(graph), index))


@functools.cache
def running():
    """The code of this file that decides how a kernel is run and judged."""
    return [verdicts.source(item) for item in (simulations, run_once, simulate_case, judge)]


@functools.cache
def judging(graph):
    """The code, besides the reference interpreter, that gives a graph's inputs and outputs."""
    row = coverage_row(graph)
    ours = [cut_heads, to_edge, *(f.__wrapped__ for f in (inputs, expected_reference))]
    texts = [verdicts.source(item) for item in (*ours, expected_formula.__wrapped__)]
    if row:
        return [*texts, formula_text(row.formula), formula_text(row.inputs)]
    return [*texts, verdicts.code(Path(formulas.__file__).read_text())]


def worst(rows):
    """The largest errors against the reference and the formula, in tolerances."""
    names = ("reference", "formula")
    return [max((r.ratio for r in rows if r.against == name), default=0) for name in names]


def distinct(cases):
    """{case: the first case with the same kernel}: what need not run twice."""
    first = {}
    return {
        case: first.setdefault((case.graph, kernel_text(module(case).source)), case)
        for case in cases
    }
