"""Further rows of the race, one for each kernel and size, whatever the loop is lowered to.

A new row is a new entry of MORE; a row of serving kernels is one of docs/serving.md by its name.
"""

import json

import numpy as np
import race
from race import Contest, Run
from sections import attention_args

ATTENTION_MORE = "attention_more.py"
BACKWARD = "attention_backward.py"
QUANTIZED = "quantized.py"
NORMS = "norms.py"
FUSED = "fused.py"
PLAIN = "matmul 4096^3, emit_pipeline [1024, 1024, 1024]"
FULL = "attention D=128, best of any configuration"
ROWS, WIDTH, HEADS = 8192, 128, 2
SUB_BLOCK = 256
BUFFERS = {"pallas_load_buffer_count": [2, 2]}


def contest(name, kernel, args, configs, hand=(), helion=(), scale=1, **more):
    """A `Contest` of one kernel.

    Args:
      kernel, args: FILE.py:KERNEL, and arguments as `pallasc export --args` takes them.
      configs: of ours, dicts; {} leaves everything to the compiler.
      hand: (name in hand_kernels.py, its configuration) pairs.
      helion: configurations of Helion's.
      scale: how often a time counts.
      more: other fields of `Contest`.
    """
    args = tuple(args)
    tensors = tuple(text for text in args if text.endswith("]"))
    return Contest(
        name,
        [Run("ours", kernel, args, json.dumps(config), scale) for config in configs],
        [Run("helion", kernel, args, json.dumps(config), scale) for config in helion],
        [Run("hand", peer, tensors, json.dumps(config), scale) for peer, config in hand],
        **more,
    )


def blocks(*sizes, loop=None, **keys):
    """A configuration."""
    return json.loads(race.config_text(sizes, loop, **keys))


# ---- attention


def seen_blocks(visible, rows=ROWS):
    """Sub-blocks of rows x rows scores with an element that `visible`(rows behind) says is seen."""
    count = rows // SUB_BLOCK
    far = SUB_BLOCK * (np.arange(count)[:, None] - np.arange(count)[None, :])
    # What a sub-block's rows are behind its columns: all of its first one's, less or more a size.
    inside = np.arange(1 - SUB_BLOCK, SUB_BLOCK)
    return int(sum(visible(distance + inside).any() for distance in far.ravel()))


def masked(name, kernel, configs, hand, helion, visible=lambda far: far == far, **more):
    """Attention of which a mask leaves out scores: FLOP of those that are seen, and sub-blocks.

    more: "heads" of q, "groups" of K and V, "extra" arguments.
    """
    heads, groups = more.pop("heads", HEADS), more.pop("groups", HEADS)
    q = f"bfloat16[1,{heads},{ROWS},{WIDTH}]"
    kv = f"bfloat16[1,{groups},{ROWS},{WIDTH}]"
    far = np.arange(1 - ROWS, ROWS)
    pairs = int(((ROWS - abs(far)) * visible(far)).sum())
    flops = 4 * heads * WIDTH
    return contest(
        f"attention D={WIDTH}, {name}",
        kernel,
        (q, kv, kv, *more.pop("extra", ())),
        configs,
        hand,
        helion,
        race.HEADS // heads,
        flops={"bfloat16": flops * pairs},
        sub_flops=flops * SUB_BLOCK**2 * seen_blocks(visible),
        **more,
    )


def splash(*sizes, **more):
    """A configuration of splash attention."""
    return dict(zip(race.SPLASH_NAMES, sizes, strict=True)) | more


def flash(*sizes, **more):
    """The same of jax's flash attention."""
    return dict(zip(race.FLASH_NAMES, sizes, strict=True)) | more


def peers(**mask):
    """jax's and tokamax's attention with a mask, and XLA's."""
    return [
        ("tokamax.splash_masked", splash(1024, 1024, 512, **mask)),
        ("jax.splash_masked", splash(1024, 1024, 512, **mask)),
        ("xla.attention", mask),
        ("tokamax.splash_masked", splash(2048, 2048, 512, **mask)),
    ]


def attention_rows():
    """Masks, grouped heads, one query row."""
    small = blocks(1, 512, 512, loop="fori_loop")
    yield masked(
        "causal",
        "attention.py:causal_attention",
        [
            {},
            blocks(4, 1024, 512, loop="fori_loop"),
            blocks(1, 2048, 1024, loop="fori_loop"),
            blocks(2, 2048, 1024, loop="fori_loop"),
            small,
        ],
        [*peers(causal=True), ("jax.flash_masked", flash(1024, 1024, 512, causal=True))],
        [small],
        lambda far: far >= 0,
        heads=8,
        groups=8,
    )
    window = 1024
    narrow = blocks(512, 1, 512, loop="fori_loop")
    tall = blocks(512, 1, 4096, loop="fori_loop")  # its steps are straight code
    yield masked(
        f"window {window}",
        f"{ATTENTION_MORE}:sliding_attention",
        [{}, narrow, tall],
        [("tokamax.splash_masked", splash(512, 1024, 512, window=window)), *peers(window=window)],
        [narrow],
        lambda far: (far >= 0) & (far < window),
        heads=16,
        groups=16,
        extra=(str(window),),
    )
    ids = (f"int32[1,{ROWS}]",) * 2
    yield masked(
        "segment ids, one segment",
        f"{ATTENTION_MORE}:segment_attention",
        [{}, blocks(512, 1024, loop="emit_pipeline")],
        [*peers(), ("jax.flash_masked", flash(2048, 2048, 512))],
        [blocks(512, 1024, loop="emit_pipeline")],
        heads=8,
        groups=8,
        extra=ids,
    )
    yield masked(
        "grouped heads 8:1",
        f"{ATTENTION_MORE}:gqa_attention",
        [{}, blocks(2048, 1024, loop="fori_loop")],
        peers(),
        [blocks(512, 1024, loop="emit_pipeline")],
        heads=8,
        groups=1,
    )


def decode_row():
    """One query row of each of 16 x 32 heads; four of them share K and V."""
    kv = f"bfloat16[16,8,{ROWS},{WIDTH}]"
    return contest(
        f"decode, 16 x 32 heads, S={ROWS}, grouped 4:1",
        f"{ATTENTION_MORE}:decode_attention",
        (f"bfloat16[16,32,{WIDTH}]", kv, kv),
        [{}, blocks(1, 1024, loop="emit_pipeline"), blocks(8, 1024, loop="emit_pipeline")],
        [("xla.decode", {})],
        [blocks(1, 1024, loop="emit_pipeline")],
    )


def backward_rows():
    """dq, and dk and dv; both at once: ours and tokamax's one kernel, of others the sum of two."""
    q, k, v = attention_args(HEADS, ROWS, WIDTH)
    args = (q, k, v, q, *(f"float32[{HEADS},{ROWS}]",) * 2)
    pair = []
    best = {"dq": ((1, 2048, 1024), (1024, 1024)), "dkdv": ((1, 1024, 256), (512, 2048))}
    for part, (sizes, (block_q, block_k)) in best.items():
        flash_sizes = {"part": part, "block_q": block_q, "block_k": block_k}
        pair.append(
            contest(
                f"attention backward D={WIDTH}, {part}",
                f"{BACKWARD}:attention_{part}",
                (*args, "False"),
                [{}, blocks(*sizes, loop="fori_loop")],
                [("jax.flash_backward", flash_sizes), ("xla.attention_backward", {"part": part})],
                [blocks(2, 512, 256, loop="emit_pipeline")],
                race.HEADS // HEADS,
            )
        )
    yield from pair
    names = ("block_q_dkv", "block_kv_dkv", "block_kv_dkv_compute")
    fused = [
        ("tokamax.splash_backward", dict(zip(names, sizes, strict=True)))
        for sizes in ((1024, 1024, 512), (1024, 2048, 512))
    ]
    fused.append(("xla.attention_backward", {"part": "all"}))
    both = contest(
        f"attention backward D={WIDTH}, dq + dk and dv",
        f"{BACKWARD}:attention_backward",
        (*args, "False"),
        [{}, blocks(1, 1024, 1024, loop="fori_loop")],
        fused,
        (),
        race.HEADS // HEADS,
    )
    both.parts = pair
    yield both


# ---- matmuls


def matmul_rows():
    """Other sizes and dtypes than 4096^3 of bfloat16."""
    big = ("bfloat16[8192,8192]",) * 2
    names = ("block_m", "block_n", "block_k")
    yield contest(
        "matmul 8192^3",
        race.MATMUL,
        big,
        [{}, blocks(1024, 1024, 1024, loop="fori_loop")],
        [
            ("xla.matmul", {}),
            ("jax.matmul", dict(zip(names, (1024, 1024, 512), strict=True))),
        ],
        [blocks(1024, 1024, 512, loop="emit_pipeline")],
    )
    yield contest(
        "matmul 16x4096x4096",
        race.MATMUL,
        ("bfloat16[16,4096]", "bfloat16[4096,4096]"),
        [
            *({}, race.WHOLE_VMEM, blocks(16, 256, 4096)),
            blocks(16, 1024, 1024, loop="emit_pipeline"),
        ],
        [
            ("xla.matmul", {}),
            ("jax.matmul", dict(zip(names, (16, 1024, 1024), strict=True))),
        ],
        [blocks(16, 1024, 1024, loop="emit_pipeline")],
    )
    scales = ("float32[4096]",) * 2
    tiles = blocks(1024, 1024, 1024, loop="emit_pipeline")
    yield contest(
        "matmul 4096^3 int8",
        f"{QUANTIZED}:int8_matmul",
        ("int8[4096,4096]", "int8[4096,4096]", *scales),
        [{}, tiles],
        [("xla.int8_matmul", {})],
        [tiles],
    )
    yield contest(
        "matmul 4096^3 float8",
        f"{QUANTIZED}:fp8_matmul",
        ("float8_e4m3fn[4096,4096]", "float8_e4m3fn[4096,4096]", "0.5", "0.25"),
        [{}, tiles],
        [("xla.fp8_matmul", {})],
        [tiles],
    )


def around_rows():
    """What stands around a matmul of 4096^3."""
    square, row = "bfloat16[4096,4096]", "bfloat16[4096]"
    tiles = blocks(1024, 1024, 1024, loop="emit_pipeline")
    small = blocks(512, 512, 512, loop="emit_pipeline")
    table = (
        ("SwiGLU", "gated.py:matmul_swiglu", (square,) * 3, "xla.matmul_swiglu"),
        ("bias, GELU", "matmul.py:matmul_bias_gelu", (square, square, row), "xla.matmul_bias_gelu"),
        ("RMS norm", f"{FUSED}:rms_norm_matmul", (square, row, square), "xla.rms_norm_matmul"),
        (
            *("int8 weights", f"{QUANTIZED}:weight_only_matmul"),
            *((square, "int8[4096,4096]", "float32[4096]"), "xla.int8_weights"),
        ),
        (
            *("int4 weights", f"{QUANTIZED}:int4_matmul"),
            *((square, "int8[2048,4096]"), "xla.int4_weights"),
        ),
    )
    for name, kernel, args, peer in table:
        helion = [small] if name == "SwiGLU" else [tiles]
        yield contest(
            f"matmul 4096^3, {name}",
            kernel,
            args,
            [{}, tiles],
            [(peer, {})],
            helion,
            over=PLAIN,
        )


# ---- rows


# With three windows of some inputs the grid is a loop in the kernel.
AS_GIVEN = {"pallas_wide_blocks": "off"}
WHOLE_ROWS = AS_GIVEN | {"pallas_column_strips": "off"}


def normal_rows():
    """Normalizations and softmax, both ways, in two shapes."""
    sizes = [blocks(32), blocks(64), blocks(128)]
    for rows, width in ((4096, 10240), (8192, 4096)):
        x, weight, stat = f"bfloat16[{rows},{width}]", f"bfloat16[{width}]", f"float32[{rows}]"
        table = [
            ("layer norm", "layer_norm.py:layer_norm", (x, weight, weight, "1e-5"), "layer_norm"),
            ("RMS norm", f"{NORMS}:rms_norm", (x, weight, "1e-6"), "rms_norm"),
            ("RMS norm backward", f"{NORMS}:rms_norm_bwd", (x, x, weight, stat), "rms_norm_bwd"),
            ("softmax backward", f"{FUSED}:softmax_bwd", (x, x), "softmax_bwd"),
        ]
        if rows == 8192:  # of the others race.py has rows
            args = (x, x, stat, stat, weight)
            table.append(("layer norm backward", race.LAYER_NORM, args, "layer_norm_bwd"))
            table.append(("softmax", race.SOFTMAX, (x,), "softmax"))
        for name, kernel, args, peer in table:
            ours = [{}, *sizes, blocks(64, **AS_GIVEN)]
            count = len([arg for arg in args if "[" in arg])
            three = [*[3] * (2 if "backward" in name else 1), *[2] * count][:count]
            for keys in (AS_GIVEN, WHOLE_ROWS) if name == "softmax backward" else (AS_GIVEN,):
                ours += [blocks(n, **keys, pallas_load_buffer_count=three) for n in (64, 128)]
            yield contest(
                f"{name} {rows}x{width}",
                kernel,
                args,
                ours,
                [(f"xla.{peer}", {})],
                sizes,
            )


def loss_rows():
    """Cross-entropy of logits, and of what gives them."""
    labels = "int32[8192,1]"
    yield contest(
        "cross-entropy 8192x128256",
        "losses.py:cross_entropy_online",
        ("bfloat16[8192,128256]", labels),
        [{}, blocks(64, 2048, loop="fori_loop")],
        [("xla.cross_entropy", {})],
        [blocks(64, 2048, loop="fori_loop", **BUFFERS)],
    )
    yield contest(
        "linear + cross-entropy 8192x4096x128256",
        f"{FUSED}:linear_cross_entropy",
        ("bfloat16[8192,4096]", "bfloat16[4096,128256]", labels),
        [{}],
        [
            *(("tokamax.linear_cross_entropy", sizes) for sizes in ({},)),
            ("xla.linear_cross_entropy", {}),
        ],
        [blocks(512, 512, loop="emit_pipeline")],
    )


# ---- what int tensors name


def embedding_row():
    """8192 rows of a table in HBM."""
    return contest(
        "embedding, 8192 of 32768 rows of 4096",
        "indirect.py:embedding",
        ("bfloat16[32768,4096]", "int32[8192]"),
        [{}, blocks(256, 4096)],
        [("xla.embedding", {})],
        [blocks(256, 4096)],
        moved={"read": 8192 * (4096 * 2 + 4), "written": 8192 * 4096 * 2},
    )


SERVING = (
    "grouped matmul, int8 weights, worklist",
    "grouped matmul, int4 weights, worklist",
    "grouped matmul, float8 weights, worklist",
    "experts, fused, worklist",
    "ragged paged attention",
    "ragged paged attention, sliding window, soft cap",
    "ragged paged attention, cache in 8 bits",
    "paged attention, decode",
    "latent attention, decode",
)


def serving_rows():
    """Rows of docs/serving.md, whose data say what is done. What XLA has does not run without."""
    for name in SERVING:
        yield Contest(name, [], [], [], serving=name)


MORE = [
    decode_row(),
    *matmul_rows(),
    *around_rows(),
    *attention_rows(),
    *backward_rows(),
    *normal_rows(),
    *loss_rows(),
    embedding_row(),
    *serving_rows(),
]
