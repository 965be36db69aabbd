"""--adapt: the nearest configuration that is accepted, and what is said of each change."""

import json

import kit
import pallasc
import pytest
from pallasc.errors import CompileError
from simulated import wrong


def adapted(graph, **config):
    """(the configuration in force, the notes) of a graph under a configuration that is refused."""
    with pytest.raises(CompileError):
        kit.compiled(graph, **config)
    module = pallasc.compile(kit.path(graph), config, adapt=True)
    notes = [d["message"] for d in module.diagnostics if d["code"] == "config-adapted"]
    assert all(d["severity"] == "note" for d in module.diagnostics)
    return module.info["config"], notes


def test_blocks_that_are_no_whole_tiles_stay():
    ran = kit.run(*("--adapt", "--emit=plan", "--set", "block_sizes=[128,77]", kit.path("add")))
    assert json.loads(ran.out)["config"]["block_sizes"] == [128, 77]
    assert "config-adapted" not in ran.err


def test_a_kernel_over_the_limit_gets_smaller_blocks():
    config, notes = adapted("matmul_4096", block_sizes=[4096, 4096, 4096])
    assert notes and all("lowered to" in note and "bytes of VMEM" in note for note in notes)
    kit.compiled("matmul_4096", block_sizes=config["block_sizes"])
    doubled = [
        [size * 2 if i == k else size for i, size in enumerate(config["block_sizes"])]
        for k in range(3)
    ]
    for sizes in filter(lambda sizes: max(sizes) <= 4096, doubled):
        with pytest.raises(CompileError, match="bytes of VMEM"):
            kit.compiled("matmul_4096", block_sizes=sizes)


def test_a_key_that_a_refusal_names_is_left_out():
    config, (note,) = adapted(
        "add", pallas_emit_pipeline_group_size=3, pallas_load_buffer_count=[5]
    )
    assert "pallas_load_buffer_count" not in config
    assert note.startswith("pallas_load_buffer_count left out, because ")


def test_what_is_accepted_stays_as_it_is():
    config = {"block_sizes": [128, 128, 256]}
    plain = pallasc.compile(kit.path("matmul_1024"), config)
    given = pallasc.compile(kit.path("matmul_1024"), config, adapt=True)
    assert (given.source, given.diagnostics) == (plain.source, plain.diagnostics)


def test_the_same_each_time_and_right():
    refused = {"block_sizes": [100, 77]}
    first, second = (pallasc.compile(kit.path("add"), refused, adapt=True) for _ in range(2))
    assert (first.source, first.diagnostics) == (second.source, second.diagnostics)
    assert wrong(kit.document("add"), first.info["config"]) == []


def test_the_command_says_it_and_writes_the_kernel(tmp_path):
    out = tmp_path / "k.py"
    asked = ("--adapt", "--set", "block_sizes=[4096,4096,4096]", kit.path("matmul_4096"))
    ran = kit.run("-o", out, *asked)
    assert ran.status == 0
    assert "lowered to" in ran.err
    assert "config-adapted" in ran.err
    sizes = json.loads(kit.run("--emit=plan", *asked).out)["config"]["block_sizes"]
    assert max(sizes) <= 4096
    assert str(sizes) in out.read_text()


def test_a_graph_that_no_configuration_helps_stays_refused():
    document = kit.document("matmul_1024")
    document["graphs"][-1]["nodes"][0]["target"] = "tile.nothing"
    plain, given = (kit.run("-", *words, text=document) for words in ((), ("--adapt",)))
    assert (plain.status, given.status) == (1, 1)
    assert plain.err == given.err


def test_keys_that_are_unknown_stay_errors():
    with pytest.raises(CompileError, match="unknown configuration key"):
        pallasc.compile(kit.path("add"), {"blok_sizes": [8, 128]}, adapt=True)
