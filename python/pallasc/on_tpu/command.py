"""The command `on-tpu`: lists, measures, calibrates."""

import json
import subprocess
import sys

from .. import chips, timing
from ..binding import target_text
from ..command import Parser, find_command, seconds_text, table
from ..errors import FileError, UsageError
from ..files import write_file
from . import calibrate, measure, report, rows


def main(argv, device=None):
    """Exit status 1 if a row is wrong or fails, 2 without a TPU.

    Args:
      device: see `timing`; None: this machine's TPU.
    """
    options = _parser().parse_args(argv)
    if options.calibrate:
        return _calibrate(options)
    if options.list:
        print(_list(options))
        return 0
    return _run(options, device or _this_machine())


def _parser():
    parser = Parser(
        prog="pallasc on-tpu",
        description="Run the kernels of docs/results.md on the TPU of this machine: their numbers"
        " are checked, and their times stand beside the estimates in a report. Run again it goes"
        " on where it was.",
    )
    parser.add_argument("--list", action="store_true", help="the rows; needs no TPU")
    parser.add_argument(
        "--row", action="append", default=[], metavar="TEXT", help="rows so named; repeatable"
    )
    parser.add_argument(
        "--coverage", action="store_true", help="also those of docs/coverage.md: in a checkout"
    )
    parser.add_argument("-o", "--output", metavar="F", help="report, or with --calibrate the chip")
    parser.add_argument("--again", action="store_true", help="rows too that the report has")
    parser.add_argument("--target", metavar="T", help="chip, or .json file (default: by the TPU)")
    parser.add_argument(
        "--calibrate",
        nargs="+",
        metavar="REPORT",
        help="fit the chip's data to reports, as a file that --target takes; needs no TPU",
    )
    return parser


def _chosen(options):
    found = rows.chosen(options.row, options.coverage)
    if not found:
        more = "" if options.coverage else ", or with --coverage more"
        raise UsageError(f"no row with {' or '.join(options.row)!r} (--list shows them{more})")
    return found


def _list(options):
    lines = [("set", "row", "configuration")]
    lines += [(row.kind, row.name, json.dumps(row.config)) for row in _chosen(options)]
    return "\n".join(table(lines))


# ---- measuring -----------------------------------------------------------------------------------


def _this_machine():
    """Its TPU. Raises UsageError if it has none, without loading libtpu."""
    if not chips.tpu_attached():
        raise UsageError("on-tpu: this machine has no TPU (--list and --calibrate need none)")
    return timing.Tpu()


def _run(options, device):
    kinds = device.devices()
    chip = chips.chip_of(kinds[0])
    if not chip and not options.target:
        raise UsageError(f"on-tpu: {kinds[0]!r} is no chip that pallasc knows: name one, --target")
    found = _chosen(options)
    target = target_text(options.target or chip)
    name = _chip_data(options.target or chip)["name"]
    path = options.output or f"on_tpu-{name}.json"
    made = report.begin(path, report.machine_of(kinds, name))
    status = {"ok": 0, "wrong": 0, "failed": 0, "refused": 0}

    def say(row, entry, was_known):
        status[entry.status] += 1
        print(_line(row, entry, was_known), flush=True)

    try:
        measure.run(found, device, target, made, options.again, say)
    except KeyboardInterrupt:
        print(
            f"interrupted: what was measured is in {path}; the same command goes on",
            file=sys.stderr,
        )
        raise
    counts = ", ".join(f"{count} {word}" for word, count in status.items() if count)
    print(f"{len(found)} rows: {counts}; the report is {path}")
    return 1 if status["wrong"] or status["failed"] else 0


def _line(row, entry, was_known):
    """An entry for people."""
    known = ", known before" if was_known else ""
    if entry.status != "ok":
        return f"{row}: {entry.status}: {entry.message}{known}"
    low, high = entry.quartiles_s
    share = 100 * (high - low) / entry.median_s
    parts = [f"{seconds_text(entry.median_s)} (quartiles {share:.1f}% apart)"]
    parts += [] if entry.stable else ["not stable"]
    ratio = entry.median_s / entry.estimate_s
    parts.append(f"estimated {seconds_text(entry.estimate_s)} ({ratio:.2f} times that)")
    if entry.profiler_s:
        parts.append(f"by the profiler {seconds_text(entry.profiler_s)}")
    parts.append(f"error {entry.error_ratio:.2g} of what is allowed")
    return f"{row}: {', '.join(parts)}{known}"


def _chip_data(target):
    """All data of a chip or target file. Raises UsageError, FileError."""
    words = [find_command(), f"--target={target}", "--print-target"]
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no target"])[0]
        kind = FileError if done.returncode == FileError.exit_status else UsageError
        raise kind(said.removeprefix("pallasc: error: "))
    return json.loads(done.stdout)


# ---- chip data from reports ----------------------------------------------------------------------


def _calibrate(options):
    reports = [report.read(path) for path in options.calibrate]
    target = calibrate.target_of(reports)
    kinds = {entry.kind for found in reports for entry in found.entries.values()}
    known = {row.key: row for row in rows.chosen((), "coverage" in kinds)}
    samples, left_out = calibrate.samples_of(reports, known)
    found = calibrate.fit(_chip_data(target), samples, left_out)
    text = calibrate.target_text(found, f"{target}_measured")
    said = "\n".join(calibrate.lines(found))
    if not options.output:
        print(said, file=sys.stderr)
        print(text, end="")
        return 0
    write_file(options.output, text)
    print(said)
    print(f"the chip is in {options.output}: pallasc --target={options.output}")
    return 0
