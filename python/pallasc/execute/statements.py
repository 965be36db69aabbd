"""Lines of a region to syntax.Stmt."""

from . import expressions as ex
from .syntax import Arg, Buffer, For, Function, Loop, LoopDim, Parameter, Pipeline, Stmt, Window

_SPACES = ("vmem", "hbm", "smem", "prefetch", "dma", "regular")


def region(lines):
    """The statements up to the closing brace."""
    found = []
    while True:
        line = lines.take()
        if line.peek() == "}":
            line.take()
            line.done()
            return found
        if line.peek() != "hand" or line.peek(1) in ("=", ","):
            found.append(statement(lines, line))


def statement(lines, line):
    """One statement, with the region that it holds."""
    column, results = line.column, []
    if line.named() and line.peek(1) in (",", "="):
        results.append(line.name())
        while line.accept(","):
            results.append(line.name())
        line.expect("=")
    stmt = Stmt(line.name("a statement"), line.number, column, results)
    _READERS.get(stmt.op, _plain)(lines, line, stmt)
    return stmt


def _end(line, stmt, brace=False):
    """Types, words and the source line that stand last; the brace that opens a region."""
    if line.accept(":") and stmt.results:
        stmt.types.append(ex.value_type(line))
        while line.accept(","):
            stmt.types.append(ex.value_type(line))
    while line.named():
        line.name()
    while line.accept("@"):
        line.at += 1
    if brace:
        line.expect("{")
    if len(stmt.types) != len(stmt.results):
        line.fail(f"{len(stmt.results)} results have {len(stmt.types)} types")
    line.done()


def _plain(lines, line, stmt):
    stmt.args, stmt.attributes = ex.arguments(line)
    _end(line, stmt)


def _debug_print(lines, line, stmt):
    stmt.detail = line.string()
    line.expect(",")
    _plain(lines, line, stmt)


def _def(lines, line, stmt):
    name = line.name()
    parameters = line.items("(", lambda: _parameter(line), ")")
    if not line.accept("fori"):
        line.accept("while")
    _end(line, stmt, brace=True)
    stmt.detail = Function(name, parameters, region(lines))


def _parameter(line):
    name = line.name()
    line.expect(":")
    if line.peek() not in _SPACES:
        type_ = ex.value_type(line)
        return Parameter(name, type_, given=line.accept("given"))
    space = line.take()  # no type is called so
    dtype = None if space in ("dma", "regular") else ex.dtype(line)
    shape = line.ints() if line.peek() == "[" else ()
    buffer = Buffer("parameter", name, space, dtype, shape, line=line.number)
    return Parameter(name, buffer=buffer)


def _call(lines, line, stmt):
    stmt.detail = line.name("a function")
    stmt.args = line.items("(", lambda: _call_argument(line), ")")
    _end(line, stmt)


def _call_argument(line):
    """An argument; `ragged=flag` gives a flag by its name."""
    column = line.column
    if line.named() and line.peek(1) == "=":
        name = line.name()
        line.expect("=")
        return Arg("flag", (name, ex.argument(line)), column)
    return ex.argument(line)


def _fori(lines, line, stmt):
    steps = ex.argument(line)
    if line.peek(1) != "(" and line.accept("unroll"):
        line.integer()
    stmt.detail = line.name("a function")
    stmt.args = [steps, *line.items("(", lambda: ex.argument(line), ")")]
    _end(line, stmt)


def _carried(line):
    """`name = initial`, `name: type = _`, and scratch: (name, initial, its place, type or None)."""
    name = line.name()
    type_ = ex.value_type(line) if line.accept(":") else None
    line.expect("=")
    initial = ex.argument(line)
    place = line.name("a scratch buffer") if line.accept("in") else None
    if line.accept("odd"):
        line.name("a scratch buffer")
    return name, initial, place, type_


def _count(line):
    """An int expression that may lack parentheses where it is a number or a name."""
    if line.accept("("):
        tree = ex.expression(line)
        line.expect(")")
        return tree
    return ("name", line.name()) if line.named() else ("int", line.integer())


def _for(lines, line, stmt):
    step = line.name("the step's name")
    line.expect("in")
    each = stmt.detail = For(step, _count(line))
    if line.accept("from"):
        each.first = _count(line)
    if line.accept("carry"):
        carried = line.items("(", lambda: _carried(line), ")")
        each.carried = [name for name, *_ in carried]
        stmt.args = [initial for _, initial, *_ in carried]
    if line.accept("slice"):
        line.name("the slice's name")
        line.integer()
    _end(line, stmt, brace=True)
    stmt.body = region(lines)


def _when(lines, line, stmt):
    stmt.args = [ex.argument(line)]
    _end(line, stmt, brace=True)
    stmt.body = region(lines)


def _if(lines, line, stmt):
    stmt.args = [ex.argument(line)]
    if line.accept("else"):
        stmt.args += line.items("(", lambda: ex.argument(line), ")")
    _end(line, stmt, brace=True)
    stmt.body = region(lines)


# ---- pipelines and loops -------------------------------------------------------------------------


def _pipeline(lines, line, stmt):
    function = line.name("a function")
    line.expect("grid")
    grid = ex.expressions(line)
    line.expect("at")
    at = line.items("(", line.name, ")")
    _end(line, stmt, brace=True)
    windows = []
    while (inner := lines.take()).peek() != "}":
        windows.append(_pipeline_window(inner))
    inner.take()
    inner.done()
    if len(at) != len(grid):
        line.fail("the grid and its point must have one rank")
    stmt.detail = Pipeline(function, grid, at, windows)


def _pipeline_window(line):
    if line.peek() not in ("in", "out"):
        line.fail("expected in or out")
    output = line.take() == "out"
    of, shape = line.name(), line.ints()
    line.expect("at")
    window = Window("", of, shape, ex.expressions(line), output=output)
    if line.accept("buffers"):
        line.integer()
        line.accept("ahead")
    line.done()
    return window


def _loop(lines, line, stmt):
    name = line.name("the name of its step")
    steps = line.items("(", line.name, ")")
    loop = stmt.detail = Loop(name, line.name("a loop type"), [])
    if line.accept("step"):
        line.name()
    if line.accept("carry"):
        carried = line.items("(", lambda: _carried(line), ")")
        loop.carried = [name for name, *_ in carried]
        loop.types = [type_ for *_, type_ in carried if type_ is not None]
        loop.places = [place for *_, place, _ in carried]
        stmt.args = [initial for _, initial, *_ in carried]
    _end(line, stmt, brace=True)
    _loop_lines(lines, loop)
    if [dim.name for dim in loop.dims] != steps:
        line.fail("its dims are not its steps")
    stmt.body = region(lines)


_LOOP_WORDS = (
    "dim",
    "peel",
    "mask",
    "skew",
    "pairs",
    "across",
    "fenced",
    "lane_sums",
    "runs",
    "unroll",
    "window",
    "next",
    "once",
    "keep",
    "before",
    "behind",
    "tail",
)


def _loop_lines(lines, loop):
    while (line := lines.peek()) is not None and line.peek(1) not in ("=", ","):
        if line.peek() not in _LOOP_WORDS:
            break
        line = lines.take()
        word = line.take()
        if word in ("before", "behind", "tail"):
            line.expect("{")
            line.done()
            loop.beside[word] = region(lines)
        elif word == "runs":
            (loop.runs,) = ex.expressions(line)
        elif word == "dim":
            loop.dims.append(_loop_dim(line))
        elif word == "window":
            loop.windows.append(_window(line))
        elif word in ("peel", "mask"):
            loop.peeled = word == "peel"
            loop.ragged = line.name() if line.named() else None
            loop.positions = word == "mask" and line.peek() is None
        elif word == "skew":
            loop.ahead = True
        elif word == "once":
            loop.once = True


def _loop_dim(line):
    dim = LoopDim(line.name(), ("int", 0))
    while line.peek() is not None:
        word = line.name()
        if word == "steps":
            dim.steps = _count(line)
        elif word in ("full", "tail", "size"):
            setattr(dim, word, line.integer())
    return dim


def _window(line):
    window = Window(line.name(), "", (), [], space=line.name("a space"))
    window.dtype, window.shape = ex.dtype(line), line.ints()
    while line.peek() is not None:
        _window_word(line, window, line.name("a word"))
    return window


def _window_word(line, window, word):
    if word == "of":
        window.of = line.name()
    elif word == "at":
        window.index = ex.expressions(line)
    elif word == "start":
        window.start = ex.expressions(line)
    elif word == "by":
        line.items("(", line.integer, ")")
    elif word == "buffers":
        line.integer()
    elif word == "scratch":
        line.name()
        line.name()
    elif word == "copy":
        line.name("what its copies are called")
    elif word == "pieces":
        window.pieces = line.integer(), line.name("the number of a piece")
    elif word == "tail":
        window.tail = line.name()
    elif word == "out":
        window.output = True
    elif word == "dma":
        window.dma = True
    elif word not in ("in", "inout"):
        line.at -= 1
        line.fail(f"unexpected {line.found()}")


_READERS = {
    "debug_print": _debug_print,
    "def": _def,
    "call": _call,
    "fori": _fori,
    "while": _call,
    "for": _for,
    "when": _when,
    "if": _if,
    "pipeline": _pipeline,
    "loop": _loop,
}
