"""What of Helion is replaced while it traces a kernel.

It notes what Helion forgets, and goes on where only Helion's own backend cannot. Each patch is a
context manager. All that the exporter takes from Helion's insides is named in INTERNALS, so that a
version without it is refused by name.
"""

import ast
import contextlib
import functools
import importlib
import operator

# module -> what is read or replaced there, attributes of attributes with a dot
INTERNALS = {
    "helion._compiler.inductor_lowering": (
        "prepare_node_lowering",
        "Lowering",
        "ReductionLowering.__init__",
    ),
    "helion._compiler.device_ir": (
        "WalkDeviceAST._trace_graph",
        "WalkDeviceAST.visit_UnaryOp",
        "WalkHostAST.generic_visit",
        "ReductionLoopGraphInfo",
    ),
    "helion._compiler.compile_environment": (
        "CompileEnvironment.current",
        "CompileEnvironment.to_fake",
    ),
    "helion._compiler.type_propagation": ("TypePropagation.visit_Subscript",),
    "helion._compiler.helper_function": ("create_combine_function_wrapper",),
    "helion._compiler.host_function": ("HostFunction",),
    "helion.autotuner.config_spec": ("VALID_KEYS",),
    "helion.language._tracing_ops": (
        "_host_tensor",
        "_get_symnode",
        "_for_loop",
        "_if",
        "_phi",
        "_not",
    ),
    "helion.language.random_ops": ("_pallas_safe_i32_scalar_like",),
}

UNKNOWN_SIZE = (
    "host code makes a tensor, and its size depends on what a tensor holds: "
    "use torch.where, or pass it as an argument"
)


def internals_check():
    """Raise AttributeError or ImportError, by name, for what this Helion has not of INTERNALS."""
    for module, names in INTERNALS.items():
        found = importlib.import_module(module)
        for name in names:
            operator.attrgetter(name)(found)


@contextlib.contextmanager
def replaced(owner, name, value):
    """Replace an attribute for a while."""
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)


@contextlib.contextmanager
def all_applied(originals, variables, numbers=None, whole_dims=False):
    """Apply every patch; fill `originals`, `variables` and `numbers` as Trace has them.

    With `whole_dims` the sizes of dims that are loaded whole stay symbols.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(whole_dims_noted(set() if numbers is None else numbers, whole_dims))
        stack.enter_context(lowering_recorded(originals))
        stack.enter_context(variables_recorded(variables))
        for patch in PATCHES:
            stack.enter_context(patch())
        yield


def lowering_recorded(originals):
    """Note every node's (args, kwargs) before Helion's lowering rewrites them in place.

    A view that it cannot lower has no lowering: what its lanes hold is not known, so that what
    reduces them is masked.
    """
    import helion
    import torch
    from helion._compiler import inductor_lowering

    lower = inductor_lowering.prepare_node_lowering

    def recorded(graph_lowering, node):
        originals[node] = (node.args, dict(node.kwargs))
        try:
            return lower(graph_lowering, node)
        except helion.exc.InductorLoweringError:
            if node.target not in views:
                raise
            node.meta["lowering"] = inductor_lowering.Lowering()

    aten = torch.ops.aten
    views = (aten.slice.Tensor, aten.select.int, aten.diagonal.default, aten.unfold.default)
    return replaced(inductor_lowering, "prepare_node_lowering", recorded)


def variables_recorded(variables):
    """Note the variable names of every called graph's arguments and outputs."""
    from helion._compiler.device_ir import WalkDeviceAST

    trace_graph = WalkDeviceAST._trace_graph

    def recorded(walker, inputs, *args, **kwargs):
        graph_id, outputs = trace_graph(walker, inputs, *args, **kwargs)
        variables[graph_id] = (variable_names(inputs), variable_names(outputs))
        return graph_id, outputs

    return replaced(WalkDeviceAST, "_trace_graph", recorded)


def variable_names(lifted):
    """Return the variable name behind each tensor that Helion lifts into or out of a graph."""
    from torch.utils import _pytree

    paths = [path for path, _value in _pytree.tree_flatten_with_path(lifted.values)[0]]
    names = ["_".join(str(getattr(k, "key", getattr(k, "idx", k))) for k in path) for path in paths]
    return [names[index] for index in lifted.tensor_indices]


def whole_dims_noted(numbers, kept):
    """Note in `numbers` the symbols of dims that are loaded whole, unless they are `kept`.

    Helion's Pallas backend takes the number of such a dim for its size, and for nothing else.
    """
    import torch
    from helion._compiler.compile_environment import CompileEnvironment

    concretize = getattr(CompileEnvironment, "try_concretize_symint", None)
    if concretize is None:
        return contextlib.nullcontext()

    def concretized(env, size):
        if kept:
            return size
        number = concretize(env, size)
        if isinstance(size, torch.SymInt) and isinstance(number, int):
            numbers.update(size.node.expr.free_symbols)
        return number

    return replaced(CompileEnvironment, "try_concretize_symint", concretized)


def random_in_int64():
    """Trace Philox with the masks that it has in int64, as for Helion's other backends.

    For Pallas Helion writes 0xffffffff as -1, since it computes int64 in int32 there: then no mask
    cuts anything off, and high words of products come out wrong. In the graph int64 is 64 bits.
    """
    from helion.language import random_ops

    return replaced(random_ops, "_pallas_safe_i32_scalar_like", lambda ref, value: value)


def reductions_of_many_dims():
    """Let a reduction have several dims, or as many elements as a tunable says.

    Helion's lowering, which is undone, asks for one dim of a block. It notes the reduced dim only
    to roll it into a loop; what masks the operand knows all dims.
    """
    from helion._compiler.compile_environment import CompileEnvironment
    from helion._compiler.inductor_lowering import ReductionLowering, to_symint

    make = ReductionLowering.__init__

    def made(lowering, buffer, input_names):
        try:
            make(lowering, buffer, input_names)
        except (NotImplementedError, AssertionError):
            env = CompileEnvironment.current()
            sizes = lowering.buffer.data.reduction_ranges
            ids = [env.get_block_id(size) for size in sizes]
            known = [block for block in ids if block is not None]
            if not known:
                known = [env.allocate_reduction_dimension(to_symint(sizes[-1])).block_id]
            lowering.block_index = known[-1]

    return replaced(ReductionLowering, "__init__", made)


def host_untouched():
    """Let Helion look for device loops in the host code's compound statements alone."""
    from helion._compiler.device_ir import WalkHostAST

    walk = WalkHostAST.generic_visit

    def walked(walker, node):
        if not isinstance(node, ast.stmt) or not hasattr(node, "body"):
            return None
        return walk(walker, node)

    return replaced(WalkHostAST, "generic_visit", walked)


def backend_unasked():
    """Do not ask Helion's Pallas backend which gathers it can lower: it prints no kernel."""
    try:
        from helion._compiler.pallas import tensorcore_plan
    except ImportError:
        return contextlib.nullcontext()
    if not hasattr(tensorcore_plan, "indirect_access_modes"):
        return contextlib.nullcontext()
    return replaced(tensorcore_plan, "indirect_access_modes", lambda device_ir: ())


def captured_untraced():
    """Make what stands for a captured tensor outside of the graph; Helion 1.4 makes it there."""
    from helion._compiler.compile_environment import CompileEnvironment
    from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

    make = CompileEnvironment.to_fake

    def made(env, *args, **kwargs):
        with disable_proxy_modes_tracing():
            return make(env, *args, **kwargs)

    return replaced(CompileEnvironment, "to_fake", made)


def negations_traced():
    """Trace `not` of a condition: Helion 1.4 decides it from an example."""
    import torch
    from helion._compiler.device_ir import WalkDeviceAST
    from helion.language._tracing_ops import _not

    evaluate = WalkDeviceAST.visit_UnaryOp

    def visited(walker, node):
        if not isinstance(node.op, ast.Not):
            return evaluate(walker, node)
        operand = walker.visit(node.operand)
        if isinstance(operand, torch.SymInt | torch.SymFloat):
            return operand == 0
        if isinstance(operand, torch.Tensor) and operand.dtype != torch.bool:
            operand = operand != 0
        return _not(operand) if isinstance(operand, torch.SymBool | torch.Tensor) else not operand

    return replaced(WalkDeviceAST, "visit_UnaryOp", visited)


def scans_of_many_dtypes():
    """Give the function of a scan its lefts and then its rights, of their dtypes.

    Helion takes the dtypes in pairs, left, right, left, right, ...: `calls.combine_order` sorts
    what is traced.
    """
    from helion._compiler import helper_function

    from .calls import combine_order

    make = helper_function.create_combine_function_wrapper

    def made(function, *, is_tuple_input, target_format):
        combine = make(function, is_tuple_input=is_tuple_input, target_format=target_format)
        if not is_tuple_input or target_format != "unpacked":
            return combine

        @functools.wraps(combine)
        def sorted_first(*values):
            return combine(*(values[at] for at in combine_order([v.dtype for v in values])))

        return sorted_first

    return replaced(helper_function, "create_combine_function_wrapper", made)


def masks_stored():
    """Let host code store under a mask: Helion also loads what is stored to, of an unknown size.

    What it really loads so is refused here: Helion does not say why.
    """
    import helion
    import torch
    from helion._compiler.type_propagation import TypePropagation
    from torch.utils import _pytree

    visit = TypePropagation.visit_Subscript

    def masks(key):
        try:
            leaves = _pytree.tree_leaves(key.proxy())
        except NotImplementedError:
            return False
        return any(isinstance(x, torch.Tensor) and x.dtype == torch.bool for x in leaves)

    def visited(walker, node):
        if walker.origin().is_host():
            indexed = walker.visit(node.value)
            if masks(walker.visit(node.slice)):
                if isinstance(node.ctx, ast.Store):
                    return indexed
                raise helion.exc.TypeInferenceError(UNKNOWN_SIZE)
        return visit(walker, node)

    return replaced(TypePropagation, "visit_Subscript", visited)


def torch_respelled():
    """Trace what Helion does not lower as what it computes.

    `take_along_dim` asks for sizes, which fixes blocks. Every sort in the graph is stable.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    takes = (torch.take_along_dim, torch.Tensor.take_along_dim)
    sorts = (torch.sort, torch.Tensor.sort, torch.argsort, torch.Tensor.argsort)

    class Respelling(TorchFunctionMode):
        """Replaces them, as functions and as methods."""

        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = dict(kwargs or {})
            if func in takes:
                return taken(*args, **kwargs)
            if func in sorts:
                kwargs.pop("stable", None)
            return func(*args, **kwargs)

    def taken(x, places, dim=None):
        if dim is None:
            x, places, dim = x.reshape(-1), places.reshape(-1), 0
        dim %= x.dim()
        shape, wanted = list(x.shape), list(places.shape)
        for at in range(x.dim()):
            if at != dim and isinstance(wanted[at], int) and wanted[at] == 1:
                wanted[at] = shape[at]
            elif at != dim:
                shape[at] = wanted[at]
        places = places % x.size(dim)  # below 0 they count from the end
        return torch.gather(x.expand(shape), dim, places.expand(wanted))

    return Respelling()


PATCHES = (
    torch_respelled,
    masks_stored,
    random_in_int64,
    reductions_of_many_dims,
    host_untouched,
    backend_unasked,
    captured_untraced,
    negations_traced,
    scans_of_many_dtypes,
)
