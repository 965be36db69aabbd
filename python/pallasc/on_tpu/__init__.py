"""`python -m pallasc on-tpu`: what kernels take on a real TPU, beside what was estimated.

- rows: which kernels: those of docs/results.md, and those of docs/coverage.md from a checkout.
- formulas: what the kernels of the race compute, in jax.numpy.
- measure: one row: compiled, checked, timed; all of them, into a report.
- report: reports: read, checked, written whole.
- calibrate: what reports say of a chip: a target file.
- command: the command.

How times are taken is `pallasc.timing`, which `run` and `tune` share.
"""


def main(argv):
    """The command; see `command.main`."""
    from . import command

    return command.main(argv)
