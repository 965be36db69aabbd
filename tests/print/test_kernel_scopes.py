"""Names of kernel text that are given again, where Python has no regions: the module finds each.

Kernels are drawn of a few names and all regions; what the printed function does, run by NumPy, is
what `execute` makes of the text.
"""

import random
import types

import kit
import numpy as np
import pytest
from pallasc import execute

NAMES, ROWS, SEEDS = "abc", 48, 100
HEAD = f"""program p for v6e
input x float32[4, 8]
output y float32[{ROWS}, 8]

kernel k {{
  in x_ref vmem float32[4, 8] of [4, 8] at (0, 0) buffers 1
  out y_ref vmem float32[{ROWS}, 8] of [{ROWS}, 8] at (0, 0) buffers 1

"""
HOST = f"""}}

host(x) {{
  y = launch kernel=0, x : float32[{ROWS}, 8]
  return y
}}
"""


class Drawn:
    """The lines of a kernel: values and functions of few names, and some without one."""

    def __init__(self, seed):
        self.random, self.lines, self.number, self.row = random.Random(seed), [], 0, 0
        self.region({}, 3)

    def text(self):
        """Of the program."""
        return HEAD + "".join(f"{line}\n" for line in self.lines) + HOST

    def value(self, scope):
        """A value in scope, or one that is loaded; one without a name is read once."""
        known = [name for name, kind in scope.items() if kind in ("value", "once")]
        if not known or self.random.random() < 0.1:
            return self.give(scope, f"load x_ref[{self.random.randrange(4)}]", "once")
        name = self.random.choice(known)
        if scope[name] == "once":
            del scope[name]
        return name

    def give(self, scope, what, kind=None):
        """A statement that gives a value; its name."""
        kind = kind or self.random.choice(("value", "value", "once"))
        name = self.random.choice(NAMES)
        if kind == "once":
            self.number += 1
            name = f"%{self.number}"
        self.lines.append(f"{name} = {what} : float32[8]")
        scope.pop(name, None)
        scope[name] = kind
        return name

    def region(self, outer, depth, end=None, count=0):
        """The statements of a region, and what ends it."""
        scope = dict(outer)
        for _ in range(self.random.randrange(2, 6)):
            self.statement(scope, depth)
        if end:
            given = ", ".join(self.value(scope) for _ in range(count))
            self.lines += [f"{end} {given}"] if count else []
            self.lines.append("}")
        for name in set(outer) - set(scope):  # read in there, once
            if name.startswith("%"):
                del outer[name]

    def statement(self, scope, depth):
        """One of any kind."""
        kinds = [self.compute, self.compute, self.store, self.call]
        if depth:
            kinds += [self.run_for, self.run_if, self.run_when, self.define, self.run_fori]
        self.random.choice(kinds)(scope, depth)

    def compute(self, scope, _depth):
        """A value of one or two."""
        x, y = self.value(scope), self.random.choice((f"{self.random.randrange(1, 9)}.0", None))
        self.give(scope, f"{self.random.choice(('add', 'sub'))} {x}, {y or self.value(scope)}")

    def store(self, scope, _depth):
        """Into a row of its own, so that nothing hides it."""
        if self.row < ROWS:
            self.lines.append(f"store y_ref[{self.row}], {self.value(scope)}")
            self.row += 1

    def carried(self, scope):
        """What a statement gives: (results, names in its region, values that it starts with)."""
        results = [self.random.choice((*NAMES, "%")) for _ in range(self.random.randrange(3))]
        results = [name for name in dict.fromkeys(results)]
        if "%" in results:
            self.number += 1
            results[results.index("%")] = f"%{self.number}"
        inner = self.random.sample(NAMES, len(results))
        return results, inner, [self.value(scope) for _ in results]

    def open(self, results, line, count):
        """The first line of a statement with a region."""
        types_ = ": " + ", ".join(["float32[8]"] * count) + " " if count else ""
        self.lines.append(f"{', '.join(results)}{' = ' if count else ''}{line} {types_}{{")

    def close(self, scope, results):
        """Its results are there."""
        for name in results:
            scope[name] = "once" if name.startswith("%") else "value"

    def run_for(self, scope, depth):
        """A `for`."""
        results, inner, starts = self.carried(scope)
        pairs = ", ".join(f"{name} = {x}" for name, x in zip(inner, starts, strict=True))
        carry = f" carry ({pairs})" if pairs else ""
        self.open(results, f"for _ in {self.random.randrange(4)} from 0{carry}", len(results))
        within = named(scope) | dict.fromkeys(inner, "value")
        self.region(within, depth - 1, "yield", len(results))
        self.close(scope, results)

    def run_if(self, scope, depth):
        """An `if`."""
        results, _, others = self.carried(scope)
        behind = f" else ({', '.join(others)})" if others else ""
        condition = f"{self.random.randrange(2)} == 1"
        self.open(results, f"if ({condition}){behind}", len(results))
        self.region(named(scope), depth - 1, "yield", len(results))
        self.close(scope, results)

    def run_when(self, scope, depth):
        """A `when`, which Python calls like a value."""
        name = self.random.choice(("", " a", " f"))
        self.lines.append(f"when ({self.random.randrange(2)} == 1){name} {{")
        self.region(named(scope), depth - 1, "end")

    def define(self, scope, depth):
        """A function."""
        name, parameters = self.random.choice((*NAMES, "f")), self.random.sample(NAMES, 1)
        self.lines.append(f"def {name}({parameters[0]}: float32[8]) {{")
        within = named(scope) | dict.fromkeys(parameters, "value")
        self.region(within, depth - 1, "return", 1)
        scope.pop(name, None)
        scope[name] = "function"

    def run_fori(self, scope, depth):
        """A function, run by a `fori`."""
        name, parameter = self.random.choice((*NAMES, "f")), self.random.choice(NAMES)
        self.lines.append(f"def {name}(j: int, {parameter}: float32[8]) fori {{")
        self.region(named(scope) | {parameter: "value"}, depth - 1, "return", 1)
        scope.pop(name, None)
        self.give(scope, f"fori ({self.random.randrange(4)}) {name}({self.value(scope)})")

    def call(self, scope, _depth):
        """Of a function in scope."""
        known = [name for name, kind in scope.items() if kind == "function"]
        if known:
            name = self.random.choice(known)
            self.give(scope, f"call {name}({self.value(scope)})")


def named(scope):
    """What a region sees of the names around it."""
    return {name: kind for name, kind in scope.items() if kind != "once"}


def python(text, x):
    """What the module's function does, its jax being NumPy."""
    module = kit.compiled(text).load()

    def when(condition):
        return lambda function: function() if condition else None

    def fori_loop(start, end, body, value):
        for number in range(start, end):
            value = body(number, value)
        return value

    names, lax = vars(module), types.SimpleNamespace(fori_loop=fori_loop)
    names["jax"], names["jnp"] = types.SimpleNamespace(lax=lax), np
    names["pl"] = types.SimpleNamespace(when=when)
    y = np.full((ROWS, 8), np.nan, np.float32)
    module._k_kernel(x, y)
    return y


@pytest.mark.parametrize("part", range(10))
def test_drawn(part):
    x = np.random.default_rng(part).integers(0, 99, (4, 8)).astype(np.float32)
    for seed in range(part * SEEDS, (part + 1) * SEEDS):
        text = Drawn(seed).text()
        (expected,) = execute.run(text, x)
        found = python(text, x)
        assert np.array_equal(found, expected, equal_nan=True), f"{seed}:\n{text}"
