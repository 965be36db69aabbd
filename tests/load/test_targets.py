"""Chips and target files: each field of include/target_fields.def is read, printed, in range."""

import json
import re
import sys

import kit
import pytest
from jax._src.pallas.mosaic import tpu_info
from kit import ROOT, accepted, refused
from pallasc import chips
from pallasc.profile.chips import CHIPS as PROFILED

sys.path.insert(0, str(ROOT / "tools"))

import tables

FIELDS = tables.target_fields()
NEEDED = [name for name, row in FIELDS.items() if row[4] == "NEEDED"]
# Of each chip: MiB of VMEM, rounded down, and cores, as pallasc --print-targets says them.
FIGURES = {"v4": (16, 2), "v5e": (127, 1), "v5p": (63, 2), "v6e": (127, 1), "v7x": (63, 1)}
# Of each chip the name that jax has; v4 is of two cores here, but for its VMEM.
JAX = {"v5e": "TPU_V5E", "v5p": "TPU_V5P", "v6e": "TPU_V6E", "v7x": "TPU_7X"}


def printed(target):
    return json.loads(accepted("--print-target", "--target", target).out)


@pytest.fixture
def file(tmp_path):
    """Makes the file of a target."""
    return lambda **fields: kit.chip(tmp_path, **fields)


# ---- the chips -----------------------------------------------------------------------------------


def test_all_are_listed():
    lines = accepted("--print-targets").out.splitlines()
    said = {line.split()[0]: line for line in lines}
    assert list(said) == list(FIGURES) == list(chips.TOPOLOGIES) == list(tables.targets())
    for name, (mib, cores) in FIGURES.items():
        assert f"VMEM {mib:3} MiB" in said[name]
        assert said[name].endswith("megacore") == (cores > 1)
    assert f"--target=CHIP         {', '.join(FIGURES)}, or" in accepted("--help").out


@pytest.mark.parametrize("chip", FIGURES)
def test_a_graph_compiles(chip):
    found = json.loads(kit.emitted("plan", "attention", target=chip).out)
    assert found["target"] == chip
    assert found["vmem"]["total"] <= printed(chip)["vmem_bytes"]
    assert printed(chip)["vmem_bytes"] >> 20 == FIGURES[chip][0]
    assert printed(chip)["tensorcores"] == FIGURES[chip][1]
    assert printed(chip)["topology"] == chips.TOPOLOGIES[chip]
    assert printed(chip)["device_kind"] == chips.KINDS[chip][0]
    assert printed(chip)["vmem_bytes"] == chips.VMEM_BYTES[chip]
    rates = printed(chip)["clock_hz"] * printed(chip)["tensorcores"]
    rates = (printed(chip)["hbm_bytes_per_s"], printed(chip)["bf16_flops"], rates)
    assert rates == chips.RATES[chip]
    assert {chips.chip_of(kind) for kind in chips.KINDS[chip]} == {chip}


@pytest.mark.parametrize("chip", JAX)
def test_the_figures_are_those_of_jax(chip):
    version = getattr(tpu_info.ChipVersion, JAX[chip])
    cores = version.num_physical_tensor_cores_per_chip
    jax = tpu_info.get_tpu_info_for_chip(version, cores if version.supports_megacore else 1)
    ours = printed(chip)
    assert ours["tensorcores"] == jax.num_cores
    assert ours["vmem_bytes"] == jax.vmem_capacity_bytes - (64 << 10)
    assert ours["smem_bytes"] == jax.smem_capacity_bytes
    assert (ours["lanes"], ours["sublanes"]) == (jax.num_lanes, jax.num_sublanes)
    assert ours["mxu_size"] == jax.mxu_column_size
    assert ours["hbm_bytes_per_s"] == jax.mem_bw_bytes_per_second
    assert ours["bf16_flops"] == jax.bf16_ops_per_second
    assert ours["int8_flops"] == jax.int8_ops_per_second
    assert ours["float8_flops"] == jax.fp8_ops_per_second


@pytest.mark.parametrize("chip", PROFILED)
def test_the_profile_has_the_same(chip):
    ours, profiled = printed(chip), PROFILED[chip]
    assert ours["mxu_size"] == profiled.mxu
    assert ours["bf16_flops"] == profiled.flops
    assert ours["hbm_bytes_per_s"] == profiled.hbm_bytes_per_s
    assert ours["tensorcores"] == profiled.cores
    assert ours["clock_hz"] == pytest.approx(profiled.clock_hz, rel=1e-3)


@pytest.mark.parametrize("chip", FIGURES)
def test_values_are_in_range(file, chip):
    """What is printed is a target file, and gives the same again."""
    assert list(printed(chip)) == list(FIELDS)
    assert printed(file(**printed(chip))) == printed(chip)
    assert printed(file(base=chip)) == printed(chip)


@pytest.mark.parametrize("chip", FIGURES)
def test_no_code_asks_for_the_name(file, chip):
    """A chip of another name with the same fields gets the same kernel, and the same refusals."""
    other = file(base=chip, name="zz9")
    for graph in ("attention", "matmul_1024", "layer_norm_bwd", "int8_matmul"):
        plans = [kit.run(f"--target={t}", "--emit=plan", kit.path(graph)) for t in (chip, other)]
        same = [(p.status, (p.out + p.err).replace("zz9", chip)) for p in plans]
        assert same[0] == same[1]


def test_no_code_compares_names():
    texts = [
        file.read_text()
        for part in ("src", "passes", "codegen")
        for file in ROOT.glob(f"{part}/*/*.c")
    ]
    assert len(texts) > 100
    assert not [text for text in texts if re.search(r"strcmp\([^;]*target->(name|device)", text)]


# ---- target files --------------------------------------------------------------------------------


@pytest.mark.parametrize("field", [name for name in FIELDS if name != "tile_rows"])
def test_a_field_over_its_base(file, field):
    kind, _, low, high, *_ = FIELDS[field]
    own = printed("v6e")[field]
    value = {"TEXT": "mine", "FLAG": not own}.get(kind, int(float(eval_c(low))))
    found = printed(file(base="v6e", **{field: value}))
    assert found == printed("v6e") | {field: value}
    assert int(float(eval_c(high))) >= int(float(eval_c(low)))


def eval_c(text):
    """A bound of target_fields.def."""
    found = re.fullmatch(r"(?:INT64_C\()?(\d+)\)? << (\d+)", text)
    return int(found[1]) << int(found[2]) if found else text


@pytest.mark.parametrize(
    "field", [n for n, row in FIELDS.items() if row[0] in ("INT", "NUMBER", "CAP")]
)
def test_a_field_out_of_its_range(file, field):
    low, high = (float(eval_c(bound)) for bound in FIELDS[field][2:4])
    for value in (int(low) - 1, int(high) * 2 + 1, "128", True):
        said = refused(1, "--print-target", "--target", file(base="v6e", **{field: value}))
        assert f"'{field}' must be " in said
        assert "chip.json:1:" in said
    assert "'vmem_bytes' must be an int from 1 to 1099511627776, found" in refused(
        1, "--print-target", "--target", file(base="v6e", vmem_bytes=1.5)
    )


@pytest.mark.parametrize("field", [name for name, row in FIELDS.items() if row[0] == "FLAG"])
def test_a_flag_is_true_or_false(file, field):
    said = refused(1, "--print-target", "--target", file(base="v6e", **{field: 1}))
    assert "expected true or false, found" in said


@pytest.mark.parametrize("field", FIELDS)
def test_did_you_mean(file, field):
    said = refused(1, "--print-target", "--target", file(base="v6e", **{f"{field}q": 1}))
    assert f"did you mean '{field}'?" in said


@pytest.mark.parametrize("field", NEEDED)
def test_a_field_that_is_needed(file, field):
    whole = printed("v6e")
    del whole[field]
    said = refused(1, "--print-target", "--target", file(**whole, vmem_bytse=1))
    assert f"'{field}'" in said


def test_a_file_without_a_base_says_what_it_lacks_once(file):
    said = refused(1, "--print-target", "--target", file(name="mine", vmem_bytes=1 << 24))
    names = ", ".join(f"'{field}'" for field in NEEDED if field not in ("name", "vmem_bytes"))
    assert said.count("error:") == 1
    assert f"the target has no base and lacks the fields {names} [missing-field]" in said
    assert 'hint: with a base, such as "base": "v6e", only what differs from it is needed' in said


def test_what_holds_where_a_field_is_absent(file):
    """Without a base: as docs/targets.md says."""
    whole = printed("v6e")
    found = printed(file(**{name: whole[name] for name in NEEDED}))
    assert found["max_tile_elements"] == 1048576
    assert (found["tensorcores"], found["registers"], found["held_registers"]) == (1, 64, 20)
    assert (found["narrow_matmuls"], found["splits_lanes"]) == (True, True)
    assert (found["turns_scores"], found["skews_loops"], found["splits_grid"]) == (False,) * 3
    assert found["mxu_sums"] == 0
    assert found["tile_rows"] == printed("v4")["tile_rows"]
    most = [name for name, row in FIELDS.items() if row[4] == "MOST"]
    assert len(most) == 22
    for name in most:
        assert found[name] == max(printed(chip)[name] for chip in FIGURES)


def test_a_field_is_what_the_compiler_asks(file):
    """Each decides something by itself: not by what else the chip has."""

    def remarks(graph, **fields):
        target = file(base="v5e", name="mine", **fields)
        config = {"pallas_loop_type": "fori_loop", "pallas_straight_loops": "off"}
        return kit.emitted("plan", graph, target=target, **config).err

    skewed = "can be computed beside this one"
    assert skewed not in remarks("attention")
    assert skewed in remarks("attention", skews_loops=True)
    turned = "is computed transposed"
    assert turned not in remarks("attention_b8_h32_s8192_d256", mxu_size=256)
    assert turned in remarks("attention_b8_h32_s8192_d256", mxu_size=256, turns_scores=True)
    in_scratch = "acc lives in VMEM scratch"
    assert in_scratch not in remarks("matmul_1024", registers=4096)
    assert in_scratch in remarks("matmul_1024")
    refusal = kit.refusal("int8_matmul", {"base": "v5e", "narrow_matmuls": False})
    assert "does not compile for v5e" in refusal[0]["message"]
    kit.compiled("int8_matmul", {"base": "v4", "narrow_matmuls": True})
