"""Helion's remote copies and barriers: what each becomes, and what is refused."""

import helion
import helion.language as hl
import pytest
import torch
from pallasc.export import ExportError, from_helion, main

ROWS = torch.empty(8, 128)
TABLE = torch.empty(1, 4, dtype=torch.int32)
MESH = {"ring": 4}


def nodes(document, target):
    """The nodes of a target, in all graphs."""
    return [n for g in document["graphs"] for n in g["nodes"] if n.get("target") == target]


@helion.kernel(static_shapes=True)
def late_start(x: torch.Tensor, peers: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A copy that is made in a loop, started in a branch there and waited for in another."""
    there = torch.empty([4, 8, 128], dtype=x.dtype, device=x.device)
    kept = torch.empty_like(x)
    for _ in hl.grid(1):
        for step in hl.tile(4, block_size=1):
            half = x[:, :] * 0.5
            copy = hl.make_async_remote_copy(half, [], peers[0, step.begin], there, [step.begin])
            if step.begin < 3:
                kept[:, :] = half
                if step.begin >= 0:
                    copy.start()
            if step.begin < 3:
                copy.wait_send()
                copy.wait_recv()
    return there, kept


@helion.kernel(static_shapes=True)
def other_shape(x: torch.Tensor, peers: torch.Tensor) -> torch.Tensor:
    there = torch.empty([8, 1, 128], dtype=x.dtype, device=x.device)
    for _ in hl.grid(1):
        copy = hl.make_async_remote_copy(x, [0], peers[0, 0], there, [0])
        copy.start()
        copy.wait()
    return there


@helion.kernel(static_shapes=True)
def part_of_a_tile(x: torch.Tensor, peers: torch.Tensor) -> torch.Tensor:
    there = torch.empty_like(x)
    for _ in hl.grid(1):
        twice = x[:, :] * 2
        copy = hl.make_async_remote_copy(twice, [0], peers[0, 0], there, [0])
        copy.start()
        copy.wait()
    return there


@helion.kernel(static_shapes=True)
def only_meets(x: torch.Tensor, peers: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(1, block_size=1):
        hl.remote_barrier(peers[0, :])
        out[:, :] = x[:, :] + tile.begin
    return out


def test_what_a_branch_needs_is_passed_to_it():
    """The tile, the device and the position of a copy that is made outside of it."""
    document = from_helion(late_start, (ROWS, TABLE), mesh=MESH)
    (start,) = nodes(document, "tile.remote_copy")
    send, recv = nodes(document, "tile.remote_wait")
    assert document["mesh"] == MESH
    assert [node["args"][2:] for node in (send, recv)] == [[0, "send"], [0, "recv"]]
    holder = next(g for g in document["graphs"] if start in g["nodes"])
    passed = [n["name"] for n in holder["nodes"] if n.get("op") == "placeholder"]
    assert holder["kind"] == "if"
    assert start["args"][2]["ref"] in passed and start["args"][3]["ref"] in passed


def test_a_barrier_names_nobody():
    document = from_helion(only_meets, (ROWS, TABLE), mesh=MESH)
    (barrier,) = nodes(document, "tile.remote_barrier")
    assert barrier["args"] == [] and "meta" not in barrier
    assert len(nodes(document, "tile.load")) == 1  # of x: nobody reads the peers


@pytest.mark.parametrize(
    ("kernel", "mesh", "message"),
    [
        (late_start, None, "its devices meet: say how many run it (--mesh ring=4, mesh="),
        (
            other_shape,
            MESH,
            "a remote copy of a part of [128] to [1, 128]: give both ends one shape",
        ),
        (part_of_a_tile, MESH, "a remote copy of a part of a tile: copy all of it"),
    ],
)
def test_refused(kernel, mesh, message):
    with pytest.raises(ExportError) as refused:
        from_helion(kernel, (ROWS, TABLE), mesh=mesh)
    assert message in str(refused.value)
    assert "test_devices.py:" in str(refused.value)


def test_mesh_on_the_command_line(capsys):
    given = [f"{__file__}:only_meets", "--args", "f32[8,128]", "i32[1,4]"]
    assert main([*given, "--mesh", "ring=4"]) == 0
    assert '"mesh": {"ring": 4}' in capsys.readouterr().out
    assert main([*given, "--mesh", "ring"]) == 2
    assert "--mesh 'ring' is not like ring=4" in capsys.readouterr().err
