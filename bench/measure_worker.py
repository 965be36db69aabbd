"""The process behind `measure.py`: compiles one kernel of any side, and says what it takes.

One JSON job on standard input, one JSON answer on standard output. All sides go through the same
steps: trace as for the chip, lower, compile with libtpu, read the VMEM that the compiler reports,
and, where it is asked, keep the schedules that the compiler dumped.
"""

import contextlib
import json
import os
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

SLACK_BYTES = 8 << 30  # libraries, thread stacks and reservations that are never touched
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

from pallasc.aot_worker import scoped_vmem, tracing_for  # noqa: E402
from pallasc.chips import TOPOLOGIES  # noqa: E402
from pallasc.profile import dump  # noqa: E402


def main():
    """Answers the one job."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    job = json.load(sys.stdin)
    size = job["memory_bytes"]
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (size + SLACK_BYTES,) * 2)
    started = time.monotonic()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = job_run(job)
    except Exception as error:
        text = str(error).strip()
        named = type(error).__name__ not in ("JaxRuntimeError", "XlaRuntimeError", "MosaicError")
        answer = {"ok": False, "error": f"{type(error).__name__}: {text}" if named else text}
    answer["seconds"] = round(time.monotonic() - started, 2)
    print(json.dumps(answer), file=answers, flush=True)


def job_run(job):
    """The answer to a job, but for `seconds`; its dump goes to the file that "dump" names."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    with tempfile.TemporaryDirectory() as folder:
        if job["dump"]:
            dump.prepare(folder, job.get("simulate", False))
        traced, compiled, extra = compiled_for(job)
        if job["dump"]:
            data = steering(job, len(traced.jaxpr.jaxpr.invars))
            dump.save(job["dump"], dump.collect(folder, job["target"], traced.jaxpr, data))
    memory = compiled.memory_analysis()
    facts = {"kernels": scoped_vmem(compiled), "temp_bytes": memory.temp_size_in_bytes}
    return {"ok": True, **extra, **facts}


def compiled_for(job):
    """(what was traced, what was compiled, facts of the side) of a job."""
    import jax
    from jax.experimental import topologies

    topology = TOPOLOGIES[job["target"]]
    device = topologies.get_topology_desc(platform="tpu", topology_name=topology).devices[0]
    with tracing_for(device):
        function, inputs, extra = SIDES[job["side"]](job)
        sharding = jax.sharding.SingleDeviceSharding(device)
        arguments = [jax.ShapeDtypeStruct(s, d, sharding=sharding) for s, d in inputs]
        jitted = function if hasattr(function, "trace") else jax.jit(function)
        traced = jitted.trace(*arguments)
        lowered = traced.lower()
    # Of the CPU: others may be at work here. All threads of this process are the compiler's.
    before = time.process_time()
    compiled = lowered.compile()
    return traced, compiled, extra | {"compile_s": round(time.process_time() - before, 2)}


def ours(job):
    """(function, inputs, facts) of a module of pallasc's."""
    from pallasc.module import Module

    module = Module(job["source"], "kernel.py")
    info = module.info
    entries = (*info["inputs"], *info.get("scalars", ()))
    inputs = [(tuple(entry.get("shape", ())), entry["dtype"]) for entry in entries]
    return getattr(module.load(), info["name"]), inputs, {}


def steering(job, count):
    """An array, or None, for each argument: data that steers the kernel, of a module's by name."""
    data = job.get("data")
    if not data:
        return None
    from pallasc.module import Module

    info = Module(job["source"], "kernel.py").info
    names = [entry["name"] for entry in (*info["inputs"], *info.get("scalars", ()))]
    if len(names) != count or set(data) - set(names):
        raise ValueError(f"data of {sorted(data)}, arguments {names}")
    return [np.array(data[n]["values"], data[n]["dtype"]) if n in data else None for n in names]


def helions(job):
    """(function, inputs, facts) of Helion's kernel."""
    import helion_kernel

    built = helion_kernel.kernel_build(
        job["kernel"], job["args"], job["config"], job["vmem_capacity"]
    )
    return built.function, built.inputs, {"blocks": built.blocks, "refused": built.refused}


def hands(job):
    """(function, inputs, facts) of a kernel that people wrote, or of XLA's own."""
    import hand_kernels

    built = hand_kernels.kernel_build(job["kernel"], job["args"], job["config"])
    return built.function, built.inputs, {}


SIDES = {"ours": ours, "helion": helions, "hand": hands}


if __name__ == "__main__":
    main()
