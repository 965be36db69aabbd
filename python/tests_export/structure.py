"""What any document of the graph format holds to, checked on exports."""

NODE_KEYS = ["name", "op", "target", "args", "kwargs", "meta", "loc"]
CALLS = {
    "tile.for_loop": (0,),
    "tile.while": (0, 1),
    "tile.if": (1, 2),
    "tile.associative_scan": (0,),
    "tile.reduce": (0,),
}
VALUELESS = ("tile.store", "tile.remote_copy", "tile.remote_wait", "tile.remote_barrier")


def document_check(document):
    """Assert that a document is well formed: names, references, metas, calls, tensors."""
    assert (document["format"], document["version"]) == ("fxtile", 1)
    assert document["name"].isidentifier()
    tensors_check(document)
    blocks = {block["symbol"] for block in document["block_sizes"]}
    assert [block["id"] for block in document["block_sizes"]] == list(range(len(blocks)))
    assert [graph["id"] for graph in document["graphs"]] == list(range(len(document["graphs"])))
    called = [call for graph in document["graphs"] for call in graph_calls(graph)]
    kinds = {graph["id"]: graph["kind"] for graph in document["graphs"]}
    assert sorted(called) == [graph for graph, kind in kinds.items() if kind != "root"]
    for graph in document["graphs"]:
        graph_check(graph, document)
    free = [b for b in document["block_sizes"] if "size" not in b and not b.get("reduction")]
    assert len(document["config"].get("block_sizes", free)) == len(free)


def tensors_check(document):
    """Assert that names are unique, and that what a view is of comes before it."""
    seen = []
    for tensor in document["tensors"]:
        assert tensor["name"] not in seen
        if tensor["role"] in ("view", "derived"):
            assert tensor["of"] in seen
        seen.append(tensor["name"])
    names = seen + [scalar["name"] for scalar in document.get("scalars", [])]
    assert len(names) == len(set(names))
    assert document["returns"]
    assert all(entry["tensor"] in seen for entry in document["returns"])


def graph_calls(graph):
    """Yield the ids of the graphs that a graph calls."""
    for node in graph["nodes"]:
        for place in CALLS.get(node.get("target"), ()):
            if node["args"][place] is not None:
                yield node["args"][place]


def graph_check(graph, document):
    """Assert that a graph's nodes are in order, complete and used."""
    seen, placeholders = set(), []
    for node in graph["nodes"]:
        assert list(node) == [key for key in NODE_KEYS if key in node]
        assert node["name"] not in seen
        for ref in refs_of([node.get("args"), node.get("kwargs")]):
            assert ref in seen, (node["name"], ref)
        seen.add(node["name"])
        if node.get("op") == "placeholder":
            placeholders.append(node)
        if node.get("op") != "output":
            assert ("meta" in node) == (node.get("target") not in VALUELESS), node
        if node.get("target") == "tile.host_tensor":
            tensor = next(t for t in document["tensors"] if t["name"] == node["args"][0])
            assert node["meta"] == {"dtype": tensor["dtype"], "shape": tensor["shape"]}
        if "loc" in node:
            assert set(node["loc"]) == {"file", "line", "code"} and "/" not in node["loc"]["file"]
        elif "target" in node:
            raise AssertionError(f"{node['name']} has no loc")
    output = graph["nodes"][-1]
    assert output["op"] == "output" and len(output["args"]) == 1
    for argument, result in graph.get("carried", []):
        assert placeholders[argument]["meta"] == meta_of(graph, output["args"][0][result])


def meta_of(graph, reference):
    """Return the meta of the node that a reference names."""
    return next(n["meta"] for n in graph["nodes"] if n["name"] == reference["ref"])


def refs_of(value):
    """Yield every node name that a JSON value refers to."""
    if isinstance(value, dict):
        if "ref" in value:
            yield value["ref"]
        for entry in value.values():
            yield from refs_of(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from refs_of(entry)
