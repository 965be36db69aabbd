"""bench/race.jsonl: what was measured of the race's runs, and what its rows need, a line each.

The page is written of these lines, so that it needs no cache. A run's line says by which key its
answer is kept (`measure.answer_key`): under another one it is measured again where it is asked for.
"""

import dataclasses
import fcntl
import functools
import json
from pathlib import Path

from measure import Job, Outcome

PATH = Path(__file__).with_name("race.jsonl")
_JOB = [field.name for field in dataclasses.fields(Job)]
_KEPT = ("ok", "kind", "message", "vmem_bytes", "temp_bytes", "blocks", "static", "compile_s")


@dataclasses.dataclass
class Kept:
    """A run's outcome, and the key of its answer; "" of one that was taken from elsewhere."""

    outcome: Outcome
    key: str


@functools.cache
def _lines():
    """{JSON of who it is: the line's object}."""
    text = PATH.read_text() if PATH.exists() else ""
    return {_name(entry): entry for entry in map(json.loads, text.splitlines())}


def _name(entry):
    """Who a line is of."""
    return json.dumps(entry.get("row") or [entry[name] for name in _JOB])


def outcomes():
    """{job: Kept} of all runs that there are."""
    return {
        Job(**{name: _tuple(entry[name]) for name in _JOB}): Kept(
            Outcome(**entry["outcome"]), entry["key"]
        )
        for entry in _lines().values()
        if "row" not in entry
    }


def _tuple(value):
    return tuple(value) if isinstance(value, list) else value


def needs():
    """{row: what it needs, of `race_floor.needs_of`}."""
    return {entry["row"]: entry["needs"] for entry in _lines().values() if "row" in entry}


def store(job, outcome, key):
    """Puts a run's outcome into the file."""
    found = {name: getattr(outcome, name) for name in _KEPT}
    found["message"] = found["message"][:300]
    if found["static"]:
        found["static"] = {name: _short(value) for name, value in found["static"].items()}
    found = {name: value for name, value in found.items() if value}
    _put({**dataclasses.asdict(job), "key": key, "outcome": found})


def _short(value):
    """A number with what counts of it."""
    if isinstance(value, dict):
        return {name: _short(part) for name, part in value.items() if part}
    return float(f"{value:.6g}") if isinstance(value, float) else value


def store_needs(row, needs):
    """Puts what a row needs into the file."""
    _put({"row": row, "needs": needs})


def _put(entry):
    """Replaces a line, or adds it: several processes may write the file."""
    with open(PATH, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        _lines.cache_clear()
        found = _lines() | {_name(entry): entry}
        part = PATH.with_suffix(".part")
        part.write_text("".join(json.dumps(found[name]) + "\n" for name in sorted(found)))
        PATH.write_text(part.read_text())
        part.unlink()
    _lines.cache_clear()
