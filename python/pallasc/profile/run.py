"""Compiles a function in a process of its own, and executes its schedules.

The compile is slow and its dump is kept, by the code of the module, target and versions; executing
it is not part of the key, so that another simulator compiles nothing again.
"""

import ast
import contextlib
import hashlib
import importlib.metadata
import json
import os
import tempfile
from pathlib import Path

from .. import aot
from ..errors import CompileError, FileError, UsageError
from ..module import PARSING, Module, kernel_text, read_module, with_all_vmem
from . import chips, dump, scalars
from .estimate import estimate

TIMEOUT_S = 600.0


def profile(
    source, target=None, arguments=None, simulate=False, cache=True, numbers=None, **limits
):
    """What a kernel takes: the dict of `estimate.estimate`, with "seconds" and "cached".

    Args:
      source: a `Module`, the path of one, or "FILE.py:EXPR"; EXPR, evaluated in the file, gives
        (function, arguments), arrays or jax.ShapeDtypeStructs.
      target: a name of `chips.CHIPS`; a module's own by default.
      arguments: {name: path of an .npy file}: data of arguments that steer the kernel.
      simulate: ask libtpu's own simulator too (slow): "libtpu_cycles" of each kernel.
      cache: whether to use and fill the cache.
      numbers: path of an .npy file: int32 or float32 that the kernel takes from vectors, in order.
      limits: `timeout`, s; `memory_bytes` of the compiler.

    Raises UsageError, FileError; CompileError for what does not compile.
    """
    words = _words(numbers) if numbers else []
    found, facts = compiled(source, target, arguments, simulate, cache, **limits)
    result = estimate(found, numbers=words)
    for name, kernel in result["kernels"].items():
        kernel["libtpu_cycles"] = found["libtpu_cycles"].get(name)
    return result | facts


def _words(path):
    """The numbers in a file, as 32-bit words. Raises FileError, UsageError."""
    import numpy as np

    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise FileError(f"--numbers {path}: {error}") from None
    if array.dtype not in (np.int32, np.float32):
        raise UsageError(f"--numbers {path}: int32 or float32 wanted, not {array.dtype}")
    return array.reshape(-1).view(np.int32).tolist()


def known(module, target):
    """`profile` of a module that was profiled before, so that nothing is compiled; else None."""
    job = {"source": module.source, "target": target, "simulate": False, "arguments": {}}
    with contextlib.suppress(importlib.metadata.PackageNotFoundError, OSError):
        found = dump.load(aot.cache_directory("profile") / f"{_key(job)}.dump")
        return None if found is None else estimate(found)
    return None


def compiled(
    source,
    target=None,
    arguments=None,
    simulate=False,
    cache=True,
    timeout=TIMEOUT_S,
    memory_bytes=aot.MEMORY_BYTES,
):
    """(dump, facts) of a compile; see `profile`."""
    aot.require_libtpu()
    job, target = _job(source, target)
    job |= {"target": target, "simulate": simulate}
    job["arguments"] = {name: os.path.abspath(path) for name, path in (arguments or {}).items()}
    kept = (
        aot.cache_directory("profile") / f"{_key(job)}.dump" if cache and "source" in job else None
    )
    if kept and (found := dump.load(kept)) is not None:
        return found, {"seconds": 0.0, "cached": True}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dump"
        answer = _ask({**job, "dump": str(path)}, timeout, memory_bytes)
        found = dump.load(path)
    if kept:
        dump.keep(kept, found)
    return found, {"seconds": answer["seconds"], "cached": False}


def _job(source, target):
    """(the worker's job, the target) of what a user names."""
    if isinstance(source, Module):
        module = source
    else:
        path, _, expression = str(source).rpartition(".py:")
        if path:
            path = f"{path}.py"
            if not os.path.exists(path):
                raise FileError(f"cannot read {path}: no such file")
            job = {"path": os.path.abspath(path), "expression": expression}
            return job, _known(target or "v6e")
        module = read_module(source)
    job = {"source": with_all_vmem(module.source), "filename": module.filename}
    return job, _known(target or module.info["target"])


def _known(target):
    """A target that the instrument knows."""
    if target not in chips.CHIPS:
        raise UsageError(f"unknown target {target!r}: one of {', '.join(chips.CHIPS)}")
    return target


def _ask(job, timeout, memory_bytes):
    """The worker's answer. Raises CompileError, UsageError."""
    worker = aot.Worker(memory_bytes, "pallasc.profile.worker")
    try:
        answer = worker.request(job, timeout)
    except aot.WorkerLost as lost:
        error = CompileError(f"{job['target']}: {lost.kind}: {lost}")
        error.lost = lost.kind
        raise error from None
    finally:
        worker.close()
    if answer["ok"]:
        return answer
    if answer["refused"]:
        raise UsageError(answer["error"])
    name = job.get("filename") or job["path"]
    raise CompileError(f"{name}: {job['target']}: {aot.telling_lines(answer['error'])}")


def _key(job):
    """Hex digest of all that a dump of a module depends on."""
    data = [hashlib.sha256(Path(p).read_bytes()).hexdigest() for p in job["arguments"].values()]
    versions = [importlib.metadata.version(name) for name in ("jax", "jaxlib", "libtpu")]
    parts = [dump.FORMAT, code_of(job["source"]), job["target"], job["simulate"], versions]
    parts += [list(job["arguments"]), data, *([scalars.FORMAT] if data else [])]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def code_of(source):
    """What is compiled of a module: its code and its arguments, not comments and estimates."""
    with PARSING:
        tree = ast.parse(kernel_text(source))
    for node in [node for node in tree.body if isinstance(node, ast.Assign)]:
        if ast.unparse(node.targets[0]) == "KERNEL_INFO":
            tree.body.remove(node)
    info = Module(source).info
    return ast.unparse(tree) + json.dumps([info["inputs"], info.get("scalars", ())])
