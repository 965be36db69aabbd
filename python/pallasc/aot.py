"""`pallasc aot`: compiles modules with the real TPU compiler, with no TPU present.

The compiler runs in a worker process (`aot_worker`), one for all jobs, watched for time and memory;
a worker that dies, hangs or grows too large is replaced. Verdicts of the compiler are cached.
"""

import contextlib
import dataclasses
import hashlib
import importlib.metadata
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
import typing
from pathlib import Path

from . import mesh
from .chips import TOPOLOGIES, topology
from .command import Parser, add_size_option, bytes_text, positive, seconds_text
from .errors import FileError, UsageError
from .files import keep, kept_json
from .module import Module, kernel_text, read_module, vmem_limits

TESTED_LIBTPU = "0.0.51"  # the extra `tpu` of pyproject.toml
TIMEOUT_S = 600.0
MEMORY_BYTES = 8 << 30
_POLL_S = 0.1
_CACHE_VERSION = "1"


@dataclasses.dataclass
class AotResult:
    """What the TPU compiler said of one module for one target.

    Attributes:
      path, target: the job.
      ok: whether it compiled.
      kind: "ok", "vmem" (over the limit), "error" (refused), "timeout", "memory", "crash".
      message: the telling lines of the error, or "".
      full: the whole error, or "".
      vmem_bytes: scoped VMEM used, the largest of the module's kernels; over the limit, what the
        compiler asked for; None if it does not say.
      vmem_limit: the limit that was exceeded, bytes, or None.
      predicted_bytes: KERNEL_INFO["vmem_bytes"], or None.
      most_bytes: KERNEL_INFO["vmem_most_bytes"], or None: no kernel that was measured uses more.
      predicted_vmem: KERNEL_INFO["vmem"], bytes by owner; None for another chip, or if not told.
      estimate: KERNEL_INFO["estimate"], cycles by part; None as that.
      kernels: scoped VMEM bytes of each kernel, in the order of the compiled program.
      temp_bytes: HBM temporaries, or None.
      seconds: tracing and compiling; what it took then, if it comes from the cache.
      cached: whether it comes from the cache.
      topology: the slice of a module that runs on a mesh, such as "v6e:2x4"; else "".
      sizes: the named sizes of a module of several, {name: int}; else {}.
    """

    path: str
    target: str
    ok: bool = False
    kind: str = "error"
    message: str = ""
    full: str = ""
    vmem_bytes: int | None = None
    vmem_limit: int | None = None
    predicted_bytes: int | None = None
    most_bytes: int | None = None
    predicted_vmem: dict | None = None
    estimate: dict | None = None
    kernels: list = dataclasses.field(default_factory=list)
    temp_bytes: int | None = None
    seconds: float = 0.0
    cached: bool = False
    topology: str = ""
    sizes: dict = dataclasses.field(default_factory=dict)


class Worker:
    """One worker process. `request` raises `WorkerLost` if it had to be given up.

    Args:
      memory_bytes: resident memory at which it is given up.
      program: the module that it runs, which answers lines of JSON with lines of JSON.
      flags: of libtpu, such as "--xla_mosaic_dump_to=DIR".

    Its temporary files stand in a folder of its own, which goes when it is closed; it ends when
    this process does. Signals of a terminal reach this process alone, which then closes it.
    """

    _lock, _open, _refused = threading.Lock(), set(), 0  # of all workers

    def __init__(self, memory_bytes=MEMORY_BYTES, program="pallasc.aot_worker", flags=()):
        require_libtpu()
        self.memory_bytes = memory_bytes
        with contextlib.ExitStack() as stack:
            self._log = stack.enter_context(tempfile.TemporaryFile())
            folder = stack.enter_context(temporary_folder())
            with self._lock:
                if self._refused:
                    raise WorkerLost("crash", "interrupted")
                self._process = subprocess.Popen(
                    worker_command(program, memory_bytes),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._log,
                    env=worker_environment(flags) | {"TMPDIR": folder},
                    start_new_session=True,
                )
                self._open.add(self)
            self._stack = stack.pop_all()

    @classmethod
    @contextlib.contextmanager
    def ended(cls):
        """Kills those of all threads; meanwhile none starts. Who asks one gets `WorkerLost`."""
        with cls._lock:
            cls._refused += 1
            for worker in cls._open:
                worker._process.kill()
        try:
            yield
        finally:
            with cls._lock:
                cls._refused -= 1

    def request(self, job, timeout):
        """Sends `job`, a dict, and gives the answer, a dict."""
        deadline = time.monotonic() + timeout
        try:
            self._process.stdin.write(json.dumps(job).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise WorkerLost("crash", self._last_words()) from None
        line = self._read_line(deadline, timeout)
        try:
            return json.loads(line)
        except ValueError:
            raise WorkerLost("crash", self._last_words()) from None

    def _read_line(self, deadline, timeout):
        output, data = self._process.stdout.fileno(), b""
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            while not data.endswith(b"\n"):
                if selector.select(_POLL_S):
                    chunk = os.read(output, 1 << 16)
                    if not chunk:
                        raise WorkerLost("crash", self._last_words())
                    data += chunk
                    continue
                used = _resident_bytes(self._process.pid)
                if used > self.memory_bytes:
                    raise WorkerLost("memory", f"took more than {bytes_text(self.memory_bytes)}")
                if time.monotonic() > deadline:
                    raise WorkerLost("timeout", f"no result after {timeout:g} s")
        return data

    def _last_words(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        self._log.seek(0)
        lines = self._log.read().decode("utf-8", "replace").split("\n")
        telling = [line for line in lines if re.search(r"rror|atal|F\d{4}|LLVM|bad_alloc", line)]
        status = self._process.returncode
        how = f"signal {-status}" if status is not None and status < 0 else f"status {status}"
        how += ", as for want of memory" if status == -signal.SIGKILL else ""
        return "\n".join([f"the compiler process ended with {how}", *telling[-3:]])

    def close(self):
        """Ends the process, whatever it does."""
        with self._lock:
            self._open.discard(self)
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):  # what was not sent is not wanted any more
            self._process.stdin.close()
        self._process.stdout.close()
        self._stack.close()


class WorkerLost(Exception):
    """A worker that cannot be used further: (kind, message)."""

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


def worker_command(program, *arguments):
    """The command of a process that runs a module of ours, and ends when this one does."""
    words = [sys.executable, "-m", f"{__package__}.supervised", os.getpid(), program, *arguments]
    return [str(word) for word in words]


def temporary_folder():
    """A `TemporaryDirectory` that something killed may still write into while it goes."""
    return tempfile.TemporaryDirectory(prefix="pallasc-", ignore_cleanup_errors=True)


def worker_environment(flags=()):
    """Environment of a worker: libtpu without a TPU, jax on the CPU, no compilation cache.

    Args:
      flags: of libtpu, which reads them once in a process.
    """
    environment = dict(os.environ)
    given = os.environ.get("LIBTPU_INIT_ARGS", "")
    environment.update(
        LIBTPU_INIT_ARGS=" ".join([given, *flags]).strip(),
        JAX_PLATFORMS="cpu",
        TPU_SKIP_MDS_QUERY="1",
        ALLOW_MULTIPLE_LIBTPU_LOAD="1",
        TPU_ACCELERATOR_TYPE="v6e-1",
        TPU_WORKER_HOSTNAMES="localhost",
        JAX_ENABLE_COMPILATION_CACHE="false",
        PYTHONPATH=os.pathsep.join(
            [str(Path(__file__).resolve().parent.parent), *_split_path("PYTHONPATH")]
        ),
    )
    return environment


def _split_path(variable):
    return [part for part in os.environ.get(variable, "").split(os.pathsep) if part]


def _resident_bytes(pid):
    """Resident memory of a process; 0 where /proc does not say."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def compile_many(jobs, timeout=TIMEOUT_S, memory_bytes=MEMORY_BYTES, cache=True, shape=None):
    """Compiles jobs one after another in one worker; yields an `AotResult` for each, in order.

    Modules that run on a mesh have a worker of their own, and are compiled whole: what XLA does
    between devices too. Of a module of several sizes the first is compiled: see `Module.sized`.

    Args:
      jobs: (module, target) pairs; a module is a `Module` or the path of one; target None is the
        module's own.
      timeout: seconds for each job.
      memory_bytes: resident memory of the worker.
      cache: whether to use and fill the cache.
      shape: of the slice that runs modules on a mesh, "4x4"; None: as large as need be.

    Raises PallascError for a job that cannot be started: no such file, unknown target.
    """
    workers = {}
    try:
        for module, target in jobs:
            result, module = _prepare(module, target, shape)
            program = _program(module)
            place = result.topology or result.target
            key = cache_key(module.source, place, program, module.info.get("sharding"))
            if cache and CACHE.load(key, result):
                yield result
                continue
            worker = workers.get(program) or Worker(memory_bytes, f"{__package__}.{program}")
            workers[program] = worker
            try:
                answer = worker.request({**_job(module), "target": place}, timeout)
                _fill(result, answer)
                if cache and result.kind in ("ok", "vmem", "error"):
                    CACHE.store(key, result)
            except WorkerLost as lost:
                result.kind, result.message, result.full = lost.kind, str(lost), str(lost)
                workers.pop(program).close()
            yield result
    finally:
        for worker in workers.values():
            worker.close()


def compile_one(module, target=None, **options):
    """`compile_many` for one job: gives its `AotResult`."""
    return next(compile_many([(module, target)], **options))


def _prepare(module, target, shape=None):
    module = module if isinstance(module, Module) else read_module(module)
    target = target or module.info["target"]
    if target not in TOPOLOGIES:
        raise UsageError(f"unknown target {target!r}: one of {', '.join(TOPOLOGIES)}")
    result = AotResult(module.filename, target)
    result.sizes = module.info.get("sizes", {})
    if mesh.has_mesh(module.info):
        result.topology = topology(target, mesh.devices(module.info), shape)
    kernels = (module.info, *module.info.get("backward", ()))
    largest = max(kernels, key=lambda kernel: kernel.get("vmem_bytes", 0))
    result.predicted_bytes = largest.get("vmem_bytes")
    result.most_bytes = largest.get("vmem_most_bytes")
    if target == module.info["target"]:
        result.predicted_vmem = largest.get("vmem")
        result.estimate = module.info.get("estimate")
    return result, module


def _program(module):
    """Which worker compiles it."""
    return "aot_mesh" if mesh.has_mesh(module.info) else "aot_worker"


def _job(module):
    return {"source": module.source, "filename": module.filename}


def _fill(result, answer):
    result.ok = answer["ok"]
    result.seconds = answer["seconds"]
    if result.ok:
        result.kind = "ok"
        result.kernels = answer["kernels"]
        result.vmem_bytes = max(result.kernels, default=0)
        result.temp_bytes = answer["temp_bytes"]
        return
    result.full = answer["error"]
    result.vmem_bytes, result.vmem_limit = parse_vmem_overflow(result.full)
    result.kind = "error" if result.vmem_bytes is None else "vmem"
    result.message = telling_lines(result.full)


_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_vmem_overflow(text):
    """(bytes asked for, limit) of an out-of-VMEM error; (None, None) for any other."""
    patterns = (
        r"size ([\d.]+)([KMG]?)B? and limit ([\d.]+)([KMG]?)B? exceeded scoped vmem",
        r"Used ([\d.]+)([KMG]?)B? of ([\d.]+)([KMG]?)B? vmem",
        r"\(size=(\d+)()\) would exceed memory \(size=(\d+)()\).*space=vmem",
    )
    for pattern in patterns:
        if match := re.search(pattern, text):
            asked, unit, limit, limit_unit = match.groups()
            return int(float(asked) * _UNITS[unit]), int(float(limit) * _UNITS[limit_unit])
    return None, None


_NOISE = re.compile(r"^(-+|=+|\s*|See https?:.*|Please report.*|The preceding stack trace.*)$")


def telling_lines(text, count=6, width=240):
    """The first lines of a compiler error that say something, each cut to `width`."""
    asked, limit = parse_vmem_overflow(text)
    if asked is not None:
        return f"out of scoped VMEM: {bytes_text(asked)} needed, {bytes_text(limit)} allowed"
    lines = [line.rstrip() for line in text.split("\n") if not _NOISE.match(line)]
    lines = [line if len(line) <= width else f"{line[: width - 3]}..." for line in lines]
    return "\n".join(lines[:count])


def cache_directory(part="aot"):
    """$PALLASC_CACHE, .cache of the source tree, or the user's cache directory; then /PART."""
    if path := os.environ.get("PALLASC_CACHE"):
        return Path(path) / part
    tree = Path(__file__).resolve().parent.parent.parent
    if (tree / "pyproject.toml").exists():
        return tree / ".cache" / part
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "pallasc" / part


def cache_key(source, target, program="aot_worker", sharding=None):
    """Hex digest of all that a verdict depends on.

    Args:
      source: the module's text.
      target: a chip, or the slice of a module that runs on a mesh.
      program: the worker's.
      sharding: KERNEL_INFO["sharding"], or None.
    """
    parts = [_CACHE_VERSION, kernel_text(source), str(vmem_limits(source)), target]
    parts += [str(sharding)] if sharding else []
    for package in ("jax", "jaxlib", "libtpu"):
        parts.append(_version(package))
    # The worker's own code decides how a module is traced.
    for part in dict.fromkeys(("aot_worker", program)):
        parts.append(Path(__file__).with_name(f"{part}.py").read_text())
    if program == "aot_mesh":
        parts.append(Path(mesh.__file__).read_text())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


class Cache:
    """Verdicts of runs before this one, a file each in `cache_directory()`."""

    _COUNT = (int, types.NoneType)
    FIELDS: typing.ClassVar = {
        **{"ok": bool, "kind": str, "message": str, "full": str},
        **{"vmem_bytes": _COUNT, "vmem_limit": _COUNT, "kernels": list, "temp_bytes": _COUNT},
        "seconds": (int, float),
    }

    def load(self, key, result):
        """Whether a verdict of this `cache_key` is kept; it is written into the `AotResult`."""
        stored = kept_json(cache_directory() / f"{key}.json")
        if not isinstance(stored, dict):
            return False
        fields = {name: stored.get(name, ...) for name in self.FIELDS}
        if not all(isinstance(value, self.FIELDS[name]) for name, value in fields.items()):
            return False
        if not all(isinstance(size, int) for size in fields["kernels"]):
            return False
        for name, value in fields.items():
            setattr(result, name, value)
        result.cached = True
        return True

    def store(self, key, result):
        """Keeps a verdict; a cache that cannot be written is no error."""
        fields = {name: getattr(result, name) for name in self.FIELDS}
        keep(cache_directory() / f"{key}.json", json.dumps(fields))


CACHE = Cache()


def result_text(result, verbose=False):
    """A result for people: a line, and the error's telling lines if it failed."""
    if not result.ok:
        error = result.full if verbose else result.message
        first, *rest = error.split("\n")
        lines = [f"{_job_text(result)}: {_FAILURES[result.kind]}: {first}", *rest]
        if result.kind == "vmem" and result.predicted_bytes is not None:
            lines.append(f"  predicted {bytes_text(result.predicted_bytes)}")
        return "\n".join(lines)
    parts = [f"VMEM {bytes_text(result.vmem_bytes)} used"]
    if result.predicted_bytes is not None:
        parts.append(f"{bytes_text(result.predicted_bytes)} predicted")
    if result.most_bytes is not None:
        parts[-1] += f", at most {bytes_text(result.most_bytes)}"
    parts.append(f"HBM temporaries {bytes_text(result.temp_bytes)}")
    parts.append("cached" if result.cached else f"{result.seconds:.1f} s")
    line = f"{_job_text(result)}: ok: {', '.join(parts)}"
    return "\n".join([line, *_estimate_lines(result)])


def _job_text(result):
    """The file, the sizes if it has names for them, and the chip or slice."""
    sizes = ", ".join(f"{name}={size}" for name, size in result.sizes.items())
    place = result.topology or result.target
    return ": ".join([result.path, *([sizes] if sizes else []), place])


def _estimate_lines(result):
    """What the module itself tells of its VMEM and time, for the chip that it was made for.

    The compiler's own analysis is no second opinion: it repeats the module's `cost_estimate`.
    """
    if result.predicted_vmem:
        owners = [f"{name} {bytes_text(size)}" for name, size in result.predicted_vmem.items()]
        yield f"  VMEM predicted: {', '.join(owners)}"
    if result.estimate:
        parts = dict(result.estimate)
        cycles, seconds = parts.pop("cycles"), seconds_text(parts.pop("seconds"))
        told = [f"{name} {count:,.0f}" for name, count in parts.items() if count]
        yield f"  estimated: {cycles:,.0f} cycles ({seconds}): {', '.join(told)}"


_FAILURES = {
    "vmem": "error",
    "error": "error",
    "timeout": "timeout",
    "memory": "out of memory",
    "crash": "crash",
}


def main(argv):
    """`aot KERNEL.py... [--target T]...`: exit status 0 if all compile, else 1."""
    parser = Parser(
        prog="pallasc aot",
        description="Compile kernel modules with the real TPU compiler; no TPU is needed.",
    )
    parser.add_argument("kernel", nargs="+", metavar="KERNEL.py", help="module, or - for a pipe")
    parser.add_argument(
        *("-t", "--target"),
        action="append",
        metavar="T",
        help=f"{', '.join(TOPOLOGIES)} or all; repeatable (default: the module's own)",
    )
    parser.add_argument(
        "--topology",
        metavar="NxN",
        help="chips of the slice for a module on a mesh (default: as many as its mesh needs)",
    )
    add_size_option(parser, "of a module of several sizes those of this one; repeatable")
    parser.add_argument("--timeout", type=positive, default=TIMEOUT_S, metavar="S", help="seconds")
    parser.add_argument("--memory", type=positive, default=8.0, metavar="GIB", help="memory cap")
    parser.add_argument("--json", action="store_true", help="one JSON line for each result")
    parser.add_argument("--no-cache", action="store_true", help="compile even if known")
    parser.add_argument("-v", "--verbose", action="store_true", help="the compiler's whole error")
    options = parser.parse_args(argv)
    targets = options.target or [None]
    targets = list(TOPOLOGIES) if "all" in targets else targets
    modules = [
        sized for path in options.kernel for sized in read_module(path).sized(dict(options.size))
    ]
    if options.topology and not any(mesh.has_mesh(module.info) for module in modules):
        raise UsageError("--topology: no module runs on a mesh")
    results = compile_many(
        [(module, target) for module in modules for target in targets],
        options.timeout,
        int(options.memory * (1 << 30)),
        cache=not options.no_cache,
        shape=options.topology,
    )
    good = True
    for result in results:
        good &= result.ok
        if options.json:
            print(json.dumps(dataclasses.asdict(result)), flush=True)
        else:
            print(result_text(result, options.verbose), flush=True)
    return 0 if good else 1


def require_libtpu():
    """Raises FileError if the TPU compiler is not installed."""
    if _version("libtpu") == "none":
        raise FileError(f"the TPU compiler is not installed: pip install libtpu=={TESTED_LIBTPU}")
