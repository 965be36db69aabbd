"""What cannot be built is refused at the caller's line, in one line."""

import inspect

import pytest
from pallasc.build import BuildError, Graph, Size, associative_scan, axis, ds, ops, reduce
from pallasc.build.values import is_open

REFUSED = {}


def refused(message):
    """A function of (g, x, out) whose last line is refused with the message."""

    def keep(function):
        REFUSED[function.__name__] = (function, message)
        return function

    return keep


# ---- declarations --------------------------------------------------------------------------------


@refused(
    "graph: the name 'a b' is no Python identifier (ASCII letters, digits and _): "
    "it becomes the name of the emitted function"
)
def name_of_the_graph(g, x, out):
    Graph("a b")


@refused("input 'y': unknown dtype 'float31': did you mean 'float32'?")
def unknown_dtype(g, x, out):
    g.input("y", [3], "float31")


@refused("a dim is an int or a size (Graph.size), not 'S'")
def dim_that_is_text(g, x, out):
    g.input("y", ["S"], "float32")


@refused("input 'y': unknown symbol 'S' at column 1 of \"S\"")
def unknown_size(g, x, out):
    g.input("y", [Size("S")], "float32")


@refused("there is a tensor or scalar 'x' already")
def name_taken(g, x, out):
    g.input("x", [1], "float32")


@refused("size 'S' is 0, no int above 0")
def size_of_nothing(g, x, out):
    g.size("S", 0)


@refused("there is a size, tunable or block 'S' already")
def size_twice(g, x, out):
    g.sizes(S=3)
    g.tunable("S", 3)


@refused("tunable 'T': the default 3 of 'T' is not one of its choices")
def default_that_is_no_choice(g, x, out):
    g.tunable("T", 3, [1, 2])


@refused("permuted: dims [0, 0] are no order of input x: float32[256, 128]")
def dims_that_are_no_order(g, x, out):
    g.permuted(x, [0, 0])


@refused("sliced: 1 slices for input x: float32[256, 128]")
def slices_that_lack(g, x, out):
    g.sliced(x, slice(3))


@refused("view 'y': 'y' cannot be a view of 'x': 63 elements are not 32768")
def view_of_other_size(g, x, out):
    g.view(x, [7, 9], name="y")


@refused("block_sizes names k; the blocks to choose are m")
def unknown_block(g, x, out):
    with g.grid(m=256) as (m,):
        out[m, :] = x[m, :]
    g.config(block_sizes={"k": 128})


# ---- bodies --------------------------------------------------------------------------------------


@refused("outside of a grid: values are computed inside of `with g.grid(...)`")
def no_grid(g, x, out):
    ops.exp(3.0)


@refused("a grid stands inside of no other: use g.loop")
def grid_in_grid(g, x, out):
    with g.grid(m=256):
        g.grid(n=128)


@refused("the document is whole when its grids are closed")
def document_of_an_open_grid(g, x, out):
    with g.grid(m=256):
        g.document()


@refused("the grid's axis 'm' needs bounds that are sizes")
def grid_without_end(g, x, out):
    g.grid(m=axis())


@refused("axis 'a b': 'a b' cannot stand in an expression: use letters, digits and _, as in \"u0\"")
def name_of_an_axis(g, x, out):
    g.grid(**{"a b": 256})


@refused("a bound of 'n' is an int, a size or int32[], not float32[m]")
def bound_that_is_no_int(g, x, out):
    with g.grid(m=256) as (m,):
        g.loop("n", x[m, 0])


@refused("a bound of 'n' is an int, a size or int32[], not None")
def loop_without_end(g, x, out):
    with g.grid(m=256):
        g.loop("n")


@refused("a condition is a bool of the kernel without dims, not bool[m, 128]")
def condition_with_dims(g, x, out):
    with g.grid(m=256) as (m,):
        g.if_(x[m, :] > 0)


@refused("a condition is a bool of the kernel without dims, not True")
def condition_of_python(g, x, out):
    with g.grid(m=256):
        g.while_(lambda: True)


@refused("else_ follows its if_, with nothing between")
def else_without_if(g, x, out):
    with g.grid(m=256) as (m,):
        with g.if_(m.id > 0):
            out[m, :] = x[m, :]
        out[m, :] = x[m, :]
        g.else_()


# ---- values --------------------------------------------------------------------------------------


@refused(
    "load: the index has entries for 1 dims, the tensor [256, 128] has 2: "
    "write one entry per dim, and null for each new axis"
)
def index_of_another_rank(g, x, out):
    with g.grid(m=256) as (m,):
        x[m]


@refused("an index has one entry for each dim: `...` is none")
def index_with_dots(g, x, out):
    with g.grid(m=256) as (m,):
        x[m, ...]


@refused("an index entry is 0.5: positions are ints")
def index_that_is_no_int(g, x, out):
    with g.grid(m=256) as (m,):
        x[m, 0.5]


@refused("tile 'n' is used outside of the loop over n")
def tile_outside_of_its_loop(g, x, out):
    with g.grid(m=256) as (m,):
        with g.loop("n", 128) as n:
            out[m, n] = x[m, n]
        x[m, n]


@refused("tile 'm' is used outside of the grid over m")
def tile_of_another_grid(g, x, out):
    with g.grid(m=256) as (m,):
        out[m, :] = x[m, :]
    with g.grid(rows=256):
        ops.exp(m.begin)


@refused(
    "add: operands of shapes [m, n] and [m] do not broadcast: "
    "sizes match if they are the same expression, or 1; aten.unsqueeze.default adds a dim"
)
def shapes_that_differ(g, x, out):
    with g.grid(m=256, n=128) as (m, n):
        x[m, n] + ops.sum(x[m, n], -1)


@refused(
    "matmul: cannot multiply [m, 128] by [m, 128]: "
    "the last dim of the first must be the last but one of the second: the same expression"
)
def factors_that_do_not_fit(g, x, out):
    with g.grid(m=256) as (m,):
        x[m, :] @ x[m, :]


@refused("sum: dim 2 is not in a value of rank 2: dims are counted from 0, or from -1 back")
def unknown_dim(g, x, out):
    with g.grid(m=256) as (m,):
        ops.sum(x[m, :], [2])


@refused("reduce: dim 2 is not in a value of rank 2: dims are counted from 0, or from -1 back")
def unknown_dim_of_a_reduction(g, x, out):
    with g.grid(m=256) as (m,):
        reduce(lambda a, b: a + b, x[m, :], 2)


@refused("tensor 'x' lies in HBM: take a tile of it, x[...]")
def tensor_as_operand(g, x, out):
    with g.grid(m=256):
        ops.exp(x)


@refused(
    "store: tensor 'x' is an input and cannot be written: "
    "give it the role `inout` (returned updated) or write an output"
)
def store_to_an_input(g, x, out):
    with g.grid(m=256) as (m,):
        x[m, :] = x[m, :]


@refused(
    "store: value of shape [m, 64] does not broadcast to the indexed [m, 128]: "
    "sizes match if they are the same expression, or 1"
)
def store_of_another_shape(g, x, out):
    with g.grid(m=256) as (m,):
        out[m, :] = x[m, 0:64]


@refused("'y' is no value of a kernel and no number")
def store_of_text(g, x, out):
    with g.grid(m=256) as (m,):
        out[m, :] = "y"


@refused(
    "bitwise_and: argument 0 is float32, it takes ints or bools: "
    "convert it with prims.convert_element_type.default"
)
def dtype_of_an_operand(g, x, out):
    with g.grid(m=256) as (m,):
        x[m, :] & 1


@refused(
    "a value of the kernel is not known yet: choose with ops.where or `with g.if_(...)`, "
    "and combine bools with & | ~"
)
def truth_of_a_value(g, x, out):
    with g.grid(m=256) as (m,):
        bool(m.id > 0)


@refused("a value of the kernel cannot be iterated over")
def values_of_a_value(g, x, out):
    with g.grid(m=256) as (m,):
        list(x[m, :])


@refused("input x: float32[256, 128] is of another graph")
def tensor_of_another_graph(g, x, out):
    with Graph("other").grid(m=256) as (m,):
        x[m, :]


@refused("'aten.foo' is no op: docs/ops.md lists them")
def unknown_op(g, x, out):
    with g.grid(m=256) as (m,):
        ops.call("aten.foo", x[m, :])


@refused("exp lacks its argument 'self'")
def argument_that_lacks(g, x, out):
    with g.grid(m=256):
        ops.call("aten.exp.default")


@refused("exp has no argument 'dim'; it has: self")
def unknown_argument(g, x, out):
    with g.grid(m=256) as (m,):
        ops.call("aten.exp.default", x[m, :], dim=0)


@refused("exp takes 1 by position, and is given 2 arguments")
def too_many_arguments(g, x, out):
    with g.grid(m=256) as (m,):
        ops.call("aten.exp.default", x[m, :], 3)


@refused("sum is given 'dim' twice")
def argument_twice(g, x, out):
    with g.grid(m=256) as (m,):
        ops.call("aten.sum.dim_IntList", x[m, :], 1, dim=1)


@refused("view: its shape depends on what sizes the blocks get: write it as an expression of them")
def shape_of_another_kind(g, x, out):
    with g.grid(m=256, n=128) as (m, n):
        ops.view(x[m, n], [m.size // 2, -1])


@refused("a dim is an int or a size (Graph.size), not 8.5")
def window_of_no_length(g, x, out):
    with g.grid(m=256) as (m,):
        x[ds(m.begin, 8.5), :]


# ---- variables -----------------------------------------------------------------------------------


@refused(
    "variable 'acc' is float32[m], and is assigned float32[m, n]: "
    "convert it with .to, or broadcast it with ops.expand"
)
def carried_of_another_shape(g, x, out):
    with g.grid(m=256) as (m,):
        acc = g.var(ops.zeros([m], dtype="float32"))
        with g.loop("n", 128) as n:
            acc.set(x[m, n])


@refused(
    "variable 'acc' is float32[m], and is assigned bfloat16[m]: "
    "convert it with .to, or broadcast it with ops.expand"
)
def carried_of_another_dtype(g, x, out):
    with g.grid(m=256) as (m,):
        acc = g.var(ops.zeros([m], dtype="float32"))
        with g.loop("n", 128) as n:
            acc.set(ops.sum(x[m, n].to("bfloat16"), -1))


@refused("variable 'acc' is used outside of the grid over m")
def variable_of_another_grid(g, x, out):
    with g.grid(m=256) as (m,):
        acc = g.var(x[m, :])
    with g.grid(rows=256):
        acc + 1


@refused(
    "'part' was computed inside of the loop over n (line {-1}), and is used outside: "
    "assign it to a variable of the body around (Graph.var), and use that"
)
def value_outside_of_its_loop(g, x, out):
    with g.grid(m=256) as (m,):
        with g.loop("n", 128) as n:
            part = ops.sum(x[m, n], -1)
        part + 1


@refused("the function of a scan or reduction computes with its arguments")
def function_of_more_than_its_arguments(g, x, out):
    with g.grid(m=256) as (m,):
        tile = x[m, :]
        associative_scan(lambda a, b: a + b + tile, tile, 1)


@refused("the function gives bool, and takes float32")
def function_of_another_dtype(g, x, out):
    with g.grid(m=256) as (m,):
        reduce(lambda a, b: a < b, x[m, :], 1)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    function, message = REFUSED[name]
    g = Graph("refused")
    x = g.input("x", [256, 128], "float32")
    out = g.output("out", [256, 128], "float32")
    lines, first = inspect.getsourcelines(function)
    last = first + len(lines) - 1
    with pytest.raises(BuildError) as found:
        function(g, x, out)
    message = message.replace("{-1}", str(last - 1))
    assert str(found.value) == f"test_build_errors.py:{last}: {message}"
    assert not is_open()
    with g.grid(m=256) as (m,):
        out[m, :] = x[m, :]
