"""Kernel text to syntax.Program: docs/kernel.md. Raises TextError with line and column."""

import json

from . import expressions as ex
from .errors import TextError
from .lexer import Line
from .statements import region
from .syntax import Array, Buffer, Held, Kernel, Program

# The order of the grid and of a point; what the compiler may leave out.
_FLAGS = (
    *("turns", "unchecked", "turn_once", "unmasked", "narrow", "chunks", "pieces"),
    "first_chunks",
)
_SIGNATURE = (
    *("grid", "in", "out", "scratch", "vmem_limit", "mesh", "collective_id", "sparse_core"),
    *("held", "strips", "cost_estimate", "line"),
    *_FLAGS,
)


class Lines:
    """The lines of a text that say anything, in order."""

    def __init__(self, text):
        self.raw, self.at = text.splitlines(), 0

    def peek(self):
        """The next line, unread; None behind the last."""
        while self.at < len(self.raw):
            bare = self.raw[self.at].strip()
            if bare and not bare.startswith("#"):
                return Line(self.raw[self.at], self.at + 1)
            self.at += 1
        return None

    def take(self):
        """The next line."""
        line = self.peek()
        if line is None:
            raise TextError("the text ends too early", max(len(self.raw), 1))
        self.at += 1
        return line

    def word(self):
        """The first word of the next line."""
        while self.at < len(self.raw) and (
            not self.raw[self.at].strip() or self.raw[self.at].lstrip().startswith("#")
        ):
            self.at += 1
        words = self.raw[self.at].split(None, 1) if self.at < len(self.raw) else []
        return words[0] if words else None

    def skip(self):
        """Past the next line, whatever it says; its text."""
        self.at += 1
        return self.raw[self.at - 1]


_HEAD = "input, output, config, sizes, axes, cost, vmem, estimate, kernel or host"


def parse(text):
    """The Program that a text is."""
    lines = Lines(text)
    line = lines.take()
    line.expect("program")
    program = Program(line.name(), "")
    if line.accept("for"):
        program.target = line.name()
    while (word := lines.word()) is not None:
        if word == "config":
            program.config = _config(lines)
            continue
        if word in ("sizes", "cost", "vmem", "estimate"):
            lines.skip()
            continue
        line = lines.take()
        line.take()
        if word == "input":
            program.inputs.append(_array(line))
        elif word == "output":
            program.outputs.append(_array(line))
        elif word == "axes":
            while line.at < len(line.tokens):
                axis = line.name()
                program.axes[axis] = line.integer()
        elif word == "kernel":
            program.kernels.append(_kernel(lines, line))
        elif word.startswith("host"):
            _host(lines, line, program)
        else:
            line.at = 0
            line.fail(f"expected {_HEAD}")
    if program.host is None:
        raise TextError("there is no host(...)", len(lines.raw))
    return program


def _config(lines):
    text = lines.skip().lstrip().removeprefix("config")
    try:
        return json.loads("{" + text + "}")
    except ValueError as error:
        raise TextError(f"config holds no members of a JSON object: {error}", lines.at) from None


def _array(line):
    name, dtype = line.name(), ex.dtype(line)
    return Array(name, dtype, line.ints() if line.peek() == "[" else None)


def _host(lines, line, program):
    program.host_line = line.number
    program.parameters = line.items("(", line.name, ")")
    line.expect("{")
    line.done()
    program.host = region(lines)


# ---- signatures ----------------------------------------------------------------------------------


def _kernel(lines, line):
    kernel = Kernel(line.name(), line.number)
    line.expect("{")
    line.done()
    while True:
        following = lines.peek()
        if following is None or following.peek() not in _SIGNATURE:
            break
        if following.peek(1) in ("=", ","):
            break
        _signature(kernel, lines.take())
    kernel.body = region(lines)
    return kernel


def _signature(kernel, line):
    word = line.take()
    if word in ("cost_estimate", "line"):  # what is only told
        return
    if word == "grid":
        kernel.grid.append((line.name(), line.integer()))
        if line.peek() not in ("parallel", "arbitrary"):
            line.fail("expected parallel or arbitrary")
        line.take()
    elif word in ("in", "out"):
        kernel.buffers.append(_operand(line, word))
    elif word == "scratch":
        kernel.buffers.append(_scratch(line))
    elif word == "held":
        kernel.held.append(_held(line))
    elif word in _FLAGS:
        pass
    elif word == "strips":
        line.integer(), line.integer()  # how rows are computed
        if line.accept("spread"):
            line.integer()
    elif word == "mesh":
        kernel.mesh, kernel.devices = line.name(), line.integer()
    elif word == "sparse_core":
        kernel.sparse_core = line.integer(), line.integer()
    else:
        setattr(kernel, word, line.integer())
    line.done()


def _operand(line, role):
    buffer = Buffer(role, line.name(), line.name("a space"), None, (), line=line.number)
    if buffer.space not in ("vmem", "hbm", "smem", "prefetch"):
        line.at -= 1
        line.fail("expected vmem, hbm, smem or prefetch")
    buffer.dtype, buffer.shape = ex.dtype(line), line.ints()
    if line.accept("of"):
        buffer.array = line.ints()
    if line.accept("at"):
        buffer.index = ex.expressions(line)
        buffer.array = buffer.array or buffer.shape
        if not len(buffer.array) == len(buffer.index) == len(buffer.shape):
            line.fail("block, array and index must have one rank")
    if line.accept("buffers"):
        buffer.buffers = line.integer()
        line.accept("ahead")
    line.accept("fused")
    if line.accept("alias"):
        buffer.alias = line.name()
    line.accept("half")
    return buffer


def _held(line):
    held = Held(line.name(), line=line.number)
    while not line.accept("over"):
        word = line.name("fill, copy, sums or over")
        if word == "fill":
            held.fill = ex.number(line)
        elif word == "copy":
            held.source = line.name()
        elif word == "sums":
            held.sums = line.name()
        else:
            line.at -= 1
            line.fail(f"unexpected {line.found()}")
    held.over = tuple(line.items("(", line.integer, ")"))
    return held


def _scratch(line):
    buffer = Buffer("scratch", line.name(), line.name("a space"), None, (), line=line.number)
    if buffer.space not in ("dma", "regular"):
        buffer.dtype = ex.dtype(line)
    buffer.shape = line.ints() if line.peek() == "[" else ()
    return buffer
