"""Whether two modules are the same but for the names of variables, comments and line breaks.

`canonical` writes a module's syntax tree with each variable replaced by its number in the order of
first appearance. Variables are parameters, local names, and functions that the module defines;
what is imported, attributes, strings and other names of the module stay.
"""

import ast

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def same_but_names(one, other):
    """Whether two texts of modules are equal when variables are numbered."""
    return canonical(one) == canonical(other)


def canonical(text):
    """The syntax tree of a module as text, its variables numbered."""
    tree = ast.parse(text)
    _Numbering().visit(tree)
    return ast.dump(tree)


class _Scope:
    """Names that a function binds, each with what it is: a function's node, or None."""

    def __init__(self, around, bound, parameters=()):
        self.around, self.bound, self.numbers = around, bound, {}
        self.parameters = tuple(parameters)

    def find(self, name):
        """The innermost scope that binds the name, or None."""
        scope = self
        while scope and name not in scope.bound:
            scope = scope.around
        return scope


class _Numbering(ast.NodeTransformer):
    """Replaces variables by numbers, in the order in which they appear."""

    def __init__(self):
        self.scope, self.count, self.scopes = None, 0, {}

    def visit_Module(self, node):
        functions = {item.name: item for item in node.body if isinstance(item, _FUNCTIONS)}
        self.scope = _Scope(None, functions)
        return self.generic_visit(node)

    # ---- scopes

    def visit_FunctionDef(self, node):
        node.decorator_list = [self.visit(item) for item in node.decorator_list]
        self.defaults(node.args)
        node.name = self.renamed(node.name)
        self.inside(node, node.body)
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node):
        self.defaults(node.args)
        self.inside(node, [node.body])
        return node

    def defaults(self, arguments):
        """Default values belong to the scope around."""
        arguments.defaults = [self.visit(item) for item in arguments.defaults]
        arguments.kw_defaults = [item and self.visit(item) for item in arguments.kw_defaults]

    def inside(self, node, body):
        """Renames parameters and body, in the function's own scope."""
        around, self.scope = self.scope, self.scope_of(node, self.scope)
        for item in _parameters(node.args):
            item.arg = self.renamed(item.arg)
        body = [self.visit(item) for item in body]
        node.body = body[0] if isinstance(node, ast.Lambda) else body
        self.scope = around

    def scope_of(self, function, around):
        """A function's scope: made when it is entered, or called by a keyword before."""
        if function not in self.scopes:
            parameters = [item.arg for item in _parameters(function.args)]
            self.scopes[function] = _Scope(around, _bound(function), parameters)
        return self.scopes[function]

    def comprehension(self, node):
        """One has a scope of its own, and its sources come first."""
        around = self.scope
        names = {n.id: None for g in node.generators for n in _stored(g.target)}
        self.scope = _Scope(around, names)
        node.generators = [self.visit(item) for item in node.generators]
        for field in ("elt", "key", "value"):
            if hasattr(node, field):
                setattr(node, field, self.visit(getattr(node, field)))
        self.scope = around
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = comprehension

    # ---- names

    def renamed(self, name, scope=None):
        """The number of what a name is in a scope; the name, if it is none of ours."""
        found = (scope or self.scope).find(name)
        if not found:
            return name
        if name not in found.numbers:
            found.numbers[name] = f"v{self.count}"
            self.count += 1
        return found.numbers[name]

    def visit_Name(self, node):
        node.id = self.renamed(node.id)
        return node

    def visit_Global(self, node):
        node.names = [self.renamed(name) for name in node.names]
        return node

    visit_Nonlocal = visit_Global

    def visit_Call(self, node):
        called, around = self.called(node)
        scope = self.scope_of(called, around) if called else None
        node.func = self.visit(node.func)
        node.args = [self.visit(item) for item in node.args]
        for keyword in node.keywords:
            if scope and keyword.arg in scope.parameters:
                keyword.arg = self.renamed(keyword.arg, scope)
            keyword.value = self.visit(keyword.value)
        return node

    def called(self, node):
        """(function of ours, scope that binds it) that a call or a partial gives arguments."""
        function = node.func
        if getattr(function, "attr", None) == "partial" and node.args:
            function = node.args[0]
        scope = self.scope.find(function.id) if isinstance(function, ast.Name) else None
        return (scope.bound[function.id], scope) if scope else (None, None)


def _parameters(arguments):
    """The `ast.arg`s of a function in order."""
    given = [*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs]
    return [item for item in (*given, arguments.kwarg) if item]


def _stored(node):
    """`ast.Name`s that are bound in a node, not in functions and comprehensions in it."""
    pending = [node]
    while pending:
        item = pending.pop()
        if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store | ast.Del):
            yield item
        if not isinstance(item, _FUNCTIONS | _COMPREHENSIONS):
            pending += ast.iter_child_nodes(item)


def _bound(function):
    """{name: the function it is, or None} of what a function binds."""
    bound = {item.arg: None for item in _parameters(function.args)}
    outer, pending = set(), [function.body] if isinstance(function, ast.Lambda) else function.body
    pending = list(pending)
    while pending:
        item = pending.pop()
        if isinstance(item, ast.FunctionDef):
            bound[item.name] = item
        elif isinstance(item, ast.Global | ast.Nonlocal):
            outer.update(item.names)
        elif isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store):
            bound.setdefault(item.id)
        if not isinstance(item, _FUNCTIONS | _COMPREHENSIONS):
            pending += ast.iter_child_nodes(item)
    return {name: what for name, what in bound.items() if name not in outer}
