"""What hatchling runs for a wheel: `make`, whose library and command join the Python files.

The wheel serves any Python 3, since ctypes loads the library; it is bound to a platform only. Make
takes CC, AR, CPPFLAGS, CFLAGS, LDFLAGS and LDLIBS from the environment as it always does;
tools/wheels sets them, and:

  PALLASC_WHEEL_PLATFORM  the platform tag, such as manylinux_2_28_aarch64; by default that of the
                          running Python
  PALLASC_WHEEL_NOTICE    the licence of what LDLIBS linked in, to go beside the library
"""

import os
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompilerHook(BuildHookInterface):
    """Puts pallasc/libpallasc.so and the command `pallasc` into the wheel."""

    def initialize(self, version, build_data):
        if version == "editable":
            return  # the binding finds the checkout's own build/libpallasc.so
        local = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        platform = os.environ.get("PALLASC_WHEEL_PLATFORM", local)
        build = Path("build", "wheel", platform)
        _require_tools()
        _make(self.root, build)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["shared_scripts"][f"{build}/pallasc"] = "pallasc"
        build_data["force_include"][f"{build}/libpallasc.so"] = "pallasc/libpallasc.so"
        if notice := os.environ.get("PALLASC_WHEEL_NOTICE"):
            build_data["force_include"][notice] = "pallasc/libpallasc.LICENSE"


def _require_tools():
    """Ends the build in one line if something is missing."""
    if not shutil.which("make"):
        _give_up("GNU make is missing")
    compiler = shlex.split(os.environ.get("CC") or "cc")
    if not shutil.which(compiler[0]):
        _give_up(f"there is no C compiler {compiler[0]!r}")
    flags = [
        flag for name in ("CPPFLAGS", "CFLAGS") for flag in shlex.split(os.environ.get(name, ""))
    ]
    headers = (
        "#include <stdio.h>\n#include <jansson.h>\n"
        "#if JANSSON_VERSION_HEX < 0x020d00\n#error too old\n#endif\n"
    )
    probe = subprocess.run(
        [*compiler, *flags, "-E", "-x", "c", "-"], input=headers, capture_output=True, text=True
    )
    if probe.returncode != 0:
        _give_up("there are no headers of libc or of such a jansson")


def _give_up(reason):
    # Not an exception: pip would show its traceback.
    raise SystemExit(
        f"pallasc: cannot build: {reason}; needed are a C compiler, GNU make and jansson 2.13 or"
        " later (Debian: apt-get install gcc libc6-dev make libjansson-dev)"
    )


def _make(root, build):
    # Of a `make` that runs us, neither its job server nor its variables; and a newer compiler's new
    # warnings are for developers.
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS")}
    jobs = os.cpu_count() or 1
    command = [
        "make",
        f"-j{jobs}",
        f"BUILD={build}",
        f"PROGRAM={build}/pallasc",
        "WARNINGS=",
        "all",
    ]
    if status := subprocess.run(command, cwd=root, env=environment).returncode:
        raise SystemExit(f"pallasc: cannot build: make ended with status {status}, see above")
