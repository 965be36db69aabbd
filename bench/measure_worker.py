"""The process behind `measure.py`: compiles one kernel of any side, and says what it takes.

One JSON job on standard input, one JSON answer on standard output. All sides go through the same
steps: trace as for the chip, lower, compile with libtpu, read the VMEM that the compiler reports,
and, where the static schedule tool is given, let it execute the schedule that the compiler dumped.
"""

import contextlib
import json
import os
import resource
import sys
import time
import warnings
from pathlib import Path

SLACK_BYTES = 8 << 30  # libraries, thread stacks and reservations that are never touched
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))
# The static tool's names of chips; it has no v4.
STATIC_TARGETS = {"v5e": "v5e", "v5p": "v5p", "v6e": "v6e", "v7x": "tpu7x"}


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
    """The answer to a job, but for `seconds`."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    tool = tool_load(job["tool"]) if job["tool"] else None
    import jax
    from jax.experimental import topologies
    from pallasc.aot_worker import tracing_for
    from pallasc.chips import TOPOLOGIES

    topology = TOPOLOGIES[job["target"]]
    device = topologies.get_topology_desc(platform="tpu", topology_name=topology).devices[0]
    with tracing_for(device):
        function, inputs, extra = SIDES[job["side"]](job)
    sharding = jax.sharding.SingleDeviceSharding(device)
    arguments = [jax.ShapeDtypeStruct(s, d, sharding=sharding) for s, d in inputs]
    staged = Staged(function, lambda: tracing_for(device))
    if tool:
        known = extra.pop("smem_default", 0)
        target = STATIC_TARGETS[job["target"]]
        found = tool.analyze(staged, arguments, target, smem_default=known)
        answer = {"ok": found["ok"], "static": static_facts(found) if found["ok"] else None}
        if not found["ok"]:
            answer["error"] = staged.error or found["error"]
            return {**answer, **extra}
    else:
        answer = {"ok": True, "static": None}
        staged.trace(*arguments).lower().compile()
    return {**answer, **extra, **compiled_facts(staged.compiled)}


def tool_load(path):
    """The static schedule tool as a module, set up: before libtpu is loaded."""
    sys.path.insert(0, str(Path(path).parent))
    import tpu_static

    tpu_static.setup()
    return tpu_static


def ours(job):
    """(function, inputs, facts) of a module of pallasc's."""
    from pallasc.module import Module

    module = Module(job["source"], "kernel.py")
    info = module.info
    entries = (*info["inputs"], *info.get("scalars", ()))
    inputs = [(tuple(entry.get("shape", ())), entry["dtype"]) for entry in entries]
    return getattr(module.load(), info["name"]), inputs, {}


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
    return built.function, built.inputs, {"smem_default": built.smem_default}


SIDES = {"ours": ours, "helion": helions, "hand": hands}


class Staged:
    """A jitted function whose stages are kept for later: what was compiled, or the whole error."""

    def __init__(self, function, tracing):
        import jax

        self.jitted = function if hasattr(function, "trace") else jax.jit(function)
        self.tracing = tracing
        self.compiled = None
        self.error = ""

    def trace(self, *arguments):
        """Traces as for the chip."""
        with self.kept(), self.tracing():
            self.traced = self.jitted.trace(*arguments)
        self.jaxpr = self.traced.jaxpr
        return self

    def lower(self, *arguments):
        """Lowers what was traced."""
        if arguments:
            self.trace(*arguments)
        with self.kept(), self.tracing():
            self.lowered = self.traced.lower()
        return self

    def compile(self):
        """Compiles what was lowered."""
        with self.kept():
            self.compiled = self.lowered.compile()
        return self.compiled

    @contextlib.contextmanager
    def kept(self):
        """Keeps the text of an error that passes through."""
        try:
            yield
        except Exception as error:
            self.error = str(error).strip()
            raise


def compiled_facts(compiled):
    """VMEM of each Pallas kernel and temporaries in HBM, bytes."""
    from pallasc.aot_worker import parse_scoped_vmem

    memory = compiled.memory_analysis()
    return {
        "kernels": parse_scoped_vmem(compiled.as_text()),
        "temp_bytes": memory.temp_size_in_bytes,
    }


def static_facts(found):
    """What the tables need of the tool's result.

    Times in ms, counts over the whole run; slot use as a share of each slot's capacity, weighted by
    how often each bundle runs; spills and fills as they stand in the schedule. Counts are those of
    the Pallas kernels; of everything where there is none. A run that the tool cut has no time.
    """
    everything = list(found["kernels"].values())
    kernels = [kernel for kernel in everything if kernel.get("pallas")] or everything
    run = found if found["sim_complete"] else found.get("cut_run", {})
    cut = not all(kernel.get("sim_complete") for kernel in kernels)
    facts = {
        "sim_ok": found["sim_ok"],
        "errors": found["errors"],
        "warnings": [text for text in found["warnings"] if not text.startswith("ERROR ")],
        "cut": cut,
        "est_ms": None if cut else run.get("est_ms"),
        "pallas_ms": None if cut else run.get("pallas_ms"),
        "hbm_ms": run.get("hbm_ms"),
        "mxu_flops": found.get("mxu_flops_executed"),
        "cycles": sum(kernel.get("est_cycles", 0) for kernel in kernels),
        "mxu_busy_cycles": sum(kernel.get("mxu_busy_cycles", 0) for kernel in kernels),
        "dma_wait_cycles": sum(kernel.get("dma_wait_cycles", 0) for kernel in kernels),
        "hbm_bytes": sum(kernel.get("hbm_bytes", 0) for kernel in kernels),
        "spills": sum(kernel.get("spills_static", 0) for kernel in kernels),
        "fills": sum(kernel.get("fills_static", 0) for kernel in kernels),
        "bundles": sum(kernel.get("bundles", 0) for kernel in kernels),
        "vmem_bytes": max((kernel.get("scoped_vmem_bytes") or 0 for kernel in kernels), default=0),
    }
    if kernels:
        hottest = max(kernels, key=lambda kernel: kernel.get("est_cycles", 0))
        facts["slots"] = hottest.get("util_all", {})
    return facts


if __name__ == "__main__":
    main()
