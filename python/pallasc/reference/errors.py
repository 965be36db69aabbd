"""The one exception that the reference interpreter raises for a bad document or input."""


class GraphError(ValueError):
    """A document, configuration or input that the reference cannot execute.

    Attributes:
      message: what is wrong, without the place.
      graph: id of the graph, or None outside graphs.
      node: name of the node, or None.
      target: the node's target, or None.

    """

    def __init__(self, message, graph=None, node=None, target=None):
        self.message, self.graph, self.node, self.target = message, graph, node, target
        place = []
        if graph is not None:
            place.append(f"graph {graph}")
        if node is not None:
            place.append(f"node {node!r}")
        if target is not None:
            place.append(f"({target})")
        super().__init__(f"{' '.join(place)}: {message}" if place else message)
