"""whole_rows: loops over the columns of rows become the rows whole, and when they do not."""

import kit
import pytest
import simulated
from pallasc import aot

ON = {"pallas_whole_rows": "on"}
LONG = "softmax_two_pass_4096_32768"
# Of testdata/coverage/graphs and testdata/graphs, with blocks of which several are in a row.
JOINED = {
    "softmax_two_pass": [128, 32],
    "softmax_bwd": None,
    "f16_softmax": None,
    "jsd": None,
    "kl_div": None,
    "long_sum": None,
    "long_extremes": None,
}


def on(name):
    blocks = JOINED[name]
    return {**ON, **({"block_sizes": blocks} if blocks else {})}


def loops(document):
    return [g for g in document["graphs"] if g["kind"] != "root"]


def online(found, name):
    """The node of that name in a document's first graph."""
    return next(n for n in kit.nodes(found, "for_loop") if n["name"] == name)


@pytest.mark.parametrize("name", JOINED)
def test_no_loop_is_left(name):
    assert loops(kit.document(name))
    assert loops(kit.after("const_fold,whole_rows", name, **on(name))) == []
    assert kit.plan(name, **on(name))["loops"] == []


@pytest.mark.parametrize("name", JOINED)
def test_right(name):
    assert simulated.wrong(kit.document(name), on(name), adversarial="last_row", seed=2) == []


def test_what_both_loops_compute_is_one_node():
    found = kit.after("const_fold,whole_rows,cse,dce", "softmax_two_pass", **on("softmax_two_pass"))
    assert kit.targets(found).count("tile.load") == 1
    exponentials = kit.targets(found).count("aten.exp.default")
    assert exponentials == 2  # of the values, and of the maximum before
    (load,) = [n for n in kit.nodes(found) if n.get("target") == "tile.load"]
    assert load["args"][1][1] == {"slice": [None, None, None]}
    assert load["meta"]["shape"][1] == 1024


def test_auto_joins_long_rows_and_takes_fewer_of_them():
    found = kit.emitted("plan", LONG, target="v7x")
    plan = kit.plan(LONG, "v7x")
    assert plan["loops"] == []
    assert plan["grid"][0]["steps"] == 64  # of 64 rows, where the configuration says 128
    assert plan["config"]["block_sizes"] == kit.document(LONG)["config"]["block_sizes"]
    assert "tiles of 64, not 128: its rows are computed whole, fewer at a time" in found.err
    assert "whole rows in their place" in found.err
    off = kit.plan(LONG, "v7x", pallas_whole_rows="off", pallas_straight_loops="off")
    assert len(off["loops"]) == 2
    assert plan["estimate"]["cycles"] < 0.75 * off["estimate"]["cycles"]


def test_auto_leaves_small_blocks():
    config = {"block_sizes": [128, 32]}
    assert len(kit.plan("softmax_two_pass", **config)["loops"]) == 2
    assert kit.plan("softmax_two_pass", **config, **ON)["loops"] == []


# What is not joined: what is changed in the document of softmax_two_pass.


def double(found):
    """The sum is scaled by something else than what the maximum has grown by."""
    online(found, "scaled_sum")["args"][1] = {"ref": "new_max"}


def read(found):
    """What a step has so far is stored."""
    second = [g for g in found["graphs"] if g["kind"] == "for_loop"][1]
    store = next(n for n in second["nodes"] if n.get("target") == "tile.store")
    first = next(g for g in found["graphs"] if g["kind"] == "for_loop")
    host = next(n for n in second["nodes"] if n["name"] == "out")
    operands = [{"ref": "values"}, {"ref": "subscript"}]
    wide = {"name": "so_far", "target": "aten.sub.Tensor", "args": operands}
    wide["meta"] = online(found, "exp_1")["meta"]
    so_far = {**store, "name": "store_so_far", "args": [*store["args"][:2], {"ref": "so_far"}]}
    first["nodes"][-1:-1] = [dict(host), wide, so_far]


def start(found):
    """The loops start behind the first column."""
    for node in kit.nodes(found, "root"):
        if node.get("target") == "tile.for_loop":
            node["args"][1] = [512]


def product(found):
    """A product is carried."""
    online(found, "row_sum_1")["target"] = "aten.mul.Tensor"


@pytest.mark.parametrize("change", [double, read, start, product])
def test_what_whole_rows_do_not_give_stays(change):
    found = kit.document("softmax_two_pass")
    change(found)
    assert len(loops(kit.after("const_fold,whole_rows", found, **ON))) == 2


@pytest.mark.parametrize("name", ["softmax_two_pass_odd", "cross_entropy_online", "attention"])
def test_other_loops_stay(name):
    """Columns that are no whole registers; a loop that asks where its tile starts; a matmul."""
    assert loops(kit.after("const_fold,whole_rows", name, **ON))


def test_the_tpu_compiler_takes_it():
    jobs = [(kit.compiled(LONG, chip), chip) for chip in ("v5e", "v7x")]
    jobs.append((kit.compiled(LONG, "v6e", pallas_straight_loops="off"), "v6e"))
    jobs.append((kit.compiled("softmax_bwd_4096_8192", "v7x"), "v7x"))
    for (module, _chip), result in zip(jobs, aot.compile_many(jobs, timeout=300), strict=True):
        assert (result.kind, result.message) == ("ok", "")
        assert module.plan["loops"] == []
        assert 0 < result.vmem_bytes <= module.plan["vmem"]["total"]
