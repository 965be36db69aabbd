"""`python -m pallasc.supervised PARENT PROGRAM ...`: a worker that does not outlive its parent.

PROGRAM is a module; PARENT the process that started this one. However that ends, SIGKILL too, this
one ends with it, in the midst of a compile.
"""

import os
import runpy
import sys
import threading
import time

_POLL_S = 0.2


def _end_with(parent):
    while os.getppid() == parent:
        time.sleep(_POLL_S)
    os._exit(1)


def main():
    """Runs the program in this process."""
    parent, program = int(sys.argv[1]), sys.argv[2]
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    sys.argv = [program, *sys.argv[3:]]
    runpy.run_module(program, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
