"""`pallasc.vjp`: a forward and its backward graphs as one function that jax differentiates.

The compiler pairs them and prints the module (docs/gradients.md); this loads it.
"""

from .binding import (
    EMIT_SOURCE,
    OK,
    Graph,
    Pairing,
    config_text,
    format_diagnostics,
    graph_text,
    parse_diagnostics,
    target_text,
)
from .errors import CompileError, UsageError
from .module import Module


class Differentiable(Module):
    """A module of a forward and its backwards; called, it calls its function."""

    @property
    def __name__(self):
        return self.info["name"]

    def __call__(self, *inputs, **kwargs):
        return self.load()(*inputs, **kwargs)


def vjp(
    forward,
    backward=None,
    *more,
    residuals=None,
    cotangents=None,
    gradients=None,
    returns=(),
    nondiff=(),
    config=None,
    backward_config=None,
    target=None,
    adapt=False,
    vmem=None,
    vmem_margin=0,
    library=None,
    sizes=None,
):
    """Pairs a forward and its backward graphs: a function with a `jax.custom_vjp`.

    What the backwards take is found by name (docs/gradients.md): inputs and outputs of the forward
    (residuals), `d_out`, `dout`, `grad_out` or `out_grad` for the cotangent of an output `out`, and
    what an earlier backward gives; their outputs `d_x`, `dx`, `grad_x` or `x_grad` are the gradient
    of an input `x`. The three mappings go before names.

    Args:
      forward: a dict, JSON text, kernel text, a path, or a `Module` that pallasc compiled.
      backward: one of these, or a list of them, which run in its order. None: it is derived of the
        forward, a document, as by `pallasc.grad`; inputs of ints have the gradient zero, and the
        forward may get outputs for its backward, which are not returned.
      more: further backwards.
      residuals: {input of a backward: input or output of the forward}.
      cotangents: {input of a backward: output of the forward}.
      gradients: {output of a backward: input of the forward}.
      returns: names of the outputs that the function returns; the others are only residuals. None
        named: all.
      nondiff: names of inputs whose gradient is zero, and of outputs whose cotangent is ignored.
      config: a configuration of the forward over its own, as in `pallasc.compile`.
      backward_config: the same of the backward; of several a list, with None for those without.
      target: a chip, as in `pallasc.compile`; absent: that of a `Module` among them, or "v6e".
      adapt: of all: the nearest configuration that is accepted, where one is refused.
      vmem: of all, as in `pallasc.compile`.
      vmem_margin: the same.
      library: a `Library`; by default the one that is found.
      sizes: values of named sizes, {name: int}, of a forward whose backward is derived.

    Returns:
      A `Differentiable`: a `Module` (`.source`, `.save(path)`, `.info`) that can be called, with
      `interpret=` as each module's function.

    Raises:
      GradError: a backward cannot be derived; its text names the node that stops it.
      CompileError: a graph is refused, or they do not fit together; its text names both sides.
      UsageError: an argument is not what is described above.
      FileError: a file cannot be read, or there is no libpallasc.

    """
    returns, nondiff = _names("returns", returns), _names("nondiff", nondiff)
    if backward is None:
        if isinstance(forward, Module) or residuals or cotangents or gradients or more:
            raise UsageError("vjp: a backward is derived of a graph alone: give its document")
        from .differentiate import pair

        derived = pair(forward, returns, nondiff, target or "v6e", sizes)
        forward, backward, returns, nondiff = derived
    elif sizes:
        raise UsageError("vjp: sizes are of a forward whose backward is derived")
    backwards = [*(backward if isinstance(backward, list | tuple) else [backward]), *more]
    if not backwards:
        raise UsageError("vjp: there is no backward to pair the forward with")
    configs = _configs(backward_config, len(backwards))
    wishes = {
        "residuals": _pairs("residuals", residuals),
        "cotangents": _pairs("cotangents", cotangents),
        "gradients": _pairs("gradients", gradients),
        "returns": returns,
        "nondiff": nondiff,
    }
    graphs = [Graph(*_text(part), library) for part in (forward, *backwards)]
    answer = graphs[0].compile(
        config_text(config),
        _target(target, (forward, *backwards)),
        emit=EMIT_SOURCE,
        adapt=adapt,
        vmem=vmem,
        vmem_margin=vmem_margin,
        pairing=Pairing(graphs[1:], configs, wishes),
    )
    diagnostics = parse_diagnostics(answer["diagnostics"])
    if answer["status"] != OK:
        message = format_diagnostics(diagnostics) or "out of memory"
        raise CompileError(message, diagnostics, answer["status"])
    return Differentiable(answer["source"], None, diagnostics=diagnostics)


def _text(part):
    """(text, name for messages) of a graph, or of the kernels of a compiled module."""
    if not isinstance(part, Module):
        return graph_text(part)
    if not part.kernel:
        raise UsageError(
            f"{part.filename}: a module alone cannot be paired: give its graph, or what "
            "pallasc.compile gave"
        )
    return part.kernel, part.filename


def _target(target, parts):
    if target is not None:
        return target_text(target)
    modules = [part for part in parts if isinstance(part, Module)]
    return modules[0].info["target"] if modules else "v6e"


def _configs(given, count):
    given = list(given) if isinstance(given, list | tuple) else [given] + [None] * (count - 1)
    if len(given) != count:
        raise UsageError(f"backward_config has {len(given)} entries for {count} backwards")
    return [config_text(config) for config in given]


def _pairs(what, mapping):
    mapping = {} if mapping is None else mapping
    if not isinstance(mapping, dict) or not all(
        isinstance(name, str) for pair in mapping.items() for name in pair
    ):
        raise UsageError(f"{what}: a dict of names is needed, {{backward's: forward's}}")
    return [f"{key}={value}" for key, value in mapping.items()]


def _names(what, names):
    names = [names] if isinstance(names, str) else list(names or ())
    if not all(isinstance(name, str) for name in names):
        raise UsageError(f"{what}: a list of names is needed")
    return names
