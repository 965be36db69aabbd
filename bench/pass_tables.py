"""The tables of bench/passes.py: what each page of docs/passes and the README show of kernels.

A table compares configurations of the same kernels: a row for each kernel and chip, a column for
each way to compile it. A new figure is a new `Case` or a new way.
"""

import dataclasses

import race
import race_tables
from measure import CompileError, binding, document
from sections import (
    ATTENTION,
    NESTED,
    SOFTMAX,
    Row,
    Table,
    attention_args,
    job,
    kilocycles,
    known,
    layer_norm_args,
    matmul_args,
    mib,
    milliseconds,
    slot,
    slot_uses,
    spills,
    split_k_args,
    verdict,
)

BOTH, V7X, V6E = ("v7x", "v6e"), ("v7x",), ("v6e",)
MATMUL, LAYER_NORM = race.MATMUL, race.LAYER_NORM
# Attention's loops as they are written: its steps one after the other, statistics along lanes.
PLAIN = {
    "pallas_loop_skew": "off",
    "pallas_step_pairs": "off",
    "pallas_transposed_scores": "off",
    "pallas_straight_loops": "off",
}
UNFENCED = {"pallas_fenced_steps": "off"}
TURNED = {**PLAIN, "pallas_transposed_scores": "on"}
ONE_STEP = {"pallas_emit_pipeline_group_size": 1}


@dataclasses.dataclass(frozen=True)
class Case:
    """A kernel on arguments under a configuration, as the rows of a table name it."""

    label: str
    kernel: str
    args: tuple
    config: dict
    chips: tuple = V7X


def attention(width, loop, chips=BOTH, blocks=(1, 512, 1024), length=8192, label=None, **keys):
    """Attention with two heads: its time is in proportion to them."""
    config = {"block_sizes": list(blocks), "pallas_loop_type": loop, **keys}
    args = attention_args(2, length, width)
    return Case(label or f"D={width}", ATTENTION, args, config, chips)


# ---- cells


def cell_of(shown):
    """`shown`, but a refused configuration in a word."""
    return lambda outcome: "refused" if outcome.kind in ("refused", "vmem") else shown(outcome)


def time_and_vmem(outcome):
    """ms (MiB of VMEM used)."""
    return f"{milliseconds(outcome)} ({mib(outcome.vmem_bytes)})"


def time_and_temporaries(outcome):
    """ms (MiB of temporaries in HBM)."""
    return f"{milliseconds(outcome)} ({mib(outcome.temp_bytes)})"


def cycles_and_spills(outcome):
    """Thousands of cycles (spills/fills)."""
    return f"{kilocycles(outcome)} ({spills(outcome)})"


def cycles_and_xlu(outcome):
    """Thousands of cycles (share of the cross-lane unit's slots)."""
    return f"{kilocycles(outcome)} ({slot(outcome, 'XLU')})"


def hbm_time(outcome):
    """ms in which HBM moves what is copied."""
    value = known(outcome, "hbm_ms")
    return "-" if value is None else f"{value:.4f}"


# ---- tables


def comparison(what, cases, ways, shown=milliseconds, more=None):
    """A row for each case and chip, a column for each of `ways`, {head: further configuration}.

    `more`: {head: a cell from the outcome of the last way}.
    """
    rows, more = [], more or {}
    for case in cases:
        for chip in case.chips:
            jobs = {
                head: job("ours", case.kernel, case.args, {**case.config, **keys}, chip)
                for head, keys in ways.items()
            }

            def cells(outcomes, label=case.label, chip=chip):
                values = [cell_of(shown)(outcomes[head]) for head in ways]
                last = outcomes[list(ways)[-1]]
                return [label, chip, *values, *(cell_of(cell)(last) for cell in more.values())]

            rows.append(Row(jobs, cells))
    return Table((what, "chip", *ways, *more), rows)


def switch(key, *values):
    """{value: configuration} of one key."""
    return {str(value): {key: value} for value in values}


# ---- loop_skew


def steps_table():
    """What each way to overlap the steps of a loop gains, one on top of the other."""
    skew = {"pallas_loop_skew": "auto"}
    ways = {
        "as written": PLAIN,
        "skewed": {**PLAIN, **skew},
        "transposed": TURNED,
        "transposed, skewed": {**TURNED, **skew},
        "and in pairs": {**TURNED, **skew, "pallas_step_pairs": "on"},
    }
    return comparison("attention", [attention(w, "fori_loop") for w in (256, 128)], ways)


def windows_table():
    """A window of one step, of all of them."""
    ways = {
        "one step": {**ONE_STEP, "pallas_loop_skew": "off", "pallas_straight_loops": "off"},
        "one step, skewed": {**ONE_STEP, "pallas_loop_skew": "on"},
        "all steps, skewed": {"pallas_emit_pipeline_group_size": 1024},
    }
    cases = [attention(width, "emit_pipeline", V7X) for width in (256, 128)]
    return comparison("attention", cases, ways, time_and_vmem)


def small_table():
    """Loops of short steps, and a chip whose MXU is slow."""
    one_step = {"pallas_straight_loops": "off", **ONE_STEP}
    cases = [
        attention(
            *(128, loop, V7X, (1, 256, 256), 2048),
            label=f"D=128, S=2048, [1, 256, 256], {loop}",
            **one_step,
        )
        for loop in ("emit_pipeline", "fori_loop")
    ]
    cases += [
        attention(
            *(width, "fori_loop", ("v5e",)),
            label=f"D={width}, S=8192, [1, 512, 1024], fori_loop",
            **one_step,
        )
        for width in (256, 128)
    ]
    return comparison("attention", cases, switch("pallas_loop_skew", "off", "auto", "on"))


def copies_table():
    """Pairs of steps that each wait for copies."""
    case = attention(128, "fori_loop", V7X, pallas_fori_dma="on")
    return comparison("attention", [case], switch("pallas_step_pairs", "off", "on"))


def ahead_table():
    """Matmuls of unrolled steps so many steps earlier."""
    lanes = {"pallas_transposed_scores": "off"}
    cases = [
        attention(256, "unroll", V7X, label="D=256, statistics along lanes", **lanes),
        attention(256, "unroll"),
        attention(128, "unroll", V7X),
    ]
    ways = {"0 steps": {"pallas_matmul_ahead": 0}, "1": {"pallas_matmul_ahead": 1}}
    return comparison("attention", cases, {**ways, "2": {"pallas_matmul_ahead": 2}})


# ---- orient


def unrolled_table():
    """Unrolled attention with and without."""
    cases = [attention(256, "unroll", **UNFENCED), attention(128, "unroll", V7X, **UNFENCED)]
    return comparison("attention", cases, switch("pallas_transposed_scores", "off", "auto"))


def blocks_table():
    """Loops of two steps in an iteration with other block sizes."""
    cases = [
        attention(
            *(256, "fori_loop", V6E, blocks),
            label=f"D=256, {list(blocks)}",
            pallas_straight_loops="off",
        )
        for blocks in ((1, 512, 1024), (1, 256, 512), (1, 512, 2048))
    ]
    return comparison("attention", cases, switch("pallas_transposed_scores", "off", "on"))


def backward_table():
    """Attention's backward kernels, two heads."""
    tiles, rows = ("bfloat16[1,2,8192,128]",) * 4, ("float32[2,8192]",) * 2
    config = {"block_sizes": [1, 512, 512], "pallas_loop_type": "emit_pipeline"}
    cases = [
        Case(label, f"attention_backward.py:{name}", (*tiles, *rows, "False"), config, chips)
        for label, name, chips in (
            ("dq", "attention_dq", ("v7x", "v6e", "v5e")),
            ("dk and dv", "attention_dkdv", ("v7x", "v6e")),
            ("dq, dk and dv", "attention_backward", ("v7x", "v6e")),
        )
    ]
    return comparison("kernel", cases, switch("pallas_transposed_scores", "off", "on"), kilocycles)


def segments_table():
    """Attention with ids of segments, two heads."""
    tiles, ids = ("bfloat16[1,2,8192,128]",) * 3, ("int32[1,8192]",) * 2
    given = {"block_sizes": [512, 1024], "pallas_loop_type": "emit_pipeline"}
    cases = [
        Case(label, "attention_more.py:segment_attention", (*tiles, *ids), config, BOTH)
        for label, config in (("nothing given", {}), ("[512, 1024], emit_pipeline", given))
    ]
    ways = switch("pallas_transposed_scores", "off", "auto")
    return comparison("blocks", cases, ways, kilocycles)


# ---- column_strips, row_split

ROWS = ("bfloat16[4096,10240]",)
SOFTMAX_64 = Case("softmax, 64", "softmax.py:softmax", ROWS, {"block_sizes": [64]}, BOTH)
BACKWARD = Case(
    "layer-norm backward, 128", LAYER_NORM, layer_norm_args(10240), {"block_sizes": [128]}, BOTH
)


def strips_table():
    """Whole tiles and strips."""
    weights = ("bfloat16[10240]",) * 2
    norm = Case(
        *("layer norm, 128", "layer_norm.py:layer_norm", (*ROWS, *weights, "1e-5")),
        {"block_sizes": [128]},
    )
    labels = ("bfloat16[4096,32000]", "int32[4096,1]")
    loss = Case(
        *("cross-entropy of 32000 columns, 32", "losses.py:cross_entropy", labels),
        {"block_sizes": [32]},
    )
    few = {"block_sizes": [16], "pallas_wide_blocks": "off"}
    short = Case("softmax, 16, not widened", SOFTMAX_64.kernel, ROWS, few)
    wide = Case(
        "softmax float32, 64", SOFTMAX_64.kernel, ("float32[4096,10240]",), {"block_sizes": [64]}
    )
    cases = [BACKWARD, SOFTMAX_64, norm, loss, short, wide]
    ways = {"whole tiles": "off", "in strips": "on"}
    ways = {head: {"pallas_column_strips": value} for head, value in ways.items()}
    more = {"HBM alone": hbm_time, "fullest slots, in strips": slot_uses}
    return comparison("kernel, rows of a block", cases, ways, more=more)


def split_table():
    """A few rows at a time, whole tiles, strips of columns."""
    ways = {
        "rows at a time": {"pallas_row_split": "on"},
        "whole tiles": {"pallas_column_strips": "off"},
        "[in strips of columns](column_strips.md)": {},
    }
    return comparison("kernel, rows of a block", [BACKWARD, SOFTMAX_64], ways)


def rows_memory_table():
    """VMEM on each chip, MiB: predicted for whole tiles, and a few rows at a time."""
    rows = []
    for chip in ("v4", "v5e", "v5p", "v6e", "v7x"):
        config = {**BACKWARD.config, "pallas_row_split": "on"}
        jobs = {"on": job("ours", BACKWARD.kernel, BACKWARD.args, config, chip, static=False)}

        def cells(outcomes, chip=chip):
            whole = {**BACKWARD.config, "pallas_row_split": "off", "reduction_loops": [None]}
            told = predicted(BACKWARD.kernel, BACKWARD.args, whole, chip)
            return [chip, told, *memory_cells(outcomes["on"])[:2]]

        rows.append(Row(jobs, cells))
    return Table(("chip", "whole tiles: predicted", "rows at a time: predicted", "used"), rows)


# ---- inloop_loads


def inloop_table():
    """Q loaded before the loop and in it."""
    cases = [attention(width, "fori_loop") for width in (256, 128)]
    ways = switch("pallas_inloop_loads", "off", "auto")
    return comparison("attention", cases, ways, cycles_and_spills)


def scaled_table():
    """The product of Q and a number before the loop and in it."""
    config = {"block_sizes": [1, 512, 1024], "pallas_loop_type": "fori_loop"}
    kernel = "attention.py:attention_scaled_q"
    cases = [Case(f"D={w}", kernel, attention_args(2, 8192, w), config) for w in (256, 128)]
    ways = switch("pallas_inloop_loads", "auto", "on")
    return comparison("attention of scaled Q", cases, ways, cycles_and_spills)


# ---- loop_types


def straight_table():
    """Loops and straight code."""

    def multiply(blocks, loop, chips=V7X, depth=4096, rows=4096):
        args = (f"bfloat16[{rows},{depth}]", f"bfloat16[{depth},4096]")
        config = {"block_sizes": list(blocks), "pallas_loop_type": loop}
        steps = depth // blocks[2]
        size = f"M={rows}, K={depth}" if rows < 4096 else f"K={depth}"
        name = f"{size}, {list(blocks)}, {loop}: {steps} step{'s' if steps > 1 else ''}"
        return Case(name, MATMUL, args, config, chips)

    cube = (1024, 1024, 1024)
    cases = [
        multiply(cube, "emit_pipeline", BOTH),
        multiply(cube, "fori_loop", BOTH),
        multiply((512, 512, 512), "fori_loop"),
        multiply((1024, 1024, 4096), "emit_pipeline"),
        multiply((512, 512, 1), "emit_pipeline", depth=1),
        multiply((1, 512, 512), "emit_pipeline", BOTH, rows=1),
    ]
    ways = switch("pallas_straight_loops", "off", "auto")
    return comparison("matmul, M=N=4096", cases, ways, time_and_vmem)


def walk_table():
    """The grid's last dim back and forth."""
    config = {"block_sizes": [1024] * 3, "pallas_loop_type": "emit_pipeline"}
    case = Case("4096, [1024, 1024, 1024]", MATMUL, matmul_args(4096), config, V6E)
    return comparison("matmul", [case], switch("pallas_back_and_forth", "off", "on"))


def kept_table():
    """Means of rows, computed once for all tiles of columns; a table, widened once."""
    scores = {"block_sizes": [512] * 3, "pallas_loop_type": "emit_pipeline"}
    matrix, table = ("bfloat16[4096,2048]",), ("bfloat16[8192,1024]", "int32[8192]")
    cases = [
        Case("centred rows @ x.T, 4096 x 2048", "structure.py:centred_scores", matrix, scores),
        Case(
            *("8192 rows of an embedding, 8192 x 1024", "indirect.py:embedding"),
            *(table, {"block_sizes": [256, 1024]}, BOTH),
        ),
    ]
    ways = switch("pallas_grid_invariants", "off", "auto")
    return comparison("kernel", cases, ways, time_and_vmem)


def first_table():
    """Rows that a matmul multiplies: computed before the first of them, or beside it."""
    norm = {"block_sizes": [1024, 1024, 4096], "pallas_loop_type": "unroll"}
    matrices = ("bfloat16[4096,4096]", "bfloat16[4096]", "bfloat16[4096,4096]")
    cases = [
        Case("RMS norm + matmul, 4096 cubed", "fused.py:rms_norm_matmul", matrices, norm, BOTH),
        Case(
            *("centred rows @ x.T, 4096 x 2048, default blocks", "structure.py:centred_scores"),
            *(("bfloat16[4096,2048]",), {}, V7X),
        ),
    ]
    kept = {"pallas_grid_invariants": "on"}
    ways = {
        "computed in each step": {"pallas_grid_invariants": "off"},
        "before the first one": {**kept, "pallas_first_step": "off"},
        "in the first one": {**kept, "pallas_first_step": "on", "pallas_factor_chunks": "off"},
        "in chunks": {**kept, "pallas_first_step": "on", "pallas_factor_chunks": "on"},
    }
    return comparison("kernel", cases, ways, time_and_vmem)


# ---- result_pieces


def pieces_table():
    """What follows a matmul: computed of its whole result, or piece by piece."""

    def gelu(rows, depth, chips):
        label = f"matmul, bias, GELU, {rows} x {depth} x 4096"
        args = (f"bfloat16[{rows},{depth}]", f"bfloat16[{depth},4096]", "bfloat16[4096]")
        config = {"block_sizes": [1024, 1024, depth], "pallas_loop_type": "unroll"}
        return Case(label, "matmul.py:matmul_bias_gelu", args, config, chips)

    cases = [gelu(4096, 4096, BOTH), gelu(8192, 1024, V7X), gelu(8192, 512, V7X)]
    return comparison("kernel", cases, switch("pallas_result_pieces", "off", "on"), time_and_vmem)


# ---- pre_broadcast


def widened_table():
    """Row statistics as columns and with 128 lanes."""
    wide = {"block_sizes": [1024, 256], "pallas_loop_type": "emit_pipeline"}
    nested = {"block_sizes": [256] * 3, "pallas_loop_type": "emit_pipeline"}
    cases = [
        attention(128, "fori_loop", V7X, label="attention D=128, fori_loop", **PLAIN),
        attention(
            128, "emit_pipeline", V7X, label="attention D=128, emit_pipeline", **PLAIN, **ONE_STEP
        ),
        Case("softmax in two passes, emit_pipeline", SOFTMAX, ("float32[2048,8192]",), wide),
        Case(
            *("nested loops, emit_pipeline", NESTED),
            ("float32[2048,1024]", "float32[2048,2048]", "256"),
            nested,
        ),
    ]
    return comparison("kernel", cases, switch("pallas_pre_broadcast", "off", "on"), cycles_and_xlu)


# ---- scale_after_max


def maximum_table():
    """Scores scaled before their maximum and after."""
    cases = [
        attention(256, "unroll", label="D=256, unroll", **UNFENCED),
        attention(128, "unroll", V7X, label="D=128, unroll", **UNFENCED),
        attention(256, "fori_loop", V7X, label="D=256, fori_loop"),
        attention(128, "fori_loop", V7X, label="D=128, fori_loop"),
    ]
    return comparison("attention", cases, switch("pallas_scale_after_max", "off", "on"))


# ---- wide_blocks


def wide_table():
    """Kernels of docs/coverage.md that `auto` widens."""
    rows, gate = ("bfloat16[1,32,8192,128]",) * 2, ("bfloat16[8192,14336]",) * 2
    grads = ("bfloat16[4096,4096]",) * 2
    norm = ("bfloat16[16,32,16,4096]", "bfloat16[32,16]", "bfloat16[32,16]", "1e-5")
    pipeline = {"pallas_loop_type": "emit_pipeline"}
    cases = [
        Case(
            *("attention backward, delta", "attention_backward.py:attention_delta", rows),
            *({"block_sizes": [1, 1024], **pipeline}, BOTH),
        ),
        Case(
            *("fused linear + JSD", "rl.py:fused_linear_jsd"),
            ("bfloat16[4096,2048]", "bfloat16[8192,2048]") * 2 + ("0.5",),
            *({"block_sizes": [64, 512], **pipeline}, BOTH),
        ),
        Case(
            *("squeeze-and-excitation backward, b", "norms.py:squeeze_excite_bwd_b"),
            (*grads, "bfloat16[4096,1024]", grads[0]),
            {"block_sizes": [128, 512, 128]},
        ),
        Case("group norm", "norms.py:group_norm", norm, {"block_sizes": [1, 2]}),
        Case("swiglu", "gated.py:swiglu", gate, {"block_sizes": [256, 1024]}),
        Case(
            *("products of rows of 1024", "reductions.py:prod_rows", ("bfloat16[8192,1024]",)),
            {"block_sizes": [128]},
        ),
    ]
    return comparison("kernel", cases, switch("pallas_wide_blocks", "off", "auto"), kilocycles)


# ---- summed_parts


def summed_table():
    """Backwards of norms: their weights' gradients summed by the wrapper, and in the kernel."""
    cases = []
    for rows, width in ((8192, 4096), (4096, 10240)):
        x, weight, stat = f"bfloat16[{rows},{width}]", f"bfloat16[{width}]", f"float32[{rows}]"
        blocks = {"block_sizes": [128]}
        cases += [
            Case(
                *(f"layer norm backward {rows} x {width}", "layer_norm.py:layer_norm_bwd"),
                *((x, x, stat, stat, weight), blocks, BOTH),
            ),
            Case(
                *(f"RMS norm backward {rows} x {width}", "norms.py:rms_norm_bwd"),
                *((x, x, weight, stat), blocks, BOTH),
            ),
        ]
    return comparison("kernel", cases, switch("pallas_summed_parts", "off", "auto"))


# ---- third_buffers


def two_and_auto(cases):
    """Of (number of inputs, case) each: two buffers of every input, and what auto takes."""
    tables = []
    for inputs, case in cases:
        ways = {"two": {"pallas_load_buffer_count": [2] * inputs}, "auto": {}}
        tables.append(comparison("kernel", [case], ways, kilocycles))
    return Table(tables[0].heads, [row for table in tables for row in table.rows])


def third_table():
    """Kernels of one to four inputs: two buffers of their blocks, and what auto takes."""
    wide, weight = ("bfloat16[4096,8192]",), ("bfloat16[8192]",)
    rows, half = {"block_sizes": [128]}, {"block_sizes": [64]}
    tiles, more = {"block_sizes": [256, 512]}, {"block_sizes": [256]}
    images = ("bfloat16[16,512,4096]", "1e-5")
    norm = (*wide, *weight, *weight, "1e-5")
    grad = (*wide, *wide, *weight, "float32[4096]")
    cases = (
        (1, Case("softmax, 128 rows", SOFTMAX_64.kernel, ROWS, rows, BOTH)),
        (1, Case("softmax, 64 rows", SOFTMAX_64.kernel, ROWS, half)),
        (2, Case("RMS norm, 64 rows", "norms.py:rms_norm", (*wide, *weight, "1e-6"), half, BOTH)),
        (3, Case("layer norm, 64 rows", "layer_norm.py:layer_norm", norm, half)),
        (4, Case("RMS norm backward, 64 rows", "norms.py:rms_norm_bwd", grad, half)),
        (2, Case("softmax backward, 256 rows", "fused.py:softmax_bwd", wide * 2, more, BOTH)),
        (
            1,
            Case(
                "instance norm", "norms.py:instance_norm", images, {"block_sizes": [1, 256]}, BOTH
            ),
        ),
        (1, Case("standard deviation, 128 rows", "reductions.py:std_rows", ROWS, rows, V6E)),
        (
            1,
            Case(
                "tickets, 256 x 512", "old_values.py:tickets", ("float32[8192,4096]",), tiles, BOTH
            ),
        ),
    )
    return two_and_auto(cases)


def third_loops_table():
    """Long rows, in loops that copy them: two buffers of each window, and what auto takes."""
    loop = {"block_sizes": [128, 4096], "pallas_loop_type": "fori_loop"}
    rows, long, rolled = ("bfloat16[512,131072]",), "float32[64,1048576]", {"block_sizes": [32]}
    norm = (long, "float32[1048576]", "1e-6")
    cases = (
        (1, Case("sums of 131,072", "reductions.py:long_sum", rows, loop)),
        (1, Case("extremes of 131,072", "reductions.py:long_extremes", rows, loop)),
        (1, Case("softmax of 1,048,576", SOFTMAX_64.kernel, (long,), rolled, BOTH)),
        (2, Case("RMS norm of 1,048,576", "norms.py:rms_norm", norm, rolled, BOTH)),
    )
    return two_and_auto(cases)


# ---- runs


def first_chunks_table():
    """Matmuls of whole rows of K in straight steps, with the grid's own pipeline and without."""
    blocks = {"block_sizes": [1024, 1024, 1024]}
    square = "bfloat16[4096,4096]"
    given = (square, "int8[4096,4096]", "float32[4096]")
    cases = [
        Case("matmul 4096^3", "matmul.py:matmul", (square, square), blocks, BOTH),
        Case("SwiGLU", "gated.py:matmul_swiglu", (square,) * 3, blocks, BOTH),
        Case("int8 weights", "quantized.py:weight_only_matmul", given, blocks, BOTH),
    ]
    ways = {"grid": {"pallas_first_chunks": "off"}, "auto": {}}
    return comparison("kernel", cases, ways, kilocycles)


def one_step_table():
    """Matmuls of 4096 cubed: K in straight steps, the first ones in chunks, and as one step."""

    def square(*dtypes):
        return tuple(f"{dtype}[4096,4096]" for dtype in dtypes)

    scale, scales = ("float32[4096]",), ("float32[4096]",) * 2
    bias, one = ("bfloat16[4096]",), ("0.5", "0.25")
    plain = square("bfloat16", "bfloat16")
    cases = [
        ("bfloat16", "matmul.py:matmul", plain),
        ("float8_e4m3fn", "quantized.py:fp8_matmul", square(*("float8_e4m3fn",) * 2) + one),
        ("float8_e5m2", "quantized.py:fp8_matmul", square(*("float8_e5m2",) * 2) + one),
        ("int8", "quantized.py:int8_matmul", square("int8", "int8") + scales),
        ("int8 weights", "quantized.py:weight_only_matmul", square("bfloat16", "int8") + scale),
        ("bias, GELU", "matmul.py:matmul_bias_gelu", plain + bias),
        ("tanh GELU", "matmul_more.py:matmul_gelu_tanh", plain + bias),
        ("RMS norm", "fused.py:rms_norm_matmul", (plain[0], *bias, plain[1])),
        ("both factors transposed", "matmul_more.py:matmul_tt", plain),
    ]
    steps, whole = {"block_sizes": [1024] * 3}, {"block_sizes": [1024, 1024, 4096]}
    ways = {
        "steps": {**steps, "pallas_first_chunks": "off"},
        "in chunks": {**steps, "pallas_first_chunks": "on"},
        "one step": whole,
    }
    loop = {"pallas_loop_type": "unroll"}
    named = [Case(label, kernel, args, loop, BOTH) for label, kernel, args in cases]
    return comparison("4096^3", named, ways, kilocycles)


# ---- whole_rows


def joined_table():
    """Softmax in two passes: its loops, and whole rows in their place."""
    cases = [
        Case(
            loop,
            race.SOFTMAX_LOOP,
            ROWS,
            {"block_sizes": [512, 1024], "pallas_loop_type": loop},
            BOTH,
        )
        for loop in ("unroll", "fori_loop", "emit_pipeline")
    ]
    ways = {"loops": {"pallas_whole_rows": "off"}, "whole rows": {"pallas_whole_rows": "on"}}
    return comparison("`pallas_loop_type`", cases, ways)


# ---- alignment


def swapped_table():
    """An array that lies the other way round, copied and swapped."""
    config = {"block_sizes": [512, 64, 1024], "pallas_loop_type": "fori_loop", "split_k": 8}
    case = Case("split-K 8", race.SPLIT_K, split_k_args(512), config, BOTH)
    ways = {"as it is": {"pallas_boundary_views": "off"}, "swapped": {}}
    return comparison("kernel", [case], ways, time_and_temporaries)


LARGE = attention_args(32, 8192, 256, batch=8)


def headline_table():
    """Attention in blocks of 8 heads and of 2."""
    rows = []
    for heads in (8, 2):
        config = {"block_sizes": [heads, 512, 2048], "pallas_loop_type": "unroll"}
        jobs = {"ours": job("ours", ATTENTION, LARGE, config, "v7x", static=False)}

        def cells(outcomes, heads=heads):
            outcome = outcomes["ours"]
            told = "refused" if outcome.kind == "refused" else verdict(outcome)
            return [heads, told, *memory_cells(outcome)]

        rows.append(Row(jobs, cells))
    return Table(("`tile_b`", "v7x", "VMEM predicted", "used", "HBM temporaries"), rows)


def memory_cells(outcome):
    """VMEM predicted and used, temporaries in HBM, MiB."""
    predicted = outcome.plan["vmem"]["total"] if outcome.plan else None
    return [mib(predicted), mib(outcome.vmem_bytes), mib(outcome.temp_bytes)]


def pressure_table():
    """The plan's estimate of VMEM, for which nothing is compiled."""
    loops = ("unroll", "fori_loop", "emit_pipeline")

    def cells(heads):
        def of(outcomes):
            base = {"block_sizes": [heads, 512, 2048], "pallas_straight_loops": "off"}
            ways = [{**base, "pallas_loop_type": loop} for loop in loops]
            return [heads, *(predicted(ATTENTION, LARGE, way, "v7x") for way in ways)]

        return of

    rows = [Row({}, cells(heads)) for heads in (2, 3, 4)]
    return Table(("`tile_b`", *loops), rows)


def predicted(kernel, args, config, chip):
    """MiB of VMEM that the plan needs, and the inputs in one window; "refused" over the limit."""
    try:
        plan = binding.compile(document(kernel, args), config, chip).plan
    except CompileError:
        return "refused"
    return mib(plan["vmem"]["total"])


# ---- README


def beside_table():
    """Ours and Helion's, fori_loop on v7x."""
    multiply = race.config_text((512, 512, 512), "fori_loop")
    theirs = race.config_text((512, 512, 512), "fori_loop", pallas_load_buffer_count=[2, 2])
    contests = [
        race.Contest(
            "attention B=8 H=32 S=8192 D=256, [1, 512, 1024]",
            [race.attention_ours(256, (1, 512, 1024), "fori_loop")],
            race.attention_helion(256, (1, 512, 1024), "fori_loop"),
            [],
        ),
        race.Contest(
            "matmul 4096, [512, 512, 512]",
            [race.Run("ours", MATMUL, matmul_args(4096), multiply)],
            [race.Run("helion", MATMUL, matmul_args(4096), theirs)],
            [],
        ),
    ]

    def cells(contest):
        def of(named):
            outcomes = race_tables.by_job(race_tables.contest_jobs(contest, "v7x"), named)
            sides = (contest.ours, contest.helion)
            found = [race_tables.fastest(runs, outcomes, "v7x") for runs in sides]
            return [contest.name, *(race_tables.time_cell(side) for side in found)]

        return of

    rows = [Row(race_tables.contest_jobs(contest, "v7x"), cells(contest)) for contest in contests]
    return Table(("fori_loop on v7x, blocks", "pallasc, ms", "Helion, ms"), rows)


def memory_table():
    """VMEM of attention with all its heads."""
    ways = {
        "[1, 512, 1024], emit_pipeline": {
            "block_sizes": [1, 512, 1024],
            "pallas_loop_type": "emit_pipeline",
        },
        "[2, 512, 2048], unroll": {"block_sizes": [2, 512, 2048], "pallas_loop_type": "unroll"},
    }
    rows = []
    for label, config in ways.items():
        jobs = {"ours": job("ours", ATTENTION, LARGE, config, "v7x", static=False)}
        rows.append(Row(jobs, lambda named, label=label: [label, *memory_cells(named["ours"])]))
    heads = ("that attention: MiB", "VMEM predicted", "used", "HBM temporaries")
    return Table(heads, rows)


# {page: {name: table}}, pages as the repository names them.
PAGES = {
    "README.md": {"beside": beside_table, "memory": memory_table},
    "docs/passes/loop_skew.md": {
        "steps": steps_table,
        "small": small_table,
        "copies": copies_table,
        "ahead": ahead_table,
        "windows": windows_table,
    },
    "docs/passes/orient.md": {
        "unrolled": unrolled_table,
        "blocks": blocks_table,
        "backward": backward_table,
        "segments": segments_table,
    },
    "docs/passes/loop_types.md": {"straight": straight_table, "walk": walk_table},
    "docs/passes/column_strips.md": {"strips": strips_table},
    "docs/passes/row_split.md": {"memory": rows_memory_table, "split": split_table},
    "docs/passes/scale_after_max.md": {"maximum": maximum_table},
    "docs/passes/inloop_loads.md": {"inloop": inloop_table, "scaled": scaled_table},
    "docs/passes/wide_blocks.md": {"wide": wide_table},
    "docs/passes/third_buffers.md": {"third": third_table, "third_of_loops": third_loops_table},
    "docs/passes/summed_parts.md": {"summed": summed_table},
    "docs/config.md": {"one_step": one_step_table},
    "docs/passes/runs.md": {"first_chunks": first_chunks_table},
    "docs/passes/result_pieces.md": {"pieces": pieces_table},
    "docs/passes/grid_invariants.md": {"kept": kept_table, "first": first_table},
    "docs/passes/whole_rows.md": {"joined": joined_table},
    "docs/passes/pre_broadcast.md": {"widened": widened_table},
    "docs/passes/alignment.md": {
        "headline": headline_table,
        "swapped": swapped_table,
        "pressure": pressure_table,
    },
}
