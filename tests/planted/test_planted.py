"""Faults: what is planted where, and that C text with each is as it should be."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import faults
import planted

TEXT = """/* a < b in a comment */
#define LESS(a, b) ((a) < (b))
static const int table[] = {1, 2};

static bool near(int a, const char *text) {
	int b = 1; // one
	b += a;
	if (a < b && text)
		call(a, b, "x < y");
	return true;
}
"""


def planted_in(text):
    return {(f.kind, f.old, f.new) for f in faults.faults(text)}


def test_each_kind_is_planted():
    assert planted_in(TEXT) == {
        ("constant", "1", "2"),
        ("constant", "1", "0"),
        ("operator", "+=", "-="),
        ("statement", "b += a;", ";"),
        ("condition", "if (a < b && text)", "if (!(a < b && text))"),
        ("comparison", "<", "<="),
        ("logic", "&&", "||"),
        ("statement", 'call(a, b, "x < y");', ";"),
        ("operands", 'call(a, b, "x < y")', 'call(b, a, "x < y")'),
        ("logic", "true", "false"),
    }


def test_a_fault_replaces_what_it_says():
    for fault in faults.faults(TEXT):
        assert TEXT[fault.at : fault.at + len(fault.old)] == fault.old
        assert fault.function == "near"


def test_rooms_have_faults_in_every_file_with_functions():
    for room in planted.ROOMS:
        paths = sorted(planted.ROOT.glob(f"{room}/*.c"))
        assert paths
        for path in paths:
            text = path.read_text()
            assert bool(faults.faults(text)) == any(True for _ in faults.functions(text)), path


def test_what_is_known_of_faults_is_whole():
    for entry in planted.read_results():
        assert entry["ended"] in ("killed", "survived", "same code")
        assert (entry["ended"] == "killed") == ("by" in entry)
        assert "why" not in entry or entry["ended"] == "survived"
