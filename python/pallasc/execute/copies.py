"""Copies between memories and semaphores, as the hardware may finish them: as late as it can.

What a copy brings is there once it is waited for: until then its destination holds poison. Nothing
may be written to what a copy still reads or writes.
"""

from dataclasses import dataclass

import numpy as np

from .errors import ExecuteError
from .memory import overlap
from .values import poison


@dataclass
class Copy:
    """A copy that can start. `there` and `device`: of a remote one, whose `semaphore` is here.

    `rows`: the table of a copy that gathers these rows of its source.
    """

    source: np.ndarray
    target: np.ndarray
    semaphore: np.ndarray
    there: np.ndarray | None = None
    device: int | None = None
    rows: np.ndarray | None = None

    def data(self):
        """What it brings."""
        if self.rows is None:
            return self.source.copy()
        if ((self.rows < 0) | (self.rows >= len(self.source))).any():
            raise ExecuteError(f"a row of {len(self.source)} is out of bounds")
        return self.source[self.rows]


@dataclass
class Flight:
    """A copy on its way: what it reads, writes, and the data. A side that is done is None."""

    key: int
    source: np.ndarray | None
    target: np.ndarray | None
    data: np.ndarray | None
    place: tuple
    line: int = 0
    rows: np.ndarray | None = None


def address(view):
    """Where a view stands in memory."""
    return view.__array_interface__["data"][0]


def _place(view):
    return address(view), view.shape, view.strides


class Flights:
    """The copies of one device that nothing has waited for yet."""

    def __init__(self):
        self.flights = []

    def __bool__(self):
        return bool(self.flights)

    def check_write(self, view):
        """Raises if a write to `view` races with a copy."""
        for flight in self.flights:
            if flight.source is not None and overlap(flight.source, view):
                raise ExecuteError(f"written while the copy of line {flight.line} reads it")
            if flight.rows is not None and overlap(flight.rows, view):
                raise ExecuteError(f"written while the copy of line {flight.line} looks it up")
            if flight.target is not None and overlap(flight.target, view):
                raise ExecuteError(f"written while the copy of line {flight.line} writes it")

    def check_read(self, view):
        """Raises if `view` is what a copy is still writing."""
        for flight in self.flights:
            if flight.target is not None and overlap(flight.target, view):
                raise ExecuteError(f"copied while the copy of line {flight.line} writes it")

    def find(self, key):
        """The flight of a semaphore, or None."""
        return next((flight for flight in self.flights if flight.key == key), None)

    def start(self, copy, line):
        """A copy on this device."""
        key = address(copy.semaphore)
        self.check_read(copy.source)
        if copy.rows is not None:
            self.check_read(copy.rows)
        self.check_write(copy.target)
        place = (*_place(copy.source), *_place(copy.target))
        flight = Flight(key, copy.source, copy.target, copy.data(), place, line, copy.rows)
        self.flights.append(flight)
        copy.target[...] = poison(copy.target.dtype)

    def wait(self, copy):
        """Until a copy on this device is there; or all that one semaphore counts.

        A semaphore counts what its copies have brought. Where there are several, a wait for one
        might be over when another has come; so it is for as much as all of them bring, to memory
        that they fill.
        """
        flights = [f for f in self.flights if f.key == address(copy.semaphore)]
        if not flights:
            raise ExecuteError("waits for a copy that was not started")
        if _place(copy.source) == _place(copy.target):
            self._wait_all(flights, copy.target)
            return
        flight = flights[0]
        if len(flights) > 1:
            raise ExecuteError(
                f"waits for one copy while its semaphore counts that of line {flight.line} too"
            )
        if flight.place != (*_place(copy.source), *_place(copy.target)):
            raise ExecuteError(f"waits for another copy than the one started in line {flight.line}")
        self.flights.remove(flight)
        flight.target[...] = flight.data

    def _wait_all(self, flights, view):
        if any(f.target is None or not np.shares_memory(f.target, view) for f in flights):
            raise ExecuteError("waits for copies that bring something elsewhere")
        if sum(flight.target.nbytes for flight in flights) != view.nbytes:
            raise ExecuteError(f"waits for {view.nbytes} bytes, its copies bring another number")
        for flight in flights:
            self.flights.remove(flight)
            flight.target[...] = flight.data

    def finish(self):
        """Raises if something was not waited for."""
        if self.flights:
            raise ExecuteError("nothing waits for this copy", self.flights[0].line)


# ---- between devices -----------------------------------------------------------------------------


def send(device, copy, line):
    """Starts a remote copy: it leaves this device and is on its way to the other."""
    flights, other = device.flights, device.peer(copy.device)
    if flights.find(address(copy.semaphore)):
        raise ExecuteError("started while its semaphore counts another copy")
    flights.check_read(copy.source)
    data = copy.source.copy()
    key = address(copy.semaphore)
    flights.flights.append(Flight(key, copy.source, None, data, _place(copy.source), line))
    target, there = other.mirror(device, copy.target), other.mirror(device, copy.there)
    other.flights.check_write(target)
    other.flights.flights.append(Flight(address(there), None, target, data, (), line))
    target[...] = poison(target.dtype)


def wait_send(device, copy):
    """Until all has left: the source may be written again."""
    flight = device.flights.find(address(copy.semaphore))
    if flight is None or flight.source is None:
        raise ExecuteError("waits for a copy that was not started")
    device.flights.flights.remove(flight)


def wait_recv(device, copy):
    """Until what another device sends is here: one copy, or several of as many bytes together."""
    key, size = address(copy.semaphore if copy.there is None else copy.there), copy.target.nbytes

    def coming():
        return [flight for flight in device.flights.flights if flight.key == key]

    def here():
        return sum(flight.data.nbytes for flight in coming()) >= size

    device.block(here, "a copy of another device")
    for flight in coming():
        if flight.target is None:
            raise ExecuteError("its semaphore counts what is sent, not what arrives")
        if size <= 0:
            break
        size -= flight.data.nbytes
        device.flights.flights.remove(flight)
        flight.target[...] = flight.data
    if size:
        raise ExecuteError("waits for a part of a copy")
