"""docs/fxtile.schema.json takes every graph of testdata and refuses typical errors."""

import copy
import json
import re

import jsonschema
import pytest
from kit import ROOT

SCHEMA = json.loads((ROOT / "docs" / "fxtile.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
GRAPHS = sorted(
    [
        *(ROOT / "testdata" / "graphs").glob("*.json"),
        *(ROOT / "testdata" / "configs").glob("*.json"),
        *(ROOT / "testdata" / "devices" / "graphs").glob("*.json"),
    ]
)
BASE = json.loads((ROOT / "testdata" / "graphs" / "attention.json").read_text())


def first_error(doc):
    return next(VALIDATOR.iter_errors(doc), None)


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", GRAPHS, ids=lambda path: path.stem)
def test_graphs_are_valid(path):
    error = first_error(json.loads(path.read_text()))
    assert error is None, error.message


def test_sizes_are_valid():
    sizes = {"S": 512, "D": {"fixed": 64}}
    assert first_error({**BASE, "sizes": sizes}) is None


@pytest.mark.parametrize("page", ["graph-format.md"])
def test_the_example_of_the_page_is_valid(page):
    text = (ROOT / "docs" / page).read_text()
    examples = re.findall(r"```json\n(.*?)```", text, re.S)
    assert examples
    for example in examples:
        error = first_error(json.loads(example))
        assert error is None, error.message


def test_keys_that_start_with_x_are_taken_everywhere():
    doc = copy.deepcopy(BASE)
    places = [doc, doc["tensors"][0], doc["scalars"][0], doc["returns"][0], doc["block_sizes"][0]]
    places += [doc["graphs"][0], doc["graphs"][0]["nodes"][4], doc["graphs"][0]["nodes"][4]["loc"]]
    for place in places:
        place["x_mine"] = [1, {"any": "thing"}]
    assert first_error(doc) is None


# The path to a member, and what is put there; DELETE removes it.
DELETE = object()
ERRORS = {
    "format": (["format"], "fx"),
    "version": (["version"], 2),
    "version_text": (["version"], "1"),
    "name_missing": (["name"], DELETE),
    "name_not_identifier": (["name"], "a b"),
    "name_keyword": (["name"], "lambda"),
    "name_newline": (["name"], "a\nb"),
    "tensors_missing": (["tensors"], DELETE),
    "field_unknown": (["tensor"], []),
    "role": (["tensors", 0, "role"], "in"),
    "dtype": (["tensors", 0, "dtype"], "f32"),
    "dtype_64_bit": (["tensors", 0, "dtype"], "float64"),
    "sizes_list": (["sizes"], ["S"]),
    "sizes_zero": (["sizes"], {"S": 0}),
    "sizes_name": (["sizes"], {"min": 1}),
    "sizes_fixed": (["sizes"], {"S": {"fixed": 1, "value": 1}}),
    "shape_text": (["tensors", 0, "shape"], "4, 4"),
    "shape_real": (["tensors", 0, "shape", 0], 4.5),
    "shape_negative": (["tensors", 0, "shape", 0], -4),
    "shape_null": (["tensors", 0, "shape", 0], None),
    "shape_rank": (["tensors", 0, "shape"], [1] * 9),
    "shape_injection": (["tensors", 0, "shape", 0], "u0; import os"),
    "view_without_base": (["tensors", 3, "of"], DELETE),
    "input_with_base": (["tensors", 0, "of"], "k_in"),
    "input_with_init": (["tensors", 0, "init"], 0),
    "permute_twice": (["tensors", 5, "permute"], [0, 1, 1]),
    "two_views_in_one": (["tensors", 5, "slice"], [[0, 1, 1]] * 3),
    "scalar_value": (["scalars", 0, "value"], "1"),
    "return_without_tensor": (["returns", 0, "tensor"], DELETE),
    "returns_empty": (["returns"], []),
    "block_symbol": (["block_sizes", 0, "symbol"], "u-0"),
    "block_symbol_function": (["block_sizes", 0, "symbol"], "cdiv"),
    "block_size_zero": (["block_sizes", 0, "size"], 0),
    "kind": (["graphs", 0, "kind"], "loop"),
    "root_missing": (["graphs", 1, "kind"], "if"),
    "grid_missing": (["graphs", 1, "grid"], DELETE),
    "loop_without_blocks": (["graphs", 0, "block_ids"], DELETE),
    "block_ids_on_root": (["graphs", 1, "block_ids"], [0]),
    "block_twice": (["graphs", 1, "grid"], [0, 0]),
    "carried": (["graphs", 0, "carried", 0], [1]),
    "nodes_empty": (["graphs", 0, "nodes"], []),
    "op": (["graphs", 0, "nodes", 0, "op"], "call_module"),
    "target_missing": (["graphs", 0, "nodes", 4, "target"], DELETE),
    "placeholder_target": (["graphs", 0, "nodes", 0, "target"], "tile.load"),
    "meta_shape_missing": (["graphs", 0, "nodes", 4, "meta", "shape"], DELETE),
    "meta_dtype": (["graphs", 0, "nodes", 4, "meta", "dtype"], "complex64"),
    "argument_two_keys": (["graphs", 0, "nodes", 4, "args", 0], {"ref": "a", "sym": "b"}),
    "argument_key": (["graphs", 0, "nodes", 4, "args", 0], {"node": "a"}),
    "argument_slice": (["graphs", 0, "nodes", 4, "args", 0], {"slice": [0, 1]}),
    "argument_float": (["graphs", 0, "nodes", 4, "args", 0], {"float": "1.0"}),
    "output_args": (["graphs", 0, "nodes", -1, "args"], []),
    "loc_line": (["graphs", 0, "nodes", 4, "loc", "line"], "36"),
    "loc_unknown": (["graphs", 0, "nodes", 4, "loc", "column"], 1),
    "config_loop_type": (["config", "pallas_loop_type"], "fori"),
    "config_block_size": (["config", "block_sizes"], [0, 1, 1]),
    "config_boundary_views": (["config", "pallas_boundary_views"], "on"),
    "config_group": (["config", "pallas_worklist_grouping"], 3),
}


@pytest.mark.parametrize("name", ERRORS)
def test_typical_errors_are_refused(name):
    path, value = ERRORS[name]
    doc = copy.deepcopy(BASE)
    inner = doc
    for step in path[:-1]:
        inner = inner[step]
    if value is DELETE:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    assert first_error(doc) is not None


# What only the compiler can see is valid to the schema; the rest of testdata/bad it refuses too.
def test_a_part_of_the_bad_documents_is_refused():
    refused = 0
    for path in sorted((ROOT / "testdata" / "bad").glob("*.json")):
        try:
            doc = json.loads(path.read_bytes())
        except (ValueError, RecursionError):
            refused += 1
            continue
        refused += first_error(doc) is not None
    assert refused >= 60
