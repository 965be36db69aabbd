"""A refused graph that was exported: the kernel's own line first, then the graph's place."""

import json

import kit
import pallasc
import pytest

CODE = "scores = torch.bmm(q, k, out_dtype=torch.float32) * qk_scale"
SCORES = '"name": "scores", "target"'


def broken(declared='"u1", "u2"', instead='"u2", "u1"'):
    """The attention graph, whose product declares another shape than it has."""
    lines = (kit.GRAPHS / "attention.json").read_text().splitlines(keepends=True)
    return "".join(x.replace(declared, instead) if SCORES in x else x for x in lines)


def without_code(text):
    """The same, with files and lines alone."""
    document = json.loads(text)
    for graph in document["graphs"]:
        for node in graph["nodes"]:
            node.get("loc", {}).pop("code", None)
    return document


def write(folder, document):
    text = document if isinstance(document, str) else json.dumps(document)
    (folder / "g.json").write_text(text)
    return folder / "g.json"


def test_the_line_of_the_kernel_comes_first():
    said = kit.refused(1, "-", text=broken()).splitlines()
    assert said[0].startswith("attention.py:39: error: aten.mul.Tensor 'scores': it declares")
    assert said[0].endswith("[type-mismatch]")
    assert said[1] == f"   39 | {CODE}"
    assert said[2].startswith("  --> <stdin>:40:4: node 'scores' (/graphs/0/nodes/")
    note = "attention.py:39: note: 'bmm' is float32[u0, u1, u2] ("
    assert any(line.startswith(note) for line in said)
    assert not any('{"name"' in line for line in said)  # no line of JSON


def test_the_same_as_json():
    record = json.loads(kit.refused(1, "--diagnostics=json", "-", text=broken()))
    assert record["loc"] == {"file": "attention.py", "line": 39, "code": CODE}
    assert record["node"] == "scores"
    notes = {other["node"]: other["message"] for other in record["related"] if "node" in other}
    assert notes["bmm"] == "'bmm' is float32[u0, u1, u2]"
    assert all(other["line"] and other["column"] for other in record["related"])


def test_the_library_says_the_same():
    with pytest.raises(pallasc.CompileError) as found:
        pallasc.compile(json.loads(broken()))
    said = str(found.value).splitlines()
    assert said[0].startswith("attention.py:39: error: aten.mul.Tensor 'scores'")
    assert said[1].startswith("   39 | scores = torch.bmm(")
    assert any(": note: 'bmm' is float32[u0, u1, u2]" in line for line in said)


def test_a_line_that_the_graph_lacks_is_read_from_its_file(tmp_path):
    path = write(tmp_path, without_code(broken()))
    assert "   39 |" not in kit.refused(1, path)
    (tmp_path / "attention.py").write_text("\n" * 38 + "\tscores = 1\x1b[31m + 2\r\n")
    assert "\n   39 | scores = 1\\x1b[31m + 2\n" in kit.refused(1, path)
    assert "\n   39 | scores = " in kit.refused(1, "-", text=without_code(broken()), cwd=tmp_path)


@pytest.mark.parametrize("name", ["/etc/passwd", "secrets.txt", "folder.py", "", "nothing.py"])
def test_only_python_is_read(tmp_path, name):
    (tmp_path / "secrets.txt").write_text("secret\n" * 50)
    (tmp_path / "folder.py").mkdir()
    document = without_code(broken())
    for graph in document["graphs"]:
        for node in graph["nodes"]:
            if "loc" in node:
                node["loc"]["file"] = name
    assert "   39 |" not in kit.refused(1, write(tmp_path, document), cwd=tmp_path)


def test_long_lines_are_cut(tmp_path):
    (tmp_path / "attention.py").write_text("\n" * 38 + "x = " + "1 + " * 100_000)
    said = kit.refused(1, write(tmp_path, without_code(broken())))
    assert max(map(len, said.splitlines())) < 400


def test_a_setting_is_refused_with_the_line_of_the_loop():
    said = kit.refused(1, kit.GRAPHS / "causal_attention.json", "--set", "pallas_loop_type=unroll")
    assert said.startswith("<command line>:1:22: error: pallas_loop_type unroll cannot lower")
    assert ": note: '_for_loop' is this loop (" in said
    assert " | for tile_n in hl.tile(" in said


def test_made_by_a_pass_it_still_has_its_line():
    """A block that no window can have is refused at the load or store that takes it."""
    sizes = ("--set", "block_sizes=[1,128,100]")
    said = kit.refused(1, kit.GRAPHS / "attention.json", *sizes).splitlines()
    assert said[0].startswith("attention.py:38: error: tensor k_view cannot be tiled this way")
    assert said[1] == "   38 | k = k_view[tile_b, :, tile_n]"


def test_colours_only_where_they_are_asked_for():
    assert "\x1b" not in kit.refused(1, "-", text=broken())
    assert "\x1b[1;34m   39 |\x1b[0m " in kit.refused(1, "--color=always", "-", text=broken())
