"""Statements that read or write memory, copies and semaphores."""

import numpy as np

from .copies import Copy, send, wait_recv, wait_send
from .errors import ExecuteError
from .memory import place
from .scopes import DEVICE, Value
from .values import literal

# ---- memory --------------------------------------------------------------------------------------


def located_place(code, arg, scope):
    """The Place that an argument names."""
    if arg.kind != "ref":
        raise ExecuteError("a reference is needed")
    return place(arg.value, scope)


def _register_place(code, arg, scope):
    found = located_place(code, arg, scope)
    if found.space not in ("vmem", "smem", "prefetch"):
        raise ExecuteError(f"{found.space} is not loaded from or stored to: it is copied")
    return found


def _load(code, stmt, scope):
    view = _register_place(code, stmt.args[0], scope).view
    keep = code.results(stmt, scope)
    if stmt.types[0].kind == "tile":
        return lambda e: keep(e, (view(e).copy(),))
    return lambda e: keep(e, (view(e)[()],))


def _store(code, stmt, scope):
    target = _register_place(code, stmt.args[0], scope)
    view, dtype = target.view, target.dtype
    type_, get = code.value(stmt.args[1], scope)
    if type_ is None or type_.kind in ("int", "flag"):
        number = get
        get = lambda e: literal(number(e), dtype)  # noqa: E731
    elif (type_.dtype, type_.shape) != (dtype, target.shape):
        dims = f"{dtype.name}{list(target.shape)}"
        raise ExecuteError(f"{type_} is stored to {dims}")

    def run(e):
        region = view(e)
        flights = e[DEVICE].flights
        if flights:
            flights.check_write(region)
        region[...] = get(e)

    return run


# ---- copies --------------------------------------------------------------------------------------


def _ends(code, stmt, scope):
    source, target = (located_place(code, arg, scope) for arg in stmt.args[:2])
    if (source.dtype, source.shape) != (target.dtype, target.shape):
        raise ExecuteError(
            f"{source.dtype.name}{list(source.shape)} is copied to "
            f"{target.dtype.name}{list(target.shape)}"
        )
    return source.view, target.view


def _semaphore(code, arg, scope, space):
    found = located_place(code, arg, scope)
    if found.space != space or found.shape:
        raise ExecuteError(f"one {space} semaphore is needed")
    return found.view


def _copy(code, stmt, scope):
    source, target = _ends(code, stmt, scope)
    semaphore = _semaphore(code, stmt.args[2], scope, "dma")
    keep = code.results(stmt, scope)
    return lambda e: keep(e, (Copy(source(e), target(e), semaphore(e)),))


def _gather_copy(code, stmt, scope):
    source, rows, target = (located_place(code, arg, scope) for arg in stmt.args[:3])
    if (source.dtype, (*rows.shape, *source.shape[1:])) != (target.dtype, target.shape):
        raise ExecuteError(
            f"{len(rows.shape) and rows.shape[0]} rows of {source.dtype.name}{list(source.shape)} "
            f"are copied to {target.dtype.name}{list(target.shape)}"
        )
    semaphore = _semaphore(code, stmt.args[3], scope, "dma")
    keep, views = code.results(stmt, scope), (source.view, target.view, semaphore)
    return lambda e: keep(e, (Copy(*(view(e) for view in views), rows=rows.view(e)),))


def _remote_copy(code, stmt, scope):
    source, target = _ends(code, stmt, scope)
    there, here = (_semaphore(code, arg, scope, "dma") for arg in stmt.args[2:4])
    _, device = code.value(stmt.args[4], scope)
    keep = code.results(stmt, scope)
    return lambda e: keep(e, (Copy(source(e), target(e), here(e), there(e), int(device(e))),))


def _of_copy(act):
    """A statement whose argument is a copy."""

    def build(code, stmt, scope):
        type_, get = code.value(stmt.args[0], scope)
        if type_ is None or type_.kind != "copy":
            raise ExecuteError("a copy is needed")
        return lambda e: act(e[DEVICE], get(e), stmt.line)

    return build


def _start(device, copy, line):
    if copy.there is None:
        device.flights.start(copy, line)
    else:
        send(device, copy, line)


def _wait(device, copy, line):
    if copy.there is None:
        device.flights.wait(copy)
    else:
        wait_send(device, copy)
        wait_recv(device, copy)


# ---- semaphores ----------------------------------------------------------------------------------


def _counted(code, arg, scope):
    """A semaphore that is counted, a 0-d view: of a buffer, or the barrier's."""
    if arg.kind == "name" and isinstance(scope[arg.value], Value):
        return code.value(arg, scope)[1]
    return _semaphore(code, arg, scope, "regular")


def _signal(code, stmt, scope):
    semaphore = _counted(code, stmt.args[0], scope)
    _, by = code.value(stmt.args[1], scope)
    target = stmt.args[2] if len(stmt.args) > 2 and stmt.args[2].kind != "none" else None
    _, to = code.value(target, scope) if target else (None, None)

    def run(e):
        device = e[DEVICE]
        view = semaphore(e)
        if to is not None:
            view = device.peer(int(to(e))).mirror(device, view)
        view += int(by(e))

    return run


def _semaphore_wait(code, stmt, scope):
    semaphore = _counted(code, stmt.args[0], scope)
    _, count = code.value(stmt.args[1], scope)

    def run(e):
        view, wanted = semaphore(e), int(count(e))
        e[DEVICE].block(lambda: view >= wanted, f"a semaphore that is {int(view)} of {wanted}")
        view -= wanted

    return run


def _barrier(code, stmt, scope):
    if code.kernel is None or code.kernel.collective_id is None:
        raise ExecuteError("the kernel has no collective_id")
    keep = code.results(stmt, scope)
    return lambda e: keep(e, (e[DEVICE].barrier,))


# ---- told while it runs --------------------------------------------------------------------------


def _debug_print(code, stmt, scope):
    """What the printed module's _debug_print and _debug_print_all print, in one line."""
    (_, get), *point = (code.value(arg, scope) for arg in stmt.args)
    whole = stmt.attributes["whole"]

    def run(e):
        at = [int(number(e)) for _, number in point]
        print(*_told(stmt.detail, np.asarray(get(e)), at, whole))

    return run


def _told(text, x, at, whole):
    if x.ndim == 0:
        return f"{text} value:", *at, x
    if whole:
        return f"{text}:", *at, x
    if x.dtype != np.float32:
        return f"{text} min max first:", *at, x.min(), x.max(), x.flat[0]
    known = np.isnan(x)
    least, most = x.min(where=~known, initial=np.inf), x.max(where=~known, initial=-np.inf)
    return f"{text} min max nan first:", *at, least, most, int(known.sum()), x.flat[0]


STATEMENTS = {
    "debug_print": _debug_print,
    "load": _load,
    "store": _store,
    "copy": _copy,
    "gather_copy": _gather_copy,
    "remote_copy": _remote_copy,
    "start": _of_copy(_start),
    "wait": _of_copy(_wait),
    "wait_send": _of_copy(lambda device, copy, line: wait_send(device, copy)),
    "wait_recv": _of_copy(lambda device, copy, line: wait_recv(device, copy)),
    "signal": _signal,
    "semaphore_wait": _semaphore_wait,
    "barrier_semaphore": _barrier,
}
