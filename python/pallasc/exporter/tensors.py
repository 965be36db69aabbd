"""The document's tensors, scalars and returns, from the replayed host code."""

import re
import sys

import sympy
import torch
from torch.utils import _pytree

from ..reference.registry import lookup
from .errors import ExportError
from .host import BITCAST, VIEWING, fills, pointwise, selects, sums_along
from .trace import INT32
from .values import INTS_OF_INT32, constant, dtype_name, tensor_dtype

NEVER = float("inf")
# Of these an int64 result is a position, or one of the operand's elements.
PICKING = ("aten.argmax", "aten.argmin", "aten.max", "aten.min", "aten.amax", "aten.amin")
# Of these the low bits of a result are those of its operands.
MODULAR = ("aten.sum", "aten.prod", "aten.add", "aten.sub", "aten.mul", "aten.neg")


class TensorTable:
    """Tensors and scalars by the name that the graphs call them, in the order of their making."""

    def __init__(self, trace, symbols, replay):
        self.trace = trace
        self.symbols = symbols
        self.replay = replay
        self.steps = replay.recorder.steps
        self.tensors = {id(tensor): tensor for tensor in replay.recorder.kept}
        self.entries = {}  # name -> entry of `tensors`
        self.orders = {}  # name -> (arguments, captured tensors, others; when it was made)
        self.kept = []  # captured tensors, so that ids stay unique
        self.paths = {}  # name of a captured tensor -> where it is
        self.captured = {}  # id of a tensor that the kernel captures -> what stands for it
        self.names = {}  # id(tensor) -> name
        self.written = set()  # ids of the tensors to whose memory the kernel stores
        self.host_ops = []  # Steps of pointwise operations that are roots of their own
        self.changes = []  # (tensor of memory, when): stores of the device and of host code
        self.promises = []  # (tensor of memory, from when, until when it may not change, where)
        self.scalars = {}  # name -> entry of `scalars`
        self.shapes = {
            origin.host_str(): tensor.shape
            for tensor, origin in trace.host.tensor_to_origin.items()
            if origin.is_host()
        }
        self.inputs_add()
        self.integers_know()

    # Host values

    def host_value(self, path, root):
        """Return what `path` (a name, or an attribute or item of one) means when a root begins."""
        return self.value_of(path, self.replay.roots[root].names)

    def value_of(self, path, names):
        """Return what `path` means where these names have these values, None: nothing."""
        modules = {found.alias: found.value for found in self.trace.host.global_imports.values()}
        try:
            return eval(path, {"__builtins__": {}}, modules | names)
        except Exception:
            return None

    def integers_know(self):
        """Give every host integer and flag its value: a graph has one size.

        Those of the arguments, and what has a name. A flag is an expression: a symbol equals 1.
        """
        given, fakes = self.trace.arguments.values(), self.trace.bound.fake_args
        for value, fake in zip(given, fakes, strict=True):
            self.argument_know(_pytree.tree_leaves(value), _pytree.tree_leaves(fake))
        for symbol, found in self.symbols.origins.items():
            if not found.origin.is_host() or symbol in self.symbols.blocks:
                continue
            for root in range(len(self.replay.roots)):
                self.named_know(symbol, self.host_value(host_path(found.origin), root))

    def argument_know(self, values, fakes):
        """Note what Helion's symbols for the ints and flags of one argument are."""
        for value, fake in zip(values, fakes, strict=True) if len(values) == len(fakes) else ():
            if isinstance(value, int) and isinstance(fake, torch.SymInt | torch.SymBool):
                for symbol in fake._sympy_().free_symbols:
                    self.symbols.known[symbol] = sympy.Integer(int(value))

    def named_know(self, symbol, value):
        """Note what a symbol of Helion's is; of other expressions, flags alone."""
        if symbol.is_Symbol:
            if isinstance(value, int):
                self.symbols.known[symbol] = sympy.Integer(int(value))
            elif isinstance(value, torch.SymInt) and self.replay.text_of(value):
                self.symbols.configured.setdefault(symbol, self.replay.text_of(value))
        elif isinstance(symbol, sympy.logic.boolalg.Boolean) and isinstance(value, bool):
            self.symbols.known[symbol] = sympy.sympify(value)
            self.symbols.known[sympy.Not(symbol)] = sympy.sympify(not value)

    # Tensors

    def inputs_add(self):
        """Enter the tensors among the arguments, in order."""
        for name, tensor in self.replay.inputs.items():
            self.entry_add(tensor, name, {"role": "input"}, 0)

    def seeds_name(self):
        """Return the name and size of the input of seeds, the last one, entering it if new."""
        count, name = self.trace.host.rng_seed_slot_count, "rng_seeds"
        while name in self.replay.inputs:
            name += "_"
        entry = {"name": name, "role": "input", "dtype": "int32", "shape": [count]}
        self.entries.setdefault(name, entry)
        self.orders.setdefault(name, (0, sys.maxsize))
        return name, count

    def entry_add(self, tensor, wanted, fields, rank=2):
        """Enter a tensor under `wanted`, numbered if taken; return its name."""
        step = self.steps[id(tensor)]
        name, count = wanted, 0
        while name in self.entries or name in self.scalars:
            count += 1
            name = f"{wanted}_{count}"
        what = f"tensor '{name}'"
        narrowed = tensor.dtype == torch.int64 and fields["role"] != "derived"
        dtype = "int32" if narrowed else tensor_dtype(tensor.dtype, what, step.where)
        shape = self.shape(tensor, wanted, what, step.where)
        if narrowed and fields["role"] != "view":
            fields["x_dtype"] = "int64"
            self.init_check(fields.get("init"), what, step.where)
        if narrowed and fields["role"] == "output":
            fields["whole"] = True
        if wanted in self.trace.ranges and fields["role"] == "input":
            fields["x_range"] = list(self.trace.ranges[wanted])
        items = [[at, n] for (of, at), n in sorted(self.trace.items.items()) if of == wanted]
        if items and fields["role"] == "input":
            fields["x_items"] = items
        entry = {"name": name, "role": fields.pop("role"), "dtype": dtype, "shape": shape}
        self.entries[name] = entry | fields
        self.orders[name] = (rank, step.order)
        self.names[id(tensor)] = name
        return name

    def init_check(self, value, what, where):
        """Refuse an initial value of int64 that is none of int32."""
        if isinstance(value, int) and not INT32[0] <= value <= INT32[1]:
            raise ExportError(f"{what} is filled with {value}, which is no int32", where)

    def stands_for_int64(self, name):
        """Return whether a tensor in memory is int64 to the kernel."""
        entry = self.entries[name]
        while entry["role"] == "view":
            entry = self.entries[entry["of"]]
        return entry.get("x_dtype") == "int64"

    def shape(self, tensor, path, what, where):
        """Return a tensor's shape; Helion's own where it knows the name, for its block symbols."""
        ours = [
            self.symbols_translate(size) if isinstance(size, torch.SymInt) else size
            for size in tensor.shape
        ]
        theirs = self.shapes.get(path, ())
        if len(theirs) == len(ours):
            ours = [
                t if isinstance(o, sympy.Expr) else o for o, t in zip(ours, theirs, strict=True)
            ]
        if any(self.replay.is_of_items(size) for size in tensor.shape):
            asked = self.replay.items_hint()
            raise ExportError(f"{what} has a size that is taken from a tensor: {asked}", where)
        return self.symbols.shape(ours, what, where)

    def symbols_translate(self, size):
        """Return a size of the replay in Helion's symbols."""
        return size.node.expr.xreplace(self.replay.symbols)

    def tensor_name(self, path, root, written, where):
        """Return the name of the host tensor that `path` means in a root, entering it if new."""
        tensor = self.host_value(path, root)
        if isinstance(tensor, torch.Tensor) and id(tensor) not in self.steps:
            tensor = self.capture(tensor, path, root, written, where)
        if not isinstance(tensor, torch.Tensor):
            raise ExportError(f"tensor '{path_shown(path)}' is no argument: pass it as one", where)
        if written:
            self.written.add(id(self.replay.recorder.storage(tensor)))
        name = self.enter(tensor, path.replace(".", "_"), root, where)
        if written:
            self.write(tensor, name, where)
            self.changes.append((self.memory(tensor), self.replay.roots[root].order))
        return name

    def memory(self, tensor):
        """Return the tensor whose memory a tensor's values come from."""
        return self.replay.recorder.storage(tensor)

    def keep(self, tensor, begin, end, where):
        """Note that a tensor may not change between two moments, since it is read after them."""
        self.promises.append((self.memory(tensor), begin, end, where))

    def promises_check(self):
        """Refuse a change of what the graph reads as it was before."""
        for memory, begin, end, where in self.promises:
            if any(changed is memory and begin < when < end for changed, when in self.changes):
                raise ExportError("host code copies or computes of a tensor that changes", where)

    def host_enter(self, tensor, where):
        """Return the name of a tensor of host code, entering it if new."""
        if id(tensor) not in self.steps:
            raise ExportError("host code computes of a tensor that is no argument", where)
        root = len(self.replay.roots) - 1
        return self.enter(tensor, self.variable_of(tensor, root, None), root, where)

    def host_changes(self):
        """Enter what host operations write, and what they read; they may bring more of them."""
        for made in self.replay.recorder.writes:
            name = self.host_enter(made.tensor, made.where)
            self.write(made.tensor, name, made.where)
            self.changes.append((self.memory(made.tensor), made.order))
            self.operands_enter(made.args, made.where)
        for made in self.host_ops:  # grows
            self.operands_enter(made.data[1], made.where)

    def operands_enter(self, args, where):
        """Enter the tensors among the arguments of a host operation."""
        for arg in _pytree.tree_leaves(args):
            if isinstance(arg, torch.Tensor):
                self.host_enter(arg, where)

    def capture(self, tensor, path, root, written, where):
        """Return what stands for a tensor of a closure or a global: a parameter of the graph."""
        if written:
            shown = path_shown(path)
            raise ExportError(f"the kernel writes '{shown}', no argument: pass it as one", where)
        if id(tensor) not in self.captured:
            with self.replay.mode:
                fake = torch.empty(tuple(tensor.shape), dtype=tensor.dtype)
            self.captured[id(tensor)] = fake
            self.kept.append(tensor)
            self.replay.recorder.step_add(fake, "input", None, path)
            name = self.path_name(path, root)
            owner = path_shown(path).partition(".__closure__[")[0]
            shown = owner if owner == path_shown(path) else f"{owner}.{name}"
            self.paths[self.entry_add(fake, name, {"role": "input", "x_captured": shown}, 1)] = path
        return self.captured[id(tensor)]

    def path_name(self, path, root):
        """Return the variable that a path of a captured value ends in."""
        owner, cell, rest = path.rpartition(".__closure__[")
        if cell and rest.endswith("].cell_contents"):
            function = self.host_value(owner, root)
            return function.__code__.co_freevars[int(rest.partition("]")[0])]
        return re.sub(r"\W+", "_", path.rpartition(".")[2]).strip("_")

    def enter(self, tensor, wanted, root, where):
        """Return the name of a tensor, entering it and what it comes from if new."""
        if id(tensor) in self.names:
            return self.names[id(tensor)]
        step = self.steps[id(tensor)]
        if step.kind == "empty":
            init = {} if step.data == "empty" else {"init": constant(step.data)}
            return self.entry_add(tensor, wanted, {"role": "output"} | init)
        if step.kind == "alias":
            self.names[id(tensor)] = self.enter(step.base, wanted, root, where)
            return self.names[id(tensor)]
        if step.kind == "op" and step.base is None and not fills(step.data[0]):
            func = step.data[0]
            raise ExportError(
                f"host code computes {func}: pass its result as an argument", step.where
            )
        if step.kind == "op" and step.base is not None and self.is_widening(step):
            self.names[id(tensor)] = self.enter(step.base, wanted, root, where)
            self.keep(step.base, step.order, NEVER, step.where)
            return self.names[id(tensor)]
        if step.kind == "copy" and self.is_changed(tensor):
            self.compute(step, tensor)
        if step.kind == "reshape":
            self.copy_compute(step.base)
        func = step.data[0] if step.kind == "op" else None
        if str(func) == BITCAST:
            self.keep(step.base, step.order, NEVER, step.where)
        known = func and (pointwise(func) or selects(func) or sums_along(func))
        if (known and step.base is not None) or (func and fills(func)):
            step.tensor = tensor
            self.host_ops.append(step)
            counted = fills(func) and not self.is_changed(tensor)
            ends = counted_range(tensor, step.data[1]) if counted else None
            ranged = {"x_range": ends} if ends else {}
            return self.entry_add(tensor, wanted, {"role": "output"} | ranged)
        if step.kind == "op":
            base, ops = self.ops_of(tensor)
            if self.steps[id(self.memory(base))].kind != "input":
                # the wrapper computes it before the first root runs
                told = f"host code computes {func} of what it computed itself"
                raise ExportError(f"{told}: pass its result as an argument", step.where)
            self.keep(base, 0, step.order, step.where)
            of = self.enter(base, self.variable_of(base, root, wanted), root, where)
            return self.entry_add(tensor, wanted, {"role": "derived", "of": of, "ops": ops})
        of = self.enter(step.base, self.variable_of(step.base, root, None), root, where)
        if step.kind == "copy":
            self.names[id(tensor)] = of
            self.keep(step.base, step.order, NEVER, step.where)
            return of
        fields = {"role": "view", "of": of}
        if step.kind == "expand":
            fields["expand"] = True
        elif step.kind != "reshape":
            fields[step.kind] = self.step_data(step)
        return self.entry_add(tensor, wanted, fields)

    def step_data(self, step):
        """Return the dims of a permutation, or the ranges of a slice, as JSON."""
        if step.kind != "slice":
            return step.data
        ranges = [[self.symbols_translate_all(end) for end in ends] for ends in step.data]
        return [self.symbols.shape(ends, "a slice", step.where) for ends in ranges]

    def symbols_translate_all(self, size):
        """Return a size of the replay, a number or not, in Helion's symbols."""
        return self.symbols_translate(size) if isinstance(size, torch.SymInt) else size

    def compute(self, step, tensor):
        """Make of a copy, which is another name, a tensor of its own."""
        same = torch.ops.aten._to_copy.default
        step.kind, step.data = "op", (same, [step.base], {"dtype": tensor.dtype})

    def copy_compute(self, tensor):
        """Compute a copy that is about to be reshaped, if what it copies lies otherwise."""
        while self.steps[id(tensor)].kind == "alias":
            tensor = self.steps[id(tensor)].base
        step = self.steps[id(tensor)]
        if step.kind == "copy" and not step.base.is_contiguous():
            self.names.pop(id(tensor), None)
            self.compute(step, tensor)

    def is_changed(self, tensor):
        """Return whether host code or the kernel changes a tensor, itself or through a view."""
        recorder = self.replay.recorder
        host = any(recorder.storage(write.tensor) is tensor for write in recorder.writes)
        return host or id(tensor) in self.written

    def is_widening(self, step):
        """Return whether an operation makes ints of ints that it holds: loads do that.

        int32 holds int64 here: what does not fit is no argument.
        """
        func, _args, named = step.data
        widths = {torch.int8: 8, torch.uint8: 9, torch.int16: 16, torch.int32: 32, torch.int64: 32}
        before, after = widths.get(step.base.dtype), widths.get(named.get("dtype"))
        return str(func) == "aten._to_copy.default" and before and after and before <= after

    def range_of(self, name):
        """Return (least, greatest) of a host tensor's ints if that is given, or None."""
        entry = self.entries[name]
        while entry["role"] == "view":
            entry = self.entries[entry["of"]]
        return entry.get("x_range")

    def variable_of(self, tensor, root, fallback):
        """Return the variable that holds a tensor when a root begins, or a name for what it is."""
        for name, value in self.replay.roots[root].names.items():
            if value is tensor:
                return name
        if fallback:
            return f"{fallback}_base"
        step = self.steps[id(tensor)]
        if step.kind == "alias":
            return self.variable_of(step.base, root, None)
        if step.base is None:
            return "buffer"
        return f"{self.variable_of(step.base, root, None)}_{step.kind}"

    def write(self, tensor, name, where):
        """Note a store: an input becomes an inout; copies and computed tensors refuse it."""
        step = self.steps[id(tensor)]
        while step.kind in ("reshape", "permute", "slice", "alias"):
            tensor = step.base
            step = self.steps[id(tensor)]
        computed = step.kind == "op" and str(step.data[0]) != BITCAST
        if step.kind == "empty" or (computed and hasattr(step, "tensor")):
            if "x_range" in self.entries[self.names[id(tensor)]]:
                hint = "write to a copy (clone) instead"
                raise ExportError(
                    f"the kernel writes '{name}', which host code counts: {hint}", where
                )
            return
        if step.kind == "input":
            entry = self.entries[self.names[id(tensor)]]
            if "x_range" in entry:
                raise ExportError(f"the kernel writes '{name}': it has no range", where)
            entry["role"] = "inout"
            if tensor.dtype == torch.int64:
                entry["whole"] = True
            return
        made = {"copy": "a copy made by", "expand": "an expansion made by"}.get(
            step.kind, "computed by"
        )
        hint = "write to a tensor of torch.empty_like instead"
        raise ExportError(f"the kernel writes '{name}', which is {made} host code: {hint}", where)

    # Operations on the host

    def ops_of(self, tensor):
        """Return (base, ops): the steps in the wrapper that make `tensor` from a tensor `base`."""
        ops = []
        step = self.steps[id(tensor)]
        after = None
        while step.kind not in ("input", "empty") and not hasattr(step, "tensor"):
            if ops and self.is_rooted(step):
                break
            if step.base is None or id(step.base) not in self.steps:
                raise ExportError("a tensor computed by host code from no argument", step.where)
            if step.kind == "slice" and self.is_view(step.base):
                break
            found = self.op_of(tensor, step)
            self.int64_check(tensor, step, after)
            ops.append(found)
            tensor, after = step.base, step
            step = self.steps[id(tensor)]
        return tensor, [op for op in ops[::-1] if op]

    def is_rooted(self, step):
        """Return whether an operation is a root of its own, since no step in the wrapper can be."""
        if step.kind != "op":
            return False
        func, args, _named = step.data
        several = sum(isinstance(arg, torch.Tensor) for arg in args) > 1
        several = several or not isinstance(args[0], torch.Tensor)  # 2 ** x
        several = several or str(func) == BITCAST
        return selects(func) or fills(func) or sums_along(func) or (pointwise(func) and several)

    def int64_check(self, tensor, step, after):
        """Refuse a step in the wrapper whose int64 result 32 bits may not hold.

        Those of a sum or product that becomes int32 next are right in 32 bits.
        """
        if step.kind != "op" or tensor.dtype != torch.int64:
            return
        func = step.data[0]
        name = str(func).rsplit(".", 1)[0]
        ints = step.base.dtype in (torch.int64, *INTS_OF_INT32)
        if name in PICKING or (name == "aten._to_copy" and ints):
            return
        narrow = after and after.kind == "op" and str(after.data[0]) == "aten._to_copy.default"
        if narrow and after.data[2].get("dtype") in INTS_OF_INT32 and name in MODULAR and ints:
            return
        raise ExportError(
            f"host code computes an int64 ({func}): give it dtype=torch.int32", step.where
        )

    def is_view(self, tensor):
        """Return whether a tensor is what the graph has, or a view of it."""
        step = self.steps[id(tensor)]
        while step.kind in VIEWING:
            step = self.steps[id(step.base)]
        return step.kind in ("input", "empty") or hasattr(step, "tensor")

    def op_of(self, tensor, step):
        """Return one step as `[target, args...]`, None for what changes no value."""
        if step.kind in ("alias", "copy"):
            return None
        if step.kind == "op":
            return self.call_of(step)
        if step.kind == "permute":
            return ["aten.permute.default", step.data]
        if step.kind == "slice":
            raise ExportError("a slice of a tensor computed by host code", step.where)
        target = "aten.view.default" if step.kind == "reshape" else "aten.expand.default"
        return [target, self.shape(tensor, "", "a host tensor", step.where)]

    def call_of(self, step):
        """Return an ATen call on the value so far, its other arguments constants by position.

        None for a copy that changes no dtype.
        """
        func, _args, named = step.data
        if len(func._schema.returns) > 1:
            told = f"host code computes {func}, which gives several tensors"
            raise ExportError(f"{told}: pass its results as arguments", step.where)
        self.function_check(func, step.where)
        if str(func) == "aten._to_copy.default":
            dtype = named.get("dtype")
            if dtype == torch.int64:
                return None
            return (
                ["prims.convert_element_type.default", {"dtype": dtype_name(dtype)}]
                if dtype
                else None
            )
        values = []
        for argument in func._schema.arguments[1:]:
            if argument.name in ("device", "layout", "pin_memory", "memory_format"):
                continue
            default = argument.default_value if argument.has_default_value() else None
            values.append((named.get(argument.name, default), default))
        while values and values[-1][0] == values[-1][1]:
            values.pop()
        return [str(func), *(self.host_constant(value, func, step.where) for value, _d in values)]

    def function_check(self, func, where):
        """Refuse an operation that the graph format lacks."""
        if lookup(str(func)) is None:
            told = f"host code computes {func}, which the graph format lacks"
            raise ExportError(f"{told}: pass its result as an argument", where)

    def host_constant(self, value, func, where):
        """Return a constant argument of a host operation as JSON."""
        if isinstance(value, torch.Tensor):
            hint = "pass its result as an argument"
            raise ExportError(f"host code computes {func} of two tensors: {hint}", where)
        if isinstance(value, torch.dtype):
            return {"dtype": dtype_name(value)}
        if isinstance(value, torch.SymInt):
            return self.symbols.expression(self.symbols_translate(value))
        if isinstance(value, (list, tuple)):
            return [self.host_constant(entry, func, where) for entry in value]
        return constant(value)

    # Returns

    def returns(self):
        """Return the document's `returns`: of a kernel that returns nothing, what it writes.

        A result that is no tensor is an ExportError, as is a kernel that does neither.
        """
        if not self.replay.results:
            return self.stored()
        found = []
        for result in self.replay.results:
            if not isinstance(result, torch.Tensor) or id(result) not in self.steps:
                where = self.trace.source.where(self.replay.line)
                told = f"a result is of type {type(result).__name__}, not a tensor"
                raise ExportError(f"{told}: return tensors alone", where)
            found.append(self.return_of(result))
        return found

    def stored(self):
        """Return `returns` of the arguments that the kernel stores to, in their order."""
        names = sorted(self.entries, key=self.orders.get)
        found = [{"tensor": n} for n in names if self.entries[n]["role"] == "inout"]
        if not found:
            where = self.trace.source.where(self.replay.line)
            raise ExportError("the kernel returns nothing and writes no argument", where)
        return found

    def return_of(self, result):
        """Return one entry of `returns`: the tensor, steps after the kernel, the final shape."""
        where = self.steps[id(result)].where
        root = len(self.replay.roots) - 1
        if self.is_of_many(result):
            self.enter(result, self.variable_of(result, root, "result"), root, where)
        base, ops = self.ops_of(result)
        if self.steps[id(result)] is not self.steps[id(base)]:
            self.keep(base, self.first_op(result, base), NEVER, where)
        entry = {"tensor": self.enter(base, self.variable_of(base, root, None), root, where)}
        reshaped = False
        while ops and ops[-1][0] == "aten.view.default":
            ops.pop()
            reshaped = True
        if ops:
            entry["ops"] = ops
        shape = self.shape(result, "", "a result", where)
        if reshaped and (ops or shape != self.entries[entry["tensor"]]["shape"]):
            entry["shape"] = shape
        return entry

    def is_of_many(self, result):
        """Return whether a result is a pointwise operation of several tensors."""
        step = self.steps[id(result)]
        return step.kind == "op" and pointwise(step.data[0]) and self.is_rooted(step)

    def first_op(self, tensor, base):
        """Return when the first step was that made new values of `base` on the way to a tensor."""
        first = NEVER
        while tensor is not base:
            step = self.steps[id(tensor)]
            first = step.order if step.kind in ("op", "copy") else first
            tensor = step.base
        return first

    def ordered(self, called):
        """Return the entries of `tensors` in the order of their making.

        Inputs are first, and all there; of the rest, what is called and what that comes from.
        """
        kept = set(self.replay.inputs) | set(called)
        for name in sorted(self.entries, key=self.orders.get, reverse=True):
            if name in kept and "of" in self.entries[name]:
                kept.add(self.entries[name]["of"])
        return [self.entries[n] for n in sorted(self.entries, key=self.orders.get) if n in kept]

    # Scalars

    def item(self, symbol, root):
        """Return (tensor, when) of a number that host code took from a tensor, or None."""
        origin = self.symbols.origin_find(symbol)
        value = self.host_value(host_path(origin), root) if origin else None
        expr = value.node.expr if isinstance(value, torch.SymInt | torch.SymFloat) else None
        return self.replay.recorder.items.get(expr)

    def scalar_known(self, symbol):
        """Return whether a symbol of a host float has an origin in the host code."""
        origin = self.symbols.origin_find(symbol)
        return symbol in self.symbols.known or (origin is not None and origin.is_host())

    def scalar_name(self, expr, root, wanted, where):
        """Return the name of a host float, entering it with its value if new."""
        value, name = self.scalar_evaluate(expr, root), wanted
        origin = self.symbols.origin_find(expr)
        if origin is not None and origin.is_host():
            path = host_path(origin)
            exact = self.host_value(path, root)
            value = exact if isinstance(exact, (int, float)) else value
            name = self.path_name(path, root)
        if value is None:
            raise ExportError(f"the host number {expr} has no value that can be read", where)
        unique, count = name, 0
        entry = {"name": unique, "dtype": "float32", "value": constant(float(value))}
        while unique in self.entries or self.scalars.get(unique, entry) != entry:
            count += 1
            unique = f"{name}_{count}"
            entry = entry | {"name": unique}
        self.scalars[unique] = entry
        return unique

    def scalar_exact(self, symbol, root):
        """Return the number of the host that a symbol stands for, or None."""
        origin = self.symbols.origin_find(symbol)
        if origin is None or not origin.is_host():
            return None
        value = self.host_value(host_path(origin), root)
        return value if isinstance(value, int | float) else None

    def scalar_evaluate(self, expr, root):
        """Return the value of an expression of host floats, or None."""
        values = dict(self.symbols.known)
        for symbol in expr.free_symbols - set(values):
            origin = self.symbols.origin_find(symbol)
            value = self.host_value(host_path(origin), root) if origin else None
            if not isinstance(value, (int, float)):
                return None
            values[symbol] = sympy.Float(value, 17)
        try:
            return float(expr.xreplace(values))
        except TypeError:
            return None


def counted_range(tensor, args):
    """Return [least, greatest] of the ints that an arange gives, None of none and of floats."""
    if tensor.dtype.is_floating_point or not tensor.numel():
        return None
    begin, step = (args[0] if len(args) > 1 else 0), (args[2] if len(args) > 2 else 1)
    return sorted([begin, begin + step * (tensor.numel() - 1)])


def path_shown(path):
    """Return a path as the source has it."""
    return re.sub(r"^(_source_module|_global_source\d+)\.", "", path)


def host_path(origin):
    """Return the Python expression of a host value, '' for what has none."""
    try:
        return origin.host_str()
    except Exception:
        return ""
