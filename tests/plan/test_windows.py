"""Which loads a loop copies window by window, which stay resident, and the reason that is given."""

import json

import kit
import proof
import pytest
from builder import Doc, G, f32, sl, sym, t
from pallasc import aot, binding
from pallasc.errors import CompileError
from simulated import wrong


def plan(graph, loop, chip="v6e", **config):
    """The Plan of a graph of testdata/graphs, or of a document, as JSON."""
    return kit.plan(graph, chip, **{**proof.LOOPS[loop], **config})


def windows(found, loop="step"):
    """{window's ref: (copied, block, index map, why not copied)} of a loop."""
    (item,) = [item for item in found["loops"] if item["name"] == loop]
    return {w["ref"]: (w["dma"], w["block"], w["index_map"], w["why"]) for w in item["windows"]}


def operands(found):
    """{ref: (space, block, index map)} of the inputs."""
    return {
        o["ref"]: (o["space"], o["block"], o["index_map"])
        for o in found["operands"]
        if o["role"] == "input"
    }


def reads(found):
    """{node: (ref, loop, slices)} of the loads."""
    return {
        a["node"]: (a["ref"], a["loop"], a["slices"])
        for a in found["accesses"]
        if a["kind"] == "load"
    }


CHIPS = ("v5e", "v5p", "v6e", "v7x")
# Windows are copied where they can be, whatever it costs.
DMA = {"pallas_fori_dma": "on"}
COPIED = ("fori_loop", "emit_pipeline")
RESIDENT = ("unroll", "resident")
WHY_RESIDENT = {
    "unroll": "unrolled steps read resident blocks",
    "resident": "pallas_fori_dma is off",
}


# ---- two loads of one tensor ---------------------------------------------------------------------


@pytest.mark.parametrize("loop", COPIED)
def test_two_rows_of_one_tensor(loop):
    """x[tile_m, tile_k] and x[tile_n, tile_k]: two windows, never one."""
    found = plan("gram", loop, **DMA)
    assert windows(found) == {
        "x_win": (True, [128, 128], ["tile_m", "j"], None),
        "x_win_1": (True, [128, 128], ["tile_n", "j"], None),
    }
    assert operands(found) == {"x_hbm": ("hbm", None, None)}
    assert {ref for ref, _, _ in reads(found).values()} == {"x_win", "x_win_1"}


@pytest.mark.parametrize("loop", RESIDENT)
def test_two_rows_resident(loop):
    """Two blocks, one for each row of tiles; the loop slices both."""
    found = plan("gram", loop)
    why = WHY_RESIDENT[loop]
    assert windows(found) == {
        "x_win": (False, [128, 128], ["0", "j"], why),
        "x_win_1": (False, [128, 128], ["0", "j"], why),
    }
    assert operands(found) == {
        "x_ref": ("vmem", [128, 256], ["tile_m", "0"]),
        "x_ref_1": ("vmem", [128, 256], ["tile_n", "0"]),
    }


@pytest.mark.parametrize("loop", COPIED)
def test_two_offsets_of_one_tensor(loop):
    """x[t, u] and x[t, u + 128]: a position computed from the loop's index is pipelined too."""
    found = plan("neighbours", loop, **DMA)
    assert windows(found) == {
        "x_win": (True, [128, 128], ["tile_m", "j"], None),
        "x_win_1": (True, [128, 128], ["tile_m", "j + 1"], None),
    }


def shifted(by):
    """`neighbours` with the second load `by` elements further on, not 128."""
    document = kit.document("neighbours")
    (node,) = [n for n in document["graphs"][0]["nodes"] if n["name"] == "s"]
    node["args"][1] = by
    return document


@pytest.mark.parametrize("loop", ["fori_loop", "resident", "emit_pipeline"])
def test_an_unaligned_offset(loop):
    """Mosaic slices lanes at computed positions by whole registers only: two are turned."""
    ref, _, slices = reads(plan(shifted(1), loop))["next"]
    assert (ref, slices) == ("x_win_1", "[:, pl.ds(128*j + 1, 128)]")
    assert wrong(shifted(1), config=proof.LOOPS[loop]) == []


def test_an_unaligned_offset_unrolled():
    """Unrolled, positions are numbers, and any will do."""
    found = plan(shifted(1), "unroll")
    assert reads(found)["next"] == ("x_win_1", "step", "[:, pl.ds(128*j + 1, 128)]")


def test_offsets_outside_the_tensor_are_refused():
    """The last window would reach past the end."""
    with pytest.raises(CompileError, match="the index of tensor x may lie outside its dim of 512"):
        plan(shifted(256), "fori_loop")


# ---- positions and slices ------------------------------------------------------------------------


def test_positions():
    """A plane per step is copied; a row of a tile cannot be, and is read where it is resident."""
    found = plan("positions", "emit_pipeline")
    assert windows(found) == {
        "x_win": (True, [1, 128, 128], ["j", "tile_m", "0"], None),
        "w_win": (False, [4, 128], ["0", "0"], "it reads one position of a tiled dim"),
    }
    assert reads(found) == {
        "plane": ("x_win", "step", "[0, :, :]"),
        "row": ("w_win", "step", "[pl.ds(j, 1), :]"),
    }


@pytest.mark.parametrize("loop", RESIDENT)
def test_positions_resident(loop):
    """All planes stand in VMEM, and each step reads its own."""
    found = plan("positions", loop)
    assert operands(found)["x_ref"] == ("vmem", [4, 128, 128], ["0", "tile_m", "0"])
    assert reads(found)["plane"] == ("x_win", "step", "[j, :, :]")


def test_constant_slices():
    """An aligned one is a block of its own; another is cut out of the whole dim."""
    found = kit.plan("halves")
    assert operands(found) == {
        "x_ref": ("vmem", [64, 128], ["tile_m", "0"]),
        "x_ref_1": ("vmem", [64, 128], ["tile_m", "1"]),
        "x_ref_2": ("vmem", [64, 300], ["tile_m", "0"]),
    }
    assert reads(found)["odd"] == ("x_ref_2", None, "[:, pl.ds(172, 128)]")
    (out,) = [o for o in found["operands"] if o["role"] == "output"]
    assert out["block"] == [64, 256]


# ---- nested loops --------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", COPIED)
def test_nested(loop):
    """The outer loop moves x, which the inner one reads; both move y."""
    found = plan("nested_sums", loop, **DMA)
    assert windows(found) == {"x_win": (True, [128, 128], ["tile_m", "j"], None)}
    assert windows(found, "step_1") == {"y_win": (True, [128, 128], ["j", "j_1"], None)}
    assert reads(found) == {
        "load_1": ("x_win", "step", "[:, :]"),
        "load": ("y_win", "step_1", "[:, :]"),
    }


@pytest.mark.parametrize("loop", RESIDENT)
def test_nested_resident(loop):
    found = plan("nested_sums", loop)
    assert operands(found) == {
        "x_ref": ("vmem", [128, 256], ["tile_m", "0"]),
        "y_ref": ("vmem", [256, 256], ["0", "0"]),
    }
    assert windows(found, "step_1")["y_win"][1:3] == ([128, 128], ["j", "j_1"])


# ---- what stays resident although it could be copied ---------------------------------------------


def default_type(graph):
    """The document without a loop type: the plan chooses."""
    document = kit.document(graph)
    document["config"].pop("pallas_loop_type", None)
    return document


def test_two_loops_share_one_block():
    """Both passes over a row of tiles read one operand, fetched once for each grid point."""
    found = kit.plan(default_type("softmax_two_pass"))
    why = ("two loops read it: resident it moves 1.049 MB between HBM and VMEM, copied 2.097 MB",)
    assert windows(found)["x_win"] == (False, [64, 256], ["0", "j"], *why)
    assert windows(found, "step_1")["x_win"] == (False, [64, 256], ["0", "j_1"], *why)
    assert operands(found) == {"x_ref": ("vmem", [64, 1024], ["tile_m", "0"])}


def test_results_alone_are_no_pipeline():
    """What the second pass reads is resident: so is what it writes."""
    found = kit.plan(default_type("softmax_two_pass"))
    why = "what its loop reads is resident"
    assert windows(found, "step_1")["out_win"] == (False, [64, 256], ["0", "j_1"], why)
    assert [(item["type"], item["dma"]) for item in found["loops"]] == [("fori_loop", False)] * 2


def test_an_asked_pipeline_copies():
    """Resident, the first pass would leave emit_pipeline nothing to copy."""
    found = plan("softmax_two_pass", "emit_pipeline")
    assert windows(found)["x_win"][0]
    assert windows(found, "step_1")["x_win"][0]


def test_a_reread_input_stays():
    """x is read again for each tile of columns; y is not read more often than it would move."""
    config = {"block_sizes": [256, 256, 256], "pallas_straight_loops": "off"}
    found = plan("matmul_1024", "emit_pipeline", **config)
    why = (
        "each grid point would copy it again: resident it moves 2.097 MB between HBM and VMEM, "
        "copied 8.389 MB"
    )
    assert windows(found) == {
        "x_win": (False, [256, 256], ["0", "j"], why),
        "y_win": (True, [256, 256], ["j", "tile_n"], None),
    }
    assert operands(found)["x_ref"] == ("vmem", [256, 1024], ["tile_m", "0"])


def test_what_saves_too_little_is_copied():
    """Two rows of tiles instead of windows would move 6/8 of the bytes: not worth VMEM."""
    assert all(copied for copied, *_ in windows(plan("gram", "emit_pipeline")).values())


EARLY = (
    "it comes while the point before computes: resident it moves 67.11 MB between HBM and VMEM, "
    "copied 67.11 MB"
)


def test_what_is_read_once_stays():
    """A pipeline would fill and drain at each grid point, and wait for the next point's blocks."""
    found = kit.plan("recurrence_scan_8192_2048", "v6e")
    assert {ref: (dma, why) for ref, (dma, _, _, why) in windows(found).items()} == {
        "a_win": (False, EARLY),
        "b_win": (False, EARLY),
        "out_win": (False, "what its loop reads is resident"),
    }
    assert {o["ref"]: o["buffers"] for o in found["operands"]} == {
        "a_ref": 2,
        "b_ref": 2,
        "out_ref": 2,
    }


def test_an_asked_pipeline_copies_an_input():
    found = kit.plan("recurrence_scan_8192_2048", "v6e", pallas_loop_type="emit_pipeline")
    assert all(dma for dma, *_ in windows(found).values())


def test_one_buffer_gains_nothing():
    """Blocks that no copies come beside, or that save 1% by the estimate, are not worth VMEM."""
    document = kit.document("grpo_loss_bwd_32000")
    del document["config"]
    assert all(dma for dma, *_ in windows(kit.plan(document, "v6e")).values())


def test_on_copies_all():
    """pallas_fori_dma on keeps every window."""
    found = plan(default_type("softmax_two_pass"), "fori_loop", **DMA)
    assert windows(found)["x_win"][0]
    assert windows(found, "step_1")["x_win"][0]


def test_nothing_stays_that_does_not_fit():
    """On v4, two blocks of x of [1024, 4096] leave no room: the loop copies windows of it."""
    document = default_type("matmul_4096")
    small = {"block_sizes": [1024, 512, 512], "pallas_loop_type": "emit_pipeline"}
    assert not windows(kit.plan(document, **small))["x_win"][0]
    assert windows(kit.plan(document, "v4", **small))["x_win"][0]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_ragged_in_two_dims(dtype):
    """emit_pipeline cuts the last windows of a loop of two dims; what is stored in it stays."""
    text = (kit.ROOT / "testdata/configs/loop_of_two_dims.json").read_text()
    text = text.replace("512", "421").replace("256", "300")
    found = plan(json.loads(text.replace("float32", dtype)), "emit_pipeline")
    assert windows(found) == {
        "x_win": (True, [2, 128, 128], ["tile_b", "j[0]", "j[1]"], None),
        "out_win": (
            False,
            [2, 128, 128],
            ["0", "j[0]", "j[1]"],
            "the ragged last step writes part of a window",
        ),
    }


def test_an_outer_loops_ragged_step_copies_nothing():
    """Rows 384..767 of a weight of 512: the inner loop's steps divide, the outer one's do not."""
    config = {"block_sizes": [64, 384, 128], "pallas_fori_dma": "on"}
    with pytest.raises(CompileError, match="its last block in an outer loop reaches past"):
        plan("fused_linear_cross_entropy", "fori_loop", **config)


# ---- loops of two dims ---------------------------------------------------------------------------


@pytest.mark.parametrize("loop", COPIED)
def test_each_step_of_a_loop_of_two_dims_copies_its_own_windows(loop):
    assert wrong(kit.document("loop_of_two_dims"), {**proof.LOOPS[loop], **DMA}) == []


@pytest.mark.parametrize("blocks", [[8, 32, 128], [8, 256, 128], [2, 128, 128]])
def test_no_window_of_positions_that_end_at_the_tensor(blocks):
    """The last tiles of a range that is longer than the tensor find the nearest of its rows."""
    document = kit.document("loop_of_two_dims")
    shape = ["u0", "u1", "u2"]
    for tensor in document["tensors"]:
        if tensor["name"] == "x":
            tensor["shape"] = shape
    for node in kit.nodes(document):
        if node["name"] == "x":
            node["meta"]["shape"] = shape
    config = {"block_sizes": blocks, "pallas_loop_type": "fori_loop"}
    assert wrong(document, config) == []


# ---- windows of more rows than the array ---------------------------------------------------------


def sum_of_rows(rows):
    """out[m] = the sum of rows of x[m], as many as `end` says, 128 in a step."""
    config = {"block_sizes": [8], "pallas_loop_type": "emit_pipeline"}
    doc = Doc(config=config)
    doc.tensor("end", "input", "int32", [1]).tensor("x", "input", "float32", [40, rows, 256])
    doc.tensor("out", "output", "float32", [40, 256])
    doc.block(40).block(rows, size=128)
    m, tile = sym("u0"), f32("u0", "u1", 256)
    body = G(1, "for_loop", block_ids=[1], carried=[[0, 0]])
    acc = body.arg(f32("u0", 256))
    x = body.load("x", [m, sym("u1"), sl()], tile)
    total = body.call("aten.sum.dim_IntList", x, [1], meta=f32("u0", 256))
    body.out(body.call("aten.add.Tensor", acc, total, meta=f32("u0", 256)))
    g = G(0, grid=[0])
    end = g.load("end", [0], t("int32"))
    zero = g.call("tile.full", [m, 256], 0.0, {"dtype": "float32"}, meta=f32("u0", 256))
    sums = g.call("tile.for_loop", 1, [0], [end], [zero], meta={"tuple": [f32("u0", 256)]})
    g.store("out", [m, sl()], g.call("getitem", sums, 0, meta=f32("u0", 256)))
    return doc.add(body, g.out())


@pytest.mark.parametrize("chip", CHIPS)
def test_windows_of_more_rows_than_the_array(chip):
    """A pipeline clips the last one to the array's tiles, and Mosaic takes whole tiles only."""
    assert windows(plan(sum_of_rows(5), "emit_pipeline", chip))["x_win"][0]
    (result,) = aot.compile_many([(binding.compile(sum_of_rows(5), None, chip), chip)], 120)
    assert result.kind == "ok", result.full
    for rows in (1, 3, 4):
        with pytest.raises(CompileError, match="x: it has fewer rows than a tile of its windows"):
            binding.compile(sum_of_rows(rows), None, chip)
    assert wrong(sum_of_rows(4), {"pallas_loop_type": "fori_loop"}, chip) == []
