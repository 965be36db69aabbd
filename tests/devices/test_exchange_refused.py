"""What copies between devices are refused for, and graphs that say where they run."""

import subprocess
import sys

import kit
import numpy as np
import pytest
from builder import Doc, G, sl, sym, t
from pallasc import devices
from pallasc.reference.errors import GraphError

ROWS = [sl(), sl()]
F32 = t("float32", 16, 128)


def rotate(g, to=None, **fields):
    """Rows of x go to the next device's `out`, and both ends are waited for."""
    me = g.call("tile.device_id", meta=sym(None), name="me")
    after = g.call("add", me, 1, meta=sym(None), name="after")
    right = g.call("mod", after, 4, meta=sym(None), name="right")
    part = g.call("tile.part", g.host("x"), ROWS, meta=F32, name="part")
    g.call(
        "tile.remote_copy",
        g.host("out"),
        ROWS,
        part,
        right if to is None else to,
        0,
        name="send",
        **fields,
    )
    g.call("tile.remote_wait", g.host("out"), ROWS, 0, name="wait", **fields)


def document(body, mesh=None, steps=1, **tensors):
    """A document whose root does that, at so many grid points."""
    doc = Doc(mesh={"ring": 4} if mesh is None else mesh)
    doc.tensor("x", "input", "float32", [16, 128])
    for name, (role, dtype, shape) in tensors.items():
        doc.tensor(name, role, dtype, shape)
    doc.tensor("out", "output", "float32", [16, 128]).block(steps, size=1)
    g = G(0, grid=[0])
    body(g)
    return doc.add(g.out())


def told(graph):
    """The first diagnostic's code and message."""
    first = kit.refusal(graph)[0]
    return first["code"], first["message"]


# ---- accepted ------------------------------------------------------------------------------------


def test_checked_by_the_command(tmp_path):
    """Each device has what its left neighbour had."""
    path = tmp_path / "rotate.json"
    path.write_text(kit.json.dumps(document(rotate)))
    command = [sys.executable, "-m", "pallasc", "check", path]
    env = {**kit.os.environ, "PYTHONPATH": str(kit.ROOT / "python")}
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert (ran.stderr, ran.returncode) == ("", 0)
    lines = ran.stdout.splitlines()
    assert lines[1] == "inputs: seeds 0 to 3, one for each device"
    assert lines[2].startswith("  out:  ok: max error 0 (0 of the tolerance")
    assert lines[3] == "PASS"


def test_written_and_read_again():
    graph = document(rotate)
    text = kit.emitted("json", graph).out
    assert kit.json.loads(text)["mesh"] == {"ring": 4}
    assert kit.compiled(kit.json.loads(text)).source == kit.compiled(graph).source


def test_semaphores_of_several_copies():
    """As many as copies start, up to 16; then the devices meet before one counts again."""
    kernel = kit.emitted("kernel", kit.ROOT / "testdata/devices/graphs/exchange_rounds_4.json").out
    assert "  scratch sent_sem dma [1]\n  scratch come_sem dma [16]\n" in kernel
    assert "when ((started_1 > 0) & (rem(started_1, 16) == 0)) meet" in kernel


# ---- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mesh", "message"),
    [
        ({"ring": 4, "other": 2}, "the mesh has 2 axes, not 1"),
        ({}, "the mesh has 0 axes, not 1"),
        ({"a b": 4}, "the name of an axis is an identifier, not 'a b'"),
        ({"ring": 0}, "the axis ring has 1 to 256 devices, not 0"),
        ({"ring": 257}, "the axis ring has 1 to 256 devices, not 257"),
    ],
)
def test_meshes(mesh, message):
    assert told(document(rotate, mesh)) == ("mesh", message)


def test_mesh_that_is_none():
    graph = document(rotate)
    del graph["mesh"]
    code, message = told(graph)
    assert code == "mesh"
    assert message == "tile.device_id 'me': the program runs on no mesh of devices"


def only_copy(g, name="send"):
    part = g.call("tile.part", g.host("x"), ROWS, meta=F32)
    g.call("tile.remote_copy", g.host("out"), ROWS, part, 0, 0, name=name)


def half_waited(g):
    only_copy(g)
    g.call("tile.remote_wait", g.host("out"), ROWS, 0, "recv", name="wait")


def only_wait(g, name="wait"):
    g.call("tile.remote_wait", g.host("out"), ROWS, 0, name=name)


def waited_twice(g):
    rotate(g)
    only_wait(g, "again")


def started_twice(g):
    only_copy(g, "first")
    rotate(g)


def of_two_shapes(g):
    rotate(g)
    g.call("tile.remote_wait", g.host("out"), [0, sl()], 0, name="row")


def part_as_value(g):
    part = g.call("tile.part", g.host("x"), ROWS, meta=F32, name="part")
    g.store("out", ROWS, part)


def of_other_shapes(g):
    part = g.call("tile.part", g.host("x"), [0, sl()], meta=t("float32", 128), name="part")
    g.call("tile.remote_copy", g.host("out"), ROWS, part, 0, 0, name="send")


def to_an_input(g):
    part = g.call("tile.part", g.host("out"), ROWS, meta=F32, name="part")
    g.call("tile.remote_copy", g.host("x"), ROWS, part, 0, 0, name="send")


def of_lanes(g):
    part = g.call(
        "tile.part", g.host("x"), [sl(), sl(0, 64)], meta=t("float32", 16, 64), name="part"
    )
    where = [sl(), sl(0, 64)]
    g.call("tile.remote_copy", g.host("out"), where, part, 0, 0, name="send")
    g.call("tile.remote_wait", g.host("out"), where, 0, name="wait")


def by_data(g):
    flag = g.load("flag", [0], t("int32"))
    taken = g.call("aten.gt.Scalar", flag, 0, meta=t("bool"))
    rotate(g, pred=taken)


def to_nobody(g):
    rotate(g, to=4)


def to_a_float(g):
    rotate(g, to=1.5)


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (
            only_copy,
            "remote-wait",
            "tile.remote_copy 'send': nothing waits until its source is sent",
        ),
        (
            half_waited,
            "remote-wait",
            "tile.remote_copy 'send': nothing waits until its source is sent",
        ),
        (only_wait, "remote-wait", "tile.remote_wait 'wait': no copy starts on its channel"),
        (waited_twice, "remote-wait", "'again' waits for a copy that no device started"),
        (started_twice, "remote-wait", "it starts before 'first', on its channel, is waited for"),
        (
            part_as_value,
            "remote-part",
            "'part' is a part of a tensor, which only tile.remote_copy takes",
        ),
        (
            of_two_shapes,
            "remote-channel",
            "channel 0 counts float32[128] here, and float32[16, 128] at 'send'",
        ),
        (of_other_shapes, "type-mismatch", "it copies float32[128] to float32[16, 128]"),
        (to_an_input, "read-only-tensor", "tensor 'x' is an input and cannot be written"),
        (of_lanes, "remote-part", "cannot be copied between devices: a DMA moves whole lanes"),
        (
            by_data,
            "remote-wait",
            "whether 'send' runs depends on data: no device could say what comes",
        ),
        (to_nobody, "remote-device", "there is no device 4: the axis ring has 4"),
        (to_a_float, "dtype-mismatch", "device must be one int"),
    ],
)
def test_copies(body, code, message):
    found, said = told(document(body, flag=("input", "int32", [1])))
    assert found == code
    assert message in said


def in_tiles(rows, where, meta, columns=128):
    """A copy in each step of a loop over tiles of so many of 16 rows."""
    doc = Doc(mesh={"ring": 4})
    doc.tensor("x", "input", "float32", [16, columns])
    doc.tensor("out", "output", "float32", [16, columns])
    doc.block(1, size=1).block(16, size=rows)
    body = G(1, "for_loop", block_ids=[1])
    part = body.call("tile.part", body.host("x"), where, meta=meta, name="part")
    body.call("tile.remote_copy", body.host("out"), where, part, 0, 0, name="send")
    body.call("tile.remote_wait", body.host("out"), where, 0, name="wait")
    g = G(0, grid=[0])
    g.call("tile.for_loop", 1, [0], [16], [], meta={"tuple": []})
    return doc.add(body.out(), g.out())


def test_copies_of_a_ragged_loop_are_counted():
    """Of six rows each there are three steps."""
    assert "  scratch come_sem dma [3]\n" in kit.emitted("kernel", in_tiles(6, ROWS, F32)).out
    assert "  scratch come_sem dma [2]\n" in kit.emitted("kernel", in_tiles(8, ROWS, F32)).out


def test_rows_one_by_one_lie_apart():
    """Eight rows of several registers are one tile, unless a dim of one stands between."""
    row = [sym("u1"), sl()], t("float32", "u1", 256)
    text = kit.emitted("kernel", in_tiles(1, *row, columns=256)).out
    assert "  in x_hbm hbm float32[16, 1, 256] " in text
    assert "remote_copy x_hbm[j +: 1, :, :], out_hbm[j +: 1, :, :]" in text


def test_a_large_tensor_is_stored_to_in_hbm():
    """Row by row, through scratch, before it is sent: VMEM would not hold it beside others."""
    shape, doc = [16384, 256], Doc(mesh={"ring": 4})
    for name, role in (("x", "input"), ("box", "output"), ("out", "output")):
        doc.tensor(name, role, "float32", shape)
    doc.block(1, size=1).block(16384, size=1)
    body, g = G(1, "for_loop", block_ids=[1]), G(0, grid=[0])
    row = [body.call("tile.begin", sym("u1"), meta=sym(None)), sl()]
    body.store("box", row, body.load("x", row, t("float32", 256)))
    g.call("tile.for_loop", 1, [0], [16384], [], meta={"tuple": []})
    part = g.call("tile.part", g.host("box"), ROWS, meta=t("float32", *shape), name="part")
    g.call("tile.remote_copy", g.host("out"), ROWS, part, 0, 0, name="send")
    g.call("tile.remote_wait", g.host("out"), ROWS, 0, name="wait")
    text = kit.emitted("kernel", doc.add(body.out(), g.out())).out
    assert "  out box_hbm hbm float32[16384, 1, 256] " in text
    assert "staged_sem" in text


def test_tiles_of_rows():
    """Copies of 16 rows in tiles of 8; of 6, the last one would reach past the end."""
    tile = [sym("u1"), sl()], t("float32", "u1", 128)
    assert kit.compiled(in_tiles(8, *tile)).source
    code, message = told(in_tiles(6, *tile))
    assert code == "remote-part"
    assert message.endswith("cannot be copied between devices: its last tile reaches past the end")


def test_grids():
    assert told(document(rotate, steps=2)) == (
        "remote-grid",
        "a kernel that copies between devices runs at one grid point, not at 2 of b0",
    )


def test_barriers_that_not_all_come_to():
    doc = Doc(mesh={"ring": 4})
    doc.tensor("flag", "input", "int32", [1]).tensor("out", "output", "float32", [16, 128])
    doc.block(1, size=1)
    g, inside = G(1, grid=[0]), G(0, kind="if")
    inside.call("tile.remote_barrier", name="meet")
    taken = g.call("aten.gt.Scalar", g.load("flag", [0], t("int32")), 0, meta=t("bool"))
    g.call("tile.if", taken, 0, None, [], [], meta={"tuple": []})
    g.store("out", ROWS, 0.0)
    code, message = told(doc.add(inside.out(), g.out()))
    assert code == "remote-barrier"
    assert message == "tile.remote_barrier 'meet': a barrier stands in a root or in loops of one"


def test_cut_for_another_mesh():
    ran = kit.run("--mesh", "a=2", text=document(rotate))
    assert ran.status == 1
    assert "the document is one device's part already, of its own mesh [shard]" in ran.err


# ---- the reference -------------------------------------------------------------------------------


def inputs(count=4):
    return [[np.full((16, 128), i, np.float32)] for i in range(count)]


def test_devices_that_wait_for_ever():
    """All send to the first, which gets one more number 0 than there may be."""
    with pytest.raises(GraphError, match="two copies that are number 0 on channel 0 come to 0"):
        devices.run(document(lambda g: rotate(g, to=0)), inputs())


def test_devices_that_are_not_there():
    with pytest.raises(GraphError, match="there is no device 4: the mesh has 4"):
        devices.run(document(lambda g: rotate(g, to=4)), inputs())


def test_one_input_for_each_device():
    with pytest.raises(GraphError, match="the mesh has 4 devices, inputs are of 3"):
        devices.run(document(rotate), inputs(3))


def read_too_early(g):
    """What another device sends is read before it must be there."""
    part = g.call("tile.part", g.host("x"), ROWS, meta=F32)
    g.store("box", ROWS, 0.0)
    g.call("tile.remote_barrier")
    g.call("tile.remote_copy", g.host("box"), ROWS, part, 0, 0)
    g.call("tile.remote_barrier")
    g.store("out", ROWS, g.load("box", ROWS, F32))
    g.call("tile.remote_wait", g.host("box"), ROWS, 0)


def test_races():
    """Which the two orders of copies tell apart."""
    graph = document(read_too_early, mesh={"ring": 1}, box=("output", "float32", [16, 128]))
    x = [[np.ones((16, 128), np.float32)]]
    early, late = (devices.run(graph, x, late=late)[0][-1] for late in (False, True))
    assert (early.min(), late.max()) == (1, 0)
