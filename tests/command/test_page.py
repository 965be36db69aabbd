"""--emit=html: one file that asks for nothing outside of itself; what its JSON and its text say.

How it looks is for people (docs/page.md); here an HTML parser reads it.
"""

import html.parser
import json
import re

import kit
import pytest
from pallasc import binding

VOID = {"meta", "br", "hr", "img", "input", "link"}
ROWS = ("windows", "inner", "scratch", "intermediates")


class Page(html.parser.HTMLParser):
    """Elements in order, and the text of those with an id and of scripts."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.texts, self.open, self.comments = [], {}, [], []
        self.rows, self.heads = [], []  # cells of each row of a table, and what stands before them
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.elements.append((tag, attributes))
        if tag not in VOID:
            self.open.append((tag, attributes.get("id")))
        if tag == "tr":
            self.rows.append([])
            self.heads.append("")
        if tag == "td":
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_comment(self, data):
        self.comments.append(data)

    def handle_data(self, data):
        for tag, identity in self.open:
            name = identity or (tag if tag in ("script", "style", "title") else None)
            if name:
                self.texts[name] = self.texts.get(name, "") + data
        if any(tag == "td" for tag, _ in self.open):
            self.rows[-1][-1] += data
        if any(tag == "th" for tag, _ in self.open):
            self.heads[-1] += data

    @property
    def data(self):
        return json.loads(self.texts["data"])

    def lines(self, prefix):
        """The lines of a pane, by their numbers."""
        found = {}
        for name, text in self.texts.items():
            if match := re.fullmatch(prefix + r"(\d+)", name):
                found[int(match.group(1))] = text.removesuffix("\n")
        return found


def page(graph, *options, **config):
    return Page(kit.emitted("html", graph, *options, **config).out)


def linked(found, prefix, code):
    """The lines of a pane that belong to the source line that reads so."""
    name = {"p": "python", "k": "kernel"}[prefix]
    (source,) = [i for i, line in enumerate(found.data["source"]) if line["code"] == code]
    lines = found.lines(prefix)
    return [lines[line] for line, of in sorted(found.data["links"][name]) if of == source]


def owned(kernel):
    return {
        owner: sum(row["bytes"] for row in kernel["vmem"] if row["owner"] == owner)
        for owner in ROWS
    }


# ---- one file ------------------------------------------------------------------------------------


def test_nothing_outside_is_asked_for():
    found = page("attention")
    for tag, attributes in found.elements:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base")
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
        assert not any(name.startswith("on") for name in attributes)
    policy = next(a for _, a in found.elements if "http-equiv" in a)["content"]
    assert policy.startswith("default-src 'none';")
    style, script = found.texts["style"], found.texts["script"]
    assert "url(" not in style and "@import" not in style
    assert "prefers-color-scheme: dark" in style
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", script)
    assert set(re.findall(r"https?://[^\"]+", script)) == {"http://www.w3.org/2000/svg"}


def test_identities_are_there_once_and_links_lead_to_them():
    found = page("attention")
    names = [a["id"] for _, a in found.elements if "id" in a]
    assert len(names) == len(set(names))
    for _, attributes in found.elements:
        if "href" in attributes:
            assert attributes["href"][1:] in names
        for name in attributes.get("aria-labelledby", "").split():
            assert name in names
    script = found.texts["script"]
    assert set(re.findall(r'(?:section|getElementById)\("(\w+)"\)', script)) <= set(names)


def test_without_a_script_the_text_is_there():
    """Source, code, decisions and the report are HTML; what is not is announced."""
    found = page("attention", pallas_loop_type="fori_loop")
    module = kit.accepted(kit.path("attention"), "--set=pallas_loop_type=fori_loop").out
    kernel = kit.emitted("kernel", "attention", pallas_loop_type="fori_loop").out
    report = kit.emitted("report", "attention", pallas_loop_type="fori_loop")
    assert found.texts["python"] == module
    assert found.texts["kernel"] == kernel
    assert found.texts["report"] == "\nReport\n" + report.out + "\n"
    assert found.texts["source"].startswith("attention.pym_i = hl.full(")
    remarks = [f"{by}: {what}{': ' * bool(what)}{why}" for by, what, why in found.rows[1:]]
    assert remarks == report.err.splitlines()
    assert any(tag == "noscript" for tag, _ in found.elements)


def test_the_library_gives_the_same_page():
    graph = binding.Graph(kit.text("softmax"))
    every = binding.EMIT_SOURCE | binding.EMIT_PAGE
    answer = graph.compile(emit=every)
    assert answer["page"] == kit.emitted("html", "softmax").out
    assert answer["source"] == kit.accepted(kit.path("softmax")).out
    assert graph.compile(emit=binding.EMIT_SOURCE)["page"] == ""


def test_what_was_found_is_data_beside_the_kernel():
    graph = binding.Graph(kit.text("softmax"))
    told = {"tuning": {"points": [], "name": "</script><b>"}}
    answer = graph.compile(emit=binding.EMIT_PAGE, found=json.dumps(told))
    assert json.loads(Page(answer["page"]).texts["found"]) == told
    assert json.loads(page("softmax").texts["found"]) is None
    assert Page(answer["page"]).data == page("softmax").data
    answer = graph.compile(emit=binding.EMIT_PAGE, found="{]")
    assert answer["status"] == binding.USAGE and '"<found>"' in answer["diagnostics"]


# ---- what it says --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def attention():
    return page("attention", pallas_loop_type="fori_loop")


def test_lines_are_linked(attention):
    source = attention.data["source"]
    assert [line["line"] for line in source] == list(range(33, 50))
    assert {line["file"] for line in source} == {"attention.py"}
    assert linked(attention, "p", "alpha = torch.exp2(m_i - m_new)") == [
        "        # alpha = torch.exp2(m_i - m_new)",
        "        alpha = jnp.exp2(m_i - m_new)",
    ]
    # Lines of one statement, and of what stands inside of it.
    assert linked(attention, "p", "acc = torch.baddbmm(acc, p.to(v.dtype), v)") == [
        "        # acc = torch.baddbmm(acc, p.to(v.dtype), v)",
        "        acc_1_1_dot = jax.lax.dot_general(",
        "            v,",
        "            exp2.astype(jnp.bfloat16),",
        "            (((1,), (1,)), ((0,), (0,))),",
        "            preferred_element_type=jnp.float32,",
        "        )",
        "        acc_1_1 = acc_1 + acc_1_1_dot",
    ]
    assert linked(attention, "k", "alpha = torch.exp2(m_i - m_new)") == [
        "    %2 = sub m_i, m_new : float32[1, 1, 128] @7",
        "    alpha = exp2 %2 : float32[1, 1, 128] @7",
    ]


def test_nodes_and_edges(attention):
    root, body = sorted(attention.data["graphs"], key=lambda graph: graph["called"])
    assert (root["kind"], root["blocks"]) == ("root", ["tile_b", "tile_m"])
    assert (body["kind"], body["blocks"]) == ("for_loop", ["tile_n"])
    (call,) = [node for node in root["nodes"] if node["calls"]]
    assert call["calls"] == [body["id"]]
    nodes = {node["name"]: node for node in body["nodes"]}
    bmm = nodes["bmm"]
    assert bmm["op"] == "aten.bmm.dtype" and bmm["kind"] == "matmul"
    assert bmm["type"] == "float32[tile_b, tile_n, tile_m]" and bmm["change"] == "changed"
    assert bmm["of"] == [nodes["k"]["id"], nodes["q_turned"]["id"]] or len(bmm["of"]) == 2
    code = attention.data["source"][bmm["source"]]["code"]
    assert code == "scores = torch.bmm(q, k, out_dtype=torch.float32) * qk_scale"
    assert nodes["k_view"]["change"] is None and nodes["q_turned"]["change"] == "new"
    every = [node for graph in (root, body) for node in graph["nodes"]]
    assert attention.data["changes"]["made"] == sum(node["change"] == "new" for node in every)


def test_vmem_adds_up(attention):
    (kernel,) = attention.data["kernels"]
    plan = attention.data["plan"]
    assert owned(kernel) == {owner: plan["vmem"][owner] for owner in ROWS}
    assert sum(row["bytes"] for row in kernel["vmem"]) == plan["vmem"]["total"] == 1170145
    assert kernel["total"] == plan["vmem"]["total"] and kernel["limit"] == plan["vmem"]["limit"]
    rows = {row["ref"]: (row["buffers"], row["bytes"]) for row in kernel["vmem"]}
    assert rows["q_in_ref"] == (2, 2 * 128 * 128 * 2)
    assert rows["k_in_ref"] == (2, 2 * 512 * 128 * 2)
    assert rows["scores_ref"] == rows["scores_ref_1"] == (1, 128 * 128 * 4)


def test_what_the_grid_fetches(attention):
    (kernel,) = attention.data["kernels"]
    walk = kernel["walk"]
    assert walk["points"] == 16 and walk["at"][:6] == [
        [0, 0],
        [0, 1],
        [0, 2],
        [0, 3],
        [1, 0],
        [1, 1],
    ]
    operands = {operand["ref"]: operand for operand in walk["operands"]}
    assert operands["q_in_ref"]["blocks"][:5] == [
        [0, 0, 0],
        [0, 1, 0],
        [0, 2, 0],
        [0, 3, 0],
        [1, 0, 0],
    ]
    assert operands["k_in_ref"]["blocks"][3:5] == [[0, 0, 0], [1, 0, 0]]
    assert operands["k_in_ref"]["moves"] == [True, False, False, False] * 4
    assert operands["lse_ref"]["blocks"][1] == [0, 0, 1] and operands["lse_ref"]["output"]
    for operand in attention.data["plan"]["operands"]:
        assert sum(operands[operand["ref"]]["moves"]) == operand["fetches"]


def test_estimates_are_those_of_the_plan(attention):
    (kernel,) = attention.data["kernels"]
    chip = json.loads(kit.accepted("--print-target").out)
    point, times = kernel["point"], kernel["loops"][0]["times"]
    assert point["matmul"] * 16 == pytest.approx(
        attention.data["plan"]["flops"] / chip["bf16_flops"]
    )
    assert times["matmul"] * 4 == pytest.approx(point["matmul"])
    parts = ("wait", "between", "gathers", "one_hot")
    assert point["point"] == pytest.approx(
        max(point["matmul"], point["read"]) + sum(point[part] for part in parts)
    )
    (row,) = [row for row in attention.rows if row[1:2] == ["taken"]]
    assert row[2] == f"resident blocks: about {kernel['seconds'] * 1e6:.3g} us"
    assert times["hidden"] == times["shown"] == times["latency"] == 0


def test_windows_of_a_loop_that_copies():
    found = page("attention", pallas_loop_type="fori_loop", pallas_fori_dma="on")
    (kernel,) = found.data["kernels"]
    (loop,) = kernel["loops"]
    assert (loop["name"], loop["steps"], loop["shown"]) == ("step", 4, 4)
    (k_in, v_in) = loop["windows"]
    # Scores of the next step are computed beside this one's.
    assert (k_in["ahead"], k_in["behind"], v_in["ahead"], v_in["behind"]) == (1, False, 0, True)
    assert k_in["operand"] == "k_in_hbm" and k_in["dma"] and k_in["buffers"] == 3
    assert k_in["blocks"] == v_in["blocks"] == [[0, 0, 0], [0, 1, 0], [0, 2, 0], [0, 3, 0]]
    assert [row["ref"] for row in kernel["vmem"] if row["owner"] == "inner"] == [
        "k_in_win",
        "v_in_win",
    ]
    assert loop["times"]["hidden"] > 0 and loop["times"]["shown"] == 0
    assert [operand["ref"] for operand in kernel["walk"]["operands"]] == [
        "q_in_ref",
        "out_ref",
        "lse_ref",
    ]


def test_softmax():
    found = page("softmax", block_sizes=[64])
    (kernel,) = found.data["kernels"]
    assert kernel["loops"] == [] and kernel["walk"]["points"] == 4
    assert [o["blocks"] for o in kernel["walk"]["operands"]] == [
        [[0, 0], [1, 0], [2, 0], [3, 0]]
    ] * 2
    plan = found.data["plan"]["vmem"]
    assert owned(kernel) == {owner: plan[owner] for owner in ROWS}
    rows = {row["ref"]: (row["buffers"], row["bytes"]) for row in kernel["vmem"]}
    assert {ref: rows[ref] for ref in ("x_ref", "out_ref")} == dict.fromkeys(
        ("x_ref", "out_ref"), (2, 2 * 64 * 1024 * 4)
    )
    code = [line["code"] for line in found.data["source"]]
    assert len(code) == len(set(code)) > 0
    for line in found.lines("p").values():
        if (text := line.strip().removeprefix("# ")) in code:
            assert line in linked(found, "p", text)


def test_large_grids_are_cut():
    (kernel,) = page("matmul_4096", block_sizes=[256, 256, 512]).data["kernels"]
    walk = kernel["walk"]
    assert walk["points"] == 256 and len(walk["at"]) == 64
    assert all(len(o["blocks"]) == len(o["moves"]) == 64 for o in walk["operands"])


def test_a_grid_that_walks_back_and_forth():
    (kernel,) = page("matmul_1024", block_sizes=[256, 256, 1024], pallas_back_and_forth="on").data[
        "kernels"
    ]
    assert kernel["walk"]["at"][:8] == [
        [0, 0],
        [0, 1],
        [0, 2],
        [0, 3],
        [1, 3],
        [1, 2],
        [1, 1],
        [1, 0],
    ]


def test_blocks_that_a_table_names():
    """Which block comes is not known; that is said."""
    found = page("grouped_worklist")
    operands = [o for k in found.data["kernels"] for o in k["walk"]["operands"]]
    assert any(None in o["blocks"] and None in o["moves"] for o in operands)


@pytest.mark.parametrize("loop_type", ["unroll", "fori_loop", "emit_pipeline"])
def test_each_type_of_loop(loop_type):
    found = page("attention", pallas_loop_type=loop_type, pallas_emit_pipeline_group_size=1)
    assert [loop["type"] for loop in found.data["plan"]["loops"]] == [loop_type]
    (kernel,) = found.data["kernels"]
    assert sum(row["bytes"] for row in kernel["vmem"]) == kernel["total"]


def test_several_roots():
    found = page("normalized")
    names = [kernel["name"] for kernel in found.data["kernels"]]
    assert names == ["normalized_0", "normalized_1"]
    assert names == [kernel["name"] for kernel in found.data["plan"]["kernels"]]
    assert max(k["total"] for k in found.data["kernels"]) == found.data["plan"]["vmem"]["total"]


def test_a_document_without_places():
    document = kit.document("softmax")
    for node in kit.nodes(document):
        node.pop("loc", None)
    found = page(document)
    assert found.data["source"] == [] and found.data["links"] == {"python": [], "kernel": []}
    assert "there is no source" in found.texts["source"]


@pytest.mark.parametrize("path", sorted(kit.GRAPHS.glob("*.json")), ids=lambda path: path.stem)
def test_every_graph_has_a_page(path):
    found = page(path.stem)
    for kernel in found.data["kernels"]:
        assert sum(row["bytes"] for row in kernel["vmem"]) == kernel["total"]
    assert found.comments == []


# ---- hostile text --------------------------------------------------------------------------------

HOSTILE = (
    "</script><script>alert(1)</script>",
    "</pre></style></title><img src=x onerror=alert(1)>",
    "<!--<script>",
    "]]>--><svg/onload=alert(1)>",
    '"\'`&quot;&lt;&#60;\\"',
    "a\u2028b\u2029c\u202ed\u2066e\u200f",
    "\\u003c/script\\u003e {{json}} {{css}} }}",
    "\x1b[31m\n\r\t\x85",
)


def with_names(text):
    """The attention graph with such a text for a block, a tensor, a node, a file and all code."""
    document = kit.text("attention")
    for name in ("tile_b", "out", "acc", "attention.py"):
        document = document.replace(json.dumps(name), json.dumps(name + text))
    document = json.loads(document)
    for node in kit.nodes(document):
        if "loc" in node:
            node["loc"]["code"] += text
    return json.dumps(document)


@pytest.fixture(scope="module")
def harmless():
    return page(with_names(""))


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_breaks_out(harmless, text):
    found = page(with_names(text))
    places = [(tag, sorted(attributes)) for tag, attributes in found.elements]
    kept = [(tag, sorted(attributes)) for tag, attributes in harmless.elements]
    lines = ("span", ["class", "id"])  # those of the report, and of code, wrap with the names
    assert [at for at in places if at != lines] == [at for at in kept if at != lines]
    assert found.comments == []
    assert found.data["source"][0]["code"] == harmless.data["source"][0]["code"] + text
    assert found.data["source"][0]["file"] == "attention.py" + text
    assert found.texts["script"] == harmless.texts["script"]
    raw = kit.emitted("html", with_names(text)).out
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]", raw
    )


def test_bytes_that_are_no_text_are_refused_or_shown():
    document = with_names("x").encode().replace(b"attention.pyx", b"\xed\xa0\x80\xff")
    status, out, err = kit.run("--emit=html", "-", text=document, encoding=None)
    assert status == 1 and out == b"" and b"UTF-8" in err


# ---- Graphviz ------------------------------------------------------------------------------------


def test_dot_colours_what_passes_changed():
    text = kit.emitted("dot", "attention").out
    changes = page("attention").data["changes"]
    assert text.count("color=forestgreen") == changes["made"] > 0
    assert text.count("color=orange") == changes["changed"] > 0
    assert f"passes made {changes['made']} nodes (green)" in text
    assert "float32[u0, " in text and "bfloat16[" in text
    plain = kit.accepted("--emit=dot", "--passes=", kit.path("attention")).out
    assert (
        "color=forestgreen" not in plain
        and "color=orange" not in plain
        and "passes made" not in plain
    )
