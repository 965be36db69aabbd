"""Whether a document's kernel, simulated, gives what the reference interpreter gives."""

from pallasc import compile as compile_graph
from pallasc import judge
from pallasc.simulate import interpret_params, simulate


def wrong(document, config=None, target="v6e", scalars=None, adversarial=None, seed=0, cores=1):
    """Lines that say what is wrong with the simulated kernel; none if it is right.

    Args:
      scalars: {name: value} of run-time scalars that are not to come from the seed.
      adversarial: a kind of inputs, of `judge.adversarial_modes()`; None: random ones.
      cores: TensorCores that share the grid; of two, grid points run in a shuffled order.

    Raises CompileError if it is refused.

    """
    module = compile_graph(document, config, target)
    settled = {**module.info["config"], **(config or {})}
    arrays = judge.make_arguments(document, seed, scalars, adversarial, settled)
    ran = simulate(module.load(), arrays, interpret_params(cores=cores, seed=seed))
    verdict = judge.judge(document, module.info, arrays, ran.outputs, config)
    bad = [] if verdict.ok else verdict.lines()
    return [*bad, *ran.races, *ran.complaints]
