"""`pallasc.compile`: the compiler as a shared library, through ctypes.

The declarations below mirror include/pallasc/pallasc.h; nothing else in the package knows of them.
"""

import ctypes
import functools
import json
import os
import sys
import threading
from collections.abc import Mapping
from typing import Any

from .errors import CompileError, FileError
from .module import Module, read_text

ABI_VERSION = 1
OK, REFUSED, USAGE, FAILED = range(4)
EMIT_SOURCE, EMIT_PLAN, EMIT_REPORT, EMIT_GRAPH, EMIT_KERNEL, EMIT_PAGE = 1, 2, 4, 8, 16, 32
TEXTS = ("source", "plan", "report", "graph", "kernel", "page", "diagnostics")
_PACKAGE = os.path.dirname(os.path.realpath(__file__))


_WISHES = ("residuals", "cotangents", "gradients", "returns", "nondiff")
_TEXTS = ctypes.POINTER(ctypes.c_char_p)


class _Pairing(ctypes.Structure):
    """pallasc_pairing."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("backwards", ctypes.POINTER(ctypes.c_void_p)),
        ("backward_configs", _TEXTS),
        ("backward_count", ctypes.c_size_t),
        *(
            field
            for wish in _WISHES
            for field in ((wish, _TEXTS), (f"{wish.removesuffix('s')}_count", ctypes.c_size_t))
        ),
    )


class _Options(ctypes.Structure):
    """pallasc_options."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("emit", ctypes.c_uint),
        ("target", ctypes.c_char_p),
        ("config_json", ctypes.c_char_p),
        ("sets", ctypes.POINTER(ctypes.c_char_p)),
        ("set_count", ctypes.c_size_t),
        ("rewrites", ctypes.c_char_p),
        ("adapt", ctypes.c_int),
        ("vmem_bytes", ctypes.c_longlong),
        ("vmem_margin", ctypes.c_double),
        ("found", ctypes.c_char_p),
        ("pairing", ctypes.POINTER(_Pairing)),
        ("sizes", ctypes.POINTER(ctypes.c_char_p)),
        ("size_count", ctypes.c_size_t),
        ("mesh", ctypes.c_char_p),
        ("shard", ctypes.c_char_p),
        ("gather", ctypes.c_char_p),
        ("scatter", ctypes.c_char_p),
        ("ring", ctypes.c_char_p),
        ("debug_prints", ctypes.POINTER(ctypes.c_char_p)),
        ("debug_print_count", ctypes.c_size_t),
        ("named_scopes", ctypes.c_int),
        ("passes", ctypes.c_char_p),
    )


def _prototypes():
    handle, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    length, options = ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(_Options)
    yield "version", text, []
    yield "abi_version", ctypes.c_int, []
    yield "target_name", text, [size]
    yield "context_new", handle, []
    yield "context_free", None, [handle]
    yield "graph_load", handle, [handle, text, size, text]
    yield "graph_status", ctypes.c_int, [handle]
    yield "graph_free", None, [handle]
    yield "graph_compile", handle, [handle, options]
    yield "infer", handle, [handle, text, size]
    yield "module_page", handle, [handle, text, text, text, text]
    yield "result_status", ctypes.c_int, [handle]
    yield "result_free", None, [handle]
    for name in TEXTS:
        # Not c_char_p: the length counts, not the first NUL.
        yield f"result_{name}", ctypes.c_void_p, [handle, length]


class Library:
    """A loaded libpallasc. Raises FileError if `path` is not one that this package can use."""

    def __init__(self, path):
        self.path = str(path)
        try:
            self._dll = ctypes.CDLL(self.path)
            for name, result, arguments in _prototypes():
                function = getattr(self._dll, f"pallasc_{name}")
                function.restype, function.argtypes = result, arguments
        except (OSError, AttributeError) as error:
            raise FileError(f"cannot load {self.path}: {error}") from error
        abi = self._dll.pallasc_abi_version()
        if abi != ABI_VERSION:
            raise FileError(f"{self.path} has ABI {abi}, this package needs {ABI_VERSION}: rebuild")

    @property
    def version(self):
        """The library's version, such as "0.1.0"."""
        return self._dll.pallasc_version().decode()

    def targets(self):
        """Names of the built-in targets, in order."""
        names = []
        while (name := self._dll.pallasc_target_name(len(names))) is not None:
            names.append(name.decode())
        return names


class Graph:
    """A graph that the library has read once, to be compiled under many configurations.

    Each graph has a context of its own, so that graphs may be used by different threads; calls on
    one graph wait for each other.
    """

    def __init__(self, text, name="<graph>", library=None):
        self._dll = (library or find_library())._dll
        self._lock = threading.Lock()
        self._graph = None
        self._context = self._dll.pallasc_context_new()
        data = text.encode()
        if self._context:
            self._graph = self._dll.pallasc_graph_load(
                self._context, data, len(data), name.encode("utf-8", "replace")
            )

    def __del__(self):
        if getattr(self, "_graph", None):
            self._dll.pallasc_graph_free(self._graph)
        if getattr(self, "_context", None):
            self._dll.pallasc_context_free(self._context)

    def compile(
        self,
        config=None,
        target="v6e",
        sets=(),
        emit=EMIT_SOURCE | EMIT_PLAN,
        rewrites=None,
        adapt=False,
        vmem=None,
        vmem_margin=0,
        found=None,
        pairing=None,
        sizes=(),
        mesh=None,
        shard=None,
        gather=None,
        scatter=None,
        ring=None,
        debug_print=(),
        named_scopes=False,
        passes=None,
    ):
        """Compiles; gives {"status"} and TEXTS.

        Args:
          config: JSON text of a configuration over the graph's own, or None.
          target: a chip's name, or the JSON text of a target.
          sets: strings KEY=VALUE, over `config`.
          emit: EMIT_ values or'ed.
          rewrites: names of those to run on kernels, with commas between; None: all.
          adapt: the nearest configuration that is accepted, where this one is refused.
          vmem: bytes of VMEM that kernels may take; None: all that the chip has.
          vmem_margin: percent of that which a kernel must leave free by estimate; below 0: may be
            over by.
          found: JSON text of what tuning or profiling found, which the page shows too.
          pairing: a `Pairing`: the graph is its forward, and the source is of all its graphs.
          sizes: strings NAME=SIZE, over the graph's own. The text is not parsed again.
          mesh: "data=2,model=4", a mesh that the kernel is split over; None: none.
          shard: "tile_m=data", what its axes cut; None: chosen.
          gather: "x=model", inputs whose parts travel round a ring of an axis's devices; None.
          scatter: "out=model", sums over an axis that are left in parts along it; None.
          ring: "wrapper", "kernel" or "auto", what moves them; None: the wrapper.
          debug_print: names of nodes whose values kernels print while they run; NAME:all whole.
          named_scopes: the statements of each source line stand in a scope of its name.
          passes: names of those to run, with commas between; None: all.
        """
        items, named, printed = _strings(sets), _strings(sizes), _strings(debug_print)
        options = _Options(
            size=ctypes.sizeof(_Options),
            emit=emit,
            target=_no_nul(target, "target"),
            config_json=_no_nul(config, "config"),
            sets=ctypes.cast(items, ctypes.POINTER(ctypes.c_char_p)),
            set_count=len(sets),
            rewrites=_no_nul(rewrites, "rewrites"),
            adapt=adapt,
            vmem_bytes=vmem or 0,
            vmem_margin=vmem_margin,
            found=_no_nul(found, "found"),
            sizes=ctypes.cast(named, ctypes.POINTER(ctypes.c_char_p)),
            size_count=len(sizes),
            mesh=_no_nul(mesh, "mesh"),
            shard=_no_nul(shard, "shard"),
            gather=_no_nul(gather, "gather"),
            scatter=_no_nul(scatter, "scatter"),
            ring=_no_nul(ring, "ring"),
            debug_prints=ctypes.cast(printed, ctypes.POINTER(ctypes.c_char_p)),
            debug_print_count=len(debug_print),
            named_scopes=named_scopes,
            passes=_no_nul(passes, "passes"),
        )
        if pairing:
            options.pairing = ctypes.pointer(pairing.structure())
        with self._lock:
            result = self._dll.pallasc_graph_compile(self._graph, ctypes.byref(options))
        return _answer(self._dll, result)


class Pairing:
    """Backward graphs of a forward.

    Args:
      backwards: `Graph`s; they are only read.
      configs: of each the JSON text of a configuration over its own, or None.
      wishes: {"residuals", "cotangents", "gradients": "BACKWARD=FORWARD", ...} and {"returns",
        "nondiff": names}, lists of strings, as the options of those names.
    """

    def __init__(self, backwards, configs, wishes):
        self._backwards = list(backwards)
        self._configs = [_no_nul(config, "config") for config in configs]
        self._wishes = {
            key: [_no_nul(word, key) for word in wishes.get(key, ())] for key in _WISHES
        }

    def structure(self):
        """pallasc_pairing; it lives as long as this does."""
        count = len(self._backwards)
        handles = (ctypes.c_void_p * count)(*(graph._graph for graph in self._backwards))
        fields = {
            "size": ctypes.sizeof(_Pairing),
            "backwards": ctypes.cast(handles, ctypes.POINTER(ctypes.c_void_p)),
            "backward_configs": _texts(self._configs),
            "backward_count": count,
        }
        for key, words in self._wishes.items():
            fields |= {key: _texts(words), f"{key.removesuffix('s')}_count": len(words)}
        return _Pairing(**fields)


def _texts(items):
    return ctypes.cast((ctypes.c_char_p * len(items))(*items), _TEXTS)


def _strings(texts):
    """A C array of them."""
    return (ctypes.c_char_p * len(texts))(*(text.encode() for text in texts))


def _answer(dll, result):
    """{"status"} and TEXTS of a result, which is freed."""

    def text(name):
        length = ctypes.c_size_t()
        address = getattr(dll, f"pallasc_result_{name}")(result, ctypes.byref(length))
        return ctypes.string_at(address, length.value).decode() if address else ""

    try:
        return {name: text(name) for name in TEXTS} | {"status": dll.pallasc_result_status(result)}
    finally:
        dll.pallasc_result_free(result)


class Inference:
    """The library's rules for types, one node at a time."""

    def __init__(self, library: Library | None = None) -> None:
        self._dll = (library or find_library())._dll
        self._context = self._dll.pallasc_context_new()

    def __del__(self):
        if getattr(self, "_context", None):
            self._dll.pallasc_context_free(self._context)

    def infer(self, document: Mapping[str, Any]) -> Any:
        """What `meta` is of the last node before a document's last output; nodes need none.

        Raises CompileError with what the rules say.
        """
        data = json.dumps(document).encode()
        answer = _answer(self._dll, self._dll.pallasc_infer(self._context, data, len(data)))
        if answer["status"] != OK:
            diagnostics = parse_diagnostics(answer["diagnostics"])
            raise CompileError(format_diagnostics(diagnostics), diagnostics, answer["status"])
        return json.loads(answer["graph"])


def module_page(name, target, python, found, library=None):
    """The page (docs/page.md) of a Python module's text, with what was found: JSON text.

    Raises CompileError.
    """
    dll = (library or find_library())._dll
    context = dll.pallasc_context_new()
    texts = [_no_nul(text, "page") for text in (name, target, python, found)]
    try:
        answer = _answer(dll, dll.pallasc_module_page(context, *texts))
    finally:
        dll.pallasc_context_free(context)
    if answer["status"] != OK:
        raise CompileError(format_diagnostics(parse_diagnostics(answer["diagnostics"])))
    return answer["page"]


def _no_nul(text, what):
    if text is None:
        return None
    if "\0" in text:
        raise CompileError(f"{what}: holds a NUL character", exit_status=USAGE)
    return text.encode()


def library_paths():
    """Where libpallasc is looked for, in order."""
    if path := os.environ.get("PALLASC_LIBRARY"):
        return [path]
    suffix = {"darwin": "dylib", "win32": "dll"}.get(sys.platform, "so")
    name = f"libpallasc.{suffix}"
    return [
        os.path.join(_PACKAGE, name),
        os.path.join(os.path.dirname(os.path.dirname(_PACKAGE)), "build", name),
    ]


@functools.cache
def _load_library(path):
    return Library(path)


def find_library():
    """The `Library`: $PALLASC_LIBRARY, beside this package, or build/ of the source tree."""
    paths = library_paths()
    for path in paths:
        if os.path.exists(path):
            return _load_library(path)
    places = " or ".join(paths)
    raise FileError(f"no libpallasc at {places}: run `make`, or set PALLASC_LIBRARY")


def built(graph):
    """The document of a `build.Graph`; what else a graph is given as stays as it is."""
    return graph.document() if callable(getattr(graph, "document", None)) else graph


def graph_text(graph):
    """(text, name for messages) of a graph given as dict, text, path, or `build.Graph`."""
    graph = built(graph)
    if isinstance(graph, dict):
        return _dump(graph, "graph"), "<graph>"
    if isinstance(graph, str) and graph.lstrip().startswith(("{", "program ")):
        return graph, "<graph>"
    if isinstance(graph, str | os.PathLike):
        return read_text(graph), "<stdin>" if str(graph) == "-" else str(graph)
    told = type(graph).__name__
    raise TypeError(f"a graph is a dict, a build.Graph, JSON text or a path, not {told}")


def config_text(config):
    """JSON text of a configuration given as dict, JSON text, path, or None."""
    if config is None or isinstance(config, dict):
        return config if config is None else _dump(config, "config")
    return graph_text(config)[0]


def size_texts(sizes):
    """Strings NAME=SIZE of {name: size}, or of None."""
    return [f"{name}={size}" for name, size in (sizes or {}).items()]


def shard_text(shard):
    """Gives "tile_m=data+model" for {"tile_m": ("data", "model")}; None of nothing."""

    def axes(of):
        return of if isinstance(of, str) else "+".join(of)

    return ",".join(f"{block}={axes(of)}" for block, of in shard.items()) if shard else None


def shard(graph, mesh_axes, blocks=None, **options):
    """Compiles a graph to the kernel of one device of a mesh: `compile` with `mesh` and `shard`.

    Args:
      graph: as `compile` takes it.
      mesh_axes: {"data": 2, "model": 4}: devices along each axis.
      blocks: {"tile_m": "data"}: what axes cut; those that it does not name are chosen.
      options: further arguments of `compile`, `gather`, `scatter` and `ring` among them.

    Returns:
      A `Module`, whose `NAME_sharded(mesh)` gives a function of whole arrays.
    """
    return compile(graph, mesh=mesh_axes, shard=blocks, **options)


def _dump(value, what):
    try:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise CompileError(f"{what}: not JSON: {error}", exit_status=USAGE) from None


def target_text(target):
    """A target for the library: a chip's name as it is, the text of a .json file."""
    if isinstance(target, dict):
        return _dump(target, "target")
    target = str(target)
    is_file = target.endswith(".json") and not target.lstrip().startswith("{")
    return read_text(target) if is_file else target


def compile(
    graph,
    config=None,
    target="v6e",
    *,
    sizes=None,
    sets=(),
    adapt=False,
    vmem=None,
    vmem_margin=0,
    mesh=None,
    shard=None,
    gather=None,
    scatter=None,
    ring=None,
    debug_print=(),
    named_scopes=False,
    library=None,
    emit=EMIT_SOURCE | EMIT_PLAN | EMIT_REPORT | EMIT_KERNEL,
):
    """Compiles a graph, or kernel text, to a kernel module.

    Args:
      graph: a dict, a `build.Graph`, JSON text, kernel text (docs/kernel.md), the path of a file of
        either, or a `Graph` that was read before.
      config: a configuration over the graph's own: a dict, JSON text, a path, or None.
      target: a chip's name ("v4", "v5e", "v5p", "v6e", "v7x"), a dict, or a path ending in .json.
      sizes: named sizes over the graph's own, {"S": 4096}; or None.
      sets: strings KEY=VALUE as for --set, over `config`.
      adapt: the nearest configuration that is accepted, where this one is refused; notes in
        `.diagnostics` say what was changed and why.
      vmem: bytes of VMEM that kernels may take; None: all that the chip has.
      vmem_margin: percent of that which a kernel must leave free by estimate; below 0: may be
        over by, where the TPU compiler shall decide.
      mesh: {"data": 2, "model": 4}, axes of a mesh that the kernel is split over
        (docs/sharding.md); None: none.
      shard: {"tile_m": "data"}, or several axes, {"tile_m": ("data", "model")}: what axes cut.
        Those that it does not name are chosen.
      gather: {"x": "model"}: inputs of which each device has a part along an axis, and the parts
        travel round the ring of its devices while kernels run.
      scatter: {"out": "model"}: outputs, sums over an axis, of which each device gets a part.
      ring: what moves them: the "wrapper", between launches (None too), the "kernel", by copies to
        other devices, or "auto": the kernel where it can. "kernel:bfloat16": sums travel so.
      debug_print: names of nodes whose values the kernel prints while it runs (docs/jax.md):
        "m_new" what a tile is like, "m_new:all" all of it.
      named_scopes: the kernel's statements of each line of the graph's source stand in a
        `jax.named_scope` of its name, which profiles show (docs/jax.md).
      library: a `Library`; by default the one that is found.
      emit: the texts that the module has, EMIT_ values or'ed, the source among them.

    Returns:
      A `Module`: `.source`, `.plan`, `.kernel`, `.info`, `.load()`, `.diagnostics`.

    Raises:
      CompileError: the graph or configuration is refused; its text is what the command prints.
      FileError: a file cannot be read, or there is no libpallasc.
    """
    loaded = graph if isinstance(graph, Graph) else Graph(*graph_text(graph), library)
    answer = loaded.compile(
        config_text(config),
        target_text(target),
        list(sets),
        emit,
        adapt=adapt,
        vmem=vmem,
        vmem_margin=vmem_margin,
        sizes=size_texts(sizes),
        mesh=",".join(f"{axis}={devices}" for axis, devices in mesh.items()) if mesh else None,
        shard=shard_text(shard),
        gather=shard_text(gather),
        scatter=shard_text(scatter),
        ring=ring,
        debug_print=[debug_print] if isinstance(debug_print, str) else list(debug_print),
        named_scopes=named_scopes,
    )
    diagnostics = parse_diagnostics(answer["diagnostics"])
    if answer["status"] != OK:
        message = format_diagnostics(diagnostics) or _no_reason(answer["status"])
        raise CompileError(message, diagnostics, answer["status"])
    return Module(
        answer["source"],
        None,
        answer["plan"] or None,
        diagnostics,
        answer["report"],
        answer["kernel"],
    )


def _no_reason(status):
    return "out of memory" if status == FAILED else "refused, without a reason"


def parse_diagnostics(text):
    """List of dicts of JSON lines."""
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def format_diagnostics(diagnostics):
    """Diagnostics as text, as the command prints them but for the lines of JSON.

    `kernel.py:40: error: ...`, the code of that line and the place in the graph; of what is from no
    program, `graph.json:42:31: error: ...`. Then the hint, and notes on other places.
    """
    lines = []
    for item in diagnostics:
        lines += _with_place(item, item.get("severity", "error"))
        if item.get("hint"):
            lines.append(f"  hint: {item['hint']}")
        for other in item.get("related", ()):
            lines += _with_place(other, "note")
    return "\n".join(lines)


def _with_place(item, kind):
    """The lines that say what and where, the program's line first."""
    place = ":".join(str(item[key]) for key in ("file", "line", "column") if item.get(key))
    loc = item.get("loc") or {}
    first = ":".join(str(loc[key]) for key in ("file", "line") if loc.get(key)) or place
    lines = [": ".join([*([first] if first else []), kind, item.get("message", "")])]
    if loc.get("code"):
        lines.append(f"{loc.get('line') or '':>5} | {loc['code']}")
    if loc and place:
        node = f": node '{item['node']}'" if item.get("node") else ""
        lines.append(f"  --> {place}{node}")
    return lines
