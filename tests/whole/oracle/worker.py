"""A process that examines cases, a JSON line each, so that a crash or a hang ends only itself.

As a program: reads {"case", "target"} lines, prints outcomes. `Examiner` is the other
side of it.
"""

import json
import os
import selectors
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SECONDS = 300  # of the clock, on a machine that does other things too
MEMORY_BYTES = 4 << 30
SIMULATED_EACH = 150  # cases of a process: jax keeps what it compiled


class Examiner:
    """Examines cases in a process that is replaced when it dies, hangs, or has grown old."""

    def __init__(self, target="v6e"):
        self.target, self.process, self.count = target, None, 0

    def examine(self, case):
        """The outcome of properties.examine. What takes too much is asked again, by itself.

        A process keeps what the cases before took, too.
        """
        if self.count >= SIMULATED_EACH:
            self.close()
        alone = self.process is None
        outcome = self._ask(case)
        return outcome if alone or outcome.get("kind") != "memory" else self._ask(case)

    def _ask(self, case):
        if self.process is None:
            self._start()
        self.count += case.get("way") != "executed"
        job = {"case": case, "target": self.target}
        try:
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()
            line = self._line(time.monotonic() + SECONDS)
        except OSError:
            line = b""
        if line is None:
            used = resident_bytes(self.process.pid)
            self.close()
            if used > MEMORY_BYTES:
                return {"status": "find", "kind": "memory", "message": f"more than {MEMORY_BYTES}"}
            return {"status": "find", "kind": "hang", "message": f"no outcome in {SECONDS} s"}
        if not line:
            self.close()
            return {"status": "find", "kind": "crash", "message": "the examining process died"}
        return json.loads(line)

    def _start(self):
        path = os.pathsep.join(map(str, (HERE, HERE.parents[1], ROOT / "python")))
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": path}
        environment["XLA_FLAGS"] = "--xla_backend_optimization_level=0"
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(HERE / "worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self.count = 0

    def _line(self, deadline):
        """The next line; b"" at the end of the process, None if it takes too long or too much."""
        output, data = self.process.stdout.fileno(), b""
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            while not data.endswith(b"\n"):
                if not selector.select(0.2):
                    late = time.monotonic() > deadline
                    if late or resident_bytes(self.process.pid) > MEMORY_BYTES:
                        return None
                    continue
                chunk = os.read(output, 1 << 16)
                if not chunk:
                    return b""
                data += chunk
        return data

    def close(self):
        """Ends the process, whatever it does."""
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            self.process = None


def resident_bytes(pid):
    """Resident memory of a process; 0 where /proc does not say."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def main():
    import traceback

    import properties
    from pallasc import chips

    chips.round_as_written()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a kernel prints is no answer
    for line in sys.stdin:
        job = json.loads(line)
        try:
            outcome = properties.examine(job["case"], job["target"])
        except Exception:
            text = traceback.format_exc()
            outcome = {"status": "find", "kind": "oracle", "message": text}
        print(json.dumps(outcome), file=answers, flush=True)


if __name__ == "__main__":
    main()
