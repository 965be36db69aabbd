"""Whether a graph is well-typed is a matter of symbols: no configuration changes the verdict."""

import copy
import json

import kit
import mutations
import pallasc
import pytest
from builder import Doc, G, dt, f32, sl, sym


def sizes(count):
    """Block sizes that are all the same, all different, and one."""
    return [[256] * count, [128] * count, [64 << i for i in range(count)], [1] * count]


def refusals(document, settings):
    """What is said under each configuration: (code, pointer, message, hint) of each error."""
    said = []
    for config in settings:
        try:
            kit.compiled(document, **config)
            said.append([])
        except pallasc.CompileError as error:
            keys = ("code", "pointer", "message", "hint")
            said.append([tuple(d[k] for k in keys) for d in error.diagnostics])
    return said


def block_named(document, graph, entry):
    """The block symbol that an entry of an index list is, or None."""
    if "ref" not in entry:
        return entry.get("sym")
    node = next(n for n in graph["nodes"] if n["name"] == entry["ref"])
    return (node.get("meta") or {}).get("sym")


def misplaced(document):
    """Copies of a document in which one index of one load names another tile of its loops."""
    symbols = [b["symbol"] for b in document["block_sizes"]]
    for g, graph in enumerate(document["graphs"]):
        for n, node in enumerate(graph["nodes"]):
            if node.get("target") != "tile.load":
                continue
            for i, entry in enumerate(node["args"][1]):
                named = isinstance(entry, dict) and block_named(document, graph, entry)
                if named not in symbols:
                    continue
                for other in symbols:
                    if other != named:
                        changed = copy.deepcopy(document)
                        index = changed["graphs"][g]["nodes"][n]["args"][1]
                        index[i] = {"sym": other}
                        yield changed


def chosen(document):
    return [b for b in document["block_sizes"] if not b.get("reduction") and "size" not in b]


@pytest.mark.parametrize("path", sorted(kit.GRAPHS.glob("*.json")), ids=lambda p: p.stem)
def test_a_misplaced_index_is_refused_alike_under_every_configuration(path):
    document = json.loads(path.read_text())
    settings = [{"block_sizes": s} for s in sizes(len(chosen(document)))]
    for wrong in misplaced(document):
        first, *others = refusals(wrong, settings)
        assert first[0][0] in ("type-mismatch", "block-scope")
        assert all(said == first for said in others)


@pytest.mark.parametrize("block_sizes", [[256, 256, 256], [128, 256, 64], [256, 256, 64]])
def test_bias_by_rows(block_sizes):
    """bias[tile_m] where bias[tile_n] is meant, also where the load declares what it takes."""
    document = kit.document("matmul_bias_gelu")
    nodes = document["graphs"][1]["nodes"]
    load = next(n for n in nodes if n["name"] == "load")
    assert load["meta"]["shape"] == ["u1"]
    load["args"][1] = [{"sym": "u0"}]
    config = [{"block_sizes": block_sizes}]
    ((code, pointer, message, _),) = refusals(document, config)[0][:1]
    assert (code, message) == (
        "type-mismatch",
        "tile.load 'load': it declares bfloat16[u1], inferred bfloat16[u0]",
    )
    assert pointer == f"/graphs/1/nodes/{nodes.index(load)}"
    load["meta"]["shape"] = ["u0"]
    found = refusals(document, config)[0]
    assert found == refusals(document, [{"block_sizes": [64, 64, 64]}])[0]
    assert all(code != "out-of-bounds" for code, *_ in found)


SAME = [
    ("u0 * 4 // 4", "u0", True),
    ("u0 + u1 - u1", "u0", True),
    ("2 * u0", "u0 + u0", True),
    ("u0 * u1", "u1 * u0", True),
    ("fixed", "128", True),
    ("whole", "512", True),
    ("u0", "u1", False),
    ("u0", "128", False),
    ("u0", "1", False),
    ("u0 * u1", "u0 * u0", False),
    ("cdiv(512, u0)", "4", False),
    ("split", "1", False),
    ("split", "split * 1", True),
]


@pytest.mark.parametrize("declared, size, same", SAME)
@pytest.mark.parametrize("blocks", [[128, 128], [128, 64], [1, 1]])
def test_sizes_are_compared_as_symbols(declared, size, same, blocks):
    """tile.full of one size, declared with another."""
    named = {"fixed": "u2", "whole": "u3"}

    def number(text, symbol):
        text = named.get(text, text)
        return int(text) if text.isdigit() else symbol(text)

    doc = Doc({"block_sizes": blocks}, tunables={"split": {"default": 1, "choices": [1, 2]}})
    doc.tensor("x", "input", "float32", [512, 512]).tensor("out", "output", "float32", [512, 512])
    doc.block(512).block(512).block(512, size=128).block(512, reduction=True)
    g, index = G(0, grid=[0, 1, 2]), [sym("u0"), sl()]
    g.call("tile.full", [number(size, sym)], 0.0, dt("float32"), meta=f32(number(declared, str)))
    g.store("out", index, g.load("x", index, f32("u0", 512)))
    _, errors = mutations.compile_once(doc.add(g.out()))
    assert [e["code"] for e in errors] == ([] if same else ["type-mismatch"])
