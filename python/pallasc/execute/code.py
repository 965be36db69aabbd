"""Regions of statements as Python closures, made once: each takes the environment, a list."""

import numpy as np

from ..reference.values import INT32
from . import axes, control, effects, ops, pointwise
from .errors import ExecuteError, TextError, located
from .scopes import POINT, Memory, Scope, Value, function, integer
from .syntax import Type
from .values import literal

SCALAR_INT = Type("int", INT32)


class Code:
    """What compiles the statements of a kernel, or of the wrapper, into one environment."""

    def __init__(self, kernel=None, launch=None):
        self.kernel, self.launch = kernel, launch
        self.template = [None, ()]

    def slot(self, value=None):
        """A new slot, which holds `value` from the start."""
        self.template.append(value)
        return len(self.template) - 1

    def define(self, scope, name, type_):
        """A new value of that name; `_` names nothing. Its slot."""
        slot = self.slot()
        if name != "_":
            scope.names[name] = Value(slot, type_)
        return slot

    # ---- regions ---------------------------------------------------------------------------------

    def region(self, stmts, scope):
        """(run, last): what runs a region, and the return or yield that ends it, or None."""
        last = stmts[-1] if stmts and stmts[-1].op in ("return", "yield") else None
        steps, lines = [], {}
        for stmt in stmts[:-1] if last else stmts:
            try:
                step = self.statement(stmt, scope)
            except Exception as error:
                raise _at(error, stmt) from error
            if step is not None:
                steps.append(step)
                lines[step] = stmt.line
        return _runner(steps, lines), last

    def statement(self, stmt, scope):
        """What runs a statement; None: nothing is left to do."""
        if stmt.op in pointwise.TABLE or stmt.op in ops.BUILDERS:
            return self.pure(stmt, scope)
        for table in (INTS, axes.STATEMENTS, effects.STATEMENTS, control.STATEMENTS):
            if stmt.op in table:
                return table[stmt.op](self, stmt, scope)
        raise ExecuteError(f"unknown op {stmt.op}")

    # ---- values ----------------------------------------------------------------------------------

    def value(self, arg, scope):
        """(type, function of the environment) of an argument; type None: a number, or nothing."""
        if arg.kind == "none":
            return None, lambda e: None
        if arg.kind == "number":
            return None, lambda e: arg.value
        if arg.kind == "int":
            return SCALAR_INT, function(integer(arg.value, scope))
        if arg.kind == "ref":
            raise ExecuteError(f"{arg.value.name}[...] is no value")
        found = scope[arg.value]
        if not isinstance(found, Value):
            raise ExecuteError(f"{arg.value} is no value")
        slot = found.slot
        return found.type, lambda e: e[slot]

    def typed(self, arg, scope, type_, what):
        """A function that gives an argument as a value of that type."""
        found, get = self.value(arg, scope)
        if type_.kind in ("int", "flag"):
            return lambda e: int(get(e))
        if type_.kind not in ("tile", "scalar"):
            return get
        if found is None or (found.kind == "int" and type_.kind == "scalar"):
            if type_.kind == "tile":
                raise ExecuteError(f"{what} is a number, not {type_}")
            return lambda e: literal(get(e), type_.dtype)
        if (found.dtype, found.shape) != (type_.dtype, type_.shape):
            raise ExecuteError(f"{what} is {found}, not {type_}")
        return get

    def condition(self, arg, scope):
        """A function that gives a condition."""
        _, get = self.value(arg, scope)
        return lambda e: bool(get(e))

    def results(self, stmt, scope):
        """What gives a statement's results their values; defines their names."""
        slots = [
            self.define(scope, name, type_)
            for name, type_ in zip(stmt.results, stmt.types, strict=True)
        ]
        keep = [keeper(slot, type_) for slot, type_ in zip(slots, stmt.types, strict=True)]

        def store(e, values):
            for one, value in zip(keep, values, strict=True):
                one(e, value)

        return store

    def pure(self, stmt, scope):
        """A statement whose one result is of its arguments and nothing else."""
        (type_,) = stmt.types
        values = [self.value(arg, scope) for arg in stmt.args]
        slots, gets = self.operands(stmt, scope, values)
        if stmt.op in pointwise.TABLE:
            found = [_operand(arg, t) for arg, (t, _) in zip(stmt.args, values, strict=True)]
            run, numbers = pointwise.build(stmt.op, found, type_.dtype or INT32)
            for i, number in numbers.items():
                slots[i] = self.slot(number)
        else:
            types = tuple(t for t, _ in values)
            run = ops.BUILDERS[stmt.op](ops.Case(type_, types, stmt.attributes))
        result = self.define(scope, stmt.results[0], type_)
        keep = keeper(result, type_)
        if None in slots:
            gets = [get if s is None else _slot(s) for s, get in zip(slots, gets, strict=True)]
            return lambda e: keep(e, run(*[get(e) for get in gets]))
        return _kept(run, slots, result, type_)

    def operands(self, stmt, scope, values):
        """Slots of a statement's arguments, None where one is computed, and functions of all."""
        slots, gets = [], []
        for arg, (type_, get) in zip(stmt.args, values, strict=True):
            if type_ is SCALAR_INT or (type_ is not None and type_.kind == "int"):
                wide = stmt.op in pointwise.TABLE
                slots.append(None)
                gets.append((lambda e, get=get: np.int32(get(e))) if wide else get)
                continue
            if arg.kind == "name":
                slots.append(scope[arg.value].slot)
            else:
                slots.append(self.slot(arg.value if arg.kind == "number" else None))
            gets.append(get)
        return slots, gets


def _slot(slot):
    return lambda e: e[slot]


def _operand(arg, type_):
    if type_ is None:
        return pointwise.Operand(number=arg.value)
    if type_.kind == "int":
        return pointwise.Operand(INT32, integer=True)
    if type_.kind == "flag":
        return pointwise.Operand(np.dtype(bool))
    return pointwise.Operand(type_.dtype)


def _at(error, stmt):
    if isinstance(error, TextError) or getattr(error, "line", None) is not None:
        return error
    if isinstance(error, ExecuteError):
        return TextError(str(error), stmt.line, stmt.column)
    return TextError(f"{type(error).__name__}: {error}", stmt.line, stmt.column)


def _runner(steps, lines):
    def run(e):
        for step in steps:
            try:
                step(e)
            except Exception as error:
                raise located(error, lines[step]) from error

    return run


# ---- results -------------------------------------------------------------------------------------


def keeper(slot, type_):
    """What puts a result into its slot, once it is of the type that is stated."""
    if type_.kind == "int":
        return lambda e, value: e.__setitem__(slot, int(value))
    if type_.kind == "flag":
        return lambda e, value: e.__setitem__(slot, bool(value))
    if type_.kind not in ("tile", "scalar"):
        return lambda e, value: e.__setitem__(slot, value)
    dtype, shape, number = type_.dtype, type_.shape, type_.kind == "scalar"

    def keep(e, value):
        if number and isinstance(value, (bool, int, float)):
            value = literal(value, dtype)
        if value.dtype != dtype or value.shape != shape:
            raise _mismatch(value, type_)
        e[slot] = value

    return keep


def _mismatch(value, type_):
    dims = f"[{', '.join(map(str, value.shape))}]" if value.shape else ""
    return ExecuteError(f"{value.dtype.name}{dims} was computed, {type_} is stated")


def _kept(run, slots, result, type_):
    """keeper() of run() of slots, with as few calls as there can be."""
    dtype, shape = type_.dtype, type_.shape
    if type_.kind not in ("tile", "scalar"):
        keep = keeper(result, type_)
        return lambda e: keep(e, run(*[e[s] for s in slots]))
    if len(slots) == 1:
        (a,) = slots

        def step(e):
            value = run(e[a])
            if value.dtype != dtype or value.shape != shape:
                raise _mismatch(value, type_)
            e[result] = value

    elif len(slots) == 2:
        a, b = slots

        def step(e):
            value = run(e[a], e[b])
            if value.dtype != dtype or value.shape != shape:
                raise _mismatch(value, type_)
            e[result] = value

    else:

        def step(e):
            value = run(*[e[s] for s in slots])
            if value.dtype != dtype or value.shape != shape:
                raise _mismatch(value, type_)
            e[result] = value

    return step


# ---- ints ----------------------------------------------------------------------------------------


def _int(code, stmt, scope):
    _, get = code.value(stmt.args[0], scope)
    keep = code.results(stmt, scope)
    return lambda e: keep(e, (np.int32(get(e)),))


def _program_id(code, stmt, scope):
    dim = stmt.attributes.get("dim", 0)
    keep = code.results(stmt, scope)

    def run(e):
        if dim >= len(e[POINT]):
            raise ExecuteError(f"the grid has {len(e[POINT])} dims")
        keep(e, (np.int32(e[POINT][dim]),))

    return run


def _device(attribute):
    def build(code, stmt, scope):
        keep = code.results(stmt, scope)
        return lambda e: keep(e, (np.int32(getattr(e[0], attribute)),))

    return build


INTS = {
    "int": _int,
    "program_id": _program_id,
    "device_id": _device("number"),
    "core_id": _device("core"),
    "subcore_id": _device("subcore"),
}


def kernel_scope(code, kernel):
    """The names of a kernel's buffers."""
    scope = Scope()
    for buffer in kernel.buffers:
        scope.names[buffer.name] = Memory(code.slot(), buffer)
    return scope
