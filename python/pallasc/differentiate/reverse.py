"""The reverse pass: gradients of loads, given those of stores."""

from dataclasses import dataclass

from .errors import GradError
from .rules import CONSTANT, RULES, SHAPED
from .rules_rows import extreme
from .shift import NOTHING, rate
from .values import symbols_of, topological

MAXIMA = ("@max", "aten.amax.default", "aten.max.default")


@dataclass
class Gradient:
    """The gradient of one load: of which tensor, where, and what."""

    tensor: str
    index: list
    value: object
    load: object


def gradients(program, cotangents, wanted):
    """The Gradients of all loads of the base tensors `wanted`, and the maxima that only shift.

    `cotangents` maps the number of a stored value to the gradient of it, a value.
    """
    return _Reverse(program, cotangents, wanted).run()


class _Reverse:
    def __init__(self, program, cotangents, wanted):
        self.program, self.builder = program, program.builder
        self.cotangents, self.wanted = cotangents, wanted
        self.parts = {}
        self.shifts = []

    def run(self):
        stored = [store.value for store in self.program.stores]
        order = topological(stored)
        self.active = self.reached(order)
        for number, gradient in self.cotangents:
            self.parts.setdefault(number, []).append(gradient)
        found = []
        for value in reversed(order):
            gradient = self.total(value)
            if gradient is None or value.number not in self.active:
                continue
            if value.target == "tile.load":
                found.append(Gradient(value.args[0], value.args[1], gradient, value))
                continue
            self.step(value, gradient)
        return found, self.shifts

    def reached(self, order):
        """The numbers of values that depend on what is differentiated."""
        active = set()
        for value in order:
            if value.target == "tile.load":
                base = self.program.base(value.args[0])
                derived = base["role"] == "derived" and value.is_float
                if derived and self.wanted & set(self.program.sources(base["name"])):
                    raise GradError(f"reads {base['name']!r}, derived of an input", value.origin)
                if base["name"] in self.wanted and value.is_float:
                    active.add(value.number)
            elif value.is_float and any(x.number in active for x in value.inputs):
                active.add(value.number)
        return active

    def total(self, value):
        """The sum of the gradients that came to a value, of its shape or one that broadcasts."""
        parts = self.parts.get(value.number)
        if not parts:
            return None
        whole = parts[0]
        for part in parts[1:]:
            whole = self.builder.add(whole, part)
        return whole

    def step(self, value, gradient):
        self.builder.at(value)
        if value.target in CONSTANT:
            return
        if value.target in MAXIMA and self.shift(value):
            return
        rule = extreme if value.target in MAXIMA else RULES.get(value.target)
        found = rule(self.builder, value, gradient) if rule else None
        if found is None:
            raise GradError("has no derivative here", value.origin or value.target)
        for operand, part in found:
            if getattr(operand, "number", None) in self.active:
                if value.target not in SHAPED and operand.shape != value.shape:
                    part = self.builder.expand(part, value.shape)
                space = value.space | set(value.dims)
                self.give(operand, part, space, value)

    def shift(self, value):
        """Whether a maximum only shifts exponents: its gradients cancel, and it passes none on."""
        for store in self.program.stores:
            if rate(self.builder, store.value, value) != NOTHING:
                if value.target != "@max":
                    return False
                raise GradError(
                    f"the value stored in {store.tensor!r} may change with this maximum, and a "
                    "loop's maximum has a derivative only where it shifts exponents and cancels",
                    value.origin,
                )
        if value not in self.shifts:
            self.shifts.append(value)
        return True

    def give(self, operand, part, space, user):
        builder = self.builder
        part = self.narrow(part, operand.shape)
        missing = space - operand.space
        if missing - part.space:
            raise GradError(
                "is the same in all tiles of a block, and each adds to a gradient: such a count "
                "has no derivative here",
                user.origin,
            )
        rest = missing & part.space
        if rest:
            if symbols_of(list(part.shape), rest):
                raise GradError("a gradient has a dim that its operand has not", user.origin)
            part = builder.total(tuple(sorted(rest)), part, origin=user.origin)
        self.parts.setdefault(operand.number, []).append(part)

    def narrow(self, part, shape):
        """A gradient summed over the dims in which its operand was broadcast."""
        extra = len(part.shape) - len(shape)
        if extra > 0:
            part = self.builder.sum(part, list(range(extra)), False)
        offset = len(shape) - len(part.shape)
        dims = [d for d, size in enumerate(part.shape) if size != 1 and shape[d + offset] == 1]
        return self.builder.sum(part, dims, True) if dims else part
