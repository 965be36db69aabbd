"""Compiles a function with libtpu's dumps on, and keeps what the instrument reads of them.

A dump is a dict that JSON holds, kept compressed, so that a change of the simulator needs no new
compile:

- target: the chip.
- kernels: {name: {"schedule": the text of packed-bundles-post-ra, "same": whether final_bundles has
  the same instructions, "utilisation": the text of the slots' use, or None, "pallas": whether it is
  a Pallas kernel and not XLA's own, "vmem_bytes": scoped VMEM, or None}}.
- hlo: the compiled module's text, without the bodies of its Pallas kernels.
- while_loops: how many XLA has at the top level of the module.
- scalars: {kernel: {operand: array that it reads as scalars}} (`scalars.save`).
- dots: the matmuls of the traced function (`matmuls.expected`), or None.
- devices: of a module that runs on a mesh, how many run it.
- libtpu_cycles: {kernel: cycles} of libtpu's own simulator, {} unless it was asked.
"""

import collections
import glob
import json
import os
import re
import zlib
from pathlib import Path

from ..aot_worker import fusions
from ..files import keep as keep_file
from ..files import write_whole
from . import chips, matmuls, scalars, schedule

# Of what `collect` gives: another number has everything compiled again.
FORMAT = 1
SCHEDULE = "packed-bundles-post-ra"
UTILISATION = "pre-delay_hlo-static-per-bundle-utilization"
FINAL = "final_bundles"
HLO = "TLP-hlo.txt"
_FILE = re.compile(rf"^\d+-(.*)-(\d+)-({SCHEDULE}|{UTILISATION}|{FINAL})\.txt$")
_STATIC_COST = re.compile(r'hlo_op_name: "([^"]+)"\s+estimated_cycles: (\d+)')


def prepare(folder, simulate=False):
    """Has libtpu dump into `folder`: before it is loaded, once in a process.

    `simulate`: let it run its own simulator as well, 10 to 20 ms for each step of a grid.
    """
    wanted = "|".join((SCHEDULE, FINAL, UTILISATION))
    flags = [
        f"--xla_jf_dump_to={folder}",
        "--xla_jf_dump_llo_text=true",
        f"--xla_jf_dump_llo_pass_label_regex=.*({wanted}).*",
    ]
    if simulate:
        flags.append(f"--xla_jf_dump_static_llo_profile_to={static_folder(folder)}")
        os.makedirs(static_folder(folder), exist_ok=True)
    given = os.environ.get("LIBTPU_INIT_ARGS", "")
    os.environ["LIBTPU_INIT_ARGS"] = " ".join([given, *flags]).strip()


def static_folder(folder):
    """Where libtpu's own simulator writes."""
    return os.path.join(folder, "simulated")


def collect(folder, target, traced, values=None):
    """The dump of the one module that was compiled with dumps into `folder`, which is emptied.

    Args:
      target: a name of `chips.CHIPS`.
      traced: the traced function's ClosedJaxpr.
      values: an array for each of its arguments, None where it is not known.
    """
    hlo = "\n".join(_text(path) for path in glob.glob(os.path.join(folder, f"*{HLO}")))
    vmem = _vmem(folder)
    calls = r"%([\w.\-]+) = [^\n]*?custom-call\([^\n]*?tpu_custom_call"
    values = values or [None] * len(traced.jaxpr.invars)
    for line, fusion in fusions(hlo).items():
        name = re.match(r"\s*(?:ROOT )?%([\w.\-]+)", fusion)[1]
        hlo = hlo.replace(line, re.sub(r"%[\w.\-]+", f"%{name}", line, count=1))
    pallas = set(re.findall(calls, hlo))
    kernels = {}
    for name, files in _files(folder).items():
        bundles = _text(files[SCHEDULE])
        kernels[name] = {
            "schedule": bundles,
            "same": FINAL in files and _same(bundles, _text(files[FINAL])),
            "utilisation": _text(files[UTILISATION]) if UTILISATION in files else None,
            "pallas": name in pallas,
            "vmem_bytes": vmem.get(name),
        }
    found = {
        "target": target,
        "kernels": kernels,
        "hlo": re.sub(r'"body":"[^"]*"', '"body":""', hlo),
        "while_loops": len(re.findall(r"\) while\(", hlo)),
        "scalars": scalars.save(scalars.known_calls(traced, values), hlo),
        "dots": matmuls.expected(traced.jaxpr, chips.CHIPS[target].mxu),
        "libtpu_cycles": _static_costs(folder),
    }
    for path in glob.glob(os.path.join(folder, "**"), recursive=True):
        if os.path.isfile(path):
            os.unlink(path)
    return found


def _files(folder):
    """{kernel: {step: path}} of the steps' last dumps, in the order of the module."""
    found, numbers = collections.defaultdict(dict), {}
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*.txt"))):
        match = _FILE.match(os.path.basename(path))
        if not match or match[1].startswith("<") or match[1] == "TLP":
            continue
        name, number, step = match[1], int(match[2]), match[3]
        if number >= numbers.get((name, step), -1):
            numbers[name, step] = number
            found[name][step] = path
    return {name: files for name, files in found.items() if SCHEDULE in files}


def _same(bundles, final):
    return schedule.same_instructions(
        schedule.parse_bundles(bundles), schedule.parse_bundles(final)
    )


def _vmem(folder):
    """{kernel: scoped VMEM bytes} of libtpu's report."""
    for path in glob.glob(os.path.join(folder, "*vmem_report.html")):
        text = _text(path)
        start = text.find("{", text.find("const DATA"))
        if start >= 0:
            data = json.JSONDecoder().raw_decode(text[start:])[0]
            breakdowns = data.get("hlo_breakdowns") or {}
            return {name: entry.get("total_size") for name, entry in breakdowns.items()}
    return {}


def _static_costs(folder):
    """{kernel: cycles} of libtpu's own simulator."""
    paths = glob.glob(os.path.join(static_folder(folder), "*.textproto"))
    found = (match for path in paths for match in _STATIC_COST.findall(_text(path)))
    return {name: int(cycles) for name, cycles in found}


def _text(path):
    return Path(path).read_text(errors="replace")


def save(path, dump):
    """Writes a dump, compressed; whole or not at all. Raises OSError."""
    write_whole(path, _packed(dump))


def keep(path, dump):
    """Keeps a dump; a cache that cannot be written is no error."""
    keep_file(path, _packed(dump))


def _packed(dump):
    return zlib.compress(json.dumps(dump).encode(), 6)


def load(path):
    """The dump in a file; None if there is none that can be read."""
    try:
        found = json.loads(zlib.decompress(Path(path).read_bytes()))
    except (OSError, ValueError, RecursionError, zlib.error):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("kernels"), dict) else None
