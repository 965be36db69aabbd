"""Kernel text as data: what parse.py makes, statement by statement, before anything is resolved.

Integer expressions are tuples: ("int", 3), ("name", "j"), ("at", "table", indices), and an operator
or function with its arguments: ("+", a, b), ("neg", a), ("turn", row, step, steps).
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Type:
    """Of a value. kind: tile, scalar, int, flag, copy, queue; dtype and shape: of the first two."""

    kind: str
    dtype: object = None
    shape: tuple = ()
    layout: str = ""

    def __str__(self):
        if self.kind not in ("tile", "scalar"):
            return self.kind
        dims = f"[{', '.join(map(str, self.shape))}]" if self.kind == "tile" else ""
        return f"{self.dtype.name}{dims}"


@dataclass(frozen=True)
class Dim:
    """One dim of a reference: kind is all, at, range, part."""

    kind: str
    start: tuple = ("int", 0)
    size: int = 1
    parts: int = 0
    multiple: int = 0


@dataclass(frozen=True)
class Ref:
    """A part of a buffer; dims None: all of it."""

    name: str
    dims: tuple | None
    at: tuple | None = None  # of a loop's window: the step


@dataclass(frozen=True)
class Arg:
    """Kind is none, name (a value, buffer or flag), number, int (an expression), ref, flag."""

    kind: str
    value: object = None
    column: int = 1


@dataclass
class Buffer:
    """Of a signature, or a parameter. role: in, out, scratch, parameter."""

    role: str
    name: str
    space: str
    dtype: object
    shape: tuple
    array: tuple | None = None
    index: list | None = None
    buffers: int = 2
    alias: str | None = None
    line: int = 0


@dataclass
class Held:
    """What the first and the last of the grid points that find a block are still to do.

    The first fills it, or copies the block `source`; `sums` is the scratch that they add up in, if
    any, which the last rounds into the block. `over`: the grid's dims whose steps find the same.
    """

    buffer: str
    fill: float | None = None
    source: str | None = None
    sums: str | None = None
    over: tuple = ()
    line: int = 0


@dataclass
class Parameter:
    """Of a function: a buffer, or a value. A flag that is not `given` is unset unless named."""

    name: str
    type: Type | None = None
    buffer: Buffer | None = None
    given: bool = False


@dataclass
class Function:
    """A `def`."""

    name: str
    parameters: list
    body: list


@dataclass
class Window:
    """Of a loop that no driver runs, or of a pipeline."""

    name: str
    of: str
    shape: tuple
    index: list
    start: list | None = None
    output: bool = False
    dma: bool = False
    tail: str | None = None
    pieces: tuple | None = None  # a dim, and the name of the number of each position along it
    space: str = "vmem"
    dtype: object = None


@dataclass
class LoopDim:
    """A dim of a loop: the name of its step, how many there are, lanes of the ragged last one."""

    name: str
    steps: tuple
    full: int | None = None
    tail: int = 0
    size: int = 0


@dataclass
class Loop:
    """A loop that no driver runs yet."""

    name: str
    how: str
    carried: list
    dims: list = field(default_factory=list)
    windows: list = field(default_factory=list)
    peeled: bool = False
    ragged: str | None = None
    ahead: bool = False  # some of a step is still to run ahead of it
    positions: bool = False  # the flag is of choices by position, not of a ragged step
    types: list = field(default_factory=list)  # of what is carried and does not come out
    runs: tuple | None = None  # how often its region does; None: once for each step
    beside: dict = field(default_factory=dict)  # before, behind, tail: statements
    places: list = field(default_factory=list)  # of what is carried: the scratch that holds it
    once: bool = False  # what stands before it is the first grid point's: others find it in scratch

    @property
    def last(self):
        """The number of the ragged step; None if there is none."""
        (first, *others) = self.dims
        return first.full if first.tail and not others else None


@dataclass
class For:
    """Straight code, so many times."""

    step: str
    end: tuple
    first: tuple = ("int", 0)
    carried: list = field(default_factory=list)


@dataclass
class Pipeline:
    """A function of windows, run over a grid of its own."""

    function: str
    grid: list
    at: list
    windows: list


@dataclass
class Stmt:
    """A statement. `detail` is a Function, Loop, For, Pipeline, what is called, or a text."""

    op: str
    line: int
    column: int
    results: list = field(default_factory=list)
    args: list = field(default_factory=list)
    attributes: dict = field(default_factory=dict)
    types: list = field(default_factory=list)
    body: list | None = None
    detail: object = None


@dataclass
class Kernel:
    """A signature and its statements."""

    name: str
    line: int
    grid: list = field(default_factory=list)
    buffers: list = field(default_factory=list)
    held: list = field(default_factory=list)
    mesh: str | None = None
    devices: int = 0
    collective_id: int | None = None
    sparse_core: tuple = ()
    vmem_limit: int = 0
    body: list = field(default_factory=list)


@dataclass
class Array:
    """What the program takes or gives; shape None: a number at run time."""

    name: str
    dtype: object
    shape: tuple | None


@dataclass
class Program:
    """What a document becomes."""

    name: str
    target: str
    inputs: list = field(default_factory=list)
    outputs: list = field(default_factory=list)
    kernels: list = field(default_factory=list)
    parameters: list = field(default_factory=list)
    config: dict = field(default_factory=dict)
    axes: dict = field(default_factory=dict)  # of a mesh: name and devices
    host: list | None = None
    host_line: int = 0
