"""Processes to simulate in: half of a kernel's time is Python callbacks, which share a lock."""

import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import threading
import traceback
import warnings

SPAWN = multiprocessing.get_context("spawn")
# Calls that one process makes: a simulation leaves about 7 MB behind, in what jax keeps compiled.
CALLS = 100


class Died(RuntimeError):
    """The process ended under a call; the message says how."""


class Worker:
    """A process that makes calls, one after the other, and another one after `CALLS` of them.

    A process that has compiled hundreds of kernels may end with SIGSEGV in libgcc's unwinder (seen:
    once in 2155 simulations, jaxlib 0.10.2 on Debian 12; probably frames of compiled code that were
    freed and are still registered). A call that ended so is made once more, in a new process; a
    kernel that crashes by itself crashes that one too.
    """

    def __init__(self):
        self._process = self._pipe = None
        self._calls = 0

    def call(self, function, *arguments):
        """What function(*arguments) gives there. Raises `Died`, or what the function raises."""
        try:
            return self._once(function, arguments)
        except Died as death:
            if self._process.exitcode != -signal.SIGSEGV:
                raise
            warnings.warn(f"{death} in {function.__name__}{arguments}: once more", stacklevel=2)
            return self._once(function, arguments)

    def _once(self, function, arguments):
        if self._calls == CALLS:
            self.close()
        if self._process is None or not self._process.is_alive():
            self._start()
        self._calls += 1
        try:
            self._pipe.send((function, arguments))
            given, value = self._pipe.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            raise Died(f"the process ended with exit code {self._process.exitcode}") from None
        if not given:
            raise value
        return value

    def _start(self):
        self._pipe, far = SPAWN.Pipe()
        self._process = SPAWN.Process(target=serve, args=(far,), daemon=True)
        self._process.start()
        self._calls = 0
        far.close()

    def close(self):
        """Ends the process."""
        if self._process:
            self._pipe.close()
            self._process.join()
            self._process = None


def serve(pipe):
    """Makes the calls that come, until the other end closes."""
    with contextlib.suppress(EOFError):
        while True:
            function, arguments = pipe.recv()
            try:
                answer = True, function(*arguments)
            except Exception as error:
                error.add_note(traceback.format_exc())
                answer = False, error
            pipe.send(answer)


@contextlib.contextmanager
def pool():
    """A `concurrent.futures` executor whose calls are made in processes, each thread in its own."""
    own, workers = threading.local(), []

    def begin():
        own.worker = Worker()
        workers.append(own.worker)

    class Executor(concurrent.futures.ThreadPoolExecutor):
        def submit(self, function, *arguments):
            return super().submit(lambda: own.worker.call(function, *arguments))

    executor = Executor(min(4, os.cpu_count() or 1), initializer=begin)
    try:
        yield executor
    finally:
        executor.shutdown(cancel_futures=True)
        for worker in workers:
            worker.close()
