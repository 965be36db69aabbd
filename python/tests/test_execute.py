"""Kernel text by hand, one construct each, and what goes wrong with it."""

# ruff: noqa: E501 (a statement of kernel text is one line)

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from pallasc import execute
from pallasc.execute import (
    ExecuteError,
    TextError,
    axes,
    code,
    control,
    effects,
    ops,
    pointwise,
)

ROOT = Path(__file__).resolve().parents[2]

BF16 = np.dtype(ml_dtypes.bfloat16)
F32 = np.dtype(np.float32)


def normal(*shape, dtype=F32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32).astype(dtype)


def program(kernel, inputs, outputs, host=None):
    """A program of one kernel: `inputs` and `outputs` are {name: type}."""
    lines = ["program p for v6e"]
    lines += [f"input {name} {type_}" for name, type_ in inputs.items()]
    lines += [f"output {name} {type_}" for name, type_ in outputs.items()]
    names = ", ".join(inputs)
    if host is None:
        gives = ", ".join(outputs)
        types = ", ".join(outputs.values())
        host = f"  {gives} = launch kernel=0, {names} : {types}\n  return {gives}"
    return "\n".join([*lines, "kernel k {", kernel, "}", f"host({names}) {{", host, "}", ""])


def one(body, x, out, block=None, extra=""):
    """Runs a kernel of one input x_ref and one output out_ref, both whole, without a grid."""
    x_type = f"{x.dtype.name}{list(x.shape)}"
    block = block or list(x.shape)
    dims = f"{[0] * x.ndim}"[1:-1]
    out_shape = out[out.index("[") :]
    zeros = ", ".join("0" * len(out_shape.split(",")))
    text = program(
        f"in x_ref vmem {x.dtype.name}{block} of {list(x.shape)} at ({dims}) buffers 1\n"
        f"out out_ref vmem {out} of {out_shape} at ({zeros}) buffers 1\n{extra}\n{body}",
        {"x": x_type},
        {"y": out},
    )
    return execute.run(text, x)[0]


def fails(message, text, *arrays, error=ExecuteError):
    with pytest.raises(error) as found:
        execute.run(text, *arrays)
    assert message in str(found.value), found.value
    return found.value


# ---- grids and blocks ----------------------------------------------------------------------------

SCALE = """  grid i 2 parallel
  grid j 3 arbitrary
  in x_ref vmem bfloat16[8, 128] of [16, 384] at (i, j) buffers 2
  out y_ref vmem bfloat16[8, 128] of [16, 384] at (i, j) buffers 2
  line 1 7 "y = x * 2"
  x = load x_ref[...] : bfloat16[8, 128] @1
  %1 = mul x, 2.0 : bfloat16[8, 128]  # the number is bfloat16, too
  store y_ref[...], %1"""
ROWS = {"x": "bfloat16[16, 384]"}, {"y": "bfloat16[16, 384]"}


def test_a_grid_of_blocks():
    x = normal(16, 384, dtype=BF16)
    (y,) = execute.run(program(SCALE, *ROWS), x)
    assert y.dtype == BF16 and (y == x * BF16.type(2)).all()


def test_bfloat16_rounds_once():
    x = np.full((8, 128), 1.0, BF16)
    y = one(
        "x = load x_ref[...] : bfloat16[8, 128]\n"
        "a = add x, 0.00390625 : bfloat16[8, 128]\n"
        "b = add a, 0.00390625 : bfloat16[8, 128]\n"
        "store out_ref[...], b",
        x,
        "bfloat16[8, 128]",
    )
    assert (y == 1).all()  # half a unit of the last place is lost, twice


RAGGED = """  grid i 3 parallel
  in x_ref vmem float32[8, 128] of [20, 128] at (i, 0) buffers 2
  out y_ref vmem float32[8, 128] of [20, 128] at (i, 0) buffers 2
  out sums_ref vmem float32[1, 1, 128] of [3, 1, 128] at (i, 0, 0) buffers 2
  i = program_id dim=0 : int
  x = load x_ref[...] : float32[8, 128]
  kept = mask x, (20 - i * 8), 0 axis=0 : float32[8, 128]
  sum = sum kept keep=1 axes=(0) : float32[1, 128] row
  store y_ref[...], x
  all = sum {what} keep=1 axes=(0) : float32[1, 128]
  %1 = index all items=[None, :, :] : float32[1, 1, 128]
  store sums_ref[...], %1"""


def ragged(what):
    x = normal(20, 128)
    text = program(
        RAGGED.replace("{what}", what),
        {"x": "float32[20, 128]"},
        {"y": "float32[20, 128]", "s": "float32[3, 1, 128]"},
    )
    return x, *execute.run(text, x)


def test_blocks_at_the_end():
    x, y, sums = ragged("kept")
    assert (y == x).all()
    wide = np.pad(x, [(0, 4), (0, 0)]).astype(np.float64).reshape(3, 8, 128)
    assert (sums[:, 0] == wide.sum(1).astype(np.float32)).all()


def test_beyond_the_array_is_poison():
    _, _, sums = ragged("x")
    assert np.isnan(sums[2]).all() and not np.isnan(sums[:2]).any()


HELD = """  grid i 2 parallel
  grid j 3 arbitrary
  in x_ref vmem float32[8, 128] of [16, 384] at (i, j) buffers 2
  out y_ref vmem float32[8, 128] of [16, 128] at (i, 0) buffers 2
  j = program_id dim=1 : int
  x = load x_ref[...] : float32[8, 128]
  when (j == 0) first {
    store y_ref[...], %s
  }
  when (j > 0) more {
    y = load y_ref[...] : float32[8, 128]
    %%1 = add y, x : float32[8, 128]
    store y_ref[...], %%1
  }"""


def test_an_output_block_is_held_and_put_back():
    x = normal(16, 384)
    types = {"x": "float32[16, 384]"}, {"y": "float32[16, 128]"}
    (y,) = execute.run(program(HELD % "x", *types), x)
    parts = x.reshape(16, 3, 128)
    assert (y == parts[:, 0] + parts[:, 1] + parts[:, 2]).all()
    # A block that is new holds poison.
    (y,) = execute.run(program(HELD.replace("(j == 0)", "(j == 9)") % "x", *types), x)
    assert np.isnan(y).all()


def test_scratch_persists_and_starts_as_poison():
    text = program(
        """  grid i 4 arbitrary
  in x_ref vmem float32[8, 128] of [32, 128] at (i, 0) buffers 2
  out y_ref vmem float32[8, 128] of [32, 128] at (i, 0) buffers 2
  scratch last_ref vmem float32[8, 128]
  last = load last_ref[...] : float32[8, 128]
  store y_ref[...], last
  x = load x_ref[...] : float32[8, 128]
  store last_ref[...], x""",
        {"x": "float32[32, 128]"},
        {"y": "float32[32, 128]"},
    )
    x = normal(32, 128)
    (y,) = execute.run(text, x)
    assert np.isnan(y[:8]).all() and (y[8:] == x[:-8]).all()


def test_an_output_over_an_input():
    text = program(
        """  grid i 2 parallel
  in x_ref vmem float32[8, 128] of [32, 128] at (i, 0) buffers 2
  out y_ref vmem float32[8, 128] of [32, 128] at (i, 0) buffers 2 alias x_ref
  x = load x_ref[...] : float32[8, 128]
  %1 = neg x : float32[8, 128]
  store y_ref[...], %1""",
        {"x": "float32[32, 128]"},
        {"y": "float32[32, 128]"},
    )
    x = normal(32, 128)
    (y,) = execute.run(text, x)
    assert (y[:16] == -x[:16]).all() and (y[16:] == x[16:]).all()


def test_prefetch():
    text = program(
        """  grid i 4 parallel
  in table prefetch int32[4]
  in x_ref vmem float32[8, 128] of [32, 128] at (table[i], 0) buffers 2
  in scale_ref smem float32[1]
  out y_ref vmem float32[8, 128] of [32, 128] at (i, 0) buffers 2
  scale = load scale_ref[0] : float32
  i = program_id dim=0 : int
  row = load table[i] : int32
  x = load x_ref[...] : float32[8, 128]
  %1 = mul x, scale : float32[8, 128]
  %2 = convert row : float32
  %3 = add %1, %2 : float32[8, 128]
  store y_ref[...], %3""",
        {"table": "int32[4]", "x": "float32[32, 128]", "scale": "float32"},
        {"y": "float32[32, 128]"},
        "  s = array scale : float32[1]\n"
        "  y = launch kernel=0, table, x, s : float32[32, 128]\n  return y",
    )
    x, table = normal(32, 128), np.array([2, 0, 3, 3], np.int32)
    (y,) = execute.run(text, table, x, 0.5)
    taken = x.reshape(4, 8, 128)[table] * F32.type(0.5) + table.astype(F32)[:, None, None]
    assert (y == taken.reshape(32, 128)).all()
    fails("is outside of [32, 128]", text, table + 2, x, 0.5)


def test_back_and_forth():
    text = program(
        """  grid i 2 arbitrary
  grid j 3 arbitrary
  in x_ref vmem int32[8, 128] of [8, 384] at (0, turn(i, j, 3)) buffers 2
  out y_ref vmem int32[8, 128] of [16, 384] at (i, j) buffers 2
  x = load x_ref[...] : int32[8, 128]
  store y_ref[...], x""",
        {"x": "int32[8, 384]"},
        {"y": "int32[16, 384]"},
    )
    x = np.arange(8 * 384, dtype=np.int32).reshape(8, 384)
    (y,) = execute.run(text, x)
    parts = y.reshape(2, 8, 3, 128)
    assert (parts[0].reshape(8, 384) == x).all()
    assert (parts[1][:, ::-1].reshape(8, 384) == x).all()


# ---- loops ---------------------------------------------------------------------------------------

FORI = """  in x_hbm hbm float32[64, 128]
  out y_ref vmem float32[8, 128] of [8, 128] at (0, 0) buffers 1
  scratch x_buf vmem float32[2, 8, 128]
  scratch x_sem dma [2]
  def x_copy(i: int) {
    slot = int (rem(i, 2)) : int
    %1 = copy x_hbm[i * 8 by 8 +: 8, :], x_buf[slot], x_sem[slot] : copy
    return %1
  }
  def step(x_win: vmem float32[8, 128], total: float32[8, 128]) {
    x = load x_win[...] : float32[8, 128]
    %2 = add total, x : float32[8, 128]
    return %2
  }
  def body(j: int, total: float32[8, 128]) fori {
    when (j + 1 < 8) prefetch {
      %3 = call x_copy((j + 1)) : copy
      start %3
    }
    %4 = call x_copy((j)) : copy
    wait %4
    total = call step(x_buf[rem(j, 2)], total) : float32[8, 128]
    return total
  }
  %5 = call x_copy((0)) : copy
  start %5
  zeros = zeros : float32[8, 128]
  total = fori (8) body(zeros) : float32[8, 128]
  store y_ref[...], total"""
SUM = {"x": "float32[64, 128]"}, {"y": "float32[8, 128]"}


def summed(x):
    total = np.zeros((8, 128), np.float32)
    for part in x.reshape(-1, 8, 128):
        total = total + part
    return total


def test_fori_with_copies_ahead():
    x = normal(64, 128)
    (y,) = execute.run(program(FORI, *SUM), x)
    assert (y == summed(x)).all()


def test_reading_before_waiting_reads_poison():
    text = program(FORI, *SUM)
    wait = "    %4 = call x_copy((j)) : copy\n    wait %4\n"
    call = "    total = call step(x_buf[rem(j, 2)], total) : float32[8, 128]\n"
    assert wait + call in text
    (y,) = execute.run(text.replace(wait + call, call + wait), normal(64, 128))
    assert np.isnan(y).all()


def line_of(text, part):
    return text[: text.index(part)].count("\n") + 1


def test_copies_that_go_wrong():
    text, x = program(FORI, *SUM), normal(64, 128)
    twice = text.replace("start %5", "start %5\n  start %5")
    first = line_of(text, "start %5")
    error = fails(f"written while the copy of line {first} writes it", twice, x)
    assert error.line == line_of(twice, "start %5") + 1
    none = text.replace("  start %5\n", "")
    error = fails("waits for a copy that was not started", none, x)
    assert error.line == line_of(none, "wait %4")
    left = text.replace("(j + 1 < 8)", "(j + 1 < 9)").replace("i * 8 by 8", "min(i, 7) * 8")
    fails("nothing waits for this copy", left, x)
    other = text.replace("call x_copy((j)) ", "call x_copy((j + 2)) ")
    other = other.replace("i * 8 by 8", "min(i, 7) * 8")
    fails("waits for another copy", other, x)
    fails("is outside of 64", text.replace("(j + 1 < 8)", "(j + 1 < 9)"), x)
    fails("is no multiple of 16", text.replace("by 8", "by 16"), x)
    one_slot = text.replace("int (rem(i, 2))", "int (0)").replace("rem(j, 2)", "0")
    error = fails(f"written while the copy of line {first} writes it", one_slot, x)
    assert error.line == line_of(one_slot, "start %3")
    one_semaphore = text.replace("x_sem[slot]", "x_sem[0]")
    message = f"waits for one copy while its semaphore counts that of line {first} too"
    error = fails(message, one_semaphore, x)
    assert error.line == line_of(one_semaphore, "wait %4")


OUT = """  in x_ref vmem float32[8, 128] of [8, 128] at (0, 0) buffers 1
  out y_hbm hbm float32[16, 128]
  scratch buf vmem float32[8, 128]
  scratch sem dma [2]
  x = load x_ref[...] : float32[8, 128]
  store buf[...], x
  a = copy buf[...], y_hbm[0 +: 8], sem[0] : copy
  start a
  wait a
  %1 = neg x : float32[8, 128]
  store buf[...], %1
  b = copy buf[...], y_hbm[8 +: 8, :], sem[1] : copy
  start b
  wait b"""
TWICE = {"x": "float32[8, 128]"}, {"y": "float32[16, 128]"}


def test_a_buffer_that_is_still_sent():
    x = normal(8, 128)
    (y,) = execute.run(program(OUT, *TWICE), x)
    assert (y == np.concatenate([x, -x])).all()
    text = program(OUT.replace("  wait a\n", "") + "\n  wait a", *TWICE)
    error = fails("written while the copy of line 12 reads it", text, x)
    assert error.line == line_of(text, "store buf[...], %1")


LOOP = """  in x_ref vmem float32[8, 256] of [8, 256] at (0, 0) buffers 1
  in last_ref vmem float32[8, 128] of [8, 165] at (0, 1) buffers 1
  out y_ref vmem float32[8, 1] of [8, 1] at (0, 0) buffers 1
  zeros = zeros : float32[8, 1] column
  total = loop step(j) unroll carry (total = zeros) : float32[8, 1] column {
    dim j steps (1) full 1 tail 37 size 128
    peel ragged
    window win vmem float32[8, 128] of x_ref in at (0, j) start (0, j * 128) by (0, 128) buffers 1 tail last_ref
    x = load win[...] : float32[8, 128]
    masked = mask x, (37), 0 axis=1 : float32[8, 128]
    x = choose ragged, masked, x : float32[8, 128]
    %1 = sum x keep=1 axes=(1) : float32[8, 1] column
    %2 = add total, %1 : float32[8, 1]
    yield %2
  }
  store y_ref[...], total"""


def test_a_loop_that_no_driver_runs():
    x = normal(8, 256)
    text = program(
        LOOP,
        {"x": "float32[8, 256]", "last": "float32[8, 165]"},
        {"y": "float32[8, 1]"},
    )
    last = normal(8, 165, seed=1)
    (y,) = execute.run(text, x, last)
    a, b = (part.astype(np.float64).sum(1, keepdims=True) for part in (x[:, :128], last[:, 128:]))
    assert (y == a.astype(np.float32) + b.astype(np.float32)).all()
    # The same before the last step runs after the loop.
    inside = text.replace("peel ragged", "mask ragged").replace("steps (1)", "steps (2)")
    execute.compare(text, inside, [x, last])


COUNTED = """  in x_ref vmem float32[8, 384] of [8, 384] at (0, 0) buffers 1
  out y_ref vmem float32[8, 1] of [8, 1] at (0, 0) buffers 1
  zeros = zeros : float32[8, 1] column
  total = loop step(j) fori_loop carry (total = zeros) : float32[8, 1] column {
    dim j computed steps (3) full 0 tail 0 size 128
    mask masked
    window win vmem float32[8, 128] of x_ref in at (0, j) start (0, j * 128) by (0, 128) buffers 0
    x = load win[...] : float32[8, 128]
    negative = neg x : float32[8, 128]
    x = choose masked, negative, x : float32[8, 128]
    %1 = sum x keep=1 axes=(1) : float32[8, 1] column
    %2 = add total, %1 : float32[8, 1]
    yield %2
  }
  store y_ref[...], total"""


def test_the_last_step_of_a_counted_loop_has_its_flag_set():
    x = normal(8, 384)
    text = program(COUNTED, {"x": "float32[8, 384]"}, {"y": "float32[8, 1]"})
    (y,) = execute.run(text, x)
    a, b, c = (part.sum(1, keepdims=True, dtype=np.float64) for part in np.split(x, 3, axis=1))
    np.testing.assert_allclose(y, a + b - c, rtol=1e-5, atol=1e-5)


def test_a_loop_in_two_dims_writes_windows():
    text = program(
        """  in x_hbm hbm float32[20, 256]
  out y_hbm hbm float32[20, 256]
  loop step(i, j) emit_pipeline {
    dim i steps (3) full 2 tail 4 size 8
    dim j computed steps (2) full 0 tail 0 size 128
    window x_win vmem float32[8, 128] of x_hbm in dma at (i, j) start (i * 8, j * 128) by (8, 128) buffers 2
    window y_win vmem float32[8, 128] of y_hbm out dma at (i, j) start (i * 8, j * 128) by (8, 128) buffers 2
    x = load x_win[...] : float32[8, 128]
    %1 = mul x, (i * 2 + j) : float32[8, 128]
    store y_win[...], %1
    yield
  }""",
        {"x": "float32[20, 256]"},
        {"y": "float32[20, 256]"},
    )
    x = normal(20, 256)
    (y,) = execute.run(text, x)
    i, j = np.arange(20)[:, None] // 8, np.arange(256) // 128
    assert (y == x * (i * 2 + j).astype(np.float32)).all()


def test_for_with_carried_values_and_columns():
    x = normal(8, 512)
    y = one(
        """  zeros = zeros : float32[8, 128]
  total = for strip in 4 from 1 carry (total = zeros) slice at 128 : float32[8, 128] {
    x = load x_ref[:, strip * 128 +: 128] : float32[8, 128]
    %1 = add x, x : float32[8, 128]
    total = add total, %1 : float32[8, 128]
    yield total
  }
  store out_ref[...], total""",
        x,
        "float32[8, 128]",
    )
    parts = x.reshape(8, 4, 128)
    total = np.zeros((8, 128), np.float32)
    for i in (1, 2, 3):
        total = total + (parts[:, i] + parts[:, i])
    assert (y == total).all()


def test_if_and_queue():
    x = normal(8, 128)
    y = one(
        """  x = load x_ref[...] : float32[8, 128]
  waiting = queue : queue
  total = for ahead in 5 from 0 carry (total = x) : float32[8, 128] {
    when (ahead < 3) {
      %1 = mul x, (ahead) : float32[8, 128]
      push waiting, %1, x
    }
    j = int (ahead - 2) : int
    total = if (j >= 0) else (total) : float32[8, 128] {
      a, b = pop waiting : float32[8, 128], float32[8, 128]
      %2 = add a, b : float32[8, 128]
      %3 = sub total, %2 : float32[8, 128]
      yield %3
    }
    yield total
  }
  store out_ref[...], total""",
        x,
        "float32[8, 128]",
    )
    total = x
    for j in range(3):
        total = total - (x * np.float32(j) + x)
    assert (y == total).all()


def test_flags_are_set_in_the_calls_that_name_them():
    y = one(
        """  def twice(x: float32[8, 128], negative: flag) {
    %1 = neg x : float32[8, 128]
    x = choose negative, %1, x : float32[8, 128]
    %2 = mul x, 2 : float32[8, 128]
    return %2
  }
  x = load x_ref[...] : float32[8, 128]
  a = call twice(x) : float32[8, 128]
  b = call twice(a, negative) : float32[8, 128]
  store out_ref[...], b""",
        normal(8, 128),
        "float32[8, 128]",
    )
    assert (y == -4 * normal(8, 128)).all()


PIPELINE = """  grid i 2 parallel
  in x_hbm hbm float32[16, 200]
  out y_ref vmem float32[8, 128] of [16, 128] at (i, 0) buffers 2
  out z_hbm hbm float32[16, 200]
  scratch total_ref vmem float32[8, 128]
  i = program_id dim=0 : int
  zeros = zeros : float32[8, 128]
  store total_ref[...], zeros
  def body(x_win: vmem float32[8, 128], z_win: vmem float32[8, 128]) {
    j = program_id dim=0 : int
    x = load x_win[...] : float32[8, 128]
    x = mask x, (200 - j * 128), 0 axis=1 : float32[8, 128]
    total = load total_ref[...] : float32[8, 128]
    total = add total, x : float32[8, 128]
    store total_ref[...], total
    store z_win[...], total
  }
  pipeline body grid (2) at (j) pipeline {
    in x_hbm [8, 128] at (i, j) buffers 2
    out z_hbm [8, 128] at (i, j) buffers 2
  }
  total = load total_ref[...] : float32[8, 128]
  store y_ref[...], total"""


def test_pipeline():
    text = program(
        PIPELINE,
        {"x": "float32[16, 200]"},
        {"y": "float32[16, 128]", "z": "float32[16, 200]"},
    )
    x = normal(16, 200)
    y, z = execute.run(text, x)
    wide = np.pad(x, [(0, 0), (0, 56)])
    assert (y == wide[:, :128] + wide[:, 128:]).all()
    assert (z[:, :128] == x[:, :128]).all() and (z[:, 128:] == y[:, :72]).all()


# ---- devices -------------------------------------------------------------------------------------

RING = """  in x_hbm hbm float32[8, 128]
  out y_hbm hbm float32[32, 128]
  scratch buf vmem float32[2, 8, 128]
  scratch sum_ref vmem float32[8, 128]
  scratch send_sem dma [2]
  scratch recv_sem dma [2]
  scratch free_sem regular []
  scratch sem dma []
  mesh x 4
  collective_id 0
  me = device_id : int
  next = int (rem(me + 1, 4)) : int
  before = int (rem(me + 3, 4)) : int
  %1 = barrier_semaphore : semaphore
  signal %1, 1, (before)
  signal %1, 1, (next)
  semaphore_wait %1, 2
  first = copy x_hbm[...], buf[0], sem[...] : copy
  start first
  wait first
  def place(step: int) {
    %2 = copy buf[rem(step, 2)], y_hbm[rem(me + 4 - step, 4) * 8 by 8 +: 8, :], sem[...] : copy
    return %2
  }
  out = call place((0)) : copy
  start out
  wait out
  def body(step: int) fori {
    when (step > 0) room {
      semaphore_wait free_sem[...], 1
    }
    ring = remote_copy buf[rem(step, 2)], buf[rem(step + 1, 2)], recv_sem[rem(step + 1, 2)], send_sem[rem(step, 2)], (next) : copy
    start ring
    wait_send ring
    wait_recv ring
    when (step < 2) free {
      signal free_sem[...], 1, (before)
    }
    got = call place((step + 1)) : copy
    start got
    wait got
  }
  fori (3) body()"""
MESH = {"x": "float32[8, 128]"}, {"y": "float32[32, 128]"}


def test_a_ring_of_devices():
    x = normal(4, 8, 128)
    (y,) = execute.run(program(RING, *MESH), x)
    assert y.shape == (4, 32, 128)
    for device in range(4):
        assert (y[device] == x.reshape(32, 128)).all()


def test_a_ring_that_waits_for_ever():
    text = program(RING.replace("    start ring\n    wait_send ring\n", ""), *MESH)
    fails("deadlock: all devices wait", text, normal(4, 8, 128))
    text = program(RING.replace("semaphore_wait %1, 2", "semaphore_wait %1, 3"), *MESH)
    fails("a semaphore that is", text, normal(4, 8, 128))
    text = program(RING.replace("semaphore_wait %1, 2", "semaphore_wait %1, 1"), *MESH)
    fails("the barrier's semaphore is not zero", text, normal(4, 8, 128))


# ---- values --------------------------------------------------------------------------------------


def moved(statement, x, out):
    return one(f"x = load x_ref[...] : {x.dtype.name}{list(x.shape)}\n"
               f"y = {statement} : {out}\nstore out_ref[...], y", x, out)  # fmt: skip


def test_moves():
    x = normal(4, 8, 16)
    cases = [
        ("reshape x", [32, 16], x.reshape(32, 16)),
        ("transpose x axes=(2, 0, 1)", [16, 4, 8], x.transpose(2, 0, 1)),
        ("swapaxes x a=-1 b=-2", [4, 16, 8], x.swapaxes(1, 2)),
        ("expand_dims x axis=-2", [4, 8, 1, 16], x[:, :, None]),
        ("tile x times=(2, 1, 1, 3)", [2, 4, 8, 48], np.tile(x, (2, 1, 1, 3))),
        ("index x items=[1, None, ..., 0:5]", [1, 8, 5], x[1, None, :, 0:5]),
        ("slice_in_dim x start=2 end=6 axis=1", [4, 4, 16], x[:, 2:6]),
        ("concatenate x, x axis=1", [4, 16, 16], np.concatenate([x, x], 1)),
        ("stack x, x axis=3", [4, 8, 16, 2], np.stack([x, x], 3)),
        ("pad x, 3 widths=(0, 0, 1, 0, 0, 2)", [4, 9, 18],
         np.pad(x, [(0, 0), (1, 0), (0, 2)], constant_values=3)),
        ("roll x turns=(3, 2, -1, 1)", [4, 8, 16], np.roll(x, (3, -1), (2, 1))),
        ("flip x axis=2", [4, 8, 16], x[:, :, ::-1]),
        ("reverse x axis=0", [4, 8, 16], x[::-1]),
        ("every x start=1 step=2 count=2 axis=0", [2, 8, 16], x[1::2]),
        ("even_lanes x", [4, 8, 8], x[..., ::2]),
        ("interleave x, x", [4, 8, 32], np.repeat(x, 2, -1)),
        ("max x keep=0 axes=(1)", [4, 16], x.max(1)),
        ("min x keep=1 axes=(0, 2)", [1, 8, 1], x.min((0, 2), keepdims=True)),
        ("mean x keep=1 axes=(2)", [4, 8, 1],
         x.astype(np.float64).mean(2, keepdims=True).astype(F32)),
        ("cumsum x axis=1", [4, 8, 16], x.astype(np.float64).cumsum(1).astype(F32)),
        ("dot x, x a=2 b=2 highest=0", [4, 8, 8],
         (x.astype(np.float64) @ x.astype(np.float64).swapaxes(1, 2)).astype(F32)),
    ]  # fmt: skip
    for statement, shape, expected in cases:
        y = moved(statement, x, f"float32{shape}")
        assert (y == expected).all(), statement


def test_rows_and_columns():
    x = normal(2, 16, 1)
    assert (moved("to_row x", x, "float32[2, 1, 16]") == x.reshape(2, 1, 16)).all()
    assert (moved("to_column x", x.reshape(2, 1, 16), "float32[2, 16, 1]") == x).all()


def test_folds():
    x = normal(8, 512)
    y = one(
        "x = load x_ref[...] : float32[8, 512]\nt = zeros : float32[8, 128]\n"
        "y = fold_sum t, x : float32[8, 128]\nstore out_ref[...], y",
        x,
        "float32[8, 128]",
    )
    parts = x.reshape(8, 4, 128)
    assert (y == (((parts[:, 0] + parts[:, 1]) + parts[:, 2]) + parts[:, 3])).all()


def test_conversions():
    x = np.array([[1.5, -2.5, np.nan, 3e9, -np.inf, 300, 0.1, -0.0]], F32)
    y = moved("convert x", x, "int32[1, 8]")
    assert y.tolist() == [[1, -2, 0, 2**31 - 1, -(2**31), 300, 0, 0]]
    assert moved("convert x", x, "int8[1, 8]").tolist() == [[1, -2, 0, 127, -128, 127, 0, 0]]
    assert (moved("bitcast x", x, "int32[1, 8]") == x.view(np.int32)).all()


def test_pointwise():
    x = normal(8, 128)
    cases = [
        ("where %1, x, 0", None),
        ("sign x", np.sign(x)),
        ("clamp x, -1, _", np.maximum(x, -1)),
        ("clamp x, -1, 0.5", np.clip(x, -1, 0.5)),
        ("rsub x, 1", 1 - x),
        ("exp2 x", np.exp2(x)),
        ("relu x", np.maximum(x, 0)),
        ("fma x, x, 2", x * x + 2),
        ("leaky_relu x, 0.25", np.where(x > 0, x, x * np.float32(0.25))),
        ("masked_fill x, %1, -inf", None),
    ]
    for statement, expected in cases:
        body = (
            "x = load x_ref[...] : float32[8, 128]\n%1 = gt x, 0 : bool[8, 128]\n"
            f"y = {statement} : float32[8, 128]\nstore out_ref[...], y"
        )
        y = one(body, x, "float32[8, 128]")
        if statement.startswith("where"):
            expected = np.where(x > 0, x, 0)
        if statement.startswith("masked"):
            expected = np.where(x > 0, -np.inf, x)
        assert (y == expected).all(), statement


def test_division_of_ints():
    x = np.array([[7, -7, 2**31 - 1, -1]], np.int32)
    assert moved("div x, 2", x, "float32[1, 4]").dtype == F32
    assert moved("floor_divide x, 2", x, "int32[1, 4]").tolist() == [[3, -4, 2**30 - 1, -1]]
    assert moved("trunc_divide x, 2", x, "int32[1, 4]").tolist() == [[3, -3, 2**30 - 1, 0]]
    assert moved("mul x, 3", x, "int32[1, 4]").tolist() == [[21, -21, 2**31 - 3, -3]]
    assert moved("int_power x, 2 bits=31", x, "int32[1, 4]").tolist() == [[49, 49, 1, 1]]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32])
def test_sums_of_products_of_ints_wrap(dtype):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    x = np.random.default_rng(0).integers(low, high, (64, 512), dtype, endpoint=True)
    x[0] = low or high
    y = moved("dot x, x a=1 b=1 highest=0", x, "int32[64, 64]")
    assert y.dtype == np.int32
    wide = x.astype(np.int64)
    assert (y == (wide @ wide.T).astype(np.int32)).all()


def test_int_expressions():
    x = np.zeros((8, 128), np.int32)
    for text, value in [
        ("(7 - 2 * 2)", 3),
        ("(cdiv(x, 4) + div(x, 4) * 10 + rem(x, 4) * 100)", 3 + 20 + 100),
        ("(min(x, 3) + max(x, 30))", 33),
        ("((x >= 9) & (x < 9))", 0),
        ("(choose(x == 9, -x, 4))", -9),
        ("(turn(x, 1, 5) * 10 + turn(x + 1, 1, 5))", 31),
    ]:
        y = one(
            f"x = int (9) : int\ny = int {text} : int\nz = full (y) : int32[8, 128]\n"
            "store out_ref[...], z",
            x,
            "int32[8, 128]",
        )
        assert (y == value).all(), text


def test_parts():
    x = normal(32, 128)
    body = "y = load x_ref[{} *: 8 of 4, :] : float32[8, 128]\nstore out_ref[...], y"
    assert (one(body.format("2"), x, "float32[8, 128]") == x[16:24]).all()
    with pytest.raises(TextError, match="part 4 is none of 4"):
        one(body.format("4"), x, "float32[8, 128]")


# ---- what is refused -----------------------------------------------------------------------------


def test_stated_types_are_checked():
    text, x = program(SCALE, *ROWS), normal(16, 384, dtype=BF16)
    line = line_of(text, "mul x")
    wrong = text.replace("mul x, 2.0 : bfloat16[8, 128]", "mul x, 2.0 : float32[8, 128]")
    wrong = wrong.replace("  store y_ref[...], %1", "")
    error = fails("bfloat16[8, 128] was computed, float32[8, 128] is stated", wrong, x)
    assert error.line == line
    wrong = text.replace(
        "mul x, 2.0 : bfloat16[8, 128]", "sum x keep=0 axes=(0) : bfloat16[8, 128]"
    )
    error = fails("bfloat16[128] was computed, bfloat16[8, 128] is stated", wrong, x)
    assert error.line == line


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("mul x, 2.0", "mul z, 2.0", "9:8: z is not defined"),
        ("x = load", "x = lode", "11:3: unknown op lode"),
        ("load x_ref[...]", "load x_ref[0]", "was computed"),
        ("load x_ref[...]", "load x_ref[0 +: 9]", "x_ref[0 +: 9] is outside of 8"),
        ("store y_ref[...], %1", "store y_ref[0], %1", "is stored to bfloat16[128]"),
        ("store y_ref[...], %1", "store x_ref[...], %1", "read-only"),
        (" : bfloat16[8, 128] @1", " : bfloat17[8, 128] @1", "11:28: expected a dtype"),
        ("%1 = mul x, 2.0 :", "%1 = mul x, ? :", "12:15: unexpected '?'"),
        ("%1 = mul x, 2.0 :", "%1, q = mul x, 2.0 :", "2 results have 1 types"),
        ("store y_ref[...], %1\n}", "store y_ref[...], %1", "unexpected '{'"),
    ],
)
def test_texts_that_are_wrong(old, new, message):
    text = program(SCALE, *ROWS)
    assert old in text
    with pytest.raises((TextError, ExecuteError)) as found:
        execute.run(text.replace(old, new, 1), normal(16, 384, dtype=BF16))
    wanted = message.split(": ", 1)[-1] if message[0].isdigit() else message
    assert wanted in str(found.value), found.value


def test_lines_and_columns():
    text = "program p for v6e\nhost() {\n  x = zeros : float32[8\n  return x\n}\n"
    with pytest.raises(TextError) as found:
        execute.run(text)
    assert (found.value.line, found.value.column) == (3, 24)


def test_arrays_are_checked():
    text = program(SCALE, *ROWS)
    fails("x must be bfloat16[16, 384], not float32[16, 384]", text, normal(16, 384))
    fails("1 inputs are needed, not 0", text)


# Ops of documents that become others before there is a kernel.
_MADE_OF_OTHERS = {"div_mode", "gelu", "mask_to"}


def test_every_op_is_known():
    text = (ROOT / "include/ops.def").read_text()
    rows = re.findall(r"^OP\((\w+), .*KIND_POINTWISE([^\n]*(?:\n   [^\n]*)*)", text, re.M)
    names = {row.lower() for row, columns in rows if ".as = " not in columns}
    own = re.findall(
        r'^KOP\(\w+, "(\w+)"', (ROOT / "codegen/kernel/kernel_ops.def").read_text(), re.M
    )
    assert len(names) > 80 and len(own) > 60
    known = {*pointwise.TABLE, *ops.BUILDERS, *code.INTS, *axes.STATEMENTS}
    known |= {*effects.STATEMENTS, *control.STATEMENTS}
    assert names | set(own) == known | _MADE_OF_OTHERS | {"return", "yield"}


# ---- comparing -----------------------------------------------------------------------------------


def test_compare():
    x = normal(64, 128)
    text = program(FORI, *SUM)
    other = text.replace("add total, x", "add x, total")
    (y,) = execute.compare(text, other, [x])
    assert (y == summed(x)).all()
    wrong = text.replace("add total, x", "sub total, x")
    with pytest.raises(ExecuteError, match="array 0 differs in 1024 of 1024 elements"):
        execute.compare(text, wrong, [x])
    backwards = text.replace("x_hbm[i * 8 by 8", "x_hbm[(7 - i) * 8")
    with pytest.raises(ExecuteError, match="differs"):
        execute.compare(text, backwards, [x])
    execute.compare(text, backwards, [x], rtol=1e-5, atol=1e-5)


def test_compare_takes_signed_zeros_apart():
    x = np.zeros((16, 384), BF16)
    text = program(SCALE, *ROWS)
    with pytest.raises(ExecuteError, match="differs"):
        execute.compare(text, text.replace("2.0", "-2.0"), [x])
