"""What a module tells of its cost: KERNEL_INFO, the estimate given to XLA, and the text without."""

import json

import kit
import numpy as np
import pytest
from pallasc import aot, chips
from pallasc.module import Module, kernel_text, vmem_limits
from pallasc.profile.run import code_of

GRAPHS = sorted(path.stem for path in kit.GRAPHS.glob("*.json"))
MIB = 1 << 20
ROOTS = "layer_norm_bwd_two_level_odd"


def calls(source):
    """The cost estimates of a module's calls: dicts."""
    found = []
    for part in source.split("cost_estimate=pl.CostEstimate(")[1:]:
        items = [item.split("=") for item in part.partition(")")[0].split(",") if "=" in item]
        found.append({name.strip(): int(number) for name, number in items})
    return found


@pytest.mark.parametrize("graph", GRAPHS)
def test_parts_are_those_of_the_plan(graph):
    module = kit.compiled(graph)
    info, plan = module.info, module.plan
    assert info["vmem"] == {owner: plan["vmem"][owner] for owner in info["vmem"]}
    assert sum(info["vmem"].values()) == info["vmem_bytes"] == plan["vmem"]["total"]
    estimate = dict(info["estimate"])
    assert estimate.pop("seconds") == round(plan["estimate"]["seconds"], 9)
    assert estimate == {part: plan["estimate"][part] for part in estimate}
    parts = "cycles mxu vector xlu eup load store hbm waits start"
    assert list(estimate) == parts.split()


@pytest.mark.parametrize("graph", GRAPHS)
def test_each_call_costs_what_the_plan_counts(graph):
    module = kit.compiled(graph)
    plan, found = module.plan, calls(module.source)
    kernels = plan.get("kernels", [plan])
    assert len(found) in (0, len(kernels))
    for cost, kernel in zip(found, kernels, strict=False):
        assert cost["bytes_accessed"] == round(kernel["hbm_bytes"])
        assert cost["flops"] >= kernel["flops"]
        assert (cost["transcendentals"] > 0) >= (plan["estimate"]["eup"] > 4)


def test_costs_of_pointwise_ops():
    """512 x 1024 sums of float32; of a softmax an exp and a reciprocal for each."""
    [add] = calls(kit.compiled("add").source)
    assert add == {"flops": 512 * 1024, "transcendentals": 0, "bytes_accessed": 3 * 4 * 512 * 1024}
    module = kit.compiled("softmax")
    rows, columns = module.info["inputs"][0]["shape"]
    [softmax] = calls(module.source)
    assert softmax["transcendentals"] == 2 * rows * columns


def test_costs_of_loops():
    """Of bounds that follow from the grid's place the mean; none where data say the bounds."""
    module = kit.compiled("causal_attention")
    [cost] = calls(module.source)
    (q,) = (item["shape"] for item in module.info["inputs"] if item["name"] == "q_in")
    dense = 4 * q[0] * q[1] * q[2] ** 2 * q[3]
    assert module.info["flops"] == dense * 10 / 16  # 1 to 4 of 4 tiles
    assert module.info["flops"] < cost["flops"] < 1.1 * module.info["flops"]
    for graph in ("jagged_sum", "grouped_worklist_odd", "paged_decode"):
        module = kit.compiled(graph)
        assert (calls(module.source), module.info["estimate"]["cycles"] > 0) == ([], True)


@pytest.mark.parametrize("rows, columns", [(64, 128), (128, 128), (64, 256)])
def test_costs_of_a_sliding_window(rows, columns):
    """Steps are counted at each place of the grid: of `begin` and `end` that are no sums, too."""
    config = {"block_sizes": [columns, 1, rows], "pallas_loop_type": "fori_loop"}
    module = kit.compiled("sliding_attention", **config)
    heads, length, width, window = 2, 512, 128, 128
    steps = 0
    for begin in range(0, length, rows):
        first = max(begin - window + 1, 0) // columns * columns
        steps += -(-(begin + rows - first) // columns)
    assert module.info["flops"] == heads * steps * 4 * rows * columns * width


def test_costs_of_the_last_rows():
    """421 rows of causal attention: 1, 1, 2 and 2 steps, each whole."""
    config = {"block_sizes": [1, 128, 256], "pallas_loop_type": "fori_loop"}
    module = kit.compiled("causal_attention_b1_h2_s421_d64", **config)
    assert module.info["flops"] == 2 * 6 * 4 * 128 * 256 * 64


@pytest.mark.parametrize("clock, told", [(1e6, True), (1e12, False)])
def test_an_estimate_is_of_cycles_that_can_be_counted(clock, told):
    """Of 4e9 seconds: of more cycles than an int64 holds nothing is told."""
    slow = json.dumps({"base": "v6e", "name": "slow", "clock_hz": clock, "hbm_bytes_per_s": 1})
    module = kit.compiled("attention_b8_h32_s8192_d256", slow)
    assert ("estimate" in module.info) == told
    if told:
        assert module.info["estimate"]["cycles"] == module.plan["estimate"]["cycles"] > 4e15
    assert (module.info["vmem"]["windows"] > 0, len(calls(module.source))) == (True, 1)


def test_the_kernels_text_is_without_what_is_told():
    """Neither other estimates nor none change what results are kept by; all else does."""
    source = kit.compiled("attention").source
    text = kernel_text(source)
    assert "cost_estimate" not in text and "vmem_bytes" not in text
    assert '"config"' not in text and '"estimate"' not in text
    assert '"inputs"' in text and '"compiler"' in text
    [cost] = calls(source)
    other = source.replace(f"flops={cost['flops']}", "flops=1")
    other = other.replace('"cycles": ', '"cycles": 1').replace('"windows": ', '"windows": 1')
    bare = source.replace(source[source.index("        cost_estimate") :].partition("),\n")[0], "@")
    bare = bare.replace("@),\n", "")
    assert len({source, other, bare}) == 3 and "cost_estimate" not in bare
    for told in (other, bare):
        assert (kernel_text(told), code_of(told)) == (text, code_of(source))
        assert aot.cache_key(told, "v6e") == aot.cache_key(source, "v6e")
    changed = source.replace('"parallel"', '"arbitrary"')
    assert kernel_text(changed) != text and code_of(changed) != code_of(source)


def test_what_is_asked_of_vmem_decides_only_whether_it_is_taken():
    source = kit.compiled("attention").source
    [asked] = vmem_limits(source)
    less = source.replace(f"vmem_limit_bytes={asked}", f"vmem_limit_bytes={asked - 1}")
    assert vmem_limits(less) == [asked - 1]
    assert (kernel_text(less), code_of(less)) == (kernel_text(source), code_of(source))
    assert aot.cache_key(less, "v6e") != aot.cache_key(source, "v6e")
    assert vmem_limits(kernel_text(source)) == [chips.VMEM_BYTES["v6e"]]


@pytest.mark.parametrize("graph", ["attention", "add", "attention_b8_h32_s8192_d256"])
@pytest.mark.parametrize("chip", ["v6e", "v7x"])
def test_a_kernel_asks_for_what_it_needs_and_room(graph, chip):
    """In whole MiB, and no more than there is; a kernel of a graph has its own."""
    module = kit.compiled(graph, chip)
    vmem = module.plan["vmem"]
    needed = 2 * vmem["total"] + 4 * MIB
    assert vmem["asked"] == min(-(-needed // MIB) * MIB, vmem["limit"])
    assert vmem_limits(module.source) == [vmem["asked"]]
    small = kit.accepted(kit.path(graph), f"--target={chip}", f"--vmem={vmem['total'] + 9}").out
    assert vmem_limits(small) == [vmem["total"] + 9]


def test_a_module_with_costs_runs_in_simulation():
    module = kit.compiled("add")
    assert calls(module.source)
    x, y = np.random.default_rng(0).standard_normal((2, 512, 1024), np.float32)
    assert np.array_equal(module.load()(x, y, interpret=True), x + y)


def test_kernel_text_tells_the_same(tmp_path):
    """It is read back to the same module; without the lines the module tells nothing."""
    path = tmp_path / "softmax.kernel"
    text = kit.accepted(kit.path("softmax"), "--emit=kernel").out
    path.write_text(text)
    source = kit.accepted(path).out
    assert source == kit.compiled("softmax").source
    words = ("vmem ", "estimate ", "  cost_estimate ")
    lines = [line for line in text.splitlines() if not line.startswith(words)]
    assert len(lines) == len(text.splitlines()) - 3
    path.write_text("\n".join([*lines, ""]))
    module = Module(kit.accepted(path).out)
    assert calls(module.source) == [] and not {"vmem", "estimate"} & module.info.keys()
    assert kernel_text(module.source) == kernel_text(source)


@pytest.mark.parametrize(
    "line, message",
    [
        ("vmem windows", "expected a number"),
        ("vmem windows 1\nvmem windows 1", "this one was there already"),
        ("estimate 3 3", "expected the name of a part"),
        ('estimate "a b" 3', "expected the name of a part"),
        (
            "estimates cycles 3",
            "expected input, output, config, sizes, axes, cost, vmem, estimate, kernel or host",
        ),
    ],
)
def test_refused_lines(line, message, tmp_path):
    path = tmp_path / "add.kernel"
    text = kit.accepted(kit.path("add"), "--emit=kernel").out
    kept = [row for row in text.splitlines() if not row.startswith(("vmem ", "estimate "))]
    place = next(number for number, row in enumerate(kept) if row.startswith("cost "))
    path.write_text("\n".join([*kept[: place + 1], line, *kept[place + 1 :], ""]))
    assert message in kit.refused(1, path)


@pytest.mark.parametrize(
    "line, message",
    [
        ("cost_estimate flops 1 transcendentals 0", "expected 'bytes'"),
        ("cost_estimate flops -1 transcendentals 0 bytes 0", "the operations must be from 0"),
        ("cost_estimate 1", "expected 'flops'"),
    ],
)
def test_refused_costs(line, message, tmp_path):
    path = tmp_path / "add.kernel"
    rows = kit.accepted(kit.path("add"), "--emit=kernel").out.splitlines()
    rows = [f"  {line}" if row.startswith("  cost_estimate") else row for row in rows]
    path.write_text("\n".join([*rows, ""]))
    assert message in kit.refused(1, path)
