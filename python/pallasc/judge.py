"""Judging a kernel's outputs against the reference interpreter of its graph.

The one place that knows the reference's interface: `pallasc.reference` and `pallasc.compare`.
"""

import dataclasses
import json

from .binding import EMIT_GRAPH, Graph
from .command import table
from .errors import PallascError, UsageError
from .report import output_names


@dataclasses.dataclass
class Verdict:
    """Names of the outputs and the Comparison of each."""

    names: list
    comparisons: list

    @property
    def ok(self):
        """Whether every output is within its tolerance."""
        return all(comparison.ok for comparison in self.comparisons)

    def lines(self):
        """A line for each output."""
        rows = [
            (f"  {name}:", str(comparison))
            for name, comparison in zip(self.names, self.comparisons, strict=True)
        ]
        return table(rows) if rows else []


def read_graph(text_and_name):
    """The document, a dict, of (JSON text, name). Raises UsageError if it is no graph."""
    text, name = text_and_name
    try:
        graph = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name}: not JSON: {error}") from None
    if not isinstance(graph, dict) or graph.get("format") != "fxtile":
        raise UsageError(f"{name}: not a graph: its format is not fxtile")
    return graph


def resized(graph, sizes):
    """The graph at other named sizes, {name: int}. Raises PallascError."""
    from .reference.document import resized

    return guarded(resized, graph, sizes)


def filled(graph):
    """The graph with the `meta` that its nodes leave out, named sizes as they are now.

    What is refused stays: a configuration over its own may be accepted.
    """
    text = Graph(json.dumps(graph)).compile(emit=EMIT_GRAPH, passes="")["graph"]
    return {**graph, "graphs": json.loads(text)["graphs"]} if text else graph


def make_arguments(graph, seed, scalars=None, adversarial=None, config=None):
    """The kernel's arguments, numpy arrays: its tensors, then its run-time scalars.

    Args:
      scalars: {name: value} of run-time scalars that are not to come from the seed.
      adversarial: None, or one of `adversarial_modes()`.
    """
    from . import compare

    arrays = list(guarded(compare.make_inputs, graph, seed, adversarial, config))
    runtime = [entry for entry in graph.get("scalars", ()) if "value" not in entry]
    if len(runtime) > len(arrays):
        raise PallascError(f"the graph has {len(runtime)} run-time scalars, inputs for fewer")
    first = len(arrays) - len(runtime)
    names = [entry["name"] for entry in runtime]
    for name, value in (scalars or {}).items():
        if name not in names:
            raise UsageError(f"unknown scalar {name!r}: the graph has {', '.join(names) or 'none'}")
        if not isinstance(value, bool | int | float):
            raise UsageError(f"--scalar {name}: {value!r} is not a number")
        position = first + names.index(name)
        arrays[position] = type(arrays[position])(value)
    return arrays


def adversarial_modes():
    """Names of the adversarial kinds of inputs: what an edge or a mask may get wrong."""
    from .reference.inputs import ADVERSARIAL

    return ADVERSARIAL


def judge(graph, info, arrays, outputs, config=None):
    """Runs the reference on the same arguments and compares: a `Verdict`.

    Args:
      info: KERNEL_INFO: its config is what the kernel was compiled with.
      config: the configuration asked for, over it.
    """
    from . import reference

    config = {**info.get("config", {}), **(config or {})}
    expected = guarded(reference.run, graph, arrays, config=config)
    return compared(graph, info, expected, outputs, config)


def devices_expected(graph, arrays, config):
    """What the reference gives on the devices of a mesh: (whole outputs, whether copies race).

    Args:
      arrays: by device, its arguments; parts of outputs follow each other along the first dim.
    """
    import numpy as np

    from . import devices

    early, late = (
        [np.concatenate(parts) for parts in zip(*given, strict=True)]
        for given in (
            guarded(devices.run, graph, arrays, config=config, late=late) for late in (False, True)
        )
    )
    return early, any(a.tobytes() != b.tobytes() for a, b in zip(early, late, strict=True))


def compared(graph, info, expected, outputs, config):
    """A `Verdict` of outputs beside those that are expected, under a whole configuration."""
    from . import compare

    if len(expected) != len(outputs):
        raise PallascError(f"the kernel gave {len(outputs)} outputs, expected {len(expected)}")
    comparisons = []
    for index, (actual, wanted) in enumerate(zip(outputs, expected, strict=True)):
        tolerance = guarded(tolerance_for, graph, index, config)
        comparisons.append(guarded(compare.compare, actual, wanted, tolerance))
    return Verdict(output_names(info, len(outputs)), comparisons)


def tolerance_for(graph, index, config):
    """Tolerance of an output under a whole configuration.

    `pallas_scale_in_q` rounds a bfloat16 factor of scores once more than the graph does: a float32
    output that is made of them is right to bfloat16.
    """
    from . import compare

    tolerance = compare.tolerance_for(graph, index, config)
    document = graph if isinstance(graph, dict) else json.loads(graph)
    asked = (config or {}).get("pallas_scale_in_q") in ("on", True)
    narrow = any(t["role"] == "input" and t["dtype"] == "bfloat16" for t in document["tensors"])
    if asked and narrow and tolerance.kind == "chain" and tolerance.dtype == "float32":
        return dataclasses.replace(tolerance, dtype="bfloat16")
    return tolerance


def guarded(function, *arguments, **options):
    """Calls a function of the reference; what it refuses becomes a PallascError."""
    from .reference.errors import GraphError

    try:
        return function(*arguments, **options)
    except GraphError as error:
        raise PallascError(f"reference: {error}") from error
