"""Compiles kernels with the TPU compiler, and estimates their time.

A `Job` is a kernel of testdata/kernels on arguments under a configuration for a chip, by pallasc or
by Helion, or one of hand_kernels.py; `measure` gives its `Outcome`. Each job runs in a process of
its own, with a time and a memory limit, on the jax and libtpu of this Python. Outcomes are kept in
.cache/bench by all that they depend on: code and versions, not comments.

Times are those of `pallasc.profile`, which executes the compiler's schedule (docs/profile.md). They
are estimates: good for ratios of kernels in one table. The schedules are kept in .cache/profile, so
that only what executes them is done again when it changes.
"""

import ast
import contextlib
import dataclasses
import functools
import hashlib
import importlib.metadata
import inspect
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

from pallasc import binding  # noqa: E402
from pallasc.aot import parse_vmem_overflow, telling_lines, worker_environment  # noqa: E402
from pallasc.errors import CompileError  # noqa: E402
from pallasc.profile import chips, dump  # noqa: E402
from pallasc.profile.estimate import estimate  # noqa: E402
from pallasc.profile.run import code_of  # noqa: E402

KERNELS = ROOT / "testdata" / "kernels"
PROFILE = ROOT / "python" / "pallasc" / "profile"
# The parts of it that a result depends on, once there is a dump.
EXECUTING = ("between", "checks", "chips", "estimate", "floor", "machine", "matmuls", "program")
EXECUTING += ("scalar", "scalars", "schedule")
CACHE = ROOT / ".cache" / "bench"
DUMPS = ROOT / ".cache" / "profile"
TIMEOUT_S = 420
DUMPED_S = 20  # above, the time of the compiler is that of a compile that dumps nothing
MEMORY_BYTES = 8 << 30
# What a chip says of itself, which Helion passes to the compiler as the limit.
VMEM_CAPACITY = {"v4": 16 << 20, "v5e": 128 << 20, "v5p": 64 << 20, "v6e": 128 << 20}
VMEM_CAPACITY["v7x"] = 64 << 20
# Of the worker's answers: another number has everything compiled again (`dump.FORMAT`: the dumps).
_CACHE_VERSION = "3"


@dataclasses.dataclass(frozen=True)
class Job:
    """A kernel to be compiled, and if `static` its time estimated.

    Attributes:
      side: "ours", "helion" or "hand".
      kernel: FILE.py:KERNEL in testdata/kernels; of "hand" a name of hand_kernels.py.
      args: its arguments, as `pallasc export --args` takes them.
      config: the configuration as JSON text; of "hand" that kernel's own parameters.
      target: a chip.
      static: whether the time is to be estimated.
    """

    side: str
    kernel: str
    args: tuple
    config: str
    target: str
    static: bool = True


@dataclasses.dataclass
class Outcome:
    """What is known of a job.

    Attributes:
      ok: compiled.
      kind: "ok", "refused" (pallasc's diagnostic, or Helion cannot generate), "vmem" (over the
        compiler's limit), "error" (refused by the compiler), "timeout", "crash".
      message: why not ok, a few lines.
      vmem_bytes: scoped VMEM used, or asked for where that is over the limit; None if unknown.
      temp_bytes: temporaries in HBM.
      plan: pallasc's plan, a dict, also where the compiler then refuses; None for other sides.
      blocks: Helion's block sizes, which it may have raised.
      overruled: Helion's own refusal, which was overruled to hear the compiler; "".
      static: the estimate (see `static_facts`), or None.
      seconds: of the whole process.
      compile_s: of a CPU, for libtpu's part of it; None of an answer from before it was taken.
    """

    ok: bool = False
    kind: str = "error"
    message: str = ""
    vmem_bytes: int | None = None
    temp_bytes: int | None = None
    plan: dict | None = None
    blocks: dict = dataclasses.field(default_factory=dict)
    overruled: str = ""
    static: dict | None = None
    seconds: float = 0.0
    compile_s: float | None = None


def measure(job, remembered=False, timeout=TIMEOUT_S, compiles=False):
    """The `Outcome` of a job, which has `timeout` seconds.

    With `remembered` nothing is compiled: None where the answer is not in the cache. With
    `compiles` an answer that does not say how long the compiler took is none.
    """
    outcome = Outcome()
    try:
        request = request_of(job, outcome)
    except CompileError as error:
        outcome.kind, outcome.message = "refused", str(error)
        return outcome
    answer = answer_of(request, remembered, timeout, compiles=compiles)
    if answer is None:
        return None
    fill(outcome, answer, job)
    return outcome


def request_of(job, outcome=None):
    """What the worker is asked; the plan of ours goes into an outcome.

    Raises CompileError where pallasc refuses the job.
    """
    request = {"side": job.side, "target": job.target}
    if job.side == "ours":
        module = binding.compile(document(job.kernel, job.args), job.config, job.target)
        request["source"] = module.source
        if module.plan["config"].get("pallas_whole_vmem") == "on":
            request["whole_vmem"] = True  # the key leaves out what VMEM a module asks for
        if outcome:
            outcome.plan = module.plan
    else:
        request["kernel"], request["args"] = job.kernel, list(job.args)
        request["config"] = json.loads(job.config)
        if job.side == "helion":
            request["vmem_capacity"] = VMEM_CAPACITY[job.target]
    request["static"] = job.static and job.target in chips.CHIPS
    return request


def fill(outcome, answer, job):
    """Puts the worker's answer into an outcome."""
    outcome.ok, outcome.seconds = answer["ok"], answer["seconds"]
    outcome.compile_s = answer.get("compile_s")
    outcome.blocks = answer.get("blocks") or {}
    outcome.overruled = answer.get("refused") or ""
    if outcome.ok:
        outcome.kind, outcome.static = "ok", answer["static"]
        reported = (outcome.static or {}).get("vmem_bytes")  # of kernels that name no limit
        outcome.vmem_bytes = max(answer["kernels"], default=0) or reported
        outcome.temp_bytes = answer["temp_bytes"]
        return
    error = answer["error"]
    outcome.vmem_bytes, _ = parse_vmem_overflow(error)
    vmem = "error" if outcome.vmem_bytes is None else "vmem"
    outcome.kind = answer.get("kind") or vmem
    outcome.message = telling_lines(error)


def job_key(job):
    """What a job's answer is kept by; of a refusal its message."""
    try:
        return answer_key(request_of(job))
    except CompileError as error:
        return digest("refused", str(error))


# ---- documents


@functools.cache
def document(kernel, args):
    """The document of a kernel of testdata/kernels on arguments: exported anew, or as it was."""
    file, _, name = kernel.rpartition(":")
    exporter = sorted((ROOT / "python" / "pallasc" / "exporter").glob("*.py"))
    texts = [path.read_text() for path in (KERNELS / file, *exporter)]
    key = digest("document", kernel, args, texts, versions("helion", "torch"))
    if (found := cache_load(key)) is None:
        from pallasc.export import spec_export

        found = spec_export(str(KERNELS / file), name, list(args), None, None)
        cache_store(key, found)
    return found


# ---- processes


def answer_of(request, remembered=False, timeout=TIMEOUT_S, numbers=(), compiles=False):
    """The worker's answer to a request; verdicts are remembered, a lost worker's is not.

    It has `timeout` seconds. None where only what is remembered is asked for and there is nothing.
    `numbers`: what the kernel takes from vectors (`pallasc.profile.machine.execute`). `compiles`:
    an answer without the compiler's time is asked for again.
    """
    key = answer_key(request)
    path = dump_path(key)
    found = cache_load(key)
    lacks = found and found["ok"] and compiles and "compile_s" not in found
    if found is None or lacks or (found["ok"] and request["static"] and not path.exists()):
        if remembered:
            return None
        found = worker_run({**request, "dump": str(path) if request["static"] else None}, timeout)
        if found.get("compile_s", 0) > DUMPED_S:
            plain = worker_run({**request, "dump": None}, timeout)
            found["compile_s"] = plain.get("compile_s", found["compile_s"])
        if found.get("kind") not in ("crash", "timeout"):  # another time it may end
            cache_store(key, found)
    executed = found["ok"] and request["static"]
    static = static_of(key, path, numbers) if executed else None
    return found | {"key": key, "static": static}


def answer_key(request):
    """What an answer is kept by: all that it depends on."""
    here, texts = Path(__file__).parent, [dump.FORMAT] if request["static"] else []
    packages = ["jax", "jaxlib", "libtpu"]
    if request["side"] == "helion":
        packages += ["torch", "helion"]
        texts.append(code_text(here / "helion_kernel.py"))
        texts.append((KERNELS / request["kernel"].partition(":")[0]).read_text())
    elif request["side"] == "hand":
        packages += ["tokamax"] if request["kernel"].startswith("tokamax.") else []
        texts.append(hand_text(request["kernel"]))
    keyed = dict(request)
    if request["side"] == "ours":
        keyed["source"] = code_of(request["source"])
    return digest("answer", keyed, texts, versions(*packages))


def dump_path(key):
    """Where the dump of an answer's key is."""
    return DUMPS / f"{key}.dump"


def static_of(key, path, numbers=()):
    """`static_facts` of the dump in a file, remembered by its key and what executes it."""
    texts = [code_text(PROFILE / f"{part}.py") for part in EXECUTING]
    given = [list(numbers)] if numbers else []
    static_key = digest("static", key, texts, inspect.getsource(static_facts), *given)
    if (facts := cache_load(static_key)) is None:
        facts = static_facts(estimate(dump.load(path), numbers=numbers))
        cache_store(static_key, facts)
    return facts


def static_facts(found):
    """What the tables need of `pallasc.profile.estimate`'s result.

    Times in ms, counts over the whole run; slot use as a share of each slot's capacity, weighted by
    how often each bundle runs; spills and fills as they stand in the schedule. Counts are those of
    the Pallas kernels; of everything where there is none; hbm_bytes those of XLA's copies between
    kernels too. A run that was cut has no time.
    """
    everything = list(found["kernels"].values())
    kernels = [facts for facts in everything if facts["pallas"]] or everything
    cut = not all(facts["complete"] for facts in kernels)
    chip = chips.CHIPS[found["target"]]

    def total(key):
        return sum(facts[key] or 0 for facts in kernels)

    hottest = max(kernels, key=lambda facts: facts["cycles"], default={"slots": {}})
    return {
        "instrument": found["instrument"],
        "sim_ok": found["trusted"],
        "errors": found["errors"],
        "warnings": found["warnings"],
        "cut": cut,
        "est_ms": None if cut else chip.milliseconds(found["cycles"]),
        "pallas_ms": None if cut else chip.milliseconds(found["pallas_cycles"]),
        "hbm_ms": found["hbm_bytes"] / chip.hbm_bytes_per_s * 1e3,
        "mxu_flops": found["matmul_flops"],
        "cycles": total("cycles"),
        "mxu_busy_cycles": total("matmul_busy_cycles"),
        "dma_wait_cycles": total("wait_cycles"),
        "hbm_bytes": total("hbm_bytes") + found["between"]["bytes"],
        "spills": total("spills"),
        "fills": total("fills"),
        "bundles": total("bundles"),
        "vmem_bytes": max((facts["vmem_bytes"] or 0 for facts in kernels), default=0),
        "slots": hottest["slots"],
    }


def code_text(path, left_out=()):
    """The code of a file without comments, docstrings and the top-level names in `left_out`."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(
            node
        ):
            node.body = node.body[1:] or [ast.Pass()]
    tree.body = [node for node in tree.body if getattr(node, "name", None) not in left_out]
    return ast.unparse(tree)


def hand_text(kernel):
    """The code that builds one kernel of hand_kernels.KERNELS: of its file, without the others."""
    import hand_kernels

    builders = {name: function.__name__ for name, function in hand_kernels.KERNELS.items()}
    others = set(builders.values()) - {builders[kernel]}
    text = code_text(Path(inspect.getsourcefile(hand_kernels.KERNELS[kernel])), others)
    return text.partition("KERNELS = ")[0]


def worker_run(request, timeout=TIMEOUT_S):
    """Runs the worker on one request."""
    worker = Path(__file__).with_name("measure_worker.py")
    environment = {**worker_environment(), "HELION_BACKEND": "pallas"}
    environment["HELION_PALLAS_INTERPRET"] = "0"
    DUMPS.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            [sys.executable, str(worker)],
            input=json.dumps({**request, "memory_bytes": MEMORY_BYTES}),
            capture_output=True,
            text=True,
            timeout=timeout,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        lost = f"no result after {timeout} s"
        return {"ok": False, "kind": "timeout", "error": lost, "seconds": timeout}
    try:
        return json.loads(done.stdout)
    except ValueError:
        error = f"the worker ended with status {done.returncode}\n{done.stderr[-2000:]}"
        return {"ok": False, "kind": "crash", "error": error, "seconds": 0.0}


# ---- the cache


def digest(*parts):
    """Hex digest of JSON-able parts."""
    text = json.dumps([_CACHE_VERSION, *parts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def versions(*packages):
    """The versions of packages, or "none"."""
    found = []
    for package in packages:
        try:
            found.append(importlib.metadata.version(package))
        except importlib.metadata.PackageNotFoundError:
            found.append("none")
    return found


def cache_load(key):
    """What was stored under a key, or None."""
    with contextlib.suppress(OSError, ValueError):
        return json.loads((CACHE / f"{key}.json").read_text())
    return None


def cache_store(key, value):
    """Stores a JSON-able value; a cache that cannot be written is no error."""
    with contextlib.suppress(OSError):
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=CACHE, delete=False) as file:
            json.dump(value, file)
        os.replace(file.name, CACHE / f"{key}.json")
