"""Kernels that move parts of arrays, or of sums, round a ring of devices themselves: --ring kernel.

What all devices together give is compared with float64; the simulator looks for races of copies
between devices, and for reads of what nothing wrote.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import kit
import ml_dtypes
import numpy as np
import pallasc
import pytest
import verdicts
from kit import accepted, refused
from on_devices import code_of, resized, settled
from pallasc import aot, execute
from pallasc.profile import run

HERE = Path(__file__).resolve().parent
BF16 = ml_dtypes.bfloat16


def matmul(m, k, n, blocks, loops="unroll", name="matmul_1024", **keys):
    """[m, k] times [k, n]."""
    shapes = {"x": [m, k], "y": [k, n], "out": [m, n]}
    config = {"block_sizes": blocks, "pallas_loop_type": loops} | keys
    return resized(kit.document(name), shapes, [m, n, k], config)


def gathered(devices, *sizes, **options):
    """x in parts of rows, y of columns; each device has its columns of the product."""
    graph = matmul(*sizes, **options)
    axes = {"tile_n": "ring"}
    return pallasc.shard(graph, {"ring": devices}, axes, gather={"x": "ring"}, ring="kernel")


def scattered(devices, *sizes, way="kernel", **options):
    """Parts of the contracted dim; each device has its rows of the sum."""
    graph = matmul(*sizes, **options)
    axes = {"tile_k": "ring"}
    return pallasc.shard(graph, {"ring": devices}, axes, scatter={"out": "ring:tile_m"}, ring=way)


def on_devices(module, folder, *arrays):
    """What the module's function of whole arrays gives, simulated in another process."""
    kept = {f"x{i}": array.view(np.uint16) for i, array in enumerate(arrays)}
    np.savez(folder / "in.npz", source=module.source, **kept)
    paths = os.pathsep.join([str(kit.ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, HERE / "ring_kernel_devices.py", folder / "in.npz"]
    environment = {**os.environ, "PYTHONPATH": paths, "JAX_PLATFORMS": "cpu"}
    subprocess.run([*command, folder / "out.npz"], check=True, timeout=200, env=environment)
    with np.load(folder / "out.npz") as out:
        assert out["seen"].tolist() == []
        return out["outputs"]


def check_product(module, folder, m, k, n):
    """The product is that of float64, rounded to bfloat16 once; nothing races."""
    random = np.random.default_rng(m + n)
    x, y = (random.standard_normal(s).astype(BF16) for s in [(m, k), (k, n)])
    expected = x.astype(float) @ y.astype(float)
    most = abs(x.astype(float)) @ abs(y.astype(float))

    def simulate():
        error = abs(on_devices(module, folder, x, y) - expected)
        allowed = 2**-8 * abs(expected) + most * 2**-20
        lines = [] if (error <= allowed).all() else [f"{error.max()} off"]  # a NaN is off too
        return lines, [(error / allowed).max()]

    ours = [code_of("ring_kernel_devices.py"), verdicts.package_code("mesh.py")]
    runs = [*ours, *map(verdicts.source, (on_devices, check_product))]
    assert settled(module.source, runs, lambda: [x, y, expected], simulate) == []


# ---- all-gather, then matmul ---------------------------------------------------------------------

# devices; m, k, n; blocks; directions and tiles of a share that come of it
GATHERS = {
    "two devices": (2, (64, 256, 256), [8, 128, 128], (2, 2)),
    "four": (4, (128, 256, 512), [16, 128, 256], (2, 1)),
    "four, one direction": (4, (96, 256, 1024), [24, 128, 256], (1, 1)),
    "four, walking back and forth": (4, (4096, 128, 1024), [256, 128, 128], (2, 2)),
    "eight": (8, (256, 128, 1024), [16, 128, 128], (2, 1)),
}


@pytest.mark.parametrize("case", GATHERS)
def test_gather(case, tmp_path):
    devices, sizes, blocks, (directions, tiles) = GATHERS[case]
    module = gathered(devices, *sizes, blocks)
    assert f"grid turn {devices * directions} arbitrary" in module.kernel
    assert f"grid tile_m {tiles} arbitrary" in module.kernel
    check_product(module, tmp_path, *sizes)


def test_gather_beside_a_pipeline(tmp_path):
    """The kernel copies windows of y by itself."""
    sizes = (128, 512, 512)
    keys = {"pallas_straight_loops": "off"}
    module = gathered(4, *sizes, blocks=[16, 128, 128], loops="emit_pipeline", **keys)
    assert "pipeline body" in module.kernel
    check_product(module, tmp_path, *sizes)


# ---- matmul, then reduce-scatter -----------------------------------------------------------------

SCATTERS = {
    "two devices": (2, (64, 256, 256), [8, 128, 128], (2, 2)),
    "three": (3, (96, 384, 256), [16, 128, 128], (2, 1)),
    "four": (4, (128, 512, 256), [16, 128, 128], (2, 1)),
    "four, one direction": (4, (96, 512, 128), [24, 128, 128], (1, 1)),
    "four, walking back and forth": (4, (256, 512, 256), [16, 128, 128], (2, 2)),
    "eight": (8, (256, 1024, 128), [16, 128, 128], (2, 1)),
}


@pytest.mark.parametrize("case", SCATTERS)
def test_scatter(case, tmp_path):
    devices, sizes, blocks, (directions, tiles) = SCATTERS[case]
    module = scattered(devices, *sizes, blocks)
    assert f"grid turn {devices * directions} arbitrary" in module.kernel
    assert f"grid tile_m {tiles} arbitrary" in module.kernel
    check_product(module, tmp_path, *sizes)


def test_sums_that_travel_in_bfloat16(tmp_path):
    """Each device rounds what it passes on, so that there are as many roundings as devices."""
    sizes = (128, 512, 256)
    module = scattered(4, *sizes, [16, 128, 128])
    narrow = scattered(4, *sizes, [16, 128, 128], way="kernel:bfloat16")
    assert "out sums hbm bfloat16[4, 16, 256]" in narrow.kernel
    random = np.random.default_rng(0)
    x, y = (random.standard_normal(s).astype(BF16) for s in [(128, 512), (512, 256)])
    expected = x.astype(float) @ y.astype(float)
    parts = [np.split(x, 4, 1), np.split(y, 4, 0)]
    (found,) = execute.run(narrow.kernel, *(np.stack(part) for part in parts))
    found = found.reshape(128, 256)
    most = abs(x.astype(float)) @ abs(y.astype(float))
    error = abs(found - expected)
    assert (error / abs(expected)).max() > 2**-8  # more than one rounding of the sum
    assert (error / most).max() < 4 * 2**-9
    (exact,) = execute.run(module.kernel, *(np.stack(part) for part in parts))
    assert (abs(exact.astype(float).reshape(128, 256) - expected) <= 2**-8 * abs(expected)).all()


# ---- kernel text ---------------------------------------------------------------------------------

WALK = """program walk for v6e
input x bfloat16[128, 128]
input y bfloat16[128, 256]
output out float32[128, 256]

kernel walk {
  grid tile_m 8 parallel
  grid tile_n 2 parallel
  in x_ref vmem bfloat16[16, 128] of [128, 128] at (tile_m, 0) buffers 2
  in y_ref vmem bfloat16[128, 128] of [128, 256] at (0, turn(tile_m, tile_n, 2)) buffers 2
  out out_ref vmem float32[16, 128] of [128, 256] at (tile_m, turn(tile_m, tile_n, 2)) buffers 2
  ring gather x_ref ring 2

  x = load x_ref[...] : bfloat16[16, 128]
  y = load y_ref[...] : bfloat16[128, 128]
  z = dot x, y a=1 b=0 highest=0 : float32[16, 128]
  store out_ref[...], z
}

host(x, y) {
  out = launch kernel=0, x, y : float32[128, 256]
  return out
}
"""
ADDED = """n = full (i * 100 + k) : int32[16, 128]
  f = convert n : float32[16, 128]
  s = add z, f : float32[16, 128]
  store out_ref[...], s"""


def rewritten(text):
    """The kernel's text once it runs on a ring."""
    return accepted("--rewrites=ring", "--verify-each", "--emit=kernel", "-", text=text).out


def test_walk_back_and_forth():
    """The walk goes on from tile to tile, whichever rows they are; execute() runs the text."""
    text = rewritten(WALK)
    assert "turn(turn * 2 + tile_m, tile_n, 2)" in text
    assert rewritten(text) == text  # it reads back, and there is nothing left to do
    random = np.random.default_rng(0)
    x, y = (random.standard_normal(s).astype(BF16) for s in [(2, 64, 128), (2, 128, 256)])
    (found,) = execute.run(text, x, y)
    expected = x.reshape(128, 128).astype(float) @ y.astype(float)
    assert (abs(found - expected) <= 2**-14).all()


def test_a_kernel_knows_its_grid_point():
    """Row blocks are numbered as of the whole array, whatever the ring brings first."""
    ids = "".join(f"  {name} = program_id dim={dim} : int\n" for dim, name in enumerate("ik"))
    text = WALK.replace("  x = load", f"{ids}  x = load").replace("store out_ref[...], z", ADDED)
    random = np.random.default_rng(0)
    x, y = (random.standard_normal(s).astype(BF16) for s in [(2, 64, 128), (2, 128, 256)])
    (found,) = execute.run(rewritten(text), x, y)
    for device in range(2):
        whole = text.replace("  ring gather x_ref ring 2\n", "")
        (alone,) = execute.run(whole, x.reshape(128, 128), y[device])
        assert np.abs(found[device] - alone).max() < 1e-3


@pytest.mark.parametrize("devices", [2, 4])
def test_sums_come_round(devices):
    """The text of a scatter is executed: each device's rows of the product, in bfloat16."""
    m, k, n = 16 * devices, 128 * devices, 256
    graph = matmul(m, k, n, [8, 128, 128])
    axes = (f"--mesh=ring={devices}", "--shard=tile_k=ring", "--scatter=out=ring:tile_m")
    text = accepted("--emit=kernel", *axes, "--ring=kernel", "-", text=graph).out
    assert "scratch came_sem dma [4]" in text  # of two ways, two buffers each
    random = np.random.default_rng(0)
    x, y = (random.standard_normal(s).astype(BF16) for s in [(m, k), (k, n)])
    columns, rows = np.split(x, devices, axis=1), np.split(y, devices)
    (found,) = execute.run(text, np.stack(columns), np.stack(rows))
    expected = (x.astype(float) @ y.astype(float)).reshape(devices, 16, n)
    assert np.abs(found - expected).max() <= 2**-8 * np.abs(expected).max()


def test_text_that_reads_back():
    assert accepted("--emit=kernel", "-", text=WALK).out == WALK
    line = "ring scatter out_ref ring 2 of bfloat16 in float32"
    text = WALK.replace("ring gather x_ref ring 2", line)
    assert line in accepted("--emit=kernel", "-", text=text).out


# ---- what is refused -----------------------------------------------------------------------------

REFUSED = {
    "tiles that no part is made of": (
        ("ring 2", "ring 3"),
        "x_ref: 8 blocks of 16 are no equal number on each of 3 devices: ask for smaller ones",
    ),
    "an output that all parts change": (
        (
            "at (tile_m, turn(tile_m, tile_n, 2)) buffers 2\n  ring",
            "at (0, tile_n) buffers 2\n  ring",
        ),
        "x_ref: the blocks of out_ref are not of one of its blocks each",
    ),
    "blocks along two dims": (
        ("bfloat16[16, 128] of [128, 128] at (tile_m, 0)",
         "bfloat16[16, 128] of [128, 256] at (tile_m, tile_n)"),
        "x_ref: its blocks are several along dim 1, too",
    ),
    "no blocks": (
        ("gather x_ref", "gather y_ref"),
        "y_ref: the grid walks along none of its dims, block by block and forwards",
    ),
    "a mesh": (
        ("  ring gather", "  mesh ring 2\n  ring gather"),
        "x_ref: the kernel runs on several devices or SparseCores already",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    (before, after), why = REFUSED[case]
    text = WALK.replace(before, after)
    if case == "blocks along two dims":
        text = text.replace("input x bfloat16[128, 128]", "input x bfloat16[128, 256]")
    answer = refused(1, "-", text=text)
    assert f"kernel 'walk' cannot run on a ring: {why} [kernel-ring]" in answer


def test_the_wrapper_moves_what_the_kernel_cannot():
    """Parts of four rows are laid out anew, so the kernel gets no array as it is given."""
    graph = matmul(32, 256, 1024, [32, 128, 256])
    words = ("--mesh=ring=8", "--shard=tile_n=ring", "--gather=x=ring", "--explain", "-")
    why = "one kernel must take one array as it is given, or give one as it is returned"
    ran = accepted("--ring=auto", *words, text=graph)
    said = "ring: the wrapper moves what travels: the kernel cannot move x along ring: "
    assert said + why in ran.err
    assert ran.out == accepted(*words, text=graph).out
    assert f"the kernel cannot move x along ring: {why} [kernel-ring]" in refused(
        1, "--ring=kernel", *words, text=graph
    )


def test_the_wrapper_holds_the_whole_of_what_comes_in_parts():
    words = ("--mesh=ring=2", "--shard=tile_n=ring", "--gather=x=ring")
    source = accepted(*words, kit.path("matmul_1024")).out
    assert "whole = (jnp.zeros((1024, 512), jnp.bfloat16),)" in source
    assert "dynamic_update_slice_in_dim(whole[0], outputs, part * 512, 0)" in source


def test_options():
    graph = matmul(128, 256, 512, [16, 128, 256])
    both = refused(2, "--mesh=ring=4", "--ring=kernel", "-", text=graph)
    assert "--ring says what moves the parts of --gather and --scatter" in both
    none = refused(2, "--mesh=ring=4", "--gather=x=ring", "--ring=mesh", "-", text=graph)
    assert "--ring is wrapper, kernel, kernel:bfloat16, auto or auto:bfloat16, not 'mesh'" in none
    with pytest.raises(pallasc.CompileError, match="ring: 'mesh'"):
        pallasc.shard(graph, {"ring": 4}, gather={"x": "ring"}, ring="mesh")
    info = gathered(4, 128, 256, 512, [16, 128, 256]).info["sharding"]
    assert info == {
        "mesh": {"ring": 4},
        "inputs": [["ring"], [None, "ring"]],
        "outputs": [[None, "ring"]],
        "gather": {"x": "ring"},
        "ring": "kernel",
        "shapes": {"inputs": [[128, 256], [256, 512]], "outputs": [[128, 512]]},
    }


# ---- for real chips ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "devices"),
    [("v5e", 4), ("v5e", 8), ("v6e", 4), ("v6e", 8), ("v7x", 4), ("v7x", 8), ("v7x", 512)],
)
@pytest.mark.parametrize("way", [gathered, scattered])
def test_compiles(way, devices, target):
    """512 devices are the 256 chips of tpu7x:4x8x8."""
    sizes = (32 * devices, 128 * devices, 128 * devices)
    module = way(devices, *sizes, [16, 128, 128])
    found = aot.compile_one(module, target, timeout=200)
    assert (found.kind, found.message) == ("ok", "")


def test_schedule():
    """In the compiler's schedule of a step copies to other devices start before its matmuls.

    They are waited for before the matmuls of the next step: nothing is between the two.
    """
    module = gathered(4, 2048, 1024, 1024, [256, 256, 1024])
    found, _ = run.compiled(module, "v6e")
    (kernel,) = [x for x in found["kernels"].values() if "hbm-to-hbm" in x["schedule"]]
    lines = kernel["schedule"].splitlines()

    def places(text):
        return [n for n, line in enumerate(lines) if re.search(text, line)]

    sends, waits, matmuls = map(places, ("hbm-to-hbm", "dma.done.wait", "vmatmul"))
    assert len(sends) == 3  # the own two, and what came
    assert sends[-1] < matmuls[0]
    before = [wait for wait in waits if sends[1] < wait < sends[2]]
    assert len(before) >= 3  # for the block of this step, the next share, and what went before
    assert not [wait for wait in waits if sends[2] < wait < matmuls[-1]]
