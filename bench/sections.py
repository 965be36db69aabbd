"""The tables of bench/kernels.py: which kernels, and what of each outcome is shown."""

import dataclasses
import itertools
import json

from measure import Job, binding, document

ATTENTION = "attention.py:attention"
Q_INLOOP = "attention.py:attention_q_inloop"
LOOPS = ("unroll", "fori_loop", "emit_pipeline")
CHIPS = ("v6e", "v7x")


@dataclasses.dataclass
class Row:
    """A row: the jobs it needs by name, and its cells from {name: outcome}."""

    jobs: dict
    cells: object


@dataclasses.dataclass
class Table:
    """Heads and rows; `text` above it, `notes`({job: outcome}) gives paragraphs below it."""

    heads: tuple
    rows: list
    text: str = ""
    notes: object = lambda outcomes: []


@dataclasses.dataclass
class Section:
    """A named part of the page."""

    name: str
    title: str
    text: str
    tables: list


def job(side, kernel, args, config, target, static=True):
    """A `Job` of a configuration given as a dict."""
    return Job(side, kernel, tuple(args), json.dumps(config), target, static)


def attention_args(heads, rows, width, dtype="bfloat16", batch=1):
    """Q, K and V [batch, heads, rows, width]."""
    return (f"{dtype}[{batch},{heads},{rows},{width}]",) * 3


# ---- cells


def mib(size):
    """Bytes as MiB."""
    return "-" if size is None else f"{size / (1 << 20):.2f}"


def verdict(outcome):
    """What became of it: "ok", or who refused, why and what to do, in a line."""
    if outcome.ok:
        return "ok"
    first, *rest = outcome.message.splitlines() or [""]
    first = first.partition("error: ")[2] or first
    hints = [line.partition("hint: ")[2] for line in rest if line.startswith("  hint: ")]
    first = "; ".join([first, *hints[:1]])
    first = first if len(first) < 500 else first[:497] + "..."
    return {"timeout": "the compiler took too long", "refused": f"refused: {first}"}.get(
        outcome.kind, f"compiler: {first}"
    )


def known(outcome, field):
    """A figure of the estimate, or None."""
    return outcome.static.get(field) if outcome.static else None


def mark(outcome):
    """A `~` where a check does not vouch for the run."""
    return "" if outcome.static["sim_ok"] else "~"


def milliseconds(outcome):
    """The estimate, or why there is none."""
    value = known(outcome, "est_ms")
    if value is None:
        return "not estimated" if outcome.ok else verdict(outcome)
    return f"{mark(outcome)}{value:.4f}"


def raised(outcome, blocks):
    """The block sizes that Helion took, if they are not those asked for."""
    taken = [outcome.blocks.get(f"_BLOCK_SIZE_{i}", size) for i, size in enumerate(blocks)]
    return f" with {taken}" if taken != list(blocks) else ""


def kilocycles(outcome):
    """Cycles of the kernel in thousands, or why there are none."""
    value = known(outcome, "cycles")
    if value is None:
        return "not estimated" if outcome.ok else verdict(outcome)
    return f"{mark(outcome)}{value / 1e3:.1f}"


def slot(outcome, name):
    """Use of a slot of the schedule, in percent of its capacity."""
    slots = known(outcome, "slots")
    return f"{100 * slots.get(name, 0):.1f}%" if slots else "-"


def slot_uses(outcome, count=3):
    """The fullest slots of the schedule, with their use."""
    slots = known(outcome, "slots") or {}
    used = sorted(((share, name) for name, share in slots.items() if ":" not in name), reverse=True)
    return ", ".join(f"{name} {100 * share:.0f}%" for share, name in used[:count]) or "-"


def spills(outcome):
    """Spills and fills in the schedule."""
    return (
        "-" if outcome.static is None else f"{outcome.static['spills']}/{outcome.static['fills']}"
    )


def vmem_pair(outcome):
    """VMEM used and predicted, MiB."""
    predicted = outcome.plan["vmem"]["total"] if outcome.plan else None
    return f"{mib(outcome.vmem_bytes)} / {mib(predicted)}"


# ---- A: alignment per tensor

LARGE = attention_args(32, 8192, 256, batch=8)
SHORT = attention_args(32, 512, 256, batch=8)
HEADLINE = {"block_sizes": [2, 512, 2048], "pallas_loop_type": "unroll"}
HEADLINE["pallas_pre_broadcast"] = "off"


def helion_config(config):
    """A configuration as Helion takes it: it has no pre-broadcast in unrolled loops."""
    left_out = ("pallas_pre_broadcast",) if config.get("pallas_loop_type") == "unroll" else ()
    return {key: value for key, value in config.items() if key not in left_out}


def headline_table():
    """Attention with all its heads, ours and Helion's."""
    jobs = {
        "ours": job("ours", ATTENTION, LARGE, HEADLINE, "v7x"),
        "helion": job("helion", ATTENTION, LARGE, helion_config(HEADLINE), "v7x"),
    }

    def cells(side):
        def of(outcomes):
            outcome = outcomes[side]
            return [
                {"ours": "pallasc", "helion": "Helion"}[side],
                block_b(outcome),
                mib(outcome.vmem_bytes),
                mib(outcome.plan["vmem"]["total"]) if outcome.plan else "-",
                mib(outcome.temp_bytes),
                milliseconds(outcome) if outcome.ok else "-",
                verdict(outcome),
            ]

        return of

    heads = ("", "block_b", "VMEM, MiB", "predicted", "HBM temporaries, MiB", "est. ms", "verdict")
    return Table(heads, [Row(jobs, cells("ours")), Row(jobs, cells("helion"))], notes=overruled)


def block_b(outcome):
    """The block of batch and heads that was taken."""
    if outcome.plan:
        return next(b["size"] for b in outcome.plan["blocks"] if b["name"] == "tile_b")
    return outcome.blocks.get("_BLOCK_SIZE_0", "-")


def overruled(outcomes):
    """Notes of Helion's own refusals, which were overruled to hear the compiler."""
    texts = {o.overruled for o in outcomes.values() if o.overruled}
    return [f"Helion refuses by its own estimate: “{text}” It was overruled." for text in texts]


def operands_table():
    """Blocks of each tensor in the headline configuration."""
    jobs = {"ours": job("ours", ATTENTION, LARGE, HEADLINE, "v7x")}
    heads = ("tensor", "dtype", "space", "boundary view", "block", "buffers", "VMEM, MiB")

    def cells(place):
        def of(outcomes):
            plan = outcomes["ours"].plan
            if not plan:
                return ["-"] * len(heads)
            o = plan["operands"][place]
            views = [step for step in o["array_steps"] if step["boundary"]]
            view = "x".join(map(str, views[0]["shape"])) if views else "-"
            block = "x".join(map(str, o["block"] or [])) or "-"
            return [
                o["tensor"],
                o["dtype"],
                o["space"],
                view,
                block,
                o["buffers"],
                mib(o["vmem_bytes"]),
            ]

        return of

    rows = [Row(jobs, cells(place)) for place in range(5)]
    return Table(heads, rows, "Blocks and windows of each tensor, in the plan of that kernel:")


def block_b_table():
    """Verdict and VMEM for several block_b, at two lengths, in each loop type."""
    rows = []
    for length, args, block_n in ((8192, LARGE, 2048), (512, SHORT, 512)):
        for size in (1, 2, 3, 4, 8, 16):
            for loop in LOOPS:
                config = {"block_sizes": [size, 512, block_n], "pallas_loop_type": loop}
                config["pallas_pre_broadcast"] = "off"
                jobs = {"ours": job("ours", ATTENTION, args, config, "v7x", static=False)}

                def cells(outcomes, length=length, size=size, loop=loop):
                    outcome = outcomes["ours"]
                    return [length, size, loop, vmem_pair(outcome), verdict(outcome)]

                rows.append(Row(jobs, cells))
    heads = ("S", "block_b", "loop", "VMEM used / predicted, MiB", "verdict")
    text = "The same attention for other block_b, block_m 512 and 2048 rows of K and V at a time:"
    return Table(heads, rows, text)


ALIGNMENT = Section(
    "alignment",
    "Alignment per tensor",
    "Attention B=8 H=32 S=8192 D=256, bfloat16, lse float32 `[B*H, S]`, block_sizes\n"
    "[2, 512, 2048], unrolled, without pre-broadcast, on v7x: 63.94 MiB of VMEM. Helion raises\n"
    "block_b to 8: one block size must suit every tensor that it tiles, and lse wants 8 rows.",
    [headline_table(), operands_table(), block_b_table()],
)


# ---- C: fori_loop with and without DMA


def dma_configs(blocks, count, tunables):
    """{way: configuration} of fori_loop with windows, without, as auto chooses, and Helion's."""
    base = {"block_sizes": list(blocks), "pallas_loop_type": "fori_loop", **tunables}
    ways = {way: {**base, "pallas_fori_dma": way} for way in ("on", "off", "auto")}
    return {**ways, "helion": {**base, "pallas_load_buffer_count": [2] * count}}


def matmul_args(size):
    """x and y of a square bfloat16 matmul."""
    return (f"bfloat16[{size},{size}]",) * 2


def split_k_args(rows):
    """x [rows, 32768] and y [32768, 64], bfloat16."""
    return (f"bfloat16[{rows},32768]", "bfloat16[32768,64]")


def layer_norm_args(width):
    """dy, x, mean, rstd and weight of layer_norm_bwd, 4096 rows."""
    rows = (f"bfloat16[4096,{width}]",) * 2
    return (*rows, "float32[4096]", "float32[4096]", f"bfloat16[{width}]")


def dma_cases():
    """(label, kernel, arguments, block sizes, tunables, chips) of each row."""
    multiply, softmax = "matmul.py:matmul", "softmax.py:softmax_two_pass"
    for blocks in ((512, 512, 512), (1024, 1024, 512), (256, 1024, 256)):
        yield "matmul 1024", multiply, matmul_args(1024), blocks, {}, CHIPS
    for blocks in ((512, 512, 512), (512, 1024, 1024), (1024, 1024, 512), (1024, 1024, 1024)):
        yield "matmul 4096", multiply, matmul_args(4096), blocks, {}, CHIPS
    for width, heads in ((64, 1), (128, 1), (256, 1), (128, 2), (256, 2)):
        args = attention_args(2, 8192, width)
        yield f"attention D={width}, 2 heads", ATTENTION, args, (heads, 512, 1024), {}, CHIPS
    yield "softmax 4096x8192", softmax, ("float32[4096,8192]",), (1024, 256), {}, CHIPS
    backward = "layer_norm.py:layer_norm_bwd_two_level"
    for width, rows in ((2048, 512), (2048, 1024), (10240, 512)):
        label = f"layer_norm_bwd 4096x{width}"
        yield label, backward, layer_norm_args(width), (rows, 128), {}, ("v7x",)
    for rows, block in ((64, 64), (512, 128), (4096, 512)):
        for parts in (1, 8):
            label, kernel = f"split-K {parts}, M={rows}", "split_k.py:matmul_split_k"
            tunables = {"split_k": parts}
            yield label, kernel, split_k_args(rows), (block, 64, 1024), tunables, ("v7x",)


def choice(outcome):
    """What auto does: the tensors that it copies window by window, or none."""
    if not outcome.plan:
        return verdict(outcome)
    ways = {
        window["operand"].rpartition("_")[0]: window["dma"]
        for loop in outcome.plan["loops"]
        for window in loop["windows"]
    }
    copied = [name for name, dma in ways.items() if dma]
    return "copies " + ", ".join(copied) if copied else "resident"


def faster(outcomes):
    """Whether auto is within 1% of the better of on and off."""
    times = {way: known(outcomes[way], "est_ms") for way in ("on", "off", "auto")}
    best = min((t for w, t in times.items() if w != "auto" and t), default=None)
    if best is None or times["auto"] is None:
        return "-"
    ratio = times["auto"] / best
    return "yes" if ratio <= 1.01 else f"no, {ratio:.2f}x"


def dma_table():
    """On, off, auto and Helion for each case and chip."""
    rows = []
    for label, kernel, args, blocks, tunables, chips in dma_cases():
        for chip in chips:
            configs = dma_configs(blocks, len(args), tunables)
            jobs = {
                way: job("helion" if way == "helion" else "ours", kernel, args, config, chip)
                for way, config in configs.items()
            }

            def cells(outcomes, label=label, blocks=blocks, chip=chip):
                times = [milliseconds(outcomes[way]) for way in ("on", "off", "auto")]
                times.append(milliseconds(outcomes["helion"]) + raised(outcomes["helion"], blocks))
                sizes = [mib(outcomes[way].vmem_bytes) for way in ("on", "off")]
                both = f"{sizes[0]} / {sizes[1]}"
                chosen = choice(outcomes["auto"])
                return [label, list(blocks), chip, *times, both, chosen, faster(outcomes)]

            rows.append(Row(jobs, cells))
    heads = ("kernel", "block sizes", "chip", "DMA, ms", "resident, ms", "auto, ms")
    heads += ("Helion, ms", "VMEM DMA / resident, MiB", "auto", "auto is the better")
    return Table(heads, rows)


FORI_DMA = Section(
    "fori_dma",
    "fori_loop: windows copied by DMA, or slices of a resident block",
    "`pallas_fori_dma` on, off and auto. Helion's fori_loop beside, with two buffers for each\n"
    "input as here. Attention has fewer heads than in production: its time is in proportion to\n"
    "them. Where Helion raises a block size, its sizes stand beside its time: with block_b 2 each\n"
    "step works on two heads at once, which fills the slots better; the rows with block_b 2\n"
    "compare like with like.",
    [dma_table()],
)


# ---- D: pre-broadcast


BIG, SMALL = (1, 512, 1024), (1, 256, 256)


def attention_table(key, rivals, shown, heads):
    """A row for each head width and loop type on v7x: `key` off, on and auto, and Helion's kernels.

    Args:
      key: of pallasc's configuration.
      rivals: {name: (kernel, what Helion's configuration has besides)}.
      shown: a cell from (name of way or rival, loop type, outcome).
      heads: of the columns after D, loop and chip.
    """
    rows = []
    for width, loop in itertools.product((128, 256), LOOPS):
        args = attention_args(2, 8192, width)
        config = {"block_sizes": list(BIG), "pallas_loop_type": loop}
        jobs = {
            way: job("ours", ATTENTION, args, {**config, key: way}, "v7x")
            for way in ("off", "on", "auto")
        }
        for name, (kernel, besides) in rivals.items():
            theirs = helion_config({**config, **besides})
            jobs[name] = job("helion", kernel, args, theirs, "v7x")

        def cells(outcomes, width=width, loop=loop):
            values = (shown(name, loop, outcome) for name, outcome in outcomes.items())
            return [width, loop, "v7x", *values]

        rows.append(Row(jobs, cells))
    return Table(("D", "loop", "chip", *heads), rows)


def pre_broadcast_table():
    """Times and slot use with pre-broadcast on, off and auto."""
    key = "pallas_pre_broadcast"
    rivals = {"helion off": (ATTENTION, {key: False}), "helion on": (ATTENTION, {key: True})}

    def shown(name, loop, outcome):
        if name == "helion on":
            return "has none" if loop == "unroll" else milliseconds(outcome)
        if name == "helion off":
            return milliseconds(outcome) + raised(outcome, BIG)
        return f"{milliseconds(outcome)} ({slot(outcome, 'XLU')})"

    heads = ("off, ms (XLU)", "on, ms (XLU)", "auto, ms (XLU)", "Helion off, ms", "Helion on, ms")
    return attention_table(key, rivals, shown, heads)


PRE_BROADCAST = Section(
    "pre_broadcast",
    "Pre-broadcast of row statistics",
    "Attention, 2 heads, S=8192, bfloat16, block_sizes [1, 512, 1024]. XLU: share of the slots of\n"
    "the unit that moves data across lanes.",
    [pre_broadcast_table()],
)


CAUSAL = "attention.py:causal_attention"
SOFTMAX = "softmax.py:softmax_two_pass"
CHAIN = "row_values.py:outer_chain_scale"
NESTED = "row_values.py:nested_scale"
# (label, kernel, arguments, block sizes, loop types)
RULE_CASES = [
    ("attention D=128", ATTENTION, attention_args(2, 2048, 128), BIG, LOOPS),
    ("attention D=128", ATTENTION, attention_args(2, 2048, 128), SMALL, LOOPS[1:]),
    ("attention D=256", ATTENTION, attention_args(2, 2048, 256), BIG, LOOPS),
    ("attention D=256", ATTENTION, attention_args(2, 2048, 256), SMALL, LOOPS[1:]),
    ("attention D=384", ATTENTION, attention_args(2, 2048, 384), (1, 256, 512), LOOPS[1:]),
    ("attention D=512", ATTENTION, attention_args(2, 2048, 512), (1, 256, 512), LOOPS[1:]),
    ("causal D=128", CAUSAL, attention_args(2, 2048, 128), (1, 512, 512), LOOPS[1:2]),
    ("causal D=256", CAUSAL, attention_args(2, 2048, 256), (1, 512, 512), LOOPS[1:]),
    ("softmax 2048x8192", SOFTMAX, ("float32[2048,8192]",), (1024, 256), LOOPS),
    ("chain of 256", CHAIN, ("float32[2,2048,4096]", "256"), (1, 256, 512), LOOPS[1:]),
    ("chain of 256, bfloat16", CHAIN, ("bfloat16[2,2048,4096]", "256"), (1, 256, 512), LOOPS[1:]),
    (
        *("nested loops", NESTED, ("float32[2048,1024]", "float32[2048,2048]", "256")),
        *((256, 256, 256), LOOPS[1:]),
    ),
]


def row_places(outcome):
    """Where the carried row values live: registers, VMEM scratch."""
    if not outcome.plan:
        return verdict(outcome)
    carried = [c for loop in outcome.plan["loops"] for c in loop["carried"]]
    places = {c["place"] for c in carried if c["shape"][-1] == 1}
    return " and ".join(sorted(places)) or "-"


def rule_table():
    """Cycles and slot use with pre-broadcast off, on, and which of the two auto is."""
    rows = []
    for label, kernel, args, blocks, loops in RULE_CASES:
        for loop in loops:
            for chip in CHIPS:
                base = {"block_sizes": list(blocks), "pallas_loop_type": loop}
                jobs = {
                    way: job("ours", kernel, args, {**base, "pallas_pre_broadcast": way}, chip)
                    for way in ("off", "on")
                }

                def cells(outcomes, label=label, blocks=blocks, loop=loop, chip=chip, jobs=jobs):
                    off, on = (known(outcomes[way], "cycles") for way in ("off", "on"))
                    shown = [
                        f"{kilocycles(outcomes[way])} ({slot(outcomes[way], 'XLU')})"
                        for way in ("off", "on")
                    ]
                    change = f"{100 * (on / off - 1):+.1f}%" if off and on else "-"
                    where = row_places(outcomes["off"])
                    return [label, list(blocks), loop, chip, *shown, change, where, auto_is(jobs)]

                rows.append(Row(jobs, cells))
    heads = ("kernel", "block sizes", "loop", "chip", "off, kcycles (XLU)", "on, kcycles (XLU)")
    return Table((*heads, "on for off", "rows carried in", "auto"), rows)


def auto_is(jobs):
    """Which way auto takes: it prints the same kernel."""
    texts = {}
    for way in ("auto", *jobs):
        config = {**json.loads(jobs["on"].config), "pallas_pre_broadcast": way}
        found = document(jobs["on"].kernel, jobs["on"].args)
        text = binding.compile(found, config, jobs["on"].target).source
        texts[way] = text.partition("\ndef ")[2]
    return " and ".join(way for way in jobs if texts[way] == texts["auto"]) or "neither"


PRE_BROADCAST_RULE = Section(
    "pre_broadcast_rule",
    "Pre-broadcast: what decides",
    "Cycles in thousands and the share of the slots of the cross-lane unit (XLU), with\n"
    "`pallas_pre_broadcast` off and on, which of the two `auto` is, and where the loop keeps its\n"
    "row values when it is off. Attention has 2 heads and S=2048, in bfloat16.",
    [rule_table()],
)


# ---- E: loads in the loop


def inloop_table():
    """Cycles and spills with Q loaded in the loop, before it, and as auto chooses."""
    besides = {"pallas_pre_broadcast": False}
    rivals = {"helion": (ATTENTION, besides), "helion in": (Q_INLOOP, besides)}

    def shown(name, loop, outcome):
        if not outcome.ok:
            return verdict(outcome)
        return f"{kilocycles(outcome)} ({spills(outcome)})"

    heads = ("before the loop", "in the loop", "auto", "Helion, before", "Helion, in the loop")
    return attention_table("pallas_inloop_loads", rivals, shown, heads)


# (head width, block sizes, loop types)
INLOOP_CASES = (
    (128, BIG, LOOPS),
    (128, (1, 256, 512), LOOPS[1:]),
    (128, (1, 1024, 1024), LOOPS[1:]),
    (256, BIG, LOOPS),
    (256, (1, 256, 512), LOOPS[1:]),
    (256, (1, 1024, 1024), LOOPS[1:]),
    (256, (2, 512, 2048), LOOPS[:1]),
)


def busy_cycles(outcome):
    """Cycles of the kernel without those that wait for copies, or None."""
    cycles, waits = known(outcome, "cycles"), known(outcome, "dma_wait_cycles")
    return None if cycles is None else cycles - waits


def schedule(outcome):
    """Spills, fills and cycles without waits."""
    if outcome.static is None:
        return "not estimated" if outcome.ok else verdict(outcome)
    return f"{spills(outcome)}, {busy_cycles(outcome)}"


def inloop_rule_table():
    """Spills, fills and cycles with Q before the loop, and as auto has it."""
    rows = []
    for width, blocks, loops in INLOOP_CASES:
        for loop, chip in itertools.product(loops, CHIPS):
            base = {"block_sizes": list(blocks), "pallas_loop_type": loop}
            args = attention_args(2, 8192, width)
            jobs = {
                way: job("ours", ATTENTION, args, {**base, "pallas_inloop_loads": way}, chip)
                for way in ("off", "auto")
            }

            def cells(outcomes, width=width, blocks=blocks, loop=loop, chip=chip):
                off, auto = (busy_cycles(outcomes[way]) for way in ("off", "auto"))
                change = f"{100 * (auto / off - 1):+.2f}%" if off and auto else "-"
                shown = [schedule(outcomes[way]) for way in ("off", "auto")]
                return [width, list(blocks), loop, chip, *shown, change]

            rows.append(Row(jobs, cells))
    heads = ("D", "block sizes", "loop", "chip", "off: spills/fills, cycles", "auto", "cycles")
    text = "What `auto` gains. Cycles without waits for copies, which are the same for both:"
    return Table(heads, rows, text)


INLOOP_LOADS = Section(
    "inloop_loads",
    "Loop-invariant loads inside the loop",
    "Attention, 2 heads, S=8192, bfloat16, block_sizes [1, 512, 1024]: thousands of cycles, and\n"
    "(spills/fills) in the schedule. `pallas_inloop_loads` off, on and auto; for Helion the two\n"
    "kernels `attention` and `attention_q_inloop`: it leaves a load where the source has it.",
    [inloop_table(), inloop_rule_table()],
)

SECTIONS = [ALIGNMENT, FORI_DMA, PRE_BROADCAST, PRE_BROADCAST_RULE, INLOOP_LOADS]
