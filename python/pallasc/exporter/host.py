"""Replaying a kernel's host code: which tensor is a view, an allocation or a computed value.

The host code runs once more, on fake tensors, with the device loops cut out and every tensor
operation recorded. What a name meant when a loop began is then known, and how each tensor arose.
"""

import ast
import contextlib
import copy
import dataclasses
import os
import sys
import types

import numpy
import torch
from torch._guards import detect_fake_mode
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from .errors import ExportError

_FACTORIES = {
    "aten.empty": "empty",
    "aten.empty_like": "empty",
    "aten.empty_strided": "empty",
    "aten.empty_permuted": "empty",
    "aten.new_empty": "empty",
    "aten.new_empty_strided": "empty",
    "aten.zeros": 0,
    "aten.zeros_like": 0,
    "aten.new_zeros": 0,
    "aten.ones": 1,
    "aten.ones_like": 1,
    "aten.new_ones": 1,
    "aten.full": "fill_value",
    "aten.full_like": "fill_value",
    "aten.new_full": "fill_value",
}
_RESHAPES = {
    "aten.view",
    "aten._unsafe_view",
    "aten.unsqueeze",
    "aten.squeeze",
    "aten._reshape_alias",
}
_PERMUTES = {"aten.transpose", "aten.t", "aten.permute", "aten.numpy_T"}
_SLICES = {"aten.slice", "aten.select"}
_SPLITS = {"aten.split", "aten.split_with_sizes", "aten.chunk", "aten.tensor_split"}
_JOINS = {"aten.cat", "aten.stack"}
_ALIASES = {"aten.alias", "aten.detach", "aten.lift_fresh"}
_COPIES = {"aten.clone", "aten.contiguous"}
VIEWING = ("reshape", "permute", "slice", "expand", "alias")
# Where the indexed tensor, its dim and the positions stand among the arguments; None: in a list.
SELECTING = {
    "aten.index_select.default": (0, 1, 2),
    "aten.embedding.default": (0, None, 1),
    "aten.index.Tensor": None,
    "aten.index_put_.default": None,
}
# Bits read as another dtype of that size: computed, though torch shares the memory.
BITCAST = "aten.view.dtype"
_FILLS = {"aten.fill_": "value", "aten.zero_": 0}


@dataclasses.dataclass
class Step:
    """How a host tensor arose.

    `kind` is input, empty, reshape, permute, slice, expand, alias, copy or op. `base` is the tensor
    that it came from (None for input and empty), `data` the kind's detail.
    """

    kind: str
    base: object
    data: object
    order: int
    where: str


@dataclasses.dataclass
class Write:
    """A change of `tensor` in place: to what `func` gives of `args`, or to `args[1]` itself."""

    tensor: object
    func: object
    args: list
    named: dict
    order: int
    where: str


@dataclasses.dataclass
class Root:
    """A device loop of the host code: the locals when it began, and its range per block id."""

    names: dict
    begins: list
    ends: list
    steps: list
    line: int
    order: int


class Recorder(TorchDispatchMode):
    """Records every tensor operation as a Step of its result."""

    def __init__(self, where, known):
        super().__init__()
        self.where = where
        self.known = known  # (input, place in its flat memory) -> the int that is there
        self.asked = []  # the places that host code took ints from
        self.steps = {}  # id(tensor) -> Step
        self.writes = []
        self.clock = 0
        self.root_seen = False
        self.read = set()  # ids of the memory that operations read
        self.items = {}  # symbol of an int that host code took from a tensor -> (tensor, when)
        self.kept = []  # the tensors, so that ids stay unique

    def tick(self):
        """Return the next moment: steps, writes and roots are in order."""
        self.clock += 1
        return self.clock

    def step_add(self, tensor, kind, base, data):
        """Note how `tensor` arose."""
        self.kept.append(tensor)
        self.steps[id(tensor)] = Step(kind, base, data, self.tick(), self.where())

    def storage(self, tensor):
        """Return the tensor whose memory `tensor` views."""
        step = self.steps[id(tensor)]
        while step.kind in VIEWING:
            tensor = step.base
            step = self.steps[id(tensor)]
        return tensor

    def __torch_dispatch__(self, func, types_, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        packet = str(func).rsplit(".", 1)[0]
        if packet == "aten.lift_fresh" and args[0].dim() == 0 and id(args[0]) not in self.steps:
            number = getattr(args[0], "constant", None)
            with _disable_current_modes():
                value = (args[0] if number is None else number).item()
            self.step_add(result, "number", None, value)
            return result
        if packet == "aten.lift_fresh" and id(args[0]) not in self.steps:
            raise ExportError(
                "host code makes a tensor of numbers: pass it as an argument", self.where()
            )
        args = [self.number_or(arg) for arg in args]
        if packet in ("aten.index", "aten.index_put_"):
            args[:2] = self.indices_together(*args[:2])
        named = {a.name: v for a, v in zip(func._schema.arguments, args, strict=False)} | kwargs
        if packet in _FILLS:
            self.fill_note(args[0], named.get(_FILLS[packet], 0), func)
        elif packet in _FACTORIES:
            init = _FACTORIES[packet]
            self.step_add(result, "empty", None, named.get(init, init))
        elif func._schema.is_mutable:
            self.write_note(func, args, named)
        elif packet == "aten._local_scalar_dense" and symbolic(result):
            self.read_note(args)
            place = self.place(args[0])
            if place in self.known:
                return self.known[place]
            self.asked.append(place)
            self.items[result.node.expr] = args[0], self.tick()
        elif packet in _SPLITS or packet == "aten.unbind":
            self.parts_note(result, packet, args[0], named.get("dim", 0) % args[0].dim())
        elif packet in _JOINS:
            self.join_note(result, packet, args[0], named.get("dim", 0) % result.dim())
        else:
            for value in _pytree.tree_leaves(result):
                if isinstance(value, torch.Tensor):
                    self.result_note(value, func, packet, args, named)
        return result

    def place(self, tensor):
        """Return (input, place in its flat memory) of a tensor of one element, or None.

        None as well where the kernel may have changed it.
        """
        whole = self.storage(tensor)
        step = self.steps[id(whole)]
        changed = any(self.storage(write.tensor) is whole for write in self.writes)
        if step.kind != "input" or changed or self.root_seen:
            return None
        return step.data, tensor.storage_offset()

    def indices_together(self, base, given):
        """Return a tensor and what indexes it, index tensors of one shape and dims beside another.

        Dims between them come behind, as the result has them.
        """
        tensors = [index for index in given if index is not None]
        if any(index.dtype in (torch.bool, torch.uint8) for index in tensors):
            return base, given  # a mask, which is refused
        shape = torch.broadcast_shapes(*(index.shape for index in tensors))
        tensors = [self.expanded(index, shape) for index in tensors]
        dims = [dim for dim, index in enumerate(given) if index is not None]
        if dims == [*range(dims[0], dims[0] + len(dims))]:
            given = [None] * dims[0] + tensors
            return base, given
        order = dims + [dim for dim in range(base.dim()) if dim not in dims]
        permuted = base.permute(order)
        self.step_add(permuted, "permute", base, order)
        return permuted, tensors

    def expanded(self, tensor, shape):
        """Return a tensor as a shape that it broadcasts to, noting the views."""
        if same_shape(tensor.shape, shape):
            return tensor
        ranked = tensor.reshape([1] * (len(shape) - tensor.dim()) + list(tensor.shape))
        self.step_add(ranked, "reshape", tensor, None)
        wide = ranked.expand(shape)
        self.step_add(wide, "expand", ranked, None)
        return wide

    def number_or(self, arg):
        """Return the number that a tensor made of one is, or the argument as it is."""
        step = self.steps.get(id(arg)) if isinstance(arg, torch.Tensor) else None
        return step.data if step and step.kind == "number" else arg

    def fill_note(self, tensor, value, func):
        """A fill of all of a fresh allocation is its initial value; any other is a write."""
        whole = tensor
        while self.steps[id(whole)].kind == "alias":
            whole = self.steps[id(whole)].base
        step = self.steps[id(whole)]
        fresh = id(whole) not in self.read and not any(
            self.storage(write.tensor) is whole for write in self.writes
        )
        if step.kind == "empty" and fresh and not self.root_seen:
            step.data = value
        else:
            self.write_add(tensor, None, [tensor, value], {})

    def read_note(self, args):
        """Note what memory an operation reads."""
        tensors = [a for a in _pytree.tree_leaves(args) if isinstance(a, torch.Tensor)]
        self.read |= {id(self.storage(arg)) for arg in tensors if id(arg) in self.steps}

    def write_note(self, func, args, named):
        """Note an operation in place: a copy, an `index_put_`, or one that has a pointwise twin."""
        name = str(func)
        if name == "aten.index_add_.default" and named.get("alpha", 1) == 1:
            base, dim, places, value = args
            func, name = torch.ops.aten.index_put_.default, "aten.index_put_.default"
            args, named = [base, [None] * (dim % base.dim()) + [places], value, True], {}
        self.read_note(args[1:])
        if name == "aten.copy_.default":
            self.write_add(args[0], None, list(args[:2]), {})
            return
        if name == "aten.index_put_.default":
            self.put_note(func, list(args), named)
            return
        packet, _, overload = name.removeprefix("aten.").partition(".")
        twin = getattr(getattr(torch.ops.aten, packet.removesuffix("_"), None), overload, None)
        if not packet.endswith("_") or twin is None or not pointwise(twin):
            raise ExportError(f"host code changes a tensor in place ({func})", self.where())
        self.write_add(args[0], twin, list(args), named)

    def put_note(self, func, args, named):
        """Note an `index_put_`; under a mask it is a choice of each element, by place."""
        base, given, value = args[:3]
        dims = [dim for dim, index in enumerate(given) if index is not None]
        masks = [given[dim] for dim in dims]
        if not any(index.dtype == torch.bool for index in masks):
            self.write_add(base, func, args, named)
            return
        number = not isinstance(value, torch.Tensor)
        behind = base.dim() - dims[0] - masks[0].dim()
        if len(masks) > 1 or [*args, False][3] or not (number or value.dim() <= behind):
            told = "host code stores under a mask what depends on how much of it is true"
            raise ExportError(f"{told}: use torch.where", self.where())
        mask = masks[0]
        if behind:
            mask = mask.reshape([*mask.shape, *[1] * behind])
            self.step_add(mask, "reshape", masks[0], None)
        if number:
            self.write_add(base, torch.ops.aten.masked_fill.Scalar, [base, mask, value], {})
        else:
            self.write_add(base, torch.ops.aten.where.self, [mask, value, base], {})

    def write_add(self, tensor, func, args, named):
        """Note a change in place."""
        self.writes.append(Write(tensor, func, args, named, self.tick(), self.where()))

    def result_note(self, value, func, packet, args, named):
        """Note one result of an operation that changes nothing in place."""
        base = args[0] if args and isinstance(args[0], torch.Tensor) else None
        if base is None and pointwise(func):  # 2 ** x
            base = next((arg for arg in args if isinstance(arg, torch.Tensor)), None)
        if not packet_views(packet):
            self.read_note(args)
        if str(func) == BITCAST and value.dtype.itemsize != base.dtype.itemsize:
            told = f"host code views {base.dtype} as {value.dtype}, of another size"
            raise ExportError(f"{told}: pass the view as an argument", self.where())
        if packet in _RESHAPES and str(func) != BITCAST:
            same = same_shape(value.shape, base.shape)
            self.step_add(value, "alias" if same else "reshape", base, None)
        elif packet in _PERMUTES:
            self.step_add(value, "permute", base, permute_dims(packet, base.dim(), named))
        elif packet == "aten.slice":
            self.step_add(value, "slice", base, slice_ranges(base, named))
        elif packet == "aten.select":
            self.select_note(value, base, named["dim"] % base.dim(), named["index"])
        elif packet == "aten.expand":
            self.step_add(value, "expand", base, None)
        elif packet in _ALIASES:
            self.step_add(value, "alias", base, None)
        elif packet in _COPIES:
            self.step_add(value, "copy", base, None)
        else:
            self.step_add(value, "op", base, (func, args, named))

    def select_note(self, value, base, dim, index):
        """Note one position of a dim, which is dropped: a slice, and a view of it."""
        index += base.size(dim) if index < 0 else 0
        ranges = slice_ranges(base, {"dim": dim, "start": index, "end": index + 1})
        kept = base[tuple(slice(*r) for r in ranges)]
        self.step_add(kept, "slice", base, ranges)
        self.step_add(value, "reshape", kept, None)

    def parts_note(self, parts, packet, base, dim):
        """Note the parts that a tensor is split into along a dim, in turn."""
        begin = 0
        for index, part in enumerate(parts):
            if packet == "aten.unbind":
                self.select_note(part, base, dim, index)
                continue
            end = begin + part.size(dim)
            found = slice_ranges(base, {"dim": dim, "start": begin, "end": end})
            self.step_add(part, "slice", base, found)
            begin = end

    def join_note(self, joined, packet, tensors, dim):
        """Note tensors that are joined: a fresh one, to whose parts they are written."""
        self.read_note(tensors)
        self.step_add(joined, "empty", None, "empty")
        begin = 0
        for index, tensor in enumerate(tensors):
            if packet == "aten.stack":
                part = joined.select(dim, index)
                self.select_note(part, joined, dim, index)
            else:
                end = begin + tensor.size(dim)
                part = joined.narrow(dim, begin, end - begin)
                ranges = slice_ranges(joined, {"dim": dim, "start": begin, "end": end})
                self.step_add(part, "slice", joined, ranges)
                begin = end
            if tensor.numel():
                self.write_add(part, None, [part, tensor], {})


def same_shape(one, other):
    """Return whether two shapes are the same whatever the sizes are that they name."""
    pairs = zip(one, other, strict=False)
    return len(one) == len(other) and all(
        a.node.expr == b.node.expr if symbolic(a) and symbolic(b) else not symbolic(a, b) and a == b
        for a, b in pairs
    )


def pointwise(func):
    """Return whether an operation computes each element from those at its place."""
    return torch.Tag.pointwise in func.tags or str(func) in ("aten._to_copy.default", BITCAST)


def selects(func):
    """Return whether an operation picks, or puts, rows of a tensor at positions of another."""
    return str(func) in SELECTING


def fills(func):
    """Return whether an operation counts from a number on, of no tensor."""
    return str(func).startswith("aten.arange.")


def sums_along(func):
    """Return whether an operation computes each element from those before it along a dim."""
    return str(func) in ("aten.cumsum.default", "aten.cumprod.default")


def packet_views(packet):
    """Return whether an operation gives another view of its operand."""
    views = _RESHAPES | _PERMUTES | _SLICES | _ALIASES
    return packet in views or packet == "aten.expand"


def permute_dims(packet, rank, named):
    """Return the permutation that a permuting operation makes."""
    dims = list(range(rank))
    if packet == "aten.permute":
        return [dim % rank for dim in named["dims"]]
    if packet == "aten.transpose":
        a, b = named["dim0"] % rank, named["dim1"] % rank
        dims[a], dims[b] = b, a
        return dims
    return dims[::-1]


def slice_ranges(base, named):
    """Return [start, stop, step] for each dim of `base` under `aten.slice`."""
    ranges = [[0, size, 1] for size in base.shape]
    dim = named.get("dim", 0) % base.dim()
    picked = slice(named.get("start"), named.get("end"), named.get("step", 1))
    ranges[dim] = list(picked.indices(base.size(dim)))
    return ranges


class HostReplay:
    """The host code's outcome: `roots` in order, `results` returned, `recorder.steps`."""

    def __init__(self, trace):
        self.trace = trace
        self.line = trace.source.first
        self.roots = []
        self.symbols = {}  # our symbol -> Helion's, by the name that both know
        self.computed = {}  # our symbol -> what it is, an expression of tunables
        self.mode = FakeTensorMode(shape_env=trace.env.shape_env if trace.named else ShapeEnv())
        self.decided = set()  # symbols of sizes that host code decides by
        self.recorder = Recorder(lambda: trace.source.where(self.line), trace.items)
        self.inputs = {}
        self.results = []  # the tensors among what the host code returns
        self.result = None  # that, with their places instead of the tensors
        self.run()

    def run(self):
        """Run the host code; an error in it is an ExportError at its line."""
        arguments = {name: self.argument_fake(name, v) for name, v in self.trace.arguments.items()}
        function = self.function_build()
        with self.mode, self.recorder, self.decisions_noted():
            try:
                result = function(**arguments)
            except ExportError:
                raise
            except GuardOnDataDependentSymNode as error:
                raise self.undecided() from error
            except Exception as error:
                where = self.trace.source.where(self.line)
                told = next(iter(str(error).splitlines()), "")
                raise ExportError(f"host code: {type(error).__name__}: {told}", where) from error
        self.results = [leaf for leaf in _pytree.tree_leaves(result) if leaf is not None]
        places = iter(range(len(self.results)))
        self.result = _pytree.tree_map(lambda x: None if x is None else next(places), result)

    @contextlib.contextmanager
    def decisions_noted(self):
        """Note which sizes the kernel's own code compares: what it does hangs on their values.

        torch compares sizes as well, where views are made; that decides nothing in the document.
        Sizes that are found to be equal have one symbol from then on.
        """
        decide = torch.SymBool.__bool__
        frameworks = (os.path.dirname(torch.__file__) + os.sep, "<frozen")

        def noted(value):
            caller = sys._getframe(1).f_code.co_filename
            answer = decide(value)
            if not caller.startswith(frameworks):
                self.decided |= self.mode.shape_env.replace(value.node.expr).free_symbols
            return answer

        torch.SymBool.__bool__ = noted
        try:
            yield
        finally:
            torch.SymBool.__bool__ = decide

    def undecided(self):
        """Return the refusal of a size, or a decision, that is taken from what a tensor holds."""
        told = "host code takes the size of a tensor, or a decision, from what a tensor holds"
        return ExportError(f"{told}: {self.items_hint()}", self.trace.source.where(self.line))

    def items_hint(self):
        """Return what to do about a size, or a decision, that is taken from what a tensor holds."""
        asked = [place for place in self.recorder.asked if place]
        hint = "take it from a shape, or pass it as an argument"
        if asked:
            name, flat = asked[-1]
            shape = self.inputs[name].shape
            at = ", ".join(str(place) for place in numpy.unravel_index(flat, tuple(shape)))
            hint = f"say what with items={{'{name}[{at}]': ...}}, or take it from a shape"
        return hint

    def argument_fake(self, name, value):
        """Return an argument as the replay's own fakes, noted as inputs of the function."""
        leaves, spec = _pytree.tree_flatten(value)
        fakes = []
        for index, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor):
                with self.mode:
                    leaf = torch.empty(tuple(leaf.shape), dtype=leaf.dtype)
                label = name if len(leaves) == 1 else f"{name}_{index}"
                self.inputs[label] = leaf
                self.recorder.step_add(leaf, "input", None, label)
            fakes.append(leaf)
        return _pytree.tree_unflatten(fakes, spec)

    def function_build(self):
        """Compile the host code with its device loops replaced by notes of where they begin."""
        fn = self.trace.fn
        tree = ast.fix_missing_locations(
            LoopCutter(fn).visit(copy.deepcopy(self.trace.source.tree))
        )
        definition = tree.body[0]
        definition.decorator_list = []
        definition.returns = None
        for arg in ast.walk(definition.args):
            if isinstance(arg, ast.arg):
                arg.annotation = None
        # What defaults are made of may have been names of a function that has ended.
        definition.args.defaults = []
        definition.args.kw_defaults = [None] * len(definition.args.kwonlyargs)
        scope = dict(fn.__globals__)
        cells = [cell.cell_contents for cell in fn.__closure__ or ()]
        scope.update(zip(fn.__code__.co_freevars, cells, strict=True))
        scope = {name: self.language_value(value) for name, value in scope.items()}
        scope["__pallasc_root__"] = self.root_note
        scope["__pallasc_line__"] = self.line_note
        exec(compile(tree, self.trace.source.path, "exec"), scope)
        function = scope[definition.name]
        function.__defaults__ = tuple(map(self.language_value, fn.__defaults__ or ()))
        kwdefaults = (fn.__kwdefaults__ or {}).items()
        function.__kwdefaults__ = {name: self.language_value(value) for name, value in kwdefaults}
        return function

    def line_note(self, line):
        """Note which line runs next."""
        self.line = line

    def root_note(self, names, line, kind, first, end=None, step=None, block_size=None):
        """Note a device loop: its locals and its range, one entry per dim."""
        self.line = line
        begin, end = (None, first) if end is None else (first, end)
        ends = per_dim(end, None, 1)
        begins = per_dim(begin, 0, len(ends))
        steps = per_dim(step, 1, len(ends)) if kind == "grid" else [None] * len(ends)
        self.symbols_match(names)
        self.recorder.root_seen = True
        self.roots.append(Root(dict(names), begins, ends, steps, line, self.recorder.tick()))

    def language_value(self, value):
        """Return what a global of the kernel's module means when its host code is replayed."""
        import helion
        import helion.language as hl

        if isinstance(value, types.ModuleType) and value in (hl, helion):
            return HostLanguage(value, self)
        replaced = {
            id(hl.specialize): lambda sizes: sizes,
            id(hl.barrier): lambda: None,
            id(hl.register_block_size): lambda *bounds: symbol_new(),
            id(hl.register_tunable): lambda name, fragment: self.symbol_of(name),
            id(helion.cdiv): lambda a, b: self.called("cdiv", lambda a, b: -(-a // b), a, b),
            id(helion.next_power_of_2): lambda n: self.called("next_pow2", power_next, n),
        }
        return replaced.get(id(value), value)

    def called(self, name, function, *args):
        """Return a function of ints, or a symbol for it if one of them is a symbol."""
        of_items = any(self.is_of_items(arg) for arg in args)
        if not symbolic(*args) or (name == "cdiv" and of_items):
            return function(*args)
        texts = [self.text_of(arg) for arg in args]
        return self.symbol_of(None if None in texts else f"{name}({', '.join(texts)})")

    def is_of_items(self, value):
        """Return whether an int is computed of what tensors hold."""
        symbols = value.node.expr.free_symbols if symbolic(value) else ()
        return any(symbol in self.recorder.items for symbol in symbols)

    def symbol_of(self, text):
        """Return a fresh symbol of which the expression is known, None: is not."""
        symbol = symbol_new()
        if text is not None:
            self.computed[symbol.node.expr] = text
        return symbol

    def text_of(self, value):
        """Return an int or a symbol as an expression, or None."""
        return self.computed.get(value.node.expr) if symbolic(value) else str(value)

    def symbols_match(self, names):
        """Learn Helion's symbol for each of ours (block sizes, tunables) that a local holds."""
        types_ = self.trace.host.local_types or {}
        for name, value in names.items():
            theirs = getattr(types_.get(name), "value", None)
            if isinstance(value, torch.SymInt) and isinstance(theirs, torch.SymInt):
                self.symbols[value.node.expr] = theirs._sympy_()


def per_dim(value, default, count):
    """Return a loop bound as a list, one entry per dim: `default` stands for None."""
    values = list(value) if isinstance(value, (tuple, list)) else [value] * count
    return [default if entry is None else entry for entry in values]


class LoopCutter(ast.NodeTransformer):
    """Replaces `for ... in hl.tile(...)` by a note, and notes the line before every statement."""

    def __init__(self, fn):
        self.scope = dict(fn.__globals__)

    def visit_For(self, node):
        """Replace a device loop; leave another loop."""
        kind = self.loop_kind(node.iter)
        if kind is None:
            return self.lined(self.generic_visit(node))
        names = ast.Call(ast.Name("locals", ast.Load()), [], [])
        first = [names, ast.Constant(node.lineno), ast.Constant(kind)]
        note = ast.Name("__pallasc_root__", ast.Load())
        call = ast.Call(note, first + node.iter.args, node.iter.keywords)
        return ast.copy_location(ast.Expr(call), node)

    def loop_kind(self, call):
        """Return 'tile' or 'grid' if `call` makes a device loop, else None."""
        if not isinstance(call, ast.Call):
            return None
        import helion.language as hl

        value = self.named(call.func)
        return {id(hl.tile): "tile", id(hl.grid): "grid"}.get(id(value))

    def named(self, node):
        """Return what a name, or an attribute of one, is in the kernel's module, or None."""
        if isinstance(node, ast.Attribute):
            return getattr(self.named(node.value), node.attr, None)
        return self.scope.get(node.id) if isinstance(node, ast.Name) else None

    def lined(self, node):
        """Return `node` behind a note of its line."""
        note = ast.Name("__pallasc_line__", ast.Load())
        call = ast.Expr(ast.Call(note, [ast.Constant(node.lineno)], []))
        return [ast.copy_location(call, node), node]

    def generic_visit(self, node):
        """Put a note of its line before a simple statement."""
        node = super().generic_visit(node)
        simple = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return, ast.Assert)
        return self.lined(node) if isinstance(node, simple) else node


class HostLanguage:
    """Stands for `helion.language` in host code: sizes are already known, blocks are symbols."""

    def __init__(self, module, replay):
        self._module = module
        self._replay = replay

    def __getattr__(self, name):
        return self._replay.language_value(getattr(self._module, name))


def symbolic(*values):
    """Return whether any of `values` is a symbol."""
    return any(isinstance(value, torch.SymInt | torch.SymFloat) for value in values)


def power_next(n):
    """Return the least power of two that is at least `n`."""
    return 1 << max(0, n - 1).bit_length()


def symbol_new():
    """Return a fresh symbol of the replay, under way."""
    return detect_fake_mode().shape_env.create_unbacked_symint()
