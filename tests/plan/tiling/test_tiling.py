"""The rules for how arrays are cut: obeyed by the planner, no more and no less."""

import importlib.util
import json
import sys
import zlib
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import kit  # noqa: E402
import proof  # noqa: E402
import tiling_kernels as kernels  # noqa: E402
import tiling_page as page  # noqa: E402
import tiling_probe as probe  # noqa: E402
from beside import beside  # noqa: E402
from builder import Doc, G, dt, f32, sym, t  # noqa: E402
from pallasc.aot import compile_many, compile_one  # noqa: E402
from pallasc.errors import CompileError  # noqa: E402

needs_libtpu = pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="needs libtpu")
TARGETS = ("v4", "v5e", "v5p", "v6e", "v7x")
ROWS = 960
# Asks for nothing: what is refused under the real target is printed under this one.
LENIENT = {
    use: {kind: [1, 1, 1, 1] for kind in ("wide", "narrow")}
    for use in ("block", "copy", "clipped", "slice", "copy_out", "slice_out")
}


# Their stores start at computed rows.
CUT_OUT = ("dispatch_4096_1024", "grouped_int8_8192_1024", "jagged_softmax_8192_256")


def test_smallest():
    for answer in (1, 2, 8, 64):
        asked = []
        taken = lambda m, answer=answer, asked=asked: asked.append(m) or m >= answer  # noqa: E731
        assert probe.smallest(64, taken) == answer
        assert len(asked) <= 5
        asked.clear()
        assert probe.smallest(64, taken, answer) == answer
        assert len(asked) <= 2
        assert probe.smallest(64, taken, 16) == answer
    assert probe.smallest(64, lambda m: False) is None


def column_sums(dtype, width):
    """out[w] = sum of x[:, w] over steps of rows: what the loop reads is cut in rows."""
    doc = Doc(name="column_sums").block(width, "w").block(ROWS, "n")
    doc.tensor("x", "input", dtype, [ROWS, width]).tensor("out", "output", "float32", [width])
    step, g = G(5, "for_loop", block_ids=[1], carried=[[0, 0]]), G(6, grid=[0])
    row, wide, convert = f32("u0"), f32("u1", "u0"), "prims.convert_element_type.default"
    acc = step.arg(row)
    x = step.load("x", [sym("u1"), sym("u0")], t(dtype, "u1", "u0"))
    x = step.call(convert, x, dt("float32"), meta=wide)
    total = step.call("aten.sum.dim_IntList", x, [0], meta=row)
    step.out(step.call("aten.add.Tensor", acc, total, meta=row))
    zero = g.call("tile.full", [sym("u0")], 0.0, dt("float32"), meta=row)
    sums = g.call("tile.for_loop", 5, [0], [ROWS], [zero], meta={"tuple": [row]})
    g.store("out", [sym("u0")], g.call("getitem", sums, 0, meta=row))
    return doc.add(step, g.out())


CASES = [
    (dtype, width, block, rows, dma)
    for dtype in ("float32", "bfloat16", "int8", "float8_e4m3fn", "bool")
    for width, block in ((128, 128), (256, 256), (256, 128))
    for rows in (1, 2, 3, 4, 6, 8, 16, 24, 32)
    for dma in ("on", "off")
]


def plan(case, target):
    """The module, or None if pallasc refuses the alignment."""
    dtype, width, block, rows, dma = case
    config = {"block_sizes": [block, rows], "pallas_loop_type": "fori_loop"}
    config |= {"pallas_fori_dma": dma, "pallas_boundary_views": "off"}
    try:
        return kit.compiled(column_sums(dtype, width), target, **config)
    except CompileError as error:
        codes = {d["code"] for d in error.diagnostics if d.get("severity", "error") == "error"}
        assert codes <= {"block-alignment", "fori-dma"}, error
        return None


def sample(cases, size, salt):
    return sorted(cases, key=lambda case: zlib.crc32(f"{salt}{case}".encode()))[:size]


@needs_libtpu
@pytest.mark.parametrize("target", TARGETS)
def test_the_compiler_still_says_so(target):
    """A few of the answers in rules.json, asked again."""
    table = json.loads(probe.RULES.read_text())["targets"][target]
    layouts = {layout.name: layout for layout in kernels.LAYOUTS}
    answers = [
        (use, dtype, layout)
        for use in probe.USES
        for dtype, rules in table[use].items()
        for layout in rules
    ]
    ask = probe.Asker(target)
    for use, dtype, layout in sample(answers, 5, target):
        asked = probe.USES[use]
        ask.scope = (target, use, dtype, layout)
        found = asked.probe(ask, asked.make, layouts[layout], dtype)
        assert found == table[use][dtype][layout], (use, dtype, layout)
    ask.close()


def test_the_page_is_of_these_rules(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "PAGE", tmp_path / "tiling.md")
    page.write(json.loads(probe.RULES.read_text()))
    assert page.PAGE.read_text() == (HERE.parents[2] / "docs" / "tiling.md").read_text()


@needs_libtpu
@pytest.mark.parametrize("target", TARGETS)
def test_what_compiles_is_accepted_and_nothing_else(target, tmp_path):
    lenient = tmp_path / "lenient.json"
    lenient.write_text(json.dumps({"base": target, "tile_rows": LENIENT}))
    taken, jobs = [], []
    for case in sample(CASES, 40, target):
        module = plan(case, target)
        printed = module or plan(case, lenient)
        if printed is None:
            assert case[0] == "bool" and case[-1] == "on", case  # no DMA copies bool
            continue
        taken.append((case, module is not None))
        jobs.append((printed, target))
    assert {accepted for _, accepted in taken} == {True, False}
    wrong = [
        f"{case}: {'refused by the compiler' if accepted else 'refused here'}: {result.message}"
        for (case, accepted), result in zip(taken, compile_many(jobs, timeout=120), strict=True)
        if result.ok != accepted
    ]
    assert not wrong, "\n".join(wrong)


@needs_libtpu
@pytest.mark.parametrize("graph", CUT_OUT)
def test_kernels_are_taken_beside_arrays_of_8_bits(graph):
    """What they store is cut in rows, which XLA may lay out otherwise there."""
    module = kit.compiled(proof.document(graph), "v7x")
    assert "multiple_of" in module.source
    result = compile_one(beside(module), "v7x")
    assert result.ok, result.message
