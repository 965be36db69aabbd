"""Elementwise kernels: groups of functions with an output each, operands of other shapes and dtypes."""

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True)
def exp(x: torch.Tensor) -> torch.Tensor:
    """Return exp(x) of any [M, N]."""
    out = torch.empty_like(x)
    for tile in hl.tile(x.size()):
        out[tile] = torch.exp(x[tile])
    return out


@helion.kernel(static_shapes=True)
def broadcast_add(x: torch.Tensor, row: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
    """Return x * column + row: x [M, N], row [N], column [M, 1]."""
    out = torch.empty_like(x)
    for tile_m, tile_n in hl.tile(x.size()):
        out[tile_m, tile_n] = x[tile_m, tile_n] * column[tile_m, :] + row[tile_n][None, :]
    return out


@helion.kernel(static_shapes=True)
def permuted_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return x + y.T: x [M, N], y [N, M], of which the kernel reads a transposed view."""
    y_view = y.transpose(0, 1)
    out = torch.empty_like(x)
    for tile_m, tile_n in hl.tile(x.size()):
        out[tile_m, tile_n] = x[tile_m, tile_n] + y_view[tile_m, tile_n]
    return out


@helion.kernel(static_shapes=True)
def exponentials(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return exp2(x), expm1(x), and of p = |x| + 0.5 log(p), log2(p), log10(p), log1p(p)."""
    a, b, c = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    d, e, f = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    for tile in hl.tile(x.size()):
        v = x[tile]
        p = torch.abs(v) + 0.5
        a[tile] = torch.exp2(v)
        b[tile] = torch.expm1(v)
        c[tile] = torch.log(p)
        d[tile] = torch.log2(p)
        e[tile] = torch.log10(p)
        f[tile] = torch.log1p(p)
    return a, b, c, d, e, f


@helion.kernel(static_shapes=True)
def powers(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of p = |x| + 0.5: sqrt(p), rsqrt(p), 1 / p, p ** y, p ** 3; and x / (|y| + 1)."""
    a, b, c = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    d, e, f = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    for tile in hl.tile(x.size()):
        v, w = x[tile], y[tile]
        p = torch.abs(v) + 0.5
        a[tile] = torch.sqrt(p)
        b[tile] = torch.rsqrt(p)
        c[tile] = torch.reciprocal(p)
        d[tile] = torch.pow(p, w)
        e[tile] = torch.pow(p, 3.0)
        f[tile] = v / (torch.abs(w) + 1.0)
    return a, b, c, d, e, f


@helion.kernel(static_shapes=True)
def trigonometry(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return sin(x), cos(x), tan(tanh(x)), atan2(x, y), sinh(x), asinh(x)."""
    a, b, c = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    d, e, f = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    for tile in hl.tile(x.size()):
        v = x[tile]
        a[tile] = torch.sin(v)
        b[tile] = torch.cos(v)
        c[tile] = torch.tan(torch.tanh(v))
        d[tile] = torch.atan2(v, y[tile])
        e[tile] = torch.sinh(v)
        f[tile] = torch.asinh(v)
    return a, b, c, d, e, f


@helion.kernel(static_shapes=True)
def rounding(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of v = 8 x: floor, ceil, round (half to even), trunc, fmod 3, remainder 3."""
    a, b, c = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    d, e, f = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    for tile in hl.tile(x.size()):
        v = x[tile] * 8.0
        a[tile] = torch.floor(v)
        b[tile] = torch.ceil(v)
        c[tile] = torch.round(v)
        d[tile] = torch.trunc(v)
        e[tile] = torch.fmod(v, 3.0)
        f[tile] = torch.remainder(v, 3.0)
    return a, b, c, d, e, f


@helion.kernel(static_shapes=True)
def activations(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return relu, sigmoid, silu, gelu (erf), leaky_relu, elu, softplus and hardswish of x."""
    a, b, c, d = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    e, f, g, h = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    for tile in hl.tile(x.size()):
        v = x[tile]
        a[tile] = torch.relu(v)
        b[tile] = torch.sigmoid(v)
        c[tile] = torch.nn.functional.silu(v)
        d[tile] = torch.nn.functional.gelu(v)
        e[tile] = torch.nn.functional.leaky_relu(v, 0.1)
        f[tile] = torch.nn.functional.elu(v)
        g[tile] = torch.nn.functional.softplus(v)
        h[tile] = torch.nn.functional.hardswish(v)
    return a, b, c, d, e, f, g, h


@helion.kernel(static_shapes=True)
def selection(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return maximum, minimum, x where x > y else 2 y, x clamped to [-0.5, 1], x with 0 where y < 0."""
    a, b, c = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    d, e = torch.empty_like(x), torch.empty_like(x)
    for tile in hl.tile(x.size()):
        v, w = x[tile], y[tile]
        a[tile] = torch.maximum(v, w)
        b[tile] = torch.minimum(v, w)
        c[tile] = torch.where(v > w, v, w * 2.0)
        d[tile] = torch.clamp(v, -0.5, 1.0)
        e[tile] = v.masked_fill(w < 0.0, 0.0)
    return a, b, c, d, e


@helion.kernel(static_shapes=True)
def integers(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return x & y, x | y, x ^ ~y, (x << 2) + (y >> 1), x * y, x // 3 of ints."""
    a, b, c = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    d, e, f = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    for tile in hl.tile(x.size()):
        v, w = x[tile], y[tile]
        a[tile] = v & w
        b[tile] = v | w
        c[tile] = v ^ ~w
        d[tile] = (v << 2) + (w >> 1)
        e[tile] = v * w
        f[tile] = v // 3
    return a, b, c, d, e, f


@helion.kernel(static_shapes=True)
def promotion(i: torch.Tensor, b: torch.Tensor, f: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return i + b in bfloat16, b * f in float32, i / 4 in float32: i int8, b bfloat16, f float32."""
    first = torch.empty_like(b)
    second, third = torch.empty_like(f), torch.empty_like(f)
    for tile in hl.tile(f.size()):
        first[tile] = i[tile] + b[tile]
        second[tile] = b[tile] * f[tile]
        third[tile] = i[tile] / 4
    return first, second, third
