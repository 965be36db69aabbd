"""A row of docs/coverage.md: a kernel, its sizes, its formula, and the cases that prove it.

The rows stand in tests/whole/coverage/rows, a file for each family. Their graphs are those of
testdata/coverage/graphs, or of testdata/graphs. CONTRIBUTING.md says how to add one.
"""

import dataclasses
import functools
import importlib
import inspect
import json
import pkgutil
import typing
from collections.abc import Callable

import numpy as np
import proof
from pallasc.reference.values import dtype_of

# The loop types of the configuration; `proof.LOOPS` knows a fourth way, for the matrix.
LOOPS = ("unroll", "fori_loop", "emit_pipeline")

# How data that steers a kernel may be distributed; where none is named, it is mixed of all.
DISTRIBUTIONS = ("uniform", "zipf", "empties")

# Rows whose friendly kernel is pinned in testdata/golden: {name: loop type, None for its own}.
GOLDENS = {
    "cross-entropy, online": "emit_pipeline",
    "JS divergence": "fori_loop",
    "matmul, int8, scales of rows and columns": "fori_loop",
    "attention backward, dq": "fori_loop",
    "attention backward, dk and dv": "emit_pipeline",
    "attention, one query row": "emit_pipeline",
    "attention, sliding window": "fori_loop",
    "RMS-norm backward": None,
    "rotary embedding, halves loaded": None,
    "SwiGLU": None,
    "two root loops: divided by the total": None,
    "softmax, rows of 1,048,576": "fori_loop",
}


@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """What one row of docs/coverage.md says and is proven by.

    Attributes:
      name: the row's name, unique.
      friendly, odd, production: names of graphs: small and aligned; small, no dim a multiple of its
        block or of 128; what people run, which is compiled and never simulated.
      formula: f(*float64 inputs, in parameter order) -> tuple of float64 outputs, from maths.
      second: the second configuration, over the graph's own: a dict, or {graph: dict}.
      loops: the loop types that make sense; () without a loop; None: all if the graph has one.
      refused: {loop type: text} of those that must be refused, with a diagnostic that holds the
        text; {(graph, loop type): text} for one graph of the row.
      inputs: f(document, rng) -> list of arrays, where random ones do not do (ids, ranges); one
        that takes a `distribution` too draws by a name of DISTRIBUTIONS, and is run under each.
      steering: f(document, rng, distribution=None) -> {input: array}: the data by which a kernel's
        time is estimated, where it steers the kernel (lengths, tables).
      numbers: f(document, rng) -> a list of arrays, one for each tile in the grid's order: what the
        kernel takes from vectors (how far a loop runs, whether a while goes on), as the reference
        computes it of the row's inputs.
      steps: f(document, rng) -> how often a while of it runs, the mean over those inputs: what the
        estimate is told as `pallas_expected_steps`.
      needs: f({tensor: shape}, steering data) -> `floors.Needs` of the production size, where that
        is less than all of the inputs and outputs, or the graph does not say how many matmuls.
      extra: more configurations to simulate, as `second`.
      helion: "FILE.py:KERNEL" of testdata/kernels, if it is not the one that was exported.
      note: said in the row: what Pallas cannot express, and the nearest thing that works.
      diagnostic: the row must be refused, whatever the loop type, with a message that holds this.
    """

    name: str
    friendly: str
    odd: str | None = None
    production: str | None = None
    formula: Callable | None = None
    second: dict | None = None
    loops: tuple | None = None
    refused: dict = dataclasses.field(default_factory=dict)
    inputs: Callable | None = None
    steering: Callable | None = None
    numbers: Callable | None = None
    steps: Callable | None = None
    needs: Callable | None = None
    extra: list | None = None
    helion: str | None = None
    note: str = ""
    diagnostic: str | None = None

    @property
    def graphs(self):
        """All graphs of the row."""
        return tuple(g for g in (self.friendly, self.odd, self.production) if g)

    @property
    def simulated(self):
        """The graphs that are simulated."""
        return () if self.diagnostic else tuple(g for g in (self.friendly, self.odd) if g)

    @property
    def follows_data(self):
        """Whether data say how often its loops run, or what they work on."""
        return bool(self.steering or self.numbers)

    def words(self, graph):
        """What a graph's kernel takes from vectors, in order: words as ints."""
        if not self.numbers:
            return []
        found = self.numbers(proof.document(graph), np.random.default_rng(1))
        return np.concatenate(found).view(np.int32).tolist()

    @property
    def distributions(self):
        """How its data is drawn, beside mixed: by each of DISTRIBUTIONS, or none."""
        takes = inspect.signature(self.inputs).parameters if self.inputs else ()
        return DISTRIBUTIONS if "distribution" in takes else ()

    def under(self, distribution):
        """The row with data of one distribution."""
        drawn = functools.partial(self.inputs, distribution=distribution)
        return dataclasses.replace(self, inputs=drawn)

    def drawn_cases(self, distribution):
        """Each small graph once with data of a distribution, in one of its loop types, in turn."""
        turn, found = DISTRIBUTIONS.index(distribution), []
        for shift, graph in enumerate(self.simulated):
            own = [case_of(graph, loop, {}) for loop in self.loop_types(graph)]
            own = [case for case in own if not self.refusal(case)]
            found += own[(turn + shift) % len(own) :][:1] if own else []
        return [dataclasses.replace(c, graph=f"{c.graph}@{distribution}") for c in found]

    def configurations(self, graph):
        """What stands over the graph's own configuration, a dict each; the first is empty."""
        asked = [{}, self.second, *(self.extra or ())]
        named = [c.get(graph) if c and c.keys() & set(self.graphs) else c for c in asked]
        return [c for c in named if c is not None]

    def loop_types(self, graph):
        """The loop types to ask for; (None,) where there is no choice."""
        if self.loops is None:
            return LOOPS if proof.has_loops(graph) else (None,)
        return self.loops or (None,)

    def refusal(self, case):
        """The text with which a case must be refused; None if it must compile."""
        both = self.refused.get((case.graph, case.loop), self.refused.get(case.loop))
        return self.diagnostic or both

    def cases(self, *graphs):
        """Every loop type under every configuration, of the graphs, as `proof.Case`s."""
        return [
            case_of(graph, loop, config)
            for graph in graphs
            for loop in self.loop_types(graph)
            for config in self.configurations(graph)
        ]


def family(name, graph, production, formula, second=None, **more):
    """A Row of GRAPH, GRAPH_odd and GRAPH_PRODUCTION; a list as `second` is of block sizes."""
    second = {"block_sizes": second} if isinstance(second, list) else second
    graphs = (graph, f"{graph}_odd", f"{graph}_{production}")
    return Row(name, *graphs, formula, second, **more)


def steered(name, graph, production, formula, second, steering, note, **more):
    """A family whose data say where its loops run, or which rows are whose."""
    more = {"inputs": with_data(steering), "loops": ("fori_loop",)} | more
    return family(name, graph, production, formula, second, steering=steering, note=note, **more)


@functools.cache
def with_data(steering, scale=None):
    """Inputs: random numbers for all that does not steer; `scale`, f(drawn, rng), changes them."""

    def inputs(document, rng, distribution=None):
        found = steering(document, rng, distribution)
        drawn = {x.name: numbers(x.shape, x.dtype, rng) for x in parameters(document)} | found
        if scale:
            scale(drawn, rng)
        return list(drawn.values())

    return inputs


def of_kinds(kinds, distribution, mixed):
    """Of what was drawn in each of DISTRIBUTIONS the named one; without a name `mixed(kinds)`."""
    return kinds[DISTRIBUTIONS.index(distribution)] if distribution else mixed(kinds)


def shares(rng, count, distribution=None):
    """Shares: a third uniform, a third by a Zipf law, of the others most empty; one of each."""
    part = count if distribution else -(-count // 3)
    few = np.where(rng.random(part) < 0.7, 0, rng.random(part))
    kinds = [rng.random(part), np.minimum(rng.zipf(1.3, part), 64) / 64, few]
    drawn = of_kinds(kinds, distribution, np.concatenate)[:count]
    drawn[:2] = drawn[0] or 1, 0
    return drawn


def lengths(rng, count, most, distribution=None):
    """Lengths up to `most`: uniform ones without a name; one is 0, one `most`, one 1."""
    if distribution in (None, "uniform"):
        drawn = rng.integers(0, most + 1, count, np.int32)
    else:
        drawn = np.rint(shares(rng, count, distribution) * most).astype(np.int32)
    drawn[:3] = 0, most, 1
    return drawn


def tiles(document, array):
    """The blocks of an array's rows, as the document's configuration cuts them."""
    (rows,) = document["config"]["block_sizes"][:1]
    return np.split(array, range(rows, len(array), rows))


def numbers(shape, dtype, rng):
    """Random numbers of any dtype."""
    if dtype.name in ("int4", "int8"):
        least = -8 if dtype.name == "int4" else -128
        return rng.integers(least, -least, shape, np.int8).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


class Parameter(typing.NamedTuple):
    """An array that a kernel takes."""

    name: str
    shape: tuple
    dtype: np.dtype


def parameters(document):
    """The arrays that a document's kernel takes, in order; run-time scalars follow them."""
    given = [t for t in document["tensors"] if t["role"] in ("input", "inout")]
    return [Parameter(t["name"], tuple(t["shape"]), dtype_of(t["dtype"])) for t in given]


def case_of(graph, loop, config):
    """The `proof.Case` of a graph under a loop type and a configuration over its own."""
    rest = dict(config)
    blocks = rest.pop("block_sizes", None)
    extra = tuple((key, json.dumps(value)) for key, value in rest.items())
    return proof.Case(graph, loop, None, tuple(blocks) if blocks else None, extra)


@functools.cache
def rows():
    """Every row, in the order of files and lines."""
    from coverage import rows as families

    names = sorted(item.name for item in pkgutil.iter_modules(families.__path__))
    modules = [importlib.import_module(f"coverage.rows.{name}") for name in names]
    return tuple(row for module in modules for row in module.ROWS)


@functools.cache
def by_graph():
    """{graph: the first row that has it}; "GRAPH@DISTRIBUTION" is of the row with such data."""
    found = {}
    for row in rows():
        for graph in row.graphs:
            found.setdefault(graph, row)
        for name in row.distributions:
            for graph in row.simulated:
                found.setdefault(f"{graph}@{name}", row.under(name))
    return found


def goldens():
    """{file name: case} of the pinned kernels."""
    named = {row.name: row for row in rows()}
    cases = [proof.Case(named[name].friendly, loop) for name, loop in GOLDENS.items()]
    return {f"{case.graph}.{case.loop or 'grid'}.coverage.py": case for case in cases}


@functools.cache
def accepted():
    """The cases to simulate: those that are not to be refused, each once."""
    cases = [(row, case) for row in rows() for case in row.cases(*row.simulated)]
    return tuple(dict.fromkeys(case for row, case in cases if not row.refusal(case)))


@functools.cache
def refused():
    """(case, text) of those that must be refused."""
    cases = [(row, case) for row in rows() for case in row.cases(*row.graphs)]
    return tuple(
        dict.fromkeys((case, row.refusal(case)) for row, case in cases if row.refusal(case))
    )
