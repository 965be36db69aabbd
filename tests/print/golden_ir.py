"""What each pass does to a graph, as small diffs of the IR: testdata/golden_ir.

One line per node, so that a review sees what moved. `make golden` writes them again.
"""

import difflib
import json

import kit

DIRECTORY = kit.ROOT / "testdata" / "golden_ir"

# Scores as they stand: transposed, they leave no column to widen.
WIDENED = ("pallas_pre_broadcast=true", "pallas_transposed_scores=off")

# pass: {golden: (graph, what --set takes)}; a graph each that shows the pass at work
CASES = {
    "block_constraints": {"attention": ("attention", ())},
    "loop_types": {"causal_attention": ("causal_attention", ())},
    "roll": {
        "softmax": ("softmax_odd", ("reduction_loops=[256]",)),
        "layer_norm": ("layer_norm", ("reduction_loops=[256]",)),
    },
    "branches": {
        "flagged_rows": ("flagged_rows", ()),
        "flagged_sums": ("flagged_sums", ()),
        "lower_matmul": ("lower_matmul", ()),
    },
    "trim": {"lower_matmul": ("lower_matmul", ())},
    "summed_parts": {"rms_norm_bwd": ("rms_norm_bwd", ())},
    "decompose": {
        "logsumexp": ("logsumexp_rows_odd", ()),
        "var_mean": ("var_mean_rows_odd", ()),
    },
    "id_masks": {"segment_attention": ("segment_attention", ("pallas_id_masks=on",))},
    "scale_in_q": {"attention": ("attention", ("pallas_scale_in_q=on",))},
    "scale_after_max": {"attention": ("attention", ("pallas_loop_type=unroll",))},
    "row_split": {"layer_norm_bwd": ("layer_norm_bwd_4096_10240", ("pallas_row_split=on",))},
    "inloop_loads": {
        "attention": ("attention", ()),
        "nested_sums": ("nested_sums", ()),
        "attention_scaled_q": ("attention_scaled_q", ("pallas_inloop_loads=on",)),
    },
    "orient": {
        "attention": ("attention", ()),
        "causal_attention": ("causal_attention", ()),
    },
    "pre_broadcast": {
        "attention_d128": ("attention", WIDENED),
        "attention_d256": ("attention_b1_h2_s384_d256", WIDENED),
        "chain": ("outer_chain_scale", WIDENED),
        "columns": ("attention_columns", WIDENED),
        "loops_in_sequence": ("softmax_of_two", WIDENED),
        "nested_loops": ("nested_scale", WIDENED),
    },
}


def names():
    """(golden's file name, pass, graph, settings) of every case."""
    for pass_name, goldens in CASES.items():
        for name, (graph, settings) in goldens.items():
            yield f"{pass_name}.{name}.diff", pass_name, graph, settings


# ---- the IR as lines ------------------------------------------------------------------------


def argument(value):
    """An argument as a person writes it: `x`, `[u0, :]`, `1.0`, `float32`."""
    if isinstance(value, list):
        return f"[{', '.join(map(argument, value))}]"
    if not isinstance(value, dict):
        return "null" if value is None else json.dumps(value)
    ((kind, inner),) = value.items()
    if kind != "slice":
        return str(inner)
    bounds = ["" if bound is None else argument(bound) for bound in inner]
    return ":".join(bounds if bounds[2] else bounds[:2])


def meta(value):
    """A meta as `float32[u0, 128]`, `sym u0`, a tuple of them, or nothing."""
    if value is None:
        return "nothing"
    if "tuple" in value:
        return f"({', '.join(map(meta, value['tuple']))})"
    if "sym" in value:
        return f"sym {value['sym']}"
    return f"{value['dtype']}{argument([{'sym': size} for size in value['shape']])}"


def node_line(node):
    """A node as `name = target(args) : meta`."""
    if node.get("op") == "placeholder":
        return f"  {node['name']} : {meta(node.get('meta'))}"
    if node.get("op") == "output":
        return f"  return {argument(node['args'][0])}"
    arguments = [argument(value) for value in node.get("args", [])]
    arguments += [f"{key}={argument(value)}" for key, value in node.get("kwargs", {}).items()]
    call = f"{node['target']}({', '.join(arguments)})"
    return f"  {node['name']} = {call} : {meta(node.get('meta'))}"


def lines(document):
    """A document's graphs and annotations, one line per node and per fact."""
    out = []
    for graph in document["graphs"]:
        over = graph.get("grid", graph.get("block_ids"))
        carried = f", carried {graph['carried']}" if graph.get("carried") else ""
        out.append(f"graph {graph['id']} {graph['kind']} over blocks {over}{carried}")
        out += map(node_line, graph["nodes"])
    for fact, values in document.get("annotations", {}).items():
        out.append(f"annotation {fact}")
        items = values.items() if isinstance(values, dict) else enumerate(values)
        out += [f"  {key}: {json.dumps(value)}" for key, value in items]
    return out


# ---- before and after ------------------------------------------------------------------------


def printed(pass_name, graph, settings):
    """The documents just before and just after a pass of the whole pipeline."""
    command = [kit.path(graph), "--emit=none", *(f"--set={text}" for text in settings)]
    command += [f"--print-before={pass_name}", f"--print-after={pass_name}"]
    _, before, after = kit.accepted(*command).err.split("// the graph ")
    return [json.loads(text.split("\n", 1)[1]) for text in (before, after)]


def text(pass_name, graph, settings):
    """The golden: a unified diff of the lines before and after, with three lines around."""
    before, after = map(lines, printed(pass_name, graph, settings))
    switches = "".join(f" --set {setting}" for setting in settings)
    head = f"{graph}.json{switches}: {pass_name}"
    diff = difflib.unified_diff(before, after, f"before {head}", f"after {head}", "", "", 3, "")
    return "\n".join(diff) + "\n"


def texts():
    """{file name: the diff} of every golden, as the passes work now."""
    return {name: text(*case) for name, *case in names()}
