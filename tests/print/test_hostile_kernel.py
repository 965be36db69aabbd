"""Text from a graph, or from kernel text, is data in kernel text and in the module made of it."""

import copy
import json
import re

import pytest
import test_hostile_text as hostile
from test_hostile_text import BASES, HOSTILE, KINDS, STRICT, UNIQUE, Comparison, run

SHORT = [name for name, text in HOSTILE.items() if len(text) < 1000]
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def everywhere(text):
    """The document with `text` in all places that take any text."""
    doc = copy.deepcopy(BASES["everything"])
    for kind in sorted(set(KINDS) - STRICT):
        mark = {"tensor": "", "scalar": "s"}.get(kind, "")

        def change(i, old, kind=kind, mark=mark):
            return text + mark + str(i) if kind in UNIQUE else text

        KINDS[kind](doc, change)
    return doc


def kernel_of(doc, *options):
    made = run(hostile.dumps(doc), "--emit=kernel", *options)
    assert made.status == 0, made.err
    hostile.assert_safe_for_terminals(made.out)
    return made.out.decode()


@pytest.mark.parametrize("name", SHORT)
def test_kernel_text_of_a_graph(name):
    """It is read again as it stands, and is the module that a harmless twin is."""
    text, twin = kernel_of(everywhere(HOSTILE[name])), kernel_of(everywhere("plain"))
    assert text.count("\n") == twin.count("\n") or not HOSTILE[name].strip()  # lines of blank code
    assert run(text, "--emit=kernel").out.decode() == text
    modules = [run(each).out for each in (text, twin)]
    for module in modules:
        hostile.assert_plain_text(module)
    trees = [hostile.tree_of(module.decode()) for module in modules]
    Comparison(["everything", "everything"]).modules(*trees)


TEXT = (hostile.kit.KERNELS / "constructs.kernel").read_text()
TEXTS = {"constructs": TEXT, "everything": kernel_of(BASES["everything"])}


def strings(text):
    """(start, end) of the strings of a kernel text, but for those in comments."""
    lines = {m.start() for m in re.finditer("#", text)}
    found = [m.span() for m in STRING.finditer(text)]
    return [
        span for span in found if not any(text.rfind("\n", 0, span[0]) < c < span[0] for c in lines)
    ]


@pytest.mark.parametrize("base", TEXTS)
def test_strings_of_kernel_text(base):
    """Each is replaced by some: it is refused, or its module is a harmless twin's."""
    text, compiled = TEXTS[base], 0
    assert strings(text)
    for number, (start, end) in enumerate(strings(text)):
        for name in SHORT[number % 8 :: 8]:
            ran = [
                run(text[:start] + json.dumps(word) + text[end:])
                for word in (HOSTILE[name], "plain")
            ]
            hostile.assert_safe_for_terminals(ran[0].err)
            if ran[0].status:
                hostile.assert_refused(ran[0])
                continue
            compiled += 1
            hostile.assert_plain_text(ran[0].out)
            trees = [hostile.tree_of(made.out.decode()) for made in ran if made.status == 0]
            assert_same_shape(trees[0], trees[-1])
    assert compiled


def assert_same_shape(a, b):
    """The same kinds of nodes in the same places: text differs in names and literals alone."""
    kinds = [[type(n).__name__ for n in hostile.ast.walk(tree)] for tree in (a, b)]
    assert kinds[0] == kinds[1]


WORD = re.compile(r"(?<![\w%\".])[A-Za-z_]\w*")


@pytest.mark.parametrize("name", SHORT)
def test_names_of_kernel_text(name):
    """A name that is no word of the text is an error with a place, or the name that it is."""
    text = TEXTS["everything"]
    first = {found[0]: found for found in reversed([*WORD.finditer(text)])}
    for found in [*first.values()][SHORT.index(name) % 12 :: 12]:
        changed = text[: found.start()] + HOSTILE[name] + text[found.end() :]
        ran = run(changed)
        hostile.assert_safe_for_terminals(ran.err)
        if ran.status == 0:
            hostile.assert_plain_text(ran.out)
            hostile.tree_of(ran.out.decode())


@pytest.mark.parametrize("name", SHORT)
def test_scopes_and_prints(name):
    """Names of lines and of values that stand in strings of the module."""
    docs = [everywhere(text) for text in (HOSTILE[name], "plain")]
    for options in (["--named-scopes"], ["--debug-print"]):
        modules = []
        for doc in docs:
            node = doc["graphs"][1]["nodes"][2]["name"]
            given = [f"--debug-print={node}"] if options == ["--debug-print"] else options
            if "," in node or "\0" in node:
                break
            modules.append(run(hostile.dumps(doc), *given))
        if len(modules) < 2 or modules[0].status:
            hostile.assert_safe_for_terminals(modules[0].err if modules else b"")
            continue
        assert modules[1].status == 0, modules[1].err
        hostile.assert_plain_text(modules[0].out)
        trees = [hostile.tree_of(m.out.decode()) for m in modules]
        assert_same_shape(*trees)


@pytest.mark.parametrize("name", SHORT)
def test_lines_of_a_sweep(name):
    ran = run(hostile.dumps(everywhere(HOSTILE[name])), "--sweep", "--sample=3")
    hostile.assert_safe_for_terminals(ran.out)
    hostile.assert_safe_for_terminals(ran.err)
    for line in ran.out.decode().splitlines():
        json.loads(line)
