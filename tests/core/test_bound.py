"""The bound of a kernel's cycles: never above the model's, and it rules out none of the best."""

import json

import kit
import pallasc
import pytest

CHIPS = ("v5e", "v6e", "v7x")
LOOPS = (None, "unroll", "fori_loop", "emit_pipeline")
GRAPHS = sorted([*kit.GRAPHS.glob("*.json"), *kit.COVERAGE.glob("*.json")])


def estimates(paths):
    """(what, estimate) of each graph under each loop type, on the chips in turn."""
    for number, path in enumerate(paths):
        text = path.read_text()
        for turn, loop in enumerate(LOOPS):
            keys = {"pallas_loop_type": loop} if loop else {}
            chip = CHIPS[(number + turn) % len(CHIPS)]
            try:
                module = pallasc.compile(text, target=chip, config=keys)
            except pallasc.CompileError:
                continue
            yield (path.stem, chip, loop), module.plan["estimate"]


@pytest.mark.parametrize("part", range(8))
def test_never_above_the_model(part):
    found = list(estimates(GRAPHS[part::8]))
    assert len(found) > 100
    assert [what for what, e in found if not 0 < e["bound"] <= e["cycles"]] == []


@pytest.mark.parametrize("part", range(4))
def test_what_it_rules_out_is_none_of_the_best(part):
    """Of samples of their spaces, against all lines of the same sweep."""
    some = sorted(kit.GRAPHS.glob("*.json"))[part::4]
    compared = 0
    for path in some:
        words = ["sweep", str(path), "--target", CHIPS[part % 3], "--sample", "150"]
        done = kit.run(*words)
        if done.status:
            continue
        lines = [json.loads(line) for line in done.out.splitlines()]
        fits = [x for x in lines if x["verdict"] == "accepted"]
        best = [x["config"] for x in sorted(fits, key=lambda x: x["seconds"])[:3]]
        rows = kit.accepted(*words, "--top", "3").out.splitlines()[1:]
        assert [json.loads(row[row.index("{") :]) for row in rows[: len(best)]] == best, path.stem
        assert rows[len(best)].endswith(f"{len(fits)} accepted")
        compared += 1
    assert compared > 8
