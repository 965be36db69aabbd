"""The process behind `pallasc.profile.run`: compiles one function with dumps on.

A job is a line of JSON: {"target", "dump": where the dump goes, "simulate": see `dump.prepare`,
"arguments": {name: path of an array}} with {"source", "filename"} of a module of pallasc's, or
{"path", "expression"}: the expression, evaluated in the file, gives (function, arguments). The
answer is {"ok", "seconds"} with {"kernels": scoped VMEM of each, "temp_bytes"} or {"error"}.
"""

import inspect
import json
import os
import sys
import tempfile
import time
import warnings

from .. import chips, mesh
from ..aot_worker import _limit_memory, _needs_name, scoped_vmem, tracing_for
from ..errors import PallascError, UsageError
from ..module import Module
from . import dump


def main():
    """Answers one job."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever libtpu prints goes to the log
    _limit_memory(int(sys.argv[1]))
    job, started = json.loads(sys.stdin.readline()), time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = {"ok": True, **compile_job(job, folder)}
    except Exception as error:
        text = str(error).strip()
        answer = {"ok": False, "refused": isinstance(error, PallascError)}
        named = _needs_name(error) and not answer["refused"]
        answer["error"] = f"{type(error).__name__}: {text}" if named else text
    answer["seconds"] = round(time.monotonic() - started, 3)
    print(json.dumps(answer), file=answers, flush=True)


def compile_job(job, folder):
    """Compiles the function of a job and saves its dump; `folder` is for libtpu's files."""
    dump.prepare(folder, job["simulate"])
    from jax.experimental import topologies

    topology = chips.topology(job["target"], devices_of(job))
    devices = topologies.get_topology_desc(platform="tpu", topology_name=topology).devices
    with tracing_for(devices[0]):
        function, arguments, names = of_expression(job) if "path" in job else of_module(job)
        values = known_values(arguments, names, job["arguments"])
        if isinstance(function, Module):
            of = mesh.build(function.info, devices, topology)
            jitted, shapes = mesh.whole_kernel(function, of), mesh.arguments(function.info, of)
        else:
            jitted, shapes = on_one(devices[0], function, arguments)
        traced = jitted.trace(*shapes)
        lowered = traced.lower()
    compiled = lowered.compile()
    found = dump.collect(folder, job["target"], traced.jaxpr, values)
    if isinstance(function, Module):
        found["devices"] = function.info["mesh"]["devices"]
    dump.save(job["dump"], found)
    temp_bytes = compiled.memory_analysis().temp_size_in_bytes
    return {"kernels": scoped_vmem(compiled), "temp_bytes": temp_bytes}


def devices_of(job):
    """How many devices run the function of a job."""
    info = Module(job["source"], job["filename"]).info if "source" in job else {}
    return mesh.devices(info) if mesh.exchanges(info) else 1


def on_one(device, function, arguments):
    """(jitted function, arguments) of what runs on one device."""
    import jax

    sharding = jax.sharding.SingleDeviceSharding(device)
    shapes = jax.tree.map(
        lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding), arguments
    )
    return jax.jit(function, out_shardings=sharding), shapes


def of_module(job):
    """(function, arguments, their names) of a module of pallasc's; of one on a mesh itself."""
    import jax

    module = Module(job["source"], job["filename"])
    entries = (*module.info["inputs"], *module.info.get("scalars", ()))
    shapes = [jax.ShapeDtypeStruct(tuple(e.get("shape", ())), e["dtype"]) for e in entries]
    function = getattr(module.load(), module.info["name"])
    return module if mesh.exchanges(module.info) else function, shapes, [e["name"] for e in entries]


def of_expression(job):
    """(function, arguments, their names) that an expression in a file gives."""
    path, expression = job["path"], job["expression"]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    space = {"__name__": "__profile__", "__file__": path}
    with open(path) as file:
        exec(compile(file.read(), path, "exec"), space)
    try:
        function, arguments, *_ = eval(expression, space)
        arguments = list(arguments)
    except (TypeError, ValueError, NameError) as error:
        raise UsageError(f"{path}:{expression}: not (function, arguments): {error}") from None
    if not callable(function):
        raise UsageError(f"{path}:{expression}: {type(function).__name__} is no function")
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        names = []
    return function, arguments, names


def known_values(arguments, names, given):
    """An array for each array in the arguments, None where there is only a shape.

    `given`: {name or position: path} of arrays on disk, which stand for arguments.
    """
    import jax
    import numpy as np

    values = []
    given = dict(given)
    for position, argument in enumerate(arguments):
        name = names[position] if position < len(names) else None
        path = given.pop(name, None) or given.pop(str(position), None)
        leaves = jax.tree.leaves(argument)
        if path and len(leaves) != 1:
            raise UsageError(f"--arg {name or position}: {len(leaves)} arrays, not one")
        if path:
            values.append(array_of(path, name or position, leaves[0]))
            continue
        abstract = [isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves]
        values += [None if a else np.asarray(v) for a, v in zip(abstract, leaves, strict=True)]
    if given:
        known = ", ".join(names[: len(arguments)]) or f"0 to {len(arguments) - 1}"
        raise UsageError(f"--arg {next(iter(given))}: no such argument; they are {known}")
    return values


def array_of(path, name, argument):
    """The array in a file, of the shape and dtype of an argument."""
    import numpy as np

    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UsageError(f"--arg {name}: {path}: {error}") from None
    wanted = tuple(argument.shape), str(np.dtype(argument.dtype))
    if (array.shape, str(array.dtype)) != wanted:
        found = f"{array.dtype}{list(array.shape)}"
        raise UsageError(f"--arg {name}: {path}: {wanted[1]}{list(wanted[0])} wanted, not {found}")
    return array


if __name__ == "__main__":
    main()
