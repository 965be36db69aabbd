"""`pallasc lint`: what an emitted module must not hold, found in its syntax tree.

Codes: P001 not Python, P101 code outside the kernel's skeleton, P102 import, P103 forbidden name,
P104 absolute path, P201 unused assignment, P202 repeated right-hand side, P203 repeated comment.
"""

import ast
import collections
import dataclasses
import io
import re
import sys
import tokenize

from .command import Parser
from .module import read_text

FORBIDDEN_NAMES = frozenset(
    "__import__ eval exec compile open input breakpoint getattr setattr delattr globals locals "
    "vars memoryview exit quit".split()
)
FORBIDDEN_MODULES = frozenset(
    "builtins code codeop ctypes gc imp importlib inspect io marshal mmap multiprocessing os "
    "pathlib pickle pkgutil platform pty runpy shelve shutil signal site socket subprocess sys "
    "sysconfig tempfile threading traceback urllib webbrowser".split()
)
# Calls that read or write memory, wait, or call back: never repeated by mistake.
EFFECTS = frozenset(
    "start wait fori_loop while_loop cond switch scan emit_pipeline run_scoped store swap "
    "semaphore_signal semaphore_wait semaphore_read delay debug_print prng_seed prng_random_bits "
    "sync_copy warn append extend pop update".split()
)
# Roots of pure calls; a method of any other value (x.astype) is pure as well.
PURE_ROOTS = frozenset("jnp jax lax pl pltpu math functools".split())
_PURE_BUILTINS = frozenset(
    "len range min max abs int float bool tuple list dict zip enumerate sum round".split()
)
_PATH = re.compile(
    r"""(?:^|[\s'"(=])(?:/(?:home|root|work|tmp|usr|var|etc|opt|mnt|Users|private)/|[A-Za-z]:\\)"""
)


@dataclasses.dataclass(frozen=True, order=True)
class Finding:
    """One thing found: where (line and column from 1), the code, and what it is."""

    line: int
    column: int
    code: str
    message: str

    def text(self, filename):
        """`file:line:column: CODE message`."""
        return f"{filename}:{self.line}:{self.column}: {self.code} {self.message}"


def lint_module(text, source_lines=None):
    """Findings in the text of an emitted module, in order.

    Args:
      text: the module.
      source_lines: the graph's source lines (`loc.code`), one entry for each place in the source;
        each may stand as a comment as often as it is listed. None: no comment twice in a function.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        line, column = getattr(error, "lineno", 1) or 1, getattr(error, "offset", 1) or 1
        return [Finding(line, column, "P001", f"not Python: {getattr(error, 'msg', error)}")]
    findings = [*_skeleton(tree), *_names(tree), *_strings(tree)]
    findings += _comments(text, tree, source_lines)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            findings += _unused(node)
            findings += _Repeats().function(node)
    return sorted(set(findings))


def _at(node, code, message):
    return Finding(node.lineno, node.col_offset + 1, code, message)


def _skeleton(tree):
    """Top-level statements other than docstring, imports, KERNEL_INFO and functions."""
    for index, node in enumerate(tree.body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            continue
        if isinstance(node, ast.FunctionDef):
            yield from _definition(node)
        elif index == 0 and _is_text(node):
            continue
        elif not (_is_info(node) or _is_rule(node, tree)):
            yield _at(node, "P101", "runs when the module is imported")


def _is_text(node):
    return isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)


def _is_info(node):
    if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)):
        return False
    if [getattr(target, "id", None) for target in node.targets] != ["KERNEL_INFO"]:
        return False
    try:
        ast.literal_eval(node.value)
    except ValueError:
        return False
    return True


def _is_rule(node, tree):
    """Whether it is `f.defvjp(g, h)` or `f.defjvp(g)`, of functions of the module."""
    call = node.value if isinstance(node, ast.Expr) else None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
        return False
    names = [getattr(part, "id", None) for part in (call.func.value, *call.args)]
    functions = {item.name for item in tree.body if isinstance(item, ast.FunctionDef)}
    rules = {"defvjp": 2, "defjvp": 1}
    right = rules.get(call.func.attr) == len(call.args) and not call.keywords
    return right and set(names) <= functions


def _definition(node):
    """Decorators and defaults of a function run on import: only jax's, a cache, and literals."""
    for decorator in node.decorator_list:
        if not (_is_jit(decorator) or ast.unparse(decorator) == "functools.cache"):
            yield _at(
                decorator,
                "P101",
                "a decorator other than jax.jit, jax.custom_vjp and jax.custom_jvp",
            )
    arguments = node.args
    annotated = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    annotated += [extra for extra in (arguments.vararg, arguments.kwarg) if extra]
    hints = [argument.annotation for argument in annotated] + [node.returns]
    for value in [*arguments.defaults, *arguments.kw_defaults, *hints]:
        if value is not None and not isinstance(value, ast.Constant):
            yield _at(value, "P101", "a default or annotation that is not a literal")


def _is_jit(decorator):
    """Whether it is jax.jit, jax.custom_..., or functools.partial(jax.jit, key=literal, ...)."""
    if isinstance(decorator, ast.Call):
        if ast.unparse(decorator.func) != "functools.partial" or len(decorator.args) != 1:
            return False
        try:
            for keyword in decorator.keywords:
                ast.literal_eval(keyword.value)
        except ValueError:
            return False
        decorator = decorator.args[0]
    return ast.unparse(decorator) in ("jax.jit", "jax.custom_vjp", "jax.custom_jvp")


def _names(tree):
    """Imports other than jax and harmless parts of the standard library; names that escape."""
    guarded = _guarded_nodes(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from _import(node, node in guarded)
        elif isinstance(node, ast.Name) and (
            node.id in FORBIDDEN_NAMES or re.fullmatch(r"__\w+__", node.id)
        ):
            yield _at(node, "P103", f"the name {node.id}")
        elif isinstance(node, ast.Attribute) and _is_dunder_attribute(node):
            yield _at(node, "P103", f"the attribute {node.attr}")
        elif isinstance(node, ast.Global | ast.Nonlocal | ast.ClassDef | ast.AsyncFunctionDef):
            yield _at(node, "P101", f"{type(node).__name__} in a kernel module")


def _is_dunder_attribute(node):
    """`x.__y__`, but for the version that the module checks."""
    dunder = re.fullmatch(r"__\w+__", node.attr)
    return dunder and ast.unparse(node) != "jax.__version_info__"


def _guarded_nodes(tree):
    """Nodes in a `try` of a function."""
    guarded = set()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for attempt in ast.walk(function):
                if isinstance(attempt, ast.Try):
                    guarded.update(node for item in attempt.body for node in ast.walk(item))
    return guarded


def _import(node, guarded):
    if isinstance(node, ast.ImportFrom):
        modules = [node.module or "."] if not node.level else ["."]
        private = "_src" in (node.module or "") or any(a.name == "_src" for a in node.names)
    else:
        modules = [alias.name for alias in node.names]
        private = any("_src" in name for name in modules)
    for name in modules:
        root = name.split(".")[0]
        if root != "jax" and root not in sys.stdlib_module_names:
            yield _at(node, "P102", f"imports {name}: neither jax nor the standard library")
        elif (root in FORBIDDEN_MODULES and not _counts_threads(node)) or (
            root.startswith("_") and root != "__future__"
        ):
            yield _at(node, "P102", f"imports {name}: a kernel has no use for it")
    if private and not guarded:
        yield _at(node, "P102", "imports a private module of jax outside a guarded helper")


def _counts_threads(node):
    """Whether it imports what says how many threads simulated devices have."""
    text = ast.unparse(node)
    return text == "from os import cpu_count, environ"


def _strings(tree):
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and _PATH.search(node.value)
        ):
            yield _at(node, "P104", "an absolute path in a string")


def _comments(text, tree, source_lines):
    """Repeated comments, and absolute paths in comments."""
    allowed = None
    if source_lines is not None:
        allowed = collections.Counter(" ".join(line.split()) for line in source_lines)
    seen = collections.Counter()
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, column = token.start[0], token.start[1] + 1
        comment = " ".join(token.string.lstrip("#").split())
        if _PATH.search(comment):
            yield Finding(line, column, "P104", "an absolute path in a comment")
        if allowed is None:
            key = (comment, _function_at(functions, line))
            limit = 1
        else:
            key, limit = comment, allowed.get(comment)
        seen[key] += 1
        if limit is not None and seen[key] > limit:
            yield Finding(line, column, "P203", f"the comment {comment!r} again")


def _function_at(functions, line):
    for index, function in enumerate(functions):
        if function.lineno <= line <= function.end_lineno:
            return index
    return None


def _unused(function):
    """Local names of a top-level function, and of those in it, that nothing reads."""
    # A name is looked up through the functions around it, so reads anywhere inside count.
    for scope in ast.walk(function):
        if not isinstance(scope, ast.FunctionDef):
            continue
        read = {
            node.id
            for node in ast.walk(scope)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        }
        for node in _own_nodes(scope):
            name = getattr(node, "id", None) or getattr(node, "name", None)
            stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            defined = isinstance(node, ast.FunctionDef) and not node.decorator_list
            if (stored or defined) and not name.startswith("_") and name not in read:
                yield _at(node, "P201", f"{name} is never read")
        yield from _overwritten(scope.body)


def _own_nodes(scope):
    """Nodes of a function without those of the functions in it (but these themselves)."""
    stack = list(scope.body)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            stack.extend(ast.iter_child_nodes(node))


def _overwritten(body):
    """Names assigned twice in straight-line code with no read between."""
    pending = {}
    for statement in body:
        names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
        for node in names:
            if isinstance(node.ctx, ast.Load):
                pending.pop(node.id, None)
        if not isinstance(statement, ast.Assign):
            inner = {node.id for node in names}
            pending = {name: node for name, node in pending.items() if name not in inner}
            continue
        for target in statement.targets:
            if not isinstance(target, ast.Name) or target.id.startswith("_"):
                continue
            if target.id in pending:
                yield _at(
                    pending[target.id], "P201", f"{target.id} is overwritten before it is read"
                )
            pending[target.id] = target


class _Repeats:
    """Finds assignments whose right-hand side was computed before and still holds.

    `known` maps the dump of a right-hand side to (line, names it reads, whether it loads from a
    subscripted name). Rebinding a name forgets what reads it; anything that may write memory
    forgets all loads.
    """

    def __init__(self):
        self.known = {}
        self.findings = []

    def function(self, node):
        """Findings in a function and those in it."""
        self._block(node.body)
        return self.findings

    def _block(self, body):
        for statement in body:
            self._statement(statement)

    def _statement(self, node):
        if isinstance(node, ast.Assign):
            self._assign(node)
        elif isinstance(node, ast.FunctionDef):
            self._nested(node)
        elif isinstance(node, ast.If | ast.For | ast.While | ast.With | ast.Try):
            self._compound(node)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            self._written(node.target)
        elif isinstance(node, ast.Expr) and _has_effects(node.value):
            self._forget_loads()

    def _assign(self, node):
        value = node.value
        if _has_effects(value):
            self._forget_loads()
        elif _is_work(value):
            key = ast.dump(value)
            if key in self.known:
                line = self.known[key][0]
                self.findings.append(_at(node, "P202", f"the same value as on line {line}"))
            reads = {item.id for item in ast.walk(value) if isinstance(item, ast.Name)}
            loads = any(isinstance(item, ast.Subscript) for item in ast.walk(value))
            for target in node.targets:
                self._written(target)
            if not reads & _bound_names(node.targets):
                self.known.setdefault(key, (node.lineno, reads, loads))
            return
        for target in node.targets:
            self._written(target)

    def _written(self, target):
        """Forgets what an assignment to `target` makes stale."""
        names = _bound_names([target])
        if names:
            self.known = {k: v for k, v in self.known.items() if not v[1] & names}
        if any(isinstance(item, ast.Subscript) for item in ast.walk(target)):
            self._forget_loads()

    def _forget_loads(self):
        self.known = {key: value for key, value in self.known.items() if not value[2]}

    def _nested(self, node):
        """A function's body sees what is known around it, but not its loads: it runs later."""
        outer = self.known
        self.known = dict(outer)
        immediate = any("when(" in ast.unparse(item) for item in node.decorator_list)
        if not immediate:
            self._forget_loads()
        arguments = node.args
        own = {
            item.arg for item in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        }
        self.known = {k: v for k, v in self.known.items() if not v[1] & own}
        self._block(node.body)
        self.known = outer
        if immediate:
            self._forget_loads()

    def _compound(self, node):
        """Each branch starts from what is known; what a branch changes is forgotten after it."""
        outer = self.known
        for body in _bodies(node):
            self.known = dict(outer)
            if isinstance(node, ast.For | ast.While):
                self._forget_stored(node)
            self._block(body)
        self.known = outer
        self._forget_stored(node)

    def _forget_stored(self, node):
        names = {
            item.id
            for item in ast.walk(node)
            if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)
        }
        self.known = {k: v for k, v in self.known.items() if not v[1] & names}
        self._forget_loads()


def _bodies(node):
    yield node.body
    for handler in getattr(node, "handlers", ()):
        yield handler.body
    for name in ("orelse", "finalbody"):
        if getattr(node, name, None):
            yield getattr(node, name)


def _bound_names(targets):
    return {
        item.id
        for target in targets
        for item in ast.walk(target)
        if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)
    }


def _is_work(value):
    """Whether computing `value` twice would be worth a name."""
    if isinstance(value, ast.Lambda):
        return False
    return any(
        isinstance(item, ast.Call | ast.BinOp | ast.Compare | ast.UnaryOp | ast.Subscript)
        for item in ast.walk(value)
    ) and any(isinstance(item, ast.Name) for item in ast.walk(value) if not _is_root(item))


def _is_root(node):
    return isinstance(node, ast.Name) and node.id in PURE_ROOTS


def _has_effects(value):
    """Whether a value holds a call that may write memory, or that is not known not to."""
    for call in ast.walk(value):
        if not isinstance(call, ast.Call):
            continue
        function = call.func
        if isinstance(function, ast.Name) and function.id not in _PURE_BUILTINS:
            return True
        if isinstance(function, ast.Attribute) and function.attr in EFFECTS:
            return True
        if not isinstance(function, ast.Name | ast.Attribute):
            return True
    return False


def main(argv):
    """`lint FILE...`: exit status 1 if anything is found."""
    parser = Parser(prog="pallasc lint", description="Lint emitted kernel modules.")
    parser.add_argument("file", nargs="+", metavar="FILE", help="module, or - for standard input")
    options = parser.parse_args(argv)
    clean = True
    for path in options.file:
        findings = lint_module(read_text(path))
        clean &= not findings
        for finding in findings:
            print(finding.text(path))
    return 0 if clean else 1
