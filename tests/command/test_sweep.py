"""pallasc sweep: the space of configurations, and that each is judged as compiling it would."""

import itertools
import json
import re

import pallasc
import pytest
from kit import accepted, path, refused, run

ATTENTION, MATMUL, SOFTMAX = map(path, ("attention", "matmul_1024", "softmax"))


def lines(*arguments, **options):
    return [json.loads(line) for line in accepted("sweep", *arguments, **options).out.splitlines()]


def configs(*arguments):
    return [line["config"] for line in lines(*arguments)]


# ---- the space


def test_the_space_of_a_graph_with_a_loop():
    """q [4, 512, 64]: heads 1 to 4; rows and keys 1 to 512; two orders of the grid; three types."""
    sizes = [[1, 2, 4], *[[2**i for i in range(10)]] * 2]
    types = ["unroll", "fori_loop", "emit_pipeline"]
    space = itertools.product(*sizes, [[0, 1], [1, 0]], types)
    assert configs(ATTENTION) == [
        {
            "block_sizes": [b, m, n],
            "loop_orders": [order],
            "pallas_loop_type": kind,
        }
        for b, m, n, order, kind in space
    ]


def test_the_space_of_a_graph_with_long_rows():
    """[256, 1024]: rows 1 to 256, and whole or in 128, 256 or 512 columns."""
    found = configs(SOFTMAX)
    assert len(found) == 9 * 4 * 3
    columns = [config["reduction_loops"] for config in found[::3][:4]]
    assert columns == [[None], [128], [256], [512]]


def test_numbers_count_from_0():
    assert [line["number"] for line in lines(SOFTMAX)] == list(range(108))


@pytest.mark.parametrize("given", [["--set", "block_sizes=[1,256,128]"], ["--config", "-"]])
def test_what_is_given_stays(given):
    text = json.dumps({"block_sizes": [1, 256, 128]}) if given[0] == "--config" else None
    found = [
        json.loads(x) for x in accepted("sweep", ATTENTION, *given, text=text).out.splitlines()
    ]
    assert [line["config"]["block_sizes"] for line in found] == [[1, 256, 128]] * 6


def test_a_space_names_keys_and_blocks(tmp_path):
    space = {"tile_m": [128, 96], "pallas_pre_broadcast": ["on", False, None]}
    given = ("--set", "pallas_loop_type=fori_loop", "--set", "loop_orders=[[0,1]]")
    found = configs(ATTENTION, *given, f"--space={json.dumps(space)}")
    assert {tuple(config["block_sizes"][1:2]) for config in found} == {(128,), (96,)}
    words = [config.get("pallas_pre_broadcast") for config in found]
    assert words == [True, False, None] * (3 * 2 * 10)
    (tmp_path / "space.json").write_text(json.dumps(space))
    assert configs(ATTENTION, *given, "--space", tmp_path / "space.json") == found
    option = f"--sweep={tmp_path / 'space.json'}"
    assert accepted(option, ATTENTION, *given).out == accepted(
        "sweep", ATTENTION, *given, f"--space={json.dumps(space)}"
    ).out  # fmt: skip


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (
            '{"tile_q": [1]}',
            "'tile_q' is no configuration key, and no block or tunable that varies",
        ),
        ('{"tile_m": []}', "tile_m has no values"),
        ('{"tile_m": [0]}', "tile_m cannot be 0"),
        ('{"tile_m": 128}', "expected a list of the values to try"),
        ('{"tile_m": ["a"]}', "expected an int"),
        ('{"pallas_loop_type": ["unrol"]}', "'pallas_loop_type' must be one of"),
        ('{"block_sizes": [[1, "a", 2]]}', "expected an int"),
        ('{"dot_precision": ["default"]}', "dot_precision has one value by the configuration"),
        ("{", "the document ends in the middle"),
        ("[1]", "unknown"),
    ],
)
def test_a_space_that_is_wrong(space, message, tmp_path):
    if not space.startswith("{"):
        (tmp_path / "space.json").write_text(space)
        space, message = tmp_path / "space.json", "expected an object"
    given = ("--set", "dot_precision=highest")
    assert message in run("sweep", ATTENTION, *given, "--space", space).err
    assert run("sweep", ATTENTION, *given, "--space", space).status == 1


def test_a_sample_is_spread_over_the_space():
    found = [line["number"] for line in lines(ATTENTION, "--sample", "7", "--seed", "3")]
    begins = [0, 258, 515, 772, 1029, 1286, 1543, 1800]  # 1800 in 7 parts
    assert all(a <= n < b for a, n, b in zip(begins, found, begins[1:], strict=False))
    assert len(found) == 7
    assert found == [line["number"] for line in lines(ATTENTION, "--sample", "7", "--seed", "3")]
    assert found != [line["number"] for line in lines(ATTENTION, "--sample", "7", "--seed", "4")]
    whole = accepted("sweep", ATTENTION).out
    assert accepted("sweep", ATTENTION, "--sample", "5000").out == whole


# ---- the verdicts


def test_each_is_judged_as_compiling_it_would():
    """Of graphs with loops, without, with long rows, in matmuls: every so many configurations."""
    kinds = set()
    for graph, step in ((ATTENTION, 61), (MATMUL, 331), (SOFTMAX, 7), (path("gram"), 173)):
        for line in lines(graph)[::step]:
            kinds.add(line["verdict"])
            done = run("--emit=plan", graph, "--config", "-", text=json.dumps(line["config"]))
            assert done.status == (line["verdict"] == "refused"), line
            if done.status:
                assert f"[{line['code']}]" in done.err
                assert line["reason"] in done.err
                continue
            plan = json.loads(done.out)
            assert line["vmem_bytes"] == plan["vmem"]["total"], line
            assert line["flops"] == plan["flops"], line
            assert line["hbm_bytes"] == plan["hbm_bytes"], line
    assert kinds == {"accepted", "refused"}


def test_what_passes_make_depends_on_no_order_and_only_on_whether_loops_are_unrolled():
    """What a sweep shares between configurations (src/driver/share.c)."""

    def made(graph, order, kind):
        given = {"pallas_loop_type": kind, **({"loop_orders": [order]} if order else {})}
        done = run("--emit=json", graph, "--config", "-", text=json.dumps(given))
        assert done.status == 0, done.err
        return {k: v for k, v in json.loads(done.out).items() if k != "config"}

    for name in ("attention", "matmul_split_k", "layer_norm_bwd_two_level_odd", "softmax_two_pass"):
        graph = path(name)
        kinds = ("fori_loop", "emit_pipeline")
        assert made(graph, None, kinds[0]) == made(graph, None, kinds[1])
    for kind in ("unroll", *kinds):
        assert made(ATTENTION, [0, 1], kind) == made(ATTENTION, [1, 0], kind)


def test_sharing_changes_no_verdict():
    """All configurations of a space, and each of a few by itself, as nothing is shared there."""
    for graph in (ATTENTION, SOFTMAX):
        found = lines(graph)
        for line in found[:: len(found) // 30]:
            whole = {key: [value] for key, value in line["config"].items()}
            alone = json.loads(run("sweep", graph, f"--space={json.dumps(whole)}").out)
            assert {**alone, "number": line["number"]} == line


def test_what_a_pass_refuses_of_the_space_is_a_refusal():
    graph = path("normalise_by_total")
    refusals = [line for line in lines(graph) if line.get("code") == "roll"]
    assert len(refusals) == 432
    config = json.dumps(refusals[0]["config"])
    assert refusals[0]["reason"] in run(graph, "--config", "-", text=config).err


def test_threads_change_nothing():
    one = run("sweep", ATTENTION, "-j1")
    assert run("sweep", ATTENTION, "-j3") == one
    assert run("sweep", ATTENTION, "-j", "200") == one
    table = run("sweep", ATTENTION, "--table", "-j1")
    assert run("sweep", ATTENTION, "--table", "-j3") == table


def test_the_table_has_the_fastest_and_the_reasons():
    given = (ATTENTION, "--vmem", "8MiB")
    found = lines(*given)
    fits = sorted((x for x in found if x["verdict"] == "accepted"), key=lambda x: x["seconds"])
    head, *rows = accepted("sweep", *given, "--top", "5").out.splitlines()
    assert head.split() == "cycles us VMEM MiB HBM MiB configuration".split()
    assert [json.loads(row[row.index("{") :]) for row in rows[:5]] == [
        x["config"] for x in fits[:5]
    ]
    assert int(rows[0].split()[0]) == round(fits[0]["cycles"])
    assert rows[5] == f"1800 of 1800 configurations judged, {len(fits)} accepted"
    refusals = [x for x in found if x["verdict"] == "refused"]
    assert len(rows) == 6 + len({x["code"] for x in refusals})
    assert rows[6].startswith(
        f"{sum(x['code'] == 'vmem' for x in refusals)} refused: vmem, such as:"
    )


def test_blocks_of_rows_that_cannot_be_computed_in_blocks():
    """What a configuration of the space is refused for has no place in any document."""
    found = [x for x in lines(path("layer_norm_bwd_two_level")) if x["verdict"] == "refused"]
    codes = [x["code"] for x in found]
    assert {code: codes.count(code) for code in codes} == {"loop-type": 168, "roll": 648}
    reason = found[codes.index("roll")]["reason"]
    assert reason.startswith("reduction_loops: the row of 384 'block_2' cannot be computed in")


def test_none_accepted():
    done = run("sweep", ATTENTION, "--vmem", "1KiB", "--top", "3")
    assert done.status == 1
    assert done.out.startswith("1800 of 1800 configurations judged, 0 accepted\n1800 refused: vmem")


# ---- output


def test_into_a_file(tmp_path):
    out = tmp_path / "out.jsonl"
    accepted("sweep", SOFTMAX, "-o", out)
    assert out.read_text() == accepted("sweep", SOFTMAX).out
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.jsonl"]
    refused(1, "sweep", SOFTMAX, "-o", out, "--space", '{"x": [1]}')
    assert out.read_text() == accepted("sweep", SOFTMAX).out
    assert run("sweep", SOFTMAX, "-o", tmp_path).status == 3


def test_counts_are_said_beside_the_lines():
    assert run("sweep", SOFTMAX).err == "108 of 108 configurations judged, 108 accepted\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sample", "3", ATTENTION], "--sample is for a sweep"),
        (["sweep", "--emit=plan", ATTENTION], "leave out --emit"),
        (["sweep", "--sample", "0", ATTENTION], "--sample needs a number of configurations, 1 or"),
        (["sweep", "--seed=x", ATTENTION], "--seed needs a number of a seed, 0 or more, not 'x'"),
        (["sweep", "--space"], "--space needs a value"),
    ],
)
def test_wrong_usage(arguments, message):
    done = run(*arguments)
    assert (done.status, done.out) == (2, "")
    assert message in done.err


def test_kernel_text_has_no_configurations():
    text = accepted("--emit=kernel", SOFTMAX).out
    assert "kernel text is compiled as it stands" in run("sweep", text=text).err


def test_what_cannot_be_read():
    assert run("sweep", "none.json").status == 3
    assert run("sweep", ATTENTION, "--space", "none.json").status == 3


# ---- a budget of VMEM


def test_a_budget_is_the_limit():
    plan = json.loads(accepted("--emit=plan", MATMUL, "--vmem", "8MiB").out)
    assert plan["vmem"]["limit"] == 8 << 20 >= plan["vmem"]["total"]
    assert f"vmem_limit_bytes={8 << 20}" in accepted(MATMUL, "--vmem=8388608").out
    assert pallasc.compile(MATMUL, vmem=8 << 20).source == accepted(MATMUL, "--vmem", "8192KiB").out


def test_a_budget_is_of_what_the_chip_has():
    done = run(MATMUL, "--vmem", "1GiB")
    assert done.status == 1
    assert "a budget of 1073741824 is none" in done.err
    for wrong in ("0", "-1", "x", "1.5MiB", "1TiB", "99999999999999999999"):
        assert run(MATMUL, "--vmem", wrong).status == 2


ADD = (path("add"), "--set", "block_sizes=[64,1024]", "--set", "pallas_row_split=off")


def needed():
    """Bytes that ADD takes by estimate with as few buffers as it can have."""
    return int(re.search(r"needs (\d+) bytes", refused(1, *ADD, "--vmem", "64KiB"))[1])


def test_a_refusal_near_the_limit_is_uncertain_and_the_margin_accepts_it():
    size = needed()
    accepted(*ADD, "--vmem", size)
    for percent in (1, 3, 6):
        near = size * 100 // (100 + percent) + 1
        said = refused(1, *ADD, "--vmem", near)
        assert (
            f"uncertain, a --vmem-margin of -{percent} accepts it: the kernel needs {size}" in said
        )
        assert "[vmem-uncertain]" in said
        assert (
            f"vmem_limit_bytes={near}"
            in accepted(*ADD, "--vmem", near, f"--vmem-margin=-{percent}").out
        )
        refused(1, *ADD, "--vmem", near, "--vmem-margin", f"-{percent - 0.9}%")
        report = accepted(*ADD, "--vmem", near, "--vmem-margin=-7", "--emit=report").out
        assert "over what a kernel may use: the TPU compiler decides" in report
    far = refused(1, *ADD, "--vmem", size * 100 // 109)
    assert "[vmem]" in far and "uncertain" not in far


def test_a_margin_stays_free():
    size = needed()
    large = size * 103 // 100
    accepted(*ADD, "--vmem", large, "--vmem-margin", "2.5%")
    said = refused(1, *ADD, "--vmem", large, "--vmem-margin=5")
    assert "uncertain, a --vmem-margin of 2 accepts it" in said
    assert f"has {large}, of which it may take {large - int(large * 0.05)}: " in said
    sizes = {"block_sizes": [64, 1024], "pallas_row_split": False}
    with pytest.raises(pallasc.CompileError, match="uncertain"):
        pallasc.compile(path("add"), sizes, vmem=large, vmem_margin=5)
    assert pallasc.compile(path("add"), sizes, vmem=large, vmem_margin=2).source


def test_a_sweep_counts_what_is_uncertain_by_itself():
    given = (path("add"), "--set", "pallas_row_split=off", "--vmem", "1100000")
    codes = {line.get("code") for line in lines(*given)}
    assert codes == {None, "vmem", "vmem-uncertain"}
    below = lines(*given, "--vmem-margin=-7")
    assert {line.get("code") for line in below} == {None, "vmem"}
    fits = [line["vmem_bytes"] for line in below if line["verdict"] == "accepted"]
    assert 1100000 < max(fits) <= 1100000 * 1.07


def test_a_margin_is_a_percentage():
    for wrong in ("x", "", "-", "5 %", "5%%"):
        assert run(MATMUL, f"--vmem-margin={wrong}").status == 2
    for wrong in ("91", "-51", "1e999"):
        assert "is from -50 to 90 percent" in refused(1, MATMUL, f"--vmem-margin={wrong}")


def test_the_command_is_found():
    assert "pallasc sweep" in accepted("--help").out
