"""`pallasc profile`: what a kernel takes, by executing the TPU compiler's schedule of it.

- chips: the numbers of each chip.
- dump: compiles with libtpu's dumps on and keeps what is read of them.
- schedule: reads a dumped schedule.
- scalar, program: turn its scalar part into a Python function.
- machine: runs that: SMEM, copies, semaphores.
- scalars: what is known of the arrays that steer a kernel.
- matmuls, checks: what makes a run doubtful.
- estimate: all of a dump's kernels.
- run, worker, report, command: the command.
"""


def main(argv):
    """The command; see `command.main`."""
    from . import command

    return command.main(argv)
