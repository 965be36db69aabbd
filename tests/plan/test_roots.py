"""Several root graphs: a kernel for each, in order, each given what the earlier ones stored."""

import json
import re

import kit
import pytest
from kit import document
from pallasc.errors import CompileError
from simulated import wrong

GRAPHS = ("roots_shared_block", "roots_written_twice", "roots_gradient_step")


def roles(kernel):
    """{tensor or scalar: roles of its operands, in order} of a kernel of the plan."""
    found = {}
    for operand in kernel["operands"]:
        found.setdefault(operand["tensor"] or operand["scalar"], []).append(operand["role"])
    return found


@pytest.mark.parametrize("graph", [g + odd for g in GRAPHS for odd in ("", "_odd")])
@pytest.mark.parametrize("rows", [32, 128])
def test_right(graph, rows):
    """What a later root loads is what the earlier ones stored."""
    sizes = [rows, *document(graph)["config"]["block_sizes"][1:]]
    for adversarial in (None, "last_row", "last_col", "past_edge"):
        assert not wrong(document(graph), {"block_sizes": sizes}, adversarial=adversarial)


def test_scratch_between_two_kernels():
    """A tensor that is not returned: an output of one kernel, an input of the next."""
    plan = kit.plan("roots_shared_block")
    assert [k["name"] for k in plan["kernels"]] == ["shared_block_0", "shared_block_1"]
    assert roles(plan["kernels"][0]) == {"x": ["input"], "tmp": ["output"]}
    assert roles(plan["kernels"][1]) == {"tmp": ["input"], "y": ["input"], "out": ["output"]}
    assert [k["grid"][0]["steps"] for k in plan["kernels"]] == [4, 4]


def test_output_of_two_kernels():
    """The second changes what the first made: it takes it in, and columns it leaves alone stay."""
    plan = kit.plan("roots_written_twice")
    assert roles(plan["kernels"][1]) == {"out": ["input", "output"]}


def test_grids_of_their_own():
    """Each kernel has its grid, and the scalars that its root reads."""
    module = kit.compiled("roots_gradient_step")
    first, second = module.plan["kernels"]
    assert [d["name"] for d in first["grid"]] == ["tile_m"]
    assert [d["name"] for d in second["grid"]] == ["tile_n"]
    assert roles(first) == {"g": ["input"], "sums": ["output"]}
    assert roles(second) == {"rate": ["input"], "sums": ["input"], "w": ["input", "output"]}
    assert len(re.findall(r"call = _pallas_call\(", module.source)) == 2


def test_totals():
    """VMEM is that of the kernel that takes most; traffic adds up."""
    module = kit.compiled("roots_shared_block")
    kernels, plan = module.plan["kernels"], module.plan
    assert plan["vmem"]["total"] == max(k["vmem"]["total"] for k in kernels)
    assert plan["hbm_bytes"] == sum(k["hbm_bytes"] for k in kernels)
    assert module.info["vmem_bytes"] == plan["vmem"]["total"]
    assert module.info["hbm_bytes"] == plan["hbm_bytes"]


def test_report_and_remarks():
    """The report has a part for each kernel; a remark says whose it is."""
    _, report, remarks = kit.emitted("report", "roots_shared_block")
    assert report.startswith("shared_block: 2 kernels, one after the other; the largest takes ")
    assert report.count("Configuration\n") == 1
    assert "shared_block_0 for v6e" in report and "shared_block_1 for v6e" in report
    assert "plan of shared_block_1: " in remarks


def test_refusal_says_which():
    """A kernel that does not fit is named."""
    wide = document("roots_shared_block")
    text = json.dumps(wide).replace("256", "65536")
    with pytest.raises(CompileError, match=r"shared_block_1 needs .* bytes of VMEM"):
        config = {"block_sizes": [65536], "pallas_row_split": "off"}
        kit.compiled(json.loads(text), **config)


def test_every_kernel_is_refused():
    """What is wrong with one root does not hide what is wrong with another."""
    text = json.dumps(document("roots_shared_block"))
    text = text.replace("aten.mul.Tensor", "aten.bitwise_not.default").replace(", 2.0]", "]")
    broken = json.loads(text)
    for graph in broken["graphs"]:
        for node in graph["nodes"]:
            if node.get("target", "").startswith("aten"):
                node["target"], node["args"] = "aten.digamma.default", [node["args"][0]]
    with pytest.raises(CompileError) as error:
        kit.compiled(broken)
    assert str(error.value).count("aten.digamma.default of float32 does not compile") == 2


def test_default_blocks():
    """Sizes that nobody chose are the same for all kernels."""
    found = document("roots_shared_block")
    found["config"] = {}
    plan = kit.plan(found)
    assert [k["grid"][0]["steps"] for k in plan["kernels"]] == [
        -(-256 // plan["config"]["block_sizes"][0])
    ] * 2


def test_buffer_counts():
    """pallas_load_buffer_count counts the document's inputs, whatever a kernel takes in besides."""
    plan = kit.plan("roots_shared_block", pallas_load_buffer_count=[1, 2])
    buffers = {o["ref"]: o["buffers"] for k in plan["kernels"] for o in k["operands"]}
    assert buffers["x_ref"] == 1 and buffers["y_ref"] == 2


def test_row_split():
    """A pass over roots changes each of them."""
    config = {"pallas_row_split": "on"}
    plan = kit.plan("roots_shared_block", **config)
    assert [len(k["loops"]) for k in plan["kernels"]] == [1, 1]
    assert not wrong(document("roots_shared_block"), config)
