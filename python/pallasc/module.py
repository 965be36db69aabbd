"""Emitted kernel modules: reading their facts without running them, and loading them.

Who only compiles reads no Python: `ast` is imported, and the text parsed, when its facts are asked
for.
"""

import json
import linecache
import re
import sys
import threading
import types

from . import chips
from .errors import FileError, ModuleError, UsageError
from .files import write_file

# ast.parse counts its depth for all threads together (CPython 3.11): one at a time.
PARSING = threading.Lock()

INFO_KEYS = ("name", "target", "inputs", "outputs", "config")


# What a printed module only tells: in KERNEL_INFO its configuration and all that is estimated, in
# a pallas_call what XLA plans by around the kernel.
_TOLD = (
    re.compile(r'\n    "config": (?:.|\n)*?,(?=\n    "(?:mesh|compiler)")'),
    re.compile(r"\n *cost_estimate=pl\.CostEstimate\([^()]*\),"),
)
# How kernels are called: what jax's transformations and its simulator ask for.
_CALL = re.compile(r"(?<=\n    call = )_(?:pallas|sparse)_call\(")
_CALLED = {"_pallas_call(": "pl.pallas_call(", "_sparse_call(": "pl.kernel("}
_CALLS = re.compile(
    r"\n\n\n(?:@functools\.cache\n)?"
    r"def _(?:threads|pallas_call|sparse_call|whole_blocks|cut|varying|axes|batched)\(.*(?:\n+ .*)*"
)
_SIMULATE = re.compile(r"def _simulator\(interpret\):(?:\n+ .*)*")
# How it was when the results that are kept were first found.
_SIMULATOR = '''def _simulator(interpret):
    """What pallas_call takes: True simulates a TPU, InterpretParams pass through."""
    if not interpret:
        return False
    try:
        from jax._src.pallas.mosaic import tpu_info

        chip = pltpu.get_tpu_info_for_chip(pltpu.ChipVersion.TPU_V6E, 1)
        tpu_info.registry.setdefault(tpu_info.get_device_kind(), lambda: chip)
    except (ImportError, AttributeError):
        return pltpu.InterpretParams()
    if interpret is True:
        return pltpu.InterpretParams(buffer_bounds="padded")
    return interpret'''
# The versions of jax that a module was tested with, which it tells, and warns of others.
_VERSIONS = ">=0.10.2,<0.11"
_TOLD_VERSIONS = re.compile(r'(?<=\n    "jax": ")[^"\n]*')
_WARNED = re.compile(
    r"    if not \([\d, ]+\) <= jax\.__version_info__ < \([\d, ]+\):\n"
    r'        warnings\.warn\(\s*"(\w+): tested with jax [^"\n]*",\s*stacklevel=2,?\s*\)'
)
_TARGET = re.compile(r'^    "target": "(\w+)",$', re.MULTILINE)
_NOT_COMPILED = re.compile(r"\s*(\{|program\b)")
_LIMIT = re.compile(r"(?<=\bvmem_limit_bytes=)\d+\b")


def kernel_text(source):
    """A module's text without its configuration and estimates: what decides what a TPU runs.

    How jax's transformations see its calls is left out too: a TPU runs the same.

    Whatever is found out of a kernel, by simulation, compiling or measuring, is kept by this text:
    it holds while only estimates change. The VMEM that kernels ask for follows an estimate too;
    all of the chip's stands in its place. Whether the TPU compiler takes a kernel hangs on
    `vmem_limits` as well.
    """
    for told in _TOLD:
        source = told.sub("", source)
    source = _CALL.sub(lambda call: _CALLED[call[0]], source)
    source = _SIMULATE.sub(lambda _: _SIMULATOR, _CALLS.sub("", source))
    source = _WARNED.sub(_warning, _TOLD_VERSIONS.sub(_VERSIONS, source))
    return with_all_vmem(source)


def _warning(found):
    """How a module that was tested with `_VERSIONS` warns of others."""
    text = f'"{found[1]}: tested with jax {_VERSIONS}"'
    forms = (
        f"        warnings.warn({text}, stacklevel=2)",
        f"        warnings.warn(\n            {text}, stacklevel=2\n        )",
        f"        warnings.warn(\n            {text},\n            stacklevel=2,\n        )",
    )
    fits = [form for form in forms if max(map(len, form.split("\n"))) <= 88]
    test = "    if not (0, 10, 2) <= jax.__version_info__ < (0, 11):\n"
    return test + (*fits, forms[-1])[0]


def with_all_vmem(source):
    """A module's text where each kernel asks for all the VMEM of the module's chip, if known.

    So XLA keeps nothing beside a kernel in VMEM: its arrays come from HBM.
    """
    target = _TARGET.search(source)
    size = chips.VMEM_BYTES.get(target[1]) if target else None
    return _LIMIT.sub(str(size), source) if size else source


def vmem_limits(source):
    """The bytes of VMEM that a module's kernels ask for: a list of int, in order."""
    return [int(size) for size in _LIMIT.findall(source)]


def read_text(path):
    """Text of the file `path`, or of standard input for "-". Raises FileError."""
    try:
        if str(path) == "-":
            return sys.stdin.buffer.read().decode("utf-8")
        with open(path, "rb") as file:
            return file.read().decode("utf-8")
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise FileError(f"cannot read {path}: not UTF-8 text (byte {error.start})") from error


def read_module(path):
    """The `Module` in the file `path`, or on standard input for "-"."""
    return Module(read_text(path), filename="<stdin>" if str(path) == "-" else str(path))


class KernelModule(types.ModuleType):
    """A loaded kernel module; calling it calls the kernel."""

    def __call__(self, *inputs, **kwargs):
        return getattr(self, self.KERNEL_INFO["name"])(*inputs, **kwargs)


class Module:
    """A kernel module as text, with what the compiler said of it.

    Attributes:
      source: the Python text.
      filename: where it came from, for messages; given as None, it is the kernel's name with .py.
      plan: the kernel plan as a dict, or None if it is not known; given as a dict or as JSON text.
      diagnostics: list of dicts: the compiler's warnings and notes.
      report: the compiler's report for people, or "".
      kernel: the kernels as text (docs/kernel.md), or "".
    """

    def __init__(
        self, source, filename="<pallasc>", plan=None, diagnostics=(), report="", kernel=""
    ):
        self.source = source
        self._filename = filename
        self._plan = plan
        self.diagnostics = list(diagnostics)
        self.report = report
        self.kernel = kernel
        self._info = None
        self._loaded = None

    def __repr__(self):
        return f"<pallasc.Module {self.filename}>"

    @property
    def filename(self):
        """Where it came from, for messages."""
        if self._filename is None:
            self._filename = f"{self.info['name']}.py"
        return self._filename

    @property
    def plan(self):
        """The kernel plan as a dict, or None if it is not known."""
        if isinstance(self._plan, str):
            self._plan = json.loads(self._plan)
        return self._plan

    @property
    def info(self):
        """The module's KERNEL_INFO, read from the text. Raises ModuleError; runs nothing."""
        if self._info is None:
            self._info = parse_info(self.source, self._filename or "<pallasc>")
        return self._info

    def with_all_vmem(self):
        """The module that asks for all of the chip's VMEM, so that arrays come from HBM.

        For comparing what the TPU compiler makes of a kernel with what is predicted: XLA is told
        to leave none of VMEM to arrays.
        """
        return Module(with_all_vmem(self.source), self._filename, self._plan, self.diagnostics)

    def sized(self, sizes=None):
        """A module of one size for each of those that this one has, a list of `Module`.

        Args:
          sizes: {name: int}: only those of these sizes. Raises UsageError if there are none.
        """
        variants = self.info.get("variants", [self.info])
        known = [variant.get("sizes", {}) for variant in variants]
        fit = [index for index, has in enumerate(known) if (sizes or {}).items() <= has.items()]
        if not fit:
            asked = " ".join(f"--size {name}={size}" for name, size in sizes.items())
            text = "; ".join(", ".join(f"{n}={s}" for n, s in has.items()) for has in known)
            has = f"its sizes are {text}" if text else "it names no sizes"
            raise UsageError(f"{self.filename}: no kernel for {asked}: {has}")
        return [self._variant(index) for index in fit] if "variants" in self.info else [self]

    def _variant(self, index):
        """The module whose function is that of one of its sizes: its text, another KERNEL_INFO."""
        common = {key: self.info[key] for key in ("compiler", "jax") if key in self.info}
        info = {**self.info["variants"][index], **common}
        text = f"{self.source}\n\nKERNEL_INFO = {info!r}\n"
        return Module(text, self._filename, diagnostics=self.diagnostics)

    def named(self, filename):
        """The same module under another name for messages, and in tracebacks of its code."""
        parts = (self._plan, self.diagnostics, self.report, self.kernel)
        return Module(self.source, filename, *parts)

    def load(self):
        """The module, executed once: `load()(*inputs)` calls the kernel. Raises ModuleError.

        The Python module object has the kernel under its name, and KERNEL_INFO.
        """
        if self._loaded is None:
            self._loaded = _execute(self.source, self.filename, self.info["name"])
        return self._loaded

    def save(self, path):
        """Writes the text to `path`. Raises FileError."""
        write_file(path, self.source)


def parse_info(source, filename):
    """KERNEL_INFO of a module's text, checked for the keys that everything relies on."""
    import ast

    if not source.strip():
        raise ModuleError(f"{filename}: empty: no kernel module to read")
    if _NOT_COMPILED.match(source):
        cure = f"compile it first: pallasc {filename} -o KERNEL.py"
        raise ModuleError(f"{filename}: a graph or kernel text, not a module: {cure}")
    try:
        with PARSING:
            tree = ast.parse(source, filename)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        place = f"{filename}:{getattr(error, 'lineno', None) or 1}"
        raise ModuleError(f"{place}: not Python: {getattr(error, 'msg', error)}") from None
    info = _info_literal(tree, filename)
    missing = [key for key in INFO_KEYS if key not in info]
    if missing:
        raise ModuleError(f"{filename}: KERNEL_INFO has no {', '.join(missing)}")
    for key in ("inputs", "outputs", "scalars"):
        for entry in info.get(key, ()):
            needed = ("name", "dtype") if key == "scalars" else ("name", "dtype", "shape")
            if not (isinstance(entry, dict) and all(field in entry for field in needed)):
                raise ModuleError(f"{filename}: KERNEL_INFO[{key!r}] is malformed")
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    if info["name"] not in functions:
        raise ModuleError(f"{filename}: KERNEL_INFO names {info['name']!r}, which is not defined")
    return info


def _info_literal(tree, filename):
    import ast

    for node in reversed(tree.body):  # the last one is what the module has in the end
        if not isinstance(node, ast.Assign):
            continue
        if [getattr(target, "id", None) for target in node.targets] != ["KERNEL_INFO"]:
            continue
        try:
            info = ast.literal_eval(node.value)
        except ValueError:
            break
        if isinstance(info, dict):
            return info
    raise ModuleError(f"{filename}: not a pallasc module: no KERNEL_INFO dict")


def _execute(source, filename, name):
    module = KernelModule(f"pallasc_kernel_{name}")
    module.__file__ = filename
    # Kernel errors quote the source line even where there is no file.
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    try:
        exec(compile(source, filename, "exec"), module.__dict__)
    except ImportError as error:
        raise ModuleError(f"{filename}: does not load: {error}") from error
    except Exception as error:
        raise ModuleError(f"{filename}: does not load: {type(error).__name__}: {error}") from error
    return module
