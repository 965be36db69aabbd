"""Whether a document's kernel, simulated, gives what the reference interpreter gives."""

import copy
import functools
import json
import os

import numpy as np
import verdicts
from pallasc import compare, judge, reference
from pallasc import compile as compile_graph
from pallasc.simulate import interpret_params, simulate


def wrong(
    document, config=None, target="v6e", scalars=None, adversarial=None, seed=0, cores=1, given=None
):
    """Lines that say what is wrong with the simulated kernel; none if it is right.

    Its inputs must stay what they were. A kept verdict may answer: see verdicts.py.

    Args:
      scalars: {name: value} of run-time scalars that are not to come from the seed.
      adversarial: a kind of inputs, of `judge.adversarial_modes()`; None: random ones.
      cores: TensorCores that share the grid; of two, grid points run in a shuffled order.
      given: the inputs, arrays; None: they come from the seed.

    Raises CompileError if it is refused.

    """
    module = compile_graph(document, config, target)
    settled = {**module.info["config"], **(config or {})}

    @functools.cache
    def inputs():
        if given is not None:
            return given
        return judge.make_arguments(document, seed, scalars, adversarial, settled)

    @functools.cache
    def expected():
        return reference.run(document, inputs(), config=settled)

    def tolerances():
        return [compare.tolerance_for(document, i, settled) for i in range(len(expected()))]

    def run():
        arrays = copy.deepcopy(inputs())
        ran = simulate(module.load(), arrays, interpret_params(cores=cores, seed=seed))
        three = zip(ran.outputs, expected(), tolerances(), strict=True)
        found = [compare.compare(*output) for output in three]
        lines = [f"output {i}: {item}" for i, item in enumerate(found) if not item.ok]
        lines += [] if same(arrays, inputs()) else ["an input was changed"]
        return [*lines, *ran.races, *ran.complaints], [
            max((item.ratio for item in found), default=0)
        ]

    kind = [document, settled, scalars, adversarial, seed, cores]
    question = verdicts.Question(
        asking_test(),
        module.source,
        [json.dumps(kind, sort_keys=True), verdicts.arrays_digest(given or []), CODE],
        [verdicts.source(judge.make_arguments)],
        lambda: [*inputs(), *expected(), *map(str, tolerances())],
    )
    return verdicts.settle(question, run)


CODE = verdicts.source(wrong)


def same(arrays, others):
    """Whether arrays are equal, bit for bit."""
    pairs = zip(arrays, others, strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


def asking_test():
    """The running test's, without the folders of its file: those may change."""
    path, _, test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" (")[0].partition("::")
    return f"{os.path.basename(path)}::{test}"
