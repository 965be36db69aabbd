import kernel_round_trip
import kit
import modules


def test_kernel_text_says_all_that_python_needs():
    every = modules.tabled()
    assert len(every) > 6000
    assert kernel_round_trip.problems(every) == {}


def test_what_a_launch_gives_needs_no_names(tmp_path):
    """Unpacked as they come, more than a few of them by their places."""
    unnamed = tmp_path / "unnamed.kernel"
    few = (kit.KERNELS / "attention.fori_loop.kernel").read_text()
    few = few.replace("out, lse = launch", "%10, %11 = launch")
    unnamed.write_text(
        few.replace("reshape out", "reshape %10").replace("reshape lse", "reshape %11")
    )
    printed = kit.accepted(unnamed).out
    assert "    output, output_1 = call(" in printed
    assert "    return output.reshape((2, 2, 512, 128)), output_1.reshape((4, 512))\n" in printed

    many = kit.accepted(kit.COVERAGE / "powers.json", "--emit=kernel").out
    unnamed.write_text(many.replace(" named outputs", ""))
    assert " named outputs" in many
    assert kit.accepted(unnamed).out == kit.accepted(kit.COVERAGE / "powers.json").out
