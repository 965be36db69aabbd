"""Copies between devices and barriers: Helion's descriptors, resolved into starts and waits.

Helion's start and wait name the descriptor by an id, in whichever graph they stand; in the format
each says itself which part is copied where, and a number, the channel, says what belongs together.
What a start needs of the graph around its own is passed to that as one more argument.
"""

import torch

from .calls import calls_of, target_name
from .writer import GraphWriter

# Helion's operations on a descriptor -> which ends they wait for; None: they start the copy.
LIFECYCLE = {
    "start_async_remote_copy_descriptor": None,
    "wait_async_remote_copy": "both",
    "wait_send_async_remote_copy": "send",
    "wait_recv_async_remote_copy": "recv",
}
_MAKE = "make_async_remote_copy"
_ID = "_helion_remote_copy_descriptor_id"


def copies_find(infos):
    """Return the nodes that make descriptors, by their id, in the order of their channels."""
    graphs = [infos[graph_id].graph for graph_id in sorted(infos)]
    made = [node for graph in graphs for node in graph.nodes if target_name(node) == _MAKE]
    return {node.meta[_ID]: node for node in made}


def operands_passed(graph_id, graphs):
    """Yield the nodes of graphs around `graph_id` that copies in it, or in those it calls, need."""
    for node in graphs.infos[graph_id].graph.nodes:
        if target_name(node) in LIFECYCLE:
            make = graphs.copies[node.args[0]]
            operands = [x for x in make.all_input_nodes if target_name(x) != "_host_tensor"]
            yield from (x for x in operands if x.graph is not node.graph)
        for called, _call in calls_of(node, graphs):
            inner = operands_passed(called, graphs)
            yield from (x for x in inner if x.graph is not node.graph)


class RemoteWriter(GraphWriter):
    """A graph's copies between devices, waits and barriers."""

    def descriptor_convert(self, node, ends):
        """Emit a start, or a wait for some ends, of a descriptor."""
        make = self.set.copies[node.args[0]]
        source, source_index, device, tensor, index = make.args
        channel = list(self.set.copies).index(node.args[0])
        if not self.is_host(tensor):
            self.refuse("a remote copy goes to a tensor of the host: pass one as an argument")
        host, entries, meta = self.part(tensor, index)
        if ends:
            args = [host, entries, channel] + [ends] * (ends != "both")
            self.emit(node, "tile.remote_wait", args, name="wait")
            return
        args = [host, entries, self.source(source, source_index, meta), self.value(device), channel]
        self.emit(node, "tile.remote_copy", args, name="copy")

    def source(self, tensor, index, wanted):
        """Return what is copied: a part of a host tensor, or a tile in the shape where it goes."""
        if self.is_host(tensor):
            host, entries, meta = self.part(tensor, index)
            if meta["shape"] != wanted["shape"]:
                shapes = f"{meta['shape']} to {wanted['shape']}"
                self.refuse(f"a remote copy of a part of {shapes}: give both ends one shape")
            return self.emit(self.node, "tile.part", [host, entries], meta=meta, name="part")
        if index:
            self.refuse("a remote copy of a part of a tile: copy all of it")
        value = self.value(tensor)
        if list(self.shape_of(value)) == wanted["shape"]:
            return value
        return self.view(value, wanted["shape"], "sent")

    def is_host(self, tensor):
        """Return whether a node calls a tensor of the host."""
        return isinstance(tensor, torch.fx.Node) and target_name(tensor) == "_host_tensor"

    def part(self, tensor, index):
        """Return a host tensor, the index list of a part of it, and the part's meta."""
        if tensor not in self.host_names:
            self.convert_host_tensor(tensor)
        host = self.value(tensor)
        meta = self.by_name[host["ref"]]["meta"]
        rest = [slice(None)] * (len(meta["shape"]) - len(index))
        entries = [self.value(entry) for entry in (*index, *rest)]
        pairs = zip(entries, meta["shape"], strict=True)
        kept = [self.dim_kept(entry, size) for entry, size in pairs]
        return host, entries, meta | {"shape": [size for size in kept if size is not None]}

    def dim_kept(self, entry, size):
        """Return the size of a dim by its index entry: the tile's, all of it, or None of one."""
        if isinstance(entry, dict) and "slice" in entry:
            return size
        sym = entry.get("sym") if isinstance(entry, dict) else None
        if isinstance(entry, dict) and "ref" in entry:
            sym = self.by_name[entry["ref"]]["meta"].get("sym")
        return sym if sym in map(str, self.symbols.blocks) else None

    def convert_make_async_remote_copy(self, node):
        """A descriptor is nothing by itself."""

    def convert_start_async_remote_copy_descriptor(self, node):
        """The copy starts."""
        self.descriptor_convert(node, LIFECYCLE[target_name(node)])

    convert_wait_async_remote_copy = convert_start_async_remote_copy_descriptor
    convert_wait_send_async_remote_copy = convert_start_async_remote_copy_descriptor
    convert_wait_recv_async_remote_copy = convert_start_async_remote_copy_descriptor

    def convert_remote_barrier(self, node):
        """All devices of the mesh meet, whichever of them it names."""
        self.emit(node, "tile.remote_barrier", [], name="barrier")
