"""What reports say of a chip: the fields of its data that times hang on, fitted to measured times.

The rows are compiled again under chip data with other values, so whatever model estimates the time
is the one that is fitted. Fitted is the logarithm of each field to the logarithms of measured over
estimated, by least squares: near where it stands an estimate is a product of powers of the fields.
A field that these rows do not tell apart from others, or hang on too little, stays as it is.
"""

import dataclasses
import json
import math

import numpy as np

from ..binding import Graph
from ..chips import TOPOLOGIES
from ..command import table
from ..errors import UsageError
from ..module import Module
from .measure import digest

# In this order: what came before explains what it can. Each with its least and greatest value.
FIELDS = {
    "bf16_flops": (1.0, 1e18),
    "hbm_bytes_per_s": (1.0, 1e18),
    "clock_hz": (1.0, 1e12),
    "copy_cycles": (1, 1000000),
    "loop_step_cycles": (1, 1000000),
}
# A field is determined where estimates change so much by it and by no others: the root of the sum
# over the rows of the squares of the powers with which it enters them.
DETERMINED = 0.3
STEP = 0.01  # of a logarithm, for differences
ROUNDS, NEAR = 12, 1e-4
FARTHEST = math.log(2)  # that a field moves in one round


@dataclasses.dataclass
class Sample:
    """A row that was measured.

    Attributes:
      entry: the report's `Entry`.
      graph: its `binding.Graph`.
      source: the text of the kernel that was measured; None: it was not made yet.
      estimates: {values of the fields: seconds, None where the kernel would be another}.
    """

    entry: object
    graph: Graph
    source: str | None = None
    estimates: dict = dataclasses.field(default_factory=dict)

    @property
    def name(self):
        """The row and its configuration."""
        return f"{self.entry.row} {json.dumps(self.entry.config)}"

    def estimate(self, chip, values):
        """Seconds of the measured kernel on a chip with other values; None if it is another there.

        Args:
          chip: all of its data, a dict.
          values: {field: value} of FIELDS.
        """
        key = tuple(values.items())
        if key not in self.estimates:
            config = json.dumps(self.entry.config) if self.entry.config else None
            answer = self.graph.compile(config, json.dumps({**chip, **values}))
            same = answer["status"] == 0 and self._is(answer["source"])
            self.estimates[key] = json.loads(answer["plan"])["seconds"] if same else None
        return self.estimates[key]

    def _is(self, source):
        if source == self.source:
            return True
        same = digest(Module(source)) == self.entry.module
        self.source = source if same else self.source
        return same


@dataclasses.dataclass
class Fit:
    """What came out.

    Attributes:
      target: the chip.
      before, after: {field: value}.
      why: {field: why it was not fitted}.
      samples: the rows that were used.
      errors: [before, after] of each: measured over estimated.
      left_out: lines: what was not used, and why.
    """

    target: str
    before: dict
    after: dict
    why: dict
    samples: list
    errors: list
    left_out: list


def samples_of(reports, rows):
    """([Sample], lines of what is left out).

    Args:
      reports: `Report`s.
      rows: {key: `Row`}.
    """
    found, left_out = {}, []
    for entry in (entry for report in reports for entry in report.entries.values()):
        name = f"{entry.row} {json.dumps(entry.config)}"
        if entry.status != "ok":
            left_out.append(f"{name}: {entry.status}")
        elif not entry.stable:
            left_out.append(f"{name}: its median is not stable")
        elif entry.key not in rows:
            left_out.append(f"{name}: no such row here")
        else:
            sample = Sample(entry, Graph(json.dumps(rows[entry.key].document())))
            found.setdefault((entry.graph, entry.module, entry.median_s), sample)
    return list(found.values()), left_out


def target_of(reports):
    """The chip that all reports are of. Raises UsageError."""
    targets = sorted({report.machine.target for report in reports})
    if len(targets) > 1:
        raise UsageError(f"--calibrate: reports of several chips: {', '.join(targets)}")
    if targets[0] not in TOPOLOGIES:
        raise UsageError(
            f"--calibrate: the report is of chip data of its own, {targets[0]!r}:"
            f" only those of {', '.join(TOPOLOGIES)} can be fitted"
        )
    return targets[0]


def fit(chip, samples, left_out=()):
    """The `Fit` of samples. Raises UsageError if no row can be used.

    Args:
      chip: all data of the chip, a dict.
      samples, left_out: see `samples_of`.
    """
    before = {name: chip[name] for name in FIELDS}
    used = [sample for sample in samples if sample.estimate(chip, before) is not None]
    other = [sample.name for sample in samples if sample not in used]
    left_out = [*left_out, *(f"{name}: this pallasc makes another kernel of it" for name in other)]
    if not used:
        raise UsageError(f"no row to fit to: {left_out[0] if left_out else 'the report has none'}")
    measured = np.log([sample.entry.median_s for sample in used])
    model = Model(chip, used, before)
    chosen, why = determined(model.powers(before))
    after = _fitted(model, measured, before, chosen) if chosen else before
    errors = np.exp([measured - model.estimates(values) for values in (before, after)])
    return Fit(chip["name"], before, after, why, used, errors.T.tolist(), left_out)


def _fitted(model, measured, values, chosen):
    """The values of least squares: Gauss and Newton's steps, halved until they are better."""
    columns = [list(FIELDS).index(name) for name in chosen]
    rest = measured - model.estimates(values)
    for _ in range(ROUNDS):
        powers = model.powers(values)[:, columns]
        step = np.clip(np.linalg.lstsq(powers, rest, rcond=None)[0], -FARTHEST, FARTHEST)
        for part in (1, 1 / 2, 1 / 4, 1 / 8):
            moved = {
                name: _within(name, values[name] * math.exp(by * part))
                for name, by in zip(chosen, step, strict=True)
            }
            there = measured - model.estimates({**values, **moved})
            if there @ there < rest @ rest:
                break
        else:
            return values
        values, rest = {**values, **moved}, there
        if max(abs(step)) < NEAR:
            break
    return values


class Model:
    """Logarithms of the estimates of rows, and how they hang on the fields.

    Where chip data would have the compiler make another kernel, the estimate goes on from the last
    values that gave the one that was measured, by the powers found there.
    """

    def __init__(self, chip, samples, before):
        self.chip, self.samples = chip, samples
        self.last = [dict(before) for _ in samples]
        self.last_powers = [np.zeros(len(FIELDS)) for _ in samples]

    def estimates(self, values):
        """Of each row, under values of the fields."""
        return np.array([self._estimate(i, values) for i in range(len(self.samples))])

    def _estimate(self, index, values):
        sample, last = self.samples[index], self.last[index]
        seconds = sample.estimate(self.chip, values)
        if seconds is not None:
            return math.log(seconds)
        moved = [math.log(values[name] / last[name]) for name in FIELDS]
        return math.log(sample.estimate(self.chip, last)) + self.last_powers[index] @ moved

    def powers(self, values):
        """Rows by fields: the power of the field in the row's estimate, near these values."""
        for i, sample in enumerate(self.samples):
            here = sample.estimate(self.chip, values)
            if here is not None:
                self.last[i] = dict(values)
                found = [self._power(sample, values, here, name) for name in FIELDS]
                self.last_powers[i] = np.array(found)
        return np.array(self.last_powers)

    def _power(self, sample, values, here, name):
        for step in (STEP, -STEP):
            moved = _moved(name, values, step)
            there = sample.estimate(self.chip, {**values, name: moved})
            if there is not None and moved != values[name]:
                return math.log(there / here) / math.log(moved / values[name])
        return 0.0  # either way it is another kernel


def _moved(name, values, step):
    """A value of the field a step away, another one also of ints."""
    value = values[name] * math.exp(step)
    if name.endswith("_cycles"):
        value = values[name] + max(1, round(abs(value - values[name]))) * (1 if step > 0 else -1)
    return _within(name, value)


def _within(name, value):
    low, high = FIELDS[name]
    return min(max(_rounded(name, value), low), high)


def _rounded(name, value):
    """A value as it is written: an int of cycles, else five digits."""
    return round(value) if name.endswith("_cycles") else float(f"{value:.5g}")


def determined(powers):
    """([fields that the rows determine], {field: why it is none})."""
    chosen, why, basis = [], {}, np.zeros((len(powers), 0))
    for index, name in enumerate(FIELDS):
        column = powers[:, index]
        alone = column - basis @ (basis.T @ column)
        if np.linalg.norm(column) < DETERMINED:
            why[name] = "no row hangs on it enough"
        elif np.linalg.norm(alone) < DETERMINED:
            why[name] = f"these rows do not tell it from {' and '.join(chosen)}"
        elif chosen and len(chosen) + 1 >= len(powers):
            why[name] = "there are too few rows"
        else:
            chosen.append(name)
            basis = np.column_stack([basis, alone / np.linalg.norm(alone)])
    return chosen, why


# ---- what is said, and written -------------------------------------------------------------------


def target_text(found, name):
    """The target file, as text: the chip, and the fields that were fitted."""
    fitted = {field: value for field, value in found.after.items() if field not in found.why}
    return json.dumps({"base": found.target, "name": name, **fitted}, indent=1) + "\n"


def lines(found):
    """What is said of a fit."""
    rows = [("field", "before", "after", "")]
    for name in FIELDS:
        value = f"{found.before[name]:.5g}"
        fitted = "" if name in found.why else f"{found.after[name]:.5g}"
        rows.append((name, value, fitted or value, found.why.get(name, "fitted")))
    yield from table(rows)
    yield ""
    rows = [("measured / estimated", "before", "after")]
    for sample, (before, after) in zip(found.samples, found.errors, strict=True):
        rows.append((sample.name, f"{before:.3f}", f"{after:.3f}"))
    yield from table(rows)
    before, after = (spread([e[i] for e in found.errors]) for i in (0, 1))
    yield f"root mean square: estimates off by a factor of {before:.3f} before, {after:.3f} after"
    yield from (f"left out: {line}" for line in found.left_out)


def spread(ratios):
    """The factor by which ratios are off, as the root mean square of their logarithms says."""
    return math.exp(math.sqrt(sum(math.log(ratio) ** 2 for ratio in ratios) / len(ratios)))
