"""Text from a graph never becomes code.

Whatever stands in a string of the document, the module is either refused with a diagnostic or its
syntax tree is that of the harmless twin's: the same document with plain names. Two trees are the
same if they differ in nothing but the spelling of local variables (one to one), of the function's
own name, and of the names in KERNEL_INFO, where they stand as literals.
"""

import ast
import copy
import functools
import io
import json
import keyword
import re
import tokenize

import kit
import pytest
from builder import Doc, G, f32, ref, sl, sym
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pallasc.lint import lint_module

HOSTILE = {
    "newline": "x\nimport os",
    "newline_indented": "x\n    import os\n    os.abort()",
    "carriage_return": "x\rimport os",
    "crlf": "x\r\nimport os\r\n",
    "form_feed": "x\x0cimport os",
    "vertical_tab": "x\x0bimport os",
    "file_separators": "x\x1cimport os\x1dimport os\x1eimport os\x1f",
    "next_line": "x\x85import os",
    "line_separator": "x\u2028import os",
    "paragraph_separator": "x\u2029import os",
    "escape_sequence": "x\x1b[2J\x1b]0;title\x07",
    "c1_control": "x\x9b2J\x9d0;title\x9c",
    "backspaces": "x\b\b\b\bimport os",
    "delete": "x\x7f",
    "quote": 'x"',
    "quotes": "\"'\"'\"'",
    "triple_quotes": 'x"""\nimport os\n"""',
    "triple_single": "x'''\nimport os\n'''",
    "quote_call": "');import os;('",
    "quote_call_double": '");import os;("',
    "backslash": "x\\",
    "backslash_quote": 'x\\"; import os #',
    "backslash_newline": "x\\\nimport os",
    "escape_text": "\\x22\\n\\u2028\\N{BULLET}\\0",
    "comment": "# x",
    "comment_end": "x # noqa\n",
    "format_off": "fmt: off",
    "coding": "-*- coding: utf-16 -*-",
    "dunder_import": "__import__('os').system('x')",
    "eval": "eval('1')",
    "brackets": ")]}{[(",
    "lambda": "lambda: 0",
    "walrus": "(x := 1)",
    "semicolon": "x; import os",
    "comma": "x, y = y, x",
    "colon": "x: int = 3",
    "dot": "os.system",
    "star": "*args",
    "decorator": "@print",
    "f_string": "{print(1)}",
    "f_string_nested": "{{{0}}}{__class__}",
    "percent_s": "%s%s%s%s%s%s%s%s",
    "percent_n": "%n%n%n%n",
    "percent_wide": "%999999999d %*.*f",
    "brace_zero": "{0}{1!r:>9999}",
    "dollar": "${x} $(reboot) `reboot`",
    "empty": "",
    "space": " ",
    "underscore": "_",
    "underscores": "____",
    "digits": "123",
    "leading_digit": "1e9",
    "minus": "-1",
    "none": "None",
    "true": "True",
    "homoglyph": "\u0458mport",  # Cyrillic je
    "fullwidth": "\uff49\uff4d\uff50\uff4f\uff52\uff54",  # NFKC makes it `import`
    "math_letters": "\U0001d41e\U0001d42f\U0001d41a\U0001d425",
    "superscript": "x\u00b2",
    "combining": "e\u0301" * 20,
    "zero_width": "a\u200bb\u200dc\ufeff",
    "right_to_left": "x\u202e)1(so.tropmi\u202c",
    "isolates": "\u2066x\u2067y\u2068z\u2069",
    "soft_hyphen": "im\u00adport",
    "other_ignorables": "a\u061cb\u180ec\u034fd\u115fe\u3164f\uffa0g\ufe0fh\U000e0100i",
    "tags": "x\U000e0041\U000e007f",
    "emoji": "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "non_character": "\uffff\U0010ffff",
    "replacement": "\ufffd",
    "long_name": "a" * 100_000,
    "long_line": "x " * 50_000,
    "long_lines": "x\n" * 50_000,
    "long_unicode": "\u2028" * 30_000,
    "long_quotes": '"' * 50_000,
    "long_brackets": "(" * 50_000,
}

KEYWORDS = [*keyword.kwlist, *keyword.softkwlist]
BUILTINS = (
    "print eval exec open compile input __import__ getattr setattr delattr globals locals vars dir "
    "type object super len range tuple list dict set str int float bool bytes abs min max sum pow "
    "round sorted map filter zip iter next hash id repr isinstance callable breakpoint exit quit "
    "memoryview TypeError ValueError Exception ImportError AttributeError __name__ __file__ "
    "__builtins__ __debug__ __doc__ __loader__"
).split()
MODULE_NAMES = (
    "jax jnp lax pl pltpu functools warnings np os sys KERNEL_INFO _kernel kernel call interpret "
    "_mask mask _to_row to_row _to_column to_column _check check _simulator simulator _gelu gelu "
    "tpu_info chip found shape dtype name x lanes rows index count axis fill carry slot i j step "
    "step_1 copies ragged value self cls x_ref q_in_ref out_ref k_in_hbm acc_ref k_in_buf k_in_sem"
).split()


# ---- documents, and names to change in them


def everything():
    """A small document with a string in each place where the format has one."""
    tile, scalar, number = f32("u0", 128), f32(), sym(None)
    loc, index = {"file": "k.py", "line": 3, "code": "s = exp(x)"}, [sym("u0"), sl()]
    config = {"block_sizes": [128], "pallas_loop_type": "fori_loop", "rows": 64}
    doc = Doc(config, name="everything", tunables={"rows": {"default": 64, "choices": [32, 64]}})
    doc.raw["returns"] = [{"tensor": "result", "shape": [256, 128]}]
    doc.tensor("first", "input", "float32", [2, 128, 128])
    doc.tensor("first_flat", "view", "float32", [256, 128], of="first")
    doc.tensor("second", "input", "float32", [512, 128])
    doc.tensor("result", "output", "float32", [2, 128, 128])
    doc.tensor("result_flat", "view", "float32", [256, 128], of="result")
    doc.scalar("scale", "float32").scalar("half", "float32", 0.5)
    doc.block(256, "tile_m", size="rows").block(512, "tile_n")

    def located(g, **fields):
        """Says where the last node of a graph comes from."""
        g.raw["nodes"][-1]["loc"] = loc | fields

    loop, g = G(0, "for_loop", block_ids=[1], carried=[[0, 0]]), G(1, grid=[0])
    acc, _ = loop.arg(tile, "acc"), loop.arg(number, "offset")
    place = loop.host("second", name="y_host"), [sym("u1"), sl()]
    part = loop.call("tile.load", *place, meta=f32("u1", 128), name="part")
    located(loop, code="y[tile_n, :]", line=4)
    kept = loop.call("aten.sum.dim_IntList", part, [0], meta=f32(128), name="kept")
    loop.out(loop.call("aten.add.Tensor", acc, kept, meta=tile, name="acc_1"))
    g.call("tile.load", g.host("first_flat", name="x_host"), index, meta=tile, name="row")
    located(g, line=2)
    first = g.call("aten.exp.default", ref("row"), meta=tile, name="expo")
    located(g)
    start = g.call("tile.begin", sym("u0"), meta=number, name="start")
    bounds, metas = ([0], [512]), {"tuple": [tile]}
    sums = g.call("tile.for_loop", 0, *bounds, [first, start], meta=metas, name="loop")
    value = g.call("getitem", sums, 0, meta=tile, name="sum")
    factors = [g.call("tile.scalar", "scale", meta=scalar, name="factor")]
    factors += [g.call("tile.scalar", "half", meta=scalar, name="fixed")]
    for name, factor in zip(("scaled", "halved"), factors, strict=True):
        value = g.call("aten.mul.Tensor", value, factor, meta=tile, name=name)
    value = g.call("aten.gelu.default", value, meta=tile, name="soft", approximate="none")
    g.call("tile.store", g.host("result_flat", name="out_host"), index, value, name="store")
    return doc.add(loop, g.out())


BASES = {
    "everything": everything(),
    "attention": kit.document("attention"),
    "causal": kit.document("causal_attention"),
    "softmax": kit.document("softmax_two_pass_odd"),
}


def walk(value):
    """Every object in a document."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from walk(item)


def host_names(doc, key, target, change):
    """Renames members of doc[key], and the nodes with that target that name them."""
    names = {}
    for index, member in enumerate(doc.get(key, [])):
        names[member["name"]] = change(index, member["name"])
        member["name"] = names[member["name"]]
    for member in doc.get(key, []) + doc.get("returns", []):
        for field in ("of", "tensor"):
            if member.get(field) in names:
                member[field] = names[member[field]]
    for made in nodes(doc):
        if made.get("target") == target:
            made["args"] = [names[made["args"][0]]]


def nodes(doc):
    return [made for graph in doc["graphs"] for made in graph["nodes"]]


def node_names(doc, change):
    for graph in doc["graphs"]:
        names = {}
        for index, made in enumerate(graph["nodes"]):
            names[made["name"]] = change(index, made["name"])
            made["name"] = names[made["name"]]
        for item in walk([made.get("args") for made in graph["nodes"]]):
            if "ref" in item:
                item["ref"] = names[item["ref"]]


def symbols(doc, names):
    """Renames block symbols and tunables wherever an expression may stand."""

    def expression(text):
        return re.sub(r"[A-Za-z_]\w*", lambda found: names.get(found[0], found[0]), text)

    def visit(value):
        if isinstance(value, dict):
            for key, item in value.items():
                if key in ("sym", "size", "extent", "begin") and isinstance(item, str):
                    value[key] = expression(item)
                elif key == "shape":
                    value[key] = [expression(x) if isinstance(x, str) else x for x in item]
                else:
                    visit(item)
        elif isinstance(value, list):
            for item in value:
                visit(item)

    visit([doc["graphs"], doc["block_sizes"], doc["tensors"]])
    for made in nodes(doc):
        if made.get("target") == "tile.symnode" and isinstance(made["args"][0], str):
            made["args"] = [expression(made["args"][0])]


def block_symbols(doc, change):
    names = {b["symbol"]: change(i, b["symbol"]) for i, b in enumerate(doc["block_sizes"])}
    for block in doc["block_sizes"]:
        block["symbol"] = names[block["symbol"]]
    symbols(doc, names)


def tunable_names(doc, change):
    names = {name: change(i, name) for i, name in enumerate(doc.get("tunables", {}))}
    for table in (doc.get("tunables", {}), doc["config"]):
        for old in [old for old in table if old in names]:
            table[names[old]] = table.pop(old)
    symbols(doc, names)


def block_names(doc, change):
    for index, block in enumerate(doc["block_sizes"]):
        block["name"] = change(index, block["name"])


def document_name(doc, change):
    doc["name"] = change(0, doc["name"])


def located(field):
    def rename(doc, change):
        for index, made in enumerate(nodes(doc)):
            if "loc" in made:
                made["loc"][field] = change(index, made["loc"].get(field, ""))

    return rename


KINDS = {
    "document": document_name,
    "tensor": lambda doc, change: host_names(doc, "tensors", "tile.host_tensor", change),
    "scalar": lambda doc, change: host_names(doc, "scalars", "tile.scalar", change),
    "block_name": block_names,
    "block_symbol": block_symbols,
    "tunable": tunable_names,
    "node": node_names,
    "file": located("file"),
    "code": located("code"),
}
# These must be unique: the second one gets a suffix.
UNIQUE = {"tensor", "scalar", "block_symbol", "tunable", "node"}
# These may only be identifiers.
STRICT = {"document", "block_symbol", "tunable"}


def hostile_and_twin(base, kind, text):
    """The document with `text` in each place of that kind, and the one with plain names there."""
    pair = []
    plain = "plain" if text.strip() else ""
    if kind in UNIQUE or kind in ("document", "block_name"):
        plain = "plain"
    for word in (text, plain):
        doc = copy.deepcopy(base)

        def change(index, old, word=word):
            return f"{word}{index}" if kind in UNIQUE and index else word

        KINDS[kind](doc, change)
        pair.append(doc)
    return pair


# ---- running


@functools.lru_cache(maxsize=64)
def run(text, *options):
    text = text.encode() if isinstance(text, str) else text
    return kit.run(*options, "-", text=text, encoding=None)


def dumps(doc):
    """Odd kinds of text stay as they are in the file: UTF-8, not escaped where JSON lets them."""
    return json.dumps(doc, ensure_ascii=False)


def assert_safe_for_terminals(data, newline=True):
    """Printable characters only: no controls, no overrides, valid UTF-8."""
    text = data.decode("utf-8")
    for character in set(text):
        code = ord(character)
        bad = (
            code < 0x20
            or 0x7F <= code < 0xA0
            or code in (0xAD, 0xFEFF)
            or 0x200B <= code <= 0x200F
            or 0x2028 <= code <= 0x202E
            or 0x2060 <= code <= 0x206F
            or 0xFE00 <= code <= 0xFE0F
            or 0xE0000 <= code <= 0xE0FFF
            or code in (0x34F, 0x61C, 0x115F, 0x1160, 0x180E, 0x3164, 0xFFA0)
        )
        assert not bad or (newline and character == "\n"), f"{code:#x} reaches the terminal"


def assert_refused(result):
    assert result.status == 1, result.err[:500]
    assert result.out == b""
    assert b": error: " in result.err
    assert len(result.err) < 200_000
    assert_safe_for_terminals(result.err)
    for word in (b"AddressSanitizer", b"runtime error", b"please report"):
        assert word not in result.err


# ---- comparing trees


def bound_names(scope):
    """The names that a function or lambda binds, without those of the ones inside it."""
    names = {child.arg for child in ast.walk(scope.args) if isinstance(child, ast.arg)}
    stack = list(scope.body) if isinstance(scope.body, list) else []
    while stack:
        child = stack.pop()
        if isinstance(child, ast.FunctionDef):
            names.add(child.name)
        elif isinstance(child, ast.Name) and not isinstance(child.ctx, ast.Load):
            names.add(child.id)
        elif isinstance(child, ast.alias):
            names.add(child.asname or child.name)
        if not isinstance(child, ast.FunctionDef | ast.Lambda):
            stack.extend(ast.iter_child_nodes(child))
    return names


class Names:
    """A one-to-one map between the spellings of two trees."""

    def __init__(self):
        self.there, self.back = {}, {}

    def same(self, a, b):
        return self.there.setdefault(a, b) == b and self.back.setdefault(b, a) == a


IDENTIFIER_FIELDS = {("Name", "id"), ("arg", "arg")}


class Comparison:
    """Compares two modules; raises AssertionError at the first difference."""

    def __init__(self, own_names):
        self.top = Names()
        self.own = own_names  # the documents' names: those of the functions made of them may differ

    def modules(self, a, b):
        assert len(a.body) == len(b.body), "statements were added"
        names = [[x.name for x in tree.body if isinstance(x, ast.FunctionDef)] for tree in (a, b)]
        for tree_names in names:
            assert len(set(tree_names)) == len(tree_names), f"defined twice: {tree_names}"
        for pair in zip(*names, strict=True):
            own = [
                re.fullmatch(f"{re.escape(w)}|_{re.escape(w)}_(kernel|jit)", n)
                for n, w in zip(pair, self.own, strict=True)
            ]
            assert all(own) or pair[0] == pair[1], pair
            assert self.top.same(*pair)
        self.functions = [set(part) for part in names]
        for x, y in zip(a.body, b.body, strict=True):
            assert type(x) is type(y)
            self.scopes = []
            self.keywords = Names()
            self.parameters = [
                {child.arg for child in ast.walk(tree) if isinstance(child, ast.arg)}
                for tree in (x, y)
            ]
            self.info = isinstance(x, ast.Assign)
            self.nodes(x, y, top=True)

    def identifier(self, a, b):
        for names, mine, other in reversed(self.scopes):
            if a in mine or b in other:
                return a in mine and b in other and names.same(a, b)
        own = [name in known for name, known in zip((a, b), self.functions, strict=True)]
        return self.top.same(a, b) if all(own) else a == b and not any(own)

    def keyword(self, a, b):
        """Of a call of a function inside the same one; other functions are jax's."""
        known = a in self.parameters[0] and b in self.parameters[1]
        return known and self.keywords.same(a, b)

    def nodes(self, a, b, top=False):
        assert type(a) is type(b), f"{ast.dump(a)[:200]} for {ast.dump(b)[:200]}"
        if isinstance(a, ast.Constant):
            self.constant(a.value, b.value)
            return
        if isinstance(a, ast.FunctionDef) and not top:
            assert self.identifier(a.name, b.name), f"{a.name} for {b.name}"
        scope = isinstance(a, ast.FunctionDef | ast.Lambda)
        if scope:
            self.scopes.append((Names(), bound_names(a), bound_names(b)))
        for field in a._fields:
            x, y = getattr(a, field, None), getattr(b, field, None)
            if isinstance(a, ast.keyword) and field == "arg":
                assert x == y or self.keyword(x, y), f"{x} for {y}"
            elif (type(a).__name__, field) in IDENTIFIER_FIELDS:
                assert self.identifier(x, y), f"{x} for {y}"
            elif not (field == "name" and isinstance(a, ast.FunctionDef)):
                self.values(x, y)
        if scope:
            self.scopes.pop()

    def values(self, x, y):
        assert type(x) is type(y), (x, y)
        if isinstance(x, ast.AST):
            self.nodes(x, y)
        elif isinstance(x, list):
            assert len(x) == len(y)
            for item, other in zip(x, y, strict=True):
                self.values(item, other)
        else:
            assert x == y

    def constant(self, x, y):
        assert type(x) is type(y)
        if not isinstance(x, str) or self.info:
            return  # KERNEL_INFO is compared by value
        if x == y:
            return
        mine, other = self.own
        if x.startswith(mine) and other + x[len(mine) :] == y:
            return  # a message that begins with the function's name
        # the parameter's name in a message: the spelling of a local
        names, mine, theirs = self.scopes[-1]
        assert x in mine and y in theirs and names.same(x, y), (x, y)


@functools.lru_cache(maxsize=64)
def tree_of(text):
    tree = ast.parse(text)
    compile(text, "<module>", "exec")
    return tree


def info_of(tree):
    (value,) = [x.value for x in tree.body if isinstance(x, ast.Assign)]
    return ast.literal_eval(value)


def assert_plain_text(module):
    """ASCII, the one kind of line end, nothing that an editor or a terminal would act upon."""
    assert module.endswith(b"\n")
    assert not set(module) - set(range(0x20, 0x7F)) - {0x0A}


def comments(text):
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


def assert_info(hostile, twin, documents):
    infos = [info_of(tree) for tree in (hostile, twin)]
    for info, doc in zip(infos, documents, strict=True):
        named = {t["name"]: t for t in doc["tensors"]}
        inputs = [t["name"] for t in doc["tensors"] if t["role"] in ("input", "inout")]
        assert [entry["name"] for entry in info["inputs"]] == inputs
        outputs = [returned["tensor"] for returned in doc["returns"]]
        assert [entry["name"] for entry in info["outputs"]] == outputs
        for entry in info["inputs"]:
            assert entry["shape"] == named[entry["name"]]["shape"]
        run_time = [s["name"] for s in doc.get("scalars", []) if "value" not in s]
        assert [entry["name"] for entry in info.get("scalars", [])] == run_time
        assert info["name"] == doc["name"]
        for name in doc.get("tunables", {}):
            assert name in info["config"]
    assert list(infos[0]) == list(infos[1])
    for key in ("target", "vmem_bytes", "flops", "hbm_bytes", "compiler", "jax"):
        assert infos[0][key] == infos[1][key]


@functools.lru_cache(maxsize=64)
def lint_codes(text):
    return [finding.code for finding in lint_module(text)]


def assert_same_as_twin(base, kind, text, may_refuse):
    linted = base is BASES["everything"]
    return assert_twins(hostile_and_twin(base, kind, text), kind, may_refuse, linted)


def assert_twins(documents, kind, may_refuse, linted):
    """The first compiles as the second, the harmless one, does; False: it is refused."""
    result = run(dumps(documents[0]))
    if result.status != 0:
        assert may_refuse, result.err.decode()[:500]
        assert_refused(result)
        return False
    assert_safe_for_terminals(result.err)
    twin = run(dumps(documents[1]))
    assert twin.status == 0, twin.err
    assert_plain_text(result.out)
    texts = [x.decode("ascii") for x in (result.out, twin.out)]
    trees = [tree_of(x) for x in texts]
    Comparison([doc["name"] for doc in documents]).modules(*trees)
    assert_info(*trees, documents)
    if kind == "code":  # equal lines may share a comment, and blank ones have none
        assert "#" not in comments(texts[0])
    else:
        assert comments(texts[0]) == comments(texts[1])
    if linted:
        codes = [[code for code in lint_codes(x) if code != "P203"] for x in texts]
        assert codes[0] == codes[1]
    return True


# ---- the tests


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_twins_are_served(base, kind):
    """What the others compare with compiles, whatever the plain names are."""
    documents = hostile_and_twin(BASES[base], kind, "other")
    assert run(dumps(documents[1])).status == 0
    assert assert_same_as_twin(BASES[base], kind, "other", may_refuse=False)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text(name, kind):
    text = HOSTILE[name]
    strict = kind in STRICT
    for base in ("everything", "attention") if len(text) < 1000 else ("everything",):
        assert_same_as_twin(BASES[base], kind, text, may_refuse=strict)


@pytest.mark.parametrize("kind", ["tensor", "scalar", "block_name", "node"])
@pytest.mark.parametrize(
    "words", [KEYWORDS, BUILTINS, MODULE_NAMES], ids=["keyword", "builtin", "module"]
)
def test_words_as_names(words, kind):
    """As many at once as there are such names."""
    for base in ("everything", "attention"):
        for some in batches(BASES[base], kind, words):
            pair = [copy.deepcopy(BASES[base]) for _ in range(2)]
            plain = [f"plain{i}" for i in range(len(some))]
            for doc, table in zip(pair, (some, plain), strict=True):
                KINDS[kind](doc, lambda i, old, table=table: table[i])
            assert_twins(pair, kind, may_refuse=False, linted=base == "everything")


def batches(base, kind, words):
    """Lists of as many words as the document has names of that kind: each word in one at least."""
    numbers = []
    KINDS[kind](copy.deepcopy(base), lambda i, old: numbers.append(i) or old)
    count, words = max(numbers, default=-1) + 1, list(dict.fromkeys(words))
    for first in range(0, len(words) if count else 0, count or 1):
        yield [words[(first + i) % len(words)] for i in range(count)]


@pytest.mark.parametrize("word", [*KEYWORDS, *BUILTINS, *MODULE_NAMES])
def test_words_as_the_name_of_the_function(word):
    for base in ("everything", "softmax"):
        compiled = assert_same_as_twin(BASES[base], "document", word, may_refuse=True)
        assert not (compiled and keyword.iskeyword(word))


@pytest.mark.parametrize("kind", ["block_symbol", "tunable"])
@pytest.mark.parametrize(
    "words", [KEYWORDS, BUILTINS, MODULE_NAMES], ids=["keyword", "builtin", "module"]
)
def test_words_as_symbols(words, kind):
    for word in words:
        assert_same_as_twin(BASES["everything"], kind, word, may_refuse=True)


PAIRS = [
    ("x", "x_1", "x_2", "x_1_1"),
    ("a b", "a_b", "a-b", "a\nb"),
    ("", " ", "_", "\n"),
    ("value", "value_1", "\u00e9", "\u00ea"),
    ("a" * 24, "a" * 25, "a" * 26, "a" * 24 + "_1"),
    ("x_ref", "x", "x_ref_1", "X_REF"),
    ("e\u0301", "\u00e9", "e", "E"),
]


@pytest.mark.parametrize("kind", ["tensor", "scalar", "node"])
@pytest.mark.parametrize("names", PAIRS, ids=range(len(PAIRS)))
def test_names_that_come_out_alike_stay_apart(names, kind):
    """Different text, the same identifier: the tree would not be the twin's if they became one."""
    for base in BASES.values():
        documents = []
        for table in (names, ("p", "q", "r", "s")):
            doc = copy.deepcopy(base)
            KINDS[kind](doc, lambda i, old, table=table: table[i] if i < 4 else f"other_{kind}_{i}")
            documents.append(doc)
        results = [run(dumps(doc)) for doc in documents]
        assert [result.status for result in results] == [0, 0], results[0].err
        trees = [tree_of(result.out.decode()) for result in results]
        Comparison([doc["name"] for doc in documents]).modules(*trees)


def test_all_kinds_at_once():
    for text in HOSTILE.values():
        documents = [copy.deepcopy(BASES["everything"]) for _ in range(2)]
        for kind in set(KINDS) - STRICT:
            for doc, word in zip(documents, (text, f"plain_{kind}"), strict=True):
                unique = f"{word}{{}}" if kind in UNIQUE else word
                mark = {"tensor": "", "scalar": "s"}.get(kind, "")

                def change(i, old, word=word, unique=unique, mark=mark):
                    return word + mark + str(i) if "{}" in unique else word

                KINDS[kind](doc, change)
        results = [run(dumps(doc)) for doc in documents]
        assert [result.status for result in results] == [0, 0], results[0].err[:300]
        trees = [tree_of(result.out.decode()) for result in results]
        Comparison([doc["name"] for doc in documents]).modules(*trees)


SAMPLE = """
KERNEL_INFO = {"name": "f"}


def _f_kernel(x_ref, o_ref):
    def step(i, y):
        return x_ref[i] + y

    z = step(0, 1)
    o_ref[...] = jnp.exp(z)


def f(x):
    _check("x", x)
    return call(_f_kernel, name="f")(x)


def _check(name, x):
    raise TypeError(f"f: {name}")
"""
SAME = [("x_ref", "q"), ("z", "w"), ('{"name": "f"}', '{"name": "g"}'), ("step", "body")]
DIFFERENT = [
    ("z = step(0, 1)", "z = step(0, 1)\n    import os"),
    ("z = step(0, 1)", "z = step(0, 1)\n    print(z)"),
    ("jnp.exp(z)", "jnp.exp(x_ref)"),
    ("jnp.exp(z)", "jnp.log(z)"),
    ("jnp.exp(z)", "(jnp.exp)(z), os"),
    ("z = step(0, 1)", "x_ref = step(0, 1)"),
    ("def step(i, y)", "def step(y, i)"),
    ("raise TypeError", "raise ValueError"),
    ("def _check(name, x)", "def _check(name, TypeError)"),
    ("    z = step", "    jnp = step"),
    ("{name}", "{x}"),
    ("call(", "f("),
    ('"x", x', '"y", x'),
    ("def f(x):", "def f(x, *, y=eval('1')):"),
    ("\n\n\ndef f(x)", "\n\n\n__import__('os')\n\n\ndef f(x)"),
    ('{"name": "f"}', "print()"),
]


@pytest.mark.parametrize("old, new", SAME)
def test_the_comparison_sees_through_names(old, new):
    text = SAMPLE.replace(old, new)
    Comparison(["f", "f"]).modules(ast.parse(text), ast.parse(SAMPLE))


@pytest.mark.parametrize("old, new", DIFFERENT)
def test_the_comparison_finds_differences(old, new):
    text = SAMPLE.replace(old, new)
    assert text != SAMPLE
    with pytest.raises(AssertionError):
        Comparison(["f", "f"]).modules(ast.parse(text), ast.parse(SAMPLE))


# ---- strings that are no names


def set_at(doc, path, value):
    for step in path[:-1]:
        doc = doc[step]
    doc[path[-1]] = value


WORD_PLACES = {
    "format": ["format"],
    "role": ["tensors", 0, "role"],
    "tensor_dtype": ["tensors", 0, "dtype"],
    "tensor_shape": ["tensors", 0, "shape", 0],
    "tensor_of": ["tensors", 1, "of"],
    "tensor_init": ["tensors", 3, "init"],
    "scalar_dtype": ["scalars", 0, "dtype"],
    "scalar_value": ["scalars", 1, "value"],
    "return_tensor": ["returns", 0, "tensor"],
    "return_shape": ["returns", 0, "shape", 0],
    "return_ops": ["returns", 0, "ops"],
    "block_extent": ["block_sizes", 0, "extent"],
    "block_size": ["block_sizes", 0, "size"],
    "block_begin": ["block_sizes", 0, "begin"],
    "tunable_default": ["tunables", "rows", "default"],
    "tunable_choice": ["tunables", "rows", "choices", 0],
    "graph_kind": ["graphs", 0, "kind"],
    "graph_id": ["graphs", 0, "id"],
    "grid": ["graphs", 1, "grid", 0],
    "op": ["graphs", 1, "nodes", 0, "op"],
    "target": ["graphs", 1, "nodes", 2, "target"],
    "argument": ["graphs", 1, "nodes", 2, "args", 0],
    "ref": ["graphs", 1, "nodes", 2, "args", 0, "ref"],
    "sym": ["graphs", 1, "nodes", 3, "args", 0, "sym"],
    "index": ["graphs", 1, "nodes", 1, "args", 1, 0],
    "slice": ["graphs", 1, "nodes", 1, "args", 1, 1, "slice", 0],
    "host_tensor": ["graphs", 1, "nodes", 0, "args", 0],
    "host_scalar": ["graphs", 1, "nodes", 6, "args", 0],
    "enumeration": ["graphs", 1, "nodes", 10, "kwargs", "approximate"],
    "meta_dtype": ["graphs", 1, "nodes", 2, "meta", "dtype"],
    "meta_shape": ["graphs", 1, "nodes", 2, "meta", "shape", 0],
    "meta_sym": ["graphs", 1, "nodes", 3, "meta", "sym"],
    "loc_line": ["graphs", 1, "nodes", 2, "loc", "line"],
    "config_word": ["config", "pallas_loop_type"],
    "config_size": ["config", "block_sizes", 0],
    "config_tunable": ["config", "rows"],
    "dtype_argument": ["graphs", 1, "nodes", 2, "args", 0, "dtype"],
    "float_argument": ["graphs", 1, "nodes", 8, "args", 1],
}


@pytest.mark.parametrize("place", WORD_PLACES)
def test_words_of_the_format(place):
    """Where the format knows the words, no other is taken."""
    for name, text in HOSTILE.items():
        if place in EXPRESSIONS and name == "digits":
            continue  # a size may be a string
        doc = copy.deepcopy(BASES["everything"])
        value = {"float": text} if place == "float_argument" else text
        set_at(doc, WORD_PLACES[place], value)
        assert_refused(run(dumps(doc)))


EXPRESSIONS = {"block_begin", "block_size", "block_extent"}

KEY_PLACES = {
    "document": [],
    "tensor": ["tensors", 0],
    "scalar": ["scalars", 0],
    "return": ["returns", 0],
    "block": ["block_sizes", 0],
    "tunable": ["tunables", "rows"],
    "graph": ["graphs", 0],
    "node": ["graphs", 1, "nodes", 2],
    "meta": ["graphs", 1, "nodes", 2, "meta"],
    "loc": ["graphs", 1, "nodes", 2, "loc"],
    "kwargs": ["graphs", 1, "nodes", 10, "kwargs"],
    "argument": ["graphs", 1, "nodes", 2, "args", 0],
    "config": ["config"],
    "annotations": ["annotations"],
}


@pytest.mark.parametrize("place", KEY_PLACES)
def test_keys(place):
    """A key that the format does not have is refused, and one that starts with x_ is nothing."""
    base = {**BASES["everything"], "annotations": {}}
    plain = run(dumps(base))
    assert plain.status == 0, plain.err
    for text in HOSTILE.values():
        doc = copy.deepcopy(base)
        inner = doc
        for step in KEY_PLACES[place]:
            inner = inner[step]
        inner[text] = text
        assert_refused(run(dumps(doc)))
        if place in ("kwargs", "argument"):
            continue
        del inner[text]
        inner["x_" + text] = text
        assert run(dumps(doc)).out == plain.out, text[:40]


def test_a_string_with_a_nul_is_refused():
    for path in (["name"], ["tensors", 0, "name"], ["block_sizes", 0, "name"]):
        doc = copy.deepcopy(BASES["everything"])
        set_at(doc, path, "x\0import os")
        assert_refused(run(json.dumps(doc)))


def test_bytes_that_are_no_utf8_are_refused():
    text = dumps(BASES["everything"]).encode()
    for bad in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80", b"\xe2\x80"):
        assert_refused(run(text.replace(b"tile_m", bad)))


def test_lone_surrogates_are_refused():
    for bad in ("\\ud800", "\\udc00", "\\udc00\\ud800"):
        assert_refused(run(dumps(BASES["everything"]).replace("tile_m", bad)))


NUMBERS = ["1e308", "-1e308", "1e-320", "0.1", "-0.0", "3", "1e16", "123456789.123456789"]
NUMBERS += ['{"float": "inf"}', '{"float": "-inf"}', '{"float": "nan"}']


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_are_literals(number):
    text = dumps(BASES["everything"]).replace('"value": 0.5', f'"value": {number}')
    result = run(text)
    if result.status:
        assert_refused(result)
    else:
        assert_plain_text(result.out)
        tree_of(result.out.decode())


# ---- other inputs, other outputs


@pytest.mark.parametrize("field", ["name", "device_kind", "topology"])
def test_strings_of_a_target_file(tmp_path, field):
    plain = run(dumps(BASES["everything"])).out.decode()
    for text in HOSTILE.values():
        (tmp_path / "chip.json").write_text(dumps({"base": "v6e", field: text}))
        result = run(dumps(BASES["everything"]), f"--target={tmp_path / 'chip.json'}")
        if result.status:
            assert_refused(result)
            continue
        assert_plain_text(result.out)
        trees = [tree_of(x) for x in (result.out.decode(), plain)]
        assert len(trees[0].body) == len(trees[1].body), "statements were added"
        for x, y in zip(*(tree.body for tree in trees), strict=True):
            assert type(x) is type(y)
            if isinstance(x, ast.FunctionDef):
                assert ast.dump(x) == ast.dump(y)
        info = info_of(trees[0])
        assert info["target"] == (text if field == "name" else "v6e")


@pytest.mark.parametrize("kind", sorted(set(KINDS) - STRICT))
@pytest.mark.parametrize("output", ["report", "explain", "verbose", "json", "plan", "dot"])
def test_other_outputs(output, kind):
    """Nothing that a terminal would act upon; JSON stays JSON."""
    for name, text in HOSTILE.items():
        if len(text) > 1000 and name != "long_name":
            continue
        hostile, _ = hostile_and_twin(BASES["everything"], kind, text)
        options = {"explain": ["--explain", "--emit=none"], "verbose": ["-v", "--emit=none"]}
        result = run(dumps(hostile), *options.get(output, [f"--emit={output}"]))
        assert result.status == 0, result.err
        if output in ("json", "plan"):
            json.loads(result.out)
        if output in ("json", "plan", "dot"):  # for programs: as JSON has it, but no controls
            assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", result.out.decode())
        else:
            assert_safe_for_terminals(result.out)
        assert_safe_for_terminals(result.err)


@pytest.mark.parametrize("name", HOSTILE)
def test_the_graph_survives_a_round_trip(name):
    """--emit=json gives a document with the same names, which compiles to the same module."""
    doc = copy.deepcopy(BASES["everything"])
    for kind in ("tensor", "scalar", "block_name", "file", "code"):
        doc = hostile_and_twin(doc, kind, HOSTILE[name] + kind)[0]
    passes = run(dumps(doc), "--emit=json")
    assert passes.status == 0, passes.err
    again = json.loads(passes.out)
    assert [t["name"] for t in again["tensors"]] == [t["name"] for t in doc["tensors"]]
    assert [b["name"] for b in again["block_sizes"]] == [b["name"] for b in doc["block_sizes"]]
    assert run(passes.out.decode()).out == run(dumps(doc)).out


def test_diagnostics_of_hostile_text_are_safe():
    """Each string in a message, in the line shown, in a hint: as text and as JSON lines."""
    for text in HOSTILE.values():
        doc = copy.deepcopy(BASES["everything"])
        KINDS["node"](doc, lambda i, old, text=text: f"{text}{i}")
        KINDS["tensor"](doc, lambda i, old, text=text: f"{text}{i}")
        nodes(doc)[5]["meta"]["dtype"] = "int32"  # named in the message
        for form in ("text", "json"):
            result = run(dumps(doc), f"--diagnostics={form}", "--emit=none", "--color=never")
            assert result.status == 1
            assert_safe_for_terminals(result.err)
            assert len(result.err) < 50_000 or form == "json"
            if form == "json":
                for line in result.err.decode().split("\n")[:-1]:
                    json.loads(line)


def test_file_names_and_options_are_safe():
    for text in HOSTILE.values():
        if len(text) > 1000 or not text:
            continue
        for options in (
            [f"no{text}.json"],
            [f"--emit={text}"],
            [f"--target={text}"],
            [f"--target={text}.json"],
            [f"--set={text}"],
            [f"--set={text}=1"],
            [f"--set=pallas_loop_type={text}"],
            [f"--config=no{text}"],
            [f"--passes={text}"],
            [f"--{text}"],
            ["-o", f"/nowhere/{text}"],
        ):
            result = run(dumps(BASES["softmax"]), *options)
            assert_safe_for_terminals(result.err)
            assert_safe_for_terminals(result.out)


# ---- random text

ANYTHING = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
SHARP = [*"\"'\\\n\r\u2028\x85\x0c\x1b\u202e#{}()[];:,=@ x1_", '"""', "'''", "%s", "import os"]
PIECES = st.lists(st.sampled_from(SHARP), max_size=12).map("".join)
BOUNDED = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


@pytest.mark.parametrize("kind", KINDS)
@given(text=ANYTHING | PIECES)
@BOUNDED
def test_random_text(kind, text):
    assert_same_as_twin(BASES["everything"], kind, text, may_refuse=kind in STRICT)


@given(texts=st.lists(ANYTHING | PIECES, min_size=19, max_size=19, unique=True))
@BOUNDED
def test_random_names_for_all_nodes(texts):
    documents = []
    for table in (texts, [f"n{i}" for i in range(19)]):
        doc = copy.deepcopy(BASES["everything"])
        node_names(doc, lambda i, old, table=table: table[i])
        documents.append(doc)
    results = [run(dumps(doc)) for doc in documents]
    assert [result.status for result in results] == [0, 0], results[0].err
    trees = [tree_of(result.out.decode("ascii")) for result in results]
    Comparison([doc["name"] for doc in documents]).modules(*trees)
