"""No kernel of a kind that was once predicted too low uses more VMEM than is predicted.

Kernels of graphs in testdata are in tests/unit/test_vmem_measured.c, with the bytes measured.
"""

import importlib.util
import json

import kit
import pytest
import tiles
from pallasc import aot, binding

CHIPS = ("v4", "v5e", "v5p", "v6e", "v7x")


def resized(graph, sizes, **config):
    """A graph of testdata, or such as of_coverage(), with other sizes, {old: new}, as text."""

    def changed(item):
        if isinstance(item, dict):
            return {key: changed(value) for key, value in item.items()}
        if isinstance(item, list):
            return [changed(value) for value in item]
        return sizes.get(item, item) if isinstance(item, int) else item

    document = kit.document(graph) if isinstance(graph, str) else graph
    return json.dumps(changed(document) | {"config": config})


def of_coverage(name):
    """A graph of the coverage."""
    path = kit.ROOT / "testdata" / "coverage" / "graphs" / f"{name}.json"
    return json.loads(path.read_text())


def top_k(**config):
    """The greatest 8 of 128 lanes, as text."""
    return json.dumps(of_coverage("route_tokens_8192_128") | {"config": config})


def bodies(dtype, blocks):
    """Attention in a window of 512, 4096 rows of 128: straight code for each number of steps."""
    text = json.dumps(of_coverage("sliding_attention_8192"))
    for old, new in (("-1023", "-511"), (" 1024]", " 512]"), ("8192", "4096")):
        text = text.replace(old, new)
    document = json.loads(text.replace('"bfloat16"', f'"{dtype}"'))
    return json.dumps(document | {"config": {"block_sizes": blocks}})


PIPELINE = {"pallas_loop_type": "emit_pipeline", "pallas_straight_loops": "off"}
UNROLLED = {"pallas_loop_type": "unroll"}
STEPS = UNROLLED | {"pallas_whole_rows": "off"}
# name: document, the most that may be predicted over what is used
KINDS = {
    # a computed tile waits for a column that is loaded, and what has met one for the next
    "column": (tiles.columns(2048, 4096, "float32", [512, 1024], "mul"), 1.25),
    "column_narrow": (tiles.columns(2048, 4096, "bfloat16", [512, 1024], "mul"), 1.3),
    "column_small": (tiles.columns(512, 4096, "float32", [128, 1024], "mul"), 1.4),
    "two_columns": (tiles.columns(2048, 4096, "float32", [512, 1024], "sub", "mul"), 1.3),
    "two_columns_narrow": (tiles.columns(2048, 4096, "bfloat16", [512, 1024], "sub", "mul"), 1.5),
    "three_columns": (tiles.columns(2048, 4096, "float32", [512, 1024], "sub", "mul", "add"), 1.3),
    # columns that are turned into rows, and rows into columns, are there whole
    "statistic": (tiles.statistic(16, 512, 128, [8, 64]), 2.5),
    "statistic_16": (tiles.statistic(16, 512, 128, [16, 128]), 1.4),
    "statistic_32": (tiles.statistic(32, 1024, 128, [32, 256]), 1.15),
    "statistics_unrolled": (tiles.statistic_in_loop(16, 512, 128, [8, 64], **UNROLLED), 1.4),
    "statistics_unrolled_16": (tiles.statistic_in_loop(16, 512, 128, [16, 128], **UNROLLED), 1.3),
    "column_of_a_loop": (
        resized("neighbours", {256: 16384}, block_sizes=[2048], **PIPELINE),
        1.2,
    ),
    # what the branches of a switch load and store is there whole
    "branches": (resized("add", {512: 1024, 1024: 256}, block_sizes=[320, 200]), 1.2),
    # of unrolled steps, what waits for the second of two columns: that of all steps
    "second_column": (resized("softmax_two_pass", {}, block_sizes=[256, 512], **STEPS), 1.25),
    "second_column_8": (
        resized("softmax_two_pass", {1024: 2048}, block_sizes=[256, 512], **STEPS),
        1.2,
    ),
    # of long chains that end at what comes late, all that is alive at once
    "chain_to_a_sum": (tiles.chain(256, 256, "sum", 4, 12), 1.3),
    "chain_to_a_column": (tiles.chain(256, 256, "column", 8, 6), 1.3),
    "chain_to_an_element": (tiles.chain(256, 256, "element", 4, 2), 1.3),
    "chain_of_many_rows": (tiles.chain(1024, 256, "sum", 8, 4), 1.8),
    "random_to_a_sum": (tiles.chain(256, 256, "sum"), 1.5),
    "random_to_an_element": (tiles.chain(512, 512, "element"), 1.5),
    "call_to_an_element": (tiles.chain(256, 256, "element", call="aten.asinh.default"), 1.5),
    "calls_to_an_element": (tiles.chain(256, 256, "element", call="aten.expm1.default"), 1.5),
    # rows that stand a register each, from which all steps gather by matmuls
    "tables_of_steps": (
        resized(
            of_coverage("chunk_state_4096"),
            {4096: 1024, 16: 4, 80: 2},
            block_sizes=[8, 8, 200],
            **UNROLLED,
        ),
        1.1,
    ),
    # rows that are widened for their sums, and once more on their way into a matmul
    **{
        f"normed_{scaled}_{kept}": (
            tiles.normed_product(512, 2048, 1024, scaled, pallas_grid_invariants=kept),
            most,
        )
        for scaled, most in (("rows", 1.35), ("products", 1.3))
        for kept in ("off", "on")
    },
    # of the greatest few lanes, found one after the other, the tiles that are reduced
    "top_k": (top_k(block_sizes=[256]), 1.45),
}


# what such steps are handed, of all columns that some 256 rows see
BODIES = {
    f"bodies_{dtype}_{blocks[2]}": (bodies(dtype, blocks), 1.6)
    for dtype, blocks in (
        ("bfloat16", [256, 1, 1024]),
        ("bfloat16", [512, 1, 2048]),
        ("float32", [256, 1, 1024]),
    )
}


def wrongly_predicted(kinds, chips):
    """By the real compiler."""
    asked = [(name, chip) for name in kinds for chip in chips]
    modules = [binding.compile(json.loads(kinds[name][0]), None, chip) for name, chip in asked]
    jobs = [
        (module.with_all_vmem(), chip) for module, (_, chip) in zip(modules, asked, strict=True)
    ]
    wrong = []
    for (name, chip), result in zip(asked, aot.compile_many(jobs, timeout=120), strict=True):
        assert (name, chip, result.kind) == (name, chip, "ok"), result.message
        ratio = result.predicted_bytes / result.vmem_bytes
        if not 1 <= ratio <= kinds[name][1]:
            wrong.append(f"{name} on {chip}: {result.vmem_bytes} used, {ratio:.3f} times predicted")
    return "\n".join(wrong)


@pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="needs libtpu")
def test_predicted():
    assert not wrongly_predicted(KINDS, CHIPS)


@pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="needs libtpu")
def test_of_bodies():
    """Chips whose loops are skewed."""
    assert not wrongly_predicted(BODIES, ("v6e", "v7x"))
