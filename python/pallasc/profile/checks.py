"""What makes a run doubtful, from the run itself."""

import re


def failures(program, run, devices=1):
    """Texts that say why a run may be wrong; none if nothing was found.

    On one of several devices what a copy gives to others, and gets from them, is not followed.
    """
    found = []
    if not run.complete:
        found.append(
            f"CUT after {run.blocks} blocks: cycles, DMA and MXU counts are not those of the whole"
            " kernel"
        )
    if program.unhandled:
        found.append(f"unhandled scalar ops (taken as 0): {dict(program.unhandled)}")
    if run.short_waits and devices == 1:
        found.append(
            f"{run.short_waits} DMA waits without a DMA started before them (would hang on the"
            " chip)"
        )
    if run.complete and run.left_bytes and devices == 1:
        found.append(f"{run.left_bytes} DMA bytes never waited for")
    if run.failures:
        bundle, text = min(run.failures)
        found.append(
            f"the kernel's own asserts (DMA bounds) fail {sum(run.failures.values())} times, first"
            f" at bundle {bundle}: {text}"
        )
    if run.empty_pops:
        found.append("a division's result is read that was not made")
    if run.numbers_left:
        found.append(f"{run.numbers_left} numbers of vectors are given that nothing takes")
    if guessed := steered_by_unknown(program, run):
        found.append(
            f"{len(guessed)} branches/DMAs depend on run-time data (SMEM or vector values), taken"
            f" as 0: {guessed[:3]}"
        )
    return found


_STEERING = ("branch", "copy", "wait", "credit", "delay", "matmul")


def steered_by_unknown(program, run):
    """Executed branches, copies, ... that depend on values that the run does not know."""
    if not run.unknown:
        return []
    tainted = _tainted(program, run.unknown)
    return [
        f"{action.kind}@{index}"
        for index, actions in enumerate(program.actions)
        if run.counts[index]
        for action in actions
        if action.kind in _STEERING and _steers(action) & tainted
    ]


def _steers(action):
    """Names that decide what an action does: of a copy not its ends, but size and semaphore."""
    values = action.values[:2] if action.kind == "copy" else action.values
    texts = [text for text in (action.predicate, *values) if text]
    return set(re.findall(r"V_(\w+)", " ".join(texts)))


def _tainted(program, unknown):
    """All names that depend on unknown ones: through values, and through words of SMEM.

    Of addresses only the allocation is told apart.
    """
    depends, stores, loads = [], [], []
    for actions in program.actions:
        for action in actions:
            if action.kind in ("set", "alias"):
                depends.append((action.target, action.names()))
                if match := re.match(r'read\((.*),"', action.values[0]):
                    loads.append((action.target, _allocations(match[1])))
            elif action.kind == "store":
                stores.append((_allocations(action.values[0]), _stored(action)))
    depends += [(name, set(sources)) for name, sources in program.translator.sources.items()]
    tainted, before = set(unknown), -1
    while len(tainted) != before:
        before = len(tainted)
        tainted |= {name for name, sources in depends if sources & tainted}
        words = set().union(*(places for places, sources in stores if sources & tainted))
        if words:
            tainted |= {
                name
                for name, places in loads
                if places & words or "any" in words or "any" in places
            }
    return tainted


def _stored(action):
    """Names that the word which a store writes depends on."""
    return set(re.findall(r"V_(\w+)", f"{action.values[1]} {action.predicate or ''}"))


def _allocations(address):
    """The allocations that an address names, {"any"} if none."""
    return set(re.findall(r"\b\d{8,}\b", address)) or {"any"}
