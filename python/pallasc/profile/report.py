"""A profile for people: totals, kernels, loops."""

from ..command import bytes_text, seconds_text, table

# Slots as a table has them: {head: slot of the dump}.
SLOTS = {
    "MXU": "MATMUL",
    "VALU": "VALU",
    "XLU": "XLU",
    "EUP": "EUP",
    "load": "VLOAD",
    "store": "VSTORE",
    "scalar": "SALU",
}


def text(found):
    """The lines of a profile, a string."""
    lines = [_total(found), ""]
    for name, facts in found["kernels"].items():
        lines += [*_kernel(name, facts, found["clock_hz"]), ""]
    lines += [*_between(found["between"], found["clock_hz"])]
    lines += [f"error: {line}" for line in found["errors"]]
    lines += [f"warning: {line}" for line in found["warnings"]]
    return "\n".join(lines).rstrip() + "\n"


def _total(found):
    """The line of the whole function."""
    time = seconds_text(found["cycles"] / found["clock_hz"])
    doubt = "" if found["trusted"] else "; not to be trusted: see the errors"
    hbm = bytes_text(found["hbm_bytes"])
    return (
        f"{found['target']}, {found['clock_hz'] / 1e9:.3f} GHz: {found['cycles']:,} cycles,"
        f" {time}, {hbm} to and from HBM (an estimate{doubt})"
    )


def _between(facts, clock):
    """The line of what XLA copies between kernels."""
    if facts["copies"]:
        waits = facts["wait_cycles"]
        yield (
            f"copies of XLA's between kernels: {facts['copies']:,}, {bytes_text(facts['bytes'])};"
            f" waits {waits:,} cycles, {seconds_text(waits / clock)}"
        )
        yield ""


def _kernel(name, facts, clock):
    """The lines of a kernel: numbers, then the slots of it and of its loops."""
    kind = "" if facts["pallas"] else " (XLA's own)"
    cycles, waits = facts["cycles"], facts["wait_cycles"]
    yield f"{name}{kind}: {cycles:,} cycles, {seconds_text(cycles / clock)}"
    if cycles:
        yield (
            f"  waits for copies {waits:,} ({waits / cycles:.1%}); matrix unit busy"
            f" {facts['matmul_busy_cycles']:,} ({facts['matmul_busy_cycles'] / cycles:.1%}), waits"
            f" for its queue {facts['matmul_stall_cycles']:,}"
        )
    counts = [f"{number:,} {dtype}" for dtype, number in facts["matmuls"].items()]
    yield f"  vmatmul: {', '.join(counts) or 'none'}; {facts['matmul_flops']:.4g} FLOP"
    for way, size in facts["copied_bytes"].items():
        yield f"  {way.replace('_', ' ')}: {facts['copies'][way]:,} copies, {bytes_text(size)}"
    yield (
        f"  VMEM {bytes_text(facts['vmem_bytes'])}; {facts['bundles']:,} bundles; spills"
        f" {facts['spills']}, fills {facts['fills']} in the schedule"
    )
    if facts.get("libtpu_cycles"):
        yield f"  libtpu's own simulator: {facts['libtpu_cycles']:,} cycles"
    yield from (f"  {line}" for line in _loops(facts))


def _loops(facts):
    """The table of slots: how full, of the kernel and of each loop that ran."""
    heads = ["bundles", "trips", "cycles", "share", *SLOTS, "spill/fill"]
    rows = [heads, _row("all", "", facts, facts["compute_cycles"], 1.0)]
    for loop in sorted(facts["loops"], key=lambda loop: (loop["first"], -loop["last"])):
        if loop["executed"] and "slots" in loop:
            where = f"{'  ' * loop['depth']}{loop['first']}-{loop['last'] - 1}"
            rows.append(_row(where, f"{loop['trips']:,}", loop, loop["executed"], loop["share"]))
    return table(rows) if facts["slots"] else []


def _row(where, trips, facts, cycles, share):
    slots = [f"{facts['slots'].get(slot, 0):.0%}" for slot in SLOTS.values()]
    spills = f"{facts['spills']}/{facts['fills']}"
    return [where, trips, f"{cycles:,}", f"{share:.0%}", *slots, spills]
