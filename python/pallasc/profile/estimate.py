"""What a dump says of a function: the schedules of its kernels, executed and judged.

`estimate` gives a dict that JSON holds. Each kernel is executed once; kernels under a `while` loop
of XLA's are counted once, too.
"""

from . import between, checks, chips, machine, matmuls, scalars, schedule

# Of what is compared under one name: a change of what is counted of a kernel, or of the model, is a
# new number.
INSTRUMENT = 2


def estimate(dump, limit=machine.MAX_BLOCKS, numbers=()):
    """Executes the kernels of a dump.

    Args:
      dump: of `dump.collect`.
      limit: blocks after which a kernel's run is cut.
      numbers: words that the Pallas kernel takes from vectors, in order (`machine.execute`).

    Returns a dict:
      target, clock_hz; kernels: {name: see `kernel_facts`}, in the order of the module.
      complete: whether every kernel came to its end and all its instructions are known; else the
        totals are those of a run that was cut.
      trusted: complete, and no check failed; errors, warnings: texts.
      between: of `between.copies`: copies that XLA places between kernels, and waits for.
      cycles, hbm_bytes: of all kernels and these copies; matmul_flops: of all kernels;
        pallas_cycles: of Pallas kernels alone.
    """
    chip = chips.CHIPS[dump["target"]]
    devices, scalar_operands = dump.get("devices", 1), dump.get("scalars", {})
    kernels = {
        name: _facts_or_failure(
            entry,
            chip,
            scalar_operands.get(name),
            limit,
            devices,
            numbers if entry["pallas"] else (),
        )
        for name, entry in dump["kernels"].items()
    }
    errors, warnings = _judge(dump, kernels, chip)
    complete = bool(kernels) and all(
        facts["doubtful"] or facts["complete"] for facts in kernels.values()
    )

    def total(key, names=kernels):
        return sum(kernels[name][key] for name in names)

    beside = between.copies(dump["hlo"], kernels, chip)
    return {
        "target": chip.name,
        "clock_hz": chip.clock_hz,
        "instrument": INSTRUMENT,
        "complete": complete,
        "trusted": complete and not errors,
        "errors": errors,
        "warnings": warnings,
        "between": beside,
        "cycles": total("cycles") + beside["wait_cycles"],
        "pallas_cycles": total("cycles", [name for name in kernels if kernels[name]["pallas"]]),
        "hbm_bytes": total("hbm_bytes") + beside["bytes"],
        "matmul_flops": total("matmul_flops"),
        "kernels": kernels,
    }


def _facts_or_failure(entry, chip, *how):
    """`kernel_facts`; where a schedule is not understood at all, an empty run that says so."""
    try:
        return kernel_facts(entry, chip, *how)
    except (ArithmeticError, LookupError, NameError, SyntaxError, TypeError, ValueError) as error:
        nothing = {**entry, "schedule": "", "utilisation": None}
        facts = kernel_facts(nothing, chip)
        text = f"the schedule is not understood: {type(error).__name__}: {error}"
        return {**facts, "complete": False, "failures": [text]}


def kernel_facts(entry, chip, known=None, limit=machine.MAX_BLOCKS, devices=1, numbers=()):
    """What the run of one kernel says, a dict; `known`: its scalar operands, as in a dump.

    numbers: see `machine.execute`.

    pallas: whether it is a Pallas kernel; bundles: of the schedule; complete: ran to its end;
    doubtful: see `_judge`; cycles, and of those compute_cycles (bundles that run, and waits for the
    queues of the matrix units: matmul_stall_cycles) and wait_cycles (for copies);
    matmul_busy_cycles: in which the busiest matrix unit has work; matmuls: {dtype: `vmatmul`s};
    matmul_flops; copies, copied_bytes: {direction: number, bytes}; hbm_bytes; slots: {slot: share
    in use}; spills, fills: instructions in the schedule; vmem_bytes: scoped; loops: see
    `loop_facts`; failures: texts of `checks.failures`; unknown_reads: of SMEM.
    """
    bundles = schedule.parse_bundles(entry["schedule"])
    program, run = machine.execute(bundles, chip, scalars.tables(known), limit, numbers)
    slots = schedule.parse_utilisation(entry["utilisation"] or "")
    failures = checks.failures(program, run, devices)
    if not entry["same"]:
        failures.append("the last schedule has other instructions than the one that was executed")
    return {
        "pallas": entry["pallas"],
        "bundles": len(bundles),
        "complete": run.complete and not program.unhandled,
        "doubtful": False,
        "cycles": run.cycles,
        "compute_cycles": run.compute_cycles,
        "wait_cycles": run.wait_cycles,
        "matmul_busy_cycles": run.busy_cycles,
        "matmul_stall_cycles": run.stall_cycles,
        "matmuls": dict(run.matmuls),
        "matmul_flops": run.matmul_flops(chip),
        "copies": dict(run.copies),
        "copied_bytes": dict(run.copied),
        "hbm_bytes": run.hbm_bytes,
        "slots": slots.shares(run.counts) if slots else {},
        "spills": slots.static("VSTORE:SPILL") if slots else 0,
        "fills": slots.static("VLOAD:FILL") if slots else 0,
        "vmem_bytes": entry["vmem_bytes"],
        "loops": loop_facts(program, run, slots),
        "failures": failures,
        "unknown_reads": run.unknown_reads,
    }


def loop_facts(program, run, slots):
    """The loops, the most executed first.

    Each is a dict: first, last: bundles first..last-1; depth: loops around its body, itself
    included; trips: how often its branch back ran; executed: bundles executed in it; share: of
    those of the kernel; slots, spills, fills: as of a kernel.
    """
    found = []
    for loop in program.loops:
        part = slice(loop.first, loop.last)
        executed = sum(run.counts[part])
        facts = {"first": loop.first, "last": loop.last, "depth": loop.depth}
        facts |= {"trips": run.counts[loop.branch], "executed": executed}
        facts["share"] = executed / max(1, run.bundles)
        if slots:
            ends = loop.first, loop.last
            facts["slots"] = slots.shares(run.counts, *ends)
            facts["spills"] = slots.static("VSTORE:SPILL", *ends)
            facts["fills"] = slots.static("VLOAD:FILL", *ends)
        found.append(facts)
    return sorted(found, key=lambda facts: -facts["executed"])


def _judge(dump, kernels, chip):
    """(errors, warnings) of the runs; marks as "doubtful" XLA's own kernels that are not followed.

    Those do not void the figures of Pallas kernels beside them.
    """
    errors, warnings = [], []
    if not kernels:
        errors.append("the compiler dumped no kernel")
    any_pallas = any(facts["pallas"] for facts in kernels.values())
    for name, facts in kernels.items():
        if any_pallas and not facts["pallas"]:
            if facts["failures"]:
                facts["doubtful"] = True
                warnings.append(f"{name}: not followed exactly, XLA's own: its cycles are a guess")
            continue
        errors += [f"{name}: {text}" for text in facts["failures"]]
    if (devices := dump.get("devices", 1)) > 1:
        errors.append(f"one of {devices} devices is executed: copies between them take no time")
    if dump["while_loops"] or chip.cores > 1:
        why = "a while loop of XLA's" if dump["while_loops"] else "one of two cores is executed"
        warnings.append(f"MXU work not checked: {why}")
    else:
        executed = sum(facts["matmul_flops"] for facts in kernels.values())
        wrong, doubtful = matmuls.check(dump["dots"], executed)
        errors, warnings = errors + wrong, warnings + doubtful
    if dump["while_loops"]:
        warnings.append("a while loop of XLA's: each kernel is counted once")
    if between.sparse_cores(dump["hlo"]):
        warnings.append("a part of the module runs on SparseCores: that takes no time here")
    return errors, warnings
