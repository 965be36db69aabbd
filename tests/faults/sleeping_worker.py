"""A worker for tests: it answers nothing, or as its job says."""

import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path


def main():
    """Serves jobs {"do": ...} until standard input ends."""
    for line in sys.stdin:
        job = json.loads(line)
        Path(tempfile.gettempdir(), "left").write_text("a temporary file")
        if job["do"] == "sleep":
            time.sleep(600)
        elif job["do"] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif job["do"] == "fill":
            filled = bytearray(int(job["bytes"]))
            filled[:: 1 << 12] = b"x" * len(filled[:: 1 << 12])
            time.sleep(600)
        elif job["do"] == "garbage":
            print("no JSON", flush=True)
        else:
            where = {"folder": tempfile.gettempdir(), "pid": os.getpid()}
            print(json.dumps(where), flush=True)


if __name__ == "__main__":
    main()
