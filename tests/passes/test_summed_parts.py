"""pallas_summed_parts: rows of grid points that are returned as their sum, summed in the kernel."""

import kit
import numpy as np
import pytest
import simulated
from pallasc import aot, judge, reference

SUM = ["aten.sum.dim_IntList", [0]]
ROUNDED = ["prims.convert_element_type.default", {"dtype": "bfloat16"}]
ROWS = {"block_sizes": [64]}


def document(*ops):
    """rms_norm_bwd, of 256 rows, whose second result is made by `ops`."""
    found = kit.document("rms_norm_bwd")
    found["returns"][1]["ops"] = list(ops)
    return found


def tensor(found, name="dweight"):
    return next(item for item in found["tensors"] if item["name"] == name)


def node(found, target):
    return next(item for item in kit.nodes(found) if item.get("target") == target)


def summed(found, **config):
    """What the pass alone makes of it; None: it stays as it is."""
    after = kit.after("summed_parts", found, **config)
    return after if "tile.atomic_add" in kit.targets(after) else None


def test_a_row_of_each_point_is_added():
    after = summed(document(SUM))
    assert tensor(after)["shape"] == [512]
    assert (tensor(after)["dtype"], tensor(after)["init"]) == ("float32", 0)
    assert after["returns"][1] == {"tensor": "dweight"}
    assert node(after, "tile.atomic_add")["args"] == [
        {"ref": "dweight"},
        [{"slice": [None, None, None]}],
        {"ref": "sum_1"},
    ]
    told = kit.emitted("plan", document(SUM)).err
    assert "summed_parts: dweight: the kernel sums its rows, one of each grid point" in told


def test_a_sum_that_is_rounded_is_rounded_in_the_kernel():
    after = summed(document(SUM, ROUNDED))
    assert tensor(after)["dtype"] == "bfloat16"
    assert after["returns"][1] == {"tensor": "dweight"}
    half = summed(document(SUM, ["prims.convert_element_type.default", {"dtype": "float16"}]))
    assert tensor(half)["dtype"] == "float32"
    assert len(half["returns"][1]["ops"]) == 1


def test_what_follows_the_sum_stays():
    after = summed(document(SUM, ["aten.mul.Tensor", 0.5]))
    assert after["returns"][1]["ops"] == [["aten.mul.Tensor", 0.5]]


@pytest.mark.parametrize(("chip", "sums"), [("v4", 0), ("v5p", 0), ("v5e", 1), ("v7x", 1)])
def test_where_cores_share_the_grid_each_has_its_own_parts(chip, sums):
    assert kit.compiled(document(SUM), chip).source.count("def first_visit") == sums
    on = kit.compiled(document(SUM), chip, pallas_summed_parts="on").source
    off = kit.compiled(document(SUM), chip, pallas_summed_parts="off").source
    assert (on.count("def first_visit"), off.count("def first_visit")) == (1, 0)


def test_a_mesh_has_parts_of_its_own():
    found = kit.run("-", "--mesh=a=2", "--shard=block_m=a", "--explain", text=document(SUM))
    assert (found.status, "summed_parts" in found.err) == (0, False)


def parts_are_returned(found):
    found["returns"].append({"tensor": "dweight"})


def another_dtype(found):
    tensor(found)["dtype"] = "bfloat16"
    node_of(found)["meta"]["dtype"] = "bfloat16"


def node_of(found):
    return next(n for n in kit.nodes(found) if n["name"] == "dweight")


def masked(found):
    """The first rows alone."""
    store = next(n for n in kit.nodes(found) if n["name"] == "store")
    nodes = found["graphs"][0]["nodes"]
    mask = {
        "name": "few",
        "target": "aten.lt.Scalar",
        "args": [{"ref": "sum_1"}, 0.5],
        "meta": {"dtype": "bool", "shape": [512]},
    }
    nodes.insert(nodes.index(store), mask)
    store["args"].append({"ref": "few"})


def some_columns(found):
    store = next(n for n in kit.nodes(found) if n["name"] == "store")
    store["args"][1][1] = {"slice": [0, 512, None]}
    store["args"][1][0] = 0


STAYS = {
    "parts that are returned": (parts_are_returned, [SUM]),
    "another dtype": (another_dtype, [SUM]),
    "a mask": (masked, [SUM]),
    "always the same row": (some_columns, [SUM]),
    "kept dims": (None, [["aten.sum.dim_IntList", [0], True]]),
    "other dims": (None, [["aten.sum.dim_IntList", [1]]]),
    "all dims": (None, [["aten.sum.dim_IntList", [0, 1]]]),
    "no sum": (None, [["aten.amax.default", [0]]]),
    "something before it": (None, [["aten.mul.Tensor", 0.5], SUM]),
}


@pytest.mark.parametrize("why", STAYS)
def test_others_stay(why):
    change, ops = STAYS[why]
    found = document(*ops)
    if change:
        change(found)
    assert summed(found, pallas_summed_parts="on") is None


@pytest.mark.parametrize("graph", ["rms_norm_bwd_odd", "layer_norm_bwd_odd"])
@pytest.mark.parametrize("rows", [16, 40, 512])
@pytest.mark.parametrize("way", ["", "row_split", "column_strips", "reduction_loops"])
def test_it_is_right(graph, rows, way):
    found = {"block_sizes": [rows]}
    found |= {f"pallas_{way}": "on"} if way in ("row_split", "column_strips") else {}
    found |= {"reduction_loops": [128]} if way == "reduction_loops" else {}
    if way == "row_split" and rows == 40:
        found["block_sizes"] = [48]
    assert simulated.wrong(kit.document(graph), found, seed=rows) == []


def test_the_graph_after_the_pass_means_the_same():
    """But for the sum's order; what is rounded is so at each of 4 points, in the kernel once."""
    for ops, bound in (([SUM], 2.0**-22), ([SUM, ROUNDED], 4 * 2.0**-8)):
        found = document(*ops)
        arrays = judge.make_arguments(found, 0, None, None, ROWS)
        was, now = (reference.run(d, arrays, config=ROWS)[1] for d in (found, summed(found)))
        assert was.dtype == now.dtype
        far = np.abs(was.astype(np.float32) - now.astype(np.float32))
        largest = np.abs(was.astype(np.float32)).max()
        assert far.max() <= bound * largest


@pytest.mark.parametrize("chip", ["v5e", "v6e", "v7x"])
def test_the_tpu_compiler_takes_it(chip):
    large = {**kit.document("rms_norm_bwd_4096_8192"), "config": {}}
    modules = [kit.compiled(large, chip, block_sizes=[128])]
    modules += [kit.compiled(document(SUM, ROUNDED), chip, **ROWS)]
    modules += [kit.compiled("layer_norm_bwd_odd", chip, block_sizes=[rows]) for rows in (40, 64)]
    jobs = [(module, chip) for module in modules]
    for module, result in zip(modules, aot.compile_many(jobs, timeout=240), strict=True):
        assert (result.kind, result.message) == ("ok", "")
        assert 0 < result.vmem_bytes <= module.plan["vmem"]["total"]
