"""`make planted COUNT=200 SEED=0`: are the tests able to see a small fault in the compiler?

Plants one fault after the other in a copy of the sources (tree.py), in the rooms that decide what a
kernel computes, and runs tests until one fails: unit tests, kernels executed in NumPy beside the
reference, then tests of Python. Only tests that enter the fault's function are run, the quick ones
first, and none that compares with kept text: goldens and hashes see everything. What no test sees
is a survivor. Each fault is a line of results.jsonl; docs/planted.md has the counts.
"""

import argparse
import collections
import hashlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = map(str, (HERE, ROOT / "tests", ROOT / "tests" / "whole", ROOT / "python"))

import faults  # noqa: E402
import tree  # noqa: E402

RESULTS = HERE / "results.jsonl"
BASELINE = tree.TREE.parent / "baseline.json"
ROOMS = (
    *("passes/*", "codegen/plan", "codegen/place", "codegen/loops", "codegen/rewrite"),
    *("codegen/print", "src/verify"),
)
# Tests of Python that assert values, plans or diagnostics.
PYTHON_TESTS = (
    *("load/test_bad.py", "load/test_symbols.py", "load/test_sizes.py", "load/test_limits.py"),
    *(
        "plan/test_loop_orders.py",
        "kernel/test_rewrite_*",
        "plan/test_derived.py",
        "plan/test_stored_slices.py",
    ),
    *("passes/test_jagged.py", "passes/test_int64.py", "plan/test_positions.py", "config/*"),
    *("passes/*", "plan/*", "kernel/*", "core/*", "shard/test_shard.py"),
    *("shard/test_split_positions.py", "shard/test_merged.py", "vmem/*", "derived/*"),
    *("print/test_function.py", "print/test_returns_ops.py", "print/test_hostile_text.py"),
)
# The folder of tests that asserts what a room decides.
STAGES = (
    *(("src/verify", "load"), ("passes", "passes"), ("codegen/rewrite", "kernel")),
    *(("codegen/print", "print"), ("codegen", "plan")),
)
QUICK = 1.5  # seconds of a unit test that is run before any kernel
COMPILED, EXECUTED = 40, 4  # kernels for each fault at most
EXECUTE_SECONDS, KERNEL_SECONDS, PYTHON_SECONDS = 8, 25, 60
SLOWEST = 90  # seconds of a file of Python tests that is used
DRAWN = 150
LOOPS = (
    {},
    {"pallas_loop_type": "fori_loop", "pallas_fori_dma": "on"},
    {"pallas_loop_type": "emit_pipeline"},
    {"pallas_loop_type": "unroll"},
)
SLOW_UNITS = ("test_search",)  # it asks what is the fastest, for minutes


def read_results(path=RESULTS):
    """What is known of faults, a list of dicts."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def write_results(path, found):
    """All of it, by seed and number."""
    found.sort(key=lambda r: (r["seed"], r["number"]))
    path.write_text("".join(json.dumps(r) + "\n" for r in found))


# ---- the tests, and what each enters -------------------------------------------------------------


class Tests:
    """What can see a fault: how long each takes, and the functions that it enters."""

    def __init__(self):
        import executed
        import kit

        self.executed, self.kit = executed, kit
        kit.PALLASC = tree.TREE / "pallasc"
        self.names, self.log = tree.names(), tree.TREE.parent / "reached.log"
        self.jobs = {executed.name(job): job for job in _jobs()}
        known = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
        self.units = self._units(known.get("units", {}))
        self.kernels = self._kernels(known.get("kernels", {}))
        self.pythons = known.get("pythons") or {}
        self._save()

    def _save(self):
        found = {"units": self.units, "kernels": self.kernels, "pythons": self.pythons}
        BASELINE.write_text(json.dumps(found))

    def _entered(self):
        found = tree.reached(self.log, self.names)
        self.log.unlink(missing_ok=True)
        return found

    def _units(self, found):
        for path in sorted((tree.TREE / "build" / "unit").glob("test_*")):
            key = _digest((tree.TREE / "tests" / "unit" / f"{path.name}.c").read_text())
            if path.name in SLOW_UNITS or found.get(path.name, {}).get("key") == key:
                continue
            began = time.monotonic()
            done = tree.sh(path, env=tree.environment(self.log))
            if done.returncode:
                raise SystemExit(f"{path} fails without a fault:\n{done.stderr}")
            seconds = time.monotonic() - began
            found[path.name] = {"key": key, "seconds": seconds, "enters": self._entered()}
        return found

    def _kernels(self, found):
        os.environ["PLANTED_REACHED"] = str(self.log)
        for name, job in self.jobs.items():
            key = _digest(repr(job[-1]))
            if found.get(name, {}).get("key") == key:
                continue
            text = self.text(job)
            entered = {"text": text, "enters": self._entered(), "cost": _cost(self, job)}
            found[name] = {"key": key, **entered}
        del os.environ["PLANTED_REACHED"]
        return found

    def measure_python(self, limit):
        """Runs files of Python tests that were never measured, until so many seconds are over."""
        started = time.monotonic()
        paths = [p for t in PYTHON_TESTS for p in sorted((tree.TREE / "tests").glob(t))]
        for path in (p for p in paths if p.name.startswith("test_") and p.suffix == ".py"):
            name, key = str(path.relative_to(tree.TREE)), _digest(path.read_text())
            if self.pythons.get(name, {}).get("key") == key:
                continue
            if time.monotonic() - started > limit:
                return
            began = time.monotonic()
            status = self.python([name], SLOWEST, self.log)
            seconds = time.monotonic() - began
            entered = {"enters": self._entered(), "ok": not status}
            self.pythons[name] = {"key": key, "seconds": seconds, **entered}
            print(f"{name}: {seconds:.0f} s {status[-200:]}", flush=True)
            self._save()

    # ---- running them

    def text(self, job):
        """The kernel of a job as text, or why there is none."""
        case = job[-1]
        try:
            if job[0] == "case":
                import proof

                return self.executed.kernel_text(proof.document(case.graph), case.config)
            return self.executed.kernel_text(case["document"])
        except self.executed.Refused:
            return "refused"
        except (AssertionError, subprocess.TimeoutExpired) as error:
            return f"failed: {str(error)[:200]}"

    def unit(self, name):
        """What a unit test says when it fails; "" where it passes."""
        limit = 4 * self.units[name]["seconds"] + 10
        words = ["prlimit", "--as=8000000000", tree.TREE / "build" / "unit" / name]
        try:
            done = tree.sh(*words, timeout=limit, errors="replace")
        except subprocess.TimeoutExpired:
            return "too slow"
        said = [line for line in (done.stdout + done.stderr).splitlines() if "FAILED" in line]
        return (said or ["a signal"])[0] if done.returncode else ""

    def python(self, names, limit, log=None):
        """The same of files of Python tests, the first that fails."""
        words = [".venv/bin/python", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *names]
        process = subprocess.Popen(
            words,
            cwd=tree.TREE,
            env=tree.environment(log),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            out, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return "too slow"
        said = [line for line in out.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return (said or [out[-200:]])[0] if process.returncode else ""

    def wrong(self, job):
        """Lines that say what is wrong with the kernel of a job, executed."""

        def late(*_):
            raise TimeoutError

        signal.signal(signal.SIGALRM, late)
        signal.alarm(EXECUTE_SECONDS)
        try:
            _, lines, _ = self.executed.problems(job)
        except TimeoutError:
            return []
        finally:
            signal.alarm(0)
        return [] if any("TimeoutError" in line for line in lines) else lines


def _digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _jobs():
    """What is executed: the rows of the coverage, the matrix, drawn documents, testdata/configs."""
    import proof
    from coverage import row as coverage

    sys.path.insert(0, str(ROOT / "tests" / "whole" / "oracle"))
    import document
    import drawing

    cases = dict.fromkeys([*coverage.accepted(), *proof.accepted()])
    found = [("case", case) for case in cases]
    for number in range(DRAWN):
        drawn = drawing.Drawing(random.Random(number), document.Writer()).case()
        found.append(("drawn", number, drawn))
    for path in sorted((ROOT / "testdata" / "configs").glob("*.json")):
        for loop in LOOPS:
            document = json.loads(path.read_text())
            document["config"] = {**(document.get("config") or {}), **loop}
            case = {"document": document, "values": {}, "seed": 0}
            found.append(("drawn", f"{path.stem} {' '.join(loop.values())}".strip(), case))
    return found


def _cost(tests, job):
    """Elements of a job's tensors: what executing it costs, roughly."""
    import proof

    document = proof.document(job[1].graph) if job[0] == "case" else job[-1]["document"]
    total = 0
    for tensor in document["tensors"]:
        size = 1
        for extent in tensor["shape"]:
            size *= extent if isinstance(extent, int) else 128
        total += size
    return total


# ---- one fault -----------------------------------------------------------------------------------


class Planting:
    """Faults planted one by one, and what sees them."""

    def __init__(self, tests, only=()):
        """Files of Python tests in `only` are run instead of all tests."""
        self.tests, self.only = tests, only
        self.sources = {}
        for room in ROOMS:
            for path in sorted(ROOT.glob(f"{room}/*.c")):
                text = path.read_text()
                self.sources[str(path.relative_to(ROOT))] = text
        self.by_kind = collections.defaultdict(list)
        for path, text in self.sources.items():
            for fault in faults.faults(text):
                self.by_kind[fault.kind].append((path, fault))

    def draw(self, seed, number):
        """(file, fault) of a seed and a number, the first that the C compiler takes, planted."""
        chooser = random.Random(f"{seed} {number}")
        while True:
            path, fault = chooser.choice(self.by_kind[chooser.choice(sorted(self.by_kind))])
            if self.plant(path, fault):
                return path, fault
            tree.mend(path)

    def planted(self, path, fault):
        """The text of a file with the fault."""
        text = self.sources[path]
        return text[: fault.at] + fault.new + text[fault.at + len(fault.old) :]

    def plant(self, path, fault):
        return tree.plant(path, self.planted(path, fault))

    def find(self, entry):
        """The fault of an entry of the results in the sources of today; None if it is gone."""
        text = self.sources[entry["file"]]
        for fault in faults.faults(text):
            same = [fault.kind, fault.function, fault.old, fault.new] == [
                entry[key] for key in ("kind", "function", "old", "new")
            ]
            if same and self.line(entry["file"], fault)[1] == entry["line"]:
                if not entry.get("nth"):
                    return fault
                entry = {**entry, "nth": entry["nth"] - 1}
        return None

    def line(self, path, fault):
        """(number, text) of the line where a fault begins."""
        text = self.sources[path]
        number = text.count("\n", 0, fault.at)
        return number + 1, text.splitlines()[number].strip()

    def entry(self, path, fault):
        """What the results say of a fault, before it is tried."""
        number, line = self.line(path, fault)
        found = {"file": path, "function": fault.function, "kind": fault.kind, "line": line}
        found |= {"at": number, "old": fault.old, "new": fault.new}
        alike = [
            f
            for f in faults.faults(self.sources[path])
            if f.at < fault.at
            and (f.kind, f.function, f.old, f.new)
            == (fault.kind, fault.function, fault.old, fault.new)
            and self.line(path, f)[1] == line
        ]
        return found | ({"nth": len(alike)} if alike else {})

    def attempt(self, path, fault):
        """{"ended", "by", ...} of a fault that is planted."""
        began = time.monotonic()
        try:
            found = self._seen(path, fault.function)
        finally:
            tree.mend(path)
        if found["ended"] == "survived" and tree.same_code(path, self.planted(path, fault)):
            found["ended"] = "same code"
        return found | {"seconds": round(time.monotonic() - began, 1)}

    def _seen(self, path, function):
        tests = self.tests
        if self.only:
            said = tests.python(self.only, len(self.only) * SLOWEST)
            killed = {"ended": "killed", "by": said[:200], "stage": "Python tests"}
            return killed if said else {"ended": "survived"}
        units = sorted(
            (each["seconds"], name)
            for name, each in tests.units.items()
            if function in each["enters"]
        )
        quick = [name for seconds, name in units if seconds <= QUICK]
        for name in quick:
            if said := tests.unit(name):
                return {"ended": "killed", "by": f"{name}: {said[-100:]}", "stage": "unit tests"}
        seen, counts = self._kernels(function)
        if seen:
            return {"ended": "killed", "by": seen, "stage": "kernels", **counts}
        for _, name in units[len(quick) :]:
            if said := tests.unit(name):
                by = f"{name}: {said[-100:]}"
                return {"ended": "killed", "by": by, "stage": "unit tests", **counts}
        names = self._python_files(path, function)
        if names and (said := tests.python(names, 4 * PYTHON_SECONDS)):
            return {"ended": "killed", "by": said[:200], "stage": "Python tests", **counts}
        entered = bool(units or names or counts["compiled"])
        return {"ended": "survived", **counts, **({} if entered else {"entered": False})}

    def _python_files(self, path, function):
        """Files of Python tests, those of the file's own stage first, as many as there is time."""
        stage = next(folder for start, folder in STAGES if path.startswith(start))
        known = self.tests.pythons.items()
        entered = [(n, t) for n, t in known if t["ok"] and function in t["enters"]]
        entered.sort(key=lambda pair: (f"/{stage}/" not in pair[0], pair[1]["seconds"]))
        names, left = [], PYTHON_SECONDS
        for name, each in entered:
            if each["seconds"] <= left:
                left -= each["seconds"]
                names.append(name)
        return names

    def _kernels(self, function):
        """(what sees the fault, {"compiled", "changed"}) among kernels."""
        tests = self.tests
        names = [name for name, each in tests.kernels.items() if function in each["enters"]]
        names = _of_many_graphs(tests, names, random.Random(function))[:COMPILED]
        names.sort(key=lambda name: tests.kernels[name]["cost"])
        changed, began, compiled = [], time.monotonic(), 0
        counts = {"compiled": 0, "changed": 0}
        for name in names:
            if time.monotonic() - began > KERNEL_SECONDS:
                break
            known, text = tests.kernels[name]["text"], tests.text(tests.jobs[name])
            compiled += 1
            if text != known:
                counts = {"compiled": compiled, "changed": len(changed) + 1}
                ends = ("refused", "failed")
                if text.startswith(ends) or known.startswith(ends):
                    return f"{name}: {text[:60]!r}", counts
                changed.append(name)
        counts = {"compiled": compiled, "changed": len(changed)}
        began = time.monotonic()
        for name in changed[:EXECUTED]:
            if time.monotonic() - began > KERNEL_SECONDS:
                break
            if lines := tests.wrong(tests.jobs[name]):
                return f"{name}: {lines[0][:150]}", counts
        return None, counts


def _of_many_graphs(tests, names, chooser):
    """The names in an order that has one of each graph, then a second one of each, and so on."""
    names = [name for name in names if name in tests.jobs]
    chooser.shuffle(names)
    seen, rounds = collections.Counter(), {}
    for name in names:
        job = tests.jobs[name]
        graph = job[1].graph if job[0] == "case" else name
        rounds[name] = seen[graph]
        seen[graph] += 1
    return sorted(names, key=rounds.get)


# ---- all of them ---------------------------------------------------------------------------------


def summary(found):
    """Lines of counts."""
    ended = collections.Counter(r["ended"] for r in found)
    stages = collections.Counter(r["stage"] for r in found if r["ended"] == "killed")
    argued = sum(r["ended"] == "survived" and "why" in r for r in found)
    by = ", ".join(f"{count} by {stage}" for stage, count in stages.most_common())
    yield f"{len(found)} faults planted, {ended['killed']} killed ({by})"
    rest = f"{ended['same code']} that change no code, {argued} argued to be no fault"
    yield f"{ended['survived'] - argued} survivors; {rest}"


def told(entry):
    """A line for people."""
    change = " ".join(f"{entry['old'][:60]} -> {entry['new'][:60]}".split())
    by = f" by {entry['by'][:100]}" if "by" in entry else ""
    where = f"{entry['file']}:{entry['at']} {entry['function']}()"
    return f"{entry['ended']} {where}: {entry['kind']} {change}{by} ({entry['seconds']} s)"


def main():
    """Exit status 1 if a fault survives."""
    parser = argparse.ArgumentParser(prog="make planted", description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e9, help="begins no fault after so many")
    parser.add_argument("--again", action="store_true", help="only survivors that are known")
    parser.add_argument(
        "--baseline", action="store_true", help="only builds, and measures the tests"
    )
    about = "only survivors of this number; repeatable"
    parser.add_argument("--number", type=int, action="append", default=[], help=about)
    about = "for known survivors, these files of Python tests and no others"
    parser.add_argument("--tests", nargs="+", default=[], metavar="FILE", help=about)
    about = "of Python tests that were never run here, for so many seconds"
    parser.add_argument("--measure", type=float, default=1e9, metavar="S", help=about)
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    options = parser.parse_args()
    began = time.monotonic()
    tree.build(os.cpu_count())
    tree.keep()
    tests = Tests()
    if not options.tests:
        tests.measure_python(min(options.measure, options.seconds))
    if options.baseline:
        return 0
    planting, found = Planting(tests, options.tests), read_results(options.results)
    known = {(r["seed"], r["number"]) for r in found}
    if options.again or options.number or options.tests:
        left = [r for r in found if r["ended"] == "survived" and "why" not in r]
        work = [(r["seed"], r["number"], r) for r in left]
        work = [w for w in work if not options.number or w[1] in options.number]
    else:
        numbers = itertools.count() if options.count < 0 else range(options.count)
        work = [(options.seed, n, None) for n in numbers if (options.seed, n) not in known]
    for seed, number, old in work:
        if time.monotonic() - began > options.seconds:
            break
        if old:
            path, fault = old["file"], planting.find(old)
            if fault is None or not planting.plant(path, fault):
                continue
            found.remove(old)
        else:
            path, fault = planting.draw(seed, number)
        entry = {"seed": seed, "number": number, **planting.entry(path, fault)}
        entry |= planting.attempt(path, fault)
        print(told(entry), flush=True)
        found.append(entry)
        write_results(options.results, found)
    tree.link()
    mine = [r for r in found if options.again or r["seed"] == options.seed]
    print("\n".join(summary(mine)))
    return 1 if any(r["ended"] == "survived" and "why" not in r for r in mine) else 0


if __name__ == "__main__":
    sys.exit(main())
