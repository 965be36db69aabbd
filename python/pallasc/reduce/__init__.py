"""Makes a document that shows a failure small: `pallasc reduce`, and the random documents' own.

Delta debugging over what a document has (edits.py): half of the edits of a kind at once, then a
quarter, down to single ones, until none is left that keeps the failure.
"""

import copy
import json
import time

from .edits import all_edits, numbers
from .tidy import refs, tidy

__all__ = ["main", "reduce", "refs", "size"]


def main(argv):
    """The command `reduce`."""
    from .command import main

    return main(argv)


def reduce(case, fails, seconds=120, tell=lambda case: None):
    """The smallest case found for which `fails(case)` still holds, within so many seconds.

    Args:
      case: {"document", ...}, which fails; with "values", kinds of inputs by name, these are made
        plain too.
      fails: a function of a case; true where it fails in the same way.
      seconds: no candidate is begun after so many.
      tell: called with each smaller case.
    """
    return _Reduction(case, fails, time.monotonic() + seconds, tell).run()


def size(case):
    """What is made less: nodes first, then the rest of the text, then how far arrays extend."""
    document = case["document"]
    config, blocks = document.get("config") or {}, document.get("block_sizes") or ()
    nodes = sum(len(g["nodes"]) for g in document["graphs"])
    ints = [s for t in document["tensors"] for s in t["shape"]]
    ints += [b.get("extent") for b in blocks] + list(config.get("block_sizes") or ())
    plain = sum(kind != "normal" for kind in case.get("values", {}).values())
    shapes = sum(len(t["shape"]) for t in document["tensors"])
    extents = sum(x for x in ints if type(x) is int)
    return nodes, len(document["tensors"]), len(config), plain, shapes, extents, len(_key(case))


def _key(case):
    return json.dumps(case)


class _Reduction:
    def __init__(self, case, fails, deadline, tell):
        self.best, self.fails, self.deadline, self.tell = case, fails, deadline, tell
        self.tried, self.clean = set(), tidy

    def run(self):
        tidied = copy.deepcopy(self.best)
        tidy(tidied)
        if self.best != tidied and not self._take(tidied):  # it needs what nothing uses
            self.clean = lambda case: None
        before = None
        while before != (before := size(self.best)) and not self._late():
            for edits in all_edits(self.best):
                self._halve(edits)
            for edit in list(numbers(self.best)):
                self._attempt([edit])
        return self.best

    def _late(self):
        return time.monotonic() > self.deadline

    def _halve(self, edits):
        """All edits at once, then each half, and so on."""
        count = len(edits)
        while count and not self._late():
            for at in range(0, len(edits), count):
                self._attempt(edits[at : at + count])
            count //= 2

    def _attempt(self, edits):
        if self._late():
            return
        candidate = copy.deepcopy(self.best)
        try:
            for edit in edits:
                edit(candidate)
            self.clean(candidate)
        except (LookupError, TypeError, ValueError, AttributeError):  # a document with a mistake
            return
        if size(candidate) < size(self.best):
            self._take(candidate)

    def _take(self, candidate):
        """Whether the candidate fails too; then it is the best."""
        key = hash(_key(candidate))
        if key in self.tried:
            return False
        self.tried.add(key)
        if not self.fails(candidate):
            return False
        self.best = candidate
        self.tell(candidate)
        return True
