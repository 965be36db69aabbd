"""Counts vector-register operations by scope in the text of a stage of Mosaic, as a rule its last.

libtpu's `--xla_mosaic_dump_to=DIR` writes the kernel after each stage. `post-finalize-llo` is the
last: each operation works on whole vector registers, `scf.for` and `scf.if` are the kernel's own
loops and branches, and the scopes of `jax.named_scope` stand as markers, nested as they were:

    "llo.trace_start"() <{level = 10 : i32, message = "statement_12"}> : () -> ()
    %exp3A = llo.vexp.f32 %add3A : vector<8x128xf32>
    "llo.trace_stop"() : () -> ()

The loop over the grid is not in it: its bounds are an attribute of the kernel's function.

`REGISTER_STAGE` is an earlier one, which is made of whole vector registers as well, before the
compiler knows how it computes any operation: `register_class` has the classes of these.
"""

import collections
import dataclasses
import math
import re

from .scopes import scope_line

STAGE = "post-finalize-llo"

UNITS = ("mxu", "push", "xlu", "eup", "valu", "load", "store")

# Operations of each unit. Which slots the compiler gives them was read off its utilisation of final
# bundles (v5e, v7x): sublane rotations, permutes and selections, packing and masks take VALU slots;
# what goes to the EUP takes a VALU slot as well and is counted as EUP only.
_UNIT_OF = tuple(
    (re.compile(pattern), unit)
    for pattern, unit in (
        (r"vmatmul", "mxu"),
        (r"vlatch|vmatprep", "push"),
        (r"vmatres|vpermres|vxpose\.result|vdwg|vbitcast", None),  # results, bookkeeping, renaming
        (r"vector_load|vld", "load"),
        (r"vector_store|vst_", "store"),
        (r".*\.xlane|vxpose|vperm$|vsetperm|vrot\.lane|vlbroadcast", "xlu"),
        (
            r"(vexp|vpow2?|vln|vln1p|vlog2|vrecip|vrsqrt|vsqrt|vtanh|verf|vlogistic)\.",
            "eup",
        ),
        (r"vsync|vwait|vdelay|vtos", None),
        (r"v|stov|slane", "valu"),
    )
)

# The stage in which each operation works on one vector register, before the compiler knows how it
# computes any: exponentials, quotients and conversions are one operation each.
REGISTER_STAGE = "post-apply-vector-layout"

# Classes of its operations. What only renames registers (bitcasts, layouts, constants, scalars that
# are spread) is in none.
CLASSES = {
    "load": "tpu.load tpu.strided_load tpu.shuffled_load",
    "store": "tpu.store tpu.strided_store tpu.shuffled_store",
    "matmul": "tpu.matmul",
    "float": "arith.addf arith.subf arith.mulf arith.negf arith.maximumf arith.minimumf math.absf",
    "function": "arith.divf arith.remf tpu.reciprocal math.exp math.exp2 math.log math.log1p"
    " math.sqrt math.rsqrt math.powf math.tanh math.erf math.sin math.cos math.tan math.floor"
    " math.atan2 math.ceil math.roundeven math.round",
    "int": "arith.addi arith.subi arith.muli arith.andi arith.ori arith.xori arith.shli arith.shrui"
    " arith.shrsi arith.maxsi arith.minsi arith.maxui arith.minui arith.divsi arith.divui"
    " arith.remsi arith.remui math.absi math.ctpop math.ctlz",
    "compare": "arith.cmpf arith.cmpi",
    "select": "arith.select",
    "convert": "arith.extui arith.extsi arith.trunci arith.sitofp arith.uitofp arith.fptosi"
    " arith.extf arith.truncf tpu.sitofp tpu.fptosi tpu.extf tpu.truncf",
    "pack": "tpu.pack_subelements tpu.unpack_subelements",
    "reduce": "tpu.all_reduce",
    "rotate": "tpu.dynamic_rotate tpu.rotate",
    "transpose": "tpu.transpose",
    "permute": "tpu.gather tpu.dynamic_gather tpu.sublane_shuffle",
    "mask": "tpu.create_mask tpu.create_subelement_mask tpu.pack_vmsk tpu.mask_cast",
}
_CLASS_OF = {name: kind for kind, names in CLASSES.items() for name in names.split()}

_OPERATION = re.compile(r'\s*(?:%[^=]*= )?"?([a-z]\w*\.[\w.]+)"?')
_CONSTANT = re.compile(
    r"\s*(%\w+) = \w+\.constant (?:\{value = (-?\d+) : i\d+\}|(?:\{.*\} )?(-?\d+) : i)"
)
_FOR = re.compile(r"scf\.for %\w+ = (%\w+) to (%\w+) step (%\w+)")
_MESSAGE = re.compile(r'message = "([^"]*)"')
_FUNCTION = re.compile(r"\s*func\.func @([\w.\-$]+)\(")
_GRID = re.compile(r"iteration_bounds = array<i64: ([-\d, ]+)>")


@dataclasses.dataclass
class Site:
    """Operations of one kind at one place: in the same scope, under the same loops.

    Attributes:
      line: of the innermost of our scopes, or None outside of all.
      opcode: the operation, such as "vadd.f32", "vector_load".
      count: how often it stands there.
      trips: how often the place is passed in a call of the kernel, grid steps included, as far as
        the bounds of its loops are constants.
      guarded: whether it is under a branch: then `trips` is the most that it can be.
      unbounded: whether a loop around it has bounds that are not constants, counted as one trip.
    """

    line: int | None
    opcode: str
    count: int
    trips: int
    guarded: bool
    unbounded: bool


@dataclasses.dataclass
class Kernel:
    """A kernel.

    Attributes:
      name: of its function.
      grid: trips of each dimension of its grid; None for one that is not constant.
      sites: its `Site`s.
      markers: names of all scopes, in the order in which they begin.
    """

    name: str
    grid: list
    sites: list = dataclasses.field(default_factory=list)
    markers: list = dataclasses.field(default_factory=list)


def unit_of(opcode):
    """The unit that an operation keeps, one of `UNITS`, or None for scalar ones and bookkeeping."""
    for pattern, unit in _UNIT_OF:
        if pattern.match(opcode):
            return unit
    return None


@dataclasses.dataclass
class _Region:
    trips: int
    guarded: bool
    unbounded: bool
    scopes: int


def parse_kernel(text, name_of=None):
    """The `Kernel` in a dump of the last stage: its first function. Raises ValueError if none.

    Args:
      text: the dump.
      name_of: (operation, line) -> the name to count it by, or None. By default those of the last
        stage, without "llo.".
    """
    constants, scopes, regions = {}, [], []
    found = collections.Counter()
    kernel, name_of = None, name_of or _last_stage_name
    for line in text.split("\n"):
        if kernel is None:
            if match := _FUNCTION.match(line):
                kernel = Kernel(match[1], _grid(line))
                regions = [_whole_grid(kernel.grid)]
            continue
        stripped = line.strip()
        if stripped.startswith("}"):
            closed = regions.pop()
            del scopes[closed.scopes :]
            if not regions:
                break
            if stripped.endswith("{"):  # `} else {`: the other branch
                regions.append(dataclasses.replace(closed, scopes=len(scopes)))
            continue
        if match := _CONSTANT.match(line):
            constants[match[1]] = int(match[2] or match[3])
        match = _OPERATION.match(line)
        operation = match[1] if match else ""
        if operation.endswith(".trace_start"):
            kernel.markers.append(_MESSAGE.search(line)[1])
            scopes.append(scope_line(kernel.markers[-1]))
        elif operation.endswith(".trace_stop"):
            scopes.pop()
        elif stripped.endswith("{"):
            regions.append(_inner(regions[-1], operation, line, constants, len(scopes)))
        elif name := name_of(operation, line):
            here = regions[-1]
            innermost = next((scope for scope in reversed(scopes) if scope), None)
            found[innermost, name, here.trips, here.guarded, here.unbounded] += 1
    if kernel is None:
        raise ValueError("no function in the dump of a Mosaic stage")
    for (scope, opcode, *around), count in found.items():
        kernel.sites.append(Site(scope, opcode, count, *around))
    return kernel


def _last_stage_name(operation, _line):
    return operation[4:] if operation.startswith("llo.") else None


def register_class(operation, line):
    """The class of an operation of `REGISTER_STAGE` on vector registers, or None."""
    return _CLASS_OF.get(operation) if "vector<" in line else None


def _grid(line):
    """Bounds of the grid; None for one that is not a constant."""
    match = _GRID.search(line)
    bounds = [int(bound) for bound in match[1].split(",")] if match else []
    return [bound if bound >= 0 else None for bound in bounds]


def _whole_grid(grid):
    return _Region(math.prod(bound or 1 for bound in grid), False, None in grid, 0)


def _inner(outer, operation, line, constants, scopes):
    """The region that an operation opens in `outer`."""
    if operation == "scf.if":
        return _Region(outer.trips, True, outer.unbounded, scopes)
    if operation not in ("scf.for", "scf.while"):
        return dataclasses.replace(outer, scopes=scopes)
    bounds = [constants.get(name) for name in _bounds(line)]
    if None in bounds or not bounds or bounds[2] <= 0:
        return _Region(outer.trips, outer.guarded, True, scopes)
    first, last, step = bounds
    trips = max(0, -(-(last - first) // step))
    return _Region(outer.trips * trips, outer.guarded, outer.unbounded, scopes)


def _bounds(line):
    match = _FOR.search(line)
    return match.groups() if match else ()
