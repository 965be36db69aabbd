"""`pallasc check`: compile, simulate, compare with the reference interpreter."""

import argparse
import contextlib

from . import chips, judge, limit, mesh
from .binding import Graph, config_text, format_diagnostics, graph_text, target_text
from .binding import compile as compile_graph
from .command import (
    Parser,
    add_mesh_options,
    add_size_option,
    add_vmem_options,
    at_least_one,
    bytes_text,
    parse_scalars,
    parse_set,
    positive,
    read_json,
)
from .errors import UsageError
from .plain import interpret_plainly
from .simulate import huge_memory, interpret_params, simulate

_EAGER = "eager DMA"
_HUGE = "unwritten memory huge"


def main(argv):
    """`check G.json`: exit status 1 if refused, off, racing or failing."""
    options = _parser().parse_args(argv)
    if options.fast and options.cores > 1:
        raise UsageError("--interpret=fast knows no TensorCores: leave out --cores")
    limit.hold(options.timeout)
    limit.say("compiling the graph")
    chips.choose_platform(simulate=True)
    text, name = graph_text(options.graph)
    config = read_json(options.config, "configuration") if options.config else {}
    config.update(parse_set(item) for item in options.set)
    given = config_text(config) if config else None
    budget = {"vmem": options.vmem, "vmem_margin": options.vmem_margin}
    chip = target_text(options.target)
    sizes = dict(options.size)
    split = {"mesh": options.mesh, **_split(options)}
    read = Graph(text, name)
    module = compile_graph(read, given, chip, sizes=sizes, adapt=options.adapt, **budget, **split)
    if options.mesh:
        mesh.simulate_devices(module.info)
    config = module.info["config"] if options.adapt else config
    if module.diagnostics:
        print(format_diagnostics(module.diagnostics))
    graph = judge.filled(judge.resized(judge.read_graph((text, name)), sizes))
    print(_headline(module.info), flush=True)
    if mesh.exchanges(module.info) and not options.mesh:
        good = _check_devices(module, graph, options, config)
    elif options.points:
        good = _check_points(module, graph, options, config)
    else:
        good = _check_variants(module, graph, options, config)
    print("PASS" if good else "FAIL")
    return 0 if good else 1


def _check_variants(module, graph, options, config):
    """On inputs from the seed, and with --adversarial on others."""
    variants = [None]
    if options.adversarial:
        variants += [] if options.fast else [_EAGER, _HUGE]
        variants += judge.adversarial_modes()
    good = True
    for done, variant in enumerate(variants):
        limit.say("making inputs", f"{done} of {len(variants)} kinds of inputs are checked")
        good &= _check_once(module, graph, options, config, variant)
    return good


def _split(options):
    """What --shard, --gather and --scatter say, for `compile`."""
    asked = {"shard": options.shard, "gather": options.gather, "scatter": options.scatter}
    for name, pairs in asked.items():
        if pairs and not options.mesh:
            raise UsageError(f"--{name}: there is no --mesh")
        if len(dict(pairs)) < len(pairs):
            how = "a block stands twice: give its axes as BLOCK=AXIS+AXIS"
            raise UsageError(f"--{name}: {how if name == 'shard' else 'an array stands twice'}")
    return {"ring": options.ring} | {name: dict(pairs) for name, pairs in asked.items()}


def _check_points(module, graph, options, config):
    """Chosen grid points alone."""
    from .points import check_points

    if options.mesh:
        raise UsageError("--points simulates one device: give it without --mesh")
    if options.adversarial:
        raise UsageError("--adversarial makes inputs whole: give it without --points")
    params = interpret_params(options.race, options.cores, options.seed)
    scalars = parse_scalars(options.scalar)
    return check_points(module, graph, config, None if options.fast else params, options, scalars)


def _check_devices(module, graph, options, config):
    """A program on the devices of a mesh, each with inputs from a seed of its own."""
    import numpy as np

    if options.adversarial or options.points:
        raise UsageError("a program on several devices is checked whole, on one kind of inputs")
    info, scalars = module.info, parse_scalars(options.scalar)
    mesh.simulate_devices(info)
    limit.say("making inputs")
    settled = {**info["config"], **config}
    seeds = range(options.seed, options.seed + info["mesh"]["devices"])
    arrays = [judge.make_arguments(graph, seed, scalars, None, settled) for seed in seeds]
    tensors = len(info["inputs"])
    numbers = arrays[0][tensors:]
    arrays = [[*given[:tensors], *numbers] for given in arrays]
    whole = [np.concatenate(parts) for parts in zip(*(a[:tensors] for a in arrays), strict=True)]
    limit.say("executing the reference")
    expected, races = judge.devices_expected(graph, arrays, settled)
    limit.say("simulating the kernel, which waits forever or is slow", "the reference is executed")
    params = interpret_params(options.race, options.cores, options.seed)
    simulation = simulate(mesh.on_this_machine(module, True), [*whole, *numbers], params)
    verdict = judge.compared(graph, info, expected, simulation.outputs, settled)
    problems = [*simulation.races, *simulation.complaints]
    problems += ["copies race: what they give depends on when they read and write"] * races
    print(f"inputs: seeds {seeds[0]} to {seeds[-1]}, one for each device")
    print("\n".join([*verdict.lines(), *(f"  {problem}" for problem in problems)]), flush=True)
    return verdict.ok and not problems


def _check_once(module, graph, options, config, variant):
    """Simulates and compares once; prints a line for each output and problem.

    `variant` is None, _EAGER, _HUGE, or a kind of adversarial inputs.
    """
    info, eager = module.info, variant == _EAGER
    settled = {**info["config"], **config}
    adversarial = None if variant in (_EAGER, _HUGE) else variant
    arguments = judge.make_arguments(
        graph, options.seed, parse_scalars(options.scalar), adversarial, settled
    )
    params = interpret_params(options.race, options.cores, options.seed, eager)
    memory = huge_memory() if variant == _HUGE else contextlib.nullcontext()
    limit.say("simulating the kernel, which waits forever or is slow")
    kernel = mesh.on_this_machine(module, True) if options.mesh else module.load()
    with memory:
        simulation = (
            interpret_plainly(kernel, arguments)
            if options.fast
            else simulate(kernel, arguments, params)
        )
    limit.say("executing the reference", "the kernel is simulated")
    verdict = judge.judge(graph, info, arguments, simulation.outputs, config)
    print(f"inputs: seed {options.seed}{f', {variant}' if variant else ''}")
    problems = [*simulation.races, *simulation.complaints]
    print("\n".join([*verdict.lines(), *(f"  {problem}" for problem in problems)]), flush=True)
    return verdict.ok and not problems


def _parser():
    parser = Parser(
        prog="pallasc check",
        description="Compile a graph, simulate the kernel, compare it with the reference.",
    )
    parser.add_argument("graph", metavar="G.json", help="graph, or - for standard input")
    parser.add_argument("--config", metavar="F", help="configuration over the graph's own")
    parser.add_argument(
        *("--set", "-s"), action="append", default=[], metavar="K=V", help="repeatable"
    )
    parser.add_argument(
        "--adapt", action="store_true", help="the nearest configuration that is accepted"
    )
    parser.add_argument("--target", default="v6e", metavar="T", help="chip, or .json file")
    add_size_option(parser)
    add_mesh_options(parser)
    add_vmem_options(parser)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the inputs")
    parser.add_argument(
        "--scalar", action="append", default=[], metavar="NAME=VALUE", help="run-time scalar"
    )
    parser.add_argument(
        "--race", action=argparse.BooleanOptionalAction, default=True, help="detect races"
    )
    parser.add_argument(
        "--adversarial",
        action="store_true",
        help="also NaN and huge values past every edge, and tails that count",
    )
    parser.add_argument(
        "--timeout",
        type=positive,
        default=600.0,
        metavar="S",
        help="seconds for all of it (default: 600)",
    )
    parser.add_argument(
        "--points",
        type=at_least_one,
        metavar="N",
        help="of a kernel of any size, N grid points: corners, tails, others by the seed",
    )
    parser.add_argument(
        "--interpret=fast",
        dest="fast",
        action="store_true",
        help="simulate by JAX's plain interpreter, which knows no copies, semaphores nor races",
    )
    parser.add_argument(
        "--cores", type=int, default=1, choices=(1, 2), help="TensorCores that share the grid"
    )
    return parser


def _headline(info):
    if mesh.has_mesh(info):
        info = mesh.whole_info(info)
    inputs = ", ".join(f"{e['name']} {e['dtype']}{list(e['shape'])}" for e in info["inputs"])
    vmem = bytes_text(info.get("vmem_bytes"))
    count = f"{mesh.devices(info)} devices of " if mesh.has_mesh(info) else ""
    return f"{info['name']} for {count}{info['target']}, VMEM {vmem}: {inputs}"
