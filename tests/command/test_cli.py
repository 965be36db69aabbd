"""The command pallasc: every option and every exit status."""

import json
import os
import re
import signal
import subprocess
import tomllib

import kit
import pallasc
import pytest
from kit import PALLASC, ROOT, accepted, refused, run

ATTENTION, ADD = map(kit.path, ("attention", "add"))
PASSES = (
    "batch random int64 const_fold whiles jagged branches summed_parts decompose one_hot float16"
    " bounds whole_rows cse roll id_masks scale_in_q scale_after_max trim dce loop_types"
    " block_constraints row_split columns inloop_loads orient pre_broadcast"
).split()


# ---- input and output


def test_a_file_standard_input_and_dash_are_the_same():
    text = ATTENTION.read_text()
    module = accepted(ATTENTION).out
    assert module.startswith('"""')
    assert accepted(text=text).out == module
    assert accepted("-", text=text).out == module
    assert accepted("--", ATTENTION).out == module


def test_output_is_the_same_each_time_and_anywhere(tmp_path):
    (tmp_path / "g.json").write_text(ATTENTION.read_text())
    environment = {"LC_ALL": "de_DE.UTF-8", "TZ": "Asia/Tokyo"}
    for emit in ("python", "json", "plan", "kernel", "operations", "dot", "report", "html"):
        first = accepted(f"--emit={emit}", ATTENTION).out
        assert accepted(f"--emit={emit}", ATTENTION).out == first
        there = accepted(f"--emit={emit}", "g.json", cwd=tmp_path, env=environment)
        assert there.out == first


@pytest.mark.parametrize("option", [["-o"], ["-o{}"]])
def test_output_file(tmp_path, option):
    path = tmp_path / "out.py"
    option = [option[0].format(path)] if "{" in option[0] else [option[0], path]
    assert accepted(ATTENTION, *option).out == ""
    assert path.read_text() == accepted(ATTENTION).out
    assert os.listdir(tmp_path) == ["out.py"]
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask()


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_output_dash_is_standard_output(tmp_path):
    assert accepted(ATTENTION, "-o", "-", cwd=tmp_path).out == accepted(ATTENTION).out
    assert os.listdir(tmp_path) == []


def test_output_file_is_replaced_whole(tmp_path):
    path, link = tmp_path / "out.py", tmp_path / "link.py"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to("out.py")
    with open(path) as reader:
        accepted(ATTENTION, "-o", link)
        assert reader.read() == "old"
    assert link.is_symlink() and path.stat().st_mode & 0o777 == 0o640
    assert path.read_text() == accepted(ATTENTION).out
    assert sorted(os.listdir(tmp_path)) == ["link.py", "out.py"]


def test_a_refused_graph_leaves_the_output_alone(tmp_path):
    path = tmp_path / "out.py"
    path.write_text("old")
    refused(1, "--set", "block_sizes=[1]", ATTENTION, "-o", path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.py"]


def test_output_that_cannot_be_written(tmp_path):
    assert "No such file" in refused(3, ADD, "-o", tmp_path / "no" / "out.py")
    assert "Is a directory" in refused(3, ADD, "-o", tmp_path)
    assert "No space left" in refused(3, ADD, "-o", "/dev/full")
    assert os.listdir(tmp_path) == []
    assert accepted(ADD, "-o", "/dev/null").out == ""


@pytest.mark.parametrize("what", [[str(ADD)], ["--help"], ["--version"], ["--print-passes"]])
def test_standard_output_that_cannot_be_written(what):
    with open("/dev/full", "w") as full:
        result = run(*what, stdout=full)
    assert result.status == 3
    assert "cannot write standard output: No space left on device" in result.err


def test_a_reader_that_goes_away():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        result = run(ADD, stdout=pipe)
    assert result.status == 3
    assert "Broken pipe" in result.err


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_closed_descriptors(tmp_path, closed):
    source = "" if closed == "<&-" else ADD
    command = f"exec '{PALLASC}' {source} {closed}"
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert result.returncode == 3
    assert "Bad file descriptor" in result.stderr


def test_closed_standard_error_does_not_end_up_in_the_output(tmp_path):
    command = f"exec '{PALLASC}' '{ADD}' --explain -v -o out.py 2>&-"
    assert subprocess.run(["sh", "-c", command], cwd=tmp_path, timeout=60).returncode == 0
    assert (tmp_path / "out.py").read_text() == accepted(ADD).out


def test_input_that_cannot_be_read(tmp_path):
    assert "No such file" in refused(3, tmp_path / "no.json")
    assert "Is a directory" in refused(3, tmp_path)
    assert "No such file" in refused(3, ADD, "--config", tmp_path / "no.json")
    assert "No such file" in refused(3, ADD, "--target", tmp_path / "no.json")


def test_unreadable():
    """A file that opens, and whose first byte cannot be read: not even by root."""
    assert "Input/output error" in refused(3, "/proc/self/mem")


def test_out_of_memory(tmp_path):
    path = tmp_path / "g.json"
    path.write_text('{"a": [' + "1, " * 20_000_000 + "1]}")
    command = f"ulimit -v 100000; exec '{PALLASC}' '{path}'"
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert result.returncode == 3
    assert "out of memory" in result.stderr


# ---- what to print


def test_emit():
    module = accepted(ADD).out
    assert accepted("--emit=python", ADD).out == module
    assert accepted("--emit", "python", ADD).out == module
    compile(module, "add.py", "exec")
    graph = json.loads(accepted("--emit=json", ADD).out)
    assert graph["format"] == "fxtile" and "annotations" in graph
    assert json.loads(accepted("--emit=plan", ADD).out)["target"] == "v6e"
    assert accepted("--emit=dot", ADD).out.startswith('digraph "add"')
    assert accepted("--emit=report", ADD).out.strip()
    assert accepted("--emit=html", ADD).out.startswith("<!DOCTYPE html>")
    assert accepted("--emit=none", ADD).out == ""
    assert accepted("--emit=none", ADD).err == ""


def test_kernel_text_is_compiled_again():
    module = accepted(ATTENTION).out
    text = accepted("--emit=kernel", ATTENTION).out
    assert text.startswith("program attention for v6e\n")
    assert accepted("--emit=kernel", text=text).out == text
    assert accepted(text=text).out == module
    assert accepted("--emit=none", text=text).out == ""
    operations = accepted("--emit=operations", ATTENTION).out
    assert accepted("--emit=operations", text=text).out == operations
    for_v7x = accepted("--target=v7x", "--emit=kernel", text=text).out
    assert for_v7x == text.replace(" for v6e", " for v7x", 1)
    own = text.replace(" for v6e", " for v7", 1)  # of a target file, say
    assert accepted("--emit=kernel", text=own).out == own
    assert "there is no target 'v7' [unknown-target]" in refused(1, "--emit=operations", text=own)
    assert accepted("--target=v6e", "--emit=operations", text=own).out == operations
    for emit in ("json", "plan", "dot", "report", "html"):
        assert "there is no graph" in refused(1, f"--emit={emit}", text=text)
    assert "no configuration" in accepted("--set=a=1", "--emit=none", text=text).err
    changed = text.replace("float32[1, 128, 128]", "float32[1, 128, 64]", 1)
    assert "[kernel-" in refused(1, text=changed)


def test_emitted_graph_is_a_document_again():
    for graph, setting in ((ADD, "auto"), (ATTENTION, "off")):
        switch = f"--set=pallas_pre_broadcast={setting}"
        once = accepted("--emit=json", switch, graph).out
        assert accepted("--emit=json", text=once).out == once
        accepted(text=once)


def test_emitted_graph_is_settled_soon():
    """Widened row values can start as equal zeros, which the first pass of a second run shares."""
    once = accepted("--emit=json", "--set=pallas_transposed_scores=off", ATTENTION).out
    twice = accepted("--emit=json", text=once).out
    assert twice.count("tile.full") == once.count("tile.full") - 1
    assert accepted("--emit=json", text=twice).out == twice


def test_emit_none_refuses_what_cannot_be_compiled():
    """Too many rows at once for the chip's VMEM: the plan says so, no text is needed."""
    big = ["--set", "block_sizes=[64, 8192, 8192]"]
    path = kit.path("attention_b8_h32_s8192_d256")
    assert "VMEM" in refused(1, "--emit=none", path, *big)


def test_target(tmp_path):
    assert '"target": "v6e"' in accepted(ADD).out
    for name in ("v4", "v5e", "v5p", "v6e", "v7x"):
        assert f'"target": "{name}"' in accepted(f"--target={name}", ADD).out
    path = tmp_path / "chip.json"
    path.write_text(json.dumps({"base": "v6e", "name": "mine"}))
    assert '"target": "mine"' in accepted("--target", path, ADD).out
    path.write_text(json.dumps({"base": "v6e", "vmem_bytse": 1}))
    assert "did you mean 'vmem_bytes'?" in refused(1, "--target", path, ADD)
    assert "did you mean 'v6e'?" in refused(2, "--target=v6", ADD)


def sizes(*arguments):
    return json.loads(accepted("--emit=plan", ADD, *arguments).out)["config"]["block_sizes"]


def test_configuration_order(tmp_path):
    """The graph's own, then --config, then --set, wherever they stand."""
    path = tmp_path / "config.json"
    path.write_text('{"block_sizes": [64, 128]}')
    own = json.loads(ADD.read_text())["config"]["block_sizes"]
    assert sizes() == own != [64, 128]
    assert sizes("--config", path) == [64, 128]
    assert sizes("--set", "block_sizes=[32, 128]", "--config", path) == [32, 128]
    assert sizes("--set=block_sizes=[32, 128]", "--set", "block_sizes=[16, 128]") == [16, 128]
    result = accepted("--emit=plan", "--config", "-", ADD, text=path.read_text())
    assert json.loads(result.out)["config"]["block_sizes"] == [64, 128]


def test_configuration_that_is_refused(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{\n "blok_sizes": [64, 128]}')
    message = refused(1, "--config", path, "--set", "num_stagse=1", "--set", "x=2", ADD)
    assert f"{path}:2:2: error: unknown configuration key 'blok_sizes'" in message
    assert "did you mean 'block_sizes'?" in message
    assert "unknown configuration key 'x'" in message
    path.write_text("[")
    assert refused(1, "--config", path, ADD)


# ---- passes


def test_print_passes():
    lines = accepted("--print-passes").out.splitlines()
    assert [line.split()[0] for line in lines] == PASSES
    assert all(len(line.split()) > 2 for line in lines)


def test_passes_run_alone_and_in_the_given_order():
    for name in PASSES:
        for graph in (ADD, ATTENTION):
            document = accepted(f"--passes={name}", "--verify-each", graph).out
            accepted("--emit=none", text=document)
    whole = accepted("--emit=json", ATTENTION).out
    assert accepted("--passes", ",".join(PASSES), ATTENTION).out == whole
    order = accepted("--passes=dce,cse", "--print-after-all", ATTENTION).err
    assert re.findall("^// the graph after (.*)$", order, re.M) == ["dce", "cse"]


def test_passes_imply_json_unless_told_otherwise():
    assert json.loads(accepted("--passes=cse", ADD).out)["name"] == "add"
    assert json.loads(accepted("--passes=", ADD).out)["name"] == "add"
    assert accepted("--passes=cse", "--emit=none", ADD).out == ""
    assert accepted("--passes=cse", "--emit=python", ADD).out.startswith('"""')
    assert accepted("--emit=plan", "--passes=cse", ADD).out.startswith("{")


def dumps(*arguments):
    """[(when, pass, document)] of what is printed on standard error."""
    text = accepted("--emit=none", ATTENTION, *arguments).err
    parts = re.split(r"^// the graph (before|after) (\w+)\n", text, flags=re.M)
    assert parts[0] == ""
    return [
        (when, name, json.loads(document))
        for when, name, document in zip(parts[1::3], parts[2::3], parts[3::3], strict=True)
    ]


def test_print_before_and_after():
    assert [d[:2] for d in dumps("--print-before=cse")] == [("before", "cse")]
    assert [d[:2] for d in dumps("--print-after", "cse")] == [("after", "cse")]
    assert [d[:2] for d in dumps("--print-after-all")] == [("after", name) for name in PASSES]
    both = dumps("--print-before=dce,cse", "--print-after=dce")
    assert [d[:2] for d in both] == [("before", "cse"), ("before", "dce"), ("after", "dce")]
    assert all(document["format"] == "fxtile" for _, _, document in both)


def test_verify_each_changes_nothing():
    assert accepted("--verify-each", ATTENTION).out == accepted(ATTENTION).out


def test_a_loop_that_no_rewrite_drives_has_no_python():
    """Of a graph as of kernel text."""
    for rewrites in ("", "split", "peel,tidy"):
        said = refused(1, f"--rewrites={rewrites}", "--emit=python", ATTENTION)
        assert "a `loop` is not run by anything yet, and has no Python [kernel-emit]" in said


# ---- messages


def test_explain():
    result = accepted("--explain", ATTENTION)
    assert result.out == accepted(ATTENTION).out
    lines = result.err.splitlines()
    assert lines
    for line in lines:
        assert re.fullmatch(f"({'|'.join(PASSES)}|plan): .+", line), line
    assert any(line.startswith("plan: ") for line in lines)


def test_diagnostics():
    text = refused(1, "--set", "blok_sizes=1", ADD)
    assert "<command line>:1:2: error: unknown configuration key" in text
    line = json.loads(refused(1, "--diagnostics=json", "--set", "blok_sizes=1", ADD))
    assert (line["severity"], line["code"]) == ("error", "unknown-config-key")
    assert (line["line"], line["pointer"]) == (1, "/blok_sizes")
    line = json.loads(refused(2, "--no", "--diagnostics=json", ADD))
    assert line["code"] == "usage"
    line = json.loads(refused(3, "--diagnostics=json", "/nonexistent"))
    assert line["code"] == "file"
    assert "/nonexistent" in refused(3, "--diagnostics=text", "/nonexistent")


def test_notes_are_printed_when_all_is_well():
    result = accepted("--set", "num_warps=4", ADD)
    assert "note: configuration keys that mean nothing on a TPU" in result.err
    assert result.out.startswith('"""')


def test_color():
    wrong = ["--set", "blok_sizes=1", ADD]
    assert "\033[" not in refused(1, *wrong)
    assert "\033[" not in refused(1, "--color=auto", *wrong)
    assert "\033[" not in refused(1, "--color=never", *wrong)
    assert "\033[" in refused(1, "--color=always", *wrong)


def test_verbose():
    result = accepted("-v", text=ADD.read_text())
    assert "reading the graph from standard input" in result.err
    assert "VMEM" in result.err
    assert result.out == accepted(ADD).out


def test_jobs():
    for option in (["-j", "4"], ["-j1"]):
        assert accepted(*option, ADD).out == accepted(ADD).out
    for value in ("0", "-1", "x", "", "99999999999999999999", "1x"):
        assert "-j needs a number" in refused(2, "-j", value, ADD)


def test_version():
    """pyproject.toml says where the version stands, and takes it from there into wheels."""
    place = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["version"]
    version = re.search(place["pattern"], (ROOT / place["path"]).read_text())["version"]
    assert accepted("--version").out == f"pallasc {version}\n"
    assert pallasc.__version__ == version


def test_help_fits_a_screen_and_names_every_option():
    text = accepted("--help").out
    assert accepted("-h").out == text
    lines = text.splitlines()
    assert len(lines) <= 48 and max(map(len, lines)) <= 90
    source = (ROOT / "src/command/options.c").read_text()
    names = re.findall(r'^\t\{"(-[^"]+)", (?:NO|A|MAYBE_A)_VALUE, ', source, re.M)
    assert len(names) >= 20
    for name in set(names) - {"-h"}:
        assert re.search(rf"(?<![\w-]){name}(?![\w-])", text), name


# ---- wrong usage


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--emti=json"], "unknown option --emti; did you mean --emit?"),
        (["--zzz"], "unknown option --zzz"),
        (["--swep"], "unknown option --swep; did you mean --sweep?"),
        (["-q"], "unknown option -q"),
        (["-vx"], "unknown option -vx"),
        (["--emit=pyhton"], "unknown value 'pyhton' for --emit; did you mean 'python'?"),
        (["--emit=zzzzz"], "one of: python, json, plan, kernel, operations, dot, report, html"),
        (["--emit"], "--emit needs a value"),
        (["-o"], "-o needs a value"),
        (["-o", ""], "-o needs the name of a file"),
        (["--verify-each=yes"], "--verify-each takes no value"),
        (["--target=v8"], "unknown target 'v8'"),
        (["--passes=csee"], "unknown pass 'csee'; did you mean 'cse'?"),
        (["--passes=cse,,dce"], "unknown pass ''"),
        (["--passes=cse,"], "ends with a comma"),
        (["--print-after=dee"], "unknown pass 'dee'; did you mean 'dce'?"),
        (["--set", "block_sizes"], "expected KEY=VALUE after --set, found 'block_sizes'"),
        (["--set", "=1"], "expected KEY=VALUE after --set, found '=1'"),
        (["--diagnostics=xml"], "unknown value 'xml' for --diagnostics; one of: text, json"),
        (["--color=allways"], "did you mean 'always'?"),
        (["b.json"], "more than one graph"),
    ],
)
def test_wrong_usage(arguments, message):
    assert message in refused(2, ADD, *arguments)


def test_empty_names_and_standard_input_twice():
    assert "is empty" in refused(2, "")
    assert "only once" in refused(2, "--config", "-")


def test_an_interrupted_write_leaves_nothing(tmp_path):
    """Whenever the signal comes: the file is whole, or not there."""
    text = ATTENTION.read_text()
    for delay in range(0, 12):
        process = subprocess.Popen([PALLASC, "-", "-o", "out.py"], cwd=tmp_path, stdin=-1)
        process.stdin.write(text.encode())
        process.stdin.close()
        subprocess.run(["sleep", str(delay / 2000)], check=True)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        assert os.listdir(tmp_path) in ([], ["out.py"])
        if (tmp_path / "out.py").exists():
            assert (tmp_path / "out.py").read_text() == accepted(ATTENTION).out


def test_a_kernel_without_blocks_is_not_told_to_make_one_smaller():
    path = ROOT / "testdata" / "coverage" / "graphs" / "experts_worklist_4096_2048.json"
    said = refused(1, path, "--vmem=1MiB")
    assert "no block size is to be chosen that could be smaller: each step takes whole dims" in said
    assert "make several of" not in said
