"""Draws docs/pictures/*.svg from what the compiler says of itself and of its kernels.

stages   the stages, with the passes, choices and rewrites that their tables list
window   which buffer of a copied window holds which step when: a fori_loop, of --emit=kernel
skewed   what a skewed loop runs before its steps, in them, behind them and in the tail
rooms    which room includes headers of which: the table of docs/design.md, and the sources

With --check it writes nothing: exit status 1 if a picture is out of date.
"""

import re
import subprocess
import sys
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "pictures"
WIDTH = 960
STYLE = """
text { font: 13px ui-sans-serif, "Segoe UI", Helvetica, Arial, sans-serif; fill: #24292f }
.code { font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, monospace }
.small { font-size: 11px }
.tiny { font-size: 10px }
.bold { font-weight: 600 }
.faint { fill: #6e7781 }
.middle { text-anchor: middle }
.end { text-anchor: end }
.onfill { fill: #ffffff }
.box { fill: #eaeef2; stroke: #8c959f }
.line { stroke: #8c959f; fill: none }
.grid { stroke: #d0d7de; fill: none }
.arrow { fill: #8c959f }
.a { fill: #0969da }
.b { fill: #bc4c00 }
.pale { fill-opacity: 0.2 }
.half { fill-opacity: 0.45 }
.wrong { fill: #cf222e }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.faint { fill: #9198a1 }
.box { fill: #212830; stroke: #656c76 }
.line { stroke: #656c76 }
.grid { stroke: #30363d }
.arrow { fill: #9198a1 }
.a { fill: #4493f8 }
.b { fill: #db6d28 }
.onfill { fill: #0d1117 }
}"""


class Picture:
    """Shapes, and how far down they reach."""

    def __init__(self):
        self.parts = []
        self.height = 0

    def put(self, bottom, text):
        """A shape that ends at `bottom`."""
        self.height = max(self.height, bottom)
        self.parts.append(text)

    def text(self, x, y, words, classes=""):
        """Words on a base line."""
        self.put(y + 5, f'<text x="{x:g}" y="{y:g}" class="{classes}">{escape(words)}</text>')

    def box(self, x, y, width, height, classes="box", title=""):
        """A rectangle; its title is what a mouse over it shows."""
        title = f"<title>{escape(title)}</title>" if title else ""
        self.put(
            y + height,
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" '
            f'class="{classes}">{title}</rect>',
        )

    def line(self, x, y, to_x, to_y, classes="line"):
        """A line."""
        self.put(max(y, to_y), f'<path d="M{x:g} {y:g}L{to_x:g} {to_y:g}" class="{classes}"/>')

    def arrow(self, x, y, to_x, to_y):
        """A line to the right or down, with a head at its end."""
        self.line(x, y, to_x, to_y)
        head = "l-7 -4v8z" if to_y == y else "l-4 -7h8z"
        self.put(to_y, f'<path d="M{to_x:g} {to_y:g}{head}" class="arrow"/>')

    def svg(self):
        """The file's text."""
        height = self.height + 8
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" '
                f'width="{WIDTH}" height="{height:g}">',
                f"<style>{STYLE}</style>",
                *self.parts,
                "</svg>",
                "",
            ]
        )


def table(path, row):
    """The names of the rows of a .def file."""
    pattern = rf"^{row}\((?:MODULE, |PLAN, )?(\w+)"
    return re.findall(pattern, (ROOT / path).read_text(), re.MULTILINE)


def kernel(*options):
    """The lines of a kernel as text, those of its body."""
    command = [ROOT / "pallasc", "--emit=kernel", *options]
    text = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return text[text.index("\nkernel ") :].splitlines()


# ---- the stages ----------------------------------------------------------------------------------


def stages():
    """A column for each thing that a stage makes; what makes it stands in the arrow."""
    p = Picture()
    passes = table("passes/pipeline/passes.def", "PASS")
    rewrites = table("codegen/rewrite/rewrites.def", "REWRITE")
    choices = [name.lower() for name in table("include/choices.def", "CHOICE")]
    emits = re.search(
        r"names\[\] = \{(.*?),\s+NULL", (ROOT / "src/driver/compile.c").read_text(), re.DOTALL
    ).group(1)
    shown = {
        "Module": ("json", "dot"),
        "Plan": ("plan", "report"),
        "Kernel": ("kernel", "operations"),
        "Python": ("python", "html"),
    }
    assert set(re.findall(r'"(\w+)"', emits)) == {
        name for names in shown.values() for name in names
    } | {"none"}
    columns = [
        ("JSON", "the document", []),
        ("Module", "the graph in memory", [("passes: Module to Module", passes)]),
        ("Plan", "every decision", [("choices of the search", choices)]),
        ("Kernel", "what runs on the chip", [("rewrites: Kernel to Kernel", rewrites)]),
        ("Python", "a Pallas module", []),
    ]
    arrows = ["load\nverify", "search\nplan", "build", "name\nprint"]
    width, gap = 128, 79
    for i, (name, about, lists) in enumerate(columns):
        x = 2 + i * (width + gap)
        p.box(x, 24, width, 48)
        p.text(x + width / 2, 44, name, "bold middle")
        p.text(x + width / 2, 61, about, "small faint middle")
        y = 90
        for emit in shown.get(name, ()):
            p.text(x + width / 2, y, f"--emit={emit}", "code small faint middle")
            y += 16
        y = 138
        for title, names in lists:
            p.text(x + 8, y, title, "small bold")
            p.line(x + 2, y - 12, x + 2, y + 16 * len(names) + 4)
            for row in names:
                y += 16
                p.text(x + 8, y, row, "code small")
        if i < len(arrows):
            p.arrow(x + width + 4, 48, x + width + gap - 4, 48)
            for k, word in enumerate(arrows[i].split("\n")):
                p.text(x + width + gap / 2, 40 + 24 * k, word, "small middle")
    return p


# ---- a window's life -----------------------------------------------------------------------------

FORI = [
    "testdata/graphs/attention.json",
    "--set",
    "pallas_loop_type=fori_loop",
    "--set",
    "pallas_fori_dma=on",
]


def blocks(lines):
    """{head: its lines} of the functions at the top of a kernel, and the other lines."""
    functions, rest, head = {}, [], None
    for line in lines:
        if head is None and line.startswith("  def "):
            head = re.match(r"  def (\w+)", line).group(1)
            functions[head] = []
        elif head and line == "  }":
            head = None
        else:
            (functions[head] if head else rest).append(line)
    return functions, rest


class Events:
    """Runs a kernel's text: (part, start or wait or call, window, slot, step or function)."""

    def __init__(self, functions, counts):
        self.functions, self.counts = functions, counts
        self.at, self.copies, self.part = [], {}, "before"

    def number(self, text, names):
        """The value of an integer expression."""
        known = {"rem": lambda a, b: a % b, "min": min, "max": max}
        return eval(text, {"__builtins__": {}}, known | names)

    def run(self, lines, names):
        """Statements in order; those of a `when` that does not hold are left out."""
        skip = False
        for line in map(str.strip, lines):
            if match := re.match(r"when \((.*)\) \w+ {", line):
                skip = not self.number(match.group(1), names)
            elif line == "}":
                skip = False
            elif not skip:
                self.statement(line, names)

    def statement(self, line, names):
        """One line."""
        if match := re.match(r"(\w+) = int \((.*)\) : int", line):
            names[match.group(1)] = self.number(match.group(2), names)
        elif match := re.match(r"(%\d+) = call (\w+)_copy\(\((.*)\)\) : copy", line):
            self.copies[match.group(1)] = match.group(2), self.number(match.group(3), names)
        elif match := re.match(r"(start|wait) (%\d+)", line):
            window, step = self.copies[match.group(2)]
            self.at.append((self.part, match.group(1), window, step % self.counts[window], step))
        elif match := re.search(r"= call (\w+)\(.*?(\w+)_buf\[(.*?)\]", line):
            slot = self.number(match.group(3), names)
            self.at.append((self.part, "call", match.group(2), slot, match.group(1)))
        elif match := re.search(r"= fori \((\d+)\) (\w+)\(", line):
            for j in range(int(match.group(1))):
                self.part = f"j = {j}"
                self.run(self.functions[match.group(2)], {"j": j})
            self.part = "behind"


def window():
    """Buffers downwards, what the kernel does with them to the right, in program order."""
    lines = kernel(*FORI)
    functions, rest = blocks(lines)
    counts = {
        n: int(c) for n, c in re.findall(r"scratch (\w+)_buf vmem \w+\[(\d+),", "\n".join(lines))
    }
    events = Events(functions, counts)
    events.run([line for line in rest if line.startswith("  ")], {})
    left, top, height = 92, 66, 46
    step = (WIDTH - left - 4) / len(events.at)
    order = [(w, slot) for w in counts for slot in range(counts[w])]
    bottom = top + len(order) * height
    p = Picture()
    for row, (name, slot) in enumerate(order):
        y = top + row * height
        p.line(left, y, WIDTH - 4, y, "grid")
        p.text(left - 8, y + height / 2 + 4, f"{name}_buf[{slot}]", "code small end")
    p.line(left, bottom, WIDTH - 4, bottom, "grid")
    started, before = {}, None
    for i, (part, what, name, slot, about) in enumerate(events.at):
        x, y = left + i * step, top + order.index((name, slot)) * height
        if part != before:
            p.line(x, 14, x, bottom, "line")
            p.text(x + 5, 24, part, "bold small")
            before = part
        shade, letter = "ab"[name[0] == "v"], name[0].upper()
        if what == "start":
            started[name, slot] = x, about
        elif what == "wait":
            begin, about = started[name, slot]
            p.box(begin + 2, y + 7, x + step - begin - 4, height - 14, f"{shade} pale")
            p.text(begin + 7, y + height / 2 + 4, f"{letter}{about}", "small")
            started[name, slot] = x + step, about
        else:
            begin, holds = started[name, slot]
            if x > begin:
                p.box(begin - 2, y + 7, x - begin + 4, height - 14, f"{shade} half")
            p.box(x + 2, y + 7, step - 4, height - 14, shade)
            p.text(x + step / 2, y + height / 2 + 4, f"{letter}{holds}", "small bold middle onfill")
            about = "ahead" if "ahead" in about else "step"
        p.text(x + step / 2, 44, "read" if what == "call" else what, "small middle faint")
        p.text(
            x + step / 2, 57, about if what == "call" else f"{letter}{about}", "small middle faint"
        )
    x, y = left, bottom + 24
    for shade, words in (
        ("a pale", "on its way: from the start of its copy to the wait"),
        ("a half", "there"),
        ("a", "read by a step function; then the buffer is free for the next copy"),
    ):
        p.box(x, y - 12, 26, 16, shade)
        p.text(x + 32, y, words, "small")
        x += 52 + 6 * len(words)
    return p


# ---- a skewed loop -------------------------------------------------------------------------------

RAGGED = [
    "testdata/graphs/attention_b1_h2_s421_d128.json",
    *FORI[1:],
    *("--set", "block_sizes=[1,128,128]", "--rewrites=masks,peel,split,skew"),
]


def step_ops(lines):
    """The ops of a function, without loads and the masks of the ragged step."""
    ops = re.findall(r"^ +[\w%, ]+ = (\w+) ", "\n".join(lines), re.MULTILINE)
    return [op for op in ops if op not in ("load", "mask", "choose")]


def skewed_calls(rest):
    """[(column, function, step)] of the regions of the one loop, in the order of running."""
    runs = next(
        int(match.group(1)) for line in rest if (match := re.match(r" +runs \((\d+)\)", line))
    )
    found, part = {}, "in"
    for line in rest:
        if match := re.match(r"    (before|behind|tail) {", line):
            part = match.group(1)
        elif line == "    }":
            part = "in"
        elif match := re.search(r"= call (\w+)\(.*?_win\[\.\.\.\] at \((.*?)\)", line):
            found.setdefault(part, []).append(match.groups())
    calls = [("before", f, int(at)) for f, at in found["before"]]
    for j in range(runs):
        calls += [(f"iteration j = {j}", f, eval(at, {"j": j})) for f, at in found["in"]]
    return calls + [(part, f, int(at)) for part in ("behind", "tail") for f, at in found[part]]


def skewed():
    """Time to the right, steps downwards: each step's two halves, and what passes between them."""
    lines = kernel(*RAGGED)
    functions, rest = blocks(lines)
    calls = skewed_calls(rest)
    columns = list(dict.fromkeys(column for column, _, _ in calls))
    steps = max(step for _, _, step in calls) + 1
    left, top, height = 66, 40, 130
    width = (WIDTH - left - 4) / (
        len(columns) + 1
    )  # the tail takes two: it runs one after the other
    place = {}
    p = Picture()
    for i, column in enumerate(columns):
        x = left + i * width
        p.line(x, 8, x, top + steps * height, "grid")
        p.text(x + 8, 24, column, "bold small")
    for step in range(steps):
        y = top + step * height
        p.line(left, y, WIDTH - 4, y, "grid")
        p.text(left - 8, y + 24, f"step {step}", "bold small end")
        p.text(
            left - 8, y + 40, "ragged" if ("tail", "step", step) in calls else "", "small faint end"
        )
    for column, function, step in calls:
        x = (
            left
            + columns.index(column) * width
            + (width if (column, function) == ("tail", "step") else 0)
        )
        y = top + step * height
        place[function, step] = x, y
        p.box(x + 8, y + 10, width - 24, height - 20)
        p.text(x + 16, y + 27, function, "code small bold")
        at_x, at_y = x + 14, y + 36
        for op in step_ops(functions[function]):
            wide = 6.1 * len(op) + 6
            if at_x + wide > x + width - 19:
                at_x, at_y = x + 14, at_y + 17
            p.box(at_x, at_y, wide, 14, "b" if op == "dot" else "a pale")
            p.text(
                at_x + wide / 2,
                at_y + 11,
                op,
                f"code tiny middle {'onfill bold' if op == 'dot' else ''}",
            )
            at_x += wide + 3
    for step in range(steps):
        (x, y), (to_x, to_y) = place["step_ahead", step], place["step", step]
        p.arrow(x + width - 16, y + 22, to_x + 8, y + 22)
        if step:
            x, y = place["step", step - 1]
            p.line(x + width - 16, y + height - 30, to_x + width / 2, y + height - 30)
            p.arrow(to_x + width / 2, y + height - 30, to_x + width / 2, to_y + 10)
    handed = re.search(r"= call step\((.*?), \w+_win", "\n".join(rest)).group(1)
    y = top + steps * height + 22
    for x, shade, words in (
        (left, "b", "on the MXU"),
        (left + 120, "a pale", "on the vector unit"),
    ):
        p.box(x, y - 11, 28, 14, shade)
        p.text(x + 34, y, words, "small")
    p.text(
        left + 290, y, f"to the right: {handed} are handed on; down: what the loop carries", "small"
    )
    return p


# ---- the rooms -----------------------------------------------------------------------------------


def rooms_in_order():
    """The folders of docs/design.md's table, from the bottom up."""
    page = (ROOT / "docs" / "design.md").read_text()
    return re.findall(r"^\| `((?:src|passes|codegen)/\w+)` \|", page, re.MULTILINE)


def includes(room):
    """The rooms of which files of this one include headers."""
    found = set()
    for path in (ROOT / room).glob("*.[ch]"):
        found |= set(re.findall(r'^#include "(\w+/\w+)/', path.read_text(), re.MULTILINE))
    return sorted(found - {room})


def rooms():
    """A square for each pair of rooms; what stands right of the diagonal would be a circle."""
    order = rooms_in_order()
    cell, left, top = 21, 206, 150
    end = left + cell * len(order)
    p = Picture()
    p.text(2, 20, "A square: the room (left) includes headers of the room (above).", "small")
    p.text(2, 36, "None stands right of the diagonal.", "small")
    for i, room in enumerate(order):
        y = top + i * cell
        shade = "b" if room.startswith("passes") else "a"
        p.line(2, y, left + (i + 1) * cell, y, "grid")
        p.text(left - 8, y + 15, room, "code small end")
        x = left + i * cell
        p.line(x, top, x, top + len(order) * cell, "grid")
        p.put(
            top,
            f'<text transform="translate({x + 14} {top - 6}) rotate(-60)" class="code small">'
            f"{escape(room)}</text>",
        )
        p.box(x, y, cell, cell, "box")
        for other in includes(room):
            column = order.index(other)
            classes = f"{shade} half" if column < i else "wrong"
            p.box(left + column * cell + 3, y + 3, cell - 6, cell - 6, classes, f"{room}: {other}")
    p.line(left, top + len(order) * cell, end, top + len(order) * cell, "grid")
    return p


PICTURES = {"rooms": rooms, "stages": stages, "window": window, "skewed": skewed}


def main():
    """Writes or checks."""
    for name, draw in PICTURES.items():
        path, new = FOLDER / f"{name}.svg", draw().svg()
        if sys.argv[1:] != ["--check"]:
            FOLDER.mkdir(exist_ok=True)
            path.write_text(new)
        elif not path.exists() or path.read_text() != new:
            sys.exit(f"{path} is out of date: run make docs")


if __name__ == "__main__":
    main()
