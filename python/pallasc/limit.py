"""How a command ends before it is done: by a signal, or by a time limit that holds.

Of a limit, the work is done by a process that can be killed: a simulated wait, a long step of NumPy
or of XLA's compiler cannot be interrupted from within.
"""

import contextlib
import os
import select
import signal
import sys
import threading
import time

from .command import seconds_text

_channel = None  # where a worker says what it does


class Ended(KeyboardInterrupt):
    """A signal that ends the command, raised where it is; `number` is the signal's."""

    def __init__(self, number):
        super().__init__()
        self.number = number


def exit_status(interrupt):
    """Of a command that a KeyboardInterrupt ends: as a shell tells it of the signal."""
    return 128 + getattr(interrupt, "number", signal.SIGINT)


@contextlib.contextmanager
def ending():
    """Meanwhile SIGINT, SIGTERM and SIGHUP raise `Ended`; a second one ends the process at once.

    Those that whoever started the process has ignored stay so. In the main thread alone.
    """
    defaults = (signal.SIG_DFL, signal.default_int_handler)
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP")]
    before = {n: signal.getsignal(n) for n in numbers if n and signal.getsignal(n) in defaults}

    def end(number, _):
        for other in before:
            signal.signal(other, signal.SIG_DFL)
        raise Ended(number)

    for number in before:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) == end:
                signal.signal(number, handler)


def hold(seconds):
    """From here on the rest of the command has this long: in a worker, of which this is left.

    Gives back in the worker alone. What called ends with the worker's exit status; with 1, and a
    message that says what was done until then, once the time is over. Call it before jax is
    imported: where threads run already, or nothing can fork, a thread ends the process instead.
    """
    if not hasattr(os, "fork") or "jax" in sys.modules:
        _end_by_thread(seconds)
        return
    reader, writer = os.pipe()
    alive, parent = os.pipe()
    sys.stdout.flush()
    worker = os.fork()
    if worker == 0:
        os.close(reader)
        os.close(parent)
        _become_worker(writer, alive)
        return
    os.close(writer)
    os.close(alive)
    raise SystemExit(_watch(worker, reader, seconds))


def say(doing, done=""):
    """What the command does from now on, and what of it is done, for the message of a limit."""
    if _channel is not None:
        _channel(doing, done)


def _become_worker(writer, alive):
    global _channel

    def channel(*said):
        os.write(writer, ("\t".join(said) + "\n").encode())

    _channel = channel

    def end_with_parent():
        os.read(alive, 1)
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _watch(worker, reader, seconds):
    """Waits for the worker; gives the exit status."""
    started, said, at = time.monotonic(), "", 0.0
    try:
        while (left := started + seconds - time.monotonic()) > 0:
            if not select.select([reader], [], [], left)[0]:
                continue
            data = os.read(reader, 1 << 16)
            if not data:
                return _status(os.waitpid(worker, 0)[1])
            said, at = data.decode().splitlines()[-1], time.monotonic()
    except KeyboardInterrupt as interrupt:
        _kill(worker)
        return exit_status(interrupt)
    _kill(worker)
    now = time.monotonic()
    print(_message(seconds, said, now - at if said else 0.0), file=sys.stderr)
    return 1


def _status(status):
    """The exit status of a process that ended so."""
    if not os.WIFSIGNALED(status):
        return os.WEXITSTATUS(status)
    number = os.WTERMSIG(status)
    name = signal.Signals(number).name
    hint = ", as for want of memory" if number == signal.SIGKILL else ""
    print(f"pallasc: error: the command was ended by {name}{hint}", file=sys.stderr)
    return 128 + number


def _kill(worker):
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)


def _message(seconds, said, since):
    doing, _, done = said.partition("\t")
    now = f": {doing}, for {seconds_text(since)} now" if doing else ""
    until = f"; {done}" if done else ""
    return f"pallasc: error: the command did not end within {seconds:g} s{now}{until} (--timeout)"


def _end_by_thread(seconds):
    """As good as it gets where there are threads already: it may be late."""
    global _channel
    last = ["", time.monotonic()]

    def channel(*said):
        last[:] = ["\t".join(said), time.monotonic()]

    def give_up():
        text = _message(seconds, last[0], time.monotonic() - last[1])
        os.write(2, f"{text}\n".encode())
        os._exit(1)

    _channel = channel
    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
