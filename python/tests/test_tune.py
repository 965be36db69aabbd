"""`python -m pallasc tune`: what is compiled next, what is kept, and what is said."""

import json
import math

import pytest
from kit import path
from pallasc import tune, tune_page
from pallasc.__main__ import main
from pallasc.errors import CompileError
from sized import sized

ATTENTION = path("attention")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of its own for each test."""
    monkeypatch.setenv("PALLASC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def asked(**more):
    return tune.Asked(ATTENTION.read_text(), "attention.json", "v6e", {}, **more)


def fake_cycles(module, fastest=(1, 256, 512)):
    """A cost that is least at some blocks."""
    sizes = module.info["config"]["block_sizes"]
    return 7000 + 1000.0 * sum(abs(math.log2(a / b)) for a, b in zip(sizes, fastest, strict=True))


class Instrument:
    """A profiler that costs nothing; it fails for blocks of so many rows."""

    def __init__(self, failing=None, fastest=(1, 256, 512)):
        self.failing, self.fastest, self.compiled = failing, fastest, []

    def __call__(self, module, asked, timeout):
        config = module.info["config"]
        self.compiled.append(config["block_sizes"])
        if config["block_sizes"][1] == self.failing:
            raise CompileError("v6e: timeout: no result\nand more")
        return fake_cycles(module, self.fastest), 1 << 20


def run(instrument, compiles=30, workers=1, **more):
    what = asked(**more)
    journal = tune.journal_of(what, "fake")
    return tune.tune(what, compiles, workers, instrument, journal, 60)


# ---- the sweep


def test_candidates_are_in_the_order_of_their_estimates():
    candidates, counts = tune.sweep(asked())
    assert len(candidates) > 1000
    estimates = [candidate.estimate for candidate in candidates]
    assert estimates == sorted(estimates)
    assert counts.startswith("1800 of 1800 configurations judged")
    space = '{"tile_m": [128], "tile_n": [128], "tile_b": [1]}'
    few, _ = tune.sweep(asked(space=space))
    assert [c.config["block_sizes"] for c in few] == [[1, 128, 128]] * 6


def test_a_sweep_that_accepts_nothing_says_why():
    with pytest.raises(CompileError, match="refused: vmem"):
        tune.sweep(asked(vmem=1024))


# ---- the search


def test_it_walks_from_the_best_to_its_neighbours():
    """Half of the compiles go to the first by estimate; then one value changes at a time."""
    instrument = Instrument(fastest=(4, 64, 256))
    search = run(instrument, compiles=60)
    assert search.outcomes[0].config is None
    assert len(search.outcomes) == len(instrument.compiled) == 60
    costs = [outcome.cost for outcome in search.outcomes]
    assert search.best().cost == min(costs) < min(costs[:30])
    configs = [outcome.config for outcome in search.outcomes]
    fastest = min(search.outcomes[:30], key=lambda o: o.cost).settled
    assert tune._differences(fastest, configs[30]) == 1


def candidates_of(*figures):
    """Candidates by (loop type, block, estimate), numbered in their order."""
    return [
        tune.Candidate(number, {"block_sizes": [block], "pallas_loop_type": loop}, estimate)
        for number, (loop, block, estimate) in enumerate(figures)
    ]


def came_out(candidate, cost, given=True):
    config = candidate.config
    estimate = candidate.estimate if given else None
    return tune.Outcome(config if given else None, config, "", cost, estimate)


def test_loop_types_that_took_longer_than_estimated_come_later():
    """The default, a fori_loop, took as long as its estimate, an unrolled loop half again."""
    found = candidates_of(
        ("unroll", 8, 100.0),
        ("unroll", 16, 110.0),
        ("fori_loop", 16, 130.0),
        ("fori_loop", 8, 140.0),
    )
    search = tune.Search(found, 10)
    search.outcomes = [came_out(found[3], 140.0, given=False)]
    assert tune.errors(search.outcomes, found) == {"fori_loop": 1.0}
    assert search.next() is found[0]
    search.outcomes.append(came_out(found[0], 150.0))
    assert tune.errors(search.outcomes, found) == {"fori_loop": 1.0, "unroll": 1.5}
    assert search.next() is found[2]
    assert search.next() is found[3]
    assert search.next() is found[1]


def test_seconds_correct_estimates_as_cycles_do():
    """A loop type that was not tried counts as the best judged of those that were."""
    found = candidates_of(("unroll", 8, 100.0), ("unroll", 16, 110.0), ("fori_loop", 16, 105.0))
    search = tune.Search(found[1:], 10)
    search.outcomes = [came_out(found[0], 3e-6)]
    assert search.next() is found[2]


def test_another_order_of_loops_that_changes_no_estimate_comes_last():
    orders = ([[0, 1]], [[1, 0]], [[0, 1]], [[1, 0]])
    blocks, estimates = (8, 8, 16, 16), (100.0, 100.0, 110.0, 120.0)
    found = [
        tune.Candidate(number, {"block_sizes": [block], "loop_orders": order}, estimate)
        for number, (block, order, estimate) in enumerate(
            zip(blocks, orders, estimates, strict=True)
        )
    ]
    search = tune.Search(found, 10)
    assert [search.next().number for _ in found] == [0, 2, 3, 1]
    assert search.next() is None


def test_what_failed_corrects_nothing():
    found = candidates_of(("unroll", 8, 100.0), ("fori_loop", 8, 110.0))
    assert tune.errors([came_out(found[0], None)], found) == {}


def test_differences():
    a = {"block_sizes": [1, 2, 3], "loop_orders": [[0, 1]], "pallas_loop_type": "unroll"}
    assert tune._differences(a, a) == 0
    assert tune._differences(a, a | {"block_sizes": [1, 2, 4]}) == 1
    assert tune._differences(a, a | {"block_sizes": [2, 2, 4], "loop_orders": [[1, 0]]}) == 3
    assert tune._differences({"block_sizes": [1, 2, 3]}, a) == 0  # the others as by default


def test_kernels_that_are_the_same_are_compiled_once():
    """Orders of a grid of one step, and loop types that become straight code."""
    search = run(Instrument(), compiles=12)
    codes = [outcome.code for outcome in search.outcomes]
    assert len(codes) == 12 == len(set(codes))


def test_what_fails_is_said_and_passed_over():
    search = run(Instrument(failing=512), compiles=12)
    failed = [outcome for outcome in search.outcomes if outcome.cost is None]
    assert failed
    assert {outcome.failure for outcome in failed} == {"v6e: timeout: no result"}
    text = tune.report(search, "cycles", 3)
    assert f"12 kernels compiled, {len(failed)} failed" in text
    assert search.best().settled["block_sizes"][1] != 512


def test_workers_find_as_much():
    assert len(run(Instrument(), compiles=12, workers=3).outcomes) == 12


# ---- what is kept


def test_an_interrupted_run_goes_on_where_it_was():
    whole = run(Instrument(), compiles=14)

    class Interrupted(Instrument):
        def __call__(self, *arguments):
            if len(self.compiled) == 6:
                raise KeyboardInterrupt
            return super().__call__(*arguments)

    what = asked(vmem=100 << 20)
    broken, after = Interrupted(), Instrument()
    with pytest.raises(KeyboardInterrupt):
        tune.tune(what, 14, 1, broken, tune.journal_of(what, "other"), 60)
    search = tune.tune(what, 14, 1, after, tune.journal_of(what, "other"), 60)
    assert len(broken.compiled) == 6 and len(after.compiled) == 8
    assert [o.config for o in search.outcomes] == [o.config for o in whole.outcomes]
    assert [o.cost for o in search.outcomes] == [o.cost for o in whole.outcomes]
    assert [o.known for o in search.outcomes] == [True] * 6 + [False] * 8


def test_a_line_that_was_cut_is_no_error(cache):
    run(Instrument(), compiles=3)
    (kept,) = (cache / "tune").iterdir()
    kept.write_text(kept.read_text()[:-20])
    again = Instrument()
    run(again, compiles=3)
    assert len(again.compiled) == 1


# ---- the command


def test_the_command_writes_the_configuration(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tune, "by_profiler", Instrument(fastest=(4, 512, 256)))
    monkeypatch.setattr(tune.chips, "tpu_attached", lambda: False)
    out = tmp_path / "best.json"
    words = ["tune", str(ATTENTION), "--compiles", "6", "-o", str(out), "--rows", "2"]
    assert main([*words, "--set", "pallas_loop_type=fori_loop"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].split() == ["cycles", "estimate", "VMEM", "configuration"]
    best = json.loads(said[1][said[1].index("{") :])
    assert json.loads(out.read_text()) == {"pallas_loop_type": "fori_loop"} | best
    assert "6 kernels compiled, 0 failed" in said
    assert said[-1].startswith("the default takes ")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["best.json", "cache"]


def test_the_command_tunes_another_size(tmp_path, monkeypatch, capsys):
    """What is compiled is of the size that is asked for, and kept apart from other sizes."""
    seen = []

    def instrument(module, asked, timeout):
        seen.append(tuple(module.info["inputs"][0]["shape"]))
        return 7000.0 + len(seen), 1 << 20

    monkeypatch.setattr(tune, "by_profiler", instrument)
    monkeypatch.setattr(tune.chips, "tpu_attached", lambda: False)
    graph = tmp_path / "softmax.json"
    graph.write_text(json.dumps(sized("softmax", {"S": 1024})))
    for size in (640, 2048):
        assert main(["tune", str(graph), "--size", f"S={size}", "--compiles", "2"]) == 0
    assert seen == [(256, 640)] * 2 + [(256, 2048)] * 2
    assert capsys.readouterr().out.count("2 kernels compiled, 0 failed") == 2
    assert main(["tune", str(graph), "--size", "T=640"]) == 1
    assert "'T'" in capsys.readouterr().err


# ---- the page


def read(text, name):
    """The JSON object in a script element of a page."""
    _, _, rest = text.partition(f'<script type="application/json" id="{name}">')
    return json.loads(rest.partition("</script>")[0])


def test_a_survey_counts_everything():
    found = tune_page.survey(asked(vmem=2 << 20), "cycles")
    assert found.judged == 1800
    refused = sum(count for count, _ in found.refused.values())
    assert found.accepted + refused == 1800 and set(found.refused) == {"vmem", "vmem-uncertain"}
    assert sum(many for _, _, many in found.cells.values()) == found.accepted
    assert max(vmem for vmem, _, _ in found.cells.values()) <= 2 << 20
    candidates, _ = tune.sweep(asked(vmem=2 << 20))
    assert round(found.frontier[-1][1]) == candidates[0].estimate


def test_the_frontier_is_what_no_other_beats():
    found = tune_page.Survey()
    for vmem, cost in ((4, 9), (2, 20), (3, 9), (3, 10), (8, 9), (8, 1), (9, 1), (5, 5), (2, 19)):
        found.add(
            {"verdict": "accepted", "vmem_bytes": vmem, "cycles": cost, "config": {}}, "cycles"
        )
    assert [entry[:2] for entry in found.frontier] == [(2, 19), (3, 9), (5, 5), (8, 1)]


def test_the_page_has_all_that_came_out():
    budget = {"vmem": 16 << 20}
    search = run(Instrument(failing=512), compiles=12, **budget)
    page = tune_page.page(asked(**budget), search)
    found, plan = read(page, "found")["tuning"], read(page, "data")["plan"]
    best = search.best()
    assert plan["config"]["block_sizes"] == best.settled["block_sizes"]
    costs = [entry["cost"] for entry in found["compiled"]]
    assert len(costs) == 12 and costs[0] == best.cost and costs[-1] is None
    assert [entry["chosen"] for entry in found["compiled"]] == [True] + [False] * 11
    assert found["compiled"][0]["vmem"] == plan["vmem"]["total"]
    assert found["compiled"][-1]["failure"] == "v6e: timeout: no result"
    assert sum(entry["config"] is None for entry in found["compiled"]) == 1
    assert (found["judged"], found["accepted"]) == (1800, 1674)
    (refusal,) = found["refused"]
    assert (refusal["code"], refusal["count"]) == ("vmem", 126)
    assert found["limit"] == plan["vmem"]["limit"]


def test_the_command_writes_the_page(tmp_path, monkeypatch):
    monkeypatch.setattr(tune, "on_tpu", lambda *_: (3e-6, None))
    monkeypatch.setattr(tune.chips, "tpu_attached", lambda: True)
    words = ["tune", str(path("softmax")), "--compiles", "2", "--page"]
    assert main([*words, str(tmp_path / "page.html")]) == 0
    found = read((tmp_path / "page.html").read_text(), "found")["tuning"]
    assert found["unit"] == "\u00b5s"
    assert [entry["cost"] for entry in found["compiled"]] == pytest.approx([3.0, 3.0])
    softmax = asked()._replace(graph=path("softmax").read_text())
    cycles = tune.sweep(softmax)[0][0].estimate
    assert found["frontier"][-1]["cost"] == pytest.approx(cycles / 1755, rel=1e-3)  # of 1.755 GHz
    assert main([*words, str(tmp_path / "no" / "page.html")]) == 3


def test_on_a_tpu_time_counts(monkeypatch, capsys):
    monkeypatch.setattr(
        tune, "on_tpu", lambda module, asked, timeout: (fake_cycles(module) * 1e-9, None)
    )
    monkeypatch.setattr(tune.chips, "tpu_attached", lambda: True)
    assert main(["tune", str(ATTENTION), "--compiles", "4"]) == 0
    head, first, *_ = capsys.readouterr().out.splitlines()
    assert head.split()[0] == "us"
    assert 7 <= float(first.split()[0]) < 100


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["none.json"], 3, "none.json"),
        ([str(ATTENTION), "--compiles", "0"], 2, "--compiles"),
        ([str(ATTENTION), "--arg", "x"], 2, "NAME=FILE.npy"),
        ([str(ATTENTION), "--target", "v9"], 2, "there is no target 'v9'"),
        ([str(ATTENTION), "--space", '{"x": [1]}'], 1, "'x' is no configuration key"),
        ([str(ATTENTION), "--set", "block_sizes=[1]"], 1, "block_sizes has 1 value"),
    ],
)
def test_wrong_usage(words, status, message, capsys, monkeypatch):
    monkeypatch.setattr(tune, "by_profiler", Instrument())
    assert main(["tune", *words]) == status
    assert message in capsys.readouterr().err


@pytest.mark.full
def test_the_real_compiler(capsys):
    words = ["tune", str(path("softmax")), "--compiles", "3", "--target", "v7x"]
    assert main(words) == 0
    said = capsys.readouterr().out.splitlines()
    assert "3 kernels compiled, 0 failed" in said
    costs = [int(line.split()[0]) for line in said[1:4]]
    assert costs == sorted(costs)
    assert all(1000 < cost < 100_000 for cost in costs)
    assert main(words) == 0
    assert "3 kernels compiled, 3 of them known before, 0 failed" in capsys.readouterr().out
