"""Executes the kernels of `cases` and compares with what is known of them."""

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings

from .. import aot
from ..aot_worker import tracing_for
from ..chips import TOPOLOGIES
from . import chips, dump
from .estimate import estimate
from .machine import MAX_BLOCKS

TARGETS = ("v5e", "v6e", "v7x")
TIMEOUT_S = 900


def main(targets=()):
    """Prints a line for each case and target; exit status 1 if one is off."""
    failed = total = 0
    for target in targets or TARGETS:
        for name, problems, seconds in results(target):
            total, failed = total + 1, failed + bool(problems)
            verdict = f"FAILED: {'; '.join(problems)}" if problems else "ok"
            print(f"{target} {name}: {verdict} ({seconds:.1f} s)", flush=True)
    print(f"{total - failed} of {total} passed")
    return 1 if failed else 0


def results(target, names=()):
    """Yields (name, problems, seconds) of the cases, all by default, in a process of their own."""
    aot.require_libtpu()
    command = aot.worker_command("pallasc.profile.selftest", target, *names)
    with aot.temporary_folder() as folder:
        environment = aot.worker_environment() | {"TMPDIR": folder}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        ) as process:
            try:
                for line in process.stdout:
                    yield json.loads(line)
            except BaseException:  # who asked has ended: GeneratorExit too
                process.kill()
                raise
    if process.returncode:
        yield "the process", [f"ended with status {process.returncode}"], 0.0


def child(target, names):
    """Prints (name, problems, seconds) of the cases as JSON lines."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory() as folder:
        dump.prepare(folder)
        from .cases import CASES

        warnings.simplefilter("ignore")
        for name in names or CASES:
            started = time.monotonic()
            try:
                problems = list(problems_of(CASES[name](), target, folder))
            except Exception as error:
                problems = [f"{type(error).__name__}: {error}"[:400]]
            seconds = time.monotonic() - started
            print(json.dumps([name, problems, seconds]), file=answers, flush=True)


def problems_of(case, target, folder):
    """Yields how a case differs from what is known of it."""
    found = estimate(compiled(case, target, folder), case.limit or MAX_BLOCKS)
    kernels = [facts for facts in found["kernels"].values() if facts["pallas"]]
    if case.error:
        if found["trusted"] or not any(case.error in text for text in found["errors"]):
            yield f"no error says {case.error!r}: {found['errors']}"
        return
    chip = chips.CHIPS[target]
    known = case.products[target] if isinstance(case.products, dict) else case.products
    wanted = known * (256 // chip.mxu) ** 2
    entered = sum(sum(facts["matmuls"].values()) for facts in kernels)
    if entered != wanted:
        yield f"{entered} matmuls, not {wanted}"
    for way, size in (("hbm_to_vmem", case.read), ("vmem_to_hbm", case.written)):
        copied = sum(facts["copied_bytes"].get(way, 0) for facts in kernels)
        if size is not None and copied != size:
            yield f"{way}: {copied} bytes, not {size}"
    yield from found["errors"]
    if case.bound:
        least = (case.read + case.written) / chip.hbm_bytes_per_cycle
        if not 0.95 <= found["cycles"] / least <= 1.3:
            yield f"{found['cycles'] / least:.3f} of the time that HBM needs"


def compiled(case, target, folder):
    """The dump of a case."""
    import jax
    import numpy as np
    from jax.experimental import topologies

    topology = TOPOLOGIES[target]
    device = topologies.get_topology_desc(platform="tpu", topology_name=topology).devices[0]
    sharding = jax.sharding.SingleDeviceSharding(device)
    arguments = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding) for a in case.arguments]
    with tracing_for(device):
        traced = jax.jit(case.function).trace(*arguments)
        lowered = traced.lower()
    lowered.compile()
    values = [a if isinstance(a, np.ndarray) else None for a in case.arguments]
    return dump.collect(folder, target, traced.jaxpr, values)


if __name__ == "__main__":
    child(sys.argv[1], sys.argv[2:])
