"""The tables of `make bench` and `make bench-kernels`, without compiling anything."""

import argparse
import json
import sys

import kit
import numpy as np
import pytest

BENCH = kit.ROOT / "bench"
sys.path.insert(0, str(BENCH))

import compile_cost  # noqa: E402
import compile_speed  # noqa: E402
import hand_kernels  # noqa: E402
import kernels  # noqa: E402
import measure  # noqa: E402
import pass_tables  # noqa: E402
import race  # noqa: E402
import race_floor  # noqa: E402
import race_kept  # noqa: E402
import race_more  # noqa: E402
import race_tables  # noqa: E402
import results  # noqa: E402
import scaling  # noqa: E402
import sections  # noqa: E402
import serving  # noqa: E402
import tpu_rows  # noqa: E402
import tuned  # noqa: E402
import tuners  # noqa: E402

import passes  # noqa: E402

GOLDEN = (kit.ROOT / "testdata/golden/attention.fori_loop.py").read_text()
PLAN = {
    "target": "v7x",
    "flops": 1.155e11,
    "vmem": {"total": 3 << 20},
    "blocks": [{"name": "tile_b", "size": 2}],
    "operands": [
        {
            "tensor": name,
            "dtype": "bfloat16",
            "space": "vmem",
            "shape": [256, 1, 8192],
            "array_steps": [{"boundary": name == "lse", "shape": [256, 1, 8192]}],
            "block": [2, 512, 256],
            "buffers": 2,
            "vmem_bytes": 1 << 20,
        }
        for name in ("q_in", "k_in", "v_in", "out", "lse")
    ],
    "loops": [
        {
            "windows": [{"operand": "k_in_hbm", "dma": True}],
            "carried": [{"place": "register", "shape": [2, 512, 1]}],
        }
    ],
}
STATIC = {"sim_ok": True, "est_ms": 2.0, "cycles": 1500, "spills": 1, "fills": 2}
STATIC |= {"slots": {"XLU": 0.25}, "errors": [], "dma_wait_cycles": 300, "hbm_bytes": 1 << 40}


def outcome(**fields):
    good = {"ok": True, "kind": "ok", "vmem_bytes": 2 << 20, "temp_bytes": 0, "plan": PLAN}
    return measure.Outcome(**{**good, "static": STATIC, **fields})


FATES = {
    "ok": outcome(),
    "no-times": outcome(static=None),
    "vmem": outcome(ok=False, kind="vmem", message="out of scoped VMEM: 9 MiB", static=None),
    "refused": measure.Outcome(kind="refused", message="g.json:1:2: error: no | room\n  hint: x"),
    "timeout": measure.Outcome(kind="timeout", message="no result after 9 s"),
}


def assert_writable(table, found):
    """Rows are as wide as their heads, whatever became of the kernels."""
    jobs = [job for row in table.rows for job in row.jobs.values()] if found else []
    lines = kernels.table_text(table, dict.fromkeys(jobs, found)).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 2 + len(table.rows)
    assert {line.replace("\\|", "").count("|") for line in rows} == {len(table.heads) + 1}


@pytest.mark.parametrize("section", sections.SECTIONS, ids=lambda section: section.name)
@pytest.mark.parametrize("fate", FATES)
def test_every_table_can_be_written(section, fate, monkeypatch):
    monkeypatch.setattr(sections, "auto_is", lambda jobs: "on")  # it needs Helion to trace
    for table in section.tables:
        assert_writable(table, FATES[fate])


@pytest.mark.parametrize("page", pass_tables.PAGES)
@pytest.mark.parametrize("fate", FATES)
def test_the_tables_of_every_page_can_be_written(page, fate, monkeypatch):
    monkeypatch.setattr(pass_tables, "predicted", lambda *job: "1.00")  # it needs Helion to trace
    for table in pass_tables.PAGES[page].values():
        assert_writable(table(), FATES[fate])


@pytest.mark.parametrize("page", pass_tables.PAGES)
def test_a_page_has_a_place_for_each_of_its_tables(page):
    """And what stands around them is kept."""
    text = (measure.ROOT / page).read_text()
    tables = dict.fromkeys(pass_tables.PAGES[page], "| a |\n| --- |\n")
    once = passes.filled(text, tables)
    assert once.count("| a |\n") == len(tables)
    assert passes.MARK.sub("", once) == passes.MARK.sub("", text)
    assert passes.filled(once, tables) == once


def test_tables_that_a_page_does_not_know_are_refused():
    page = "a\n<!-- bench-passes: one -->\nold\n<!-- end -->\nb\n"
    filled = "a\n<!-- bench-passes: one -->\n\nnew\n\n<!-- end -->\nb\n"
    assert passes.filled(page, {"one": "new\n"}) == filled
    with pytest.raises(SystemExit, match="one"):
        passes.filled(page, {"one": "new\n", "two": "new\n"})
    with pytest.raises(SystemExit, match="no page with 'x-y'"):
        passes.pages_named("x-y")


def test_a_comparison_has_a_row_for_each_chip_and_a_column_for_each_way():
    case = pass_tables.Case("k", "k.py:k", (), {"block_sizes": [8]}, ("v7x", "v5e"))
    ways = {"off": {"key": "off"}, "on": {"key": "on"}}
    table = pass_tables.comparison("kernel", [case], ways, more={"HBM": pass_tables.hbm_time})
    assert table.heads == ("kernel", "chip", "off", "on", "HBM")
    assert [row.jobs["on"].target for row in table.rows] == ["v7x", "v5e"]
    assert json.loads(table.rows[0].jobs["on"].config) == {"block_sizes": [8], "key": "on"}
    found = {"off": timed(0.5), "on": FATES["refused"]}
    assert table.rows[1].cells(found) == ["k", "v5e", "0.5000", "refused", "refused"]
    static = {**STATIC, "hbm_ms": 0.25}
    assert table.rows[0].cells({"off": timed(1), "on": outcome(static=static)})[4] == "0.2500"


ROWS = [*race.CONTESTS, *race_more.MORE]
NEEDS = {"read": 1e6, "written": 1e6, "flops": {"bfloat16": 1e9}, "first": {}}
NEEDS["first"] = dict.fromkeys(race.CHIPS, 4096)


@pytest.mark.parametrize("fate", [*FATES, "not measured"])
def test_the_race_can_be_written(fate):
    needs = {contest.name: NEEDS for contest in ROWS}
    for table in (
        race_tables.floor_table(ROWS, needs),
        race_tables.floor_table(ROWS, {}),
        race_tables.race_table(ROWS),
        race_tables.around_table(ROWS),
        race_tables.masked_table(ROWS, needs),
        race_tables.compile_table(ROWS),
        race_tables.limit_table(ROWS),
        race_tables.choice_table(),
    ):
        assert_writable(table, FATES.get(fate))


def timed(ms, **fields):
    return outcome(static={**STATIC, "est_ms": ms}, **fields)


def test_the_fastest_of_each_side_races(monkeypatch):
    """Times are scaled, the best configuration is named, and a faster peer is said by how much."""
    monkeypatch.setattr(race_kept, "needs", dict)
    contest = race.attention_contest(256, (1, 512, 1024), "fori_loop")
    outcomes = {run.job("v7x"): timed(0.3) for run in contest.helion + contest.hand}
    outcomes[contest.ours[0].job("v7x")] = timed(0.2, vmem_bytes=15 << 20)
    outcomes[contest.hand[1].job("v7x")] = timed(0.1)
    (row, _) = race_tables.race_table([contest]).rows
    cells = row.cells({run: outcomes[job] for run, job in row.jobs.items()})
    assert cells[2:5] == ["fori_loop [1, 512, 1024]", "6.400", "15.00"]  # eight heads stand for 256
    assert cells[5].startswith("76.8 (fori_loop [1, 512, 1024]")
    assert cells[6] == "3.200 (splash_attention 2048/2048/512)"
    assert cells[-1] == "**2.00** jax"
    (line,) = race_tables.behind([contest], outcomes)
    assert line.startswith(
        f"- 2.00: {contest.name}, v7x: 6.400 ms (fori_loop [1, 512, 1024]), jax 3.2"
    )
    (row, _) = race_tables.floor_table([contest], {contest.name: NEEDS}).rows
    cells = row.cells({run: outcomes[job] for run, job in row.jobs.items()})
    least = race_floor.cycles("v7x", NEEDS) / 1.155e15 * 524288 * 1e3
    assert cells[3] == race_tables.figure(least)
    assert cells[4] == f"{100 * least / 6.4:.0f}%"
    assert cells[-2:] == ["jax", f"**{100 * (3.2 - 6.4) / (3.2 - least):.0f}%**"]


def test_the_floor_is_the_longest_of_three_ways():
    """All bytes; all reads and a store; a first fetch, the matmuls and a store: and a latency."""
    per_cycle = 1.64e12 / (9.2e14 / 524288)
    needs = {"read": 1e9, "written": 1e9, "flops": {}, "first": {"v6e": 4096}}
    assert race_floor.cycles("v6e", needs) == pytest.approx(2e9 / per_cycle + 600)
    needs |= {"written": 0}
    assert race_floor.cycles("v6e", needs) == pytest.approx((1e9 + 4096) / per_cycle + 2 * 600)
    needs |= {"flops": {"bfloat16": 524288e7}, "first": {"v6e": 139264}}
    wanted = (139264 + 4096) / per_cycle + 1e7 + 2 * 600
    assert race_floor.cycles("v6e", needs) == pytest.approx(wanted)


def test_what_a_document_needs():
    """The arrays once; the first fetch is the weights of a matrix unit and a register's rows."""
    needs = race_floor.needs_of_document(kit.document("matmul_4096"))
    assert (needs["read"], needs["written"]) == (2 * 4096 * 4096 * 2, 4096 * 4096 * 2)
    assert needs["flops"] == {"bfloat16": 2 * 4096**3}
    assert needs["first"] == {"v6e": 256 * 256 * 2 + 16 * 256 * 2, "v7x": 139264}
    needs = race_floor.needs_of_document(kit.document("softmax"))
    assert needs["flops"] == {} and needs["first"]["v6e"] == 4096


def test_sub_blocks_that_a_mask_leaves():
    """Of 32 x 32: the lower triangle; a band of five diagonals of them."""
    assert race_more.seen_blocks(lambda far: far >= 0) == 32 * 33 // 2
    assert race_more.seen_blocks(lambda far: (far >= 0) & (far < 1024)) == 32 * 5 - 10
    causal = next(row for row in race_more.MORE if "causal" in row.name)
    assert causal.flops == {"bfloat16": 4 * 8 * 128 * (8192 * 8193 // 2)}


def test_parts_are_added_up_for_a_side_that_has_no_run_of_its_own(monkeypatch):
    row = next(row for row in race_more.MORE if row.parts)
    monkeypatch.setattr(race_kept, "needs", dict)
    found = {run.job("v6e"): timed(1.0) for part in row.parts for run in part.ours}
    found |= {run.job("v6e"): timed(0.5) for run in row.hand}
    sides = race_tables.sides_of(row, "v6e", found)
    assert sides["ours"].ms == 2 * 128 and sides["tokamax"].ms == 64
    assert sides["jax"].ms is None


def test_a_time_below_the_floor_is_none(monkeypatch):
    """Where the instrument lost a loop of XLA's."""
    row = race_more.contest("r", race.MATMUL, (), [{}], [("xla.matmul", {})])
    monkeypatch.setattr(race_kept, "needs", lambda: {"r": NEEDS | {"read": 3.7e9}})
    found = {row.ours[0].job("v7x"): timed(1.2), row.hand[0].job("v7x"): timed(0.4)}
    sides = race_tables.sides_of(row, "v7x", found)
    assert sides["ours"].ms == 1.2 and sides["XLA"].ms is None
    assert race_tables.time_cell(sides["XLA"]) == "not followed: 0.4000"
    assert race_tables.best_peer(sides) is None
    static = {**STATIC, "warnings": ["a while loop of XLA's: each kernel is counted once"]}
    found[row.hand[0].job("v7x")] = outcome(static=static)
    assert race_tables.time_cell(race_tables.sides_of(row, "v7x", found)["XLA"]) == "not followed"


def test_serving_rows_have_the_times_of_their_page():
    sides = race_tables.sides_of(
        race.Contest("x", [], [], [], serving="experts, fused, worklist"), "v6e", {}
    )
    entries = race_tables.serving_entries()["experts, fused, worklist"]["v6e"]
    clock = 9.2e14 / 524288
    assert sides["ours"].ms == pytest.approx(entries["pallasc"]["cycles"] / clock * 1e3)
    assert sides["tpu-inference"].name == "gmm_v2, twice"
    assert sides["Helion"].ms is sides["XLA"].ms is None
    assert {row.serving for row in race_more.MORE if row.serving} <= set(serving.ROWS)


def test_compiles_that_take_long_beside_a_peers_are_named():
    row = next(row for row in race_more.MORE if row.name == "matmul 8192^3")
    found = {row.ours[0].job("v6e"): outcome(compile_s=30.0)}
    assert list(race_tables.slow_compiles([row], found)) == []
    found[row.hand[0].job("v6e")] = outcome(compile_s=2.0)
    assert list(race_tables.slow_compiles([row], found)) == [
        "- matmul 8192^3, v6e: ours 30.0 s; XLA 2.0 s"
    ]


def test_what_was_measured_is_kept_by_its_job(monkeypatch, tmp_path):
    monkeypatch.setattr(race_kept, "PATH", tmp_path / "race.jsonl")
    race_kept._lines.cache_clear()
    job = race_more.MORE[0].ours[0].job("v6e")
    race_kept.store(job, outcome(compile_s=1.5), "a")
    race_kept.store(job, outcome(compile_s=2.5), "b")
    race_kept.store_needs("row", NEEDS)
    (kept,) = race_kept.outcomes().items()
    assert (kept[0], kept[1].key, kept[1].outcome.compile_s) == (job, "b", 2.5)
    assert kept[1].outcome.static["cycles"] == 1500 and kept[1].outcome.plan is None
    assert race_kept.needs() == {"row": NEEDS}
    race_kept._lines.cache_clear()


def test_keys_that_are_not_known_are_left_out():
    assert race_tables.key_is_known("pallas_fori_dma")
    assert not race_tables.key_is_known("pallas_no_such_key")


def test_a_run_in_doubt_is_explained_or_quoted():
    static = {**STATIC, "sim_ok": False, "errors": ["k: something never seen"]}
    job = race.CONTESTS[0].ours[0].job("v7x")
    (line,) = race_tables.doubts({job: outcome(static=static)})
    assert "(ours attention; v7x)" in line
    assert "not explained yet: “k: something never seen" in line
    for words, text in race_tables.CAUSES:
        static["errors"] = [f"kernel.1: 2 {words}"]
        assert text in next(race_tables.doubts({job: outcome(static=static)}))


def test_copies_that_the_tool_did_not_see():
    """Less traffic than the inputs hold: in doubt if that could take 2% of the time."""
    contest = next(c for c in race.CONTESTS if c.name.startswith("softmax") and "whole" in c.name)
    job = contest.ours[0].job("v7x")
    size = 4096 * 10240 * 2
    for share, doubted in ((0.5, True), (0.99, False), (1.0, False)):
        static = {**STATIC, "est_ms": 0.06, "hbm_bytes": int(size * share)}
        found = outcome(static=static)
        lines = list(race_tables.doubts({job: found}))
        assert bool(lines) == doubted
        side = race_tables.fastest(contest.ours[:1], {job: found}, "v7x")
        assert race_tables.time_cell(side) == ("~0.0600" if doubted else "0.0600")
    assert race_tables.input_bytes(("bfloat16[2,3]", "float32[4]", "1e-5")) == 28
    row = next(row for row in race_more.MORE if row.moved)
    assert race_tables.input_bytes(row.ours[0].args) == row.moved["read"]


def test_cycles_without_waits():
    assert sections.busy_cycles(outcome()) == 1200
    assert sections.schedule(outcome()) == "1/2, 1200"


def test_runs_that_nobody_measured_are_named():
    """A peer's fastest configuration may be among them."""
    jobs = results.in_rounds(results.chosen_contests("softmax backward 8192x4096"))
    assert results.missing(jobs, race_kept.outcomes()) == []
    helion = next(job for job in jobs if job.side == "helion")
    (line,) = results.missing(jobs, dict.fromkeys(set(jobs) - {helion}))
    assert line.startswith("not measured: helion fused.py:softmax_bwd bfloat16[8192,4096], ")
    assert line.endswith(f"{helion.config} on {helion.target}")


def test_names_of_rows_are_distinct_and_filters_find_them():
    names = [contest.name for contest in ROWS]
    assert len(set(names)) == len(names)
    assert len(results.chosen_contests("split-K")) == 1
    with pytest.raises(SystemExit, match="no row with 'x-y'"):
        results.chosen_contests("x-y")


def test_hand_written_kernels_are_asked_again_only_where_they_changed():
    one, other = (measure.hand_text(name) for name in ("jax.matmul", "xla.softmax"))
    assert "def matmul" in one and "def xla_softmax" not in one
    assert "def xla_softmax" in other and "def matmul" not in other
    assert '"""' not in one
    assert hand_kernels.parsed("bfloat16[2,3]") == ((2, 3), "bfloat16")


def test_sections_ask_for_both_sides_of_one_configuration():
    table = sections.dma_table()
    row = table.rows[0]
    ours, theirs = row.jobs["on"], row.jobs["helion"]
    assert (ours.kernel, ours.args, ours.target) == (theirs.kernel, theirs.args, theirs.target)
    config, other = json.loads(ours.config), json.loads(theirs.config)
    assert config["block_sizes"] == other["block_sizes"]
    assert config["pallas_loop_type"] == other["pallas_loop_type"] == "fori_loop"
    assert other["pallas_load_buffer_count"] == [2, 2]


def test_verdicts():
    refused = measure.Outcome(
        kind="refused", message="g.json:1:2: error: no room\n  hint: b at most 2"
    )
    assert sections.verdict(refused) == "refused: no room; b at most 2"
    over = measure.Outcome(kind="vmem", message="out of scoped VMEM: 9 MiB needed")
    assert sections.verdict(over) == "compiler: out of scoped VMEM: 9 MiB needed"
    assert sections.milliseconds(outcome(static={**STATIC, "sim_ok": False})) == "~2.0000"


@pytest.mark.parametrize(
    ("auto", "text"), [(2.0, "yes"), (2.01, "yes"), (2.5, "no, 1.25x"), (None, "-")]
)
def test_auto_is_judged_against_the_better(auto, text):
    times = {"on": 3.0, "off": 2.0, "auto": auto}
    outcomes = {way: outcome(static={**STATIC, "est_ms": ms}) for way, ms in times.items()}
    assert sections.faster(outcomes) == text


def test_a_refusal_is_an_outcome(tmp_path, monkeypatch):
    """A configuration that pallasc refuses reaches no compiler."""
    graph = kit.document("attention")
    monkeypatch.setattr(measure, "document", lambda kernel, args: graph)
    monkeypatch.setattr(measure, "worker_run", lambda request: pytest.fail("compiled"))
    job = measure.Job("ours", "k", (), '{"block_sizes": [1, 100, 100]}', "v7x")
    found = measure.measure(job)
    assert (found.ok, found.kind) == (False, "refused")
    message = "k_view cannot be tiled this way: the ragged last step would need another block"
    assert message in found.message


@pytest.mark.parametrize("lost", ["crash", "timeout"])
def test_answers_are_kept_by_all_they_depend_on(lost, tmp_path, monkeypatch):
    """The same kernel is asked once; another one, another target, a lost worker are asked again."""
    monkeypatch.setattr(measure, "CACHE", tmp_path)
    asked = []

    def run(request, timeout):
        asked.append(request["target"])
        kind = {"kind": lost} if request["target"] == "v4" else {}
        return {"ok": not kind, "seconds": 1.0, **kind}

    monkeypatch.setattr(measure, "worker_run", run)
    for target in ("v6e", "v6e", "v7x", "v4", "v4"):
        source = GOLDEN.replace('"vmem_bytes": ', f'"vmem_bytes": {len(asked) + 1}')
        measure.answer_of({"side": "ours", "source": source, "target": target, "static": False})
    assert asked == ["v6e", "v7x", "v4", "v4"]
    other = GOLDEN.replace("jnp.float32", "jnp.bfloat16")
    measure.answer_of({"side": "ours", "source": other, "target": "v6e", "static": False})
    assert len(asked) == 5


def test_what_xla_races_with_is_the_same_computation():
    """XLA's layer-norm backward against jax's own gradient; the split dot against the whole."""
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(5)
    dy, x = (jnp.asarray(rng.normal(size=(24, 96)), jnp.float32) for _ in range(2))
    weight = jnp.asarray(rng.normal(size=96), jnp.float32)
    mean, rstd = x.mean(1), 1 / jnp.sqrt(x.var(1) + 1e-5)

    def layer_norm(x, weight, bias):
        centered = x - x.mean(1, keepdims=True)
        return centered / jnp.sqrt(x.var(1, keepdims=True) + 1e-5) * weight + bias

    _, gradient = jax.vjp(layer_norm, x, weight, jnp.zeros(96))
    found = hand_kernels.KERNELS["xla.layer_norm_bwd"]([], {})(dy, x, mean, rstd, weight)
    for ours, wanted in zip(found, gradient(dy), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=2e-4, atol=2e-4)
    bias = weight[::-1]
    found = hand_kernels.KERNELS["xla.layer_norm"]([], {})(x, weight, bias)
    np.testing.assert_allclose(found, layer_norm(x, weight, bias), rtol=2e-4, atol=2e-4)
    labels = jnp.asarray(rng.integers(0, 96, size=(24, 1)), jnp.int32)
    found = hand_kernels.KERNELS["xla.cross_entropy"]([], {})(x, labels)
    wanted = -jax.nn.log_softmax(x)[jnp.arange(24), labels[:, 0]]
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-4)
    a, b = (jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in ((8, 64), (64, 16)))
    split = hand_kernels.KERNELS["xla.split_k"]([], {"parts": 8})(a, b)
    np.testing.assert_allclose(split, a @ b, rtol=1e-4, atol=1e-4)


def xla(name, shapes, config=None):
    """One of XLA's kernels for arrays of these shapes."""
    inputs = [(shape, "float32") for shape in shapes]
    return hand_kernels.KERNELS[f"xla.{name}"](inputs, config or {})


@pytest.mark.parametrize("mask", [{}, {"causal": True}, {"window": 5}])
def test_attention_of_xla_masks_and_shares_heads(mask):
    """Beside one head after another, of scores that are written down here again."""
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(3)
    q, k, v = (jnp.asarray(rng.normal(size=(1, h, 16, 8)), jnp.float32) for h in (4, 2, 2))
    found = xla("attention", [a.shape for a in (q, k, v)], mask)(q, k, v)
    far = np.arange(16)[:, None] - np.arange(16)[None, :]
    seen = (far >= 0) & (far < mask.get("window", 16)) if mask else far == far
    for head in range(4):
        scores = jnp.where(seen, q[0, head] @ k[0, head // 2].T / 8**0.5, -jnp.inf)
        wanted = jax.nn.softmax(scores) @ v[0, head // 2]
        np.testing.assert_allclose(found[0, head], wanted, rtol=2e-4, atol=2e-5)
    row = xla("decode", [(1, 4, 8), k.shape])(q[:, :, -1], k, v)
    if not mask:
        np.testing.assert_allclose(row, found[:, :, -1], rtol=2e-4, atol=2e-5)


def test_attention_of_xla_backward_is_its_gradient():
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(4)
    q, k, v, dout = (jnp.asarray(rng.normal(size=(1, 2, 16, 8)), jnp.float32) for _ in range(4))
    shapes = [q.shape] * 4
    out, gradient = jax.vjp(xla("attention", shapes), q, k, v)
    scores = jnp.einsum("bhsd,bhtd->bhst", q, k) / 8**0.5
    lse = (jax.nn.logsumexp(scores, -1) / np.log(2)).reshape(2, 16)
    delta = (out * dout).sum(-1).reshape(2, 16)
    found = xla("attention_backward", shapes, {"part": "all"})(q, k, v, dout, lse, delta)
    for ours, wanted in zip(found, gradient(dout), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=2e-3, atol=2e-4)


def test_what_xla_has_beside_matmuls_and_rows():
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(6)
    x, y, dy = (jnp.asarray(rng.normal(size=(16, 16)), jnp.float32) for _ in range(3))
    w = x[0]
    rms = 1 / jnp.sqrt((x * x).mean(1) + 1e-6)
    normal = x * rms[:, None] * w
    labels = jnp.arange(16)[:, None]
    wide = jnp.asarray(rng.integers(-128, 128, (8, 16)), jnp.int8)
    nibbles = np.asarray(wide).astype(int) & 255
    halves = np.concatenate([nibbles & 15, nibbles >> 4])
    halves = np.where(halves > 7, halves - 16, halves)
    tall = jnp.asarray(rng.integers(-9, 9, (3, 16, 16)), jnp.int8)
    pairs = [
        ("matmul_bias_gelu", (x, y, w), jax.nn.gelu(x @ y + w, approximate=False)),
        ("matmul_swiglu", (x, y, dy), jax.nn.silu(x @ y) * (x @ dy)),
        ("rms_norm", (x, w), (normal, rms)),
        ("rms_norm_matmul", (x, w, y), normal @ y),
        (
            "rms_norm_bwd",
            (dy, x, w, rms),
            jax.vjp(lambda x, w: xla("rms_norm", [])(x, w)[0], x, w)[1](dy),
        ),
        ("softmax_bwd", (dy, jax.nn.softmax(x)), jax.vjp(jax.nn.softmax, x)[1](dy)[0]),
        ("linear_cross_entropy", (x, y, labels), -jnp.diag(jax.nn.log_softmax(x @ y))),
        ("int8_weights", (x, tall[0], w), x @ tall[0].astype(jnp.float32) * w),
        ("int4_weights", (x, wide), x @ halves.astype(np.float32)),
        (
            "int8_matmul",
            (tall[0], tall[1], w, w),
            tall[0].astype(int) @ tall[1].astype(int) * w[:, None] * w,
        ),
        ("fp8_matmul", (x, y), x @ y / 8),
        ("embedding", (x, labels[:, 0]), x),
    ]
    for name, args, wanted in pairs:
        found = xla(name, [])(*args)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            tolerance = 1e-2 if a.dtype == jnp.bfloat16 else 2e-3
            np.testing.assert_allclose(
                np.asarray(a, float), np.asarray(b, float), rtol=tolerance, atol=2e-2, err_msg=name
            )


def test_counts_above_their_limits_are_named():
    limits = compile_cost.LIMITS
    assert set(limits) == set(compile_cost.WHAT)
    assert compile_cost.over_limits(limits) == []
    said = compile_cost.over_limits({**limits, "further": limits["further"] + 1})
    assert len(said) == 1 and said[0].startswith("further: ")


def test_the_part_without_helion_leaves_the_rest_of_the_page(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(f"measured\n\n{compile_speed.COST}\nold\n")
    counts = dict.fromkeys(compile_cost.LIMITS, 500_000)
    monkeypatch.setattr(compile_cost, "measure_instructions", lambda: counts)
    monkeypatch.setattr(compile_cost, "measure_chains", lambda library: [(1000, 0.01, 0.002, None)])
    monkeypatch.setattr(compile_cost, "measure_python", lambda library: (1e-3, 2e-4, 5e-4))
    options = argparse.Namespace(cost=True, o=page)
    text, over = compile_speed.measured_page(options, None)
    assert text.startswith(f"measured\n\n{compile_speed.COST}\n") and "old" not in text and not over
    assert "| 1000 | 10.0 ms | 10.0 us | 2.0 ms | 2.00 us |" in text
    assert "takes 0.20 ms more" in text


def experts_row(monkeypatch, tmp_path):
    """The row of fused experts; what is measured of it goes to files of the test's own."""
    monkeypatch.setattr(serving, "DATA", tmp_path / "serving.json")
    monkeypatch.setattr(serving, "PAGE", tmp_path / "serving.md")
    return next(row for row in serving.serving_rows() if row.name.startswith("experts, fused, w"))


def taken_of(counts, refused=()):
    """What measures, in turn: so many cycles; some public kernels cannot be asked."""
    left = iter(counts)

    def cycles_of(public, *_):
        if public.kernel in refused:
            raise serving.PallascError("not | installed")
        return {"cycles": next(left), "sure": True}

    return cycles_of


def measured_row(monkeypatch, tmp_path, sure):
    """The row, measured: one public kernel is asked in three ways, the other cannot be."""
    row = experts_row(monkeypatch, tmp_path)
    monkeypatch.setattr(serving, "cycles_of_ours", lambda *_: {"cycles": 3000, "sure": sure})
    refused = {"tpu-inference experts"}
    monkeypatch.setattr(serving, "cycles_of", taken_of((5000, 4000, 6000), refused))
    serving.measure(row, "v6e")
    return row


def test_serving_kernels_have_lines_beside_public_ones(monkeypatch, tmp_path):
    """The best of what a public kernel is asked with, or why there is none."""
    row = measured_row(monkeypatch, tmp_path, sure=False)
    first, second = serving.PAGE.read_text().strip().split("\n")[-2:]
    tilings = "tilings ((128, 2048, 1536), (128, 768, 2048))"
    assert first == f"| {row.name} | v6e | ~3,000 | jax megablox, twice {tilings} | 4,000 | 0.75 |"
    assert second.endswith("| tpu-inference gmm_v2, twice | not \\| installed | - |")
    assert {row.name for row in serving.serving_rows()} == set(serving.ROWS)


def test_serving_kernels_name_their_loop_type():
    """Ours may be faster in another than the graph's own."""
    ours = {"cycles": 3000, "sure": True, "options": "fori_loop"}
    entries = {serving.OURS: ours, "theirs": {"cycles": 4000, "sure": True}}
    found = serving.line("a row", "v7x", entries, "theirs")
    assert found == "| a row | v7x | 3,000 fori_loop | theirs | 4,000 | 0.75 |"
    row = next(row for row in serving.serving_rows() if row.name == "ragged paged attention")
    assert list(serving.ways_of(row, "v6e")) == ["", "fori_loop"]


@pytest.mark.parametrize("row", serving.serving_rows(), ids=lambda row: row.name)
def test_serving_kernels_of_the_page_are_those_of_today(row):
    """Else `make bench-serving` measures ours again, and `make bench KNOWN=1` writes the race."""
    data = serving.steering_of(row)
    for chip in serving.CHIPS:
        known = serving.stored()[row.name][chip][serving.OURS]["key"]
        assert known == serving.key_of_ours(serving.ways_of(row, chip), data), chip


def test_serving_kernels_are_measured_once(monkeypatch, tmp_path):
    """What is known of the same kernels and data stays; what failed is tried again."""
    row = measured_row(monkeypatch, tmp_path, sure=True)
    monkeypatch.setattr(serving, "cycles_of_ours", None)
    monkeypatch.setattr(serving, "cycles_of", taken_of((7000,)))
    serving.measure(row, "v6e")
    found = {name: entry["cycles"] for name, entry in serving.stored()[row.name]["v6e"].items()}
    names = ("jax megablox, twice", "tpu-inference gmm_v2, twice")
    assert found == {"pallasc": 3000, names[0]: 4000, names[1]: 7000}


def test_the_page_of_serving_kernels_is_that_of_the_data():
    assert serving.page(serving.stored()) == serving.PAGE.read_text()


def test_the_package_has_the_rows_of_the_race():
    """`python -m pallasc on-tpu` runs ours of each contest: make tpu-rows."""
    written = {path.stem for path in tpu_rows.FOLDER.glob("*.json")} - {"rows"}
    assert (tpu_rows.FOLDER / "rows.json").read_text() == tpu_rows.rows_text()
    assert written == tpu_rows.graphs().keys()
    for name, (_, args) in tpu_rows.graphs().items():
        document = json.loads((tpu_rows.FOLDER / f"{name}.json").read_text())
        shapes = [t["shape"] for t in document["tensors"] if t["role"] == "input"]
        assert shapes == [list(hand_kernels.parsed(text)[0]) for text in args]


# ---- tuning


def compiled(config, cycles, **settled):
    outcome = {"config": config, "settled": settled, "cycles": cycles, "failure": "no"}
    return outcome | {"estimate": 1.0, "vmem_bytes": 1}


ENTRY = {
    "kernel": "",
    "compiles": 3,
    "outcomes": [
        compiled(None, 1200.0, block_sizes=[8], reduction_loops=[None]),
        compiled({"block_sizes": [16]}, None),
        compiled({}, 1000.0, block_sizes=[32], pallas_loop_type="unroll", reduction_loops=[128]),
    ],
}


def test_defaults_beside_the_best():
    assert tuned.ratio(ENTRY) == 1.2
    cells = tuned.cells("a row", "v6e", ENTRY)
    assert cells[2:] == ["[8]", "1.2", "[32] [128] unroll", "1.0", "**1.200**", "3"]
    alone = ENTRY | {"outcomes": ENTRY["outcomes"][:2]}
    assert tuned.cells("a row", "v6e", alone)[4:7] == ["the same", "1.2", "1.000"]
    failed = ENTRY | {"outcomes": [compiled(None, None), *ENTRY["outcomes"][1:]]}
    assert tuned.ratio(failed) is None
    assert tuned.cells("a row", "v6e", failed)[2] == "failed: no"


def test_rows_are_those_of_the_pages():
    """Without any configuration; the coverage's by their names there."""
    coverage = (kit.ROOT / "docs/coverage.md").read_text()
    assert len(tuned.COVERAGE) == 20
    for name, graph in tuned.COVERAGE.items():
        assert f"\n| {name} " in coverage
        assert "config" not in json.loads(tuned.bare(tuned.coverage_document(graph)))
    names = [name for name, _ in tuned.rows()]
    assert len(names) == len(set(names)) == 30
    assert "softmax bfloat16[4096,10240]" in names
    assert tuned.page_part({f"{names[0]} / v6e": ENTRY}).endswith(
        "Within 10% of the best that was found: 0 of 1.\nNot measured yet: 59.\n"
    )


TUNED = {
    "compiles": 2,
    "ours": [["a", 2.0, ""], ["b", 1.5, ""]],
    "helion": [["c", None, "a | b"], ["d", 1.75, ""]],
    "hand": [],
}


def test_tuners_side_by_side(monkeypatch):
    monkeypatch.setattr(tuners, "load", lambda: {"matmul 4096^3 / v6e": TUNED})
    *_, line, _, missing = tuners.section().splitlines()
    assert missing.startswith("Not measured yet: matmul 4096^3 / v7x; softmax")
    expected = "| matmul 4096^3 | v6e | 2.000 | **1.500** (b) | 2 of 2 | failed | 1.750 (d) "
    assert line == f"{expected}| 1 of 2 (1 a \\| b) | - | 0 of 0 |"


def test_what_failed_is_counted_and_cut():
    assert tuners.counted([["a", None, "out of VMEM"]] * 2) == "0 of 2 (2 out of VMEM)"
    long = "x" * (tuners.WIDEST + 1)
    assert tuners.counted([["a", 1.0, ""], ["b", None, long]]) == f"1 of 2 (1 {long[:-1]}...)"
    shapes = [["a", None, f"cannot reshape ({size}, 8)"] for size in (2, 512)]
    assert tuners.counted(shapes) == "0 of 2 (2 cannot reshape (2, 8))"
    assert tuners.why_not(FATES["vmem"]) == "out of VMEM"
    assert tuners.why_not(FATES["refused"]) == "g.json:1:2: error: no | room"
    assert tuners.why_not(FATES["no-times"]) == "not executed: the run was cut"


def test_a_time_below_what_inputs_take_is_none(monkeypatch):
    """37.7 MB at 1.64 TB/s: what was faster did not read them."""
    args = ("bfloat16[512,32768]", "bfloat16[32768,64]")
    assert tuners.inputs_ms((*args, "1e-5"), "v6e") == pytest.approx(0.02302, rel=1e-3)
    for ms, kept in ((0.01, None), (0.03, 0.03)):
        static = STATIC | {"est_ms": ms, "pallas_ms": ms}
        found = outcome(static=static)
        monkeypatch.setattr(measure, "measure", lambda *_, found=found, **__: found)
        what, time, why = tuners.outcome_of("hand", "xla.matmul", args, {}, "v6e")
        assert (what, time) == ("xla.matmul", kept)
        assert why == ("" if kept else "not followed: 0.0100, where its inputs take 0.0230 of HBM")


def test_each_row_of_the_tuners_has_kernels_by_hand_no_more_than_compiles():
    found = tuners.kernels()
    assert len(found) == 12
    for row in found.values():
        assert row.serving in serving.ROWS or 0 < len(row.hand) <= tuners.COMPILES
    backward = found["attention backward, dq, D=128, S=8192, two heads"]
    assert backward.args[-1] == "False" and "False" not in backward.hand[0].args


def test_a_row_of_the_tuners_is_stored_beside_others(monkeypatch, tmp_path):
    monkeypatch.setattr(tuners, "KEPT", tmp_path / "tuners.json")
    tuners.store("a / v6e", {"compiles": 1})
    tuners.store("b / v6e", {"compiles": 2})
    assert tuners.load() == {"a / v6e": {"compiles": 1}, "b / v6e": {"compiles": 2}}


def test_what_steers_a_row_is_given_to_our_tuner(tmp_path):
    row = next(row for row in tuners.kernels().values() if row.serving)
    text = json.dumps(tuned.coverage_document("grouped_worklist_8192_1024"))
    arguments = dict(tuners.steering(row, text, tmp_path))
    assert set(arguments) == {"blocks", "groups", "offsets"}
    assert np.load(arguments["offsets"]).shape == (33,)
    assert tuners.steering(tuners.Row("a.py:b", ()), text, tmp_path) == ()


def test_between_chips():
    """Bytes over rates of rings and lines: 100 GB/s a link on v6e, a microsecond a chip."""
    assert scaling.torus("v6e", 1024) == ((16, 16), 4)
    assert scaling.torus("v7x", 1024) == ((8, 8, 16), 1)
    size = 1.6e9
    ring, line = scaling.gathered_s("v6e", (16,), size), scaling.gathered_s("v6e", (8,), size)
    assert ring == pytest.approx(1.5e9 / 200e9 + 8e-6)
    assert line == pytest.approx(1.4e9 / 100e9 + 7e-6)
    both = scaling.gathered_s("v6e", (16, 16), size)
    assert both == pytest.approx(size * 255 / 256 / 400e9 + 16e-6)
    assert scaling.added_s("v6e", 256, size) == pytest.approx(2 * both)
    between = 1.5 * size / 256 / 12.5e9
    assert scaling.added_s("v6e", 1024, size) == pytest.approx(2 * both + between)
    assert scaling.exchanged_s("v6e", (4, 8), 1e9) == pytest.approx(2 * 1e9 / 100e9 + 10e-6)
    assert scaling.exchanged_s("v7x", (8, 8, 16), 1e9) == pytest.approx(2 * 1e9 / 100e9 + 16e-6)
