"""`profile --page`: a module's text with the cycles of its lines."""

import json

import pytest
from pallasc.__main__ import main
from pallasc.module import Module
from pallasc.profile import page, run, statements
from pallasc.profile.statements import Statement

MODULE = '''"""A kernel."""


def k(x_ref, out_ref):
    # y = torch.exp(x)
    y = jnp.exp(
        x_ref[...],
    )
    # out[:] = y < 1
    out_ref[...] = y < 1


KERNEL_INFO = {"name": "k", "target": "v6e", "inputs": [], "outputs": [], "config": {}}
'''
FACTS = {key: 0 for key in page.SHOWN} | {"pallas": True, "cycles": 100, "compute_cycles": 90}
FACTS |= {"slots": {"VALU": 0.5}, "loops": []}
FOUND = {"target": "v6e", "clock_hz": 1e9, "cycles": 100, "hbm_bytes": 8, "trusted": True}
FOUND |= {"errors": [], "warnings": ["a doubt"], "kernels": {"k.1": FACTS}}
COSTS = [
    Statement("k", 6, "k", "y = ...", "y = torch.exp(x)", {"eup": 4}, {"eup": 8}),
    Statement("k", 10, "k", "out = ...", "out[:] = y < 1", {"store": 1}, {"store": 1}),
    Statement("k", None, code="(waits for copies)"),
    Statement("k", 11, code="nothing"),
]
for cost, cycles in zip(COSTS, (60.0, 30.0, 10.0, 0.0), strict=True):
    cost.cycles, cost.waits = cycles, 0.0


def read(text):
    """What was found, of a page."""
    _, _, rest = text.partition('<script type="application/json" id="found">')
    return json.loads(rest.partition("</script>")[0])["profile"]


def test_lines_have_their_source_and_cycles():
    text = page.page(Module(MODULE), FOUND, COSTS)
    found = read(text)
    assert [entry["code"] for entry in found["source"]] == ["y = torch.exp(x)", "out[:] = y < 1"]
    links = [[5, 0], [6, 0], [7, 0], [8, 0], [9, 1], [10, 1]]
    assert found["links"] == {"python": links, "kernel": []}
    costs = [(s["line"], s["source"], s["cycles"]) for s in found["statements"]]
    assert costs == [(6, 0, 60.0), (10, 1, 30.0), (None, None, 10.0)]
    assert found["statements"][0]["executed"] == {"eup": 8}
    assert found["kernels"][0]["name"] == "k.1" and found["warnings"] == ["a doubt"]
    assert '<span class="l" id="p10">    out_ref[...] = y &lt; 1\n</span>' in text
    assert "<h1>k</h1>" in text


def test_the_command_writes_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(run, "profile", lambda *_, **__: FOUND)
    monkeypatch.setattr(statements, "statements", lambda *_, **__: COSTS)
    monkeypatch.setattr("pallasc.profile.report.text", lambda found: "a report")
    kernel, out = tmp_path / "k.py", tmp_path / "page.html"
    kernel.write_text(MODULE)
    assert main(["profile", str(kernel), "--page", str(out)]) == 0
    assert capsys.readouterr().out == "a report\n"
    assert len(read(out.read_text())["statements"]) == 3


@pytest.mark.parametrize("more", [["-t", "v6e", "-t", "v7x"], ["-t", "all"]])
def test_one_target(tmp_path, more, capsys):
    kernel = tmp_path / "k.py"
    kernel.write_text(MODULE)
    assert main(["profile", str(kernel), "--page", "x.html", *more]) == 2
    assert "for one target" in capsys.readouterr().err
