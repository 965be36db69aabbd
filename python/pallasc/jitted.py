"""`pallasc.jit`: a graph as a callable, compiled for the sizes of what it is called with.

Docs: docs/jit.md. jax is imported when something is called.
"""

import collections
import functools
import itertools
import json
import linecache
import threading
import time
import typing

from . import chips
from .binding import EMIT_SOURCE, Graph, config_text, graph_text, target_text
from .binding import compile as compile_graph
from .errors import ArgumentError, CompileError, UsageError
from .padding import padding_unproven
from .pairing import vjp
from .reference import expr
from .reference.errors import GraphError

CHIP_WITHOUT_TPU = "v6e"


class CacheInfo(typing.NamedTuple):
    """As that of `functools.lru_cache`."""

    hits: int
    misses: int
    maxsize: int | None
    currsize: int


class Timings(typing.NamedTuple):
    """Seconds of the steps from a graph to a program: `Jitted.timings`.

    Attributes:
      compile: pallasc's own: the graph read and compiled in the library.
      load: the module's text made a Python function.
      trace: jax's: the function traced, kernel included.
      lower: jax's: what was traced lowered to StableHLO, the kernel to Mosaic's MLIR.
      xla: XLA's, the TPU compiler's or that of the simulation; None: there is no TPU.
    """

    compile: float
    load: float
    trace: float
    lower: float
    xla: float | None


def jit(
    graph,
    config=None,
    target=None,
    *,
    sizes=None,
    buckets=None,
    pad=None,
    interpret=False,
    maxsize=128,
    gradients=False,
    **options,
):
    """A graph as a callable, which compiles it in process for the sizes of its arguments.

    Args:
      graph: a dict, JSON text or a path of a document; its `sizes` are read from the arguments.
      config: a configuration over the graph's own: a dict, JSON text, a path, or a function of the
        sizes (a dict) that gives one of these; or None.
      target: a chip's name, a dict or a path ending in .json; None: the chip of the TPU that is
        there, v6e where there is none.
      sizes: values of sizes that no argument's shape says.
      buckets: {size: [values]} or {size: step}: compiles for the next larger value, or multiple of
        step; arguments are padded and results cut. Refused where the padding may change results.
      pad: {argument: value} to pad with, by default 0. Given for every argument that is padded, it
        says that results do not depend on the padding where the compiler cannot prove it.
      interpret: simulates: True, or pltpu.InterpretParams; also an argument of each call.
      maxsize: modules that are kept, the least recently used goes first; None: all.
      gradients: jax differentiates what is given: each module is a forward and the backward that
        is derived of it, as by `pallasc.vjp(graph)`. Not with buckets.
      options: of `pallasc.compile`: `sets`, `adapt`, `vmem`, `vmem_margin`, `library`; with
        `gradients` of `pallasc.vjp`: `returns`, `nondiff`, `backward_config` and the last four.

    Returns:
      A `Jitted`.

    Raises:
      CompileError: the graph cannot be called so: it is no document, a size is in no shape, or
        padding is not known to be right.
      FileError: a file cannot be read.
    """
    text, name = graph_text(graph)
    document = _document(text, name)
    if gradients and buckets:
        raise UsageError("jit: padding is not known to leave gradients as they are: no buckets")
    loaded = document if gradients else Graph(text, name, options.pop("library", None))
    given = (config, target, sizes, buckets, pad, interpret, maxsize, options)
    return Jitted(document, loaded, *given)


def _document(text, name):
    """The JSON object of a document's text."""
    if text.lstrip().startswith("program "):
        message = f"{name}: kernel text has the sizes that it was written for: pallasc.compile it"
        raise CompileError(message, exit_status=UsageError.exit_status)
    try:
        document = json.loads(text)
    except ValueError as error:
        raise CompileError(f"{name}: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise CompileError(f"{name}: no document: a JSON object is due")
    return document


class _Parameter(typing.NamedTuple):
    """An argument: a tensor, or a run-time scalar (shape None: a number, or an array of it)."""

    name: str
    dtype: str
    shape: list | None


class _Entry:
    """What is compiled for one key, or why there is nothing; `lock` is held while it is made.

    `kernel` is what is called, `module` the `Module` with all its texts, for who asks for it.
    """

    def __init__(self):
        self.lock = threading.Lock()
        self.kernel = self.module = self.error = None
        self.filename = None

    def is_filled(self, part):
        return self.error is not None or getattr(self, part) is not None


class Jitted:
    """A graph that compiles itself for what it is called with. Made by `jit`.

    Calls take what the module takes, in its order or by name. They may come from many threads, and
    from inside of `jax.jit` and what else traces.
    """

    def __init__(
        self, document, graph, config, target, sizes, buckets, pad, interpret, maxsize, options
    ):
        self.__name__ = str(document.get("name", "graph"))
        self.__doc__ = f"{self.__name__}, compiled by pallasc for the sizes of its arguments."
        self._graph, self._options = graph, options
        self._config = config if callable(config) else config_text(config)
        self._target = None if target is None else target_text(target)
        self._interpret = interpret
        try:
            self._parameters = _parameters(document)
            self._results = _results(document)
            self._names = list(document.get("sizes") or {})
            self._given = self._given_checked(document, sizes or {})
            self._pads = self._pads_checked(pad or {})
            self._buckets = self._buckets_checked(buckets or {}, document)
        except (KeyError, TypeError, AttributeError, GraphError) as error:
            raise CompileError(f"{self.__name__}: malformed document: {error}") from None
        self._maxsize = maxsize
        self._lock = threading.Lock()
        self._cache = collections.OrderedDict()
        self._hits = self._misses = 0

    def __repr__(self):
        inside = ", ".join(p.name for p in self._parameters)
        return f"<pallasc.jit {self.__name__}({inside})>"

    # ---- what the caller has -----------------------------------------------------------------

    def __call__(self, *args, interpret=None, **named):
        """Calls the kernel. Raises ArgumentError for arguments that do not fit the graph."""
        args = self._in_order(args, named)
        sizes = self._sizes(args)
        simulated = self._interpret if interpret is None else interpret
        chip = self._chip(args)
        if not simulated:
            _tpu_required(self.__name__, args)
        run = self._bucketed(sizes)
        kernel = self._made("kernel", run, chip)
        if run == sizes:
            return kernel(*args, interpret=simulated)
        return self._cut(kernel(*self._padded(args, run), interpret=simulated), sizes)

    def sizes_for(self, *args, **named):
        """The sizes that arguments of these shapes have: a dict."""
        return self._sizes(self._in_order(args, named))

    def module_for(self, *args, **named):
        """The `Module` that a call with these arguments runs; they may be ShapeDtypeStructs."""
        args = self._in_order(args, named)
        return self._made("module", self._bucketed(self._sizes(args)), self._chip(args))

    def lower(self, *args, interpret=None, **named):
        """As `jax.jit(f).lower`: arguments may be ShapeDtypeStructs."""
        import jax

        called = functools.partial(self.__call__, interpret=interpret)
        return jax.jit(called).lower(*self._in_order(args, named))

    def timings(self, *args, interpret=None, **named):
        """`Timings` of compiling for these arguments: all done anew, apart from the cache."""
        import jax

        args = self._in_order(args, named)
        sizes, simulated = self._sizes(args), self._interpret if interpret is None else interpret
        run = self._bucketed(sizes)
        ticks = [time.perf_counter()]

        def tick(result):
            ticks.append(time.perf_counter())
            return result

        module = tick(self._compile(run, self._chip(args), emit=EMIT_SOURCE))
        loaded = tick(module.load())

        def called(*arrays):
            if run == sizes:
                return loaded(*arrays, interpret=simulated)
            return self._cut(loaded(*self._padded(arrays, run), interpret=simulated), sizes)

        traced = tick(jax.jit(called).trace(*args))
        absent = not simulated and _tpu_kind(args) is None
        lowered = tick(traced.lower(lowering_platforms=("tpu",)) if absent else traced.lower())
        if not absent:
            tick(lowered.compile())
        seconds = [after - before for before, after in itertools.pairwise(ticks)]
        return Timings(*seconds, *([None] if absent else []))

    def cache_info(self):
        """Hits, misses, maxsize and currsize of the modules that are kept."""
        with self._lock:
            return CacheInfo(self._hits, self._misses, self._maxsize, len(self._cache))

    def cache_clear(self):
        """Forgets all modules, and what was counted."""
        with self._lock:
            while self._cache:
                _forget(self._cache.popitem()[1])
            self._hits = self._misses = 0

    # ---- arguments and sizes -----------------------------------------------------------------

    def _refuse(self, message):
        raise ArgumentError(f"{self.__name__}: {message}")

    def _in_order(self, args, named):
        """The arguments as the module takes them."""
        names = [parameter.name for parameter in self._parameters]
        rest = names[len(args) :]
        strange = [name for name in named if name not in rest]
        if len(args) > len(names) or len(args) + len(named) != len(names) or strange:
            given = f"{len(args) + len(named)} given"
            twice = [f"'{n}' {'given twice' if n in names else 'is none of them'}" for n in strange]
            told = ", ".join([given, *twice])
            self._refuse(f"it takes {len(names)} arguments ({', '.join(names)}): {told}")
        return [*args, *(named[name] for name in rest)]

    def _sizes(self, args):
        """The sizes that the arguments' shapes say; every dim and dtype is checked."""
        found = dict(self._given)
        pairs = list(zip(self._parameters, args, strict=True))
        for parameter, arg in pairs:
            if parameter.shape is None:
                continue
            shape = self._shape(parameter, arg)
            for at, (dim, size) in enumerate(zip(parameter.shape, shape, strict=True)):
                name = expr.name_of(dim)
                place = f"{parameter.name}.shape[{at}]"
                if name is None:
                    continue
                value, first = found.setdefault(name, (size, place))
                if value != size:
                    self._refuse(f"{place} is {size}, but {name} is {value} by {first}")
        values = {name: value for name, (value, _) in found.items()}
        for parameter, arg in pairs:
            for at, dim in enumerate(parameter.shape or ()):
                if expr.name_of(dim) is None:
                    self._dim_check(parameter, at, arg.shape[at], found)
        return {name: values[name] for name in self._names}

    def _shape(self, parameter, arg):
        """The shape of an array, checked for its dims and dtype."""
        try:
            shape, dtype = arg.shape, str(arg.dtype)
        except AttributeError:
            kind = type(arg).__name__
            self._refuse(f"{parameter.name} is no array but {kind}: jnp.asarray makes one")
        if not all(isinstance(size, int) for size in shape):
            told = (
                f"{parameter.name} has the shape {tuple(shape)}, and a kernel is compiled for ints"
            )
            self._refuse(told)
        if len(shape) != len(parameter.shape):
            wanted = f"[{', '.join(map(str, parameter.shape))}]"
            self._refuse(f"{parameter.name} has {len(shape)} dims, the graph has {wanted}")
        if dtype != parameter.dtype:
            self._refuse(f"{parameter.name} is {dtype}, the graph has {parameter.dtype}")
        return shape

    def _dim_check(self, parameter, at, size, found):
        """Refuses a dim that is not what the graph's int or expression says."""
        dim = parameter.shape[at]
        wanted = expr.evaluate(dim, lambda name: found[name][0])
        if wanted == size:
            return
        told = f"the graph has {dim}"
        if isinstance(dim, str):
            names = sorted(n for n in found if _mentions(dim, n))
            known = ", ".join(f"{n} = {found[n][0]} by {found[n][1]}" for n in names)
            told += f", {wanted} with {known}"
        self._refuse(f"{parameter.name}.shape[{at}] is {size}, {told}")

    def _given_checked(self, document, sizes):
        """{size: (value, where from)} of `sizes` and those that the graph fixes.

        With the arguments' shapes they say all that the graph names.
        """
        fixed = {
            name: (value["fixed"], "the graph")
            for name, value in (document.get("sizes") or {}).items()
            if isinstance(value, dict)
        }
        for name, value in sizes.items():
            if name not in self._names:
                known = ", ".join(self._names) or "none"
                raise CompileError(f"{self.__name__}: no size is '{name}'; it has: {known}")
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise CompileError(f"{self.__name__}: size '{name}' is {value!r}, no int above 0")
        alone = {expr.name_of(dim) for p in self._parameters for dim in p.shape or ()}
        for name in self._names:
            if name not in alone and name not in {*sizes, *fixed}:
                hint = f"say what it is, sizes={{'{name}': ...}}"
                message = f"no argument has a dim that is '{name}' alone: {hint}"
                raise CompileError(f"{self.__name__}: {message}")
        return {name: (value, "sizes=") for name, value in sizes.items()} | fixed

    # ---- buckets -----------------------------------------------------------------------------

    def _pads_checked(self, pad):
        names = [p.name for p in self._parameters if p.shape is not None]
        for name in pad:
            if name not in names:
                told = f"pad: '{name}' is no array of {', '.join(names)}"
                raise CompileError(f"{self.__name__}: {told}")
        return dict(pad)

    def _buckets_checked(self, buckets, document):
        """{size: a step, or values in order}, for which padding is right."""
        checked = {}
        for name, values in buckets.items():
            listed = [values] if isinstance(values, int) else list(values)
            if name not in self._names or name in self._given:
                known = ", ".join(n for n in self._names if n not in self._given) or "none"
                told = f"buckets: '{name}' is no size that arguments have; they have: {known}"
                raise CompileError(f"{self.__name__}: {told}")
            if not listed or not all(type(value) is int and value > 0 for value in listed):
                told = f"buckets: '{name}' has {values!r}, no ints above 0"
                raise CompileError(f"{self.__name__}: {told}")
            checked[name] = values if isinstance(values, int) else sorted(listed)
            self._padding_check(document, name)
        return checked

    def _padding_check(self, document, name):
        """Refuses a bucket whose padding cannot be placed, or may be seen in results."""
        padded = [p.name for p in self._parameters if name in (p.shape or ())]
        reason = padding_unproven(document, name)
        told = []
        for parameter in self._parameters:
            told += [
                f"argument '{parameter.name}' has a dim of {dim}, which has no end to pad"
                for dim in parameter.shape or ()
                if _mentions(dim, name) and dim != name
            ]
        if reason and all(owner in self._pads for owner in padded):
            told += [
                f"result '{owner}' has a dim of {dim}, of which it is not known what to cut"
                for owner, shape in self._results
                for dim in shape
                if _mentions(dim, name) and dim != name
            ]
        elif reason:
            values = ", ".join(f"'{owner}': VALUE" for owner in padded)
            hint = f"if no result depends on it, say what to pad with: pad={{{values}}}"
            told.append(f"what is padded may change results: {reason}\n  hint: {hint}")
        if told:
            raise CompileError(f"{self.__name__}: buckets of '{name}': {told[0]}")

    def _bucketed(self, sizes):
        """The sizes to compile for."""
        if not self._buckets:
            return sizes
        run = dict(sizes)
        for name, values in self._buckets.items():
            if isinstance(values, int):
                run[name] = -(-sizes[name] // values) * values
                continue
            larger = [value for value in values if value >= sizes[name]]
            if not larger:
                self._refuse(f"{name} is {sizes[name]}, the largest bucket is {values[-1]}")
            run[name] = larger[0]
        return run

    def _padded(self, args, run):
        """The arguments, those with a dim of a bucket padded at its end."""
        import jax.numpy as jnp

        padded = []
        for parameter, arg in zip(self._parameters, args, strict=True):
            widths = [
                (0, run[dim] - size if dim in self._buckets else 0)
                for dim, size in zip(parameter.shape or (), getattr(arg, "shape", ()), strict=False)
            ]
            if any(after for _, after in widths):
                arg = jnp.pad(arg, widths, constant_values=self._pads.get(parameter.name, 0))
            padded.append(arg)
        return padded

    def _cut(self, results, sizes):
        """The results without what the padding gave."""
        one = not isinstance(results, tuple | list)
        cut = []
        for result, (_, shape) in zip([results] if one else results, self._results, strict=True):
            for at, dim in enumerate(shape):
                if any(_mentions(dim, name) for name in self._buckets):
                    size = expr.evaluate(dim, sizes.__getitem__)
                    result = result[(slice(None),) * at + (slice(size),)]
            cut.append(result)
        return cut[0] if one else tuple(cut)

    # ---- compiling ---------------------------------------------------------------------------

    def _chip(self, args):
        """The target to compile for."""
        if self._target is not None:
            return self._target
        kind = _tpu_kind(args)
        if kind is None:
            return CHIP_WITHOUT_TPU
        chip = chips.chip_of(kind)
        if chip is None:
            known = ", ".join(chips.KINDS)
            raise UsageError(f"'{kind}' is no chip that is known: target= says which ({known})")
        return chip

    def _made(self, part, sizes, chip):
        """The kernel or the module for sizes and chip, compiled once whoever asks."""
        key = (chip, *sizes.items())
        with self._lock:
            entry = self._cache.get(key)
            if entry is None:
                self._misses += 1
                entry = self._cache[key] = _Entry()
                if self._maxsize is not None and len(self._cache) > max(self._maxsize, 1):
                    _forget(self._cache.popitem(last=False)[1])
            else:
                self._hits += 1
                self._cache.move_to_end(key)
        with entry.lock:
            if not entry.is_filled(part):
                self._fill(entry, part, key, sizes, chip)
        if entry.error:
            raise entry.error.with_traceback(None)
        return getattr(entry, part)

    def _fill(self, entry, part, key, sizes, chip):
        """Compiles an entry; a refusal is kept, what else went wrong is tried again."""
        try:
            if part == "module":
                entry.module = self._compile(sizes, chip)
            else:
                module = self._compile(sizes, chip, emit=EMIT_SOURCE)
                entry.kernel, entry.filename = module.load(), module.filename
        except CompileError as error:
            entry.error = error
        except BaseException:
            with self._lock:
                if self._cache.get(key) is entry:
                    del self._cache[key]
            raise

    def _compile(self, sizes, chip, **asked):
        """The `Module` for sizes and chip, named after them in messages."""
        config = self._config
        if callable(config):
            config = config_text(config(dict(sizes)))
        given = {"sizes": sizes} if sizes else {}
        if isinstance(self._graph, dict):
            module = vjp(self._graph, config=config, target=chip, **given, **self._options)
        else:
            module = compile_graph(self._graph, config, chip, **given, **asked, **self._options)
        chosen = [f"{name}={value}" for name, value in sizes.items()]
        named = chip if chip.isidentifier() else "described"
        return module.named(f"<pallasc {' '.join([self.__name__, *chosen, named])}>")


def _forget(entry):
    """Takes back what a loaded module left in Python's cache of source lines."""
    linecache.cache.pop(entry.filename, None)


def _parameters(document):
    """What the module takes: tensors, then scalars without a value, in order."""
    tensors = [t for t in document["tensors"] if t["role"] in ("input", "inout")]
    scalars = [s for s in document.get("scalars") or () if "value" not in s]
    return [
        *(_Parameter(t["name"], t["dtype"], _dims(t["shape"])) for t in tensors),
        *(_Parameter(s["name"], s["dtype"], None) for s in scalars),
    ]


def _results(document):
    """(name, shape) of what the module gives, in order."""
    shapes = {t["name"]: t["shape"] for t in document["tensors"]}
    written = [t["name"] for t in document["tensors"] if t["role"] in ("output", "inout")]
    returns = document.get("returns") or [{"tensor": name} for name in written]
    return [(r["tensor"], _dims(r.get("shape", shapes[r["tensor"]]))) for r in returns]


def _dims(shape):
    """A shape whose dims that are a size are just its name."""
    return [expr.name_of(dim) or dim for dim in shape]


def _mentions(dim, name):
    return isinstance(dim, str) and name in expr.names(dim)


def _tpu_kind(args):
    """What jax calls the TPU that a call runs on: that of its first array there; None: no TPU."""
    import jax

    for arg in args:
        if isinstance(arg, jax.Array) and not isinstance(arg, jax.core.Tracer):
            device = next(iter(arg.devices()))
            if device.platform == "tpu":
                return device.device_kind
    return _default_tpu_kind()


@functools.cache
def _default_tpu_kind():
    import jax

    return jax.devices()[0].device_kind if jax.default_backend() == "tpu" else None


def _tpu_required(name, args):
    """Refuses a call on arrays where there is no TPU; what is only traced may be for one."""
    import jax

    if any(isinstance(arg, jax.core.Tracer) for arg in args) or _tpu_kind(args) is not None:
        return
    raise UsageError(f"{name}: there is no TPU here: interpret=True simulates one")
