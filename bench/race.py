"""The rows of `make bench`: which kernels race, in which configurations.

A `Contest` is a row: runs of ours, of Helion's and of kernels that people wrote, of each side the
fastest counts. A new row is a new entry of CONTESTS, a new switch whose gain is to be shown a new
line of CHOICES; nothing else needs to change.
"""

import dataclasses
import functools
import importlib.util
import json
import re

from measure import Job
from sections import (
    ATTENTION,
    LOOPS,
    attention_args,
    layer_norm_args,
    matmul_args,
    split_k_args,
)

CHIPS = ("v7x", "v6e")
PEERS = ("Helion", "jax", "tokamax", "tpu-inference", "XLA")
HEADS = 256  # B=8 H=32
MATMUL = "matmul.py:matmul"
LAYER_NORM = "layer_norm.py:layer_norm_bwd"
LAYER_NORM_LOOP = "layer_norm.py:layer_norm_bwd_two_level"
SOFTMAX = "softmax.py:softmax"
SOFTMAX_LOOP = "softmax.py:softmax_two_pass"
SPLIT_K = "split_k.py:matmul_split_k"


@dataclasses.dataclass(frozen=True)
class Run:
    """A kernel on arguments under a configuration; its time counts `scale` times."""

    side: str
    kernel: str
    args: tuple
    config: str
    scale: int = 1

    @property
    def of(self):
        """Whose it is: "ours", or one of PEERS."""
        library = self.kernel.partition(".")[0] if self.side == "hand" else self.side
        return {"helion": "Helion", "xla": "XLA"}.get(library, library)

    def job(self, chip):
        """Its `Job` for a chip."""
        return Job(self.side, self.kernel, self.args, self.config, chip)


@dataclasses.dataclass
class Contest:
    """A row of the table.

    Attributes:
      name: what is computed, and how the loop is lowered.
      ours, helion, hand: runs; the fastest of each counts.
      parts: contests whose times are added up for a side that has no run of its own.
      serving: the row of bench/serving.json that has the times instead of runs.
      over: the name of the contest of the plain matmul that this one has more around.
      flops: {dtype: FLOP} of what a mask leaves to do; None: the graph's.
      sub_flops: FLOP of the sub-blocks of scores that a mask leaves to do; 0 where none is asked.
      moved: bytes "read" and "written" of what int tensors name; None: all arrays once.
    """

    name: str
    ours: list
    helion: list
    hand: list
    parts: list = dataclasses.field(default_factory=list)
    serving: str = ""
    over: str = ""
    flops: dict | None = None
    sub_flops: int = 0
    moved: dict | None = None

    def sides(self):
        """{side: runs}."""
        return {"ours": self.ours, "helion": self.helion, "hand": self.hand}

    @property
    def scale(self):
        """How often a time of its runs counts."""
        return (self.ours or self.parts[0].ours)[0].scale

    def runs(self, side):
        """Runs of "ours" or of a peer, by the names of PEERS."""
        every = [run for runs in self.sides().values() for run in runs]
        return [run for run in every if run.of == side]


def config_text(blocks=None, loop=None, **keys):
    """A configuration as JSON."""
    config = {"block_sizes": list(blocks)} if blocks else {}
    config |= {"pallas_loop_type": loop} if loop else {}
    return json.dumps(config | keys)


# ---- attention: eight heads, so that the first load of K and V whole weighs as with all


def attention_run(side, width, blocks, loop, heads=2, **keys):
    """Attention with S=8192 on a few heads, as if on all."""
    args = attention_args(heads, 8192, width)
    return Run(side, ATTENTION, args, config_text(blocks, loop, **keys), HEADS // heads)


def attention_ours(width, blocks, loop):
    """Ours."""
    return attention_run("ours", width, blocks, loop, 8)


def attention_helion(width, blocks, loop):
    """Helion's, on as many heads as block_b has: with more it would raise block_b."""
    keys = {"pallas_load_buffer_count": [2, 2, 2]} if loop == "fori_loop" else {}
    return [attention_run("helion", width, blocks, loop, blocks[0], **keys)]


@functools.cache
def has_tokamax():
    """Whether tokamax is installed (requirements-bench.txt)."""
    return importlib.util.find_spec("tokamax") is not None


TOKAMAX_SIZES = ((2048, 4096, 512), (2048, 2048, 1024), (2048, 4096, 1024), (2048, 2048, 512))
SPLASH_SIZES = ((1024, 2048, 1024), (2048, 2048, 512))
FLASH_SIZES = ((2048, 2048, 512),)
SPLASH_NAMES = ("block_q", "block_kv", "block_kv_compute")
FLASH_NAMES = ("block_q", "block_k_major", "block_k")


def attention_hand(width):
    """Every hand-written attention at its best block sizes (found by trying)."""
    kernels = [("jax.splash_attention", SPLASH_NAMES, SPLASH_SIZES)]
    kernels.append(("jax.flash_attention", FLASH_NAMES, FLASH_SIZES))
    if has_tokamax():
        kernels.append(("tokamax.splash_attention", SPLASH_NAMES, TOKAMAX_SIZES))
    args = attention_args(8, 8192, width)
    return [
        Run("hand", kernel, args, json.dumps(dict(zip(names, sizes, strict=True))), HEADS // 8)
        for kernel, names, table in kernels
        for sizes in table
    ]


def attention_contest(width, blocks, loop):
    """One configuration of attention."""
    return Contest(
        f"attention D={width}, {loop} {list(blocks)}",
        [attention_ours(width, blocks, loop)],
        attention_helion(width, blocks, loop),
        attention_hand(width),
    )


# What is tried for "best of any configuration"; add here what a new choice makes fast.
BEST = (
    ((1, 512, 1024), "unroll"),
    ((2, 512, 2048), "unroll"),
    ((1, 1024, 1024), "unroll"),
    ((1, 512, 2048), "unroll"),
    ((1, 512, 1024), "fori_loop"),
    ((2, 512, 1024), "fori_loop"),
    ((1, 1024, 1024), "fori_loop"),
    ((1, 2048, 1024), "fori_loop"),
    ((1, 1024, 1024), "emit_pipeline"),
)
# Helion's, with the number of heads that it is measured on; block_b is raised to it.
BEST_HELION = (((1, 512, 1024), 2), ((1, 512, 1024), 1), ((2, 512, 2048), 2), ((1, 1024, 1024), 1))


def best_contest(width):
    """The fastest of several configurations."""
    return Contest(
        f"attention D={width}, best of any configuration",
        [attention_ours(width, blocks, loop) for blocks, loop in BEST],
        [attention_run("helion", width, blocks, "unroll", heads) for blocks, heads in BEST_HELION],
        attention_hand(width),
    )


LONG, LONG_ROWS, LONG_ROWS_HELION = 131072, 32768, 1024


def long_contest(loop):
    """One head of 131072 rows of K and V; a part of the rows of Q, as if all of them."""
    buffers = {"pallas_load_buffer_count": [2, 2, 2]} if loop == "fori_loop" else {}

    def run(side, rows, **keys):
        args = (f"bfloat16[1,1,{rows},128]", *(f"bfloat16[1,1,{LONG},128]",) * 2)
        return Run(side, ATTENTION, args, config_text((1, 512, 1024), loop, **keys), LONG // rows)

    name = f"attention B=1 H=1 S=131072 D=128, {loop} [1, 512, 1024]"
    helion = run("helion", LONG_ROWS_HELION, **buffers)
    return Contest(name, [run("ours", LONG_ROWS)], [helion], [])


# Head width, block sizes, loop type.
ATTENTION_ROWS = (
    (256, (2, 512, 2048), "unroll"),
    *((width, (1, 512, 1024), loop) for width in (256, 128, 64) for loop in LOOPS),
)


def attention_contests():
    """All rows of attention."""
    for row in ATTENTION_ROWS:
        yield attention_contest(*row)
    yield best_contest(256)
    yield best_contest(128)
    for loop in ("emit_pipeline", "fori_loop"):
        yield long_contest(loop)


# ---- the rest


WHOLE_VMEM = {"pallas_whole_vmem": "on"}  # so XLA copies no input there before a short kernel


def both(kernel, args, texts):
    """(ours, Helion's) runs of a kernel in each configuration."""
    return [[Run(side, kernel, args, text) for text in texts] for side in ("ours", "helion")]


def matmul_contests():
    """4096^3 in blocks of 1024."""
    args = matmul_args(4096)
    sizes = ((1024, 1024, 1024), (1024, 1024, 512), (2048, 1024, 512))
    names = ("block_m", "block_n", "block_k")
    hand = [
        Run("hand", "jax.matmul", args, json.dumps(dict(zip(names, blocks, strict=True))))
        for blocks in sizes
    ]
    hand.append(Run("hand", "xla.matmul", args, "{}"))
    for loop in ("emit_pipeline", "fori_loop"):
        blocks = (1024, 1024, 1024)
        texts = [config_text(blocks, loop)]
        if loop == "fori_loop":  # which Helion runs with one buffer if not asked
            texts.append(config_text(blocks, loop, pallas_load_buffer_count=[2, 2]))
        runs = both(MATMUL, args, texts)
        yield Contest(f"matmul 4096^3, {loop} {list(blocks)}", *runs, hand)


def layer_norm_contest():
    """Both forms of the kernel: blocks of whole rows, and a loop over a block's rows."""
    args = layer_norm_args(10240)
    runs = [
        both(LAYER_NORM, args, [config_text((rows,)) for rows in (64, 128)]),
        both(LAYER_NORM_LOOP, args, [config_text((512, 128), loop) for loop in LOOPS[1:]]),
    ]
    ours, helion = (a + b for a, b in zip(*runs, strict=True))
    hand = [Run("hand", "xla.layer_norm_bwd", args, "{}")]
    return Contest("layer-norm backward 4096x10240", ours, helion, hand)


def softmax_contests():
    """A whole row at once, and two passes over it."""
    args = ("bfloat16[4096,10240]",)
    hand = [Run("hand", "xla.softmax", args, "{}")]
    runs = both(SOFTMAX, args, [config_text((rows,)) for rows in (64, 128, 256)])
    yield Contest("softmax 4096x10240, whole row", *runs, hand)
    texts = [config_text((512, 1024), loop) for loop in LOOPS]
    runs = both(SOFTMAX_LOOP, args, texts)
    yield Contest("softmax 4096x10240, two-pass", *runs, hand)


def split_k_contest():
    """M=512 K=32768 N=64 in eight parts; two buffers, which is less than Helion's own default."""
    args = split_k_args(512)
    keys = {"split_k": 8, "pallas_load_buffer_count": [2, 2]}
    texts = [config_text((rows, 64, 1024), loop, **keys) for rows in (128, 512) for loop in LOOPS]
    hand = [Run("hand", "xla.matmul", args, "{}")]
    hand.append(Run("hand", "xla.split_k", args, json.dumps({"parts": 8})))
    flops = {"bfloat16": 2 * 512 * 32768 * 64}  # parts are as long as the kernel computes
    name = "split-K 8, M=512 K=32768 N=64"
    ours, helion = both(SPLIT_K, args, texts)
    more = [config_text((512, 64, 1024), "fori_loop", **keys, **WHOLE_VMEM)]
    for columns in (1024, 2048):
        more += [config_text((512, 64, columns), split_k=1, **vmem) for vmem in ({}, WHOLE_VMEM)]
    ours += [Run("ours", SPLIT_K, args, text) for text in more]
    return Contest(name, ours, helion, hand, flops=flops)


CONTESTS = [
    *attention_contests(),
    *matmul_contests(),
    layer_norm_contest(),
    *softmax_contests(),
    split_k_contest(),
]


# ---- what each choice gains


@dataclasses.dataclass(frozen=True)
class Choice:
    """A key of the configuration, two of its values, and a kernel on which they are compared."""

    key: str
    off: object
    on: object
    what: str
    run: Run


def attention_choice(key, off, on, width, blocks, loop, heads=2):
    """A choice on attention with two heads, or so many that the grid has points to spare."""
    what = f"attention D={width}, {loop} {list(blocks)}"
    return Choice(key, off, on, what, attention_run("ours", width, blocks, loop, heads))


def plain_choice(key, off, on, kernel, args, blocks, loop=None, **tunables):
    """A choice on another kernel."""
    name = f"{kernel.rpartition(':')[2]} {loop or ''} {list(blocks)}"
    run = Run("ours", kernel, tuple(args), config_text(blocks, loop, **tunables))
    return Choice(key, off, on, re.sub(" +", " ", name), run)


SMALL = (1, 512, 1024)
ONE_ROW = ("bfloat16[1,4096]", "bfloat16[4096,4096]")
# One line each: key, off, on, kernel. A key that this compiler does not know is left out.
CHOICES = [
    attention_choice("pallas_pre_broadcast", "off", "on", 256, SMALL, "emit_pipeline"),
    attention_choice("pallas_pre_broadcast", "off", "on", 128, SMALL, "fori_loop"),
    attention_choice("pallas_inloop_loads", "off", "auto", 128, SMALL, "fori_loop"),
    attention_choice("pallas_inloop_loads", "off", "auto", 256, SMALL, "emit_pipeline"),
    attention_choice("pallas_fori_dma", "on", "off", 256, SMALL, "fori_loop"),
    plain_choice(
        *("pallas_fori_dma", "on", "off", MATMUL, matmul_args(4096)),
        *((1024, 1024, 1024), "fori_loop"),
    ),
    plain_choice("pallas_row_split", "off", "on", SOFTMAX, ("bfloat16[4096,10240]",), (128,)),
    plain_choice("pallas_row_split", "off", "on", LAYER_NORM, layer_norm_args(10240), (128,)),
    attention_choice("pallas_transposed_scores", "off", "auto", 256, SMALL, "fori_loop"),
    attention_choice("pallas_transposed_scores", "off", "auto", 256, SMALL, "unroll"),
    attention_choice("pallas_transposed_scores", "off", "auto", 128, SMALL, "emit_pipeline"),
    attention_choice("pallas_transposed_scores", "off", "auto", 64, SMALL, "fori_loop"),
    plain_choice(
        *("pallas_id_masks", "off", "auto", "attention_more.py:segment_attention"),
        *((*("bfloat16[1,8,8192,128]",) * 3, *("int32[1,8192]",) * 2), (2048, 1024), "fori_loop"),
    ),
    attention_choice("pallas_matmul_ahead", 0, "auto", 256, SMALL, "unroll"),
    attention_choice("pallas_matmul_ahead", 0, "auto", 128, SMALL, "unroll"),
    attention_choice("pallas_scale_after_max", "off", "auto", 256, SMALL, "unroll"),
    *(
        attention_choice("pallas_fenced_steps", "off", "auto", width, SMALL, "unroll", 8)
        for width in (256, 128, 64)
    ),
    attention_choice("pallas_emit_pipeline_group_size", 1, 1024, 256, SMALL, "emit_pipeline"),
    attention_choice("pallas_loop_skew", "off", "on", 256, SMALL, "fori_loop"),
    attention_choice("pallas_loop_skew", "off", "on", 128, SMALL, "emit_pipeline"),
    *(
        attention_choice("pallas_wide_blocks", "off", "auto", width, SMALL, "fori_loop", 8)
        for width in (256, 128, 64)
    ),
    plain_choice(
        *("pallas_loop_skew", "off", "auto", "attention.py:causal_attention"),
        *(attention_args(2, 8192, 128), (1, 1024, 512), "fori_loop"),
    ),
    attention_choice("pallas_step_pairs", "off", "auto", 256, SMALL, "fori_loop"),
    attention_choice("pallas_step_pairs", "off", "auto", 128, SMALL, "emit_pipeline"),
    plain_choice(
        *("pallas_straight_loops", "off", "auto", MATMUL, matmul_args(4096)),
        *((1024, 1024, 1024), "emit_pipeline"),
    ),
    plain_choice(
        *("pallas_wide_blocks", "off", "auto", "attention_more.py:decode_attention"),
        *(("bfloat16[16,32,128]", *("bfloat16[16,8,8192,128]",) * 2), (1, 1024), "emit_pipeline"),
    ),
    plain_choice(
        *("pallas_straight_loops", "off", "auto", SPLIT_K, split_k_args(512)),
        *((512, 64, 1024), "fori_loop"),
        split_k=8,
    ),
    attention_choice("pallas_ahead_across", "off", "auto", 128, SMALL, "fori_loop", 8),
    plain_choice(
        *("pallas_ahead_across", "off", "auto", "attention.py:causal_attention"),
        *((*("bfloat16[1,8,8192,128]",) * 3,), (1, 2048, 1024), "fori_loop"),
    ),
    plain_choice(
        *("pallas_turn_once", "off", "auto", "attention.py:causal_attention"),
        *((*("bfloat16[1,8,8192,128]",) * 3,), (1, 2048, 1024), "fori_loop"),
    ),
    plain_choice(
        *("pallas_windows_across", "off", "on", "attention_more.py:decode_attention"),
        *(("bfloat16[16,32,128]", *("bfloat16[16,8,8192,128]",) * 2), (1, 1024), "fori_loop"),
        **{"pallas_fori_dma": "on", "pallas_loop_skew": "off"},
    ),
    plain_choice(
        *("pallas_straight_loops", "off", "auto", MATMUL, ONE_ROW),
        *((1, 512, 512), "emit_pipeline"),
    ),
    plain_choice("pallas_column_strips", "off", "auto", LAYER_NORM, layer_norm_args(10240), (128,)),
    plain_choice(
        *("pallas_whole_rows", "off", "auto", SOFTMAX_LOOP, ("bfloat16[4096,10240]",)),
        *((512, 1024), "fori_loop"),
    ),
    plain_choice("pallas_load_buffer_count", [2], [3], SOFTMAX, ("bfloat16[4096,10240]",), (128,)),
    plain_choice(
        *("pallas_grid_invariants", "off", "auto", "structure.py:centred_scores"),
        *(("bfloat16[4096,2048]",), (512, 512, 512), "emit_pipeline"),
    ),
    plain_choice(
        *("pallas_grid_invariants", "off", "auto", "indirect.py:embedding"),
        *(("bfloat16[8192,1024]", "int32[8192]"), (256, 1024)),
    ),
    plain_choice(
        *("pallas_gather_across", "off", "auto", "indirect.py:embedding"),
        *(("bfloat16[32768,4096]", "int32[8192]"), (512, 4096)),
    ),
    plain_choice(
        *("pallas_first_chunks", "off", "auto", MATMUL, matmul_args(4096)),
        *((1024, 1024, 1024), "unroll"),
    ),
    plain_choice(
        *("pallas_factor_chunks", "off", "auto", "fused.py:rms_norm_matmul"),
        *(("bfloat16[4096,4096]", "bfloat16[4096]", "bfloat16[4096,4096]"), (1024, 1024, 4096)),
        *("unroll",),
        **{"pallas_grid_invariants": "on", "pallas_first_step": "on"},
    ),
    plain_choice(
        *("pallas_result_pieces", "off", "auto", "matmul.py:matmul_bias_gelu"),
        *(("bfloat16[4096,4096]", "bfloat16[4096,4096]", "bfloat16[4096]"), (1024, 1024, 4096)),
        *("unroll",),
    ),
]
