"""Which roots compute the gradients, over which grids, and what they leave in memory.

A gradient's grid are the blocks that index it; the blocks that it is summed over become loops, or
are of the grid as well and each tile stores its part, which the wrapper sums. What a loop would
compute again for each point of the grid, and what needs a loop inside a loop, is stored by a root
before.
"""

from dataclasses import dataclass, field

from ..document_text import unique_name
from .errors import GradError
from .estimate import MATMULS
from .values import LINEAR_VIEWS, Value, shifted_by, symbols_of, topological

ACCUMULATED = ("@sum", "@max", "@lse")
# What a gradient that is added up over the grid may hold of VMEM, and of how many parts of it one:
# all of it at one point of the blocks that it shares with the grid, in float32, in two buffers.
HELD_BYTES, HELD_PARTS = 8 << 20, 6


@dataclass
class Target:
    """Something that a root stores: a gradient, or a value that others load."""

    tensor: str
    index: list
    value: Value
    dtype: str
    parts: tuple = ()  # blocks of which each tile stores its own part, summed by the wrapper
    groups: dict = field(default_factory=dict)  # block -> (block of groups, blocks in each)
    loops: tuple = ()  # blocks that the root runs over in a loop, which stores its tiles
    level: int = 0
    root: int = 0  # its number, once it is written
    scatters: bool = False  # lanes are added to the places that the index says
    joins: bool = False  # each tile is added to its place by the loop of other gradients
    space: frozenset = frozenset()  # blocks that the places depend on
    why: str = ""

    @property
    def grid(self):
        """The blocks of its root's grid."""
        groups = {group for group, _ in self.groups.values()}
        return ((self.value.space | self.space) - set(self.groups) - set(self.loops)) | groups


@dataclass
class Root:
    """Targets that one grid computes."""

    grid: frozenset
    level: int
    targets: list


class Schedule:
    """The roots of a backward. `kept` maps numbers of values to the Targets that store them."""

    def __init__(self, program, targets, estimate):
        self.program, self.builder, self.estimate = program, program.builder, estimate
        self.targets, self.kept = list(targets), {}
        self._split_sums()
        self._keep_what_must()
        self._join_loops()
        self._keep_what_pays()
        self._keep_what_must()  # of what is kept since
        self._loop_to_store()
        self._levels()

    def roots(self):
        """The Roots, in the order in which they run."""
        found = {}
        for target in [*self.kept.values(), *self.targets]:
            key = (target.level, tuple(sorted(target.grid)))
            found.setdefault(key, Root(frozenset(target.grid), target.level, [])).targets.append(
                target
            )
        return [found[key] for key in sorted(found, key=lambda key: key[0])]

    def _split_sums(self):
        """Sums over blocks: each tile's part in memory, where that is cheaper than a loop."""
        for target in self.targets:
            value = target.value
            if value.target != "@sum" or target.groups or target.scatters:
                continue
            inner = value.args[0]
            grid = target.grid
            elements = self.estimate.elements(value)
            written = elements * self.estimate.tiles(value.dims) * 4
            read, products, lanes = self.estimate.cone(inner)
            again = self.estimate.tiles(value.space)
            # A root that runs over the same tiles for another gradient reads them anyway.
            shared = any(x.grid == inner.space for x in self.targets if x is not target)
            own = (0, 0, 0) if shared else (read, products, lanes)
            parts_cost = self.estimate.seconds(2 * written + own[0], *own[1:])
            loop_cost = self.estimate.seconds(read * max(1, again), products, lanes)
            loop, by_tile = microseconds(loop_cost), microseconds(parts_cost)
            # A loop needs no tile of its own only if the grid has blocks left.
            product = inner.target.startswith(MATMULS)
            whole = self._is_whole(target)
            if not whole or (grid and (product or loop_cost <= parts_cost)):
                target.why = f"a loop, {loop} (parts by tile: {by_tile})"
                continue
            target.why = f"parts by tile, {by_tile} (a loop: {loop})"
            target.parts = value.dims
            target.value = inner

    def _join_loops(self):
        """Sums over a block of the others' grid: each tile's part is added in the others' loop.

        What both compute of matmuls, such as the scores of attention, is then computed once.
        """
        for target in self.targets:
            host = next((other for other in self.targets if self._hosts(other, target)), None)
            if host is None:
                continue
            inner = target.value.args[0]
            shared = self._computed(inner) & self._computed(host.value)
            own = {part.number for part in topological([inner])} - shared
            _, products, lanes = self.estimate.cone(inner, own)
            saved = self.estimate.seconds(0, products, lanes)
            elements = self.estimate.elements(target.value)
            converted = self.estimate.seconds(2 * 4 * elements)
            if products == 0 or saved <= converted:
                continue
            target.why = f"added in the loop of {host.tensor}: {microseconds(saved)} are saved"
            target.value, target.loops = inner, tuple(host.value.dims)
            target.joins = target.scatters = True

    def _hosts(self, host, target):
        """Whether the loop of one sum runs over all tiles that another sum adds up."""
        if not all(self._is_looped(x) for x in (host, target)) or host.grid == target.grid:
            return False
        if not host.grid & target.grid:  # the whole grid would run in order
            return False
        inner, other = target.value.args[0], host.value.args[0]
        if inner.space != other.space or set(host.value.dims) & set(target.value.dims):
            return False
        every = {part.number for part in topological([other])}
        own = [p for p in topological([inner]) if p.target in ACCUMULATED]
        shared = self.estimate.extents(host.grid & target.grid)
        held = 4 * self.estimate.elements(target.value) // shared
        added, kept = self._beside(target), self._beside(host)
        most = min(HELD_BYTES, self.estimate.vmem_bytes // HELD_PARTS)
        return held <= most and added < kept and all(p.number in every for p in own)

    def _is_looped(self, target):
        """A target is a sum over one block, in a loop, and is stored where nothing else is."""
        name = self.program.base(target.tensor.removeprefix("d_"))["name"]
        bases = [self.program.base(t.tensor.removeprefix("d_"))["name"] for t in self.targets]
        sums = target.value.target == "@sum" and len(target.value.dims) == 1
        other = target.parts or target.groups or target.scatters
        return sums and not other and bases.count(name) == 1

    def _beside(self, target):
        """The bytes of all targets of the same grid."""
        same = [t.value for t in self.targets if t.grid == target.grid]
        return sum(self.estimate.bytes(value) for value in same)

    def _computed(self, value):
        """Numbers of a value and of what it is computed from, down to loads and what is kept."""
        found, stack = set(), [value]
        while stack:
            part = stack.pop()
            if part.number not in found and part.number not in self.kept:
                found.add(part.number)
                stack.extend(part.inputs)
        return found

    def _is_whole(self, target):
        """Whether a target is all of an output: no view of it, and no other stores to it."""
        name = target.tensor.removeprefix("d_")
        bases = [self.program.base(t.tensor.removeprefix("d_"))["name"] for t in self.targets]
        return self.program.tensor(name)["role"] == "input" and bases.count(name) == 1

    def _keep_what_must(self):
        changed = True
        while changed:
            changed = False
            for target in [*self.targets, *self.kept.values()]:
                cut = self._blocked(target)
                if cut is not None:
                    self._keep(cut, "a loop cannot compute it inside another")
                    changed = True
                    break

    def _blocked(self, target):
        """What a root of this target cannot compute, as the value to keep in its place; or None."""
        grid = target.value.space
        done = set()

        def visit(value, path):
            if value.number in done or (value.number in self.kept and value is not target.value):
                return None
            done.add(value.number)
            if value.target in ACCUMULATED and (value.space - grid or set(value.dims) & grid):
                return self._cut(value, path)
            for part in value.inputs:
                if value.target == "@lse" and part.target in ("@max", "@sum"):
                    found = next((f for x in part.inputs if (f := visit(x, [*path, value]))), None)
                else:
                    found = visit(part, [*path, value])
                if found is not None:
                    return found
            return None

        if target.value.number in self.kept and self.kept[target.value.number] is not target:
            return None
        return visit(target.value, [])

    def _cut(self, value, path):
        """The last value of the same space on the way, if it is not much larger."""
        limit, best = 2 * self.estimate.bytes(value), value
        running = [user.args[0] for user in path if user.target == "@lse"]
        for user in reversed(path):
            if user.space != value.space or user.target in ACCUMULATED or user.target == "@carry":
                break
            if any(shifted_by(user, maximum) for maximum in running):
                break  # it is another in each step of the loop
            if user.target not in LINEAR_VIEWS and self.estimate.bytes(user) <= limit:
                best = user
        return best

    def _loop_to_store(self):
        """What needs sums over a block of its own grid: a second loop, after that of the sums.

        The tiles that both loops read may stay in VMEM in between, which two roots cannot have.
        """
        for target in self.targets:
            needed = self.loads(target)
            spaces = {other.value.space for other in needed}
            if len(spaces) != 1 or target.groups or target.parts or target.joins:
                continue
            [space] = spaces
            only = all(self.loads(t).count(o) == 0 for t in self._others(target) for o in needed)
            cut_short = self.program.moving() & (target.grid - space)
            if cut_short:  # the loop would leave out tiles whose gradient is 0
                continue
            if space < target.grid and only and not any(self.loads(other) for other in needed):
                target.loops = tuple(sorted(target.grid - space))
                for other in needed:
                    del self.kept[other.value.number]

    def _others(self, target):
        return [t for t in [*self.targets, *self.kept.values()] if t is not target]

    def _keep_what_pays(self):
        """Values of fewer blocks than a loop runs over, loaded where that is cheaper."""
        for target in list(self.targets):
            for value in self._repeated(target):
                if value.number in self.kept:
                    continue
                points = self.estimate.tiles(target.value.space - value.space)
                own = self._private(value, target)
                read, products, lanes = self.estimate.cone(value, own)
                again = points * self.estimate.seconds(read, products, lanes)
                size = self.estimate.bytes(value)
                loaded = self.estimate.seconds((points + 1) * size) + self.estimate.seconds(
                    read, products, lanes
                )
                if again > loaded:
                    each = f"computed again in each tile: {microseconds(again)}"
                    self._keep(value, f"{microseconds(loaded)} ({each})")

    def _repeated(self, target):
        """The largest values inside a target's loops that do not depend on all of its grid."""
        grid, found = target.value.space, []
        cone = topological([target.value])
        running = [value.args[0] for value in cone if value.target == "@lse"]
        users = {}
        for user in cone:
            for part in user.inputs:
                users.setdefault(part.number, []).append(user)
        for value in cone:
            if value.dtype is None or value.space <= grid or grid <= value.space:
                continue
            if any(shifted_by(value, maximum) for maximum in running):
                continue
            if self._is_load(value) or value.target in LINEAR_VIEWS or value.target.startswith("@"):
                continue
            wider = any(self._wider(user, value, users) for user in users.get(value.number, ()))
            loads = any(p.target == "tile.load" for p in topological([value]))
            if wider and loads and value.is_float:
                found.append(value)
        return found

    def _wider(self, user, value, users):
        """Whether a user, views passed over, depends on more blocks."""
        if user.target in LINEAR_VIEWS and user.space == value.space:
            return any(self._wider(x, user, users) for x in users.get(user.number, ()))
        return bool(user.space - value.space)

    @staticmethod
    def _is_load(value):
        while value.target in LINEAR_VIEWS or value.target in (
            "prims.convert_element_type.default",
            "tile.mask_to",
        ):
            value = value.args[0]
        return value.target == "tile.load"

    def _private(self, value, target):
        """Numbers of the loads that the target reads anyway."""
        cone = {p.number for p in topological([value])}
        outside = set()
        for user in topological([target.value]):
            if user.number not in cone:
                outside |= {p.number for p in user.inputs}
        return {n for n in outside & cone if n != value.number}

    def _keep(self, value, why):
        symbols = self.program.grid + self.program.order
        lead = [s for s in symbols if s in value.space and s not in value.shape]
        strange = symbols_of(list(value.shape), self.builder.symbols) - set(value.shape)
        if strange or self.program.moving() & set(lead):
            raise GradError("has a shape that cannot be kept", value.origin)
        index = [self.builder.make("tile.id", [{"sym": s}], None, (), name="tile_id") for s in lead]
        index += [
            {"sym": s} if isinstance(s, str) else {"slice": [None, None, None]} for s in value.shape
        ]
        name = self._free(f"kept_{value.name.strip('_')}")
        self.kept[value.number] = Target(name, index, value, value.dtype, why=why)

    def _free(self, name):
        taken = {t["name"] for t in self.program.document["tensors"]} | {
            t.tensor for t in self.kept.values()
        }
        return unique_name(name, taken)

    def _levels(self):
        """A target runs after the roots of other grids whose values it loads."""
        every = [*self.kept.values(), *self.targets]
        for _ in range(len(every) + 1):
            for target in every:
                for other in self.loads(target):
                    step = 0 if other.grid == target.grid else 1
                    target.level = max(target.level, other.level + step)

        for target in self.targets:  # what has one grid is computed by one root
            same = [other.level for other in self.targets if other.grid == target.grid]
            target.level = max(same)

    def loads(self, target):
        """The Targets whose values this one is made of, the nearest."""
        found, stack, seen = [], list(target.value.inputs), set()
        if target.value.number in self.kept and self.kept[target.value.number] is not target:
            return [self.kept[target.value.number]]
        while stack:
            value = stack.pop()
            if value.number in seen:
                continue
            seen.add(value.number)
            if value.number in self.kept:
                found.append(self.kept[value.number])
            else:
                stack.extend(value.inputs)
        return found

    def shape(self, target):
        """The shape of the tensor that a kept value is stored in."""
        lead = [self._count(e.args[0]["sym"]) for e in target.index if isinstance(e, Value)]
        own = [s if isinstance(s, int) else self.program.extent(s) for s in target.value.shape]
        return lead + own

    def _count(self, symbol):
        return count_of(symbol, self.program.extent(symbol))


def count_of(symbol, extent):
    """The number of tiles of a block, as an expression."""
    return f"({symbol} + {extent - 1}) // {symbol}"


def microseconds(seconds):
    """A time for people."""
    return f"{seconds * 1e6:.1f} us"
