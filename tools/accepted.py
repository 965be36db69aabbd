"""Makes testdata/accepted/VERSION for a release: documents that its compiler accepts, and symbols.

The documents are few that together have every op, field and word of those in testdata. A folder
that is there is never changed: it is what that version accepted.
"""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "testdata" / "accepted"
PROGRAM = ROOT / "pallasc"
GRAPHS = ("testdata/coverage/graphs", "testdata/graphs")
LARGEST = 40000  # bytes: larger documents show nothing that smaller ones do not
WORDS = ("op", "target", "dtype", "role", "kind")


def said(*words):
    """Standard output of the compiler."""
    command = [str(PROGRAM), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def features(value, path=()):
    """Fields with the field that they are in, and words of the fields that have some."""
    found = set()
    if isinstance(value, dict):
        for key, part in value.items():
            if key.isidentifier() and len(path) < 6:
                found.add((path[-1:], key))
            found |= features(part, (*path, key))
    elif isinstance(value, list):
        for part in value:
            found |= features(part, path)
    elif isinstance(value, str) and path and path[-1] in WORDS:
        found.add((path[-1], value))
    return found


def chosen():
    """Paths of documents that together have all features, small ones first."""
    paths = [path for folder in GRAPHS for path in sorted((ROOT / folder).glob("*.json"))]
    paths = [path for path in paths if path.stat().st_size < LARGEST and is_accepted(path)]
    every = {path: features(json.loads(path.read_text())) for path in paths}
    left, found = set().union(*every.values()), []
    while left:
        best = max(paths, key=lambda p: len(every[p] & left) / p.stat().st_size ** 0.3)
        left -= every[best]
        found.append(best)
    return found


def is_accepted(path):
    """Whether the compiler accepts a document as it stands."""
    command = [str(PROGRAM), "--emit=none", str(path)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def texts(before):
    """{name: text} of a release's files; keys and values of `before`, a release's folder."""
    found = {}
    for path in chosen():
        text = json.dumps(json.loads(path.read_text()), separators=(",", ":"))
        found[f"graphs/{path.name}"] = text + "\n"
    for line in said("--print-targets").splitlines():
        chip = line.split()[0]
        found[f"targets/{chip}.json"] = said(f"--target={chip}", "--print-target")
    for name in ("targets/small.json", "config.json"):
        found[name] = (before / name).read_text()
    library = sorted((ROOT / "build").glob("libpallasc.so.*"))[-1]
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    )
    names = sorted(line.split()[-1] for line in listed.stdout.splitlines())
    found["symbols"] = "\n".join(names) + "\n"
    return found


def main():
    """Writes the folder of this version."""
    folder = FOLDER / said("--version").split()[1]
    if folder.exists():
        print(f"{folder.relative_to(ROOT)} is there, and stays as it is", file=sys.stderr)
        return 1
    found = texts(max(FOLDER.iterdir()))
    sums = []
    for name, text in sorted(found.items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        sums.append(f"{hashlib.sha256(text.encode()).hexdigest()}  ./{name}\n")
    (folder / "SHA256SUMS").write_text("".join(sums))
    print(f"{folder.relative_to(ROOT)}: {len(found)} files; new keys belong into config.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
