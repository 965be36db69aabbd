"""`pallasc run`: runs an emitted module on inputs made from a seed."""

import sys
import time

from . import chips, inputs, limit, mesh, report, timing
from .binding import graph_text
from .command import Parser, add_size_option, parse_scalars, positive, seconds_text
from .errors import UsageError
from .module import read_module
from .plain import interpret_plainly
from .simulate import interpret_params, simulate


def main(argv):
    """`run KERNEL.py | - [--graph G.json]`: exit status 1 if the kernel fails or is off."""
    parser = Parser(
        prog="pallasc run",
        description="Run a kernel module: on a TPU if there is one, else simulated on the CPU.",
    )
    parser.add_argument("kernel", metavar="KERNEL.py", help="module, or - for standard input")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the inputs")
    parser.add_argument(
        "--graph", metavar="G.json", help="compare with the reference of this graph"
    )
    parser.add_argument(
        "--scalar",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="value of a run-time scalar; repeatable",
    )
    add_size_option(parser, "of a module of several sizes only this one; repeatable")
    parser.add_argument(
        "--timeout",
        type=positive,
        default=600.0,
        metavar="S",
        help="seconds for all of it (default: 600)",
    )
    parser.add_argument("--interpret", action="store_true", help="simulate even if there is a TPU")
    parser.add_argument(
        "--interpret=fast",
        dest="fast",
        action="store_true",
        help="simulate by JAX's plain interpreter, which knows no copies nor semaphores",
    )
    options = parser.parse_args(argv)
    options.interpret |= options.fast
    limit.hold(options.timeout)
    module = read_module(options.kernel)
    modules = module.sized(dict(options.size))
    simulated = chips.choose_platform(options.interpret)
    if mesh.has_mesh(module.info):
        if options.graph and mesh.exchanges(module.info):
            raise UsageError(
                "--graph: no graph gives a module whose devices exchange what they have"
            )
        if simulated:
            mesh.simulate_devices(module.info)
    good = [_run(sized, options) for sized in modules]
    return 0 if all(good) else 1


def _run(module, options):
    """Runs a module of one size, and prints what it gives; whether that is right."""
    limit.say("making inputs")
    info = mesh.whole_info(module.info) if mesh.has_mesh(module.info) else module.info
    scalars = parse_scalars(options.scalar)
    graph = None
    if options.graph:
        from . import judge

        graph = judge.read_graph(graph_text(options.graph))
        graph = judge.filled(judge.resized(graph, info.get("sizes", {})))
        arrays = judge.make_arguments(graph, options.seed, scalars)
    else:
        arrays = inputs.make_tensors(info, options.seed) + inputs.make_scalars(info, scalars)
    limit.say("running the kernel, which waits forever or is slow")
    outputs, where, seconds = run_module(module, arrays, options.interpret, options.fast)
    _print_run(info, outputs, where, seconds)
    if graph is None:
        return True
    sys.stdout.flush()
    limit.say("executing the reference", "the kernel has run")
    verdict = judge.judge(graph, info, arrays, outputs)
    print("\n".join([*verdict.lines(), "PASS" if verdict.ok else "FAIL"]))
    return verdict.ok


def run_module(module, arrays, simulated=False, fast=False):
    """Runs a module's kernel. Gives (list of numpy outputs, where it ran, seconds).

    One that runs on a mesh takes and gives whole arrays, of which each device has a part (mesh.py).
    On a TPU the time is that of `timing`, a median; simulated, that of the only run.
    Raises KernelError, and UsageError where there are too few devices.
    """
    import jax

    if simulated or jax.default_backend() != "tpu":
        on_mesh = mesh.has_mesh(module.info)
        kernel = mesh.on_this_machine(module, simulated) if on_mesh else module.load()
        started = time.perf_counter()
        if fast:
            found = interpret_plainly(kernel, arrays)
        else:
            found = simulate(kernel, arrays, interpret_params(races=False))
        return found.outputs, "cpu, interpret mode", time.perf_counter() - started
    return _run_on_tpu(module, arrays)


def _run_on_tpu(module, arrays):
    import numpy as np

    device = timing.Tpu()
    program = device.compile(module, arrays)
    outputs = [np.asarray(output) for output in device.run(program, 1)]
    return outputs, device.devices()[0], timing.time_program(device, program).median


def _print_run(info, outputs, where, seconds):
    print(f"{info['name']} on {where}: {seconds_text(seconds)}")
    for entry in info["inputs"]:
        print(f"  in  {entry['name']}: {entry['dtype']}[{', '.join(map(str, entry['shape']))}]")
    for entry in info.get("scalars", ()):
        print(f"  in  {entry['name']}: {entry['dtype']} scalar")
    for name, output in zip(report.output_names(info, len(outputs)), outputs, strict=True):
        print(f"  out {report.signature(name, output)}: {report.summary(output)}")
