"""The reference of a program on several devices: as many interpreters, which meet.

`run(graph, inputs)` executes a document with a `mesh` once for each device, by the interpreter of
`pallasc.reference`. Only one of them runs at a time, until it waits, so that a run is always the
same. A copy may read its source and write its destination at any time between its start and the
waits for it: at its start (`late=False`), or as late as the waits let it (`late=True`). A program
whose results differ between the two races.
"""

import threading
from dataclasses import dataclass

import numpy as np

from .reference import access, structure
from .reference.document import Document
from .reference.errors import GraphError
from .reference.interp import Run
from .reference.memory import HostTensor


def run(graph, inputs, config=None, scalars=None, late=False):
    """Executes a document on every device of its mesh.

    Args:
      graph: the document, a dict or the path of a JSON file, with a `mesh` of one axis.
      inputs: by device, what `pallasc.reference.run` takes: arrays, then run-time scalars.
      config: configuration keys over the document's own.
      scalars: the run-time scalars, the same on all devices.
      late: copies happen as late as they may, not as early.

    Returns a list of tuples of arrays: by device, in the order of `returns`. Raises GraphError,
    also where devices wait for each other for ever, or a copy is never waited for.

    """
    document = Document(graph, config)
    devices = _device_count(document)
    if len(inputs) != devices:
        raise GraphError(f"the mesh has {devices} devices, inputs are of {len(inputs)}")
    return _Mesh(document, inputs, scalars, late).outputs()


def _device_count(document):
    mesh = document.raw.get("mesh")
    if not isinstance(mesh, dict) or len(mesh) != 1:
        raise GraphError("the document has no mesh of one axis")
    return next(iter(mesh.values()))


# ---- copies --------------------------------------------------------------------------------------


@dataclass
class _Copy:
    """A copy under way: `read` gives what is copied, `write` puts it there."""

    read: object
    write: object
    value: object = None

    def fetch(self):
        """Reads the source, once."""
        if self.value is None:
            self.value = self.read()

    def finish(self):
        """Puts what was read where it goes."""
        self.fetch()
        self.write(self.value)


class _Part(HostTensor):
    """A part of a host tensor, which is read when a copy reads it."""

    def __init__(self, host, places):
        super().__init__(host.name, host.array, host.writable)
        self.places = places

    def read(self):
        """What stands there now."""
        return np.array(self.array[self.places])


class _DeviceRun(Run):
    """One device's execution."""

    def __init__(self, mesh, device, document, inputs, scalars):
        super().__init__(document, inputs, scalars)
        self.mesh, self.device = mesh, device
        self.sent = {}  # by channel: copies whose source is not waited for
        self.coming = {}  # by channel and number: copies that nobody has waited for here
        self.started, self.waited = {}, {}  # by channel: how many copies
        self.barriers = 0


class _Mesh:
    """All devices' runs: threads of which one runs, the others wait for something."""

    def __init__(self, document, inputs, scalars, late):
        self.late, self.error = late, None
        self.runs = [_DeviceRun(self, i, document, x, scalars) for i, x in enumerate(inputs)]
        self.turn = [threading.Event() for _ in inputs]
        self.waits = [lambda: True for _ in inputs]  # whether it can go on; None: it has ended
        self.results = [None] * len(inputs)

    def outputs(self):
        """Runs them all and gives their outputs."""
        threads = [threading.Thread(target=self._run, args=(i,)) for i in range(len(self.runs))]
        for thread in threads:
            thread.start()
        self.turn[0].set()
        for thread in threads:
            thread.join()
        if self.error:
            raise self.error
        return self.results

    def _run(self, device):
        self.turn[device].wait()
        try:
            if self.error is None:
                self.results[device] = self.runs[device].outputs()
                self._check_ended(self.runs[device])
        except Exception as error:
            self.error = self.error or error
        self.waits[device] = None
        self._pass_on(device)

    def _check_ended(self, run):
        left = [channel for channel, copies in run.sent.items() if copies]
        if left:
            raise GraphError(f"device {run.device} never waits for its copy on channel {left[0]}")

    def wait(self, device, until):
        """Lets others run until `until()` holds."""
        self.waits[device] = until
        self.turn[device].clear()
        self._pass_on(device)
        self.turn[device].wait()
        if self.error:
            raise self.error
        self.waits[device] = lambda: True

    def _pass_on(self, device):
        """Gives the turn to the next device that can go on; all go on to end after an error."""
        count = len(self.runs)
        order = [(device + 1 + i) % count for i in range(count)]
        alive = [i for i in order if self.waits[i] is not None]
        ready = [i for i in alive if self.error or self.waits[i]()]
        if alive and not ready:
            self.error = GraphError(f"devices {sorted(alive)} wait for each other for ever")
            ready = alive
        if ready:
            self.turn[ready[0]].set()


# ---- targets -------------------------------------------------------------------------------------


def _run_of(frame):
    if not isinstance(frame.run, _DeviceRun):
        raise GraphError("it runs on the devices of a mesh: see pallasc.devices")
    return frame.run


def _places(frame, node, host):
    """The elements that a node's index list names in a tensor, as a numpy index."""
    region = access.region_of(frame, frame.raw(node, 1, "index"), host.shape)
    inside = region.inside(host.shape)
    dims = [label for label in region.labels if label is not None]
    if inside is not None and not inside.all() and dims:
        raise GraphError("a tile that devices copy reaches past its tensor")
    shape = region.shape
    return tuple(np.broadcast_to(place, shape) for place in region.clamped(host.shape))


def _part(frame, node):
    """tile.part: what a copy reads, when it does."""
    host = frame.argument(node, 0, "tensor")
    return _Part(host, _places(frame, node, host))


def _is_taken(frame, node, position):
    pred = frame.argument(node, position, "pred", None)
    return pred is None or bool(np.asarray(pred))


def _remote_copy(frame, node):
    """tile.remote_copy: it is under way from here on."""
    run = _run_of(frame)
    if not _is_taken(frame, node, 5):
        return
    host = frame.argument(node, 0, "tensor")
    source, channel = frame.argument(node, 2, "source"), frame.argument(node, 4, "channel")
    device = int(np.asarray(frame.argument(node, 3, "device")))
    if not 0 <= device < len(run.mesh.runs):
        raise GraphError(f"there is no device {device}: the mesh has {len(run.mesh.runs)}")
    there = run.mesh.runs[device]
    array, places = there.memory.find(host.name).array, _places(frame, node, host)

    def write(value):
        array[places] = value

    copy = _Copy(source.read if isinstance(source, _Part) else lambda: np.array(source), write)
    if not run.mesh.late:
        copy.finish()
        copy.write = lambda value: None
    run.sent.setdefault(channel, []).append(copy)
    number = run.started.get(channel, 0)
    run.started[channel] = number + 1
    if (channel, number) in there.coming:
        raise GraphError(
            f"two copies that are number {number} on channel {channel} come to {device}"
        )
    there.coming[channel, number] = copy


def _remote_wait(frame, node):
    """tile.remote_wait: the source is sent, what came is there."""
    run = _run_of(frame)
    if not _is_taken(frame, node, 4):
        return
    channel, ends = frame.argument(node, 2, "channel"), frame.argument(node, 3, "ends", "both")
    if ends != "recv":
        if not run.sent.get(channel):
            raise GraphError(f"nothing was sent on channel {channel}")
        run.sent[channel].pop(0).fetch()
    if ends != "send":
        number = run.waited.get(channel, 0)
        run.waited[channel] = number + 1
        run.mesh.wait(run.device, lambda: (channel, number) in run.coming)
        run.coming.pop((channel, number)).finish()


def _remote_barrier(frame, _node):
    """tile.remote_barrier: all devices come to it."""
    run = _run_of(frame)
    run.barriers += 1
    count = run.barriers
    run.mesh.wait(run.device, lambda: all(other.barriers >= count for other in run.mesh.runs))


structure.TARGETS.update(
    {
        "tile.part": _part,
        "tile.remote_copy": _remote_copy,
        "tile.remote_wait": _remote_wait,
        "tile.remote_barrier": _remote_barrier,
        "tile.device_id": lambda frame, node: _run_of(frame).device,
    }
)
