"""docs/coverage.md, from the rows and tests/whole/coverage/results.json."""

import re

import proof

from coverage import floors, holds, results
from coverage import row as coverage

PATH = proof.ROOT / "docs" / "coverage.md"
MIB = 1 << 20
HEAD = """# Coverage

Written by `make coverage` from tests/whole/coverage/rows and what it measured
(tests/whole/coverage/results.json); nothing in it is edited by hand. {versions}. There was no TPU.

{count} kernels. Each is simulated at a friendly and an odd size, in each loop type that makes
sense, under two or more configurations, and compared with the reference interpreter and with an
independent float64 formula; the production size is compiled by the real TPU compiler:
{measured} of {asked} pairs of kernel and chip so far. {low} of them use more VMEM than predicted
(**bold**), within the chip's limit. "-" is not measured yet.

- Sizes: the inputs' shapes: friendly; odd; **production**. `b` bfloat16, `f` float32, `i` and `u`
  ints, `e` float8.
- Error: the worst of all runs as a share of what is allowed (1 would just pass): against the
  reference, the formula. Where data steer the kernel they are mixed: of uniform numbers, of a Zipf
  law, and of few or none (empty groups, one index for all, no flag). Each small graph then runs
  under each of these alone too, in its loop types in turn: a line each. Cycles are of mixed data.
- VMEM: MiB that the compiler reports / that pallasc predicts, of the production kernel under its
  own configuration, its arrays in HBM.
- Cycles: thousands, of that kernel, estimated by executing the compiler's schedule
  ([profile](profile.md)): good for ratios, not absolute; another loop type may be faster
  ([serving](serving.md) names it where it is). `?`: it could not be followed, or it would be below
  the floor: a loop was missed, or XLA brings an array into VMEM before the kernel.
- Floor: thousands of cycles of v7x that no kernel of that size is below; "times the floor" are the
  cycles on v5e, v6e, v7x as multiples of each chip's. It is the longer of two times: that of the
  graph's matmuls at the MXU's peak (of float32 too as of bfloat16, in one pass; int8 x int8 at
  twice that rate on v5e and v6e, float8 x float8 on v7x), and that of reading every input and
  writing every output once at full HBM bandwidth. What scalar and vector units do is not in it. Of
  causal attention, other triangles and x @ x.T half counts. Where data steer the kernel (gathers,
  groups of rows, pages, lists of work) it is of what these data name: rows, pages up to a
  sequence's end and weights that are used, each once, and matmuls of real rows. Masks alone leave
  nothing out.
- Other loops: the other loop types of the production size, on v7x: VMEM used / predicted. "over
  VMEM": pallasc refuses it there and says what does not fit.
- Helion: its own result for the same kernel. "ok": its numbers at the friendly size, in its
  interpret mode, agree with the formula within our tolerance; then its cycles at the production
  size on v7x. "default": under its default configuration, because it refuses ours. A note says why
  it refuses; "-": Helion's language has no such kernel. Of some kernels it raises the block
  sizes: [128] to [256] in sum, mean and amax, amin; [64] to [128] in RMS-norm; [32] to [128] in
  cross-entropy; [1, 2] to [1, 8] in group norm; [1] to [2] in layer-norm over two dims.

"""
COLUMNS = ("kernel", "sizes", "loops", "error", "v5e VMEM", "v6e VMEM", "v7x VMEM", "cycles v5e")
COLUMNS += ("v6e", "v7x", "floor, v7x", "times the floor, v5e, v6e, v7x", "other loops, v7x")
COLUMNS += ("Helion: numbers", "Helion: cycles, v7x")


def text(found):
    """The page."""
    rows, notes = coverage.rows(), []
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    accepted = [row for row in rows if not row.diagnostic]
    lines = [COLUMNS, ["---"] * len(COLUMNS), *(cells(row, found, notes) for row in accepted)]
    table = "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)
    numbered = "".join(f"{number}. {note}\n" for number, note in enumerate(notes, 1))
    verdicts = [e for row in accepted for e in found.part(row, "compiled").values()]
    head = HEAD.format(
        versions=versions,
        count=len(accepted),
        measured=len(verdicts),
        asked=sum(len(results.compilations(row)) for row in accepted),
        low=sum(map(results.is_low, verdicts)),
    )
    parts = [head, table, holds.section(accepted, found)]
    parts += ["\n## Notes\n\n", numbered] if notes else []
    return "".join([*parts, *refusals(rows)])


def cells(row, found, notes):
    """The cells of a row; what needs words is added to the notes."""
    numerics, compiled = found.part(row, "numerics"), found.part(row, "compiled")
    drawn = found.part(row, "distributions")
    errors = [both_errors(numerics)]
    errors += [f"{name} {both_errors(drawn.get(name, {}))}" for name in row.distributions]
    default = [compiled.get(chip, {}) for chip in results.CHIPS]
    others = [f"{name.split()[1]} {vmem(entry)}" for name, entry in compiled.items() if " " in name]
    said = [row.note] if row.note else []
    said += [
        f"{loop if isinstance(loop, str) else f'{loop[1]} of {loop[0]}'} is refused: “{message}”"
        for loop, message in row.refused.items()
    ]
    return [
        row.name + references(notes, row.name, said),
        sizes(row),
        ", ".join(loop for loop in coverage.LOOPS if loop in types(row)) or "-",
        "<br>".join(errors),
        *(vmem(entry) for entry in default),
        *(cycles(found.part(row, "cycles").get(chip)) for chip in results.CHIPS),
        *floor_cells(row, found),
        "<br>".join(others) or "-",
        *helion_cells(row, found.part(row, "helion"), notes),
    ]


def references(notes, name, said):
    """Adds notes on a row; gives what refers to them."""
    marks = []
    for sentence in said:
        notes.append(f"{name}: {escaped(sentence).rstrip(': ')}")
        marks.append(f"[{len(notes)}]")
    return f" {' '.join(marks)}" if marks else ""


def types(row):
    """The loop types that a row is simulated in."""
    return {case.loop for case in results.simulated_cases(row)}


def sizes(row):
    """The shapes of the inputs, of each graph."""
    shown = [shapes(graph) if graph else "-" for graph in (row.friendly, row.odd)]
    large = f"**{shapes(row.production)}**" if row.production else "-"
    return "; ".join([*shown, large])


def shapes(graph):
    """The shapes of a graph's inputs; several in a row of one dtype and shape once."""
    found = []
    for tensor in proof.document(graph)["tensors"]:
        if tensor["role"] == "input":
            dtype = re.sub(r"[a-z_]+(\d*)", r"\1", tensor["dtype"].partition("_")[0])
            letter = "e" if "float8" in tensor["dtype"] else tensor["dtype"][0]
            shape = "x".join(map(str, tensor["shape"])) or "scalar"
            found.append(f"{letter}{dtype} {shape}")
    counted = {shape: found.count(shape) for shape in found}
    return ", ".join(f"{n} · {shape}" if n > 1 else shape for shape, n in counted.items())


def vmem(entry):
    """VMEM used and predicted, MiB; or the verdict."""
    if entry.get("kind") == "diagnostic":
        return "over VMEM" if "bytes of VMEM" in entry["message"] else "refused"
    if entry.get("kind") != "ok":
        return entry.get("kind", "-")
    both = f"{entry['vmem_bytes'] / MIB:.1f} / {entry['predicted_bytes'] / MIB:.1f}"
    return f"**{both}**" if results.is_low(entry) else both


def cycles(entry):
    """Thousands of cycles."""
    if not entry or "cycles" not in entry:
        return "-"
    return "?" if entry["cycles"] is None else f"{entry['cycles'] / 1000:,.1f}"


def floor_cells(row, found):
    """The floor on a chip in thousands of cycles, and what is estimated over that of each chip."""
    if not row.production:
        return ["-", "-"]
    counts = {chip: found.part(row, "cycles").get(chip, {}).get("cycles") for chip in results.CHIPS}
    times = [f"{n / floors.cycles(row, chip):,.2f}" if n else "-" for chip, n in counts.items()]
    return [f"{floors.cycles(row, results.LOOP_CHIP) / 1000:,.1f}", ", ".join(times)]


def both_errors(entry):
    """The largest errors against the reference and against the formula."""
    return ", ".join(number(entry.get(against)) for against in ("reference", "formula"))


def number(value):
    """A share of the tolerance."""
    return f"{value:.2g}" if isinstance(value, float | int) else str(value or "-")


def helion_cells(row, entry, notes):
    """Helion's numbers, and its cycles."""
    if not entry:
        return ["-", "-"]
    check, compiled = entry["check"], entry["compile"]
    name = f"{row.name}, Helion"
    first = wrong(check, notes, name) if check["kind"] == "wrong" else outcome(check, notes, name)
    if not compiled:
        return [first, "-"]
    second = outcome(compiled, notes, f"{name}'s production size")
    count = compiled.get("cycles")
    missed = count is not None and count < floors.cycles(row, results.LOOP_CHIP)
    shown = "?" if missed else cycles(compiled)
    return [first, second.replace("ok", shown, 1)]


def wrong(check, notes, name):
    """How far its numbers are off; with a reference to why there are none to compare."""
    by = f": off by {check['error']}" if "error" in check else ""
    said = references(notes, name, [check["message"]] if check["message"] else [])
    return f"**wrong**{by}" + (" (default)" if check["default"] else "") + said


def outcome(answer, notes, name):
    """Ok, or what else with a reference to why."""
    if answer["kind"] == "ok":
        return "ok" + (" (default)" if answer["default"] else "")
    return answer["kind"] + references(notes, name, [answer["message"]])


def escaped(message):
    """Text that Markdown leaves as it is."""
    return re.sub(r"(?<![\w.])/(?:[\w.-]+/)+", "", message).replace("|", "\\|").replace("<", "&lt;")


def refusals(rows):
    """What pallasc refuses, and the nearest thing that works."""
    found = [row for row in rows if row.diagnostic]
    if not found:
        return
    yield "\n## Refused\n\nWhat Pallas cannot express: the diagnostic, and what works.\n\n"
    for row in found:
        note = f" {row.note}" if row.note else ""
        yield f"- {row.name}: “{escaped(row.diagnostic)}”.{note}\n"
