"""Which matmuls are computed transposed, what turns with them, and what is left as it stands."""

import copy
import json

import kit
import pytest


def run(graph, blocks=(1, 128, 128), target="v6e", before="inloop_loads", **config):
    """(the document after the pass, what is said of it)."""
    passes, config = f"--passes={before},orient", {"block_sizes": blocks, **config}
    found = kit.emitted("json", graph, passes, target=target, **config)
    return json.loads(found.out), found.err


def turned(graph, blocks=(1, 128, 128)):
    return run(graph, blocks, pallas_transposed_scores="on")


def nodes(document, kind):
    return {node["name"]: node for node in kit.nodes(document, kind)}


def shape(node):
    return node["meta"]["shape"]


def by_target(found, target):
    return [node for node in found.values() if node.get("target") == target]


def references(node):
    return [arg["ref"] for arg in node["args"] if isinstance(arg, dict) and "ref" in arg]


def test_attention_turns_as_a_whole():
    document, said = turned("attention")
    loop, root = nodes(document, "for_loop"), nodes(document, "root")
    assert "orient: 'bmm' is computed transposed" in said
    assert shape(loop["bmm"]) == ["u0", "u2", "u1"]
    assert shape(loop["exp2"]) == ["u0", "u2", "u1"]
    assert loop["amax"]["args"][1:] == [[-2], True]
    for statistic in ("amax", "m_new", "alpha", "l_i_1", "m_i", "l_i"):
        assert shape(loop[statistic]) == ["u0", 1, "u1"], statistic
    assert shape(loop["acc_1_1"]) == shape(loop["acc"]) == ["u0", 128, "u1"]
    assert references(loop["bmm"]) == ["k_turned", "_new_var_turned"]
    assert references(loop["acc_1_1"]) == ["acc_1", "v_turned", "_mask_to_4"]
    # The loop swaps nothing but factors of matmuls, which are read swapped.
    swaps = by_target(loop, "aten.permute.default")
    assert sorted(node["name"] for node in swaps) == ["_new_var_turned", "k_turned", "v_turned"]
    assert not by_target(loop, "tile.subscript")
    # Behind it, the output is turned back once, in float32; lse is a row already.
    assert [node["name"] for node in by_target(root, "aten.permute.default")] == ["div_rows"]
    assert [node["name"] for node in by_target(root, "aten.squeeze.dim")] == ["add_rows"]
    assert [shape(node) for node in by_target(root, "tile.full")] == [
        ["u0", 1, "u1"],
        ["u0", 1, "u1"],
        ["u0", 128, "u1"],
    ]


def test_an_index_along_the_columns_is_made_along_sublanes():
    document, _ = turned("causal_attention")
    loop = nodes(document, "for_loop")
    assert shape(loop["visible"]) == ["u3", "u1"]
    assert [shape(loop[name]) for name in references(loop["visible"])] == [[1, "u1"], ["u3", 1]]
    assert shape(loop["subscript_1"]) == [1, "u3", "u1"]


def test_a_loaded_vector_along_the_columns_is_turned_with_equal_lanes():
    """Ids of segments: each step turns 128 equal rows, as wide as a tile's registers."""
    document, said = turned("segment_attention", (256, 128))
    loop = nodes(document, "for_loop")
    assert "'dot' is computed transposed" in said
    assert shape(loop["dot"]) == ["u5", "u2"]
    rows, columns = (loop[name] for name in references(loop["eq"]))
    assert shape(rows) == [1, "u2"]
    assert columns["target"] == "tile.pre_broadcast_tile"
    assert shape(columns) == ["u5", "u2"]
    (across,) = references(columns)
    assert shape(loop[across]) == ["u5", 128]
    (spread,) = references(loop[across])
    assert shape(loop[spread]) == [128, "u5"]


def test_a_tile_of_128_rows_meets_the_turned_vector_itself():
    document, _ = turned("segment_attention", (128, 128))
    loop = nodes(document, "for_loop")
    assert not by_target(loop, "tile.pre_broadcast_tile")
    assert [shape(loop[name]) for name in references(loop["eq"])] == [[1, "u2"], ["u5", 128]]


def ids_of(dtype):
    """segment_attention with other ids."""
    text = json.dumps(kit.document("segment_attention"))
    return json.loads(text.replace('"int32"', f'"{dtype}"'))


@pytest.mark.parametrize("dtype", ["int16", "uint8"])
def test_narrow_vectors_stay_along_lanes(dtype):
    document, said = turned(ids_of(dtype), (128, 128))
    assert "would be moved from lanes to sublanes in each step" in said
    assert shape(nodes(document, "for_loop")["dot"]) == ["u2", "u5"]


def test_the_turned_document_is_as_good_as_the_first():
    document, _ = turned("causal_attention")
    again, said = turned(document)
    assert "transposed" not in said  # nothing is reduced along rows any more
    assert again["graphs"] == document["graphs"]


def test_off_and_sizes_that_do_not_fill_registers():
    before, _ = run("attention", pallas_transposed_scores="off")
    assert shape(nodes(before, "for_loop")["bmm"]) == ["u0", "u1", "u2"]
    for blocks, why in (
        ((1, 64, 128), "64 rows are no multiple of 128 lanes"),
        ((1, 128, 16), "16 columns are no multiple of 32 sublanes"),
    ):
        document, said = turned("attention", blocks)
        assert why in said
        assert shape(nodes(document, "for_loop")["bmm"]) == ["u0", "u1", "u2"]


def edited(edit):
    document = kit.document("attention")
    edit(next(g["nodes"] for g in document["graphs"] if g["kind"] == "for_loop"))
    return document


def at(found, name):
    return next(i for i, node in enumerate(found) if node["name"] == name)


def add_bias(found):
    """Adds q as a bias to the scores: a tile that comes as it stands."""
    i = at(found, "scores")
    bias = copy.deepcopy(found[at(found, "amax")])
    bias.update(name="bias", args=[{"ref": "q"}, [-1], True])
    bias["meta"] = {"dtype": "bfloat16", "shape": ["u0", "u1", 1]}
    found.insert(i, bias)
    found[i + 1]["target"] = "aten.add.Tensor"
    found[i + 1]["args"] = [{"ref": "bmm"}, {"ref": "bias"}]


def reduce_heads(found):
    """Reduces the probabilities over the rows too."""
    i = at(found, "sum_1")
    extra = copy.deepcopy(found[i])
    extra.update(name="over_rows")
    extra["args"][1] = [-2]
    extra["meta"] = {"dtype": "float32", "shape": ["u0", "u2"]}
    kept = copy.deepcopy(found[i])
    kept.update(name="over_all", target="aten.sum.dim_IntList", args=[{"ref": "over_rows"}, [-1]])
    kept["meta"] = {"dtype": "float32", "shape": ["u0"]}
    wide = copy.deepcopy(found[at(found, "subscript")])
    wide.update(name="over_all_wide", args=[{"ref": "over_all"}, [{"slice": [None] * 3}, None]])
    wide["meta"] = {"dtype": "float32", "shape": ["u0", 1]}
    found[i + 1 : i + 1] = [extra, kept, wide]
    later = found[at(found, "l_i_1")]
    later["args"] = [{"ref": "mul_1"}, {"ref": "over_all_wide"}]


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (add_bias, "'q' would be transposed in each step"),
        (reduce_heads, "'over_rows' wants it as it was, in the loop"),
    ],
)
def test_what_speaks_against_it(edit, why):
    document, said = turned(edited(edit))
    assert why in said, said
    assert shape(nodes(document, "for_loop")["bmm"]) == ["u0", "u1", "u2"]


@pytest.mark.parametrize(("chip", "on"), [("v7x", True), ("v5e", False)])
def test_auto_is_the_chips(chip, on):
    document, _ = run("attention", target=chip)
    assert (shape(nodes(document, "for_loop")["bmm"]) == ["u0", "u2", "u1"]) == on


@pytest.mark.parametrize("name", ["attention_dkdv", "causal_attention_dkdv"])
def test_loaded_vectors_of_rows_turn_their_tile_and_swaps_of_it_vanish(name):
    """lse and delta lie in lanes: as columns they would be transposed in each step."""
    document, said = turned(name)
    loop = nodes(document, "for_loop")
    assert "orient: 'scores' is computed transposed" in said
    for value in ("scores", "dp", "exp2", "ds"):
        assert shape(loop[value]) == ["u0", "u1", "u3"], value
    for value in ("subscript", "subscript_1"):
        assert value not in loop
    rows = [node for name, node in loop.items() if name.startswith("load") and "_lanes" in name]
    assert [shape(node) for node in rows] == [["u0", 1, "u3"]] * 2
    # What was wanted swapped stands so; dk and dv themselves stay as they were.
    assert "permute_1" not in loop and "permute_3" not in loop
    assert shape(loop["dv_acc_1"]) == shape(loop["dk_acc_1"]) == ["u0", "u1", 128]


def test_vectors_that_do_not_move_with_the_loop_turn_it_too():
    document, said = turned("attention_dq")
    loop, root = nodes(document, "for_loop"), nodes(document, "root")
    assert "orient: 'scores' is computed transposed" in said
    assert shape(loop["lse_m_lanes"]) == ["u0", 1, "u1"]
    assert shape(loop["acc_1"]) == ["u0", 128, "u1"]
    assert [node["name"] for node in by_target(root, "aten.permute.default")] == ["_phi_rows"]


def test_a_small_product_of_a_turned_tile_is_turned_back_in_each_step():
    """dq's part is [256, 128] of a tile of [256, 512]; of one of [256, 256] it is no small one."""
    document, said = turned("attention_backward_8192", [1, 512, 256])
    loop = nodes(document, "for_loop")
    assert "orient: 'scores' is computed transposed" in said
    assert shape(loop["ds"]) == ["u0", "u1", "u3"] and shape(loop["part"]) == ["u0", 128, "u3"]
    back = loop["part_rows"]
    assert back["args"] == [{"ref": "part"}, [0, 2, 1]] and shape(back) == ["u0", "u3", 128]
    assert references(loop["atomic_add"])[-1] == "part_rows"
    _, said = turned("attention_backward_8192", [1, 256, 256])
    assert "'atomic_add' wants it as it was, in the loop" in said


@pytest.mark.parametrize(("name", "on"), [("attention_dkdv", True), ("attention_dq", False)])
def test_a_small_mxu_turns_what_is_only_wanted_swapped(name, on):
    """dq would be turned back at each grid point, with nothing saved in its matmul."""
    _, said = run(name, target="v5e")
    assert ("'scores' is computed transposed" in said) == on, said


def test_a_float16_load_is_turned_once_it_is_float32():
    """No chip turns float16: what is loaded as such is widened first."""
    graph = kit.text("attention_dkdv").replace("bfloat16", "float16")
    found = kit.emitted("json", graph, target="v6e", block_sizes=[1, 128, 128])
    document = json.loads(found.out)
    assert "'scores' is computed transposed" in found.err
    swaps = by_target(nodes(document, "root") | nodes(document, "for_loop"), "aten.permute.default")
    assert swaps and {node["meta"]["dtype"] for node in swaps} == {"float32"}


@pytest.mark.parametrize(
    ("blocks", "loop", "turned"),
    [
        ((1, 512, 1024), "fori_loop", True),
        ((1, 2048, 1024), "fori_loop", True),
        ((1, 512, 2048), "fori_loop", False),
        ((1, 256, 1024), "fori_loop", False),
        ((1, 512, 1024), "unroll", True),
        ((1, 1024, 1024), "unroll", False),
    ],
)
def test_a_large_mxu_turns_what_it_works_ahead_of(blocks, loop, turned):
    """In a loop many rows of at most 1024 columns, in straight code tiles of at most 2 MiB."""
    config = {"block_sizes": list(blocks), "pallas_wide_blocks": "off", "pallas_loop_type": loop}
    config |= {"pallas_fenced_steps": "off", "pallas_narrow_steps": "off"}
    found = kit.emitted("none", "attention_b8_h32_s8192_d256", "--explain", target="v6e", **config)
    assert ("'bmm' is computed transposed" in found.err) == turned


# ---- sums of few columns -------------------------------------------------------------------------


def backward(graph="attention_dkdv", blocks=(1, 128, 128), **config):
    """The loop of attention's backward after the pass, and what is said."""
    before = "const_fold,cse,dce,inloop_loads"
    document, said = run(kit.document(graph), blocks, before=before, **config)
    return nodes(document, "for_loop"), said


def test_sums_of_few_columns_are_turned_and_scores_stand():
    loop, said = backward(blocks=(1, 256, 256))
    assert "'scores' leaves the MXU to sums of its swap, which are turned" in said
    assert "'dv_acc_1' is computed transposed" in said and "fills the MXU" in said
    assert shape(loop["scores"]) == shape(loop["dp"]) == ["u0", "u3", "u1"]
    for name in ("dv_acc", "dk_acc", "dv_acc_1", "dk_acc_1"):
        assert shape(loop[name]) == ["u0", 128, "u1"], name
    # The factor is the tile that was swapped.
    assert not [n for n in by_target(loop, "aten.permute.default") if n["name"] == "permute_1"]


def test_sums_stay_where_they_are_wide_or_scores_turn():
    loop, said = backward(blocks=(1, 256, 256), pallas_transposed_sums="off")
    assert "'scores' is computed transposed" in said
    assert shape(loop["dv_acc_1"]) == ["u0", "u1", 128]
    loop, said = backward(blocks=(1, 256, 256), pallas_transposed_scores="on")
    assert "'scores' is computed transposed" in said
    assert shape(loop["dv_acc_1"]) == ["u0", "u1", 128]
    # 128 rows fill no more of the MXU than 128 columns do.
    loop, said = backward(pallas_transposed_scores="off")
    assert "'dv_acc_1' is a sum that fills the MXU as it stands" in said
    loop, said = backward(pallas_transposed_scores="off", pallas_transposed_sums="on")
    assert shape(loop["dv_acc_1"]) == ["u0", 128, "u1"]


@pytest.mark.parametrize("switch", ["auto", "off"])
@pytest.mark.parametrize("graph", ["dkdv", "backward"])
def test_in_a_loop_of_computed_bounds_scores_leave_nothing_to_sums(graph, switch):
    before = "const_fold,loop_types,cse,dce,inloop_loads"
    document = kit.document(f"causal_attention_{graph}")
    _, said = run(document, (1, 256, 256), before=before, pallas_transposed_sums=switch)
    assert "leaves the MXU to sums of its swap" not in said


def test_both_switches_off():
    loop, said = backward(pallas_transposed_scores="off", pallas_transposed_sums="off")
    assert "pallas_transposed_scores and pallas_transposed_sums are off" in said
    assert shape(loop["dv_acc_1"]) == ["u0", "u1", 128]
