"""Small Helion kernels over the whole language, a feature each, with arguments to run them on.

`PROBES` maps a name to a Probe. Sizes are small, so that eager torch and the reference interpreter
are quick.
"""

import dataclasses
import itertools
from collections.abc import Callable

import helion
import helion.language as hl
import numpy
import torch

BIAS = torch.linspace(-1, 1, 256)
BIAS_128 = torch.linspace(-2, 2, 128)
FACTOR = 1.5


@dataclasses.dataclass
class Probe:
    """A kernel, what makes its arguments, and its configuration."""

    kernel: object
    args: object
    config: dict
    refused: str | None  # what the export's refusal says, None: it is exported
    captured: tuple  # the tensors that the kernel captures
    since: str  # the first Helion that has the feature
    wanted: object  # what it computes, a function of the arguments; None: ask Helion's eager mode


PROBES = {}


def probe(*args, config=None, refused=None, captured=(), since="1.4.0", wanted=None):
    """Register a kernel under its name; `args` make its arguments, each a value or a callable."""

    def register(function):
        kernel = helion.kernel(function, static_shapes=True)
        PROBES[function.__name__] = Probe(kernel, args, config, refused, captured, since, wanted)
        return kernel

    return register


def arguments(found):
    """Return fresh arguments of a probe, the same each time."""
    torch.manual_seed(0)
    return tuple(a() if getattr(a, "makes", False) else a for a in found.args)


def making(function):
    """Mark a callable as one that makes an argument, not as an argument itself."""
    function.makes = True
    return function


def floats(*shape, dtype=torch.float32):
    """Normal numbers."""
    return making(lambda: torch.randn(shape).to(dtype))


def ints(*shape, below, dtype=torch.int32, at_least=0):
    """Ints of a range."""
    return making(lambda: torch.randint(at_least, below, shape).to(dtype))


def flags(*shape):
    """Bools."""
    return making(lambda: torch.randint(0, 2, shape).bool())


def listed(values, dtype=torch.int32):
    """These numbers."""
    return making(lambda: torch.tensor(values, dtype=dtype))


OFFSETS = listed([0, 3, 3, 130, 131, 200, 256])


# What depends on the size of blocks, or what the eager mode lacks


def wanted_tile_begin(x):
    """Blocks of [8, 128]: rows begin after the columns do."""
    rows, cols = torch.arange(16)[:, None] // 8 * 8, torch.arange(256)[None, :] // 128 * 128
    return torch.where(rows >= cols, x * 2, 0.0)


def wanted_halved(x):
    """Blocks of 8, each halved until all of it is at most 0.5."""
    parts = [part.abs() for part in x.split(8)]
    for at, part in enumerate(parts):
        while part.amax() > 0.5:
            part = part * 0.5
        parts[at] = part
    return torch.cat(parts)


def wanted_band(x):
    """Blocks of 128: each reads 8 columns more on both sides."""
    parts = [x[at : at + 128, max(at - 8, 0) : min(at + 136, 256)].sum(1) for at in (0, 128)]
    return torch.cat(parts)


def wanted_jagged(x, offsets):
    """The sum of each row."""
    ends = offsets.tolist()
    return torch.stack([x[a:b].sum() for a, b in itertools.pairwise(ends)])


def wanted_jagged_nested(x, lengths, widths):
    """The mean of the rows there are, in the columns there are."""
    out = torch.zeros([3, 5])
    for at, (rows, cols) in enumerate(zip(lengths.tolist(), widths.tolist(), strict=True)):
        out[at, :cols] = x[at, :rows, :cols].mean(0)
    return out


def in_blocks(first, rest, at=0):
    """Return a function: `first` of the first 8 rows (or those of block `at`), `rest` of others."""

    def computed(x):
        rows = (torch.arange(x.size(0)) // 8 % (x.size(0) // 8) == at % (x.size(0) // 8))[:, None]
        return torch.where(rows, first(x), rest(x))

    return computed


# Conditions


@probe(floats(16, 256), 5)
def if_argument(x: torch.Tensor, v: int) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size()):
        if 3 < v < 7:
            out[tile] = torch.sigmoid(x[tile])
        else:
            out[tile] = torch.sin(x[tile])
    return out


@probe(floats(16, 256))
def if_grid_equals(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for i in hl.grid(x.size(0)):
        if i == 3:
            out[i, :] = x[i, :] * 2
        elif i != 5:
            out[i, :] = x[i, :] + 1
    return out


@probe(floats(16, 256))
def if_grid_arithmetic(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for i in hl.grid(x.size(0)):
        if (i % 3 == 0 and i > 4) or not (i < 12):
            out[i, :] = x[i, :] * 2
    return out


@probe(floats(16, 256))
def if_two_grids(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for i, j in hl.grid([16, 256]):
        if i == j:
            out[i, j] = x[i, j] * 2
        elif i < j:
            out[i, j] = x[i, j]
    return out


@probe(floats(16, 256), config={"block_sizes": [8, 128]}, wanted=wanted_tile_begin)
def if_tile_begin(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for tile_i, tile_j in hl.tile(x.size()):
        if tile_i.begin >= tile_j.begin:
            out[tile_i, tile_j] = x[tile_i, tile_j] * 2
    return out


@probe(floats(16, 256), config={"block_sizes": [8]}, wanted=in_blocks(lambda x: x + 1, lambda x: x))
def if_tile_id(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(16):
        v = x[tile, :]
        if tile.id == 0:
            v = v + 1
        out[tile, :] = v
    return out


@probe(floats(16), ints(16, below=2))
def if_loaded(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for i in hl.grid(x.size(0)):
        if y[i] != 0:
            out[i] = x[i] * 2
        else:
            out[i] = x[i]
    return out


@probe(floats(16, 256), flags(16))
def if_loaded_flag(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for i in hl.grid(x.size(0)):
        if y[i]:
            out[i, :] = x[i, :] * 2
    return out


@probe(floats(16, 256), ints(16, below=3))
def if_loaded_int(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for i in hl.grid(x.size(0)):
        if y[i]:
            out[i, :] = x[i, :] * 2
    return out


@probe(floats(16, 256), config={"block_sizes": [8, 128]})
def if_reduced(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for tile in hl.tile(x.size()):
        v = x[tile]
        if v.amax() > 2:
            out[tile] = v * 2
        else:
            out[tile] = v
    return out


@probe(floats(16, 256), config={"block_sizes": [8, 128]})
def if_sum_of_flags(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for tile in hl.tile(x.size()):
        if (x[tile] > 2).sum():
            out[tile] = x[tile] * 2
    return out


@probe(floats(16, 256), ints(16, below=4))
def if_elif_values(x: torch.Tensor, kind: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for i in hl.grid(x.size(0)):
        k = kind[i]
        v = x[i, :]
        if k == 0:
            v = v + 1
        elif k == 1:
            v = v * 2
        else:
            v = -v
        out[i, :] = v
    return out


@probe(floats(16, 256), ints(16, below=3))
def if_nested_in_loop(x: torch.Tensor, kind: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for i in hl.grid(x.size(0)):
        acc = hl.zeros([256], dtype=torch.float32)
        for j in hl.grid(3):
            if kind[i] == j:
                acc = acc + x[i, :]
        out[i, :] = acc
    return out


@probe(floats(16, 256))
def if_flag_variable(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for i in hl.grid(x.size(0)):
        last = i == x.size(0) - 1
        even = i % 2 == 0
        if last or even:
            out[i, :] = x[i, :]
    return out


@probe(floats(16, 256), 7)
def if_int_of_positions(x: torch.Tensor, n: int) -> torch.Tensor:
    out = torch.zeros_like(x)
    for i in hl.grid(x.size(0)):
        if (i + n) % 4:
            out[i, :] = x[i, :]
    return out


@probe(floats(16, 256), refused="(dynamic conditional expression|IfExp)")
def if_as_value(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for i in hl.grid(x.size(0)):
        scale = 2.0 if i == 3 else 1.0
        out[i, :] = x[i, :] * scale
    return out


@probe(floats(16, 256))
def condition_as_value(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for i in hl.grid(x.size(0)):
        out[i, :] = x[i, :] + (i == 4)
    return out


@probe(floats(16, 256), ints(2, below=16), refused="And not supported on TensorType")
def if_between_loaded(x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for i in hl.grid(x.size(0)):
        low = ends[0]
        if low <= i and i < ends[1]:
            out[i, :] = x[i, :]
    return out


@probe(
    floats(256, 128),
    config={"block_sizes": [8]},
    wanted=in_blocks(lambda x: x * 2, lambda x: x, -1),
)
def if_last_tile(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(256):
        if tile.end == 256:
            out[tile, :] = x[tile, :] * 2
        else:
            out[tile, :] = x[tile, :]
    return out


@probe(floats(16, 256), None)
def optional_tensor(x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    out = torch.empty_like(x)
    for i, j in hl.tile(x.size()):
        v = x[i, j]
        if bias is not None:
            v = v + bias[j]
        out[i, j] = v
    return out


@probe(floats(16, 256), True, since="1.5.0")
def static_flag(x: torch.Tensor, flag: hl.constexpr) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size()):
        out[tile] = x[tile] * 2 if flag else x[tile]
    return out


@probe(floats(64), 3, True, config={"block_sizes": [32]}, since="1.5.0")
def numbers_and_flags(x: torch.Tensor, n: int, flag: bool) -> torch.Tensor:
    out = torch.empty_like(x)
    n = n + 1
    wide = flag and x.size(0) > n
    narrow = not wide
    for tile in hl.tile(x.size(0)):
        v = x[tile] * (2 * n - 1)
        if not flag:
            v = v + 1
        elif narrow:
            v = v + 2
        else:
            v = v + 4
        for step in hl.static_range(2):
            if wide and step == 1:
                v = v * 3
        if n == 4 or n > 40:
            v = v + 8
        out[tile] = torch.where(tile.index < n, v, 0.0)
    return out


@probe(floats(64), False, config={"block_sizes": [32]})
def flag_held(x: torch.Tensor, flag: bool) -> torch.Tensor:
    held = hl.constexpr(flag)
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        if held:
            out[tile] = x[tile] + 1.0
        else:
            out[tile] = x[tile] + 2.0
    return out


@probe(making(lambda: [torch.ones(64), torch.arange(64.0)]), [2, 3], config={"block_sizes": [32]})
def numbers_in_lists(xs: list[torch.Tensor], ns: list[int]) -> torch.Tensor:
    out = torch.empty_like(xs[0])
    for tile in hl.tile(out.size(0)):
        out[tile] = xs[0][tile] * ns[1] + xs[1][tile] * ns[0]
    return out


# Loops


@probe(floats(256), config={"block_sizes": [8]})
def while_counts(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        v = x[tile]
        i = hl.full([], 0, dtype=torch.int32)
        while i < 4:
            v = v * 1.5
            i = i + 1
        out[tile] = v
    return out


@probe(floats(256), config={"block_sizes": [8]}, wanted=wanted_halved)
def while_reduced(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        v = x[tile].abs()
        while v.amax() > 0.5:
            v = v * 0.5
        out[tile] = v
    return out


@probe(floats(8, 256), ints(8, below=7))
def while_loaded(x: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for i in hl.grid(x.size(0)):
        v = x[i, :]
        n = steps[i]
        while n > 0:
            v = v * 0.5
            n = n - 1
        out[i, :] = v
    return out


@probe(listed([0, 0, 0, 0]))
def while_atomic_cas(lock: torch.Tensor) -> torch.Tensor:
    for i in hl.grid(lock.size(0)):
        while hl.atomic_cas(lock, [i], 0, 1) == 1:
            pass
    return lock


@probe(floats(16, 256))
def range_in_device(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        acc = hl.zeros([tile, 256], dtype=torch.float32)
        for i in range(4):
            acc = acc + x[tile, :] * i
        out[tile, :] = acc
    return out


@probe(floats(16, 256))
def range_begin_step(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([16], dtype=x.dtype)
    for tile in hl.tile(x.size(0)):
        acc = hl.zeros([tile], dtype=torch.float32)
        for j in range(3, 20, 4):
            acc = acc + x[tile, j]
        out[tile] = acc
    return out


@probe(floats(16, 256))
def static_ranges(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size()):
        v = x[tile]
        for i in hl.static_range(1, 6, 2):
            v = v + i
        out[tile] = v
    return out


@probe(floats(16, 256), floats(16, 256), floats(16, 256))
def tuples_unrolled(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size()):
        acc = hl.zeros(tile, dtype=torch.float32)
        for i, (t, scale) in enumerate(zip((x, y, z), (1.0, 2.0, 3.0), strict=True)):
            acc = acc + t[tile] * scale + i
        parts = [t[tile] * 2 for t in (x, y)]
        out[tile] = acc + parts[0] - parts[1]
    return out


@probe(floats(128))
def grid_begin_step(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for i in hl.grid(2, 30, 4):
        out[i] = x[i] * 2
    return out


@probe(floats(8, 256))
def grid_step_inside(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([8], dtype=x.dtype)
    for i in hl.grid(8):
        total = hl.zeros([], dtype=torch.float32)
        for j in hl.grid(0, 256, 5):
            total = total + x[i, j]
        out[i] = total
    return out


@probe(floats(256), OFFSETS)
def loaded_bounds(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([6], dtype=x.dtype)
    for g in hl.grid(6):
        begin = offsets[g]
        end = offsets[g + 1]
        total = hl.zeros([], dtype=torch.float32)
        for tile in hl.tile(begin, end):
            total = total + x[tile].sum()
        out[g] = total
    return out


@probe(floats(256, 256), listed([17]), config={"block_sizes": [128, 128]})
def bound_of_one_element(x: torch.Tensor, end: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([256], dtype=x.dtype)
    for tile in hl.tile(256):
        acc = hl.zeros([tile], dtype=torch.float32)
        for cols in hl.tile(0, end[0]):
            acc = acc + x[tile, cols].sum(-1)
        out[tile] = acc
    return out


@probe(floats(256, 256), config={"block_sizes": [128, 128]})
def causal_bounds(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([256], dtype=x.dtype)
    for tile in hl.tile(256):
        acc = hl.zeros([tile], dtype=torch.float32)
        for cols in hl.tile(min(tile.end, 20)):
            acc = acc + x[tile, cols].sum(-1)
        out[tile] = acc
    return out


@probe(floats(256, 256), config={"block_sizes": [128, 128]}, wanted=wanted_band)
def max_min_of_positions(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([256], dtype=x.dtype)
    for tile in hl.tile(256):
        acc = hl.zeros([tile], dtype=torch.float32)
        for cols in hl.tile(max(tile.begin - 8, 0), min(tile.end + 8, 256)):
            acc = acc + x[tile, cols].sum(-1)
        out[tile] = acc
    return out


@probe(
    floats(256, 256),
    config={"block_sizes": [8]},
    refused="a loop inside a loop of the same registered",
)
def loop_block_size(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    block = hl.register_block_size(8, 256)
    for tile in hl.tile(256, block_size=block):
        for cols in hl.tile(256, block_size=block):
            out[tile, cols] = x[tile, cols] + tile.block_size
    return out


@probe(floats(256, 256), config={"block_sizes": [8, 128]}, wanted=lambda x: x + 8 + 128)
def loop_block_sizes(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    rows = hl.register_block_size(8, 256)
    cols = hl.register_block_size(8, 256)
    for tile in hl.tile(256, block_size=rows):
        for inner in hl.tile(256, block_size=cols):
            out[tile, inner] = x[tile, inner] + tile.block_size + inner.block_size
    return out


@probe(floats(256, 16), config={"block_sizes": [8, 8, 8]})
def three_roots(x: torch.Tensor) -> torch.Tensor:
    low = torch.empty_like(x)
    high = torch.empty_like(x)
    out = torch.empty_like(x)
    for tile in hl.tile(256):
        low[tile, :] = x[tile, :] + 1
    for tile in hl.tile(256):
        high[tile, :] = x[tile, :] * 2
    hl.barrier()
    for tile in hl.tile(256):
        out[tile, :] = low[tile, :] + high[tile, :]
    return out


@probe(floats(256, 16), config={"block_sizes": [8, 4]})
def barrier_and_reduction(x: torch.Tensor) -> torch.Tensor:
    partial = torch.zeros([16], dtype=torch.float32)
    out = torch.empty_like(x)
    for tile in hl.tile(256):
        hl.atomic_add(partial, [slice(None)], x[tile, :].sum(0))
    hl.barrier()
    for cols in hl.tile(16):
        out[:, cols] = x[:, cols] - partial[cols][None, :]
    return out


@probe(floats(16, 256), refused="ast.Continue is not supported")
def early_continue(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for i in hl.grid(16):
        for j in hl.grid(256):
            if j == 3:
                continue
            out[i, j] = x[i, j]
    return out


@probe(floats(16, 256), refused="ast.Break is not supported")
def early_break(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for i in hl.grid(16):
        for j in hl.grid(256):
            if j == 3:
                break
            out[i, j] = x[i, j]
    return out


# Indices


@probe(floats(128, 256), ints(20, below=128))
def gather_rows(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    out = torch.empty([20, 256], dtype=x.dtype)
    for i, j in hl.tile(out.size()):
        out[i, j] = x[index[i], j]
    return out


@probe(floats(128, 256), ints(20, below=256))
def gather_columns(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    out = torch.empty([128, 20], dtype=x.dtype)
    for i, j in hl.tile(out.size()):
        out[i, j] = x[i, index[j]]
    return out


@probe(floats(128, 256), ints(20, below=128), ints(20, below=256))
def gather_both(x: torch.Tensor, rows: torch.Tensor, cols: torch.Tensor) -> torch.Tensor:
    out = torch.empty([20], dtype=x.dtype)
    flat = x.view(-1)
    for i in hl.tile(20):
        out[i] = hl.load(flat, [rows[i] * 256 + cols[i]])
    return out


@probe(floats(128, 256), ints(16, 12, below=128))
def gather_dim0(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    out = torch.empty([16, 12], dtype=x.dtype)
    for i in hl.tile(16):
        out[i, :] = torch.gather(x[:, :12], 0, index[i, :])
    return out


@probe(floats(16, 256), ints(16, 12, below=256))
def gather_dim1(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    out = torch.empty([16, 12], dtype=x.dtype)
    for i in hl.tile(16):
        out[i, :] = torch.gather(x[i, :], 1, index[i, :].to(torch.int64))
    return out


def wanted_along(x, index):
    """Columns by row, those below 0 from the end, in both spellings."""
    found = torch.take_along_dim(x, index.long(), 1)
    return found + torch.take_along_dim(x[:, :1], index.long() * 0, 1)


@probe(floats(21, 256), ints(21, 12, below=256, at_least=-256), wanted=wanted_along)
def take_along_dim(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    out = torch.empty([21, 12], dtype=x.dtype)
    for i in hl.tile(21):
        at = index[i, :].to(torch.int64)
        first = hl.zeros([i, 1], dtype=torch.int64)
        out[i, :] = torch.take_along_dim(x[i, :], at, 1) + x[i, :].take_along_dim(first, -1)
    return out


def wanted_unpacked(p):
    """Both halves of each byte, one row after the other."""
    return torch.stack([p & 15, (p >> 4) & 15], 1).reshape(64, 24).to(torch.int32)


@probe(ints(32, 24, below=128, dtype=torch.int8), wanted=wanted_unpacked, since="1.5.0")
def unpacked_in_fixed_blocks(p: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([64, 24], dtype=torch.int32)
    for k, u in hl.tile(p.size(), block_size=[16, None]):
        b = p[k, u].to(torch.int32)
        rows = torch.stack([b & 15, (b >> 4) & 15], 1).reshape(32, u.block_size)
        out[k.begin * 2 + hl.arange(32), u] = rows
    return out


@probe(floats(128, 256), ints(20, below=128))
def index_select_device(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    out = torch.empty([20, 256], dtype=x.dtype)
    for i in hl.tile(20):
        out[i, :] = torch.index_select(x[:, :], 0, index[i])
    return out


@probe(floats(128, 256), ints(20, below=128))
def embedding_device(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    out = torch.empty([20, 256], dtype=x.dtype)
    for i in hl.tile(20):
        out[i, :] = torch.nn.functional.embedding(index[i], x[:, :])
    return out


@probe(floats(128, 256), ints(4, 5, below=128))
def embedding_flat(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    flat = index.reshape(-1)
    out = torch.empty([flat.size(0), 256], dtype=x.dtype)
    for i, j in hl.tile(out.size()):
        out[i, j] = x[flat[i], j]
    return out.view(4, 5, 256)


@probe(
    floats(256, 16),
    ints(256, below=12),
    wanted=lambda x, index: torch.zeros([12, 16]).index_add(0, index, x),
)
def scatter_add_rows(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([12, 16], dtype=x.dtype)
    for i, j in hl.tile(x.size()):
        hl.atomic_add(out, [index[i], j], x[i, j])
    return out


@probe(floats(12, 16), making(lambda: torch.randperm(12).to(torch.int32)))
def scatter_rows(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([12, 16], dtype=x.dtype)
    for i, j in hl.tile(x.size()):
        out[index[i], j] = x[i, j]
    return out


@probe(ints(256, below=8))
def histogram(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([8], dtype=torch.int32)
    for i in hl.tile(256):
        hl.atomic_add(out, [x[i]], 1)
    return out


@probe(ints(256, below=8))
def atomic_old_values(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    count = torch.zeros([8], dtype=torch.int32)
    place = torch.empty([256], dtype=torch.int32)
    for i in hl.grid(256):
        place[i] = hl.atomic_add(count, [x[i]], 1)
    return count, place


@probe(ints(256, below=100))
def atomics_of_bits(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([4], dtype=torch.int32)
    for i in hl.grid(256):
        hl.atomic_or(out, [0], x[i])
        hl.atomic_xor(out, [1], x[i])
        hl.atomic_max(out, [2], x[i])
        hl.atomic_min(out, [3], x[i])
    return out


@probe(floats(256))
def window_sum(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([20], dtype=x.dtype)
    for tile in hl.tile(20):
        out[tile] = x[tile] + x[tile.index + 1] + x[tile + 4]
    return out


@probe(floats(256, 256))
def tile_offset(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([16, 256], dtype=x.dtype)
    for tile in hl.tile(16):
        out[tile, :] = x[tile + 8, :]
    return out


@probe(floats(256, 256))
def partial_slices(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([256, 256], dtype=x.dtype)
    for tile in hl.tile(256):
        out[tile, 4:12] = x[tile, 12:20] * 2
    return out


@probe(floats(256, 128))
def strided_slice(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([256, 64], dtype=x.dtype)
    for tile in hl.tile(256):
        out[tile, :] = x[tile, ::2] + x[tile, 1::2]
    return out


@probe(floats(256, 128))
def negative_index(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([256], dtype=x.dtype)
    for tile in hl.tile(256):
        out[tile] = x[tile, -1] + x[tile, -2]
    return out


@probe(floats(4, 6, 8), since="1.5.0")
def ellipsis(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([4, 6, 8], dtype=x.dtype)
    for tile in hl.tile(4):
        out[tile, ...] = x[tile, ...] * 2
    return out


@probe(floats(256, 128))
def masked_load(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([256, 128], dtype=x.dtype)
    for i, j in hl.tile([256, 128]):
        mask = (i.index[:, None] + j.index[None, :]) % 2 == 0
        out[i, j] = hl.load(x, [i, j], extra_mask=mask)
    return out


@probe(floats(256, 128))
def masked_store(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([256, 128], dtype=x.dtype)
    for i, j in hl.tile([256, 128]):
        hl.store(out, [i, j], x[i, j], extra_mask=x[i, j] > 0)
    return out


@probe(floats(64), ints(256, below=64), flags(256))
def masked_gather(x: torch.Tensor, index: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([256], dtype=x.dtype)
    for i in hl.tile(256):
        out[i] = hl.load(x, [index[i]], extra_mask=keep[i])
    return out


@probe(floats(256, 128))
def aranges(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([256, 128], dtype=torch.float32)
    for tile in hl.tile(256):
        cols = hl.arange(128)
        out[tile, :] = (
            x[tile, cols] * cols[None, :]
            + hl.arange(tile.begin, tile.begin + tile.block_size)[:, None]
        )
    return out


@probe(floats(256, 128), config={"block_sizes": [8]})
def subscripts(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([256, 128], dtype=x.dtype)
    for tile in hl.tile(256):
        v = x[tile, :]
        row = v.sum(1)
        out[tile, :] = v + row[:, None] + hl.subscript(row, [slice(None), None])
    return out


@probe(floats(256, 128), config={"block_sizes": [8]}, since="1.5.0")
def subscript_position(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([256], dtype=x.dtype)
    for tile in hl.tile(256):
        v = x[tile, :]
        out[tile] = v[:, 3] + v[:, 5:9].sum(-1)
    return out


@probe(
    floats(40, 128),
    ints(8, below=128),
    config={"block_sizes": [8]},
    wanted=lambda x, s: (x * 2)[:, s.long()] + x[:, s[0] : s[0] + 1],
    since="1.5.0",
)
def subscript_tensor(x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([40, 8], dtype=x.dtype)
    for tile in hl.tile(40):
        v = x[tile, :] * 2
        out[tile, :] = v[:, s[:]] + x[tile, s[0] + hl.arange(1)]
    return out


@probe(floats(256, 128), config={"block_sizes": [8]})
def store_new_axis(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([256, 1, 128], dtype=x.dtype)
    for tile in hl.tile(256):
        out[tile, :, :] = x[tile, None, :]
    return out


@probe(floats(256))
def one_program_writes(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([256, 3], dtype=x.dtype)
    for i in hl.tile(256):
        out[i, 0] = x[i]
        out[i, 2] = x[i] * 2
    return out


@probe(
    floats(256), config={"block_sizes": [8]}, wanted=lambda x: torch.arange(32) * 16 + 8 + 32 + 8
)
def tile_counts(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([32], dtype=torch.int32)
    for tile in hl.tile(256):
        out[tile.id] = tile.count + tile.begin + tile.end + tile.block_size
    return out


# Jagged tiles


@probe(floats(256), OFFSETS, wanted=wanted_jagged)
def jagged_row_sum(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([6], dtype=x.dtype)
    for b in hl.tile(6):
        starts = offsets[b]
        lengths = offsets[b.index + 1] - starts
        acc = hl.zeros([b], dtype=torch.float32)
        for k in hl.jagged_tile(lengths):
            acc += x[starts[:, None] + k.index[None, :]].sum(1)
        out[b] = acc
    return out


@probe(floats(256, 8), OFFSETS)
def jagged_flat_mean(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([6, 8], dtype=x.dtype)
    flat = x.view(-1)
    for b in hl.tile(6):
        starts = offsets[b]
        ends = offsets[b.index + 1]
        count = ends - starts
        longest = count.amax()
        for m in hl.tile(8):
            acc = hl.zeros([b, m], dtype=torch.float32)
            for k in hl.tile(0, longest):
                base = starts[:, None] + k.index[None, :]
                at = base[:, :, None] * 8 + m.index[None, None, :]
                keep = (k.index[None, :] < count[:, None])[:, :, None]
                acc = acc + hl.load(flat, [at], extra_mask=keep & (m.index < 8)[None, None, :]).sum(
                    1
                )
            mean = acc / count.to(torch.float32)[:, None]
            out[b, m] = torch.where((count > 0)[:, None], mean, 0.0)
    return out


@probe(floats(3, 4, 5), listed([3, 1, 2]), listed([2, 4, 3]), wanted=wanted_jagged_nested)
def jagged_nested(x: torch.Tensor, lengths: torch.Tensor, widths: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([3, 5], dtype=x.dtype)
    for b in hl.tile(3):
        rows = lengths[b]
        cols = widths[b]
        for m in hl.jagged_tile(cols):
            acc = hl.zeros([b, m], dtype=x.dtype)
            for k in hl.jagged_tile(rows):
                acc += x[b, k, m].sum(dim=1)
            out[b, m] = acc / rows.to(x.dtype)[:, None]
    return out


# Reductions and scans


def product_sum(a, b):
    """A function of the user."""
    return a * 1.0 + b


def segmented(left, left_key, right, right_key):
    """A sum within equal keys."""
    same = left_key == right_key
    return torch.where(same, left + right, right), right_key


def larger(left, left_at, right, right_at):
    """The larger value and where it is."""
    keep = left > right
    return torch.where(keep, left, right), torch.where(keep, left_at, right_at)


@probe(floats(256, 128), config={"block_sizes": [8]})
def scan_function(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(256):
        out[tile, :] = hl.associative_scan(product_sum, x[tile, :], dim=1)
    return out


@probe(floats(256, 128), config={"block_sizes": [8]}, refused="ast.arg is not supported")
def scan_lambda_reverse(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(256):
        out[tile, :] = hl.associative_scan(
            lambda a, b: torch.maximum(a, b), x[tile, :], dim=1, reverse=True
        )
    return out


@probe(
    floats(256, 8), making(lambda: torch.arange(256).div(5, rounding_mode="floor").to(torch.int32))
)
def scan_tuple(x: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(8):
        key = keys[:].float().unsqueeze(1).expand(256, tile.block_size)
        summed, _ = hl.associative_scan(segmented, (x[:, tile], key), dim=0)
        out[:, tile] = summed
    return out


@probe(floats(256, 128), config={"block_sizes": [8]})
def cumulative(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(256):
        v = x[tile, :]
        out[tile, :] = torch.cumsum(v, 1) + hl.cumsum(v, 1, reverse=True) + hl.cumprod(v, 1)
    return out


@probe(floats(256, 128), config={"block_sizes": [8]})
def reduce_function(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([256], dtype=x.dtype)
    for tile in hl.tile(256):
        out[tile] = hl.reduce(product_sum, x[tile, :], dim=1)
    return out


@probe(floats(256, 128), config={"block_sizes": [8]})
def reduce_argmax(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    out = torch.empty([256], dtype=x.dtype)
    place = torch.empty([256], dtype=torch.int32)
    for tile in hl.tile(256):
        at = hl.arange(128).float()[None, :].expand(tile.block_size, 128)
        best, where = hl.reduce(larger, (x[tile, :], at), dim=1, other=(float("-inf"), 0.0))
        out[tile] = best
        place[tile] = where.to(torch.int32)
    return out, place


def lowest_of_best(left, left_at, right, right_at):
    """The larger value, of equal ones that at the lower position."""
    keep = (left > right) | ((left == right) & (left_at < right_at))
    return torch.where(keep, left, right), torch.where(keep, left_at, right_at)


@probe(
    ints(50, 128, below=9, dtype=torch.int8),
    ints(50, 128, below=2**31 - 1, dtype=torch.int64),
    config={"block_sizes": [16]},
)
def reduce_positions(x: torch.Tensor, at: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    out = torch.empty([50], dtype=x.dtype)
    place = torch.empty([50], dtype=torch.int64)
    for tile in hl.tile(50):
        given = (x[tile, :], at[tile, :])
        best, where = hl.reduce(lowest_of_best, given, dim=1, other=(-1, 0))
        out[tile] = best
        place[tile] = where
    return out, place


@probe(
    floats(50, 128),
    ints(50, 128, below=2**31 - 1, dtype=torch.int64),
    config={"block_sizes": [16]},
)
def scan_positions(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    place = torch.empty([50, 128], dtype=torch.int64)
    for tile in hl.tile(50):
        _best, where = hl.associative_scan(lowest_of_best, (x[tile, :], at[tile, :]), dim=1)
        place[tile, :] = where
    return place


def added(left, right):
    """The sum."""
    return left + right


@probe(ints(50, 128, below=1000, dtype=torch.int32), config={"block_sizes": [16]})
def reduce_to_int64(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([50], dtype=torch.int64)
    for tile in hl.tile(50):
        out[tile] = hl.reduce(added, (x[tile, :] % 1000).to(torch.int64), dim=1)
    return out


@probe(floats(256, 128), config={"block_sizes": [8]})
def argmax_argmin(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([256, 2], dtype=torch.int32)
    for tile in hl.tile(256):
        v = x[tile, :]
        out[tile, 0] = torch.argmax(v, 1).to(torch.int32)
        out[tile, 1] = torch.argmin(v, 1).to(torch.int32)
    return out


@probe(floats(256, 128), config={"block_sizes": [8]})
def sorted_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    out = torch.empty_like(x)
    place = torch.empty([256, 128], dtype=torch.int32)
    for tile in hl.tile(256):
        values, places = torch.sort(x[tile, :], dim=-1, descending=True)
        out[tile, :] = values
        place[tile, :] = places.to(torch.int32)
    return out, place


@probe(floats(256, 128), config={"block_sizes": [8]})
def argsorted_rows(x: torch.Tensor) -> torch.Tensor:
    place = torch.empty([256, 128], dtype=torch.int32)
    for tile in hl.tile(256):
        place[tile, :] = torch.argsort(x[tile, :], dim=-1).to(torch.int32)
    return place


def wanted_stable(x):
    """Equal ones stay in their order."""
    values, places = torch.sort(x, dim=-1, descending=True, stable=True)
    return values, places.int(), torch.argsort(x, dim=0, stable=True).int()


@probe(ints(40, 128, below=9), config={"block_sizes": [8, 128]}, wanted=wanted_stable)
def sorted_stably(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    out = torch.empty_like(x)
    place, along = torch.empty_like(x), torch.empty_like(x)
    for tile in hl.tile(40):
        values, places = torch.sort(x[tile, :], dim=-1, descending=True, stable=True)
        out[tile, :] = values
        place[tile, :] = places.to(torch.int32)
    for cols in hl.tile(128):
        along[:, cols] = x[:, cols].argsort(stable=True, dim=0).to(torch.int32)
    return out, place, along


@probe(floats(256, 128), config={"block_sizes": [8]})
def topk_rows(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([256, 4], dtype=x.dtype)
    for tile in hl.tile(256):
        values, _places = torch.topk(x[tile, :], 4, dim=-1)
        out[tile, :] = values
    return out


# Random numbers


@probe(floats(256, 128), config={"block_sizes": [8, 128]})
def random_floats(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for i, j in hl.tile(x.size()):
        keep = hl.rand([i, j], seed=42) > 0.25
        out[i, j] = torch.where(keep, x[i, j], 0.0)
    return out


@probe(floats(256, 128), config={"block_sizes": [8, 128]})
def random_ints(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([256, 128], dtype=torch.int32)
    for i, j in hl.tile(x.size()):
        out[i, j] = hl.randint([i, j], low=3, high=17, seed=7)
    return out


# Captured values


@probe(
    floats(16, 256),
    floats(256, 128),
    lambda acc, tile: acc + BIAS_128[tile[1]],
    captured=(BIAS_128,),
    wanted=lambda x, y, _: x @ y + BIAS_128,
)
def epilogue_global(x: torch.Tensor, y: torch.Tensor, epilogue) -> torch.Tensor:
    out = torch.empty([16, 128], dtype=x.dtype)
    for i, j in hl.tile(out.size()):
        acc = hl.zeros([i, j], dtype=torch.float32)
        for k in hl.tile(256):
            acc = torch.addmm(acc, x[i, k], y[k, j])
        out[i, j] = epilogue(acc, (i, j))
    return out


def closed_over():
    """An epilogue that closes over a tensor, a number and another function."""
    bias = torch.linspace(0, 1, 128)
    scale = 0.5

    def inner(acc):
        return acc * scale

    return lambda acc, tile: inner(acc) + bias[tile[1]]


@probe(
    floats(16, 256),
    floats(256, 128),
    closed_over(),
    captured=(torch.linspace(0, 1, 128),),
    wanted=lambda x, y, _: x @ y * 0.5 + torch.linspace(0, 1, 128),
)
def epilogue_closure(x: torch.Tensor, y: torch.Tensor, epilogue) -> torch.Tensor:
    out = torch.empty([16, 128], dtype=x.dtype)
    for i, j in hl.tile(out.size()):
        acc = hl.zeros([i, j], dtype=torch.float32)
        for k in hl.tile(256):
            acc = torch.addmm(acc, x[i, k], y[k, j])
        out[i, j] = epilogue(acc, (i, j))
    return out


@probe(floats(16, 256), captured=(BIAS,))
def global_tensor(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for i, j in hl.tile(x.size()):
        out[i, j] = x[i, j] * BIAS[j] + FACTOR
    return out


# Host code


@probe(floats(16, 256))
def host_in_place(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    x.mul_(2.0)
    out = torch.empty_like(x)
    out.zero_()
    for tile in hl.tile(x.size(0)):
        out[tile, :] = out[tile, :] + x[tile, :]
    return out


@probe(floats(16, 256))
def host_clone_changed(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[2] = 5.0
    y *= 3
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = y[tile, :] - x[tile, :]
    return out


@probe(floats(16, 256))
def host_clone_stored(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    for tile in hl.tile(8):
        y[tile, :] = y[tile, :] + x[tile, :]
    return y


def epilogue_of(bias):
    def epilogue(value, tile):
        return value + bias[tile][None, :]

    @probe(floats(16, 256), captured=(BIAS,))
    def default_epilogue(x: torch.Tensor, epilogue: Callable = epilogue) -> torch.Tensor:
        out = torch.empty_like(x)
        for rows, lanes in hl.tile(x.size()):
            out[rows, lanes] = epilogue(x[rows, lanes], lanes)
        return out


epilogue_of(BIAS)


@probe(floats(16, 256))
def host_store(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    out[...] = 3.0
    out[0] = 5.0
    for tile in hl.tile(x.size(0)):
        out[tile, :] = out[tile, :] + x[tile, :]
    return out


def wanted_index_put(x, index):
    """Return what torch gives; the eager mode takes the nearest of a position below 0."""
    out = torch.zeros_like(x)
    out.index_put_((index,), torch.ones([3, 256]))
    out[index, 3:5] = 7.0
    out[:, index] = x[:, :1]
    return out + x


@probe(floats(16, 256), listed([1, 3, -2]), wanted=wanted_index_put)
def host_index_put(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    out.index_put_((index,), torch.ones([3, 256]))
    out[index, 3:5] = 7.0
    out[:, index] = x[:, :1]
    for tile in hl.tile(x.size(0)):
        out[tile, :] = out[tile, :] + x[tile, :]
    return out


@probe(floats(16, 256), ints(40, below=16), floats(40, 256))
def host_index_add(x: torch.Tensor, index: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    out.index_put_((index,), rows, accumulate=True)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = out[tile, :] + x[tile, :]
    return out


def wanted_puts(x, rows, lanes, values):
    """Return what torch gives of positions that count from the end as well."""
    out = torch.zeros_like(x)
    out[rows, lanes] = values
    out.index_put_((rows, lanes), values, accumulate=True)
    out[rows, lanes] = x[rows, lanes] * 2
    return out + x


@probe(
    floats(16, 256),
    listed([1, 3, -2, 9]),
    listed([0, 200, -1, 12]),
    floats(4),
    wanted=wanted_puts,
)
def host_puts_elements(
    x: torch.Tensor, rows: torch.Tensor, lanes: torch.Tensor, values: torch.Tensor
) -> torch.Tensor:
    out = torch.zeros_like(x)
    out[rows, lanes] = values
    out.index_put_((rows, lanes), values, accumulate=True)
    picked = x[rows, lanes] * 2
    out[rows, lanes] = picked
    for tile in hl.tile(x.size(0)):
        out[tile, :] = out[tile, :] + x[tile, :]
    return out


def wanted_adds(x, rows, lanes, values):
    """Return what torch gives; the eager mode crosses the two."""
    out = torch.zeros_like(x).index_put_((rows, lanes), values, accumulate=True)
    return out.index_put_((rows, lanes), x[rows, lanes], accumulate=True) + x


@probe(
    floats(16, 256),
    ints(1500, below=16),
    ints(1500, below=256),
    floats(1500),
    wanted=wanted_adds,
)
def host_adds_elements(
    x: torch.Tensor, rows: torch.Tensor, lanes: torch.Tensor, values: torch.Tensor
) -> torch.Tensor:
    out = torch.zeros_like(x)
    out.index_put_((rows, lanes), values, accumulate=True)
    picked = x[rows, lanes]
    out.index_put_((rows, lanes), picked, accumulate=True)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = out[tile, :] + x[tile, :]
    return out


@probe(floats(16, 256), ints(40, below=256), floats(16, 40))
def host_adds_lanes(x: torch.Tensor, lanes: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    out.index_add_(1, lanes, values)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = out[tile, :] + x[tile, :]
    return out


def wanted_indexing(x, index, lanes):
    """Return what torch gives; the eager mode takes the nearest of a position below 0."""
    few = (x[:, lanes] * 2)[:4]
    return x[index] + x[index[0]][None, :, :] + few[:, 1][:, None, None]


@probe(floats(16, 256), ints(4, 20, below=16), listed([9, -1, 200]), wanted=wanted_indexing)
def host_indexing(x: torch.Tensor, index: torch.Tensor, lanes: torch.Tensor) -> torch.Tensor:
    rows = x[index]
    some = torch.index_select(x, 0, index[0])
    few = (x[:, lanes] * 2)[:4]
    out = torch.empty_like(rows)
    for i, j in hl.tile([4, 20]):
        out[i, j, :] = rows[i, j, :] + some[j, :][None, :, :] + few[i, 1][:, None, None]
    return out


@probe(floats(16, 256), ints(16, below=16), wanted=lambda x, index: x[index, index])
def host_indexing_twice(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    diagonal = x[index, index]
    out = torch.empty_like(diagonal)
    for tile in hl.tile(16):
        out[tile] = diagonal[tile]
    return out


@probe(floats(16, 256))
def host_filled_after(x: torch.Tensor) -> torch.Tensor:
    added = torch.zeros_like(x)
    out = torch.ones_like(x)
    out.add_(added)
    added.fill_(5.0)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = out[tile, :] + added[tile, :] * x[tile, :]
    return out


@probe(floats(16, 256), floats(5, 256), config={"block_sizes": [8, 128]})
def rows_one_by_one(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for rows, cols in hl.tile([16, 256]):
        value = x[rows, cols]
        total = w[0, cols] * value
        for order in hl.tile(1, 5, block_size=1):
            total += torch.exp(w[order, cols] * value)
        out[rows, cols] = total
    return out


@probe(floats(40, 256), listed([24, 37]), config={"block_sizes": [16, 128, 8]})
def grid_to_an_item(x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    first = ends[0].item()
    second = ends[1].item()
    for rows, cols in hl.tile([first, x.size(1)]):
        out[rows, cols] = x[rows, cols] * 2.0
    hl.barrier()
    for rows in hl.tile(first, second):
        out[rows, :] = out[rows, :] + x[rows, :].sum(1)[:, None]
    return out


@probe(floats(40, 256), listed([3, 24, 7]), config={"block_sizes": [16]})
def grid_to_the_longest(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    longest = lengths.max().item()
    for rows in hl.tile(longest):
        out[rows, :] = x[rows, :] * 2.0
    return out


@probe(floats(40, 256), listed([24, 5]), config={"block_sizes": [16, 8]})
def grid_to_more_than_an_item(x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for rows in hl.tile(ends[0].item() + 1):
        out[rows, :] = x[rows, :] * 2.0
    hl.barrier()
    for rows in hl.tile(ends[1].item() // 2, helion.cdiv(ends[0].item(), 3) * 2 - ends[1].item()):
        out[rows, :] = out[rows, :] + 1.0
    return out


@probe(floats(40, 256), listed(21), config={"block_sizes": [16]})
def grid_to_a_tensor(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for rows in hl.tile(count):
        out[rows, :] = x[rows, :] * 2.0
    return out


@probe(floats(16, 256))
def host_views(x: torch.Tensor) -> torch.Tensor:
    half = x[:, : x.size(1) // 2]
    row = x[3]
    out = torch.zeros_like(half)
    n = max(x.size(0), 4) - 2
    for tile in hl.tile(n):
        out[tile, :] = half[tile, :] + row[:128][None, :]
    return out


@probe(floats(16, 256), floats(256))
def host_arithmetic(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    both = x + y
    scaled = torch.exp(y) * 2.0
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = both[tile, :] * scaled[None, :]
    return out


@probe(floats(16, 256))
def host_after(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = x[tile, :] * 2
    out = out + 1
    return out.sum(-1)


@probe(floats(16, 256))
def host_returns_argument(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = x[tile, :] * 2
    return out, x


@probe(floats(16, 256))
def host_branch(x: torch.Tensor) -> torch.Tensor:
    if x.size(0) > 8:  # noqa: SIM108
        out = torch.zeros_like(x)
    else:
        out = torch.ones_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = out[tile, :] + x[tile, :]
    return out


@probe(floats(16, 256))
def host_loop(x: torch.Tensor) -> torch.Tensor:
    n = 1
    while n < x.size(1):
        n *= 2
    out = torch.zeros([16, n], dtype=x.dtype)
    for tile in hl.tile(16):
        out[tile, :256] = x[tile, :]
    return out


@probe(floats(16, 256))
def host_inplace_after(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = x[tile, :] * 2
    out.add_(1)
    return out


@probe(floats(16, 256), refused="Statements cannot appear between")
def host_between_roots(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = x[tile, :] * 2
    out.mul_(3)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = out[tile, :] + 1
    return out


@probe(floats(16, 256), ints(16, below=256, dtype=torch.int64))
def int64_labels(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    out = torch.empty([16], dtype=x.dtype)
    flat = x.view(-1)
    for tile in hl.tile(16):
        out[tile] = hl.load(flat, [tile.index * 256 + labels[tile]])
    return out


@probe(floats(16, 256), ints(20, below=16, dtype=torch.int64))
def int64_rows(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    out = torch.empty([20, 256], dtype=x.dtype)
    for i, j in hl.tile(out.size()):
        out[i, j] = x[index[i], j]
    return out


@probe(floats(16, 256), ints(20, below=16, dtype=torch.int64), ints(20, below=9, dtype=torch.int8))
def int64_to_int32(x: torch.Tensor, index: torch.Tensor, more: torch.Tensor) -> torch.Tensor:
    rows = index.to(torch.int32)
    wide = more.long()
    out = torch.empty([20, 256], dtype=x.dtype)
    for i, j in hl.tile(out.size()):
        out[i, j] = x[rows[i], j] + wide[i][:, None]
    return out


# Values


@probe(floats(256, 128), config={"block_sizes": [8]})
def views_of_values(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(256):
        v = x[tile, :]
        pairs = v.reshape(tile.block_size, 64, 2)
        low, high = hl.split(pairs)
        out[tile, :] = hl.join(high, low).reshape(tile.block_size, 128)
    return out


@probe(floats(256, 128), config={"block_sizes": [8]}, since="1.5.0")
def stack_and_cat(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([256, 256], dtype=x.dtype)
    for tile in hl.tile(256):
        v = x[tile, :]
        out[tile, :] = torch.cat([v, v * 2], dim=1)
    return out


@probe(
    floats(256, 128),
    floats(128, 16),
    config={"block_sizes": [8]},
    wanted=lambda x, y: x @ y * 2 + 1,
)
def dots(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty([256, 16], dtype=torch.float32)
    for tile in hl.tile(256):
        acc = hl.full([tile, 16], 1.0, dtype=torch.float32)
        acc = hl.dot(x[tile, :], y[:, :], acc=acc)
        out[tile, :] = acc + x[tile, :] @ y[:, :]
    return out


@probe(ints(256, 128, below=100), config={"block_sizes": [8]})
def bit_views(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([256, 128], dtype=torch.float32)
    for tile in hl.tile(256):
        out[tile, :] = (x[tile, :] + 0x3F800000).view(torch.float32)
    return out


@probe(floats(256, 128), 4, config={"block_sizes": [8]})
def specialized(x: torch.Tensor, n: int) -> torch.Tensor:
    n = hl.specialize(n)
    out = torch.empty([256, 4], dtype=x.dtype)
    for tile in hl.tile(256):
        out[tile, :] = x[tile, :].reshape(tile.block_size, n, 128 // n).sum(-1)
    return out


@probe(floats(256, 128), making(lambda: torch.tensor(2.5)), config={"block_sizes": [8]})
def scalar_tensor(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(256):
        out[tile, :] = x[tile, :] * scale[()]
    return out


@probe(floats(256, 128), config={"block_sizes": [8]})
def constant_in_kernel(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(256):
        out[tile, :] = x[tile, :] + torch.tensor(2.0) + torch.arange(128, device=x.device)[None, :]
    return out


@probe(floats(256, 128), config={"block_sizes": [8]}, refused="Tensor.item\\(\\) is not allowed")
def item_of_tensor(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for i in hl.grid(256):
        out[i, :] = x[i, :] * x[i, 0].item()
    return out


# What has no meaning on a TPU


@probe(
    floats(256),
    config={"block_sizes": [8]},
    refused="'inline_asm_elementwise' is not expressible .*: write it with torch",
)
def inline_assembly(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(256):
        out[tile] = hl.inline_asm_elementwise(
            "mov.b32 $0, $1;", "=r,r", [x[tile]], dtype=torch.float32, is_pure=True, pack=1
        )
    return out


@probe(
    floats(256),
    config={"block_sizes": [8]},
    refused="'inline_triton' is not expressible .*: write it with torch",
)
def inline_triton(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(256):
        v = x[tile]
        out[tile] = hl.inline_triton("{0} + 1", args=(v,), output_like=v)
    return out


@probe(
    floats(256),
    config={"block_sizes": [8]},
    refused="'device_print' is not expressible .*: a kernel prints nothing: store",
)
def prints(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(256):
        print("x", x[tile])
        out[tile] = x[tile]
    return out


@probe(
    ints(4, below=9, dtype=torch.uint64),
    floats(256),
    config={"block_sizes": [8]},
    refused="is uint64, which the graph format lacks: .* .torch.stack.",
)
def stacked(pointers: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    out = torch.empty([4, 256], dtype=like.dtype)
    for tile in hl.tile(256):
        out[:, tile] = hl.stacktensor_like(like, pointers[:])[tile]
    return out


# Host code that joins, splits and returns parts


@probe(floats(40, 256), floats(24, 256), config={"block_sizes": [8]})
def host_joined(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    both = torch.cat([x, y])
    out = torch.empty_like(both)
    for tile in hl.tile(both.size(0)):
        out[tile, :] = both[tile, :] * 2.0
    return out


@probe(floats(40, 256), config={"block_sizes": [8, 128]})
def host_split(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    gate, value = x.chunk(2, -1)
    first, second = x[:2].unbind(0)
    out = torch.empty_like(gate)
    row = torch.empty_like(first)
    for tile in hl.tile(40):
        out[tile, :] = gate[tile, :] * value[tile, :]
    for tile in hl.tile(256):
        row[tile] = first[tile] - second[tile]
    return out, row


@probe(floats(40, 256), config={"block_sizes": [8]})
def host_counted(x: torch.Tensor) -> torch.Tensor:
    places = torch.arange(x.size(0), device=x.device)
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = x[tile, :] * places[tile][:, None]
    return out


@probe(floats(40, 256), config={"block_sizes": [8]})
def parts_returned(
    x: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    out = torch.zeros_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = x[tile, :] * 2.0
    return out[:, 3:70], out[3], out[::2, 5], out[:, 3:70].sum(1)


@probe(
    floats(40, 256),
    listed([0, 7, 40]),
    refused="from what a tensor holds: say what with items={'offsets.2.': ...}",
)
def sized_by_an_item(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(int(offsets[-1].item()) * x.size(1))
    for tile in hl.tile(x.size(0)):
        out[tile] = x[tile, 0]
    return out


# What Helion finds by tiles, and by the kind of index


def wanted_found_by_tile(x, scale, bias):
    """Rows are scaled, and each plane's columns are moved."""
    return x * scale[None, :, None] + bias[:, None, :]


@probe(
    floats(4, 40, 256),
    floats(40),
    floats(4, 256),
    config={"block_sizes": [2, 8, 128]},
    wanted=wanted_found_by_tile,
)
def operands_found_by_tile(
    x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    out = torch.empty_like(x)
    for planes, rows, cols in hl.tile(x.size()):
        tile = x[planes, rows, cols]
        out[planes, rows, cols] = tile * scale[rows].expand_as(tile) + bias[planes, cols]
    return out


def wanted_ranges_crossed(x):
    """A square of ones, rows from the fourth on, and the sum of all everywhere."""
    square = torch.zeros_like(x)
    square[:16, :16] = 1.0
    return square, x[4:20, :32] * 2.0, x.sum() + torch.zeros([3, 7])


@probe(floats(40, 256), config={"block_sizes": [8]}, wanted=wanted_ranges_crossed)
def index_ranges_crossed(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    square, part, total = torch.zeros_like(x), torch.zeros([16, 32]), torch.zeros([3, 7])
    for tile in hl.tile(x.size(0)):
        square[hl.arange(0, 16), hl.arange(0, 16)] = 1.0
        part[hl.arange(0, 16), hl.arange(0, 32)] = x[hl.arange(4, 20), hl.arange(0, 32)] * 2.0
        hl.atomic_add(
            total, [hl.arange(0, 3), hl.arange(0, 7)], x[tile, :].sum() + hl.zeros([3, 7])
        )
    return square, part, total


def wanted_ranges_around(x):
    """The rows from the second on of the last plane, of columns from the fourth on."""
    return x[2:10, 2, 4:20]


@probe(floats(12, 3, 256), wanted=wanted_ranges_around)
def index_ranges_around_a_position(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([8, 16])
    for i in hl.grid(3):
        out[hl.arange(0, 8), hl.arange(0, 16)] = x[hl.arange(2, 10), i, hl.arange(4, 20)]
    return out


# Numbers of the host


def wanted_by_block(x):
    """Blocks are of 32."""
    return x + 1.0


@probe(floats(128), config={"block_sizes": [32]}, wanted=wanted_by_block)
def branch_on_a_block_size(x: torch.Tensor) -> torch.Tensor:
    block = hl.register_block_size(x.size(0))
    few = hl.constexpr(block < 64)
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0), block_size=block):
        if few:
            out[tile] = x[tile] + 1.0
        else:
            out[tile] = x[tile] + 2.0
    return out


@probe(floats(40, 256), 0.5, 0.1, config={"block_sizes": [8]})
def branch_on_numbers(x: torch.Tensor, beta: float, eps: float) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        if beta == 0:
            out[tile, :] = x[tile, :] * 2.0
        elif eps > 0.1:
            out[tile, :] = x[tile, :] * 3.0
        elif beta + eps < 1.0:
            out[tile, :] = x[tile, :] * 4.0
        else:
            out[tile, :] = x[tile, :] * 5.0
    return out


@probe(floats(40, 256))
def bits_of_positions(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for rows in hl.tile(x.size(0), block_size=8):
        for cols in hl.tile(x.size(1), block_size=128):
            factor = (rows.begin >> 2) + (rows.begin & 15) + (cols.begin << 1)
            out[rows, cols] = x[rows, cols] * factor
    return out


@probe(floats(40, 256), refused="is not expressible: use")
def bits_set_in_positions(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for rows in hl.tile(x.size(0), block_size=8):
        out[rows, :] = x[rows, :] * (rows.begin | 3)
    return out


@probe(ints(40, 256, below=9, at_least=1), floats(40, 256), config={"block_sizes": [8]})
def remainders_of_numbers(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    whole, rest = torch.empty_like(x), torch.empty_like(y)
    for tile in hl.tile(x.size(0)):
        whole[tile, :] = 10 % x[tile, :]
        rest[tile, :] = 7.5 % (y[tile, :].abs() + 0.5)
    return whole, rest


# Configurations in short


def wanted_by_the_size(x):
    """Blocks are of 8."""
    return x * 8


@probe(floats(40, 256), config={"block_size": 8}, wanted=wanted_by_the_size)
def block_size_in_short(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = x[tile, :] * tile.block_size
    return out


@probe(floats(40, 256), config={"block_sizes": [[8, 128], 4], "reduction_loops": 128})
def block_sizes_nested(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    out = torch.empty_like(x)
    sums = torch.empty([x.size(0)])
    for rows, cols in hl.tile(x.size()):
        out[rows, cols] = x[rows, cols] * 2.0
    for rows in hl.tile(x.size(0)):
        sums[rows] = x[rows, :].sum(1)
    return out, sums


@probe(floats(40, 256), config={})
def no_block_sizes(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = x[tile, :] * 2.0
    return out


@probe(ints(40, 256, below=9), refused="Helion: implicit RNG")
def ints_at_random(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = torch.rand_like(x[tile, :]).to(torch.int32)
    return out


# Host code that counts, compares and indexes; ints of 64 bits


@probe(floats(2, 3), 2)
def an_offset_and_a_size_of_it(x: torch.Tensor, offset: int) -> torch.Tensor:
    out = torch.zeros([x.size(0), x.size(1) + offset], dtype=x.dtype)
    for rows, cols in hl.tile(x.size()):
        out[rows, cols.index + offset] = x[rows, cols]
    return out


@probe(floats(3000), config={"block_sizes": [512]})
def host_counted_in_steps(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    places = torch.arange(7, 7 + 3 * x.size(0), 3)
    whole, part = torch.empty([x.size(0)], dtype=torch.int64), torch.empty_like(x)
    falls = torch.arange(x.size(0), 0, -1, dtype=torch.float32)
    for tile in hl.tile(x.size(0)):
        whole[tile] = places[tile] + 1
        part[tile] = x[tile] * falls[tile]
    return whole, part


@probe(floats(40), config={"block_sizes": [8]})
def host_counted_and_changed(x: torch.Tensor) -> torch.Tensor:
    places, out = torch.arange(x.size(0)), torch.empty_like(x)
    places[3] = 1000
    for tile in hl.tile(x.size(0)):
        out[tile] = x[tile] + places[tile]
    return out


@probe(floats(40), config={"block_sizes": [8]})
def host_counted_and_written(x: torch.Tensor) -> torch.Tensor:
    places = torch.arange(x.size(0))
    for tile in hl.tile(x.size(0)):
        places[tile] = places[tile] * 100
    return places


@probe(floats(1000), listed([100, 0, 250, 400, 250]))
def host_summed_up(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    ends = torch.cumsum(lengths, 0, dtype=torch.int32)
    out = torch.zeros([lengths.size(0)], dtype=x.dtype)
    for row in hl.grid(lengths.size(0)):
        total = hl.zeros([], dtype=torch.float32)
        for tile in hl.tile(ends[row] - lengths[row], ends[row], block_size=128):
            total += x[tile].sum()
        out[row] = total
    return out


@probe(
    floats(40, 256), ints(40, below=9, at_least=-9, dtype=torch.int64), config={"block_sizes": [8]}
)
def host_compared(x: torch.Tensor, marks: torch.Tensor) -> torch.Tensor:
    kept, out = marks >= 0, torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = torch.where(kept[tile][:, None], x[tile, :], 0.0)
    return out


@probe(
    floats(9, 32, 16),
    ints(20, below=9, at_least=-9, dtype=torch.int64),
    ints(20, below=16, dtype=torch.int64),
    wanted=lambda x, i, j: x[i, :, j] + 1,
)
def host_index_around_a_dim(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
    picked = x[i, :, j]
    out = torch.empty_like(picked)
    for tile in hl.tile(out.size()):
        out[tile] = picked[tile] + 1
    return out


@probe(
    floats(9, 32),
    ints(20, below=9, at_least=-9, dtype=torch.int64),
    ints(7, below=32, at_least=-32),
    wanted=lambda x, i, j: x[i[:, None], j] + 1,
)
def host_index_crossed(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
    picked = x[i[:, None], j]
    out = torch.empty_like(picked)
    for tile in hl.tile(out.size()):
        out[tile] = picked[tile] + 1
    return out


@probe(floats(40, 256), floats(40, 256), refused="of what it computed itself: pass its result")
def host_reduced_of_two(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    total, out = (x * y).sum(dim=1), torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = x[tile, :] + total[tile][:, None]
    return out


@probe(floats(40, 256), floats(256, 64), refused="of two tensors: pass its result as an argument")
def host_multiplied(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    both = x @ y
    out = torch.empty_like(both)
    for tile in hl.tile(both.size()):
        out[tile] = both[tile] + 1
    return out


@probe(floats(40, 256), config={"block_sizes": [8]})
def positions_of_64_bits(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    order = torch.full([x.size(0), x.size(1)], -1, dtype=torch.int64)
    best = torch.empty([x.size(0), 4], dtype=torch.int64)
    most = torch.empty([x.size(0)], dtype=torch.int64)
    for tile in hl.tile(x.size(0)):
        _sorted, places = torch.sort(x[tile, :], dim=-1, descending=True)
        _four, first = torch.topk(x[tile, :], 4, dim=-1)
        order[tile, :] = places
        best[tile, :] = first
        most[tile] = x[tile, :].argmax(-1)
    return order, best, most


@probe(ints(200, below=9, at_least=-9, dtype=torch.int64), config={"block_sizes": [128]})
def argument_of_64_bits_written(x: torch.Tensor) -> torch.Tensor:
    for tile in hl.tile(x.size(0)):
        x[tile] = torch.where(x[tile] < 0, 0, x[tile])
    return x


@probe(ints(40, below=16), config={"block_sizes": [16]})
def counts_of_64_bits(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([16], dtype=torch.int64)
    for tile in hl.tile(x.size(0)):
        hl.atomic_add(out, [x[tile]], 1)
    return out


def wanted_places(x):
    """Places in the order of the rows, and how many of each there are."""
    seen, places = [0] * 16, []
    for value in x.tolist():
        places.append(seen[value])
        seen[value] += 1
    return torch.tensor(places), torch.tensor(seen)


@probe(ints(40, below=16), config={"block_sizes": [16]}, wanted=wanted_places)
def old_counts_of_64_bits(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    out = torch.zeros([16], dtype=torch.int64)
    place = torch.empty([x.size(0)], dtype=torch.int64)
    for tile in hl.tile(x.size(0)):
        place[tile] = hl.atomic_add(out, [x[tile]], 1)
    return place, out


@probe(ints(16, 128, below=9), config={"block_sizes": [8]})
def result_widened(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = x[tile, :] + 1
    return out.to(torch.int64)


@probe(ints(16, 128, below=9), refused="computes an int64 .aten.sum.default.: give it dtype")
def result_summed(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = x[tile, :] + 1
    return out.sum()


@probe(floats(16, 128), floats(16, 128), config={"block_sizes": [8]})
def result_of_two_summed(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = x[tile, :] + 1
    return (out * y).sum(dim=1)


@probe(floats(100), making(lambda: torch.tensor(5.0)), listed([3]), config={"block_sizes": [8]})
def items_as_values(x: torch.Tensor, scale: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    factor, n, out = scale.item(), count.item(), torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile] = x[tile] * factor + n
    return out


@probe(floats(40), listed([3, 9], dtype=torch.int16), config={"block_sizes": [8]})
def items_computed(x: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
    first, second, out = given[0].item(), given[1].item(), torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile] = x[tile] + (first * 2 + second + 1) + x[second // first]
    return out


@probe(floats(16, 128), listed([3, 9], dtype=torch.int64), config={"block_sizes": [8]})
def items_as_bounds(x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    begin, end, out = ends[0].item(), ends[1].item(), torch.zeros([128])
    for cols in hl.tile(128):
        total = hl.zeros([cols], dtype=torch.float32)
        for rows in hl.tile(begin, end, block_size=8):
            total += x[rows, cols].sum(0)
        out[cols] = total
    return out


@probe(floats(2, 3, 64, 32), config={"block_sizes": [1, 1, 16]}, wanted=lambda x: x * 2)
def tiles_merged_and_parted(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for i, j, k in hl.tile([x.size(0), x.size(1), x.size(2)]):
        rows = x[i, j, k, :].reshape([-1, 32])
        out[i, j, k, :] = (rows * 2).reshape([1, 1, -1, 32])
    return out


@probe(floats(16, 128), ints(16, below=128), refused="an atomic of a value: only tensors of")
def atomic_of_a_value(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        value = x[tile, :] + 1
        hl.atomic_add(value, [tile, 0], 1.0)
        out[tile, :] = value
    return out


@probe(floats(16, 32))
def host_powers(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    steps = 1.0 / (10 ** (torch.arange(0, 32, 2) / 32))
    out = torch.empty([16, 16])
    for t, u in hl.tile(out.size()):
        out[t, u] = x[t, u] * steps[u][None, :]
    return 2**out, torch.pow(3.0, out + out)


@probe(floats(16, 32))
def host_copies_reshaped(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x.T.contiguous()
    flat, part = y.view(-1), x[:, 3:8].reshape(-1)
    twice = x[:, None, :].expand(-1, 2, -1).reshape(-1, x.size(1))
    out, o2 = torch.empty_like(y), torch.empty_like(flat)
    o3, o4 = torch.empty_like(part), torch.empty_like(twice)
    for t in hl.tile(y.size()):
        out[t] = y[t] + 1
    for t in hl.tile(flat.size(0)):
        o2[t] = flat[t] + 2
    for t in hl.tile(part.size(0)):
        o3[t] = part[t] + 3
    for a, b in hl.tile(twice.size()):
        o4[a, b] = twice[a, b] + 4
    return out, o2, o3, o4, out.view(16, 32).T.reshape(-1)


@probe(floats(16, 32))
def host_bits(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y, z = x.view(torch.int32), (x + 1).to(torch.bfloat16).view(torch.int16)
    out, o2 = torch.empty_like(y), torch.empty_like(z)
    for t, u in hl.tile(out.size()):
        out[t, u] = y[t, u] & 3
    for t, u in hl.tile(o2.size()):
        o2[t, u] = z[t, u] | 3
    return out, o2, out.view(torch.float32), (out + out).view(torch.float32)


def wanted_masks(x, rows, cols, y):
    """Stores under masks, one after the other."""
    x[x > 1] = 1.0
    x[rows] = y
    x[:, cols] = 7.0
    x[2:5][x[2:5] < 0] = -3.0
    x.masked_fill_(x == 7.0, 8.0)
    return x + 1


@probe(floats(16, 32), flags(16), flags(32), floats(32), wanted=wanted_masks)
def host_masks(
    x: torch.Tensor, rows: torch.Tensor, cols: torch.Tensor, y: torch.Tensor
) -> torch.Tensor:
    x[x > 1] = 1.0
    x[rows] = y
    x[:, cols] = 7.0
    x[2:5][x[2:5] < 0] = -3.0
    x.masked_fill_(x == 7.0, 8.0)
    out = torch.empty_like(x)
    for t in hl.tile(x.size()):
        out[t] = x[t] + 1
    return out


@probe(
    floats(16, 32), flags(16), refused="its size depends on what a tensor holds: use torch.where"
)
def host_masks_loaded(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    x[mask] = x[mask] * 2
    out = torch.empty_like(x)
    for t in hl.tile(x.size()):
        out[t] = x[t] + 1
    return out


@probe(floats(16, 32), flags(16), floats(5, 32), refused="what depends on how much of it is true")
def host_masks_counted(x: torch.Tensor, mask: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x[mask] = y
    out = torch.empty_like(x)
    for t in hl.tile(x.size()):
        out[t] = x[t] + 1
    return out


@probe(floats(16, 32), refused="views torch.float32 as torch.int16, of another size")
def host_bits_of_another_size(x: torch.Tensor) -> torch.Tensor:
    y = x.view(torch.int16)
    out = torch.empty_like(y)
    for t in hl.tile(y.size()):
        out[t] = y[t] & 1023
    return out


@probe(floats(16, 32), refused="the kernel writes 'y', which is computed by host code")
def host_bits_written(x: torch.Tensor) -> torch.Tensor:
    y = x.view(torch.int32)
    for t in hl.tile(x.size()):
        y[t] = y[t] & 255
    return x


@probe(floats(16, 32), refused="copies or computes of a tensor that changes")
def host_bits_changed(x: torch.Tensor) -> torch.Tensor:
    y = x.view(torch.int32)
    out = torch.empty_like(y)
    for t in hl.tile(x.size()):
        x[t] = x[t] * 2
    hl.barrier()
    for t in hl.tile(x.size()):
        out[t] = y[t] & 255
    return out


@probe(floats(16, 32), refused="operation aten.special_bessel_j0.default is not expressible")
def op_unknown(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for t in hl.tile(x.size()):
        out[t] = torch.special.bessel_j0(x[t])
    return out


@probe(floats(16, 32), making(lambda: numpy.arange(3.0)), refused="TypeError: unsupported argument")
def argument_of_numpy(x: torch.Tensor, scales) -> torch.Tensor:
    out = torch.empty_like(x)
    for t in hl.tile(x.size()):
        out[t] = x[t] * scales[0]
    return out


@probe(ints(5, below=9), refused=r"from a tensor: say what with items=.'ends.4.': ...., or take it")
def size_of_an_item(ends: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(ends[4].item())
    for t in hl.tile(ends.size(0)):
        out[t] = ends[t].to(torch.float32)
    return out


@probe(floats(16, 32), refused="aten.sort.default, which gives several tensors: pass its results")
def host_sorts(x: torch.Tensor) -> torch.Tensor:
    y = torch.sort(x, -1).values
    out = torch.empty_like(x)
    for t in hl.tile(x.size()):
        out[t] = y[t] + 1
    return out


@probe(floats(16, 32), refused="aten.unfold.default, which the graph format lacks: pass its result")
def host_unfolds(x: torch.Tensor) -> torch.Tensor:
    y = x.flatten().unfold(0, 4, 2)
    out = torch.empty([y.size(0), 4])
    for t in hl.tile(out.size()):
        out[t] = y[t] + 1
    return out


@probe(floats(16, 32), refused="host code makes a tensor of numbers: pass it as an argument")
def host_numbers(x: torch.Tensor) -> torch.Tensor:
    weights = torch.tensor([0.25, 0.5, 0.25])
    out = torch.empty_like(x)
    for t in hl.tile(x.size()):
        out[t] = x[t] * weights[1]
    return out


@probe(floats(16, 128))
def results_nested(x: torch.Tensor) -> dict[str, list[torch.Tensor]]:
    out, least = torch.empty_like(x), torch.empty([x.size(0)])
    for tile in hl.tile(x.size(0)):
        v = x[tile, :]
        out[tile, :] = v * 2
        least[tile] = torch.amin(v, -1)
    return {"twice": (out, [least]), "none": None, "all": out + 1}


@probe(floats(16, 128), refused="a result is of type int, not a tensor: return tensors alone")
def result_of_an_int(x: torch.Tensor) -> tuple[torch.Tensor, int]:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size()):
        out[tile] = x[tile]
    return out, x.size(0)


@probe(floats(16, 128), config={"block_sizes": [8]})
def tile_by_its_long_name(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in helion.language.tile(x.size(0)):
        out[tile, :] = x[tile, :] + 1
    return out


@probe(floats(16, 128), config={"block_sizes": [8]})
def view_of_the_same_shape(x: torch.Tensor) -> torch.Tensor:
    alias = x.view(16, 128)
    for tile in hl.tile(x.size(0)):
        x[tile, :] = x[tile, :] * 2
        alias[tile, :] = alias[tile, :] + 1
    return x
