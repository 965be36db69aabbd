"""The rows: kernels of the race, which the package has, and of the coverage, from a checkout.

A row says how its graph, arguments and small graph are made; nothing is read before it is asked.
"""

import contextlib
import dataclasses
import functools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from .. import inputs, judge
from ..errors import FileError

RACE = Path(__file__).with_name("race")
CHECKOUT = Path(__file__).resolve().parents[3]


@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """A kernel under a configuration.

    Attributes:
      kind: "race" or "coverage".
      name: as docs/results.md or docs/coverage.md has it.
      graph: the name of its graph.
      config: over the graph's own.
      document: gives the graph, a dict.
      arrays: f(document, info, seed) -> its arguments, numpy arrays.
      scale: its time counts so many times in docs/results.md.
      formula: what its outputs are compared with: a name of `formulas`; "": those of `small`.
      small: gives a row that the reference interpreter runs in its place; None: it is by formula.
    """

    kind: str
    name: str
    graph: str
    config: dict
    document: Callable
    arrays: Callable
    scale: int = 1
    formula: str = ""
    small: Callable | None = None

    @property
    def key(self):
        """What tells it from all others, as text."""
        return json.dumps([self.kind, self.name, self.graph, self.config], sort_keys=True)

    def __str__(self):
        return f"{self.name} {json.dumps(self.config)}" if self.config else self.name


def from_seed(document, info, seed):
    """Random arguments; run-time scalars are 1."""
    return inputs.make_tensors(info, seed) + inputs.make_scalars(info, {})


# ---- the race ------------------------------------------------------------------------------------


@functools.cache
def race():
    """Ours of each row of docs/results.md; each configuration that it compares."""
    entries = json.loads((RACE / "rows.json").read_text())
    return tuple(
        Row(
            *("race", entry["row"], entry["graph"], entry["config"]),
            functools.partial(_document, RACE / f"{entry['graph']}.json"),
            *(from_seed, entry["scale"], entry["formula"]),
        )
        for entry in entries
    )


def _document(path):
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}") from None


# ---- the coverage --------------------------------------------------------------------------------


@functools.cache
def coverage():
    """The rows of docs/coverage.md at the size that people run, checked at a small size.

    Raises FileError where this is no checkout.
    """
    if not (CHECKOUT / "tests" / "whole" / "coverage" / "row.py").exists():
        raise FileError(
            "--coverage needs a checkout of pallasc: its graphs and inputs are not in the package;"
            " run it there as PYTHONPATH=python python -m pallasc on-tpu"
        )
    found = _coverage_module().rows()
    return tuple(_covered(row) for row in found if row.friendly and not row.diagnostic)


def _coverage_module():
    """tests/whole/coverage/row.py, whose imports change the environment for simulations."""
    import jax  # before: it reads the environment when it is imported

    assert jax
    for folder in ("tests", "tests/whole", "python/tests"):
        if str(CHECKOUT / folder) not in sys.path:
            sys.path.append(str(CHECKOUT / folder))
    with _environment_kept():
        from coverage import row
    return row


@contextlib.contextmanager
def _environment_kept():
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _covered(row, graph=None):
    """A `Row` of one of the coverage, at its production size or at that of `graph`."""
    import proof

    name = graph or row.production or row.friendly

    def arrays(document, info, seed):
        import numpy as np

        if row.inputs:
            return list(row.inputs(document, np.random.default_rng(seed)))
        if graph:
            return judge.make_arguments(document, seed, config=info["config"])
        return from_seed(document, info, seed)

    small = None if graph else functools.partial(_covered, row, row.friendly)
    document = functools.partial(proof.document, name)
    return Row("coverage", row.name, name, {}, document, arrays, small=small)


def chosen(texts, with_coverage):
    """The rows whose names hold one of the texts; all without one. Raises FileError."""
    rows = [*race(), *(coverage() if with_coverage else ())]
    if not texts:
        return rows
    return [row for row in rows if any(text in row.name for text in texts)]
