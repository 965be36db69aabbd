"""What a kernel may have many of: terms of a position, windows of a loop, new axes of a view."""

import re

import kit
import pallasc
import pytest
from builder import Doc, G, dt, f32, ref, sl, sym, t
from simulated import wrong

TILE = f32("u0", 128)


def loop_kernel(tensors, before=None, begin=0, scalars=(), dtype="int32", after=None, **config):
    """out[u0, 128] = zeros, to which each step of a loop over u1 from `begin` on adds.

    It adds the rows of each tensor, summed over the tile.

    Args:
      before: what adds nodes to the root in front of the loop, and `after` what is done to the sum.
      scalars: names; their dtype is `dtype`.
    """
    doc = Doc({"block_sizes": [8, 64], **config}, name="k").block(8, None).block(512, None)
    for name in tensors:
        doc.tensor(name, "input", "float32", [512, 128])
    doc.tensor("out", "output", "float32", [8, 128])
    for name in scalars:
        doc.scalar(name, dtype)
    loop, g = G(0, "for_loop", block_ids=[1], carried=[[0, 0]]), G(1, grid=[0])
    total = loop.arg(TILE, name="acc")
    for i, name in enumerate(tensors):
        place = loop.host(name, name=name), [sym("u1"), sl()]
        tile = loop.call("tile.load", *place, meta=f32("u1", 128), name=f"{name}_tile")
        row = loop.call("aten.sum.dim_IntList", tile, [0], meta=f32(128), name=f"{name}_row")
        last = "sum" if i + 1 == len(tensors) else f"s{i}"
        total = loop.call("aten.add.Tensor", total, row, meta=TILE, name=last)
    loop.out(total)
    if before:
        before(g)
    zero = g.call("tile.full", [sym("u0"), 128], 0.0, dt("float32"), meta=TILE, name="zero")
    bounds, metas = ([begin], [512]), {"tuple": [TILE]}
    sums = g.call("tile.for_loop", loop.id, *bounds, [zero], meta=metas, name="loop")
    total = g.call("getitem", sums, 0, meta=TILE, name="total")
    out = g.host("out", name="out")
    total = after(g, total) if after else total
    g.call("tile.store", out, [sym("u0"), sl()], total, name="store")
    return doc.add(loop, g.out())


@pytest.mark.parametrize("count", [6, 7, 12])
def test_a_loop_that_begins_at_a_sum_of_scalars(count):
    """Each of the terms is in the position of every step, and so is the step."""
    scalars = [f"s{i}" for i in range(count)]

    def add(g):
        for name in scalars:
            g.call("tile.scalar", name, meta=t("int32"), name=name)
        last = ref("s0")
        for i in range(1, count):
            last = g.call("add", last, ref(f"s{i}"), meta=t("int32"), name=f"to{i}")

    document = loop_kernel(["x"], add, ref(f"to{count - 1}"), scalars)
    assert wrong(document, scalars={s: 2**i % 37 for i, s in enumerate(scalars)}) == []


@pytest.mark.parametrize("loop_type", ["fori_loop", "emit_pipeline"])
def test_a_loop_of_many_windows(loop_type):
    """Each is read by the name of its own parameter."""
    tensors = [f"x{i}" for i in range(70)]
    module = kit.compiled(loop_kernel(tensors, pallas_loop_type=loop_type))
    assert len(module.plan["loops"][0]["windows"]) == 70
    read = re.findall(r"(x\d+)_tile = (x\d+)_win\[\.\.\.\]", module.source)
    assert set(read) == {(t, t) for t in tensors}


def test_scalars_are_computed_with():
    """Sums and products of ints are positions; those of floats are values."""

    def before(g):
        a, b = (g.call("tile.scalar", s, meta=f32(), name=s) for s in ("a", "b"))
        g.call("add", g.call("mul", a, 0.5, meta=f32(), name="c"), b, meta=f32(), name="d")

    def after(g, total):
        return g.call("aten.mul.Tensor", total, ref("d"), meta=TILE, name="z")

    document = loop_kernel(["x"], before, scalars=["a", "b"], dtype="float32", after=after)
    assert wrong(document) == []


@pytest.mark.parametrize("begin", [2**31, -(2**31), -(2**63), sym(-(2**63)), sym(2**63 - 1)])
def test_a_loop_that_begins_where_no_int32_is(begin):
    """A kernel counts positions in int32; what depends on a block is judged at the block's size."""
    with pytest.raises(pallasc.CompileError) as error:
        kit.compiled(loop_kernel(["x"], begin=begin))
    (said,) = error.value.diagnostics
    value = begin["sym"] if isinstance(begin, dict) else begin
    assert (said["code"], said["pointer"]) == ("size-range", "/graphs/1/nodes/1")
    assert said["message"] == f"tile.for_loop 'loop': it has {value} in `begins`"


def test_a_bound_is_judged_at_the_blocks_own_size():
    """Whatever size stands for the block's while nobody has chosen one."""
    late = loop_kernel(["x"], begin=sym("u1 * 67108864 - 4294967296"))
    assert kit.compiled(late, block_sizes=[8, 64])
    with pytest.raises(pallasc.CompileError, match=r"it has 4294967296 in `begins`"):
        kit.compiled(late, block_sizes=[8, 128])


def test_a_range_whose_length_overflows():
    """Where nothing is configured yet, too: what is written of it would not be read again."""
    kernel = Doc(name="ranges").tensor("x", "output", "int32", [8]).block(8)
    root = G(0, grid=[0])
    root.call("aten.arange.start_step", 5, sym(-(2**63)), name="far")
    with pytest.raises(pallasc.CompileError) as error:
        kit.compiled(kernel.add(root.out()))
    (said,) = error.value.diagnostics
    assert (said["code"], said["pointer"]) == ("size-overflow", "/graphs/0/nodes/0")
    assert said["message"].endswith("the size of dim 0 overflows or divides by zero")
