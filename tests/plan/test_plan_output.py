"""--emit=plan says what docs/plan.md promises, and --emit=report fits a terminal."""

import json
import re

import kit
import pytest
from kit import by_ref

NAMES = sorted(p.stem for p in kit.GRAPHS.glob("*.json"))
LOOP_TYPES = ["unroll", "fori_loop", "emit_pipeline"]


def emit(what, name, *options, **config):
    return kit.emitted(what, name, *options, **config).out


def plan(name, *options, **config):
    return json.loads(emit("plan", name, *options, **config))


ONE_STEP = {"pallas_emit_pipeline_group_size": 1}


def attention(loop_type, copies="on"):
    """The plan with windows copied in the loop; by itself, it takes resident blocks here."""
    keys = {"pallas_loop_type": loop_type, "pallas_fori_dma": copies, **ONE_STEP}
    return plan("attention", **keys)


# ---- attention, block sizes 1, 128, 128 of q, k, v [4, 512, 128] -------------------------------

TILE = 2 * 128 * 128 * 2  # two buffers of [1, 128, 128] in bfloat16
LSE = 2 * 128 * 4  # two of [1, 1, 128] in float32: tiles of one row
WHOLE = 2 * 512 * 128 * 2  # two of [1, 512, 128] in bfloat16
ROW = 128 * 4  # float32 row statistics of 128 rows, along the lanes
ACC = 128 * 128 * 4
SCORES = 128 * 128 * 4


@pytest.mark.parametrize("loop_type", LOOP_TYPES)
def test_attention_grid(loop_type):
    p = attention(loop_type)
    assert (p["name"], p["target"]) == ("attention", "v6e")
    assert p["config"]["block_sizes"] == [1, 128, 128]
    assert p["config"]["pallas_loop_type"] == loop_type
    assert [(g["block"], g["name"], g["steps"], g["semantics"]) for g in p["grid"]] == [
        ("u0", "tile_b", 4, "parallel"),
        ("u1", "tile_m", 4, "parallel"),
    ]
    assert [(b["symbol"], b["name"], b["size"], b["extent"]) for b in p["blocks"]] == [
        ("u0", "tile_b", 1, 4),
        ("u1", "tile_m", 128, 512),
        ("u2", "tile_n", 128, 512),
    ]
    assert p["flops"] == 2 * 2 * 4 * 512 * 512 * 128


@pytest.mark.parametrize("loop_type", LOOP_TYPES)
def test_attention_grid_windows(loop_type):
    operands = by_ref(attention(loop_type)["operands"])
    for ref, tensor, role in [("q_in_ref", "q_in", "input"), ("out_ref", "out", "output")]:
        o = operands[ref]
        assert (o["tensor"], o["role"], o["space"], o["dtype"]) == (
            tensor,
            role,
            "vmem",
            "bfloat16",
        )
        assert o["shape"] == [4, 512, 128]
        assert o["block"] == [1, 128, 128]
        assert o["index_map"] == ["tile_b", "tile_m", "0"]
        assert (o["buffers"], o["fetches"], o["vmem_bytes"]) == (2, 16, TILE)
    assert operands["q_in_ref"]["array_steps"] == [
        {"step": "reshape", "shape": [4, 512, 128], "boundary": False}
    ]
    lse = operands["lse_ref"]
    assert lse["array_steps"] == [{"step": "reshape", "shape": [4, 1, 512], "boundary": True}]
    assert (lse["dtype"], lse["shape"], lse["block"]) == ("float32", [4, 1, 512], [1, 1, 128])
    assert lse["index_map"] == ["tile_b", "0", "tile_m"]
    assert (lse["buffers"], lse["vmem_bytes"]) == (2, LSE)


def step_of(p):
    (loop,) = p["loops"]
    assert (loop["name"], loop["step_variable"], loop["parent"]) == ("step", "j", None)
    assert loop["dims"] == [
        {
            "block": "u2",
            "name": "tile_n",
            "begin": 0,
            "end": 512,
            "step": 128,
            "computed": False,
            "full_steps": 4,
            "tail": 0,
        }
    ]
    assert not loop["peeled"] and not loop["masked"]
    return loop


@pytest.mark.parametrize("loop_type", ["fori_loop", "emit_pipeline"])
def test_attention_copied_windows(loop_type):
    p = attention(loop_type)
    loop = step_of(p)
    assert (loop["type"], loop["dma"]) == (loop_type, True)
    windows, operands = by_ref(loop["windows"]), by_ref(p["operands"])
    assert set(windows) == {"k_in_win", "v_in_win"}
    count = 3 if loop_type == "fori_loop" else 2  # a fori_loop's steps wait for latencies
    for w in windows.values():
        assert (w["role"], w["dma"], w["tail_operand"]) == ("input", True, None)
        assert w["block"] == [1, 128, 128]
        assert w["index_map"] == ["tile_b", "j", "0"]
        assert (w["buffers"], w["vmem_bytes"]) == (count, count * TILE // 2)
        o = operands[w["operand"]]
        assert (o["space"], o["block"], o["index_map"], o["fetches"]) == ("hbm", None, None, None)
        assert o["vmem_bytes"] == 0
    assert p["vmem"]["windows"] == 2 * TILE + LSE
    assert p["vmem"]["inner"] == count * TILE
    # q, out and lse once; k and v once for each of the four tiles of queries
    assert p["hbm_bytes"] == 2 * (4 * 512 * 128 * 2) + 4 * 512 * 4 + 2 * 4 * (4 * 512 * 128 * 2)


def test_attention_fori_loop():
    p = attention("fori_loop")
    three = 3 * TILE // 2
    loop, scratch = step_of(p), by_ref(p["scratch"])
    for w in loop["windows"]:
        buffer, semaphore = scratch[w["scratch"]], scratch[w["semaphore"]]
        assert (buffer["kind"], buffer["dtype"], buffer["bytes"]) == ("vmem", "bfloat16", three)
        assert buffer["shape"] == [3, 1, 128, 128]
        assert (semaphore["kind"], semaphore["dtype"]) == ("dma_semaphore", None)
        assert (semaphore["shape"], semaphore["bytes"]) == ([3], 0)
    assert [(c["node"], c["shape"], c["place"]) for c in loop["carried"]] == [
        ("m_i", [1, 1, 128], "register"),
        ("l_i", [1, 1, 128], "register"),
        ("acc", [1, 128, 128], "register"),
    ]
    assert (loop["skewed"], loop["paired"]) == (True, False)
    assert [(h["node"], h["odd"]) for h in loop["handed"]] == [("amax", None), ("scores", None)]
    assert loop["handed"][0]["scratch"] is None
    assert scratch[loop["handed"][1]["scratch"]]["bytes"] == SCORES
    assert p["vmem"]["scratch"] == SCORES


def test_attention_fori_loop_of_pairs():
    p = attention("fori_loop", copies="off")
    loop, scratch = step_of(p), by_ref(p["scratch"])
    assert (loop["skewed"], loop["paired"]) == (True, True)
    even, odd = loop["handed"][1]["scratch"], loop["handed"][1]["odd"]
    assert even != odd
    assert [scratch[ref]["bytes"] for ref in (even, odd)] == [SCORES, SCORES]
    assert p["vmem"]["scratch"] == 2 * SCORES


def test_attention_emit_pipeline():
    p = attention("emit_pipeline")
    loop, scratch = step_of(p), by_ref(p["scratch"])
    assert all(w["scratch"] is None and w["semaphore"] is None for w in loop["windows"])
    assert [(c["node"], c["place"], scratch[c["scratch"]]["bytes"]) for c in loop["carried"]] == [
        ("m_i", "scratch", ROW),
        ("l_i", "scratch", ROW),
        ("acc", "scratch", ACC),
    ]
    assert (loop["skewed"], loop["handed"]) == (False, [])
    assert p["vmem"]["scratch"] == 2 * ROW + ACC


def test_attention_unroll():
    p = attention("unroll")
    loop, operands = step_of(p), by_ref(p["operands"])
    assert (loop["type"], loop["dma"], p["scratch"]) == ("unroll", False, [])
    for w in loop["windows"]:
        assert (w["dma"], w["buffers"], w["vmem_bytes"]) == (False, 0, 0)
        assert w["block"] == [1, 128, 128]
        assert w["index_map"] == ["0", "j", "0"]
        o = operands[w["operand"]]
        assert (o["space"], o["block"]) == ("vmem", [1, 512, 128])
        assert o["index_map"] == ["tile_b", "0", "0"]
        assert (o["buffers"], o["fetches"], o["vmem_bytes"]) == (2, 4, WHOLE)
    assert p["vmem"]["windows"] == 2 * TILE + LSE + 2 * WHOLE
    assert p["vmem"]["inner"] == p["vmem"]["scratch"] == 0
    # everything once: k and v stay while their batch does
    assert p["hbm_bytes"] == 4 * (4 * 512 * 128 * 2) + 4 * 512 * 4


def test_attention_values():
    switches = {"pallas_pre_broadcast": "off", "pallas_transposed_scores": "off"}
    p = plan("attention", pallas_loop_type="fori_loop", **switches)
    values = {(v["graph"], v["node"]): v for v in p["values"]}
    assert values[0, "bmm"]["transpose_b"] and not values[0, "bmm"]["transpose_a"]
    assert (values[0, "m_new"]["form"], values[0, "m_new"]["shape"]) == ("column", [1, 128, 1])
    assert not any(v["masks"] for v in values.values())


# ---- tails and masks ---------------------------------------------------------------------------


@pytest.mark.parametrize("loop_type", ["fori_loop", "emit_pipeline"])
def test_tail(loop_type):
    p = plan("attention_b1_h2_s421_d128", pallas_loop_type=loop_type)
    (loop,) = p["loops"]
    (dim,) = loop["dims"]
    assert dim["end"] == 421
    assert (dim["full_steps"], dim["tail"]) == divmod(421, dim["step"])
    assert loop["peeled"] and loop["masked"]
    masked = [m for v in p["values"] for m in v["masks"] if m["block"] == dim["block"]]
    assert masked and all(m["end"] == 421 and m["last_only"] for m in masked)
    operands = by_ref(p["operands"])
    for w in loop["windows"]:
        if w["dma"]:
            assert operands[w["tail_operand"]]["space"] == "vmem"


# ---- every graph -------------------------------------------------------------------------------


def assert_same_keys(objects):
    assert len({tuple(o) for o in objects}) <= 1


@pytest.mark.parametrize("name", NAMES)
def test_plan_is_whole(name):
    text = emit("plan", name)
    p = json.loads(text)
    assert text.endswith("}\n") and text == emit("plan", name)
    assert list(p) == [
        "name",
        "target",
        "config",
        "blocks",
        "grid",
        "operands",
        "scratch",
        "loops",
        "strips",
        "accesses",
        "indirect",
        "values",
        "vmem",
        "flops",
        "hbm_bytes",
        "seconds",
        "time",
        "estimate",
    ]
    for key in ("blocks", "grid", "operands", "scratch", "loops", "accesses", "indirect", "values"):
        assert_same_keys(p[key])
    for key in ("dims", "windows", "carried"):
        assert_same_keys([item for loop in p["loops"] for item in loop[key]])
    v = p["vmem"]
    assert v["total"] == v["windows"] + v["inner"] + v["scratch"] + v["intermediates"] <= v["limit"]
    assert v["windows"] == sum(o["vmem_bytes"] for o in p["operands"])
    inner = [sum(w["vmem_bytes"] for w in loop["windows"]) for loop in p["loops"]]
    in_sequence = len(inner) > 1 and all(
        loop["type"] == "emit_pipeline" and loop["parent"] is None for loop in p["loops"]
    )
    # Pipelines that follow each other share the space.
    assert v["inner"] == (max(inner) if in_sequence else sum(inner))
    assert p["hbm_bytes"] == sum(o["hbm_bytes"] for o in p["operands"])
    assert type(p["flops"]) is int and type(p["hbm_bytes"]) is int


@pytest.mark.parametrize("name", NAMES)
def test_names_resolve(name):
    p = plan(name)
    operands, scratch = by_ref(p["operands"]), by_ref(p["scratch"])
    loops = {loop["name"]: loop for loop in p["loops"]}
    blocks = {b["symbol"] for b in p["blocks"]}
    assert {g["block"] for g in p["grid"]} <= blocks
    for loop in p["loops"]:
        assert loop["parent"] is None or loop["parent"] in loops
        assert {d["block"] for d in loop["dims"]} <= blocks
        for w in loop["windows"]:
            assert w["operand"] in operands
            assert w["tail_operand"] is None or w["tail_operand"] in operands
            assert len(w["block"]) == len(w["index_map"]) == len(operands[w["operand"]]["shape"])
        for s in [w["scratch"] for w in loop["windows"]] + [c["scratch"] for c in loop["carried"]]:
            assert s is None or s in scratch
    for access in p["accesses"]:
        home = operands if access["loop"] is None else by_ref(loops[access["loop"]]["windows"])
        assert access["ref"] in home


def test_config_is_a_configuration(tmp_path):
    """The plan's `config` is a document for --config that gives the same plan."""
    p = plan("attention", pallas_loop_type="fori_loop")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(p["config"]))
    assert plan("attention", f"--config={path}") == p


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target", ["v4", "v7x"])
def test_report_fits(name, target):
    status, text, said = kit.run("--emit=report", f"--target={target}", kit.path(name))
    if status == 1:
        assert "VMEM" in said
        return
    assert status == 0 and text.endswith("\n") and text.isascii()
    for line in text.splitlines():
        assert len(line) <= 100 and line == line.rstrip() and line.isprintable()
    for heading in ("Configuration", "Grid: ", "Operands ", "VMEM: ", "Work and ideal time"):
        assert re.search(f"^{heading}", text, re.MULTILINE)


def test_report_says():
    text = emit("report", "attention", pallas_loop_type="emit_pipeline", **ONE_STEP)
    for part in (
        r"^attention for v6e",
        r"tile_b = 1, tile_m = 128, tile_n = 128",
        r"^Grid: 4 x 4 = 16 points$",
        r"q_in_ref +in +vmem +1x128x128 +tile_b, tile_m, 0 +2 +64 KiB +512 KiB +1x$",
        r"^Loop step: emit_pipeline$",
        r"k_in_win +k_in_hbm +DMA +1x128x128 +tile_b, j, 0 +2 +64 KiB$",
        r"matmuls +537 MFLOP +584 ns at the MXU's peak of 920 TFLOP/s$",
        r"HBM +5 MiB +3.20 us at 1.64 TB/s$",
        r"^Compared time: [\d.]+ us \(the longer of MXU and vector, the rest\)$",
        r"^  MXU +584 ns +[\d.]+%  matmuls at the peak$",
        r"^  vector +1.17 us +[\d.]+%  blocks and windows read into registers$",
        r"k_in_hbm, v_in_hbm cross HBM 4x: each doubling of tile_m halves that",
    ):
        assert re.search(part, text, re.MULTILINE), part


def strings(value):
    if isinstance(value, str):
        return {value}
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return set().union(*map(strings, items))


HOSTILE = 'a\u2028\n\x1b[1m"\\\u00e9'


@pytest.mark.parametrize("name", ["tile_b", "out", "acc"])  # of a block, a tensor, a node
def test_hostile_names_stay_on_their_line(name):
    hostile = kit.text("attention").replace(json.dumps(name), json.dumps(HOSTILE)).encode()
    report, output = (
        kit.accepted(f"--emit={what}", "-", text=hostile, encoding=None).out
        for what in ("report", "plan")
    )
    assert all(32 <= byte < 127 or byte == 10 for byte in report)
    assert max(map(len, report.splitlines())) <= 100
    assert HOSTILE in strings(json.loads(output))
