"""Of all kernels whose bytes are stored, no more are predicted too low than were; of those that the
model was not fitted to, libtpu takes all that are accepted."""

import collections
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import vmem_accuracy
import vmem_stored

LOW = {"v4": 14, "v5e": 9, "v5p": 8, "v6e": 7, "v7x": 12}


def test_low():
    """By chip; `make bench-vmem PART=stored` shows which they are."""
    found = vmem_stored.predictions(json.loads(vmem_stored.PAIRS.read_text()))
    low = {name: item.chip for name, item in found.items() if item.low}
    assert collections.Counter(low.values()) <= collections.Counter(LOW), low


def test_what_is_accepted_is_taken():
    """Of docs/vmem_accuracy.md; what has become another kernel is nobody's verdict."""
    known = [triple for triple in vmem_accuracy.held() if triple.kind]
    accepted = [triple for triple in known if triple.accepted]
    assert len(accepted) > 290
    assert [triple.name for triple in accepted if not triple.ok] == []
