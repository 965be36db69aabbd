/* print_helpers.c - functions that emitted modules define for themselves: what jnp has and Mosaic does not lower,
 * or lowers with other values than torch's at the edges. Measured with libtpu 0.0.51. */
#include "printer.h"

typedef struct Helper {
	const char *name, *needs, *text;
} Helper;

/* A helper stands after those that it needs. */
/* clang-format off */
static const Helper helpers[HELPER_COUNT] = {
	{"_gelu", NULL,
	 "def _gelu(x):\n"
	 "    \"\"\"The exact GELU, x times the normal distribution function of x.\"\"\"\n"
	 "    return 0.5 * x * (1.0 + jax.lax.erf(x * 0.7071067811865476))\n"},
	{"_expm1", NULL,
	 "def _expm1(x):\n"
	 "    \"\"\"exp(x) - 1, by its series where the subtraction would lose digits.\"\"\"\n"
	 "    series = x * (\n"
	 "        1.0 + x * (1 / 2 + x * (1 / 6 + x * (1 / 24 + x * (1 / 120 + x / 720))))\n"
	 "    )\n"
	 "    return jnp.where(jnp.abs(x) < 0.3, series, jnp.exp(x) - 1.0)\n"},
	{"_sinh", "_expm1",
	 "def _sinh(x):\n"
	 "    \"\"\"The hyperbolic sine; halves inside exp() do not overflow early.\"\"\"\n"
	 "    size = jnp.abs(x)\n"
	 "    small = _expm1(size)\n"
	 "    half = jnp.exp(0.5 * size)\n"
	 "    large = 0.5 * half * half\n"
	 "    value = jnp.where(size < 9.0, 0.5 * (small + small / (small + 1.0)), large)\n"
	 "    return jnp.where(x < 0, -value, jnp.where(x == 0, x, value))\n"},
	{"_cosh", NULL,
	 "def _cosh(x):\n"
	 "    \"\"\"The hyperbolic cosine; halves inside exp() do not overflow early.\"\"\"\n"
	 "    half = jnp.exp(0.5 * jnp.abs(x))\n"
	 "    return 0.5 * half * half + 0.5 / (half * half)\n"},
	{"_asinh", NULL,
	 "def _asinh(x):\n"
	 "    \"\"\"The inverse hyperbolic sine.\"\"\"\n"
	 "    size = jnp.abs(x)\n"
	 "    small = jnp.minimum(size, 1e9)\n"
	 "    near = jnp.log1p(small + small * small / (1.0 + jnp.sqrt(small * small + 1.0)))\n"
	 "    value = jnp.where(size < 1e9, near, jnp.log(size) + 0.6931471805599453)\n"
	 "    return jnp.where(x < 0, -value, jnp.where(x == 0, x, value))\n"},
	{"_acosh", NULL,
	 "def _acosh(x):\n"
	 "    \"\"\"The inverse hyperbolic cosine; NaN below 1.\"\"\"\n"
	 "    over = jnp.minimum(x, 1e9) - 1.0\n"
	 "    near = jnp.log1p(over + jnp.sqrt(over * (over + 2.0)))\n"
	 "    value = jnp.where(x < 1e9, near, jnp.log(x) + 0.6931471805599453)\n"
	 "    return jnp.where(x < 1, jnp.nan, value)\n"},
	{"_atanh", NULL,
	 "def _atanh(x):\n"
	 "    \"\"\"The inverse hyperbolic tangent; NaN outside -1..1.\"\"\"\n"
	 "    return 0.5 * (jnp.log1p(x) - jnp.log1p(-x))\n"},
	{"_atan", NULL,
	 "def _atan(x):\n"
	 "    \"\"\"The arc tangent.\"\"\"\n"
	 "    return jnp.arctan2(x, jnp.ones_like(x))\n"},
	{"_asin", NULL,
	 "def _asin(x):\n"
	 "    \"\"\"The arc sine; NaN outside -1..1.\"\"\"\n"
	 "    return jnp.arctan2(x, jnp.sqrt((1.0 - x) * (1.0 + x)))\n"},
	{"_acos", NULL,
	 "def _acos(x):\n"
	 "    \"\"\"The arc cosine; NaN outside -1..1.\"\"\"\n"
	 "    return jnp.arctan2(jnp.sqrt((1.0 - x) * (1.0 + x)), x)\n"},
	{"_erfc", NULL,
	 "def _erfc(x):\n"
	 "    \"\"\"1 - erf(x), by a fraction times exp(-x * x) where the subtraction would lose digits.\"\"\"\n"
	 "    size = jnp.abs(x)\n"
	 "    t = 1.0 / (1.0 + 0.5 * size)\n"
	 "    low = (-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806)\n"
	 "    high = (0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277)\n"
	 "    tail = jnp.zeros_like(t)\n"
	 "    for term in reversed(low + high):\n"
	 "        tail = term + t * tail\n"
	 "    tail = t * jnp.exp(tail - size * size)\n"
	 "    return jnp.where(x < 1, 1.0 - jax.lax.erf(x), tail)\n"},
	{"_sign", NULL,
	 "def _sign(x):\n"
	 "    \"\"\"The sign; 0 for NaN, as in torch.\"\"\"\n"
	 "    return jnp.where(jnp.isnan(x), 0, jnp.sign(x))\n"},
	{"_maximum", NULL,
	 "def _maximum(x, y):\n"
	 "    \"\"\"The greater of two; NaN if either is.\"\"\"\n"
	 "    return jnp.where((x > y) | jnp.isnan(x), x, y)\n"},
	{"_minimum", NULL,
	 "def _minimum(x, y):\n"
	 "    \"\"\"The lesser of two; NaN if either is.\"\"\"\n"
	 "    return jnp.where((x < y) | jnp.isnan(x), x, y)\n"},
	{"_frac", NULL,
	 "def _frac(x):\n"
	 "    \"\"\"What is behind the point, with the sign of x.\"\"\"\n"
	 "    return x - jnp.trunc(x)\n"},
	{"_lerp", NULL,
	 "def _lerp(start, end, weight):\n"
	 "    \"\"\"Linear interpolation, from the nearer end.\"\"\"\n"
	 "    way = end - start\n"
	 "    far = end - way * (1 - weight)\n"
	 "    return jnp.where(abs(weight) < 0.5, start + weight * way, far)\n"},
	{"_divide_ints", NULL,
	 "def _divide_ints(x, y):\n"
	 "    \"\"\"The quotient of ints, rounded towards 0.\"\"\"\n"
	 "    dtype = jnp.result_type(x, y)\n"
	 "    return jax.lax.div(*jnp.broadcast_arrays(jnp.asarray(x, dtype), jnp.asarray(y, dtype)))\n"},
	{"_int_power", NULL,
	 "def _int_power(x, y, bits):\n"
	 "    \"\"\"x to the power y < 2**bits of ints; a negative power is 0 unless x is 1 or -1.\"\"\"\n"
	 "    unit = jnp.where(x == 1, 1, jnp.where(x == -1, 1 - 2 * (y & 1), 0))\n"
	 "    power = jnp.where((y & 1) != 0, x, 1)\n"
	 "    for bit in range(1, bits):  # jnp.power takes 6 bits of the exponent\n"
	 "        x = x * x\n"
	 "        power = jnp.where((y >> bit & 1) != 0, power * x, power)\n"
	 "    return jnp.where(y < 0, unit, power)\n"},
	{"_leaky_relu", NULL,
	 "def _leaky_relu(x, slope):\n"
	 "    \"\"\"x where it is positive, else slope times x.\"\"\"\n"
	 "    return jnp.where(x > 0, x, slope * x)\n"},
	{"_elu", "_expm1",
	 "def _elu(x, alpha, scale, input_scale):\n"
	 "    \"\"\"scale * x where x is positive, else an exponential.\"\"\"\n"
	 "    below = alpha * _expm1(jnp.minimum(x, 0.0) * input_scale)\n"
	 "    return scale * jnp.where(x > 0, x, below)\n"},
	{"_softplus", NULL,
	 "def _softplus(x, beta, threshold):\n"
	 "    \"\"\"log(1 + exp(beta * x)) / beta; x itself where beta * x is past the threshold.\"\"\"\n"
	 "    scaled = x * beta\n"
	 "    soft = jnp.maximum(scaled, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(scaled)))\n"
	 "    return jnp.where(scaled > threshold, x, soft / beta)\n"},
	{"_prod", NULL,
	 "def _prod(x, axis=None, keepdims=False):\n"
	 "    \"\"\"The product along one dim, several or all, by halves: Mosaic has no such reduction.\"\"\"\n"
	 "    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis\n"
	 "    for dim in axes:\n"
	 "        while (size := x.shape[dim]) > 1:\n"
	 "            low = jax.lax.slice_in_dim(x, 0, size // 2, axis=dim)\n"
	 "            high = jax.lax.slice_in_dim(x, size // 2, size // 2 * 2, axis=dim)\n"
	 "            rest = [jax.lax.slice_in_dim(x, size - 1, size, axis=dim)] * (size % 2)\n"
	 "            x = jnp.concatenate([low * high, *rest], axis=dim)\n"
	 "    return x if keepdims else jnp.squeeze(x, tuple(axes))\n"},
	{"_scan", NULL,
	 "def _scan(combine, x, first, axis):\n"
	 "    \"\"\"All lanes up to each combined, by doubling; `first` is what changes nothing.\"\"\"\n"
	 "    size, step = x.shape[axis], 1\n"
	 "    while step < size:\n"
	 "        before = jax.lax.slice_in_dim(x, 0, size - step, axis=axis)\n"
	 "        shape = (*x.shape[:axis], step, *x.shape[axis + 1 :])\n"
	 "        filled = jnp.full(shape, first, x.dtype)\n"
	 "        x = combine(x, jnp.concatenate([filled, before], axis=axis))\n"
	 "        step *= 2\n"
	 "    return x\n"},
	{"_cumsum", "_scan",
	 "def _cumsum(x, axis):\n"
	 "    \"\"\"Running sums.\"\"\"\n"
	 "    return _scan(jnp.add, x, 0, axis)\n"},
	{"_cumprod", "_scan",
	 "def _cumprod(x, axis):\n"
	 "    \"\"\"Running products.\"\"\"\n"
	 "    return _scan(jnp.multiply, x, 1, axis)\n"},
	{"_before", NULL,
	 "def _before(a, b):\n"
	 "    \"\"\"Of pairs (key, tie).\"\"\"\n"
	 "    return (a[0] < b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))\n"},
	{"_sort", "_before",
	 "def _sort(x, axis, descending):\n"
	 "    \"\"\"Bits of x and their places, [2, ...], in order along axis: equal ones as they stood,\n"
	 "    NaN as the greatest. A bitonic network: registers trade places whole, lanes by rolls.\"\"\"\n"
	 "    size, least, most = x.shape[axis], -(2**31), 2**31 - 1\n"
	 "    chunk = {x.ndim - 1: 128, x.ndim - 2: 8}.get(axis, 1)\n"
	 "    phases = (size - 1).bit_length()\n"
	 "    key = x if x.dtype == jnp.int32 else jax.lax.bitcast_convert_type(x, jnp.int32)\n"
	 "    tie = 2 * jax.lax.broadcasted_iota(jnp.int32, x.shape, axis)\n"
	 "    if x.dtype == jnp.uint32:\n"
	 "        key = key ^ least\n"
	 "    if x.dtype == jnp.float32:\n"
	 "        tie = jnp.where(key == least, tie + 1, tie)  # -0.0, which equals 0.0\n"
	 "        key = jnp.where(key == least, 0, jnp.where(key < 0, key ^ most, key))\n"
	 "        key = jnp.where(jnp.isnan(x), most, key)\n"
	 "    key = ~key if descending else key\n"
	 "    rest = max(chunk, 1 << phases) - size\n"
	 "    widths = [(0, rest if i == axis else 0) for i in range(x.ndim)]\n"
	 "    padded = [jnp.pad(y, widths, constant_values=most) for y in (key, tie)]\n"
	 "    pair = [jnp.stack(jnp.split(y, y.shape[axis] // chunk, axis)) for y in padded]\n"
	 "    shape = pair[0].shape\n"
	 "    lane = jax.lax.broadcasted_iota(jnp.int32, shape, axis + 1)\n"
	 "    index = chunk * jax.lax.broadcasted_iota(jnp.int32, shape, 0) + lane\n"
	 "    for phase in range(1, phases + 1):\n"
	 "        falls = -(index >> phase & 1)\n"
	 "        pair = [y ^ falls for y in pair]\n"
	 "        for step in (1 << i for i in reversed(range(phase))):\n"
	 "            if step >= chunk:\n"
	 "                halves = (-1, 2, step // chunk, *shape[1:])\n"
	 "                low, high = ([y.reshape(halves)[:, i] for y in pair] for i in (0, 1))\n"
	 "                swap = _before(high, low)\n"
	 "                first = [jnp.where(swap, h, y) for y, h in zip(low, high)]\n"
	 "                second = [jnp.where(swap, y, h) for y, h in zip(low, high)]\n"
	 "                pair = [jnp.stack(y, 1).reshape(shape) for y in zip(first, second)]\n"
	 "            else:\n"
	 "                above = [pltpu.roll(y, step, axis + 1) for y in pair]\n"
	 "                below = [pltpu.roll(y, chunk - step, axis + 1) for y in pair]\n"
	 "                upper = lane & step != 0\n"
	 "                other = [jnp.where(upper, a, b) for a, b in zip(above, below)]\n"
	 "                swap = _before(other, pair) ^ upper\n"
	 "                pair = [jnp.where(swap, y, z) for y, z in zip(other, pair)]\n"
	 "        pair = [y ^ falls for y in pair]\n"
	 "    key, tie = (jnp.concatenate([y[i] for i in range(shape[0])], axis) for y in pair)\n"
	 "    key = ~key if descending else key\n"
	 "    if x.dtype == jnp.uint32:\n"
	 "        key = key ^ least\n"
	 "    if x.dtype == jnp.float32:\n"
	 "        key = jnp.where(tie & 1 != 0, least, jnp.where(key < 0, key ^ most, key))\n"
	 "    both = jnp.stack([key, tie >> 1])\n"
	 "    return jax.lax.slice_in_dim(both, 0, size, axis=axis + 1)\n"},
	{"_fold_lanes", NULL,
	 "def _fold_lanes(combine, total, x):\n"
	 "    \"\"\"total [..., 128] combined with each 128 lanes of x.\"\"\"\n"
	 "    part = x[..., :128]\n"
	 "    for i in range(128, x.shape[-1], 128):\n"
	 "        part = combine(part, x[..., i : i + 128])\n"
	 "    return combine(total, part)\n"},
	{"_fold_where", NULL,
	 "def _fold_where(total, condition, x):\n"
	 "    \"\"\"total [..., 128], or of each 128 lanes of x those where the condition holds.\"\"\"\n"
	 "    for i in range(0, x.shape[-1], 128):\n"
	 "        total = jnp.where(condition[..., i : i + 128], x[..., i : i + 128], total)\n"
	 "    return total\n"},
	{"_flip", NULL,
	 "def _flip(x, axis):\n"
	 "    \"\"\"x reversed along one of its last two axes: lane i of each chunk trades places with lane i ^ 1,\n"
	 "    i ^ 2, i ^ 4, ... of it, then the chunks do.\"\"\"\n"
	 "    size = x.shape[axis]\n"
	 "    chunk = min(128, 1 << (size - 1).bit_length())\n"
	 "    rest = -size % chunk\n"
	 "    if rest:\n"
	 "        x = jnp.pad(x, [(0, rest if i == axis else 0) for i in range(x.ndim)])\n"
	 "    lane = jax.lax.broadcasted_iota(jnp.int32, x.shape, axis)\n"
	 "    step = 1\n"
	 "    while step < chunk:\n"
	 "        x = jnp.where(lane & step, jnp.roll(x, step, axis), jnp.roll(x, -step, axis))\n"
	 "        step *= 2\n"
	 "    parts = jnp.split(x, x.shape[axis] // chunk, axis)\n"
	 "    x = jnp.concatenate(parts[::-1], axis)\n"
	 "    return jax.lax.slice_in_dim(x, rest, rest + size, axis=axis)\n"},
	{"_reverse", NULL,
	 "def _reverse(x, axis):\n"
	 "    \"\"\"x reversed along an axis before the last two.\"\"\"\n"
	 "    parts = jnp.split(x, x.shape[axis], axis)\n"
	 "    return jnp.concatenate(parts[::-1], axis)\n"},
	{"_every", NULL,
	 "def _every(x, start, step, count, axis):\n"
	 "    \"\"\"Elements start, start + step, ... along an axis before the last two.\"\"\"\n"
	 "    at = [start + step * i for i in range(count)]\n"
	 "    return jnp.concatenate([jax.lax.slice_in_dim(x, i, i + 1, axis=axis) for i in at], axis)\n"},
	{"_every_row", NULL,
	 "def _every_row(x, start, step, count):\n"
	 "    \"\"\"Rows start, start + step, ...\"\"\"\n"
	 "    *outer, size, lanes = x.shape\n"
	 "    end = min(size, start + step * count)\n"
	 "    x = x[..., start:end, :]\n"
	 "    rest = start + step * count - end\n"
	 "    if rest:\n"
	 "        x = jnp.pad(x, [*[(0, 0)] * len(outer), (0, rest), (0, 0)])\n"
	 "    return x.reshape(*outer, count, step, lanes)[..., 0, :]\n"},
	{"_swap_bits", NULL,
	 "def _swap_bits(x, low):\n"
	 "    \"\"\"Lanes change places so that bits `low` and `low` + 1 of their numbers do.\"\"\"\n"
	 "    lane = jax.lax.broadcasted_iota(jnp.int32, x.shape, x.ndim - 1)\n"
	 "    pair = lane >> low & 3\n"
	 "    down, up = jnp.roll(x, -(1 << low), -1), jnp.roll(x, 1 << low, -1)\n"
	 "    return jnp.where(pair == 1, down, jnp.where(pair == 2, up, x))\n"},
	{"_take_lanes", NULL,
	 "def _take_lanes(x, places):\n"
	 "    \"\"\"The lanes of each row of x at places: of every 128, those that lie there.\"\"\"\n"
	 "    rows, count = places.shape\n"
	 "    if rows == 1:\n"
	 "        x, places = (jnp.broadcast_to(y, (8, y.shape[1])) for y in (x, places))\n"
	 "    x, places = (jnp.pad(y, ((0, 0), (0, -y.shape[1] % 128))) for y in (x, places))\n"
	 "    parts = []\n"
	 "    for place in jnp.split(places, places.shape[1] // 128, 1):\n"
	 "        part = None\n"
	 "        for i, lanes in enumerate(jnp.split(x, x.shape[1] // 128, 1)):\n"
	 "            low = place & 127\n"
	 "            lanes = jnp.take_along_axis(lanes, low, axis=1, mode=\"promise_in_bounds\")\n"
	 "            part = lanes if i == 0 else jnp.where(place >= 128 * i, lanes, part)\n"
	 "        parts.append(part)\n"
	 "    return jnp.concatenate(parts, axis=1)[:rows, :count]\n"},
	{"_take_rows", NULL,
	 "def _take_rows(x, places):\n"
	 "    \"\"\"The rows of x at places, the same in all lanes: of every 8, those that lie there.\"\"\"\n"
	 "    count, lanes = places.shape\n"
	 "    x = jnp.pad(x, ((0, -x.shape[0] % 8), (0, -lanes % 128)))\n"
	 "    places = jnp.pad(places, ((0, -count % 8), (0, -lanes % 128)))\n"
	 "    rows = []\n"
	 "    for place in jnp.split(places, places.shape[0] // 8):\n"
	 "        parts = []\n"
	 "        columns = (jnp.split(y, y.shape[1] // 128, 1) for y in (x, place))\n"
	 "        for tile, at in zip(*columns, strict=True):\n"
	 "            part = None\n"
	 "            for i, group in enumerate(jnp.split(tile, x.shape[0] // 8)):\n"
	 "                low = at & 7\n"
	 "                group = jnp.take_along_axis(\n"
	 "                    group, low, axis=0, mode=\"promise_in_bounds\"\n"
	 "                )\n"
	 "                part = group if i == 0 else jnp.where(at >= 8 * i, group, part)\n"
	 "            parts.append(part)\n"
	 "        rows.append(jnp.concatenate(parts, axis=1))\n"
	 "    return jnp.concatenate(rows)[:count, :lanes]\n"},
	{"_even_lanes", "_swap_bits",
	 "def _even_lanes(x):\n"
	 "    \"\"\"Lanes 0, 2, 4, ...: of each 128, moved to the front of them.\"\"\"\n"
	 "    size = x.shape[-1]\n"
	 "    x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, -size % 128)])\n"
	 "    for low in range(6):\n"
	 "        x = _swap_bits(x, low)\n"
	 "    parts = [x[..., i : i + 64] for i in range(0, x.shape[-1], 128)]\n"
	 "    return jnp.concatenate(parts, -1)[..., : (size + 1) // 2]\n"},
	{"_every_lane", "_every_row",
	 "def _every_lane(x, start, step, count):\n"
	 "    \"\"\"Lanes start, start + step, ..., taken as rows are.\"\"\"\n"
	 "    return jnp.swapaxes(_every_row(jnp.swapaxes(x, -1, -2), start, step, count), -1, -2)\n"},
	{"_interleave", "_swap_bits",
	 "def _interleave(x, y):\n"
	 "    \"\"\"Lanes of x and y in turn: 64 of each side by side, then moved to their places.\"\"\"\n"
	 "    size = x.shape[-1]\n"
	 "    pads = [(0, 0)] * (x.ndim - 1) + [(0, -size % 64)]\n"
	 "    x, y = jnp.pad(x, pads), jnp.pad(y, pads)\n"
	 "    parts = [p[..., i : i + 64] for i in range(0, x.shape[-1], 64) for p in (x, y)]\n"
	 "    x = jnp.concatenate(parts, -1)\n"
	 "    for low in reversed(range(6)):\n"
	 "        x = _swap_bits(x, low)\n"
	 "    return x[..., : 2 * size]\n"},
	{"_back_and_forth", NULL,
	 "def _back_and_forth(row, step, steps):\n"
	 "    \"\"\"The step of a row: forwards in even rows, backwards in odd ones.\"\"\"\n"
	 "    return jnp.where(row % 2 == 0, step, steps - 1 - step)\n"},
	{"_float16_ref", NULL,
	 "def _float16_ref(ref):\n"
	 "    \"\"\"The bits of an array of float16; a simulator has no view of them, and gets them as int16.\"\"\"\n"
	 "    return ref if ref.dtype == jnp.int16 else ref.bitcast(jnp.int16)\n"},
	{"_float16_value", NULL,
	 "def _float16_value(bits):\n"
	 "    \"\"\"The float16 of these bits, as float32.\"\"\"\n"
	 "    bits = bits.astype(jnp.int32)\n"
	 "    size = (bits & 0x7FFF) << 13\n"
	 "    wide = size + jnp.where(size < 31 << 23, 112 << 23, 224 << 23)\n"
	 "    small = jax.lax.bitcast_convert_type(size + (113 << 23), jnp.float32) - 2.0**-14\n"
	 "    small = jax.lax.bitcast_convert_type(small, jnp.int32)\n"
	 "    value = jnp.where(size < 1 << 23, small, wide) | (bits & -(1 << 31))\n"
	 "    return jax.lax.bitcast_convert_type(value, jnp.float32)\n"},
	{"_float16_bits", NULL,
	 "def _float16_bits(x):\n"
	 "    \"\"\"The bits of the float16 nearest to x, of two the even one.\"\"\"\n"
	 "    bits = jax.lax.bitcast_convert_type(x, jnp.int32)\n"
	 "    size = bits & 0x7FFFFFFF\n"
	 "    near = jnp.minimum((size + 0xFFF + (size >> 13 & 1) >> 13) - (112 << 10), 0x7C00)\n"
	 "    small = jax.lax.bitcast_convert_type(jnp.abs(x) + 0.5, jnp.int32) - (126 << 23)\n"
	 "    near = jnp.where(size < 113 << 23, small, near)\n"
	 "    near = jnp.where(size > 255 << 23, 0x7E00, near)\n"
	 "    return (near | (bits >> 16 & 0x8000)).astype(jnp.int16)\n"},
	{"_float16_rounded", NULL,
	 "def _float16_rounded(x):\n"
	 "    \"\"\"The float16 nearest to x, as float32: beside `unit` its last bit is the sum's last.\"\"\"\n"
	 "    size = jnp.abs(x)\n"
	 "    unit = jax.lax.bitcast_convert_type(jnp.clip(size, 2.0**-14, 2.0**16), jnp.int32)\n"
	 "    unit = (unit & (255 << 23)) + (13 << 23)\n"
	 "    unit = jax.lax.bitcast_convert_type(unit, jnp.float32)\n"
	 "    near = jnp.where(size < 65520.0, (size + unit) - unit, size * jnp.inf)\n"
	 "    near = jax.lax.bitcast_convert_type(near, jnp.int32)\n"
	 "    sign = jax.lax.bitcast_convert_type(x, jnp.int32) & -(1 << 31)\n"
	 "    return jax.lax.bitcast_convert_type(near | sign, jnp.float32)\n"},
	{"_nan_along", NULL,
	 "def _nan_along(x, axis):\n"
	 "    \"\"\"NaN where a float8_e4m3fn along the axis is NaN, all bits of it set but the sign; else 0.\"\"\"\n"
	 "    words = (pltpu.bitcast(x, jnp.int32) & 0x7F7F7F7F) + 0x01010101\n"
	 "    size = (8, 128)[axis]\n"
	 "    at = range(0, words.shape[axis], size)\n"
	 "    parts = [jax.lax.slice_in_dim(words, i, i + size, axis=axis) for i in at]\n"
	 "    found = functools.reduce(jnp.bitwise_or, parts) & -0x7F7F7F80\n"
	 "    bits = pltpu.bitcast(found, jnp.int8).astype(jnp.int32)\n"
	 "    nan = jax.lax.bitcast_convert_type(bits, jnp.float32)\n"
	 "    return jnp.sum(nan, axis=axis, keepdims=True)\n"},
	{"_narrow_dot", "_nan_along",
	 "def _narrow_dot(x, y, nan):\n"
	 "    \"\"\"The product; NaN of the factors in nan, of which the matrix unit knows none, are added.\"\"\"\n"
	 "    dims = (((1,), (0,)), ((), ()))\n"
	 "    dot = jax.lax.dot_general(x, y, dims, preferred_element_type=jnp.float32)\n"
	 "    dot = dot + _nan_along(x, 1) if 0 in nan else dot\n"
	 "    return dot + _nan_along(y, 0) if 1 in nan else dot\n"},
	{"_mask", NULL,
	 "def _mask(x, axis, count, fill):\n"
	 "    \"\"\"x where its index along axis is below count, else fill.\"\"\"\n"
	 "    index = jax.lax.broadcasted_iota(jnp.int32, x.shape, axis)\n"
	 "    return jnp.where(index < count, x, fill)\n"},
	{"_within", NULL,
	 "def _within(old, x, axis, first, count):\n"
	 "    \"\"\"x where its index along axis is one of count from first on, else old.\"\"\"\n"
	 "    index = jax.lax.broadcasted_iota(jnp.int32, x.shape, axis)\n"
	 "    return jnp.where((index >= first) & (index < first + count), x, old)\n"},
	{"_part", NULL,
	 "def _part(index, count, take):\n"
	 "    \"\"\"take(index) with a static index, one of count.\"\"\"\n"
	 "    branches = [functools.partial(take, part) for part in range(count)]\n"
	 "    return jax.lax.switch(index, branches)\n"},
	{"_debug_print", NULL,
	 "def _debug_print(text, x, *point):\n"
	 "    \"\"\"Prints where it is and x, or what of a tile is finite and how many NaN it has.\"\"\"\n"
	 "    x = jnp.asarray(x)\n"
	 "    if x.ndim == 0:\n"
	 "        pl.debug_print(f\"{text} value:\", *point, x)\n"
	 "        return\n"
	 "    first = x[(0,) * x.ndim]\n"
	 "    if x.dtype != jnp.float32:\n"
	 "        pl.debug_print(f\"{text} min max first:\", *point, jnp.min(x), jnp.max(x), first)\n"
	 "        return\n"
	 "    nan = jnp.isnan(x)\n"
	 "    least = jnp.min(jnp.where(nan, jnp.inf, x))\n"
	 "    most = jnp.max(jnp.where(nan, -jnp.inf, x))\n"
	 "    count = jnp.sum(jnp.where(nan, 1.0, 0.0)).astype(jnp.int32)\n"
	 "    pl.debug_print(f\"{text} min max nan first:\", *point, least, most, count, first)\n"},
	{"_debug_print_all", NULL,
	 "def _debug_print_all(text, x, *point):\n"
	 "    \"\"\"Prints where it is, and then all of x.\"\"\"\n"
	 "    if jnp.ndim(x) == 0:\n"
	 "        pl.debug_print(f\"{text} value:\", *point, x)\n"
	 "        return\n"
	 "    pl.debug_print(f\"{text}:\", *point)\n"
	 "    pl.debug_print(\"{}\", x)\n"},
	{"_to_row", NULL,
	 "def _to_row(x):\n"
	 "    \"\"\"A column [..., m, 1] as a row [..., 1, m].\"\"\"\n"
	 "    lanes = jnp.broadcast_to(x, (*x.shape[:-1], 128))\n"
	 "    return jnp.swapaxes(lanes, -1, -2)[..., :1, :]\n"},
	{"_to_column", NULL,
	 "def _to_column(x):\n"
	 "    \"\"\"A row [..., 1, m] as a column [..., m, 1].\"\"\"\n"
	 "    rows = jnp.broadcast_to(x, (*x.shape[:-2], 128, x.shape[-1]))\n"
	 "    return jnp.swapaxes(rows, -1, -2)[..., :1]\n"},
	{"_ring_parts", NULL,
	 "def _ring_parts(axis, size, arrays, of_part, add, whole):\n"
	 "    \"\"\"whole, with what of_part gives of the part of each device of an axis, added by add.\n"
	 "\n"
	 "    Parts come round from both sides, the next while of_part is at those that are here.\n"
	 "    \"\"\"\n"
	 "    here = jax.lax.axis_index(axis)\n"
	 "    ways, left = {0: arrays}, []\n"
	 "    for hop in range(size // 2 + 1):\n"
	 "        parts, come = [(here - way * hop) % size for way in ways], {}\n"
	 "        for way in (1, -1)[: (2 * hop + 1 < size) + (2 * hop + 2 < size)]:\n"
	 "            to = [(i, (i + way) % size) for i in range(size)]\n"
	 "            come[way] = [jax.lax.ppermute(x, axis, to) for x in ways.get(way, arrays)]\n"
	 "        outputs = [of_part(part, x) for part, x in zip(parts, ways.values())]\n"
	 "        for part, x in left:\n"
	 "            whole = add(whole, part, x)\n"
	 "        ways, outputs, whole = jax.lax.optimization_barrier((come, outputs, whole))\n"
	 "        left = list(zip(parts, outputs))\n"
	 "    for part, x in left:\n"
	 "        whole = add(whole, part, x)\n"
	 "    return whole\n"},
	{"_ring_sum", NULL,
	 "def _ring_sum(axis, size, of_part):\n"
	 "    \"\"\"The sum over all devices of an axis of what of_part(i) gives on them, on device i.\n"
	 "\n"
	 "    Sums come round to it from both sides, while of_part is at what is added to them there.\n"
	 "    \"\"\"\n"
	 "    here = jax.lax.axis_index(axis)\n"
	 "    come = {}\n"
	 "    for hop in range(size // 2, 0, -1):\n"
	 "        ways = (1, -1)[: 1 + (2 * hop < size)]\n"
	 "        sums = {way: of_part((here + way * hop) % size) for way in ways}\n"
	 "        sums, come = jax.lax.optimization_barrier((sums, come))\n"
	 "        for way, x in come.items():\n"
	 "            sums[way] = jax.tree.map(jnp.add, sums[way], x)\n"
	 "        for way, x in sums.items():\n"
	 "            to = [(i, (i + way) % size) for i in range(size)]\n"
	 "            come[way] = jax.lax.ppermute(x, axis, to)\n"
	 "    total, come = jax.lax.optimization_barrier((of_part(here), come))\n"
	 "    for x in come.values():\n"
	 "        total = jax.tree.map(jnp.add, total, x)\n"
	 "    return total\n"},
	{"_add_scaled", NULL,
	 "def _add_scaled(x, y, x_most, y_most, exp, shape):\n"
	 "    \"\"\"x + y, sums in units of exp(-most), in those of the greater; most has this shape beside x.\"\"\"\n"
	 "    most = jnp.maximum(x_most, y_most)\n"
	 "\n"
	 "    def scaled(x, by):\n"
	 "        by = jnp.where(by == -jnp.inf, 0.0, exp(by - most)).reshape(shape)\n"
	 "        return jnp.where(by == 0.0, 0.0, x * by)\n"
	 "\n"
	 "    return scaled(x, x_most) + scaled(y, y_most)\n"},
};
/* clang-format on */

static void mark(Printer *pr, const char *name) {
	for (uint32_t i = 0; name && i < HELPER_COUNT; i++)
		if (helpers[i].name && strcmp(helpers[i].name, name) == 0 && !pr->helpers[i]) {
			pr->helpers[i] = true;
			mark(pr, helpers[i].needs);
		}
}

const char *helper_named(Printer *pr, const char *name) {
	if (*name == '_')
		mark(pr, name);
	return name;
}

void print_used_helpers(Printer *pr) {
	for (uint32_t i = 0; i < HELPER_COUNT; i++)
		if (pr->helpers[i])
			text_printf(pr->w.out, "\n\n%s", helpers[i].text);
}
