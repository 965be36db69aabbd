"""The same bytes in any locale, folder and environment, and on any number of threads."""

import json
import os
import subprocess
import sys

import kit
import printed
import pytest
import same
from builder import Doc, G, f32, sl, sym

LIBRARY = kit.ROOT / "build" / "libpallasc.so"
GRAPHS = sorted((kit.ROOT / "testdata" / "graphs").glob("*.json"))
EMITS = ("python", "json", "plan", "kernel", "operations", "dot", "report", "html")
REPORTS = """
import locale, sys, pallasc
from pallasc import binding
locale.setlocale(locale.LC_ALL, sys.argv[1])
assert locale.localeconv()["decimal_point"] == sys.argv[2]
everything = 63
for path in sys.argv[3:]:
    graph = binding.Graph(open(path, encoding="utf-8").read())
    answer = graph.compile("{}", "v7x", ("pallas_loop_type=fori_loop",), everything)
    print(ascii(sorted((k, v) for k, v in answer.items() if isinstance(v, str))))
"""


def cases():
    texts = [path.read_text() for path in GRAPHS]
    return [
        printed.Case(f"{path.stem}@{chip}", text, "{}", chip)
        for path, text in zip(GRAPHS, texts, strict=True)
        for chip in ("v6e", "v7x")
    ]


@pytest.fixture(scope="module")
def expected():
    return same.printed_by(LIBRARY, cases())


@pytest.fixture(scope="module")
def locpath(tmp_path_factory):
    """A LOCPATH that has the locale of `same`."""
    found = same.locale_folder(tmp_path_factory.mktemp("locale"))
    return found or pytest.skip("no localedef, or no de_DE to make a locale of")


@pytest.mark.parametrize("threads", [1, 7])
def test_threads(expected, threads):
    assert same.printed_by(LIBRARY, cases(), threads=threads) == expected


def test_locale(locpath, expected):
    assert same.printed_by(LIBRARY, cases(), locpath=locpath) == expected


def test_texts_for_people_in_a_locale(locpath):
    """Report, page, plan, graph and kernel text: no decimal comma."""
    environment = os.environ | {"LOCPATH": str(locpath), "PYTHONPATH": str(kit.ROOT / "python")}
    found = []
    for name, point in (("C", "."), (same.LOCALE, ",")):
        command = [sys.executable, "-c", REPORTS, name, point, *map(str, GRAPHS)]
        found.append(subprocess.run(command, env=environment, check=True, capture_output=True))
    assert found[0].stdout == found[1].stdout
    assert len(found[0].stdout) > 100_000


def test_defaults_of_ops_in_a_locale(locpath):
    """A number that the table of ops has where an argument is left out."""
    tile = f32("u0", 128)
    doc = Doc(name="k").block(256, "m")
    doc.tensor("x", "input", "float32", [256, 128]).tensor("out", "output", "float32", [256, 128])
    g = G(0, grid=[0])
    x = g.load("x", [sym("u0"), sl()], tile)
    g.store("out", [sym("u0"), sl()], g.call("aten.leaky_relu.default", x, meta=tile))
    case = printed.Case("leaky", json.dumps(doc.add(g.out())), "{}", "v6e")
    ((accepted, text),) = same.printed_by(LIBRARY, [case], locpath=locpath)
    assert accepted and "0.01" in text
    assert same.printed_by(LIBRARY, [case]) == [(accepted, text)]


@pytest.mark.parametrize("emit", EMITS)
def test_folders_and_environments(tmp_path, emit):
    """Nothing of where it runs, and of where the file lies, is in what is written."""
    texts = []
    for number, folder in enumerate((kit.ROOT, tmp_path)):
        copy = tmp_path / f"copy{number}" / "graph.json"
        copy.parent.mkdir()
        copy.write_text(kit.text("attention"))
        environment = {"PATH": os.environ["PATH"], "TZ": f"UTC{number}", "HOME": str(copy.parent)}
        environment |= {"LC_ALL": "C", "COLUMNS": str(40 + number), "USER": f"user{number}"}
        ran = kit.accepted(f"--emit={emit}", copy, cwd=folder, env=environment)
        texts.append(ran.out)
    assert texts[0] == texts[1]


def test_standard_input_is_as_a_file():
    read = kit.accepted("-", text=kit.text("softmax"))
    assert read.out == kit.accepted(kit.path("softmax")).out


def test_the_order_of_members_does_not_matter():
    """Of objects whose order means nothing: nodes, tensors, the document itself."""

    def turned(value):
        if isinstance(value, dict):
            return {k: turned(v) for k, v in reversed(value.items())}
        return [turned(v) for v in value] if isinstance(value, list) else value

    document = kit.document("attention")
    assert (
        kit.accepted("-", text=json.dumps(turned(document))).out
        == kit.accepted("-", text=json.dumps(document)).out
    )
