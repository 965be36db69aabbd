"""Helion's own result for kernels of docs/coverage.md: its numbers, and its cycles on a chip.

Reads a JSON list of jobs on standard input and prints a JSON object for each, one a line. A job:

- name: told again in the answer.
- kernel: FILE.py:KERNEL in testdata/kernels.
- check: {"args", "config", "inputs"}: run in Helion's interpret mode on these inputs.
- compile: {"args", "config", "target"} or null: compile for the chip.

Arrays are {"dtype", "shape", "data"}, the bytes in base64. Where Helion refuses the configuration
its default one is taken, and "default" is true. Each attempt runs in a process of its own, forked
from this one, which has imported torch once; it may take 60 s of CPU time. Needs torch and helion.
"""

import base64
import contextlib
import json
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import helion_kernel
import measure
import measure_worker
from pallasc.profile import dump

CPU_S = 60
WALL_S = 400


def main():
    """Answers the jobs."""
    os.environ.update(measure.worker_environment(), **helion_kernel.environment())
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    import helion  # noqa: F401
    import torch

    torch.set_num_threads(1)
    for job in json.load(sys.stdin):
        found = {"name": job["name"], "check": attempts(check, job, "check"), "compile": None}
        if job["compile"]:
            found["compile"] = attempts(compile_for, job, "compile")
        print(json.dumps(found), file=answers, flush=True)


def attempts(function, job, part):
    """The answer under the asked configuration; where there is none, under Helion's default."""
    asked = in_child(function, job, job[part]["config"])
    if asked["kind"] == "ok":
        return {**asked, "default": False}
    default = in_child(function, job, None)
    return {**default, "default": True} if default["kind"] == "ok" else {**asked, "default": False}


def in_child(function, *args):
    """What a function returns, with "kind": "ok"; else "refused", "timeout" or "crash", and why."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=child_main, args=(theirs, function, *args))
    child.start()
    theirs.close()
    answer = None
    if ours.poll(WALL_S):
        with contextlib.suppress(EOFError):
            answer = ours.recv()
    child.kill()
    child.join()
    ours.close()
    if answer is None:
        late = child.exitcode in (-signal.SIGXCPU, -signal.SIGKILL)
        late_text = f"no result after {CPU_S} s of CPU time"
        ended = f"the process ended with status {child.exitcode}"
        return {"kind": "timeout" if late else "crash", "message": late_text if late else ended}
    return answer


def child_main(pipe, function, *args):
    """Runs in the child: sends the answer."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 5))
    warnings.simplefilter("ignore")
    try:
        answer = {"kind": "ok", "message": "", **function(*args)}
    except Exception as error:
        answer = {"kind": "refused", "message": first_line(error)}
    pipe.send(answer)
    pipe.close()


def first_line(error):
    """The line of an exception that says what is wrong; of a chain the first one's."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:240]


def check(job, config):
    """{"outputs"} of the kernel in Helion's interpret mode."""
    import torch
    from jax._src.pallas.mosaic import tpu_info
    from jax.experimental.pallas import tpu as pltpu

    # Windows of narrow dtypes ask the chip for its tiles.
    chip = pltpu.get_tpu_info_for_chip(pltpu.ChipVersion.TPU_V6E, 1)
    tpu_info.registry.setdefault(tpu_info.get_device_kind(), lambda: chip)
    part = job["check"]
    inputs = iter(part["inputs"])
    arguments = [
        array_load(next(inputs)) if isinstance(value, torch.Tensor) else value
        for value in helion_kernel.values(part["args"], "meta")
    ]
    bound = helion_kernel.bind(job["kernel"], arguments, interpret=True)
    bound.set_config(helion_kernel.config_for(bound, config))
    outputs = bound(*arguments)
    outputs = outputs if isinstance(outputs, tuple | list) else [outputs]
    return {"outputs": [array_save(output) for output in outputs]}


def array_load(entry):
    """A tensor of an array in JSON."""
    import torch

    data = bytearray(base64.b64decode(entry["data"]))
    return torch.frombuffer(data, dtype=getattr(torch, entry["dtype"])).reshape(entry["shape"])


def array_save(tensor):
    """An array in JSON of a tensor."""
    import torch

    data = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    text = base64.b64encode(data).decode()
    dtype = str(tensor.dtype).removeprefix("torch.")
    return {"dtype": dtype, "shape": list(tensor.shape), "data": text}


def compile_for(job, config):
    """{"vmem_bytes", "cycles"} of the kernel compiled for the chip."""
    part = job["compile"]
    request = {
        "side": "helion",
        "kernel": job["kernel"],
        "args": part["args"],
        "config": config,
        "target": part["target"],
        "vmem_capacity": measure.VMEM_CAPACITY[part["target"]],
    }
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/dump"
        answer = measure_worker.job_run({**request, "dump": path})
        static = measure.static_facts(measure.estimate(dump.load(path)))
    used = max(answer["kernels"], default=0) or static["vmem_bytes"]
    facts = {"vmem_bytes": used, "overruled": answer.get("refused", "")}
    return facts | {"cycles": None if static["cut"] else static["cycles"]}


if __name__ == "__main__":
    main()
