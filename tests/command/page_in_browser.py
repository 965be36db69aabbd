"""What codegen/page/page.js draws, in headless Chromium: `make check-page`.

Not part of `make check`: a browser is 80 MB to fetch. Of each page the browser gives the elements
that it holds once the script has run, and what went wrong.
"""

import shutil
import subprocess

import kit
import pytest
import test_profile_page
from pallasc import tune, tune_page
from pallasc.errors import CompileError
from pallasc.module import Module
from pallasc.profile import page as profile_page
from test_page import HOSTILE, Page, with_names

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
DRAWN = ("facts", "graph", "vmem", "time", "grid", "remarks")


def shown(tmp_path, graph, **config):
    """The page of a graph as the browser holds it."""
    found = drawn(tmp_path, kit.emitted("html", graph, **config).out)
    assert all(found.texts[name].strip() for name in DRAWN)
    return found


def drawn(tmp_path, text):
    """A page as the browser holds it."""
    file = tmp_path / "page.html"
    file.write_text(text)
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr")
    done = subprocess.run(
        [BROWSER, *options, f"--user-data-dir={tmp_path}", "--dump-dom", file.as_uri()],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    return Page(done.stdout)


def row(found, name):
    """The cells of the last table row that begins so."""
    return [cells for head, cells in zip(found.heads, found.rows, strict=True) if head == name][-1]


def test_buffers_of_a_skewed_loop(tmp_path):
    """As docs/pictures/window.svg draws them: of K the next step's window is read."""
    found = shown(tmp_path, "attention", pallas_loop_type="fori_loop", pallas_fori_dma="on")
    k_in = [row(found, f"k_in_win [{slot}]")[1:] for slot in (0, 1)]
    assert k_in[0] == ["read (0, 0, 0)", "copied in (0, 2, 0)", "read (0, 2, 0)", "free", "free"]
    assert k_in[1] == [
        "copied in (0, 1, 0)",
        "read (0, 1, 0)",
        "copied in (0, 3, 0)",
        "read (0, 3, 0)",
        "free",
    ]
    assert row(found, "v_in_win [1]")[1:] == [
        "free",
        "copied in (0, 1, 0)",
        "read (0, 1, 0)",
        "copied in (0, 3, 0)",
        "read (0, 3, 0)",
    ]
    assert row(found, "scores_ref") == ["64 KiB", *["in use"] * 5]


def test_blocks_of_the_grid(tmp_path):
    found = shown(tmp_path, "softmax", block_sizes=[64])
    assert row(found, "x_ref [1]")[1:] == [
        "copied in (1, 0)",
        "read (1, 0)",
        "copied in (3, 0)",
        "read (3, 0)",
    ]
    assert row(found, "out_ref [0]")[1:] == [
        "written (0, 0)",
        "goes out (0, 0)",
        "written (2, 0)",
        "goes out (2, 0)",
    ]
    assert row(found, "3") == ["(3, 0)", "(3, 0)"]


def test_blocks_that_stay(tmp_path):
    """The next block comes while the point before it computes, not earlier."""
    found = shown(tmp_path, "attention", pallas_loop_type="fori_loop")
    k_in = [
        cells[1:]
        for head, cells in zip(found.heads, found.rows, strict=True)
        if head.startswith("k_in_ref [")
    ][:2]
    assert k_in[0][:5] == [*["read (0, 0, 0)"] * 4, "free"]
    assert k_in[1][:5] == [*["free"] * 3, "copied in (1, 0, 0)", "read (1, 0, 0)"]


def test_configurations(tmp_path):
    """Every compile is a row, and a mark that leads there, but for one that failed."""
    costs = iter([9000.0, 7000.0, None, 8000.0])

    def measure(module, asked, timeout):
        if (cost := next(costs)) is None:
            raise CompileError("v6e: <b>timeout</b>")
        return cost, 3 << 20

    asked = tune.Asked(kit.text("attention"), "attention.json", "v6e", {})
    search = tune.tune(asked, 4, 1, measure, tune.Journal(tmp_path / "journal"), 60)
    found = drawn(tmp_path, tune_page.page(asked, search))
    assert all(found.texts[name].strip() for name in DRAWN)
    compiled = [cells for cells in found.rows if cells[2:3] == ["3 MiB"]]
    assert [cells[0] for cells in compiled] == ["7,000", "8,000", "9,000"]
    assert compiled[0][-1].startswith("chosen: block_sizes [2,512,256]")
    assert "7,000 cycles" in found.texts["tuning"] and "1.286 times" in found.texts["tuning"]
    marks = [a["data-row"] for tag, a in found.elements if tag == "a" and "data-row" in a]
    assert sorted(marks) == ["compiled0", "compiled1", "compiled2"]
    classes = [a.get("class", "") for tag, a in found.elements if tag == "circle"]
    assert classes.count("chosen") == classes.count("given") == classes.count("compiled") == 1
    assert classes.count("judged") > 100
    assert any(cells[:2] == ["38", "vmem"] for cells in found.rows)
    assert "b" not in {tag for tag, _ in found.elements}


def test_a_profile(tmp_path):
    """Lines with what they take, beside the source line that they are of."""
    kernel = test_profile_page
    text = profile_page.page(Module(kernel.MODULE), kernel.FOUND, kernel.COSTS)
    found = drawn(tmp_path, text)
    assert found.lines("s")[0] == "60%y = torch.exp(x)"
    assert found.lines("p")[10] == "30%    out_ref[...] = y < 1"
    linked = {a["id"] for tag, a in found.elements if "linked" in a.get("class", "").split()}
    assert linked == {"s0", "s1", "p5", "p6", "p7", "p8", "p9", "p10"}
    assert ["6", "60%", "60", "", "y = ..."] in [cells[:5] for cells in found.rows]
    assert "warning: a doubt" in found.texts["profile"]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_becomes_an_element(tmp_path, text):
    found = shown(tmp_path, with_names(text))
    assert not {"img", "b"} & {tag for tag, _ in found.elements}
    assert [tag for tag, _ in found.elements].count("script") == 3


@pytest.mark.parametrize("path", sorted(kit.GRAPHS.glob("*.json")), ids=lambda path: path.stem)
def test_every_graph(tmp_path, path):
    shown(tmp_path, path.stem)
