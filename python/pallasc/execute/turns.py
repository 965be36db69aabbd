"""Devices take turns: one runs until it waits for another. All waiting is a deadlock."""

import threading

from .errors import ExecuteError


class _Stopped(Exception):
    """Another device has failed."""


class Turns:
    """Threads of which one runs at a time, the next one always being the same."""

    def __init__(self, count):
        self.count, self.turn, self.idle, self.met = count, 0, 0, 0
        self.live = [True] * count
        self.waits = [None] * count
        self.error, self.changed = None, threading.Condition()

    def run(self, work):
        """Runs `work(number)` of each device; raises the first error of one."""
        threads = [
            threading.Thread(target=self._work, args=(work, number), daemon=True)
            for number in range(self.count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.error is not None:
            raise self.error

    def _work(self, work, number):
        with self.changed:
            try:
                self._until_turn(number)
                work(number)
            except _Stopped:
                pass
            except BaseException as error:
                if self.error is None:
                    self.error = error
            self.live[number] = False
            self.idle = 0
            self._pass_on(number)

    def wait(self, number, ready, what):
        """Lets the others run until `ready()`."""
        self.waits[number] = what
        while not ready():
            self.idle += 1
            if self.idle > sum(self.live):
                waits = "; ".join(
                    f"device {i} for {w}" for i, w in enumerate(self.waits) if self.live[i] and w
                )
                raise ExecuteError(f"deadlock: all devices wait, {waits}")
            self._pass_on(number)
            self._until_turn(number)
        self.idle, self.waits[number] = 0, None

    def meet(self, number):
        """Until all devices are here."""
        self.met += 1
        goal = -(-self.met // self.count) * self.count
        self.wait(number, lambda: self.met >= goal, "the others")

    def _pass_on(self, number):
        for ahead in range(1, self.count + 1):
            if self.live[(number + ahead) % self.count]:
                self.turn = (number + ahead) % self.count
                break
        self.changed.notify_all()

    def _until_turn(self, number):
        while self.turn != number and self.error is None:
            self.changed.wait()
        if self.error is not None:
            raise _Stopped
