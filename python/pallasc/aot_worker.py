"""The process behind `pallasc.aot`: reads jobs as JSON lines, answers each with a JSON line.

A job is {"source", "filename", "target"}. The answer is {"ok", "seconds"} with {"kernels",
"temp_bytes"} or {"error"}. Nothing else is written to standard output.
"""

import contextlib
import json
import os
import re
import sys
import time
import warnings

_SLACK_BYTES = 8 << 30  # libraries, thread stacks and reservations that are never touched


def main():
    """Serves jobs until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever libtpu prints goes to the log
    _limit_memory(int(sys.argv[1]))
    for line in sys.stdin:
        job = json.loads(line)
        started = time.monotonic()
        try:
            answer = {"ok": True, **compile_job(job)}
        except Exception as error:
            text = str(error).strip()
            named = f"{type(error).__name__}: {text}" if _needs_name(error) else text
            answer = {"ok": False, "error": named}
        answer["seconds"] = round(time.monotonic() - started, 3)
        print(json.dumps(answer), file=answers, flush=True)


def _limit_memory(size):
    """A backstop behind the parent's watch: fails allocations before the machine swaps."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (size + _SLACK_BYTES,) * 2)


def _needs_name(error):
    """Whether the type says more than the text: for all but the compiler's own errors."""
    return type(error).__name__ not in ("JaxRuntimeError", "XlaRuntimeError", "MosaicError")


def compile_job(job):
    """Compiles one module: {"kernels": VMEM bytes of each, "temp_bytes"}."""
    from .module import Module

    module = Module(job["source"], job["filename"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = compile_module(module, job["target"])
    return {
        "kernels": scoped_vmem(compiled),
        "temp_bytes": compiled.memory_analysis().temp_size_in_bytes,
    }


def compile_module(module, target):
    """jax's compiled object of a module's kernel for the first device of a target's topology."""
    import jax
    from jax.experimental import topologies

    from .chips import TOPOLOGIES

    topology = topologies.get_topology_desc(platform="tpu", topology_name=TOPOLOGIES[target])
    device = topology.devices[0]
    info = module.info
    kernel = getattr(module.load(), info["name"])
    sharding = jax.sharding.SingleDeviceSharding(device)
    # The result says for which chip to compile: no argument does where none is used.
    kernel = jax.jit(_with_gradients(kernel, info), out_shardings=sharding)
    arguments = [
        jax.ShapeDtypeStruct(tuple(entry.get("shape", ())), entry["dtype"], sharding=sharding)
        for entry in (*info["inputs"], *info.get("scalars", ()))
    ]
    with tracing_for(device):
        lowered = kernel.trace(*arguments).lower()
    return lowered.compile()


def _with_gradients(kernel, info):
    """A module's function; of a pair (docs/gradients.md) with its gradients, so all its kernels."""
    import jax
    import numpy as np

    if "backward" not in info:
        return kernel

    def cotangent(x):
        floats = jax.numpy.issubdtype(x.dtype, jax.numpy.floating)
        return jax.numpy.ones_like(x) if floats else np.zeros(x.shape, jax.dtypes.float0)

    def both(*inputs):
        out, back = jax.vjp(kernel, *inputs)
        gradients = back(jax.tree.map(cotangent, out))
        return out, [x for x in gradients if x.dtype != jax.dtypes.float0]

    return both


def tracing_for(device):
    """Context in which tracing sees `device` as the chip, instead of this machine's CPU."""
    import jax

    abstract = jax.sharding.AbstractDevice(
        device_kind=device.device_kind, num_cores=device.num_cores, platform="tpu"
    )
    mesh = jax.sharding.AbstractMesh((), (), abstract_device=abstract)
    return jax.sharding.use_abstract_mesh(mesh)


def scoped_vmem(compiled):
    """Scoped VMEM bytes of each Pallas kernel of jax's compiled object.

    jaxlib cannot read back every program of libtpu's, such as one with asynchronous copies of
    several operands: those are searched as the protocol buffer that they are, each size once.
    """
    import jax

    try:
        return parse_scoped_vmem(compiled.as_text())
    except jax.errors.JaxRuntimeError:
        return parse_serialized_vmem(compiled.runtime_executable().serialize())


def parse_serialized_vmem(program):
    """Scoped VMEM bytes of each Pallas kernel in a serialized program, without repeats."""
    given = rb'(?:"scoped_memory_configs":\[[^\]]*\],)?'
    target = given + rb'"custom_call_config":.*?"used_scoped_memory_configs":\[.*?\]'
    calls = (match.decode("latin-1") for match in re.findall(target, program, re.DOTALL))
    return list(dict.fromkeys(map(used_scoped_vmem, calls)))


def used_scoped_vmem(call):
    """Scoped VMEM bytes that a call uses, by the text of its backend_config.

    What is used counts from the begin of VMEM; what XLA gives to a call begins behind the arrays
    that it keeps in VMEM meanwhile.
    """
    used, given = (
        re.findall(rf'"{name}":\[([^\]]*)\]', call)[-1:]
        for name in ("used_scoped_memory_configs", "scoped_memory_configs")
    )
    spaces = r'"memory_space":"1","offset":"(\d+)","size":"(\d+)"'
    ends = [int(offset) + int(size) for offset, size in re.findall(spaces, "".join(used))]
    begins = [int(offset) for offset, size in re.findall(spaces, "".join(given))]
    return max(max(ends, default=0) - min(begins, default=0), 0)


def fusions(hlo):
    """{a Pallas kernel's line: that of the fusion} of kernels that XLA fused with their operands.

    The fusion is what is compiled: it has the name in the dumps, and the VMEM of both.
    """
    called, computation, calls = {}, None, {}
    for line in hlo.split("\n"):
        header = re.match(r"\s*(?:ENTRY )?%([\w.\-]+) \(.*\{$", line)
        fusion = re.search(r" fusion\(.*kind=kCustom, calls=%([\w.\-]+)", line)
        if header:
            computation = header[1]
        elif fusion:
            called[fusion[1]] = line
        elif 'custom_call_target="tpu_custom_call"' in line:
            calls[line] = computation
    return {line: called[name] for line, name in calls.items() if name in called}


def parse_scoped_vmem(hlo):
    """Scoped VMEM bytes of each Pallas kernel in a compiled module's text."""
    sizes, fused = [], fusions(hlo)
    for line in hlo.split("\n"):
        if 'custom_call_target="tpu_custom_call"' not in line:
            continue
        sizes.append(used_scoped_vmem(fused.get(line, line)))
    return sizes


if __name__ == "__main__":
    main()
