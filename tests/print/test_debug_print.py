"""--debug-print: what a kernel prints while it runs, simulated and executed, and what it cannot."""

import contextlib
import io
import re

import jax
import jax.numpy as jnp
import kit
import numpy as np
import pallasc
import pytest
from pallasc import aot, execute
from pallasc.inputs import make_scalars, make_tensors


def printed(run):
    """{text before the colon: {point: the numbers behind it, of each time}} of a run."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        run()
    found = {}
    for line in out.getvalue().splitlines():
        text, numbers = line.rsplit(":", 1)
        point = re.search(r"\((.*?)\)", text)
        rank = len(point[1].split()) if point else 0
        values = numbers.split()
        times = found.setdefault(text, {}).setdefault(tuple(map(int, values[:rank])), [])
        times.append([float(value) for value in values[rank:]])
    return found


def assert_same(ours, theirs):
    """The same values of the same points; sums in another order are near."""
    assert ours.keys() == theirs.keys() and ours
    for text, points in ours.items():
        assert points.keys() == theirs[text].keys(), text
        for point, times in points.items():
            same = np.allclose(times, theirs[text][point], 1e-2, 1e-2, equal_nan=True)
            assert same, (text, point, times, theirs[text][point])


def simulated(module, *arrays):
    """What a module's function prints on a simulated TPU."""

    def run():
        jax.block_until_ready(getattr(module.load(), module.info["name"])(*arrays, interpret=True))
        jax.effects_barrier()

    return printed(run)


def drawn(module):
    """Arrays for its inputs."""
    draw = np.random.default_rng(3)
    return [
        jnp.asarray(draw.standard_normal(entry["shape"]), entry["dtype"])
        for entry in module.info["inputs"]
    ]


@pytest.mark.parametrize("loop", ("fori_loop", "emit_pipeline", "unroll"))
def test_each_step_of_a_loop(loop):
    """The running maximum of attention, at each point of the grid and step of its loop."""
    module = pallasc.compile(
        kit.path("attention"), {"pallas_loop_type": loop}, debug_print=["m_new", "q"]
    )
    q, k, v = drawn(module)
    found = simulated(module, q, k, v)
    maxima = found["m_new (tile_b tile_m j) min max nan first"]
    (tiles,) = (found[text] for text in found if text.startswith("q (tile_b tile_m"))
    assert len(maxima) == 4 * 4 * 4 and len(found) == 2

    q, k = (np.asarray(x, np.float64).reshape(4, 4, 128, 128) for x in (q, k))
    scores = np.einsum("bmid,bjkd->bmijk", q, k) / np.sqrt(128) * np.log2(np.e)
    for (b, m, j), times in maxima.items():
        running = scores[b, m, :, : j + 1].max((-1, -2))
        assert np.allclose(times, [[running.min(), running.max(), 0, running[0]]], 1e-4)
    for (b, m, *_), times in tiles.items():
        tile = q[b, m]
        assert np.allclose(times, [[tile.min(), tile.max(), 0, tile[0, 0]]], 1e-6)


def test_the_text_executed_prints_the_same():
    module = pallasc.compile(kit.path("attention"), debug_print=["m_new", "acc_1_1", "l_i"])
    arrays = drawn(module)
    ours = printed(lambda: execute.run(module.kernel, *map(np.asarray, arrays)))
    theirs = simulated(module, *arrays)
    assert len(ours) == 3
    assert_same(ours, theirs)


def all_that_can_be(graph, chip="v6e"):
    """The module that prints every value of a graph that its kernels have."""
    names = list(dict.fromkeys(node["name"] for node in kit.nodes(kit.document(graph))))
    for _ in names:
        try:
            return pallasc.compile(kit.path(graph), target=chip, debug_print=names)
        except pallasc.CompileError as error:
            without = re.findall(r"no kernel has a value of '(.*?)'", str(error))
            assert without, error
            names = [name for name in names if name not in without]
    raise AssertionError(graph)


KINDS = ("f16_softmax", "put_row", "any_all", "collatz", "fp8_row_matmul")


@pytest.mark.parametrize("graph", KINDS)
def test_values_of_all_kinds(graph):
    """Of float16, bool, ints, scalars: all are numbers of 32 bits."""
    module = all_that_can_be(graph)
    arrays = [*make_tensors(module.info, 0), *make_scalars(module.info, {})]
    ours = printed(lambda: execute.run(module.kernel, *arrays))
    theirs = simulated(module, *arrays)
    assert_same(ours, theirs)


def test_whole_tiles_and_nan():
    """NaN is neither the least nor the greatest; `:all` prints where it is, and the tile."""
    graph = kit.path("softmax")
    module = pallasc.compile(graph, debug_print=["row"])
    (x,) = drawn(module)
    x = x.at[1, 3].set(jnp.nan)
    (rows,) = simulated(module, x).values()
    first, *others = (rows[point][0] for point in sorted(rows))
    rest = np.delete(np.asarray(x[: len(x) // len(rows)], np.float64).ravel(), x.shape[1] + 3)
    assert np.allclose(first[:3], (rest.min(), rest.max(), 1)) and not any(n for *_, n, _ in others)

    out = io.StringIO()
    module = pallasc.compile(graph, debug_print="total:all")
    with contextlib.redirect_stdout(out):
        jax.block_until_ready(module.load().softmax(x, interpret=True))
        jax.effects_barrier()
    points = [line for line in out.getvalue().splitlines() if line.startswith("total")]
    assert sorted(points) == sorted(f"total (tile_m): {i}" for i in range(len(rows)))
    assert out.getvalue().count("[[") == len(rows) and "nan]" in out.getvalue()


def test_nothing_is_printed_unasked():
    with_prints = pallasc.compile(kit.path("softmax"), debug_print=["row"])
    plain = pallasc.compile(kit.path("softmax"), debug_print=[])
    assert plain.source == kit.compiled("softmax").source
    assert "debug_print" not in plain.source and "_debug_print" in with_prints.source


@pytest.mark.parametrize("chip", ("v5e", "v6e", "v7x"))
def test_the_tpu_compiler_takes_it(chip):
    """Of every kind, all at once, within the VMEM that is predicted."""
    for graph in (*KINDS, "attention", "causal_attention", "softmax_two_pass"):
        module = all_that_can_be(graph, chip)
        verdict = aot.compile_one(module, chip)
        assert (verdict.kind, verdict.message) == ("ok", ""), graph
        assert verdict.vmem_bytes <= verdict.predicted_bytes, graph


def test_what_cannot_be_printed():
    """Names that no node has; nodes that kernels have no value of, with the nearest that has."""

    def said(names):
        with pytest.raises(pallasc.CompileError) as error:
            pallasc.compile(kit.path("attention"), debug_print=names)
        return [(x["code"], x["message"], x.get("hint")) for x in error.value.diagnostics]

    assert said(["m_nw", "scores"]) == [
        ("debug-print", "there is no node 'm_nw' to print", "did you mean 'm_new'?")
    ]
    without = "no kernel has a value of '{}': what uses it is computed without it"
    near = "print '{}', the nearest that has one"
    assert said(["store", "k_view"]) == [
        ("debug-print", without.format("store"), near.format("div")),
        ("debug-print", without.format("k_view"), near.format("k")),
    ]


def test_the_command():
    graph = kit.path("attention")
    ran = kit.accepted("--debug-print=m_new,scores:all", "--debug-print", "q", graph)
    assert ran.out == pallasc.compile(graph, debug_print=["m_new", "scores:all", "q"]).source
    assert "needs names of nodes" in kit.refused(2, "--debug-print=m_new,,q", graph)
    assert "a sweep runs no kernels" in kit.refused(2, "sweep", "--debug-print=q", graph)


def test_kernel_text_prints_what_it_says():
    """The option does nothing to it, and a warning says so."""
    text = pallasc.compile(kit.path("softmax"), debug_print=["row"]).kernel
    ran = kit.accepted("--debug-print=total", "-", text=text)
    assert ran.out.count("_debug_print(") == 2 and "no --debug-print change it" in ran.err
    for wrong, why in (
        ("debug_print row, (tile_m)", "expected a text in quotes"),
        ('debug_print "row", x_ref[...] whole=0', "argument 0 must be an int, or of float32"),
    ):
        changed = text.replace('debug_print "row (tile_m)", row, (tile_m) whole=0', wrong)
        assert changed != text and why in kit.refused(1, "-", text=changed)
