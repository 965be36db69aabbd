"""The backward document of a forward one."""

import copy
from dataclasses import dataclass

from . import inouts, windows
from .assemble import document_write, sum_of_parts
from .errors import NOTHING, PARTS, STEPS, GradError
from .estimate import Estimate
from .keep import Keeper
from .lift import lift
from .residuals import normalize
from .reverse import gradients
from .schedule import Schedule, Target
from .values import FLOATS, Value, topological


@dataclass
class Derived:
    """What was derived.

    Attributes:
      backward: the document.
      forward: the forward with what it keeps for the backward; None if it was not asked for.
      lines: what was decided, each with its estimate.
    """

    backward: dict
    forward: dict | None
    lines: list


def derive(document, path, wrt=None, residuals=(), keep=False, target="v6e"):
    """The `Derived` of a document, decided for a chip. Raises GradError."""
    return _Derivation(document, path, wrt, residuals, keep, target).result()


class _Derivation:
    def __init__(self, document, path, wrt, residuals, keep, target):
        self.keep, self.path, self.target = keep, path, target
        self.program = lift(document, path)
        self.document = self.program.document
        self.builder = self.program.builder
        both = self.program.inouts
        self.wanted = self._wanted(wrt and [n + "_in" if n in both else n for n in wrt])
        self.residual = {n + "_out" if n in both else n for n in residuals}
        self.written = self._outputs()
        self.tensors = []

    def _wanted(self, wrt):
        inputs = [t for t in self.document["tensors"] if t["role"] == "input"]
        floats = [t["name"] for t in inputs if t["dtype"] in FLOATS]
        for name in wrt or ():
            if name not in floats:
                raise GradError(
                    f"{self.path}: {name!r} is no input of floats; there are {', '.join(floats)}",
                    hint=None,
                )
        if not floats:
            raise GradError(f"{self.path}: no input is of floats", hint=NOTHING)
        return [n for n in floats if wrt is None or n in wrt]

    def _outputs(self):
        """{tensor: its entry of `returns`} of what the forward stores and returns."""
        doc, found = self.document, {}
        listed = doc.get("returns") or [
            {"tensor": t["name"]} for t in doc["tensors"] if t["role"] in ("output", "inout")
        ]
        for entry in listed:
            role = self.program.tensor(entry["tensor"])["role"]
            if role != "output" or entry["tensor"] in found:
                what = "twice" if entry["tensor"] in found else f"as it is, of role {role}"
                raise GradError(f"{self.path}: {entry['tensor']!r} is returned {what}")
            found[entry["tensor"]] = entry
            shape = entry.get("shape")
            same = not shape or list(shape) == self.program.tensor(entry["tensor"])["shape"]
            self.program.tiles[entry["tensor"]] = entry["tensor"] + ("" if same else "_tiles")
        for store in self.program.stores:
            tensor = self.program.tensor(store.tensor)
            if tensor["role"] != "output" or store.tensor not in found:
                raise GradError(
                    f"stores to {store.tensor!r}, which is no returned output", store.origin
                )
            if found[store.tensor].get("ops"):
                raise GradError(f"{store.tensor!r} is returned through steps", store.origin, STEPS)
            if any(not isinstance(s, int) for s in tensor["shape"]):
                raise GradError(f"{store.tensor!r} has a shape that blocks decide", store.origin)
        self._check_stores()
        inouts.check(self.program)
        unknown = self.residual - set(found)
        if unknown:
            raise GradError(f"{self.path}: {sorted(unknown)[0]!r} is no output", hint=None)
        return found

    def _check_stores(self):
        """Each place of an output is written once: by one store, at each tile another place."""
        for number, store in enumerate(self.program.stores):
            for other in self.program.stores[:number]:
                both = store.adds and other.adds
                if store.tensor == other.tensor and not (both or _apart(store.index, other.index)):
                    raise GradError(
                        f"stores to {store.tensor!r} a second time, perhaps to the same place",
                        store.origin,
                    )
            named = {
                e["sym"]
                for e in store.index
                if isinstance(e, dict) and isinstance(e.get("sym"), str)
            }
            named |= {_begin_of(e) for e in store.index if isinstance(e, Value)}
            if store.value.space - named and not store.adds:
                raise GradError("stores to one place for several tiles", store.origin, PARTS)

    def result(self):
        windows.check(self.program, [store.value for store in self.program.stores])
        cotangents = self._cotangents()
        found, shifts = gradients(self.program, cotangents, set(self.wanted))
        values = normalize(self.program, [g.value for g in found], shifts)
        windows.check(self.program, values)
        estimate = Estimate(self.program, self.target)
        keeper = Keeper(self.program, estimate, self.keep)
        targets = self._targets(found, keeper.chosen(values))
        schedule = Schedule(self.program, targets, estimate)
        backward = document_write(self.program, schedule, self._header(keeper))
        lines = [*keeper.lines, *self._explained(schedule)]
        return Derived(backward, keeper.forward() if self.keep else None, lines)

    def _cotangents(self):
        """[(number of a stored value, its gradient)]."""
        found = []
        for store in self.program.stores:
            tensor = self.program.tensor(store.tensor)
            if tensor["dtype"] not in FLOATS or store.tensor in self.residual:
                continue
            if not store.adds and store.value.shape != self._stored_shape(store):
                raise GradError("stores a value that is broadcast", store.origin)
            name = f"d_{store.tensor}"
            self.builder.origin, self.builder.loc = store.origin, store.loc
            loaded = self.builder.make(
                "tile.load",
                [f"d_{self.program.tiles[store.tensor]}", store.index],
                tensor["dtype"],
                store.value.shape,
                origin=store.origin,
                name=name,
            )
            gradient = self.builder.convert(loaded, "float32")
            if store.mask is not None:
                gradient = self.builder.where(store.mask, gradient, 0.0)
            if store.adds and any(self._is_computed(entry) for entry in store.index):
                self._check_inside(store)
            found.append((store.value.number, gradient))
        if not found:
            raise GradError(f"{self.path}: no output of floats is differentiated", hint=NOTHING)
        return found

    def _check_inside(self, store):
        """What is added at computed positions is lost outside; a load there gives the nearest."""
        if not self.document.get("assume_in_bounds"):
            raise GradError(
                "adds at positions that may be outside the tensor, where nothing is added",
                store.origin,
                "say `assume_in_bounds: true` in the document, if they are inside",
            )

    def _stored_shape(self, store):
        shape, dims = [], self.program.tensor(store.tensor)["shape"]
        for entry, size in zip(store.index, dims, strict=True):
            if isinstance(entry, dict) and "sym" in entry and entry["sym"] in self.program.blocks:
                shape.append(entry["sym"])
            elif entry == {"slice": [None, None, None]}:
                shape.append(size)
            elif not isinstance(entry, int) and not self._single(entry):
                raise GradError("stores at an index that has no derivative here", store.origin)
        return tuple(shape)

    def _single(self, entry):
        """Whether an index is the position of a grid block of size 1."""
        symbol = _begin_of(entry)
        return symbol is not None and self.program.blocks[symbol].get("size") == 1

    def _header(self, keeper):
        doc = self.document
        tensors = []
        for t in doc["tensors"]:
            if t["role"] in ("input", "derived") or (t["role"] == "view" and self._reads(t)):
                tensors.append(copy.deepcopy(t))
        for t in doc["tensors"]:
            if t["role"] == "output" and t["name"] in self.written:
                self._as_input(tensors, t, t["name"])
                self._as_input(tensors, t, f"d_{t['name']}")
        tensors += [keeper.entry(kept) | {"role": "input"} for kept in keeper.kept]
        returns = []
        for name in self.wanted:
            entry = self.program.tensor(name)
            slots = self.slots.get(name)
            d = {
                "name": f"d_{name}",
                "role": "output",
                "dtype": entry["dtype"],
                "shape": list(entry["shape"]),
            }
            if name in self.uncovered:
                d["init"] = 0
            tensors.append(_with_slots(d, slots))
            returns.append({"tensor": f"d_{name}"})
            if name in self.slots:
                returns[-1]["ops"] = sum_of_parts(1, entry["dtype"])
        for t in doc["tensors"]:
            base = self.program.base(t["name"])["name"]
            if t["role"] == "view" and base in self.wanted:
                view = copy.deepcopy(t)
                view["name"], view["of"] = f"d_{t['name']}", f"d_{t['of']}"
                tensors.append(_with_slots(view, self.slots.get(base)))
        config = {k: v for k, v in (doc.get("config") or {}).items() if k in ("dot_precision",)}
        names = [t["name"] for t in tensors]
        for name in names:
            if names.count(name) > 1:
                raise GradError(f"{self.path}: the backward would have two tensors {name!r}")
        return {
            "name": f"{doc['name']}_grad",
            "tensors": tensors,
            "returns": returns,
            "scalars": copy.deepcopy(doc.get("scalars") or []),
            "tunables": doc.get("tunables"),
            "config": config,
        }

    def _reads(self, entry):
        return self.program.base(entry["name"])["role"] in ("input", "derived")

    def _as_input(self, tensors, t, name):
        shape = self.written[t["name"]].get("shape") or t["shape"]
        tensors.append({"name": name, "role": "input", "dtype": t["dtype"], "shape": list(shape)})
        tiles = name.removesuffix(t["name"]) + self.program.tiles[t["name"]]
        if tiles != name:
            view = {
                "name": tiles,
                "role": "view",
                "dtype": t["dtype"],
                "shape": list(t["shape"]),
                "of": name,
            }
            tensors.append(view)

    def _targets(self, found, values):
        targets, whole, places = [], set(), {}
        for gradient, value in zip(found, values, strict=True):
            load = gradient.load
            base = self.program.base(gradient.tensor)
            slot = _slot(gradient, places.setdefault(base["name"], []))
            target, covers = self._target(gradient, self.builder.expand(value, load.shape), base)
            if covers:
                whole.add((base["name"], slot))
            targets.append((base["name"], slot, target))
        scattered = {name for name, _, target in targets if target.scatters}
        self.slots = {
            name: len(slots)
            for name, slots in places.items()
            if len(slots) > 1 or name in scattered
        }
        self.uncovered = {
            name
            for name in self.wanted
            if any((name, slot) not in whole for slot in range(self.slots.get(name, 1)))
        }
        for name, slot, target in targets:
            if name in self.slots:
                target.index.insert(0, slot)
                target.dtype = "float32"
        return [target for _, _, target in targets]

    def _target(self, gradient, value, base):
        tensor, load = self.program.tensor(gradient.tensor), gradient.load
        if any(self._is_computed(entry) for entry in gradient.index):
            return self._scattered(gradient, value, tensor, load), False
        index, groups, met, covered = [], {}, set(), True
        for entry, size in zip(gradient.index, tensor["shape"], strict=True):
            if isinstance(entry, dict) and entry.get("sym") in self.program.blocks:
                symbol = entry["sym"]
                covered &= self.program.extent(symbol) == size
            elif isinstance(entry, Value):
                symbol, entry = self._position(entry, load, groups)
                covered &= self.program.extent(symbol) == size
            elif entry == {"slice": [None, None, None]}:
                symbol = None
            elif isinstance(entry, int):
                symbol, covered = None, False
            else:
                raise GradError("a load at such an index has no derivative here", load.origin)
            if symbol in met:
                raise GradError("a load of a diagonal has no derivative here", load.origin)
            met |= {symbol} if symbol else set()
            index.append(entry)
        for symbol, (group, count) in groups.items():
            value = self._by_group(symbol, group, count, value)
            value = self.builder.total((symbol,), value, origin=load.origin)
        target = Target(f"d_{gradient.tensor}", index, value, base["dtype"], groups=dict(groups))
        if value.space - met - set(groups):
            raise GradError("a gradient depends on blocks that do not index its load", load.origin)
        views = self.program.views(gradient.tensor)
        if any(view.get("expand") for view in views):
            raise GradError(f"{gradient.tensor!r} is a view with expanded dims", load.origin)
        return target, covered and not any(view.get("slice") for view in views)

    @staticmethod
    def _is_computed(entry):
        """Whether an index is of positions that are computed, not those of a tile."""
        return isinstance(entry, Value) and entry.dtype is not None

    def _scattered(self, gradient, value, tensor, load):
        """The Target of a load at positions that are computed: each lane is added to its place."""
        index = []
        for entry, size in zip(gradient.index, tensor["shape"], strict=True):
            plain = isinstance(entry, int) or entry == {"slice": [None, None, None]}
            if isinstance(entry, Value) and entry.dtype in ("int32", "int64", "int16", "uint8"):
                if not self.document.get("assume_in_bounds"):
                    limits = [entry, 0, size - 1]  # a load outside gives the nearest element
                    entry = self.builder.make(
                        "aten.clamp.default", limits, entry.dtype, entry.shape, name="nearest"
                    )
            elif not plain and not (
                isinstance(entry, dict) and entry.get("sym") in self.program.blocks
            ):
                raise GradError("a load at such positions has no derivative here", load.origin)
            index.append(entry)
        if any(view.get("expand") for view in self.program.views(gradient.tensor)):
            raise GradError(f"{gradient.tensor!r} is a view with expanded dims", load.origin)
        target = Target(f"d_{gradient.tensor}", index, value, "float32", scatters=True)
        target.space = value.space.union(*(e.space for e in index if isinstance(e, Value)))
        return target

    def _position(self, entry, load, groups):
        """(block, index of the gradient) of a load at one position that a grid block says."""
        symbol = _begin_of(entry)
        if symbol is not None and self.program.blocks[symbol].get("size") == 1:
            return symbol, entry
        if (
            entry.target == "floordiv"
            and isinstance(entry.args[1], int)
            and isinstance(entry.args[0], Value)
        ):
            symbol, count = _begin_of(entry.args[0]), entry.args[1]
            one = symbol is not None and self.program.blocks[symbol].get("size") == 1
            if one and count > 0 and self.program.extent(symbol) % count == 0:
                group = self._group(symbol, count)
                groups[symbol] = (group, count)
                return group, self._begin(group)
        raise GradError("a load at such a position has no derivative here", load.origin)

    def _group(self, symbol, count):
        """A block that stands for `count` tiles of another."""
        name = f"{symbol}_by_{count}"
        if name not in self.program.blocks:
            entry = {
                "id": 0,
                "symbol": name,
                "name": f"{self.program.blocks[symbol].get('name', symbol)}_group",
                "extent": self.program.extent(symbol) // count,
                "size": 1,
            }
            self.program.blocks = {name: entry, **self.program.blocks}
            self.builder.symbols.add(name)
        return name

    def _by_group(self, symbol, group, count, value):
        """The value with `begin // count` of a block as the position of its group."""
        changes = {
            part.number: self._begin(group)
            for part in topological([value])
            if part.target == "floordiv"
            and _begin_of(part.args[0]) == symbol
            and part.args[1] == count
        }
        return self.builder.substitute([value], changes)[0]

    def _begin(self, symbol):
        return self.builder.make("tile.begin", [{"sym": symbol}], None, (), name="begin")

    def _explained(self, schedule):
        kept = schedule.kept.values()
        lines = [f"kept {t.tensor}{t.value.line}: {t.why}" for t in kept]
        lines += [f"summed {t.tensor}{t.value.line}: {t.why}" for t in schedule.targets if t.why]
        return lines


def _apart(index, other):
    """Whether an int tells two places of one tensor apart."""
    return any(
        isinstance(a, int) and isinstance(b, int) and a != b
        for a, b in zip(index, other, strict=True)
    )


def _slot(gradient, slots):
    """The number of the array that a gradient is stored in: of one place there are several."""
    for number, others in enumerate(slots):
        if len(gradient.index) == len(others[0].index) and all(
            x.tensor == gradient.tensor and _apart(x.index, gradient.index) for x in others
        ):
            others.append(gradient)
            return number
    slots.append([gradient])
    return len(slots) - 1


def _with_slots(entry, slots):
    """A tensor or view with a leading dim for gradients that are summed by the wrapper."""
    if slots is not None:
        entry["dtype"] = "float32"
        entry["shape"] = [slots, *entry["shape"]]
        if "permute" in entry:
            entry["permute"] = [0, *(d + 1 for d in entry["permute"])]
        if "slice" in entry:
            entry["slice"] = [[None, None, None], *entry["slice"]]
    return entry


def _begin_of(entry):
    if isinstance(entry, Value) and entry.target == "tile.begin":
        return entry.args[0].get("sym")
    return None
