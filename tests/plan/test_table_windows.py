"""Windows at places that tables give: copied ahead by what stands in SMEM, a position or a row."""

import json

import kit
import numpy as np
import pallasc
import pallasc.execute
import pallasc.reference
import pytest
from coverage import row as coverage
from pallasc import compare

PAGED = "paged_decode"  # of testdata/coverage/graphs: a tile of page numbers in each step


def kernel_text(graph, rewritten=True, **config):
    """The kernel of a graph as text, after all rewrites or before them."""
    return kit.emitted("kernel", graph, *([] if rewritten else ["--rewrites="]), **config).out


def windows(found):
    """{window's ref: (copied, block, buffers)} of the one loop."""
    (loop,) = found["loops"]
    return {w["ref"]: (w["dma"], w["block"], w["buffers"]) for w in loop["windows"]}


def test_a_row_of_a_table_is_copied_in_pieces():
    """Each page by itself, from the place that the copy reads; one wait is for all of a step."""
    text = kernel_text(PAGED, pallas_windows_across="off")
    assert windows(kit.plan(PAGED)) == {
        "k_pages_win": (True, [1, 4, 16, 128], 2),
        "v_pages_win": (True, [1, 4, 16, 128], 2),
    }
    assert "  in table_ref smem int32[4, 8] buffers 2\n" in text
    assert "  unchecked\n" in text
    assert "    place = load table_ref[block_0, i * 4 + piece] : int32\n" in text
    assert (
        "copy k_pages_hbm[block_1 +: 1, min(max(place, 0), 23) +: 1, :, :], "
        "k_pages_buf[slot, :, piece +: 1], k_pages_sem[slot] : copy\n"
    ) in text
    assert text.count("for piece in 4 from 0 {") == 4  # K and V, first and ahead
    assert (
        "copy k_pages_buf[rem(j, 2)], k_pages_buf[rem(j, 2)], k_pages_sem[rem(j, 2)] : copy" in text
    )


def test_a_tile_of_places_may_pass_the_tables_end():
    """Of seven pages by two, the last step's second one is the nearest there is."""
    text = kernel_text("paged_decode_odd")
    assert "load table_ref[block_0, min(i * 2 + piece, 6)] : int32" in text


def test_nothing_else_computes_the_places():
    """The step does not read the table: its copies do."""
    text = kernel_text(PAGED, pallas_windows_across="off")
    assert text.count("load table_ref") == 2


@pytest.mark.parametrize("rewritten", [False, True])
def test_text_reads_back(rewritten, tmp_path):
    """Pieces, elements in windows, `unchecked`: text and Python are the same again."""
    text = kernel_text(PAGED, rewritten)
    path = tmp_path / "paged.kernel"
    path.write_text(text)
    rest = [] if rewritten else ["--rewrites="]
    assert kit.accepted(path, "--emit=kernel", *rest).out == text
    assert kit.accepted(path).out == kit.compiled(PAGED).source


@pytest.mark.parametrize("blocks", [[1], [2], [4], [8]])
@pytest.mark.parametrize("graph", [PAGED, "paged_decode_odd"])
def test_rewrites_keep_values(graph, blocks):
    """Executed before and after all rewrites, the kernel gives the reference's numbers."""
    document = kit.document(graph)
    arrays = compare.make_inputs(document, seed=3)
    before, after = (
        pallasc.execute.run(kernel_text(graph, rewritten, block_sizes=blocks), *arrays)
        for rewritten in (False, True)
    )
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("loop", "why"),
    [
        ("unroll", "known only at run time"),
        ("emit_pipeline", "nothing to pipeline"),
    ],
)
def test_other_loops_are_refused(loop, why):
    """What cannot copy pieces says so."""
    (first, *_) = kit.refusal(PAGED, pallas_loop_type=loop)
    assert why in first["message"]


def test_a_position_from_a_table_moves_a_window():
    """One page a step: its number is an int of the step, which its copy reads before."""
    text = kernel_text("sum_of_pages", pallas_fori_dma="on")
    assert windows(kit.plan("sum_of_pages", pallas_fori_dma="on")) == {
        "pages_win": (True, [1, 16, 128], 2)
    }
    assert "place = load table_ref[block_0, min(max(i, 0), 7)] : int32" in text
    assert "copy pages_hbm[min(max(place, 0), 19) +: 1, :, :], pages_buf[slot], " in text
    assert text.count("load table_ref") == 1
    assert "unchecked" not in text


@pytest.mark.parametrize("dma", ["on", "off"])
def test_positions_copied_or_resident(dma):
    """Copied or sliced, the numbers are the same."""
    document = kit.document("sum_of_pages")
    arrays = compare.make_inputs(document, seed=3)
    text = kernel_text("sum_of_pages", pallas_fori_dma=dma)
    np.testing.assert_allclose(
        pallasc.execute.run(text, *arrays)[0], pallasc.reference.run(document, arrays)[0], 2e-5
    )


WORKLIST = "grouped_worklist"  # blocks and groups that lists name for each grid point


def test_a_large_array_comes_in_blocks_that_a_table_names():
    """The index map reads the table; smaller arrays are resident; the body reads that table."""
    text = kernel_text(WORKLIST, rewritten=False)
    assert "  in groups_ref prefetch int32[16] buffers 2\n" in text
    assert "  in blocks_ref smem int32[16] buffers 2\n" in text
    assert (
        "  in w_ref vmem int8[1, 256, 256] of [9, 256, 512] "
        "at (min(max(groups_ref[tile_i], 0), 8), 0, tile_k) buffers 2\n"
    ) in text  # not ahead: cores share the grid's first dim
    assert "  in x_ref vmem bfloat16[8, 32, 256] of [8, 32, 256] at (0, 0, 0) buffers 2\n" in text
    found = {o["ref"]: o for o in kit.plan(WORKLIST)["operands"]}
    assert found["w_ref"]["fetches"] == 32
    assert found["w_ref"]["vmem_bytes"] == 2 * 256 * 256


def test_what_only_index_maps_read_is_not_computed():
    """The clamped group finds weights alone, and they are brought."""
    assert "clamp g, 0, 8" not in kernel_text("experts_worklist")


@pytest.mark.parametrize("graph", [WORKLIST, "grouped_worklist_odd", "experts_worklist"])
def test_lists_keep_values(graph):
    """Executed before and after all rewrites, with places outside too."""
    document = kit.document(graph)
    arrays = compare.make_inputs(document, seed=5)
    for array in arrays[1:3]:
        array[:4] = [-3, 100, 0, 8]
    before, after = (
        pallasc.execute.run(kernel_text(graph, rewritten), *arrays)[0].astype(float)
        for rewritten in (False, True)
    )
    stored = ~np.isnan(before)  # what no step stores is whatever the block's window held
    np.testing.assert_array_equal(before[stored], after[stored])


def test_index_maps_read_back(tmp_path):
    """Text and Python are the same again."""
    path = tmp_path / "list.kernel"
    path.write_text(kernel_text(WORKLIST, rewritten=False))
    assert kit.accepted(path).out == kit.compiled(WORKLIST).source


# Rows from any place on, copied with the whole tiles around them.
AROUND = {"pallas_loop_type": "fori_loop", "pallas_fori_dma": True}
WIDE = kit.text("jagged_sum").replace("128", "512")


def test_windows_that_start_anywhere_are_copied_with_what_is_around_them():
    """From the multiple of 8 at or before it, but never past the array's end."""
    text = kernel_text(WIDE, rewritten=False, **AROUND)
    assert (
        "    window x_win vmem float32[40, 512] of x_hbm in dma copy x_copy at (0, 0) "
        "start (min(div(load_clamped + j * 32, 8) * 8, 216), 0) by (8, 0) buffers 2 "
    ) in text
    assert "rotate %2, (rem(40 - (load_clamped + j * 32 - min(" in text


def test_narrow_rows_are_copied_from_where_they_start():
    """Rows of one tile of lanes lie one after the other: nothing is read around them."""
    text = kernel_text("jagged_sum", rewritten=False, **AROUND)
    assert "vmem float32[32, 128] of x_hbm" in text
    assert " start (min(load_clamped + j * 32, 224), 0) " in text


def test_rows_around_are_those_of_a_slice():
    """A slice is made where rows are copied from any place on, whichever dim they are."""
    found = json.loads(WIDE)
    cut = [[1, 2, 1], [0, 256, 1], [512, 1024, 1]]
    found["tensors"][0] |= {"shape": [1, 256, 512], "role": "view", "of": "all", "slice": cut}
    whole = {"name": "all", "role": "input", "dtype": "float32", "shape": [2, 256, 1024]}
    found["tensors"].insert(0, whole)
    nodes = {node["name"]: node for node in kit.nodes(found, "for_loop")}
    nodes["x"]["meta"]["shape"] = [1, 256, 512]
    nodes["load"]["args"][1].insert(0, 0)
    text = kernel_text(found, **AROUND)
    assert "  in all_hbm hbm float32[1, 256, 512] " in text
    assert "slices=(1, 2, 1, 0, 256, 1, 512, 1024, 1) : float32[1, 256, 512]" in text
    arrays = compare.make_inputs(found, seed=7)
    expected = pallasc.reference.run(found, arrays)
    np.testing.assert_allclose(pallasc.execute.run(text, *arrays)[0], expected[0], 1e-5, 1e-5)


def test_a_segment_may_be_larger_than_vmem():
    """Nobody asks for copies, and 2 GiB of rows are not resident."""
    found = kit.plan(WIDE.replace("256", "1048576"))
    assert windows(found) == {"x_win": (True, [40, 512], 2)}
    assert found["vmem"]["total"] < 1 << 20


def test_rows_that_fit_stay_resident():
    """Copied for each group, they would be turned as well."""
    assert windows(kit.plan(WIDE)) == {"x_win": (False, [256 + 32, 512], 0)}


@pytest.mark.parametrize(
    "graph", [WIDE, "jagged_sum", "jagged_softmax", "jagged_dense_bmm", "ragged_paged", "sum_to"]
)
def test_windows_around_keep_values(graph):
    """Executed before and after all rewrites, at the array's end too."""
    document = json.loads(graph) if graph == WIDE else kit.document(graph)
    arrays = compare.make_inputs(document, seed=7)
    if graph == WIDE:
        arrays[1][:] = [-4, 3, 3, 100, 90, 251, 255, 256, 250, 999]
    before, after = (
        pallasc.execute.run(kernel_text(graph, rewritten, **AROUND), *arrays)
        for rewritten in (False, True)
    )
    np.testing.assert_array_equal(before[0].astype(float), after[0].astype(float))
    if graph == WIDE:
        expected = pallasc.reference.run(document, arrays)
        np.testing.assert_allclose(after[0], expected[0], rtol=1e-5, atol=1e-5)


# ---- lists of work -------------------------------------------------------------------------------

EXPERTS = "experts_worklist"  # one grid dim: a step for each entry of the list


def worklist_inputs(graph, blocks, groups):
    """Inputs of a worklist's graph, with the list given; the rest of it is its last entry."""
    document = graph if isinstance(graph, dict) else kit.document(graph)
    named = dict(zip((p.name for p in coverage.parameters(document)), range(99), strict=False))
    arrays = compare.make_inputs(document, seed=3)
    count, (x, groups_of) = len(arrays[named["blocks"]]), (arrays[0], arrays[named["offsets"]])
    for name, given in (("blocks", blocks), ("groups", groups)):
        arrays[named[name]] = np.array(given + given[-1:] * (count - len(given)), np.int32)
    rows, parts = x.shape[0] * x.shape[1], len(groups_of) - 1
    arrays[named["offsets"]] = np.linspace(0, rows, parts + 1).astype(np.int32)
    return document, arrays


def test_blocks_of_a_worklist_are_copied_far_ahead():
    """The kernel copies them itself: of the next two groups when a group's first step runs."""
    before, text = (kernel_text(EXPERTS, rewritten) for rewritten in (False, True))
    place = "at (min(max(groups_ref[tile_i], 0), 8), 0, 0) buffers 3 ahead\n"
    assert f"  in w_up_ref vmem bfloat16[1, 128, 512] of [9, 128, 512] {place}" in before
    assert "  in w_up_hbm hbm bfloat16[9, 128, 512]\n" in text
    assert "  scratch w_up_ref vmem bfloat16[3, 1, 128, 512]\n" in text
    assert "  scratch w_gate_runs_ref smem int32[19]\n" in text  # of gate, up and down
    assert text.count("_runs_ref smem int32") == 2  # and of the results
    assert "\n  grid " not in text and "pipeline" not in text
    assert "fori (15) find_runs((1), (1))" in text and "fori (16) body((0), (2), (0), (1))" in text
    assert "      w_gate_ahead = load w_gate_runs_ref[w_gate_run_1 + 2] : int32\n" in text
    assert "emit_pipeline" not in kit.compiled(EXPERTS).source


@pytest.mark.parametrize(
    ("counts", "found"), [([2] * 7, 2), ([2, 2, 2, 2, 1, 2, 2], 1), ([2, 2, 2, 2, 3, 2, 2], 3)]
)
def test_buffers_of_what_a_worklist_names(counts, found):
    """As many as are asked for; a window that has one is copied when its step runs."""
    asked = {"pallas_load_buffer_count": counts}
    text = kernel_text(EXPERTS, **asked)
    assert f"  scratch w_gate_ref vmem bfloat16[{found}, 1, 128, 512]\n" in text
    _, arrays = worklist_inputs(EXPERTS, [0, 1, 0, 1, 0, 6, 0], [0, 1, 1, 0, 2, 7, 0])
    before, after = (
        pallasc.execute.run(kernel_text(EXPERTS, rewritten, **asked), *arrays)[0].astype(float)
        for rewritten in (False, True)
    )
    stored = ~np.isnan(before)
    np.testing.assert_array_equal(before[stored], after[stored])


def test_a_step_that_is_told_the_same_again_does_nothing():
    text = kernel_text(EXPERTS)
    assert "at_before = load blocks_ref[max(tile_i - 1, 0)] : int32\n" in text
    told = "(tile_i > 0) & (g == g_before) & (at == at_before)"
    assert f"    when (choose({told}, 0, 1) > 0) news {{\n" in text
    assert text.count("store out_ref[") == 1


def as_pipeline(graph):
    """The kernel whose blocks an emit_pipeline copies: without the rewrite that does it else."""
    lines = kit.accepted("--print-rewrites").out.split("\n")
    names = [line.split()[0] for line in lines if line and line.split()[0] != "runs"]
    return kit.emitted("kernel", graph, f"--rewrites={','.join(names)}").out


def test_a_long_worklist_is_a_pipeline():
    """The runs of more than 8192 points are not listed: an emit_pipeline looks for each."""
    document = json.dumps(kit.document(EXPERTS)).replace("[16]", "[9000]")
    document = document.replace('"extent": 16', '"extent": 9000')
    source = kit.compiled(json.loads(document)).source
    assert source.count("pipeline_mode=pl.Buffered(3, use_lookahead=True)") == 3
    assert as_pipeline(EXPERTS).count("buffers 3 ahead") == 3


@pytest.mark.parametrize("graph", [EXPERTS, "experts_worklist_odd", WORKLIST])
@pytest.mark.parametrize(
    ("blocks", "groups"),
    [
        ([0, 1, 1, 2, 2, 2, 6], [0, 0, 1, 1, 2, 3, 8]),
        ([0, 1, 0, 1, 0, 6, 0], [0, 1, 1, 0, 2, 7, 0]),  # in any order, again and again
        (
            [-1, 99, 3, 3, 3],
            [0, 2, 3, 4, -5],
        ),  # outside: nothing is stored, the nearest weights are read
        ([5, 5], [6, 7]),  # and repeats of the last step
    ],
)
@pytest.mark.parametrize("runs", [True, False])
def test_worklists_in_any_order(graph, blocks, groups, runs):
    """Steps that do nothing, and blocks that are copied ahead, change no value."""
    document, arrays = worklist_inputs(graph, blocks, groups)
    text = kernel_text(graph) if runs else as_pipeline(graph)
    before, after = (
        pallasc.execute.run(kernel, *arrays)[0].astype(np.float32)
        for kernel in (kernel_text(graph, rewritten=False), text)
    )
    want = pallasc.reference.run(document, arrays)[0].astype(np.float32)
    stored = ~np.isnan(before)  # all else is whatever the block's window held
    assert stored.any()
    np.testing.assert_array_equal(before[stored], after[stored])
    np.testing.assert_allclose(after[stored], want[stored], 2e-2, 2e-2 * np.abs(want[stored]).max())


def test_an_output_of_a_worklist_comes_in_blocks():
    """One is written when the next is another; one that was left is read again."""
    text = kernel_text(EXPERTS)
    assert "  out out_hbm hbm bfloat16[8, 32, 128]\n" in text
    assert "  scratch out_ref vmem bfloat16[2, 1, 32, 128]\n" in text
    assert "  scratch seen_ref smem int32[8]\n" in text
    back = "copy out_hbm[out_block +: 1], out_ref[out_slot_now], again_sem[0] : copy\n"
    assert back in text


def test_a_block_that_was_left_is_read_again_on_a_chip():
    """As TPUs run it: in a simulation that finds races and reads of what nobody wrote."""
    blocks, groups = [0, 1, 0, 1, 0, 6, 0, 2], [0, 1, 1, 0, 2, 8, 0, 2]
    document, arrays = worklist_inputs(f"{WORKLIST}_odd", blocks, groups)
    kernel = kit.compiled(f"{WORKLIST}_odd").load().grouped_worklist
    found = np.asarray(kernel(*arrays, interpret=True))
    want = pallasc.reference.run(document, arrays)[0]
    named = dict(zip((p.name for p in coverage.parameters(document)), arrays, strict=True))
    row = np.arange(want.shape[0] * want.shape[1]).reshape(want.shape[:2])
    for block, group in zip(blocks, groups, strict=True):
        own = (row >= named["offsets"][group]) & (row < named["offsets"][group + 1])
        own[:block] = own[block + 1 :] = False
        assert own.any() or (block, group) in {(1, 0), (0, 2)}
        np.testing.assert_allclose(found[own], want[own], 1e-4, 1e-5 * np.nanmax(np.abs(want)))


def of_blocks(graph, count):
    """The document of a worklist with so many blocks of rows."""
    document = kit.document(graph)
    for tensor in document["tensors"]:
        if tensor["name"] in ("x", "out"):
            tensor["shape"][0] = count
    for node in kit.nodes(document):
        if node.get("target") == "tile.host_tensor" and node["args"][0] in ("x", "out"):
            node["meta"]["shape"][0] = count
    return document


@pytest.mark.parametrize("count", [7, 300, 8000])
def test_an_output_of_a_worklist_takes_two_blocks_of_vmem(count):
    document = of_blocks(f"{WORKLIST}_odd", count)
    (out,) = (o for o in kit.plan(document)["operands"] if o["tensor"] == "out")
    assert out["vmem_bytes"] == 2 * 48 * 256 * 4
    assert out["buffers"] == 2


def test_many_blocks_of_a_worklist():
    """Their flags are cleared in a loop."""
    blocks, groups = [0, 299, 150, 299, 0, 257, 150], [0, 9, 5, 9, 0, 8, 5]
    document = of_blocks(f"{WORKLIST}_odd", 300)
    document, arrays = worklist_inputs(document, blocks, groups)
    want = pallasc.reference.run(document, arrays)[0]
    text = kit.emitted("kernel", json.dumps(document)).out
    assert "fori (300) clear()" in text
    found = pallasc.execute.run(text, *arrays)[0]
    simulated = np.asarray(kit.compiled(document).load().grouped_worklist(*arrays, interpret=True))
    for block in blocks:
        np.testing.assert_allclose(found[block], want[block], 1e-4, 1e-5 * want[block].max())
        np.testing.assert_allclose(simulated[block], want[block], 1e-4, 1e-5 * want[block].max())


ADDS = """program p for v6e
input order int32[4]
input x float32[32, 128]
output y float32[8, 128]

kernel k {{
  grid i 4 arbitrary
  in order smem int32[4]
  in x_ref vmem float32[32, 128] of [32, 128] at (0, 0) buffers 2
  out y_ref vmem float32[8, 128] of [8, 128] at (0, 0) buffers 2

  i = program_id dim=0 : int
  at = load order[i] : int32
  row = clamp at, 0, 3 : int32
  %1 = mul row, 8 : int32
  %2 = load x_ref[%1 by 8 +: 8, :] : float32[8, 128]
  {old} = load y_ref[...] : float32[8, 128]
  {new}
  store y_ref[...], sum
}}

host(order, x) {{
  y = launch kernel=0, order, x : float32[8, 128]
  return y
}}
"""


@pytest.mark.parametrize(
    ("new", "skips"),
    [
        ("sum = add %2, old : float32[8, 128]", False),
        ("%3 = ge %2, 0.0 : bool[8, 128]\n  sum = where %3, %2, old : float32[8, 128]", False),
        ("sum = mul %2, 2.0 : float32[8, 128]", True),
        (
            "sum = for k in 3 from 0 carry (all = %2) : float32[8, 128] {\n"
            "    more = add all, %2 : float32[8, 128]\n    yield more\n  }",
            True,
        ),
    ],
)
def test_a_step_that_adds_is_never_left_out(new, skips, tmp_path):
    """What a step finds in an output tells what it stores, unless it puts that back at once."""
    text = ADDS.format(old="old", new=new)
    if skips:
        text = text.replace("  old = load y_ref[...] : float32[8, 128]\n", "")
    path = tmp_path / "adds.kernel"
    path.write_text(text)
    out = kit.accepted(path, "--rewrites=repeats", "--emit=kernel").out
    assert ("when (" in out) == skips
