"""The section of bench/kernels.py that compares default block sizes with a small search."""

from sections import (
    ATTENTION,
    CHIPS,
    Row,
    Section,
    Table,
    attention_args,
    job,
    known,
    matmul_args,
    mib,
    milliseconds,
)

UNROLL = {"pallas_loop_type": "unroll"}


def cases():
    """(label, kernel, arguments, configurations beside the default) of each row."""
    multiply = [(blocks, {}) for blocks in ((512, 512, 1024), (1024, 512, 1024), (1024, 1024, 512))]
    yield "matmul 4096", "matmul.py:matmul", matmul_args(4096), multiply
    attention = [((1, 1024, 512), UNROLL), ((1, 512, 1024), UNROLL), ((1, 512, 1024), {})]
    for width in (128, 256):
        args = attention_args(2, 8192, width)
        yield f"attention D={width}, S=8192", ATTENTION, args, attention
    rows = ("bfloat16[4096,10240]",)
    whole = [((size,), {}) for size in (32, 128, 256)]
    yield "softmax 4096x10240", "softmax.py:softmax", rows, whole
    passes = [(blocks, {}) for blocks in ((1024, 256), (2048, 256), (1024, 1024))]
    yield "softmax 4096x10240, two passes", "softmax.py:softmax_two_pass", rows, passes
    sums = [(blocks, {}) for blocks in ((128, 4096), (512, 1024), (512, 2048))]
    yield "add 4096x4096", "add.py:add", ("bfloat16[4096,4096]",) * 2, sums


def ratio(outcomes):
    """The default's time over the best of all, and which that is."""
    times = {way: known(outcome, "est_ms") for way, outcome in outcomes.items()}
    best = min((time for time in times.values() if time), default=None)
    if best is None or not times["default"]:
        return ["-", "-", "-"]
    name = next(way for way, time in times.items() if time == best)
    return [name, f"{best:.4f}", f"{times['default'] / best:.2f}"]


def sizes(outcome):
    """The block sizes in force, and the lowering of the loops."""
    if not outcome.plan:
        return "-"
    loops = {loop["type"] for loop in outcome.plan["loops"]}
    return f"{outcome.plan['config']['block_sizes']} {', '.join(sorted(loops))}"


def rows():
    """A row for each case and chip."""
    found = []
    for label, kernel, args, others in cases():
        for chip in CHIPS:
            jobs = {"default": job("ours", kernel, args, {}, chip)}
            for blocks, more in others:
                name = f"{list(blocks)} {' '.join(more.values())}".rstrip()
                jobs[name] = job("ours", kernel, args, {"block_sizes": list(blocks), **more}, chip)

            def cells(outcomes, label=label, chip=chip):
                default = outcomes["default"]
                memory = mib(default.vmem_bytes)
                shown = [label, chip, sizes(default), milliseconds(default), memory]
                return [*shown, *ratio(outcomes)]

            found.append(Row(jobs, cells))
    return found


HEADS = ("kernel", "chip", "default sizes", "ms", "VMEM, MiB", "best found", "ms", "default / best")

DEFAULTS = Section(
    "defaults",
    "Default block sizes against a small search",
    "Nothing configured, beside a few other block sizes and loop types. Attention has two heads:\n"
    "its time is in proportion to them.",
    [Table(HEADS, rows())],
)
