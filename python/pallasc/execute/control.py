"""Statements that hold or call regions: functions, loops, conditions, pipelines, launches."""

import itertools
from dataclasses import dataclass

import numpy as np

from .blocks import Blocks
from .effects import located_place
from .errors import ExecuteError
from .memory import cut, inside, place, whole
from .scopes import DEVICE, POINT, Memory, Scope, Window, function, integer
from .syntax import Arg, Buffer, Type

INT = Type("int")


@dataclass(frozen=True)
class Callee:
    """A function that stands before: what runs it, and the slots of its parameters."""

    name: str
    parameters: tuple  # (Parameter, slot)
    run: object
    give: object
    types: tuple

    def paired(self, args):
        """(parameter, slot, argument) of each: flags that a call leaves out have none."""
        left = self.parameters[len(args) :]
        if all(_is_flag(parameter) for parameter, _ in left):
            args = [*args, *[Arg("none")] * len(left)]
        if len(args) != len(self.parameters):
            count = len(self.parameters)
            raise ExecuteError(f"{self.name} takes {count} arguments, not {len(args)}")
        return [(p, slot, arg) for (p, slot), arg in zip(self.parameters, args, strict=True)]


def _is_flag(parameter):
    return parameter.type is not None and parameter.type.kind == "flag" and not parameter.given


# ---- functions -----------------------------------------------------------------------------------


def _def(code, stmt, scope):
    source, inner, parameters = stmt.detail, Scope(scope), []
    for parameter in source.parameters:
        if parameter.buffer is None:
            slot = code.define(inner, parameter.name, parameter.type)
        else:
            slot = code.slot()
            inner.names[parameter.name] = Memory(slot, parameter.buffer)
        parameters.append((parameter, slot))
    run, last = code.region(source.body, inner)
    give, types = _given(code, last, inner)
    scope.names[source.name] = Callee(source.name, tuple(parameters), run, give, types)


def _given(code, last, scope):
    """(function that gives what a return or yield names, the types), in the region's scope."""
    if last is None:
        return (lambda e: ()), ()
    found = [code.value(arg, scope) for arg in last.args]
    gets = [get for _, get in found]
    types = tuple(t for t, _ in found)
    if len(gets) == 1:
        (only,) = gets
        return (lambda e: (only(e),)), types
    return (lambda e: tuple([get(e) for get in gets])), types


def _bound(code, parameter, arg, scope):
    """A function that gives a parameter's value for an argument."""
    if _is_flag(parameter):
        return _flag(code, parameter, arg, scope)
    if parameter.buffer is None:
        return code.typed(arg, scope, parameter.type, f"the argument for {parameter.name}")
    found, wanted = located_place(code, arg, scope), parameter.buffer
    if (found.dtype, found.shape) != (wanted.dtype, wanted.shape):
        raise ExecuteError(
            f"{parameter.name} is {_buffer_text(found)}, {_buffer_text(wanted)} is stated"
        )
    return found.view


def _flag(code, parameter, arg, scope):
    if arg.kind == "flag" and arg.value[0] == parameter.name:
        return code.condition(arg.value[1], scope)
    if arg.kind == "name" and arg.value == parameter.name:  # set, whatever else has that name
        return lambda e: True
    if arg.kind != "none":
        raise ExecuteError(f"the flag here is {parameter.name}")
    return lambda e: False


def _buffer_text(buffer):
    dtype = buffer.dtype.name if buffer.dtype else "semaphores"
    return f"{dtype}{list(buffer.shape)}"


def _call(code, stmt, scope):
    callee = scope.find(stmt.detail, Callee, "function")
    paired = callee.paired(stmt.args)
    gets = [_bound(code, p, arg, scope) for p, _, arg in paired]
    slots = [slot for _, slot, _ in paired]
    _check_count(callee, len(stmt.results))
    keep, run, give = code.results(stmt, scope), callee.run, callee.give

    def call(e):
        values = [get(e) for get in gets]
        for slot, value in zip(slots, values, strict=True):
            e[slot] = value
        run(e)
        keep(e, give(e))

    return call


def _check_count(callee, count):
    if len(callee.types) != count:
        raise ExecuteError(f"{callee.name} gives {len(callee.types)} results, not {count}")


def _fori(code, stmt, scope):
    callee = scope.find(stmt.detail, Callee, "function")
    (_, step), *carried = callee.parameters
    if len(carried) != len(stmt.args) - 1:
        raise ExecuteError(f"{callee.name} carries {len(carried)} values")
    _, count = code.value(stmt.args[0], scope)
    gets = [_bound(code, p, arg, scope) for (p, _), arg in zip(carried, stmt.args[1:], strict=True)]
    slots = [slot for _, slot in carried]
    keeps = _keepers([p.type for p, _ in carried], slots)
    _check_count(callee, len(slots))
    keep, run, give = code.results(stmt, scope), callee.run, callee.give

    def fori(e):
        values = [get(e) for get in gets]
        for number in range(int(count(e))):
            _hand(e, keeps, values)
            e[step] = number
            run(e)
            values = give(e)
        keep(e, values)

    return fori


def _while(code, stmt, scope):
    callee = scope.find(stmt.detail, Callee, "function")
    gets = [_bound(code, p, arg, scope) for p, _, arg in callee.paired(stmt.args)]
    keeps = _keepers([p.type for p, _ in callee.parameters], [s for _, s in callee.parameters])
    _check_count(callee, len(stmt.results))
    keep, run, give = code.results(stmt, scope), callee.run, callee.give

    def loop(e):
        values = [get(e) for get in gets]
        while values[0]:
            _hand(e, keeps, values)
            run(e)
            values = give(e)
        keep(e, values)

    return loop


def _keepers(types, slots):
    from .code import keeper

    return [keeper(slot, type_) for slot, type_ in zip(slots, types, strict=True)]


def _hand(e, keeps, values):
    for keep, value in zip(keeps, values, strict=True):
        keep(e, value)


# ---- straight code -------------------------------------------------------------------------------


def _for(code, stmt, scope):
    each, inner = stmt.detail, Scope(scope)
    step = code.define(inner, each.step, INT)
    first = function(integer(each.first, scope))
    slots = [code.define(inner, n, t) for n, t in zip(each.carried, stmt.types, strict=True)]
    end = function(integer(each.end, scope))
    gets = [
        code.typed(arg, scope, t, f"what {name} starts as")
        for arg, t, name in zip(stmt.args, stmt.types, each.carried, strict=True)
    ]
    run, last = code.region(stmt.body, inner)
    give, _ = _given(code, last, inner)
    keeps, keep = _keepers(stmt.types, slots), code.results(stmt, scope)

    def loop(e):
        values = [get(e) for get in gets]
        for number in range(first(e), end(e)):
            _hand(e, keeps, values)
            e[step] = number
            run(e)
            values = give(e)
        keep(e, values)

    return loop


def _when(code, stmt, scope):
    condition = code.condition(stmt.args[0], scope)
    run, _ = code.region(stmt.body, Scope(scope))

    def when(e):
        if condition(e):
            run(e)

    return when


def _if(code, stmt, scope):
    condition, inner = code.condition(stmt.args[0], scope), Scope(scope)
    run, last = code.region(stmt.body, inner)
    give, _ = _given(code, last, inner)
    others = [
        code.typed(arg, scope, t, "what is behind else")
        for arg, t in zip(stmt.args[1:], stmt.types, strict=True)
    ]
    keep = code.results(stmt, scope)

    def decide(e):
        if condition(e):
            run(e)
            keep(e, give(e))
        else:
            keep(e, [get(e) for get in others])

    return decide


def _queue(code, stmt, scope):
    keep = code.results(stmt, scope)
    return lambda e: keep(e, ([],))


def _push(code, stmt, scope):
    _, queue = code.value(stmt.args[0], scope)
    gets = [code.value(arg, scope)[1] for arg in stmt.args[1:]]
    return lambda e: queue(e).append([get(e) for get in gets])


def _pop(code, stmt, scope):
    _, queue = code.value(stmt.args[0], scope)
    keep = code.results(stmt, scope)

    def pop(e):
        if not queue(e):
            raise ExecuteError("nothing waits in the queue")
        keep(e, queue(e).pop(0))

    return pop


# ---- grids in the kernel -------------------------------------------------------------------------


def _pipeline(code, stmt, scope):
    pipeline = stmt.detail
    callee = scope.find(pipeline.function, Callee, "function")
    if len(callee.parameters) != len(pipeline.windows):
        raise ExecuteError(f"{callee.name} takes {len(callee.parameters)} windows")
    grid = [function(integer(size, scope)) for size in pipeline.grid]
    inner = Scope(scope)
    at = [code.define(inner, name, INT) for name in pipeline.at]
    blocks = [
        _window_blocks(window, parameter, slot, inner)
        for window, (parameter, slot) in zip(pipeline.windows, callee.parameters, strict=True)
    ]
    run = callee.run

    def drive(e):
        outer, held = e[POINT], [block.new() for block in blocks]
        for point in itertools.product(*[range(size(e)) for size in grid]):
            e[POINT] = point
            for slot, number in zip(at, point, strict=True):
                e[slot] = number
            for block in held:
                block.move(e)
            run(e)
        for block in held:
            block.finish(e)
        e[POINT] = outer

    return drive


def _window_blocks(window, parameter, slot, scope):
    operand = place(whole(window.of), scope)
    buffer = parameter.buffer
    if buffer is None or (buffer.dtype, buffer.shape) != (operand.dtype, window.shape):
        raise ExecuteError(f"{parameter.name} is not the window of {window.of}")
    index = [function(integer(i, scope)) for i in window.index]
    return Blocks(operand.view, window.shape, index, slot, window.output)


def _loop(code, stmt, scope):
    """Step by step: the windows are cut where they stand, or parts of what is there."""
    loop, inner, types = stmt.detail, Scope(scope), [*stmt.types, *stmt.detail.types]
    gets = [
        code.typed(arg, scope, t, "what a loop starts with")
        for arg, t in zip(stmt.args, types, strict=True)
        if arg.kind != "none"
    ]
    back, ragged = code.slot(), code.slot()
    if loop.ragged:
        ragged = code.define(inner, loop.ragged, Type("flag"))
    own = Scope(inner)
    steps = [code.define(own, dim.name, INT) for dim in loop.dims]
    for window in loop.windows:
        memory = _loop_window(code, window, loop, own, steps[0], back)
        inner.names[window.name] = own.names[window.name] = memory
    windows = [own.names[w.name] for w in loop.windows] if loop.runs is None else []
    regions = {"before": _part(code, loop.beside.get("before"), inner)}
    left = [place(whole(name), scope) for name in loop.places[len(gets) :] if loop.once]
    slots = []
    for name, t in zip(loop.carried, types, strict=True):
        slots.append(code.define(inner, name, t))
        own.names[name] = inner.names[name]
    regions |= {word: _part(code, loop.beside.get(word), inner) for word in ("behind", "tail")}
    body = _part(code, stmt.body, own)
    keeps, keep = _keepers(types, slots), code.results(stmt, scope)
    counts = [dim.steps for dim in loop.dims] if loop.runs is None else [loop.runs]
    counts = [function(integer(count, scope)) for count in counts]

    def run(e, part, values, masked=False):
        _hand(e, keeps[: len(values)], values)
        e[back], e[ragged] = [], masked
        for window in windows if part is body else ():
            e[window.slot] = window.view(e, None)
        part[0](e)
        for put in e[back]:
            put(e)
        return part[1](e)

    def step(e, point, values, masked):
        for slot, number in zip(steps, point, strict=True):
            e[slot] = number
        return run(e, body, values, masked)

    def drive(e):
        values = [get(e) for get in gets]
        sizes = [count(e) for count in counts]
        if loop.once and any(e[POINT]):
            values += [found.view(e).copy() for found in left]
        elif regions["before"]:
            values += run(e, regions["before"], [])
        while not counts and values[0]:
            values = run(e, body, values)
        for point in itertools.product(*map(range, sizes)) if counts else ():
            last = point == tuple(size - 1 for size in sizes)
            first = loop.ahead and loop.positions and not any(point)
            flagged = (first or last) and loop.runs is None and not loop.peeled
            values = step(e, point, values, flagged)
        if regions["behind"]:
            values = run(e, regions["behind"], values)
        if regions["tail"]:
            values = run(e, regions["tail"], values, True)
        elif loop.peeled:
            values = step(e, (loop.last,), values, True)
        keep(e, values)

    return drive


def _part(code, statements, scope):
    """What runs a region, and what gives what it yields; None where there is none."""
    if statements is None:
        return None
    inner = Scope(scope)
    run, last = code.region(statements, inner)
    return run, _given(code, last, inner)[0]


def _loop_window(code, window, loop, scope, step, back):
    """The Window: at a step, or where the loop is; what is to be put back goes into a slot."""
    operand = place(whole(window.of), scope)
    tail = place(whole(window.tail), scope) if window.tail else None
    for found in (operand, tail):
        if found and found.dtype != window.dtype:
            raise ExecuteError(f"{window.name} is not of the dtype of {window.of}")
    if tail and tail.shape != window.shape:
        raise ExecuteError(f"{window.tail} is not of the shape of {window.name}")
    piece = code.define(scope, window.pieces[1], INT) if window.pieces else None
    if window.start is not None:
        start = [function(integer(i, scope)) for i in window.start]
    elif not window.index:
        start = [lambda e: 0] * len(window.shape)
    else:
        sizes = zip(window.index, window.shape, strict=True)
        start = [function(integer(("*", i, ("int", size)), scope)) for i, size in sizes]
    clipped = window.dma and "pipeline" in loop.how
    last = loop.last

    def cut_pieces(e):
        dim, parts = window.pieces[0], []
        shape = [1 if i == dim else n for i, n in enumerate(window.shape)]
        for e[piece] in range(window.shape[dim]):
            parts.append(cut_part(e, shape))
        return np.concatenate(parts, dim)

    def cut_here(e):
        return cut_pieces(e) if window.pieces else cut_part(e, window.shape)

    def cut_part(e, shape):
        array, at = operand.view(e), [i(e) for i in start]
        ends = zip(at, shape, array.shape, strict=True)
        if all(0 <= i <= n - size for i, size, n in ends):
            return array[tuple(slice(i, i + n) for i, n in zip(at, shape, strict=True))]
        if not clipped:
            raise ExecuteError(f"{window.name} at {at} is outside of {list(array.shape)}")
        block = cut(array, at, shape)
        if window.output:
            e[back].append(lambda e: _put(array, at, block))
        return block

    def view(e, number):
        number = e[step] if number is None else number
        if tail is not None and number == last:
            return tail.view(e)
        before, e[step] = e[step], number
        block = cut_here(e)
        e[step] = before
        return block

    return Window(
        code.slot(),
        Buffer("parameter", window.name, window.space, window.dtype, window.shape),
        view,
    )


def _put(array, at, block):
    part, here = inside(array, at, block.shape)
    part[...] = block[here]


# ---- the wrapper ---------------------------------------------------------------------------------


def _launch(code, stmt, scope):
    if code.launch is None:
        raise ExecuteError("a kernel launches no kernel")
    number = stmt.attributes.get("kernel", 0)
    if not 0 <= number < len(code.launch):
        raise ExecuteError(f"there is no kernel {number}")
    kernel = code.launch[number]
    operands = kernel.inputs()
    if len(operands) != len(stmt.args):
        raise ExecuteError(f"{kernel.name} takes {len(operands)} arrays, not {len(stmt.args)}")
    gets = [
        code.typed(arg, scope, Type("tile", b.dtype, kernel.array_shape(b)), f"{b.name}")
        for arg, b in zip(stmt.args, operands, strict=True)
    ]
    keep = code.results(stmt, scope)
    return lambda e: keep(e, kernel.launch(e[DEVICE], [get(e) for get in gets]))


STATEMENTS = {
    "def": _def,
    "call": _call,
    "fori": _fori,
    "while": _while,
    "for": _for,
    "when": _when,
    "if": _if,
    "queue": _queue,
    "push": _push,
    "pop": _pop,
    "pipeline": _pipeline,
    "loop": _loop,
    "launch": _launch,
}
